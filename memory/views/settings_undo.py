"""The Undo of a toast that says that settings are saved."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from beacon_site.http import BeaconRequest, zone_of
from memory.accounts import settings_undo
from memory.errors import MemoryRefused
from memory.responses import go_back, kept_changes, undo_settings_tag


@require_POST
@login_required
def undo(request: BeaconRequest, key: str) -> HttpResponse:
    """Put settings back as they were before a change of this session."""
    done = kept_changes(request).get(key)
    if done is None:
        messages.info(request, _("There is nothing left to take back."))
        return go_back(request, reverse("memory:settings"))
    name, target = done["name"], done["target"]
    try:
        other = settings_undo.take_back(request.user, name, target, done=done, by=request.actor)
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
    else:
        tag = undo_settings_tag(request, name, other["before"], other["after"], target)
        messages.success(request, _("Taken back: it is as it was before."), extra_tags=tag)
        request.user.refresh_from_db()
        timezone.activate(zone_of(request.user.time_zone))
    return go_back(request, reverse("memory:settings"))
