"""Saved settings can be undone from their toast, unless something newer was saved."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.accounts import settings_undo
from memory.context import identity
from memory.models import Agent, Note, ReviewLevel, User
from memory.review import levels as review_levels
from research.models import Channel
from research.notifications import channels
from research.topic_settings import editing as topic_editing
from tests.research.factories import make_topic

PROFILE = {
    "display_name": "Alice L.", "email": "alice@example.org", "time_zone": "Asia/Tokyo",
    "language": "en", "interests": "heat pumps",
}  # fmt: skip


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


def undo_in(html: str) -> str:
    """Return the address of the Undo that a page's toast offers."""
    forms = re.findall(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', html, re.DOTALL)
    undos = [unescape(to) for to, inside in forms if ">Undo<" in inside]
    assert undos, "no Undo is offered"
    return undos[-1]


def saved(browser: Client, address: str, typed: dict[str, Any]) -> str:
    return undo_in(browser.post(address, typed, follow=True).content.decode())


def test_a_profile_comes_back_with_its_note_and_forward_again(browser: Client, alice: User):
    before = settings_undo.now(alice, "profile")
    undo = saved(browser, reverse("memory:profile"), PROFILE)
    after = settings_undo.now(alice, "profile")

    redo = undo_in(browser.post(undo, follow=True).content.decode())
    assert settings_undo.now(alice, "profile") == before
    note = identity.active(alice, Note.Kind.USER)
    assert note is not None
    assert "heat pumps" not in note.content

    browser.post(redo, follow=True)
    assert settings_undo.now(alice, "profile") == after


def test_limits_levels_and_agents_come_back(browser: Client, alice: User):
    agent = Agent.objects.get(owner=alice, name="research")
    levels = dict.fromkeys(review_levels.NAMES, ReviewLevel.Level.HOLD_ALL.value)
    for name, target, address, typed in [
        ("limits", "", reverse("memory:spending-limits"), {"monthly_money": "12.50"}),
        ("levels", "", reverse("memory:review-levels"), levels),
        (
            "agent",
            str(agent.pk),
            reverse("memory:agent", args=[agent.pk]),
            {"compaction_prompt": "Short."},
        ),
    ]:
        before = settings_undo.now(alice, name, target)
        undo = saved(browser, address, typed)
        assert settings_undo.now(alice, name, target) != before
        browser.post(undo)
        assert settings_undo.now(alice, name, target) == before


def test_what_is_newer_stays_and_that_is_said(browser: Client, alice: User):
    undo = saved(browser, reverse("memory:spending-limits"), {"monthly_tokens": "1000"})
    browser.post(reverse("memory:spending-limits"), {"monthly_tokens": "2000"})

    page = browser.post(undo, follow=True).content.decode()

    assert "have changed since then" in page
    assert settings_undo.now(alice, "limits")["monthly_tokens"] == "2000"


def test_a_soul_comes_back_unless_another_stands(browser: Client, alice: User):
    first = identity.active(alice, Note.Kind.SOUL)
    assert first is not None
    undo = saved(browser, reverse("memory:soul"), {"content": "Be brief.", "standing": first.pk})
    browser.post(undo)
    standing = identity.active(alice, Note.Kind.SOUL)
    assert standing is not None
    assert standing.content == first.content

    page = browser.post(undo, follow=True).content.decode()
    assert "The soul has changed since then" in page


def test_a_topics_name_and_settings_come_back_together(alice: User):
    topic = make_topic(alice, "Batteries")
    before = settings_undo.now(alice, "topic", str(topic.pk))
    wanted = {"title": "Cells", "focus": "prices", "labels": ["energy"]}
    topic_editing.edit_topic(topic, by=alice.actor, wanted=wanted)
    after = settings_undo.now(alice, "topic", str(topic.pk))
    was = settings_undo.changed(before, after)
    done = {"before": was, "after": {name: after[name] for name in was}}

    settings_undo.take_back(alice, "topic", str(topic.pk), done=done, by=alice.actor)

    assert settings_undo.now(alice, "topic", str(topic.pk)) == before
    with pytest.raises(settings_undo.NewerStands):
        settings_undo.take_back(alice, "topic", str(topic.pk), done=done, by=alice.actor)


def test_what_is_told_of_a_topic_and_the_digest_come_back(browser: Client, alice: User):
    topic = make_topic(alice, "Batteries")
    fields = {"name": "Desk", "address": "alice@example.org", "reports": "all", "failures": True}
    channels.add(alice, kind=Channel.Kind.EMAIL, by=alice.actor, digest=True, **fields)
    for name, target, address, typed in [
        ("digest", "", reverse("research:digest-settings"), {"often": "daily", "hour": 7,
         "weekday": 1, "topics": []}),
        ("notices", str(topic.pk), reverse("research:topic-notices", args=[topic.slug]),
         {"own": "1", "reports": "none", "in_digest": "on"}),
    ]:  # fmt: skip
        before = settings_undo.now(alice, name, target)
        undo = saved(browser, address, typed)
        browser.post(undo)
        assert settings_undo.now(alice, name, target) == before


def test_nobody_elses_change_can_be_taken_back(
    browser: Client, bob: User, client_of: Callable[[User], Client]
):
    undo = saved(browser, reverse("memory:profile"), PROFILE)

    page = client_of(bob).post(undo, follow=True)

    assert "There’s nothing left to undo" in page.content.decode()
    assert client_of(bob).get(undo).status_code == 405
