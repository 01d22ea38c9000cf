"""A deep run that is cancelled, stopped, killed or out of budget within a track."""

from __future__ import annotations

import time

import pytest

from memory.models import Topic
from research.models import Run, Step, ToolCall, TopicSettings
from research.services.runs.steps import tracks
from tests.providers.servers import ScriptedChatServer
from tests.research import cast, deep_cast
from tests.research.cast import Killed
from tests.research.conftest import Providers
from tests.research.deep_cast import Agent, calls, meanwhile, opens, search

# What someone does in the meantime uses another connection.
by_others = pytest.mark.django_db(transaction=True)


@pytest.fixture
def found(providers: Providers) -> Providers:
    cast.set_up(providers, *range(1, 7))
    return providers


@by_others
def test_cancel_ends_a_track_while_its_model_thinks(
    topic: Topic, found: Providers, endpoint: ScriptedChatServer
):
    run = deep_cast.deep(topic)
    thinks = meanwhile(lambda: run.request_cancel(by=topic.owner.actor), calls(opens(1)), 8)
    deep_cast.at(endpoint, found, Agent({}, overview=[thinks]))
    began = time.monotonic()

    cast.carried_out(run)

    assert run.status == Run.Status.CANCELLED
    assert time.monotonic() - began < 7 and found.pages.history == []


@by_others
def test_stop_now_within_a_track_writes_from_the_pages_that_were_opened(
    topic: Topic, found: Providers, endpoint: ScriptedChatServer
):
    run = deep_cast.deep(topic)
    thinks = meanwhile(lambda: run.request_stop(by=topic.owner.actor), calls(opens(3)), 8)
    agent = Agent(cast.report(2), overview=[[opens(2)], thinks])
    deep_cast.at(endpoint, found, agent)
    began = time.monotonic()

    cast.carried_out(run)

    assert run.status == Run.Status.PARTIAL and "news" not in agent.sent
    assert [source["link"] for source in run.report.sources] == [cast.url(2)]
    assert time.monotonic() - began < 7


def test_a_killed_track_begins_again_and_pays_for_no_search_or_page_twice(
    topic: Topic, found: Providers, endpoint: ScriptedChatServer
):
    news = [[search("cell news"), opens(4)], [opens(5)]]
    deep_cast.at(endpoint, found, Agent({}, overview=[[opens(1)]], news=news))
    found.pages.pages[cast.url(5)] = Killed()
    run = deep_cast.deep(topic)
    with pytest.raises(Killed):
        cast.carried_out(run)
    cast.lose_lease(run)
    found.pages.pages |= cast.pages(5).pages
    agent = deep_cast.at(endpoint, found, Agent(cast.report(1, 4, 5), news=news))

    cast.carried_out(run)

    assert run.status == Run.Status.SUCCEEDED and "overview" not in agent.sent
    assert found.search.asked.count("cell news") == 1
    fetched = [url for url in found.pages.history if url != cast.url(5)]
    assert sorted(fetched) == [cast.url(1), cast.url(4)]
    attempts = ToolCall.objects.filter(run=run, part=2).values_list("attempt", flat=True)
    assert list(attempts) == [1, 1, 2, 2, 2]


def test_a_track_that_has_too_little_time_waits_for_the_next_task(
    topic: Topic, found: Providers, endpoint: ScriptedChatServer, monkeypatch: pytest.MonkeyPatch
):
    agent = deep_cast.at(endpoint, found, Agent(cast.report(1), overview=[[opens(1)]]))
    usual = tracks.MIN_SECONDS
    monkeypatch.setattr(tracks, "MIN_SECONDS", 13 * 60)
    nudged: list[int] = []
    monkeypatch.setattr(Run, "wake", lambda self: nudged.append(self.pk))
    run = cast.carried_out(deep_cast.deep(topic))
    assert run.status == Run.Status.QUEUED and agent.sent == {}
    assert nudged == [run.pk]
    monkeypatch.setattr(tracks, "MIN_SECONDS", usual)

    cast.carried_out(run)

    assert run.status == Run.Status.SUCCEEDED


def test_the_runs_budget_reached_in_a_track_makes_a_partial_report(
    topic: Topic, found: Providers, endpoint: ScriptedChatServer
):
    TopicSettings.objects.filter(topic=topic).update(max_tokens=50_000)
    spends = calls(opens(1), tokens=60_000)
    agent = deep_cast.at(endpoint, found, Agent({}, overview=[spends]))

    run = cast.carried_out(deep_cast.deep(topic))

    assert run.status == Run.Status.PARTIAL and "news" not in agent.sent
    assert any("50000 tokens" in warning for warning in run.warnings)
    assert [source["link"] for source in run.report.sources] == [cast.url(1)]


def test_a_track_that_used_its_share_leaves_the_others_and_the_report_theirs(
    topic: Topic, found: Providers, endpoint: ScriptedChatServer
):
    TopicSettings.objects.filter(topic=topic).update(max_tokens=90_000)
    spends = calls(opens(1), tokens=20_000)
    agent = Agent(cast.report(1), overview=[spends], news=[[opens(2)]])
    deep_cast.at(endpoint, found, agent)

    run = cast.carried_out(deep_cast.deep(topic))

    assert run.status == Run.Status.SUCCEEDED
    assert len(agent.sent["overview"]) == 1 and len(agent.sent["news"]) == 2
    assert run.warnings[0].startswith("Track “Overview” ended early: it reached its share")


def test_a_run_reads_no_more_pages_than_its_budget(
    topic: Topic, found: Providers, endpoint: ScriptedChatServer
):
    TopicSettings.objects.filter(topic=topic).update(max_pages=2)
    agent = Agent(cast.report(1, 2), overview=[[opens(1), opens(2), opens(3)]])
    deep_cast.at(endpoint, found, agent)

    run = cast.carried_out(deep_cast.deep(topic))

    assert "limit of 2 pages" in deep_cast.results(agent.sent["overview"][1])[2]
    assert len(found.pages.history) == 2 and run.read_count == 2


@by_others
def test_a_cancelled_deep_run_is_retried_behind_its_finished_track(
    topic: Topic, found: Providers, endpoint: ScriptedChatServer
):
    run = deep_cast.deep(topic)
    thinks = meanwhile(lambda: run.request_cancel(by=topic.owner.actor), calls(opens(1)), 3)
    deep_cast.at(endpoint, found, Agent({}, overview=[[opens(1)]], news=[thinks]))
    cast.carried_out(run)
    agent = deep_cast.at(endpoint, found, Agent(cast.report(1)))

    assert run.retry(by=topic.owner.actor)
    cast.carried_out(run)

    assert run.status == Run.Status.SUCCEEDED and list(agent.sent) == ["news", "voices"]
    assert not Step.objects.filter(run=run, is_follow_up=False).exclude(state="done").exists()
