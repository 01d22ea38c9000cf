"""Saving memory files: what is stored, what is mended, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from memory.actors import Actor
from memory.files.reading import files_of, read_file
from memory.files.saving import save_file
from memory.models import MemoryFile, User

USER, MEMORY, MONTH = "facts/user.md", "facts/memory.md", "episodes/2026-02.md"
AGENT = Actor("agent", "claude")
SEED = """# User

> Summary: 建军, Chinese, wife birthday Mar 15, standup with 老王 Wed

- Name: 建军 (Jianjun)
- Wife's birthday: March 15 (annual reminder)
- Updated: 2026-02-28
"""
TOKYO = """## Tokyo flight research
- Summary: Spring Airlines cheapest for Apr Tokyo trip
- Date: 2026-02-26
- Task: User asked to compare flights to Tokyo in April
- Findings: Spring Airlines ¥1200, ANA ¥2800
"""


def text_of(owner: User, path: str) -> str:
    return str(MemoryFile.objects.of(owner).live().get(path=path).content)


def save(owner: User, path: str, content: str, **more: Any) -> MemoryFile:
    return save_file(owner, path, content, by=more.pop("by", owner.actor), **more).file


@pytest.mark.requirement("R146")
def test_an_account_begins_with_both_fact_files_in_the_seeds_format(alice: User):
    file = read_file(alice, USER)

    assert [one.path for one in files_of(alice)] == [USER, MEMORY]
    assert file.version == 1
    assert file.content.startswith("# User\n\n> Summary: nothing yet\n\n- Updated: 20")


@pytest.mark.requirement("R152")
def test_a_write_replaces_the_whole_file_and_keeps_every_byte(alice: User):
    file = save(alice, USER, SEED)

    assert text_of(alice, USER) == SEED
    assert (file.version, file.size, file.blame) == (
        2,
        len(SEED.encode()),
        [[2, 1], [1, 2], [1, 1], [3, 2]],
    )
