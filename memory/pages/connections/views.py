"""Pages of connections: their settings, and a test of each service."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import structlog
from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.debug import sensitive_post_parameters

from beacon_site.net.errors import ProviderError, ended_within, ms_since
from beacon_site.providers.llm import endpoints
from beacon_site.providers.llm.base import LlmProfile
from beacon_site.providers.llm.endpoints import KINDS
from beacon_site.providers.llm.probing import ProbeResult, probe, try_search
from beacon_site.providers.search.base import (
    ADDRESS,
    BY_NAME,
    KEY,
    SearchOptions,
    SearchProfile,
    SearchService,
    get_search,
)
from beacon_site.text.messages import grouped
from beacon_site.text.redaction import redact
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import staff_only
from memory.models import Connection, ModelCall, User
from memory.pages.connections.forms import (
    ConnectionForm,
    EmbeddingsForm,
    FeedTestForm,
    ModelForm,
    ModelListForm,
    ServiceForm,
    service_form,
)
from memory.services.llm import connections
from memory.services.llm.asking import price
from memory.services.search import embedding, vectors

YES, NO, UNKNOWN = "confirmed", "warn", ""


def _finding(name: str, look: str, words: str) -> dict[str, str]:
    """Return one capability: its state as a tag's color and a word, and what the test found."""
    mark = {YES: _("yes"), NO: _("no"), UNKNOWN: _("unknown")}[look]
    return {"name": name, "look": look, "mark": mark, "words": words}


def findings(found: dict[str, Any], *, assumed_context: int) -> list[dict[str, str]]:
    """Return the table of a stored test (connections.keep_probe); [] if there is none.

    `assumed_context` is the context size used if the endpoint doesn't report one, in tokens.
    """
    if not found:
        return []
    if "json_mode" not in found:  # it never answered, so nothing else was tested
        return [_finding(_("Chat"), NO, str(found.get("message", "")))]
    if failed := found.get("failed"):
        chat = _finding(_("Chat"), NO, str(failed))
    else:
        chat = _finding(_("Chat"), YES, _("“%(text)s”") % {"text": found.get("answer", "")[:80]})
    return [
        chat,
        _streaming(found.get("streams")),
        _structured(found["json_mode"]),
        _tools(found.get("tools")),
        _embeddings(found.get("embedding_model") or "", found.get("embedding_dimensions")),
        _context(found.get("context_tokens"), assumed_context),
    ]


def _streaming(streams: bool | None) -> dict[str, str]:
    words = {
        True: _("you can read a report while it’s being written"),
        False: _("responses appear only when they’re complete"),
        None: _("couldn’t be tested"),
    }
    return _finding(_("Streaming"), _capability_class(streams), words[streams])


def _structured(mode: str) -> dict[str, str]:
    words = {
        "schema": _("json_schema (best)"),
        "object": _("json_object (each response is checked)"),
        "prompt": _("requested in the prompt (each response is checked)"),
    }.get(mode, _("not supported, so Beacon uses fallbacks"))
    return _finding(_("Structured output"), YES if mode else NO, words)


def _tools(tools: bool | None) -> dict[str, str]:
    words = {
        True: _("called with valid arguments"),
        False: _("not called by the model"),
        None: _("couldn’t be tested"),
    }
    return _finding(_("Tools"), _capability_class(tools), words[tools])


def _embeddings(model: str, dimensions: int | None) -> dict[str, str]:
    if not dimensions:
        return _finding(_("Embeddings"), NO, _("none found"))
    words = _("%(model)s, %(count)d dimensions") % {"model": model, "count": dimensions}
    return _finding(_("Embeddings"), YES, words)


def _context(tokens: int | None, assumed: int) -> dict[str, str]:
    if tokens is None:
        words = _("not reported (Beacon assumes %(count)s tokens)")
        return _finding(_("Context size"), UNKNOWN, words % {"count": grouped(assumed)})
    return _finding(_("Context size"), YES, _("%(count)s tokens") % {"count": grouped(tokens)})


def _capability_class(there: bool | None) -> str:
    return UNKNOWN if there is None else YES if there else NO


# --- tests of services ---

logger = structlog.get_logger(__name__)

LISTING_SECONDS = 12  # a person waits at the page
# Above a probe's own limits, since resolving a name has none; below the 60 s after which a proxy
# in front of Beacon gives up, and the page's own 75 s.
PROBING_SECONDS = 50


def try_model(by: User) -> ProbeResult:
    """Test the configured model, store what the test shows, and charge it to `by`."""
    profile = connections.llm_profile()
    if profile is None:
        text = _("No model is set up, so there’s nothing to test. Enter one and save first.")
        return ProbeResult(ok=False, message=text, ms=0)
    began, ended = time.monotonic(), True
    try:
        result = ended_within(PROBING_SECONDS, lambda: probe(profile))
    except TimeoutError:
        ended = False
        text = _("No response within %(seconds)d seconds. Check the URL.")
        result = ProbeResult(False, text % {"seconds": PROBING_SECONDS}, ms_since(began))
    connections.keep_probe(profile, result)
    _record(profile, result, by, is_known=ended)
    logger.info("model tested", model=profile.model, ok=result.ok, ms=result.ms)
    return result


