"""Home's side column: what was written in 30 days, and what agents did in the last 7."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import Note, Proposal, Use, User
from memory.models.actors import RESEARCH, Actor
from memory.models.as_of import at
from memory.services.notes.saving import write_note
from research.pages.home import HEIGHT, agents_week, written_by_day
from tests.memory.review_cast import proposed_note
from tests.research.factories import make_second_run, make_topic

CLAUDE = Actor("agent", "claude")


def note(owner: User, text: str, by: Actor | None = None) -> Note:
    return write_note(owner, "log", text, by=by or owner.actor)


def test_a_new_account_has_no_chart_of_files_that_no_one_wrote(alice: User):
    assert written_by_day(alice) == {"bars": [], "own": 0, "others": 0}


def test_records_are_counted_by_day_and_by_who_wrote_them(alice: User, bob: User):
    note(alice, "Ships by sea from Osaka.")
    note(alice, "Fares rise on Fridays.", CLAUDE)
    note(alice, "The pilot line makes cells.", RESEARCH)
    note(bob, "Somebody else's words.")

    found = written_by_day(alice)

    assert (found["own"], found["others"]) == (2, 1)
    assert [bar[2:] for bar in found["bars"][:-1]] == [(0, HEIGHT, 0)] * 29
    _x, y, own, top, others = found["bars"][-1]
    assert (y + own, top, own + others) == (HEIGHT, 0, HEIGHT)
    assert own == 24


def test_a_change_of_an_old_record_isnt_a_new_one(alice: User):
    one = note(alice, "Ships by sea from Osaka.")
    one.change(by=alice.actor, content="Ships by rail from Osaka.")
    assert written_by_day(alice)["own"] == 1


def test_agents_are_listed_by_what_they_did_this_week(alice: User, bob: User):
    ours = [note(alice, f"Gate {number} opens at seven.") for number in range(3)]
    Use.note_records(alice, ours, str(CLAUDE))
    Use.note_records(alice, ours[:1], "agent:desk")
    Use.note_records(alice, ours[:1], "run:8")
    Use.note_records(bob, [note(bob, "Bob's gate.")], str(CLAUDE))
    note(alice, "Written by claude.", CLAUDE)
    Proposal.objects.filter(pk=proposed_note(alice).pk).update(actor="agent:desk")
    long_ago = timezone.now() - timedelta(days=8)
    Use.objects.filter(record_id=ours[2].pk, place=str(CLAUDE)).update(used_at=long_ago)

    assert agents_week(alice) == [
        {"actor": "agent:claude", "name": "claude", "read": 2, "written": 1},
        {"actor": "agent:desk", "name": "desk", "read": 1, "waiting": 1},
    ]


def test_reading_a_record_again_counts_this_week_too(alice: User):
    one = note(alice, "Gate 7 opens at seven.")
    Use.note_records(alice, [one], str(CLAUDE))
    first = timezone.now() - timedelta(days=20)
    Use.objects.update(created=first, used_at=first)
    assert agents_week(alice) == []

    Use.note_records(alice, [one], str(CLAUDE))

    use = Use.objects.get()
    assert use.created == first
    assert timezone.now() - use.used_at < timedelta(minutes=1)
    assert agents_week(alice)[0]["read"] == 1


def test_reading_again_within_the_hour_leaves_the_row_alone(alice: User):
    one = note(alice, "Gate 7 opens at seven.")
    Use.note_records(alice, [one], str(CLAUDE))
    before = Use.objects.get().used_at
    Use.note_records(alice, [one], str(CLAUDE))
    assert Use.objects.get().used_at == before


def test_at_an_earlier_date_the_last_use_is_not_a_later_one(alice: User):
    one = note(alice, "Gate 7 opens at seven.")
    Use.note_records(alice, [one], str(CLAUDE))
    first = timezone.now() - timedelta(days=20)
    Use.objects.update(created=first)

    with at(alice, timezone.now() - timedelta(days=5)):
        assert Use.objects.get().used_at == first


@pytest.mark.requirement("R388")
def test_home_shows_both_next_to_the_reports(alice: User, client_of: Callable[[User], Client]):
    make_second_run(make_topic(alice))
    ours = [note(alice, f"Gate {number} opens at seven.") for number in range(3)]
    Use.note_records(alice, ours, str(CLAUDE))

    html = client_of(alice).get("/").content.decode()

    assert "Memory, last 30 days" in html
    assert "3 records from you and your agents" in html
    assert "read 3 memories" in html
    assert "?actor=agent%3Aclaude" in html
