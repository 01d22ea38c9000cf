"""How a run changes facts, and people's changes during the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from memory.models import Topic, TopicFact, Use
from research.models import DeltaItem, Run
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]


def facts_of(topic: Topic) -> list[str]:
    return [fact.text for fact in TopicFact.objects.filter(topic=topic).current()]


def fact(topic: Topic, words: str) -> TopicFact:
    found: TopicFact = TopicFact.objects.filter(topic=topic).current().get(text__contains=words)
    return found


@pytest.mark.requirement("R53")
def test_a_persons_edit_during_the_run_stands_and_the_old_words_do_not_come_back(
    topic: Topic, once: Run
):
    edited = fact(topic, "4,400")
    mine = edited.text.replace("4,400", "5,500")
    with cast.before_step("write", lambda: edited.edit(mine, by=topic.owner.actor)):
        run = cast.carried_out(cast.started(topic))

    assert run.status == "succeeded"
    assert mine in facts_of(topic)
    assert cast.sentence(1) not in facts_of(topic)


@pytest.mark.parametrize("act", ["strike", "trash"])
def test_what_a_person_strikes_or_deletes_during_the_run_does_not_come_back(
    topic: Topic, once: Run, act: str
):
    mine = fact(topic, "4,400")
    with cast.before_step("write", lambda: getattr(mine, act)(by=topic.owner.actor)):
        cast.carried_out(cast.started(topic))

    assert cast.sentence(1) not in facts_of(topic)
    assert cast.sentence(2) in facts_of(topic)


def test_a_fact_written_during_the_run_stands(topic: Topic, once: Run):
    mine = "Written by hand: the plant in Lyon is for sale."
    with cast.before_step(
        "write", lambda: TopicFact.objects.add(topic, mine, by=topic.owner.actor)
    ):
        cast.carried_out(cast.started(topic))

    assert mine in facts_of(topic)


def test_a_run_drops_and_counts_what_was_struck(
    topic: Topic, providers: Providers, once: Run, run_of: RunOf
):
    fact(topic, "4,400").strike(by=topic.owner.actor)
    providers.search = cast.FakeSearch([cast.hit(3)])
    providers.pages.pages = {cast.url(3): cast.page(1)}
    providers.model = cast.model(cast.PLAN, cast.report(1))

    run = run_of(topic)

    assert cast.sentence(1) not in run.report.delta
    assert cast.sentence(1) not in facts_of(topic)
    assert "Dropped 1 finding that repeats what you marked as wrong" in run.warnings
    assert all("Marked by the owner as wrong" in one.prompt for one in providers.model.history)
    assert all(cast.sentence(1) in one.prompt for one in providers.model.history)


def test_a_run_leaves_kept_facts_and_at_most_ten_stand(
    topic: Topic, providers: Providers, run_of: RunOf
):
    kept = [f"Fact number {n} was written down by hand." for n in range(8)]
    for text in kept:
        TopicFact.objects.add(topic, text, by=topic.owner.actor)
    cast.set_up(providers, 1, 2, 3, 4)

    run_of(topic)

    assert facts_of(topic)[:8] == kept
    assert len(facts_of(topic)) == 10


def test_what_was_told_and_found_no_place_among_ten_facts_isnt_news_again(
    topic: Topic, providers: Providers, run_of: RunOf
):
    for n in range(8):
        TopicFact.objects.add(topic, f"Fact number {n} was written by hand.", by=topic.owner.actor)
    cast.set_up(providers, 1, 2, 3, 4)
    run_of(topic)
    providers.search = cast.FakeSearch([cast.hit(n) for n in (11, 12, 13, 14)])
    providers.pages.pages = {cast.url(n + 10): cast.page(n) for n in (1, 2, 3, 4)}

    run = run_of(topic)

    assert run.new_count == 4
    assert not run.delta_items.filter(status="new").exists()
    by = TopicFact.objects.filter(topic=topic).retired()
    assert by.filter(retired_run=1, first_run=1, retired_as="outranked").count() == 6


def test_a_kept_fact_is_marked_confirmed_when_a_run_finds_it_again(
    topic: Topic, providers: Providers, once: Run, run_of: RunOf
):
    mine = fact(topic, "4,400")
    mine.set_lock("read-only", by=topic.owner.actor)
    providers.pages.pages[cast.url(2)] = cast.page(1)

    run = run_of(topic)

    mine.refresh_from_db()
    assert (mine.confirmed_run, mine.state, mine.text) == (2, "current", cast.sentence(1))
    assert DeltaItem.objects.filter(run=run, status="confirmed", previous_fact=mine).exists()


def test_a_kept_fact_that_a_run_contradicts_stays_and_is_marked(
    topic: Topic, providers: Providers, once: Run, run_of: RunOf
):
    mine = fact(topic, "4,400")
    mine.edit(mine.text, by=topic.owner.actor, url="https://mine.example/")
    mine.set_lock("read-only", by=topic.owner.actor)
    providers.pages.pages[cast.url(2)] = cast.page(1).replace("4,400", "9,900")

    run = run_of(topic)

    mine.refresh_from_db()
    item = DeltaItem.objects.get(run=run, status="contradicted")
    assert mine.contradicted_at is not None
    assert mine.text == cast.sentence(1)
    assert (item.previous_fact, item.previous_text) == (mine, mine.text)
    assert "before: " + mine.text in run.report.delta


@pytest.mark.requirement("R19", "R20", "R28")
def test_a_changed_fact_takes_the_place_of_the_old_which_stays_in_the_timeline(
    topic: Topic, providers: Providers, once: Run, run_of: RunOf
):
    later = cast.page(1).replace("4,400 cells in May", "9,900 cells in June")
    providers.pages.pages[cast.url(2)] = later
    # While its own page still says it, the old one would stay.
    del providers.pages.pages[cast.url(1)]

    run_of(topic)

    old = TopicFact.objects.filter(topic=topic).retired().get(text=cast.sentence(1))
    assert (old.retired_run, old.first_run, old.source) == (2, 1, once.source)
    assert old.retired_as == "replaced"
    assert any("9,900" in text for text in facts_of(topic))


def test_of_two_values_for_the_same_time_both_stay_and_the_old_one_is_marked(
    topic: Topic, providers: Providers, once: Run, run_of: RunOf
):
    providers.pages.pages[cast.url(2)] = cast.page(1).replace("4,400", "9,900")

    run = run_of(topic)

    old = fact(topic, "4,400")
    assert old.contradicted_at is not None
    assert fact(topic, "9,900").text == old.text.replace("4,400", "9,900")
    assert DeltaItem.objects.get(run=run, status="contradicted").previous_fact == old


def test_a_change_that_its_source_does_not_show_retires_nothing(
    topic: Topic, providers: Providers, once: Run, run_of: RunOf
):
    false = cast.sentence(1).replace("4,400", "9,900")
    found = [{"sentence": false, "citations": [1], "quote": "These words stand nowhere at all."}]
    providers.model = cast.model(cast.PLAN, cast.report(2, findings=found))

    run = run_of(topic)

    assert cast.sentence(1) in facts_of(topic)
    assert false not in facts_of(topic)
    assert false not in run.report.delta
    assert DeltaItem.objects.get(run=run, sentence=false).hidden_reason.startswith("unsupported")


@pytest.mark.requirement("R23")
def test_a_fact_keeps_the_source_and_the_quote_that_it_was_found_in(topic: Topic, once: Run):
    found = fact(topic, "4,400")

    assert (found.url, found.source_title) == (cast.url(1), "Cells from Lyon")
    assert found.quote == cast.sentence(1)
    assert (found.trust, found.source, found.first_run) == ("external", once.source, 1)


def test_what_a_run_used_of_the_memory_is_noted(topic: Topic, once: Run, run_of: RunOf):
    known = {str(one.pk) for one in TopicFact.objects.filter(topic=topic).current()}

    run = run_of(topic)

    assert {str(use.record_id) for use in Use.objects.filter(place=run.source)} == known
