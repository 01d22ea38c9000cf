"""Home: what is unread, running, expiring and due, and what the month cost."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.formats import date_format
from pytest_django import DjangoAssertNumQueries

from memory.models import Note, Topic
from research.models import Report, Run, Step
from research.pages import home as pages_home
from research.pages import places
from research.services.runs import trash
from research.services.schedules import scheduling
from tests.research.factories import (
    make_call,
    make_item,
    make_report,
    make_run,
    make_second_run,
    make_steps,
    make_topic,
)

HTMX = {"HX-Request": "true"}


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    """Alice's browser."""
    return client_of(alice)


def home(browser: Client) -> str:
    response = browser.get("/")
    assert response.status_code == 200
    return response.content.decode()


def test_a_fresh_account_is_told_what_works_and_offered_the_sample(browser: Client):
    body = home(browser)

    assert "Available without a model or API key" in body
    assert "Try the sample topic" in body
    assert 'action="/topics/sample/"' in body
    assert 'href="/topics/new/"' in body


def test_unread_reports_come_with_their_changes_by_kind(browser: Client, alice: Any):
    run = make_second_run(make_topic(alice))
    Report.objects.get(run__topic=run.topic, run__number=1).mark_read()

    body = home(browser)

    assert "Run #2" in body
    for tag in ("+ 1", "≠ 1", "! 1"):
        assert f'{tag}<span class="narrow-word">' in body
    assert "fastest" not in body  # what was withheld is not news


def test_a_report_without_news_is_quiet(browser: Client, alice: Any):
    topic = make_topic(alice)
    make_report(make_run(topic)).mark_read()
    make_report(make_run(topic))

    body = home(browser)

    quiet = body.partition("Nothing new:")[2].partition("</p>")[0]
    assert f'href="/topics/{topic.slug}/"' in quiet
    assert ">nothing new<" not in body
    assert "Mark all as read" in body


def test_a_partial_run_without_news_keeps_its_row(browser: Client, alice: Any):
    topic = make_topic(alice)
    make_report(make_run(topic)).mark_read()
    make_report(make_run(topic, known_count=31, status="partial"))

    body = home(browser)

    assert "31 known sources appeared again" in body
    assert ">nothing new<" in body
    assert "Nothing new:" not in body


def test_when_all_is_read_the_last_change_is_named(browser: Client, alice: Any, bob: Any):
    topic = make_topic(alice)
    for _number in range(2):
        make_report(run := make_run(topic))
    make_item(run, "changed", "The price is 80 euros.")
    make_item(run, "new", "A later line of the same report.")
    make_item(make_second_run(make_topic(bob)), "new", "A secret of Bob's.")
    Report.objects.filter(run__topic=topic).update(read_at=timezone.now())

    body = home(browser)

    assert "You’re up to date.</b> Last change on" in body
    assert f'{topic.slug}/?from=2&amp;to=2"><bdi>The price is 80 euros.</bdi>' in body
    assert "secret" not in body


def test_a_change_whose_report_is_in_trash_is_not_named(browser: Client, alice: Any):
    topic = make_topic(alice)
    make_report(make_run(topic)).mark_read()
    report = make_report(run := make_run(topic))
    make_item(run, "changed", "The price is 80 euros.")
    report.mark_read()
    assert "The price is 80 euros." in home(browser)

    trash.trash_run(report, by=alice.actor)

    assert "The price is 80 euros." not in home(browser)


def test_a_statement_that_is_gone_is_not_shown_as_news(browser: Client, alice: Any):
    topic = make_topic(alice)
    make_report(make_run(topic)).mark_read()
    make_report(run := make_run(topic))
    make_item(run, "gone", "The old price is 90 euros.", previous_text="The old price is 90 euros.")

    body = home(browser)

    said = '<span class="tag gone">gone</span> The old price is 90 euros.'
    assert said in body
    assert '− 1<span class="narrow-word">' in body
    assert ">nothing new<" not in body


@pytest.mark.parametrize(("days", "words"), [(1, "l H:i"), (30, "j M Y, H:i")])
def test_the_last_time_of_reading_is_a_weekday_only_within_a_week(
    browser: Client, alice: Any, days: int, words: str
):
    topic = make_topic(alice)
    read = make_report(make_run(topic))
    make_report(make_run(topic))
    at = timezone.now() - timedelta(days=days)
    Report.objects.filter(pk=read.pk).update(read_at=at)

    assert f">{date_format(timezone.localtime(at), words)}</time></h2>" in home(browser)


