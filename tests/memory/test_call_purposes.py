"""Why a model was asked has words that a person reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from memory.models import ModelCall

ROOT = Path(__file__).resolve().parents[2]
ASKING = {"ask_model", "run_loop", "context.ask", "work.ask"}


def purposes() -> Iterator[str]:
    """Each purpose that the code names where it asks a model, or as its module's own."""
    for file in [*ROOT.glob("memory/**/*.py"), *ROOT.glob("research/**/*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ASKING:
                value: ast.expr = node.args[0]
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PURPOSE":
                value = node.value
            else:
                continue
            if isinstance(value, ast.Constant):
                yield str(value.value)


def test_each_purpose_has_words_and_no_other_does() -> None:
    assert set(purposes()) == set(ModelCall.Purpose.values)


def test_a_purpose_that_came_with_an_import_stays_as_it_is() -> None:
    assert ModelCall(purpose="plan").aim == "planning"
    assert ModelCall(purpose="dream").aim == "dream"
