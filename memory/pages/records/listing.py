"""Lists of notes and observations: the query in the URL, its filters, and the matching rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache, cached_property, lru_cache
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Left
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.text import Truncator, capfirst
from django.utils.translation import get_language, gettext_lazy, ngettext
from django.utils.translation import gettext as _

from beacon_site.db.keyset import PAGE_SIZE, Page, page_of
from beacon_site.text.cleaning import clean, in_brief, one_line
from beacon_site.text.dates import zone_of
from beacon_site.text.messages import grouped
from beacon_site.text.terms import ENGLISH, query_terms
from memory.models import Note, Observation, Revision, Topic, User, as_of, origins
from memory.models.remembered import TRASH_DAYS, Lock, Sensitivity, Trust, address
from memory.models.search_index import Recalled
from memory.pages.records.record import Mark, mark_of
from memory.pages.shared.filter_bar import Choice, Facet
from memory.services.search import bm25_sql
from memory.services.search.filters import holding, narrowed
from memory.services.search.query import (
    MAX_TEXT,
    Question,
    parse,
    values_of,
    written,
)
from memory.services.search.snippets import marked, opening, passage

NEWEST, OLDEST, CHANGED, EXPIRES, BEST = "newest", "oldest", "changed", "expires", "best"
SORTS: dict[str, tuple[str, bool, Promise]] = {
    NEWEST: ("created", True, gettext_lazy("Newest")),
    OLDEST: ("created", False, gettext_lazy("Oldest")),
    CHANGED: ("updated", True, gettext_lazy("Recently changed")),
    EXPIRES: ("expires_at", False, gettext_lazy("Expires first")),
    BEST: ("", True, gettext_lazy("Best match")),
}


@dataclass(frozen=True, slots=True)
class ListedKind:
    """A kind of record with a list page; `page` is its name in URLs and saved views."""

    page: str
    model: type[Recalled]
    facet: str  # the field for the kind of a record
    sorts: tuple[str, ...]

    @property
    def type(self) -> str:
        """Return the type's name in history and in the URLs of actions."""
        return self.model.record_type()


MAX_FOLDED = 6  # near-duplicates below a row (static/css/records.css)
NOTES = ListedKind("notes", Note, "kind", (NEWEST, OLDEST, CHANGED, EXPIRES))
OBSERVATIONS = ListedKind("observations", Observation, "category", (NEWEST, OLDEST, CHANGED))
PAGES = {listed.page: listed for listed in (NOTES, OBSERVATIONS)}
BY_TYPE = {listed.type: listed for listed in PAGES.values()}


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The query in a list's URL."""

    listed: ListedKind
    text: str
    asked_sort: str
    question: Question

    @classmethod
    def of(cls, listed: ListedKind, query: Mapping[str, str]) -> ListQuery:
        """Read it from a query string; what can't be read is ignored."""
        text = one_line(clean(query.get("q", ""))[0])[: MAX_TEXT + 1]
        sort = query.get("sort", "")
        known = sort in listed.sorts or sort == BEST
        return cls(listed, text, sort if known else "", parse(text))

    @property
    def states(self) -> frozenset[str]:
        """Return the values of `is:` that aren't negated."""
        asked = (
            one.values for one in self.question.filters if one.field == "is" and not one.negated
        )
        return frozenset(value for values in asked for value in values)

    @property
    def is_trash(self) -> bool:
        return "trashed" in self.states

    @property
    def sort(self) -> str:
        """Return the order: as requested, else best match first if there are words."""
        ranked = bool(self.question.words) and not self.is_trash
        if self.asked_sort == BEST or not self.asked_sort:
            return BEST if ranked else NEWEST
        return self.asked_sort

    @property
    def is_narrowed(self) -> bool:
        """Return True if filters can hide records."""
        return self.question.has_words or bool(self.question.filters)

    @property
    def query(self) -> str:
        """Return the query string of the same query, without the page."""
        return query_of(self.text, self.asked_sort)


def query_of(text: str, sort: str = "") -> str:
    return urlencode({name: value for name, value in (("q", text), ("sort", sort)) if value})


# --- facets: operators of the query ---

