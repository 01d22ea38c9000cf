"""However files are written (by tool, by hand, on disk, by import): what holds of them holds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memory.accounts.archive.files import save_all_or_none
from memory.models import MemoryFile, MirroredFile, Revision, Section, User
from memory.models.actors import REFLECTOR, Actor
from memory.models.errors import MemoryRefused
from memory.models.file_format import FACTS, checked_path, is_fact, line_count, summary_of
from memory.services.files import mirror, mirror_disk, texts
from memory.services.files.mirror_disk import DiskFile, digest_of
from memory.services.files.saving import (
    Act,
    append_to,
    patching,
    restore_version,
    save_file,
    write,
)
from memory.services.files.texts import lines_blamed

MONTH = "episodes/2026-02.md"
PATHS = st.sampled_from([*FACTS, *FACTS, MONTH, "episodes/2026-13.md", "facts/x.md", "../user.md"])
SMALL = st.sampled_from(
    ["# T\n", "## E\n- Summary: s\n- Date: 2026-02-03\n", "> Summary: mine\n", "> Summary:\n",
     "- a\n", "- Updated: 2026-01-01\n", "\n", "```\n", "~~~\n", "#\n", "\ufeff", "\0", "\r\n", "\r",
     "\u2028", "\ud800", " ", "終"]
)  # fmt: skip
# Near the limits: 7,600 bytes in lines, 8,192 and one more in one, four bytes a character.
LARGE = st.sampled_from(
    [("x" * 99 + "\n") * 76, "é" * 4_096 + "\n", "y" * 8_193, ("𝕏" * 900 + "\n") * 2]
)
PIECES = SMALL | LARGE
TEXTS = st.lists(SMALL | SMALL | LARGE, max_size=7).map("".join) | st.text(max_size=40)
# As an editor may leave them: also what is no UTF-8.
BYTES = TEXTS.map(lambda text: text.encode(errors="surrogatepass")) | st.just(b"\xff\xfe- a\n")
ACTORS = st.sampled_from(["human", "agent", "reflector", "disk"])


def actor(owner: User, kind: str) -> Actor:
    return {"human": owner.actor, "reflector": REFLECTOR}.get(kind, Actor(kind, "x"))


class Files(RuleBasedStateMachine):
    """One owner's files, with their copies on disk, under any order of writes."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(mkdtemp(prefix="beacon-property-"))
        self.mirrored = override_settings(BEACON_MIRROR_DIR=str(self.root))
        self.mirrored.enable()

    def teardown(self) -> None:
        self.mirrored.disable()
        shutil.rmtree(self.root)

    @initialize()
    def begin(self) -> None:
        self.owner: User = User.objects.create_user(f"u{User.objects.count()}")

    def _try(self, act: Any, *given: Any, **named: Any) -> None:
        before = dict(MemoryFile.objects.for_user(self.owner).values_list("path", "content"))
        try:
            act(self.owner, *given, **named)
        except MemoryRefused as refused:
            assert str(refused)
            after = MemoryFile.objects.for_user(self.owner).values_list("path", "content")
            assert dict(after) == before

    @rule(path=PATHS, text=TEXTS, kind=ACTORS, seen=st.sampled_from([None, 0, 1, 2]))
    def write(self, path: str, text: str, kind: str, seen: int | None) -> None:
        self._try(save_file, path, text, by=actor(self.owner, kind), seen=seen)

    @rule(path=PATHS, text=TEXTS, kind=ACTORS, summary=st.none() | TEXTS)
    def append(self, path: str, text: str, kind: str, summary: str | None) -> None:
        self._try(append_to, path, text, by=actor(self.owner, kind), summary=summary)

    @rule(path=PATHS, old=PIECES, new=TEXTS, kind=ACTORS)
    def patch(self, path: str, old: str, new: str, kind: str) -> None:
        self._try(write, path, patching([(old, new)]), Act(actor(self.owner, kind)))

    @rule(path=st.sampled_from(FACTS), over=st.integers(-2, 2), kind=ACTORS)
    def fill(self, path: str, over: int, kind: str) -> None:
        """Fill the budget to the byte: what is over it is refused, what is not is taken."""
        files = MemoryFile.objects.for_user(self.owner).facts().exclude(path=path)
        room = texts.MAX_FACTS - sum(files.values_list("size", flat=True)) + over
        version = MemoryFile.objects.for_user(self.owner).get(path=path).version
        text = f"> Summary: v{version} 𝕏\n"
        text += "".join("z" * 99 + "\n" for _line in range((room - len(text.encode())) // 100))
        text += "z" * (room - len(text.encode()))
        if over > 0:
            with pytest.raises(texts.OverBudget):
                save_file(self.owner, path, text, by=actor(self.owner, kind))
        elif room > 40:
            save_file(self.owner, path, text, by=actor(self.owner, kind))

    @rule(path=st.sampled_from(FACTS), version=st.integers(1, 5))
    def restore(self, path: str, version: int) -> None:
        self._try(restore_version, path, version, by=self.owner.actor)

    @rule(path=st.sampled_from([*FACTS, MONTH]), edit=BYTES, adds=st.booleans(), late=st.booleans())
    def edit_on_disk(self, path: str, edit: bytes, adds: bool, late: bool) -> None:
        """Edit the copy, with others' writes on disk before or not; none of the edit is lost."""
        if not late:
            mirror.catch_up()
        folder = mirror_disk.mirror_folder()
        assert folder is not None
        disk = mirror_disk.disk_of(folder, self.owner)
        place = disk.root.joinpath(*disk.parts, path)
        place.parent.mkdir(parents=True, exist_ok=True)
        edited = (place.read_bytes() if adds and place.exists() else b"") + edit
        place.write_bytes(edited)
        os.utime(place, (1, 1))  # its writer has finished
        mirror.import_edits(self.owner)
        mirror.write_out(self.owner.pk, path)
        file = MemoryFile.objects.for_user(self.owner).filter(path=path).first()
        assert (place.read_bytes() if place.exists() else None) == (
            file.content.encode() if file else None
        )
        copies = [one.read_bytes() for one in place.parent.glob(f"{place.name}.conflict*")]
        if MirroredFile.objects.get(owner=self.owner, path=path).refused == digest_of(edited):
            assert edited in copies

    @rule(files=st.dictionaries(PATHS, BYTES, min_size=1, max_size=3), only_look=st.booleans())
    def carry(self, files: dict[str, bytes], only_look: bool) -> None:
        """Take files in, all or none."""
        before = dict(MemoryFile.objects.for_user(self.owner).values_list("path", "content"))
        found = {path: DiskFile("zip", content) for path, content in files.items()}
        done = save_all_or_none(
            self.owner, found, by=self.owner.actor, why="in", only_look=only_look
        )
        after = dict(MemoryFile.objects.for_user(self.owner).values_list("path", "content"))
        if only_look or any(one.problem for one in done):
            assert after == before
        else:
            assert all(after[one.path] == one.after for one in done)

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "owner"):
            return
        files = list(MemoryFile.objects.for_user(self.owner))
        assert {file.path for file in files} >= set(FACTS)
        assert sum(file.size for file in files if is_fact(file.path)) <= texts.MAX_FACTS
        for file in files:
            assert checked_path(file.path) == file.path
            assert file.size == len(file.content.encode()) <= texts.MAX_EPISODES
            assert all(len(line.encode()) <= texts.MAX_LINE for line in file.content.split("\n"))
            assert file.summary and summary_of(file.content) == file.summary
            assert not {"\0", "\r"} & set(file.content)
            assert sum(lines for lines, _version in file.blame) == line_count(file.content)
            assert max(one.version for one in lines_blamed(file)) <= file.version
            last = Revision.objects.filter(record_id=file.pk).latest("version")
            assert (last.version, last.after["content"]) == (file.version, file.content)
            kept = "".join(Section.objects.filter(file=file).values_list("content", flat=True))
            assert set(kept) <= set(file.content)


@pytest.mark.requirement("R139", "R143", "R149")
@pytest.mark.slow
@pytest.mark.timeout(300)
class TestFiles(TestCase, Files.TestCase):  # type: ignore[misc, name-defined]
    """Carries the machine out, each example in a transaction that is rolled back."""

    settings = settings(
        max_examples=25,
        stateful_step_count=16,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
