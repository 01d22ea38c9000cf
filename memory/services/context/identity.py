"""The three identity notes: the soul, the agent's persona and the person's profile.

Each owner has one current note of each kind. A new soul supersedes the old one, so the chain of
souls can be read and an older one restored. The agent and user notes are rewritten in place, with a
revision each time. Every context reads them from the database (`active`), so a change applies to
the next question.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import translation

from beacon_site.text.cleaning import clean, one_line
from beacon_site.text.diff import diff, folded
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from memory.models import Note, Revision, User, origins
from memory.models.actors import SYSTEM, Actor
from memory.models.errors import InvalidValue, StaleWrite
from memory.services.notes.saving import NoteChecks, supersede, write_note

_PERSONALITY, _STYLE = "## Personality", "## Speaking style"
MAX_NAME_LENGTH = 80
MAX_SOULS = 20  # that the page shows; the list of notes has them all


@dataclass(frozen=True, slots=True)
class Persona:
    """The agent's persona, as edited in Agents → Identity → Persona."""

    name: str
    personality: str
    style: str

    def as_text(self) -> str:
        parts = [f"# {one_line(self.name)}"]
        for heading, text in ((_PERSONALITY, self.personality), (_STYLE, self.style)):
            if text.strip():
                parts.append(f"{heading}\n\n{text.strip()}")
        return "\n\n".join(parts)

    @classmethod
    def of_text(cls, text: str) -> Persona:
        """Parse a note's text; a text in any other form becomes the personality."""
        first, _break, rest = text.strip().partition("\n")
        if not first.startswith("# "):
            return cls("", text.strip(), "")
        personality, _mark, style = f"\n{rest.strip()}".partition(f"\n{_STYLE}\n")
        personality = personality.strip().removeprefix(_PERSONALITY)
        return cls(first[2:].strip(), personality.strip(), style.strip())


def active(owner: User, kind: str) -> Note | None:
    """Return the owner's current soul, agent or user note, always from the database (R202)."""
    return Note.objects.for_user(owner).current_identity().filter(kind=kind).first()


def all_active(owner: User) -> dict[str, Note]:
    """Return the owner's current soul, agent and user note by kind, with one query."""
    return {note.kind: note for note in Note.objects.for_user(owner).current_identity()}


def first_soul() -> str:
    """Return the soul of a new account: seven steps and principles (R245)."""
    return render_to_string("memory/first_soul.md").strip()


def first_persona() -> Persona:
    """Return the persona of a new account's agent."""
    return Persona(
        name="Beacon",
        personality=_(
            "Curious, careful and plainspoken. Interested in what changed and what isn’t known yet. Honest about uncertainty, and never sure without a source."
        ),
        style=_(
            "Short sentences, with the answer first and the reasons after. Names, numbers and dates instead of adjectives. No flattery. Replies in the language of the message."
        ),
    )


@translation.override("en")  # agents read it
def profile_text(user: User) -> str:
    """Return the user note's text: the profile in words, without the fields that are empty."""
    text = render_to_string("memory/user_note.md", {"person": user, "name": str(user)})
    return clean(text)[0].strip()


@translation.override("en")  # agents read it
def make_first_notes(user: User) -> None:
    """Write the soul, agent and user notes that an account doesn't have yet."""
    texts = {
        Note.Kind.SOUL.value: first_soul(),
        Note.Kind.AGENT.value: first_persona().as_text(),
        Note.Kind.USER.value: profile_text(user),
    }
    standing = set(Note.objects.for_user(user).current_identity().values_list("kind", flat=True))
    first = [
        Note(owner=user, kind=kind, content=text.strip(), stability=Note.Stability.PERMANENT)
        for kind, text in texts.items()
        if kind not in standing
    ]
    with transaction.atomic():
        Note.objects.bulk_create(first)
        Revision.record_first(first, by=SYSTEM, source="explicit")
        Note.follow(first)


