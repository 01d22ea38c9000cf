"""The form of a topic: schedule, search services, notifications, limits and report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

from django import forms
from django.contrib.humanize.templatetags.humanize import intcomma
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.providers.search.base import (
    ADDRESS,
    BY_NAME,
    CATALOGUE,
    KEY,
    SERVICES,
    SearchProfile,
)
from beacon_site.providers.search.serpapi import ENGINE_NAMES, ENGINES
from beacon_site.text.cleaning import one_line, slug_of
from beacon_site.text.messages import grouped
from beacon_site.web.responses import CleanTextField, RefusalErrorsMixin, SecretConfirmationMixin
from memory.models import Topic, User
from memory.models.errors import InvalidValue
from memory.models.topics import NameTakenError
from memory.services.llm import connections
from research.models import Schedule, TopicSettings
from research.services.budgets.budget import DEFAULTS, DEPTHS
from research.services.intent.weighing import MAX_ALSO
from research.services.runs.reporting import template as report_templates
from research.services.runs.search import searching
from research.services.schedules import cron as schedules_cron
from research.services.schedules import scheduling
from research.services.topics.form_fields import (
    ChecksField,
    CronField,
    DefaultChoiceField,
    DomainsField,
    FeedsField,
    LabelsField,
    LanguagesField,
    LinesField,
    PagesField,
    offered_domains,
)
from research.services.topics.settings import standing_rules
from research.services.topics.settings.editing import (
    EDITABLE_BY_EDITORS,
    SETTINGS_FIELDS,
    EditConflict,
    State,
    plain,
    settings_of,
    state_of,
)

SCHEDULE_PARTS = ("preset", "hour", "weekday", "day", "cron", "time_zone", "missed")


class ScheduleForm(forms.Form):
    """When a topic runs, in which time zone, and what happens to missed runs."""

    preset = forms.ChoiceField(
        label=gettext_lazy("How often"), choices=Schedule.Preset, widget=forms.RadioSelect
    )
    hour = DefaultChoiceField(label=gettext_lazy("At"), coerce=int, usual=scheduling.DEFAULT_HOUR)
    weekday = DefaultChoiceField(label=gettext_lazy("On"), coerce=int, usual=1)
    day = DefaultChoiceField(label=gettext_lazy("On day"), usual="1")
    cron = CronField(
        label=gettext_lazy("Cron expression"),
        max_length=200,
        help_text=gettext_lazy(
            "Minute, hour, day of the month, month, weekday. “0 9 * * MON-FRI” is every weekday "
            "at 09:00."
        ),
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "off"}),
    )
    time_zone = CleanTextField(
        label=gettext_lazy("Time zone"),
        max_length=64,
        error_messages={
            "required": gettext_lazy("Enter a time zone, such as Europe/Berlin or UTC.")
        },
        widget=forms.TextInput(attrs={"list": "time-zones", "autocomplete": "off"}),
    )
    missed = DefaultChoiceField(
        label=gettext_lazy("If a run is missed"),
        choices=Schedule.Missed,
        usual=Schedule.Missed.ONCE,
        widget=forms.RadioSelect,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices: dict[str, list[tuple[Any, Any]]] = {
            "hour": [(hour, f"{hour:02}:00") for hour in scheduling.HOURS],
            "weekday": [
                (number % 7, scheduling.weekday_names()[number % 7]) for number in range(1, 8)
            ],
            "day": [
                (day, _("last day") if day == scheduling.LAST_DAY else f"{day}.")
                for day in scheduling.DAYS
            ],
        }
        for name, values in choices.items():
            self.fields[name].choices = values  # type: ignore[attr-defined]

    @property
    def zone_names(self) -> list[str]:
        return schedules_cron.zone_names()

    def chosen_schedule(self) -> dict[str, Any]:
        """Return the arguments of `scheduling.schedule_fields` from valid fields."""
        names = ("preset", "hour", "weekday", "day", "time_zone", "missed")
        chosen = {name: self.cleaned_data[name] for name in names}
        # Without the cron preset, the field is hidden and its value is ignored.
        is_cron = chosen["preset"] == Schedule.Preset.CRON
        return chosen | {"cron": self.cleaned_data["cron"] if is_cron else ""}

    def clean(self) -> dict[str, Any]:
        """Check the schedule as a whole and keep its fields, with the next run, as `schedule`."""
        cleaned = super().clean() or self.cleaned_data
        self.schedule: dict[str, Any] | None = None
        if all(part in cleaned for part in SCHEDULE_PARTS):
            try:
                self.schedule = scheduling.schedule_fields(**self.chosen_schedule())
            except InvalidValue as exc:
                for name, problems in exc.errors.items():
                    self.add_error(name, problems)
        return cleaned


# --- services and their order ---

UP, DOWN = -1, 1


def offered() -> list[str]:
    """Return the services that BEACON_SEARCH allows for topics."""
    return [name for name in connections.search_services(SERVICES) if name in SERVICES]


def ready(names: Sequence[str]) -> list[str]:
    """Return those of `names`, in order, that are allowed here and ready to use."""
    profiles, allowed = connections.search_profiles(), offered()
    return [name for name in names if name in allowed and not _lacks(name, profiles)]


def rows(ticked: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each service: the selected ones first, in order, then the others.

    `lacks` is what it needs before it can be used.
    """
    profiles, names = connections.search_profiles(), offered()
    first = [name for name in dict.fromkeys(ticked) if name in names]
    return [
        {
            "name": name,
            "label": searching.label_of(name),
            "about": str(BY_NAME[name].about),
            "lacks": _lacks(name, profiles),
            "is_ticked": name in first,
        }
        for name in [*first, *(name for name in names if name not in first)]
    ]


