"""The tracks of a deep run: which there are, and which of them a run goes along."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memory.llm import connections
from research.working import inputs
from research.working.context import RunContext

AT_HOME = frozenset({"library", "sample"})  # they hold documents: no news of today, few voices


@dataclass(frozen=True, slots=True)
class Track:
    """One track; `part` is the number of its row and never changes, `task` stands in its prompt."""

    part: int
    name: str
    label: str | Promise
    task: str


OVERVIEW = Track(
    1,
    "overview",
    _("Overview"),
    "Find out what the subject is, how it stands today, who and what matters in it, and the "
    "numbers that describe it. Prefer primary and reference sources.",
)
NEWS = Track(
    2,
    "news",
    _("News"),
    "Find out what has happened lately: releases, decisions, events, figures, each with its date. "
    "Prefer the source that reports at first hand.",
)
VOICES = Track(
    3,
    "voices",
    _("Voices"),
    "Find out what people say about it: makers, users, experts and critics, where they disagree "
    "and why. Name who says what.",
)
TRACKS = (OVERVIEW, NEWS, VOICES)


def label_of(part: int) -> str:
    """Return what people call the track of that number."""
    return next((str(track.label) for track in TRACKS if track.part == part), str(part))


def chosen(work: RunContext) -> list[Track]:
    """Return the tracks of this run.

    An overview where nothing is known yet, or where the objective or focus says what to look into;
    news and voices unless only documents at hand are searched, which hold neither.
    """
    settings = work.settings
    services = set(connections.search_services(settings.services))
    if services and services <= AT_HOME:
        return [OVERVIEW]
    is_fresh = inputs.known(work) is None
    wants_more = bool(settings.objective.strip() or settings.focus.strip())
    return [*([OVERVIEW] if is_fresh or wants_more else []), NEWS, VOICES]
