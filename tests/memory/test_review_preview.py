"""A preview of a proposal is what accepting it does, whatever became of its target since."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.db.models import Max

from memory.models import MemoryFile, Note, Proposal, Revision
from memory.models.errors import MemoryRefused
from memory.models.remembered import Lock
from memory.pages.review import proposals as review_page
from memory.pages.review.proposals import Preview, changes_since, preview
from memory.services.context import identity
from memory.services.files.reading import read_file
from memory.services.files.saving import save_file
from memory.services.notes import saving as notes
from memory.services.observations.saving import write_observation
from memory.services.review import proposals as review_services
from memory.services.review.apply import MERGE, TRASH, MergeConflict
from tests.memory.review_cast import AGENT, MEMORY, USER, proposed_file, proposed_note

pytestmark = pytest.mark.django_db
MONTH = "episodes/2026-11.md"


def accepted(proposal: Proposal, by: Any) -> Preview:
    """Accept it, and say what came of it in a preview's words."""
    last = Revision.objects.aggregate(last=Max("id"))["last"] or 0
    try:
        with transaction.atomic():
            applied = review_services.accept(proposal, by=by)
    except MergeConflict as exc:
        return Preview(conflict=exc)
    except MemoryRefused as exc:
        return Preview(problem=str(exc))
    changes = changes_since(last, [applied.record, *applied.others], by)
    return Preview(tuple(changes), applied.merged, tuple(map(str, applied.warnings)))


def plain(found: Preview) -> tuple[Any, ...]:
    conflict = found.conflict
    sides = (conflict.base, conflict.mine, conflict.theirs) if conflict else ()
    return found.changes, found.is_merged, found.warnings, sides, found.problem


# --- what is proposed -----------------------------------------------------------------------------


def a_changed_file(owner: Any) -> Proposal:
    save_file(owner, MEMORY, "# Memory\n\n- Port: Kobe\n\n## Ways\n\n- By sea\n", by=owner.actor)
    text = read_file(owner, MEMORY).content.replace("Kobe", "Osaka")
    return proposed_file(owner, "", after={"path": MEMORY, "content": text})


def a_line_at_the_end(owner: Any) -> Proposal:
    save_file(owner, MEMORY, "# Memory\n\n- Port: Kobe\n\n## Ways\n\n- By sea\n", by=owner.actor)
    return proposed_file(owner, "- By rail")


def an_entry(owner: Any) -> Proposal:
    entry = "## A task\n\n> Summary: done\n\nDate: 2026-11-22"
    after = {"path": MONTH, "content": f"# 2026-11\n\n{entry}\n", "entry": entry}
    return review_services.hold(
        owner, "file", by=AGENT, source="run:1", before={}, after=after, why="", held="web"
    )


def a_new_month(owner: Any) -> Proposal:
    after = {"path": MONTH, "content": "# 2026-11\n\n## A task\n\nDone.\n"}
    return review_services.hold(
        owner, "file", by=AGENT, source="run:1", before={}, after=after, why="", held="web"
    )


def a_new_note(owner: Any) -> Proposal:
    return proposed_note(owner)


def a_rule(owner: Any) -> Proposal:
    fields: Any = {"kind": "rule", "confidence": 0.9, "evidence": ["It was asked for."]}
    return proposed_note(owner, "Answer in one sentence.", **fields)


def a_superseding_note(owner: Any) -> Proposal:
    old = notes.write_note(owner, "log", "Fares fall.\n\nSeats are few.", by=AGENT)
    return review_services.hold(
        owner, "note", by=AGENT, source="run:1", before={"content": old.content}, why="", held="x",
        after={"kind": "log", "content": "Fares rise.\n\nSeats are few."}, target_id=old.pk,
        version_seen=old.version,
    )  # fmt: skip


def a_soul(owner: Any) -> Proposal:
    identity.write_soul(owner, "Be kind.\n\nBe brief.", by=owner.actor)
    old: Any = identity.active(owner, "soul")
    return review_services.hold(
        owner, "soul", by=AGENT, source="session:1", before={"content": old.content}, why="",
        after={"kind": "soul", "content": "Be kind.\n\nBe curt."}, held="x", target_id=old.pk,
        version_seen=old.version,
    )  # fmt: skip


def observations(owner: Any) -> Proposal:
    lines = [{"category": "finding", "content": "One."}, {"category": "lesson", "content": "Two."}]
    return review_services.hold(
        owner, "observation", by=AGENT, source="run:3", before={}, after={"lines": lines}, why="",
        held="x",
    )  # fmt: skip


