"""What a page shows of reflection: each change in its current state."""

from __future__ import annotations

from typing import Any

import pytest
from django.template.loader import render_to_string

from memory.agents.reflection import shown_of
from memory.models import MemoryFile, Proposal, Reflection, User
from memory.services.review import proposals as review_services
from tests.memory.reflection_cast import LESSON, Reflect, accept_all, learned

SOURCE = "session:1"
WEB = "external"


def words(owner: User) -> list[str]:
    shown = shown_of(owner, SOURCE)
    assert shown is not None
    return [change["words"] for change in shown["changes"]]


def test_a_write_that_waits_leads_to_review_and_is_counted(alice: User, reflect: Reflect):
    reflect(learned(), learned("- another"), "Kept.", trust=WEB)

    shown = shown_of(alice, SOURCE)

    assert shown is not None and shown["waiting_words"].startswith(
        "2 writes are waiting for your approval"
    )
    first = Proposal.objects.earliest("created")
    assert shown["changes"][0]["url"] == f"/review/{first.pk}/"


@pytest.mark.parametrize(
    ("decide", "said"),
    [
        (lambda p: review_services.accept(p, by=p.owner.actor), "proposed and accepted"),
        (lambda p: review_services.reject(p, by=p.owner.actor), "proposed and rejected"),
        (lambda p: p.delete(), "proposed, then deleted"),
        (
            lambda p: Proposal.objects.filter(pk=p.pk).update(state="expired"),
            "proposed, but expired",
        ),
    ],
)
def test_what_became_of_a_proposal_is_explained(
    alice: User, reflect: Reflect, decide: Any, said: str
):
    reflect(learned(), "Kept.", trust=WEB)

    decide(Proposal.objects.get())

    assert words(alice) == [said] and shown_of(alice, SOURCE)["waiting_words"] == ""  # type: ignore[index]


def test_a_file_that_is_gone_has_no_link(alice: User, reflect: Reflect):
    accept_all(alice)
    reflect(learned(), "Kept.")
    assert words(alice) == ["version 2"]
    MemoryFile.objects.filter(path="facts/memory.md").delete()

    shown = shown_of(alice, SOURCE)

    assert shown is not None and shown["changes"][0]["url"] == ""
    assert words(alice) == ["version 2, since deleted"]


def test_calls_are_shown_with_their_arguments_and_answers(alice: User, reflect: Reflect):
    reflect(learned(), "Kept.", trust=WEB)

    [call] = shown_of(alice, SOURCE)["calls"]  # type: ignore[index]

    assert (call["tool"], call["is_error"]) == ("memory_append", False)
    assert call["arguments"] == f"path: facts/memory.md\nentry: {LESSON}"
    assert "Pending approval" in call["result"]


@pytest.mark.parametrize(("in_row", "level"), [(False, "h3"), (True, "h4")])
def test_calls_are_one_level_below_the_reflections_heading(
    alice: User, reflect: Reflect, in_row: bool, level: str
):
    reflect(learned(), "Kept.", trust=WEB)
    shown = {"reflection": shown_of(alice, SOURCE), "in_row": in_row}

    page = render_to_string("memory/_reflection.html", shown)

    assert f'<{level} class="mono">memory_append</{level}>' in page


def test_no_one_elses_and_nothing_unfinished_is_shown(alice: User, bob: User, reflect: Reflect):
    reflect("Nothing.", source=SOURCE)
    Reflection.objects.create(owner=alice, source="run:2")

    assert shown_of(bob, SOURCE) is None and shown_of(alice, "run:2") is None
    assert str(Reflection.objects.for_user(alice).get(source="run:2")) == "reflection on run:2"
