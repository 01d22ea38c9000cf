"""Requests to pages: each form that a page shows, with invalid values in each field."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from tests.attacks.torture import HEADERS, LONG, TEXTS, TYPES

ROOT = Path(__file__).resolve().parent.parent.parent
FORM = "application/x-www-form-urlencoded"
Fields = dict[str, list[str]]
PER_FIELD = int(os.environ.get("BEACON_TEST_PER_FIELD", "4"))  # 99: every value in every field
# What every address and every form gets.
SHARP = (
    "NUL", "line ends", "a huge number", "a digit that is no number", "the last moment", "minus one",
    "half a pair in JSON", "100,000 letters", "a uuid of nobody", "a path that climbs", "SQL", "LIKE",
)  # fmt: skip
_READ = re.compile(r'\b(?:GET|POST|FILES)(?:\.get|\.getlist|\.pop)?[(\[]"(\w+)"')


@dataclass(frozen=True)
class Shot:
    """One request, and a description of its error."""

    what: str
    method: str
    path: str
    body: bytes = b""
    type: str = FORM
    headers: dict[str, str] = field(default_factory=dict)

    def send(self, client: Any) -> Any:
        """Send it and return the answer."""
        return client.generic(
            self.method, self.path, self.body, content_type=self.type, headers=self.headers
        )


@dataclass(frozen=True)
class Form:
    """A form as a page shows it."""

    action: str
    method: str
    fields: tuple[tuple[str, str], ...]
    has_file: bool

    @property
    def kind(self) -> tuple[Any, ...]:
        """The identity of a form, which doesn't depend on its row."""
        place = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+", "#", urlsplit(self.action).path)
        return self.method, place, tuple(sorted({name for name, _value in self.fields}))


@cache
def parameters() -> tuple[str, ...]:
    """Return every parameter name that a view or filter reads from a request."""
    names = {"q", "page", "next", "sort"}
    for app in ("memory", "research"):
        for path in (ROOT / app).rglob("*.py"):
            names |= set(_READ.findall(path.read_text(encoding="utf-8")))
    return tuple(sorted(names))


def forms_of(page: str, address: str) -> Iterator[Form]:
    """Yield the forms of a page, with the values that a browser would send unchanged."""
    for node in LexborHTMLParser(page).css("form"):
        values = [pair for one in node.css("input, textarea, select, button") for pair in _of(one)]
        yield Form(
            urljoin(address, node.attributes.get("action") or address),
            (node.attributes.get("method") or "get").upper(),
            tuple(values),
            bool(node.css("input[type=file]")),
        )


def _of(node: Any) -> Iterator[tuple[str, str]]:
    told = node.attributes
    name = told.get("name")
    if not name or name == "csrfmiddlewaretoken":
        return
    if node.tag == "select":
        options = node.css("option[selected]") or node.css("option")[:1]
        for option in options:
            yield name, option.attributes.get("value") or ""
    elif node.tag == "textarea":
        yield name, node.text() or "Some words."
    else:
        yield name, told.get("value") or "1"


def query(fields: Fields, raw: str = "") -> str:
    """Return the fields percent-encoded; `raw` replaces each `RAW` value unchanged."""
    if not raw:
        return urlencode(fields, doseq=True)
    return "&".join(f"{quote(name)}={raw}" for name in fields)


def to_page(address: str) -> Iterator[Shot]:
    """Yield requests for any URL: every known parameter with wrong values."""
    for what in SHARP:
        asked = query({name: [TEXTS[what][:2_000]] for name in parameters()})
        yield Shot(f"every parameter: {what}", "GET", f"{address}?{asked}")
    raw = query({name: [""] for name in parameters()}, "%ED%A0%80%ff%c0%af")
    yield Shot("every parameter: no UTF-8", "GET", f"{address}?{raw}")
    yield Shot("every field: no UTF-8", "POST", address, raw.encode())
    thrice = query({name: ["1", "x", ""] for name in parameters()})
    yield Shot("every parameter thrice", "GET", f"{address}?{thrice}")
    yield Shot("every field thrice", "POST", address, thrice.encode())
    for place in _some(address, len(TYPES), 2):
        kind = TYPES[place]
        yield Shot(f"the type {kind!r}", "POST", address, b'--x\r\n{"a": [1]}\x00\xff', kind)
    for place in _some(address, len(HEADERS), 2):
        headers = HEADERS[place]
        yield Shot(f"the header {next(iter(headers))}", "GET", address, headers=headers)


