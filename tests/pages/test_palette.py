"""The palette: one field that leads to pages, topics, files, documents and notes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import LibraryDocument, Note, Topic, TopicFact, User
from memory.services.notes.saving import write_note
from tests.pages.record_cast import observation
from tests.research.factories import make_report, make_run, make_topic

HTMX = {"HX-Request": "true"}
URL = "/palette/"


def make_note(owner: User, words: str) -> Note:
    return write_note(owner, "log", words, by=owner.actor)


def links(browser: Client, words: str = "") -> dict[str, str]:
    """Return the address of each row by its words."""
    html = browser.get(URL, {"words": words}, headers=HTMX).content.decode()
    found = re.findall(r'<a href="([^"]+)">.*?<bdi class="clip">(.*?)</bdi>', html, re.S)
    return {label: address for address, label in found}


def test_without_words_it_offers_the_last_topics_and_what_can_be_done(
    browser: Client, topic: Topic
) -> None:
    found = links(browser)
    assert found[topic.title] == f"/topics/{topic.slug}/"
    assert found["New topic"] == "/topics/new/"


def test_a_topic_is_found_by_words_in_any_order(browser: Client, alice: User) -> None:
    made = make_topic(alice, title="Solid-state batteries for ferries")
    assert made.title in links(browser, "ferries SOLID")
    assert made.title not in links(browser, "ferries diesel")


def test_pages_are_found_by_a_part_of_their_name(browser: Client) -> None:
    assert links(browser, "conf")["Conflicts"] == "/inbox/?show=conflict"
    assert links(browser, "usage")["Usage and limits"] == "/settings/spending/"


def test_notes_and_documents_are_found(browser: Client, alice: User) -> None:
    note = make_note(alice, "Ferries dock at pier nine.")
    document = LibraryDocument(owner=alice, title="Pier plan", text="Nine piers.")
    LibraryDocument.objects.add([document], by=alice.actor)
    found = links(browser, "pier")
    assert found["Ferries dock at pier nine."] == note.get_absolute_url()
    assert found["Pier plan"] == document.get_absolute_url()


def test_facts_and_observations_are_found_and_a_run_summary_does_not_hide_them(
    browser: Client, topic: Topic, alice: User
) -> None:
    fact, gone = (
        TopicFact.objects.add(topic, f"Ferries dock at pier {pier} in Osaka.", by=alice.actor)
        for pier in ("nine", "two")
    )
    gone.strike(by=alice.actor)
    for said in (fact, gone):
        observation(alice, said.text, topic=topic)
    lesson = observation(alice, "Ferries to Osaka are late in winter.")
    for number in range(4):
        note = make_note(alice, f"Run #{number} of Ferries\n\n**Goal:** ferries to Osaka.")
        Note.objects.filter(pk=note.pk).update(kind="summary", source=f"run:{number}")
    found = links(browser, "ferries osaka")
    assert found[fact.text].endswith(f"?fact={fact.pk}#fact-{fact.pk}")
    assert found[lesson.content] == lesson.get_absolute_url()
    assert gone.text not in found
    assert sum(label.startswith("Run #") for label in found) == 1
    assert not any("**" in label for label in found)


def test_a_row_shows_the_words_that_match(browser: Client, alice: User) -> None:
    make_note(alice, "**Harbours** are listed here. " * 8 + "The lighthouse of Kobe is closed.")
    [label] = [one for one in links(browser, "lighthouse") if "Kobe" in one]
    assert len(label) < 100 and "**" not in label


def test_without_words_it_offers_what_was_stored_last(
    browser: Client, topic: Topic, alice: User
) -> None:
    make_note(alice, "Ferries dock at **pier** nine.")
    run = make_report(make_run(topic)).run
    found = links(browser)
    assert "Ferries dock at pier nine." in found
    assert found[f"Run #{run.number} of {topic.title}"] == f"/topics/{topic.slug}/runs/{run.pk}/"


def test_nothing_of_another_owner_is_offered(
    client_of: Any, bob: User, alice: User, topic: Topic
) -> None:
    make_note(alice, "Ferries dock at pier nine.")
    TopicFact.objects.add(topic, "The pier of Osaka is long.", by=alice.actor)
    observation(alice, "A pier of Kobe is short.")
    theirs = links(client_of(bob), "pier") | links(client_of(bob), topic.title)
    theirs |= links(client_of(bob))
    hidden = ("Ferries dock", "The pier of Osaka", "A pier of Kobe", topic.title)
    assert not [one for one in theirs if one.startswith(hidden)]


def test_what_it_does_not_know_leads_on_to_recall_and_ask(browser: Client) -> None:
    found = links(browser, "xylophone & <b>")
    assert sorted(found.values()) == [
        "/ask/?q=xylophone+%26+%3Cb%3E",
        "/memory/?q=xylophone+%26+%3Cb%3E",
    ]


@pytest.mark.parametrize("is_staff", [False, True])
def test_it_knows_every_tab_of_settings_that_the_person_has(
    browser: Client, alice: User, is_staff: bool
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=is_staff)
    page = browser.get("/settings/profile/").content.decode()
    tabs = page.partition('<nav class="side-nav" aria-label="Settings">')[2].partition("</nav>")[0]
    shown = {label: url for url, label in re.findall(r'<a [^>]*href="(.*?)"[^>]*>(.*?)</a>', tabs)}
    assert len(shown) >= 6
    for label, url in shown.items():
        assert links(browser, label)[label] == url
    assert not set(shown) & set(links(browser))


def test_any_words_are_a_question(browser: Client) -> None:
    for words in ("\x00", "%", "'\"\\", "a" * 5_000, " ".join("ab" * 300), "۞ 人工智能"):
        assert browser.get(URL, {"words": words}).status_code == 200


def test_without_scripts_it_is_a_page_that_the_rail_leads_to(browser: Client) -> None:
    home = browser.get("/").content.decode()
    assert f'class="palette-open" href="{reverse("research:palette")}"' in home
    page = browser.get(URL, {"words": "usage"}).content.decode()
    assert '<a href="/settings/spending/">' in page
    assert '<form method="get" class="search"' in page


def test_it_takes_few_queries(
    browser: Client, topic: Topic, alice: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(3):
        make_topic(alice, title=f"Pier {number}")
        make_note(alice, f"Pier {number} is long.")
        TopicFact.objects.add(topic, f"Pier {number} is in the harbour.", by=alice.actor)
        observation(alice, f"Pier {number} is old.", topic=topic)
    for words, most in (("pier", 20), ("", 10)):
        with django_assert_max_num_queries(most):
            browser.get(URL, {"words": words}, headers=HTMX)
