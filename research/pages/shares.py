"""Links that let others read one report without an account: create, revoke and open them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.db import transaction
from django.db.models import F, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateformat import format as date_text
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import clean, one_line, text_param
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import CleanTextField, RefusalErrorsMixin, signed_in
from memory.accounts.people import works_here_alone
from memory.models import Activity, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.pages.shared import filter_bar
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from memory.pages.shared.undo import act, offer
from research.models import Report, Run, SharedLink
from research.models.reports import MAX_NOTE
from research.services.reports import page as report_page

_TIMES = (
    (1, gettext_lazy("1 day")),
    (7, gettext_lazy("1 week")),
    (30, gettext_lazy("30 days")),
    (90, gettext_lazy("90 days")),
    (365, gettext_lazy("1 year")),
)


class ShareForm(forms.Form, RefusalErrorsMixin):
    """A link's lifetime, and a note for its owner."""

    days = forms.TypedChoiceField(
        label=gettext_lazy("Expires after"), choices=_TIMES, coerce=int, initial=30
    )
    note = CleanTextField(
        label=gettext_lazy("Note"),
        required=False,
        max_length=MAX_NOTE,
        help_text=gettext_lazy("Only you can see this."),
    )


# --- links ---

DAYS = (1, 7, 30, 90, 365)
MAX_LINKS = 20  # active links per report
MAX_OVER = 50  # inactive links in a list


class LinkEndedError(Exception):
    """The link was valid once. The message says why it no longer works."""


class NoSuchLink(Exception):
    """The URL was never issued by this site, or its report is permanently deleted."""


def make_link(report: Report, *, days: int, note: str, by: Actor) -> SharedLink:
    """Return a new link to `report` for `days` (one of DAYS).

    Raises InvalidValue for another number of days, for a note longer than MAX_NOTE characters, and
    if the report has MAX_LINKS active links.
    """
    note = one_line(clean(note)[0])
    if days not in DAYS:
        problem = _("Select one of the listed periods.")
        raise InvalidValue(problem, errors={"days": [problem]})
    if len(note) > MAX_NOTE:
        words = _("Use at most %(most)d characters (currently %(count)d).")
        problem = words % {"most": MAX_NOTE, "count": len(note)}
        raise InvalidValue(problem, errors={"note": [problem]})
    with transaction.atomic():
        _check_room(report.pk)
        link = SharedLink.objects.create(
            owner=report.owner,
            report=report,
            note=note,
            ends_at=timezone.now() + timedelta(days=days),
        )
        _log(link, by, "report-shared", ends_at=link.ends_at)
    return link


def _check_room(report: Any) -> None:
    """Raise InvalidValue if the report with this key has MAX_LINKS active links.

    Needs a transaction.
    """
    # Two simultaneous requests must not exceed the limit together.
    Report.objects.select_for_update().get(pk=report)
    if SharedLink.objects.filter(report=report).working().count() >= MAX_LINKS:
        words = ngettext(
            "This report already has %(most)d active link. Revoke it first.",
            "This report already has %(most)d active links. Revoke one first.",
            MAX_LINKS,
        )
        raise InvalidValue(words % {"most": MAX_LINKS})


def end(link: SharedLink, *, by: Actor) -> bool:
    """Revoke the link. Returns False if it already was."""
    with transaction.atomic():
        mine = SharedLink.objects.filter(pk=link.pk, ended_at=None)
        if not mine.update(ended_at=timezone.now()):
            return False
        _log(link, by, "report-unshared")
    return True


def resume(link: SharedLink, *, by: Actor) -> bool:
    """Reactivate a revoked link. Return False if it is active or has expired.

    Raises InvalidValue if the report has MAX_LINKS active links.
    """
    with transaction.atomic():
        mine = SharedLink.objects.filter(pk=link.pk, ends_at__gt=timezone.now())
        ended = mine.exclude(ended_at=None)
        if not ended.exists():
            return False
        _check_room(link.report_id)
        if not ended.update(ended_at=None):
            return False
        _log(link, by, "report-shared", ends_at=link.ends_at)
    return True


def _log(link: SharedLink, by: Actor, kind: str, **detail: Any) -> None:
    Activity.log(link.owner, by, kind, subject=link, label=_title(link), **detail)


def _title(link: SharedLink) -> str:
    return f"{link.report.title}, {link.report.run}"


def open_link(token: str, *, is_visit: bool = True) -> SharedLink:
    """Return the active link for a URL with its report, and count a visit.

    Raises NoSuchLink and LinkEndedError, whose messages are public.
    """
    key = SharedLink.key_of(token)
    related = ("report__run__topic", "owner")
    rows = SharedLink.objects.select_related(*related).filter(pk=key)
    link: SharedLink | None = rows.first() if key else None
    if link is None:
        raise NoSuchLink
    if link.ended_at is not None:
        raise LinkEndedError(_("The person who shared this link has revoked it."))
    now = timezone.now()
    if link.ends_at <= now:
        words = _("The link expired on %(day)s.")
        raise LinkEndedError(words % {"day": date_text(timezone.localtime(link.ends_at), "j F Y")})
    report = link.report
    if report.trashed_at or report.run.topic.trashed_at or not link.owner.is_active:
        raise LinkEndedError(_("The report isn’t available right now."))
    if is_visit:
        SharedLink.objects.filter(pk=link.pk).update(view_count=F("view_count") + 1, opened_at=now)
    return link


