"""Every place that shows other people's text, and the request for it.

A sink is checked by opening each of its addresses with rows in which everything is hostile
(poisoning.py), as a page and as htmx asks for it.  What isn't a page is made by its own function
(test_sent.py), and what a request brings along is sent back by forms (test_reflected.py).
"""

from __future__ import annotations

from functools import cache

# Sink: the routes that show it.  `admin` stands for all pages of the admin.
SINKS = {
    "report: body, summary, title, delta, citations": "run",
    "report: one sentence, its checks and corrections": "report-sentences sentence-correct topic-corrections",
    "report: one source with its quote": "run-source",
    "report: exports as HTML, Markdown, CSV, JSON": "run-export",
    "reports: the list": "reports",
    "run: live part, warnings, errors, steps": "run-progress",
    "run: trace, model calls, tool calls": "run-trace",
    "run: share it, shared links": "report-share shared-links",
    "topic: shared with members": "topic-people shared-topic shared-topic-facts shared-topic-sources shared-topic-reports shared-topic-report shared-topic-settings comment",
    "run: moved to Trash": "run-trash",
    "two runs compared": "compare",
    "topic: title, description, labels": "topic topics home topic-runs topic-duplicate",
    "topic: forms that hold what was typed": "topic-new topic-known schedule-preview topic-settings topic-forecast",
    "topic: timeline, calendar": "topic-timeline-moved calendar schedule-missed",
    "topic: facts": "topic-facts fact fact-edit fact-history fact-question",
    "topic: memory": "topic-memory topic-memory-json topic-purge topics-trash",
    "topic: sources, labels, snippets": "topic-sources sources-export source-rules read-next",
    "topic: rules, intent, notices": "topic-rules topic-notices rule-add",
    "note": "remember also-known notes note note-new note-edit note-history note-supersede notes-merge notes-maintain record-inline",
    "observation": "observations observation observation-new observation-edit observation-history",
    "record: acts, bulk acts, purge, undo": "record-open record-purge record-restore-revision bulk-progress records-bulk views-save",
    "scratchpad": "scratchpad scratchpad-new scratchpad-edit",
    "file: sections": "files file file-lock file-condense file-timeline episode-new",
    "file: source, edit, preview, draft": "file-source file-edit file-preview file-draft",
    "file: history, compare, blame": "file-history file-compare file-blame",
    "library": "library library-add library-document library-edit library-check",
    "content kept of pages": "content content-item content-raw",
    "snapshots": "content-snapshots content-snapshot content-snapshot-json content-snapshot-take content-snapshot-upload",
    "search: hits and snippets": "recall recall-file memory-panel memory-bulk palette ratings rate",
    "context for agents": "context context-text",
    "Ask: conversations and answers": "ask session session-rename session-saved message",
    "review": "review proposal review-levels",
    "quarantine, refused sources": "quarantine refused-sources source-refuse source-forget",
    "conflicts": "conflicts conflict",
    "trash": "trash trash-empty",
    "activity log": "activity activity-change activity-file",
    "digest on the web": "digests digest",
    "channels, deliveries, stored emails": "channels channel channel-new delivery stored-emails digest-settings",
    "identity: soul, persona, profile": "soul persona profile",
    "settings": "settings sign-ins app-set-up recovery-codes method-remove passkey-add single-sign-on-link single-sign-on-unlink tokens agents agent account-delete password",
    "settings of the site: people, connections, health": "people person-disable person-code-off person-enable person-delete connections connection health",
    "spending": "spending spending-limits own-key spending-csv",
    "archives": "archive archive-row archive-file archive-choose archive-import archive-confirm archive-stop archive-retry",
    "admin": "admin",
}  # fmt: skip

# Modules that call something safe: the sinks at which their output is checked.
MADE_SAFE = {
    "beacon_site/web/template_tags.py": "run: live part, warnings, errors, steps",
    "memory/admin.py": "admin",
    "beacon_site/web/responses.py": "topic: forms that hold what was typed",
    "research/services/reports/reading.py": "report: body, summary, title, delta, citations",
    "beacon_site/text/markdown.py": "report: body, summary, title, delta, citations",
    "memory/pages/records/record.py": "search: hits and snippets",
    "memory/pages/ratings.py": "search: hits and snippets",
    "memory/pages/shared/filter_bar.py": "search: hits and snippets",
    "memory/pages/review/proposals.py": "review",
    "memory/pages/review/views.py": "review",
    "memory/services/search/snippets.py": "search: hits and snippets",
    "memory/pages/chat.py": "Ask: conversations and answers",
    "research/services/reports/compare.py": "two runs compared",
    "research/services/reports/delta_rows.py": "report: body, summary, title, delta, citations",
    "research/services/reports/exporting.py": "report: exports as HTML, Markdown, CSV, JSON",
    "research/services/topics/topic_form.py": "topic: forms that hold what was typed",
    "research/pages/shared_topics.py": "topic: shared with members",
    "research/pages/topic_settings.py": "topic: forms that hold what was typed",
    "research/services/reports/page.py": "report: body, summary, title, delta, citations",
    "research/services/runs/reporting/sentences.py": "report: one sentence, its checks and corrections",
    "research/services/reports/since_read.py": "topic: title, description, labels",
    "research/pages/places.py": "search: hits and snippets",
    "research/pages/topic_list.py": "topic: title, description, labels",
    "research/pages/runs.py": "run: live part, warnings, errors, steps",
}


@cache
def sink_of(route: str) -> str:
    """Return the sink that a route belongs to, or nothing."""
    name = route.rpartition(":")[2]
    return next((sink for sink, routes in SINKS.items() if name in routes.split()), "")
