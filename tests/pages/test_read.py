"""The page on which a topic is read: the strip of runs, the selection, its sentences and their margin."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import strip_tags
from pytest_django import DjangoAssertNumQueries

from memory.models import Conflict, Note, Topic, User
from memory.services.review.conflicts import resolve
from research.models import AffectedLine, Correction, DeltaItem, Report, Run
from research.services.facts import affected
from research.services.reports import strip
from research.services.reports.delta_rows import in_one
from research.services.reports.since_read import MAX_RUNS
from research.services.runs.reporting.report_text import sentence_key
from tests.research.factories import make_fact, make_item, make_report, make_run, make_topic
from tests.undo import undone

HTMX = {"HX-Request": "true"}
OLD = "Cells from the plant cost ninety euros per kilowatt hour."
NOW = "Cells from the plant cost eighty euros per kilowatt hour."
NEWS = "The fire test in Graz was passed by every cell of the series."
KNOWN = "The plant in Graz opened its gates to visitors in spring."


@pytest.fixture
def topic(alice: User) -> Topic:
    """Four reports: #1 was read; #2 found a fact, #3 changed it, #4 found another."""
    topic = make_topic(alice, "Solid-state batteries")
    runs = [make_run(topic) for _number in range(4)]
    reports = [make_report(run) for run in runs]
    reports[0].mark_read()
    fact = make_fact(topic, OLD, runs[1])
    known = make_fact(topic, KNOWN, runs[0], url="https://plant.example.org/", quote=KNOWN)
    make_item(runs[1], "new", OLD, citations=[1])
    make_item(runs[2], "changed", NOW, previous_fact=fact, previous_text=OLD, citations=[2])
    make_item(runs[2], "confirmed", KNOWN, previous_fact=known, previous_text=KNOWN)
    make_item(runs[3], "confirmed", KNOWN, previous_fact=known, previous_text=KNOWN)
    make_item(runs[3], "new", NEWS, citations=[1])
    make_item(runs[3], "new", "It is the best of all.", hidden_reason="not what was asked for")
    return topic


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def url(name: str, topic: Topic, *more: Any) -> str:
    return reverse(f"research:{name}", args=[topic.slug, *more])


def page(browser: Client, topic: Topic, query: str = "", **more: Any) -> str:
    answer = browser.get(url("topic", topic) + query, **more)
    assert answer.status_code == 200
    return answer.content.decode()


def words(html: str) -> str:
    return " ".join(strip_tags(html).split())


def part(shown: str, key: str) -> str:
    found = re.search(rf'<(section|details)[^>]* id="{key}".*?</\1>', shown, re.S)
    return found[0] if found else ""


def selected(browser: Client, topic: Topic, query: str = "") -> list[int]:
    shown = browser.get(url("topic", topic) + query).context["page"]
    return [one.number for one in shown.strip.selected]


# --- what is read -----------------------------------------------------------------------------------


@pytest.mark.requirement("R253")
def test_unread_runs_are_read_as_one(browser: Client, topic: Topic):
    shown = page(browser, topic)
    changed = words(part(shown, "what-changed"))

    assert "Since you last read" in words(shown)
    assert NEWS in changed and NOW in changed and OLD not in changed
    assert changed.count("+ New") == 2 and "≠ Changed" not in changed
    assert "1 item was filtered out" in changed


def test_each_fact_names_the_runs_that_mentioned_it(browser: Client, topic: Topic):
    assert "new in #2 changed in #3" in words(part(page(browser, topic), "what-changed"))


def test_old_and_new_are_one_sentence_where_they_share_most(browser: Client, topic: Topic):
    changed = part(page(browser, topic, "?from=3&to=3"), "what-changed")

    assert "<del>ninety</del> <ins>eighty</ins>" in changed


