"""What a fact's buttons do, and its history: struck, locked, moved, to Trash and back."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from memory.models import Revision, Topic, TopicFact, Trust
from memory.models.actors import RESEARCH
from tests.research.factories import make_fact, make_run, make_topic
from tests.undo import undo_in

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


# --- its buttons ---------------------------------------------------------------------------------


def test_a_fact_is_struck_with_a_reason_and_undone(browser: Client, fact: TopicFact):
    body = browser.post(f"{FACTS}{fact.pk}/strike/", {"why": "a typo"}, follow=True)
    fact.refresh_from_db()
    assert fact.state == "struck"
    assert "a typo" in body.content.decode()
    assert f'action="{FACTS}{fact.pk}/take-back/"' in body.content.decode()

    browser.post(f"{FACTS}{fact.pk}/take-back/")
    fact.refresh_from_db()
    assert (fact.state, fact.trust) == ("current", Trust.EXTERNAL)
    assert not fact.is_kept


def state_of(fact: TopicFact) -> dict[str, Any]:
    """Return all that is stored of the fact, but its version and when it was last changed."""
    row: dict[str, Any] = TopicFact.objects.filter(pk=fact.pk).values().get()
    return {name: value for name, value in row.items() if name not in ("version", "updated")}


EDITED = {"text": "Version 18.1 repairs indexes after each crash.", "url": "", "version": "1"}


@pytest.mark.parametrize(
    ("act", "typed"), [("strike", {"why": ""}), ("edit", EDITED), ("lock", {}), ("trash", {})]
)
def test_undo_restores_the_fact_exactly(
    browser: Client, fact: TopicFact, act: str, typed: dict[str, str]
):
    before = state_of(fact)
    done = browser.post(f"{FACTS}{fact.pk}/{act}/", typed, follow=True).content.decode()
    assert state_of(fact) != before

    undone = browser.post(undo_in(done), follow=True).content.decode()

    assert state_of(fact) == before
    assert ">yours<" not in undone
    if act != "trash":  # the undo can be undone, and that again
        browser.post(undo_in(browser.post(undo_in(undone), follow=True).content.decode()))
    assert state_of(fact) == before


def test_undo_of_unlock_restores_the_lock_that_it_had(browser: Client, fact: TopicFact):
    TopicFact.objects.filter(pk=fact.pk).update(lock="append-only")
    before = state_of(fact)

    done = browser.post(f"{FACTS}{fact.pk}/unlock/", follow=True).content.decode()
    browser.post(undo_in(done))

    assert state_of(fact) == before


def test_a_fact_that_a_run_retired_is_kept_from_runs_once_a_person_returns_it(
    browser: Client, fact: TopicFact
):
    fact.retire(by=RESEARCH, why="not found again", run=2)

    browser.post(f"{FACTS}{fact.pk}/take-back/")

    fact.refresh_from_db()
    assert (fact.state, fact.retired_run, fact.edited_by_person) == ("current", None, True)


@pytest.mark.requirement("R227")
@pytest.mark.parametrize("act", ["strike", "lock", "trash", "up"])
def test_over_htmx_each_button_gives_the_list_again(browser: Client, fact: TopicFact, act: str):
    body = browser.post(f"{FACTS}{fact.pk}/{act}/", headers=HTMX).content.decode()

    assert body.lstrip().startswith('<div id="facts"')


@pytest.mark.django_db(transaction=True)
def test_eight_moves_at_once_all_come_through(alice: Any, client_of: Callable[[Any], Client]):
    topic = make_topic(alice)
    facts = [make_fact(topic, f"{n}: {TEXT}", position=n) for n in range(1, 9)]
    answers: list[int] = []

    def move(n: int) -> None:
        way = "up" if n % 2 else "down"
        answers.append(client_of(alice).post(f"{FACTS}{facts[n].pk}/{way}/").status_code)
        connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(move, range(8)))
    assert answers == [302] * 8
    positions = TopicFact.objects.values_list("position", flat=True)
    assert sorted(positions) == list(range(1, 9))


def test_the_way_back_in_a_toast_leads_to_the_page_not_to_the_button(
    browser: Client, fact: TopicFact
):
    headers = HTMX | {"HX-Current-URL": f"http://testserver{FACTS}"}
    body = browser.post(f"{FACTS}{fact.pk}/strike/", headers=headers).content.decode()

    assert f'name="next" value="{FACTS}"' in body


def test_a_fact_is_locked_and_unlocked(browser: Client, fact: TopicFact):
    browser.post(f"{FACTS}{fact.pk}/lock/")
    fact.refresh_from_db()
    assert fact.is_kept
    assert "Unlock" in page(browser)

    browser.post(f"{FACTS}{fact.pk}/unlock/")
    fact.refresh_from_db()
    assert not fact.is_kept


def test_facts_are_put_in_another_order(browser: Client, topic: Topic):
    one, two, three = (
        make_fact(topic, f"Fact number {place}, of enough length.", position=place)
        for place in (1, 2, 3)
    )
    browser.post(f"{FACTS}{three.pk}/up/")
    browser.post(f"{FACTS}{one.pk}/down/")
    browser.post(f"{FACTS}{two.pk}/down/")  # it is the last one

    assert texts(topic) == [three.text, one.text, two.text]


def test_a_fact_goes_to_the_trash_and_is_restored(browser: Client, fact: TopicFact, topic: Topic):
    page = browser.post(f"{FACTS}{fact.pk}/trash/", follow=True)
    assert texts(topic) == []

    browser.post(undo_in(page))
    assert texts(topic) == [TEXT]


def test_what_is_known_again_in_the_meantime_is_not_brought_back_twice(
    browser: Client, fact: TopicFact, topic: Topic
):
    fact.retire(by=RESEARCH, why="gone", run=2)
    make_fact(topic, TEXT)

    response = browser.post(f"{FACTS}{fact.pk}/take-back/")

    assert response.status_code == 409
    assert "The topic already has this fact" in response.content.decode()


# --- its history ---------------------------------------------------------------------------------


def test_the_history_says_who_when_why_and_marks_the_words(browser: Client, fact: TopicFact):
    fact.edit("Version 18.2 repairs index corruption after a crash.", by=fact.owner.actor)
    fact.strike(by=fact.owner.actor, why="not true at all")

    body = browser.get(f"{FACTS}{fact.pk}/history/").content.decode()

    assert "<del>1</del><ins>2</ins>" in body
    assert "not true at all" in body
    assert "alice" in body
    assert "Run #1" in body
    assert Revision.objects.filter(record_id=fact.pk).count() == 3


def test_a_quote_that_is_the_fact_itself_is_not_said_twice(browser: Client, topic: Topic):
    make_fact(topic, TEXT, make_run(topic), quote=TEXT.rstrip("."))

    assert "<q>" not in page(browser)


def test_what_a_button_does_counts_on_the_tab_too(browser: Client, fact: TopicFact):
    added = browser.post(
        FACTS, {"text": "Version 19 is due in autumn."}, headers=HTMX
    ).content.decode()
    struck = browser.post(f"{FACTS}{fact.pk}/strike/", headers=HTMX).content.decode()

    assert 'id="topic-tabs" hx-swap-oob="true"' in struck
    assert 'Facts</span> <span class="count">2<' in added
    assert 'Facts</span> <span class="count">1<' in struck