def to_any(address: str) -> Iterator[Shot]:
    """Yield requests that no view sees: methods, headers, types, and large bodies."""
    for headers in HEADERS:
        for method in ("GET", "POST"):
            yield Shot(f"the header {next(iter(headers))}", method, address, headers=headers)
    for kind in TYPES:
        yield Shot(f"the type {kind!r}", "POST", address, b'--x\r\n{"a": [1]}\x00\xff', kind)
    for method in ("HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "FOO"):
        yield Shot(f"the method {method}", method, address, b"x")
    for size in (10, 13):
        yield Shot(f"{size} MB", "POST", address, b"a=" + LONG.encode() * 10 * size)


def to_form(form: Form) -> Iterator[Shot]:
    """Yield a form with each field missing, repeated, and wrong; then all fields at once.

    All fields at once have each sharp value; each single field has some of all values, others in
    each form.
    """
    usual: Fields = {}
    for name, value in form.fields:
        usual.setdefault(name, []).append(value)
    yield _shot(form, "as it is", usual)
    yield _shot(form, "no field", {})
    yield _shot(form, "every field twice", {n: [*v, "x"] for n, v in usual.items()})
    yield _shot(form, "no UTF-8", usual, "%ED%A0%80%ff%c0%af")
    for what in SHARP:
        yield _shot(form, f"every field: {what}", {name: [TEXTS[what]] for name in usual})
    for name in usual:
        yield _shot(form, f"without {name}", {n: v for n, v in usual.items() if n != name})
        yield _shot(form, f"{name} twice", usual | {name: [*usual[name], "²"]})
        for place in _some(f"{form.kind} {name}", len(TEXTS), PER_FIELD):
            what = list(TEXTS)[place]
            yield _shot(form, f"{name}: {what}", usual | {name: [TEXTS[what]]})
    for place in _some(str(form.kind), len(TYPES), 2):
        yield Shot(
            f"the type {TYPES[place]!r}", "POST", form.action, query(usual).encode(), TYPES[place]
        )
    if form.has_file:
        yield from _files(form, usual)


def _some(which: str, among: int, count: int) -> list[int]:
    """Return `count` places out of the total; they depend only on the words."""
    start = zlib.crc32(which.encode())
    return [(start + step * (among // count or 1)) % among for step in range(min(count, among))]


def _files(form: Form, usual: Fields) -> Iterator[Shot]:
    """Yield uploads whose names and bytes are invalid."""
    names = ("../../etc/passwd", "a\x00.zip", "x" * 5_000 + ".zip", "", "a.zip", "b.md", "c.jsonl")
    for name in names:
        for held in (
            b"",
            b"\x00\xff" * 50,
            b"PK\x03\x04",
            b"PK\x05\x06" + b"\xff" * 18,
            b"- a\xff",
        ):
            parts = [
                f'--x\r\nContent-Disposition: form-data; name="{one}"\r\n\r\n{value}\r\n'.encode()
                for one, values in usual.items()
                for value in values
            ]
            for one in usual:
                head = f'--x\r\nContent-Disposition: form-data; name="{one}"; filename="{name}"\r\n\r\n'
                parts.append(head.encode() + held + b"\r\n")
            body = b"".join(parts) + b"--x--\r\n"
            yield Shot(
                f"a file {name[:20]!r} of {held[:8]!r}", "POST", form.action, body,
                "multipart/form-data; boundary=x",
            )  # fmt: skip


def _shot(form: Form, what: str, fields: Fields, raw: str = "") -> Shot:
    sent = query(fields, raw)
    if form.method == "POST":
        return Shot(what, "POST", form.action, sent.encode())
    place = form.action.partition("?")[0]
    return Shot(what, "GET", f"{place}?{sent[:60_000]}")
