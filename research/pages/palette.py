"""The palette (`Ctrl K`): actions, pages, and items found by name.

The number of queries is fixed. The last row opens a full search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.vary import vary_on_headers

from beacon_site.db.message_fields import with_words
from beacon_site.text.cleaning import clean, in_brief
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import signed_in
from memory.models import (
    LibraryDocument,
    MemoryFile,
    Note,
    Observation,
    Session,
    Topic,
    TopicFact,
    User,
)
from memory.services.search import bm25, kinds
from memory.services.search.snippets import passage
from research.models import Report
from research.pages.places import SettingsGroup, every_place, settings_pages

MAX = 6  # rows per group
MAX_LENGTH = 200  # characters of a query, because no name is longer
MAX_WORDS = 8
MAX_SHOWN_LENGTH = 90  # characters of a record
_BY_RUN = Q(kind="summary", source__startswith="run:")
FEW_RUNS = 1  # summaries of runs next to facts that match


@dataclass(frozen=True, slots=True)
class Row:
    """One destination."""

    label: str
    url: str
    icon: str
    about: str = ""


def search_words(value: str) -> str:
    """Return the typed text as search words."""
    return " ".join(clean(value)[0].split()[:MAX_WORDS])[:MAX_LENGTH].strip()


def offered(
    user: User,
    words: str,
    settings: Sequence[SettingsGroup],
) -> list[tuple[str, list[Row]]]:
    """Return the matches in groups, each with its heading. Without words, return recent items and the actions.

    `settings` are the groups of Settings (`research.pages.places`).
    """
    groups = [(_("Topics"), _topics(user, words))]
    if words:
        facts, findings = _facts(user, words), _findings(user, words)
        few = FEW_RUNS if facts or findings else MAX
        groups += [
            (_("Go to"), _holding(words, [*_pages(), *_settings(settings)])),
            (_("Actions"), _holding(words, _acts())),
            (_("Facts"), facts),
            (_("Files and library"), [*_files(user, words), *_documents(user, words)][:MAX]),
            (_("Notes"), _notes(user, words, few_runs=few)),
            (_("Observations"), findings),
            (_("More"), _further(words)),
        ]
    else:
        groups += [(_("Recent"), _recent(user)), (_("Actions"), _acts())]
    return [(title, rows) for title, rows in groups if rows]


def _holding(words: str, rows: Sequence[Row]) -> list[Row]:
    """Keep the rows that contain all of these words. Those that start with them come first."""
    value = words.casefold()
    found = [
        row
        for row in rows
        if all(word in f"{row.label} {row.about}".casefold() for word in value.split())
    ]
    return sorted(found, key=lambda row: not row.label.casefold().startswith(value))[:MAX]


def _topics(user: User, words: str) -> list[Row]:
    topics = Topic.objects.for_user(user).live() if words else Topic.objects.for_user(user).active()
    topics = with_words(topics, words, "title", "labels")
    return [
        Row(
            topic.title,
            reverse("research:topic", args=[topic.slug]),
            "topics",
            _("archived") if topic.archived_at else "",
        )
        for topic in topics.only("title", "slug", "archived_at").order_by("-updated")[:MAX]
    ]


def _files(user: User, words: str) -> list[Row]:
    files = with_words(MemoryFile.objects.for_user(user).live(), words, "path", "summary")
    return [
        Row(one.path, one.get_absolute_url(), "files", in_brief(one.summary, 60))
        for one in files.only("path", "summary")[:MAX]
    ]


def _documents(user: User, words: str) -> list[Row]:
    documents = with_words(LibraryDocument.objects.readable_by(user).live(), words, "title")
    found = documents.only("title").order_by("-updated")[:MAX]
    return [Row(one.title, one.get_absolute_url(), "library", _("Library")) for one in found]


def _best(user: User, kind: str, words: str, active: Any) -> list[Any]:
    """Return the best matching records of a kind, by whole words as in memory search."""
    best = [found for found, _score in bm25.search(user, kind, words, 2 * MAX)]
    rows = {row.pk: row for row in active.filter(pk__in=best)}
    return [rows[key] for key in best if key in rows]


def _facts(user: User, words: str) -> list[Row]:
    current = TopicFact.objects.for_user(user).current().filter(topic__trashed_at=None)
    found = _best(user, "fact", words, current.select_related("topic"))[:MAX]
    return [
        Row(
            _matching_line(one.text, words), kinds.KINDS["fact"].url(one), "topics", one.topic.title
        )
        for one in found
    ]


def _findings(user: User, words: str) -> list[Row]:
    """Return observations, without those that repeat a fact: a current one is listed itself."""
    found = _best(user, "observation", words, Observation.objects.for_user(user).active())
    repeated = TopicFact.objects.for_user(user).behind(found)
    rows = [one for one in found if one.pk not in repeated][:MAX]
    return [
        Row(
            _matching_line(row.content, words),
            row.get_absolute_url(),
            "notes",
            row.get_category_display(),
        )
        for row in rows
    ]


def _notes(user: User, words: str, *, few_runs: int) -> list[Row]:
    """Return notes, with at most this many summaries of runs, which name every topic's words."""
    found = _best(user, "note", words, Note.objects.for_user(user).active())
    by_run = [one for one in found if one.kind == "summary" and one.source.startswith("run:")]
    left = set(by_run[few_runs:])
    rows = [one for one in found if one not in left][:MAX]
    return [
        Row(_matching_line(row.content, words), row.get_absolute_url(), "notes") for row in rows
    ]