def _lacks(name: str, profiles: dict[str, SearchProfile]) -> str:
    """Return what is missing before a service can be used."""
    return {
        KEY: _("needs a key, but none is set"),
        ADDRESS: _("needs a URL, but none is set"),
    }.get(connections.lacks(profiles[name]) if name in profiles else "", "")


def moved(ticked: Sequence[str], name: str, by: int) -> list[str]:
    """Return the services with `name` moved by one place, if it can move."""
    order = list(dict.fromkeys(ticked))
    if name in order:
        place = order.index(name)
        order.insert(max(0, place + by), order.pop(place))
    return order


# --- notifications ---


MAX_INTENT_LENGTH = 10_000


class IntentField(CleanTextField):
    """A filter in the owner's words.

    The control has no maxlength, because a browser would cut off pasted text.
    """

    def to_python(self, value: Any) -> Any:
        """Return the text with normalized line endings. Raises ValidationError if it's too long."""
        text = str(super().to_python(value) or "").replace("\r\n", "\n")
        if len(text) > MAX_INTENT_LENGTH:
            raise ValidationError(
                _(
                    "A filter can have at most %(most)s characters, but this one has %(have)s. Your "
                    "text is still in the field. Shorten it and save again."
                )
                % {"most": grouped(MAX_INTENT_LENGTH), "have": grouped(len(text))}
            )
        return text


class AlsoField(LinesField):
    """Sentences that a person wants to be notified about, one per line."""

    def to_python(self, value: Any) -> Any:
        """Return the sentences. Raises ValidationError if there are too many."""
        lines = super().to_python(value)
        if len(lines) > MAX_ALSO:
            raise ValidationError(
                _("Use at most %(most)d lines (currently %(have)d).")
                % {"most": MAX_ALSO, "have": len(lines)}
            )
        return lines

    def entry(self, line: str) -> str:
        """Return the sentence. Raises ValidationError if it is too long."""
        if len(line) > self.longest:
            params = {"most": self.longest, "have": len(line), "line": line[:80]}
            words = _("“%(line)s…” has %(have)d characters. A line can have at most %(most)d.")
            raise ValidationError(words % params)
        return line


class IntentFields(forms.Form):
    """Which of a run's changes trigger notifications. All of them are remembered."""

    intent = IntentField(
        label=gettext_lazy("Notify me only about"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "dir": "auto"}),
        help_text=gettext_lazy(
            "For example, prices or a new competitor. Other changes are saved, and the report says "
            "why they were filtered out. Leave empty to be notified about every change."
        ),
    )
    notify_examples = AlsoField(
        label=gettext_lazy("Also notify me about"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "dir": "auto"}),
        help_text=gettext_lazy(
            "Enter filtered-out changes that you want to see anyway, one per line."
        ),
    )


