"""Builds an agent's context in six layers, and chooses the rules and summaries for it."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from django.db.models import Q
from django.template.loader import render_to_string
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from beacon_site.providers.llm.tokens import Size, count_method_label, counted
from beacon_site.text.cleaning import clean, for_prompt, shorten
from beacon_site.text.dates import system_zone_name
from beacon_site.text.messages import grouped
from memory.models import MemoryFile, Note, Topic, Trust, Use, User, as_of
from memory.models.notes import NoteQuerySet
from memory.models.remembered import OWNER_SCOPE, in_scopes, is_in_scopes, names_excluded
from memory.services.context import identity
from memory.services.files.reading import files_of, index_of
from memory.services.search.query import Filter, Question
from memory.services.search.recall import MEANING, RecallHit, recall_each

NEAREST = 15  # R219: the hits from which the prompt's notes are chosen
MAX_MESSAGE_LENGTH = 2_000  # characters of a message that are used to choose notes
MAX_LEFT_OUT = 20  # per layer that are listed by name

_NOT_SENSITIVE = Filter("sensitivity", ("sensitive",), negated=True)
_NOT_QUARANTINED = Filter("trust", (Trust.QUARANTINED.value,), negated=True)


@dataclass(frozen=True, slots=True)
class _Asked:
    owner: User
    kind: str
    topic: Topic | None
    scopes: tuple[str, ...]
    now: datetime

    def may_enter(self, note: Note) -> bool:
        return self.why_not(note) == ""

    def why_not(self, note: Note) -> str:
        """Return why the note can't be included, or "" if it can."""
        if note.superseded_by_id is not None:
            return _("replaced by a newer note")
        if note.has_expired(self.now):
            return _("expired")
        if note.sensitivity == "sensitive":
            return _("sensitive, so it’s never included")
        if note.paused:
            return _("paused")
        if note.trust == Trust.QUARANTINED:
            return _("quarantined, so it’s never included")
        if not note.is_for_agents:
            return _("its topic is sensitive or quarantined, so it’s never included")
        if not is_in_scopes(note.scope, self.scopes):
            if names_excluded(note.scope):
                return _("you hid it from this agent")
            return _("visible only to %(scope)s") % {"scope": note.scope}
        if self.topic is not None and note.topic_id not in (None, self.topic.pk):
            return _("belongs to another topic")
        return ""

    def allowed(self) -> NoteQuerySet:
        """Return the notes of this kind that can be included, newest first."""
        rows = Note.objects.for_user(self.owner).active(self.now)
        rows = rows.filter(in_scopes(self.scopes), kind=self.kind)
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
) -> dict[str, ChosenNotes]:
    """Return the notes of each kind: pinned ones, those nearest to the message, then the newest."""
    askeds = [_Asked(owner, str(kind), topic, tuple(scopes), now) for kind in most]
    nearest = _nearest(owner, list(most), message, now)
    return {
        kind: _chosen(one, hits, most[kind])
        for kind, one, hits in zip(most, askeds, nearest, strict=True)
    }


def _chosen(question: _Asked, nearest: Iterable[RecallHit], most: int) -> ChosenNotes:
    notes: dict[Any, tuple[Note, str]] = {
        note.pk: (note, _("pinned")) for note in question.allowed().filter(pinned=True)[:most]
    }
    beyond = {}
    for hit in nearest:
        note = hit.record
        if note.pk in notes or not question.may_enter(note):
            continue
        if len(notes) < most:
            notes[note.pk] = note, _why_near(hit)
        else:
            beyond[note.pk] = hit.score
    if len(notes) < most:
        for note in question.allowed()[:most]:
            if len(notes) < most and note.pk not in notes:
                notes[note.pk] = note, _("among the newest")
    return list(notes.values()), _left_out(question, notes, most, beyond)


def _nearest(
    owner: User, kinds: Sequence[str], message: str, now: datetime
) -> list[list[RecallHit]]:
    """Return the hits of each kind, by words and by meaning if there is an embedder."""
    message = clean(message)[0][:MAX_MESSAGE_LENGTH].strip()
    if not message:
        return [[] for _kind in kinds]
    # A message isn't a query: the -O3 in “C++ -O3” excludes nothing.
    questions = [
        Question(
            message,
            message,
            filters=(_NOT_SENSITIVE, _NOT_QUARANTINED, Filter("kind", (str(kind),))),
        )
        for kind in kinds
    ]
    pages = recall_each(owner, questions, types=[Note.record_type()], limit=NEAREST, now=now)
    return [page.hits for page in pages]


