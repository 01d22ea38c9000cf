"""Real documents for tests: the README, the documents and the long docstrings of what is installed."""

from __future__ import annotations

import inspect
import re
import sysconfig
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

SITE = Path(sysconfig.get_paths()["purelib"])
MIN_LENGTH, MAX_LENGTH = 300, 60_000  # characters
MAX_DOCSTRINGS = 120
DOCSTRING = re.compile(r'(?:\s|#[^\n]*\n)*[rR]?"""(.*?)"""', re.DOTALL)
NO_DOCUMENT = re.compile(
    r"licen[cs]e|copying|notice|authors|entry_points|top_level|requirements|sources|stoplist|word_?list",
    re.IGNORECASE,
)


def real_documents() -> dict[str, str]:
    """Return texts by file name: the same ones for the same environment, in the same order."""
    found = dict(sorted(_readmes()))
    found |= dict(sorted(_files()))
    found |= dict(list(_docstrings())[:MAX_DOCSTRINGS])
    return found


def write(folder: Path, documents: dict[str, str]) -> None:
    """Put documents into a folder."""
    for name, text in documents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _readmes() -> Iterator[tuple[str, str]]:
    for found in distributions(path=[str(SITE)]):
        head, _blank, text = (found.read_text("METADATA") or "").partition("\n\n")
        if MIN_LENGTH <= len(text) <= MAX_LENGTH:
            ending = "md" if "markdown" in head else "rst"
            yield f"{found.name}/README.{ending}", text


def _files() -> Iterator[tuple[str, str]]:
    for path in SITE.rglob("*"):
        name = path.relative_to(SITE).as_posix()
        if path.suffix not in (".md", ".rst", ".txt") or NO_DOCUMENT.search(name):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if MIN_LENGTH <= len(text) <= MAX_LENGTH:
            yield name, text


def _docstrings() -> Iterator[tuple[str, str]]:
    """Yield the documentation of public modules that say much about themselves."""
    for path in sorted(SITE.glob("*/*.py")):
        begun = DOCSTRING.match(path.read_text(encoding="utf-8", errors="replace"))
        text = inspect.cleandoc(begun[1]) if begun else ""
        if len(text) >= MIN_LENGTH:
            yield f"{path.parent.name}/{path.stem}.rst", text
