"""What a topic's sources gave it, counted in the database: by page, or by domain.

Data flow: hits, ledger and seen URLs of the topic, one row an address -> what its runs made of each
(delta items that cite it, facts that it brought first, quotes that were looked up in it) ->
filtered, sorted, one page of it.  One query, however long the history is; nothing is counted twice
or kept in step, so what is struck, imported or purged is right at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from memory.models import Topic
from memory.paging import PAGE_SIZE

FIGURES = (
    "returned", "read", "cited", "facts", "confirmed", "contradicted", "unsupported", "failed",
)  # fmt: skip
SORTS = (*FIGURES, "last_at", "name")
STATES = ("read", "cited", "facts", "contradicted", "unsupported", "failed", "quarantined")

_WITH = """
WITH hit AS (
  SELECT h.url, max(h.domain) AS domain, count(*) AS returned,
    count(*) FILTER (WHERE h.reading IN ('read', 'near-duplicate', 'quarantined')) AS read,
    count(h.cited_as) AS cited,
    count(*) FILTER (WHERE h.reading = 'failed') AS failed,
    count(*) FILTER (WHERE h.reading = 'quarantined') AS quarantined,
    max(r.created) AS last_at,
    (array_agg(h.title ORDER BY h.id DESC))[1] AS title,
    (array_agg(h.link ORDER BY h.id DESC))[1] AS link,
    (array_agg(h.reason ORDER BY h.id DESC) FILTER (WHERE h.reading = 'failed'))[1] AS why
  FROM research_hit h JOIN research_run r ON r.id = h.run_id
  WHERE r.topic_id = %(topic)s GROUP BY h.url
), ledger AS (
  SELECT url, link, domain, title, times_read, times_cited, last_at
  FROM memory_source WHERE topic_id = %(topic)s
), seen AS (
  SELECT url, returned_at FROM memory_seenurl WHERE topic_id = %(topic)s
), item AS (
  SELECT h.url,
    count(*) FILTER (WHERE d.status = 'confirmed') AS confirmed,
    count(*) FILTER (WHERE d.status = 'contradicted') AS contradicted
  FROM research_run r
  JOIN research_deltaitem d ON d.run_id = r.id
  JOIN research_hit h ON h.run_id = r.id AND h.cited_as = ANY (d.citations)
  WHERE r.topic_id = %(topic)s AND (d.withheld = '' OR d.judged_by <> '') GROUP BY h.url
), fact AS (
  SELECT h.url, count(DISTINCT f.id) AS facts
  FROM memory_topicfact f
  JOIN research_run r ON r.topic_id = f.topic_id AND r.number = f.first_run
  JOIN research_hit h ON h.run_id = r.id AND h.link = f.url
  WHERE f.topic_id = %(topic)s AND f.trashed_at IS NULL GROUP BY h.url
), quote AS (
  SELECT h.url, count(*) AS quotes,
    count(*) FILTER (WHERE NOT coalesce((q ->> 'found')::boolean, false)) AS unsupported
  FROM research_run r
  JOIN research_report p ON p.run_id = r.id
  CROSS JOIN LATERAL jsonb_array_elements(p.sources) AS s
  CROSS JOIN LATERAL jsonb_array_elements(coalesce(s -> 'quotes', '[]'::jsonb)) AS q
  JOIN research_hit h ON h.run_id = r.id AND h.cited_as = (s ->> 'n')::int
  WHERE r.topic_id = %(topic)s GROUP BY h.url
), one AS (
  SELECT url,
    coalesce(nullif(hit.domain, ''), ledger.domain,
      substring(url from '^[a-z]+://(?:www[.])?([^/:?#]+)'), split_part(url, ':', 1)) AS domain,
    coalesce(nullif(hit.title, ''), ledger.title, '') AS title,
    coalesce(hit.link, nullif(ledger.link, ''), url) AS link,
    coalesce(hit.why, '') AS why,
    coalesce(hit.returned, 0) AS returned,
    greatest(coalesce(hit.read, 0), coalesce(ledger.times_read, 0)) AS read,
    greatest(coalesce(hit.cited, 0), coalesce(ledger.times_cited, 0)) AS cited,
    coalesce(fact.facts, 0) AS facts,
    coalesce(item.confirmed, 0) AS confirmed,
    coalesce(item.contradicted, 0) AS contradicted,
    coalesce(quote.unsupported, 0) AS unsupported,
    coalesce(quote.quotes, 0) AS quotes,
    coalesce(hit.failed, 0) AS failed,
    coalesce(hit.quarantined, 0) AS quarantined,
    (seen.url IS NOT NULL OR ledger.url IS NOT NULL)::int AS known,
    greatest(hit.last_at, ledger.last_at, seen.returned_at) AS last_at
  FROM (SELECT url FROM hit UNION SELECT url FROM ledger UNION SELECT url FROM seen) AS met
  LEFT JOIN hit USING (url) LEFT JOIN ledger USING (url) LEFT JOIN seen USING (url)
  LEFT JOIN item USING (url) LEFT JOIN fact USING (url) LEFT JOIN quote USING (url)
), kept AS (SELECT * FROM one WHERE {where})
"""
_SUMMED = (*FIGURES, "quotes", "quarantined", "known")
_PAGES = (
    "SELECT url AS place, domain, title, link, why, 1 AS pages, "  # noqa: S608  our own names  # nosec B608
    + ", ".join(_SUMMED)
    + ", last_at, count(*) OVER () AS total FROM kept "
)
_DOMAINS = (
    "SELECT domain AS place, domain, '' AS title, '' AS link, '' AS why, count(*) AS pages, "  # noqa: S608  our own names  # nosec B608
    + ", ".join(f"sum({name})::bigint AS {name}" for name in _SUMMED)
    + ", max(last_at) AS last_at, count(*) OVER () AS total FROM kept GROUP BY domain "
)


@dataclass(frozen=True, slots=True)
class Figures:
    """What one page, or one domain, gave the topic."""

    place: str
    domain: str
    title: str
    link: str
    why: str  # why it could not be read the last time that it could not
    pages: int
    returned: int
    read: int
    cited: int
    facts: int
    confirmed: int
    contradicted: int
    unsupported: int
    failed: int
    quotes: int
    quarantined: int
    known: int
    last_at: datetime | None
    total: int


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the figures; `places` are domains and pages to keep, None: all."""

    by_domain: bool = True
    words: Sequence[str] = ()
    domain: str = ""
    state: str = ""
    places: Sequence[str] | None = None
    sort: str = "cited"
    falling: bool = True


