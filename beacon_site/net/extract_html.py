"""Reading an HTML page: a check of its tags, then trafilatura, then selectolax.

It runs only in the child process (`extract_child.py`).
"""

from __future__ import annotations

import copy
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import accumulate
from typing import Any

import lxml.html
import trafilatura
from lxml import etree
from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from beacon_site.net import html_blocks
from beacon_site.net.reflow import join_wide_lines
from beacon_site.text.tables import MAX_ADDED_CELLS, Cell, grid

MAX_ATTRIBUTES = 200
MAX_LEVELS = 500
# With fewer characters, trafilatura probably missed the text, and the simple reader is used.
FEW_CHARACTERS = 200
# With more tags, trafilatura would take too long.
MANY_TAGS = 30_000
MAX_MATCHES = 1_000  # elements that a selector finds
MIN_PARAGRAPH = 40  # characters of one that isn't elsewhere on the page by chance
LAYOUT = re.compile(r"[\W_]+")
NEARLY_ALL = 0.9
MAX_MAIN = 3  # elements that a page may mark as its main part
MAX_DEPTH = 30  # levels below a page's body at which its main part begins
MAX_COMPARED = 60  # paragraphs to find in a part of the page
MAX_KNOWN = 0.7  # share of the paragraphs that trafilatura found which the main part has
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
# trafilatura's own parser stops at 256 levels.
DEEP = lxml.html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
UNSEEN = "script,style,noscript,template,svg,iframe,head"
SHOWN_IN_PARTS = ("nav", "footer", "aside", "form", "button", "dialog")
HEADINGS = "h1,h2,h3,h4,h5,h6"
_EDGE = re.compile(r"^\W+|\W+$")


class HostileMarkup(Exception):
    """A tag has too many attributes, or tags are nested too deep; `args[0]` says which."""


def count_tags(html: str) -> int:
    """Return the number of start tags; raises HostileMarkup("attributes" or "levels").

    One linear pass without a parser, since such pages are made to stall parsers.
    """
    depth = position = tags = 0
    begun: Counter[str] = Counter()
    while match := TAG.search(html, position):
        comment, closing, name = match.groups()
        position = match.end()
        if comment:
            position = _behind(html, "-->", position)
            continue
        name = name.lower()
        if closing:
            if begun[name]:  # others end nothing
                begun[name] -= 1
                depth -= 1
            continue
        position, attributes, closed = _tag_end(html, position)
        tags += 1
        if attributes > MAX_ATTRIBUTES:
            raise HostileMarkup("attributes")
        if name in RAW:
            position = _behind_raw(html, name, position)
        elif name not in FLAT and not closed:
            depth += 1
            begun[name] += 1
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
    while attributes <= MAX_ATTRIBUTES and (match := ATTRIBUTE.match(html, position)):
        attributes += 1
        position = match.end()
    end = html.find(">", position)
    end = len(html) if end < 0 else end
    return end + 1, attributes, html[end - 1 : end] == "/"


