"""Pages of content items: the list, one item in any view, and actions on them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import uuids_of
from beacon_site.text.numbers import grouped
from beacon_site.web.http import BeaconRequest
from memory.models import ContentItem, Revision, Sensitivity
from memory.models.errors import MemoryRefused
from memory.pages.content import items as content_items
from memory.pages.content.items import Filters
from memory.pages.records import saved_views
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import FilterBar
from memory.pages.shared.responses import own_or_404, redirect_back, redirect_to, refused
from memory.pages.shared.undo import exact_moment, offer, undoes
from memory.services.content.items import clear


@require_safe
@login_required
@vary_on_headers("HX-Request")
def content_list_page(request: BeaconRequest) -> HttpResponse:
    """List the matching items, newest first; over htmx only the list."""
    facets = content_items.facets_of(request.user, request.GET)
    query = filter_bar.read(request.GET, facets)
    wanted = Filters.of(query)
    page = content_items.page(request.user, wanted, cursor=request.GET.get("cursor", ""))
    number = content_items.count_items(request.user, wanted)
    bar = FilterBar(
        reverse("memory:content"), "content", query,
        label=_("Search titles and URLs"), placeholder=_("Search titles and URLs"),
        facets=facets,
        sorts={name: words for name, (_by, _falling, words) in content_items.SORTS.items()},
        count=_counted(number), views_page="content",
    )  # fmt: skip
    context: dict[str, Any] = {
        "wanted": wanted,
        "bar": saved_views.with_views(request.user, bar),
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "number": min(number, content_items.MOST_COUNTED),
        "is_more": number > content_items.MOST_COUNTED,
        "here": request.get_full_path(),
        "by_source": wanted.sort != "largest" and not wanted.source,
    }
    over_htmx = request.htmx and request.htmx.target == "content"
    return render(request, f"memory/{'_content' if over_htmx else 'content'}.html", context)


def _counted(number: int) -> str:
    most = content_items.MOST_COUNTED
    if number > most:
        return _("more than %(n)s items") % {"n": grouped(most)}
    return ngettext("%(count)s item", "%(count)s items", number) % {"count": grouped(number)}


def _item(request: BeaconRequest, pk: UUID) -> Any:
    """Return the person's own item, also from Trash; 404 for another's."""
    return own_or_404(request, ContentItem.objects.of(request.user).select_related("topic"), pk)


@require_safe
@login_required
@vary_on_headers("HX-Request")
def content_item(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Show one item in a view; over htmx only the view."""
    item = _item(request, pk)
    shown = content_items.shown_of(item, request.GET)
    context: dict[str, Any] = {"item": item, "shown": shown, **content_items.choices_of(shown)}
    if request.htmx and request.htmx.target == "content_view":
        return render(request, "memory/_content_view.html", context)
    page = content_items.content_page(item)
    context |= {"page": page, "record": item}
    return render(request, "memory/content_item.html", context)


@require_safe
@login_required
def content_raw(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Send a whole item as a text file that no browser would execute."""
    item = _item(request, pk)
    answer = HttpResponse(item.content, content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="content-{item.pk}.txt"'
    answer["X-Content-Type-Options"] = "nosniff"
    return answer


@require_POST
@login_required
def content_sensitivity(request: BeaconRequest, pk: UUID) -> HttpResponse:
    """Mark an item sensitive, or remove the mark, with an Undo in the toast."""
    item = _item(request, pk)
    wanted = Sensitivity.SENSITIVE if request.POST.get("mark") else Sensitivity.NORMAL
    said = _("Marked as sensitive. Agents can’t see it, and it’s never sent to outside services.")
    if wanted == Sensitivity.NORMAL:
        said = _("No longer sensitive. Agents with access to its scope can read it.")
    before = item.version
    try:
        item.change(by=request.actor, sensitivity=wanted)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    made = Revision.objects.of(request.user).filter(record_id=item.pk, version=item.version).first()
    if item.version > before and made is not None:
        messages.success(request, said, extra_tags=offer(request, "revision", key=made.pk))
    return redirect_back(request, item.get_absolute_url())


@require_POST
@login_required
def content_bulk(request: BeaconRequest) -> HttpResponse:
    """Move the selected items, or all that match, to Trash; the list keeps its filters."""
    wanted = Filters.of(request.GET)
    back = reverse("memory:content") + (f"?{wanted.query}" if wanted.query else "")
    try:
        if request.POST.get("all"):
            moved = content_items.trash_matching(request.user, wanted, by=request.actor)
        else:
            keys = uuids_of(request.POST.getlist("record"))
            moved = content_items.trash_ticked(request.user, keys, by=request.actor)
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
        return redirect_to(request, back)
    _say_moved(request, moved)
    return redirect_to(request, back)


def _say_moved(request: BeaconRequest, moved: content_items.TrashedItems) -> None:
    words = ngettext(
        "%(n)s item moved to Trash for 30 days.",
        "%(n)s items moved to Trash for 30 days.",
        moved.number,
    ) % {"n": grouped(moved.number)}
    if moved.left:
        more = _("%(n)s more match. Repeat to move them too.")
        words += " " + more % {"n": grouped(moved.left)}
    if moved.number:
        undo = offer(request, "content-trashed", at=moved.at.isoformat())
        messages.success(request, words, extra_tags=undo)
    else:
        messages.info(request, _("Nothing was moved because these items no longer exist."))


@require_POST
@login_required
def content_clear(request: BeaconRequest) -> HttpResponse:
    """Move everything in one scope to Trash."""
    at = timezone.now()
    try:
        number = clear(request.user, request.POST.get("scope", ""), by=request.actor, at=at)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    _say_moved(request, content_items.TrashedItems(number, at))
    return redirect_back(request, reverse("memory:content"))


@undoes("content-trashed")
def _restore(request: BeaconRequest, at: str) -> str:
    """Restore what one action moved to Trash."""
    number = content_items.restore_state(request.user, exact_moment(at), by=request.actor)
    if not number:
        raise MemoryRefused(
            _("These items were changed in the meantime, so this couldn’t be undone.")
        )
    words = ngettext("%(n)s item restored.", "%(n)s items restored.", number)
    messages.success(request, words % {"n": grouped(number)})
    return reverse("memory:content")
