"""Channels, deliveries, digests and feeds in the admin: to read, what opens a place never shown."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.translation import gettext_lazy

from memory.admin_pages.base import ReadOnlyAdmin
from research import models as research


class UnnamedAdmin(ReadOnlyAdmin):
    """Rows whose names are their owner's: addresses, and topics."""

    @admin.display(description=gettext_lazy("text"))
    def label(self, row: Any) -> str:
        """Return the row's id, never its name."""
        return str(row.pk)


@admin.register(research.Channel)
class ChannelAdmin(UnnamedAdmin):
    """Where people are told; addresses are theirs to see."""

    list_select_related = ("owner",)
    list_display = ("id", "owner", "kind", "reports", "digest", "enabled", "last_ok", "last_at")
    list_filter = ("kind", "enabled", "last_ok")
    SECRET = ("address", "name")


@admin.register(research.Delivery)
class DeliveryAdmin(UnnamedAdmin):
    """What was sent, without its words."""

    SENSITIVE = "topic__sensitivity"
    list_select_related = ("owner", "topic")
    list_display = ("id", "owner", "kind", "state", "attempt", "response_code", "created")
    list_filter = ("kind", "state")
    date_hierarchy = "created"
    SECRET = ("channel", "subject", "message", "request", "response", "error", "tries")


@admin.register(research.TopicNotices)
class TopicNoticesAdmin(ReadOnlyAdmin):
    """What topics tell, and where."""

    OWNER = "topic__owner_id"
    SENSITIVE = "topic__sensitivity"
    list_select_related = ("topic__owner",)
    list_display = ("topic_id", "own", "reports", "failures", "in_digest")
    list_filter = ("own", "reports", "in_digest")


@admin.register(research.DigestSettings)
class DigestSettingsAdmin(ReadOnlyAdmin):
    """When people get a digest."""

    list_select_related = ("owner",)
    list_display = ("owner", "often", "hour", "weekday", "next_at")
    list_filter = ("often",)


@admin.register(research.Digest)
class DigestAdmin(ReadOnlyAdmin):
    """Digests that were made."""

    list_select_related = ("owner",)
    list_display = ("id", "owner", "slot", "since", "created")
    date_hierarchy = "created"


@admin.register(research.DigestEntry)
class DigestEntryAdmin(ReadOnlyAdmin):
    """Which run stands in which digest."""

    OWNER = "digest__owner_id"
    list_display = ("run_id", "digest_id")


@admin.register(research.Feed)
class FeedAdmin(UnnamedAdmin):
    """Private addresses of feeds; what opens them is not shown."""

    SENSITIVE = "topic__sensitivity"
    list_select_related = ("owner", "topic")
    list_display = ("id", "owner", "topic_id", "with_private", "created", "ended_at", "opened_at")
    list_filter = ("with_private",)
