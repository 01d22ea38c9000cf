"""Exact BM25 over the search index in one composed SELECT, with MaxScore pruning.

Each term has an upper bound on what it adds to a score. For each level of a term (`terms.LEVELS`)
the index stores how many documents contain it, how often, and the length of the shortest. The
documents with the rarest terms are scored first. From the lowest score among the best `limit` of
them follows which other terms a better document must contain together, and how often. Only documents
that can still be among the best are scored after that (MaxScore pruning). The conditions are
tsqueries, which the index answers without reading documents.

The frequency of a term in a document comes from `ts_rank()`. With equal weights it is
(1 + 1/4 + ... + 1/tf^2) / 1.64493406685, which rises with tf, so `width_bucket()` over the mid-points
gives tf exactly, without unpacking the vector.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush
from itertools import accumulate
from itertools import count as numbers_from
from typing import Any, NamedTuple

from django.db import connection

from beacon_site.text.terms import LABEL, LEVEL, LEVELS, MAX_TIMES, level_of, stemmed_as, tsquery_of
from memory.models import as_of

# --- scoring SELECT ----------------------------------------------------------------------------

_ZETA = 1.64493406685

Row = tuple[uuid.UUID, float, list[bool]]  # record, score, which of the terms it contains


# Tuples, because a search creates hundreds of them.
class TermFigures(NamedTuple):
    """How many documents contain a term, how often at most, and the length of the shortest."""

    documents: int
    max_count: int
    min_length: int


class Level(NamedTuple):
    """The documents that contain a term at least so often, and the most that it adds to a score.

    The bound applies to those of them that don't reach the next level.
    """

    query: str
    documents: int
    bound: float


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the query: `weight` is its count in the query x idf; the levels ascend."""

    lexeme: str
    weight: float
    figures: TermFigures
    levels: tuple[Level, ...]

    @property
    def bound(self) -> float:
        """Return the most that the term adds to a score."""
        return self.levels[-1].bound

    @property
    def query(self) -> str:
        return tsquery_of([self.lexeme])


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries are ranked: SQL conditions on `e` with their parameters, and phrases."""

    where: tuple[str, ...] = ()
    params: tuple[Any, ...] = ()
    required: tuple[str, ...] = ()  # tsqueries, such as phrases
    is_current: bool | None = None
    is_narrow: bool = False  # whether many entries that the figures count are left out


def rows_of(parts: Sequence[tuple[str, list[Any]]]) -> dict[int, list[Row]]:
    """Run all lookups in one statement; return the rows by place, best first."""
    rows: dict[int, list[Row]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(f"({statement})" for statement, _params in parts),
            [value for _statement, params in parts for value in params],
        )
        for place, key, score, held in cursor.fetchall():
            rows[place].append((key, score, held))
    return rows


def _select(
    jobs: Sequence[Job], place: int, terms: Sequence[Term], look: _Lookup
) -> tuple[str, list[Any]]:
    """Return the SELECT of the best entries of a job and the jobs beside it, and its parameters.

    Those are current and superseded records, with the same phrases. Length lowers a score by
    `norm[0] + norm[1] * length`.

    Entries are looked up and scored once for all lists: for frequent words the index reads
    hundreds of thousands of positions. Each tsquery is a separate index scan.
    """
    space, formula = jobs[place].space, jobs[place].formula
    b = formula.b_of(space.average)
    norm = (formula.k1 * (1 - b), formula.k1 * b / space.average)
    pairs = [
        (at, job) for at, job in enumerate(jobs) if place in (at, job.beside) and job.limit > 0
    ]
    adds, values = _added(terms)
    among, among_params = _among([job.among for _at, job in pairs])
    required = [f"({query})" for query in pairs[0][1].among.required]
    queries = [" & ".join([f"({query})", *required]) for query in look.queries]
    found = " OR ".join(["e.words @@ %s::tsquery"] * len(queries))
    matched = ", ".join(["words @@ %s::tsquery"] * len(terms))
    entries = f"memory_searchentry e WHERE ({found}) AND e.space_id = %s AND"
    if look.is_small:
        entries = f"(SELECT * FROM {entries} TRUE OFFSET 0) e WHERE"  # noqa: S608  our own names  # nosec B608
    # The words of the best few are read again, because keeping those of all takes much memory. As of a
    # date, that would read all entries.
    kept_words, join = ", c.words", ""
    if as_of.current() is None:
        kept_words, join = "", "JOIN memory_searchentry e USING (id)"
    best = " UNION ALL ".join(
        f"(SELECT %s::int AS place, s.* FROM scored s "  # noqa: S608  our own names  # nosec B608
        f"WHERE {_is_current_condition('s', job.among)} ORDER BY s.score DESC, s.record_id LIMIT %s)"
        for _at, job in pairs
    )
    statement = (
        "WITH scored AS ("  # noqa: S608  our own names  # nosec B608
        f"SELECT c.id, c.record_id, c.is_current{kept_words}, {adds} AS score FROM ("
        "SELECT e.id, e.record_id, e.is_current, e.words, %s::float8 + %s::float8 * e.length AS norm "
        f"FROM {entries} {among} OFFSET 0) c) "
        f"SELECT b.place, b.record_id, b.score, ARRAY[{matched}] FROM ({best}) b {join}"
    )
    return statement, [
        *values, *norm, *queries, space.id, *among_params,
        *(term.query for term in terms),
        *(value for at, job in pairs for value in (at, job.limit)),
    ]  # fmt: skip


def matching_ids(space: Space, among: EntryFilter, ids: Iterable[uuid.UUID]) -> set[uuid.UUID]:
    """Return those of the records whose entries match the filter."""
    where, params = _among([among])
    phrases = "".join(" AND e.words @@ %s::tsquery" for _query in among.required)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT e.record_id FROM memory_searchentry e WHERE e.space_id = %s "  # noqa: S608  our own names  # nosec B608
            f"AND e.record_id = ANY(%s) AND {where}{phrases}",
            [space.id, list(ids), *params, *among.required],
        )
        return {key for (key,) in cursor.fetchall()}


def _among(filters: Sequence[EntryFilter]) -> tuple[str, list[Any]]:
    """Return the condition on the entries of any of the lists, and its parameters."""
    lists = [" AND ".join([_is_current_condition("e", one), *one.where]) for one in filters]
    return f"({' OR '.join(lists)})", [value for one in filters for value in one.params]


def _is_current_condition(table: str, among: EntryFilter) -> str:
    if among.is_current is None:
        return "TRUE"
    return f"{table}.is_current" if among.is_current else f"NOT {table}.is_current"


def _added(terms: Sequence[Term]) -> tuple[str, list[Any]]:
    """Return the SQL of the score, and its parameters.

    All in double precision: with `numeric`, the type of a plain literal, it takes three times as
    long.
    """
    parts: list[str] = []
    params: list[Any] = []
    labels = [term for term in terms if term.lexeme[0] == LABEL]
    if labels:  # most documents have none of them
        each = " + ".join(
            ["CASE WHEN c.words @@ %s::tsquery THEN %s::float8 ELSE 0 END"] * len(labels)
        )
        parts.append(f"CASE WHEN c.words @@ %s::tsquery THEN {each} ELSE 0 END")
        params.append(tsquery_of([term.lexeme for term in labels]))
        params += [value for term in labels for value in (term.query, term.weight)]
    for term in terms:
        if term.lexeme[0] == LABEL:
            continue
        parts.append(
            "%s::float8 * (1 - c.norm / (c.norm + width_bucket("
            "ts_rank('{1,1,1,1}', c.words, %s::tsquery)::float8, %s::float8[])))"
        )
        params += [term.weight, term.query, _steps(min(MAX_TIMES, max(1, term.figures.max_count)))]
    return " + ".join(parts), params


@lru_cache(maxsize=MAX_TIMES)
def _steps(most: int) -> list[float]:
    """Return the mid-points between the ranks of a term that occurs once, twice ... `most` times."""
    sums = list(accumulate(1 / (tf * tf) for tf in range(1, most + 1)))
    return [(sum_ - 0.5 / (tf * tf)) / _ZETA for tf, sum_ in enumerate(sums, 1)]


# --- MaxScore pruning --------------------------------------------------------------------------

LONG = 1_500  # characters; longer conditions cost the index more than they save
# Entries of other terms that the index may read for each record that this saves. It reads one in
# about 10 ns, and reading and scoring a record takes about 6 µs.
WORTH = 500


def levels_of(
    word: str, weight: float, known: Mapping[str, TermFigures], norm_of: Callable[[int], float]
) -> tuple[Level, ...]:
    """Return the levels of a term in the space; `norm_of` gives the length norm."""
    most = min(MAX_TIMES, known[word].max_count)
    steps = [(1, word), *((times, level_of(word, times)) for times in LEVELS)]
    levels: list[Level] = []
    bound = 0.0
    for (_times, lexeme), (until, _next) in zip(steps, [*steps[1:], (most + 1, "")], strict=True):
        figures = known.get(lexeme)
        if figures is None:
            continue
        times = max(1, min(most, until - 1))
        bound = max(bound, weight * times / (times + norm_of(figures.min_length)))
        levels.append(Level(tsquery_of([lexeme]), figures.documents, bound))
    return tuple(levels)


def likely(terms: Sequence[Term], documents: int, wanted: int, room: int) -> str:
    """Return a condition on the documents that are probably the best, or "".

    It requires terms together, and more than once while more than `room` documents would match.
    `wanted` is the least number of matches to expect, as if words were independent.
    """
    left = sorted(terms, key=lambda term: (term.levels[0].documents, term.lexeme))
    at = {left[0].lexeme: 0}
    expected = float(left[0].levels[0].documents)
    for term in left[1:]:
        fewer = expected * term.levels[0].documents / documents
        if LABEL + term.lexeme in at:  # a text usually contains the words of its tags
            fewer = expected
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


def holding(terms: Sequence[Term], documents: int, need: float) -> list[str]:
    """Return tsqueries of which every document that can score `need` matches one.

    There is one for each term, for the documents that contain no rarer one, because the index
    needs less time for several short conditions than for one on all terms. What else a document must
    contain is added first where most documents are expected, until it isn't worth it or too LONG.
    """
    return _Condition(terms, documents).made(need * (1 - 1e-9))


@dataclass(slots=True, eq=False)
class _Part:
    """A condition on a term at one of its levels or above, and on the terms after it.

    `missing` is what these terms must add up to. Until `inner` is known, only this one is required.
    """

    at: int
    level: int
    missing: float
    expected: float  # documents, as if words were independent
    parent: _Part | None = None
    inner: list[_Part] = field(default_factory=list)


class _Condition:
    """Builds the conditions: which terms a document needs together, and how often."""

    def __init__(self, terms: Sequence[Term], documents: int) -> None:
        rarest = sorted(terms, key=lambda term: (term.levels[0].documents, term.lexeme))
        self.levels = [term.levels for term in rarest]
        # The most that the terms from each position on add together.
        self.rest = [*accumulate((term.bound for term in reversed(rarest)), initial=0.0)][::-1]
        at = {term.lexeme: place for place, term in enumerate(rarest)}
        self.label_of = [at.get(LABEL + term.lexeme) for term in rarest]
        self.documents = max(1, documents)

    def made(self, need: float) -> list[str]:
        """Return the conditions on documents whose terms can add up to `need`."""
        whole = _Part(-1, 0, need, self.documents)
        places = numbers_from()
        waiting: list[tuple[float, int, _Part]] = []  # the most frequent part first
        room = LONG

        def add(parent: _Part, parts: Iterable[_Part]) -> None:
            nonlocal room
            for part in parts:
                parent.inner.append(part)
                room -= len(self._level(part).query) + 3
                heappush(waiting, (-part.expected, next(places), part))

        add(whole, self._parts(whole, need))
        while waiting and room > 0:
            part = heappop(waiting)[-1]
            left = part.missing - self._level(part).bound
            if left <= 0 or part.parent is None:  # no other term is needed
                continue
            inner = list(self._parts(part, left))
            if sum(self._level(one).documents for one in inner) > WORTH * part.expected:
                continue
            add(part, inner)
            if not inner:  # the rest was enough only by a rounding error
                part.parent.inner.remove(part)
            add(part.parent, self._part(part.parent, part.at, part.level + 1, part.missing))
        return [self._text(part) for part in whole.inner]

    def _parts(self, parent: _Part, missing: float) -> Iterator[_Part]:
        """Yield the conditions on documents whose terms after this one can add up to `missing`."""
        for at in range(parent.at + 1, len(self.levels)):
            if self.rest[at] < missing:
                return
            yield from self._part(parent, at, 0, missing)

    def _part(self, parent: _Part, at: int, first: int, missing: float) -> Iterator[_Part]:
        """Yield the condition on a term, from its first level that can be enough."""
        for number, level in enumerate(self.levels[at][first:], first):
            if self.rest[at + 1] >= missing - level.bound:
                share = level.documents / self.documents
                if self._has_label(parent, at):
                    share = level.documents / max(1, self.levels[at][0].documents)
                yield _Part(at, number, missing, parent.expected * share, parent)
                return

    def _has_label(self, part: _Part | None, at: int) -> bool:
        """Whether documents of a part have the term as a label. Then their text usually has it too."""
        while part is not None:
            if part.at == self.label_of[at]:
                return True
            part = part.parent
        return False

    def _level(self, part: _Part) -> Level:
        return self.levels[part.at][part.level]

    def _text(self, part: _Part) -> str:
        query = self._level(part).query
        if not part.inner:
            return query
        return f"{query} & ({' | '.join(map(self._text, part.inner))})"


# --- ranking -----------------------------------------------------------------------------------

MAX_TERMS = 32  # per query, rarest first; more of them don't change the order
LABEL_WEIGHT = 0.5
FEW = 100  # documents to score first, if the rarest terms have so many
MANY = 1_000  # documents of one term; with more, only the likely best are scored first
ENOUGH = 4  # times the documents wanted: the least that a first lookup should find
SEVERAL = 4  # times that: the most that a narrowed first lookup may find


@dataclass(frozen=True, slots=True)
class Formula:
    """BM25's constants; without `b` it depends on the space's average length (lexical)."""

    b: float | None = 0.75
    k1: float = 1.2
    labels: bool = False  # whether speaker, tags and topic count too

    def b_of(self, average: float) -> float:
        """Return b: short turns need no length normalization, long messages need all of it."""
        if self.b is not None:
            return self.b
        return min(1.0, max(0.0, math.log(average / 18) / math.log(200 / 18)))


EXACT = Formula()
LEXICAL = Formula(b=None, labels=True)


@dataclass(slots=True)
class Space:
    """The figures of records that are ranked together, and of the query's terms."""

    id: int
    record_type: str
    language: str
    documents: int
    length: int
    has_superseded: bool
    has_ratings: bool  # of the owner, for any question
    terms: dict[str, TermFigures] = field(default_factory=dict)

    @property
    def average(self) -> float:
        return self.length / self.documents if self.documents else 0.0


