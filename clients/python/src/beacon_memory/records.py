"""The results of Beacon's API as plain data. `raw` is the original response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Hit:
    """One record found by recall, with a score from 0 to 1."""

    id: str
    type: str
    score: float
    content: str
    source: str = ""
    category: str = ""
    created_at: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, raw: Json) -> Hit:
        """Create it from a response."""
        return cls(
            id=str(raw["id"]),
            type=str(raw["type"]),
            score=float(raw["score"]),
            content=str(raw["content"]),
            source=str(raw.get("source") or ""),
            category=str(raw.get("category") or ""),
            created_at=str(raw.get("created_at") or ""),
            raw=raw,
        )


@dataclass(frozen=True)
class Written:
    """The result of a write: stored under `id`, or waiting for approval as `proposal`."""

    id: str = ""
    proposal: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def reason(self) -> str:
        """Return why the write is held, as Beacon explains it."""
        return str(self.raw.get("reason") or "")

    @property
    def is_held(self) -> bool:
        """Return True if the write waits for approval. Until then, nothing is stored."""
        return bool(self.proposal)


@dataclass(frozen=True)
class Run:
    """One research run of a topic. It gets a `number` when it is saved."""

    id: int
    status: str
    topic: str = ""
    number: int | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    UNFINISHED = frozenset({"queued", "running"})

    @classmethod
    def of(cls, raw: Json) -> Run:
        """Create it from a response."""
        topic = raw.get("topic") or ""
        return cls(
            id=int(raw["id"]),
            status=str(raw["status"]),
            topic=str(topic.get("slug", "") if isinstance(topic, Mapping) else topic),
            number=raw.get("number"),
            raw=raw,
        )

    @property
    def is_unfinished(self) -> bool:
        """Return True if the run is still waiting or in progress."""
        return self.status in self.UNFINISHED


@dataclass(frozen=True)
class Report:
    """A run's report: complete as Markdown, and in parts."""

    markdown: str
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class File:
    """A memory file. In a list, `content` is empty."""

    path: str
    version: int = 0
    summary: str = ""
    size: int = 0
    content: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, raw: Json) -> File:
        """Create it from a response."""
        return cls(
            path=str(raw["path"]),
            version=int(raw.get("version") or 0),
            summary=str(raw.get("summary") or ""),
            size=int(raw.get("size") or 0),
            content=str(raw.get("content") or ""),
            raw=raw,
        )


@dataclass(frozen=True)
class Entry:
    """A value of the scratchpad under its key."""

    key: str
    value: str
    created: str = ""
    updated: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, raw: Json) -> Entry:
        """Create it from a response."""
        return cls(
            key=str(raw["key"]),
            value=str(raw["value"]),
            created=str(raw.get("created") or ""),
            updated=str(raw.get("updated") or ""),
            raw=raw,
        )
