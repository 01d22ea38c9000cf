"""The tools that save memories: notes, observations, transcripts, and the soul.

Each write passes the review (`memory.agents.tools.types`). Text derived from outside keeps that trust.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import date
from typing import Any, Literal

from django.utils import timezone
from pydantic import AliasChoices, Field, model_validator

from beacon_site.text.cleaning import clean, one_line, shorten, uuid_of
from beacon_site.text.dates import until_of, zone_of
from beacon_site.text.messages import gettext as _
from memory.agents.tools.recall import unreadable_reason
from memory.agents.tools.types import (
    Arguments,
    MemoryTool,
    ToolContext,
    ToolResult,
    named_source,
    pending_result,
    record_entry,
    refused,
    reviewed,
)
from memory.models import AgentScope, Note, Observation, Proposal, Session, Topic
from memory.models.errors import InvalidValue
from memory.models.notes import MAX_EVIDENCE, MAX_TAGS
from memory.services.context import identity
from memory.services.notes.saving import days_until, supersede, usual_stability, write_note
from memory.services.observations.consolidation import (
    keep_lines,
    lines_in,
    source_of,
    trust_in_answers,
)
from memory.services.observations.saving import (
    MAX_LINES,
    Line,
    SavedLines,
    batch,
    checked,
    checked_size,
    checked_source,
    remember_lines,
)
from memory.services.review.proposals import check_unreviewed, kind_of_note
from memory.services.search import ratings

MAX_MESSAGES = 1_000  # in a transcript
RatingValue = Literal["useful", "not-useful", "none"]
RATING_REVIEWED_AS = "rating"  # the rule for everything else applies


class RememberArguments(Arguments):
    """The note to write."""

    content: str = Field(description="The text to remember. One or two sentences.")
    kind: Literal["log", "summary", "rule"] = Field(
        "log",
        description="log: an event; summary: the result of work; rule: an instruction to follow.",
    )
    tags: list[str] = Field(
        [], max_length=MAX_TAGS, description="Tags that help you find it later."
    )
    stability: Literal["volatile", "stable", "permanent"] | None = Field(
        None,
        description="Default: stable, or volatile with until. volatile requires ttl_days or until. permanent has neither.",
    )
    ttl_days: int | None = Field(None, description="Days until it expires. Default: never.")
    until: str = Field(
        "",
        max_length=40,
        description="Use instead of ttl_days: the last day on which it’s valid, such as 2026-12-04 or Friday.",
    )
    confidence: float = Field(1.0, description="From 0 to 1. A rule needs 0.8 or more.")
    evidence: list[str] = Field(
        [],
        max_length=MAX_EVIDENCE,
        description="What the note is based on. Required for rules written by agents.",
    )


class FilArguments(Arguments):
    """Findings, insights and lessons."""

    findings: list[str] = Field([], max_length=MAX_LINES, description="Facts you found.")
    insights: list[str] = Field([], max_length=MAX_LINES, description="Conclusions and decisions.")
    lessons: list[str] = Field(
        [], max_length=MAX_LINES, description="What to do or avoid in the future."
    )
    source: str | None = Field(
        None,
        description="Where they came from, such as GOAL:check-database. Default: the caller's name.",
    )


class TurnArguments(Arguments):
    """One message of a transcript."""

    role: str = Field(description="user or assistant. Other roles are skipped.")
    content: str = Field(description="The text of the message.")


class ConsolidateArguments(Arguments):
    """A transcript."""

    messages: list[TurnArguments] = Field(
        max_length=MAX_MESSAGES, description="The conversation, in order."
    )
    session_id: str | None = Field(
        None,
        max_length=100,
        description="Name of the conversation. Default: a name based on the transcript.",
    )


class UpdateArguments(Arguments):
    """A note and its new text."""

    id: str = Field(description="The ID of the note or result, from recall or list_memory.")
    content: str = Field("", description="The complete new text.")
    reason: str = Field("", description="Reason for the change or the rating, in a few words.")
    rating: RatingValue | None = Field(
        None,
        description="Use instead of content: whether a recall result, of any type, was useful for its query. Use none to clear your rating.",
    )
    query: str = Field(
        "",
        max_length=10_000,
        description="Required with rating: the query that returned the result.",
    )

    @model_validator(mode="after")
    def _check_one_act(self) -> UpdateArguments:
        if self.rating is None and "content" not in self.model_fields_set:
            raise ValueError(_("Pass “content”, or both “rating” and “query”"))
        if self.rating is not None and (self.content or not self.query.strip()):
            raise ValueError(_("“rating” requires “query” and can’t be combined with “content”"))
        return self


class SoulArguments(Arguments):
    """A new soul."""

    content: str = Field(
        validation_alias=AliasChoices("content", "soul"),
        description="The complete new text of the soul.",
    )
    reason: str = Field("", description="Reason for the change, in a few words.")


# --- writes that can be held for approval, for these tools and REST ---


def save_note(
    context: ToolContext,
    kind: str,
    content: str,
    *,
    source: str,
    topic: Topic | None,
    tags: Sequence[str],
    evidence: Sequence[str],
    until: date | None = None,
    **fields: Any,
) -> Note | Proposal:
    """Write a note. Raises InvalidValue."""
    fields |= {"tags": tags, "evidence": evidence}
    fields["stability"] = fields["stability"] or usual_stability(kind)
    saying = [tag for tag in tags if not tag.isalpha()]  # one-word tags can't be injection
    trust = context.trust_of(content, *evidence, *saying)
    about = {"topic_id": str(topic.pk)} if topic is not None else {}
    if until is not None:
        about["until"] = until.isoformat()
    named_by_caller = [source] if source != context.source else []
    held = reviewed(
        context,
        kind_of_note(kind),
        trust=trust,
        after={"kind": kind, "content": content, **fields, **about},
        texts=[content, *evidence, *tags, *named_by_caller],
    )
    return held or write_note(
        context.owner,
        kind,
        content,
        by=context.by,
        source=source,
        topic=topic,
        trust=trust,
        until=until,
        **fields,
    )


def replace_note(
    context: ToolContext, note: Note, content: str, *, why: str, **fields: Any
) -> Note | Proposal:
    """Write the note that replaces this one. Raises InvalidValue, Locked and StaleWrite."""
    note.check_may_change(context.by)
    before = {name: getattr(note, name) for name in fields}
    held = reviewed(
        context,
        kind_of_note(note.kind, fields.get("kind", note.kind)),
        before={"kind": note.kind, "content": note.content, **before},
        after={"kind": note.kind, "content": content, **fields},
        texts=[content, *fields.get("evidence", ()), *fields.get("tags", ())],
        target=note,
        why=why,
    )
    return held or supersede(
        note,
        content,
        by=context.by,
        expected_version=note.version,
        why=why,
        source=context.source,
        trust=context.successor_trust(note),
        **fields,
    )


def save_lines(
    context: ToolContext,
    lines: Sequence[Line],
    *,
    source: str,
    topic: Topic | None,
    sensitivity: str = "normal",
    leaves_topic: bool = True,
) -> SavedLines | Proposal:
    """Write observations: all of them, or none. Raises InvalidValue."""
    source = checked_source(source)
    held = _reviewed_lines(context, lines, source, topic, sensitivity, leaves_topic=leaves_topic)
    return held or remember_lines(
        context.owner,
        lines,
        by=context.by,
        source=source,
        change_source=context.source,
        topic=topic,
        sensitivity=sensitivity,
        trust=context.write_trust,
    )


def save_transcript_lines(
    context: ToolContext, session_id: str, lines: Sequence[Line]
) -> SavedLines | Proposal:
    """Write what `lines_in` found in a transcript. `problem` says why it failed.

    These observations have no topic: text from the web would spread beyond the run.
    """
    held = _reviewed_lines(context, lines, source_of(session_id))
    return held or keep_lines(context.owner, session_id, lines, by=context.by)


def _reviewed_lines(
    context: ToolContext,
    lines: Sequence[Line],
    source: str,
    topic: Topic | None = None,
    sensitivity: str = "normal",
    *,
    leaves_topic: bool = True,
) -> Proposal | None:
    """Hold a whole batch of observations if one of them must be held.

    Every text that agents would see is checked for prompt injection: also tags, steps and source.
    """
    rows = [
        {
            "category": line.category,
            "content": line.content,
            "tags": list(line.tags),
            "step_name": line.step_name,
            "step_type": line.step_type,
        }
        for line in lines
    ]
    after: dict[str, Any] = {"lines": rows, "source": source, "sensitivity": sensitivity}
    if topic is not None:
        after["topic_id"] = str(topic.pk)
    beside = dict.fromkeys(text for line in lines for text in (*line.tags, line.step_name) if text)
    texts = [*(line.content for line in lines), *beside, source]
    return reviewed(context, "observation", after=after, texts=texts, leaves_topic=leaves_topic)


# --- notes ---


def _remember(context: ToolContext, args: RememberArguments) -> ToolResult:
    until = _until(context, args) if args.until else None
    fields = args.model_dump(exclude={"until"})
    if until is not None:
        fields["stability"] = args.stability or Note.Stability.VOLATILE.value
        fields["ttl_days"] = days_until(until, zone_of(context.owner.time_zone))
    note = save_note(context, source=context.source, topic=context.topic, until=until, **fields)
    if isinstance(note, Proposal):
        return pending_result(note)
    day = until or note.expires_at
    kept = _("until %(day)s") % {"day": f"{day:%Y-%m-%d}"} if day else _("until deleted")
    params = {"kind": note.kind, "id": note.pk, "until": kept}
    saved = _("Saved as a %(kind)s, note:%(id)s, kept %(until)s.")
    known = _("You already saved this as a %(kind)s, note:%(id)s, kept %(until)s.")
    text = (known if note.is_repeat else saved) % params
    return ToolResult(text + _cleaned(note.cleaned), data=_written(note))


def _until(context: ToolContext, args: RememberArguments) -> date:
    """Return the last day on which a note is valid, in the owner's time zone. Raises InvalidValue."""
    today = timezone.localdate(timezone=zone_of(context.owner.time_zone))
    day = until_of(f"until {args.until}", today)
    if day is None:
        problem = _(
            "“%(text)s” isn’t today or a later day. Use a date such as %(day)s, or a weekday."
        ) % {"text": args.until, "day": today.isoformat()}
    elif args.ttl_days is not None:
        problem = _("Use either until or ttl_days, not both.")
    else:
        return day
    raise InvalidValue(problem, errors={"until": [problem]})


