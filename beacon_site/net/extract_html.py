"""Reading an HTML page: a check of its tags, then trafilatura, then selectolax.

It runs only in the child process (`extract_child.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any

import trafilatura
from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from beacon_site.net.reflow import join_lines, join_wide_lines

MAX_ATTRIBUTES = 200
MAX_LEVELS = 500
# With fewer characters, trafilatura probably missed the text, and the simple reader is used.
FEW_CHARACTERS = 200
# With more tags, trafilatura would take too long, so only the simple reader is used.
MANY_TAGS = 30_000
MOST_ADDED_CELLS = 3_000  # for cells that span several columns or rows
PLACE = re.compile(r"\s*(\u241e\d+\u241e)\s*")  # marks a table in a text
MOST_COLUMNS = 100
MOST_MATCHES = 1_000  # elements that a selector finds
LONGEST_CELL = 300  # characters of a cell in a table of data
SPANS = re.compile(r"<t[dh]\b[^>]{0,500}\b(?:row|col)span", re.IGNORECASE)
# Exceptions of readers on broken markup.  Any other ends the child, and only this page is lost.
READER_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    etree.LxmlError,
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


TAG = re.compile(r"<(?:(!--)|(/?)([a-zA-Z][^\s/>]{0,60}))")
WHOLE = re.compile(r"\s*<(?:html|!doctype|\?xml)\b", re.IGNORECASE)
ATTRIBUTE = re.compile(r"""[\s/]*[^\s/>][^\s/>=]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s>]*))?""")
# The contents of these elements aren't markup.
SITE_NAME = re.compile(r"\s[|–—·»]\s")
RAW = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})
# Elements without an end tag, or with an optional one.  Neither makes the tree deep.
FLAT = _names(
    "area base br col embed hr img input link meta param source track wbr keygen frame "
    "p li dt dd tr td th thead tbody tfoot option optgroup colgroup caption rp rt html head body "
    "path circle rect line polygon polyline ellipse use stop"
)
BLOCKS = _names(
    "address article aside blockquote br dd div dl dt fieldset figcaption figure footer form h1 h2 "
    "h3 h4 h5 h6 header hr li main nav ol p pre section table tbody td tfoot th thead tr ul "
    "center summary details body"
)
UNSEEN = "script,style,noscript,template,svg,iframe,head"
NOISE = "script,style,noscript,template,svg,iframe,nav,footer,aside,form,button,select,dialog,head"


class HostileMarkup(Exception):
    """A tag has too many attributes, or tags are nested too deep; `args[0]` says which."""


def count_tags(html: str) -> int:
    """Return the number of start tags; raises HostileMarkup("attributes" or "levels").

    One linear pass without a parser, since such pages are made to stall parsers.
    """
    depth = position = tags = 0
    while found := TAG.search(html, position):
        comment, closing, name = found.groups()
        position = found.end()
        if comment:
            position = _behind(html, "-->", position)
            continue
        name = name.lower()
        if closing:
            depth = max(0, depth - (name not in FLAT))
            continue
        position, attributes, closed = _tag_end(html, position)
        tags += 1
        if attributes > MAX_ATTRIBUTES:
            raise HostileMarkup("attributes")
        if name in RAW:
            position = _behind_raw(html, name, position)
        elif name not in FLAT and not closed:
            depth += 1
            if depth > MAX_LEVELS:
                raise HostileMarkup("levels")
    return tags


def _behind(html: str, mark: str, position: int) -> int:
    end = html.find(mark, position)
    return len(html) if end < 0 else end + len(mark)


def _behind_raw(html: str, name: str, position: int) -> int:
    end = _RAW_END[name].search(html, position)
    return end.start() if end else position


_RAW_END = {name: re.compile(rf"</{name}[\s/>]", re.IGNORECASE) for name in RAW}


def _tag_end(html: str, position: int) -> tuple[int, int, bool]:
    """Return where the tag ends, its number of attributes, and whether it closes itself."""
    attributes = 0
    while attributes <= MAX_ATTRIBUTES and (found := ATTRIBUTE.match(html, position)):
        attributes += 1
        position = found.end()
    end = html.find(">", position)
    end = len(html) if end < 0 else end
    return end + 1, attributes, html[end - 1 : end] == "/"


def read_html(
    html: str, url: str, today: date, part: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Return text, title, date and language of a page; raises HostileMarkup.

    With a part (its kind and text, see `PagePart`), the text is only that part's. `has_scripts`
    is whether scripts may add text to a page, or a part, that has almost none.
    """
    tags = count_tags(html)
    html = join_wide_lines(html)
    if not WHOLE.match(html):
        html = f"<!DOCTYPE html>{html}"  # otherwise lxml reads only the first element
    tree = LexborHTMLParser(html)
    language = _language(tree)
    has_scripts = tree.css_first("script") is not None
    unscripted = " ".join(" ".join(node.text() for node in tree.css("noscript")).split())
    text = title = published = ""
    if tags <= MANY_TAGS:
        text, title, published = _by_trafilatura(html, url)
    title = _best_title(title, tree)
    if part is not None:
        text = text_of_part(tree, *part)
    elif len(text) < FEW_CHARACTERS:
        if " ".join(text.split()) in unscripted:
            text = ""  # it only asks for JavaScript
        plain = text_of_tree(tree)
        few = 0 < len(plain) < FEW_CHARACTERS
        text = plain if few or len(plain) > 2 * len(text) else text
    return {
        "text": text,
        "title": title,
        "date": _plausible(published, today),
        "language": language or language_of(text),
        "has_scripts": has_scripts and len(text) < (FEW_CHARACTERS if part is None else 1),
    }


