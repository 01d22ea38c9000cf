"""The text of an HTML element as blocks in light Markdown: headings, lists, table rows, code.

Menus, forms and hidden parts are left out. The cost is linear in the size of the element. Runs only
in the child process (`extract_child.py`), on trees that `count_tags` has checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from beacon_site.net.reflow import join_lines
from beacon_site.text.tables import column_names

SKIPPED = frozenset(
    "script style noscript template svg iframe nav button select dialog object audio video canvas map input textarea "
    "annotation annotation-xml".split()
)  # fmt: skip
OFTEN_SKIPPED = frozenset("footer aside form".split())  # unless the page is in it, or it is a note
SKIPPED_ROLES = frozenset("navigation banner contentinfo search dialog menu toolbar".split())
# Classes and ids of what is beside the text of a page.
SKIPPED_NAMES = frozenset(
    "breadcrumb breadcrumbs share sharing social-share related related-posts comments sidebar newsletter toc "
    "table-of-contents pagination pager skip-link cookie-banner headerlink anchor-link edit-page".split()
)  # fmt: skip
UNSEEN_NAMES = frozenset(
    "hidden d-none is-hidden invisible sr-only visually-hidden screen-reader-text screenreader-only".split()
)
# Marked as hidden from screen readers, which have the same in other words, but visible.
SEEN_TAGS = frozenset("span b strong em sup sub small time".split())
CROSSED_OUT = frozenset(("del", "s", "strike"))  # the page no longer says it
BLOCKS = frozenset(
    "address article blockquote center dd details div dl dt fieldset figcaption figure header hr li main ol p pre section "
    "summary table tbody td tfoot th thead tr ul caption h1 h2 h3 h4 h5 h6".split()
)  # fmt: skip
HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HIDDEN = re.compile(
    r"display:none|visibility:(?:hidden|collapse)|opacity:0(?:\.0*)?(?:;|$|!)|font-size:0(?:[a-z]*)(?:;|$|!)"
    r"|(?:left|top|text-indent):-\d{4,}"
)
_STYLE_SPACE = re.compile(r"/\*.*?\*/|\s", re.DOTALL)
_ON_WIDE_SCREENS = re.compile(r"(?:sm|md|lg|xl|2xl):|d-(?:sm|md|lg|xl)-")
_NOTE = re.compile(r"note|warning|caution|tip|important|danger|callout|admonition|alert|hint")
_LINK_TO_ITSELF = re.compile(r"\s*(?:[¶#§🔗]|link|permalink|edit)?\s*$", re.IGNORECASE)
_PERMALINK = re.compile(r"\s*(?:¶|🔗|\s[#§]|\[edit\]|\[link\])\s*$")
_FENCES = re.compile(r"`+")
_FOOTNOTE = re.compile(r"\s*\[?\w{1,3}\]?\s*$")
MAX_LINKED = 0.8  # share of an item's characters that are links, from which it is only a link
FEW_ITEMS = 4
MAX_ALT_LENGTH = 20  # characters of what a badge says; longer texts describe a picture
MAX_ITEM_LENGTH = 2_000  # characters of a list item that is one line


@dataclass
class Block:
    """A paragraph, heading, list or table. `is_links` is whether it is a list that only has links."""

    text: str
    is_links: bool = False


def remove_unseen(body: Any, shown: Sequence[str]) -> None:
    """Remove menus, forms, hidden and crossed-out parts, and what is beside the text. `shown` are tags that stay."""
    holding = _holding(body)
    waiting = [body]
    while waiting:
        element = waiting.pop()
        for child in list(element):
            if not isinstance(child.tag, str) or (
                child.tag not in shown and _is_unseen(child, holding)
            ):
                _drop(child)
            else:
                waiting.append(child)


def _holding(body: Any) -> set[Any]:
    """Return the elements with the page's title or main part in them, or with tables in a form."""
    found: set[Any] = set()
    for one in body.iter("h1", "main", "table"):
        element = one.getparent()
        while element is not None and element not in found:
            if one.tag != "table" or element.tag == "form":
                found.add(element)
            element = element.getparent()
    return found


def _drop(element: Any) -> None:
    """Remove an element, but not the text after it."""
    parent, before = element.getparent(), element.getprevious()
    tail = element.tail or ""
    if before is not None:
        before.tail = (before.tail or "") + tail
    else:
        parent.text = (parent.text or "") + tail
    parent.remove(element)


