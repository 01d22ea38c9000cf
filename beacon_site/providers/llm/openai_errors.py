"""What an endpoint's error means: whose fault it is, whether to retry, and how to say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from beacon_site.net.errors import (
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ToolsRefused,
)
from beacon_site.net.http import retry_after
from beacon_site.providers.llm.endpoints import Kind
from beacon_site.text.messages import gettext as _

OUT_OF_MONEY = ("insufficient_quota", "billing_hard_limit_reached", "billing_not_active")
GATEWAY_STATUSES = (408, 409, 425, 429)
TOO_LONG = (
    "context_length",
    "context length",
    "maximum context",
    "exceed_context_size",
    "context size",
    "context window",
    "prompt is too long",
    "max_model_len",
)
# OpenAI and vLLM: "The model `x` does not exist"; Ollama: 'model "x" not found'; LM Studio:
# "Invalid model identifier", "No models loaded"; Azure: "The API deployment … does not exist".
_NO_MODEL = re.compile(
    r"model_not_found|deploymentnotfound|deployment for this resource does not exist"
    r"|invalid model identifier|no models? (?:is )?loaded|unknown model|no such model"
    r"|\bmodel\b.{0,200}(?:does not exist|doesn't exist|not found|is not available)",
    re.S,
)
_STATUS = re.compile(r"[1-5][0-9]{2}")
_OVERLOADED = re.compile(r"overload|server_error|rate_?limit|unavailable|timeout|internal|capacity")


def error_of(body: Any, *, otherwise: int = 400) -> tuple[str, str, int]:
    """Return text, code and status of an error body: {"error": {…}}, {"error": "text"}, others.

    `otherwise` is the status of an error without one.
    """
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return str(error or ""), "", otherwise
    said = error.get("message") or error.get("detail") or error.get("error") or ""
    code = error.get("code") or error.get("type") or ""
    if isinstance(code, str) and _STATUS.fullmatch(code):
        code = int(code)
    if isinstance(code, int):
        status = code if 400 <= code <= 599 else otherwise
    else:
        status = 503 if _OVERLOADED.search(f"{code} {error.get('type')}".lower()) else otherwise
    return str(said), str(code), status


def is_too_long(code: str, text: str) -> bool:
    """Return whether the endpoint says that the question doesn't fit its window."""
    message = f"{code} {text}".lower()
    return any(words in message for words in TOO_LONG)


def is_missing_model(status: int, code: str, text: str) -> bool:
    """Return whether the endpoint may mean that the model doesn't exist."""
    if status not in (400, 404, 422):
        return False
    return status == 404 or bool(_NO_MODEL.search(f"{code} {text}".lower()[:2000]))


def is_final(status: int, code: str, text: str) -> bool:
    """Return whether asking the same in another form can't help."""
    message = f"{code} {text}".lower()
    return (
        is_too_long(code, text)
        or "content_filter" in message
        or bool(_NO_MODEL.search(message[:2000]))
        or status not in (400, 415, 422, 500, 501)
    )


def failure_for(
    model: str,
    host: str,
    kind: Kind,
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str],
) -> ProviderError:
    """Return the failure for an error's status and text, with a message for people."""
    params = {
        "host": host,
        "model": model,
        "status": status,
        "why": message or _("no reason given"),
    }
    if status == 402 or (status == 429 and _is_out_of_money(code, message)):
        return ProviderRejected(_("The account at %(host)s has no credit left (%(why)s).") % params)
    if status in (401, 403):
        text = _("%(host)s rejected the key (HTTP %(status)d: %(why)s). Check it in Settings.")
        if kind.needs_key or status == 401:
            return ProviderRejected(text % params)
        text = _("%(host)s rejected the request (HTTP %(status)d: %(why)s).")
        return ProviderRejected(text % params)
    if _takes_no_tools(status, code, message):
        text = _("“%(model)s” at %(host)s doesn’t support tools (%(why)s).")
        text = f"{text} {_percent(kind.hint)}".rstrip() if kind.name == "vllm" else text
        return ToolsRefused(text % params)
    if status in GATEWAY_STATUSES or (status >= 500 and not is_too_long(code, message)):
        text = _("The model at %(host)s isn’t available right now (HTTP %(status)d: %(why)s).")
        return ProviderUnavailable(text % params, retry_after=retry_after(headers))
    return ProviderRejected(_rejection(kind, status, code, message) % params)


def _rejection(kind: Kind, status: int, code: str, message: str) -> str:
    """Return the message, without its values, for an error that a retry won't fix."""
    lowered = f"{code} {message}".lower()
    if is_too_long(code, message):
        text = _("The prompt is too long for “%(model)s” at %(host)s (%(why)s).")
        return f"{text} {_percent(kind.context)}".rstrip()
    if "content_filter" in lowered or "content management policy" in lowered:
        return _("The content filter at %(host)s rejected the prompt (%(why)s).")
    if _NO_MODEL.search(lowered[:2000]):
        text = _(
            "%(host)s has no model “%(model)s” at this URL (%(why)s). Check the name and the base URL."
        )
        return f"{text} {_percent(kind.hint)}" if kind.name == "azure" else text
    if status == 404:
        return _(
            "%(host)s has no model “%(model)s”, or the base URL is wrong (%(why)s). Check both. The base URL usually ends in /v1."
        )
    if 300 <= status < 400:
        return _("%(host)s redirects to another URL (HTTP %(status)d). Correct the base URL.")
    return _("%(host)s didn’t accept the request (HTTP %(status)d: %(why)s).")


def _takes_no_tools(status: int, code: str, text: str) -> bool:
    """Return whether the endpoint says so; llama-server without --jinja does with a 500."""
    message = f"{code} {text}".lower()
    if "tool" not in message or is_final(status, code, text):
        return False
    return "jinja" in message or (status < 500 and ("auto" in message or "support" in message))


def _percent(text: object) -> str:
    """Escape a text that becomes part of a %-format."""
    return str(text).replace("%", "%%")


def _is_out_of_money(code: str, text: str) -> bool:
    return code in OUT_OF_MONEY or "exceeded your current quota" in text.lower()
