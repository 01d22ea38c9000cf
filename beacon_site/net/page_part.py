"""A part of a web page: what a CSS selector finds, or the section below a heading.

Text such as `css: main .prices` or `heading: Pricing` -> `part_from` -> `PagePart` ->
`extract_html.text_of_part`, in the child process.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from django.utils.translation import gettext as _
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

LONGEST_PART = 300  # characters of a selector or a heading
_PART = re.compile(r"(css|heading)\s*:\s*(.*)", re.IGNORECASE | re.DOTALL)


class InvalidPart(ValueError):
    """The text doesn't describe a part of a page; the message is a sentence for people."""


@dataclass(frozen=True, slots=True)
class PagePart:
    """A part of a page; as text, it is what `part_from` reads."""

    kind: Literal["css", "heading"]
    wanted: str  # a CSS selector, or the text of a heading

    def __str__(self) -> str:
        return f"{self.kind}: {self.wanted}"


def part_from(text: str) -> PagePart:
    """Return the part that a text describes. Raises InvalidPart."""
    found = _PART.fullmatch(text.strip())
    if found is None:
        raise InvalidPart(
            _(
                "“%(text)s” isn’t valid here. Enter a CSS selector such as “css: main .prices”, or a heading such as “heading: Pricing”."
            )
            % {"text": text.strip()[:80]}
        )
    wanted = " ".join(found[2].split())
    if len(wanted) > LONGEST_PART:
        raise InvalidPart(
            _("Use at most %(most)d characters for the part of a page (currently %(count)d).")
            % {"most": LONGEST_PART, "count": len(wanted)}
        )
    if found[1].lower() == "css":
        _check_selector(wanted)
        return PagePart("css", wanted)
    if not any(map(str.isalnum, wanted)):
        raise InvalidPart(_("Enter the heading’s text after “heading:”."))
    return PagePart("heading", wanted)


def _check_selector(selector: str) -> None:
    if not selector:
        raise InvalidPart(_("Enter a CSS selector after “css:”, such as “main .prices”."))
    try:
        LexborHTMLParser("<p>").css(selector)
    except (SelectolaxError, ValueError) as exc:
        raise InvalidPart(
            _(
                "“%(selector)s” isn’t a valid CSS selector. Use names, classes and ids, such as “main .prices” or “#plans > table”."
            )
            % {"selector": selector[:80]}
        ) from exc
