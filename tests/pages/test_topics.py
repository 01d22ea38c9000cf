"""The list of topics, its bulk acts, the buttons of one topic, and the sample."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import Activity, Source, Topic, TopicFact
from research import scheduling
from research.models import DeltaItem, Report, Run, Schedule
from research.starting import create_topic

URL = "/topics/"
HTMX = {"HX-Request": "true"}
ClientOf = Callable[[Any], Client]


@pytest.fixture(autouse=True)
def no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("research.outbox.send", lambda *args, **kwargs: True)


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    return client_of(alice)


def make(owner: Any, title: str, *, preset: str = "none", **fields: Any) -> Topic:
    schedule = scheduling.schedule_fields(preset=preset, time_zone="UTC")
    return create_topic(owner=owner, title=title, by=owner.actor, schedule=schedule, **fields)


def ran(topic: Topic, number: int, **fields: Any) -> Run:
    fields = {"status": Run.Status.SUCCEEDED, "finished_at": timezone.now()} | fields
    run = Run.objects.create(topic=topic, number=number, **fields)
    Topic.objects.filter(pk=topic.pk).update(run_count=number, last_run_at=run.finished_at)
    return run


def reported(topic: Topic, number: int, *, changes: int = 0) -> Run:
    run = ran(topic, number, new_count=number)
    Report.objects.create(owner=topic.owner, run=run, title=topic.title, written_by="test")
    for position in range(changes):
        DeltaItem.objects.create(run=run, position=position, status="new", sentence="It is so.")
    return run


def text_of(response: Any) -> str:
    return " ".join(response.content.decode().split())


# --- the five of every page -----------------------------------------------------------------------


@pytest.mark.requirement("R59")
def test_it_shows_runs_last_run_sources_facts_and_summary(browser: Client, alice: Any):
    topic = make(alice, "Batteries", preset="weekly", labels=["energy"])
    Topic.objects.filter(pk=topic.pk).update(summary="Prices fell again.")
    TopicFact.objects.add(topic, "A cell costs 89 dollars a kilowatt hour.", by=alice.actor)
    Source.objects.create(
        topic=topic, url="https://a.example/", domain="a.example", first_run=1, last_run=1
    )
    reported(topic, 2, changes=3)

    page = text_of(browser.get(URL))

    for words in ("Batteries", "Scheduled", "#2", "3 changes", "Prices fell again.", "energy"):
        assert words in page
    assert "every Monday at 07:00 (UTC)" in page
    assert 'data-label="Facts">1<' in page


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
    with django_assert_num_queries(9) as queries:
        browser.get(URL)
    assert len(queries) <= 12


# --- what a row says ------------------------------------------------------------------------------


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


def test_a_report_that_was_read_is_nothing_new(browser: Client, alice: Any):
    run = reported(make(alice, "Batteries"), 1, changes=3)
    assert "3 changes" in text_of(browser.get(URL))

    run.report.mark_read()

    assert "3 changes" not in text_of(browser.get(URL))


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

    assert "No topic is like that" in page
    assert "Show all active topics" in page


def test_the_archive_is_a_filter(browser: Client, alice: Any):
    make(alice, "Sailing").archive(by=alice.actor)

    assert "Sailing" not in text_of(browser.get(URL))
    assert "Sailing" in text_of(browser.get(URL, {"show": "archived"}))
    assert "Sailing" in text_of(browser.get(URL, {"show": "all"}))


@pytest.mark.parametrize("sort", ["", "next", "title", "made"])
def test_every_topic_stands_on_one_page_of_the_list(
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
    assert len(first.context["rows"]) == 50
    assert sorted(titles) == [f"T {number:02}" for number in range(53)]
    assert second.context["next_cursor"] is None


# --- many at once ---------------------------------------------------------------------------------


def bulk(browser: Client, act: str, *topics: Topic, query: str = "", **more: Any) -> Any:
    data = {"act": act, "topic": [topic.slug for topic in topics], **more}
    return browser.post(f"/topics/bulk/{query}", data, follow=True)


def test_ticked_topics_are_paused_and_undo_resumes_those_alone(browser: Client, alice: Any):
    one, two = (make(alice, title, preset="daily") for title in ("One", "Two"))
    scheduling.set_paused(two, paused=True, by=alice.actor)

    page = text_of(bulk(browser, "pause", one, two))
    assert "Paused 1 topic. 1 was left as it was." in page
    browser.post("/topics/bulk/undo/")

    paused = Schedule.objects.filter(paused=True)
    assert [schedule.topic for schedule in paused] == [two]


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
    assert "Two: A run of this topic is going on already." in page


@pytest.mark.parametrize("act", ["pause", "", "delete"])
def test_nothing_ticked_is_explained(browser: Client, act: str):
    assert "tick the topics" in text_of(bulk(browser, act))


@pytest.mark.requirement("R232")
def test_nobody_acts_on_what_is_anothers(client_of: ClientOf, alice: Any, bob: Any):
    topic = make(alice, "Sailing")

    bulk(client_of(bob), "archive", topic)

    topic.refresh_from_db()
    assert topic.archived_at is None


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
def test_the_limit_of_runs_an_hour_is_told_in_words(browser: Client, alice: Any, settings: Any):
    settings.BEACON_RUNS_PER_HOUR = 2
    for number in range(2):
        ran(make(alice, f"Topic {number}"), 1)

    response = press(browser, make(alice, "Sailing"), "run")

    assert response.status_code == 429
    assert int(response["Retry-After"]) > 3000
    assert "2 runs within the last hour" in text_of(response)


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
    assert "take it back from the archive" in text_of(response)


@pytest.mark.requirement("R60")
def test_trash_offers_undo_and_undo_brings_it_back(browser: Client, alice: Any):
    topic = make(alice, "Sailing", preset="daily")

    page = text_of(press(browser, topic, "trash", follow=True))
    assert f'action="/topics/{topic.pk}/restore/"' in page
    browser.post(f"/topics/{topic.pk}/restore/", {"next": URL})

    topic.refresh_from_db()
    assert topic.trashed_at is None
    assert Activity.objects.filter(kind="topic-restored", actor="human:alice").exists()


def test_trashing_in_mid_run_cancels_the_run_and_says_so(browser: Client, alice: Any):
    topic = make(alice, "Sailing")
    run = Run.objects.start(topic, trigger="person", by=alice.actor)

    page = text_of(press(browser, topic, "trash", follow=True))

    run.refresh_from_db()
    assert run.status == Run.Status.CANCELLED
    assert "Its run was cancelled" in page


def test_a_topic_whose_name_was_taken_meanwhile_stays_in_the_trash(browser: Client, alice: Any):
    topic = make(alice, "Sailing")
    topic.trash(by=alice.actor)
    make(alice, "Sailing")

    page = text_of(browser.post(f"/topics/{topic.pk}/restore/", {"next": URL}, follow=True))

    topic.refresh_from_db()
    assert topic.trashed_at is not None
    assert "It stays in the trash" in page


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

    assert Schedule.objects.get().next_run_at > timezone.now()
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


def test_undo_goes_nowhere_else_than_here(browser: Client, alice: Any):
    topic = make(alice, "Sailing", preset="daily")

    response = press(browser, topic, "pause", data={"next": "https://evil.example/"})

    assert response["Location"] == "/topics/sailing/"


# --- the sample -----------------------------------------------------------------------------------


def test_the_sample_is_made_once_and_run(browser: Client, alice: Any):
    response = browser.post("/topics/sample/")
    run = Run.objects.get()
    Run.objects.update(status=Run.Status.SUCCEEDED, number=1)
    browser.post("/topics/sample/")

    assert response["Location"] == f"/topics/{run.topic.slug}/runs/{run.pk}/"
    assert (Topic.objects.count(), Run.objects.count()) == (1, 2)


def test_the_sample_pressed_twice_shows_the_same_run(browser: Client):
    first, second = (browser.post("/topics/sample/")["Location"] for _ in range(2))

    assert first == second
