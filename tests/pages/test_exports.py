"""A saved run as files."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import time
from typing import Any
from uuid import uuid4

import docx
import lxml.html
import psutil
import pypdf
import pytest
import rispy
import structlog
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from docx.table import Table

from beacon_site.net.extract import MIB, ChildProcess
from beacon_site.text.markdown import render
from memory.models import Topic, User
from research.models import Hit, Report, Run
from research.models.reports import source_lines
from research.services.reports import exporting, pdf_document
from research.services.reports.exporting import KINDS
from research.services.reports.file_writer import Piece
from tests.research.factories import (
    make_call,
    make_hit,
    make_hits,
    make_report,
    make_run,
    make_source,
    make_topic,
)


def get(browser: Client, run: Run, kind: str) -> Any:
    return browser.get(reverse("research:run-export", args=[run.topic.slug, run.pk, kind]))


def rows(browser: Client, run: Run) -> list[dict[str, str]]:
    text = get(browser, run, "sources.csv").content.decode()
    return list(csv.DictReader(text.splitlines()))


def test_a_sources_title_makes_no_link_of_its_own(browser: Client, run: Run):
    run.report.sources = [make_source(1, "A](https://evil.example) [B", link="https://a.example")]

    assert r"1. [A\]\(https://evil.example\) \[B](https://a.example)" in run.report.as_markdown()


@pytest.mark.requirement("R62")
def test_the_report_as_markdown_is_the_one_form_of_it(browser: Client, run: Run):
    answer = get(browser, run, "report.md")

    assert answer.content.decode() == run.report.as_markdown()
    assert answer["Content-Disposition"] == (
        'attachment; filename="postgresql-releases-run-2-report.md"'
    )


@pytest.mark.requirement("R62")
def test_the_report_as_html_is_self_contained(browser: Client, run: Run):
    text = get(browser, run, "report.html").content.decode()

    assert "Run #2" in text and 'id="what-changed"' in text and 'id="source-2"' in text
    assert "<link" not in text and "<script" not in text and "src=" not in text
    assert "url(" not in text and "@import" not in text


def words(content: bytes) -> list[str]:
    """Return the words of a Word document in their order, with those in tables."""
    document = docx.Document(io.BytesIO(content))
    found = []
    for block in document.iter_inner_content():
        if isinstance(block, Table):
            cells = [cell.text for row in block.rows for cell in row.cells]
            found += " ".join(cells).split()
        else:
            found += block.text.split()
    return found


MARKDOWN = """## Prices

