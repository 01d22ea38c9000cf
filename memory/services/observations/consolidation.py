"""Consolidating a conversation into observations, using the phrases of seed 001.

Data flow: the messages of a session -> `lines_in()` -> observations with `source=session:<id>`. The
same transcript again adds nothing. A failure becomes a warning in Activity, never an error for the
person or agent who ended the session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import clean, cut, width
from beacon_site.text.injection import injection_reason
from beacon_site.text.markdown import without_marks
from memory.models import Activity, Message, Session, Trust
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused
from memory.services.notes.saving import lowest_trust
from memory.services.observations.saving import Line, SavedLines, remember_lines

logger = structlog.get_logger(__name__)

MIN, MAX = (
    50,
    2_000,
)  # characters of a message: shorter ones are left out, longer ones truncated (R107)
MIN_SUMMARY = 100  # the last answer longer than this becomes the session's summary (R106)
SUMMARY_TAG = "session-summary"
_SPOKEN = ("user", "assistant")  # text from tools and system prompts isn't anyone's conclusion

# Seed 001, "Session Consolidation Heuristics". Only whole words match.
_LESSON = re.compile(r"\blearned\s+that\b", re.IGNORECASE)
_INSIGHT = re.compile(
    r"\b(?:decided|conclusion|important|remember|note\s+that|key\s+insight|will\s+use"
    r"|should\s+use|agreed)\b",
    re.IGNORECASE,
)


def source_of(session_id: object) -> str:
    """Return the source of observations from this session (R108)."""
    return f"session:{session_id}"


def turns_of(session: Session) -> list[tuple[str, str]]:
    """Return the roles and texts of a stored session's transcript, in order and without citation marks.

    The list of memory files and failed answers are left out.
    """
    rows = session.messages.filter(is_index=False, state=Message.State.DONE).order_by("position")
    return [(one.role, without_marks(one.content)) for one in rows]


def trust_in_answers(user: str, answers: str = Trust.AGENT) -> Trust:
    """Return the trust of the assistant's messages: at most the user's, an agent's and `answers`."""
    return Trust(lowest_trust([user, Trust.AGENT, answers]))


def lines_in(
    turns: Sequence[tuple[str, str]], *, user: Trust, assistant: Trust, is_finished: bool = True
) -> list[Line]:
    """Return the observations in a transcript, in order, at most one per message (R105 to R107).

    If the conversation continues (`is_finished` is False), its last answer isn't its summary yet.

    `user` and `assistant` are the trust of each role's text. Suspected prompt injection is
    quarantined, unless it is the owner's own text, so that it never reaches a prompt.
    """
    spoken = [(role, clean(text)[0].strip()) for role, text in turns if role in _SPOKEN]
    answers = [text for role, text in spoken if role == "assistant" and width(text) > MIN_SUMMARY]
    summary = cut(answers[-1], MAX) if answers and is_finished else ""
    found: dict[str, Line] = {}
    for role, whole in spoken:
        if width(whole) < MIN:
            continue
        text = cut(whole, MAX)
        is_summary = bool(summary) and role == "assistant" and text == summary
        category = "insight" if is_summary else _category(whole)
        if not category:
            continue
        trust = user if role == "user" else assistant
        is_own = role == "user" and trust == Trust.OWNER
        if not is_own and injection_reason(text):
            trust = Trust.QUARANTINED
        line = Line(category, text, (SUMMARY_TAG,) if is_summary else (), trust=trust)
        # If the same text occurs more than once, the summary is kept, otherwise the first one.
        if is_summary or line.digest not in found:
            found[line.digest] = line
    return list(found.values())


def _category(text: str) -> str:
    """Return a message's category by its phrases (R109), or "" if it has none."""
    if _LESSON.search(text):
        return "lesson"
    return "insight" if _INSIGHT.search(text) else ""


def keep_lines(owner: Any, session_id: object, lines: Sequence[Line], *, by: Actor) -> SavedLines:
    """Store the lines that `lines_in` found in a session's transcript.

    Never raises for rejected text or database errors: `problem` describes the error, and Activity
    has it as a warning (R110).
    """
    if not lines:
        return SavedLines()
    try:
        with transaction.atomic():
            return remember_lines(owner, lines, by=by, source=source_of(session_id))
    except (MemoryRefused, DatabaseError) as exc:
        return SavedLines(problem=_failed(owner, session_id, exc, by))


def _failed(owner: Any, session_id: object, exc: Exception, by: Actor) -> str:
    problem = _("The session couldn’t be consolidated: %(why)s") % {"why": exc}
    logger.warning("session not consolidated", session=str(session_id), error=str(exc))
    Activity.log(
        owner,
        by,
        "consolidation-failed",
        label=source_of(session_id)[:200],
        warning=True,
        why=str(exc)[:300],
    )
    return problem