def test_sentences_that_share_little_are_shown_side_by_side(browser: Client, topic: Topic):
    item = DeltaItem.objects.get(run__topic=topic, status="changed")
    DeltaItem.objects.filter(pk=item.pk).update(sentence="Nobody sells such cells any longer now.")

    changed = part(page(browser, topic, "?from=3&to=3"), "what-changed")

    assert 'class="beside"' in changed and f"<del>{OLD}</del>" in changed


def test_two_lists_of_versions_are_two_passages():
    old = "The latest releases are 16.4, 15.8 and 14.13, published on 8 August 2024."
    new = "The latest releases are 17.6, 16.10 and 15.14, published on 14 August 2025."

    assert "<del>16.4, 15.8</del> <ins>17.6, 16.10</ins> and" in str(in_one(old, new))


@pytest.mark.requirement("R254")
def test_every_sentence_names_its_source_also_the_known_ones(browser: Client, topic: Topic):
    shown = page(browser, topic)

    for line in re.findall(r'<li class="line.*?</li>', shown, re.S):
        assert re.search(r'<sup><a href="#source-\d+"', line), words(line)
    assert 'id="source-1"' in shown and 'id="source-2"' in shown
    still = words(part(shown, "still-true"))
    assert KNOWN in still and "plant.example.org" in still and "Since #1" in still
    assert "confirmed 2 times, last today" in still


def test_a_page_that_two_reports_cite_has_one_number(browser: Client, topic: Topic):
    shown = browser.get(url("topic", topic)).context["page"]

    addresses = [source.address for source in shown.sources]
    assert len(addresses) == len(set(addresses))
    assert [source.n for source in shown.sources] == list(range(1, len(addresses) + 1))


def test_what_is_gone_needs_no_quote(browser: Client, alice: User):
    topic = make_topic(alice, "Batteries")
    make_report(make_run(topic))
    run = make_run(topic)
    quote = {"sentence": NEWS, "quote": NEWS, "found": True, "in_snippet": False}
    link = "https://plant.example.org/"
    make_report(run, sources=[{"n": 1, "link": link, "title": "Plant", "quotes": [quote]}])
    make_item(run, "new", NEWS, citations=[1])
    make_item(run, "gone", OLD, citations=[1], previous_text=OLD)

    assert "every quote verified ✓" in page(browser, topic, "?from=2&to=2")


def test_facts_that_no_run_mentioned_are_folded(browser: Client, topic: Topic):
    DeltaItem.objects.filter(sentence=KNOWN).update(status="gone quiet")

    shown = page(browser, topic)

    assert KNOWN in part(shown, "not-mentioned") and KNOWN not in part(shown, "still-true")


@pytest.mark.requirement("R402")
def test_facts_that_contradict_each_other_arent_called_true(
    browser: Client, topic: Topic, alice: User
):
    run = Run.objects.get(topic=topic, number=1)
    one, other = (make_fact(topic, f"The plant in Graz has {n} gates.", run) for n in (3, 4))
    conflict = Conflict.objects.note(alice, "contradiction", one, other, reason="number")
    assert conflict is not None
    shown = page(browser, topic)
    disputed = part(shown, "disputed")
    assert one.text in words(disputed) and other.text in words(disputed)
    assert "These contradict each other" in disputed and "different number" in disputed
    assert f'href="{conflict.get_absolute_url()}"' in disputed
    assert "gates" in KNOWN and KNOWN in words(part(shown, "still-true"))
    assert one.text not in words(part(shown, "still-true"))
    earlier = page(browser, topic, "?from=1&to=3")
    assert 'id="disputed"' not in earlier  # as it was read then
    resolve(conflict, "right", by=alice.actor)
    assert 'id="disputed"' not in page(browser, topic)


def test_a_first_report_says_what_it_found(browser: Client, topic: Topic):
    shown = page(browser, topic, "?from=1&to=1")

    assert "Findings from the first run" in shown and KNOWN in part(shown, "what-changed")
    assert "Nothing new" not in words(part(shown, "what-changed"))