class Ranked(NamedTuple):
    """One entry found: its raw score, and which of the query's terms it contains."""

    record_id: uuid.UUID
    score: float
    matched: tuple[str, ...]


def spaces_of(
    owner: Any, types: Iterable[str], lexemes: Iterable[str], *, with_levels: bool = True
) -> list[Space]:
    """Return the owner's spaces of these types, with the figures of the terms; one query.

    `ranked` also needs the figures of the terms' levels (`with_levels`).
    """
    words = list(dict.fromkeys(lexemes))
    past = as_of.current()
    word_list = list(words)
    if with_levels:
        word_list += [level_of(one, times) for one in words if one[0] != LABEL for times in LEVELS]
    with as_of.present(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.id, s.record_type, s.language, s.documents, s.length, "
            "EXISTS (SELECT 1 FROM memory_searchentry e WHERE e.space_id = s.id AND NOT e.is_current), "
            "EXISTS (SELECT 1 FROM memory_rating WHERE owner_id = %s), "
            "t.lexeme, t.documents, t.max_count, t.min_length FROM memory_searchspace s "
            "LEFT JOIN memory_searchterm t ON t.space_id = s.id AND t.lexeme = ANY(%s) "
            "AND t.documents > 0 WHERE s.owner_id = %s AND s.record_type = ANY(%s) ORDER BY s.id",
            [owner.pk, word_list, owner.pk, list(types)],
        )
        rows = cursor.fetchall()
    found: dict[int, Space] = {}
    for *space, lexeme, documents, most, shortest in rows:
        one = found.setdefault(space[0], Space(*space))
        if lexeme is not None:
            one.terms[lexeme] = TermFigures(documents, most, shortest)
    if past is not None:
        _correct(found, word_list, past.corrections(word_list))
    return list(found.values())


