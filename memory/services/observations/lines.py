"""Checks of observations before they are stored, for every store and writer."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, is_visible, one_line, shorten
from beacon_site.text.numbers import grouped
from memory.models import Observation
from memory.models.actors import MAINTENANCE, REFLECTOR, RESEARCH, SYSTEM
from memory.models.errors import InvalidValue
from memory.services.notes.checks import NoteChecks

LONGEST_SOURCE = 200  # characters
MOST_LINES = 100  # texts stored by one request
MOST_CHARACTERS = 200_000  # characters of these texts in total: about a second of work
EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True)
class Line:
    """An observation to store: its text, its category, and where it came from."""

    category: str
    content: str
    tags: tuple[str, ...] = ()
    step_name: str = ""
    step_type: str = ""
    trust: str = ""  # the batch's, if empty

    @property
    def digest(self) -> str:
        """Return the digest by which equal texts match."""
        return Observation.digest_of(self.content)


def batch(
    findings: Iterable[str] = (), insights: Iterable[str] = (), lessons: Iterable[str] = ()
) -> list[Line]:
    """Return the lines of a batch in order: findings, insights, lessons (R67)."""
    groups = (("finding", findings), ("insight", insights), ("lesson", lessons))
    return [Line(category, content) for category, contents in groups for content in contents]


def single(category: str, content: str, **more: Any) -> Line:
    """Return one line. Raises InvalidValue if it is empty, while a batch leaves empty lines out."""
    checks = NoteChecks()
    checks.content(content)
    checks.raise_refused()
    return Line(category, content, **more)


def checked(lines: Sequence[Line]) -> list[Line]:
    """Return the lines as stored, without empty ones (R69).

    Raises InvalidValue if a line can't be stored, naming the line, or if none remains. A batch is
    stored completely or not at all (R68).
    """
    kept: list[Line] = []
    for place, line in enumerate(lines, start=1):
        one = _checked(line, place if len(lines) > 1 else 0)
        if one.content:
            kept.append(one)
    if not kept:
        problem = _("There is nothing to remember because every text is empty.")
        raise InvalidValue(problem, errors={"content": [problem]})
    return kept


def checked_size(lines: Sequence[Line]) -> None:
    """Raise InvalidValue if one request has too many lines or too much text."""
    characters = sum(len(line.content) for line in lines)
    if len(lines) <= MOST_LINES and characters <= MOST_CHARACTERS:
        return
    problem = _(
        "One request can store at most %(lines)d texts with %(most)s characters in total. This one has %(have_lines)s texts and %(have)s characters, so nothing was stored. Send them in parts."
    ) % {
        "lines": MOST_LINES,
        "most": grouped(MOST_CHARACTERS),
        "have_lines": grouped(len(lines)),
        "have": grouped(characters),
    }
    raise InvalidValue(problem, errors={"content": [problem]})


def _checked(line: Line, place: int) -> Line:
    checks = NoteChecks()
    category = checks.choice("category", line.category, Observation.Category.values)
    step_type = line.step_type and checks.choice(
        "step_type", line.step_type, Observation.StepType.values
    )
    content = clean(line.content)[0].strip()
    content = checks.content(content) if is_visible(content) else ""
    tags = tuple(checks.tags(line.tags))
    if place:
        which = _("Text %(place)d in the batch:") % {"place": place}
        checks.errors = {
            field: [f"{which} {message}" for message in messages]
            for field, messages in checks.errors.items()
        }
    checks.raise_refused()
    step_name = one_line(clean(line.step_name)[0])[:200]
    return replace(
        line,
        category=category,
        content=content,
        tags=tags,
        step_name=step_name,
        step_type=step_type,
    )


def checked_category(category: str) -> str:
    """Return the category. Raises InvalidValue with the valid ones for an unknown one."""
    checks = NoteChecks()
    known = checks.choice("category", category, Observation.Category.values)
    checks.raise_refused()
    return known


def checked_source(source: str) -> str:
    """Return the source as stored, `explicit` by default. Raises InvalidValue."""
    source = one_line(clean(source)[0]) or EXPLICIT
    if len(source) > LONGEST_SOURCE:
        problem = _("A source can have at most %(most)d characters, but this one has %(have)d.") % {
            "most": LONGEST_SOURCE,
            "have": len(source),
        }
        raise InvalidValue(problem, errors={"source": [problem]})
    return source


# Callers can name an origin, but can't claim to be a run, a session or someone else.
_NOT_TO_BE_NAMED = frozenset({"human", "run", "session", "agent", "import"})
_BEACONS_OWN = frozenset({"disk", *map(str, (RESEARCH, REFLECTOR, MAINTENANCE, SYSTEM))})


def callers_source(source: str) -> str:
    """Return the source that an agent gave. Raises InvalidValue for a reserved one."""
    source = checked_source(source)
    # Compared in any case and letter width, as a person would read it. AGENT:, GOAL: and RUN: are steps.
    kind, colon, _name = unicodedata.normalize("NFKC", source).partition(":")
    is_step = bool(colon) and source.startswith(("AGENT:", "GOAL:", "RUN:"))
    if not is_step and kind.strip().casefold() in (_NOT_TO_BE_NAMED if colon else _BEACONS_OWN):
        problem = _(
            "“%(source)s” is reserved for Beacon, so you can’t use it as a source. Name the task, such as GOAL:check-database, or leave it out."
        ) % {"source": shorten(source, 60)}
        raise InvalidValue(problem, errors={"source": [problem]})
    return source
