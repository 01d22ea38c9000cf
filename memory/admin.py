"""Memory's models in the admin site, to read, and the site's own sign-in pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard, cast
from urllib.parse import quote, unquote

from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup, NotRegistered
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, ChangeList
from django.contrib.auth.admin import UserAdmin as StockUserAdmin
from django.contrib.auth.models import Group
from django.contrib.auth.views import redirect_to_login
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from beacon_site.web.http import BeaconRequest
from memory import models as memory
from memory.accounts import sign_ins, tokens
from memory.models import Remembered, Sensitivity

# --- Read-only admin pages, with masks, for rows that only Beacon's own methods write ---
#
# Staff see all accounts here. Sensitive text is shown only to its owner, and secrets are shown to no
# one.


if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]
else:
    _Admin = admin.ModelAdmin

MASK = "••••••"
CUT = 100  # characters of a text in a list
_FILTERS = (
    "exact",
    "in",
    "isnull",
    "isempty",
    "gte",
    "lt",
)  # the parameters of the admin's own filters
_DATES = ("year", "month", "day", "gte", "lt")


class _ShownColumns(ChangeList):
    """A list that sorts only by columns whose values it shows."""

    def get_ordering_field(self, field_name: Any) -> Any:
        """Return the column's sort field, or None for a masked one."""
        shown = self.model_admin
        hidden = shown.hidden_columns() if isinstance(shown, ReadOnlyAdmin) else set()
        return None if field_name in hidden else super().get_ordering_field(field_name)


class MaskedAdmin(_Admin):
    """An admin whose filters and sorting reveal nothing about masked values.

    Django allows lookups on any column in a list's query string, so the number of rows would
    reveal a masked text one character at a time.
    """

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Allow the list's own filters, its dates and the row's key."""
        key = self.model._meta.pk.name
        paths = [key, "pk"]
        for one in self.list_filter:
            path = one[0] if isinstance(one, (tuple, list)) else one
            paths.append(path if isinstance(path, str) else getattr(path, "parameter_name", ""))
        allowed = {*paths, *(f"{path}__{how}" for path in paths for how in _FILTERS)}
        if self.date_hierarchy:
            allowed |= {f"{self.date_hierarchy}__{part}" for part in _DATES}
        return lookup in allowed

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list that doesn't sort by masked columns."""
        return _ShownColumns

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Treat a lookup that isn't allowed like an invalid one: show the whole list."""
        try:
            return super().get_changelist_instance(request)
        except DisallowedModelAdminLookup as exc:
            raise IncorrectLookupParameters from exc


