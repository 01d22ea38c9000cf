"""Memory's models in the admin, for staff: every account, to read.

People and connections are changed in Settings; memory by its owner's pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as StockUserAdmin
from django.contrib.auth.models import Group
from django.contrib.auth.views import redirect_to_login
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory import models as memory
from memory.admin_base import AboutRecordAdmin, ReadOnlyAdmin

if TYPE_CHECKING:
    _UserAdmin = StockUserAdmin[memory.User]
else:
    _UserAdmin = StockUserAdmin


def _sign_in(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """Use Beacon's own sign-in, with its lockout; for who is no staff there is no admin."""
    if request.user.is_authenticated and not request.user.is_staff:
        raise Http404
    goal = request.GET.get("next") or reverse("admin:index")
    if request.user.is_authenticated:
        return redirect("admin:index")
    return redirect_to_login(goal, reverse("memory:sign-in"))


admin.site.login = _sign_in  # type: ignore[method-assign]
admin.site.site_header = "Beacon"
admin.site.site_title = "Beacon"
admin.site.index_title = gettext_lazy("All accounts, to read")
admin.site.site_url = "/"
admin.site.unregister(Group)  # Beacon knows people and staff, no groups


@admin.register(memory.User)
class UserAdmin(_UserAdmin):
    """Accounts.  Staff set passwords anew and delete accounts here; the rest is in Settings."""

    list_display = ("username", "display_name", "email", "is_staff", "is_active", "date_joined")
    search_fields = ("username", "display_name", "email")
    list_select_related = False
    OPEN: ClassVar[tuple[str, ...]] = ("password",)
    fieldsets = (
        (None, {"fields": ("username", "password", "display_name", "email")}),
        (None, {"fields": ("time_zone", "language", "shortcuts")}),
        (None, {"fields": ("is_active", "is_staff", "is_superuser", "last_login", "date_joined")}),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: people are invited under Settings, People."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Return all fields but the password, which has a page of its own."""
        names = [name for _title, options in self.fieldsets for name in options["fields"]]
        return [name for name in names if name not in self.OPEN]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Allow, but for one's own account; so somebody with all rights always remains."""
        return super().has_delete_permission(request, obj) and obj != request.user

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return what goes with the accounts: all they own, whatever its admin allows alone."""
        shown, counts, _needed, protected = super().get_deleted_objects(objs, request)
        return shown, counts, set(), protected

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        """Delete one by one, by the method that takes the history along."""
        for user in queryset.exclude(pk=request.user.pk):
            user.delete()

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Keep in the person's own log that staff set their password."""
        if message:
            by = request.user.actor  # type: ignore[union-attr]
            memory.Activity.log(obj, by, "password-set-by-staff", subject=obj, warning=True)
        return super().log_change(request, obj, message)


class RememberedAdmin(ReadOnlyAdmin):
    """What every remembered record has."""

    list_display: Any = (
        "label",
        "owner",
        "source",
        "trust",
        "sensitivity",
        "updated",
        "trashed_at",
    )
    list_filter: Any = ("trust", "sensitivity", ("trashed_at", admin.EmptyFieldListFilter))
    list_select_related: Any = ("owner",)
    date_hierarchy = "created"


@admin.register(memory.Topic)
class TopicAdmin(RememberedAdmin):
    """Topics of all accounts."""

    list_display = ("label", "owner", "run_count", "last_run_at", "expires_at", "trashed_at")
    search_fields = ("slug", "owner__username")
    MASKED = ("title", "slug", "summary", "labels")
    PAGE = ("research:topic", ("slug",))


@admin.register(memory.TopicFact)
class TopicFactAdmin(RememberedAdmin):
    """Facts of all topics."""

    list_display = ("label", "owner", "state", "touched_by_person", "trust", "first_run", "updated")
    list_filter = ("state", "touched_by_person", "trust", "sensitivity")
    search_fields = ("topic__slug", "owner__username")
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
    MASKED = ("content", "tool_calls")
    OWNER = "session__owner_id"
    SENSITIVE = "session__sensitivity"

    @admin.display(description=gettext_lazy("owner"))
    def session_owner(self, row: memory.Message) -> str:
        """Return whose conversation it is."""
        return str(row.session.owner)


@admin.register(memory.SeenUrl)
class SeenUrlAdmin(ReadOnlyAdmin):
    """Addresses that searches returned."""

    list_display = ("label", "topic_owner", "returned_in", "returned_at")
    list_select_related = ("topic__owner",)
    search_fields = ("topic__slug", "topic__owner__username")
    MASKED = ("url",)
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

    list_display = ("record_type", "actor", "owner", "state", "created", "expires_at")
    list_filter = ("state", "record_type")
    list_select_related = ("owner",)
    search_fields = ("actor", "owner__username")
    MASKED = ("before", "after", "reason", "held_because")
    ID = "target_id"


@admin.register(memory.ReviewLevel)
class ReviewLevelAdmin(ReadOnlyAdmin):
    """How owners want agents' writes treated."""

    list_display = ("owner", "kind", "level")
    list_filter = ("level",)
    list_select_related = ("owner",)


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
    list_filter = ("purpose", "model", ("error", admin.EmptyFieldListFilter))
    list_select_related = ("owner",)
    search_fields = ("source", "purpose", "owner__username")
    date_hierarchy = "created"
    MASKED = ("prompt", "answer")

    def is_sensitive(self, row: Any) -> bool:
        """Treat all as sensitive: a prompt may hold anything its owner stored."""
        return True


@admin.register(memory.Use)
class UseAdmin(ReadOnlyAdmin):
    """Which record entered which prompt."""

    list_display = ("record_type", "record_id", "place", "owner", "created")
    list_filter = ("record_type",)
    list_select_related = ("owner",)
    search_fields = ("=record_id", "place")


@admin.register(memory.Agent)
class AgentAdmin(ReadOnlyAdmin):
    """Programs that act for their owners."""

    list_display = ("name", "owner", "enable_memory", "share_with_subagents", "created")
    list_select_related = ("owner",)
    search_fields = ("name", "owner__username")


@admin.register(memory.ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Bearer tokens, of which not even the hash is shown; staff may revoke one."""

    list_display = ("agent", "token_owner", "scopes", "created", "last_used_at", "revoked_at")
    list_select_related = ("agent__owner",)
    search_fields = ("agent__name", "agent__owner__username")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    actions = ("revoke",)
    SECRET = ("hash",)
    OWNER = "agent__owner_id"

    @admin.display(description=gettext_lazy("owner"))
    def token_owner(self, row: memory.ApiToken) -> str:
        """Return for whom the agent acts."""
        return str(row.agent.owner)

    @admin.action(description=gettext_lazy("Revoke the selected tokens"))
    def revoke(self, request: HttpRequest, queryset: models.QuerySet[memory.ApiToken]) -> None:
        """End tokens at once; their rows stay, so that it can be seen what they did."""
        revoked = 0
        for token in queryset.filter(revoked_at=None).select_related("agent__owner"):
            token.revoked_at = timezone.now()
            token.save(update_fields=["revoked_at"])
            by = request.user.actor  # type: ignore[union-attr]
            memory.Activity.log(token.agent.owner, by, "token-revoked", subject=token)
            revoked += 1
        text = _("Revoked: %(count)d.") % {"count": revoked}
        self.message_user(request, text, messages.SUCCESS)


@admin.register(memory.Connection)
class ConnectionAdmin(ReadOnlyAdmin):
    """Outside services; they are changed in Settings, where keys are write-only."""

    list_display = ("kind", "name", "base_url", "model", "has_secret", "updated")
    ALSO_SHOWN = ("has_secret", "settings_page")

    @admin.display(description=gettext_lazy("key"), boolean=True)
    def has_secret(self, row: memory.Connection) -> bool:
        """Return whether a key is stored."""
        return bool(row.secret)

    @admin.display(description=gettext_lazy("change it"))
    def settings_page(self, row: memory.Connection) -> str:
        """Return the link to where staff change it."""
        return format_html(
            '<a href="{}">{}</a>', reverse("memory:connections"), _("Settings, Connections")
        )


@admin.register(memory.Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    """One-time links; only their hash is stored, and it is not shown."""

    list_display = ("note", "makes_staff", "is_first", "invited_by", "expires_at", "used_by")
    list_select_related = ("invited_by", "used_by")
    list_filter = ("makes_staff", "is_first")
    SECRET = ("token_hash",)


@admin.register(memory.SignIn)
class SignInAdmin(ReadOnlyAdmin):
    """Where people are signed in; the session's key is a secret."""

    list_display = ("owner", "user_agent", "address", "created", "last_seen_at")
    list_select_related = ("owner",)
    search_fields = ("owner__username", "address")
    SECRET = ("session_key",)
