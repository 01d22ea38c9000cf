"""The stored pages that a report cites, to find its quotes in them.

Data flow: a run's hits that were read -> `Pages`: those cited, by number, and the others -> where a
quote is, which other pages contain it, and which pages only repeat another.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

from rapidfuzz import fuzz, process

from beacon_site.text.cleaning import one_line, width
from beacon_site.text.sentences import split_sentences
from beacon_site.text.tables import read_csv
from beacon_site.text.values import numbers
from research.claims import duplicates
from research.claims.duplicates import Origins, shingles
from research.claims.matching import match
from research.claims.quoting import NormalizedText, around, fold
from research.claims.terms import terms
from research.models import Hit, Run
from research.services.runs.context.outputs import CitedSource

CLOSE = 88.0  # rapidfuzz ratio from which a source's sentence counts as the quoted one
SLICE = 0.05  # seconds that `PagePreparer` works at a time
_READ = (Hit.Reading.READ, Hit.Reading.NEAR_DUPLICATE)
MAX_CARRIERS = 8  # other pages named as having the same text


@dataclass(frozen=True, slots=True)
class QuoteLocation:
    """A found quote: its exact stored text and its place on the page.

    A quote found only in the search snippet has no place, because the page wasn't read.
    """

    quote: str
    span: slice | None
    before: str = ""
    after: str = ""

    @property
    def in_snippet(self) -> bool:
        """Return True if it is only in the search snippet."""
        return self.span is None

    def as_json(self) -> dict[str, Any]:
        """Return what a report's list of sources stores about it."""
        place = {"start": self.span.start, "end": self.span.stop} if self.span else {}
        words = {"before": self.before, "after": self.after} if self.span else {}
        return {"quote": self.quote, "found": True, "in_snippet": self.in_snippet, **place, **words}


class CitedPage:
    """A page to find quotes in: its stored text and its search snippet."""

    def __init__(
        self,
        read: str,
        said: str = "",
        *,
        number: int = 0,
        domain: str = "",
        published_at: date | None = None,
        trust: str = "",
        link: str = "",
    ) -> None:
        self.read, self.said = NormalizedText(read), NormalizedText(said)
        self.number, self.domain, self.published_at = number, domain, published_at
        self.trust, self.link = trust, link

    @property
    def text(self) -> str:
        """Return the page's text and its search snippet."""
        return "\n".join([self.read.stored, self.said.stored])

    @cached_property
    def numbers(self) -> frozenset[str]:
        # Between two cells of a CSV row, a comma isn't a decimal comma.
        cells = (cell for row, _line in read_csv(self.read.stored) for cell in row)
        return numbers("\n".join(["; ".join(cells) or self.read.stored, self.said.stored]))

    @cached_property
    def marks(self) -> set[int]:
        """Return the shingles of its text."""
        return shingles(self.text)

    @cached_property
    def _terms(self) -> frozenset[str]:
        return frozenset(terms(self.text))

    @cached_property
    def _sentences(self) -> tuple[list[str], list[str]]:
        found = split_sentences(self.text)
        return found, [fold(sentence) for sentence in found]

    def look_up(self, quote: str) -> QuoteLocation | None:
        """Return where the page says what `quote` quotes, or None.

        A quote that isn't there word for word may be a slightly different form of a sentence on the
        page. A sentence counts from a similarity of 88 out of 100, if it says the same with the
        same numbers, names and negations.
        """
        found = self._word_for_word(quote)
        if found is not None:
            return found
        sentences, folded = self._sentences
        close = process.extract(fold(quote), folded, scorer=fuzz.ratio, score_cutoff=CLOSE)
        for _folded, _score, place in close:
            said = match(quote, [sentences[place]])
            if said is not None and said.kind == "confirmed":
                return self._word_for_word(sentences[place]) or QuoteLocation(
                    one_line(sentences[place]), None
                )
        return None

    def _word_for_word(self, quote: str) -> QuoteLocation | None:
        span = self.read.find(quote)
        if span is not None:
            stored = self.read.stored
            before, after = around(stored, span)
            return QuoteLocation(one_line(stored[span]), span, before, after)
        span = self.said.find(quote)
        return QuoteLocation(one_line(self.said.stored[span]), None) if span else None

    def could_support(self, sentence: str) -> bool:
        """Return True if the page has the numbers of a sentence and half of its terms."""
        sentence_terms = set(terms(sentence))
        there = sentence_terms & self._terms
        return not sentence_terms or (
            numbers(sentence) <= self.numbers and len(there) * 2 >= len(sentence_terms)
        )


