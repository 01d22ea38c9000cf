"""The sample: bundled articles instead of the web, with another batch for each run.

Nothing leaves the machine.  The articles are in `sample_articles/`, whose README says which parts
are facts.  `repeats.json` lists the articles that later batches repeat, and `pages/` has the pages
that change from batch to batch: a table and a changelog.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import Stemmer
import structlog

from beacon_site.net.errors import ProviderRejected
from beacon_site.net.extract import PagePart
from beacon_site.net.fetch import WebPage
from beacon_site.providers.search.base import SearchHit, SearchOptions, SearchProfile
from beacon_site.text.messages import gettext as _

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


# The topic that the "Try the sample topic" button creates.
SAMPLE_TITLE = "PostgreSQL releases"
SAMPLE_SETTINGS = {
    "objective": "What is new in PostgreSQL releases, when versions reach their end of life, and what an operator must do about it.",
    "focus": "Major and minor releases, security fixes, upgrades, end-of-life dates",
}


@dataclass(frozen=True, slots=True)
class Article:
    """One bundled article; with `headline`, every query in its own batch finds it."""

    url: str
    title: str
    published_at: date
    batch: int
    text: str
    keywords: str = ""
    headline: bool = False
    copy_of: str = ""

    @property
    def snippet(self) -> str:
        """The first paragraph, as a search service would show."""
        return self.text.split("\n\n", 1)[0]


def read_article(path: Path, batch: int) -> Article:
    """Read one article: a head of `name: value` lines between `---`, then its paragraphs.

    The head must have url, title and date (ISO).  Raises ValueError or KeyError for an
    invalid file, which is a bug, since the files are ours.
    """
    _before, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    return Article(
        url=fields["url"],
        title=fields["title"],
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
    """All bundled articles, ordered by batch and date."""
    return tuple(
        read_article(path, batch)
        for batch in NEW_BATCHES
        for path in sorted((ARTICLES / f"batch{batch}").glob("*.md"))
    )


@cache
def page_versions() -> tuple[Article, ...]:
    """The changing pages, with one version for each batch that has new articles."""
    folders = sorted((ARTICLES / "pages").iterdir())
    return tuple(
        read_article(folder / f"{batch}.md", batch) for folder in folders for batch in NEW_BATCHES
    )


def page_addresses() -> list[str]:
    """Return the URLs of the changing pages, which the sample topic always includes."""
    return list(dict.fromkeys(page.url for page in page_versions()))


def is_sample_url(url: str) -> bool:
    """Return True if the URL, in any spelling, is that of a bundled article."""
    return _key(url) in _articles_by_key()


class SampleSearch:
    """A SearchProvider for the bundled articles."""

    service = SERVICE

    def __init__(self, profile: SearchProfile | None = None) -> None:
        """The profile is accepted because every service has one; the sample doesn't use it."""

    def search(self, query: str, options: SearchOptions) -> list[SearchHit]:
        """Return at most `options.limit` hits of the batch `options.batch`, best first.

        Batches 2 and 3 also repeat some earlier articles; batch 4 and later ones contain only
        repeats.  The same query always gets the same hits.  `options.since` is ignored, because the
        articles are from 2024 and 2025, and a time frame counted from today would match none.
        """
        batch = max(1, options.batch)
        offers = _offers(batch)
        ranked = sorted(zip(offers, _scores(query, offers), strict=True), key=lambda pair: -pair[1])
        # Headlines are admitted first, so that articles repeated later have certainly been seen.
        # The list is then sorted by rank, so that it looks like an answer to the query.
        admitted = sorted(ranked, key=lambda pair: _precedence(pair[0], batch))
        admitted = admitted[: max(0, options.limit)]
        admitted.sort(key=ranked.index)
        logger.info("search answered", service=self.service, hits=len(admitted))
        return [_hit(offer, rank, self.service) for rank, (offer, _score) in enumerate(admitted, 1)]


@dataclass(frozen=True, slots=True)
class SampleFetcher:
    """A PageFetcher for the bundled articles, under any spelling of their URLs.

    A changing page has its version of `batch`.
    """

    batch: int = REPEATS_ONLY

    def fetch(self, url: str, *, part: PagePart | None = None) -> WebPage:
        """Return the article at `url`, always the whole one; `final_url` is its published URL.

        Raises ProviderRejected for every other URL.
        """
        article = _article_at(url, self.batch)
        if article is None:
            raise ProviderRejected(
                _(
                    "%(url)s isn’t one of the sample articles, and the sample can’t open anything else."
                )
                % {"url": url[:200]}
            )
        return WebPage(
            url=url,
            final_url=article.url,
            title=article.title,
            text=article.text,
            published_at=article.published_at,
            content_type="text/markdown",
        )


def _precedence(article: Article, batch: int) -> int:
    """The order of admission under a small limit: headlines, repeats, all others."""
    if article.batch != batch:
        return 1
    return 0 if article.headline else 2


def _offers(batch: int) -> list[Article]:
    """The articles of a batch, its own before repeats, which can have another URL; each by date."""
    own = [article for article in articles() if article.batch == batch]
    repeats = json.loads((ARTICLES / "repeats.json").read_text(encoding="utf-8"))
    urls = repeats.get(str(min(batch, REPEATS_ONLY)), [])
    return own + [replace(_articles_by_key()[_key(url)], url=url) for url in urls]


def _hit(article: Article, rank: int, service: str) -> SearchHit:
    return SearchHit(
        url=article.url,
        title=article.title,
        snippet=article.snippet,
        service=service,
        rank=rank,
        published_at=article.published_at,
    )


def _scores(query: str, candidates: Sequence[Article]) -> list[float]:
    """Score each article by the query's words it contains: rare words count more, and those in the
    title or keywords count twice.

    A word in every article has no weight.  Years and months are ignored, since planners append the
    current date, which doesn't matter here.
    """
    query_stems = _stems(" ".join(w for w in WORD.findall(query.lower()) if not _is_time(w)))
    titles = [_stems(f"{article.title} {article.keywords}") for article in candidates]
    texts = [
        title | _stems(article.text) for title, article in zip(titles, candidates, strict=True)
    ]
    spread = Counter(stem for text in texts for stem in text)
    return [
        sum(
            math.log(len(candidates) / spread[stem]) * (2 if stem in title else 1)
            for stem in sorted(query_stems & text)
        )
        for title, text in zip(titles, texts, strict=True)
    ]


def _is_time(word: str) -> bool:
    return word in MONTHS or YEAR.fullmatch(word) is not None


@lru_cache(maxsize=256)
def _stems(text: str) -> frozenset[str]:
    # A new stemmer each time, because stemmers keep state and queries run in parallel.
    stemmer = Stemmer.Stemmer("english")
    return frozenset(stemmer.stemWords(WORD.findall(text.lower())))


@cache
def _articles_by_key() -> dict[str, Article]:
    return {_key(article.url): article for article in (*articles(), *page_versions())}


def _article_at(url: str, batch: int) -> Article | None:
    """Return the article at a URL, or the version of a changing page in a batch."""
    key = _key(url)
    version = min(max(1, batch), NEW_BATCHES[-1])
    pages = (page for page in page_versions() if page.batch == version and _key(page.url) == key)
    return next(pages, None) or _articles_by_key().get(key)


def _key(url: str) -> str:
    """Return the URL without parts that don't distinguish pages: case of scheme and host, fragment,
    utm parameters, trailing slash.  A URL that can't be parsed stays unchanged."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url
    query = [pair for pair in parse_qsl(parts.query) if not pair[0].lower().startswith("utm_")]
    path = parts.path.rstrip("/")
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), path, urlencode(query), ""))
