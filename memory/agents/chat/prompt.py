"""The messages for the model in a session: six layers, the list of files, and the conversation.

The system prompt is rebuilt for each answer, so an edit takes effect immediately. The list of files
is the one from the session's start (R159).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from beacon_site.providers.llm.base import Message as Said
from beacon_site.providers.llm.base import ToolCall
from beacon_site.providers.llm.tokens import SHARE, trimmed
from memory.agents.chat.conversation import citation_marks, records_as_named
from memory.agents.tools.types import ToolContext
from memory.models import Message, Session, Trust
from memory.models.actors import Actor
from memory.services.context.layers import Context, build_context
from memory.services.notes.saving import lowest_trust
from memory.services.observations.consolidation import source_of
from memory.services.review import trust

ASK = Actor("agent", "ask")
TOOLS = (
    "memory_list", "memory_read", "memory_write", "memory_patch", "memory_append", "recall",
    "retrieve", "list_memory", "remember", "remember_fil", "update_memory", "update_soul",
    "scratchpad_get", "scratchpad_set", "scratchpad_list", "scratchpad_search",
)  # fmt: skip
LONGEST_QUESTION = 2_000  # characters of a message that are used to choose rules and summaries


@dataclass(slots=True)
class ConversationContext:
    """A session as one answer sees it: earlier messages, the question, and what was read."""

    session: Session
    answer: Message
    question: Message
    before: list[Message]
    given: set[str] = field(default_factory=set)  # marks that can be cited

    @property
    def source(self) -> str:
        """Return the session's name as a source."""
        return source_of(self.session.pk)

    @property
    def own_words(self) -> list[str]:
        """Return the person's own words, including the question; nothing in an agent's session."""
        if self.session.agent_id is not None:
            return []
        said = [one for one in self.before if one.role == "user" and not one.is_index]
        return [one.content for one in [*said, self.question]]


def talk_of(answer: Message) -> ConversationContext:
    """Return the session up to an answer."""
    earlier = list(
        Message.objects.filter(session=answer.session, position__lt=answer.position).order_by(
            "position"
        )
    )
    talk = ConversationContext(answer.session, answer, earlier[-1], earlier[:-1])
    for message in [*earlier, answer]:
        talk.given |= citation_marks(message.cites)
        for call in message.tool_calls:
            talk.given |= citation_marks(call.get("records", []))
    return talk


def caller_of(talk: ConversationContext) -> ToolContext:
    """Return the caller of tools, with what earlier answers read and the resulting trust."""
    told = [*talk.before, talk.answer]  # an answer that continues already has calls
    calls = [call for message in told for call in message.tool_calls]
    trusts = [str(call["trust"]) for call in calls if call.get("trust")]
    caller = ToolContext(
        talk.session.owner,
        ASK,
        talk.source,
        scope=talk.source,
        trust=lowest_trust([words_trust(talk.session), *trusts]),
        messages=talk.own_words,
        asked_by=talk.session.agent.name if talk.session.agent else "",
    )
    for call in calls:
        caller.seen.update(call.get("seen") or {})
    return caller


def words_trust(session: Session) -> Trust:
    """Return the trust of the question: the person's own words, or an agent's.

    An agent's words are trusted no more than what it read before.
    """
    if session.agent is None:
        return Trust(session.trust)
    return Trust(trust.before(session.agent, lowest_trust([Trust.AGENT, session.trust])))


def context_of(talk: ConversationContext, caller: ToolContext) -> Context:
    """Return the six layers for the question; their records can be cited and are stored as used."""
    message = talk.question.content[:LONGEST_QUESTION]
    context = build_context(
        talk.session.owner, message=message, place=talk.source, scopes=caller.scopes
    )
    caller.trust = lowest_trust([caller.trust, *(one.trust for one in context.records)])
    talk.given |= citation_marks(records_as_named(context.records))
    return context


def messages_of(
    talk: ConversationContext, context: Context, *, window: int, hits: str = ""
) -> list[Said]:
    """Return the messages for the model, cut to its window but always with file list and question.

    `hits` are recall's results, for a model that can't call tools.
    """
    system = render_to_string(
        "prompts/ask_system.txt", {"context": context.system, "tools": not hits}
    )
    question = talk.question.content
    if hits:
        told = {"question": question, "hits": hits}
        question = render_to_string("prompts/_ask_recalled.txt", told)
    said = [Said("system", system.strip())]
    for message in talk.before:
        said += _as_said(message)
    said += [Said("user", question), *_called(talk.answer)]
    return trimmed(said, int(window * SHARE))


def _as_said(message: Message) -> list[Said]:
    if message.role == "user":
        return [Said("user", message.content)]
    said = _called(message)
    answered = message.state == Message.State.DONE and message.content
    return [*said, Said("assistant", message.content if answered else _("(no answer)"))]


def _called(message: Message) -> list[Said]:
    """Return an answer's tool calls with their results, round by round."""
    said: list[Said] = []
    rounds = groupby(message.tool_calls, key=lambda call: call.get("round", 1))
    for place, (_number, calls) in enumerate(rounds):
        said += _round(f"m{message.pk}r{place}", list(calls))
    return said


def _round(key: str, calls: Sequence[dict[str, Any]]) -> list[Said]:
    """Return one round of calls and results, in the form that the model produced and received."""
    wanted = tuple(
        ToolCall(f"{key}c{place}", call["tool"], dict(call["arguments"]))
        for place, call in enumerate(calls)
    )
    results = [
        Said("tool", call["result"], (), one.id) for one, call in zip(wanted, calls, strict=True)
    ]
    return [Said("assistant", "", wanted), *results]


def transcript_of(session: Session) -> list[Said]:
    """Return the whole session for reflection, without the list of files."""
    rows = session.messages.filter(is_index=False).order_by("position")
    return [said for message in rows for said in _as_said(message)]
