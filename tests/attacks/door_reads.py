"""Every read action, by REST and MCP, and whether it shows text from outside.

An operation that reads and a tool that does not write each need a row: test_doors.py fails for one
without.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.attacks.doors import MEMORY, MONTH, OUTSIDE, Answer, World


@dataclass(frozen=True, slots=True)
class Show:
    """One way to read: `outside` means that it shows text of a page here."""

    name: str
    outside: bool
    do: Callable[[World], Answer]


def _get(path: str) -> Callable[[World], Answer]:
    return lambda w: w.rest("GET", path)


def _topic(rest: str = "") -> Callable[[World], Answer]:
    return lambda w: w.rest("GET", f"/topics/{w.persons_topic.slug}{rest}")


def _shared(rest: str = "") -> Callable[[World], Answer]:
    return lambda w: w.rest("GET", f"/shared-topics/{w.more['shared'].pk}{rest}")


SHOWS = (
    Show("list_files", True, _get("/files")),
    Show("list_file_revisions", False, _get(f"/files/{MEMORY}/revisions")),
    Show("read_file", True, _get(f"/files/{MONTH}")),
    Show("list_notes", True, _get("/notes")),
    Show("read_note", True, lambda w: w.rest("GET", f"/notes/{w.outside_note.pk}")),
    Show("list_observations", True, _get("/observations")),
    Show(
        "read_observation",
        True,
        lambda w: w.rest("GET", f"/observations/{w.outside_observation.pk}"),
    ),
    Show("list_documents", True, _get("/library")),
    Show("read_document", True, lambda w: w.rest("GET", f"/library/{w.outside_document.pk}")),
    Show("query_content", True, _get("/content")),
    Show("show_content", True, lambda w: w.rest("GET", f"/content/{w.outside_item.pk}")),
    Show("read_context", True, lambda w: w.rest("POST", "/context", {"message": OUTSIDE})),
    Show("read_settings", False, _get("/settings")),
    Show("recall", True, _get(f"/recall?q={OUTSIDE}")),
    Show("list_related", True, lambda w: w.rest("GET", f"/related/{w.outside_note.pk}")),
    Show("show_about", True, _get(f"/about?name={OUTSIDE}")),
    Show("list_entries", True, _get("/scratchpad")),
    Show("read_entry", True, _get("/scratchpad/web")),
    Show("read_session", True, lambda w: w.rest("GET", f"/sessions/{w.session.pk}")),
    Show("list_trash", True, _get("/trash")),
    Show("read_run", False, lambda w: w.rest("GET", f"/runs/{w.run.pk}")),
    Show("read_run_report", True, lambda w: w.rest("GET", f"/runs/{w.run.pk}/report")),
    Show("list_sources", True, _topic("/sources?by=page")),
    Show("list_topics", True, _get("/topics")),
    Show("read_topic", True, _topic()),
    Show("read_topic_memory", True, _topic("/memory")),
    Show("read_since", True, _topic("/since-read")),
    Show("read_forecast", False, _topic("/forecast")),
    Show("list_runs", False, _topic("/runs")),
    Show("read_report", True, _topic("/reports/2")),
    Show("list_shared_topics", True, _get("/shared-topics")),
    Show("read_shared_topic", True, _shared()),
    Show("list_shared_reports", True, _shared("/reports")),
    Show("read_shared_report", True, _shared("/reports/2")),
    Show("read_shared_settings", True, _shared("/settings")),
    Show("list_comments", True, _shared("/reports/2/comments")),
    Show("read_shared_news", True, _shared("/since-read")),
    # The tools and attachments of MCP.
    Show("memory_list", True, lambda w: w.tool("memory_list")),
    Show("memory_read", True, lambda w: w.tool("memory_read", path=MONTH)),
    Show("recall (tool)", True, lambda w: w.tool("recall", query=OUTSIDE)),
    Show("retrieve", True, lambda w: w.tool("retrieve", id=str(w.outside_note.pk))),
    Show("list_memory", True, lambda w: w.tool("list_memory")),
    Show("about", True, lambda w: w.tool("about", name=OUTSIDE)),
    Show("get_context", True, lambda w: w.tool("get_context", message=OUTSIDE)),
    Show("scratchpad_get", True, lambda w: w.tool("scratchpad_get", key="web")),
    Show("scratchpad_list", False, lambda w: w.tool("scratchpad_list")),
    Show("scratchpad_search", True, lambda w: w.tool("scratchpad_search", text=OUTSIDE)),
    Show(
        "retrieve_from_memory",
        True,
        lambda w: w.tool("retrieve_from_memory", id=str(w.outside_item.pk)),
    ),
    Show("query_memory", True, lambda w: w.tool("query_memory")),
    Show("get_report", True, lambda w: w.tool("get_report", run=w.run.pk)),
    Show("resource: a file", True, lambda w: w.desk.resource(f"beacon://files/{MONTH}")),
    Show(
        "resource: a report",
        True,
        lambda w: w.desk.resource(f"beacon://reports/{w.persons_topic.slug}"),
    ),
)
