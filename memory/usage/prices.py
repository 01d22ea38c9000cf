"""Amounts of money as people read them, where a price may be unknown."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

LEAST_SHOWN = Decimal("0.0001")


def stored_price(value: Any) -> Decimal | None:
    """Return a stored price as an amount; None where none is stored: it is not known."""
    if value is None or value == "":
        return None
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return None
    return amount if amount.is_finite() and amount >= 0 else None


def dollars(money: Decimal) -> str:
    """Return an amount with as many decimals as it takes to see it; nothing is `$0`."""
    if not money:
        return "$0"
    if 0 < money < LEAST_SHOWN:
        return _("less than %(least)s") % {"least": f"${LEAST_SHOWN}"}
    return f"${money:,.2f}" if money >= Decimal("0.01") else f"${money:.4f}"


def in_words(money: Decimal | None, unpriced: int = 0) -> str:
    """Return what was spent; `unpriced` of the calls behind it have a price nobody knows.

    An unknown price is never said as nothing: `unknown`, `$1.20 + 3 calls whose price is unknown`.
    """
    if money is None or (unpriced and not money):
        return _("unknown")
    if not unpriced:
        return dollars(money)
    return ngettext(
        "%(money)s + one call whose price is unknown",
        "%(money)s + %(count)d calls whose price is unknown",
        unpriced,
    ) % {"money": dollars(money), "count": unpriced}