MAX_EDITED = 1_000  # characters of a query that facets edit
MAX_TOPICS = 12  # the latest ones; any other can be requested with `topic:`


def facets_of(user: User, listed: ListedKind, text: str) -> list[Facet]:
    """Return what a list can be filtered by, with one query for the topics.

    A very long query has none.
    """
    if len(text) > MAX_EDITED:
        return []
    among = [
        _facet("trust", _("Trust"), "trust", dict(Trust.choices)),
        _facet("origin", _("Origin"), "source", _origins()),
        _facet("topic", _("Topic"), "topic", _topics(user, text)),
        _facet("lock", _("Locked or pinned"), "is", {"locked": _("locked"), "pinned": _("pinned")}),
    ]
    if listed is not NOTES:
        states = {
            "duplicate": _("near-duplicates"), "edited": _("corrected by a person"),
            "paused": _("paused"), "trashed": _("in Trash"),
        }  # fmt: skip
        kinds = dict(Observation.Category.choices)
        return [
            _facet("category", _("Category"), "category", kinds),
            *among,
            _facet("state", _("State"), "is", states),
        ]
    expiry = {
        "expiring": _("within 7 days"), "expired": _("expired"), "kept": _("kept until deleted"),
    }  # fmt: skip
    states = {
        "edited": _("edited by a person"), "paused": _("paused"), "superseded": _("replaced"),
        "trashed": _("in Trash"),
    }  # fmt: skip
    identity = {Note.Kind.AGENT: _("persona"), Note.Kind.USER: _("profile")}
    return [
        _facet("kind", _("Type"), "kind", dict(Note.Kind.choices) | identity),
        _facet("stability", _("Stability"), "stability", dict(Note.Stability.choices)),
        _facet("expiry", _("Expiry"), "is", expiry),
        *among,
        _facet("state", _("State"), "is", states),
    ]


def _facet(name: str, label: str, operator: str, labels: Mapping[Any, Any]) -> Facet:
    choices = [Choice(str(value), words) for value, words in labels.items()]
    return Facet(name, label, choices, operator=operator)


def _origins() -> dict[str, str]:
    return {
        "human:*": _("a person"),
        "agent:*": _("an agent"),
        "run:*": _("a run"),
        "session:*": _("a conversation"),
        "import:*": _("an import"),
    }


def _topics(user: User, text: str) -> dict[str, str]:
    """Return the latest topics, and other ones in the query."""
    latest = Topic.objects.for_user(user).live().order_by("-created")[:MAX_TOPICS]
    found: dict[str, str] = dict(latest.values_list("slug", "title"))
    slugs = [value for value in values_of(text, "topic") if value not in found]
    return found | {value: value for value in slugs[:MAX_TOPICS]}


# --- rows ---


SOON = timedelta(days=3)  # an expiry that a row shows in any list
LINE, BEGINNING = 280, 4_000  # characters of a record in its row, and in which they are found

_IDENTITY_WORDS = {
    Note.Kind.AGENT: gettext_lazy("Persona"),
    Note.Kind.USER: gettext_lazy("Profile"),
}


