"""`/sessions`: conversations with the agent, and what is saved from them.

A session that an agent started belongs to the agent: its messages aren't the person's words.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Self
from uuid import UUID

from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Path, Query, Status
from pydantic import BaseModel, Field

from beacon_site.text.cleaning import uuid_of
from memory.agents.chat import conversation
from memory.agents.chat import end as conversation_end
from memory.agents.tools.notes import save_transcript_lines
from memory.api import auth
from memory.api.auth import READ, WRITE, ApiRequest, Caller
from memory.api.frame import Body, PendingOut, located, router
from memory.api.observations import IdsOut
from memory.api.problems import Problem, not_found
from memory.api.review import waiting
from memory.api.shown import RowOut, shows, topic_of
from memory.api.versions import tagged
from memory.models import Message, Proposal, Session, Trust
from memory.models.as_of import AS_OF_WORDS, as_it_was
from memory.services.context.layers import EXTERNAL_WORDS, build_context, context_data
from memory.services.notes.saving import lowest_trust
from memory.services.observations.consolidation import (
    lines_in,
    source_of,
    trust_in_answers,
    turns_of,
)
from memory.services.observations.saving import checked_size

api = router("sessions")
_ONE = "/{uuid:session_id}"
MAX_MESSAGES = 1_000  # in a transcript
MAX_SHOWN = 200  # messages in one answer
MAX_ID_LENGTH = 100


class SessionIn(Body):
    """A new session."""

    title: str = Field(
        "", max_length=200, description="One line. Default: the first words of the first message."
    )


class MessageIn(Body):
    """A message to the agent."""

    content: str = Field(min_length=1, max_length=conversation.MAX_MESSAGE)


class TurnIn(Body):
    """One message of a transcript."""

    role: str = Field(max_length=40, description="user or assistant. Other roles are skipped.")
    content: str


class TranscriptIn(Body):
    """A transcript. If it has no messages, the stored session's messages are used."""

    messages: list[TurnIn] = Field([], max_length=MAX_MESSAGES)
    finished: bool = Field(
        True,
        description="False while the conversation continues, so that its last answer isn’t saved as its summary.",
    )
    has_external_text: bool = Field(
        False,
        description="True if the agent read web pages or other servers’ text, so that its answers count as external.",
    )


class MessageOut(RowOut):
    """One message. An answer is `waiting` or `answering` until it is ready."""

    id: int
    position: int
    role: str
    content: str
    state: str
    by: str
    notice: str
    tool_calls: list[Any]
    cites: list[Any]
    created: datetime

    @classmethod
    def of(cls, message: Message) -> Self:
        """Return the schema.

        The endpoint that shows a session reports which records its answers used.
        """
        shows(trust=conversation_end.read_in([message]))
        return cls.from_row(message)


class SessionOut(RowOut):
    """A session."""

    id: UUID
    title: str
    source: str
    ended_at: datetime | None
    version: int
    created: datetime
    updated: datetime

    @classmethod
    def of(cls, session: Session, **more: Any) -> Self:
        shows(session)
        return cls.from_row(session, **more)


class WholeSessionOut(SessionOut):
    """A session with its last messages, in order. `has_earlier`: there are older messages."""

    messages: list[MessageOut]
    has_earlier: bool


class SentMessageOut(BaseModel):
    """The message, and the pending answer. Read the session to get it."""

    message: MessageOut
    answer: MessageOut


@api.post("", auth=WRITE, response={201: SessionOut})
def begin_session(request: ApiRequest, response: HttpResponse, session: SessionIn) -> Any:
    """Start a session."""
    caller = request.auth
    agent = None if caller.by.is_person else caller.agent
    made = conversation.start(caller.owner, session.title, agent=agent, trust=caller.write_trust)
    located(response, f"/sessions/{made.pk}")
    tagged(response, made)
    return Status(201, SessionOut.of(made))


@api.get(_ONE, auth=READ, response=WholeSessionOut)
def read_session(
    request: ApiRequest,
    response: HttpResponse,
    session_id: UUID,
    before: Annotated[int | None, Query(ge=0, le=2_000_000_000)] = None,
) -> WholeSessionOut:
    """Read a session with its last 200 messages, or with the 200 before position `before`."""
    session = _session(request.auth, session_id)
    shows(trust=conversation_end.trust_of(session))
    rows = session.messages.filter(is_index=False).order_by("-position")
    if before is not None:
        rows = rows.filter(position__lt=before)
    found = list(rows[: MAX_SHOWN + 1])
    shown = [MessageOut.of(one) for one in reversed(found[:MAX_SHOWN])]
    tagged(response, session)
    return WholeSessionOut.of(session, messages=shown, has_earlier=len(found) > MAX_SHOWN)


