"""What the pages say of the facts now: one statement a fact, its own source before any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rapidfuzz import fuzz, process

from memory.models import TopicFact
from memory.texts.sentences import split_sentences
from memory.texts.text import one_line, without_citations
from research.claims.matching import match
from research.claims.quoting import LEAST_QUOTE, fold
from research.claims.selection import Reading
from research.deltas.delta import Statement

MOST_SENTENCES = 1_500  # of a page that are looked at
CLOSEST = 12  # sentences of a page that are held against a fact
FAR = 35  # of 100: sentences with less in common do not speak of it


@dataclass(slots=True)
class Page:
    """One page that was read, cut into sentences once."""

    reading: Reading
    folded: str
    sentences: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, reading: Reading) -> Page:
        """Return the page of a reading."""
        return cls(reading, fold(reading.text), split_sentences(reading.text)[:MOST_SENTENCES])


def statements(
    facts: Sequence[TopicFact], known: Sequence[str], pages: Sequence[Page]
) -> dict[str, Statement]:
    """Return for each fact, by its id, what a page says of it; one that none speaks of is left out.

    `known` are the texts of all current facts: a sentence that is nearer to another one speaks of
    that.  Of the pages the fact's own comes first, then one that confirms it, then any.
    """
    found = {}
    for fact in facts:
        own = sorted(pages, key=lambda page: page.reading.url != fact.url)
        said = _first(fact, known, own)
        if said is not None:
            found[str(fact.pk)] = said
    return found


def _first(fact: TopicFact, known: Sequence[str], pages: Sequence[Page]) -> Statement | None:
    changed = None
    for page in pages:
        kind, said = _said(fact, known, page)
        if said is None:
            continue
        if kind == "confirmed" or page.reading.url == fact.url:
            return said
        changed = changed or said
    return changed


def _said(fact: TopicFact, known: Sequence[str], page: Page) -> tuple[str, Statement | None]:
    bare = without_citations(fact.text)
    number = page.reading.number
    for words in (fact.quote, bare):
        if len(one_line(words)) >= LEAST_QUOTE and fold(words) in page.folded:
            return "confirmed", Statement(bare, (number,), one_line(words))
    near = process.extract(
        bare, page.sentences, scorer=fuzz.token_set_ratio, score_cutoff=FAR, limit=CLOSEST
    )
    changed = None
    for sentence, _score, _place in near:
        hit = match(sentence, known)
        if hit is None or known[hit.index] != bare:
            continue
        said = Statement(sentence, (number,), one_line(sentence))
        if hit.kind == "confirmed":
            return "confirmed", said
        changed = changed or said
    return "changed", changed
