"""Every requirement that docs/dev/requirements.md lists has a test that names it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOC = ROOT / "docs" / "dev" / "requirements.md"
ROW = re.compile(r"^\| (R\d+) \| (.+?) \| (.+?) \| (.+?) \|$", re.M)


def _marked() -> dict[str, set[str]]:
    """Return for each R the tests (`path::name`) that are marked with it."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith(
                    "mark.requirement"
                ):
                    for argument in mark.args:
                        name = f"{path.relative_to(ROOT)}::{node.name}"
                        found.setdefault(ast.literal_eval(argument), set()).add(name)
    return found


def test_each_listed_requirement_has_a_test_that_names_it():
    listed = {row[0]: row[2] for row in ROW.findall(DOC.read_text())}
    marked = _marked()

    without = [r for r, tests in listed.items() if not marked.get(r)]
    wrong = [
        r for r, tests in listed.items() if marked.get(r) and tests.strip("`") not in marked[r]
    ]
    assert listed
    assert without == []
    assert wrong == [], "the test in the table does not bear the requirement's mark"


def test_each_marked_requirement_is_listed():
    listed = {row[0] for row in ROW.findall(DOC.read_text())}

    assert sorted(set(_marked()) - listed) == []
