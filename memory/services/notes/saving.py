"""Writing, editing, pinning and superseding notes, and the chain of notes that replaced each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from beacon_site.text.messages import gettext as _
from memory.models import Note, Revision, Topic, Trust, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, StaleWrite
from memory.services.notes.checks import NoteChecks, usual_stability

MOST_LINKS = 60
# The planner expects chains of thousands of notes and would read the whole table at each step.
# OFFSET 0 makes each step a separate subquery by index, one per note of the chain. Steps come in
# order, so the LIMIT ends the recursion if one note replaces thousands.
_CHAIN = """
    WITH RECURSIVE later AS (
        SELECT id, superseded_by_id FROM memory_note WHERE id = %(note)s AND owner_id = %(owner)s
         UNION
        SELECT next.id, next.superseded_by_id
          FROM later, LATERAL (
               SELECT id, superseded_by_id FROM memory_note
                WHERE id = later.superseded_by_id AND owner_id = %(owner)s OFFSET 0) next
    ), earlier AS (
        SELECT id, 0 AS step FROM later WHERE superseded_by_id IS NULL
         UNION ALL
        SELECT before.id, earlier.step + 1
          FROM earlier, LATERAL (
               SELECT id FROM memory_note
                WHERE superseded_by_id = earlier.id AND owner_id = %(owner)s OFFSET 0) before
         WHERE earlier.step < %(most)s
    )
    SELECT note.*, earlier.step
      FROM (SELECT * FROM earlier LIMIT %(most)s) earlier,
           LATERAL (SELECT * FROM memory_note WHERE id = earlier.id OFFSET 0) note
     ORDER BY earlier.step, note.created DESC, note.id
"""


def chain(note: Note) -> list[Note]:
    """Return all notes in the chain of `note`: the current one first, the oldest last.

    Each has as `step` its distance from the first. This is one query. Of more than 60 notes, the 60
    with the fewest steps are returned.
    """
    asked = {"note": note.pk, "owner": note.owner_id, "most": MOST_LINKS}
    return list(Note.objects.raw(_CHAIN, asked))


# --- writing ---

# The fields that callers can set besides the text.
FIELDS = (
    "kind", "content", "scope", "tags", "confidence", "stability", "ttl_days", "sensitivity",
    "evidence",
)  # fmt: skip
MOST_NOTES = 50  # R194


def write_note(
    owner: User,
    kind: str,
    content: str,
    *,
    by: Actor,
    stability: str | None = None,
    ttl_days: int | None = None,
    tags: Iterable[str] = (),
    confidence: float = 1.0,
    sensitivity: str = "normal",
    evidence: Iterable[str] = (),
    scope: str = "owner",
    job: str = "",
    source: str | None = None,
    topic: Topic | None = None,
    trust: str | None = None,
) -> Note:
    """Write a note. Recall finds it after the commit.

    `source` says where it came from (default: its writer) and `trust` how far to trust it (default:
    the owner's own for a person, otherwise the agent's). Unstorable characters are removed, and
    `note.cleaned` names the fields. Raises InvalidValue with the reasons by field, and then nothing
    is stored.
    """
    wanted: dict[str, Any] = {
        "kind": kind, "content": content, "scope": scope, "tags": tags, "confidence": confidence,
        "stability": stability or usual_stability(kind), "ttl_days": ttl_days,
        "sensitivity": sensitivity, "evidence": evidence,
    }  # fmt: skip
    checks = NoteChecks()
    fields = {name: checks.one(name, value) for name, value in wanted.items()}
    checks.together(fields, by_person=by.is_person)
    if topic is not None and topic.owner_id != owner.pk:
        checks.refuse("topic", _("This topic doesn’t exist."))
    checks.raise_refused()
    note = Note(
        owner=owner,
        source=source or str(by),
        trust=trust or (Trust.OWNER if by.is_person else Trust.AGENT),
        job=job,
        topic=topic,
        expires_at=expiry(fields["ttl_days"]),
        **fields,
    )
    note.cleaned = tuple(checks.cleaned)
    return insert(note, by=by)


def insert(note: Note, *, by: Actor, source: str = "") -> Note:
    """Store a checked note with its first revision, and index it.

    Raises InvalidValue if there would be a second active soul, agent or user note.
    """
    with one_identity(note.kind), transaction.atomic():
        note.save(force_insert=True)
        Revision.record_first([note], by=by, source=source or note.source)
        Note.follow([note])
    return note


@contextmanager
def one_identity(kind: str) -> Iterator[None]:
    """Raise InvalidValue where the database finds a second active soul, agent or user note."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as exc:
        if "note_one_active_identity" not in str(exc):
            raise
        problem = _(
            "There can be only one %(kind)s note, and it already exists. Change it under Agents or Settings."
        ) % {"kind": Note.Kind(kind).label}
        raise InvalidValue(problem, errors={"kind": [problem]}) from exc


