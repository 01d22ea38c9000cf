"""Pages of a topic's facts: add, correct, mark as wrong, lock, notify about and recheck them."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import number_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    CleanTextField,
    DayField,
    RefusalErrorsMixin,
    SecretConfirmationMixin,
    redirect_back,
    redirect_to,
    refused,
    signed_in,
)
from memory.models import Lock, Topic, TopicFact
from memory.models.actors import Actor
from memory.models.as_of import at
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.library import ADDRESS
from memory.pages.shared import filter_bar
from memory.pages.shared.as_of import date_or_problem
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from memory.pages.shared.undo import offer, offer_revision, toast_with_undo, undoes
from research.models import DeltaItem, Run, RunAlreadyActive
from research.pages import sources, topic_list
from research.services.facts import correcting as fact_editing
from research.services.facts import history as fact_history
from research.services.facts.history import SavedRun
from research.services.intent import weighing
from research.services.reports import facts_over_time
from research.services.reports.compare import choices_of
from research.services.runs.execution.starting import start_recheck
from research.services.topics import facts as fact_rows

PANEL_TRIED = 500  # facts among which the first known one is selected
_NO_FACT = gettext_lazy("Enter the fact as one complete sentence that can be checked.")


def _is_foreign(char: str) -> bool:
    """Return True if a URL can't contain the character.

    That applies to whitespace, controls, invisible characters and quotes. Apostrophes are allowed,
    because many encyclopedia URLs contain them.
    """
    return char in '"<>\\`“”' or unicodedata.category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp")


class FactForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """A new fact and its source."""

    text = CleanTextField(
        label=gettext_lazy("Fact"),
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=gettext_lazy("Enter one complete statement that can be checked."),
        error_messages={"required": _NO_FACT},
    )
    url = CleanTextField(
        label=gettext_lazy("Source URL"),
        required=False,
        max_length=2000,
        widget=forms.TextInput(attrs={"inputmode": "url", "spellcheck": "false"}),
    )

    def clean_text(self) -> str:
        """Return the normalized text. Raises ValidationError if it isn't a full statement."""
        try:
            return TopicFact.checked_text(self.cleaned_data["text"])
        except InvalidValue as exc:
            raise ValidationError(str(exc)) from exc

    def clean_url(self) -> str:
        """Return the URL. Raises ValidationError unless it leads to the web or the library."""
        url: str = self.cleaned_data["url"]
        if not url or url == self.initial.get("url") or ADDRESS.fullmatch(url):
            return url
        try:
            parts = urlsplit(url)
            is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
            is_web = is_web and not any(_is_foreign(char) for char in url)
        except ValueError:
            is_web = False
        if not is_web:
            raise ValidationError(
                _(
                    "“%(url)s” isn’t a valid URL. Enter one that starts with https:// or http:// and has no spaces, quotation marks or < >."
                )
                % {"url": url[:80]}
            )
        return url


class CorrectionForm(FactForm):
    """A corrected fact. `version` is the version that was shown."""

    text = CleanTextField(
        label=gettext_lazy("Fact"),
        widget=forms.Textarea(attrs={"rows": 3, "data-focus": ""}),
        help_text=gettext_lazy("Enter one complete statement that can be checked."),
        error_messages={"required": _NO_FACT},
    )
    true_from = DayField(
        label=gettext_lazy("True from"),
        required=False,
        help_text=gettext_lazy("Enter a date only if the source gives one."),
    )
    true_until = DayField(label=gettext_lazy("True until"), required=False)
    version = forms.IntegerField(widget=forms.HiddenInput, min_value=1)

    def clean(self) -> dict[str, Any]:
        """Check that the dates are in order."""
        values: dict[str, Any] = super().clean() or self.cleaned_data
        first, last = values.get("true_from"), values.get("true_until")
        if first and last and last < first:
            self.add_error("true_until", _("This date is before “True from”."))
        return values


class StrikeForm(forms.Form):
    """Why a fact is wrong (optional)."""

    why = CleanTextField(label=gettext_lazy("Reason"), required=False, max_length=300)