def _why_near(hit: RecallHit) -> str:
    how = _("in meaning") if MEANING in hit.retrievers else _("in wording")
    params = {"how": how, "score": f"{hit.score:.2f}"}
    return _("similar %(how)s to the message (%(score)s)") % params


def _left_out(
    question: _Asked, entered: Iterable[Any], most: int, scores: Mapping[Any, float]
) -> list[ContextLine]:
    """Return the newest notes that were left out, with reasons, and the number of others.

    `scores` are those of notes that are similar to the message, but less than the chosen ones.
    """
    rows = Note.objects.for_user(question.owner).live().select_related("topic")
    rows = rows.filter(kind=question.kind).exclude(pk__in=entered)
    found = list(rows.order_by("-created", "-id")[: MAX_LEFT_OUT + 1])
    beyond = _("not among the %(most)d most similar or most recent notes") % {"most": most}
    less = _(
        "similar to the message (%(score)s), but the limit of %(most)d has already been reached"
    )
    newer = _("pinned, but only the %(most)d newest pinned items are included") % {"most": most}
    context_lines = []
    for note in found[:MAX_LEFT_OUT]:
        why = question.why_not(note) or (newer if note.pinned else beyond)
        if why == beyond and note.pk in scores:
            why = less % {"score": f"{scores[note.pk]:.2f}", "most": most}
        context_lines.append(ContextLine(str(note), why, note))
    if len(found) > MAX_LEFT_OUT:
        more = rows.count() - MAX_LEFT_OUT
        words = ngettext("%(n)s older note", "%(n)s older notes", more) % {"n": grouped(more)}
        context_lines.append(ContextLine(words, beyond))
    return context_lines


# --- machine and time -----------------------------------------------------------------------------


def place_lines(owner: User, now: datetime) -> list[str]:
    """Return the lines of the environment layer (R217)."""
    zone = ZoneInfo(system_zone_name(owner.time_zone or "") or "UTC")
    local = now.astimezone(zone)
    offset = f"{local:%z}"
    fields = {
        "now": f"{local:%A, %Y-%m-%d %H:%M}",
        "offset": f"{offset[:3]}:{offset[3:5]}",
        "zone": zone.key,
        "system": describe_system(),
    }
    return [
        "- Time: {now} (UTC{offset}), time zone {zone}".format(**fields),
        "- Machine: {system}".format(**fields),
        "- Software: Beacon, on this person’s own machine. What you remember stays there",
    ]


@cache
def describe_system() -> str:
    """Return the operating system and processor type, such as Linux (Debian 12), x86_64."""
    return ", ".join(part for part in (_system(), platform.machine()) if part) or "unknown"


def _system() -> str:
    name = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    try:
        known = platform.freedesktop_os_release()
    except OSError:
        release = platform.mac_ver()[0]
        return f"{name} {release}".strip()
    distribution = f"{known.get('NAME', '')} {known.get('VERSION_ID', '')}".strip()
    return f"{name} ({distribution})" if distribution else name


# --- layers ---------------------------------------------------------------------------------------

MAX_RULES, MAX_SUMMARIES = 10, 5  # R218
MAX_CHARACTERS = 60_000  # for all layers together, about 15,000 tokens
CHARACTERS, TOKENS = "characters", "tokens"  # what a budget counts
MAX_IDENTITY_LENGTH = 12_000  # characters of the agent, soul or user note
MAX_NOTE_LENGTH = 2_000  # characters of a rule or a summary

_TITLES = {
    "agent": _lazy("Who you are"),
    "soul": _lazy("How you think and act"),
    "environment": _lazy("Where you’re running"),
    "user": _lazy("Who you work for"),
    "rules": _lazy("Rules to follow"),
    "summaries": _lazy("Recent work"),
    "recalled": _lazy("Memories related to the message"),
}


@dataclass(frozen=True, slots=True)
class ContextLine:
    """One entry of a layer, with why it is included and its record, if any.

    Or a note that was left out or cut, with its title as the text and why. The model doesn't get that.
    """

    text: str
    why: str
    record: Any = None

    @property
    def is_outside(self) -> bool:
        return self.record is not None and self.record.is_outside


