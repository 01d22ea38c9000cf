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
ENTRY = """## {title}
- Summary: {summary}
- Date: {month}-26
- Task: {task}
- Findings: {findings}
- Lesson: {lesson}"""
MONTHS = {
    "2026-01": {
        "title": "Tokyo flights",
        "summary": "Spring is cheapest, book early",
        "task": "compare flights from Jinan to Tokyo for four people",
        "findings": "March 61,000 yen, April 84,000 yen; **two airlines** fly direct",
        "lesson": "fares shown on portals lag by a day",
    },
    "2026-02": {
        "title": "Storage contract",
        "summary": "Only one offer includes the grid fee",
        "task": "compare three offers for the battery in the Courier depot",
        "findings": "the second offer is 4 percent higher, but **the grid fee is included**",
        "lesson": "ask for the fee before comparing totals",
    },
    "2026-03": {
        "title": "Desk for the workshop",
        "summary": "Oak is out of stock until May",
        "task": "find a desk of 1.80 metres that fits below the window",
        "findings": "two makers have one, **only Norrsken delivers in April**",
        "lesson": "measure the window sill first",
    },
}


def files(owner: Any) -> dict[str, str]:
    """Write them; `file changed` is the page of one whose version 2 others have changed since."""
    save_file(owner, USER, TEXT, by=owner.actor, why="set out")
    save_file(owner, USER, TEXT.replace("Tue 10", "Fri 9"), by=REFLECTOR, why="heard in a meeting")
    for month, told in MONTHS.items():
        path = f"episodes/{month}.md"
        entry = ENTRY.format(month=month, **told)
        append_to(
            owner, path, entry, by=REFLECTOR, why=f"from the conversation about {told['title']}"
        )
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
