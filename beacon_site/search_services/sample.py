"""The sample: bundled articles that stand in for the web, a further batch for each run.

Nothing leaves the machine.  The articles are in `sample_articles/` (its README says what in them
is fact and what is invented); `repeats.json` beside them names what comes back in later batches, and
`pages/` holds the pages that change from batch to batch: a table and a changelog.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import Stemmer
import structlog
from django.utils.translation import gettext as _

from beacon_site.net.errors import ProviderRejected
from beacon_site.net.fetch import WebPage
from beacon_site.search_services.base import SearchHit, SearchOptions, SearchProfile

logger = structlog.get_logger(__name__)

SERVICE = "sample"
ARTICLES = Path(__file__).parent / "sample_articles"
NEW_BATCHES = (1, 2, 3)
REPEATS_ONLY = 4

WORD = re.compile(r"\w+")
YEAR = re.compile(r"(19|20)\d\d")
MONTHS = frozenset(
    {"january", "february", "march", "april", "may", "june", "july", "august", "september"}
    | {"october", "november", "december"}
)


@dataclass(frozen=True, slots=True)
class SampleTopic:
    """What the topic of the "Try the sample topic" button is made with."""

    title: str
    objective: str
    focus: str


SAMPLE_TOPIC = SampleTopic(
    title="PostgreSQL releases",
    objective=(
        "What is new in PostgreSQL releases, when versions reach their end of life, "
        "and what an operator must do about it."
    ),
    focus="Major and minor releases, security fixes, upgrades, end-of-life dates",
)


@dataclass(frozen=True, slots=True)
class Article:
    """One bundled article; `headline` means that every query finds it in its own batch."""

    url: str
    title: str
    author: str
    published_at: date
    batch: int
    text: str
    keywords: str = ""
    headline: bool = False
    copy_of: str = ""

    @property
    def snippet(self) -> str:
        """The first paragraph, which is what a search service would show."""
        return self.text.split("\n\n", 1)[0]


def read_article(path: Path, batch: int) -> Article:
    """Read one article: a head of `name: value` lines between `---`, then its paragraphs.

    The head needs url, title, author and date (ISO).  Raises ValueError or KeyError for a file
    of another shape: the files are ours, so that is a defect.
    """
    _before, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    return Article(
        url=fields["url"],
        title=fields["title"],
        author=fields["author"],
        published_at=date.fromisoformat(fields["date"]),
        batch=batch,
        text="\n\n".join(map(_block, body.strip().split("\n\n"))),
        keywords=fields.get("keywords", ""),
        headline=fields.get("headline") == "yes",
        copy_of=fields.get("copy_of", ""),
    )


def _block(text: str) -> str:
    """Return a paragraph as one line; a heading, a table or a list keeps its lines."""
    return text.strip() if text.lstrip().startswith(("#", "|", "- ")) else " ".join(text.split())


@cache
def articles() -> tuple[Article, ...]:
    """All bundled articles, in the order of their batches and dates."""
    return tuple(
        read_article(path, batch)
        for batch in NEW_BATCHES
        for path in sorted((ARTICLES / f"batch{batch}").glob("*.md"))
    )


@cache
def page_versions() -> tuple[Article, ...]:
    """The pages that change, each in one version for each batch that has new articles."""
    folders = sorted((ARTICLES / "pages").iterdir())
    return tuple(
        read_article(folder / f"{batch}.md", batch) for folder in folders for batch in NEW_BATCHES
    )


def page_addresses() -> list[str]:
    """Return the addresses of the pages that change, which the sample topic always checks."""
    return list(dict.fromkeys(page.url for page in page_versions()))


def is_sample_url(url: str) -> bool:
    """Whether the address, in any spelling of it, is one of a bundled article."""
    return _key(url) in _articles_by_key()


class SampleSearch:
    """A search service that knows the bundled articles only."""

    service = SERVICE

    def __init__(self, profile: SearchProfile | None = None) -> None:
        """A profile is taken as by every service; it says nothing that the sample needs."""

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` hits of the batch `options.batch`, best first.

        Batches 2 and 3 also bring some articles of earlier ones back; batch 4 and every later
        one holds nothing else.  The same query always gets the same hits.  `options.since` is
        not obeyed: the articles are of 2024 and 2025, and a time frame that counts from today
        would leave an empty sample.
        """
        offers = _offers(max(1, options.batch))
        scores = _scores(query, [offer.article for offer in offers])
        ranked = sorted(zip(offers, scores, strict=True), key=lambda pair: -pair[1])
        # Headlines first into the list, so that what later batches repeat has surely been seen;
        # then by rank, so that the list still reads as an answer to the query.
        admitted = sorted(ranked, key=lambda pair: pair[0].precedence)[: max(0, options.limit)]
        admitted.sort(key=ranked.index)
        logger.info("search answered", service=self.service, hits=len(admitted))
        return [_hit(offer, rank, self.service) for rank, (offer, _score) in enumerate(admitted, 1)]