def _update(context: ToolContext, args: UpdateArguments) -> ToolResult:
    if args.rating is not None:
        return _rate(context, args.id, args.rating, args.query, args.reason)
    note = _note(context, args.id)
    if isinstance(note, ToolResult):
        return note
    successor = replace_note(context, note, args.content, why=args.reason)
    if isinstance(successor, Proposal):
        return pending_result(successor)
    params = {"old": note.pk, "new": successor.pk}
    text = _("note:%(new)s now replaces note:%(old)s.") % params
    return ToolResult(text + _cleaned(successor.cleaned), data=_written(successor))


def _note(context: ToolContext, text: str) -> Note | ToolResult:
    """Return the note that can be replaced, or the answer that says why it can't."""
    key = uuid_of(text.strip().strip("[]").rpartition(":")[2])
    mine = Note.objects.for_user(context.owner)
    note: Note | None = mine.filter(pk=key).first() if key else None
    if note is None and key and Observation.objects.for_user(context.owner).filter(pk=key).exists():
        problem = _("Agents can’t change observations. Save a new one with the remember_fil tool.")
        return refused("refused", problem)
    if note is None:
        problem = _("There is no note “%(id)s”. Use recall or list_memory to get IDs.")
        return refused("not_found", problem % {"id": shorten(text, 60)})
    if note.kind in Note.IDENTITY:
        problem = _(
            "update_memory can’t change the soul, agent or user note. Use update_soul for the soul. Only people can edit the persona and profile, under Agents or Settings."
        )
        return refused("refused", problem)
    if gone := unreadable_reason(note):
        return refused("not_found", gone)
    if not context.may_read(note):
        return refused("sensitive", _("Only people can see that note, so nothing was changed."))
    return note


