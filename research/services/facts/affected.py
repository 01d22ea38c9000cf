"""Lines of a person's own memory that a run's changes meet: found when the run is saved, then shown.

Only the place of a line is stored. Its text is read from its record each time, so a line that was
edited or deleted is no longer shown.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from beacon_site.text.cleaning import one_line, plain
from beacon_site.text.terms import search_terms, tsquery_of
from memory.models import (
    FileEntry,
    MemoryFile,
    Note,
    Remembered,
    SearchEntry,
    Section,
    Topic,
    Trust,
    User,
)
from memory.models.actors import Actor
from research.claims.affects import affects, names_of, same_thing
from research.models import AffectedLine, DeltaItem, Run
from research.services.runs.reporting.report_text import sentence_key

MAX_RECORDS = 300  # the newest that name something in the changes
MAX_PER_RUN = 20
MAX_PER_CHANGE = 3
_KINDS = (Note.Kind.LOG, Note.Kind.SUMMARY, Note.Kind.RULE, Note.Kind.USER)
_OWN = (Trust.OWNER, Trust.AGENT)
_MARK = re.compile(r"^\s*(?:[-*+]|\d+[.)]|#+|>)\s+")


def lines_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a note or section, each with its key, without list marks and markup."""
    for line in text.splitlines():
        bare = one_line(plain(_MARK.sub("", line)))
        if bare:
            yield sentence_key(bare), bare


# --- finding ---


def note(run: Run, topic: Topic) -> int:
    """Store which of the owner's lines the run's changes meet. Return how many.

    A line is named once for each run, with the change that meets it most surely. What a person said
    isn't about it stays unsaid.
    """
    items = list(run.delta_items.filter(status__in=DeltaItem.LISTED, hidden_reason=""))
    if not items:
        return 0
    names = {name for item in items for name in names_of(item.sentence)}
    dismissed = _dismissed(topic)
    best: list[tuple[int, DeltaItem, Note | Section, str]] = []
    for record, key, text in _lines_with_names(topic.owner, topic, names):
        met = [(affects(one.sentence, text, one.previous_text), one) for one in items]
        texts = dismissed[record.pk, key]
        met = [
            (score, one)
            for score, one in met
            if score and not any(same_thing(one.sentence, said) for said in texts)
        ]
        if met:
            score, item = max(met, key=lambda one: one[0])  # the first of the best
            best.append((score, item, record, key))
    affected_lines: list[AffectedLine] = []
    of_item: Counter[int] = Counter()
    for score, item, record, key in sorted(best, key=lambda one: -one[0])[:MAX_PER_RUN]:
        if of_item[item.pk] < MAX_PER_CHANGE:
            of_item[item.pk] += 1
            affected_lines.append(
                AffectedLine(
                    owner=topic.owner,
                    item=item,
                    record_type=record.record_type(),
                    record_id=record.pk,
                    line_key=key,
                    score=score,
                )
            )
    AffectedLine.objects.bulk_create(affected_lines)
    return len(affected_lines)


def _lines_with_names(
    owner: User, topic: Topic, names: Iterable[str]
) -> Iterator[tuple[Note | Section, str, str]]:
    """Yield the lines of the owner's notes and files that contain one of the names."""
    words = {word for name in names for word in name.split()}
    if not words:
        return
    entries = SearchEntry.objects.filter(
        space__owner=owner, space__record_type__in=("note", "section")
    )
    stems = sorted({term for word in words for term in search_terms(word)})
    entries = entries.extra(where=["words @@ %s::tsquery"], params=[tsquery_of(stems)])
    ids = list(entries.order_by("-created").values_list("record_id", flat=True)[:MAX_RECORDS])
    if not ids:
        return
    # What runs wrote isn't the person's own, and repeats the topic's facts.
    notes = (
        Note.objects.for_user(owner).active().filter(pk__in=ids, kind__in=_KINDS, trust__in=_OWN)
    )
    sections = Section.objects.for_user(owner).filter(pk__in=ids, trust__in=_OWN)
    records: list[Note | Section] = [
        *notes.exclude(source__startswith="run:"),
        *sections.filter(file__trashed_at=None).exclude(file__source__startswith="run:"),
    ]
    for record in records:
        for key, line in lines_of(record.content):
            if any(word in line.casefold() for word in words):
                yield record, key, line


