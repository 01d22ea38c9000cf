"""Which pages say something on their own, and which only carry what another one wrote.

Data flow: the pages that a run read -> each held against those published before it, by runs of
words that both hold and by who publishes them -> what each is derived from, and so how many of the
sources of a sentence are independent.

Measured on `tests/research/data/independence.json`; see docs/dev/decisions.md.
"""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

# From this share of a page's runs of words that an earlier page holds too, it is derived from it.
PART = 0.2
FEWEST_SHARED = 10  # runs of five words: a sentence or two
# A quote of this width that stands word for word on two pages was written once.
VERBATIM = 60

# Second levels under which others register: `bbc.co.uk`, `anu.edu.au`.
_SECOND_LEVEL = frozenset(
    ["co", "com", "org", "net", "ac", "gov", "edu", "or", "ne", "go", "gob", "gouv", "gv", "mil", "sch"]
)  # fmt: skip
# Where each name below is another publisher.
_SHARED_HOSTS = frozenset(
    [
        "github.io", "gitlab.io", "blogspot.com", "wordpress.com", "medium.com", "substack.com",
        "tumblr.com", "typepad.com", "wixsite.com", "netlify.app", "vercel.app", "pages.dev",
        "web.app", "herokuapp.com", "readthedocs.io", "sourceforge.io", "neocities.org",
        "livejournal.com", "blogger.com", "ghost.io", "weebly.com",
    ]
)  # fmt: skip


class Page(Protocol):
    """What is compared: a numbered page with the shingles of its text, its host, and its date if that is known."""

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
    """What each page is derived from, and why; `text` is `same text`, `publisher` the same owner."""

    derived_from: dict[int, int] = field(default_factory=dict)
    why: dict[int, str] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def origin_of(self, number: int) -> int:
        """Return the page from which all of a page's kin come: itself if it is independent."""
        while number in self.derived_from:
            number = self.derived_from[number]
        return number

    def independent(self, numbers: Iterable[int], *, verbatim: Iterable[int] = ()) -> int:
        """Return how many of the pages are independent of each other.

        Those in `verbatim` hold the same quote word for word, and so count as one.
        """
        one = set(verbatim)
        merged = {self.origin_of(number) for number in one}
        groups = {self.origin_of(number) for number in numbers}
        return len(groups - merged) + bool(groups & merged)


def origins(pages: Sequence[Page]) -> Origins:
    """Return which of the pages are derived from which; an earlier one is never derived.

    The earlier is known by date, then by number; pages without a date come last.
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
    """Return the earlier page that holds most of these runs of words, if it holds enough."""
    shared: defaultdict[int, int] = defaultdict(int)
    for mark in marks:
        for number in holding.get(mark, ()):
            shared[number] += 1
    if not shared:
        return None
    number, count = max(shared.items(), key=lambda item: item[1])
    return number if count >= FEWEST_SHARED and count >= PART * len(marks) else None


def publisher(domain: str) -> str:
    """Return the name under which a host is registered (`news.bbc.co.uk` -> `bbc.co.uk`).

    Empty where there is none: a document of the library, a bare host, an address of numbers.
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
