"""Lists of notes and observations: the page of records that matches a URL, and its rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property, lru_cache
from typing import Any

from django.apps import apps
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Left
from django.utils import timezone
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import get_language

from beacon_site.http import zone_of
from memory import origins
from memory.addresses import address
from memory.models import Observation, Revision, User
from memory.models.trash import TRASH_DAYS
from memory.paging import PAGE_SIZE, Page, page_of
from memory.recall import bm25_sql
from memory.recall.filters import holding, narrowed
from memory.recall.query_text import with_values
from memory.recall.snippets import marked, passage
from memory.records.list_query import (
    BEST,
    CHANGED,
    EXPIRES,
    NOTES,
    SORTS,
    Listed,
    ListQuery,
    query_of,
)
from memory.texts.terms import ENGLISH, query_terms
from memory.texts.text import in_brief

# --- rows --------------------------------------------------------------------------------------

SHOWN, UNFOLDED = 280, 4_000  # characters of a record in its row, folded and unfolded


@dataclass
class Row:
    """One record in the list, with the matching words marked.

    A page has fifty of them, so values that are used more than once are cached.
    """

    record: Any
    wanted: ListQuery
    language: str = ENGLISH  # by which the words are stemmed
    origin: str = ""  # readable source, such as Run #3 of “Batteries”
    writer: str = ""  # the agent that wrote it, unless its source names it

    @cached_property
    def beginning(self) -> str:
        """Return the text that an unfolded row shows, and one character more."""
        text = getattr(self.record, "beginning", None)
        return str(self.record.content if text is None else text)[: UNFOLDED + 1]

    @cached_property
    def label(self) -> SafeString:
        """Return a short name of the record for the labels of its buttons."""
        return escape(in_brief(self.beginning, 60))

    @property
    def short(self) -> SafeString:
        """Return what the row shows: the whole text, or the passage that matches best."""
        words = self.wanted.question.words
        short = passage(self.beginning, words, SHOWN, self.language)
        return marked(short, words, self.language)

    @property
    def is_long(self) -> bool:
        """Whether the text is longer than the row shows."""
        return len(self.beginning) > SHOWN

    @property
    def whole(self) -> SafeString:
        """Return the text of the unfolded row."""
        return marked(self.beginning[:UNFOLDED], self.wanted.question.words, self.language)

    @property
    def is_cut(self) -> bool:
        """Whether the text is longer than the unfolded row shows."""
        return len(self.beginning) > UNFOLDED

    @property
    def when(self) -> Any:
        """Return the time by which the list is sorted: created or changed."""
        return self.record.updated if self.wanted.sort == CHANGED else self.record.created

    @property
    def has_expired(self) -> bool:
        """Whether it has expired, so that recall no longer returns it."""
        expires = getattr(self.record, "expires_at", None)
        return expires is not None and expires <= timezone.now()

    @property
    def purged_at(self) -> Any:
        """Return when a record in the trash is permanently deleted."""
        return self.record.trashed_at and self.record.trashed_at + timedelta(days=TRASH_DAYS)

    @property
    def may_be_trashed(self) -> bool:
        """Whether the row can be moved to the trash: not the current soul, agent and user note."""
        return self.wanted.listed is not NOTES or not self.record.is_standing_identity

    @cached_property
    def url(self) -> str:
        """Return the URL of the record's page."""
        return self._page_of(self.record.pk)

    @property
    def edit_url(self) -> str:
        """Return the URL of the page that edits all fields."""
        return address(f"memory:{self.wanted.listed.type}-edit", self.record.pk)

    @property
    def inline_url(self) -> str:
        """Return the URL of the row as a form."""
        return address("memory:record-inline", self.record.pk, self.wanted.listed.type)

    @property
    def act_url(self) -> str:
        """Return the URL of the row's main action: move to the trash, or restore."""
        act = "record-restore" if self.record.trashed_at else "record-trash"
        return address(f"memory:{act}", self.record.pk, self.wanted.listed.type)

    @property
    def successor_url(self) -> str:
        """Return the URL of the note that replaced this one."""
        return self._page_of(self.record.superseded_by_id)

    @property
    def older_url(self) -> str:
        """Return the URL of the near-duplicate observation."""
        return self._page_of(self.record.near_duplicate_of_id)

    @property
    def kind(self) -> str:
        """Return the label of the note's kind or the observation's category."""
        field = "kind" if self.wanted.listed is NOTES else "category"
        return _word(self.record._meta.label, field, getattr(self.record, field), get_language())

    @property
    def stability(self) -> str:
        """Return the label of a note's stability."""
        return _word(self.record._meta.label, "stability", self.record.stability, get_language())

    @property
    def tags(self) -> list[tuple[str, str]]:
        """Return the tags, each with the query that filters by it."""
        return [(_clipped(tag, 40), _asking("tag", tag)) for tag in self.record.tags]

    @property
    def topic(self) -> str:
        """Return the topic's title, shortened to fit a row."""
        return _clipped(self.record.topic.title, 40)

    @property
    def source(self) -> str:
        """Return the readable source instead of `run:4`, shortened to fit a row."""
        return _clipped(self.origin or self.record.source, 24)

    @property
    def topic_query(self) -> str:
        """Return the query that filters by the same topic."""
        return _asking("topic", self.record.topic.slug)

    @property
    def source_query(self) -> str:
        """Return the query that filters by the same source."""
        return _asking("source", self.record.source)

    def _page_of(self, key: Any) -> str:
        return address(f"memory:{self.wanted.listed.type}", key)


