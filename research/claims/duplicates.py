"""Pages that repeat another page (wire copies, mirrors), and which pages are independent."""

from __future__ import annotations

import ipaddress
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

from beacon_site.text import values
from research.claims.terms import is_wide_text

# The number of words (or wide characters) in a compared run.
SHINGLE = 5
WIDE_SHINGLE = 8
# The smallest share of the shorter page's runs that both pages contain.
ALIKE = 0.6
# A short notice inside a long article isn't a copy of it.
SMALLEST_SHARE = 0.5
FEWEST_SHINGLES = 8
MAX_LENGTH = 60_000
_WORD = re.compile(r"\w+")


class Page(Protocol):
    """A numbered page with its text, and its date if known."""

    @property
    def number(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def published_at(self) -> date | None: ...


def near_duplicates(
    pages: Sequence[Page], marks_of: Mapping[int, set[int]] | None = None
) -> dict[int, int]:
    """Map the number of each page that repeats another to the number of that other page.

    `marks_of` has the shingles that were already computed, by page number.

    The earliest page is kept, by date and then by number. Pages without a date come last. A kept
    page is never itself a copy, so there are no chains.
    """
    kept: dict[int, set[int]] = {}
    titles: dict[int, Counter[tuple[str, str]]] = {}
    holding: defaultdict[int, list[int]] = defaultdict(list)
    copies: dict[int, int] = {}
    for page in sorted(pages, key=lambda page: (page.published_at or date.max, page.number)):
        marks = (marks_of or {}).get(page.number) or shingles(page.text)
        if len(marks) < FEWEST_SHINGLES:
            continue
        titles[page.number] = values.typed_values(getattr(page, "title", ""))
        original = _original(page.number, marks, kept, holding, titles)
        if original is not None:
            copies[page.number] = original
            continue
        kept[page.number] = marks
        for mark in marks:
            holding[mark].append(page.number)
    return copies


def _original(
    page: int,
    marks: set[int],
    kept: dict[int, set[int]],
    holding: dict[int, list[int]],
    titles: dict[int, Counter[tuple[str, str]]],
) -> int | None:
    shared: defaultdict[int, int] = defaultdict(int)
    for mark in marks:
        for number in holding.get(mark, ()):
            shared[number] += 1
    for number, count in sorted(shared.items(), key=lambda item: (-item[1], item[0])):
        small, large = sorted((len(marks), len(kept[number])))
        # "Announcing 1.97.1" isn't a copy of "Announcing 1.96.1", because release posts are
        # templates.
        if titles[page] and titles[number] and titles[page] != titles[number]:
            continue
        if count >= ALIKE * small and small >= SMALLEST_SHARE * large:
            return number
    return None


def shingles(text: str) -> set[int]:
    """Return a checksum of each run of words (or of wide characters) of a text."""
    words = _WORD.findall(text[:MAX_LENGTH].casefold())
    if is_wide_text(text[:2_000]):
        run = "".join(words)
        return {_checksum(run[n : n + WIDE_SHINGLE]) for n in range(len(run) - WIDE_SHINGLE + 1)}
    return {_checksum(" ".join(words[n : n + SHINGLE])) for n in range(len(words) - SHINGLE + 1)}


def _checksum(run: str) -> int:
    # Python's own hash of text differs between processes. This one doesn't.
    return zlib.crc32(run.encode("utf-8", "surrogatepass"))


# --- independence ---

# If this share of a page's runs is also in an earlier page, the page is derived from it.
PART = 0.2
FEWEST_SHARED = 10  # runs of five words, so about a sentence or two
# If two pages share a quote of this width, one took it from the other.
VERBATIM = 60

# Second-level domains where others register names: `bbc.co.uk`, `anu.edu.au`.
_SECOND_LEVEL = frozenset(
    ["co", "com", "org", "net", "ac", "gov", "edu", "or", "ne", "go", "gob", "gouv", "gv", "mil", "sch"]
)  # fmt: skip
# Hosts where each name below belongs to another publisher.
_SHARED_HOSTS = frozenset(
    [
        "github.io", "gitlab.io", "blogspot.com", "wordpress.com", "medium.com", "substack.com",
        "tumblr.com", "typepad.com", "wixsite.com", "netlify.app", "vercel.app", "pages.dev",
        "web.app", "herokuapp.com", "readthedocs.io", "sourceforge.io", "neocities.org",
        "livejournal.com", "blogger.com", "ghost.io", "weebly.com",
    ]
)  # fmt: skip


class PublishedPage(Protocol):
    """A numbered page with the shingles of its text, its host, and its date if known."""

    @property
    def number(self) -> int: ...
    @property
    def marks(self) -> set[int]: ...
    @property
    def domain(self) -> str: ...
    @property
    def published_at(self) -> date | None: ...


@dataclass(slots=True)
class Origins:
    """What each page is derived from, and why: `text` (the same) or `publisher` (the same owner)."""

    derived_from: dict[int, int] = field(default_factory=dict)
    why: dict[int, str] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def origin_of(self, number: int) -> int:
        """Return the original of a page, or the page itself if it is independent."""
        while number in self.derived_from:
            number = self.derived_from[number]
        return number

    def independent(self, numbers: Iterable[int], *, verbatim: Iterable[int] = ()) -> int:
        """Return how many of the pages are independent of each other.

        Those in `verbatim` have the same quote word for word, so they count as one.
        """
        one = set(verbatim)
        merged = {self.origin_of(number) for number in one}
        groups = {self.origin_of(number) for number in numbers}
        return len(groups - merged) + bool(groups & merged)


def origins(pages: Sequence[PublishedPage]) -> Origins:
    """Return which pages are derived from which. An earlier page is never derived from a later one.

    Pages are ordered by date, then by number. Pages without a date come last.
    """
    found = Origins()
    holding: defaultdict[int, list[int]] = defaultdict(list)
    of_publisher: dict[str, int] = {}
    for page in sorted(pages, key=lambda page: (page.published_at or date.max, page.number)):
        found.order.append(page.number)
        marks, owner = page.marks, publisher(page.domain)
        other = _most_shared(marks, holding)
        if other is not None:
            found.derived_from[page.number], found.why[page.number] = other, "text"
        elif owner and owner in of_publisher:
            found.derived_from[page.number] = of_publisher[owner]
            found.why[page.number] = "publisher"
        of_publisher.setdefault(owner, page.number)
        for mark in marks:
            holding[mark].append(page.number)
    return found


def _most_shared(marks: set[int], holding: dict[int, list[int]]) -> int | None:
    """Return the earlier page with the most of these runs, if it has enough."""
    shared: defaultdict[int, int] = defaultdict(int)
    for mark in marks:
        for number in holding.get(mark, ()):
            shared[number] += 1
    if not shared:
        return None
    number, count = max(shared.items(), key=lambda item: item[1])
    return number if count >= FEWEST_SHARED and count >= PART * len(marks) else None


def publisher(domain: str) -> str:
    """Return the registered domain of a host (`news.bbc.co.uk` -> `bbc.co.uk`).

    Empty if there is none: a library document, a bare host, or an IP address.
    """
    name = domain.lower().strip(".").split(":")[0]
    labels = name.split(".")
    if len(labels) < 2 or _is_numbers(domain):
        return ""
    is_below = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    is_shared = len(labels) > 2 and ".".join(labels[-2:]) in _SHARED_HOSTS
    return ".".join(labels[-3:] if is_below or is_shared else labels[-2:])


def _is_numbers(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
