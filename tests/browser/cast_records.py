"""Single notes and observations for the checked pages: chain, uses, history, conflict."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.urls import reverse
from django.utils import timezone

from memory.models import Note, Observation, Use
from memory.services.notes.saving import edit_note, pin, supersede, write_note
from memory.services.observations.saving import write_observation
from research.models import Run

TEXT = """## What to compare

Compare hosts by **price**, *point-in-time restore* and the date of the last test restore.

- The cheapest lacks restore.
- The second bills backups by the gigabyte.
- The third wants a yearly contract.

Ask for a trial before a contract; see <https://example.org/a/path/that/does/not/break/anywhere>.
"""


def records(owner: Any) -> dict[str, str]:
    """Make the records, and return the addresses of their pages."""
    run = Run.objects.for_user(owner).filter(number__isnull=False).order_by("pk").first()
    rule = _rule(owner, run)
    newest = _chain(owner)
    near = _near(owner, run)
    two = [write_note(owner, "log", text, by=owner.actor) for text in ("Ask for a trial.", TEXT)]
    trashed = write_note(owner, "log", "The trial of the first host is over.", by=owner.actor)
    trashed.trash(by=owner.actor)
    merge = "&".join(f"ids={note.pk}" for note in two)
    page = rule.get_absolute_url()
    return {
        "record": page,
        "record related": reverse("memory:related", args=["note", rule.pk]),
        "record chain": newest.get_absolute_url(),
        "record replaced": Note.objects.for_user(owner)
        .get(content="Hosts: one.")
        .get_absolute_url(),
        "record near": near.get_absolute_url(),
        "record trashed": trashed.get_absolute_url(),
        "record purge": reverse("memory:record-purge", args=["note", trashed.pk]),
        "record merge": f"{reverse('memory:notes-merge')}?{merge}",
        "record forget": f"{reverse('memory:source-forget')}?source={near.source}",
        "record supersede": reverse("memory:note-supersede", args=[two[0].pk]),
    }


def _rule(owner: Any, run: Run) -> Note:
    """A rule in its fourth version, used by two runs."""
    rule = write_note(
        owner,
        "rule",
        TEXT.replace("price", "cost"),
        by=owner.actor,
        source=run.source,
        trust="external",
        confidence=0.85,
        evidence=["https://example.org/hosts", "said on Monday in the talk about the mirror"],
        tags=["hosting", "a tag of several words"],
        topic=run.topic,
    )
    edit_note(rule, by=owner.actor, content=TEXT, why="it is the price that counts")
    edit_note(rule, by=owner.actor, tags=["hosting", "courier"], confidence=0.9)
    pin(rule, by=owner.actor)
    for place in (run.source, "session:0d9f"):
        Use.objects.create(owner=owner, record_type="note", record_id=rule.pk, place=place)
    return rule


def _chain(owner: Any) -> Note:
    """A note that replaced two others in a chain, and expires."""
    note = write_note(owner, "summary", "Hosts: one.", by=owner.actor, stability="stable")
    note = supersede(note, "Hosts: one and two.", by=owner.actor)
    newest = supersede(note, "Hosts: one, two and three, as of today.", by=owner.actor)
    Note.objects.filter(pk=newest.pk).update(expires_at=timezone.now() + timedelta(days=12))
    return newest


def _near(owner: Any, run: Run) -> Observation:
    """An observation from the web, and a near-duplicate."""
    told = {"by": owner.actor, "trust": "external", "step_name": "write", "step_type": "RUN"}
    text = "A test restore of the mirror took 41 minutes on the second host, in October."
    write_observation(owner, "finding", text, source=run.source, topic=run.topic, **told)
    alike = text.replace("in October", "late in October")
    return write_observation(owner, "finding", alike, source="session:0d9f", **told)