def write_soul(
    owner: User,
    content: str,
    *,
    by: Actor,
    why: str = "",
    expected: UUID | None = None,
    source: str | None = None,
    trust: str | None = None,
) -> Note:
    """Write a new soul, which supersedes the current one (R201); the same text changes nothing.

    `expected` is the id of the soul that the writer saw. `source` and `trust` are as in
    `write_note`. Raises StaleWrite if the soul has changed since then, and InvalidValue or Locked
    as `supersede` does.
    """
    standing = active(owner, Note.Kind.SOUL)
    if standing is None:
        return write_note(owner, Note.Kind.SOUL, content, by=by, source=source, trust=trust)
    if expected is not None and standing.pk != expected:
        raise StaleWrite(_("The soul"), current=standing.version)
    checks = NoteChecks()
    text = checks.content(content)
    checks.raise_refused()
    if text == standing.content:
        return standing
    return supersede(standing, text, by=by, why=why or _("a new soul"), source=source, trust=trust)


def restore_soul(owner: User, soul: Note, *, by: Actor) -> Note:
    """Restore an older soul: a new one with its text supersedes the current one."""
    if soul.owner_id != owner.pk or soul.kind != Note.Kind.SOUL:
        problem = _("This soul doesn’t exist.")
        raise InvalidValue(problem, errors={"content": [problem]})
    why = _("restored the soul from %(day)s") % {"day": soul.created.date().isoformat()}
    return write_soul(owner, soul.content, by=by, why=why)


def old_souls(owner: User) -> list[dict[str, Any]]:
    """Return the most recently superseded souls.

    Each has what its replacement changed (`rows`), and who wrote that, when and why.
    """
    found = (
        Note.objects.for_user(owner).live().filter(kind=Note.Kind.SOUL).order_by("-created", "-id")
    )
    notes = list(found[: MAX_SOULS + 1])
    rows = Revision.objects.for_user(owner).filter(
        record_id__in=[note.pk for note in notes], after__has_key="superseded_by_id"
    )
    ended = {revision.record_id: revision for revision in rows.order_by("id")}
    named = origins.of(owner, {revision.actor for revision in ended.values()})
    found_souls = []
    for newer, older in pairwise(notes):
        end = ended.get(older.pk)
        found_souls.append(
            {
                "note": older,
                "rows": folded(diff(f"{older.content}\n", f"{newer.content}\n")),
                "actor": named[end.actor].words if end and end.actor in named else "",
                "why": end.reason if end else "",
                "until": newer.created,
            }
        )
    return found_souls


def write_persona(
    owner: User, persona: Persona, *, by: Actor, expected_version: int | None = None
) -> Note:
    """Rewrite the agent note (R202). Raises InvalidValue by field, Locked or StaleWrite."""
    problems = {}
    if not one_line(persona.name):
        problems["name"] = [_("Give the agent a name.")]
    elif len(one_line(persona.name)) > MAX_NAME_LENGTH:
        params = {"most": MAX_NAME_LENGTH, "have": grouped(len(one_line(persona.name)))}
        problems["name"] = [
            _("The name has %(have)s characters, but the limit is %(most)d.") % params
        ]
    if problems:
        raise InvalidValue(problems["name"][0], errors=problems)
    return _rewrite(
        owner,
        Note.Kind.AGENT,
        persona.as_text(),
        by=by,
        why=_("persona saved"),
        expected_version=expected_version,
    )


def write_profile(user: User, *, by: Actor) -> Note:
    """Rewrite the user note from the profile, in the transaction that saves the profile (R202)."""
    return _rewrite(user, Note.Kind.USER, profile_text(user), by=by, why=_("profile saved"))


def _rewrite(
    owner: User,
    kind: str,
    content: str,
    *,
    by: Actor,
    why: str,
    expected_version: int | None = None,
) -> Note:
    checks = NoteChecks()
    text = checks.content(content)
    checks.raise_refused()
    with transaction.atomic():
        note = Note.objects.for_user(owner).current_identity().filter(kind=kind)
        standing: Note | None = note.select_for_update().first()
        if standing is None:
            return write_note(owner, kind, text, by=by, source=str(by))
        standing.change(by=by, expected_version=expected_version, why=why, content=text)
    return standing