def _matching_line(text: str, words: str) -> str:
    """Return the words of a record that match, as one line without Markdown."""
    return passage(text, words, MAX_SHOWN_LENGTH)


def _recent(user: User) -> list[Row]:
    """Return the last reports, conversations and notes, newest first."""
    reports = Report.objects.for_user(user).live().exclude(run__number=None)
    reports = reports.filter(run__topic__trashed_at=None).select_related("run__topic")
    talks = Session.objects.for_user(user).live().exclude(title="")
    notes = Note.objects.for_user(user).active().exclude(kind__in=Note.IDENTITY).exclude(_BY_RUN)
    results: list[tuple[datetime, Row]] = []
    for one in reports.defer("body").order_by("-created")[:MAX]:
        run = one.run
        url = reverse("research:run", args=[run.topic.slug, run.pk])
        params = {"number": run.number, "topic": run.topic.title}
        label = _("Run #%(number)d of %(topic)s") % params
        results.append((one.created, Row(label, url, "reports", _("Report"))))
    for talk in talks.order_by("-created")[:MAX]:
        results.append((talk.created, Row(talk.title, talk.get_absolute_url(), "ask", _("Ask"))))
    for note in notes.order_by("-updated")[:MAX]:
        row = Row(in_brief(note.content, MAX_SHOWN_LENGTH), note.get_absolute_url(), "notes")
        results.append((note.updated, row))
    return [row for _at, row in sorted(results, key=lambda one: one[0], reverse=True)[:MAX]]


def _further(words: str) -> list[Row]:
    query = urlencode({"q": words})
    return [
        Row(
            _("Search memory for “%(words)s”") % {"words": words},
            f"{reverse('memory:recall')}?{query}",
            "search",
        ),
        Row(_("Ask “%(words)s”") % {"words": words}, f"{reverse('memory:ask')}?{query}", "ask"),
    ]


def _pages() -> list[Row]:
    return [
        Row(str(one.label), one.url, one.icon, str(place.label) if place else "")
        for one, place in every_place()
    ]


def _acts() -> list[Row]:
    return [
        Row(_("New topic"), reverse("research:topic-new"), "plus"),
        Row(_("Remember"), reverse("memory:remember"), "plus"),
        Row(_("Add a document"), reverse("memory:library-add"), "plus", _("Library")),
    ]


def _settings(settings: Sequence[SettingsGroup]) -> list[Row]:
    return [
        Row(page["label"], page["url"], "settings", _("Settings"))
        for group in settings
        for page in group["pages"]
    ]


# --- view ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def palette(request: BeaconRequest) -> HttpResponse:
    """Show the palette, in a dialog or as a page. Over htmx only the rows."""
    typed = request.GET.get("words", "")
    words = search_words(typed)
    groups = offered(request.user, words, settings_pages(request.user))
    found = sum(len(rows) for _title, rows in groups)
    context = {"typed": typed, "words": words, "groups": groups, "found": found}
    template = "research/_palette_rows.html" if request.htmx else "research/palette.html"
    return render(request, template, context)
