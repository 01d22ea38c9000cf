"""Tables with spans, HTML tables in Markdown, and files that only have data."""

from __future__ import annotations

import time
import tracemalloc

import pytest

from beacon_site.text import tables
from research.claims import blocks, structured
from research.claims.blocks import ROW

FARES = [("Centre, Adults", "2.40"), ("Centre, Children", "1.20"), ("Harbour, Adults", "3.10"), ("Harbour, Children", "1.60")]  # fmt: skip


def rows(text: str) -> list[tuple[str, str]]:
    """Return the subject and the first value of each row."""
    return [(e.subject, e.fields[0][1]) for e in blocks.parse(text, "en") if e.kind == ROW]


@pytest.mark.parametrize(
    "table",
    [
        # each zone is named once
        ("| Zone | For | Fare |\n|---|---|---|\n| Centre | Adults | 2.40 |\n| | Children | 1.20 |\n"
        "| Harbour | Adults | 3.10 |\n| | Children | 1.60 |\n"),
        # a cell spans two rows
        ("| Zone | For | Fare |\n|---|---|---|\n| Centre #{rowspan=2} | Adults | 2.40 |\n| Children | 1.20 |\n"
        "| Harbour {: rowspan=\"2\"} | Adults | 3.10 |\n| Children | 1.60 |\n"),
        ("| Zone | For | Fare |\n|---|---|---|\n| Centre | Adults | 2.40 |\n| ^^ | Children | 1.20 |\n"
        "| Harbour | Adults | 3.10 |\n| ^^ | Children | 1.60 |\n"),
        ("<table>\n<thead><tr><th>Zone<th>For<th>Fare</tr></thead>\n<tr><td rowspan=2><b>Centre</b></td>\n<td>\nAdults</td><td>2.40</td></tr>"
        "<tr><td>Children</td><td>1.20</td></tr><tr><td rowspan='2'>Harbour<td>Adults<td>3.10"
        "<tr><td>Children<td>1.60</table>\n"),
        ('{|\n! Zone !! For !! Fare\n|-\n| rowspan="2" | Centre || Adults || 2.40\n|-\n| Children || 1.20\n|-\n'
        '| rowspan="2" | Harbour || Adults || 3.10\n|-\n| Children || 1.60\n|}\n'),
        ("|===\n|Zone |For |Fare\n\n.2+|Centre |Adults |2.40\n|Children |1.20\n.2+|Harbour |Adults |3.10\n"
        "|Children |1.60\n|===\n"),
    ],
)  # fmt: skip
def test_a_row_has_the_text_of_cells_that_span_it(table: str):
    assert rows(f"# Fares\n\n{table}") == FARES


def test_an_html_table_has_one_name_for_columns_with_two_headers():
    page = (
        "<table><caption>Fares</caption><tr><th rowspan=2>Line<th colspan=2>2027</tr><tr><th>Adults<th>Children</tr>"
        "<tr><td>T1<td>2.40<td><table><tr><td>1.20</td><td>by day</td></tr></table></td></tr>"
        "<tr><td colspan=3>Night</td></tr><tr><td>N1<td>3.10<td><ul><li>1.60<li>free</ul></tr></table>"
    )

    found = [e for e in blocks.parse(f"# Trams\n\n{page}\n", "en") if e.kind == ROW]

    assert [e.fields for e in found] == [
        (("2027 Adults", "2.40"), ("2027 Children", "1.20 by day")),
        (("2027 Adults", "3.10"), ("2027 Children", "1.60; free")),
    ]
    assert found[1].headings[-1] == "Night"


def test_an_html_table_with_one_column_is_text():
    page = "<table><tr><td>\n\nThe tram runs every ten minutes on workdays.\n\n</td></tr></table>"

    (entry,) = blocks.parse(page, "en")
    assert entry.text == "The tram runs every ten minutes on workdays."


