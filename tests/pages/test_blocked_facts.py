"""A fact that only a blocked source supports says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.models import Topic
from research.models import Run
from research.services.sources import figures as source_rules
from tests.pages.topic_cast import text_of
from tests.research.factories import make_fact, make_hit, make_item, make_run, make_topic

FACTS = "/topics/postgresql-releases/facts/"
TAG = "only source is blocked"


@pytest.fixture
def browser(client_of: Callable[[Any], Client], alice: Any) -> Client:
    return client_of(alice)


@pytest.fixture
def topic(alice: Any) -> Topic:
    return make_topic(alice)


@pytest.fixture
def run(topic: Topic) -> Run:
    return make_run(topic)


def block(topic: Topic, scope: str = "topic") -> None:
    by = topic.owner.actor
    source_rules.set_rule(topic, "spam.example", "block", scope=scope, by=by)


@pytest.mark.parametrize("scope", ["topic", "all"])
def test_it_is_said_of_a_fact_from_a_blocked_source(
    browser: Client, topic: Topic, run: Run, scope: str
):
    make_fact(topic, "It came in May.", run, url="https://www.spam.example/a")
    assert TAG not in text_of(browser.get(FACTS))
    block(topic, scope)

    assert TAG in text_of(browser.get(FACTS))


def test_it_is_not_said_where_another_source_confirmed_it(browser: Client, topic: Topic, run: Run):
    fact = make_fact(topic, "It came in May.", run, url="https://spam.example/a")
    second = make_run(topic)
    make_hit(second, 1, cited_as=1)
    make_item(second, "confirmed", fact.text, previous_fact=fact, citations=[1])
    block(topic)

    assert TAG not in text_of(browser.get(FACTS))


def test_it_is_not_said_of_what_a_person_wrote(browser: Client, topic: Topic, run: Run):
    make_fact(topic, "Mine.", run, url="https://spam.example/a", edited_by_person=True)
    block(topic)

    assert TAG not in text_of(browser.get(FACTS))
