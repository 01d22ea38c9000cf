"""The URLs and IP addresses that Beacon can open, and connections that go nowhere else.

A URL in a search result is untrusted.  Three things keep it from reaching private machines: the
rules for the URL (`check_url`), the rules for the IP address of its host (`is_forbidden`), and a
network backend that looks the host up once, refuses it if any address is bad, and connects to that
same address (`GuardedBackend`).  TLS still uses the host name, so certificates are checked as usual.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from urllib.parse import urlsplit

import httpcore
import httpx

from beacon_site.net.bounded import Meter, MeteredStream
from beacon_site.net.errors import ProviderRejected, ServiceUnreachable
from beacon_site.text.messages import gettext as _

MAX_URL_CHARACTERS = 2048
PORTS = {"http": 80, "https": 443}
MAX_ADDRESSES_TRIED = 4

# The standard library's `is_global` allows about a third of these special addresses, mostly IPv6
# addresses that contain an IPv4 one.  So both are checked.
FORBIDDEN_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and a cloud's metadata at 100.100.100.200
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's platform address
        "169.254.0.0/16",  # link-local, and most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",  # 6to4 relay
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "::/96",  # loopback, unspecified, IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "::ffff:0:0:0/96",  # IPv4-translated
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",  # local NAT64
        "100::/64",
        "100:0:0:1::/64",
        "2001::/23",  # Teredo, ORCHID and other protocols' own
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")

HOST = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})+\.?")
NUMBER = re.compile(r"(?:\d+|0x[0-9a-f]*)")

Resolver = Callable[[str, int], list[str]]
"""Returns a host's IP addresses as text, in the order to try them; raises OSError."""


class ForbiddenAddress(ProviderRejected):
    """Beacon doesn't open this URL, or the IP address of its host."""


def check_url(url: str, allow_hosts: frozenset[str] = frozenset()) -> httpx.URL:
    """Return the parsed URL if its text follows the rules; the host isn't looked up here.

    Hosts in `allow_hosts` ("host:port") can be numeric, have no dot and use any port; malformed
    URLs are still refused.  Raises ForbiddenAddress with a readable reason.
    """
    url = url.strip(" ")
    if len(url) > MAX_URL_CHARACTERS:
        raise ForbiddenAddress(
            _("The URL has %(length)d characters, but the limit is %(limit)d.")
            % {"length": len(url), "limit": MAX_URL_CHARACTERS}
        )
    if "\\" in url or any(unicodedata.category(char) in _UNSEEN for char in url):
        raise ForbiddenAddress(
            _("The URL contains a backslash or a control character, so Beacon won’t open it.")
        )
    try:
        parsed = httpx.URL(url)
        _shown = parsed.host  # decoded only here, and “xn--” can be followed by an invalid name
        port = PORTS.get(parsed.scheme, 0) if parsed.port is None else parsed.port
    except (httpx.InvalidURL, ValueError) as exc:
        raise ForbiddenAddress(_("This isn’t a valid URL.")) from exc
    if parsed.scheme not in PORTS:
        raise ForbiddenAddress(
            _("Beacon opens only http and https URLs. This one starts with “%(scheme)s”.")
            % {"scheme": parsed.scheme or url[:20]}
        )
    if parsed.userinfo:
        raise ForbiddenAddress(
            _("The URL contains a username or password, so Beacon won’t open it.")
        )
    host = parsed.raw_host.decode("ascii")
    if not is_allowed(host, port, allow_hosts):
        _check_host(host)
        _check_port(port)
    return parsed


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def _check_host(host: str) -> None:
    if not host:
        raise ForbiddenAddress(_("The URL has no host name."))
    if ":" in host or NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]):
        raise ForbiddenAddress(
            _("The host “%(host)s” is a number, not a name, so Beacon won’t open it.")
            % {"host": host}
        )
    if "." not in host.rstrip("."):
        raise ForbiddenAddress(
            _(
                "The host “%(host)s” has no dot, so it’s on the local network and Beacon won’t open it."
            )
            % {"host": host}
        )
    if not HOST.fullmatch(host):
        raise ForbiddenAddress(_("“%(host)s” isn’t a valid host name.") % {"host": host[:80]})


def _check_port(port: int) -> None:
    if port not in PORTS.values():
        raise ForbiddenAddress(
            _("Beacon connects only to ports 80 and 443. This URL uses port %(port)d.")
            % {"port": port}
        )


def is_allowed(host: str, port: int, allow_hosts: frozenset[str]) -> bool:
    """Return whether the admin exempted this host and port (BEACON_FETCH_ALLOW_HOSTS)."""
    names = {f"{host.lower()}:{port}", f"[{host.lower()}]:{port}"}
    return not names.isdisjoint(allow_hosts)


@lru_cache(maxsize=4096)
def is_forbidden(address: str) -> bool:
    """Return whether an IP address, as text, is anything but a public unicast address."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if "%" in address or not ip.is_global or ip.is_multicast:
        return True
    if isinstance(ip, ipaddress.IPv6Address) and ip not in GLOBAL_UNICAST:
        return True
    return any(ip in network for network in FORBIDDEN_NETWORKS if network.version == ip.version)


def resolve(host: str, port: int) -> list[str]:
    """Ask the system for a host's IP addresses, without duplicates; raises OSError."""
    answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in answers))