def _correct(
    spaces: Mapping[int, Space], lexemes: Sequence[str], changes: Iterable[tuple[Any, ...]]
) -> None:
    """Turn today's figures into those of an earlier time (`as_of.Past.corrections`).

    The numbers of documents are exact, which scores depend on. Bounds can only be too wide.
    """
    for space_id, sign, documents, length, has_superseded, counts, shortest in changes:
        space = spaces.get(space_id)
        if space is None:
            continue
        space.documents += sign * documents
        space.length += sign * length
        space.has_superseded |= has_superseded and sign > 0
        by_lexeme = dict(zip(lexemes, counts, strict=True))
        for lexeme, count, least in zip(lexemes, counts, shortest, strict=True):
            if not count:
                continue
            was = space.terms.get(lexeme)
            if sign < 0:
                if was is not None:
                    space.terms[lexeme] = was._replace(documents=was.documents - count)
                continue
            most = _most_times(lexeme, by_lexeme)
            known = was or TermFigures(0, 1, least)
            space.terms[lexeme] = TermFigures(
                known.documents + count, max(known.max_count, most), min(known.min_length, least)
            )
    for space in spaces.values():
        space.terms = {name: one for name, one in space.terms.items() if one.documents > 0}
        # Another transaction can change the index between the two queries.
        most = max((one.documents for one in space.terms.values()), default=0)
        space.documents, space.length = max(space.documents, most), max(space.length, most)


