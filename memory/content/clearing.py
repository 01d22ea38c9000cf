"""Emptying one scope of the content store into the trash, and taking that back."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.models import Activity, ContentItem, User
from memory.models.content import ContentQuerySet
from memory.notes.checks import NoteChecks

_AT_ONCE = 500


def checked_scope(scope: str) -> str:
    """Return the scope as it is stored.  Raises InvalidValue for what is none."""
    checks = NoteChecks()
    scope = checks.scope(scope)
    checks.raise_refused()
    return scope


def clear(owner: User, scope: str, *, by: Actor, at: datetime | None = None) -> int:
    """Move all that this very scope holds to the trash, and return how much that was (R117).

    `put_back` takes it back, by the moment `at` (default: now).  Raises InvalidValue for what is
    no scope, and Locked if `by` may not move one of the items; nothing is moved then.
    """
    scope, at = checked_scope(scope), at or timezone.now()
    held = ContentItem.objects.of(owner).live().filter(scope=scope)
    moved = change_all(held, {"trashed_at": at}, by=by, why=_("the store was cleared"))
    if moved:
        Activity.log(owner, by, "content-cleared", label=scope, items=moved, at=at.isoformat())
    return moved


def put_back(owner: User, scope: str, at: datetime, *, by: Actor) -> int:
    """Bring back what `clear` moved to the trash at that moment, and return how much that was."""
    gone = ContentItem.objects.of(owner).filter(scope=checked_scope(scope), trashed_at=at)
    return change_all(gone, {"trashed_at": None}, by=by, why=_("restored from the trash"))


def change_all(rows: ContentQuerySet, fields: dict[str, Any], *, by: Actor, why: str) -> int:
    """Change all the rows in one transaction, a few hundred at a time, and return how many."""
    changed = 0
    with transaction.atomic():
        keys = list(rows.order_by("pk").values_list("pk", flat=True))
        for start in range(0, len(keys), _AT_ONCE):
            some = ContentItem.objects.filter(pk__in=keys[start : start + _AT_ONCE])
            held = list(some.defer("content").order_by("pk").select_for_update(of=("self",)))
            wanted = [(item, dict(fields)) for item in held if _differs(item, fields)]
            ContentItem.change_many(wanted, by=by, why=why)
            changed += len(wanted)
    return changed


def _differs(item: ContentItem, fields: dict[str, Any]) -> bool:
    """Whether the row still is what it was when it was chosen."""
    return (item.trashed_at is None) != (fields["trashed_at"] is None)
