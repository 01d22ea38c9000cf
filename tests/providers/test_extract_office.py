"""Word, PowerPoint and Excel files, e-books, emails and subtitles, whole and broken."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from beacon_site.net import extract_office
from beacon_site.net.charsets import EML, SRT, VTT, XLSX
from beacon_site.net.errors import ProviderRejected
from beacon_site.net.extract import MEMORY_LIMIT, Extracted, Extractor
from memory.services.library.reading import read_document

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
A = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
S = (
    'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
)
RELATIONSHIPS = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
CORE = (
    '<c:p xmlns:c="core" xmlns:dc="http://purl.org/dc/elements/1.1/" '
    'xmlns:dcterms="http://purl.org/dc/terms/"><dc:title>The fleet</dc:title>'
    "<dcterms:modified>2025-04-02T08:00:00Z</dcterms:modified></c:p>"
)


def packed(parts: dict[str, str | bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", how) as made:
        for name, content in parts.items():
            made.writestr(name, content)
    return target.getvalue()


def docx(body: str, **more: str) -> bytes:
    document = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    styles = (
        f'<w:styles {W}><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>'
        '<w:style w:styleId="Titel"><w:name w:val="Title"/></w:style></w:styles>'
    )
    return packed({"word/document.xml": document, "word/styles.xml": styles, **more})


def p(text: str, look: str = "") -> str:
    return f"<w:p><w:pPr>{look}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def slide(title: str, *lines: str) -> str:
    def shape(kind: str, *texts: str) -> str:
        said = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in texts)
        return (
            f'<p:sp><p:nvSpPr><p:nvPr><p:ph type="{kind}"/></p:nvPr></p:nvSpPr>'
            f"<p:txBody>{said}</p:txBody></p:sp>"
        )

    return (
        f"<p:sld {A}>{shape('title', title)}{shape('body', *lines)}{shape('sldNum', '7')}</p:sld>"
    )


def pptx(*slides: str) -> bytes:
    ids = "".join(f'<p:sldId r:id="r{n}"/>' for n in range(len(slides)))
    targets = "".join(
        f'<Relationship Id="r{n}" Target="slides/slide{len(slides) - n}.xml"/>'
        for n in range(len(slides))
    )
    parts: dict[str, str | bytes] = {
        f"ppt/slides/slide{len(slides) - n}.xml": text for n, text in enumerate(slides)
    }
    parts["ppt/presentation.xml"] = f"<p:presentation {A}>{ids}</p:presentation>"
    parts["ppt/_rels/presentation.xml.rels"] = (
        f"<Relationships {RELATIONSHIPS}>{targets}</Relationships>"
    )
    return packed(parts | {"docProps/core.xml": CORE})


def xlsx(rows: str, **more: str) -> bytes:
    return packed(
        {
            "xl/workbook.xml": f'<workbook {S}><sheets><sheet name="Prices" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships {RELATIONSHIPS}><Relationship Id="r1" '
            'Target="/xl/worksheets/sheet1.xml"/></Relationships>',
            "xl/worksheets/sheet1.xml": f"<worksheet {S}><sheetData>{rows}</sheetData></worksheet>",
            "xl/sharedStrings.xml": f"<sst {S}><si><t>Plan</t></si><si><t>Price</t></si>"
            "<si><r><t>Team</t></r><rPh><t>reading</t></rPh></si></sst>",
            "xl/styles.xml": f'<styleSheet {S}><numFmts><numFmt numFmtId="170" formatCode="yyyy\\-mm"/>'
            '</numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="170"/></cellXfs>'
            "</styleSheet>",
            **more,
        }
    )


def epub(*chapters: str, **more: str) -> bytes:
    items = "".join(f'<item id="c{n}" href="t%20{n}.xhtml"/>' for n in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    book = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        "<metadata><dc:title>A short history</dc:title><dc:date>2024-01-09</dc:date></metadata>"
        f"<manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    found = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    parts = {f"OPS/t {n}.xhtml": text for n, text in enumerate(chapters)}
    return packed({"META-INF/container.xml": found, "OPS/book.opf": book, **parts, **more})


@pytest.fixture(scope="module")
def reader() -> Iterator[Extractor]:
    extractor = Extractor()
    yield extractor
    extractor.close()


def read(reader: Extractor, content: bytes, kind: str = "") -> Extracted:
    return reader.extract(content, content_type=kind)


# --- what is read ---


@pytest.mark.requirement("R267")
def test_a_word_file_keeps_headings_lists_and_tables(reader: Extractor):
    table = (
        "<w:tbl><w:tr><w:tc>" + p("Line") + "</w:tc><w:tc>" + p("Cells") + "</w:tc></w:tr>"
        "<w:tr><w:tc>" + p("A") + "</w:tc><w:tc>" + p("2 million") + "</w:tc></w:tr></w:tbl>"
    )
    number = '<w:numPr><w:numId w:val="1"/></w:numPr>'
    made = docx(
        p("The plant", '<w:pStyle w:val="berschrift1"/>')
        + p("It opened in May.")
        + p("one", number)
        + p("two", number)
        + table
        + "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins><w:r><w:t>kept</w:t></w:r></w:ins></w:p>"
        + f"<w:sdt><w:sdtContent>{p('In a form.')}</w:sdtContent></w:sdt>",
        **{"docProps/core.xml": CORE},
    )
    page = read(reader, made)
    assert page.text == (
        "# The plant\n\nIt opened in May.\n\n- one\n- two\n\nLine | Cells\nA | 2 million\n\nkept\n\nIn a form."
    )
    assert page.title == "The fleet"
    assert str(page.published_at) == "2025-04-02"


def test_the_text_of_a_shape_is_read_once(reader: Extractor):
    box = f"<w:txbxContent>{p('In a box.')}</w:txbxContent>"
    both = (
        '<w:p><mc:AlternateContent xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006">'
        f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent></w:p>"
    )
    assert read(reader, docx(both)).text == "In a box."


def test_slides_come_in_the_order_of_the_presentation(reader: Extractor):
    page = read(reader, pptx(slide("First", "a", "b"), slide("Second", "only one")))
    assert page.text == "## First\n\n- a\n- b\n\n## Second\n\nonly one"
    assert page.title == "The fleet"


def test_a_sheet_becomes_a_table_with_days_as_days(reader: Extractor):
    made = xlsx(
        '<row><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row>'
        '<row><c r="A2" t="s"><v>2</v></c><c r="B2" s="1"><v>45383</v></c><c r="C2"><v>0.10000000000000001</v></c></row>'
        '<row><c r="A3" t="inlineStr"><is><t>Solo</t></is></c><c r="B3" s="2"><v>45383</v></c><c r="C3" t="b"><v>1</v></c></row>'
    )
    assert read(reader, made).text == (
        "## Prices\n\nPlan |  | Price\nTeam | 2024-04-01 | 0.1\nSolo | 2024-04-01 | TRUE"
    )


def test_a_book_is_read_in_its_order(reader: Extractor):
    page = read(
        reader,
        epub(
            "<html><body><h1>One</h1><p>It began.</p></body></html>",
            "<html><body><p>It ended.</p></body></html>",
        ),
    )
    assert page.text == "# One\n\nIt began.\n\nIt ended."
    assert (page.title, str(page.published_at)) == ("A short history", "2024-01-09")


def test_an_email_has_its_head_its_text_and_the_names_of_its_files(reader: Extractor):
    mail = (
        b"From: =?utf-8?q?J=C3=BCrgen?= <j@example.org>\r\nTo: ada@example.org\r\n"
        b"Date: Tue, 02 Apr 2024 08:00:00 +0200\r\nSubject: The offer\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: text/html; charset=utf-8\r\n\r\n'
        b"<p>We can deliver in <b>May</b>.</p>\r\n--x\r\nContent-Type: application/pdf\r\n"
        b'Content-Disposition: attachment; filename="offer.pdf"\r\n\r\nxx\r\n--x--\r\n'
    )
    page = read(reader, mail, EML)
    assert page.text.startswith("From: Jürgen <j@example.org>\nTo: ada@example.org\n")
    assert page.text.endswith("We can deliver in May.\n\n- Attachment: offer.pdf")
    assert (page.title, str(page.published_at)) == ("The offer", "2024-04-02")


def test_subtitles_become_paragraphs_without_times(reader: Extractor):
    srt = (
        "1\n00:00:01,000 --> 00:00:02,000\nThe line\n\n2\n00:00:02,000 --> 00:00:03,000\n"
        "The line\nopened in <i>May</i>.\n"
    )
    assert read(reader, srt.encode(), SRT).text == "The line opened in May."
    vtt = (
        "WEBVTT\n\nNOTE nothing\n\n00:01.000 --> 00:02.000\n<v Ada>When?\n\n"
        "00:02.000 --> 00:03.000\n<v Bob>In May.\n"
    )
    assert read(reader, vtt.encode(), VTT).text == "Ada: When?\n\nBob: In May."


SENTENCE = "It opened in May."
ONE_OF_EACH = {
    "fleet.docx": docx(p(SENTENCE)),
    "fleet.pptx": pptx(slide(SENTENCE)),
    "fleet.xlsx": xlsx(f'<row><c t="inlineStr"><is><t>{SENTENCE}</t></is></c></row>'),
    "fleet.epub": epub(f"<p>{SENTENCE}</p>"),
    "fleet.eml": f"From: a@example.org\nSubject: x\n\n{SENTENCE}\n".encode(),
    "fleet.srt": f"1\n00:00:01,000 --> 00:00:02,000\n{SENTENCE}\n".encode(),
    "fleet.vtt": f"WEBVTT\n\n00:01.000 --> 00:02.000\n{SENTENCE}\n".encode(),
}


@pytest.mark.parametrize(("name", "content"), ONE_OF_EACH.items())
@pytest.mark.requirement("R267")
def test_the_library_takes_it(name: str, content: bytes):
    found = read_document(name, content)
    assert found.problem == ""
    assert SENTENCE in found.text


# --- what is refused, with the reason ---


@pytest.mark.requirement("R267")
def test_a_bomb_is_refused(reader: Extractor):
    big = b"<w:document " + W.encode() + b">" + b" " * 60_000_000 + b"</w:document>"
    with pytest.raises(ProviderRejected, match="many times its size"):
        read(reader, packed({"word/document.xml": big}))


def test_many_small_parts_are_refused(reader: Extractor):
    parts: dict[str, str | bytes] = {f"word/{n}.xml": "" for n in range(extract_office.MAX_PARTS)}
    with pytest.raises(ProviderRejected, match="many times its size"):
        read(reader, packed({"word/document.xml": "<a/>"} | parts))


def test_a_table_of_one_long_text_ends_at_the_limit():
    text = "y" * 1_000_000
    row = "<row>" + '<c t="s"><v>0</v></c>' * 100 + "</row>"
    shared = f"<sst {S}><si><t>{text}</t></si></sst>"
    found = extract_office.read(xlsx(row * 300, **{"xl/sharedStrings.xml": shared}), XLSX)
    assert found["text"].startswith("## Prices\n\nyyy")
    assert len(found["text"]) < 5 * extract_office.MAX_CHARACTERS


def test_an_email_to_very_many_is_read(reader: Extractor):
    content = f"From: a@b.c\nSubject: Hello\nTo: {'ada@example.org, ' * 100_000}\n\nHi all.\n"
    found = read(reader, content.encode(), EML)
    assert found.text.startswith("From: a@b.c\nTo: ada@example.org, ada@")
    assert "Subject: Hello" in found.text and found.text.endswith("Hi all.")


def test_entities_are_not_expanded(reader: Extractor):
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    document = (
        f'<!DOCTYPE d [<!ENTITY e0 "boom">{entities}<!ENTITY f SYSTEM "file:///etc/hostname">]>'
        f"<w:document {W}><w:body>{p('It opened. &e11; &f;')}</w:body></w:document>"
    )
    try:
        text = read(reader, packed({"word/document.xml": document})).text
    except ProviderRejected as exc:
        assert "damaged" in str(exc)
    else:
        assert text == "It opened."


def test_a_part_outside_the_package_is_not_read(reader: Extractor):
    made = packed(
        {
            "ppt/presentation.xml": f'<p:presentation {A}><p:sldId r:id="r1"/></p:presentation>',
            "ppt/_rels/presentation.xml.rels": f'<Relationships {RELATIONSHIPS}><Relationship Id="r1" '
            'Target="../../../../etc/hostname"/></Relationships>',
        }
    )
    with pytest.raises(ProviderRejected, match="no text"):
        read(reader, made)


def _protected(content: bytes) -> bytes:
    """Set the flag of encryption in each entry of the zip's directory."""
    made = bytearray(content)
    place = made.find(b"PK\x01\x02")
    while place >= 0:
        made[place + 8] |= 1
        place = made.find(b"PK\x01\x02", place + 4)
    return bytes(made)


