"""docs/content-store.md names everything that exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.agents.tools.content import NAMES
from memory.agents.tools.registry import tools_for
from memory.services.content.compaction import compactors
from memory.services.content.transforms import TRANSFORMS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "content-store.md"


@pytest.mark.requirement("R138")
def test_the_page_of_the_content_store_reports_every_transform_tool_and_compactor():
    page = PAGE.read_text()

    for name, one in TRANSFORMS.items():
        characters, lines = one.usual
        usual = f"{characters:,} characters, {lines} lines" if one.takes_n else "–"
        q = "required" if one.needs_q else "optional" if one.takes_q else "–"
        assert f"| `{name}` | {usual} | {q} |" in page
    for tool in tools_for(NAMES):
        [row] = [line for line in page.splitlines() if line.startswith(f"| `{tool.name}` |")]
        assert [word for word in tool.parameters["properties"] if f"`{word}`" not in row] == []
    for name in compactors():
        assert f"| {name} |" in page
    for heading in ("## Patterns", "## Switch from full results to the content store"):
        assert heading in page
