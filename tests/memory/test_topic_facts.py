"""Topic facts: at most ten, people's stay, what is struck is not repeated, what goes is kept."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from memory.models import Lock, Topic, TopicFact, Trust, User
from memory.models.actors import RESEARCH, Actor
from memory.models.errors import InvalidValue, LimitReached, Locked
from memory.services import topic_memory
from memory.services.topic_memory import FactChanges, FoundFact, replace_facts
from tests.research.factories import make_fact, make_topic

AGENT = Actor("agent", "claude")


@pytest.fixture
def topic(alice: User) -> Topic:
    """Alice's topic."""
    return make_topic(alice)


def found(*numbers: int) -> list[FoundFact]:
    return [FoundFact(f"What a run found out, number {number}.") for number in numbers]


def replace(topic: Topic, facts: list[FoundFact], number: int = 1) -> FactChanges:
    return topic_memory.replace_facts(
        topic, facts, number=number, source=f"run:{number}", at=timezone.now()
    )


def texts(topic: Topic, **which: Any) -> list[str]:
    facts = TopicFact.objects.filter(topic=topic)
    return [fact.text for fact in (facts.filter(**which) if which else facts.current())]


@pytest.mark.requirement("R18")
def test_a_run_leaves_at_most_ten_facts(topic: Topic):
    replace(topic, found(*range(14)))

    assert texts(topic) == [fact.text for fact in found(*range(10))]


@pytest.mark.requirement("R20")
def test_facts_that_a_run_replaces_are_retired_with_its_number(topic: Topic):
    replace(topic, found(1, 2))
    replace(topic, found(2, 3), number=2)

    retired = TopicFact.objects.filter(topic=topic).retired().get()
    assert (retired.text, retired.retired_run) == (found(1)[0].text, 2)
    assert texts(topic) == [found(2)[0].text, found(3)[0].text]


def test_a_fact_found_again_is_the_same_fact_confirmed(topic: Topic):
    replace(topic, found(1))
    first = TopicFact.objects.get()
    replace(topic, [FoundFact("**What a run found out, number 1.** [4]")], number=2)

    again = TopicFact.objects.get()
    assert (again.pk, again.first_run, again.confirmed_run) == (first.pk, 1, 2)


def test_what_a_person_touched_stays_as_it_is(topic: Topic, alice: User):
    replace(topic, found(1, 2, 3))
    one, two, _three = TopicFact.objects.filter(topic=topic).current()
    one.edit("What I know better, number one.", by=alice.actor)
    two.set_lock(Lock.READ_ONLY, by=alice.actor)

    changes = replace(topic, found(7), number=2)

    assert set(texts(topic)) == {"What I know better, number one.", two.text, found(7)[0].text}
    assert len(changes.kept) == 2


def test_people_keep_at_most_eight_so_that_runs_have_room(topic: Topic, alice: User):
    for number in range(8):
        TopicFact.objects.add(topic, f"What I know for sure, number {number}.", by=alice.actor)

    with pytest.raises(LimitReached, match="8 facts"):
        TopicFact.objects.add(topic, "What I know for sure, the ninth.", by=alice.actor)
    replace(topic, found(1, 2, 3))

    assert len(texts(topic)) == 10


@pytest.mark.parametrize("act", ["edit", "lock", "take back"])
def test_no_way_leads_past_the_eight(topic: Topic, alice: User, act: str):
    for number in range(8):
        TopicFact.objects.add(topic, f"What I know for sure, number {number}.", by=alice.actor)
    other = make_fact(topic, "What the run found, and nobody touched.")
    if act == "take back":
        other.retire(by=RESEARCH, why="gone", run=1)

    with pytest.raises(LimitReached):
        if act == "edit":
            other.edit("What the run found, in my words.", by=alice.actor)
        elif act == "lock":
            other.set_lock(Lock.READ_ONLY, by=alice.actor)
        else:
            other.unstrike(by=alice.actor)


def test_the_eleventh_makes_room_for_itself_by_retiring_the_last_untouched(
    topic: Topic, alice: User
):
    replace(topic, found(*range(10)))
    TopicFact.objects.add(topic, "What I know for sure and for ever.", by=alice.actor)

    assert len(texts(topic)) == 10
    assert texts(topic, state="retired") == [found(9)[0].text]


def test_a_struck_fact_is_dropped_when_it_is_found_again(topic: Topic, alice: User):
    replace(topic, found(1, 2))
    TopicFact.objects.get(key__contains="number 1").strike(by=alice.actor, why="wrong")

    replace(topic, [*found(2), FoundFact("* what a run found out, NUMBER 1!")], number=2)

    assert texts(topic) == [found(2)[0].text]
    assert texts(topic, state="struck") == [found(1)[0].text]


