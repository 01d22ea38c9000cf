"""Domains as people write them into a topic's lists, and as they are kept."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import idna
from django.utils.translation import gettext as _

from memory.errors import InvalidValue

_LABEL = re.compile(r"^(?!-)[a-z0-9_-]{1,63}(?<!-)$")


class NotADomain(InvalidValue):
    """A line is no domain; `suggestion` is the one it seems to mean, if any."""

    def __init__(self, message: str, *, suggestion: str = "") -> None:
        super().__init__(message)
        self.suggestion = suggestion


def domain_from(text: str) -> str:
    """Return the domain as it is kept: lower case, IDNA, without `www.` and wildcard.

    `example.org` stands for itself and all below it; `*.gov` for a whole top level.  Raises
    NotADomain, which for a URL (or a host with a port) suggests its domain.
    """
    text = text.strip()
    host = _ascii(text)
    if host:
        return host
    inside = _host_of(text)
    if inside:
        raise NotADomain(
            _("“%(text)s” is an address, here only the domain belongs: “%(domain)s”.")
            % {"text": text, "domain": shown(inside)},
            suggestion=inside,
        )
    raise NotADomain(
        _("“%(text)s” is no domain. Write it like “example.org”; what lies below is included.")
        % {"text": text}
    )


def _ascii(text: str) -> str:
    """Return `text` as a kept domain, or nothing if it is none."""
    whole_top_level = text.startswith(("*.", "."))
    name = text.lower().removeprefix("*").strip(".").removeprefix("www.")
    try:
        encoded = idna.encode(name, uts46=True).decode() if not name.isascii() else name
    except idna.IDNAError:
        return ""
    labels = encoded.split(".")
    enough = len(labels) > 1 or whole_top_level
    return encoded if enough and len(encoded) < 254 and all(map(_LABEL.match, labels)) else ""


def _host_of(text: str) -> str:
    """Return the domain inside a URL, or nothing."""
    try:
        parts = urlsplit(text if "://" in text or text.startswith("//") else f"//{text}")
        host = parts.hostname or ""
    except ValueError:
        return ""
    return _ascii(host)


def shown(domain: str) -> str:
    """Return a kept domain as a person reads it (`xn--bcher-kva.example` as `bücher.example`)."""
    try:
        return idna.decode(domain) if "xn--" in domain else domain
    except idna.IDNAError:
        return domain
