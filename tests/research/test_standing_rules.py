"""“Always include” and “Never read”: a person's rules, and how runs follow them."""

from __future__ import annotations

from typing import Any

import pytest

from beacon_site.net.errors import ProviderUnavailable
from beacon_site.providers.search.base import SearchHit
from memory.models import Revision, Topic, TopicFact
from memory.models.errors import InvalidValue, LimitReached
from research.models import Hit, Run, TopicSettings
from research.services.runs.context.applied_rules import obeyed, with_always_included
from research.services.runs.execution import starting
from research.services.runs.steps import planning
from research.services.topics.settings import standing_rules
from research.services.topics.settings.standing_rules import CHECK, STOP
from tests.providers.fakes import FakeSearch
from tests.research import cast
from tests.research.conftest import Providers
from tests.research.factories import make_run, make_topic

NEWS = "https://standards.example/cells"


def rule(topic: Topic, kind: Any, text: str) -> Topic:
    standing_rules.add(topic, kind, text, by=topic.owner.actor)
    topic.refresh_from_db()
    return topic


def settings_of(topic: Topic) -> TopicSettings:
    return TopicSettings.objects.get(topic=topic)


def detail(run: Run, step: str) -> str:
    return str(run.steps.get(name=step).detail)


# --- setting them ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "field", "kept"),
    [
        ("Example.org", "block_domains", "example.org"),
        ("*.gov", "block_domains", "gov"),
        ("bücher.example", "block_domains", "xn--bcher-kva.example"),
        ("https://Example.org/x/?utm_source=a#b", "block_pages", "https://example.org/x"),
    ],
)
def test_a_place_is_kept_as_hits_are_compared(topic: Topic, typed: str, field: str, kept: str):
    rule(topic, STOP, typed)

    assert getattr(settings_of(topic), field) == [kept]


def test_a_rule_is_a_revision_of_the_topic_and_can_be_taken_away(topic: Topic):
    rule(topic, CHECK, "cell prices in Japan")
    standing_rules.remove(topic, CHECK, "cell prices in Japan", by=topic.owner.actor)

    assert settings_of(topic).always_check == []
    changes = Revision.objects.filter(record_id=topic.pk).order_by("-id")[:2]
    assert [c.after for c in changes] == [
        {"always_check": []},
        {"always_check": ["cell prices in Japan"]},
    ]


@pytest.mark.parametrize(
    ("kind", "typed", "told"),
    [
        (CHECK, "", "Enter a search query"),
        (CHECK, "?!", "Enter a search query"),
        (CHECK, "x" * 401, "currently 401"),
        (CHECK, "https://a.example/" + "x" * 2000, "at most 2000 characters"),
        (CHECK, "http://", "isn’t a page URL"),
        (STOP, "not a domain", "isn’t a domain or a URL"),
        (STOP, "", "isn’t a domain or a URL"),
        (STOP, "https://a.example/with space", "can’t contain spaces"),
    ],
)
def test_what_isnt_a_rule_is_refused_with_words(topic: Topic, kind: Any, typed: str, told: str):
    with pytest.raises(InvalidValue, match=told):
        standing_rules.add(topic, kind, typed, by=topic.owner.actor)


def test_a_page_cannot_be_always_checked_and_never_checked(topic: Topic):
    rule(topic, CHECK, NEWS)

    with pytest.raises(InvalidValue, match="Remove one of the two"):
        standing_rules.add(topic, STOP, "standards.example", by=topic.owner.actor)


def test_at_most_five_things_are_always_checked(topic: Topic):
    for number in range(5):
        rule(topic, CHECK, f"question {number}")

    with pytest.raises(LimitReached, match="limit of 5"):
        standing_rules.add(topic, CHECK, "question 6", by=topic.owner.actor)


# --- a run obeys ----------------------------------------------------------------------------------


def test_what_is_always_checked_is_asked_though_the_model_forgets_it(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1)
    providers.model = cast.model(cast.PLAN, cast.report(1))

    run = cast.carried_out(cast.started(rule(topic, CHECK, "cell prices in Japan")))

    assert "cell prices in Japan" in providers.search.asked
    assert "Always include" in providers.model.history[0].prompt
    assert "always included: cell prices in Japan" in detail(run, "plan")
    assert run.manifest["always_checked"] == ["cell prices in Japan"]


def test_one_that_the_model_planned_too_is_asked_once(topic: Topic):
    settings = settings_of(rule(topic, CHECK, "Cell prices"))

    assert with_always_included(["cell lines", "cell PRICES"], settings) == [
        "Cell prices",
        "cell lines",
    ]


