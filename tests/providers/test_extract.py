"""The reader of pages: what it finds, and that no page stops it for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import psutil
import pytest

from beacon_site.net.errors import ProviderRejected, ProviderUnavailable
from beacon_site.net.extract import Extractor, get_extractor, valid_text
from beacon_site.net.reflow import join_hard_wraps
from tests.providers.pdf import pdf

ROOT = Path(__file__).parents[2]
READY = "import sys, time; print('{}', flush=True); sys.stdin.readline(); "


@pytest.fixture(scope="module")
def reader() -> Iterator[Extractor]:
    """One warm reader for all tests that do not break it."""
    extractor = Extractor()
    yield extractor
    extractor.close()


@pytest.fixture
def scripted() -> Iterator[list[Extractor]]:
    """Extractors to be closed at the end of the test."""
    made: list[Extractor] = []
    yield made
    for extractor in made:
        extractor.close()


def read(reader: Extractor, html: str) -> str:
    return reader.extract(html.encode(), content_type="text/html").text


def article(*paragraphs: str) -> str:
    body = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f"<html><body><article>{body}</article></body></html>"


LONG = "The line is to make two million cells a year once both halls have been equipped. " * 4


RULES = (
    "<div><a href='/a'>Home</a></div>"
    f"<div><div><h1>Rules of the workshop</h1><p>{LONG}</p></div>"
    "<div><h2>Machines</h2><p>Members may use the lathe if they:</p>"
    "<ol><li>have passed\n   the safety course of this year</li>"
    "<li>wear goggles and <b>no</b> gloves</li></ol></div>"
    f"<div><h2>Fees</h2><p>{LONG} Each member pays 12 euros a month.</p></div></div>"
    "<div><ul><li>Imprint of the association and its board</li></ul></div>"
)


def test_lists_and_headings_are_kept_if_a_page_does_not_mark_its_main_part(reader: Extractor):
    text = read(reader, f"<html><body>{RULES}</body></html>")

    assert "- have passed the safety course of this year\n- wear goggles and no gloves" in text
    assert "\n\n## Fees\n\n" in text
    assert "Imprint" not in text


def test_line_breaks_inside_a_paragraph_are_joined(reader: Extractor):
    text = read(reader, article(LONG, "It was\nbuilt\n   in <b>two</b>\nyears.", LONG))

    assert "\n\nIt was built in two years.\n\n" in text


def test_chinese_lines_are_joined_without_a_space(reader: Extractor):
    text = read(reader, article("新型固态电池的能量密度\n提高了两倍。" * 20))

    assert "能量密度提高了两倍" in text


def test_korean_lines_are_joined_with_a_space(reader: Extractor):
    text = read(reader, article("새로운 고체 배터리를\n발표했다. " * 20))

    assert "배터리를 발표했다" in text


def test_lists_and_tables_keep_a_line_for_each_entry(reader: Extractor):
    rest = "<ul><li>one\nthing<li>two</ul><table><tr><td>a<td>b<tr><td>1<td>2</table>"
    text = read(reader, f"<article><p>{LONG}</p>{rest}</article>")

    assert "- one thing\n- two" in text
    assert "| a | b |\n| 1 | 2 |" in text


def test_a_page_of_few_words_is_read_as_well(reader: Extractor):
    page = "<title>Short</title><nav>Menu</nav><div>Only <b>this</b>.</div><script>no()</script>"
    found = reader.extract(page.encode(), content_type="text/html")

    assert (found.title, found.text) == ("Short", "Only this.")


def test_a_heading_of_a_menu_is_not_taken_for_the_title(reader: Extractor):
    page = "<title>Lints - The book</title><div><h1>Keyboard shortcuts</h1></div>" + article(LONG)

    assert reader.extract(page.encode(), content_type="text/html").title == "Lints - The book"


@pytest.mark.parametrize(
    ("head", "day"),
    [
        (
            '<meta property="article:published_time" content="2026-05-04T03:00:00Z">',
            date(2026, 5, 4),
        ),
        (
            '<script type="application/ld+json">{"datePublished":"2026-05-04"}</script>',
            date(2026, 5, 4),
        ),
        ('<meta name="date" content="2199-01-01">', None),
        ("", None),
    ],
)
def test_the_date_is_the_one_that_the_page_declares(head: str, day: date | None, reader: Extractor):
    page = f"<html><head>{head}</head><body><p>{LONG} On 3 March 2019 it rained.</p></body></html>"

    assert reader.extract(page.encode(), content_type="text/html").published_at == day


def test_markdown_keeps_its_lists_and_code_and_joins_its_paragraphs(reader: Extractor):
    source = "---\na: b\n---\n# Cells\n\nA line\nbroken.\n\n- one\n- two\n\n```\nx\ny\n```\nEnd.\n"
    found = reader.extract(source.encode(), content_type="text/markdown")

    assert found.title == "Cells"
    assert (
        found.text
        == "---\na: b\n---\n# Cells\n\nA line broken.\n\n- one\n- two\n\n```\nx\ny\n```\n\nEnd."
    )


def test_markup_sent_as_plain_text_is_read_as_markup(reader: Extractor):
    assert (
        reader.extract(b"<!DOCTYPE html><p>Hi there", content_type="text/plain").text == "Hi there"
    )


def test_a_pdf_is_read_with_its_title_and_date(reader: Extractor):
    paper = pdf("Cells that last were meas-", "ured for a year.", title="On cells")
    found = reader.extract(paper, content_type="application/pdf")

    assert found.text == "Cells that last were measured for a year."
    assert (found.title, found.published_at) == ("On cells", date(2026, 3, 14))


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (pdf(), "application/pdf", "only scanned images"),
        (pdf("secret", password="x"), "application/pdf", "password-protected"),
        (b"%PDF-1.7 and nothing else", "application/pdf", "damaged"),
        (b"<html>", "application/pdf", "damaged"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "text/html", "didn’t send text"),
        (b"PK\x03\x04" + bytes(50), "text/plain", "rather than a document"),
        (bytes(range(256)) * 8, "application/octet-stream", "didn’t send text"),
        (b"", "text/html", "page has no text"),
        (b"\x00\x00\x00", "text/html", "page has no text"),
    ],
)
def test_what_cannot_be_read_says_why(content: bytes, kind: str, words: str, reader: Extractor):
    with pytest.raises(ProviderRejected, match=words):
        reader.extract(content, content_type=kind)


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("<p " + " ".join(f"a{n}=1" for n in range(50_000)) + ">x</p>", "too many attributes"),
        ("<p " + "/a" * 201 + ">x", "too many attributes"),
        ("<div>" * 100_000 + "x", "nested too deep"),
        ("<b>" * 501 + "x", "nested too deep"),
    ],
)
def test_a_page_built_to_stall_is_refused_at_once(page: str, words: str, reader: Extractor):
    before = reader.pid
    started = time.monotonic()
    with pytest.raises(ProviderRejected, match=words):
        read(reader, page)

    assert time.monotonic() - started < 10  # the limit for reading a page is higher
    assert reader.pid == before or before is None


@pytest.mark.parametrize(
    "page",
    [
        "<p " + " ".join(f"a{n}=1" for n in range(200)) + ">Fine",
        "<div>" * 400 + "Fine" + "</div>" * 400,
        "<p>Fine<li>" * 2000,
        '<p data-x="' + "a b " * 5000 + '">Fine',
        "<script>" + "if (a<b && c>d) {} " * 3000 + "</script><p>Fine",
        "<!-- " + "<div>" * 3000 + " --><p>Fine",
    ],
)
def test_odd_but_harmless_markup_is_read(page: str, reader: Extractor):
    assert "Fine" in read(reader, page)


@pytest.mark.parametrize(
    "page",
    [
        "<td>" * 300_000 + "x",
        "<p>x " * 300_000,
        "<a href=x>link</a> " * 60_000,
        "<" * 2**21,
        "<main>" + "<ul><li>" * 100 + "<b>x</b>y" * 60_000,
        "<div></x>" * 60_000,
        "<main><dl>" + "<dt>a<dd>" * 100 + "<dl><dt>b<dd>c" * 200,
    ],
)
def test_two_mebibytes_of_tags_end_within_the_limits(page: str, reader: Extractor):
    started = time.monotonic()
    try:
        read(reader, page)
    except ProviderRejected as exc:
        assert str(exc)
    assert time.monotonic() - started < 20


def test_html_is_read_up_to_two_mebibytes(reader: Extractor):
    page = "<p>Begin " + "x" * 2**21 + " End</p>"

    text = read(reader, page)

    assert text.startswith("Begin")
    assert "End" not in text


def test_text_never_holds_nul_or_lone_surrogates(reader: Extractor):
    text = read(
        reader,
        article(
            "A\x00B&#0;C&#xD800;D\ud83d\ude00&#x1F600;".encode("utf-8", "surrogatepass").decode(
                "utf-8", "replace"
            )
            + LONG
        ),
    )

    assert "\x00" not in text
    assert text.encode("utf-8").decode("utf-8") == text


def test_valid_text_replaces_what_cannot_be_stored():
    assert valid_text("a\x00b\ud800c\x1b\n\td\x85") == "ab\ufffdc\n\td"


def test_a_reader_that_hangs_is_killed_and_replaced(scripted: list[Extractor]):
    slow = Extractor(seconds=0.4, command=[sys.executable, "-c", READY + "time.sleep(60)"])
    scripted.append(slow)
    for _page in range(2):
        with pytest.raises(ProviderRejected, match="took too long"):
            slow.extract(b"<p>x")
        assert slow.pid is None


def test_a_reader_that_takes_too_much_memory_is_killed(scripted: list[Extractor]):
    greedy = READY + "x = b'x' * 200_000_000; time.sleep(60)"
    reader = Extractor(memory_limit=100 * 2**20, command=[sys.executable, "-c", greedy])
    scripted.append(reader)
    with pytest.raises(ProviderRejected, match="too much memory"):
        reader.extract(b"<p>x")


def test_a_reader_that_crashes_costs_its_page_alone(scripted: list[Extractor]):
    crash = "page = __import__('json').loads(sys.stdin.readline()); sys.exit(1)"
    reader = Extractor(
        command=[sys.executable, "-c", "import sys; print('{}', flush=True); " + crash]
    )
    scripted.append(reader)

    with pytest.raises(ProviderRejected, match="crashed the document reader"):
        reader.extract(b"<p>x")


def test_a_reader_that_cannot_be_started_is_reported(scripted: list[Extractor]):
    reader = Extractor(command=["/nowhere/python"])
    scripted.append(reader)

    with pytest.raises(ProviderUnavailable, match="couldn’t be started"):
        reader.extract(b"<p>x")


def test_a_reader_killed_between_pages_is_replaced_unseen(scripted: list[Extractor]):
    reader = Extractor()
    scripted.append(reader)
    reader.extract(b"<p>one")
    first = reader.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)

    assert reader.extract(b"<p>two").text == "two"
    assert reader.pid != first


def test_many_threads_share_one_reader(reader: Extractor):
    with ThreadPoolExecutor(8) as pool:
        pages = [f"<p>page {number}".encode() for number in range(40)]
        texts = [found.text for found in pool.map(reader.extract, pages)]

    assert texts == [f"page {number}" for number in range(40)]


def test_a_forked_process_starts_a_reader_of_its_own(reader: Extractor):
    reader.extract(b"<p>one")
    parents_child = reader.pid
    source, sink = os.pipe()
    forked = os.fork()
    if forked == 0:
        try:
            text = reader.extract(b"<p>from the fork").text
            os.write(sink, f"{text}, {reader.pid}".encode())
            reader.close()
        finally:
            os._exit(0)
    os.waitpid(forked, 0)
    text, _, pid = os.read(source, 100).decode().partition(", ")

    assert text == "from the fork"
    assert int(pid) != parents_child
    assert reader.extract(b"<p>two").text == "two"
    assert reader.pid == parents_child


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_reader_ends_with_its_process(how: signal.Signals):
    program = (
        "import signal, time\n"
        # A shell that started the tests in the background has them ignore this signal.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from beacon_site.net.extract import get_extractor\n"
        "get_extractor().extract(b'<p>Hello')\n"
        "print(get_extractor().pid, flush=True)\n"
        "time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, cwd=ROOT, stderr=subprocess.DEVNULL
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.send_signal(how)
    parent.wait(10)
    parent.stdout.close()

    child.wait(5)
    assert not child.is_running()


def test_warming_up_does_not_wait(scripted: list[Extractor]):
    # It never says that it is ready, so waiting for that would fail.
    reader = Extractor(seconds=1, command=[sys.executable, "-c", "import time; time.sleep(60)"])
    scripted.append(reader)
    reader.warm_up()

    assert reader.pid is not None and not reader.is_ready


def test_a_reader_ends_after_its_rest_and_the_next_document_gets_another():
    reader = Extractor(rest=2)
    reader.extract(b"<p>One")
    first = reader.pid
    assert first is not None
    ended_by = time.monotonic() + 30
    while reader.pid is not None or psutil.pid_exists(first):
        assert time.monotonic() < ended_by
        time.sleep(0.05)

    assert reader.extract(b"<p>Two").text == "Two"
    reader.close()


def test_a_busy_reader_lets_another_one_read_up_to_its_limit():
    reader = Extractor(most=2)
    with ThreadPoolExecutor(4) as pool:
        texts = [
            one.text for one in pool.map(reader.extract, [b"<p>Page %d" % n for n in range(8)])
        ]

    assert texts == [f"Page {n}" for n in range(8)]
    assert [one.pid is not None for one in (reader, *reader._others)] == [True, True]
    reader.close()


def test_no_secret_of_ours_is_in_the_readers_environment(scripted: list[Extractor], monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "hush-hush")
    reader = Extractor()
    scripted.append(reader)
    reader.extract(b"<p>x")
    assert reader.pid is not None

    assert "hush-hush" not in psutil.Process(reader.pid).environ().values()


def test_the_process_has_one_extractor():
    assert get_extractor() is get_extractor()


def test_items_that_are_set_in_keep_to_themselves_and_continue_below() -> None:
    text = join_hard_wraps(
        "Fixes\n-----\n * One that\n   goes on.\n * Two.\n\n1.  Three\n    goes on.\n"
    )
    assert text == "Fixes\n-----\n * One that goes on.\n * Two.\n\n1. Three goes on."


def test_the_sites_name_is_not_taken_for_the_title(reader: Extractor) -> None:
    body = article(LONG).replace("<article>", "<h1>Node documentation</h1><article>")
    html = body.replace("<html>", "<html><title>HTTP/2 | Node documentation</title>")
    assert reader.extract(html.encode(), content_type="text/html").title.startswith("HTTP/2")


def rows_of(reader: Extractor, table: str) -> list[str]:
    text = read(reader, article(LONG, LONG).replace("</article>", f"{table}</article>"))
    return [line for line in text.split("\n") if " | " in line]


def test_a_cell_that_reaches_over_rows_and_columns_leaves_no_row_short(reader: Extractor):
    table = (
        "<table><tr><th>Hall</th><th>Line</th><th>Opens</th></tr>"
        "<tr><td rowspan=2>North</td><td>A</td><td>2027</td></tr><tr><td>B</td><td>2028</td></tr>"
        "<tr><td>South</td><td colspan=2>none</td></tr></table>"
    )

    assert rows_of(reader, table) == [
        "| Hall | Line | Opens |", "| North | A | 2027 |", "| North | B | 2028 |", "| South | none |  |",
    ]  # fmt: skip


@pytest.mark.parametrize("span", ["rowspan=65534 colspan=1000", "rowspan=-1 colspan=x"])
def test_absurd_spans_cost_little(reader: Extractor, span: str):
    table = f"<table>{f'<tr><td {span}>a</td><td>b</td></tr>' * 300}</table>"

    began = time.monotonic()
    assert len(read(reader, article(LONG).replace("</article>", f"{table}</article>"))) < 200_000
    assert time.monotonic() - began < 5


def test_a_huge_table_keeps_its_rows(reader: Extractor):
    """A page with so many tags isn't read by trafilatura."""
    rows = "".join(f"<tr><td>L{n}</td><td>Open</td><td>{n}</td></tr>" for n in range(10_000))

    told = rows_of(reader, f"<table><tr><th>Line</th><th>State</th><th>No</th></tr>{rows}</table>")

    assert told[0] == "| Line | State | No |"
    assert (told[-1], len(told)) == ("| L9999 | Open | 9999 |", 10_001)


