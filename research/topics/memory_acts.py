"""What a person does to a topic's whole memory: end it, revive it, and delete it for good."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.models import Activity, Topic
from memory.texts.text import one_line
from research.schedules import scheduling


def end_memory(topic: Topic, *, by: Actor) -> bool:
    """Let the working memory lapse now: it is kept, not loaded; whether there was any alive."""
    if not topic.memory_is_live():
        return False
    with transaction.atomic():
        topic.let_lapse(by=by)
        Activity.log(topic.owner, by, "memory-ended", subject=topic)
    return True


def revive_memory(topic: Topic, *, by: Actor) -> bool:
    """Bring lapsed memory back for as long as a save would; whether there was any lapsed."""
    if not topic.memory_has_lapsed:
        return False
    with transaction.atomic():
        topic.revive(by=by, until=timezone.now() + scheduling.memory_lifetime(topic))
        Activity.log(topic.owner, by, "memory-revived", subject=topic)
    return True


def purge_topic(topic: Topic, *, typed: str, by: Actor) -> None:
    """Delete a trashed topic with its facts, runs and reports for good.

    Raises InvalidValue unless `typed` is its name and it lies in the trash.
    """
    if topic.trashed_at is None:
        raise InvalidValue(_("Only what is in Trash can be deleted permanently."))
    if one_line(typed) != one_line(topic.title):
        problem = _("That doesn’t match. Type “%(title)s” to confirm.")
        problem %= {"title": topic.title}
        raise InvalidValue(problem, errors={"name": [problem]})
    topic.purge(by=by)