class GuardedBackend(httpcore.NetworkBackend):
    """Connects only to the public addresses of a host; one object per request chain."""

    def __init__(
        self,
        meter: Meter,
        *,
        allow_hosts: frozenset[str] = frozenset(),
        resolver: Resolver = resolve,
        connect_seconds: float = 5.0,
    ) -> None:
        """`connect_seconds` limits the lookup and also the connection itself."""
        self._meter = meter
        self._allow_hosts = allow_hosts
        self._resolver = resolver
        self._connect_seconds = connect_seconds
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Look `host` up once, check every address, and connect to the first that answers.

        Raises ForbiddenAddress if any address is bad, because a name with a public and a private
        address is a trick.  Raises ServiceUnreachable if none answers.
        """
        self._meter.next_answer()
        addresses = self._look_up(host, port)
        if not is_allowed(host, port, self._allow_hosts):
            for address in addresses:
                if is_forbidden(address):
                    raise ForbiddenAddress(
                        _("“%(host)s” points to %(address)s, which isn’t a public address.")
                        % {"host": host, "address": address}
                    )
        return MeteredStream(self._connect(host, addresses, port, socket_options), self._meter)

    def _look_up(self, host: str, port: int) -> list[str]:
        """Ask the resolver, but wait no longer than a connection can take.

        `getaddrinfo` can't be interrupted, so it runs in its own thread.  After the time limit the
        thread ends by itself, and it doesn't delay the exit.
        """
        answer: list[list[str] | OSError | UnicodeError] = []

        def ask() -> None:
            try:
                answer.append(self._resolver(host, port))
            except (OSError, UnicodeError) as exc:
                answer.append(exc)

        asking = threading.Thread(target=ask, name="beacon-resolve", daemon=True)
        asking.start()
        asking.join(min(self._connect_seconds, self._meter.remaining()))
        if not answer:
            raise ServiceUnreachable(
                _("Looking up “%(host)s” took longer than %(seconds)g seconds.")
                % {"host": host, "seconds": self._connect_seconds}
            )
        outcome = answer[0]
        if isinstance(outcome, list) and outcome:
            return outcome
        if isinstance(outcome, socket.gaierror) and outcome.errno == socket.EAI_AGAIN:
            raise ServiceUnreachable(
                _("“%(host)s” can’t be looked up right now. Check the network connection.")
                % {"host": host}
            ) from outcome
        raise ProviderRejected(_("There is no host named “%(host)s”.") % {"host": host}) from (
            outcome if isinstance(outcome, Exception) else None
        )

    def _connect(
        self,
        host: str,
        addresses: list[str],
        port: int,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.NetworkStream:
        addresses = addresses[:MAX_ADDRESSES_TRIED]
        deadline = time.monotonic() + min(self._connect_seconds, self._meter.remaining())
        failure: Exception | None = None
        for position, address in enumerate(addresses):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                # If IPv6 or IPv4 isn't routed, the other must have time left.
                return self._plain.connect_tcp(
                    address,
                    port,
                    timeout=left / (len(addresses) - position),
                    socket_options=socket_options,
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failure = exc
        if isinstance(failure, httpcore.ConnectError):
            reason = _("“%(host)s” can’t be reached on port %(port)d: %(why)s.") % {
                "host": host,
                "port": port,
                "why": _why(failure),
            }
        else:
            reason = _("“%(host)s” didn’t accept a connection within %(seconds)g seconds.") % {
                "host": host,
                "seconds": self._connect_seconds,
            }
        raise ServiceUnreachable(reason) from failure


def _why(failure: Exception) -> str:
    """The system's message for a failed connection, without its number."""
    cause = failure.__cause__ or failure.__context__
    return str(getattr(cause, "strerror", None) or failure or _("no connection"))


# --- base URLs of services ---


def problem_of(url: str) -> str:
    """Return, as a sentence, why `url` can't be a service's base URL; "" if it can.

    The URL isn't repeated, since it can contain a secret.
    """
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:  # such as an unclosed bracket, or a port that isn't a number
        return _("The host or port in this URL isn’t valid.")
    if parts.scheme not in {"http", "https"} or "://" not in url:
        return _("Enter a URL that starts with http:// or https://, such as http://127.0.0.1:8888.")
    if not host:
        return _("This URL has no host name.")
    if any(sign.isspace() or not sign.isprintable() for sign in url):
        return _("This URL contains a space or an invisible character.")
    if "@" in parts.netloc:
        return _("Remove the username and password from the URL. The key has its own field.")
    if not _can_be_looked_up(url):
        return _("The host in this URL isn’t a valid host name.")
    return ""


def surplus_in(url: str) -> str:
    """Return what must be removed from a URL that Beacon adds its own parts to, or ""."""
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        return _(
            "Remove the ? or # and everything after it. Beacon adds the parameters for each request."
        )
    return ""


def _can_be_looked_up(url: str) -> bool:
    """Return whether both the HTTP client and the system's resolver accept the host (IDNA)."""
    try:
        httpx.URL(url).raw_host.decode("ascii").encode("idna")
    except (httpx.InvalidURL, ValueError):  # UnicodeError is a ValueError
        return False
    return True
