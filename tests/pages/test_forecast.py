"""What a run will cost, as the topic's pages and API say."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from beacon_site.providers.llm.base import LlmProfile
from memory.models import Activity, ModelCall, Topic
from memory.services.llm.asking import MonthLimits
from research.models import Run, TopicSettings
from research.services.budgets import budget as budget_warnings
from research.services.topics.topic_form import initial_of
from tests.api.cast import Program
from tests.pages.topic_cast import make, ran, text_of

HTMX = {"HX-Request": "true"}


@pytest.fixture
def browser(client: Client, alice: Any) -> Client:
    client.force_login(alice)
    return client


@pytest.fixture
def topic(alice: Any, monkeypatch: pytest.MonkeyPatch) -> Topic:
    """A topic that has spent 850 of the 1,000 tokens of its month."""
    profile = LlmProfile("http://m", "m")
    monkeypatch.setattr("memory.services.llm.connections.llm_profile", lambda: profile)
    found = make(alice, "Solid-state batteries")
    TopicSettings.objects.filter(topic=found).update(month_tokens=1_000)
    ModelCall.objects.create(
        owner=alice, topic=found, purpose="x", source="run:1", prompt_tokens=850, money=None
    )
    return Topic.objects.get(pk=found.pk)


def address(topic: Topic) -> str:
    return reverse("research:topic-forecast", args=[topic.slug])


def test_the_next_runs_tab_fetches_it_and_links_to_it_without_javascript(
    browser: Client, topic: Topic
):
    page = text_of(browser.get(reverse("research:topic-memory", args=[topic.slug])))

    assert f'hx-get="{address(topic)}" hx-trigger="load"' in page
    assert f'<a href="{address(topic)}">Show estimate</a>' in page


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_it_says_what_it_rests_on_and_what_the_month_has_left(
    browser: Client, topic: Topic, headers: dict[str, str]
):
    page = text_of(browser.get(address(topic), headers=headers, follow=True))

    assert "Price unknown, 3,600–19,000 tokens" in page
    assert "you haven’t run one yet" in page
    assert "Tokens this month: 850 of 1,000 used" in page
    assert "! 85%" in page
    assert ("<html" in page) == (not headers)


def test_a_strangers_topic_is_not_there(client: Client, bob: Any, topic: Topic):
    client.force_login(bob)

    assert client.get(address(topic)).status_code == 404


def test_it_is_a_fixed_number_of_queries(
    browser: Client, topic: Topic, django_assert_max_num_queries: Any
):
    for number in range(1, 8):
        ran(topic, number)

    with django_assert_max_num_queries(10):
        browser.get(address(topic), headers=HTMX)


def test_a_schedule_that_is_chosen_says_what_a_month_of_it_costs(browser: Client, topic: Topic):
    chosen = {"preset": "weekly", "time_zone": "UTC", "weekday": "1", "topic": topic.slug}

    page = text_of(browser.get(reverse("research:schedule-preview"), chosen))

    assert re.search(r"About [45] runs in 30 days: <b>price unknown</b>", page)


def test_limits_of_a_month_are_kept_by_the_form(browser: Client, topic: Topic):
    url = reverse("research:topic-settings", args=[topic.slug])
    sent = {
        "base": initial_of(topic)["base"], "title": topic.title, "preset": "none", "time_zone": "UTC", "month_tokens": "5000",
        "month_money": "1.50", "over_limit": "smaller", "stale_days": "45", "recheck": "on",
    }  # fmt: skip

    browser.post(url, sent)

    kept = TopicSettings.objects.get(topic=topic)
    assert (kept.month_tokens, kept.month_money, kept.over_limit) == (
        5000,
        Decimal("1.5"),
        "smaller",
    )
    assert (kept.stale_days, kept.recheck) == (45, True)


@pytest.mark.parametrize("field", ["month_tokens", "month_money", "stale_days"])
def test_a_limit_below_nothing_is_explained(browser: Client, topic: Topic, field: str):
    url = reverse("research:topic-settings", args=[topic.slug])
    sent = {"title": topic.title, "preset": "none", "time_zone": "UTC", field: "-1"}

    assert re.search(r"Enter \d or more\.", text_of(browser.post(url, sent)))


def test_programs_read_it_too(alice: Any, topic: Topic):
    found = Program(alice, "read").get(f"/topics/{topic.slug}/forecast?depth=deep").json()

    assert (found["depth"], found["basis"], found["money"]) == ("deep", "usual", None)
    assert found["tokens_left"] == 150
    assert found["over_limit_reason"].endswith("only 150 are left this month")


def test_programs_set_a_topics_month(alice: Any):
    made = Program(alice, "admin").post("/topics", {"title": "x y", "month_money": 2.5}).json()

    assert (made["month_money"], made["over_limit"], made["recheck"]) == ("2.50", "skip", False)


# --- the warning ----------------------------------------------------------------------------------


def test_four_fifths_of_a_month_are_reported_once(topic: Topic, alice: Any):
    run = Run.objects.start(topic, trigger="person", by=alice.actor)
    held = Run.objects.claim(run.pk, worker="test")
    assert held is not None

    for _call in range(2):
        budget_warnings.warn_near_limits(held, MonthLimits(tokens=1_000))

    assert held.warnings == [
        "This topic has used at least 80% of its monthly limit (tokens: 1,000)"
    ]
    assert Activity.objects.get(kind="budget-near").is_warning


def test_a_run_that_has_ended_is_not_disturbed_by_what_its_follow_ups_spend(topic: Topic):
    run = ran(topic, 1)

    budget_warnings.warn_near_limits(run, MonthLimits(tokens=1_000))

    assert Activity.objects.filter(kind="budget-near").count() == 1
    assert Run.objects.get(pk=run.pk).warnings == []


def test_the_log_says_it_once_a_month_whatever_runs_come(topic: Topic, alice: Any):
    alice.monthly_money = Decimal(1)
    topic.owner = alice
    ModelCall.objects.create(owner=alice, purpose="x", source="x", money=Decimal("0.9"))
    for _run in range(2):
        run = Run.objects.start(topic, trigger="person", by=alice.actor)
        held = Run.objects.claim(run.pk, worker="test")
        assert held is not None
        held.topic = topic
        budget_warnings.warn_near_limits(held, MonthLimits())
        Run.objects.filter(pk=run.pk).update(status="cancelled")

    assert Activity.objects.filter(kind="budget-near").count() == 1
