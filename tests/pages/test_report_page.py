"""The page of a saved run: its report, what changed, sources, memory, trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.models import Topic, User
from research.manifest_rows import manifest_rows
from research.models import DeltaItem, Report, Run
from tests.research.factories import (
    make_call,
    make_fact,
    make_hits,
    make_item,
    make_report,
    make_run,
    make_second_run,
    make_source,
    make_topic,
)


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice)


@pytest.fixture
def run(topic: Topic) -> Run:
    """Run #2 with a delta of all kinds."""
    return make_second_run(topic)


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def url(name: str, run: Run) -> str:
    return reverse(f"research:{name}", args=[run.topic.slug, run.pk])


def page(browser: Client, run: Run) -> str:
    answer = browser.get(url("run", run))
    assert answer.status_code == 200
    return answer.content.decode()


def section(shown: str, key: str) -> str:
    found = re.search(rf'<section[^>]* id="{key}".*?</section>', shown, re.S)
    assert found is not None
    return found[0]


# --- the report -----------------------------------------------------------------------------------


@pytest.mark.requirement("R26", "R58")
def test_it_is_titled_run_n_with_its_counts(browser: Client, run: Run):
    shown = page(browser, run)

    masthead = re.search(r'<div class="masthead">.*?</div>', shown, re.S)
    assert "<title>Run #2" in shown
    assert masthead and re.search(r"Run #2.*new 2.*known 1", masthead[0], re.S)


@pytest.mark.requirement("R58", "R41")
def test_what_changed_stands_first_and_holds_only_what_is_new(browser: Client, run: Run):
    shown = page(browser, run)

    listed = re.search(r'<ul class="delta">.*?</ul>', shown, re.S)
    assert shown.index('id="what-changed"') < shown.index('class="body"')
    assert listed and listed[0].count("<li>") == 3
    assert "came with version 18" not in listed[0] and "due in May" not in listed[0]


def test_confirmed_quiet_and_withheld_are_folded_with_their_counts(browser: Client, run: Run):
    folds = re.search(r'<div class="ui folds">.*?</section>', page(browser, run), re.S)

    assert folds and folds[0].count("<details") == 3 and "<details open" not in folds[0]
    assert re.search(r'Gone quiet <span class="count">1<', folds[0])
    assert "unsupported: no quote" in folds[0]


def test_a_changed_fact_stands_beside_the_old_one_with_its_words_marked(browser: Client, run: Run):
    shown = page(browser, run)

    assert "November <del>2025</del>." in shown
    assert "November <ins>2026</ins>." in shown


OLD_SOURCE = {
    "link": "https://old.example/page",
    "domain": "old.example",
    "published_at": "2025-11-03",
    "quote": "fixes are made until November 2025",
}


def test_old_and_new_sentence_each_have_quote_linked_source_and_day(browser: Client, topic: Topic):
    run = make_second_run(topic)
    run.delta_items.filter(status="changed").update(previous_source=OLD_SOURCE, quote="the words")

    shown = re.search(r'<div class="beside words".*?<ins>.*?</div>', page(browser, run), re.S)

    assert shown and "fixes are made until November 2025" in shown[0]
    assert 'href="https://old.example/page"' in shown[0] and "3 Nov 2025" in shown[0]
    assert "<q>the words</q>" in shown[0] and "example.org" in shown[0]


def test_an_unsure_change_says_that_both_stay(browser: Client, topic: Topic):
    run = make_second_run(topic)
    run.delta_items.filter(status="changed").update(unsure=True)

    shown = section(page(browser, run), "what-changed")

    assert "To be looked at" in shown and shown.count("Both were kept: you decide, on the") == 2


def test_a_fact_that_gave_way_is_taken_back_from_its_own_page(browser: Client, topic: Topic):
    old = make_second_run(topic).delta_items.get(status="changed").previous_fact
    assert old is not None
    place = f"/topics/{topic.slug}/facts/{old.pk}/history/"
    assert "Take back" in browser.get(place).content.decode()

    answer = browser.post(place.replace("history", "take-back"), {"next": place}, follow=True)

    assert answer.redirect_chain[0][0] == place
    assert "Take back" not in answer.content.decode()
    old.refresh_from_db()
    assert old.state == "current"


