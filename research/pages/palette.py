"""The palette (`Ctrl K`): actions, pages, and items found by name.

The number of queries is fixed. The last row opens a full search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import clean
from beacon_site.web.http import BeaconRequest
from memory.models import LibraryDocument, MemoryFile, Note, Topic, User
from memory.services.search import bm25
from research.pages.context_processors import settings_pages
from research.pages.places import every_place

MOST = 6  # rows per group
LONGEST = 200  # characters of a query, because no name is longer
MOST_WORDS = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One destination."""

    label: str
    url: str
    icon: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one kind, with their heading."""

    title: str
    rows: Sequence[Row]


def asked(value: str) -> str:
    """Return the typed text as search words."""
    return " ".join(clean(value)[0].split()[:MOST_WORDS])[:LONGEST].strip()


def offered(
    user: User,
    words: str,
    settings: Sequence[Mapping[str, Any]],
) -> list[Group]:
    """Return the matches. Without words, return recent items and the actions.

    `settings` are the groups of Settings (`research.pages.context_processors`).
    """
    groups = [Group(_("Topics"), _topics(user, words))]
    if words:
        groups += [
            Group(_("Go to"), _holding(words, [*_pages(), *_settings(settings)])),
            Group(_("Actions"), _holding(words, _acts())),
            Group(_("Files and library"), [*_files(user, words), *_documents(user, words)][:MOST]),
            Group(_("Notes"), _notes(user, words)),
            Group(_("More"), _further(words)),
        ]
    else:
        groups += [Group(_("Actions"), _acts()), Group(_("Settings"), _settings(settings))]
    return [group for group in groups if group.rows]


def _holding(words: str, rows: Sequence[Row]) -> list[Row]:
    """Keep the rows that contain all of these words. Those that start with them come first."""
    wanted = words.casefold()
    found = [
        row
        for row in rows
        if all(word in f"{row.label} {row.about}".casefold() for word in wanted.split())
    ]
    return sorted(found, key=lambda row: not row.label.casefold().startswith(wanted))[:MOST]


def _topics(user: User, words: str) -> list[Row]:
    topics = Topic.objects.of(user).live() if words else Topic.objects.of(user).active()
    for word in words.split():
        topics = topics.filter(Q(title__icontains=word) | Q(labels__icontains=word))
    return [
        Row(
            topic.title,
            reverse("research:topic", args=[topic.slug]),
            "topics",
            _("archived") if topic.archived_at else "",
        )
        for topic in topics.only("title", "slug", "archived_at").order_by("-updated")[:MOST]
    ]


def _files(user: User, words: str) -> list[Row]:
    files = MemoryFile.objects.of(user).live()
    for word in words.split():
        files = files.filter(Q(path__icontains=word) | Q(summary__icontains=word))
    return [
        Row(one.path, one.get_absolute_url(), "files", Truncator(one.summary).chars(60))
        for one in files.only("path", "summary")[:MOST]
    ]


def _documents(user: User, words: str) -> list[Row]:
    documents = LibraryDocument.objects.readable_by(user).live()
    for word in words.split():
        documents = documents.filter(title__icontains=word)
    found = documents.only("title").order_by("-updated")[:MOST]
    return [Row(one.title, one.get_absolute_url(), "library", _("Library")) for one in found]


def _notes(user: User, words: str) -> list[Row]:
    """Return the best matching notes, by whole words as in memory search."""
    best = [found for found, _score in bm25.search(user, "note", words, MOST)]
    notes = {note.pk: note for note in Note.objects.of(user).active().filter(pk__in=best)}
    return [
        Row(Truncator(notes[key].content).chars(90), notes[key].get_absolute_url(), "notes")
        for key in best
        if key in notes
    ]


def _further(words: str) -> list[Row]:
    query = urlencode({"q": words})
    return [
        Row(
            _("Search memory for “%(words)s”") % {"words": words},
            f"{reverse('memory:recall')}?{query}",
            "recall",
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


def _settings(settings: Sequence[Mapping[str, Any]]) -> list[Row]:
    return [
        Row(page["label"], page["url"], "settings", _("Settings"))
        for group in settings
        for page in group["pages"]
    ]


# --- view ---


@require_safe
@login_required
@vary_on_headers("HX-Request")
def palette(request: BeaconRequest) -> HttpResponse:
    """Show the palette, in a dialog or as a page. Over htmx only the rows."""
    typed = request.GET.get("words", "")
    words = asked(typed)
    groups = offered(request.user, words, settings_pages(request.user))
    found = sum(len(one.rows) for one in groups)
    context = {"typed": typed, "words": words, "groups": groups, "found": found}
    template = "research/_palette_rows.html" if request.htmx else "research/palette.html"
    return render(request, template, context)
