"""Trying an outside service once, for the person who pressed its test button."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import structlog
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers import endpoints
from beacon_site.providers.errors import ProviderError
from beacon_site.providers.llm import LlmProfile
from beacon_site.providers.probing import ProbeResult, probe
from beacon_site.providers.search import SearchOptions, SearchProfile, get_search
from beacon_site.providers.search_probe import try_search
from beacon_site.providers.timeouts import ended_within, ms_since
from beacon_site.redaction import redact
from memory.llm import connections, embedders
from memory.llm.asking import price
from memory.models import ModelCall, User

logger = structlog.get_logger(__name__)

LISTING_SECONDS = 12  # a person waits at the page
# Above what a probe allows itself, since a name that does not resolve knows no limit; below the
# 60 s after which a proxy in front of Beacon gives up, and the page's own 75 s.
PROBING_SECONDS = 50


def try_model(by: User) -> ProbeResult:
    """Ask the model that is set up, keep what that showed about it, and what it cost `by`."""
    profile = connections.llm_profile()
    if profile is None:
        text = _("No model is set up, so there is nothing to test. Name one and save first.")
        return ProbeResult(ok=False, message=text, ms=0)
    began, ended = time.monotonic(), True
    try:
        result = ended_within(PROBING_SECONDS, lambda: probe(profile))
    except TimeoutError:
        ended = False
        text = _("No answer came within %(seconds)d seconds. Is the address right?")
        result = ProbeResult(False, text % {"seconds": PROBING_SECONDS}, ms_since(began))
    connections.keep_probe(profile, result)
    _record(profile, result, by, is_known=ended)
    logger.info("model tested", model=profile.model, ok=result.ok, ms=result.ms)
    return result


def _record(profile: LlmProfile, result: ProbeResult, by: User, *, is_known: bool) -> None:
    """Record a test as a call, so that what it spent stands in Spending; texts are left out."""
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
    """Return the names of the models that an endpoint has, or none and why they cannot be told."""
    try:
        return ended_within(LISTING_SECONDS, lambda: endpoints.list_models(profile)), ""
    except ProviderError as exc:
        return [], str(exc)
    except TimeoutError:
        return [], _("No answer came within %(seconds)d seconds. Is the address right?") % {
            "seconds": LISTING_SECONDS
        }


def try_service(name: str, _by: User) -> ProbeResult:
    """Search once by a service as it is set up, and keep what it said."""
    profile = connections.search_profile(name)
    result = try_search(profile)
    connections.keep_search_test(profile, result)
    logger.info("search service tested", service=name, ok=result.ok, ms=result.ms)
    return result


def try_embedder(_by: User) -> ProbeResult:
    """Embed one word by the embedder that would be used now, and keep what it said."""
    began = time.monotonic()
    found = embedders.embedder(for_question=True)
    if found is None:
        return ProbeResult(ok=False, message=embedders.why_none(), ms=0)
    try:
        size = len(ended_within(LISTING_SECONDS, lambda: found.embed(["ready"]))[0])
    except ProviderError as exc:
        result = ProbeResult(ok=False, message=str(exc), ms=ms_since(began))
    except TimeoutError:
        text = _("No answer came within %(seconds)d seconds. Is the address right?")
        told = text % {"seconds": LISTING_SECONDS}
        result = ProbeResult(ok=False, message=told, ms=ms_since(began))
    else:
        text = _("“%(model)s” answered with a vector of %(size)d figures.")
        told = text % {"model": found.model, "size": size}
        result = ProbeResult(ok=True, message=told, ms=ms_since(began))
    embedders.keep_test(result)
    logger.info("embedder tested", model=found.model, ok=result.ok, ms=result.ms)
    return result


def try_feed(url: str) -> ProbeResult:
    """Read the feed at `url` as a run would, address guard included."""
    began = time.monotonic()
    try:
        hits = get_search(SearchProfile(service="feeds")).search(
            "", SearchOptions(limit=50, feeds=(url,))
        )
    except ProviderError as exc:
        return ProbeResult(ok=False, message=str(exc), ms=ms_since(began))
    text = _("The feed can be read, but has no entries.")
    if hits:
        text = ngettext(
            "The feed has one entry: “%(title)s”.",
            "The feed has %(count)d entries (at most 50 are read); the newest is “%(title)s”.",
            len(hits),
        ) % {"count": len(hits), "title": hits[0].title}
    return ProbeResult(ok=True, message=text, ms=ms_since(began), count=len(hits))


TESTS: dict[str, Callable[[User], ProbeResult]] = {
    connections.MODEL: try_model,
    connections.EMBEDDINGS: try_embedder,
    **{name: partial(try_service, name) for name in connections.SET_UP},
}
