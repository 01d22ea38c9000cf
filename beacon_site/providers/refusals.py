"""What a server's refusal means, in a sentence and as one of the two kinds of failure."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http import HTTPStatus

import httpx
from django.utils.translation import gettext as _

from beacon_site.providers.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.providers.http import retry_after

# Worth another try later: the server says so itself, or it is in trouble.
PASSING = frozenset({408, 421, 425, 429, *range(500, 600)})


def refusal(status: int, fields: Mapping[str, str], url: str) -> ProviderError:
    """The failure that a status stands for, in words."""
    host = httpx.URL(url).host
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = _("unknown status")
    words = {
        401: _("it asks for a sign-in"),
        402: _("it asks for money"),
        403: _("it does not let Beacon in"),
        404: _("there is no such page"),
        410: _("the page was taken down"),
        429: _("it was asked too often"),
        451: _("it may not show the page for legal reasons"),
    }
    message = _("“%(host)s” answered %(status)d: %(why)s.") % {
        "host": host,
        "status": status,
        "why": words.get(status, phrase),
    }
    if status in PASSING or status == HTTPStatus.NOT_MODIFIED:
        return ProviderUnavailable(message, retry_after=retry_after(fields))
    return ProviderRejected(message)


def tls_failure(host: str, exc: Exception) -> ProviderError:
    """Tell a certificate that is not to be trusted from a handshake that broke off."""
    cause = exc.__cause__ or exc.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return ProviderRejected(
            _("The certificate of “%(host)s” is not valid: %(why)s.")
            % {"host": host, "why": cause.verify_message.rstrip(".")}
        )
    if isinstance(cause, ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
        return ProviderRejected(
            _("“%(host)s” does not speak proper TLS: %(why)s.")
            % {"host": host, "why": cause.reason or plain(exc)}
        )
    return ProviderUnavailable(
        _("The connection to “%(host)s” was lost: %(why)s.") % {"host": host, "why": plain(exc)}
    )


def plain(exc: Exception) -> str:
    """The words of an exception, fit to stand in a sentence."""
    return str(exc).rstrip(".") or type(exc).__name__
