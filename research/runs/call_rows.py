"""The calls of tools of a deep run, as its page shows them under their tracks."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

from memory.texts.text import in_brief, shorten
from research.models import Run, ToolCall, TopicSettings
from research.runs import presenters

LONGEST_ASKED, LONGEST_TOLD = 160, 220
# The marks round text from outside, and what a model is told of them, are no news to a person.
_MARKS = re.compile(r"(?:^|\n)[^\n]*\n<<<\n|\n>>>")
_WHAT = ("query", "page", "path", "id", "title")  # the argument that says most, the first there is


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call: what was asked for, the beginning of what the model was told, and its whole."""

    number: int
    tool: str
    asked: str
    told: str
    took: str
    is_error: bool
    item: UUID | None
    is_earlier: bool = False


def by_track(run: Run) -> dict[int, list[CallRow]]:
    """Return the calls of each track by its number; no query is asked for a quick run."""
    rows: defaultdict[int, list[CallRow]] = defaultdict(list)
    if run.depth != TopicSettings.Depth.DEEP:
        return rows
    calls = list(run.tool_calls.all())
    last = {call.part: call.attempt for call in calls}
    for call in calls:
        rows[call.part].append(_row(call, is_earlier=call.attempt < last[call.part]))
    return rows


def _row(call: ToolCall, *, is_earlier: bool) -> CallRow:
    return CallRow(
        number=call.position,
        tool=call.tool,
        asked=shorten(_asked(call), LONGEST_ASKED),
        told=in_brief(_MARKS.sub("\n", call.result), LONGEST_TOLD),
        took=presenters.duration(call.milliseconds),
        is_error=call.is_error,
        item=call.content_item_id,
        is_earlier=is_earlier,
    )


def _asked(call: ToolCall) -> str:
    told = next((call.arguments[name] for name in _WHAT if call.arguments.get(name)), None)
    if told is None:
        return json.dumps(call.arguments, ensure_ascii=False) if call.arguments else ""
    return str(told)
