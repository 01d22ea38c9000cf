"""What each step is given of its topic: the memory that the first one loaded, and the time frame."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from memory.topics.memory import TopicMemory
from research.models import TopicSettings
from research.working.context import RunContext

MOST_QUERY_LENGTH = 400  # characters; Tavily's limit is the lowest (providers.md 4)
_FRAMES = {
    TopicSettings.TimeFrame.DAY: timedelta(days=1),
    TopicSettings.TimeFrame.WEEK: timedelta(days=7),
    TopicSettings.TimeFrame.MONTH: timedelta(days=31),
    TopicSettings.TimeFrame.YEAR: timedelta(days=366),
}


def known(work: RunContext) -> TopicMemory | None:
    """Return the memory that the run's first step loaded, or None for a baseline."""
    stored = work.output("load_memory").get("memory")
    return TopicMemory.from_json(stored) if stored else None


def since(settings: TopicSettings) -> Any:
    """Return the first day of the topic's time frame, or None for any time."""
    frame = _FRAMES.get(TopicSettings.TimeFrame(settings.time_frame))
    return timezone.localdate() - frame if frame else None
