"""One HTTP exchange with an address that is not trusted: through the guard, errors as sentences.

Pages are fetched by it (fetch.py) and webhooks posted (webhooks.py).
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import certifi
import httpcore
import httpx
from django.utils.translation import gettext as _

from beacon_site.net.address_guard import GuardedBackend, Resolver, resolve
from beacon_site.net.bounded import ACCEPT_ENCODING, Meter
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.http import plain, tls_failure, user_agent


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
    """Send one request on a connection of its own; its errors come out as sentences."""
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
            _("“%(host)s” broke off or sent no proper HTTP: %(why)s.")
            % {"host": host, "why": plain(exc)}
        ) from exc
    except (httpcore.LocalProtocolError, UnicodeError) as exc:
        raise ProviderRejected(
            _("A request to “%(host)s” cannot be made: %(why)s.")
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
    """Trust what the system trusts, and certifi's list where the system has none of its own."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


def _sent(
    headers: Mapping[str, str], target: httpx.URL, content: bytes | None
) -> list[tuple[bytes, bytes]]:
    """The request's headers: the caller's, and ours, which win.  No cookie is ever among them."""
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
    """The answer's headers by lower-case name; repeated ones are joined by commas."""
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