@dataclass
class Row:
    """One record in the list, with the matching words marked.

    A page has fifty of them, so values that are used more than once are cached.
    """

    record: Any
    wanted: ListQuery
    language: str = ENGLISH  # by which the words are stemmed
    origin: str = ""  # readable source, such as Run #3 of “Batteries”
    writer: str = ""  # the agent that wrote it, or you if its source says only how
    is_folded: bool = False  # a near-duplicate below its older observation
    folded: int = 0  # how many near-duplicates are below it
    has_same_source: bool = False  # as the row above it, so it's fainter
    has_same_kind: bool = False
    has_same_time: bool = False

    @cached_property
    def beginning(self) -> str:
        """Return the beginning of the text, in which the row's line is found."""
        text = getattr(self.record, "beginning", None)
        return str(self.record.content if text is None else text)[:BEGINNING]

    @cached_property
    def label(self) -> SafeString:
        """Return a short name of the record for the labels of its buttons."""
        return escape(in_brief(self.beginning, 60))

    @property
    def short(self) -> SafeString:
        """Return what the row shows in one line: the beginning, or the passage that matches best."""
        words = self.wanted.question.words
        text = self.beginning if words else opening(self.beginning)
        short = passage(text, words, LINE, self.language)
        return marked(short, words, self.language)

    @cached_property
    def key(self) -> str:
        return str(self.record.pk)

    @cached_property
    def when(self) -> datetime:
        """Return the time by which the list is sorted: created or changed."""
        changed = self.wanted.sort == CHANGED
        return timezone.localtime(self.record.updated if changed else self.record.created)

    @property
    def is_special(self) -> bool:
        """Return True if the row has tags other than its own, which most rows lack."""
        record = self.record
        if record.pinned or record.paused or record.lock != Lock.OPEN:
            return True
        if record.trust == Trust.QUARANTINED or record.sensitivity == Sensitivity.SENSITIVE:
            return True
        if self.wanted.listed is NOTES:
            return bool(record.superseded_by_id or self.has_expired or self.is_expiring)
        return bool(self.folded or record.near_duplicate_of_id or record.alike)

    @cached_property
    def mark(self) -> Mark:
        """Return who it's from: the person, an agent, or the web."""
        return mark_of(self.record, getattr(self.record, "writer", None) or "")

    @property
    def has_expired(self) -> bool:
        """Return True if it has expired, so that recall no longer returns it."""
        expires = getattr(self.record, "expires_at", None)
        return expires is not None and expires <= as_of.now()

    @property
    def is_expiring(self) -> bool:
        """Return True if it expires soon, or the list is about that."""
        expires = getattr(self.record, "expires_at", None)
        asked = self.wanted.sort == EXPIRES or "expiring" in self.wanted.states
        return expires is not None and (asked or expires <= as_of.now() + SOON)

    @property
    def purged_at(self) -> Any:
        """Return when a record in Trash is permanently deleted."""
        return self.record.trashed_at and self.record.trashed_at + timedelta(days=TRASH_DAYS)

    @property
    def may_be_trashed(self) -> bool:
        """Whether the row can be moved to Trash: not the current soul, agent and user note."""
        return self.wanted.listed is not NOTES or not self.record.is_current_identity

    @cached_property
    def url(self) -> str:
        return self._page_of(self.record.pk)

    @property
    def edit_url(self) -> str:
        """Return the URL of the page that edits all fields."""
        return address(f"memory:{self.wanted.listed.type}-edit", self.record.pk)

    @property
    def inline_url(self) -> str:
        return address("memory:record-inline", self.record.pk, self.wanted.listed.type)

    @property
    def act_url(self) -> str:
        """Return the URL of the row's main action: move to Trash, or restore."""
        act = "record-restore" if self.record.trashed_at else "record-trash"
        return address(f"memory:{act}", self.record.pk, self.wanted.listed.type)

    @property
    def successor_url(self) -> str:
        return self._page_of(self.record.superseded_by_id)

    @property
    def older_url(self) -> str:
        """Return the URL of the near-duplicate observation."""
        return self._page_of(self.record.near_duplicate_of_id)

    @cached_property
    def kind(self) -> str:
        """Return the label of the note's kind or the observation's category."""
        field = "kind" if self.wanted.listed is NOTES else "category"
        if self.wanted.listed is NOTES and self.record.kind in _IDENTITY_WORDS:
            return str(_IDENTITY_WORDS[self.record.kind])
        return _word(self.record._meta.label, field, getattr(self.record, field), get_language())

    @property
    def stability(self) -> str:
        return _word(self.record._meta.label, "stability", self.record.stability, get_language())

    @property
    def tags(self) -> list[tuple[str, str]]:
        """Return the tags, each with the query that filters by it."""
        said = self.record.source.partition(":")[0]  # "run" on what a run wrote says nothing new
        return [(clipped(tag, 40), _asking("tag", tag)) for tag in self.record.tags if tag != said]

    @property
    def topic(self) -> str:
        """Return the topic's title, shortened to fit a row."""
        return clipped(self.record.topic.title, 40)

    @cached_property
    def day(self) -> str:
        """Return the heading of its day, if the list is sorted by time."""
        is_by_day = self.wanted.sort in (NEWEST, OLDEST, CHANGED) and not self.wanted.is_trash
        return day_of(self.when) if is_by_day else ""

    @property
    def source(self) -> str:
        """Return who it's from, in words: you, the name of an agent, or a run with its topic."""
        if self.writer:
            return self.writer
        return capfirst(self.origin or self.record.source)

    @property
    def source_query(self) -> str:
        """Return the query that filters by the same source."""
        return _asking("source", self.record.source)

    def _page_of(self, key: Any) -> str:
        return address(f"memory:{self.wanted.listed.type}", key)


