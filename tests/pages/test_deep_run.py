"""A deep run on the pages: its tracks with every call of a tool, and where one is started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.models import ContentItem, Topic, User
from research.models import Run, TopicSettings
from research.services.topics.topic_form import TopicForm, initial_of
from tests.research import deep_rows
from tests.research.factories import make_topic

HTMX = {"HX-Request": "true", "HX-Target": "run-live"}


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice)


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def address(name: str, run: Run) -> str:
    return reverse(f"research:{name}", args=[run.topic.slug, run.pk])


def test_each_track_is_below_its_step_with_its_calls(browser: Client, topic: Topic):
    run = deep_rows.unfinished_runs(topic)

    shown = browser.get(address("run", run)).content.decode()

    assert shown.index("Tracks<") < shown.index("Overview<") < shown.index("News<")
    assert "PostgreSQL 18 criticism" in shown and "Opinions" not in shown
    assert shown.count("Failed</span>") == 2 and "example.net took longer" in shown
    item = ContentItem.objects.get(title="What PostgreSQL 18 leaves open")
    assert reverse("memory:content-item", args=[item.pk]) in shown


def test_the_poll_brings_calls_as_they_come(browser: Client, topic: Topic):
    run = deep_rows.unfinished_runs(topic)
    Run.objects.filter(pk=run.pk).update(progress=7)

    answer = browser.get(f"{address('run-progress', run)}?seen=1", headers=HTMX)

    assert b'id="calls-2" open' in answer.content and b'id="calls-1" open' not in answer.content


def test_a_saved_run_shows_its_tracks_too(browser: Client, topic: Topic):
    run = deep_rows.saved(topic)

    shown = browser.get(address("run", run)).content.decode()

    assert "Overview<" in shown and "Opinions<" in shown and shown.count("open_page</b>") == 6


def test_a_stranger_sees_none_of_it(bob: User, client_of: Callable[[Any], Client], topic: Topic):
    run = deep_rows.unfinished_runs(topic)

    assert client_of(bob).get(address("run", run)).status_code == 404


def test_the_number_of_queries_is_fixed_however_many_calls(browser: Client, topic: Topic):
    few = deep_rows.unfinished_runs(topic)
    many = deep_rows.unfinished_runs(make_topic(topic.owner, "Another topic"), calls=40)
    counts = []
    for run in (few, many):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            browser.get(address("run", run))
        counts.append(len(queries))

    assert counts[0] == counts[1] <= 12


def test_run_deep_this_once_starts_a_deep_run_of_a_quick_topic(browser: Client, topic: Topic):
    page = browser.get(reverse("research:topic", args=[topic.slug])).content.decode()
    assert "Run once in deep mode" in page

    browser.post(reverse("research:topic-run", args=[topic.slug]), {"depth": "deep"})

    assert topic.runs.get().depth == "deep"
    assert TopicSettings.objects.get(topic=topic).depth == "quick"


def test_a_depth_that_there_is_not_is_refused_with_a_reason(browser: Client, topic: Topic):
    where = reverse("research:topic-run", args=[topic.slug])

    answer = browser.post(where, {"depth": "endless"})

    assert answer.status_code == 409 and not topic.runs.exists()
    assert "Unknown depth “endless”" in answer.content.decode()


def test_the_form_says_what_deep_costs_and_keeps_it(browser: Client, topic: Topic):
    where = reverse("research:topic-settings", args=[topic.slug])
    shown = browser.get(where).content.decode()
    assert "A deep run can use 360,000 tokens and take 45 minutes." in shown

    form = TopicForm(owner=topic.owner, topic=topic, initial=initial_of(topic))
    sent = {name: form[name].value() for name in form.fields}
    browser.post(
        where, {k: v for k, v in sent.items() if v not in (None, False)} | {"depth": "deep"}
    )

    assert TopicSettings.objects.get(topic=topic).depth == "deep"
    assert "Run once in quick mode" in browser.get(
        reverse("research:topic", args=[topic.slug])
    ).content.decode()  # fmt: skip