@dataclass(frozen=True, slots=True)
class SampleFetcher:
    """Opens the bundled articles, under any spelling of their addresses.

    A page that changes from batch to batch is as it was in `batch`.
    """

    batch: int = REPEATS_ONLY

    def fetch(self, url: str) -> WebPage:
        """Return the article at `url`; `final_url` is its address as published.

        Raises ProviderRejected for every other address.
        """
        article = _article_at(url, self.batch)
        if article is None:
            raise ProviderRejected(
                _(
                    "%(url)s is not one of the sample's articles, and the sample reads nothing "
                    "else. Open it through the page fetcher instead."
                )
                % {"url": url[:200]}
            )
        return WebPage(
            url=url,
            final_url=article.url,
            title=article.title,
            text=article.text,
            published_at=article.published_at,
            language="en",
            content_type="text/markdown",
            bytes_read=len(article.text.encode()),
        )


@dataclass(frozen=True, slots=True)
class _Offer:
    """An article as a batch serves it: under which address, and whether it came before."""

    article: Article
    url: str
    repeated: bool

    @property
    def precedence(self) -> int:
        """Who is let in first when the limit is short: headlines, repeats, all others."""
        if self.repeated:
            return 1
        return 0 if self.article.headline else 2


def _offers(batch: int) -> list[_Offer]:
    """What the batch serves, its own articles before the repeats, each by date."""
    own = [_Offer(a, a.url, repeated=False) for a in articles() if a.batch == batch]
    repeats = json.loads((ARTICLES / "repeats.json").read_text(encoding="utf-8"))
    again = [
        _Offer(_articles_by_key()[_key(url)], url, repeated=True)
        for url in repeats.get(str(min(batch, REPEATS_ONLY)), [])
    ]
    return own + again


def _hit(offer: _Offer, rank: int, service: str) -> SearchHit:
    article = offer.article
    return SearchHit(
        url=offer.url,
        title=article.title,
        snippet=article.snippet,
        service=service,
        rank=rank,
        published_at=article.published_at,
        raw={"batch": article.batch, "author": article.author},
    )


def _scores(query: str, candidates: Sequence[Article]) -> list[float]:
    """How much of the query each article shares: its words by rarity, twice if in the title
    or among the keywords.

    A word that every article has tells nothing apart and weighs nothing.  Years and months are
    left out: a planner appends them to say when it asks, and here that is never the point.
    """
    asked = _stems(" ".join(w for w in WORD.findall(query.lower()) if not _is_time(w)))
    titles = [_stems(f"{article.title} {article.keywords}") for article in candidates]
    texts = [
        title | _stems(article.text) for title, article in zip(titles, candidates, strict=True)
    ]
    spread = Counter(stem for text in texts for stem in text)
    return [
        sum(
            math.log(len(candidates) / spread[stem]) * (2 if stem in title else 1)
            for stem in sorted(asked & text)
        )
        for title, text in zip(titles, texts, strict=True)
    ]


def _is_time(word: str) -> bool:
    return word in MONTHS or YEAR.fullmatch(word) is not None


@lru_cache(maxsize=256)
def _stems(text: str) -> frozenset[str]:
    # A stemmer of our own each time: they keep state, and queries run in parallel.
    stemmer = Stemmer.Stemmer("english")
    return frozenset(stemmer.stemWords(WORD.findall(text.lower())))


@cache
def _articles_by_key() -> dict[str, Article]:
    return {_key(article.url): article for article in (*articles(), *page_versions())}


def _article_at(url: str, batch: int) -> Article | None:
    """Return the article at an address, or a page that changes as it was in a batch."""
    key = _key(url)
    version = min(max(1, batch), NEW_BATCHES[-1])
    pages = (page for page in page_versions() if page.batch == version and _key(page.url) == key)
    return next(pages, None) or _articles_by_key().get(key)


def _key(url: str) -> str:
    """The address without what does not tell pages apart: case of scheme and host, a fragment,
    utm parameters, a trailing slash.  An address that cannot be parsed is left as it is."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url
    query = [pair for pair in parse_qsl(parts.query) if not pair[0].lower().startswith("utm_")]
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, urlencode(query), ""))
