"""Whether requests can be sent to an address that an operator typed: one rule for all services."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
from django.utils.translation import gettext as _


def problem_of(url: str) -> str:
    """Return, as a sentence, why `url` cannot be a service's base URL; "" if it can.

    Nothing of the address is repeated: it may hold a secret.
    """
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:  # such as a bracket that is never closed, or a port that is no number
        return _("The host or the port of this address cannot be read.")
    if parts.scheme not in {"http", "https"} or "://" not in url:
        return _("An address begins with http:// or https://, such as http://127.0.0.1:8888.")
    if not host:
        return _("This address names no host.")
    if any(sign.isspace() or not sign.isprintable() for sign in url):
        return _("This address has a space in it, or a sign that cannot be seen.")
    if "@" in parts.netloc:
        return _("Leave name and password out of the address: the key has a field of its own.")
    if not _can_be_looked_up(url):
        return _("The host of this address is no name that a host can have.")
    return ""


def surplus_in(url: str) -> str:
    """Return what is too much about an address that Beacon adds its own parts to, or ""."""
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        return _("Leave out what follows ? or #: Beacon adds what each request needs.")
    return ""


def _can_be_looked_up(url: str) -> bool:
    """Tell whether the HTTP client and the system's resolver both take the host, as IDNA goes."""
    try:
        httpx.URL(url).raw_host.decode("ascii").encode("idna")
    except (httpx.InvalidURL, ValueError):  # UnicodeError is a ValueError
        return False
    return True
