"""The child process that writes a report as PDF: `python -m research.services.reports.pdf_document`.

It gets the same Markdown as the other exports, and what else `as_pdf` names.

Latin, Greek and Cyrillic letters are embedded. Chinese, Japanese and Korean use standard fonts that
the PDF reader supplies. Characters of other scripts are shown as □, and a note says so.
"""

from __future__ import annotations

import base64
import io
import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from itertools import groupby
from operator import contains
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, cast
from xml.sax.saxutils import escape, quoteattr  # only writes XML  # nosec B406

from beacon_site.embedded import places
from beacon_site.net.child_loop import Answer, serve
from beacon_site.text.cleaning import normal_form
from beacon_site.text.markdown import tokens_of
from research.services.reports.file_writer import FileWriter, Line, Piece, Place

if TYPE_CHECKING:
    from markdown_it.token import Token
    from reportlab.pdfgen.canvas import Canvas
    from reportlab.platypus import Flowable

FONTS = places.ASSETS / "static/vendor"
SANS, BOLD, ITALIC = "source-sans-pdf", "source-sans-pdf-bold", "source-sans-pdf-italic"
CHINESE, JAPANESE, KOREAN = "STSong-Light", "HeiseiMin-W3", "HYSMyeongJo-Medium"
# The character sets of these fonts.
CODECS = {CHINESE: "gbk", JAPANESE: "cp932", KOREAN: "cp949"}

CODE = "Courier"  # of every PDF reader, with the characters of CODE_SET
CODE_SET = "cp1252"
MISSING = "□"

INDENT = 18  # points for each level of a list or quotation
DEEPEST = 10  # levels; deeper ones aren't indented further
SIZES = {1: 20, 2: 15, 3: 12.5}  # of headings, in points
TEXT, SMALL = 10.5, 9
MARGIN = 62
INK, MUTED, LINK = "#1b1b1f", "#62626b", "#0b57a4"
NARROWEST = 46  # points; a table with narrower columns is written as lines
MAX_CELLS = 3_000  # of tables in a report; each takes about 1 ms, so the rest is written as lines
MAX_LENGTH = 2_000  # characters; a longer paragraph is cut, since each page of it takes longer
MAX_HEADING_LENGTH = (
    300  # characters; a heading stays with what follows it, so it must fit on a page
)
MAX_HEAD_LENGTH = 500  # characters of a cell in a table's first row, which is repeated on each page
LINE = 80  # characters that a line break counts as

_UNIT = re.compile(r"[^\n]{0,400}(?: |\n|$)|[^\n]{1,400}")
_CITATION = re.compile(r"\[(\d{1,3})\]")
_KANA = re.compile(r"[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9d]")
_HANGUL = re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")
_EAST_ASIAN = re.compile(r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]")  # fmt: skip


class Wanted(TypedDict):
    """What a file of a report is made from. `note` is for characters that a PDF has no font for."""

    text: str  # Markdown
    title: str
    subject: str
    domains: list[str]  # of the sources, in their order
    language: str
    note: str


def as_pdf(filters: Wanted) -> bytes:
    """Return the report as PDF, with headings, lists, tables, links, bookmarks and page numbers."""
    load_reportlab()
    from reportlab.platypus import SimpleDocTemplate

    text, domains = filters["text"], filters["domains"]
    tokens = tokens_of(text)
    first, last = _sources_at(tokens, domains)
    numbers = range(1, len(domains) + 1) if last else ()
    writer = _Writer(_Fonts(text), frozenset(numbers))
    writer.write(tokens[:first])
    writer.at_sources = True
    writer.write(tokens[first:last])
    writer.at_sources = False
    writer.write(tokens[last:])
    out = io.BytesIO()
    document = SimpleDocTemplate(
        out, title=filters["title"], subject=filters["subject"], author="Beacon", creator="Beacon", lang=filters["language"],
        leftMargin=MARGIN, rightMargin=MARGIN, topMargin=MARGIN, bottomMargin=MARGIN,
    )  # fmt: skip
    document.afterFlowable = _Bookmarks(document)
    document.build(writer.story(filters["note"]), canvasmaker=_numbered_canvas())
    return out.getvalue()


