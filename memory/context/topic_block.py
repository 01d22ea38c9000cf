"""The observations that are worth knowing for a task: found by recall, offered to its prompt.

What is sensitive or in quarantine is never offered, and what came from the web only to the topic
for which it was found: elsewhere nobody has looked at it (decision 10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import render_to_string

from beacon_site.text.cleaning import for_prompt, one_line, shorten
from beacon_site.text.injection import smells_of_instructions
from memory.models import Observation, Sensitivity, Topic, TopicFact, Trust
from memory.observations.services import is_near
from memory.search.query import Filter, Question
from memory.search.recall import RecallHit, recall_each
from memory.topics.memory import TopicMemory, load

MOST_OFFERED = 5  # R240
LONGEST_OFFERED = 400  # characters of one in a prompt

_NOT_SENSITIVE = Filter("sensitivity", ("sensitive",), negated=True)
_OWN = Filter("trust", (Trust.OWNER.value, Trust.AGENT.value))
_NOT_QUARANTINED = Filter("trust", (Trust.QUARANTINED.value,), negated=True)


def best_for(
    owner: Any,
    task: str,
    *,
    topic: Topic | None = None,
    known: Sequence[str] = (),
    limit: int = MOST_OFFERED,
) -> list[Observation]:
    """Return the observations that fit `task` best, at most `limit`, best first (R95, R240).

    What says almost the same as a sentence of `known` (the facts that the prompt holds, or that
    were struck) or as a better one is left out, and so is what smells of instructions and what a
    later run found to have changed.
    """
    if not task.strip():
        return []
    hits = _recalled(owner, task, topic, 3 * (limit + len(known)))
    chosen: list[Observation] = []
    for hit in sorted(hits, key=lambda one: (-one.score, one.id)):
        if len(chosen) == limit:
            break
        said = [*known, *(one.content for one in chosen)]
        if hit.found_later or smells_of_instructions(hit.content):
            continue
        if any(is_near(hit.content, one) for one in said):
            continue
        chosen.append(hit.record)
    return chosen


def _recalled(owner: Any, task: str, topic: Topic | None, depth: int) -> list[RecallHit]:
    """Return what the owner and agents observed anywhere, and what was found for the topic itself."""
    ways: list[tuple[Filter, ...]] = [(_OWN,)]
    if topic is not None:
        ways.append((_NOT_QUARANTINED, Filter("topic", (topic.slug,))))
    # A task is words, not a query: “C++ -O3” leaves nothing out.
    asked = [Question(task, task, filters=(_NOT_SENSITIVE, *way)) for way in ways]
    pages = recall_each(owner, asked, types=[Observation.record_type()], limit=depth)
    return [hit for page in pages for hit in page.hits]


def still_offered(owner: Any, ids: Iterable[Any]) -> list[Observation]:
    """Return those of the observations that may enter a prompt now, in the order of `ids`."""
    found = Observation.objects.of(owner).active().for_agents()
    by_id = {str(one.pk): one for one in found.filter(pk__in=ids)}
    return [by_id[str(key)] for key in ids if str(key) in by_id]


def observations_as_prompt(observations: Iterable[Observation]) -> list[str]:
    """Return the observations as lines that stand between a prompt's marks, as data."""
    return [shorten(one_line(for_prompt(one.content)), LONGEST_OFFERED) for one in observations]


# --- taught ---

TAG = "taught"
MOST = 12  # lessons of a topic in a prompt, the newest
LONGEST = 600  # characters of one


def of_topic(topic: Topic) -> list[Observation]:
    """Return the topic's lessons that may enter a prompt, the newest first."""
    mine = Observation.objects.of(topic.owner_id).active().filter(topic=topic, tags__contains=[TAG])
    told = mine.filter(category=Observation.Category.LESSON, trust=Trust.OWNER)
    return list(told.exclude(sensitivity=Sensitivity.SENSITIVE).order_by("-created", "-id")[:MOST])


def lessons_as_prompt(lessons: Iterable[Any]) -> list[str]:
    """Return the lessons as lines that stand between a prompt's marks."""
    return [shorten(one_line(for_prompt(one.content)), LONGEST) for one in lessons]


# --- topic block ---

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
    loaded, lessons = load(topic), of_topic(topic)
    chosen = observations_for(topic, TASKS[-1](topic), loaded.memory, lessons)
    parts = [loaded.memory.as_prompt()] if loaded.memory else []
    if lessons:
        told = {"taught": lessons_as_prompt(lessons)}
        parts.append(render_to_string("prompts/_taught.txt", told).strip())
    if chosen:
        lines = {"observations": observations_as_prompt(chosen)}
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
    told = of_topic(topic) if lessons is None else lessons
    return best_for(
        topic.owner, task, topic=topic, known=[*facts, *struck, *(one.content for one in told)]
    )
