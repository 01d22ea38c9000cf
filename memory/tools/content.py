"""The tools of the content store: full results, kept outside the conversation (seed 002).

What they show of an item is a view of it, and is not stored a second time.
"""

from __future__ import annotations

import json
from datetime import datetime, time, timedelta
from typing import Annotated, Any, ClassVar, Literal

from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import BeforeValidator, Field

from beacon_site.text.cleaning import as_data, clean, shorten
from beacon_site.text.dates import day_of, moment_of
from memory.content.compaction import is_outside
from memory.content.services import (
    MOST_BYTES,
    MOST_QUERIED,
    USUAL_QUERIED,
    as_text,
    query,
    retrieve,
    store,
)
from memory.content.transforms import TRANSFORMS, UNITS, View, transform
from memory.core.errors import InvalidValue
from memory.models import ContentItem
from memory.models.remembered import OWNER_SCOPE
from memory.notes.checks import listed
from memory.review.services import check_unreviewed
from memory.tools.types import Arguments, MemoryTool, ToolContext, ToolResult, named, refused

MOST_ITEMS = 100_000  # of a JSON list
SOURCE = "user"  # R241: where what this tool stores came from
NAMES = ("store_in_memory", "retrieve_from_memory", "query_memory")
_TYPES = ", ".join(ContentItem.Type.values)
_TRANSFORMS = ", ".join(TRANSFORMS)


