"""Settings from the environment: unset variables get a default, wrong ones stop the start."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from email.utils import parseaddr
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

# These notice a server that vanished (a half-open connection) within half a minute.  Otherwise libpq
# would wait for the system's two hours.  DATABASE_URL can set each of them.
DATABASE_OPTIONS = {
    "connect_timeout": 5,  # seconds, as the next three
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}
# For processes that serve requests and tasks.  A process that is stopped, or waits for a model in an
# open transaction, must not block all others forever.  DATABASE_URL can set each of them; 0 leaves
# it to the server.
DATABASE_LIMITS = {
    "lock_timeout": 10_000,  # milliseconds, as the next
    "idle_in_transaction_session_timeout": 60_000,
}
# Other libpq parameters allowed after the ? in DATABASE_URL (PostgreSQL 17, "Parameter Key Words").
# User, password, name and port are in the URL itself.
DATABASE_WORDS = frozenset(
    {
        "application_name", "channel_binding", "gssencmode", "hostaddr", "krbsrvname",
        "load_balance_hosts", "options", "passfile", "require_auth", "requirepeer",
        "ssl_max_protocol_version", "ssl_min_protocol_version", "sslcert", "sslcertmode",
        "sslcrl", "sslcrldir", "sslkey", "sslmode", "sslnegotiation", "sslpassword",
        "sslrootcert", "sslsni", "target_session_attrs",
    }
)  # fmt: skip
DEFAULT_PORTS = {"http": 80, "https": 443}
COMPOSE_PASSWORD = "beacon"  # noqa: S105  the default in docker-compose.yml  # nosec B105
_LOOPBACK = frozenset({"", "localhost", "127.0.0.1", "::1"})
ANY_NUMBER = 2**31


# The allowed values and the default of every variable that the settings read, for docs/reference/settings.md
READ: dict[str, tuple[str, str]] = {}


def _read_variable(name: str, takes: str, default: str = "") -> str:
    """Return the variable's value, and record how it was first read."""
    READ.setdefault(name, (takes, default))
    return os.environ.get(name, "").strip()


def text(name: str, default: str = "") -> str:
    """Return the variable without surrounding space, or `default` if unset or empty."""
    return _read_variable(name, "text", default) or default


def number(name: str, default: int, *, least: int = 0, most: int = ANY_NUMBER) -> int:
    """Return the variable as a whole number within `least` and `most`."""
    bounds = f"at least {least:,}" if most == ANY_NUMBER else f"{least:,} to {most:,}"
    raw = _read_variable(name, f"number, {bounds}", str(default))
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {raw!r}.") from None
    if not least <= value <= most:
        raise ImproperlyConfigured(f"{name} must be between {least} and {most}, not {value}.")
    return value


def flag(name: str, default: bool = False) -> bool:
    """Return the variable as a yes (1) or no (0)."""
    raw = _read_variable(name, "0 or 1", str(int(default)))
    if raw not in {"", "0", "1"}:
        raise ImproperlyConfigured(f"{name} must be 0 or 1, not {raw!r}.")
    return default if not raw else raw == "1"


def word_list(name: str) -> list[str]:
    """Return the variable's parts, separated by commas or spaces."""
    return _read_variable(name, "list").replace(",", " ").split()


def listed(name: str) -> frozenset[str]:
    """Return the variable's parts, separated by commas, which can contain spaces."""
    parts = (part.strip() for part in _read_variable(name, "list").split(","))
    return frozenset(part for part in parts if part)


def networks(name: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    try:
        return tuple(ipaddress.ip_network(one) for one in word_list(name))
    except ValueError as exc:
        raise ImproperlyConfigured(
            f"{name} must be IP addresses or networks such as 10.0.0.2 or 10.0.0.0/24. {exc}."
        ) from None


def one_of(name: str, choices: tuple[str, ...], default: str) -> str:
    """Return the variable, which must be one of `choices`."""
    value = _read_variable(name, " or ".join(choices), default) or default
    if value not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return value


def named_folders(name: str) -> dict[str, str]:
    """Return the variable's folders by name: `claude=~/.claude; notes=/srv/notes`.

    They can be missing.  Raises ImproperlyConfigured for a name that isn't one.
    """
    found: dict[str, str] = {}
    for part in filter(str.strip, _read_variable(name, "folders").split(";")):
        label, _equals, place = (piece.strip() for piece in part.partition("="))
        if not place or not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", label) or label in found:
            raise ImproperlyConfigured(
                f"{name} must list folders such as claude=~/.claude; notes=/srv/notes, with a "
                f"different name of lower-case letters and digits for each, not {part.strip()!r}."
            )
        found[label] = str(Path(place).expanduser().absolute())
    return found


def folder(name: str, *, made: bool = False) -> str:
    """Return the variable as an existing folder, or one that is created when needed (`made`)."""
    value = _read_variable(name, "folder")
    if value and not Path(value).is_dir() and not (made and not Path(value).exists()):
        raise ImproperlyConfigured(f"{name} isn't a folder: {value}")
    return str(Path(value).absolute()) if value else ""


def url(name: str, default: str = "") -> str:
    """Return the variable as an http(s) URL without a trailing slash."""
    value = (_read_variable(name, "URL", default) or default).rstrip("/")
    if value and urlsplit(value).scheme not in {"http", "https"}:
        raise ImproperlyConfigured(f"{name} must begin with http:// or https://, not {value!r}.")
    return value


def origin(name: str, default: str) -> str:
    """Return the variable as `scheme://host[:port]`, in the form that browsers send."""
    value = url(name, default)
    parts = urlsplit(value)
    try:
        host, port = host_of(value), parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} has an invalid host or port.") from None
    more = parts.path or parts.query or parts.fragment or "@" in parts.netloc
    if more or not host or value.endswith(("?", "#")):
        raise ImproperlyConfigured(
            f"{name} must contain only a scheme, a host and a port, such as https://beacon.example, "
            "without a path, a query, or a name and password."
        )
    return f"{parts.scheme}://{host}" + (
        f":{port}" if port not in {None, DEFAULT_PORTS[parts.scheme]} else ""
    )


