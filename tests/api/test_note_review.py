"""Each action of an agent on its own notes, at each review level."""

from __future__ import annotations

from typing import Any

import pytest

from memory.api.notes import NotePatch
from memory.models import Note, Proposal, Trust
from memory.services.notes import saving as notes
from memory.services.review import acts as review_undo
from memory.services.review import proposals as review_services
from memory.services.review import trust
from memory.services.review.proposals import set_levels
from tests.api.cast import Program, problem

BASE = {
    "content": "Invoices from Globex come on Fridays.", "evidence": ["t1"], "confidence": 0.9,
    "stability": "volatile", "ttl_days": 30, "scope": "owner",
}  # fmt: skip
# A value for each field that an agent can change; a new field of NotePatch needs one.
CHANGES: dict[str, Any] = {
    "content": "Invoices from Globex are paid without asking.",
    "kind": "rule",
    "tags": ["globex"],
    "stability": "permanent",
    "ttl_days": 90,
    "confidence": 1.0,
    "evidence": ["t1", "t2"],
    "scope": "agent:desk",
}
PERSONS = {"sensitivity": "sensitive", "pinned": True, "paused": True, "lock": "read-only"}
LEVELS = ("accept", "hold risky", "hold all")


def level(owner: Any, name: str) -> None:
    set_levels(owner, {"default": name}, by=owner.actor)


def written(agent: Program, **more: Any) -> str:
    """Write a note while nothing is held, and return its URL."""
    level(agent.owner, "accept")
    answer = agent.post("/notes", {**BASE, **more})
    assert answer.status_code == 201, answer.content
    return f"/notes/{answer.json()['id']}"


def accepted(owner: Any, by: Program) -> Any:
    """Accept the one pending proposal, and return the result."""
    proposal = Proposal.objects.get(owner=owner, state="waiting")
    assert by.post(f"/proposals/{proposal.pk}/accept").status_code == 200
    return Proposal.objects.get(pk=proposal.pk)


def test_each_field_of_a_patch_is_tried() -> None:
    assert NotePatch.model_fields.keys() - {"reason"} == CHANGES.keys() | PERSONS.keys()


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("field", CHANGES)
def test_a_patch_waits_where_the_same_note_would(agent: Program, field: str, name: str) -> None:
    path = written(agent)
    level(agent.owner, name)
    is_kind = field == "kind"
    posted = agent.post("/notes", {**BASE, field: CHANGES[field], **_fits(field)})
    patched = agent.patch(path, {field: CHANGES[field]}, If_Match='"1"')

    assert (posted.status_code == 202) == (patched.status_code == 202)
    assert (patched.status_code == 202) == (name == "hold all" or (is_kind and name != "accept"))
    stored = Note.objects.get(pk=path.rpartition("/")[2])
    assert (getattr(stored, field) == CHANGES[field]) == (patched.status_code == 200)


def _fits(field: str) -> dict[str, Any]:
    return {"ttl_days": None} if field == "stability" else {}


@pytest.mark.parametrize("field", CHANGES)
def test_an_accepted_patch_sets_the_field_and_can_be_undone(
    agent: Program, person: Program, field: str
) -> None:
    path = written(agent)
    level(agent.owner, "hold all")
    agent.patch(path, {field: CHANGES[field]}, If_Match='"1"')

    done = accepted(agent.owner, person)
    now = Note.objects.get(pk=done.result_id)
    assert getattr(now, field) == CHANGES[field]
    review_undo.undo_change(done, by=agent.owner.actor)
    before = Note.objects.get(pk=path.rpartition("/")[2])
    assert (before.superseded_by_id, before.trashed_at) == (None, None)
    assert getattr(before, field) == BASE.get(field, [] if field == "tags" else "log")


@pytest.mark.parametrize("field", PERSONS)
@pytest.mark.parametrize("name", LEVELS)
def test_some_fields_are_a_persons_at_each_level(agent: Program, field: str, name: str) -> None:
    path = written(agent)
    level(agent.owner, name)

    problem(agent.patch(path, {field: PERSONS[field]}, If_Match="*"), 403)


def test_words_in_place_of_what_a_person_pinned_wait(agent: Program, alice: Any) -> None:
    path = written(agent)
    note = Note.objects.get(pk=path.rpartition("/")[2])
    notes.pin(note, by=alice.actor)
    level(alice, "hold risky")

    held = agent.post(f"{path}/supersede", {"content": "Invoices are paid at once."})
    assert held.status_code == 202
    assert "pinned" in held.json()["reason"]
    assert not Note.objects.filter(pinned=True).exclude(pk=note.pk).exists()


@pytest.mark.parametrize("change", [{"kind": "log"}, {"confidence": 0.85}, {"tags": ["x"]}])
def test_what_is_a_rule_is_judged_as_a_rule(agent: Program, change: dict[str, Any]) -> None:
    path = written(agent, kind="rule")
    level(agent.owner, "hold risky")

    held = agent.patch(path, change, If_Match="*")
    assert held.status_code == 202
    assert "it’s a rule" in held.json()["reason"]
    assert agent.delete(path, If_Match="*").status_code == 202
    assert agent.post(f"{path}/supersede", {"content": "x", "kind": "log"}).status_code == 202


