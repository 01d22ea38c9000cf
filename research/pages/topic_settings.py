"""Create a topic, with templates for four common kinds of research, and change its settings.

A template only fills in fields. Each can be changed, and choosing another template keeps what the
person typed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.contrib import messages
from django.db.models import TextChoices
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.text import markdown
from beacon_site.text.cleaning import clean, shorten, text_param
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import cleaned_of, redirect_to, report_cleaned, signed_in
from memory.models import Topic, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.undo import (
    State,
    offer_settings,
    register_settings,
    settings_now,
    toast_with_undo,
)
from research.models import DeltaItem, Run, Schedule, Step, TopicSettings
from research.pages import topic_list
from research.services.budgets import forecasting
from research.services.budgets.budget import DEFAULTS
from research.services.intent.weighing import tried
from research.services.runs.execution.starting import RunNotAllowed, create_topic, start_run
from research.services.runs.reporting import report_text, template
from research.services.runs.reporting.delta import Change
from research.services.runs.search import searching
from research.services.schedules import scheduling
from research.services.topics import topic_form
from research.services.topics.settings import editing as topic_editing
from research.services.topics.topic_form import (
    SCHEDULE_PARTS,
    ScheduleForm,
    TopicForm,
    base_of,
    initial_of,
    initial_of_new,
    rebased_data,
)

Frame, Style = TopicSettings.TimeFrame, TopicSettings.Style
Reading, PlanReview = TopicSettings.Reading, TopicSettings.PlanReview
Preset = Schedule.Preset

AT_LARGE = ("tavily", "brave", "serpapi", "searxng")  # web search, if set up


@dataclass(frozen=True, slots=True)
class TopicTemplate:
    """One template. `hint` shows a typical title, and `values` are fields of the form.

    `focus_help` describes what the person still has to name. It isn't in `values`, because the
    focus is searched for. `services` are in order. Those that aren't set up are left out.
    """

    name: str
    label: str | Promise
    about: str | Promise
    hint: str | Promise
    services: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    focus_help: str | Promise = ""

    def filled_in(self) -> dict[str, Any]:
        """Return the values of the template that work on this Beacon."""
        texts = {
            name: str(value) if isinstance(value, Promise) else value
            for name, value in self.values.items()
        }
        return texts | {"services": topic_form.ready(self.services)}


TEMPLATES = (
    TopicTemplate(
        "weekly-tracker",
        gettext_lazy("Weekly tracker"),
        gettext_lazy("what has happened in a field since last week"),
        gettext_lazy("Electric cargo bikes in Europe"),
        services=(*AT_LARGE, "hackernews", "feeds", "library"),
        values={
            "objective": gettext_lazy(
                "Each week, find out what happened, who was involved, and what to watch next."
            ),
            "focus": gettext_lazy("Launches, prices, rules, funding, studies."),
            "time_frame": Frame.WEEK.value,
            "preset": Preset.WEEKLY.value,
            "weekday": "1",
            "report_style": Style.STANDARD.value,
            "reading": Reading.NORMAL.value,
            "plan_review": PlanReview.NO.value,
        },
    ),
    TopicTemplate(
        "competitor-scan",
        gettext_lazy("Competitor scan"),
        gettext_lazy("what specific competitors ship, charge and announce"),
        gettext_lazy("Route planners for delivery fleets"),
        services=(*AT_LARGE, "hackernews", "gdelt", "wikipedia", "feeds", "library"),
        values={
            "objective": gettext_lazy(
                "Find out what competitors released, charged or announced since the last report, "
                "and what it means for us."
            ),
            "focus": gettext_lazy("new products, prices, announcements"),
            "time_frame": Frame.MONTH.value,
            "preset": Preset.WEEKLY.value,
            "weekday": "1",
            "report_style": Style.EXECUTIVE.value,
            "reading": Reading.NORMAL.value,
            "plan_review": PlanReview.DAY.value,
        },
        focus_help=gettext_lazy(
            "Start with the competitors’ names. Runs search for what you enter here."
        ),
    ),
    TopicTemplate(
        "research-field",
        gettext_lazy("Research field"),
        gettext_lazy("new papers, methods and open questions"),
        gettext_lazy("Perovskite tandem solar cells"),
        services=("arxiv", "wikipedia", *AT_LARGE, "feeds", "library"),
        values={
            "objective": gettext_lazy(
                "Find new results with their numbers, the methods behind them, and the questions "
                "that are still open."
            ),
            "focus": gettext_lazy("Papers and preprints, replications, reviews."),
            "time_frame": Frame.YEAR.value,
            "preset": Preset.MONTHLY.value,
            "day": "1",
            "report_style": Style.MEMO.value,
            "reading": Reading.THOROUGH.value,
            "plan_review": PlanReview.NO.value,
        },
    ),
    TopicTemplate(
        "release-watch",
        gettext_lazy("Release watch"),
        gettext_lazy("versions, fixes, breaking changes, end of support"),
        gettext_lazy("PostgreSQL"),
        services=("feeds", *AT_LARGE, "hackernews", "library"),
        values={
            "objective": gettext_lazy(
                "For each release, find out its version and date, what it breaks and fixes, and "
                "when its support ends."
            ),
            "focus": gettext_lazy("Release notes, changelogs, security advisories."),
            "time_frame": Frame.MONTH.value,
            "preset": Preset.WEEKDAYS.value,
            "report_style": Style.BULLETS.value,
            "reading": Reading.SKIM.value,
            "plan_review": PlanReview.NO.value,
        },
    ),
)
BY_NAME = {template.name: template for template in TEMPLATES}


def filled_in(name: str) -> dict[str, Any]:
    """Return the values of the named template. Empty without one, or for an unknown name."""
    return BY_NAME[name].filled_in() if name in BY_NAME else {}


def replace_template(
    shown: Mapping[str, Any], *, before: str, now: str, blank: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values `shown`, with template `before` replaced by `now`.

    `blank` are the values without a template. Values that the person typed or chose are kept.
    """
    old = {**blank, **filled_in(before)}
    new = {**blank, **filled_in(now)}
    names = {name for name in {**old, **new} if _sent(shown.get(name)) == _sent(old.get(name))}
    kept = {name: value for name, value in shown.items() if name not in names}
    # Fields that neither the template nor `blank` names get their default.
    return kept | {name: new[name] for name in names if name in new}


