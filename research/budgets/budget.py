"""What a run, and a month, may spend."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from decimal import Decimal

from django.db.models import F, Sum
from django.utils.translation import gettext as _

from beacon_site.providers.llm import Usage
from memory.models import ModelCall
from memory.usage.meter import BudgetReached
from memory.usage.month_budget import MonthLimits, check_month, check_topics_month
from research.budgets import warnings as budget_warnings
from research.budgets.depth import DEPTHS, TRACKS_TOKENS, depth_of
from research.models import Run, Step, TopicSettings


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of one run; `money` None means no limit of its own.

    `month` is what all runs of its topic may spend together in a month.
    """

    tokens: int
    pages: int
    minutes: int
    money: Decimal | None = None
    month: MonthLimits = field(default_factory=MonthLimits)


NORMAL = DEPTHS[TopicSettings.Reading.NORMAL]
# design.md 4: quick 15 minutes, deep 45.  Pages are those of the depth of reading, and so are the
# tokens, beside what the tracks of a deep run may spend.
DEFAULTS = {
    "quick": Budget(tokens=NORMAL.tokens, pages=NORMAL.pages, minutes=15),
    "deep": Budget(tokens=NORMAL.tokens + TRACKS_TOKENS, pages=NORMAL.pages, minutes=45),
}


def budget_of(run: Run, settings: TopicSettings) -> Budget:
    """Return the run's limits: the topic's own, else those of its depth and of its reading."""
    return budget_for(settings, run.depth)


def budget_for(settings: TopicSettings, depth: str) -> Budget:
    """Return the limits of a run of that depth with these settings."""
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
    """Counts what a run's model calls spend, on the run and on the step that makes them."""

    def __init__(self, run: Run, budget: Budget) -> None:
        self.run = run
        self.budget = budget
        self.step: Step | None = None

    def count_follow_ups(self) -> None:
        """Count what the run's follow-ups have spent: it stands on their steps, not on the run.

        The run's own row is its own once it has ended.
        """
        spent = self.run.steps.filter(is_follow_up=True).aggregate(
            prompt=Sum("prompt_tokens"), completion=Sum("completion_tokens"), money=Sum("money")
        )
        self.run.prompt_tokens += spent["prompt"] or 0
        self.run.completion_tokens += spent["completion"] or 0
        self.run.money += spent["money"] or 0

    def check(self) -> None:
        """Raise BudgetReached if the run, or its owner's month, may pay for no further call."""
        run, budget = self.run, self.budget
        if run.tokens >= budget.tokens:
            raise BudgetReached(
                _("the run's budget of %(most)d tokens is used up (%(have)d)")
                % {"most": budget.tokens, "have": run.tokens}
            )
        if budget.money is not None and run.money >= budget.money:
            raise BudgetReached(
                _("the run's budget of $%(most)s is used up ($%(have).4f)")
                % {"most": budget.money, "have": run.money}
            )
        check_topics_month(run.topic, budget.month)
        check_month(run.topic.owner)

    def check_time(self) -> None:
        """Raise BudgetReached if the run has worked for as long as it may."""
        run, budget = self.run, self.budget
        worked = run.worked_seconds + time.monotonic() - run.claimed
        if worked / 60 >= budget.minutes:
            raise BudgetReached(_("the run's %(most)d minutes are over") % {"most": budget.minutes})

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Add what one call spent to the run and its step; `money` None is an unknown price."""
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
        budget_warnings.tell_if_near(self.run, self.budget.month)

    def _warn_of_unknown_price(self) -> None:
        """Say once that a limit of money cannot be kept; the limit of tokens goes on."""
        limits = (self.budget.money, self.budget.month.money, self.run.topic.owner.monthly_money)
        if all(limit is None for limit in limits):
            return
        unpriced = ModelCall.objects.filter(source=self.run.source, money=None)
        for model in unpriced.order_by("-id").values_list("model", flat=True)[:1]:
            self.run.warn(
                _(
                    "The limit of money cannot be kept: the price of %(model)s is not set. The "
                    "run goes on under its limit of %(most)d tokens. Staff can enter the price "
                    "in Settings, Connections."
                )
                % {"model": model, "most": self.budget.tokens}
            )
