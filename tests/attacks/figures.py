"""The attempts of the attack suite at each sink, and their results."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from tests.attacks.classes import sink_of
from tests.faults import figures as faults

BEGIN, END = "<!-- attacks: begin -->", "<!-- attacks: end -->"
NAME = "attack"
Count = Callable[..., None]  # the fixture `count`
OTHERS = "other pages, messages and inputs"
HEAD = ("Sink", "Attempts", "Refused", "Neutralized", "Run")


class Counts(NamedTuple):
    """One sink's figures: each attempt was rejected with an explanation, neutralized, or it ran.

    A try "runs" when it does what its author meant: script that is executed, a private address
    that is reached, a path outside that is read or written, an order that is obeyed, a 5xx.
    """

    tried: int
    refused: int
    neutralised: int
    run: int


def lines_of(reports: Iterable[Any]) -> dict[str, Counts]:
    """Return each sink's sum: the tests' counts, and the tests that count as one attempt."""
    found: dict[str, Counter[str]] = {}
    for report in reports:
        if report.when == "call" and (sink := sink_of(getattr(report, "nodeid", ""))):
            here = {"tried": 1, "neutralised": int(report.passed), "run": int(report.failed)}
            found.setdefault(sink, Counter()).update(here)
        for name, value in getattr(report, "user_properties", ()):
            if name == NAME and report.when == "call":
                sink, *numbers = value
                found.setdefault(sink, Counter()).update(
                    dict(zip(Counts._fields, numbers, strict=True))
                )
    return {
        sink: Counts(*(count[field] for field in Counts._fields))
        for sink, count in sorted(found.items())
    }


def table(lines: dict[str, Counts]) -> str:
    """Return the figures as a Markdown table, with their sum.

    Sinks of one kind ("kind: detail") share a row, and so do all kinds with only one sink, unless an
    attempt ran.
    """
    lines = _by_kind(lines)
    sums = Counts(*(sum(column) for column in zip(*lines.values(), strict=True)))
    rows = [*lines.items(), ("**all**", sums)]
    shown = [HEAD, ("---",) * len(HEAD), *((sink, *counts) for sink, counts in rows)]
    return "\n".join("| " + " | ".join(f"{cell}" for cell in row) + " |" for row in shown)


def _by_kind(lines: dict[str, Counts]) -> dict[str, Counts]:
    kinds: dict[str, dict[str, Counts]] = {}
    for sink, counts in lines.items():
        kind = sink if counts.run else sink.split(":")[0]
        kinds.setdefault(kind, {})[sink] = counts
    single = [
        name
        for name, sinks in kinds.items()
        if len(sinks) == 1 and not any(counts.run for counts in sinks.values())
    ]
    if len(single) > 1:
        kinds[OTHERS] = {sink: one for name in single for sink, one in kinds.pop(name).items()}
    return {
        next(iter(sinks)) if len(sinks) == 1 else f"{kind} ({len(sinks)} sinks)": Counts(
            *(sum(column) for column in zip(*sinks.values(), strict=True))
        )
        for kind, sinks in kinds.items()
    }


def show(reporter: pytest.TerminalReporter) -> None:
    """Print the table; `make attacks` with `--write` also writes it into the document."""
    reports = [r for kind in ("passed", "failed") for r in reporter.stats.get(kind, [])]
    lines = lines_of(reports)
    if not lines:
        return
    reporter.section("attacks")
    reporter.write_line(f"Measured {faults.machine()}.")
    reporter.write_line(table(lines))
    if os.environ.get("BEACON_TEST_ATTACKS_WRITE"):
        faults.put(table(lines), BEGIN, END)
