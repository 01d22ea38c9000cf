"""What the wheel asks for: the same lines from which the lock files are resolved.

hatchling finds this file by its name (pyproject.toml, [tool.hatch.metadata.hooks.custom]).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

EXTRAS = {"embeddings": "embeddings", "extras": "extras"}  # what pip calls it -> its file


class WhatIsAskedFor(MetadataHookInterface):
    """Fills `dependencies` and `optional-dependencies` from requirements/*.in."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put both into the project's table."""
        metadata["dependencies"] = self._lines("base")
        metadata["optional-dependencies"] = {
            extra: self._lines(name) for extra, name in EXTRAS.items()
        }

    def _lines(self, name: str) -> list[str]:
        text = Path(self.root, "requirements", f"{name}.in").read_text(encoding="utf-8")
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        return [line for line in lines if line]
