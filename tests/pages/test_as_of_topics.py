"""The pages of topics as of a date: the list, Read, Sources, Runs and the next run's context."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import Source, Topic, TopicFact, User
from memory.models.as_of import at
from research.models import Correction, DeltaItem, Run
from tests.pages.test_as_of import TEN_DAYS_AGO, day, days_ago, moved
from tests.research.factories import (
    make_fact,
    make_hit,
    make_item,
    make_report,
    make_run,
    make_topic,
)

TABS = ("", "sources/", "runs/", "memory/")
OLD, NEW = "The harbour opens at seven each day.", "The harbour opens at nine each day."
LATER = "A second crane was built at the harbour."


@pytest.fixture
def topic(alice: User) -> Topic:
    """A topic with a run of 15 days ago and one of today, which found and corrected facts."""
    topic = make_topic(alice, "Harbours")
    moved(topic, days_ago(20))
    first = make_run(topic)
    report = make_report(first, title="The first report")
    fact = make_fact(topic, OLD, first, url="https://example.org/1")
    make_hit(first, 1, cited_as=1, domain="first.example")
    Run.objects.filter(pk=first.pk).update(created=days_ago(15), finished_at=days_ago(15))
    for one in (report, fact):
        moved(one, days_ago(15))
    fact.refresh_from_db()
    fact.edit(NEW, by=alice.actor)
    second = make_run(topic)
    make_report(second, title="The second report")
    make_fact(topic, LATER, second)
    make_item(second, DeltaItem.Status.NEW, LATER)
    make_hit(second, 2, domain="second.example")
    for n in (1, 2):
        url = f"https://example.org/{n}"
        dates = {"first_at": days_ago(15) if n == 1 else timezone.now(), "last_at": timezone.now()}
        Source.objects.create(
            topic=topic, url=url, link=url, domain="example.org", first_run=n, last_run=2,
            times_read=4, times_cited=3, **dates,
        )  # fmt: skip
    Topic.objects.filter(pk=topic.pk).update(
        run_count=2, last_run_at=timezone.now(), expires_at=timezone.now() + timedelta(days=30)
    )
    return topic


def read(browser: Client, topic: Topic, tab: str, as_of: str = TEN_DAYS_AGO) -> str:
    page = browser.get(f"/topics/{topic.slug}/{tab}", {"as_of": as_of} if as_of else {})
    assert page.status_code == 200, page.content.decode()[:2000]
    return page.content.decode()


@pytest.mark.parametrize("tab", TABS)
def test_a_tab_as_of_a_day_is_read_only_and_keeps_the_date(
    browser: Client, topic: Topic, tab: str
) -> None:
    then = read(browser, topic, tab)
    assert "Back to current view" in then
    main = then.partition('<div class="page">')[2].partition("</main>")[0]
    assert 'method="post"' not in main
    assert f'href="/topics/{topic.slug}/runs/?as_of={TEN_DAYS_AGO}"' in main
    assert LATER not in then and "second.example" not in then


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("typed", ["1999-12-31", "2999-01-01", "soon"])
def test_a_tab_explains_other_days(browser: Client, topic: Topic, tab: str, typed: str) -> None:
    page = browser.get(f"/topics/{topic.slug}/{tab}", {"as_of": typed})
    words = "No records on" if typed < "2000" else "can’t be shown"
    assert words in page.content.decode()


@pytest.mark.parametrize("tab", TABS)
def test_a_later_topic_isnt_found_on_the_day(browser: Client, topic: Topic, tab: str) -> None:
    later = make_topic(topic.owner, "Lanterns")
    page = browser.get(f"/topics/{later.slug}/{tab}", {"as_of": TEN_DAYS_AGO})
    assert page.status_code == 404
    assert "Not found on" in page.content.decode() and "Lanterns" not in page.content.decode()


def test_read_shows_the_facts_and_the_run_of_the_day(browser: Client, topic: Topic) -> None:
    now, then = read(browser, topic, "", ""), read(browser, topic, "")
    assert NEW in now and LATER in now and OLD not in now
    assert OLD in then and NEW not in then
    assert "data-mark-read" in now and "data-mark-read" not in then
    assert "data-row-note" in now and "data-row-note" not in then
    assert "Run #2" not in then


def test_a_day_before_the_first_report_has_none(browser: Client, topic: Topic) -> None:
    page = read(browser, topic, "", day(days_ago(17)))
    assert "No report yet" in page and "Run now" not in page


def test_a_correction_is_shown_from_its_day(browser: Client, topic: Topic) -> None:
    report = Run.objects.get(topic=topic, number=1).report
    made = Correction.objects.create(
        owner=topic.owner, topic=topic, report=report, sentence=OLD, key="0" * 16, right=NEW,
        by="human:alice", created=days_ago(5), undone_at=days_ago(2),
    )  # fmt: skip
    for when, standing in ((10, 0), (3, 1), (1, 0)):
        with at(topic.owner, days_ago(when)):
            found = Correction.objects.filter(pk=made.pk).standing().count()
        assert found == standing, when


def test_runs_of_later_days_arent_listed(browser: Client, topic: Topic) -> None:
    make_run(topic, saved=False, status=Run.Status.FAILED, error="The network was down.")
    now, then = read(browser, topic, "runs/", ""), read(browser, topic, "runs/")
    assert "Run #2" in now and "network" in now
    assert "Run #1" in then and "Run #2" not in then and "network" not in then


def test_sources_have_the_figures_of_the_day(browser: Client, topic: Topic) -> None:
    then = read(browser, topic, "sources/?by=page").partition('id="sources"')[2]
    page = browser.get(f"/topics/{topic.slug}/sources/", {"as_of": TEN_DAYS_AGO, "by": "page"})
    [row] = page.context["rows"]
    # The ledger counted four reads until today, and the run of that day one.
    assert (row.place, row.read, row.cited) == (
        "https://example.org/1",
        1,
        1,
    )
    assert row.last_at < days_ago(10)
    assert "Source rules have no history" in then
    file = browser.get(f"/topics/{topic.slug}/sources/sources.csv", {"as_of": TEN_DAYS_AGO})
    assert file.status_code in (200, 404)


def test_the_next_runs_context_is_that_of_the_day(browser: Client, topic: Topic) -> None:
    now, then = read(browser, topic, "memory/", ""), read(browser, topic, "memory/")
    assert NEW in now and LATER in now
    assert OLD in then and NEW not in then
    assert "settings and source rules have no history" in then


def test_topics_are_listed_as_of_a_day(browser: Client, topic: Topic) -> None:
    make_topic(topic.owner, "Lanterns")
    topic.refresh_from_db()
    topic.change(by=topic.owner.actor, title="Ports")
    now = browser.get("/topics/").content.decode()
    page = browser.get("/topics/", {"as_of": TEN_DAYS_AGO})
    then = page.content.decode()
    assert "Ports" in now and "Lanterns" in now
    assert "Harbours" in then and "Ports" not in then and "Lanterns" not in then
    [row] = page.context["rows"]
    assert row.last_run.number == 1 and row.topic.fact_count == 1
    for change in ('name="act"', 'name="topic"', "formaction=", "Next run"):
        assert change in now and change not in then
    assert f'href="/topics/{row.topic.slug}/?as_of={TEN_DAYS_AGO}"' in then


def test_a_struck_fact_was_known_before(browser: Client, topic: Topic) -> None:
    TopicFact.objects.get(text=NEW).strike(by=topic.owner.actor)
    assert OLD in read(browser, topic, "memory/")
    assert OLD in read(browser, topic, "")


def test_a_stranger_sees_no_topic_at_any_date(client_of: object, bob: User, topic: Topic) -> None:
    moved(make_topic(bob, "Own"), days_ago(20))
    page = client_of(bob).get(f"/topics/{topic.slug}/", {"as_of": TEN_DAYS_AGO})  # type: ignore[operator]
    assert page.status_code == 404