def load_reportlab() -> None:
    """Import ReportLab, which takes 0.3 s, without Pillow: Beacon puts no pictures into PDFs."""
    absent = {name: ModuleType(name) for name in ("PIL", "PIL.Image") if name not in sys.modules}
    sys.modules.update(absent)
    try:
        import reportlab.platypus  # noqa: F401
    finally:
        for name in absent:
            del sys.modules[name]


# --- Fonts ---


class Stretch(NamedTuple):
    """Characters in the same font."""

    text: str
    font: str


class _Fonts:
    """Chooses a font for each character, and notes whether one had none."""

    def __init__(self, text: str) -> None:
        _register()
        letters = len(_EAST_ASIAN.findall(text))
        # Chinese characters look different in Japanese and Korean, and the fonts lack some.
        self.han = [CHINESE]
        for font, script in ((KOREAN, _HANGUL), (JAPANESE, _KANA)):
            if len(script.findall(text)) * 20 > letters:
                self.han.insert(0, font)
        self.has_missing = False

    def stretches(self, text: str, font: str) -> Iterator[Stretch]:
        """Yield the text in parts, each with the font that has its characters."""
        pairs = (self._of(character, font) for character in normal_form(text, "NFC"))
        for name, found in groupby(pairs, key=lambda pair: pair[1]):
            if part := "".join(character for character, _font in found):
                yield Stretch(part, name)

    def _of(self, character: str, font: str) -> tuple[str, str]:
        if font == CODE and not _is_in(CODE_SET, character):
            font = SANS
        if character in "\n\t" or ord(character) in _covered():
            return ("" if character == "\xad" else character), font
        if _EAST_ASIAN.match(character):
            for name in dict.fromkeys((*self.han, JAPANESE, KOREAN)):
                if _is_in(CODECS[name], character):
                    return character, name
        if character.isspace():
            return " ", font
        if unicodedata.category(character) in ("Cf", "Cc", "Mn", "Me"):
            return "", font
        self.has_missing = True
        return MISSING, SANS


@lru_cache(maxsize=50_000)
def _is_in(codec: str, character: str) -> bool:
    try:
        character.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


@cache
def _register() -> None:
    """Load the fonts, once per process."""
    load_reportlab()
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.cidfonts import UnicodeCIDFont
    from reportlab.pdfbase.ttfonts import TTFont

    for name in (SANS, BOLD, ITALIC):
        pdfmetrics.registerFont(TTFont(name, FONTS / f"{name}.ttf"))
    for name in (CHINESE, JAPANESE, KOREAN):
        pdfmetrics.registerFont(UnicodeCIDFont(name))


@cache
def _covered() -> frozenset[int]:
    """Return the code points that all three embedded fonts have."""
    _register()
    from reportlab.pdfbase import pdfmetrics

    faces = [set(pdfmetrics.getFont(name).face.charToGlyph) for name in (SANS, BOLD, ITALIC)]
    return frozenset(set.intersection(*faces))


# --- Blocks ---


