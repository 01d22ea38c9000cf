"""How changes of research's settings are taken back: a topic's, its notices, the digest's."""

from __future__ import annotations

from typing import Any

from memory.accounts.settings_undo import Setting, now, register
from memory.accounts.settings_undo import State as SettingState
from memory.actors import Actor
from memory.models import Topic, User
from research.models import Channel, TopicNotices
from research.notifications import channels, digests
from research.topic_settings import editing as topic_editing

_DIGEST = ("often", "hour", "weekday", "even_if_quiet")
_NOTICES = ("own", "reports", "failures", "in_digest")


def register_kinds() -> None:
    """Tell memory of research's settings."""
    register("topic", Setting(_topic, _put_topic))
    register("digest", Setting(_digest, _put_digest))
    register("notices", Setting(_notices, _put_notices))


def _found(owner: User, target: str) -> Topic | None:
    topics = Topic.objects.of(owner).live().select_related("owner")
    found: Topic | None = topics.filter(pk=target).first()
    return found


def _topic(owner: User, target: str) -> SettingState | None:
    topic = _found(owner, target)
    return topic_editing.state_of(topic) if topic is not None else None


def _put_topic(owner: User, target: str, values: SettingState, by: Actor) -> None:
    topic = Topic.objects.of(owner).live().get(pk=target)
    topic_editing.edit_topic(topic, by=by, wanted=dict(values))


def _digest(owner: User, _target: str) -> SettingState | None:
    chosen = digests.settings_of(owner)
    out = TopicNotices.objects.filter(topic__owner=owner, in_digest=False)
    left_out = sorted(str(pk) for pk in out.values_list("topic_id", flat=True))
    return {name: getattr(chosen, name) for name in _DIGEST} | {"left_out": left_out}


def _put_digest(owner: User, target: str, values: SettingState, by: Actor) -> None:
    wanted: dict[str, Any] = {**now(owner, "digest", target), **values}
    left_out = Topic.objects.of(owner).filter(pk__in=wanted.pop("left_out"))
    digests.save_settings(owner, by=by, left_out=left_out, **wanted)


def _notices(owner: User, target: str) -> SettingState | None:
    topic = _found(owner, target)
    if topic is None:
        return None
    chosen = channels.choice_of(topic)
    out = chosen.left_out.values_list("pk", flat=True) if chosen.pk else ()
    left_out = sorted(str(pk) for pk in out)
    return {name: getattr(chosen, name) for name in _NOTICES} | {"left_out": left_out}


def _put_notices(owner: User, target: str, values: SettingState, by: Actor) -> None:
    wanted: dict[str, Any] = {**now(owner, "notices", target), **values}
    topic = Topic.objects.of(owner).live().select_related("owner").get(pk=target)
    left_out = Channel.objects.of(owner).filter(pk__in=wanted.pop("left_out"))
    channels.choose(topic, by=by, left_out=left_out, **wanted)
