"""Export a saved run: report, sources, references and everything as JSON."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable
from datetime import date
from functools import cache, partial
from typing import Any

import structlog
from django.conf import settings as site
from django.core.serializers.json import DjangoJSONEncoder
from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from beacon_site.embedded import places
from beacon_site.net.errors import ProviderUnavailable
from beacon_site.net.extract import MIB, ChildFailed, ChildNotStarted, ChildProcess
from beacon_site.text.cleaning import csv_lines
from beacon_site.text.markdown import by_direction, render
from memory.models import ModelCall
from memory.models.errors import MemoryRefused
from research.models import Run
from research.services.reports import page as report_page
from research.services.reports.delta_rows import SourceRow
from research.services.reports.pdf_document import Wanted
from research.services.runs import presenters
from research.services.runs.reporting import sentences as report_sentences

# --- A report's cited sources as bibliography files: BibTeX, RIS and CSL JSON ---


# Characters with a meaning in BibTeX. A backslash comes first, so that it isn't escaped twice.
_BIBTEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def as_bibtex(run: Run) -> str:
    """Return the sources as BibTeX. Keys are the domain and the citation number."""
    return "\n".join(_bibtex_entry(source, _read_on(run)) for source in _sources(run))


def as_ris(run: Run) -> str:
    """Return the sources as RIS records of type ELEC (web page)."""
    return "".join(_ris_record(source, _read_on(run)) for source in _sources(run))


def as_csl_json(run: Run) -> str:
    """Return the sources as CSL JSON, which Zotero, pandoc and citation processors read."""
    items = [_csl_item(source, _read_on(run)) for source in _sources(run)]
    return json.dumps(items, ensure_ascii=False, indent=2) + "\n"


def _sources(run: Run) -> list[SourceRow]:
    return report_page.sources_of(run.report)


def _read_on(run: Run) -> date:
    return run.report.created.date()


def _bibtex_entry(source: SourceRow, read_on: date) -> str:
    fields = {"title": f"{{{_escaped(source.title)}}}"}
    if source.domain:
        fields["organization"] = _escaped(source.domain)
    if published := source.published_at:
        fields |= {"year": f"{published:%Y}", "month": f"{published:%m}", "day": f"{published:%d}"}
    if url := _url(source):
        fields["url"] = url.replace("{", "%7B").replace("}", "%7D")
    fields |= {"urldate": read_on.isoformat(), "note": f"Source {source.n} of the report"}
    lines = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@misc{{{_key(source)},\n{lines}}}\n"


def _ris_record(source: SourceRow, read_on: date) -> str:
    """Return one record. Each line is a tag, two spaces, a hyphen and the value."""
    tags = [("TY", "ELEC"), ("ID", str(source.n)), ("TI", source.title), ("PB", source.domain)]
    if published := source.published_at:
        tags += [("PY", f"{published:%Y}"), ("DA", f"{published:%Y/%m/%d}")]
    tags += [("UR", _url(source)), ("Y2", f"{read_on:%Y/%m/%d}")]
    lines = [f"{tag}  - {_one_line(value)}\r\n" for tag, value in tags if value]
    return "".join([*lines, "ER  - \r\n\r\n"])


def _csl_item(source: SourceRow, read_on: date) -> dict[str, object]:
    item: dict[str, object] = {
        "id": _key(source),
        "type": "webpage",
        "title": source.title,
        "container-title": source.domain,
        "accessed": _date_parts(read_on),
    }
    if url := _url(source):
        item["URL"] = url
    if source.published_at:
        item["issued"] = _date_parts(source.published_at)
    return item


def _date_parts(day: date) -> dict[str, list[list[int]]]:
    return {"date-parts": [[day.year, day.month, day.day]]}


def _url(source: SourceRow) -> str:
    """Return the page's URL. Documents of the library have none outside Beacon."""
    return "" if source.link.is_ours else source.link.url


def _key(source: SourceRow) -> str:
    return f"{slugify(source.domain.replace('.', '-')) or 'source'}-{source.n}"


def _escaped(text: str) -> str:
    return "".join(_BIBTEX.get(character, character) for character in _one_line(text))


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


# --- PDF and Word: a hostile or huge report could keep their libraries busy for minutes ---


SECONDS = 30.0  # a report of 100,000 characters takes 1 to 10 seconds
QUEUE_SECONDS = 20.0
MEMORY_LIMIT = 512 * MIB


