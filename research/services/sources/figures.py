"""Figures of a topic's sources by page or domain, and the list that shows them.

Data flow: hits, ledger and seen URLs of the topic, one row per URL -> what its runs made of each
(delta items that cite it, facts first found there, quotes checked in it) -> filtered, sorted, one
page of the list. Everything is counted in one query, however long the history is. Nothing is
stored, so the figures are right immediately after facts are struck, imported or purged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict

from django.db import connection, transaction
from django.utils.functional import Promise
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.db.keyset import PAGE_SIZE, Page
from beacon_site.text.cleaning import choice_param, csv_lines, number_of, text_param
from beacon_site.text.messages import from_column
from memory.models import Activity, RefusedSource, SourceRule, Topic, User, as_of
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached
from memory.services.review import blocking
from research.models import TopicSettings
from research.models.reports import Link, link_of
from research.models.topics import everywhere, field_of, in_effect, is_page, lists_of, places_by_act
from research.services.topics.settings import editing, standing_rules
from research.services.topics.settings import editing as topic_editing
from research.services.topics.settings.standing_rules import MAX_PLACES, place_from, place_of

# --- Rules for places on the web: block, boost or mute them for one topic or for all ---
#
# Data flow: a domain or URL, a rule and a scope -> the lists in the topic's settings (changed like
# any edit), or a `SourceRule` of the owner -> `models.in_effect`, from which each run takes them ->
# hits left out or put first (`gathering`), changes withheld (`judging`). A place has one rule per
# scope. Blocking a whole domain for all topics also refuses it as a source in the Inbox.


Act = SourceRule.Act
NONE = "none"
TOPIC, ALL = "topic", "all"


def set_rule(
    topic: Topic, place: str, act: str, *, scope: str = TOPIC, by: Actor
) -> tuple[str, str]:
    """Set a place's rule, starting with the next run. `none` removes the rule of that scope.

    Return the place as stored, and its rule before (or `none`).

    Raises InvalidValue for an invalid place or rule, or one that contradicts another, and
    LimitReached.
    """
    if act not in (*Act.values, NONE):
        params = {"act": act[:40], "known": ", ".join([*Act.values, NONE])}
        raise InvalidValue(_("Unknown action “%(act)s”. Choose one of: %(known)s.") % params)
    place = place_from(place)
    if scope == ALL:
        return place, _set_everywhere(topic.owner, place, act, by)
    with transaction.atomic():
        held = Topic.objects.select_for_update().get(pk=topic.pk)
        settings = topic_editing.settings_of(held)
        before = act_here(settings, place)
        if before != act:
            topic_editing.edit_topic(
                held, by=by, wanted=_changed_lists(settings, place, before, act)
            )
    return place, before


def act_here(settings: TopicSettings, place: str) -> str:
    """Return the rule that these settings have for exactly this place."""
    return next((act for act in Act.values if place in lists_of(settings, act)), NONE)


def _changed_lists(
    settings: TopicSettings, place: str, before: str, act: str
) -> dict[str, list[str]]:
    """Return the changed lists. Raises InvalidValue and LimitReached."""
    groups: dict[str, list[str]] = {}
    if before != NONE:
        name = field_of(before, place)
        groups[name] = [kept for kept in getattr(settings, name) if kept != place]
    if act == NONE:
        return groups
    name = field_of(act, place)
    places = getattr(settings, name)
    if len(places) >= MAX_PLACES:
        problem = _("You’ve reached the limit of %(most)d rules. Remove one first.")
        raise LimitReached(problem % {"most": MAX_PLACES})
    if act == Act.BLOCK:
        blocked = [*standing_rules.places_of(settings), place]
        allowed = settings.allow_domains
        problem = standing_rules.contradiction(settings.always_check, blocked, allowed=allowed)
        if problem:
            raise InvalidValue(problem)
    return groups | {name: [*places, place]}


# --- for all topics ---


def _set_everywhere(owner: User, place: str, act: str, by: Actor) -> str:
    refused = RefusedSource.objects.filter(owner=owner, kind=RefusedSource.Kind.DOMAIN, name=place)
    rules = SourceRule.objects.filter(owner=owner, place=place)
    with transaction.atomic():
        # two requests must not exceed the limit together
        User.objects.select_for_update(no_key=True).get(pk=owner.pk)
        kept = rules.values_list("act", flat=True).first()
        before = str(Act.BLOCK) if refused.exists() else str(kept or NONE)
        if before == act:
            return before
        for one in refused:
            blocking.allow(one, by=by)
        rules.delete()
        if act == Act.BLOCK and not is_page(place):
            blocking.refuse(owner, RefusedSource.Kind.DOMAIN, place, by=by)
        elif act != NONE:
            if SourceRule.objects.for_user(owner).count() >= SourceRule.MAX:
                problem = _("You’ve reached the limit of %(most)d rules. Remove one first.")
                raise LimitReached(problem % {"most": SourceRule.MAX})
            SourceRule.objects.create(owner=owner, place=place, act=act)
        Activity.log(owner, by, "source-rule", label=place, act=act, before=before)
    return before


# --- Figures ---


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
  WHERE r.topic_id = %(topic)s AND (d.hidden_reason = '' OR d.judged_by <> '') GROUP BY h.url
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
), page AS (
  SELECT {latest}, {summed}, max(known) AS known, max(last_at) AS last_at
  -- The versions of a library document (library:<id>/<version>) are one page.
  FROM one GROUP BY CASE WHEN url LIKE 'library:%%' THEN split_part(url, '/', 1) ELSE url END
), kept AS (SELECT * FROM page WHERE {where})
"""
_COUNTED = (*FIGURES, "quotes", "quarantined")
_SUMMED = (*_COUNTED, "known")
_LATEST = ", ".join(
    f"(array_agg({name} ORDER BY last_at DESC NULLS LAST, length(url) DESC, url DESC))[1] AS {name}"
    for name in ("url", "domain", "title", "link", "why")
)
_WITH = _WITH.replace("{latest}", _LATEST).replace(
    "{summed}", ", ".join(f"sum({name})::bigint AS {name}" for name in _COUNTED)
)
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


