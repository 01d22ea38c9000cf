"""Chooses the embedder: a configured endpoint, else the model on this machine, else none.

BEACON_EMBEDDINGS limits the choice. Without an embedder, recall searches by words only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from django.conf import settings
from django.utils import timezone

from beacon_site.embedded.places import BY_HAND
from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.llm import adapters
from beacon_site.providers.llm.base import (
    DEFAULT_EMBEDDING_MODEL,
    ENDPOINT,
    LOCAL,
    Embedder,
    EmbedderProfile,
    LlmProfile,
)
from beacon_site.providers.llm.endpoints import KINDS, address_of, kind_by_address
from beacon_site.providers.llm.probing import ProbeResult
from beacon_site.text.messages import gettext as _
from memory.models import Connection
from memory.services.llm import connections

AUTO = "auto"
NONE = "none"
ASKING_SECONDS = 5.0  # for a question's vector, since a person is waiting for the results


Rows = Mapping[str, Connection]


def embedder(*, for_question: bool = False, rows: Rows | None = None) -> Embedder | None:
    """Return the embedder to use, or None; for a question it gets one try and a short timeout.

    Pass `rows` (all connections) if they are already loaded.
    """
    chosen = profile(rows)
    if chosen is not None and for_question:
        chosen = replace(chosen, timeout=min(chosen.timeout, ASKING_SECONDS), tries=1)
    return adapters.get_embedder(chosen)


def profile(rows: Rows | None = None) -> EmbedderProfile | None:
    """Return the profile that results from BEACON_EMBEDDINGS, the environment and Settings."""
    mode = settings.BEACON_EMBEDDINGS
    found = endpoint(rows) if mode in (AUTO, ENDPOINT) else None
    if found is None and mode in (AUTO, LOCAL) and adapters.local_is_installed():
        found = EmbedderProfile(LOCAL)
    return found


def is_off() -> bool:
    """Whether BEACON_EMBEDDINGS turns vectors off, so that none are needed."""
    return bool(settings.BEACON_EMBEDDINGS == NONE)


def why_none() -> str:
    """Return why there is no embedder, and what to do about it, for the user."""
    mode = settings.BEACON_EMBEDDINGS
    if mode == NONE:
        return _(
            "Search matches words only, because semantic search is turned off (BEACON_EMBEDDINGS=none)."
        )
    if mode == ENDPOINT:
        return _(
            "Search matches words only, because BEACON_EMBEDDINGS requires an embeddings endpoint and none is set up. An admin can add one in Settings → Models and search."
        )
    return (
        _(
            "Search matches words only, because no embedder is set up. Install a local one with “%(embedder)s”, or ask an admin to add an endpoint in Settings → Models and search."
        )
        % BY_HAND
    )


def endpoint(rows: Rows | None = None) -> EmbedderProfile | None:
    """Return the endpoint for vectors: their own, or else the model's.

    The language model's endpoint is used if an admin chose an embedding model for it, or if it is
    of a kind with a default embedding model, such as OpenAI's, and has a key.
    """
    rows = rows or connections.all_stored()
    row, llm = rows[connections.EMBEDDINGS], connections.llm_profile(rows[connections.MODEL])
    url = connections.effective(row, "base_url").rstrip("/")
    key = connections.effective(row, "secret")
    if url or key or row.model:
        if not url and llm is not None and not key:
            return _at(llm.base_url, llm.kind, row.model or DEFAULT_EMBEDDING_MODEL, llm.api_key)
        kind = kind_by_address(url)
        key = key or _key_of_same_place(url, kind, llm)
        return _at(url, kind, row.model or DEFAULT_EMBEDDING_MODEL, key)
    if llm is None:
        return None
    chosen = str(rows[connections.MODEL].profile.get("embedding_model") or "")
    usual = KINDS[llm.kind].embedding_model if llm.kind in KINDS and llm.api_key else ""
    model = chosen or usual
    return _at(llm.base_url, llm.kind, model, llm.api_key) if model else None


def keep_test(result: ProbeResult) -> None:
    """Store the result of an embedder test, to show it beside its form."""
    row = connections.stored(connections.EMBEDDINGS)
    found = {
        "base_url": connections.effective(row, "base_url").rstrip("/"),
        "model": row.model,
        "ok": result.ok,
        "message": result.message,
        "ms": result.ms,
        "at": timezone.now().isoformat(timespec="seconds"),
    }
    connections.keep_found(connections.EMBEDDINGS, found)


def _at(url: str, kind: str, model: str, key: str) -> EmbedderProfile:
    return EmbedderProfile(ENDPOINT, model=model, base_url=url, api_key=key, kind=kind)


def _key_of_same_place(url: str, kind: str, llm: LlmProfile | None) -> str:
    """Return the language model's key if the vectors come from the same server."""
    if llm is None:
        return ""
    here = LlmProfile(base_url=url, model="", kind=kind)
    try:
        is_same = address_of(here).origin.lower() == address_of(llm).origin.lower()
    except ProviderRejected:
        return ""
    return llm.api_key if is_same else ""