def _record(profile: LlmProfile, result: ProbeResult, by: User, *, is_known: bool) -> None:
    """Record a test as a call, so that its cost appears in Usage and limits. Texts are left out."""
    failure = ""
    if not result.ok:
        kinds = ModelCall.Failure
        failure = kinds.REJECTED if result.refused else kinds.UNAVAILABLE
    ModelCall.objects.create(
        owner=by,
        purpose="test",
        source="connections",
        model=profile.model,
        prompt_tokens=result.usage.prompt_tokens,
        completion_tokens=result.usage.completion_tokens,
        money=price(result.usage, profile) if is_known else None,
        milliseconds=result.ms,
        error="" if result.ok else redact(result.message, profile.api_key),
        failure=failure,
    )


def list_models(profile: LlmProfile) -> tuple[list[str], str]:
    """Return the names of an endpoint's models, or none and the reason."""
    try:
        return ended_within(LISTING_SECONDS, lambda: endpoints.list_models(profile)), ""
    except ProviderError as exc:
        return [], str(exc)
    except TimeoutError:
        return [], _("No response within %(seconds)d seconds. Check the URL.") % {
            "seconds": LISTING_SECONDS
        }


def try_service(name: str, _by: User) -> ProbeResult:
    """Search once with a service as configured, and store the result."""
    row = connections.stored(name)
    result = try_search(connections.search_profile(name, row))
    connections.keep_test(row, result)
    logger.info("search service tested", service=name, ok=result.ok, ms=result.ms)
    return result


def try_embedder(_by: User) -> ProbeResult:
    """Embed one word with the current embedder, and store the result."""
    began = time.monotonic()
    row, found = connections.stored(connections.EMBEDDINGS), connections.embedder(for_question=True)
    if found is None:
        return ProbeResult(ok=False, message=connections.why_no_embedder(), ms=0)
    try:
        size = len(ended_within(LISTING_SECONDS, lambda: found.embed(["ready"]))[0])
    except ProviderError as exc:
        result = ProbeResult(ok=False, message=str(exc), ms=ms_since(began))
    except TimeoutError:
        text = _("No response within %(seconds)d seconds. Check the URL.")
        message = text % {"seconds": LISTING_SECONDS}
        result = ProbeResult(ok=False, message=message, ms=ms_since(began))
    else:
        text = _("“%(model)s” returned a vector with %(size)d dimensions.")
        message = text % {"model": found.model, "size": size}
        result = ProbeResult(ok=True, message=message, ms=ms_since(began))
    connections.keep_test(row, result)
    logger.info("embedder tested", model=found.model, ok=result.ok, ms=result.ms)
    return result


def try_feed(url: str) -> ProbeResult:
    """Read the feed at `url` as a run would, including the address guard."""
    began = time.monotonic()
    try:
        hits = get_search(SearchProfile(service="feeds")).search(
            "", SearchOptions(limit=50, feeds=(url,))
        )
    except ProviderError as exc:
        return ProbeResult(ok=False, message=str(exc), ms=ms_since(began))
    text = _("The feed can be read, but it has no entries.")
    if hits:
        text = ngettext(
            "The feed has 1 entry: “%(title)s”.",
            "The feed has %(count)d entries (Beacon reads at most 50). The newest is “%(title)s”.",
            len(hits),
        ) % {"count": len(hits), "title": hits[0].title}
    return ProbeResult(ok=True, message=text, ms=ms_since(began), count=len(hits))


TESTS: dict[str, Callable[[User], ProbeResult]] = {
    connections.MODEL: try_model,
    connections.EMBEDDINGS: try_embedder,
    **{name: partial(try_service, name) for name in connections.SET_UP},
}


# --- pages ---

GOOD, OFF, LEFT_OUT = "confirmed", "quiet-tag", "warn"  # colors of a tag


@staff_only("GET", "HEAD")
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
    """Show all; `form` is a rejected one, `tested` the service whose result is in `more`."""
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
        "cards": sorted(cards, key=lambda card: (card["look"] == OFF, not card["service"].needs)),
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
) -> dict[str, Any]:
    """Return a search service with its state, its form and its last test."""
    service = connections.SET_UP[name]
    shown = form if isinstance(form, ServiceForm) else service_form(name, row=row)
    state, look = _state(service, row)
    return {
        "service": service,
        "form": shown,
        "state": state,
        "look": look,
        "is_ready": look == GOOD,
        "found": connections.last_found(row),
        "is_open": form is not None or result is not None,
        "result": result,
    }


def _state(service: SearchService, row: Connection) -> tuple[str, str]:
    """Return a service's state in words, and the color of its tag."""
    if settings.BEACON_SEARCH and service.name not in settings.BEACON_SEARCH:
        return _("not in BEACON_SEARCH"), LEFT_OUT
    profile = connections.search_profile(service.name, row)
    if not connections.is_ready(profile):
        return (_("no URL") if service.needs == ADDRESS else _("no key")), OFF
    if service.needs == KEY and not profile.api_key:
        return _("set up without a key"), GOOD
    if service.needs or profile.base_url:
        return _("set up"), GOOD
    return _("ready"), GOOD


