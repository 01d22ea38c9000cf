"""A run told as what its agent did: calls and their results, for whoever looks back on it.

Data flow: the plan's queries, what each service answered, the pages' rows, the run's warnings ->
messages in the order in which it happened.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers.llm import Message, ToolCall
from memory.texts.text import shorten
from research.models import Hit
from research.working.context import RunContext

MOST_TITLES = 5  # of one query's hits
_LONGEST_REASON = 200  # characters of why a service or a page gave nothing


def task_of(work: RunContext) -> str:
    """Return what the run was asked to do."""
    run, settings = work.run, work.settings
    parts = [_("Research the topic “%(topic)s”.") % {"topic": work.topic.title}]
    if settings.objective:
        parts.append(_("Objective: %(text)s") % {"text": shorten(settings.objective, 500)})
    if settings.focus:
        parts.append(_("Focus: %(text)s") % {"text": shorten(settings.focus, 300)})
    if run.is_baseline:
        parts.append(_("This was %(run)s, a baseline.") % {"run": run})
    else:
        parts.append(_("This was %(run)s: what is new since the run before.") % {"run": run})
    return " ".join(parts)


def history_of(work: RunContext) -> list[Message]:
    """Return the run as a conversation: each search and each page as a call with its result."""
    hits = list(work.run.hits.order_by("place"))
    told: list[Message] = []
    for number, query in enumerate(work.output("plan").get("queries", [])):
        told += _call(f"s{number}", "web_search", {"query": query}, _found(work, query, hits))
    for number, hit in enumerate(hits):
        if hit.reading != Hit.Reading.NOT_READ:
            told += _call(f"p{number}", "open_page", {"url": hit.link}, _read(hit))
    if work.run.warnings:
        warned = "\n".join(f"- {shorten(one, 300)}" for one in work.run.warnings)
        told.append(Message("assistant", _("What went wrong:") + f"\n{warned}"))
    # The report itself is the result, which the reflector is told beside the history.
    told.append(Message("assistant", _("I wrote the report.")))
    return told


def _call(key: str, tool: str, arguments: dict[str, Any], result: str) -> list[Message]:
    call = ToolCall(key, tool, arguments)
    return [Message("assistant", "", (call,)), Message("tool", result, (), key)]


def _found(work: RunContext, query: str, hits: list[Hit]) -> str:
    """Return what the services answered to a query, and the titles of what came."""
    lines = []
    for entry in work.output("search").get("asked", []):
        if entry["query"] != query:
            continue
        n = entry["hits"]
        words = ngettext("%(service)s: %(n)d hit", "%(service)s: %(n)d hits", n)
        words %= {"service": entry["service"], "n": n}
        why = shorten(entry["problem"], _LONGEST_REASON)
        lines.append(f"{words} ({why})" if why else words)
    own = [hit for hit in hits if any(one["query"] == query for one in hit.queries)]
    lines += [f"- {hit.title} ({hit.get_state_display()})" for hit in own[:MOST_TITLES]]
    return "\n".join(lines) or _("not asked")


def _read(hit: Hit) -> str:
    words = f"{hit.get_reading_display()}: {shorten(hit.title, 200)}"
    return f"{words} ({shorten(hit.reason, _LONGEST_REASON)})" if hit.reason else words
