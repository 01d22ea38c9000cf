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

SHOWN, UNFOLDED = 280, 4_000  # characters of a record in its row, and unfolded there


@dataclass
class Row:
    """One record in the list, the words that were asked for marked.

    A page has fifty of them, so what is asked for more than once is kept.
    """

    record: Any
    wanted: ListQuery
    language: str = ENGLISH  # as which the words are stemmed
    origin: str = ""  # its source in words, such as Run #3 of “Batteries”
    writer: str = ""  # the agent that wrote it, where its source does not say so

    @cached_property
    def beginning(self) -> str:
        """Return the record's text as far as a row can unfold it, and one character."""
        text = getattr(self.record, "beginning", None)
        return str(self.record.content if text is None else text)[: UNFOLDED + 1]

    @cached_property
    def label(self) -> SafeString:
        """Return what names the record among others, for those who hear its buttons."""
        return escape(in_brief(self.beginning, 60))

    @property
    def short(self) -> SafeString:
        """Return what the row shows: the whole text, or the passage that fits the words best."""
        words = self.wanted.question.words
        short = passage(self.beginning, words, SHOWN, self.language)
        return marked(short, words, self.language)

    @property
    def is_long(self) -> bool:
        """Whether there is more of it than the row shows."""
        return len(self.beginning) > SHOWN

    @property
    def whole(self) -> SafeString:
        """Return the whole text, as far as a row unfolds it."""
        return marked(self.beginning[:UNFOLDED], self.wanted.question.words, self.language)

    @property
    def is_cut(self) -> bool:
        """Whether even the unfolded row does not show all."""
        return len(self.beginning) > UNFOLDED

    @property
    def when(self) -> Any:
        """Return the moment that the list is about: written, or changed where that is the order."""
        return self.record.updated if self.wanted.sort == CHANGED else self.record.created

    @property
    def has_expired(self) -> bool:
        """Whether it is not recalled any more because its time is over."""
        expires = getattr(self.record, "expires_at", None)
        return expires is not None and expires <= timezone.now()

    @property
    def purged_at(self) -> Any:
        """Return when a record in the trash goes for good."""
        return self.record.trashed_at and self.record.trashed_at + timedelta(days=TRASH_DAYS)

    @property
    def may_be_trashed(self) -> bool:
        """Whether the row offers the trash: the soul, agent and user note that stand do not."""
        return self.wanted.listed is not NOTES or not self.record.is_standing_identity

    @cached_property
    def url(self) -> str:
        """Return the address of the record's page."""
        return self._page_of(self.record.pk)

    @property
    def edit_url(self) -> str:
        """Return the address of the page on which all fields are edited."""
        return address(f"memory:{self.wanted.listed.type}-edit", self.record.pk)

    @property
    def inline_url(self) -> str:
        """Return the address of the row as a form."""
        return address("memory:record-inline", self.record.pk, self.wanted.listed.type)

    @property
    def act_url(self) -> str:
        """Return the address of the one act that every row offers: trash, in the trash restore."""
        act = "record-restore" if self.record.trashed_at else "record-trash"
        return address(f"memory:{act}", self.record.pk, self.wanted.listed.type)

    @property
    def successor_url(self) -> str:
        """Return the address of the note that replaced this one."""
        return self._page_of(self.record.superseded_by_id)

    @property
    def older_url(self) -> str:
        """Return the address of the observation that says almost the same."""
        return self._page_of(self.record.near_duplicate_of_id)

    @property
    def kind(self) -> str:
        """Return in words which kind of note, or category of observation, it is."""
        field = "kind" if self.wanted.listed is NOTES else "category"
        return _word(self.record._meta.label, field, getattr(self.record, field), get_language())

    @property
    def stability(self) -> str:
        """Return in words how long a note is meant to hold."""
        return _word(self.record._meta.label, "stability", self.record.stability, get_language())

    @property
    def tags(self) -> list[tuple[str, str]]:
        """Return the tags as they are shown, each with the query that asks for it."""
        return [(_clipped(tag, 40), _asking("tag", tag)) for tag in self.record.tags]

    @property
    def topic(self) -> str:
        """Return the topic's title, cut to what a row has room for."""
        return _clipped(self.record.topic.title, 40)

    @property
    def source(self) -> str:
        """Return the source in words, since `run:4` says little: cut to what a row has room for."""
        return _clipped(self.origin or self.record.source, 24)

    @property
    def topic_query(self) -> str:
        """Return the query that asks for what is of the same topic."""
        return _asking("topic", self.record.topic.slug)

    @property
    def source_query(self) -> str:
        """Return the query that asks for what came from the same source."""
        return _asking("source", self.record.source)

    def _page_of(self, key: Any) -> str:
        return address(f"memory:{self.wanted.listed.type}", key)


