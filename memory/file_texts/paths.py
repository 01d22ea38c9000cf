"""Which files there may be: two for facts, one a month for episodes, and nothing else (seed 003)."""

from __future__ import annotations

import re
from datetime import date

from django.utils.translation import gettext as _

from memory.errors import InvalidValue
from memory.texts.text import clean, shorten

FACTS = ("facts/user.md", "facts/memory.md")
_MONTH = re.compile(r"episodes/([12][0-9]{3}-(?:0[1-9]|1[0-2]))\.md")


def checked_path(path: object) -> str:
    """Return `path` if it is one of the closed set.  Raises InvalidValue that names the set.

    Compared letter by letter: nothing is normalised, so no other spelling can lead anywhere.
    """
    if isinstance(path, str) and (path in FACTS or _MONTH.fullmatch(path)):
        return path
    problem = _(
        "There is no memory file “%(path)s”. Facts are kept in facts/user.md and "
        "facts/memory.md, episodes in one file a month such as episodes/2026-02.md; no other "
        "name is allowed."
    ) % {"path": shorten(clean(str(path)[:400])[0], 80)}
    raise InvalidValue(problem, errors={"path": [problem]})


def is_fact(path: str) -> bool:
    """Whether it is one of the two fact files, which share one budget."""
    return path in FACTS


def month_of(path: str) -> str:
    """Return the month of an episode file (`2026-02`); empty for a fact file."""
    found = _MONTH.fullmatch(path)
    return found[1] if found else ""


def path_of_month(day: date) -> str:
    """Return the episode file of a day's month."""
    return f"episodes/{day.year:04}-{day.month:02}.md"


def place_of(path: str) -> tuple[int, str]:
    """Return what lists of files are sorted by: facts first, as the seed does, then the months."""
    return (FACTS.index(path), "") if path in FACTS else (len(FACTS), path)
