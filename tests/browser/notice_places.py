"""The checked states of channels, deliveries, digests: name and path."""

from __future__ import annotations


def found(cast: dict[str, str]) -> list[tuple[str, str]]:
    """Return the pages of a person who has something."""
    return [
        ("channels", "/settings/channels/"),
        ("channel", cast["channel"]),
        ("webhook", cast["webhook"]),
        ("channel new", "/settings/channels/new/webhook/"),
        ("channel new browser", "/settings/channels/new/browser/"),
        ("delivery", cast["delivery"]),
        ("topic notices", cast["notices"]),
        ("digests", "/digest/"),
        ("digest", cast["digest"]),
    ]


def empty() -> list[tuple[str, str]]:
    """Return the pages of a person who has nothing."""
    return [("channels empty", "/settings/channels/"), ("digests empty", "/digest/")]
