"""A topic's tabs (read, timeline, sources, runs, memory), notes on its sentences, and its actions."""

from __future__ import annotations

import json
import uuid
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.core.errors import InvalidValue, MemoryRefused
from memory.models import Note, Topic
from memory.notes.services import write_note
from memory.topics import memory as topic_memory
from memory.topics.memory import agent_memory
from memory.web import filter_bar
from memory.web.double_submit import idempotent_post
from memory.web.fields import CleanTextField
from memory.web.responses import redirect_back, redirect_to, refused
from memory.web.undo import act, offer, offer_revision, undoes
from research.execution.starting import NotNow, loaded_at, start_run
from research.facts import affected
from research.models import AffectedLine, Report, Run, RunAlreadyActive
from research.pages.responses import not_now
from research.reports import reading
from research.topic_settings import editing as topic_editing
from research.topics import acts
from research.topics import page as topic_page

MOST_NOTE = 1_000  # characters


def _topic(request: BeaconRequest, slug: str) -> Any:
    return get_object_or_404(topic_page.topics_of(request.user), slug=slug)


def _show(request: BeaconRequest, tab: str, topic: Any, /, **more: Any) -> HttpResponse:
    """Show a tab. Over htmx (filters, further pages) only its list."""
    context = {**more, "topic": topic, "tab": tab, "head": topic_page.head_of(topic)}
    template = f"_topic_{tab}" if request.htmx else f"topic_{tab}"
    return render(request, f"research/{template}.html", context)


# --- reading ---

_MOST_DIGITS = 9  # of a run's number


