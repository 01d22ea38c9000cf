"""A report as a Word document (DOCX), from the same Markdown as its other exports."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from beacon_site.text.cleaning import clean
from beacon_site.text.markdown import tokens_of

if TYPE_CHECKING:
    from docx.document import Document
    from docx.text.paragraph import Paragraph
    from markdown_it.token import Token

    from research.models import Run

INDENT = 0.63  # cm for each level of a list or quotation
_LINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"


def as_docx(run: Run) -> bytes:
    """Return the report as DOCX, with headings, lists, tables and links."""
    import docx  # only here, since it needs 20 MB

    report = run.report
    document = docx.Document()
    document.core_properties.title = report.title[:255]
    document.core_properties.author = "Beacon"
    document.core_properties.comments = ""
    _Writer(document).write(tokens_of(report.as_markdown()))
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


class _Writer:
    """Writes the blocks of a Markdown document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.lists: list[int | None] = []  # the next number of each open list; None: bullets
        self.quotes = 0
        self.mark = ""  # of the list item whose first paragraph comes next

    def write(self, tokens: list[Token]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.type == "table_open":
                end = next(n for n in range(at, len(tokens)) if tokens[n].type == "table_close")
                self.table(tokens[at:end])
                at = end
            elif token.type == "heading_open":
                paragraph = self.document.add_heading(level=min(9, int(token.tag[1]) - 1))
                _add_inline(paragraph, tokens[at + 1])
                at += 1
            else:
                self.block(token)
            at += 1

    def block(self, token: Token) -> None:
        kind = token.type
        if kind == "bullet_list_open":
            self.lists.append(None)
        elif kind == "ordered_list_open":
            self.lists.append(int(token.attrs.get("start", 1)))
        elif kind in ("bullet_list_close", "ordered_list_close"):
            self.lists.pop()
        elif kind == "list_item_open":
            self.next_item()
        elif kind in ("blockquote_open", "blockquote_close"):
            self.quotes += token.nesting
        elif kind in ("fence", "code_block"):
            for line in token.content.rstrip("\n").split("\n"):
                self.paragraph().add_run(line).font.name = "Consolas"
        elif kind == "inline":
            _add_inline(self.paragraph(), token)

    def next_item(self) -> None:
        number = self.lists[-1]
        if number is None:
            self.mark = "•\t"
        else:
            self.mark = f"{number}.\t"
            self.lists[-1] = number + 1

    def paragraph(self) -> Paragraph:
        from docx.shared import Cm

        paragraph = self.document.add_paragraph()
        depth = len(self.lists) + self.quotes
        if depth:
            paragraph.paragraph_format.left_indent = Cm(depth * INDENT)
        if self.lists:
            paragraph.paragraph_format.space_after = 0
        if self.mark:
            paragraph.paragraph_format.first_line_indent = Cm(-INDENT)
            paragraph.add_run(self.mark)
            self.mark = ""
        return paragraph

    def table(self, tokens: list[Token]) -> None:
        rows: list[list[Token]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(token)
        width = max(map(len, rows), default=0)
        if not width:
            return
        table = self.document.add_table(len(rows), width, style="Light Grid Accent 1")
        for row, cells in zip(table.rows, rows, strict=True):
            for cell, token in zip(row.cells, cells, strict=False):
                _add_inline(cell.paragraphs[0], token)
        self.document.add_paragraph()


def _add_inline(paragraph: Paragraph, token: Token) -> None:
    """Add a line's words with their formatting and links."""
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
            paragraph.add_run(" " if kind == "softbreak" else "\n")
        elif child.content:
            text = clean(child.content)[0]
            run = _linked(paragraph, text, link) if _is_outside(link) else paragraph.add_run(text)
            run.bold, run.italic, run.font.strike = bold or None, italic or None, struck or None
            if kind == "code_inline":
                run.font.name = "Consolas"


def _is_outside(link: str) -> bool:
    """Whether a link leads to the web. Others lead nowhere from a file."""
    return link.startswith(("http://", "https://"))


def _linked(paragraph: Paragraph, text: str, address: str) -> Any:
    """Add a run inside a hyperlink. python-docx can read hyperlinks, but not add them."""
    from docx.oxml import OxmlElement
    from docx.oxml.ns import qn
    from docx.shared import RGBColor
    from docx.text.run import Run as WordRun

    hyperlink = OxmlElement("w:hyperlink")
    hyperlink.set(qn("r:id"), paragraph.part.relate_to(address, _LINK, is_external=True))
    element = OxmlElement("w:r")
    hyperlink.append(element)
    paragraph._p.append(hyperlink)
    run = WordRun(element, paragraph)
    run.text = text
    run.font.color.rgb, run.font.underline = RGBColor(0x05, 0x63, 0xC1), True
    return run
