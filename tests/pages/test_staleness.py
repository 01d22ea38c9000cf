"""Stale facts have a badge wherever they are shown, and a button to check them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import Topic, TopicFact
from memory.services import topic_memory
from research.models import Run
from tests.api.cast import Program
from tests.pages.topic_cast import make, ran, text_of

pytestmark = pytest.mark.usefixtures("no_broker")


@pytest.fixture
def browser(client: Client, alice: Any) -> Client:
    client.force_login(alice)
    return client


@pytest.fixture
def topic(alice: Any) -> Topic:
    """A topic with a fact checked 94 days ago and one of today."""
    found = make(alice, "Solid-state batteries")
    ran(found, 1)
    in_a_month = timezone.now() + timedelta(days=30)
    Topic.objects.filter(pk=found.pk).update(expires_at=in_a_month)
    for text in ("The pilot line in Graz makes cells.", "The pilot line in Lyon makes cells."):
        TopicFact.objects.add(found, text, by=alice.actor)
    old = TopicFact.objects.filter(text__contains="Graz")
    old.update(confirmed_at=timezone.now() - timedelta(days=94))
    return Topic.objects.get(pk=found.pk)


def facts_page(topic: Topic) -> str:
    return reverse("research:topic-facts", args=[topic.slug])


def fact_of(topic: Topic) -> TopicFact:
    found: TopicFact = TopicFact.objects.get(topic=topic, text__contains="Graz")
    return found


def test_a_stale_fact_says_how_long_ago_it_was_checked(browser: Client, topic: Topic):
    page = text_of(browser.get(facts_page(topic)))

    assert page.count("stale: last checked 94 days ago") == 1
    assert "<b>1 fact is stale.</b>" in page


def test_the_topics_forecast_reports_stale_facts_too(browser: Client, topic: Topic):
    page = text_of(browser.get(reverse("research:topic-forecast", args=[topic.slug]), follow=True))

    assert "<b>1 fact is stale.</b>" in page


def test_recall_tells_it_of_a_hit(browser: Client, topic: Topic):
    page = text_of(browser.get(reverse("memory:recall"), {"q": "pilot line", "why": "1"}))

    assert page.count("stale: last checked 94 days ago") == 1


def test_prompts_are_told_how_old_a_fact_is(topic: Topic):
    memory = topic_memory.load(topic).memory
    assert memory is not None

    again = topic_memory.TopicMemory.from_json(memory.as_json())

    assert "Graz makes cells. (last checked 94 days ago)" in again.as_prompt()
    assert "Lyon makes cells.\n" in again.as_prompt()


@pytest.mark.parametrize("one", [True, False])
def test_a_button_starts_the_recheck_and_shows_it(browser: Client, topic: Topic, one: bool):
    fact = fact_of(topic)
    args = [topic.slug, fact.pk] if one else [topic.slug]
    name = "research:fact-recheck" if one else "research:topic-recheck"

    answer = browser.post(reverse(name, args=args))

    run = Run.objects.get(trigger="recheck")
    assert run.rechecks == [str(fact.pk)]
    assert answer.headers["Location"] == reverse("research:run", args=[topic.slug, run.pk])
    page = text_of(browser.get(answer.headers["Location"]))
    assert "Read sources again" in page


def test_pressed_again_it_shows_the_one_that_is_in_progress(browser: Client, topic: Topic):
    address = reverse("research:topic-recheck", args=[topic.slug])
    browser.post(address)

    page = text_of(browser.post(address, follow=True))

    assert "You can recheck the facts after that." in page
    assert Run.objects.filter(trigger="recheck").count() == 1


def test_with_nothing_stale_it_says_so(browser: Client, topic: Topic):
    TopicFact.objects.update(confirmed_at=timezone.now())

    answer = browser.post(reverse("research:topic-recheck", args=[topic.slug]))

    assert answer.status_code == 409
    assert "None of this topic’s facts are stale" in text_of(answer)


def test_a_stranger_rechecks_nothing(client: Client, bob: Any, topic: Topic):
    client.force_login(bob)
    fact = fact_of(topic)

    for name, args in (("topic", [topic.slug]), ("fact", [topic.slug, fact.pk])):
        assert client.post(reverse(f"research:{name}-recheck", args=args)).status_code == 404
    assert not Run.objects.filter(trigger="recheck").exists()


def test_a_fact_of_another_topic_is_not_there(browser: Client, topic: Topic, alice: Any):
    other = make(alice, "Another")

    address = reverse("research:fact-recheck", args=[other.slug, fact_of(topic).pk])

    assert browser.post(address).status_code == 404


def test_programs_start_one_too(alice: Any, topic: Topic):
    program = Program(alice, "read", "write")

    answer = program.post(f"/topics/{topic.slug}/recheck")

    assert (answer.status_code, answer.json()["trigger"]) == (202, "recheck")
    assert program.post(f"/topics/{topic.slug}/recheck").status_code == 409


def test_programs_are_told_when_a_fact_was_checked(alice: Any, topic: Topic):
    found = Program(alice, "read").get("/recall?q=Graz&type=fact").json()["items"][0]

    assert found["checked_at"] is not None