def test_a_patch_that_changes_nothing_is_not_held(agent: Program) -> None:
    path = written(agent)
    level(agent.owner, "hold all")

    assert agent.patch(path, {"kind": "log", "confidence": 0.9}, If_Match="*").status_code == 200
    assert not Proposal.objects.exists()


def test_what_could_never_be_stored_is_refused_at_once(agent: Program) -> None:
    path = written(agent, evidence=[])
    level(agent.owner, "hold risky")

    problem(agent.patch(path, {"kind": "rule"}, If_Match="*"), 422)
    assert not Proposal.objects.exists()


def test_new_words_of_an_agent_that_read_the_web_are_believed_no_more(agent: Program) -> None:
    path = written(agent)
    trust.note(agent.token.agent, Trust.EXTERNAL)

    assert agent.patch(path, {"content": "As a page says."}, If_Match="*").status_code == 200
    assert Note.objects.get(pk=path.rpartition("/")[2]).trust == Trust.EXTERNAL


# --- merge, delete, prune -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEVELS)
def test_a_merge_waits_where_each_write_does(agent: Program, person: Program, name: str) -> None:
    ids = [written(agent, content=text)[7:] for text in ("One comes.", "Two come.")]
    level(agent.owner, name)
    answer = agent.post("/notes/merge", {"ids": ids})

    assert answer.status_code == (202 if name == "hold all" else 201)
    if name == "hold all":
        assert Note.objects.filter(pk__in=ids, superseded_by=None).count() == 2
        done = accepted(agent.owner, person)
        merged = Note.objects.get(pk=done.result_id)
        assert merged.content == "One comes.\n\nTwo come."
        assert Note.objects.filter(pk__in=ids, superseded_by=merged).count() == 2
        review_undo.undo_change(done, by=agent.owner.actor)
        assert Note.objects.filter(pk__in=ids, superseded_by=None).count() == 2


def test_a_merge_is_not_carried_out_on_notes_that_changed(agent: Program, person: Program) -> None:
    ids = [written(agent, content=text)[7:] for text in ("One comes.", "Two come.")]
    level(agent.owner, "hold all")
    proposal = agent.post("/notes/merge", {"ids": ids}).json()["proposal"]
    person.patch(f"/notes/{ids[0]}", {"content": "None comes."}, If_Match="*")

    told = problem(person.post(f"/proposals/{proposal}/accept"), 422)
    assert "changed after the merge was proposed" in told["detail"]
    assert Note.objects.filter(pk__in=ids, superseded_by=None).count() == 2


def test_a_proposed_merge_goes_with_a_note_that_is_deleted(agent: Program, alice: Any) -> None:
    ids = [written(agent, content=text)[7:] for text in ("One comes.", "Two come.")]
    level(agent.owner, "hold all")
    agent.post("/notes/merge", {"ids": ids})

    Note.objects.get(pk=ids[1]).purge(by=alice.actor)
    assert not Proposal.objects.exists()


@pytest.mark.parametrize("name", LEVELS)
def test_deleting_waits_where_each_write_does(agent: Program, person: Program, name: str) -> None:
    path = written(agent)
    level(agent.owner, name)
    answer = agent.delete(path, If_Match="*")

    assert answer.status_code == (202 if name == "hold all" else 204)
    note = Note.objects.get(pk=path.rpartition("/")[2])
    assert (note.trashed_at is None) == (name == "hold all")
    if name == "hold all":
        done = accepted(agent.owner, person)
        assert Note.objects.get(pk=note.pk).trashed_at is not None
        review_undo.undo_change(done, by=agent.owner.actor)
        assert Note.objects.get(pk=note.pk).trashed_at is None


def test_pruning_is_a_persons_where_each_write_waits(agent: Program, person: Program) -> None:
    level(agent.owner, "hold all")

    assert "Ask the user" in problem(agent.post("/notes/prune"), 403)["detail"]
    assert person.post("/notes/prune").status_code == 200


def test_the_soul_is_a_persons_at_each_level(agent: Program, alice: Any) -> None:
    level(alice, "accept")
    soul = Note.objects.for_user(alice).get(kind="soul", superseded_by=None)
    Note.objects.filter(pk=soul.pk).update(trust="agent")

    problem(agent.patch(f"/notes/{soul.pk}", {"tags": ["x"]}, If_Match="*"), 403)
    problem(agent.delete(f"/notes/{soul.pk}", If_Match="*"), 403)


def test_a_person_sees_what_would_change(agent: Program, client_of: Any, alice: Any) -> None:
    path = written(agent)
    level(alice, "hold all")
    agent.patch(path, {"kind": "rule"}, If_Match="*")
    agent.delete(path, If_Match="*")
    other = written(agent, content="Two come.")
    level(alice, "hold all")
    agent.post("/notes/merge", {"ids": [path[7:], other[7:]]})
    browser = client_of(alice)
    pages = [browser.get(f"/inbox/?at={one.pk}") for one in review_services.waiting(alice)]
    text = "".join(page.content.decode() for page in pages)

    for words in (
        "log → rule",
        "will be moved to Trash",
        "replaces the notes it merges",
        "Merge of 2 notes",
    ):
        assert words in text
    for proposal in review_services.waiting(alice):
        shown = client_of(alice).get(proposal.get_absolute_url()).content.decode()
        assert "Invoices from Globex" in shown
        assert ("Edit and accept" in shown) == (proposal.after.get("act") != "trash")
