"""Amounts of money as people read them, where a price may be unknown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from django.db.models import Count, F, Min, Q, QuerySet, Sum
from django.db.models.functions import TruncMonth
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.http import zone_of
from beacon_site.text.cleaning import cell
from memory.models import ModelCall, Topic, User

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
        "%(money)s + 1 call with an unknown price",
        "%(money)s + %(count)d calls with an unknown price",
        unpriced,
    ) % {"money": dollars(money), "count": unpriced}


# --- spending ---

NEAR_SHARE = 80  # of a hundred of a limit: from here on people are warned
MOST_RUNS = 10  # of a month, those that spent most
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
class Spent:
    """Calls with their tokens and money; `unpriced` of them have a price that is not known."""

    calls: int = 0
    asked: int = 0
    answered: int = 0
    money: Decimal = Decimal(0)
    unpriced: int = 0

    @classmethod
    def of(cls, row: dict[str, Any]) -> Spent:
        """Return the sums of one row of a query that asks for `_SUMS`."""
        money = row["cost"] or Decimal(0)
        return cls(row["calls"], row["asked"] or 0, row["answered"] or 0, money, row["unpriced"])

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.calls + other.calls,
            self.asked + other.asked,
            self.answered + other.answered,
            self.money + other.money,
            self.unpriced + other.unpriced,
        )

    @property
    def tokens(self) -> int:
        """Return the tokens asked and answered."""
        return self.asked + self.answered

    @property
    def known_cost(self) -> str:
        """Return the money of the calls whose price is known."""
        return dollars(self.money)

    @property
    def cost(self) -> str:
        """Return the money in words, the calls of unknown price named."""
        return in_words(self.money, self.unpriced)


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table: what it is, where it leads (its words only if nowhere), what it spent."""

    label: str
    spent: Spent
    slug: str = ""
    run: int = 0
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Month:
    """A month by its first day, and what was spent in it."""

    first: date
    spent: Spent

    @property
    def key(self) -> str:
        """Return the month as the address holds it: `2026-11`."""
        return f"{self.first:%Y-%m}"


@dataclass(slots=True)
class Detail:
    """One month in its parts, each part's largest spender first."""

    by_model: list[Line] = field(default_factory=list)
    by_purpose: list[Line] = field(default_factory=list)
    by_topic: list[Line] = field(default_factory=list)
    by_person: list[Line] = field(default_factory=list)
    runs: list[Line] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a person's month: how much of it is used, in words and as a share of 100."""

    label: str
    used: str
    most: str
    left: str
    share: int
    is_reached: bool

    @property
    def is_near(self) -> bool:
        """Whether four fifths of it or more are used, and something is left."""
        return not self.is_reached and self.share >= NEAR_SHARE


Calls = QuerySet[ModelCall]


def calls_of(user: User) -> Calls:
    """Return the calls made on one person's behalf."""
    return ModelCall.objects.filter(owner=user).order_by()


def calls_of_all() -> Calls:
    """Return everybody's calls, for staff."""
    return ModelCall.objects.order_by()


def month_began(user: User) -> datetime:
    """Return the first moment of the month that it is where the person lives."""
    now = timezone.localtime(timezone=zone_of(user.time_zone))
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def spent_this_month(user: User, topic: Topic | None = None) -> Spent:
    """Return what the person's calls, or those for one topic, spent since the month's first."""
    return Spent.of(calls_of_month(user, topic).aggregate(**_SUMS))


def calls_of_month(user: User, topic: Topic | None = None) -> Calls:
    """Return the person's calls since the month's first, or those for one topic."""
    calls = calls_of(user).filter(created__gte=month_began(user))
    return calls if topic is None else calls.filter(topic=topic)


def limits_of(user: User, spent: Spent) -> list[Limit]:
    """Return the limits that the person's month has, beside what is spent of them."""
    return limits_beside(user.monthly_tokens, user.monthly_money, spent)


def limits_beside(tokens: int | None, money: Decimal | None, spent: Spent) -> list[Limit]:
    """Return limits of tokens and money beside what is spent of them; None is no limit."""
    found = []
    if tokens is not None:
        left = max(tokens - spent.tokens, 0)
        words = (f"{spent.tokens:,}", f"{tokens:,}", f"{left:,}")
        found.append(_limit(_("Tokens"), words, spent.tokens, tokens))
    if money is not None:
        left_money = max(money - spent.money, Decimal(0))
        amounts = (spent.known_cost, dollars(money), dollars(left_money))
        found.append(_limit(_("Money"), amounts, spent.money, money))
    return found


