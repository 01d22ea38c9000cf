"""The ways in which sensitive text gets into memory, each a function of owner and text."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from memory.accounts.archive import exporter
from memory.accounts.archive.importer import ImportContext, import_archive
from memory.agents.chat import conversation
from memory.models import MemoryFile, Note, Proposal, ReviewLevel, User
from memory.models.actors import Actor
from memory.services import scratchpad
from memory.services.content.items import store
from memory.services.content.snapshots import restore_snapshot, take_snapshot
from memory.services.context import identity
from memory.services.files.saving import save_file
from memory.services.notes.merging import merge
from memory.services.notes.saving import edit_note, supersede, write_note
from memory.services.observations.saving import edit_observation, write_observation
from memory.services.review import proposals as review_services
from tests.api.cast import Program

MARK: Any = {"sensitivity": "sensitive"}
AGENT = Actor("agent", "claude")
PLAIN = "The tea fares are told in the hall."


def _of_kind(kind: str) -> Callable[[User, str], None]:
    def write(owner: User, text: str) -> None:
        more = {"confidence": 0.9, "evidence": [text], "tags": [text.split()[-1]]}
        write_note(owner, kind, text, by=owner.actor, **more, **MARK)

    return write


def _marked_later(owner: User, text: str) -> None:
    edit_note(write_note(owner, "summary", text, by=AGENT), by=owner.actor, **MARK)


def _edited(owner: User, text: str) -> None:
    edit_note(write_note(owner, "log", PLAIN, by=AGENT, **MARK), by=owner.actor, content=text)


def _superseded(owner: User, text: str) -> None:
    supersede(write_note(owner, "rule", PLAIN, by=AGENT, confidence=0.9, evidence=["x"], **MARK),
              text, by=AGENT)  # fmt: skip


def _merged(owner: User, text: str) -> None:
    held = write_note(owner, "log", text, by=AGENT, **MARK)
    merge(owner, [held.pk, write_note(owner, "log", PLAIN, by=AGENT).pk], by=owner.actor)


def _old(owner: User, text: str) -> None:
    """Two notes that maintenance merges."""
    long_ago = timezone.now() - timedelta(days=9)
    for words in (text, f"{text} Again."):
        note = write_note(owner, "log", words, by=AGENT, stability="volatile", ttl_days=30, **MARK)
        Note.objects.filter(pk=note.pk).update(created=long_ago)


def _soul(owner: User, text: str) -> None:
    edit_note(identity.write_soul(owner, text, by=owner.actor), by=owner.actor, **MARK)


def _observed(owner: User, text: str) -> None:
    write_observation(owner, "finding", text, by=AGENT, **MARK)


def _observed_then_marked(owner: User, text: str) -> None:
    edit_observation(write_observation(owner, "lesson", text, by=AGENT), by=owner.actor, **MARK)


def _stored(owner: User, text: str) -> None:
    store(owner, text, by=owner.actor, title=text, **MARK)


def _restored(owner: User, text: str) -> None:
    """Stored, kept in a snapshot, marked, and brought back from the time before."""
    item = store(owner, text, by=AGENT, scope="session:tea", title=text)
    snapshot = take_snapshot(owner, "session:tea", by=AGENT)
    item.change(by=owner.actor, **MARK)
    restore_snapshot(snapshot, by=AGENT)
    restore_snapshot(snapshot, by=owner.actor, scope="owner")


def _jotted(owner: User, text: str) -> None:
    scratchpad.set_value(owner, "tea/fares", text, by=AGENT).change(by=owner.actor, **MARK)


def _filed(owner: User, text: str) -> None:
    save_file(owner, "facts/memory.md", f"# Memory\n\n- {text}\n", by=owner.actor)
    file = MemoryFile.objects.for_user(owner).get(path="facts/memory.md")
    file.change(by=owner.actor, **MARK)


def _said(owner: User, text: str) -> None:
    """Asked to be remembered in a talk, and marked before the talk is answered."""
    session = conversation.start(owner, "Tea")
    conversation.ask(session, f"Remember that {text}", by=owner.actor)
    edit_note(Note.objects.for_user(owner).latest("created"), by=owner.actor, **MARK)


def _held_and_accepted(owner: User, text: str) -> None:
    ReviewLevel.objects.create(owner=owner, level=ReviewLevel.Level.HOLD_ALL)
    answer = Program(owner, "write", name="held").post("/notes", {"content": text, **MARK})
    review_services.accept(Proposal.objects.get(pk=answer.json()["proposal"]), by=owner.actor)
    ReviewLevel.objects.filter(owner=owner).delete()


def _imported(owner: User, text: str) -> None:
    other = User.objects.create_user(f"old-{owner.username}", f"o@{owner.username}.example")
    for write in (_of_kind("log"), _observed, _stored, _jotted, _filed):
        write(other, text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "old.zip"
        exporter.write(other, path)
        import_archive(path, ImportContext(owner, owner.actor, path.name, True), only_look=False)
    other.delete()


def _sent(path: str, **body: Any) -> Callable[[User, str], None]:
    """By a program: what it sends is under `content`, or under the name that holds ''."""

    def write(owner: User, text: str) -> None:
        named = {name: text if value == "" else value for name, value in body.items()}
        answer = Program(owner, "write", name="sender").post(path, {**named, **MARK})
        assert answer.status_code == 201, answer.content

    return write


PATHS: dict[str, Callable[[User, str], None]] = {
    "a log": _of_kind("log"),
    "a rule": _of_kind("rule"),
    "a summary": _of_kind("summary"),
    "marked later": _marked_later,
    "edited": _edited,
    "superseded": _superseded,
    "merged": _merged,
    "old": _old,
    "the soul": _soul,
    "an observation": _observed,
    "an observation, marked later": _observed_then_marked,
    "content": _stored,
    "content from a snapshot": _restored,
    "the scratchpad": _jotted,
    "a file": _filed,
    "said in a talk": _said,
    "held and accepted": _held_and_accepted,
    "imported": _imported,
    "REST note": _sent("/notes", content=""),
    "REST observation": _sent("/observations", content="", category="finding"),
    "REST content": _sent("/content", content="", title=""),
}
