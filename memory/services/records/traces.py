"""Copies of a record's words outside of it, which go when it is deleted permanently.

Data flow: the record is about to be deleted -> `prepare` collects its id, probes of its words (and of
its earlier versions) and the rare words it brought -> the row is deleted -> `forget` finds the copies
and deletes or redacts them, in the same transaction.

Searching every log for every word would take minutes, so a copy is recognized by one of these: the
record's id, five consecutive words (eight characters in scripts without spaces) of some of its lines,
or a rare word (one that no other record of the owner has).  Texts written where the record was read
(`Use`) are compared with all of its lines: any five consecutive words, a whole line of three, a number
or a code.
What people wrote themselves stays: their messages, other records, reports.  `what_stays` lists it,
and the confirmation page links to it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

import pgtrigger
from django.apps import apps
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction
from django.db.models import Count, Q, Sum, TextField, Value
from django.db.models.functions import Cast, Coalesce
from django.urls import reverse

from beacon_site.text.cleaning import one_line, plain, shorten
from beacon_site.text.messages import gettext as _
from beacon_site.text.terms import UNSPACED, is_unspaced, search_terms, tsquery_of
from memory.models import (
    Activity,
    ApiAnswer,
    Archive,
    BulkAction,
    FileDraft,
    FileEntry,
    MemoryFile,
    Message,
    ModelCall,
    Proposal,
    Rating,
    Reflection,
    Remembered,
    Revision,
    SearchEntry,
    SearchSpace,
    SearchTerm,
    Section,
    Session,
    Snapshot,
    SnapshotItem,
    Topic,
    Undo,
    Use,
)
from memory.models.actors import MAINTENANCE, Actor
from memory.models.file_format import PurgedSection
from memory.models.history import APPEND_ONLY

MAX_PROBES, PROBE_WORDS, MIN_PROBE_LENGTH = 24, 5, 8
MAX_RARE, MIN_RARE_LENGTH = 12, 4
MAX_READ = 100_000  # characters of texts that are searched for rare words
MAX_RUNS = (
    200_000  # consecutive words that are compared with texts written where the record was read
)
MIN_RUN_WORDS = 3  # words; a line of at least so many is compared whole
PROBE_SIGNS, MIN_SIGNS = 8, 4  # the same in characters, for scripts without spaces
AT_ONCE = 20  # records of a longer action whose copies are searched for together
MAX_LISTED = 10  # of each kind of what stays
REDACTED = "[…]"  # a stored text has no language, so it's a sign and not a word
# Fields that say where a record is from or where it belongs, not what it says.
_NOT_WORDS = frozenset(
    {
        "source", "scope", "path", "media_type", "digest", "action", "run_step", "job", "step_name",
        "slug", "url", "kind", "category", "trust", "sensitivity", "lock", "stability", "state",
        "type", "expires_at", "trashed_at", "archived_at", "superseded_by_id", "blame", "size",
        "related_to", "step_type", "created", "chain",
    }
)  # fmt: skip
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_ANY_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
_WORD = re.compile(rf"\w{{{MIN_RARE_LENGTH},}}")


@dataclass(slots=True)
class Traces:
    """What identifies the copies of deleted records."""

    owner_id: Any
    since: datetime
    ids: list[str] = field(default_factory=list)
    probes: list[str] = field(default_factory=list)
    rare: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)  # prompts that included a record
    runs: set[tuple[str, ...]] = field(default_factory=set)  # its consecutive words
    codes: set[str] = field(default_factory=set)  # all its rare words that are numbers or codes

    def find(self, *columns: str, ids: bool = True, rare: bool = True) -> Q:
        """Return the condition that one of these columns, cast to text, holds a trace."""
        found = Q(pk__in=[])
        for column in columns:
            for words in [*self.probes, *(self.ids if ids else [])]:
                # In JSON a quotation mark or backslash is escaped.
                for one in {words, json.dumps(words, ensure_ascii=False)[1:-1]}:
                    found |= Q(**{f"{column}__contains": one})
            if rare and self.rare:
                found |= Q(**{f"{column}__iregex": self._rare_pattern})
        return found

    @property
    def _rare_pattern(self) -> str:
        return rf"\m({'|'.join(map(re.escape, self.rare))})\M"

    def is_in(self, text: str) -> bool:
        if any(one in text for one in [*self.ids, *self.probes]) or self._quotes(text):
            return True
        return bool(self.rare) and bool(
            re.search(rf"\b({'|'.join(map(re.escape, self.rare))})\b", text, re.IGNORECASE)
        )

    def _quotes(self, text: str) -> bool:
        """Whether a text repeats consecutive words of the records, or one of their numbers and codes."""
        words = _ANY_WORD.findall(text.casefold())
        if not self.codes.isdisjoint(words):
            return True
        return any(
            tuple(words[first : first + length]) in self.runs
            for length in range(MIN_RUN_WORDS, PROBE_SIGNS + 1)
            for first in range(len(words) - length + 1)
        )

    def read_in(self, kind: str) -> list[str]:
        """Return the names of the sessions or runs (`kind`) in which a record was read."""
        found = (place.partition(":") for place in self.places)
        return [name for which, _colon, name in found if which == kind]

    def without(self, value: Any) -> Any:
        """Return a JSON value in which each string with a trace is redacted, line by line."""
        if isinstance(value, str):
            lines = value.split("\n")
            kept = [REDACTED if self.is_in(line) else line for line in lines]
            return value if kept == lines else "\n".join(kept)  # an untouched message stays one
        if isinstance(value, list):
            return [self.without(one) for one in value]
        if isinstance(value, dict):
            return {key: self.without(one) for key, one in value.items()}
        return value


Forget = Callable[[Traces], object]
# Functions of other apps that delete copies, called after the records are deleted.
PLACES: list[Forget] = []
# What stays in other apps: labels and URLs of at most MAX_LISTED.
STAYING: list[Callable[[Traces], Iterable[tuple[str, str]]]] = []


def as_text(column: str) -> Cast:
    """Return a JSON or array column as text, for searching."""
    return Cast(column, TextField())


# --- identifying copies ---------------------------------------------------------------------------


def prepare(records: Sequence[Remembered], by: Actor) -> Callable[[], None]:
    """Return a function that deletes the copies of these records, to call after they are deleted."""
    if not records:
        return lambda: None
    gone = _DeletedRecords(
        traces_of(records), list(_texts(records)), partial(_forget_drafts, records), by.is_person
    )

    def forget() -> None:
        waiting = _waiting.get()
        if waiting is None:
            _forget_all([gone])
        else:
            waiting.append(gone)

    return forget


@dataclass(frozen=True, slots=True)
class _DeletedRecords:
    """The state needed to remove the copies of records that one action deleted."""

    traces: Traces
    texts: list[str]
    drafts: Callable[[], None]
    is_asked: bool  # by a person; if it expired in Trash, exports are kept for their week


_waiting: ContextVar[list[_DeletedRecords] | None] = ContextVar("purged_together", default=None)


@contextmanager
def together() -> Iterator[None]:
    """Delete the records purged in the block in one transaction, and search for their copies once."""
    with transaction.atomic():
        gone: list[_DeletedRecords] = []
        before = _waiting.set(gone)
        try:
            yield
        finally:
            _waiting.reset(before)
        owners: dict[Any, list[_DeletedRecords]] = {}
        for one in gone:
            owners.setdefault(one.traces.owner_id, []).append(one)
        for of_owner in owners.values():
            _forget_all(of_owner)


def _forget_all(gone: Sequence[_DeletedRecords]) -> None:
    """Delete the copies of one owner's deleted records."""
    owner_id = gone[0].traces.owner_id
    traces = Traces(owner_id, since=min(one.traces.since for one in gone))
    _forget_terms(owner_id)
    for one in gone:
        traces.ids += one.traces.ids
        traces.probes += one.traces.probes
        traces.places |= one.traces.places
        traces.runs |= one.traces.runs
        rare = _rare(one.texts, owner_id)
        traces.rare += rare[:MAX_RARE]
        traces.codes |= {word.casefold() for word in rare if _is_code(word)}
        one.drafts()
    _forget_here(traces)
    if any(one.is_asked for one in gone):
        _forget_exports(traces)
    for place in PLACES:
        place(traces)