@pytest.mark.parametrize("plans", [None, ProviderUnavailable("down")])
def test_it_is_asked_without_a_model_and_with_one_that_fails(
    topic: Topic, providers: Providers, plans: Any
):
    cast.set_up(providers, 1)
    providers.model = cast.model(plans) if plans else None

    work = cast.through(cast.work_of(rule(topic, CHECK, "cell prices in Japan")), "plan")

    assert work.output("plan")["queries"][0] == "cell prices in Japan"


def test_an_address_is_read_in_every_run_though_no_search_returns_it(
    topic: Topic, providers: Providers
):
    rule(topic, CHECK, NEWS)
    for number in (1, 2):
        cast.set_up(providers, number)
        providers.pages.pages[NEWS] = cast.page(8)
        run = cast.carried_out(cast.started(topic))
        assert providers.pages.history[0] == NEWS
        topic.refresh_from_db()

    hit = run.hits.get(url=NEWS)
    assert (hit.state, hit.reading, hit.place) == ("returning", "read", 1)
    assert f"always included: {NEWS}" in detail(run, "plan")


def test_an_address_that_cannot_be_read_leaves_the_run_and_its_reason(
    topic: Topic, providers: Providers
):
    cast.set_up(providers, 1)

    run = cast.carried_out(cast.started(rule(topic, CHECK, NEWS)))

    assert run.number == 1
    assert run.hits.get(url=NEWS).reading == Hit.Reading.FAILED


def test_hits_from_where_it_does_not_look_are_dropped_counted_and_named(
    topic: Topic, providers: Providers
):
    rule(topic, STOP, "site1.example")
    rule(topic, STOP, cast.url(2) + "/?utm_source=x")
    cast.set_up(providers, 1, 2, 3)
    below = SearchHit(url="https://news.site1.example/a", title="Below")
    providers.search = FakeSearch([below, *map(cast.hit, (1, 2, 3))])

    run = cast.carried_out(cast.started(topic))

    assert providers.pages.history == [cast.url(3)]
    assert run.manifest["left_out"] == {"site1.example": 2, cast.url(2): 1}
    assert "2 results from site1.example were blocked by your rule" in detail(run, "filter_seen")
    assert "never read: site1.example" in detail(run, "plan")


def test_a_person_who_takes_it_out_of_a_plan_by_hand_is_obeyed_and_told(
    topic: Topic, providers: Providers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Run, "wake", lambda self: True)
    TopicSettings.objects.update(plan_review="wait")
    cast.set_up(providers, 1)
    run = cast.carried_out(cast.started(rule(topic, CHECK, "cell prices in Japan")))

    assert run.waiting_since is not None
    planning.accept(run, ["only this"], seen=run.waiting_since, by=topic.owner.actor)

    assert "always included" not in detail(run, "plan")


def test_a_repeated_run_keeps_the_rules_of_then(topic: Topic, providers: Providers):
    cast.set_up(providers, 1, 2)
    first = cast.carried_out(cast.started(rule(topic, CHECK, "cell prices in Japan")))
    standing_rules.remove(topic, CHECK, "cell prices in Japan", by=topic.owner.actor)

    again = starting.rerun(first, by=topic.owner.actor)
    cast.carried_out(again)

    assert again.steps.get(name="plan").output["always"] == ["cell prices in Japan"]


def test_a_struck_fact_and_a_place_not_checked_are_obeyed_by_the_next_run(
    topic: Topic, providers: Providers
):
    """The issue's own show."""
    cast.set_up(providers, 1, 2)
    cast.carried_out(cast.started(topic))
    fact = TopicFact.objects.filter(topic=topic).current()[0]
    fact.strike(by=topic.owner.actor, why="wrong")
    rule(topic, STOP, "site3.example")

    cast.set_up(providers, 1, 2, 3, 4)
    providers.model = cast.model(cast.PLAN, cast.report(4))
    run = cast.carried_out(cast.started(topic))

    prompt = providers.model.history[0].prompt
    assert fact.text in prompt and "site3.example" in prompt
    assert run.hits.get(url=cast.url(3)).state == "blocked"
    assert cast.url(3) not in providers.pages.history
    assert not TopicFact.objects.filter(topic=topic, key=fact.key).current().exists()
    assert "1 result from site3.example was blocked by your rule" in detail(run, "filter_seen")
    assert planning.describe(run.steps.get(name="plan").output) == detail(run, "plan")


@pytest.mark.parametrize(
    ("status", "words"), [("running", "not read yet"), ("succeeded", "not read in this run")]
)
def test_a_page_that_a_run_can_still_read_isnt_called_unread(
    alice: Any, status: str, words: str
) -> None:
    page = "https://a.example/"
    run = make_run(make_topic(alice), saved=False, status=status)
    run.settings = {**run.settings, "always_check": [page]}
    assert obeyed(run, [], [])["checked"] == [(page, words)]
