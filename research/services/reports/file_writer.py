"""The blocks of a report's Markdown, in the order in which a Word or PDF file gets them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from beacon_site.text.cleaning import clean

if TYPE_CHECKING:
    from markdown_it.token import Token


@dataclass(frozen=True, slots=True)
class Piece:
    """Words of a line with the same formatting. `link` is their address on the web, or empty."""

    text: str
    bold: bool = False
    italic: bool = False
    struck: bool = False
    code: bool = False
    link: str = ""


Line = list[Piece]


@dataclass(frozen=True, slots=True)
class Place:
    """How deep a paragraph is inside lists and quotations, and its item's mark, if it's the first."""

    depth: int = 0
    in_list: bool = False
    mark: str = ""
    number: int | None = None


class FileWriter(ABC):
    """Writes the blocks of a Markdown document. Each file format says how."""

    def __init__(self) -> None:
        self.lists: list[int | None] = []  # the next number of each open list; None: bullets
        self.quotes = 0
        self._mark: tuple[str, int | None] = ("", None)  # of the item whose first paragraph is next

    @abstractmethod
    def heading(self, level: int, line: Line) -> None:
        """Write a heading. The title's level is 1."""

    @abstractmethod
    def paragraph(self, line: Line, place: Place) -> None:
        """Write a paragraph."""

    @abstractmethod
    def table(self, rows: list[list[Line]]) -> None:
        """Write a table, whose first row is the heading. Rows can have fewer cells than the first."""

    def write(self, tokens: list[Token]) -> None:
        """Write the blocks of `beacon_site.text.markdown.tokens_of`."""
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.type == "table_open":
                end = next(n for n in range(at, len(tokens)) if tokens[n].type == "table_close")
                self._table(tokens[at:end])
                at = end
            elif token.type == "heading_open":
                self.heading(int(token.tag[1]) - 1, list(_pieces(tokens[at + 1])))
                at += 1
            else:
                self._block(token)
            at += 1

    def _block(self, token: Token) -> None:
        kind = token.type
        if kind == "bullet_list_open":
            self.lists.append(None)
        elif kind == "ordered_list_open":
            self.lists.append(int(token.attrs.get("start", 1)))
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self.lists.pop()
        elif kind == "list_item_open":
            self._next_item()
        elif kind in ("blockquote_open", "blockquote_close"):
            self.quotes += token.nesting
        elif kind in ("fence", "code_block"):
            for line in token.content.rstrip("\n").split("\n"):
                self.paragraph([Piece(line, code=True)], self._place())
        elif kind == "inline":
            self.paragraph(list(_pieces(token)), self._place())

    def _next_item(self) -> None:
        number = self.lists[-1]
        if number is None:
            self._mark = ("•", None)
        else:
            self._mark = (f"{number}.", number)
            self.lists[-1] = number + 1

    def _place(self) -> Place:
        (mark, number), self._mark = self._mark, ("", None)
        return Place(len(self.lists) + self.quotes, bool(self.lists), mark, number)

    def _table(self, tokens: list[Token]) -> None:
        rows: list[list[Line]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(list(_pieces(token)))
        if any(rows):
            self.table(rows)


def _pieces(token: Token) -> Iterator[Piece]:
    """Yield a line's words with their formatting and links."""
    bold = italic = struck = False
    link = ""
    for child in token.children or ():
        kind = child.type
        if kind in ("strong_open", "strong_close"):
            bold = child.nesting == 1
        elif kind in ("em_open", "em_close"):
            italic = child.nesting == 1
        elif kind in ("s_open", "s_close"):
            struck = child.nesting == 1
        elif kind in ("link_open", "link_close"):
            link = str(child.attrs.get("href", "")) if child.nesting == 1 else ""
        elif kind in ("softbreak", "hardbreak"):
            yield Piece(" " if kind == "softbreak" else "\n")
        elif kind == "html_inline":  # only the box of a task: authors' HTML is text
            if "checkbox" in child.content:
                yield Piece("☑ " if "checked=" in child.content else "☐ ")
        elif child.content:
            address = link if _is_outside(link) else ""
            text = clean(child.content)[0]
            yield Piece(text, bold, italic, struck, kind == "code_inline", address)


def _is_outside(link: str) -> bool:
    """Return True if a link leads to the web. Others lead nowhere from a file."""
    return link.startswith(("http://", "https://"))
