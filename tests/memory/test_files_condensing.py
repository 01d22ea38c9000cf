"""A memory file made shorter by rule."""

from __future__ import annotations

import pytest

from memory.models.file_format import locked_text
from memory.services.files.condensing import condensed

TEXT = (
    "# User\n\n> Summary: me\n\n- Name: 建军   \n- Cat: Mao\n- Name: 建军\n\n\n\n"
    "## Empty\n\n### Also empty\n\n## Work\n\n- Name: 建军\n- Updated: 2026-02-01\n\n"
    "```\n- a  \n- a  \n\n\n```\n\n- Updated: 2026-02-28\n"
)


@pytest.mark.requirement("R226")
def test_what_says_nothing_new_goes_and_nothing_else():
    shorter, changes = condensed(TEXT)

    assert shorter == (
        "# User\n\n> Summary: me\n\n- Name: 建军\n- Cat: Mao\n\n"
        "## Work\n\n- Name: 建军\n\n```\n- a  \n- a  \n\n\n```\n\n- Updated: 2026-02-28\n"
    )
    said = " · ".join(changes)
    assert "1 repeated bullet" in said and "1 older" in said and "2 empty sections" in said


def test_a_locked_section_stays_letter_by_letter():
    text = "# U\n\n## Work\n\n- a  \n- a\n\n\n- b\n\n### Empty\n\n## Home\n\n- c\n- c\n"
    shorter = condensed(text, [["U", "Work"]])[0]

    assert locked_text(shorter, ["U", "Work"]) == locked_text(text, ["U", "Work"])
    assert shorter.endswith("## Home\n\n- c\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "words",
        "# Title\n",
        "# T\n\n- a\n\n  more of the first\n- a\n\n  more of the second\n",
        "- a\n  under the first\n- a\n  under the second\n",
        "- a\nlazy\n- a\n",
        "A line  \nbroken in two.\n",
        "## A\n\n- Date: 2026-02-01\n\n## B\n\n- Date: 2026-02-01\n",
        "- - -\n- - -\n",
    ],
)
def test_what_means_something_is_left_alone(text: str):
    shorter, said = condensed(text)
    assert shorter.strip() == text.strip() and not any("bullet" in s for s in said)


def test_condensing_what_is_condensed_does_nothing():
    once, _said = condensed(TEXT)
    assert condensed(once) == (once, ())
