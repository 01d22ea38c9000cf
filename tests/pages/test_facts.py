"""A topic's facts on its page: seen, added, corrected."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from memory.models import Topic, TopicFact, Trust, Use
from memory.models.actors import RESEARCH
from tests.research.factories import make_fact, make_report, make_run

HTMX = {"HX-Request": "true"}
FACTS = "/topics/postgresql-releases/facts/"
TEXT = "Version 18.1 repairs index corruption after a crash."


@pytest.fixture
def fact(topic: Topic) -> TopicFact:
    """A fact that Run #1 found."""
    run = make_run(topic)
    url = "https://www.postgresql.org/about/news/181/"
    more = {"url": url, "confirmed_at": timezone.now(), "quote": "repairs index corruption"}
    return make_fact(topic, TEXT, run, trust=Trust.EXTERNAL, **more)


def page(browser: Client) -> str:
    return browser.get(FACTS).content.decode()


def texts(topic: Topic) -> list[str]:
    return [fact.text for fact in TopicFact.objects.filter(topic=topic).current()]


# --- the page ------------------------------------------------------------------------------------


@pytest.mark.requirement("R60", "R225")
def test_a_fact_shows_its_source_host_quote_and_when_it_was_found(browser: Client, fact: TopicFact):
    body = page(browser)

    assert TEXT in body
    assert ">postgresql.org<" in body.replace("<bdi>", ">").replace("</bdi>", "<")
    assert "repairs index corruption" in body
    assert "Run #1</a>, <time" in body and "last confirmed" not in body


def test_a_confirmed_fact_names_the_run_and_when(browser: Client, fact: TopicFact):
    TopicFact.objects.filter(pk=fact.pk).update(first_run=1, confirmed_run=3)

    assert "confirmed by Run #3, <time" in page(browser)


def test_a_source_that_isnt_a_web_address_is_shown_and_not_linked(browser: Client, topic: Topic):
    make_fact(topic, TEXT, url="javascript:alert(1)")

    assert 'href="javascript' not in page(browser)


def test_a_document_of_the_library_is_linked_to_its_page(browser: Client, topic: Topic):
    make_fact(topic, TEXT, url="library:7c1e27a5-2f0e-4d0c-9f3c-0a9d8e2b6f11/3")

    assert "7c1e27a5-2f0e-4d0c-9f3c-0a9d8e2b6f11" in page(browser)
    assert 'href="library:' not in page(browser)


def test_a_document_was_changed_on_its_day_and_a_page_published(browser: Client, topic: Topic):
    day = date(2026, 3, 9)
    fact = make_fact(topic, TEXT, url="library:7c1e27a5-2f0e-4d0c-9f3c-0a9d8e2b6f11/3")
    TopicFact.objects.filter(pk=fact.pk).update(published_at=day)
    assert "updated <time" in page(browser)
    TopicFact.objects.filter(pk=fact.pk).update(url="https://cells.example/1")
    assert "published <time" in page(browser)


@pytest.mark.requirement("R232")
@pytest.mark.parametrize("path", ["", "edit/", "history/"])
def test_a_stranger_sees_no_fact(
    fact: TopicFact, bob: Any, client_of: Callable[[Any], Client], path: str
):
    assert client_of(bob).get(FACTS).status_code == 404
    assert client_of(bob).get(f"{FACTS}{fact.pk}/{path}").status_code == 404


@pytest.mark.requirement("R232")
@pytest.mark.parametrize("act", ["strike", "take-back", "lock", "unlock", "up", "down", "trash"])
def test_a_stranger_changes_no_fact_and_no_one_by_get(
    browser: Client, fact: TopicFact, bob: Any, client_of: Callable[[Any], Client], act: str
):
    assert client_of(bob).post(f"{FACTS}{fact.pk}/{act}/").status_code == 404
    # The form that marks it as wrong loads what depends on it from there.
    assert browser.get(f"{FACTS}{fact.pk}/{act}/").status_code == (302 if act == "strike" else 405)
    fact.refresh_from_db()
    assert fact.version == 1


