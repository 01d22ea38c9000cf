"""Finds what memory already says about the same thing with another value: "Already in memory".

A person sees it while typing and after saving. A task stores the pair as a conflict, so that it
reaches the Inbox for every writer. What runs find isn't compared with what other runs found: a
topic's facts are compared when the run saves them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site import celery
from beacon_site.text import contradictions as texts
from beacon_site.text.terms import query_terms
from beacon_site.worker_threads import BACKGROUND
from memory.models import Conflict, MemoryFile, Note, Observation, Section, User
from memory.models.actors import MAINTENANCE, Actor
from memory.models.remembered import Trust
from memory.services.search import bm25_sql
from memory.services.search.kinds import KINDS

TYPES = ("note", "observation", "fact", "section")  # the kinds of memory that are compared
MOST_ASKED = 8  # statements of a text that are looked up
NEAREST = 60  # records of each type that a statement is compared with
MOST_KNOWN = 50
AT_ONCE = 200  # records of one write; after an import, upkeep compares the latest
MOST_CHECKED = 500  # records that upkeep compares
WAIT = 10.0  # seconds without messages after the broker didn't accept one
_RUN = "run:"
_down_until = 0.0


@dataclass(frozen=True, slots=True)
class Known:
    """What memory says that a text contradicts: the record, its statement, and the text's own."""

    record: Any
    type: str
    said: str
    mine: str
    kind: str

    @property
    def why(self) -> str:
        return str(Conflict.Reason(self.kind).label)

    @property
    def url(self) -> str:
        return KINDS[self.type].url(self.record)

    @property
    def place(self) -> str:
        """Return where it's from: the line of a file, or the topic of a fact."""
        if isinstance(self.record, Section):
            told = {"path": self.record.file.path, "line": self.line}
            return _("%(path)s, line %(line)s") % told
        topic = getattr(self.record, "topic", None)
        return str(topic.title) if topic is not None else ""

    @property
    def line(self) -> int:
        """Return the number of its line in the file."""
        lines = self.record.file.content.splitlines()
        return next((n for n, line in enumerate(lines, start=1) if self.said in line), 1)


def also_known(owner: User, text: str, *, but: Any = None, limit: int = MOST_KNOWN) -> list[Known]:
    """Return what the owner's memory says that `text` contradicts, the best match first.

    `but` is the record that has the text. This takes a fixed number of queries.
    """
    asked = texts.statements(text)[:MOST_ASKED]
    keys = _nearest(owner, asked)
    found: list[Known] = []
    rows = {name: _rows(owner, name).in_bulk(ids) for name, ids in keys.items() if ids}
    for name, ids in keys.items():
        for key in ids:
            record = rows[name].get(key)
            if record is None or (but is not None and key == but.pk) or _is_part_of(record, but):
                continue
            of_record = KINDS[name].content(record)
            different = next(
                (one for mine in asked for one in texts.differences(of_record, mine)), None
            )
            if different is not None:
                found.append(Known(record, name, different.old, different.new, different.kind))
    return found[:limit]


def _is_part_of(record: Any, file: Any) -> bool:
    return (
        isinstance(record, Section) and isinstance(file, MemoryFile) and record.file_id == file.pk
    )


def _nearest(owner: User, asked: Sequence[str]) -> dict[str, list[Any]]:
    """Return the ids of the records that share most words with the statements: a few queries."""
    language = bm25_sql.language_of(owner)
    words = [query_terms(one, language) for one in asked]
    spaces = bm25_sql.spaces_of(owner, TYPES, (term for some in words for term in some))
    pairs = [(space, some) for some in words for space in spaces]
    jobs = [bm25_sql.Job(space, some, bm25_sql.EXACT, NEAREST) for space, some in pairs]
    found: dict[str, dict[Any, None]] = {name: {} for name in TYPES}
    for (space, _some), hits in zip(pairs, bm25_sql.ranked(jobs), strict=True):
        found[space.record_type] |= dict.fromkeys(hit.record_id for hit in hits)
    return {name: list(ids) for name, ids in found.items()}