def page_of(
    topic: Topic, asked: Question, *, offset: int = 0, size: int = PAGE_SIZE
) -> list[Figures]:
    """Return `size` rows from `offset` on: one query."""
    return list(_rows(topic, asked, "LIMIT %(size)s OFFSET %(offset)s", size=size, offset=offset))


def all_of(topic: Topic, asked: Question, *, most: int) -> Iterator[Figures]:
    """Yield every row, for a file, at most so many."""
    yield from _rows(topic, asked, "LIMIT %(size)s", size=most)


def _rows(topic: Topic, asked: Question, limit: str, **more: Any) -> Iterator[Figures]:
    where, values = _where(asked)
    shown = _DOMAINS if asked.by_domain else _PAGES
    # Only our own names stand in the text; what a person typed are parameters.
    query = _WITH.replace("{where}", where) + shown + _order(asked) + " " + limit
    with connection.cursor() as cursor:
        cursor.execute(query, {"topic": topic.pk, **values, **more})
        names = [column.name for column in cursor.description or ()]
        for row in cursor.fetchall():
            yield Figures(**dict(zip(names, row, strict=True)))


def _order(asked: Question) -> str:
    way = "DESC" if asked.falling else "ASC"
    if asked.sort == "name" or asked.sort not in SORTS:
        return f"ORDER BY place {way}"
    return f"ORDER BY {asked.sort} {way} NULLS LAST, place"


def _where(asked: Question) -> tuple[str, dict[str, Any]]:
    values: dict[str, Any] = {}
    parts = ["true"]
    for number, word in enumerate(asked.words[:20]):
        parts.append(f"(title ILIKE %(word{number})s OR url ILIKE %(word{number})s)")
        values[f"word{number}"] = f"%{_literal(word)}%"
    if asked.domain:
        parts.append("domain = %(domain)s")
        values["domain"] = asked.domain
    if asked.state in STATES:
        parts.append(f"{asked.state} > 0")
    if asked.places is not None:
        parts.append(
            "(url = ANY (%(places)s) OR domain = ANY (%(places)s) OR domain LIKE ANY (%(below)s))"
        )
        values["places"] = list(asked.places)
        values["below"] = [f"%.{_literal(place)}" for place in asked.places]
    return " AND ".join(parts), values


def _literal(text: str) -> str:
    """Return text as LIKE takes it by its letters."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
