"""The types of tools: arguments, results, and the context of a call.

The tools are in the modules beside this one, named for what they reach (`files`, `notes`,
`recall`, `scratchpad`, `content`); `memory.agents.tools.registry` holds and calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from pydantic import BaseModel, ConfigDict, model_validator

from beacon_site.text.cleaning import clean, shorten
from beacon_site.text.messages import grouped
from memory.models import Agent, ContentItem, Proposal, Remembered, Topic, Trust, Use, User
from memory.models.actors import Actor
from memory.models.remembered import OWNER_SCOPE, is_in_scopes
from memory.services.notes.saving import lowest_trust
from memory.services.observations.saving import callers_source
from memory.services.review import proposals as review_services
from memory.services.review.risks import Write, are_own
from memory.services.search.kinds import KINDS, RecallKind

# What is wrong with a field. Pydantic's own messages are technical.
_TEXT, _WHOLE, _NUMBER, _YES_NO = (
    _lazy("must be text"), _lazy("must be a whole number"), _lazy("must be a number"),
    _lazy("must be true or false"),
)  # fmt: skip
_ONE_OF, _OBJECT = _lazy("must be %(expected)s"), _lazy("must be an object")
_TYPES: dict[str, Any] = {
    "extra_forbidden": _lazy("isn’t a known field"), "missing": _lazy("is required"),
    "string_type": _TEXT, "list_type": _lazy("must be a list"),
    "dict_type": _OBJECT, "model_type": _OBJECT, "model_attributes_type": _OBJECT,
    "int_type": _WHOLE, "int_parsing": _WHOLE, "int_from_float": _WHOLE,
    "float_type": _NUMBER, "float_parsing": _NUMBER,
    "bool_type": _YES_NO, "bool_parsing": _YES_NO, "literal_error": _ONE_OF, "enum": _ONE_OF,
    "greater_than_equal": _lazy("must be at least %(ge)s"),
    "less_than_equal": _lazy("must be at most %(le)s"),
    "string_too_long": _lazy("must be at most %(max_length)s characters long"),
    "too_long": _lazy("must have at most %(max_length)s entries"),
}  # fmt: skip

MAX_SUBAGENT_LENGTH = 40  # characters of a sub-agent's name


MAX_TEXT_LENGTH = 1_000_000  # characters of one argument, unless its tool says otherwise


def why_invalid(error: Mapping[str, Any]) -> str:
    """Return what is wrong with a field, from one of Pydantic's errors."""
    context: dict[str, Any] = error.get("ctx", {})
    if error["type"] in ("string_too_short", "too_short") and context["min_length"] == 1:
        return _("can’t be empty")
    if error["type"] in _TYPES:
        return str(_TYPES[error["type"]]) % context
    return str(error["msg"]).removeprefix("Value error, ")


class Arguments(BaseModel):
    """The arguments of a tool; an unknown argument is an error."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", populate_by_name=True)
    MAX_CHARACTERS: ClassVar[int] = MAX_TEXT_LENGTH

    # Not pydantic's str_max_length, which rejects lone surrogates. Those are removed later.
    @model_validator(mode="before")
    @classmethod
    def _check_lengths(cls, sent: Any) -> Any:
        for name, value in sent.items() if isinstance(sent, dict) else ():
            if isinstance(value, str) and len(value) > cls.MAX_CHARACTERS:
                words = _(
                    "“%(name)s” can have at most %(most)s characters, but this one has %(have)s."
                )
                told = {"most": grouped(cls.MAX_CHARACTERS), "have": grouped(len(value))}
                raise ValueError(words % {"name": str(name)[:80], **told})
        return sent


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's answer: a short text that a model can act on, and the same as plain data.

    On an error, `data["error"]` is a code for programs (`invalid`, `not_found`, `locked`,
    `conflict`, `over_budget` …) and the text says what happened, why, and what to do next.  A
    write held for a person isn't an error: `data["proposal"]` names it.  `data["records"]` lists
    the records that were read or written (`type`, `id`, `title`, `url`).  `data["content_item"]`
    is the ID of the content item with the full result, if the tool stored it itself; otherwise
    `full` is stored (default: the text), such as a page's text without the marks around it that a
    model sees.
    """

    text: str
    is_error: bool = False
    data: dict[str, Any] = field(default_factory=dict)
    full: str = ""


