"""BM25 over the entries of one space: one composed SELECT, exact, and no slower than it must be.

The SELECT itself is in `looking.py`.

Of a term it is known what it can add at most.  The documents of the rarest terms are looked at first:
the score that the best `limit` of them reach tells which of the other terms a better document must
hold together, and how often, if it can be better at all, and only such ones are looked at then
(`pruning.py`).
"""

from __future__ import annotations

import math
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from django.db import connection

from memory.recall import pruning
from memory.recall.looking import Among, Level, Row, Scored, Term, TermFigures, Wanted, rows_of
from memory.texts.terms import LABEL, LEVELS, level_of, stemmed_as, tsquery_of

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
    return _Look(pruning.holding(look.rest, job.space.documents, sure), is_last=True)


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
            some = pruning.likely(others, documents, room // 2, SEVERAL * room)
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
                    levels = pruning.levels_of(lexeme, weight, space.terms, norm_of)
                terms.append(Term(lexeme, weight, figures, levels))
    terms.sort(key=lambda term: (term.figures.documents, term.lexeme))
    return sorted(terms[:MOST_TERMS], key=lambda term: (-term.bound, term.lexeme))
