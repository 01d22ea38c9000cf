"""docs/agents.md tells of the tools that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import call_command

from memory.toolkit import docs as tool_docs
from memory.toolkit.registry import REGISTRY

PAGE = Path(__file__).resolve().parents[2] / "docs" / "agents.md"


def test_the_page_of_the_tools_is_not_stale():
    page = PAGE.read_text()

    assert tool_docs.renewed(page) == page, "run `manage.py document_tools`"


def test_it_names_each_tool_argument_and_error():
    page = PAGE.read_text()

    assert [name for name in REGISTRY if f"### `{name}`" not in page] == []
    assert "| `patches` | list of {`old_text`, `new_text`} | needed |" in page
    assert "| `limit` | integer | `10` |" in page
    told = set(re.findall(r"refused\(\s*\"(\w+)\"", _sources()))
    assert [code for code in told if f"| `{code}` |" not in page] == []


def _sources() -> str:
    folder = PAGE.parents[1] / "memory" / "toolkit"
    return "".join(path.read_text() for path in folder.glob("*.py"))


def test_the_command_renews_the_page(tmp_path: Path, settings, capsys: pytest.CaptureFixture[str]):
    settings.BASE_DIR = tmp_path
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "agents.md"
    page.write_text(f"# Tools\n\n{tool_docs.BEGINS}\nold\n{tool_docs.ENDS}\n\nThe end.\n")

    call_command("document_tools")
    call_command("document_tools")

    assert "### `memory_read`" in page.read_text()
    assert page.read_text().endswith("\n\nThe end.\n")
    assert "old\n" not in page.read_text()
    assert capsys.readouterr().out.splitlines() == [
        "docs/agents.md: renewed", "docs/agents.md: as it was",
    ]  # fmt: skip
