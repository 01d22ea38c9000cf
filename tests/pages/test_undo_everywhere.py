"""Each action that can be undone offers Undo, and Undo works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import (
    LibraryDocument,
    Note,
    Observation,
    SavedView,
    ScratchpadEntry,
    Topic,
    TopicFact,
    User,
)
from memory.services import scratchpad
from memory.services.library import documents as library_services
from research.models import SharedLink
from research.services.topics.settings import editing as topic_editing
from tests.research.factories import make_second_run, make_topic
from tests.undo import undone


@pytest.fixture
def browser(alice: User, client_of: Callable[[User], Client]) -> Client:
    return client_of(alice)


def done_and_undone(browser: Client, address: str, typed: dict[str, Any]) -> None:
    """Do it, and click Undo in its toast."""
    assert undone(browser, browser.post(address, typed, follow=True)).status_code == 200


def test_a_note_that_was_written(browser: Client, alice: User) -> None:
    typed = {"kind": "log", "content": "A note by mistake", "sensitivity": "normal"}
    done_and_undone(browser, reverse("memory:note-new"), typed)
    assert Note.objects.for_user(alice).in_trash().filter(content="A note by mistake").exists()


def test_an_observation_that_was_written(browser: Client, alice: User) -> None:
    typed = {"category": "finding", "content": "An observation by mistake"}
    typed |= {"sensitivity": "normal"}
    done_and_undone(browser, reverse("memory:observation-new"), typed)
    assert Observation.objects.for_user(alice).in_trash().exists()


def test_a_value_that_was_put_on_the_scratchpad_and_changed(browser: Client, alice: User) -> None:
    typed = {"key": "plan", "value": "x", "scope": "owner"}
    done_and_undone(browser, reverse("memory:scratchpad-new"), typed)
    assert ScratchpadEntry.objects.for_user(alice).in_trash().exists()
    entry = scratchpad.set_value(alice, "plan", "old", by=alice.actor)
    typed = {"key": "plan", "value": "new", "scope": "owner", "version": str(entry.version)}
    done_and_undone(browser, reverse("memory:scratchpad-edit", args=[entry.pk]), typed)
    entry.refresh_from_db()
    assert entry.value == "old"


def test_a_document_that_was_added_changed_or_restored(browser: Client, alice: User) -> None:
    done_and_undone(browser, reverse("memory:library-add"), {"title": "A", "text": "# A\n\nB"})
    assert LibraryDocument.objects.for_user(alice).in_trash().count() == 1
    document = library_services.add_document(alice, title="T", text="old words", by=alice.actor)
    typed = {"title": "T", "text": "new words", "version": str(document.version)}
    done_and_undone(browser, reverse("memory:library-edit", args=[document.pk]), typed)
    document.refresh_from_db()
    assert document.text == "old words"
    document.trash(by=alice.actor)
    done_and_undone(browser, reverse("memory:library-restore", args=[document.pk]), {})
    assert LibraryDocument.objects.for_user(alice).in_trash().count() == 2


def test_a_fact_that_was_added_or_corrected(browser: Client, alice: User) -> None:
    topic = make_topic(alice)
    facts = reverse("research:topic-facts", args=[topic.slug])
    done_and_undone(browser, facts, {"text": "A fact that was added by mistake.", "url": ""})
    assert not TopicFact.objects.filter(topic=topic).current().exists()
    fact = TopicFact.objects.add(topic, "A fact as it was at first, in short.", by=alice.actor)
    typed = {"text": "A fact as it is not at all.", "url": "", "version": str(fact.version)}
    done_and_undone(browser, reverse("research:fact-edit", args=[topic.slug, fact.pk]), typed)
    fact.refresh_from_db()
    assert fact.text == "A fact as it was at first, in short."


def test_a_topic_that_was_taken_from_the_archive_or_the_trash(browser: Client, alice: User) -> None:
    topic = make_topic(alice)
    topic_editing.archive_topic(topic, by=alice.actor)
    done_and_undone(browser, reverse("research:topic-unarchive", args=[topic.slug]), {})
    topic = Topic.objects.get(pk=topic.pk)
    assert topic.archived_at is not None
    topic_editing.trash_topic(topic, by=alice.actor)
    done_and_undone(browser, reverse("memory:record-restore", args=["topic", topic.pk]), {})
    assert Topic.objects.in_trash().filter(pk=topic.pk).exists()


def test_a_link_that_was_given_out(browser: Client, alice: User) -> None:
    run = make_second_run(make_topic(alice))
    share = reverse("research:report-share", args=[run.topic.slug, run.pk])
    done_and_undone(browser, share, {"days": "7", "note": "x"})
    assert SharedLink.objects.get().ended_at is not None


def test_a_view_that_was_saved(browser: Client, alice: User) -> None:
    typed = {"page": "notes", "name": "House", "query": "tag=house", "next": "/notes/"}
    done_and_undone(browser, reverse("memory:views-save"), typed)
    assert not SavedView.objects.for_user(alice).exists()


def test_an_account_that_staff_disabled(
    admin: User, alice: User, client_of: Callable[[User], Client]
) -> None:
    done_and_undone(client_of(admin), reverse("memory:person-disable", args=[alice.pk]), {})
    alice.refresh_from_db()
    assert alice.is_active