def a_merge(owner: Any) -> Proposal:
    old = [
        notes.write_note(owner, "log", text, by=AGENT)
        for text in ("Fares fall.\n\nSeats are few.", "Trains are late.")
    ]
    content = "Fares fall, seats are few, trains are late."
    versions = {str(one.pk): one.version for one in old}
    return review_services.hold(
        owner, "note", by=AGENT, source="run:1", before={}, why="", held="x",
        after={"act": MERGE, "kind": "summary", "content": content, "versions": versions},
    )  # fmt: skip


def a_deletion(owner: Any) -> Proposal:
    old = notes.write_note(owner, "log", "Fares fall.\n\nSeats are few.", by=AGENT)
    before = {"content": old.content}
    return review_services.hold(
        owner, "note", by=AGENT, source="run:1", before=before, why="", held="x",
        after={"act": TRASH, "kind": "log", **before}, target_id=old.pk, version_seen=old.version,
    )  # fmt: skip


def a_changed_field(owner: Any) -> Proposal:
    old = notes.write_note(owner, "log", "Fares fall.", by=AGENT)
    before = {"kind": "log", "content": old.content, "confidence": old.confidence}
    return review_services.hold(
        owner, "note", by=AGENT, source="run:1", before=before, why="", held="x",
        after={**before, "confidence": 0.5}, target_id=old.pk, version_seen=old.version,
    )  # fmt: skip


# --- what became of the target --------------------------------------------------------------------


def _rewrite(owner: Any, change: Callable[[str], str]) -> None:
    for path in (MEMORY, MONTH):
        file = MemoryFile.objects.for_user(owner).live().filter(path=path).first()
        if file:
            save_file(owner, path, change(file.content), by=owner.actor)
    for note in Note.objects.for_user(owner).active().filter(kind="log"):
        notes.supersede(note, change(note.content), by=owner.actor, expected_version=note.version)
    soul: Any = identity.active(owner, "soul")
    identity.write_soul(owner, change(soul.content), by=owner.actor, expected=soul.pk)


def same(_owner: Any) -> None:
    pass


def changed_elsewhere(owner: Any) -> None:
    _rewrite(owner, lambda text: f"{text.rstrip()}\n\nAdded later.\n")


def changed_in_place(owner: Any) -> None:
    words = {"Kobe": "Nagoya", "Fares fall": "Fares stay", "Be brief": "Be long"}

    def change(text: str) -> str:
        for old, new in words.items():
            text = text.replace(old, new)
        return text

    _rewrite(owner, change)


def there_already(owner: Any) -> None:
    write_observation(owner, "finding", "One.", by=AGENT, source="run:3")
    notes.write_note(owner, "log", "Fares rise on Fridays.", by=AGENT)
    words = {"Kobe": "Osaka", "Fares fall": "Fares rise", "Be brief": "Be curt"}
    for old, new in words.items():
        _rewrite(owner, lambda text, old=old, new=new: text.replace(old, new))  # type: ignore[misc]


def made_since(owner: Any) -> None:
    save_file(owner, MONTH, "# 2026-11\n\n## Another task\n\nDone, too.\n", by=owner.actor)


def locked(owner: Any) -> None:
    for record in [*MemoryFile.objects.for_user(owner), *Note.objects.for_user(owner)]:
        record.change(by=owner.actor, lock=Lock.READ_ONLY)


def trashed(owner: Any) -> None:
    months = MemoryFile.objects.for_user(owner).filter(path=MONTH)
    for record in [*months, *Note.objects.for_user(owner).filter(kind="log")]:
        record.trash(by=owner.actor)


def gone(owner: Any) -> None:
    for note in Note.objects.for_user(owner).filter(kind="log"):
        note.delete()