def test_after_a_part_was_read_only_the_rest_is_counted(browser: Client, alice: Any):
    topic = make_topic(alice)
    runs = [make_run(topic) for _number in range(4)]
    for run in runs:
        make_report(run)
    for run, text in zip(
        runs[1:], ("Tea costs two euros.", "It rains.", "The sun is out."), strict=True
    ):
        make_item(run, "new", text)
    assert 'aria-hidden="true" title="new facts">+ 3<' in home(browser)

    Report.objects.get(run=runs[2]).mark_read()
    topic.archive(by=alice.actor)
    body = home(browser)

    assert "Run #4" in body and 'title="new fact">+ 1<' in body
    assert "The sun is out." in body and "It rains." not in body
    assert Report.objects.for_user(alice).unread().count() == 3


def test_what_was_read_is_gone_from_the_list(browser: Client, alice: Any):
    make_report(make_run(make_topic(alice))).mark_read()

    body = home(browser)

    assert "You’re up to date." in body
    assert "Available without a model" not in body


def test_a_run_in_progress_shows_what_it_does_and_how_far(browser: Client, alice: Any):
    run = make_run(make_topic(alice), saved=False)
    counts = {"read": 9, "pages": 14}
    make_steps(run, done=4, state=Step.State.RUNNING, detail="9 of 14 pages", counts=counts)

    body = home(browser)

    assert "9 of 14 pages" in body
    assert 'value="9" max="14"' in body
    assert f"/runs/{run.pk}/" in body


@pytest.mark.requirement("R227")
def test_over_htmx_the_running_ones_come_alone_and_an_idle_poll_is_empty(
    browser: Client, alice: Any
):
    run = make_run(make_topic(alice), saved=False)
    seen = pages_home.signature(pages_home.unfinished_runs(alice))

    assert browser.get(f"/?running={seen}", headers=HTMX).status_code == 204

    Run.objects.filter(pk=run.pk).update(progress=7)
    body = browser.get(f"/?running={seen}", headers=HTMX).content.decode()
    assert "<html" not in body
    assert f"?running={run.pk}.7" in body


def test_when_a_run_has_ended_the_poll_asks_for_the_page_again(browser: Client, alice: Any):
    run = make_run(make_topic(alice), saved=False)
    seen = pages_home.signature(pages_home.unfinished_runs(alice))
    Run.objects.filter(pk=run.pk).update(status="failed")

    assert browser.get(f"/?running={seen}", headers=HTMX)["HX-Refresh"] == "true"


def test_notes_that_expire_within_a_week_are_counted(browser: Client, alice: Any, bob: Any):
    make_topic(alice)
    for owner, days in ((alice, 3), (alice, 6), (alice, 9), (bob, 3)):
        note = Note(owner=owner, content="Compared hosts.", stability="volatile", ttl_days=days)
        note.expires_at = timezone.now() + timedelta(days=days)
        note.save()

    page = browser.get("/").content.decode()

    assert "2 notes</a> expire within a week" in page
    assert "/notes/?sort=expires" in page


def test_memory_that_expires_within_a_week_is_named(browser: Client, alice: Any):
    for title, days in (("Soon gone", 3), ("Long kept", 20)):
        topic = make_topic(alice, title)
        until = timezone.now() + timedelta(days=days)
        Topic.objects.filter(pk=topic.pk).update(expires_at=until)

    body = home(browser)

    assert "Expiring soon" in body
    assert "Soon gone" in body
    assert "Long kept" not in body


def test_the_next_runs_are_listed_but_not_those_of_paused_or_archived_topics(
    browser: Client, alice: Any
):
    fields = scheduling.schedule_fields(preset="daily", time_zone="UTC")
    make_topic(alice, "Rail freight", schedule=fields)
    scheduling.set_paused(
        make_topic(alice, "At rest", schedule=fields), paused=True, by=alice.actor
    )
    make_topic(alice, "Put away", schedule=fields).archive(by=alice.actor)

    body = home(browser)

    assert "Rail freight" in body
    assert "At rest" not in body
    assert "Put away" not in body


def test_the_month_is_summed_up_next_to_the_budget(browser: Client, alice: Any):
    alice.monthly_money = Decimal("5.00")
    alice.save(update_fields=["monthly_money"])
    run = make_run(make_topic(alice))
    make_call(run, money=Decimal("0.25"))
    make_call(run, money=Decimal("0.93"))
    make_call(run, money=Decimal("9"), created=timezone.now() - timedelta(days=40))

    body = home(browser)

    assert "$1.18 of $5.00" in body
    assert "2,560" in body
    assert "<polyline points=" not in body  # a line needs three days


