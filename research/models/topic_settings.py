"""How a topic is researched, and when."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from memory.models import Topic


class TopicSettings(models.Model):
    """What a topic's runs look for and may spend; changes apply from the next run.

    An empty budget field means the site's default for the depth (`research.budgets.budget`).
    """

    # What a run looks for and how, and what it may take: kept with each run.
    ASKED = (
        "objective",
        "focus",
        "depth",
        "time_frame",
        "languages",
        "services",
        "feeds",
        "allow_domains",
        "block_domains",
        "block_pages",
        "always_check",
        "engine",
        "report_style",
        "reading",
    )
    LIMITS = ("max_tokens", "max_money", "max_pages", "max_minutes")

    class Depth(models.TextChoices):
        QUICK = "quick", _("quick")
        DEEP = "deep", _("deep")

    class TimeFrame(models.TextChoices):
        ANY = "any", _("any time")
        DAY = "day", _("the last day")
        WEEK = "week", _("the last week")
        MONTH = "month", _("the last month")
        YEAR = "year", _("the last year")

    class Style(models.TextChoices):
        STANDARD = "standard", _("standard")
        EXECUTIVE = "executive", _("executive summary")
        BULLETS = "bullets", _("bullets")
        MEMO = "memo", _("memo")

    class Reading(models.TextChoices):
        SKIM = "skim", _("skim")
        NORMAL = "normal", _("normal")
        THOROUGH = "thorough", _("thorough")

    class PlanReview(models.TextChoices):
        NO = "no", _("no, runs go on by themselves")
        DAY = "day", _("yes, and go on by itself after a day")
        WAIT = "wait", _("yes, and wait until somebody has looked")

    class OverLimit(models.TextChoices):
        SKIP = "skip", _("skip it and say so")
        SMALLER = "smaller", _("run it smaller, with what is left")

    topic = models.OneToOneField(Topic, models.CASCADE, related_name="settings", primary_key=True)
    objective = models.TextField(_("objective"), blank=True)
    focus = models.TextField(_("focus"), blank=True)
    depth = models.CharField(_("depth"), max_length=8, choices=Depth, default=Depth.QUICK)
    time_frame = models.CharField(
        _("time frame"), max_length=8, choices=TimeFrame, default=TimeFrame.ANY
    )
    languages = ArrayField(
        models.CharField(max_length=16), default=list, blank=True, verbose_name=_("languages")
    )
    services = ArrayField(
        models.CharField(max_length=20), default=list, blank=True, verbose_name=_("services")
    )
    feeds = ArrayField(models.TextField(), default=list, blank=True, verbose_name=_("feeds"))
    allow_domains = ArrayField(
        models.CharField(max_length=255),
        default=list,
        blank=True,
        verbose_name=_("only these domains"),
    )
    block_domains = ArrayField(
        models.CharField(max_length=255),
        default=list,
        blank=True,
        verbose_name=_("never these domains"),
    )
    # Single pages that a person stopped looking at, beside whole domains; canonical addresses.
    block_pages = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("never these pages")
    )
    # Queries and addresses that every run's plan covers, whatever the planner thinks of.
    always_check = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("always check")
    )
    engine = models.CharField(_("SerpAPI engine"), max_length=20, default="google")
    report_style = models.CharField(
        _("style of the report"), max_length=10, choices=Style, default=Style.STANDARD
    )
    reading = models.CharField(
        _("depth of reading"), max_length=8, choices=Reading, default=Reading.NORMAL
    )
    plan_review = models.CharField(
        _("look at the plan first"), max_length=4, choices=PlanReview, default=PlanReview.NO
    )
    max_tokens = models.PositiveIntegerField(_("tokens a run"), null=True, blank=True)
    max_money = models.DecimalField(
        _("money a run"),
        max_digits=8,
        decimal_places=2,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal(0))],
    )
    max_pages = models.PositiveIntegerField(_("pages a run"), null=True, blank=True)
    max_minutes = models.PositiveIntegerField(_("minutes a run"), null=True, blank=True)
    # What all runs of the topic may spend together in a month of its owner's.
    month_tokens = models.PositiveIntegerField(_("tokens a month"), null=True, blank=True)
    month_money = models.DecimalField(
        _("money a month"),
        max_digits=10,
        decimal_places=2,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal(0))],
    )
    over_limit = models.CharField(
        _("a scheduled run that would not fit"),
        max_length=7,
        choices=OverLimit,
        default=OverLimit.SKIP,
    )
    # After how many days without a check a fact is stale; empty: `research.facts.staleness` says.
    stale_days = models.PositiveSmallIntegerField(_("facts are stale after"), null=True, blank=True)
    recheck = models.BooleanField(_("recheck stale facts each month"), default=False)
    intent = models.TextField(_("tell me only if"), blank=True)
    # Sentences that the intent withheld and of which a person said: tell me such things.
    tell_also = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("tell me such things too")
    )
    # Domains and canonical addresses of pages: read first, and read but never announced alone.
    boost_places = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("look here first")
    )
    mute_places = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("never announced alone")
    )
    # Addresses that the next saved run reads, and that are taken from the list by its save.
    read_next = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("read next time")
    )

    class Meta:
        verbose_name_plural = _("topic settings")

    def __str__(self) -> str:
        return f"settings of {self.topic}"

    def as_json(self) -> dict[str, Any]:
        """Return every field but the topic, as a run keeps them (see `from_json`)."""
        return {
            field.attname: _plain(getattr(self, field.attname))
            for field in self._meta.concrete_fields
            if not field.primary_key
        }

    @classmethod
    def from_json(cls, topic: Topic, stored: dict[str, Any]) -> TopicSettings:
        """Return settings, never to be saved, as `as_json` kept them; a field since added is new."""
        names = {field.attname for field in cls._meta.concrete_fields if not field.primary_key}
        kept = {name: value for name, value in stored.items() if name in names}
        for name in ("max_money", "month_money"):
            if kept.get(name) is not None:
                kept[name] = Decimal(kept[name])
        return cls(topic=topic, **kept)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


class ScheduleQuerySet(models.QuerySet[Any]):
    """The questions asked of schedules."""

    def of(self, user: Any) -> Self:
        """Keep what `user` owns: the one owner filter."""
        return self.filter(topic__owner=user)

    def due(self, at: datetime) -> Self:
        """Keep the schedules whose next run is due and whose topic may run."""
        return self.filter(
            next_run_at__lte=at,
            paused=False,
            topic__trashed_at=None,
            topic__archived_at=None,
            topic__owner__is_active=True,
        )


class Schedule(models.Model):
    """When a topic runs again: a preset or a cron line in a time zone; what is due is a row."""

    class Preset(models.TextChoices):
        NONE = "none", _("only by hand")
        DAILY = "daily", _("every day")
        WEEKDAYS = "weekdays", _("every weekday")
        WEEKLY = "weekly", _("every week")
        MONTHLY = "monthly", _("every month")
        CRON = "cron", _("by a cron line")

    class Missed(models.TextChoices):
        ONCE = "once", _("catch up with one run")
        SKIP = "skip", _("skip what was missed")

    topic = models.OneToOneField(Topic, models.CASCADE, related_name="schedule", primary_key=True)
    preset = models.CharField(_("how often"), max_length=8, choices=Preset, default=Preset.NONE)
    cron = models.CharField(_("cron line"), max_length=100, blank=True)
    time_zone = models.CharField(_("time zone"), max_length=64, default="UTC")
    paused = models.BooleanField(_("paused"), default=False)
    missed = models.CharField(
        _("after hours off"), max_length=4, choices=Missed, default=Missed.ONCE
    )
    next_run_at = models.DateTimeField(null=True, blank=True)
    last_slot_at = models.DateTimeField(null=True, blank=True)
    recheck_at = models.DateTimeField(null=True, blank=True)  # when stale facts are checked next

    objects: ClassVar[ScheduleQuerySet] = ScheduleQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        indexes = [
            models.Index(
                fields=["next_run_at"],
                condition=Q(paused=False) & ~Q(next_run_at=None),
                name="schedule_due",
            )
        ]

    def __str__(self) -> str:
        return f"{self.get_preset_display()}"

    @property
    def recurs(self) -> bool:
        """Whether the topic runs again by itself."""
        return self.preset != self.Preset.NONE and not self.paused