def main_page(inside: str) -> str:
    return f"<html><body><nav>Home</nav><main><p>{LONG}</p>{inside}</main></body></html>"


@pytest.mark.requirement("R408")
@pytest.mark.parametrize(
    ("inside", "told"),
    [
        (
            "<table><tr><th>No<th>Name<tr><td>1<td><a href=/1>Zoo line</a><tr><td>2<td><a href=/2>Port line</a></table>",
            "| No | Name |\n|---|---|\n| 1 | Zoo line |\n| 2 | Port line |",
        ),
        (
            "<h2>Open <a href='#o'>#</a></h2><ul><li><a href=/1>Zoo</a><li><a href=/2>Port</a></ul><p>End.</p>",
            "## Open\n\n- Zoo\n- Port\n\nEnd.",
        ),
        ("<ul><li>Zoo<ul><li><p>at noon</p></ul></ul>", "- Zoo\n  - at noon"),
        ("<dl><dt>Zoo<dd>opens<dt>Port<dd>closes</dl>", "- Zoo: opens\n- Port: closes"),
        (
            "<table><thead><tr><th colspan=2>Line<th>Opens</thead><tr><td>A<td>B<td><img alt=soon src=x></table>",
            "| Line |  | Opens |\n|---|---|---|\n| A | B | soon |",
        ),
        ("<table><tr><td><table><tr><td>Only<td>cells</table></table>", "| Only | cells |"),
        ("<pre>a\n  b</pre>", "```\na\n  b\n```"),
        ("<p>Noon<sup><a href=#f>[1]</a></sup> or 5 m<sup>2</sup>.</p>", "Noon or 5 m2."),
        ("<p hidden>x</p><div class='toc'>y</div><div aria-hidden=true>z</div><p>Seen.</p>", "Seen."),
        (
            "<ul>" + "".join(f"<li><a href='#{n}'>Part {n}</a>" for n in range(5)) + "</ul><p>Seen.</p>",
            "Seen.",
        ),
        (
            "<p>Seen.</p><h2>Related</h2><ul>" + "".join(f"<li><a href='/{n}'>Page {n}</a>" for n in range(5)) + "</ul>",
            "Seen.",
        ),
        ("<details><summary>When?</summary><p>At noon.</p></details>", "When?\n\nAt noon."),
        ("<a href=/z><h3>Zoo</h3><p>Opens.</p></a>", "### Zoo\n\nOpens."),
        ("<p>One<br>two<br><br>three</p>", "One two\n\nthree"),
        ("<aside class=callout-note>Ends soon.</aside><aside>Ads</aside>", "Ends soon."),
        ("<form><h1>Trams</h1><p>A line.</p><input></form><form>Search<input></form>", "# Trams\n\nA line."),
    ],
    ids=(
        "links-table links-list nested terms spans layout code footnote hidden contents related details card breaks note form"
    ).split(),
)  # fmt: skip
def test_the_main_part_is_read_with_its_structure(inside: str, told: str, reader: Extractor):
    assert read(reader, main_page(inside)) == f"{LONG.strip()}\n\n{told}"


