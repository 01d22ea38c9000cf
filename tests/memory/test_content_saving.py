"""The machinery of `benchmarks.tokens`, on a small transcript: what is saved, and still answered."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.content_script import KINDS, Transcript
from benchmarks.tokens import by_iteration, go, seed_s_example

SMALL = Transcript(sizes=(8_000, 8_000, 8_000))
LOTS = 5


def test_the_transcript_is_the_same_every_time_and_hides_its_codes_beyond_the_beginning():
    for kind in KINDS:
        text = SMALL.text(kind, 3)
        assert text == Transcript(sizes=SMALL.sizes).text(kind, 3) != SMALL.text(kind, 4)
        assert text.index(SMALL.code(kind, 3)) > 500


@pytest.mark.requirement("R136")
def test_far_less_is_sent_with_the_store_and_every_answer_is_still_found(alice: Any):
    plain = go(alice, lots=LOTS, with_store=False, transcript=SMALL)
    kept = go(alice, lots=LOTS, with_store=True, transcript=SMALL)

    before, after = by_iteration(plain)[LOTS], by_iteration(kept)[LOTS]
    assert (plain.right, kept.right) == (LOTS, LOTS)
    assert before.bytes > 100_000 and after.bytes < 6_000
    assert after.tokens < before.tokens / 20


@pytest.mark.requirement("R125")
def test_an_agent_that_is_shown_no_ids_finds_nothing_beyond_the_first_full_results(alice: Any):
    blind = go(alice, lots=LOTS, with_store=True, without_ids=True, transcript=SMALL)

    assert blind.right <= 1


def test_the_seed_s_own_example_shrinks_from_three_hundred_kilobytes_to_a_few(alice: Any):
    assert seed_s_example(alice, with_store=False)[1] > 300_000
    assert seed_s_example(alice, with_store=True)[2] < 4_000