def test_sentences_with_little_in_common_are_struck_whole(browser: Client, topic: Topic):
    run = make_second_run(topic)
    make_item(run, DeltaItem.Status.CHANGED, "Quite another thing.", previous_text="Old words gone")

    assert '<s class="old">Old words gone</s>' in page(browser, run)


def test_a_baseline_has_no_delta_section(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run)

    shown = page(browser, run)

    assert 'id="what-changed"' not in shown and ">baseline<" in shown


def test_a_quiet_run_says_that_nothing_is_new(browser: Client, topic: Topic):
    make_report(make_run(topic))
    run = make_run(topic)
    make_report(run, delta="Nothing new since 14 November (Run #1).", is_quiet=True)

    assert "Nothing new since 14 November" in section(page(browser, run), "what-changed")


@pytest.mark.requirement("R48")
def test_citation_n_leads_to_source_n(browser: Client, run: Run):
    shown = page(browser, run)

    cards = dict(re.findall(r'id="source-(\d+)".*?<bdi>(.*?)</bdi>', shown, re.S))
    assert cards == {"1": "18.1", "2": "End of life"}
    assert set(re.findall(r'href="#source-(\d+)"', shown)) == {"1", "2"}


def test_a_citation_card_says_whether_its_quote_was_found(browser: Client, topic: Topic):
    run = make_run(topic)
    lost = [{"sentence": "S.", "quote": "Never said.", "found": False}]
    make_report(run, sources=[make_source(1, "A"), make_source(2, "B", quotes=lost)])

    cards = section(page(browser, run), "sources")

    assert "found in the stored page ✓" in cards and "not found in the stored page" in cards
    assert "The quoted words." in cards


def test_a_citation_card_says_when_only_the_search_result_was_read(browser: Client, topic: Topic):
    run = make_run(topic)
    quote = {"sentence": "S.", "quote": "As listed.", "found": True, "in_snippet": True}
    make_report(run, sources=[make_source(1, "A", quotes=[quote])])

    cards = section(page(browser, run), "sources")

    assert "from the search result: the page itself was not read" in cards
    assert "found in the stored page" not in cards


@pytest.mark.requirement("R61")
def test_only_http_links_become_links_and_no_script_runs(browser: Client, topic: Topic):
    run = make_run(topic)
    body = "<script>alert(1)</script> [a](javascript:alert(2)) [b](https://example.org/b)"
    bad = make_source(1, "Bad", link="javascript:alert(3)")
    make_report(run, body=body, sources=[bad])

    shown = page(browser, run)

    assert "<script>alert" not in shown and 'href="javascript' not in shown
    assert 'href="https://example.org/b"' in shown


def test_a_bundled_source_is_text_and_says_so(browser: Client, topic: Topic):
    from beacon_site.providers.sample import SampleSearch
    from beacon_site.providers.search import SearchOptions

    found = SampleSearch().search("PostgreSQL", SearchOptions())[0]
    run = make_run(topic)
    make_report(run, sources=[make_source(1, "A sample", link=found.url)])

    cards = section(page(browser, run), "sources")
    assert "bundled with Beacon" in cards and f'href="{found.url}"' not in cards


def test_it_says_what_wrote_it(browser: Client, topic: Topic):
    first, second = make_run(topic), make_run(topic)
    make_report(first)
    make_report(second, written_by="a-model", is_extractive=False)

    assert "extractive, written without a model" in page(browser, first)
    assert "written by a-model" in page(browser, second)


def test_a_partial_report_says_why_at_its_head(browser: Client, topic: Topic):
    run = make_run(topic, status="partial", warnings=["memory not saved: disk full"])
    make_report(run)

    shown = page(browser, run)
    assert "This report is partial" in shown and "Memory not saved: disk full" in shown


