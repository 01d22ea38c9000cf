"""Validating, writing, editing, pinning and superseding notes, and the chain of notes that replaced each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet, Value
from django.db.models.functions import MD5
from django.utils import timezone

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.text.cleaning import clean, is_visible, one_line, shorten
from beacon_site.text.dates import end_of_day, zone_of
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from memory.models import Note, Revision, Sensitivity, Topic, Trust, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, StaleWrite
from memory.models.notes import (
    MAX_CONTENT,
    MAX_EVIDENCE,
    MAX_EVIDENCE_LENGTH,
    MAX_TAG_LENGTH,
    MAX_TAGS,
)
from memory.models.remembered import EXCEPT_SCOPE

MAX_LINKS = 60
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
    values = {"note": note.pk, "owner": note.owner_id, "most": MAX_LINKS}
    return list(Note.objects.raw(_CHAIN, values))


# --- validation ---

MIN_RULE_CONFIDENCE = 0.8  # R191
MAX_TTL_DAYS = 36_500  # a hundred years; anything longer should be stable
MAX_SCOPE_LENGTH = 200
_SCOPES = ("run:", "session:", "agent:", f"{EXCEPT_SCOPE}:")

# Seed 004, "Note Kinds": the default expiry that forms offer for each kind, in days.
TYPICAL: dict[str, tuple[str, int | None]] = {
    Note.Kind.LOG: (Note.Stability.VOLATILE, 30),
    Note.Kind.SUMMARY: (Note.Stability.VOLATILE, 7),
    Note.Kind.RULE: (Note.Stability.STABLE, None),
    Note.Kind.SOUL: (Note.Stability.PERMANENT, None),
    Note.Kind.AGENT: (Note.Stability.PERMANENT, None),
    Note.Kind.USER: (Note.Stability.PERMANENT, None),
}


def usual_stability(kind: str) -> str:
    """Return the default stability: stable (R187), or permanent for identity notes."""
    return Note.Stability.PERMANENT if kind in Note.IDENTITY else Note.Stability.STABLE


def listed(text: str) -> list[str]:
    """Return the entries of a field with one per line, or separated by commas (like tags)."""
    return [part for line in text.splitlines() for part in line.split(",") if part.strip()]


def comma_problem(tag: str) -> str:
    """Return why a tag with a comma is refused: forms separate tags by commas."""
    words = _("A tag can’t contain a comma, so “%(tag)s” isn’t a valid tag. Use two tags instead.")
    return words % {"tag": shorten(tag, 40)}


class NoteChecks:
    """Validates notes for all writers (forms, tasks, tools, imports).

    Each check returns the value as stored, or records by field why it can't be. `raise_refused`
    then rejects the whole write. `cleaned` names the fields from which characters were removed.
    """

    def __init__(self) -> None:
        self.errors: dict[str, list[str]] = {}
        self.cleaned: list[str] = []

    def refuse(self, field: str, message: str) -> None:
        """Record why `field` can't be stored."""
        self.errors.setdefault(field, []).append(message)

    def raise_refused(self) -> None:
        """Raise InvalidValue with all recorded problems, if there are any."""
        if self.errors:
            words = [message for messages in self.errors.values() for message in messages]
            raise InvalidValue(" ".join(words), errors=self.errors)

    def text(self, field: str, value: Any) -> str:
        """Return `value` without unstorable characters. `cleaned` then names the field."""
        text, was_cleaned = clean(str(value))
        if was_cleaned and field not in self.cleaned:
            self.cleaned.append(field)
        return text

    def content(self, value: Any) -> str:
        """Check that there is visible text of at most 64 KiB."""
        text = self.text("content", value).strip()
        size = len(text.encode())
        if not is_visible(text):
            self.refuse("content", _("Enter the text to remember."))
        elif size > MAX_CONTENT:
            params = {
                "most": grouped(MAX_CONTENT),
                "have": grouped(size),
                "over": grouped(size - MAX_CONTENT),
            }
            self.refuse(
                "content",
                _(
                    "The text is %(have)s bytes, %(over)s over the limit of %(most)s (64 KiB). Shorten or split it."
                )
                % params,
            )
        return text

    def choice(self, field: str, value: Any, choices: Iterable[str]) -> str:
        known = list(map(str, choices))
        text = str(value)
        if text not in known:
            params = {"value": shorten(clean(text)[0], 40), "known": ", ".join(known)}
            self.refuse(
                field, _("“%(value)s” isn’t a valid choice. Choose one of: %(known)s.") % params
            )
        return text

    def confidence(self, value: Any) -> float:
        try:
            number = float("nan" if isinstance(value, bool) else value)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number) or not 0 <= number <= 1:
            params = {"value": shorten(clean(str(value))[0], 40)}
            message = _("Confidence must be a number from 0 to 1, such as 0.8, not “%(value)s”.")
            self.refuse("confidence", message % params)
            return 0.0
        return number

    def ttl(self, value: Any) -> int | None:
        """Check that the days until expiry, if any, are a whole number of at least 1."""
        if value is None or value == "":
            return None
        try:
            days = int(str(value)) if not isinstance(value, bool) else 0
        except ValueError:
            days = 0
        if not 1 <= days <= MAX_TTL_DAYS:
            params = {"value": shorten(clean(str(value))[0], 40), "most": grouped(MAX_TTL_DAYS)}
            message = _(
                "“Expires after” must be a whole number of days from 1 to %(most)s, not “%(value)s”."
            )
            self.refuse("ttl_days", message % params)
            return None
        return days

    def tags(self, value: Iterable[Any] | str) -> list[str]:
        """Check number and length of the tags, and that none has a comma. Duplicates are removed."""
        given = listed(value) if isinstance(value, str) else value
        tags = [one_line(self.text("tags", tag)) for tag in given]
        tags = list(dict.fromkeys(tag for tag in tags if is_visible(tag)))
        self._many("tags", tags, MAX_TAGS)
        for tag in tags:
            if len(tag) > MAX_TAG_LENGTH:
                params = {
                    "most": MAX_TAG_LENGTH,
                    "have": grouped(len(tag)),
                    "tag": shorten(tag, 40),
                }
                message = _(
                    "A tag can have at most %(most)d characters, but “%(tag)s” has %(have)s."
                )
                self.refuse("tags", message % params)
            if "," in tag:
                self.refuse("tags", comma_problem(tag))
        return tags

    def evidence(self, value: Iterable[Any] | str) -> list[str]:
        """Check number and length of the evidence. A text has one entry per line."""
        given = value.splitlines() if isinstance(value, str) else value
        entries = [self.text("evidence", entry).strip() for entry in given]
        entries = list(dict.fromkeys(entry for entry in entries if is_visible(entry)))
        self._many("evidence", entries, MAX_EVIDENCE)
        for entry in entries:
            if len(entry) > MAX_EVIDENCE_LENGTH:
                params = {"most": grouped(MAX_EVIDENCE_LENGTH), "have": grouped(len(entry))}
                message = _(
                    "Each piece of evidence can have at most %(most)s characters, but one has %(have)s."
                )
                self.refuse("evidence", message % params)
        return entries

    def _many(self, field: str, entries: list[str], most: int) -> None:
        if len(entries) > most:
            params = {"most": most, "have": grouped(len(entries))}
            self.refuse(field, _("Use at most %(most)d items (currently %(have)s).") % params)

    def scope(self, value: Any) -> str:
        """Check the scope: the owner's, or that of a run, session or agent."""
        text = one_line(self.text("scope", value)) or "owner"
        text = "owner" if text == "user" else text  # seed 004's name for the owner's scope
        is_one = text == "owner" or any(text.startswith(s) and text != s for s in _SCOPES)
        if not is_one or len(text) > MAX_SCOPE_LENGTH:
            params = {"value": shorten(text, 40), "most": MAX_SCOPE_LENGTH}
            message = _(
                "“%(value)s” isn’t a valid scope. Use owner, run:<number>, session:<id>, agent:<name> or except:<agent name>, up to %(most)d characters."
            )
            self.refuse("scope", message % params)
        return text

    def one(self, field: str, value: Any) -> Any:
        choices: dict[str, Iterable[str]] = {
            "kind": Note.Kind.values,
            "stability": Note.Stability.values,
            "sensitivity": Sensitivity.values,
        }
        if field in choices:
            return self.choice(field, value, choices[field])
        check = {
            "content": self.content,
            "confidence": self.confidence,
            "ttl_days": self.ttl,
            "tags": self.tags,
            "evidence": self.evidence,
            "scope": self.scope,
        }[field]
        return check(value)

    def identity(self, note: Note, values: Mapping[str, Any]) -> None:
        """Reject changes that would bypass the limit of one active soul, agent and user note."""
        kind = values.get("kind", note.kind)
        if kind != note.kind and (kind in Note.IDENTITY or note.kind in Note.IDENTITY):
            message = _("You can’t turn a note into the soul, persona or profile, or vice versa.")
            self.refuse("kind", message)
        elif note.kind in Note.IDENTITY and values.get("content", note.content) != note.content:
            places = {
                Note.Kind.SOUL: _("Agents → Identity → Soul"),
                Note.Kind.AGENT: _("Agents → Identity → Persona"),
                Note.Kind.USER: _("Settings → Profile"),
            }
            message = _("Edit this note’s text under %(place)s. The old version is kept.")
            self.refuse("content", message % {"place": places[Note.Kind(note.kind)]})

    def together(
        self, note: Mapping[str, Any], *, is_pinned: bool = False, by_person: bool = False
    ) -> None:
        """Check the rules across a note's fields (R189 to R191).

        An agent's rule needs evidence. A person's rule doesn't, because their word is the evidence.

        A pinned note doesn't expire, so a volatile one needs no `ttl_days` while it is pinned.
        """
        stability, ttl = note["stability"], note["ttl_days"]
        if stability == Note.Stability.PERMANENT and ttl is not None:
            message = _(
                "A permanent note never expires. Leave “Expires after” (ttl_days) empty, or make the note stable."
            )
            self.refuse("ttl_days", message)
        needs_days = stability == Note.Stability.VOLATILE and not is_pinned
        if needs_days and ttl is None and "ttl_days" not in self.errors:
            message = _(
                "Set “Expires after” (ttl_days) for a temporary (volatile) note, for example to 30 days, or make the note stable."
            )
            self.refuse("ttl_days", message)
        if note["kind"] == Note.Kind.RULE:
            self._rule(note, by_person=by_person)

    def _rule(self, note: Mapping[str, Any], *, by_person: bool) -> None:
        if note["confidence"] < MIN_RULE_CONFIDENCE and "confidence" not in self.errors:
            params = {"least": MIN_RULE_CONFIDENCE, "have": f"{note['confidence']:g}"}
            message = _(
                "A rule needs a confidence of at least %(least)s, but this one has %(have)s. Save it as a log until you’re more certain."
            )
            self.refuse("confidence", message % params)
        if not by_person and not note["evidence"] and "evidence" not in self.errors:
            message = _("A rule needs evidence. Say what it’s based on, one item per line.")
            self.refuse("evidence", message)