def record_entry(record: Any) -> dict[str, str]:
    """Return the entry of a record in `data["records"]`."""
    kind = recalled_kind(record)
    type, title, url = (
        (kind.type, kind.title(record), kind.url(record))
        if kind is not None
        else (record.record_type(), str(record), record.get_absolute_url())
    )
    return {"type": type, "id": str(record.pk), "title": shorten(title, 200), "url": url}


def recalled_kind(record: Any) -> RecallKind | None:
    """Return the type under which recall returns such records; None for those it leaves out."""
    found = KINDS.get(getattr(record, "SEARCH_TYPE", "") or record.record_type())
    return found if found is not None and isinstance(record, found.model) else None


@dataclass(slots=True)
class ToolContext:
    """For whom tools are called, and what has been read so far.

    `trust` is the lowest trust of what the caller's words derive from: it falls with each record
    that a tool returns, and applies to what is written next.  `messages` are the owner's own
    words, against which identity facts are checked.  `seen` holds the version of each memory file
    that was read, on which a write is based.  Each record read counts as a use in `place`
    (default: the source). `agent` has the caller's settings; `is_isolated` marks a sub-agent with
    its own content store. `requested_by` names the agent that gets the answer, if it isn't the caller,
    so that a record kept from it isn't read for it. If `only_topics` has IDs, only tools that are
    `for_topics` can be called, and only for these topics.
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
    requested_by: str = ""
    only_topics: tuple[UUID, ...] = ()

    def for_subagent(self, name: str) -> ToolContext:
        """Return the context of a sub-agent, which shares the content store or has its own.

        The agent's setting `share_with_subagents` decides (on, if no agent is known). Its own store
        is the scope `run:12/<name>`: neither sees what the other stores, unless a snapshot copies
        it. The sub-agent starts with the trust of what was read so far. A caller that uses its
        answer gets the sub-agent's trust if that is lower.
        """
        shares = self.agent is None or self.agent.share_with_subagents
        if shares:
            return replace(self, seen=dict(self.seen))
        name = shorten(clean(name)[0].replace("/", " "), MAX_SUBAGENT_LENGTH)
        if not name:
            raise ValueError("a sub-agent with its own store needs a name")
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
        """Return the trust of what is written now: an agent's words have agent trust."""
        own = Trust.OWNER if self.by.is_person else Trust.AGENT
        return Trust(lowest_trust([own, self.trust]))

    def successor_trust(self, record: Any) -> str:
        """Return the trust of a replacement: an agent can't turn outside text into its own."""
        if self.by.is_person:
            return self.write_trust
        return lowest_trust([self.write_trust, record.trust])

    def trust_of(self, *texts: str) -> Trust:
        """Return the trust of these texts: the owner's own words derive from nothing else."""
        return self.believed(is_own=are_own(texts, self.messages))

    def believed(self, *, is_own: bool) -> Trust:
        """Return the trust of a write; `is_own` means that it has only the owner's words."""
        if is_own and self.write_trust == Trust.EXTERNAL:
            return Trust.AGENT
        return self.write_trust

    @property
    def scopes(self) -> tuple[str, ...]:
        """Return the scopes whose records can be read: the owner's, and this caller's own."""
        mine = [str(self.by)] if self.by.kind == "agent" else []
        mine += [f"agent:{self.requested_by}"] if self.requested_by else []
        return tuple(dict.fromkeys([OWNER_SCOPE, self.scope, *mine]))

    def may_read(self, record: Any) -> bool:
        """Whether an agent can see the record: nothing sensitive, quarantined or of another scope."""
        scopes = self.content_scopes if isinstance(record, ContentItem) else self.scopes
        return record.is_for_agents and is_in_scopes(getattr(record, "scope", OWNER_SCOPE), scopes)

    def shown(self, *records: Any, trust: str = Trust.OWNER) -> None:
        """Lower the trust to that of these records and to `trust`: the caller sees some of their
        text.
        """
        self.trust = lowest_trust([self.trust, trust, *(record.trust for record in records)])

    def read(self, records: Iterable[Any]) -> None:
        """Record that the caller read these: their trust, and a use of each."""
        found = list(records)
        if found:
            self.shown(*found)
            Use.note_records(self.owner, found, self.place or self.source)


