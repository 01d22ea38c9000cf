"""The lock files: hashed, and free of any registry's address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).parents[2] / "requirements"
LOCKS = sorted(REQUIREMENTS.glob("*.txt"))


def pinned(lock: Path) -> dict[str, str]:
    """Return name -> version of the packages in a lock file."""
    return dict(re.findall(r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==([^\s;]+)", lock.read_text(), re.M))


def test_there_is_a_lock_for_what_make_up_and_make_test_install():
    assert {"base.txt", "embeddings.txt", "dev.txt"} <= {lock.name for lock in LOCKS}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_names_no_address(lock: Path):
    assert "://" not in lock.read_text()
    assert "--index-url" not in lock.read_text()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_of_a_lock_is_pinned_with_a_hash(lock: Path):
    entries = re.split(r"\n(?=\S)", re.sub(r"^\s*#.*\n", "", lock.read_text(), flags=re.M).strip())

    assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_what_was_requested_is_locked(lock: Path):
    wanted = re.findall(r"^([A-Za-z0-9._-]+)", lock.with_suffix(".in").read_text(), re.M)
    names = {name.lower().replace("_", "-") for name in wanted if not name.startswith("-")}

    assert names - pinned(lock).keys() == set()


@pytest.mark.parametrize("later", ["embeddings", "dev"])
def test_what_is_installed_later_agrees_with_what_is_there(later: str):
    base, more = pinned(REQUIREMENTS / "base.txt"), pinned(REQUIREMENTS / f"{later}.txt")
    vectors = pinned(REQUIREMENTS / "embeddings.txt")

    assert {n: v for n, v in more.items() if base.get(n, v) != v or vectors.get(n, v) != v} == {}
