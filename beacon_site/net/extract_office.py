"""Reading Word, PowerPoint and Excel files, e-books, emails and subtitles, inside the extraction child.

The formats are ECMA-376 (docx, pptx, xlsx), EPUB 3.3, RFC 5322, SubRip and WebVTT. Only the text is
read, with headings, lists and tables as Markdown. Macros, images and embedded files are ignored.
"""

from __future__ import annotations

import email
import email.policy
import io
import posixpath
import re
import zipfile
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from email.message import EmailMessage, MIMEPart
from itertools import islice
from typing import Any
from urllib.parse import unquote
from zlib import error as ZlibError

from lxml import etree

from beacon_site.net.charsets import DOCX, EML, EPUB, PPTX, SRT, VTT, XLSX, decode
from beacon_site.net.extract_html import (
    READER_ERRORS,
    HostileMarkup,
    all_text,
    count_tags,
)

MAX_PARTS = 5_000  # files in a zip
MAX_PART = 16 * 1024 * 1024  # bytes of one, unpacked
MAX_UNPACKED = 64 * 1024 * 1024  # bytes of all that are read
MAX_CHARACTERS = 1_000_000
MAX_ROWS = 10_000
MAX_COLUMNS = 100
MAX_HEADER_LENGTH = 4_000  # characters of an email's header
MAX_CELL_LENGTH = 32_767  # characters, as in Excel

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_S = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_DC = "{http://purl.org/dc/elements/1.1/}"
_TERMS = "{http://purl.org/dc/terms/}"
_OPF = "{http://www.idpf.org/2007/opf}"
# Newer files can use the same names under another address ("strict").
_STRICT = (
    (b"http://purl.oclc.org/ooxml/wordprocessingml/main", _W[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/drawingml/main", _A[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/presentationml/main", _P[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/spreadsheetml/main", _S[1:-1].encode()),
    (b"http://purl.oclc.org/ooxml/officeDocument/relationships", _R[1:-1].encode()),
)


class Unreadable(Exception):
    """The document can't be read; the argument is the reason's code."""


def kind_of_zip(content: bytes) -> str:
    """Return the media type of a zip file by the files in it, or ""."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            names = set(packed.namelist()[:MAX_PARTS])
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return ""
    if "META-INF/container.xml" in names:
        return EPUB
    for folder, kind in (("word/", DOCX), ("ppt/", PPTX), ("xl/", XLSX)):
        if any(name.startswith(folder) for name in names):
            return kind
    return ""


def read(content: bytes, kind: str) -> dict[str, Any]:
    """Return the document's text, title and date, or why it can't be read (`trouble`)."""
    reader = {
        DOCX: _docx,
        PPTX: _pptx,
        XLSX: _xlsx,
        EPUB: _epub,
        EML: _eml,
        SRT: _subtitles,
        VTT: _subtitles,
    }[kind]
    try:
        text, title, day = reader(content)
    except Unreadable as exc:
        return {"trouble": str(exc)}
    except HostileMarkup as exc:
        return {"trouble": exc.args[0]}
    except MemoryError:
        return {"trouble": "memory"}
    except (
        *READER_ERRORS, zipfile.BadZipFile, ZlibError, etree.LxmlError, EOFError, OSError,
        NotImplementedError, LookupError, StopIteration,
    ):  # fmt: skip
        return {"trouble": "damaged"}
    text = text.strip()
    if not title:
        title = next((line.lstrip("# ") for line in text.split("\n") if line.strip()), "")[:200]
    return {"text": text, "title": title, "date": day}


# --- zip files and their XML ---


class _Package:
    """A zip file whose parts are read with limits."""

    def __init__(self, content: bytes) -> None:
        self.zip = zipfile.ZipFile(io.BytesIO(content))
        entries = self.zip.infolist()
        if len(entries) > MAX_PARTS:
            raise Unreadable("bomb")
        if any(entry.flag_bits & 1 for entry in entries):
            raise Unreadable("protected")
        self.names = {entry.filename.lower(): entry for entry in entries}
        self.left = MAX_UNPACKED

    def part(self, name: str) -> bytes | None:
        """Return a part's bytes, or None if it's missing. Raises Unreadable beyond the limits."""
        entry = self.names.get(name.lstrip("/").lower())
        if entry is None:
            return None
        most = min(MAX_PART, self.left)
        with self.zip.open(entry) as stream:
            content = stream.read(most + 1)
        if len(content) > most:
            raise Unreadable("bomb")
        self.left -= len(content)
        return content

    def xml(self, name: str) -> Any:
        """Return the root of an XML part, or None if it's missing or empty."""
        content = self.part(name)
        if not content:
            return None
        for strict, usual in _STRICT:
            content = content.replace(strict, usual)
        return etree.fromstring(content, _parser())

    def targets(self, name: str) -> dict[str, str]:
        """Return the parts that a part refers to, by the ID of the relationship."""
        folder, file = posixpath.split(name)
        root = self.xml(posixpath.join(folder, "_rels", f"{file}.rels"))
        found = {}
        for one in () if root is None else root:
            if isinstance(one.tag, str) and one.get("TargetMode") != "External":
                target = one.get("Target", "")
                path = target.lstrip("/") if target.startswith("/") else f"{folder}/{target}"
                found[one.get("Id", "")] = posixpath.normpath(path)
        return found

    def facts(self) -> tuple[str, str | None]:
        """Return the title and the day of the last change in an office document."""
        root = self.xml("docProps/core.xml")
        if root is None:
            return "", None
        title = root.findtext(f"{_DC}title") or ""
        changed = root.findtext(f"{_TERMS}modified") or root.findtext(f"{_TERMS}created") or ""
        return " ".join(title.split()), _day(changed)


def _parser() -> etree.XMLParser:
    return etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False
    )


def _day(text: str) -> str | None:
    match = re.match(r"(\d{4})-(\d\d)-(\d\d)", text.strip())
    try:
        day = date(*map(int, match.groups())) if match else None
    except ValueError:
        day = None
    return day.isoformat() if day and date(1980, 1, 2) < day <= date.today() else None


def _joined(blocks: Iterable[str]) -> str:
    """Join blocks with blank lines, up to the limit. Items of one list stay together."""
    parts: list[str] = []
    size = 0
    for block in blocks:
        if not block.strip():
            continue
        is_item = block.lstrip().startswith("- ") and parts and parts[-1].lstrip().startswith("- ")
        parts += ["\n" if is_item else "\n\n", block] if parts else [block]
        size += len(block)
        if size > MAX_CHARACTERS:
            break
    return "".join(parts)


def _table(rows: Iterable[list[str]]) -> str:
    lines = [" | ".join(cells) for cells in rows if any(cells)]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- Word ---


def _docx(content: bytes) -> tuple[str, str, str | None]:
    package = _Package(content)
    root = package.xml("word/document.xml")
    body = None if root is None else root.find(f"{_W}body")
    if body is None:
        raise Unreadable("damaged")
    headings = _heading_styles(package)
    blocks = list(_word_blocks(body, headings))
    for notes in ("footnotes", "endnotes"):
        extra = package.xml(f"word/{notes}.xml")
        if extra is not None:
            blocks += _word_blocks(extra, headings)
    title, day = package.facts()
    return _joined(blocks), title, day


def _heading_styles(package: _Package) -> dict[str, int]:
    """Return the level of each heading style; their names depend on the language."""
    styles = package.xml("word/styles.xml")
    found = {}
    for style in () if styles is None else styles.iter(f"{_W}style"):
        name = style.find(f"{_W}name")
        level = style.find(f"{_W}pPr/{_W}outlineLvl")
        words = (name.get(f"{_W}val") or "").lower() if name is not None else ""
        if words == "title":
            found[style.get(f"{_W}styleId")] = 1
        elif level is not None and (level.get(f"{_W}val") or "9").isdigit():
            found[style.get(f"{_W}styleId")] = int(level.get(f"{_W}val") or 9) + 1
        elif named := re.fullmatch(r"heading (\d)", words):
            found[style.get(f"{_W}styleId")] = int(named[1])
    return {style: level for style, level in found.items() if level <= 6}


def _word_blocks(parent: Any, headings: dict[str, int]) -> Iterator[str]:
    for child in parent:
        if child.tag == f"{_W}p":
            yield _word_paragraph(child, headings)
        elif child.tag == f"{_W}tbl":
            rows = child.iterchildren(f"{_W}tr")
            yield _table(
                [_one_line(_word_text(cell)) for cell in row.iter(f"{_W}tc")] for row in rows
            )
        elif isinstance(child.tag, str):  # content controls and notes contain paragraphs
            yield from _word_blocks(child, headings)


def _word_paragraph(paragraph: Any, headings: dict[str, int]) -> str:
    text = _word_text(paragraph).strip()
    look = paragraph.find(f"{_W}pPr")
    if not text or look is None:
        return text
    style = look.find(f"{_W}pStyle")
    level = headings.get(style.get(f"{_W}val") or "") if style is not None else None
    if level:
        return f"{'#' * level} {_one_line(text)}"
    return f"- {_one_line(text)}" if look.find(f"{_W}numPr") is not None else text


def _word_text(element: Any) -> str:
    """Return the text in an element, without deleted text and the codes of fields."""
    parts = []
    for fallback in list(element.iter(_FALLBACK)):  # repeats the text of a shape for old programs
        fallback.clear()
    for one in element.iter(f"{_W}t", f"{_W}tab", f"{_W}br", f"{_W}cr", f"{_W}p"):
        if one.tag == f"{_W}t":
            parts.append(one.text or "")
        elif one.tag == f"{_W}tab":
            parts.append("\t" if one.getparent().tag == f"{_W}r" else "")
        elif one is not element:
            parts.append("\n")
    return "".join(parts)


# --- PowerPoint ---


def _pptx(content: bytes) -> tuple[str, str, str | None]:
    package = _Package(content)
    root = package.xml("ppt/presentation.xml")
    if root is None:
        raise Unreadable("damaged")
    targets = package.targets("ppt/presentation.xml")
    blocks: list[str] = []
    for number, slide in enumerate(root.iter(f"{_P}sldId"), 1):
        path = targets.get(slide.get(f"{_R}id", ""), "")
        page = package.xml(path) if path else None
        if page is not None:
            blocks += _slide(page, number)
            blocks += _beside_slide(package, path)
    title, day = package.facts()
    return _joined(blocks), "" if title == "PowerPoint Presentation" else title, day


def _slide(page: Any, number: int) -> Iterator[str]:
    heading = ""
    others = []
    for shape in page.iter(f"{_P}sp", f"{_P}graphicFrame"):
        holder = shape.find(f".//{_P}nvPr/{_P}ph")
        kind = holder.get("type", "") if holder is not None else ""
        lines = _paragraphs(shape)
        if kind in ("title", "ctrTitle") and not heading:
            heading = _one_line(" ".join(lines))
        elif shape.tag == f"{_P}graphicFrame":
            rows = shape.iter(f"{_A}tr")
            others.append(
                _table(
                    [" ".join(_paragraphs(cell)) for cell in row.iter(f"{_A}tc")] for row in rows
                )
            )
        elif kind not in ("sldNum", "dt", "ftr"):
            is_list = kind in ("body", "") and holder is not None and len(lines) > 1
            others.append("\n".join(f"- {line}" if is_list else line for line in lines))
    if heading or any(others):
        yield f"## {heading or f'Slide {number}'}"
        yield from others


def _beside_slide(package: _Package, path: str) -> Iterator[str]:
    """Yield the texts of the slide's diagrams, and the speaker's notes."""
    for target in package.targets(path).values():
        diagram = package.xml(target) if "/diagrams/data" in target else None
        if diagram is not None:
            yield "\n".join(f"- {line}" for line in _paragraphs(diagram))
        notes = package.xml(target) if "/notesSlides/" in target else None
        for shape in () if notes is None else notes.iter(f"{_P}sp"):
            holder = shape.find(f".//{_P}nvPr/{_P}ph")
            if (
                holder is not None
                and holder.get("type") == "body"
                and (parts := _paragraphs(shape))
            ):
                yield "Notes: " + "\n".join(parts)


def _paragraphs(shape: Any) -> list[str]:
    lines = (
        _one_line("".join(" " if run.tag == f"{_A}br" else run.text or "" for run in runs))
        for paragraph in shape.iter(f"{_A}p")
        for runs in [paragraph.iter(f"{_A}t", f"{_A}br")]
    )
    return [line for line in lines if line]


# --- Excel ---

_DATE_FORMATS = frozenset([*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)])
_QUOTED = re.compile(r'"[^"]*"|\[[^\]]*\]|\\.')


def _xlsx(content: bytes) -> tuple[str, str, str | None]:
    package = _Package(content)
    root = package.xml("xl/workbook.xml")
    if root is None:
        # A binary workbook (xlsb) has another format.
        raise Unreadable("damaged")
    settings = root.find(f"{_S}workbookPr")
    is_1904 = settings is not None and settings.get("date1904") in ("1", "true")
    texts, dates = _shared_texts(package), _date_styles(package)
    targets = package.targets("xl/workbook.xml")
    blocks: list[str] = []
    left = MAX_CHARACTERS
    for sheet in root.iter(f"{_S}sheet"):
        if left < 0:
            break
        page = package.xml(targets.get(sheet.get(f"{_R}id", ""), ""))
        if page is None or sheet.get("state") in ("hidden", "veryHidden"):
            continue
        rows: list[list[str]] = []
        for row in islice(page.iter(f"{_S}row"), MAX_ROWS):
            rows.append(_cells(row, texts, dates, is_1904=is_1904))
            # Cells share their texts, so a small file can have a table of many gigabytes.
            left -= sum(map(len, rows[-1]))
            if left < 0:
                break
        if table := _table(rows):
            blocks += [f"## {_one_line(sheet.get('name') or '')}", table]
    title, day = package.facts()
    return _joined(blocks), title, day


def _shared_texts(package: _Package) -> list[str]:
    root = package.xml("xl/sharedStrings.xml")
    found = [] if root is None else root.iterchildren(f"{_S}si")
    return [_cell_text(one) for one in found]


def _cell_text(element: Any) -> str:
    """Return a cell's text without the readings above its characters (rPh)."""
    parts = (one.text or "" for one in element.iter(f"{_S}t") if one.getparent().tag != f"{_S}rPh")
    return _one_line("".join(parts))[:MAX_CELL_LENGTH]


def _date_styles(package: _Package) -> dict[int, bool]:
    """Return the cell styles that show dates; the value says whether a time is shown, too."""
    root = package.xml("xl/styles.xml")
    if root is None:
        return {}
    own = {
        one.get("numFmtId", ""): _QUOTED.sub("", one.get("formatCode") or "").lower()
        for one in root.iter(f"{_S}numFmt")
    }
    found = {}
    formats = root.find(f"{_S}cellXfs")
    for number, style in enumerate(() if formats is None else formats):
        code = style.get("numFmtId") or "0"
        words = own.get(code, "")
        if (
            "y" in words
            or "d" in words
            or (code not in own and code.isdigit() and int(code) in _DATE_FORMATS)
        ):
            found[number] = "h" in words or code in ("22",)
    return found


def _cells(row: Any, texts: list[str], dates: dict[int, bool], *, is_1904: bool) -> list[str]:
    cells: list[str] = []
    for cell in row.iterchildren(f"{_S}c"):
        place = _column(cell.get("r", "")) or len(cells)
        if place >= MAX_COLUMNS:
            break
        cells += [""] * (place - len(cells))
        cells.append(_cell(cell, texts, dates, is_1904=is_1904))
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _column(reference: str) -> int:
    """Return the number of a cell's column from 0 ("C7" is 2)."""
    number = 0
    for letter in reference[:4]:
        if not "A" <= letter <= "Z":
            break
        number = number * 26 + ord(letter) - 64
    return max(number - 1, 0)


def _cell(cell: Any, texts: list[str], dates: dict[int, bool], *, is_1904: bool) -> str:
    kind, value = cell.get("t", "n"), cell.findtext(f"{_S}v") or ""
    if kind == "s":
        return texts[int(value)] if value.isdigit() and int(value) < len(texts) else ""
    if kind == "inlineStr":
        return _cell_text(cell)
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE" if value else ""
    style = cell.get("s", "0")
    if kind == "n" and value and style.isdigit() and int(style) in dates:
        return _spreadsheet_day(value, has_time=dates[int(style)], is_1904=is_1904)
    return _one_line(value) if kind != "n" else _number(value)


def _number(value: str) -> str:
    """Return a number without the digits that binary fractions add (0.1 is stored with 17)."""
    try:
        return f"{float(value):.15g}" if "." in value or "E" in value else value
    except ValueError:
        return value


def _spreadsheet_day(value: str, *, has_time: bool, is_1904: bool) -> str:
    try:
        days = float(value)
        # Day 60 is 29 February 1900, which didn't exist.
        start = datetime(1904, 1, 1) if is_1904 else datetime(1899, 12, 30)
        moment = start + timedelta(days=days)
    except (ValueError, OverflowError):
        return value
    if days < 1 and not is_1904:
        return moment.strftime("%H:%M")
    return moment.strftime("%Y-%m-%d %H:%M" if has_time else "%Y-%m-%d")


# --- e-books ---


def _epub(content: bytes) -> tuple[str, str, str | None]:
    package = _Package(content)
    if "meta-inf/encryption.xml" in package.names and "meta-inf/rights.xml" in package.names:
        raise Unreadable("protected")
    container = package.xml("META-INF/container.xml")
    found = next((one for one in container.iter("{*}rootfile") if one.get("full-path")), None)
    path = "" if found is None else unquote(found.get("full-path") or "")
    book = package.xml(path) if path else None
    if book is None:
        raise Unreadable("damaged")
    folder = posixpath.dirname(path)
    files = {one.get("id"): one.get("href", "") for one in book.iter(f"{_OPF}item")}
    blocks = []
    for one in book.iter(f"{_OPF}itemref"):
        href = unquote(files.get(one.get("idref"), "")).partition("#")[0]
        chapter = package.part(posixpath.normpath(posixpath.join(folder, href))) if href else None
        if chapter:
            blocks.append(_chapter(chapter))
        if sum(map(len, blocks)) > MAX_CHARACTERS:
            break
    title = _one_line(book.findtext(f".//{_DC}title") or "")
    return _joined(blocks), title, _day(book.findtext(f".//{_DC}date") or "")


def _chapter(content: bytes) -> str:
    html = decode(content, "").replace("\x00", "")
    count_tags(html)  # raises HostileMarkup
    return all_text(html)


# --- emails ---


def _eml(content: bytes) -> tuple[str, str, str | None]:
    message = email.message_from_bytes(content, policy=email.policy.default)
    if not isinstance(message, EmailMessage):
        raise Unreadable("damaged")
    # Parsing takes quadratic time, and only the beginning is worth reading.
    long = {name for name, value in message.raw_items() if len(str(value)) > MAX_HEADER_LENGTH}
    for name in long:
        message.replace_header(
            name, _one_line(str(dict(message.raw_items())[name]))[:MAX_HEADER_LENGTH]
        )
    if not (message["From"] or message["Subject"]):
        raise Unreadable("damaged")
    head = [
        f"{name}: {_one_line(str(message[name]))}"
        for name in ("From", "To", "Cc", "Date", "Subject")
        if message[name]
    ]
    body = message.get_body(("plain", "html"))
    text = _body_text(body) if body is not None else ""
    names = [_one_line(one.get_filename() or "") for one in message.iter_attachments()]
    blocks = ["\n".join(head), text, "\n".join(f"- Attachment: {name}" for name in names if name)]
    sent = message["Date"].datetime if message["Date"] else None
    day = _day(sent.date().isoformat()) if sent else None
    return _joined(blocks), _one_line(str(message["Subject"] or "")), day


def _body_text(part: MIMEPart) -> str:
    try:
        text = str(part.get_content())
    except LookupError:  # an unknown charset
        text = decode(part.get_payload(decode=True) or b"", "")  # type: ignore[arg-type]
    return _chapter(text.encode()) if part.get_content_subtype() == "html" else text.strip()


# --- subtitles ---

_CUE_TIME = re.compile(r"^\s*(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}\s*-->.*$")
_SPEAKER = re.compile(r"<v(?:\.[^ >]*)?\s+([^>]{1,80})>")
_CUE_TAG = re.compile(r"</?[a-zA-Z0-9.:][^>]{0,80}>|\{\\[^}]{0,40}\}")
_SENTENCE_END = re.compile(r"[.!?。！？][\"'”’)]?$")
PARAGRAPH = 400  # characters after which the end of a sentence starts a paragraph


def _subtitles(content: bytes) -> tuple[str, str, str | None]:
    """Join the lines of subtitles to paragraphs, without their times. Repeated lines are dropped."""
    text = decode(content, "").replace("\r\n", "\n").replace("\r", "\n")
    if not any(_CUE_TIME.match(line) for line in text.split("\n")[:2_000]):
        raise Unreadable("damaged")
    paragraphs: list[str] = []
    last = speaker = ""
    for cue in re.split(r"\n\s*\n", text):
        lines = cue.strip().split("\n")
        times = next((n for n, line in enumerate(lines) if _CUE_TIME.match(line)), None)
        if times is None:
            continue  # WEBVTT, NOTE, STYLE and REGION
        said_by = _SPEAKER.search(cue)
        for line in lines[times + 1 :]:
            words = _one_line(_CUE_TAG.sub("", line)).replace("&amp;", "&").replace("&nbsp;", " ")
            if not words or words == last:
                continue
            last = words
            is_other = said_by is not None and said_by[1] != speaker
            if is_other:
                speaker = said_by[1] if said_by else ""
                words = f"{_one_line(speaker)}: {words}"
            full = (
                paragraphs
                and len(paragraphs[-1]) > PARAGRAPH
                and _SENTENCE_END.search(paragraphs[-1])
            )
            if not paragraphs or is_other or full:
                paragraphs.append(words)
            else:
                paragraphs[-1] += " " + words
    return _joined(paragraphs), "", None
