"""The memories related to one record: a list on its page, and a page with more of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from beacon_site.text.names import names_in
from beacon_site.web.http import BeaconRequest
from memory.models import MemoryFile
from memory.services.records.kinds import kind_of
from memory.services.search.bm25_sql import language_of
from memory.services.search.kinds import KINDS
from memory.services.search.names import known_in
from memory.services.search.related import USUAL, Related, related_to, text_of

MOST = 30
MOST_NAMES = 12
FILE = "file"


def rows_of(record: Any, limit: int = USUAL) -> list[tuple[Related, str]]:
    """Return the records related to this one, each with its type in words, for its owner."""
    found = related_to(record, limit=limit)
    return [(one, str(kind_of(one.record.record_type()).noun)) for one in found]


def record_of(owner: Any, type: str, pk: UUID) -> Any:
    """Return the owner's record that recall can return, or a file.  Raises Http404."""
    if type == FILE:
        rows: QuerySet[Any] = MemoryFile.objects.of(owner).live()
    elif type in KINDS:
        rows = KINDS[type].rows(owner, timezone.now())
    else:
        raise Http404
    record = get_object_or_404(rows, pk=pk)
    record.owner = owner
    return record


def names_of(record: Any) -> list[str]:
    """Return the names in a record."""
    owner = record.owner
    found = known_in(owner, names_in(text_of(record), language_of(owner)))
    return [one.name for one in found[:MOST_NAMES]]


@require_safe
@login_required
def related_page(request: BeaconRequest, type: str, pk: UUID) -> HttpResponse:
    """Show the records nearest to one record of any type, with the reasons."""
    record = record_of(request.user, type, pk)
    context = {
        "title": record.path if type == FILE else KINDS[type].title(record),
        "url": record.get_absolute_url() if type == FILE else KINDS[type].url(record),
        "related": rows_of(record, MOST),
    }
    return render(request, "memory/related.html", context)
