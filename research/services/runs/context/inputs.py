"""The outputs of earlier steps that later steps read: tracks, memory, time frame."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.utils import timezone

from beacon_site.text import injection
from beacon_site.text.cleaning import for_prompt
from beacon_site.text.messages import joined, ngettext
from beacon_site.text.sentences import split_sentences
from memory.models import Observation, Topic, Use
from memory.services.context import topic_block
from memory.services.context.topic_block import (
    observations_as_prompt,
    observations_for,
    still_offered,
)
from memory.services.llm import connections
from memory.services.topic_memory import TopicMemory
from research.claims.selection import PageText
from research.models import TopicSettings
from research.services.runs.context.outputs import PlanOutput, TracksOutput
from research.services.runs.context.run_context import RunContext

STEP: Final = "tracks"
MAX_NOTES_LENGTH = 4_000  # characters of one track's notes in the writing prompt
_PAGE = re.compile(r"\s*\[?\bp(\d{1,5})\b\]?")


def outcome(context: RunContext) -> TracksOutput:
    """Return the output of the tracks step. Empty if the run has none."""
    is_deep = context.run.depth == TopicSettings.Depth.DEEP
    return context.output(STEP) if is_deep else {}


def opened_places(context: RunContext) -> list[int]:
    """Return the places of the hits that the tracks opened. Empty if the run continues as quick."""
    return outcome(context).get("opened", [])


def notes(context: RunContext, pages: Sequence[PageText], most: int) -> list[tuple[str, str]]:
    """Return the tracks' names and notes for the writer, at most `most` characters in total.

    `pages` is the writer's numbered list of sources.
    """
    tracks = outcome(context).get("tracks", [])
    if not tracks:
        return []
    by_link = {page.url: page.number for page in pages}
    places = context.run.hits.filter(link__in=by_link).values_list("place", "link")
    numbers = {place: by_link[link] for place, link in places}
    each = min(MAX_NOTES_LENGTH, most // len(tracks))
    pairs = [(one["track"], _renumbered(one["notes"], numbers)[:each]) for one in tracks]
    return [(track, text) for track, text in pairs if text]


def _renumbered(text: str, numbers: dict[int, int]) -> str:
    """Return notes with `[p12]` replaced by the source number. Pages that aren't sources are removed."""

    def number(match: re.Match[str]) -> str:
        known = numbers.get(int(match[1]))
        return f" [{known}]" if known else ""

    text = for_prompt(_PAGE.sub(number, text))
    if injection.injection_reason(text):
        kept = [s for s in split_sentences(text) if not injection.injection_reason(s)]
        text = " ".join(kept)
    return text.strip()


# --- inputs ---

MAX_QUERY_LENGTH = 400  # characters; Tavily's limit is the lowest (providers.md 4)
_FRAMES = {
    TopicSettings.TimeFrame.DAY: timedelta(days=1),
    TopicSettings.TimeFrame.WEEK: timedelta(days=7),
    TopicSettings.TimeFrame.MONTH: timedelta(days=31),
    TopicSettings.TimeFrame.YEAR: timedelta(days=366),
}


def loaded_memory(context: RunContext) -> TopicMemory | None:
    """Return the memory that the run's first step loaded, or None for a baseline."""
    stored = context.output("load_memory").get("memory")
    return TopicMemory.from_json(stored) if stored else None


def since(settings: TopicSettings) -> Any:
    """Return the first day of the topic's time frame, or None for any time."""
    frame = _FRAMES.get(TopicSettings.TimeFrame(settings.time_frame))
    return timezone.localdate() - frame if frame else None


# --- Memory for prompt ---
#
# The best observations for a topic, for the prompts of its runs (R95). The plan chooses them once.
#
# The plan's output stores only their ids, so text that a person later deletes or marks as sensitive
# is neither repeated nor kept in a step.


def choose(
    context: RunContext, memory: TopicMemory | None, lessons: Sequence[Observation]
) -> list[Observation]:
    """Return the observations for the run's prompts, except those that repeat the lessons.

    Empty if no model will read them.
    """
    if connections.model_for(context.topic) is None or context.is_stopping:
        return []
    return observations_for(context.topic, _task(context.topic, context.settings), memory, lessons)


def task_of(topic: Topic) -> str:
    """Return the task of a topic's next run: its title, objective and focus."""
    return _task(topic, TopicSettings.objects.filter(topic=topic).first())


def _task(topic: Topic, settings: TopicSettings | None) -> str:
    wishes = [settings.objective, settings.focus] if settings else []
    return " ".join(filter(None, [topic.title, *wishes]))


def enter(context: RunContext, chosen: Sequence[Observation]) -> list[str]:
    """Return the observations as lines of a prompt, and record that the run used them."""
    Use.note_records(context.topic.owner, chosen, context.run.source)
    return observations_as_prompt(chosen)


def chosen(context: RunContext) -> list[Observation]:
    """Return the chosen observations that models can still see."""
    return still_offered(context.topic.owner, context.output("plan").get("observations", []))


def teach(context: RunContext, lessons: Sequence[Observation]) -> list[str]:
    """Return the lessons from corrections as lines of a prompt, and record that they were used."""
    Use.note_records(context.topic.owner, lessons, context.run.source)
    return topic_block.lessons_as_prompt(lessons)


def describe(output: PlanOutput) -> str:
    """Return the number of observations and lessons in a plan's output as text, or "" for none."""
    count, lessons = len(output.get("observations", [])), len(output.get("taught", []))
    words = []
    if count:
        message = ngettext("with %(count)d observation", "with %(count)d observations", count)
        words.append(message % {"count": count})
    if lessons:
        message = ngettext("%(count)d lesson learned", "%(count)d lessons learned", lessons)
        words.append(message % {"count": lessons})
    return joined(", ", words)
