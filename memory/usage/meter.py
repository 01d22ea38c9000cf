"""Who pays for the calls of models, and the word that there is nothing left to pay with."""

from __future__ import annotations

from decimal import Decimal
from typing import Protocol

from beacon_site.providers.llm import Usage


class BudgetReached(Exception):
    """The run, or the month, may spend no more; the message says which limit and how much."""


class Meter(Protocol):
    """Whoever pays for a call: asked before, told after."""

    def check(self) -> None:
        """Raise BudgetReached if nothing more may be spent."""
        ...

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Take note of what a call has spent; None is a call whose price nobody knows."""
        ...
