"""People, programs and connections in the admin, and the admin's own doors."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import quote, unquote

from django.contrib import admin, messages
from django.contrib.admin.views.main import ERROR_FLAG
from django.contrib.auth.admin import UserAdmin as StockUserAdmin
from django.contrib.auth.models import Group
from django.contrib.auth.views import redirect_to_login
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from beacon_site.http import BeaconRequest
from memory import models as memory
from memory.accounts import sign_ins, tokens
from memory.admin_pages.base import NoOracleAdmin, ReadOnlyAdmin

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


def _may_enter(request: HttpRequest) -> bool:
    """Whether the admin opens; to anybody else signed in it does not exist, and at once."""
    if request.user.is_authenticated and not request.user.is_staff:
        raise Http404
    return request.user.is_active and request.user.is_staff


def _sign_out(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """Sign out of this browser as the pages do, so that its sign-in is not listed any more."""
    sign_ins.end(cast("BeaconRequest", request))
    return redirect("memory:sign-in")


def _password(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """Lead to the one page where people change their password."""
    return redirect("memory:sign-ins")


def _no_autocomplete(request: HttpRequest) -> HttpResponse:
    """Refuse: no field here offers choices, and Django's answer names rows without the mask."""
    raise Http404


_open = admin.site.admin_view


def _with_a_plain_query(view: Callable[..., Any], cacheable: bool = False) -> Callable[..., Any]:
    """Answer a query that no column can hold as the admin does one that means nothing.

    A filter of the admin hands what was asked for to Postgres, which takes no NUL.
    """
    opened = _open(view, cacheable)

    @wraps(opened)
    def plain(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if "\0" in request.path:
            raise Http404  # no row has such a key
        if "\0" in unquote(request.META.get("QUERY_STRING", "")):
            return redirect(f"{quote(request.path)}?{ERROR_FLAG}=1")
        return opened(request, *args, **kwargs)

    return plain


admin.site.admin_view = _with_a_plain_query  # type: ignore[method-assign, assignment]
admin.site.has_permission = _may_enter  # type: ignore[method-assign]
admin.site.login = _sign_in  # type: ignore[method-assign]
admin.site.logout = require_POST(_sign_out)  # type: ignore[method-assign, assignment]
admin.site.password_change = _password  # type: ignore[method-assign, assignment]
admin.site.autocomplete_view = _no_autocomplete  # type: ignore[method-assign]
admin.site.site_header = "Beacon"
admin.site.site_title = "Beacon"
admin.site.index_title = gettext_lazy("All accounts, to read")
admin.site.site_url = "/"
admin.site.unregister(Group)  # Beacon knows people and staff, no groups


@admin.register(memory.User)
class UserAdmin(NoOracleAdmin, _UserAdmin):
    """Accounts.  Staff set passwords anew here; the rest is in Settings."""

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
        names = [str(name) for _title, options in self.fieldsets for name in options["fields"]]
        return [name for name in names if name not in self.OPEN]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: it would take all that a person owns.  Settings, People disables accounts."""
        return False

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Keep in the person's own log that staff set their password."""
        if message:
            by = request.user.actor  # type: ignore[union-attr]
            memory.Activity.log(obj, by, "password-set-by-staff", subject=obj, warning=True)
        return super().log_change(request, obj, message)


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
            by = request.user.actor  # type: ignore[union-attr]
            revoked += tokens.revoke(token, by=by)
        text = _("Revoked: %(count)d.") % {"count": revoked}
        self.message_user(request, text, messages.SUCCESS)


@admin.register(memory.ApiAnswer)
class ApiAnswerAdmin(ReadOnlyAdmin):
    """Answers of the API that are given again for a day; what they say is their owner's."""

    list_display = ("token", "key", "status", "created")
    list_select_related = ("token__agent",)
    SECRET = ("body", "headers", "fingerprint", "record_ids")
    OWNER = "token__agent__owner_id"


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
