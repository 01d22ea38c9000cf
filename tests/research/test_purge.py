"""What a purged topic takes with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from beacon_site.providers.fakes import FakeLanguageModel
from beacon_site.providers.search import SearchHit
from memory.models import Activity, ContentItem, ModelCall, Revision, Topic, TopicFact, Use
from research.models import Report, Run
from tests.research.conftest import Providers

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
    assert not Revision.objects.exclude(record_type="note").exists()  # the account's own notes
    calls = ModelCall.objects.all()
    assert {(call.prompt == [], call.answer, call.error) for call in calls} == {(True, "", "")}


def test_the_log_keeps_that_it_was_purged_but_not_its_names(purged: Topic):
    line = Activity.objects.get(kind="purged")

    assert (line.subject_type, line.label) == ("topic", "topic")
    assert {line.label for line in Activity.objects.exclude(pk=line.pk)} == {""}