# Notes in order, each with the reason why it was chosen, and what was left out.
ChosenNotes = tuple[list[tuple[Note, str]], list[ContextLine]]


@dataclass(slots=True)
class Layer:
    """One of the six layers; `text` is its part of the prompt, "" if the layer is empty."""

    name: str
    lines: list[ContextLine] = field(default_factory=list)
    left_out: list[ContextLine] = field(default_factory=list)

    @property
    def title(self) -> str:
        return str(_TITLES[self.name])

    @property
    def text(self) -> str:
        """Return the layer for the model, with external text last, between marks."""
        own = [line.text for line in self.lines if not line.is_outside]
        outside = [line.text for line in self.lines if line.is_outside]
        told = {"lines": own, "outside": outside}
        return render_to_string("prompts/_context_layer.txt", told).strip()

    @property
    def size(self) -> Size:
        return counted(self.text)


@dataclass(frozen=True, slots=True)
class Context:
    """The six layers, joined as a system prompt, and the list of memory files."""

    layers: list[Layer]
    system: str
    index: str
    files: Sequence[MemoryFile] = ()  # files that the index lists, and those that it leaves out

    @property
    def text(self) -> str:
        """Return the system prompt followed by the list of memory files."""
        return f"{self.system}\n\n{self.index}"

    @property
    def records(self) -> list[Any]:
        """Return the records that it includes, in order."""
        return [line.record for layer in self.layers for line in layer.lines if line.record]

    def without(self, ids: Collection[str]) -> Context:
        """Return the context without the records with these IDs. Nothing else takes their place."""
        layers = [
            replace(
                one,
                lines=[
                    line
                    for line in one.lines
                    if line.record is None or str(line.record.pk) not in ids
                ],
            )
            for one in self.layers
        ]
        return Context(layers, _joined(layers), self.index, self.files)

    def layer(self, name: str) -> Layer:
        return next(one for one in self.layers if one.name == name)


EXTERNAL_WORDS = "False leaves out records whose text comes from the web. After reading such text, an agent’s writes wait for approval."


def build_context(
    owner: User,
    *,
    message: str = "",
    topic: Topic | None = None,
    place: str = "",
    now: datetime | None = None,
    scopes: Sequence[str] = (OWNER_SCOPE,),
    most: int = MAX_CHARACTERS,
    unit: str = CHARACTERS,
    with_external: bool = True,
) -> Context:
    """Return the agent's context for `message`, read from the database at each call.

    Rules and summaries are the pinned ones, those nearest to the message, and the newest (R219, R220).
    In `as_of.at()` it is the context of that time.  With a `topic`, those of other topics are left
    out.  The context has at most `most` characters (or
    tokens, by `unit`) and names what was cut.  Without `with_external`, records with external text are
    left out.  `place` says where it is used, and each record gets
    a use there.
    """
    now = now or as_of.now()
    chosen = chosen_notes(
        owner,
        {Note.Kind.RULE: MAX_RULES, Note.Kind.SUMMARY: MAX_SUMMARIES},
        message=message,
        topic=topic,
        scopes=scopes,
        now=now,
    )
    standing = identity.all_active(owner)
    layers = [
        _identity_layer(standing, Note.Kind.AGENT, now),
        _identity_layer(standing, Note.Kind.SOUL, now),
        Layer("environment", place_lines_of(owner, now)),
        _identity_layer(standing, Note.Kind.USER, now),
        _notes_layer("rules", chosen[Note.Kind.RULE]),
        _notes_layer("summaries", chosen[Note.Kind.SUMMARY]),
    ]
    files = files_of(owner)
    if not with_external:
        for layer in layers:
            layer.lines = [line for line in layer.lines if not line.is_outside]
        files = [file for file in files if not file.is_outside]
    _fit(layers, most, unit)
    context = Context(layers, _joined(layers), index_of(files), files)
    Use.note_records(owner, context.records, place)
    return context


MAX_RECALLED, MAX_RECALLED_LENGTH = 6, 400  # hits, and characters of each


