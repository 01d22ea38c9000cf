"""What is slow to start is started once: the tests that share it run in one process."""

from __future__ import annotations

from tests.grouping import group_of


def test_a_file_that_names_a_group_is_found_to_have_it():
    assert group_of("tests/faults/test_redis.py") == "faults-broken"
    assert group_of("tests/faults/test_kills.py") == "faults"
    assert group_of("tests/browser/test_axe.py") == "browser"


def test_a_file_without_one_has_none():
    assert group_of("tests/test_grouping.py") == ""
