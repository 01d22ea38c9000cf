"""The child process that writes a report as a Word document (DOCX).

It's started by `python -m research.services.reports.word_document`, and gets the same as the one
for PDF.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

from beacon_site.net.child_loop import Answer, serve
from beacon_site.text.markdown import tokens_of
from research.services.reports.file_writer import FileWriter, Line, Place

if TYPE_CHECKING:
    from docx.document import Document
    from docx.text.paragraph import Paragraph

INDENT = 0.63  # cm for each level of a list or quotation
_LINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"


def as_docx(title: str, text: str) -> bytes:
    """Return the report's Markdown as DOCX, with headings, lists, tables and links."""
    import docx

    document = docx.Document()
    document.core_properties.title = title[:255]
    document.core_properties.author = "Beacon"
    document.core_properties.comments = ""
    _Writer(document).write(tokens_of(text))
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


class _Writer(FileWriter):
    def __init__(self, document: Document) -> None:
        super().__init__()
        self.document = document

    def heading(self, level: int, line: Line) -> None:
        _add_line(self.document.add_heading(level=min(9, level)), line)

    def paragraph(self, line: Line, place: Place) -> None:
        from docx.shared import Cm

        paragraph = self.document.add_paragraph()
        if place.depth:
            paragraph.paragraph_format.left_indent = Cm(place.depth * INDENT)
        if place.in_list:
            paragraph.paragraph_format.space_after = 0
        if place.mark:
            paragraph.paragraph_format.first_line_indent = Cm(-INDENT)
            paragraph.add_run(f"{place.mark}\t")
        _add_line(paragraph, line)

    def table(self, rows: list[list[Line]]) -> None:
        width = max(map(len, rows))
        table = self.document.add_table(len(rows), width, style="Light Grid Accent 1")
        for row, lines in zip(table.rows, rows, strict=True):
            for cell, line in zip(row.cells, lines, strict=False):
                _add_line(cell.paragraphs[0], line)
        self.document.add_paragraph()


def _add_line(paragraph: Paragraph, line: Line) -> None:
    for piece in line:
        text, link = piece.text, piece.link
        run = _linked(paragraph, text, link) if link else paragraph.add_run(text)
        run.bold, run.italic = piece.bold or None, piece.italic or None
        run.font.strike = piece.struck or None
        if piece.code:
            run.font.name = "Consolas"


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


def _prepare() -> Answer:
    import docx  # noqa: F401  (takes 0.2 s to load)

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        data = as_docx(request["title"], request["text"])
        return {"file": base64.b64encode(data).decode("ascii")}

    return answer


if __name__ == "__main__":
    serve(_prepare, alarm=60)  # the parent waits for 30 s
