"""Embeddings from any endpoint with OpenAI's `POST /embeddings`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

import structlog
from django.utils.translation import gettext as _

from beacon_site.net.errors import ProviderError, ProviderNonsense, ProviderUnavailable
from beacon_site.net.http import Reply, ServiceHttp
from beacon_site.providers.llm.base import KNOWN_DIMENSIONS, EmbedderProfile, unit_vectors
from beacon_site.providers.llm.endpoints import address_of, kind_of
from beacon_site.providers.llm.openai_errors import error_of, failure_for
from beacon_site.providers.search.answers import parsed, plain_text
from beacon_site.providers.search.results import one_line

logger = structlog.get_logger(__name__)

BATCH = 64  # texts in one request, whose vectors are 2 MB of JSON
LONGEST_TEXT = 8_000  # characters; a model that reads 8,191 tokens can read them in any script
MAX_BODY = 8 * 1024 * 1024  # bytes; 64 vectors of 3,072 numbers, 20 bytes each, take half of it
LONGEST_WAIT = 5.0  # seconds before the retry; a longer Retry-After is left to the caller
FIRST_WAIT = 0.5


class OpenAIEmbedder:
    """An Embedder that uses an endpoint.  Texts leave this process, so it is never local."""

    is_local = False

    def __init__(self, profile: EmbedderProfile) -> None:
        self.profile = profile
        self.model = profile.model
        self.dimensions = profile.dimensions or KNOWN_DIMENSIONS.get(profile.model)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text; see Embedder.embed."""
        made: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            made += self._batch(
                [text[:LONGEST_TEXT] or " " for text in texts[start : start + BATCH]]
            )
        return made

    def _batch(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of one request's texts, with one retry."""
        try:
            return self._asked(texts)
        except ProviderUnavailable as exc:
            wait = FIRST_WAIT if exc.retry_after is None else exc.retry_after
            if self.profile.tries < 2 or wait > min(LONGEST_WAIT, self.profile.timeout):
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
        said, code, status = error_of(body, otherwise=400)
        if reply.status != 200:
            status = reply.status
        said = one_line(http.scrubbed(said), 300).rstrip(".") or plain_text(http, reply)
        kind = kind_of(self.profile.as_endpoint())
        return failure_for(self.model, host, kind, status, code, said, reply.headers)


def _data_of(reply: Reply) -> list[Any] | None:
    """Return the vectors of an answer in the order of their index, or None if there are none."""
    body = parsed(reply) if reply.status == 200 else None
    data = body.get("data") if isinstance(body, dict) else None
    if not isinstance(data, list) or not all(isinstance(item, dict) for item in data):
        return None
    if all(isinstance(item.get("index"), int) for item in data):
        data = sorted(data, key=lambda item: int(item["index"]))
    return [item.get("embedding") for item in data]
