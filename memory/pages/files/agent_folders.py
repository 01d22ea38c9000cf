"""Agents, Folders: the mounted folders of agents, and their files in one list."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.db.keyset import page_of
from beacon_site.web.http import BeaconRequest
from memory.models import FileDraft, MemoryFile, MirroredFile, MountedFolder
from memory.models.file_format import MOUNTED
from memory.pages.files.editing import FileRow, last_changes
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar

PAGE = 100


@require_safe
@login_required
@vary_on_headers("HX-Request", "HX-Target")
def folder_list(request: BeaconRequest) -> HttpResponse:
    """Show the person's mounted folders, and their files."""
    folders = list(MountedFolder.objects.of(request.user))
    facets = [
        Facet("folder", _("Folder"), [Choice(one.name, one.name, one.files) for one in folders])
    ]
    asked = filter_bar.read(request.GET, facets)
    rows = MemoryFile.objects.of(request.user).live().mounted(asked.get("folder", ""))
    for word in asked.get("q", "").split():
        rows = rows.filter(Q(path__icontains=word) | Q(summary__icontains=word))
    found = page_of(
        rows.defer("content", "blame"), by="path", falling=False, cursor=request.GET.get("cursor", ""),
        size=PAGE,
    )  # fmt: skip
    paths = [file.path for file in found.rows]
    bar = FilterBar(
        reverse("memory:agent-folders"), "agent-files", asked,
        label=_("Search the files"), placeholder=_("A path, or words from the start of a file"),
        facets=facets if len(folders) > 1 else [],
        count=_count(sum(one.files for one in folders)),
    )  # fmt: skip
    problems = dict(
        MirroredFile.objects.of(request.user).filter(path__in=paths).exclude(problem="")
        .values_list("path", "problem")
    )  # fmt: skip
    drafts = set(
        FileDraft.objects.of(request.user).filter(path__in=paths).values_list("path", flat=True)
    )
    last = last_changes(request.user, found.rows)
    context: dict[str, Any] = {
        "folders": folders,
        "bar": bar,
        "rows": [
            FileRow(file, last.get(file.pk), problems.get(file.path, ""), file.path in drafts)
            for file in found.rows
        ],
        "next_cursor": found.next_cursor,
        "is_set": bool(settings.BEACON_AGENT_DIRS),
        "prefix": MOUNTED,
    }
    over_htmx = request.htmx and request.htmx.target == "agent-files"
    return render(
        request, f"memory/{'_agent_files' if over_htmx else 'agent_folders'}.html", context
    )


def _count(files: int) -> str:
    return ngettext("%(n)d file", "%(n)d files", files) % {"n": files}
