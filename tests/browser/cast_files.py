"""Memory files for the checked pages: facts, three months, a draft, a file that two changed."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from memory.models.actors import REFLECTOR
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, keep_draft, save_file

USER = "facts/user.md"
TEXT = """# User

> Summary: Jianjun, prefers Chinese, stand-up with Lao Wang on Tuesday

- Name: 建军 (Jianjun)
- Language: prefers Chinese conversation
- Colleague: 老王, weekly stand-up Tue 10:00

## Work

- Wants options before a decision
"""
ENTRY = """## Tokyo flights, {month}
- Summary: Spring is cheapest, book early
- Date: {month}-26
- Task: compare flights from Jinan to Tokyo for four people
- Findings: March 61,000 yen, April 84,000 yen; **two airlines** fly direct
- Lesson: fares shown on portals lag by a day"""
MONTHS = ("2026-01", "2026-02", "2026-03")


def files(owner: Any) -> dict[str, str]:
    """Write them; `file changed` is the page of one whose version 2 others have changed since."""
    save_file(owner, USER, TEXT, by=owner.actor, why="set out")
    save_file(owner, USER, TEXT.replace("Tue 10", "Fri 9"), by=REFLECTOR, why="heard in a meeting")
    for month in MONTHS:
        path = f"episodes/{month}.md"
        append_to(owner, path, ENTRY.format(month=month), by=REFLECTOR, why="worth keeping")
    file = read_file(owner, "episodes/2026-02.md")
    keep_draft(
        owner, file.path, f"{file.content}\n## Begun and not saved\n",
        note="a second entry", seen=file.version, window=uuid4(),
    )  # fmt: skip
    return {
        "file changed": f"/files/{USER}/",
        "file month": "/files/episodes/2026-01.md/",
        "file draft": "/files/episodes/2026-02.md/",
        "file preview": "/files/episodes/2026-03.md/",
    }
