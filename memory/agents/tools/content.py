"""Content store tools: keep full results outside the conversation (seed 002).

They return a view of an item, which isn't stored a second time.
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
from beacon_site.text.messages import grouped
from memory.agents.tools.types import (
    Arguments,
    MemoryTool,
    ToolContext,
    ToolResult,
    record_entry,
    refused,
)
from memory.models import ContentItem
from memory.models.errors import InvalidValue
from memory.models.remembered import OWNER_SCOPE
from memory.services.content.items import (
    MAX_BYTES,
    MAX_QUERIED,
    USUAL_QUERIED,
    as_text,
    query,
    retrieve,
    store,
)
from memory.services.content.transforms import TRANSFORMS, UNITS, View, transform
from memory.services.notes.saving import listed
from memory.services.review.proposals import check_unreviewed

MAX_ITEMS = 100_000  # of a JSON list
SOURCE = "user"  # R241: the source of what this tool stores
NAMES = ("store_in_memory", "retrieve_from_memory", "query_memory")
_TYPES = ", ".join(ContentItem.Type.values)
_TRANSFORMS = ", ".join(TRANSFORMS)


def _joined(value: Any) -> Any:
    """Also accept a JSON list: models write one where comma-separated words are expected."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


Listed = Annotated[str, BeforeValidator(_joined)]


class StoreArguments(Arguments):
    """What to keep."""

    MAX_CHARACTERS: ClassVar[int] = 2 * MAX_BYTES  # limited in bytes when it is stored

    content: str | dict[str, Any] | Annotated[list[Any], Field(max_length=MAX_ITEMS)] = Field(
        description=f"The text or JSON to store, at most {MAX_BYTES // 1024**2} MiB."
    )
    type: str = Field(ContentItem.Type.CUSTOM.value, description=f"One of: {_TYPES}.")
    tags: Listed = Field("", description="Tags, separated by commas.")
    title: str = Field("", description="A title, if the item has one.")
    related_to: Listed = Field("", description="IDs of related items, separated by commas.")


class RetrieveArguments(Arguments):
    """Which item, and which part of it."""

    id: str = Field(min_length=1, description="The item's ID, from a result or query_memory.")
    transform: str = Field(
        "full",
        description=f"One of: {_TRANSFORMS}. filtered needs q and returns the lines that contain all its words. excerpt returns n characters or lines around the first match of q.",
    )
    n: int | None = Field(
        None, description="Number of characters or lines, for transforms that use it."
    )
    q: str = Field("", description="Words to search for. Only for filtered and excerpt.")
    unit: str = Field(UNITS[0], description="Unit of n: characters or lines.")


class QueryArguments(Arguments):
    """Filters, all of which must match."""

    type: Literal["", "action_result", "web_content", "database_result", "custom"] = Field(
        "", description="Only this type."
    )
    source: str = Field("", description="Only this source: the name of an action, or “user”.")
    tags: Listed = Field("", description="Only items with all of these tags, separated by commas.")
    after: str = Field("", description="Stored at or after this date or time (ISO 8601).")
    before: str = Field("", description="Stored at or before this date or time (ISO 8601).")
    limit: int = Field(USUAL_QUERIED, ge=1, le=MAX_QUERIED, description="Maximum number of items.")


def _store(context: ToolContext, args: StoreArguments) -> ToolResult:
    content = as_text(args.content)
    if not content.strip():
        return refused("invalid", _("Nothing was stored because “content” is empty."))
    related = [part.strip() for part in listed(args.related_to)]
    for key in related:
        other = retrieve(context.owner, key, scopes=context.content_scopes)
        if other is None or not context.may_read(other):
            return _not_found(key)
    if context.content_scope == OWNER_SCOPE:
        act = _("Storing content for all agents")
        check_unreviewed(context.owner, "content", by=context.by, act=act)
    item = store(
        context.owner,
        content,
        by=context.by,
        type=args.type,
        source=SOURCE,
        scope=context.content_scope,
        tags=args.tags,
        related_to=related,
        title=args.title,
        topic=context.topic,
        trust=context.trust_of(content),
    )
    text = _("Stored in memory with ID: %(id)s") % {"id": item.pk}
    data = {"id": str(item.pk), "size": item.size, "records": [record_entry(item)]}
    return ToolResult(text, data=data)


