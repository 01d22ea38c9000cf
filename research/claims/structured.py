"""The records of a data file: JSON, YAML and front matter, each with a name and its nested values.

A member of a list, or of a mapping whose values are alike, is one record. It is named by its name,
or by the values that distinguish it from the others. Nested values belong to it. Reads the YAML
that people write themselves. Anchors, tags and multiple documents are read as text. Pure functions.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from beacon_site.text import values
from beacon_site.text.cleaning import one_line

MAX_DOTS = 100  # in a line of TOML, whose reader keeps each part of a key with dots
MAX_TOML_LENGTH = 200_000  # characters
DEEPEST = 16  # levels of a file; deeper ones are left out
MAX_NESTED = 40  # nested values that belong to a record; a larger part becomes separate records
MAX_SHORT = 3  # values of a nested record that means nothing without its parent
NAMED_BY = 8  # fields that can form the name of a record

NAMES = (
    "name", "title", "id", "key", "version", "release", "releaseCycle", "cycle", "tag_name", "tag",
    "code", "slug",
)  # fmt: skip
_KEY = re.compile(
    r"(\"[^\"]{1,80}\"|'[^']{1,80}'|[^\s\-\[{#&*!|>'\"%@`][^#]{0,80}?)[ \t]*:(?:[ \t]+|$)"
)
_ASSIGNED = re.compile(r"([\w\"][\w .\-/\"]{0,80}?)[ \t]*=[ \t]*(.*)$")
_BLOCK = re.compile(r"[|>][+\-\d]{0,2}$")
_TABLE_NAME = re.compile(r"^\[\[?[\w.\"' -]+\]\]?\s*(?:#.*)?$", re.MULTILINE)
_OF_EVENT = {
    "SUMMARY": "name", "DTSTART": "start", "DTEND": "end", "DUE": "due", "LOCATION": "location",
    "STATUS": "status", "RRULE": "repeats", "DESCRIPTION": "description",
}  # fmt: skip
_DAY = re.compile(r"^(\d{4})(\d\d)(\d\d)$")
_MOMENT = re.compile(r"^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)\d\d(Z?)$")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
# How a page shows a value: an icon, classes of CSS, or a button.
_ICON = re.compile(r"(?:\w*[_-])?icon|(?:trailing|leading)Icon", re.IGNORECASE)
_CLASSES = re.compile(r"class(?:name)?|style", re.IGNORECASE)
_CLASS_NAMES = re.compile(r"[-:;]")


@dataclass
class Node:
    """A value with its range of lines, or -1 if unknown."""

    value: str | list[Node] | dict[str, Node]
    first: int = -1
    last: int = -1


@dataclass(frozen=True)
class Record:
    """One record: the keys above it, its name, its values, and its lines. An item has no values."""

    under: tuple[str, ...]
    subject: str
    fields: tuple[tuple[str, str], ...]
    first: int = -1
    last: int = -1
    is_item: bool = False
    is_member: bool = False  # of a list, or of a mapping that has a name


# --- reading ---


def read_json(text: str) -> Node | None:
    """Return the content of a JSON text, or None if it isn't JSON."""
    bare = text.strip()
    if not (bare.startswith(("{", "[")) and bare.endswith(("}", "]"))):
        return None
    try:
        return _node(json.loads(bare))
    except (ValueError, RecursionError):
        return None


def read_toml(text: str) -> Node | None:
    """Return the content of a TOML text, or None if it isn't TOML."""
    if len(text) > MAX_TOML_LENGTH or _TABLE_NAME.search(text) is None:
        return None
    if any(line.count(".") > MAX_DOTS for line in text.split("\n")):
        return None
    try:
        return _node(tomllib.loads(text))
    except (ValueError, RecursionError):
        return None


def read_calendar(text: str) -> Node | None:
    """Return the events of an iCalendar text, or None if it isn't one."""
    if not text.lstrip("\ufeff \n").startswith("BEGIN:VCALENDAR"):
        return None
    results: list[Node] = []
    event: dict[str, Node] | None = None
    inside = 0  # parts of an event that are open, such as its alarm
    for line in re.sub(r"\n[ \t]", "", text).split("\n"):
        name, _colon, value = line.partition(":")
        name = name.partition(";")[0].upper()
        is_event = value.strip().upper() in ("VEVENT", "VTODO")
        if name in ("BEGIN", "END") and is_event:
            if event:
                results.append(Node(event))
            event, inside = {} if name == "BEGIN" else None, 0
        elif name == "BEGIN":
            inside += 1
        elif name == "END":
            inside = max(inside - 1, 0)
        elif event is not None and not inside and name in _OF_EVENT and value.strip():
            value = _MOMENT.sub(r"\1-\2-\3 \4:\5\6", _DAY.sub(r"\1-\2-\3", value))
            value = re.sub(r"(:\d\d)Z$", r"\1 UTC", value)
            value = value.replace("\\n", " ").replace("\\", "")
            event[_OF_EVENT[name]] = Node(one_line(value))
    return Node(results)


