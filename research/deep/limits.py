"""How far one track of a deep run may go, and who pays for it."""

from __future__ import annotations

from decimal import Decimal

from django.utils.translation import gettext as _

from beacon_site.providers.llm import Usage
from memory.usage.meter import BudgetReached
from research.budgets.budget import RunMeter
from research.budgets.depth import depth_of
from research.working.context import RunContext, TaskOver

ROUNDS = 8  # of tool calls in one track; then it is asked for its notes
ANSWER_TOKENS = 1_500  # of one answer of the model
# No round of a track begins after so many seconds; a track that would have fewer before the task
# ends (12 minutes) waits for the next one: cut off each time it would begin anew for ever.
MOST_SECONDS, LEAST_SECONDS = 360.0, 180.0
FOR_LAST_ROUND = 60.0  # beside the model's own time limit: the pages that it opens


class ShareUsed(BudgetReached):
    """A track has spent its share of the run's tokens; the others, and the report, have theirs."""


class TrackMeter:
    """Counts what a track spends on the run, and stops it at its share."""

    def __init__(self, meter: RunMeter, share: int) -> None:
        self._meter = meter
        self._share = share
        self._most = meter.run.tokens + share

    def check(self) -> None:
        """Raise BudgetReached if the run may spend nothing more, or ShareUsed if the track may not."""
        self._meter.check()
        if self._meter.run.tokens >= self._most:
            words = _("its share of the run's budget, %(share)s tokens, is used up")
            raise ShareUsed(words % {"share": f"{self._share:,}"})

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Add what a call spent to the run and to the track's row."""
        self._meter.count(usage, money)


def share_of(work: RunContext, tracks_left: int) -> int:
    """Return the tokens that the next of so many tracks may spend; the report's are kept back."""
    most = work.budget.tokens
    for_report = min(depth_of(work.settings).tokens, most // 2)
    return max(0, most - for_report - work.run.tokens) // max(1, tracks_left)


def seconds_for(work: RunContext, timeout: float) -> float:
    """Return for how long a track may begin rounds now; `timeout` is that of one model call.

    Raises TaskOver where this task has too little time left.
    """
    seconds = work.seconds_left - timeout - FOR_LAST_ROUND
    if seconds < LEAST_SECONDS:
        raise TaskOver
    return min(seconds, MOST_SECONDS)