WHOLE = docx(p("It opened in May."))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (WHOLE[:400], "damaged"),
        (WHOLE.replace(b"word/document.xml", b"wordxdocument.xml"), "damaged"),
        (packed({"a.txt": "hello"}), "rather than a document"),
        (packed({"word/document.xml": "<w:document"}), "damaged"),
        (packed({"word/document.xml": ""}), "damaged"),
        (packed({"xl/workbook.bin": "x"}), "damaged"),
        (packed({"META-INF/container.xml": "<container/>"}), "damaged"),
        (_protected(WHOLE), "password"),
        (b"\xd0\xcf\x11\xe0" + b"x" * 600, "before 2007"),
        (docx(""), "no text"),
        (epub("<p>x</p>", **{"META-INF/encryption.xml": "<a/>", "META-INF/rights.xml": "<a/>"}), "copy-protected"),
        (epub("<b>" * 40_000), "nested too deeply"),
    ],
)  # fmt: skip
@pytest.mark.requirement("R267")
def test_a_broken_file_is_explained(reader: Extractor, content: bytes, why: str):
    with pytest.raises(ProviderRejected, match=why):
        read(reader, content)


@pytest.mark.parametrize("kind", [SRT, VTT, EML])
def test_text_of_another_kind_is_explained(reader: Extractor, kind: str):
    with pytest.raises(ProviderRejected, match="damaged"):
        read(reader, b"just words\n\nand more of them", kind)