def test_facts_are_those_known_after_the_selected_run(browser: Client, topic: Topic):
    later = make_fact(topic, "The second hall is built beside the first one.", None)
    type(later).objects.filter(pk=later.pk).update(first_run=4)

    assert later.text not in page(browser, topic, "?from=2&to=2")
    assert later.text in page(browser, topic, "?from=4&to=4")


def test_what_was_marked_as_wrong_since_says_so(browser: Client, topic: Topic, alice: User):
    fact = make_fact(topic, NEWS, Run.objects.get(topic=topic, number=4))
    fact.strike(by=alice.actor)

    assert "marked as wrong" in words(part(page(browser, topic), "what-changed"))


def test_a_sentence_leads_to_the_history_of_its_fact(browser: Client, topic: Topic):
    fact = make_fact(topic, NEWS, Run.objects.get(topic=topic, number=4))

    assert f'href="{url("fact-history", topic, fact.pk)}" data-row-history' in page(browser, topic)


def test_a_single_run_has_its_whole_report(browser: Client, topic: Topic):
    assert 'id="full-report"' in page(browser, topic, "?from=4&to=4")
    assert 'id="full-report"' not in page(browser, topic)


# --- the selection ----------------------------------------------------------------------------------


def test_the_selection_is_what_is_unread(browser: Client, topic: Topic):
    assert selected(browser, topic) == [2, 3, 4]


def test_the_address_selects_runs_in_any_order(browser: Client, topic: Topic):
    assert selected(browser, topic, "?from=1&to=3") == [1, 2, 3]
    assert selected(browser, topic, "?from=3&to=1") == [1, 2, 3]
    assert selected(browser, topic, "?from=2") == [2]


@pytest.mark.parametrize(
    "query",
    ["?from=&to=", "?from=x&to=y", "?from=٣&to=٤", "?from=-1&to=-5", "?from=99&to=120",
     f"?from={'9' * 30}&to=1e3", "?from=%00&to=%F0"],
)  # fmt: skip
def test_a_selection_that_cannot_be_read_shows_what_is_unread(
    browser: Client, topic: Topic, query: str
):
    assert selected(browser, topic, query)[-1] == 4


def test_when_all_is_read_the_last_changes_stay(browser: Client, topic: Topic):
    make_report(make_run(topic), is_quiet=True, delta="Nothing new.")
    Report.objects.filter(run__topic=topic).update(read_at=timezone.now())

    shown = page(browser, topic)

    assert selected(browser, topic) == [4, 5] and "Latest changes" in words(shown)
    assert NEWS in part(shown, "what-changed")


@pytest.mark.requirement("R255")
def test_unread_runs_without_changes_lead_to_the_last_ones(browser: Client, topic: Topic):
    Report.objects.filter(run__topic=topic).update(read_at=timezone.now())
    make_report(make_run(topic), is_quiet=True, delta="Nothing new.")

    changed = part(page(browser, topic), "what-changed")

    assert "Nothing new." in changed and 'href="?from=4&amp;to=4" id="last-changes"' in changed


def test_a_removed_run_is_not_in_the_strip(browser: Client, topic: Topic, alice: User):
    Report.objects.get(run__topic=topic, run__number=3).trash(by=alice.actor)

    assert selected(browser, topic, "?from=1&to=4") == [1, 2, 4]


def test_over_htmx_the_article_comes_alone_with_its_title(browser: Client, topic: Topic):
    shown = page(browser, topic, "?from=2&to=3", headers=HTMX)

    assert shown.lstrip().startswith('<article class="read" id="reading"')
    assert 'id="strip-selected" hx-swap-oob="true"' in shown and "Runs #2 to #3" in shown
    assert "<html" not in shown and 'id="strip-form"' not in shown


def test_without_scripts_two_lists_select_the_runs(browser: Client, topic: Topic):
    shown = page(browser, topic)

    assert '<select name="from" id="strip-from">' in shown
    assert re.search(r'<option value="2"[^>]* selected>', shown)
    assert 'href="?from=3&amp;to=3"' in shown  # a run's column is a link


