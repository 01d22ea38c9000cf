"""The worker's pool of threads: two groups, time limits, and repeated messages."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery.beat import Scheduler
from celery.exceptions import SoftTimeLimitExceeded
from celery.worker.worker import WorkController
from django.conf import settings
from kombu import Connection, Message, Queue

from beacon_site import celery, worker_threads
from beacon_site.launcher import runner
from beacon_site.worker_threads import TaskPool
from tests.site.waiting import eventually


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[TaskPool]:
    made = TaskPool(limit=3)  # one for runs, two for the rest
    made.start()
    yield made
    made.stop()
    worker_threads._pools.remove(made)


def give(
    pool: TaskPool,
    work: Callable[[], Any],
    *,
    queue: str = "research",
    body: str = "",
    **limits: Any,
) -> list[Any]:
    """Give the pool a task as Celery does; return the list that gets its results."""
    done: list[Any] = []
    request = {"delivery_info": {"routing_key": queue}}
    arguments = ("task", "id", request, body or str(id(done)), "json", "utf-8")
    callbacks = {"soft_timeout": None, "timeout": None, "timeout_callback": None, **limits}
    pool.apply_async(
        lambda *_arguments: work(),
        arguments,
        callback=done.append,
        accept_callback=None,
        **callbacks,
    )
    return done


def test_long_runs_leave_threads_for_everything_else(pool: TaskPool):
    ends = threading.Event()
    runs = [give(pool, ends.wait) for _ in range(5)]

    other = give(pool, lambda: "done", queue="maintenance")

    assert eventually(lambda: other == ["done"])
    assert runs == [[]] * 5
    ends.set()
    assert eventually(lambda: all(runs))


def test_ticks_come_before_other_tasks_that_wait(pool: TaskPool):
    ends = threading.Event()
    for _ in range(2):
        give(pool, ends.wait, queue="reflect")
    order: list[str] = []
    for number, queue in enumerate(["background", "background", "reflect", "maintenance"]):
        give(pool, lambda name=f"{queue} {number}": order.append(name), queue=queue)

    ends.set()

    assert eventually(lambda: len(order) == 4)
    assert set(order[:2]) == {"maintenance 3", "reflect 2"}


def test_a_worker_takes_messages_of_the_first_queue_first():
    transport = f"{settings.CELERY_BROKER_URL}"
    names = runner.QUEUES["upkeep"].split(",")
    options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    with Connection(transport, transport_options=options) as broker:
        queues = [Queue(f"order-{name}", routing_key=f"order-{name}") for name in names]
        sender = broker.Producer()
        for queue in [*reversed(queues), *reversed(queues)]:
            sender.publish(queue.name, routing_key=queue.name, declare=[queue])
        taken: list[str] = []

        def take(body: str, message: Message) -> None:
            taken.append(body)
            message.ack()

        with broker.Consumer(queues, callbacks=[take], prefetch_count=1):
            while len(taken) < 2 * len(queues):
                broker.drain_events(timeout=5)
        for queue in queues:
            queue(broker.channel()).delete()

    assert taken == [queue.name for queue in queues for _ in range(2)]


def test_the_beat_of_one_process_leaves_out_what_would_find_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    worker = SimpleNamespace(app=celery.app, pool_cls=None, steps=[])
    step = worker_threads.OneProcess(worker, beat_schedule=str(tmp_path / "schedule"))
    sent: list[str] = []
    monkeypatch.setattr(
        Scheduler, "apply_async", lambda self, entry, **more: sent.append(entry.task)
    )
    idle, busy = SimpleNamespace(name="a", task="idle"), SimpleNamespace(name="b", task="busy")
    monkeypatch.setitem(worker_threads.FINDS_NOTHING, "idle", lambda: True)
    monkeypatch.setitem(worker_threads.FINDS_NOTHING, "busy", lambda: False)

    for entry in (idle, busy, SimpleNamespace(name="c", task="other")):
        step._beat.scheduler.apply_entry(entry)

    assert sent == ["busy", "other"]


def test_what_is_left_out_is_a_task_of_the_schedule():
    celery.app.loader.import_default_modules()
    scheduled = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}

    left_out = set(worker_threads.FINDS_NOTHING)
    assert left_out == {
        "memory.tasks.follow_languages",
        "memory.tasks.follow_mirror",
        "memory.tasks.publish_due",
        "research.tasks.tick",
    }
    assert left_out <= set(celery.app.tasks)
    assert left_out <= scheduled or not settings.BEACON_MIRROR_DIR


def test_a_message_that_repeats_a_waiting_one_is_done_without_work(pool: TaskPool):
    ends = threading.Event()
    give(pool, ends.wait)
    waiting = give(pool, lambda: "worked", body="[7]")
    repeated = give(pool, lambda: "worked", body="[7]")

    assert repeated == [(False, None, 0.0)] and waiting == []
    ends.set()
    assert eventually(lambda: waiting == ["worked"])


def test_after_the_soft_limit_the_task_gets_an_exception(pool: TaskPool):
    def work() -> str:
        try:
            while True:
                time.sleep(0.01)
        except SoftTimeLimitExceeded:
            return "stopped"

    done = give(pool, work, soft_timeout=0.2)

    assert eventually(lambda: done == ["stopped"])


def test_a_task_that_ignores_both_limits_ends_its_process(
    pool: TaskPool, monkeypatch: pytest.MonkeyPatch
):
    told: list[Any] = []
    monkeypatch.setattr(worker_threads, "end_process", lambda why, **more: told.append(why))
    ends = threading.Event()

    give(pool, ends.wait, timeout=0.2, timeout_callback=lambda *limit: told.append(limit))

    assert eventually(lambda: told == [(False, 0.2), "a task exceeded its time limit"])
    ends.set()


def test_only_an_idle_worker_ends_because_it_has_grown(
    pool: TaskPool, monkeypatch: pytest.MonkeyPatch
):
    told: list[Any] = []
    monkeypatch.setattr(worker_threads, "end_process", lambda why, **more: told.append(why))
    monkeypatch.setattr(worker_threads, "MEMORY_LIMIT", 1)
    ends = threading.Event()
    done = give(pool, ends.wait)
    worker_threads.end_if_unhealthy()
    assert told == []

    ends.set()
    assert eventually(lambda: done and not pool.is_busy)
    worker_threads.end_if_unhealthy()
    assert told == ["it has grown too large"]


def test_a_worker_that_interrupted_a_task_ends_when_it_is_idle(
    pool: TaskPool, monkeypatch: pytest.MonkeyPatch
):
    told: list[Any] = []
    monkeypatch.setattr(worker_threads, "end_process", lambda why, **more: told.append(why))
    monkeypatch.setattr(worker_threads, "MEMORY_LIMIT", float("inf"))

    def work() -> None:
        while True:
            time.sleep(0.01)

    worker_threads.end_if_unhealthy()
    assert told == []
    give(pool, work, soft_timeout=0.2)
    assert eventually(lambda: pool.was_interrupted and not pool.is_busy)
    worker_threads.end_if_unhealthy()
    assert told == ["a task was interrupted at its time limit"]


def test_a_signal_that_stops_the_worker_keeps_waiting_tasks_from_starting(
    pool: TaskPool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(celery, "_ended", threading.Event())
    monkeypatch.setattr(celery, "_drop_broken_output", lambda: None)
    monkeypatch.setattr(celery, "_leave", lambda name: None)
    ends, waits = threading.Event(), threading.Event()
    running = give(pool, ends.wait)
    waiting = give(pool, waits.set)
    assert eventually(lambda: pool._running)

    def celerys(number: int, frame: Any) -> None:
        ends.set()
        assert eventually(lambda: running == [True])
        assert not waits.wait(0.3) and waiting == []

    celery._marked_first("worker", celerys, 15, None)


def test_a_stopping_worker_waits_for_running_tasks_and_no_longer(pool: TaskPool):
    worker = SimpleNamespace(pool_cls=TaskPool, app=celery.app, steps=[])
    worker_threads.OneProcess(worker)
    ends = threading.Event()
    running = give(pool, ends.wait)
    assert eventually(lambda: pool.is_running)
    threading.Timer(0.3, ends.set).start()
    started = time.monotonic()

    assert hasattr(WorkController, "wait_for_soft_shutdown")
    worker.wait_for_soft_shutdown()

    assert running == [True]
    assert time.monotonic() - started < celery.app.conf.worker_soft_shutdown_timeout - 5
    ends.clear()
    give(pool, ends.wait)
    assert eventually(lambda: pool.is_running)
    worker_threads.wait_for_tasks(0.2)  # a task that doesn't end is left running
    assert pool.is_running
    ends.set()


def test_a_worker_rests_once_after_work_that_was_no_tick(pool: TaskPool):
    def rests_after(queue: str) -> list[bool]:
        done = give(pool, lambda: "done", queue=queue)
        assert eventually(lambda: done == ["done"] and not pool.is_busy)
        return [worker_threads.rests_after_work() for _look in range(2)]

    assert rests_after("maintenance") == [False, False]
    assert rests_after("research") == [True, False]
    assert rests_after("reflect") == [True, False]


IN_ITS_OWN_PROCESS = """
import re, signal, sys, threading, time
from beacon_site import worker_threads
from beacon_site.worker_threads import TaskPool
worker_threads.FROZEN_SECONDS = worker_threads.STOP_SECONDS = 1.0
pool = TaskPool(limit=3)
pool.start()
time.sleep(0.2)
"""


FROZEN = "re.match('(a+)+$', 'a' * 60 + 'b')"  # keeps the interpreter's lock
WAITS = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
threading.Thread(target=time.sleep, args=(60,)).start()
worker_threads.end_process('test')
"""


@pytest.mark.parametrize(("body", "shown"), [(FROZEN, "match"), (WAITS, "_shutdown")])
def test_a_worker_that_cannot_end_by_itself_is_killed(body: str, shown: str):
    done = subprocess.run(
        [sys.executable, "-c", IN_ITS_OWN_PROCESS + body],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == 1
    assert "Timeout" in done.stderr and f"in {shown}" in done.stderr
