"""How many sources of a sentence are independent: measured on labelled sets of pages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from django.utils.dateparse import parse_date

from research.claims.duplicates import origins, publisher, shingles
from research.services.runs.context.cited_pages import CitedPage, Pages

SETS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data/independence.json").read_text("utf-8")
)["sets"]


@dataclass
class Page:
    number: int
    text: str
    domain: str
    published_at: date | None

    @property
    def marks(self) -> set[int]:
        return shingles(self.text)


def pages_of(labelled: dict[str, Any]) -> list[Page]:
    return [
        Page(n, one["text"], one["domain"], parse_date(one["published_at"] or ""))
        for n, one in enumerate(labelled["pages"], start=1)
    ]


@pytest.mark.parametrize("labelled", SETS, ids=[one["name"] for one in SETS])
def test_the_independent_pages_of_each_labelled_set_are_counted(labelled: dict[str, Any]):
    pages = pages_of(labelled)

    found = origins(pages)

    assert found.independent([page.number for page in pages]) == labelled["independent"]


def test_what_was_published_first_is_the_origin_and_what_has_no_date_comes_last():
    labelled = next(one for one in SETS if one["name"].startswith("release, copy"))

    found = origins(pages_of(labelled))

    assert {number: found.origin_of(number) for number in (1, 2, 3)} == {1: 1, 2: 1, 3: 1}
    assert found.why[2] == "text"


@pytest.mark.parametrize(
    ("domain", "name"),
    [
        ("news.bbc.co.uk", "bbc.co.uk"),
        ("blog.example.org", "example.org"),
        ("example.org", "example.org"),
        ("anna.github.io", "anna.github.io"),
        ("library", ""),
        ("192.0.2.7", ""),
        ("", ""),
    ],
)
def test_pages_are_of_one_publisher_by_the_name_that_was_registered(domain: str, name: str):
    assert publisher(domain) == name


def cited(n: int, text: str) -> CitedPage:
    return CitedPage(text, number=n, domain=f"site{n}.example")


def test_a_quote_that_stands_word_for_word_on_two_pages_was_written_once():
    quote = "The council of Lund votes on the tram line to the harbour in March, says its mayor."
    pages = {
        1: cited(1, f"From the town hall. {quote} Nobody knows what it will cost in the end."),
        2: cited(2, f"Trams are loved and hated here. {quote} We asked ten people at the station."),
        3: cited(3, "In March there is a vote on the tram to the harbour of Lund."),
    }

    assert Pages(pages).counted([1, 2, 3], quote) == (3, 2)


def test_a_page_that_carries_the_quote_is_a_source_though_it_is_not_cited():
    quote = "The council of Lund votes on the tram line to the harbour in March, says its mayor."
    other = cited(9, f"Copied. {quote}")

    assert Pages({1: cited(1, f"Here it stands. {quote}")}, [other]).counted([1], quote) == (2, 1)
