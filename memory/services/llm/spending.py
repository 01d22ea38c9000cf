"""What model calls cost: amounts, monthly totals and limits, and the CSV export."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, Min, Q, QuerySet, Sum
from django.db.models.functions import TruncMonth
from django.utils import timezone

from beacon_site.text.cleaning import csv_lines
from beacon_site.text.dates import zone_of
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped, ngettext
from memory.models import ModelCall, Topic, User

MIN_SHOWN = Decimal("0.0001")


def dollars(money: Decimal) -> str:
    """Return an amount with as many decimals as it needs; zero is `$0`."""
    if not money:
        return "$0"
    if 0 < money < MIN_SHOWN:
        return _("less than %(least)s") % {"least": f"${MIN_SHOWN}"}
    return f"${money:,.2f}" if money >= Decimal("0.01") else f"${money:.4f}"


def format_tokens(count: int) -> str:
    return ngettext("%(n)s token", "%(n)s tokens", count) % {"n": grouped(count)}


def format_money(money: Decimal | None, unpriced: int = 0) -> str:
    """Return the amount spent; `unpriced` is the number of calls with an unknown price.

    An unknown price is never shown as zero: `unknown`, or `$1.20 + 3 calls whose price is unknown`.
    """
    if money is None or (unpriced and not money):
        return _("unknown")
    if not unpriced:
        return dollars(money)
    return ngettext(
        "%(money)s + 1 call with an unknown price",
        "%(money)s + %(count)d calls with an unknown price",
        unpriced,
    ) % {"money": dollars(money), "count": unpriced}


# --- spending ---

NEAR_SHARE = 80  # percent of a limit from which people are warned
MAX_RUNS = 10  # of a month, the most expensive ones
CSV_FIELDS = (
    "created",
    "account",
    "purpose",
    "model",
    "source",
    "topic",
    "prompt_tokens",
    "completion_tokens",
    "money",
    "milliseconds",
    "error",
)
_SUMS: dict[str, Any] = {
    "calls": Count("pk"),
    "asked": Sum("prompt_tokens"),
    "answered": Sum("completion_tokens"),
    "cost": Sum("money"),
    "unpriced": Count("pk", filter=Q(money=None)),
}


@dataclass(frozen=True, slots=True)
class UsageTotals:
    """Calls with their tokens and money; the price of `unpriced` of them is unknown."""

    calls: int = 0
    asked: int = 0
    answered: int = 0
    money: Decimal = Decimal(0)
    unpriced: int = 0

    @classmethod
    def of(cls, row: dict[str, Any]) -> UsageTotals:
        """Return the sums of one row of a query that selects `_SUMS`."""
        money = row["cost"] or Decimal(0)
        return cls(row["calls"], row["asked"] or 0, row["answered"] or 0, money, row["unpriced"])

    def __add__(self, other: UsageTotals) -> UsageTotals:
        return UsageTotals(
            self.calls + other.calls,
            self.asked + other.asked,
            self.answered + other.answered,
            self.money + other.money,
            self.unpriced + other.unpriced,
        )

    @property
    def tokens(self) -> int:
        return self.asked + self.answered

    @property
    def known_cost(self) -> str:
        """Return the cost of the calls with a known price."""
        return dollars(self.money)

    @property
    def cost(self) -> str:
        """Return the cost in words, including calls with an unknown price."""
        return format_money(self.money, self.unpriced)


@dataclass(frozen=True, slots=True)
class Limit:
    """One monthly limit: how much of it is used, in words and as a percentage."""

    label: str
    used: str
    most: str
    left: str
    share: int
    is_reached: bool

    @property
    def is_near(self) -> bool:
        """Return True if at least 80% is used, but not all of it."""
        return not self.is_reached and self.share >= NEAR_SHARE


Calls = QuerySet[ModelCall]


def calls_of(user: User) -> Calls:
    """Return the calls made on one person's behalf."""
    return ModelCall.objects.filter(owner=user).order_by()


def calls_of_all() -> Calls:
    """Return all accounts' calls, for admins."""
    return ModelCall.objects.order_by()


def month_began(user: User) -> datetime:
    """Return the start of the current month in the person's time zone."""
    now = timezone.localtime(timezone=zone_of(user.time_zone))
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def spent_this_month(user: User, topic: Topic | None = None) -> UsageTotals:
    """Return what the person's calls (or those for one topic) have cost this month."""
    return UsageTotals.of(calls_of_month(user, topic).aggregate(**_SUMS))


def calls_of_month(user: User, topic: Topic | None) -> Calls:
    calls = calls_of(user).filter(created__gte=month_began(user))
    return calls if topic is None else calls.filter(topic=topic)


def limits_of(user: User, spent: UsageTotals) -> list[Limit]:
    """Return the person's monthly limits and how much of them is used."""
    return limits_beside(user.monthly_tokens, user.monthly_money, spent)


def limits_beside(tokens: int | None, money: Decimal | None, spent: UsageTotals) -> list[Limit]:
    """Return limits of tokens and money and how much of them is used; None means no limit."""
    results = []
    if tokens is not None:
        left = max(tokens - spent.tokens, 0)
        words = (grouped(spent.tokens), grouped(tokens), grouped(left))
        results.append(_limit(_("Tokens"), words, spent.tokens, tokens))
    if money is not None:
        left_money = max(money - spent.money, Decimal(0))
        amounts = (spent.known_cost, dollars(money), dollars(left_money))
        results.append(_limit(_("Money"), amounts, spent.money, money))
    return results