def _update_soul(context: ToolContext, args: SoulArguments) -> ToolResult:
    standing = identity.active(context.owner, Note.Kind.SOUL)
    if standing is not None and standing.content == args.content.strip():
        return ToolResult(
            _("Nothing changed. The soul already has this text."), data=_written(standing)
        )
    held = reviewed(
        context,
        "soul",
        before={"content": standing.content if standing else ""},
        after={"kind": Note.Kind.SOUL.value, "content": args.content},
        texts=[args.content],
        target=standing,
        why=args.reason,
    )
    if held is not None:
        return pending_result(held)
    soul = identity.write_soul(
        context.owner,
        args.content,
        by=context.by,
        why=args.reason,
        expected=standing.pk if standing else None,
        source=context.source,
        trust=context.write_trust,
    )
    text = _("Soul updated. The previous version stays in its history.")
    return ToolResult(text + _cleaned(soul.cleaned), data=_written(soul))


def _written(record: Any) -> dict[str, Any]:
    return {"id": str(record.pk), "version": record.version, "records": [record_entry(record)]}


def _cleaned(fields: Sequence[str]) -> str:
    if not fields:
        return ""
    params = {"fields": ", ".join(fields)}
    return " " + _("Characters that can’t be stored were removed from: %(fields)s.") % params


