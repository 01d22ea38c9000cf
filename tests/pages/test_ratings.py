"""Rating results and answers on pages, and the list of what was rated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.messages import get_messages
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.models import Message, Note, Rating, Session, User
from memory.models.actors import Actor
from memory.services.search import ratings
from memory.services.search.recall import recall
from tests.pages.test_recall import make_note

QUESTION = "night train Vienna"
RECALL, RATE, LIST = reverse("memory:recall"), reverse("memory:rate"), reverse("memory:ratings")


@pytest.fixture(autouse=True)
def _without_an_embedder(settings: Any) -> None:
    settings.BEACON_EMBEDDINGS = "none"


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def train(alice: User) -> Note:
    return make_note(alice, "The night train to Vienna leaves at nine.")


def sent(record: Any, value: str, **more: Any) -> dict[str, Any]:
    name, key, position = ratings.rated_key(record)
    told = {"question": QUESTION, "type": name, "id": str(key), "position": position}
    return {**told, "value": value, **more}


def in_place(record: Any) -> dict[str, str]:
    return {"HX-Request": "true", "HX-Target": f"rate-memory-{record.pk}"}


def undo(browser: Client, answer: Any) -> Any:
    told = list(get_messages(answer.wsgi_request))[-1]
    return browser.post(reverse("memory:undo", args=[told.extra_tags]), follow=True)


@pytest.mark.requirement("R362")
def test_a_result_is_rated_in_place_and_asks_for_a_reason(
    browser: Client, alice: User, train: Note
) -> None:
    page = browser.get(RECALL, {"q": QUESTION}).content.decode()
    assert page.count('class="rate-buttons"') == 1
    assert "rate-reason" not in page

    answer = browser.post(RATE, sent(train, "not-useful"), headers=in_place(train))
    body = answer.content.decode()
    assert f'id="rate-memory-{train.pk}"' in body
    assert '<details class="fold rate-reason" open>' in body
    assert "Rated not useful. It now ranks lower for this question." in body
    browser.post(RATE, sent(train, "not-useful", reason="It was changed."), headers=in_place(train))
    rating = Rating.objects.get()
    assert (rating.value, rating.reason) == ("not-useful", "It was changed.")
    assert rating.actor == str(alice.actor)

    page = browser.get(RECALL, {"q": QUESTION, "why": "1"}).content.decode()
    assert "Reason: <bdi>It was changed.</bdi>" in page
    assert "Rated not useful for this question on" in page


@pytest.mark.requirement("R362")
def test_without_javascript_it_leads_back_to_the_result(browser: Client, train: Note) -> None:
    back = f"{RECALL}?q=night+train+Vienna#memory-{train.pk}"
    answer = browser.post(RATE, sent(train, "useful", next=back))
    assert answer["Location"] == back
    page = browser.get(RECALL, {"q": QUESTION}).content.decode()
    assert 'value="none"' in page
    assert "rate-reason" not in page

    browser.post(RATE, sent(train, "none", next=back))
    assert not Rating.objects.exists()


def test_each_act_can_be_undone(browser: Client, train: Note) -> None:
    browser.post(RATE, sent(train, "not-useful", reason="Too old."))
    cleared = browser.post(RATE, sent(train, "none"))
    page = undo(browser, cleared)
    rating = Rating.objects.get()
    assert (rating.value, rating.reason) == ("not-useful", "Too old.")
    assert page.request["QUERY_STRING"] == "q=night+train+Vienna"

    rated = browser.post(RATE, sent(train, "useful"))
    undo(browser, rated)
    rating.refresh_from_db()
    assert (rating.value, rating.reason) == ("not-useful", "Too old.")


def test_a_changed_rating_is_not_undone(browser: Client, alice: User, train: Note) -> None:
    rated = browser.post(RATE, sent(train, "useful"))
    ratings.rate(alice, QUESTION, train, "not-useful", by=alice.actor)
    assert undo(browser, rated).status_code == 409
    assert Rating.objects.get().value == "not-useful"


@pytest.mark.parametrize("over_htmx", [True, False])
def test_a_rejected_rating_shows_the_typed_reason_again(
    browser: Client, train: Note, over_htmx: bool
) -> None:
    reason = "word " * 70
    headers = in_place(train) if over_htmx else {}
    answer = browser.post(RATE, sent(train, "not-useful", reason=reason), headers=headers)
    body = answer.content.decode()
    assert 'role="alert"' in body
    assert f'value="{reason}"' in body
    assert ("<html" in body) is not over_htmx
    assert not Rating.objects.exists()


def test_only_what_ranks_by_words_now_can_be_rated(browser: Client, train: Note) -> None:
    for query in ({"q": "kind:log"}, {"q": QUESTION, "mode": "exact"}, {}, {"q": "x" * 1001}):
        assert "rate-buttons" not in browser.get(RECALL, query).content.decode()


@pytest.mark.parametrize(
    ("name", "value"),
    [("type", "people"), ("type", "session"), ("id", "x"), ("position", "٣"), ("position", "-1")],
)
def test_what_is_not_there_cannot_be_rated(
    browser: Client, train: Note, name: str, value: str
) -> None:
    data = sent(train, "useful") | {name: value}
    assert browser.post(RATE, data).status_code in (404, 302)
    assert Rating.objects.filter(record_type__in=["people", "session"]).count() == 0


def test_another_persons_records_and_ratings_are_not_there(
    browser: Client, alice: User, bob: User, client_of: Callable[[User], Client], train: Note
) -> None:
    rating = ratings.rate(alice, QUESTION, train, "not-useful", by=alice.actor, reason="wrong day")
    others = client_of(bob)
    assert others.post(RATE, sent(train, "useful")).status_code == 404
    assert others.post(reverse("memory:rating-clear", args=[rating.pk])).status_code == 404
    assert "wrong day" not in others.get(LIST).content.decode()
    assert Rating.objects.get() == rating


def test_the_number_of_queries_does_not_depend_on_the_results(
    browser: Client, alice: User, train: Note
) -> None:
    def queries(url: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            browser.get(url, {"q": QUESTION})
        return len(seen)

    ratings.rate(alice, QUESTION, train, "not-useful", by=alice.actor)
    before = [queries(RECALL), queries(LIST)]
    for n in range(4):
        other = make_note(alice, f"Night train to Vienna, {n}.")
        ratings.rate(alice, QUESTION, other, "not-useful", by=alice.actor)
    assert [queries(RECALL), queries(LIST)] == before


# --- answers ---


@pytest.fixture
def answer(alice: User, train: Note) -> Message:
    session = Session.objects.create(owner=alice, title="Trains")
    Message.objects.create(session=session, position=0, role="user", content=QUESTION)
    cites = [{"type": "note", "id": str(train.pk), "title": "x", "url": "", "mark": "note:1"}]
    return Message.objects.create(
        session=session, position=1, role="assistant", content="At nine [1].", cites=cites,
        state=Message.State.DONE,
    )  # fmt: skip


@pytest.mark.requirement("R361")
def test_an_answer_is_rated_where_it_is_read(
    browser: Client, alice: User, answer: Message, train: Note
) -> None:
    page = answer.session.get_absolute_url()
    assert "rate-buttons" in browser.get(page).content.decode()
    back = f"{page}#message-{answer.pk}"
    assert browser.post(RATE, sent(answer, "not-useful", next=back))["Location"] == back
    assert "rate-reason" in browser.get(page).content.decode()
    [hit] = recall(alice, QUESTION, "lexical")
    assert hit.explanation.boosts[-1].startswith(
        "Cited in an answer to this question that was rated not useful"
    )

    polled = browser.get(
        reverse("memory:message", args=[answer.pk]), headers={"HX-Request": "true"}
    )
    assert "rate-reason" in polled.content.decode()


def test_only_a_complete_answer_to_a_question_can_be_rated(
    browser: Client, answer: Message
) -> None:
    session = answer.session
    Message.objects.filter(pk=answer.pk).update(state=Message.State.FAILED)
    assert "rate-buttons" not in browser.get(session.get_absolute_url()).content.decode()
    assert browser.post(RATE, sent(answer, "useful")).status_code == 404


# --- the list ---


@pytest.mark.requirement("R362")
def test_the_list_has_what_was_rated_not_useful_and_can_clear_it(
    browser: Client, alice: User, train: Note, answer: Message
) -> None:
    agent = Actor("agent", "claude")
    ratings.rate(alice, QUESTION, train, "not-useful", by=agent, reason="The bus is faster.")
    ratings.rate(alice, "trains", answer, "not-useful", by=alice.actor)
    useful = make_note(alice, "The train has beds.")
    ratings.rate(alice, "beds", useful, "useful", by=alice.actor)

    page = browser.get(LIST).content.decode()
    assert "The bus is faster." in page
    assert "claude" in page
    assert train.get_absolute_url() in page
    assert f"{answer.session.get_absolute_url()}#message-{answer.pk}" in page
    assert f"{RECALL}?q=night+train+to+Vienna" not in page
    assert f"{RECALL}?q=night+train+Vienna" in page
    assert "beds" not in page
    assert "The train has beds." in browser.get(LIST, {"show": "useful"}).content.decode()

    rating = Rating.objects.get(record_id=train.pk)
    cleared = browser.post(reverse("memory:rating-clear", args=[rating.pk]), {"next": LIST})
    assert cleared["Location"] == LIST
    assert not Rating.objects.filter(pk=rating.pk).exists()
    undo(browser, cleared)
    assert Rating.objects.get(record_id=train.pk).reason == "The bus is faster."


def test_what_is_in_trash_stays_in_the_list_without_its_text(
    browser: Client, alice: User, train: Note
) -> None:
    rating = ratings.rate(alice, QUESTION, train, "not-useful", by=alice.actor)
    train.trash(by=alice.actor)
    page = browser.get(LIST).content.decode()
    assert "No longer in memory" in page
    assert "leaves at nine" not in page
    browser.post(reverse("memory:rating-clear", args=[rating.pk]))
    assert not Rating.objects.exists()
