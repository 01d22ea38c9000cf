"""Resolving conflicts in each way, and undoing it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import Activity, Conflict, Note, Observation, TopicFact, Trust
from memory.models.errors import InvalidValue
from memory.services.notes import saving as notes
from memory.services.observations.saving import write_observation
from memory.services.records.history import ChangedSince
from memory.services.review import conflicts as conflict_services
from memory.tasks import maintain
from tests.memory.conflict_cast import NEW, OLD, facts, noted, observations, texts, two_notes
from tests.memory.review_cast import AGENT

pytestmark = pytest.mark.django_db
MERGED = "A pack costs 74 to 89 dollars per kWh, by its maker."
CASES = [facts, observations, two_notes]


def resolved(one: Conflict, how: str, **more: Any) -> Conflict:
    return conflict_services.resolve(one, how, by=one.owner.actor, **more)


@pytest.mark.parametrize("made", CASES)
@pytest.mark.parametrize(
    ("how", "left"), [("left", [OLD]), ("right", [NEW]), ("both", [NEW, OLD]), ("merged", [MERGED])]
)
def test_each_way_leaves_what_it_says_and_is_undone_whole(
    alice: Any, made: Callable[[Any], Conflict], how: str, left: list[str]
) -> None:
    one = made(alice)
    before = texts(alice)
    done = resolved(one, how, text=MERGED)

    assert sorted(chain(*texts(alice).values())) == left
    assert (done.state, done.resolution) == ("resolved", how)
    conflict_services.undo_change(done, by=alice.actor)
    assert texts(alice) == before
    assert Conflict.objects.standing().get() == one


def test_the_kept_side_of_a_contradiction_is_the_persons_word(alice: Any):
    one = facts(alice)
    resolved(one, "right")

    right, left = TopicFact.objects.get(pk=one.right_id), TopicFact.objects.get(pk=one.left_id)
    assert (right.trust, right.edited_by_person) == (Trust.OWNER, True)
    assert right.confirmed_at is not None
    assert (left.state, left.retired_as) == ("retired", "replaced")
    conflict_services.undo_change(one, by=alice.actor)
    right.refresh_from_db()
    assert (right.trust, right.edited_by_person) == ("external", False)


def test_of_two_facts_the_newer_one_was_wrong_if_the_older_is_kept(alice: Any):
    one = facts(alice)
    resolved(one, "left")
    assert TopicFact.objects.get(pk=one.right_id).state == "struck"


def test_a_newer_fact_and_what_it_replaced_answer_the_question_of_the_older(alice: Any):
    one = facts(alice, kept=False)
    left, right = TopicFact.objects.get(pk=one.left_id), TopicFact.objects.get(pk=one.right_id)
    replaced = TopicFact.objects.create(
        owner=alice, topic=right.topic, text="A pack of cells costs 75 dollars per kWh.",
        chain=right.chain, trust="external", source="run:6", state="retired",
    )  # fmt: skip
    was = [right.chain, left.chain, right.chain]
    resolved(one, "right")

    chains = TopicFact.objects.order_by("created").values_list("chain", flat=True)
    assert set(chains) == {left.chain}
    replaced.refresh_from_db()
    assert replaced.trust == "external"  # the person kept another fact
    conflict_services.undo_change(one, by=alice.actor)
    for each, before in zip((replaced, left, right), was, strict=True):
        each.refresh_from_db()
        assert each.chain == before
    assert not left.edited_by_person


def test_an_undo_after_the_same_two_came_up_again_leaves_one_that_waits(alice: Any):
    one = two_notes(alice, "near-duplicate")
    resolved(one, "both")
    left = Note.objects.get(pk=one.left_id)
    notes.edit_note(left, by=alice.actor, expected_version=left.version, content=f"{OLD} Still.")
    again = noted(alice, left, Note.objects.get(pk=one.right_id), "near-duplicate")
    assert again != one

    with pytest.raises(conflict_services.AlreadyResolved, match="already open"):
        conflict_services.undo_change(one, by=alice.actor)
    assert conflict_services.take_back_of(alice, one.resolved_at, by=alice.actor).done == 0
    assert Conflict.objects.standing().get() == again


def test_of_two_that_say_the_same_the_other_fact_is_retired_not_struck(alice: Any):
    one = facts(alice, kept=False)
    Conflict.objects.update(kind="near-duplicate")
    resolved(one, "left")

    right = TopicFact.objects.get(pk=one.right_id)
    assert (right.state, right.trust) == ("retired", "external")


def test_both_can_say_of_which_day_they_are(alice: Any):
    resolved(two_notes(alice), "both", dated=True)
    assert ["(as of " in text for text in texts(alice)["notes"]] == [True, True]


def test_merged_observations_keep_all_tags_and_the_strictest_mark(alice: Any):
    one = observations(alice)
    right = Observation.objects.get(pk=one.right_id)
    right.change(by=alice.actor, sensitivity="sensitive")
    resolved(one, "merged", text=MERGED)

    left = Observation.objects.get(pk=one.left_id)
    assert (left.content, left.sensitivity, set(left.tags)) == (
        MERGED, "sensitive", {"price", "cells"},
    )  # fmt: skip


def test_an_empty_text_merges_nothing(alice: Any):
    one = two_notes(alice)
    with pytest.raises(InvalidValue, match="Enter the text"):
        resolved(one, "merged", text="  ")
    assert Conflict.objects.open().count() == 1
    assert texts(alice)["notes"] == [NEW, OLD]


def test_a_side_that_changed_since_is_not_resolved_over(alice: Any):
    one = two_notes(alice)
    notes.edit_note(Note.objects.get(pk=one.right_id), content="Another price.", by=alice.actor)

    with pytest.raises(conflict_services.StaleConflict):
        resolved(one, "left", seen=(1, 1))
    assert texts(alice)["notes"] == [OLD, "Another price."]


def test_two_windows_resolve_it_once(alice: Any):
    one = two_notes(alice)
    resolved(one, "left")
    with pytest.raises(conflict_services.AlreadyResolved, match="kept older"):
        resolved(one, "right")


def test_topics_and_records_are_held_before_what_names_them(alice: Any):
    # A run's save locks them in this order too: the other way round, each would wait for the other.
    row = facts(alice)
    with CaptureQueriesContext(connection) as asked:
        conflict_services.resolve(row, "left", by=alice.actor)
    assert _held(asked) == [
        "memory_topic",
        "memory_topicfact",
        "memory_topicfact",
        "memory_conflict",
    ]

    with CaptureQueriesContext(connection) as asked:
        conflict_services.undo_change(row, by=alice.actor)
    assert _held(asked).index("memory_topic") < _held(asked).index("memory_conflict")


def _held(asked: CaptureQueriesContext) -> list[str]:
    rows = (one["sql"] for one in asked.captured_queries if "FOR UPDATE" in one["sql"])
    return [re.findall(r'FROM "(\w+)"', sql)[0] for sql in rows]


def test_an_agent_resolves_nothing(alice: Any):
    with pytest.raises(InvalidValue, match="Only a person"):
        conflict_services.resolve(two_notes(alice), "left", by=AGENT)


def test_what_was_changed_after_resolving_is_not_overwritten_by_undo(alice: Any):
    one = resolved(facts(alice), "right")
    TopicFact.objects.get(pk=one.left_id).unstrike(by=alice.actor)

    with pytest.raises(ChangedSince):
        conflict_services.undo_change(one, by=alice.actor)
    assert not Conflict.objects.open().exists()


def test_many_are_kept_both_and_come_back_in_one_act(alice: Any):
    rows = [two_notes(alice, "near-duplicate"), observations(alice)]
    done = conflict_services.keep_both_of(rows, by=alice.actor)

    assert (done.done, Conflict.objects.open().count()) == (2, 0)
    assert conflict_services.take_back_of(alice, done.key, by=alice.actor).done == 2


def test_a_side_that_expired_resolves_it_by_itself_with_a_line_in_the_log(alice: Any):
    one = two_notes(alice)
    Note.objects.filter(pk=one.left_id).update(expires_at="2020-01-01T00:00:00Z", pinned=True)
    assert not Conflict.objects.standing().exists()
    maintain()

    one.refresh_from_db()
    assert one.resolution == "gone"
    assert Activity.objects.filter(kind="conflict-gone").exists()


def test_resolving_one_of_which_a_side_is_gone_only_says_so(alice: Any):
    one = two_notes(alice)
    Note.objects.filter(pk=one.left_id).update(expires_at="2020-01-01T00:00:00Z")
    assert resolved(one, "left").resolution == "gone"


# --- finding --------------------------------------------------------------------------------------


def test_maintenance_finds_notes_and_observations_that_say_almost_the_same(alice: Any):
    text = "The supplier ships cells by sea from the port of Kobe every second week."
    for words in (text, text.replace("every second week", "every 2nd week"), text + " Always."):
        notes.write_note(alice, "log", words, by=alice.actor)
    write_observation(alice, "finding", text, by=alice.actor)
    write_observation(alice, "finding", text.replace("ships", "is shipping"), by=alice.actor)
    maintain()
    maintain()

    kinds = list(Conflict.objects.values_list("kind", "left_type").order_by("left_type"))
    assert kinds == [("near-duplicate", "note"), ("near-duplicate", "observation")]


def test_what_differs_in_a_number_isnt_a_near_duplicate(alice: Any):
    for text in (OLD, NEW):
        notes.write_note(alice, "log", text, by=alice.actor)
    assert conflict_services.find(alice) == 0


def test_what_a_run_finds_again_isnt_a_question_to_a_person(alice: Any):
    one = write_observation(alice, "finding", "Solid cells charge in twelve minutes.", by=AGENT)
    two = write_observation(alice, "finding", "Solid cells charge in twelve minutes!!", by=AGENT)
    for number, each in enumerate((one, two), start=1):
        type(each).objects.filter(pk=each.pk).update(source=f"run:{number}", trust="external")
    assert conflict_services.find(alice) == 0


def test_facts_of_one_topic_that_say_the_same_are_found(alice: Any):
    one = facts(alice)
    Conflict.objects.all().delete()
    TopicFact.objects.filter(pk=one.right_id).update(text=OLD + "!")
    assert conflict_services.find(alice) == 1


def test_someone_elses_pair_is_not_mine(alice: Any, bob: Any):
    two_notes(bob)
    assert not Conflict.objects.for_user(alice).exists()