# --- monthly limits and freshness ---

MAX_TOKENS = 2_000_000_000  # the column's maximum, rounded
MAX_DAYS = 3650
OUT_OF_RANGE = {
    "min_value": gettext_lazy("Enter %(limit_value)s or more."),
    "max_value": gettext_lazy("Enter %(limit_value)s or less."),
}


class MonthFields(forms.Form):
    """A topic's monthly limits, and when its facts are stale."""

    month_tokens = forms.IntegerField(
        label=gettext_lazy("Tokens per month"),
        required=False,
        min_value=0,
        max_value=MAX_TOKENS,
        error_messages=OUT_OF_RANGE,
        widget=forms.NumberInput(attrs={"inputmode": "numeric"}),
        help_text=gettext_lazy(
            "Applies to all runs of this topic combined. Leave empty for no limit."
        ),
    )
    month_money = forms.DecimalField(
        label=gettext_lazy("USD per month"),
        required=False,
        min_value=0,
        max_digits=10,
        decimal_places=2,
        error_messages=OUT_OF_RANGE,
        widget=forms.NumberInput(attrs={"inputmode": "decimal", "step": "0.01"}),
        help_text=gettext_lazy("This limit can’t be enforced for a model whose price is unknown."),
    )
    over_limit = DefaultChoiceField(
        label=gettext_lazy("If a scheduled run would exceed a limit"),
        choices=TopicSettings.OverLimit,
        usual=TopicSettings.OverLimit.SKIP,
        widget=forms.RadioSelect,
    )
    stale_days = forms.IntegerField(
        label=gettext_lazy("Facts become stale after (days)"),
        required=False,
        min_value=1,
        max_value=MAX_DAYS,
        error_messages=OUT_OF_RANGE,
        widget=forms.NumberInput(attrs={"inputmode": "numeric"}),
        help_text=gettext_lazy(
            "Number of days without a check. The default is 30 days, or 3 times the interval between runs "
            "if that’s longer."
        ),
    )
    recheck = forms.BooleanField(
        label=gettext_lazy("Recheck stale facts each month"),
        required=False,
        help_text=gettext_lazy(
            "On the first of each month, Beacon rereads the sources of stale facts. No model is used."
        ),
    )


# --- choices ---

Choices = list[tuple[str, SafeString]]


def styles() -> Choices:
    about = {
        TopicSettings.Style.STANDARD: _("a paragraph, then findings"),
        TopicSettings.Style.EXECUTIVE: _("5 lines to support a decision, then findings"),
        TopicSettings.Style.BULLETS: _("grouped bullet points"),
        TopicSettings.Style.MEMO: _("to, from and date, then what happened and what it means"),
    }
    return [(style.value, _explained(str(style.label), about[style])) for style in about]


def depths() -> Choices:
    """Return the depths of a run, with their limits."""
    about = {
        TopicSettings.Depth.QUICK: _("searches, reads and writes (up to %(minutes)d minutes)"),
        TopicSettings.Depth.DEEP: _(
            "a model first explores up to 3 tracks (up to %(minutes)d minutes and %(tokens)s tokens, instead of %(usual)s)"
        ),
    }
    usual = DEFAULTS[TopicSettings.Depth.QUICK].tokens
    return [
        (depth.value, _explained(str(depth.label), words % _costs(depth, usual)))
        for depth, words in about.items()
    ]


def _costs(depth: str, usual: int) -> dict[str, Any]:
    budget = DEFAULTS[depth]
    return {"minutes": budget.minutes, "tokens": intcomma(budget.tokens), "usual": intcomma(usual)}


def readings() -> Choices:
    """Return the options for the number of pages that a run reads."""
    about = {
        TopicSettings.Reading.SKIM: _("%(pages)d pages per run, only the beginning of each"),
        TopicSettings.Reading.NORMAL: _("%(pages)d pages per run"),
        TopicSettings.Reading.THOROUGH: _("%(pages)d pages per run, each in full"),
    }
    return [
        (each.value, _explained(str(each.label), about[each] % {"pages": DEPTHS[each].pages}))
        for each in about
    ]