def _dismissed(topic: Topic) -> dict[tuple[Any, str], list[str]]:
    """Return the changes that a person said aren't about a line, by line."""
    found: dict[tuple[Any, str], list[str]] = defaultdict(list)
    rows = AffectedLine.objects.filter(item__run__topic=topic).exclude(dismissed_at=None)
    for record, key, said in rows.values_list("record_id", "line_key", "item__sentence"):
        found[record, key].append(said)
    return found


# --- showing ---


def current_lines(rows: Sequence[AffectedLine], *, is_private: bool = True) -> list[AffectedLine]:
    """Return the lines with their current `text` and `record`, in two queries.

    Those that no longer exist are left out.

    `is_private` is False for messages that leave Beacon. They don't quote sensitive records, nor
    those of a sensitive topic.
    """
    records: dict[Any, Note | Section] = {}
    ids = [row.record_id for row in rows]
    if ids:
        notes = Note.objects.active().filter(pk__in=ids)
        sections = Section.objects.filter(pk__in=ids, file__trashed_at=None)
        if not is_private:
            notes, sections = notes.for_agents(), sections.for_agents()
        records |= {one.pk: one for one in notes}
        records |= {one.pk: one for one in sections.select_related("file")}
    results = []
    for row in rows:
        record = records.get(row.record_id)
        if record is None or record.owner_id != row.owner_id:
            continue
        text = dict(lines_of(record.content)).get(row.line_key, "")
        if text:
            row.record, row.text = record, text
            results.append(row)
    return results


def of_items(items: Iterable[int], *, is_private: bool = True) -> dict[int, list[AffectedLine]]:
    """Return the lines that each delta item affects, in three queries."""
    rows = AffectedLine.objects.standing().filter(item__in=list(items))
    by_item: dict[int, list[AffectedLine]] = defaultdict(list)
    for one in current_lines(list(rows), is_private=is_private):
        by_item[one.item_id].append(one)
    return by_item


def of_unread(user: User) -> dict[Any, list[AffectedLine]]:
    """Return the lines that unread changes affect, by topic, the surest first.  Three queries."""
    unread = Q(item__run__report__read_at=None, item__run__report__trashed_at=None)
    rows = (
        AffectedLine.objects.for_user(user)
        .standing()
        .filter(unread, item__run__topic__trashed_at=None)
    )
    by_topic: dict[Any, list[AffectedLine]] = defaultdict(list)
    for one in current_lines(
        list(rows.select_related("item__run").order_by("-score", "-created", "item")[:60])
    ):
        by_topic[one.item.run.topic_id].append(one)
    return by_topic


# --- not about this ---


def dismiss(found: AffectedLine) -> bool:
    """Remember that the change isn't about the line. Return False if that was said before."""
    rows = AffectedLine.objects.filter(pk=found.pk, dismissed_at=None)
    return bool(rows.update(dismissed_at=timezone.now()))


def restore(found: AffectedLine) -> bool:
    """Undo a dismissal. Return False if there is none."""
    rows = AffectedLine.objects.filter(pk=found.pk).exclude(dismissed_at=None)
    return bool(rows.update(dismissed_at=None))


# --- deletion ---


def prepare_purge(records: Sequence[Remembered], _by: Actor) -> Callable[[], None]:
    """Return what deletes the lines of records that are gone. Their keys are hashes of short texts."""
    owners = {
        record.owner_id for record in records if isinstance(record, Note | MemoryFile | FileEntry)
    }

    def forget() -> None:
        if owners:
            rows = AffectedLine.objects.filter(owner__in=owners)
            rows = rows.exclude(Exists(Note.objects.filter(pk=OuterRef("record_id"))))
            rows.exclude(Exists(Section.objects.filter(pk=OuterRef("record_id")))).delete()

    return forget