@api.post(_ONE + "/messages", auth=WRITE, response={201: SentMessageOut})
def say(request: ApiRequest, session_id: UUID, message: MessageIn) -> Any:
    """Send a message. A background worker writes the answer. “Remember …” also writes a note."""
    caller = request.auth
    session = _session(caller, session_id)
    answer = conversation.ask(session, message.content, by=caller.by, trust=caller.write_trust)
    said = session.messages.get(position=answer.position - 1)
    shows(session)
    return Status(201, SentMessageOut(message=MessageOut.of(said), answer=MessageOut.of(answer)))


@api.post(_ONE + "/end", auth=WRITE, response=SessionOut)
def end_session(request: ApiRequest, response: HttpResponse, session_id: UUID) -> SessionOut:
    """End a session. A background worker saves what matters. Ending it again changes nothing."""
    session = _session(request.auth, session_id)
    conversation_end.end(session, by=request.auth.by)
    session.refresh_from_db()
    tagged(response, session)
    return SessionOut.of(session)


@api.post("/{session_id}/consolidate", auth=WRITE, response={200: IdsOut, 202: PendingOut})
def consolidate_session(
    request: ApiRequest,
    session_id: Annotated[str, Path(..., min_length=1, max_length=MAX_ID_LENGTH)],
    transcript: TranscriptIn,
) -> Any:
    """Keep what matters from a conversation: decisions, conclusions, and requests to remember.

    `session_id` is the ID of a session, or any name you choose for a conversation outside
    Beacon. Exact duplicates are ignored.
    """
    caller = request.auth
    session = _stored(caller, session_id)
    turns = [(message.role, message.content) for message in transcript.messages]
    answers: str = Trust.EXTERNAL if transcript.has_external_text else Trust.AGENT
    if not turns and session is not None:
        turns = turns_of(session)
        answers = lowest_trust([answers, conversation_end.trust_of(session)])
        if not caller.by.is_person:
            caller.context().shown(trust=answers)
    trust = caller.write_trust
    key = str(session.pk) if session is not None else session_id
    if session is None:
        auth.claimed(caller, source_of(key))
    by_agent = trust_in_answers(trust, answers)
    lines = lines_in(turns, user=trust, assistant=by_agent, is_finished=transcript.finished)
    if transcript.messages:
        checked_size(lines)
    if not lines:
        return Status(200, IdsOut(ids=[], new=[]))
    saved = save_transcript_lines(caller.context(), key, lines)
    if isinstance(saved, Proposal):
        return waiting(saved)
    if saved.problem:
        raise Problem(409, saved.problem)
    return Status(200, IdsOut.of(saved))


def _session(caller: Caller, key: UUID) -> Session:
    """Return the caller's session: an agent's own, or any of the person's.  Raises Problem."""
    rows = Session.objects.for_user(caller.owner).filter(pk=key)
    if not caller.by.is_person:
        rows = rows.filter(agent=caller.agent)
    session: Session | None = rows.first()
    if session is None:
        raise not_found()
    if session.trashed_at is not None:
        raise not_found(_("This session is in Trash. A person can restore it."))
    session.owner = caller.owner
    return session


def _stored(caller: Caller, key: str) -> Session | None:
    """Return the stored session with this ID; None for the name of a conversation held elsewhere."""
    wanted = uuid_of(key)
    if wanted is not None and Session.objects.filter(pk=wanted).exists():
        return _session(caller, wanted)
    return None


# --- context ---


context_api = router("context")


class ContextIn(Body):
    """What the context is for. Without a message, the newest rules and summaries are used."""

    message: str = Field("", max_length=10_000)
    topic: str | None = Field(
        None, max_length=500, description="A slug. Notes on other topics are left out."
    )
    as_of: str = Field("", max_length=40, description=AS_OF_WORDS)
    external: bool = Field(True, description=EXTERNAL_WORDS)


class LayerOut(BaseModel):
    """One of the six layers, with its size and the number of records left out."""

    name: str
    title: str
    lines: int
    left_out: int
    bytes: int
    tokens: int
    text: str


class ContextOut(BaseModel):
    """The layers in order, the list of memory files, and both joined, as sent to a model."""

    layers: list[LayerOut]
    system: str
    index: str
    text: str
    bytes: int
    tokens: int
    token_count_method: str = Field(description="How the tokens were counted.")


@context_api.post("", auth=READ, response=ContextOut)
def read_context(request: ApiRequest, body: ContextIn) -> ContextOut:
    """Read the context for a message. It never includes sensitive, quarantined or expired records."""
    caller = request.auth
    with as_it_was(caller, body.as_of):
        built = build_context(
            caller.owner,
            message=body.message,
            topic=topic_of(caller, body.topic),
            place=caller.place,
            scopes=caller.context().scopes,
            with_external=body.external,
        )
        shows(*built.records, *built.files)
        return ContextOut(**context_data(built))