def test_one_run_has_no_strip(browser: Client, alice: User):
    topic = make_topic(alice, "Heat pumps")
    make_report(make_run(topic))

    assert 'id="strip-form"' not in page(browser, topic)


def test_arrows_lead_to_the_runs_next_to_the_selection(browser: Client, topic: Topic):
    shown = page(browser, topic, "?from=2&to=3")

    assert 'href="?from=1&amp;to=1" rel="prev"' in shown
    assert 'href="?from=4&amp;to=4" rel="next"' in shown


def test_hundreds_of_runs_cost_no_query_more(
    browser: Client, topic: Topic, django_assert_max_num_queries: DjangoAssertNumQueries
):
    for number in range(strip.MAX_COLUMNS + 5):
        run = make_run(topic)
        make_report(run)
        make_item(run, "new", f"The plant number {number} opened its gates to visitors.")

    with django_assert_max_num_queries(22):
        answer = browser.get(url("topic", topic))
    shown = answer.context["page"]
    assert len(shown.strip.columns) == strip.MAX_COLUMNS and shown.strip.earlier == 9
    assert shown.left_out == strip.MAX_COLUMNS - MAX_RUNS
    assert "older runs aren’t included" in answer.content.decode()


def test_a_stranger_reads_nothing(topic: Topic, bob: User, client_of: Callable[[Any], Client]):
    assert client_of(bob).get(url("topic", topic) + "?from=1&to=4").status_code == 404
    assert Client().get(url("topic", topic)).status_code == 302


# --- read marks -------------------------------------------------------------------------------------


def test_reading_everything_unread_marks_it(browser: Client, topic: Topic):
    assert f'data-mark-read="{url("topic-read", topic)}?upto=4"' in page(browser, topic)


def test_reading_one_run_marks_only_its_report(browser: Client, topic: Topic):
    third = Run.objects.get(topic=topic, number=3)

    shown = page(browser, topic, "?from=3&to=3")

    assert f'data-mark-read="{url("report-read", topic, third.pk)}"' in shown
    assert "data-mark-read=" not in page(browser, topic, "?from=1&to=1")


def test_watching_a_run_is_not_reading_its_report(browser: Client, topic: Topic):
    assert 'data-mark-read-on="act"' in page(browser, topic, "?watched=1")
    assert "data-mark-read-on" not in page(browser, topic)


# --- a sentence -------------------------------------------------------------------------------------


def correct_url(topic: Topic, number: int, sentence: str) -> str:
    run = Run.objects.get(topic=topic, number=number)
    return url("sentence-correct", topic, run.pk, sentence_key(sentence))


@pytest.mark.requirement("R256")
def test_a_sentence_is_corrected_in_its_place(browser: Client, topic: Topic):
    fact = make_fact(topic, NEWS, Run.objects.get(topic=topic, number=4))
    address = correct_url(topic, 4, NEWS)
    assert f'hx-get="{address}"' in page(browser, topic)

    form = browser.get(address, headers=HTMX).content.decode()
    assert "<html" not in form and f">\n{NEWS}</textarea>" in form

    right = "The fire test in Graz was passed by most cells of the series."
    sent = {"right": right, "fact": f"{fact.pk}:{fact.version}"}
    answer = browser.post(address, sent, headers=HTMX)
    assert right in answer.content.decode() and "<html" not in answer.content.decode()
    fact.refresh_from_db()
    assert fact.text == right
    shown = page(browser, topic)
    assert "Corrected</span>" in shown and right in shown

    undone(browser, answer)
    fact.refresh_from_db()
    assert fact.text == NEWS and Correction.objects.get().undone_at


def test_a_correction_needs_a_change(browser: Client, topic: Topic):
    answer = browser.post(correct_url(topic, 4, NEWS), {"right": NEWS}, headers=HTMX)

    assert "Explain what’s wrong with the sentence, or correct it above." in answer.content.decode()
    assert not Correction.objects.exists()


