"""The list of topics, bulk actions, the sample topic, and topics in Trash."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.vary import vary_on_headers

from beacon_site.providers.search import sample
from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import match_key, number_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    CleanTextField,
    SecretConfirmationMixin,
    redirect_back,
    redirect_to,
    signed_in,
)
from memory.models import Note, Topic, TopicFact
from memory.models.errors import InvalidValue, MemoryRefused
from memory.pages.records import saved_views
from memory.pages.shared import filter_bar
from memory.pages.shared.as_of import at_a_date
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.filter_bar import Choice, Facet
from memory.pages.shared.undo import act, offer, toast_with_undo, undoes
from memory.services import topic_memory
from memory.services.notes.saving import write_note
from memory.services.records import traces
from memory.services.topic_memory import agent_memory
from research.models import AffectedLine, Comment, Report, Run, RunAlreadyActive
from research.models.reports import link_of
from research.pages import topic_list
from research.pages.report_list import confirm_read
from research.pages.topic_list import with_figures
from research.pages.topic_settings import TEMPLATES
from research.services.facts import affected
from research.services.reports import reading, since_read
from research.services.runs.execution.starting import (
    create_sample_topic,
    describe_limits,
    loaded_at,
    start_run,
)
from research.services.runs.search import known_pages
from research.services.topics import acts, sharing
from research.services.topics.facts import fact_rows
from research.services.topics.settings import editing as topic_editing

SORTS = {
    "recent": gettext_lazy("Recent"),
    "next": gettext_lazy("Next run"),
    "title": gettext_lazy("Title"),
    "made": gettext_lazy("Newest"),
}


@signed_in("GET")
@vary_on_headers("HX-Request")
@at_a_date
def topics(request: BeaconRequest) -> HttpResponse:
    """Show the person's topics. Over htmx only the table."""
    facets, counts = _facets(request)
    query = filter_bar.read(request.GET, facets)
    page = topic_list.page_wanted(request.user, query, cursor=request.GET.get("cursor", ""))
    if query.get("q") or query.get("label"):
        total = topic_list.topics_wanted(request.user, query).count()
    else:
        total = counts[topic_list.shown_of(query)]
    bar = filter_bar.FilterBar(
        reverse("research:topics"), "topics", query,
        label=_("Search topics"), placeholder=_("Search topics"),
        facets=facets, sorts=_sorts(request),
        count=ngettext("%(n)d topic", "%(n)d topics", total) % {"n": total},
        views_page="topics",
    )  # fmt: skip
    bar = saved_views.with_views(request.user, bar)
    context: dict[str, Any] = {
        "bar": bar,
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "total": total,
        "filters": bar.state,
        "sample_title": sample.SAMPLE_TITLE,
        "templates": TEMPLATES,
    }
    if request.htmx:
        return render(request, "research/_topics.html", context)
    if not request.date.is_past:
        context["limits"] = describe_limits(request.user)
        context["shared_rows"] = sharing.listed(request.user)
    return render(request, "research/topics.html", context)


def _sorts(request: BeaconRequest) -> dict[str, Any]:
    """Return the orders. Schedules have no history, so an earlier date has no next runs."""
    return {
        name: label for name, label in SORTS.items() if name != "next" or not request.date.is_past
    }


def _facets(request: BeaconRequest) -> tuple[list[Facet], dict[str, int]]:
    """Return what the list can be filtered by, and the number of topics by state: two queries."""
    active, archived = topic_list.active_and_archived(request.user)
    counts = {"active": active, "archived": archived, "all": active + archived}
    states = [Choice("archived", _("Archived"), archived), Choice("all", _("All"), counts["all"])]
    facets = [Facet("show", _("Status"), states, any_label=_("Active"), any_count=active)]
    if labels := topic_list.labels_of(request.user):
        facets.append(Facet("label", _("Label"), labels))
    return facets, counts


