"""Everything as of a date is what it was then: the same rows, and the same search results."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from memory.models import MemoryFile, Note, Section, Topic, TopicFact, User
from memory.models.as_of import at
from memory.models.errors import MemoryRefused
from memory.services.files.reading import make_first_files
from memory.services.files.saving import save_file
from memory.services.notes.saving import edit_note, supersede, write_note
from memory.services.search.recall import recall
from tests.research.factories import make_fact, make_topic

WORDS = ("harbour", "lantern", "granite", "meadow", "copper", "violet")
SAID = st.lists(st.sampled_from(WORDS), min_size=3, max_size=6).map(" ".join)
ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["write", "write", "edit", "edit", "trash", "restore", "purge", "supersede", "fact",
             "fact", "edit fact", "strike", "retire", "trash fact", "file", "topic", "mark"]
        ),
        st.integers(0, 20),
        SAID,
    ),
    min_size=4,
    max_size=12,
)  # fmt: skip
QUERIES = ("harbour", "harbour lantern copper", '"copper violet"', "granite -meadow", "kind:rule")
MANY = settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    phases=[Phase.generate],
)
# Derived, or always today's.
NOT_COMPARED = {"updated", "trust", "sensitivity", "edited_by_person", "key"}


def in_milliseconds(value: Any) -> Any:
    """Return a time as revisions store it."""
    if isinstance(value, datetime):
        return value.replace(microsecond=value.microsecond // 1000 * 1000)
    return value


def picture(owner: User) -> dict[str, Any]:
    """Return all records, and the results of all queries."""
    rows: dict[str, Any] = {}
    for model in (Note, TopicFact, MemoryFile, Topic):
        names = {field.attname for field in model._meta.concrete_fields} - NOT_COMPARED
        for one in model.objects.for_user(owner).values(*names):
            rows[f"{model.__name__} {one['id']}"] = {
                name: in_milliseconds(value) if name != "created" else value
                for name, value in one.items()
            }
    sections = Section.objects.for_user(owner).order_by("file", "position")
    found = {
        query: [
            (hit.type, hit.content, round(hit.score, 9))
            for hit in recall(owner, query, "lexical", limit=50)
        ]
        for query in QUERIES
    }
    return {
        "rows": rows,
        "sections": list(sections.values_list("file_id", "position", "heading", "content")),
        "found": {query: sorted(hits) for query, hits in found.items()},
    }


def act(  # noqa: C901
    owner: User, topic: Topic, what: str, number: int, said: str
) -> None:
    """Do one thing; what can't be done now is left out."""
    by = owner.actor
    notes = list(Note.objects.for_user(owner).order_by("created"))
    facts = list(TopicFact.objects.for_user(owner).live().order_by("created"))
    note = notes[number % len(notes)] if notes else None
    fact = facts[number % len(facts)] if facts else None
    try:
        if what == "write":
            write_note(owner, ["log", "rule"][number % 2], said, by=by, evidence=["said so"])
        elif what == "fact":
            TopicFact.follow([make_fact(topic, f"{said} is what the fact says", position=number)])
        elif what == "file":
            text = f"# Memory\n\n## {said.split()[0]}\n\n{said}\n\n## Rest\n\n{said[::-1]}\n"
            save_file(owner, "facts/memory.md", text, by=by)
        elif what == "topic":
            topic.refresh_from_db()
            (topic.restore if topic.trashed_at else topic.trash)(by=by)
        elif note and what == "edit":
            edit_note(note, by=by, content=said)
        elif note and what == "trash":
            note.trash(by=by)
        elif note and what == "restore":
            note.restore(by=by)
        elif note and what == "purge" and note.trashed_at:
            note.purge(by=by)
        elif note and what == "supersede" and not note.trashed_at:
            supersede(note, said, by=by)
        elif note and what == "mark":
            note.change(by=by, pinned=not note.pinned, tags=[said.split()[0]])
        elif fact and what == "edit fact":
            fact.edit(f"{said} is what the fact says now", by=by)
        elif fact and what == "strike":
            fact.strike(by=by)
        elif fact and what == "retire":
            fact.retire(by=by, why="replaced")
        elif fact and what == "trash fact":
            fact.trash(by=by)
    except MemoryRefused:
        pass


def without(told: dict[str, Any], ids: set[Any]) -> dict[str, Any]:
    return {key: row for key, row in told["rows"].items() if row["id"] in ids}


class TestAsOf(TestCase):
    @pytest.mark.requirement("R258")
    @given(ACTS)
    @MANY
    def test_it_is_a_copy_taken_then(self, acts: list[tuple[str, int, str]]) -> None:
        owner = User.objects.create_user("ada")
        make_first_files(owner)
        topic = make_topic(owner, "Harbours")
        taken = [(timezone.now(), picture(owner))]
        for what, number, said in acts:
            act(owner, topic, what, number, said)
            taken.append((timezone.now(), picture(owner)))
        left = {
            key
            for model in (Note, TopicFact, MemoryFile, Topic)
            for key in model.objects.for_user(owner).values_list("id", flat=True)
        }
        was_purged = len(left) < len(taken[-1][1]["rows"]) or any(
            row["id"] not in left for _at, told in taken for row in told["rows"].values()
        )
        for moment, told in taken:
            with at(owner, moment):
                then = picture(owner)
            was = without(told, left)
            assert then["rows"].keys() == was.keys()
            for key, row in then["rows"].items():
                assert row == was[key], {n for n in row if row[n] != was[key][n]}
            assert then["sections"] == told["sections"]
            if not was_purged:  # a purged note counts in the ranking of its time
                assert then["found"] == told["found"]