class _Writer(FileWriter):
    """Writes the blocks as reportlab's flowables. Authors' text is always escaped in its markup."""

    def __init__(self, fonts: _Fonts, sources: frozenset[int]) -> None:
        super().__init__()
        self.fonts = fonts
        self.sources = sources  # the numbers that citations can link to
        self.flowables: list[Flowable] = []
        self.cells = self.headings = 0
        self.at_sources = False

    def story(self, note: str) -> list[Flowable]:
        """Return the flowables, after the note if the fonts lack some characters."""
        if self.flowables:  # nothing follows the last one that it could stay with
            self.flowables[-1].keepWithNext = 0
        if not self.fonts.has_missing:
            return self.flowables
        markup = self._markup([Piece(note)])
        return [self._paragraph(markup, size=SMALL, colour=MUTED, after=10), *self.flowables]

    def heading(self, level: int, line: Line) -> None:
        if sum(_length(piece.text) for piece in line) > MAX_HEADING_LENGTH:
            self.paragraph(_in_bold(line), Place())
            return
        size = SIZES.get(level, 11)
        self.headings += 1
        key = f"heading-{self.headings}"
        made = self._paragraph(
            f'<a name="{key}"/>{self._markup(_in_bold(line))}',
            size=size,
            font=BOLD,
            before=size * 0.9,
            after=size * 0.35,
        )
        made.keepWithNext = 1
        made.heading = (level, key, "".join(piece.text for piece in line))
        self.flowables.append(made)

    def paragraph(self, line: Line, place: Place) -> None:
        parts = list(_split_long_line(line))
        for n, part in enumerate(parts):
            markup = self._markup(part)
            if self.at_sources and place.number is not None and place.depth == 1 and not n:
                markup = f'<a name="source-{place.number}"/>{markup}'
            after = 2.5 if place.in_list else 1 if all(piece.code for piece in part) else 7
            self.flowables.append(
                self._paragraph(
                    markup,
                    left=min(place.depth, DEEPEST) * INDENT,
                    mark="" if n else place.mark,
                    after=after if n == len(parts) - 1 else 0,
                )
            )

    def table(self, rows: list[list[Line]]) -> None:
        width = max(map(len, rows))
        self.cells += width * len(rows)
        longest_head = max(sum(_length(piece.text) for piece in cell) for cell in rows[0] or [[]])
        if (
            width * NARROWEST > _text_width()
            or self.cells > MAX_CELLS
            or longest_head > MAX_HEAD_LENGTH
        ):
            for row in rows:
                line = [piece for cell in row for piece in (*cell, Piece(" · "))][:-1]
                self.paragraph(line, Place())
            return
        self.flowables.append(self._table_of(rows, width))

    def _table_of(self, rows: list[list[Line]], width: int) -> Flowable:
        from reportlab.platypus import Table

        cells = [
            [
                self._paragraph(self._markup(line if n else _in_bold(line)), size=SMALL, after=0)
                for line in (*row, *([[]] * (width - len(row))))
            ]
            for n, row in enumerate(rows)
        ]
        style = [
            ("GRID", (0, 0), (-1, -1), 0.5, "#c8c8d0"),
            ("BACKGROUND", (0, 0), (-1, 0), "#f1f1f5"),
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
        ]
        return Table(
            cells, _widths(rows, width), style=style, repeatRows=1, splitInRow=1,
            spaceBefore=4, spaceAfter=10,
        )  # fmt: skip

    def _paragraph(
        self,
        markup: str,
        *,
        size: float = TEXT,
        font: str = SANS,
        colour: str = INK,
        left: float = 0,
        mark: str = "",
        before: float = 0,
        after: float = 7,
    ) -> Any:
        from reportlab.lib.styles import ParagraphStyle
        from reportlab.platypus import Paragraph

        style = ParagraphStyle(
            "report", fontName=font, fontSize=size, leading=size * 1.4, textColor=colour,
            leftIndent=left, bulletIndent=max(0, left - INDENT + 3), bulletFontName=SANS, bulletFontSize=size,
            spaceBefore=before, spaceAfter=after, wordWrap="CJK" if _EAST_ASIAN.search(markup) else None,
        )  # fmt: skip
        return Paragraph(markup, style, bulletText=mark or None)

    def _markup(self, line: Line) -> str:
        """Return a line in the markup of reportlab's paragraphs."""
        return "".join(map(self._piece, line)).strip(" ")

    def _piece(self, piece: Piece) -> str:
        font = CODE if piece.code else BOLD if piece.bold else ITALIC if piece.italic else SANS
        if piece.link or piece.code:
            text = self._text(piece.text, font)
        else:
            text = self._cited(piece.text, font)
        if piece.code:
            text = f'<font color="{MUTED}">{text}</font>'
        if piece.struck:
            text = f"<strike>{text}</strike>"
        if piece.link:
            text = f"<a href={quoteattr(piece.link)} color={quoteattr(LINK)}>{text}</a>"
        return text

    def _cited(self, text: str, font: str) -> str:
        """Return a text in which marks such as [1] lead to that source."""
        parts = _CITATION.split(text)  # every other part is a number
        lines = []
        for n, part in enumerate(parts):
            words = self._text(f"[{part}]" if n % 2 else part, font)
            if n % 2 and int(part) in self.sources:
                words = f'<a href="#source-{int(part)}" color="{LINK}">{words}</a>'
            lines.append(words)
        return "".join(lines)

    def _text(self, text: str, font: str) -> str:
        parts = []
        for part, name in self.fonts.stretches(text, font):
            words = escape(part.expandtabs(4)).replace("  ", " \xa0").replace("\n", "<br/>")
            parts.append(f'<font name="{name}">{words}</font>')
        return "".join(parts)