def _limit(
    label: str, words: tuple[str, str, str], used: int | Decimal, most: int | Decimal
) -> Limit:
    share = min(int(100 * used / most), 100) if most else 100
    return Limit(label, *words, share=share, is_reached=used >= most)


def months(calls: Calls, viewer: User) -> list[Month]:
    """Return the months in which there were calls, the newest first, and the present one: 1 query.

    Months begin where the viewer lives.
    """
    zone = zone_of(viewer.time_zone)
    rows: Any = (
        calls.annotate(month=TruncMonth("created", tzinfo=zone))
        .values("month")
        .annotate(**_SUMS)
        .order_by("-month")
    )
    found = [Month(row["month"].date(), Spent.of(row)) for row in rows]
    present = month_began(viewer).date()
    if present not in {month.first for month in found}:
        found.insert(0, Month(present, Spent()))
    return found


def chosen(found: list[Month], key: str) -> Month | None:
    """Return the month that an address names, the newest for none; None if there is none such."""
    if not key:
        return found[0]
    return next((month for month in found if month.key == key), None)


def within(calls: Calls, month: Month, viewer: User) -> Calls:
    """Return the calls of one month, as it is where the viewer lives."""
    zone = zone_of(viewer.time_zone)
    first, last = (
        month.first,
        date(month.first.year + month.first.month // 12, month.first.month % 12 + 1, 1),
    )
    began, ended = (datetime(day.year, day.month, day.day, tzinfo=zone) for day in (first, last))
    return calls.filter(created__gte=began, created__lt=ended)


def detail(calls: Calls, *, whose: User | None) -> Detail:
    """Return one month's calls in their parts, by two queries.

    With `whose` None the calls are everybody's: their topics are nobody else's to see, so the
    accounts stand in their place.
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
    found = Detail(
        by_model=_lines(rows, lambda row: Line(row["model"], Spent.of(row))),
        by_purpose=_lines(rows, lambda row: Line(ModelCall.aim_of(row["purpose"]), Spent.of(row))),
    )
    if whose is None:
        found.by_person = _lines(rows, _person)
    else:
        found.by_topic = _lines(rows, _topic)
        found.runs = list(_runs(calls))
    return found


def _lines(rows: Iterable[dict[str, Any]], line_of: Any) -> list[Line]:
    """Return one line for each name that `line_of` gives, what spent most first."""
    sums: dict[tuple[str, str], Spent] = {}
    for row in rows:
        line = line_of(row)
        name = (line.label, line.slug)
        sums[name] = sums.get(name, Spent()) + line.spent
    lines = [Line(label, spent, slug) for (label, slug), spent in sums.items()]
    return sorted(lines, key=lambda line: (-line.spent.money, -line.spent.tokens, line.label))


def _person(row: dict[str, Any]) -> Line:
    # Names may be alike, usernames may not.
    name, username = row["owner__display_name"], row["owner__username"]
    return Line(f"{name} ({username})" if name else username, Spent.of(row))


def _topic(row: dict[str, Any]) -> Line:
    if row["topic__slug"] is None:
        return Line(_("no topic, or a deleted one"), Spent.of(row))
    is_open = row["topic__trashed_at"] is None
    return Line(row["topic__title"], Spent.of(row), row["topic__slug"] if is_open else "")


def _runs(calls: Calls) -> Iterator[Line]:
    """Yield the runs that spent most; memory knows a run by its source alone (`run:12`)."""
    of_runs: Any = calls.filter(
        source__startswith="run:", topic__isnull=False, topic__trashed_at=None
    )
    rows = (
        of_runs.values("source", "topic__title", "topic__slug")
        .annotate(at=Min("created"), **_SUMS)
        .order_by(F("cost").desc(nulls_last=True), "-asked", "source")
    )
    for row in rows[:MOST_RUNS]:
        number = row["source"].removeprefix("run:")
        if number.isdecimal():
            yield Line(
                row["topic__title"], Spent.of(row), row["topic__slug"], int(number), row["at"]
            )


def as_csv(calls: Calls, *, whose: User | None) -> str:
    """Return one line a call, the oldest first; an unknown price is an empty cell.

    Everybody's calls (`whose` None) come without the topic and the error, which are their owner's.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(CSV_FIELDS)
    rows = calls.order_by("pk").values(
        *(name for name in CSV_FIELDS if name not in ("account", "topic")),
        account=F("owner__username"),
        topic_title=F("topic__title"),
    )
    for row in rows.iterator():
        row["created"] = row["created"].isoformat(timespec="seconds")
        row["topic"] = row["topic_title"]
        if whose is None:
            row["topic"] = row["error"] = ""
        writer.writerow([cell(row[name]) for name in CSV_FIELDS])
    return out.getvalue()
