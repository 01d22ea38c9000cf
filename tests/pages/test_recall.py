"""Memory with a search: hits with their figures and reasons, what is not understood said once."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import (
    MemoryFile,
    Note,
    Observation,
    Recalled,
    Revision,
    SavedView,
    Section,
    TopicFact,
    Trust,
    Use,
    User,
)
from memory.models.actors import Actor
from memory.pages.records.record import mark_of
from memory.services.files.saving import append_to, save_file
from memory.services.review import contradictions
from tests.research.factories import make_topic

HTMX = {"HX-Request": "true", "HX-Target": "recall"}
PANEL = {"HX-Request": "true", "HX-Target": "record-panel"}
RECALL = reverse("memory:recall")
EPISODES, EPISODE = "episodes/2026-11.md", "# 2026-11 Episodes\n\n## Tea\n- Summary: "


@pytest.fixture(autouse=True)
def _without_an_embedder(settings: Any) -> None:
    settings.BEACON_EMBEDDINGS = "none"


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


def make_note(owner: User, content: str, **fields: Any) -> Note:
    note = Note.objects.create(owner=owner, content=content, **fields)
    Revision.record_first([note], by=owner.actor)
    Recalled.follow([note])
    return note


def make_observation(owner: User, content: str, category: str = "finding") -> Observation:
    digest = Observation.digest_of(content)
    seen = Observation(owner=owner, content=content, category=category, digest=digest)
    seen.save()
    Recalled.follow([seen])
    return seen


@pytest.fixture
def note(alice: User) -> Note:
    return make_note(alice, "The pilot line in Lanling makes <b>cells</b> since May.")


def hits(browser: Client, **asked: str) -> list[Any]:
    found = browser.get(RECALL, asked).context["found"]
    return [row.hit.record for row in found.rows]


@pytest.mark.requirement("R80")
def test_a_hit_shows_category_score_content_and_why(browser: Client, note: Note):
    html = browser.get(RECALL, {"q": "pilot lines"}).content.decode()
    assert '<a class="memory-why" id="memory-why" href="?q=pilot+lines&amp;why=1"' in html
    assert "memory-score" not in html
    page = browser.get(RECALL, {"q": "pilot lines", "why": "1"})
    assert page.context["bar"].state == "q=pilot+lines"  # what a saved view keeps
    html = page.content.decode()
    assert 'href="?q=pilot+lines" hx-get' in html
    assert "memory-score" in html
    assert '<span class="memory-kind">Log</span>' in html
    assert "<mark>pilot</mark> <mark>line</mark>" in html
    assert "Matched word stems:" in html
    assert reverse("memory:note", args=[note.pk]) in html
    assert "&lt;b&gt;cells" in html


def test_before_anything_is_remembered_it_says_how_to_begin(browser: Client):
    html = browser.get(RECALL).content.decode()
    assert "Write down the first thing to remember" in html
    assert f'action="{reverse("memory:remember")}"' in html
    assert "nothing yet" not in html  # the empty files of a new account


def test_over_htmx_the_hits_alone_answer(browser: Client, note: Note):
    html = browser.get(RECALL, {"q": "pilot"}, headers=HTMX).content.decode()
    assert html.lstrip().startswith('<section id="recall"')
    assert "Lanling" in html


def test_it_is_narrowed_by_kind_topic_and_time(browser: Client, alice: User, note: Note):
    lesson = make_observation(alice, "Ask the pilot line's maker first.", "lesson")
    topic = make_topic(alice, "Solid cells")
    about = make_note(alice, "A pilot line of the topic.", topic=topic)

    assert hits(browser, q="pilot", show="lesson") == [lesson]
    assert hits(browser, q="pilot", topic=topic.slug) == [about]
    assert hits(browser, q="pilot", to="2020-01-01") == []
    assert len(hits(browser, q="pilot", **{"from": "2020-01-01"})) == 3


def test_operators_alone_give_the_newest(browser: Client, note: Note):
    assert hits(browser, q="kind:log") == [note]


@pytest.mark.requirement("R239")
@pytest.mark.parametrize(
    "asked",
    [
        "the and of", "kind:nothing", '"unbalanced pilot', "-", '""', "::::", "-kind:log", "%_\\",
        "pilot " * 900, "x" * 20_000, "after:2026-99-99", "\x00", "💥", "(pilot & !", "tag:", "type:,,",
    ],
)  # fmt: skip
def test_a_question_that_makes_no_sense_is_answered_well(browser: Client, note: Note, asked: str):
    answer = browser.get(RECALL, {"q": asked})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "asked",
    [
        "mode=best", "show=all", "limit=-1", "limit=x", "from=x", "topic=nothing", "limit=٣",
        "limit=" + "9" * 5_000,
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_isnt_an_error(browser: Client, note: Note, asked: str):
    assert browser.get(f"{RECALL}?q=pilot&{asked}").status_code == 200


def test_an_operator_that_is_not_known_is_reported_once(browser: Client, note: Note):
    html = browser.get(RECALL, {"q": "pilot colour:red"}).content.decode()
    assert html.count("“colour:” isn’t an operator") == 1
    assert "Lanling" in html


def test_nothing_found_says_what_may_help(browser: Client, note: Note):
    assert "No results" in browser.get(RECALL, {"q": "zebra"}).content.decode()


def test_more_hits_are_a_press_away(browser: Client, alice: User):
    for number in range(35):
        make_note(alice, f"Pilot line number {number}.")
    page = browser.get(RECALL, {"q": "pilot"})
    assert len(page.context["found"].rows) == 30
    assert "limit=60" in page.content.decode()
    assert len(hits(browser, q="pilot", limit="60")) == 35


def test_a_persons_looking_isnt_use(browser: Client, note: Note):
    browser.get(RECALL, {"q": "pilot"})
    assert not Use.objects.exists()


def test_uses_are_reported(browser: Client, note: Note, alice: User):
    Use.objects.create(owner=alice, record_type="note", record_id=note.pk, place="run:1")
    html = browser.get(RECALL, {"q": "pilot", "why": "1"}).content.decode()
    assert "used in 1 prompt" in html


def test_a_strangers_question_finds_nothing_of_it(
    note: Note, bob: User, client_of: Callable[[User], Client]
):
    bobs = client_of(bob)
    assert b"Lanling" not in bobs.get(RECALL, {"q": "pilot"}).content
    assert (
        b"Lanling"
        not in bobs.get(reverse("memory:recall-file", args=["hits.json"]) + "?q=pilot").content
    )


def test_the_page_takes_a_fixed_number_of_queries(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    for number in range(25):
        make_note(alice, f"Pilot line number {number}.")
        make_observation(alice, f"Pilot lines were seen: {number}.")
    with django_assert_max_num_queries(14):
        browser.get(RECALL, {"q": "pilot line"})


def test_hits_can_be_kept_as_files(browser: Client, alice: User):
    make_note(alice, "=pilot formula")
    rows = json.loads(
        browser.get(reverse("memory:recall-file", args=["hits.json"]), {"q": "pilot"}).content
    )
    assert rows[0]["explanation"]["matched_terms"] == ["pilot"]
    text = browser.get(reverse("memory:recall-file", args=["hits.csv"]), {"q": "pilot"})
    assert [row["content"] for row in csv.DictReader(io.StringIO(text.content.decode()))] == [
        "'=pilot formula"
    ]
    assert browser.get(reverse("memory:recall-file", args=["hits.xls"])).status_code == 404


def test_a_question_is_saved_as_a_view(browser: Client, note: Note):
    asked = {"page": "recall", "name": "Pilots", "query": "q=pilot", "next": RECALL}
    browser.post(reverse("memory:views-save"), asked)
    assert SavedView.objects.get().page == "recall"
    assert "Pilots" in browser.get(RECALL, {"q": "pilot"}).content.decode()


def test_a_note_that_superseded_another_answers_for_it(browser: Client, alice: User, note: Note):
    newer = make_note(alice, "Something else altogether.")
    note.change(by=alice.actor, superseded_by_id=newer.pk)
    Recalled.follow([note])
    html = browser.get(RECALL, {"q": "lanling"}).content.decode()
    assert "replaces an older record" in html
    assert hits(browser, q="lanling") == [newer]


def test_a_section_is_told_by_its_file_and_not_by_who_began_that(browser: Client, alice: User):
    begun, later = Actor("agent", "claude"), Actor("agent", "cursor")
    save_file(alice, EPISODES, f"{EPISODE}Tea", by=begun, source="run:1")
    append_to(alice, EPISODES, "## Heron\n- Summary: a build server", by=later)
    html = browser.get(RECALL, {"q": "heron"}).content.decode()
    assert EPISODES in html
    assert "run 1 (deleted)" not in html


# --- the list without a search ---


@pytest.mark.requirement("R252")
def test_it_lists_everything_newest_first_with_counts(browser: Client, alice: User) -> None:
    make_note(alice, "A note about tea.")
    make_observation(alice, "An observation of tea.")
    TopicFact.objects.add(make_topic(alice), "A fact about tea in Darjeeling.", by=alice.actor)
    append_to(alice, EPISODES, "## Tea\n- Summary: drunk", by=alice.actor)
    page = browser.get(RECALL)
    found = {row.type: str(row.said) for row in page.context["found"].rows}
    assert set(found) == {"note", "observation", "fact", "file"}
    counts = {str(tab.label): n for tab, _open, n in page.context["nav_tabs"]}
    assert (counts["Observations"], counts["Facts"]) == ("1", "1")
    assert int(counts["All"]) == len(page.context["found"].rows)


def test_pages_of_it_have_no_gap_and_a_fixed_number_of_queries(
    browser: Client, alice: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(60):
        make_note(alice, f"Note {number}.")
        make_observation(alice, f"Observation {number}.")
    seen: list[Any] = []
    cursor: str | None = ""
    while cursor is not None:
        with django_assert_max_num_queries(18):
            page = browser.get(RECALL, {"cursor": cursor})
        seen += [row.record.pk for row in page.context["found"].rows]
        cursor = page.context["next_cursor"]
    assert len(seen) == len(set(seen)) >= 120


@pytest.mark.parametrize("cursor", ["x", "%00", "9" * 500, "eyJh"])
def test_a_cursor_that_cannot_be_is_the_first_page(browser: Client, note: Note, cursor: str):
    page = browser.get(RECALL, {"cursor": cursor})
    assert note in [row.record for row in page.context["found"].rows]


@pytest.mark.requirement("R252")
def test_what_contradicts_comes_first(browser: Client, alice: User) -> None:
    old = make_note(alice, "Billing runs PostgreSQL 13.")
    new = make_note(alice, "Billing runs PostgreSQL 14.")
    make_note(alice, "Billing is fine.")
    contradictions.report(new)
    for asked in ({}, {"q": "billing"}):
        first, *_others = browser.get(RECALL, asked).context["groups"]
        assert first["is_disputed"]
        assert {row.record for row in first["rows"]} == {old, new}
    [only] = browser.get(RECALL, {"q": "fine"}).context["groups"]
    assert "is_disputed" not in only


def test_the_panel_shows_each_kind(browser: Client, alice: User, note: Note) -> None:
    fact = TopicFact.objects.add(
        make_topic(alice), "A fact about tea in Darjeeling.", by=alice.actor
    )
    append_to(alice, EPISODES, "## Tea\n- Summary: drunk", by=alice.actor)
    file = MemoryFile.objects.for_user(alice).get(path=EPISODES)
    section = Section.objects.for_user(alice).filter(file=file).last()
    for kind, record in (("note", note), ("fact", fact), ("file", file), ("section", section)):
        address = reverse("memory:memory-panel", args=[kind, record.pk])
        html = browser.get(address, headers=PANEL).content.decode()
        assert html.lstrip().startswith('<section id="record-panel"')
        assert browser.get(address).status_code == 302


def test_the_panel_of_a_fact_offers_to_correct_it_and_marks_it_as_wrong(
    browser: Client, alice: User
) -> None:
    fact = TopicFact.objects.add(
        make_topic(alice), "A fact about tea in Darjeeling.", by=alice.actor
    )
    address = reverse("memory:memory-panel", args=["fact", fact.pk])
    html = browser.get(address, headers=PANEL).content.decode()
    strike = reverse("research:fact-strike", args=[fact.topic.slug, fact.pk])
    assert reverse("research:fact-edit", args=[fact.topic.slug, fact.pk]) in html
    assert f'action="{strike}"' in html

    Use.note(alice, [("topicfact", fact.pk)], "run:1")
    words = browser.get(strike, headers=PANEL).content.decode()
    assert "1 prompt or answer" in words
    assert browser.get(strike).headers["Location"].endswith("/history/")

    answer = browser.post(strike, {"next": RECALL})

    assert answer.headers["Location"] == RECALL
    fact.refresh_from_db()
    assert fact.state == "struck"
    assert strike not in browser.get(address, headers=PANEL).content.decode()


def test_a_strangers_panel_is_not_there(
    note: Note, bob: User, client_of: Callable[[User], Client]
) -> None:
    address = reverse("memory:memory-panel", args=["note", note.pk])
    assert client_of(bob).get(address, headers=PANEL).status_code == 404
    assert client_of(bob).get(address.replace("note", "poem"), headers=PANEL).status_code == 404


def test_notes_and_observations_are_selected_together(
    browser: Client, alice: User, bob: User, note: Note
) -> None:
    seen = make_observation(alice, "An observation of tea.")
    bobs = make_note(bob, "Bob's own.")
    ids = [str(one.pk) for one in (note, seen, bobs)]
    browser.post(reverse("memory:memory-bulk"), {"act": "trash", "record": [*ids, "x"]})
    for one in (note, seen, bobs):
        one.refresh_from_db()
    assert [bool(one.trashed_at) for one in (note, seen, bobs)] == [True, True, False]


def test_a_bulk_act_without_a_selection_says_so(browser: Client) -> None:
    answer = browser.post(reverse("memory:memory-bulk"), {"act": "trash"}, follow=True)
    assert "Select at least one note or observation." in answer.content.decode()


@pytest.mark.parametrize(
    ("url", "words"),
    [("library:7/1", "from your library"), ("https://a.example/", "from the web")],
)
def test_a_fact_is_marked_by_where_it_is_from(url: str, words: str):
    assert mark_of(TopicFact(trust=Trust.EXTERNAL, source="run:1", url=url)).words == words
