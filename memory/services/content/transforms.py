"""Views of a content item: the whole text or a part, which says how much of the whole it is (R114).

Transforms count in characters or in lines. `TRANSFORMS` holds their parameters; docs/content-store.md
and the description of the tool are made from it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log
from typing import Any, NoReturn

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.text.cleaning import clean, shorten
from beacon_site.text.messages import grouped
from beacon_site.text.sentences import Sentence, sentences
from beacon_site.text.terms import is_unspaced, query_terms
from memory.models.errors import InvalidValue
from memory.services.content.items import MAX_BYTES, whole_number

# --- matching lines ---

LONG_LINE = 1_000  # characters; only the text around the words is shown of a longer line
ROUND = 200  # characters on each side
MAX_WORDS = 20
_PARTS = re.compile(r"[\"“”„«»]([^\"“”„«»]+)[\"“”„«»]|(\S+)")


Patterns = dict[str, re.Pattern[str]]  # by the folded word or phrase


def patterns_of(q: str) -> Patterns:
    """Return the phrases in quotes and the other words, each once."""
    found = (phrase or word for phrase, word in _PARTS.findall(q))
    wanted = [part.strip('"“”„«»') for part in found]
    parts = list(dict.fromkeys(part for part in wanted if part.strip()))[:MAX_WORDS]
    return {part.casefold(): _pattern(part) for part in parts}


def _pattern(words: str) -> re.Pattern[str]:
    text = r"\s+".join(map(re.escape, words.split()))
    first, last = words.strip()[:1], words.strip()[-1:]
    # In scripts without spaces, a word can begin anywhere.
    begins = r"(?<![^\W_])" if first.isalnum() and not is_unspaced(first) else ""
    ends = r"(?!\d)" if last.isdigit() else ""
    return re.compile(f"{begins}{text}{ends}", re.IGNORECASE)


def place_of(text: str, q: str) -> int:
    """Return where the words begin: as a phrase, else in one line, else any of them; -1 if none."""
    patterns, folded_text, at = patterns_of(q), text.casefold(), 0
    known = [pattern for words, pattern in patterns.items() if _is_in(folded_text, words)]
    if len(known) == len(patterns):
        whole = _pattern(q).search(text) if patterns else None
        if whole is not None:
            return whole.start()
        for line, folded in _lines_with_folded(text):
            firsts = _firsts(line, folded, patterns)
            if firsts:
                return at + min(firsts)
            at += len(line) + 1
    anywhere = [found.start() for pattern in known if (found := pattern.search(text))]
    return min(anywhere, default=-1)


def filtered(text: str, q: str, n: int, *, in_lines: bool) -> str:
    """Return the lines that contain all the words: at most n lines or n characters in total."""
    patterns = patterns_of(q)
    if not patterns:
        return ""
    kept: list[str] = []
    room = n
    for piece in _pieces(text, patterns):
        kept.append(piece if in_lines else piece[:room])
        room -= 1 if in_lines else len(piece) + 1
        if room <= 0:
            break
    return "\n".join(kept)


def _pieces(text: str, patterns: Patterns) -> Iterator[str]:
    folded = text.casefold()
    if not all(_is_in(folded, words) for words in patterns):
        return
    for line, folded_line in _lines_with_folded(text):
        if not _firsts(line, folded_line, patterns):
            continue
        if len(line) <= LONG_LINE:
            yield line
        else:
            yield from _windows(line, patterns)


def _lines_with_folded(text: str) -> Iterator[tuple[str, str]]:
    return zip(text.split("\n"), text.casefold().split("\n"), strict=True)


def _firsts(line: str, folded: str, patterns: Patterns) -> list[int]:
    """Return the first position of each word in the line, or an empty list unless all occur."""
    # Much faster than a pattern where a word is missing.
    if not all(_is_in(folded, words) for words in patterns):
        return []
    found = [pattern.search(line) for pattern in patterns.values()]
    return [one.start() for one in found if one] if all(found) else []


def _is_in(folded: str, words: str) -> bool:
    return all(word in folded for word in words.split())


def _windows(line: str, patterns: Patterns) -> Iterator[str]:
    """Yield the text around the first word wherever the others are near it.

    A line can have eight million characters and a word occur in it a million times, so most
    positions cost only one comparison.
    """
    first, *rest = patterns.values()
    others = [_WordFinder(line, pattern) for pattern in rest]
    end = reach = 0
    for match in first.finditer(line):
        if match.start() < end or match.end() + ROUND < reach:
            continue  # shown already, or another word is too far ahead
        start = _at_space(line, max(end, match.start() - ROUND))
        stop = min(len(line), match.end() + ROUND)
        stop = stop if stop == len(line) else max(line.rfind(" ", match.end(), stop), match.end())
        reach = max((other.end_from(start) for other in others), default=0)
        if reach <= stop:
            end = stop
            yield line[start:stop].strip()


@dataclass(slots=True)
class _WordFinder:
    """Finds the next position of words in a line, for increasing start positions."""

    line: str
    pattern: re.Pattern[str]
    start: int = -1
    end: int = 0

    def end_from(self, place: int) -> int:
        """Return the end of the first match at or after `place`; out of reach if there is none."""
        if self.start < place:
            found = self.pattern.search(self.line, place)
            never = len(self.line) + ROUND + 1
            self.start, self.end = found.span() if found else (never, never)
        return self.end


def _at_space(line: str, start: int) -> int:
    """Return the next start of a word, if one is near."""
    if start == 0:
        return 0
    space = line.find(" ", start, start + ROUND // 2)
    return start if space < 0 else space + 1


# --- extractive summary ---

# The beginning of a longer text says what it is about; splitting it into sentences takes time.
MAX_READ_LENGTH, MAX_SENTENCES = 40_000, 600
_FEWEST_TERMS = 4


def summary_of(text: str, n: int, *, in_lines: bool) -> str:
    """Return the best sentences, at most `n` characters in total or `n` sentences, one per line.

    The result is deterministic.  A text without sentences (a table, data) is truncated instead.
    """
    found = sentences(text[:MAX_READ_LENGTH])[:MAX_SENTENCES]
    if not found:
        return "\n".join(text.split("\n")[:n]) if in_lines else text[:n]
    weights = _weights(found)
    best = sorted(found, key=lambda one: (-weights[one.position], one.position))
    kept: list[Sentence] = []
    room = n
    for one in best:
        cost = 1 if in_lines else len(one.quote) + 1
        if cost <= room + (not in_lines):  # no space after the last one
            kept.append(one)
            room -= cost
        if room <= 0:
            break
    if not kept:  # even the best sentence is too long
        return best[0].quote[:n]
    kept.sort(key=lambda one: one.position)
    return ("\n" if in_lines else " ").join(one.quote for one in kept)


def _weights(found: list[Sentence]) -> dict[int, float]:
    """Return each sentence's weight, from the terms it shares with others and its position."""
    terms = [set(query_terms(one.text)) for one in found]
    shared = Counter(term for some in terms for term in some)
    weights: dict[int, float] = {}
    for one, some in zip(found, terms, strict=True):
        if len(some) < _FEWEST_TERMS:
            weights[one.position] = 0.0
            continue
        central = sum(log(1 + shared[term]) for term in some) / (len(some) + 4)
        weights[one.position] = central * (1.3 if one.paragraph == 0 else 1.0)
    return weights


