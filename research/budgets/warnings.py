"""Saying that a month's limit is nearly used up: once a month for each limit, and on the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from django.utils.translation import gettext as _

from memory.actors import RESEARCH
from memory.models import Activity
from memory.usage import spending
from memory.usage.month_budget import MonthLimits, limits_of
from memory.usage.spending import Limit
from research.models import Run, RunLost

NEAR = "budget-near"  # the kind of the activity log's line


def tell_if_near(run: Run, topics: MonthLimits) -> None:
    """Warn on the run, and in the log, of each limit of which four fifths or more are used."""
    for name, words in _near(run, topics):
        owner = run.topic.owner
        with suppress(
            RunLost
        ):  # a follow-up's: its run has ended, and the log says it all the same
            run.warn(words)
        lines = Activity.objects.filter(owner=owner, kind=NEAR, detail__limit=name)
        if not lines.filter(created__gte=spending.month_began(owner)).exists():
            Activity.log(
                owner, RESEARCH, NEAR, subject=run.topic, warning=True, why=words, limit=name
            )


def _near(run: Run, topics: MonthLimits) -> Iterator[tuple[str, str]]:
    """Yield a name and a sentence for each limit that is nearly used up."""
    topic, owner = run.topic, run.topic.owner
    asked: list[tuple[str, MonthLimits, Any]] = [
        (f"topic:{topic.pk}", topics, topic),
        ("month", limits_of(owner), None),
    ]
    for name, limits, of in asked:
        if not limits:
            continue
        spent = spending.spent_this_month(owner, of)
        for place, limit in enumerate(
            spending.limits_beside(limits.tokens, limits.money, spent), start=1
        ):
            if limit.is_near or limit.is_reached:
                yield f"{name}:{place}", _in_words(limit, is_topics=of is not None)


def _in_words(limit: Limit, *, is_topics: bool) -> str:
    """Return how much of a limit is used; the fifth that it passed, so that it is said once."""
    values = {"label": limit.label.lower(), "most": limit.most}
    if is_topics:
        return _("80 %% or more of this topic's month of %(most)s (%(label)s) are used") % values
    return _("80 %% or more of your month of %(most)s (%(label)s) are used") % values
