"""Budgets: how deeply a topic's runs read, and the limits of runs and months."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.db.models import F, Sum

from beacon_site.db.leased_jobs import JobLost
from beacon_site.providers.llm.base import Usage
from beacon_site.text.messages import gettext as _
from memory.models import Activity, ModelCall
from memory.models.actors import RESEARCH
from memory.services.llm import spending
from memory.services.llm.asking import (
    BudgetReached,
    MonthLimits,
    check_month,
    check_topics_month,
    limits_of,
)
from memory.services.llm.spending import Limit
from research.models import Run, Step, TopicSettings

Choice = TopicSettings.Reading


@dataclass(frozen=True, slots=True)
class Depth:
    """The `pages` and `tokens` of a run, unless the topic has its own budget.

    `text` is how many characters of a page findings are extracted from without a model. `prompt` is
    how many enter the writing prompt. A model with a small context window gets fewer.
    """

    pages: int
    tokens: int
    text: int
    prompt: int


# 24 pages and 60,000 tokens are enough for six queries and one report, with room for a repair
# round. Extracting from 48 pages of 120,000 characters takes about a minute
# (docs/dev/benchmarks.md), so a thorough run fits in its 15 minutes.
DEPTHS = {
    Choice.SKIM: Depth(pages=8, tokens=30_000, text=15_000, prompt=2_500),
    Choice.NORMAL: Depth(pages=24, tokens=60_000, text=60_000, prompt=6_000),
    Choice.THOROUGH: Depth(pages=48, tokens=150_000, text=120_000, prompt=12_000),
}


# What the tracks of a deep run can spend in addition to reading and the report: three tracks of
# eight rounds with about 12,000 tokens each, because the content store keeps prompts short.
TRACKS_TOKENS = 300_000


def depth_of(settings: TopicSettings) -> Depth:
    return DEPTHS[Choice(settings.reading)]


# --- warnings ---

NEAR = "budget-near"  # a kind of line in the activity log


def warn_near_limits(run: Run, topics: MonthLimits) -> None:
    """Warn on the run and in the activity log about each limit that is at least 80 % used."""
    for name, words in _nearly_used_up(run, topics):
        owner = run.topic.owner
        # the run of a follow-up has ended, but the log still gets the warning
        with suppress(JobLost):
            run.warn(words)
        lines = Activity.objects.filter(owner=owner, kind=NEAR, detail__limit=name)
        if not lines.filter(created__gte=spending.month_began(owner)).exists():
            Activity.log(
                owner, RESEARCH, NEAR, subject=run.topic, warning=True, why=words, limit=name
            )


def _nearly_used_up(run: Run, topics: MonthLimits) -> Iterator[tuple[str, str]]:
    """Yield a name and a sentence for each limit that is nearly used up."""
    topic, owner = run.topic, run.topic.owner
    rows: list[tuple[str, MonthLimits, Any]] = [
        (f"topic:{topic.pk}", topics, topic),
        ("month", limits_of(owner), None),
    ]
    for name, limits, of in rows:
        if not limits:
            continue
        spent = spending.spent_this_month(owner, of)
        for place, limit in enumerate(
            spending.limits_beside(limits.tokens, limits.money, spent), start=1
        ):
            if limit.is_near or limit.is_reached:
                yield f"{name}:{place}", _describe(limit, is_topics=of is not None)


def _describe(limit: Limit, *, is_topics: bool) -> str:
    """Return a warning that a limit is 80 % used. Its key prevents duplicates."""
    values = {"label": limit.label.lower(), "most": limit.most}
    if is_topics:
        return (
            _("This topic has used at least 80%% of its monthly limit (%(label)s: %(most)s)")
            % values
        )
    return _("You’ve used at least 80%% of your monthly limit (%(label)s: %(most)s)") % values


# --- budgets ---


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one run. Without `money` there is no cost limit.

    `month` is the shared monthly limit of all runs of the topic.
    """

    tokens: int
    pages: int
    minutes: int
    money: Decimal | None = None
    month: MonthLimits = field(default_factory=MonthLimits)


