"""What is deleted with a topic."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from beacon_site.providers.search.base import SearchHit
from memory.models import (
    Activity,
    ContentItem,
    ModelCall,
    Note,
    Observation,
    Revision,
    Topic,
    TopicFact,
    Use,
    User,
)
from memory.services.notes.saving import point_at, supersede, write_note
from memory.services.observations.saving import Line, remember_lines
from memory.services.search import bm25
from research.models import Report, Run
from tests.providers.fakes import FakeLanguageModel
from tests.research.conftest import Providers
from tests.research.factories import make_topic

TEXT = "Solid-state batteries reached an energy density of 410 Wh/kg in a pilot line in March 2026."


@pytest.fixture
def purged(topic: Topic, providers: Providers, run_of: Callable[[Topic], Run]) -> Topic:
    providers.search.enqueue([SearchHit(url="https://a.example/1", title="A")])
    providers.pages.pages = {"https://a.example/1": TEXT}
    providers.model = FakeLanguageModel({"queries": ["q"]}, default={"body": f"{TEXT} [1]"})
    run_of(topic)
    ModelCall.objects.update(error="no answer about batteries")
    topic.rename("Cells", by=topic.owner.actor)
    topic.trash(by=topic.owner.actor)
    topic.purge(by=topic.owner.actor)
    return topic


def test_a_purged_topic_takes_everything_that_was_read_written_and_said_for_it(purged: Topic):
    gone = (Topic, TopicFact, Run, Report, ContentItem, Use)

    assert [model.__name__ for model in gone if model.objects.exists()] == []
    own = ("note", "memoryfile")  # with which the account began
    assert not Revision.objects.exclude(record_type__in=own).exists()
    calls = ModelCall.objects.all()
    assert {(call.prompt == [], call.answer, call.error) for call in calls} == {(True, "", "")}


def test_the_log_keeps_that_it_was_purged_but_not_its_names(purged: Topic):
    line = Activity.objects.get(kind="purged")

    assert (line.subject_type, line.label) == ("topic", "topic")
    assert {line.label for line in Activity.objects.exclude(pk=line.pk)} == {""}


def test_its_observations_and_notes_go_too_and_those_of_others_stay(topic: Topic, alice: User):
    other = make_topic(alice, "Another")
    kept = write_note(alice, "log", "Kept word.", by=alice.actor, topic=other)
    gone = write_note(alice, "log", "Zebra word.", by=alice.actor, topic=topic)
    newer = supersede(gone, "Zebra newer word.", by=alice.actor)
    point_at(kept, newer, by=alice.actor, why="superseded", source="")
    line = Line("finding", "A zebra finding.")
    made = remember_lines(alice, [line], by=alice.actor, source="run:1", topic=topic)
    pk = made.observations[0].pk

    topic.trash(by=alice.actor)
    topic.purge(by=alice.actor)

    assert not Note.objects.filter(pk__in=[gone.pk, newer.pk]).exists()
    assert not Observation.objects.filter(pk=pk).exists()
    assert not Revision.objects.filter(record_id__in=[gone.pk, newer.pk, pk]).exists()
    assert bm25.search(alice, "note", "zebra") == bm25.search(alice, "observation", "zebra") == []
    kept.refresh_from_db()
    assert kept.superseded_by_id is None and kept.trashed_at is not None
