"""Deleting a run on its page: a preview, Undo, and Trash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import ModelCall, Revision, Topic, TopicFact, User
from memory.models.errors import InvalidValue
from research.models import Report, Run
from research.services.runs import trash
from tests.pages.topic_cast import text_of
from tests.research.factories import make_run, make_second_run, make_topic


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def run(alice: User) -> Run:
    return make_second_run(make_topic(alice))


def page_of(run: Run, name: str = "run-trash") -> str:
    return reverse(f"research:{name}", args=[run.topic.slug, run.pk])


def test_the_page_shows_what_goes_and_what_stands_again(
    browser: Client, run: Run, django_assert_max_num_queries: Any
) -> None:
    assert page_of(run) in browser.get(page_of(run, "run")).content.decode()
    with django_assert_max_num_queries(12):
        html = text_of(browser.get(page_of(run)))
    assert "Facts that move to Trash" in html
    assert "Version 18.1 repairs index corruption after a crash." in html
    assert "Version 13 receives fixes until November 2025." in html


def test_it_goes_with_undo_and_its_page_says_where_it_is(browser: Client, run: Run) -> None:
    html = text_of(browser.post(page_of(run), {"why": "It believed a hoax"}, follow=True))
    assert "Run #2 moved to Trash" in html
    assert "Undo" in html
    assert "1 run is in Trash and keeps its number" in html
    page = text_of(browser.get(page_of(run, "run")))
    assert "This run is in Trash" in page
    assert "It believed a hoax" in page
    assert browser.get(page_of(run, "run-trace")).status_code == 404
    browser.post(reverse("memory:record-restore", args=["report", run.report.pk]))
    assert "Facts that move to Trash" not in text_of(browser.get(page_of(run, "run")))
    assert Report.objects.live().filter(run=run).exists()


def test_a_removed_run_is_in_no_list(browser: Client, run: Run) -> None:
    browser.post(page_of(run))
    for address in ("/reports/", f"/topics/{run.topic.slug}/", f"/topics/{run.topic.slug}/runs/"):
        assert page_of(run, "run") not in browser.get(address).content.decode()
    assert TopicFact.objects.filter(topic=run.topic).current().count() == 3


def test_it_is_deleted_permanently_by_name_and_it_is_said_what_goes(
    browser: Client, run: Run
) -> None:
    browser.post(page_of(run), {"why": "a hoax"})
    purge = reverse("memory:record-purge", args=["report", run.report.pk])
    assert purge in browser.get("/trash/").content.decode()
    html = text_of(browser.get(purge))
    assert "Also deleted: 1 version in its history, 1 topic fact" in html
    assert "That doesn’t match" in text_of(browser.post(purge, {"name": "Run"}))
    name = "PostgreSQL releases, Run #2"
    assert browser.post(purge, {"name": name}).status_code == 302
    assert not Run.objects.filter(pk=run.pk).exists()


def test_while_a_run_is_in_progress_it_is_reported_and_not_offered(
    browser: Client, run: Run
) -> None:
    make_run(Topic.objects.get(pk=run.topic_id), saved=False)
    html = text_of(browser.get(page_of(run)))
    assert "is in progress" in html
    assert "Move to Trash</button>" not in html
    assert browser.post(page_of(run)).status_code == 409


def test_a_stranger_and_a_run_in_progress_are_not_found(
    bob: User, run: Run, client_of: Callable[[User], Client], browser: Client
) -> None:
    assert client_of(bob).post(page_of(run)).status_code == 404
    going = make_run(run.topic, saved=False)
    assert browser.get(page_of(going)).status_code == 404
    assert Report.objects.live().filter(run=run).exists()


# --- runs without a report ------------------------------------------------------------------------


@pytest.fixture
def failed(run: Run) -> Run:
    return make_run(run.topic, saved=False, status=Run.Status.FAILED, error="no key")


def test_a_failed_run_goes_at_once_and_is_restored(browser: Client, failed: Run) -> None:
    assert "You can restore the run for 30 days" in text_of(browser.get(page_of(failed)))
    html = text_of(browser.post(page_of(failed), follow=True))
    assert "Run moved to Trash" in html
    runs = f"/topics/{failed.topic.slug}/runs/"
    assert page_of(failed, "run") not in browser.get(runs).content.decode()
    assert "no key" not in text_of(browser.get("/"))
    assert "This run is in Trash" in text_of(browser.get(page_of(failed, "run")))
    row = browser.get("/trash/").context["rows"][0]
    assert row.label.startswith(f"{failed.topic} · run failed")

    browser.post(reverse("memory:record-restore", args=["removedrun", failed.removed.pk]))
    assert page_of(failed, "run") in browser.get(runs).content.decode()


def test_deleted_permanently_it_leaves_no_words(browser: Client, failed: Run, alice: User) -> None:
    ModelCall.objects.create(
        owner=alice, purpose="plan", source=failed.source, model="m", answer="secret words"
    )
    removed = trash.remove(failed, by=alice.actor)
    removed.purge(by=alice.actor)
    assert not Run.objects.filter(pk=failed.pk).exists()
    assert not Revision.objects.filter(record_id=removed.pk).exists()
    assert ModelCall.objects.get(source=failed.source).answer == ""


def test_a_run_in_progress_stays(browser: Client, run: Run, alice: User) -> None:
    going = make_run(run.topic, saved=False)
    assert browser.post(page_of(going)).status_code == 404
    with pytest.raises(InvalidValue, match="Only failed and cancelled runs"):
        trash.remove(going, by=alice.actor)


def test_a_removed_run_is_retried_by_no_one(
    browser: Client, failed: Run, alice: User, bob: User, client_of: Callable[[User], Client]
) -> None:
    assert client_of(bob).post(page_of(failed)).status_code == 404
    trash.remove(failed, by=alice.actor)
    assert browser.post(page_of(failed, "run-retry")).status_code == 404


def test_a_topic_deleted_permanently_takes_the_history_of_its_runs(
    failed: Run, alice: User
) -> None:
    trash.remove(failed, by=alice.actor)
    failed.topic.trash(by=alice.actor)
    failed.topic.purge(by=alice.actor)
    assert not Revision.objects.filter(record_type__in=["removedrun", "report"]).exists()
