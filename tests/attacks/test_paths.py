"""Paths that climb, hide or look like a memory file: only the three kinds of files can be opened.

Doors: the tools of an agent, REST, the pages, and the folder on disk to which files are mirrored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from memory.agents.tools.registry import call_tool
from memory.agents.tools.types import ToolContext
from memory.models import MemoryFile, User, file_format
from memory.models.errors import InvalidValue
from memory.services.files import mirror
from memory.services.files.saving import save_file
from memory.services.review.proposals import set_levels
from tests.api.cast import Program
from tests.attacks.figures import Count
from tests.memory.review_cast import AGENT

pytestmark = pytest.mark.django_db
USER = "facts/user.md"
SECRET = "Opened-by-a-path"
CLIMBS = (
    "../secret.md", "../../secret.md", "facts/../secret.md", "facts/../../secret.md",
    "episodes/../../secret.md", "facts/./user.md", "facts//user.md", "/facts/user.md",
    "./facts/user.md", "facts/user.md/", "facts/user.md/..", "facts/user.md/../../secret.md",
    "~/secret.md", "$HOME/secret.md", "%2e%2e/secret.md", "..%2fsecret.md", "%252e%252e%252fsecret.md",
    "..\\secret.md", "facts\\user.md", "facts\\..\\..\\secret.md", "C:\\secret.md", "\\\\host\\share\\x.md",
    "file:///secret.md", "http://127.0.0.1/secret.md", "....//secret.md", "..;/secret.md",
    "/etc/passwd", "/proc/self/environ", "/dev/zero", "//etc/passwd", "..", ".", "/", "",
)  # fmt: skip
SPELLINGS = (
    "facts/user.md\0.txt", "facts/user\0.md", "facts/user.md\n", "\nfacts/user.md", "facts/user.md ",
    " facts/user.md", "facts/user.md\t", "facts/user.md.", "facts/user.md::$DATA", "facts/user.md~",
    "FACTS/USER.MD", "Facts/User.md", "facts/user.MD", "facts/usеr.md", "facts/ｕser.md",
    "facts∕user.md", "facts／user.md", "facts/u\u200bser.md", "facts/\u202euser.md", "facts/user.ｍd",
    "facts/user．md", "facts/user.md\u2028", "facts/user.md\r\nX: y", "facts/.user.md", "facts/user",
    "facts/user.md.conflict", "facts/agent.md", "facts/memory.md.bak", "facts/con.md", "facts/*.md",
    "user.md", "facts", "episodes", "facts/", "episodes/", ".beacon", ".git/config", "users/bob/facts/user.md",
    "episodes/2026-13.md", "episodes/2026-00.md", "episodes/0999-01.md", "episodes/2026-1.md",
    "episodes/2026-011.md", "episodes/20260-1.md", "episodes/٢٠٢٦-٠٢.md", "episodes/2026-02.md.md",
    "episodes/2026-02.txt", "episodes/2026/02.md", "episodes/2026-02.md/../2026-03.md",
    "episodes/-2026-02.md", "episodes/2026-02.md#x", "episodes/2026-02.md?x=1", "x" * 5_000, "a/" * 2_000,
)  # fmt: skip
ALL = (*CLIMBS, *SPELLINGS)


@pytest.fixture
def root(settings: Any, tmp_path: Path, alice: User) -> Path:
    """The mirror's folder, next to a file that no path may reach."""
    settings.BEACON_MIRROR_DIR = str(tmp_path / "memory")
    set_levels(alice, {"default": "accept"}, by=alice.actor)
    (tmp_path / "secret.md").write_text(f"# {SECRET}\n", encoding="utf-8")
    save_file(alice, USER, "# User\n\n- Name: Alice\n", by=alice.actor)
    mirror.catch_up()
    return tmp_path


def everything(root: Path, owner: User) -> list[Any]:
    """All files on disk with their bytes, and all stored ones."""
    disk = [
        (str(one.relative_to(root)), one.read_bytes() if one.is_file() else b"")
        for one in sorted(root.rglob("*"))
        if ".git" not in one.parts
    ]
    return [disk, sorted(MemoryFile.objects.for_user(owner).values_list("path", "content"))]


def called(owner: User, path: str) -> Iterator[Any]:
    """Call every tool that takes a path with it."""
    told = {
        "memory_read": {},
        "memory_write": {"content": f"# X\n\n- {SECRET}\n"},
        "memory_patch": {"patches": [{"old_text": "Alice", "new_text": SECRET}]},
        "memory_append": {"entry": f"- {SECRET}", "summary": "x"},
    }
    for name, more in told.items():
        context = ToolContext(owner, AGENT, "agent:desk")
        yield call_tool(context, name, {"path": path, **more})


