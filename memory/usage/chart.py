"""What was spent as drawings: month by month, and a month topic by topic, in money and in tokens.

Data flow: months and lines of `spending.py` -> pillars and bars with their places and words.  Each
drawing says in its names what it shows; the tables of the page hold the same figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.usage import prices
from memory.usage.spending import Line, Month, Spent

MOST_MONTHS = 12
MOST_BARS = 8
STEP, WIDE, FOOT, HIGH = (
    58,
    34,
    118,
    88,
)  # in pixels: of a column, a pillar, the ground, the highest
Amount = Callable[[Spent], "Decimal | int"]


@dataclass(frozen=True, slots=True)
class Pillar:
    """One month: its pillar, its words, and its key where there is something to open."""

    x: int
    height: int
    label: str
    year: str
    amount: str
    words: str
    key: str
    is_unknown: bool

    @property
    def y(self) -> int:
        """Return where the pillar begins from above."""
        return FOOT - self.height

    @property
    def middle(self) -> int:
        """Return the middle of the pillar."""
        return self.x + WIDE // 2

    @property
    def amount_y(self) -> int:
        """Return the foot of the amount above the pillar."""
        return self.y - (18 if self.is_unknown else 6)

    @property
    def unknown_y(self) -> int:
        """Return where the open box of what has no known price begins."""
        return self.y - 14


@dataclass(frozen=True, slots=True)
class Bar:
    """One topic's share, in hundredths of the largest."""

    line: Line
    share: int
    amount: str


@dataclass(slots=True)
class Drawing:
    """One measure, money or tokens: pillars of months or bars of topics."""

    title: str
    words: str
    pillars: list[Pillar] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    left_out: int = 0

    @property
    def width(self) -> int:
        """Return how wide the drawing of months is."""
        return STEP * len(self.pillars) + 8


def of_months(months: Sequence[Month]) -> list[Drawing]:
    """Return the months (newest first, as `spending.months` gives them) in money and in tokens.

    The last twelve, months without a call between them too; nothing where there was no call.
    """
    if not any(month.spent.calls for month in months):
        return []
    by_first = {month.first: month.spent for month in months}
    shown = _without_a_gap(months[0].first, min(by_first))
    return [
        _months(_("Money a month"), shown, by_first, _money, _money_short, knows_unknown=True),
        _months(_("Tokens a month"), shown, by_first, _tokens, _tokens_short),
    ]


def of_lines(lines: Sequence[Line]) -> list[Drawing]:
    """Return one month's topics (or people) in money and in tokens; nothing for fewer than two."""
    if len(lines) < 2:
        return []
    return [
        _lines(_("Money"), lines, _money, lambda spent: spent.cost),
        _lines(_("Tokens"), lines, _tokens, lambda spent: f"{spent.tokens:,}"),
    ]


def _money(spent: Spent) -> Decimal:
    return spent.money


def _tokens(spent: Spent) -> int:
    return spent.tokens


def _money_short(spent: Spent) -> str:
    """Return the known money; a question mark where no price of it is known."""
    if spent.unpriced and not spent.money:
        return "?"
    return prices.dollars(spent.money) if spent.money else ""


def _tokens_short(spent: Spent) -> str:
    """Return tokens as they fit above a pillar: `950`, `12k`, `3.4M`."""
    count = spent.tokens
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f}M"
    if count >= 1_000:
        return f"{count // 1_000}k"
    return str(count) if count else ""


def _without_a_gap(last: date, first: date) -> list[date]:
    """Return the first days of the months up to `last`, at most MOST_MONTHS, oldest first."""
    found = [last]
    while found[-1] > first and len(found) < MOST_MONTHS:
        day = found[-1]
        found.append(date(day.year - (day.month == 1), (day.month - 2) % 12 + 1, 1))
    return found[::-1]


def _months(
    title: str,
    shown: Sequence[date],
    by_first: dict[date, Spent],
    amount_of: Amount,
    short: Callable[[Spent], str],
    *,
    knows_unknown: bool = False,
) -> Drawing:
    spents = [by_first.get(first, Spent()) for first in shown]
    most = max(amount_of(spent) for spent in spents)
    pillars = [
        Pillar(
            x=STEP * place + (STEP - WIDE) // 2,
            height=_part(amount_of(spent), most, HIGH),
            label=date_format(first, "M"),
            year=str(first.year) if place == 0 or first.month == 1 else "",
            amount=short(spent),
            words=_words(first, spent, knows_unknown=knows_unknown),
            key=f"{first:%Y-%m}" if first in by_first else "",
            is_unknown=knows_unknown and bool(spent.unpriced),
        )
        for place, (first, spent) in enumerate(zip(shown, spents, strict=True))
    ]
    ends = {"first": date_format(shown[0], "F Y"), "last": date_format(shown[-1], "F Y")}
    words = _("%(title)s, %(first)s to %(last)s") % {"title": title, **ends}
    return Drawing(title, words, pillars=pillars)


def _words(first: date, spent: Spent, *, knows_unknown: bool) -> str:
    if knows_unknown:
        told = spent.cost if spent.calls else prices.dollars(Decimal(0))
    else:
        told = ngettext("%(n)s token", "%(n)s tokens", spent.tokens) % {"n": f"{spent.tokens:,}"}
    return f"{date_format(first, 'F Y')}: {told}"


def _lines(
    title: str, lines: Sequence[Line], amount_of: Amount, told: Callable[[Spent], str]
) -> Drawing:
    ordered = sorted(lines, key=lambda line: (-amount_of(line.spent), line.label))
    most = amount_of(ordered[0].spent)
    bars = [
        Bar(line, _part(amount_of(line.spent), most, 100), told(line.spent))
        for line in ordered[:MOST_BARS]
    ]
    return Drawing(title, title, bars=bars, left_out=max(0, len(lines) - MOST_BARS))


def _part(amount: Decimal | int, most: Decimal | int, whole: int) -> int:
    """Return `amount` as its part of `whole`; what is there at all is to be seen."""
    return max(round(whole * amount / most), 2) if most and amount else 0
