"""A repeated run: the old settings and queries, with current memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from beacon_site.net.errors import ProviderRejected
from memory.models import Topic
from memory.services.llm import connections
from research.models import Run, RunAlreadyActive, TopicSettings
from research.services.runs.execution import starting
from research.services.runs.execution.starting import RunNotAllowed
from research.services.runs.search import searching
from research.services.runs.steps import planning
from tests.providers.fakes import FakeSearch
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]
TAVILY = "Run #1 searched Tavily, which is no longer available: its key isn’t set"


@pytest.fixture
def first(topic: Topic, providers: Providers, run_of: RunOf) -> Run:
    """Run #1, whose two queries a model planned and whose report it wrote."""
    cast.set_up(providers, 1)
    providers.model = cast.model(cast.PLAN, cast.report(1))
    return run_of(topic)


def repeated(run: Run) -> Run:
    return cast.carried_out(starting.rerun(run, by=run.topic.owner.actor))


def was(services: list[str], **manifest: Any) -> Any:
    """Return the worker's hold on a run that repeats one which asked these services."""

    def of(topic: Topic) -> Any:
        run = cast.started(topic)
        Run.objects.filter(pk=run.pk).update(
            status="succeeded",
            number=1,
            manifest={"queries": ["cells"], "services": services, **manifest},
        )
        run.refresh_from_db()
        again = starting.rerun(run, by=topic.owner.actor)
        claimed = Run.objects.claim(again.pk, worker="test")
        return planning.RunContext(claimed)

    return of


def refuse(query: str, options: Any) -> Any:
    raise ProviderRejected("no")


def test_it_asks_the_very_queries_and_no_model_for_a_plan(first: Run, providers: Providers):
    providers.search, providers.model = FakeSearch([cast.hit(2)]), cast.model(cast.report(2))
    providers.pages = cast.pages(1, 2)

    again = repeated(first)

    assert (again.status, again.number, again.rerun_of) == ("succeeded", 2, first)
    assert sorted(providers.search.asked) == sorted(cast.PLAN["queries"])
    assert providers.model is not None and len(providers.model.history) == 1
    assert (again.manifest["planned_by"], again.manifest["rerun_of"]) == ("rerun", "Run #1")


def test_it_keeps_the_settings_of_then_and_a_retry_of_it_does_too(first: Run, topic: Topic):
    TopicSettings.objects.update(objective="Why", block_domains=["site1.example"])

    again = starting.rerun(first, by=topic.owner.actor)
    again.request_cancel(by=topic.owner.actor)
    starting.retry_run(again, by=topic.owner.actor)

    again.refresh_from_db()
    assert (again.asked_for.objective, again.asked_for.block_domains) == ("", [])


def test_it_asks_the_services_in_their_order_those_too_that_did_not_answer(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    names = ["wikipedia", "arxiv", "gdelt"]
    cast.set_up(providers, 1)
    found = {name: FakeSearch([cast.hit(1)]) for name in names}
    for name, search in found.items():
        search.service = name
    monkeypatch.setattr(found["arxiv"], "search", refuse)
    monkeypatch.setattr(connections, "search_services", lambda wanted=(): wanted or names)
    monkeypatch.setattr(searching, "search_provider", lambda name, *, owner: found[name])
    run = cast.carried_out(cast.started(topic))

    again = starting.rerun(run, by=topic.owner.actor)

    assert (run.number, again.asked_for.services) == (1, names)


def test_what_it_finds_is_told_against_the_memory_of_now(first: Run, providers: Providers):
    again = repeated(first)

    assert (again.new_count, again.known_count) == (0, 1)
    assert again.report.is_quiet and "Run #1" in again.report.delta_since


def test_it_waits_for_no_one_to_look_at_its_plan(first: Run):
    Run.objects.filter(pk=first.pk).update(settings=first.settings | {"plan_review": "wait"})
    first.refresh_from_db()

    assert repeated(first).status == "succeeded"


def test_a_service_that_is_no_longer_there_is_explained(topic: Topic):
    work = was(["tavily", "feeds"])(topic)

    assert searching.unavailable_services(work, work.run.rerun_of) == [TAVILY]


def test_a_service_that_the_site_has_shut_out_is_explained(topic: Topic, settings: Any):
    settings.BEACON_SEARCH = ["feeds"]
    work = was(["hackernews"])(topic)

    (gone,) = searching.unavailable_services(work, work.run.rerun_of)
    assert gone.endswith("BEACON_SEARCH doesn’t include this service")


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        ("old-model", "new-model", "used old-model. This run uses new-model"),
        ("old-model", "", "used old-model. No model is set up now"),
        ("extractive", "new-model", "didn’t use a model. This run uses new-model"),
        ("new-model", "new-model", ""),
        ("extractive", "", ""),
    ],
)
def test_a_model_that_has_been_replaced_is_explained(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, before: str, now: str, says: str
):
    profile = connections.LlmProfile(base_url="http://127.0.0.1:1", model=now) if now else None
    monkeypatch.setattr(connections, "llm_profile", lambda: profile)
    work = was([], written_by=before)(topic)

    gone = searching.model_gone(work.run.rerun_of)

    assert says in gone
    assert bool(gone) == bool(says)


def test_another_model_is_told_of_only_where_there_is_something_to_write_from(
    first: Run, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(searching, "model_gone", lambda was: "another writes")
    nothing_new = repeated(first)
    providers.search, providers.model = FakeSearch([cast.hit(2)]), cast.model(cast.report(2))
    providers.pages = cast.pages(1, 2)

    assert "another writes" not in nothing_new.warnings
    assert "another writes" in repeated(first).warnings


def test_what_is_gone_is_on_the_run_as_a_warning(first: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(searching, "unavailable_services", lambda work, was: [TAVILY])

    assert TAVILY in repeated(first).warnings


def test_a_run_without_a_report_is_not_repeated(topic: Topic):
    with pytest.raises(RunNotAllowed, match="can’t be repeated exactly"):
        starting.rerun(cast.started(topic), by=topic.owner.actor)


@pytest.mark.requirement("R233")
def test_it_is_one_start_like_any_other(first: Run, topic: Topic, settings: Any):
    starting.rerun(first, by=topic.owner.actor)
    with pytest.raises(RunAlreadyActive):
        starting.rerun(first, by=topic.owner.actor)

    settings.BEACON_RUNS_PER_HOUR = 2
    with pytest.raises(RunNotAllowed, match="limit of 2 runs per hour"):
        starting.rerun(first, by=topic.owner.actor)
