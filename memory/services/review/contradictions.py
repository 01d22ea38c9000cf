"""Finds what memory already says about the same thing with another value: "Already in memory".

A person sees it while typing and after saving. A task stores the pair as a conflict, so that it
reaches the Inbox for every writer. What runs find isn't compared with what other runs found: a
topic's facts are compared when the run saves them. Mounted files of agents are compared by their
statements, which also shows what they repeat.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from beacon_site import celery
from beacon_site.text import contradictions as texts
from beacon_site.text.messages import gettext as _
from beacon_site.text.terms import query_terms
from beacon_site.worker_threads import BACKGROUND
from memory.models import Conflict, MemoryFile, Note, Observation, Section, User
from memory.models.actors import MAINTENANCE, Actor
from memory.models.conflicts import sides_of
from memory.models.file_format import (
    MOUNTED,
    digest_of,
    statements_found,
    statements_of,
    summary_place,
)
from memory.models.remembered import Trust
from memory.services.observations.saving import is_near
from memory.services.review import file_lines
from memory.services.search import bm25_sql
from memory.services.search.kinds import KINDS

TYPES = ("note", "observation", "fact", "section")  # the kinds of memory that are compared
MAX_LOOKUPS = 8  # statements of a text that are looked up
NEAREST = 60  # records of each type that a statement is compared with
NEAREST_OF_FILE = 12  # for a mounted file, all of whose statements are compared
MAX_KNOWN = 50
AT_ONCE = 200  # records of one write; after an import, upkeep compares the latest
MAX_CHECKED = 500  # records that upkeep compares
SECONDS = 10.0  # per search
WAIT = 10.0  # seconds without messages after the broker didn't accept one
SAME = "same"  # the `kind` of a statement that the text contains word for word
_RUN = "run:"
_NAMES: dict[type[Model], str] = {Note: "note", Observation: "observation", Section: "section"}
_down_until = 0.0


@dataclass(frozen=True, slots=True)
class Known:
    """What memory says that a text contradicts or repeats: the record, its statement, and the text's
    (`new`).
    """

    record: Any
    type: str
    said: str
    kind: str
    new: str

    @property
    def is_same(self) -> bool:
        return self.kind == SAME

    @property
    def why(self) -> str:
        return _("same text") if self.is_same else str(Conflict.Reason(self.kind).label)

    @property
    def url(self) -> str:
        return KINDS[self.type].url(self.record)

    @property
    def place(self) -> str:
        """Return where it's from: the line of a file, or the topic of a fact."""
        if isinstance(self.record, Section):
            params = {"path": self.record.file.path, "line": self.line}
            return _("%(path)s, line %(line)s") % params
        topic = getattr(self.record, "topic", None)
        return str(topic.title) if topic is not None else ""

    @property
    def can_be_replaced(self) -> bool:
        """Return True if a decision can change it: not a line of a table, a quote or code."""
        file = _file_of(self.record)
        return not self.is_same and (
            file is None or bool(statements_found(file.content, [digest_of(self.said)]))
        )

    @property
    def line(self) -> int:
        text = self.record.file.content
        lines, summary = text.split("\n"), summary_place(text)  # it repeats what a line says
        found = (place for place, line in enumerate(lines) if self.said in texts.plain(line))
        return next((place + 1 for place in found if place != summary), 1)


def also_known(owner: User, text: str, *, but: Any = None, with_same: bool = False) -> list[Known]:
    """Return what the owner's memory says that `text` contradicts, the best match first.

    With `with_same`, statements that it contains word for word come first. `but` is the record that
    has the text. This takes a fixed number of queries.
    """
    stated = texts.statements(text)[:MAX_LOOKUPS]
    expected = {one.casefold(): one for one in stated} if with_same else {}
    results: list[Known] = []
    repeated: list[Known] = []
    for name, record, _places in _records_near(owner, stated, NEAREST):
        if but is not None and (record.pk == but.pk or _file_of(record) == but):
            continue
        of_record = KINDS[name].content(record)
        different = next(
            (one for mine in stated for one in texts.differences(of_record, mine)), None
        )
        if different is not None:
            results.append(Known(record, name, *different))
        statements = texts.statements(of_record) if expected else ()
        if same := next((one for one in statements if one.casefold() in expected), None):
            repeated.append(Known(record, name, same, SAME, expected[same.casefold()]))
    return [*repeated, *results][:MAX_KNOWN]


