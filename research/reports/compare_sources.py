"""Which sources two reports cite, and what their runs were asked to do differently."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from django.utils.dateparse import parse_date
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.models import Topic
from research.links import Link, link_of
from research.models import Report, Run, TopicSettings
from research.search.searching import label_of
from research.steps import planning

# Told as they are kept with the run; budgets and schedules do not change what it looks for.
_TOLD = (*TopicSettings.ASKED, *TopicSettings.LIMITS)
_UNSET = gettext_lazy("not set")


@dataclass(frozen=True, slots=True)
class Cited:
    """One source with the numbers under which the two reports cite it (0: it does not)."""

    title: str
    domain: str
    link: Link
    published_at: date | None
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Setting:
    """What was set otherwise: its name, and the words of both runs."""

    label: str
    old: str
    new: str


def compare(topic: Topic, old: Report, new: Report) -> dict[str, Any]:
    """Return the sources of one report, of the other, of both; and the settings that differed."""
    cited = _cited(old, new)
    return {
        "only_old": [one for one in cited if not one.new],
        "only_new": [one for one in cited if not one.old],
        "both": [one for one in cited if one.old and one.new],
        "settings": _settings(topic, old, new),
    }


def _cited(old: Report, new: Report) -> list[Cited]:
    sides = [{_key(stored): stored for stored in report.sources} for report in (old, new)]
    found = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        stored = sides[1].get(key) or sides[0][key]
        found.append(
            Cited(
                title=stored.get("title") or stored.get("link", ""),
                domain=stored.get("domain", ""),
                link=link_of(stored.get("link", "")),
                published_at=parse_date(stored.get("published_at") or ""),
                old=sides[0].get(key, {}).get("n", 0),
                new=sides[1].get(key, {}).get("n", 0),
            )
        )
    return found


def _key(stored: dict[str, Any]) -> str:
    return str(stored.get("url") or stored.get("link") or stored.get("title", ""))


def _settings(topic: Topic, old: Report, new: Report) -> list[Setting]:
    before, after = _made_with(topic, old), _made_with(topic, new)
    labels = [
        label for label in dict.fromkeys([*before, *after]) if label in before and label in after
    ]
    return [
        Setting(label, before[label] or str(_UNSET), after[label] or str(_UNSET))
        for label in labels
        if before[label] != after[label]
    ]


def _made_with(topic: Topic, report: Report) -> dict[str, str]:
    """Return what a run was made with, as labels and words."""
    run: Run = report.run
    told = {_("Written by"): _("no model") if report.is_extractive else report.written_by}
    planned_by = run.manifest.get("planned_by")
    if planned_by:
        told[_("Plan")] = planning.by_words(planned_by)
    if run.settings:
        asked = TopicSettings.from_json(topic, run.settings)
        for name in _TOLD:
            label = str(TopicSettings._meta.get_field(name).verbose_name)  # type: ignore[union-attr]
            told[label[:1].upper() + label[1:]] = _words(asked, name)
    asked_services = run.manifest.get("services")
    if asked_services is not None:
        told[_("Services asked")] = _listed([label_of(name) for name in asked_services])
    if run.manifest.get("beacon"):
        told[_("Beacon")] = str(run.manifest["beacon"])
    return told


def _words(asked: TopicSettings, name: str) -> str:
    """Return one setting in words; empty where it is not set."""
    value = getattr(asked, name)
    if name == "services":
        return _listed([label_of(one) for one in value])
    if isinstance(value, list):
        return _listed([str(one) for one in value])
    display = getattr(asked, f"get_{name}_display", None)
    return str(display()) if display else "" if value is None else str(value)


def _listed(values: list[str]) -> str:
    return ", ".join(values)
