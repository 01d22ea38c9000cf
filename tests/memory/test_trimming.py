"""Which messages of a conversation still fit a model's window."""

from __future__ import annotations

import pytest

from beacon_site.providers.llm.base import Message, ToolCall
from beacon_site.providers.llm.tokens import tokens_of, trimmed, without_calls

TASK = [Message("system", "You are Beacon."), Message("user", "Compare flights to Tokyo.")]


def pair(n: int, size: int = 400) -> list[Message]:
    """A call of a tool and its result, of about `size` / 4 tokens."""
    call = ToolCall(f"c{n}", "web_search", {"query": f"flights {n}"})
    return [Message("assistant", "", (call,)), Message("tool", f"{n}" * size, (), f"c{n}")]


def many(count: int) -> list[Message]:
    return [*TASK, *(message for n in range(count) for message in pair(n))]


def test_what_fits_stays_as_it_is():
    assert trimmed(many(3), 10_000) == many(3)


@pytest.mark.requirement("R183")
@pytest.mark.parametrize("most", [200, 500, 1_000, 2_000])
def test_the_task_and_the_newest_pairs_stay_within_the_limit(most: int):
    kept = trimmed(many(40), most)

    assert tokens_of(*kept) <= most
    assert kept[0] == TASK[0] and kept[1].content.startswith(TASK[1].content)
    assert kept[-1].tool_call_id == "c39"
    assert f"{80 - (len(kept) - 2)} messages" in kept[1].content


@pytest.mark.requirement("R183")
@pytest.mark.parametrize("most", range(60, 3_000, 97))
def test_a_call_and_its_result_stay_or_go_together(most: int):
    kept = trimmed(many(20), most)

    called = [call.id for one in kept for call in one.tool_calls]
    assert called == [one.tool_call_id for one in kept if one.role == "tool"]


def test_a_task_or_a_last_result_that_is_too_long_by_itself_is_cut():
    huge = [TASK[0], Message("user", "界" * 50_000), *pair(1, 50_000)]

    kept = trimmed(huge, 1_000)

    assert tokens_of(*kept) <= 1_010 and len(kept) == 4
    assert kept[1].content.endswith("…") and kept[3].content.endswith("…")


def test_a_result_without_its_call_goes_and_a_call_without_a_result_says_so():
    lost = [*TASK, Message("tool", "whose?", (), "zz"), pair(1)[0], Message("user", "And?")]

    kept = trimmed(lost, 5_000)

    assert [one.role for one in kept] == ["system", "user", "assistant", "tool", "user"]
    assert "no result" in kept[3].content


def test_east_asian_writing_counts_more_than_its_characters():
    assert tokens_of(Message("user", "记忆" * 100)) > 2 * tokens_of(Message("user", "ab" * 100))


def test_in_plain_words_results_are_the_users_and_no_two_of_theirs_are_in_a_row():
    plain = without_calls([*TASK, *pair(1, 3), Message("user", "Answer now.")])

    assert [one.role for one in plain] == ["system", "user"]
    assert plain[1].content == (
        "Compare flights to Tokyo.\n\nweb_search returned:\n111\n\nAnswer now."
    )
