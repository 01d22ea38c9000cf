"""Block, boost, mute, forget, read next time: rules for sources, and their effect on runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from memory.models import Activity, RefusedSource, SeenUrl, Source, SourceRule, Topic
from memory.models.errors import InvalidValue, LimitReached
from memory.pages.trash import forget_url, remember_url
from research.models import Hit, Run, TopicSettings
from research.services.runs.execution import starting
from research.services.runs.search import reading
from research.services.sources import figures as source_rules
from research.services.topics.settings import standing_rules
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]


def ruled(topic: Topic, place: str, act: str, scope: str = "topic") -> tuple[str, str]:
    return source_rules.set_rule(topic, place, act, scope=scope, by=topic.owner.actor)


def settings_of(topic: Topic) -> TopicSettings:
    return TopicSettings.objects.get(topic=topic)


def detail(run: Run, step: str) -> str:
    return str(run.steps.get(name=step).detail)


def hits(run: Run) -> list[str]:
    return [hit.domain for hit in run.hits.order_by("place")]


def test_a_place_has_one_rule_a_scope_and_says_what_was_before(topic: Topic):
    ruled(topic, "Example.org", "boost")
    changed = ruled(topic, "example.org", "mute")

    assert changed == ("example.org", "boost")
    assert settings_of(topic).boost_places == []
    assert settings_of(topic).mute_places == ["example.org"]
    ruled(topic, "example.org", "none")
    assert settings_of(topic).mute_places == []


def test_blocking_is_the_stop_rule_that_there_is(topic: Topic):
    ruled(topic, "https://example.org/a/", "block")

    assert settings_of(topic).block_pages == ["https://example.org/a"]


@pytest.mark.parametrize(
    ("place", "act", "told"),
    [
        ("no place", "block", "isn’t a domain or a URL"),
        ("example.org", "love", "Unknown action"),
        ("https://", "mute", "isn’t a page URL"),
    ],
)
def test_what_isnt_a_place_or_act_is_explained(topic: Topic, place: str, act: str, told: str):
    for scope in ("topic", "all"):
        with pytest.raises(InvalidValue, match=told):
            ruled(topic, place, act, scope)


def test_what_contradicts_another_rule_is_refused(topic: Topic):
    standing_rules.add(topic, "check", "https://example.org/a", by=topic.owner.actor)

    with pytest.raises(InvalidValue, match="always included"):
        ruled(topic, "example.org", "block")


def test_a_blocked_source_is_neither_read_nor_cited_and_the_run_counts_it(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1, 2, 3)
    ruled(topic, "site2.example", "block", "all")
    ruled(topic, "site3.example", "boost")
    run = run_of(topic)

    assert run.hits.get(domain="site2.example").state == Hit.State.BLOCKED
    assert all(source["domain"] != "site2.example" for source in run.report.sources)
    assert "1 blocked by you, 1 boosted" in detail(run, "filter_seen")
    assert hits(run)[0] == "site3.example"


def test_what_all_topics_say_gives_way_to_what_the_topic_says(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1, 2)
    for place in (cast.url(1), cast.url(2)):
        ruled(topic, place, "block", "all")
    ruled(topic, cast.url(1), "boost")
    standing_rules.add(topic, "check", cast.url(2), by=topic.owner.actor)
    run = run_of(topic)

    assert {hit.state for hit in run.hits.all()} == {Hit.State.NEW}


def test_from_a_domain_blocked_in_all_topics_no_topic_reads(
    topic: Topic, providers: Providers, run_of: RunOf
):
    cast.set_up(providers, 1)
    ruled(topic, "site1.example", "boost")
    ruled(topic, "site1.example", "block", "all")

    assert run_of(topic).hits.get().state == Hit.State.BLOCKED


def test_a_rule_for_all_topics_is_another_persons_not(
    topic: Topic, providers: Providers, bob: Any, run_of: RunOf
):
    cast.set_up(providers, 1)
    ruled(topic, "site1.example", "block", "all")
    theirs = starting.create_topic(owner=bob, title="Cells", by=bob.actor)

    assert run_of(theirs).hits.get().state == Hit.State.NEW


def test_a_domain_blocked_in_all_topics_is_the_refused_source_of_review(topic: Topic):
    ruled(topic, "spam.example", "mute", "all")
    changed = ruled(topic, "spam.example", "block", "all")

    assert changed[1] == "mute"
    assert RefusedSource.objects.filter(owner=topic.owner, name="spam.example").exists()
    assert not SourceRule.objects.for_user(topic.owner).exists()
    ruled(topic, "spam.example", "none", "all")
    assert not RefusedSource.objects.filter(owner=topic.owner).exists()


def test_there_is_a_most_of_rules(topic: Topic, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SourceRule, "MAX", 1)
    ruled(topic, "a.example", "mute", "all")

    with pytest.raises(LimitReached, match="limit of 1"):
        ruled(topic, "b.example", "mute", "all")


# --- forget this URL ------------------------------------------------------------------------------


def test_a_forgotten_url_is_read_as_new_again(topic: Topic, providers: Providers, run_of: RunOf):
    cast.set_up(providers, 1, 2)
    run_of(topic)
    forget_url(topic, cast.url(1), by=topic.owner.actor)
    run = run_of(topic)

    states = {hit.domain: hit.state for hit in run.hits.all()}
    assert states == {"site1.example": "new", "site2.example": "known"}
    assert "new" not in run.delta_items.values_list("status", flat=True)


def test_forgetting_a_url_is_undone_as_it_was(topic: Topic, providers: Providers, run_of: RunOf):
    cast.set_up(providers, 1)
    run_of(topic)
    before = Source.objects.filter(topic=topic).values("url", "link", "times_read", "first_run")[0]
    line = forget_url(topic, cast.url(1), by=topic.owner.actor)
    assert not SeenUrl.objects.filter(topic=topic).exists()
    remember_url(topic, line.pk, by=topic.owner.actor)

    after = Source.objects.filter(topic=topic).values("url", "link", "times_read", "first_run")
    assert after[0] == before
    assert SeenUrl.objects.filter(topic=topic, url=cast.url(1)).exists()


def test_what_was_never_seen_cannot_be_forgotten(topic: Topic):
    with pytest.raises(InvalidValue, match="hasn’t seen"):
        forget_url(topic, cast.url(1), by=topic.owner.actor)


# --- read this next time --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("example.org", "starts with http"),
        ("http://127.0.0.1/", "number, not a name"),
        ("http://router/", "has no dot"),
        ("https://example.org:8443/", "ports 80 and 443"),
        ("https://me:pw@example.org/", "username"),
        ("ftp://example.org/", "starts with http"),
    ],
)
def test_an_address_that_no_run_can_open_is_explained(topic: Topic, address: str, told: str):
    with pytest.raises(InvalidValue, match=told):
        reading.add(topic, address, by=topic.owner.actor)


def test_the_next_run_reads_it_once(topic: Topic, providers: Providers, run_of: RunOf):
    cast.set_up(providers, 1)
    providers.pages = cast.pages(1, 2)
    reading.add(topic, cast.url(2), by=topic.owner.actor)
    run = run_of(topic)

    assert run.hits.get(url=cast.url(2)).reading == Hit.Reading.READ
    assert settings_of(topic).read_next == []
    # From then on it is read again only because facts rest on it.
    again = run_of(topic).hits.filter(url=cast.url(2))
    assert set(again.values_list("service", "state")) == {("known", Hit.State.KNOWN.value)}


def test_what_was_added_during_a_run_waits_for_the_next(topic: Topic, providers: Providers):
    cast.set_up(providers, 1)
    with cast.before_step("save", lambda: reading.add(topic, cast.url(2), by=topic.owner.actor)):
        cast.carried_out(cast.started(topic))

    assert settings_of(topic).read_next == [cast.url(2)]


def test_a_blocked_page_is_not_given_to_the_next_run(topic: Topic):
    ruled(topic, "site2.example", "block")

    with pytest.raises(InvalidValue, match="is blocked for this topic"):
        reading.add(topic, cast.url(2), by=topic.owner.actor)


def test_acts_are_in_the_log(topic: Topic):
    reading.add(topic, cast.url(2), by=topic.owner.actor)
    ruled(topic, "spam.example", "mute", "all")

    kinds = Activity.objects.for_user(topic.owner).values_list("kind", flat=True)
    assert {"read-next", "source-rule"} <= set(kinds)
