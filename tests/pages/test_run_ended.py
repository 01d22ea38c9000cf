"""The advice and buttons on the page of a run that ended without a report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import Topic, User
from research.models import Run, Step
from research.services.runs.search import gathering
from tests.research.factories import make_run, make_steps, make_topic


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice)


def entry(service: str, tries: int, **more: Any) -> dict[str, Any]:
    """Return what the search keeps of a query without an answer."""
    told = {"query": "a", "hits": 0, "ms": 1, "problem": "no route", "may_retry": True}
    return told | {"service": service, "tries": tries, "unreachable": True} | more


def page(client: Client, run: Run) -> str:
    answer = client.get(f"/topics/{run.topic.slug}/runs/{run.pk}/")
    return answer.content.decode()


def test_without_a_network_the_network_is_what_to_look_at(
    alice: User, topic: Topic, client_of: Callable[[Any], Client]
):
    run = make_run(topic, saved=False, status="failed", error="every search failed")
    make_steps(run, done=2, state="failed")
    asked = [entry("wikipedia", 3), entry("arxiv", 3)]
    Step.objects.filter(run=run, name="search").update(output={"asked": asked})

    shown = page(client_of(alice), run)

    assert "Check this machine’s network or proxy, then retry" in shown
    assert "Look at the topic" not in shown


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_an_ended_run_offers_to_run_the_topic_again_unless_it_is_archived(
    alice: User, topic: Topic, client_of: Callable[[Any], Client], status: str
):
    run, act = make_run(topic, saved=False, status=status), f'action="/topics/{topic.slug}/run/"'
    live = page(client_of(alice), run)
    Topic.objects.filter(pk=topic.pk).update(archived_at=timezone.now())

    assert act in live
    assert act not in page(client_of(alice), run)


def test_the_line_of_the_search_counts_as_answered_what_answered():
    answered = entry("arxiv", 1, problem="", hits=4)

    assert gathering._progress_text([entry("brave", 3), entry("brave", 0), answered], 6, 4) == (
        "1 of 6 queries answered, 1 failed, 1 skipped, 4 results"
    )
    assert gathering._progress_text([answered], 6, 1) == "1 of 6 queries answered, 1 result"
