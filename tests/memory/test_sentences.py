"""The sentences of a page: whole, in order, word for word, whatever the page throws at them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beacon_site.text.cleaning import one_line
from beacon_site.text.sentences import language_of, sentences, split, split_sentences, word_count


def texts(page: str) -> list[str]:
    return [sentence.text for sentence in sentences(page)]


def test_abbreviations_and_versions_do_not_end_a_sentence():
    page = "Dr. Smith of Acme Inc. said version 3.2 is out. It was e.g. faster than 3.1."
    assert texts(page) == [
        "Dr. Smith of Acme Inc. said version 3.2 is out.",
        "It was e.g. faster than 3.1.",
    ]


def test_line_breaks_within_a_paragraph_are_joined():
    page = (
        "The project published\nthe final version\non 26 September 2024.\n\nNobody was surprised."
    )
    assert texts(page) == [
        "The project published the final version on 26 September 2024.",
        "Nobody was surprised.",
    ]


def test_japanese_is_split_at_full_stops_of_papers_but_not_at_decimal_points():
    text = "路面電車は５月に開業する．運賃は２．５ユーロで，子供は無料である．"

    assert split(text, "ja") == [
        "路面電車は５月に開業する．",
        "運賃は２．５ユーロで，子供は無料である．",
    ]


def test_chinese_is_split_at_its_own_full_stops():
    page = "公司成立于2020年。产能为0.2吉瓦时！“今天发布。明天开售。”他说。"
    assert texts(page) == [
        "公司成立于2020年。",
        "产能为0.2吉瓦时！",
        "“今天发布。明天开售。”他说。",
    ]


def test_a_line_break_between_chinese_characters_leaves_no_space_in_the_sentence():
    [sentence] = sentences("固态电池的中试线\n正式投产。")
    assert sentence.text == "固态电池的中试线正式投产。"
    assert sentence.quote == "固态电池的中试线 正式投产。"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "The release of the new version is expected in the autumn of this year."),
        ("de", "Die neue Version wird im Herbst erwartet und ist nicht für alle gedacht."),
        ("fr", "La nouvelle version est attendue pour le mois de mai et elle sera gratuite."),
        ("es", "La nueva versión se espera en el otoño y es una de las más rápidas."),
        ("ru", "Новая версия ожидается осенью этого года."),
        ("ar", "من المتوقع صدور الإصدار الجديد في الخريف."),
        ("zh", "新版本预计在秋季发布。"),
        ("ja", "新しいバージョンは秋に公開される予定です。"),
        ("ko", "새 버전은 가을에 출시될 예정이다."),
    ],
)
def test_the_language_is_detected_by_script_and_common_words(language: str, text: str):
    assert language_of(text) == language


def test_a_german_ordinal_does_not_end_a_sentence():
    assert split("Am 3. Oktober kam Version 4.1 heraus. Danach kam nichts.", "de") == [
        "Am 3. Oktober kam Version 4.1 heraus.",
        "Danach kam nichts.",
    ]


JUNK = """---
name: readme
description: A page of a project.
---
# A heading that looks like a sentence.

[![Build](https://ci.example/badge.svg)](https://ci.example/build)

Introduction
============

.. code-block:: python

    print("This looks like a sentence.")

| Version | End of life is near. |
|---------|----------------------|

- [One link](https://a.example/one) and [two](https://a.example/two).

```
Code says this. And that.
```

:Author: Somebody wrote this.

The real paragraph stands here.
"""


def test_headings_badges_tables_code_and_directives_are_no_sentences():
    assert texts(JUNK) == ["The real paragraph stands here."]


def test_markup_is_taken_from_the_sentence_and_stays_in_the_quote():
    [sentence] = sentences("- The **new** [release](https://a.example/r) is `fast`.")
    assert sentence.text == "The new release is fast."
    assert sentence.quote == "The **new** [release](https://a.example/r) is `fast`."


def test_citation_marks_stay_with_the_sentence_before_them():
    assert split_sentences("It came in May. [1] Then it grew [2]. She left.[3] He came.") == [
        "It came in May. [1]",
        "Then it grew [2].",
        "She left.[3]",
        "He came.",
    ]


@pytest.mark.requirement("R22")
def test_two_wide_characters_count_as_a_word():
    assert word_count("固态电池正式投产。") == 4
    assert word_count("PostgreSQL 18 was released in 2025.") == 6


@given(st.text(alphabet=st.sampled_from("ab A.!?。“”()[]*`#>|-:\n\t 1中"), max_size=300))
@settings(max_examples=150, deadline=None)
def test_every_quote_is_on_the_page(page: str):
    assert all(sentence.quote in one_line(page.expandtabs(4)) for sentence in sentences(page))


HOSTILE = ["(", "“", "a. ", "1. ", '"', "A.B.", "\n", " \n", "[a](", "<", "`", "- ", "。", "<!--"]
HOSTILE += ["```\n", "......", "!?", "Mr. ", ". . . ", "(a. b) ", "    x\n", "| ", "# ", "a:\n"]


@pytest.mark.parametrize("unit", [*HOSTILE, "---\na: b\n"])
def test_a_hostile_page_costs_bounded_time(unit: str):
    start = time.process_time()
    sentences(unit * (60_000 // len(unit)))
    assert time.process_time() - start < 2.5


def test_an_abbreviation_that_never_ends_a_sentence_joins_what_follows():
    text = "Das gilt bspw. Montags und z.B. Dienstags. Der Rest folgt später im Jahr."

    assert split(text, "de") == [
        "Das gilt bspw. Montags und z.B. Dienstags.",
        "Der Rest folgt später im Jahr.",
    ]


@pytest.mark.parametrize("language", ["de", "en"])
def test_a_german_date_and_an_abbreviation_of_a_law_are_not_split(language: str):
    text = "Der Vertrag vom 1. Juni 2021 gilt gem. § 4 weiter. § 5 bleibt unberührt, wie vom 16. Juli an."
    found = [one.text for one in sentences(text, language)]
    assert found == [
        "Der Vertrag vom 1. Juni 2021 gilt gem. § 4 weiter.",
        "§ 5 bleibt unberührt, wie vom 16. Juli an.",
    ]