def _most_times(lexeme: str, counts: Mapping[str, int]) -> int:
    """Return the most often that an entry can contain the term, by its level terms."""
    if lexeme[0] in (LABEL, LEVEL):
        return 1
    if level_of(lexeme, LEVELS[0]) not in counts:  # wasn't asked for
        return MAX_TIMES
    reached = [times for times in LEVELS if counts.get(level_of(lexeme, times))]
    higher = [times for times in LEVELS if not reached or times > reached[-1]]
    return higher[0] - 1 if higher else MAX_TIMES


def language_of(owner: Any) -> str:
    return stemmed_as(getattr(owner, "language", "") or "")


@dataclass(frozen=True, slots=True)
class Job:
    """One ranking: the best `limit` entries of a space, by terms of its language.

    A word that occurs twice in `words` counts twice; `space.terms` must contain their figures.
    `beside` is the place of an earlier job with the same terms: entries that score less than its
    last one are left out.
    """

    space: Space
    words: Sequence[str]
    formula: Formula
    limit: int
    among: EntryFilter = field(default_factory=EntryFilter)
    beside: int | None = None


@dataclass(frozen=True, slots=True)
class _Lookup:
    """Documents to score.  All others contain only `rest` terms; after `is_last` none of them matter."""

    queries: Sequence[str]
    rest: tuple[Term, ...] = ()  # the rarest first
    room: int = 0
    is_last: bool = False
    # Filters are checked on these documents. An index on a filter would read many more.
    is_small: bool = False


