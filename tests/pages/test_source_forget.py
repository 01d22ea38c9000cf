"""Forgetting everything from one source in one action, and undoing it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import Activity, ContentItem, Note, Observation, Revision, TopicFact
from memory.models.actors import RESEARCH
from memory.models.errors import InvalidValue, LimitReached
from memory.pages import trash
from memory.services.content.items import store
from memory.services.scratchpad import set_value
from memory.services.search.recall import recall
from tests.pages.record_cast import HTMX, note, observation, text_of
from tests.research.factories import make_fact, make_run, make_topic
from tests.undo import undo_of, undone

PAGE = reverse("memory:source-forget")


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def run(alice: Any) -> Any:
    """A run that created a note, two observations and a fact, among other records."""
    made = make_run(make_topic(alice, "Fares"))
    note(alice, "Summary of the fares run.", source=made.source)
    observation(alice, "Fares are stale.", source=made.source)
    observation(alice, "Fares are odd.", source=f"{made.source}:heuristic")
    fact = make_fact(made.topic, "Fares are stale at the desk.", url="https://www.example.org/x")
    TopicFact.objects.filter(pk=fact.pk).update(source=made.source)
    note(alice, "Kept: the fares of mine.")
    return made


def live(model: Any, owner: Any) -> int:
    return int(model.objects.for_user(owner).live().count())


def test_the_page_counts_what_would_go(browser: Client, run: Any) -> None:
    html = text_of(browser.get(PAGE, {"source": run.source}))
    assert "From Run #1 of “Fares”" in html
    assert "Move 4 records to Trash" in html
    assert "Fares are odd." in html  # what goes is listed


def test_recent_sources_are_offered_by_name(browser: Client, run: Any) -> None:
    html = text_of(browser.get(PAGE))
    assert "Recent sources" in html
    assert f'href="{PAGE}?source={quote(run.source, safe="")}"' in html
    assert "Run #1 of “Fares”" in html


def test_all_of_it_goes_in_one_act_and_is_restored_by_undo(
    browser: Client, alice: Any, run: Any
) -> None:
    before = [live(model, alice) for model in (Note, Observation, TopicFact)]
    page = browser.post(PAGE, {"source": run.source}, follow=True)
    assert [live(model, alice) for model in (Note, Observation, TopicFact)] == [before[0] - 1, 0, 0]
    assert [hit.content for hit in recall(alice, "fares")] == ["Kept: the fares of mine."]

    undone(browser, page)
    assert [live(model, alice) for model in (Note, Observation, TopicFact)] == before
    assert len(recall(alice, "fares")) > 1


def test_each_revision_bears_the_act_and_the_log_reports_it(alice: Any, run: Any) -> None:
    key, count = trash.forget_source(alice, run.source, by=alice.actor)
    assert Revision.objects.filter(source=f"forget:{key}").count() == count == 4
    assert Activity.objects.get(kind="forgot-source").detail["records"] == 4


def test_undo_leaves_alone_what_was_touched_since(alice: Any, run: Any) -> None:
    key, _count = trash.forget_source(alice, run.source, by=alice.actor)
    one = Observation.objects.for_user(alice).filter(content="Fares are odd.").get()
    one.restore(by=alice.actor)
    one.trash(by=alice.actor)
    assert trash.undo_change(alice, key, by=alice.actor) == (3, [])
    one.refresh_from_db()
    assert one.trashed_at is not None


def test_what_was_written_again_in_the_meantime_stays_and_the_rest_is_restored(
    alice: Any, run: Any
) -> None:
    key, _count = trash.forget_source(alice, run.source, by=alice.actor)
    observation(alice, "Fares are stale.", source=run.source)
    came, refused = trash.undo_change(alice, key, by=alice.actor)
    assert (came, len(refused)) == (3, 1)


def test_a_struck_fact_stays_struck(alice: Any, run: Any) -> None:
    TopicFact.objects.get().strike(by=alice.actor)
    trash.forget_source(alice, run.source, by=alice.actor)
    assert TopicFact.objects.struck().count() == 1


def test_facts_are_forgotten_by_the_domain_that_they_come_from(alice: Any, run: Any) -> None:
    make_fact(run.topic, "A fact of another place.", url="https://notexample.org/example.org")
    key, count = trash.forget_source(alice, "example.org", by=alice.actor)
    assert (count, live(TopicFact, alice)) == (1, 1)
    assert trash.undo_change(alice, key, by=alice.actor) == (1, [])


def test_a_sessions_scratchpad_goes_with_it(alice: Any) -> None:
    set_value(alice, "next", "ask", by=alice.actor, scope="session:abc")
    assert trash.forget_source(alice, "session:abc", by=alice.actor)[1] == 1


@pytest.mark.parametrize("source", ["example.org", "run"])
def test_what_was_read_there_goes_from_the_content_store_too(
    alice: Any, bob: Any, run: Any, source: str
) -> None:
    asked = run.source if source == "run" else source
    for owner, page in (
        (alice, "https://www.example.org/a"),
        (alice, ""),
        (bob, "https://example.org"),
    ):
        store(
            owner, "Page.", by=RESEARCH, url=page, scope=run.source if owner == alice else "owner"
        )
    other = store(alice, "Kept.", by=RESEARCH, url="https://notexample.org/", scope="run:9999999")

    key, _count = trash.forget_source(alice, asked, by=alice.actor)

    gone = ContentItem.objects.exclude(trashed_at=None)
    assert gone.count() == (2 if source == "run" else 1)
    assert not gone.filter(pk=other.pk).exists() and not gone.filter(owner=bob).exists()
    trash.undo_change(alice, key, by=alice.actor)
    assert ContentItem.objects.filter(trashed_at=None).count() == 4


def test_what_is_kept_with_a_runs_step_goes_with_the_run(alice: Any, run: Any) -> None:
    store(alice, "Rows.", by=RESEARCH, run_step=f"{run.source}/step:1")
    store(alice, "Others.", by=RESEARCH, run_step=f"{run.source}9/step:1")
    trash.forget_source(alice, run.source, by=alice.actor)
    assert [item.content for item in ContentItem.objects.for_user(alice).live()] == ["Others."]


def test_the_owners_own_scope_isnt_a_source(alice: Any) -> None:
    set_value(alice, "next", "ask", by=alice.actor)
    store(alice, "Mine.", by=alice.actor)
    with pytest.raises(InvalidValue):
        trash.forget_source(alice, "owner", by=alice.actor)


def test_the_soul_stays_whatever_it_comes_from(alice: Any) -> None:
    soul = Note.objects.for_user(alice).get(kind="soul", superseded_by=None)
    note(alice, "Another.", source=soul.source)
    trash.forget_source(alice, soul.source, by=alice.actor)
    soul.refresh_from_db()
    assert soul.trashed_at is None


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("run:999", "There are no records from this source"),
        (" ", "Enter a source"),
        ("x" * 300, "at most 200"),
    ],
)
def test_what_cannot_be_forgotten_is_explained(browser: Client, source: str, why: str) -> None:
    response = browser.post(PAGE, {"source": source}, headers=HTMX)
    assert response.status_code == 200
    assert why in text_of(response)


@pytest.mark.parametrize("source", ["%", "a.b.c\\", "ex_mple.org", "💥", "\x00.org", "(.org"])
def test_odd_sources_are_no_error_and_match_nothing(
    browser: Client, run: Any, alice: Any, source: str
) -> None:
    assert browser.get(PAGE, {"source": source}).status_code == 200
    with pytest.raises(InvalidValue):
        trash.forget_source(alice, source, by=alice.actor)


def test_too_many_at_once_change_nothing(
    alice: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trash, "MAX", 2)
    with pytest.raises(LimitReached):
        trash.forget_source(alice, run.source, by=alice.actor)
    assert live(Observation, alice) == 2


def test_a_stranger_forgets_and_takes_back_nothing(
    client_of: Callable[[Any], Client], alice: Any, bob: Any, run: Any
) -> None:
    assert "There are no records from this source" in text_of(
        client_of(bob).get(PAGE, {"source": run.source})
    )
    key, _count = trash.forget_source(alice, run.source, by=alice.actor)
    client_of(bob).post(undo_of("source-deleted", key))
    assert live(Observation, alice) == 0


def test_the_log_leads_to_where_the_act_is_undone(browser: Client, alice: Any, run: Any) -> None:
    key, _count = trash.forget_source(alice, run.source, by=alice.actor)
    log = browser.get(reverse("research:activity")).content.decode()
    address = f"{PAGE}?source=run%3A{run.pk}&amp;act={key}"
    assert address in log
    html = text_of(browser.get(address.replace("&amp;", "&")))
    assert "4 records from this source are in Trash." in html
    assert undo_of("source-deleted", key) in html


@pytest.mark.parametrize("act", ["x", "6f9619ff-8b86-4d01-b42d-00cf4fc964ff", "\x00"])
def test_an_act_that_never_was_isnt_an_error(browser: Client, act: str) -> None:
    assert browser.get(PAGE, {"source": "run:1", "act": act}).status_code == 200


def test_undo_of_nothing_isnt_an_error(browser: Client) -> None:
    undo = undo_of("source-deleted", uuid.uuid4())
    assert browser.post(undo).status_code == 302


def test_over_htmx_the_page_answers_with_its_part(browser: Client, run: Any) -> None:
    html = browser.get(PAGE, {"source": run.source}, headers=HTMX).content.decode()
    assert html.split("#}")[-1].lstrip().startswith('<div id="source-forget"')


def test_the_page_takes_a_fixed_number_of_queries(
    browser: Client, alice: Any, run: Any, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        observation(alice, f"Fare {number}.", source=run.source)
    with django_assert_max_num_queries(14):
        browser.get(PAGE, {"source": run.source})