def _sent(value: Any) -> Any:
    """Return a value as a browser sends it, for comparing with a submitted one."""
    if isinstance(value, list | tuple):
        return [str(each) for each in value]
    return "" if value in (None, False) else str(value).replace("\r\n", "\n").strip()


def values_of(data: QueryDict) -> dict[str, Any]:
    """Return submitted values as initial values for showing the form again."""
    values: dict[str, Any] = {name: clean(str(data[name]))[0] for name in data}
    return values | {"services": data.getlist("services")}


# --- views ---

_CHOICES: dict[str, type[TextChoices]] = {
    "depth": TopicSettings.Depth,
    "time_frame": TopicSettings.TimeFrame,
    "report_style": TopicSettings.Style,
    "reading": TopicSettings.Reading,
    "plan_review": TopicSettings.PlanReview,
    "over_limit": TopicSettings.OverLimit,
}
_NOT_SAVING = ("show_runs", "use_domains", "try_intent", "preview_report")


@signed_in("GET", "POST")
@idempotent_post
def topic_new(request: BeaconRequest) -> HttpResponse:
    """Create a topic, and start its first run if requested."""
    if (again := _shown_again(request, initial_of_new(request.user))) is not None:
        form = TopicForm(owner=request.user, initial=again)
    else:
        form = _form(request, initial=_initial(request))
    if form.is_bound and _is_saving(request) and form.is_valid():
        topic = _create(request, form)
        if topic is not None:
            report_cleaned(request, cleaned_of(form))
            return _after_creating(request, topic)
    known = topic_list.known_of(request.user, clean(request.POST.get("title", ""))[0])
    return _show(request, "topic_new", form, known=known)


def _initial(request: BeaconRequest) -> dict[str, Any]:
    """Return the initial values: the person's defaults, or another topic's settings."""
    slug = text_param(request.GET, "from")
    if not slug:
        template = request.GET.get("template", "")
        begins = initial_of_new(request.user) | filled_in(template)
        typed = {"title": clean(request.GET.get("title", ""))[0], "template": template}
        return begins | typed
    topic = get_object_or_404(Topic.objects.for_user(request.user).live(), slug=slug)
    copied = initial_of(topic)
    return copied | {"title": _("%(title)s (copy)") % {"title": topic.title}, "base": ""}


