"""The page of schedules: coming runs, their cost, clashes, and what was missed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.test import Client
from django.urls import reverse

from beacon_site.providers.llm.base import LlmProfile
from memory.models import Topic
from research.models import Schedule, TopicSettings
from research.pages import schedules
from research.services.schedules import scheduling
from tests.pages.topic_cast import make, ran, text_of
from tests.undo import undone

PAGE = "/schedule/"
PRICED = LlmProfile("http://m", "m", price_in=Decimal(10), price_out=Decimal(10))


@pytest.fixture(autouse=True)
def monday(monkeypatch: pytest.MonkeyPatch) -> Any:
    """It is Monday, 2 November 2026, 06:00 UTC; the model has a price."""
    monkeypatch.setattr("memory.services.llm.connections.llm_profile", lambda: PRICED)
    monkeypatch.setattr("beacon_site.celery.send", lambda *args, **kwargs: True)
    with time_machine.travel(datetime(2026, 11, 2, 6, tzinfo=UTC), tick=False):
        yield


@pytest.fixture
def browser(client: Client, alice: Any) -> Client:
    client.force_login(alice)
    return client


def scheduled(owner: Any, title: str, preset: str = "weekly", **more: Any) -> Topic:
    topic = make(owner, title)
    chosen = {"preset": preset, "time_zone": "UTC", **more}
    scheduling.set_schedule(topic, by=owner.actor, **chosen)
    return topic


def test_a_month_shows_what_is_to_come_and_its_cost(browser: Client, alice: Any):
    scheduled(alice, "Solid-state batteries")

    page = text_of(browser.get(PAGE))

    assert "November 2026" in page
    assert page.count('<span class="sr-only">07:00</span>') == 2 * 5  # as a table and as a list
    assert "<b>5 more runs</b> in November 2026: <b>$0.18–$0.95</b>" in page
    assert "Week of 9 Nov: 1 run, $0.04–$0.19" in page


def test_an_unknown_price_is_reported_and_not_counted_as_nothing(
    browser: Client, alice: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "memory.services.llm.connections.llm_profile", lambda: LlmProfile("http://m", "m")
    )
    scheduled(alice, "Solid-state batteries")

    page = text_of(browser.get(PAGE))

    assert "<b>price unknown</b>" in page
    assert "$0" not in page


def test_the_next_month_has_an_address(browser: Client, alice: Any):
    scheduled(alice, "Solid-state batteries")

    page = text_of(browser.get(PAGE, {"month": "2026-12"}))

    assert "December 2026" in page
    assert "<b>4 runs</b>" in page


def test_the_present_month_starts_today_and_shows_two_weeks(alice: Any):
    scheduled(alice, "Solid-state batteries", "daily")

    with time_machine.travel(datetime(2026, 11, 28, 6, tzinfo=UTC), tick=False):
        shown = schedules.context(alice, "")

    grid = [day for days, _cost in shown["weeks"] for day in days]
    assert (grid[0].day.isoformat(), grid[-1].day.isoformat()) == ("2026-11-23", "2026-12-13")
    days = [day.day.isoformat() for day in grid if not day.is_other]
    assert (days[0], days[-1]) == ("2026-11-28", "2026-12-11")
    assert [entry["topic"].title for entry in shown["every_day"]] == ["Solid-state batteries"]
    assert not any(day.entries for days, _cost in shown["weeks"] for day in days)
    assert shown["heading"] == "28 November – 11 December 2026"
    assert shown["weekdays"][0] == "Monday"
    assert shown["total"].runs == 3  # of this month


def test_a_cost_of_nothing_has_no_column(
    browser: Client, alice: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("memory.services.llm.connections.llm_profile", lambda: None)
    scheduled(alice, "Solid-state batteries")

    page = text_of(browser.get(PAGE))

    assert page.count("free (no model)") == 1
    assert "Cost over 30 days" not in page


@pytest.mark.parametrize(
    "key", ["", "x", "2026-13", "0000-01", "2020-01", "９９９９-01", "2026-1" * 9]
)
def test_a_month_that_is_none_is_the_present_one(browser: Client, key: str):
    assert browser.get(PAGE, {"month": key}).context["name"] == "November 2026"


def test_no_one_looks_ahead_for_ever(browser: Client):
    assert browser.get(PAGE, {"month": "9998-12"}).context["name"] == "November 2028"


def test_without_schedules_it_says_where_they_are_created(browser: Client):
    page = text_of(browser.get(PAGE))

    assert "No scheduled runs" in page
    assert 'href="/topics/"' in browser.get(PAGE).content.decode()
    assert "November 2026" not in page  # an empty month says nothing


def test_a_paused_schedule_stands_apart_and_is_not_counted(browser: Client, alice: Any):
    topic = scheduled(alice, "Solid-state batteries", paused=True)

    page = text_of(browser.get(PAGE))

    assert "<h2>Paused</h2>" in page
    assert reverse("research:topic-resume", args=[topic.slug]) in page
    assert "No more runs are scheduled in November 2026." in page


def test_a_monthly_recheck_is_in_it_and_costs_nothing(browser: Client, alice: Any):
    topic = make(alice, "Solid-state batteries")
    TopicSettings.objects.filter(topic=topic).update(recheck=True)

    page = text_of(browser.get(PAGE, {"month": "2026-12"}))

    assert "05:00</span> Recheck: <bdi>Solid-state batteries</bdi>" in page
    assert "<b>1" not in page


# --- clashes --------------------------------------------------------------------------------------


def test_topics_at_the_same_minute_are_named_with_a_free_hour(browser: Client, alice: Any):
    scheduled(alice, "A tracker")
    second = scheduled(alice, "B tracker")
    scheduled(alice, "C tracker", hour=8)

    page = text_of(browser.get(PAGE))

    assert "5 times, first on Mon 2 Nov, 07:00" in page
    assert "Move “B tracker” to 09:00</button>" in page
    assert reverse("research:schedule-hour", args=[second.slug, 9]) in page


def test_taking_every_offer_makes_no_new_clash(browser: Client, alice: Any):
    scheduled(alice, "A tracker", "daily")
    scheduled(alice, "B tracker", "daily")
    scheduled(alice, "C tracker")

    page = text_of(browser.get(PAGE))

    assert "Move “B tracker” to 08:00</button>" in page
    assert "Move “C tracker” to 09:00</button>" in page


def test_a_line_with_several_hours_is_not_moved_by_a_button(browser: Client, alice: Any):
    scheduled(alice, "A tracker", "daily")
    other = scheduled(alice, "B tracker", "cron", cron="0 */6 * * *")
    scheduled(alice, "C tracker", "cron", cron="0 7,12 * * *")

    page = text_of(browser.get(PAGE))

    assert "A tracker" in page
    assert reverse("research:schedule-hour", args=[other.slug, 1]) not in page


def test_the_button_moves_it_and_can_be_undone(browser: Client, alice: Any):
    topic = scheduled(alice, "A tracker", weekday=3)

    page = browser.post(f"/topics/{topic.slug}/schedule/hour/9/", follow=True)

    moved = Schedule.objects.get(topic=topic)
    assert (moved.preset, moved.cron) == ("weekly", "0 9 * * 3")
    assert moved.next_run_at == datetime(2026, 11, 4, 9, tzinfo=UTC)
    undone(browser, page)
    assert Schedule.objects.get(topic=topic).cron == "0 7 * * 3"


def test_a_schedule_that_was_changed_since_stays(browser: Client, alice: Any):
    topic = scheduled(alice, "A tracker", weekday=3)
    page = browser.post(f"/topics/{topic.slug}/schedule/hour/9/", follow=True)
    browser.post(f"/topics/{topic.slug}/schedule/hour/11/")

    assert undone(browser, page).status_code == 409
    assert Schedule.objects.get(topic=topic).cron == "0 11 * * 3"


@pytest.mark.parametrize("hour", [24, 999])
def test_an_hour_that_there_is_not_is_refused(browser: Client, alice: Any, hour: int):
    topic = scheduled(alice, "A tracker")

    assert browser.post(f"/topics/{topic.slug}/schedule/hour/{hour}/").status_code == 409
    assert Schedule.objects.get(topic=topic).cron == "0 7 * * 1"


# --- what was missed --------------------------------------------------------------------------------


def test_the_policy_is_changed_there_and_back(browser: Client, alice: Any):
    topic = scheduled(alice, "A tracker")

    page = text_of(browser.post(f"/topics/{topic.slug}/schedule/missed/skip/", follow=True))

    assert Schedule.objects.get(topic=topic).missed == "skip"
    assert f'action="/topics/{topic.slug}/schedule/missed/once/"' in page
    assert "skip missed runs" in page


@pytest.mark.parametrize(("choice", "status"), [("once", 302), ("never", 404)])
def test_a_policy_that_is_so_already_or_is_none_changes_nothing(
    browser: Client, alice: Any, choice: str, status: int
):
    topic = scheduled(alice, "A tracker")

    answer = browser.post(f"/topics/{topic.slug}/schedule/missed/{choice}/")

    assert answer.status_code == status
    assert Schedule.objects.get(topic=topic).missed == "once"


def test_what_was_missed_while_beacon_was_off_is_reported_with_the_reason(
    browser: Client, alice: Any
):
    scheduled(alice, "A tracker", "daily", missed="skip")
    scheduling.start_due(datetime(2026, 11, 5, 12, tzinfo=UTC))

    page = text_of(browser.get(PAGE))

    assert "4 scheduled runs were missed while Beacon was off" in page


# --- whose it is, and how much it asks ---------------------------------------------------------------


def test_a_stranger_sees_and_moves_nothing(client: Client, bob: Any, alice: Any):
    topic = scheduled(alice, "Alice's own")
    client.force_login(bob)

    assert "Alice" not in text_of(client.get(PAGE))
    for act in ("hour/9", "missed/skip"):
        assert client.post(f"/topics/{topic.slug}/schedule/{act}/").status_code == 404


def test_topics_in_trash_are_not_in_it(alice: Any):
    scheduled(alice, "Archived").archive(by=alice.actor)
    scheduled(alice, "Trashed").trash(by=alice.actor)

    assert schedules.context(alice, "")["rows"] == []


def test_it_is_a_fixed_number_of_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
):
    for number in range(9):
        ran(scheduled(alice, f"Topic {number}", "daily", hour=number), 1)

    with django_assert_max_num_queries(12):
        browser.get(PAGE)