def traces_of(records: Sequence[Remembered]) -> Traces:
    """Return what identifies the copies of the records, except rare words."""
    keys = [record.pk for record in records]
    files = [record.pk for record in records if isinstance(record, MemoryFile)]
    sections = Section.objects.filter(file__in=files).values_list("pk", flat=True)
    every = [*keys, *sections]
    return Traces(
        owner_id=records[0].owner_id,
        since=min(_first_written(record) for record in records),
        ids=[str(key) for key in every],
        probes=_probes(_texts(records)),
        runs=_runs(_texts(records)),
        places=set(Use.objects.filter(record_id__in=every).values_list("place", flat=True)),
    )


def _first_written(record: Remembered) -> datetime:
    """Return the earliest time of a copy; a section is as old as its file."""
    return min(
        record.created, record.file.created if isinstance(record, FileEntry) else record.created
    )


def _texts(records: Iterable[Remembered]) -> Iterator[str]:
    """Return the records' texts: their fields, then their earlier versions."""
    for record in records:
        for column in record._meta.concrete_fields:
            if _says(column):
                yield from _strings(getattr(record, column.attname))
    keys = [record.pk for record in records]
    for before, after in Revision.objects.filter(record_id__in=keys).values_list("before", "after"):
        for fields in (before, after):
            yield from _strings({k: v for k, v in fields.items() if k not in _NOT_WORDS})