def expiry(ttl_days: int | None, at: datetime | None = None) -> datetime | None:
    """Return when a note with this `ttl_days` expires, or None if it doesn't (R192)."""
    return (at or timezone.now()) + timedelta(days=ttl_days) if ttl_days else None


def get_notes(
    owner: User,
    kind: str | None = None,
    scope: str | None = None,
    tags: Iterable[str] = (),
    limit: int = MOST_NOTES,
    at: datetime | None = None,
) -> list[Note]:
    """Return the owner's active notes, newest first (R194), with any of `tags` (R195)."""
    found = Note.objects.of(owner).active(at)
    if kind:
        found = found.filter(kind=kind)
    if scope:
        found = found.filter(scope=scope)
    if wanted := list(tags):
        found = found.tagged(*wanted)
    return list(found.order_by("-created", "-id")[: max(limit, 0)])


def edit_note(
    note: Note,
    *,
    by: Actor,
    expected_version: int | None = None,
    why: str = "",
    source: str = "",
    renew: bool = False,
    trust: str = "",
    **fields: Any,
) -> Note:
    """Set the given fields of `FIELDS` and keep all others, including expiry (R210).

    A new `ttl_days` counts from now, and so does the same one with `renew`. Maintenance no longer
    merges or prunes a note that a person has edited. `trust` limits the note's trust to that of an
    agent's new text. Raises InvalidValue with the reasons by field, Locked, or StaleWrite.
    """
    checks = NoteChecks()
    wanted = {name: checks.one(name, value) for name, value in fields.items()}
    if wanted.get("stability") == Note.Stability.PERMANENT and "ttl_days" not in wanted:
        wanted["ttl_days"] = None
    checks.identity(note, wanted)
    # Other edits leave a person's rule without evidence as it is.
    is_vouched = by.is_person or not {"content", "kind", "evidence"}.intersection(wanted)
    merged = {**note.snapshot(*FIELDS), **wanted}
    checks.together(merged, is_pinned=note.pinned, by_person=is_vouched)
    checks.raise_refused()
    note.cleaned = tuple(checks.cleaned)
    changed = {name: value for name, value in wanted.items() if getattr(note, name) != value}
    if ("ttl_days" in changed or renew) and not note.pinned:
        changed["expires_at"] = expiry(wanted.get("ttl_days", note.ttl_days))
    if changed and trust and not by.is_person and lowest_trust([trust, note.trust]) != note.trust:
        changed["trust"] = trust
    if changed and by.is_person and not note.edited_by_person:
        changed["edited_by_person"] = True
    return note.change(by=by, expected_version=expected_version, why=why, source=source, **changed)


def pin(note: Note, *, by: Actor, expected_version: int | None = None, source: str = "") -> Note:
    """Pin the note, so that it doesn't expire and maintenance leaves it unchanged (decision 9)."""
    return note.change(
        by=by, expected_version=expected_version, why=_("pinned"), source=source, **PINNED
    )


# The fields that pinning sets, also used by bulk actions.
PINNED: dict[str, Any] = {"pinned": True, "expires_at": None}


def unpin(note: Note, *, by: Actor) -> Note:
    """Unpin the note. Its `ttl_days`, if any, count from now."""
    return note.change(by=by, why=_("unpinned"), pinned=False, expires_at=expiry(note.ttl_days))