# --- the transforms ---

CHARACTERS, LINES = "characters", "lines"
UNITS = (CHARACTERS, LINES)
MAX_QUERY_LENGTH = 400


@dataclass(frozen=True, slots=True)
class View:
    """What a transform shows of a text: `shown` of `of` units (`characters` or `lines`)."""

    text: str
    shown: int
    of: int
    unit: str = CHARACTERS

    @property
    def is_all(self) -> bool:
        """Return True if nothing is left out."""
        return self.shown >= self.of

    def description(self) -> str:
        params = {"shown": grouped(self.shown), "of": grouped(self.of)}
        if self.unit == LINES:
            return (
                ngettext(
                    "%(shown)s of %(of)s line shown", "%(shown)s of %(of)s lines shown", self.of
                )
                % params
            )
        return (
            ngettext(
                "%(shown)s of %(of)s character shown",
                "%(shown)s of %(of)s characters shown",
                self.of,
            )
            % params
        )


@dataclass(frozen=True, slots=True)
class Transform:
    """One transform: its purpose, whether it takes `n` and `q`, and the default of `n`."""

    name: str
    about: str | Promise
    show: Callable[[str, int, str, bool], str]  # of a text, `n`, `q`, and whether `n` are lines
    takes_n: bool = True
    takes_q: bool = False
    needs_q: bool = False
    usual: tuple[int, int] = (500, 20)  # characters, lines


def transform(
    text: str, name: str = "full", *, n: Any = None, q: Any = "", unit: Any = CHARACTERS
) -> View:
    """Apply a transform to `text`.  Raises InvalidValue for an unknown name, parameter or unit."""
    chosen = TRANSFORMS.get(name) if isinstance(name, str) else None
    if chosen is None:
        params = {"name": shorten(clean(str(name))[0], 40), "known": ", ".join(TRANSFORMS)}
        _refuse(
            "transform",
            _("There is no transform “%(name)s”. Choose one of: %(known)s.") % params,
        )
    number, words = _checked(chosen, n=n, q=q, unit=unit)
    shown = chosen.show(text, number, words, unit == LINES)
    count = _lines_in if unit == LINES else len
    return View(shown, min(count(shown), count(text)), count(text), unit)