# --- observations ---


def _remember_fil(context: ToolContext, args: FilArguments) -> ToolResult:
    many = batch(args.findings, args.insights, args.lessons)
    checked_size(many)
    lines = checked(many)
    stored = save_lines(
        context,
        lines,
        source=named_source(context, args.source),
        topic=context.topic,
        leaves_topic=context.topic is None,
    )
    return _stored(stored)


def _stored(stored: SavedLines | Proposal) -> ToolResult:
    if isinstance(stored, Proposal):
        return pending_result(stored)
    if stored.problem:
        return refused("refused", stored.problem)
    ids = [str(observation.pk) for observation in stored.observations]
    known = len(ids) - len(stored.new)
    text = _("Saved: %(new)d.") % {"new": len(stored.new)}
    if known:
        text += " " + _("Already known: %(known)d.") % {"known": known}
    if ids:
        text += " " + _("IDs in order: %(ids)s.") % {"ids": ", ".join(ids)}
    records = [record_entry(observation) for observation in stored.observations]
    new = [str(one.pk) for one in stored.new]
    return ToolResult(text, data={"ids": ids, "new": new, "records": records})


def _consolidate(context: ToolContext, args: ConsolidateArguments) -> ToolResult:
    turns = [(message.role, message.content) for message in args.messages]
    trust = context.write_trust
    lines = lines_in(turns, user=trust, assistant=trust_in_answers(trust))
    if not lines:
        text = _(
            "Nothing to keep from this transcript. No message contains a decision, a conclusion or a request to remember something."
        )
        return ToolResult(text, data={"ids": [], "new": [], "records": []})
    checked_size(lines)
    session_id = args.session_id or _session_id(context, turns)
    _check_session(context, session_id)
    if args.session_id:
        _claim_session(context, session_id)
    return _stored(save_transcript_lines(context, session_id, lines))