def full(owner: Any) -> None:
    file = read_file(owner, USER)
    room = 15_000 - read_file(owner, MEMORY).size
    save_file(owner, USER, file.content + "- x\n" * (room // 4 - 20), by=owner.actor)


KINDS = [
    a_changed_file, a_line_at_the_end, an_entry, a_new_month, a_new_note, a_rule,
    a_superseding_note, a_soul, observations, a_merge, a_deletion, a_changed_field,
]  # fmt: skip
STATES = [
    same, changed_elsewhere, changed_in_place, there_already, made_since, locked, trashed, gone, full,
]  # fmt: skip


@pytest.mark.parametrize("propose", KINDS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("state", STATES, ids=lambda one: one.__name__)
def test_accepting_does_what_the_preview_shows(alice: Any, propose: Any, state: Any):
    proposal = propose(alice)
    state(alice)
    before = Revision.objects.count()

    shown = preview(proposal, by=alice.actor)
    assert Revision.objects.count() == before
    assert plain(shown) == plain(accepted(proposal, alice.actor))


def test_accepting_does_what_the_preview_shows_after_any_edits(alice: Any):
    chance = random.Random(7)
    for _case in range(15):
        lines = [f"- line {n}" for n in range(8)]
        text = "# Memory\n\n" + "\n".join(lines) + "\n"
        save_file(alice, MEMORY, text, by=alice.actor)
        proposal = proposed_file(
            alice, "", after={"path": MEMORY, "content": _edited(text, chance)}
        )
        save_file(alice, MEMORY, _edited(text, chance), by=alice.actor)
        shown = preview(proposal, by=alice.actor)
        assert plain(shown) == plain(accepted(proposal, alice.actor))


@pytest.mark.parametrize("propose", KINDS, ids=lambda one: one.__name__)
def test_a_preview_sends_nothing(alice: Any, propose: Any, django_capture_on_commit_callbacks: Any):
    proposal = propose(alice)
    with django_capture_on_commit_callbacks() as sent:
        preview(proposal, by=alice.actor)
    assert sent == []


def _edited(text: str, chance: random.Random) -> str:
    lines = text.splitlines()
    for _n in range(chance.randint(1, 3)):
        place = chance.randrange(2, len(lines))
        act = chance.choice(["change", "drop", "add"])
        if act == "change":
            lines[place] += f" {chance.choice('abc')}"
        elif act == "add":
            lines.insert(place, f"- new {chance.choice('abc')}")
        elif len(lines) > 4:
            del lines[place]
    return "\n".join(lines) + "\n"


# --- what a card says -----------------------------------------------------------------------------


def card(owner: Any, proposal: Proposal) -> review_page.ProposalRow:
    (row,) = review_page.proposal_rows(owner, [proposal])
    return row


def test_a_file_is_called_new_only_while_there_is_none(alice: Any):
    proposal = an_entry(alice)
    assert card(alice, proposal).act == "creates a new file"
    made_since(alice)
    row = card(alice, proposal)
    assert row.act == "will be changed"
    assert "Another task" not in "".join(
        p.text for r in row.rows for p in r.pieces if p.kind == "new"
    )


def test_a_merge_is_shown_as_the_text_that_accepting_stores(alice: Any):
    proposal = a_line_at_the_end(alice)
    text = read_file(alice, MEMORY).content.replace("Kobe", "Nagoya")
    save_file(alice, MEMORY, text, by=alice.actor)
    row = card(alice, proposal)
    assert row.preview is not None and row.preview.is_merged
    assert "Nagoya" in row.preview.changes[0].after and "By rail" in row.preview.changes[0].after


def test_a_conflict_is_shown_before_anything_is_pressed(alice: Any):
    proposal = a_changed_file(alice)
    changed_in_place(alice)
    row = card(alice, proposal)
    assert row.conflict is not None and "Nagoya" in row.conflict.theirs


def test_merged_notes_are_shown_with_the_text_that_replaces_all_of_them(alice: Any):
    row = card(alice, a_merge(alice))
    assert (row.title, row.act) == ("Merge of 2 notes", "replaces the notes it merges")
    assert row.preview is not None
    (change,) = row.preview.changes
    assert "Seats are few." in change.before and "Trains are late." in change.before
    assert change.after == "Fares fall, seats are few, trains are late."


def test_a_merge_never_pairs_a_line_of_one_note_with_the_text_of_all(alice: Any):
    rows = card(alice, a_merge(alice)).rows
    assert [row.kind for row in rows] == ["removed"] * (len(rows) - 1) + ["added"]


def test_a_deletion_is_shown_as_the_text_that_goes(alice: Any):
    row = card(alice, a_deletion(alice))
    assert row.act == "will be moved to Trash"
    assert {piece.kind for one in row.rows for piece in one.pieces} == {"old"}


def test_a_merge_of_a_note_that_changed_since_says_so_and_offers_no_accepting(alice: Any):
    proposal = a_merge(alice)
    changed_elsewhere(alice)
    row = card(alice, proposal)
    assert row.preview is not None and row.preview.problem
    assert row.act == "merge"


def test_a_changed_field_is_shown_next_to_the_text_that_stays(alice: Any):
    row = card(alice, a_changed_field(alice))
    assert row.act == "keeps the text but changes the fields"
    assert ("confidence", "1.0 → 0.5") in row.details