FIVE = range(5)


@pytest.mark.parametrize(
    ("inside", "told"),
    [
        (
            "<ul>" + "".join(f"<li>Fee {n}, see <a href='#s{n}'>there</a>" for n in FIVE) + "</ul>",
            "\n".join(f"- Fee {n}, see there" for n in FIVE),
        ),
        ("<table><tr style='display:/**/none'><td>x<td>y<tr><td>A<td hidden>z<td>B</table>", "| A | B |"),
        ("<pre>a<span hidden>x</span></pre><p class='hidden'>y</p><p class='hidden md:block'>b</p>", "```\na\n```\n\nb"),
        ("<h2><button>How much?</button></h2><p>Price: <span aria-hidden=TRUE>19</span> a month</p>", "## How much?\n\nPrice: 19 a month"),
        ("<h2>New in C#</h2><p>A.</p><h2>B <a href=#b>#</a></h2><p>C.</p>", "## New in C#\n\nA.\n\n## B\n\nC."),
        ("<table><tr><td>Menu<td><h2>Head</h2><p>One.</p></table>", "Menu\n\n## Head\n\nOne."),
        ("<table><tr><td>A<td>B<tr><td>1<td><table><tr><td>n<td>m</table></table>", "| A | B |\n| 1 | n m |"),
        ("<dl><dt>A<dd><ul><li>x<li>y</ul></dl>", "- A:\n  - x\n  - y"),
        ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
    ],
    ids="notes hidden-rows hidden button sharp layout nested-table term-list fence".split(),
)  # fmt: skip
def test_what_a_person_sees_is_read_and_nothing_else(inside: str, told: str, reader: Extractor):
    assert read(reader, main_page(inside)) == f"{LONG.strip()}\n\n{told}"


