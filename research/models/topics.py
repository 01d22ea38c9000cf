"""Topic settings, schedules, source rules, and counts of unread changes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, Self

import pgtrigger
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from memory.models import RefusedSource, SourceRule, Topic
from memory.models.search_index import after_statement
from memory.models.topics import TopicRowQuerySet


class TopicSettings(models.Model):
    """What a topic's runs look for and can spend. Changes apply from the next run.

    An empty budget field means the site's default for the depth (`research.services.budgets.budget`).
    """

    # What a run looks for and its limits. Stored with each run.
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
        "report_template",
        "report_max_items",
        "report_tone",
        "reading",
        "model",
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
        NO = "no", _("no")
        DAY = "day", _("yes, but continue without a review after a day")
        WAIT = "wait", _("yes, and wait for my review")

    class OverLimit(models.TextChoices):
        SKIP = "skip", _("skip it and log a warning")
        SMALLER = "smaller", _("start a smaller run within the remaining budget")

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
        verbose_name=_("allowed domains"),
    )
    block_domains = ArrayField(
        models.CharField(max_length=255),
        default=list,
        blank=True,
        verbose_name=_("blocked domains"),
    )
    # Pages that a person blocked individually, besides whole domains. Canonical addresses.
    block_pages = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("blocked pages")
    )
    # Queries and addresses that every run's plan includes, in addition to the planner's.
    always_check = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("always include")
    )
    engine = models.CharField(_("SerpAPI engine"), max_length=20, default="google")
    report_style = models.CharField(
        _("report style"), max_length=10, choices=Style, default=Style.STANDARD
    )
    # Markdown with placeholders (`research.services.runs.reporting.template`). Empty: by the style.
    report_template = models.TextField(_("report template"), blank=True)
    report_max_items = models.PositiveSmallIntegerField(_("items per list"), null=True, blank=True)
    report_tone = models.CharField(_("tone"), max_length=200, blank=True)
    reading = models.CharField(
        _("pages to read"), max_length=8, choices=Reading, default=Reading.NORMAL
    )
    # One of the server's models (connections.names_of_models). Empty: the usual one of each task.
    model = models.CharField(_("model"), max_length=200, blank=True)
    plan_review = models.CharField(
        _("review the plan first"), max_length=4, choices=PlanReview, default=PlanReview.NO
    )
    max_tokens = models.PositiveIntegerField(_("tokens per run"), null=True, blank=True)
    max_money = models.DecimalField(
        _("cost per run"),
        max_digits=8,
        decimal_places=2,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal(0))],
    )
    max_pages = models.PositiveIntegerField(_("pages per run"), null=True, blank=True)
    max_minutes = models.PositiveIntegerField(_("minutes per run"), null=True, blank=True)
    # What all runs of the topic together can spend per month, in the owner's time zone.
    month_tokens = models.PositiveIntegerField(_("tokens per month"), null=True, blank=True)
    month_money = models.DecimalField(
        _("cost per month"),
        max_digits=10,
        decimal_places=2,
        null=True,
        blank=True,
        validators=[MinValueValidator(Decimal(0))],
    )
    over_limit = models.CharField(
        _("scheduled runs over the limit"),
        max_length=7,
        choices=OverLimit,
        default=OverLimit.SKIP,
    )
    # Days without a check until a fact is stale. If empty, `research.services.facts.staleness` decides.
    stale_days = models.PositiveSmallIntegerField(_("facts are stale after"), null=True, blank=True)
    recheck = models.BooleanField(_("recheck stale facts every month"), default=False)
    intent = models.TextField(_("notify me about"), blank=True)
    # Withheld sentences for which a person asked to be notified about similar news.
    notify_examples = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("also notify me about")
    )
    # Domains and canonical page addresses. Boosted ones are read first. Muted ones are read, but
    # never trigger a notification by themselves.
    boost_places = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("boosted sources")
    )
    mute_places = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("muted sources")
    )
    # Addresses that the next saved run reads. Saving it removes them from the list.
    read_next = ArrayField(
        models.TextField(), default=list, blank=True, verbose_name=_("read in the next run")
    )

    class Meta:
        verbose_name_plural = _("topic settings")

    def __str__(self) -> str:
        return f"settings of {self.topic}"

    def as_json(self) -> dict[str, Any]:
        """Return every field except the topic, as stored with a run (see `from_json`)."""
        return {
            field.attname: _plain(getattr(self, field.attname))
            for field in self._meta.concrete_fields
            if not field.primary_key
        }

    @classmethod
    def from_json(cls, topic: Topic, stored: dict[str, Any]) -> TopicSettings:
        """Return unsaved settings from what `as_json` stored. Fields added since then get defaults."""
        names = {field.attname for field in cls._meta.concrete_fields if not field.primary_key}
        kept = {name: value for name, value in stored.items() if name in names}
        for name in ("max_money", "month_money"):
            if kept.get(name) is not None:
                kept[name] = Decimal(kept[name])
        return cls(topic=topic, **kept)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


class ScheduleQuerySet(TopicRowQuerySet):
    def due(self, at: datetime) -> Self:
        """Keep schedules whose next run is due and whose topic is allowed to run."""
        return self.filter(
            next_run_at__lte=at,
            paused=False,
            topic__trashed_at=None,
            topic__archived_at=None,
            topic__owner__is_active=True,
        )


class Schedule(models.Model):
    """When a topic runs again: a preset or a cron expression in a time zone."""

    class Preset(models.TextChoices):
        NONE = "none", _("manually")
        DAILY = "daily", _("every day")
        WEEKDAYS = "weekdays", _("every weekday")
        WEEKLY = "weekly", _("every week")
        MONTHLY = "monthly", _("every month")
        CRON = "cron", _("cron expression")

    class Missed(models.TextChoices):
        ONCE = "once", _("catch up with one run")
        SKIP = "skip", _("skip missed runs")

    topic = models.OneToOneField(Topic, models.CASCADE, related_name="schedule", primary_key=True)
    preset = models.CharField(_("how often"), max_length=8, choices=Preset, default=Preset.NONE)
    cron = models.CharField(_("cron expression"), max_length=100, blank=True)
    time_zone = models.CharField(_("time zone"), max_length=64, default="UTC")
    paused = models.BooleanField(_("paused"), default=False)
    missed = models.CharField(_("missed runs"), max_length=4, choices=Missed, default=Missed.ONCE)
    next_run_at = models.DateTimeField(null=True, blank=True)
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
        return self.preset != self.Preset.NONE and not self.paused


# --- the settings of a run: a topic's own and the owner's rules for all topics ---

_PAGES = ("http://", "https://", "library:")
Act = SourceRule.Act


def lists_of(settings: TopicSettings, act: str) -> list[str]:
    """Return the places with this rule: domains first, then pages."""
    if act == Act.BLOCK:
        return [*settings.block_domains, *settings.block_pages]
    return list(settings.boost_places if act == Act.BOOST else settings.mute_places)


def everywhere(owner_id: Any) -> dict[str, str]:
    """Return the owner's rules for all topics by place, in two queries.

    A domain that the owner blocked anywhere in memory is blocked here too.
    """
    return {place: act for place, (act, _since) in rules_with_dates(owner_id).items()}


def rules_with_dates(owner_id: Any) -> dict[str, tuple[str, datetime]]:
    """Return the same rules, each with the time it was made."""
    refused = RefusedSource.objects.filter(owner=owner_id, kind=RefusedSource.Kind.DOMAIN)
    rules = SourceRule.objects.filter(owner=owner_id).values_list("place", "act", "created")
    found = {place: (act, since) for place, act, since in rules}
    blocked = refused.values_list("name", "created")
    return found | {name: (str(Act.BLOCK), since) for name, since in blocked}


def in_effect(settings: TopicSettings, rules: dict[str, str]) -> TopicSettings:
    """Return an unsaved copy of the settings with the rules for all topics added."""
    whole = TopicSettings.from_json(settings.topic, settings.as_json())
    own = {place for act in Act.values for place in lists_of(settings, act)}
    own |= set(settings.allow_domains)
    for place, act in rules.items():
        is_refused = act == Act.BLOCK and not is_page(place)
        if place not in own or (is_refused and place not in whole.block_domains):
            _add(whole, act, place)
    return whole


def settings_now(topic: Topic) -> dict[str, Any]:
    """Return the topic's current settings as a run stores them."""
    settings = TopicSettings.objects.get(topic=topic)
    return in_effect(settings, everywhere(topic.owner_id)).as_json()


