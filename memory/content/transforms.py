"""Views of a content item: all of it, or a part that says of how much it is one (R114).

Every transform counts in characters or in lines, and says what it shows of how much.  What each
takes stands in `TRANSFORMS`, from which its documentation (docs/content-store.md) and the tool's
are made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from memory.content.filtering import filtered, place_of
from memory.content.limits import MOST_BYTES, whole_number
from memory.content.summarising import summary_of
from memory.errors import InvalidValue
from memory.texts.text import clean, shorten

CHARACTERS, LINES = "characters", "lines"
UNITS = (CHARACTERS, LINES)
LONGEST_QUERY = 400


@dataclass(frozen=True, slots=True)
class View:
    """What a transform shows of a text: `shown` of `of` units (`characters` or `lines`)."""

    text: str
    shown: int
    of: int
    unit: str = CHARACTERS

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.shown >= self.of

    def in_words(self) -> str:
        """Return how much of how much is shown."""
        told = {"shown": f"{self.shown:,}", "of": f"{self.of:,}"}
        if self.unit == LINES:
            return (
                ngettext(
                    "%(shown)s of %(of)s line shown", "%(shown)s of %(of)s lines shown", self.of
                )
                % told
            )
        return (
            ngettext(
                "%(shown)s of %(of)s character shown",
                "%(shown)s of %(of)s characters shown",
                self.of,
            )
            % told
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """Parameters that were checked."""

    n: int
    q: str
    unit: str


@dataclass(frozen=True, slots=True)
class Transform:
    """One transform: what it is for, whether it takes `n` and `q`, and what `n` is if not given."""

    name: str
    about: str | Promise
    show: Callable[[str, Asked], str]
    takes_n: bool = True
    takes_q: bool = False
    needs_q: bool = False
    usual: tuple[int, int] = (500, 20)  # characters, lines


def transform(
    text: str, name: str = "full", *, n: Any = None, q: Any = "", unit: Any = CHARACTERS
) -> View:
    """Return the view of `text` that the transform gives.

    Raises InvalidValue, with what to do, for a name, a parameter or a unit that is not known.
    """
    chosen = TRANSFORMS.get(name) if isinstance(name, str) else None
    if chosen is None:
        told = {"name": shorten(clean(str(name))[0], 40), "known": ", ".join(TRANSFORMS)}
        _refuse(
            "transform",
            _("There is no transform “%(name)s”. Choose one of: %(known)s.") % told,
        )
    asked = _checked(chosen, n=n, q=q, unit=unit)
    shown = chosen.show(text, asked)
    count = _lines_in if asked.unit == LINES else len
    return View(shown, min(count(shown), count(text)), count(text), asked.unit)


def _checked(chosen: Transform, *, n: Any, q: Any, unit: Any) -> Asked:
    if unit not in UNITS:
        told = {"unit": shorten(clean(str(unit))[0], 40), "known": ", ".join(UNITS)}
        _refuse("unit", _("There is no unit “%(unit)s”. Choose one of: %(known)s.") % told)
    named = {"name": chosen.name}
    if n is not None and not chosen.takes_n:
        _refuse("n", _("“%(name)s” shows everything and takes no n: leave it out.") % named)
    if not isinstance(q, str):
        _refuse("q", _("“q” is a text: the words to look for."))
    q = clean(q)[0].strip()
    if q and not chosen.takes_q:
        words = _("“%(name)s” takes no q. Leave it out, or use “filtered” or “excerpt”.")
        _refuse("q", words % named)
    if chosen.needs_q and not q:
        _refuse("q", _("“%(name)s” needs q: the words that are looked for.") % named)
    if len(q) > LONGEST_QUERY:
        told = {"most": f"{LONGEST_QUERY:,}", "have": f"{len(q):,}"}
        _refuse("q", _("“q” has at most %(most)s characters; this has %(have)s.") % told)
    usual = chosen.usual[UNITS.index(unit)]
    return Asked(usual if n is None else whole_number("n", n, MOST_BYTES), q, unit)


def _refuse(field: str, problem: str) -> NoReturn:
    raise InvalidValue(problem, errors={field: [problem]})


def _lines_in(text: str) -> int:
    """Count lines; a text that ends in a line break has none after it."""
    return text.count("\n") + (not text.endswith("\n")) if text else 0


# --- the six --------------------------------------------------------------------------------------


def _full(text: str, _asked: Asked) -> str:
    return text


def _first(text: str, asked: Asked) -> str:
    if asked.unit == CHARACTERS:
        return text[: asked.n]
    return _head(text, asked.n)


def _head(text: str, lines: int) -> str:
    """Return the first lines, each with its own end: only a line feed ends one."""
    end = -1
    for _number in range(lines):
        end = text.find("\n", end + 1)
        if end < 0:
            return text
    return text[: end + 1]


def _last(text: str, asked: Asked) -> str:
    if asked.unit == CHARACTERS:
        return text[-asked.n :]
    start = len(text) - text.endswith("\n")
    for _number in range(asked.n):
        start = text.rfind("\n", 0, start)
        if start < 0:
            return text
    return text[start + 1 :]


def _excerpt(text: str, asked: Asked) -> str:
    """Return what stands round the words, or at the beginning where none are named."""
    place = place_of(text, asked.q) if asked.q else 0
    if place < 0:
        return ""
    if asked.unit == CHARACTERS:
        start = max(0, min(place - asked.n // 2, len(text) - asked.n)) if asked.q else 0
        return text[start : start + asked.n]
    line = text.count("\n", 0, place)
    first = max(0, min(line - asked.n // 2, _lines_in(text) - asked.n)) if asked.q else 0
    begun = len(_head(text, first)) if first else 0
    return _head(text[begun:], asked.n)


def _summary(text: str, asked: Asked) -> str:
    return summary_of(text, asked.n, in_lines=asked.unit == LINES)


def _filtered(text: str, asked: Asked) -> str:
    return filtered(text, asked.q, asked.n, in_lines=asked.unit == LINES)


TRANSFORMS: dict[str, Transform] = {
    one.name: one
    for one in (
        Transform(
            "full",
            gettext_lazy("Everything, as it was stored. Takes no n and no q."),
            _full,
            takes_n=False,
        ),
        Transform(
            "excerpt",
            gettext_lazy(
                "n characters or lines round the first place where q stands; without q, at the "
                "beginning."
            ),
            _excerpt,
            takes_q=True,
        ),
        Transform(
            "summary",
            gettext_lazy(
                "The sentences that say most, in their order and word for word, of at most n "
                "characters in all; in lines: n sentences, one a line."
            ),
            _summary,
            usual=(1_000, 8),
        ),
        Transform("first_n", gettext_lazy("The first n characters or lines."), _first),
        Transform("last_n", gettext_lazy("The last n characters or lines."), _last),
        Transform(
            "filtered",
            gettext_lazy(
                "The lines that hold all words of q, in any case (or words that begin so; “words in "
                "quotes” next to each other; of a very long line what stands round them), of at "
                "most n characters or lines in all. Needs q."
            ),
            _filtered,
            takes_q=True,
            needs_q=True,
            usual=(2_000, 50),
        ),
    )
}