def ranked(jobs: Sequence[Job]) -> list[list[Ranked]]:
    """Return the best entries of each job, best first; this takes one or two queries, rarely more."""
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
        rows = rows_of([_select(jobs, place, terms[place], look) for place, look in looks.items()])
        for place, some in rows.items():
            found[place] = _read(some, terms[place], found[place], jobs[place].limit)
        more = {place: _next_look(jobs[place], look, found[place]) for place, look in looks.items()}
        looks = {place: look for place, look in more.items() if look is not None}
    for place, job in enumerate(jobs):
        if job.beside is not None and len(least := found[job.beside]) >= jobs[job.beside].limit > 0:
            found[place] = [one for one in found[place] if one.score >= least[-1].score]
    return found


def _first_look(job: Job, terms: list[Term]) -> _Lookup:
    """Return the documents of the rarest terms or, if all are frequent, those that contain several."""
    rest = sorted(terms, key=lambda term: (term.figures.documents, term.lexeme))
    room = max(FEW, ENOUGH * job.limit) * (4 if job.among.is_narrow else 1)
    return _lookup_of(rest, room, ENOUGH * job.limit, job.space.documents)


def _next_look(job: Job, look: _Lookup, best: list[Ranked]) -> _Lookup | None:
    """Return the lookup for what else can be among the best; None if nothing can."""
    if look.is_last or not look.rest:
        return None
    if len(best) < job.limit:
        # If the filters exclude all likely documents, the planner may know a faster index.
        return _lookup_of(look.rest, look.room * 8, 0, job.space.documents if best else 0)
    sure = best[-1].score * (1 - 1e-9)
    if sum(term.bound for term in look.rest) < sure:
        return None
    queries = holding(look.rest, job.space.documents, sure)
    return _Lookup(queries, is_last=True) if queries else None


