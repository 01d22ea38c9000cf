"""What people taught by correcting reports: lessons that each later run of the topic is told.

They are observations with the tag `taught`; whoever edits or deletes one changes what runs are told.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memory.models import Observation, Sensitivity, Topic, Trust
from memory.texts.text import for_prompt, one_line, shorten

TAG = "taught"
MOST = 12  # lessons of a topic in a prompt, the newest
LONGEST = 600  # characters of one


def of_topic(topic: Topic) -> list[Observation]:
    """Return the topic's lessons that may enter a prompt, the newest first."""
    mine = Observation.objects.of(topic.owner_id).active().filter(topic=topic, tags__contains=[TAG])
    told = mine.filter(category=Observation.Category.LESSON, trust=Trust.OWNER)
    return list(told.exclude(sensitivity=Sensitivity.SENSITIVE).order_by("-created", "-id")[:MOST])


def as_prompt(lessons: Iterable[Any]) -> list[str]:
    """Return the lessons as lines that stand between a prompt's marks."""
    return [shorten(one_line(for_prompt(one.content)), LONGEST) for one in lessons]
