"""The page that compares two runs of a topic."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import strip_tags

from memory.models import Topic, User
from research.models import DeltaItem, Report, Run
from tests.research.factories import (
    make_fact,
    make_hits,
    make_item,
    make_report,
    make_run,
    make_second_run,
    make_source,
    make_topic,
)

HTMX = {"HX-Request": "true", "HX-Target": "compare"}


@pytest.fixture
def topic(alice: User) -> Topic:
    """A topic with Run #1 and Run #2, whose delta is of all kinds."""
    topic = make_topic(alice)
    make_second_run(topic)
    return topic


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def url(topic: Topic, **query: Any) -> str:
    wanted = "&".join(f"{name.rstrip('_')}={value}" for name, value in query.items())
    return reverse("research:compare", args=[topic.slug]) + (f"?{wanted}" if wanted else "")


def page(browser: Client, topic: Topic, **query: Any) -> str:
    answer = browser.get(url(topic, **query))
    assert answer.status_code == 200
    return answer.content.decode()


def words(shown: str) -> str:
    return " ".join(strip_tags(shown).split())


def section(shown: str, key: str) -> str:
    found = re.search(rf'<section[^>]*labelledby="{key}".*?</section>', shown, re.S)
    assert found is not None
    return words(found[0])


def wrote(topic: Topic, *bodies: str) -> None:
    """Let runs write these reports."""
    for body in bodies:
        make_report(make_run(topic), body=body)


# --- facts ------------------------------------------------------------------------------------------


def test_facts_are_by_what_became_of_them(browser: Client, topic: Topic):
    shown = page(browser, topic, from_=1, to=2)

    assert "<title>Run #1 vs. Run #2" in shown
    assert "Version 18.1 repairs index corruption" in section(shown, "group-new")
    assert "off by default everywhere" in section(shown, "group-contradicted")
    assert "Asynchronous I/O is on by default." in section(shown, "group-contradicted")


def test_a_changed_fact_shows_old_and_new_words_in_one_sentence(browser: Client, topic: Topic):
    changed = re.search(r'id="group-changed".*?</section>', page(browser, topic), re.S)

    assert changed and "2025</del>" in changed[0] and "2026</ins>" in changed[0]
    assert "beside" not in changed[0]


def test_two_sentences_without_a_common_word_are_not_marked_word_by_word(
    browser: Client, topic: Topic
):
    run = Run.objects.get(topic=topic, number=2)
    changed = run.delta_items.get(status=DeltaItem.Status.CHANGED)
    DeltaItem.objects.filter(pk=changed.pk).update(sentence="Nothing of it stayed.")

    assert "beside words whole" in page(browser, topic)


def test_each_fact_leads_to_the_run_in_which_it_happened(browser: Client, topic: Topic):
    run = Run.objects.get(topic=topic, number=2)

    address = reverse("research:run", args=[topic.slug, run.pk])
    assert f'new in <a class="nowrap" href="{address}#report">Run #2</a>' in page(browser, topic)


def test_confirmed_and_quiet_facts_are_folded_with_their_counts(browser: Client, topic: Topic):
    shown = page(browser, topic)

    assert re.search(r'<summary>Confirmed <span class="count">1<', shown)
    assert "<details open" not in shown


def test_runs_that_know_the_same_are_said_not_to_differ(browser: Client, alice: User):
    topic = make_topic(alice, "It still stands")
    make_fact(topic, "Version 18 is out.", make_run(topic))
    wrote(topic, "One.", "Two.")

    shown = page(browser, topic, from_=2, to=3)

    assert "No differences. Both runs have the same facts" in shown
    assert "Unchanged 1" in words(shown) and "Not mentioned" not in shown


def test_runs_that_knew_nothing_say_so(browser: Client, alice: User):
    topic = make_topic(alice, "Nothing is known of it")
    wrote(topic, "One.", "Two.")

    assert "No facts in either run" in page(browser, topic)


# --- the two texts ----------------------------------------------------------------------------------


def test_a_changed_word_is_marked_inside_its_paragraph(browser: Client, alice: User):
    topic = make_topic(alice, "Support")
    wrote(topic, "Support for it ends in May. [1]", "Support for it ends in June. [2]")

    shown = page(browser, topic, view="words")

    assert re.search(r"<del>.*removed:.*May</del><ins>.*added:.*June</ins>", shown)
    assert "[1]" not in words(shown)


def test_reports_are_compared_as_they_are_read_without_their_markup(browser: Client, alice: User):
    topic = make_topic(alice, "Support")
    old = "> **To:** ada\\\n> **Re:** C\\*\n\n## In short\n\n- It *ends*."
    wrote(topic, old, f"{old}\n\nMore.")
    for number, style in ((1, "standard"), (2, "memo")):
        Run.objects.filter(topic=topic, number=number).update(settings={"report_style": style})

    shown = page(browser, topic, view="lines", show="all")

    said = words(shown)
    for text in ("To: ada Re: C* In short • It ends.", "different styles"):
        assert text in said
    assert "**" not in shown and "## " not in shown


