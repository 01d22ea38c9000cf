"""The worker's pool of threads: two groups, time limits, and repeated messages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from beacon_site import worker_threads
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
    worker_threads.end_if_too_large()
    assert told == []

    ends.set()
    assert eventually(lambda: done and not pool.is_busy)
    worker_threads.end_if_too_large()
    assert told == ["it has grown too large"]
