"""The list of topics, bulk actions, the sample topic, and topics in Trash."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.http import (
    require_GET,
    require_http_methods,
    require_POST,
    require_safe,
)
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from beacon_site.search_services import sample
from memory.core.errors import InvalidValue, MemoryRefused
from memory.models import Topic
from memory.records import traces
from memory.web import filter_bar
from memory.web.filter_bar import Choice, Facet
from memory.web.responses import redirect_back, redirect_to, refused
from memory.web.undo import offer
from research.execution.starting import (
    NotNow,
    create_sample_topic,
    limits_in_words,
    loaded_at,
    start_run,
)
from research.models import Report, Run, RunAlreadyActive
from research.pages.responses import confirm_read, not_now
from research.reports import topic_news
from research.topics import acts
from research.topics import listing as topic_list
from research.topics.listing import with_figures

SORTS = {
    "recent": gettext_lazy("Last run"),
    "next": gettext_lazy("Next run"),
    "title": gettext_lazy("Title"),
    "made": gettext_lazy("Newest"),
}


@login_required
@require_GET
@vary_on_headers("HX-Request")
def topics(request: BeaconRequest) -> HttpResponse:
    """Show the person's topics. Over htmx only the table."""
    facets, counts = _facets(request)
    query = filter_bar.read(request.GET, facets)
    wanted = topic_list.Filters.of(query)
    page = topic_list.page_wanted(request.user, wanted, cursor=request.GET.get("cursor", ""))
    if wanted.words or wanted.label:
        total = topic_list.topics_wanted(request.user, wanted).count()
    else:
        total = counts[wanted.show]
    bar = filter_bar.FilterBar(
        reverse("research:topics"), "topics", query,
        label=_("Search topics"), placeholder=_("Search titles, labels and summaries"),
        facets=facets, sorts=SORTS,
        count=ngettext("%(n)d topic", "%(n)d topics", total) % {"n": total},
    )  # fmt: skip
    context: dict[str, Any] = {
        "bar": bar,
        "wanted": wanted,
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "total": total,
        "filters": bar.state,
        "sample_title": sample.SAMPLE_TOPIC.title,
    }
    if request.htmx:
        return render(request, "research/_topics.html", context)
    context["limits"] = limits_in_words(request.user)
    return render(request, "research/topics.html", context)


def _facets(request: BeaconRequest) -> tuple[list[Facet], dict[str, int]]:
    """Return what the list can be filtered by, and the number of topics by state: two queries."""
    active, archived = topic_list.number_of(request.user)
    counts = {"active": active, "archived": archived, "all": active + archived}
    states = [Choice("archived", _("Archived"), archived), Choice("all", _("All"), counts["all"])]
    facets = [Facet("show", _("Status"), states, any_label=_("Active"), any_count=active)]
    if labels := topic_list.labels_of(request.user):
        facets.append(Facet("label", _("Label"), labels))
    return facets, counts


@login_required
@require_POST
def topics_bulk(request: BeaconRequest) -> HttpResponse:
    """Apply an action to the selected topics, or to all that match. The list keeps its filters."""
    back = reverse("research:topics") + (f"?{request.GET.urlencode()}" if request.GET else "")
    act = request.POST.get("act", "")
    chosen = _chosen(request)
    if act == "read" and chosen:
        found: Any = Report.objects.of(request.user).live()
        rows = found.filter(run__topic__in=chosen).exclude(run__number=None)
        confirm_read(request, *topic_news.mark_read(rows))
        return redirect_back(request, back)
    if act not in acts.ACTS or not acts.ACTS[act].many or not chosen:
        messages.warning(request, _("Select at least one topic."))
        return redirect_back(request, back)
    outcome = acts.act_on(chosen, act, by=request.actor)
    may_undo = bool(outcome.done) and bool(acts.ACTS[act].inverse)
    tags = offer(request, "topics", act=act, topics=outcome.done) if may_undo else ""
    level = messages.SUCCESS if outcome.done else messages.WARNING
    words = acts.in_words(act, outcome, len(chosen))
    messages.add_message(request, level, words, extra_tags=tags)
    return redirect_back(request, back)


def _chosen(request: BeaconRequest) -> list[Topic]:
    """Return the selected topics, or all that match the URL's filters."""
    if request.POST.get("all"):
        wanted = topic_list.Filters.of(request.GET)
        found = topic_list.topics_wanted(request.user, wanted)
    else:
        slugs = [slug.replace("\x00", "") for slug in request.POST.getlist("topic")]
        found = Topic.objects.of(request.user).live().filter(slug__in=slugs)
    return list(found.select_related("owner").order_by("title"))


@login_required
@require_POST
def topics_sample(request: BeaconRequest) -> HttpResponse:
    """Create or find the sample topic and start its next run."""
    try:
        topic = create_sample_topic(request.user, by=request.actor)
        loaded = loaded_at(request.POST)
        run: Run | None = start_run(
            topic, trigger=Run.Trigger.PERSON, by=request.actor, loaded=loaded
        )
    except RunAlreadyActive as exc:
        messages.info(request, str(exc))
        run = exc.run
    except NotNow as exc:
        return not_now(request, exc)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    if run is None:
        return redirect_to(request, reverse("research:topic", args=[topic.slug]))
    return redirect_to(request, reverse("research:run", args=[topic.slug, run.pk]))


# --- Trash ---


@require_safe
@login_required
def topics_trash(request: BeaconRequest) -> HttpResponse:
    """Redirect to the topics in Trash."""
    return redirect(_trash())


def _trash() -> str:
    return f"{reverse('memory:trash')}?type=topic"


@require_http_methods(["GET", "POST"])
@login_required
def topic_purge(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Permanently delete a topic in Trash if its name is typed (R232)."""
    mine = Topic.objects.of(request.user).in_trash().select_related("owner")
    topic = get_object_or_404(with_figures(mine), pk=pk)
    typed, problem = request.POST.get("name", ""), ""
    if request.method == "POST":
        try:
            acts.purge_topic(topic, typed=typed, by=request.actor)
        except InvalidValue as exc:
            problem = str(exc)
        else:
            words = _("“%(topic)s” permanently deleted, along with its runs and reports.")
            messages.success(request, words % {"topic": topic})
            return redirect_to(request, _trash())
    context = {
        "topic": topic,
        "typed": typed,
        "problem": problem,
        "repeats": traces.what_stays(topic),
    }
    template = "_topic_purge" if request.htmx else "topic_purge"
    return render(request, f"research/{template}.html", context)
