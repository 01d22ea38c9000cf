"""Research's models in the admin site, read-only and without secrets."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.utils.translation import gettext_lazy

from memory.admin import MASK, ReadOnlyAdmin, RememberedAdmin, register, walk
from research import models as research


class PrivateNamesAdmin(ReadOnlyAdmin):
    """Rows whose names are private to their owner: addresses and topics."""

    @admin.display(description=gettext_lazy("text"))
    def label(self, row: Any) -> str:
        """Return the row's id, never its name."""
        return str(row.pk)


register(
    research.Channel,
    "id owner kind reports digest enabled last_ok last_at",
    PrivateNamesAdmin,
    filters="kind enabled last_ok",
    hidden="address name",
)
register(
    research.Delivery,
    "id owner kind state attempt response_code created",
    PrivateNamesAdmin,
    SENSITIVE="topic__sensitivity",
    list_select_related=("owner", "topic"),
    filters="kind state",
    date_hierarchy="created",
    hidden="channel subject message request response error results",
)
register(
    research.TopicNotices,
    "topic_id is_custom reports failures in_digest",
    OWNER="topic__owner_id",
    SENSITIVE="topic__sensitivity",
    list_select_related=("topic__owner",),
    filters="is_custom reports in_digest",
)
register(research.DigestSettings, "owner frequency hour weekday next_at", filters="frequency")
register(research.Digest, "id owner slot since created", date_hierarchy="created")
register(research.DigestEntry, "run_id digest_id", OWNER="digest__owner_id")

# Private feeds, without the secret part of their URLs.
register(
    research.Feed,
    "id owner topic_id include_private created ended_at opened_at",
    PrivateNamesAdmin,
    SENSITIVE="topic__sensitivity",
    list_select_related=("owner", "topic"),
    filters="include_private",
)


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


register(
    research.TopicSettings,
    "of_topic owned_by depth time_frame engine max_pages",
    TopicRowAdmin,
    filters="depth time_frame engine",
    masked="objective focus report_template report_tone intent feeds allow_domains block_domains block_pages always_check",
    PAGE=("research:topic", ("topic__slug",)),
)
register(
    research.Schedule,
    "of_topic owned_by preset cron time_zone paused next_run_at",
    TopicRowAdmin,
    filters="preset paused",
    PAGE=("research:topic", ("topic__slug",)),
)
register(
    research.TopicNews,
    "of_topic owned_by changes counted_changes",
    TopicRowAdmin,
    masked="told",
    PAGE=("research:topic", ("topic__slug",)),
)
register(
    research.Run,
    "id of_topic owned_by number status trigger started_at finished_at new_count money",
    TopicRowAdmin,
    filters="status trigger depth is_baseline",
    date_hierarchy="created",
    masked="error warnings manifest",
    PAGE=("research:run", ("topic__slug", "pk")),
)


class RunRowAdmin(TopicRowAdmin):
    OWNER = "run__topic__owner_id"
    SENSITIVE = "run__topic__sensitivity"
    list_select_related: ClassVar[Any] = ("run__topic__owner",)
    search_fields: ClassVar[Any] = ("=run__id", "=run__topic__id", "run__topic__owner__username")
    PAGE = ("research:run", ("run__topic__slug", "run_id"))


register(
    research.Step,
    "name part run_id of_topic owned_by state started_at",
    RunRowAdmin,
    filters="state is_follow_up name",
    masked="output detail warning",
)
register(
    research.ToolCall,
    "tool part round run_id owned_by is_error created",
    RunRowAdmin,
    filters="tool is_error",
    masked="arguments result",
)
register(
    research.Hit,
    "label run_id owned_by service state reading cited_as",
    RunRowAdmin,
    filters="service state reading",
    masked="url link domain title snippet queries reason",
)


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
        """Return True if the report or its topic is sensitive."""
        return super().is_sensitive(row) or row.sensitivity == "sensitive"


# Runs without a report that people deleted.
register(
    research.RemovedRun, "label owner run_id created trashed_at", RememberedAdmin, masked="title"
)


class OfSentenceAdmin(ReadOnlyAdmin):
    """Remarks on sentences in reports."""

    SENSITIVE = "report__run__topic__sensitivity"
    list_select_related: ClassVar[Any] = ("owner", "report__run__topic")
    list_display = ("label", "owner", "report_id", "created", "undone_at")
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


# Comments on reports, without their text.
register(
    research.Comment,
    "id report_id author created edited_at",
    OWNER="report__owner_id",
    SENSITIVE="report__run__topic__sensitivity",
    list_select_related=("report__run__topic", "author"),
    masked="report",
    hidden="text",
)
register(research.CheckedSentence, "", OfSentenceAdmin, masked="sentence")
register(research.Correction, "", OfSentenceAdmin, masked="sentence wrong right")


@admin.register(research.CorrectedFact)
class CorrectedFactAdmin(ReadOnlyAdmin):
    """What corrections did to topic facts."""

    OWNER = "correction__owner_id"
    SENSITIVE = "correction__topic__sensitivity"
    list_select_related: ClassVar[Any] = ("correction__owner", "correction__topic")
    list_display = ("label", "correction_id", "action", "version")
    list_filter = ("action",)
    MASKED = ("correction", "before", "after")  # a correction's name is its sentence
    PAGE = ("research:topic-corrections", ("correction__topic__slug",))


# Links that open reports without an account, without the secret part of their URLs.
register(
    research.SharedLink,
    "id owner report_id ends_at ended_at view_count opened_at",
    SENSITIVE="report__run__topic__sensitivity",
    masked="note",
)
register(
    research.DeltaItem,
    "label run_id of_topic owned_by status needs_review position",
    RunRowAdmin,
    filters="status needs_review",
    masked="sentence previous_text previous_source quote hidden_reason judged",
)
register(research.Worker, "name kind seen_at", filters="kind")