def test_taking_back_what_is_current_already_retires_nothing(topic: Topic, alice: User):
    replace(topic, found(*range(10)))
    fact = TopicFact.objects.filter(topic=topic).current()[0]
    fact.strike(by=alice.actor)
    replace(topic, found(*range(1, 11)), number=2)
    fact.unstrike(by=alice.actor)

    fact.unstrike(by=alice.actor)

    assert len(texts(topic)) == 10
    assert len(texts(topic, state="retired")) == 1


def test_a_locked_fact_isnt_an_agents_to_change(topic: Topic, alice: User):
    fact = make_fact(topic, "A fact that is locked for good.")
    fact.set_lock(Lock.READ_ONLY, by=alice.actor)

    for act in (
        lambda: fact.edit("Overwritten by an agent, quietly.", by=AGENT),
        lambda: fact.strike(by=AGENT),
        lambda: fact.set_lock(Lock.OPEN, by=AGENT),
        lambda: fact.trash(by=AGENT),
    ):
        with pytest.raises(Locked):
            act()


@pytest.mark.requirement("R21", "R22")
@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("- **Version 18** is out since [September](https://a.org).", None),
        ("人工智能芯片投资增长了三成。", "人工智能芯片投资增长了三成。"),
    ],
)
def test_a_fact_is_kept_as_plain_words(topic: Topic, alice: User, typed: str, kept: str | None):
    fact = TopicFact.objects.add(topic, typed, by=alice.actor)

    assert fact.text == (kept or "Version 18 is out since September.")


@pytest.mark.requirement("R22")
@pytest.mark.parametrize("typed", ["", "too short", "x" * 20, "- **bold** [a](b)", "\x00" * 40])
def test_what_isnt_a_statement_isnt_a_fact(topic: Topic, alice: User, typed: str):
    with pytest.raises(InvalidValue, match="at least 21"):
        TopicFact.objects.add(topic, typed, by=alice.actor)


def test_another_order_loses_no_fact_and_vouches_for_none(topic: Topic, alice: User):
    replace(topic, found(1, 2, 3))
    one, _two, three = TopicFact.objects.filter(topic=topic).current()

    TopicFact.objects.reorder(topic, [three.pk, one.pk], by=alice.actor)

    assert [text[-2] for text in texts(topic)] == ["3", "1", "2"]
    assert set(TopicFact.objects.values_list("trust", flat=True)) == {Trust.EXTERNAL}


@pytest.mark.parametrize("way", ["add", "edit"])
def test_what_was_struck_is_not_written_again_but_restored(topic: Topic, way: str):
    by = topic.owner.actor
    make_fact(topic, "Pilot lines are named for 2027.").strike(by=by)
    other = make_fact(topic, "Prices fall by a third in 2026.")

    with pytest.raises(InvalidValue, match=rf"wrong on {timezone.now():%Y-%m}.*Undo that"):
        if way == "add":
            TopicFact.objects.add(topic, "Pilot lines are named for 2027!", by=by)
        else:
            other.edit("Pilot lines are named for 2027!", by=by)

    assert texts(topic) == ["Prices fall by a third in 2026."]


def test_the_same_number_with_another_sign_or_currency_is_another_fact(topic: Topic):
    by, now = topic.owner.actor, timezone.now()
    fee = "The deposit for the pilot line is {}."
    old = make_fact(topic, fee.format("20 €"))

    found = [FoundFact(fee.format("-20 €"), replaces=str(old.pk))]
    replace_facts(topic, found, number=2, source="run:2", at=now)
    assert texts(topic) == [fee.format("-20 €")]
    old.refresh_from_db()
    assert (old.state, old.retired_as) == ("retired", "replaced")

    TopicFact.objects.add(topic, fee.format("20 $"), by=by)
    assert set(texts(topic)) == {fee.format("-20 €"), fee.format("20 $")}
    with pytest.raises(InvalidValue, match="already has this fact"):
        TopicFact.objects.add(topic, fee.format("$20"), by=by)


def test_a_fact_is_not_corrected_into_another_current_one(topic: Topic):
    by = topic.owner.actor
    make_fact(topic, "Pilot lines are named for 2027.")
    other = make_fact(topic, "Prices fall by a third in 2026.")

    with pytest.raises(InvalidValue, match="already has this fact"):
        other.edit("Pilot lines are named for 2027.", by=by)
    other.edit("Prices fall by a third in 2026!", by=by)

    assert other.text == "Prices fall by a third in 2026!"
