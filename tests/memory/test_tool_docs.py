"""docs/agents.md tells of how a tool's call is answered, the reference of the tools."""

from __future__ import annotations

import re
from pathlib import Path

from memory.agents.tools.registry import REGISTRY, as_markdown

ROOT = Path(__file__).resolve().parents[2]


def test_each_tool_is_reported_with_its_arguments():
    told = as_markdown()

    assert [name for name in REGISTRY if f"## `{name}`" not in told] == []
    assert "| `patches` | list of {`old_text`, `new_text`} | required |" in told
    assert "| `limit` | integer | `10` |" in told


def test_the_page_of_agents_names_each_error():
    page = (ROOT / "docs" / "agents.md").read_text()
    sources = "".join(path.read_text() for path in (ROOT / "memory").rglob("*.py"))
    told = set(re.findall(r"refused\(\s*\"(\w+)\"", sources))

    assert told >= {"not_found", "sensitive"}
    assert [code for code in told if f"| `{code}` |" not in page] == []
