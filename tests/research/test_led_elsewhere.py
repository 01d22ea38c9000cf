"""A page that redirects to a blocked source: it isn't read, and the run says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from beacon_site.net.fetch import WebPage
from memory.models import Topic
from research.models import Hit, Run
from research.services.sources import figures as source_rules
from research.services.topics.settings import editing as topic_editing
from research.services.topics.settings import standing_rules
from tests.providers.fakes import FakeFetcher
from tests.research import cast
from tests.research.conftest import Providers

RunOf = Callable[[Topic], Run]


def led(providers: Providers, to: str) -> None:
    """Let the address of page 1 lead elsewhere; page 2 stays."""
    cast.set_up(providers, 1, 2)
    page = cast.pages(1).fetch(cast.url(1))
    providers.pages = FakeFetcher(
        {cast.url(1): replace(page, final_url=to), cast.url(2): cast.page(2)}
    )


def blocked(topic: Topic, place: str, scope: str) -> None:
    source_rules.set_rule(topic, place, "block", scope=scope, by=topic.owner.actor)


@pytest.mark.parametrize("scope", ["topic", "all"])
@pytest.mark.parametrize(
    ("place", "to"),
    [
        ("farm.example", "https://www.farm.example/a"),
        ("farm.example", "https://news.FARM.example./a?utm_source=x"),
        ("straße.example", "https://xn--strae-oqa.example/"),
        ("https://farm.example/a", "https://farm.example/a/?utm_campaign=y#top"),
    ],
)
def test_a_redirect_to_a_blocked_place_is_not_read_and_not_cited(
    topic: Topic, providers: Providers, run_of: RunOf, scope: str, place: str, to: str
):
    led(providers, to)
    blocked(topic, place, scope)

    run = run_of(topic)

    hit = run.hits.get(url=cast.url(1))
    assert hit.reading == Hit.Reading.FAILED and "which you blocked" in hit.reason
    assert cast.sentence(1) not in run.report.as_markdown()
    assert cast.sentence(2)[:30] in run.report.as_markdown()


def test_nor_one_that_leaves_the_domains_to_which_the_topic_keeps(
    topic: Topic, providers: Providers, run_of: RunOf
):
    led(providers, "https://elsewhere.example/a")
    allowed = {"allow_domains": ["site1.example", "site2.example"]}
    topic_editing.edit_topic(topic, by=topic.owner.actor, wanted=allowed)

    hit = run_of(topic).hits.get(url=cast.url(1))

    assert "isn’t one of your allowed domains" in hit.reason


def test_one_within_the_rules_is_read_as_ever(topic: Topic, providers: Providers, run_of: RunOf):
    led(providers, "https://www.site1.example/page/2")
    blocked(topic, "farm.example", "topic")

    assert run_of(topic).hits.get(url=cast.url(1)).reading == Hit.Reading.READ


def test_a_page_that_is_always_checked_is_read_wherever_it_leads_but_to_what_is_refused(
    topic: Topic, providers: Providers, run_of: RunOf
):
    led(providers, "https://farm.example/a")
    standing_rules.add(topic, "check", cast.url(1), by=topic.owner.actor)
    blocked(topic, "farm.example", "topic")
    assert run_of(topic).hits.get(url=cast.url(1)).reading == Hit.Reading.READ

    blocked(topic, "farm.example", "all")
    assert run_of(topic).hits.get(url=cast.url(1)).reading == Hit.Reading.FAILED


def test_hits_are_held_against_allowed_domains_in_any_spelling(
    topic: Topic, providers: Providers, run_of: RunOf
):
    page = WebPage(url="x", final_url="", title="Cells", text=cast.page(1))
    address = "https://www.bücher.example./page"
    providers.search = type(providers.search)([replace(cast.hit(1), url=address)])
    providers.pages = FakeFetcher({address: replace(page, url=address, final_url=address)})
    wanted = {"allow_domains": ["xn--bcher-kva.example"]}
    topic_editing.edit_topic(topic, by=topic.owner.actor, wanted=wanted)

    assert run_of(topic).hits.get().reading == Hit.Reading.READ
