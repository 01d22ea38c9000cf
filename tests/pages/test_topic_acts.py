"""The buttons of one topic, and the sample topic's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from beacon_site.providers.search import sample
from memory.models import Activity, Topic
from research.models import Run, Schedule
from research.services.runs.execution.starting import create_topic
from research.services.schedules import scheduling
from tests.pages.topic_cast import make, ran, text_of
from tests.undo import undone

pytestmark = pytest.mark.usefixtures("no_broker")

URL = "/topics/"
HTMX = {"HX-Request": "true"}
ClientOf = Callable[[Any], Client]


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    return client_of(alice)


# --- one topic's buttons --------------------------------------------------------------------------


def press(browser: Client, topic: Topic, act: str, **more: Any) -> Any:
    return browser.post(f"/topics/{topic.slug}/{act}/", **more)


def test_run_now_starts_a_run_and_shows_it(browser: Client, alice: Any):
    topic = make(alice, "Sailing")

    response = press(browser, topic, "run")

    run = Run.objects.get(topic=topic)
    assert (run.trigger, run.actor) == ("person", "human:alice")
    assert response["Location"] == f"/topics/sailing/runs/{run.pk}/"


@pytest.mark.requirement("R53")
def test_run_now_while_one_is_going_shows_that_one(browser: Client, alice: Any):
    topic = make(alice, "Sailing")
    press(browser, topic, "run")

    response = press(browser, topic, "run", follow=False)

    assert response["Location"] == f"/topics/sailing/runs/{Run.objects.get().pk}/"


@pytest.mark.requirement("R233")
def test_the_limit_of_runs_an_hour_is_reported_in_words(browser: Client, alice: Any, settings: Any):
    settings.BEACON_RUNS_PER_HOUR = 2
    for number in range(2):
        ran(make(alice, f"Topic {number}"), 1)

    response = press(browser, make(alice, "Sailing"), "run")

    assert response.status_code == 429
    assert int(response["Retry-After"]) > 3000
    assert "limit of 2 runs per hour" in text_of(response)


def test_over_htmx_a_refusal_goes_to_the_notice(browser: Client, alice: Any, settings: Any):
    settings.BEACON_RUNS_PER_HOUR = 1
    ran(make(alice, "Other"), 1)

    response = press(browser, make(alice, "Sailing"), "run", headers=HTMX)

    assert (response.status_code, response["HX-Retarget"]) == (429, "#notice")
    assert "<html" not in text_of(response)


def test_an_archived_topic_is_not_run_and_says_why(browser: Client, alice: Any):
    topic = make(alice, "Sailing")
    topic.archive(by=alice.actor)

    response = press(browser, topic, "run")

    assert response.status_code == 409
    assert "Unarchive it" in text_of(response)


@pytest.mark.requirement("R60")
def test_trash_offers_undo_and_undo_brings_it_back(browser: Client, alice: Any):
    topic = make(alice, "Sailing", preset="daily")

    undone(browser, press(browser, topic, "trash", follow=True))

    topic.refresh_from_db()
    assert topic.trashed_at is None
    assert Activity.objects.filter(kind="topic-restored", actor="human:alice").exists()


def test_trashing_in_mid_run_cancels_the_run_and_says_so(browser: Client, alice: Any):
    topic = make(alice, "Sailing")
    run = Run.objects.start(topic, trigger="person", by=alice.actor)

    page = text_of(press(browser, topic, "trash", follow=True))

    run.refresh_from_db()
    assert run.status == Run.Status.CANCELLED
    assert "The topic’s run was cancelled" in page


def test_archiving_cancels_the_run_that_waits_and_says_so(browser: Client, alice: Any):
    topic = make(alice, "Sailing")
    run = Run.objects.start(topic, trigger="person", by=alice.actor)

    page = text_of(press(browser, topic, "archive", follow=True))

    run.refresh_from_db()
    assert (run.status, run.error) == (Run.Status.CANCELLED, "the topic was archived")
    assert "The topic’s queued run was cancelled" in page


def test_a_topic_whose_name_was_taken_is_restored_under_another_and_it_is_explained(
    browser: Client, alice: Any
):
    topic = make(alice, "Sailing")
    trashed = press(browser, topic, "trash", follow=True)
    make(alice, "Sailing")

    page = text_of(undone(browser, trashed))

    topic.refresh_from_db()
    assert (topic.trashed_at, topic.title) == (None, "Sailing (2)")
    assert "The name “Sailing” is taken, so it was restored as “Sailing (2)”." in page


@pytest.mark.parametrize(
    ("first", "then", "paused"), [("pause", "resume", False), ("resume", "pause", True)]
)
def test_pause_and_resume(browser: Client, alice: Any, first: str, then: str, paused: bool):
    topic = make(alice, "Sailing", preset="daily")

    press(browser, topic, first)
    press(browser, topic, then)

    assert Schedule.objects.get(topic=topic).paused is paused


def test_what_fell_due_in_the_archive_is_not_caught_up_with(browser: Client, alice: Any):
    topic = make(alice, "Sailing", preset="daily")
    press(browser, topic, "archive")
    Schedule.objects.update(next_run_at=timezone.now() - timedelta(days=9))

    press(browser, topic, "unarchive")

    assert Schedule.objects.filter(next_run_at__gt=timezone.now()).exists()
    assert scheduling.start_due() == []


ACTS = ["run", "pause", "resume", "archive", "unarchive", "duplicate", "trash", "settings"]


@pytest.mark.requirement("R232")
@pytest.mark.parametrize("act", ACTS)
def test_for_a_stranger_there_is_no_such_topic(client_of: ClientOf, alice: Any, bob: Any, act: str):
    topic = make(alice, "Sailing")

    assert press(client_of(bob), topic, act).status_code == 404
    assert client_of(bob).post(f"/topics/{topic.pk}/restore/").status_code == 404
    assert Client().post(f"/topics/sailing/{act}/")["Location"].startswith("/sign-in/")


@pytest.mark.requirement("R232")
@pytest.mark.parametrize("act", [act for act in ACTS if act not in ("duplicate", "settings")])
def test_an_act_is_a_post_with_its_token(alice: Any, act: str):
    make(alice, "Sailing")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")

    assert strict.get(f"/topics/sailing/{act}/").status_code == 405
    assert strict.post(f"/topics/sailing/{act}/").status_code == 403


@pytest.mark.parametrize(
    "place", ["https://evil.example/", "//evil.example/", "pause", "\x00", "a:b"]
)
def test_undo_goes_nowhere_else_than_here(browser: Client, alice: Any, place: str):
    topic = make(alice, "Sailing", preset="daily")

    response = press(browser, topic, "pause", data={"next": place})

    assert response["Location"] == "/topics/sailing/"


# --- the sample -----------------------------------------------------------------------------------


def test_the_sample_is_made_once_and_run(browser: Client, alice: Any):
    response = browser.post("/topics/sample/")
    run = Run.objects.get()
    Run.objects.update(status=Run.Status.SUCCEEDED, number=1)
    browser.post("/topics/sample/")

    assert response["Location"] == f"/topics/{run.topic.slug}/runs/{run.pk}/"
    assert (Topic.objects.count(), Run.objects.count()) == (1, 2)


def test_a_topic_of_ones_own_with_the_samples_name_is_explained_and_not_run(
    browser: Client, alice: Any
):
    create_topic(owner=alice, title=sample.SAMPLE_TITLE, by=alice.actor)

    response = browser.post("/topics/sample/")

    assert response.status_code == 409
    assert "isn’t the sample. Rename it" in response.content.decode()
    assert not Run.objects.exists()


def test_the_sample_pressed_twice_shows_the_same_run(browser: Client):
    first, second = (browser.post("/topics/sample/")["Location"] for _ in range(2))

    assert first == second
