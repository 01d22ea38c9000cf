"""How what programs write passes the review (decision 10), and what they may name as its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory.api.auth import Caller
from memory.api.frame import Held
from memory.models import Remembered, Topic
from memory.observations.lines import Line
from memory.reviewing import review
from memory.toolkit import review as tool_review
from memory.toolkit.types import ToolResult


def reviewed(
    caller: Caller,
    kind: str,
    *,
    after: Mapping[str, Any],
    texts: Sequence[str],
    before: Mapping[str, Any] | None = None,
    target: Remembered | None = None,
    why: str = "",
) -> Held | None:
    """Hold an agent's write that is to be held, and return the answer; None if it may be stored."""
    return _held(
        tool_review.reviewed(
            caller.context(), kind, after=after, texts=texts, before=before, target=target, why=why
        )
    )


def check_unreviewed(caller: Caller, kind: str, act: str) -> None:
    """Refuse (403) an agent's act that cannot wait, where the owner reviews all that agents write."""
    review.check_unreviewed(caller.owner, kind, by=caller.by, act=act)


def source_of(caller: Caller, named: str | None) -> str:
    """Return the source of a write, as `memory.toolkit.review.named_source` does."""
    return tool_review.named_source(caller.context(), named)


def reviewed_lines(
    caller: Caller,
    lines: Sequence[Line],
    source: str,
    *,
    topic: Topic | None = None,
    sensitivity: str = "normal",
) -> Held | None:
    """Hold a batch of observations whole if one of them is to be held."""
    return _held(
        tool_review.reviewed_lines(
            caller.context(), lines, source, topic=topic, sensitivity=sensitivity
        )
    )


def _held(waits: ToolResult | None) -> Held | None:
    if waits is None:
        return None
    return Held(proposal=str(waits.data["proposal"]), why=str(waits.data.get("why", "")))
