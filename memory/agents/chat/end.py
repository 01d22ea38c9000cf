"""Ends a session and writes what remains of it: observations, a summary note, a log, a reflection.

The session ends immediately, and a Reflection row is queued. A worker then consolidates the
transcript, writes the seven-day summary note and the log of requests, and reflects on the session
if it was worth it. Repeating a part adds nothing. What remains of an agent's session goes through
review like any write of that agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.formats import date_format
from pydantic import BaseModel, Field

from beacon_site.db.leased_jobs import JobLost
from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import Message as Said
from beacon_site.text.cleaning import clean, for_prompt, plain, shorten
from beacon_site.text.dates import zone_of
from beacon_site.text.injection import injection_reason
from beacon_site.text.markdown import without_marks
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from memory.agents import reflection as reflection_services
from memory.agents.chat.conversation import LOG_DAYS, is_to_keep
from memory.agents.chat.turn import ASK, transcript_of, words_trust
from memory.agents.reflection import EntryContent, findings_in, why_not_talk
from memory.models import Activity, Message, Note, Proposal, Reflection, Session, Trust
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused
from memory.services.llm.asking import BudgetReached, MonthMeter, ask_model
from memory.services.notes.saving import lowest_trust, write_note
from memory.services.observations.consolidation import (
    keep_lines,
    lines_in,
    source_of,
    trust_in_answers,
    turns_of,
)
from memory.services.review import proposals as review_services
from memory.services.review.proposals import SourceBlocked, check_not_blocked
from memory.services.review.risks import Write

logger = structlog.get_logger(__name__)

SUMMARY_DAYS = 7  # R246
TAG = "session"
MAX_STEPS, MAX_STEP_LENGTH, MAX_RESULT_LENGTH = 4, 300, 1_200
MAX_TALK_LENGTH = 12_000  # characters of a transcript that a model summarizes
MAX_REQUESTS, MAX_REQUEST_LENGTH = 40, 300  # of a session's requests in its log


class SessionSummary(BaseModel):
    """What a model makes of a conversation."""

    result: str = Field(min_length=1)
    next_steps: list[str] = Field(default_factory=list)


def end(session: Session, *, by: Actor) -> bool:
    """End a session; a worker finishes it later. False if it had already ended."""
    with transaction.atomic():
        held: Session = Session.objects.select_for_update().get(pk=session.pk)
        if held.ended_at is not None or held.trashed_at is not None:
            return False
        held.messages.unfinished().update(
            state=Message.State.FAILED, lease_until=None, notice=_("The conversation has ended.")
        )
        held.change(by=by, ended_at=timezone.now(), why=_("ended"))
        row, _made = Reflection.objects.get_or_create(
            owner_id=held.owner_id, source=source_of(held.pk)
        )
        row.wake_after_commit()
    Activity.log(session.owner, by, "session-ended", subject=held)
    return True


def finish(reflection_id: int) -> bool:
    """Finish an ended session; False if it is finished already or another worker has it."""
    row: Reflection | None = Reflection.objects.claim(reflection_id)
    if row is None:
        return False
    rows = Session.objects.select_related("owner", "agent")
    session = rows.filter(pk=row.source.partition(":")[2]).first()
    if session is None or session.trashed_at is not None:
        _skip(row, _("the conversation is in Trash, so nothing was saved"))
    elif blocked := _why_blocked(session):
        _skip(row, blocked)
    else:
        _finish(session, row)
    return True


def _finish(session: Session, row: Reflection) -> None:
    try:
        with timezone.override(zone_of(session.owner.time_zone)), row.heartbeat() as heartbeat:
            for part in (_consolidate, _log_requests, _summarise):
                part(session)
                if heartbeat.is_lost:
                    raise JobLost(str(row.pk))
            _reflect_if_worthwhile(session, row)
    except JobLost:
        logger.warning("session taken over by another worker", session=str(session.pk))
    except SoftTimeLimitExceeded:
        row.fail(_("it exceeded the time limit"))
    except MemoryRefused as exc:
        row.fail(str(exc))
    except Exception:  # whatever fails, the row must end; the worker logs the traceback
        row.fail(_("something went wrong (the error is in the worker’s log)"))
        raise


def _skip(row: Reflection, why: str) -> None:
    try:
        reflection_services.skip(row.owner, source=row.source, why=why, claimed=row)
    except JobLost:
        logger.warning("session taken over by another worker", source=row.source)


def _why_blocked(session: Session) -> str:
    """Return why an agent's session leaves nothing: its owner has blocked the agent."""
    try:
        if session.agent is not None:
            check_not_blocked(session.owner, session.agent.actor)
    except SourceBlocked as exc:
        return str(exc)
    return ""