def day_of(at: datetime) -> str:
    """Return the heading of a day: “Today”, “Yesterday”, “Monday”, “3 May 2026”."""
    return _heading(timezone.localtime(at).date(), timezone.localdate(), get_language())


@lru_cache(maxsize=500)
def _heading(day: date, today: date, _language: str | None) -> str:
    if day == today:
        return _("Today")
    if day == today - timedelta(days=1):
        return _("Yesterday")
    if day > today - timedelta(days=7):
        return date_format(day, "l")
    return date_format(day, "j F Y")


# A page has a hundred of these but few different ones, and building them takes much of its time.
@lru_cache(maxsize=1_000)
def _asking(field: str, value: str) -> str:
    return query_of(written(field, [value]))


def clipped(text: str, most: int) -> str:
    """Truncate the text; `truncatechars` is slow, so short texts skip it."""
    return text if len(text) <= most else Truncator(text).chars(most)


@cache
def _word(model: str, field: str, value: str, _language: str | None) -> str:
    """Return a choice's label in the language of the page."""
    choices = apps.get_model(model)._meta.get_field(field).flatchoices
    return str(dict(choices).get(value, value))


# --- pages of rows ---

MAX_COUNTED = 1_000  # a longer list says "more than", since counting a million takes a second
MAX_RANKED = 200  # records that are sorted by best match
SPARE = 25  # extra ranked records to load, in case filters remove some


def records_wanted(user: User, query: ListQuery) -> QuerySet[Any]:
    """Return the records that match the URL, unsorted.

    Records that are in Trash, replaced or expired are left out unless `is:` names them; Trash
    shows all of them together.  Sorting by expiry leaves out records that never expire.
    """
    records: Any = query.listed.model.objects.for_user(user)
    now = as_of.now()
    if query.is_trash:
        records = records.in_trash()
    else:
        records = records.live()
        if query.listed is NOTES:
            records = _without_inactive(records, query.states, now)
    records = narrowed(records, query.question, zone=zone_of(user.time_zone), now=now)
    if query.sort == EXPIRES:
        records = records.exclude(expires_at=None)
    if query.is_trash:
        return _in_trash_saying(records, query)
    return holding(records, query.question, bm25_sql.language_of(user), user)


def _without_inactive(notes: Any, states: Collection[str], now: datetime) -> Any:
    if "superseded" in states:
        return notes
    notes = notes.filter(superseded_by=None)
    return notes if "expired" in states else notes.unexpired(now)


def _in_trash_saying(records: QuerySet[Any], query: ListQuery) -> QuerySet[Any]:
    """Search for the literal words, because the search index doesn't cover Trash."""
    question = query.question
    for word in question.words.split()[:20]:
        records = records.filter(content__icontains=word)
    left_out = Q(pk__in=[])
    for word in question.without[:20]:
        left_out |= Q(content__icontains=word)
    return records.exclude(left_out)


def counted(records: QuerySet[Any]) -> int:
    """Return the number of records, at most one more than the limit."""
    return records.order_by()[: MAX_COUNTED + 1].count()


def page_wanted(user: User, query: ListQuery, records: QuerySet[Any], *, cursor: str) -> Page:
    """Return one page of rows: one query, two if ranked, and two more for the sources.

    `records` are those of `records_wanted`.
    """
    records = _with_columns_of_row(records, query.listed)
    if query.sort == BEST:
        page = _best_page(user, records, query, cursor)
    else:
        by, falling, _label = SORTS[query.sort]
        page = page_of(records, by=by, falling=falling, cursor=cursor)
    language = bm25_sql.language_of(user)
    told = _origins_of(user, page.rows)
    for one in page.rows:
        one.owner = user  # for its mark, without a query
    rows = [_row(row, query, language, told) for row in page.rows]
    return Page(_folded(rows), page.next_cursor)