def with_recalled(context: Context, hits: Iterable[RecallHit]) -> Context:
    """Return the context with one more layer: what recall found, except what it includes already."""
    included = {record.pk for record in context.records}
    lines = [
        ContextLine(
            f"- [{hit.type}:{hit.id}] {for_prompt(hit.dated(shorten(hit.content, MAX_RECALLED_LENGTH)))}",
            _why_near(hit),
            hit.record,
        )
        for hit in hits
        if hit.id not in included
    ]
    layer = Layer("recalled", lines[:MAX_RECALLED])
    layers = [*context.layers, layer]
    return replace(context, layers=layers, system=_joined(layers))


def place_lines_of(owner: User, now: datetime) -> list[ContextLine]:
    """Return the layer of the machine, which is never left out (R217)."""
    return [ContextLine(text, _("always")) for text in place_lines(owner, now)]


def _identity_layer(standing: dict[str, Note], kind: str, now: datetime) -> Layer:
    """Return the layer of the current agent, soul or user note."""
    layer = Layer(str(kind))
    note = standing.get(str(kind))
    if note is None:
        return layer
    why = why_never(note, now)
    if why:
        layer.left_out.append(ContextLine(str(note), why, note))
        return layer
    layer.lines.append(ContextLine(_cut(note, MAX_IDENTITY_LENGTH, layer), _("always"), note))
    return layer


def why_never(note: Note, now: datetime) -> str:
    """Return why a note is kept out of every context, or ""."""
    if note.sensitivity == "sensitive":
        return _("sensitive, so it’s never included")
    if note.trust == Trust.QUARANTINED:
        return _("quarantined, so it’s never included")
    if note.has_expired(now):
        return _("expired")
    return ""


def _notes_layer(name: str, chosen: ChosenNotes) -> Layer:
    notes, left_out = chosen
    layer = Layer(name, left_out=list(left_out))
    for note, why in notes:
        text = _cut(note, MAX_NOTE_LENGTH, layer).replace("\n", "\n  ")  # one entry of a list
        layer.lines.append(ContextLine(f"- [note:{note.pk}] {text}", why, note))
    return layer


def _cut(note: Note, most: int, layer: Layer) -> str:
    """Return the note's text; if it is too long it is cut, with a notice to the model and the page."""
    text = for_prompt(note.content.strip())
    if len(text) <= most:
        return text
    params = {"most": grouped(most), "have": grouped(len(text))}
    why = _("shortened to the first %(most)s of %(have)s characters") % params
    layer.left_out.append(ContextLine(shorten(note.content, 120), why, note))
    return f"{text[:most].rstrip()} … ({why})"


def _fit(layers: list[Layer], most: int, unit: str) -> None:
    """Drop summaries, then rules, the last ones first, until all layers fit into `most`."""
    if unit == TOKENS:
        words = _("doesn’t fit: all layers together can have at most %(most)s tokens")
    else:
        words = _("doesn’t fit: all layers together can have at most %(most)s characters")
    why = words % {"most": grouped(most)}
    for name in ("summaries", "rules"):
        layer = next(one for one in layers if one.name == name)
        while layer.lines and _length(_joined(layers), unit) > most:
            gone = layer.lines.pop()
            layer.left_out.append(ContextLine(str(gone.record), why, gone.record))


def _length(text: str, unit: str) -> int:
    return counted(text).tokens if unit == TOKENS else len(text)


def _joined(layers: list[Layer]) -> str:
    shown = [layer for layer in layers if layer.lines]
    with translation.override("en"):  # a page can show it in another language
        return render_to_string("prompts/context_system.txt", {"layers": shown}).strip()


# --- context as plain data for tools and the API ---


def context_data(built: Context) -> dict[str, Any]:
    """Return the layers with their sizes, the list of memory files, and the text of both together.

    What was left out is only counted, not named, because a title can contain something that agents
    must not see.
    """
    layers = [
        {
            "name": one.name,
            "title": one.title,
            "lines": len(one.lines),
            "left_out": len(one.left_out),
            **size_data(one.size),
            "text": one.text,
        }
        for one in built.layers
    ]
    return {
        "layers": layers,
        "system": built.system,
        "index": built.index,
        "text": built.text,
        **size_data(counted(built.text)),
        "token_count_method": count_method_label(),
    }


def size_data(size: Size) -> dict[str, int]:
    return {"bytes": size.bytes, "tokens": size.tokens}
