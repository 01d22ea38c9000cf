"""`update_memory` rates a result of recall."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Note, Rating
from memory.services.review.proposals import set_levels
from memory.services.search import ratings
from tests.memory.test_recall import fact, note
from tests.memory.tool_cast import AGENT, call

QUERY = "night train to Vienna"


@pytest.fixture
def train(alice: Any) -> Note:
    return note(alice, "The night train to Vienna leaves at nine.")


def rate(owner: Any, record: Any, rating: str = "not-useful", **more: Any) -> Any:
    return call(
        owner, "update_memory", id=str(record.pk), **({"rating": rating, "query": QUERY} | more)
    )


@pytest.mark.requirement("R363")
def test_a_result_of_any_type_is_rated_and_its_text_stays(alice: Any, train: Note) -> None:
    known = fact(alice, "A night train to Vienna runs since 2021.")
    for record in (train, known):
        answer = rate(alice, record, reason="It leaves at ten now.")
        assert not answer.is_error, answer.text
    assert set(Rating.objects.values_list("record_type", "value", "reason", "actor")) == {
        (name, "not-useful", "It leaves at ten now.", str(AGENT)) for name in ("note", "fact")
    }
    assert Note.objects.get(pk=train.pk).version == train.version

    rate(alice, train, "none")
    assert Rating.objects.get().record_type == "fact"
    assert "nothing changed" in rate(alice, train, "none").text


@pytest.mark.requirement("R363")
@pytest.mark.parametrize(
    "hidden", [{"paused": True}, {"sensitivity": "sensitive"}, {"trust": "quarantined"}]
)
def test_what_the_agent_cannot_read_is_not_found(
    alice: Any, train: Note, hidden: dict[str, Any]
) -> None:
    Note.objects.filter(pk=train.pk).update(**hidden)
    assert rate(alice, train).data["error"] == "not_found"
    assert not Rating.objects.exists()


def test_a_persons_rating_and_rules_stay(alice: Any, bob: Any, train: Note) -> None:
    ratings.rate(alice, QUERY, train, "useful", by=alice.actor)
    assert rate(alice, train).data["error"] == "locked"
    assert rate(alice, train, "none").data["error"] == "locked"
    set_levels(alice, {"default": "hold all"}, by=alice.actor)
    assert rate(alice, train, query="Vienna").data["error"] == "locked"
    assert rate(bob, train).data["error"] == "not_found"
    assert Rating.objects.get().value == "useful"


@pytest.mark.parametrize(
    "sent",
    [
        {"rating": "useful"},
        {"rating": "useful", "query": " "},
        {"rating": "useful", "query": QUERY, "content": "New text."},
        {"rating": "great", "query": QUERY},
        {},
    ],
)
def test_arguments_that_do_not_fit_together_are_explained(
    alice: Any, train: Note, sent: dict[str, Any]
) -> None:
    answer = call(alice, "update_memory", id=str(train.pk), **sent)
    assert answer.data["error"] == "bad_arguments"
    assert not Rating.objects.exists()
