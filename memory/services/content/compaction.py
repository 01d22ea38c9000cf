"""Compact forms of content items, which say what an item is and how to get the rest of it.

The first compactor that recognizes the text writes the form, or a model if the agent's settings say
so; each is the other's fallback. A compact form that isn't shorter than the text is replaced by
the text (R137). External text is put between marks.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import structlog
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import BaseModel, Field

from beacon_site.net.errors import ProviderError
from beacon_site.providers.llm.base import Message
from beacon_site.text import injection
from beacon_site.text.cleaning import as_data, for_prompt, one_line, shorten
from beacon_site.text.messages import grouped
from memory.models import Agent, ContentItem, Sensitivity, Trust
from memory.services.llm.asking import BudgetReached

# --- shapes of text ---

READ_BY_MODEL = 5_000  # characters that a model is given to compact a text (R130)
LOOKED_AT = 65_536  # characters searched for the columns of a table
MAX_HITS, MAX_HIT_LENGTH = 8, 140
MAX_COLUMNS, MAX_COLUMN_LENGTH = 30, 40
MAX_SHAPE_LENGTH = 600
ROWS_SHOWN, MAX_ROW_LENGTH = 1, 160
_MIN_ROWS = 3  # lines with the same columns that make a table
_DEEPEST = 3
_ENTRY = re.compile(r"^(?:\[?p?\d{1,4}[\].:)]+|[-*•])\s+\S")
_RULE = re.compile(r"^\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")


# What the item is, a text, and how much of the item that is.
Parts = tuple[str, str, str]


# --- search results ---


def is_search(item: ContentItem) -> bool:
    """Return True if the item is the result of a search whose hits can be separated."""
    return "search" in item.action.casefold() and bool(hits_of(item.content))


def search_results(item: ContentItem) -> Parts:
    """Return the titles of the first results, and the number of results."""
    hits = hits_of(item.content)
    values = {"shown": grouped(min(len(hits), MAX_HITS)), "of": grouped(len(hits))}
    return (
        _("search results"),
        "\n".join(shorten(hit, MAX_HIT_LENGTH) for hit in hits[:MAX_HITS]),
        _("%(shown)s of %(of)s results shown, titles only. Total: %(size)s characters.")
        % (values | {"size": grouped(item.size)}),
    )


def hits_of(text: str) -> list[str]:
    """Return one line per result, from numbered or bulleted lines, or JSON with titles."""
    rows = _loaded(text)
    if isinstance(rows, dict):
        rows = next((value for value in rows.values() if isinstance(value, list)), None)
    if isinstance(rows, list):
        texts = [
            " — ".join(str(row[key]) for key in ("title", "url") if row.get(key))
            for row in rows
            if isinstance(row, dict)
        ]
        return [one_line(hit) for hit in texts if hit]
    return [one_line(line) for line in text.split("\n") if _ENTRY.match(line)]


# --- JSON ---


def is_json(item: ContentItem) -> bool:
    """Return True if the content looks like a JSON object or list."""
    return _looks_like_json(item.content)


def json_shape(item: ContentItem) -> Parts:
    """Return the keys and the lengths of lists and texts, without the values."""
    value = _loaded(item.content)
    if value is None:
        raise ValueError("the content isn't JSON")
    shape = _shape(value, 0)
    params = {"size": grouped(item.size)}
    return (
        _("JSON"),
        shorten(shape, MAX_SHAPE_LENGTH),
        _("Only the structure is shown, without values. Total: %(size)s characters.") % params,
    )


def _looks_like_json(text: str) -> bool:
    begins, ends = text[:64].lstrip()[:1], text[-64:].rstrip()[-1:]
    return f"{begins}{ends}" in ("{}", "[]")


def _loaded(text: str) -> Any:
    if not _looks_like_json(text):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _shape(value: Any, depth: int) -> str:
    if isinstance(value, dict):
        if depth >= _DEEPEST:
            return ngettext("%(n)d key", "%(n)d keys", len(value)) % {"n": len(value)}
        inside = ", ".join(
            f"{shorten(key, MAX_COLUMN_LENGTH)}: {_shape(one, depth + 1)}"
            for key, one in islice(value.items(), MAX_COLUMNS)
        )
        more = ", …" if len(value) > MAX_COLUMNS else ""
        return "{" + inside + more + "}"
    if isinstance(value, list):
        number = ngettext("%(n)s item", "%(n)s items", len(value)) % {"n": grouped(len(value))}
        return f"{number} × {_shape(value[0], depth + 1)}" if value else number
    if isinstance(value, str):
        words = ngettext("%(n)s character", "%(n)s characters", len(value))
        return words % {"n": grouped(len(value))}
    return {bool: _("true or false"), type(None): _("null")}.get(type(value), _("number"))


# --- tables ---


def is_table(item: ContentItem) -> bool:
    """Whether the content is a table in Markdown, or separated by commas, tabs or semicolons."""
    return _table(item.content) is not None


def table_shape(item: ContentItem) -> Parts:
    """Return the column names, the first row, and the number of rows."""
    table = _table(item.content)
    if table is None:
        raise ValueError("the content isn't a table")
    columns, first_rows, rows = table
    names = [shorten(name, MAX_COLUMN_LENGTH) or "-" for name in columns]
    listed = ", ".join(names[:MAX_COLUMNS]) + (", …" if len(names) > MAX_COLUMNS else "")
    first = [shorten(row, MAX_ROW_LENGTH) for row in first_rows]
    params = {"shown": len(first), "of": grouped(rows), "size": grouped(item.size)}
    return (
        _("table"),
        "\n".join([_("Columns: %(names)s") % {"names": listed}, *first]),
        _("%(shown)d of %(of)s rows shown. Total: %(size)s characters.") % params,
    )


def _table(text: str) -> tuple[list[str], list[str], int] | None:
    """Return the column names, the first rows, unchanged, and the number of rows."""
    lines = [line for line in text[:LOOKED_AT].split("\n") if line.strip()]
    if len(lines) < _MIN_ROWS:
        return None
    if "|" in lines[0] and _RULE.match(lines[1]):
        rows = sum(line.lstrip().startswith("|") or "|" in line for line in text.split("\n")) - 2
        return _cells(lines[0]), lines[2 : 2 + ROWS_SHOWN], rows
    for mark in ("\t", ",", ";"):
        parsed = _parsed(lines, mark)
        if parsed is not None:
            rows = sum(1 for line in text.split("\n") if line.strip()) - 1
            return parsed, lines[1 : 1 + ROWS_SHOWN], rows
    return None


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _parsed(lines: Iterable[str], mark: str) -> list[str] | None:
    """Return the header if the first lines have equally many cells and the header's are short."""
    some = list(islice(lines, 12))
    try:
        rows = list(csv.reader(some, delimiter=mark))
    except csv.Error:
        return None
    wide = {len(row) for row in rows}
    if len(rows) < _MIN_ROWS or len(wide) != 1 or wide <= {0, 1}:
        return None
    header = [cell.strip() for cell in rows[0]]
    is_header = all(0 < len(cell) <= MAX_COLUMN_LENGTH for cell in header)
    return header if is_header and not header[-1].endswith((".", "!", "?")) else None


