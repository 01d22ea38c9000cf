"""Deleting a run: its records are removed, replaced facts return, and Undo restores all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import (
    Activity,
    Note,
    Observation,
    Revision,
    SeenUrl,
    Source,
    Topic,
    TopicFact,
    TrashedRows,
    User,
)
from memory.models.actors import RESEARCH
from memory.models.errors import InvalidValue
from memory.services import topic_memory
from memory.services.records import acts as record_acts
from memory.services.records import history as record_history
from research.models import Hit, Report, Run
from research.services.runs import trash as run_trash
from research.services.runs.execution.starting import create_topic
from tests import kept_users
from tests.research import cast
from tests.research.archived import state_of
from tests.research.conftest import Providers, carry_out, scripted_providers
from tests.research.factories import make_run

RunOf = Callable[[Topic], Run]


def baseline(owner: User, providers: Providers) -> Topic:
    """Return a topic with a baseline over two pages."""
    topic = create_topic(owner=owner, title="Solid-state batteries", by=owner.actor)
    cast.set_up(providers, 1, 2)
    carry_out(topic)
    return topic


@pytest.fixture(scope="module")
def two_runs(stored_once: Any) -> UUID:
    """The topic of a baseline, and of a second run that found a third page and left findings and a note."""
    with stored_once(), scripted_providers() as providers:
        owner = kept_users.copied("alice")
        topic = baseline(owner, providers)
        cast.set_up(providers, 2, 3)
        run = carry_out(topic)
        Observation.objects.create(
            owner=owner, topic=topic, content="A finding of a bad run.", source=run.source,
            category="finding", trust="external",
        )  # fmt: skip
        Note.objects.create(owner=owner, topic=topic, content="What the run did", source=run.source)
    return topic.pk


@pytest.fixture
def topic(two_runs: UUID, db: None) -> Topic:
    """Alice's topic with two runs."""
    return Topic.objects.get(pk=two_runs)


@pytest.fixture
def good(topic: Topic) -> Run:
    """Its baseline."""
    return topic.runs.get(number=1)


@pytest.fixture
def bad(topic: Topic) -> Run:
    """Its second run."""
    return topic.runs.get(number=2)


@pytest.fixture
def bobs_topic(bob: User, providers: Providers) -> Topic:
    """Another topic, with one run."""
    return baseline(bob, providers)


def remove(run: Run, why: str = "") -> None:
    run_trash.trash_run(run.report, by=run.topic.owner.actor, why=why)


def restore(run: Run) -> None:
    run_trash.restore_run(run.report, by=run.topic.owner.actor)


def texts(topic: Topic) -> list[str]:
    return [fact.text for fact in TopicFact.objects.filter(topic=topic).current()]


def test_what_only_the_bad_run_brought_goes_and_what_was_known_before_remains(
    topic: Topic, good: Run, bad: Run
) -> None:
    bads = SeenUrl.objects.get(topic=topic, url__contains="3")
    remove(bad)
    assert cast.sentence(3) not in texts(topic)
    assert cast.sentence(1) in texts(topic)
    assert cast.sentence(2) in texts(topic)
    assert not SeenUrl.objects.filter(url=bads.url).exists()
    assert not Source.objects.filter(url=bads.url).exists()
    assert SeenUrl.objects.filter(topic=topic).count() == 2
    assert not Observation.objects.for_user(topic.owner).live().filter(source=bad.source).exists()
    assert not Note.objects.for_user(topic.owner).live().filter(source=bad.source).exists()
    topic.refresh_from_db()
    assert topic.summary == good.report.summary


def test_a_removed_run_is_restored_as_it_was(topic: Topic, bad: Run) -> None:
    before = state_of(topic.owner)
    remove(bad)
    assert state_of(topic.owner) != before
    restore(bad)
    assert state_of(topic.owner) == before
    assert not TrashedRows.objects.exists()


def test_so_does_the_only_run(bobs_topic: Topic) -> None:
    topic, good = bobs_topic, bobs_topic.runs.get()
    before = state_of(topic.owner)
    remove(good)
    assert topic_memory.load(topic).memory is None
    assert texts(topic) == []
    restore(good)
    assert state_of(topic.owner) == before


def test_undo_and_redo_move_the_same(topic: Topic, bad: Run) -> None:
    before, owner = state_of(topic.owner), topic.owner
    report = Report.objects.get(run=bad)
    record_acts.perform("trash", report, by=owner.actor)
    away = state_of(owner)
    report.refresh_from_db()
    back = record_acts.perform("restore", report, by=owner.actor)
    assert back is not None
    assert state_of(owner) == before
    record_history.undo(back, by=owner.actor)
    left = [f["text"] for f in away["facts"] if f["trashed_at"] is None]
    assert sorted(texts(topic)) == sorted(left)


def test_numbers_never_move(topic: Topic, bad: Run, providers: Providers, run_of: RunOf) -> None:
    remove(bad)
    cast.set_up(providers, 3, 4)
    third = run_of(topic)
    assert third.number == 3
    assert cast.sentence(3) in texts(topic)  # found again, as if the bad run had never been
    assert Hit.objects.get(run=third, url=cast.url(3)).state == Hit.State.NEW


def test_what_a_later_run_found_again_stands_and_nothing_is_current_twice(
    topic: Topic, bad: Run, providers: Providers, run_of: RunOf
) -> None:
    remove(bad)
    cast.set_up(providers, 3, 4)
    run_of(topic)
    restore(bad)
    now = texts(topic)
    assert len(now) == len(set(now)) <= TopicFact.MAX_CURRENT
    assert SeenUrl.objects.get(topic=topic, url__contains="3").returned_in == 3
    assert Source.objects.get(topic=topic, url__contains="3").first_run == 2