def _says(column: Any) -> bool:
    if column.name in _NOT_WORDS or column.choices:
        return False
    return isinstance(column, (models.CharField, models.TextField, models.JSONField, ArrayField))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)


def _probes(texts: Iterable[str]) -> list[str]:
    """Return evenly chosen pieces of a few words that a quotation of the texts would contain."""
    found: dict[str, None] = {}
    for text in texts:
        for line in text.splitlines():
            for form in dict.fromkeys((line.strip(), plain(line).strip())):
                found |= dict.fromkeys(_pieces(form))
    every = list(found)
    step = max(1, -(-len(every) // MAX_PROBES))
    return every[::step]


def _pieces(line: str) -> Iterator[str]:
    spans = [found.span() for found in _TOKEN.finditer(line)]
    size, shortest = _in_a_row([line[first:last] for first, last in spans])
    if len(spans) <= size:
        if len(line) >= (MIN_PROBE_LENGTH if size == PROBE_WORDS else shortest) and len(spans) > 1:
            yield line
        return
    for first in range(0, len(spans) - size + 1, size):
        yield line[spans[first][0] : spans[first + size - 1][1]]


def _in_a_row(words: Sequence[str]) -> tuple[int, int]:
    """Return the number of words in a piece of a line, and the minimum for a whole line.

    In scripts without spaces, each character counts as a word.
    """
    if 2 * sum(map(is_unspaced, words)) > len(words):
        return PROBE_SIGNS, MIN_SIGNS
    return PROBE_WORDS, MIN_RUN_WORDS


def _runs(texts: Iterable[str]) -> set[tuple[str, ...]]:
    """Return every piece of the texts' lines, and shorter lines as a whole."""
    found: set[tuple[str, ...]] = set()
    for text in texts:
        for line in text.splitlines():
            words = _ANY_WORD.findall(line.casefold())
            size, shortest = _in_a_row(words)
            if len(words) >= shortest:
                length = min(len(words), size)
                found.update(zip(*(words[first:] for first in range(length)), strict=False))
            if len(found) > MAX_RUNS:
                return found
    return found


def _has_digit(word: str) -> bool:
    return any(sign.isdigit() for sign in word)


def _is_code(word: str) -> bool:
    """Whether it can't be an ordinary word, which any sentence could contain: `hunter2`, `VoltCell`."""
    return _has_digit(word) or word[1:] != word[1:].lower()


def _rare(texts: Iterable[str], owner_id: Any) -> list[str]:
    """Return words of the texts that no other record of the owner has.

    Those with a digit come first, then the longest, since numbers and names are the most sensitive.
    """
    words: dict[str, str] = {}
    read = 0
    for text in texts:
        for match in _WORD.finditer(text[: max(0, MAX_READ - read)]):
            words.setdefault(match.group().casefold(), match.group())
        read += len(text)
    terms = {key: set(search_terms(word)) for key, word in words.items()}
    all_terms = set().union(*terms.values()) if terms else set()
    mine = SearchTerm.objects.filter(
        space__owner_id=owner_id, lexeme__in=all_terms, documents__gt=0
    )
    known = set(mine.values_list("lexeme", flat=True))
    rare = [word for key, word in words.items() if terms[key] and not terms[key] & known]
    rare.sort(key=lambda word: (not _has_digit(word), -len(word)))
    return rare


# --- deleting and redacting -----------------------------------------------------------------------


def _forget_terms(owner_id: Any) -> None:
    """Delete the search index's words that no record has any longer."""
    # With `space__owner_id`, Postgres could compare all words with each other: 7 s with 400 records.
    spaces = SearchSpace.objects.filter(owner_id=owner_id)
    SearchTerm.objects.filter(space__in=spaces, documents__lte=0).delete()


def _forget_here(traces: Traces) -> None:
    _forget_snapshot_copies(traces)
    mine = Q(owner_id=traces.owner_id)
    Proposal.forget(mine & Q(pk__in=_proposals_with(traces)))
    _forget_why_held(traces)
    answers = ApiAnswer.objects.filter(token__agent__owner_id=traces.owner_id)
    answers.filter(traces.find("body")).delete()
    calls = ModelCall.objects.filter(mine, created__gte=traces.since)
    told = calls.annotate(said=as_text("prompt")).filter(
        traces.find("said", "answer")
        | Q(source__in=traces.places)
        | Q(pk__in=_messages_with(traces, calls, "error"))
    )
    _blank(ModelCall, told, prompt=[], answer="", error="")
    lines = Activity.objects.filter(mine, created__gte=traces.since).exclude(kind="purged")
    found = lines.annotate(said=as_text("detail")).filter(traces.find("said", "label"))
    _blank(Activity, found, label="", detail={})
    acts = BulkAction.objects.filter(mine).annotate(said=as_text("arguments"))
    _blank(BulkAction, acts.filter(traces.find("said", "query")), query="", arguments={})
    undos = Undo.objects.filter(mine).annotate(said=as_text("arguments"))
    undos.filter(traces.find("said")).delete()
    rated = Rating.objects.filter(mine)
    rated.filter(Q(record_id__in=traces.ids) | traces.find("question", "reason")).delete()
    looked_back = Reflection.objects.filter(mine)
    read = Q(source__in=traces.places)
    redact(looked_back, traces, "assessment", "why", "calls", "changes", read=read)
    _forget_reasons(traces)
    _forget_in_talk(traces)


def _proposals_with(traces: Traces) -> list[Any]:
    """Return the proposals that contain a trace; those by readers of the record are compared in full."""
    columns = ("before", "after", "edited", "reason")
    rows = Proposal.objects.filter(owner_id=traces.owner_id)
    told = rows.annotate(**{f"said_{name}": as_text(name) for name in columns})
    found = traces.find(*(f"said_{name}" for name in columns))
    keys = list(told.filter(found).values_list("pk", flat=True))
    near = rows.filter(Q(actor__in=traces.places) | Q(source__in=traces.places))
    near = near.filter(created__gte=traces.since).exclude(pk__in=keys)
    for key, *values in near.values_list("pk", *columns).iterator(chunk_size=50):
        if traces.without(values) != values:
            keys.append(key)
    return keys


def _blank(model: Any, rows: models.QuerySet[Any], **fields: Any) -> None:
    model.objects.filter(pk__in=list(rows.values_list("pk", flat=True))).update(**fields)


def redact(
    rows: models.QuerySet[Any], traces: Traces, *columns: str, read: Q | None = None
) -> None:
    """Redact these text or JSON columns of each row that contains a trace.

    `read` selects rows written where the record was read, which are compared in full.
    """
    told = rows.annotate(**{f"said_{name}": as_text(name) for name in columns})
    found = traces.find(*(f"said_{name}" for name in columns))
    wanted = told.filter(found if read is None else found | read)
    for row in wanted.order_by("pk").only("pk", *columns).iterator(chunk_size=50):
        values = {name: getattr(row, name) for name in columns}
        fresh = {name: traces.without(value) for name, value in values.items()}
        if fresh != values:
            rows.model.objects.filter(pk=row.pk).update(**fresh)


def _forget_snapshot_copies(traces: Traces) -> None:
    """Delete the items' copies in snapshots, and recount those snapshots."""
    copies = SnapshotItem.objects.filter(snapshot__owner_id=traces.owner_id, item_id__in=traces.ids)
    touched = list(copies.values_list("snapshot_id", flat=True).distinct())
    if not touched:
        return
    # Locked in order, as a restore locks them.
    list(Snapshot.objects.filter(pk__in=touched).order_by("pk").select_for_update())
    copies.delete()
    for snapshot in Snapshot.objects.filter(pk__in=touched):
        rows = snapshot.items.all()
        counted = rows.aggregate(count=Count("pk"), size=Coalesce(Sum("size"), Value(0)))
        version = snapshot.version + 1
        Snapshot.objects.filter(pk=snapshot.pk).update(**counted, version=version)
        before = {"count": snapshot.count, "size": snapshot.size}
        why = _("an item was permanently deleted")
        Revision.record(
            snapshot, before=before, after=counted, by=MAINTENANCE, version=version, why=why
        )
        for one in rows.filter(related_to__overlap=traces.ids):
            left = [key for key in one.related_to if str(key) not in traces.ids]
            SnapshotItem.objects.filter(pk=one.pk).update(related_to=left)


def _forget_why_held(traces: Traces) -> None:
    """Redact the reasons of other proposals that quote deleted text; the codes stay."""
    rows = Proposal.objects.filter(owner_id=traces.owner_id).annotate(said=as_text("risks"))
    for proposal in rows.filter(traces.find("hold_reasons", "said")):
        proposal.hold_reasons = traces.without(proposal.hold_reasons)
        proposal.risks = [{**traces.without(one), "code": one["code"]} for one in proposal.risks]
        proposal.save(update_fields=["hold_reasons", "risks"])


def _forget_reasons(traces: Traces) -> None:
    """Clear the reasons of other records' changes that quote deleted text."""
    rows = Revision.objects.filter(owner_id=traces.owner_id, created__gte=traces.since)
    keys = _messages_with(traces, rows, "reason")
    with pgtrigger.ignore(APPEND_ONLY):
        Revision.objects.filter(pk__in=keys).update(reason=REDACTED)


def _messages_with(traces: Traces, rows: models.QuerySet[Any], column: str) -> list[Any]:
    """Return the rows whose message says what was deleted, not just a key or code of its stored form."""
    found = rows.filter(traces.find(column, ids=False)).values_list("pk", column)
    return [pk for pk, text in found if traces.is_in(text)]


def _forget_in_talk(traces: Traces) -> None:
    """Redact what agents wrote and read in conversations; a person's own messages stay."""
    rows = Message.objects.filter(session__owner_id=traces.owner_id, created__gte=traces.since)
    told = rows.annotate(calls=as_text("tool_calls"), cited=as_text("cites"))
    sessions = [name for name in traces.read_in("session") if _is_id(name)]
    found = traces.find("content", "notice", "calls", "cited") | Q(session__in=sessions)
    for message in told.filter(found):
        fields = {
            "tool_calls": [_call_without(call, traces) for call in message.tool_calls],
            "cites": [
                one
                for one in message.cites
                if not traces.is_in(json.dumps(one, ensure_ascii=False))
            ],
        }
        if not _is_persons(message):
            fields |= {
                name: traces.without(getattr(message, name)) for name in ("content", "notice")
            }
        Message.objects.filter(pk=message.pk).update(**fields)


def _is_id(name: str) -> bool:
    with suppress(ValueError):
        return bool(UUID(name))
    return False  # a conversation elsewhere


def _is_persons(message: Message) -> bool:
    session: Any = message.session
    return message.role == "user" and not message.is_index and session.agent_id is None


def _call_without(call: Any, traces: Traces) -> Any:
    """Return a tool call without its arguments and result, if they contain a trace."""
    if not isinstance(call, dict) or not traces.is_in(json.dumps(call, ensure_ascii=False)):
        return call
    fresh = {**call, "records": [], "result": REDACTED}
    if "arguments" in call:
        fresh["arguments"] = {}
    return traces.without(fresh)


def _forget_drafts(records: Iterable[Remembered]) -> None:
    """Delete the draft of a deleted file, and take a deleted section out of its file's draft."""
    for record in records:
        if isinstance(record, MemoryFile):
            FileDraft.objects.filter(owner=record.owner_id, path=record.path).delete()
        elif isinstance(record, FileEntry):
            file = MemoryFile.objects.filter(pk=record.file_id).first()
            purged = PurgedSection(
                tuple(record.heading), record.content, file.content if file else ""
            )
            for draft in FileDraft.objects.filter(owner=record.owner_id, path=record.path):
                fresh = purged.without_section(draft.content)
                FileDraft.objects.filter(pk=draft.pk).update(content=fresh)


def _forget_exports(traces: Traces) -> None:
    """Delete exports that can contain the records: those created since."""
    rows = Archive.objects.filter(
        owner=traces.owner_id, kind=Archive.Kind.EXPORT, created__gte=traces.since
    )
    for row in rows.exclude(state__in=(Archive.State.WAITING, Archive.State.RUNNING)):
        transaction.on_commit(partial(row.file.unlink, missing_ok=True))
        row.delete()


# --- remaining copies -----------------------------------------------------------------------------


def what_stays(record: Remembered) -> list[tuple[str, str]]:
    """Return labels and URLs of what repeats the record's words and stays when it is deleted.

    These are a person's own messages, and other records with the same content.
    """
    traces = traces_of([record])
    traces.rare = _rare(_texts([record]), record.owner_id)[:MAX_RARE]
    if isinstance(record, Topic):
        traces.rare += _only_in_topic(record)
    messages = Message.objects.filter(session__owner_id=record.owner_id, role="user")
    messages = messages.filter(is_index=False, session__agent=None).exclude(session=record.pk)
    told = messages.filter(traces.find("content", ids=False)).values("session")
    found = [
        (_("Conversation “%(title)s”") % {"title": shorten(str(one), 80)}, one.get_absolute_url())
        for one in Session.objects.filter(pk__in=told).order_by("-created")[:MAX_LISTED]
    ]
    for name, column in (("note", "content"), ("observation", "content"), ("topicfact", "text"),
                         ("memoryfile", "content"), ("librarydocument", "text"),
                         ("contentitem", "content"), ("scratchpadentry", "value")):  # fmt: skip
        model = apps.get_model("memory", name)
        rows = model.objects.filter(owner_id=record.owner_id).exclude(pk=record.pk)
        if isinstance(record, FileEntry):
            rows = rows.exclude(pk=record.file_id)
        same = rows.filter(traces.find(column, ids=False, rare=False))
        if name == "topicfact":
            same = same.select_related("topic")
        found += [
            (
                f"{one._meta.verbose_name}: {shorten(one_line(str(one)), 80)}",
                # It knows which pages lead to Trash.
                reverse("memory:record-open", args=[name, one.pk])
                if one.trashed_at
                else one.get_absolute_url(),
            )
            for one in same.order_by("-created")[:MAX_LISTED]
        ]
    for staying in STAYING:
        found += staying(traces)
    return found


def _only_in_topic(topic: Topic) -> list[str]:
    """Return words of the topic's title that only its own records have."""
    others = SearchEntry.objects.filter(space__owner_id=topic.owner_id).exclude(topic_id=topic.pk)
    results = []
    for word in _WORD.findall(topic.title)[:MAX_RARE]:
        terms = search_terms(word)
        holding = others.extra(where=["words @@ %s::tsquery"], params=[tsquery_of(terms)])
        if terms and not holding.exists():
            results.append(word)
    return results