def supersede(
    note: Note,
    content: str,
    *,
    by: Actor,
    expected_version: int | None = None,
    why: str = "",
    source: str | None = None,
    trust: str | None = None,
    **fields: Any,
) -> Note:
    """Write a note that replaces this one, and return it (R200).

    Fields that aren't given are copied. The old note stays readable in the chain. Raises
    InvalidValue for an invalid value or a superseded or trashed note, and Locked or StaleWrite for
    the old one.
    """
    successor = _successor(note, {**fields, "content": content}, by=by, source=source, trust=trust)
    with transaction.atomic():
        held = Note.objects.select_for_update().get(pk=note.pk)
        if expected_version is not None and held.version != expected_version:
            raise StaleWrite(str(held), current=held.version)
        # The old row points at its successor first. The constraint on identities is checked at once,
        # the foreign key at commit.
        point_at(held, successor, by=by, why=why or _("replaced"), source=successor.source)
        insert(successor, by=by)
    note.superseded_by_id, note.version = successor.pk, held.version
    return successor


def _successor(
    note: Note, fields: dict[str, Any], *, by: Actor, source: str | None, trust: str | None
) -> Note:
    """Return an unsaved note with `fields`, and the values of `note` for all others."""
    checks = NoteChecks()
    wanted = {name: checks.one(name, value) for name, value in fields.items()}
    merged = {**note.snapshot(*FIELDS), **wanted}
    if merged["kind"] != note.kind and {note.kind, merged["kind"]}.intersection(Note.IDENTITY):
        message = _(
            "The soul, persona and profile can only be replaced by a note of the same type."
        )
        checks.refuse("kind", message)
    checks.together(merged, is_pinned=note.pinned, by_person=by.is_person)
    checks.raise_refused()
    successor = Note(
        owner_id=note.owner_id,
        source=source or str(by),
        trust=trust or (Trust.OWNER if by.is_person else lowest_trust([Trust.AGENT, note.trust])),
        pinned=note.pinned,
        paused=note.paused,
        lock=note.lock,
        topic_id=note.topic_id,
        expires_at=None if note.pinned else expiry(merged["ttl_days"]),
        **merged,
    )
    successor.cleaned = tuple(checks.cleaned)
    return successor


def point_at(note: Note, successor: Note, *, by: Actor, why: str, source: str) -> None:
    """Mark `note`, whose row the caller has locked, as superseded by `successor`."""
    problem = ""
    if note.superseded_by_id is not None:
        problem = _(
            "“%(note)s” was already replaced. Replace the newest note in its chain instead."
        )
    elif note.trashed_at is not None:
        problem = _("“%(note)s” is in Trash. Restore it first.")
    if problem:
        problem %= {"note": str(note)}
        raise InvalidValue(problem, errors={"superseded_by": [problem]})
    note.change(by=by, why=why, source=source, superseded_by_id=successor.pk)


def check_put_back(note: Note, fields: Mapping[str, Any], *, by: Actor) -> None:
    """Raise InvalidValue if undoing a change would make the note inconsistent.

    An agent's rule keeps its evidence. The note that replaced this one must not be in Trash, and
    must not be superseded by it now, because recall finds nothing in a circle. Call it in a
    transaction.
    """
    if {**note.snapshot("kind"), **fields}["kind"] == Note.Kind.RULE:
        checks = NoteChecks()
        state = {**note.snapshot(*FIELDS), **fields}
        checks.together(state, is_pinned=True, by_person=by.is_person)
        checks.raise_refused()
    at, problem = fields.get("superseded_by_id"), ""
    while at is not None and not problem:
        later = Note.objects.select_for_update().filter(pk=at).first()
        if at == note.pk:
            problem = _(
                "The note that replaced this one was itself replaced by “%(note)s”. Undo that replacement first."
            )
        elif later is not None and later.trashed_at is not None:
            problem = _("The note that replaced “%(note)s” is in Trash. Restore it first.")
        at = later.superseded_by_id if later is not None else None
    if problem:
        problem %= {"note": str(note)}
        raise InvalidValue(problem, errors={"superseded_by": [problem]})


TRUSTS = (Trust.QUARANTINED, Trust.EXTERNAL, Trust.AGENT, Trust.OWNER)  # the lowest first


def lowest_trust(trusts: Iterable[str]) -> str:
    """Return the lowest of the trusts, which a derived record gets (design.md 2)."""
    return min(map(Trust, trusts), key=TRUSTS.index)
