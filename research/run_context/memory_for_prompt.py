"""The best observations for a topic, for the prompts of its runs (R95). The plan chooses them once.

The plan's output stores only their ids, so text that a person later deletes or marks as sensitive
is neither repeated nor kept in a step.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import ngettext

from memory.context import topic_block
from memory.context.topic_block import observations_as_prompt, observations_for, still_offered
from memory.llm import connections
from memory.models import Observation, Topic, Use
from memory.topics.memory import TopicMemory
from research.models import TopicSettings
from research.run_context.context import RunContext
from research.run_context.outputs import PlanOutput


def choose(
    work: RunContext, memory: TopicMemory | None, lessons: Sequence[Observation]
) -> list[Observation]:
    """Return the observations for the run's prompts, except those that repeat the lessons.

    Empty if no model will read them.
    """
    if connections.model_for(work.topic) is None or work.is_stopping:
        return []
    return observations_for(work.topic, _task(work.topic, work.settings), memory, lessons)


def task_of(topic: Topic) -> str:
    """Return the task of a topic's next run: its title, objective and focus."""
    return _task(topic, TopicSettings.objects.filter(topic=topic).first())


def _task(topic: Topic, settings: TopicSettings | None) -> str:
    wishes = [settings.objective, settings.focus] if settings else []
    return " ".join(filter(None, [topic.title, *wishes]))


def enter(work: RunContext, chosen: Sequence[Observation]) -> list[str]:
    """Return the observations as lines of a prompt, and record that the run used them."""
    Use.note_records(work.topic.owner, chosen, work.run.source)
    return observations_as_prompt(chosen)


def chosen(work: RunContext) -> list[Observation]:
    """Return the chosen observations that models can still see."""
    return still_offered(work.topic.owner, work.output("plan").get("observations", []))


def teach(work: RunContext, lessons: Sequence[Observation]) -> list[str]:
    """Return the lessons from corrections as lines of a prompt, and record that they were used."""
    Use.note_records(work.topic.owner, lessons, work.run.source)
    return topic_block.lessons_as_prompt(lessons)


def in_words(output: PlanOutput) -> str:
    """Return the number of observations and lessons in a plan's output as text, or "" for none."""
    count, lessons = len(output.get("observations", [])), len(output.get("taught", []))
    words = []
    if count:
        said = ngettext("with %(count)d observation", "with %(count)d observations", count)
        words.append(said % {"count": count})
    if lessons:
        said = ngettext("%(count)d lesson learned", "%(count)d lessons learned", lessons)
        words.append(said % {"count": lessons})
    return ", ".join(words)