NORMAL = DEPTHS[TopicSettings.Reading.NORMAL]
# The depth of reading sets pages and tokens. A deep run adds tokens for its tracks.
DEFAULTS = {
    "quick": Budget(tokens=NORMAL.tokens, pages=NORMAL.pages, minutes=15),
    "deep": Budget(tokens=NORMAL.tokens + TRACKS_TOKENS, pages=NORMAL.pages, minutes=45),
}


def budget_for(settings: TopicSettings, depth: str) -> Budget:
    """Return a run's limits: the topic's own, or the defaults for its depth and reading."""
    default, reading = DEFAULTS[depth], depth_of(settings)
    further = default.tokens - NORMAL.tokens
    return Budget(
        tokens=settings.max_tokens or reading.tokens + further,
        pages=settings.max_pages or reading.pages,
        minutes=settings.max_minutes or default.minutes,
        money=settings.max_money if settings.max_money is not None else default.money,
        month=MonthLimits(settings.month_tokens, settings.month_money),
    )


class RunMeter:
    """Counts the tokens and cost of a run's model calls, on the run and on the calling step."""

    def __init__(self, run: Run, budget: Budget) -> None:
        self.run = run
        self.budget = budget
        self.step: Step | None = None

    def count_follow_ups(self) -> None:
        """Count what the run's follow-ups have spent, from their steps.

        The run's own row doesn't change after it has ended.
        """
        spent = self.run.steps.filter(is_follow_up=True).aggregate(
            prompt=Sum("prompt_tokens"), completion=Sum("completion_tokens"), money=Sum("money")
        )
        self.run.prompt_tokens += spent["prompt"] or 0
        self.run.completion_tokens += spent["completion"] or 0
        self.run.money += spent["money"] or 0

    def check(self) -> None:
        """Raise BudgetReached if the run or its owner has reached a limit."""
        run, budget = self.run, self.budget
        if run.tokens >= budget.tokens:
            raise BudgetReached(
                _("the run reached its limit of %(most)d tokens (%(have)d used)")
                % {"most": budget.tokens, "have": run.tokens}
            )
        if budget.money is not None and run.money >= budget.money:
            raise BudgetReached(
                _("the run reached its limit of $%(most)s ($%(have).4f used)")
                % {"most": budget.money, "have": run.money}
            )
        check_topics_month(run.topic, budget.month)
        check_month(run.topic.owner)

    def check_time(self) -> None:
        run, budget = self.run, self.budget
        worked = run.worked_seconds + time.monotonic() - run.claimed
        if worked / 60 >= budget.minutes:
            raise BudgetReached(
                _("the run reached its time limit of %(most)d min") % {"most": budget.minutes}
            )

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Add one call to the run and its step. `money` is None if the price is unknown."""
        unpriced = int(money is None)
        spent = {
            "prompt_tokens": F("prompt_tokens") + usage.prompt_tokens,
            "completion_tokens": F("completion_tokens") + usage.completion_tokens,
            "money": F("money") + (money or 0),
            "unpriced_calls": F("unpriced_calls") + unpriced,
        }
        self.run.held().update(
            model_calls=F("model_calls") + 1, progress=F("progress") + 1, **spent
        )
        self.run.prompt_tokens += usage.prompt_tokens
        self.run.completion_tokens += usage.completion_tokens
        self.run.money += money or 0
        self.run.unpriced_calls += unpriced
        self.run.model_calls += 1
        if self.step is not None:
            Step.objects.filter(pk=self.step.pk).update(**spent)
        if unpriced:
            self._warn_of_unknown_price()
        warn_near_limits(self.run, self.budget.month)

    def _warn_of_unknown_price(self) -> None:
        """Warn once that a cost limit can't be enforced; the token limit still applies."""
        limits = (self.budget.money, self.budget.month.money, self.run.topic.owner.monthly_money)
        if all(limit is None for limit in limits):
            return
        unpriced = ModelCall.objects.filter(source=self.run.source, money=None)
        for model in unpriced.order_by("-id").values_list("model", flat=True)[:1]:
            self.run.warn(
                _(
                    "The cost limit can’t be enforced because the price of %(model)s isn’t set. The "
                    "run’s limit of %(most)d tokens still applies. An admin can enter the price in "
                    "Settings → Models and search."
                )
                % {"model": model, "most": self.budget.tokens}
            )