def _retrieve(context: ToolContext, args: RetrieveArguments) -> ToolResult:
    item = retrieve(context.owner, args.id, scopes=context.content_scopes)
    if item is None:
        return _not_found(args.id)
    if not context.may_read(item):
        words = _("Only people can see memory item %(id)s.")
        return refused("sensitive", words % {"id": item.pk})
    view = transform(item.content, args.transform, n=args.n, q=args.q, unit=args.unit)
    context.read([item])
    data = {
        "id": str(item.pk),
        "transform": args.transform,
        "shown": view.shown,
        "of": view.of,
        "unit": view.unit,
        "records": [record_entry(item)],
    }
    return ToolResult(_view_text(item, view, args), data=data | {"content": view.text})


def _view_text(item: ContentItem, view: View, args: RetrieveArguments) -> str:
    """Return the view for a model: the size shown and the full size, then the text."""
    if not view.text:
        if args.q:
            words = _("No match for “%(q)s” in the item’s %(of)s %(unit)s. Try different words.")
            params = {"of": grouped(view.of), "unit": _unit(view), "q": shorten(args.q, 80)}
            return words % params
        return _("The item is empty.")
    text = as_data(view.text) if item.is_outside else view.text
    return text if view.is_all else f"({view.description()})\n{text}"


def _unit(view: View) -> str:
    return _("lines") if view.unit == "lines" else _("characters")


def _query(context: ToolContext, args: QueryArguments) -> ToolResult:
    found = query(
        context.owner,
        scopes=context.content_scopes,
        type=args.type,
        source=args.source,
        tags=args.tags,
        after=_moment("after", args.after),
        before=_moment("before", args.before, is_end=True),
        limit=args.limit,
        for_agent=True,
    )
    items = [_metadata(item) for item in found]
    if not items:
        return ToolResult(_("No matching items in memory."), data={"items": []})
    text = json.dumps(items, ensure_ascii=False, indent=1)
    if any(item.is_outside for item in found):
        # Titles and URLs can come from outside, too.
        context.shown(*found)
        text = as_data(text)
    return ToolResult(text, data={"items": items})


def _metadata(item: ContentItem) -> dict[str, Any]:
    """Return the item's metadata, never its content (R116)."""
    values = {
        "id": str(item.pk),
        "type": item.type,
        "source": item.source,
        "timestamp": item.created.isoformat(),
        "size": item.size,
        "tags": item.tags,
    }
    more = {"title": shorten(item.title, 200), "url": item.url, "scope": item.scope}
    return values | {name: value for name, value in more.items() if value}


def _moment(field: str, text: str, *, is_end: bool = False) -> datetime | None:
    """Return the time of an ISO 8601 value; a date counts to its end.  Raises InvalidValue."""
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
            "“%(name)s” must be a date such as 2026-02-23 or 2026-02-23T14:30:00Z, not “%(value)s”."
        ) % {"name": field, "value": shorten(text, 40)}
        raise InvalidValue(problem, errors={field: [problem]})
    return at if timezone.is_aware(at) else timezone.make_aware(at)


def _not_found(key: str) -> ToolResult:
    """Return the “not found” answer of seed 002, with the next step."""
    words = _("Memory item not found: %(id)s. Use query_memory to list the items.")
    return refused("not_found", words % {"id": shorten(clean(key)[0], 80)})


TOOLS = (
    MemoryTool(
        "store_in_memory",
        "Store a text or JSON in full, outside the conversation. Returns an ID for retrieve_from_memory, which returns all or part of it.",
        StoreArguments,
        _store,
        writes=True,
    ),
    MemoryTool(
        "retrieve_from_memory",
        "Read all or part of a stored item by its ID.",
        RetrieveArguments,
        _retrieve,
    ),
    MemoryTool(
        "query_memory",
        "List stored items by type, source, tags and time. Returns their metadata, not their content.",
        QueryArguments,
        _query,
    ),
)