def _node(data: object, depth: int = 0) -> Node:
    if depth > DEEPEST:
        return Node("")
    if isinstance(data, dict):
        return Node({str(key): _node(each, depth + 1) for key, each in data.items()})
    if isinstance(data, list):
        return Node([_node(each, depth + 1) for each in data])
    if isinstance(data, bool) or data is None:
        return Node({True: "yes", False: "no", None: ""}[data])
    return Node(str(data))


def read_yaml(lines: Sequence[str]) -> Node:
    """Return the content of YAML lines. TOML's `key = value` is read like `key: value`."""
    return _Lines(lines).block(0)


@dataclass
class _Lines:
    """YAML lines without empty ones and comments, and the place of the next one to read."""

    raw: Sequence[str]
    kept: list[tuple[int, int, str]] = field(default_factory=list)  # indentation, line, text
    place: int = 0

    def __post_init__(self) -> None:
        for number, line in enumerate(self.raw):
            text = line.strip()
            if text and not text.startswith("#") and text not in ("---", "..."):
                self.kept.append((len(line) - len(line.lstrip()), number, text))

    def block(self, depth: int) -> Node:
        """Read everything with the same indentation as the next line."""
        if self.place >= len(self.kept) or depth > DEEPEST:
            return self._skip()
        indent, first, text = self.kept[self.place]
        if text.startswith("- ") or text == "-":
            found: list[Node] | dict[str, Node] = self._items(indent, depth)
        else:
            found = self._pairs(indent, depth)
        return Node(found, first, self.kept[self.place - 1][1])

    def _skip(self) -> Node:
        if self.place < len(self.kept):
            indent = self.kept[self.place][0]
            while self.place < len(self.kept) and self.kept[self.place][0] >= indent:
                self.place += 1
        return Node("")

    def _items(self, indent: int, depth: int) -> list[Node]:
        results: list[Node] = []
        while self.place < len(self.kept):
            here, number, text = self.kept[self.place]
            if here != indent or not (text.startswith("- ") or text == "-"):
                if here <= indent:
                    break
                self.place += 1  # a line that belongs to nothing
                continue
            rest = text[1:].lstrip()
            if not rest:
                self.place += 1
                is_nested = self.place < len(self.kept) and self.kept[self.place][0] > indent
                results.append(self.block(depth + 1) if is_nested else Node("", number, number))
            elif _KEY.match(rest) or rest.startswith("- "):
                # The keys of a mapping begin after the dash.
                self.kept[self.place] = (indent + len(text) - len(rest), number, rest)
                results.append(self.block(depth + 1))
            else:
                self.place += 1
                results.append(self._scalar(rest, indent, number))
        return results

    def _pairs(self, indent: int, depth: int) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while self.place < len(self.kept):
            here, number, text = self.kept[self.place]
            if here < indent or (here == indent and text.startswith("- ")):
                break
            self.place += 1
            pair = _KEY.match(text) if here == indent else None
            if pair is None:
                if here == indent and (assigned := _ASSIGNED.match(text)):
                    found[assigned[1].strip("\"'")] = self._scalar(assigned[2], indent, number)
                continue
            name, rest = pair[1].strip("\"'"), text[pair.end() :]
            if rest and not rest.startswith("#"):
                found[name] = self._scalar(rest, indent, number)
            elif self._has_text(indent):
                found[name] = self._scalar("", indent, number)
            elif self._has_children(indent):
                node = self.block(depth + 1)
                found[name] = Node(node.value, number, self.kept[self.place - 1][1])
            else:
                found[name] = Node("", number, number)
        return found

    def _has_children(self, indent: int) -> bool:
        if self.place >= len(self.kept):
            return False
        here, _number, text = self.kept[self.place]
        # A list can begin at the indentation of its key.
        return here > indent or (here == indent and text.startswith("- "))

    def _has_text(self, indent: int) -> bool:
        """Return True if the value of a key begins on the next line."""
        if self.place >= len(self.kept):
            return False
        here, _number, text = self.kept[self.place]
        is_nested = text[0] in "-[{|>" or _KEY.match(text) or _ASSIGNED.match(text)
        return here > indent and not is_nested

    def _scalar(self, text: str, indent: int, number: int) -> Node:
        """Read a value, with the lines below that continue it."""
        parts = [] if _BLOCK.match(_COMMENT.sub("", text)) else [text]
        last = number
        while self.place < len(self.kept) and self.kept[self.place][0] > indent:
            parts.append(self.kept[self.place][2])
            last = self.kept[self.place][1]
            self.place += 1
        value = " ".join(parts).strip()
        if value[:1] in "[{" and value[-1:] in "]}":
            return self._flow(value, number, last)
        return Node(_unquoted(value), number, last)

    def _flow(self, value: str, first: int, last: int) -> Node:
        try:
            found = _node(json.loads(value)).value
        except (ValueError, RecursionError):
            found = value
            if value[:1] == "[" and not re.search(r"[\[{]", value[1:]):
                parts = [_unquoted(part) for part in value[1:-1].split(",")]
                found = [Node(part, first, last) for part in parts if part]
        return Node(found, first, last)


