"""Responses shared by pages of runs and reports."""

from __future__ import annotations

from datetime import datetime

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.web.http import BeaconRequest
from memory.pages.shared.responses import in_notice
from memory.pages.shared.undo import offer
from research.services.runs.execution.starting import NotNow


def not_now(request: BeaconRequest, exc: NotNow) -> HttpResponse:
    """Explain why no run starts: 429 with Retry-After if waiting helps, otherwise 409."""
    status = 429 if exc.retry_after else 409
    told = {"why": str(exc), "heading": _("The run wasn’t started")}
    response = render(request, f"{status}.html", told, status=status)
    if exc.retry_after:
        response["Retry-After"] = str(exc.retry_after)
    return in_notice(request, response)


def confirm_read(request: BeaconRequest, count: int, at: datetime) -> None:
    """Confirm that reports were marked as read, with an undo."""
    words = ngettext("%(n)d report marked as read.", "%(n)d reports marked as read.", count)
    undo = offer(request, "reports-marked", at=at.isoformat(), read=True) if count else ""
    messages.success(request, words % {"n": count}, extra_tags=undo)


def confirm_unread(request: BeaconRequest, count: int, at: datetime, words: str = "") -> None:
    """Confirm that reports were marked as unread, with an undo."""
    if not count:
        messages.info(request, _("These reports are already unread."))
        return
    told = ngettext("%(n)d report marked as unread.", "%(n)d reports marked as unread.", count)
    undo = offer(request, "reports-marked", at=at.isoformat(), read=False)
    messages.success(request, words or told % {"n": count}, extra_tags=undo)