# --- written by a model (R130) ---

MAX_SUMMARY_LENGTH, MAX_FACTS = 1_200, 5
MAX_TOKENS = 700


class ModelCompaction(BaseModel):
    """The model's answer."""

    summary: str = Field(max_length=MAX_SUMMARY_LENGTH, description="2 or 3 sentences")
    facts: list[str] = Field(
        default_factory=list, max_length=MAX_FACTS, description="3 to 5 facts for the goal"
    )
    id: str = Field("", max_length=80, description="the memory id that you were given")


Ask = Callable[[Sequence[Message]], ModelCompaction | None]


def question(item: ContentItem, goal: str, prompt: str = "") -> list[Message]:
    """Return the messages to the model: goal, action, the first 5,000 characters, and the id.

    `prompt` replaces Beacon's own instructions about what to keep.
    """
    values = {
        "goal": for_prompt(goal),
        "action": item.action or item.type,
        "text": for_prompt(item.content[:READ_BY_MODEL]),
        "read": grouped(min(item.size, READ_BY_MODEL)),
        "size": grouped(item.size),
        "id": item.pk,
        "prompt": prompt,
    }
    return [
        Message("system", render_to_string("prompts/compact_system.txt", values)),
        Message("user", render_to_string("prompts/compact_user.txt", values)),
    ]


# --- the compact form ---

logger = structlog.get_logger(__name__)

EXCERPT = 500  # characters of a text in its compact form (R128)
MAX_NAME_LENGTH = 40  # characters of an item's name in its citation line
# What a compactor may raise for unexpected content; then the next one is used.
_FAILURES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


# Which items it handles, and how.
Compactor = tuple[Callable[[ContentItem], bool], Callable[[ContentItem], Parts]]
_REGISTRY: dict[str, Compactor] = {}


def register_compactor(
    name: str, matches: Callable[[ContentItem], bool], compact: Callable[[ContentItem], Parts]
) -> None:
    """Add a compactor before the others; it replaces one of the same name."""
    others = {known: one for known, one in _REGISTRY.items() if known != name}
    _REGISTRY.clear()
    _REGISTRY.update({name: (matches, compact), **others})


def compactors() -> dict[str, Compactor]:
    """Return the compactors in the order in which they are tried; the default is the last."""
    return {**_REGISTRY, "default": (lambda _item: True, _default)}


# --- the forms ---


def full_form(item: ContentItem, text: str = "") -> str:
    """Return the whole result (default: the content itself) with the item's id at its end."""
    if not may_be_shown(item):
        return withheld(item)
    message = _("(Stored in memory as %(id)s.)") % {"id": item.pk}
    return f"{text or shown_to_model(item, item.content)}\n\n{message}"