def page_of(
    topic: Topic, filters: SourcesFilter, rules: Rules, *, offset: int = 0, size: int = PAGE_SIZE
) -> list[ListedSource]:
    """Return `size` rows starting at `offset`, in one query."""
    limit = "LIMIT %(size)s OFFSET %(offset)s"
    return list(_rows(topic, filters, rules, limit, size=size, offset=offset))


def _rows(
    topic: Topic, filters: SourcesFilter, rules: Rules, limit: str, **more: Any
) -> Iterator[ListedSource]:
    where, values = _where(filters, rules)
    shown = _DOMAINS if filters.by == "domain" else _PAGES
    # The SQL contains only our own names. User input is passed as parameters.
    query = _WITH.replace("{where}", where) + shown + _order(filters) + " " + limit
    with connection.cursor() as cursor:
        cursor.execute(query, {"topic": topic.pk, **values, **more})
        names = [column.name for column in cursor.description or ()]
        for row in cursor.fetchall():
            found = dict(zip(names, row, strict=True))
            place, domain = found["place"], found["domain"]
            url = place if place != domain else f"https://{domain}/"
            effect, by_place = rules.effect_on(url, place)
            found |= {"why": from_column(found["why"]), "effect": effect, "by_place": by_place}
            here, in_all = act_here(rules.own, place), rules.all.get(place, NONE)
            yield ListedSource(**found, here=here, in_all=in_all)


def _order(filters: SourcesFilter) -> str:
    way = "DESC" if filters.falling else "ASC"
    if filters.sort == "name" or filters.sort not in SORTS:
        return f"ORDER BY place {way}"
    return f"ORDER BY {filters.sort} {way} NULLS LAST, place"


def _where(filters: SourcesFilter, rules: Rules) -> tuple[str, dict[str, Any]]:
    values: dict[str, Any] = {}
    parts = ["true"]
    for number, word in enumerate(filters.words.split()[:20]):
        parts.append(f"(title ILIKE %(word{number})s OR url ILIKE %(word{number})s)")
        values[f"word{number}"] = f"%{_literal(word)}%"
    if filters.domain:
        parts.append("domain = %(domain)s")
        values["domain"] = filters.domain
    if filters.state in STATES:
        parts.append(f"{filters.state} > 0")
    if filters.state in Act.values:
        places = lists_of(rules.whole, filters.state)
        parts.append(
            "(url = ANY (%(places)s) OR domain = ANY (%(places)s) OR domain LIKE ANY (%(below)s))"
        )
        values["places"] = list(places)
        values["below"] = [f"%.{_literal(place)}" for place in places]
    return " AND ".join(parts), values


