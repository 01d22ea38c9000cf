"""Forecasts of a topic's next run as ranges: tokens, cost, minutes and searches.

A forecast is based on this topic's past runs of the same depth, then on all the owner's runs, then
on defaults, and says which. The cost uses current prices. An unknown price remains unknown. It
takes four queries for any number of topics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeVar

from django.db.models import F, Sum, Window
from django.db.models.functions import RowNumber

from beacon_site.providers.llm.base import LlmProfile, Usage
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped, ngettext
from memory.models import ModelCall, Topic, User
from memory.services.llm import connections, spending
from memory.services.llm.asking import MonthLimits, limits_of, price
from memory.services.llm.spending import Limit, limits_beside, spent_this_month
from research.models import Run, Step, TopicSettings
from research.models.topics import settings_now
from research.services.budgets.budget import budget_for

MAX_EXAMINED = 10  # the latest runs of a topic
ENOUGH_TO_TRIM = 5  # with this many runs, the lowest and highest are ignored
Range = tuple[int, int]
Number = TypeVar("Number", int, Decimal)
Depth = TopicSettings.Depth
TOPIC, OTHERS, USUAL = "topic", "others", "usual"


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What one run used. `prompt` and `completion` are tokens."""

    prompt: int
    completion: int
    seconds: float
    searches: int


# Defaults for when there are no earlier runs.
USUALLY = {
    Depth.QUICK: [RunUsage(3_000, 600, 30, 3), RunUsage(16_000, 3_000, 240, 6)],
    Depth.DEEP: [RunUsage(30_000, 4_000, 240, 6), RunUsage(220_000, 16_000, 1_500, 30)],
}


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run will probably use, from least to most. `money` is None if unknown."""

    depth: str
    basis: str
    runs: int
    tokens: Range
    money: tuple[Decimal, Decimal] | None
    minutes: Range
    searches: Range
    has_model: bool = True

    @property
    def cost(self) -> str:
        """Return the cost as text. An unknown price is never shown as zero."""
        if not self.has_model:
            return _("free (no model)")
        if self.money is None:
            return _("price unknown")
        if not self.money[1]:
            return _("free (the model’s price is 0)")
        return _from_to(spending.dollars(self.money[0]), spending.dollars(self.money[1]))

    @property
    def words(self) -> str:
        parts = [
            _("%(range)s min") % {"range": _from_to(*map(str, self.minutes))},
            ngettext("%(range)s search", "%(range)s searches", self.searches[1])
            % {"range": _from_to(*map(str, self.searches))},
        ]
        if self.has_model:
            told = _from_to(grouped(self.tokens[0]), grouped(self.tokens[1]))
            parts.insert(0, _("%(range)s tokens") % {"range": told})
        return ", ".join([self.cost, *parts])

    @property
    def basis_words(self) -> str:
        depth = Depth(self.depth).label
        if self.basis == USUAL:
            return _("typical for a %(depth)s run (you haven’t run one yet)") % {"depth": depth}
        if self.basis == TOPIC:
            words = ngettext(
                "based on this topic’s last %(depth)s run",
                "based on this topic’s last %(runs)d %(depth)s runs",
                self.runs,
            )
        else:
            words = ngettext(
                "based on your last %(depth)s run of another topic",
                "based on your last %(runs)d %(depth)s runs of other topics",
                self.runs,
            )
        return words % {"runs": self.runs, "depth": depth}

    @property
    def middle_tokens(self) -> int:
        return sum(self.tokens) // 2

    @property
    def middle_money(self) -> Decimal | None:
        """Return the middle of the cost range, or None if unknown."""
        return None if self.money is None else sum(self.money, Decimal(0)) / 2

    def times(self, runs: int) -> str:
        """Return the cost of this many runs as text."""
        if self.money is None or not self.has_model or not runs:
            return self.cost
        least, most = self.money
        return replace(self, money=(least * runs, most * runs)).cost


def _from_to(least: str, most: str) -> str:
    return least if least == most else f"{least}–{most}"


def forecast_of(topic: Any, depth: str = "") -> Forecast:
    """Return the forecast of one topic's next run, of its own depth unless `depth` is given."""
    return forecasts_of(topic.owner, [topic], depth)[topic.pk]