def test_other_scripts_stand_in_their_own_direction(browser: Client, alice: User):
    run = make_run(make_topic(alice, "الطاقة الشمسية"))
    make_report(run, body="تنمو الطاقة الشمسية بسرعة. [1]\n\n人工智能的发展。 [2]")

    shown = page(browser, run)
    assert (
        '<p dir="auto"><span' in shown
        and ">تنمو" in shown
        and ">人工智能的发展。</span><sup>" in shown
    )
    assert "<bdi>الطاقة الشمسية</bdi>" in shown


def test_contents_stand_at_the_side_from_three_headings_on(browser: Client, topic: Topic):
    first, second = make_run(topic), make_run(topic)
    make_report(first, body="No headings. [1]")
    make_report(second)

    assert 'class="toc"' not in page(browser, first)
    assert '<a href="#section-1" dir="auto">Findings</a>' in page(browser, second)


def test_unsupported_sentences_are_marked(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run, body="It is the fastest. *(unsupported)*")

    assert "! unsupported</span>" in page(browser, run)


# --- sources, memory, trace -----------------------------------------------------------------------


@pytest.mark.requirement("R49")
def test_hits_are_grouped_with_what_became_of_each(browser: Client, run: Run):
    hits = section(page(browser, run), "hits")

    assert re.search(r'New <span class="count">4<', hits)
    assert re.search(r'Known <span class="count">1<', hits)
    assert "2 read · 1 near-duplicate · 1 could not be read" in hits
    assert "could not be read: the server answered 404" in hits


@pytest.mark.requirement("R248")
def test_the_memory_changes_of_the_run_stand_alongside(browser: Client, run: Run):
    memory = section(page(browser, run), "memory-changes")

    learnt, confirmed, contradicted, retired = memory.split("<h3>")[1:]
    assert "Version 18.1 repairs" in learnt
    assert "came with version 18" in confirmed
    assert "off by default" in contradicted
    assert "until November 2025" in retired
    edit = re.search(r'href="([^"]+/edit/)"', learnt)
    assert edit and browser.get(edit[1]).status_code == 200
    assert "/history/" in retired and "/edit/" not in retired


@pytest.mark.requirement("R248")
def test_a_memory_change_tells_what_became_of_it_since(browser: Client, topic: Topic, alice: User):
    run = make_run(topic)
    make_report(run)
    fact = make_fact(topic, "Version 18 was released in September 2025.", run)
    fact.strike(by=alice.actor)

    assert "struck since" in section(page(browser, run), "memory-changes")


def test_the_trace_shows_prompts_answers_and_what_steps_left(browser: Client, run: Run):
    make_call(run)
    run.steps.filter(name="plan").update(output={"queries": ["PostgreSQL 18"]})

    shown = browser.get(url("run-trace", run)).content.decode()

    assert "What should be asked?" in shown and "1200 tokens in, 80 out" in shown
    assert "What “Plan” left" in shown


def test_the_trace_is_a_part_of_the_page_over_htmx(browser: Client, run: Run):
    answer = browser.get(url("run-trace", run), headers={"HX-Request": "true"})

    assert answer.content.strip().startswith(b'<div id="trace"')


def test_runs_before_and_after_are_one_click_away(browser: Client, run: Run):
    after = make_run(run.topic)
    make_report(after)

    shown = page(browser, run)

    assert f'href="{url("run", after)}" rel="next"' in shown
    assert 'rel="prev"' in shown


# --- reading marks --------------------------------------------------------------------------------


def test_opening_a_report_does_not_mark_it_read_but_its_page_asks_to(browser: Client, run: Run):
    shown = page(browser, run)

    assert f'data-mark-read="{url("report-read", run)}"' in shown
    assert Report.objects.get(run=run).read_at is None


def test_the_page_marks_it_read_without_an_answer(browser: Client, run: Run):
    answer = browser.post(url("report-read", run), headers={"X-Requested-With": "fetch"})

    assert answer.status_code == 204
    assert Report.objects.get(run=run).read_at is not None


