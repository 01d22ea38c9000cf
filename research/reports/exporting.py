"""Export a saved run: report, sources, references and everything as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

from django.conf import settings as site
from django.core.serializers.json import DjangoJSONEncoder
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import get_language

from beacon_site.embedded import installed
from beacon_site.text.cleaning import cell
from beacon_site.text.markdown import by_direction, render
from memory.models import ModelCall
from research.models import Run
from research.reporting import sentences as report_sentences
from research.reports import page as report_page
from research.reports import references
from research.runs import presenters

STYLE = installed.ASSETS / "static/css/export.css"
CSV_FIELDS = (
    "state", "cited_as", "domain", "title", "url", "published_at", "reading", "reason", "service",
)  # fmt: skip


def as_markdown(run: Run) -> str:
    """Return the report as Markdown, the same text that commands and API clients get."""
    text: str = run.report.as_markdown()
    return text


def as_html(run: Run) -> str:
    """Return the report as one HTML file that loads nothing and only links to http(s)."""
    return html_by("research/export.html", run)


def html_by(template: str, run: Run, **more: Any) -> str:
    """Render the report with a template that extends research/export.html."""
    report = run.report
    said = report_sentences.said_of(report, report_sentences.FILE)
    body, _headings = report_page.body_of(report, said)
    return render_to_string(
        template,
        {
            "run": run,
            "report": report,
            "delta": by_direction(render(report.delta)) if report.delta else "",
            "body": body,
            "sources": report_page.sources_of(report),
            "written_by": presenters.written_by(report),
            "style": style(),
            "language": get_language() or "en",
        }
        | more,
    )


def style() -> SafeString:
    """Return the style element. A saved file or an email can't load a stylesheet."""
    return format_html("<style>{}</style>", mark_safe(STYLE.read_text("utf-8")))  # noqa: S308  (a file of ours)  # nosec B308, B703


def as_csv(run: Run) -> str:
    """Return the run's hits as CSV: new, known, returning or blocked, and the citation number."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CSV_FIELDS)
    for hit in run.hits.order_by("place"):
        row = {name: getattr(hit, name, "") for name in CSV_FIELDS} | {"url": hit.link}
        writer.writerow([cell(row[name]) for name in CSV_FIELDS])
    return out.getvalue()


def as_json(run: Run) -> str:
    """Return everything about the run as JSON: the stored rows, with names in snake_case."""
    report = run.report
    calls = ModelCall.objects.of(run.topic.owner).filter(source=run.source)
    stored = {
        "beacon": site.BEACON_VERSION,
        "topic": {"title": run.topic.title, "slug": run.topic.slug},
        "run": _row(run, without=("topic", "manifest")) | {"tokens": run.tokens},
        "steps": [_row(step, without=("run",)) for step in run.steps.all()],
        "hits": [_row(hit, without=("run",)) for hit in run.hits.order_by("place")],
        "tool_calls": [_row(call, without=("run",)) for call in run.tool_calls.all()],
        "report": _row(report, without=("owner", "run")) | {"markdown": report.as_markdown()},
        "checked_sentences": [
            _row(one, without=("owner",)) for one in report.checked_sentences.standing()
        ],
        "corrections": [_row(one, without=("owner",)) for one in report.corrections.standing()],
        "delta_items": [_row(item, without=("run",)) for item in run.delta_items.all()],
        "model_calls": [_row(call, without=("owner",)) for call in calls.order_by("id")],
        "manifest": run.manifest,
    }
    return json.dumps(stored, cls=DjangoJSONEncoder, ensure_ascii=False, indent=2) + "\n"


def _row(row: Any, *, without: tuple[str, ...]) -> dict[str, Any]:
    """Return a row's own fields. References to other rows are ids."""
    fields = (field for field in row._meta.concrete_fields if field.name not in without)
    return {field.name: field.value_from_object(row) for field in fields}


# Media types, and the functions that write a saved run as text.
KINDS: dict[str, tuple[str, Callable[[Run], str]]] = {
    "report.md": ("text/markdown; charset=utf-8", as_markdown),
    "report.html": ("text/html; charset=utf-8", as_html),
    "sources.csv": ("text/csv; charset=utf-8; header=present", as_csv),
    "references.bib": ("application/x-bibtex; charset=utf-8", references.as_bibtex),
    "references.ris": ("application/x-research-info-systems; charset=utf-8", references.as_ris),
    "references.json": ("application/vnd.citationstyles.csl+json", references.as_csl_json),
    "run.json": ("application/json", as_json),
}
