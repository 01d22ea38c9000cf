"""The Sources page: what each domain and page contributed, and the rules for it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memory.models import RefusedSource, SeenUrl, Source, SourceRule, Topic
from research.models import Hit, TopicSettings
from research.services.sources import figures as source_figures
from research.services.sources.figures import Rules, SourcesFilter
from tests.pages.topic_cast import text_of
from tests.research.factories import (
    make_fact,
    make_hit,
    make_item,
    make_report,
    make_run,
    make_source,
    make_topic,
)
from tests.undo import undone

ClientOf = Callable[[Any], Client]
HTMX = {"HX-Request": "true"}
DESK = "/topics/postgresql-releases/sources/"
NEWS, FARM = "https://news.example/a", "https://farm.example/b"


@pytest.fixture
def browser(client_of: ClientOf, alice: Any) -> Client:
    return client_of(alice)


@pytest.fixture
def topic(alice: Any) -> Topic:
    """Two runs: news.example brought a fact and confirmed it; farm.example is cited and false."""
    topic = make_topic(alice)
    first = make_run(topic)
    make_report(first, sources=[make_source(1, "News", url=NEWS, link=NEWS)])
    at = {"url": NEWS, "link": NEWS, "domain": "news.example", "title": "News"}
    make_hit(first, 1, **at, cited_as=1)
    fact = make_fact(topic, "Version 18 came in May.", first, url=NEWS)
    second = make_run(topic)
    bad = [{"sentence": "It is fast.", "quote": "no", "found": False}]
    told = make_source(2, "Farm", url=FARM, link=FARM, quotes=bad)
    make_report(second, sources=[make_source(1, "News", url=NEWS, link=NEWS), told])
    make_hit(second, 1, **at, cited_as=1)
    farm = {"url": FARM, "link": FARM, "domain": "farm.example", "title": "A farm"}
    make_hit(second, 2, **farm, cited_as=2)
    make_hit(
        second, 3, url=f"{FARM}/c", link=f"{FARM}/c", domain="farm.example",
        reading=Hit.Reading.FAILED, reason="the server answered 404",
    )  # fmt: skip
    make_item(second, "confirmed", fact.text, previous_fact=fact, citations=[1])
    make_item(second, "contradicted", "Version 18 came in June.", citations=[2])
    return topic


def act(browser: Client, do: str, **more: Any) -> Any:
    return browser.post(DESK + "act/", {"do": do}, **more)


def settings_of(topic: Topic) -> TopicSettings:
    return TopicSettings.objects.get(topic=topic)


def figures(topic: Topic, **asked: Any) -> dict[str, source_figures.ListedSource]:
    rows = source_figures.page_of(topic, SourcesFilter(**asked), Rules.of(topic))
    return {row.place: row for row in rows}


def test_the_figures_count_what_each_domain_gave(topic: Topic):
    found = figures(topic)
    news, farm = found["news.example"], found["farm.example"]

    assert (news.returned, news.read, news.cited, news.facts, news.confirmed) == (2, 2, 2, 1, 1)
    assert (farm.pages, farm.returned, farm.failed, farm.contradicted) == (2, 2, 1, 1)
    assert (farm.unsupported, farm.quotes, news.unsupported) == (1, 1, 0)


def test_the_figures_of_a_page_say_why_it_was_not_read(topic: Topic):
    found = figures(topic, by="page")

    assert found[f"{FARM}/c"].why == "the server answered 404"
    assert found[NEWS].facts == 1


def test_what_was_only_seen_or_imported_is_there_too(topic: Topic):
    SeenUrl.objects.create(
        topic=topic, url="https://www.seen.example/x", returned_in=1, returned_at=timezone.now()
    )
    Source.objects.create(
        topic=topic, url="https://old.example/y", domain="old.example", first_run=1, last_run=1,
        times_read=3,
    )  # fmt: skip
    found = figures(topic)

    assert found["seen.example"].known == 1
    assert found["old.example"].read == 3


def test_the_sources_page_shows_domains_and_leads_to_their_pages(browser: Client, topic: Topic):
    page = text_of(browser.get(DESK))
    pages = text_of(browser.get(DESK + "?domain=farm.example"))

    assert "2 domains" in page and "news.example" in page
    assert "2 pages" in pages and "A farm" in pages and "the server answered 404" in pages


@pytest.mark.parametrize("sort", ["returned", "facts", "last_at", "^name", "name", "nonsense"])
def test_it_is_sorted_by_every_column(browser: Client, topic: Topic, sort: str):
    response = browser.get(DESK, {"sort": sort})

    assert [row.place for row in response.context["rows"]] != []
    first = response.context["rows"][0].place
    assert first == ("farm.example" if sort in ("^name", "returned") else first)


@pytest.mark.parametrize(
    ("query", "there", "gone"),
    [
        ("state=contradicted", "farm.example", "news.example"),
        ("state=failed&by=page", "/b/c", "news.example/a"),
        ("q=NEWS", "news.example", "farm.example"),
        ("q=100%25", "No matching sources", "news.example</bdi>"),
    ],
)
def test_it_is_filtered(browser: Client, topic: Topic, query: str, there: str, gone: str):
    body = text_of(browser.get(f"{DESK}?{query}"))

    assert there in body
    assert f"<bdi>{gone}" not in body


def test_block_boost_and_mute_are_reported_and_undone(browser: Client, topic: Topic):
    page = text_of(act(browser, "mute topic farm.example", follow=True))

    assert "won’t trigger notifications by themselves" in page
    assert settings_of(topic).mute_places == ["farm.example"]
    undone(browser, page)
    assert settings_of(topic).mute_places == []


def test_a_rule_that_was_changed_since_stays(browser: Client, topic: Topic):
    page = act(browser, "mute topic farm.example", follow=True)
    act(browser, "boost topic farm.example")

    refused = undone(browser, page)

    assert refused.status_code == 409
    assert "This rule has changed since then" in text_of(refused)
    assert settings_of(topic).boost_places == ["farm.example"]


def test_what_holds_for_a_row_is_explained_with_its_reason(browser: Client, topic: Topic):
    act(browser, "block all farm.example")
    act(browser, f"boost topic {NEWS}")
    domains, pages = text_of(browser.get(DESK)), text_of(browser.get(DESK + "?by=page"))

    assert "blocked in all topics" in domains
    assert "blocked by the rule for farm.example" in pages
    assert ">boosted</span>" in pages
    assert "A farm" in text_of(browser.get(DESK + "?state=block&by=page"))


@pytest.mark.parametrize(
    "do", ["", "block", "block topic", "block nobody a.example", "love topic a.example"]
)
def test_an_act_that_cannot_be_is_explained(browser: Client, topic: Topic, do: str):
    assert act(browser, do).status_code == 409
    assert settings_of(topic).block_domains == []


def test_forget_this_url_and_its_undo(browser: Client, topic: Topic):
    Source.objects.create(
        topic=topic, url=NEWS, link=NEWS, domain="news.example", first_run=1, last_run=2
    )
    page = browser.post(DESK + "forget/", {"url": NEWS}, follow=True)
    assert not Source.objects.filter(topic=topic, url=NEWS).exists()
    undone(browser, page)

    assert Source.objects.get(topic=topic, url=NEWS).last_run == 2


@pytest.mark.parametrize("path", ["act/", "forget/", "next/", "next/not/"])
def test_what_cannot_be_stored_isnt_a_server_error(browser: Client, topic: Topic, path: str):
    odd = {"do": "block topic a\x00.example", "url": "https://a\x00", "address": "http://\x00.b/"}

    assert browser.post(DESK + path, odd).status_code in (200, 302, 409)


def test_a_page_is_given_to_the_next_run_and_undone(browser: Client, topic: Topic):
    page = text_of(browser.post(DESK + "next/", {"address": NEWS}, follow=True))
    assert "The next run will read" in page
    assert settings_of(topic).read_next == [NEWS]
    browser.post(DESK + "next/not/", {"address": NEWS})

    assert settings_of(topic).read_next == []


def test_a_private_address_is_refused_and_stays_in_the_field(browser: Client, topic: Topic):
    page = text_of(browser.post(DESK + "next/", {"address": "http://192.168.0.1/admin"}))

    assert "is a number, not a name" in page
    assert 'value="http://192.168.0.1/admin"' in page
    assert settings_of(topic).read_next == []


def test_a_rule_for_a_site_that_no_run_has_met_is_typed(browser: Client, topic: Topic):
    page = browser.post(DESK + "act/", {"place": "ads.example", "rule": "block"}, follow=True)

    assert settings_of(topic).block_domains == ["ads.example"]
    assert 'value="none topic ads.example"' in text_of(page)
    undone(browser, page)
    assert settings_of(topic).block_domains == []


def test_a_typed_place_that_is_none_stays_in_the_field(browser: Client, topic: Topic):
    page = browser.post(DESK + "act/", {"place": "no place", "rule": "mute"})

    assert 'value="no place"' in text_of(page) and 'id="rule-place-error"' in text_of(page)
    assert '<option value="mute" selected>' in text_of(page)


def test_it_comes_as_a_file_that_a_spreadsheet_can_open(browser: Client, topic: Topic):
    Hit.objects.filter(url=FARM).update(title="=cmd()")
    response = browser.get(DESK + "sources.csv?by=page&sort=^name")
    rows = list(csv.DictReader(b"".join(response.streaming_content).decode().splitlines()))  # type: ignore[attr-defined]

    assert [row["place"] for row in rows] == [FARM, f"{FARM}/c", NEWS]
    assert rows[0]["title"] == "'=cmd()"
    assert rows[1]["not_read_reason"] == "the server answered 404"


@pytest.mark.parametrize("path", ["", "sources.csv"])
def test_a_stranger_sees_nothing(client_of: ClientOf, bob: Any, topic: Topic, path: str):
    assert client_of(bob).get(DESK + path).status_code == 404


@pytest.mark.parametrize("path", ["act/", "forget/", "next/", "next/not/"])
def test_a_stranger_does_nothing(client_of: ClientOf, bob: Any, topic: Topic, path: str):
    sent = {"do": "block topic a.example", "url": NEWS, "address": NEWS}

    assert client_of(bob).post(DESK + path, sent).status_code == 404


def test_of_ten_thousand_seen_urls_a_page_is_shown_with_the_same_queries(
    browser: Client, topic: Topic, django_assert_max_num_queries: DjangoAssertNumQueries
):
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO memory_seenurl (topic_id, url, returned_in, place, returned_at) SELECT %s, "
            "'https://d' || n %% 300 || '.example/' || n, 1, n, now() FROM generate_series(1, 10000) n",
            [topic.pk],
        )
    with django_assert_max_num_queries(12):
        page = text_of(browser.get(DESK + "?by=page&sort=last_at"))

    assert "10,003 pages" in page


# --- all topics -----------------------------------------------------------------------------------

RULES = "/settings/sources/"


def test_rules_for_all_topics_are_added_and_taken_away(browser: Client, alice: Any):
    browser.post(RULES, {"place": "Farm.example", "act": "boost"})
    page = text_of(browser.post(RULES, {"place": "spam.example", "act": "block"}, follow=True))
    assert "farm.example" in page and "spam.example" in page
    browser.post(RULES, {"place": "farm.example", "act": "none"})

    assert not SourceRule.objects.for_user(alice).exists()
    assert RefusedSource.objects.filter(owner=alice, name="spam.example").exists()


def test_what_isnt_a_place_stays_in_the_form(browser: Client):
    page = text_of(browser.post(RULES, {"place": "no place", "act": "mute"}))

    assert "isn’t a domain or a URL" in page
    assert 'value="no place"' in page


def test_another_persons_rules_are_not_shown(browser: Client, bob: Any):
    SourceRule.objects.create(owner=bob, place="secret.example", act="mute")

    assert "secret.example" not in text_of(browser.get(RULES))


def test_the_versions_of_a_library_document_are_one_page(browser: Client, topic: Topic):
    document = "library:2b6b6a2e-0000-4000-8000-000000000001"
    for version in (1, 2, 10):
        place = {"url": f"{document}/{version}", "link": f"{document}/{version}"}
        run = make_run(topic)
        make_hit(run, 1, **place, domain="library", title=f"Fares {version}", reading="read")
        Source.objects.create(
            topic=topic, **place, first_run=version, first_at=run.created,
            last_run=version, last_at=run.created,
        )  # fmt: skip

    rows = source_figures.page_of(
        topic, SourcesFilter.of({"by": "page", "domain": "library"}), Rules.of(topic)
    )

    assert [(row.place, row.title, row.read) for row in rows] == [(f"{document}/10", "Fares 10", 3)]
    assert 'Sources <span class="count">1</span>' in text_of(browser.get(DESK))
