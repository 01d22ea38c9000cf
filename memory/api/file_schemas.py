"""Memory files as programs send and get them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, Field

from memory.api.frame import Body
from memory.api.shown import shows
from memory.files.limits import MOST_EPISODES
from memory.models import MemoryFile, Revision, Trust

MOST_PATCHES = 100
_WHY = Field("", max_length=500, description="Why it changes, for its history.")


class FileIn(Body):
    """A file's whole text."""

    content: str = Field(
        max_length=MOST_EPISODES,
        description="Markdown. Both fact files together have at most 15 KiB, a month's 256 KiB.",
    )
    why: str = _WHY


class PatchPair(Body):
    """A stretch of text and what replaces it."""

    old_text: str = Field(
        min_length=1, max_length=MOST_EPISODES, description="Stands in the file exactly once."
    )
    new_text: str = Field(max_length=MOST_EPISODES)


class FilePatch(Body):
    """Stretches of a file, all or none."""

    patches: list[PatchPair] = Field(min_length=1, max_length=MOST_PATCHES)
    why: str = _WHY

    def pairs(self) -> list[tuple[str, str]]:
        """Return the pairs of old and new text."""
        return [(one.old_text, one.new_text) for one in self.patches]


class EntryIn(Body):
    """An entry for a file's end."""

    entry: str = Field(min_length=1, max_length=MOST_EPISODES, description="Markdown.")
    summary: str | None = Field(
        None,
        max_length=500,
        description="The file's summary line. An agent can't replace a line that a person wrote.",
    )
    why: str = _WHY


class FileListed(BaseModel):
    """A file without its text."""

    path: str
    summary: str
    summary_by: str = Field(
        description="Who wrote the summary line: `beacon` (generated), `person` or `agent`."
    )
    version: int
    size: int = Field(description="Bytes of UTF-8.")
    source: str
    trust: str
    sensitivity: str
    lock: str
    section_locks: list[list[str]] = Field(
        description="Headings of sections that only people change."
    )
    created: datetime
    updated: datetime

    @classmethod
    def of(cls, file: MemoryFile, **more: Any) -> Self:
        """Return the file as it is told."""
        shows(file)
        same = cls.model_fields.keys() - more.keys()
        return cls(**{name: getattr(file, name) for name in same}, **more)


class FileOut(FileListed):
    """A file with its exact text."""

    content: str


class FileSaved(FileOut):
    """A file as it was saved, and what its writer should know of that."""

    warnings: list[str]


class RevisionOut(BaseModel):
    """One version of a file: who made it, when, and why."""

    version: int
    actor: str
    reason: str
    source: str
    size: int | None = Field(description="Bytes, where this version changed the text.")
    created: datetime

    @classmethod
    def of(cls, revision: Revision) -> Self:
        """Return the revision as it is told; who lists them reports the file."""
        shows(trust=Trust.AGENT)
        same = cls.model_fields.keys() - {"size"}
        fields = {name: getattr(revision, name) for name in same}
        return cls(size=revision.after.get("size"), **fields)
