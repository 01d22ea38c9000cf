"""Links that let somebody read one report: made and ended by its owner, opened by anybody."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from beacon_site.http import BeaconRequest
from memory.accounts.people import works_here_alone
from memory.double_submit import idempotent_post
from memory.errors import InvalidValue
from memory.responses import go_back
from research.forms.share import ShareForm
from research.models import Run, SharedLink
from research.reports import sharing


@never_cache
@require_http_methods(["GET", "POST"])
@login_required
@idempotent_post
def report_share(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Show the report's links, and make one: over htmx the part with form and list alone."""
    mine = Run.objects.of(request.user).kept().filter(topic__slug=slug, topic__trashed_at=None)
    saved = mine.exclude(report=None).select_related("report__owner", "topic")
    run = get_object_or_404(saved.filter(report__trashed_at=None), pk=run_id)
    form = ShareForm(request.POST or None)
    made = None
    if request.method == "POST" and form.is_valid():
        try:
            made = sharing.make_link(run.report, by=request.actor, **form.cleaned_data)
        except InvalidValue as exc:
            form.take(exc)
        else:
            undo = "undo:" + reverse("research:shared-link-end", args=[made.pk])
            messages.success(request, _("The link works now: copy it."), extra_tags=undo)
            if not request.htmx:
                return redirect("research:report-share", slug, run_id)
            form = ShareForm()
    context: dict[str, Any] = {
        "run": run,
        "topic": run.topic,
        "form": form,
        "made": made,
        "rows": sharing.rows_of(request.user, run.report),
        "here_alone": works_here_alone(),
    }
    template = "research/_share.html" if request.htmx else "research/share.html"
    return render(request, template, context)


@require_safe
@login_required
def shared_links(request: BeaconRequest) -> HttpResponse:
    """List all links that the person gave out."""
    rows = sharing.rows_of(request.user)
    context = {"rows": rows, "here_alone": works_here_alone()}
    return render(request, "research/shared_links.html", context)


def _link(request: BeaconRequest, pk: uuid.UUID) -> SharedLink:
    mine = SharedLink.objects.of(request.user).readable()
    link: SharedLink = get_object_or_404(mine.select_related("report__run", "owner"), pk=pk)
    return link


@require_POST
@login_required
def link_end(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Let a link open nothing from now on."""
    link = _link(request, pk)
    if sharing.end(link, by=request.actor):
        undo = "undo:" + reverse("research:shared-link-resume", args=[pk])
        text = _("The link to “%(title)s” opens nothing any more.")
        messages.success(request, text % {"title": link.report.title}, extra_tags=undo)
    else:
        messages.info(request, _("That link was ended before."))
    return go_back(request, reverse("research:shared-links"))


@require_POST
@login_required
def link_resume(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Take back the end of a link."""
    link = _link(request, pk)
    try:
        resumed = sharing.resume(link, by=request.actor)
    except InvalidValue as exc:
        messages.error(request, str(exc))
        return go_back(request, reverse("research:shared-links"))
    if resumed:
        undo = "undo:" + reverse("research:shared-link-end", args=[pk])
        text = _("The link to “%(title)s” works again.")
        messages.success(request, text % {"title": link.report.title}, extra_tags=undo)
    else:
        messages.info(request, _("Its time has passed, or it works already: nothing was changed."))
    return go_back(request, reverse("research:shared-links"))


@never_cache
@require_safe
def shared_report(request: HttpRequest, token: str) -> HttpResponse:
    """Show a report to anybody who has its link; say why where the link opens nothing."""
    try:
        link = sharing.opened(token, is_visit=request.method == "GET")
    except sharing.NoSuchLink:
        answer = render(request, "research/shared_gone.html", status=404)
    except sharing.LinkOver as exc:
        answer = render(request, "research/shared_gone.html", {"why": str(exc)}, status=410)
    else:
        answer = render(request, "research/shared_report.html", sharing.words_of(link))
    # Neither search engines nor the pages that are linked to learn the address.
    answer["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    answer["Referrer-Policy"] = "no-referrer"
    return answer
