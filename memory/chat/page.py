"""What the pages of Ask show: sessions, their messages with calls and cards, and what one left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.chat.conversation import PENDING
from memory.models import Message, Note, Observation, Reflection, Session, Topic, Trust, User
from memory.observations.consolidation import source_of
from memory.paging import Page, page_of
from memory.reflection.page import Shown, shown_of
from memory.texts import markdown
from memory.texts.cite_marks import numbered
from memory.texts.text import shorten

SIZE = 20  # sessions of a page
MOST_SHOWN = 60  # messages of a session; earlier ones are a link away
MOST_LEFT = 20  # records of each kind that a session left
EXAMPLES = 3


# --- the list of sessions ---------------------------------------------------------------------------


def sessions(user: User, *, cursor: str = "") -> Page:
    """Return one page of the person's sessions, the newest first, each with how much was said."""
    said = Q(messages__is_index=False, messages__role="user")
    rows = Session.objects.of(user).live().annotate(asked=Count("messages", filter=said))
    return page_of(rows, by="created", falling=True, cursor=cursor, size=SIZE)


def examples(user: User) -> list[str]:
    """Return questions that one may begin with, about topics of which something is known."""
    known = Topic.objects.of(user).live().filter(archived_at=None, run_count__gt=0)
    topics = known.order_by("-last_run_at")
    titles = [shorten(topic.title, 60) for topic in topics[:EXAMPLES]]
    patterns = [
        _("What do we know about %(topic)s?"),
        _("What changed lately about %(topic)s?"),
        _("Which sources spoke about %(topic)s?"),
    ]
    asked = [pattern % {"topic": title} for pattern, title in zip(patterns, titles, strict=False)]
    usual = [
        _("What did we work on lately?"),
        _("What do you know about me?"),
        _("Which rules do you follow?"),
    ]
    return [*asked, *usual][:EXAMPLES]


# --- one session --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call of a tool in a line, with what it answered."""

    words: str
    tool: str
    arguments: list[tuple[str, str]]
    result: str
    is_error: bool
    proposal_url: str = ""


@dataclass(frozen=True, slots=True)
class CiteRow:
    """One cited record; `quote` is empty where its title says the same."""

    title: str
    url: str
    words: str
    quote: str
    is_outside: bool

    @classmethod
    def of(cls, cite: Mapping[str, str]) -> CiteRow:
        """Return a card of an answer as it is shown."""
        kinds = {
            "note": _("note"),
            "observation": _("observation"),
            "fact": _("fact"),
            "report": _("report"),
            "section": _("section of a memory file"),
            "memoryfile": _("memory file"),
        }
        quote = cite.get("quote", "")
        same = quote[:60].rstrip("…") == cite["title"][:60].rstrip("…")
        return cls(
            cite["title"],
            cite.get("url", ""),
            kinds.get(cite["type"], cite["type"]),
            "" if same and len(quote) <= len(cite["title"]) + 1 else quote,
            cite.get("trust") not in (Trust.OWNER, Trust.AGENT),
        )


@dataclass(frozen=True, slots=True)
class Said:
    """One message as it is shown."""

    message: Message
    html: SafeString
    calls: list[CallRow] = field(default_factory=list)
    cites: Sequence[Mapping[str, str]] = ()

    @property
    def cards(self) -> list[CiteRow]:
        """Return what an answer cites, as it is shown."""
        return [CiteRow.of(cite) for cite in self.cites]

    @property
    def is_pending(self) -> bool:
        """Whether an answer is still to come."""
        return self.message.state in PENDING

    @property
    def token(self) -> str:
        """Return what a poll compares, to be told nothing where nothing is new."""
        one = self.message
        return f"{one.state}.{one.attempt}.{len(one.tool_calls)}.{len(one.content)}"


def said(message: Message) -> Said:
    """Return a message as it is shown."""
    if message.role == "user":
        return Said(message, SafeString(""), cites=message.cites)
    html = markdown.by_direction(markdown.render(numbered(message.content, message.cites)))
    known = range(1, len(message.cites) + 1)
    linked = markdown.link_citations(html, known, prefix=f"cite-{message.pk}-")
    return Said(message, linked, [_call(one) for one in message.tool_calls], message.cites)


def messages_of(session: Session, *, before: int | None = None) -> tuple[list[Said], int | None]:
    """Return the last messages (of those before a position), and where earlier ones end."""
    rows = session.messages.filter(is_index=False).order_by("-position")
    if before is not None:
        rows = rows.filter(position__lt=before)
    found = list(rows[: MOST_SHOWN + 1])
    shown = found[:MOST_SHOWN][::-1]
    earlier = shown[0].position if len(found) > MOST_SHOWN else None
    return [said(message) for message in shown], earlier


def _call(call: Mapping[str, Any]) -> CallRow:
    arguments = [(str(key), str(value)) for key, value in call["arguments"].items()]
    proposal = call.get("proposal", "")
    return CallRow(
        _in_words(call, held=bool(proposal)),
        call["tool"],
        arguments,
        call["result"],
        bool(call["is_error"]),
        reverse("memory:proposal", args=[proposal]) if proposal else "",
    )


def _in_words(call: Mapping[str, Any], *, held: bool) -> str:
    """Return a call in a few words: “read facts/user.md”, “recalled 3 memories for “tea””."""
    asked, tool, n = call["arguments"], call["tool"], len(call.get("records", []))
    told = {"path": shorten(str(asked.get("path", "")), 60), "tool": tool, "n": n}
    if call["is_error"]:
        return _("%(tool)s was refused") % told
    if held:
        return _("proposed a change, which waits for you")
    if tool == "recall":
        words = ngettext("recalled %(n)d memory for", "recalled %(n)d memories for", n) % told
        return f"{words} “{shorten(str(asked.get('query', '')), 80)}”"
    plain = {
        "memory_list": _("looked at the list of memory files"),
        "memory_read": _("read %(path)s"),
        "memory_write": _("wrote %(path)s"),
        "memory_patch": _("changed %(path)s"),
        "memory_append": _("added to %(path)s"),
        "retrieve": _("read a record"),
        "list_memory": _("listed notes"),
        "remember": _("remembered a note"),
        "remember_fil": _("remembered what was learnt"),
        "update_memory": _("put a newer note in an older one’s place"),
        "update_soul": _("changed the soul"),
    }
    return plain.get(tool, _("called %(tool)s")) % told


# --- what a session left ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Left:
    """What came of an ended session; `is_pending` while a worker is still at it."""

    is_pending: bool
    notes: list[Note]
    observations: list[Observation]
    reflection: Shown | None


def left_by(session: Session) -> Left | None:
    """Return what an ended session left behind, None of one that goes on: at most six queries."""
    if session.ended_at is None:
        return None
    source, owner = source_of(session.pk), session.owner
    waiting = Reflection.objects.of(owner).filter(source=source, state=Reflection.State.WAITING)
    notes = Note.objects.of(owner).live().filter(source=source).order_by("created")
    observations = Observation.objects.of(owner).live().filter(source=source).order_by("created")
    return Left(
        waiting.exists(),
        list(notes[:MOST_LEFT]),
        list(observations[:MOST_LEFT]),
        shown_of(owner, source),
    )
