"""One call to a chat endpoint with the `openai` client, bounded in bytes and time.

Heavy (0.6 s, 50 MB): imported when a model is first asked, never before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx2
import openai
import structlog
from django.utils.translation import gettext as _

from beacon_site.providers.errors import (
    ProviderError,
    ProviderNonsense,
    ProviderRejected,
    ProviderUnavailable,
)
from beacon_site.providers.http import (
    CONNECT_SECONDS,
    BodyTooLarge,
    read_bounded,
    retry_after,
    scrub,
    user_agent,
)
from beacon_site.providers.llm import LlmProfile
from beacon_site.providers.openai_reply import CallFailed
from beacon_site.providers.results import text_of_html, usable_url

logger = structlog.get_logger(__name__)

MAX_RETRIES = 1
LONGEST_WAIT = 5.0  # seconds before the retry; a longer Retry-After is the caller's to keep
FIRST_WAIT = 0.5
MAX_BODY = 2 * 1024 * 1024  # bytes: 8,000 tokens, each escaped, are a tenth of it
VENDOR_URL = "https://api.openai.com/v1"
NO_KEY = "local"  # the client refuses an empty key; keyless servers take any
TOO_LARGE = "x-beacon-too-large"
OUT_OF_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
GATEWAY_STATUSES = (408, 409, 425, 429)


class _Bounded(httpx2.BaseTransport):
    """Reads each answer whole, at most MAX_BODY bytes in at most `seconds`.

    What is too large or unreadable becomes a small answer of status 413 or 502 that says so: an
    exception from here would be taken for a lost connection.
    """

    def __init__(self, seconds: float) -> None:
        # trust_env=False: a proxy of the shell must not decide where the key is sent.
        self._inner = httpx2.HTTPTransport(trust_env=False)
        self._seconds = seconds

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        deadline = time.monotonic() + self._seconds
        for name in ("openai-organization", "openai-project"):
            if not request.headers.get(name):  # sent empty, to keep OPENAI_* variables out
                request.headers.pop(name, None)
        response = self._inner.handle_request(request)
        try:
            content = read_bounded(
                response.iter_raw(),
                encoding=response.headers.get("content-encoding", ""),
                limit=MAX_BODY,
                deadline=deadline,
            )
        except BodyTooLarge:
            return httpx2.Response(413, headers={TOO_LARGE: "1"}, content=b"")
        except ValueError as exc:
            return httpx2.Response(502, json={"error": str(exc)})
        except TimeoutError as exc:
            raise httpx2.ReadTimeout("too slow", request=request) from exc
        finally:
            response.close()
        kept = [
            (name, value)
            for name, value in response.headers.multi_items()
            if name.lower() not in ("content-encoding", "content-length", "transfer-encoding")
        ]
        return httpx2.Response(response.status_code, headers=kept, content=content)

    def close(self) -> None:
        self._inner.close()


class ChatWire:
    """The endpoint of one profile."""

    def __init__(self, profile: LlmProfile) -> None:
        """Raises CallFailed for an address or a key that no request can be made with."""
        base_url = profile.base_url.strip() or VENDOR_URL  # never None: OPENAI_BASE_URL would rule
        key = profile.api_key.strip()
        self._key = key
        self._seconds = profile.timeout
        self._model = profile.model
        self._host = _host(base_url)
        if not (key.isascii() and key.isprintable()):
            text = _("The key for %(host)s has characters that no key has. Enter it again.")
            raise CallFailed(ProviderRejected(text % {"host": self._host}))
        headers = {"User-Agent": user_agent(), "Accept-Encoding": "gzip, identity"}
        if profile.kind == "azure":
            headers["api-key"] = key
        self._client = openai.OpenAI(
            api_key=key or NO_KEY,
            organization="",
            project="",
            base_url=base_url,
            timeout=profile.timeout,
            max_retries=0,  # `complete` retries: it knows which 429 and 500 are final
            default_headers=headers,
            http_client=httpx2.Client(
                transport=_Bounded(profile.timeout),
                timeout=httpx2.Timeout(profile.timeout, connect=CONNECT_SECONDS),
                trust_env=False,
                follow_redirects=False,
            ),
        )

    def complete(
        self,
        params: Mapping[str, Any],
        *,
        retries: int = MAX_RETRIES,
        final: Container[int] = (),
    ) -> dict[str, Any]:
        """Return the completion as a plain dictionary; raises CallFailed.

        Tried again at most `retries` times, only after what may pass within seconds, and not
        after a status in `final`.
        """
        left = retries
        while True:
            outcome = self._attempt(params)
            if not isinstance(outcome, CallFailed):
                return outcome
            wait = _pause(outcome)
            if not left or wait is None or outcome.status in final:
                raise outcome
            left -= 1
            logger.info("model call tried again", host=self._host, status=outcome.status, wait=wait)
            time.sleep(wait)

    def _attempt(self, params: Mapping[str, Any]) -> dict[str, Any] | CallFailed:
        """Return the completion or the failure, so that no client exception is chained to it."""
        try:
            # Raw: the client's own parsing trusts the shape of what it got.
            raw: Any = self._client.chat.completions.with_raw_response.create(**params)
            content: bytes = raw.http_response.content
        except openai.APITimeoutError:
            return CallFailed(
                ProviderUnavailable(
                    _("The model at %(host)s did not answer within %(seconds)s seconds.")
                    % {"host": self._host, "seconds": f"{self._seconds:g}"}
                ),
                timed_out=True,
            )
        except openai.APIStatusError as exc:
            return self._refused(exc.response)
        except (openai.APIConnectionError, httpx2.HTTPError, httpx2.InvalidURL) as exc:
            return self._unreachable(exc)
        except openai.OpenAIError as exc:
            return CallFailed(ProviderRejected(self._clean(str(exc))))
        return self._as_dictionary(content)

    def _as_dictionary(self, content: bytes) -> dict[str, Any] | CallFailed:
        """Return the body of a 200, whatever content type it came under."""
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            return self._no_completion(content[:2000].decode("utf-8", "replace"))
        if body.get("error") and not body.get("choices"):  # gateways report failures under 200
            said, code, status = _error_of(body)
            return self._judged(status, code, said, {})
        return body

    def _no_completion(self, text: str) -> CallFailed:
        return CallFailed(
            ProviderRejected(
                _(
                    "%(host)s answered, but not as a model does: “%(start)s”. Check the base URL; "
                    "it usually ends in /v1."
                )
                % {"host": self._host, "start": self._clean(text)[:80]}
            ),
            status=200,
        )

    def _unreachable(self, exc: Exception) -> CallFailed:
        cause = exc.__cause__ or exc
        why = self._clean(str(cause)) or type(cause).__name__
        names = {"host": self._host, "why": why.rstrip(".")}
        if isinstance(cause, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
            text = _("The model's base URL “%(host)s” is no usable address: %(why)s.")
            return CallFailed(ProviderRejected(text % names))
        text = _("The model at %(host)s cannot be reached or broke off: %(why)s.")
        return CallFailed(ProviderUnavailable(text % names))

    def _refused(self, response: httpx2.Response) -> CallFailed:
        if response.headers.get(TOO_LARGE):
            text = _("The model at %(host)s answered with more than %(mib)d MiB, which is refused.")
            told = {"host": self._host, "mib": MAX_BODY // (1024 * 1024)}
            return CallFailed(ProviderNonsense(text % told), status=200, too_large=True)
        try:
            body = response.json()
        except (ValueError, RecursionError):
            body = {"error": response.text[:2000]}
        said, code, _status = _error_of(body)
        return self._judged(response.status_code, code, said, response.headers)

    def _judged(self, status: int, code: str, said: str, headers: Mapping[str, str]) -> CallFailed:
        said = self._clean(said)
        failure = _failure(self._model, self._host, status, code, said, headers)
        return CallFailed(failure, status=status, code=code, said=said)

    def _clean(self, text: str) -> str:
        return text_of_html(scrub(text, self._key), 300)


@lru_cache(maxsize=8)
def wire_for(profile: LlmProfile) -> ChatWire:
    """Return this process's connection to an endpoint: making one costs 40 ms and a handshake.

    Raises CallFailed as ChatWire does.
    """
    return ChatWire(profile)


def _host(base_url: str) -> str:
    """Return host and port, never a password that stands before them."""
    if not usable_url(base_url):
        text = _("“%(url)s” is no address of a model. It begins with http and usually ends in /v1.")
        raise CallFailed(ProviderRejected(text % {"url": base_url.rpartition("@")[2][:100]}))
    return urlsplit(base_url).netloc.rpartition("@")[2]


def _pause(failed: CallFailed) -> float | None:
    """Return the seconds to wait before one more try, or None where there should be none."""
    failure = failed.failure
    if not isinstance(failure, ProviderUnavailable) or failed.timed_out:
        return None
    wait = FIRST_WAIT if failure.retry_after is None else failure.retry_after
    return wait if wait <= LONGEST_WAIT else None


def _error_of(body: Any) -> tuple[str, str, int]:
    """Return text, code and status of an error body: {"error": {…}}, {"error": "text"}, others."""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return str(error or ""), "", 400
    said = error.get("message") or error.get("detail") or error.get("error") or ""
    code = error.get("code") or error.get("type") or ""
    status = code if isinstance(code, int) and 400 <= code <= 599 else 400
    return str(said), str(code), status


def _failure(
    model: str, host: str, status: int, code: str, said: str, headers: Mapping[str, str]
) -> ProviderError:
    told = {"host": host, "model": model, "status": status, "why": said or _("no reason given")}
    if status in (401, 403):
        text = _("%(host)s refused the key (HTTP %(status)d: %(why)s). Check it under Settings.")
        return ProviderRejected(text % told)
    if status == 402 or (status == 429 and _is_out_of_money(code, said)):
        text = _("The account at %(host)s has no credit left (%(why)s).")
        return ProviderRejected(text % told)
    if status in GATEWAY_STATUSES or status >= 500:
        text = _("The model at %(host)s is not available now (HTTP %(status)d: %(why)s).")
        return ProviderUnavailable(text % told, retry_after=retry_after(headers))
    if status == 404:
        text = _(
            "%(host)s knows no model “%(model)s” at this address (%(why)s). Check the name and "
            "the base URL."
        )
        return ProviderRejected(text % told)
    if 300 <= status < 400:
        text = _("%(host)s redirects elsewhere (HTTP %(status)d). Correct the base URL.")
        return ProviderRejected(text % told)
    text = _("%(host)s did not accept the request (HTTP %(status)d: %(why)s).")
    return ProviderRejected(text % told)


def _is_out_of_money(code: str, said: str) -> bool:
    return code in OUT_OF_MONEY or "exceeded your current quota" in said.lower()