def _rows(owner: User, name: str) -> QuerySet[Any]:
    rows = KINDS[name].rows(owner, timezone.now())
    if name == "fact":
        return rows.filter(state="current")
    if name == "observation":
        return rows.exclude(source__startswith=_RUN)
    if name == "note":
        return rows.exclude(kind__in=Note.IDENTITY).exclude(_generated())
    return rows


def _generated() -> Q:
    return ~Q(job="") & Q(kind=Note.Kind.SUMMARY)


# --- conflicts ------------------------------------------------------------------------------------


def report(record: Any, *, by: Actor = MAINTENANCE) -> list[Conflict]:
    """Store a conflict with each record that this one contradicts, and return them.

    A pair that is open already, or that a person resolved and that hasn't changed since, is
    returned as it is. Lines of memory files can't be in a conflict.
    """
    if not _is_compared(record):
        return []
    found = []
    for known in also_known(record.owner, record.content, but=record):
        if known.type == "section":
            continue
        pair = Conflict.objects.note(
            record.owner,
            Conflict.Kind.CONTRADICTION,
            known.record,
            record,
            reason=known.kind,
            by=by,
        )
        if pair is not None:
            found.append(pair)
    return found


def _is_compared(record: Any) -> bool:
    """Whether the record is a statement of a person or an agent, not of a run or a web page."""
    if not isinstance(record, Note | Observation) or record.trashed_at is not None:
        return False
    if record.source.startswith(_RUN) or record.trust in (Trust.EXTERNAL, Trust.QUARANTINED):
        return False
    if isinstance(record, Observation):
        return True
    is_generated = record.job and record.kind == Note.Kind.SUMMARY
    is_active = record.superseded_by_id is None and not record.has_expired()
    return bool(is_active and record.kind not in Note.IDENTITY and not is_generated)


def follow(records: Iterable[Any]) -> None:
    """Compare written records in a task after the commit. If the message is lost, upkeep does it."""
    asked = [[one.record_type(), str(one.pk)] for one in records if _is_compared(one)]
    if asked:
        transaction.on_commit(lambda: _send(asked[:AT_ONCE]))


def _send(asked: list[list[str]]) -> None:
    """Send the message, but don't let each write wait for a broker that is down."""
    global _down_until
    if time.monotonic() < _down_until:
        return
    if celery.is_full(BACKGROUND):
        return
    if not celery.send("memory.tasks.find_contradictions", asked, queue=BACKGROUND):
        _down_until = time.monotonic() + WAIT


def report_each(asked: Iterable[Sequence[str]]) -> int:
    """Compare these records, named by type and id; return the number of their conflicts."""
    models: dict[str, Any] = {"note": Note, "observation": Observation}
    number = 0
    for name, key in asked:
        record = models[name].objects.filter(pk=key).select_related("owner").first()
        number += len(report(record)) if record is not None else 0
    return number


def report_since(owner: User, since: datetime) -> int:
    """Compare what was written since then, the latest first."""
    number = 0
    for model in (Note, Observation):
        rows = model.objects.of(owner).filter(updated__gte=since, trashed_at=None)
        rows = rows.exclude(source__startswith=_RUN).select_related("owner")
        number += sum(len(report(one)) for one in rows.order_by("-updated")[:MOST_CHECKED])
    return number


def number_of_each(owner: User, ids: Iterable[Any]) -> dict[Any, int]:
    """Return how many open contradictions each of these newer records has."""
    rows = Conflict.objects.of(owner).standing().filter(right_id__in=list(ids))
    rows = rows.filter(kind=Conflict.Kind.CONTRADICTION).order_by()
    return dict(rows.values_list("right_id").annotate(n=Count("pk")))


def others_of(conflict: Conflict) -> list[Conflict]:
    """Return the other open contradictions of the newer record, which one decision can resolve."""
    rows = Conflict.objects.of(conflict.owner).standing()
    rows = rows.filter(kind=Conflict.Kind.CONTRADICTION, right_id=conflict.right_id)
    return list(rows.exclude(pk=conflict.pk)[:MOST_KNOWN])
