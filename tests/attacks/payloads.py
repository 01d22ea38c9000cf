"""Hostile texts by family, each with a unique name by which tests find it.

In a payload `ID` stands for that name: whatever of it is executed, loaded or shown says which
payload it was.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).parent / "data"
NAMED = re.compile(r"zq\d{3}q")


@dataclass(frozen=True, slots=True)
class Payload:
    """One hostile text."""

    name: str
    family: str
    text: str

    @property
    def is_address(self) -> bool:
        """Return whether the payload is a URL, for fields that contain one."""
        return self.family == "addresses"


@cache
def markup() -> tuple[Payload, ...]:
    """Return every payload of Markdown and HTML."""
    families = json.loads((DATA / "markup.json").read_text("utf-8"))
    told = [(family, text) for family, texts in families.items() for text in texts]
    return tuple(
        Payload(name := f"zq{number:03}q", family, text.replace("ID", name))
        for number, (family, text) in enumerate(told)
    )


@cache
def naughty() -> tuple[str, ...]:
    """Return texts that aren't markup, but break code that reads them as numbers, rows or names."""
    return tuple(json.loads((DATA / "naughty.json").read_text("utf-8")))


def names_in(text: str) -> set[str]:
    """Return the names of the payloads in a text."""
    return set(NAMED.findall(text))