def words_of(link: SharedLink) -> dict[str, Any]:
    """Return the content of the shared page: the report, its changes and sources."""
    return report_page.article_for_others(link.report.run) | {"link": link}


STATES = {
    "working": gettext_lazy("active"),
    "ended": gettext_lazy("revoked"),
    "expired": gettext_lazy("expired"),
}


def link_rows(
    owner: User, report: Report | None = None, *, query: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """Return the owner's links, for one report or those that match, newest first, in two queries.

    All active ones come first, so each can be revoked, then the last MAX_OVER others.
    """
    found = SharedLink.objects.for_user(owner).select_related("report__run__topic").readable()
    if report is not None:
        found = found.filter(report=report)
    query = query or {}
    for word in text_param(query).split():
        found = found.filter(Q(note__icontains=word) | Q(report__title__icontains=word))
    now = timezone.now()
    over = found.filter(Q(ends_at__lte=now) | Q(ended_at__isnull=False))[:MAX_OVER]
    rows = [_row(link, now) for link in (*found.working(now), *over)]
    state = query.get("state")
    return [row for row in rows if row["state"] == state] if state in STATES else rows


def _row(link: SharedLink, now: Any) -> dict[str, Any]:
    state = "expired" if link.ends_at <= now else "ended" if link.ended_at else "working"
    return {"link": link, "title": _title(link), "state": state, "can_resume": state == "ended"}


# --- views ---


@never_cache
@signed_in("GET", "POST")
@idempotent_post
def report_share(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    """Show the report's links and create one. Over htmx only the form and the list."""
    mine = Run.objects.in_topic(request.user, slug)
    saved = mine.exclude(report=None).select_related("report__owner", "topic")
    run = get_object_or_404(saved.filter(report__trashed_at=None), pk=run_id)
    form = ShareForm(request.POST or None)
    made = None
    if request.method == "POST" and form.is_valid():
        try:
            made = make_link(run.report, by=request.actor, **form.cleaned_data)
        except InvalidValue as exc:
            form.take(exc)
        else:
            undo = offer(request, "link-end", pk=made.pk)
            messages.success(request, _("Link created. Copy it below."), extra_tags=undo)
            if not request.htmx:
                return redirect("research:report-share", slug, run_id)
            form = ShareForm()
    context: dict[str, Any] = {
        "run": run,
        "topic": run.topic,
        "form": form,
        "made": made,
        "rows": link_rows(request.user, run.report),
        "here_alone": works_here_alone(),
    }
    template = "research/_share.html" if request.htmx else "research/share.html"
    return render(request, template, context)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
def shared_links(request: BeaconRequest) -> HttpResponse:
    facets = [Facet("state", _("State"), [Choice(*one) for one in STATES.items()])]
    query = filter_bar.read(request.GET, facets)
    rows = link_rows(request.user, query=query)
    bar = FilterBar(
        reverse("research:shared-links"), "shared-links", query,
        label=_("Search shared links"), placeholder=_("Search reports and notes"), facets=facets,
        count=ngettext("%(n)d link", "%(n)d links", len(rows)) % {"n": len(rows)},
    )  # fmt: skip
    context = {"rows": rows, "bar": bar, "here_alone": works_here_alone()}
    is_part = request.htmx and request.htmx.target == "shared-links"
    name = "_shared_links_found" if is_part else "shared_links"
    return render(request, f"research/{name}.html", context)


def _link(request: BeaconRequest, pk: uuid.UUID | str) -> SharedLink:
    mine = SharedLink.objects.for_user(request.user).readable()
    link: SharedLink = get_object_or_404(mine.select_related("report__run", "owner"), pk=pk)
    return link


@act("link-end")
def link_end(request: BeaconRequest, pk: uuid.UUID | str) -> str:
    link = _link(request, pk)
    if end(link, by=request.actor):
        undo = offer(request, "link-resume", pk=pk)
        text = _("Link to “%(title)s” revoked.")
        messages.success(request, text % {"title": link.report.title}, extra_tags=undo)
    else:
        messages.info(request, _("This link has already been revoked."))
    return reverse("research:shared-links")


@act("link-resume")
def link_resume(request: BeaconRequest, pk: uuid.UUID | str) -> str:
    link = _link(request, pk)
    if resume(link, by=request.actor):
        undo = offer(request, "link-end", pk=pk)
        text = _("Link to “%(title)s” reactivated.")
        messages.success(request, text % {"title": link.report.title}, extra_tags=undo)
    else:
        messages.info(request, _("Nothing changed. The link has expired or is already active."))
    return reverse("research:shared-links")


@never_cache
@require_safe
def shared_report(request: HttpRequest, token: str) -> HttpResponse:
    """Show a report to anyone with its link, or say why the link no longer works."""
    try:
        link = open_link(token, is_visit=request.method == "GET")
    except NoSuchLink:
        answer = render(request, "research/shared_gone.html", status=404)
    except LinkEndedError as exc:
        answer = render(request, "research/shared_gone.html", {"why": str(exc)}, status=410)
    else:
        answer = render(request, "research/shared_report.html", words_of(link))
    # Hide the URL from search engines and linked sites.
    answer["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    answer["Referrer-Policy"] = "no-referrer"
    return answer
