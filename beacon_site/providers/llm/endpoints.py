"""The kinds of model endpoints, their documented differences and URLs, and what an endpoint says about itself.

All have OpenAI's chat completions.  A kind's values are Beacon's first guess; the real behavior is
learned in use (openai_model.py) or tested (probing.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from beacon_site.net.address_guard import problem_of
from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.net.http import Reply, ServiceHttp
from beacon_site.providers.llm.base import LlmProfile
from beacon_site.providers.search.answers import error_text_in, one_line, parsed, plain_text
from beacon_site.text.messages import gettext as _

VENDOR_URL = "https://api.openai.com/v1"
TAILS = ("/chat/completions", "/completions", "/chat", "/embeddings", "/models", "/responses")
AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
LOCAL_SECONDS = 300.0  # 1,500 tokens at 5 per second, as on a laptop
PORTS = {11434: "ollama", 1234: "lmstudio"}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of endpoint.

    `limit_field` is tried first; `path` is added to a URL without one; `seconds`
    limits one call, with more for models that may run on this machine; `context` says how to
    enlarge its window; `hint` is for people.
    """

    name: str
    label: str | Promise
    default_url: str = ""
    path: str = ""
    limit_field: str = "max_tokens"
    needs_key: bool = False
    seconds: float = 90
    default_context: int | None = None
    embedding_model: str = ""
    hint: str | Promise = ""
    context: str | Promise = ""


