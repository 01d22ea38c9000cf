"""Read-only admin pages, with masks, for rows that only Beacon's own methods write.

Staff see all accounts here. Sensitive text is shown only to its owner, and secrets are shown to no
one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db import models
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.models import Remembered, Sensitivity

if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]
else:
    _Admin = admin.ModelAdmin

MASK = "••••••"
CUT = 100  # characters of a text in a list
TEXTS = (models.TextField, models.CharField, models.JSONField)
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
    and `SENSITIVE` are paths to the owner's key and to the row's sensitivity.
    """

    MASKED: ClassVar[tuple[str, ...]] = ()
    SECRET: ClassVar[tuple[str, ...]] = ()
    OWNER: ClassVar[str] = "owner_id"
    SENSITIVE: ClassVar[str] = ""
    PAGE: ClassVar[tuple[str, tuple[str, ...]] | None] = None
    ALSO_SHOWN: ClassVar[tuple[str, ...]] = ()

    list_per_page = 50
    show_full_result_count = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: the product creates rows."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: rows change by their own methods."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Refuse: records are deleted through Trash."""
        return False

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
        """Return a column's text, or the mask."""
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
        """Whether the row's text is sensitive and the viewer isn't its owner."""
        return self.is_sensitive(row) and _walk(row, self.OWNER) != row.viewer

    def is_sensitive(self, row: Any) -> bool:
        """Whether the row, or its parent, is marked sensitive."""
        path = self.SENSITIVE or ("sensitivity" if hasattr(row, "sensitivity") else "")
        return bool(path) and _walk(row, path) == Sensitivity.SENSITIVE

    @admin.display(description=gettext_lazy("text"))
    def label(self, row: Any) -> str:
        """Return the row's name in lists."""
        if self.is_hidden(row):
            return MASK
        text = str(row)
        return text if len(text) <= CUT else text[:CUT] + "…"

    @admin.display(description=gettext_lazy("page"))
    def page(self, row: Any) -> str:
        """Return a link to the record's own page, which only its owner can open."""
        if self.PAGE is None or _walk(row, self.OWNER) != row.viewer:
            return _("only its owner can open it")
        route, attributes = self.PAGE
        try:
            address = reverse(route, args=[_walk(row, attribute) for attribute in attributes])
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


def _walk(row: Any, path: str) -> Any:
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
    list_select_related: ClassVar[Any] = ("owner",)
    date_hierarchy = "created"


class AboutRecordAdmin(ReadOnlyAdmin):
    """Rows about a record, by type and ID: hidden if that record is sensitive."""

    TYPE: ClassVar[str] = "record_type"
    ID: ClassVar[str] = "record_id"

    def is_sensitive(self, row: Any) -> bool:
        """Whether the record is sensitive; a deleted one counts as sensitive."""
        model = _remembered(getattr(row, self.TYPE))
        key = getattr(row, self.ID)
        if model is None or not key:
            return False
        found = model._default_manager.filter(pk=key).values_list("sensitivity", flat=True).first()
        return found != Sensitivity.NORMAL


def _remembered(record_type: str) -> type[Remembered] | None:
    """Return the model of a record type in the history."""
    for model in apps.get_models():
        if _is_remembered(model) and model.record_type() == record_type:
            return model
    return None
