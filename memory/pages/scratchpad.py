"""Pages of the scratchpad: a list by key prefix, and forms for one entry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.db.models import Count, F, Func, IntegerField, QuerySet, TextField, Value
from django.db.models.functions import Left, Substr
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.vary import vary_on_headers

from beacon_site.db.keyset import Page, page_of
from beacon_site.text.cleaning import text_param
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    CleanTextField,
    RefusalErrorsMixin,
    SecretConfirmationMixin,
    cleaned_of,
    next_of,
    redirect_to,
    report_cleaned,
    signed_in,
)
from memory.models import Agent, Revision, ScratchpadEntry, User, origins
from memory.models.content import MAX_KEY
from memory.models.errors import InvalidValue, MemoryRefused, StaleWrite
from memory.models.remembered import OWNER_SCOPE
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar, Query
from memory.pages.shared.undo import toast_with_undo
from memory.services import scratchpad


class EntryForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """A key with its value in a scope; both are validated when stored."""

    key = CleanTextField(
        label=gettext_lazy("Key"),
        error_messages={"required": gettext_lazy("Enter a key, such as plan/next.")},
        help_text=gettext_lazy(
            "Enter one line of at most 200 characters. Use / : or . to group keys, such as plan/next."
        ),
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    value = CleanTextField(
        label=gettext_lazy("Value"),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "mono"}),
        help_text=gettext_lazy("Text or JSON, at most 64 KiB."),
    )
    scope = forms.CharField(
        label=gettext_lazy("Scope"),
        initial="owner",
        error_messages={"required": gettext_lazy("Select who can use the entry.")},
        help_text=gettext_lazy("Who can use the entry."),
        widget=forms.Select,
    )

    def clean(self) -> None:
        """Check the key and the scope, so that the errors of both are shown at once."""
        super().clean()
        checks = {"key": scratchpad.checked_key, "scope": scratchpad.checked_scope}
        for name in checks.keys() & self.cleaned_data.keys():
            try:
                checks[name](self.cleaned_data[name])
            except InvalidValue as exc:
                self.take(exc)

    def offer(self, user: User) -> None:
        """Offer the scopes that have entries, and the agents."""
        value = str(self["scope"].value() or OWNER_SCOPE)
        agents = Agent.objects.for_user(user).order_by("name").values_list("name", flat=True)
        names = dict.fromkeys([*scopes(user, value), *(f"agent:{name}" for name in agents[:200])])
        told = origins.of(user, list(names))
        self.fields["scope"].widget.choices = [
            (name, capfirst(told[name].words if name in told else name)) for name in names
        ]
        self.fields["scope"].widget.choices[0] = (OWNER_SCOPE, _("You and all agents"))


class EditEntryForm(SecretConfirmationMixin, RefusalErrorsMixin):
    """The key and value of an existing entry, for the version that was seen."""

    key = EntryForm.base_fields["key"]
    value = EntryForm.base_fields["value"]
    version = forms.IntegerField(min_value=1, widget=forms.HiddenInput)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["key"].widget.attrs["maxlength"] = MAX_KEY * 2


# --- list ---

PAGE = 50
BEGINNING = 1_200  # characters of a value in the list
MAX_CHIPS = 40


def _prefix_of(query: Query) -> str:
    return query.get("prefix", "").replace("\x00", "")[:200]


def _scope_of(query: Query) -> str:
    """Return the scope that the list is filtered by. An invalid one is ignored."""
    try:
        return scratchpad.checked_scope(query.get("scope", ""))
    except InvalidValue:
        return OWNER_SCOPE


def _query_of(scope: str, prefix: str = "") -> str:
    """Return the query string of a scope's keys that begin with a prefix."""
    values = {"scope": scope if scope != OWNER_SCOPE else "", "prefix": prefix}
    return urlencode({name: value for name, value in values.items() if value})


def _trail(scope: str, prefix: str) -> list[tuple[str, str]]:
    """Return the prefix part by part, each with its query string."""
    found, at = [], ""
    for part in _prefix_parts(prefix):
        at += part
        found.append((part, _query_of(scope, at)))
    return found