def _checked(chosen: Transform, *, n: Any, q: Any, unit: Any) -> tuple[int, str]:
    if unit not in UNITS:
        params = {"unit": shorten(clean(str(unit))[0], 40), "known": ", ".join(UNITS)}
        _refuse("unit", _("There is no unit “%(unit)s”. Choose one of: %(known)s.") % params)
    named = {"name": chosen.name}
    if n is not None and not chosen.takes_n:
        _refuse("n", _("“%(name)s” returns everything, so leave out n.") % named)
    if not isinstance(q, str):
        _refuse("q", _("“q” must be a string with the words to search for."))
    q = clean(q)[0].strip()
    if q and not chosen.takes_q:
        words = _("“%(name)s” doesn’t use q. Leave it out, or use “filtered” or “excerpt”.")
        _refuse("q", words % named)
    if chosen.needs_q and not q:
        _refuse("q", _("“%(name)s” needs q, the words to search for.") % named)
    if len(q) > MAX_QUERY_LENGTH:
        params = {"most": grouped(MAX_QUERY_LENGTH), "have": grouped(len(q))}
        _refuse(
            "q", _("“q” can have at most %(most)s characters, but yours has %(have)s.") % params
        )
    usual = chosen.usual[UNITS.index(unit)]
    return usual if n is None else whole_number("n", n, MAX_BYTES), q


def _refuse(field: str, problem: str) -> NoReturn:
    raise InvalidValue(problem, errors={field: [problem]})


def _lines_in(text: str) -> int:
    """Count lines; a line break at the end starts no further line."""
    return text.count("\n") + (not text.endswith("\n")) if text else 0


# --- the six built-in ones ---


def _full(text: str, _n: int, _q: str, _in_lines: bool) -> str:
    return text


def _first(text: str, n: int, _q: str, in_lines: bool) -> str:
    if not in_lines:
        return text[:n]
    return _head(text, n)


def _head(text: str, lines: int) -> str:
    """Return the first lines with their line feeds; no other character ends a line."""
    end = -1
    for _number in range(lines):
        end = text.find("\n", end + 1)
        if end < 0:
            return text
    return text[: end + 1]


def _last(text: str, n: int, _q: str, in_lines: bool) -> str:
    if not in_lines:
        return text[-n:]
    start = len(text) - text.endswith("\n")
    for _number in range(n):
        start = text.rfind("\n", 0, start)
        if start < 0:
            return text
    return text[start + 1 :]


def _excerpt(text: str, n: int, q: str, in_lines: bool) -> str:
    """Return the text around the words, or the beginning without any."""
    place = place_of(text, q) if q else 0
    if place < 0:
        return ""
    if not in_lines:
        start = max(0, min(place - n // 2, len(text) - n)) if q else 0
        return text[start : start + n]
    line = text.count("\n", 0, place)
    first = max(0, min(line - n // 2, _lines_in(text) - n)) if q else 0
    begun = len(_head(text, first)) if first else 0
    return _head(text[begun:], n)


def _summary(text: str, n: int, _q: str, in_lines: bool) -> str:
    return summary_of(text, n, in_lines=in_lines)


def _filtered(text: str, n: int, q: str, in_lines: bool) -> str:
    return filtered(text, q, n, in_lines=in_lines)


TRANSFORMS: dict[str, Transform] = {
    one.name: one
    for one in (
        Transform(
            "full",
            gettext_lazy("The full text, as it was stored. n and q have no effect."),
            _full,
            takes_n=False,
        ),
        Transform(
            "excerpt",
            gettext_lazy(
                "n characters or lines around the first match of q. Without q, from the beginning."
            ),
            _excerpt,
            takes_q=True,
        ),
        Transform(
            "summary",
            gettext_lazy(
                "The most informative sentences, unchanged and in order, at most n characters in total. With lines as the unit: n sentences, one per line."
            ),
            _summary,
            usual=(1_000, 8),
        ),
        Transform("first_n", gettext_lazy("The first n characters or lines."), _first),
        Transform("last_n", gettext_lazy("The last n characters or lines."), _last),
        Transform(
            "filtered",
            gettext_lazy(
                "The lines that contain all words of q, or words that start with them, ignoring case. “Words in quotes” match as a phrase. Very long lines are cut to the text around the match. At most n characters or lines in total. Needs q."
            ),
            _filtered,
            takes_q=True,
            needs_q=True,
            usual=(2_000, 50),
        ),
    )
}