def _folded(rows: list[Row]) -> list[Row]:
    """Put near-duplicates below the older observation, if it's on the same page and day.

    There they are folded, as far as the style sheet can count. The best matches of a search have no
    day, and stay where they are.
    """
    older = {row.record.pk: row for row in rows}
    below: dict[Any, list[Row]] = {}
    for row in rows:
        first = older.get(getattr(row.record, "near_duplicate_of_id", None))
        if first is None or not row.day or first.day != row.day:
            continue
        if first.folded < MAX_FOLDED and first.record.near_duplicate_of_id is None:
            below.setdefault(first.record.pk, []).append(row)
            row.is_folded = True
            first.folded += 1
    results: list[Row] = []
    above: Row | None = None
    for row in rows:
        if row.is_folded:
            continue
        if above is not None and above.day == row.day:
            row.has_same_source = above.source == row.source
            row.has_same_kind = above.kind == row.kind
            row.has_same_time = bool(row.day) and _minute(above.when) == _minute(row.when)
        above = row
        results += [row, *below.get(row.record.pk, [])]
    return results


def _minute(at: datetime) -> tuple[int, int]:
    return at.hour, at.minute


def _origins_of(user: User, records: Sequence[Any]) -> dict[str, origins.Origin]:
    """Return the readable sources of the records, and who wrote them first."""
    return origins.of(user, {text for one in records for text in (one.source, one.writer or "")})


def _row(record: Any, query: ListQuery, language: str, told: Mapping[str, origins.Origin]) -> Row:
    # An agent can name any source, so the row names the agent instead.
    by = record.writer or ""
    is_named = by.startswith("agent:") or record.source == "explicit"
    writer = capfirst(told[by].words) if is_named and by in told else ""
    return Row(record, query, language, _words_of(told, record), writer)


def row_of(user: User, listed: ListedKind, pk: Any) -> Row:
    """Return one record as a row.  Raises the model's DoesNotExist for another's."""
    records: Any = listed.model.objects.for_user(user)
    record = _with_columns_of_row(records, listed).get(pk=pk)
    record.owner = user
    return _row(record, ListQuery.of(listed, {}), ENGLISH, _origins_of(user, [record]))


def _words_of(told: Mapping[str, origins.Origin], record: Any) -> str:
    return told[record.source].in_row if record.source in told else ""


def _with_columns_of_row(records: Any, listed: ListedKind) -> Any:
    """Load only the columns of a row, and a long text only as far as it can unfold."""
    records = records.select_related("topic").defer("content", "topic__summary")
    first = Revision.objects.filter(
        record_type=listed.type, record_id=OuterRef("pk"), version=1
    ).order_by("-id")
    records = records.annotate(
        beginning=Left("content", BEGINNING), writer=Subquery(first.values("actor")[:1])
    )
    if listed is NOTES:
        return records
    alike = Observation.objects.live().filter(near_duplicate_of=OuterRef("pk")).order_by()
    number = alike.values("near_duplicate_of").annotate(number=Count("pk")).values("number")
    return records.annotate(alike=Coalesce(Subquery(number), 0))


def _best_page(user: User, records: QuerySet[Any], query: ListQuery, cursor: str) -> Page:
    """Return a page of the best matches, as recall ranks them by words.

    At most MAX_RANKED records with any of the words are ranked.  If there are more, the others
    that contain all the words follow, newest first.
    """
    start = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 4 else 0
    until = start + PAGE_SIZE + 1  # one more than the page shows, to see whether there are more
    ranked = _ranked(user, query)
    # Filters rarely remove many ranked records, so a page seldom needs more rows than these.
    found = [] if query.question.filters else _in_order(records, ranked[: until + SPARE])
    is_full = len(ranked) == MAX_RANKED
    if len(found) < until and (query.question.filters or is_full or until + SPARE < len(ranked)):
        found = _in_order(records, ranked, others=until if is_full else 0)
    end = start + PAGE_SIZE
    return Page(found[start:end], None if end >= len(found) else str(end))


