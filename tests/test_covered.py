"""What fails by chance is told and does not refuse; what fails always refuses."""

from __future__ import annotations

from tests.covered import FAILED, FEW, settled

ONE = ["tests/site/test_x.py::test_of_mine"]


def test_what_passes_by_itself_does_not_fail_the_run() -> None:
    assert settled(FAILED, ONE, lambda tests: tests == ONE) == 0


def test_what_fails_again_fails_the_run() -> None:
    assert settled(FAILED, ONE, lambda _tests: False) == FAILED


def test_many_failures_are_no_chance_and_are_not_tried_again() -> None:
    asked: list[list[str]] = []
    many = ONE * (FEW + 1)
    assert settled(FAILED, many, lambda tests: not asked.append(tests)) == FAILED
    assert asked == []


def test_a_run_that_was_broken_off_stays_broken_off() -> None:
    interrupted = 2
    assert settled(interrupted, ONE, lambda _tests: True) == interrupted
    assert settled(FAILED, [], lambda _tests: True) == FAILED
