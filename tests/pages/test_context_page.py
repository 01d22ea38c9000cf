"""The Context page: layer by layer what an agent would be given, how large it is, and why."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.context.layers import build_context
from memory.core.actors import Actor
from memory.models import Note, Topic, TopicFact, Trust, Use, User
from memory.observations.services import write_observation
from tests.pages.record_cast import note, text_of

HTMX = {"HX-Request": "true", "HX-Target": "context"}
CONTEXT = reverse("memory:context")
TEXT = reverse("memory:context-text")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def fares(alice: User) -> Note:
    return note(alice, "Search results on fares are stale.", kind="rule")


@pytest.fixture
def kyoto(alice: User) -> Topic:
    """A topic with live memory: one fact, one that was struck."""
    soon = timezone.now() + timedelta(days=30)
    topic = Topic.objects.create(
        owner=alice, title="Kyoto", slug="kyoto", source="x", run_count=2,
        summary="Rooms got dearer.", expires_at=soon, last_run_at=timezone.now(),
    )  # fmt: skip
    for place, text in enumerate(("A night costs 90 euros.", "The station is closed."), start=1):
        TopicFact.objects.create(owner=alice, topic=topic, text=text, key=text, position=place)
    TopicFact.objects.filter(text__startswith="The station").update(state="struck")
    return topic


def part(browser: Client, name: str, **asked: str) -> Any:
    preview = browser.get(CONTEXT, asked).context["preview"]
    parts = [*preview.layers, preview.index, *([preview.topic] if preview.topic else [])]
    return next(one for one in parts if one.name == name)


@pytest.mark.requirement("R224")
def test_six_layers_and_the_files_are_shown_each_with_its_size_and_why(
    browser: Client, alice: User, fares: Note
):
    answer = browser.get(CONTEXT, {"message": "Which fares are cheap?"})
    preview, built = answer.context["preview"], build_context(alice, message="Which fares?")
    assert [one.name for one in preview.layers] == [one.name for one in built.layers]
    assert part(browser, "rules").size == built.layer("rules").size
    html = text_of(answer)
    assert "Search results on fares are stale." in html
    assert "included · similar to the message in wording" in html
    assert "facts/user.md" in html
    assert "estimated at 4 bytes per token" in html
    assert reverse("memory:note-edit", args=[fares.pk]) in html


@pytest.mark.requirement("R222")
def test_what_is_left_out_is_said_with_why_and_stands_in_no_text(browser: Client, alice: User):
    note(alice, "The passport lies in the safe.", kind="rule", sensitivity="sensitive")
    gone = part(browser, "rules", message="passport").left_out
    assert [(one.text, one.why) for one in gone] == [
        ("The passport lies in the safe.", "sensitive, so it’s never included")
    ]
    assert "passport" not in browser.get(CONTEXT).context["preview"].text
    assert "passport" not in browser.get(TEXT).content.decode()


def test_over_htmx_the_layers_alone_answer(browser: Client, fares: Note):
    html = browser.get(CONTEXT, {"message": "fares"}, headers=HTMX).content.decode()
    assert html.lstrip().startswith('<section id="context"')
    assert "stale" in html


def test_a_smaller_budget_leaves_rules_out_and_says_so(browser: Client, alice: User):
    for number in range(10):
        note(alice, f"Rule {number}. " + "Be brief and plain. " * 90, kind="rule")
    whole, tight = part(browser, "rules"), part(browser, "rules", budget="3000", unit="tokens")
    assert len(whole.lines) == 10
    assert 0 < len(tight.lines) < 10
    assert "no room: all layers together are limited to 3,000 tokens" in tight.left_out[-1].why


def test_a_budget_that_not_even_the_fixed_layers_keep_is_told(browser: Client):
    assert "characters over the budget" in text_of(browser.get(CONTEXT, {"budget": "10"}))


@pytest.mark.parametrize("budget", ["none", "-1", "0", "1.5", "9" * 40, "٣٠٠", "1e5"])
def test_a_budget_that_cannot_be_is_explained_and_kept(browser: Client, budget: str):
    answer = browser.get(CONTEXT, {"budget": budget})
    assert answer.context["preview"].wanted.most == 60_000
    assert "Enter a whole number from 1 to 1,000,000" in text_of(answer)
    assert f'value="{budget[:20]}"' in text_of(answer)


def test_a_message_that_is_too_long_is_cut_and_that_is_said(browser: Client):
    html = text_of(browser.get(CONTEXT, {"message": "fares " * 2_000}))
    assert "Only the first 10,000 of 11,999 characters" in html


@pytest.mark.parametrize("asked", [{"topic": "x\x00<b>"}, {"unit": "words"}, {"message": "\x00"}])
def test_an_address_that_cannot_be_is_no_error(browser: Client, asked: dict[str, str]):
    assert browser.get(CONTEXT, asked).status_code == 200


def test_a_topic_shows_what_its_runs_are_told_with_its_observations(
    browser: Client, alice: User, kyoto: Topic
):
    write_observation(alice, "finding", "Kyoto has a new night train.", by=Actor("agent", "desk"))
    shown = part(browser, "topic", topic="kyoto")
    assert [line.text for line in shown.lines] == [
        "Rooms got dearer.", "A night costs 90 euros.", "The station is closed.",
        "Kyoto has a new night train.",
    ]  # fmt: skip
    assert "Do NOT research or report these again" in shown.text
    assert "- Kyoto has a new night train." in shown.text
    assert shown.text in browser.get(TEXT, {"topic": "kyoto"}).content.decode()


def test_a_topic_that_is_not_there_is_told(browser: Client):
    assert "There’s no topic “osaka”" in text_of(browser.get(CONTEXT, {"topic": "osaka"}))


def test_what_came_from_outside_is_marked(browser: Client, alice: User):
    note(alice, "Read on the web.", kind="summary", trust=Trust.EXTERNAL)
    assert "external, as data" in text_of(browser.get(CONTEXT))


def test_looking_is_no_use(browser: Client, fares: Note, kyoto: Topic):
    browser.get(CONTEXT, {"message": "fares", "topic": "kyoto"})
    browser.get(TEXT, {"message": "fares"})
    assert not Use.objects.exists()


def test_the_text_is_a_file(browser: Client, alice: User):
    answer = browser.get(TEXT)
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert "attachment" in answer["Content-Disposition"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "Available memory:" in answer.content.decode()


def test_a_stranger_sees_their_own(
    fares: Note, kyoto: Topic, bob: User, client_of: Callable[[User], Client]
):
    html = text_of(client_of(bob).get(CONTEXT, {"message": "fares", "topic": "kyoto"}))
    assert "stale" not in html
    assert "There’s no topic “kyoto”" in html
    assert "90 euros" not in html


def test_the_page_takes_a_fixed_number_of_queries(
    browser: Client, alice: User, kyoto: Topic, django_assert_max_num_queries: Any
):
    for number in range(30):
        note(alice, f"Fares rule {number}.", kind="rule")
        note(alice, f"Fares summary {number}.", kind="summary")
    # Rules and summaries are recalled each for itself, and a topic's observations twice.
    with django_assert_max_num_queries(32):
        browser.get(CONTEXT, {"message": "fares", "topic": "kyoto"})
    with django_assert_max_num_queries(15):
        browser.get(CONTEXT)
