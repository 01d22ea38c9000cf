"""A form that is submitted twice, without JavaScript: what it creates is created once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.urls import reverse
from redis.exceptions import RedisError

from memory.models import (
    Activity,
    ApiToken,
    Invitation,
    LibraryDocument,
    Note,
    Observation,
    Topic,
    TopicFact,
)
from research.models import Channel, Feed, SharedLink
from tests.research.factories import make_report, make_run, make_topic

pytestmark = pytest.mark.django_db
NEW_NOTE = "/notes/new/"
NOTE = {"content": "Fares are stale.", "kind": "log", "sensitivity": "normal"}
TOPIC = {"title": "Sailing", "preset": "weekly", "hour": "7", "weekday": "1", "time_zone": "UTC"}
OBSERVATION = {"content": "Cells cost 89.", "category": "finding", "sensitivity": "normal"}
INVITATION = {"note": "Carol"}
TOKEN = {"name": "claude", "scopes": "read", "days": "7"}
CHANNEL = {"address": "a@example.org", "reports": "each", "failures": "on", "digest": "on"}
FORMS = {
    "a note": (NEW_NOTE, NOTE, Note.objects.filter(kind="log")),
    "an observation": ("/observations/new/", OBSERVATION, Observation.objects.all()),
    "a topic": ("/topics/new/", TOPIC, Topic.objects.all()),
    "a topic that is run": ("/topics/new/", TOPIC | {"run": "1"}, Topic.objects.all()),
    "a document": ("/library/add/", {"title": "A", "text": "B."}, LibraryDocument.objects.all()),
    "a feed": ("/settings/feeds/", {}, Feed.objects.all()),
    "a channel": ("/settings/channels/new/email/", CHANNEL, Channel.objects.all()),
}


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.mark.requirement("R226")
@pytest.mark.parametrize("form", FORMS)
def test_a_form_sent_twice_makes_one_and_leads_there_both_times(browser: Client, form: str):
    url, typed, made = FORMS[form]

    answers = [browser.post(url, typed) for _press in range(2)]

    assert [one.status_code for one in answers] == [302, 302]
    assert answers[0]["Location"] == answers[1]["Location"]
    assert made.count() == 1


def test_other_words_and_the_same_ones_later_are_another(browser: Client):
    browser.post(NEW_NOTE, NOTE)
    browser.post(NEW_NOTE, NOTE | {"content": "Fares are fresh."})
    cache.clear()  # as some seconds do
    browser.post(NEW_NOTE, NOTE)

    assert Note.objects.filter(kind="log").count() == 3


def test_the_form_opened_again_means_it(browser: Client):
    tokens = [browser.get(NEW_NOTE).context["csrf_token"] for _look in range(2)]

    for token in (*tokens, tokens[1]):
        browser.post(NEW_NOTE, NOTE | {"csrfmiddlewaretoken": str(token)})

    assert Note.objects.filter(kind="log").count() == 2


def test_a_strangers_same_words_are_theirs(
    browser: Client, bob: Any, client_of: Callable[[Any], Client]
):
    browser.post(NEW_NOTE, NOTE)
    client_of(bob).post(NEW_NOTE, NOTE)

    assert Note.objects.for_user(bob).filter(kind="log").count() == 1


def test_a_form_that_was_refused_is_checked_again(browser: Client):
    for _press in range(2):
        assert browser.post(NEW_NOTE, NOTE | {"content": ""}).status_code == 200


def test_without_redis_a_form_is_still_taken(browser: Client, monkeypatch: pytest.MonkeyPatch):
    def gone(*args: Any, **more: Any) -> None:
        raise RedisError

    monkeypatch.setattr("memory.pages.shared.double_submit.cache.get", gone)
    monkeypatch.setattr("memory.pages.shared.double_submit.cache.set", gone)

    assert browser.post(NEW_NOTE, NOTE).status_code == 302


def opened_anew(browser: Client, url: str, typed: dict[str, str]) -> dict[str, str]:
    """The same words in a form that was just opened."""
    return typed | {"csrfmiddlewaretoken": str(browser.get(url).context["csrf_token"])}


@pytest.mark.parametrize("what", ["share", "facts"])
def test_a_form_of_a_topic_sent_twice_makes_one_opened_again_another(
    browser: Client, alice: Any, what: str
):
    topic = make_topic(alice)
    run = make_report(make_run(topic)).run
    pages = {
        "share": reverse("research:report-share", args=[topic.slug, run.pk]),
        "facts": reverse("research:topic-facts", args=[topic.slug]),
    }
    typed = {"days": "7", "note": "Bob", "text": "Version 18.1 repairs a corrupted index."}
    made = {"share": SharedLink.objects.all(), "facts": TopicFact.objects.all()}[what]

    first = opened_anew(browser, pages[what], typed)
    answers = [browser.post(pages[what], first).status_code for _press in range(2)]
    assert (answers, made.count()) == ([302, 302], 1)

    more = {"text": "Version 18.2 repairs another one."}
    browser.post(pages[what], opened_anew(browser, pages[what], typed | more))
    assert made.count() == 2


SHOWN_ONCE = pytest.mark.parametrize(
    ("url", "typed", "kind"),
    [
        ("/settings/people/", INVITATION, Invitation),
        ("/settings/tokens/", TOKEN, ApiToken),
    ],
)


@SHOWN_ONCE
def test_of_what_is_shown_once_the_second_press_stands_in_for_the_first(
    admin: Any, client_of: Callable[[Any], Client], url: str, typed: dict[str, str], kind: Any
):
    browser = client_of(admin)
    working = kind.objects.filter(**({"revoked_at": None} if kind is ApiToken else {}))
    first = opened_anew(browser, url, typed)

    browser.post(url, first)
    unseen = working.get().pk
    browser.post(url, first)

    assert working.get().pk != unseen


@SHOWN_ONCE
def test_the_same_words_in_a_form_opened_again_take_nothing_back(
    admin: Any, client_of: Callable[[Any], Client], url: str, typed: dict[str, str], kind: Any
):
    browser = client_of(admin)
    for _time in range(2):
        browser.post(url, opened_anew(browser, url, typed))

    assert kind.objects.count() == 2
    assert not Activity.objects.filter(kind__endswith="-revoked").exists()


@pytest.mark.django_db(transaction=True)
def test_two_presses_at_once_make_one(alice: Any, client_of: Callable[[Any], Client]):
    def press(browser: Client) -> str:
        try:
            return str(browser.post(NEW_NOTE, NOTE)["Location"])
        finally:
            connection.close()

    browsers = [client_of(alice), client_of(alice)]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(press, browsers)

    assert first == second
    assert Note.objects.filter(kind="log").count() == 1
