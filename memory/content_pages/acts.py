"""What a person does with many content items at once, with the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.content.clearing import change_all
from memory.content_pages.list import Wanted, items_wanted
from memory.errors import InvalidValue
from memory.models import ContentItem, User
from memory.texts.days import moment_of

AT_ONCE = 1_000  # items that one act moves; what is left waits for the next


@dataclass(frozen=True, slots=True)
class Moved:
    """How many items went to the trash together, at which moment, and how many are left."""

    number: int
    at: datetime
    left: int = 0

    @property
    def undo_url(self) -> str:
        """Return the address that brings them back."""
        return f"{reverse('memory:content-put-back')}?{urlencode({'at': self.at.isoformat()})}"


def trash_ticked(user: User, keys: Sequence[UUID], *, by: Actor) -> Moved:
    """Move these items to the trash.  Raises InvalidValue if none is named."""
    if not keys:
        raise InvalidValue(_("Nothing was ticked, so nothing was moved. Tick what is meant."))
    return _trash(user, list(keys[:AT_ONCE]), by)


def trash_matching(user: User, wanted: Wanted, *, by: Actor) -> Moved:
    """Move what the list's filters leave to the trash, the newest thousand at once."""
    found = items_wanted(user, wanted).order_by("-created", "-pk").values_list("pk", flat=True)
    keys = list(found[: AT_ONCE + 1])
    moved = _trash(user, keys[:AT_ONCE], by)
    return Moved(moved.number, moved.at, found.count() if len(keys) > AT_ONCE else 0)


def _trash(user: User, keys: list[UUID], by: Actor) -> Moved:
    at = timezone.now()
    rows = ContentItem.objects.of(user).live().filter(pk__in=keys)
    why = _("moved to the trash with others")
    return Moved(change_all(rows, {"trashed_at": at}, by=by, why=why), at)


def put_back(user: User, moment: str, *, by: Actor) -> int:
    """Bring back what went to the trash at that very moment, and return how many those were."""
    at = moment_of(moment)
    if at is None or at.tzinfo is None:
        raise InvalidValue(_("That names no moment, so nothing was brought back. See the trash."))
    rows = ContentItem.objects.of(user).filter(trashed_at=at)
    return change_all(rows, {"trashed_at": None}, by=by, why=_("restored from the trash"))
