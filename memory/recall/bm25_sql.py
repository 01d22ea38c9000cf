"""Exact BM25 over the search index in one composed SELECT, with MaxScore pruning.

Each term has an upper bound on what it adds to a score: the index keeps how many documents hold each
level of a term (`terms.LEVELS`), how often, and the length of the shortest. The documents of the
rarest terms are scored first. The score of the best `limit` of them says which other terms a better
document must hold together, and how often; only documents that can still be among the best are
scored then (MaxScore pruning). Such a condition is a tsquery, which the index answers without
reading documents.

The frequency of a term in a document comes from `ts_rank()`: with equal weights it is
(1 + 1/4 + ... + 1/tf^2) / 1.64493406685, which only rises, so `width_bucket()` over the mid-points
gives tf exactly, without unpacking the vector.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any

from django.db import connection

from memory.texts.terms import LABEL, LEVELS, MOST_TIMES, level_of, stemmed_as, tsquery_of

# --- scoring SELECT ----------------------------------------------------------------------------

_ZETA = 1.64493406685

Row = tuple[uuid.UUID, float, list[bool]]  # a record, its score, which of the terms it holds


@dataclass(frozen=True, slots=True)
class TermFigures:
    """In how many documents a term stands, how often at most, and the shortest of them."""

    documents: int
    most: int
    shortest: int


@dataclass(frozen=True, slots=True)
class Level:
    """The documents in which a term stands some times at least, and what it adds at most there.

    That is: to those of them that are not of the next level.
    """

    query: str
    documents: int
    bound: float


@dataclass(frozen=True, slots=True)
class Term:
    """A term that is asked for: `weight` is its times in the query x idf; the levels rise."""

    lexeme: str
    weight: float
    figures: TermFigures
    levels: tuple[Level, ...]

    @property
    def bound(self) -> float:
        """Return what it adds to a score at most."""
        return self.levels[-1].bound

    @property
    def query(self) -> str:
        """Return the tsquery of the documents that hold it."""
        return tsquery_of([self.lexeme])


@dataclass(frozen=True, slots=True)
class Among:
    """Which entries are ranked: SQL conditions on `e` with their parameters, and phrases."""

    where: tuple[str, ...] = ()
    params: tuple[Any, ...] = ()
    required: tuple[str, ...] = ()  # tsqueries, as of a phrase
    stands: bool | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether entries may be left out that the figures count."""
        return bool(self.where or self.required)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The best `limit` of the entries among those looked at; `place` is given back with them."""

    place: int
    among: Among
    limit: int


@dataclass(frozen=True, slots=True)
class Scored:
    """The documents of one space that `query` finds, scored by the terms.

    A document's length takes from a score by `norm[0] + norm[1] * length`.  Several lists may be
    wanted of them: those that stand and those that do not, with the same phrases.
    """

    space: int
    query: str
    terms: Sequence[Term]
    norm: tuple[float, float]
    wanted: Sequence[Wanted]


def rows_of(looks: Sequence[Scored]) -> dict[int, list[Row]]:
    """Carry out the looks as one statement; return the rows by place, best first in each."""
    parts = [_select(look) for look in looks]
    rows: dict[int, list[Row]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(f"({statement})" for statement, _params in parts),
            [value for _statement, params in parts for value in params],
        )
        for place, key, score, held in cursor.fetchall():
            rows[place].append((key, score, held))
    return rows


def _select(look: Scored) -> tuple[str, list[Any]]:
    """Return the SELECT of the best entries of each list, and its parameters.

    What several lists want is looked up and scored once, for all of them: the index is read by
    hundreds of thousands of places where words are frequent.
    """
    adds, values = _added(look.terms)
    among, among_params = _among(look.wanted)
    matched = ", ".join(["e.words @@ %s::tsquery"] * len(look.terms))
    best = " UNION ALL ".join(
        f"(SELECT %s::int AS place, s.id, s.record_id, s.score FROM scored s "  # noqa: S608  our own names  # nosec B608
        f"WHERE {_standing('s', one.among)} ORDER BY s.score DESC, s.record_id LIMIT %s)"
        for one in look.wanted
    )
    statement = (
        "WITH scored AS ("  # noqa: S608  our own names  # nosec B608
        f"SELECT c.id, c.record_id, c.stands, {adds} AS score FROM ("
        "SELECT e.id, e.record_id, e.stands, e.words, %s::float8 + %s::float8 * e.length AS norm "
        "FROM memory_searchentry e "
        f"WHERE e.words @@ %s::tsquery AND {among} AND e.space_id = %s OFFSET 0) c) "
        f"SELECT b.place, b.record_id, b.score, ARRAY[{matched}] FROM ({best}) b "
        "JOIN memory_searchentry e ON e.id = b.id"
    )
    required = [f"({query})" for query in look.wanted[0].among.required]
    return statement, [
        *values, *look.norm, " & ".join([f"({look.query})", *required]), *among_params, look.space,
        *(term.query for term in look.terms),
        *(value for one in look.wanted for value in (one.place, one.limit)),
    ]  # fmt: skip


def _among(wanted: Sequence[Wanted]) -> tuple[str, list[Any]]:
    """Return the condition on the entries of any of the lists, and its parameters."""
    lists = [" AND ".join([_standing("e", one.among), *one.among.where]) for one in wanted]
    return f"({' OR '.join(lists)})", [value for one in wanted for value in one.among.params]


def _standing(table: str, among: Among) -> str:
    if among.stands is None:
        return "TRUE"
    return f"{table}.stands" if among.stands else f"NOT {table}.stands"


def _added(terms: Sequence[Term]) -> tuple[str, list[Any]]:
    """Return the SQL of what the terms add up to, and its parameters.

    All in double precision: as `numeric`, which a plain figure is, it takes thrice the time.
    """
    parts: list[str] = []
    params: list[Any] = []
    for term in terms:
        if term.lexeme[0] == LABEL:
            parts.append("CASE WHEN c.words @@ %s::tsquery THEN %s::float8 ELSE 0 END")
            params += [term.query, term.weight]
            continue
        parts.append(
            "%s::float8 * (1 - c.norm / (c.norm + width_bucket("
            "ts_rank('{1,1,1,1}', c.words, %s::tsquery)::float8, %s::float8[])))"
        )
        params += [term.weight, term.query, _steps(min(MOST_TIMES, max(1, term.figures.most)))]
    return " + ".join(parts), params


@lru_cache(maxsize=MOST_TIMES)
def _steps(most: int) -> list[float]:
    """Return the mid-points between the ranks of a term that stands once, twice ... `most` times."""
    sums = list(accumulate(1 / (tf * tf) for tf in range(1, most + 1)))
    return [(sum_ - 0.5 / (tf * tf)) / _ZETA for tf, sum_ in enumerate(sums, 1)]


# --- MaxScore pruning --------------------------------------------------------------------------

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


# --- ranking -----------------------------------------------------------------------------------

MOST_TERMS = 32  # of a query, rarest first; what further ones add does not change an order
LABEL_WEIGHT = 0.5
FEW = 100  # documents that are looked at first, as far as the rarest terms have so many
MANY = 4_000  # those of one term that are not all looked at before others told what for
ENOUGH = 4  # times the documents wanted, of which a first look can make something
SEVERAL = 4  # times that, which are still looked at rather than fewer


@dataclass(frozen=True, slots=True)
class Formula:
    """BM25's constants; `b` None means by the space's average length (lexical)."""

    b: float | None = 0.75
    k1: float = 1.2
    labels: bool = False  # whether who said it, tags and topic count too

    def b_of(self, average: float) -> float:
        """Return b: short turns want no length normalisation, long messages want all of it."""
        if self.b is not None:
            return self.b
        return min(1.0, max(0.0, math.log(average / 18) / math.log(200 / 18)))


EXACT = Formula()
LEXICAL = Formula(b=None, labels=True)


@dataclass(slots=True)
class Space:
    """The figures of the records that are ranked among each other, and of the terms asked for."""

    id: int
    record_type: str
    language: str
    documents: int
    length: int
    has_superseded: bool
    terms: dict[str, TermFigures] = field(default_factory=dict)

    @property
    def average(self) -> float:
        """Return the average length of a document, in terms."""
        return self.length / self.documents if self.documents else 0.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """One entry found: its raw score, and which of the query's terms it holds."""

    record_id: uuid.UUID
    score: float
    matched: tuple[str, ...]