def test_the_number_of_queries_is_fixed(
    browser: Client, topic: Topic, django_assert_max_num_queries: DjangoAssertNumQueries
):
    runs = [make_run(topic) for _number in range(3)]
    for number in range(10):
        make_fact(topic, f"A current fact number {number} of some length.", runs[number % 3])
    for number in range(10):
        gone = make_fact(topic, f"A wrong fact number {number} of some length.", runs[0])
        gone.strike(by=topic.owner.actor, why="wrong")

    with django_assert_max_num_queries(15):
        browser.get(FACTS)


def test_the_list_says_how_often_a_fact_was_used_and_a_runs_time_once(
    browser: Client, topic: Topic
):
    run = make_run(topic)
    first, second = (
        make_fact(topic, f"A current fact number {n} of some length.", run, position=n)
        for n in (1, 2)
    )
    for place in ("agent:claude", "agent:cursor", "session:1"):
        Use.note(topic.owner, [("topicfact", first.pk)], place)

    body = browser.get(FACTS).content.decode().partition('class="facts"')[2]
    above, _sign, below = body.partition(f'id="fact-{second.pk}"')

    assert "used in 3 prompts" in above and "used in" not in below.partition("</li>")[0]
    when = f'<time datetime="{timezone.localtime(first.created):%Y-%m-%d}'
    assert "Run #1" in above and when in above
    assert "Run #1" in below and when not in below.partition("</li>")[0]


# --- adding --------------------------------------------------------------------------------------


def test_a_fact_is_added_by_hand_and_trusted(browser: Client, topic: Topic):
    response = browser.post(FACTS, {"text": f"- {TEXT}", "url": "https://a.org/x"})

    added = TopicFact.objects.get()
    assert (response.status_code, response.url.partition("?")[2]) == (
        302,
        f"view=list#fact-{added.pk}",
    )
    assert (added.text, added.url, added.trust) == (TEXT, "https://a.org/x", Trust.OWNER)
    assert added.is_kept


@pytest.mark.requirement("R227")
def test_over_htmx_adding_gives_the_list_again_with_a_toast(browser: Client, topic: Topic):
    body = browser.post(FACTS, {"text": TEXT}, headers=HTMX).content.decode()

    assert body.lstrip().startswith('<div id="facts"')
    assert TEXT in body
    assert "Fact added." in body


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"text": "short"}, "at least 21 characters"),
        ({"text": ""}, "Enter the fact as one complete sentence"),
        ({"text": "x " * 600}, "at most 1000 characters"),
        ({"text": TEXT, "url": "javascript:alert(1)"}, "isn’t a valid URL"),
        ({"text": TEXT, "url": "postgresql.org"}, "isn’t a valid URL"),
        ({"text": TEXT, "url": "https://postgresql.org/a b"}, "isn’t a valid URL"),
        ({"text": TEXT, "url": "https://postgresql.org/\u200b"}, "isn’t a valid URL"),
        ({"text": TEXT, "url": 'https://postgresql.org/"onclick='}, "isn’t a valid URL"),
        ({"text": TEXT, "url": "https://postgresql.org/<b>"}, "isn’t a valid URL"),
    ],
)
def test_a_fact_that_cannot_be_is_explained_and_what_was_typed_kept(
    browser: Client, topic: Topic, given: dict[str, str], told: str
):
    response = browser.post(FACTS, given)

    assert response.status_code == 200
    assert told in response.content.decode()
    assert given["text"].strip() in response.content.decode()
    assert TopicFact.objects.count() == 0


def test_a_fact_that_is_known_already_is_explained(browser: Client, fact: TopicFact):
    body = browser.post(FACTS, {"text": f"{TEXT.upper()} [3]"}).content.decode()

    assert "The topic already has this fact" in body


def test_the_ninth_fact_of_a_persons_own_is_refused_with_what_to_do(browser: Client, topic: Topic):
    for number in range(8):
        browser.post(FACTS, {"text": f"What I know for sure, number {number}."})

    body = browser.post(FACTS, {"text": TEXT}).content.decode()

    assert "This topic has reached the limit of 8 facts" in body
    assert TEXT in body
    assert len(texts(topic)) == 8


