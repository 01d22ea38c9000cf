"""Outside services, for staff: where they are, their keys, and test buttons with the real answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from beacon_site.http import BeaconRequest
from beacon_site.providers.catalogue import ADDRESS, BY_NAME, KEY, SearchService
from beacon_site.providers.endpoints import KINDS
from beacon_site.providers.llm import LlmProfile
from beacon_site.providers.probing import ProbeResult
from memory.accounts.guards import staff_only
from memory.forms.connections import ConnectionForm, FeedTestForm, ServiceForm, service_form
from memory.forms.embeddings_connection import EmbeddingsForm
from memory.forms.model_connection import ModelForm, ModelListForm
from memory.llm import connections, embedders, trying
from memory.llm.findings import findings
from memory.models import Connection
from memory.recall import embedding, vector_tables

GOOD, OFF, LEFT_OUT = "confirmed", "", "warn"  # looks of a tag


@dataclass(frozen=True, slots=True)
class Card:
    """One search service on the page: its state in words, its form, and its last test."""

    service: SearchService
    form: ServiceForm
    state: str
    look: str
    found: dict[str, Any]
    is_open: bool = False
    result: ProbeResult | None = None


@require_safe
@staff_only
def connection_list(request: BeaconRequest) -> HttpResponse:
    """Show every outside service with its state."""
    return _page(request, {})


def _page(
    request: BeaconRequest,
    more: dict[str, Any],
    *,
    form: ConnectionForm | None = None,
    tested: str = "",
) -> HttpResponse:
    """Show all; `form` is one that was refused, `tested` the service whose result is in `more`."""
    rows = connections.all_stored()
    given = {form.name: form} if form else {}
    cards = [
        _card(name, rows[name], given.get(name), more.get("result") if name == tested else None)
        for name in connections.SET_UP
    ]
    context = {
        "model_form": given.get(connections.MODEL) or ModelForm(row=rows[connections.MODEL]),
        **_model_state(rows[connections.MODEL]),
        "embeddings_form": given.get(connections.EMBEDDINGS)
        or EmbeddingsForm(row=rows[connections.EMBEDDINGS]),
        **_embeddings_state(rows),
        "embeddings_result": more.get("result") if tested == connections.EMBEDDINGS else None,
        "closed_cards": [card for card in cards if card.service.needs],
        "open_cards": [card for card in cards if not card.service.needs],
        "feed_form": FeedTestForm(),
        **_usual(),
        "library_folder": settings.BEACON_LIBRARY_DIR,
        "contact": settings.BEACON_CONTACT,
        "tested": tested,
        "tab": "connections",
    }
    return render(request, "memory/connections.html", context | more)


def _card(
    name: str, row: Connection, form: ConnectionForm | None, result: ProbeResult | None = None
) -> Card:
    service = connections.SET_UP[name]
    shown = form if isinstance(form, ServiceForm) else service_form(name, row=row)
    state, look = _state(service, row)
    is_open = form is not None or result is not None
    return Card(service, shown, state, look, connections.last_found(row), is_open, result)


def _state(service: SearchService, row: Connection) -> tuple[str, str]:
    """Return a service's state in words, and the look of its tag."""
    if settings.BEACON_SEARCH and service.name not in settings.BEACON_SEARCH:
        return _("left out by BEACON_SEARCH"), LEFT_OUT
    profile = connections.search_profile(service.name, row)
    if not connections.is_ready(profile):
        return (_("no address") if service.needs == ADDRESS else _("no key")), OFF
    if service.needs == KEY and not profile.api_key:
        return _("set up without a key"), GOOD
    if service.needs or profile.base_url:
        return _("set up"), GOOD
    return _("needs nothing"), GOOD


def _usual() -> dict[str, Any]:
    """Return what a topic asks that names no service, in order."""
    usual = [BY_NAME[name] for name in connections.search_services()]
    return {
        "usual_services": usual,
        "usual_names": ", ".join(str(service.label) for service in usual),
        "search_is_fixed": bool(settings.BEACON_SEARCH),
    }


def _model_state(row: Connection) -> dict[str, Any]:
    """Return what is known of the model's endpoint."""
    llm, found = connections.llm_profile(row), connections.last_found(row)
    assumed = llm.context_tokens if llm else LlmProfile("", "").context_tokens
    return {
        "llm": llm,
        "kinds": KINDS.values(),
        "found": found,
        "findings": findings(found, assumed_context=assumed) if llm else [],
    }


