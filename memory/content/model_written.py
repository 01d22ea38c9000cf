"""What a model is asked for where an agent has its results made short by one (R130)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.template.loader import render_to_string
from pydantic import BaseModel, Field

from beacon_site.providers.llm import Message
from memory.content.shapes import READ_BY_MODEL
from memory.models import ContentItem
from memory.texts.text import for_prompt

LONGEST_SUMMARY, LONGEST_FACT, MOST_FACTS = 1_200, 400, 5
MOST_TOKENS = 700


class Written(BaseModel):
    """What the model gives back."""

    summary: str = Field(max_length=LONGEST_SUMMARY, description="2 or 3 sentences")
    facts: list[str] = Field(
        default_factory=list, max_length=MOST_FACTS, description="3 to 5 facts for the goal"
    )
    id: str = Field("", max_length=80, description="the memory id that you were given")


Ask = Callable[[Sequence[Message]], Written | None]


def question(item: ContentItem, goal: str, prompt: str = "") -> list[Message]:
    """Return what is asked: the goal, the action, the first 5,000 characters, the id.

    `prompt` stands in for Beacon's own words about what to keep.
    """
    told = {
        "goal": for_prompt(goal),
        "action": item.action or item.type,
        "text": for_prompt(item.content[:READ_BY_MODEL]),
        "read": f"{min(item.size, READ_BY_MODEL):,}",
        "size": f"{item.size:,}",
        "id": item.pk,
        "prompt": prompt,
    }
    return [
        Message("system", render_to_string("prompts/compact_system.txt", told)),
        Message("user", render_to_string("prompts/compact_user.txt", told)),
    ]
