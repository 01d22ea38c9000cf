"""Memory's models in the admin, for staff: every account, to read.

People and connections are changed in Settings; memory by its owner's pages.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from memory import models as memory
from memory.admin_pages import accounts as admin_accounts  # noqa: F401 - registers its models
from memory.admin_pages import remembered as admin_remembered  # noqa: F401
from memory.admin_pages.base import AboutRecordAdmin, ReadOnlyAdmin, RememberedAdmin


@admin.register(memory.Topic)
class TopicAdmin(RememberedAdmin):
    """Topics of all accounts."""

    list_display = ("label", "owner", "run_count", "last_run_at", "expires_at", "trashed_at")
    search_fields = ("=id", "owner__username")
    MASKED = ("title", "slug", "summary", "labels")
    PAGE = ("research:topic", ("slug",))


@admin.register(memory.TopicFact)
class TopicFactAdmin(RememberedAdmin):
    """Facts of all topics."""

    list_display = ("label", "owner", "state", "touched_by_person", "trust", "first_run", "updated")
    list_filter = ("state", "touched_by_person", "trust", "sensitivity")
    search_fields = ("=topic__id", "owner__username")
    list_select_related = ("owner", "topic")
    MASKED = ("text", "url", "source_title", "quote", "key")
    PAGE = ("research:topic", ("topic__slug",))

    def is_sensitive(self, row: Any) -> bool:
        """Whether the fact or its topic is."""
        return super().is_sensitive(row) or super().is_sensitive(row.topic)


@admin.register(memory.ContentItem)
class ContentItemAdmin(RememberedAdmin):
    """Full action results."""

    list_display = ("label", "owner", "type", "scope", "size", "trust", "created", "trashed_at")
    list_filter = ("type", "trust", "sensitivity")
    search_fields = ("scope", "owner__username")
    MASKED = ("content", "title", "url", "tags")
    PAGE = ("memory:content-item", ("pk",))


@admin.register(memory.Snapshot)
class SnapshotAdmin(RememberedAdmin):
    """What scopes of content stores held at a moment."""

    list_display = ("label", "owner", "scope", "count", "size", "created", "trashed_at")
    search_fields = ("scope", "owner__username")
    MASKED = ("title",)
    PAGE = ("memory:content-snapshot", ("pk",))


@admin.register(memory.SnapshotItem)
class SnapshotItemAdmin(ReadOnlyAdmin):
    """Items as they were when a snapshot was taken."""

    list_display = ("label", "shown_snapshot", "position", "type", "size", "trust", "created")
    list_filter = ("type", "trust", "sensitivity")
    list_select_related = ("snapshot", "snapshot__owner")
    search_fields = ("scope", "snapshot__owner__username")
    OWNER = "snapshot__owner_id"
    MASKED = ("content", "title", "url", "tags")


@admin.register(memory.LibraryDocument)
class LibraryDocumentAdmin(RememberedAdmin):
    """Documents that people added, or that lie in the watched folder."""

    list_display = (
        "label",
        "owner",
        "media_type",
        "modified_at",
        "problem",
        "updated",
        "trashed_at",
    )
    list_filter = ("media_type", "sensitivity")
    search_fields = ("owner__username",)
    MASKED = ("title", "text", "path")
    PAGE = ("memory:library-document", ("pk",))


@admin.register(memory.LibraryFolder)
class LibraryFolderAdmin(ReadOnlyAdmin):
    """The watched folder, as last looked at."""

    list_display = ("folder", "owner", "files", "unreadable", "checked_at", "problem")
    list_select_related = ("owner",)


@admin.register(memory.SearchSpace)
class SearchSpaceAdmin(ReadOnlyAdmin):
    """Whose records of which type are ranked among each other.

    (Their terms, `SearchTerm`, have a key of two columns, which no admin of Django 5.2 takes.)
    """

    list_display = ("record_type", "owner", "documents", "length")
    list_filter = ("record_type",)
    list_select_related = ("owner",)


@admin.register(memory.SearchEntry)
class SearchEntryAdmin(ReadOnlyAdmin):
    """What recall has indexed; the words themselves may be of sensitive records."""

    list_display = ("record_id", "space", "length")
    list_filter = ("space__record_type",)
    list_select_related = ("space",)
    search_fields = ("=record_id",)
    SECRET = ("words",)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """Leave the vectors in the database: they are large."""
        return super().get_queryset(request).defer("words")


@admin.register(memory.Session)
class SessionAdmin(RememberedAdmin):
    """Conversations with the agent."""

    list_display = ("label", "owner", "agent", "created", "ended_at", "trashed_at")
    list_select_related = ("owner", "agent")
    search_fields = ("owner__username",)
    MASKED = ("title",)


@admin.register(memory.Message)
class MessageAdmin(ReadOnlyAdmin):
    """Turns of conversations."""

    list_display = ("label", "session_owner", "role", "position", "created")
    list_filter = ("role",)
    list_select_related = ("session__owner",)
    MASKED = ("content", "tool_calls", "cites", "notice")
    OWNER = "session__owner_id"
    SENSITIVE = "session__sensitivity"

    @admin.display(description=gettext_lazy("owner"))
    def session_owner(self, row: memory.Message) -> str:
        """Return whose conversation it is."""
        return str(row.session.owner)


@admin.register(memory.SeenUrl)
class SeenUrlAdmin(ReadOnlyAdmin):
    """Addresses that searches returned."""

    list_display: Any = ("label", "topic_owner", "returned_in", "returned_at")
    list_select_related = ("topic__owner",)
    search_fields = ("=topic__id", "topic__owner__username")
    MASKED: ClassVar[tuple[str, ...]] = ("url",)
    OWNER = "topic__owner_id"
    SENSITIVE = "topic__sensitivity"

    @admin.display(description=gettext_lazy("owner"))
    def topic_owner(self, row: Any) -> str:
        """Return whose topic it is."""
        return str(row.topic.owner)


@admin.register(memory.Source)
class SourceAdmin(SeenUrlAdmin):
    """Pages that were read or cited."""

    list_display = ("label", "topic_owner", "first_run", "last_run", "times_read", "times_cited")
    MASKED = ("url", "link", "domain", "title")


@admin.register(memory.Revision)
class RevisionAdmin(AboutRecordAdmin):
    """The history of all records; nothing can change it."""

    list_display = ("record_type", "record_id", "version", "actor", "owner", "created")
    list_filter = ("record_type",)
    list_select_related = ("owner",)
    search_fields = ("=record_id", "actor", "source")
    MASKED = ("label", "before", "after", "reason")


@admin.register(memory.Activity)
class ActivityAdmin(AboutRecordAdmin):
    """The log of what happened."""

    list_display = ("kind", "actor", "owner", "subject_type", "is_warning", "created")
    list_filter = ("is_warning", "kind", "subject_type")
    list_select_related = ("owner",)
    search_fields = ("actor", "kind", "owner__username")
    date_hierarchy = "created"
    MASKED = ("label", "detail")
    TYPE = "subject_type"
    ID = "subject_id"


@admin.register(memory.Proposal)
class ProposalAdmin(AboutRecordAdmin):
    """Agents' writes that wait for a person."""

    list_display = ("record_type", "actor", "owner", "danger", "state", "created", "expires_at")
    list_filter = ("state", "danger", "record_type")
    list_select_related = ("owner",)
    search_fields = ("actor", "owner__username")
    MASKED = ("before", "after", "reason", "held_because", "risks")
    ID = "target_id"