# --- writing ---

# The fields that callers can set besides the text.
FIELDS = (
    "kind", "content", "scope", "tags", "confidence", "stability", "ttl_days", "sensitivity",
    "evidence",
)  # fmt: skip


def write_note(
    owner: User,
    kind: str,
    content: str,
    *,
    by: Actor,
    stability: str | None = None,
    ttl_days: int | None = None,
    until: date | None = None,
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

    With `until` it expires at the end of that day in the owner's time zone, instead of after `ttl_days`.
    `source` says where it came from (default: its writer) and `trust` how far to trust it (default:
    the owner's own for a person, otherwise the agent's). Unstorable characters are removed, and
    `note.cleaned` names the fields. If the same agent already saved exactly this note, returns that
    one, with `is_repeat`. Raises InvalidValue with the reasons by field, and then nothing is stored.
    """
    zone = zone_of(owner.time_zone)
    if until is not None:
        ttl_days = days_until(until, zone)
    values: dict[str, Any] = {
        "kind": kind, "content": content, "scope": scope, "tags": tags, "confidence": confidence,
        "stability": stability or usual_stability(kind), "ttl_days": ttl_days,
        "sensitivity": sensitivity, "evidence": evidence,
    }  # fmt: skip
    checks = NoteChecks()
    fields = {name: checks.one(name, value) for name, value in values.items()}
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
        expires_at=end_of_day(until, zone) if until else expiry(fields["ttl_days"]),
        **fields,
    )
    note.cleaned = tuple(checks.cleaned)
    if by.kind != "agent" or note.kind in Note.IDENTITY:
        return insert(note, by=by)
    with transaction.atomic():
        lock_until_commit(LockId.SAME_NOTE, f"{owner.pk} {note.source} {note.content}")
        if (known := _same_note(note)) is not None:
            known.cleaned, known.is_repeat = note.cleaned, True
            return known
        return insert(note, by=by)


# What two notes must have in common, besides text and writer, to be the same.
_SAME = (
    "source", "kind", "scope", "tags", "confidence", "stability", "ttl_days", "sensitivity",
    "evidence", "topic", "trust", "job",
)  # fmt: skip
_RENEWED = timedelta(days=1)  # a note saved later again than this is kept longer, so it's another


def _same_note(note: Note) -> Note | None:
    """Return the active note that this agent's new one would repeat, if there is one."""
    rows: QuerySet[Note] = Note.objects.for_user(note.owner).active().filter(paused=False)
    # The index is on the digest, because a text can be too long for an index.
    rows = rows.alias(digest=MD5("content")).filter(
        digest=MD5(Value(note.content)), content=note.content
    )
    known: Note
    for known in rows.filter(**{name: getattr(note, name) for name in _SAME}).order_by("created"):
        if note.expires_at is None or known.expires_at is None:
            return known
        if known.expires_at + _RENEWED > note.expires_at:
            return known
    return None


def insert(note: Note, *, by: Actor) -> Note:
    """Store a checked note with its first revision, and index it.

    Raises InvalidValue if there would be a second active soul, agent or user note.
    """
    with one_identity(note.kind), transaction.atomic():
        note.save(force_insert=True)
        Revision.record_first([note], by=by, source=note.source)
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


def days_until(day: date, zone: tzinfo) -> int:
    """Return the `ttl_days` of a note that is valid until the end of a day."""
    return (day - timezone.localdate(timezone=zone)).days + 1


def expiry(ttl_days: int | None, at: datetime | None = None) -> datetime | None:
    """Return when a note with this `ttl_days` expires, or None if it doesn't (R192)."""
    return (at or timezone.now()) + timedelta(days=ttl_days) if ttl_days else None


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


def pin(note: Note, *, by: Actor) -> Note:
    """Pin the note, so that it doesn't expire and maintenance leaves it unchanged."""
    return note.change(by=by, why=_("pinned"), **PINNED)


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
    """Return the lowest of the trusts, which a derived record gets."""
    return min(map(Trust, trusts), key=TRUSTS.index)