def _in_order(records: QuerySet[Any], keys: Sequence[Any], *, others: int = 0) -> list[Any]:
    """Return the records that have one of the keys, in the order of the keys.

    At most `others` of the newest records without a key follow, in the same query.
    """
    rows = records.filter(pk__in=keys).order_by()
    if others:
        newest = records.exclude(pk__in=keys).order_by("-created", "-pk")
        rows = rows.union(newest[:others], all=True)
    place = {key: number for number, key in enumerate(keys)}
    found = {row.pk: row for row in rows}
    wanted = [found[key] for key in keys if key in found]
    following = [row for row in found.values() if row.pk not in place]
    following.sort(key=lambda row: (row.created, row.pk), reverse=True)
    return [*wanted, *following][:MAX_RANKED]


def _ranked(user: User, query: ListQuery) -> list[Any]:
    """Return the ids of the records that match the words best, best first, in two queries."""
    terms = query_terms(query.question.words, bm25_sql.language_of(user))
    if not terms:
        return []
    spaces = bm25_sql.spaces_of(user, [query.listed.type], terms)
    jobs = [bm25_sql.Job(space, terms, bm25_sql.LEXICAL, MAX_RANKED) for space in spaces]
    return [one.record_id for found in bm25_sql.ranked(jobs) for one in found]


# --- texts of the lists ---


def title_of(listed: ListedKind) -> str:
    return _("Notes") if listed is NOTES else _("Observations")


def words_of(listed: ListedKind, total: int, most: int) -> dict[str, str]:
    """Return the list's texts; `total` is at most one more than `most`."""
    if listed is NOTES:
        return _counted(_of_notes(total, most), total, most)
    return _counted(_of_observations(total, most), total, most)


def _counted(words: dict[str, str], total: int, most: int) -> dict[str, str]:
    more = _("Select all matches (more than %(most)s)") % {"most": grouped(most)}
    exact = _("Select all %(total)s matches") % {"total": grouped(total)}
    return words | {"select_all": more if total > most else exact}


def _of_notes(total: int, most: int) -> dict[str, str]:
    count = ngettext("%(total)s note", "%(total)s notes", total) % {"total": grouped(total)}
    return {
        "one": _("Note"),
        "new": _("Remember"),
        "search": _("Search notes"),
        "count": count
        if total <= most
        else _("More than %(most)s notes") % {"most": grouped(most)},
        "none_found": _("No matching notes"),
        "all": _("Show all active notes"),
        "none": _("No notes yet"),
        "what": _(
            "Notes are rules, logs and summaries your agents rely on. Write one, or let the first run create a summary."
        ),
    }


def _of_observations(total: int, most: int) -> dict[str, str]:
    count = ngettext("%(total)s observation", "%(total)s observations", total)
    count %= {"total": grouped(total)}
    more = _("More than %(most)s observations") % {"most": grouped(most)}
    return {
        "one": _("Observation"),
        "new": _("Remember"),
        "search": _("Search observations"),
        "count": count if total <= most else more,
        "none_found": _("No matching observations"),
        "all": _("Show all observations"),
        "none": _("No observations yet"),
        "what": _(
            "An observation is a finding, insight or lesson from a run or conversation. Runs add them, and you can write your own."
        ),
    }


def row_words() -> dict[str, SafeString]:
    """Return the texts of every row: looked up and escaped once per page, not 50 times."""
    words = {
        "select": _("Select:"),
        "edit": _("Edit"),
        "trash": _("Trash"),
        "to_trash": _("Move to Trash:"),
        "restore": _("Restore"),
        "pinned": _("pinned"),
        "paused": _("paused"),
        "external": _("external"),
        "quarantined": _("quarantined"),
        "agent": _("by an agent"),
        "sensitive": _("sensitive"),
        "superseded": _("replaced"),
        "duplicate": _("near-duplicate"),
        "older": _("near-duplicate of an older record"),
        "kind": _("Type"),
        "category": _("Category"),
        "expires": _("Expires"),
        "expired": _("expired"),
        "kept": _("kept"),
        "written": _("Created"),
        "purged": _("deleted"),
    }
    return {name: escape(word) for name, word in words.items()}
