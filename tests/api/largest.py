"""The largest valid request that the schema of an operation or a tool allows.

Texts and lists come from the schema. Ids, paths and other values with a meaning come from SAMPLES,
by the name of the field: "operation.field" before "field".
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

LARGE = 1_000  # characters of a text from which an operation is measured
LINE = 8_000  # characters: memory files have no longer lines
BLOCK = 200_000  # characters, then a text repeats itself
WORDS = [f"{first}{last}" for first in ("cell", "market", "paper", "river", "stone", "valley")
         for last in ("s", "ing", "ed", "er", "ly", "ful", "less", "ness", "ment", "able")]  # fmt: skip
LANGUAGES = ("en", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "pl")
SERVICES = ("wikipedia", "arxiv", "hackernews", "feeds")
LEFT_OUT = object()

Schema = Mapping[str, Any]
Sample = Callable[[dict[str, Any], int, int], Any]  # fixture records, place in a list, characters


@cache
def _block(number: int, length: int) -> str:
    chance = random.Random(number)
    words: list[str] = []
    size = 0
    while size <= length:
        words.append(chance.choice(WORDS))
        size += len(words[-1]) + 1
    text = " ".join(words)
    lines = [text[start : start + LINE] for start in range(0, length, LINE)]
    return "\n".join(lines)[:length]


def text_of(length: int, number: int) -> str:
    """Return a text that shares words with others, like texts about one subject."""
    said = "We decided that " if length > LARGE // 10 else ""
    block = _block(number, min(length, BLOCK)) + "\n"
    return (said + block * (1 + length // len(block)))[:length]


def _among(name: str) -> Sample:
    return lambda there, number, _most: str(there[name][number % len(there[name])])


def _of(name: str) -> Sample:
    return lambda there, _number, _most: there[name]


def _is(value: Any) -> Sample:
    return lambda _there, _number, _most: value


def _numbered(form: str) -> Sample:
    return lambda _there, number, _most: form.format(number)


def _text(longest: int) -> Sample:
    return lambda _there, number, most: text_of(max(1, min(longest, most)), 1_000 + number)


def _turn(_there: dict[str, Any], number: int, _most: int) -> str:
    """Return a message; at most 100 of a transcript are stored, so only these decide something."""
    return text_of(1_990, number) if number < 100 else "Thank you, go ahead."


def _address(_there: dict[str, Any], number: int, most: int) -> str:
    return f"https://93.184.215.14/{number}/".ljust(min(most, 1_900), "p")


SAMPLES: Mapping[str, Sample] = {
    **dict.fromkeys(
        ("cursor", "scope", "source", "session", "session_id", "version", "confidence", "wait_seconds",
         "first_line", "last_line", "left_version", "right_version", "title", "transform", "unit",
         "min_score", "month_tokens", "month_money", "max_money"), _is(LEFT_OUT)
    ),
    "tags": _numbered("tag {}"), "tag": _numbered("tag {}"), "labels": _numbered("label {}"),
    "evidence": _text(2_000), "ids": _among("notes"), "related_to": _among("contents"),
    "topic": _of("slug"), "run": _of("run_id"), "step_name": _text(100), "path": _of("path"),
    "after": _is("2020-01-01T00:00:00Z"), "before": _is("2030-01-01T00:00:00Z"),
    "place": _is("example.org"), "url": _is("https://example.org/"), "role": _is("user"),
    "key": _is("a key"), "prefix": _is("a"), "store_in_memory.type": _is("custom"), "time_zone": _is("Europe/Berlin"),
    "preset": _is("weekly"), "day": _is("1"), "cron": _is(LEFT_OUT), "hour": _is(6),
    "languages": lambda _there, number, _most: LANGUAGES[number],
    "services": lambda _there, number, _most: SERVICES[number % 4],
    "feeds": _address, "block_pages": _address, "always_check": _text(400), "notify_examples": _text(390),
    "allow_domains": _numbered("a{}.example.org"), "block_domains": _numbered("b{}.example.org"),
    "make_topic.title": _is("Cells"), "edit_topic.title": _is("Markets"), "research_topic.topic": _is("Cells"),
    "edit_topic.archived": _is(LEFT_OUT), "edit_topic.paused": _is(LEFT_OUT), "schedule.paused": _is(LEFT_OUT),
    "pinned": _is(LEFT_OUT), "lock": _is(LEFT_OUT), "append_entry.summary": _text(100),
    **dict.fromkeys(
        ("view_range", "old_str", "new_str", "insert_line", "insert_text", "old_path", "new_path"),
        _is(LEFT_OUT),
    ),
    "command": _is("create"), "memory.path": _is("/memories/long.md"),
    "carry_out_command.path": _is("/memories/long.md"),
    "memory_append.summary": _text(100), "old_text": _among("lines"), "new_text": _text(100),
    "messages.content": _turn, "sentence": _of("sentence"),
    "facts.id": _among("facts"), "facts.version": _is(1),
    "update_memory.id": _of("mine"), "retrieve.id": _of("mine"), "store_in_memory.tags": _is("one, two"),
    "store_in_memory.related_to": lambda there, _number, _most: ",".join(map(str, there["contents"])),
    "query_memory.tags": _is("one, two"), "query_memory.after": _is("2020-01-01"),
    "query_memory.before": _is("2030-01-01"),
    "retrieve_from_memory.id": _of("item_id"), "retrieve_from_memory.transform": _is("filtered"),
    "retrieve_from_memory.n": _is(LEFT_OUT), "retrieve_from_memory.q": _text(400), "resolve_conflict.how": _is("merged"),
}  # fmt: skip

# Fields that another field needs, though the schema does not say so.
NEEDED: Mapping[str, tuple[str, ...]] = {
    "remember_observations.content": ("category",),
    "remember_observations.tags": ("content", "category"),
    "retrieve_from_memory.q": ("transform",),
}


class Largest:
    """Creates a schema's largest value within a number of characters."""

    def __init__(self, name: str, parts: Mapping[str, Schema], there: dict[str, Any]) -> None:
        self.name = name
        self.parts = parts
        self.there = there
        self.texts = 0

    def resolved(self, schema: Schema) -> Schema:
        """Return the schema itself, without references and null."""
        if "$ref" in schema:
            return self.resolved(self.parts[schema["$ref"].rpartition("/")[2]])
        for choice in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
            if choice.get("type") != "null":
                return self.resolved({**schema, **choice, "anyOf": (), "allOf": ()})
        return schema

    def sample(self, within: str, field: str) -> Sample | None:
        for name in (f"{self.name}.{field}", f"{within}.{field}", field):
            if name in SAMPLES:
                return SAMPLES[name]
        return None

    def value(
        self, schema: Schema, room: int, field: str, within: str = "", number: int = 0
    ) -> Any:
        schema = self.resolved(schema)
        kind = schema.get("type")
        if kind == "array":
            most = schema["maxItems"]
            return [
                self.value(schema["items"], room // most, field, within, n) for n in range(most)
            ]
        if kind == "object":
            named = {name: self.resolved(one) for name, one in schema.get("properties", {}).items()}
            return self.fields(named, room, field, number)
        length = max(1, min(schema.get("maxLength", room), room - 8))
        if sample := self.sample(within, field):
            return sample(self.there, number, length)
        if "enum" in schema or "const" in schema:
            return schema.get("const", schema.get("enum", [""])[0])
        if kind in ("integer", "number"):
            return schema.get("maximum", schema.get("minimum", 1))
        if kind == "boolean":
            return True
        self.texts += 1
        return text_of(length, self.texts)

    def fields(
        self, named: Mapping[str, Schema], room: int, within: str = "", number: int = 0
    ) -> dict[str, Any]:
        """Give unlimited lists and texts the remaining characters."""
        small = {name: one for name, one in named.items() if one.get("maxLength", 10**9) < LARGE}
        large = {name: one for name, one in named.items() if name not in small}
        made = {name: self.value(one, LARGE, name, within, number) for name, one in small.items()}
        made = {name: one for name, one in made.items() if one is not LEFT_OUT}
        share = (room - len(json.dumps(made)) - 20 * len(large)) // max(1, len(large))
        made |= {name: self.value(one, share, name, within, number) for name, one in large.items()}
        return {name: one for name, one in made.items() if one is not LEFT_OUT}


def inside(schema: Any, parts: Mapping[str, Schema]) -> Iterator[Schema]:
    """Yield each schema inside a schema."""
    if isinstance(schema, list):
        for one in schema:
            yield from inside(one, parts)
    elif isinstance(schema, dict):
        if "$ref" in schema:
            yield from inside(parts[schema["$ref"].rpartition("/")[2]], parts)
        yield schema
        for one in schema.values():
            yield from inside(one, parts)


def is_costly(schema: Any, parts: Mapping[str, Schema]) -> bool:
    """Return whether a list or a long text can be sent."""
    return any(
        one.get("type") == "array"
        or (one.get("type") == "string" and not one.get("enum") and not one.get("format")
            and one.get("maxLength", LARGE) >= LARGE)
        for one in inside(schema, parts)
    )  # fmt: skip


def unbounded(schema: Any, parts: Mapping[str, Schema]) -> list[Schema]:
    """Return the lists without a limit."""
    return [
        one for one in inside(schema, parts) if one.get("type") == "array" and "maxItems" not in one
    ]


def costly_fields(name: str, schema: Schema, parts: Mapping[str, Schema]) -> list[str]:
    """Return the fields of a schema that take a list, or a long text of any words."""
    largest = Largest(name, parts, {})
    fields = largest.resolved(schema).get("properties", {})
    return [
        field for field, one in fields.items()
        if "array" in (part.get("type") for part in inside(one, parts))
        or (is_costly(one, parts) and not largest.sample("", field))
    ]  # fmt: skip


def request_for(
    name: str,
    schema: Schema,
    parts: Mapping[str, Schema],
    there: dict[str, Any],
    *,
    field: str,
    room: int,
) -> Any:
    """Return the largest request with one costly field and what it needs, or with every field.

    Some fields exclude each other, and only a request that is accepted is carried out to its end.
    """
    largest = Largest(name, parts, there)
    schema = largest.resolved(schema)
    fields = {key: largest.resolved(one) for key, one in schema.get("properties", {}).items()}
    if field:
        needed = {field, *schema.get("required", ())}
        if name in ("remember_observations", "edit_one_observation") and field in (
            "content",
            "tags",
        ):
            needed |= {"content", "category"}
        fields = {key: one for key, one in fields.items() if key in needed}
    return largest.fields(fields, room)
