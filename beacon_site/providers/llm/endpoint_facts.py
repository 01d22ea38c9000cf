"""What an endpoint says about itself in GET requests, without asking its model.

Calls don't need any of it.  The kinds of endpoints and the meaning of their URLs are in
endpoints.py.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.net.http import Reply, ServiceHttp
from beacon_site.providers.llm.base import LlmProfile
from beacon_site.providers.llm.endpoints import (
    KINDS,
    Address,
    Kind,
    address_of,
    complaint_about,
    kind_by_address,
    kind_of,
)
from beacon_site.providers.search.answers import parsed, plain_text, said
from beacon_site.providers.search.results import one_line
from beacon_site.text.messages import gettext as _

__all__ = [
    "KINDS",
    "Kind",
    "address_of",
    "complaint_about",
    "context_tokens",
    "embedding_dimensions",
    "kind_by_address",
    "kind_of",
    "list_models",
    "missing_model",
]

PATIENCE = 5.0  # seconds for one GET
MOST_MODELS = 500
MOST_NAMED = 8  # in one sentence
CONTEXT_FIELDS = ("max_model_len", "loaded_context_length", "context_length", "context_window")
LARGEST_CONTEXT = 10**8  # tokens; a larger value of a server is ignored


def list_models(profile: LlmProfile, *, timeout: float = PATIENCE) -> list[str]:
    """Return the names of the endpoint's models, in its order.

    `timeout` is in seconds.  Raises ProviderUnavailable or ProviderRejected if it doesn't list them.
    Azure lists models that can be deployed, not those that are.
    """
    entries = _entries(profile, timeout)
    if entries is None:
        host = address_of(profile).host
        raise ProviderRejected(_("%(host)s doesn’t list its models.") % {"host": host})
    return [name for entry in entries if (name := _name(entry))][:MOST_MODELS]


def missing_model(
    profile: LlmProfile, said: str, *, timeout: float = PATIENCE
) -> ProviderRejected | None:
    """Return the failure for a model that doesn't exist, which names those that do.

    None if the endpoint lists no models, or lists this one, since then the cause is another.
    """
    try:
        names = list_models(profile, timeout=timeout)
    except ProviderError:
        return None
    if not names or profile.model in names or f"{profile.model}:latest" in names:
        return None
    told = {"host": address_of(profile).host, "model": profile.model, "why": said.rstrip(".")}
    if kind_of(profile).name == "azure":
        text = _("%(host)s has no deployment “%(model)s” (%(why)s). %(hint)s")
        return ProviderRejected(text % {**told, "hint": kind_of(profile).hint})
    shown = ", ".join(f"“{name}”" for name in names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        shown = _("%(names)s and %(count)d more") % {
            "names": shown,
            "count": len(names) - MOST_NAMED,
        }
    text = _(
        "%(host)s has no model “%(model)s” (%(why)s). It has %(names)s. Select one of them, or "
        "add the model there."
    )
    return ProviderRejected(text % {**told, "names": shown})


def context_tokens(profile: LlmProfile, *, timeout: float = PATIENCE) -> int | None:
    """Return the size of the model's window if the endpoint reports it, else None.

    Call it after a question, because Ollama reports it only while the model is loaded.
    """
    address = address_of(profile)
    kind = kind_of(profile).name
    if kind == "ollama":
        loaded = _json(profile, f"{address.origin}/api/ps", timeout).get("models")
        return _size(_entry_of(profile.model, loaded), ("context_length",))
    if kind == "lmstudio":
        known = _json(profile, f"{address.origin}/api/v0/models", timeout).get("data")
        return _size(
            _entry_of(profile.model, known), ("loaded_context_length", "max_context_length")
        )
    entry = _entry_of(profile.model, _quietly(profile, timeout))
    found = _size(entry, CONTEXT_FIELDS) or _size(entry.get("meta"), ("n_ctx",))
    if found is None and kind == "llamacpp":
        props = _json(profile, f"{address.origin}/props", timeout)
        found = _size(props.get("default_generation_settings"), ("n_ctx",))
    return found


def embedding_dimensions(profile: LlmProfile, model: str, *, timeout: float) -> int:
    """Return the number of dimensions of `model`'s embeddings, by embedding one word.

    Raises ProviderUnavailable or ProviderRejected if that fails.
    """
    address = address_of(profile)
    body = {"model": model, "input": ["ready"], "encoding_format": "float"}
    query = f"?{urlencode(address.query)}" if address.query else ""
    http = _http(profile, address, timeout)
    reply = http.post(f"{address.base_url}/embeddings{query}", body)
    data = _object(reply).get("data")
    first = data[0] if isinstance(data, list) and data else None
    vector = first.get("embedding") if isinstance(first, dict) else None
    if reply.status == 200 and isinstance(vector, list) and vector:
        return len(vector)
    why = said(http, parsed(reply)) or plain_text(http, reply)
    words = _("it can’t embed with “%(model)s” (HTTP %(status)d: %(why)s)")
    told = words % {"model": model, "status": reply.status, "why": why or _("no reason given")}
    may_pass = reply.status >= 500 and reply.status != HTTPStatus.NOT_IMPLEMENTED
    raise ProviderUnavailable(told) if may_pass else ProviderRejected(told)


# --- requests -------------------------------------------------------------------------------------


def _http(profile: LlmProfile, address: Address, timeout: float) -> ServiceHttp:
    key = profile.api_key.strip()
    if not (key.isascii() and key.isprintable()):
        key = ""
    header = "api-key" if kind_of(profile).name == "azure" else "Authorization"
    value = key if header == "api-key" else f"Bearer {key}"
    return ServiceHttp(address.host, secret_headers={header: value} if key else {}, timeout=timeout)


def _get(profile: LlmProfile, url: str, timeout: float) -> Reply:
    address = address_of(profile)
    return _http(profile, address, timeout).get(url, address.query)


def _json(profile: LlmProfile, url: str, timeout: float) -> dict[str, Any]:
    """Return the JSON of a GET request, {} for anything but JSON with status 200."""
    try:
        reply = _get(profile, url, timeout)
    except ProviderError:
        return {}
    return _object(reply) if reply.status == 200 else {}


def _entries(profile: LlmProfile, timeout: float) -> list[Any] | None:
    """Return the entries of GET /models, or None if the answer isn't such a list."""
    address = address_of(profile)
    base = address.base_url
    if "/deployments/" in base:  # Azure's classic interface lists models beside the deployments
        base = base.partition("/deployments/")[0]
    reply = _get(profile, f"{base}/models", timeout)
    body = _object(reply)
    found = body.get("data", body.get("models"))
    return found if reply.status == 200 and isinstance(found, list) else None


def _quietly(profile: LlmProfile, timeout: float) -> list[Any] | None:
    try:
        return _entries(profile, timeout)
    except ProviderError:
        return None


def _object(reply: Reply) -> dict[str, Any]:
    body = parsed(reply)
    if isinstance(body, list):  # Together sends a bare list
        return {"data": body}
    return body if isinstance(body, dict) else {}


def _name(entry: Any) -> str:
    return one_line(entry.get("id") or entry.get("name"), 200) if isinstance(entry, dict) else ""


def _entry_of(model: str, entries: Any) -> dict[str, Any]:
    """Return the model's entry, or the only one, since llama-server uses another name."""
    found = [entry for entry in entries or () if isinstance(entry, dict)]
    names = (model, f"{model}:latest")
    mine = [entry for entry in found if _name(entry) in names or entry.get("model") in names]
    return mine[0] if mine else found[0] if len(found) == 1 else {}


def _size(entry: Any, fields: tuple[str, ...]) -> int | None:
    for field in fields:
        value = entry.get(field) if isinstance(entry, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < LARGEST_CONTEXT:
            return value
    return None
