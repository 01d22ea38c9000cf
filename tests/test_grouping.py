"""What is slow to start is started once: the tests that share it run in one process."""

from __future__ import annotations

import ast

from tests.grouping import ROOT, _turn, group_of

BY_CHANCE = {"uuid1", "uuid4", "uuid7", "now", "today", "time", "random", "choice", "token_hex"}


def test_a_file_that_names_a_group_is_found_to_have_it():
    assert group_of("tests/faults/test_redis.py") == "faults-broken"
    assert group_of("tests/faults/test_kills.py") == "faults"
    assert group_of("tests/browser/test_axe.py") == "browser"


def test_a_file_without_one_has_none():
    assert group_of("tests/test_grouping.py") == ""


def test_groups_are_handed_out_first_then_what_is_slow():
    quick, slow, group = "tests/a.py::test_b", "tests/site/test_c.py::test_d", "browser"
    units = {quick: {quick: False}, slow: {slow: False}, group: {"e": False, "f": False}}

    assert [name for name, _ in sorted(units.items(), key=_turn)] == [group, slow, quick]


def test_no_parameter_of_a_test_is_made_by_chance_or_by_the_clock():
    """Two processes would collect different tests, and no run of all of them would begin."""
    found = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for mark in ast.walk(ast.parse(path.read_text()))
        if isinstance(mark, ast.Call) and _name(mark.func) == "parametrize"
        for call in ast.walk(mark)
        if isinstance(call, ast.Call) and _name(call.func) in BY_CHANCE
    ]
    assert found == []


def _name(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