def _unquoted(value: str) -> str:
    value = value.strip()
    if value[:1] in ("'", '"') and (end := value.find(value[0], 1)) > 0:
        rest = value[end + 1 :].strip()
        if not rest or rest.startswith(("#", ",")):
            return value[1:end]
    return _COMMENT.sub("", value).strip().rstrip(",")


# --- records ---


Naming = dict[Hashable, tuple[Any, ...]]


def records(root: Node, known: Naming) -> Iterator[Record]:
    """Return the records of a file in order.

    The members of a list are named by the fields in `known`, which also takes those of other lists.
    """
    if isinstance(root.value, list):
        yield from _list(root, (), known)
    elif isinstance(root.value, dict):
        yield from _mapping(root, (), "", known)


def _list(node: Node, under: tuple[str, ...], known: Naming) -> Iterator[Record]:
    maps = [each.value for each in _children(node) if isinstance(each.value, dict)]
    naming = known.setdefault(under, _naming(maps))
    if not any(_text(each.get(key)) for each in maps for key in naming):
        naming = _naming(maps)
    for each in _children(node):
        if isinstance(each.value, str):
            yield Record(under, each.value, (), each.first, each.last, is_item=True)
        elif isinstance(each.value, dict):
            name = " – ".join(filter(None, (_text(each.value.get(key)) for key in naming)))
            yield from _member(each, under, name, set(naming), known)


def _mapping(node: Node, under: tuple[str, ...], name: str, known: Naming) -> Iterator[Record]:
    assert isinstance(node.value, dict)  # noqa: S101  # nosec B101
    path = (*under, name) if name else under
    plain = [(key, each) for key, each in node.value.items() if isinstance(each.value, str)]
    if name and plain:
        fields = tuple((key, str(each.value)) for key, each in plain)
        yield Record(under, name, fields, plain[0][1].first, plain[-1][1].last, is_member=True)
    else:
        for key, each in plain:
            yield Record(path, key, (("", str(each.value)),), each.first, each.last)
    for key, each in node.value.items():
        if _is_display(key, each):
            continue
        if isinstance(each.value, list):
            yield from _list(each, (*path, key), known)
        elif isinstance(each.value, dict) and _is_collection(each):
            for inner, member in each.value.items():
                yield from _member(member, (*path, key), inner, set(), known)
        elif isinstance(each.value, dict):
            yield from _mapping(each, path, key, known)


def _member(
    node: Node, under: tuple[str, ...], name: str, naming: set[str], known: Naming
) -> Iterator[Record]:
    """Return a record with its nested values, and its large parts as separate records."""
    assert isinstance(node.value, dict)  # noqa: S101  # nosec B101
    fields: list[tuple[str, str]] = []
    large: list[tuple[str, Node]] = []
    for key, each in node.value.items():
        if key in naming or _is_display(key, each):
            continue
        nested = _nested(each, key)
        if nested is None or len(nested) > MAX_NESTED:
            large.append((key, each))
        else:
            fields += nested
    if fields or name:
        yield Record(under, name, tuple(fields), node.first, node.last, is_member=True)
    path = (*under, name) if name else under
    for key, each in large:
        if isinstance(each.value, list):
            yield from _list(each, (*path, key), known)
        else:
            yield from _mapping(each, path, key, known)