def test_no_tool_reads_or_writes_another_file(root: Path, alice: User, count: Count) -> None:
    before = everything(root, alice)
    answers = [(path, answer) for path in ALL for answer in called(alice, path)]
    mirror.catch_up()

    through = [path for path, answer in answers if not answer.is_error or SECRET in answer.text]
    count(
        "paths: an agent's tools",
        len(answers),
        refused=len(answers) - len(through),
        run=len(through),
    )
    assert through == []
    assert everything(root, alice) == before


# Every fifth path in the quick run; another of them each time a door is tried.
SOME = [pytest.param(5, id="some"), pytest.param(1, marks=pytest.mark.long, id="all")]


@pytest.mark.parametrize("every", SOME)
def test_no_call_of_the_api_reaches_another_file(
    root: Path, alice: User, count: Count, every: int
) -> None:
    program = Program(alice, "read", "write")
    before = everything(root, alice)
    asked = run = 0
    for number, (method, body) in enumerate((("GET", None), ("PUT", {"content": SECRET}))):
        for path in ALL[number::every]:
            for sent in (quote(path), quote(path, safe=""), quote(quote(path, safe=""), safe="")):
                answer = program.send(method, f"/files/{sent}", body, If_Match="*")
                asked += 1
                run += answer.status_code >= 500 or SECRET in answer.content.decode()
    mirror.catch_up()

    count("paths: REST", asked, refused=asked - run, run=run)
    assert run == 0
    assert everything(root, alice) == before


@pytest.mark.parametrize("every", SOME)
def test_no_page_shows_another_file(
    root: Path, alice: User, client_of: Any, count: Count, every: int
) -> None:
    client: Client = client_of(alice)
    answers = [
        client.get(f"/files/{quote(path, safe=safe)}/{page}", follow=True)
        for number, page in enumerate(("", "source/", "edit/", "history/", "blame/"))
        for path in ALL[number % every :: every]
        for safe in ("/", "")
    ]

    run = sum(one.status_code >= 500 or SECRET in one.content.decode() for one in answers)
    refused = sum(one.status_code in (400, 404) for one in answers)
    count("paths: pages", len(answers), refused=refused, run=run)
    assert run == 0
    assert refused > len(answers) * 0.9


def links(root: Path) -> dict[str, Path]:
    """Create links out of the mirror's folder, in each way that a file system has."""
    folder, secret = root / "memory", root / "secret.md"
    made = {
        "a link in a file's place": folder / "facts/memory.md",
        "a link as a month": folder / "episodes/2026-02.md",
        "a link to a folder": folder / "episodes/2026-03.md",
        "a hard link as a month": folder / "episodes/2026-04.md",
        "a pipe": folder / "episodes/2026-05.md",
        "a folder": folder / "episodes/2026-06.md",
        "a link that leads to itself": folder / "episodes/2026-07.md",
    }
    (folder / "episodes").mkdir(exist_ok=True)
    for one in made.values():
        one.unlink(missing_ok=True)
    made["a link in a file's place"].symlink_to(secret)
    made["a link as a month"].symlink_to("../../secret.md")
    made["a link to a folder"].symlink_to(root)
    os.mkfifo(made["a pipe"])
    made["a folder"].mkdir()
    made["a link that leads to itself"].symlink_to("2026-07.md")
    made.pop("a hard link as a month")  # is a file like any other: who can make it can read it
    return made


@pytest.mark.django_db(transaction=True)
def test_nothing_on_disk_leads_out_of_the_mirrors_folder(
    root: Path, alice: User, count: Count
) -> None:
    made = links(root)
    mirror.catch_up()
    for path in ("facts/memory.md", *(f"episodes/2026-0{n}.md" for n in range(2, 8))):
        if file_format.checked_path(path):
            save_file(alice, path, "# Words\n\n> Summary: x\n", by=alice.actor)
    mirror.catch_up()

    stored = MemoryFile.objects.for_user(alice).values_list("content", flat=True)
    run = sum(SECRET in content for content in stored)
    count("paths: links in the mirror", len(made), run=run)
    assert run == 0
    assert (root / "secret.md").read_text(encoding="utf-8") == f"# {SECRET}\n"


def test_with_the_guard_off_another_name_is_written(
    root: Path, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: it is the closed set that refuses, not that nothing can be written."""
    with pytest.raises(InvalidValue):
        save_file(alice, "facts/agent.md", SECRET, by=alice.actor)

    monkeypatch.setattr(file_format, "FACTS", (*file_format.FACTS, "facts/agent.md"))
    save_file(alice, "facts/agent.md", SECRET, by=alice.actor)

    assert MemoryFile.objects.for_user(alice).filter(path="facts/agent.md").exists()
