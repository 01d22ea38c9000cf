"""What the model is sent in a session: the six layers, the list of files, what was said and called.

The system prompt is built anew for each answer, so that an edit is used at once; the list of files
is the one that the session began with (R159).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from beacon_site.llm.base import Message as Said
from beacon_site.llm.base import ToolCall
from beacon_site.llm.tokens import SHARE, trimmed
from memory.chat.conversation import given_of, records_as_named
from memory.context.layers import Context, build_context
from memory.core.actors import Actor
from memory.models import Message, Session, Trust
from memory.notes.services import lowest_trust
from memory.observations.consolidation import source_of
from memory.review import trust
from memory.tools.types import ToolContext

ASK = Actor("agent", "ask")
TOOLS = (
    "memory_list", "memory_read", "memory_write", "memory_patch", "memory_append", "recall",
    "retrieve", "list_memory", "remember", "remember_fil", "update_memory", "update_soul",
    "scratchpad_get", "scratchpad_set", "scratchpad_list", "scratchpad_search",
)  # fmt: skip
LONGEST_QUESTION = 2_000  # characters of a message by which rules and summaries are chosen


@dataclass(slots=True)
class Talk:
    """A session as one answer sees it: what was said before, the question, and what was read."""

    session: Session
    answer: Message
    question: Message
    before: list[Message]
    given: set[str] = field(default_factory=set)  # marks that may be cited

    @property
    def source(self) -> str:
        """Return what names the session as a source."""
        return source_of(self.session.pk)

    @property
    def own_words(self) -> list[str]:
        """Return what the person said, the question included; in a program's session nothing."""
        if self.session.agent_id is not None:
            return []
        said = [one for one in self.before if one.role == "user" and not one.is_index]
        return [one.content for one in [*said, self.question]]


def talk_of(answer: Message) -> Talk:
    """Return the session up to an answer."""
    earlier = list(
        Message.objects.filter(session=answer.session, position__lt=answer.position).order_by(
            "position"
        )
    )
    talk = Talk(answer.session, answer, earlier[-1], earlier[:-1])
    for message in [*earlier, answer]:
        talk.given |= given_of(message.cites)
        for call in message.tool_calls:
            talk.given |= given_of(call.get("records", []))
    return talk


def caller_of(talk: Talk) -> ToolContext:
    """Return on whose behalf tools are called: with what earlier answers read, and how far to trust it."""
    told = [*talk.before, talk.answer]  # an answer that is gone on with has calls already
    calls = [call for message in told for call in message.tool_calls]
    trusts = [str(call["trust"]) for call in calls if call.get("trust")]
    caller = ToolContext(
        talk.session.owner,
        ASK,
        talk.source,
        scope=talk.source,
        trust=lowest_trust([words_trust(talk.session), *trusts]),
        messages=talk.own_words,
    )
    for call in calls:
        caller.seen.update(call.get("seen") or {})
    return caller


def words_trust(session: Session) -> Trust:
    """Return how far to believe what was asked: the person's own words, or an agent's.

    An agent's words count for no more than what it read before.
    """
    if session.agent is None:
        return Trust(session.trust)
    return Trust(trust.before(session.agent, lowest_trust([Trust.AGENT, session.trust])))


def context_of(talk: Talk, caller: ToolContext) -> Context:
    """Return the six layers for the question; what they hold may be cited, and is noted as used."""
    message = talk.question.content[:LONGEST_QUESTION]
    context = build_context(
        talk.session.owner, message=message, place=talk.source, scopes=caller.scopes
    )
    caller.trust = lowest_trust([caller.trust, *(one.trust for one in context.records)])
    talk.given |= given_of(records_as_named(context.records))
    return context


def messages_of(talk: Talk, context: Context, *, window: int, hits: str = "") -> list[Said]:
    """Return what the model is sent, as far as it fits: the list of files and the question always.

    `hits` are what recall found, for a model that can call no tools.
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
    return trimmed(said, int(window * SHARE)).messages


def _as_said(message: Message) -> list[Said]:
    if message.role == "user":
        return [Said("user", message.content)]
    said = _called(message)
    answered = message.state == Message.State.DONE and message.content
    return [*said, Said("assistant", message.content if answered else _("(no answer)"))]


def _called(message: Message) -> list[Said]:
    """Return the calls of an answer with their results, round by round."""
    said: list[Said] = []
    rounds = groupby(message.tool_calls, key=lambda call: call.get("round", 1))
    for place, (_number, calls) in enumerate(rounds):
        said += _round(f"m{message.pk}r{place}", list(calls))
    return said


def _round(key: str, calls: Sequence[dict[str, Any]]) -> list[Said]:
    """Return one round of calls with their results, as the model made and got them."""
    wanted = tuple(
        ToolCall(f"{key}c{place}", call["tool"], dict(call["arguments"]))
        for place, call in enumerate(calls)
    )
    results = [
        Said("tool", call["result"], (), one.id) for one, call in zip(wanted, calls, strict=True)
    ]
    return [Said("assistant", "", wanted), *results]


def transcript_of(session: Session) -> list[Said]:
    """Return the whole session as it is looked back on, without the list of files."""
    rows = session.messages.filter(is_index=False).order_by("position")
    return [said for message in rows for said in _as_said(message)]