def test_every_beginning_of_a_file_is_read_or_explained(reader: Extractor):
    for whole in (WHOLE, pptx(slide("a", "b")), xlsx("<row/>"), epub("<p>x</p>")):
        for end in range(0, len(whole), 211):
            try:
                read(reader, whole[:end])
            except ProviderRejected as exc:
                assert "crashed" not in str(exc)


def _flipped(content: bytes) -> bytes:
    """Change one byte in fifty, always the same ones."""
    made, chance = bytearray(content), random.Random(26)
    for place in range(0, len(made), 50):
        made[min(place + chance.randrange(50), len(made) - 1)] ^= 1 << chance.randrange(8)
    return bytes(made)


DAMAGES = {
    "whole": lambda content: content,
    "first half": lambda content: content[: len(content) // 2],
    "without its end": lambda content: content[:-10],
    "twice": lambda content: content * 2,
    "flipped bits": _flipped,
    "a megabyte of zeros after it": lambda content: content + bytes(1_000_000),
    "a megabyte of noise before it": lambda content: (
        random.Random(1).randbytes(1_000_000) + content
    ),
    "in UTF-16": lambda content: content.decode("latin-1").encode("utf-16"),
}
BOMBS = {
    "a word file that unpacks to 60 MB": packed({"word/document.xml": b" " * 60_000_000}),
    "a sheet of a million cells": xlsx("<row>" + "<c><v>1</v></c>" * 1_000_000 + "</row>"),
    "a book that nests forty thousand tags": epub("<b>" * 40_000),
    "slides with ten thousand empty parts": packed(
        {"ppt/presentation.xml": "<a/>"} | {f"ppt/{n}.xml": "" for n in range(10_000)}
    ),
}


@pytest.mark.requirement("R267")
def test_sixty_documents_stay_within_the_limits(reader: Extractor):
    kinds = {".eml": EML, ".srt": SRT, ".vtt": VTT}
    damaged = [
        (f"{name}, {damage}", done(content), kinds.get(name[-4:], ""))
        for name, content in ONE_OF_EACH.items()
        for damage, done in DAMAGES.items()
    ]
    assert len(damaged) + len(BOMBS) == 60
    assert SENTENCE in read(reader, ONE_OF_EACH["fleet.docx"]).text
    child = reader.pid

    for name, content, kind in damaged:
        try:
            read(reader, content, kind)
        except ProviderRejected as exc:
            assert ", whole" not in name and str(exc), name
        assert reader.pid == child, f"{name}: the child was killed"
    status = Path(f"/proc/{child}/status").read_text()
    assert int(status.partition("VmHWM:")[2].split()[0]) * 1024 < MEMORY_LIMIT

    for name, content in BOMBS.items():
        try:
            read(reader, content)
        except ProviderRejected as exc:
            assert "crashed" not in str(exc), name
        assert SENTENCE in read(reader, ONE_OF_EACH["fleet.docx"]).text, f"after {name}"
