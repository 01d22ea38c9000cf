"""The deltas of several runs as one: each fact once, in its state at the last of them."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beacon_site.text.cleaning import match_key
from research.models import DeltaItem
from research.services.runs.reporting.delta import Change, Status
from research.services.runs.reporting.merged_deltas import bullet, merge

OLD = "Cells cost ninety euros per kilowatt hour."
NEXT = "Cells cost eighty euros per kilowatt hour."
LAST = "Cells cost seventy euros per kilowatt hour."
OTHER = "The fire test in Graz was passed by every cell."
FACT, MADE = uuid4(), uuid4()


def said(run: int, status: str, sentence: str, before: str = "", fact: UUID | None = None):
    return DeltaItem(
        run_id=run, status=status, sentence=sentence, previous_text=before, previous_fact_id=fact
    )


def told(*items: DeltaItem) -> list[tuple[str, str, str]]:
    """Return of each merged item its status, the words before, and those now."""
    shown = [one.as_item() for one in merge(items)]
    return [(str(item.status), item.previous_text, item.sentence) for item in shown]


def test_what_is_new_and_changed_again_is_new_once_in_its_latest_words():
    items = said(4, "new", OLD), said(6, "changed", NEXT, OLD, MADE)

    assert told(*items) == [("new", "", NEXT)]


def test_what_changed_twice_shows_the_words_from_before_all_of_it():
    items = said(4, "changed", NEXT, OLD, FACT), said(5, "changed", LAST, NEXT, MADE)

    assert told(*items) == [("changed", OLD, LAST)]


def test_what_changed_and_changed_back_is_as_it_was():
    items = said(4, "changed", NEXT, OLD, FACT), said(5, "changed", OLD, NEXT, MADE)

    assert [status for status, _before, _now in told(*items)] == ["confirmed"]


@pytest.mark.parametrize(
    ("first", "second"), [("gone quiet", "confirmed"), ("confirmed", "gone quiet")]
)
def test_what_went_quiet_and_came_back_has_not_gone_quiet(first: str, second: str):
    items = said(4, first, OLD, OLD, FACT), said(5, second, OLD, OLD, FACT)

    assert told(*items) == [("confirmed", OLD, OLD)]


def test_what_is_new_stays_new_when_it_is_confirmed_or_not_spoken_of():
    items = (
        said(4, "new", OLD),
        said(5, "confirmed", OLD, OLD, MADE),
        said(6, "gone quiet", OLD, OLD, MADE),
    )

    assert told(*items) == [("new", "", OLD)]


def test_what_came_and_went_since_is_not_listed():
    items = said(4, "new", OLD), said(5, "gone", OLD, OLD, MADE)
    assert not any(one.is_listed for one in merge(items))

    items = said(4, "gone", OLD, OLD, FACT), said(5, "confirmed", OLD, OLD, FACT)
    assert [status for status, *_words in told(*items)] == ["confirmed"]


def test_a_contradiction_that_stands_is_reported_next_to_the_fact():
    items = said(4, "new", OLD), said(5, "contradicted", NEXT, OLD, MADE)

    assert told(*items) == [("contradicted", OLD, NEXT)]


def test_of_a_contradiction_and_a_later_confirmation_the_later_one_counts():
    items = said(4, "contradicted", NEXT, OLD, FACT), said(5, "confirmed", OLD, OLD, FACT)

    assert told(*items) == [("confirmed", OLD, OLD)]


def test_a_confirmation_of_the_other_side_leaves_the_contradiction():
    items = said(4, "contradicted", NEXT, OLD, FACT), said(5, "confirmed", NEXT, NEXT, MADE)

    assert told(*items) == [("contradicted", OLD, NEXT)]


def test_two_things_that_one_run_reports_a_fact_are_both_told():
    items = said(4, "changed", NEXT, OLD, FACT), said(4, "changed", LAST, OLD, FACT)

    assert [now for _status, _before, now in told(*items)] == [NEXT, LAST]


def test_what_is_contradicted_stands_before_what_changed_and_is_new():
    items = (
        said(4, "new", OTHER),
        said(4, "changed", NEXT, OLD, FACT),
        said(5, "contradicted", "The plant is closed.", "The plant is open.", uuid4()),
    )

    assert [status for status, *_words in told(*items)] == ["contradicted", "changed", "new"]


def test_a_fact_that_was_purged_is_followed_by_its_words():
    items = said(4, "new", OLD), said(5, "changed", NEXT, OLD)

    assert told(*items) == [("new", "", NEXT)]


# --- whatever the runs said --------------------------------------------------------------------------

# A machine that does much else draws slowly, which isn't an error.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
STATES = ("new", "changed", "contradicted", "confirmed", "gone quiet")
ITEMS = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.sampled_from(STATES),
        st.sampled_from([OLD, NEXT, LAST, OTHER]),
        st.sampled_from([OLD, NEXT, LAST, OTHER]),
    ),
    max_size=12,
)


def _made(rows: list[tuple[int, str, str, str]]) -> list[DeltaItem]:
    """Return items as runs make them: what is new has no words before, what is unchanged the same."""
    made = []
    for run, status, sentence, before in sorted(rows, key=lambda row: row[0]):
        old = "" if status == "new" else before
        words = old if status in ("confirmed", "gone quiet") else sentence
        made.append(said(run, status, words, old))
    return made


@PATIENT
@given(ITEMS)
def test_nothing_is_lost_and_nothing_is_reported_twice(rows: list[tuple[int, str, str, str]]):
    items = _made(rows)

    merged = merge(items)

    assert sum(len(one.items) for one in merged) == len(items)
    listed = [match_key(one.shown.sentence) for one in merged if one.status == "new"]
    assert len(listed) == len(set(listed))


@PATIENT
@given(st.lists(st.sampled_from([OLD, NEXT, LAST, OTHER]), unique=True))
def test_one_run_alone_is_told_as_its_report_shows_it(sentences: list[str]):
    items = [said(4, "new", sentence) for sentence in sentences]

    assert told(*items) == [("new", "", sentence) for sentence in sentences]


@pytest.mark.parametrize(
    ("quote", "shown"),
    [
        ('<h1 class="big">Talks - closed</h1>', ""),  # says no more than the sentence
        ("<p>The call for **talks** is closed.</p>", "“The call for talks is closed.”"),
        ("| Talks | closed in May |", "“Talks · closed in May”"),
    ],
)
def test_a_quote_is_shown_without_markup_if_it_says_more(quote: str, shown: str):
    said = bullet(Change(Status.NEW, "Talks - closed", [1], quote), {1: {"domain": "a.example"}})

    source = f"(a.example: {shown})" if shown else "(a.example)"
    assert said == f"- **New:** Talks - closed [1] {source}"
