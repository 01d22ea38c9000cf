"""What programs can attach: memory files and reports, as Markdown under addresses of Beacon's own.

`beacon://files/facts/user.md`; `beacon://reports/<topic>` (the newest), `beacon://reports/<topic>/3`.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from django.utils.translation import gettext as _
from mcp import types

from memory.errors import MemoryRefused
from memory.files.reading import files_of, read_file
from memory.models import Trust
from memory.texts.text import as_data, clean, shorten, without_citations
from memory.toolkit.types import ToolContext
from research.mcp.callers import Caller
from research.models import Report

MARKDOWN = "text/markdown"
FILES, REPORTS = "beacon://files/", "beacon://reports/"
MOST_REPORTS = 50  # a page
_REPORT = re.compile(r"([^/?#]{1,300})(?:/([1-9]\d{0,8}))?")


class NoSuchResource(Exception):
    """There is nothing at this address, or nothing for this program; the text says so."""


def page_of(caller: Caller, cursor: str | None) -> types.ListResourcesResult:
    """Return memory files, then the owner's reports, the newest first; `cursor` leads on.

    Raises NoSuchResource for a cursor that no list gave.
    """
    if cursor and not re.fullmatch(r"\d{1,6}", cursor):
        words = _("This cursor is none of this list's: leave it out for the first page.")
        raise NoSuchResource(words)
    with caller.entered() as (context, scopes):
        _check_may_read(scopes)
        reports = Report.objects.of(context.owner).with_number().live()
        reports = reports.filter(run__topic__trashed_at=None).for_agents()
        reports = reports.select_related("run__topic")
        number = int(cursor or 0)
        rows = list(reports[number : number + MOST_REPORTS + 1])
        context.shown(*rows[:MOST_REPORTS])  # by titles and summaries
        found = [_report(row) for row in rows[:MOST_REPORTS]]
        if not number:
            found = [*_files(context), *found]
    goes_on = str(number + MOST_REPORTS) if len(rows) > MOST_REPORTS else None
    return types.ListResourcesResult(resources=found, next_cursor=goes_on)


def _files(context: ToolContext) -> list[types.Resource]:
    files = [file for file in files_of(context.owner) if context.may_read(file)]
    context.shown(*files)
    return [
        types.Resource(
            uri=FILES + quote(file.path),
            name=file.path,
            description=file.summary or None,
            mime_type=MARKDOWN,
            size=file.size,
        )
        for file in files
    ]


def _report(report: Report) -> types.Resource:
    topic = report.run.topic
    told = {"topic": shorten(topic.title, 80), "number": report.run.number}
    return types.Resource(
        uri=f"{REPORTS}{quote(topic.slug)}/{report.run.number}",
        name=_("%(topic)s, Run #%(number)s") % told,
        title=shorten(report.title, 200),
        description=shorten(without_citations(report.summary), 300) or None,
        mime_type=MARKDOWN,
    )


def templates() -> list[types.ResourceTemplate]:
    """Return the manners in which addresses are made."""
    return [
        types.ResourceTemplate(
            uri_template=FILES + "{+path}",
            name="memory file",
            description=_("facts/user.md, facts/memory.md, or a month as episodes/2026-02.md."),
            mime_type=MARKDOWN,
        ),
        types.ResourceTemplate(
            uri_template=REPORTS + "{topic}",
            name="newest report",
            description=_("The newest report of a topic, by the topic's slug."),
            mime_type=MARKDOWN,
        ),
        types.ResourceTemplate(
            uri_template=REPORTS + "{topic}/{number}",
            name="report",
            description=_("One report of a topic, by slug and number."),
            mime_type=MARKDOWN,
        ),
    ]


def read(caller: Caller, uri: str) -> str:
    """Return the text at an address; what came from outside stands between marks.

    Raises NoSuchResource in words.
    """
    with caller.entered() as (context, scopes):
        _check_may_read(scopes)
        if uri.startswith(FILES):
            return _file_text(context, unquote(uri.removeprefix(FILES)))
        if uri.startswith(REPORTS):
            return _report_text(context, uri.removeprefix(REPORTS))
        raise NoSuchResource(_not_there(uri))


def _check_may_read(scopes: frozenset[str]) -> None:
    """Raise NoSuchResource for a token that only writes."""
    if not scopes & {"read", "admin"}:
        raise NoSuchResource(
            _(
                "This token does not read: it lacks the scope read. The person can make one that "
                "has it under Settings, API tokens."
            )
        )


def _file_text(context: ToolContext, path: str) -> str:
    try:
        file = read_file(context.owner, path)
    except MemoryRefused as exc:
        raise NoSuchResource(str(exc)) from exc
    if not context.may_read(file):
        raise NoSuchResource(_("%(path)s is shown to people only.") % {"path": file.path})
    context.seen[file.path] = file.version
    context.read([file])
    return _marked(file.content, file.trust)


def _report_text(context: ToolContext, rest: str) -> str:
    matched, slug = _REPORT.fullmatch(rest), unquote(rest.partition("/")[0])
    if matched is None or clean(slug)[0] != slug:
        raise NoSuchResource(_not_there(REPORTS + rest))
    reports = Report.objects.of(context.owner).with_number().live().select_related("run__topic")
    reports = reports.filter(run__topic__slug=slug, run__topic__trashed_at=None)
    if matched[2]:
        reports = reports.filter(run__number=int(matched[2]))
    report = reports.first()
    if report is None or not context.may_read(report):
        raise NoSuchResource(_not_there(REPORTS + rest))
    context.read([report])
    return _marked(report.as_markdown(), report.trust)


def _marked(text: str, trust: str) -> str:
    return text if trust in (Trust.OWNER, Trust.AGENT) else as_data(text)


def _not_there(uri: str) -> str:
    told = {"uri": shorten(uri, 200)}
    return _("There is nothing at %(uri)s. resources/list shows what there is.") % told