def _check_session(context: ToolContext, session_id: str) -> None:
    """Raise InvalidValue for one of the owner's sessions that isn't this caller's."""
    if source_of(session_id) == context.source:
        return
    key = uuid_of(session_id)
    if key is None:
        return  # a conversation elsewhere, nothing of which is stored here
    session = Session.objects.for_user(context.owner).select_related("agent").filter(pk=key).first()
    if session is not None and (session.agent is None or session.agent.actor != context.by):
        problem = _("That session isn’t yours. Leave session_id out, or use your own.")
        raise InvalidValue(problem, errors={"session_id": [problem]})


def _claim_session(context: ToolContext, session_id: str) -> None:
    """Reserve the conversation's name for the agent.

    Raises InvalidValue if another agent has it.
    """
    by = context.by
    if by.kind == "agent" and not AgentScope.objects.claim(
        context.owner, source_of(one_line(clean(session_id)[0])), by.name
    ):
        problem = _("Another agent uses this session_id. Leave it out, or choose another.")
        raise InvalidValue(problem, errors={"session_id": [problem]})


def _session_id(context: ToolContext, turns: Sequence[tuple[str, str]]) -> str:
    """Return the session's ID; a transcript without one always gets the same ID."""
    kind, _colon, key = context.source.partition(":")
    if kind == "session" and key:
        return key
    message = "\0".join(f"{role}:{text}" for role, text in turns)
    return hashlib.sha256(message.encode(errors="replace")).hexdigest()[:16]


TOOLS = (
    MemoryTool(
        "remember",
        "Save a note. By default, it's a log entry that is kept until it's deleted. A rule requires evidence and a confidence of at least 0.8. Facts about the person belong in facts/user.md.",
        RememberArguments,
        _remember,
        writes=True,
    ),
    MemoryTool(
        "remember_fil",
        "Save findings, insights and lessons in one call. Either all are saved, or none. Returns the IDs in the same order. Exact duplicates from the same source are ignored.",
        FilArguments,
        _remember_fil,
        writes=True,
    ),
    MemoryTool(
        "consolidate",
        "Keep what matters from a conversation: decisions, conclusions, requests to remember, and the last long answer as a summary. Exact duplicates are ignored.",
        ConsolidateArguments,
        _consolidate,
        writes=True,
    ),
    MemoryTool(
        "update_memory",
        "Replace a note's text, or rate a recall result. The old text stays in the note's history. A rated result ranks higher or lower for the same query. Soul, agent and user notes can't be changed with this tool.",
        UpdateArguments,
        _update,
        writes=True,
    ),
    MemoryTool(
        "update_soul",
        "Replace the soul, the text in every context that says how the agent thinks and acts. The change usually waits for the person's approval.",
        SoulArguments,
        _update_soul,
        writes=True,
    ),
)


# --- rating a result of recall, which update_memory does on request ---


def _rate(context: ToolContext, text: str, value: RatingValue, query: str, why: str) -> ToolResult:
    """Rate a record that the caller can read, or clear its rating."""
    key = uuid_of(text.strip().strip("[]").rpartition(":")[2])
    record = ratings.record_of(context.owner, key) if key else None
    if record is None or not context.may_read(record):
        problem = _("There is no result “%(id)s”. Use recall to get IDs.")
        return refused("not_found", problem % {"id": shorten(text, 60)})
    act = _("Rating a result")
    check_unreviewed(context.owner, RATING_REVIEWED_AS, by=context.by, act=act)
    if value != "none":
        ratings.rate(context.owner, query, record, value, by=context.by, reason=why)
        message = _("Rated. This affects the result’s ranking for the same query.")
    elif (rating := ratings.rating_of(context.owner, query, record)) is not None:
        ratings.clear(rating, by=context.by)
        message = _("Rating cleared.")
    else:
        message = _("This result has no rating for this query, so nothing changed.")
    return ToolResult(message, data={"id": str(record.pk), "records": [record_entry(record)]})
