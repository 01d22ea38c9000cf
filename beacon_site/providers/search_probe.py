"""Asking a search service once, for the person who pressed its test button in Settings."""

from __future__ import annotations

import time

from django.utils.translation import gettext as _

from beacon_site.providers.catalogue import BY_NAME
from beacon_site.providers.errors import ProviderError
from beacon_site.providers.probing import ProbeResult
from beacon_site.providers.rate_limit import waiting_at_most
from beacon_site.providers.search import SearchHit, SearchOptions, SearchProfile, get_search
from beacon_site.providers.timeouts import ended_within, ms_since

PATIENCE = 12.0  # seconds: a person waits at the page
TURN_SECONDS = 8.0  # of them for a turn that other searches have first; the rest is the service's
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
        return ProbeResult(False, str(exc), ms_since(began))
    except TimeoutError:
        text = _("%(name)s did not answer within %(seconds)g seconds. Is its address right?")
        return ProbeResult(False, text % {"name": name, "seconds": PATIENCE}, ms_since(began))
    text = _("%(name)s answered, but found nothing for “%(word)s”.")
    if hits:
        text = _("%(name)s answered. Its first result is “%(title)s”.")
    shown = {"name": name, "word": WORD, "title": hits[0].title if hits else ""}
    message = " ".join([text % shown, *warnings])
    return ProbeResult(True, message, ms_since(began), count=len(hits))


def _searched(profile: SearchProfile) -> tuple[list[SearchHit], list[str]]:
    """Return the hits and the warnings; raises the service's failures, and TimeoutError."""
    provider = get_search(profile)

    def ask() -> list[SearchHit]:
        with waiting_at_most(TURN_SECONDS):
            return provider.search(WORD, SearchOptions(limit=1))

    hits = ended_within(PATIENCE, ask)
    return hits, [str(warning) for warning in getattr(provider, "warnings", ())]
