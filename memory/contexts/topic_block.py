"""What a run's prompts are told of its topic: what is known, and the observations that may help.

Runs are research's, which puts the same two into its planning and writing prompts; the Context
page shows them before there is a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.template.loader import render_to_string

from memory.contexts import taught
from memory.contexts.memory_for_prompt import as_prompt, best_for
from memory.models import Observation, Topic, TopicFact
from memory.topics.memory import TopicMemory, load

# What a topic is for, in words: research says it here, with its objective and focus.
TASKS: list[Callable[[Topic], str]] = [str]


@dataclass(frozen=True, slots=True)
class TopicBlock:
    """The block as prompts hold it, and what it was made of; `problem` says why memory is missing."""

    text: str
    known: TopicMemory | None = None
    observations: list[Observation] = field(default_factory=list)
    problem: str = ""


def topic_block(topic: Topic) -> TopicBlock:
    """Return what a run of `topic` would be told now; nothing is noted as used."""
    loaded, lessons = load(topic), taught.of_topic(topic)
    chosen = observations_for(topic, TASKS[-1](topic), loaded.memory, lessons)
    parts = [loaded.memory.as_prompt()] if loaded.memory else []
    if lessons:
        told = {"taught": taught.as_prompt(lessons)}
        parts.append(render_to_string("prompts/_taught.txt", told).strip())
    if chosen:
        lines = {"observations": as_prompt(chosen)}
        parts.append(render_to_string("prompts/_observations.txt", lines).strip())
    return TopicBlock("\n\n".join(parts), loaded.memory, chosen, loaded.problem)


def observations_for(
    topic: Topic,
    task: str,
    known: TopicMemory | None,
    lessons: Sequence[Observation] | None = None,
) -> list[Observation]:
    """Return the best observations for the topic's prompts (R95).

    What the prompt tells as known facts or as `lessons` (None: they are looked up) is not told
    twice, and what was struck not at all.
    """
    facts: Sequence[str] = [fact.text for fact in known.facts] if known else []
    if known:
        struck: Sequence[str] = known.struck
    else:  # memory that has lapsed is not loaded, and yet nothing struck is told
        struck = [fact.text for fact in TopicFact.objects.filter(topic=topic).struck()]
    told = taught.of_topic(topic) if lessons is None else lessons
    return best_for(
        topic.owner, task, topic=topic, known=[*facts, *struck, *(one.content for one in told)]
    )
