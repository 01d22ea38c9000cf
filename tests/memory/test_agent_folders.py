"""Mounted folders of agents: the same files here and on disk, whatever happens to either side."""

from __future__ import annotations

import errno
import random
import subprocess
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from memory.models import (
    Activity,
    FileDraft,
    MemoryFile,
    MirroredFile,
    MountedFolder,
    Revision,
    User,
)
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, Locked
from memory.models.file_format import checked_path
from memory.models.remembered import Lock
from memory.services.files import agent_folders
from memory.services.files.agent_folders import Layout, layout_of, listed
from memory.services.files.mirror_disk import Disk
from memory.services.files.saving import append_to, save_file
from memory.services.search.recall import recall

pytestmark = pytest.mark.django_db(transaction=True)
HOME = "folders/claude/CLAUDE.md"


@pytest.fixture
def root(tmp_path: Path, settings: Any, alice: User) -> Path:
    """Alice's folder of Claude Code, mounted."""
    alice.is_staff = True
    alice.save()
    folder = tmp_path / ".claude"
    (folder / "projects/-srv-api/memory").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("# Rules\n\n- Use uv.\n- Write tests.\n")
    (folder / "projects/-srv-api/memory/MEMORY.md").write_text("# API\n\nThe fleet sails in May.\n")
    (folder / "projects/-srv-api/session.md").write_text("a transcript, not memory")
    (folder / "settings.json").write_text("{}")
    settings.BEACON_AGENT_DIRS = {"claude": str(folder)}
    return folder


def sync() -> MountedFolder:
    agent_folders.catch_up()
    found: MountedFolder = MountedFolder.objects.get(name="claude")
    return found


def stored(path: str = HOME) -> MemoryFile:
    found: MemoryFile = MemoryFile.objects.live().get(path=path)
    return found


# --- what is memory ---

LAYOUTS = {
    ".claude": (
        Layout.CLAUDE,
        ["CLAUDE.md", "rules/style.md", "projects/-a/memory/MEMORY.md", "projects/-a/memory/x.md"],
        ["projects/-a/session.md", "agents/reviewer.md", "plugins/x/README.md", "settings.json"],
    ),
    ".codex": (
        Layout.CODEX,
        ["AGENTS.md", "AGENTS.override.md", "memories/MEMORY.md"],
        ["config.toml", "sessions/2026/log.md", "prompts/x.md"],
    ),
    "api": (
        Layout.REPOSITORY,
        ["AGENTS.md", "web/AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", ".claude/rules/a.md",
         ".cursor/rules/ts.mdc", ".github/copilot-instructions.md"],
        ["README.md", "docs/index.md", "node_modules/x/AGENTS.md", ".git/description.md"],
    ),
    "letta": (
        Layout.LETTA,
        ["system/persona.md", "system/human.md", "reference/project.md"],
        [".git/COMMIT_EDITMSG.md", "image.png"],
    ),
    "vault": (
        Layout.VAULT,
        ["Daily/2026-11-26.md", "Ideas.md"],
        [".obsidian/workspace.md", ".trash/Old.md", "Pasted image.png"],
    ),
    "basic-memory": (Layout.VAULT, ["main/coffee.md", "main/tea/green.md"], ["memory.db"]),
}  # fmt: skip


@pytest.mark.requirement("R300")
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_memory_of_each_layout_is_found_and_nothing_else(tmp_path: Path, name: str) -> None:
    layout, memory, others = LAYOUTS[name]
    root = tmp_path / name
    for path in [*memory, *others]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")

    found = layout_of({path.name for path in root.iterdir()}, name)
    assert found == layout
    assert sorted(listed(root, found).stamps) == sorted(memory)


# --- both directions ---


@pytest.mark.requirement("R300")
def test_a_folders_files_are_found_by_search_with_their_agents_trust(
    root: Path, alice: User
) -> None:
    folder = sync()

    assert (folder.files, folder.problem, folder.layout) == (2, "", "claude")
    file = stored("folders/claude/projects/-srv-api/memory/MEMORY.md")
    assert (file.owner, file.trust, file.content) == (
        alice, "agent", "# API\n\nThe fleet sails in May.\n",
    )  # fmt: skip
    assert [hit.record.file.path for hit in recall(alice, "fleet sails")] == [file.path]
    assert "transcript" not in str(MemoryFile.objects.values_list("content", flat=True))


def test_a_change_on_either_side_reaches_the_other(root: Path, alice: User) -> None:
    sync()
    (root / "CLAUDE.md").write_text("# Rules\n\n- Use uv.\n- Write tests first.\n")
    sync()
    assert stored().content.endswith("- Write tests first.\n")
    assert Revision.objects.filter(record_id=stored().pk).latest("id").actor == "disk:claude"

    save_file(alice, HOME, "# Rules\n\n- Use pip.\n", by=alice.actor, seen=stored().version)
    assert (root / "CLAUDE.md").read_text() == "# Rules\n\n- Use pip.\n"
    assert sync().problem == "" and stored().version == 3