def _records_near(
    owner: User, names: Sequence[str], most: int
) -> Iterator[tuple[str, Any, list[int]]]:
    """Yield the type and record of what shares most words with a statement, and the positions of
    those statements.
    """
    keys = _nearest(owner, names, most)
    for name, ids in keys.items():
        rows = _rows(owner, name).in_bulk(list(ids)) if ids else {}
        yield from ((name, rows[key], places) for key, places in ids.items() if key in rows)


def _file_of(record: Any) -> MemoryFile | None:
    return record.file if isinstance(record, Section) else None


def _nearest(owner: User, names: Sequence[str], most: int) -> dict[str, dict[Any, list[int]]]:
    """Return the ids of the records that share most words with a statement, each with the positions
    of those statements: a few queries.
    """
    language = bm25_sql.language_of(owner)
    words = [query_terms(one, language) for one in names]
    spaces = bm25_sql.spaces_of(owner, TYPES, (term for some in words for term in some))
    pairs = [(space, place) for place in range(len(words)) for space in spaces]
    jobs = [bm25_sql.Job(space, words[place], bm25_sql.EXACT, most) for space, place in pairs]
    found: dict[str, dict[Any, list[int]]] = {name: {} for name in TYPES}
    for (space, place), hits in zip(pairs, bm25_sql.ranked(jobs), strict=True):
        for hit in hits:
            found[space.record_type].setdefault(hit.record_id, []).append(place)
    return found


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
    returned as it is. Lines of memory files are compared by `report_lines`.
    """
    if not _is_compared(record):
        return []
    kind = Conflict.Kind.CONTRADICTION
    found = [
        Conflict.objects.note(record.owner, kind, known.record, record, reason=known.kind, by=by)
        for known in also_known(record.owner, record.content, but=record)
        if known.type != "section"
    ]
    return [pair for pair in found if pair is not None]


def report_line(record: Any, known: Known, *, by: Actor) -> Conflict | None:
    """Store that this record contradicts a line of a memory file, as `report` does for records."""
    lines = [(digest_of(known.said), digest_of(known.new))]
    return Conflict.objects.note(
        record.owner, Conflict.Kind.CONTRADICTION, known.record.file, record,
        reason=known.kind, by=by, lines=lines,
    )  # fmt: skip


def report_lines(record: Any) -> list[Conflict]:
    """Store what a section of a mounted file contradicts and repeats, or a record in mounted files.

    Contradictions are one conflict for each pair of statements, and repetitions one for all of them.
    """
    file = _file_of(record)
    if not _is_compared(record) or (file is not None and not file_lines.is_compared(file)):
        return []
    own, found = file or record, []
    for other, pairs in _file_pairs(record):
        repeated = [pair for pair, reason in pairs.items() if reason == Conflict.Reason.SIMILAR]
        groups = [(Conflict.Kind.CONTRADICTION, [one]) for one in pairs if one not in repeated]
        groups += [(Conflict.Kind.NEAR_DUPLICATE, repeated)] if repeated else []
        for kind, lines in groups:
            reason = pairs[lines[0]]
            found.append(
                Conflict.objects.note(record.owner, kind, other, own, reason=reason, lines=lines)
            )
    return [pair for pair in found if pair is not None]


Pairs = dict[tuple[str, str], str]  # the reason, by the digests of two statements


def _file_pairs(record: Any) -> list[tuple[Any, Pairs]]:
    """Return what a mounted file contradicts and repeats, or a record in mounted files.

    Each with the pairs of statements, those of the other side first.
    """
    file, mine = _file_of(record), _said(record)
    near = list(_records_near(record.owner, mine, NEAREST_OF_FILE))
    files = {one.file_id: one.file for _name, one, _places in near if isinstance(one, Section)}
    scopes = file_lines.scopes_of(record.owner, [*files.values(), *([file] if file else [])])
    found: dict[Any, tuple[Any, Pairs]] = {}
    for _name, one, places in near:
        its = _file_of(one)
        if file is None and (its is None or not its.mounted_folder):
            continue
        if its is not None and (its == file or not file_lines.is_compared(its)):
            continue
        if its and file and not file_lines.can_conflict(its, file, scopes):
            continue
        if pairs := _different_or_same(_said(one), [mine[place] for place in places]):
            other = its or one
            found.setdefault(other.pk, (other, {}))[1].update(pairs)
    return list(found.values())


def _said(record: Any) -> list[str]:
    if isinstance(record, Section):
        return [one.text for one in statements_of(record.content)]
    return texts.statements(record.search_text())


def _different_or_same(theirs: Sequence[str], ours: Sequence[str]) -> Pairs:
    """Return the reason by pair of digests, for statements that differ in a value or say the same."""
    found: Pairs = {}
    for mine in ours:
        for one in theirs:
            reason: str = next((kind for _old, kind, _new in texts.differences(one, mine)), "")
            if not reason and file_lines.can_be_repeated(mine) and is_near(one, mine):
                reason = Conflict.Reason.SIMILAR
            if reason:
                found[digest_of(one), digest_of(mine)] = reason
    return found


def _is_compared(record: Any) -> bool:
    """Whether the record is a statement of a person or an agent, not of a run or a web page."""
    if isinstance(record, Section):
        return bool(record.file.mounted_folder) and record.file.trashed_at is None
    if not isinstance(record, Note | Observation) or record.trashed_at is not None:
        return False
    if record.source.startswith(_RUN) or record.trust in (Trust.EXTERNAL, Trust.QUARANTINED):
        return False
    if isinstance(record, Observation):
        return True
    is_generated = record.job and record.kind == Note.Kind.SUMMARY
    is_active = record.superseded_by_id is None and not record.has_expired()
    return bool(is_active and record.kind not in Note.IDENTITY and not is_generated)


def close_edited(owner_id: int, path: str) -> None:
    """Close the conflicts of a changed file if no pair of statements is left on both sides."""
    open_pairs = Conflict.objects.for_user(owner_id).open().exclude(lines=[])
    file = MemoryFile.objects.for_user(owner_id).live().at(path).first()
    if file is None:
        return
    rows = list(open_pairs.about([file.pk]).select_related("owner"))
    sides = sides_of(rows)
    gone = [
        row
        for row in rows
        if row.left_id in sides
        and row.right_id in sides
        and not file_lines.keep_found(row, (sides[row.left_id], sides[row.right_id]))
    ]
    Conflict.resolve_automatically(gone, by=MAINTENANCE)


def follow(records: Iterable[Any]) -> None:
    """Compare written records in a task after the commit. If the message is lost, upkeep does it."""
    asked = [[_NAMES[type(record)], str(record.pk)] for record in records if _is_compared(record)]
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
    models: dict[str, Any] = {name: model for model, name in _NAMES.items()}
    number = 0
    for name, key in asked:
        related = ("owner", "file") if name == "section" else ("owner",)
        record = models[name].objects.filter(pk=key).select_related(*related).first()
        number += _report_all(record) if record is not None else 0
    return number


def _report_all(record: Any) -> int:
    is_section = isinstance(record, Section)
    return len([*([] if is_section else report(record)), *report_lines(record)])


def report_since(owner: User, since: datetime, *, seconds: float = SECONDS) -> int:
    """Compare what was written since then, the latest first, within a time limit."""
    number, ends = 0, time.monotonic() + seconds
    for one in _written_since(owner, since):
        if time.monotonic() > ends:
            break
        number += _report_all(one)
    return number


def _written_since(owner: User, since: datetime) -> Iterator[Any]:
    for model in (Note, Observation):
        rows = model.objects.for_user(owner).filter(updated__gte=since, trashed_at=None)
        rows = rows.exclude(source__startswith=_RUN).select_related("owner")
        yield from rows.order_by("-updated")[:MAX_CHECKED]
    sections = Section.objects.for_user(owner).filter(updated__gte=since, file__trashed_at=None)
    sections = sections.filter(file__path__startswith=MOUNTED).select_related("owner", "file")
    yield from sections.order_by("-updated")[:MAX_CHECKED]


def number_of_each(owner: User, pairs: Iterable[Conflict]) -> dict[tuple[Any, str], int]:
    """Return how many open contradictions the newer side of each of these conflicts has."""
    ids = [one.right_id for one in pairs]
    rows = Conflict.objects.for_user(owner).standing().filter(right_id__in=ids)
    rows = rows.filter(kind=Conflict.Kind.CONTRADICTION).only("right_id", "lines").order_by()
    return Counter(row.newer for row in rows)


def others_of(conflict: Conflict) -> list[Conflict]:
    """Return the other open contradictions of the newer side, which one decision can resolve."""
    rows = Conflict.objects.for_user(conflict.owner).standing().with_newer(conflict)
    rows = rows.filter(kind=Conflict.Kind.CONTRADICTION)
    return list(rows.exclude(pk=conflict.pk)[:MAX_KNOWN])