def host_of(address: str) -> str:
    """Return the host of a URL in lower case, as ALLOWED_HOSTS expects it (IPv6 in brackets)."""
    host = urlsplit(address).hostname or ""
    return f"[{host}]" if ":" in host else host


def database(
    name: str, value: str, *, limited: bool = False, statement_seconds: int = 0
) -> dict[str, Any]:
    """Return Django's settings for `postgres://user:password@host:port/name?sslmode=require`.

    Parameters after the ? go to libpq in OPTIONS and override DATABASE_OPTIONS; a `host` there is
    the folder of a Unix socket.  `limited` sets DATABASE_LIMITS and `statement_seconds`, which
    commands don't have, since a migration or a backup can take long.  Raises ImproperlyConfigured
    with the name of an unknown parameter, but without its value, which may be a secret.
    """
    parts = urlsplit(value)
    try:
        port = parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} has a port that isn't a number.") from None
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise ImproperlyConfigured(
            f"{name} must look like postgres://user:password@host:port/name (its scheme is "
            f"{parts.scheme!r})."
        )
    options = _database_options(name, parts)
    limits = {word: options.pop(word) for word in DATABASE_LIMITS}
    if limited:  # `options` in the URL come later, so they win
        limits["statement_timeout"] = statement_seconds * 1000
        given = [f"-c {word}={number}" for word, number in limits.items() if number]
        options["options"] = " ".join([*given, options.get("options", "")]).strip()
    if not options.get("options"):
        options.pop("options", None)
    host = options.pop("host", "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or "") or host,
        "PORT": str(port or ""),
        "OPTIONS": options,
    }


def check_service_passwords(urls: dict[str, str]) -> None:
    """Refuse passwords that would leave a production site open to its network.

    Raises ImproperlyConfigured for the password in docker-compose.yml, which everyone can read, and
    for a Redis on another host without a password, since anyone who can write to it can start tasks.
    """
    for name, value in urls.items():
        parts = urlsplit(value)
        host, password = parts.hostname or "", unquote(parts.password or "")
        if password == COMPOSE_PASSWORD:
            raise ImproperlyConfigured(
                f"{name} has the password {COMPOSE_PASSWORD!r} from docker-compose.yml, which is "
                "public. Set POSTGRES_PASSWORD and REDIS_PASSWORD in .env. A database that was already "
                "created keeps its password until you change it there (ALTER USER)."
            )
        if name == "REDIS_URL" and not password and host not in _LOOPBACK:
            raise ImproperlyConfigured(
                f"{name} points to a Redis server on another host without a password. Set one "
                "(requirepass) and write it as redis://:password@host:port/0."
            )


def _database_options(name: str, parts: SplitResult) -> dict[str, Any]:
    """Return DATABASE_OPTIONS and DATABASE_LIMITS, with the URL's own values and other parameters."""
    options: dict[str, Any] = DATABASE_OPTIONS | DATABASE_LIMITS
    for word, value in parse_qsl(parts.query, keep_blank_values=True):
        if word in DATABASE_OPTIONS or word in DATABASE_LIMITS:
            if not value.isdecimal():
                raise ImproperlyConfigured(f"{name}: {word} must be a whole number.")
            options[word] = int(value)
        elif word in DATABASE_WORDS or (word == "host" and not parts.hostname):
            options[word] = value
        else:
            raise ImproperlyConfigured(
                f"{name} has the parameter {word!r}, which Beacon doesn't support. Use one of: "
                f"{', '.join(sorted({*DATABASE_WORDS, *DATABASE_OPTIONS, *DATABASE_LIMITS}))}."
            )
    return options


# --- EMAIL_URL: the mail server, or a folder for emails ---

_BACKENDS = {
    "smtp": "django.core.mail.backends.smtp.EmailBackend",
    "folder": "beacon_site.net.mail.FolderBackend",
    "console": "django.core.mail.backends.console.EmailBackend",
    "none": "django.core.mail.backends.dummy.EmailBackend",
}
_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


@dataclass(frozen=True, slots=True)
class MailServer:
    """The mail server of EMAIL_URL, as Django's settings need it."""

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
        """Return the import path of the class that sends."""
        return _BACKENDS[self.kind]


def server(name: str, *, folder: Path | None) -> MailServer:
    """Return the mail server; if the variable is unset, emails go to `folder`, or nowhere if None."""
    value = text(name)
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
        raise ImproperlyConfigured(f"{name} has a port that isn't a number.") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ImproperlyConfigured(
            f"{name} must look like smtp+tls://user:password@mail.example.org:587 (STARTTLS), "
            "smtps://… (TLS), smtp://… (neither), file:///folder or console: (its scheme is "
            f"{parts.scheme!r}). Write @ : / in a password as %40 %3A %2F."
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
    """Return the sender of emails; by default an address at the host of BEACON_URL."""
    value = text(name)
    if not value:
        host = (urlsplit(url).hostname or "localhost").lower()
        is_name = "." in host and not host.replace(".", "").isdigit() and ":" not in host
        return f"Beacon <beacon@{host if is_name else 'localhost'}>"
    _words, address = parseaddr(value)
    local, _at, domain = address.rpartition("@")
    if not local or not domain or not value.isprintable():
        raise ImproperlyConfigured(
            f"{name} must be an email address, such as Beacon <beacon@example.org>."
        )
    return value
