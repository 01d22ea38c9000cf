"""Validation of notes, shared by all writers (forms, tasks, tools, imports).

Each check returns the value as stored, or records why it can't be. `raise_refused` then rejects the
whole write with the messages by field.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, is_visible, one_line, shorten
from beacon_site.text.messages import grouped
from memory.models import Note, Sensitivity
from memory.models.errors import InvalidValue
from memory.models.notes import (
    LONGEST_EVIDENCE,
    LONGEST_TAG,
    MOST_CONTENT,
    MOST_EVIDENCE,
    MOST_TAGS,
)
from memory.models.remembered import EXCEPT_SCOPE

LEAST_RULE_CONFIDENCE = 0.8  # R191
MOST_TTL_DAYS = 36_500  # a hundred years; anything longer should be stable
LONGEST_SCOPE = 200
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
    """Collects the problems of a note by field, and the fields from which characters were removed."""

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
        elif size > MOST_CONTENT:
            told = {
                "most": grouped(MOST_CONTENT),
                "have": grouped(size),
                "over": grouped(size - MOST_CONTENT),
            }
            self.refuse(
                "content",
                _(
                    "The text is %(have)s bytes, %(over)s over the limit of %(most)s (64 KiB). Shorten or split it."
                )
                % told,
            )
        return text

    def choice(self, field: str, value: Any, choices: Iterable[str]) -> str:
        known = list(map(str, choices))
        text = str(value)
        if text not in known:
            told = {"value": shorten(clean(text)[0], 40), "known": ", ".join(known)}
            self.refuse(
                field, _("“%(value)s” isn’t a valid choice. Choose one of: %(known)s.") % told
            )
        return text

    def confidence(self, value: Any) -> float:
        """Check that the confidence is a number from 0 to 1."""
        try:
            number = float("nan" if isinstance(value, bool) else value)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number) or not 0 <= number <= 1:
            told = {"value": shorten(clean(str(value))[0], 40)}
            message = _("Confidence must be a number from 0 to 1, such as 0.8, not “%(value)s”.")
            self.refuse("confidence", message % told)
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
        if not 1 <= days <= MOST_TTL_DAYS:
            told = {"value": shorten(clean(str(value))[0], 40), "most": grouped(MOST_TTL_DAYS)}
            message = _(
                "“Expires after” must be a whole number of days from 1 to %(most)s, not “%(value)s”."
            )
            self.refuse("ttl_days", message % told)
            return None
        return days

    def tags(self, value: Iterable[Any] | str) -> list[str]:
        """Check number and length of the tags, and that none has a comma. Duplicates are removed."""
        given = listed(value) if isinstance(value, str) else value
        tags = [one_line(self.text("tags", tag)) for tag in given]
        tags = list(dict.fromkeys(tag for tag in tags if is_visible(tag)))
        self._many("tags", tags, MOST_TAGS)
        for tag in tags:
            if len(tag) > LONGEST_TAG:
                told = {"most": LONGEST_TAG, "have": grouped(len(tag)), "tag": shorten(tag, 40)}
                message = _(
                    "A tag can have at most %(most)d characters, but “%(tag)s” has %(have)s."
                )
                self.refuse("tags", message % told)
            if "," in tag:
                self.refuse("tags", comma_problem(tag))
        return tags

    def evidence(self, value: Iterable[Any] | str) -> list[str]:
        """Check number and length of the evidence. A text has one entry per line."""
        given = value.splitlines() if isinstance(value, str) else value
        entries = [self.text("evidence", entry).strip() for entry in given]
        entries = list(dict.fromkeys(entry for entry in entries if is_visible(entry)))
        self._many("evidence", entries, MOST_EVIDENCE)
        for entry in entries:
            if len(entry) > LONGEST_EVIDENCE:
                told = {"most": grouped(LONGEST_EVIDENCE), "have": grouped(len(entry))}
                message = _(
                    "Each piece of evidence can have at most %(most)s characters, but one has %(have)s."
                )
                self.refuse("evidence", message % told)
        return entries

    def _many(self, field: str, entries: list[str], most: int) -> None:
        if len(entries) > most:
            told = {"most": most, "have": grouped(len(entries))}
            self.refuse(field, _("Use at most %(most)d items (currently %(have)s).") % told)

    def scope(self, value: Any) -> str:
        """Check the scope: the owner's, or that of a run, session or agent."""
        text = one_line(self.text("scope", value)) or "owner"
        text = "owner" if text == "user" else text  # seed 004's name for the owner's scope
        is_one = text == "owner" or any(text.startswith(s) and text != s for s in _SCOPES)
        if not is_one or len(text) > LONGEST_SCOPE:
            told = {"value": shorten(text, 40), "most": LONGEST_SCOPE}
            message = _(
                "A scope must be owner, run:<number>, session:<id>, agent:<name> or except:<agent name>, with at most %(most)d characters, not “%(value)s”."
            )
            self.refuse("scope", message % told)
        return text

    def one(self, field: str, value: Any) -> Any:
        """Check one field by its name."""
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

    def identity(self, note: Note, wanted: Mapping[str, Any]) -> None:
        """Reject changes that would bypass the limit of one active soul, agent and user note."""
        kind = wanted.get("kind", note.kind)
        if kind != note.kind and (kind in Note.IDENTITY or note.kind in Note.IDENTITY):
            message = _("You can’t turn a note into the soul, persona or profile, or vice versa.")
            self.refuse("kind", message)
        elif note.kind in Note.IDENTITY and wanted.get("content", note.content) != note.content:
            places = {
                Note.Kind.SOUL: _("Agents → Identity → Soul"),
                Note.Kind.AGENT: _("Agents → Identity → Persona"),
                Note.Kind.USER: _("Settings → Profile"),
            }
            message = _("Edit this note’s text under %(place)s, which keeps the old version.")
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
        if note["confidence"] < LEAST_RULE_CONFIDENCE and "confidence" not in self.errors:
            told = {"least": LEAST_RULE_CONFIDENCE, "have": f"{note['confidence']:g}"}
            message = _(
                "A rule needs a confidence of at least %(least)s, but this one has %(have)s. Save it as a log until you’re more certain."
            )
            self.refuse("confidence", message % told)
        if not by_person and not note["evidence"] and "evidence" not in self.errors:
            message = _("A rule needs evidence. Say what it’s based on, one item per line.")
            self.refuse("evidence", message)
