"""One address for every record: it leads to the record's page, or to the trash if it lies there."""

from __future__ import annotations

import uuid
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from beacon_site.http import BeaconRequest
from memory.records.kinds import kind_of, models


@require_safe
@login_required
def record_open(request: BeaconRequest, kind: str, pk: uuid.UUID) -> HttpResponse:
    """Lead to the page of a record of the person's."""
    model = models().get(kind)
    if model is None:
        raise Http404
    record = get_object_or_404(model.objects.of(request.user), pk=pk)
    if record.trashed_at is not None:
        return redirect(f"{reverse('memory:trash')}?{urlencode({'type': kind})}")
    address = kind_of(kind).address(record)
    if not address:
        raise Http404
    return redirect(address)
