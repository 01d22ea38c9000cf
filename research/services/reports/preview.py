"""A topic's last report by a template that isn't saved yet."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString, mark_safe

from beacon_site.text.markdown import by_direction, render
from memory.models import Topic
from research.models import DeltaItem, Run, Step, TopicSettings
from research.services.runs.reporting import report_text, template
from research.services.runs.reporting.delta import Change

_HEADING = re.compile(r"<(/?)h([2-6])\b")
_LOWER = 1  # level: the preview is inside a section of the settings


@dataclass(frozen=True, slots=True)
class Preview:
    """The last saved run, if any, and its report as safe HTML. No template: no body."""

    run: Run | None
    body: SafeString | None = None


def preview_of(topic: Topic, settings: TopicSettings) -> Preview:
    """Return the topic's last report, laid out by these settings. It takes three queries."""
    runs = Run.objects.kept().filter(topic=topic, report__trashed_at=None).exclude(number=None)
    run = runs.exclude(report=None).select_related("report", "topic").order_by("-number").first()
    if run is None or not settings.report_template.strip():
        return Preview(run)
    html = render(template.laid_out(settings, _contents(run)))
    lower = _HEADING.sub(lambda h: f"<{h[1]}h{min(6, int(h[2]) + _LOWER)}", html)
    return Preview(run, by_direction(mark_safe(lower)))  # noqa: S308  (of safe HTML)  # nosec B308, B703


def _contents(run: Run) -> template.Contents:
    """Return what a stored run has for a template.

    The text before any template is in the outputs of its steps. A baseline has no other changes.
    """
    report = run.report
    steps = Step.objects.filter(run=run, name__in=("write", "verify"), part=0)
    outputs: dict[str, dict[str, Any]] = dict(steps.values_list("name", "output"))
    verify = outputs.get("verify", {})
    stored = [_change(item) for item in DeltaItem.objects.filter(run=run).order_by("position")]
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


def _change(item: DeltaItem) -> Change:
    return Change(
        status=item.status,
        sentence=item.sentence,
        citations=list(item.citations),
        quote=item.quote,
        previous_text=item.previous_text,
        previous_source=item.previous_source,
        withheld=item.withheld,
        judged_by=item.judged_by,
        unsure=item.unsure,
    )