def spaces_of(
    owner: Any, types: Iterable[str], lexemes: Iterable[str], *, with_levels: bool = True
) -> list[Space]:
    """Return the owner's spaces of these types, with the figures of the terms; one query.

    Those of the terms' levels, which `ranked` needs, are among them unless `with_levels` is False.
    """
    asked = list(dict.fromkeys(lexemes))
    if with_levels:
        asked += [level_of(one, times) for one in asked if one[0] != LABEL for times in LEVELS]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.id, s.record_type, s.language, s.documents, s.length, "
            "EXISTS (SELECT 1 FROM memory_searchentry e WHERE e.space_id = s.id AND NOT e.stands), "
            "t.lexeme, t.documents, t.most, t.shortest FROM memory_searchspace s "
            "LEFT JOIN memory_searchterm t ON t.space_id = s.id AND t.lexeme = ANY(%s) "
            "AND t.documents > 0 WHERE s.owner_id = %s AND s.record_type = ANY(%s) ORDER BY s.id",
            [asked, owner.pk, list(types)],
        )
        rows = cursor.fetchall()
    found: dict[int, Space] = {}
    for *space, lexeme, documents, most, shortest in rows:
        one = found.setdefault(space[0], Space(*space))
        if lexeme is not None:
            one.terms[lexeme] = TermFigures(documents, most, shortest)
    return list(found.values())