def _by_trafilatura(html: str, url: str) -> tuple[str, str, str]:
    try:
        page: Any = trafilatura.bare_extraction(
            _with_whole_rows(html) if SPANS.search(html) else html,
            url=url or None,
            with_metadata=True,
            include_comments=False,
            # Only declared dates count.  Dates in the text would be guesses.
            date_extraction_params={"extensive_search": False, "original_date": True},
        )
    except READER_ERRORS:
        return "", "", ""
    if page is None:
        return "", "", ""
    blocks: list[str] = []
    if page.body is not None:
        _collect(page.body, blocks)
    text = "\n\n".join(blocks) or join_lines(page.text or "")
    return text, page.title or "", page.date or ""


def _with_whole_rows(html: str) -> Any:
    """Return the page's tree, with a cell for each column in each row of its tables.

    A cell that spans rows is repeated in each; one that spans columns is followed by empty cells.
    """
    tree = trafilatura.load_html(html)
    if tree is None:
        return html
    left = MOST_ADDED_CELLS
    for table in tree.iter("table"):
        left = _fill_rows(table, left)
    for cell in tree.iter("td", "th"):  # otherwise trafilatura would add cells for these spans
        cell.attrib.pop("rowspan", None)
        cell.attrib.pop("colspan", None)
    return tree


def _fill_rows(table: Any, left: int) -> int:
    """Add the missing cells of a table, at most `left`; return how many more can be added."""
    below: dict[int, tuple[int, str]] = {}  # column -> in how many more rows which text is repeated
    for row in table.iter("tr"):
        if next(row.iterancestors("table"), None) is not table:
            continue
        place = column = 0
        cells = [cell for cell in row if cell.tag in ("td", "th")]
        while (cells or column in below) and column < MOST_COLUMNS and left > 0:
            if column in below:
                rows, text = below.pop(column)
                if rows > 1:
                    below[column] = (rows - 1, text)
                _insert_cell(row, place, text)
                left -= 1
                place, column = place + 1, column + 1
                continue
            cell = cells.pop(0)
            place = row.index(cell) + 1
            down, across = (_take_span(cell, name) for name in ("rowspan", "colspan"))
            text = " ".join("".join(cell.itertext()).split())
            for n in range(min(across, MOST_COLUMNS - column)):
                if down > 1:
                    below[column + n] = (down - 1, text if n == 0 else "")
                if n:
                    _insert_cell(row, place, "")
                    left -= 1
                    place += 1
            column += across
    return left


def _insert_cell(row: Any, place: int, text: str) -> None:
    cell = etree.Element("td")
    cell.text = text
    row.insert(place, cell)


def _take_span(cell: Any, name: str) -> int:
    value = (cell.attrib.pop(name, "") or "").strip()
    return max(1, min(int(value), 1_000)) if value.isascii() and value.isdigit() else 1


