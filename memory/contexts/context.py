"""The context that an agent gets before the first question: six layers (seed 004, "Agent Context").

The owner's identity notes, this machine, and the rules and summaries nearest to the message, filled up
with the newest -> six layers in a fixed order, each line with the reason why it is included, and what
was left out with the reason -> one system prompt within a budget of characters. The list of memory
files is the first user message, not a layer (seed 003).

Sensitive, quarantined, expired, superseded and trashed records never enter. Text from the web is put
between marks that call it data. The machine's layer holds nothing that identifies it: no host name,
paths, accounts or addresses.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.contexts import identity
from memory.contexts.notes import Chosen, LeftOut, chosen_notes
from memory.files.reading import files_of, index_of
from memory.models import MemoryFile, Note, Topic, Trust, Use, User
from memory.models.base import OWNER_SCOPE
from memory.texts.text import for_prompt, shorten
from memory.texts.time_zones import named
from memory.texts.token_count import Size, counted

# --- the machine and the time ------------------------------------------------------------------


def place_lines(owner: User, now: datetime) -> list[str]:
    """Return the lines of the environment layer (R217)."""
    zone = ZoneInfo(named(owner.time_zone or "") or "UTC")
    local = now.astimezone(zone)
    offset = f"{local:%z}"
    told = {
        "now": f"{local:%A, %Y-%m-%d %H:%M}",
        "offset": f"{offset[:3]}:{offset[3:5]}",
        "zone": zone.key,
        "system": system_in_words(),
    }
    return [
        _("- Time: %(now)s (UTC%(offset)s), time zone %(zone)s") % told,
        _("- Machine: %(system)s") % told,
        _("- Software: Beacon, on this person's own machine; what you remember stays there"),
    ]


@cache
def system_in_words() -> str:
    """Return the operating system and processor type, such as Linux (Debian 12), x86_64."""
    return ", ".join(part for part in (_system(), platform.machine()) if part) or _("unknown")


def _system() -> str:
    name = {"Darwin": "macOS"}.get(platform.system(), platform.system())
    try:
        known = platform.freedesktop_os_release()
    except OSError:
        release = platform.mac_ver()[0]
        return f"{name} {release}".strip()
    distribution = f"{known.get('NAME', '')} {known.get('VERSION_ID', '')}".strip()
    return f"{name} ({distribution})" if distribution else name


# --- the layers --------------------------------------------------------------------------------

MOST_RULES, MOST_SUMMARIES = 10, 5  # R218
MOST_CHARACTERS = 60_000  # for all layers together, about 15,000 tokens
CHARACTERS, TOKENS = "characters", "tokens"  # what a budget counts
LONGEST_IDENTITY = 12_000  # characters of the agent, soul or user note
LONGEST_NOTE = 2_000  # characters of a rule or a summary

NAMES = ("agent", "soul", "environment", "user", "rules", "summaries")  # R216: in this order


@dataclass(frozen=True, slots=True)
class ContextLine:
    """One entry of a layer: its text for the model, why it is included, and its record, if any."""

    text: str
    why: str
    record: Any = None


@dataclass(slots=True)
class Layer:
    """One of the six layers; `text` is its part of the prompt, "" if the layer is empty."""

    name: str
    title: str
    lines: list[ContextLine] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Return the layer for the model, with external text last, between marks."""
        own = [line.text for line in self.lines if not _is_outside(line)]
        outside = [line.text for line in self.lines if _is_outside(line)]
        told = {"lines": own, "outside": outside}
        return render_to_string("prompts/_context_layer.txt", told).strip()

    @property
    def size(self) -> Size:
        """Return the layer's size in the prompt."""
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

    def layer(self, name: str) -> Layer:
        """Return the layer of this name."""
        return next(one for one in self.layers if one.name == name)