def forecasts_of(user: User, topics: Sequence[Any], depth: str = "") -> dict[Any, Forecast]:
    """Return the forecasts of the user's topics by id. Their settings must be loaded."""
    usual, named = connections.forecast_profiles()
    past = _recent_usage(user, [topic.pk for topic in topics])
    found = {}
    for topic in topics:
        profile = named.get(topic.settings.model, usual)
        found[topic.pk] = _forecast(
            topic.settings, depth or topic.settings.depth, past, profile, topic.pk
        )
    return found


def forecast_of_new(user: User, depth: str) -> Forecast:
    """Return the forecast of a topic that doesn't exist yet, with default settings."""
    settings = TopicSettings(depth=depth)
    profile, _named = connections.forecast_profiles()
    return _forecast(settings, depth, _recent_usage(user, []), profile, None)


Past = dict[tuple[Any, str], list[RunUsage]]


def _forecast(
    settings: TopicSettings, depth: str, past: Past, profile: LlmProfile | None, key: Any
) -> Forecast:
    has_model = profile is not None
    basis, took = USUAL, USUALLY[Depth(depth)]
    for name, of in ((TOPIC, key), (OTHERS, None)):
        found = past.get((of, depth), []) if of is not None or name == OTHERS else []
        # Runs without a model say nothing about the cost of runs with one, and vice versa.
        found = [one for one in found if bool(one.prompt) or not has_model]
        if found:
            basis, took = name, found
            break
    most = budget_for(settings, depth)
    tokens = _range([one.prompt + one.completion for one in took], most.tokens)
    seconds = _range([round(one.seconds) for one in took], most.minutes * 60)
    return Forecast(
        depth=depth,
        basis=basis,
        runs=0 if basis == USUAL else len(took),
        tokens=tokens if has_model else (0, 0),
        money=_money(took, profile, most.money),
        minutes=(max(1, seconds[0] // 60), max(1, -(-seconds[1] // 60))),
        searches=_range([one.searches for one in took]),
        has_model=has_model,
    )


def _range(values: Sequence[Number], most: Number | None = None) -> tuple[Number, Number]:
    """Return the lowest and highest value, without outliers if there are enough values."""
    found = sorted(values)
    if len(found) >= ENOUGH_TO_TRIM:
        found = found[1:-1]
    least, largest = found[0], found[-1]
    return (least, largest) if most is None else (min(least, most), min(largest, most))


def _money(
    took: Sequence[RunUsage], profile: LlmProfile | None, most: Decimal | None
) -> tuple[Decimal, Decimal] | None:
    if profile is None:
        return Decimal(0), Decimal(0)
    costs = [price(Usage(one.prompt, one.completion), profile) for one in took]
    known = [cost for cost in costs if cost is not None]
    return _range(known, most) if len(known) == len(costs) else None


def _recent_usage(user: User, topic_ids: Iterable[Any]) -> Past:
    """Return what the last saved runs used, by topic and depth. None has those of all topics.

    All topics are queried only if some topic has no runs of its own.
    """
    wanted = list(topic_ids)
    runs = Run.objects.for_user(user).saved().exclude(trigger=Run.Trigger.RECHECK)
    runs = runs.filter(stop_reason="", started_at__isnull=False, finished_at__isnull=False)
    own = _latest(runs.filter(topic__in=wanted), "topic_id", "depth") if wanted else []
    with_own = {row["topic_id"] for row in own}
    others = [] if wanted and with_own.issuperset(wanted) else _latest(runs, "depth")
    took = _took({row["pk"]: row for row in [*own, *others]})
    past: Past = defaultdict(list)
    for row in own:
        past[row["topic_id"], row["depth"]].append(took[row["pk"]])
    for row in others:
        past[None, row["depth"]].append(took[row["pk"]])
    return past


def _latest(runs: Any, *by: str) -> list[dict[str, Any]]:
    """Return the latest runs of each group."""
    place = Window(RowNumber(), partition_by=[F(name) for name in by], order_by=F("pk").desc())
    fields = ("pk", "topic_id", "depth", "started_at", "finished_at", "waited_seconds")
    latest = runs.annotate(place=place).filter(place__lte=MAX_EXAMINED).order_by("-pk")
    return list(latest.values(*fields))


def _took(runs: dict[int, Any]) -> dict[int, RunUsage]:
    if not runs:
        return {}
    sources = [f"run:{pk}" for pk in runs]
    calls: Any = ModelCall.objects.filter(source__in=sources).order_by().values("source")
    spent = {
        row["source"]: row
        for row in calls.annotate(asked=Sum("prompt_tokens"), answered=Sum("completion_tokens"))
    }
    steps = Step.objects.filter(run__in=list(runs), name="search", part=0)
    values = {pk: counts.get("queries", 0) for pk, counts in steps.values_list("run_id", "counts")}
    return {
        pk: RunUsage(
            prompt=spent.get(f"run:{pk}", {}).get("asked") or 0,
            completion=spent.get(f"run:{pk}", {}).get("answered") or 0,
            seconds=max(
                0.0,
                (row["finished_at"] - row["started_at"]).total_seconds() - row["waited_seconds"],
            ),
            searches=int(values.get(pk, 0)),
        )
        for pk, row in runs.items()
    }


# --- whether a run fits in what the topic's and owner's months have left ---


def left_of(topic: Topic, settings: TopicSettings) -> MonthLimits:
    """Return what is left of the topic's and the owner's month, whichever is smaller."""
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
    return MonthLimits(min(tokens, default=None), min(money, default=None))


def why_not(forecast: Forecast, left: MonthLimits) -> str:
    """Return why a run with this forecast doesn't fit in what is left, or "" if it does.

    The middle of the forecast counts. An unknown cost fits, and a run without a model costs
    nothing.
    """
    if not forecast.has_model:
        return ""
    if left.tokens is not None and left.tokens < max(1, forecast.middle_tokens):
        return _("it needs about %(need)s tokens, but only %(left)s are left this month") % {
            "need": f"{forecast.middle_tokens:,}",
            "left": f"{left.tokens:,}",
        }
    need = forecast.middle_money
    if left.money is not None and need and left.money < need:
        return _("it needs about %(need)s, but only %(left)s is left this month") % {
            "need": spending.dollars(need),
            "left": spending.dollars(left.money),
        }
    return ""


def fit_of(topic: Any) -> tuple[str, dict[str, Any] | None]:
    """Return why the topic's scheduled run doesn't fit ("" if it does), and the fields of a smaller
    run if its owner chose that.
    """
    settings: TopicSettings = topic.settings
    left = left_of(topic, settings)
    if not left:
        return "", None
    why = why_not(forecast_of(topic), left)
    if not why or settings.over_limit == TopicSettings.OverLimit.SKIP:
        return why, None
    return why, _smaller(topic, left)


def _smaller(topic: Topic, left: MonthLimits) -> dict[str, Any]:
    """Return the fields of a run that stays within what is left: quick, and skimming.

    If nothing is left, it plans and writes without the model.
    """
    values = settings_now(topic) | {
        "depth": TopicSettings.Depth.QUICK.value,
        "reading": TopicSettings.Reading.SKIM.value,
    }
    if left.tokens is not None:
        values["max_tokens"] = max(1, min(left.tokens, values["max_tokens"] or left.tokens))
    if left.money is not None:
        values["max_money"] = str(min(left.money, Decimal(values["max_money"] or left.money)))
    return {"depth": TopicSettings.Depth.QUICK.value, "settings": values}


# --- monthly limits and spending, as topic pages show them ---


def month_of(topic: Any) -> list[Limit]:
    """Return the topic's monthly limits and spending. One query if it has limits, otherwise none."""
    tokens, money = topic.settings.month_tokens, topic.settings.month_money
    if tokens is None and money is None:
        return []
    return limits_beside(tokens, money, spent_this_month(topic.owner, topic))