def _collect(element: Any, blocks: list[str]) -> None:
    """Add the paragraphs below an element of trafilatura's own markup, in order.

    Its elements are p, head, quote, list with item, table with row and cell, code, lb.  The items
    of a list and the rows of a table form one block; code keeps its lines.
    """
    for child in element:
        if not isinstance(child.tag, str):
            continue
        if child.tag == "list":
            _add(blocks, "\n".join(_items(child, "")))
        elif child.tag == "table":
            _add(blocks, "\n".join(filter(None, (_row(row) for row in child.iter("row")))))
        elif child.tag == "code":
            _add(blocks, "".join(child.itertext()).strip("\n"))
        elif child.tag in ("quote", "div", "body", "main") and len(child):
            _add(blocks, join_lines(child.text or ""))
            _collect(child, blocks)
        else:
            _add(blocks, join_lines(_with_breaks(child)))
        if child.tail and child.tail.strip():
            _add(blocks, join_lines(child.tail))


def _add(blocks: list[str], text: str) -> None:
    if text.strip():
        blocks.append(text)


def _with_breaks(element: Any) -> str:
    """The text of a paragraph; one break ends a line, two start a paragraph."""
    parts = [element.text or ""]
    for child in element:
        parts.append("\n" if child.tag == "lb" else _with_breaks(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _items(listing: Any, indent: str) -> list[str]:
    lines = []
    for item in listing.iter("item") if not indent else listing:
        if not indent and _inside_item(item, listing):
            continue
        own = [item.text or ""]
        nested: list[str] = []
        for child in item:
            if child.tag == "list":
                nested += _items(child, indent + "  ")
            else:
                own.append(" " if child.tag == "lb" else _with_breaks(child))
            own.append(child.tail or "")
        text = " ".join(join_lines("".join(own)).split("\n"))
        if text.strip():
            lines.append(f"{indent}- {text.strip()}")
        lines += nested
    return lines


def _inside_item(item: Any, listing: Any) -> bool:
    """Return whether an item belongs to a list inside another item of this list."""
    parent = item.getparent()
    while parent is not None and parent is not listing:
        if parent.tag == "item":
            return True
        parent = parent.getparent()
    return False


def _row(row: Any) -> str:
    cells = [" ".join("".join(cell.itertext()).split()) for cell in row.iter("cell")]
    return " | ".join(cells) if any(cells) else ""


def text_of_tree(tree: LexborHTMLParser) -> str:
    """All text of the page except navigation and similar, one paragraph per block element."""
    body = tree.body
    if body is None:
        return ""
    # The code below changes the tree, so it can't be used for anything else.
    for node in body.css(NOISE):
        node.decompose()
    tables = _take_tables(body)
    return _text_of_nodes(body.traverse(include_text=True), tables)


def _text_of_nodes(nodes: Iterable[LexborNode], tables: Mapping[str, str]) -> str:
    """The text of nodes in the page's order, one paragraph per block element."""
    blocks: list[str] = []
    line: list[str] = []
    for node in nodes:
        if node.tag == "-text":
            line.append(node.text_content or "")
        elif node.tag in BLOCKS:
            blocks.append("".join(line))
            line = []
    blocks.append("".join(line))
    text = "\n\n".join(filter(None, (join_lines(block).strip() for block in blocks)))
    return PLACE.sub(lambda mark: f"\n\n{tables.get(mark[1], mark[1])}\n\n", text).strip()


# --- a part of a page ---


def text_of_part(tree: LexborHTMLParser, kind: str, wanted: str) -> str:
    """The text of the part that a CSS selector or a heading names, "" if the page hasn't got it.

    Navigation, forms and similar count only if the part is inside them. Changes the tree.
    """
    body = tree.body
    if body is None:
        return ""
    for node in body.css(UNSEEN):
        node.decompose()
    return _by_selector(body, wanted) if kind == "css" else _by_heading(body, wanted)


def _by_selector(body: LexborNode, selector: str) -> str:
    try:
        matches = body.css(selector)[:MOST_MATCHES]
    except (SelectolaxError, ValueError):
        return ""
    found = {node.mem_id for node in matches}
    tables: dict[str, str] = {}
    texts = []
    for node in matches:
        if any(above.mem_id in found for above in _above(node)):
            continue  # its text is already part of the outer one's
        tables |= _take_tables(node, len(tables))
        texts.append(_text_of_nodes(node.traverse(include_text=True), tables))
    return "\n\n".join(filter(None, texts))


def _above(node: LexborNode) -> Iterator[LexborNode]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


HEADINGS = "h1,h2,h3,h4,h5,h6"
_EDGE = re.compile(r"^\W+|\W+$")


def _by_heading(body: LexborNode, wanted: str) -> str:
    """The text from the first such heading to the next one of its level or above."""
    wanted = _heading_words(wanted)
    for node in body.css(HEADINGS):
        if _heading_words(node.text()) == wanted:
            break
    else:
        return ""
    whole = next((above for above in _above(node) if above.tag in ("article", "main")), body)
    inside = {above.mem_id for above in _above(node)}
    for noise in whole.css(NOISE):
        if noise.mem_id not in inside:
            noise.decompose()
    tables = _take_tables(whole)
    return _text_of_nodes(_section(whole, node), tables)


def _section(whole: LexborNode, heading: LexborNode) -> Iterator[LexborNode]:
    level, has_begun = heading.tag or "", False
    for node in whole.traverse(include_text=True):
        if node.mem_id == heading.mem_id:
            has_begun = True
        elif has_begun and node.tag in HEADINGS.split(",") and node.tag <= level:
            return
        if has_begun:
            yield node


def _heading_words(text: str) -> str:
    """A heading's words, without the symbols around them, such as a link to itself."""
    return _EDGE.sub("", " ".join(text.split())).casefold()


# --- tables, title, language, date ---


def _take_tables(body: LexborNode, start: int = 0) -> dict[str, str]:
    """Replace each table of data with a mark, and return its rows by that mark.

    The marks are numbered from `start`.

    A table that contains another one, or has long or single cells, is only for layout.
    """
    found: dict[str, str] = {}
    for table in body.css("table:not(:has(table))"):
        rows = [
            [" ".join(cell.text().split()).replace("|", "/") for cell in row.css("td, th")]
            for row in table.css("tr")
        ]
        rows = [cells for cells in rows if any(cells)]
        is_data = len(rows) > 1 and sum(len(cells) > 1 for cells in rows) > 0.5 * len(rows)
        if not is_data or any(len(cell) > LONGEST_CELL for cells in rows for cell in cells):
            continue
        mark = f"\u241e{start + len(found)}\u241e"
        found[mark] = "\n".join(map(" | ".join, rows))
        for child in list(table.iter(include_text=True)):
            child.decompose()
        table.insert_child(mark)
    return found


def _best_title(found: str, tree: LexborHTMLParser) -> str:
    """The title that trafilatura found, unless the page declares a very different one.

    Its guess is better because it omits the site's name, but it can mistake a heading of a dialog
    or a menu for the title.
    """
    own = _title(tree)
    shared = _attribute(tree.css_first('meta[property="og:title"]'), "content")
    said = " ".join(f"{own} {shared}".split()).casefold()
    named = " ".join(found.split()).casefold()
    if SITE_NAME.split(own.casefold())[-1] == named != own.casefold():
        return own  # it mistook the site's name, which comes last, for the title
    return found if found and (not said or named in said) else own


def _title(tree: LexborHTMLParser) -> str:
    for selector in ("title", "h1"):
        node = tree.css_first(selector)
        text = " ".join(node.text().split()) if node is not None else ""
        if text:
            return text
    return ""


def _language(tree: LexborHTMLParser) -> str:
    """The language that the page declares, as a lower-case tag such as "de" or "pt-br"."""
    root = tree.root
    declared = _attribute(root, "lang") or _attribute(root, "xml:lang")
    if not declared:
        declared = _attribute(tree.css_first('meta[property="og:locale"]'), "content")
    if not declared:
        declared = _attribute(tree.css_first('meta[http-equiv="content-language" i]'), "content")
    tag = declared.strip().replace("_", "-").lower()
    return tag if re.fullmatch(r"[a-z]{2,3}(?:-[a-z0-9]{2,8}){0,3}", tag) else ""


def _attribute(node: LexborNode | None, name: str) -> str:
    return (node.attributes.get(name) or "") if node is not None else ""


def language_of(text: str) -> str:
    """Return the language if the script determines it (ja, ko, zh), else ""."""
    sample = text[:5000]
    letters = sum(char.isalpha() for char in sample) or 1
    kana = sum("\u3040" <= char <= "\u30ff" for char in sample)
    hangul = sum("\uac00" <= char <= "\ud7af" for char in sample)
    han = sum("\u4e00" <= char <= "\u9fff" for char in sample)
    if kana > 0.1 * letters:
        return "ja"
    if hangul > 0.3 * letters:
        return "ko"
    return "zh" if han > 0.3 * letters else ""


def _plausible(published: str, today: date) -> str | None:
    """Return a date between 1990 and tomorrow; others are errors of the page."""
    try:
        day = date.fromisoformat(published)
    except ValueError:
        return None
    return day.isoformat() if date(1990, 1, 1) <= day <= today + timedelta(days=1) else None
