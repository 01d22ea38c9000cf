"""The page of a saved run: its report, and what changed."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils.html import strip_tags

from memory.models import Topic, User
from research.claims import blocks
from research.models import DeltaItem, Report, Run
from research.services.reports import delta_rows
from tests.pages.report_cast import page, section, url
from tests.research.factories import (
    make_hit,
    make_item,
    make_report,
    make_run,
    make_second_run,
    make_source,
    make_topic,
)

# --- the report -----------------------------------------------------------------------------------


@pytest.mark.requirement("R26", "R58")
def test_it_is_titled_run_n_with_its_counts(browser: Client, run: Run):
    shown = page(browser, run)

    masthead = re.search(r'<div class="masthead">.*?</div>', shown, re.S)
    assert "<title>Run #2" in shown
    assert masthead and "Run #2" in masthead[0]
    words = " ".join(re.sub(r"<[^>]+>", " ", shown).split())
    assert "New pages 4 Known pages 1" in words


@pytest.mark.requirement("R58", "R41")
def test_what_changed_is_first_and_holds_only_what_is_new(browser: Client, run: Run):
    shown = page(browser, run)

    listed = re.search(r'<ul class="delta">.*?</ul>', shown, re.S)
    assert shown.index('id="what-changed"') < shown.index('class="body"')
    assert listed and listed[0].count("<li>") == 3
    assert "came with version 18" not in listed[0] and "due in May" not in listed[0]


def test_confirmed_quiet_and_withheld_are_folded_with_their_counts(browser: Client, run: Run):
    folds = re.search(r'<div class="ui folds">.*?</section>', page(browser, run), re.S)

    assert folds and folds[0].count("<details") == 3 and "<details open" not in folds[0]
    assert re.search(r'Not mentioned <span class="count">1<', folds[0])
    assert "unsupported: no quote" in folds[0]


def test_a_changed_fact_is_one_sentence_with_its_old_and_new_words_marked(
    browser: Client, run: Run
):
    shown = page(browser, run)

    assert "November <del>2025</del> <ins>2026</ins>." in shown


OLD_SOURCE = {
    "link": "https://old.example/page",
    "domain": "old.example",
    "published_at": "2025-11-03",
    "quote": "fixes are made until November 2025",
}


def test_old_and_new_sentence_each_have_quote_linked_source_and_day(browser: Client, topic: Topic):
    run = make_second_run(topic)
    run.delta_items.filter(status="changed").update(previous_source=OLD_SOURCE, quote="the words")

    shown = re.search(r"<li>(?:(?!<li>).)*<ins>.*?</li>", page(browser, run), re.S)

    assert shown and "Before:" in shown[0] and "fixes are made until November 2025" in shown[0]
    assert 'href="https://old.example/page"' in shown[0] and "3 Nov 2025" in shown[0]
    assert "<q>the words</q>" in shown[0] and "example.org" in shown[0]


def test_an_unsure_change_says_that_both_stay(browser: Client, topic: Topic):
    run = make_second_run(topic)
    run.delta_items.filter(status="changed").update(needs_review=True)

    shown = section(page(browser, run), "what-changed")

    assert "Needs review" in shown and shown.count("Both facts were kept.") == 2
    assert shown.count("Resolve in Inbox") == 2


def test_a_gone_item_quotes_its_old_page_and_not_the_present_one(browser: Client, topic: Topic):
    run = make_second_run(topic)
    gone = {"status": "gone", "needs_review": False, "previous_source": OLD_SOURCE, "quote": ""}
    run.delta_items.filter(status="changed").update(**gone)

    shown = section(page(browser, run), "what-changed")
    item = re.search(r"− Gone.*?</li>", shown, re.DOTALL)

    assert item and "The source page no longer says this." in item[0]
    assert re.search(r'<s class="old"><span class="body-text"', item[0])
    assert "Before:" in item[0] and "fixes are made until November 2025" in item[0]
    assert "old.example" in item[0] and "3 Nov 2025" in item[0]
    assert "example.org" not in item[0]  # the present page: it no longer says this
    assert "#source-" not in item[0]


def test_a_gone_item_without_a_kept_quote_names_its_site(browser: Client, topic: Topic):
    run = make_second_run(topic)
    run.delta_items.filter(status="changed").update(status="gone", needs_review=False)

    item = re.search(r"− Gone.*?</li>", section(page(browser, run), "what-changed"), re.DOTALL)

    assert item and "example.org" in item[0] and "<time" not in item[0]


@pytest.mark.parametrize(
    ("before", "now", "marked"),
    [
        ("Forced upgrade of PostgreSQL 14 on 2027-01-19", "2026-12-01", "2027-01-19"),
        ("The image of version 18 takes 5.2 GB", "6 GB", "5.2 GB"),
        ("The newest pre-release of it is 18.0-rc.1", "18.0-rc.2", "18.0-rc.1"),
        ("It is now on the list as v1.6.0", "v1.7.0", "v1.6.0"),
    ],
)
def test_dates_versions_and_numbers_with_units_are_marked_whole(before: str, now: str, marked: str):
    old, new = delta_rows.marked_words(before, before.replace(marked, now))

    assert strip_tags(old) == before and strip_tags(new) == before.replace(marked, now)
    assert [strip_tags(one) for one in re.findall(r"<del>(.*?)</del>", old)] == [marked]
    assert [strip_tags(one) for one in re.findall(r"<ins>(.*?)</ins>", new)] == [now]


def test_dates_and_versions_stay_on_one_line():
    shown = delta_rows.unbroken("<b> on 2026-12-01, 18.0-rc.1 and well-known")

    assert shown == (
        '&lt;b&gt; on <span class="nowrap">2026-12-01</span>, '
        '<span class="nowrap">18.0-rc.1</span> and well-known'
    )


@pytest.mark.parametrize(("is_same_page", "dates"), [(True, 0), (False, 1)])
def test_of_one_page_read_again_both_versions_show_a_date_or_neither(
    browser: Client, topic: Topic, is_same_page: bool, dates: int
):
    run = make_second_run(topic)
    item = run.delta_items.get(status="changed")
    now = next(one for one in run.report.sources if one["n"] in item.citations)
    link = now["link"] if is_same_page else "https://old.example/page"
    item.previous_source = OLD_SOURCE | {"link": link, "published_at": None}
    item.save()

    items = section(page(browser, run), "what-changed").split("</li>")
    shown = next(one for one in items if "<ins>" in one)
    assert shown.count("<time") == dates


def test_on_paper_a_changed_fact_has_no_words_of_links(browser: Client, topic: Topic):
    shown = section(page(browser, make_second_run(topic)), "what-changed")

    on_paper = re.sub(r'<(span|a) class="no-print".*?</\1>', "", shown, flags=re.S)

    assert "Both facts were kept." in on_paper and "The new fact replaced the old one." in on_paper
    assert "Resolve in Inbox" not in on_paper and "Old fact</a>" not in on_paper


def test_a_fact_that_gave_way_is_undone_from_its_own_page(browser: Client, topic: Topic):
    old = make_second_run(topic).delta_items.get(status="changed").previous_fact
    assert old is not None
    place = f"/topics/{topic.slug}/facts/{old.pk}/history/"
    assert "Restore</button>" in browser.get(place).content.decode()

    answer = browser.post(place.replace("history", "take-back"), {"next": place}, follow=True)

    assert answer.redirect_chain[0][0] == place
    assert "Restore</button>" not in answer.content.decode()
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


def test_what_is_zero_has_no_row(browser: Client, topic: Topic):
    run = make_run(topic, new_count=0)
    make_report(run)

    shown = page(browser, run)
    assert "Known pages" in shown
    assert not [
        words for words in ("New pages", "Queries", "Tokens", "Cost") if f">{words}<" in shown
    ]


@pytest.mark.requirement("R48")
def test_citation_n_leads_to_source_n(browser: Client, run: Run):
    shown = page(browser, run)

    cards = dict(re.findall(r'id="source-(\d+)".*? dir="auto">(.*?)</a>', shown, re.S))
    assert cards == {"1": "18.1", "2": "End of life"}
    assert set(re.findall(r'href="#source-(\d+)"', shown)) == {"1", "2"}


def test_a_citation_card_says_whether_its_quote_was_found(browser: Client, topic: Topic):
    run = make_run(topic)
    lost = [{"sentence": "S.", "quote": "Never said.", "found": False}]
    make_report(run, sources=[make_source(1, "A"), make_source(2, "B", quotes=lost)])

    cards = section(page(browser, run), "sources")

    assert "quote verified ✓" in cards and "not found in the stored page" in cards
    assert "The quoted words." in cards


def test_a_citation_card_says_when_only_the_search_result_was_read(browser: Client, topic: Topic):
    run = make_run(topic)
    quote = {"sentence": "S.", "quote": "As listed.", "found": True, "in_snippet": True}
    make_report(run, sources=[make_source(1, "A", quotes=[quote])])

    cards = section(page(browser, run), "sources")

    assert "from the search result only" in cards
    assert "verified ✓" not in cards


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
    from beacon_site.providers.search.base import SearchOptions
    from beacon_site.providers.search.sample import SampleSearch

    found = SampleSearch().search("PostgreSQL", SearchOptions())[0]
    run = make_run(topic)
    make_report(run, sources=[make_source(1, "A sample", link=found.url)])

    cards = section(page(browser, run), "sources")
    assert "bundled with Beacon" in cards and f'href="{found.url}"' not in cards


def test_the_address_of_a_bundled_source_has_one_spelling(browser: Client, topic: Topic):
    place = "postgres-weekly.example/2025/november/minor-releases"
    link = f"https://{place.replace('postgres-weekly', 'POSTGRES-WEEKLY')}/?utm_source=newsletter"
    run = make_run(topic)
    make_report(run, sources=[make_source(1, "A sample", link=link)])

    assert f'title="{link}">{place}</bdi>' in section(page(browser, run), "sources")


def test_it_says_what_wrote_it(browser: Client, topic: Topic):
    first, second = make_run(topic), make_run(topic)
    make_report(first)
    make_report(second, written_by="a-model", is_extractive=False)

    assert "Extractive, written without a model" in page(browser, first)
    assert "Written by a-model" in page(browser, second)


def test_a_partial_report_says_why_at_its_head(browser: Client, topic: Topic):
    run = make_run(topic, status="partial", warnings=["Memory not saved: disk full"])
    make_report(run)

    shown = page(browser, run)
    assert "This report is partial" in shown and "Memory not saved: disk full" in shown


def test_one_remark_at_the_head_is_a_line_and_several_are_a_list(browser: Client, topic: Topic):
    for warnings in (["one"], ["one", "two"]):
        run = make_run(topic, warnings=warnings)
        make_report(run)
        assert ('warnings single"' in page(browser, run)) is (len(warnings) == 1)


def test_other_scripts_are_in_their_own_direction(browser: Client, alice: User):
    run = make_run(make_topic(alice, "الطاقة الشمسية"))
    make_report(run, body="تنمو الطاقة الشمسية بسرعة. [1]\n\n人工智能的发展。 [2]")

    shown = page(browser, run)
    assert (
        '<p dir="auto"><span' in shown
        and ">تنمو" in shown
        and ">人工智能的发展。</span><sup>" in shown
    )
    assert ">الطاقة الشمسية</bdi>" in shown


def test_contents_are_at_the_side_from_five_headings_on(browser: Client, topic: Topic):
    first, second = make_run(topic), make_run(topic)
    make_report(first, body="No headings. [1]")
    headings = ("Findings", "Market", "Money", "Already known")
    make_report(second, body="\n\n".join(f"## {one}\n\nA sentence. [1]" for one in headings))

    assert 'class="toc"' not in page(browser, first)
    assert '<a href="#section-1" dir="auto">Findings</a>' in page(browser, second)


def test_unsupported_sentences_are_marked(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run, body="It is the fastest. *(unsupported)*")

    assert "! unsupported</span>" in page(browser, run)


def test_of_many_hits_the_first_are_shown_and_the_others_on_request(browser: Client, topic: Topic):
    run = make_run(topic)
    make_report(run)
    for place in range(1, 104):
        make_hit(run, place, state="known")

    few, all_of_them = page(browser, run), browser.get(f"{url('run', run)}?hits=all").content

    assert 'href="?hits=all#hits"' in few and "Show all 103, not just the first 100" in few
    assert "Page 100" in few and "Page 101" not in few
    assert b"Page 103" in all_of_them and b'href="?hits=all#hits"' not in all_of_them
    # Without JavaScript, nothing else unfolds the rows that the link leads to.
    row = '<details class="fold-row" open>\n    <summary>\n      <h3 id="hits-title">'
    assert row.encode() in all_of_them and row not in few


def test_a_model_s_summary_comes_before_its_changes(browser: Client, topic: Topic):
    run = make_second_run(topic)
    body = "The year in one sentence. [1]\n\n## Findings\n\nMore of it. [2]"
    Report.objects.filter(run=run).update(body=body, is_extractive=False)

    shown = page(browser, run)

    places = ["The year in one sentence", '<ul class="delta">', ">Findings</h2>"]
    assert sorted(places, key=shown.index) == places
    assert shown.count("The year in one sentence") == 1 and 'id="full-report"' not in shown


def test_without_a_model_the_report_below_its_changes_is_folded(browser: Client, run: Run):
    shown = page(browser, run)

    assert shown.index('<ul class="delta">') < shown.index('<details class="fold ui full-report"')
    assert '<details class="fold ui full-report" id="full-report" open' not in shown


def test_run_details_are_folded_at_the_end(browser: Client, run: Run):
    shown = page(browser, run)
    how = shown[shown.index('id="how"') :]

    assert "</article>" not in how
    assert 'class="fold-row" open' not in how and "<h3>Steps</h3>" in how


def test_quotes_are_shown_without_markup():
    assert blocks.plain_quote('<h1 class="big">Call for **talks** - closed</h1>') == (
        "Call for talks - closed"
    )
    assert blocks.plain_quote("| <b>T1</b> | 2027 |") == "T1 · 2027"
