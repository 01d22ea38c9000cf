"""The attack suite's own table: it adds up, and says where something ran."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.attacks import figures
from tests.attacks.classes import CLASSES
from tests.faults import figures as faults


def report(*told: list[object]) -> SimpleNamespace:
    return SimpleNamespace(when="call", user_properties=[(figures.NAME, line) for line in told])


def test_a_sink_is_the_sum_of_what_its_tests_tried():
    lines = figures.lines_of([report(["tag", 5, 2, 3, 0]), report(["tag", 4, 0, 3, 1])])

    assert lines == {"tag": figures.Counts(tried=9, refused=2, neutralised=6, run=1)}


def test_a_test_of_a_class_is_one_try_and_its_twin_without_a_guard_is_none():
    name = "tests/api/test_at_once.py::test_one"
    rows = [
        SimpleNamespace(when="call", nodeid=name, passed=True, failed=False, user_properties=()),
        SimpleNamespace(when="call", nodeid=name, passed=False, failed=True, user_properties=()),
        SimpleNamespace(
            when="call", nodeid=f"{name} without a guard", passed=True, failed=False,
            user_properties=(),
        ),
    ]  # fmt: skip

    lines = figures.lines_of(rows)

    assert lines == {"conditional requests at once": figures.Counts(2, 0, 1, 1)}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_names_tests_that_there_are(name: str):
    path, _colons, test = name.partition("::")

    assert f"def {test or 'test_'}" in (Path(__file__).parents[2] / path).read_text("utf-8")


def test_the_table_ends_with_the_sum_of_all_sinks():
    lines = figures.lines_of([report(["tag", 5, 2, 3, 0], ["note", 4, 0, 3, 1])])

    assert figures.table(lines).splitlines()[-1] == "| **all** | 9 | 2 | 6 | 1 |"


def test_both_tables_have_their_place_in_the_document():
    text = faults.DOC.read_text(encoding="utf-8")
    marks = [faults.BEGIN, faults.END, figures.BEGIN, figures.END]

    assert [text.count(mark) for mark in marks] == [1, 1, 1, 1]