@signed_in("POST")
def topics_bulk(request: BeaconRequest) -> HttpResponse:
    """Apply an action to the selected topics, or to all that match. The list keeps its filters."""
    back = reverse("research:topics") + (f"?{request.GET.urlencode()}" if request.GET else "")
    act = request.POST.get("act", "")
    chosen = _chosen(request)
    if act == "read" and chosen:
        found: Any = Report.objects.for_user(request.user).live()
        rows = found.filter(run__topic__in=chosen).exclude(run__number=None)
        confirm_read(request, *since_read.mark_read(rows))
        return redirect_back(request, back)
    if act not in acts.ACTS or not acts.ACTS[act].many or not chosen:
        messages.warning(request, _("Select at least one topic."))
        return redirect_back(request, back)
    done, reasons = acts.act_on(chosen, act, by=request.actor)
    may_undo = bool(done) and bool(acts.ACTS[act].inverse)
    tags = offer(request, "topics", act=act, topics=list(done)) if may_undo else ""
    level = messages.SUCCESS if done else messages.WARNING
    words = acts.describe(act, len(done), reasons, len(chosen))
    messages.add_message(request, level, words, extra_tags=tags)
    return redirect_back(request, back)


def _chosen(request: BeaconRequest) -> list[Topic]:
    """Return the selected topics, or all that match the URL's filters."""
    if request.POST.get("all"):
        found = topic_list.topics_wanted(request.user, request.GET)
    else:
        slugs = [slug.replace("\x00", "") for slug in request.POST.getlist("topic")]
        found = Topic.objects.for_user(request.user).live().filter(slug__in=slugs)
    return list(found.select_related("owner").order_by("title"))


@signed_in("POST")
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
    if run is None:
        return redirect_to(request, reverse("research:topic", args=[topic.slug]))
    return redirect_to(request, reverse("research:run", args=[topic.slug, run.pk]))


# --- Trash ---


@signed_in("GET", "HEAD")
def topics_trash(request: BeaconRequest) -> HttpResponse:
    return redirect(_trash())


def _trash() -> str:
    return f"{reverse('memory:trash')}?type=topic"


