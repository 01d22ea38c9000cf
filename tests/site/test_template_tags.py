"""The tags that every template knows: icons, states, the words of delta items."""

from __future__ import annotations

import pytest
from django.template import engines

ICON = '<svg class="icon" aria-hidden="true" focusable="false"><use href="#i-{}"></use></svg>'


def shown(text: str, **context: str) -> str:
    return str(engines["django"].from_string(text).render(context)).replace("\n", "")


def test_an_icon_is_named_by_a_word_or_a_variable() -> None:
    assert shown('{% icon "play" %}') == shown("{% icon name %}", name="play")
    assert shown('{% icon "play" %}') == ICON.format("play")


@pytest.mark.parametrize(
    ("state", "label", "word"),
    [
        ("queued", "", "Queued"),
        ("queued", "Waiting for you", "Waiting for you"),
        ("never", "", "never"),
    ],
)
def test_a_state_is_word_shape_and_colour(state: str, label: str, word: str) -> None:
    html = shown("{% status state label=label %}", state=state, label=label)

    assert html == f'<span class="status {state}">{ICON.format(state)}{word}</span>'


def test_what_is_no_status_of_a_delta_item_went_quiet() -> None:
    assert (
        shown('{% delta_tag "contradicted" %}') == '<span class="tag contra">! Contradicted</span>'
    )
    assert shown('{% delta_tag "x" %}') == '<span class="tag quiet-tag">· Not mentioned</span>'


def test_what_a_row_says_is_escaped() -> None:
    hostile = shown("{% icon x %}{% status x label=x %}", x='"><script>')

    assert "<script>" not in hostile
    assert "&quot;&gt;&lt;script&gt;" in hostile


@pytest.mark.parametrize(
    ("words", "html"),
    [
        ("Run #2 of “שוק <b> 2026”", "Run #2 of “<bdi>שוק &lt;b&gt; 2026</bdi>”"),
        ("Run #2 von „2026 שוק“", "Run #2 von „<bdi>2026 שוק</bdi>“"),
        ("「שוק」の実行 #2", "「<bdi>שוק</bdi>」の実行 #2"),
        ("Run #2 of “<Market>”", "Run #2 of “&lt;Market&gt;”"),
        ("שוק", "שוק"),
    ],
)
def test_a_quoted_name_from_right_to_left_has_its_own_box(words: str, html: str) -> None:
    assert shown("{{ words|boxed_name }}", words=words) == html
