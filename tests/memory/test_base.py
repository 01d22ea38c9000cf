"""What every remembered record can: be changed by version, locked, trashed, restored, purged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import DatabaseError, transaction
from django.utils import timezone

from memory.models import (
    Activity,
    ContentItem,
    FileEntry,
    LibraryDocument,
    Lock,
    MemoryFile,
    Note,
    Observation,
    Remembered,
    Revision,
    ScratchpadEntry,
    Section,
    Session,
    Snapshot,
    Topic,
    TopicFact,
    Trust,
    User,
)
from memory.models.actors import MAINTENANCE, RESEARCH, Actor
from memory.models.errors import InvalidValue, Locked, StaleWrite
from memory.models.remembered import TRASH_DAYS
from memory.services.content.snapshots import take_snapshot
from memory.services.files import section_restore
from memory.services.files.saving import append_to, save_file
from memory.tasks import empty_trash
from research.models import RemovedRun, Report
from tests.research.factories import make_fact, make_report, make_run, make_topic


def _document(owner: User) -> LibraryDocument:
    document = LibraryDocument(owner=owner, title="Notes", text="Some words to be found.")
    LibraryDocument.objects.add([document], by=owner.actor)
    return document


def _entry_put_back(owner: User) -> FileEntry:
    path = "facts/memory.md"
    save_file(owner, path, "# Facts\n\n## Sleep\n- Seven hours a night\n", by=owner.actor)
    save_file(owner, path, "# Facts\n", by=owner.actor)
    entry: FileEntry = FileEntry.objects.for_user(owner).get()
    section_restore.restore(entry, owner.actor)
    return entry


# One of each kind, as it is made; a new kind must be added here to pass.
MAKERS: dict[type[Remembered], Callable[[User], Any]] = {
    Topic: make_topic,
    TopicFact: lambda owner: make_fact(make_topic(owner, "Facts"), "A fact that is long enough."),
    ContentItem: lambda owner: ContentItem.objects.create(owner=owner, title="A page"),
    Snapshot: lambda owner: take_snapshot(owner, "owner", by=owner.actor, title="Everything"),
    LibraryDocument: _document,
    Session: lambda owner: Session.objects.create(owner=owner, title="A talk"),
    Report: lambda owner: make_report(make_run(make_topic(owner, "Reports"))),
    Note: lambda owner: Note.objects.create(owner=owner, content="Ask for prices first."),
    Observation: lambda owner: Observation.objects.create(
        owner=owner, category="finding", content="The API takes 100 calls a minute.", digest="d"
    ),
    ScratchpadEntry: lambda owner: ScratchpadEntry.objects.create(
        owner=owner, key="task", value="compare hosts"
    ),
    RemovedRun: lambda owner: RemovedRun.objects.create(
        owner=owner, run=make_run(make_topic(owner, "Runs")), title="Runs · run failed"
    ),
    FileEntry: lambda owner: _entry_put_back(owner),
    MemoryFile: lambda owner: (
        append_to(
            owner, "episodes/2026-02.md", "## Heat pump\n- Summary: serviced", by=owner.actor
        ).file
    ),
}
# A section comes and goes with its file, and isn't a record that a person moves.
KINDS = sorted(
    (m for m in apps.get_models() if issubclass(m, Remembered) and m is not Section),
    key=lambda model: model.__name__,
)
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
AGENT = Actor("agent", "claude")


def revisions_of(record: Remembered) -> list[Revision]:
    return list(Revision.objects.filter(record_id=record.pk).order_by("id"))


# --- the trash ------------------------------------------------------------------------------------


@each_kind
def test_every_kind_goes_to_the_trash_and_is_restored_as_it_was(alice: User, kind: Any):
    first = set(kind.objects.for_user(alice))  # what an account starts with
    record = MAKERS[kind](alice)
    trust = record.trust

    record.trash(by=alice.actor)
    assert set(kind.objects.for_user(alice).live()) == first
    assert kind.objects.for_user(alice).in_trash().get() == record

    record.restore(by=alice.actor)
    assert (set(kind.objects.for_user(alice).live()) - first).pop().trust == trust
    assert [revision.reason for revision in revisions_of(record)][-2:] == [
        "moved to Trash",
        "restored from Trash",
    ]


@each_kind
def test_every_kind_is_purged_with_its_history_and_without_its_words(alice: User, kind: Any):
    record = MAKERS[kind](alice)
    key, words = record.pk, str(record)
    record.trash(by=alice.actor)

    record.purge(by=alice.actor)

    assert not kind.objects.filter(pk=key).exists()
    assert not Revision.objects.filter(record_id=key).exists()
    line = Activity.objects.get(kind="purged")
    assert words not in line.label
    assert line.actor == "human:alice"


@each_kind
def test_no_one_is_shown_what_another_owns(alice: User, bob: User, kind: Any):
    record = MAKERS[kind](alice)

    assert record not in kind.objects.for_user(bob)


def test_trashing_twice_is_one_change(alice: User):
    topic = make_topic(alice)
    topic.trash(by=alice.actor)
    topic.trash(by=alice.actor)

    assert len(revisions_of(topic)) == 2


def test_the_trash_is_emptied_after_thirty_days_and_not_before(alice: User):
    old, new = make_topic(alice, "Old"), make_topic(alice, "New")
    for topic, days in ((old, TRASH_DAYS + 1), (new, TRASH_DAYS - 1)):
        topic.trash(by=alice.actor)
        before = timezone.now() - timedelta(days=days)
        Topic.objects.filter(pk=topic.pk).update(trashed_at=before)

    empty_trash()

    assert list(Topic.objects.all()) == [new]
    assert Activity.objects.get(kind="purged").actor == str(MAINTENANCE)


@each_kind
def test_what_was_restored_in_the_meantime_is_not_purged(alice: User, kind: Any):
    record = MAKERS[kind](alice)
    record.trash(by=alice.actor)
    kind.objects.get(pk=record.pk).restore(by=alice.actor)

    with pytest.raises(InvalidValue, match="no longer in Trash"):
        record.purge(by=alice.actor)

    assert list(kind.objects.filter(pk=record.pk).live()) == [record]


def test_what_cannot_be_purged_is_told_of_and_keeps_nothing_else(
    alice: User, monkeypatch: pytest.MonkeyPatch
):
    stuck, other = make_topic(alice, "Stuck"), make_topic(alice, "Other")
    Topic.objects.update(trashed_at=timezone.now() - timedelta(days=TRASH_DAYS + 1))
    purge = Topic.purge

    def purged(topic: Topic, *, by: Actor) -> None:
        if topic == stuck:
            raise DatabaseError("a row is held")
        purge(topic, by=by)

    monkeypatch.setattr(Topic, "purge", purged)
    empty_trash()

    assert list(Topic.objects.all()) == [stuck] != [other]
    line = Activity.objects.get(kind="purge-failed")
    assert (line.label, line.is_warning, line.detail) == ("Stuck", True, {"why": "DatabaseError"})


# --- history ---------------------------------------------------------------------------------------


@pytest.mark.requirement("R83")
@pytest.mark.parametrize("act", ["update", "delete"])
def test_revisions_are_append_only_for_anyone_who_asks_the_database(alice: User, act: str):
    make_topic(alice)
    revisions = Revision.objects.all()
    before = revisions.count()

    with pytest.raises(DatabaseError), transaction.atomic():
        revisions.update(reason="rewritten") if act == "update" else revisions.delete()

    assert Revision.objects.exclude(reason="rewritten").count() == before


@pytest.mark.requirement("R83")
def test_a_correction_is_a_revision_with_actor_reason_before_and_after(alice: User):
    topic = make_topic(alice)
    topic.change(by=alice.actor, why="better so", summary="Version 18 is out.")

    last = revisions_of(topic)[-1]
    assert (last.actor, last.reason, last.version) == ("human:alice", "better so", 2)
    assert (last.before["summary"], last.after["summary"]) == ("", "Version 18 is out.")


def test_what_changes_nothing_isnt_a_revision(alice: User):
    topic = make_topic(alice)
    topic.change(by=alice.actor, summary=topic.summary)

    assert topic.version == 1
    assert len(revisions_of(topic)) == 1


# --- versions and locks ------------------------------------------------------------------------------


def test_of_two_writers_the_second_is_refused_and_loses_nothing(alice: User):
    topic = make_topic(alice)
    other = Topic.objects.get(pk=topic.pk)
    topic.change(by=alice.actor, summary="mine")

    with pytest.raises(StaleWrite) as refused:
        other.change(by=AGENT, summary="theirs")

    assert refused.value.current == 2
    topic.refresh_from_db()
    assert topic.summary == "mine"
    assert len(revisions_of(topic)) == 2


def test_a_write_based_on_an_older_version_is_refused_even_if_it_changes_nothing(alice: User):
    topic = make_topic(alice)
    topic.change(by=alice.actor, summary="mine")

    with pytest.raises(StaleWrite):
        topic.change(by=alice.actor, expected_version=1, summary="mine")


@pytest.mark.requirement("R83")
@pytest.mark.parametrize("lock", [Lock.READ_ONLY, Lock.APPEND_ONLY])
@pytest.mark.parametrize("by", [AGENT, RESEARCH, MAINTENANCE])
def test_what_is_locked_only_a_person_changes_and_unlocks(alice: User, lock: Lock, by: Actor):
    topic = make_topic(alice)
    topic.change(by=alice.actor, lock=lock)

    with pytest.raises(Locked):
        topic.change(by=by, summary="overwritten")
    with pytest.raises(Locked):
        topic.change(by=by, lock=Lock.OPEN)
    topic.change(by=alice.actor, summary="a person's")

    assert topic.summary == "a person's"


def test_what_a_person_writes_is_trusted_what_they_move_is_not(alice: User):
    topic = make_topic(alice)
    Topic.objects.update(trust=Trust.EXTERNAL)
    topic.refresh_from_db()

    topic.change(by=alice.actor, pinned=True)
    assert topic.trust == Trust.EXTERNAL
    topic.change(by=alice.actor, summary="Read and found right.")
    assert topic.trust == Trust.OWNER


# --- accounts ----------------------------------------------------------------------------------------


def test_an_account_is_deleted_with_all_it_owns(alice: User, bob: User):
    for make in MAKERS.values():
        make(alice)
    kept = make_topic(bob)
    key = alice.pk

    alice.delete()

    assert [kind for kind in KINDS if kind.objects.filter(owner=key).exists()] == []
    assert list(Topic.objects.all()) == [kept]
    assert {revision.owner_id for revision in Revision.objects.all()} == {bob.pk}
    assert list(get_user_model().objects.all()) == [bob]
