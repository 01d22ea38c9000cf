"""Reading settings from the environment: unset means a default, wrong means a refusal to start."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str = "") -> str:
    """Return the variable without surrounding space, or `default` if unset or empty."""
    return os.environ.get(name, "").strip() or default


def number(name: str, default: int, *, least: int = 0, most: int = 2**31) -> int:
    """Return the variable as a whole number within `least` and `most`."""
    raw = text(name)
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {raw!r}.") from None
    if not least <= value <= most:
        raise ImproperlyConfigured(f"{name} must lie between {least} and {most}, not {value}.")
    return value


def flag(name: str, default: bool = False) -> bool:
    """Return the variable as a yes (1) or no (0)."""
    raw = text(name)
    if raw not in {"", "0", "1"}:
        raise ImproperlyConfigured(f"{name} must be 0 or 1, not {raw!r}.")
    return default if not raw else raw == "1"


def words(name: str) -> list[str]:
    """Return the variable's parts, separated by commas or spaces."""
    return text(name).replace(",", " ").split()


def one_of(name: str, choices: tuple[str, ...], default: str) -> str:
    """Return the variable, which must be one of `choices`."""
    value = text(name, default)
    if value not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return value


def url(name: str, default: str = "") -> str:
    """Return the variable as an http(s) address without a trailing slash."""
    value = text(name, default).rstrip("/")
    if value and urlsplit(value).scheme not in {"http", "https"}:
        raise ImproperlyConfigured(f"{name} must begin with http:// or https://, not {value!r}.")
    return value


def database(name: str, value: str) -> dict[str, object]:
    """Return Django's database settings for a `postgres://user:password@host:port/name` address."""
    parts = urlsplit(value)
    try:
        port = parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} holds a port that is not a number.") from None
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise ImproperlyConfigured(
            f"{name} must look like postgres://user:password@host:port/name (its scheme is "
            f"{parts.scheme!r})."
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(port or ""),
    }