def is_page(place: str) -> bool:
    """Return True if a place or rule is the URL of a single page, not a domain or words."""
    return place.lower().startswith(_PAGES)


def _add(settings: TopicSettings, act: str, place: str) -> None:
    name = field_of(act, place)
    setattr(settings, name, [*getattr(settings, name), place])


def field_of(act: str, place: str) -> str:
    """Return the settings field that stores this rule."""
    if act == Act.BLOCK:
        return "block_pages" if is_page(place) else "block_domains"
    return "boost_places" if act == Act.BOOST else "mute_places"


def places_by_act(settings: TopicSettings) -> Iterable[tuple[str, str]]:
    for act in Act.values:
        for place in lists_of(settings, act):
            yield place, act


# --- new in a topic since its owner last read it: counted once, then stored ---

# Rows are locked in order, so two writers of several topics can't deadlock.
_RAISED = """
    PERFORM 1 FROM research_topicnews
     WHERE topic_id IN ({topics})
     ORDER BY topic_id FOR NO KEY UPDATE;
    UPDATE research_topicnews SET changes = changes + 1
     WHERE topic_id IN ({topics});
    RETURN NULL;
"""
_OF_RUNS = "SELECT topic_id FROM research_run WHERE id IN ({runs})"


def _raised(runs: str) -> str:
    return _RAISED.format(topics=_OF_RUNS.format(runs=runs))


