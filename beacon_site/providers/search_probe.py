"""Asking a search service once, for the person who pressed its test button in Settings."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

from django.utils.translation import gettext as _

from beacon_site.providers.catalogue import BY_NAME
from beacon_site.providers.errors import ProviderError
from beacon_site.providers.probing import ProbeResult
from beacon_site.providers.search import SearchHit, SearchOptions, SearchProfile, get_search

PATIENCE = 12.0  # seconds: a person waits at the page
WORD = "news"  # every service has something on it


def try_search(profile: SearchProfile) -> ProbeResult:
    """Search once, for one result, and say what came: the result or the reason for none.

    Ends within PATIENCE seconds whatever the service does; nothing is raised for its failures, and
    no key is in the result.
    """
    began = time.monotonic()
    service = BY_NAME.get(profile.service)
    name = service.label if service else profile.service
    if service and not service.adapter:
        return ProbeResult(True, _("%(name)s asks nobody outside.") % {"name": name}, ms=0)
    if profile.service == "feeds":
        return ProbeResult(False, _("Feeds are tested by their addresses, each by itself."), ms=0)
    try:
        hits, warnings = _searched(profile)
    except ProviderError as exc:
        return ProbeResult(False, str(exc), _since(began))
    except TimeoutError:
        text = _("%(name)s did not answer within %(seconds)g seconds. Is its address right?")
        return ProbeResult(False, text % {"name": name, "seconds": PATIENCE}, _since(began))
    text = _("%(name)s answered, but found nothing for “%(word)s”.")
    if hits:
        text = _("%(name)s answered. Its first result is “%(title)s”.")
    shown = {"name": name, "word": WORD, "title": hits[0].title if hits else ""}
    message = " ".join([text % shown, *warnings])
    return ProbeResult(True, message, _since(began), count=len(hits))


def _searched(profile: SearchProfile) -> tuple[list[SearchHit], list[str]]:
    """Return the hits and the warnings; raises the service's failures, and TimeoutError."""
    provider = get_search(profile)
    # In a thread of its own: a name that does not resolve can hang beyond every limit of a client.
    pool = ThreadPoolExecutor(max_workers=1)
    try:
        context = copy_context()  # with the person's language
        asked = pool.submit(context.run, provider.search, WORD, SearchOptions(limit=1))
        hits: list[SearchHit] = asked.result(timeout=PATIENCE)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return hits, [str(warning) for warning in getattr(provider, "warnings", ())]


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
