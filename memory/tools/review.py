"""The review of tools' writes (decision 10): stored immediately, or held for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from memory.models import Remembered, Topic, Trust
from memory.observations.lines import Line, callers_source
from memory.review import blocked
from memory.review import services as review_services
from memory.tools.types import ToolContext, ToolResult


def why_held(
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
    found = review_services.verdict(
        context.owner,
        kind,
        by=context.by,
        trust=trust or context.write_trust,
        texts=texts,
        leaves_topic=leaves_topic,
        target=target,
        path=path,
        after=after,
        messages=context.messages,
    )
    return found.held


def held_for_person(
    context: ToolContext,
    kind: str,
    held: str,
    *,
    after: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    target: Remembered | None = None,
    why: str = "",
) -> ToolResult:
    """Keep the write as a proposal, and return the answer that says so."""
    proposal = review_services.hold(
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
    text = _(
        "Pending approval: “%(why)s”. Nothing is saved yet (proposal %(id)s). Don’t write it again. Continue with your task."
    ) % {"why": held, "id": proposal.pk}
    return ToolResult(text, data={"proposal": str(proposal.pk), "why": held})


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
) -> ToolResult | None:
    """Return the answer for a write that must be held, which becomes a proposal; else None."""
    held = why_held(
        context, kind, texts=texts, target=target, leaves_topic=leaves_topic, trust=trust
    )
    if not held:
        return None
    return held_for_person(context, kind, held, after=after, before=before, target=target, why=why)


def reviewed_lines(
    context: ToolContext,
    lines: Sequence[Line],
    source: str,
    *,
    topic: Topic | None = None,
    sensitivity: str = "normal",
    leaves_topic: bool = True,
) -> ToolResult | None:
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
    blocked.check(context.owner, context.by, named)
    return named
