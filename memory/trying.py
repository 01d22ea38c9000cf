"""Trying an outside service once, for the person who pressed its test button."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import structlog
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers.errors import ProviderError
from beacon_site.providers.probing import ProbeResult, probe
from beacon_site.providers.search import SearchOptions, SearchProfile, get_search
from beacon_site.providers.search_probe import try_search
from memory import connections

logger = structlog.get_logger(__name__)

PATIENCE = 30.0  # seconds for one call of a test; a model that loads first is slow


def try_model() -> ProbeResult:
    """Ask the model that is set up, and keep what that showed about it."""
    profile = connections.llm_profile()
    if profile is None:
        text = _("No model is set up, so there is nothing to test. Name one and save first.")
        return ProbeResult(ok=False, message=text, ms=0)
    result = probe(replace(profile, timeout=PATIENCE))
    connections.keep_probe(profile, result)
    logger.info("model tested", model=profile.model, ok=result.ok, ms=result.ms)
    return result


def try_serpapi() -> ProbeResult:
    """Search once by SerpAPI as it is set up."""
    return try_search(connections.search_profile("serpapi"))


def try_feed(url: str) -> ProbeResult:
    """Read the feed at `url` as a run would, address guard included."""
    began = time.monotonic()
    try:
        hits = get_search(SearchProfile(service="feeds")).search(
            "", SearchOptions(limit=50, feeds=(url,))
        )
    except ProviderError as exc:
        return ProbeResult(ok=False, message=str(exc), ms=_since(began))
    text = _("The feed can be read, but has no entries.")
    if hits:
        text = ngettext(
            "The feed has one entry: “%(title)s”.",
            "The feed has %(count)d entries (at most 50 are read); the newest is “%(title)s”.",
            len(hits),
        ) % {"count": len(hits), "title": hits[0].title}
    return ProbeResult(ok=True, message=text, ms=_since(began), count=len(hits))


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


TESTS: dict[str, Callable[[], ProbeResult]] = {"model": try_model, "serpapi": try_serpapi}
