"""Correcting a topic fact on the version that was seen, and telling what others wrote meanwhile."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.models import Revision, Topic, TopicFact

_WORDS = ("text", "url", "state")


class FactConflict(MemoryRefused):
    """Somebody changed the same words meanwhile: what both began with, and what now stands."""

    def __init__(self, base: str, theirs: TopicFact, change: Revision) -> None:
        super().__init__(
            _(
                "This fact was changed since you opened it. Nothing was saved: compare the two "
                "and save again to put yours in its place."
            )
        )
        self.base = base
        self.theirs = theirs
        self.change = change


def edit_fact(fact: TopicFact, text: str, url: str, *, by: Actor, seen: int | None = None) -> None:
    """Correct `fact` as it was in version `seen` (None: as it is loaded).

    Changes of others that leave its words alone (order, lock) are no conflict; a fact that was
    struck or retired comes back with the new words.  Raises FactConflict where text, address or
    state changed meanwhile or `seen` is a version that there never was, InvalidValue and
    LimitReached.
    """
    try:
        with transaction.atomic():
            if fact.state != TopicFact.State.CURRENT and seen in (None, fact.version):
                fact.unstrike(by=by)
                seen = fact.version
            fact.edit(text, by=by, expected_version=seen, url=url)
    except StaleWrite as exc:
        with transaction.atomic():
            now = TopicFact.objects.select_for_update().get(pk=fact.pk)
            seen = seen or 0
            # Who saw a version that never was has seen nothing: the whole history is news.
            later = _later_changes(now, seen if seen <= now.version else 0)
            if later:
                base = next((c.before["text"] for c in later if "text" in c.before), now.text)
                raise FactConflict(base, now, later[-1]) from exc
            now.edit(text, by=by, url=url)
        fact.refresh_from_db()


def _later_changes(fact: TopicFact, seen: int) -> list[Revision]:
    """Return the revisions after version `seen` that changed what the fact says, oldest first."""
    revisions = Revision.objects.filter(
        record_type=fact.record_type(), record_id=fact.pk, version__gt=seen
    )
    found = revisions.order_by("version")
    return [
        change
        for change in found
        if any(change.before.get(name) != change.after.get(name) for name in _WORDS)
    ]


def move_fact(fact: TopicFact, way: str, *, by: Actor) -> None:
    """Move a current fact one place `up` or `down`; at the end of the list it stays."""
    with transaction.atomic():
        # The order is read once nobody else can change it, or the later move undoes the first.
        Topic.objects.select_for_update(no_key=True).get(pk=fact.topic_id)
        current = TopicFact.objects.filter(topic=fact.topic_id).current()
        ids = list(current.values_list("pk", flat=True))
        if fact.pk not in ids:
            return
        place = ids.index(fact.pk)
        other = place - 1 if way == "up" else place + 1
        if 0 <= other < len(ids):
            ids[place], ids[other] = ids[other], ids[place]
            TopicFact.objects.reorder(fact.topic, ids, by=by)


def restore_fact(fact: TopicFact, *, by: Actor) -> None:
    """Bring a fact back from the trash, among the current ones as far as there is room.

    Raises LimitReached if people hold eight of them already, InvalidValue if a run has found the
    same again; it stays in the trash then.
    """
    with transaction.atomic():
        Topic.objects.select_for_update().get(pk=fact.topic_id)
        if fact.trashed_at is not None and fact.state == TopicFact.State.CURRENT:
            current = list(TopicFact.objects.filter(topic=fact.topic_id).current())
            if any(other.key == fact.key for other in current):
                raise InvalidValue(_("That is among the topic's facts already."))
            if fact.is_kept:
                TopicFact.check_room(current)
            if len(current) >= TopicFact.MOST_CURRENT:
                replaceable = [other for other in current if not other.is_kept]
                replaceable[-1].retire(by=by, why=_("made room for a fact taken from the trash"))
        fact.restore(by=by)
