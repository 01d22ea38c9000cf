"""What other programs hand over, read into entries: folders of Markdown, and JSON lines.

Data flow: file -> one entry for each note or observation to be, or a problem with its file and
line -> `storing`.  Nothing is believed of what a file says of itself but its words and dates.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from django.db import models
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.archive.rows import Broken, parsed
from memory.archive.writing import MANIFEST
from memory.archive.zips import check_plain, lines, opened
from memory.texts.days import in_utc
from memory.texts.text import clean

LARGEST_FILE = 4 * 1024 * 1024  # bytes of one Markdown file that are read
_MARKDOWN = (".md", ".markdown", ".txt")
_BULLET = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.+)$")
_FENCE = re.compile(r"^\s*(```|~~~)")
_PAIR = re.compile(r"^([A-Za-z_][\w -]{0,40}):\s*(.*)$")
_HIDDEN = ("__MACOSX/",)


class Shape(models.TextChoices):
    """What an uploaded file is."""

    BEACON = "beacon", gettext_lazy("an archive of Beacon")
    MARKDOWN = "markdown", gettext_lazy("Markdown")
    LINES = "lines", gettext_lazy("JSON lines")


@dataclass(frozen=True, slots=True)
class Entry:
    """One note or observation to be, as the file gives it: `where` names file and line.

    `fields` are the given ones alone: content, kind or category, tags, created, source and so on.
    """

    where: str
    is_note: bool
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Problem:
    """What cannot be read, and why."""

    where: str
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What the person chose: how a Markdown file is divided, and what a line without a word is."""

    bullets: bool = False
    kind: str = "log"
    category: str = "finding"


def shape_of(path: Path, name: str) -> Shape:
    """Detect a file's format from its content.  Raises ImportRejected for a damaged zip."""
    check_plain(path)
    with path.open("rb") as file:
        begins = file.read(4)
    if begins.startswith(b"PK") or name.lower().endswith(".zip"):
        with opened(path) as archive:
            return Shape.BEACON if MANIFEST in archive.namelist() else Shape.MARKDOWN
    is_text = PurePosixPath(name.lower()).suffix in _MARKDOWN
    return Shape.MARKDOWN if is_text else Shape.LINES


def entries(path: Path, name: str, shape: Shape, choice: Choice) -> Iterator[Entry | Problem]:
    """Yield the entries of a file.  Raises ImportRejected if it can't be read completely."""
    if shape == Shape.LINES:
        with path.open("rb") as file:
            yield from _of_lines(lines(file, name), name, choice)
    elif zipfile.is_zipfile(path):
        yield from _of_zip(path, choice)
    else:
        yield from _of_file(name, path.read_bytes()[: LARGEST_FILE + 1], choice)


# --- Markdown -------------------------------------------------------------------------------------


def _of_zip(path: Path, choice: Choice) -> Iterator[Entry | Problem]:
    others = 0
    with opened(path) as archive:
        for info in sorted(archive.infolist(), key=lambda info: info.filename):
            name = info.filename
            if info.is_dir() or name.startswith(_HIDDEN):
                continue
            if PurePosixPath(name.lower()).suffix not in _MARKDOWN:
                others += 1
                continue
            with archive.open(info) as file:
                yield from _of_file(name, file.read(LARGEST_FILE + 1), choice)
    if others:
        yield Problem(
            _("other files"),
            _("%(count)d files are no Markdown (.md, .markdown, .txt) and are left out")
            % {"count": others},
        )


