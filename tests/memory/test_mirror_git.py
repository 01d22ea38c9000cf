"""Each change of a mirrored memory file as a git commit, where that is asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from memory.models import Activity, MemoryFile, MirrorFolder, User
from memory.models.actors import REFLECTOR
from memory.services.files import mirror
from memory.services.files.saving import append_to, save_file

pytestmark = pytest.mark.django_db(transaction=True)
USER, MONTH = "facts/user.md", "episodes/2026-02.md"
TEXT = "# User\n\n> Summary: Ann\n\n- Name: Ann\n"


@pytest.fixture
def root(settings: Any, tmp_path: Path) -> Path:
    """The mirror's folder, in which changes are committed."""
    settings.BEACON_MIRROR_DIR, settings.BEACON_MIRROR_GIT = str(tmp_path / "memory"), True
    return tmp_path / "memory"


def git(root: Path, *arguments: str) -> str:
    told = ["git", "-C", str(root), *arguments]
    return subprocess.run(told, capture_output=True, text=True, check=True).stdout


def messages(root: Path) -> list[str]:
    return git(root, "log", "--reverse", "--format=%an: %s").splitlines()


@pytest.mark.requirement("R162")
def test_each_change_is_one_commit_with_its_actor_and_reason(root: Path, alice: User, bob: User):
    save_file(alice, USER, TEXT, by=alice.actor, why="who I am")
    save_file(alice, USER, TEXT + "- Tea: green\n", by=REFLECTOR)
    mirror.catch_up()
    (root / USER).write_text(TEXT + "- Tea: white\n")
    append_to(alice, MONTH, "## Tea\n- Summary: likes tea\n", by=alice.actor)
    mirror.catch_up()
    MemoryFile.objects.for_user(alice).get(path=MONTH).trash(by=alice.actor)
    mirror.catch_up()

    mine = [one for one in messages(root) if USER in one and "bob" not in one]
    assert mine == [
        "Beacon: facts/user.md: made (system, version 1)",
        "Beacon: facts/user.md: who I am (human:alice, version 2)",
        "Beacon: facts/user.md: changed (reflector, version 3)",
        "Beacon: facts/user.md: changed (disk, version 4)",
    ]
    assert messages(root)[-1] == f"Beacon: {MONTH}: moved to Trash (human:alice, version 2)"
    assert "users/bob/facts/user.md" in git(root, "ls-files")
    assert git(root, "status", "--porcelain") == ""


def test_hooks_do_not_run_and_what_a_person_staged_stays_staged(root: Path, alice: User):
    mirror.catch_up()
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    (root / "own.txt").write_text("mine")
    git(root, "add", "own.txt")

    save_file(alice, USER, TEXT, by=alice.actor)
    mirror.catch_up()

    assert messages(root)[-1].endswith("(human:alice, version 2)")
    assert git(root, "status", "--porcelain") == "A  own.txt\n"


def test_a_missing_git_is_reported_once_and_the_commits_follow(
    root: Path, alice: User, monkeypatch: pytest.MonkeyPatch
):
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "/nowhere")
    mirror.catch_up()
    mirror.catch_up()
    warned = Activity.objects.filter(kind="mirror-git-failed")
    assert "git is not installed" in warned.get().detail["why"]
    assert (root / USER).exists()

    monkeypatch.setenv("PATH", path)
    mirror.catch_up()
    assert len(messages(root)) == 2
    assert MirrorFolder.objects.get().git_problem == ""


def test_it_is_off_unless_asked_for(root: Path, alice: User, settings: Any):
    settings.BEACON_MIRROR_GIT = False
    mirror.catch_up()

    assert (root / USER).exists()
    assert not (root / ".git").exists()