@dataclass(frozen=True, slots=True)
class MemoryTool:
    """A tool: its name, its description for a model, its arguments, and the function that runs it.

    `run` can raise memory's errors for a rejected write; the caller turns them into an answer.
    """

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[ToolContext, Any], ToolResult]
    writes: bool = False
    for_topics: bool = False  # a token that is only for topics can call it


def refused(code: str, text: str, **data: Any) -> ToolResult:
    """Return the answer that nothing was done, with a reason for a model and a code for programs."""
    return ToolResult(text, is_error=True, data={"error": code, "message": text, **data})


def hold_reason(
    context: ToolContext,
    kind: str,
    *,
    texts: Sequence[str] = (),
    target: Remembered | None = None,
    path: str = "",
    after: str = "",
    leaves_topic: bool = True,
    trust: Trust | None = None,
) -> str:
    """Return why the write is held; empty if it can be stored at once.

    `trust` is the trust of the write, if it differs from that of everything its writer has read.
    """
    write = Write(
        context.owner,
        kind,
        context.by,
        trust or context.write_trust,
        leaves_topic,
        texts,
        target=target,
        path=path,
        after=after,
        messages=context.messages,
    )
    return review_services.hold_reason(write)


def hold(
    context: ToolContext,
    kind: str,
    held: str,
    *,
    after: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    target: Remembered | None = None,
    why: str = "",
) -> Proposal:
    """Keep the write as a proposal."""
    return review_services.hold(
        context.owner,
        kind,
        by=context.by,
        source=context.source,
        before=before or {},
        after=after,
        why=why,
        held=held,
        target_id=target.pk if target is not None else None,
        version_seen=target.version if target is not None else None,
    )


def pending_result(proposal: Proposal) -> ToolResult:
    """Return the answer that the write waits for a person's approval."""
    text = _(
        "Pending approval: “%(why)s”. Nothing has been saved yet (proposal %(id)s). Don’t write it again. Continue with your task."
    ) % {"why": proposal.hold_reasons, "id": proposal.pk}
    return ToolResult(text, data={"proposal": str(proposal.pk), "reason": proposal.hold_reasons})


def reviewed(
    context: ToolContext,
    kind: str,
    *,
    after: Mapping[str, Any],
    texts: Sequence[str],
    before: Mapping[str, Any] | None = None,
    target: Remembered | None = None,
    leaves_topic: bool = True,
    trust: Trust | None = None,
    why: str = "",
) -> Proposal | None:
    """Keep a write that must be held as a proposal, and return it; None if it can be stored."""
    held = hold_reason(
        context, kind, texts=texts, target=target, leaves_topic=leaves_topic, trust=trust
    )
    if not held:
        return None
    return hold(context, kind, held, after=after, before=before, target=target, why=why)


def named_source(context: ToolContext, named: str | None) -> str:
    """Return the source of a write: the one that the caller named, or the caller.

    Raises InvalidValue if an agent poses as a person, a run or a session, and Refused for a
    source that the owner blocks.
    """
    if not named:
        return context.source
    if context.by.is_person:
        return named
    named = callers_source(named)
    review_services.check_not_blocked(context.owner, context.by, named)
    return named
