"""`/recall/ratings`: who can rate what by REST, and what it changes."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from memory.models import Message, Note, Rating, Session
from memory.services.notes import saving as notes
from memory.services.review.proposals import set_levels
from memory.services.search import ratings
from tests.api.cast import Program, problem

QUESTION = "night train Vienna"
PATH = "/recall/ratings"


@pytest.fixture(autouse=True)
def _without_an_embedder(settings: Any) -> None:
    settings.BEACON_EMBEDDINGS = "none"


@pytest.fixture
def train(alice: Any) -> Note:
    return notes.write_note(
        alice, "log", "The night train to Vienna leaves at nine.", by=alice.actor
    )


@pytest.fixture
def agent(alice: Any) -> Program:
    return Program(alice, "read", "write", name="desk")


@pytest.fixture
def person(alice: Any) -> Program:
    return Program(alice, "read", "write", "admin", name="alice")


def body(key: UUID, value: str = "not-useful", **more: Any) -> dict[str, Any]:
    return {"question": QUESTION, "id": str(key), "value": value, **more}


@pytest.mark.requirement("R363")
def test_an_agent_rates_and_the_explanation_says_who(agent: Program, train: Note) -> None:
    before = agent.get(f"/recall?q={QUESTION}").json()["items"][0]
    made = agent.post(PATH, body(train.pk, reason="It leaves at ten now."))
    assert made.status_code == 201
    told = made.json()
    assert (told["record_type"], told["record_id"]) == ("note", str(train.pk))
    assert told["actor"] == "agent:desk"

    after = agent.get(f"/recall?q={QUESTION}").json()["items"][0]
    assert after["score"] < before["score"]
    assert after["explanation"]["boosts"][-1].startswith(
        "Rated not useful for this question by desk on "
    )
    assert agent.post(PATH, body(train.pk, "useful")).status_code == 200
    assert agent.delete(f"{PATH}/{told['id']}").status_code == 204
    assert not Rating.objects.exists()


@pytest.mark.requirement("R363")
def test_a_persons_rating_stays(agent: Program, person: Program, alice: Any, train: Note) -> None:
    made = person.post(PATH, body(train.pk, "useful")).json()
    problem(agent.post(PATH, body(train.pk)), 403)
    problem(agent.delete(f"{PATH}/{made['id']}"), 403)
    other = Program(alice, "read", "write", name="other")
    theirs = other.post(PATH, body(train.pk, question="Vienna")).json()
    problem(agent.delete(f"{PATH}/{theirs['id']}"), 403)
    problem(agent.post(PATH, body(train.pk, "useful", question="Vienna")), 403)
    assert person.delete(f"{PATH}/{theirs['id']}").status_code == 204
    assert Rating.objects.get().value == "useful"


@pytest.mark.requirement("R363")
@pytest.mark.parametrize(
    "hidden", [{"paused": True}, {"sensitivity": "sensitive"}, {"trust": "quarantined"}, {"scope": "agent:other"}]
)  # fmt: skip
def test_an_agent_rates_only_what_it_can_read(
    agent: Program, person: Program, train: Note, hidden: dict[str, Any]
) -> None:
    Note.objects.filter(pk=train.pk).update(**hidden)
    answers = [agent.post(PATH, body(key)) for key in (train.pk, uuid4())]
    assert len({problem(one, 404)["detail"] for one in answers}) == 1
    assert person.post(PATH, body(train.pk, "useful")).status_code == 201


@pytest.mark.requirement("R363")
def test_a_paused_result_stays_out_however_it_is_rated(
    agent: Program, alice: Any, train: Note
) -> None:
    ratings.rate(alice, QUESTION, train, "useful", by=alice.actor)
    Note.objects.filter(pk=train.pk).update(paused=True)
    assert agent.get(f"/recall?q={QUESTION}").json()["items"] == []


@pytest.mark.requirement("R363")
def test_it_is_refused_if_everything_is_reviewed(agent: Program, alice: Any, train: Note) -> None:
    made = agent.post(PATH, body(train.pk)).json()
    set_levels(alice, {"default": "hold all"}, by=alice.actor)
    problem(agent.post(PATH, body(train.pk, "useful")), 403)
    problem(agent.delete(f"{PATH}/{made['id']}"), 403)
    assert Rating.objects.get().value == "not-useful"


def test_another_owners_ratings_are_not_there(
    agent: Program, alice: Any, bob: Any, train: Note
) -> None:
    made = agent.post(PATH, body(train.pk)).json()
    stranger = Program(bob, "read", "write", "admin")
    problem(stranger.post(PATH, body(train.pk, "useful")), 404)
    problem(stranger.delete(f"{PATH}/{made['id']}"), 404)
    notes.write_note(bob, "log", train.content, by=bob.actor)
    [hit] = stranger.get(f"/recall?q={QUESTION}").json()["items"]
    assert not any("Rated" in boost for boost in hit["explanation"]["boosts"])


def test_an_answer_is_rated_by_its_session_and_position(
    agent: Program, person: Program, alice: Any, train: Note
) -> None:
    session = Session.objects.create(owner=alice, title="Trains")
    Message.objects.create(session=session, position=0, role="user", content=QUESTION)
    Message.objects.create(
        session=session, position=1, role="assistant", content="At nine.", state="done"
    )
    sent = body(session.pk, position=1)
    problem(agent.post(PATH, sent), 404)  # of another session than its own
    assert person.post(PATH, sent).json()["record_type"] == "session"
    problem(person.post(PATH, body(session.pk, position=7)), 404)
    Session.objects.filter(pk=session.pk).update(agent=agent.token.agent)
    Rating.objects.all().delete()
    assert agent.post(PATH, sent).status_code == 201


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"question": "kind:rule"}, "question"),
        ({"question": "x" * 1_001}, "question"),
        ({"value": "great"}, "value"),
        ({"reason": "x" * 301}, "reason"),
        ({"position": -1}, "position"),
    ],
)
def test_what_is_invalid_is_named(
    agent: Program, train: Note, more: dict[str, Any], field: str
) -> None:
    assert field in problem(agent.post(PATH, body(train.pk) | more), 422)["errors"]