def test_an_asciidoc_cell_can_span_columns():
    assert rows("|===\n|Line |From |To\n\n|T1 |Port |Zoo\n2+|N1 |Zoo\n|===\n") == [
        ("T1", "Port"), ("N1", "N1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "subject", "fields"),
    [
        ("line,opens,stops\nT1,2027-03-01,12\nT2,2028-05-01,\"8, later\n9\"\n", "T2", (("opens", "2028-05-01"), ("stops", "8, later 9"))),
        ("line;opens;stops\nT1;2027-03-01;12\nT2;2028-05-01;8\n", "T2", (("opens", "2028-05-01"), ("stops", "8"))),
        ("[[lines]]\nname = \"T1\"\nopens = 2027-03-01\n\n[[lines]]\nname = \"T2\"\nopens = 2028-05-01\n", "T2", (("opens", "2028-05-01"),)),
        (
            ("BEGIN:VCALENDAR\nVERSION:2.0\nBEGIN:VEVENT\nUID:1\nDTSTART;TZID=Europe/Berlin:20270301T100000\nSUMMARY:Opening\\, with\n  music\n"
            "END:VEVENT\nBEGIN:VEVENT\nSUMMARY:Party\nDTSTART;VALUE=DATE:20270302\nEND:VEVENT\nEND:VCALENDAR\n"),
            "Opening, with music", (("start", "2027-03-01 10:00"),),
        ),
    ],
)  # fmt: skip
def test_data_files_have_rows(text: str, subject: str, fields: tuple[tuple[str, str], ...]):
    found = {entry.subject: entry for entry in blocks.parse(text, "en")}

    assert found[subject].kind == ROW
    assert found[subject].fields == fields


@pytest.mark.parametrize(
    "text",
    [
        "Dear all, we meet on Monday.\nThe tram is late, as usual.\nBring the map, please.\n",
        "# Notes, and more\n\n- one, two\n- three, four\n",
        "[links]\n\nThis isn't TOML, but text.\n",
    ],
)
def test_prose_with_commas_is_not_csv(text: str):
    assert not any(entry.kind == ROW for entry in blocks.parse(text, "en"))


@pytest.mark.parametrize(
    "page",
    [
        "<table>" * 20_000,
        "<table><tr>" + "<td rowspan=999 colspan=999>x" * 3_000 + "</table>",
        "<table><tr><td>" + "<!" * 60_000 + "</table>",
        "<table><tr><td>" + "</" * 60_000 + "</table>",
        "|===\n" + "200.200+|x " * 3_000 + "\n|===\n",
        "a,b\n" + '"' * 100_000 + "\n1,2\n",
        "| a #{rowspan=200} | b |\n|---|---|\n" + "| c |\n" * 10_000,
    ],
)
def test_hostile_tables_take_little_time(page: str):
    started = time.perf_counter()
    blocks.parse(page, "en")

    assert time.perf_counter() - started < 5


def test_spans_are_limited():
    spread = tables.spread([([tables.cell("x", "rowspan=0 colspan=5000")], "")])

    assert len(spread[0][0]) == tables.MAX_SPANNED


@pytest.mark.parametrize("odd", ["<![foo[x]]>", "<![x]>", "<![ b>", "<![CDATA[x]]>", "<![if !IE]>"])
def test_an_unknown_declaration_in_a_cell_is_left_out(odd: str):
    page = f"<table><tr><td>T1{odd}</td><td>Port</td></tr><tr><td>T2</td><td>Zoo</td></tr></table>"

    assert [subject.rstrip("]>") for subject, _said in rows(page)] == ["T1", "T2"]


def test_a_declaration_without_an_end_in_a_table_is_text():
    assert blocks.parse("<table><tr><td>a <![ b</td><td>c</td></tr></table", "en") is not None
    assert "<![" in tables.with_pipes("<table><tr><td>a <![ b</table")


LONG = "Tram " * 80


@pytest.mark.parametrize(
    "page",
    [
        f"<table><tr><td colspan=500>{LONG}</td><td>x</td></tr></table>\n\n" * 400,
        "<table>"
        + f"<tr><td colspan=200 rowspan=200>{LONG}</td><td>x</td></tr>" * 400
        + "</table>",
        "<table><tr><th colspan=500>Line<th>x" + "<tr><td>a<td>b" * 3 + "</table>" + "x" * 9_000,
    ],
)
def test_cells_that_span_others_make_a_page_only_so_much_longer(page: str):
    most = tables.MAX_GROWN + tables.MAX_ADDED_CELLS * (tables.MAX_COPY_LENGTH + 3)

    assert len(tables.with_pipes(page)) < len(page) + most


@pytest.mark.parametrize(
    "page",
    [
        "|===\n" + ".99+|x " * 400 + "\n" + ".99+|y\n" * 5_000 + "|===\n",
        "|===\n|a\n" + ".99+|y\n" * 5_000 + "|===\n",
        "|===\n|a|b\n" + "99.99+|y\n" * 5_000 + "|===\n",
        "{|\n" + '|-\n| colspan="200" | a\n| b\n' * 2_000 + "|}\n",
        "| a {colspan=200} | b {rowspan=200} |\n|---|---|\n| c {colspan=200} | d |\n\n" * 3_000,
    ],
)
def test_a_page_has_a_limited_number_of_cells(page: str):
    tracemalloc.start()
    entries = blocks.parse(page, "en")
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    written = page.count("|")
    assert sum(len(entry.fields) for entry in entries) <= written + blocks.MAX_ADDED_CELLS
    assert peak < 100_000_000


def test_spanned_rows_of_asciidoc_are_limited():
    many = [(tables.Cell("x", rows=99), "x")] * 20_000

    assert len(tables.flow(many, 1)) <= len(many) + tables.MAX_ADDED_CELLS


def test_a_cell_that_continues_one_line_by_line_stays_short():
    page = "{|\n|-\n| T1\n| Port\n" + "more words\n" * 18_000 + "|}\n"

    (entry,) = blocks.parse(page, "en")
    assert len(entry.fields[0][1]) <= blocks.MAX_CELL_LENGTH


def test_keys_of_toml_with_many_dots_are_not_read():
    deep = "[a]\n" + ".".join("a" * 60_000) + " = 1\n"
    many = "[a]\n" + "".join(f"{'.'.join(['a'] * 60)}{n} = 1\n" for n in range(1_500))

    assert structured.read_toml(deep) is None
    assert structured.read_toml("[a]\nb.c.d = 1\n") is not None
    tracemalloc.start()
    structured.read_toml(many)
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000_000
    assert structured.read_toml("[a]\n" + "# long\n" * 100_000) is None


# Each takes minutes if its cost grows with the square of its length.
@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "page", ["<table " * 200_000, "<script " * 200_000, "<style " * 200_000, "`<table>" * 100_000]
)
def test_tags_without_an_end_are_read_in_one_pass(page: str):
    assert blocks.parse(page, "en", keep_paragraphs=True) is not None


