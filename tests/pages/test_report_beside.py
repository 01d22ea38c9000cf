"""The aside of a report's page: sources, memory, trace, read marks, advice."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import strip_tags

from memory.models import Topic, User
from research.models import Report, Run
from research.services.runs.presenters import manifest_rows
from research.services.runs.search import known_pages
from tests.pages.report_cast import page, section, url
from tests.research.factories import (
    make_call,
    make_fact,
    make_hit,
    make_hits,
    make_item,
    make_report,
    make_run,
    make_source,
)

# --- sources, memory, trace -----------------------------------------------------------------------


@pytest.mark.requirement("R49")
def test_hits_are_grouped_with_what_became_of_each(browser: Client, run: Run):
    hits = section(page(browser, run), "hits")

    assert re.search(r'New <span class="count">4<', hits)
    assert re.search(r'Known <span class="count">1<', hits)
    assert "2 read · 1 near-duplicate · 1 couldn’t be read" in hits
    assert "couldn’t be read: the server answered 404" in hits


@pytest.mark.requirement("R248")
def test_the_memory_changes_of_the_run_are_alongside(browser: Client, run: Run):
    memory = section(page(browser, run), "memory-changes")

    learnt, confirmed, contradicted, retired = memory.split("<h4>")[1:]
    assert "Version 18.1 repairs" in learnt
    assert "came with version 18" in confirmed
    assert "off by default" in contradicted
    assert "until November 2025" in retired
    edit = re.search(r'href="([^"]+/edit/)"', learnt)
    assert edit and browser.get(edit[1]).status_code == 200
    assert "/history/" in retired and "/edit/" not in retired


@pytest.mark.requirement("R248")
def test_a_memory_change_shows_what_became_of_it_since(browser: Client, topic: Topic, alice: User):
    run = make_run(topic)
    make_report(run)
    fact = make_fact(topic, "Version 18 was released in September 2025.", run)
    fact.strike(by=alice.actor)

    assert "since marked as wrong" in section(page(browser, run), "memory-changes")


def test_the_trace_shows_prompts_answers_and_what_steps_left(browser: Client, run: Run):
    make_call(run)
    run.steps.filter(name="plan").update(output={"queries": ["PostgreSQL 18"]})

    shown = browser.get(url("run-trace", run)).content.decode()

    assert "What should be asked?" in shown and "1,200 tokens in, 80 out" in shown
    assert "Output of “Plan”" in shown


def test_the_trace_is_a_part_of_the_page_over_htmx(browser: Client, run: Run):
    answer = browser.get(url("run-trace", run), headers={"HX-Request": "true"})

    assert answer.content.strip().startswith(b'<div id="trace"')


def test_runs_before_and_after_are_one_click_away(browser: Client, run: Run):
    after = make_run(run.topic)
    make_report(after)

    shown = page(browser, run)

    assert f'href="{url("run", after)}" rel="next"' in shown
    assert 'rel="prev"' in shown


# --- reading marks --------------------------------------------------------------------------------


def test_opening_a_report_does_not_mark_it_read_but_its_page_asks_to(browser: Client, run: Run):
    shown = page(browser, run)

    assert f'data-mark-read="{url("report-read", run)}"' in shown
    assert Report.objects.get(run=run).read_at is None


def test_the_page_marks_it_read_without_an_answer(browser: Client, run: Run):
    answer = browser.post(url("report-read", run), headers={"X-Requested-With": "fetch"})

    assert answer.status_code == 204
    assert Report.objects.get(run=run).read_at is not None


def test_without_javascript_a_button_marks_it_read(browser: Client, run: Run):
    answer = browser.post(url("report-read", run))

    assert answer.status_code == 302
    assert "data-mark-read" not in page(browser, run)


def test_mark_unread_goes_to_the_list_so_that_it_stays_unread(browser: Client, run: Run):
    run.report.mark_read()

    answer = browser.post(url("report-unread", run))

    assert answer["Location"] == reverse("research:reports")
    assert Report.objects.get(run=run).read_at is None


@pytest.mark.parametrize("name", ["report-read", "report-unread"])
def test_a_run_without_a_report_has_no_reading_mark(browser: Client, topic: Topic, name: str):
    run = make_run(topic, saved=False)

    assert browser.post(url(name, run)).status_code == 404


# --- strangers, GETs, queries ---------------------------------------------------------------------


def test_a_stranger_finds_nothing(bob: User, client_of: Any, run: Run):
    stranger = client_of(bob)

    assert stranger.get(url("run", run)).status_code == 404
    assert stranger.post(url("report-read", run)).status_code == 404
    assert stranger.post(url("report-unread", run)).status_code == 404


def test_the_report_of_a_topic_in_the_trash_is_not_shown(browser: Client, run: Run, alice: User):
    run.topic.refresh_from_db()
    run.topic.trash(by=alice.actor)

    assert browser.get(url("run", run)).status_code == 404


def test_looking_changes_nothing(browser: Client, run: Run):
    before = Report.objects.filter(run=run).values().get()

    page(browser, run)

    assert Report.objects.filter(run=run).values().get() == before


def test_forty_hits_and_twenty_sources_cost_no_query_more(browser: Client, topic: Topic):
    few, many = make_run(topic), make_run(topic)
    make_report(few)
    make_hits(few, 1)
    make_fact(topic, "The only fact of the first run.", few)
    make_report(many, sources=[make_source(n, f"Source {n}") for n in range(1, 21)])
    make_hits(many, 40)
    for n in range(12):
        fact = make_fact(topic, f"Fact number {n} of the topic stands.", many)
        make_item(many, "confirmed", fact.text, previous_fact=fact, previous_text=fact.text)

    with CaptureQueriesContext(connection) as asked:
        page(browser, few)
    with CaptureQueriesContext(connection) as more:
        page(browser, many)

    assert len(more) == len(asked) <= 15


# --- nothing came up -------------------------------------------------------------------------------


def asked(run: Run, *services: str) -> None:
    entries = [
        {"query": "versions", "service": name, "hits": 0, "problem": ""} for name in services
    ]
    run.steps.create(name="search", position=3, state="done", output={"asked": entries})


@pytest.mark.parametrize(("services", "told"), [(["library", "feeds"], True), (["serpapi"], False)])
def test_where_only_feeds_and_library_found_nothing_it_says_what_to_do(
    browser: Client, topic: Topic, services: list[str], told: bool
):
    run = make_run(topic)
    make_report(run, sources=[])
    asked(run, *services)

    shown = page(browser, run)

    assert ("Searched: Feeds, Library." in shown) is told
    assert ('href="/library/add/"' in shown) is told


def test_what_was_found_needs_no_advice(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run)
    make_hits(run, 3)
    asked(run, "library")

    assert "The web wasn’t searched" not in page(browser, run)


def test_pages_read_are_counted_as_the_hits_are(browser: Client, topic: Topic):
    run = make_run(topic, read_count=9)
    make_report(run)
    make_hits(run, 3)
    read = run.hits.filter(reading="read").count()

    assert re.search(rf">Pages read</dt><dd>{read}<", page(browser, run))


def test_its_memory_expires_in_the_topic_pages_words(browser: Client, run: Run):
    assert "Expires in 30 days. Each saved run postpones the memory’s expiry date." in page(
        browser, run
    )


def test_what_a_run_was_made_with_is_reported_in_words(run: Run):
    run.manifest = {"services": ["hackernews"], "planned_by": "fallback"}

    assert manifest_rows(run) == [
        ("Services", ["Hacker News"]),
        ("Plan", ["planned without the model, which failed"]),
    ]


def test_the_panel_and_the_list_count_the_same_pages(browser: Client, topic: Topic):
    make_report(make_run(topic))
    run = make_run(topic, new_count=1, known_count=1, returning_count=1)
    make_report(run)
    make_hit(run, 1)
    make_hit(run, 2, state="known")
    make_hit(run, 3, state="returning")
    make_hit(run, 4, state="known", service=known_pages.SERVICE)
    make_hit(run, 5, state="known", service=known_pages.SERVICE, reading="failed", reason="404")

    shown = page(browser, run)
    words = " ".join(strip_tags(shown.replace("<", " <")).split())

    assert "Results 3 New pages 1 Known pages 2 Pages read 4 (3 read again)" in words
    assert "Pages in this run 5" in words
    known = "Known 3 1 found by search · 2 not found this time · 2 read again"
    assert f"{known} · 1 couldn’t be read" in words
    assert section(shown, "hits").count("known, read again") == 2
    assert "known, but couldn’t be read again: 404" in words


def test_a_quarantined_page_is_counted_as_such(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run)
    make_hit(run, 1)
    make_hit(run, 2, reading="quarantined", reason="it gives orders")

    shown = section(page(browser, run), "hits")

    assert "1 read · 1 quarantined" in shown and "quarantined: it gives orders" in shown