def build_context(
    owner: User,
    *,
    message: str = "",
    topic: Topic | None = None,
    place: str = "",
    now: datetime | None = None,
    scopes: Sequence[str] = (OWNER_SCOPE,),
    most: int = MOST_CHARACTERS,
    unit: str = CHARACTERS,
) -> Context:
    """Return the agent's context for `message`, read from the database at each call.

    Rules and summaries are those nearest to the message, filled up with the newest (R219, R220).
    With a `topic`, those of other topics are left out.  The context has at most `most` characters (or
    tokens, by `unit`) and names what was cut.  `place` says where it is used, and each record gets
    a use there.
    """
    now = now or timezone.now()
    chosen = chosen_notes(
        owner,
        {Note.Kind.RULE: MOST_RULES, Note.Kind.SUMMARY: MOST_SUMMARIES},
        message=message,
        topic=topic,
        scopes=scopes,
        now=now,
    )
    standing = identity.all_active(owner)
    layers = [
        _identity_layer(standing, Note.Kind.AGENT, _("Who you are"), now),
        _identity_layer(standing, Note.Kind.SOUL, _("How you think and act"), now),
        Layer("environment", _("Where you run"), place_lines_of(owner, now)),
        _identity_layer(standing, Note.Kind.USER, _("Whom you work for"), now),
        _notes_layer("rules", _("Rules to follow"), chosen[Note.Kind.RULE]),
        _notes_layer("summaries", _("What was done lately"), chosen[Note.Kind.SUMMARY]),
    ]
    _fit(layers, most, unit)
    files = files_of(owner)
    context = Context(layers, _joined(layers), index_of(files), files)
    Use.note_records(owner, context.records, place)
    return context


def place_lines_of(owner: User, now: datetime) -> list[ContextLine]:
    """Return the layer of the machine, which is never left out (R217)."""
    return [ContextLine(text, _("always")) for text in place_lines(owner, now)]


def _identity_layer(standing: dict[str, Note], kind: str, title: str, now: datetime) -> Layer:
    """Return the layer of the current agent, soul or user note."""
    layer = Layer(str(kind), title)
    note = standing.get(str(kind))
    if note is None:
        return layer
    why = why_never(note, now)
    if why:
        layer.left_out.append(LeftOut(str(note), why, note))
        return layer
    layer.lines.append(ContextLine(_cut(note, LONGEST_IDENTITY, layer), _("always"), note))
    return layer


def why_never(note: Note, now: datetime) -> str:
    """Return why a note is kept out of every context, or ""."""
    if note.sensitivity == "sensitive":
        return _("marked sensitive: it enters no context")
    if note.trust == Trust.QUARANTINED:
        return _("quarantined: it enters no context")
    if note.has_expired(now):
        return _("expired")
    return ""


def _notes_layer(name: str, title: str, chosen: Chosen) -> Layer:
    layer = Layer(name, title, left_out=list(chosen.left_out))
    for note, why in chosen.notes:
        text = _cut(note, LONGEST_NOTE, layer).replace("\n", "\n  ")  # one entry of a list
        layer.lines.append(ContextLine(f"- [note:{note.pk}] {text}", why, note))
    return layer


def _cut(note: Note, most: int, layer: Layer) -> str:
    """Return the note's text; if it is too long it is cut, with a notice to the model and the page."""
    text = for_prompt(note.content.strip())
    if len(text) <= most:
        return text
    told = {"most": f"{most:,}", "have": f"{len(text):,}"}
    why = _("cut: its first %(most)s of %(have)s characters are in") % told
    layer.left_out.append(LeftOut(shorten(note.content, 120), why, note))
    return f"{text[:most].rstrip()} … ({why})"


def _is_outside(line: ContextLine) -> bool:
    return line.record is not None and line.record.trust not in (Trust.OWNER, Trust.AGENT)


def _fit(layers: list[Layer], most: int, unit: str) -> None:
    """Drop summaries, then rules, the last ones first, until all layers fit into `most`."""
    if unit == TOKENS:
        words = _("no room: all layers together have at most %(most)s tokens")
    else:
        words = _("no room: all layers together have at most %(most)s characters")
    why = words % {"most": f"{most:,}"}
    for name in ("summaries", "rules"):
        layer = next(one for one in layers if one.name == name)
        while layer.lines and _length(_joined(layers), unit) > most:
            gone = layer.lines.pop()
            layer.left_out.append(LeftOut(str(gone.record), why, gone.record))


def _length(text: str, unit: str) -> int:
    return counted(text).tokens if unit == TOKENS else len(text)


def _joined(layers: list[Layer]) -> str:
    shown = [layer for layer in layers if layer.lines]
    return render_to_string("prompts/context_system.txt", {"layers": shown}).strip()
