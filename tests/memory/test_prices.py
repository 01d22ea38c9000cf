"""Prices as text: an unknown price is never shown as zero."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from memory.services.llm import spending
from memory.services.llm.connections import stored_price


@pytest.mark.parametrize(
    ("money", "unpriced", "words"),
    [
        (Decimal(0), 0, "$0"),
        (Decimal("0.00042"), 0, "$0.0004"),
        (Decimal("0.0001"), 0, "$0.0001"),
        (Decimal("0.000099"), 0, "less than $0.0001"),
        (Decimal("0.000001"), 2, "less than $0.0001 + 2 calls with an unknown price"),
        (Decimal("1234.5"), 0, "$1,234.50"),
        (None, 0, "unknown"),
        (Decimal(0), 2, "unknown"),
        (Decimal("1.2"), 1, "$1.20 + 1 call with an unknown price"),
        (Decimal("1.2"), 3, "$1.20 + 3 calls with an unknown price"),
    ],
)
def test_what_was_spent_is_explained_with_what_is_not_known(
    money: Decimal | None, unpriced: int, words: str
) -> None:
    assert spending.format_money(money, unpriced) == words


@pytest.mark.parametrize(
    ("stored", "price"),
    [
        (None, None),
        ("", None),
        ("0", Decimal(0)),
        ("0.15", Decimal("0.15")),
        ("-1", None),
        ("NaN", None),
        ("much", None),
    ],
)
def test_a_stored_price_is_an_amount_or_not_known(stored: Any, price: Decimal | None) -> None:
    assert stored_price(stored) == price
