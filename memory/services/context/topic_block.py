"""The part of a prompt with what Beacon knows about a topic: observations, lessons and its purpose.

Sensitive or quarantined observations are never included. Those from the web are included only for
the topic that found them, because no one has reviewed them for other topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.template.loader import render_to_string

from beacon_site.text.cleaning import for_prompt, one_line, shorten
from beacon_site.text.injection import injection_reason
from memory.models import Observation, Sensitivity, Topic, TopicFact, Trust
from memory.services.observations.saving import is_near
from memory.services.search.query import Filter, Question
from memory.services.search.recall import RecallHit, recall_each
from memory.services.topic_memory import LoadResult, TopicMemory, load

MAX_OFFERED = 5  # R240
MAX_OFFERED_LENGTH = 400  # characters of one in a prompt

_NOT_SENSITIVE = Filter("sensitivity", ("sensitive",), negated=True)
_OWN = Filter("trust", (Trust.OWNER.value, Trust.AGENT.value))
_NOT_QUARANTINED = Filter("trust", (Trust.QUARANTINED.value,), negated=True)


def best_for(
    owner: Any,
    task: str,
    *,
    topic: Topic | None = None,
    known: Sequence[str] = (),
) -> list[Observation]:
    """Return at most `MAX_OFFERED` observations for `task`, best first (R95, R240).

    Left out are observations that nearly repeat a better one or a sentence of `known` (facts that
    are in the prompt or marked as wrong), possible prompt injection, and anything that a later run
    found to have changed.
    """
    if not task.strip():
        return []
    hits = _recalled(owner, task, topic, 3 * (MAX_OFFERED + len(known)))
    chosen: list[Observation] = []
    for hit in sorted(hits, key=lambda one: (-one.score, one.id)):
        if len(chosen) == MAX_OFFERED:
            break
        texts = [*known, *(one.content for one in chosen)]
        if hit.later_finding or injection_reason(hit.content):
            continue
        if any(is_near(hit.content, one) for one in texts):
            continue
        chosen.append(hit.record)
    return chosen


def _recalled(owner: Any, task: str, topic: Topic | None, depth: int) -> list[RecallHit]:
    """Return the owner's and agents' observations from anywhere, and those found for this topic."""
    ways: list[tuple[Filter, ...]] = [(_OWN,)]
    if topic is not None:
        ways.append((_NOT_QUARANTINED, Filter("topic", (topic.slug,))))
    # A task isn't a query: the -O3 in “C++ -O3” excludes nothing.
    questions = [Question(task, task, filters=(_NOT_SENSITIVE, *way)) for way in ways]
    pages = recall_each(owner, questions, types=[Observation.record_type()], limit=depth)
    return [hit for page in pages for hit in page.hits]


def still_offered(owner: Any, ids: Iterable[Any]) -> list[Observation]:
    """Return the observations that can still be included in a prompt, in the order of `ids`."""
    found = Observation.objects.for_user(owner).active().for_agents()
    by_id = {str(one.pk): one for one in found.filter(pk__in=ids)}
    return [by_id[str(key)] for key in ids if str(key) in by_id]


def observations_as_prompt(observations: Iterable[Observation]) -> list[str]:
    """Return the observations as lines to put between a prompt's data marks."""
    return [
        shorten(one_line(for_prompt(observation.content)), MAX_OFFERED_LENGTH)
        for observation in observations
    ]


# --- lessons ---

TAG = "taught"
MAX = 12  # lessons of a topic in a prompt, the newest
MAX_LENGTH = 600  # characters of one


def of_topic(topic: Topic) -> list[Observation]:
    """Return the topic's lessons that can be included in a prompt, newest first."""
    mine = (
        Observation.objects.for_user(topic.owner_id)
        .active()
        .filter(topic=topic, tags__contains=[TAG])
    )
    rows = mine.filter(category=Observation.Category.LESSON, trust=Trust.OWNER)
    return list(rows.exclude(sensitivity=Sensitivity.SENSITIVE).order_by("-created", "-id")[:MAX])


def lessons_as_prompt(lessons: Iterable[Any]) -> list[str]:
    """Return the lessons as lines to put between a prompt's data marks."""
    return [shorten(one_line(for_prompt(one.content)), MAX_LENGTH) for one in lessons]


# --- topic block ---

# Describes a topic's purpose. Research registers a function that returns its objective and focus.
TASKS: list[Callable[[Topic], str]] = [str]


def topic_block(topic: Topic) -> tuple[str, LoadResult, list[Observation]]:
    """Return the block that a run of `topic` would get now, its memory and its observations.

    Nothing is recorded as used.
    """
    loaded, lessons = load(topic), of_topic(topic)
    chosen = observations_for(topic, TASKS[-1](topic), loaded.memory, lessons)
    parts = [loaded.memory.as_prompt()] if loaded.memory else []
    if lessons:
        groups = {"taught": lessons_as_prompt(lessons)}
        parts.append(render_to_string("prompts/_lessons.txt", groups).strip())
    if chosen:
        lines = {"observations": observations_as_prompt(chosen)}
        parts.append(render_to_string("prompts/_observations.txt", lines).strip())
    return "\n\n".join(parts), loaded, chosen


def observations_for(
    topic: Topic,
    task: str,
    known: TopicMemory | None,
    lessons: Sequence[Observation] | None,
) -> list[Observation]:
    """Return the best observations for the topic's prompts (R95).

    Known facts and `lessons` (None: they are loaded) that are in the prompt aren't repeated, and
    nothing marked as wrong is included.
    """
    facts: Sequence[str] = [fact.text for fact in known.facts] if known else []
    if known:
        struck: Sequence[str] = known.struck
    else:  # expired memory isn't loaded, but facts marked as wrong must still be excluded
        struck = [fact.text for fact in TopicFact.objects.filter(topic=topic).struck()]
    observations = of_topic(topic) if lessons is None else lessons
    return best_for(
        topic.owner,
        task,
        topic=topic,
        known=[*facts, *struck, *(one.content for one in observations)],
    )
