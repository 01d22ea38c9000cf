"""The link target of a source's address on a page, if any."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from beacon_site.search_services import sample
from memory.models.library import ADDRESS


@dataclass(frozen=True, slots=True)
class Link:
    """The target of an address. `url` is empty if it is shown as text, and `note` says why."""

    url: str = ""
    note: str = ""
    is_ours: bool = False


def link_of(address: str) -> Link:
    """Return the target of a source's address. Only http(s) addresses become links (R61).

    A library address links to the document's page here. A bundled article has no page.
    """
    if sample.is_sample_url(address):
        return Link(note=_("bundled with Beacon"))
    found = ADDRESS.fullmatch(address)
    if found:
        try:
            return Link(url=reverse("memory:library-document", args=[found[1]]), is_ours=True)
        except NoReverseMatch:
            return Link(note=_("a document in your library"))
    return Link(url=address) if is_web(address) else Link()


def is_web(address: str) -> bool:
    """Whether the address is http(s) with a host, without anything hidden in it."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    is_plain = address.isprintable() and not any(char.isspace() for char in address)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_plain