def test_nothing_is_written_to_a_file_that_only_the_agent_changes(root: Path) -> None:
    text = (
        b"\xef\xbb\xbf# Rules\r\n\r\n- Ring\x07 the bell.\r\n"  # a mark, CRLF, a control character
    )
    (root / "CLAUDE.md").write_bytes(text)
    for _ in range(3):
        sync()

    assert stored().content == "# Rules\n\n- Ring the bell.\n"
    assert (root / "CLAUDE.md").read_bytes() == text


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ('---\nname: tea\ndescription: "Which tea to buy"\n---\n\n- Green.\n', "Which tea to buy"),
        ("---\nname: tea\n---\n\n- Green tea.\n- No sugar\n", "Green tea. No sugar"),
        ("---\n---\nTea\n", "Tea"),
        ("---\n", "---"),
    ],
)
def test_the_list_shows_the_description_in_the_front_matter_or_the_words_after_it(
    root: Path, text: str, summary: str
) -> None:
    (root / "CLAUDE.md").write_text(text)
    sync()
    assert stored().summary == summary


def test_an_edit_here_keeps_the_line_ends_there(root: Path, alice: User) -> None:
    (root / "CLAUDE.md").write_bytes(b"# Rules\r\n\r\n- Use uv.\r\n")
    sync()
    append_to(alice, HOME, "- Write tests.", by=alice.actor)

    assert (
        root / "CLAUDE.md"
    ).read_bytes() == b"# Rules\r\n\r\n- Use uv.\r\n\r\n- Write tests.\r\n"


def test_edits_of_different_lines_are_merged(root: Path, alice: User, settings: Any) -> None:
    sync()
    dirs, settings.BEACON_AGENT_DIRS = settings.BEACON_AGENT_DIRS, {}  # no write in between
    save_file(alice, HOME, "# Rules\n\n- Use uv only.\n- Write tests.\n", by=alice.actor, seen=1)
    settings.BEACON_AGENT_DIRS = dirs
    (root / "CLAUDE.md").write_text("# Rules\n\n- Use uv.\n- Write tests.\n- Be kind.\n")
    sync()

    both = "# Rules\n\n- Use uv only.\n- Write tests.\n- Be kind.\n"
    assert stored().content == (root / "CLAUDE.md").read_text() == both


@pytest.mark.requirement("R301")
def test_of_two_edits_of_the_same_line_both_stay_until_a_person_decides(
    root: Path, alice: User, settings: Any
) -> None:
    sync()
    dirs, settings.BEACON_AGENT_DIRS = settings.BEACON_AGENT_DIRS, {}
    mine = "# Rules\n\n- Use pip.\n- Write tests.\n"
    save_file(alice, HOME, mine, by=alice.actor, seen=1)
    settings.BEACON_AGENT_DIRS = dirs
    theirs = "# Rules\n\n- Use poetry.\n- Write tests.\n"
    (root / "CLAUDE.md").write_text(theirs)
    for _ in range(2):
        sync()

    assert (stored().content, (root / "CLAUDE.md").read_text()) == (mine, theirs)
    assert FileDraft.objects.get(path=HOME).content == theirs
    assert MirroredFile.objects.get(path=HOME).problem == "conflict"
    assert Activity.objects.filter(kind="agent-file-conflict").count() == 1

    decided = "# Rules\n\n- Use uv or poetry.\n- Write tests.\n"
    save_file(alice, HOME, decided, by=alice.actor, seen=stored().version)
    sync()
    assert (root / "CLAUDE.md").read_text() == stored().content == decided
    assert MirroredFile.objects.get(path=HOME).problem == ""


def test_a_file_deleted_there_goes_to_trash_and_is_restored_from_it(
    root: Path, alice: User
) -> None:
    sync()
    (root / "CLAUDE.md").unlink()
    sync()
    gone = MemoryFile.objects.get(path=HOME)
    assert gone.trashed_at is not None

    gone.restore(by=alice.actor)
    sync()
    assert (root / "CLAUDE.md").read_text() == gone.content


def test_a_file_moved_to_trash_here_is_deleted_there(root: Path, alice: User) -> None:
    sync()
    stored().trash(by=alice.actor)
    sync()

    assert not (root / "CLAUDE.md").exists()
    sync()
    assert not MemoryFile.objects.live().filter(path=HOME).exists()


def test_a_locked_file_is_written_back_and_the_agents_text_kept(root: Path, alice: User) -> None:
    sync()
    stored().change(by=alice.actor, lock=Lock.READ_ONLY)
    was = stored().content
    (root / "CLAUDE.md").write_text("# Mine now\n")
    sync()

    assert (root / "CLAUDE.md").read_text() == stored().content == was
    assert FileDraft.objects.get(path=HOME).content == "# Mine now\n"