def models(topic: Topic | None) -> list[tuple[str, str]]:
    """Return the server's models. A topic's own stays a choice when it is no longer set up."""
    usual, *others = connections.names_of_models() or [""]
    choices = [("", _("Default (%(model)s)") % {"model": usual} if usual else _("Default"))]
    choices += [(name, name) for name in others]
    chosen = settings_of(topic).model if topic is not None else ""
    if chosen and chosen not in others:
        label = _("%(model)s (no longer set up, so the default is used)")
        choices.append((chosen, label % {"model": chosen}))
    return choices


def _explained(name: str, about: str) -> SafeString:
    return format_html("{}<small>{}</small>", name[:1].upper() + name[1:], about)


# --- the form ---

_MAX_TEXT_LENGTH = 10_000
_MAX = 2_000_000_000  # the maximum of an integer column, rounded


def _number(label: Any, most: int = _MAX, **more: Any) -> forms.IntegerField:
    widget = forms.NumberInput(attrs={"inputmode": "numeric"})
    return forms.IntegerField(
        label=label,
        required=False,
        min_value=1,
        max_value=most,
        error_messages=OUT_OF_RANGE,
        widget=widget,
        **more,
    )


def _title_error(exc: InvalidValue) -> ValidationError:
    """Return why a title is refused, with a link to the topic that already has it."""
    if not isinstance(exc, NameTakenError):
        return ValidationError(exc.errors.get("title", [str(exc)]))
    page = reverse("research:topic", args=[exc.slug])
    return ValidationError(format_html('{} <a href="{}">{}</a>', str(exc), page, _("Open topic")))


_MAX_READABLE = 10**12


def _readable(name: str, value: Any) -> str:
    """Return a number as a person says it, or "" for what isn't one of these numbers."""
    if name not in _NUMBERS:
        return ""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return ""
    # copy_abs and not abs, which can overflow.
    if not number.is_finite() or number.copy_abs() > _MAX_READABLE:
        return ""
    n = int(number)
    return _NUMBERS[name](n) % {"n": grouped(n), "money": f"${number:,.2f}"}


_NUMBERS: dict[str, Callable[[int], str]] = {
    "stale_days": lambda n: ngettext("stale after %(n)s day", "stale after %(n)s days", n),
    "max_pages": lambda n: ngettext("%(n)s page per run", "%(n)s pages per run", n),
    "max_minutes": lambda n: ngettext("%(n)s minute per run", "%(n)s minutes per run", n),
    "max_tokens": lambda n: ngettext("%(n)s token per run", "%(n)s tokens per run", n),
    "month_tokens": lambda n: ngettext("%(n)s token per month", "%(n)s tokens per month", n),
    "max_money": lambda _n: _("%(money)s per run"),
    "month_money": lambda _n: _("%(money)s per month"),
}


_SECTIONS = {
    "goal": ("objective", "focus", "always_check"),
    "where": (
        *("services", "engine", "time_frame", "languages", "feeds"),
        *("allow_domains", "block_domains", "block_pages"),
    ),
    "report": (
        *("depth", "report_style", "reading", "plan_review", "model"),
        *("report_template", "report_max_items", "report_tone"),
    ),
    "told": ("intent", "notify_examples"),
    "freshness": ("stale_days", "recheck"),
    "limits": (
        *("max_pages", "max_minutes", "max_tokens", "max_money"),
        *("month_tokens", "month_money", "over_limit"),
        *("labels", "private"),
    ),
}


class ReportTemplateField(CleanTextField):
    """A template whose placeholders all exist and are where they can be."""

    def clean(self, value: Any) -> str:
        """Raise ValidationError with every problem."""
        text = str(super().clean(value)).replace("\r\n", "\n")
        if problems := report_templates.problems_of(text):
            raise ValidationError(problems)
        return text


