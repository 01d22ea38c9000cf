"""The tool that collects everything about a name: about."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from pydantic import Field

from beacon_site.text.cleaning import as_data, one_line, shorten
from memory.agents.tools.types import Arguments, MemoryTool, ToolContext, ToolResult
from memory.models import Trust
from memory.services.notes.saving import lowest_trust
from memory.services.records.kinds import named
from memory.services.search.about import About, Mention, Reader, about
from memory.services.search.kinds import KINDS
from memory.services.search.snippets import passage

MOST_MENTIONS = 50
LONGEST_MENTION = 300  # characters of a passage


class AboutArguments(Arguments):
    """A name."""

    name: str = Field(
        min_length=1,
        max_length=200,
        description="The name of a person, company, product or place, at most 60 characters.",
    )
    limit: int = Field(20, ge=1, le=MOST_MENTIONS, description="Maximum number of records.")


def _about(context: ToolContext, asked: AboutArguments) -> ToolResult:
    reader = Reader(context.owner, is_agent=True, scopes=tuple(context.scopes))
    found = about(reader, asked.name, limit=asked.limit)
    mentions = [one for one in found.mentions if context.may_read(one.record)]
    context.read([one.record for one in mentions])
    data = {
        "name": found.group.name,
        "aliases": list(found.group.names[1:]),
        "total": found.total,
        "counts": found.counts,
        "beside": [{"name": one.name, "records": one.records} for one in found.beside],
        "items": [_mention_data(one, found) for one in mentions],
        "records": [named(one.record) for one in mentions],
    }
    if not found.total:
        return ToolResult(_("No record contains this name. Try recall."), data=data)
    if found.beside:  # the names come from records that aren't all listed
        context.shown(trust=lowest_trust([Trust.OWNER, *found.trusts]))
    told = {"name": found.group.name, "total": found.total, "n": len(mentions)}
    parts = [_("%(name)s: %(total)d records. The newest %(n)d:") % told]
    own = [_line(one, found) for one in mentions if not _is_outside(one)]
    outside = [_line(one, found) for one in mentions if _is_outside(one)]
    parts += ["\n".join(own)] if own else []
    parts += [as_data("\n".join(outside))] if outside else []
    if found.beside:
        beside = ", ".join(f"{one.name} ({one.records})" for one in found.beside)
        parts += [_("Names in the same records:"), as_data(beside)]
    return ToolResult("\n\n".join(parts), data=data)


def _is_outside(mention: Mention) -> bool:
    return mention.record.trust not in (Trust.OWNER, Trust.AGENT)


def _passage(mention: Mention, found: About) -> str:
    text = KINDS[mention.type].content(mention.record)
    return one_line(passage(text, " ".join(found.group.names), LONGEST_MENTION))


def _line(mention: Mention, found: About) -> str:
    head = f"- [{mention.type}:{mention.id}] ({mention.created:%Y-%m-%d})"
    return f"{head} {_passage(mention, found)}"


def _mention_data(mention: Mention, found: About) -> dict[str, Any]:
    return {
        "id": str(mention.id),
        "type": mention.type,
        "title": shorten(mention.title, 200),
        "content": _passage(mention, found),
        "created_at": mention.created.isoformat(),
        "trust": mention.record.trust,
    }


TOOLS = (
    MemoryTool(
        "about",
        "Read everything about a name: the records that contain it, newest first, their number by type, and the names in the same records.",
        AboutArguments,
        _about,
    ),
)
