"""Which rules and summaries enter an agent's context: those nearest to the message, then the newest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.models import Note, Topic, Trust, User
from memory.models.notes import NoteQuerySet
from memory.recall.operators import Filter, Question
from memory.recall.recalling import RecallHit, recall_each
from memory.recall.retrievers import MEANING
from memory.texts.text import clean

NEAREST = 15  # R219: the hits among which those for the prompt are chosen
LONGEST_MESSAGE = 2_000  # characters of a message by which notes are chosen
MOST_LEFT_OUT = 20  # of a layer that are named one by one

_NOT_SENSITIVE = Filter("sensitivity", ("sensitive",), negated=True)
_NOT_QUARANTINED = Filter("trust", (Trust.QUARANTINED.value,), negated=True)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What did not enter a layer, or not whole, and why; for the owner's eyes, not for the model."""

    title: str
    why: str
    record: Any = None


@dataclass(slots=True)
class Chosen:
    """The notes that enter, in order, each with why; and what was left out."""

    notes: list[tuple[Note, str]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Asked:
    owner: User
    kind: str
    topic: Topic | None
    scopes: tuple[str, ...]
    now: datetime

    def may_enter(self, note: Note) -> bool:
        """Whether the note may enter, whichever way it was found."""
        return self.why_not(note) == ""

    def why_not(self, note: Note) -> str:
        """Return why the note may not enter; empty where it may."""
        if note.superseded_by_id is not None:
            return _("superseded by a newer note")
        if note.has_expired(self.now):
            return _("expired")
        if note.sensitivity == "sensitive":
            return _("marked sensitive: it enters no context")
        if note.trust == Trust.QUARANTINED:
            return _("quarantined: it enters no context")
        if not note.is_for_agents:
            return _("its topic is sensitive or quarantined: it enters no context")
        if note.scope not in self.scopes:
            return _("kept for %(scope)s alone") % {"scope": note.scope}
        if self.topic is not None and note.topic_id not in (None, self.topic.pk):
            return _("belongs to another topic")
        return ""

    def allowed(self) -> NoteQuerySet:
        """Return the notes of this kind that may enter, the newest first."""
        rows = Note.objects.of(self.owner).active(self.now)
        rows = rows.filter(kind=self.kind, scope__in=self.scopes)
        rows = rows.for_agents()
        if self.topic is not None:
            rows = rows.filter(Q(topic=None) | Q(topic=self.topic))
        return rows.order_by("-created", "-id")


def chosen_notes(
    owner: User,
    most: Mapping[str, int],
    *,
    message: str,
    topic: Topic | None,
    scopes: Sequence[str],
    now: datetime,
) -> dict[str, Chosen]:
    """Return of each kind at most so many notes: nearest to the message first, then the newest."""
    asked = [_Asked(owner, str(kind), topic, tuple(scopes), now) for kind in most]
    nearest = _nearest(owner, list(most), message, now)
    return {
        kind: _chosen(one, hits, most[kind])
        for kind, one, hits in zip(most, asked, nearest, strict=True)
    }


def _chosen(asked: _Asked, nearest: Iterable[RecallHit], most: int) -> Chosen:
    notes: dict[Any, tuple[Note, str]] = {}
    for hit in nearest:
        note = hit.record
        if len(notes) < most and asked.may_enter(note):
            notes[note.pk] = note, _why_near(hit)
    if len(notes) < most:
        for note in asked.allowed()[:most]:
            if len(notes) < most and note.pk not in notes:
                notes[note.pk] = note, _("among the newest")
    return Chosen(list(notes.values()), _left_out(asked, notes, most))


def _nearest(
    owner: User, kinds: Sequence[str], message: str, now: datetime
) -> list[list[RecallHit]]:
    """Return the hits of each kind: by words and, where there is an embedder, by meaning."""
    message = clean(message)[0][:LONGEST_MESSAGE].strip()
    if not message:
        return [[] for _kind in kinds]
    # A message is words, not a query: “C++ -O3” leaves nothing out.
    asked = [
        Question(
            message,
            message,
            filters=(_NOT_SENSITIVE, _NOT_QUARANTINED, Filter("kind", (str(kind),))),
        )
        for kind in kinds
    ]
    pages = recall_each(owner, asked, types=[Note.record_type()], limit=NEAREST, now=now)
    return [page.hits for page in pages]


def _why_near(hit: RecallHit) -> str:
    how = _("in meaning") if MEANING in hit.lanes else _("in words")
    told = {"how": how, "score": f"{hit.score:.2f}"}
    return _("near to the message %(how)s (%(score)s)") % told


def _left_out(asked: _Asked, entered: Iterable[Any], most: int) -> list[LeftOut]:
    """Return the newest that did not enter, each with why, and how many more there are."""
    rows = Note.objects.of(asked.owner).live().select_related("topic")
    rows = rows.filter(kind=asked.kind).exclude(pk__in=entered)
    found = list(rows.order_by("-created", "-id")[: MOST_LEFT_OUT + 1])
    beyond = _("not among the %(most)d that are nearest to the message or newest") % {"most": most}
    told = [
        LeftOut(str(note), asked.why_not(note) or beyond, note) for note in found[:MOST_LEFT_OUT]
    ]
    if len(found) > MOST_LEFT_OUT:
        more = rows.count() - MOST_LEFT_OUT
        words = ngettext("%(n)s older note", "%(n)s older notes", more) % {"n": f"{more:,}"}
        told.append(LeftOut(words, beyond))
    return told
