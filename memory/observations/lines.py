"""Checks observations before they are stored, the same way for every store and writer."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, is_visible, one_line, shorten
from memory.core.actors import MAINTENANCE, REFLECTOR, RESEARCH, SYSTEM
from memory.core.errors import InvalidValue
from memory.models import Observation
from memory.notes.checks import NoteChecks

LONGEST_SOURCE = 200  # characters
MOST_LINES = 100  # texts that one request stores
MOST_CHARACTERS = 200_000  # of these texts together: about a second of work
EXPLICIT = "explicit"


@dataclass(frozen=True, slots=True)
class Line:
    """One observation to be: its words, its category, and what is known of where it was taken."""

    category: str
    content: str
    tags: tuple[str, ...] = ()
    step_name: str = ""
    step_type: str = ""
    trust: str = ""  # that of the batch, where it is empty

    @property
    def digest(self) -> str:
        """Return what two writings of the same words have in common."""
        return Observation.digest_of(self.content)


def batch(
    findings: Iterable[str] = (), insights: Iterable[str] = (), lessons: Iterable[str] = ()
) -> list[Line]:
    """Return the lines of a batch in its order: findings, insights, lessons (R67)."""
    groups = (("finding", findings), ("insight", insights), ("lesson", lessons))
    return [Line(category, content) for category, contents in groups for content in contents]


def single(category: str, content: str, **more: Any) -> Line:
    """Return one line.  Raises InvalidValue if it is empty, where a batch would leave it out."""
    checks = NoteChecks()
    checks.content(content)
    checks.raise_refused()
    return Line(category, content, **more)


def checked(lines: Sequence[Line]) -> list[Line]:
    """Return the lines as they are stored; those with nothing to read are left out (R69).

    Raises InvalidValue if one may not be stored, naming which, or if none is left: a batch is
    stored whole or not at all (R68).
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
    """Raise InvalidValue for more than one request may store, with the limit in words."""
    characters = sum(len(line.content) for line in lines)
    if len(lines) <= MOST_LINES and characters <= MOST_CHARACTERS:
        return
    problem = _(
        "One request can store at most %(lines)d texts with %(most)s characters in total. This one has %(have_lines)s texts and %(have)s characters, so nothing was stored. Send them in parts."
    ) % {
        "lines": MOST_LINES,
        "most": f"{MOST_CHARACTERS:,}",
        "have_lines": f"{len(lines):,}",
        "have": f"{characters:,}",
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
        which = _("Text %(place)d of the batch:") % {"place": place}
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
    """Return the category.  Raises InvalidValue, with the known ones, for another."""
    checks = NoteChecks()
    known = checks.choice("category", category, Observation.Category.values)
    checks.raise_refused()
    return known


def checked_source(source: str) -> str:
    """Return the source as it is stored; none given is `explicit`.  Raises InvalidValue."""
    source = one_line(clean(source)[0]) or EXPLICIT
    if len(source) > LONGEST_SOURCE:
        problem = _("A source can have at most %(most)d characters, but this one has %(have)d.") % {
            "most": LONGEST_SOURCE,
            "have": len(source),
        }
        raise InvalidValue(problem, errors={"source": [problem]})
    return source


# A caller may name where something came from, but not pass for a run, a session or somebody else.
_NOT_TO_BE_NAMED = frozenset({"human", "run", "session", "agent", "import"})
_BEACONS_OWN = frozenset({"disk", *map(str, (RESEARCH, REFLECTOR, MAINTENANCE, SYSTEM))})


def callers_source(source: str) -> str:
    """Return the source that an agent named.  Raises InvalidValue for one that is not its to name."""
    source = checked_source(source)
    # As a person reads it: in any case, and in letters of any width. AGENT:, GOAL: and RUN: are steps.
    kind, colon, _name = unicodedata.normalize("NFKC", source).partition(":")
    is_step = bool(colon) and source.startswith(("AGENT:", "GOAL:", "RUN:"))
    if not is_step and kind.strip().casefold() in (_NOT_TO_BE_NAMED if colon else _BEACONS_OWN):
        problem = _(
            "“%(source)s” is reserved for Beacon, so you can’t use it as a source. Name the task, such as GOAL:check-database, or leave it out."
        ) % {"source": shorten(source, 60)}
        raise InvalidValue(problem, errors={"source": [problem]})
    return source