def _nested(node: Node, name: str, depth: int = 0) -> list[tuple[str, str]] | None:
    """Return the values of a part of a record, or None if it contains records with names."""
    if isinstance(node.value, str):
        return [(name, node.value)]
    if depth > 3:
        return None
    if isinstance(node.value, list):
        if all(isinstance(each.value, str) for each in node.value):
            return [(name, ", ".join(str(each.value) for each in node.value))]
        if all(_is_short(each) for each in node.value):
            return [(name, ", ".join(_said(each) for each in node.value))]
        if any(isinstance(e.value, dict) and _own_name(e.value) for e in node.value):
            return None
        parts = [(f"{name} {n}", each) for n, each in enumerate(node.value, start=1)]
    else:
        parts = [
            (f"{name} {key}", each)
            for key, each in node.value.items()
            if not _is_display(key, each)
        ]
    results: list[tuple[str, str]] = []
    for inner, each in parts:
        nested = _nested(each, inner, depth + 1)
        if nested is None:
            return None
        results += nested
    return results


def _is_display(key: str, node: Node) -> bool:
    if isinstance(node.value, str):
        return bool(
            _ICON.fullmatch(key) or (_CLASSES.fullmatch(key) and _CLASS_NAMES.search(node.value))
        )
    return isinstance(node.value, dict) and key in ("ui", "button")


def _is_short(node: Node) -> bool:
    """Return True if a nested record has only a few values, such as a goal with its minute."""
    if not isinstance(node.value, dict):
        return isinstance(node.value, str)
    return 0 < len(node.value) <= MAX_SHORT and all(
        isinstance(each.value, str) and len(each.value) <= 60 for each in node.value.values()
    )


def _said(node: Node) -> str:
    """Return a short record as text: its name, then its other values. For "yes", its key is used."""
    if not isinstance(node.value, dict):
        return str(node.value)
    own = _own_name(node.value)
    parts = [str(node.value[own].value)] if own else []
    for key, each in node.value.items():
        if key != own and each.value not in ("", "no") and not _is_display(key, each):
            parts.append(key if each.value == "yes" else str(each.value))
    return " ".join(parts)


def _children(node: Node) -> list[Node]:
    return node.value if isinstance(node.value, list) else []


def _text(node: Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""


def _own_name(members: dict[str, Node]) -> str:
    return next((key for key in NAMES if _text(members.get(key))), "")


def _is_collection(node: Node) -> bool:
    """Return True if the values of a mapping are similar mappings, so each key is one record."""
    if not isinstance(node.value, dict) or len(node.value) < 2:
        return False
    maps = [each.value for each in node.value.values() if isinstance(each.value, dict)]
    if len(maps) < len(node.value):
        return False
    counts = Counter(key for each in maps for key, value in each.items() if _text(value))
    return bool(counts) and counts.most_common(1)[0][1] > len(node.value) / 2


def _naming(maps: Sequence[dict[str, Node]]) -> tuple[str, ...]:
    """Return the fields whose values name the members of a list and distinguish them."""
    if not maps:
        return ()
    held = Counter(key for each in maps for key in each if _text(each[key]))
    common = [key for key in held if held[key] >= 0.9 * len(maps)]
    usual = [key for key in NAMES if key in common]
    for key in usual:
        if _differ(maps, (key,)):
            return (key,)
    if usual and len(maps) > 1:
        beside = [key for key in common if key != usual[0]][:NAMED_BY]
        return next(
            ((usual[0], key) for key in beside if _differ(maps, (usual[0], key))), (usual[0],)
        )
    # Words are better names than dates and numbers.
    shown = sorted(
        common, key=lambda key: sum(_is_typed(_text(each.get(key))) for each in maps[:20])
    )
    shown = shown[:NAMED_BY]
    for size in (1, 2):
        for keys in combinations(shown, size):
            if _differ(maps, keys):
                return keys
    return tuple(shown[:1])


def _differ(maps: Sequence[dict[str, Node]], keys: tuple[str, ...]) -> bool:
    found = {tuple(_text(each.get(key)) for key in keys) for each in maps}
    return len(found) >= 0.95 * len(maps) and all(len(part) <= 80 for one in found for part in one)


def _is_typed(value: str) -> bool:
    return values.kind_of(value) not in (values.STATUS, values.TEXT)