@signed_in("GET", "POST")
def topic_purge(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Permanently delete a topic in Trash if its name is typed (R232)."""
    mine = Topic.objects.for_user(request.user).in_trash().select_related("owner")
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


# --- Topic ---
#
# A topic's tabs (read, timeline, sources, runs, memory), notes on its sentences, and its actions.


MAX_NOTE = 1_000  # characters


def _show(request: BeaconRequest, tab: str, topic: Any, /, **more: Any) -> HttpResponse:
    """Show a tab. Over htmx (filters, further pages) only its list."""
    context = {**more, "topic": topic, "tab": tab, "head": topic_list.head_of(topic)}
    template = f"_topic_{tab}" if request.htmx else f"topic_{tab}"
    return render(request, f"research/{template}.html", context)


# --- reading ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
@at_a_date
def topic(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show what changed in the unread runs, or in the runs that the address selects."""
    found = topic_list.topic_or_404(request, slug)
    first, last = (number_of(request.GET.get(name, "")) for name in ("from", "to"))
    page = reading.of(found, first, last, date=request.date.more)
    number = Comment.objects.filter(report__run=page.strip.last.pk).count() if page else 0
    return _show(request, "read", found, page=page, comment_count=number)


class SentenceNoteForm(SecretConfirmationMixin):
    note = CleanTextField(
        label=gettext_lazy("Your note"),
        max_length=MAX_NOTE,
        error_messages={"required": gettext_lazy("Write a note.")},
        widget=forms.Textarea(attrs={"rows": 2, "data-focus": ""}),
        help_text=gettext_lazy("The note is saved to Memory together with the sentence."),
    )
    sentence = CleanTextField(max_length=MAX_NOTE, required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """Require the sentence, whose field is hidden."""
        words: dict[str, Any] = super().clean() or {}
        if not words.get("sentence"):
            self.add_error(
                None,
                _("To add a note, select a sentence in the report."),
            )
        return words


@never_cache
@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
@idempotent_post
def sentence_note(request: BeaconRequest, slug: str) -> HttpResponse:
    """Add a note on a sentence of the topic. It appears in the margin next to the sentence."""
    found = topic_list.bare_topic_or_404(request, slug)
    sentence = request.GET.get("sentence", "").replace("\x00", "")[:MAX_NOTE]
    form = SentenceNoteForm(request.POST or None, initial={"sentence": sentence})
    if request.method == "POST" and form.is_valid():
        words = form.cleaned_data
        try:
            note = write_note(
                found.owner,
                Note.Kind.LOG,
                words["note"],
                by=request.actor,
                evidence=[words["sentence"]],
                topic=found,
            )
        except MemoryRefused as exc:
            form.add_error("note", str(exc))
        else:
            toast_with_undo(request, note, _("Note saved."))
            if request.htmx:
                return render(request, "research/_read_noted.html", {"note": note, "is_new": True})
            return redirect_back(request, found.get_absolute_url())
    context = {"topic": found, "form": form, "sentence": form["sentence"].value()}
    if request.htmx:
        return render(request, "research/_sentence_note.html", context)
    facts = TopicFact.objects.filter(topic=found, key=match_key(context["sentence"] or "")).live()
    context["row"] = next(iter(fact_rows(found, facts[:1])), None)
    return render(request, "research/sentence_note.html", context)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
@at_a_date
def topic_runs(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show all runs, including failed and cancelled ones."""
    found = topic_list.topic_or_404(request, slug)
    facets, total = topic_list.run_facets(found)
    query = filter_bar.read(request.GET, facets)
    page = topic_list.runs_of(found, query, cursor=request.GET.get("cursor", ""))
    removed = Report.objects.filter(run__topic=found).in_trash().count()
    bar = filter_bar.FilterBar(
        reverse("research:topic-runs", args=[slug]), "runs", query,
        label=_("Search runs"), placeholder=_("Search run numbers and errors"), facets=facets,
        count=ngettext("%(n)d run", "%(n)d runs", total) % {"n": total},
    )  # fmt: skip
    shown = [row["run"] for row in page.rows]
    has_cost = any(run.money or run.tokens or run.unpriced_calls for run in shown)
    more = {"next_cursor": page.next_cursor, "removed": removed, "bar": bar, "has_cost": has_cost}
    return _show(request, "runs", found, rows=page.rows, **more)


# --- affects you ---


def _affected(request: BeaconRequest, slug: str, pk: uuid.UUID) -> AffectedLine:
    mine = AffectedLine.objects.for_user(request.user).filter(item__run__topic__slug=slug)
    found: AffectedLine = get_object_or_404(mine.filter(item__run__topic__trashed_at=None), pk=pk)
    return found


@act("affects-dismiss")
def affects_dismiss(request: BeaconRequest, slug: str, pk: uuid.UUID) -> str:
    """Remember that a change isn't about a line of the person's memory."""
    if affected.dismiss(_affected(request, slug, pk)):
        undo = offer(request, "affects-restore", slug=slug, pk=pk)
        message = _("Removed. Similar changes won’t be linked to this line of your memory.")
        messages.success(request, message, extra_tags=undo)
    else:
        messages.info(request, _("The change is no longer linked to this line."))
    return reverse("research:topic", args=[slug])


@act("affects-restore")
def affects_restore(request: BeaconRequest, slug: str, pk: uuid.UUID) -> str:
    """Show that a change affects a line again."""
    if affected.restore(_affected(request, slug, pk)):
        undo = offer(request, "affects-dismiss", slug=slug, pk=pk)
        messages.success(
            request,
            _("Restored. The change is linked to this line of your memory again."),
            extra_tags=undo,
        )
    else:
        messages.info(request, _("The change is already linked to this line of your memory."))
    return reverse("research:topic", args=[slug])


# --- memory ---


@signed_in("GET", "HEAD")
@at_a_date
def topic_memory_page(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show what the next run looks for, reads again, knows and skips. The prompt and JSON are folded."""
    found = topic_list.topic_or_404(request, slug)
    loaded, memory = topic_memory.load(found), agent_memory(found)
    again = known_pages.links_of(found, loaded.memory)
    titles = dict(found.sources.filter(link__in=again).values_list("link", "title"))
    # Without scripts, the link “Show estimate” leads here.
    estimate = topic_list.estimate_of(found) if "estimate" in request.GET else {}
    return _show(
        request,
        "memory",
        found,
        known=loaded.memory,
        again=[(link_of(link), titles.get(link) or link, domain_of(link)) for link in again],
        memory_json=json.dumps(memory, indent=2, ensure_ascii=False),
        prompt=loaded.memory.as_prompt() if loaded.memory else "",
        problem=loaded.problem,
        seen_count=len(memory["seenUrls"]),
        **estimate,
    )


@signed_in("GET", "HEAD")
@at_a_date
def topic_memory_json(request: BeaconRequest, slug: str) -> HttpResponse:
    """Download the memory as seed 000's JSON (R237)."""
    found = topic_list.topic_or_404(request, slug)
    dumps = {"indent": 2, "ensure_ascii": False}
    response = JsonResponse(agent_memory(found), json_dumps_params=dumps)
    response["Content-Disposition"] = f'attachment; filename="{found.slug}-memory.json"'
    return response


# --- actions on a topic ---


@signed_in("POST")
def topic_run(request: BeaconRequest, slug: str) -> HttpResponse:
    """Start a run and show it, or show the current one.

    `depth` applies only to this run. Without it, the topic's depth applies.
    """
    topic = topic_list.bare_topic_or_404(request, slug)
    depth = request.POST.get("depth", "")
    try:
        run: Run | None = start_run(
            topic,
            trigger=Run.Trigger.PERSON,
            by=request.actor,
            depth=depth,
            loaded=loaded_at(request.POST),
        )
    except RunAlreadyActive as exc:
        messages.info(request, _("%(what)s You’re viewing it now.") % {"what": exc})
        run = exc.run
    if run is None:  # it ended during the request
        return redirect_to(request, topic.get_absolute_url())
    return redirect_to(request, reverse("research:run", args=[topic.slug, run.pk]))


@signed_in("POST")
def topic_act(request: BeaconRequest, slug: str, act: str) -> HttpResponse:
    topic = topic_list.bare_topic_or_404(request, slug)
    more = acts.ACTS[act].do(topic, request.actor)
    if more is None:
        messages.info(request, str(acts.ACTS[act].unchanged))
    else:
        _say_done(request, act, topic, more)
    return redirect_back(
        request, reverse("research:topics") if act == "archive" else topic.get_absolute_url()
    )


def _say_done(request: BeaconRequest, act: str, topic: Topic, more: str) -> None:
    words = f"{acts.ACTS[act].said % {'topic': topic}} {more}".rstrip()
    undo = offer(request, "topics", act=act, topics=[topic.pk])
    messages.success(request, words, extra_tags=undo)


@undoes("topics")
def _undo_topics(request: BeaconRequest, act: str, topics: list[str]) -> str:
    """Undo an action on topics by its inverse. Topics that have changed since stay as they are."""
    inverse = acts.ACTS[act].inverse
    found: list[Topic] = list(
        Topic.objects.for_user(request.user).live().filter(pk__in=topics).select_related("owner")
    )
    done, reasons = acts.act_on(found, inverse, by=request.actor)
    if not done:
        why = " ".join(reasons) or acts.ACTS[inverse].unchanged
        raise InvalidValue(_("%(why)s Nothing was changed.") % {"why": why})
    if len(topics) == 1:
        _say_done(request, inverse, found[0], done[found[0].pk])
        return found[0].get_absolute_url()
    undo = offer(request, "topics", act=inverse, topics=list(done))
    words = acts.describe(inverse, len(done), reasons, len(topics))
    messages.success(request, words, extra_tags=undo)
    return reverse("research:topics")


@signed_in("POST")
def topic_trash(request: BeaconRequest, slug: str) -> HttpResponse:
    """Move the topic to Trash. A run in progress is cancelled, and the message says so."""
    topic = topic_list.bare_topic_or_404(request, slug)
    cancelled = topic_editing.trash_topic(topic, by=request.actor)
    words = _("“%(topic)s” moved to Trash. You can restore it within 30 days.") % {"topic": topic}
    if cancelled:
        words += " " + _(
            "The topic’s run was cancelled. You can retry it after you restore the topic."
        )
    toast_with_undo(request, topic, words)
    return redirect_to(request, reverse("research:topics"))


@signed_in("GET", "POST")
def topic_duplicate(request: BeaconRequest, slug: str) -> HttpResponse:
    """Open the form for a new topic, filled with this one's settings and schedule."""
    topic = topic_list.bare_topic_or_404(request, slug)
    return redirect_to(request, f"{reverse('research:topic-new')}?from={topic.slug}")