def test_nul_and_markup_do_no_harm(browser: Client, topic: Topic):
    browser.post(FACTS, {"text": "<b>Version 18\x00</b> is out since <script>September</script>."})

    assert "<script>September" not in page(browser)
    assert "\x00" not in TopicFact.objects.get().text


# --- correcting ----------------------------------------------------------------------------------


def edit(fact: TopicFact) -> str:
    return f"{FACTS}{fact.pk}/edit/"


def test_a_fact_is_corrected_on_a_page_of_its_own(browser: Client, fact: TopicFact):
    assert TEXT in browser.get(edit(fact)).content.decode()

    new = "Version 18.2 repairs it for good."
    browser.post(edit(fact), {"text": new, "url": "", "version": 1})

    fact.refresh_from_db()
    assert (fact.text, fact.is_kept, fact.trust) == (new, True, Trust.OWNER)


@pytest.mark.requirement("R227")
def test_over_htmx_a_fact_is_corrected_in_its_row(browser: Client, fact: TopicFact):
    form = browser.get(edit(fact), headers=HTMX).content.decode()
    assert form.strip().splitlines()[-1].startswith(f'<li id="fact-{fact.pk}"') or (
        f'<li id="fact-{fact.pk}"' in form and "<html" not in form
    )

    given = {"text": "Version 18.2 repairs it for good.", "version": 1}
    row = browser.post(edit(fact), given, headers=HTMX).content.decode()

    assert f'<li id="fact-{fact.pk}"' in row
    assert "Version 18.2 repairs it for good." in row
    assert "Fact corrected." in row


def test_cancelling_over_htmx_gives_the_row_back(browser: Client, fact: TopicFact):
    row = browser.get(f"{FACTS}{fact.pk}/", headers=HTMX).content.decode()

    assert TEXT in row
    assert "<textarea" not in row
    assert browser.get(f"{FACTS}{fact.pk}/").status_code == 302


def test_a_conflict_shows_base_theirs_and_mine_and_saving_again_keeps_mine(
    browser: Client, fact: TopicFact
):
    theirs, mine = "Version 18.1 repairs it, they say.", "Version 18.1 repairs it, I say."
    TopicFact.objects.get(pk=fact.pk).edit(theirs, by=fact.owner.actor)

    body = browser.post(edit(fact), {"text": mine, "version": 1}).content.decode()

    assert all(text in body for text in (TEXT, theirs, mine))
    fact.refresh_from_db()
    assert fact.text == theirs

    browser.post(edit(fact), {"text": mine, "version": fact.version})
    fact.refresh_from_db()
    assert fact.text == mine


def test_a_change_of_place_or_lock_isnt_a_conflict(browser: Client, fact: TopicFact, topic: Topic):
    make_fact(topic, "Another fact, to change places with it.", position=2)
    browser.post(f"{FACTS}{fact.pk}/lock/")
    browser.post(f"{FACTS}{fact.pk}/down/")

    browser.post(edit(fact), {"text": "Version 18.1 repairs it, I say.", "version": 1})

    fact.refresh_from_db()
    assert fact.text == "Version 18.1 repairs it, I say."


def test_a_fact_retired_while_it_was_edited_comes_back_with_the_new_words(
    browser: Client, fact: TopicFact
):
    TopicFact.objects.get(pk=fact.pk).retire(by=RESEARCH, why="not among Run #2's", run=2)
    mine = "Version 18.1 repairs it, I say."

    conflict = browser.post(edit(fact), {"text": mine, "version": 1}).content.decode()
    assert "replaced" in conflict
    assert mine in conflict

    browser.post(edit(fact), {"text": mine, "version": 2})
    fact.refresh_from_db()
    assert (fact.text, fact.state) == (mine, "current")


@pytest.mark.parametrize("version", ["", "none", "0"])
def test_a_correction_says_which_version_it_saw(browser: Client, fact: TopicFact, version: str):
    response = browser.post(edit(fact), {"text": "Something else altogether.", "version": version})

    assert response.status_code == 200
    fact.refresh_from_db()
    assert fact.text == TEXT