def _embeddings_state(rows: Mapping[str, Connection]) -> dict[str, Any]:
    """Return which embedder is used, how far its vectors are, and what its last test said."""
    row, used = rows[connections.EMBEDDINGS], embedders.embedder(rows=rows)
    return {
        "embedder": used,
        "no_embedder": embedders.why_none(),
        "vectors": embedding.progress(used, row),
        "compares": vector_tables.extension_version(),
        "embeddings_found": connections.last_found(row),
    }


@sensitive_post_parameters()
@require_POST
@staff_only
def save_connection(request: BeaconRequest, name: str) -> HttpResponse:
    """Store one service's settings."""
    if name not in connections.KINDS:
        raise Http404
    form, saved = _saved(request, name)
    if saved:
        messages.success(request, _("Saved. A test shows whether it works."))
        if not request.htmx:
            return redirect("memory:connections")
    if not request.htmx:
        return _page(request, {}, form=form)
    return _section(request, name, None if saved else form)


def _saved(request: BeaconRequest, name: str) -> tuple[ConnectionForm, bool]:
    """Return the form as posted, and whether it could be stored."""
    form = _posted(request, name)
    try:
        if form.is_valid():
            form.save(by=request.user)
            return form, True
    except connections.Moved:  # between the look and the lock: the next look sees it
        form = _posted(request, name)
    return form, False


def _posted(request: BeaconRequest, name: str) -> ConnectionForm:
    if name == connections.MODEL:
        return ModelForm(request.POST)
    if name == connections.EMBEDDINGS:
        return EmbeddingsForm(request.POST)
    return service_form(name, request.POST)


def _section(request: BeaconRequest, name: str, refused: ConnectionForm | None) -> HttpResponse:
    """Return the one section of the page that changed, unfolded."""
    rows = connections.all_stored()
    row = rows[name]
    if name == connections.EMBEDDINGS:
        shown = {"embeddings_form": refused or EmbeddingsForm(row=row)}
        return render(
            request, "memory/_connection_embeddings.html", shown | _embeddings_state(rows)
        )
    if name != connections.MODEL:
        card = _card(name, row, refused or service_form(name, row=row))
        return render(request, "memory/_connection_service.html", {"card": card, **_usual()})
    context = {
        "model_form": refused or ModelForm(row=row),
        **_model_state(row),
        **_usual(),
    }
    return render(request, "memory/_connection_model.html", context)


@require_POST
@staff_only
def test_connection(request: BeaconRequest, name: str) -> HttpResponse:
    """Try one service as it is set up now, and show what it really answered."""
    if name not in trying.TESTS:
        raise Http404
    result = trying.TESTS[name](request.user)
    more: dict[str, Any] = {"result": result}
    if not request.htmx:
        return _page(request, more, tested=name)
    row = connections.stored(name)
    if name == connections.MODEL:
        more |= _model_state(row) | {"tested": name}
        return render(request, "memory/_connection_probe.html", more)
    beside = name != connections.EMBEDDINGS  # a section that is never folded tells it itself
    more |= {"name": name, "found": connections.last_found(row), "beside": beside}
    return render(request, "memory/_connection_test.html", more)


@sensitive_post_parameters()
@require_POST
@staff_only
def model_names(request: BeaconRequest) -> HttpResponse:
    """Ask the endpoint that is typed into the form which models it has; nothing is stored."""
    form = ModelListForm(request.POST)
    form.is_valid()
    profile = form.profile()
    names, why = trying.list_models(profile) if profile else ([], "")
    more = {"model_names": names, "no_names": why, "listed": profile is not None}
    if request.htmx:
        return render(request, "memory/_connection_models.html", {**more, "model_form": form})
    return _page(request, more, form=form)


@require_POST
@staff_only
def test_feed(request: BeaconRequest) -> HttpResponse:
    """Read the feed whose address was given."""
    form = FeedTestForm(request.POST)
    result = trying.try_feed(form.cleaned_data["url"]) if form.is_valid() else None
    more = {"result": result, "feed_form": form}
    if request.htmx:
        return render(request, "memory/_connection_test.html", {**more, "name": "feeds"})
    return _page(request, more, tested="feeds")
