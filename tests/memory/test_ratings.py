"""Ratings: what a rated result changes in later searches, who can rate, and what is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.models import Message, Note, Rating, Session, as_of
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached, Locked
from memory.models.ratings import CITED_USEFUL, NOT_USEFUL, USEFUL
from memory.services.search import ratings
from memory.services.search.recall import recall, recall_each
from tests.memory.test_recall import fact, note, supersede

QUESTION = "night train to Vienna"


def agent(owner: Any) -> Actor:
    return Actor("agent", "claude")


def ranked(owner: Any, query: str = QUESTION, mode: str = "lexical", **how: Any) -> list[Any]:
    return [hit.record for hit in recall(owner, query, mode, **how)]


@pytest.fixture
def trains(alice: Any) -> list[Note]:
    """Notes about the night train, in the order in which recall ranks them."""
    made = [
        note(alice, "Night train to Vienna: the night train leaves at nine."),
        note(
            alice, "The night train to Vienna was late, said somebody in a long message about it."
        ),
        note(
            alice, "Vienna can be reached in many ways, of which one is a train, or a bus at night."
        ),
    ]
    found = ranked(alice)
    assert set(found) == set(made)
    return found


@pytest.mark.requirement("R360")
def test_a_useful_result_moves_up_and_one_that_is_not_moves_down(
    alice: Any, trains: list[Note]
) -> None:
    first, second, third = trains
    before = {hit.record: hit.score for hit in recall(alice, QUESTION, "lexical")}
    ratings.rate(alice, QUESTION, first, "not-useful", by=alice.actor)
    ratings.rate(alice, QUESTION, second, "useful", by=alice.actor)

    hits = recall(alice, QUESTION, "lexical")
    assert hits[0].record == second
    after = {hit.record: hit.score for hit in hits}
    assert after[first] == pytest.approx(before[first] * NOT_USEFUL)
    assert after[second] == pytest.approx(min(1.0, before[second] * USEFUL))
    assert after[third] == before[third]
    assert [hit.score for hit in hits] == sorted(after.values(), reverse=True)


@pytest.mark.requirement("R360")
@pytest.mark.parametrize("same", ["Vienna night trains", "to  VIENNA: night-train?", "kind:log night train to Vienna"])  # fmt: skip
def test_the_same_words_in_another_order_are_the_same_question(
    alice: Any, trains: list[Note], same: str
) -> None:
    ratings.rate(alice, QUESTION, trains[2], "useful", by=alice.actor)
    hit = next(hit for hit in recall(alice, same, "lexical") if hit.record == trains[2])
    assert hit.rating is not None and hit.rating.is_useful


def test_another_question_is_ranked_as_before(alice: Any, trains: list[Note]) -> None:
    before = [(hit.id, hit.score) for hit in recall(alice, "train Vienna", "lexical")]
    ratings.rate(alice, QUESTION, trains[0], "not-useful", by=alice.actor)
    after = recall(alice, "train Vienna", "lexical")
    assert [(hit.id, hit.score) for hit in after] == before
    assert all(hit.rating is None for hit in after)


@pytest.mark.requirement("R360")
def test_the_explanation_says_when_it_was_rated(alice: Any, trains: list[Note]) -> None:
    rating = ratings.rate(alice, QUESTION, trains[1], "useful", by=alice.actor)
    Rating.objects.filter(pk=rating.pk).update(created=timezone.now().replace(month=3, day=3))
    hit = next(hit for hit in recall(alice, QUESTION, "lexical") if hit.record == trains[1])
    year = timezone.localtime().year
    assert hit.explanation.boosts[-1] == f"Rated useful for this question on 3 March {year}"


def test_a_lower_result_takes_the_place_of_one_that_is_not_useful(
    alice: Any, trains: list[Note]
) -> None:
    ratings.rate(alice, QUESTION, trains[0], "not-useful", by=alice.actor)
    assert ranked(alice, limit=1) == [trains[1]]
    ratings.rate(alice, QUESTION, trains[0], "useful", by=alice.actor)
    ratings.rate(alice, QUESTION, trains[2], "useful", by=alice.actor)
    assert trains[0] in ranked(alice, limit=1)


def test_exact_search_and_earlier_dates_ignore_ratings(alice: Any, trains: list[Note]) -> None:
    ratings.rate(alice, QUESTION, trains[0], "not-useful", by=alice.actor)
    assert ranked(alice)[0] != trains[0]
    assert all(hit.rating is None for hit in recall(alice, QUESTION, "exact"))
    with as_of.at(alice, timezone.now() + timedelta(seconds=1)):
        assert ranked(alice)[0] == trains[0]


def test_questions_with_the_same_words_are_ranked_alike_together(
    alice: Any, trains: list[Note]
) -> None:
    ratings.rate(alice, QUESTION, trains[0], "not-useful", by=alice.actor)
    pages = recall_each(alice, [QUESTION, f"{QUESTION} kind:log"], "lexical")
    assert [page.hits[0].record for page in pages] == [trains[1], trains[1]]


def test_a_replaced_records_rating_is_not_its_replacements(alice: Any, trains: list[Note]) -> None:
    ratings.rate(alice, QUESTION, trains[0], "not-useful", by=alice.actor)
    new = supersede(trains[0], "Night train to Vienna: the night train leaves at ten.")
    hit = next(hit for hit in recall(alice, QUESTION, "lexical") if hit.record == new)
    assert hit.rating is None


def test_facts_and_other_kinds_are_rated_too(alice: Any, trains: list[Note]) -> None:
    made = fact(alice, "A night train to Vienna runs since 2021.")
    rating = ratings.rate(alice, QUESTION, made, "useful", by=alice.actor, reason="exactly this")
    assert (rating.record_type, rating.reason) == ("fact", "exactly this")
    assert ratings.rated_record(rating) == made


@pytest.mark.requirement("R361")
def test_rating_again_replaces_and_clearing_restores_the_ranking(
    alice: Any, trains: list[Note]
) -> None:
    before = [(hit.id, hit.score) for hit in recall(alice, QUESTION, "lexical")]
    first = ratings.rate(alice, QUESTION, trains[0], "useful", by=alice.actor, reason="good")
    again = ratings.rate(alice, "Vienna, night train", trains[0], "not-useful", by=alice.actor)
    assert (first.is_new, again.is_new, again.pk) == (True, False, first.pk)
    stored = Rating.objects.get()
    assert stored.record_type == "note"
    assert (stored.value, stored.reason) == ("not-useful", "")

    ratings.clear(stored, by=alice.actor)
    assert [(hit.id, hit.score) for hit in recall(alice, QUESTION, "lexical")] == before
    ratings.clear(stored, by=alice.actor)  # sent twice


def test_ratings_of_another_owner_change_nothing(alice: Any, bob: Any, trains: list[Note]) -> None:
    other = note(bob, "Night train to Vienna: the night train leaves at nine.")
    before = [(hit.id, hit.score) for hit in recall(alice, QUESTION, "lexical")]
    ratings.rate(bob, QUESTION, other, "not-useful", by=bob.actor)
    assert [(hit.id, hit.score) for hit in recall(alice, QUESTION, "lexical")] == before
    assert ratings.record_of(bob, trains[0].pk) is None


def test_an_agent_cannot_replace_or_clear_a_persons_rating(alice: Any, trains: list[Note]) -> None:
    rating = ratings.rate(alice, QUESTION, trains[0], "useful", by=alice.actor)
    with pytest.raises(Locked):
        ratings.rate(alice, QUESTION, trains[0], "not-useful", by=agent(alice))
    with pytest.raises(Locked):
        ratings.clear(rating, by=agent(alice))
    ratings.rate(alice, QUESTION, trains[1], "not-useful", by=agent(alice))
    ratings.rate(alice, QUESTION, trains[1], "useful", by=alice.actor)
    assert Rating.objects.filter(actor=str(alice.actor)).count() == 2


@pytest.mark.parametrize(
    ("question", "value", "reason", "field"),
    [
        ("", "useful", "", "question"),
        ("kind:rule", "useful", "", "question"),
        ("?!", "useful", "", "question"),
        ("x" * 1001, "useful", "", "question"),
        (QUESTION, "great", "", "value"),
        (QUESTION, "useful", "x" * 301, "reason"),
    ],
)
def test_what_cannot_be_rated_says_why(
    alice: Any, trains: list[Note], question: str, value: str, reason: str, field: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        ratings.rate(alice, question, trains[0], value, by=alice.actor, reason=reason)
    assert list(refused.value.errors) == [field]
    assert not Rating.objects.exists()


@pytest.mark.requirement("R364")
def test_the_number_of_ratings_is_limited(
    alice: Any, trains: list[Note], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ratings, "MAX_RATINGS", 1)
    ratings.rate(alice, QUESTION, trains[0], "useful", by=alice.actor)
    with pytest.raises(LimitReached):
        ratings.rate(alice, QUESTION, trains[1], "useful", by=alice.actor)
    ratings.rate(alice, QUESTION, trains[0], "not-useful", by=alice.actor)


# --- answers ---


def answered(owner: Any, *cited: Note) -> Message:
    session = Session.objects.create(owner=owner, title="Trains")
    Message.objects.create(session=session, position=0, role="user", content=QUESTION)
    cites = [{"type": "note", "id": str(one.pk), "title": "x", "url": ""} for one in cited]
    return Message.objects.create(
        session=session, position=1, role="assistant", content="At nine [1].", cites=cites
    )


@pytest.mark.requirement("R361")
def test_what_a_rated_answer_cites_moves_a_little(alice: Any, trains: list[Note]) -> None:
    answer = answered(alice, trains[2])
    before = {hit.record: hit.score for hit in recall(alice, QUESTION, "lexical")}
    question = ratings.question_of(answer)
    rating = ratings.rate(alice, question, answer, "useful", by=alice.actor)
    assert (rating.record_type, rating.position) == ("session", 1)

    hit = next(hit for hit in recall(alice, QUESTION, "lexical") if hit.record == trains[2])
    assert hit.score == pytest.approx(before[trains[2]] * CITED_USEFUL)
    assert hit.rating is not None and hit.rating.is_answer
    assert hit.explanation.boosts[-1].startswith(
        "Cited in an answer to this question that was rated useful on"
    )

    ratings.rate(alice, QUESTION, trains[2], "not-useful", by=alice.actor)
    hit = next(hit for hit in recall(alice, QUESTION, "lexical") if hit.record == trains[2])
    # The record's own rating counts more.
    assert hit.rating is not None and not (hit.rating.is_answer or hit.rating.is_useful)


def test_an_answer_in_trash_moves_nothing(alice: Any, trains: list[Note]) -> None:
    answer = answered(alice, trains[2])
    ratings.rate(alice, QUESTION, answer, "useful", by=alice.actor)
    answer.session.trash(by=alice.actor)
    assert all(hit.rating is None for hit in recall(alice, QUESTION, "lexical"))


# --- what is kept ---


@pytest.mark.requirement("R364")
def test_a_rating_is_deleted_permanently_with_its_record(alice: Any, trains: list[Note]) -> None:
    rated = ratings.rate(alice, QUESTION, trains[0], "useful", by=alice.actor)
    quoting = ratings.rate(
        alice, "bus", trains[1], "not-useful", by=alice.actor,
        reason="the night train leaves at nine, not this",
    )  # fmt: skip
    kept = ratings.rate(alice, QUESTION, trains[1], "useful", by=alice.actor)
    trains[0].trash(by=alice.actor)
    trains[0].purge(by=alice.actor)
    left = set(Rating.objects.values_list("pk", flat=True))
    assert rated.pk not in left
    assert quoting.pk not in left
    assert kept.pk in left


def test_a_topics_facts_take_their_ratings_along(alice: Any) -> None:
    made = fact(alice, "A night train to Vienna runs since 2021.")
    ratings.rate(alice, QUESTION, made, "useful", by=alice.actor)
    made.topic.trash(by=alice.actor)
    made.topic.purge(by=alice.actor)
    assert not Rating.objects.exists()


@pytest.mark.requirement("R364")
def test_a_rating_is_deleted_after_a_year(alice: Any, trains: list[Note]) -> None:
    old = ratings.rate(alice, QUESTION, trains[0], "useful", by=alice.actor)
    ratings.rate(alice, QUESTION, trains[1], "useful", by=alice.actor)
    long_ago = timezone.now() - Rating.LIFETIME
    Rating.objects.filter(pk=old.pk).update(created=long_ago)
    assert ratings.tidy() == 1
    assert Rating.objects.get().record_id == trains[1].pk


def test_ratings_follow_their_owners_language(alice: Any, trains: list[Note]) -> None:
    ratings.rate(alice, "trains", trains[0], "useful", by=alice.actor)
    alice.language = "de"
    alice.save()
    assert Rating.objects.for_user(alice).by_record("trains", ["trains"], "de") == {}
    assert ratings.tidy() == 0
    assert Rating.objects.get().key == ratings.key_of_text("trains", "de")
