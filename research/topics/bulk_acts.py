"""One act on many topics at once: each by its own rules, the outcome counted in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.actors import Actor
from memory.errors import MemoryRefused
from memory.models import Topic
from research.models import Run, RunInTheWay
from research.running.allowance import NotNow
from research.running.starting import start_run
from research.schedules import scheduling
from research.topic_settings.editing import archive_topic, unarchive_topic

# What takes an act back; a started run is not taken back but cancelled on its page.
UNDOES = {"pause": "resume", "resume": "pause", "archive": "unarchive", "unarchive": "archive"}


@dataclass(slots=True)
class Outcome:
    """The topics on which the act was done, and why the others were left."""

    done: list[Any] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def _run(topic: Topic, by: Actor) -> bool:
    start_run(topic, trigger=Run.Trigger.PERSON, by=by)
    return True


def _pause(topic: Topic, by: Actor) -> bool:
    return scheduling.set_paused(topic, paused=True, by=by)


def _resume(topic: Topic, by: Actor) -> bool:
    return scheduling.set_paused(topic, paused=False, by=by)


def _archive(topic: Topic, by: Actor) -> bool:
    if topic.archived_at is not None:
        return False
    archive_topic(topic, by=by)
    return True


def _unarchive(topic: Topic, by: Actor) -> bool:
    if topic.archived_at is None:
        return False
    unarchive_topic(topic, by=by)
    return True


ACTS: dict[str, Callable[[Topic, Actor], bool]] = {
    "run": _run,
    "pause": _pause,
    "resume": _resume,
    "archive": _archive,
    "unarchive": _unarchive,
}


def act_on(topics: Iterable[Topic], act: str, *, by: Actor) -> Outcome:
    """Do `act` (a key of ACTS) on each topic; one that refuses does not stop the others."""
    outcome = Outcome()
    for topic in topics:
        try:
            if ACTS[act](topic, by):
                outcome.done.append(topic.pk)
        except (RunInTheWay, NotNow, MemoryRefused) as exc:
            reason = f"{topic}: {exc}"
            outcome.reasons.append(reason)
            if isinstance(exc, NotNow) and exc.retry_after:
                break  # the hour's limit holds for all that follow
    return outcome


def in_words(act: str, outcome: Outcome, asked: int) -> str:
    """Return what came of it as a sentence for the person."""
    done = len(outcome.done)
    sentences = {
        "run": ngettext("Started %(done)d run.", "Started %(done)d runs.", done),
        "pause": ngettext("Paused %(done)d topic.", "Paused %(done)d topics.", done),
        "resume": ngettext("Resumed %(done)d topic.", "Resumed %(done)d topics.", done),
        "archive": ngettext("Archived %(done)d topic.", "Archived %(done)d topics.", done),
        "unarchive": ngettext(
            "Took %(done)d topic from the archive.", "Took %(done)d topics from the archive.", done
        ),
    }
    words = sentences[act] % {"done": done}
    left = asked - done
    if left:
        words += " " + ngettext(
            "%(left)d was left as it was.", "%(left)d were left as they were.", left
        ) % {"left": left}
    if outcome.reasons:
        words += " " + " ".join(outcome.reasons[:3])
    elif left and act in ("pause", "resume"):
        words += " " + _("What has no schedule is run by hand only.")
    return words
