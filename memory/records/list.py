"""Lists of what is remembered: the page of records that answers what an address asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce, Left
from django.utils import timezone

from beacon_site.http import zone_of
from memory import origins
from memory.models import Observation, Revision, User
from memory.paging import PAGE_SIZE, Page, page_of
from memory.recall import bm25_sql
from memory.recall.filters import holding, narrowed
from memory.records.list_query import BEST, EXPIRES, NOTES, SORTS, Listed, ListQuery
from memory.records.row import UNFOLDED, Row
from memory.texts.terms import ENGLISH, query_terms

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