def _usual() -> dict[str, Any]:
    """Return the services that a topic uses by default, in order."""
    usual = [BY_NAME[name] for name in connections.search_services()]
    return {
        "usual_services": usual,
        "usual_names": ", ".join(str(service.label) for service in usual),
        "search_is_fixed": bool(settings.BEACON_SEARCH),
    }


def _model_state(row: Connection) -> dict[str, Any]:
    """Return what is known about the model's endpoint."""
    llm, found = connections.llm_profile(row), connections.last_found(row)
    assumed = llm.context_tokens if llm else LlmProfile("", "").context_tokens
    return {
        "llm": llm,
        "kinds": KINDS.values(),
        "found": found,
        "findings": findings(found, assumed_context=assumed) if llm else [],
    }


def _embeddings_state(rows: Mapping[str, Connection]) -> dict[str, Any]:
    """Return the current embedder, its progress, and its last test."""
    row, used = rows[connections.EMBEDDINGS], connections.embedder(rows=rows)
    return {
        "embedder": used,
        "no_embedder": connections.why_no_embedder(),
        "vectors": embedding.progress(used, row),
        "compares": vectors.extension_version(),
        "embeddings_found": connections.last_found(row),
    }


@sensitive_post_parameters()
@staff_only("POST")
def save_connection(request: BeaconRequest, name: str) -> HttpResponse:
    if name not in connections.KINDS:
        raise Http404
    form, saved = _saved(request, name)
    if saved:
        messages.success(request, _("Saved. Run a test to check that it works."))
        if not request.htmx:
            return redirect("memory:connections")
    if not request.htmx:
        return _page(request, {}, form=form)
    return _section(request, name, None if saved else form)


def _saved(request: BeaconRequest, name: str) -> tuple[ConnectionForm, bool]:
    form = _posted(request, name)
    try:
        if form.is_valid():
            form.save(by=request.user)
            return form, True
    except connections.ConnectionChanged:  # between the check and the lock: the next check sees it
        form = _posted(request, name)
    return form, False


def _posted(request: BeaconRequest, name: str) -> ConnectionForm:
    if name == connections.MODEL:
        return ModelForm(request.POST)
    if name == connections.EMBEDDINGS:
        return EmbeddingsForm(request.POST)
    return service_form(name, request.POST)


def _section(request: BeaconRequest, name: str, refused: ConnectionForm | None) -> HttpResponse:
    """Return only the section of the page that changed, unfolded."""
    rows = connections.all_stored()
    row = rows[name]
    if name == connections.EMBEDDINGS:
        shown = {"embeddings_form": refused or EmbeddingsForm(row=row)}
        return render(
            request, "memory/_connection_embeddings.html", shown | _embeddings_state(rows)
        )
    if name != connections.MODEL:
        card = _card(name, row, refused or service_form(name, row=row))
        context = {"card": card, "contact": settings.BEACON_CONTACT, **_usual()}
        return render(request, "memory/_connection_service.html", context)
    context = {
        "model_form": refused or ModelForm(row=row),
        **_model_state(row),
        **_usual(),
    }
    return render(request, "memory/_connection_model.html", context)


@staff_only("POST")
def test_connection(request: BeaconRequest, name: str) -> HttpResponse:
    """Test one service with its current settings, and show its real answer."""
    if name not in TESTS:
        raise Http404
    result = TESTS[name](request.user)
    more: dict[str, Any] = {"result": result}
    if not request.htmx:
        return _page(request, more, tested=name)
    row = connections.stored(name)
    if name == connections.MODEL:
        more |= _model_state(row) | {"tested": name}
        return render(request, "memory/_connection_probe.html", more)
    beside = name != connections.EMBEDDINGS  # a section that is never folded shows it itself
    more |= {"name": name, "found": connections.last_found(row), "beside": beside}
    return render(request, "memory/_connection_test.html", more)


@sensitive_post_parameters()
@staff_only("POST")
def model_names(request: BeaconRequest) -> HttpResponse:
    """Ask the endpoint in the form which models it has; nothing is stored."""
    form = ModelListForm(request.POST)
    form.is_valid()
    profile = form.profile()
    names, why = list_models(profile) if profile else ([], "")
    more = {"model_names": names, "no_names": why, "listed": profile is not None}
    if request.htmx:
        return render(request, "memory/_connection_models.html", {**more, "model_form": form})
    return _page(request, more, form=form)


@staff_only("POST")
def test_feed(request: BeaconRequest) -> HttpResponse:
    form = FeedTestForm(request.POST)
    result = try_feed(form.cleaned_data["url"]) if form.is_valid() else None
    more = {"result": result, "feed_form": form}
    if request.htmx:
        return render(request, "memory/_connection_test.html", {**more, "name": "feeds"})
    return _page(request, more, tested="feeds")
