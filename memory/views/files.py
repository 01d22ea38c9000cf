"""The tree of memory files, and each file to read: as Markdown is meant, and as it is written."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from beacon_site.http import BeaconRequest
from memory.file_pages.answers import file_or_404
from memory.file_pages.page import page_of, tree_of


@require_safe
@login_required
def file_list(request: BeaconRequest) -> HttpResponse:
    """Show all files: facts with their budget, episodes by month."""
    return render(request, "memory/files.html", {"tree": tree_of(request.user)})


@require_safe
@login_required
def file_page(request: BeaconRequest, path: str) -> HttpResponse:
    """Show one file as its Markdown is meant."""
    file = file_or_404(request, path)
    context = {"page": page_of(request.user, file), "file": file, "tab": "read"}
    return render(request, "memory/file.html", context)


@require_safe
@login_required
def file_source(request: BeaconRequest, path: str) -> HttpResponse:
    """Give one file's exact bytes, as a program or an editor would have them."""
    file = file_or_404(request, path)
    response = HttpResponse(file.content, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'inline; filename="{file.path.rpartition("/")[2]}"'
    return response
