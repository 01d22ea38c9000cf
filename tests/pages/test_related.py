"""Related memories on a record's page and on a page of their own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import TopicFact
from memory.services.files.saving import save_file
from memory.services.notes.saving import supersede
from memory.services.search.related import related_to
from tests.pages.record_cast import note, observation, text_of
from tests.research.factories import make_fact, make_topic


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.mark.requirement("R366")
def test_a_records_page_lists_related_records_with_the_reason(browser: Client, alice: Any) -> None:
    one = note(alice, "Hetzner runs our Prometheus.")
    other = observation(alice, "Prometheus at Hetzner was down.")
    url = reverse("memory:related", args=["note", one.pk])
    assert f'hx-get="{url}"' in text_of(browser.get(one.get_absolute_url()))
    part = browser.get(url, headers={"HX-Request": "true", "HX-Target": "record-related"})
    html = text_of(part)
    assert "<!doctype" not in html
    assert f'href="{other.get_absolute_url()}"' in html
    assert "<mark>Prometheus</mark>" in html and "Shares the words “" in html
    assert f'href="{url}"' in html


def test_a_page_of_an_expired_or_replaced_record_loads_its_related_ones_too(
    browser: Client, alice: Any
) -> None:
    one = note(alice, "Hetzner runs our Prometheus.")
    other = observation(alice, "Prometheus at Hetzner was down.")
    supersede(one, "It runs elsewhere.", by=alice.actor)
    url = reverse("memory:related", args=["note", one.pk])
    part = browser.get(url, headers={"HX-Request": "true", "HX-Target": "record-related"})
    assert part.status_code == 200 and f'href="{other.get_absolute_url()}"' in text_of(part)


def test_the_words_that_both_share_are_marked(browser: Client, alice: Any) -> None:
    said = "Hetzner runs Prometheus, Grafana, Redis, Caddy and Postgres."
    one = note(alice, said)
    observation(alice, said.replace("runs", "sells"))
    html = text_of(browser.get(reverse("memory:related", args=["note", one.pk])))
    [found] = related_to(one)
    assert set(found.named_words) == set(re.findall("<mark>([^<]+)</mark>", html))


@pytest.mark.requirement("R366")
def test_any_type_of_memory_has_a_page_of_related_ones(browser: Client, alice: Any) -> None:
    one = note(alice, "Hetzner runs our Prometheus.")
    fact = make_fact(make_topic(alice, "Servers"), "Hetzner sells Prometheus.")
    TopicFact.follow([fact])
    text = "## Servers\n\nHetzner has Prometheus.\n"
    file = save_file(alice, "facts/memory.md", text, by=alice.actor).file
    section = file.sections.get()
    for type, record in (("fact", fact), ("file", file), ("section", section)):
        html = text_of(browser.get(reverse("memory:related", args=[type, record.pk])))
        assert f'href="{one.get_absolute_url()}"' in html, type
    assert "Nothing else" in text_of(
        browser.get(reverse("memory:related", args=["note", note(alice, "Tea.").pk]))
    )


def test_there_is_none_of_others_in_trash_or_of_an_unknown_type(
    browser: Client, alice: Any, bob: Any
) -> None:
    hers, gone = note(bob, "Mine."), note(alice, "Gone.")
    gone.trash(by=alice.actor)
    for type, key in (("note", hers.pk), ("note", gone.pk), ("memo", gone.pk)):
        assert browser.get(reverse("memory:related", args=[type, key])).status_code == 404
