"""Observations: stored whole and once, found at once, corrected only by people."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from memory.models import Observation, Revision
from memory.models.actors import RESEARCH, Actor
from memory.models.errors import InvalidValue, Locked, StaleWrite
from memory.services.observations.saving import (
    Line,
    batch,
    checked_size,
    edit_observation,
    remember_lines,
    write_observation,
)
from memory.services.search import bm25

AGENT = Actor("agent", "claude")


def remember(owner: Any, *contents: str, source: str = "run:1", category: str = "finding") -> Any:
    lines = [Line(category, content) for content in contents]
    return remember_lines(owner, lines, by=RESEARCH, source=source)


def found(owner: Any, query: str) -> list[str]:
    ids = [pk for pk, _score in bm25.search(owner, "observation", query)]
    return [str(Observation.objects.get(pk=pk)) for pk in ids]


@pytest.mark.requirement("R63", "R65", "R66")
def test_an_observation_has_content_category_source_and_time(alice: Any):
    one = write_observation(
        alice, "finding", "PostgreSQL is 15.2", by=AGENT, source="GOAL:check-database"
    )

    stored = Observation.objects.for_user(alice).get(pk=one.pk)
    assert (stored.content, stored.category) == ("PostgreSQL is 15.2", "finding")
    assert (stored.source, stored.trust) == ("GOAL:check-database", "agent")
    assert stored.created is not None


@pytest.mark.requirement("R64")
def test_another_category_is_refused_with_the_known_ones(alice: Any):
    with pytest.raises(InvalidValue, match="finding, insight, lesson"):
        write_observation(alice, "rumour", "Somebody said so.", by=AGENT)


@pytest.mark.requirement("R68")
def test_a_batch_with_one_bad_line_stores_nothing_and_says_which(alice: Any):
    lines = [Line("finding", "one"), Line("lesson", "two"), Line("insight", "x" * 70_000)]

    with pytest.raises(InvalidValue, match=r"Text 3 in the batch:.*limit of 65,536"):
        remember_lines(alice, lines, by=AGENT, source="explicit")

    assert not Observation.objects.exists()
    assert found(alice, "one two") == []
    assert not Revision.objects.filter(record_type="observation").exists()


@pytest.mark.requirement("R68")
def test_a_batch_that_the_database_stops_half_way_stores_nothing(alice: Any, monkeypatch: Any):
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("the disk is full")

    monkeypatch.setattr(Revision, "record_first", broken)

    with pytest.raises(RuntimeError):
        remember(alice, "one", "two", "three")

    assert not Observation.objects.exists()
    assert found(alice, "one two three") == []


@pytest.mark.requirement("R69")
def test_empty_texts_are_left_out_and_nothing_at_all_is_refused(alice: Any):
    stored = remember(alice, "", "a fact", " \x00\u200b ")
    assert [one.content for one in stored.observations] == ["a fact"]

    with pytest.raises(InvalidValue, match="nothing to remember"):
        remember(alice, "", "  ")


def test_what_cannot_be_stored_is_taken_out_of_the_words(alice: Any):
    stored = remember(alice, "a\x00 fact\ud800 of\tmine")

    assert stored.observations[0].content == "a fact of\tmine"


@pytest.mark.requirement("R98")
def test_the_same_words_from_the_same_source_give_the_first_one(alice: Any, bob: Any):
    first = remember(alice, "The limit is 100 a minute.").observations[0]

    again = remember(alice, "the  limit is 100 a minute.", "The limit is 100 a minute.")
    assert [one.pk for one in again.observations] == [first.pk, first.pk]
    assert again.new == []
    assert remember(alice, first.content, source="run:2").observations[0].pk != first.pk
    assert remember(alice, first.content, category="lesson").observations[0].pk != first.pk
    assert remember(bob, first.content).observations[0].owner == bob


@pytest.mark.requirement("R98")
def test_what_a_person_threw_away_does_not_come_back_with_its_run(alice: Any):
    first = remember(alice, "The limit is 100 a minute.").observations[0]
    first.trash(by=alice.actor)

    assert remember(alice, first.content).new == []
    assert found(alice, "limit") == []
    mine = write_observation(alice, "finding", first.content, by=alice.actor)
    mine.trash(by=alice.actor)
    assert write_observation(alice, "finding", first.content, by=alice.actor).pk != mine.pk


@pytest.mark.requirement("R98")
@pytest.mark.django_db(transaction=True)
def test_writers_at_once_store_the_same_words_once(alice: Any):
    def write(n: int) -> Any:
        try:
            return remember(alice, "The same words.", f"Words of writer {n} alone.")
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        stored = list(pool.map(write, range(6)))

    assert len({one.observations[0].pk for one in stored}) == 1
    assert sum(len(one.new) for one in stored) == 7
    assert Observation.objects.count() == 7
    assert len(found(alice, "words")) == 7


def test_almost_the_same_is_kept_and_shown_as_such(alice: Any):
    first = remember(alice, "Solid-state cells of Kyoto cost 90 euros.").observations[0]

    near, other = remember(
        alice,
        "The solid-state cells of Kyoto cost 90 euros!",
        "Solid-state cells of Kyoto cost 95 euros.",
        source="run:2",
    ).observations
    assert near.near_duplicate_of == first
    assert Observation.objects.get(pk=other.pk).near_duplicate_of is None


def test_one_of_another_owner_isnt_a_near_duplicate(alice: Any, bob: Any):
    remember(bob, "Solid-state cells of Kyoto cost 90 euros.")

    stored = remember(alice, "Solid-state cells of Kyoto cost 90 euros!").observations[0]
    assert stored.near_duplicate_of is None


@pytest.mark.requirement("R83")
def test_an_agent_only_adds(alice: Any):
    one = remember(alice, "The limit is 100 a minute.").observations[0]

    with pytest.raises(Locked, match="Only a person"):
        edit_observation(one, by=AGENT, content="There is no limit.")
    with pytest.raises(Locked):
        one.trash(by=AGENT)
    assert Observation.objects.get(pk=one.pk).content == "The limit is 100 a minute."


@pytest.mark.requirement("R83")
def test_a_person_s_correction_is_a_revision_and_found_at_once(alice: Any):
    one = remember(alice, "The limit is 100 a minute.").observations[0]

    edit_observation(
        one,
        by=alice.actor,
        content="The ceiling is 200 a minute.",
        tags=["api"],
        expected_version=1,
    )

    revision = Revision.objects.get(record_id=one.pk, version=2)
    assert revision.before["content"] == "The limit is 100 a minute."
    assert (revision.actor, one.trust, one.version) == ("human:alice", "owner", 2)
    assert found(alice, "ceiling") == ["The ceiling is 200 a minute."]
    assert found(alice, "limit") == []
    # The run can find the old words again: they aren't this observation any longer.
    assert len(remember(alice, "The limit is 100 a minute.").new) == 1


def test_a_stale_correction_is_reported(alice: Any):
    one = remember(alice, "The limit is 100 a minute.").observations[0]
    edit_observation(one, by=alice.actor, content="Newer words.")

    with pytest.raises(StaleWrite):
        edit_observation(one, by=alice.actor, content="Mine.", expected_version=1)
    with pytest.raises(StaleWrite):
        edit_observation(one, by=alice.actor, content="Newer words.", expected_version=1)


def test_a_correction_into_the_words_of_another_is_refused(alice: Any):
    one, other = remember(alice, "First words.", "Second words.").observations

    with pytest.raises(InvalidValue, match="the same text"):
        edit_observation(one, by=alice.actor, content=other.content)
    assert (one.content, one.version) == ("First words.", 1)
    assert found(alice, "first") == ["First words."]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"content": "  "}, "Enter the text"),
        ({"content": "ä" * 40_000}, "limit of 65,536"),
        ({"category": "rumour"}, "isn’t a valid choice"),
        ({"tags": ["x" * 10_000]}, "at most 80 characters"),
        ({"sensitivity": "secret"}, "isn’t a valid choice"),
    ],
)
def test_a_correction_that_cannot_be_is_explained(alice: Any, fields: Any, told: str):
    one = remember(alice, "First words.").observations[0]

    with pytest.raises(InvalidValue, match=told):
        edit_observation(one, by=alice.actor, **fields)
    assert Observation.objects.get(pk=one.pk).version == 1


def test_a_corrected_one_names_again_what_it_is_almost_the_same_as(alice: Any):
    first = remember(alice, "Cells of Kyoto cost 90 euros.").observations[0]
    other = remember(alice, "A plant in Graz opens in May.", source="run:2").observations[0]

    edit_observation(other, by=alice.actor, content="Cells of Kyoto cost 90 euros now.")
    assert Observation.objects.get(pk=other.pk).near_duplicate_of == first
    edit_observation(other, by=alice.actor, content="A plant in Graz opens in June.")
    assert Observation.objects.get(pk=other.pk).near_duplicate_of is None


def test_a_source_that_is_too_long_is_refused(alice: Any):
    with pytest.raises(InvalidValue, match="at most 200 characters, but this one has 201"):
        remember_lines(alice, batch(["a fact"]), by=AGENT, source="x" * 201)


def test_almost_the_same_is_found_within_a_large_batch(alice: Any):
    texts = [f"The {name} of town{n} opens in May." for n in range(40) for name in ("mill", "pier")]
    texts += ["The  mill of town7 opens in May!", "A pier of town9 opens in May."]

    stored = remember(alice, *texts).observations

    assert stored[-2].near_duplicate_of == stored[14]
    assert stored[-1].near_duplicate_of == stored[19]


def test_of_several_that_are_as_near_the_first_is_named(alice: Any):
    first = remember(alice, "The cells of Kyoto cost 90 euros in May.").observations[0]
    remember(alice, "The cells of Kyoto cost 90 euros, in May.", source="run:2")

    last = remember(alice, "The cells of Kyoto cost 90 euros in May!", source="run:3")
    assert last.observations[0].near_duplicate_of == first


def test_more_texts_than_one_request_can_hold_are_refused_with_the_limit():
    with pytest.raises(InvalidValue, match=r"at most 100 texts .* and 200,000 characters"):
        checked_size(batch([f"Fact {n}." for n in range(101)]))
    with pytest.raises(InvalidValue, match="Send the texts in parts"):
        checked_size(batch(["word " * 10_000] * 5))
    checked_size(batch(["word " * 400] * 100))


def test_a_large_batch_is_compared_with_older_observations_in_a_few_queries(
    alice: Any, django_assert_max_num_queries: Any
):
    subjects = [f"Subject{number} is colder than river{number} in winter" for number in range(60)]
    older = remember(alice, *subjects[:30]).new
    again = [f"{text}!" for text in subjects[:30]]

    with django_assert_max_num_queries(30):
        stored = remember(alice, *again, *subjects[30:], source="run:2").new

    assert [one.near_duplicate_of for one in stored[:30]] == older
    assert [one.near_duplicate_of for one in stored[30:]] == [None] * 30
