"""Activity as a file: lines written as they are read, however many there are."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from memory.texts.spreadsheets import cell
from research.activity.line import Line

FIELDS = ("at", "actor", "kind", "record_type", "label", "said", "why", "details", "run", "warning")


@dataclass(frozen=True, slots=True)
class Export:
    """One kind of file: its media type, and the function that writes lines as its pieces."""

    media_type: str
    write: Callable[[Iterable[Line]], Iterator[str]]


def _row(line: Line) -> dict[str, Any]:
    return {
        "at": line.at.isoformat(),
        "actor": line.actor,
        "kind": line.name,
        "record_type": line.noun,
        "label": line.label,
        "said": line.said,
        "why": line.why,
        "details": "; ".join(line.details),
        "run": line.run.pk if line.run else None,
        "warning": line.is_warning,
    }


def as_csv(lines: Iterable[Line]) -> Iterator[str]:
    """Yield the lines as CSV that a spreadsheet opens without carrying anything out."""
    yield _csv(FIELDS)
    for line in lines:
        row = _row(line)
        yield _csv([cell(row[name]) for name in FIELDS])


def _csv(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()


def as_json_lines(lines: Iterable[Line]) -> Iterator[str]:
    """Yield the lines as JSON, one object a line."""
    for line in lines:
        yield json.dumps(_row(line), ensure_ascii=False) + "\n"


KINDS: dict[str, Export] = {
    "activity.csv": Export("text/csv; charset=utf-8; header=present", as_csv),
    "activity.jsonl": Export("application/jsonl", as_json_lines),
}
