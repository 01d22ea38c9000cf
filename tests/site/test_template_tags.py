"""The tags that every template knows: icons, states, the words of delta items."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from django.template import engines
from django.utils import formats, timezone, translation

ICON = '<svg class="icon" aria-hidden="true" focusable="false"><use href="#i-{}"></use></svg>'


def shown(text: str, **context: object) -> str:
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
def test_a_state_is_word_shape_and_color(state: str, label: str, word: str) -> None:
    html = shown("{% status state label=label %}", state=state, label=label)

    assert html == f'<span class="status {state}">{ICON.format(state)}{word}</span>'


def test_what_isnt_a_status_of_a_delta_item_went_quiet() -> None:
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


@pytest.mark.parametrize("language", ["en", "de", "ja"])
@pytest.mark.parametrize(
    "form",
    ["c", "j M Y, H:i", "D j M, H:i", "H:i", "j M Y", "l H:i", "H:i:s", "Y-m-d H:i", "U", "e", "P"],
)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_dates_are_those_of_django(form: str, language: str, zone: str) -> None:
    at = datetime(2026, 3, 9, 22, 5, 7, 1234, tzinfo=UTC)
    with translation.override(language), timezone.override(zone):
        shown_at = formats.date_format(timezone.localtime(at), form)

        assert shown("{{ at|date:form }}", at=at, form=form) == shown_at


def test_a_day_and_no_day_have_a_date_too() -> None:
    assert shown('{{ at|date:"j M Y" }}', at=date(2026, 3, 9)) == "9 Mar 2026"
    assert shown("{{ at|date }}", at=date(2026, 3, 9)) == formats.date_format(date(2026, 3, 9))
    assert shown('{{ at|date:"j M Y" }}{{ none|date:"c" }}', at="never", none=None) == ""
