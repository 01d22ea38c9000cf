"""What Beacon gives back, as plain data; `raw` is the answer as it came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Hit:
    """One record that recall found, with its score from 0 to 1."""

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
        """Read it from an answer."""
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
    """What became of a write: it is stored under `id`, or waits for a person as `proposal`."""

    id: str = ""
    proposal: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @property
    def why(self) -> str:
        """Return why it is held, in Beacon's words."""
        return str(self.raw.get("why") or "")

    @property
    def is_held(self) -> bool:
        """Whether a person is to look at it first; nothing is stored until then."""
        return bool(self.proposal)


@dataclass(frozen=True)
class Run:
    """One research execution of a topic; `number` is given once it is saved."""

    id: int
    status: str
    topic: str = ""
    number: int | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    UNFINISHED = frozenset({"queued", "running"})

    @classmethod
    def of(cls, raw: Json) -> Run:
        """Read it from an answer."""
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
        """Whether it goes on."""
        return self.status in self.UNFINISHED


@dataclass(frozen=True)
class Report:
    """What a run wrote: whole as Markdown, and in its parts."""

    markdown: str
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class File:
    """A memory file; `content` is empty in a list."""

    path: str
    version: int = 0
    summary: str = ""
    size: int = 0
    content: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, raw: Json) -> File:
        """Read it from an answer."""
        return cls(
            path=str(raw["path"]),
            version=int(raw.get("version") or 0),
            summary=str(raw.get("summary") or ""),
            size=int(raw.get("size") or 0),
            content=str(raw.get("content") or ""),
            raw=raw,
        )