_CAME = """
    INSERT INTO research_topicnews (topic_id, changes, counts)
    SELECT DISTINCT run.topic_id, 1, '{}'::jsonb
      FROM added JOIN research_run run ON run.id = added.run_id
     ORDER BY run.topic_id
        ON CONFLICT (topic_id) DO UPDATE SET changes = research_topicnews.changes + 1;
    RETURN NULL;
"""
_REPORTS = """SELECT gone.run_id FROM gone JOIN added USING (id)
                WHERE (gone.read_at, gone.trashed_at) IS DISTINCT FROM
                      (added.read_at, added.trashed_at)"""
_ITEMS = """SELECT gone.run_id FROM gone JOIN added USING (id)
              WHERE (gone.run_id, gone.position, gone.status, gone.hidden_reason, gone.previous_fact_id,
                     gone.sentence, gone.previous_text) IS DISTINCT FROM
                    (added.run_id, added.position, added.status, added.hidden_reason,
                     added.previous_fact_id, added.sentence, added.previous_text)"""
_GONE = "SELECT run_id FROM gone"
_ADDED = "SELECT run_id FROM added"


OF_REPORTS = [
    after_statement("news_came", pgtrigger.Insert, _CAME, new="added"),
    after_statement("news_read", pgtrigger.Update, _raised(_REPORTS), old="gone", new="added"),
    after_statement("news_gone", pgtrigger.Delete, _raised(_GONE), old="gone"),
]
OF_ITEMS = [
    after_statement("news_told", pgtrigger.Insert, _raised(_ADDED), new="added"),
    after_statement("news_retold", pgtrigger.Update, _raised(_ITEMS), old="gone", new="added"),
    after_statement("news_untold", pgtrigger.Delete, _raised(_GONE), old="gone"),
]
# A run in progress is updated many times per minute, so only columns shown in lists count.
OF_RUNS = [
    pgtrigger.Trigger(
        name="news_numbered",
        when=pgtrigger.After,
        operation=pgtrigger.Update,
        condition=pgtrigger.AnyChange("number", "is_baseline"),
        func="UPDATE research_topicnews SET changes = changes + 1 WHERE topic_id = NEW.topic_id;"
        " RETURN NULL;",
    )
]


class TopicNewsQuerySet(TopicRowQuerySet):
    def stale(self) -> Self:
        """Keep rows that must be counted again."""
        return self.exclude(Q(counted_changes=F("changes")) & Q(counted_changes__isnull=False))


class TopicNews(models.Model):
    """The counts of a topic's unread reports for lists. A topic without reports has no row.

    `counts` was calculated when `changes` was `counted_changes` (`research.services.reports.since_read`).
    """

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True, related_name="news")
    changes = models.BigIntegerField(default=0)
    counted_changes = models.BigIntegerField(null=True)
    counts = models.JSONField(default=dict)

    objects: ClassVar[TopicNewsQuerySet] = TopicNewsQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "topic news"

    def __str__(self) -> str:
        return f"news of topic {self.topic_id}"

    @property
    def is_stale(self) -> bool:
        """Return True if anything changed since it was counted."""
        return self.counted_changes != self.changes