def language_of(owner: Any) -> str:
    """Return the language as which the owner's texts are stemmed."""
    return stemmed_as(getattr(owner, "language", "") or "")


@dataclass(frozen=True, slots=True)
class Job:
    """One ranking: of the entries of a space, by terms of its language, the best `limit`.

    A word that stands twice in `words` weighs twice; `space.terms` must hold their figures.
    `beside` is the place of an earlier job of the same terms: then what scores less than the last
    that one finds is left out.
    """

    space: Space
    words: Sequence[str]
    formula: Formula
    limit: int
    among: Among = field(default_factory=Among)
    beside: int | None = None


@dataclass(frozen=True, slots=True)
class _Look:
    """Documents to look at.  All others hold `rest` terms alone, and if `is_last` do not matter."""

    query: str
    rest: tuple[Term, ...] = ()  # the rarest first
    room: int = 0
    is_last: bool = False


def ranked(jobs: Sequence[Job]) -> list[list[Ranked]]:
    """Return for each job the entries that fit best, best first: one query or two, seldom more."""
    found: list[list[Ranked]] = [[] for _job in jobs]
    terms = {
        place: known
        for place, job in enumerate(jobs)
        if job.limit > 0 and (known := _terms(job.space, job.words, job.formula))
    }
    looks = {
        place: _first_look(jobs[place], some)
        for place, some in terms.items()
        if jobs[place].beside is None
    }
    while looks:
        rows = rows_of([_scored(jobs, place, terms[place], look) for place, look in looks.items()])
        for place, some in rows.items():
            found[place] = _read(some, terms[place], found[place], jobs[place].limit)
        more = {place: _next_look(jobs[place], look, found[place]) for place, look in looks.items()}
        looks = {place: look for place, look in more.items() if look is not None}
    for place, job in enumerate(jobs):
        if job.beside is not None and len(least := found[job.beside]) >= jobs[job.beside].limit > 0:
            found[place] = [one for one in found[place] if one.score >= least[-1].score]
    return found


