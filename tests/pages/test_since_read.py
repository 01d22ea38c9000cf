"""Since you last read: several unread reports as one delta, and their read marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import Topic, User
from memory.models.actors import RESEARCH
from research.models import DigestSettings, Report, Run
from research.pages import digests as pages_digests
from research.services.notifications import digests
from research.services.reports import since_read
from tests.research.factories import make_fact, make_item, make_report, make_run, make_topic
from tests.undo import undo_in, undone

OLD = "Cells from the plant cost ninety euros per kilowatt hour."
NOW = "Cells from the plant cost eighty euros per kilowatt hour."
NEWS = "The fire test in Graz was passed by every cell of the series."
FETCH = {"X-Requested-With": "fetch"}


@pytest.fixture
def topic(alice: User) -> Topic:
    """Four reports: #1 was read; #2 found a fact, #3 changed it, #4 found another."""
    topic = make_topic(alice, "Solid-state batteries")
    runs = [make_run(topic) for _number in range(4)]
    reports = [make_report(run) for run in runs]
    reports[0].mark_read()
    fact = make_fact(topic, OLD, runs[1])
    make_item(runs[1], "new", OLD, citations=[1])
    make_item(runs[2], "changed", NOW, previous_fact=fact, previous_text=OLD, citations=[2])
    make_item(runs[3], "new", NEWS, citations=[1])
    make_item(runs[3], "new", "It is the best of all.", hidden_reason="not what was asked for")
    return topic


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def url(name: str, topic: Topic, *more: Any) -> str:
    return reverse(f"research:{name}", args=[topic.slug, *more])


def read(topic: Topic) -> list[int]:
    reports = Report.objects.filter(run__topic=topic).exclude(read_at=None)
    return sorted(reports.values_list("run__number", flat=True))


# --- marking --------------------------------------------------------------------------------------


def test_opening_the_page_changes_nothing_by_itself(browser: Client, topic: Topic):
    shown = browser.get(url("topic", topic)).content.decode()

    assert f'data-mark-read="{url("topic-read", topic)}?upto=4"' in shown
    assert read(topic) == [1]


def test_the_page_marks_what_it_showed_and_not_what_came_since(browser: Client, topic: Topic):
    make_report(make_run(topic))

    answer = browser.post(url("topic-read", topic) + "?upto=4", headers=FETCH)

    assert answer.status_code == 204
    assert read(topic) == [1, 2, 3, 4]


def test_marking_a_topic_read_can_be_undone(browser: Client, topic: Topic):
    shown = browser.post(url("topic-read", topic), follow=True).content.decode()
    assert read(topic) == [1, 2, 3, 4] and "3 reports marked as read." in shown

    undone(browser, shown)

    assert read(topic) == [1]


def test_marking_unread_gives_back_on_undo_when_each_was_read(browser: Client, topic: Topic):
    before = Report.objects.get(run__topic=topic, run__number=1).read_at
    shown = browser.post(url("topic-unread", topic), {"first": "1", "last": "4"}, follow=True)
    assert read(topic) == []

    undone(browser, shown)

    assert Report.objects.get(run__topic=topic, run__number=1).read_at == before


def test_without_numbers_the_latest_report_is_put_back(browser: Client, topic: Topic):
    browser.post(url("topic-read", topic))

    browser.post(url("topic-unread", topic))

    assert read(topic) == [1, 2, 3]


def test_what_is_unread_already_is_said_to_be(browser: Client, topic: Topic):
    answer = browser.post(url("topic-unread", topic), follow=True)

    assert "These reports are already unread." in answer.content.decode()


@pytest.mark.parametrize("upto", ["", "x", "٣", "-1", "9" * 30, "%00"])
def test_a_number_that_is_none_is_left_out(browser: Client, topic: Topic, upto: str):
    assert browser.post(url("topic-read", topic) + f"?upto={upto}").status_code == 302


def test_a_stranger_marks_nothing(topic: Topic, bob: User, client_of: Callable[[Any], Client]):
    stranger = client_of(bob)

    assert stranger.post(url("topic-read", topic)).status_code == 404
    assert stranger.post(url("topic-unread", topic), {"first": 1, "last": 4}).status_code == 404
    assert read(topic) == [1]


def test_reports_that_were_marked_again_stay(browser: Client, topic: Topic):
    shown = browser.post(url("topic-unread", topic), {"first": "1", "last": "4"}, follow=True)
    browser.post(url("topic-read", topic))

    assert undone(browser, shown).status_code == 409
    assert read(topic) == [1, 2, 3, 4]


# --- the lists ---------------------------------------------------------------------------------------


def test_topics_say_what_is_new_since_they_were_read(browser: Client, topic: Topic):
    page = browser.get("/topics/").content.decode()

    assert "2 new facts since you last read" in page and "+ 2<span" in page
    assert '<tr class="unread">' in page


def test_home_shows_a_topic_once_however_many_reports_came(browser: Client, topic: Topic):
    page = browser.get("/").content.decode()

    assert page.count('<li class="unread home-topic') == 1
    assert "Runs #2 to #4" in page and f'href="{url("topic", topic)}" data-row-link' in page


def test_selected_topics_are_marked_read_with_undo(browser: Client, topic: Topic):
    sent = {"act": "read", "topic": topic.slug}
    page = browser.post("/topics/bulk/", sent, follow=True).content.decode()

    assert read(topic) == [1, 2, 3, 4] and undo_in(page)


def test_the_sentence_names_what_there_is(topic: Topic):
    run = Run.objects.get(topic=topic, number=4)
    fact = make_fact(topic, "The plant in Lyon is open.", run, source="run:1")
    make_item(
        run, "changed", "The plant in Lyon shut.", previous_fact=fact, previous_text=fact.text
    )
    fact.retire(by=RESEARCH, why="gone", run=4)

    news = since_read.news_of([topic.pk])[topic.pk]

    assert news.words == "2 new facts since you last read, 1 changed"


# --- elsewhere ---------------------------------------------------------------------------------------


def test_the_newest_entry_of_a_feed_shows_the_unread_reports_as_one(
    browser: Client, topic: Topic, alice: User
):
    feed = pages_digests.add(alice, topic=None, include_private=False, by=alice.actor)
    path = feed.address.partition("//")[2].partition("/")[2]
    first = browser.get(f"/{path}")
    entries = first.content.decode().split("<entry>")[1:]
    assert "Since you last read (Run #1" in entries[0] and NOW in entries[0]
    assert all("Since you last read" not in one for one in entries[1:])

    browser.post(url("topic-read", topic))
    again = browser.get(f"/{path}", headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 200
    assert "Since you last read" not in again.content.decode()


def test_a_digest_shows_each_fact_once_as_it_is_now(topic: Topic, alice: User):
    digest = digests.make(DigestSettings(owner=alice, frequency="daily"), timezone.now())
    assert digest is not None

    [part] = digests.content(digest).parts

    told = [(item.status, item.sentence) for item in part.items]
    assert sorted(told) == sorted([("new", NOW), ("new", NEWS)])
    assert part.filtered_out == 1
