"""Reading a structured answer while it's still being written."""

from __future__ import annotations

import json

import pytest

from beacon_site.providers.llm.structured import readable_text

REPORT = json.dumps(
    {
        "summary": 'Short é😀 "q".',
        "body": "# Head\n\nText [1] {x} more.",
        "findings": [{"sentence": "A", "citations": [1]}],
    }
)
PROSE = 'Short é😀 "q".\n\n# Head\n\nText [1] {x} more.'


@pytest.mark.parametrize(
    "raw",
    [
        REPORT,
        f"```json\n{REPORT}\n```\n",
        f"Here you are:\n\n```json\n{REPORT}\n```",
        f"<think>maybe {{so}}</think>\n{REPORT}",
    ],
)
def test_a_report_grows_letter_by_letter_and_never_shows_its_json(raw: str):
    shown = [readable_text(raw[:end]) for end in range(len(raw) + 1)]

    assert shown[-1] == PROSE
    assert not [text for text in shown if "```" in text or '{"' in text or "think" in text]
    assert len(set(shown)) > 30


@pytest.mark.parametrize(
    "prose", ["Plain prose [1] is fine.", "Some code:\n```py\nx = 1\n```", "It costs {much}."]
)
def test_plain_prose_is_shown_as_it_is(prose: str):
    assert readable_text(prose) == prose


@pytest.mark.parametrize("raw", ["", "{", '{"queries": ["a"', "{not json", '{"body": 5}', "[1"])
def test_what_holds_no_prose_shows_none_of_its_brackets(raw: str):
    assert readable_text(raw) in ("", "[1")


def test_a_body_of_deep_or_endless_brackets_is_given_up_quickly():
    for raw in ("{" * 100_000, '{"a":' * 100_000, '{"body": "x"' + "}" * 100_000):
        assert len(readable_text(raw)) < 2
