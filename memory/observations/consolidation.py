"""What a conversation leaves behind: observations, found by the phrases of seed 001.

Data flow: the turns of a session -> `lines_in()` -> observations with `source=session:<id>`.
The same transcript again adds nothing.  A failure is a warning in Activity, never an error of
whoever ended the session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.db import DatabaseError, transaction
from django.utils.translation import gettext as _

from beacon_site.text.cite_marks import without_marks
from beacon_site.text.cleaning import clean, cut, width
from beacon_site.text.injection import smells_of_instructions
from memory.core.actors import Actor
from memory.core.errors import MemoryRefused
from memory.models import Activity, Message, Observation, Session, Trust
from memory.notes.services import lowest_trust
from memory.observations.lines import Line
from memory.observations.services import remember_lines

logger = structlog.get_logger(__name__)

LEAST, MOST = 50, 2_000  # of a message: shorter ones are left out, longer ones cut (R107)
LEAST_SUMMARY = 100  # the last answer longer than this is the session's summary (R106)
SUMMARY_TAG = "session-summary"
_SPOKEN = ("user", "assistant")  # what tools and system prompts say is nobody's conclusion

# Seed 001, "Session Consolidation Heuristics"; whole words only.
_LESSON = re.compile(r"\blearned\s+that\b", re.IGNORECASE)
_INSIGHT = re.compile(
    r"\b(?:decided|conclusion|important|remember|note\s+that|key\s+insight|will\s+use"
    r"|should\s+use|agreed)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a transcript: `role` is user or assistant; others are passed over."""

    role: str
    content: str


@dataclass(slots=True)
class Consolidated:
    """What consolidating left: the observations, which of them are new, and what went wrong."""

    observations: list[Observation] = field(default_factory=list)
    new: list[Observation] = field(default_factory=list)
    problem: str = ""


def source_of(session_id: object) -> str:
    """Return the source of what comes from this session (R108)."""
    return f"session:{session_id}"


def turns_of(session: Session) -> list[Turn]:
    """Return a stored session's transcript, in order: what was said, without citation marks.

    The list of memory files is nobody's word, and an answer that failed is none.
    """
    said = session.messages.filter(is_index=False, state=Message.State.DONE).order_by("position")
    return [Turn(one.role, without_marks(one.content)) for one in said]


def trust_in_answers(user: str, answers: str = Trust.AGENT) -> Trust:
    """Return the trust of the assistant's messages: never above the user's, an agent's or `answers`."""
    return Trust(lowest_trust([user, Trust.AGENT, answers]))


def lines_in(turns: Sequence[Turn], *, user: Trust, assistant: Trust) -> list[Line]:
    """Return what a transcript leaves, in its order; each message at most once (R105 to R107).

    `user` and `assistant` say how far the words of each are believed.  What smells of instructions
    and is not the owner's own word is kept in quarantine: no prompt ever gets it.
    """
    spoken = [(turn.role, clean(turn.content)[0].strip()) for turn in turns if turn.role in _SPOKEN]
    answers = [text for role, text in spoken if role == "assistant" and width(text) > LEAST_SUMMARY]
    summary = cut(answers[-1], MOST) if answers else ""
    found: dict[str, Line] = {}
    for role, whole in spoken:
        if width(whole) < LEAST:
            continue
        text = cut(whole, MOST)
        is_summary = bool(summary) and role == "assistant" and text == summary
        category = "insight" if is_summary else _category(whole)
        if not category:
            continue
        trust = user if role == "user" else assistant
        is_own = role == "user" and trust == Trust.OWNER
        if not is_own and smells_of_instructions(text):
            trust = Trust.QUARANTINED
        line = Line(category, text, (SUMMARY_TAG,) if is_summary else (), trust=trust)
        # Of the same words said twice the summary's stand, else the first ones.
        if is_summary or line.digest not in found:
            found[line.digest] = line
    return list(found.values())


def _category(text: str) -> str:
    """Return what a message is by its phrases (R109), "" if it holds none."""
    if _LESSON.search(text):
        return "lesson"
    return "insight" if _INSIGHT.search(text) else ""


def consolidate(
    owner: Any,
    session_id: object,
    turns: Sequence[Turn],
    *,
    by: Actor,
    trust: Trust | None = None,
    answers: str = Trust.AGENT,
) -> Consolidated:
    """Keep what a session's transcript leaves; an empty one leaves nothing (R104).

    `trust` says how far to believe the person's side, and bounds the other's; by default it is the
    owner's own word where a person asks, an agent's else.  `answers` bounds the other side further.
    Fails as `keep_lines` does.
    """
    user = trust or (Trust.OWNER if by.is_person else Trust.AGENT)
    lines = lines_in(turns, user=user, assistant=trust_in_answers(user, answers))
    return keep_lines(owner, session_id, lines, by=by)


def keep_lines(owner: Any, session_id: object, lines: Sequence[Line], *, by: Actor) -> Consolidated:
    """Store the lines that `lines_in` found in a session's transcript.

    Never raises for what memory refuses or the database cannot do: `problem` says it in words,
    and Activity has it as a warning (R110).
    """
    if not lines:
        return Consolidated()
    try:
        with transaction.atomic():
            stored = remember_lines(owner, lines, by=by, source=source_of(session_id))
    except (MemoryRefused, DatabaseError) as exc:
        return Consolidated(problem=_failed(owner, session_id, exc, by))
    return Consolidated(stored.observations, stored.new)


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
