"""One look at the search index: the SELECT that scores documents by BM25 and returns the best.

How often a term stands in a document comes back from `ts_rank()`: with equal weights it is
(1 + 1/4 + ... + 1/tf^2) / 1.64493406685, which only rises, so `width_bucket()` over the mid-points
gives tf exactly, without unpacking the vector.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any

from django.db import connection

from memory.texts.terms import LABEL, MOST_TIMES, tsquery_of

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
