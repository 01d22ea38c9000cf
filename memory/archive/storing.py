"""Storing what came from elsewhere, or only seeing what would become of it.

Data flow: entries (`foreign_formats`) -> checked as everything that is written here -> notes and
observations with `source=import:<name>` and the trust of a stranger, a few hundred at a time, in
one transaction -> counts, the first rows and the problems, for the preview and the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.archive.counting import TakingIn
from memory.archive.foreign_formats import Entry, Problem, moment
from memory.archive.writing import CHUNK
from memory.archive.zips import ImportRejected
from memory.errors import InvalidValue
from memory.models import Activity, Note, Observation, Revision, Trust, User
from memory.notes.checks import NoteChecks, usual_stability
from memory.notes.writing import expiry
from memory.observations.lines import single
from memory.texts.text import clean, one_line, shorten

MOST_ENTRIES = 100_000
MOST_SHOWN = 20  # rows of the preview
MOST_PROBLEMS = 100  # that are named; the others are counted


@dataclass(slots=True)
class Outcome:
    """What became, or would become, of a file from elsewhere."""

    notes: int = 0
    observations: int = 0
    here: int = 0
    refused: int = 0
    first: list[dict[str, str]] = field(default_factory=list)
    problems: list[dict[str, str]] = field(default_factory=list)

    def refuse(self, where: str, why: str) -> None:
        """Count what cannot be taken, and name the first hundred."""
        self.refused += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append({"where": shorten(where, 200), "why": shorten(why, 400)})

    def as_json(self) -> dict[str, Any]:
        """Return it as a row keeps it."""
        return asdict(self)


def take_in(found: Iterable[Entry | Problem], taking_in: TakingIn, *, only_look: bool) -> Outcome:
    """Store the entries, or only preview that.  Raises ImportRejected if there are too many."""
    outcome, given = Outcome(), iter(found)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=taking_in.owner.pk)
        while batch := list(islice(given, CHUNK)):
            _batch(batch, taking_in, outcome)
            taking_in.done += len(batch)
            if taking_in.done > MOST_ENTRIES:
                raise ImportRejected(
                    _("The file holds more than %(most)s entries. Import it in parts.")
                    % {"most": f"{MOST_ENTRIES:,}"}
                )
            taking_in.tell(taking_in.done)
        if outcome.notes or outcome.observations:
            Activity.log(
                taking_in.owner, taking_in.by, "imported", label=taking_in.source,
                notes=outcome.notes, observations=outcome.observations,
            )  # fmt: skip
        if only_look:
            transaction.set_rollback(True)
    return outcome


def _batch(batch: Sequence[Entry | Problem], taking_in: TakingIn, outcome: Outcome) -> None:
    notes: list[Note] = []
    observations: list[Observation] = []
    for one in batch:
        if isinstance(one, Problem):
            outcome.refuse(one.where, one.why)
            continue
        try:
            if one.is_note:
                notes.append(_note(one, taking_in))
            else:
                observations.append(_observation(one, taking_in))
        except InvalidValue as exc:
            outcome.refuse(one.where, str(exc))
    new_notes = list(_unknown_notes(notes, taking_in.owner))
    new_observations = list(_unknown_observations(observations, taking_in.owner))
    outcome.here += len(notes) + len(observations) - len(new_notes) - len(new_observations)
    outcome.notes += _store(Note, new_notes, taking_in)
    outcome.observations += _store(Observation, new_observations, taking_in)
    for record in [*new_notes, *new_observations]:
        if len(outcome.first) < MOST_SHOWN:
            outcome.first.append(_shown(record))


def _shown(record: Any) -> dict[str, str]:
    is_note = isinstance(record, Note)
    return {
        "what": str(record.get_kind_display() if is_note else record.get_category_display()),
        "type": str(_("note") if is_note else _("observation")),
        "content": shorten(record.content, 300),
        "tags": ", ".join(record.tags),
        "created": f"{record.created:%Y-%m-%d}",
        "source": record.source,
    }


def _store(model: Any, records: Sequence[Any], taking_in: TakingIn) -> int:
    model.objects.bulk_create(records)
    Revision.record_first(records, by=taking_in.by, source=taking_in.source)
    model.follow(records)
    return len(records)


# --- one entry ------------------------------------------------------------------------------------


def _note(entry: Entry, taking_in: TakingIn) -> Note:
    """Return a note, not stored yet.  Raises InvalidValue."""
    given = entry.fields
    kind = str(given["kind"])
    if kind in Note.IDENTITY:
        raise InvalidValue(
            _(
                "a %(kind)s note says who is who here, and comes from nobody else: write it under Settings"
            )
            % {"kind": kind}
        )
    wanted = {
        "kind": kind,
        "content": given["content"],
        "tags": _listed(given.get("tags", ())),
        "confidence": given.get("confidence", 1.0),
        "stability": given.get("stability") or usual_stability(kind),
        "ttl_days": given.get("ttl_days"),
        "evidence": _listed(given.get("evidence", ())),
    }
    checks = NoteChecks()
    fields = {name: checks.one(name, value) for name, value in wanted.items()}
    # A volatile note without days to live is taken as it is (decision 12): maintenance merges it.
    has_days = fields["stability"] != Note.Stability.VOLATILE or fields["ttl_days"] is not None
    if has_days or kind == Note.Kind.RULE:
        checks.together(fields, by_person=True)  # a person imports it
    checks.raise_refused()
    at = _created(given)
    return Note(
        owner=taking_in.owner,
        source=_source(given, taking_in),
        trust=Trust.EXTERNAL,
        created=at,
        updated=at,
        expires_at=expiry(fields["ttl_days"], at),
        **fields,
    )


def _observation(entry: Entry, taking_in: TakingIn) -> Observation:
    """Return an observation, not stored yet.  Raises InvalidValue."""
    given = entry.fields
    checks = NoteChecks()
    category = checks.choice("category", given["category"], Observation.Category.values)
    tags = checks.tags(_listed(given.get("tags", ())))
    step_type = str(given.get("step_type", "")).upper()
    checks.raise_refused()
    line = single(category, str(given["content"]).strip())
    at = _created(given)
    return Observation(
        owner=taking_in.owner,
        category=line.category,
        content=line.content,
        digest=line.digest,
        tags=tags,
        step_name=one_line(clean(str(given.get("step_name", "")))[0])[:200],
        step_type=step_type if step_type in Observation.StepType.values else "",
        source=_source(given, taking_in),
        trust=Trust.EXTERNAL,
        created=at,
        updated=at,
    )


def _listed(value: Any) -> Any:
    """Return tags and the like as they are checked: a list, or a text that names them."""
    return value if isinstance(value, str) else list(value if isinstance(value, list) else [])


def _created(given: dict[str, Any]) -> datetime:
    """Return when the file says that it was written; now, where it says nothing usable."""
    now = timezone.now()
    at = moment(given["created"]) if "created" in given else None
    if at is None:
        return now
    if not isinstance(at, datetime):
        at = datetime(at.year, at.month, at.day)
    try:
        aware = at if timezone.is_aware(at) else timezone.make_aware(at)
        return min(aware, now)
    except (ValueError, OverflowError):
        return now


def _source(given: dict[str, Any], taking_in: TakingIn) -> str:
    """Return `import:<name>`, and after it what the file names as its own source."""
    named = one_line(clean(str(given.get("source", "")))[0])
    source = f"{taking_in.source}:{named}" if named else taking_in.source
    return source[:200]


def _unknown_notes(notes: Sequence[Note], owner: User) -> Iterator[Note]:
    """Yield the notes whose very words are not here yet from the same source."""
    texts = {note.content for note in notes}
    here = Note.objects.of(owner).live().filter(content__in=texts) if texts else []
    seen = {(note.kind, note.content, note.source) for note in here}
    for note in notes:
        mark = (note.kind, note.content, note.source)
        if mark not in seen:
            seen.add(mark)
            yield note


def _unknown_observations(found: Sequence[Observation], owner: User) -> Iterator[Observation]:
    """Yield the observations that are not here yet from the same source."""
    digests = {one.digest for one in found}
    here = Observation.objects.of(owner).live().filter(digest__in=digests) if digests else []
    seen = {(one.category, one.digest, one.source) for one in here}
    for one in found:
        mark = (one.category, one.digest, one.source)
        if mark not in seen:
            seen.add(mark)
            yield one
