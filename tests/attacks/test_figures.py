"""The attack suite's own table: it adds up, and says where something ran."""

from __future__ import annotations

from types import SimpleNamespace

from tests.attacks import figures
from tests.faults import figures as faults


def report(*told: list[object]) -> SimpleNamespace:
    return SimpleNamespace(when="call", user_properties=[(figures.NAME, line) for line in told])


def test_a_sink_is_the_sum_of_what_its_tests_tried():
    lines = figures.lines_of([report(["tag", 5, 2, 3, 0]), report(["tag", 4, 0, 3, 1])])

    assert lines == {"tag": figures.Counts(tried=9, refused=2, neutralised=6, run=1)}


def test_the_table_ends_with_the_sum_of_all_sinks():
    lines = figures.lines_of([report(["tag", 5, 2, 3, 0], ["note", 4, 0, 3, 1])])

    assert figures.table(lines).splitlines()[-1] == "| **all** | 9 | 2 | 6 | 1 |"


def test_both_tables_have_their_place_in_the_document():
    text = faults.DOC.read_text(encoding="utf-8")
    marks = [faults.BEGIN, faults.END, figures.BEGIN, figures.END]

    assert [text.count(mark) for mark in marks] == [1, 1, 1, 1]
