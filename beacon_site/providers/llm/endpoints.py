"""The kinds of model endpoints, their documented differences, and their URLs.

All have OpenAI's chat completions.  A kind's values are Beacon's first guess; the real behavior is
learned in use (openai_model.py) or tested (probing.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

from beacon_site.net.address_guard import problem_of
from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.llm.base import LlmProfile
from beacon_site.text.messages import gettext as _

VENDOR_URL = "https://api.openai.com/v1"
TAILS = ("/chat/completions", "/completions", "/chat", "/embeddings", "/models", "/responses")
AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
LOCAL_SECONDS = 300.0  # 1,500 tokens at 5 per second, as on a laptop
PORTS = {11434: "ollama", 1234: "lmstudio"}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of endpoint.

    `json_mode` and `limit_field` are tried first; `path` is added to a URL without one; `seconds`
    limits one call, with more for models that may run on this machine; `context` says how to
    enlarge its window; `hint` is for people.
    """

    name: str
    label: str | Promise
    default_url: str = ""
    path: str = ""
    json_mode: str = "schema"
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
            "Enter the name of your deployment as the model. The URL is "
            "https://<resource>.openai.azure.com/openai/v1, or the deployment’s URL with "
            "?api-version=… at the end."
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
            "By default, Ollama reads only 4,096 tokens and silently drops the rest of a longer "
            "prompt."
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
            "To use tools, start the server with --enable-auto-tool-choice and a "
            "--tool-call-parser for the model."
        ),
        context=gettext_lazy("Start vLLM with a larger --max-model-len."),
    ),
    Kind(
        "llamacpp",
        "llama.cpp (llama-server)",
        "http://127.0.0.1:8080/v1",
        path="/v1",
        seconds=LOCAL_SECONDS,
        hint=gettext_lazy("The server has one model and accepts any model name."),
        context=gettext_lazy(
            "Start llama-server with a larger --ctx-size, which --parallel divides among requests."
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
        gettext_lazy("Another OpenAI-compatible endpoint"),
        hint=gettext_lazy("The URL usually ends in /v1."),
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
