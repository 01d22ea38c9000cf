"""How long the content store keeps results: BEACON_CONTENT_DAYS, then they go to the trash.

What a person stored, pinned or locked stays until it is deleted, and so does what others vouch for
(`KEEPERS`: research names what a report cites).  A snapshot has its own copy and stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import ngettext

from memory.actors import MAINTENANCE
from memory.models import Activity, ContentItem, Lock, Trust, User
from memory.models.content import ContentQuerySet

_AT_ONCE = 200

# Each gives the ids of items that stay, however old they are.
KEEPERS: list[Callable[[], QuerySet[Any, Any]]] = []


def due(at: datetime | None = None) -> ContentQuerySet:
    """Return the items that have been kept long enough at `at`; none if they are kept for good."""
    days = settings.BEACON_CONTENT_DAYS
    if not days:
        return ContentItem.objects.none()
    before = (at or timezone.now()) - timedelta(days=days)
    found = ContentItem.objects.all().live().filter(created__lt=before)
    found = found.filter(pinned=False, lock=Lock.OPEN).exclude(trust=Trust.OWNER)
    for keeper in KEEPERS:
        found = found.exclude(pk__in=keeper())
    return found


def retire(owner: User, *, at: datetime | None = None) -> int:
    """Move the owner's items that are due to the trash, tell Activity, and return how many.

    Two at once share them, and none waits.
    """
    days, moved = settings.BEACON_CONTENT_DAYS, 0
    why = ngettext("older than %(n)d day", "older than %(n)d days", days) % {"n": days}
    while True:
        with transaction.atomic():
            rows = due(at).of(owner).order_by("created", "pk").defer("content")
            some = list(rows.select_for_update(of=("self",), skip_locked=True)[:_AT_ONCE])
            trashed = timezone.now()
            wanted = [(item, {"trashed_at": trashed}) for item in some]
            ContentItem.change_many(wanted, by=MAINTENANCE, why=why)
        moved += len(some)
        if len(some) < _AT_ONCE:
            break
    if moved:
        told = {"n": f"{moved:,}", "days": f"{days:,}"}
        label = ngettext(
            "%(n)s content item older than %(days)s days went to the trash",
            "%(n)s content items older than %(days)s days went to the trash",
            moved,
        )
        Activity.log(owner, MAINTENANCE, "content-retired", label=label % told, items=moved)
    return moved


def owners_in_need(at: datetime | None = None) -> list[int]:
    """Return the ids of the owners who have items that are due."""
    return sorted(set(due(at).order_by().values_list("owner_id", flat=True)))
