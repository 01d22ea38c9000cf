"""Paused notes and observations: kept and found by `is:paused`, but in no prompt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.agents.tools import registry
from memory.agents.tools.types import ToolContext
from memory.models import Note, as_of
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.services.context.layers import build_context
from memory.services.notes.maintenance import old_notes
from memory.services.notes.merging import merge
from memory.services.notes.saving import supersede, write_note
from memory.services.records.acts import perform
from memory.services.search.recall import recall
from memory.tasks import embed_due
from tests.pages.record_cast import note, observation, text_of
from tests.undo import undone

CLAUDE = Actor("agent", "claude")
SAID = "The zebra is expensive."


def called(owner: Any, tool: str, **arguments: Any) -> str:
    caller = ToolContext(owner, CLAUDE, str(CLAUDE), scope=str(CLAUDE))
    return registry.call_tool(caller, tool, arguments).text


def found(owner: Any, query: str, **how: Any) -> list[Any]:
    return [hit.record.pk for hit in recall(owner, query, **how)]


@pytest.fixture
def rule(alice: Any) -> Note:
    made = write_note(alice, "rule", SAID, by=alice.actor)
    perform("pause", made, by=alice.actor)
    return made


@pytest.mark.requirement("R376")
def test_it_is_in_no_prompt_until_it_is_resumed(alice: Any, rule: Note) -> None:
    other = note(alice, "An expensive zebra.")

    def seen() -> list[bool]:
        return [
            SAID in build_context(alice, scopes=("owner", "agent:claude"), message="zebra").system,
            *(
                SAID in called(alice, tool, **asked)
                for tool, asked in (
                    ("list_memory", {}),
                    ("recall", {"query": "zebra"}),
                    ("recall", {"query": "zebra is:paused"}),
                    ("recall", {"query": "is:paused"}),
                    ("retrieve", {"id": str(rule.pk)}),
                    ("get_context", {"message": "zebra"}),
                    ("about", {"name": "zebra"}),
                    ("retrieve", {"id": str(other.pk), "related": 5}),
                )
            ),
        ]

    assert not any(seen())
    perform("resume", rule, by=alice.actor)
    rule.refresh_from_db()
    # A record that isn't paused isn't found by `is:paused`.
    assert seen() == [True, True, True, False, False, True, True, True, True]


@pytest.mark.requirement("R376")
@pytest.mark.parametrize("make", [note, observation])
def test_a_person_finds_it_with_is_paused(alice: Any, make: Any) -> None:
    one, other = make(alice, SAID), make(alice, "A zebra has stripes.")
    perform("pause", one, by=alice.actor)

    assert found(alice, "zebra") == [other.pk]
    assert found(alice, "zebra", mode="exact") == [other.pk]
    assert found(alice, "zebra is:paused") == [one.pk]
    assert found(alice, "is:paused") == [one.pk]
    assert found(alice, "zebra -is:paused") == [other.pk]


@pytest.mark.usefixtures("fake", "extension")
def test_the_meaning_does_not_find_it(alice: Any) -> None:
    one = note(alice, "the automobile")
    embed_due()
    assert found(alice, "car") == [one.pk]

    perform("pause", one, by=alice.actor)

    assert found(alice, "car") == []
    assert found(alice, "car is:paused") == [one.pk]


def test_what_is_paused_today_is_paused_at_every_date(alice: Any) -> None:
    one = note(alice, SAID)
    Note.objects.filter(pk=one.pk).update(created=timezone.now() - timedelta(days=2))
    perform("pause", Note.objects.get(pk=one.pk), by=alice.actor)

    with as_of.at(alice, timezone.now() - timedelta(hours=1)):
        assert found(alice, "zebra") == []


def test_maintenance_leaves_it_alone_and_a_merge_with_it_is_paused(alice: Any) -> None:
    old = {"stability": "volatile", "created": timezone.now() - timedelta(days=60)}
    one, other = note(alice, SAID, **old), note(alice, "A zebra has stripes.", **old)
    perform("pause", one, by=alice.actor)

    assert list(old_notes(alice)) == [other]
    assert merge(alice, [one.pk, other.pk], by=alice.actor)[0].paused


def test_the_note_that_replaces_it_is_paused_too(alice: Any, rule: Note) -> None:
    assert supersede(rule, "The zebra is cheap.", by=alice.actor).paused


def test_the_soul_cannot_be_paused(alice: Any) -> None:
    soul = Note.objects.for_user(alice).current_identity().first()
    assert soul is not None

    with pytest.raises(InvalidValue, match="Every context begins with"):
        perform("pause", soul, by=alice.actor)


@pytest.mark.requirement("R376")
@pytest.mark.parametrize("make", [note, observation])
def test_the_page_pauses_says_so_and_undoes_it(
    alice: Any, client_of: Callable[[Any], Client], make: Any
) -> None:
    browser, one = client_of(alice), make(alice, SAID)
    path = reverse("memory:record-pause", args=[one.record_type(), one.pk])

    page = browser.post(path, follow=True)
    one.refresh_from_db()
    assert one.paused
    assert "Paused. Agents can’t see it" in text_of(page)
    assert "\nResume</button>" in browser.get(one.get_absolute_url()).content.decode()

    undone(browser, page)
    one.refresh_from_db()
    assert not one.paused


def test_many_are_paused_at_once_and_the_list_filters_them(
    alice: Any, client_of: Callable[[Any], Client]
) -> None:
    browser = client_of(alice)
    one, other = note(alice, SAID), note(alice, "A zebra has stripes.")
    browser.post(
        reverse("memory:records-bulk", args=["notes"]), {"act": "pause", "record": [one.pk]}
    )

    page = text_of(browser.get(reverse("memory:notes") + "?q=is:paused"))
    assert SAID in page
    assert other.content not in page


def test_another_person_cannot_pause_it(
    alice: Any, bob: Any, client_of: Callable[[Any], Client]
) -> None:
    one = note(alice, SAID)
    path = reverse("memory:record-pause", args=["note", one.pk])

    assert client_of(bob).post(path).status_code == 404
    one.refresh_from_db()
    assert not one.paused
