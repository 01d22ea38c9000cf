"""The observations that are worth knowing for a task: found by recall, offered to its prompt.

What is sensitive or in quarantine is never offered, and what came from the web only to the topic
for which it was found: elsewhere nobody has looked at it (decision 10).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from memory.models import Observation, Topic, Trust
from memory.observations.near import is_near
from memory.recall.operators import Filter, Question
from memory.recall.recalling import RecallHit, recall_each
from memory.texts.injection import smells_of_instructions
from memory.texts.text import for_prompt, one_line, shorten

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


def as_prompt(observations: Iterable[Observation]) -> list[str]:
    """Return the observations as lines that stand between a prompt's marks, as data."""
    return [shorten(one_line(for_prompt(one.content)), LONGEST_OFFERED) for one in observations]