def _sources_at(tokens: list[Token], domains: list[str]) -> tuple[int, int]:
    """Return where the list of sources begins and ends: the last one from 1 with these domains."""
    found = (0, 0)
    first = 0
    for at, token in enumerate(tokens):
        if token.type == "ordered_list_open" and not token.level:
            first = at
        if token.type == "ordered_list_close" and not token.level:
            items = [one.content for one in tokens[first:at] if one.type == "inline"]
            starts = int(tokens[first].attrGet("start") or 1)
            if starts == 1 and len(items) == len(domains) and all(map(contains, items, domains)):
                found = (first, at + 1)
    return found


def _split_long_line(line: Line) -> Iterator[Line]:
    """Yield a line, in several parts if it's very long."""
    if sum(_length(piece.text) for piece in line) <= MAX_LENGTH:
        yield line
        return
    part: Line = []
    length = 0
    for piece in line:
        for unit in filter(None, _UNIT.findall(piece.text)):
            if part and length + _length(unit) > MAX_LENGTH:
                yield part
                part, length = [], 0
            part.append(replace(piece, text=unit))
            length += _length(unit)
    yield part


def _length(text: str) -> int:
    return len(text) + LINE * text.count("\n") + 3 * text.count("\t")


def _in_bold(line: Line) -> Line:
    return [replace(piece, bold=True) for piece in line]


def _text_width() -> float:
    from reportlab.lib.pagesizes import A4

    return float(A4[0]) - 2 * MARGIN - 12  # 12: of the frame


def _widths(rows: list[list[Line]], width: int) -> list[float]:
    """Return the columns' widths, by the length of their text."""
    longest = [8] * width
    for row in rows:
        for n, line in enumerate(row):
            longest[n] = min(50, max(longest[n], sum(len(piece.text) for piece in line)))
    spare = _text_width() - width * NARROWEST
    return [NARROWEST + spare * share / sum(longest) for share in longest]


# --- Pages ---


class _Bookmarks:
    """Adds each heading to the outline, when it's on a page."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self.level = -1

    def __call__(self, flowable: Flowable) -> None:
        if not (heading := getattr(flowable, "heading", None)):
            return
        level, key, words = heading
        self.level = min(level - 1, self.level + 1)  # a PDF's outline can't skip a level
        self.document.canv.addOutlineEntry(words, key, self.level)


@cache
def _numbered_canvas() -> type[Canvas]:
    """Return a canvas that writes `n / m` at the foot of each page, when it knows how many."""
    from reportlab.pdfgen.canvas import Canvas

    class Numbered(Canvas):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.setViewerPreference("DisplayDocTitle", "true")
            self.pages: list[dict[str, Any]] = []

        def showPage(self) -> None:
            self.pages.append(dict(self.__dict__))
            self._startPage()

        def save(self) -> None:
            for number, page in enumerate(self.pages, 1):
                self.__dict__.update(page)
                self.setFont(SANS, SMALL)
                self.setFillColor(MUTED)
                middle = self._pagesize[0] / 2
                self.drawCentredString(middle, MARGIN / 2, f"{number} / {len(self.pages)}")
                super().showPage()
            super().save()

    return Numbered


# --- The child process ---


def _prepare() -> Answer:
    _covered()
    return lambda request: {
        "file": base64.b64encode(as_pdf(cast("Wanted", request))).decode("ascii")
    }


if __name__ == "__main__":
    serve(_prepare, alarm=60)  # the parent waits for 30 s