def test_without_javascript_a_button_marks_it_read(browser: Client, run: Run):
    answer = browser.post(url("report-read", run))

    assert answer.status_code == 302
    assert "data-mark-read" not in page(browser, run)


def test_mark_unread_goes_to_the_list_so_that_it_stays_unread(browser: Client, run: Run):
    run.report.mark_read()

    answer = browser.post(url("report-unread", run))

    assert answer["Location"] == reverse("research:reports")
    assert Report.objects.get(run=run).read_at is None


@pytest.mark.parametrize("name", ["report-read", "report-unread"])
def test_a_run_without_a_report_has_no_reading_mark(browser: Client, topic: Topic, name: str):
    run = make_run(topic, saved=False)

    assert browser.post(url(name, run)).status_code == 404


# --- strangers, GETs, queries ---------------------------------------------------------------------


def test_a_stranger_finds_nothing(bob: User, client_of: Any, run: Run):
    stranger = client_of(bob)

    assert stranger.get(url("run", run)).status_code == 404
    assert stranger.post(url("report-read", run)).status_code == 404
    assert stranger.post(url("report-unread", run)).status_code == 404


def test_the_report_of_a_topic_in_the_trash_is_not_shown(browser: Client, run: Run, alice: User):
    run.topic.refresh_from_db()
    run.topic.trash(by=alice.actor)

    assert browser.get(url("run", run)).status_code == 404


def test_looking_changes_nothing(browser: Client, run: Run):
    before = Report.objects.filter(run=run).values().get()

    page(browser, run)

    assert Report.objects.filter(run=run).values().get() == before


def test_forty_hits_and_twenty_sources_cost_no_query_more(browser: Client, topic: Topic):
    few, many = make_run(topic), make_run(topic)
    make_report(few)
    make_hits(few, 1)
    make_fact(topic, "The only fact of the first run.", few)
    make_report(many, sources=[make_source(n, f"Source {n}") for n in range(1, 21)])
    make_hits(many, 40)
    for n in range(12):
        fact = make_fact(topic, f"Fact number {n} of the topic stands.", many)
        make_item(many, "confirmed", fact.text, previous_fact=fact, previous_text=fact.text)

    with CaptureQueriesContext(connection) as asked:
        page(browser, few)
    with CaptureQueriesContext(connection) as more:
        page(browser, many)

    assert len(more) == len(asked) <= 14


# --- nothing came up -------------------------------------------------------------------------------


def asked(run: Run, *services: str) -> None:
    entries = [
        {"query": "versions", "service": name, "hits": 0, "problem": ""} for name in services
    ]
    run.steps.create(name="search", position=3, state="done", output={"asked": entries})


@pytest.mark.parametrize(("services", "told"), [(["library", "feeds"], True), (["serpapi"], False)])
def test_where_only_feeds_and_library_found_nothing_it_says_what_to_do(
    browser: Client, topic: Topic, services: list[str], told: bool
):
    run = make_run(topic)
    make_report(run, sources=[])
    asked(run, *services)

    shown = page(browser, run)

    assert ("Asked were: Feeds, Library." in shown) is told
    assert ('href="/library/add/"' in shown) is told


def test_what_was_found_needs_no_advice(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run)
    make_hits(run, 3)
    asked(run, "library")

    assert "The web at large was not searched" not in page(browser, run)


def test_pages_read_are_counted_as_the_hits_are(browser: Client, topic: Topic):
    run = make_run(topic, read_count=9)
    make_report(run)
    make_hits(run, 3)
    read = run.hits.filter(reading="read").count()

    assert re.search(rf"<dt>Read</dt><dd>{read} pages?<", page(browser, run))


def test_its_memory_expires_in_the_topic_pages_words(browser: Client, run: Run):
    assert "Expires in 30 days. Each saved run renews it." in page(browser, run)


def test_what_a_run_was_made_with_is_told_in_words(run: Run):
    run.manifest = {"services": ["hackernews"], "planned_by": "fallback"}

    assert manifest_rows(run) == [
        ("Services", ["Hacker News"]),
        ("Plan", ["planned without the model, which failed"]),
    ]