def _form(request: BeaconRequest, *, topic: Topic | None = None, **more: Any) -> TopicForm:
    if request.method != "POST":
        return TopicForm(owner=request.user, topic=topic, **more)
    form = TopicForm(request.POST, owner=request.user, topic=topic, **more)
    name = request.POST.get("use_domains", "")
    if name in form.offers:
        form = TopicForm(form.with_domains(name), owner=request.user, topic=topic, **more)
    return form


def _shown_again(
    request: BeaconRequest, blank: dict[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return the values of a form shown again without saving, or None if it was submitted to save.

    Its buttons only change the display, such as the order of services and, for a new topic (which
    starts with `blank`), the template. It isn't validated, so nothing is marked as wrong yet.
    """
    data = request.POST
    values = values_of(data)
    for button, by in (("up", topic_form.UP), ("down", topic_form.DOWN)):
        if name := data.get(button, ""):
            values["services"] = topic_form.moved(values["services"], name, by)
            return values | {"pressed": f"{button}-{name}"}
    if blank is not None and "say" in data:
        return values
    if blank is not None and "take" in data:
        before, now = data.get("template", ""), data["take"]
        values = replace_template(values, before=before, now=now, blank=blank)
        return values | {"template": now, "pressed": f"take-{now}"}
    return None


def _is_saving(request: BeaconRequest) -> bool:
    return not any(name in request.POST for name in _NOT_SAVING)


def _create(request: BeaconRequest, form: TopicForm) -> Topic | None:
    """Return the new topic, or None with a form error if another topic took the title."""
    state = form.state()
    try:
        return create_topic(
            owner=request.user,
            title=state["title"],
            by=request.actor,
            settings={name: state[name] for name in _settings_names(state)},
            schedule=form.schedule,
            source=f"human:{request.user.get_username()}",
            labels=state["labels"],
            private=state["private"],
        )
    except InvalidValue as exc:
        form.refuse_title(exc)
        return None


def _settings_names(state: dict[str, Any]) -> list[str]:
    return [name for name in topic_editing.SETTINGS_FIELDS if name in state]


def _after_creating(request: BeaconRequest, topic: Topic) -> HttpResponse:
    page = reverse("research:topic", args=[topic.slug])
    if "run" not in request.POST:
        words = _("“%(topic)s” created.") % {"topic": topic}
        toast_with_undo(request, topic, words)
        return redirect_to(request, page)
    try:
        run = start_run(topic, trigger=Run.Trigger.PERSON, by=request.actor)
    except RunNotAllowed as exc:
        messages.warning(
            request, _("Topic created, but its first run hasn’t started. %(why)s") % {"why": exc}
        )
        return redirect_to(request, page)
    return redirect_to(request, reverse("research:run", args=[topic.slug, run.pk]))


@signed_in("GET")
def topic_known(request: BeaconRequest) -> HttpResponse:
    """Show what is already known about a title as it is typed (a fragment)."""
    known = topic_list.known_of(request.user, clean(request.GET.get("title", ""))[0][:500])
    return render(request, "research/_known.html", {"known": known})


@signed_in("GET")
def schedule_preview(request: BeaconRequest) -> HttpResponse:
    """Show the next five runs of the selected schedule (a fragment)."""
    preview = _with_cost(_preview(request.GET), request, request.GET.get("topic", ""))
    context = {"preview": preview, "is_fragment": True}
    return render(request, "research/_next_runs.html", context)


@signed_in("GET", "POST")
def topic_settings(request: BeaconRequest, slug: str) -> HttpResponse:
    """Edit a topic. Changes apply from its next run."""
    topic = topic_list.topic_or_404(request, slug)
    if (again := _shown_again(request)) is not None:
        form = TopicForm(owner=request.user, topic=topic, initial=again)
    else:
        form = _form(request, topic=topic, initial=initial_of(topic))
    theirs: dict[str, Any] = {}
    before = settings_now(request.user, "topic", str(topic.pk)) if form.is_bound else {}
    if form.is_bound and _is_saving(request) and form.is_valid():
        try:
            topic = topic_editing.edit_topic(
                topic, by=request.actor, wanted=form.state(), base=base_of(form)
            )
        except topic_editing.EditConflict as exc:
            theirs = exc.theirs
            topic.refresh_from_db()
            stored = TopicForm(owner=request.user, topic=topic, initial=initial_of(topic))
            typed = rebased_data(form, stored, exc)
            form = TopicForm(typed, owner=request.user, topic=topic)
            form.add_error(None, str(exc))
        except InvalidValue as exc:
            form.refuse_title(exc)
        else:
            report_cleaned(request, cleaned_of(form))
            undo = offer_settings(request, "topic", before, str(topic.pk))
            messages.success(request, _("Saved. Changes apply from the next run."), extra_tags=undo)
            return redirect_to(request, reverse("research:topic-settings", args=[topic.slug]))
    conflicts = [(_label_of(form, name), _describe(name, theirs[name])) for name in theirs]
    trial = _trial(request, topic, form)
    shown: dict[str, Any] = {"conflicts": conflicts, "trial": trial, "tab": "settings"}
    shown["preview_report"] = _report_preview(request, topic, form)
    shown["members"] = list(topic.members.values_list("username", flat=True))
    if not request.htmx:
        shown["head"] = topic_list.head_of(topic)
    return _show(request, "topic_settings", form, topic=topic, **shown)


def _trial(request: BeaconRequest, topic: Topic, form: TopicForm) -> dict[str, Any] | None:
    """Apply the filter in the form to the last runs, if requested."""
    is_asked = "try_intent" in request.POST and form.is_bound  # not together with another button
    if not is_asked or {"intent", "notify_examples"} & set(form.errors):
        return None
    typed = form.cleaned_data
    return tried(topic, typed["intent"], typed["notify_examples"], by=request.actor)


def _report_preview(request: BeaconRequest, topic: Topic, form: TopicForm) -> dict[str, Any] | None:
    """Lay out the last report by the template in the form, if requested."""
    names = ("objective", "report_template", "report_max_items")
    if "preview_report" not in request.POST or not form.is_bound or set(names) & set(form.errors):
        return None
    typed = {name: form.cleaned_data[name] for name in names}
    return preview_of(topic, TopicSettings(topic=topic, **typed))


def _label_of(form: TopicForm, name: str) -> str:
    return str(_("Schedule") if name == "schedule" else form.fields[name].label)


def _describe(name: str, value: Any) -> str:
    """Return a field's stored value in readable form."""
    if name == "schedule":
        return scheduling.describe(Schedule(**value))
    if name in _CHOICES:
        return str(_CHOICES[name](value).label)
    if name == "services":
        return searching.listed(value) or _("defaults")
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, list):
        return ", ".join(value) or _("empty")
    return str(value) if value not in ("", None) else _("empty")


def _preview(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the next runs of the schedule in `data` in its time zone, or its errors."""
    form = ScheduleForm({part: data.get(part) for part in SCHEDULE_PARTS})
    if not form.is_valid() or form.schedule is None:
        return {"problems": [problem for found in form.errors.values() for problem in found]}
    schedule = Schedule(**form.schedule)
    return {
        "words": scheduling.describe(schedule),
        "slots": scheduling.next_slots(schedule, timezone.now()),
        "zone": schedule.time_zone,
        "missed": schedule.get_missed_display(),
        "a_month": scheduling.runs_a_month(schedule, timezone.now()),
    }


def _with_cost(preview: dict[str, Any], request: BeaconRequest, slug: str) -> dict[str, Any]:
    """Return the preview with the estimated monthly cost."""
    if not preview.get("slots"):
        return preview
    mine = Topic.objects.for_user(request.user).live().select_related("settings", "owner")
    topic = mine.filter(slug=clean(slug)[0]).first() if slug else None
    if topic is None:
        forecast = forecasting.forecast_of_new(request.user, TopicSettings.Depth.QUICK)
    else:
        forecast = forecasting.forecast_of(topic)
    return preview | {"forecast": forecast, "cost_a_month": forecast.times(preview["a_month"])}


def _show(request: BeaconRequest, name: str, form: TopicForm, **more: Any) -> HttpResponse:
    """Show the page with its form. Over htmx only the form."""
    template = "research/_topic_form.html" if request.htmx else f"research/{name}.html"
    preview = _preview(form.data if form.is_bound else form.initial)
    if "show_runs" in request.POST:  # otherwise the page loads it later
        edited = form.topic.slug if form.topic is not None else ""
        preview = _with_cost(preview, request, edited)
    taken = BY_NAME.get(form["template"].value() or "")
    if taken is not None and taken.focus_help:
        form["focus"].help_text = str(taken.focus_help)
    context = {
        "form": form,
        "preview": preview,
        "page": name,
        "usual": DEFAULTS["quick"],
        "usual_deep": DEFAULTS["deep"],
        "templates": TEMPLATES if name == "topic_new" else (),
        "template": taken,
    }
    if name == "topic_new":
        context["sentence"] = _sentence(form, preview)
    return render(request, template, context | more)


def _sentence(form: TopicForm, preview: Mapping[str, Any]) -> SafeString:
    """Return what the new topic will do, each part as a link to the fields that change it."""
    words = {name: section["inline"] for name, section in form.sections.items()}
    words["schedule"] = preview.get("words") or _("an invalid schedule")
    names = {
        "goal": _("objective"),
        "freshness": _("fact freshness"),
        "limits": _("limits and labels"),
    }
    unset = [name for name in names if form.sections[name]["is_default"]]
    sentences = [
        _(
            "Beacon researches it {schedule}. It searches {where}. Reading and reporting: {report}. You’re notified about {told}."
        )
    ]
    for name, label in names.items():
        if name not in unset:
            sentences.append(f"{label[:1].upper()}{label[1:]}: {{{name}}}.")
    if unset:
        sentences.append(_("You can also set: {unset}."))
    links = {name: _part_link(name, shorten(text, 120)) for name, text in words.items()}
    links["unset"] = format_html_join(", ", "{}", ((_part_link(n, names[n]),) for n in unset))
    return format_html(" ".join(sentences), **links)


def _part_link(name: str, words: str) -> SafeString:
    return format_html('<a href="#part-{}"><bdi>{}</bdi></a>', name, words)


# --- the last report by a template that isn't saved yet ---

_HEADING = re.compile(r"<(/?)h([2-6])\b")
_LOWER = 1  # level: the preview is inside a section of the settings


def preview_of(topic: Topic, settings: TopicSettings) -> dict[str, Any]:
    """Return the last saved run, if any, and its report as safe HTML, laid out by these settings.

    Without a template there is no body. It takes three queries.
    """
    runs = Run.objects.kept().filter(topic=topic, report__trashed_at=None).exclude(number=None)
    run = runs.exclude(report=None).select_related("report", "topic").order_by("-number").first()
    if run is None or not settings.report_template.strip():
        return {"run": run, "body": None}
    html = markdown.render(template.laid_out(settings, _contents(run)))
    lower = _HEADING.sub(lambda h: f"<{h[1]}h{min(6, int(h[2]) + _LOWER)}", html)
    body = markdown.by_direction(mark_safe(lower))  # noqa: S308  (of safe HTML)  # nosec B308, B703
    return {"run": run, "body": body}


def _contents(run: Run) -> template.Contents:
    """Return what a stored run has for a template.

    The text before any template is in the outputs of its steps. A baseline has no other changes.
    """
    report = run.report
    steps = Step.objects.filter(run=run, name__in=("write", "verify"), part=0)
    outputs: dict[str, dict[str, Any]] = dict(steps.values_list("name", "output"))
    verify = outputs.get("verify", {})
    stored = [Change.of(item) for item in DeltaItem.objects.filter(run=run).order_by("position")]
    text = verify.get("body") or report.body
    return template.Contents(
        run=run,
        number=run.number or 0,
        at=report.created,
        text=text,
        summary=report_text.first_paragraph(text),
        changes=stored or [Change(**change) for change in verify.get("changes", [])],
        sources=report.sources,
        checked=outputs.get("write", {}).get("checked", ""),
        since=report.delta_since,
    )


# --- undoing a change ---


def _settings(owner: User, target: str) -> State | None:
    topics = Topic.objects.for_user(owner).live().select_related("owner")
    topic = topics.filter(pk=target).first()
    return topic_editing.state_of(topic) if topic is not None else None


def _put_settings(owner: User, target: str, values: State, by: Actor) -> None:
    topic = Topic.objects.for_user(owner).live().get(pk=target)
    topic_editing.edit_topic(topic, by=by, wanted=dict(values))


register_settings("topic", _settings, _put_settings)
