"""The form of a link that lets somebody read a report: for how long, and for whom."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
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
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from beacon_site.http import BeaconRequest
from beacon_site.text.cleaning import clean, one_line
from memory.accounts.people import works_here_alone
from memory.core.actors import Actor
from memory.core.errors import InvalidValue
from memory.models import Activity, User
from memory.web.double_submit import idempotent_post
from memory.web.fields import CleanTextField
from memory.web.responses import go_back
from research.models import Report, Run, SharedLink
from research.models.reports import MOST_NOTE
from research.reporting import sentences as report_sentences
from research.reports import page as report_page
from research.reports.delta_rows import DeltaRow

_TIMES = (
    (1, gettext_lazy("one day")),
    (7, gettext_lazy("a week")),
    (30, gettext_lazy("30 days")),
    (90, gettext_lazy("90 days")),
    (365, gettext_lazy("a year")),
)


class ShareForm(forms.Form):
    """How long the link works, and a word for the owner's own list."""

    days = forms.TypedChoiceField(
        label=gettext_lazy("Works for"), choices=_TIMES, coerce=int, initial=30
    )
    note = CleanTextField(
        label=gettext_lazy("For whom"),
        required=False,
        max_length=MOST_NOTE,
        help_text=gettext_lazy(
            "Only for your own list; it does not stand on the page that is read."
        ),
    )

    def take(self, exc: InvalidValue) -> None:
        """Show what was refused at the fields that it names."""
        if not exc.errors:
            self.add_error(None, str(exc))
        for name, problems in exc.errors.items():
            self.add_error(name, problems)


# --- sharing ---

DAYS = (1, 7, 30, 90, 365)
MOST_LINKS = 20  # that work at once for one report
MOST_OVER = 50  # links that open nothing any more, in a list


class LinkOver(Exception):
    """The link was a good one once; the message says why it opens nothing now."""


class NoSuchLink(Exception):
    """The address was never given out by this site, or what it led to is deleted for good."""


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link as its owner sees it."""

    link: SharedLink
    title: str
    state: str  # working, ended or expired
    can_resume: bool


def make_link(report: Report, *, days: int, note: str, by: Actor) -> SharedLink:
    """Return a new link to `report` that works for `days` (one of DAYS).

    Raises InvalidValue for another number of days, a note of over MOST_NOTE characters, and where
    MOST_LINKS work already.
    """
    note = one_line(clean(note)[0])
    if days not in DAYS:
        problem = _("Choose one of the times that are offered.")
        raise InvalidValue(problem, errors={"days": [problem]})
    if len(note) > MOST_NOTE:
        words = _("At most %(most)d characters; these are %(count)d.")
        problem = words % {"most": MOST_NOTE, "count": len(note)}
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
    """Raise InvalidValue where as many links to the report (its key) work as may; in a transaction."""
    # Two tabs at once must not pass the number together.
    Report.objects.select_for_update().get(pk=report)
    if SharedLink.objects.filter(report=report).working().count() >= MOST_LINKS:
        words = ngettext(
            "%(most)d link to this report works already: end it first.",
            "%(most)d links to this report work already: end one of them first.",
            MOST_LINKS,
        )
        raise InvalidValue(words % {"most": MOST_LINKS})


def end(link: SharedLink, *, by: Actor) -> bool:
    """Let the link open nothing from now on; False if it had been ended before."""
    with transaction.atomic():
        mine = SharedLink.objects.filter(pk=link.pk, ended_at=None)
        if not mine.update(ended_at=timezone.now()):
            return False
        _log(link, by, "report-unshared")
    return True


def resume(link: SharedLink, *, by: Actor) -> bool:
    """Take back the end of a link; False if it works, or its time has passed meanwhile.

    Raises InvalidValue where MOST_LINKS work already.
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


