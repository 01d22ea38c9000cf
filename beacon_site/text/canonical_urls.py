"""Canonical URLs, which are the same for the same page (R17)."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import idna

# Parameters that track where a reader came from, and don't affect the page.
_TRACKING = re.compile(
    r"^(utm_.*|gclid|dclid|fbclid|msclkid|yclid|igshid|mc_cid|mc_eid|_ga|_gl|ref_src|cmpid)$",
    re.IGNORECASE,
)
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def canonical_url(url: str) -> str:
    """Return the form of a URL for comparisons, which is the same for the same page.

    Scheme and host are in lower case; default port, fragment, tracking parameters and trailing
    slash are removed; the other parameters are sorted and percent-escapes normalized.  Other texts
    than http(s) URLs (such as `library:`) are only stripped.
    """
    url = url.strip()
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.hostname:
        return url.split("#", 1)[0].strip()
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
    """Return an international host name in its ASCII form (`xn--…`), if it has one.

    It uses today's rules, like the HTTP client and the stored domains.  Python's own rules of 2003
    would turn `straße.example` into `strasse.example`.
    """
    if host.isascii():
        return host
    try:
        return idna.encode(host, uts46=True).decode("ascii").rstrip(".")
    except UnicodeError:  # such as an emoji, which only the old rules support
        pass
    try:
        return host.encode("idna").decode("ascii").rstrip(".")
    except UnicodeError:
        return host


def _normal_escapes(path: str) -> str:
    """Escape characters as needed, and normalize existing escapes (RFC 3986, 6.2.2)."""
    quoted = quote(path, safe="/%:@!$&'()*+,;=~-._")

    def normal(match: re.Match[str]) -> str:
        char = chr(int(match[1], 16))
        return char if char in _UNRESERVED else match[0].upper()

    return _ESCAPE.sub(normal, quoted)


def host_of(url: str) -> str:
    """Return the host of an untrusted URL, "" if it has none or can't be parsed."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # such as a bracket that is never closed
        return ""


def domain_of(url: str) -> str:
    """Return the host of a URL without `www.`, or the part before the colon (`library`).

    Empty if it can't be parsed.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # not a URL, such as "http://[half"
        return ""
    host = (parts.hostname or "").rstrip(".").removeprefix("www.")
    return host or parts.scheme


def is_in_domain(url: str, domain: str) -> bool:
    """Whether `url` is in `domain` or a subdomain (`blog.example.org` is in `example.org`)."""
    host = _ascii_host(domain_of(url))
    domain = domain.lower().removeprefix("www.")
    return host == domain or host.endswith("." + domain)


def canonical_or_same(url: str) -> str:
    """Return the canonical URL, or the text itself if it isn't a URL."""
    try:
        return canonical_url(url)
    except ValueError:
        return url
