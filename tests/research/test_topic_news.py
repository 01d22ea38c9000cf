"""The counts of unread reports in lists, and when they are updated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memory.models import Topic, User
from research.models import DeltaItem, Report, Run, TopicNews
from research.services.reports import since_read
from research.services.reports.since_read import TopicSummary
from tests.research.factories import make_fact, make_item, make_report, make_run, make_topic

Act = Callable[[Topic], object]


@pytest.fixture
def topic(alice: User) -> Topic:
    """Three reports, of which the first was read; the last run found a fact and changed one."""
    topic = make_topic(alice, "Solid-state batteries")
    runs = [make_run(topic) for _number in range(3)]
    for run in runs:
        make_report(run)
    runs[0].report.mark_read()
    make_item(runs[2], "new", "The test in Graz was passed.")
    make_item(runs[2], "changed", "Cells cost eighty euros.", previous_text="Cells cost ninety.")
    return topic


def rows(topic: Topic) -> list[TopicNews]:
    return list(TopicNews.objects.filter(topic=topic))


def told(topic: Topic) -> TopicSummary:
    return since_read.summary_for_lists(rows(topic))[topic.pk]


def last(topic: Topic) -> Run:
    return Run.objects.get(topic=topic, number=3)


def test_it_shows_what_the_deltas_tell(topic: Topic):
    found = told(topic)

    assert found.words == "1 new fact since you last read, 1 changed"
    assert (found.unread, found.run_range, found.is_several) == (2, "Runs #2 to #3", True)
    assert found.newest == last(topic).pk


def test_a_second_look_reads_one_row(
    topic: Topic, django_assert_num_queries: DjangoAssertNumQueries
):
    first = told(topic)

    with django_assert_num_queries(1):
        assert told(topic) == first


CHANGES: dict[str, Act] = {
    "a report is read": lambda topic: last(topic).report.mark_read(),
    "one is put back": lambda topic: Report.objects.get(run__number=1).mark_unread(),
    "an item comes": lambda topic: make_item(last(topic), "new", "A third plant opens."),
    "one is withheld": lambda topic: DeltaItem.objects.update(hidden_reason="nobody asked"),
    "one says something else": lambda topic: DeltaItem.objects.update(sentence="It is over."),
    "one goes": lambda topic: DeltaItem.objects.filter(status="new").delete(),
    "a report is removed": lambda topic: last(topic).report.trash(by=topic.owner.actor),
    "a report comes": lambda topic: make_report(make_run(topic)),
    "a run begins anew": lambda topic: Run.objects.filter(number=3).update(is_baseline=True),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_counted_again_when(topic: Topic, change: str):
    before = told(topic)
    CHANGES[change](topic)

    news = since_read.news_of([topic.pk])[topic.pk]
    assert [row.is_stale for row in rows(topic)] == [True]
    sources = dict(Report.objects.values_list("run_id", "sources"))
    assert told(topic) == TopicSummary.of(news, sources) != before


def test_what_lists_do_not_tell_counts_nothing_again(topic: Topic):
    told(topic)
    Run.objects.filter(topic=topic).update(progress=7)
    Report.objects.filter(run__topic=topic).update(summary="In short.")
    DeltaItem.objects.update(quote="Other words.")
    make_fact(topic, "It is known.")

    assert [row.is_stale for row in rows(topic)] == [False]


def test_what_changes_while_it_is_counted_is_not_missed(topic: Topic):
    seen = rows(topic)
    make_item(last(topic), "new", "A third plant opens.")
    since_read.count(seen)

    assert [row.is_stale for row in rows(topic)] == [True]
    assert told(topic).new == 2


def test_what_another_version_counted_is_counted_again(topic: Topic):
    first = told(topic)
    TopicNews.objects.update(counts={"unread": 9, "mood": "good"})

    assert told(topic) == first


def test_the_tick_counts_what_is_stale(topic: Topic, alice: User):
    make_report(make_run(make_topic(alice, "Sodium cells")))

    assert since_read.catch_up() == 2
    assert since_read.catch_up() == 0


def test_a_topic_that_is_deleted_permanently_leaves_nothing(topic: Topic, alice: User):
    item = DeltaItem.objects.get(status="changed")
    item.previous_fact = make_fact(topic, "Cells cost ninety.", last(topic))
    item.save()
    topic.trash(by=alice.actor)
    topic.purge(by=alice.actor)

    assert not TopicNews.objects.exists()


def test_a_topic_that_was_all_read_says_when(topic: Topic):
    at = timezone.now()
    Report.objects.filter(run__topic=topic).update(read_at=at)

    assert (told(topic).unread, told(topic).read_at) == (0, at)


def test_of_many_stale_topics_only_the_newest_are_told_whole(
    alice: User, django_assert_max_num_queries: DjangoAssertNumQueries
):
    topics = [make_topic(alice, f"Topic {number}") for number in range(4)]
    for topic in topics:
        make_item(make_report(make_run(topic)).run, "new", "A plant opens.")
        make_report(make_run(topic))

    with django_assert_max_num_queries(6):
        found = since_read.summary_for_lists(TopicNews.objects.for_user(alice), newest=2)

    assert [found[topic.pk].runs for topic in topics] == [0, 0, 2, 2]
    assert {one.unread for one in found.values()} == {2}
    assert [row.is_stale for row in TopicNews.objects.order_by("topic__created")] == [
        True, True, False, False,
    ]  # fmt: skip


def test_home_reads_of_many_topics_those_with_the_newest_reports_and_the_stale(
    alice: User, bob: User
):
    topics = [make_topic(alice, f"Topic {number}") for number in range(5)]
    for one in topics:
        make_report(make_run(one))
    Report.objects.get(run__topic=topics[4]).mark_read()
    make_report(make_run(make_topic(bob, "Another's")))
    since_read.catch_up()
    make_report(make_run(topics[0]))

    found = since_read.topics_with_news(alice, 2)

    at = Report.objects.get(run__topic=topics[4]).read_at
    assert at is not None
    assert {row.topic_id for row in found} == {topics[number].pk for number in (0, 2, 3)}
    assert {row.last_read for row in found} == {at.isoformat()}
