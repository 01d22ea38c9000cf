"""Whether a run still fits into what its topic's month and its owner's month have left."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from memory.models import Topic
from memory.usage import prices, spending
from memory.usage.month_budget import MonthLimits, limits_of
from research.budgets import forecasting
from research.budgets.forecasting import Forecast
from research.models import TopicSettings
from research.models.effective_settings import settings_now


@dataclass(frozen=True, slots=True)
class Left:
    """What a month has left; None where there is no limit."""

    tokens: int | None = None
    money: Decimal | None = None


def left_of(topic: Topic, settings: TopicSettings) -> Left:
    """Return what is left of the topic's month and of its owner's: the smaller of both."""
    own = MonthLimits(settings.month_tokens, settings.month_money)
    pairs = [(own, topic), (limits_of(topic.owner), None)]
    tokens: list[int] = []
    money: list[Decimal] = []
    for limits, of in pairs:
        if not limits:
            continue
        spent = spending.spent_this_month(topic.owner, of)
        if limits.tokens is not None:
            tokens.append(max(0, limits.tokens - spent.tokens))
        if limits.money is not None:
            money.append(max(Decimal(0), limits.money - spent.money))
    return Left(min(tokens, default=None), min(money, default=None))


def why_not(forecast: Forecast, left: Left) -> str:
    """Return why a run of that forecast does not fit into what is left, or nothing if it does.

    Held against the middle of the forecast.  A cost that is not known is held against nothing,
    and a run without a model costs nothing.
    """
    if not forecast.has_model:
        return ""
    if left.tokens is not None and left.tokens < max(1, forecast.middle_tokens):
        return _("it takes about %(need)s tokens, and the month has %(left)s left") % {
            "need": f"{forecast.middle_tokens:,}",
            "left": f"{left.tokens:,}",
        }
    need = forecast.middle_money
    if left.money is not None and need and left.money < need:
        return _("it takes about %(need)s, and the month has %(left)s left") % {
            "need": prices.dollars(need),
            "left": prices.dollars(left.money),
        }
    return ""


@dataclass(frozen=True, slots=True)
class Fit:
    """What becomes of a scheduled run: `why` it does not fit, and what it is run with instead."""

    why: str = ""
    smaller: dict[str, Any] | None = None


def fit_of(topic: Any) -> Fit:
    """Return whether the topic's scheduled run fits, and what its owner chose if it does not."""
    settings: TopicSettings = topic.settings
    left = left_of(topic, settings)
    if left == Left():
        return Fit()
    why = why_not(forecasting.forecast_of(topic), left)
    if not why or settings.over_limit == TopicSettings.OverLimit.SKIP:
        return Fit(why)
    return Fit(why, _smaller(topic, left))


def _smaller(topic: Topic, left: Left) -> dict[str, Any]:
    """Return the fields of a run that stays within what is left: quick, and a skim.

    With nothing left it plans and writes without the model.
    """
    asked = settings_now(topic) | {
        "depth": TopicSettings.Depth.QUICK.value,
        "reading": TopicSettings.Reading.SKIM.value,
    }
    if left.tokens is not None:
        asked["max_tokens"] = max(1, min(left.tokens, asked["max_tokens"] or left.tokens))
    if left.money is not None:
        asked["max_money"] = str(min(left.money, Decimal(asked["max_money"] or left.money)))
    return {"depth": TopicSettings.Depth.QUICK.value, "settings": asked}
