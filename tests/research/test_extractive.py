"""Findings without a model: what is worth reporting, word for word."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from beacon_site.providers.sample import SAMPLE_TOPIC, articles, read_article
from memory.texts.text import one_line
from research.comparing.candidates import can_stand_alone
from research.extracts.extractive import Finding, Reading, find, near_duplicates

CHINESE = Path(__file__).resolve().parents[1] / "data" / "chinese"


def sample(batch: int) -> list[Reading]:
    return [
        Reading(n, a.url, a.title, "sample", a.text, a.snippet, a.published_at)
        for n, a in enumerate(articles(), start=1)
        if a.batch == batch
    ]


def chinese(batch: int) -> list[Reading]:
    pages = [read_article(path, batch) for path in sorted((CHINESE / f"batch{batch}").glob("*.md"))]
    return [
        Reading(n, a.url, a.title, "chinese", a.text, a.snippet, a.published_at)
        for n, a in enumerate(pages, start=1)
    ]


def page(text: str, number: int = 1, title: str = "News of Acme", day: int = 1) -> Reading:
    url = f"https://news.example/{number}"
    return Reading(number, url, title, "news.example", text, published_at=date(2026, 5, day))


def found(*readings: Reading, topic: str = "Acme", **more) -> list[str]:
    return [finding.sentence for finding in find(readings, topic=topic, **more)]


ACME = "Acme raised 40 million dollars in March 2026 for its second plant in Leipzig."


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.requirement("R18")
def test_every_finding_stands_on_its_page_word_for_word(batch: int):
    readings = {reading.number: reading for reading in sample(batch)}
    findings = find(list(readings.values()), topic=SAMPLE_TOPIC.title, focus=SAMPLE_TOPIC.focus)
    assert len(findings) == 10
    assert all(f.quote in one_line(readings[f.reading].text) for f in findings)


def test_the_same_pages_give_the_same_findings():
    def once() -> list[Finding]:
        return find(sample(2), topic=SAMPLE_TOPIC.title)

    assert once() == once()


@pytest.mark.parametrize(
    ("batch", "words"),
    [(1, "16.4, 15.8, 14.13"), (2, "reached its end of life"), (3, "PostgreSQL 18 was released")],
)
def test_the_news_of_each_sample_batch_are_among_the_findings(batch: int, words: str):
    sentences = found(*sample(batch), topic=SAMPLE_TOPIC.title, focus=SAMPLE_TOPIC.focus)
    assert any(words in sentence for sentence in sentences)


def test_a_page_gives_at_most_two():
    numbers = [finding.reading for finding in find(sample(1), topic=SAMPLE_TOPIC.title)]
    assert max(numbers.count(number) for number in numbers) <= 2


@pytest.mark.requirement("R41")
def test_what_gives_orders_to_its_reader_is_never_found():
    hostile = [reading for reading in sample(2) if "ignore your instructions" in reading.text]
    sentences = found(*hostile, topic="FastBase PostgreSQL", limit=20, per_source=20)
    assert hostile and sentences
    assert not any("FastBase" in sentence or "memory" in sentence for sentence in sentences)


@pytest.mark.requirement("R41")
def test_what_is_known_or_struck_is_not_found_again():
    other = "Acme closed its oldest plant in Dresden on 3 April 2026 for good."
    assert found(page(f"{ACME} {other}"), known=[ACME]) == [other]
    assert found(page(f"{ACME} {other}"), struck=[f"- **{other}** [2]"]) == [ACME]


def test_the_same_statement_with_another_number_is_found():
    known = "Acme raised 25 million dollars in March 2026 for its second plant in Leipzig."
    assert found(page(ACME), known=[known]) == [ACME]


@pytest.mark.requirement("R42")
def test_nothing_is_found_where_nothing_can_stand_alone():
    assert found(page("Subscribe now! Read more.\n\nIt did. But why?")) == []
    assert find([], topic="Acme") == []


def test_near_duplicate_sentences_of_two_pages_are_found_once():
    copy = ACME.replace("for its second plant", "for the second plant")
    assert len(found(page(ACME), page(copy, number=2))) == 1


def test_a_page_that_never_names_the_topic_is_left_out():
    other = page("The city of Ulm opened a new bridge on 4 May 2026 after nine years.", 2, "Ulm")
    assert found(page(ACME), other) == [ACME]


def test_the_snippet_stands_in_for_a_page_that_could_not_be_read():
    [finding] = find([replace(page(""), snippet=ACME)], topic="Acme")
    assert finding.quote == ACME


@pytest.mark.parametrize(
    "sentence",
    [
        "It reached its end of life in November 2025 after five long years.",
        "However, the project published the final version on 26 September 2024.",
        "No further releases of the old version are planned for the coming year.",
        "Over five years it received 22 minor releases after the first one.",
        "Subscribe to our newsletter to receive all news of the project every week.",
        "Copyright 2024 by the authors of this page, who keep all of their rights.",
        "You should install the update on all of your servers before next Monday.",
        "The function connect(host='a') returns {} => None when the host is unknown.",
        "See https://a.example/very/long for the list of all changes in this release.",
        "Too short to say anything.",
        "Is this the release that everybody has been waiting for since last year?",
        "但是，固态电池的价格在2025年仍然比液态电池高出一倍以上。",
        "点击订阅我们的公众号，第一时间了解固态电池行业的最新消息。",
    ],
)
def test_what_leans_on_another_sentence_or_sells_something_cannot_stand_alone(sentence: str):
    assert not can_stand_alone(sentence, "zh" if ord(sentence[0]) > 0x3000 else "en")


@pytest.mark.parametrize(
    "sentence",
    [
        "PostgreSQL 18 was released as a final version on 25 September 2025, one year after 17.",
        "pg_upgrade keeps the planner's statistics since version 18 of the server appeared.",
        "Five major versions are supported from now on: 13, 14, 15, 16 and 17.",
        "In June 2025, 27 percent of 240 readers ran the newest version of the server.",
        "辰星能源于2026年3月3日宣布，位于苏州的固态电池中试线正式投产。",
    ],
)
def test_a_whole_statement_can_stand_alone(sentence: str):
    assert can_stand_alone(sentence, "zh" if ord(sentence[0]) > 0x3000 else "en")


@pytest.mark.requirement("R22")
def test_a_chinese_topic_over_chinese_articles_yields_facts():
    sentences = found(*chinese(1), topic="固态电池")
    assert len(sentences) >= 8
    assert any("0.2吉瓦时" in sentence for sentence in sentences)


def test_a_mirrored_page_repeats_the_first_one():
    readings = sample(1) + sample(2) + sample(3)
    copies = {a.url: a.copy_of for a in articles() if a.copy_of}
    urls = {reading.number: reading.url for reading in readings}
    repeated = near_duplicates(readings)
    assert {urls[n]: urls[of] for n, of in repeated.items()} == copies


def test_the_earlier_page_is_kept_and_undated_pages_come_last():
    text = " ".join(f"word{n} of the story" for n in range(60))
    undated = replace(page(text, 1), published_at=None)
    assert near_duplicates([undated, page(text, 2, day=9), page(text, 3, day=2)]) == {1: 3, 2: 3}


def test_a_chinese_copy_with_a_new_head_is_a_copy():
    original = chinese(1)[0]
    copy = replace(original, number=9, text="（转自电池周报）" + original.text, published_at=None)
    assert near_duplicates([*chinese(1), copy]) == {9: 1}


def test_two_notices_of_one_kind_are_two_pages():
    assert (
        near_duplicates(chinese(1) + [replace(p, number=p.number + 10) for p in chinese(2)]) == {}
    )


def test_24_pages_of_10_kb_take_seconds_at_most():
    base = sample(1)
    long = [
        replace(
            base[n % len(base)], number=n, text="\n\n".join(f"{n} {p.text}" for p in base)[:10_000]
        )
        for n in range(24)
    ]
    start = time.process_time()
    find(long, topic=SAMPLE_TOPIC.title)
    assert time.process_time() - start < 5
