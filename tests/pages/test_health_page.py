"""Health, for admins: each part that Beacon needs, what is wrong with it and what to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from beacon_site.providers.search.base import CATALOGUE
from memory.models import Connection, MirroredFile, MirrorFolder, ModelCall, User
from memory.pages import health
from memory.services.llm import connections
from research.models import Step, Worker
from tests.research.factories import make_run, make_topic

HTMX = {"HX-Request": "true"}
PAGE = "/settings/health/"


@pytest.fixture
def browser(admin: User, client_of: Callable[[User], Client]) -> Client:
    """The admin's browser."""
    return client_of(admin)


def alive(*kinds: str, seconds: float = 1) -> None:
    for kind in kinds:
        seen = timezone.now() - timedelta(seconds=seconds)
        Worker.objects.create(name=f"{kind}@test", kind=kind, seen_at=seen)


def page(browser: Client) -> str:
    answer = browser.get(PAGE)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_with_all_processes_alive_nothing_is_broken(browser: Client) -> None:
    alive("worker", "upkeep", "beat")

    body = page(browser)

    assert "not working" not in body
    assert (
        "Working, but 2 components need attention" in body and "Everything is working" not in body
    )
    for words in ("There are no backups yet.", "Not verified yet."):
        assert 'class="warn-mark"' in body.partition(words)[0].rpartition("<li>")[2]
    assert "PostgreSQL" in body
    assert "Reports quote their sources" in body


def test_over_htmx_the_list_comes_back_alone(browser: Client) -> None:
    body = browser.get(PAGE, headers=HTMX).content.decode()

    assert "<html" not in body
    assert '<section id="health"' in body


def test_who_isnt_an_admin_sees_no_health(alice: User, client_of: Any) -> None:
    assert client_of(alice).get(PAGE).status_code == 404