# --- a topic's facts ---


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
@idempotent_post
def topic_facts(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the topic's facts over time, or as a list. A POST adds one."""
    topic = topic_list.topic_or_404(request, slug)
    if request.method != "POST":
        return _show_facts(request, topic)
    form = FactForm(request.POST)
    if request.method == "POST" and form.is_valid():
        words = form.cleaned_data
        try:
            added = TopicFact.objects.add(topic, words["text"], by=request.actor, url=words["url"])
        except MemoryRefused as exc:
            form.add_error("text", str(exc))
        else:
            message = _("Fact added. Runs won’t change it.")
            toast_with_undo(request, added, message)
            if not request.htmx:
                return redirect(_in_list(slug, added.pk))
            form = FactForm()
    return _page(request, topic, form, has_runs=len(choices_of(topic)) > 1)


def _show_facts(request: BeaconRequest, topic: Any) -> HttpResponse:
    """Show the facts at the date in the URL: over the runs if there are two, else as a list."""
    date = date_or_problem(request)
    if isinstance(date, HttpResponse):
        return date
    request.date = date
    runs = choices_of(topic)
    if "slot" in request.GET:
        slot = number_of(request.GET["slot"])
        pairs = [(name, value) for name, value in date.others if name != "slot"]
        slot = len(runs) if slot is None else slot
        if typed := facts_over_time.date_of_slot(runs, slot):
            pairs.append(("as_of", typed))
        return redirect_to(request, f"{request.path}?{urlencode(pairs)}")
    if len(runs) > 1 and request.GET.get("view") != "list":
        return _over_time(request, topic, runs)
    with at(request.user, date.when):
        return _page(request, topic, has_runs=len(runs) > 1)


def _over_time(request: BeaconRequest, topic: Any, runs: Sequence[SavedRun]) -> HttpResponse:
    when = request.date.when
    page = number_of(request.GET.get("page", "")) or 1
    shown = facts_over_time.over_time(topic, runs, when, page=page)
    head = topic_list.head_of(topic)
    context: dict[str, Any] = {"topic": topic, "tab": "facts", "shown": shown, "head": head}
    with at(request.user, when):
        shown["known"] = facts_over_time.known_at(topic) if when else topic.fact_count
        context |= _panel(topic, request.GET.get("fact", ""), shown)
        return render(request, "research/facts_over_time.html", context)


def _panel(topic: Any, key: str, shown: dict[str, Any]) -> dict[str, Any]:
    """Return the selected fact as it was at the date, by default the first that was known."""
    facts = TopicFact.objects.filter(topic=topic)
    found = None
    if key:
        try:
            found = facts.filter(pk=key).first()
        except ValidationError:  # not an ID
            found = None
        if found is None:
            return {"is_unknown": True}
    else:
        known = [
            block.fact.pk
            for question in shown["questions"]
            for block in question.blocks
            if not block.is_later
        ]
        found = facts.filter(pk__in=known[:PANEL_TRIED]).current().first()
    if found is None:
        return {}
    found.owner = topic.owner
    question = next((one for one in shown["questions"] if one.chain == found.chain), None)
    numbers = {run.number: run.pk for run in shown["runs"]}
    row = fact_rows.fact_rows(topic, [found], numbers)[0]
    return {"row": row, "question": question, "trail": fact_history.Trail(found)}


_KINDS: dict[str, tuple[Promise, Callable[[fact_rows.FactRow], bool]]] = {
    "current": (gettext_lazy("Current"), lambda row: row.fact.state == TopicFact.State.CURRENT),
    "contradicted": (gettext_lazy("Contradicted"), lambda row: row.fact.is_contradicted),
    "stale": (gettext_lazy("Stale"), lambda row: bool(row.stale)),
    "locked": (gettext_lazy("Locked"), lambda row: row.fact.lock != Lock.OPEN),
    "yours": (gettext_lazy("Added or corrected by you"), lambda row: row.fact.edited_by_person),
    "wrong": (
        gettext_lazy("Marked as wrong"),
        lambda row: row.fact.state == TopicFact.State.STRUCK,
    ),
}


def _bar(request: BeaconRequest, topic: Topic, rows: Sequence[fact_rows.FactRow]) -> FilterBar:
    """Return the filters in the URL, or after an act over htmx, those of the page it was on."""
    query = request.GET
    if request.method == "POST" and request.htmx:
        query = QueryDict(urlsplit(request.htmx.current_url or "").query)
    choices = [
        Choice(kind, label, sum(is_of(row) for row in rows))
        for kind, (label, is_of) in _KINDS.items()
    ]
    choices.append(Choice("outdated", _("Outdated"), fact_rows.retired(topic).count()))
    facets = [Facet("show", _("Status"), choices)]
    asked = filter_bar.read(query, facets)
    # Only the list has filters. Its URL lacks the view after an invalid form, and before the second
    # run, which can finish while the list is open.
    asked["view"] = "list"
    return FilterBar(
        reverse("research:topic-facts", args=[topic.slug]),
        "facts-list",
        asked,
        label=_("Search facts"),
        placeholder=_("Search facts"),
        facets=facets,
    )


def _is_shown(row: fact_rows.FactRow, bar: FilterBar) -> bool:
    text = row.fact.text.casefold()
    if not all(word in text for word in bar.words.casefold().split()):
        return False
    show = bar.query.get("show", "")
    return show != "outdated" and (show not in _KINDS or _KINDS[show][1](row))


def _page(
    request: BeaconRequest,
    topic: Any,
    form: FactForm | None = None,
    *,
    has_runs: bool = False,
) -> HttpResponse:
    current, struck = fact_rows.facts_of(topic)
    topic.fact_count = len(current)  # counted before the action
    bar = _bar(request, topic, [*current, *struck])
    context = {
        "topic": topic,
        "tab": "facts",
        "bar": bar,
        "current": [row for row in current if _is_shown(row, bar)],
        "struck": [row for row in struck if _is_shown(row, bar)],
        "kept": sum(row.fact.is_kept for row in current),
        "stale": sum(bool(row.stale) for row in current),
        "form": form or FactForm(),
        "most": TopicFact.MAX_CURRENT,
        "most_kept": TopicFact.MAX_BY_PEOPLE,
        "has_runs": has_runs,
    }
    if bar.query.get("show", "") not in _KINDS:
        cursor = request.GET.get("cursor", "")
        gone = fact_rows.timeline_of(topic, cursor=cursor, words=bar.words)
        context |= {"rows": gone.rows, "next_cursor": gone.next_cursor}
    if request.htmx and request.htmx.target not in ("timeline", bar.target):
        return render(request, "research/_facts.html", context | {"is_bar_swap": True})
    if request.htmx and request.htmx.target == "timeline":
        return render(request, "research/_topic_timeline.html", context)
    if request.htmx:
        return render(request, "research/_facts_found.html", context)
    context |= {"head": topic_list.head_of(topic), "rules": sources.rules_of(topic)}
    return render(request, "research/topic_facts.html", context)


def _fact(request: BeaconRequest, slug: str, pk: uuid.UUID) -> TopicFact:
    facts = TopicFact.objects.for_user(request.user).filter(topic__trashed_at=None)
    fact: TopicFact = get_object_or_404(
        facts.select_related("topic__owner", "owner"), pk=pk, topic__slug=slug
    )
    return fact


# --- one fact ---


def _in_list(slug: str, pk: uuid.UUID) -> str:
    """Return the URL of a fact in the list. After a second run, the page opens with facts over time."""
    return f"{reverse('research:topic-facts', args=[slug])}?view=list#fact-{pk}"


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def fact(request: BeaconRequest, slug: str, pk: uuid.UUID) -> HttpResponse:
    """Show the row of one fact over htmx, otherwise go to its page."""
    found = _fact(request, slug, pk)
    if not request.htmx:
        return redirect(_in_list(slug, pk))
    return _row(request, found)


def _row(request: BeaconRequest, fact: TopicFact) -> HttpResponse:
    current = TopicFact.objects.filter(topic=fact.topic_id).current()
    ids = list(current.values_list("pk", flat=True))
    context = {
        "row": fact_rows.fact_rows(fact.topic, [fact])[0],
        "topic": fact.topic,
        "is_alone": True,
        "is_first": ids[:1] == [fact.pk],
        "is_last": ids[-1:] == [fact.pk],
    }
    return render(request, "research/_fact.html", context)


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def fact_edit(request: BeaconRequest, slug: str, pk: uuid.UUID) -> HttpResponse:
    """Correct a fact, in its row or on its own page."""
    found = _fact(request, slug, pk)
    initial = {
        "text": found.text, "url": found.url, "version": found.version,
        "true_from": found.true_from, "true_until": found.true_until,
    }  # fmt: skip
    form = CorrectionForm(request.POST or None, initial=initial, auto_id=f"fact-{pk}-%s")
    context: dict[str, Any] = {"fact": found, "topic": found.topic, "form": form}
    if request.method == "POST" and form.is_valid():
        words = form.cleaned_data
        try:
            # A form without the dates, such as that of an older page, leaves them as they are.
            dates = {
                name: words[name] for name in ("true_from", "true_until") if name in request.POST
            }
            fact_editing.edit_fact(
                found, words["text"], words["url"], by=request.actor, seen=words["version"], **dates
            )
        except fact_editing.FactConflict as exc:
            form.on_newest(exc.theirs, exc)
            form.take(exc)
            context["conflict"] = exc
        except MemoryRefused as exc:
            form.add_error("text", str(exc))
        else:
            message = _("Fact corrected. Runs won’t change it.")
            toast_with_undo(request, found, message)
            if request.htmx:
                return _row(request, found)
            return redirect(_in_list(slug, pk))
    if request.htmx:
        return render(request, "research/_fact_form.html", context)
    context["row"] = fact_rows.fact_rows(found.topic, [found])[0]
    return render(request, "research/fact_edit.html", context)


@signed_in("GET", "HEAD")
def fact_history_page(request: BeaconRequest, slug: str, pk: uuid.UUID) -> HttpResponse:
    """Show a fact's history both ways: where it comes from, who changed it, and what used it."""
    found = _fact(request, slug, pk)
    changes = fact_history.history_of(found)
    revisions = (change["revision"] for change in changes)
    struck = (revision for revision in revisions if revision.after.get("state") == "struck")
    context = {
        "row": fact_rows.fact_rows(found.topic, [found])[0],
        "topic": found.topic,
        "changes": changes,
        "struck": next(struck, None),
        "trail": fact_history.Trail(found),
    }
    return render(request, "research/fact_history.html", context)


# --- actions on a fact ---


@signed_in("POST")
def fact_question(request: BeaconRequest, slug: str, pk: uuid.UUID) -> HttpResponse:
    """Rename the question that the fact answers."""
    found = _fact(request, slug, pk)
    back = f"{reverse('research:topic-facts', args=[slug])}?fact={pk}"
    found.rename_question(request.POST.get("question", ""), by=request.actor)
    toast_with_undo(request, found, _("Question renamed."))
    return redirect_back(request, back)


# For each button: what it does, its message, and whether it offers Undo. Marking as wrong takes a
# reason, so it's in `fact_strike`.
FactAct = tuple[Callable[[TopicFact, Actor], object], str | Promise, bool]
_ACTS: dict[str, FactAct] = {
    "take-back": (lambda fact, by: fact.unstrike(by=by), gettext_lazy("Fact restored."), False),
    "lock": (
        lambda fact, by: fact.set_lock(Lock.READ_ONLY, by=by),
        gettext_lazy("Fact locked. Only you can change it."),
        True,
    ),
    "unlock": (
        lambda fact, by: fact.set_lock(Lock.OPEN, by=by), gettext_lazy("Fact unlocked."), True
    ),
    "up": (lambda fact, by: fact_editing.move_fact(fact, "up", by=by), "", False),
    "down": (lambda fact, by: fact_editing.move_fact(fact, "down", by=by), "", False),
    # Unlike a fact marked as wrong, runs can find it again.
    "trash": (
        lambda fact, by: fact.trash(by=by),
        gettext_lazy("Fact moved to Trash. You can restore it for 30 days."),
        True,
    ),
}  # fmt: skip


@signed_in("POST")
def fact_act(request: BeaconRequest, slug: str, pk: uuid.UUID, act: str) -> HttpResponse:
    return _perform(request, _fact(request, slug, pk), *_ACTS[act])


@signed_in("GET", "HEAD", "POST")
def fact_strike(request: BeaconRequest, slug: str, pk: uuid.UUID) -> HttpResponse:
    """Mark a fact as wrong. Prompts tell the model not to repeat it.

    A GET request over htmx returns what depends on it, for the form; without htmx, its history says so.
    """
    found = _fact(request, slug, pk)
    if request.method != "POST":
        if not request.htmx:
            return redirect("research:fact-history", slug, pk)
        return render(
            request, "research/_fact_depends_words.html", {"trail": fact_history.Trail(found)}
        )
    form = StrikeForm(request.POST)
    if not form.is_valid():
        return refused(request, " ".join(str(problem) for problem in form["why"].errors))
    said, why = _("Marked as wrong. Future runs won’t repeat it."), form.cleaned_data["why"]
    return _perform(request, found, lambda fact, by: fact.strike(by=by, why=why), said, True)


def _perform(
    request: BeaconRequest,
    fact: TopicFact,
    do: Callable[[TopicFact, Actor], object],
    said: str | Promise,
    may_undo: bool,
) -> HttpResponse:
    """Do it, confirm it with an undo, and show the facts again."""
    do(fact, request.actor)
    if said:
        tags = offer_revision(request, fact) if may_undo else ""
        messages.success(request, str(said), extra_tags=tags)
    if request.htmx:
        topic = topic_list.topics_of(request.user).get(pk=fact.topic_id)
        return _page(request, topic, has_runs=len(choices_of(topic)) > 1)
    return redirect_back(request, reverse("research:topic-facts", args=[fact.topic.slug]))


# --- notifications about filtered changes ---


def _run(request: BeaconRequest, slug: str, run_id: int) -> Run:
    mine = Run.objects.in_topic(request.user, slug)
    run: Run = get_object_or_404(mine.exclude(report=None).select_related("report"), pk=run_id)
    return run


@signed_in("POST")
def notify_about_similar(request: BeaconRequest, slug: str, run_id: int, item: int) -> HttpResponse:
    """Notify about a withheld change, and about similar ones from the next run."""
    run = _run(request, slug, run_id)
    judge = DeltaItem.objects.filter(run=run, pk=item).values_list("judged_by", flat=True).first()
    weighing.notify_about_similar(run, item, by=request.actor)
    undo = offer(request, "change-unfiltered", slug=slug, run=run_id, item=item, judge=judge or "")
    messages.success(request, _("You’ll now be notified about changes like this."), extra_tags=undo)
    return _back(request, slug, run_id)


@undoes("change-unfiltered")
def _filter_again(
    request: BeaconRequest, slug: str, run: int, item: int, judge: str
) -> HttpResponse:
    """Withhold the change again."""
    weighing.withhold_again(_run(request, slug, run), item, judge, by=request.actor)
    messages.success(request, _("Filtered out again."))
    return _back(request, slug, run)


def _back(request: BeaconRequest, slug: str, run_id: int) -> HttpResponse:
    return redirect_to(request, reverse("research:run", args=[slug, run_id]) + "#what-changed")


# --- rechecks ---


@signed_in("POST")
def topic_recheck(request: BeaconRequest, slug: str) -> HttpResponse:
    topic = get_object_or_404(Topic.objects.for_user(request.user).live(), slug=slug)
    return _started(request, topic, None)


@signed_in("POST")
def fact_recheck(request: BeaconRequest, slug: str, pk: uuid.UUID) -> HttpResponse:
    """Start a recheck of one fact, stale or not, and show it."""
    topic = get_object_or_404(Topic.objects.for_user(request.user).live(), slug=slug)
    fact = get_object_or_404(TopicFact.objects.filter(topic=topic).live(), pk=pk)
    return _started(request, topic, fact)


def _started(request: BeaconRequest, topic: Topic, fact: TopicFact | None) -> HttpResponse:
    try:
        run = start_recheck(topic, by=request.actor, fact=fact)
    except RunAlreadyActive as exc:
        messages.info(request, _("%(what)s You can recheck the facts after that.") % {"what": exc})
        if exc.run is None:
            return redirect_to(request, reverse("research:topic-facts", args=[topic.slug]))
        return redirect_to(request, reverse("research:run", args=[topic.slug, exc.run.pk]))
    return redirect_to(request, reverse("research:run", args=[topic.slug, run.pk]))
