"""When two URLs are one page (R17)."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import idna

# Parameters that say where a reader came from, never which page is meant.
_TRACKING = re.compile(
    r"^(utm_.*|gclid|dclid|fbclid|msclkid|yclid|igshid|mc_cid|mc_eid|_ga|_gl|ref_src|cmpid)$",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def canonical_url(url: str) -> str:
    """Return the form in which a URL is compared: the same page has one.

    Scheme and host lower-case, default port, fragment, tracking parameters and trailing slash
    gone, the remaining parameters in order, percent-escapes normalised.  What is no http(s) URL
    comes back stripped but otherwise as it is (`library:` addresses).
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.hostname:
        return url.split("#", 1)[0]
    host = _ascii_host(parts.hostname.rstrip("."))
    if ":" in host:
        host = f"[{host}]"
    if port and str(port) != _DEFAULT_PORTS[scheme]:
        host = f"{host}:{port}"
    path = _normal_escapes(parts.path).rstrip("/")
    kept = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if not _TRACKING.match(name)
    ]
    return urlunsplit((scheme, host, path, urlencode(sorted(kept)), ""))


def _ascii_host(host: str) -> str:
    """Return an international host name as it goes over the wire (`xn--…`), if it can be written so.

    By the rules of today, as the client that opens it does and as people's domains are kept: those
    of 2003, which Python itself knows, take `straße.example` for `strasse.example`.
    """
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True).decode("ascii").rstrip(".")
    except UnicodeError:  # an emoji, say: the old rules know it
        pass
    try:
        return host.encode("idna").decode("ascii").rstrip(".")
    except UnicodeError:
        return host


def _normal_escapes(path: str) -> str:
    """Escape what must be, and write the escapes that are there in one way (RFC 3986, 6.2.2)."""
    quoted = quote(path, safe="/%:@!$&'()*+,;=~-._")

    def normal(match: re.Match[str]) -> str:
        char = chr(int(match[1], 16))
        return char if char in _UNRESERVED else match[0].upper()

    return _ESCAPE.sub(normal, quoted)


def domain_of(url: str) -> str:
    """Return the host of a URL without `www.`, or what stands before the colon (`library`).

    Empty for what cannot be taken apart.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # no address at all, such as "http://[half"
        return ""
    host = (parts.hostname or "").rstrip(".").removeprefix("www.")
    return host or parts.scheme


def is_in_domain(url: str, domain: str) -> bool:
    """Whether `url` lies at `domain` or below it (`blog.example.org` is in `example.org`)."""
    host = _ascii_host(domain_of(url))
    domain = domain.lower().removeprefix("www.")
    return host == domain or host.endswith("." + domain)
