"""What belongs to an owner, and what of it an archive holds: the one list.

`EXPORTED` names each model in the order in which its rows are taken in, those that others hang on
first; research adds its own (`research.archive_kinds`).  What has an owner and is in no archive
stands in `NOT_EXPORTED` with the reason.  A test fails for a model that is in neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import models
from django.utils.functional import Promise

Hook = Callable[[Any, list[Any]], object]


def _fine(_row: Any) -> str:
    return ""


def _as_it_is(_row: Any, _taking_in: Any) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Kind:
    """One model of an archive: whose its rows are, what tells them apart, and what is left out.

    `owner` is the path to the owner; `key` the columns by which a row without an id of its own is
    the same again, the first of them one by which rows can be fetched; `without` columns that say
    nothing elsewhere; `named` foreign keys written by a name and not by id; `many` many-to-many
    fields; `citing` columns whose text names records by their ids; `only` narrows what is written,
    as far as it can be carried anywhere.  `problem` says why a row cannot be taken in, `prepare`
    changes it before it is, `finish` is called with the new rows once all of the archive is in.
    """

    name: str
    label: str | Promise
    model: type[models.Model]
    owner: str = "owner"
    key: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    many: tuple[str, ...] = ()
    citing: tuple[str, ...] = ()
    only: models.Q | None = None
    own_alone: bool = False
    problem: Callable[[Any], str] = _fine
    prepare: Callable[[Any, Any], None] = _as_it_is
    finish: Callable[[Any, list[Any]], None] | None = None

    @property
    def by_id(self) -> bool:
        """Whether a row is known by its id, which the archive then holds."""
        return not self.key

    @property
    def has_uuid(self) -> bool:
        """Whether the id is one that nobody else makes."""
        return isinstance(self.model._meta.pk, models.UUIDField)

    @property
    def path(self) -> str:
        """Return the file inside the archive."""
        return f"data/{self.name}.jsonl"

    def rows(self, owner: Any) -> models.QuerySet[Any]:
        """Return the owner's rows that an archive holds, in the order in which they were made."""
        found = self.all_rows(owner)
        if self.only is not None:
            found = found.filter(self.only)
        return found.order_by(*self._order())

    def all_rows(self, owner: Any) -> models.QuerySet[Any]:
        """Return all rows of the owner, of which there may be more than an archive holds."""
        manager: models.Manager[Any] = self.model._base_manager
        return manager.filter(**{self.owner: owner})

    def _order(self) -> tuple[str, ...]:
        names = {field.name for field in self.model._meta.concrete_fields}
        return ("created", "pk") if "created" in names and self.has_uuid else ("pk",)

    def columns(self) -> list[models.Field[Any, Any]]:
        """Return the fields that the archive holds, in the order of the model."""
        left_out = {"owner", *self.without, *(() if self.by_id else ("id",))}
        return [field for field in self.model._meta.concrete_fields if field.name not in left_out]


EXPORTED: list[Kind] = []
# By the model's label, why no archive holds its rows.
NOT_EXPORTED: dict[str, str] = {}


def register(kinds: Iterable[Kind], left_out: Mapping[str, str]) -> None:
    """Add models to the list, after those that are there, and name those that are left out."""
    known = {kind.name for kind in EXPORTED}
    EXPORTED.extend(kind for kind in kinds if kind.name not in known)
    NOT_EXPORTED.update(left_out)


def in_order() -> list[Kind]:
    """Return what is exported, history and log last: they tell of all the others."""
    return sorted(EXPORTED, key=lambda kind: kind.name in _LAST)


_LAST = ("revisions", "uses", "activity", "model-calls")