def test_a_small_article_is_not_taken_for_a_page_with_very_many_tags(reader: Extractor):
    rest = "".join(f"<p>Stop {n} <b>is</b> <i>open</i></p>" for n in range(11_000))
    text = read(reader, f"<html><body><article><p>{LONG}</p></article><div>{rest}</div></body>")

    assert "Stop 10999 is open" in text


def test_a_page_of_links_is_read(reader: Extractor):
    links = "".join(f"<li><a href='/{n}'>Advisory {n} about the tram</a>" for n in range(9))
    text = read(reader, f"<html><body><main><h1>Advisories</h1><ul>{links}</ul></main></body>")

    assert text.startswith("# Advisories\n\n- Advisory 0 about the tram\n- Advisory 1")


@pytest.mark.parametrize(
    "text",
    [
        "Trams\n~~~~~\n\nA line\n\nBuses\n~~~~~\n\nB line",
        "== Trams\nA line\n\n.Lines\n[cols=2]\n|===\n|A |B\n|===",
        "Status: Final\nCreated: 2026-01-02\n\nA line",
        "+---+-----+\n| A | B   |\n+===+=====+\n| 1 |     |\n|   | two |\n+---+-----+",
        "{|\n! Line\n! Opens\n|-\n| A\n| 2027\n|}",
        ":Author: Ada\n:Status: Draft\n\n.. note:: A line",
    ],
)
def test_lines_of_other_markup_are_not_joined(text: str):
    assert join_hard_wraps(text).replace("\n\n", "\n") == text.replace("\n\n", "\n")