def test_runs_of_a_day_are_distinguished_by_their_time(browser: Client, topic: Topic):
    Report.objects.filter(run__topic=topic).update(is_quiet=True)

    options = re.findall(r"<option[^>]*>(.*?)</option>", page(browser, topic))

    assert options
    assert all(re.search(r", \d\d:\d\d · nothing new", option) for option in options)


@pytest.mark.parametrize("layout", ["", "side"])
def test_lines_carry_signs_and_words_next_to_their_colors(
    browser: Client, alice: User, layout: str
):
    topic = make_topic(alice, "Support")
    wrote(
        topic, "Support for it ends in May.\n\nGone.", "Support for it ends in June.\n\nHere now."
    )

    shown = page(browser, topic, view="lines", layout=layout)

    assert "<del>May</del>" in shown and "<ins>June</ins>" in shown
    assert "<del>Gone.</del>" in shown and "<ins>Here now.</ins>" in shown
    assert ">−<" in shown and ">+<" in shown
    assert ("before:" in shown) is not bool(layout)


def test_unchanged_lines_are_hidden_until_they_are_requested(browser: Client, alice: User):
    topic = make_topic(alice, "Long")
    same = "\n\n".join(f"Paragraph number {n}." for n in range(9))
    wrote(topic, f"{same}\n\nThe end.", f"{same}\n\nThe end is new.")

    folded, whole = (page(browser, topic, view="words", show=show) for show in ("", "all"))

    assert "8 unchanged lines" in folded and "Paragraph number 2." not in folded
    assert "Paragraph number 2." in whole and "8 unchanged lines" not in whole


def test_markdown_stands_as_text_and_runs_nothing(browser: Client, alice: User):
    topic = make_topic(alice, "Bad words")
    wrote(topic, "**Bold** <script>alert(1)</script>", "**Bold** <script>alert(2)</script>")

    for view in ("words", "lines"):
        shown = page(browser, topic, view=view)
        assert "<script>alert" not in shown and "Bold &lt;script&gt;" in shown


def test_the_same_report_twice_says_that_nothing_differs(browser: Client, alice: User):
    topic = make_topic(alice, "Alike")
    wrote(topic, "All the same. [1]", "All the same. [2]")

    assert "word for word" in page(browser, topic, view="lines")


def test_reports_too_long_for_a_page_are_cut_and_said_to_be(browser: Client, alice: User):
    topic = make_topic(alice, "Long")
    wrote(topic, "a\n" * 700, "b\n" * 700)

    shown = page(browser, topic, view="lines")

    assert "900 more lines aren’t shown" in shown and shown.count('class="line removed') == 500


# --- sources ------------------------------------------------------------------------------------------


def test_sources_are_by_the_run_that_cites_them(browser: Client, alice: User):
    topic = make_topic(alice, "Sources")
    make_report(make_run(topic), sources=[make_source(1, "The old one"), make_source(2, "Shared")])
    make_report(make_run(topic), sources=[make_source(2, "Shared"), make_source(3, "A new one")])

    shown = page(browser, topic, view="sources")

    assert "A new one" in section(shown, "only-new")
    assert "The old one" in section(shown, "only-old")
    assert "Shared" in section(shown, "in-both")


def test_a_source_that_isnt_a_web_address_isnt_a_link(browser: Client, alice: User):
    topic = make_topic(alice, "Sources")
    bad = make_source(1, "Bad", link="javascript:alert(3)", url="javascript:alert(3)")
    for _n in range(2):
        make_report(make_run(topic), sources=[bad])

    assert 'href="javascript' not in page(browser, topic, view="sources")


# --- which two ----------------------------------------------------------------------------------------


def test_without_a_choice_it_compares_what_was_read_last_with_the_latest(
    browser: Client, topic: Topic
):
    make_report(make_run(topic))
    Report.objects.get(run__topic=topic, run__number=1).mark_read()

    shown = page(browser, topic)

    assert "Run #1 vs. Run #3" in shown and "Since you last read" in shown


def test_the_later_run_first_is_reported_and_facts_keep_the_order_of_time(
    browser: Client, topic: Topic
):
    facts = page(browser, topic, from_=2, to=1)
    lines = page(browser, topic, from_=2, to=1, view="lines")

    assert "Facts are shown in chronological order, from Run #1 to Run #2" in facts
    assert "repairs index corruption" in section(facts, "group-new")
    assert "so text marked as added is from the earlier one, Run #1" in lines