# A page has a hundred of these but few different ones, and building them takes much of its time.
@lru_cache(maxsize=1_000)
def _asking(field: str, value: str) -> str:
    """Return the query string that filters by this value."""
    return query_of(with_values("", field, [value]))


def _clipped(text: str, most: int) -> str:
    """Truncate the text; `truncatechars` is slow, so short texts skip it."""
    return text if len(text) <= most else Truncator(text).chars(most)


@cache
def _word(model: str, field: str, value: str, _language: str | None) -> str:
    """Return a choice's label in the language of the page."""
    choices = apps.get_model(model)._meta.get_field(field).flatchoices
    return str(dict(choices).get(value, value))


# --- lists -------------------------------------------------------------------------------------

MOST_COUNTED = 1_000  # a longer list says "more than", since counting a million takes a second
MOST_RANKED = 200  # records that are sorted by best match
SPARE = 25  # extra ranked records to load, in case filters remove some


def records_wanted(user: User, wanted: ListQuery) -> QuerySet[Any]:
    """Return the records that match the URL, unsorted.

    Trashed, superseded and expired records are left out unless `is:` names them; the trash shows
    all of them together.  Sorting by expiry leaves out records that never expire.
    """
    records: Any = wanted.listed.model.objects.of(user)
    now = timezone.now()
    if wanted.is_trash:
        records = records.in_trash()
    else:
        records = records.live()
        if wanted.listed is NOTES:
            records = _standing(records, wanted.states)
    records = narrowed(records, wanted.question, zone=zone_of(user.time_zone), now=now)
    if wanted.sort == EXPIRES:
        records = records.exclude(expires_at=None)
    if wanted.is_trash:
        return _in_trash_saying(records, wanted)
    return holding(records, wanted.question, bm25_sql.language_of(user), user)


def _standing(notes: Any, states: Collection[str]) -> Any:
    if "superseded" in states:
        return notes
    notes = notes.filter(superseded_by=None)
    return notes if "expired" in states else notes.unexpired()


def _in_trash_saying(records: QuerySet[Any], wanted: ListQuery) -> QuerySet[Any]:
    """Filter by the literal words, since the search index doesn't contain the trash."""
    question = wanted.question
    for word in question.words.split()[:20]:
        records = records.filter(content__icontains=word)
    left_out = Q(pk__in=[])
    for word in question.without[:20]:
        left_out |= Q(content__icontains=word)
    return records.exclude(left_out)


def counted(records: QuerySet[Any]) -> int:
    """Return the number of records, at most one more than the limit."""
    return records.order_by()[: MOST_COUNTED + 1].count()