def _is_unseen(element: Any, holding: set[Any]) -> bool:
    above = element.getparent().tag
    if element.tag in SKIPPED:
        return not (element.tag == "button" and (above in HEADINGS or above == "summary"))
    if element.tag in CROSSED_OUT or element.get("hidden") is not None:
        return True
    if element.tag == "a" and above in HEADINGS:
        return bool(_LINK_TO_ITSELF.match("".join(element.itertext())))
    if (element.get("aria-hidden") or "").lower() == "true" and element.tag not in SEEN_TAGS:
        return True
    if (element.get("role") or "").lower() in SKIPPED_ROLES:
        return True
    if _HIDDEN.search(_STYLE_SPACE.sub("", (element.get("style") or "").lower())):
        return True
    names = f"{element.get('class') or ''} {element.get('id') or ''}".casefold().split()
    if not UNSEEN_NAMES.isdisjoint(names) and not any(map(_ON_WIDE_SCREENS.match, names)):
        return True
    is_beside = element.tag in OFTEN_SKIPPED or not SKIPPED_NAMES.isdisjoint(names)
    if not is_beside or (element.tag == "aside" and any(map(_NOTE.search, names))):
        return False
    return element not in holding  # some sites put all of a page into a form


def blocks_of(element: Any) -> list[Block]:
    """Return the blocks below an element, in order. `remove_unseen` comes first."""
    results: list[Block] = []
    _collect(element, results)
    return results


def _collect(element: Any, found: list[Block]) -> None:
    line: list[str] = [element.text or ""]

    def end() -> None:
        text = join_lines("".join(line))
        if text.strip():
            found.append(Block(text))
        line.clear()

    for child in element:
        if child.tag == "br":
            line.append("\n")
        elif child.tag in BLOCKS or _has_blocks(child):
            end()
            if not _is_added(child, found):
                _collect(child, found)  # with one frame for each level, as pages have up to 500
        else:
            line.append(inline(child))
        line.append(child.tail or "")
    end()


def _is_added(element: Any, found: list[Block]) -> bool:
    """Add a heading, list, table or code, and return whether the element is one."""
    tag = element.tag
    if tag in HEADINGS:
        text = _PERMALINK.sub("", " ".join(inline(element).split()))
        if text:
            found.append(Block(f"{'#' * HEADINGS[tag]} {text}"))
    elif tag in ("ul", "ol"):
        if not _leads_within(element):
            _add_list(element, found)
    elif tag == "dl":
        _add_terms(element, found)
    elif tag == "table" and _is_data(element):
        _add_table(element, found)
    elif tag == "pre":
        text = "".join(element.itertext()).strip("\n")
        if text.strip():
            fence = "`" * max(3, 1 + max(map(len, _FENCES.findall(text)), default=0))
            found.append(Block(f"{fence}\n{text}\n{fence}"))
    else:
        return False
    return True


def _has_blocks(element: Any) -> bool:
    """Whether an inline element, such as a link or a custom one, has block elements in it."""
    return next(element.iter(*BLOCKS), None) is not None


def inline(element: Any) -> str:
    """Return the text of an element in one piece, without footnote marks."""
    if element.tag == "sup" and next(element.iter("a"), None) is not None:
        text = "".join(element.itertext())
        return "" if _FOOTNOTE.match(text) else text
    parts = [element.text or ""]
    for child in element:
        text = inline(child) if child.tag != "br" else ""
        parts.append(f" {text} " if child.tag == "br" or child.tag in BLOCKS else text)
        parts.append(child.tail or "")
    return "".join(parts)


# --- lists ---


def _leads_within(listing: Any) -> bool:
    """Return True if a list is a table of contents: it only has links to parts of this page."""
    links = list(listing.iter("a"))
    return (
        len(links) >= FEW_ITEMS
        and all(len(href := link.get("href") or "") > 1 and href[0] == "#" for link in links)
        and _is_only_link(listing)
    )


def _add_list(listing: Any, found: list[Block]) -> None:
    lines: list[str] = []
    linked = total = 0
    if lead := " ".join((listing.text or "").split()):
        found.append(Block(lead))
    for item in listing:
        if item.tag in ("ul", "ol"):  # invalid, but common
            lines += _item_lines(item, "  ")
        elif _is_section(item):
            if lines:
                found.append(Block("\n".join(lines)))
                lines = []
            _collect(item, found)
        else:
            lines += _lines_of(item, "")
            total += 1
            linked += _is_only_link(item)
    if lines:
        is_links = total >= FEW_ITEMS and linked >= MAX_LINKED * total
        found.append(Block("\n".join(lines), is_links))