def compact_form(
    item: ContentItem, *, agent: Agent | None = None, goal: str = "", ask: Ask | None = None
) -> str:
    """Return the item's compact form, never longer than its text.

    `ask` sends a question to a model: first if the agent's settings say so
    (`use_model_compaction`), else only if every compactor failed.
    """
    if not may_be_shown(item):
        return withheld(item)
    by_model = agent is not None and agent.use_model_compaction
    short = _by_model(item, agent, goal, ask) if by_model else None
    short = short or _by_compactor(item)
    short = short or (None if by_model else _by_model(item, agent, goal, ask))
    about, text, message = short or _default(item)
    whole = shown_to_model(item, item.content)
    framed = "\n".join(
        part for part in (about, shown_to_model(item, text), message, hint(item)) if part
    )
    return framed if len(framed) < len(whole) else whole


def citation_line(item: ContentItem) -> str:
    """Return one line with the item's name, size and how to get it; never longer than the item."""
    if not may_be_shown(item):
        return withheld(item)
    params = {"id": item.pk, "name": _name(item), "size": grouped(item.size)}
    line = _("%(name)s: 0 of %(size)s characters shown (retrieve_from_memory %(id)s)") % params
    whole = shown_to_model(item, item.content)
    return line if len(line) < len(whole) else whole


def hint(item: ContentItem) -> str:
    words = _(
        'Stored in memory. retrieve_from_memory(id="%(id)s") returns all of it. To get part of it, add a transform: filtered (q), excerpt (q, n), summary, first_n or last_n (n).'
    )
    return words % {"id": item.pk}


def withheld(item: ContentItem) -> str:
    """Return the placeholder for an item that models can't see."""
    return _("Only people can see memory item %(id)s.") % {"id": item.pk}


def may_be_shown(item: ContentItem) -> bool:
    """Return True if a model can see anything of the item."""
    return item.sensitivity == Sensitivity.NORMAL and item.trust != Trust.QUARANTINED


def shown_to_model(item: ContentItem, text: str) -> str:
    """Return part of the content for a model, between marks if it came from outside."""
    return as_data(text) if text and item.is_outside else text


def _name(item: ContentItem) -> str:
    """Return an item's name in one line, without a title that contains instructions."""
    title = "" if injection.injection_reason(item.title) else for_prompt(item.title)
    title = shorten(title, MAX_NAME_LENGTH)
    kind = item.action or str(item.get_type_display())
    return f"{kind} “{title}”" if title else kind


# --- choosing a compactor ---


def _by_compactor(item: ContentItem) -> Parts | None:
    for name, (matches, compact) in compactors().items():
        try:
            if matches(item):
                return compact(item)
        except _FAILURES as exc:
            logger.warning("compactor failed", compactor=name, item=str(item.pk), why=repr(exc))
            return None
    return None


def _by_model(item: ContentItem, agent: Agent | None, goal: str, ask: Ask | None) -> Parts | None:
    """Return the model's compact form; None without a model or if it fails."""
    if ask is None:
        return None
    prompt = agent.compaction_prompt if agent is not None else ""
    try:
        written = ask(question(item, goal, prompt))
    except (ProviderError, BudgetReached) as exc:
        # The call is recorded with its error; the agent gets the deterministic form.
        logger.info("not compacted by a model", item=str(item.pk), why=str(exc))
        return None
    return _written(item, written) if written is not None else None


def _written(item: ContentItem, written: ModelCompaction) -> Parts | None:
    summary = written.summary.strip()
    facts = [fact.strip() for fact in written.facts if fact.strip()]
    if not summary:
        return None
    params = {"read": grouped(min(item.size, READ_BY_MODEL)), "of": grouped(item.size)}
    return (
        _("%(name)s, summarized by a model") % {"name": _name(item)},
        "\n".join([summary, *(f"- {fact}" for fact in facts)]),
        _("Based on the first %(read)s of %(of)s characters.") % params,
    )


def _default(item: ContentItem) -> Parts:
    text = item.content[:EXCERPT]
    params = {"shown": grouped(len(text)), "of": grouped(item.size)}
    return (_name(item), text, _("The first %(shown)s of %(of)s characters are shown.") % params)


def _web_page(item: ContentItem) -> Parts:
    """Return title, URL, the first 500 characters and the length (R128)."""
    _name, text, message = _default(item)
    head = "\n".join(part for part in (item.title, item.url) if part)
    return _("Web page"), f"{head}\n\n{text}" if head else text, message


def _is_web_page(item: ContentItem) -> bool:
    return item.type == ContentItem.Type.WEB_CONTENT


def _with_name(about: Callable[[ContentItem], Parts]) -> Callable[[ContentItem], Parts]:
    """Add the item's name to a form, since the compactor only knows the content."""

    def compact(item: ContentItem) -> Parts:
        kind, text, message = about(item)
        return f"{_name(item)}: {kind}", text, message

    return compact


register_compactor("table", is_table, _with_name(table_shape))
register_compactor("json", is_json, _with_name(json_shape))
register_compactor("search results", is_search, _with_name(search_results))
register_compactor("web page", _is_web_page, _web_page)