@pytest.mark.requirement("R234")
def test_a_silent_worker_and_a_closed_redis_are_named_with_what_to_do(
    browser: Client, settings: Any
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    alive("worker", seconds=3600)

    body = page(browser)

    assert "4 components aren’t working" in body
    assert "Redis isn’t responding (ConnectionError)" in body
    assert "Last seen 60 min ago. Runs wait in the queue" in body
    assert "Start it with “make up”" in body


def called(owner: User, error: str = "", failure: str = "") -> None:
    Connection.objects.get_or_create(kind="model", name="model", model="m1")
    ModelCall.objects.create(
        owner=owner, purpose="plan", source="run:1", model="m1", error=error, failure=failure
    )


@pytest.mark.parametrize(
    ("failure", "why"),
    [("unavailable", "it couldn’t be reached"), ("rejected", "it rejected the request")],
)
def test_a_models_last_failure_is_reported_by_its_kind_alone(
    browser: Client, alice: User, failure: str, why: str
) -> None:
    called(alice, "“my secret plan” is too long", failure)

    body = page(browser)

    assert f"The last call to m1 (planning) failed: {why}" in body
    assert "secret plan" not in body


def test_a_call_that_was_left_says_nothing_of_the_model(browser: Client, alice: User) -> None:
    called(alice)
    called(alice, "not waited for", "left")

    assert "The last call to m1 (planning) succeeded" in page(browser)


def test_one_answer_that_makes_no_sense_does_not_break_the_model(
    browser: Client, alice: User
) -> None:
    alive("worker", "upkeep", "beat")
    called(alice, "no JSON", "nonsense")

    body = page(browser)

    assert "its answer couldn’t be used" in body
    assert "not working" not in body


def test_a_key_that_cannot_be_read_any_longer_is_named(browser: Client) -> None:
    Connection.objects.create(kind="search", name="tavily", secret="of another SECRET_KEY")

    body = page(browser)

    assert "can’t be read because SECRET_KEY has changed: Tavily" in body


@pytest.mark.requirement("R234")
def test_a_service_that_is_named_but_not_set_up_is_reported(browser: Client, settings: Any) -> None:
    settings.BEACON_SEARCH = ["tavily", "library"]

    assert "BEACON_SEARCH includes services that aren’t set up: Tavily." in page(browser)


def asked_last(owner: User, problems: dict[str, str]) -> None:
    """A run asked each service, and this is what each said to its problem ("" for none)."""
    asked = [
        {"service": name, "query": "q", "hits": 0, "problem": said}
        for name, said in problems.items()
    ]
    run = make_run(make_topic(owner, title=str(problems)), saved=False)
    Step.objects.create(run=run, name="search", part=len(problems), output={"asked": asked})


@pytest.mark.parametrize(("problem", "is_told"), [("It did not answer.", True), ("", False)])
def test_services_that_failed_in_the_last_run_are_not_called_fine(
    browser: Client, alice: User, settings: Any, problem: str, is_told: bool
) -> None:
    settings.BEACON_SEARCH = ["hackernews", "library"]
    for said in ("It did not answer before.", problem):
        asked_last(alice, {"hackernews": said})

    assert ("Failed in the last run that used them: Hacker News." in page(browser)) is is_told


GONE = "It could not be reached."
OFF_THE_NETWORK = dict.fromkeys(["wikipedia", "arxiv", "hackernews"], GONE)


@pytest.mark.parametrize(
    ("names", "problems", "keys", "state"),
    [
        ([], OFF_THE_NETWORK, {}, "warn"),
        (["wikipedia", "arxiv"], OFF_THE_NETWORK, {}, "bad"),
        (["wikipedia", "arxiv"], {"wikipedia": "", "arxiv": GONE}, {}, "warn"),
        ([], OFF_THE_NETWORK, {"arxiv": ""}, "warn"),
        ([], {"tavily": GONE, "wikipedia": ""}, {"tavily": "tvly-1"}, "bad"),
        ([], {"wikipedia": "", "arxiv": GONE}, {"tavily": "tvly-1"}, "warn"),
        (["library", "sample"], OFF_THE_NETWORK, {}, "good"),
    ],
    ids=[
        "nobody asked for any", "named, all are gone", "named, one is gone",
        "a row without anything", "a key", "a key, and another is gone", "none of the web",
    ],
)  # fmt: skip
def test_only_a_service_that_someone_asked_for_is_broken_when_it_is_not_reached(
    alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch,
    names: list[str], problems: dict[str, str], keys: dict[str, str], state: str,
) -> None:  # fmt: skip
    usual = tuple(one.name for one in CATALOGUE if one.usual)
    monkeypatch.setattr(connections, "USUAL", usual)
    settings.BEACON_SEARCH = names
    settings.SEARCH_KEYS = keys
    asked_last(alice, problems)
    for name in keys:
        Connection.objects.create(kind="search", name=name)

    (found,) = [one for one in health.system_parts() if one.name == "Search services"]

    assert found.state == state, found


def test_a_library_folder_that_is_gone_is_reported(
    browser: Client, settings: Any, tmp_path: Path
) -> None:
    settings.BEACON_LIBRARY_DIR = str(tmp_path / "gone")

    assert "is missing, or Beacon can’t read it" in page(browser)


@pytest.mark.parametrize(
    ("folder_problem", "file_problem", "said"),
    [
        ("", "", "has 1 file."),
        ("It belongs to another Beacon.", "", "It belongs to another Beacon."),
        ("", "It is not UTF-8: who knows", "1 file is out of date"),
    ],
)
def test_the_mirror_of_memory_files_says_how_it_is(
    browser: Client, alice: User, settings: Any, tmp_path: Path,
    folder_problem: str, file_problem: str, said: str,
) -> None:  # fmt: skip
    settings.BEACON_MIRROR_DIR = str(tmp_path)
    MirrorFolder.objects.create(root=alice, problem=folder_problem)
    about = {"digest": "d", "problem": file_problem}
    MirroredFile.objects.create(owner=alice, path="facts/user.md", **about)

    assert said in page(browser)
    assert "who knows" not in page(browser)


def test_the_number_of_queries_is_fixed(
    browser: Client, django_assert_max_num_queries: Any
) -> None:
    alive("worker", "upkeep", "beat")

    with django_assert_max_num_queries(12):
        browser.get(PAGE)