def _is_section(item: Any) -> bool:
    """Return True if a list item contains headings, tables or long text, such as a card."""
    if next(item.iter("table", "pre", *HEADINGS), None) is not None:
        return True
    length = 0
    for text in item.itertext():
        length += len(text)
        if length > MAX_ITEM_LENGTH:
            return True
    return False


def _item_lines(listing: Any, indent: str) -> list[str]:
    return [line for item in listing for line in _lines_of(item, indent)]


def _lines_of(item: Any, indent: str) -> list[str]:
    """Return an item's own text as one line, then those of the lists in it."""
    nested: list[str] = []
    own = "".join(_own_parts(item, indent, nested))
    text = " ".join(join_lines(own).split())
    return [f"{indent}- {text}", *nested] if text else nested


def _own_parts(item: Any, indent: str, nested: list[str]) -> Iterator[str]:
    yield item.text or ""
    for child in item:
        if child.tag in ("ul", "ol"):
            nested += _item_lines(child, f"{indent}  ")
            yield " "
        elif child.tag in BLOCKS or child.tag == "br":
            yield " "
            if child.tag != "br":
                yield from _own_parts(child, indent, nested)
            yield " "
        else:
            yield inline(child)
        yield child.tail or ""


def _is_only_link(item: Any) -> bool:
    text = "".join("".join(item.itertext()).split())
    linked = sum(len("".join("".join(link.itertext()).split())) for link in item.iter("a"))
    return linked >= MAX_LINKED * max(len(text), 1)


def _add_terms(listing: Any, found: list[Block]) -> None:
    """Add each term of a definition list with its definitions as one item."""
    lines: list[str] = []
    terms: list[str] = []
    for part in _terms_of(listing):
        if part.tag == "dt":
            terms.append(" ".join(inline(part).split()))
        elif part.tag != "dd" or _is_section(part):
            if lines or terms:
                found.append(Block("\n".join([*lines, *terms])))
                lines, terms = [], []
            if part.tag == "dd" or not _is_added(part, found):
                _collect(part, found)
        else:
            nested: list[str] = []
            text = " ".join("".join(_own_parts(part, "", nested)).split())
            lines.append(f"- {', '.join(terms)}: {text}".rstrip() if terms else f"- {text}")
            lines += nested
            terms = []
    lines += [f"- {term}" for term in terms]
    if lines:
        found.append(Block("\n".join(lines)))


def _terms_of(listing: Any) -> Iterator[Any]:
    for part in listing:
        if part.tag == "div":  # around a term and its definitions
            yield from part
        else:
            yield part


# --- tables ---


def _rows_of(table: Any) -> list[Any]:
    """Return a table's own rows, without those of tables in its cells."""
    return [row for row in table.iter("tr") if next(row.iterancestors("table"), None) is table]


def _cells_of(row: Any) -> list[Any]:
    return [cell for cell in row if cell.tag in ("td", "th")]


def _is_data(table: Any) -> bool:
    """Return True if a table isn't only used for the layout of a page."""
    if table.get("role") in ("presentation", "none"):
        return False
    rows = [cells for row in _rows_of(table) if (cells := _cells_of(row))]
    if not any(len(cells) > 1 for cells in rows):
        return False
    cells = [cell for row in rows for cell in row if cell.tag == "td"]
    if len(rows) == 1 and any(
        next(c.iter("p", "div", "table", "ul"), None) is not None for c in cells
    ):
        return False
    return all(next(cell.iter(*HEADINGS), None) is None for cell in cells)


def _add_table(table: Any, found: list[Block]) -> None:
    for caption in table.iterchildren("caption"):
        if text := " ".join(inline(caption).split()):
            found.append(Block(text))
    head: list[list[str]] = []
    lines: list[str] = []
    for row in _rows_of(table):
        cells = list(map(_cell, _cells_of(row)))
        if not any(cells):
            continue
        if not lines and _is_head(row):
            head.append(cells)
        else:
            lines.append(_row_text(cells))
    if head:
        names = column_names(head)
        lines = [_row_text(names), f"|{'---|' * len(names)}", *lines]
    if lines:
        found.append(Block("\n".join(lines)))


def _row_text(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _is_head(row: Any) -> bool:
    if row.getparent().tag == "thead":
        return True
    return all(cell.tag == "th" for cell in _cells_of(row))


def _cell(cell: Any) -> str:
    """Return the text of a cell, with what its badges and icons say."""
    said = [inline(cell), *(image.get("alt") or "" for image in cell.iter("img"))]
    text = " ".join(
        " ".join(part for part in said if len(part) <= MAX_ALT_LENGTH or part is said[0]).split()
    )
    return text.replace("|", "/")