def _joined(value: Any) -> Any:
    """Take a JSON list too: models write one where words separated by commas are asked for."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


Listed = Annotated[str, BeforeValidator(_joined)]


class StoreArguments(Arguments):
    """What to keep."""

    MOST_CHARACTERS: ClassVar[int] = 2 * MOST_BYTES  # counted in bytes where it is stored

    content: str | dict[str, Any] | Annotated[list[Any], Field(max_length=MOST_ITEMS)] = Field(
        description=f"What to keep, a text or JSON, of at most {MOST_BYTES // 1024**2} MiB."
    )
    type: str = Field(ContentItem.Type.CUSTOM.value, description=f"One of: {_TYPES}.")
    tags: Listed = Field("", description="Tags, separated by commas.")
    title: str = Field("", description="What it is called, if it has a name.")
    related_to: Listed = Field("", description="Ids of related items, separated by commas.")


class RetrieveArguments(Arguments):
    """Which item, and what of it."""

    id: str = Field(min_length=1, description="The item's id, as a result or query_memory gave it.")
    transform: str = Field(
        "full",
        description=f"One of: {_TRANSFORMS}. filtered needs q: it gives the lines that hold all of "
        "its words; excerpt gives n round the first place of q.",
    )
    n: int | None = Field(None, description="How many characters (or lines), where it takes one.")
    q: str = Field("", description="Words to look for, for filtered and excerpt.")
    unit: str = Field(UNITS[0], description="What n counts: characters or lines.")


class QueryArguments(Arguments):
    """Which items; all that is named must hold."""

    type: Literal["", "action_result", "web_content", "database_result", "custom"] = Field(
        "", description="Only of this type."
    )
    source: str = Field("", description="Only from this source: an action's name, or “user”.")
    tags: Listed = Field("", description="Tags that must all be there, separated by commas.")
    after: str = Field("", description="Stored at or after this date or moment (ISO 8601).")
    before: str = Field("", description="Stored at or before this date or moment (ISO 8601).")
    limit: int = Field(USUAL_QUERIED, ge=1, le=MOST_QUERIED, description="How many at most.")


def _store(context: ToolContext, asked: StoreArguments) -> ToolResult:
    content = as_text(asked.content)
    if not content.strip():
        return refused("invalid", _("There is nothing to store: “content” is empty."))
    related = [part.strip() for part in listed(asked.related_to)]
    for key in related:
        other = retrieve(context.owner, key, scopes=context.content_scopes)
        if other is None or not context.may_read(other):
            return _not_found(key)
    if context.content_scope == OWNER_SCOPE:
        act = _("Content that all agents share")
        check_unreviewed(context.owner, "content", by=context.by, act=act)
    item = store(
        context.owner,
        content,
        by=context.by,
        type=asked.type,
        source=SOURCE,
        scope=context.content_scope,
        tags=asked.tags,
        related_to=related,
        title=asked.title,
        topic=context.topic,
        trust=context.trust_of(content),
    )
    text = _("Stored in memory with ID: %(id)s") % {"id": item.pk}
    data = {"id": str(item.pk), "size": item.size, "records": [named(item)]}
    return ToolResult(text, data=data)


def _retrieve(context: ToolContext, asked: RetrieveArguments) -> ToolResult:
    item = retrieve(context.owner, asked.id, scopes=context.content_scopes)
    if item is None:
        return _not_found(asked.id)
    if not context.may_read(item):
        words = _("Memory item %(id)s is shown to people only.")
        return refused("sensitive", words % {"id": item.pk})
    view = transform(item.content, asked.transform, n=asked.n, q=asked.q, unit=asked.unit)
    context.read([item])
    data = {
        "id": str(item.pk),
        "transform": asked.transform,
        "shown": view.shown,
        "of": view.of,
        "unit": view.unit,
        "records": [named(item)],
    }
    return ToolResult(_told(item, view, asked), data=data | {"content": view.text})


def _told(item: ContentItem, view: View, asked: RetrieveArguments) -> str:
    """Return the view as a model reads it: how much of how much, then the text."""
    if not view.text:
        if asked.q:
            words = _("Nothing in the %(of)s %(unit)s of the item holds “%(q)s”: try other words.")
            told = {"of": f"{view.of:,}", "unit": _unit(view), "q": shorten(asked.q, 80)}
            return words % told
        return _("The item is empty.")
    text = as_data(view.text) if is_outside(item) else view.text
    return text if view.is_all else f"({view.in_words()})\n{text}"


def _unit(view: View) -> str:
    return _("lines") if view.unit == "lines" else _("characters")


def _query(context: ToolContext, asked: QueryArguments) -> ToolResult:
    found = query(
        context.owner,
        scopes=context.content_scopes,
        type=asked.type,
        source=asked.source,
        tags=asked.tags,
        after=_moment("after", asked.after),
        before=_moment("before", asked.before, is_end=True),
        limit=asked.limit,
        for_agent=True,
    )
    items = [_metadata(item) for item in found]
    if not items:
        return ToolResult(_("Nothing in memory fits."), data={"items": []})
    text = json.dumps(items, ensure_ascii=False, indent=1)
    if any(is_outside(item) for item in found):
        # Titles and addresses are words from outside, too.
        context.shown(*found)
        text = as_data(text)
    return ToolResult(text, data={"items": items})


def _metadata(item: ContentItem) -> dict[str, Any]:
    """Return what is known of an item, never its content (R116)."""
    told = {
        "id": str(item.pk),
        "type": item.type,
        "source": item.source,
        "timestamp": item.created.isoformat(),
        "size": item.size,
        "tags": item.tags,
    }
    more = {"title": shorten(item.title, 200), "url": item.url, "scope": item.scope}
    return told | {name: value for name, value in more.items() if value}


def _moment(field: str, text: str, *, is_end: bool = False) -> datetime | None:
    """Return the moment that is named; a day ends at its end.  Raises InvalidValue."""
    text = clean(text)[0].strip()
    if not text:
        return None
    at = moment_of(text) if "T" in text or " " in text else None
    day = None if at else day_of(text)
    if day is not None:
        at = datetime.combine(day, time.min) + (
            timedelta(days=1, microseconds=-1) if is_end else timedelta()
        )
    if at is None:
        problem = _(
            "“%(name)s” is no date: write it as 2026-02-23 or 2026-02-23T14:30:00Z; this is "
            "“%(value)s”."
        ) % {"name": field, "value": shorten(text, 40)}
        raise InvalidValue(problem, errors={field: [problem]})
    return at if timezone.is_aware(at) else timezone.make_aware(at)


def _not_found(key: str) -> ToolResult:
    """Say that there is no such item, in the words of seed 002, and what to do."""
    words = _("Memory item not found: %(id)s. query_memory lists what there is.")
    return refused("not_found", words % {"id": shorten(clean(key)[0], 80)})


TOOLS = (
    MemoryTool(
        "store_in_memory",
        "Keep a text or JSON in full, outside the conversation; the answer names its id, by which "
        "retrieve_from_memory gives it back, whole or in part.",
        StoreArguments,
        _store,
        writes=True,
    ),
    MemoryTool(
        "retrieve_from_memory",
        "Get a kept item back by its id: all of it, or a part of it.",
        RetrieveArguments,
        _retrieve,
    ),
    MemoryTool(
        "query_memory",
        "List kept items by type, source, tags and time: what is known of them, not their content.",
        QueryArguments,
        _query,
    ),
)
