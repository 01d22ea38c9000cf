"""Changes are undone, and records put back as they were, always by a new revision."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Lock, Note, Observation, Revision, ScratchpadEntry, Topic, TopicFact, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached, Locked
from memory.services.files.saving import append_to, save_file
from memory.services.notes.saving import edit_note, point_at, write_note
from memory.services.records.history import ChangedSince, Gone, restore_to, undo
from research.services.topics.settings import editing as topic_editing
from tests.research.factories import make_topic

AGENT = Actor("agent", "claude")


def made(record: Any, by: Actor) -> Any:
    record.save(force_insert=True)
    Revision.record_first([record], by=by)
    return record


@pytest.fixture
def note(alice: User) -> Note:
    return made(Note(owner=alice, content="The first words"), alice.actor)


def last(record: Any) -> Revision:
    found = Revision.objects.filter(record_id=record.pk).order_by("-id").first()
    assert found is not None
    return found


def first(record: Any) -> Revision:
    return Revision.objects.get(record_id=record.pk, version=1)


@pytest.mark.requirement("R235")
def test_a_change_is_undone_by_a_revision_of_its_own(alice: User, note: Note):
    note.change(by=alice.actor, content="Other words")

    undo(last(note), by=alice.actor)

    note.refresh_from_db()
    assert (note.content, note.version) == ("The first words", 3)
    assert last(note).reason == "undid version 2"


def test_what_else_was_changed_in_the_meantime_stays(alice: User, note: Note):
    note.change(by=alice.actor, content="Other words")
    changed = last(note)
    note.change(by=alice.actor, pinned=True)

    undo(changed, by=alice.actor)

    note.refresh_from_db()
    assert (note.content, note.pinned) == ("The first words", True)


def test_words_that_were_changed_again_are_not_undone(alice: User, note: Note):
    note.change(by=alice.actor, content="Other words")
    changed = last(note)
    note.change(by=alice.actor, content="The newest words")

    with pytest.raises(ChangedSince, match="has changed since then"):
        undo(changed, by=alice.actor)

    note.refresh_from_db()
    assert note.content == "The newest words"


def test_what_a_change_made_goes_to_the_trash(alice: User, note: Note):
    undo(first(note), by=alice.actor)
    note.refresh_from_db()
    assert note.trashed_at is not None

    undo(last(note), by=alice.actor)
    note.refresh_from_db()
    assert note.trashed_at is None


def test_a_record_is_put_back_as_it_was_at_any_version(alice: User, note: Note):
    note.change(by=alice.actor, content="Second", tags=["a"])
    note.change(by=alice.actor, content="Third", pinned=True)
    note.trash(by=alice.actor)

    restore_to(first(note), by=alice.actor)

    note.refresh_from_db()
    assert (note.content, note.tags, note.pinned) == ("The first words", [], False)
    assert note.trashed_at is None


def test_times_and_what_a_record_is_about_come_back_as_they_were(alice: User, note: Note):
    newer = made(Note(owner=alice, content="Newer"), alice.actor)
    note.change(by=alice.actor, superseded_by_id=newer.pk)
    replaced = last(note)
    undo(replaced, by=alice.actor)
    restore_to(replaced, by=alice.actor)

    note.refresh_from_db()
    assert note.superseded_by == newer


def test_an_agent_takes_nothing_locked_back(alice: User, note: Note):
    note.change(by=AGENT, content="An agent's words")
    changed = last(note)
    note.change(by=alice.actor, lock=Lock.READ_ONLY)

    with pytest.raises(Locked):
        undo(changed, by=AGENT)


def test_what_was_purged_does_not_come_back(alice: User, note: Note):
    revision = last(note)
    note.purge(by=alice.actor)
    with pytest.raises(Gone, match="permanently deleted"):
        undo(revision, by=alice.actor)


def test_an_observation_put_back_is_known_by_its_old_words(alice: User):
    seen = Observation(owner=alice, category="finding", content="Old words", source="run:1")
    seen.digest = Observation.digest_of(seen.content)
    made(seen, alice.actor)
    words = "New words"
    seen.change(by=alice.actor, content=words, digest=Observation.digest_of(words))

    undo(last(seen), by=alice.actor)

    seen.refresh_from_db()
    assert seen.digest == Observation.digest_of("Old words")


def test_a_key_that_is_imported_the_meantime_is_reported_and_nothing_moves(alice: User):
    entry = made(ScratchpadEntry(owner=alice, key="plan", value="one"), alice.actor)
    entry.trash(by=alice.actor)
    trashed = last(entry)
    made(ScratchpadEntry(owner=alice, key="plan", value="two"), alice.actor)

    with pytest.raises(InvalidValue, match="taken its place"):
        undo(trashed, by=alice.actor)

    entry.refresh_from_db()
    assert entry.trashed_at is not None


def test_a_topic_is_renamed_back_with_its_address(alice: User):
    topic = make_topic(alice, "Batteries")
    slug = topic.slug
    topic.rename("Solid batteries", by=alice.actor)

    undo(last(topic), by=alice.actor)

    topic.refresh_from_db()
    assert (topic.title, topic.slug) == ("Batteries", slug)


def test_a_topics_settings_are_undone(alice: User):
    topic = make_topic(alice, "Batteries")
    topic = topic_editing.edit_topic(topic, by=alice.actor, wanted={"objective": "Which last?"})

    undo(last(topic), by=alice.actor)

    assert topic_editing.state_of(Topic.objects.get(pk=topic.pk))["objective"] == ""


def test_settings_that_were_changed_again_are_not_undone(alice: User):
    topic = make_topic(alice, "Batteries")
    topic = topic_editing.edit_topic(topic, by=alice.actor, wanted={"objective": "Which last?"})
    changed = last(topic)
    topic_editing.edit_topic(topic, by=alice.actor, wanted={"objective": "Which cost least?"})

    with pytest.raises(ChangedSince):
        undo(changed, by=alice.actor)


def test_a_struck_fact_comes_back_by_the_rules_of_facts(alice: User):
    topic = make_topic(alice, "Batteries")
    fact = TopicFact.objects.add(topic, "The first of many long facts.", by=alice.actor)
    fact.strike(by=alice.actor)
    struck = last(fact)
    for number in range(8):
        TopicFact.objects.add(topic, f"Another fact of some length, {number}.", by=alice.actor)
    with pytest.raises(LimitReached):
        undo(struck, by=alice.actor)

    topic.facts.exclude(pk=fact.pk).first().strike(by=alice.actor)
    undo(struck, by=alice.actor)

    fact.refresh_from_db()
    assert fact.state == TopicFact.State.CURRENT


def test_what_supersedes_a_note_cannot_come_back_where_the_note_supersedes_it(alice: User):
    older, newer = (write_note(alice, "log", words, by=alice.actor) for words in ("Old.", "New."))
    point_at(older, newer, by=alice.actor, why="superseded", source="")
    then = last(older)
    undo(then, by=alice.actor)
    point_at(newer, older, by=alice.actor, why="superseded", source="")

    with pytest.raises(InvalidValue, match="Undo that replacement first"):
        restore_to(then, by=alice.actor)

    older.refresh_from_db()
    assert older.superseded_by_id is None


def test_what_supersedes_a_note_cannot_come_back_out_of_the_trash_with_it(alice: User):
    older, newer = (write_note(alice, "log", words, by=alice.actor) for words in ("Old.", "New."))
    point_at(older, newer, by=alice.actor, why="superseded", source="")
    then = last(older)
    undo(then, by=alice.actor)
    newer.trash(by=alice.actor)

    with pytest.raises(InvalidValue, match="is in Trash"):
        restore_to(then, by=alice.actor)


@pytest.mark.requirement("R191")
def test_a_rule_keeps_its_evidence_whatever_is_undone(alice: User):
    note = write_note(alice, "log", "Ask first.", by=alice.actor)
    edit_note(note, by=alice.actor, evidence=["said on Monday"])
    change = last(note)
    edit_note(note, by=alice.actor, kind="rule")

    with pytest.raises(InvalidValue, match="evidence"):
        undo(change, by=AGENT)
    undo(change, by=alice.actor)  # a person's rule needs none


def test_a_change_of_a_file_in_the_trash_touches_no_other_of_its_name(alice: User):
    month = "episodes/2026-02.md"
    append_to(alice, month, "## Old\n- Task: one", by=alice.actor)
    old = append_to(alice, month, "## Older\n- Task: two", by=alice.actor).file
    last = Revision.objects.filter(record_id=old.pk).latest("id")
    old.trash(by=alice.actor)
    new = append_to(alice, month, "## New\n- Task: three", by=alice.actor).file

    with pytest.raises(InvalidValue, match="is in Trash"):
        undo(last, by=alice.actor)

    new.refresh_from_db()
    assert "## New" in new.content
    assert "## Old" not in new.content


def test_changes_of_a_file_are_undone_one_after_the_other(alice: User):
    """Whose line it is follows from the text, so that doesn't count as a change since."""
    for text in ("# User\n\n- Tea\n", "# User\n\n- Coffee\n", "# User\n\n- Water\n"):
        file = save_file(alice, "facts/user.md", text, by=alice.actor).file
    for version in (4, 3):
        undo(Revision.objects.get(record_id=file.pk, version=version), by=alice.actor)

    file.refresh_from_db()
    assert "- Tea" in file.content
