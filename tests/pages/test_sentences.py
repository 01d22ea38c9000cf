"""The pages of a report's sentences: sources, checking and correcting."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import ContentItem, Topic, User
from research.models import CheckedSentence, Correction, Hit, Report, Run
from research.services.facts import correcting
from research.services.runs.reporting import sentences as report_sentences
from research.services.runs.reporting.composing import EXTRACTIVE
from research.services.runs.reporting.report_text import sentence_key
from tests.research.factories import make_fact, make_report, make_run, make_topic
from tests.undo import undo_of

FALSE = "Support for version 13 ended years ago."
TRUE = "Version 18.1 closes two faults."
STORED = f"PostgreSQL news. {TRUE} Users should update soon."


def check(sentence: str, *, supported: bool = True, **more: Any) -> dict[str, Any]:
    given = {"why": "" if supported else "quote", "sources": 1, "independent": 1} | more
    return {"sentence": sentence, "key": sentence_key(sentence), "supported": supported} | given


@pytest.fixture
def run(alice: User) -> Run:
    topic = make_topic(alice)
    run = make_run(topic, unsupported_count=1)
    item = ContentItem.objects.create(
        owner=alice, topic=topic, content=STORED, size=len(STORED), trust="external"
    )
    link = "https://example.org/1"
    Hit.objects.create(
        run=run, url=link, link=link, service="feeds", content_item=item, reading="read"
    )
    start = STORED.index(TRUE)
    quote = {"sentence": TRUE, "quote": TRUE, "found": True, "in_snippet": False}
    place = {"start": start, "end": start + len(TRUE), "before": "news. ", "after": " Users"}
    make_report(
        run,
        body=f"{TRUE} [1] And more.\n\n- {FALSE} [1] *(unsupported)*",
        checks=[check(TRUE, sources=3, independent=2), check(FALSE, supported=False)],
        sources=[
            {
                "n": 1, "url": link, "link": link, "title": "18.1", "domain": "example.org",
                "published_at": "2026-11-12", "state": "new", "trust": "external",
                "quotes": [quote | place],
                "repeated_by": [{"n": None, "domain": "copy.example", "link": "https://copy.example"}],
            }
        ],
    )  # fmt: skip
    return run


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def url(name: str, run: Run, *more: Any) -> str:
    return reverse(f"research:{name}", args=[run.topic.slug, run.pk, *more])


def page(browser: Client, address: str) -> str:
    answer = browser.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_the_report_says_how_many_sources_are_independent_and_what_is_unsupported(
    browser: Client, run: Run
):
    shown = page(browser, url("run", run))

    assert "(3 sources, 2 independent)" in shown
    assert f'id="s-{sentence_key(TRUE)}">{TRUE}' in shown
    assert "! 1 unsupported sentence" in shown
    assert 'title="The quote isn’t in the stored page.">! unsupported' in shown
    assert "<mark>Version 18.1 closes two faults.</mark>" in shown
    assert "copy.example" in shown


def test_each_mark_of_one_source_leads_to_its_own_sentence(run: Run):
    other = "Users should update soon."
    shown = report_sentences.wrapped(
        f'<p>{TRUE} <sup><a href="#source-1">[1]</a></sup> {other} '
        f'<sup><a href="#source-1">[1]</a></sup></p>',
        lambda key: "",
    )
    assert re.findall(r'data-of="(\w+)"', shown) == [sentence_key(TRUE), sentence_key(other)]


def test_a_source_is_shown_as_it_was_read_with_the_quote_at_its_place(browser: Client, run: Run):
    shown = page(browser, url("run-source", run, 1))

    assert f'PostgreSQL news. <mark id="quote-1">{TRUE}</mark> Users should' in shown


def test_a_source_whose_text_is_gone_keeps_its_quotes(browser: Client, run: Run):
    ContentItem.objects.all().delete()

    shown = page(browser, url("run-source", run, 1))

    assert "The text was deleted or has expired" in shown
    assert TRUE in shown


def test_a_source_that_the_report_has_not_is_not_found(browser: Client, run: Run):
    assert browser.get(url("run-source", run, 9)).status_code == 404


def test_all_sentences_are_listed_and_the_unsupported_ones_by_themselves(browser: Client, run: Run):
    everything = page(browser, url("report-sentences", run))
    alone = page(browser, url("report-sentences", run) + "?show=unsupported")

    assert TRUE in everything
    assert "And more." in everything
    assert TRUE not in alone
    assert FALSE in alone
    assert "The quote isn’t in the stored page." in alone


def test_it_says_how_many_are_checked_and_leaves_out_what_isnt_a_claim(browser: Client, run: Run):
    words = f"{run.report.body}\n\n{EXTRACTIVE}"
    type(run.report).objects.filter(pk=run.report.pk).update(body=words)
    sentences = url("report-sentences", run)

    before = page(browser, sentences)
    browser.post(url("sentence-check", run, sentence_key(FALSE)))

    assert "0 of 3 checked" in before and "Extractive report" not in before
    assert "1 of 3 checked" in page(browser, sentences)


def test_a_quote_from_a_search_result_is_not_counted_as_verified(browser: Client, run: Run):
    words = "of 3 sentences in this run’s report have a verified quote"
    assert f"1 {words}" in page(browser, url("report-sentences", run))

    sources = run.report.sources
    sources[0]["quotes"][0]["in_snippet"] = True
    type(run.report).objects.filter(pk=run.report.pk).update(sources=sources)

    assert f"0 {words}" in page(browser, url("report-sentences", run))


def test_i_checked_it_is_noted_with_name_and_date_and_undone(browser: Client, run: Run):
    key = sentence_key(FALSE)

    browser.post(url("sentence-check", run, key))
    marked = page(browser, url("run", run))
    browser.post(url("sentence-uncheck", run, key))

    assert "✓ verified by you" in marked
    assert "0 not reviewed yet" in marked
    assert "✓ verified by you" not in page(browser, url("run", run))
    assert CheckedSentence.objects.get().by == "human:alice"


def test_a_correction_changes_the_selected_fact_and_marks_the_sentence(browser: Client, run: Run):
    fact = make_fact(run.topic, FALSE, run)
    address = url("sentence-correct", run, sentence_key(FALSE))
    assert FALSE in page(browser, address)

    answer = browser.post(
        address,
        {
            "wrong": "It ends now.",
            "right": "Support for version 13 ends in November.",
            "fact": f"{fact.pk}:{fact.version}",
        },
        follow=True,
    )

    fact.refresh_from_db()
    assert fact.text == "Support for version 13 ends in November."
    assert "≠ corrected by you" in answer.content.decode()
    assert "Undo correction" in page(
        browser, reverse("research:topic-corrections", args=[run.topic.slug])
    )


def test_a_fact_that_is_not_selected_stays(browser: Client, run: Run):
    fact = make_fact(run.topic, FALSE, run)

    browser.post(url("sentence-correct", run, sentence_key(FALSE)), {"wrong": "It ends now."})

    fact.refresh_from_db()
    assert fact.state == "current"
    assert Correction.objects.get().facts.count() == 0


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"wrong": ""}, "Explain what’s wrong with the sentence"),
        ({"wrong": "x" * 1001}, "at most 1000 characters"),
        ({"wrong": "No.", "right": "Short.", "fact": "{fact}"}, "Write a complete statement"),
        ({"wrong": "No.", "fact": "{pk}:99"}, "changed since you opened this page"),
    ],
)
def test_a_bad_correction_is_explained_and_keeps_what_was_typed(
    browser: Client, run: Run, sent: dict[str, str], said: str
):
    fact = make_fact(run.topic, FALSE, run)
    values = {"fact": f"{fact.pk}:{fact.version}", "pk": str(fact.pk)}
    data = {name: text.format(**values) for name, text in sent.items()}

    answer = browser.post(url("sentence-correct", run, sentence_key(FALSE)), data)

    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert data["wrong"][:50] in answer.content.decode()
    assert not Correction.objects.exists()


def test_a_correction_is_undone_in_one_press(browser: Client, run: Run, alice: User):
    report = Report.objects.select_related("run__topic", "owner").get(run=run)
    one = report_sentences.sentence_of(report, sentence_key(FALSE))
    assert one is not None
    made = correcting.correct(report, one, wrong="No.", by=alice.actor)

    browser.post(undo_of("correction", made.pk))

    assert "≠ corrected by you" not in page(browser, url("run", run))


def test_a_sentence_that_the_report_does_not_hold_is_not_found(browser: Client, run: Run):
    assert browser.get(url("sentence-correct", run, "0" * 16)).status_code == 404
    assert browser.post(url("sentence-check", run, "0" * 16)).status_code == 404


def test_a_stranger_gets_none_of_it(client_of: Callable[[Any], Client], bob: User, run: Run):
    other = client_of(bob)
    key = sentence_key(FALSE)

    assert other.get(url("run-source", run, 1)).status_code == 404
    assert other.get(url("report-sentences", run)).status_code == 404
    assert other.post(url("sentence-check", run, key)).status_code == 404
    assert other.post(url("sentence-correct", run, key), {"wrong": "x"}).status_code == 404


def test_the_lists_ask_a_fixed_number_of_questions(
    browser: Client, run: Run, alice: User, django_assert_max_num_queries: Any
):
    report = Report.objects.select_related("run__topic", "owner").get(run=run)
    for one in report_sentences.sentences_of(report):
        correcting.correct(report, one, wrong="No.", by=alice.actor)
        correcting.check(report, one, by=alice.actor)

    with django_assert_max_num_queries(12):
        browser.get(url("report-sentences", run))
    with django_assert_max_num_queries(12):
        browser.get(reverse("research:topic-corrections", args=[run.topic.slug]))
    with django_assert_max_num_queries(12):
        browser.get(url("sentence-correct", run, sentence_key(FALSE)))
    with django_assert_max_num_queries(12):
        browser.get(url("run-source", run, 1))


def test_empty_lists_say_what_to_do(browser: Client, alice: User):
    topic: Topic = make_topic(alice, "Nothing yet")
    run = make_run(topic)
    make_report(run, body="", sources=[])

    assert "This report has no sentences" in page(browser, url("report-sentences", run))
    shown = page(browser, url("report-sentences", run) + "?show=unsupported")
    assert "No unsupported sentences" in shown
    listed = page(browser, reverse("research:topic-corrections", args=[topic.slug]))
    assert "No corrections yet" in listed
