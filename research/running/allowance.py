"""How many runs a person may start by hand within an hour, and why one may not be started now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.http import zone_of
from memory.actors import RESEARCH
from memory.models import Activity, Topic, User
from memory.usage.meter import BudgetReached
from memory.usage.month_budget import check_month
from research.models import Run
from research.models.runs import RETRIED

HOUR = timedelta(hours=1)
FEW_LEFT = 3  # runs of the hour, from which on the pages say how many are left


class NotNow(Exception):
    """A run may not be started: the topic is put away, or too many were started this hour."""

    def __init__(self, message: str, *, retry_after: int = 0) -> None:
        """`retry_after` is in seconds, 0 where waiting does not help."""
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many runs a person may still start by hand within the hour, and when the next may."""

    left: int
    most: int
    next_at: datetime | None = None  # in the person's time zone

    @property
    def words(self) -> str:
        """Return what to say beside a button; empty while there are plenty."""
        if self.left == 0:
            return str(self.refusal())
        if self.left > FEW_LEFT:
            return ""
        return ngettext(
            "%(left)d more run may be started within this hour; the limit here is %(most)d.",
            "%(left)d more runs may be started within this hour; the limit here is %(most)d.",
            self.left,
        ) % {"left": self.left, "most": self.most}

    def refusal(self) -> NotNow:
        """Return why no run may be started, with the time at which one may."""
        if self.next_at is None:
            return NotNow(_("No runs may be started by hand here: the limit is 0 an hour."))
        wait = max(1, round((self.next_at - timezone.now()).total_seconds()))
        started = ngettext(
            "You started %(most)d run within the last hour, which is the limit here.",
            "You started %(most)d runs within the last hour, which is the limit here.",
            self.most,
        )
        next_one = _(
            "The next may start at %(time)s (in %(minutes)d min); scheduled runs go on as usual."
        )
        values = {
            "most": self.most,
            "time": f"{self.next_at:%H:%M}",
            "minutes": -(-wait // 60),
        }
        return NotNow(f"{started} {next_one}" % values, retry_after=wait)


def allowance_of(user: User) -> Allowance:
    """Return how many runs the person may start by hand now: one query.

    Starts and retries by hand, by command and by agents count (R233); scheduled runs do not.
    """
    most, an_hour_ago = settings.BEACON_RUNS_PER_HOUR, timezone.now() - HOUR
    by_hand = Run.objects.of(user).exclude(trigger=Run.Trigger.SCHEDULE).order_by()
    by_hand = by_hand.exclude(trigger=Run.Trigger.RECHECK, actor=str(RESEARCH))
    retried = Activity.objects.filter(owner=user, kind=RETRIED).order_by()
    within = [rows.filter(created__gt=an_hour_ago).values("created") for rows in (by_hand, retried)]
    moments = within[0].union(within[1], all=True).order_by("-created")
    counted = [row["created"] for row in moments[:most]]
    if len(counted) < most:
        return Allowance(most - len(counted), most)
    next_at = (counted[-1] + HOUR).astimezone(zone_of(user.time_zone)) if counted else None
    return Allowance(0, most, next_at)


def limits_in_words(user: User) -> list[str]:
    """Return what a person should know before they start a run: for the page, and the command."""
    said = [allowance_of(user).words]
    try:
        check_month(user)
    except BudgetReached as exc:
        said.append(
            _("%(why)s: until the next month begins, runs plan and write without the model.")
            % {"why": str(exc)[:1].upper() + str(exc)[1:]}
        )
    return [words for words in said if words]


def check_may_start(topic: Topic) -> None:
    """Raise NotNow if no run of `topic` may be started now."""
    if topic.trashed_at is not None:
        raise NotNow(_("The topic is in the trash: restore it to run it."))
    if topic.archived_at is not None:
        raise NotNow(_("The topic is archived: take it back from the archive to run it."))
    allowance = allowance_of(topic.owner)
    if not allowance.left:
        raise allowance.refusal()
