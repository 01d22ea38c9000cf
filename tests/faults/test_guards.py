"""The three most important guards: without each of them, its promise breaks.

The fence (a worker writes only while it holds the run), the lease tick (a run whose worker is gone
is freed) and the one slot (one run per topic and time), here by real processes and at the
database.  All guards, with the tests that fail without them, are in guards.py.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from research.models import Run, Schedule
from research.services.runs.execution import starting
from research.services.schedules import scheduling
from tests.conftest import Say
from tests.faults import unguarded
from tests.faults.guards import GUARDS
from tests.faults.outside import Outside
from tests.faults.processes import ROOT, Site, site
from tests.faults.stops import Gate

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

FENCE, LEASE_TICK = "fence", "lease tick"


@pytest.fixture(scope="module")
def loose(outside: Outside) -> Iterator[Site]:
    """A site without workers: each test starts them with the guard, or without it."""
    with site(**outside.variables) as made:
        made.start_beat()
        yield made


def _workers(loose: Site, without: str) -> None:
    for name in ("worker", "upkeep"):
        if name in loose.processes:
            loose.kill(name)
    loose.rows("DELETE FROM research_worker")
    loose.start_worker(
        "upkeep", queues="maintenance,reflect,background", children=1, without=without
    )
    loose.start_worker(queues="research", without=without)


def _frozen_and_given_up(loose: Site, outside: Outside, title: str) -> tuple[Gate, Gate, int]:
    """Freeze a worker's child while it waits for the model, and let another take its run.

    Returns the gates at which the frozen one and the other wait, and the frozen one's process.
    """
    first, second = Gate(), Gate()
    outside.scenes[title, "write"] = first
    loose.act("queue", title)
    loose.wait(lambda: first.port)
    child = loose.child_at(first.port or 0)
    os.kill(child, signal.SIGSTOP)
    outside.scenes[title, "write"] = second
    loose.end_leases()
    loose.wait(lambda: second.port)
    return first, second, child


def _answer(sentence: str) -> dict[str, Any]:
    finding = {"sentence": sentence, "citations": [1], "quote": sentence}
    return {"summary": f"{sentence} [1]", "body": f"{sentence} [1]", "findings": [finding]}


@pytest.mark.long
@pytest.mark.parametrize("without", ["", FENCE], ids=["with the fence", "without the fence"])
def test_a_worker_that_was_given_up_on_and_wakes_writes_nothing(
    loose: Site, outside: Outside, say: Say, without: str
):
    title = f"Harbour frozen {without or 'guarded'}"
    _workers(loose, without)
    first, second, child = _frozen_and_given_up(loose, outside, title)
    os.kill(child, signal.SIGCONT)
    first.answer(_answer("The harbour at Varna was written of by the frozen worker."))
    time.sleep(8)  # long enough to verify and to save
    early = loose.runs(title)[0]
    second.answer(_answer("The harbour at Varna ordered 14 electric cranes for 31 million euros."))
    run = loose.ended(title)[0]
    body = loose.value("SELECT body FROM research_report WHERE run_id = %s", run.id)
    by_lost = "frozen worker" in body
    say(
        "a worker frozen, replaced and woken" + (", without the fence" if without else ""),
        "without the fence it writes" if without else "it writes nothing",
        f"the report is {'the frozen' if by_lost else 'the new'} worker's, "
        f"{'saved over the new one' if early.number else 'saved once'}",
    )

    assert by_lost == bool(without)
    assert bool(early.number) == bool(without)


@pytest.mark.long
@pytest.mark.parametrize("without", ["", LEASE_TICK], ids=["with the tick", "without the tick"])
def test_a_run_whose_worker_is_gone_is_freed_by_the_tick(
    loose: Site, outside: Outside, say: Say, without: str
):
    title = f"Harbour orphan {without or 'guarded'}"
    _workers(loose, without)
    gate = outside.scenes[title, "write"] = Gate()
    loose.act("queue", title)
    loose.wait(lambda: gate.port)
    loose.kill("worker")
    del outside.scenes[title, "write"]
    gate.open()
    loose.start_worker(queues="research", without=without)
    loose.end_leases()
    time.sleep(25)  # one and a half of beat's own ticks
    status = loose.runs(title)[0].status
    say(
        "kill -9 of the worker, after its lease" + (", without the lease tick" if without else ""),
        "without it the run hangs" if without else "the run continues",
        f"after 25 s it is {status}",
    )

    assert status == ("running" if without else "succeeded")


@pytest.fixture
def daily(alice: Any) -> Any:
    """A topic that fell due a minute ago."""
    topic = starting.create_topic(
        owner=alice, title="Harbour", by=alice.actor, schedule={"preset": "daily"}
    )
    now = timezone.now()
    cron = f"0 {(now.hour + 12) % 24} * * *"
    due = now - timedelta(minutes=1)
    Schedule.objects.filter(pk=topic.pk).update(cron=cron, next_run_at=due)
    return topic


def _taken_twice(topic: Any, *, claimed: bool) -> int:
    """Let two ticks that both saw the slot as due take it; return how many runs came of it.

    Without the claim the second finds the row as the first did.
    """
    at = timezone.now()
    schedule = Schedule.objects.select_related("topic__owner", "topic__settings").get(pk=topic.pk)
    slot = schedule.next_run_at
    scheduling._take(schedule, at)
    Run.objects.filter(topic=topic).update(status="failed", finished_at=at)  # it is over already
    if not claimed:
        Schedule.objects.filter(pk=topic.pk).update(next_run_at=slot)
    scheduling._take(schedule, at)
    return int(Run.objects.filter(topic=topic).count())


@pytest.mark.django_db
@pytest.mark.parametrize("claimed", [True, False], ids=["claim", "constraint alone"])
def test_a_slot_that_two_ticks_see_as_due_is_one_run(daily: Any, claimed: bool):
    assert _taken_twice(daily, claimed=claimed) == 1


@pytest.mark.django_db
def test_without_claim_and_constraint_a_slot_would_be_two_runs(daily: Any):
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE research_run DROP CONSTRAINT run_once_a_slot")

    assert _taken_twice(daily, claimed=False) == 2


@pytest.mark.long
def test_each_guard_of_the_table_has_a_test_that_was_found():
    assert {guard.name for guard in GUARDS} - unguarded.MADE == set()


def test_each_test_that_the_table_names_is_there():
    for guard in GUARDS:
        path, _, rest = guard.test.partition("::")
        name = rest.partition("[")[0].rpartition("::")[2]
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), guard.test


def test_a_guard_is_one_line_of_the_table():
    assert len({guard.name for guard in GUARDS}) == len(GUARDS)
    assert not [guard.name for guard in GUARDS if "[" in guard.name]