class TopicForm(SecretConfirmationMixin, IntentFields, ScheduleForm, MonthFields):
    """A topic with its settings and schedule. Typed text is kept when there are errors."""

    title = CleanTextField(
        label=gettext_lazy("Topic"),
        error_messages={
            "required": gettext_lazy("Enter a topic to research."),
        },
        widget=forms.TextInput(attrs={"autocomplete": "off", "dir": "auto"}),
        help_text=gettext_lazy("What should Beacon keep researching?"),
    )
    objective = CleanTextField(
        label=gettext_lazy("Objective"),
        required=False,
        max_length=_MAX_TEXT_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2, "dir": "auto"}),
        help_text=gettext_lazy("Describe the question to answer, and why it matters."),
    )
    focus = CleanTextField(
        label=gettext_lazy("Focus"),
        required=False,
        max_length=_MAX_TEXT_LENGTH,
        widget=forms.Textarea(attrs={"rows": 2, "dir": "auto"}),
        help_text=gettext_lazy("Enter names, versions or places to focus on."),
    )
    labels = LabelsField(
        label=gettext_lazy("Labels"),
        required=False,
        help_text=gettext_lazy("Separate labels with commas. Use them to find topics."),
    )
    private = forms.BooleanField(
        label=gettext_lazy("Private"),
        required=False,
        help_text=gettext_lazy("Never published to Redis, even if your admin turns on publishing."),
    )
    time_frame = DefaultChoiceField(
        label=gettext_lazy("Time frame"),
        choices=TopicSettings.TimeFrame,
        usual=TopicSettings.TimeFrame.ANY,
    )
    languages = LanguagesField(
        label=gettext_lazy("Languages"),
        required=False,
        help_text=gettext_lazy(
            "Enter the main language first, such as “English, 中文”. Leave empty for any language."
        ),
    )
    services = forms.MultipleChoiceField(
        label=gettext_lazy("Where to search"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    engine = DefaultChoiceField(
        label=gettext_lazy("SerpAPI engine"),
        choices=ENGINE_NAMES,
        usual=ENGINES[0],
    )
    feeds = FeedsField(
        label=gettext_lazy("Feeds"),
        required=False,
        help_text=gettext_lazy("Enter URLs of RSS or Atom feeds, one per line."),
    )
    allow_domains = DomainsField(
        label=gettext_lazy("Allowed domains"),
        required=False,
        help_text=gettext_lazy(
            "Enter one domain per line, such as example.org. Leave empty for all domains."
        ),
    )
    block_domains = DomainsField(
        label=gettext_lazy("Blocked domains"),
        required=False,
        help_text=gettext_lazy("Enter one domain per line. Subdomains are also blocked."),
    )
    block_pages = PagesField(
        label=gettext_lazy("Blocked pages"),
        required=False,
        help_text=gettext_lazy("Enter URLs of individual pages, one per line."),
    )
    always_check = ChecksField(
        label=gettext_lazy("Always include"),
        required=False,
        help_text=gettext_lazy(
            "Enter words to search for, or URLs to read, on every run. One per line, up to 5. To read only part of a page, add “| css: main .prices” or “| heading: Pricing” after its URL."
        ),
    )
    depth = DefaultChoiceField(
        label=gettext_lazy("Run depth"),
        usual=TopicSettings.Depth.QUICK,
        widget=forms.RadioSelect,
        help_text=gettext_lazy(
            "Deep runs need a model that supports tools. Without one, Beacon does a quick run."
        ),
    )
    report_style = DefaultChoiceField(
        label=gettext_lazy("Report style"),
        usual=TopicSettings.Style.STANDARD,
        widget=forms.RadioSelect,
    )
    report_template = ReportTemplateField(
        label=gettext_lazy("Report template"),
        required=False,
        max_length=report_templates.MAX_LENGTH,
        widget=forms.Textarea(attrs={"rows": 8, "dir": "auto", "spellcheck": "false"}),
        help_text=gettext_lazy(
            "Your own headings and text in Markdown, with placeholders such as {{ new }}. Leave empty to use the style’s layout. Works without a model."
        ),
    )
    report_max_items = _number(
        gettext_lazy("Items per list"),
        report_templates.MAX_ITEMS,
        help_text=gettext_lazy(
            "Limits each list in the template. Leave empty to include everything."
        ),
    )
    report_tone = CleanTextField(
        label=gettext_lazy("Tone"),
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs={"dir": "auto"}),
        help_text=gettext_lazy("Enter instructions for the model, such as “plain, for engineers”."),
    )
    reading = DefaultChoiceField(
        label=gettext_lazy("Pages to read"),
        usual=TopicSettings.Reading.NORMAL,
        widget=forms.RadioSelect,
        help_text=gettext_lazy(
            "Thorough runs take a few minutes and, with a model, use more tokens."
        ),
    )
    plan_review = DefaultChoiceField(
        label=gettext_lazy("Review the plan first"),
        choices=TopicSettings.PlanReview,
        usual=TopicSettings.PlanReview.NO,
        widget=forms.RadioSelect,
        help_text=gettext_lazy(
            "The run plans its queries and waits, so you can edit them before it searches."
        ),
    )
    model = forms.ChoiceField(
        label=gettext_lazy("Model"),
        required=False,
        help_text=gettext_lazy("Used for every model call by this topic’s runs."),
    )
    max_pages = _number(gettext_lazy("Pages per run"), 500)
    max_minutes = _number(gettext_lazy("Minutes per run"), 240)
    max_tokens = _number(gettext_lazy("Tokens per run"))
    max_money = forms.DecimalField(
        label=gettext_lazy("USD per run"),
        required=False,
        min_value=0,
        max_digits=8,
        decimal_places=2,
        error_messages=OUT_OF_RANGE,
        widget=forms.NumberInput(attrs={"inputmode": "decimal", "step": "0.01"}),
    )
    base = forms.CharField(required=False, widget=forms.HiddenInput)
    template = CleanTextField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, data: QueryDict | None = None, *, owner: User, topic: Topic | None = None, **more: Any
    ) -> None:
        """Without `topic`, the form creates one."""
        self.owner, self.topic = owner, topic
        super().__init__(data, **more)
        choices: dict[str, list[tuple[str, Any]]] = {
            "services": [(name, searching.label_of(name)) for name in offered()],
            "depth": depths(),
            "report_style": styles(),
            "reading": readings(),
            "model": models(topic),
        }
        for name, values in choices.items():
            self.fields[name].choices = values  # type: ignore[attr-defined]

    @property
    def can_choose_model(self) -> bool:
        return len(self.fields["model"].choices) > 1  # type: ignore[attr-defined]

    @property
    def pressed(self) -> str:
        """Return the id of the button that only changed the form's display, to restore the focus."""
        return str(self.initial.get("pressed", ""))

    @property
    def moved_a_service(self) -> bool:
        return self.pressed.startswith(("up-", "down-"))

    @cached_property
    def service_rows(self) -> list[dict[str, Any]]:
        """Return the services as the form shows them: the selected ones first, in order."""
        return rows(list(self["services"].value() or []))

    @property
    def usable_rows(self) -> list[dict[str, Any]]:
        """Return the services that can be used or are selected."""
        return [row for row in self.service_rows if row["is_ticked"] or not row["lacks"]]

    @property
    def lacking_rows(self) -> list[dict[str, Any]]:
        """Return the other services."""
        return [row for row in self.service_rows if row["lacks"] and not row["is_ticked"]]

    @property
    def can_use_serpapi(self) -> bool:
        return all(row["name"] != "serpapi" for row in self.lacking_rows)

    @property
    def usual_services(self) -> str:
        """Describe where runs search if nothing is selected."""
        return searching.listed(self._usual)

    @cached_property
    def _usual(self) -> list[str]:
        return connections.search_services()

    @property
    def offers(self) -> list[str]:
        """Return the domain lists that contain a URL, which could be replaced by its domain."""
        return [
            name
            for name in ("allow_domains", "block_domains")
            if self.errors.get(name) and self._offered(name) != self._typed(name)
        ]

    def _typed(self, name: str) -> str:
        return str(self.data.get(name, ""))

    def _offered(self, name: str) -> str:
        typed = self._typed(name)
        offered = offered_domains(typed)
        return typed if offered.split() == typed.split() else offered

    def with_domains(self, name: str) -> QueryDict:
        """Return the typed values, with the URLs in the named list replaced by their domains."""
        data = QueryDict(mutable=True)
        data.update(self.data)
        data[name] = self._offered(name)
        return data

    def clean_title(self) -> str:
        """Return the title on one line. Raises ValidationError with the model's message."""
        title = one_line(self.cleaned_data["title"])
        topic = Topic(owner=self.owner, title=title, slug=slug_of(title))
        if self.topic is not None:
            topic.pk = self.topic.pk
        try:
            topic.check_title()
        except InvalidValue as exc:
            raise _title_error(exc) from exc
        return title

    def refuse_title(self, exc: InvalidValue) -> None:
        """Show why the title was refused on save."""
        self.add_error("title", _title_error(exc))

    def clean(self) -> dict[str, Any]:
        """Check fields that depend on each other: feeds and their service, both domain lists."""
        cleaned = super().clean()
        services, feeds = cleaned.get("services", []), cleaned.get("feeds", [])
        if services == ["feeds"] and not feeds and "feeds" not in self.errors:
            self.add_error("feeds", _("Only “Feeds” is selected. Add at least one feed."))
        if feeds and services and "feeds" not in services:
            self.add_error("services", _("Select “Feeds” to use the feeds below, or remove them."))
        both = set(cleaned.get("allow_domains", [])) & set(cleaned.get("block_domains", []))
        for domain in sorted(both):
            self.add_error(
                "block_domains",
                _("“%(domain)s” is in both lists. Remove it from one of them.")
                % {"domain": domain},
            )
        places = [*cleaned.get("block_domains", []), *cleaned.get("block_pages", [])]
        if problem := standing_rules.contradiction(cleaned.get("always_check", []), places):
            self.add_error("always_check", problem)
        return cleaned

    @property
    def searches_the_web(self) -> bool:
        """Return True if a web search service that needs a key or URL is set up."""
        at_large = {service.name for service in CATALOGUE if service.needs}
        return bool(at_large.intersection(self._usual))

    @property
    def schedule_is_wrong(self) -> bool:
        return any(self.errors.get(part) for part in SCHEDULE_PARTS)

    @property
    def placeholders(self) -> list[tuple[str, Any]]:
        """Return the names that a report template can contain, each with what it's replaced by."""
        return [*report_templates.BLOCKS.items(), *report_templates.WORDS.items()]

    # --- what a folded section says ---

    @cached_property
    def sections(self) -> dict[str, dict[str, Any]]:
        """Return the folded sections: their values in words, and whether one of them is wrong."""
        return {name: self._section(name, fields) for name, fields in _SECTIONS.items()}

    def _section(self, name: str, fields: Sequence[str]) -> dict[str, Any]:
        data = {each: self._said(each) for each in fields if each in self.fields}
        values = {each: words for each, words in data.items() if words}
        labelled = [
            _readable(each, self[each].value()) or f"{self.fields[each].label}: {words}"
            for each, words in values.items()
        ]
        words = (", " if name in ("freshness", "limits") else "; ").join(labelled) or _("defaults")
        if name == "goal":
            named = values.get("objective") or values.get("focus")
            words = named or next(iter(labelled), _("not set"))
        elif name == "where":
            services = searching.listed(self["services"].value() or []) or self.usual_services
            others = [
                each for each in labelled if not each.startswith(str(self.fields["services"].label))
            ]
            words = "; ".join([services, *others])
        elif name == "report":
            pages = DEPTHS[self._chosen("reading")].pages
            usual = [self._chosen("depth").label, _("%(pages)d pages per run") % {"pages": pages}]
            style = _("%(style)s report") % {"style": self._chosen("report_style").label}
            own = [each for each in ("report_template", "plan_review", "model") if each in values]
            words = ", ".join(
                [*map(str, usual), style, *(str(self.fields[each].label) for each in own)]
            )
        elif name == "told":
            words = values.get("intent") or _("every change")
        is_wrong = any(self.errors.get(each) for each in fields)
        return {
            "words": words[:1].upper() + words[1:],
            "is_wrong": is_wrong,
            "inline": words,
            "is_default": not labelled,
        }

    def _chosen(self, name: str) -> Any:
        kinds: dict[str, Any] = {
            "depth": TopicSettings.Depth,
            "reading": TopicSettings.Reading,
            "report_style": TopicSettings.Style,
        }
        value = self[name].value()
        field: Any = self.fields[name]
        return kinds[name](value if value in kinds[name].values else field.usual)

    def _said(self, name: str) -> str:
        """Return a field's value in words, empty if it has its default or can't be used."""
        if self.errors.get(name):
            return ""
        value = self[name].value()
        usual = getattr(self.fields[name], "usual", None)
        if value in (None, "", False, [], usual):
            return ""
        if value is True or value == "on":
            return _("yes")
        lines = value if isinstance(value, list) else str(value).splitlines()
        choices: Any = dict(getattr(self.fields[name], "choices", ()))
        return ", ".join(
            str(choices.get(line, line)).strip() for line in lines if str(line).strip()
        )

    # --- results ---

    def state(self) -> State:
        """Return the valid form in the shape of `topic_editing.state_of`."""
        cleaned = self.cleaned_data
        names = [name for name in SETTINGS_FIELDS if name in self.fields]
        state: State = {name: plain(cleaned[name]) for name in names}
        state |= {name: cleaned[name] for name in ("title", "labels", "private")}
        return state | {"schedule": self.schedule_state()}

    def schedule_state(self) -> dict[str, Any]:
        """Return the schedule in the shape that is compared and saved."""
        assert self.schedule is not None  # noqa: S101 (the form is valid)  # nosec B101
        names = ("preset", "cron", "time_zone", "missed")
        return {name: str(self.schedule[name]) for name in names}


class EditorForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """What an editor of a shared topic can change. Documents of the owner’s library aren't part of it."""

    objective = TopicForm.base_fields["objective"]
    focus = TopicForm.base_fields["focus"]
    always_check = TopicForm.base_fields["always_check"]
    base = forms.CharField(required=False, widget=forms.HiddenInput)

    def clean_always_check(self) -> list[str]:
        rules: list[str] = self.cleaned_data["always_check"]
        if any(rule.startswith("library:") for rule in rules):
            raise ValidationError(_("Only the topic’s owner can add documents from their library."))
        return rules

    def state(self) -> State:
        return {name: self.cleaned_data[name] for name in EDITABLE_BY_EDITORS}


def base_of(form: forms.Form) -> State:
    """Return the state when the form was opened. Empty if it was tampered with."""
    try:
        base = json.loads(form.cleaned_data.get("base") or "{}")
    except (ValueError, RecursionError):
        return {}
    return base if isinstance(base, dict) else {}


def rebased_data(form: TopicForm | EditorForm, stored: forms.Form, exc: EditConflict) -> QueryDict:
    """Return what was typed, based on what is stored now, so saving again keeps it.

    Fields that only others changed get their new value, as the form `stored` has it.
    """
    base, data = base_of(form), QueryDict(mutable=True)
    data.update(form.data)
    for name, mine in form.state().items():
        if name not in exc.theirs and mine == base.get(name):
            for part in SCHEDULE_PARTS if name == "schedule" else (name,):
                data.setlist(part, _as_sent(stored[part].value()))
    data["base"] = json.dumps(exc.now)
    return data


def _as_sent(value: Any) -> list[str]:
    """Return a field's shown value as a browser sends it."""
    if isinstance(value, list):
        return [str(each) for each in value]
    if value in (None, False):
        return []
    return ["on" if value is True else str(value)]


def initial_of(topic: Topic) -> dict[str, Any]:
    """Return the form's values for a topic, with its state as the base of an edit."""
    state = state_of(topic)
    schedule = Schedule(topic=topic, **state["schedule"])
    shown = {name: value for name, value in state.items() if name != "schedule"}
    shown |= state["schedule"] | scheduling.choices_of(schedule)
    if schedule.preset != Schedule.Preset.CRON:
        shown["cron"] = ""
    return shown | {"base": json.dumps(state)}


def initial_of_new(owner: User) -> dict[str, Any]:
    """Return the initial values of a new topic. Weekly is the seed's default (R54)."""
    return {
        "preset": Schedule.Preset.WEEKLY,
        "missed": Schedule.Missed.ONCE,
        "time_zone": owner.time_zone,
        "hour": scheduling.DEFAULT_HOUR,
        "weekday": 1,
        "day": "1",
        "time_frame": TopicSettings.TimeFrame.ANY,
        "engine": connections.serpapi_engine(),
    }
