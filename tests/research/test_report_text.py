"""Reading the Markdown of a report: summary, bullet findings, sections, citation numbers."""

from __future__ import annotations

import pytest

from research.services.runs.reporting import report_text


@pytest.mark.requirement("R24", "R25")
@pytest.mark.parametrize(
    "markdown",
    [
        "# Title\n\nThe first paragraph of prose.\n\nThe second.",
        "Title\n=====\n\nThe first paragraph of prose.",
        "**Summary**\n\nThe first paragraph of prose.",
        "## Summary\nThe first paragraph\nof prose.\n\n- a bullet of some length here",
        "---\n\n### A\n\n### B\n\nThe first paragraph of prose.",
        "| a | b |\n|---|---|\n\nThe first paragraph of prose.",
    ],
)
def test_the_summary_is_the_first_paragraph_and_never_a_heading(markdown: str):
    assert report_text.first_paragraph(markdown) == "The first paragraph of prose."


def test_an_empty_report_has_an_empty_summary():
    assert report_text.first_paragraph("# Only a heading\n") == ""


@pytest.mark.requirement("R18", "R21", "R22")
def test_bullets_come_without_marks_and_without_the_list_of_sources():
    markdown = (
        "# R\n\n- **Version 18** was released in September [1]\n* `uuidv7()` makes ordered ids [2]\n"
        "1. [Skip scan](https://e.org/x) uses more indexes [1]\n- short one\n\n"
        "## Sources\n- [1] https://e.org/a long enough line\n- A page about it all, e.org\n"
    )

    assert report_text.bullets(markdown) == [
        "Version 18 was released in September [1]",
        "uuidv7() makes ordered ids [2]",
        "Skip scan uses more indexes [1]",
    ]


@pytest.mark.requirement("R22")
def test_east_asian_characters_count_as_two():
    assert report_text.bullets("- 固态电池量产时间推迟到年底\n- 太短的事实") == [
        "固态电池量产时间推迟到年底"
    ]


def test_a_delta_section_that_a_model_wrote_into_the_body_is_left_out():
    body = "# T\n\nIntro.\n\n## What Changed Since Last Week\n\n- all new\n\n## More\n\nText.\n\n## References\n- x"

    tidy = report_text.tidy_body(body, delta_heading="What Changed Since Last Week")

    assert tidy == "Intro.\n\n\n## More\n\nText.".replace("\n\n\n", "\n\n")


@pytest.mark.requirement("R48")
def test_citations_are_renumbered_and_unknown_ones_dropped():
    assert report_text.renumbered("One [3, 1]. Two [9]. Three [2](x).", {3: 1, 1: 2}) == (
        "One [1][2]. Two. Three [2](x)."
    )


def test_citations_are_told_in_order_of_appearance():
    assert report_text.cited(["a [2][1]", "b [3] and [2]"]) == [2, 1, 3]
