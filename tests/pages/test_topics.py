"""The list of topics, and bulk actions."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import Source, Topic, TopicFact
from research.models import Run, Schedule
from research.services.schedules import scheduling
from tests.pages.topic_cast import make, reported, text_of
from tests.research.factories import make_report, make_run
from tests.undo import undone

pytestmark = pytest.mark.usefixtures("no_broker")

URL = "/topics/"
HTMX = {"HX-Request": "true"}
ClientOf = Callable[[Any], Client]


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    return client_of(alice)


# --- the five of every page -----------------------------------------------------------------------


@pytest.mark.requirement("R59")
def test_it_shows_runs_last_run_sources_facts_and_summary(browser: Client, alice: Any):
    topic = make(alice, "Batteries", preset="weekly", labels=["energy"])
    Topic.objects.filter(pk=topic.pk).update(summary="Prices fell again [2].")
    TopicFact.objects.add(topic, "A cell costs 89 dollars a kilowatt hour.", by=alice.actor)
    Source.objects.create(
        topic=topic, url="https://a.example/", domain="a.example", first_run=1, last_run=1
    )
    reported(topic, 2, changes=3)

    page = text_of(browser.get(URL))

    for words in ("Batteries", "Scheduled", "#2", "3 new facts", "Prices fell again.", "energy"):
        assert words in page
    assert "every Monday at 07:00<" in page
    assert '<span class="filter-count">1 topic</span>' in page
    assert "</svg> 1 </td>" in page


def test_over_htmx_the_table_alone_is_answered(browser: Client, alice: Any):
    make(alice, "Batteries")

    page = text_of(browser.get(URL, headers=HTMX))

    assert page.startswith('<section id="topics"')
    assert "<html" not in page


@pytest.mark.requirement("R232")
def test_a_stranger_sees_none_of_it(client_of: ClientOf, alice: Any, bob: Any):
    make(alice, "Batteries")

    assert "Batteries" not in text_of(client_of(bob).get(URL))
    assert Client().get(URL)["Location"].startswith("/sign-in/")


@pytest.mark.parametrize(
    "query", ["cursor=nonsense", "cursor=WyJ4IiwgIngiXQ", "sort=x&show=y", "q=%00", "label=%00a"]
)
def test_an_address_that_makes_no_sense_shows_a_list_all_the_same(browser: Client, query: str):
    assert browser.get(f"{URL}?{query}").status_code == 200


def test_its_number_of_queries_is_fixed(
    browser: Client, alice: Any, django_assert_num_queries: Any
):
    for number in range(12):
        reported(make(alice, f"Topic {number}", preset="daily", labels=["x"]), 1, changes=2)

    browser.get(URL)
    with django_assert_num_queries(11) as queries:
        browser.get(URL)
    assert len(queries) <= 12


# --- what a row says ------------------------------------------------------------------------------


def test_a_schedule_of_another_time_zone_names_it(browser: Client, alice: Any):
    make(alice, "Batteries", preset="weekly")
    alice.time_zone = "Asia/Shanghai"
    alice.save(update_fields=["time_zone"])

    assert "every Monday at 07:00 (UTC)" in text_of(browser.get(URL))


def test_a_scheduled_topic_whose_last_run_failed_says_so(browser: Client, alice: Any):
    topic = make(alice, "Batteries", preset="weekly")
    ended = {"status": Run.Status.FAILED, "finished_at": timezone.now()}
    run = Run.objects.create(topic=topic, **ended)

    page = text_of(browser.get(URL))

    assert "Scheduled" in page
    assert f'href="/topics/batteries/runs/{run.pk}/">! last run failed' in page


@pytest.mark.requirement("R52")
@pytest.mark.parametrize(
    ("preset", "status", "words"),
    [
        ("weekly", None, "Scheduled"),
        ("weekly", Run.Status.SUCCEEDED, "Scheduled"),
        ("weekly", Run.Status.QUEUED, "Queued"),
        ("none", Run.Status.PARTIAL, "Partial"),
        ("none", None, "Not run yet"),
    ],
)
def test_the_state_is_a_word(browser: Client, alice: Any, preset: str, status: Any, words: str):
    topic = make(alice, "Batteries", preset=preset)
    if status:
        Run.objects.create(topic=topic, status=status, finished_at=timezone.now())

    page = text_of(browser.get(URL))

    assert words in page.split("<tbody")[1]


@pytest.mark.parametrize(
    ("is_baseline", "is_quiet", "said"),
    [
        (True, False, "Last run: baseline"),
        (False, True, "Last run: nothing new"),
        (False, False, "Last run: changes found"),
    ],
)
def test_without_a_schedule_pages_say_what_the_last_run_found(
    browser: Client, alice: Any, is_baseline: bool, is_quiet: bool, said: str
):
    topic = make(alice, "Harbours")
    run = make_run(topic, is_baseline=is_baseline)
    make_report(run, is_quiet=is_quiet)

    row = text_of(browser.get(URL)).split("<tbody")[1]
    head = (
        text_of(browser.get(f"/topics/{topic.slug}/"))
        .partition("<main")[2]
        .partition("</header>")[0]
    )

    assert re.search(rf'data-label="Last run">\s*<a [^>]*>#{run.number}</a>', row)
    assert ('data-label="Last changed"' in row) is not is_quiet
    assert said in head
    assert "Succeeded" not in row and "Succeeded" not in head


def test_a_topic_shows_its_last_change_and_not_its_last_quiet_run(browser: Client, alice: Any):
    topic = make(alice, "Harbours")
    changed = timezone.now() - timedelta(days=3)
    for is_quiet, at in ((False, changed), (True, changed + timedelta(days=2))):
        run = make_run(topic)
        make_report(run, is_quiet=is_quiet)
        Run.objects.filter(pk=run.pk).update(finished_at=at)

    row = text_of(browser.get(URL)).split("<tbody")[1]

    told = row.partition('data-label="Last changed"')[2].partition("</td>")[0]
    assert changed.date().isoformat() in told
    last = row.partition('data-label="Last run"')[2].partition("</td>")[0]
    assert (changed + timedelta(days=2)).date().isoformat() in last


def test_a_report_that_was_read_is_nothing_new(browser: Client, alice: Any):
    run = reported(make(alice, "Batteries"), 1, changes=3)
    assert "3 new facts" in text_of(browser.get(URL))

    run.report.mark_read()

    assert "3 new facts" not in text_of(browser.get(URL))


def test_without_topics_the_page_names_the_next_step(browser: Client):
    page = text_of(browser.get(URL))

    assert "No topics yet" in page
    assert "Try the sample topic" in page
    assert "/topics/new/" in page


# --- finding --------------------------------------------------------------------------------------


@pytest.mark.requirement("R59")
def test_search_finds_by_words_of_title_label_and_summary(browser: Client, alice: Any):
    make(alice, "Solid-state batteries", labels=["energy"])
    make(alice, "Sailing")

    for words in ("BATTERIES solid", "energy", "batteries energy"):
        page = text_of(browser.get(URL, {"q": words}))
        assert "Solid-state" in page
        assert "Sailing" not in page


def test_a_search_that_finds_nothing_leads_back(browser: Client, alice: Any):
    make(alice, "Sailing")

    page = text_of(browser.get(URL, {"q": "zeppelin"}))

    assert "No matching topics" in page
    assert "Clear filters" in page


def test_the_archive_is_a_filter(browser: Client, alice: Any):
    make(alice, "Sailing").archive(by=alice.actor)

    assert "Sailing" not in text_of(browser.get(URL))
    assert "Sailing" in text_of(browser.get(URL, {"show": "archived"}))
    assert "Sailing" in text_of(browser.get(URL, {"show": "all"}))


@pytest.mark.parametrize("sort", ["", "next", "title", "made"])
def test_every_topic_is_on_one_page_of_the_list(
    browser: Client, alice: Any, monkeypatch: pytest.MonkeyPatch, sort: str
):
    for number in range(53):
        made = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number // 2)
        Topic.objects.create(
            owner=alice, title=f"T {number:02}", slug=f"t{number:02}", created=made
        )
    first = browser.get(URL, {"sort": sort})
    second = browser.get(URL, {"sort": sort, "cursor": first.context["next_cursor"]})

    titles = [row.topic.title for page in (first, second) for row in page.context["rows"]]
    assert len(first.context["rows"]) == 30
    assert sorted(titles) == [f"T {number:02}" for number in range(53)]
    assert second.context["next_cursor"] is None


def test_the_recent_ones_are_in_the_order_of_the_runs_that_they_show(browser: Client, alice: Any):
    now = timezone.now()
    for hours, title in ((3, "Third"), (1, "First"), (2, "Second")):
        topic = make(alice, title)
        ended = {"status": Run.Status.FAILED, "finished_at": now - timedelta(hours=hours)}
        Run.objects.create(topic=topic, **ended)
    Topic.objects.filter(title="Third").update(last_run_at=now)

    rows = browser.get(URL).context["rows"]

    assert [row.topic.title for row in rows] == ["First", "Second", "Third"]


# --- many at once ---------------------------------------------------------------------------------


def bulk(browser: Client, act: str, *topics: Topic, query: str = "", **more: Any) -> Any:
    data = {"act": act, "topic": [topic.slug for topic in topics], **more}
    return browser.post(f"/topics/bulk/{query}", data, follow=True)


def test_selected_topics_are_paused_and_undo_resumes_those_alone(browser: Client, alice: Any):
    one, two = (make(alice, title, preset="daily") for title in ("One", "Two"))
    scheduling.set_paused(two, paused=True, by=alice.actor)

    page = bulk(browser, "pause", one, two)
    assert "Paused 1 topic. 1 topic wasn’t changed." in text_of(page)
    undone(browser, page)

    paused = Schedule.objects.filter(paused=True)
    assert [schedule.topic for schedule in paused] == [two]


def test_undo_of_what_was_undone_by_hand_is_refused_and_changes_nothing(
    browser: Client, alice: Any
):
    one, two = (make(alice, title, preset="daily") for title in ("One", "Two"))
    page = bulk(browser, "pause", one, two)
    bulk(browser, "resume", one, two)

    refused = undone(browser, page)

    assert refused.status_code == 409
    assert "Nothing was changed." in text_of(refused)
    assert not Schedule.objects.filter(paused=True).exists()


def test_all_that_match_can_be_archived_and_the_filters_stay(browser: Client, alice: Any):
    for title in ("Sea salt", "Sea ice", "Sailing"):
        make(alice, title)

    response = bulk(browser, "archive", query="?q=sea", all="1")

    assert response.request["QUERY_STRING"] == "q=sea"
    assert "Archived 2 topics." in text_of(response)
    assert [topic.title for topic in Topic.objects.active()] == ["Sailing"]


def test_a_bulk_run_says_which_could_not_start(browser: Client, alice: Any):
    one, two = make(alice, "One"), make(alice, "Two")
    Run.objects.start(two, trigger="person", by=alice.actor)

    page = text_of(bulk(browser, "run", one, two))

    assert "Started 1 run." in page
    assert "Two: A run of this topic is already in progress." in page


@pytest.mark.parametrize("act", ["pause", "", "delete"])
def test_nothing_selected_is_explained(browser: Client, act: str):
    assert "Select at least one topic" in text_of(bulk(browser, act))


@pytest.mark.requirement("R232")
def test_no_one_acts_on_what_is_anothers(client_of: ClientOf, alice: Any, bob: Any):
    topic = make(alice, "Sailing")

    bulk(client_of(bob), "archive", topic)

    topic.refresh_from_db()
    assert topic.archived_at is None
