"""Templates of topics: what a new topic's form begins with for four common kinds of research.

A template fills in fields and nothing else: each can be changed, and what a person has typed
stays when another template is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from memory.texts.text import clean
from research.forms import service_order
from research.models import Schedule, TopicSettings

Frame, Style = TopicSettings.TimeFrame, TopicSettings.Style
Reading, PlanReview = TopicSettings.Reading, TopicSettings.PlanReview
Preset = Schedule.Preset

AT_LARGE = ("tavily", "brave", "serpapi", "searxng")  # the web as a whole, where it is set up


@dataclass(frozen=True, slots=True)
class TopicTemplate:
    """One template: `hint` shows what kind of name fits, `values` are fields of the form.

    What a person has yet to name stands in `focus_help`, never in `values`: the focus is searched.
    `services` are in their order; those that lack a key or an address here are left out.
    """

    name: str
    label: str | Promise
    about: str | Promise
    hint: str | Promise
    services: tuple[str, ...]
    values: Mapping[str, Any] = field(default_factory=dict)
    focus_help: str | Promise = ""

    def filled_in(self) -> dict[str, Any]:
        """Return the fields that the template fills in, as this Beacon can carry them out."""
        texts = {
            name: str(value) if isinstance(value, Promise) else value
            for name, value in self.values.items()
        }
        return texts | {"services": service_order.ready(self.services)}


TEMPLATES = (
    TopicTemplate(
        "weekly-tracker",
        _("Weekly tracker"),
        _("what happened in a field since last week"),
        _("Electric cargo bikes in Europe"),
        services=(*AT_LARGE, "hackernews", "feeds", "library"),
        values={
            "objective": _("Know each week what happened, who did it, and what to watch next."),
            "focus": _("Launches, prices, rules, funding, studies."),
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
        _("Competitor scan"),
        _("what named rivals ship, charge and announce"),
        _("Route planners for delivery fleets"),
        services=(*AT_LARGE, "hackernews", "gdelt", "wikipedia", "feeds", "library"),
        values={
            "objective": _(
                "Know what the competitors released, charge or announced since the last "
                "report, and what it means for us."
            ),
            "focus": _("new products, prices, announcements"),
            "time_frame": Frame.MONTH.value,
            "preset": Preset.WEEKLY.value,
            "weekday": "1",
            "report_style": Style.EXECUTIVE.value,
            "reading": Reading.NORMAL.value,
            "plan_review": PlanReview.DAY.value,
        },
        focus_help=_("Begin with the competitors' names: what stands here is searched for."),
    ),
    TopicTemplate(
        "research-field",
        _("Research field"),
        _("new papers, methods and open questions"),
        _("Perovskite tandem solar cells"),
        services=("arxiv", "wikipedia", *AT_LARGE, "feeds", "library"),
        values={
            "objective": _(
                "Know the new results with their numbers, the methods behind them, and what is "
                "still open."
            ),
            "focus": _("Papers and preprints, replications, reviews."),
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
        _("Release watch"),
        _("versions, fixes, breaking changes, end of support"),
        _("PostgreSQL"),
        services=("feeds", *AT_LARGE, "hackernews", "library"),
        values={
            "objective": _(
                "Know of each release: its version and date, what breaks, what is fixed, and when "
                "support ends."
            ),
            "focus": _("Release notes, changelogs, security advisories."),
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
    """Return what the named template fills in; nothing for no template, or an unknown one."""
    return BY_NAME[name].filled_in() if name in BY_NAME else {}


def taken(
    shown: Mapping[str, Any], *, before: str, now: str, blank: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values `shown` with the template `now` in place of the template `before`.

    `blank` are those of a form without any.  What differs from what the form began with was typed
    or chosen by the person, and stays.
    """
    old = {**blank, **filled_in(before)}
    new = {**blank, **filled_in(now)}
    names = {name for name in {**old, **new} if _sent(shown.get(name)) == _sent(old.get(name))}
    kept = {name: value for name, value in shown.items() if name not in names}
    # What neither the template nor `blank` names is left to the field, which knows its usual value.
    return kept | {name: new[name] for name in names if name in new}


def _sent(value: Any) -> Any:
    """Return a value as a browser sends it, so that it can be compared with one that came back."""
    if isinstance(value, list | tuple):
        return [str(each) for each in value]
    return "" if value in (None, False) else str(value).replace("\r\n", "\n").strip()


def values_of(data: QueryDict) -> dict[str, Any]:
    """Return what a form sent as the initial values of the form that is shown again."""
    values: dict[str, Any] = {name: clean(str(data[name]))[0] for name in data}
    return values | {"services": data.getlist("services")}
