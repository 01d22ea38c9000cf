"""Which items name which: only ones that are there, and never in a circle.

A new item can name only items that exist, so a circle can come of a later change alone, or of
what was written elsewhere (a snapshot, an archive).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.advisory_locks import LockId, lock_until_commit
from memory.content.limits import MOST_RELATED
from memory.errors import InvalidValue
from memory.models import ContentItem, Revision
from memory.texts.text import clean, shorten

Links = Mapping[Any, Iterable[Any]]


def checked_related(owner: Any, related_to: Iterable[Any]) -> list[ContentItem]:
    """Return the items that are named, each once.  Raises InvalidValue for any that is not there."""
    wanted: dict[uuid.UUID, None] = {}
    unknown: list[str] = []
    for given in related_to:
        try:
            wanted[uuid.UUID(str(given))] = None
        except ValueError:
            unknown.append(str(given))
    if len(wanted) > MOST_RELATED:
        _refuse(
            _("An item names at most %(most)d related ones; this names %(have)d.")
            % {"most": MOST_RELATED, "have": len(wanted)}
        )
    rows = ContentItem.objects.of(owner).live().defer("content")
    found: dict[uuid.UUID, ContentItem] = {item.pk: item for item in rows.filter(pk__in=wanted)}
    unknown += [str(key) for key in wanted if key not in found]
    if unknown:
        _refuse(
            _("There is no content item %(ids)s to be related to. Name the ids of stored items.")
            % {"ids": ", ".join(shorten(clean(one)[0], 40) for one in unknown[:5])}
        )
    return [found[key] for key in wanted]


def relate(item: ContentItem, related_to: Iterable[Any], *, by: Actor, why: str = "") -> None:
    """Let the item name these items, and no others.

    Raises InvalidValue for one that is not there, or where one of them leads back to the item (the
    path is named), and Locked; nothing is changed then.
    """
    item.check_may_change(by)
    with transaction.atomic():
        # Two relations created at the same time could form a cycle.
        lock_until_commit(LockId.CONTENT_RELATIONS, item.owner_id)
        wanted = checked_related(item.owner_id, related_to)
        links = _links_from(wanted, item.pk) | {item.pk: [one.pk for one in wanted]}
        check_no_circle(links, {item.pk: str(item)} | {one.pk: str(one) for one in wanted})
        before = sorted(str(key) for key in item.related_to.values_list("pk", flat=True))
        after = sorted(str(one.pk) for one in wanted)
        if before == after:
            return
        item.related_to.set(wanted)
        rows = ContentItem.objects.filter(pk=item.pk)
        rows.update(version=F("version") + 1, updated=timezone.now())
        item.refresh_from_db(fields=["version", "updated"])
        Revision.record(
            item,
            before={"related_to": before},
            after={"related_to": after},
            by=by,
            why=why or _("related"),
            version=item.version,
        )


def _links_from(items: Iterable[ContentItem], until: uuid.UUID) -> dict[uuid.UUID, list[uuid.UUID]]:
    """Return what these items name, what those name, and so on, without what `until` names."""
    through = ContentItem.related_to.through.objects
    links: dict[uuid.UUID, list[uuid.UUID]] = {}
    ahead = {item.pk for item in items}
    while ahead := ahead - {until, *links}:
        links |= {key: [] for key in ahead}
        rows = through.filter(from_contentitem_id__in=ahead)
        for here, there in rows.values_list("from_contentitem_id", "to_contentitem_id"):
            links[here].append(there)
        ahead = {there for key in ahead for there in links[key]}
    return links


def check_no_circle(links: Links, names: Mapping[Any, str] | None = None) -> None:
    """Raise InvalidValue with the path if following these links ever leads back."""
    path = circle_in(links)
    if path:
        told = " → ".join(str((names or {}).get(key, key)) for key in path)
        _refuse(
            _("Related items must not lead back to where they began: %(path)s. Leave one out.")
            % {"path": shorten(told, 600)}
        )


def circle_in(links: Links) -> list[Any]:
    """Return a path that ends where it begins; empty if there is none."""
    done: set[Any] = set()
    for start in links:
        path: dict[Any, Iterator[Any]] = {}  # in order, each with what it still leads to
        if start not in done:
            path[start] = iter(links[start])
        while path:
            here = next(reversed(path))
            there = next(path[here], None)
            if there is None:
                done.add(here)
                del path[here]
            elif there in path:
                walked = list(path)
                return [*walked[walked.index(there) :], there]
            elif there not in done:
                path[there] = iter(links.get(there, ()))
    return []


def _refuse(problem: str) -> None:
    raise InvalidValue(problem, errors={"related_to": [problem]})
