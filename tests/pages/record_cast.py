"""Notes and observations as the tests of their lists need them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from memory.models import Note, Observation, Revision

HTMX = {"HX-Request": "true"}


def note(owner: Any, content: str = "Fares are stale.", **fields: Any) -> Note:
    """A note of the owner, found by its words."""
    made = Note(
        owner=owner, content=content, source=fields.pop("source", str(owner.actor)), **fields
    )
    return _stored(made, owner)


def observation(
    owner: Any, content: str = "A cell costs 89 dollars.", **fields: Any
) -> Observation:
    """An observation of the owner, found by its words."""
    fields = {"category": "finding", "source": "run:1"} | fields
    made = Observation(owner=owner, content=content, **fields)
    made.digest = Observation.digest_of(content)
    return _stored(made, owner)


def _stored(record: Any, owner: Any) -> Any:
    record.save(force_insert=True)
    Revision.record_first([record], by=owner.actor)
    type(record).follow([record])
    return record


def days(number: float) -> datetime:
    """The moment so many days from now."""
    return timezone.now() + timedelta(days=number)


def text_of(response: Any) -> str:
    """The answer's words, spaces made one."""
    return " ".join(response.content.decode().split())
