"""How a browser would treat a response: all content that other people must not be able to create.

Our own pages have no inline script and no inline style, load only from our own origin, and send
forms nowhere else (docs/dev/ui.md). So most of what hostile markup needs is forbidden no matter who
wrote it, and the rest shows by a payload's name in a place where only we write.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from selectolax.lexbor import LexborHTMLParser, LexborNode

from tests.attacks.payloads import names_in

FORBIDDEN = frozenset(
    [
        "iframe",
        "frame",
        "frameset",
        "object",
        "embed",
        "applet",
        "portal",
        "base",
        "math",
        "foreignobject",
        "marquee",
        "bgsound",
        "keygen",
        "isindex",
        "plaintext",
        "xmp",
        "noembed",
        "video",
        "audio",
        "source",
        "track",
        "picture",
        "img",
        "animate",
        "set",
        "handler",
        "annotation-xml",
        "blink",
        "layer",
    ]
)
LOADING = frozenset(("src", "srcset", "data", "poster", "background", "action", "formaction",
                     "manifest", "ping", "codebase", "archive", "classid", "icon", "lowsrc"))  # fmt: skip
LEADING = frozenset(("href", "xlink:href", "cite", "longdesc", "profile", "usemap"))
DROPPED = re.compile(r"[\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\ufeff]")
FORMULA = re.compile(r"[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
SECTIONS = ("section-", "lock-section-")  # a heading's slug, only letters and digits
ROOT = Path(__file__).resolve().parents[2]
NUMBER = re.compile(r"[+-]?\d[\d.,]*%?")


def _our_icon() -> re.Pattern[str]:
    """The favicon that bears a number, as its template has it: nothing but figures may differ."""
    template = (ROOT / "templates/_favicon.html").read_text("utf-8")
    drawn = template[template.index("data:image/svg+xml") : template.index('">{% else %}')]
    # An {% if %} chooses between two numbers; the innermost ones become figures first.
    figures = re.sub(
        r"\{% if [^%]*%\}[^{]*\{% else %\}[^{]*(\{\{ \w+ \}\})?\{% endif %\}", "\0", drawn
    )
    return re.compile(r"[\d.]+".join(map(re.escape, figures.split("\0"))))


OUR_ICON = _our_icon()


def harm(body: str, content_type: str) -> list[str]:
    """Return what in an answer of this type would do harm, in words."""
    kind = content_type.partition(";")[0].strip()
    if kind == "text/html":
        return list(_in_html(body))
    if kind in ("application/json", "application/problem+json"):
        json.loads(body)
        return []
    if kind in ("application/atom+xml", "application/xml", "text/xml"):
        return list(_in_feed(body))
    if kind == "text/csv":
        return list(_in_csv(body))
    if kind in (
        "text/plain",
        "text/markdown",
        "application/jsonl",
        "application/zip",
        "text/event-stream",
    ):
        return []  # no browser makes anything of these: `nosniff` is sent with them
    return [f"an answer of an unknown type {content_type}"] if body else []


def _in_html(body: str) -> Iterator[str]:
    begun = body.lstrip()[:9].lower()
    if begun.startswith(("<tr", "<td", "<th", "<tbody")):  # a part of a page; else it were lost
        body = f"<table>{body}</table>"
    tree = LexborHTMLParser(body)
    for node in tree.css("*"):
        yield from _of_element(node)


def _of_element(node: LexborNode) -> Iterator[str]:
    tag = str(node.tag)
    given = node.attributes
    if tag == "link" and OUR_ICON.fullmatch(given.get("href") or ""):
        return
    where = f"<{tag} {' '.join(f'{n}={v!r}' for n, v in given.items())}>"[:200]
    is_ours = tag == "img" and _is_ours(given.get("src") or "x:")  # the admin has icons
    if (tag in FORBIDDEN and not is_ours) or names_in(tag):
        yield f"an element that is none of ours: {where}"
    if tag == "script" and not _is_our_script(node):
        yield f"a script: {where} {node.text()[:80]}"
    if tag == "style" and names_in(node.text() or ""):
        yield f"a style: {where}"
    order = (given.get("http-equiv") or "content-security-policy").lower()
    if tag == "meta" and (order != "content-security-policy" or names_in(str(given))):
        yield f"an order to the browser: {where}"
    if tag == "link" and not _is_ours(given.get("href") or ""):
        yield f"a link of the head: {where}"
    for name, value in given.items():
        yield from (f"{said}: {where}" for said in _of_attribute(tag, name.lower(), value or ""))


def _is_our_script(node: LexborNode) -> bool:
    given = node.attributes
    if given.get("type") == "application/json":
        json.loads(node.text())
        return True
    return _is_ours(given.get("src") or "x:") and not (node.text() or "").strip()


def _of_attribute(tag: str, name: str, value: str) -> Iterator[str]:
    bare = name.removeprefix("data-")
    if name.startswith("on") or bare.startswith("hx-on"):
        yield f"script in {name}"
    if name == "style":
        yield "a style of its own"
    is_named = name in ("id", "for", "name", "target") and not value.startswith(SECTIONS)
    if names_in(name) or (is_named and names_in(value)):
        yield f"a name of theirs in {name}"
    if bare.startswith(("hx-", "sse-", "ws-")):
        squeezed = DROPPED.sub("", value).lower()
        if squeezed.startswith(("js:", "javascript:")) or ("[" in value and bare == "hx-trigger"):
            yield f"script in {name}"
        if names_in(unquote(value).partition("?")[0]) and bare != "hx-confirm":
            yield f"words of theirs in {name}"
    if name in LOADING and not _is_ours(value):
        yield f"{name} leads away"
    if name in LEADING and not _may_lead(tag, value):
        yield f"{name} does harm"
    if name == "srcdoc":
        yield "a document of its own"


def _is_ours(address: str) -> bool:
    """Return whether a browser would stay at our origin, at a path that no one else wrote."""
    squeezed = DROPPED.sub("", address).replace("\\", "/")
    is_path = squeezed.startswith(("/", "?", "#")) and not squeezed.startswith("//")
    return not squeezed or (is_path and not names_in(unquote(squeezed).partition("?")[0]))


def _may_lead(tag: str, address: str) -> bool:
    squeezed = DROPPED.sub("", address).replace("\\", "/").lower()
    if tag == "use":
        return squeezed.startswith(("#", "/static/"))
    if squeezed.startswith("//"):
        return False
    scheme = re.match(r"([a-z][a-z0-9+.-]*):", squeezed)
    return scheme is None or scheme[1] in ("http", "https", "mailto")


def _in_feed(body: str) -> Iterator[str]:
    tree = ET.fromstring(body)  # noqa: S314  (our own feed)
    for node in tree.iter():
        name = node.tag.rpartition("}")[2]
        if node.get("type") == "html":
            yield from _in_html(node.text or "")
        if names_in(name) or any(names_in(attribute) for attribute in node.attrib):
            yield f"an element of theirs in the feed: {name}"
        if name == "link" and not _may_lead("a", node.get("href", "")):
            yield f"a link of the feed: {node.get('href')}"


def _in_csv(body: str) -> Iterator[str]:
    for row in csv.reader(io.StringIO(body.removeprefix("\ufeff"))):
        for cell in row:
            if FORMULA.match(cell) and not NUMBER.fullmatch(cell):
                yield f"a formula: {cell[:60]!r}"