def test_a_version_from_the_future_overwrites_nothing(browser: Client, fact: TopicFact):
    mine = "Version 18.1 repairs it, I say."
    for version in (999, 10**12):
        body = browser.post(edit(fact), {"text": mine, "version": version}).content.decode()
        assert "Nothing was saved" in body

    fact.refresh_from_db()
    assert fact.text == TEXT


# --- the filter bar ------------------------------------------------------------------------------


def test_the_list_is_filtered_by_words_and_status(browser: Client, topic: Topic, fact: TopicFact):
    make_fact(topic, "The next major version is due in autumn.", make_run(topic))
    old = make_fact(topic, "Version 17.0 repairs nothing.", make_run(topic))
    old.retire(by=RESEARCH, why="replaced", run=2)

    def shown(query: str) -> list[bool]:
        html = browser.get(f"{FACTS}?view=list&{query}").content.decode()
        return [text in html for text in (TEXT, "due in autumn", old.text)]

    assert shown("") == [True, True, True]
    assert shown("q=Repairs") == [True, False, True]
    assert shown("show=current") == [True, True, False]
    assert shown("show=outdated") == [False, False, True]
    assert shown("q=repairs+nothing&show=nonsense") == [False, False, True]
    assert "No matching facts" in browser.get(f"{FACTS}?q=unknown").content.decode()


@pytest.mark.parametrize("runs", [1, 2])
def test_a_search_stays_in_the_list(browser: Client, topic: Topic, runs: int):
    """After an invalid fact, and if the second run finishes while the list is open."""
    for _number in range(runs):
        make_report(make_run(topic))
    refused = browser.post(FACTS, {"text": "short"}).content.decode()
    opened = browser.get(f"{FACTS}{'?view=list' if runs > 1 else ''}").content.decode()

    for page in (refused, opened):
        form = page.partition('class="filter-form"')[2].partition("</form>")[0]
        assert '<input type="hidden" name="view" value="list">' in form


def test_an_act_on_a_filtered_list_keeps_the_filter(browser: Client, topic: Topic, fact: TopicFact):
    make_fact(topic, "The next major version is due in autumn.", make_run(topic))
    url = f"{FACTS}{fact.pk}/lock/"

    page = browser.post(url, headers={**HTMX, "HX-Current-URL": f"http://testserver{FACTS}?q=18.1"})

    assert TEXT in page.content.decode()
    assert "due in autumn" not in page.content.decode()


@pytest.mark.parametrize(
    ("query", "act", "is_empty"),
    [
        ("show=yours", "trash", True),
        ("show=current", "strike", True),
        ("q=18.1", "trash", True),
        ("q=repairs", "trash", False),  # an outdated fact is below
        ("q=18.1", "strike", False),  # it's among the wrong ones
        ("", "trash", False),
    ],
)
def test_an_act_on_the_last_match_leaves_a_message(
    browser: Client, topic: Topic, query: str, act: str, is_empty: bool
):
    mine = make_fact(topic, TEXT, make_run(topic), trust=Trust.OWNER, edited_by_person=True)
    old = make_fact(topic, "Version 17.0 repairs nothing.", make_run(topic))
    old.retire(by=RESEARCH, why="replaced", run=2)
    now = f"http://testserver{FACTS}?view=list&{query}"

    body = browser.post(f"{FACTS}{mine.pk}/{act}/", headers={**HTMX, "HX-Current-URL": now})

    assert ("No matching facts" in body.content.decode()) is is_empty


def test_an_act_updates_the_counts_in_the_filter_bar(browser: Client, topic: Topic):
    first, _second = (
        make_fact(topic, f"A current fact number {n} of some length.", make_run(topic))
        for n in (1, 2)
    )
    for run in topic.runs.all():
        make_report(run)
    now = f"http://testserver{FACTS}?view=list&q=number"

    response = browser.post(f"{FACTS}{first.pk}/trash/", headers={**HTMX, "HX-Current-URL": now})

    bar = response.content.decode().partition('<div id="facts-bar"')[2].partition("</nav>")[0]
    assert 'hx-swap-oob="true"' in bar.partition(">")[0]
    assert '<span dir="auto">Current</span><span class="num">1</span>' in bar
    assert 'href="?q=number"' in bar  # to the other view
    assert response.content.decode().count("Fact moved to Trash.") == 1