def _scored(jobs: Sequence[Job], place: int, terms: Sequence[Term], look: _Look) -> Scored:
    """Return the look for a job and those beside it."""
    space, formula = jobs[place].space, jobs[place].formula
    b = formula.b_of(space.average)
    norm = (formula.k1 * (1 - b), formula.k1 * b / space.average)
    wanted = [
        Wanted(at, job.among, job.limit)
        for at, job in enumerate(jobs)
        if place in (at, job.beside) and job.limit > 0
    ]
    return Scored(space.id, look.query, terms, norm, wanted)


def _first_look(job: Job, terms: list[Term]) -> _Look:
    """Return the documents of the rarest terms; where all are frequent those that hold several."""
    rest = sorted(terms, key=lambda term: (term.figures.documents, term.lexeme))
    room = max(FEW, ENOUGH * job.limit) * (4 if job.among.is_narrow else 1)
    return _look(rest, room, ENOUGH * job.limit, job.space.documents)


def _next_look(job: Job, look: _Look, best: list[Ranked]) -> _Look | None:
    """Return what else may be among the best; None if nothing can."""
    if look.is_last or not look.rest:
        return None
    if len(best) < job.limit:
        return _look(look.rest, look.room * 8, 0, 0)
    sure = best[-1].score * (1 - 1e-9)
    if sum(term.bound for term in look.rest) < sure:
        return None
    return _Look(holding(look.rest, job.space.documents, sure), is_last=True)


def _look(rest: Sequence[Term], room: int, wanted: int, documents: int) -> _Look:
    """Return the documents of the first terms as far as there is room, but of one at least.

    Of a term of many those that are likely the best do, if `documents` (of the space) is told.
    """
    totals = [*accumulate(term.figures.documents for term in rest)]
    taken = sum(total <= room for total in totals)
    queries = [term.query for term in rest[:taken]]
    others = rest[taken:]
    if others and (not taken or totals[taken - 1] < wanted):
        some = ""
        if documents and others[0].figures.documents > MANY:
            some = likely(others, documents, room // 2, SEVERAL * room)
        if some:
            queries.append(f"({some})")
        else:
            queries.append(others[0].query)
            others = others[1:]
    return _Look(" | ".join(queries), tuple(others), room)


def _read(
    rows: Iterable[Row], terms: Sequence[Term], known: Iterable[Ranked], limit: int
) -> list[Ranked]:
    """Return the best of what was found before and now, each once."""
    best = {one.record_id: one for one in known}
    for key, score, held in rows:
        matched = tuple(t.lexeme for t, has in zip(terms, held, strict=True) if has)
        best[key] = Ranked(key, score, matched)
    return sorted(best.values(), key=lambda one: (-one.score, one.record_id))[:limit]


def best_possible(space: Space, words: Sequence[str]) -> float:
    """Return the score that no document of the space can reach for these words."""
    return sum(
        count * _idf(space, space.terms[word].documents)
        for word, count in Counter(words).items()
        if word in space.terms
    )


def _idf(space: Space, documents: int) -> float:
    return math.log(1 + (space.documents - documents + 0.5) / (documents + 0.5))


def _terms(space: Space, words: Sequence[str], formula: Formula) -> list[Term]:
    """Return the terms that the space knows, what adds most first."""
    if not space.documents or not space.length:
        return []
    times = Counter(words)
    b = formula.b_of(space.average)

    def norm_of(length: int) -> float:
        return formula.k1 * (1 - b + b * max(1, length) / space.average)

    terms = []
    for word, count in times.items():
        for lexeme in (word, LABEL + word) if formula.labels else (word,):
            if figures := space.terms.get(lexeme):
                weight = count * _idf(space, figures.documents)
                levels: tuple[Level, ...]
                if lexeme[0] == LABEL:
                    weight *= LABEL_WEIGHT
                    query = tsquery_of([lexeme])
                    levels = (Level(query, figures.documents, weight),)
                else:
                    levels = levels_of(lexeme, weight, space.terms, norm_of)
                terms.append(Term(lexeme, weight, figures, levels))
    terms.sort(key=lambda term: (term.figures.documents, term.lexeme))
    return sorted(terms[:MOST_TERMS], key=lambda term: (-term.bound, term.lexeme))
