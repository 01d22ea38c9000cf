"""The kinds of model endpoints, by their documented differences, and where their addresses lead.

All of them speak OpenAI's chat completions.  What a kind says here is where Beacon begins; what
an endpoint shows in use is learned (openai_model.py) or probed (probing.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.llm.base import LlmProfile
from beacon_site.net.address_guard import problem_of
from beacon_site.net.errors import ProviderRejected

VENDOR_URL = "https://api.openai.com/v1"
TAILS = ("/chat/completions", "/completions", "/chat", "/embeddings", "/models", "/responses")
AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
LOCAL_SECONDS = 300.0  # 1,500 tokens at 5 a second, as a laptop writes them
PORTS = {11434: "ollama", 1234: "lmstudio"}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of endpoint.

    `json_mode` and `limit_field` are where Beacon begins; `path` is what an address without one
    gets; `seconds` is what one call may take, more where it may be this very machine that
    computes it; `context` says how its window is made larger; `hint` is what a person should know.
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
        hint=gettext_lazy("The model's name is one that your account may use."),
    ),
    Kind(
        "azure",
        "Azure OpenAI",
        path="/openai/v1",
        limit_field="max_completion_tokens",
        needs_key=True,
        hint=gettext_lazy(
            "The model's name is the name of your deployment. The address is "
            "https://<resource>.openai.azure.com/openai/v1, or the one of the deployment with "
            "?api-version=… at its end."
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
            "Ollama reads 4,096 tokens unless it is told otherwise, and drops the rest of a longer "
            "question without a word."
        ),
        context=gettext_lazy(
            "Start Ollama with OLLAMA_CONTEXT_LENGTH=32768, or set num_ctx in the model's "
            "Modelfile: a request cannot."
        ),
    ),
    Kind(
        "vllm",
        "vLLM",
        "http://127.0.0.1:8000/v1",
        path="/v1",
        hint=gettext_lazy(
            "For tools the server is started with --enable-auto-tool-choice and a "
            "--tool-call-parser that suits the model."
        ),
        context=gettext_lazy("Start vLLM with a larger --max-model-len."),
    ),
    Kind(
        "llamacpp",
        "llama.cpp (llama-server)",
        "http://127.0.0.1:8080/v1",
        path="/v1",
        seconds=LOCAL_SECONDS,
        hint=gettext_lazy("The server has one model and answers whatever name is asked for."),
        context=gettext_lazy(
            "Start llama-server with a larger --ctx-size; --parallel divides it among requests."
        ),
    ),
    Kind(
        "lmstudio",
        "LM Studio",
        "http://127.0.0.1:1234/v1",
        path="/v1",
        seconds=LOCAL_SECONDS,
        hint=gettext_lazy(
            "With one model loaded, LM Studio may answer with it whatever name is asked for."
        ),
        context=gettext_lazy("Load the model in LM Studio with a larger context length."),
    ),
    Kind(
        "compatible",
        gettext_lazy("Another endpoint that speaks OpenAI's API"),
        hint=gettext_lazy("The address usually ends in /v1."),
    ),
)
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _ALL}


def kind_of(profile: LlmProfile) -> Kind:
    """Return the profile's kind; what is not known is an endpoint like any other."""
    return KINDS.get(profile.kind, KINDS["compatible"])


def kind_by_address(base_url: str) -> str:
    """Return the kind that an address speaks for: by its host or its usual port."""
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
    """Where requests go: `base_url` without a query, `query` beside it, `host` fit to be shown."""

    base_url: str
    query: Mapping[str, str]
    host: str
    origin: str


def address_of(profile: LlmProfile) -> Address:
    """Return where the requests of a profile go.

    A closing slash and the last words of an address that was copied from an example
    (`/chat/completions`) are taken away; the path that a kind always has is added where the
    address names none.  Raises ProviderRejected, with a sentence that says what is wrong, for
    what is no address and for one that holds a user name.
    """
    kind = kind_of(profile)
    text = profile.base_url.strip() or kind.default_url or VENDOR_URL
    if problem := problem_of(text):
        words = _("“%(url)s” is no address of a model. %(why)s It usually ends in /v1.")
        shown = re.sub(r"[?#].*", "", text.rpartition("@")[2])
        raise ProviderRejected(words % {"url": shown[:100], "why": problem})
    parts = urlsplit(text)
    path, query = _without_tail(parts.path), dict(parse_qsl(parts.query))
    if kind.name == "azure":
        path = _azure_path(path, "api-version" in query, profile.model)
    origin = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
    return Address(origin + (path or kind.path), query, parts.netloc, origin)


def complaint_about(base_url: str, kind: str = "compatible") -> str:
    """Return what is wrong with an address as a sentence, "" if a request can be sent to it."""
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
    """Return the path of Azure's v1 interface, or that of the deployment for the classic one."""
    if "/deployments/" in path or (path and not path.endswith("/openai")):
        return path
    if is_classic:
        return f"/openai/deployments/{quote(deployment, safe='')}"
    return "/openai/v1"
