"""What a tool is, on whose behalf it is called, and what it answers.

The tools themselves are in the modules beside this one, named for what they reach (`files`, `notes`, `recall`,
`scratchpad`, `content`); `memory.tools.registry` holds the one registry and calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from django.utils.translation import gettext as _
from pydantic import BaseModel, ConfigDict, model_validator

from beacon_site.text.cleaning import clean, shorten
from memory.core.actors import Actor
from memory.models import Agent, ContentItem, Topic, Trust, Use, User
from memory.models.remembered import OWNER_SCOPE
from memory.notes.services import lowest_trust
from memory.records.kinds import kind_of
from memory.review.risks import are_own
from memory.search.kinds import KINDS, RecallKind

LONGEST_SUBAGENT = 40  # characters of a sub-agent's name


LONGEST_TEXT = 1_000_000  # characters of one argument, unless its tool says otherwise


class Arguments(BaseModel):
    """The arguments of a tool; one that it does not know is refused, not ignored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", populate_by_name=True)
    MOST_CHARACTERS: ClassVar[int] = LONGEST_TEXT

    # Not pydantic's str_max_length: that refuses lone surrogates, which are taken out later.
    @model_validator(mode="before")
    @classmethod
    def _check_lengths(cls, sent: Any) -> Any:
        for name, value in sent.items() if isinstance(sent, dict) else ():
            if isinstance(value, str) and len(value) > cls.MOST_CHARACTERS:
                words = _("“%(name)s” can have at most %(most)s characters; it has %(have)s.")
                told = {"most": f"{cls.MOST_CHARACTERS:,}", "have": f"{len(value):,}"}
                raise ValueError(words % {"name": str(name)[:80], **told})
        return sent


