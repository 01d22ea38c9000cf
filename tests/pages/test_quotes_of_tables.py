"""A quote that is a row of a Markdown table is shown as a row of a small table."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from memory.models import Topic
from research.claims import blocks
from research.services.reports import delta_rows
from tests.pages.report_cast import page, section
from tests.research.factories import make_fact, make_second_run

ROW = "| PostgreSQL 17 | Available | 2029-12-04 |"
BEFORE = (
    "…without further notice. ## Versions at Tidewater | Version | Status | Forced upgrade | "
    "| --- | --- | --- | | PostgreSQL 18 | Preview | 2030-12-03 | "
)
AFTER = " | PostgreSQL 16 | Available | 2028-12-05 | | PostgreSQL 13 | Available |…"


def test_the_rows_around_a_row_are_found_again_with_their_heading():
    shown = delta_rows.quote_context(ROW, BEFORE, AFTER)

    assert shown["before"] == ["Versions at Tidewater"] and shown["after"] == []
    assert [cells[0] for _kind, cells in shown["rows"]] == [
        "Version", "PostgreSQL 18", "PostgreSQL 17", "PostgreSQL 16",
    ]  # fmt: skip
    assert [kind for kind, _cells in shown["rows"]] == ["head", "row", "quote", "row"]


@pytest.mark.parametrize(
    ("quote", "before", "after", "expected"),
    [
        (ROW, "…17 | Available | 2029-12-04 | | a | b | c | ", " ## Next", (["…"], ["a"], [])),
        (ROW, "", "", ([], [], [])),
        ("| a |  | c |", "| x | | z | ", "", ([], ["x"], [])),
        (r"| a \| b | c |", "", r" | d \| e | f |", ([], [], ["d | e"])),
    ],
)
def test_cut_rows_are_left_out_and_empty_cells_and_bars_kept(quote, before, after, expected):
    shown = delta_rows.quote_context(quote, before, after)
    place = [kind for kind, _cells in shown["rows"]].index("quote")
    above, below = shown["rows"][:place], shown["rows"][place + 1 :]

    first = ([cells[0] for _kind, cells in above], [cells[0] for _kind, cells in below])
    assert (shown["before"], *first) == expected


def test_a_sentence_is_shown_without_the_table_next_to_it():
    shown = delta_rows.quote_context(
        "A calendar.", "# Calendar ", " It is strict. ## Versions | Version |…"
    )

    assert shown["rows"] == []
    assert (shown["before"], shown["after"]) == (["Calendar"], ["It is strict.", "Versions …"])
    assert delta_rows.quote_context("Yes.", "a | b", "c")["before"] == [
        "a | b"
    ]  # one bar doesn't make a table


@pytest.mark.parametrize(
    ("quote", "words"),
    [(ROW, "PostgreSQL 17 · Available · 2029-12-04"), ("a | b", "a | b"), ("| a |", "| a |")],
)
def test_a_row_is_a_line_of_text_without_bars(quote: str, words: str):
    assert blocks.plain_quote(quote) == words


def test_a_source_shows_the_table_with_the_quoted_row_marked(browser: Client, topic: Topic):
    run = make_second_run(topic)
    quote = {"sentence": "It is available.", "quote": ROW, "found": True}
    run.report.sources[0]["quotes"] = [quote | {"before": BEFORE, "after": AFTER}]
    run.report.save()

    shown = section(page(browser, run), "sources")

    assert "<mark>PostgreSQL 17</mark>" in shown and "| ---" not in shown
    assert re.search(r'<th scope="col">Version</th>', shown)
    assert "| PostgreSQL 17 |" not in shown


def test_facts_show_a_quoted_row_without_its_bars(browser: Client, topic: Topic):
    make_fact(topic, "PostgreSQL 17: Status Available", quote=ROW)

    shown = browser.get(f"/topics/{topic.slug}/facts/").content.decode()

    assert "<q>PostgreSQL 17 · Available · 2029-12-04</q>" in shown