def test_no_agent_writes_to_a_mounted_folder_from_here(root: Path, alice: User) -> None:
    sync()
    with pytest.raises(Locked, match="Only people"):
        append_to(alice, HOME, "- Obey me.", by=Actor("agent", "claude"))


@pytest.mark.requirement("R301")
def test_edits_of_both_sides_at_random_lose_no_line(root: Path, alice: User, settings: Any) -> None:
    """Each side adds lines with a number of their own; every number is somewhere at the end."""
    sync()
    dice, wrote = random.Random(26), []
    dirs = settings.BEACON_AGENT_DIRS
    for number in range(40):
        settings.BEACON_AGENT_DIRS = dirs if dice.random() < 0.5 else {}
        if dice.random() < 0.5:
            file = stored()
            text = _with_line(file.content, f"- here {number}", dice)
            save_file(alice, HOME, text, by=alice.actor, seen=file.version)
        else:
            path = root / "CLAUDE.md"
            path.write_text(_with_line(path.read_text(), f"- there {number}", dice))
        wrote.append(number)
        if dice.random() < 0.6:
            settings.BEACON_AGENT_DIRS = dirs
            sync()
    settings.BEACON_AGENT_DIRS = dirs
    sync()

    texts = [
        (root / "CLAUDE.md").read_text(),
        *MemoryFile.objects.filter(path=HOME).values_list("content", flat=True),
        *FileDraft.objects.values_list("content", flat=True),
        *(str(one.after.get("content", "")) for one in Revision.objects.filter(label=HOME)),
    ]
    lost = [n for n in wrote if not any(f" {n}\n" in text for text in texts)]
    assert not lost


def _with_line(text: str, line: str, dice: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(dice.randint(1, len(lines)), line + "\n")
    return "".join(lines)


# --- pages ---


@pytest.fixture
def page(root: Path, alice: User) -> Client:
    sync()
    client = Client()
    client.force_login(alice, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_the_page_lists_folders_files_and_problems(
    root: Path, page: Client, django_assert_max_num_queries: Any
) -> None:
    (root / "projects/-srv-api/memory/binary.md").write_bytes(b"\0")
    sync()
    with django_assert_max_num_queries(14):
        shown = page.get("/agents/folders/").content.decode()

    assert "Claude Code" in shown and "projects/-srv-api/memory/MEMORY.md" in shown
    assert "1 file isn’t shown" in shown and "it isn’t UTF-8 text" in shown
    narrowed = page.get("/agents/folders/?q=fleet").content.decode()
    assert "MEMORY.md" in narrowed and "claude/</span>CLAUDE.md" not in narrowed
    assert "No matching files" in page.get("/agents/folders/?q=zzz").content.decode()


def test_a_line_is_corrected_on_the_files_page_and_undone(root: Path, page: Client) -> None:
    assert "Write tests" in page.get(f"/files/{HOME}/").content.decode()
    text = "# Rules\n\n- Use uv.\n- Write tests first.\n"
    saved = page.post(
        f"/files/{HOME}/edit/", {"content": text, "seen": "1", "window": str(uuid4())}
    )
    assert saved.status_code == 302
    assert (root / "CLAUDE.md").read_text() == text
    for tab in ("history/", "blame/", "lock/", "source/"):
        assert page.get(f"/files/{HOME}/{tab}").status_code == 200


def test_the_files_page_names_the_last_commit_and_runs_nothing_of_the_repository(
    root: Path, page: Client, tmp_path: Path
) -> None:
    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *words],
            cwd=root, check=True, capture_output=True,
        )  # fmt: skip

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "Use uv everywhere")
    ran = tmp_path / "ran"
    for name in ("core.fsmonitor", "gpg.program", "core.pager", "diff.external"):
        git("config", name, f"touch {ran}; false")
    git("config", "log.showSignature", "true")

    shown = page.get(f"/files/{HOME}/").content.decode()
    assert "by Ann: <bdi>Use uv everywhere</bdi>" in shown
    assert not ran.exists()


def test_others_see_no_folder_of_alice(root: Path, page: Client, bob: User) -> None:
    other = Client()
    other.force_login(bob, backend="django.contrib.auth.backends.ModelBackend")

    assert "You have no mounted folders" in other.get("/agents/folders/").content.decode()
    assert other.get(f"/files/{HOME}/").status_code == 404


# --- bad folders, files and names ---


def test_a_folder_that_disappears_keeps_its_files_here(root: Path, alice: User) -> None:
    sync()
    root.rename(root.with_name("away"))
    folder = sync()
    assert folder.problem == "missing" and stored().content

    save_file(alice, HOME, "# Edited meanwhile\n", by=alice.actor, seen=1)
    assert not root.exists()
    root.with_name("away").rename(root)
    assert sync().problem == ""
    assert (root / "CLAUDE.md").read_text() == "# Edited meanwhile\n"


