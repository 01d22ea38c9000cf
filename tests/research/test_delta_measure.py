"""The delta benchmark: its counts, and that the matcher doesn't get worse on the open half."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.delta import answers, show
from benchmarks.delta_scenarios import practice, scenarios

# On what the weights were fitted on; the table of what was left out is in docs/dev/benchmarks.md.
MIN_TOLD = {"new": 0.85, "confirmed": 0.7, "repeat": 0.8, "noise": 0.8}  # share of those meant
MIN_RIGHT = {"confirmed": 0.75, "changed": 0.6, "contradicted": 0.85}  # share of those told


def test_the_open_half_is_distinguished_without_vectors(capsys: pytest.CaptureFixture[str]):
    every = [answer for scenario in scenarios("open") for answer in answers(scenario, None)]
    right = Counter(label for label, answer, _of, _place in every if label == answer)
    meant = Counter(label for label, _answer, _of, _place in every)

    told = Counter(answer for _label, answer, _of, _place in every)
    assert {s: n for s, n in MIN_TOLD.items() if right[s] / meant[s] < n} == {}
    assert {s: n for s, n in MIN_RIGHT.items() if right[s] / told[s] < n} == {}
    show(every, 24)
    assert "precision" in capsys.readouterr().out


def test_the_halves_are_read_apart():
    half, kept = ({one.name for one in scenarios(name)} for name in ("open", "kept"))

    assert len(half) == len(kept) == 24
    assert not half & kept


def test_the_practice_shares_no_sentence_with_the_scenarios():
    own = {told.text for one in practice() for told in [*one.known, *one.found]}
    measured = {told.text for one in scenarios("all") for told in [*one.known, *one.found]}

    assert len(practice()) >= 12
    assert not own & measured