def _limit(
    label: str, words: tuple[str, str, str], used: int | Decimal, most: int | Decimal
) -> Limit:
    share = min(int(100 * used / most), 100) if most else 100
    return Limit(label, *words, share=share, is_reached=used >= most)


def months(calls: Calls, viewer: User) -> dict[date, UsageTotals]:
    """Return the totals of months with calls and the current one by first day, newest first: 1 query.

    Months begin in the viewer's time zone.
    """
    zone = zone_of(viewer.time_zone)
    rows: Any = (
        calls.annotate(month=TruncMonth("created", tzinfo=zone))
        .values("month")
        .annotate(**_SUMS)
        .order_by("-month")
    )
    found = {row["month"].date(): UsageTotals.of(row) for row in rows}
    present = month_began(viewer).date()
    return found if present in found else {present: UsageTotals(), **found}


def chosen(found: Iterable[date], key: str) -> date | None:
    """Return the first day of the month in a URL (`2026-11`), by default the newest.

    None if there is no such month.
    """
    return next((first for first in found if key in ("", f"{first:%Y-%m}")), None)


def within(calls: Calls, first: date, viewer: User) -> Calls:
    """Return the calls of the month with this first day in the viewer's time zone."""
    zone = zone_of(viewer.time_zone)
    last = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    began, ended = (datetime(day.year, day.month, day.day, tzinfo=zone) for day in (first, last))
    return calls.filter(created__gte=began, created__lt=ended)


def detail(calls: Calls, *, whose: User | None) -> dict[str, list[dict[str, Any]]]:
    """Return one month's calls by model, topic and so on, the largest spender first: two queries.

    Each line has what it `spent`, and its `share` of the month in percent: of its cost, or of its
    tokens if nothing is known to cost. If `whose` is None, all accounts' calls are included, by
    account instead of by topic, because topics are private.
    """
    rows: Any = list(
        calls.values(
            "model",
            "purpose",
            "owner__username",
            "owner__display_name",
            "topic__title",
            "topic__slug",
            "topic__trashed_at",
        ).annotate(**_SUMS)
    )
    found = {
        "by_model": _totals_by_label(rows, lambda row: (row["model"], "")),
        "by_purpose": _totals_by_label(rows, lambda row: (ModelCall.aim_of(row["purpose"]), "")),
    }
    if whose is None:
        found["by_person"] = _totals_by_label(rows, _person)
    else:
        found |= {"by_topic": _totals_by_label(rows, _topic), "runs": list(_runs(calls))}
    total = sum((UsageTotals.of(row) for row in rows), UsageTotals())
    for line in (line for lines in found.values() for line in lines):
        spent: UsageTotals = line["spent"]
        if total.money:
            line["share"] = round(100 * spent.money / total.money)
        else:
            line["share"] = round(100 * spent.tokens / (total.tokens or 1))
    return found


def _totals_by_label(
    rows: Iterable[dict[str, Any]], name_of: Callable[[dict[str, Any]], tuple[str, str]]
) -> list[dict[str, Any]]:
    """Return one line for each label and slug that `name_of` returns, most expensive first."""
    sums: dict[tuple[str, str], UsageTotals] = defaultdict(UsageTotals)
    for row in rows:
        sums[name_of(row)] += UsageTotals.of(row)
    ordered = sorted(sums.items(), key=lambda one: (-one[1].money, -one[1].tokens, one[0][0]))
    return [{"label": label, "slug": slug, "spent": spent} for (label, slug), spent in ordered]


def _person(row: dict[str, Any]) -> tuple[str, str]:
    # Names can be the same, usernames can't.
    name, username = row["owner__display_name"], row["owner__username"]
    return f"{name} ({username})" if name else username, ""


def _topic(row: dict[str, Any]) -> tuple[str, str]:
    if row["topic__slug"] is None:
        return _("no topic or deleted topic"), ""
    return row["topic__title"], row["topic__slug"] if row["topic__trashed_at"] is None else ""


def _runs(calls: Calls) -> Iterator[dict[str, Any]]:
    """Yield the most expensive runs; memory knows a run only by its source (`run:12`)."""
    of_runs: Any = calls.filter(
        source__startswith="run:", topic__isnull=False, topic__trashed_at=None
    )
    rows = (
        of_runs.values("source", "topic__title", "topic__slug")
        .annotate(at=Min("created"), **_SUMS)
        .order_by(F("cost").desc(nulls_last=True), "-asked", "source")
    )
    for row in rows[:MAX_RUNS]:
        number = row["source"].removeprefix("run:")
        if number.isdecimal():
            yield {
                "label": row["topic__title"],
                "slug": row["topic__slug"],
                "spent": UsageTotals.of(row),
                "run": int(number),
                "at": row["at"],
            }


def as_csv(calls: Calls, *, whose: User | None) -> str:
    """Return one line per call, oldest first; an unknown price is an empty cell.

    All accounts' calls (`whose` is None) come without the topic and the error, which are private.
    """
    rows = calls.order_by("pk").values(
        *(name for name in CSV_FIELDS if name not in ("account", "topic")),
        account=F("owner__username"),
        topic_title=F("topic__title"),
    )
    shown = (
        row
        | {"created": row["created"].isoformat(timespec="seconds"), "topic": row["topic_title"]}
        | ({"topic": "", "error": ""} if whose is None else {})
        for row in rows.iterator()
    )
    return "".join(csv_lines(CSV_FIELDS, shown))
