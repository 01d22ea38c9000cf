"""What became of slots that a schedule missed, in words for the log, the run and the topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Subquery
from django.db.models.functions import JSONObject
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.models import Activity

MOST_COUNTED = 500  # a cron line of every minute has more in a day
CAUGHT_UP, SKIPPED, UNREADABLE = "schedule-caught-up", "schedule-skipped", "schedule-unreadable"
LATELY = timedelta(days=7)


def missed_in_words(count: int) -> str:
    """Return that so many slots were missed; beyond MOST_COUNTED they are not counted."""
    if count >= MOST_COUNTED:
        return _("%(count)d slots or more were missed") % {"count": MOST_COUNTED}
    return ngettext("%(count)d slot was missed", "%(count)d slots were missed", count) % {
        "count": count
    }


@dataclass(frozen=True, slots=True)
class Notice:
    """What the tick did lately about a topic's schedule other than to start its run on time."""

    at: datetime
    words: str
    is_warning: bool


def last_notice(told: Mapping[str, Any] | None) -> Notice | None:
    """Return a schedule's last hitch as `lately` gave it with its topic, if there was any."""
    if told is None:
        return None
    line = Activity(kind=told["kind"], is_warning=told["is_warning"], detail=told["detail"])
    line.created = datetime.fromisoformat(told["created"])
    words = str(line.detail.get("why", ""))
    if line.kind == SKIPPED and line.is_warning:
        words = _("A scheduled run was skipped: %(why)s") % {"why": words}
    elif line.kind == UNREADABLE:
        words = _("The schedule cannot be read: %(why)s") % {"why": words}
    return Notice(line.created, words, line.is_warning)


def lately(topic: Any) -> Any:
    """Return the schedule's last hitch within a week, to be read with the topic it belongs to."""
    lines = Activity.objects.filter(
        topic=topic,
        kind__in=(CAUGHT_UP, SKIPPED, UNREADABLE),
        created__gt=timezone.now() - LATELY,
    )
    names = ("created", "kind", "is_warning", "detail")
    told = JSONObject(**{name: name for name in names})
    return Subquery(lines.order_by("-id").values(told=told)[:1])
