"""Always-included pages of which only a part is read."""

from __future__ import annotations

import pytest

from beacon_site.net.extract import PartNotFound
from memory.models import Topic
from memory.models.errors import InvalidValue
from research.models import Hit, Run, TopicSettings
from research.services.runs.search import reading
from research.services.topics.settings import standing_rules
from research.services.topics.settings.standing_rules import CHECK
from tests.research import cast
from tests.research.conftest import Providers

PLANS = "https://shop.example/plans"
RULE = f"{PLANS} | css: .prices"


def carried_out(topic: Topic, providers: Providers, number: int, text: str | Exception) -> Run:
    cast.set_up(providers, number)
    providers.pages.pages[RULE] = text
    run = cast.carried_out(cast.started(topic))
    topic.refresh_from_db()
    return run


def watch(topic: Topic, rule: str = RULE) -> Topic:
    standing_rules.add(topic, CHECK, rule, by=topic.owner.actor)
    topic.refresh_from_db()
    return topic


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        (PLANS + "|css:.prices", PLANS + "|css:.prices"),  # a URL may contain the sign
        (PLANS + "  | CSS:  .prices", RULE),
        (PLANS + "| heading: Pricing", PLANS + " | heading: Pricing"),
        ("prices | costs", "prices | costs"),
    ],
)
def test_a_rule_with_a_part_is_kept_in_one_spelling(topic: Topic, typed: str, kept: str):
    watch(topic, typed)

    assert TopicSettings.objects.get(topic=topic).always_check == [kept]


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (PLANS + " | css: div[", "isn’t a valid CSS selector"),
        (PLANS + " | .prices", "isn’t valid here"),
        ("library:x | css: p", "select a part of a library document"),
    ],
)
def test_a_bad_part_is_refused_with_words(topic: Topic, typed: str, told: str):
    with pytest.raises(InvalidValue, match=told):
        watch(topic, typed)


def test_a_page_with_a_part_is_listed_once(topic: Topic):
    watch(topic)

    with pytest.raises(InvalidValue, match="listed twice"):
        watch(topic, PLANS)


def test_a_part_cant_be_given_for_one_run_only(topic: Topic):
    with pytest.raises(InvalidValue, match="can’t contain spaces"):
        reading.add(topic, RULE, by=topic.owner.actor)


@pytest.mark.requirement("R370")
def test_only_the_part_is_stored_and_compared(topic: Topic, providers: Providers):
    watch(topic)
    for number, text in ((1, "Basic costs nine euros."), (2, "Basic costs ten euros.")):
        run = carried_out(topic, providers, number, text)

    hit = run.hits.get(url=PLANS)
    assert (hit.reading, hit.part) == (Hit.Reading.READ, "css: .prices")
    assert hit.content_item is not None and hit.content_item.content == "Basic costs ten euros."


def test_another_part_is_not_a_version_of_the_first(topic: Topic, providers: Providers):
    watch(topic)
    carried_out(topic, providers, 1, "Basic costs nine euros.")
    standing_rules.remove(topic, CHECK, RULE, by=topic.owner.actor)
    watch(topic, PLANS)
    cast.set_up(providers, 2)
    providers.pages.pages[PLANS] = "All of the page. Basic costs nine euros."

    run = cast.carried_out(cast.started(topic))

    hit = run.hits.get(url=PLANS)
    assert (hit.reading, hit.part) == (Hit.Reading.READ, "")
    assert not any("no longer" in warning for warning in run.warnings)


@pytest.mark.requirement("R371")
def test_a_part_that_isnt_there_is_reported_and_nothing_is_read(topic: Topic, providers: Providers):
    missing = PartNotFound("The page doesn’t contain “css: .prices”.")

    run = carried_out(watch(topic), providers, 1, missing)

    hit = run.hits.get(url=PLANS)
    assert hit.reading == Hit.Reading.FAILED and hit.content_item is None
    assert f"Nothing was read from {PLANS}. The page doesn’t contain" in str(run.warnings)
    assert not any(source["link"] == PLANS for source in run.report.sources)