Since **March**, a *kilowatt hour* costs ~~89~~ `75` dollars,
says [the agency](https://agency.example/a) [1].

> Quoted words.

1. First
2. Second
   - deeper
   - and deeper

| Maker | Price |
|---|---:|
| Lanling | 75 |
| 电池 | 80 |

```
code  with  spaces
```
"""


@pytest.mark.requirement("R350")
def test_the_report_as_word_has_the_words_of_its_html(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run, body=MARKDOWN, sources=[make_source(1, "A & B <i>", link="https://a.example")])

    answer = get(browser, run, "report.docx")
    html = lxml.html.fromstring(str(render(run.report.as_markdown())))
    said = [word for word in words(answer.content) if word not in ("•", *"12")]

    expected = "".join(html.itertext()).split()
    assert [w for w in said if not re.fullmatch(r"\d+\.", w)] == [
        w for w in expected if w not in "12"
    ]
    assert answer["Content-Disposition"].endswith('-report.docx"')


def test_the_report_as_word_has_headings_links_lists_and_tables(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run, body=MARKDOWN + "\n[x](javascript:alert(1)) [y](/topics/)\n")

    document = docx.Document(io.BytesIO(get(browser, run, "report.docx").content))
    texts = {one.text: one for one in document.paragraphs}

    assert texts["Prices"].style.name == "Heading 2"
    assert texts["1.\tFirst"].paragraph_format.left_indent
    assert texts["•\tdeeper"].paragraph_format.left_indent > (
        texts["1.\tFirst"].paragraph_format.left_indent
    )
    assert [cell.text for cell in document.tables[0].rows[1].cells] == ["Lanling", "75"]
    links = [link.address for one in document.paragraphs for link in one.hyperlinks]
    assert "https://agency.example/a" in links
    assert all(link.startswith("https://") for link in links)


@pytest.mark.parametrize("body", ["| a |\n|---|\n| b | c |\n\n| x | y |\n|---|---|\n| z |", "*" * 30_000, "- " * 200, ""])  # fmt: skip
def test_odd_markup_still_gives_a_word_document(browser: Client, topic: Topic, body: str):
    run = make_run(topic)
    make_report(run, body=body)

    assert words(get(browser, run, "report.docx").content)


def pdf_text(content: bytes) -> str:
    """Return the text of a PDF, without the page numbers at the foot of each page."""
    pages = (page.extract_text().strip() for page in pypdf.PdfReader(io.BytesIO(content)).pages)
    return "\n".join(re.sub(r"\d+ / \d+$", "", page) for page in pages)


def pdf_links(content: bytes) -> list[Any]:
    """Return the URLs and the places in the file (as lists) that a PDF links to."""
    found = []
    for page in pypdf.PdfReader(io.BytesIO(content)).pages:
        for note in page.get("/Annots", []):
            link = note.get_object()
            found.append(link["/A"]["/URI"] if "/A" in link else list(link["/Dest"]))
    return found


@pytest.mark.requirement("R351")
def test_the_report_as_pdf_has_the_words_of_its_html(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run, body=MARKDOWN, sources=[make_source(1, "A & B <i>", link="https://a.example")])

    answer = get(browser, run, "report.pdf")
    html = lxml.html.fromstring(str(render(run.report.as_markdown())))
    said = [word for word in pdf_text(answer.content).split() if word != "•"]

    expected = "".join(html.itertext()).split()
    assert [word for word in said if not re.fullmatch(r"\d+\.", word)] == expected
    assert answer["Content-Type"] == "application/pdf"
    assert answer["Content-Disposition"].endswith('-report.pdf"')


@pytest.mark.requirement("R351")
def test_the_report_as_pdf_has_bookmarks_links_and_metadata(browser: Client, topic: Topic):
    run = make_run(topic)
    body = MARKDOWN + "\n##### Deeper\n\n[x](javascript:alert(1)) [y](/topics/) [99]\n"
    make_report(run, body=body, sources=[make_source(1, "A", link="https://a.example/1")])

    content = get(browser, run, "report.pdf").content
    pdf = pypdf.PdfReader(io.BytesIO(content))
    title, (prices, (deeper,), sources) = pdf.outline

    assert pdf.metadata and pdf.metadata.title == title.title == run.report.title
    assert (prices.title, deeper.title, sources.title) == ("Prices", "Deeper", "Sources")
    assert pdf.root_object["/Lang"] == "en"
    citation, *urls = sorted(pdf_links(content), key=lambda link: isinstance(link, str))
    assert citation[0].get_object()["/Type"] == "/Page"
    assert urls == ["https://agency.example/a", "https://a.example/1"]


HOSTILE = """<b>bold</b> &amp;lt; <img src="file:///etc/passwd"/> <font color="__import__('os')">

[a](javascript:alert(1)) [b](https://a.example/"><img>) `</font></para>` <a name="x"/>
"""


@pytest.mark.requirement("R352")
def test_markup_in_a_report_is_text_in_its_pdf(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run, title="<i>T</i> & more", body=HOSTILE, sources=[])

    content = get(browser, run, "report.pdf").content
    text = pdf_text(content)

    assert "<i>T</i> & more" in text and '<b>bold</b> &lt; <img src="file:///etc/passwd"/>' in text
    assert "</font></para>" in text and '<a name="x"/>' in text
    assert pdf_links(content) == ["https://a.example/%22%3E%3Cimg%3E"]


@pytest.mark.requirement("R352")
@pytest.mark.parametrize("body", ["x" * 10_000, "| a | b |\n|---|---|\n| " + "x" * 10_000 + " | c |", "| a | b |\n|---|---|\n| " + "xx " * 4_000 + "| c |"])  # fmt: skip
def test_what_fits_on_no_line_or_page_is_cut_into_several(browser: Client, topic: Topic, body: str):
    run = make_run(topic)
    make_report(run, body=body, sources=[])

    text = pdf_text(get(browser, run, "report.pdf").content)

    assert text.count("x") >= 8_000


@pytest.mark.parametrize("body", ["| a |\n|---|\n| b | c |\n\n| x | y |\n|---|---|\n| z |", "*" * 30_000, "- " * 200, "> " * 99, "", "|" + " a |" * 60 + "\n|" + "---|" * 60, "1. a\n\n1) b", "## \n\n###### a", "a\n\n# " + "word " * 500, "|" + "x " * 5_000 + "|b|\n|---|---|\n| c | d |", "4. a\n5. see example.org [1]"])  # fmt: skip
def test_odd_markup_still_gives_a_pdf(browser: Client, topic: Topic, body: str):
    run = make_run(topic)
    make_report(run, body=body)

    assert run.report.title in pdf_text(get(browser, run, "report.pdf").content)


LINES_OF_CODE = "```\n" + "a\n" * 45_000 + "```"  # takes half a minute as PDF, 6 minutes as Word


@pytest.mark.requirement("R403")
@pytest.mark.parametrize("kind", ["pdf", "word"])
def test_a_document_that_takes_too_long_is_stopped_and_the_next_one_is_created(
    browser: Client, topic: Topic, kind: str
):
    run = make_run(topic)
    make_report(run, body=LINES_OF_CODE)
    child = exporting.child(f"{kind}_document")
    file = {"pdf": "report.pdf", "word": "report.docx"}[kind]
    child._seconds, usual = 1, child._seconds
    began = time.monotonic()
    try:
        answer = get(browser, run, file)
    finally:
        child._seconds = usual

    text = answer.content.decode()
    assert answer.status_code == 409 and time.monotonic() - began < 15
    assert "because it took too much time or memory" in text
    assert "The report is unchanged. Export it as HTML or Markdown instead." in text
    assert child.pid is None
    assert b"a" in get(browser, run, "report.md").content
    Report.objects.filter(run=run).update(body="Short.")
    assert get(browser, run, file).status_code == 200


@pytest.mark.requirement("R403")
def test_documents_are_written_with_a_limit_of_memory_and_without_secrets(
    browser: Client, run: Run, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "hush-hush")
    child = exporting.child("pdf_document")
    child.close()
    get(browser, run, "report.pdf")
    process = psutil.Process(child.pid)

    assert "hush-hush" not in process.environ().values() and "SECRET" not in str(process.environ())
    monkeypatch.setattr(child, "_memory_limit", 1)
    assert "too much time or memory" in get(browser, run, "report.pdf").content.decode()
    assert not process.is_running()


@pytest.mark.requirement("R403")
def test_a_document_that_cannot_be_made_is_explained(
    browser: Client, run: Run, monkeypatch: pytest.MonkeyPatch
):
    program = "import sys, time; print('{}'); sys.stdin.readline(); time.sleep(1.1); sys.exit(1)"
    command = [sys.executable, "-u", "-c", program]
    child = ChildProcess(command, seconds=9, memory_limit=512 * MIB, queue=0.1)
    monkeypatch.setattr(exporting, "child", lambda _module: child)
    with child._slots:
        busy = get(browser, run, "report.pdf")
    wrong = get(browser, run, "report.pdf")

    assert "Other exports are in progress. This report is unchanged." in busy.content.decode()
    assert "can’t be exported in this format" in wrong.content.decode()
    assert (busy.status_code, wrong.status_code) == (409, 409)


def test_a_program_that_cannot_be_started_isnt_called_busy(
    browser: Client, run: Run, monkeypatch: pytest.MonkeyPatch
):
    command = [sys.executable, "-c", "import sys; sys.exit(1)"]
    child = ChildProcess(command, seconds=9, memory_limit=512 * MIB)
    monkeypatch.setattr(exporting, "child", lambda _module: child)
    with structlog.testing.capture_logs() as lines:
        answer = get(browser, run, "report.pdf")

    assert answer.status_code == 409 and "couldn’t start the process" in answer.content.decode()
    [line] = [line for line in lines if line["event"] == "export not created"]
    assert (line["run"], line["format"], line["reason"]) == (run.pk, "pdf_document", "not started")


@pytest.mark.requirement("R352")
def test_a_pdf_shows_the_scripts_it_has_fonts_for_and_says_which_it_lacks(
    browser: Client, topic: Topic
):
    run = make_run(topic)
    known = "Ελληνικά · Русский · Tiếng Việt · Łódź · 人工智能的发展 · 日本語のテキスト · 한국어"
    make_report(run, body=known, sources=[])
    text = pdf_text(get(browser, run, "report.pdf").content)
    assert known in text and "□" not in text and "no font" not in text

    Report.objects.filter(run=run).update(body="Known words · שלום")
    text = pdf_text(get(browser, run, "report.pdf").content)
    assert "Known words · □□□□" in text
    assert "This PDF’s font lacks some characters" in text


@pytest.mark.requirement("R352")
def test_a_chinese_word_in_a_japanese_report_gets_a_font_that_has_it():
    fonts = pdf_document._Fonts("日本語のテキスト: 电池、한국어")

    found = dict(fonts.stretches("池电한ש𠮷", "Courier"))

    assert found["池"] == pdf_document.JAPANESE and found["电"] == pdf_document.CHINESE
    assert found["한"] == pdf_document.KOREAN
    assert found["□□"] == pdf_document.SANS and fonts.has_missing


@pytest.mark.requirement("R352")
@pytest.mark.parametrize("text", ["x" * 9_000, "a b\n" * 3_000, "\t" * 9_000, "电" * 9_000])
def test_a_paragraph_over_many_pages_is_written_in_parts(text: str):
    parts = list(pdf_document._split_long_line([Piece(text, bold=True)]))

    assert "".join(piece.text for part in parts for piece in part) == text
    assert max(sum(pdf_document._length(p.text) for p in part) for part in parts) < 4_000


@pytest.mark.requirement("R61")
def test_exported_html_is_sanitised(browser: Client, topic: Topic):
    run = make_run(topic)
    body = "<img src=x onerror=alert(1)> [x](javascript:alert(2))"
    sources = [make_source(1, "</title><script>alert(3)</script>", link="javascript:alert(4)")]
    make_report(run, body=body, sources=sources)

    text = get(browser, run, "report.html").content.decode()

    assert "<img" not in text and "<script" not in text
    assert not re.search(r'href="javascript', text)


@pytest.mark.requirement("R62", "R49")
def test_sources_as_csv_say_which_are_new_and_which_are_cited(browser: Client, run: Run):
    Hit.objects.filter(run=run, place=1).update(cited_as=1)

    found = rows(browser, run)

    assert [row["state"] for row in found] == ["new", "new", "new", "known", "new"]
    assert found[0]["cited_as"] == "1" and found[0]["domain"] == "example.org"


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", " =", "＝"])
def test_a_title_isnt_a_formula_to_a_spreadsheet(browser: Client, topic: Topic, start: str):
    run = make_run(topic)
    make_report(run)
    make_hit(run, 1, title=f'{start}HYPERLINK("https://evil.example")')

    assert get(browser, run, "sources.csv").content.decode().count("'" + start) == 1


@pytest.mark.requirement("R62")
def test_the_run_as_json_holds_everything(browser: Client, run: Run):
    make_call(run)

    stored = json.loads(get(browser, run, "run.json").content)

    assert stored["run"]["number"] == 2 and stored["topic"]["slug"] == "postgresql-releases"
    assert len(stored["steps"]) == 8 and len(stored["hits"]) == 5
    assert len(stored["delta_items"]) == 6 and len(stored["model_calls"]) == 1
    assert stored["report"]["delta"].startswith("- **New:**") and "manifest" in stored


@pytest.fixture
def cited(topic: Topic) -> Run:
    """A run that cites a dated page and a library document, with characters to escape."""
    run = make_run(topic)
    page = make_source(1, "Costs & {braces} of 50 %\nin a #1 title", link="https://a.example/x_y")
    page["published_at"] = "2026-03-02"
    document = make_source(2, "Our own notes", link=f"library:{uuid4()}/1")
    make_report(run, sources=[page, document])
    return run


def test_references_as_ris_have_one_record_per_cited_source(browser: Client, cited: Run):
    records = get(browser, cited, "references.ris").content.decode().split("ER  - \r\n\r\n")

    assert records.pop() == ""
    page, document = (dict(line.split("  - ") for line in r.splitlines()) for r in records)
    assert page["TY"] == "ELEC" and page["TI"] == "Costs & {braces} of 50 % in a #1 title"
    assert (page["DA"], page["UR"]) == ("2026/03/02", "https://a.example/x_y")
    assert document["TI"] == "Our own notes" and "UR" not in document


@pytest.mark.requirement("R356")
def test_another_program_reads_the_references_as_ris(browser: Client, cited: Run):
    file = get(browser, cited, "references.ris").content.decode()
    page, document = rispy.loads(file)

    assert page["title"] == "Costs & {braces} of 50 % in a #1 title"
    assert (page["type_of_reference"], page["id"], page["publisher"]) == (
        "ELEC",
        "1",
        "example.org",
    )
    assert (page["year"], page["date"]) == ("2026", "2026/03/02")
    assert page["urls"] == ["https://a.example/x_y"]
    assert page["access_date"] == f"{cited.report.created:%Y/%m/%d}"
    assert (document["id"], document["title"]) == ("2", "Our own notes")
    assert "urls" not in document
    assert not page.get("unknown_tag") and not document.get("unknown_tag")


def test_references_as_bibtex_escape_what_tex_would_execute(browser: Client, cited: Run):
    text = get(browser, cited, "references.bib").content.decode()

    assert text.count("@misc{") == 2
    assert r"title = {{Costs \& \{braces\} of 50 \% in a \#1 title}}," in text
    assert "url = {https://a.example/x_y}," in text and "year = {2026}," in text


def test_references_as_csl_json_name_the_day_they_were_read(browser: Client, cited: Run):
    page, document = json.loads(get(browser, cited, "references.json").content)

    read = cited.report.created
    assert page["accessed"] == {"date-parts": [[read.year, read.month, read.day]]}
    assert page["issued"] == {"date-parts": [[2026, 3, 2]]} and page["type"] == "webpage"
    assert page["id"] != document["id"] and "URL" not in document


READERS = {"report.docx": lambda content: " ".join(words(content)), "report.pdf": pdf_text}


def test_chinese_stays_readable_in_every_file(browser: Client, alice: User):
    run = make_run(make_topic(alice, "人工智能"))
    source = make_source(1, "人工智能新闻")
    make_report(run, body="人工智能的发展。 [1]", sources=[source])
    make_hit(run, 1, title="人工智能新闻")

    for kind in KINDS:
        content = get(browser, run, kind).content
        read = READERS.get(kind, bytes.decode)
        assert "人工智能" in read(content)


def test_an_unknown_kind_is_explained(browser: Client, run: Run):
    answer = get(browser, run, "report.odt")

    assert answer.status_code == 404
    assert (
        "report.md, report.html, report.docx, report.pdf, sources.csv, references.bib"
        in answer.content.decode()
    )


def test_a_run_that_is_not_saved_has_nothing_to_export(browser: Client, topic: Topic):
    run = make_run(topic, saved=False)

    answer = get(browser, run, "report.md")

    assert answer.status_code == 409
    assert "Only a saved run can be exported" in answer.content.decode()


@pytest.mark.parametrize("kind", KINDS)
def test_a_stranger_gets_no_file(bob: User, client_of: Any, run: Run, kind: str):
    assert get(client_of(bob), run, kind).status_code == 404


@pytest.mark.parametrize("kind", KINDS)
def test_exporting_changes_nothing_and_its_queries_are_fixed(browser: Client, run: Run, kind: str):
    before = Report.objects.filter(run=run).values().get()
    with CaptureQueriesContext(connection) as few:
        get(browser, run, kind)
    run.hits.all().delete()
    make_hits(run, 40)
    with CaptureQueriesContext(connection) as many:
        get(browser, run, kind)

    assert len(many) == len(few) <= 12
    assert Report.objects.filter(run=run).values().get() == before


@pytest.mark.requirement("R353")
def test_a_report_by_template_lists_its_sources_once_where_it_places_them(
    browser: Client, topic: Topic
):
    run = make_run(topic, settings={"report_template": "{{ new }}\n## Read\n{{ sources }}\n## End"})
    sources = [make_source(1, "A", link="https://a.example/1"), make_source(2, "B")]
    end = "## End\n\nIt ends.\n\n1. one\n2. two"
    report = make_report(run, sources=sources)
    body = f"- It sails. [2]\n\n## Read\n\n{source_lines(report.sources)}\n\n{end}"
    Report.objects.filter(pk=report.pk).update(body=body, delta="- **New:** It sails. [2]")
    places = ["It sails.", ">Read</h2>", 'id="source-1"', ">End</h2>", "It ends."]

    file = get(browser, run, "report.html").content.decode()
    page = browser.get(f"/topics/{topic.slug}/runs/{run.pk}/").content.decode()
    article = page[page.index('id="report"') : page.index("</article>")]
    for shown in (file, article):
        assert shown.count('id="source-1"') == shown.count("https://a.example/1") == 1
        assert sorted(places, key=shown.index) == places
        assert 'href="#source-2"' in shown and ">Sources" not in shown

    assert article.count('id="what-changed"') == 1  # links lead to the fold, which a script opens
    assert '<details class="fold no-print" id="what-changed">' in article

    links = pdf_links(get(browser, run, "report.pdf").content)
    assert [isinstance(link, list) for link in links] == [True, False, False]
