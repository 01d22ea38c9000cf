"""How much of a topic a sentence speaks of, by where the topic's words stand."""

from __future__ import annotations

from research.comparing.terms import terms
from research.extracts import coverage
from research.extracts.extractive import Reading, find

POOLS = "Pooled connections are closed by the server once nobody has used them for a minute."
MANUAL = "\n\n".join(
    f"Chapter {n} tells of sockets, headers and bodies, one after the other." for n in range(200)
)


def _covered(
    topic: str, sentence: str, *, title: str = "", beside: str = "", text: str = ""
) -> float:
    wanted = coverage.wanted(topic, "en")
    around = coverage.page(wanted, title, f"{sentence} {beside} {text}", "en")
    return coverage.covered(wanted, around, set(terms(sentence)), set(terms(beside)))


def test_a_sentence_that_holds_all_of_the_topic_covers_it():
    assert _covered("connection pooling", POOLS) == 1.0


def test_a_word_counts_the_less_the_farther_it_stands():
    said = "Idle connections are closed after a minute."
    worth = [
        _covered("Postgres connections", said, title="Postgres"),
        _covered("Postgres connections", said, beside="Postgres allows a hundred."),
        _covered("Postgres connections", said, text="Postgres is a database."),
        _covered("Postgres connections", said, text=f"Postgres is named once. {MANUAL}"),
    ]
    assert worth == sorted(worth, reverse=True) and len(set(worth)) == 4


def test_a_page_that_never_names_the_topics_name_is_off_the_topic():
    assert _covered("Postgres connection pooling", POOLS) < coverage.ENOUGH
    assert _covered("connection pooling limits", POOLS) >= coverage.ENOUGH


def test_one_word_of_three_is_not_the_topic():
    said = "The module resolution of the loader follows links on every platform."
    assert _covered("pip dependency resolution", said) == 0.0


def test_a_long_topic_is_covered_by_its_best_words():
    topic = "minor releases, security fixes, upgrades, end-of-life dates"
    assert _covered(topic, "Three security fixes came with the minor releases.") >= coverage.ENOUGH


def test_a_chinese_topic_is_covered_though_pairs_across_words_never_occur():
    wanted = coverage.wanted("固态电池量产进展", "zh")
    said = "晨星公司的固态电池将于明年量产。"
    around = coverage.page(wanted, "", said, "zh")
    assert coverage.covered(wanted, around, set(terms(said)), set()) >= coverage.ENOUGH


def test_findings_on_a_manual_are_those_near_the_topic():
    manual = Reading(
        1, "https://manual.example/", "Manual", "manual.example", f"{MANUAL}\n\n{POOLS}"
    )
    assert [finding.sentence for finding in find([manual], topic="connection pooling")] == [POOLS]


def test_nothing_is_found_where_nothing_is_on_the_topic():
    manual = Reading(1, "https://manual.example/", "Manual", "manual.example", MANUAL)
    assert find([manual], topic="Postgres connection pooling") == []