@require_safe
@login_required
@vary_on_headers("HX-Request")
def topic(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show what changed in the unread runs, or in the runs that the address selects."""
    found = _topic(request, slug)
    first, last = (_number(request.GET.get(name, "")) for name in ("from", "to"))
    return _show(request, "read", found, page=reading.of(found, first, last))


def _number(text: str) -> int | None:
    """Return the run number in a text, or None if it isn't one."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else None


class SentenceNoteForm(forms.Form):
    """A person's note on a sentence."""

    note = CleanTextField(
        label=gettext_lazy("Your note"),
        max_length=MOST_NOTE,
        error_messages={"required": gettext_lazy("Write a note.")},
        widget=forms.Textarea(attrs={"rows": 2, "data-focus": ""}),
        help_text=gettext_lazy("It’s saved to your memory, with the sentence as its evidence."),
    )
    sentence = CleanTextField(max_length=MOST_NOTE, required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """Require the sentence, whose field is hidden."""
        words: dict[str, Any] = super().clean() or {}
        if not words.get("sentence"):
            self.add_error(None, _("Open the note from its sentence, so that it belongs to one."))
        return words


@never_cache
@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
@idempotent_post
def sentence_note(request: BeaconRequest, slug: str) -> HttpResponse:
    """Add a note on a sentence of the topic. It appears in the margin next to the sentence."""
    found = _topic_to_change(request, slug)
    sentence = request.GET.get("sentence", "").replace("\x00", "")[:MOST_NOTE]
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
            undo = offer_revision(request, note)
            messages.success(request, _("Note saved."), extra_tags=undo)
            if request.htmx:
                return render(request, "research/_read_noted.html", {"note": note, "is_new": True})
            return redirect_back(request, _page_of(found))
    context = {"topic": found, "form": form, "sentence": form["sentence"].value()}
    template = "_sentence_note" if request.htmx else "sentence_note"
    return render(request, f"research/{template}.html", context)


@require_safe
@login_required
@vary_on_headers("HX-Request")
def topic_runs(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show all runs, including failed and cancelled ones."""
    found = _topic(request, slug)
    facets, total = topic_page.run_facets(found)
    query = filter_bar.read(request.GET, facets)
    page = topic_page.runs_of(found, query, cursor=request.GET.get("cursor", ""))
    removed = Report.objects.filter(run__topic=found).in_trash().count()
    bar = filter_bar.FilterBar(
        reverse("research:topic-runs", args=[slug]), "runs", query,
        label=_("Search runs"), placeholder=_("A number, or words of an error"), facets=facets,
        count=ngettext("%(n)d run", "%(n)d runs", total) % {"n": total},
    )  # fmt: skip
    more = {"next_cursor": page.next_cursor, "removed": removed, "bar": bar}
    return _show(request, "runs", found, rows=page.rows, **more)


# --- affects you ---


def _affected(request: BeaconRequest, slug: str, pk: uuid.UUID) -> AffectedLine:
    mine = AffectedLine.objects.of(request.user).filter(item__run__topic__slug=slug)
    found: AffectedLine = get_object_or_404(mine.filter(item__run__topic__trashed_at=None), pk=pk)
    return found


@act("affects-dismiss")
def affects_dismiss(request: BeaconRequest, slug: str, pk: uuid.UUID) -> str:
    """Remember that a change isn't about a line of the person's memory."""
    if affected.dismiss(_affected(request, slug, pk)):
        undo = offer(request, "affects-restore", slug=slug, pk=pk)
        said = _("Removed. Similar changes won’t be linked to this line.")
        messages.success(request, said, extra_tags=undo)
    else:
        messages.info(request, _("This was already removed."))
    return reverse("research:topic", args=[slug])


@act("affects-restore")
def affects_restore(request: BeaconRequest, slug: str, pk: uuid.UUID) -> str:
    """Show that a change affects a line again."""
    if affected.restore(_affected(request, slug, pk)):
        undo = offer(request, "affects-dismiss", slug=slug, pk=pk)
        messages.success(request, _("Shown again."), extra_tags=undo)
    else:
        messages.info(request, _("This is already shown."))
    return reverse("research:topic", args=[slug])


# --- memory ---


@require_safe
@login_required
def topic_memory_page(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the memory as seed 000's JSON, and what upcoming prompts would include."""
    found = _topic(request, slug)
    loaded, memory = topic_memory.load(found), agent_memory(found)
    return _show(
        request,
        "memory",
        found,
        memory_json=_as_text(memory),
        prompt=loaded.memory.as_prompt() if loaded.memory else "",
        problem=loaded.problem,
        seen_count=len(memory["seenUrls"]),
    )


def _as_text(memory: dict[str, Any]) -> str:
    return json.dumps(memory, indent=2, ensure_ascii=False)


@require_safe
@login_required
def topic_memory_json(request: BeaconRequest, slug: str) -> HttpResponse:
    """Download the memory as seed 000's JSON (R237)."""
    found = _topic(request, slug)
    dumps = {"indent": 2, "ensure_ascii": False}
    response = JsonResponse(agent_memory(found), json_dumps_params=dumps)
    response["Content-Disposition"] = f'attachment; filename="{found.slug}-memory.json"'
    return response


# --- actions on a topic ---


def _topic_to_change(request: BeaconRequest, slug: str) -> Topic:
    mine = Topic.objects.of(request.user).live().select_related("owner")
    topic: Topic = get_object_or_404(mine, slug=slug)
    return topic


def _page_of(topic: Topic) -> str:
    return reverse("research:topic", args=[topic.slug])


@login_required
@require_POST
def topic_run(request: BeaconRequest, slug: str) -> HttpResponse:
    """Start a run and show it, or show the current one.

    `depth` applies only to this run. Without it, the topic's depth applies.
    """
    topic = _topic_to_change(request, slug)
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
        messages.info(request, _("%(what)s You’re looking at it.") % {"what": exc})
        run = exc.run
    except InvalidValue as exc:
        return refused(request, str(exc))
    except NotNow as exc:
        return not_now(request, exc)
    if run is None:  # it ended during the request
        return redirect_to(request, _page_of(topic))
    return redirect_to(request, reverse("research:run", args=[topic.slug, run.pk]))


@login_required
@require_POST
def topic_act(request: BeaconRequest, slug: str, act: str) -> HttpResponse:
    """Carry out one of `acts.ACTS` on the topic."""
    topic = _topic_to_change(request, slug)
    try:
        more = acts.ACTS[act].do(topic, request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    if more is None:
        messages.info(request, str(acts.ACTS[act].unchanged))
    else:
        _say_done(request, act, topic, more)
    return redirect_back(
        request, reverse("research:topics") if act == "archive" else _page_of(topic)
    )


def _say_done(request: BeaconRequest, act: str, topic: Topic, more: str) -> None:
    words = f"{acts.ACTS[act].said % {'topic': topic}} {more}".rstrip()
    undo = offer(request, "topics", act=act, topics=[topic.pk])
    messages.success(request, words, extra_tags=undo)


@undoes("topics")
def _undo_topics(request: BeaconRequest, act: str, topics: list[str]) -> str:
    """Undo an action on topics by its inverse. Topics that have changed since stay as they are."""
    inverse = acts.ACTS[act].inverse
    found = list(
        Topic.objects.of(request.user).live().filter(pk__in=topics).select_related("owner")
    )
    outcome = acts.act_on(found, inverse, by=request.actor)
    if not outcome.done:
        why = " ".join(outcome.reasons) or acts.ACTS[inverse].unchanged
        raise InvalidValue(_("%(why)s Nothing was changed.") % {"why": why})
    if len(topics) == 1:
        _say_done(request, inverse, found[0], outcome.more[0])
        return _page_of(found[0])
    undo = offer(request, "topics", act=inverse, topics=outcome.done)
    words = acts.in_words(inverse, outcome, len(topics))
    messages.success(request, words, extra_tags=undo)
    return reverse("research:topics")


@login_required
@require_POST
def topic_trash(request: BeaconRequest, slug: str) -> HttpResponse:
    """Move the topic to Trash. A run in progress is cancelled, and the message says so."""
    topic = _topic_to_change(request, slug)
    try:
        cancelled = topic_editing.trash_topic(topic, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    words = _("“%(topic)s” moved to Trash. You can restore it for 30 days.") % {"topic": topic}
    if cancelled:
        words += " " + _("Its run was cancelled. You can retry it after you restore the topic.")
    messages.success(request, words, extra_tags=offer_revision(request, topic))
    return redirect_to(request, reverse("research:topics"))


@login_required
@require_http_methods(["GET", "POST"])
def topic_duplicate(request: BeaconRequest, slug: str) -> HttpResponse:
    """Open the form for a new topic, filled with this one's settings and schedule."""
    topic = _topic_to_change(request, slug)
    return redirect_to(request, f"{reverse('research:topic-new')}?from={topic.slug}")
