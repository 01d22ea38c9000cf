"""The page of a run that is in progress, waits, failed or was cancelled."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memory.models import Proposal, Reflection, Topic, User
from research.models import Report, Run, Step
from tests.research.factories import make_hits, make_report, make_run, make_steps, make_topic

HTMX = {"HX-Request": "true", "HX-Target": "run-live"}


@pytest.fixture
def run(topic: Topic) -> Run:
    """A run that reads the ninth of fourteen pages."""
    run = make_run(topic, saved=False)
    make_steps(
        run, done=4, state="running", detail="9 of 14 pages", counts={"read": 9, "pages": 14}
    )
    asked = {"query": "PostgreSQL 18", "service": "serpapi", "hits": 5, "tries": 1, "ms": 300}
    run.steps.filter(name="plan").update(output={"queries": ["PostgreSQL 18", "end of life"]})
    run.steps.filter(name="search").update(output={"asked": [asked | {"problem": ""}]})
    make_hits(run, 5)
    return run


def url(name: str, run: Run) -> str:
    return reverse(f"research:{name}", args=[run.topic.slug, run.pk])


def page(browser: Client, run: Run) -> str:
    return browser.get(url("run", run)).content.decode()


def poll(browser: Client, run: Run, seen: Any = None) -> Any:
    seen = run.progress if seen is None else seen
    return browser.get(f"{url('run-progress', run)}?seen={seen}", headers=HTMX)


# --- it works -----------------------------------------------------------------------------------


@pytest.mark.requirement("R52")
def test_a_run_in_progress_shows_its_steps_with_the_live_one_marked(browser: Client, run: Run):
    shown = page(browser, run)

    assert "Researching" in shown
    assert 'class="live" aria-current="step"' in shown
    assert '<progress value="9" max="14"' in shown


def test_a_reason_that_all_queries_of_a_service_met_is_explained_once(browser: Client, run: Run):
    why = "the key was refused"
    asked = [
        {"query": query, "service": "brave", "hits": 0, "tries": tries, "ms": 1, "problem": why}
        for query, tries in (("end of life", 0), ("PostgreSQL 18", 1), ("a third", 1))
    ]
    run.steps.filter(name="search").update(output={"asked": asked})

    text = page(browser, run)

    assert (text.count(why), text.count("Brave: not searched again")) == (1, 1)
    assert text.index(f"Brave: {why}") < text.index("not searched again")
    assert text.count("Brave: failed for the same reason") == 1


def test_it_shows_queries_with_what_came_of_each(browser: Client, run: Run):
    shown = page(browser, run)

    assert "<span>5 results</span><span>4 new</span>" in shown
    assert "waiting for results" in shown


def test_it_shows_hits_new_and_known_budget_and_heartbeat(browser: Client, run: Run):
    shown = page(browser, run)

    assert "New: 4 · Known: 1" in shown
    assert "2 read · 1 near-duplicate · 1 couldn’t be read" in shown
    assert "0 of 60000" in shown.replace(",", "")
    assert "data-beat" in shown and "data-elapsed" in shown


def test_a_group_of_many_pages_says_how_many_more_there_are(
    browser: Client, run: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("research.services.runs.presenters.MAX_HITS", 1)
    shown = page(browser, run)

    assert "and 3 more in Sources" in shown
    assert f'href="{reverse("research:topic-sources", args=[run.topic.slug])}?by=page"' in shown


def test_without_javascript_a_plain_link_shows_how_it_remains(browser: Client, run: Run):
    shown = page(browser, run)

    assert f'<a class="btn no-js" href="{url("run", run)}">' in shown


def test_a_queued_run_shows_the_steps_to_come(browser: Client, topic: Topic):
    run = make_run(topic, saved=False, status="queued", started_at=None)

    shown = page(browser, run)

    assert "starts as soon as a worker is available" in shown
    assert shown.count('<li class="wait"') == 8


def test_a_run_that_was_postponed_says_why(browser: Client, topic: Topic):
    later = timezone.now() + timedelta(minutes=2)
    run = make_run(topic, saved=False, status="queued", not_before=later, error="serpapi: 429")

    shown = page(browser, run)
    at = timezone.localtime(later).strftime("%H:%M")

    assert f"Retrying at {at} (attempt 1 of 3): serpapi: 429" in shown
    assert 'id="run-heading" >Retrying later<' in shown
    assert "“Stop and write report” writes a partial report" not in shown


@pytest.mark.requirement("R52")
def test_a_failed_run_says_what_happened_why_and_what_to_do(browser: Client, topic: Topic):
    run = make_run(
        topic, saved=False, status="failed", error="every search failed: the key is wrong"
    )
    make_steps(run, done=2, state="failed", warning="every search failed")

    shown = page(browser, run)

    assert "failed at the “Search” step" in shown
    assert "the key is wrong" in shown
    assert "Retry from “Search”" in shown
    assert "Correct the search settings, then retry the run." in shown


def test_a_cancelled_run_shows_where_it_stopped(browser: Client, topic: Topic):
    run = make_run(topic, saved=False, status="cancelled", error="cancelled manually")
    make_steps(run, done=4, state="running")

    shown = page(browser, run)

    assert "This run was cancelled" in shown
    assert "stopped here" in shown
    assert 'hx-trigger="every' not in shown


def test_a_silent_worker_is_named(browser: Client, run: Run):
    Run.objects.filter(pk=run.pk).update(heartbeat_at=timezone.now() - timedelta(seconds=50))

    assert "The worker has stopped responding" in page(browser, run)


# --- it works over htmx ---------------------------------------------------------------------------


def test_a_poll_that_has_seen_all_gets_no_body_and_one_query(browser: Client, run: Run):
    with CaptureQueriesContext(
        connection,
    ) as queries:
        answer = poll(browser, run)

    assert answer.status_code == 204 and answer.content == b""
    own = [
        q["sql"]
        for q in queries
        if "django_session" not in q["sql"] and '"memory_user"."password"' not in q["sql"]
    ]
    assert len(own) == 1 and len(queries) == 3


def test_an_idle_poll_carries_the_heartbeat(browser: Client, run: Run):
    assert "beacon:beat" in poll(browser, run)["HX-Trigger"]


def test_a_poll_that_has_seen_less_gets_the_live_part_alone(browser: Client, run: Run):
    answer = poll(browser, run, seen="nonsense")

    text = answer.content.decode()
    assert answer.status_code == 200 and "<html" not in text
    assert f"?seen={run.progress}" in text
    assert 'id="run-actions" hx-swap-oob="true"' in text


def test_the_poll_ends_with_the_run_and_loads_the_report(browser: Client, run: Run):
    Run.objects.filter(pk=run.pk).update(status="failed", progress=run.progress + 1)

    answer = poll(browser, run)

    assert answer.status_code == 286
    assert answer["HX-Refresh"] == "true"


def test_a_watched_run_shows_its_report_and_leaves_it_unread(
    browser: Client, topic: Topic, run: Run
):
    assert "data-watching" in page(browser, run)
    make_report(saved := make_run(topic))

    watched = browser.get(url("run", saved), {"watched": 1}).content.decode()
    assert 'data-mark-read-on="act"' in watched and "data-watching" not in watched
    assert 'data-mark-read-on="act"' not in page(browser, saved)
    assert Report.objects.get(run=saved).read_at is None


def test_cancelling_over_htmx_shows_that_it_was_heard(browser: Client, run: Run):
    answer = browser.post(url("run-cancel", run), headers=HTMX)

    assert b"Cancelling" in answer.content and b"<html" not in answer.content


# --- acts -----------------------------------------------------------------------------------------


def test_cancel_asks_the_run_to_cancel(browser: Client, run: Run):
    answer = browser.post(url("run-cancel", run))

    run.refresh_from_db()
    assert answer.status_code == 302 and run.cancel_requested_at is not None


def test_stop_now_asks_the_run_to_stop_and_says_what_follows(browser: Client, run: Run):
    answer = browser.post(url("run-stop", run), follow=True)

    run.refresh_from_db()
    assert run.stop_requested_at is not None
    assert "will write its report from what it has" in answer.content.decode()


def test_a_run_that_was_postponed_is_tried_at_once(browser: Client, topic: Topic):
    later = timezone.now() + timedelta(minutes=2)
    run = make_run(topic, saved=False, status="queued", not_before=later, error="no network")
    assert 'id="run-try"' in page(browser, run)

    browser.post(url("run-try", run))

    assert "The run will resume after its last finished step" in page(browser, run)
    assert Run.objects.claim(run.pk, worker="w") is not None
    answer = browser.post(url("run-try", run), headers=HTMX)
    assert answer.status_code == 409 and "It’s running" in answer.content.decode()


def test_a_run_that_waits_for_its_worker_has_nothing_to_try(browser: Client, topic: Topic):
    run = make_run(topic, saved=False, status="queued", started_at=None)
    assert 'id="run-try"' not in page(browser, run)


def test_retry_queues_the_same_run_behind_its_last_finished_step(browser: Client, topic: Topic):
    run = make_run(topic, saved=False, status="failed")
    make_steps(run, done=2, state="failed")

    browser.post(url("run-retry", run))

    run.refresh_from_db()
    assert run.status == "queued"
    assert run.steps.filter(state=Step.State.DONE).count() == 2


@pytest.mark.parametrize("act", ["run-cancel", "run-stop"])
def test_a_run_that_has_ended_can_neither_be_cancelled_nor_stopped(
    browser: Client, topic: Topic, act: str
):
    run = make_run(topic, saved=False, status="failed")

    answer = browser.post(url(act, run))

    assert answer.status_code == 409
    assert "has already ended (failed)" in answer.content.decode()


def test_a_run_in_progress_cannot_be_retried(browser: Client, run: Run):
    answer = browser.post(url("run-retry", run), headers=HTMX)

    assert answer.status_code == 409 and answer["HX-Retarget"] == "#notice"


def test_a_retry_while_another_run_is_in_progress_leads_to_that_one(browser: Client, topic: Topic):
    failed = make_run(topic, saved=False, status="failed")
    other = make_run(topic, saved=False)

    answer = browser.post(url("run-retry", failed))

    assert answer.status_code == 409
    assert url("run", other) in answer.content.decode()


# --- strangers, GETs, queries ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run", "run-progress", "run-trace"])
def test_a_stranger_finds_nothing(bob: User, client_of: Any, run: Run, name: str):
    assert client_of(bob).get(url(name, run)).status_code == 404


@pytest.mark.parametrize("name", ["run-cancel", "run-stop", "run-try", "run-retry", "run-rerun"])
def test_a_stranger_does_nothing(bob: User, client_of: Any, run: Run, name: str):
    assert client_of(bob).post(url(name, run)).status_code == 404


def test_who_is_not_signed_in_is_asked_to(run: Run):
    assert Client().get(url("run", run)).status_code == 302


def test_a_run_of_another_topic_is_not_there(browser: Client, alice: User, run: Run):
    make_topic(alice, "Another topic")

    address = reverse("research:run", args=["another-topic", run.pk])
    assert browser.get(address).status_code == 404


def test_looking_changes_nothing(browser: Client, run: Run):
    before = Run.objects.filter(pk=run.pk).values().get()

    page(browser, run)
    poll(browser, run, seen=-1)

    assert Run.objects.filter(pk=run.pk).values().get() == before


@pytest.mark.parametrize("name", ["run-cancel", "run-stop", "run-try", "run-retry", "run-rerun"])
def test_acts_are_posts(browser: Client, run: Run, name: str):
    assert browser.get(url(name, run)).status_code == 405


def test_its_number_of_queries_is_fixed(browser: Client, run: Run):
    with CaptureQueriesContext(connection) as few:
        page(browser, run)
    run.hits.all().delete()
    make_hits(run, 40)
    with CaptureQueriesContext(connection) as many:
        page(browser, run)

    assert len(many) == len(few) <= 10


def test_what_a_page_says_is_shown_as_text(browser: Client, run: Run):
    run.hits.update(title="<script>alert(1)</script>", link="javascript:alert(1)")

    shown = page(browser, run)

    assert "<script>alert" not in shown and 'href="javascript' not in shown


# --- what it cost -------------------------------------------------------------------------------


def test_an_unknown_price_is_said_on_the_run_and_on_its_step(browser: Client, run: Run):
    Run.objects.filter(pk=run.pk).update(unpriced_calls=1, prompt_tokens=10)
    run.steps.filter(name="plan").update(unpriced_calls=1, prompt_tokens=10)

    body = page(browser, run)

    assert "<dd>unknown</dd>" in body
    assert "10 tokens · price unknown" in body


def test_a_limit_of_money_next_to_an_unknown_price_is_reported(browser: Client, run: Run):
    settings = run.settings | {"max_money": "2.00"}
    Run.objects.filter(pk=run.pk).update(unpriced_calls=1, settings=settings)

    assert "unknown. The limit of $2.00 can’t be enforced." in page(browser, run)


def test_the_folded_row_of_a_reflection_says_how_many_writes_wait(
    browser: Client, alice: User, topic: Topic
):
    run = make_run(topic)
    make_report(run)
    waits = Proposal.objects.bulk_create(
        [Proposal(owner=alice, actor="reflector", record_type="memoryfile") for _n in range(2)]
    )
    changes = [
        {"act": "held", "path": "facts/memory.md", "proposal": str(one.pk), "version": None}
        for one in waits
    ]
    Reflection.objects.create(owner=alice, source=run.source, state="done", changes=changes)

    row = page(browser, run).partition('<h3 id="reflection-title">')[2].partition("</summary>")[0]

    assert '<span class="tag info">2 writes waiting for you</span>' in row
