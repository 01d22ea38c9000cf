"""Topics in Trash: restored with all they had, or deleted permanently by the typed name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from memory.models import Activity, Revision, Topic, TopicFact
from research.models import Report, Run
from tests.research.factories import (
    make_second_run,
    make_topic,
)

HTMX = {"HX-Request": "true"}
HOME = "/topics/postgresql-releases/"


def body_of(browser: Client, path: str, **more: Any) -> str:
    response = browser.get(path, **more)
    assert response.status_code == 200
    return response.content.decode()


# --- the trash -----------------------------------------------------------------------------------

TRASH = "/trash/?type=topic"


@pytest.fixture
def trashed(topic: Topic) -> Topic:
    """Alice's topic with two runs, in Trash."""
    make_second_run(topic)
    topic.trash(by=topic.owner.actor)
    return topic


def test_the_trash_lists_topics_with_their_last_day(browser: Client, trashed: Topic):
    body = body_of(browser, TRASH)

    assert "PostgreSQL releases" in body
    assert "2 runs" in body
    assert "kept until" in body


def test_an_empty_trash_says_what_it_is_for(browser: Client):
    assert "Trash is empty" in body_of(browser, TRASH)


def test_a_topic_is_restored_with_all_it_had(browser: Client, trashed: Topic):
    browser.post(f"/records/topic/{trashed.pk}/restore/")

    assert f'href="/topics/{trashed.slug}/"' in body_of(browser, HOME)


@pytest.mark.requirement("R60", "R232")
def test_a_purge_needs_the_typed_name(browser: Client, trashed: Topic):
    purge = f"/topics/{trashed.pk}/purge/"

    wrong = browser.post(purge, {"name": "postgres"}).content.decode()
    assert "That doesn’t match" in wrong
    assert 'value="postgres"' in wrong
    assert Topic.objects.count() == 1

    browser.post(purge, {"name": " PostgreSQL  releases "})
    assert Topic.objects.count() == 0


def test_over_htmx_a_wrong_name_comes_back_in_the_form(browser: Client, trashed: Topic):
    response = browser.post(f"/topics/{trashed.pk}/purge/", {"name": "x"}, headers=HTMX)

    assert response.content.decode().lstrip().startswith('<form id="topic_purge"')


def test_a_purge_leaves_nothing_of_it_but_a_line_without_its_words(browser: Client, trashed: Topic):
    browser.post(f"/topics/{trashed.pk}/purge/", {"name": "PostgreSQL releases"})

    assert [model.objects.count() for model in (Run, Report, TopicFact)] == [0, 0, 0]
    assert set(Revision.objects.values_list("actor", flat=True)) == {"system"}  # the first notes
    assert Activity.objects.get(kind="purged").label == "topic"


def test_a_topic_that_is_not_in_the_trash_cannot_be_purged(browser: Client, topic: Topic):
    response = browser.post(f"/topics/{topic.pk}/purge/", {"name": "PostgreSQL releases"})

    assert response.status_code == 404
    assert Topic.objects.count() == 1


@pytest.mark.requirement("R232")
def test_a_stranger_neither_sees_nor_purges_what_is_in_the_trash(
    trashed: Topic, bob: Any, client_of: Callable[[Any], Client]
):
    stranger = client_of(bob)

    assert "PostgreSQL" not in body_of(stranger, TRASH)
    response = stranger.post(f"/topics/{trashed.pk}/purge/", {"name": "PostgreSQL releases"})
    assert response.status_code == 404
    assert Topic.objects.count() == 1


def test_a_topic_named_like_a_page_is_reached(browser: Client, alice: Any):
    named_so = make_topic(alice, "Trash")

    assert "No report yet" in body_of(browser, f"/topics/{named_so.slug}/")


def test_the_trash_is_read_in_a_fixed_number_of_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: DjangoAssertNumQueries
):
    for number in range(12):
        make_topic(alice, f"Topic {number}").trash(by=alice.actor)

    with django_assert_max_num_queries(9):
        browser.get(TRASH)
