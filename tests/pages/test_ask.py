"""Ask: the sessions, one session, its answers as they come, and what may be done with them."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.agents.chat import conversation
from memory.agents.chat import end as conversation_end
from memory.agents.chat import turn as conversation_turn
from memory.agents.chat.conversation import ask, start
from memory.models import Conflict, Message, Note, Reflection, Session, User
from memory.pages.chat import message_row, messages_of, with_details
from memory.services.notes.saving import write_note
from research.models import Worker
from tests.memory.ended_sessions import finish_session
from tests.pages.record_cast import HTMX, observation, text_of
from tests.research.factories import make_fact, make_topic

LIST = reverse("memory:ask")


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def stranger(bob: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(bob)


@pytest.fixture
def session(alice: User) -> Session:
    """A session with a question that memory answers."""
    write_note(alice, "log", "The harbour of Kobe closes on Sundays.", by=alice.actor)
    made = start(alice, "Harbours")
    conversation_turn.answer(ask(made, "When does the harbour close?", by=alice.actor).pk)
    return made


def at(name: str, thing: Any) -> str:
    return reverse(f"memory:{name}", args=[thing.pk])


# --- the list -----------------------------------------------------------------------------------------


def test_a_question_begins_a_session_with_it(browser: Client, alice: User):
    response = browser.post(LIST, {"content": "What is new?", "key": str(uuid.uuid4())})

    session = Session.objects.for_user(alice).get()
    assert response["Location"] == session.get_absolute_url()
    assert session.title == "What is new?"
    assert "What is new?" in text_of(browser.get(LIST))


def test_the_form_sent_twice_begins_one_session(browser: Client, alice: User):
    sent = {"content": "What is new?", "key": str(uuid.uuid4())}
    browser.post(LIST, sent)
    browser.post(LIST, sent)
    assert Message.objects.filter(session__owner=alice, role="assistant").count() == 1


def test_a_key_that_is_someone_elses_begins_a_session_of_ones_own(
    stranger: Client, session: Session, bob: User
):
    stranger.post(LIST, {"content": "What is new?", "key": str(session.pk)})
    assert Session.objects.for_user(bob).get().pk != session.pk
    assert session.messages.count() == 3


def test_over_htmx_the_list_alone_answers(browser: Client, session: Session):
    html = browser.get(LIST, headers={**HTMX, "HX-Target": "ask"}).content.decode()
    assert html.lstrip().startswith('<div id="ask"')


def test_an_empty_message_is_explained(browser: Client):
    response = browser.post(LIST, {"content": "  "})
    assert response.status_code == 200
    assert "Enter a question" in text_of(response)


def test_who_has_asked_nothing_is_shown_three_questions_of_their_own_topics(
    browser: Client, alice: User
):
    from memory.models import Topic

    researched = {"run_count": 1, "last_run_at": timezone.now()}
    Topic.objects.create(owner=alice, title="Green tea", slug="green-tea", **researched)
    Topic.objects.create(owner=alice, title="Not researched", slug="not-researched")
    html = text_of(browser.get(LIST))
    assert "What do we know about “Green tea”?" in html and "Not researched" not in html
    assert html.count("/ask/?q=") == 3


def test_a_stranger_sees_none_of_the_sessions(stranger: Client, session: Session):
    assert "Harbours" not in text_of(stranger.get(LIST))


def test_the_list_takes_a_fixed_number_of_queries(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    for number in range(30):
        start(alice, f"Session {number}")
    with django_assert_max_num_queries(8):
        browser.get(LIST)


# --- one session --------------------------------------------------------------------------------------


def test_a_session_shows_what_was_said_with_its_sources(browser: Client, session: Session):
    html = text_of(browser.get(at("session", session)))
    assert "When does the harbour close?" in html
    assert "The harbour of Kobe closes on Sundays." in html
    note = Note.objects.get(content__startswith="The harbour of Kobe")
    assert f'href="{note.get_absolute_url()}"' in html
    assert "Available memory:" not in html
    assert "No model is set up" in html


def test_two_memories_that_contradict_each_other_are_one_card(
    browser: Client, session: Session, alice: User
):
    one, other = (
        write_note(alice, "log", f"The gate of Osaka closes at {hour}.", by=alice.actor)
        for hour in ("five", "six")
    )
    assert Conflict.objects.note(alice, "contradiction", one, other, reason="time") is not None
    conversation_turn.answer(ask(session, "When does the gate of Osaka close?", by=alice.actor).pk)

    [_first, last] = [row for row in messages_of(session)[0] if row.message.role == "assistant"]
    [together] = [group for group in last.found if group["conflict"]]
    assert {row["said"] for row in together["rows"]} == {one.content, other.content}
    html = text_of(browser.get(at("session", session)))
    assert "These contradict each other" in html and "different time" in html
    assert together["conflict"].get_absolute_url() in html


def test_sources_of_a_model_that_contradict_each_other_are_one_card(
    browser: Client, session: Session, alice: User, django_assert_max_num_queries: Any
):
    five, six, other = (
        write_note(alice, "log", text, by=alice.actor)
        for text in (
            "The gate of Osaka closes at five.",
            "The gate of Osaka closes at six.",
            "Osaka has a lighthouse.",
        )
    )
    pair = Conflict.objects.note(alice, "contradiction", five, six, reason="time")
    cites = [
        {"type": "note", "id": str(one.pk), "title": one.content, "url": "/", "mark": "x"}
        for one in (five, other, six)
    ]
    content = "It closes at five [1] or six [3], and there is a lighthouse [2]."
    session.messages.filter(role="assistant").update(content=content, cites=cites, by="gpt")

    shown = messages_of(session)[0][-1]
    assert [one["conflict"] for one in shown.sources] == [pair, None]
    assert [[card["number"] for card in one["cards"]] for one in shown.sources] == [[1, 3], [2]]
    with django_assert_max_num_queries(15):
        html = text_of(browser.get(at("session", session)))
    card = html.partition('<li class="disputed">')[2].partition("</ol>")[0]
    assert five.content in card and six.content in card and other.content not in card
    assert "different time" in card and pair.get_absolute_url() in card
    for number in (1, 2, 3):  # the answer's numbers still lead to their sources
        assert html.count(f'id="cite-{shown.message.pk}-{number}"') == 1

    six.trash(by=alice.actor)
    assert [one["conflict"] for one in messages_of(session)[0][-1].sources] == [None]


def test_a_source_leads_to_the_history_of_its_fact_or_note(
    browser: Client, session: Session, alice: User
):
    topic = make_topic(alice, "Lighthouses")
    fact = make_fact(topic, "The lighthouse of Osaka is 40 metres tall.")
    finding = observation(alice, fact.text, topic=topic)
    note = write_note(alice, "log", "Osaka has a gate.", by=alice.actor)
    cites = [
        {"type": kind, "id": str(one.pk), "title": "A title", "url": "/", "mark": "x"}
        for kind, one in (("fact", fact), ("observation", finding), ("note", note))
    ]
    session.messages.filter(role="assistant").update(content="So it is.", cites=cites, by="gpt")

    history = reverse("research:fact-history", args=[topic.slug, fact.pk])
    of_note = reverse("memory:note-history", args=[note.pk])
    cards = messages_of(session)[0][-1].cards
    assert [card["history_url"] for card in cards] == [history, history, of_note]
    html = text_of(browser.get(at("session", session)))
    assert f'href="{history}" data-row-history' in html and 'data-rows=".ask-row"' in html

    topic.trash(by=alice.actor)
    cards = messages_of(session)[0][-1].cards
    assert cards[0]["history_url"] == ""


def test_the_same_words_of_two_memories_are_shown_once(session: Session, alice: User):
    words = "The lighthouse keeper of Osaka is on leave in August."
    for kind in ("log", "rule"):
        write_note(alice, kind, words, by=alice.actor)
    conversation_turn.answer(ask(session, "Where is the lighthouse keeper?", by=alice.actor).pk)

    found = messages_of(session)[0][-1].found
    rows = [row for group in found for row in group["rows"] if row["said"] == words]
    assert [len(row["cards"]) for row in rows] == [2]


def test_what_was_marked_as_wrong_or_replaced_since_is_struck_through_and_names_its_site(
    browser: Client, session: Session, alice: User, django_assert_max_num_queries: Any
):
    topic = make_topic(alice, "Lighthouses")
    origin = {"url": "https://www.light.example/a", "published_at": date(2025, 11, 14)}
    fact, other = (
        make_fact(topic, f"The lighthouse of {town} is 40 metres tall.", **origin)
        for town in ("Osaka", "Kobe")
    )
    finding = observation(alice, fact.text, topic=topic).pk
    Message.objects.filter(session=session, role="assistant").update(
        content="\n".join(f"- “{one}” [x]" for one in (fact.text, other.text, fact.text)),
        cites=[
            {
                "type": kind,
                "id": str(key),
                "title": text,
                "url": "/",
                "trust": "external",
                "mark": "x",
            }
            for kind, key, text in (
                ("fact", fact.pk, fact.text),
                ("fact", other.pk, other.text),
                ("observation", finding, fact.text),
            )
        ],
    )
    before = text_of(browser.get(at("session", session)))
    assert "<s>" not in before and before.count("light.example") == 3 and "14 Nov 2025" in before

    fact.strike(by=alice.actor)
    other.retire(by=alice.actor, why="replaced")

    with django_assert_max_num_queries(15):
        html = text_of(browser.get(at("session", session)))
    assert f"<s>{fact.text}</s>" in html and f"<s>{other.text}</s>" in html
    assert html.count("marked as wrong") == 2 and html.count("since replaced") == 1


def test_a_fact_that_was_only_outranked_or_replaced_before_is_not_struck_through(
    session: Session, alice: User
):
    fact = make_fact(make_topic(alice, "Lighthouses"), "The lighthouse of Osaka is 40 metres tall.")
    answer = session.messages.get(role="assistant")
    answer.cites = [{"type": "fact", "id": str(fact.pk), "title": fact.text, "mark": "x"}]
    fact.retire(by=alice.actor, why="room", how="outranked")
    [shown] = with_details(session, [message_row(answer)])
    assert shown.cards[0]["outdated"] == ""

    fact.unstrike(by=alice.actor)
    fact.retire(by=alice.actor, why="replaced")
    answer.created = timezone.now()
    [shown] = with_details(session, [message_row(answer)])
    assert shown.cards[0]["outdated"] == ""


def test_an_answer_by_recall_that_was_edited_is_shown_as_its_text(session: Session):
    session.messages.filter(role="assistant").update(content="It closes on Sundays.")

    shown = messages_of(session)[0][-1]
    assert shown.found == [] and "It closes on Sundays." in shown.html


def test_something_more_is_said_over_htmx(browser: Client, session: Session):
    headers = {**HTMX, "HX-Target": "session"}
    url = at("session-send", session)
    html = browser.post(url, {"content": "And on Mondays?"}, headers=headers).content.decode()
    assert html.lstrip().startswith('<div id="session"')
    assert "And on Mondays?" in html and "waiting to start" in html


def test_without_javascript_the_session_is_shown_again(browser: Client, session: Session):
    response = browser.post(at("session-send", session), {"content": "And on Mondays?"})
    assert response["Location"] == f"{session.get_absolute_url()}#last"
    assert "Refresh" in text_of(browser.get(session.get_absolute_url()))


def test_what_cannot_be_sent_now_is_kept(browser: Client, session: Session, alice: User):
    ask(session, "And on Mondays?", by=alice.actor)
    response = browser.post(at("session-send", session), {"content": "On Tuesdays, too?"})
    assert response.status_code == 200
    assert "still answering" in text_of(response) and "On Tuesdays, too?" in text_of(response)


def test_an_answer_that_has_come_removes_the_word_that_beacon_is_still_answering(
    browser: Client, session: Session, alice: User
):
    answer = ask(session, "And on Mondays?", by=alice.actor)
    page = text_of(browser.post(at("session-send", session), {"content": "On Tuesdays, too?"}))
    assert re.search(r'<div id="ask-problem">\s*<div class="form-errors"', page)

    assert "ask-problem" not in text_of(poll(browser, answer))
    Message.objects.filter(pk=answer.pk).update(state="done", content="At nine.")
    assert '<div id="ask-problem" hx-swap-oob="true"></div>' in text_of(poll(browser, answer))


def test_a_message_of_more_than_64_kib_is_refused_with_its_size_and_kept(
    browser: Client, session: Session
):
    html = text_of(browser.post(at("session-send", session), {"content": "é" * 33_000}))
    assert "66,000" in html and "ééé" in html


def test_what_is_typed_into_an_ended_session_is_not_lost(
    browser: Client, session: Session, alice: User
):
    conversation_end.end(session, by=alice.actor)
    html = text_of(browser.post(at("session-send", session), {"content": "One more thing"}))
    assert "This conversation has ended" in html and "One more thing" in html


def test_markup_of_anyone_who_answers_does_nothing(browser: Client, session: Session):
    Message.objects.filter(session=session, role="assistant").update(
        content="<script>alert(1)</script> [7] [note:x](javascript:alert(1))"
    )
    html = browser.get(at("session", session)).content.decode()
    assert "<script>alert" not in html and 'href="javascript' not in html
    assert "#cite-" not in html.partition("ask-cites")[0].replace('id="cite-', "")


@pytest.mark.requirement("R205")
def test_what_is_noted_is_reported_and_can_be_forgotten_at_once(
    browser: Client, session: Session, alice: User
):
    conversation_turn.answer(ask(session, "Remember that I prefer tea.", by=alice.actor).pk)
    html = text_of(browser.get(at("session", session)))
    note = Note.objects.for_user(alice).get(content__contains="prefer tea")
    assert "Saved as a log for 30 days." in html
    assert reverse("memory:record-trash", args=["note", note.pk]) in html


def test_what_is_noted_until_a_day_says_so(browser: Client, session: Session, alice: User):
    ask(session, "Remember that I am away until 9 December 2099.", by=alice.actor)
    html = text_of(browser.get(at("session", session)))
    assert "Saved as a log until 9 Dec 2099." in html
    assert "for 30 days" not in html.partition("ask-form")[0]


@pytest.mark.parametrize("name", ["session", "session-rename", "session-saved"])
def test_a_stranger_finds_no_page_of_it(stranger: Client, session: Session, name: str):
    assert stranger.get(at(name, session)).status_code == 404


@pytest.mark.parametrize("name", ["session-send", "session-end", "session-rename"])
def test_a_stranger_does_nothing_in_it(stranger: Client, session: Session, name: str):
    assert stranger.post(at(name, session), {"content": "x"}).status_code == 404
    assert session.messages.count() == 3


def test_a_session_takes_a_fixed_number_of_queries(
    browser: Client, session: Session, alice: User, django_assert_max_num_queries: Any
):
    for number in range(12):
        conversation_turn.answer(ask(session, f"Harbour {number}?", by=alice.actor).pk)
    conversation_end.end(session, by=alice.actor)
    finish_session(session)
    with django_assert_max_num_queries(13):
        browser.get(at("session", session))


def test_a_long_session_shows_its_last_messages_and_leads_to_the_earlier_ones(
    browser: Client, session: Session
):
    Message.objects.bulk_create(
        Message(session=session, position=n, role="user", content=f"Word {n}.")
        for n in range(10, 100)
    )
    html = text_of(browser.get(at("session", session)))
    assert "Word 99." in html and "Word 39." not in html and "?before=40" in html
    earlier = text_of(browser.get(at("session", session), {"before": 40}))
    assert "Word 39." in earlier and "Word 40." not in earlier


@pytest.mark.parametrize("before", ["x", "-1", "9" * 30, "²"])
def test_a_place_that_is_none_isnt_an_error(browser: Client, session: Session, before: str):
    assert browser.get(at("session", session), {"before": before}).status_code == 200


# --- an answer as it comes ----------------------------------------------------------------------------


@pytest.fixture
def waiting(session: Session, alice: User) -> Message:
    return ask(session, "And on Mondays?", by=alice.actor)


def poll(browser: Client, message: Message, seen: str = "") -> Any:
    return browser.get(at("message", message), {"seen": seen}, headers=HTMX)


def test_a_poll_is_told_what_is_new_and_nothing_else(browser: Client, waiting: Message):
    first = poll(browser, waiting).content.decode()
    assert 'hx-trigger="every 1s"' in first
    assert poll(browser, waiting, "waiting.0.0.0").status_code == 204

    Message.objects.filter(pk=waiting.pk).update(state="answering", attempt=1, content="On Mon")
    assert "On Mon" in poll(browser, waiting, "waiting.0.0.0").content.decode()


def test_polling_ends_with_the_answer(browser: Client, waiting: Message):
    conversation_turn.answer(waiting.pk)
    html = poll(browser, waiting, "waiting.0.0.0").content.decode()
    assert "hx-trigger" not in html and f'id="message-{waiting.pk}"' in html


def test_where_no_one_works_on_answers_the_page_says_so(browser: Client, waiting: Message):
    said = "The background worker isn’t running"
    assert said in text_of(poll(browser, waiting))
    Worker.objects.create(name="upkeep@test", kind="upkeep", seen_at=timezone.now())
    assert said not in text_of(poll(browser, waiting))


def test_a_call_is_shown_as_it_happens(browser: Client, waiting: Message):
    call = {
        "round": 1, "tool": "memory_read", "arguments": {"path": "facts/user.md"},
        "result": "- Name: Kim", "is_error": False, "records": [],
    }  # fmt: skip
    Message.objects.filter(pk=waiting.pk).update(state="answering", attempt=1, tool_calls=[call])
    html = text_of(poll(browser, waiting, "answering.1.0.0"))
    assert "read facts/user.md" in html and "- Name: Kim" in html


def test_an_answer_is_stopped_and_requested_again(browser: Client, waiting: Message):
    browser.post(at("message-stop", waiting))
    waiting.refresh_from_db()
    assert (waiting.state, waiting.notice) == ("failed", "You stopped the answer.")
    assert "Try again" in text_of(browser.get(waiting.session.get_absolute_url()))

    browser.post(at("message-retry", waiting))
    waiting.refresh_from_db()
    assert waiting.state == "waiting"


def test_only_a_failed_last_answer_is_tried_again(browser: Client, session: Session):
    answer = session.messages.get(role="assistant")
    browser.post(at("message-retry", answer))
    answer.refresh_from_db()
    assert answer.state == "done"


@pytest.mark.parametrize("act", ["message-stop", "message-retry"])
def test_a_stranger_neither_sees_nor_stops_an_answer(stranger: Client, waiting: Message, act: str):
    assert poll(stranger, waiting).status_code == 404
    assert stranger.post(at(act, waiting)).status_code == 404


def test_a_persons_own_message_isnt_an_answer_to_poll(browser: Client, waiting: Message):
    question = waiting.session.messages.filter(role="user").last()
    assert poll(browser, question).status_code == 404


# --- ending, renaming, the trash ------------------------------------------------------------------


def test_an_ended_session_lists_what_it_left(browser: Client, session: Session, alice: User):
    browser.post(at("session-end", session))
    assert "working…" in text_of(browser.get(at("session", session)))
    assert browser.get(at("session-saved", session), headers=HTMX).status_code == 204

    finish_session(session)
    html = browser.get(at("session-saved", session), headers=HTMX).content.decode()
    assert html.lstrip().startswith('<div id="session-left"') and "hx-trigger" not in html
    assert "When does the harbour close?" in html and "summary" in html
    assert Reflection.objects.for_user(alice).get().state == "skipped"


def test_a_session_is_renamed_and_found_under_its_title(browser: Client, session: Session):
    url = at("session-rename", session)
    sent = {"title": "Ports of Japan", "version": session.version}
    assert browser.post(url, sent)["Location"] == session.get_absolute_url()
    assert "Ports of Japan" in text_of(browser.get(LIST))


def test_renaming_keeps_what_was_typed_where_another_was_quicker(
    browser: Client, session: Session, alice: User
):
    url = at("session-rename", session)
    conversation.rename(session, "Theirs", by=alice.actor)
    html = text_of(browser.post(url, {"title": "Mine", "version": 1}))
    assert "Someone else changed" in html and 'value="Mine"' in html
    assert "Enter a one-line title" in text_of(browser.post(url, {"title": " ", "version": 2}))


def test_a_session_in_the_trash_is_gone_and_is_restored(browser: Client, session: Session):
    browser.post(reverse("memory:record-trash", args=["session", session.pk]), {"next": LIST})
    assert browser.get(at("session", session)).status_code == 404
    assert "Harbours" in text_of(browser.get(reverse("memory:trash")))

    browser.post(reverse("memory:record-restore", args=["session", session.pk]))
    assert browser.get(at("session", session)).status_code == 200