def opened(token: str, *, is_visit: bool = True) -> SharedLink:
    """Return the working link of an address, with its report loaded, and count a visit.

    Raises NoSuchLink and LinkOver, whose words may be shown to anybody.
    """
    key = SharedLink.key_of(token)
    related = ("report__run__topic", "owner")
    found = SharedLink.objects.select_related(*related).filter(pk=key)
    link: SharedLink | None = found.first() if key else None
    if link is None:
        raise NoSuchLink
    if link.ended_at is not None:
        raise LinkOver(_("The person who gave it to you has ended it."))
    now = timezone.now()
    if link.ends_at <= now:
        words = _("It worked until %(day)s.")
        raise LinkOver(words % {"day": date_text(timezone.localtime(link.ends_at), "j F Y")})
    report = link.report
    if report.trashed_at or report.run.topic.trashed_at or not link.owner.is_active:
        raise LinkOver(_("The report is not available now."))
    if is_visit:
        SharedLink.objects.filter(pk=link.pk).update(opened=F("opened") + 1, opened_at=now)
    return link


def words_of(link: SharedLink) -> dict[str, Any]:
    """Return what the shared page shows: the report, what changed, its sources.

    Left out is all that tells of the owner's memory and means: what was confirmed, went quiet or was
    withheld, warnings, costs, who wrote it, and links to pages that need a sign-in.
    """
    run = link.report.run
    found = report_page.article(run, reader=report_sentences.STRANGER)
    sources = [_outside(source) for source in found["sources"]]
    if found["changed"].unasked and found["quiet_text"]:
        # How many were withheld is the owner's affair.
        found["quiet_text"] = _("No change is announced.")
    return {name: found[name] for name in ("report", "quiet_text", "body", "contents")} | {
        "run": run,
        "listed": [_row_outside(row) for row in found["changed"].listed],
        "sources": sources,
        "link": link,
    }


def _row_outside(row: DeltaRow) -> DeltaRow:
    stands = {name: getattr(row, name) for name in ("source", "previous")}
    return replace(row, **{n: stand and stand.for_strangers() for n, stand in stands.items()})


def _outside(source: report_page.SourceRow) -> report_page.SourceRow:
    """Return the source without a link to a page of this site, which a stranger cannot open."""
    if not source.link.is_ours:
        return source
    return replace(source, link=replace(source.link, url="", note=""), address="")


def link_rows(owner: User, report: Report | None = None) -> list[LinkRow]:
    """Return the owner's links, of one report or of all, newest first: two queries.

    All that work come first, so that each can be ended; then the last MOST_OVER of the others.
    """
    found = SharedLink.objects.of(owner).select_related("report__run__topic").readable()
    if report is not None:
        found = found.filter(report=report)
    now = timezone.now()
    over = found.filter(Q(ends_at__lte=now) | Q(ended_at__isnull=False))[:MOST_OVER]
    return [_row(link, now) for link in (*found.working(now), *over)]


def _row(link: SharedLink, now: Any) -> LinkRow:
    if link.ends_at <= now:
        return LinkRow(link, _title(link), "expired", can_resume=False)
    ended = link.ended_at is not None
    return LinkRow(link, _title(link), "ended" if ended else "working", can_resume=ended)


# --- Links that let somebody read one report: made and ended by its owner, opened by anybody ---


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
            made = make_link(run.report, by=request.actor, **form.cleaned_data)
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
        "rows": link_rows(request.user, run.report),
        "here_alone": works_here_alone(),
    }
    template = "research/_share.html" if request.htmx else "research/share.html"
    return render(request, template, context)


@require_safe
@login_required
def shared_links(request: BeaconRequest) -> HttpResponse:
    """List all links that the person gave out."""
    rows = link_rows(request.user)
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
    if end(link, by=request.actor):
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
        resumed = resume(link, by=request.actor)
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
        link = opened(token, is_visit=request.method == "GET")
    except NoSuchLink:
        answer = render(request, "research/shared_gone.html", status=404)
    except LinkOver as exc:
        answer = render(request, "research/shared_gone.html", {"why": str(exc)}, status=410)
    else:
        answer = render(request, "research/shared_report.html", words_of(link))
    # Neither search engines nor the pages that are linked to learn the address.
    answer["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    answer["Referrer-Policy"] = "no-referrer"
    return answer