def _of_file(name: str, raw: bytes, choice: Choice) -> Iterator[Entry | Problem]:
    if len(raw) > LARGEST_FILE:
        yield Problem(name, _("it is larger than %(most)d MiB") % {"most": LARGEST_FILE // 1024**2})
        return
    try:
        text = clean(raw.decode("utf-8-sig"))[0].replace("\r\n", "\n")
    except UnicodeDecodeError:
        yield Problem(name, _("it is no UTF-8 text"))
        return
    head, body, first = _front_matter(text)
    if not body.strip():
        yield Problem(name, _("it holds no text"))
    elif choice.bullets:
        yield from _bullets(name, body, first, head, choice)
    else:
        kind = str(head.pop("kind", "") or choice.kind).lower()
        words = body.strip()
        if not words.startswith("#"):  # in a folder of notes the file's name is the title
            words = f"# {PurePosixPath(name).stem}\n\n{words}"
        yield Entry(name, True, {**head, "kind": kind, "content": words})


def _bullets(
    name: str, body: str, first: int, head: dict[str, Any], choice: Choice
) -> Iterator[Entry | Problem]:
    """Yield an observation for each bullet, with the lines that belong to it."""
    head = {key: head[key] for key in ("tags", "created", "category") if key in head}
    head.setdefault("category", choice.category)
    found: list[tuple[int, list[str]]] = []
    in_fence = False
    for number, line in enumerate(body.split("\n"), start=first):
        in_fence ^= bool(_FENCE.match(line))
        bullet = None if in_fence else _BULLET.match(line)
        if bullet:
            found.append((number, [bullet[1]]))
        elif found and line.startswith((" ", "\t")) and line.strip():
            found[-1][1].append(line.strip())
    for number, words in found:
        where = _("%(file)s, line %(line)d") % {"file": name, "line": number}
        yield Entry(where, False, {**head, "content": " ".join(words)})
    if not found:
        yield Problem(name, _("it holds no bullet, so there is nothing to take"))


def _front_matter(text: str) -> tuple[dict[str, Any], str, int]:
    """Return what stands between the two `---`, the text after it, and the number of its line.

    Values are text or lists of text, as far as they are written in the plain ways; what is not
    is passed over, for it is no reason to refuse the note.
    """
    rows = text.split("\n")
    if rows[0].strip() != "---":
        return {}, text, 1
    end = next((n for n, row in enumerate(rows[1:], start=1) if row.strip() in ("---", "...")), 0)
    if not end:
        return {}, text, 1
    found: dict[str, Any] = {}
    key = ""
    for row in rows[1:end]:
        pair = _PAIR.match(row)
        if pair:
            key = pair[1].strip().lower()
            found[key] = _scalar_or_list(pair[2])
        elif key and row.strip().startswith("- "):
            held = found[key] if isinstance(found[key], list) else []
            found[key] = [*held, _bare(row.strip()[2:])]
    return _known(found), "\n".join(rows[end + 1 :]), end + 2


def _scalar_or_list(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_bare(part) for part in text[1:-1].split(",") if part.strip()]
    return _bare(text)


def _bare(text: str) -> str:
    return text.strip().strip("\"'").removeprefix("#")


# --- JSON lines -----------------------------------------------------------------------------------

_NAMES = {
    "content": ("content", "text", "memory"),
    "kind": ("kind",),
    "category": ("category",),
    "tags": ("tags", "labels"),
    "created": ("created", "created_at", "date"),
    "source": ("source",),
    "stability": ("stability",),
    "ttl_days": ("ttl_days",),
    "confidence": ("confidence",),
    "evidence": ("evidence",),
    "step_name": ("step_name",),
    "step_type": ("step_type",),
}


def _known(given: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are known here by their names here; empty ones say nothing."""
    found = {
        name: next((given[one] for one in names if given.get(one) not in (None, "", [])), None)
        for name, names in _NAMES.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def _of_lines(
    found: Iterator[tuple[int, str]], name: str, choice: Choice
) -> Iterator[Entry | Problem]:
    for number, text in found:
        where = _("%(file)s, line %(line)d") % {"file": name, "line": number}
        try:
            fields = _known(parsed(text))
        except Broken as exc:
            yield Problem(where, str(exc))
            continue
        if not isinstance(fields.get("content"), str):
            yield Problem(where, _("it has no “content” with words in it"))
            continue
        is_note = "kind" in fields
        if not is_note:
            fields.setdefault("category", choice.category)
        for word in ("kind", "category"):
            if word in fields:
                fields[word] = str(fields[word]).lower().removesuffix("s")
        yield Entry(where, is_note, fields)


def moment(value: Any) -> Any:
    """Return a moment as a file writes it; None for what is none."""
    text = str(value).strip()
    try:
        found = parse_datetime(text)
        return in_utc(found) if found is not None else parse_date(text[:10])
    except ValueError:
        return None
