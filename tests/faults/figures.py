"""The results of the fault tests: fault, promise and result."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

DOC = Path(__file__).resolve().parent.parent.parent / "docs" / "dev" / "reliability.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
NAME = "fault"
HEAD = ("Fault", "Promise", "Result", "Kept")
GUARDS_BEGIN, GUARDS_END = "<!-- guards: begin -->", "<!-- guards: end -->"
GUARD = "guard"
GUARDS_HEAD = ("Guard", "Promise", "Without it", "Test that fails without it", "Seen")
_BEGAN = time.monotonic()

GROUPED_FROM = 4  # rows with one promise
NAMED = 3  # faults of a joined row
SHARED_START = 12  # characters

Lines = list[tuple[str, ...]]


def lines_of(reports: Iterable[Any], kind: str = NAME) -> Lines:
    """Return the figures in the test reports, and whether each test passed."""
    found = []
    for report in reports:
        for name, value in getattr(report, "user_properties", ()):
            if name == kind and report.when == "call":
                told = (" ".join(part.split()) for part in value)
                found.append((*told, "yes" if report.passed else "NO"))
    return sorted(found)


def table(lines: Lines, head: tuple[str, ...] = HEAD) -> str:
    """Return the figures as a table in Markdown, with the last column only if it has a NO."""
    if all(line[-1] == "yes" for line in lines):
        head, lines = head[:-1], [line[:-1] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *lines))


def grouped(lines: Lines) -> Lines:
    """Join faults with the same promise that was kept: one row names them, with one result."""
    groups: dict[str, Lines] = {}
    for fault, promise, result, kept in lines:
        groups.setdefault(promise, []).append((fault, promise, result, kept))
    rows: Lines = []
    for promise, group in groups.items():
        if len(group) < GROUPED_FROM or any(kept != "yes" for *_rest, kept in group):
            rows += group
        else:
            faults = "; ".join(_without_shared_start([fault for fault, *_rest in group[:NAMED]]))
            named = f"{len(group)} faults, such as: {faults}"
            rows.append((named, promise, f"such as: {group[0][2]}", "yes"))
    return sorted(rows)


def _without_shared_start(names: list[str]) -> list[str]:
    """Drop the words that each name has in common with the first name's start."""
    shown = names[:1]
    for name in names[1:]:
        same = takewhile(lambda pair: pair[0] == pair[1], zip(names[0], name, strict=False))
        shared = "".join(a for a, _b in same).rpartition(" ")[0]
        shown.append(name[len(shared) :].strip() if len(shared) > SHARED_START else name)
    return shown


def machine() -> str:
    """Return when and on which machine the figures were measured."""
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC, on a machine with {os.cpu_count()} cores "
        f"({platform.system()} {platform.machine()}, Python {platform.python_version()}, load averages {load})"
    )


def put(table: str, begin: str, end: str) -> None:
    """Put a table into the document, between its two marks."""
    text = DOC.read_text(encoding="utf-8")
    before, rest = text.split(begin, 1)
    _old, after = rest.split(end, 1)
    new = f"{begin}\nThese figures were measured {machine()}.\n\n{table}\n{end}"
    DOC.write_text(before + new + after, encoding="utf-8")


def show(reporter: pytest.TerminalReporter) -> None:
    """Print a test run's rows; `make faults` with `--write` also writes them into DOC."""
    reports = [r for kind in ("passed", "failed") for r in reporter.stats.get(kind, [])]
    found = lines_of(reports)
    _show(reporter, "faults", table(grouped(found)) if found else "", BEGIN, END)
    guards = lines_of(reports, GUARD)
    told = (
        f"The table lists {len(guards)} guards.\n\n{table(guards, GUARDS_HEAD)}" if guards else ""
    )
    _show(reporter, "guards taken out", told, GUARDS_BEGIN, GUARDS_END)


def _show(reporter: pytest.TerminalReporter, title: str, told: str, begin: str, end: str) -> None:
    if not told:
        return
    minutes, seconds = divmod(round(time.monotonic() - _BEGAN), 60)
    reporter.section(title)
    reporter.write_line(f"Measured {machine()}.")
    reporter.write_line(told)
    if os.environ.get("BEACON_TEST_FAULTS_WRITE"):
        put(f"`make faults` took {minutes} min {seconds} s.\n\n{told}", begin, end)