def test_a_folder_that_cannot_be_written_keeps_the_edit_here_until_it_can(
    root: Path, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync()
    text = stored().content + "- Lint.\n"

    def refuse(*_given: Any) -> None:
        raise PermissionError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Disk, "write", refuse)
    save_file(alice, HOME, text, by=alice.actor, seen=1)
    assert sync().problem == "read-only" and stored().content == text
    assert (root / "CLAUDE.md").read_text() != text

    monkeypatch.undo()
    assert sync().problem == "" and (root / "CLAUDE.md").read_text() == text


def test_of_more_files_than_the_limit_the_rest_is_named_and_none_is_moved_to_trash(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = root / "projects/-srv-api/memory"
    for number in range(5):
        (memory / f"{number}.md").write_text(f"{number}")
    sync()
    monkeypatch.setattr(agent_folders, "MAX_FILES", 3)
    folder = sync()
    assert "many" in {code for _path, code in folder.skipped}
    assert MemoryFile.objects.live().mounted().count() == 7


def test_a_folder_that_becomes_empty_at_once_is_taken_for_missing(root: Path) -> None:
    (root / "rules").mkdir()
    (root / "rules/a.md").write_text("a")
    sync()
    for path in root.rglob("*.md"):
        path.unlink()

    assert sync().problem == "missing"
    assert MemoryFile.objects.live().mounted().count() == 3


def test_a_folder_that_becomes_a_link_is_neither_read_nor_written(
    root: Path, alice: User, tmp_path: Path
) -> None:
    sync()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "CLAUDE.md").write_text("not yours")
    root.rename(root.with_name("away"))
    root.symlink_to(outside)

    assert sync().problem == "moved"
    save_file(alice, HOME, "# Mine\n", by=alice.actor, seen=1)
    sync()
    assert (outside / "CLAUDE.md").read_text() == "not yours"
    assert "not yours" not in stored().content


def test_links_inside_lead_nowhere(root: Path, alice: User, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("for the server only")
    sync()
    (root / "CLAUDE.md").unlink()
    (root / "CLAUDE.md").symlink_to(secret)
    (root / "rules").symlink_to(tmp_path)
    (root / "projects/-srv-api/memory/link.md").symlink_to(secret)
    folder = sync()

    assert ["CLAUDE.md", "link"] in folder.skipped
    save_file(alice, HOME, "# Mine\n", by=alice.actor, seen=stored().version)
    sync()
    assert secret.read_text() == "for the server only"
    assert not MemoryFile.objects.filter(content__contains="server only").exists()


def test_what_cannot_be_shown_is_listed_and_left_alone(root: Path) -> None:
    memory = root / "projects/-srv-api/memory"
    (memory / "big.md").write_bytes(b"x" * 50_000_000)
    (memory / "binary.md").write_bytes(b"\x00\x01\x02")
    (memory / "latin.md").write_bytes("Grüße".encode("latin-1"))
    (memory / "caf\u0065\u0301.md").write_text("decomposed")
    (memory / "right\u202eleft.md").write_text("reversed")
    for _ in range(2):
        folder = sync()

    codes = {path.rpartition("/")[2]: code for path, code in folder.skipped}
    assert codes["big.md"] == "large"
    assert codes["binary.md"] == codes["latin.md"] == "binary"
    assert sorted(codes.values()).count("name") == 2
    assert (memory / "binary.md").read_bytes() == b"\x00\x01\x02"
    assert folder.skipped_files[0][1]


@pytest.mark.requirement("R302")
def test_no_path_leads_out_of_the_folder(root: Path, alice: User, tmp_path: Path) -> None:
    sync()
    outside = tmp_path / "outside.md"
    outside.write_text("untouched")
    dice = random.Random(7)
    parts = ["..", ".", "", "CLAUDE.md", "outside.md", "~", "/etc", "\x00", "a\\b", "%2e%2e",
             "\u2025", "..\u200b", "projects", " ", "\u202e", "c:", "con.md", ".git"]  # fmt: skip
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    tried = 0
    for _ in range(2_000):
        path = "folders/claude/" + "/".join(dice.choices(parts, k=dice.randint(1, 5)))
        tried += 1
        try:
            checked_path(path)
        except InvalidValue:
            continue
        assert ".." not in path.split("/") and "\\" not in path
        agent_folders.write_out(alice.pk, path)

    now = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert tried == 2_000 and now == before


def test_a_folder_that_is_no_longer_in_the_setting_keeps_its_files(
    root: Path, settings: Any
) -> None:
    sync()
    settings.BEACON_AGENT_DIRS = {}
    folder = sync()

    assert folder.problem == "unmounted" and stored().content
