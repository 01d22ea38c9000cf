"""How what programs write passes the review (decision 10), and what they may name as its source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory.api.auth import Caller
from memory.api.frame import Held
from memory.models import Remembered, Topic
from memory.observations.lines import Line, callers_source
from memory.reviewing import refused, review
from memory.toolkit import review as tool_review


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
    waits = tool_review.reviewed(
        caller.context(), kind, after=after, texts=texts, before=before, target=target, why=why
    )
    if waits is None:
        return None
    return Held(proposal=str(waits.data["proposal"]), why=str(waits.data.get("why", "")))


def check_unreviewed(caller: Caller, kind: str, act: str) -> None:
    """Refuse (403) an agent's act that cannot wait, where the owner reviews all that agents write."""
    review.check_unreviewed(caller.owner, kind, by=caller.by, act=act)


def source_of(caller: Caller, named: str | None) -> str:
    """Return the source of what is written: the one the caller named, else the caller.

    Raises InvalidValue where an agent would pass for a person, a run or a session, Refused for a
    source that the owner refuses.
    """
    if not named:
        return caller.source
    refused.check(caller.owner, caller.by, named)
    return named if caller.by.is_person else callers_source(named)


def reviewed_lines(
    caller: Caller,
    lines: Sequence[Line],
    source: str,
    *,
    topic: Topic | None = None,
    sensitivity: str = "normal",
) -> Held | None:
    """Hold a batch of observations whole if one of them is to be held."""
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
    return reviewed(caller, "observation", after=after, texts=[line.content for line in lines])