def test_the_same_run_twice_is_explained(browser: Client, topic: Topic):
    assert "Run #2 is selected twice" in page(browser, topic, from_=2, to=2)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("99", "Run #99 has no report. This topic has reports for runs #1 to #2"),
        ("x<b>", "“x&lt;b&gt;” isn’t a run number"),
        ("9" * 40, " has no report"),
        ("%00", "isn’t a run number"),
    ],
)
def test_a_run_that_does_not_exist_is_explained(
    browser: Client, topic: Topic, asked: str, said: str
):
    shown = page(browser, topic, from_=asked, to=2)

    assert said in shown
    assert 'id="compare-from"' in shown and "group-new" not in shown


def test_it_steps_to_the_pairs_beside_and_turns_round(browser: Client, topic: Topic):
    for _n in range(2):
        make_report(make_run(topic))

    shown = page(browser, topic, from_=2, to=3, view="words").replace("&amp;", "&")

    assert f'{url(topic, from_=1, to=2, view="words")}" rel="prev"' in shown
    assert f'{url(topic, from_=3, to=4, view="words")}" rel="next"' in shown
    assert f'href="{url(topic, from_=3, to=2, view="words")}"' in shown


@pytest.mark.parametrize("runs", [0, 1])
def test_with_less_than_two_reports_it_says_what_is_missing(
    browser: Client, alice: User, runs: int
):
    topic = make_topic(alice, "Young")
    make_run(topic, saved=False, status="failed")
    for _n in range(runs):
        make_report(make_run(topic))

    shown = page(browser, topic)

    assert ("One report so far" if runs else "No report yet") in shown
    assert "<select" not in shown


# --- over htmx, strangers, queries ----------------------------------------------------------------------


def test_over_htmx_the_comparison_comes_alone_with_its_title(browser: Client, topic: Topic):
    answer = browser.get(url(topic, view="words"), headers=HTMX).content.decode().strip()

    assert answer.startswith("<title>Run #1 vs. Run #2 · PostgreSQL releases")
    assert '<div id="compare"' in answer and "<html" not in answer


def test_a_stranger_finds_nothing(topic: Topic, bob: User, client_of: Callable[[Any], Client]):
    assert client_of(bob).get(url(topic)).status_code == 404


def test_the_runs_of_a_topic_in_the_trash_are_not_compared(
    browser: Client, topic: Topic, alice: User
):
    topic.refresh_from_db()
    topic.trash(by=alice.actor)

    assert browser.get(url(topic)).status_code == 404


def queries(browser: Client, topic: Topic, view: str) -> int:
    with CaptureQueriesContext(connection) as asked:
        page(browser, topic, from_=1, to=topic.run_count, view=view)
    return len(asked)


@pytest.mark.parametrize("view", ["facts", "words", "lines", "sources"])
def test_thirty_facts_over_six_runs_cost_no_query_more(browser: Client, topic: Topic, view: str):
    few = queries(browser, topic, view)
    for number in range(4):
        run = make_run(topic)
        make_report(run, sources=[make_source(n, f"Source {n}") for n in range(1, 21)])
        make_hits(run, 20)
        for n in range(8):
            fact = make_fact(topic, f"Fact number {n} of run {number} stands as it is.", run)
            make_item(run, "new", fact.text)

    assert queries(browser, topic, view) == few <= 12


# --- links that lead here -------------------------------------------------------------------------------


def test_the_runs_of_a_topic_lead_to_what_changed_in_each(browser: Client, topic: Topic):
    shown = browser.get(reverse("research:topic-runs", args=[topic.slug])).content.decode()

    assert f'href="{url(topic, from_=1, to=2)}"' in shown.replace("&amp;", "&")
    assert shown.count(url(topic)) == 2  # one in the head, one for the only pair


def test_reports_and_topic_lead_here_too(browser: Client, topic: Topic):
    reports = browser.get(reverse("research:reports")).content.decode()
    latest = browser.get(reverse("research:topic", args=[topic.slug])).content.decode()

    assert f'href="{url(topic, to=2)}"' in reports and url(topic, to=1) not in reports
    assert f'href="{url(topic, from_=1, to=2)}"' in latest.replace("&amp;", "&")


def test_blank_lines_that_come_and_go_are_no_difference(browser: Client, alice: User):
    topic = make_topic(alice, "Blank")
    wrote(topic, "One.\nTwo.", "One.\n\n\nTwo.")

    assert "word for word" in page(browser, topic, view="lines")


def test_a_report_leads_to_its_comparison_with_the_one_before(browser: Client, topic: Topic):
    run = Run.objects.get(topic=topic, number=2)
    shown = browser.get(reverse("research:run", args=[topic.slug, run.pk])).content.decode()

    assert f'href="{url(topic, from_=1, to=2)}"' in shown.replace("&amp;", "&")
    assert "Compare with Run #1" in words(shown)