class ReadOnlyAdmin(MaskedAdmin):
    """Rows to read: no adding, changing or deleting around the methods that keep the rules.

    `MASKED` names the texts that are hidden if the row is sensitive, `SECRET` those that are
    always hidden; `PAGE` is the route of the row's own page and the attributes it takes.  `OWNER`
    and `SENSITIVE` are paths to the owner's key and to the row's sensitivity; with `ALL_SENSITIVE`,
    each row counts as sensitive.
    """

    MASKED: ClassVar[tuple[str, ...]] = ()
    SECRET: ClassVar[tuple[str, ...]] = ()
    OWNER: ClassVar[str] = "owner_id"
    SENSITIVE: ClassVar[str] = ""
    ALL_SENSITIVE: ClassVar[bool] = False
    PAGE: ClassVar[tuple[str, tuple[str, ...]] | None] = None
    ALSO_SHOWN: ClassVar[tuple[str, ...]] = ()

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse, as changing and deleting: rows have methods for that, and Trash."""
        return False

    has_change_permission = has_delete_permission = has_add_permission

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponse:
        """Refuse: nothing is changed here, and Django's page names the row without the mask."""
        raise Http404

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """Add the viewer to each row, since a column's method gets only the row."""
        rows: models.QuerySet[Any] = super().get_queryset(request)
        seen: models.QuerySet[Any] = rows.annotate(viewer=models.Value(request.user.pk))
        return seen

    def get_list_select_related(self, request: HttpRequest) -> Any:
        """Return what the list shows of other rows."""
        names = {f.name for f in self.model._meta.fields if f.is_relation}
        return self.list_select_related or [one for one in self.list_display if one in names]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Return every column, hidden ones by their masked twin, and the link to the page."""
        names = [f.name for f in self.model._meta.fields if f.editable or f.name in ("id", "hash")]
        if not names or self.model._meta.pk.name not in names:
            names.insert(0, self.model._meta.pk.name)
        hidden = self.hidden_columns()
        shown = [f"shown_{name}" if name in hidden else name for name in names]
        return [*shown, *self.ALSO_SHOWN, *(["page"] if self.PAGE else [])]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Return every field, since none can be edited here."""
        return self.get_fields(request, obj)

    def __getattr__(self, name: str) -> Callable[[Any], str]:
        """Return the masked twin of a column, for `shown_<column>`."""
        column = name.removeprefix("shown_")
        if column == name or column not in self.hidden_columns():
            raise AttributeError(name)

        def shown(row: Any) -> str:
            return self.text_of(row, column)

        shown.short_description = self.model._meta.get_field(column).verbose_name  # type: ignore[attr-defined]
        return shown

    def hidden_columns(self) -> set[str]:
        """Return the columns with a masked twin: texts, secrets, and names of records."""
        columns = self.model._meta.fields
        named = {f.name for f in columns if f.is_relation and _is_remembered(f.related_model)}
        return {*self.MASKED, *self.SECRET, *named}

    def render_change_form(
        self, request: HttpRequest, context: Any, *args: Any, **more: Any
    ) -> Any:
        """Mask the row's name in the page's title and path too."""
        response: Any = super().render_change_form(request, context, *args, **more)
        row = response.context_data["original"]
        name = self.label(row)
        response.context_data |= {"original": _DisplayRow(row.pk, name), "subtitle": name}
        return response

    def text_of(self, row: Any, column: str) -> str:
        value = getattr(row, column)
        if column in self.SECRET:
            return MASK if value else _("none")
        if not value:
            return "-"
        if self.is_hidden(row):
            return MASK
        if isinstance(value, models.Model):
            place = f"admin:{value._meta.app_label}_{value._meta.model_name}_change"
            return format_html('<a href="{}">{}</a>', reverse(place, args=[value.pk]), value)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)

    def is_hidden(self, row: Any) -> bool:
        """Return True if the row's text is sensitive and the viewer isn't its owner."""
        return self.is_sensitive(row) and walk(row, self.OWNER) != row.viewer

    def is_sensitive(self, row: Any) -> bool:
        """Return True if the row, or its parent, is marked sensitive."""
        if self.ALL_SENSITIVE:
            return True
        path = self.SENSITIVE or ("sensitivity" if hasattr(row, "sensitivity") else "")
        return bool(path) and walk(row, path) == Sensitivity.SENSITIVE

    @admin.display(description=gettext_lazy("text"))
    def label(self, row: Any) -> str:
        """Return the row's name in lists."""
        if self.is_hidden(row):
            return MASK
        text = str(row)
        return text if len(text) <= CUT else text[:CUT] + "…"

    @admin.display(description=gettext_lazy("owner"))
    def owned_by(self, row: Any) -> str:
        return str(walk(row, self.OWNER.removesuffix("_id")))

    @admin.display(description=gettext_lazy("page"))
    def page(self, row: Any) -> str:
        """Return a link to the record's own page, which only its owner can open."""
        if self.PAGE is None or walk(row, self.OWNER) != row.viewer:
            return _("only its owner can open it")
        route, attributes = self.PAGE
        try:
            address = reverse(route, args=[walk(row, attribute) for attribute in attributes])
        except NoReverseMatch:
            return "-"
        return format_html('<a href="{}">{}</a>', address, _("Open the page"))


@dataclass(frozen=True)
class _DisplayRow:
    """A stand-in for a row wherever a page shows its name."""

    pk: Any
    name: str

    def __str__(self) -> str:
        return self.name


def _is_remembered(model: Any) -> TypeGuard[type[Remembered]]:
    return isinstance(model, type) and issubclass(model, Remembered)


def walk(row: Any, path: str) -> Any:
    """Follow `a__b__c`; None if the path ends early."""
    for name in path.split("__"):
        row = getattr(row, name, None)
    return row


class RememberedAdmin(ReadOnlyAdmin):
    """The columns that every record has."""

    list_display: Any = (
        "label",
        "owner",
        "source",
        "trust",
        "sensitivity",
        "updated",
        "trashed_at",
    )
    list_filter: ClassVar[Any] = (
        "trust",
        "sensitivity",
        ("trashed_at", admin.EmptyFieldListFilter),
    )
    date_hierarchy = "created"


