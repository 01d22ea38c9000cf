"""Standing rules on the pages: set, delete and restore, at facts, sources and results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from memory.models import Source, Topic
from research.models import Hit, Run, TopicSettings
from research.services.runs.execution import pipeline
from tests.pages.topic_cast import text_of
from tests.research import cast
from tests.research.conftest import Providers, providers
from tests.research.factories import make_fact, make_report, make_run, make_topic
from tests.undo import undo_in, undone

__all__ = ["providers"]

HTMX = {"HX-Request": "true"}
ON_RULES = HTMX | {"HX-Target": "rules"}
TOPIC = "/topics/postgresql-releases/"
RULES = TOPIC + "rules/"


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def topic(alice: Any) -> Topic:
    return make_topic(alice)


def rules(topic: Topic) -> tuple[list[str], list[str], list[str]]:
    settings = TopicSettings.objects.get(topic=topic)
    return settings.always_check, settings.block_domains, settings.block_pages


@pytest.mark.parametrize("page", ["facts/", "rules/"])
def test_the_facts_tab_shows_both_lists(browser: Client, topic: Topic, page: str):
    TopicSettings.objects.update(always_check=["End of life"], block_domains=["spam.example"])

    body = text_of(browser.get(TOPIC + page))

    assert "End of life" in body
    assert "spam.example" in body


def test_without_scripts_a_rule_is_added_and_the_facts_tab_shown(browser: Client, topic: Topic):
    response = browser.post(RULES, {"kind": "check", "rule": "End of life dates"}, follow=True)

    assert response.redirect_chain[0][0] == f"{TOPIC}facts/#rules"
    assert "End of life dates” is always included." in text_of(response)
    assert rules(topic)[0] == ["End of life dates"]


def test_over_htmx_the_region_comes_back_with_a_toast_and_its_undo(browser: Client, topic: Topic):
    response = browser.post(RULES, {"kind": "stop", "rule": "spam.example"}, headers=ON_RULES)

    body = response.content.decode()
    assert body.lstrip().startswith('<section id="rules"')
    assert undo_in(body)
    assert rules(topic)[1] == ["spam.example"]


def test_undo_takes_it_back_and_that_can_be_undone_too(browser: Client, topic: Topic):
    added = browser.post(RULES, {"kind": "stop", "rule": "spam.example"}, follow=True)

    removed = undone(browser, added)
    assert rules(topic)[1] == []
    undone(browser, removed)
    assert rules(topic)[1] == ["spam.example"]


def test_next_to_a_source_or_hit_one_press_is_enough_and_the_list_stays(
    browser: Client, topic: Topic
):
    response = browser.post(RULES + "add/", {"rule": "https://spam.example/a"}, headers=HTMX)

    assert response["HX-Reswap"] == "none"
    assert "hx-swap-oob" in response.content.decode()
    assert rules(topic)[2] == ["https://spam.example/a"]


def test_facts_sources_and_hits_offer_it(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run)
    url = "https://spam.example/a"
    make_fact(topic, "A claim that came from a bad place.", run, url=url).strike(
        by=topic.owner.actor, why="wrong"
    )
    Source.objects.create(
        topic=topic, url=url, link=url, domain="spam.example", first_run=1, last_run=1
    )
    Hit.objects.create(run=run, url=url, link=url, domain="spam.example", service="fake")

    assert 'value="block topic spam.example"' in text_of(browser.get(TOPIC + "sources/"))
    for page in ("facts/", f"runs/{run.pk}/"):
        body = text_of(browser.get(TOPIC + page))
        assert 'name="rule" value="spam.example"' in body, page
        assert "ever read this site" in body, page


@pytest.mark.requirement("R232")
def test_a_stranger_sets_no_rule_and_no_one_by_get(
    browser: Client, bob: Any, client_of: Callable[[Any], Client], topic: Topic
):
    stranger = client_of(bob)

    assert stranger.get(RULES).status_code == 404
    for path in ("", "add/", "remove/"):
        sent = {"kind": "stop", "rule": "a.example"}
        assert stranger.post(RULES + path, sent).status_code == 404
    assert browser.get(RULES + "add/?kind=stop&rule=a.example").status_code == 405
    assert rules(topic) == ([], [], [])


@pytest.mark.parametrize(
    ("kind", "typed", "told"),
    [
        ("check", "", "Enter words to search for"),
        ("check", "???", "Enter a search query"),
        ("check", "\x00 \x07", "Enter words to search for"),
        ("stop", "two words", "isn’t a domain or a URL"),
        ("stop", "x" * 5000, "isn’t a domain or a URL"),
    ],
)
@pytest.mark.parametrize("headers", [{}, ON_RULES])
def test_what_isnt_a_rule_is_explained_and_kept_in_the_field(
    browser: Client, topic: Topic, kind: str, typed: str, told: str, headers: dict[str, str]
):
    response = browser.post(RULES, {"kind": kind, "rule": typed}, headers=headers)

    assert response.status_code == 200
    assert told in text_of(response)
    assert rules(topic) == ([], [], [])


def test_one_press_that_contradicts_a_rule_says_which(browser: Client, topic: Topic):
    browser.post(RULES, {"kind": "check", "rule": "https://a.example/x"})

    response = browser.post(RULES + "add/", {"rule": "a.example"}, headers=HTMX)

    assert response.status_code == 409
    assert "Remove one of the two" in text_of(response)


def test_the_number_of_queries_is_fixed(
    browser: Client, topic: Topic, django_assert_max_num_queries: DjangoAssertNumQueries
):
    places = [f"site{number}.example" for number in range(150)]
    TopicSettings.objects.update(always_check=list("abcde"), block_domains=places)

    with django_assert_max_num_queries(9):
        browser.get(RULES)


def test_the_settings_form_shows_and_edits_the_same_rules(browser: Client, topic: Topic):
    browser.post(RULES, {"kind": "check", "rule": "End of life dates"})
    browser.post(RULES, {"kind": "stop", "rule": "https://a.example/x"})

    page = text_of(browser.get(TOPIC + "settings/"))

    assert "End of life dates</textarea>" in page
    assert "https://a.example/x</textarea>" in page


def test_set_on_the_page_the_next_run_obeys_and_its_page_says_so(
    browser: Client, topic: Topic, providers: Providers
):
    browser.post(RULES, {"kind": "stop", "rule": "site2.example"})
    browser.post(RULES, {"kind": "check", "rule": "End of life dates"})
    cast.set_up(providers, 1, 2)
    run = Run.objects.start(topic, trigger="person", by=topic.owner.actor)
    pipeline.execute(run.pk, worker="test")

    page = text_of(browser.get(f"{TOPIC}runs/{run.pk}/"))

    assert "1 result from site2.example was blocked by your rule" in page
    assert "Always included" in page
    assert "End of life dates" in providers.search.asked


@pytest.mark.requirement("R370")
def test_a_bad_part_of_a_page_is_explained_and_nothing_typed_is_lost(browser: Client, topic: Topic):
    typed = "https://a.example/plans | css: div["

    page = browser.post(RULES, {"kind": "check", "rule": typed})

    assert "“div[” isn’t a valid CSS selector" in text_of(page)
    assert f'value="{typed}"' in page.content.decode()
    assert rules(topic)[0] == []
