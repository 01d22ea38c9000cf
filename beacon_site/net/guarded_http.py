"""One HTTP request to an untrusted URL, through the address guard, with readable errors.

fetch.py fetches pages with it, and webhooks.py posts webhooks.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import certifi
import httpcore
import httpx

from beacon_site.net.address_guard import GuardedBackend, Resolver, resolve
from beacon_site.net.bounded import ACCEPT_ENCODING, Meter
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.http import plain, tls_failure, user_agent
from beacon_site.text.messages import gettext as _


@contextmanager
def exchange(
    method: str,
    target: httpx.URL,
    headers: Mapping[str, str],
    meter: Meter,
    allowed: frozenset[str],
    *,
    content: bytes | None = None,
    resolver: Resolver = resolve,
    tls: ssl.SSLContext | None = None,
) -> Iterator[httpcore.Response]:
    """Send one request on its own connection; errors have readable messages."""
    backend = GuardedBackend(
        meter,
        allow_hosts=allowed,
        resolver=resolver,
        connect_seconds=meter.limits.connect_seconds,
    )
    host, raw = target.host, (target.raw_scheme, target.raw_host)
    url = httpcore.URL(scheme=raw[0], host=raw[1], port=target.port, target=target.raw_path)
    try:
        with (
            httpcore.ConnectionPool(
                ssl_context=tls or trusted_tls(), network_backend=backend
            ) as pool,
            pool.stream(
                method, url, headers=_sent(headers, target, content), content=content
            ) as response,
        ):
            yield response
    except httpcore.RemoteProtocolError as exc:
        raise ProviderUnavailable(
            _("“%(host)s” closed the connection or didn’t send valid HTTP: %(why)s.")
            % {"host": host, "why": plain(exc)}
        ) from exc
    except (httpcore.LocalProtocolError, UnicodeError) as exc:
        raise ProviderRejected(
            _("The request to “%(host)s” can’t be sent: %(why)s.")
            % {"host": host, "why": plain(exc)}
        ) from exc
    except httpcore.ConnectError as exc:
        raise tls_failure(host, exc) from exc
    except (httpcore.NetworkError, httpcore.TimeoutException) as exc:
        raise ProviderUnavailable(
            _("The connection to “%(host)s” was lost: %(why)s.") % {"host": host, "why": plain(exc)}
        ) from exc


@cache
def trusted_tls() -> ssl.SSLContext:
    """Trust the system's certificates, or certifi's list if the system has none."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _sent(
    headers: Mapping[str, str], target: httpx.URL, content: bytes | None
) -> list[tuple[bytes, bytes]]:
    """The request's headers: the caller's and ours, which win.  Cookies are never sent."""
    ours = {
        "host": target.netloc.decode("ascii"),
        "user-agent": user_agent(),
        "accept-encoding": ACCEPT_ENCODING,
        "connection": "close",
    }
    if content is not None:
        ours["content-length"] = str(len(content))
    never = {*ours, "cookie", "content-length", "transfer-encoding", "proxy-authorization"}
    theirs = {k: v for k, v in headers.items() if k.lower() not in never}
    return [(k.encode("ascii"), v.encode("utf-8")) for k, v in {**ours, **theirs}.items()]


def fields_of(response: httpcore.Response) -> dict[str, str]:
    """The response's headers by lower-case name; repeated ones are joined by commas."""
    fields: dict[str, str] = {}
    for raw_name, raw_value in response.headers:
        name, value = raw_name.decode("latin-1").lower(), _text(raw_value)
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")
