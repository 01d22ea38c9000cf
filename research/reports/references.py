"""A report's cited sources as bibliography files: BibTeX, RIS and CSL JSON."""

from __future__ import annotations

import json
import re
from datetime import date

from django.utils.text import slugify

from research.models import Run
from research.reports import page as report_page
from research.reports.delta_rows import SourceRow

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
    created: date = run.report.created.date()
    return created


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