def test_calls_of_unknown_price_are_named_next_to_the_months_cost(browser: Client, alice: Any):
    run = make_run(make_topic(alice))
    make_call(run, money=Decimal("0.25"))
    make_call(run, money=None)

    body = home(browser)
    assert "$0.25</dd>" in body and ">1</dd>" in body.partition("Unpriced calls")[2]


def test_topics_whose_last_run_failed_are_reported_with_their_common_reason(
    browser: Client, alice: Any
):
    for number in range(7):
        run = make_run(make_topic(alice, f"Topic {number}"), saved=False)
        Run.objects.filter(pk=run.pk).update(status=Run.Status.FAILED, error="no route")

    body = home(browser)

    assert "The last run failed for 7 topics" in body
    assert body.count("No route") == 1
    assert f'/runs/{run.pk}/"><bdi>Topic 6' in body
    assert "Topic 1" not in body


def test_a_failure_that_a_later_run_followed_isnt_news(browser: Client, alice: Any):
    topic = make_topic(alice)
    failed = make_run(topic, saved=False)
    Run.objects.filter(pk=failed.pk).update(status=Run.Status.FAILED, error="no route")
    make_run(topic)

    assert "last run failed" not in home(browser)


def test_home_shows_nothing_of_others(browser: Client, alice: Any, bob: Any):
    make_second_run(make_topic(bob, "A secret of Bob's"))
    make_run(make_topic(bob, "Another secret"), saved=False)

    assert "secret" not in home(browser).lower()


@pytest.mark.requirement("R232")
def test_who_is_not_signed_in_is_sent_to_sign_in(alice: Any):
    assert Client().get("/").url.startswith("/sign-in/")


@pytest.mark.parametrize("query", ["running=%00", "running=x.y-z", "running="])
def test_a_poll_that_makes_no_sense_does_no_harm(browser: Client, alice: Any, query: str):
    make_run(make_topic(alice), saved=False)

    assert browser.get(f"/?{query}", headers=HTMX).status_code == 200


def test_the_number_of_queries_is_fixed(
    browser: Client, alice: Any, django_assert_max_num_queries: DjangoAssertNumQueries
):
    fields = scheduling.schedule_fields(preset="daily", time_zone="UTC")
    for number in range(8):
        topic = make_topic(alice, f"Topic {number}", schedule=fields)
        make_second_run(topic)
        unfinished_runs = make_run(topic, saved=False)
        make_steps(unfinished_runs, done=3, state=Step.State.RUNNING)
        make_call(unfinished_runs)

    browser.get("/")

    with django_assert_max_num_queries(16):
        browser.get("/")


def test_a_summary_comes_without_marks_that_lead_nowhere_here(browser: Client, alice: Any):
    make_report(make_run(make_topic(alice)))

    body = home(browser)

    assert "closes two faults, and support for version 13 ends." in body
    assert "[1]" not in body


def test_so_many_unread_reports_are_counted_and_no_more(
    browser: Client, alice: Any, monkeypatch: pytest.MonkeyPatch
):
    topic = make_topic(alice, "Lithium")
    for _number in range(2):
        make_report(make_run(topic))
    monkeypatch.setattr(places, "MAX_UNREAD", 3)
    places._question.cache_clear()  # the limit is part of it

    few = browser.get("/").context
    for _number in range(2):
        make_report(make_run(topic))
    many = browser.get("/").context
    places._question.cache_clear()

    assert (few["unread_shown"], few["waiting_in_all"], few["unread_reports"]) == ("2", "2", 2)
    assert (many["unread_shown"], many["waiting_in_all"], many["unread_reports"]) == ("2+", "2+", 3)
    (item,) = [item for section in many["nav"] for item in section if item["key"] == "t"]
    assert item["count"] == "2+"


def test_changes_in_a_line_each_end_before_the_next_begins(browser: Client, alice: Any):
    run = make_second_run(make_topic(alice))
    Report.objects.get(run__topic=run.topic, run__number=1).mark_read()
    for item in run.delta_items.all():
        item.sentence = f"PostgreSQL {item.position}: Status Available"
        item.save()

    line = re.search(r'<p class="unread-line[^>]*>(.*?)</p>', home(browser), re.DOTALL)

    assert line
    words = " ".join(re.sub(r"<[^>]*>", "", line[1]).split())
    assert re.search(r"1: Status Available\. (\S+ )?PostgreSQL \d: Status Available\.", words)
