"""Activity: one stream of everything that happened, a change in full, taking one back, files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, QueryDict, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.models import Remembered, Revision
from memory.records import saved_views, undoing
from memory.records.kinds import nouns
from memory.responses import go_back
from research.activity import change as activity_change
from research.activity import export as activity_export
from research.activity import page as activity_page
from research.activity import words as activity_words
from research.activity.line import Line
from research.activity.streams import ACTORS, KINDS, MOST_LOOKED_AT, Wanted


@login_required
@require_GET
@vary_on_headers("HX-Request")
def activity(request: BeaconRequest) -> HttpResponse:
    """Show what happened, the newest first; over htmx the list alone."""
    wanted = Wanted.of(request.GET)
    page = activity_page.page(
        request.user,
        wanted,
        zone=timezone.get_current_timezone(),
        cursor=request.GET.get("cursor", ""),
    )
    query = request.GET.copy()
    query.pop("cursor", None)
    _say_who(page.lines, query)
    context: dict[str, Any] = {
        "wanted": wanted,
        "entries": page.entries,
        "lines": page.lines,
        "next_cursor": page.next_cursor,
        "filters": query.urlencode(),
        "actors": {name: words for name, (words, _stored) in ACTORS.items()},
        "one_actor": _one_actor(request, wanted),
        "kinds": KINDS,
        "types": nouns(),
        "looked_at": f"{MOST_LOOKED_AT:,}",
    }
    if request.htmx and request.htmx.target == "activity":
        return render(request, "research/_activity.html", context)
    context["views"] = saved_views.views_of(request.user, "activity", query.urlencode())
    return render(request, "research/activity.html", context)


def _say_who(lines: Iterable[Line], query: QueryDict) -> None:
    """Let each line lead to all that its actor did, among what is asked for."""
    asked, queries = query.copy(), {}
    for line in lines:
        if line.actor not in queries:
            asked["actor"] = line.actor
            queries[line.actor] = f"?{asked.urlencode()}"
        line.by_them = queries[line.actor]


def _one_actor(request: BeaconRequest, wanted: Wanted) -> str:
    """Return in words the single actor that is asked for, empty where it is none or a group."""
    if not wanted.actor or wanted.actor in ACTORS:
        return ""
    return activity_words.who(wanted.actor, request.user.get_username())


@login_required
@require_GET
@vary_on_headers("HX-Request")
def activity_change_page(request: BeaconRequest, pk: int) -> HttpResponse:
    """Show one change in full: over htmx beside its line, else on a page of its own."""
    revision = get_object_or_404(Revision.objects.of(request.user), pk=pk)
    record = activity_change.record_now(revision)
    context = {
        "revision": revision,
        "changes": activity_change.changes_of(revision) if revision.before else [],
        "made": [] if revision.before else activity_change.first_values(revision),
        "who": activity_words.who(revision.actor, request.user.get_username()),
        "noun": activity_words.subject(revision.record_type),
        "record": record,
        "is_latest": record is not None and record.version == revision.version,
    }
    template = "research/_activity_change.html" if request.htmx else "research/activity_change.html"
    return render(request, template, context)


@login_required
@require_POST
def activity_undo(request: BeaconRequest, pk: int) -> HttpResponse:
    """Take one change back; the record gets a further revision that says so."""
    said = _("Taken back: “%(label)s” is as it was before that change.")
    return _put_back(request, pk, undoing.undo, said)


@login_required
@require_POST
def activity_restore(request: BeaconRequest, pk: int) -> HttpResponse:
    """Put a record back as it was with one of its changes."""
    said = _("“%(label)s” is again as it was in that version.")
    return _put_back(request, pk, undoing.restore_to, said)


def _put_back(
    request: BeaconRequest, pk: int, act: Callable[..., Remembered], said: str
) -> HttpResponse:
    revision = get_object_or_404(Revision.objects.of(request.user), pk=pk)
    back = reverse("research:activity")
    try:
        record = act(revision, by=request.actor)
    except MemoryRefused as exc:
        messages.error(request, str(exc))
        return go_back(request, back)
    last = Revision.objects.filter(record_id=record.pk).order_by("-id").first()
    tags = "undo:" + reverse("research:activity-undo", args=[last.pk]) if last else ""
    messages.success(request, said % {"label": record}, extra_tags=tags)
    return go_back(request, back)


@login_required
@require_GET
def activity_file(request: BeaconRequest, kind: str) -> HttpResponse | StreamingHttpResponse:
    """Give all that the filters match as a file, as it is read."""
    export = activity_export.KINDS.get(kind)
    if export is None:
        why = _("There is no such file. There are: %(kinds)s.")
        said = why % {"kinds": ", ".join(activity_export.KINDS)}
        return render(request, "404.html", {"why": said}, status=404)
    zone = timezone.get_current_timezone()
    lines = activity_page.everything(request.user, Wanted.of(request.GET), zone=zone)
    answer = StreamingHttpResponse(export.write(lines), content_type=export.media_type)
    answer["Content-Disposition"] = f'attachment; filename="beacon-{kind}"'
    return answer
