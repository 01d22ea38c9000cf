"""reStructuredText, AsciiDoc and code spans, as they are read from a file and as reports quote them."""

from __future__ import annotations

import pytest

from beacon_site.net.reflow import join_file
from beacon_site.text.cleaning import plain
from beacon_site.text.sentences import readable
from research.claims import blocks, page_news
from research.claims.blocks import plain_text

RST = """
.. |Club| replace:: Halden Tram Club

*************
Tram handbook
*************

:Page Status: Complete
:Last Reviewed: 2027-03-01

The |Club| keeps this handbook for all members. It explains how
trams are cared for.

Repairs
'''''''

Every tram is inspected once a year by the works.

Further reading
###############

See :doc:`the timetable </lines/timetable>` before you plan a visit to the depot.
"""

ASCIIDOC = """// tag::all[]
= Tram handbook
include::.header[]
:imagesdir: ../images

== Tickets
.Where tickets are sold
image::machine.png[A ticket machine,50%]
Tickets are sold in these places:

* On board
** Single tickets
** Day tickets
* At the depot
"""


@pytest.mark.parametrize("read", [plain_text, readable])
@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("`The Works <https://works.example>`_ follow :pep:`8` and :rfc:`2119#section-1`.", "The Works follow PEP 8 and RFC 2119."),
        ("Keep :file:`__init__.py` and ``**options`` there. [#init]_", "Keep __init__.py and **options there."),
        ("Read :doc:`the timetable </lines/timetable>`, or ask pytest_ users [1]_.", "Read the timetable, or ask pytest users."),
        ("Use :func:`~trams.lines.close`, :class:`!Tram` or |Depot| today.", "Use close, Tram or Depot today."),
        ("Use `[table]` and **bold `__name__`** words.", "Use [table] and bold __name__ words."),
    ],
)  # fmt: skip
def test_inline_markup_is_read_as_words(read, written: str, words: str):
    assert read(written) == words


def test_a_link_whose_words_have_brackets_is_read_as_words():
    assert (
        plain_text("See [[Plan] Trams in 2030](https://plan.example/a) \\& more")
        == "See Plan Trams in 2030 & more"
    )


def test_code_in_a_title_keeps_its_underscores():
    assert (
        plain("## `__main__.py` and *the* `a*b*c` operator") == "__main__.py and the a*b*c operator"
    )


def test_headings_and_fields_of_restructured_text_are_not_joined_with_other_lines():
    found = blocks.parse(join_file(RST), "en")

    assert [(one.headings[-1], one.subject, one.fields[0][1]) for one in found] == [
        ("Tram handbook", "Page Status", "Complete"),
        ("Tram handbook", "Last Reviewed", "2027-03-01"),
        ("Tram handbook", "", "The Club keeps this handbook for all members."),
        ("Tram handbook", "", "It explains how trams are cared for."),
        ("Repairs", "", "Every tram is inspected once a year by the works."),
        ("Further reading", "", "See the timetable before you plan a visit to the depot."),
    ]


def test_nested_items_of_asciidoc_are_under_their_item_and_settings_are_not_read():
    found = blocks.parse(join_file(ASCIIDOC), "en")

    assert [(one.headings, one.subject or one.fields[0][1]) for one in found] == [
        (("Tram handbook", "Tickets"), "Tickets are sold in these places:"),
        (("Tram handbook", "Tickets", "Tickets are sold in these places"), "On board"),
        (("Tram handbook", "Tickets", "Tickets are sold in these places", "On board"), "Single tickets"),
        (("Tram handbook", "Tickets", "Tickets are sold in these places", "On board"), "Day tickets"),
        (("Tram handbook", "Tickets", "Tickets are sold in these places"), "At the depot"),
    ]  # fmt: skip


MDX = """---
title: Ticket machines
---

import Prices from '/snippets/prices.mdx';

export const updated = 'today'

Ticket machines accept cards and coins at all stops.
"""


def test_imports_of_an_mdx_page_are_not_statements():
    assert [one.text for one in blocks.parse(MDX, "en")] == [
        "title: Ticket machines",
        "Ticket machines accept cards and coins at all stops.",
    ]


CHANGELOG = """# Changelog

## 3.2.0 - 4 May 2027

:new: **New features**

- Tickets can be bought on board with a card or a phone

### Fixed

- Stops: names are no longer cut off on small screens

## 2.1 Scope

- The timetable applies to all lines in the city
"""


def test_an_entry_of_a_changelog_names_its_release():
    found = [page_news.words_of(one, "Changelog") for one in blocks.parse(CHANGELOG, "en")]

    assert found == [
        "3.2.0: Tickets can be bought on board with a card or a phone",
        "3.2.0, Fixed, Stops: names are no longer cut off on small screens",
        "The timetable applies to all lines in the city",
    ]