@dataclass(frozen=True, slots=True)
class Full:
    """What the content store keeps of a result, where that is other than the text of the answer.

    A page's own text, say, without the marks between which a model is shown it.
    """

    content: str
    type: str = ContentItem.Type.ACTION_RESULT
    title: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answers: a short text that a model can act on, and the same as plain data.

    Of a refusal `data["error"]` is a word for programs (`invalid`, `not_found`, `locked`,
    `conflict`, `over_budget` …) and the text says what happened, why, and what to do.  A write
    that is held for a person is no error: `data["proposal"]` names it.  `data["records"]` lists
    the records that were read or written (`type`, `id`, `title`, `url`).  `data["content_item"]`
    is the id of the content item that holds the result in full, if the tool stored it itself;
    `full` is what is stored of it otherwise (default: the text).
    """

    text: str
    is_error: bool = False
    data: dict[str, Any] = field(default_factory=dict)
    full: Full | None = None


@dataclass(slots=True)
class ToolContext:
    """On whose behalf tools are called, and what was read so far.

    `trust` is the lowest of what the caller's words derive from: it falls with each record that a
    tool reads to it, and what is written then takes it.  `messages` are the owner's own words, by
    which an identity fact is held against what they said.  `seen` holds the version of each memory
    file that was read, on which a write of it is based.  Each record read is noted as a use in
    `place` (default: the source).  `agent` holds the settings of who calls; `is_isolated` says that
    this is a sub-agent with a content store of its own.
    """

    owner: User
    by: Actor
    source: str
    scope: str = OWNER_SCOPE
    topic: Topic | None = None
    trust: str = Trust.OWNER
    messages: Sequence[str] = ()
    seen: dict[str, int] = field(default_factory=dict)
    place: str = ""
    agent: Agent | None = None
    is_isolated: bool = False

    def for_subagent(self, name: str) -> ToolContext:
        """Return the context of a sub-agent: it shares the content store, or has one of its own.

        The agent's setting `share_with_subagents` decides (on, where no agent is known).  Its own
        store is the scope `run:12/<name>`: it sees nothing of this one's, unless a snapshot seeds
        it, and this one sees nothing of what it stores.  It begins with the trust of what was read
        until now; what it answers derives from what it read, so whoever takes its words over
        lowers the own trust to its.
        """
        shares = self.agent is None or self.agent.share_with_subagents
        if shares:
            return replace(self, seen=dict(self.seen))
        name = shorten(clean(name)[0].replace("/", " "), LONGEST_SUBAGENT)
        if not name:
            raise ValueError("a sub-agent with a store of its own needs a name")
        scope = self.content_scope if self.content_scope != OWNER_SCOPE else "agent:sub-agents"
        return replace(self, seen=dict(self.seen), scope=f"{scope}/{name}", is_isolated=True)

    @property
    def content_scope(self) -> str:
        """Return the scope in which this caller's content is stored."""
        is_nowhere = self.scope == OWNER_SCOPE and self.by.kind == "agent"
        return str(self.by) if is_nowhere else self.scope

    @property
    def content_scopes(self) -> tuple[str, ...]:
        """Return the scopes whose content items this caller sees."""
        return (self.scope,) if self.is_isolated else self.scopes

    @property
    def write_trust(self) -> Trust:
        """Return how far to believe what is written now: an agent's words are an agent's."""
        own = Trust.OWNER if self.by.is_person else Trust.AGENT
        return Trust(lowest_trust([own, self.trust]))

    def successor_trust(self, record: Any) -> str:
        """Return how far to believe what supersedes a record: an agent makes no outside text its own."""
        if self.by.is_person:
            return self.write_trust
        return lowest_trust([self.write_trust, record.trust])

    def trust_of(self, *texts: str) -> Trust:
        """Return how far to believe these texts: the owner's own words derive from nothing else."""
        return self.believed(is_own=are_own(texts, self.messages))

    def believed(self, *, is_own: bool) -> Trust:
        """Return how far to believe a write; `is_own` says that it holds the owner's words alone."""
        if is_own and self.write_trust == Trust.EXTERNAL:
            return Trust.AGENT
        return self.write_trust

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return the scopes whose records may be read: the owner's, and this caller's own."""
        mine = [str(self.by)] if self.by.kind == "agent" else []
        return tuple(dict.fromkeys([OWNER_SCOPE, self.scope, *mine]))

    def may_read(self, record: Any) -> bool:
        """Whether an agent may see the record: nothing sensitive, quarantined or of others' scope."""
        scopes = self.content_scopes if isinstance(record, ContentItem) else self.scopes
        return record.is_for_agents and getattr(record, "scope", OWNER_SCOPE) in scopes

    def shown(self, *records: Any, trust: str = Trust.OWNER) -> None:
        """Lower the trust to that of these records, and to `trust`, of which the caller sees some text."""
        self.trust = lowest_trust([self.trust, trust, *(one.trust for one in records)])

    def read(self, records: Iterable[Any]) -> None:
        """Take note that the caller read these: their trust, and a use of each."""
        found = list(records)
        if found:
            self.shown(*found)
            Use.note_records(self.owner, found, self.place or self.source)


@dataclass(frozen=True, slots=True)
class MemoryTool:
    """A tool: its name, what a model reads of it, its arguments, and what carries it out.

    `run` may raise what memory refuses a write with; whoever calls it makes an answer of that.
    """

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[ToolContext, Any], ToolResult]
    writes: bool = False


def named(record: Any) -> dict[str, str]:
    """Return what `data["records"]` says of a record."""
    record_type, recalled = record.record_type(), recalled_kind(record)
    if recalled is not None:
        record_type, title, url = recalled.type, recalled.title(record), recalled.url(record)
    else:
        title, url = str(record), kind_of(record_type).address(record)
    return {"type": record_type, "id": str(record.pk), "title": shorten(title, 200), "url": url}


def recalled_kind(record: Any) -> RecallKind | None:
    """Return as what recall returns such records; None for those that it leaves out."""
    found = KINDS.get(getattr(record, "SEARCH_TYPE", "") or record.record_type())
    return found if found is not None and isinstance(record, found.model) else None


def refused(code: str, text: str, **data: Any) -> ToolResult:
    """Return the answer that nothing was done, with the reason for a model and a word for programs."""
    return ToolResult(text, is_error=True, data={"error": code, "message": text, **data})
