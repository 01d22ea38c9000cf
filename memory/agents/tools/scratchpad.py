"""The tools of the scratchpad: values under keys, for work in progress (seed 001)."""

from __future__ import annotations

from django.utils.translation import gettext as _
from pydantic import Field

from beacon_site.text.cleaning import as_data, one_line, shorten
from memory.agents.tools.types import (
    Arguments,
    MemoryTool,
    ToolContext,
    ToolResult,
    record_entry,
    refused,
)
from memory.models import ScratchpadEntry
from memory.models.errors import NoSuchKey
from memory.models.remembered import OWNER_SCOPE
from memory.services import scratchpad
from memory.services.review.proposals import check_unreviewed

MAX_LISTED = 200
_PRIVATE = "true: entries of only this session, run or agent. false: entries that all of the owner's agents share."


class KeyArguments(Arguments):
    """Which entry."""

    key: str = Field(description="The key, one line of at most 200 characters.")
    private: bool = Field(False, description=_PRIVATE)


class SetArguments(KeyArguments):
    """Which entry, and what to put there."""

    value: str = Field(description="The new value, at most 64 KiB.")


class ListArguments(Arguments):
    """Which entries."""

    prefix: str = Field(
        "", description="Only keys that begin with this text. Leave empty for all keys."
    )
    private: bool = Field(False, description=_PRIVATE)


class SearchArguments(Arguments):
    """A text search."""

    text: str = Field(
        min_length=1, description="Text to find in keys or values. Case doesn't matter."
    )
    private: bool = Field(False, description=_PRIVATE)


def _scope(context: ToolContext, *, private: bool) -> str:
    return context.scope if private else OWNER_SCOPE


def _get(context: ToolContext, args: KeyArguments) -> ToolResult:
    scope = _scope(context, private=args.private)
    entry = scratchpad.get_entry(context.owner, args.key, scope=scope)
    if not context.may_read(entry):
        return refused("sensitive", _("Only people can see “%(key)s”.") % {"key": entry.key})
    context.read([entry])
    data = {"key": entry.key, "value": entry.value, "version": entry.version}
    return ToolResult(_value_for_model(entry), data={**data, "records": [record_entry(entry)]})


def _set(context: ToolContext, args: SetArguments) -> ToolResult:
    if hidden := _hidden(context, args):
        return hidden
    scope = _scope(context, private=args.private)
    if scope == OWNER_SCOPE:
        act = _("Saving a value for all agents")
        check_unreviewed(context.owner, "scratchpad", by=context.by, act=act)
    entry = scratchpad.set_value(
        context.owner,
        args.key,
        args.value,
        by=context.by,
        scope=scope,
        source=context.source,
        trust=context.write_trust,
    )
    params = {"key": entry.key, "who": scratchpad.retention_label(entry.scope)}
    text = _("Set “%(key)s” (%(who)s).") % params
    return ToolResult(
        text, data={"key": entry.key, "version": entry.version, "records": [record_entry(entry)]}
    )


def _hidden(context: ToolContext, args: SetArguments) -> ToolResult | None:
    """Return the answer if agents can't see the key; None if it can be set."""
    try:
        entry = scratchpad.get_entry(
            context.owner, args.key, scope=_scope(context, private=args.private)
        )
    except NoSuchKey:
        return None
    if context.may_read(entry):
        return None
    return refused("sensitive", _("Only people can see “%(key)s”.") % {"key": entry.key})


def _list(context: ToolContext, args: ListArguments) -> ToolResult:
    scope = _scope(context, private=args.private)
    rows = scratchpad.entries(context.owner, args.prefix, scope=scope)
    rows = rows.for_agents()
    found = list(rows.only("key", "trust")[: MAX_LISTED + 1])
    context.shown(*found[:MAX_LISTED])
    keys = [entry.key for entry in found]
    if not keys:
        text = (
            _("No key begins with “%(prefix)s”.") % {"prefix": args.prefix}
            if args.prefix
            else _("The scratchpad is empty.")
        )
        return ToolResult(text, data={"keys": []})
    text = "\n".join(keys[:MAX_LISTED])
    if len(keys) > MAX_LISTED:
        text += "\n" + _("… and more. To narrow the results, use a longer prefix.")
    return ToolResult(text, data={"keys": keys[:MAX_LISTED]})


def _search(context: ToolContext, args: SearchArguments) -> ToolResult:
    scope = _scope(context, private=args.private)
    rows = scratchpad.search(context.owner, args.text, scope=scope)
    found = [entry for entry in rows[: MAX_LISTED + 1] if context.may_read(entry)]
    shown = found[:MAX_LISTED]
    context.read(shown)
    if not shown:
        text = _("No key or value contains “%(text)s”.") % {"text": shorten(args.text, 80)}
        return ToolResult(text, data={"entries": []})
    lines = [f"{entry.key}: {_brief(entry)}" for entry in shown]
    if len(found) > MAX_LISTED:
        lines.append(_("… and more. To narrow the results, use a more specific search."))
    entries = [{"key": entry.key, "value": _brief(entry)} for entry in shown]
    return ToolResult("\n".join(lines), data={"entries": entries})


def _brief(entry: ScratchpadEntry) -> str:
    return shorten(one_line(entry.value), 300)


def _value_for_model(entry: ScratchpadEntry) -> str:
    outside = entry.trust not in ("owner", "agent")
    return as_data(entry.value) if outside else entry.value


TOOLS = (
    MemoryTool(
        "scratchpad_get",
        "Read the value of a scratchpad key.",
        KeyArguments,
        _get,
    ),
    MemoryTool(
        "scratchpad_set",
        "Set the value of a scratchpad key, for work in progress. Old values stay in its history. Use remember or a memory file for anything worth knowing later.",
        SetArguments,
        _set,
        writes=True,
    ),
    MemoryTool("scratchpad_list", "List the scratchpad's keys, sorted.", ListArguments, _list),
    MemoryTool(
        "scratchpad_search",
        "Find scratchpad entries by text in their key or value.",
        SearchArguments,
        _search,
    ),
)
