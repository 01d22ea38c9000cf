"""Saved views of lists, and the built-in ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import clean, is_visible, one_line
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import next_of, signed_in
from memory.models import SavedView, User
from memory.models.errors import InvalidValue, LimitReached, MemoryRefused
from memory.pages.shared.filter_bar import FilterBar
from memory.pages.shared.undo import act, offer, undoes

MAX_QUERY_LENGTH = 12_000  # characters of a query string; a search field takes 10,000


BUILT_IN = {
    "notes": (
        (gettext_lazy("expiring this week"), "is:expiring", "expires"),
        (gettext_lazy("external, unreviewed"), "trust:external", ""),
    ),
    "observations": (
        (gettext_lazy("lessons"), "category:lesson", ""),
        (gettext_lazy("external, unreviewed"), "trust:external", ""),
    ),
}


def views_of(user: User, page: str, query: str) -> list[dict[str, Any]]:
    """Return the views of a page, built-in ones first, which have no `pk`: one query."""
    views: list[dict[str, Any]] = [
        {"name": name, "query": urlencode({"q": text} | ({"sort": sort} if sort else {}))}
        for name, text, sort in BUILT_IN.get(page, ())
    ]
    views += SavedView.objects.for_user(user).filter(page=page).values("name", "query", "pk")
    now = _plain(query)
    return [view | {"is_open": _plain(view["query"]) == now} for view in views]


def with_views(user: User, bar: FilterBar) -> FilterBar:
    """Return the bar of a list with the list's saved views: one query."""
    return replace(bar, views=views_of(user, bar.views_page, bar.state))


def save_view(user: User, page: str, name: str, query: str) -> SavedView:
    """Save the URL of a list under a name; a view with the same name is replaced.

    Raises InvalidValue for an invalid page or name, LimitReached at SavedView.MAX.
    """
    name = one_line(clean(name)[0])
    most = SavedView._meta.get_field("name").max_length or 60
    if page not in SavedView.Page.values:
        raise InvalidValue(_("There’s no list with this name."))
    if not is_visible(name):
        raise InvalidValue(_("Enter a name for the view."))
    if len(name) > most:
        raise InvalidValue(
            _("The name has %(have)d characters, but the limit is %(most)d.")
            % {"most": most, "have": len(name)}
        )
    query = _plain(clean(query)[0])
    if len(query) > MAX_QUERY_LENGTH:
        raise InvalidValue(_("This search is too long to save. Shorten it."))
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(
            pk=user.pk
        )  # two saves at once share one limit
        others = SavedView.objects.for_user(user).filter(page=page).exclude(name=name)
        if others.count() >= SavedView.MAX:
            raise LimitReached(
                _("You’ve reached the limit of %(most)d saved views. Delete one first.")
                % {"most": SavedView.MAX}
            )
        view, _made = SavedView.objects.update_or_create(
            owner=user, page=page, name=name, defaults={"query": query}
        )
    return view


def _plain(query: str) -> str:
    """Return the query string without the page number and empty values."""
    pairs = parse_qsl(query.lstrip("?"))[:50]
    return urlencode([(name, value) for name, value in pairs if name != "cursor"])


# --- pages ---


@signed_in("POST")
def views_save(request: BeaconRequest) -> HttpResponse:
    """Save the list's URL under the entered name."""
    page, name = request.POST.get("page", ""), request.POST.get("name", "")
    try:
        view = save_view(request.user, page, name, request.POST.get("query", ""))
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
    else:
        words = _("View “%(name)s” saved.") % {"name": view}
        undo = offer(request, "view-delete", pk=view.pk, saved=view.query)
        messages.success(request, words, extra_tags=undo)
    return redirect(next_of(request, reverse("memory:notes")))


@act("view-delete")
def view_delete(request: BeaconRequest, pk: int, saved: str | None = None) -> str:
    """Delete a saved view; its records stay. An undo names the query that was saved."""
    view = get_object_or_404(SavedView.objects.for_user(request.user), pk=pk)
    if saved is not None and view.query != saved:
        raise InvalidValue(
            _("This view has changed since then, so your change couldn’t be undone.")
        )
    undo = offer(request, "view-deleted", page=view.page, name=view.name, query=view.query)
    view.delete()
    words = _("View “%(name)s” deleted. Its records are kept.") % {"name": view.name}
    messages.success(request, words, extra_tags=undo)
    return reverse("memory:notes")


@undoes("view-deleted")
def _restore_view(request: BeaconRequest, page: str, name: str, query: str) -> str:
    if SavedView.objects.for_user(request.user).filter(page=page, name=name).exists():
        raise InvalidValue(_("There’s already a view named “%(name)s”.") % {"name": name})
    save_view(request.user, page, name, query)
    messages.success(request, _("View “%(name)s” restored.") % {"name": name})
    return reverse("memory:notes")
