"""Comparing two runs: the choice of runs, each fact's change, the sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils.html import strip_tags

from memory.models import Conflict, Topic, TopicFact, User
from memory.models.actors import RESEARCH
from memory.services.review import conflicts
from research.models import Report, Run
from research.services.reports import compare
from research.services.reports.compare import Entry
from tests.research import cast
from tests.research.conftest import Providers
from tests.research.factories import (
    make_fact,
    make_item,
    make_report,
    make_run,
    make_source,
    make_topic,
)

RunOf = Callable[[Topic], Run]
YIELD = "The pilot line in Kyoto reached a yield of {} percent."
PRICE = "Cells from the plant in Lyon cost ninety euros per kilowatt hour."
SAFETY = "The fire test in Graz was passed by every cell of the series."


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice, "Solid-state batteries")


def learn(run: Run, text: str) -> TopicFact:
    """Let `run` find a fact, as saving does."""
    return make_fact(run.topic, text, run)


def retire(fact: TopicFact, run: Run) -> None:
    why = f"not among the facts in Run #{run.number}"
    fact.retire(by=RESEARCH, why=why, run=run.number, source=run.source)


def change(run: Run, fact: TopicFact, text: str) -> TopicFact:
    """Let `run` state a fact again with other numbers."""
    made = learn(run, text)
    retire(fact, run)
    make_item(run, "changed", text, previous_fact=fact, previous_text=fact.text)
    return made


def ran(topic: Topic, **report: Any) -> Run:
    run = make_run(topic)
    make_report(run, **report)
    return run


def became(topic: Topic, first: int, last: int) -> dict[str, Entry]:
    """Return what became of each fact, by the words it has in the end."""
    runs = compare.choices_of(topic)
    groups = compare.compare_facts(topic, runs, first, last)
    return {entry.now or entry.before: entry for group in groups for entry in group["entries"]}


def told(entry: Entry) -> list[str]:
    return [strip_tags(line) for line in entry.happened]


# --- facts, chained over several runs --------------------------------------------------------------


def test_a_fact_new_in_one_run_and_changed_in_a_later_one_is_new_with_its_latest_words(
    topic: Topic,
):
    ran(topic)
    fact = learn(second := ran(topic), YIELD.format(40))
    make_item(second, "new", fact.text)
    ran(topic)
    change(ran(topic), fact, YIELD.format(60))

    found = became(topic, 1, 4)

    assert list(found) == [YIELD.format(60)]
    assert found[YIELD.format(60)].kind == "new"
    assert told(found[YIELD.format(60)]) == ["new in Run #2", "changed in Run #4"]


def test_a_fact_new_in_one_run_and_gone_in_a_later_one_came_and_went(topic: Topic):
    ran(topic)
    fact = learn(ran(topic), PRICE)
    retire(fact, ran(topic))

    entry = became(topic, 1, 3)[PRICE]

    assert entry.kind == "passing"
    assert told(entry) == ["new in Run #2", "left out in Run #3"]


def test_a_changed_fact_shows_what_was_known_then_and_now_over_two_changes(topic: Topic):
    fact = learn(ran(topic), YIELD.format(40))
    fact = change(ran(topic), fact, YIELD.format(50))
    change(ran(topic), fact, YIELD.format(60))

    entry = became(topic, 1, 3)[YIELD.format(60)]

    assert (entry.kind, entry.before) == ("changed", YIELD.format(40))
    assert told(entry) == ["changed in Run #2", "changed in Run #3"]


def test_only_the_runs_between_the_two_count(topic: Topic):
    fact = learn(ran(topic), YIELD.format(40))
    fact = change(ran(topic), fact, YIELD.format(50))
    change(ran(topic), fact, YIELD.format(60))

    entry = became(topic, 1, 2)[YIELD.format(50)]

    assert (entry.kind, entry.before) == ("changed", YIELD.format(40))
    assert told(entry) == ["changed in Run #2"]


def test_a_fact_that_a_run_leaves_out_is_gone(topic: Topic):
    fact = learn(ran(topic), PRICE)
    retire(fact, ran(topic))

    entry = became(topic, 1, 2)[PRICE]

    assert (entry.kind, told(entry)) == ("gone", ["left out in Run #2"])


def test_a_fact_has_not_gone_quiet_where_nothing_was_read(topic: Topic):
    learn(ran(topic), PRICE)
    ran(topic)

    assert became(topic, 1, 2)[PRICE].kind == "same"
    assert compare.context(topic, {"from": "1", "to": "2"})["is_alike"]


@pytest.mark.parametrize("status", ["confirmed", "gone quiet"])
def test_a_fact_in_the_same_words_is_confirmed_or_has_gone_quiet(topic: Topic, status: str):
    fact = learn(ran(topic), SAFETY)
    make_item(ran(topic), status, fact.text, previous_fact=fact, previous_text=fact.text)

    entry = became(topic, 1, 2)[SAFETY]

    assert entry.kind == {"confirmed": "confirmed", "gone quiet": "quiet"}[status]
    words = {"confirmed": "confirmed in Run #2", "gone quiet": "not mentioned in Run #2"}
    assert told(entry) == [words[status]]


def test_silence_over_several_runs_is_reported_in_one_line(topic: Topic):
    fact = learn(ran(topic), SAFETY)
    for _run in range(3):
        make_item(ran(topic), "gone quiet", fact.text, previous_fact=fact)

    assert told(became(topic, 1, 4)[SAFETY]) == ["not mentioned from Run #2 to Run #4"]


def test_a_kept_fact_that_a_source_denies_is_contradicted_with_its_words_beside(
    topic: Topic, alice: User
):
    run = ran(topic)
    fact = TopicFact.objects.add(topic, YIELD.format(40), by=alice.actor)
    # Written after Run #1: known to Run #2.
    second = ran(topic)
    third = ran(topic)
    learn(third, YIELD.format(60))
    make_item(third, "contradicted", YIELD.format(60), previous_fact=fact, previous_text=fact.text)

    found = became(topic, second.number or 0, third.number or 0)

    assert list(found) == [YIELD.format(60)] and run.number == 1
    entry = found[YIELD.format(60)]
    assert (entry.kind, entry.before) == ("contradicted", YIELD.format(40))


def test_a_contradiction_decided_for_the_newer_fact_is_a_change(topic: Topic, alice: User):
    old = learn(ran(topic), YIELD.format(40))
    new = learn(second := ran(topic), YIELD.format(60))
    make_item(second, "contradicted", new.text, previous_fact=old, previous_text=old.text)
    pair = Conflict.objects.note(alice, "contradiction", old, new)
    assert pair is not None
    conflicts.resolve(pair, "right", by=alice.actor)
    ran(topic)

    before = became(topic, 1, 2)[YIELD.format(60)]
    assert (before.kind, before.before) == ("contradicted", YIELD.format(40))
    since = became(topic, 1, 3)
    assert [(one.kind, one.before) for one in since.values()] == [("changed", YIELD.format(40))]
    assert told(became(topic, 2, 3)[YIELD.format(40)]) == [
        "replaced after Run #2: the other side of a conflict was kept"
    ]


def test_what_people_did_in_between_is_reported_with_its_place(topic: Topic, alice: User):
    ran(topic)
    fact = TopicFact.objects.add(topic, YIELD.format(40), by=alice.actor)
    fact.edit(YIELD.format(45), by=alice.actor)
    ran(topic)
    fact.strike(by=alice.actor)
    ran(topic)

    assert told(became(topic, 1, 2)[YIELD.format(45)]) == [
        "added by you after Run #1",
        "edited by you after Run #1",
    ]
    gone = became(topic, 2, 3)[YIELD.format(45)]
    assert (gone.kind, told(gone)) == ("gone", ["marked as wrong after Run #2"])


def test_an_edit_after_the_later_run_does_not_change_what_was_known_then(topic: Topic, alice: User):
    ran(topic)
    fact = learn(ran(topic), YIELD.format(40))
    fact.edit(YIELD.format(99), by=alice.actor)

    assert YIELD.format(40) in became(topic, 1, 2)


def test_what_was_deleted_since_was_known_all_the_same(topic: Topic, alice: User):
    ran(topic)
    fact = learn(ran(topic), PRICE)
    fact.trash(by=alice.actor)
    ran(topic)

    assert became(topic, 1, 2)[PRICE].kind == "new"
    assert became(topic, 1, 3)[PRICE].kind == "passing"


def test_what_a_report_listed_and_no_fact_kept_is_new_and_says_so(topic: Topic):
    ran(topic)
    make_item(ran(topic), "new", "The eleventh finding of a run that keeps ten facts.")

    (entry,) = became(topic, 1, 2).values()

    assert entry.kind == "new" and told(entry) == ["listed in Run #2 but not kept as a fact"]


def test_what_was_withheld_isnt_a_fact(topic: Topic):
    ran(topic)
    make_item(ran(topic), "new", "It is the fastest of all.", hidden_reason="unsupported: no quote")

    assert became(topic, 1, 2) == {}


@pytest.mark.django_db
def test_real_runs_are_compared_as_they_were_saved(
    alice: User, providers: Providers, run_of: RunOf
):
    topic = make_topic(alice, "Solid-state batteries in pilot lines")
    cast.set_up(providers, 1, 2)
    run_of(topic)
    cast.set_up(providers, 2, 3)
    run_of(topic)

    found = became(topic, 1, 2)

    kinds = {text: entry.kind for text, entry in found.items()}
    known = TopicFact.objects.filter(topic=topic).current().values_list("text", flat=True)
    new = TopicFact.objects.filter(topic=topic, first_run=2).values_list("text", flat=True)
    assert set(known) <= set(kinds)
    assert {text for text, kind in kinds.items() if kind == "new"} >= set(new) and new


# --- which two ----------------------------------------------------------------------------------------


def pair_of(topic: Topic, **query: str) -> tuple[int, int] | None:
    pair = compare.chosen(compare.choices_of(topic), query)
    return (pair.two[0].number, pair.two[1].number) if pair.two else None


def test_without_a_wish_the_last_read_report_stands_against_the_latest(topic: Topic):
    for is_read in (True, True, False, False):
        run = ran(topic)
        if is_read:
            run.report.mark_read()

    assert pair_of(topic) == (2, 4)


@pytest.mark.parametrize("read", [[], [3]])
def test_where_none_or_the_latest_was_read_the_last_two_are_compared(topic: Topic, read: list[int]):
    for _run in range(3):
        ran(topic)
    Report.objects.filter(run__number__in=read).update(read_at="2026-11-20T00:00Z")

    assert pair_of(topic) == (2, 3)


@pytest.mark.parametrize(
    ("query", "pair"),
    [
        ({"from": "1"}, (1, 3)),
        ({"from": "3"}, (3, 2)),
        ({"to": "2"}, (1, 2)),
        ({"to": "1"}, (2, 1)),
        ({"from": "3", "to": "1"}, (3, 1)),
        ({"from": "#1", "to": "2"}, (1, 2)),
        ({"from": "99", "to": "2"}, None),
        ({"from": "two", "to": "2"}, None),
        ({"from": "1", "to": "1"}, None),
        ({"from": "²", "to": "1"}, None),
    ],
)
def test_what_is_requested_is_compared_as_asked(
    topic: Topic, query: dict[str, str], pair: tuple[int, int] | None
):
    for _run in range(3):
        ran(topic)

    assert pair_of(topic, **query) == pair


def test_failed_runs_are_not_offered(topic: Topic):
    ran(topic)
    make_run(topic, saved=False, status="failed")
    ran(topic)

    assert [choice.number for choice in compare.choices_of(topic)] == [1, 2]


# --- sources and settings -----------------------------------------------------------------------------


def test_sources_are_told_by_address_though_their_numbers_differ(topic: Topic):
    ran(topic, sources=[make_source(1, "Both"), make_source(2, "Old")])
    ran(topic, sources=[make_source(3, "New"), make_source(1, "Both") | {"n": 7}])
    old, new = Report.objects.order_by("run__number")

    found = compare.compare_sources(topic, old, new)

    (both,) = found["both"]
    assert (both["title"], both["old"], both["new"]) == ("Both", 1, 7)
    assert [one["title"] for one in found["only_old"]] == ["Old"]
    assert [one["title"] for one in found["only_new"]] == ["New"]


def test_settings_that_differed_are_told_in_words(topic: Topic):
    asked = topic.settings.as_json()
    for services, style in ((["brave"], "standard"), (["brave", "arxiv"], "memo")):
        run = ran(topic)
        changed = asked | {"services": services, "report_style": style}
        Run.objects.filter(pk=run.pk).update(settings=changed)
    old, new = Report.objects.select_related("run").order_by("run__number")

    rows = {
        label: (before, after)
        for label, before, after in compare.compare_sources(topic, old, new)["settings"]
    }

    assert rows == {
        "Services": ("Brave", "Brave, arXiv"),
        "Report style": ("standard", "memo"),
    }


def test_another_writer_is_a_difference(topic: Topic):
    ran(topic)
    ran(topic, written_by="a-model", is_extractive=False)
    old, new = Report.objects.select_related("run").order_by("run__number")

    (row,) = compare.compare_sources(topic, old, new)["settings"]

    assert row == ("Written by", "no model", "a-model")


def test_the_services_and_the_plan_of_two_runs_are_reported_as_people_call_them(topic: Topic):
    for by, services in (("facets", ["brave"]), ("rerun", ["brave", "arxiv"])):
        run = ran(topic)
        Run.objects.filter(pk=run.pk).update(manifest={"planned_by": by, "services": services})
    old, new = Report.objects.select_related("run").order_by("run__number")

    rows = compare.compare_sources(topic, old, new)["settings"]

    assert rows == [
        ("Plan", "planned from templates", "copied from the original run"),
        ("Services searched", "Brave", "Brave, arXiv"),
    ]
