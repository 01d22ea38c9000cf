"""Structured output: a pydantic class as JSON Schema for a model, and reading its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import pydantic_core
from pydantic import BaseModel, ValidationError

from beacon_site.text.messages import gettext as _

MAX_STARTS = 50  # places in an answer where JSON is tried
MAX_ERRORS = 5  # of pydantic's complaints, shown to the model for its repair
NOT_STRICT = ("default", "minLength", "maxLength", "examples")  # strict mode refuses them

Shape = TypeVar("Shape", bound=BaseModel)

_FENCE = re.compile(r"```[a-zA-Z]*[ \t]*\r?\n(.*?)```", re.S)
_THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.S)


class SchemaMismatch(ValueError):
    """An answer doesn't fit the schema; the text says why, in words for the model.

    `no_json` means that there is no JSON at all.  `other_shape` means complete JSON with missing
    fields or other types, not just a value out of range.
    """

    def __init__(self, message: str, *, no_json: bool = False, other_shape: bool = False) -> None:
        super().__init__(message)
        self.no_json = no_json
        self.other_shape = other_shape


def strict_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the class's JSON Schema in the subset that strict mode accepts.

    Every property is required and no others are allowed.  Limits on text lengths are left to
    pydantic, which checks the answer anyway.
    """
    values: dict[str, Any] = _strict(schema.model_json_schema())
    return values


def is_strict(node: Any) -> bool:
    """Return whether strict mode supports this schema, which it doesn't for free-form dictionaries."""
    if isinstance(node, dict):
        if node.get("type") == "object" and node.get("additionalProperties") is not False:
            return False
        return all(is_strict(value) for value in node.values())
    return all(is_strict(value) for value in node) if isinstance(node, list) else True


def _strict(node: Any, *, names: bool = False) -> Any:
    """Convert a schema; under `names` the keys are property names, not keywords."""
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    values = {
        key: _strict(value, names=not names and key in ("properties", "$defs"))
        for key, value in node.items()
        if names or key not in NOT_STRICT
    }
    if not names and isinstance(values.get("properties"), dict):
        values["required"] = list(values["properties"])
        values.setdefault("additionalProperties", False)
    return values


def instruction(schema: type[BaseModel]) -> str:
    """Return the prompt that asks for one JSON object of this shape."""
    shape = json.dumps(schema.model_json_schema(), ensure_ascii=False, separators=(",", ":"))
    return (
        "Answer with one JSON object and nothing else, without an explanation or a code fence. "
        f"It must fit this JSON Schema:\n{shape}"
    )


def without_thoughts(text: str) -> str:
    """Return an answer without the thinking that some servers put before it."""
    return _THOUGHT.sub("", text, count=1).strip()


def parse_answer(text: str, schema: type[Shape]) -> Shape:
    """Return the first JSON in `text` that fits `schema`: bare, fenced or inside prose.

    Raises SchemaMismatch, with pydantic's complaints about the longest candidate.
    """
    complaint, longest, other_shape = "", -1, False
    for candidate in _candidates(text):
        try:
            parsed = schema.model_validate_json(candidate)
        except ValidationError as exc:
            if len(candidate) > longest:
                complaint, longest = _complaints(exc), len(candidate)
                other_shape = _is_other_shape(exc)
        else:
            # If every field has a default, any object would fit, such as one in prose.
            if parsed.model_fields_set or candidate.replace(" ", "") == "{}":
                return parsed
    if complaint:
        raise SchemaMismatch(complaint, other_shape=other_shape)
    if "{" in text:
        raise SchemaMismatch(_("the JSON is incomplete"))
    raise SchemaMismatch(_("the answer contains no JSON"), no_json=True)


def _candidates(text: str) -> Iterator[str]:
    """Yield the complete JSON texts in an answer, the likeliest places first."""
    for block in (text, *_FENCE.findall(text)):
        yield from _decodable(block)


def _decodable(text: str) -> Iterator[str]:
    """Yield the JSON that decodes, from left to right, but never a part of incomplete JSON."""
    decoder = json.JSONDecoder()
    at = starts = 0
    while starts < MAX_STARTS:
        places = [place for place in (text.find("{", at), text.find("[", at)) if place >= 0]
        if not places:
            return
        start, starts = min(places), starts + 1
        try:
            _value, at = decoder.raw_decode(text, start)
        except RecursionError:
            return
        except json.JSONDecodeError as exc:
            if exc.msg.startswith("Unterminated"):
                return
            at = max(exc.pos, start + 1)  # everything before belongs to the broken one
        except ValueError:  # a number with too many digits, by a model that repeats itself
            return
        else:
            yield text[start:at]


def _complaints(exc: ValidationError) -> str:
    errors = exc.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(map(str, one['loc'])) or 'answer'}: {one['msg']}" for one in errors]
    return "; ".join(lines[:MAX_ERRORS])


def _is_other_shape(exc: ValidationError) -> bool:
    kinds = {one["type"] for one in exc.errors(include_url=False, include_context=False)}
    return any(kind == "missing" or kind.endswith(("_type", "_parsing")) for kind in kinds)


# --- readable text of an unfinished answer ---

READABLE = ("summary", "body")
"""The fields of a report that contain prose, in reading order."""

_OPENING_FENCE = re.compile(r"\A[^{\n]{0,200}\n?\s*```[a-zA-Z]*[ \t]*\r?\n?")
_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*\Z", re.S)
_MARKS = ("<think>", "<thinking>", "```json\n")


def readable_text(raw: str) -> str:
    """Return the readable text in `raw`, the beginning of an answer.

    For a JSON object, bare or fenced and perhaps incomplete, it is the prose of its READABLE
    fields, with empty lines between them.  Plain prose is returned unchanged.  Thoughts before the
    answer, and the start of JSON or a fence, aren't readable.
    """
    text = without_thoughts(raw)
    if _THINKING.match(text) or any(mark.startswith(text) for mark in _MARKS):
        return ""
    fence = _OPENING_FENCE.match(text)
    inner = text[fence.end() :] if fence else text
    if inner.startswith("{"):
        return "\n\n".join(part for part in _prose(_object(inner)) if part)
    return "" if fence and not inner.strip() else text


def _object(text: str) -> dict[str, Any]:
    """Return the JSON object at the start of `text`, which can be incomplete; {} if there is none."""
    try:
        found, _end = json.JSONDecoder().raw_decode(text)  # complete; any text can follow
    except (ValueError, RecursionError):
        try:
            found = pydantic_core.from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return {}
    return found if isinstance(found, dict) else {}


def _prose(found: dict[str, Any]) -> list[str]:
    return [value.strip() for name in READABLE if isinstance(value := found.get(name), str)]
