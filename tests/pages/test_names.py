"""The list of names, the page about one, and merging names there."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import NameAlias, TopicFact
from tests.pages.record_cast import HTMX, note, observation, text_of
from tests.research.factories import make_fact, make_topic
from tests.undo import undone

NAMES, ABOUT = reverse("memory:names"), reverse("memory:about")


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    note(alice, "We run Grafana at Hetzner.")
    observation(alice, "The price of Hetzner rose, and Grafana moved.")
    return client_of(alice)


@pytest.mark.requirement("R368")
def test_the_list_leads_to_everything_about_a_name(browser: Client, alice: Any) -> None:
    html = text_of(browser.get(NAMES))
    assert f'{ABOUT}?name=Hetzner"' in html
    assert "Grafana" in html
    part = text_of(browser.get(f"{NAMES}?q=graf", headers={**HTMX, "HX-Target": "names"}))
    assert "Grafana" in part and "Hetzner" not in part and "<html" not in part

    page = text_of(browser.get(ABOUT, {"name": "hetzner"}))
    for word in ("Notes", "Observations", "Grafana"):
        assert word in page
    assert "Timeline" not in page  # a single month
    note(alice, "Hetzner had a sale.", created=timezone.now() - timedelta(days=40))
    assert "Timeline" in text_of(browser.get(ABOUT, {"name": "hetzner"}))
    assert "<mark>Hetzner</mark>" in page
    only = text_of(browser.get(ABOUT, {"name": "hetzner", "type": "note"}))
    assert "We run" in only and "The price of" not in only


def test_the_page_starts_with_the_current_facts_which_are_listed_once(
    browser: Client, alice: Any
) -> None:
    topic = make_topic(alice, "Cities")
    facts = [make_fact(topic, f"Lisbon has {number} tram lines.") for number in range(7)]
    TopicFact.follow(facts)
    note(alice, "Lisbon was warm.")

    page = browser.get(ABOUT, {"name": "Lisbon"})

    html = text_of(page)
    assert len(page.context["facts"]) == 5 and "What Beacon knows now" in html
    assert f'href="{ABOUT}?name=Lisbon&amp;type=fact">Show all' in html
    ids = re.findall('id="(memory-[^"]+)"', html)
    assert len(ids) == len(set(ids)) == 8
    only = text_of(browser.get(ABOUT, {"name": "Lisbon", "type": "fact"}))
    assert "What Beacon knows now" not in only


def test_a_writer_heads_one_group_of_a_day_and_the_rest_of_it_is_folded(
    browser: Client, alice: Any
) -> None:
    for number in range(8):  # the writers alternate
        note(alice, f"Lisbon raised price {number}.", source="run:7")
        note(alice, f"Lisbon is in tariff {number}.")
    page = browser.get(ABOUT, {"name": "Lisbon"})
    groups = page.context["groups"]
    assert {one["who"] for one in groups} == {"You", "Run 7 (deleted)"}
    assert [(len(one["rows"]), len(one["more"])) for one in groups] == [(5, 3), (5, 3)]
    assert "3 more" in text_of(page)


@pytest.mark.requirement("R368")
def test_a_records_page_leads_to_the_names_in_it(browser: Client, alice: Any) -> None:
    one = note(alice, "Ask Hetzner about it. Use tea.")
    html = text_of(browser.get(one.get_absolute_url()))
    assert f'href="{ABOUT}?name=Hetzner"' in html
    assert "name=Use" not in html


@pytest.mark.requirement("R369")
def test_names_are_merged_split_and_the_merge_undone(browser: Client, alice: Any) -> None:
    asked = {"name": "Hetzner Online", "into": "Hetzner"}
    page = browser.post(reverse("memory:names-merge"), asked, follow=True)
    assert "Separate Hetzner Online" in text_of(page)
    page = undone(browser, page)
    assert not NameAlias.objects.exists()
    page = undone(browser, page)
    assert NameAlias.objects.get().target == "Hetzner"
    undone(browser, page)
    assert not NameAlias.objects.exists()

    browser.post(reverse("memory:names-merge"), {"name": "Hetzner Online", "into": "Hetzner"})
    browser.post(reverse("memory:names-split"), {"name": "Hetzner Online"})
    assert not NameAlias.objects.exists()
    same = browser.post(reverse("memory:names-merge"), {"name": "hetzner", "into": "Hetzner"})
    assert same.status_code == 409


def test_no_name_leads_to_the_list_and_an_unknown_one_to_a_search(browser: Client) -> None:
    assert browser.get(ABOUT).headers["Location"] == NAMES
    assert "No record contains" in text_of(browser.get(ABOUT, {"name": "Zanzibar"}))
    assert browser.get(ABOUT, {"name": "Hetzner", "cursor": "x"}).status_code == 200


def test_the_pages_take_a_fixed_number_of_queries(
    browser: Client, alice: Any, django_assert_max_num_queries: Any
) -> None:
    for n in range(40):
        note(alice, f"We met Ada Lovelace and Bob{n} Smith at Hetzner, number {n}.")
    with django_assert_max_num_queries(17):
        browser.get(ABOUT, {"name": "Hetzner"})
    topic = make_topic(alice, "Hosts")
    TopicFact.follow([make_fact(topic, f"Hetzner has {n} halls.") for n in range(9)])
    with django_assert_max_num_queries(20):
        browser.get(ABOUT, {"name": "Hetzner"})
    with django_assert_max_num_queries(9):
        browser.get(NAMES)
