"""What a person can read of a structured answer while it is still being written."""

from __future__ import annotations

import json
import re
from typing import Any

import pydantic_core

from beacon_site.providers.structured import without_thoughts

READABLE = ("summary", "body")
"""The fields of a written report that hold prose, in the order in which they are read."""

_FENCE = re.compile(r"\A[^{\n]{0,200}\n?\s*```[a-zA-Z]*[ \t]*\r?\n?")
_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*\Z", re.S)
_MARKS = ("<think>", "<thinking>", "```json\n")


def readable_text(raw: str) -> str:
    """Return the readable text so far of an answer of which `raw` has come.

    Of a JSON object, bare or fenced, whole or not, that is the prose of its READABLE fields, an
    empty line between two; plain prose is returned as it is.  Thoughts before the answer, and
    the first signs of JSON or a fence, are nothing to read yet.
    """
    text = without_thoughts(raw)
    if _THINKING.match(text) or any(mark.startswith(text) for mark in _MARKS):
        return ""
    fence = _FENCE.match(text)
    inner = text[fence.end() :] if fence else text
    if inner.startswith("{"):
        return "\n\n".join(part for part in _prose(_object(inner)) if part)
    return "" if fence and not inner.strip() else text


def _object(text: str) -> dict[str, Any]:
    """Return what has come of the JSON object that `text` begins with, {} if it is none."""
    try:
        found, _end = json.JSONDecoder().raw_decode(text)  # whole, whatever may follow it
    except (ValueError, RecursionError):
        try:
            found = pydantic_core.from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}


def _prose(found: dict[str, Any]) -> list[str]:
    return [value.strip() for name in READABLE if isinstance(value := found.get(name), str)]