@pytest.mark.timeout(30)
def test_spaces_before_attributes_are_read_in_one_pass():
    text = "a" + " " * 400_000 + "b {"

    assert tables.cell(text).text == text


def test_an_event_with_an_alarm_keeps_its_values():
    page = (
        "BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nBEGIN:STANDARD\nDTSTART:20260101T000000\nEND:STANDARD\nEND:VTIMEZONE\n"
        "BEGIN:VEVENT\nSUMMARY:Opening\nBEGIN:VALARM\nDESCRIPTION:Reminder\nEND:VALARM\nDTSTART:20270301T100000\n"
        "END:VEVENT\nBEGIN:VEVENT\nSUMMARY:Party\nDTSTART:20270302T100000\nEND:VEVENT\nEND:VCALENDAR\n"
    )

    assert rows(page) == [("Opening", "2027-03-01 10:00"), ("Party", "2027-03-02 10:00")]


TABLE = "<table><tr><td>T1</td><td>Port</td></tr><tr><td>T2</td><td>Zoo</td></tr></table>"


@pytest.mark.parametrize(
    "code",
    [
        "Put it below `<table>` in the file.",
        "Put it below ``<table class='x'>`` in the file.",
        "```html\n<table>\n  <tr>\n```",
        "~~~\n<table>\n~~~",
        "Each <table> needs a name.",
        "```html\n</table>\n```\n\nEach <table> needs `</table>` at its end.",
    ],
)
def test_a_tag_in_an_example_hides_no_table(code: str):
    wanted = [("T1", "Port"), ("T2", "Zoo")]

    assert rows(f"{code}\n\n{TABLE}\n\nMore text.\n\n{TABLE}\n") == wanted * 2
    assert rows(f"{TABLE}\n\n{code}\n\n{TABLE}\n") == wanted * 2


def test_a_table_in_a_fence_stays_code():
    assert rows(f"```html\n{TABLE}\n```\n\n{TABLE}\n") == [("T1", "Port"), ("T2", "Zoo")]


@pytest.mark.parametrize("same", ["5", "✅", "2027-03-01", "3 €"])
def test_equal_values_in_all_columns_are_a_row(same: str):
    page = f"| Zone | Day | Night |\n|---|---|---|\n| {same} | {same} | {same} |\n| 6 | 7 | 8 |\n"

    assert [entry.subject for entry in blocks.parse(page, "en")] == [same, "6"]


@pytest.mark.parametrize(
    "page",
    [
        "| Zone | Day | Night |\n|---|---|---|\n| Old town | Old town | Old town |\n| 6 | 7 | 8 |\n",
        (
            "<table><tr><th>Zone</th><th>Day</th><th>Night</th></tr><tr><td colspan=3>2027</td></tr>"
            "<tr><td>6</td><td>7</td><td>8</td></tr></table>"
        ),
    ],
)
def test_a_cell_across_a_table_is_a_heading(page: str):
    (entry,) = blocks.parse(page, "en")

    assert entry.headings in (("Old town",), ("2027",))
    assert entry.subject == "6"