class AboutRecordAdmin(ReadOnlyAdmin):
    """Rows about a record, by type and ID: hidden if that record is sensitive."""

    TYPE: ClassVar[str] = "record_type"
    ID: ClassVar[str] = "record_id"

    def is_sensitive(self, row: Any) -> bool:
        """Return True if the record is sensitive; a deleted one counts as sensitive."""
        model = _remembered(getattr(row, self.TYPE))
        key = getattr(row, self.ID)
        if model is None or not key:
            return False
        found = model._default_manager.filter(pk=key).values_list("sensitivity", flat=True).first()
        return found != Sensitivity.NORMAL


def register(
    model: type[models.Model],
    columns: str,
    base: type[ReadOnlyAdmin] = ReadOnlyAdmin,
    *,
    filters: str = "",
    search: str = "",
    masked: str = "",
    hidden: str = "",
    **more: Any,
) -> None:
    """Show a model's rows. Several names in one text are separated by spaces."""
    given = {"list_display": columns, "list_filter": filters, "search_fields": search}
    given |= {"MASKED": masked, "SECRET": hidden}
    lists = {name: tuple(names.split()) for name, names in given.items() if names}
    admin.site.register(model, base, **lists, **more)


def _remembered(record_type: str) -> type[Remembered] | None:
    for model in apps.get_models():
        if _is_remembered(model) and model.record_type() == record_type:
            return model
    return None


# --- Admin ---


if TYPE_CHECKING:
    _UserAdmin = StockUserAdmin[memory.User]
else:
    _UserAdmin = StockUserAdmin


