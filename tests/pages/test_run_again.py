"""Retrying a run, from a step or as a repeat, and the hourly limit."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import Topic
from research.models import Run, Step
from research.services.runs.execution import pipeline
from tests.pages.report_cast import page, url
from tests.research.factories import make_report, make_run, make_steps

# --- from a step, as it was, and how often ----------------------------------------------------------


@pytest.fixture
def failed(topic: Topic) -> Run:
    """A run that failed in its search step, after two finished steps."""
    run = make_run(topic, saved=False, status="failed")
    make_steps(run, done=2, state="failed")
    return run


@pytest.fixture
def saved(topic: Topic) -> Run:
    """Run #1, with its report."""
    run = make_run(topic, manifest={"queries": ["PostgreSQL 18"], "services": ["feeds"]})
    make_report(run)
    return run


def test_a_failed_run_offers_each_finished_step_to_retry_from(browser: Client, failed: Run):
    shown = page(browser, failed)

    assert [
        kind.name for kind in pipeline.STEPS if f'name="step" value="{kind.name}"' in shown
    ] == [
        "load_memory",
        "plan",
    ]


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["plain", "htmx"])
def test_retried_from_a_step_it_and_all_after_it_wait_again(
    browser: Client, failed: Run, headers: dict[str, str]
):
    browser.post(url("run-retry", failed), {"step": "plan"}, headers=headers)

    done = failed.steps.filter(state=Step.State.DONE).values_list("name", flat=True)
    assert list(done) == ["load_memory"]


def test_from_a_step_that_is_not_finished_it_is_not_retried(browser: Client, failed: Run):
    answer = browser.post(url("run-retry", failed), {"step": "search"})

    assert answer.status_code == 409
    assert "can’t be retried from “search”" in answer.content.decode()


@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["plain", "htmx"])
def test_a_saved_run_can_be_run_again_as_it_was(
    browser: Client, saved: Run, headers: dict[str, str]
):
    assert "Repeat this run exactly" in page(browser, saved)

    answer = browser.post(url("run-rerun", saved), headers=headers)

    again = Run.objects.get(rerun_of=saved)
    assert url("run", again) in (answer.headers.get("Location") or answer["HX-Redirect"])
    assert "manually by alice, repeating Run #1" in page(browser, again)


def test_a_run_without_a_report_is_not_run_again_as_it_was(browser: Client, failed: Run):
    answer = browser.post(url("run-rerun", failed))

    assert answer.status_code == 409 and "can’t be repeated exactly" in answer.content.decode()


def test_a_run_in_the_way_of_another_time_is_led_to(browser: Client, saved: Run):
    run = make_run(saved.topic, saved=False)
    answer = browser.post(url("run-rerun", saved))

    assert answer.status_code == 409 and url("run", run) in answer.content.decode()


@pytest.mark.requirement("R233")
@pytest.mark.parametrize("name", ["run-retry", "run-rerun"])
def test_too_many_in_the_hour_are_refused_with_the_time(
    browser: Client, failed: Run, saved: Run, settings: Any, name: str
):
    settings.BEACON_RUNS_PER_HOUR = 2

    answer = browser.post(url(name, failed if name == "run-retry" else saved))

    assert answer.status_code == 429 and int(answer["Retry-After"]) > 3500
    assert "You can start the next run at" in answer.content.decode()


@pytest.mark.requirement("R233")
def test_near_the_buttons_it_is_said_how_many_are_left(
    browser: Client, failed: Run, saved: Run, settings: Any
):
    settings.BEACON_RUNS_PER_HOUR = 5

    for shown in (
        page(browser, failed),
        page(browser, saved),
        browser.get("/topics/").content.decode(),
    ):
        assert "You can start 3 more runs this hour" in shown


def test_how_long_it_waited_for_a_person_is_not_how_long_it_took(browser: Client, topic: Topic):
    day = timedelta(days=1)
    now = timezone.now()
    run = make_run(
        topic, saved=False, status="failed", started_at=now - day - timedelta(seconds=42),
        finished_at=now, waited_seconds=day.total_seconds(),
    )  # fmt: skip

    assert "42 s" in page(browser, run)


# --- pressed twice ------------------------------------------------------------------------------------


def pressed(browser: Client, address: str, loaded: str) -> str:
    """Click a page's button, and let the run end before the next click."""
    answer = browser.post(address, {"loaded": loaded}, follow=True)
    ended = {"status": Run.Status.FAILED, "finished_at": timezone.now()}
    Run.objects.unfinished().update(**ended)
    return answer.content.decode()


@pytest.mark.parametrize("name", ["topic-run", "run-rerun"])
def test_a_button_that_is_pressed_twice_starts_one_run(browser: Client, saved: Run, name: str):
    from_page = re.search(r'name="loaded" value="([\d.]+)"', page(browser, saved))
    key = {} if name == "topic-run" else {"run_id": saved.pk}
    address = reverse(f"research:{name}", kwargs={"slug": saved.topic.slug, **key})
    assert from_page is not None

    pressed(browser, address, from_page[1])
    said = pressed(browser, address, from_page[1])

    assert "Beacon didn’t start another" in said
    assert Run.objects.filter(topic=saved.topic).count() == 2
    pressed(browser, address, f"{timezone.now().timestamp()}")
    assert Run.objects.filter(topic=saved.topic).count() == 3


@pytest.mark.parametrize("loaded", ["", "yesterday", "1e999", "nan"])
def test_a_form_that_does_not_say_when_it_was_made_starts_a_run(
    browser: Client, saved: Run, loaded: str
):
    pressed(browser, url("run-rerun", saved), loaded)

    assert Run.objects.filter(rerun_of=saved).count() == 1
