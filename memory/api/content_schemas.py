"""Content items and snapshots as programs send and get them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from memory.api.frame import Body
from memory.api.note_schemas import Sensitivity, Tags
from memory.api.paging import Paged
from memory.api.reading import Moment
from memory.api.shown import Textless, shows
from memory.content.limits import (
    LONGEST_ACTION,
    LONGEST_SOURCE,
    LONGEST_TITLE,
    LONGEST_URL,
    MOST_BYTES,
    MOST_RELATED,
)
from memory.content.transforms import View
from memory.models import ContentItem, Snapshot
from memory.notes.checks import LONGEST_SCOPE

Type = Literal["action_result", "web_content", "database_result", "custom"]
TransformName = Literal["full", "excerpt", "summary", "first_n", "last_n", "filtered"]
Scope = Annotated[
    str,
    Field(max_length=LONGEST_SCOPE, description="owner, run:<id>, session:<id> or agent:<name>."),
]


class ContentIn(Body):
    """An item to be stored, whole."""

    content: str = Field(max_length=MOST_BYTES, description="At most 8 MiB of UTF-8.")
    type: Type = "custom"
    source: str = Field(
        "", max_length=LONGEST_SOURCE, description="Where it came from; the caller if left out."
    )
    tags: Tags = []
    related_to: list[str] = Field(
        [], max_length=MOST_RELATED, description="The ids of items that it belongs to."
    )
    scope: Scope = "owner"
    title: str = Field("", max_length=LONGEST_TITLE)
    url: str = Field("", max_length=LONGEST_URL)
    action: str = Field(
        "", max_length=LONGEST_ACTION, description="The action whose result it is, if it is one."
    )
    sensitivity: Sensitivity = "normal"


class ContentWanted(Paged):
    """Which items; all of the criteria must hold."""

    scope: Scope | None = Field(None, description="Only of this scope; else what you may see.")
    type: Type | None = None
    source: str = Field("", max_length=LONGEST_SOURCE, description="Only from this very source.")
    tag: list[str] = Field([], max_length=50, description="Only items that bear all of these tags.")
    after: Moment | None = Field(None, description="Only those stored then or later.")
    before: Moment | None = Field(None, description="Only those stored then or before.")


class ViewWanted(BaseModel):
    """How an item is shown."""

    transform: TransformName = Field("full", description="docs/content-store.md describes them.")
    n: int | None = Field(None, ge=1, le=MOST_BYTES, description="How many units; full takes none.")
    q: str = Field("", max_length=400, description="Words to look for: excerpt and filtered.")
    unit: Literal["characters", "lines"] = "characters"


class ItemOut(BaseModel):
    """What is known of an item, without its content."""

    id: UUID
    type: Type
    source: str
    scope: str
    tags: list[str]
    title: str
    url: str
    action: str
    size: int = Field(description="Characters of the whole content.")
    kept_with: str
    sensitivity: Sensitivity
    trust: str
    version: int
    created: datetime
    updated: datetime

    @classmethod
    def about(cls, item: ContentItem) -> Self:
        """Return the item as it is told."""
        shows(item)
        return cls(**{name: getattr(item, name) for name in cls.model_fields})


class ShownOut(ItemOut):
    """An item as a transform shows it: `shown` of `of` units of its content."""

    content: str
    transform: TransformName
    shown: int
    of: int
    unit: str
    related_to: list[UUID]

    @classmethod
    def view_of(cls, item: ContentItem, name: TransformName, view: View) -> Self:
        """Return the item with what the view shows of it."""
        shows(item)
        related = item.related_to.live().order_by("pk").values_list("pk", flat=True)
        return cls(
            **{field: getattr(item, field) for field in ItemOut.model_fields},
            content=view.text,
            transform=name,
            shown=view.shown,
            of=view.of,
            unit=view.unit,
            related_to=list(related),
        )


class ClearedOut(Textless):
    """How many items went to the trash."""

    cleared: int


class SnapshotIn(Body):
    """Of which scope a snapshot is taken."""

    scope: Scope
    title: str = Field("", max_length=200)


class SnapshotOut(BaseModel):
    """A snapshot: what a scope held at a moment."""

    id: UUID
    scope: str
    title: str
    count: int = Field(description="Items.")
    size: int = Field(description="Characters of all of them.")
    format: int
    created: datetime

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """Return the snapshot as it is told."""
        shows(snapshot)
        return cls(**{name: getattr(snapshot, name) for name in cls.model_fields})


class RestoreIn(Body):
    """Where a snapshot is brought back: into its own scope, or as new items into another."""

    scope: Scope | None = None


class RestoredOut(Textless):
    """The items that came back, the oldest first."""

    ids: list[UUID]
    scope: str
