"""Comparing findings with facts: new, confirmed, changed, contradicted, not mentioned."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from django.utils.formats import date_format

from memory.services.topic_memory import KnownFact
from research.claims.matching import is_same_subject
from research.models import Schedule
from research.services.runs.reporting.delta import Change, Statement, compare, heading, since_line
from research.services.runs.reporting.merged_deltas import as_markdown

# Values that hold now: another one is a change.  That of a day gone by would be contradicted.
OLD = "The pilot line in Kyoto makes 12,000 cells a month."
PAST = "The pilot line in Kyoto made 12,000 cells in May 2026."
OTHER = "The maker of the cells moved its head office to Geneva in March."

SAFETY = "The fire test in Graz has been passed by 9 of the cells in the series."


def fact(text: str, key: str = "1", *, kept: bool = False) -> KnownFact:
    return KnownFact(key, text, is_kept=kept)


def statuses(changes: list[Change]) -> list[str]:
    return [change.status for change in changes]


@pytest.mark.requirement("R41")
@pytest.mark.parametrize(
    ("found", "kept", "status"),
    [
        (OTHER, False, ["new"]),
        (OLD, False, ["confirmed"]),
        (OLD + " [3]", False, ["confirmed"]),
        (OLD.replace("12,000", "15,000"), False, ["changed"]),
        (OLD.replace("12,000", "15,000"), True, ["contradicted"]),
    ],
)
def test_a_finding_is_held_against_the_fact_it_speaks_of(found: str, kept: bool, status: list[str]):
    changes, dropped = compare([Statement(found, (1,))], [fact(OLD, kept=kept)])

    assert (statuses(changes), dropped) == (status, 0)


@pytest.mark.requirement("R41")
def test_a_source_that_shows_another_value_for_the_same_time_contradicts_and_both_stay():
    found = Statement(PAST.replace("12,000", "15,000"), (1,))

    changes, _dropped = compare([found], [fact(PAST)])

    assert statuses(changes) == ["contradicted"]
    assert (changes[0].previous_id, changes[0].previous_text) == ("1", PAST)


def test_what_two_sources_tell_as_new_is_reported_once_and_cites_both():
    again = OTHER.replace("moved its head office", "has moved its head office")

    changes, _dropped = compare([Statement(OTHER, (1,)), Statement(again, (2,))], [fact(OLD)])

    assert statuses(changes) == ["new"]
    assert changes[0].citations == [1, 2]


def test_a_question_is_withheld_and_says_why():
    changes, _dropped = compare([Statement("Who of you would like to work in Kyoto?")], [])

    assert "not a fact" in changes[0].hidden_reason
    assert not changes[0].is_listed


def test_a_change_names_the_fact_that_it_is_held_against():
    found = Statement(OLD.replace("12,000", "15,000"), (2,), "the quote")

    change = compare([found], [fact(OLD)])[0][0]

    assert (change.previous_id, change.previous_text) == ("1", OLD)
    assert (change.citations, change.quote) == ([2], "the quote")


@pytest.mark.requirement("R41")
def test_what_is_in_the_timeline_is_not_new_again():
    changes, _dropped = compare([Statement(OLD)], [], retired=[fact(OLD, "9")])

    assert statuses(changes) == ["confirmed"]
    assert not changes[0].is_listed


def test_what_differs_from_something_long_superseded_is_simply_new():
    found = [Statement(OLD.replace("12,000", "15,000"))]

    changes, _dropped = compare(found, [], retired=[fact(OLD, "9")])

    assert (statuses(changes), changes[0].previous_id) == (["new"], "")


def test_what_was_struck_is_dropped_and_counted():
    changes, dropped = compare([Statement(OLD), Statement(OTHER)], [], struck=[OLD.upper()])

    assert (statuses(changes), dropped) == (["new"], 1)


def test_a_finding_said_twice_counts_once():
    again = [Statement(OTHER), Statement(f"**{OTHER}** [2]"), Statement(OLD), Statement(OLD[:-1])]

    changes, _dropped = compare(again, [fact(OLD)])

    assert statuses(changes) == ["new", "confirmed"]


def test_listed_kinds_come_first():
    found = [Statement(OLD), Statement(OTHER), Statement(SAFETY.replace("9", "11"))]
    facts = [fact(OLD), fact("Nobody speaks of this any more.", "2"), fact(SAFETY, "3")]

    changes, _dropped = compare(found, facts)

    assert statuses(changes) == ["changed", "new", "confirmed"]


@pytest.mark.parametrize(("kept", "status"), [(False, "changed"), (True, "contradicted")])
@pytest.mark.parametrize("newer_comes", ["first", "last"])
def test_a_fact_that_one_source_confirms_and_another_changes_is_changed(
    newer_comes: str, kept: bool, status: str
):
    found = [Statement(OLD), Statement(OLD.replace("12,000", "15,000"))]

    changes, _dropped = compare(
        found if newer_comes == "last" else found[::-1], [fact(OLD, kept=kept)]
    )

    assert statuses(changes) == [status]


@pytest.mark.requirement("R41")
def test_the_section_lists_new_changed_and_contradicted_alone():
    kinds = ["new", "changed", "contradicted", "confirmed", "gone quiet"]
    changes = [Change(kind, f"It is {kind}.", [1, 2], previous_text="as it was") for kind in kinds]
    changes.append(Change("new", "It is withheld.", hidden_reason="unsupported"))

    section = as_markdown(changes, quiet="nothing")

    assert section == (
        "- **New:** It is new. [1][2]\n"
        "- **Changed:** It is changed. [1][2]\n  before: as it was\n"
        "- **Contradicted:** It is contradicted. [1][2]\n  before: as it was"
    )


@pytest.mark.requirement("R42")
def test_a_section_without_a_listed_change_is_the_plain_sentence():
    changes = [Change("confirmed", OLD), Change("new", OTHER, hidden_reason="unsupported")]

    assert as_markdown(changes, quiet="Nothing new.") == "Nothing new."


def test_a_change_without_a_citation_ends_with_its_sentence():
    assert as_markdown([Change("new", OTHER)], quiet="") == f"- **New:** {OTHER}"


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=5), "less than a minute"),
        (timedelta(hours=2, minutes=10), "2 hours"),
        (timedelta(days=3, hours=1), "3 days"),
    ],
)
def test_the_line_below_the_heading_says_how_long_ago_the_last_run_was(ago: timedelta, words: str):
    then = timezone.now() - ago
    date = date_format(timezone.localtime(then), "j F Y")
    assert since_line(then, 4) == f"since Run #4, {words} earlier ({date})"


def test_without_a_date_the_line_below_the_heading_names_the_run():
    assert since_line(None, 4) == "since Run #4"


@pytest.mark.requirement("R39")
def test_a_topic_without_a_schedule_has_the_seeds_heading():
    assert heading(None, 3) == "What Changed Since Last Week"
    assert heading(Schedule(preset="weekdays"), 3) == "What Changed Since Run #3"


# Reported by the sample's runs once, when words were compared without vectors: Contradicted or Changed.
@pytest.mark.parametrize(
    ("sentence", "known"),
    [
        (
            "CVE-2025-1094 is a flaw in the quoting functions of libpq, fixed on 13 February 2025 in 17.3.",
            "The latest minor releases of PostgreSQL are 16.4, 15.8 and 14.13, published on 8 August 2024.",
        ),
        (
            "The version had appeared on 24 September 2020 and was supported for five years.",
            "Version 17 will be supported until 8 November 2029.",
        ),
        (
            "PostgreSQL 13 reached its end of life on 13 November 2025, with 13.23 as its last minor release.",
            "The latest minor releases of PostgreSQL are 17.6, 16.10 and 15.14, published on 14 August 2025.",
        ),
        (
            "Operators who plan an upgrade to PostgreSQL 17 should look for settings and modules that no longer exist.",
            "PostgreSQL 17 is available as Release Candidate 1 since 5 September 2024, and the final release is planned for 26 September 2024.",
        ),
        (
            "PostgreSQL 17 no longer supports AIX since its preview, and an upgrade is forced on 2029-12-05.",
            "Versions, PostgreSQL 17: Status Preview; Forced upgrade 2029-12-04",
        ),
    ],
)  # fmt: skip
def test_a_sentence_about_something_else_does_not_change_a_fact(sentence: str, known: str):
    assert not is_same_subject(sentence, known)


@pytest.mark.parametrize(
    ("sentence", "known"),
    [
        (
            "PostgreSQL 12 reached its end of life on 21 November 2024, with 12.22 as its last release.",
            "PostgreSQL 12 is scheduled to reach its end of life on 14 November 2024.",
        ),
        ("Versions, 17: Forced upgrade 2029-12-05", "Versions, 17: Forced upgrade 2029-12-04"),
        (
            "Ledger Lab repeated its question about versions in June 2025, and 240 readers answered.",
            "Ledger Lab asked its readers in July 2024 which version they use, and 212 answered.",
        ),
    ],
)
def test_a_sentence_about_the_same_thing_can_change_a_fact(sentence: str, known: str):
    assert is_same_subject(sentence, known)
