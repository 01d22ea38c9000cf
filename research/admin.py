"""Research's models in the admin site, read-only and without secrets."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.utils.translation import gettext_lazy

from memory.admin import MASK, ReadOnlyAdmin, RememberedAdmin, walk
from research import models as research


class PrivateNamesAdmin(ReadOnlyAdmin):
    """Rows whose names are private to their owner: addresses and topics."""

    @admin.display(description=gettext_lazy("text"))
    def label(self, row: Any) -> str:
        """Return the row's id, never its name."""
        return str(row.pk)


@admin.register(research.Channel)
class ChannelAdmin(PrivateNamesAdmin):
    """Notification channels. Only their owners see the addresses."""

    list_display = ("id", "owner", "kind", "reports", "digest", "enabled", "last_ok", "last_at")
    list_filter = ("kind", "enabled", "last_ok")
    SECRET = ("address", "name")


@admin.register(research.Delivery)
class DeliveryAdmin(PrivateNamesAdmin):
    """Sent messages, without their text."""

    SENSITIVE = "topic__sensitivity"
    list_select_related = ("owner", "topic")
    list_display = ("id", "owner", "kind", "state", "attempt", "response_code", "created")
    list_filter = ("kind", "state")
    date_hierarchy = "created"
    SECRET = ("channel", "subject", "message", "request", "response", "error", "results")


@admin.register(research.TopicNotices)
class TopicNoticesAdmin(ReadOnlyAdmin):
    """Notification settings of topics."""

    OWNER = "topic__owner_id"
    SENSITIVE = "topic__sensitivity"
    list_select_related = ("topic__owner",)
    list_display = ("topic_id", "own", "reports", "failures", "in_digest")
    list_filter = ("own", "reports", "in_digest")


@admin.register(research.DigestSettings)
class DigestSettingsAdmin(ReadOnlyAdmin):
    list_display = ("owner", "often", "hour", "weekday", "next_at")
    list_filter = ("often",)


@admin.register(research.Digest)
class DigestAdmin(ReadOnlyAdmin):
    list_display = ("id", "owner", "slot", "since", "created")
    date_hierarchy = "created"


@admin.register(research.DigestEntry)
class DigestEntryAdmin(ReadOnlyAdmin):
    OWNER = "digest__owner_id"
    list_display = ("run_id", "digest_id")


@admin.register(research.Feed)
class FeedAdmin(PrivateNamesAdmin):
    """Private feeds, without the secret part of their URLs."""

    SENSITIVE = "topic__sensitivity"
    list_select_related = ("owner", "topic")
    list_display = ("id", "owner", "topic_id", "with_private", "created", "ended_at", "opened_at")
    list_filter = ("with_private",)


# --- topics, runs and reports of all accounts ---


class TopicRowAdmin(ReadOnlyAdmin):
    """Rows that belong to a topic's owner."""

    OWNER = "topic__owner_id"
    SENSITIVE = "topic__sensitivity"
    list_select_related: ClassVar[Any] = ("topic__owner",)
    search_fields: ClassVar[Any] = ("=topic__id", "topic__owner__username")

    @admin.display(description=gettext_lazy("topic"))
    def of_topic(self, row: Any) -> str:
        """Return the topic, masked if it is sensitive."""
        path = self.OWNER.removesuffix("__owner_id")
        return MASK if self.is_hidden(row) else str(walk(row, path))


@admin.register(research.TopicSettings)
class TopicSettingsAdmin(TopicRowAdmin):
    """What topics' runs look for, and their limits."""

    list_display = ("of_topic", "owned_by", "depth", "time_frame", "engine", "max_pages")
    list_filter = ("depth", "time_frame", "engine")
    MASKED = (
        "objective",
        "focus",
        "report_template",
        "report_tone",
        "intent",
        "feeds",
        "allow_domains",
        "block_domains",
        "block_pages",
        "always_check",
    )
    PAGE = ("research:topic", ("topic__slug",))


@admin.register(research.Schedule)
class ScheduleAdmin(TopicRowAdmin):
    list_display = ("of_topic", "owned_by", "preset", "cron", "time_zone", "paused", "next_run_at")
    list_filter = ("preset", "paused")
    PAGE = ("research:topic", ("topic__slug",))


@admin.register(research.TopicNews)
class TopicNewsAdmin(TopicRowAdmin):
    """The counts of topics' unread reports, as lists show them."""

    list_display = ("of_topic", "owned_by", "changes", "counted")
    MASKED = ("told",)
    PAGE = ("research:topic", ("topic__slug",))


@admin.register(research.Run)
class RunAdmin(TopicRowAdmin):
    """Runs with their state, cost and worker."""

    list_display = (
        "id",
        "of_topic",
        "owned_by",
        "number",
        "status",
        "trigger",
        "started_at",
        "finished_at",
        "new_count",
        "money",
    )
    list_filter = ("status", "trigger", "depth", "is_baseline")
    date_hierarchy = "created"
    MASKED = ("error", "warnings", "manifest")
    PAGE = ("research:run", ("topic__slug", "pk"))


