"""Links to the pages of sources."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext as _

from beacon_site.search_services import sample
from memory.models.library import ADDRESS


@dataclass(frozen=True, slots=True)
class Link:
    """The target of a link. If `url` is empty, the address is shown as text and `note` says why."""

    url: str = ""
    note: str = ""
    is_ours: bool = False


def link_of(address: str) -> Link:
    """Return the link for a source address. Only http(s) addresses become links (R61).

    A library address links to the document's page in Beacon. A bundled article has no page.
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
    """Whether the address is http(s) with a host, and contains no credentials or hidden characters."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    is_plain = address.isprintable() and not any(char.isspace() for char in address)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_plain