def _is_held(
    session: Session, kind: str, after: dict[str, Any], *, texts: Sequence[str], trust: str
) -> bool:
    """Hold what remains of an agent's session, if the agent's own write would be held.

    A person's session is never held. Raises LimitReached if too many proposals are pending.
    """
    if session.agent is None:
        return False
    by, owner = session.agent.actor, session.owner
    why = review_services.hold_reason(Write(owner, kind, by, trust, leaves_topic=True, texts=texts))
    if why:
        review_services.hold(
            owner,
            kind,
            by=by,
            source=source_of(session.pk),
            before={},
            after=after,
            why=_("saved when the conversation ended"),
            held=why,
        )
    return bool(why)


def _consolidate(session: Session) -> None:
    """Save decisions and conclusions as observations.

    If one of an agent's observations is held, all of them are.
    """
    user, answers = words_trust(session), trust_of(session)
    bound = trust_in_answers(user, answers)
    lines = lines_in(turns_of(session), user=user, assistant=bound)
    if not lines:
        return
    rows = [
        {"category": line.category, "content": line.content, "tags": list(line.tags)}
        for line in lines
    ]
    after = {"lines": rows, "source": source_of(session.pk)}
    texts = [line.content for line in lines]
    trust = lowest_trust([answers, *(line.trust or bound for line in lines)])
    if not _is_held(session, "observation", after, texts=texts, trust=trust):
        keep_lines(session.owner, session.pk, lines, by=ASK)


def said_in(session: Session) -> list[Message]:
    """Return the messages, without the list of files and without empty answers."""
    rows = session.messages.filter(is_index=False, state=Message.State.DONE)
    return list(rows.order_by("position"))


def trust_of(session: Session) -> str:
    """Return the lowest trust of everything that the session's answers read or received."""
    return lowest_trust([words_trust(session), read_in(said_in(session))])


def read_in(messages: Iterable[Message]) -> str:
    """Return the lowest trust of what these answers read and cite."""
    told = [one for message in messages for one in (*message.tool_calls, *message.cites)]
    return lowest_trust([Trust.OWNER, *(str(one["trust"]) for one in told if one.get("trust"))])


# --- the log of requests (R247) -------------------------------------------------------------------


def _log_requests(session: Session) -> None:
    """Save the person's requests as one log for 30 days.

    Requests to remember something are already stored.
    """
    user_messages = [one.content for one in said_in(session) if one.role == "user"]
    requests = [shorten(text, MAX_REQUEST_LENGTH) for text in user_messages if not is_to_keep(text)]
    if not requests or _written(session, Note.Kind.LOG):
        return
    params = {"title": session.title, "day": _day(session)}
    head = _("Asked in the conversation “%(title)s”, %(day)s:") % params
    lines = "\n".join(f"- {text}" for text in requests[:MAX_REQUESTS])
    trust = words_trust(session)
    if trust != Trust.OWNER and injection_reason(lines):
        trust = Trust.QUARANTINED
    _write(session, Note.Kind.LOG, f"{head}\n\n{lines}", LOG_DAYS, trust)


def _written(session: Session, kind: str) -> bool:
    """Return True if the note was already written or proposed, even if it is in Trash by now."""
    source = source_of(session.pk)
    mine = Note.objects.for_user(session.owner).filter(job=source, kind=kind)
    proposed = Proposal.objects.for_user(session.owner).filter(
        source=source, after__contains={"job": source, "kind": kind, "tags": [TAG]}
    )
    return bool(mine.tagged(TAG).exists() or proposed.exists())


def _write(session: Session, kind: str, content: str, days: int, trust: str) -> None:
    source, content = source_of(session.pk), clean(content)[0]
    fields: dict[str, Any] = {
        "stability": Note.Stability.VOLATILE.value, "ttl_days": days, "tags": [TAG], "job": source,
    }  # fmt: skip
    after = {"kind": str(kind), "content": content, **fields}
    if not _is_held(session, "note", after, texts=[content], trust=trust):
        write_note(session.owner, kind, content, by=ASK, source=source, trust=trust, **fields)


