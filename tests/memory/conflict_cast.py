"""Contradictions and near-duplicates for the tests of Conflicts."""

from __future__ import annotations

from typing import Any

from memory.models import Conflict, Note, Observation, Topic, TopicFact
from memory.services.notes import saving as notes
from memory.services.observations.saving import write_observation

OLD, NEW = "A pack of cells costs 89 dollars per kWh.", "A pack of cells costs 74 dollars per kWh."


def topic_of(owner: Any, title: str = "Batteries") -> Topic:
    found: Topic = Topic.objects.create_topic(owner=owner, title=title, by=owner.actor)
    return found


def facts(owner: Any, *, kept: bool = True) -> Conflict:
    """A fact that the owner keeps, and what a run found against it."""
    topic = topic_of(owner)
    left = TopicFact.objects.add(topic, OLD, by=owner.actor)
    if not kept:
        TopicFact.objects.filter(pk=left.pk).update(edited_by_person=False)
        left.refresh_from_db()
    right = TopicFact.objects.create(
        owner=owner, topic=topic, text=NEW, key=NEW.casefold(), trust="external", source="run:7",
        position=2, url="https://cells.example/prices", source_title="Prices", quote=NEW,
    )  # fmt: skip
    return noted(owner, left, right)


def observations(owner: Any) -> Conflict:
    left = write_observation(owner, "finding", OLD, by=owner.actor, tags=["price"])
    right = write_observation(owner, "finding", NEW, by=owner.actor, tags=["cells"])
    return noted(owner, left, right)


def two_notes(owner: Any, kind: str = "contradiction") -> Conflict:
    left, right = (notes.write_note(owner, "log", text, by=owner.actor) for text in (OLD, NEW))
    return noted(owner, left, right, kind)


def noted(owner: Any, left: Any, right: Any, kind: str = "contradiction") -> Conflict:
    found = Conflict.objects.note(owner, kind, left, right, source="run:7", reason="number")
    assert found is not None
    return found


def texts(owner: Any) -> dict[str, list[str]]:
    """The current words of facts, notes and observations."""
    return {
        "facts": list(TopicFact.objects.for_user(owner).current().values_list("text", flat=True)),
        "notes": sorted(
            Note.objects.for_user(owner).active().exclude(kind__in=Note.IDENTITY)
            .values_list("content", flat=True)
        ),
        "observations": sorted(Observation.objects.for_user(owner).live().values_list("content", flat=True)),
    }  # fmt: skip
