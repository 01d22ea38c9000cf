"""What the pages of memory files share: the file of an address, and the words after a change."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404
from django.urls import reverse

from beacon_site.http import BeaconRequest
from memory.files.reading import NoSuchFile, read_file
from memory.models import MemoryFile
from memory.records import history as record_history


def file_or_404(request: BeaconRequest, path: str) -> MemoryFile:
    """Return the person's file at `path`; a month without a file is not found."""
    try:
        file = read_file(request.user, path)
    except NoSuchFile as exc:
        raise Http404(str(exc)) from exc
    file.owner = request.user
    return file


def say_with_undo(request: BeaconRequest, file: MemoryFile, said: str) -> None:
    """Say what was done to the file, with the way back."""
    last = record_history.revisions_of(file).only("id")[0]
    undo = reverse("memory:record-undo", args=[file.record_type(), file.pk, last.pk])
    messages.success(request, said, extra_tags=f"undo:{undo}")


def number(text: str) -> int:
    """Return a number that an address or a form names; 0 for what is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