# A page has a hundred of these, of few different ones; made anew each, they took much of its time.
@lru_cache(maxsize=1_000)
def _asking(field: str, value: str) -> str:
    """Return the query string that asks for all with this value."""
    return query_of(with_values("", field, [value]))


def _clipped(text: str, most: int) -> str:
    """Return what `truncatechars` does; that is slow, so short texts are spared it."""
    return text if len(text) <= most else Truncator(text).chars(most)


@cache
def _word(model: str, field: str, value: str, _language: str | None) -> str:
    """Return what a choice is called in the language of the page."""
    choices = apps.get_model(model)._meta.get_field(field).flatchoices
    return str(dict(choices).get(value, value))


# --- lists -------------------------------------------------------------------------------------

MOST_COUNTED = 1_000  # beyond it a list says "more than": counting a million takes a second
MOST_RANKED = 200  # records that are put in the order of best match
SPARE = 25  # ranked records beyond the page that are loaded in case some are narrowed away


def records_wanted(user: User, wanted: ListQuery) -> QuerySet[Any]:
    """Return the records that the address asks for, in no order.

    Those in the trash, superseded and expired ones are left out unless `is:` names them; in the
    trash they all lie side by side.  The order by expiry is of what expires at all.
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
    """Keep what holds the words as they are written: the trash is in no search index."""
    question = wanted.question
    for word in question.words.split()[:20]:
        records = records.filter(content__icontains=word)
    left_out = Q(pk__in=[])
    for word in question.without[:20]:
        left_out |= Q(content__icontains=word)
    return records.exclude(left_out)


def counted(records: QuerySet[Any]) -> int:
    """Return how many records there are, or one more than is counted."""
    return records.order_by()[: MOST_COUNTED + 1].count()


def page_wanted(user: User, wanted: ListQuery, *, cursor: str = "", size: int = PAGE_SIZE) -> Page:
    """Return one page of rows: one query, two where they are ranked, two for where they are from."""
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
    """Return in words where the records are from, and who wrote them first."""
    return origins.of(user, {text for one in records for text in (one.source, one.writer or "")})


def _row(record: Any, wanted: ListQuery, language: str, told: Mapping[str, origins.Origin]) -> Row:
    # An agent may name any source: then the row says which agent it was, too.
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
    """Load what a row shows, and of a long text no more than it can unfold."""
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

    Ranked are MOST_RANKED of all that hold any of the words; where that many were found, those
    that hold them all and are not among them follow newest first.
    """
    start = int(cursor) if cursor.isascii() and cursor.isdigit() and len(cursor) < 4 else 0
    until = start + size + 1  # one more than the page shows: it says that there is more
    ranked = _ranked(user, wanted)
    # Words alone narrow few of the ranked away, so that a page seldom needs more rows than these.
    found = [] if wanted.question.filters else _in_order(records, ranked[: until + SPARE])
    is_full = len(ranked) == MOST_RANKED
    if len(found) < until and (wanted.question.filters or is_full or until + SPARE < len(ranked)):
        found = _in_order(records, ranked, others=until if is_full else 0)
    is_last = start + size >= len(found)
    return Page(found[start : start + size], None if is_last else str(start + size))


def _in_order(records: QuerySet[Any], keys: Sequence[Any], *, others: int = 0) -> list[Any]:
    """Return those of the records that have one of the keys, in the order of these.

    `others` is how many of the newest without one follow them at most: in the same query.
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
    """Return the ids of those that fit the words best, best first: two queries."""
    terms = query_terms(wanted.question.words, bm25_sql.language_of(user))
    if not terms:
        return []
    spaces = bm25_sql.spaces_of(user, [wanted.listed.type], terms)
    jobs = [bm25_sql.Job(space, terms, bm25_sql.LEXICAL, MOST_RANKED) for space in spaces]
    return [one.record_id for found in bm25_sql.ranked(jobs) for one in found]
