"""What is done once all rows of an archive are in: links among them, and who follows."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext as _

from memory.archive.counting import TakingIn
from memory.archive.kinds import Kind, in_order
from memory.archive.zips import ImportRejected
from memory.models import Activity, Note, User


def owned(model: Any, owner: User) -> models.QuerySet[Any]:
    """Return the owner's rows of a model that is on the list."""
    kind = next(kind for kind in in_order() if kind.model is model)
    return kind.all_rows(owner)


def links_of(kind: Kind) -> list[Any]:
    """Return the columns that lead to rows of other kinds."""
    return [
        column
        for column in kind.columns()
        if column.is_relation
        and column.related_model is not kind.model
        and column.attname not in kind.named
    ]


def own_links_of(kind: Kind) -> list[Any]:
    """Return the columns that lead to rows of the same kind, such as to what supersedes a note."""
    return [c for c in kind.columns() if c.is_relation and c.related_model is kind.model]


def remember(kind: Kind, rows: list[tuple[int, Any, dict[str, Any]]], taking_in: TakingIn) -> None:
    """Keep of the rows just stored what `finish` needs of them."""
    if kind.finish is not None:
        taking_in.fresh.setdefault(kind.name, []).extend(row for _number, row, _line in rows)
    for column in own_links_of(kind):
        links = taking_in.links.setdefault((kind.name, column.attname), {})
        links |= {row.pk: getattr(row, column.attname) for _number, row, _line in rows}
    for name in kind.many:
        links = taking_in.links.setdefault((kind.name, name), {})
        links |= {row.pk: line[name] for _number, row, line in rows if line.get(name)}


def finish(kinds: list[Kind], taking_in: TakingIn) -> None:
    """Join what was taken in, and let follow what follows.  Raises NotTaken."""
    for kind in kinds:
        for column in own_links_of(kind):
            _mend(kind, column.attname, taking_in)
        for name in kind.many:
            _join(kind, name, taking_in)
        if kind.finish is not None and taking_in.fresh.get(kind.name):
            kind.finish(taking_in, taking_in.fresh[kind.name])
    new = {name: counted.new for name, counted in taking_in.counts.items() if counted.new}
    Activity.log(taking_in.owner, taking_in.by, "imported", label=taking_in.source, new=new)


def _mend(kind: Kind, name: str, taking_in: TakingIn) -> None:
    """Empty links to rows that were not taken in, and refuse a chain that leads back to itself."""
    links = taking_in.links.get((kind.name, name), {})
    wanted = set(links.values()) - {None}
    there = set(
        owned(kind.model, taking_in.owner).filter(pk__in=wanted).values_list("pk", flat=True)
    )
    dangling = [pk for pk, target in links.items() if target is not None and target not in there]
    if dangling:
        owned(kind.model, taking_in.owner).filter(pk__in=dangling).update(**{name: None})
    if kind.model is Note and _leads_back(links):
        raise ImportRejected(
            _(
                "The archive holds notes that supersede each other in a circle. Nothing was imported."
            )
        )


def _leads_back(links: dict[Any, Any]) -> bool:
    """Whether following these links ever comes back to where it was."""
    known: set[Any] = set()
    for start in links:
        seen: set[Any] = set()
        at = start
        while at is not None and at not in known:
            if at in seen:
                return True
            seen.add(at)
            at = links.get(at)
        known |= seen
    return False


def _join(kind: Kind, name: str, taking_in: TakingIn) -> None:
    for pk, wanted in taking_in.links.get((kind.name, name), {}).items():
        related = getattr(owned(kind.model, taking_in.owner).get(pk=pk), name)
        related.set(owned(related.model, taking_in.owner).filter(pk__in=wanted))
