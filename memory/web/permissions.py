"""Permissions of pages, beyond being signed in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse

from beacon_site.http import BeaconRequest

View = Callable[..., HttpResponse]


def staff_only(view: View) -> View:
    """Allow only staff. Anyone else who is signed in gets a 404."""

    @wraps(view)
    def guarded(request: BeaconRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_staff:
            raise Http404
        return view(request, *args, **kwargs)

    return login_required(guarded)
