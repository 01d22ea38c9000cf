"""A memory file with a history, for the checked pages: many writers, locks, and removable text."""

from __future__ import annotations

from typing import Any

from memory.models.actors import REFLECTOR, Actor
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, lock_section, save_file

PATH = "episodes/2025-11.md"
ENTRIES = (
    """## Battery cells, which maker
- Summary: two makers deliver, VoltCell cheaper
- Date: 2025-11-03
- Task: find out who makes sodium cells in lots of a thousand
- Findings: VoltCell 89 dollars a cell, Natrium 94; both quote twelve weeks
- Decision: ask both for samples
- Lesson: prices on maker pages are before duty""",
    """## 中国供应商
- Summary: 三家供应商有现货
- Date: 2025-11-12
- Task: 查找钠离子电池的供应商
- Findings: 三家供应商有现货，起订量一千只
- Lesson: 报价不含税""",
    """## A note without a date
- Summary: what was said on the telephone about the samples and when they are to be sent
- Task: call the maker""",
)


def histories(owner: Any) -> dict[str, str]:
    """Write it, by its owner, by Beacon's reflection and by an agent; `file past` is its page."""
    for number, entry in enumerate(ENTRIES):
        source = f"run:{number + 1}"
        append_to(owner, PATH, entry, by=REFLECTOR, why="worth keeping", source=source)
    desk = Actor("agent", "desk")
    _rewrite(owner, desk, "the maker's new list", ("89 dollars", "91 dollars"))
    _rewrite(owner, owner.actor, "", ("twelve weeks", "twelve weeks\n- Findings: ten in spring  "))
    again = "- Summary: what was said on the telephone"
    _rewrite(
        owner, owner.actor, "said twice, to see", (again, f"- Call again\n- Call again\n{again}")
    )
    file = read_file(owner, PATH)
    file.owner = owner
    heading = ["2025-11 Episodes", "中国供应商"]
    lock_section(file, heading, by=owner.actor, locked=True)
    return {"file past": f"/files/{PATH}/"}


def _rewrite(owner: Any, by: Actor, why: str, pair: tuple[str, str]) -> None:
    text = read_file(owner, PATH).content.replace(*pair)
    save_file(owner, PATH, text, by=by, why=why)
