"""A conflict is recorded once, and is deleted with its records."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Activity, Conflict, Note
from memory.models.errors import InvalidValue
from memory.services.notes import saving as notes
from memory.services.observations.saving import write_observation

pytestmark = pytest.mark.django_db
CONTRADICTION = Conflict.Kind.CONTRADICTION
NEAR = Conflict.Kind.NEAR_DUPLICATE


def pair(owner: Any) -> tuple[Note, Note]:
    return (
        notes.write_note(owner, "log", "A cell costs 89 $.", by=owner.actor),
        notes.write_note(owner, "log", "A cell costs 74 $.", by=owner.actor),
    )


def noted(owner: Any, left: Any, right: Any, kind: str = CONTRADICTION) -> Conflict:
    found = Conflict.objects.note(owner, kind, left, right, source="run:3", reason="number")
    assert found is not None
    return found


def test_the_same_pair_is_noted_once_whichever_side_is_named_first(alice: Any):
    left, right = pair(alice)
    first = noted(alice, left, right)

    assert noted(alice, right, left).pk == first.pk
    assert (first.left_version, first.source) == (1, "run:3")
    assert Activity.objects.get(kind="conflict-found").label == "A cell costs 89 $."


def test_someone_elses_record_is_in_no_conflict(alice: Any, bob: Any):
    left, _right = pair(alice)
    theirs, _other = pair(bob)

    with pytest.raises(InvalidValue, match="same owner"):
        Conflict.objects.note(alice, NEAR, left, theirs)
    with pytest.raises(InvalidValue, match="itself"):
        Conflict.objects.note(alice, NEAR, left, left)


def test_the_soul_is_in_no_conflict(alice: Any):
    left, _right = pair(alice)
    with pytest.raises(InvalidValue, match="for conflicts"):
        Conflict.objects.note(alice, NEAR, left, Note.objects.for_user(alice).get(kind="soul"))


def test_a_side_in_the_trash_resolves_it_and_its_return_opens_it_again(alice: Any):
    left, right = pair(alice)
    one = noted(alice, left, right)
    right.trash(by=alice.actor)

    one.refresh_from_db()
    assert (one.state, one.resolution) == ("resolved", "gone")
    [line] = Activity.objects.filter(kind="conflict-gone")
    assert (line.label, line.detail) == (str(left), {"because": "trashed"})
    right.restore(by=alice.actor)
    assert Activity.objects.get(kind="conflict-reopened").label == str(left)
    assert Conflict.objects.standing().get() == one


def test_a_side_in_the_trash_is_not_noted(alice: Any):
    left, right = pair(alice)
    right.trash(by=alice.actor)
    assert Conflict.objects.note(alice, NEAR, left, right) is None


def test_a_superseded_note_is_in_no_conflict(alice: Any):
    left, right = pair(alice)
    noted(alice, left, right)
    notes.supersede(left, "A cell costs 80 $.", by=alice.actor)

    assert not Conflict.objects.for_user(alice).standing().exists()


def test_what_was_resolved_stays_so_until_a_side_says_something_else(alice: Any):
    left, right = pair(alice)
    one = noted(alice, left, right)
    Conflict.objects.filter(pk=one.pk).update(state="resolved", resolution="both")

    assert noted(alice, left, right).pk == one.pk
    notes.edit_note(right, content="A cell costs 70 $.", by=alice.actor)
    assert noted(alice, left, right).pk != one.pk


def test_it_is_deleted_permanently_with_a_side_and_so_is_what_the_log_says(alice: Any):
    one = write_observation(alice, "finding", "A cell costs 89 $ a kWh.", by=alice.actor)
    other = write_observation(alice, "finding", "Range is 600 km at best.", by=alice.actor)
    noted(alice, one, other)
    other.trash(by=alice.actor)
    other.purge(by=alice.actor)

    assert not Conflict.objects.exists()
    assert not Activity.objects.filter(kind="conflict-found").exclude(label="").exists()
