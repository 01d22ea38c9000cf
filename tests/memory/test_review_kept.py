"""What becomes of proposals when their source is forgotten or a record is purged; large ones."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Activity, Proposal
from memory.pages import trash
from memory.pages.review import proposals as review_page
from memory.services.review import proposals as review_services
from tests.memory.review_cast import AGENT, MEMORY, proposed_file, proposed_note

pytestmark = pytest.mark.django_db


def test_forgetting_a_source_rejects_what_waits_from_there_and_undo_brings_it_back(alice: Any):
    proposal, other = proposed_file(alice, "- x"), proposed_note(alice)
    going = trash.forget_preview(alice, "run:8")
    assert [(one["noun"], one["count"]) for one in going] == [("pending proposals", 1)]
    key, count = trash.forget_source(alice, "run:8", by=alice.actor)
    assert (count, list(review_services.waiting(alice))) == (1, [other])
    assert trash.count_in_trash(alice, key) == 1
    trash.undo_change(alice, key, by=alice.actor)
    assert set(review_services.waiting(alice)) == {proposal, other}


def test_a_line_at_the_end_of_a_large_file_is_shown_without_the_file(alice: Any):
    text = "# Memory\n\n" + "".join(f"- line {n} of many\n" for n in range(9_000))
    row = review_page.proposal_rows(
        alice,
        [
            Proposal(
                owner=alice, actor="reflector", record_type="memoryfile", version_seen=1,
                before={"content": text}, after={"path": MEMORY, "content": text + "- last\n"},
            )
        ],
    )[0]  # fmt: skip
    assert [(one.kind, one.hidden) for one in row.rows] == [
        ("gap", 9_001),
        ("same", 0),
        ("added", 0),
    ]
    assert not row.is_cut


def test_a_record_deleted_permanently_leaves_its_text_in_no_proposal(alice: Any):
    note = review_services.accept(proposed_note(alice), by=alice.actor).record
    later = review_services.hold(
        alice, "note", by=AGENT, source="x", before={"content": "Fares rise on Fridays."}, why="",
        after={"content": "Fares fall."}, held="x", target_id=note.pk,
    )  # fmt: skip
    other = proposed_note(alice, "Another.")
    note.trash(by=alice.actor)
    note.purge(by=alice.actor)
    assert list(Proposal.objects.all()) == [other]
    told = Activity.objects.filter(subject_id=str(later.pk))
    assert set(told.values_list("label", flat=True)) == {""}