def test_what_a_person_touched_stays(topic: Topic, bad: Run) -> None:
    fact = TopicFact.objects.filter(topic=topic).current().get(text=cast.sentence(3))
    fact.change(by=topic.owner.actor, pinned=True)
    finding = Observation.objects.for_user(topic.owner).filter(source=bad.source).first()
    assert finding is not None
    record_acts.perform("accept", finding, by=topic.owner.actor)
    remove(bad)
    fact.refresh_from_db()
    finding.refresh_from_db()
    assert (fact.trashed_at, finding.trashed_at) == (None, None)


def test_what_was_changed_in_the_trash_stays_as_it_was_changed(topic: Topic, bad: Run) -> None:
    remove(bad)
    finding = (
        Observation.objects.for_user(topic.owner).in_trash().get(content__startswith="A finding")
    )
    finding.restore(by=topic.owner.actor)
    finding.trash(by=topic.owner.actor)
    note = Note.objects.for_user(topic.owner).in_trash().get(content="What the run did")
    note.restore(by=topic.owner.actor)
    restore(bad)
    note.refresh_from_db()
    assert note.trashed_at is None
    assert Report.objects.get(run=bad).trashed_at is None


def test_what_a_person_made_of_a_fact_between_two_removals_stays(topic: Topic, bad: Run) -> None:
    fact = TopicFact.objects.filter(topic=topic).current().exclude(first_run=bad.number)[0]
    fact.retire(by=RESEARCH, why="not among the facts in Run #2", run=bad.number)
    remove(bad)
    restore(bad)
    fact.refresh_from_db()
    assert fact.state == "retired"
    fact.unstrike(by=topic.owner.actor)

    remove(bad)
    restore(bad)

    fact.refresh_from_db()
    assert fact.state == "current"


def test_while_its_topic_is_in_the_trash_too_it_comes_back_and_the_topic_after_it(
    topic: Topic, bad: Run
) -> None:
    before, by = texts(topic), topic.owner.actor
    remove(bad)
    topic.refresh_from_db()
    topic.trash(by=by)
    restore(bad)
    topic.refresh_from_db()
    topic.restore(by=by)

    assert texts(topic) == before


def test_deleted_permanently_in_two_tabs_it_is_reported_once(topic: Topic, bad: Run) -> None:
    remove(bad)
    one, other = (Report.objects.get(run=bad) for _tab in range(2))
    one.purge(by=topic.owner.actor)

    with pytest.raises(InvalidValue, match="already been permanently deleted"):
        other.purge(by=topic.owner.actor)
    with pytest.raises(InvalidValue, match="already been permanently deleted"):
        run_trash.restore_run(other, by=topic.owner.actor)
    assert Activity.objects.filter(kind="purged", subject_type="report").count() == 1


def test_who_deletes_it_holds_the_topic_first_as_who_restores_it_does(
    topic: Topic, bad: Run
) -> None:
    remove(bad)
    with CaptureQueriesContext(connection) as asked:
        Report.objects.get(run=bad).purge(by=topic.owner.actor)
    held = [one["sql"] for one in asked.captured_queries if "FOR UPDATE" in one["sql"]]
    assert 'FROM "memory_topic"' in held[0]


def test_while_a_run_is_in_progress_nothing_is_removed_or_brought_back(
    topic: Topic, bad: Run
) -> None:
    going = make_run(topic, saved=False)
    with pytest.raises(InvalidValue, match="in progress"):
        remove(bad)
    Run.objects.filter(pk=going.pk).update(status="cancelled")
    remove(bad)
    Run.objects.filter(pk=going.pk).update(status="queued")
    with pytest.raises(InvalidValue, match="in progress"):
        restore(bad)
    with pytest.raises(InvalidValue, match="in progress"):
        Report.objects.get(run=bad).purge(by=topic.owner.actor)
    assert Run.objects.filter(pk=bad.pk).exists()


def test_deleted_permanently_nothing_of_the_run_is_left(topic: Topic, bad: Run) -> None:
    owner = topic.owner
    remove(bad)
    Report.objects.get(run=bad).purge(by=owner.actor)
    assert not Run.objects.filter(pk=bad.pk).exists()
    for model in (TopicFact, Observation, Note):
        assert not model.objects.filter(source=bad.source).exists()
    assert not TrashedRows.objects.exists()
    assert not Revision.objects.filter(after__contains={"content": "A finding of a bad run."})
    topic.refresh_from_db()
    assert topic.run_count == 2


def test_a_topic_is_not_deleted_while_its_run_ends(bobs_topic: Topic) -> None:
    topic = bobs_topic
    make_run(topic, saved=False)
    topic.trash(by=topic.owner.actor)
    with pytest.raises(InvalidValue, match="still stopping"):
        topic.purge(by=topic.owner.actor)
    assert Topic.objects.filter(pk=topic.pk).exists()


def test_a_broken_row_of_an_archive_made_by_hand_breaks_nothing(topic: Topic, bad: Run) -> None:
    remove(bad)
    rows: Any = {"seen": [{"url": 3}, "x", {}], "sources": "none", "confirmed": [{"fact": None}]}
    TrashedRows.objects.update(rows=rows)
    restore(bad)
    assert Report.objects.get(run=bad).trashed_at is None