def _literal(text: str) -> str:
    """Escape text for LIKE."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


# --- the list ---

MAX_IN_FILE = 100_000
MAX_OFFSET = 1_000_000
BY = {"domain": gettext_lazy("Domains"), "page": gettext_lazy("Pages")}
STATE_LABELS = {
    "": gettext_lazy("all"),
    "block": gettext_lazy("blocked"),
    "boost": gettext_lazy("boosted"),
    "mute": gettext_lazy("muted"),
    "cited": gettext_lazy("cited"),
    "facts": gettext_lazy("new facts"),
    "contradicted": gettext_lazy("contradicts known facts"),
    "unsupported": gettext_lazy("unsupported citations"),
    "failed": gettext_lazy("unreadable"),
    "quarantined": gettext_lazy("quarantined"),
}
COLUMNS = {
    "returned": (gettext_lazy("Found"), gettext_lazy("how often searches returned this source")),
    "read": (gettext_lazy("Times read"), gettext_lazy("how many times Beacon read this source")),
    "failed": (gettext_lazy("Unreadable"), gettext_lazy("how often this source couldn’t be read")),
    "cited": (gettext_lazy("Cited"), gettext_lazy("number of reports that cite this source")),
    "facts": (
        gettext_lazy("New facts"),
        gettext_lazy("facts first reported by this source"),
    ),
    "confirmed": (
        gettext_lazy("Confirmed"),
        gettext_lazy("known facts that this source confirmed"),
    ),
    "contradicted": (
        gettext_lazy("Contradicts"),
        gettext_lazy("known facts that this source contradicts"),
    ),
    "unsupported": (
        gettext_lazy("Unsupported"),
        gettext_lazy("sentences that cite this source but aren’t supported by it"),
    ),
    "last_at": (gettext_lazy("Last seen"), gettext_lazy("when a search last returned this source")),
}
ACT_WORDS = {
    Act.BLOCK: gettext_lazy("blocked"),
    Act.BOOST: gettext_lazy("boosted"),
    Act.MUTE: gettext_lazy("muted"),
}


@dataclass(frozen=True, slots=True)
class SourcesFilter:
    """The filters and sorting in the page's URL."""

    by: str = "domain"
    words: str = ""
    domain: str = ""
    state: str = ""
    sort: str = "cited"
    falling: bool = True

    @classmethod
    def of(cls, query: Mapping[str, Any]) -> SourcesFilter:
        """Read it from a query string, ignoring invalid values."""
        domain, sort = text_param(query, "domain", 255), text_param(query, "sort", 20)
        by = choice_param(query, "by", BY, "page" if domain else "domain")
        state = text_param(query, "state", 20)
        state = {"muted": "mute", "blocked": "block", "boosted": "boost"}.get(state, state)
        falling = not sort.startswith("^") if sort else True
        sort = sort.lstrip("^")
        if sort not in SORTS:
            sort, falling = "cited", True
        state = state if state in STATE_LABELS else ""
        return cls(by, text_param(query), domain, state, sort, falling)

    @property
    def query(self) -> str:
        """Return it as a URL's query, without the cursor."""
        sort = self.sort if self.falling else f"^{self.sort}"
        named = {
            "by": self.by,
            "q": self.words,
            "domain": self.domain,
            "state": self.state,
            "sort": "" if sort == "cited" else sort,
        }
        return urlencode({name: value for name, value in named.items() if value})

    def sorted_by(self, name: str) -> str:
        """Return the query string that sorts by a column, in reverse if it already does."""
        falling = not self.falling if name == self.sort else name != "name"
        changed = SourcesFilter(self.by, self.words, self.domain, self.state, name, falling)
        return changed.query


@dataclass(frozen=True, slots=True)
class ListedSource:
    """One domain or page with its figures and its rules."""

    place: str  # the domain, or the page's canonical URL
    domain: str
    title: str
    link: str
    why: str  # the reason of its last failed read
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
    here: str  # the topic's own rule for exactly this place, or none
    in_all: str  # the rule for all topics for exactly this place, or none
    effect: str  # the effective rule in the next run
    by_place: str  # the place of that rule, if it is another

    @property
    def is_page(self) -> bool:
        return self.place != self.domain

    @property
    def may_be_ruled(self) -> bool:
        """Return True if it is on the web at all. The library's name isn't a domain."""
        return self.is_page or "." in self.domain

    @property
    def target(self) -> Link:
        return link_of(self.link) if self.is_page else Link()

    @property
    def name(self) -> str:
        return (self.title or self.place) if self.is_page else self.host

    @property
    def host(self) -> str:
        return editing.readable_domain(self.domain)

    @property
    def path(self) -> str:
        """Return what follows the page's domain in its URL, to tell pages of the same title apart."""
        path = self.place.partition("://")[2].partition("/")[2].rstrip("/") if self.is_page else ""
        return f"/{path}" if path else ""

    @property
    def effect_words(self) -> str:
        """Return how it is treated: `blocked`, `muted by example.org`."""
        if self.effect == NONE:
            return ""
        word = str(ACT_WORDS[Act(self.effect)])
        if self.by_place:
            params = {"word": word, "place": editing.readable_domain(self.by_place)}
            return _("%(word)s by the rule for %(place)s") % params
        if self.here == self.effect:
            return word
        return _("%(word)s in all topics") % {"word": word}

    @property
    def trust(self) -> str:
        if self.quarantined:
            return _("quarantined")
        return _("owner") if self.domain == "library" else _("external")

    @property
    def trust_about(self) -> str:
        """Return the reason for its trust level."""
        quotes, bad = self.quotes, self.unsupported
        if self.quarantined:
            return _("A page from this source was quarantined as possible prompt injection.")
        if not quotes:
            return _("No quotes from this source yet.")
        params = {"good": quotes - bad, "all": quotes}
        return _("%(good)d of %(all)d quotes were found in the source’s text.") % params