def _lookup_of(rest: Sequence[Term], room: int, count: int, documents: int) -> _Lookup:
    """Return the documents of the first terms that fit into `room`, but of at least one term.

    If `documents` (of the space) is given, only the likely best of a frequent term are included.
    """
    totals = [*accumulate(term.figures.documents for term in rest)]
    taken = sum(total <= room for total in totals)
    queries = [term.query for term in rest[:taken]]
    others = rest[taken:]
    is_small = True
    if others and (not taken or totals[taken - 1] < count):
        some = ""
        if documents and others[0].figures.documents > MANY:
            some = likely(others, documents, room // 2, SEVERAL * room)
        if some:
            queries.append(f"({some})")
        else:
            queries.append(others[0].query)
            others = others[1:]
            is_small = False
    return _Lookup([" | ".join(queries)], tuple(others), room, is_small=is_small)


def _read(
    rows: Iterable[Row], terms: Sequence[Term], known: Iterable[Ranked], limit: int
) -> list[Ranked]:
    """Merge the rows into the entries known so far; return the best."""
    best = {one.record_id: one for one in known}
    for key, score, held in rows:
        matched = tuple(t.lexeme for t, has in zip(terms, held, strict=True) if has)
        best[key] = Ranked(key, score, matched)
    return sorted(best.values(), key=lambda one: (-one.score, one.record_id))[:limit]


def best_possible(space: Space, words: Sequence[str]) -> float:
    """Return the score that no document of the space can reach for these words in its text."""
    return sum(
        count * _idf(space.documents, documents)
        for word, count in Counter(words).items()
        if (documents := _containing(space, word))
    )


class Scale(NamedTuple):
    """How to scale a raw score to 0 to 1: divide by `best`, times the `share` of the query it covers."""

    best: float
    share: float = 1.0


def scales_of(spaces: Sequence[Space], words: Sequence[str]) -> dict[int, Scale]:
    """Return how scores of several types become comparable, by space.

    A type that contains only some of the words counts for their share of the query. Otherwise one
    that has only the most frequent word would get full marks for it. What a short text can reach
    counts as much as what a long one can, which contains each word often. With a single type,
    nothing changes.
    """
    everything = sum(space.documents for space in spaces)
    counts = Counter(words)
    weights = {
        word: count * _idf(everything, documents)
        for word, count in counts.items()
        if (documents := sum(_containing(space, word) for space in spaces))
    }
    total = sum(weights.values())
    reached = {space.id: _reached(space, counts) for space in spaces}
    most = max(reached.values(), default=0.0)
    scales = {}
    for space in spaces:
        share = sum(weight for word, weight in weights.items() if _containing(space, word))
        best = best_possible(space, words)
        if reached[space.id]:
            best *= reached[space.id] / most
        scales[space.id] = Scale(best, share / total if total else 1.0)
    return scales


def _reached(space: Space, counts: Mapping[str, int]) -> float:
    """Return which part of the best possible score a document that contains the words can reach."""
    known = {word: space.terms[word] for word in counts if word in space.terms}
    if not known or not space.average:
        return 0.0
    b = LEXICAL.b_of(space.average)
    total = reached = 0.0
    for word, figures in known.items():
        weight = counts[word] * _idf(space.documents, figures.documents)
        norm = LEXICAL.k1 * (1 - b + b * max(1, figures.min_length) / space.average)
        total += weight
        reached += weight * figures.max_count / (figures.max_count + norm)
    return reached / total


def _containing(space: Space, word: str) -> int:
    """Return how many documents contain the word or, if none does, have it as a label."""
    figures = space.terms.get(word) or space.terms.get(LABEL + word)
    return figures.documents if figures else 0


def _idf(everything: int, documents: int) -> float:
    return math.log(1 + (everything - documents + 0.5) / (documents + 0.5))


def _terms(space: Space, words: Sequence[str], formula: Formula) -> list[Term]:
    """Return the query's terms that the space contains, the highest bound first."""
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
                weight = count * _idf(space.documents, figures.documents)
                levels: tuple[Level, ...]
                if lexeme[0] == LABEL:
                    weight *= LABEL_WEIGHT
                    query = tsquery_of([lexeme])
                    levels = (Level(query, figures.documents, weight),)
                else:
                    levels = levels_of(lexeme, weight, space.terms, norm_of)
                terms.append(Term(lexeme, weight, figures, levels))
    terms.sort(key=lambda term: (term.figures.documents, term.lexeme))
    return sorted(terms[:MAX_TERMS], key=lambda term: (-term.bound, term.lexeme))


def relevance(score: float) -> float:
    """Scale a raw score to 0..1, keeping the order: s / (1 + s) (R77, R78)."""
    return score / (1 + score)
