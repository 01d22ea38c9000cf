"""`/topics/{slug}/forecast`: what the next run will probably take, and what the month has left."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field

from memory.api.shown import Textless
from memory.models import Topic
from research.budgets import fitting, forecasting
from research.models import TopicSettings


class RangeOut(BaseModel):
    """From the least to the most."""

    low: int
    high: int


class MoneyOut(BaseModel):
    """From the least to the most, in dollars."""

    low: str
    high: str


class ForecastOut(Textless):
    """What a run will probably take, and whether a scheduled one would fit into the month."""

    depth: TopicSettings.Depth
    basis: str = Field(description="topic: its own runs; others: the owner's; usual: none yet.")
    runs: int = Field(description="How many runs it rests on.")
    tokens: RangeOut
    money: MoneyOut | None = Field(description="null: the model's price is not known.")
    minutes: RangeOut
    searches: RangeOut
    has_model: bool
    tokens_left: int | None = Field(description="Of this month; null: no limit.")
    money_left: str | None = Field(description="Of this month, in dollars; null: no limit.")
    does_not_fit: str = Field(description="Why a scheduled run would not fit; empty if it does.")
    words: str

    @classmethod
    def of(cls, topic: Topic, depth: str = "") -> Self:
        """Return the forecast of a topic whose settings and owner are loaded."""
        found = forecasting.forecast_of(topic, depth)
        settings = TopicSettings.objects.get(topic=topic)
        left = fitting.left_of(topic, settings)
        money = found.money and MoneyOut(low=f"{found.money[0]:f}", high=f"{found.money[1]:f}")
        return cls(
            depth=TopicSettings.Depth(found.depth),
            basis=found.basis,
            runs=found.runs,
            tokens=RangeOut(low=found.tokens[0], high=found.tokens[1]),
            money=money or None,
            minutes=RangeOut(low=found.minutes[0], high=found.minutes[1]),
            searches=RangeOut(low=found.searches[0], high=found.searches[1]),
            has_model=found.has_model,
            tokens_left=left.tokens,
            money_left=None if left.money is None else f"{left.money:f}",
            does_not_fit=fitting.why_not(found, left),
            words=f"{found.words} ({found.basis_words})",
        )