@dataclass(frozen=True, slots=True)
class Rules:
    """A topic's effective rules: its own, those for all topics, and both together."""

    own: TopicSettings
    all: dict[str, str]
    whole: TopicSettings

    @classmethod
    def of(cls, topic: Any) -> Rules:
        """Return the rules of a topic with its settings loaded, in two queries."""
        if as_of.current() is not None:  # rules have no history
            return cls(TopicSettings(), {}, TopicSettings())
        found = everywhere(topic.owner_id)
        return cls(topic.settings, found, in_effect(topic.settings, found))

    def effect_on(self, url: str, place: str) -> tuple[str, str]:
        """Return the effective rule for a page or domain, and the place it comes from."""
        for act in (Act.BLOCK, Act.BOOST, Act.MUTE):
            found = place_of(url, sorted(lists_of(self.whole, act), key=len, reverse=True))
            if found:
                return str(act), "" if found == place else found
        return NONE, ""


def page(topic: Any, filters: SourcesFilter, *, cursor: str = "") -> tuple[Page, int, Rules]:
    """Return the rows after the cursor, the total number, and the rules."""
    rules, offset = Rules.of(topic), offset_of(cursor)
    rows = page_of(topic, filters, rules, offset=offset, size=PAGE_SIZE + 1)
    more = str(offset + PAGE_SIZE) if len(rows) > PAGE_SIZE else None
    return Page(rows[:PAGE_SIZE], more), rows[0].total if rows else 0, rules


class Column(TypedDict):
    """A column; `query` sorts by it, and `order` is the value of aria-sort if rows are sorted by it."""

    name: str
    label: Promise
    about: Promise
    query: str
    order: str


def columns(filters: SourcesFilter, rows: Sequence[ListedSource]) -> list[Column]:
    """Return the columns that have a value in a row, and the one that rows are sorted by."""
    way = "descending" if filters.falling else "ascending"
    return [
        {
            "name": name,
            "label": label,
            "about": about,
            "query": filters.sorted_by(name),
            "order": way if name == filters.sort else "",
        }
        for name, (label, about) in COLUMNS.items()
        if name == "last_at"
        or name == filters.sort != "cited"
        or any(getattr(row, name) for row in rows)
    ]


def not_met(rules: Rules, rows: Sequence[ListedSource]) -> list[tuple[str, str]]:
    """Return the topic's own rules that no row shows, so they can be removed as well."""
    shown = {row.place for row in rows}
    return [(place, act) for place, act in places_by_act(rules.own) if place not in shown]


def offset_of(cursor: str) -> int:
    return min(number_of(cursor) or 0, MAX_OFFSET)


# --- CSV ---

FIELDS = (
    "place", "domain", "title", "pages", "returned", "read", "cited", "facts", "confirmed",
    "contradicted", "unsupported", "failed", "not_read_reason", "last_seen", "trust", "treated",
)  # fmt: skip


def as_csv(topic: Topic, filters: SourcesFilter) -> Iterator[str]:
    """Yield the whole list as CSV."""
    found = _rows(topic, filters, Rules.of(topic), "LIMIT %(size)s", size=MAX_IN_FILE)
    rows = (
        {name: getattr(row, name, "") for name in FIELDS}
        | {
            "not_read_reason": row.why,
            "last_seen": row.last_at.isoformat() if row.last_at else "",
            "treated": row.effect_words,
        }
        for row in found
    )
    return csv_lines(FIELDS, rows)
