"""Related memories: the nearest by meaning or by rare words, with the reasons."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.models import Observation, TopicFact
from memory.services.search.related import related_to
from memory.tasks import embed_due
from tests.memory.embedding_cast import note
from tests.research.factories import make_fact, make_topic

pytestmark = pytest.mark.django_db


def observation(owner: Any, content: str, **more: Any) -> Observation:
    made = Observation.objects.create(owner=owner, category="finding", content=content, **more)
    Observation.follow([made])
    return made


@pytest.mark.requirement("R365")
def test_records_that_share_rare_words_are_related_and_say_which(alice: Any) -> None:
    for n in range(20):
        note(alice, f"The server has number {n}.")
    one = note(alice, "The server runs Prometheus for Hetzner.")
    other = observation(alice, "Hetzner was cheaper than the server of Prometheus.")
    note(alice, "The server is loud.")

    [found] = related_to(one)

    assert (found.record, found.type) == (other, "observation")
    assert sorted(found.words) == ["Hetzner", "Prometheus"]
    assert found.reasons == ["words"]
    assert found.why.startswith("Shares the words ")


def test_everyday_words_are_no_reason_even_if_they_are_rare(alice: Any) -> None:
    one = note(alice, "The Hetzner host lacks a point to start from.")
    note(alice, "The train lacks seats, and starts at a point in the north.")
    other = observation(alice, "Each point of the bill names the Hetzner host.")

    [found] = related_to(one)

    assert found.record == other
    assert sorted(found.words) == ["Hetzner", "host"]


@pytest.mark.usefixtures("fake", "extension")
@pytest.mark.requirement("R376")
def test_what_is_paused_is_not_near_by_meaning_either(alice: Any) -> None:
    one = note(alice, "the automobile")
    note(alice, "car", paused=True), observation(alice, "a car", paused=True)
    embed_due()

    assert related_to(one, is_agent=True) == related_to(one) == []


@pytest.mark.usefixtures("fake", "extension")
@pytest.mark.requirement("R365")
def test_records_of_similar_meaning_are_related_without_a_common_word(alice: Any) -> None:
    one, other = note(alice, "the automobile"), observation(alice, "car")
    note(alice, "a kettle of tea")
    embed_due()

    [found] = related_to(one)

    assert found.record == other
    assert (found.reasons, found.why) == (["meaning"], "Similar meaning")
    assert found.meaning > 0.35


def test_facts_are_related_too(alice: Any) -> None:
    one = note(alice, "Sodium cells come from Peak Energy.")
    fact = make_fact(make_topic(alice, "Batteries"), "Peak Energy built a plant for sodium cells.")
    TopicFact.follow([fact])

    assert [found.record for found in related_to(one)] == [fact]
    assert [found.record for found in related_to(fact)] == [one]


def test_nothing_of_others_nothing_gone_and_nothing_replaced(alice: Any, bob: Any) -> None:
    text = "Hetzner runs Prometheus."
    one = note(alice, text)
    note(bob, text)
    gone = note(alice, text)
    gone.trash(by=alice.actor)
    note(alice, text, expires_at=timezone.now() - timedelta(days=1))
    old, new = note(alice, text), note(alice, text + " Again.")
    old.change(by=alice.actor, superseded_by=new)

    assert [found.record for found in related_to(one)] == [new]


@pytest.mark.requirement("R365")
def test_an_agent_gets_nothing_sensitive_paused_or_in_quarantine(alice: Any) -> None:
    text = "Hetzner runs Prometheus."
    one = note(alice, text)
    hidden = [note(alice, text, sensitivity="sensitive"), note(alice, text, trust="quarantined")]
    note(alice, text, paused=True), observation(alice, text, paused=True)

    assert related_to(one, is_agent=True) == []
    assert {found.record for found in related_to(one)} == set(hidden)


def test_a_text_without_words_has_no_relatives(alice: Any) -> None:
    note(alice, "🦉")
    assert related_to(note(alice, "🦉")) == []
    assert related_to(note(alice, "x" * 50_000)) == []