class Pages:
    """The pages of a run: `cited` by their numbers in the report, and the others that were read."""

    def __init__(
        self,
        cited: Mapping[int, CitedPage],
        others: Iterable[CitedPage] = (),
        origins: Origins | None = None,
    ) -> None:
        """Known `origins` of all these pages aren't computed again."""
        self.cited = dict(cited)
        self._origins = origins
        self.others = list(others)
        self._by_number = {page.number: page for page in [*self.cited.values(), *self.others]}
        self._cited_as = {page.number: n for n, page in self.cited.items()}

    @cached_property
    def origins(self) -> Origins:
        """Return which pages are derived from which, by their own numbers."""
        return self._origins or duplicates.origins(with_text(self._by_number.values()))

    def counted(self, numbers: Iterable[int], quote: str = "") -> tuple[int, int]:
        """Return how many sources support a sentence, and how many of them are independent.

        Pages with the same quote count as sources, but not as independent ones.
        """
        bearing = {self.cited[n].number for n in numbers if n in self.cited}
        same: set[int] = set()
        value = fold(quote)
        if width(value) >= duplicates.VERBATIM:
            pages = self._by_number.values()
            same = {page.number for page in pages if page.read.find_folded(value) is not None}
        sources = bearing | same
        return len(sources), self.origins.independent(sources, verbatim=same)

    def trust_summary(self, source: CitedSource) -> CitedSource:
        """Return a source as the report stores it: its trust, and what it is derived from."""
        page = self.cited.get(source["n"])
        if page is None:
            return source
        origin = self._by_number.get(self.origins.derived_from.get(page.number, -1))
        cited_source: CitedSource = {
            **source,
            "trust": page.trust,
            "repeated_by": self._carriers(page),
        }
        if origin is not None:
            cited_source["derived_from"] = self._named(origin) | {
                "why": self.origins.why.get(page.number, "")
            }
        return cited_source

    def _carriers(self, page: CitedPage) -> list[dict[str, Any]]:
        """Return the other pages with the text of this one that were published later."""
        found = [
            self._named(self._by_number[number])
            for number, of in self.origins.derived_from.items()
            if of == page.number and self.origins.why.get(number) == "text"
        ]
        return found[:MAX_CARRIERS]

    def _named(self, page: CitedPage) -> dict[str, Any]:
        published = page.published_at.isoformat() if page.published_at else None
        return {
            "n": self._cited_as.get(page.number),
            "domain": page.domain,
            "link": page.link,
            "published_at": published,
        }


class PagePreparer:
    """The pages that a run read, prepared while its model writes.

    Preparing takes a few milliseconds per page, which the run then saves after the model call.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.pages: dict[int, CitedPage] = {}  # by hit
        self.origins: Origins | None = None
        self._work: Iterator[None] | None = None

    def go_on(self) -> None:
        """Prepare more pages, for at most 0.05 s.

        The first call does nothing, so the model call in another thread starts first.
        """
        if self._work is None:
            self._work = self._each()
            return
        until = time.monotonic() + SLICE
        for _page in self._work:
            if time.monotonic() >= until:
                return

    def _each(self) -> Iterator[None]:
        hits = self._run.hits.filter(reading__in=_READ).select_related("content_item")
        for hit in hits.order_by("place"):
            page = self.pages[hit.pk] = _page_of(hit)
            _ahead = page.read.text, page.said.text, page.marks, page.numbers
            yield
        self.origins = duplicates.origins(with_text(self.pages.values()))
        yield


def with_text(pages: Iterable[CitedPage]) -> list[CitedPage]:
    return [page for page in pages if page.read.stored]


def load(run: Run, sources: Iterable[CitedSource], ahead: PagePreparer | None = None) -> Pages:
    """Return the pages of a run: those of `sources`, the numbered list, and all that it read.

    Pages that `ahead` has prepared are reused.
    """
    links = {source["link"]: source["n"] for source in sources}
    hits = run.hits.select_related("content_item")
    rows = hits.filter(link__in=links) | hits.filter(reading__in=_READ)
    known = ahead.pages if ahead else {}
    cited_pages = [_page_of(hit) for hit in rows.exclude(pk__in=known)]
    cited, others = {}, []
    for page in sorted([*known.values(), *cited_pages], key=lambda page: page.number):
        if page.link in links:
            cited[links[page.link]] = page
        else:
            others.append(page)
    # The origins are already known, unless more pages were read.
    origins = ahead.origins if ahead and not with_text(cited_pages) else None
    return Pages(cited, others, origins)


def _page_of(hit: Hit) -> CitedPage:
    item = hit.content_item
    return CitedPage(
        item.content if item else "",
        f"{hit.snippet}\n{hit.title}",
        number=hit.place,
        domain=hit.domain,
        published_at=hit.published_at,
        trust=item.trust if item else "external",
        link=hit.link,
    )
