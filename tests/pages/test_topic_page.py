"""A topic's tabs: read, facts over time, sources, runs, memory, and the preview of a run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memory.models import Activity, SeenUrl, Source, Topic
from memory.models.actors import RESEARCH
from research.models import TopicSettings
from research.services.schedules import scheduling
from tests.pages.topic_cast import text_of
from tests.research.factories import (
    make_fact,
    make_report,
    make_run,
    make_second_run,
    make_topic,
)

HTMX = {"HX-Request": "true"}
HOME = "/topics/postgresql-releases/"
TABS = ["", "facts/", "facts/?view=list", "sources/", "runs/", "memory/"]


def body_of(browser: Client, path: str, **more: Any) -> str:
    response = browser.get(path, **more)
    assert response.status_code == 200
    return response.content.decode()


def make_sources(topic: Topic, count: int) -> None:
    now = timezone.now()
    Source.objects.bulk_create(
        Source(
            topic=topic,
            url=f"https://{'abc'[n % 3]}.example.org/{n}",
            link=f"https://{'abc'[n % 3]}.example.org/{n}",
            domain=f"{'abc'[n % 3]}.example.org",
            title=f"Page number {n}",
            first_run=1,
            last_run=1,
            times_read=1,
            last_at=now,
        )
        for n in range(count)
    )


# --- every tab ---------------------------------------------------------------------------------


@pytest.mark.requirement("R60", "R225")
@pytest.mark.parametrize("tab", TABS)
def test_every_tab_works_for_a_topic_with_runs_and_for_one_without(
    browser: Client, topic: Topic, tab: str
):
    assert "PostgreSQL releases" in body_of(browser, HOME + tab)

    make_second_run(topic)

    assert "PostgreSQL releases" in body_of(browser, HOME + tab)


@pytest.mark.requirement("R232")
@pytest.mark.parametrize("tab", [*TABS, "memory.json"])
def test_a_stranger_finds_nothing_at_any_tab(
    topic: Topic, bob: Any, client_of: Callable[[Any], Client], tab: str
):
    assert client_of(bob).get(HOME + tab).status_code == 404
    assert Client().get(HOME + tab).status_code == 302


@pytest.mark.parametrize("tab", TABS)
def test_a_topic_in_the_trash_has_no_page(browser: Client, topic: Topic, tab: str):
    topic.trash(by=topic.owner.actor)

    assert browser.get(HOME + tab).status_code == 404


def test_links_with_a_topics_earlier_name_lead_to_it(
    browser: Client, topic: Topic, bob: Any, client_of: Callable[[Any], Client]
):
    topic.rename("Boats", by=topic.owner.actor)
    topic.rename("Ships", by=topic.owner.actor)

    assert (
        browser.get(f"{HOME}facts/?view=list").headers["Location"]
        == "/topics/ships/facts/?view=list"
    )
    assert browser.get("/topics/boats/").headers["Location"] == "/topics/ships/"
    assert browser.get("/topics/ships/runs/4711/").status_code == 404
    sent = browser.post(f"{HOME}settings/?a=1", {"title": "Rafts"})  # open since before
    assert (sent.status_code, sent.headers["Location"]) == (307, "/topics/ships/settings/?a=1")
    assert browser.post("/topics/ships/runs/4711/cancel/").status_code == 404
    assert client_of(bob).post(f"{HOME}run/").status_code == 404
    assert client_of(bob).get(HOME).status_code == 404


def test_topics_that_have_swapped_names_do_not_redirect_to_each_other(
    browser: Client, topic: Topic
):
    title = topic.title
    topic.rename("Boats", by=topic.owner.actor)
    Topic.objects.create_topic(owner=topic.owner, title=title, by=topic.owner.actor)

    assert browser.get(f"{HOME}runs/4711/").status_code == 404
    assert browser.get("/topics/boats/runs/4711/").status_code == 404


@pytest.mark.requirement("R227")
@pytest.mark.parametrize(("tab", "root"), [("sources/", "sources"), ("runs/", "runs")])
def test_over_htmx_a_list_comes_alone(browser: Client, topic: Topic, tab: str, root: str):
    body = body_of(browser, HOME + tab, headers=HTMX)

    assert body.lstrip().startswith(f'<section id="{root}"')
    assert "<html" not in body


@pytest.mark.parametrize("tab", ["facts/", "sources/", "runs/"])
def test_a_cursor_that_cannot_be_read_shows_the_first_page(browser: Client, topic: Topic, tab: str):
    make_second_run(topic)

    assert "PostgreSQL" in body_of(browser, HOME + tab + "?cursor=%00nonsense&q=%00")


@pytest.mark.parametrize("tab", TABS)
def test_the_number_of_queries_is_fixed(
    browser: Client,
    topic: Topic,
    tab: str,
    django_assert_max_num_queries: DjangoAssertNumQueries,
):
    make_second_run(topic)
    for _again in range(5):
        make_report(make_run(topic))
    for number in range(6):
        make_fact(topic, f"A further fact number {number} of some length.").retire(
            by=RESEARCH, why="gone", run=number + 1
        )
    make_sources(topic, 60)

    # The memory's tab reads it just as a run would: in a savepoint, its pages, and again as JSON.
    # What is read asks for runs, changes, facts, sources, remarks, notes and lines of memory.
    # Facts over time also show where the selected fact comes from, and what depends on it.
    with django_assert_max_num_queries(
        {"": 20, "memory/": 18, "facts/": 24, "facts/?view=list": 14}.get(tab, 12)
    ):
        browser.get(HOME + tab)


# --- the report ----------------------------------------------------------------------------------


def test_a_new_topic_says_so_and_offers_to_run(browser: Client, topic: Topic):
    body = body_of(browser, HOME)

    assert "No report yet" in body
    assert f'action="{HOME}run/"' in body


def test_the_latest_report_is_shown_in_full_with_what_changed(browser: Client, topic: Topic):
    make_second_run(topic)

    body = body_of(browser, HOME)

    assert "What changed" in body
    assert "Version 18.1 repairs index corruption after a crash." in body
    assert 'id="source-2"' in body
    assert "Run #2" in body


def test_a_run_in_progress_is_above_the_report(browser: Client, topic: Topic):
    make_report(make_run(topic))
    unfinished_runs = make_run(topic, saved=False)

    body = body_of(browser, HOME)

    assert "A run is in progress." in body
    assert f"{HOME}runs/{unfinished_runs.pk}/" in body


def test_a_failed_run_is_told_of_next_to_the_report_before_it(browser: Client, topic: Topic):
    make_report(make_run(topic))
    make_run(topic, saved=False, status="failed", error="no search service answered")

    body = body_of(browser, HOME)

    assert "The last run failed." in body
    assert "no search service answered" in body
    assert "Version 18.1 closes two faults" in body


@pytest.mark.requirement("R52")
def test_a_recurring_topic_without_a_live_run_is_scheduled(browser: Client, alice: Any):
    fields = scheduling.schedule_fields(preset="weekly", time_zone="UTC")
    make_topic(alice, "Weekly news", schedule=fields)

    assert "Scheduled</span>" in body_of(browser, "/topics/weekly-news/")


# --- the timeline --------------------------------------------------------------------------------


@pytest.mark.requirement("R20")
def test_facts_of_an_earlier_run_stay_in_the_timeline_with_the_run_that_retired_them(
    browser: Client, topic: Topic
):
    run = make_second_run(topic)

    body = body_of(browser, HOME + "facts/?view=list")

    assert "Version 13 receives fixes until November 2025." in body
    assert "Replaced in Run #2" in body and 'quiet-tag">retired' not in body
    assert f"{HOME}runs/{run.pk}/" in body


def test_a_struck_fact_is_in_the_timeline_with_who_and_why(browser: Client, topic: Topic):
    fact = make_fact(topic, "Version 13 lives for ever and ever.")
    fact.strike(by=topic.owner.actor, why="plainly wrong")

    body = body_of(browser, HOME + "facts/?view=list")

    assert "plainly wrong" in body
    assert "alice" in body


def test_the_timeline_is_paged_without_losing_or_repeating_a_fact(browser: Client, topic: Topic):
    for number in range(60):
        fact = make_fact(topic, f"A retired fact number {number:03} of some length.")
        fact.retire(by=RESEARCH, why="gone", run=number // 5 + 1)

    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = browser.get(HOME + "facts/", {"view": "list", "cursor": cursor})
        seen += [row.fact.text for row in page.context["rows"]]
        cursor = page.context["next_cursor"]

    assert len(seen) == len(set(seen)) == 60


# --- sources -------------------------------------------------------------------------------------


def test_the_ledger_is_filtered_by_domain_and_words(browser: Client, topic: Topic):
    make_sources(topic, 9)

    body = body_of(browser, HOME + "sources/?domain=a.example.org&q=number+3")

    assert "Page number 3" in body
    assert "Page number 6" not in body
    assert "Page number 1" not in body


def test_every_source_is_on_exactly_one_page(browser: Client, topic: Topic):
    make_sources(topic, 120)
    seen: list[str] = []
    cursor: str | None = ""

    while cursor is not None:
        page = browser.get(HOME + "sources/", {"cursor": cursor, "by": "page"})
        seen += [row.place for row in page.context["rows"]]
        cursor = page.context["next_cursor"]

    assert len(seen) == len(set(seen)) == 120


def test_an_address_that_isnt_a_web_address_isnt_a_link(browser: Client, topic: Topic):
    make_sources(topic, 1)
    Source.objects.update(link="javascript:alert(1)", title="A trap")

    body = body_of(browser, HOME + "sources/?by=page")

    assert "A trap" in body
    assert 'href="javascript' not in body


def test_the_seen_addresses_are_counted(browser: Client, topic: Topic):
    make_sources(topic, 1)
    SeenUrl.objects.create(
        topic=topic, url="https://a.org/", returned_in=1, returned_at=timezone.now()
    )

    assert "1 known URL" in body_of(browser, HOME + "sources/")


# --- runs ----------------------------------------------------------------------------------------


def test_all_runs_are_listed_also_those_without_a_report(browser: Client, topic: Topic):
    make_run(topic, prompt_tokens=1200, completion_tokens=34)
    make_run(topic, saved=False, status="failed", error="the search service rejected the key")

    body = body_of(browser, HOME + "runs/")

    assert "Run #1" in body
    assert "1,234" in body
    assert "The search service rejected the key" in body


def test_runs_are_paged_by_keyset(browser: Client, topic: Topic):
    for _number in range(53):
        make_run(topic)

    first = browser.get(HOME + "runs/")
    second = browser.get(HOME + "runs/", {"cursor": first.context["next_cursor"]})

    numbers = [row["run"].number for row in [*first.context["rows"], *second.context["rows"]]]
    assert numbers == list(range(53, 0, -1))


# --- memory --------------------------------------------------------------------------------------


@pytest.mark.requirement("R237")
def test_the_memory_is_handed_out_with_the_six_fields_of_seed_000(browser: Client, topic: Topic):
    make_second_run(topic)
    SeenUrl.objects.create(
        topic=topic, url="https://a.org/", returned_in=1, returned_at=timezone.now()
    )

    response = browser.get(HOME + "memory.json")

    memory = response.json()
    assert list(memory) == [
        "topic", "seenUrls", "keyFacts", "lastRunAt", "runCount", "reportSummary",
    ]  # fmt: skip
    assert memory["seenUrls"] == ["https://a.org/"]
    assert memory["runCount"] == 2
    assert "attachment" in response["Content-Disposition"]


def test_what_enters_the_next_prompt_is_shown_word_for_word(browser: Client, topic: Topic):
    make_second_run(topic)
    fact = make_fact(topic, "Version 13 lives for ever and ever.")
    fact.strike(by=topic.owner.actor)

    body = body_of(browser, HOME + "memory/")

    assert "Version 18.1 repairs index corruption after a crash." in body
    assert "Marked by the owner as wrong or unwanted" in body


def test_what_the_next_run_does_comes_before_its_prompt(browser: Client, topic: Topic):
    make_second_run(topic)
    TopicSettings.objects.filter(topic=topic).update(
        focus="Index corruption", block_domains=["spam.example"]
    )
    make_sources(topic, 2)
    Source.objects.filter(topic=topic).update(times_cited=1, last_run=2)

    shown = browser.get(HOME + "memory/").content.decode()

    places = ["Index corruption", ">Known facts", ">Read again", "spam.example", ">Prompt</h2>"]
    assert sorted(places, key=shown.index) == places
    assert "The next run reads" in shown and 'class="fold-row">' in shown
    again = shown.partition(">Read again")[2].partition("</details>")[0]
    assert again.count("<li>") == again.count('<a class="name" href="https://') == 2


def test_memory_is_ended_and_revived_by_hand_with_undo(browser: Client, topic: Topic):
    make_run(topic)

    ended = browser.post(HOME + "memory/end/", follow=True).content.decode()
    topic.refresh_from_db()
    assert topic.memory_has_lapsed
    assert f'action="{HOME}memory/revive/"' in ended

    browser.post(HOME + "memory/revive/")
    topic.refresh_from_db()
    assert topic.memory_is_live()


def test_lapsed_memory_says_so_and_when(browser: Client, topic: Topic):
    make_run(topic)
    Topic.objects.filter(pk=topic.pk).update(expires_at=timezone.now() - timedelta(days=2))

    body = body_of(browser, HOME + "memory/")

    assert "Expired on" in body
    assert "Restore memory" in body


def test_ending_a_memory_that_is_not_there_is_explained(browser: Client, topic: Topic):
    body = browser.post(HOME + "memory/end/", follow=True).content.decode()

    assert "There’s no active memory to expire." in body


@pytest.mark.parametrize(("hours", "words"), [(5, "Expires within a day"), (260, "in 11 days")])
def test_the_expiry_is_reported_in_days(browser: Client, topic: Topic, hours: int, words: str):
    make_run(topic)
    Topic.objects.filter(pk=topic.pk).update(expires_at=timezone.now() + timedelta(hours=hours))

    assert words in body_of(browser, HOME + "memory/")


@pytest.mark.requirement("R232")
@pytest.mark.parametrize("act", ["memory/end/", "memory/revive/"])
def test_a_stranger_changes_no_memory_and_no_one_by_get(
    browser: Client, topic: Topic, bob: Any, client_of: Callable[[Any], Client], act: str
):
    assert client_of(bob).post(HOME + act).status_code == 404
    assert browser.get(HOME + act).status_code == 405


# --- what to know before a run, and what became of the schedule ------------------------------------


@pytest.mark.requirement("R54")
def test_slots_that_were_missed_are_told_next_to_the_tabs(browser: Client, topic: Topic):
    why = "3 scheduled runs were missed while Beacon was off, so Beacon started one run to catch up"
    Activity.log(topic.owner, RESEARCH, "schedule-caught-up", subject=topic, why=why)

    assert why in text_of(browser.get(f"/topics/{topic.slug}/runs/"))


@pytest.mark.requirement("R233")
def test_the_few_runs_left_of_the_hour_are_told_near_the_button(
    browser: Client, topic: Topic, settings: Any
):
    settings.BEACON_RUNS_PER_HOUR = 2

    shown = text_of(browser.get(f"/topics/{topic.slug}/runs/"))

    assert "You can start 2 more runs this hour. The limit is 2." in shown