class RunRowAdmin(TopicRowAdmin):
    OWNER = "run__topic__owner_id"
    SENSITIVE = "run__topic__sensitivity"
    list_select_related: ClassVar[Any] = ("run__topic__owner",)
    search_fields: ClassVar[Any] = ("=run__id", "=run__topic__id", "run__topic__owner__username")
    PAGE = ("research:run", ("run__topic__slug", "run_id"))


@admin.register(research.Step)
class StepAdmin(RunRowAdmin):
    """Steps of runs, and the follow-ups after them."""

    list_display = ("name", "part", "run_id", "of_topic", "owned_by", "state", "started_at")
    list_filter = ("state", "is_follow_up", "name")
    MASKED = ("output", "detail", "warning")


@admin.register(research.ToolCall)
class ToolCallAdmin(RunRowAdmin):
    """Tool calls in the tracks of deep runs."""

    list_display = ("tool", "part", "round", "run_id", "owned_by", "is_error", "created")
    list_filter = ("tool", "is_error")
    MASKED = ("arguments", "result")


@admin.register(research.Hit)
class HitAdmin(RunRowAdmin):
    """Search results and what happened to them."""

    list_display = ("label", "run_id", "owned_by", "service", "state", "reading", "cited_as")
    list_filter = ("service", "state", "reading")
    MASKED = ("url", "link", "domain", "title", "snippet", "queries", "reason")


@admin.register(research.Report)
class ReportAdmin(RunRowAdmin):
    list_display = ("label", "owned_by", "run_id", "written_by", "is_quiet", "created", "read_at")
    list_filter = ("is_extractive", "is_quiet", "sensitivity")
    date_hierarchy = "created"
    MASKED = (
        "title",
        "body",
        "delta",
        "delta_heading",
        "delta_since",
        "summary",
        "sources",
        "checks",
    )

    def is_sensitive(self, row: Any) -> bool:
        """Whether the report or its topic is sensitive."""
        return super().is_sensitive(row) or row.sensitivity == "sensitive"


@admin.register(research.RemovedRun)
class RemovedRunAdmin(RememberedAdmin):
    """Runs without a report that people deleted."""

    list_display = ("label", "owner", "run_id", "created", "trashed_at")
    MASKED = ("title",)


class OfSentenceAdmin(ReadOnlyAdmin):
    """Remarks on sentences in reports."""

    SENSITIVE = "report__run__topic__sensitivity"
    list_select_related: ClassVar[Any] = ("owner", "report__run__topic")
    list_display = ("label", "owner", "report_id", "created", "taken_back_at")
    date_hierarchy = "created"
    PAGE = ("research:report-sentences", ("report__run__topic__slug", "report__run_id"))


@admin.register(research.AffectedLine)
class AffectedLineAdmin(ReadOnlyAdmin):
    """Lines of memory that a change meets."""

    SENSITIVE = "item__run__topic__sensitivity"
    MASKED = ("item",)
    list_select_related: ClassVar[Any] = ("owner", "item__run__topic")
    list_display = ("__str__", "owner", "created", "dismissed_at")
    date_hierarchy = "created"


@admin.register(research.Comment)
class CommentAdmin(ReadOnlyAdmin):
    """Comments on reports, without their text."""

    OWNER = "report__owner_id"
    SENSITIVE = "report__run__topic__sensitivity"
    list_select_related = ("report__run__topic", "author")
    list_display = ("id", "report_id", "author", "created", "edited_at")
    MASKED = ("report",)
    SECRET = ("text",)


@admin.register(research.CheckedSentence)
class CheckedSentenceAdmin(OfSentenceAdmin):
    """Sentences that a person has verified."""

    MASKED = ("sentence",)


@admin.register(research.Correction)
class CorrectionAdmin(OfSentenceAdmin):
    """Sentences that a person marked as wrong."""

    MASKED = ("sentence", "wrong", "right")


@admin.register(research.CorrectedFact)
class CorrectedFactAdmin(ReadOnlyAdmin):
    """What corrections did to topic facts."""

    OWNER = "correction__owner_id"
    SENSITIVE = "correction__topic__sensitivity"
    list_select_related: ClassVar[Any] = ("correction__owner", "correction__topic")
    list_display = ("label", "correction_id", "act", "version")
    list_filter = ("act",)
    MASKED = ("correction", "before", "after")  # a correction's name is its sentence
    PAGE = ("research:topic-corrections", ("correction__topic__slug",))


@admin.register(research.SharedLink)
class SharedLinkAdmin(ReadOnlyAdmin):
    """Links that open reports without an account, without the secret part of their URLs."""

    SENSITIVE = "report__run__topic__sensitivity"
    list_display = ("id", "owner", "report_id", "ends_at", "ended_at", "opened", "opened_at")
    MASKED = ("note",)


@admin.register(research.DeltaItem)
class DeltaItemAdmin(RunRowAdmin):
    list_display = ("label", "run_id", "of_topic", "owned_by", "status", "unsure", "position")
    list_filter = ("status", "unsure")
    MASKED = ("sentence", "previous_text", "previous_source", "quote", "withheld", "judged")


@admin.register(research.Worker)
class WorkerAdmin(ReadOnlyAdmin):
    """Processes with their last heartbeats."""

    list_display = ("name", "kind", "seen_at")
    list_filter = ("kind",)