logger = structlog.get_logger(__name__)


class CannotExport(MemoryRefused):
    """The report can't be written in this format, or not now."""


@cache
def child(module: str) -> ChildProcess:
    """Return this process's child that writes documents of one format."""
    command = (sys.executable, "-m", f"research.services.reports.{module}")
    return ChildProcess(command, seconds=SECONDS, memory_limit=MEMORY_LIMIT, queue=QUEUE_SECONDS)


def _document(module: str, run: Run) -> bytes:
    """Return the report as a document. Raises CannotExport, which says what to do."""
    report = run.report
    note = _(
        "This PDF’s font lacks some characters, so they’re shown as □. The Word, HTML and Markdown exports include them."
    )
    filters = Wanted(
        text=report.as_markdown(), title=report.title, subject=run.topic.title,
        domains=[str(source["domain"]) for source in report.sources],
        language=get_language() or "en", note=note,
    )  # fmt: skip
    try:
        return base64.b64decode(child(module).ask(filters)["file"])
    except ChildNotStarted as exc:
        logger.exception("export not created", run=run.pk, format=module, reason="not started")
        message = _(
            "Beacon couldn’t start the process that creates these files. The report is unchanged. Export it as HTML or Markdown, or ask your admin to check the log."
        )
        raise CannotExport(message) from exc
    except ProviderUnavailable as exc:
        logger.warning("export not created", run=run.pk, format=module, reason="busy")
        message = _(
            "Other exports are in progress. This report is unchanged. Try again in a minute."
        )
        raise CannotExport(message) from exc
    except ChildFailed as exc:
        logger.warning("export not created", run=run.pk, format=module, reason=exc.reason)
        if exc.reason == "crashed":
            message = _(
                "This report can’t be exported in this format. Export it as HTML or Markdown instead."
            )
        else:
            message = _(
                "Beacon stopped creating this file because it took too much time or memory. The report is unchanged. Export it as HTML or Markdown instead."
            )
        raise CannotExport(message) from exc


# --- Exporting ---


STYLE = places.ASSETS / "static/css/export.css"
CSV_FIELDS = (
    "state", "cited_as", "domain", "title", "url", "published_at", "reading", "reason", "service",
)  # fmt: skip


def as_markdown(run: Run) -> str:
    """Return the report as Markdown, the same text that commands and API clients get."""
    return run.report.as_markdown()


def as_html(run: Run) -> str:
    """Return the report as one HTML file that loads nothing and only links to http(s)."""
    return html_by("research/export.html", run)


def html_by(template: str, run: Run, **more: Any) -> str:
    """Render the report with a template that extends research/export.html."""
    report = run.report
    sentence_notes = report_sentences.notes_of(report, report_sentences.FILE)
    body = report_page.body_of(report, sentence_notes)
    return render_to_string(
        template,
        {
            "run": run,
            "report": report,
            "delta": by_direction(render(report.delta))
            if report.delta and not report.places_changes
            else "",
            "body": body.html,
            "body_rest": body.rest,
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
    rows = (
        {name: getattr(hit, name, "") for name in CSV_FIELDS} | {"url": hit.link}
        for hit in run.hits.order_by("place")
    )
    return "".join(csv_lines(CSV_FIELDS, rows))


def as_json(run: Run) -> str:
    """Return everything about the run as JSON: the stored rows, with names in snake_case."""
    report = run.report
    calls = ModelCall.objects.for_user(run.topic.owner).filter(source=run.source)
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


# Media types, and the functions that write a saved run.
KINDS: dict[str, tuple[str, Callable[[Run], str | bytes]]] = {
    "report.md": ("text/markdown; charset=utf-8", as_markdown),
    "report.html": ("text/html; charset=utf-8", as_html),
    "report.docx": (
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        partial(_document, "word_document"),
    ),
    "report.pdf": ("application/pdf", partial(_document, "pdf_document")),
    "sources.csv": ("text/csv; charset=utf-8; header=present", as_csv),
    "references.bib": ("application/x-bibtex; charset=utf-8", as_bibtex),
    "references.ris": ("application/x-research-info-systems; charset=utf-8", as_ris),
    "references.json": ("application/vnd.citationstyles.csl+json", as_csl_json),
    "run.json": ("application/json", as_json),
}
