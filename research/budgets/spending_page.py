"""What the months of topics may cost and have cost, as their pages show it."""

from __future__ import annotations

from typing import Any

from memory.usage.spending import Limit, limits_beside, spent_this_month


def month_of(topic: Any) -> list[Limit]:
    """Return the limits of the topic's own month beside what it spent: a query if it has any."""
    tokens, money = topic.settings.month_tokens, topic.settings.month_money
    if tokens is None and money is None:
        return []
    return limits_beside(tokens, money, spent_this_month(topic.owner, topic))
