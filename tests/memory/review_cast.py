"""Writes by agents, as the tests of the review need them."""

from __future__ import annotations

from typing import Any

from memory.models import Message, Proposal, ReviewLevel, Session, Trust
from memory.models.actors import REFLECTOR, Actor
from memory.services.files.reading import read_file
from memory.services.review import proposals as review_services
from memory.services.review.risks import Write

AGENT = Actor("agent", "desk")
USER, MEMORY = "facts/user.md", "facts/memory.md"


def level(owner: Any, name: str, kind: str = "default") -> None:
    """Let the owner want this level."""
    ReviewLevel.objects.update_or_create(owner=owner, kind=kind, defaults={"level": name})


def held(owner: Any, kind: str = "note", **more: Any) -> str:
    """Why a write by an agent is held; a file's with `path` and `after`."""
    wanted: dict[str, Any] = {"by": AGENT, "trust": Trust.AGENT, "leaves_topic": True, **more}
    if "path" in wanted and wanted.get("target") is None:
        wanted["target"] = read_file(owner, wanted["path"])
    return review_services.hold_reason(Write(owner, kind, **wanted))


def said(owner: Any, text: str, **more: Any) -> None:
    """Let the owner have typed this into one of the owner's sessions."""
    session = Session.objects.create(owner=owner, title="A talk", **more)
    Message.objects.create(session=session, position=1, role="user", content=text)


def proposed_file(owner: Any, line: str, path: str = MEMORY, **more: Any) -> Proposal:
    """Hold a write that adds a line to the end of a file."""
    file = read_file(owner, path)
    after = file.content.rstrip("\n") + f"\n{line}\n"
    return review_services.hold(
        owner,
        "file",
        **{
            "by": REFLECTOR,
            "source": "run:8",
            "before": {"content": file.content},
            "after": {"path": path, "content": after},
            "why": "it was in the report",
            "held": "it comes from pages or documents that Beacon read, and would be used outside its topic",
            "target_id": file.pk,
            "version_seen": file.version,
            **more,
        },
    )


def proposed_note(owner: Any, content: str = "Fares rise on Fridays.", **more: Any) -> Proposal:
    """Hold a new note."""
    fields = {"kind": "log", "content": content, **more}
    return review_services.hold(
        owner, "note", by=AGENT, source="session:1", before={}, after=fields, why="", held="risky"
    )
