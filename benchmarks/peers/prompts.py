"""How the loopback model answers the prompts of other programs, and as a stream."""

from __future__ import annotations

import json
import re
from typing import Any

_PLAN = "search queries to research the following task"
_REPORT = "write a detailed report"
_SENTENCE = re.compile(r"In round \S+ the plant number \d+ measured [^.]+\.")


def said(prompt: str, queries: int) -> str | None:
    """Return the answer to a prompt of gpt-researcher, None to one that is not its own.

    Its report holds the first sentence of ten pages that are in the prompt, as Beacon's does.
    """
    if _PLAN in prompt:
        return json.dumps([f"overhead topic part {n}" for n in range(queries)])
    if "answer the following query or task" in prompt or _REPORT in prompt:
        found = list(dict.fromkeys(_SENTENCE.findall(prompt)))[:10]
        return "# Report\n\n" + "\n\n".join(found or ["No page reached this report."])
    return None


def as_stream(answer: dict[str, Any]) -> bytes:
    """Return an answer as the events of a stream: its text, its end, what it took."""
    text = answer["choices"][0]["message"]["content"]
    base = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": answer["model"]}
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    events: list[dict[str, Any]] = [
        {**base, "choices": [choice]},
        {**base, "choices": [end]},
        {**base, "choices": [], "usage": answer["usage"]},
    ]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()
