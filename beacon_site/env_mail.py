"""EMAIL_URL: which mail server is used, or where mails are kept on this machine instead."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parseaddr
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from beacon_site import env

_BACKENDS = {
    "smtp": "django.core.mail.backends.smtp.EmailBackend",
    "folder": "beacon_site.mail_folder.FolderBackend",
    "console": "django.core.mail.backends.console.EmailBackend",
    "none": "django.core.mail.backends.dummy.EmailBackend",
}
_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailServer:
    """What EMAIL_URL says, as Django's settings take it."""

    kind: str  # smtp, folder, console or none
    host: str = ""
    port: int = 25
    user: str = ""
    password: str = ""
    starttls: bool = False
    tls: bool = False
    folder: str = ""

    @property
    def backend(self) -> str:
        """Return the class that sends."""
        return _BACKENDS[self.kind]


def server(name: str, *, folder: Path | None) -> MailServer:
    """Return what the variable names; where it is unset mails go to `folder`, or nowhere with None."""
    value = env.text(name)
    if not value:
        return MailServer("folder", folder=str(folder)) if folder else MailServer("none")
    parts = urlsplit(value)
    if parts.scheme == "console":
        return MailServer("console")
    if parts.scheme == "file" and parts.path.strip("/") and not parts.netloc:
        return MailServer("folder", folder=unquote(parts.path))
    try:
        port = parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} holds a port that is not a number.") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ImproperlyConfigured(
            f"{name} must look like smtp+tls://user:password@mail.example.org:587 (STARTTLS), "
            "smtps://… (TLS), smtp://… (neither), file:///folder or console: (its scheme is "
            f"{parts.scheme!r}). Signs such as @ : / in a password are written as %40 %3A %2F."
        )
    return MailServer(
        "smtp",
        host=parts.hostname,
        port=port or _PORTS[parts.scheme],
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        starttls=parts.scheme == "smtp+tls",
        tls=parts.scheme == "smtps",
    )


def sender(name: str, url: str) -> str:
    """Return the address that mails come from; by default one at the host of BEACON_URL."""
    value = env.text(name)
    if not value:
        host = (urlsplit(url).hostname or "localhost").lower()
        is_name = "." in host and not host.replace(".", "").isdigit() and ":" not in host
        return f"Beacon <beacon@{host if is_name else 'localhost'}>"
    _words, address = parseaddr(value)
    local, _at, domain = address.rpartition("@")
    if not local or not domain or not value.isprintable():
        raise ImproperlyConfigured(
            f"{name} must be an e-mail address, such as Beacon <beacon@example.org>."
        )
    return value