def page_wanted(user: User, wanted: ListQuery, *, cursor: str = "", size: int = PAGE_SIZE) -> Page:
    """Return one page of rows: one query, two if ranked, and two more for the sources."""
    records = _shown(records_wanted(user, wanted), wanted.listed)
    if wanted.sort == BEST:
        page = _best_page(user, records, wanted, cursor, size)
    else:
        by, falling, _label = SORTS[wanted.sort]
        page = page_of(records, by=by, falling=falling, cursor=cursor, size=size)
    language = bm25_sql.language_of(user)
    told = _told_of(user, page.rows)
    rows = [_row(one, wanted, language, told) for one in page.rows]
    return Page(rows, page.next_cursor)


def _told_of(user: User, records: Sequence[Any]) -> dict[str, origins.Origin]:
    """Return the readable sources of the records, and who wrote them first."""
    return origins.of(user, {text for one in records for text in (one.source, one.writer or "")})


def _row(record: Any, wanted: ListQuery, language: str, told: Mapping[str, origins.Origin]) -> Row:
    # An agent can name any source, so the row also names the agent.
    is_agent = (record.writer or "").startswith("agent:") and record.writer != record.source
    writer = told[record.writer].words if is_agent else ""
    return Row(record, wanted, language, _words_of(told, record), writer)


def row_of(user: User, listed: Listed, pk: Any) -> Row:
    """Return one record as a row.  Raises the model's DoesNotExist for another's."""
    records: Any = listed.model.objects.of(user)
    record = _shown(records, listed).get(pk=pk)
    return _row(record, ListQuery.of(listed, {}), ENGLISH, _told_of(user, [record]))


def _words_of(told: Mapping[str, origins.Origin], record: Any) -> str:
    return told[record.source].words if record.source in told else ""


def _shown(records: Any, listed: Listed) -> Any:
    """Load only the columns of a row, and a long text only as far as it can unfold."""
    records = records.select_related("topic").defer("content", "topic__summary")
    first = Revision.objects.filter(
        record_type=listed.type, record_id=OuterRef("pk"), version=1
    ).order_by("-id")
    records = records.annotate(
        beginning=Left("content", UNFOLDED + 1), writer=Subquery(first.values("actor")[:1])
    )
    if listed is NOTES:
        return records
    alike = Observation.objects.live().filter(near_duplicate_of=OuterRef("pk")).order_by()
    number = alike.values("near_duplicate_of").annotate(number=Count("pk")).values("number")
    return records.annotate(alike=Coalesce(Subquery(number), 0))


def _best_page(
    user: User, records: QuerySet[Any], wanted: ListQuery, cursor: str, size: int
) -> Page:
    """Return a page of the best matches, as recall ranks them by words.

    At most MOST_RANKED records with any of the words are ranked.  If there are more, the others
    that contain all the words follow, newest first.
    """
    start = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 4 else 0
    until = start + size + 1  # one more than the page shows, to see whether there are more
    ranked = _ranked(user, wanted)
    # Filters rarely remove many ranked records, so a page seldom needs more rows than these.
    found = [] if wanted.question.filters else _in_order(records, ranked[: until + SPARE])
    is_full = len(ranked) == MOST_RANKED
    if len(found) < until and (wanted.question.filters or is_full or until + SPARE < len(ranked)):
        found = _in_order(records, ranked, others=until if is_full else 0)
    is_last = start + size >= len(found)
    return Page(found[start : start + size], None if is_last else str(start + size))


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
    return [*wanted, *following][:MOST_RANKED]


def _ranked(user: User, wanted: ListQuery) -> list[Any]:
    """Return the ids of the records that match the words best, best first, in two queries."""
    terms = query_terms(wanted.question.words, bm25_sql.language_of(user))
    if not terms:
        return []
    spaces = bm25_sql.spaces_of(user, [wanted.listed.type], terms)
    jobs = [bm25_sql.Job(space, terms, bm25_sql.LEXICAL, MOST_RANKED) for space in spaces]
    return [one.record_id for found in bm25_sql.ranked(jobs) for one in found]
