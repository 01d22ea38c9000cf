"""What a run's prompts say about a topic, shown before there is a run."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import Use
from memory.models.actors import Actor
from memory.services.context.topic_block import TASKS, topic_block
from memory.services.observations.saving import write_observation
from research.models import TopicSettings
from research.services.runs.context import inputs
from tests.research.factories import make_fact, make_run, make_topic

DESK = Actor("agent", "desk")


@pytest.mark.requirement("R34")
def test_it_holds_what_is_known_and_the_observations_that_may_help(alice: Any):
    topic = make_topic(alice, "Kyoto")
    make_fact(topic, "A night costs 90 euros in spring.", make_run(topic))
    seen = write_observation(alice, "lesson", "Rooms in Kyoto are cheap in June.", by=DESK)

    text, _loaded, observations = topic_block(topic)

    known, _mark, offered = text.partition("Observations that may help")
    assert "A night costs 90 euros in spring." in known
    assert "Rooms in Kyoto are cheap in June." in offered
    assert observations == [seen]
    assert not Use.objects.exists()


def test_of_a_topic_without_runs_it_is_empty(alice: Any):
    assert topic_block(make_topic(alice, "Kyoto"))[0] == ""


def test_a_sensitive_observation_is_never_in_it(alice: Any):
    topic = make_topic(alice, "Kyoto")
    write_observation(alice, "lesson", "Kyoto: my code is 4711.", by=DESK, sensitivity="sensitive")
    assert topic_block(topic)[2] == []


def test_what_a_topic_is_for_is_reported_by_research_in_the_words_of_its_runs(alice: Any):
    topic = make_topic(alice, "Kyoto")
    TopicSettings.objects.filter(topic=topic).update(objective="cheap rooms", focus="June")
    assert TASKS[-1] is inputs.task_of
    assert inputs.task_of(topic) == "Kyoto cheap rooms June"