def read_html(
    html: str, url: str, today: date, part: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Return text, title and date of a page; raises HostileMarkup.

    With a part (its kind and text, see `PagePart`), the text is only that part's. `has_scripts`
    is whether scripts may add text to a page, or a part, that has almost none.
    """
    tags = count_tags(html)
    html = join_wide_lines(html)
    tree = LexborHTMLParser(html)
    has_scripts = tree.css_first("script") is not None
    unscripted = " ".join(" ".join(node.text() for node in tree.css("noscript")).split())
    text, title, published = _main_text(html, url, has_time=tags <= MANY_TAGS)
    title = _best_title(title, tree)
    if part is not None:
        text = text_of_part(tree, *part)
    elif len(text) < FEW_CHARACTERS:
        if " ".join(text.split()) in unscripted:
            text = ""  # it only asks for JavaScript
        plain = all_text(html)
        few = 0 < len(plain) < FEW_CHARACTERS
        text = plain if few or len(plain) > 2 * len(text) else text
    return {
        "text": text,
        "title": title,
        "date": _plausible(published, today),
        "has_scripts": has_scripts and len(text) < (FEW_CHARACTERS if part is None else 1),
    }


def _main_text(html: str, url: str, *, has_time: bool) -> tuple[str, str, str]:
    """Return the text of the main part, and what trafilatura says of the title and the date.

    trafilatura finds the main part, but leaves out lists and tables that mostly have links. It isn't
    used without `has_time`.
    """
    page = None
    try:
        tree = _parsed(html)
        page = _bare_extraction(copy.deepcopy(tree), url) if has_time else None
        lines = [line for line in (page.text or "").split("\n") if line.strip()] if page else []
        text = _with_outline(lines, tree) or "\n\n".join(lines)
    except READER_ERRORS:
        text = (page.text or "") if page else ""
    return (text, page.title or "", page.date or "") if page else (text, "", "")


def _bare_extraction(page: Any, url: str) -> Any:
    return trafilatura.bare_extraction(
        page,
        url=url or None,
        with_metadata=True,
        include_comments=False,
        # Only declared dates count.  Dates in the text would be guesses.
        date_extraction_params={"extensive_search": False, "original_date": True},
    )


def _with_outline(lines: Sequence[str], tree: Any) -> str:
    """Return the blocks of the page's main part, which has most of these paragraphs.

    Without a marked main part, these are the blocks from the first paragraph to the last one. What
    is before and after them is often a menu.
    """
    paragraphs = [line for line in lines if len(line) >= MIN_PARAGRAPH]
    sample = [*paragraphs[:: 1 + len(paragraphs) // MAX_COMPARED], *paragraphs[-1:]]
    known = [_squeezed(one) for one in sample]
    body = tree.find(".//body")
    size = 0 if known or body is None else len(_squeezed("".join(body.itertext())))
    good_enough = ""
    for main in _main_parts(tree):
        blocks = _without_menus(html_blocks.blocks_of(main))
        text = "\n\n".join(block.text for block in blocks)
        said = _squeezed(text)
        share = _share_in(said, known) if known else len(said) / max(size, 1)
        if share >= NEARLY_ALL:
            return text
        if share >= MAX_KNOWN:
            good_enough = good_enough or text
    if good_enough or body is None:
        return good_enough
    main = _smallest_around(body, known)
    if main is not body or not known:
        return "\n\n".join(block.text for block in _without_menus(html_blocks.blocks_of(main)))
    blocks = html_blocks.blocks_of(body)
    squeezed = [_squeezed(block.text) for block in blocks]
    starts = list(accumulate((len(said) + 1 for said in squeezed), initial=0))
    whole = "\n".join(squeezed)
    places = [place for one in known if (place := whole.find(one)) >= 0]
    if not places or 2 * len(places) < len(known):
        return ""  # another part of the page
    first, last = bisect_right(starts, min(places)) - 1, bisect_right(starts, max(places))
    while first and blocks[first - 1].text.startswith("#"):
        first -= 1
    last += blocks[last - 1].text.endswith(":")
    return "\n\n".join(block.text for block in _without_menus(blocks[first:last]))


def _smallest_around(body: Any, known: Sequence[str]) -> Any:
    """Return the smallest element that has nearly all of these paragraphs."""
    main = body
    for _level in range(MAX_DEPTH if known else 0):
        inside = (child for child in main if isinstance(child.tag, str))
        holding = (child for child in inside if _has_nearly_all(child, known))
        if (child := next(holding, None)) is None:
            break
        main = child
    return main


def _has_nearly_all(element: Any, known: Sequence[str]) -> bool:
    text = _squeezed("".join(element.itertext()))
    is_enough = len(text) >= NEARLY_ALL * sum(map(len, known))
    return is_enough and _share_in(text, known) >= NEARLY_ALL


def _share_in(text: str, known: Sequence[str]) -> float:
    return sum(one in text for one in known) / len(known)


def _main_parts(tree: Any) -> Iterator[Any]:
    """The elements that a page marks as its main part, the most exact one first."""
    articles = tree.findall(".//article")
    found = articles if len(articles) == 1 else []
    yield from [*found, *tree.iterfind(".//main"), *tree.iterfind(".//*[@role='main']")][:MAX_MAIN]


def _without_menus(blocks: Sequence[html_blocks.Block]) -> list[html_blocks.Block]:
    """Leave out lists of links before and after the text, unless they are most of it."""
    kept = list(blocks)
    while kept and kept[0].is_links:
        kept.pop(0)
    while kept and kept[-1].is_links:
        kept.pop()
        if kept and kept[-1].text.startswith("#"):
            kept.pop()  # "Related pages"
    length = sum(len(block.text) for block in kept)
    return kept if 2 * length >= sum(len(block.text) for block in blocks) else list(blocks)


def _squeezed(text: str) -> str:
    """Return the letters and digits of a text, which don't depend on how it is laid out."""
    return LAYOUT.sub("", text)


def _parsed(html: str, shown: Sequence[str] = ()) -> Any:
    """Return the page's tree without what isn't its text, except the tags that are `shown`.

    The rows of its tables get a cell for each column. A cell that spans rows is repeated in each;
    one that spans columns is followed by empty cells.
    """
    if not WHOLE.match(html):
        html = f"<!DOCTYPE html><html>{html}"  # otherwise lxml reads only the first element
    tree = trafilatura.load_html(html)
    if (
        tree is None
        or next(tree.iter("body"), None) is None
        or not "".join(tree.itertext()).strip()
    ):
        tree = lxml.html.document_fromstring(html.encode(errors="replace"), parser=DEEP)
    if (body := tree.find(".//body")) is not None:
        html_blocks.remove_unseen(body, shown)
    left = MAX_ADDED_CELLS
    for table in tree.iter("table"):
        left = _fill_rows(table, left)
    for cell in tree.iter("td", "th"):  # otherwise trafilatura would add cells for these spans
        cell.attrib.pop("rowspan", None)
        cell.attrib.pop("colspan", None)
    return tree


def _fill_rows(table: Any, left: int) -> int:
    """Add the missing cells of a table, at most `left`; return how many more can be added."""
    rows = [row for row in table.iter("tr") if next(row.iterancestors("table"), None) is table]
    own = [[cell for cell in row if cell.tag in ("td", "th")] for row in rows]
    filled = grid([list(map(_cell, cells)) for cells in own], left)
    for row, cells, places in zip(rows, own, filled, strict=True):
        waiting, place = iter(cells), 0
        for cell, right, is_below in places:
            if right or is_below:
                added = etree.Element("td")
                added.text = "" if right else cell.text
                row.insert(place, added)
                place, left = place + 1, left - 1
            else:
                place = row.index(next(waiting)) + 1
    return left


def _cell(cell: Any) -> Cell:
    down, across = (_span(cell.get(name, "")) for name in ("rowspan", "colspan"))
    return Cell(" ".join("".join(cell.itertext()).split()), down, across)


def _span(value: str) -> int:
    value = value.strip()
    return max(1, min(int(value), 1_000)) if value.isascii() and value.isdigit() else 1


def all_text(html: str, shown: Sequence[str] = ()) -> str:
    """Return all text of a page or an element except navigation and similar, "" if it can't be read.

    `shown` are tags that aren't left out.
    """
    return "\n\n".join(block.text for block in _all_blocks(html, shown))


def _all_blocks(html: str, shown: Sequence[str]) -> list[html_blocks.Block]:
    try:
        body = _parsed(html, shown).find(".//body")
        return html_blocks.blocks_of(body) if body is not None else []
    except READER_ERRORS:
        return []


# --- a part of a page ---


def text_of_part(tree: LexborHTMLParser, kind: str, value: str) -> str:
    """Return the text of the part that a CSS selector or a heading names, "" if there is none.

    Navigation, forms and similar count only if the part is inside them. Changes the tree.
    """
    body = tree.body
    if body is None:
        return ""
    for node in body.css(UNSEEN):
        node.decompose()
    return _by_selector(body, value) if kind == "css" else _by_heading(body, value)


def _by_selector(body: LexborNode, selector: str) -> str:
    try:
        matches = body.css(selector)[:MAX_MATCHES]
    except (SelectolaxError, ValueError):
        return ""
    found = {node.mem_id for node in matches}
    # The text of an inner match is already part of the outer one's.
    outer = [node for node in matches if all(above.mem_id not in found for above in _above(node))]
    texts = (all_text(node.html or "", SHOWN_IN_PARTS) for node in outer)
    return "\n\n".join(filter(None, texts))


def _above(node: LexborNode) -> Iterator[LexborNode]:
    parent = node.parent
    while parent is not None:
        yield parent
        parent = parent.parent


def _by_heading(body: LexborNode, value: str) -> str:
    """Return the text from the first such heading to the next one of its level or above."""
    value = _heading_words(value)
    heading = next((n for n in body.css(HEADINGS) if _heading_words(n.text()) == value), None)
    if heading is None:
        return ""
    above = list(_above(heading))
    whole = next((node for node in above if node.tag in ("article", "main")), body)
    shown = sorted({node.tag or "" for node in above} & {*SHOWN_IN_PARTS})
    section: list[str] = []
    level = 0
    for block in _all_blocks(whole.html or "", shown):
        marks, _space, text = block.text.partition(" ")
        is_heading = bool(marks) and set(marks) == {"#"}
        if level and is_heading and len(marks) <= level:
            break
        if not level and is_heading and _heading_words(text) == value:
            level = len(marks)
        if level:
            section.append(block.text)
    return "\n\n".join(section)


def _heading_words(text: str) -> str:
    """Return a heading's words, without the symbols around them, such as a link to itself."""
    return _EDGE.sub("", " ".join(text.split())).casefold()


# --- title, date ---


def _best_title(found: str, tree: LexborHTMLParser) -> str:
    """The title that trafilatura found, unless the page declares a very different one.

    Its guess is better because it omits the site's name, but it can mistake a heading of a dialog
    or a menu for the title.
    """
    own = _title(tree)
    shared = _attribute(tree.css_first('meta[property="og:title"]'), "content")
    text = " ".join(f"{own} {shared}".split()).casefold()
    named = " ".join(found.split()).casefold()
    if SITE_NAME.split(own.casefold())[-1] == named != own.casefold():
        return own  # it mistook the site's name, which comes last, for the title
    return found if found and (not text or named in text) else own


def _title(tree: LexborHTMLParser) -> str:
    for selector in ("title", "h1"):
        node = tree.css_first(selector)
        text = " ".join(node.text().split()) if node is not None else ""
        if text:
            return text
    return ""


def _attribute(node: LexborNode | None, name: str) -> str:
    return (node.attributes.get(name) or "") if node is not None else ""


def _plausible(published: str, today: date) -> str | None:
    """Return a date between 1990 and tomorrow; others are errors of the page."""
    try:
        day = date.fromisoformat(published)
    except ValueError:
        return None
    return day.isoformat() if date(1990, 1, 1) <= day <= today + timedelta(days=1) else None