def _day(session: Session) -> str:
    return date_format(timezone.localtime(session.created), "j F Y")


# --- the summary note (R246) ----------------------------------------------------------------------


def _summarise(session: Session) -> None:
    """Write the session's result as a note for seven days: by the model, or else by rules.

    Without an answer there is no result. What was asked is in the log of requests.
    """
    messages = said_in(session)
    answers = [one.content for one in messages if one.role == "assistant" and one.content]
    if not answers or _written(session, Note.Kind.SUMMARY):
        return
    session_summary = _by_model(session, messages)
    last = plain(without_marks(answers[-1]))
    result = plain(session_summary.result) if session_summary else last
    steps = (
        [shorten(plain(step), MAX_STEP_LENGTH) for step in session_summary.next_steps]
        if session_summary
        else []
    )
    params = {"title": session.title, "day": _day(session)}
    goal = next((one.content for one in messages if one.role == "user"), session.title)
    parts = {
        _("Goal"): f" {shorten(goal, MAX_REQUEST_LENGTH)}",
        _("Actions"): f" {_actions(messages)}",
        _("Result"): f" {shorten(result, MAX_RESULT_LENGTH)}",
        _("Next steps"): "".join(f"\n- {step}" for step in [s for s in steps if s][:MAX_STEPS]),
    }
    title = _("Conversation “%(title)s”, %(day)s") % params
    content = "\n\n".join([title, *(f"**{k}:**{v}" for k, v in parts.items() if v)])
    trust = lowest_trust([Trust.AGENT, trust_of(session)])
    if injection_reason(content):
        trust = Trust.QUARANTINED
    _write(session, Note.Kind.SUMMARY, content, SUMMARY_DAYS, trust)


def _actions(messages: list[Message]) -> str:
    n = sum(one.role == "user" for one in messages)
    tools = [call["tool"] for one in messages for call in one.tool_calls if not call["is_error"]]
    words = ngettext("%(n)d message from the user", "%(n)d messages from the user", n) % {"n": n}
    if not tools:
        return words
    return _("%(messages)s. Tools used: %(tools)s") % {
        "messages": words,
        "tools": ", ".join(dict.fromkeys(tools)),
    }


def _by_model(session: Session, messages: list[Message]) -> SessionSummary | None:
    """Return the model's summary; None without a model or if it fails (Usage and limits shows why)."""
    roles = {"user": _("Person"), "assistant": _("Agent")}
    talk = "\n\n".join(f"{roles[one.role]}: {one.content}" for one in messages if one.content)
    system = render_to_string("prompts/session_summary_system.txt", {"most": MAX_STEPS})
    user = render_to_string(
        "prompts/session_summary_user.txt", {"talk": for_prompt(talk)[-MAX_TALK_LENGTH:]}
    )
    try:
        answer = ask_model(
            "summarise",
            [Said("system", system), Said("user", user)],
            owner=session.owner,
            source=source_of(session.pk),
            schema=SessionSummary,
            max_tokens=700,
            meter=MonthMeter(session.owner),
        )
    except (ProviderError, BudgetReached) as exc:
        logger.warning(
            "session summarized without a model", session=str(session.pk), error=str(exc)
        )
        return None
    parsed = answer.parsed if answer else None
    return parsed if isinstance(parsed, SessionSummary) else None


# --- reflection -----------------------------------------------------------------------------------


def _reflect_if_worthwhile(session: Session, row: Reflection) -> None:
    """Reflect on the session if it was worth it: six messages, two of them the person's."""
    messages = said_in(session)
    own = [one.content for one in messages if one.role == "user"]
    source = source_of(session.pk)
    if why := why_not_talk(len(messages), len(own)):
        reflection_services.skip(session.owner, source=source, why=why, claimed=row)
        return
    answers = [one.content for one in messages if one.role == "assistant"]
    result = without_marks(answers[-1]) if answers else ""
    task = own[0]
    reflection_services.reflect(
        session.owner,
        source=source,
        task=task,
        result=result,
        history=transcript_of(session),
        trust=trust_of(session),
        meter=MonthMeter(session.owner),
        messages=own if session.agent_id is None else (),
        told=EntryContent(
            title=session.title,
            summary="",  # the title is its heading
            task=shorten(task, MAX_REQUEST_LENGTH),
            findings=findings_in(result),
        ),
        claimed=row,
    )