def test_what_was_typed_stays_when_the_fact_has_changed(browser: Client, topic: Topic, alice: User):
    fact = make_fact(topic, NEWS, Run.objects.get(topic=topic, number=4))
    seen = f"{fact.pk}:99"  # a version that another window has made

    right = "The fire test in Graz was passed by most cells of the series."
    answer = browser.post(correct_url(topic, 4, NEWS), {"right": right, "fact": seen}, headers=HTMX)

    shown = answer.content.decode()
    assert right in shown and "changed since you opened this page" in shown
    assert not Correction.objects.exists()


def test_a_note_appears_in_the_margin_of_its_sentence(browser: Client, topic: Topic, alice: User):
    sent = {"sentence": NEWS, "note": "Ask Tomasz about the series."}
    answer = browser.post(url("sentence-note", topic), sent, headers=HTMX)

    note = Note.objects.for_user(alice).get(topic=topic)
    assert note.evidence == [NEWS] and note.topic_id == topic.pk
    assert "Ask Tomasz" in answer.content.decode()
    assert "Ask Tomasz about the series." in part(page(browser, topic), "what-changed")
    undone(browser, answer)
    assert "Ask Tomasz" not in part(page(browser, topic), "what-changed")


def test_a_note_without_scripts_returns_to_the_page(browser: Client, topic: Topic):
    form = browser.get(url("sentence-note", topic), {"sentence": NEWS}).content.decode()
    assert NEWS in form and "<html" in form

    answer = browser.post(url("sentence-note", topic), {"sentence": NEWS, "note": "Ask."})

    assert answer.status_code == 302 and answer["Location"] == url("topic", topic)


@pytest.mark.parametrize(
    "sent", [{"note": ""}, {"note": "  "}, {"note": "x" * 1001}, {"sentence": ""}]
)
def test_a_note_that_cannot_be_saved_is_explained(
    browser: Client, topic: Topic, sent: dict[str, str]
):
    sent = {"sentence": NEWS, "note": "Ask Tomasz."} | sent

    answer = browser.post(url("sentence-note", topic), sent, headers=HTMX)

    assert "errorlist" in answer.content.decode()
    assert not Note.objects.filter(topic=topic).exists()


def test_a_stranger_notes_and_removes_nothing(
    topic: Topic, bob: User, client_of: Callable[[Any], Client], met: AffectedLine
):
    stranger = client_of(bob)
    sent = {"sentence": NEWS, "note": "Mine."}

    assert stranger.post(url("sentence-note", topic), sent).status_code == 404
    assert stranger.post(url("affects-dismiss", topic, met.pk)).status_code == 404
    met.refresh_from_db()
    assert met.dismissed_at is None


# --- affects you ------------------------------------------------------------------------------------


@pytest.fixture
def met(topic: Topic, alice: User) -> AffectedLine:
    """A note of alice's that the news in run #4 meets."""
    from tests.research.test_affected import write

    write(alice, "Book the Graz fire test for our own series.")
    affected.note(Run.objects.get(topic=topic, number=4), topic)
    return AffectedLine.objects.get()


@pytest.mark.requirement("R257")
def test_a_change_that_meets_a_line_of_memory_says_so(
    browser: Client, topic: Topic, met: AffectedLine
):
    changed = words(part(page(browser, topic), "what-changed"))

    assert "Affects you" in changed and "Book the Graz fire test for our own series." in changed
    home = words(browser.get("/").content.decode())
    assert "Affects you:" in home and NEWS in home and "Book the Graz fire test" in home


def test_what_is_not_about_this_is_removed_with_undo(
    browser: Client, topic: Topic, met: AffectedLine
):
    answer = browser.post(url("affects-dismiss", topic, met.pk), follow=True)
    assert "Affects you" not in part(answer.content.decode(), "what-changed")

    undone(browser, answer)

    assert "Affects you" in part(page(browser, topic), "what-changed")
