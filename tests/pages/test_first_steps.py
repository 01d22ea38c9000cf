"""Home's first steps: what a new person can try next, checked off as it is done."""

from __future__ import annotations

from datetime import timedelta

from django.test import Client
from django.utils import timezone

from memory.accounts import tokens
from memory.models import Topic, User
from research.pages.home import first_steps
from research.services.schedules import scheduling
from tests.research.factories import make_run, make_second_run, make_topic


def open_steps(user: User) -> list[str]:
    return [step["label"] for step in first_steps(user) if not step["done"]]


def test_who_has_run_nothing_yet_is_led_to_the_topic(alice: User, topic: Topic) -> None:
    steps = first_steps(alice)
    assert steps[0]["url"] == f"/topics/{topic.slug}/"
    assert not steps[0]["done"]


def test_the_sample_isnt_a_topic_of_ones_own(alice: User) -> None:
    make_run(make_topic(alice))  # of the sample's title
    assert open_steps(alice) == [
        "Run the topic again",
        "Create your own topic",
        "Put a topic on a schedule",
        "Connect your agent",
    ]


def test_the_list_goes_when_all_is_done(alice: User, browser: Client) -> None:
    daily = scheduling.schedule_fields(preset="daily", time_zone="UTC")
    make_second_run(make_topic(alice, "Heat pumps", schedule=daily))
    assert "First steps" in browser.get("/").content.decode()
    tokens.issue(alice, name="desk", scopes=["read"], by=alice.actor)
    assert first_steps(alice) == []
    assert "First steps" not in browser.get("/").content.decode()


def test_the_list_goes_after_two_weeks(alice: User, topic: Topic) -> None:
    alice.date_joined = timezone.now() - timedelta(days=15)
    assert first_steps(alice) == []


def test_what_others_did_ticks_nothing_off(alice: User, bob: User, topic: Topic) -> None:
    make_second_run(make_topic(bob, "Heat pumps"))
    assert "Read your first report" in open_steps(alice)
