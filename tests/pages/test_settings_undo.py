"""Saved settings can be undone from their toast, unless something newer was saved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import Agent, Note, ReviewLevel, Undo, User
from memory.pages.shared.undo import settings_now
from memory.services.context import identity
from memory.services.review import proposals as review_services
from memory.tasks import forget_api_answers
from research.models import Channel
from research.services.notifications import channels
from tests.research.factories import make_topic
from tests.undo import undo_in, undo_of

PROFILE = {
    "display_name": "Alice L.", "email": "alice@example.org", "time_zone": "Asia/Tokyo",
    "language": "en", "interests": "heat pumps",
}  # fmt: skip


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


def saved(browser: Client, address: str, typed: dict[str, Any]) -> str:
    return undo_in(browser.post(address, typed, follow=True))


def test_a_profile_comes_back_with_its_note_and_forward_again(browser: Client, alice: User):
    before = settings_now(alice, "profile")
    undo = saved(browser, reverse("memory:profile"), PROFILE)
    after = settings_now(alice, "profile")

    redo = undo_in(browser.post(undo, follow=True))
    assert settings_now(alice, "profile") == before
    note = identity.active(alice, Note.Kind.USER)
    assert note is not None
    assert "heat pumps" not in note.content

    browser.post(redo, follow=True)
    assert settings_now(alice, "profile") == after


def test_limits_levels_and_agents_come_back(browser: Client, alice: User):
    agent = Agent.objects.get(owner=alice, name="research")
    levels = dict.fromkeys(review_services.LEVEL_NAMES, ReviewLevel.Level.HOLD_ALL.value)
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
        before = settings_now(alice, name, target)
        undo = saved(browser, address, typed)
        assert settings_now(alice, name, target) != before
        browser.post(undo)
        assert settings_now(alice, name, target) == before


def test_what_is_newer_stays_and_that_is_explained(browser: Client, alice: User):
    undo = saved(browser, reverse("memory:spending-limits"), {"monthly_tokens": "1000"})
    browser.post(reverse("memory:spending-limits"), {"monthly_tokens": "2000"})

    page = browser.post(undo, follow=True).content.decode()

    assert "have changed since then" in page
    assert settings_now(alice, "limits")["monthly_tokens"] == "2000"


def test_a_soul_comes_back_unless_another_stands(browser: Client, alice: User):
    first = identity.active(alice, Note.Kind.SOUL)
    assert first is not None
    undo = saved(browser, reverse("memory:soul"), {"content": "Be brief.", "standing": first.pk})
    browser.post(undo)
    standing = identity.active(alice, Note.Kind.SOUL)
    assert standing is not None
    assert standing.content == first.content

    undo = saved(browser, reverse("memory:soul"), {"content": "Be kind.", "standing": standing.pk})
    identity.write_soul(alice, "Be gentle.", by=alice.actor)
    page = browser.post(undo, follow=True)
    assert page.status_code == 409
    assert "The soul has changed since then" in page.content.decode()


def test_a_topics_name_and_settings_come_back_together(browser: Client, alice: User):
    topic = make_topic(alice, "Batteries")
    before = settings_now(alice, "topic", str(topic.pk))
    address = reverse("research:topic-settings", args=[topic.slug])
    form = browser.get(address).context["form"]
    shown = {name: form[name].value() for name in form.fields}
    typed = {name: value for name, value in shown.items() if value not in (None, False)}
    typed |= {"title": "Cells", "focus": "prices", "labels": "energy"}
    page = browser.post(address, typed, follow=True)
    assert settings_now(alice, "topic", str(topic.pk)) != before
    undo = undo_in(page)

    browser.post(undo)

    assert settings_now(alice, "topic", str(topic.pk)) == before


def test_what_is_told_of_a_topic_and_the_digest_come_back(browser: Client, alice: User):
    topic = make_topic(alice, "Batteries")
    fields = {"name": "Desk", "address": "alice@example.org", "reports": "all", "failures": True}
    channels.add(alice, kind=Channel.Kind.EMAIL, by=alice.actor, digest=True, **fields)
    for name, target, address, typed in [
        ("digest", "", reverse("research:digest-settings"), {"frequency": "daily", "hour": 7,
         "weekday": 1, "topics": []}),
        ("notices", str(topic.pk), reverse("research:topic-notices", args=[topic.slug]),
         {"own": "1", "reports": "none", "in_digest": "on"}),
    ]:  # fmt: skip
        before = settings_now(alice, name, target)
        undo = saved(browser, address, typed)
        browser.post(undo)
        assert settings_now(alice, name, target) == before


def test_no_one_elses_change_can_be_undone(
    browser: Client, bob: User, client_of: Callable[[User], Client]
):
    undo = saved(browser, reverse("memory:profile"), PROFILE)

    assert client_of(bob).post(undo).status_code == 404
    assert client_of(bob).get(undo).status_code == 405


def test_an_undo_works_once_and_for_thirty_days(browser: Client, alice: User):
    limits = reverse("memory:spending-limits")
    undo = saved(browser, limits, {"monthly_tokens": "1000"})
    browser.post(undo)
    settings_now(alice, "limits")
    assert "There’s nothing left to undo" in browser.post(undo, follow=True).content.decode()
    assert Undo.objects.get(used_at__isnull=False).arguments == {}

    late = saved(browser, limits, {"monthly_tokens": "2000"})
    Undo.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "There’s nothing left to undo" in browser.post(late, follow=True).content.decode()
    assert settings_now(alice, "limits")["monthly_tokens"] == "2000"
    forget_api_answers()
    assert not Undo.objects.exists()


def test_a_refused_undo_says_why_and_can_be_used_later(browser: Client, alice: User):
    limits = reverse("memory:spending-limits")
    undo = saved(browser, limits, {"monthly_tokens": "1000"})
    User.objects.filter(pk=alice.pk).update(monthly_tokens=2000)

    page = browser.post(undo, {"next": "/settings/spending/"})
    assert page.status_code == 409
    assert 'href="/settings/spending/"' in page.content.decode()
    over_htmx = browser.post(undo, headers={"HX-Request": "true"})
    assert over_htmx.status_code == 409
    assert over_htmx["HX-Retarget"] == "#notice"

    User.objects.filter(pk=alice.pk).update(monthly_tokens=1000)
    over_htmx = browser.post(undo, {"next": "/settings/spending/"}, headers={"HX-Request": "true"})
    assert over_htmx["HX-Redirect"] == "/settings/spending/"
    assert settings_now(alice, "limits")["monthly_tokens"] is None


def test_only_acts_with_a_row_of_their_own_are_undone_by_its_key(browser: Client):
    for act, key in (("settings", "x"), ("nothing", "1"), ("revision", "x"), ("bulk", "1")):
        assert browser.post(undo_of(act, key)).status_code == 404
    assert (
        browser.post(undo_of("conflicts-resolved", "0001-01-01T00:00:00+23:59")).status_code == 404
    )