def _prefix_parts(prefix: str) -> list[str]:
    parts, start = [], 0
    for place, char in enumerate(prefix, start=1):
        if char in SEPARATORS or place == len(prefix):
            parts.append(prefix[start:place])
            start = place
    return parts


SEPARATORS = "/:."


def entries_wanted(user: User, query: Query) -> QuerySet[Any]:
    """Return the matching entries, unordered."""
    scope = _scope_of(query)
    rows = scratchpad.entries(user, _prefix_of(query), scope=scope)
    if words := text_param(query):
        found = scratchpad.search(user, words, scope=scope)
        rows = rows.filter(pk__in=found.order_by().values("pk"))
    return rows.order_by()


def page(user: User, query: Query, *, cursor: str = "") -> Page:
    """Return one page of rows: two queries."""
    rows = entries_wanted(user, query).defer("value")
    rows = rows.annotate(
        beginning=Left("value", BEGINNING),
        size=Func("value", function="octet_length", output_field=IntegerField()),
    )
    found = page_of(rows, by="key", falling=False, cursor=cursor, size=PAGE)
    return Page(_rows(user, found.rows), found.next_cursor)


def _rows(user: User, entries: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the entries, each with its value in short, and who changed it last."""
    found = _last_actors(entry.pk for entry in entries)
    actors = {entry.pk: found.get(entry.pk, entry.source) for entry in entries}
    named = origins.of(user, actors.values())
    rows = []
    for entry in entries:
        is_cut = len(entry.beginning) == BEGINNING
        shown, is_json = (entry.beginning, False) if is_cut else as_json(entry.beginning)
        who = named.get(actors[entry.pk])
        rows.append(
            {
                "entry": entry,
                "shown": shown,
                "is_json": is_json,
                "is_cut": is_cut,
                "actor": who.words if who else _("no one"),
            }
        )
    return rows


def as_json(value: str) -> tuple[str, bool]:
    """Return an indented value and True for a JSON object or list, else the value and False."""
    if not value.lstrip().startswith(("{", "[")):
        return value, False
    try:
        parsed = json.loads(value)
        return json.dumps(parsed, ensure_ascii=False, indent=2), True
    except (ValueError, RecursionError):
        return value, False


def _last_actors(ids: Iterable[Any]) -> dict[Any, str]:
    changes = Revision.objects.filter(record_id__in=list(ids)).order_by("record_id", "-id")
    return dict(changes.distinct("record_id").values_list("record_id", "actor"))


def chips(user: User, scope: str, prefix: str) -> list[dict[str, Any]]:
    """Return the next parts of the keys under the prefix, up to a separator: one query.

    Each has the number of its keys, and the query string that lists them.
    """
    rest = Substr(F("key"), len(prefix) + 1)
    part = Func(
        rest,
        Value(f"^[^{SEPARATORS}]*[{SEPARATORS}]"),
        function="substring",
        output_field=TextField(),
    )
    rows = scratchpad.entries(user, prefix, scope=scope).order_by()
    parted = rows.annotate(part=part).exclude(part=None).values("part")
    several = parted.annotate(number=Count("pk")).filter(number__gt=1)  # one is in the list anyway
    found = several.order_by("part")[:MAX_CHIPS]
    return [one | {"address": _query_of(scope, prefix + one["part"])} for one in found]


def scopes(user: User, scope: str) -> list[str]:
    """Return the scopes with entries, the owner's own first: one query."""
    used = ScratchpadEntry.objects.for_user(user).live().order_by()
    names = set(used.values_list("scope", flat=True).distinct()[:200]) | {scope}
    return [OWNER_SCOPE, *sorted(names - {OWNER_SCOPE})]


# --- pages ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def scratchpad_list(request: BeaconRequest) -> HttpResponse:
    """List the entries of a scope, by prefix or words; over htmx only the list."""
    facets = _facets(request.user, request.GET)
    query = filter_bar.read(request.GET, facets)
    scope, prefix = _scope_of(query), _prefix_of(query)
    listing = page(request.user, query, cursor=request.GET.get("cursor", ""))
    context: dict[str, Any] = {
        "scope": scope,
        "prefix": prefix,
        "trail": _trail(scope, prefix),
        "bar": FilterBar(
            reverse("memory:scratchpad"), "scratchpad", query,
            label=_("Search keys and values"), placeholder=_("Search keys and values"),
            facets=facets,
        ),
        "rows": listing.rows,
        "next_cursor": listing.next_cursor,
        "chips": chips(request.user, scope, prefix),
        "kept": scratchpad.retention_label(scope),
    }  # fmt: skip
    over_htmx = request.htmx and request.htmx.target == "scratchpad"
    return render(request, f"memory/{'_scratchpad' if over_htmx else 'scratchpad'}.html", context)


def _facets(user: User, query: Query) -> list[Facet]:
    """Return the scopes that have entries, and the chosen start of keys as a removable chip."""
    everywhere = _("owner: everywhere")
    names = [one for one in scopes(user, _scope_of(query)) if one != OWNER_SCOPE]
    known = origins.of(user, names)
    found = [Choice(one, capfirst(known[one].words if one in known else one)) for one in names]
    listed = [Facet("scope", _("Scope"), found, any_label=everywhere)]
    if prefix := _prefix_of(query):
        begins = [Choice(prefix, prefix)]
        listed.append(Facet("prefix", _("Begins with"), begins))
    return listed


@signed_in("GET", "POST")
def scratchpad_new(request: BeaconRequest) -> HttpResponse:
    """Set the value of a new key; an existing one isn't overwritten."""
    first = {name: request.GET.get(name, "") for name in ("key", "scope")}
    first["scope"] = first["scope"] or OWNER_SCOPE
    form = EntryForm(request.POST if request.method == "POST" else None, initial=first)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            _refuse_taken(request, data["key"], data["scope"])
            entry = scratchpad.set_value(
                request.user, data["key"], data["value"], by=request.actor, scope=data["scope"]
            )
        except InvalidValue as exc:
            form.take(exc)
        else:
            return _saved(request, entry, form)
    form.offer(request.user)
    template = "_scratchpad_new" if request.htmx else "scratchpad_new"
    return render(request, f"memory/{template}.html", {"form": form})


def _refuse_taken(request: BeaconRequest, key: str, scope: str) -> None:
    """Raise InvalidValue if the key exists: a new entry must not replace another."""
    key, scope = scratchpad.checked_key(key), scratchpad.checked_scope(scope)
    if (
        ScratchpadEntry.objects.for_user(request.user)
        .live()
        .in_scope(scope)
        .filter(key=key)
        .exists()
    ):
        problem = _("The key “%(key)s” already exists. Edit that entry, or use another key.")
        raise InvalidValue(problem % {"key": key}, errors={"key": [problem % {"key": key}]})


def _saved(request: BeaconRequest, entry: ScratchpadEntry, form: Any) -> HttpResponse:
    words = _("“%(key)s” saved.") % {"key": entry}
    toast_with_undo(request, entry, words, seen=form.cleaned_data.get("version"))
    report_cleaned(request, cleaned_of(form))
    here = f"{reverse('memory:scratchpad')}?{_query_of(entry.scope)}".rstrip("?")
    return redirect_to(request, next_of(request, here))


@signed_in("GET", "POST")
def scratchpad_edit(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Edit an entry; if someone else did too, show their version beside what was typed."""
    entry = get_object_or_404(ScratchpadEntry.objects.for_user(request.user).live(), pk=pk)
    first = {"key": entry.key, "value": entry.value, "version": entry.version}
    form = EditEntryForm(request.POST if request.method == "POST" else None, initial=first)
    context: dict[str, Any] = {"entry": entry, "form": form, "next": next_of(request)}
    if request.method == "POST" and form.is_valid():
        try:
            scratchpad.edit_entry(
                entry,
                key=form.cleaned_data["key"],
                value=form.cleaned_data["value"],
                by=request.actor,
                expected_version=form.cleaned_data["version"],
            )
        except StaleWrite as exc:
            entry.refresh_from_db()
            context |= form.on_newest(entry, exc)
        except MemoryRefused as exc:
            form.take(exc)
        else:
            return _saved(request, entry, form)
    template = "_scratchpad_edit" if request.htmx else "scratchpad_edit"
    return render(request, f"memory/{template}.html", context)
