"""Related memories: the records nearest to one record, by meaning and by the rare words they share.

The record's own stored vector is compared, so no embedder has to answer. Without vectors, only words
count. Every other rule, such as leaving out Trash and expired records, is that of recall.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.text.terms import ENGLISH, everyday_terms, query_spans, query_terms
from memory.models import MemoryFile, Section, as_of
from memory.services.search import bm25_sql, vectors
from memory.services.search.bm25_sql import Job, Ranked, Space
from memory.services.search.filters import SearchScope, among_of, narrowing_of, rows_of
from memory.services.search.kinds import KINDS
from memory.services.search.query import FOR_AGENTS, Question
from memory.services.search.recall import (
    FoundRecord,
    RecordKey,
    figures_of,
    fused,
    meaning_value,
    words_value,
)

USUAL, MAX = 6, 50  # related records that a page shows, and that can be asked for
CLOSE = 0.35  # the cosine of two texts on a similar subject; unrelated texts have about 0
MAX_READ = 20_000  # characters of the record
MAX_WORDS = 12  # the rarest words that are looked up
FEW = 8  # records that can share a word in a small memory before it counts as frequent
RARE, DISTINCT = 0.05, 0.005  # shares of all records with a rare word, and with one that is enough
FEW_ENOUGH = 3  # the same for a word that is enough
MAX_NAMED = 4  # words that the reason names, the rarest first
SPARE = 20  # more candidates, since some are left out

_ADDRESS = re.compile(r"\b(?:https?://|www\.)\S+")  # its parts say nothing about the subject


@dataclass(frozen=True)
class Related(FoundRecord):
    """A record near another one: its cosine (0 if it isn't near), and the words both contain."""

    score: float
    meaning: float
    words: tuple[str, ...]

    @property
    def reasons(self) -> list[str]:
        """Return why it is related, as codes: `meaning`, `words`."""
        return [*(["meaning"] if self.meaning else []), *(["words"] if self.words else [])]

    @property
    def named_words(self) -> tuple[str, ...]:
        """Return the shared words that a page names and marks."""
        return self.words[:MAX_NAMED]

    @property
    def why(self) -> str:
        shown = self.named_words
        if not shown:
            return _("Similar meaning")
        both = ngettext(
            "Similar meaning, and shares the word %(words)s",
            "Similar meaning, and shares the words %(words)s",
            len(shown),
        )
        words = ngettext("Shares the word %(words)s", "Shares the words %(words)s", len(shown))
        return (both if self.meaning else words) % {
            "words": ", ".join(_("“%(text)s”") % {"text": word} for word in shown)
        }


@dataclass(slots=True)
class _Found:
    """The candidates: their distances, raw BM25 scores and shared terms."""

    distances: dict[RecordKey, float] = field(default_factory=dict)
    raw: dict[RecordKey, float] = field(default_factory=dict)
    terms: dict[RecordKey, tuple[str, ...]] = field(default_factory=dict)
    figures: dict[str, tuple[float, float]] = field(default_factory=dict)  # by type, for `fused`
    has_vectors: bool = False

    def scores(self) -> dict[RecordKey, float]:
        found: dict[RecordKey, float] = {}
        for name in {key[0] for key in (*self.distances, *self.raw)}:
            raw = {key: value for key, value in self.raw.items() if key[0] == name}
            far = {key: value for key, value in self.distances.items() if key[0] == name}
            figures = self.figures.get(name, (0.0, 0.0))
            if self.has_vectors:
                found |= fused(raw, far, *figures)
            else:
                found |= {key: words_value(value, figures[0]) for key, value in raw.items()}
        return found


def related_to(
    record: Any, *, limit: int = USUAL, is_agent: bool = False, types: Sequence[str] = ()
) -> list[Related]:
    """Return the owner's records nearest to `record`, of all types, best first.

    A file's own sections are left out, and of another file only the nearest section is returned. With
    `is_agent`, what no agent gets is left out as in an agent's recall. It takes at most four queries
    plus three for each type.
    """
    limit = max(0, min(limit, MAX))
    text = _ADDRESS.sub(" ", text_of(record)[:MAX_READ])
    if not limit or not text.strip():
        return []
    filters = FOR_AGENTS if is_agent else ()
    how = {"now": as_of.now(), "types": types}
    scope = narrowing_of(record.owner, Question("", "", filters=filters), how)
    found = _Found()
    _add_nearest(record, scope, limit, found)
    shown = _add_sharing_rare_words(text, scope, limit, found)
    scores = found.scores()
    best = sorted(scores, key=lambda key: (-scores[key], key))
    records = _loaded(scope, best, limit)
    related, files = [], {_file_of(record)}
    for key in best:
        one = records.get(key)
        file = _file_of(one)
        if one is None or one.pk == record.pk or (file is not None and file in files):
            continue
        files.add(file)
        near = meaning_value(found.distances[key]) if key in found.distances else 0.0
        words = tuple(shown[term] for term in found.terms.get(key, ()) if term in shown)
        related.append(Related(key[0], one, round(scores[key], 6), near, words))
    return related[:limit]


def text_of(record: Any) -> str:
    return str(record.content if isinstance(record, MemoryFile) else record.search_text())


def _file_of(record: Any) -> Any:
    """Return the id of the file that the record is or is in; None for other records."""
    if isinstance(record, MemoryFile):
        return record.pk
    return record.file_id if isinstance(record, Section) else None


def _add_nearest(record: Any, scope: SearchScope, limit: int, found: _Found) -> None:
    """Add the records with the nearest vectors."""
    # Only a file's sections have vectors, and they're of today's texts.
    if isinstance(record, MemoryFile) or as_of.current() is not None:
        return
    allowed = {kind.type: rows_of(kind, scope) for kind in scope.kinds}
    look = vectors.VectorQuery(allowed)
    near = vectors.nearest_to(record, look, limit + SPARE)
    if near is None:
        return
    found.has_vectors = True
    for one in near:
        if one.id != record.pk and meaning_value(one.distance) >= CLOSE:
            found.distances[one.type, one.id] = one.distance


def _add_sharing_rare_words(
    text: str, scope: SearchScope, limit: int, found: _Found
) -> dict[str, str]:
    """Add the records that share rare words; return the words by their terms."""
    owner_language = bm25_sql.language_of(scope.owner)
    types = [kind.type for kind in scope.kinds]
    terms = list(dict.fromkeys(query_terms(text, owner_language)))
    if owner_language == ENGLISH:  # in a small memory, even "point" can be rare
        terms = [term for term in terms if term not in everyday_terms()]
    spaces = bm25_sql.spaces_of(scope.owner, types, terms, with_levels=False)
    # A space in another language is skipped until a rebuild converts it.
    spaces = [space for space in spaces if space.language == owner_language]
    chosen = _rare(spaces, terms)
    if not chosen:
        return {}
    documents = sum(space.documents for space in spaces)
    enough = {term for term, n in chosen.items() if n <= max(FEW_ENOUGH, documents * DISTINCT)}
    spaces = [
        space
        for space in bm25_sql.spaces_of(scope.owner, types, chosen)
        if space.language == owner_language
    ]
    place = {term: n for n, term in enumerate(chosen)}  # the rarest first
    jobs = [_job(space, list(chosen), scope, limit) for space in spaces]
    for job, ranked in zip(jobs, bm25_sql.ranked(jobs), strict=True):
        name = job.space.record_type
        found.figures[name] = figures_of(job.space, job.words)
        for one in ranked:
            key = (name, one.record_id)
            if _is_alike(one, enough) or key in found.distances:
                found.raw[key] = one.score
                found.terms[key] = tuple(sorted(one.matched, key=place.__getitem__))
    surface: dict[str, str] = {}
    for span in query_spans(text, owner_language):
        surface.setdefault(span.text, text[span.start : span.end])
    return surface


def _rare(spaces: Iterable[Space], terms: Iterable[str]) -> dict[str, int]:
    """Return the rarest words that other records can contain, with their numbers of records."""
    documents, counts = 0, dict.fromkeys(terms, 0)
    for space in spaces:
        documents += space.documents
        for term, figures in space.terms.items():
            counts[term] = counts.get(term, 0) + figures.documents
    most = max(FEW, math.floor(documents * RARE))
    # One digit or letter says nothing about what a text is about.
    kept = [(n, term) for term, n in counts.items() if 0 < n <= most and len(term) > 1]
    return {term: n for n, term in sorted(kept)[:MAX_WORDS]}


def _job(space: Space, terms: list[str], scope: SearchScope, limit: int) -> Job:
    among = among_of(KINDS[space.record_type], scope, space.language)
    return Job(space, terms, bm25_sql.EXACT, limit + SPARE, among)


def _is_alike(one: Ranked, enough: set[str]) -> bool:
    """Return True if the shared words are a reason: several, or one that few records contain."""
    return len(one.matched) > 1 or any(term in enough for term in one.matched)


def _loaded(scope: SearchScope, best: Sequence[RecordKey], limit: int) -> dict[RecordKey, Any]:
    """Load the best candidates that recall can return; one query per type."""
    ids: dict[str, list[uuid.UUID]] = {}
    for name, key in best[: limit + 2 * SPARE]:
        ids.setdefault(name, []).append(key)
    kinds = {kind.type: kind for kind in scope.kinds}
    return {
        (name, row.pk): row
        for name, some in ids.items()
        for row in rows_of(kinds[name], scope).filter(pk__in=some).order_by()
    }
