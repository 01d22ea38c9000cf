"""Which documents can be among the best: conditions that let all of these through, and few others.

Of each level of a term (`terms.LEVELS`) it is known how many documents hold it, how often the term
stands in them and how long the shortest is: so, what it adds to a score at most.  A condition is a
tsquery over these levels, and the index answers it without a look at the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from memory.recall.looking import Level, Term, TermFigures
from memory.texts.terms import LEVELS, MOST_TIMES, level_of, tsquery_of

TOGETHER = (4, 3, 2)  # terms of which it is worked out that they must stand together
LONG = 600  # characters beyond which a condition costs the index more than it spares


def levels_of(
    word: str, weight: float, known: Mapping[str, TermFigures], norm_of: Callable[[int], float]
) -> tuple[Level, ...]:
    """Return the levels of a term that the space knows; `norm_of` tells what a length takes."""
    most = min(MOST_TIMES, known[word].most)
    steps = [(1, word), *((times, level_of(word, times)) for times in LEVELS)]
    levels: list[Level] = []
    bound = 0.0
    for (_times, lexeme), (until, _next) in zip(steps, [*steps[1:], (most + 1, "")], strict=True):
        figures = known.get(lexeme)
        if figures is None:
            continue
        times = max(1, min(most, until - 1))
        bound = max(bound, weight * times / (times + norm_of(figures.shortest)))
        levels.append(Level(tsquery_of([lexeme]), figures.documents, bound))
    return tuple(levels)


def likely(terms: Sequence[Term], documents: int, wanted: int, room: int) -> str:
    """Return the condition on documents that are likely the best; "" if none is worth a look.

    The terms stand together in them, and more than once where still more than `room` of the
    documents would do; `wanted` is how many there ought to be, as if words met by chance.
    """
    left = sorted(terms, key=lambda term: (term.levels[0].documents, term.lexeme))
    at = {left[0].lexeme: 0}
    expected = float(left[0].levels[0].documents)
    for term in left[1:]:
        fewer = expected * term.levels[0].documents / documents
        if expected > room and fewer >= wanted:
            at[term.lexeme], expected = 0, fewer
    for level in range(1, 1 + len(LEVELS)):
        for term in left:
            if at.get(term.lexeme) != level - 1 or level >= len(term.levels):
                continue
            share = term.levels[level].documents / max(1, term.levels[level - 1].documents)
            if expected > room and expected * share >= wanted:
                at[term.lexeme], expected = level, expected * share
    chosen = [term.levels[at[term.lexeme]].query for term in left if term.lexeme in at]
    return " & ".join(chosen) if len(at) > 1 or any(at.values()) else ""


def holding(terms: Sequence[Term], documents: int, need: float) -> str:
    """Return the tsquery of documents that may score `need`: it lets all of them through.

    Of several that do, the one that lets the fewest through.  The index evaluates all of it at each
    place that it visits, so a long one is not taken where there is a shorter.
    """
    found = []
    for together in TOGETHER:
        for with_levels in (True, False):
            try:
                found.append(_Condition(terms, documents, with_levels, LONG).made(need, together))
            except _TooLongError:
                continue
    if not found:
        endless = _Condition(terms, documents, False, 10**9)
        found.append(endless.made(need, TOGETHER[-1]))
    return min(found, key=lambda one: (one[1], len(one[0])))[0]


class _TooLongError(Exception):
    """The condition takes more characters than it may."""


class _Condition:
    """One condition in the making: which terms must stand together for a score, and how often."""

    def __init__(
        self, terms: Sequence[Term], documents: int, with_levels: bool, longest: int
    ) -> None:
        by_bound = sorted(terms, key=lambda term: (-term.bound, term.lexeme))
        self.levels = [
            term.levels
            if with_levels
            else (Level(term.query, term.levels[0].documents, term.bound),)
            for term in by_bound
        ]
        # What the terms from each place on add at most, all together.
        self.rest = [*accumulate((term.bound for term in reversed(by_bound)), initial=0.0)][::-1]
        self.documents = max(1, documents)
        self.room = longest

    def made(self, need: float, together: int) -> tuple[str, float]:
        """Return the condition, and the share of the documents that it lets through by chance."""
        return self._holds(0, need * (1 - 1e-9), together)

    def _holds(self, at: int, missing: float, together: int) -> tuple[str, float]:
        """Return the condition on the terms from `at` on, which can add up to what is missing."""
        behind = range(at + 1, len(self.levels))
        end = next((n for n in behind if self.rest[n] < missing), len(self.levels))
        parts: list[tuple[str, float]] = []
        for n in range(at, end):
            parts += self._first(n, missing, together)
        if not parts:  # what is left is less by a last digit
            parts = [self._part(levels[0]) for levels in self.levels[at:end]]
        return " | ".join(text for text, _share in parts), min(1.0, sum(s for _text, s in parts))

    def _first(self, n: int, missing: float, together: int) -> list[tuple[str, float]]:
        """Return the conditions on documents that hold none of the terms before this one."""
        parts: list[tuple[str, float]] = []
        before = ""
        for level in self.levels[n]:
            left = missing - level.bound
            if left > 0 and self.rest[n + 1] < left:
                continue
            text, share = self._part(level)
            if left <= 0 or together == 1:
                return [*parts, (text, share)]  # the levels above are among these
            inner, of_them = self._holds(n + 1, left, together - 1)
            if inner != before:
                parts.append((f"{text} & ({inner})", share * of_them))
                before = inner
        return parts

    def _part(self, level: Level) -> tuple[str, float]:
        self.room -= len(level.query) + 3
        if self.room < 0:
            raise _TooLongError
        return level.query, level.documents / self.documents
