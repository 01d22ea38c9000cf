"""Citation marks in a text, such as [note:0190…] and [file:facts/user.md]."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

FILE = "file"
_PATH = r"(?:facts|episodes)/[\w.-]+\.md"
_KIND = r"note|observation|fact|report|section|file|memoryfile"
_ONE = rf"(?:(?:{_KIND})[:\s]\s*[\w./-]+|{_PATH})"
MARK = re.compile(rf"[ \t]?\[\[?({_ONE}(?:\s*[,;]\s*{_ONE})*)\]?\]", re.IGNORECASE)
_EACH = re.compile(rf"(?:(?P<kind>{_KIND})[:\s]\s*)?(?P<key>[\w./-]+)", re.IGNORECASE)


def marks_in(inside: str) -> list[str]:
    """Return the marks inside one pair of brackets, each in its normalized spelling."""
    marks = []
    for found in _EACH.finditer(inside):
        kind, key = (found["kind"] or FILE).lower(), found["key"]
        kind = FILE if kind == "memoryfile" else kind
        marks.append(f"{kind}:{key if kind == FILE else key.lower()}")
    return marks


def numbered(text: str, cites: Iterable[Mapping[str, str]]) -> str:
    """Return the answer with its marks replaced by [1], [2] …, without the model's own numbers."""
    text = re.sub(r"\[(\d{1,3})\](?!\()", r"(\1)", text)
    for number, cite in enumerate(cites, 1):
        text = text.replace(f"[{cite['mark']}]", f"[{number}]")
    return MARK.sub("", text)


def without_marks(text: str) -> str:
    """Return a text without its marks."""
    return MARK.sub("", text)