@admin.register(memory.Conflict)
class ConflictAdmin(AboutRecordAdmin):
    """Records that do not go together, and what became of them."""

    list_display = ("kind", "owner", "left_type", "right_type", "state", "settled_how", "created")
    list_filter = ("state", "kind", "settled_how")
    list_select_related = ("owner",)
    search_fields = ("=left_id", "=right_id", "source", "owner__username")
    MASKED = ("reason",)
    TYPE = "left_type"
    ID = "left_id"


@admin.register(memory.RefusedSource)
class RefusedSourceAdmin(ReadOnlyAdmin):
    """Sources from which owners want nothing any more."""

    list_display = ("owner", "kind", "name", "refused", "last_refused_at", "created")
    list_filter = ("kind",)
    list_select_related = ("owner",)


@admin.register(memory.ReviewLevel)
class ReviewLevelAdmin(ReadOnlyAdmin):
    """How owners want agents' writes treated."""

    list_display = ("owner", "kind", "level")
    list_filter = ("level",)
    list_select_related = ("owner",)


@admin.register(memory.AgentScope)
class AgentScopeAdmin(ReadOnlyAdmin):
    """Which agent holds a scope that it named itself."""

    list_display = ("owner", "scope", "agent", "created")
    list_select_related = ("owner",)


@admin.register(memory.PublishDue)
class PublishDueAdmin(ReadOnlyAdmin):
    """Topics whose copy in Redis is behind."""

    list_display = ("id", "owner", "created", "tried_at")
    list_select_related = ("owner",)
    MASKED = ("slug",)

    def is_sensitive(self, row: Any) -> bool:
        """Treat all as sensitive: the slug may be that of a private topic."""
        return True


@admin.register(memory.ModelCall)
class ModelCallAdmin(ReadOnlyAdmin):
    """Calls of models.  What was said is its owner's: others see how much it was."""

    list_display = (
        "purpose",
        "owner",
        "model",
        "prompt_tokens",
        "completion_tokens",
        "money",
        "created",
    )
    list_filter = ("purpose", "model", "failure")
    list_select_related = ("owner",)
    search_fields = ("source", "purpose", "owner__username")
    date_hierarchy = "created"
    MASKED = ("prompt", "answer", "error")

    def is_sensitive(self, row: Any) -> bool:
        """Treat all as sensitive: a prompt may hold anything its owner stored."""
        return True


@admin.register(memory.Reflection)
class ReflectionAdmin(ReadOnlyAdmin):
    """What the reflector made of finished work.  What it said and changed is its owner's."""

    list_display = ("source", "owner", "state", "by", "rounds", "created")
    list_filter = ("state", "by")
    list_select_related = ("owner",)
    search_fields = ("source", "owner__username")
    MASKED = ("why", "assessment", "calls", "changes")

    def is_sensitive(self, row: Any) -> bool:
        """Treat all as sensitive: it was made from whatever its owner stored."""
        return True


@admin.register(memory.Use)
class UseAdmin(ReadOnlyAdmin):
    """Which record entered which prompt."""

    list_display = ("record_type", "record_id", "place", "owner", "created")
    list_filter = ("record_type",)
    list_select_related = ("owner",)
    search_fields = ("=record_id", "place")


@admin.register(memory.Archive)
class ArchiveAdmin(ReadOnlyAdmin):
    """Exports and imports: when, how large, and what became of them."""

    list_display = ("way", "owner", "state", "size", "created", "finished_at")
    list_filter = ("way", "state")
    list_select_related = ("owner",)
    search_fields = ("owner__username",)
    MASKED = ("name", "options", "result", "problem")

    def is_sensitive(self, row: Any) -> bool:
        """Treat all as sensitive: a name or a reason may hold anything its owner stored."""
        return True


@admin.register(memory.CallReservation)
class CallReservationAdmin(ReadOnlyAdmin):
    """What calls of a model that are under way may cost at most."""

    list_display = ("source", "owner", "tokens", "money", "created")
    list_select_related = ("owner",)
    search_fields = ("owner__username", "source")
