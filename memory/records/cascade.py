"""What goes to the trash with a record and comes back with it: a topic's runs, a file's sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, F, IntegerField, Model, Value

Along = Mapping[Any, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Hanging:
    """Rows that hang on a record by a foreign key, and how they are counted in words."""

    model: type[Model]
    path: str
    many: Any  # an ngettext_lazy of %(n)s; the stubs know no type for it


def counted(wanted: Iterable[tuple[Hanging, Sequence[Any]]]) -> dict[Any, list[str]]:
    """Return, by the records' ids, how much hangs on each, in words: one query for all kinds."""
    asked = list(wanted)
    parts = [
        hanging.model._default_manager.filter(**{f"{hanging.path}__in": ids})
        .order_by()
        .values(hanging.path)
        .annotate(
            on=F(hanging.path),
            place=Value(place, output_field=IntegerField()),
            number=Count("pk"),
        )
        .values("on", "place", "number")
        for place, (hanging, ids) in enumerate(asked)
    ]
    found: dict[Any, list[str]] = {}
    if parts:
        rows = parts[0].union(*parts[1:], all=True) if parts[1:] else parts[0]
        for row in sorted(rows, key=lambda row: row["place"]):
            words = str(asked[row["place"]][0].many % {"n": row["number"]})
            found.setdefault(row["on"], []).append(words)
    return found