@pytest.mark.parametrize(
    ("front", "title"),
    [
        ("title: >-\n  Long", "A line"),
        ("title: ''", "A line"),
        ("title: Tram # 5", "Tram"),
        ('title: "A # b"', "A # b"),
        (f"title:{' ' * 5_000}{'x' * 500}", "A line"),
    ],
)
def test_a_title_in_front_matter_is_a_plain_value(front: str, title: str, reader: Extractor):
    found = reader.extract(f"---\n{front}\n---\nA line\n".encode(), content_type="text/plain")

    assert found.title == title


def test_a_rule_above_prose_does_not_begin_front_matter():
    text = "---\nNote: a rule that is\nwrapped.\n\n---\nEnd"

    assert join_hard_wraps(text).startswith("---\nNote: a rule that is wrapped.")


def test_three_tildes_begin_code_below_a_short_line():
    assert (
        join_hard_wraps("foo\n~~~\nx = 1\ny = 2\n~~~\n\nA\nB")
        == "foo\n\n~~~\nx = 1\ny = 2\n~~~\n\nA B"
    )


def test_the_front_matter_of_a_page_is_kept_and_gives_its_title(reader: Extractor):
    source = (
        "---\ntitle: 'Tram lines'\nlines:\n  - name: A\n    opens: 2027\n---\n\nA long\nline.\n"
    )
    found = reader.extract(source.encode(), content_type="text/markdown")

    assert found.title == "Tram lines"
    assert found.text == source.replace("long\n", "long ").strip()


def test_what_is_crossed_out_is_not_part_of_the_text(reader: Extractor):
    body = (
        "<h1>Prices</h1><p>The list of prices is valid for all lines of the city and its suburbs.</p>"
        "<p>A ticket costs <s>9 €</s> 10 € on each day of the week, also at night.</p>"
        "<ul><li><del>Free delivery</del></li><li>Gift wrap for everyone who asks</li></ul>"
    )
    text = read(reader, f"<html><body><main>{body}</main></body></html>")

    assert "costs 10 €" in text
    assert "9 €" not in text
    assert "Free delivery" not in text
    assert "Gift wrap" in text