_ALL = (
    Kind(
        "openai",
        "OpenAI",
        VENDOR_URL,
        path="/v1",
        limit_field="max_completion_tokens",
        needs_key=True,
        embedding_model="text-embedding-3-small",
        hint=gettext_lazy("Enter the name of a model that your account can use."),
    ),
    Kind(
        "azure",
        "Azure OpenAI",
        path="/openai/v1",
        limit_field="max_completion_tokens",
        needs_key=True,
        hint=gettext_lazy(
            "Enter the name of your deployment as the model. The URL is https://<resource>.openai.azure.com/openai/v1, or the deployment’s URL with ?api-version=… at the end."
        ),
    ),
    Kind(
        "ollama",
        "Ollama",
        "http://127.0.0.1:11434/v1",
        path="/v1",
        seconds=LOCAL_SECONDS,
        default_context=4096,
        hint=gettext_lazy(
            "By default, Ollama reads only 4,096 tokens and silently drops the rest of a longer prompt."
        ),
        context=gettext_lazy(
            "Start Ollama with OLLAMA_CONTEXT_LENGTH=32768, or set num_ctx in the model’s Modelfile. It can’t be set per request."
        ),
    ),
    Kind(
        "vllm",
        "vLLM",
        "http://127.0.0.1:8000/v1",
        path="/v1",
        hint=gettext_lazy(
            "To use tools, start the server with --enable-auto-tool-choice and a --tool-call-parser for the model."
        ),
        context=gettext_lazy("Start vLLM with a larger --max-model-len."),
    ),
    Kind(
        "llamacpp",
        "llama.cpp",
        "http://127.0.0.1:8080/v1",
        path="/v1",
        seconds=LOCAL_SECONDS,
        hint=gettext_lazy("The server has one model and accepts any model name."),
        context=gettext_lazy(
            "Start llama-server with a larger --ctx-size. With --parallel, this size is divided among requests."
        ),
    ),
    Kind(
        "lmstudio",
        "LM Studio",
        "http://127.0.0.1:1234/v1",
        path="/v1",
        seconds=LOCAL_SECONDS,
        hint=gettext_lazy("If only one model is loaded, LM Studio may use it for any model name."),
        context=gettext_lazy("Load the model in LM Studio with a larger context length."),
    ),
    Kind(
        "compatible",
        gettext_lazy("Other (OpenAI-compatible)"),
        hint=gettext_lazy("For example, OpenRouter, Groq, Mistral, or a gateway such as LiteLLM."),
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}


def kind_of(profile: LlmProfile) -> Kind:
    """Return the profile's kind; an unknown one is treated as “compatible”."""
    return KINDS.get(profile.kind, KINDS["compatible"])


def kind_by_address(base_url: str) -> str:
    """Guess the kind of a URL by its host or its usual port."""
    try:
        parts = urlsplit(base_url.strip())
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "compatible"
    if not host and not base_url.strip():
        return "openai"
    if host == "api.openai.com":
        return "openai"
    if host.endswith(AZURE_HOSTS):
        return "azure"
    return PORTS.get(port or 0, "compatible")


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go: `base_url` without its query, the `query`, and the `host` for messages."""

    base_url: str
    query: Mapping[str, str]
    host: str
    origin: str


def address_of(profile: LlmProfile) -> Address:
    """Return where a profile's requests go.

    A trailing slash and the end of a URL copied from an example (`/chat/completions`) are removed.
    If the URL has no path, the kind's path is added.  Raises ProviderRejected with the reason for
    an invalid URL, or one with a username.
    """
    kind = kind_of(profile)
    text = profile.base_url.strip() or kind.default_url or VENDOR_URL
    if problem := problem_of(text):
        words = _("“%(url)s” isn’t a valid model URL. %(why)s It usually ends in /v1.")
        shown = re.sub(r"[?#].*", "", text.rpartition("@")[2])
        raise ProviderRejected(words % {"url": shown[:100], "why": problem})
    parts = urlsplit(text)
    path, query = _without_tail(parts.path), dict(parse_qsl(parts.query))
    if kind.name == "azure":
        path = _azure_path(path, "api-version" in query, profile.model)
    origin = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    return Address(origin + (path or kind.path), query, parts.netloc, origin)


def complaint_about(base_url: str, kind: str = "compatible") -> str:
    """Return what is wrong with a URL as a sentence, "" if requests can be sent to it."""
    try:
        address_of(LlmProfile(base_url=base_url, model="", kind=kind))
    except ProviderRejected as exc:
        return str(exc)
    return ""


def _without_tail(path: str) -> str:
    path = path.rstrip("/")
    for tail in TAILS:
        if path.endswith(tail):
            return path.removesuffix(tail).rstrip("/")
    return path


def _azure_path(path: str, is_classic: bool, deployment: str) -> str:
    """Return the path of Azure's v1 interface, or of the deployment for the classic one."""
    if "/deployments/" in path or (path and not path.endswith("/openai")):
        return path
    if is_classic:
        return f"/openai/deployments/{quote(deployment, safe='')}"
    return "/openai/v1"


# --- what an endpoint says about itself ---


PATIENCE = 5.0  # seconds for one GET
MAX_MODELS = 500
MAX_NAMED = 8  # in one sentence
CONTEXT_FIELDS = ("max_model_len", "loaded_context_length", "context_length", "context_window")
MAX_CONTEXT_TOKENS = 10**8  # tokens; a larger value of a server is ignored


def list_models(profile: LlmProfile, *, timeout: float = PATIENCE) -> list[str]:
    """Return the names of the endpoint's models, in its order.

    `timeout` is in seconds.  Raises ProviderUnavailable or ProviderRejected if it doesn't list them.
    Azure lists models that can be deployed, not those that are.
    """
    entries = _entries(profile, timeout)
    if entries is None:
        host = address_of(profile).host
        raise ProviderRejected(_("%(host)s doesn’t list its models.") % {"host": host})
    return [name for entry in entries if (name := _name(entry))][:MAX_MODELS]


def missing_model(profile: LlmProfile, message: str, *, timeout: float) -> ProviderRejected | None:
    """Return the failure for a model that doesn't exist, which names those that do.

    None if the endpoint lists no models, or lists this one, since then the cause is another.
    """
    try:
        names = list_models(profile, timeout=timeout)
    except ProviderError:
        return None
    if not names or profile.model in names or f"{profile.model}:latest" in names:
        return None
    fields = {"host": address_of(profile).host, "model": profile.model, "why": message.rstrip(".")}
    if kind_of(profile).name == "azure":
        text = _("%(host)s has no deployment “%(model)s” (%(why)s). %(hint)s")
        return ProviderRejected(text % {**fields, "hint": kind_of(profile).hint})
    shown = ", ".join(f"“{name}”" for name in names[:MAX_NAMED])
    if len(names) > MAX_NAMED:
        shown = _("%(names)s and %(count)d more") % {
            "names": shown,
            "count": len(names) - MAX_NAMED,
        }
    text = _(
        "%(host)s has no model “%(model)s” (%(why)s). It has %(names)s. Select one of them, or add the model there."
    )
    return ProviderRejected(text % {**fields, "names": shown})


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
    why = error_text_in(http, parsed(reply)) or plain_text(http, reply)
    words = _("it can’t create embeddings with “%(model)s” (HTTP %(status)d: %(why)s)")
    message = words % {"model": model, "status": reply.status, "why": why or _("no reason given")}
    may_pass = reply.status >= 500 and reply.status != HTTPStatus.NOT_IMPLEMENTED
    raise ProviderUnavailable(message) if may_pass else ProviderRejected(message)


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
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and 0 < value < MAX_CONTEXT_TOKENS
        ):
            return value
    return None