def _sign_in(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """Use Beacon's own sign-in, with its lockout; people who aren't staff get no admin site."""
    if request.user.is_authenticated and not request.user.is_staff:
        raise Http404
    goal = request.GET.get("next") or reverse("admin:index")
    if request.user.is_authenticated:
        return redirect("admin:index")
    return redirect_to_login(goal, reverse("memory:sign-in"))


def _may_enter(request: HttpRequest) -> bool:
    """Whether the admin site opens; for others who are signed in, it immediately returns 404."""
    if request.user.is_authenticated and not request.user.is_staff:
        raise Http404
    return request.user.is_active and request.user.is_staff


def _sign_out(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """Sign out of this browser as the pages do, so that its sign-in is no longer listed."""
    sign_ins.end(cast("BeaconRequest", request))
    return redirect("memory:sign-in")


def _password(request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
    """Redirect to the one page where people change their password."""
    return redirect("memory:sign-ins")


def _no_autocomplete(request: HttpRequest) -> HttpResponse:
    """Refuse: no field here has choices, and Django's answer would show row names unmasked."""
    raise Http404


_open = admin.site.admin_view


def _with_a_plain_query(view: Callable[..., Any], cacheable: bool = False) -> Callable[..., Any]:
    """Treat a query that no column can hold like an invalid one.

    The admin's filters pass values on to Postgres, which doesn't accept NUL.
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
admin.site.index_title = gettext_lazy("All accounts (read-only)")
admin.site.site_url = "/"
admin.site.unregister(Group)  # Beacon has people and staff, no groups


@admin.register(memory.User)
class UserAdmin(MaskedAdmin, _UserAdmin):
    """Accounts.  Staff reset passwords here; the rest is in Settings."""

    list_display = ("username", "display_name", "email", "is_staff", "is_active", "date_joined")
    search_fields = ("username", "display_name", "email")
    list_select_related = False
    OPEN: ClassVar[tuple[str, ...]] = ("password",)
    fieldsets = (
        (None, {"fields": ("username", "password", "display_name", "email")}),
        (None, {"fields": ("time_zone", "page_language", "language", "shortcuts")}),
        (None, {"fields": ("is_active", "is_staff", "is_superuser", "last_login", "date_joined")}),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Refuse: people are invited in Settings → Users."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Return all fields but the password, which has its own page."""
        names = [str(name) for _title, options in self.fieldsets for name in options["fields"]]
        return [name for name in names if name not in self.OPEN]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: it would delete everything a person owns.  Settings → Users disables accounts."""
        return False

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Record in the person's own log that staff set their password."""
        if message:
            by = request.user.actor  # type: ignore[union-attr]
            memory.Activity.log(obj, by, "password-set-by-staff", subject=obj, warning=True)
        return super().log_change(request, obj, message)


register(
    memory.Agent,
    "name owner enable_memory share_with_subagents created",
    search="name owner__username",
)


@admin.register(memory.ApiToken)
class ApiTokenAdmin(ReadOnlyAdmin):
    """Bearer tokens, without even their hash; staff can revoke one."""

    list_display = ("agent", "owned_by", "scopes", "created", "last_used_at", "revoked_at")
    list_select_related = ("agent__owner",)
    search_fields = ("agent__name", "agent__owner__username")
    list_filter = (("revoked_at", admin.EmptyFieldListFilter),)
    actions = ("revoke",)
    SECRET = ("hash",)
    OWNER = "agent__owner_id"

    @admin.action(description=gettext_lazy("Revoke selected tokens"))
    def revoke(self, request: HttpRequest, queryset: models.QuerySet[memory.ApiToken]) -> None:
        """Revoke tokens at once; their rows stay, so that their actions can be traced."""
        revoked = 0
        for token in queryset.filter(revoked_at=None).select_related("agent__owner"):
            by = request.user.actor  # type: ignore[union-attr]
            revoked += tokens.revoke(token, by=by)
        text = _("Revoked: %(count)d.") % {"count": revoked}
        self.message_user(request, text, messages.SUCCESS)


register(memory.OAuthClient, "name client_id created read_at", search="name client_id")

# What people allowed apps, without hashes; revoking the token ends it.
register(
    memory.OAuthGrant,
    "client token resource access_until",
    list_select_related=("client", "token__agent"),
    search="client__name token__agent__name token__agent__owner__username",
    hidden="family secret challenge",
    OWNER="token__agent__owner_id",
)

# Answers of the API that are repeated for a day; their text is visible to the owner only.
register(
    memory.ApiAnswer,
    "token key status created",
    list_select_related=("token__agent",),
    hidden="body headers fingerprint record_ids",
    OWNER="token__agent__owner_id",
)


@admin.register(memory.Connection)
class ConnectionAdmin(ReadOnlyAdmin):
    """Outside services; they are edited in Settings, where keys are write-only."""

    list_display = ("kind", "name", "base_url", "model", "has_secret", "updated")
    ALSO_SHOWN = ("has_secret", "settings_page")

    @admin.display(description=gettext_lazy("key"), boolean=True)
    def has_secret(self, row: memory.Connection) -> bool:
        return bool(row.secret)

    @admin.display(description=gettext_lazy("edit"))
    def settings_page(self, row: memory.Connection) -> str:
        """Return the link to the page where staff edit it."""
        return format_html(
            '<a href="{}">{}</a>', reverse("memory:connections"), _("Settings → Models and search")
        )


# People's own keys for the model; each enters it in Settings, and it is never shown.
register(memory.OwnKey, "owner origin updated", hidden="secret", OWNER="owner_id")
register(memory.BackupPlan, "every hour keep tests_restore changed_at written_at")
register(
    memory.BackupFile, "name state size rows is_tested problem created", filters="state is_tested"
)

# One-time links; only their hash is stored, and it isn't shown.
register(
    memory.Invitation,
    "note grants_admin is_first invited_by expires_at used_by",
    filters="grants_admin is_first",
    hidden="token_hash",
)

# Where people are signed in; the session's key is a secret.
register(
    memory.SignIn,
    "owner user_agent address created last_seen_at",
    search="owner__username address",
    hidden="session_key",
)


# allauth's own pages would show secrets, and change rows around Beacon's methods.
for _model in apps.get_models():
    if _model._meta.app_label in ("account", "mfa", "socialaccount"):
        with suppress(NotRegistered):
            admin.site.unregister(_model)
# Authenticator apps, recovery codes and passkeys; their data is secret.
register(
    Authenticator,
    "user type created_at last_used_at",
    OWNER="user_id",
    filters="type",
    search="user__username",
    hidden="data",
)
register(
    SocialAccount,
    "user provider date_joined last_login",
    OWNER="user_id",
    search="user__username",
    hidden="uid extra_data",
)


# --- records ---
register(
    memory.Note,
    "label owner kind stability trust expires_at updated trashed_at",
    RememberedAdmin,
    filters="kind stability trust sensitivity",
    search="source owner__username",
    masked="content tags evidence",
    PAGE=("memory:note", ("pk",)),
)
register(
    memory.Observation,
    "label owner category source trust updated trashed_at",
    RememberedAdmin,
    filters="category trust sensitivity",
    search="source owner__username",
    masked="content tags",
    PAGE=("memory:observation", ("pk",)),
)
register(
    memory.ScratchpadEntry,
    "label owner scope updated trashed_at",
    RememberedAdmin,
    search="scope owner__username",
    ordering=("-updated",),  # not by key, the default order: keys are masked
    masked="key value",
)
register(
    memory.MemoryFile,
    "label owner size version lock trust updated trashed_at",
    RememberedAdmin,
    filters="lock trust sensitivity",
    search="path owner__username",
    masked="content summary section_locks",
    PAGE=("memory:file", ("path",)),
)
register(
    memory.Section,
    "label owner file position updated",
    search="file__path owner__username",
    masked="content heading",
)
register(
    memory.FileEntry,
    "label owner path removed_in trust updated trashed_at",
    RememberedAdmin,
    filters="trust sensitivity",
    search="path owner__username",
    masked="content heading",
    PAGE=("memory:file", ("path",)),
)

# Unsaved text in file editors; only the owner of each draft is shown.
register(
    memory.FileDraft,
    "path owner seen updated",
    search="path owner__username",
    hidden="content note",
)

# Folders of agents, with what their last check found; BEACON_AGENT_DIRS names them.
register(memory.MountedFolder, "name owner place layout files problem checked_at")
register(memory.MirroredFile, "path owner version problem synced_at", search="path owner__username")
register(memory.MirrorFolder, "identity root problem")

# What went to Trash with a run and isn't a record; its text is visible to the owner only.
register(
    memory.TrashedRows,
    "record_type record_id owner created",
    filters="record_type",
    search="owner__username",
    hidden="rows",
)

# Ratings of search results and answers, without questions and reasons.
register(
    memory.Rating,
    "owner record_type value actor created",
    filters="value record_type",
    search="owner__username",
    hidden="question reason key",
)
register(memory.SavedView, "owner page created", filters="page", search="owner__username")
register(
    memory.NameAlias,
    "owner created",
    hidden="name key target target_key",
    ordering=("-created", "-id"),  # the default order would reveal the order of the names
    search="owner__username",
)
register(memory.SourceRule, "owner act created", filters="act", search="owner__username")
register(
    memory.BulkAction,
    "owner page act state done total created",
    filters="state page act",
    search="owner__username",
)
register(
    memory.Undo,
    "owner act created used_at",
    filters="act",
    search="owner__username",
    hidden="arguments",
)
register(
    memory.Embedding,
    "object_id owner record_type model dimensions",
    filters="record_type model",
    search="object_id owner__username",
)
register(
    memory.EmbeddingDue,
    "object_id owner record_type tries not_before",
    filters="record_type",
    search="object_id owner__username",
)


# --- all other models ---
register(
    memory.Topic,
    "label owner run_count last_run_at expires_at trashed_at",
    RememberedAdmin,
    search="=id owner__username",
    masked="title slug summary labels",
    PAGE=("research:topic", ("slug",)),
)


@admin.register(memory.TopicFact)
class TopicFactAdmin(RememberedAdmin):
    list_display = ("label", "owner", "state", "edited_by_person", "trust", "first_run", "updated")
    list_filter = ("state", "edited_by_person", "trust", "sensitivity")
    search_fields = ("=topic__id", "owner__username")
    list_select_related = ("owner", "topic")
    MASKED = ("text", "url", "source_title", "quote", "key")
    PAGE = ("research:topic", ("topic__slug",))

    def is_sensitive(self, row: Any) -> bool:
        return super().is_sensitive(row) or super().is_sensitive(row.topic)


register(
    memory.ContentItem,
    "label owner type scope size trust created trashed_at",
    RememberedAdmin,
    filters="type trust sensitivity",
    search="scope owner__username",
    masked="content title url tags",
    PAGE=("memory:content-item", ("pk",)),
)
register(
    memory.Snapshot,
    "label owner scope count size created trashed_at",
    RememberedAdmin,
    search="scope owner__username",
    masked="title",
    PAGE=("memory:content-snapshot", ("pk",)),
)
register(
    memory.SnapshotItem,
    "label shown_snapshot position type size trust created",
    filters="type trust sensitivity",
    list_select_related=("snapshot", "snapshot__owner"),
    search="scope snapshot__owner__username",
    OWNER="snapshot__owner_id",
    masked="content title url tags",
)
register(
    memory.LibraryDocument,
    "label owner media_type modified_at problem updated trashed_at",
    RememberedAdmin,
    filters="media_type sensitivity",
    search="owner__username",
    masked="title text path",
    PAGE=("memory:library-document", ("pk",)),
)
register(memory.LibraryFolder, "folder owner files unreadable checked_at problem")

# Groups of records, by owner and type, that are ranked together. (Their terms, `SearchTerm`, have a key of two columns, which the admin of Django 5.2 doesn't support.)
register(memory.SearchSpace, "record_type owner documents length", filters="record_type")


@admin.register(memory.SearchEntry)
class SearchEntryAdmin(ReadOnlyAdmin):
    """The index of recall, whose words can be from sensitive records."""

    list_display = ("record_id", "space", "length")
    list_filter = ("space__record_type",)
    search_fields = ("=record_id",)
    SECRET = ("words",)

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """Leave the embeddings in the database: they are large."""
        return super().get_queryset(request).defer("words")


register(
    memory.Session,
    "label owner agent created ended_at trashed_at",
    RememberedAdmin,
    search="owner__username",
    masked="title",
)
register(
    memory.Message,
    "label owned_by role position created",
    filters="role",
    list_select_related=("session__owner",),
    masked="content tool_calls cites notice",
    OWNER="session__owner_id",
    SENSITIVE="session__sensitivity",
)


@admin.register(memory.SeenUrl)
class SeenUrlAdmin(ReadOnlyAdmin):
    """URLs that searches returned."""

    list_display: Any = ("label", "owned_by", "returned_in", "returned_at")
    list_select_related = ("topic__owner",)
    search_fields = ("=topic__id", "topic__owner__username")
    MASKED: ClassVar[tuple[str, ...]] = ("url",)
    OWNER = "topic__owner_id"
    SENSITIVE = "topic__sensitivity"


register(
    memory.Source,
    "label owned_by first_run last_run times_read times_cited",
    SeenUrlAdmin,
    masked="url link domain title",
)
register(
    memory.Revision,
    "record_type record_id version actor owner created",
    AboutRecordAdmin,
    filters="record_type",
    search="=record_id actor source",
    masked="label before after reason",
)
register(
    memory.Activity,
    "kind actor owner subject_type is_warning created",
    AboutRecordAdmin,
    filters="is_warning kind subject_type",
    search="actor kind owner__username",
    date_hierarchy="created",
    masked="label detail",
    TYPE="subject_type",
    ID="subject_id",
)
register(
    memory.Proposal,
    "record_type actor owner danger state created expires_at",
    AboutRecordAdmin,
    filters="state danger record_type",
    search="actor owner__username",
    masked="before after reason hold_reasons risks",
    ID="target_id",
)
register(
    memory.Conflict,
    "kind owner left_type right_type state resolution created",
    AboutRecordAdmin,
    filters="state kind resolution",
    search="=left_id =right_id source owner__username",
    TYPE="left_type",
    ID="left_id",
)
register(memory.RefusedSource, "owner kind name refused last_refused_at created", filters="kind")
register(memory.ReviewLevel, "owner kind writer level", filters="level")
register(memory.AgentScope, "owner scope agent created")
register(
    memory.PublishDue,
    "id owner created tried_at",
    masked="slug",
    ALL_SENSITIVE=True,  # the slug can be that of a private topic
)

# Who can read whose topic, without the topics' names.
register(
    memory.Membership,
    "label topic_id user role notify created",
    OWNER="topic__owner_id",
    SENSITIVE="topic__sensitivity",
    list_select_related=("topic", "user"),
    filters="role notify",
    masked="topic",
)

# Calls of models. Only the owner sees their text; others see their size.
register(
    memory.ModelCall,
    "purpose owner model prompt_tokens completion_tokens money created",
    filters="purpose model failure",
    search="source purpose owner__username",
    date_hierarchy="created",
    masked="prompt answer error",
    ALL_SENSITIVE=True,  # a prompt can have anything its owner stored
)

# Reflections on finished work. Only the owner sees their text and changes.
register(
    memory.Reflection,
    "source owner state by rounds created",
    filters="state by",
    search="source owner__username",
    masked="why assessment calls changes",
    ALL_SENSITIVE=True,  # it was created from anything its owner stored
)
register(
    memory.Use,
    "record_type record_id place owner created",
    filters="record_type",
    search="=record_id place",
)
register(
    memory.Archive,
    "kind owner state size created finished_at",
    filters="kind state",
    search="owner__username",
    masked="name options result problem",
    ALL_SENSITIVE=True,  # a name or a reason can have anything its owner stored
)
register(
    memory.CallReservation, "source owner tokens money created", search="owner__username source"
)
