"""One process for all background work: a pool of threads for Celery, and the beat as a thread.

`make up` uses it, because each process needs 60 MB or more.  Several hosts use Celery's pool of
processes.  Celery's own pool of threads has no time limits, and when it is stopped, it waits for
its tasks as long as they take (celery issues 9203 and 10490).
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import psutil
import structlog
from celery import bootsteps
from celery.app.base import Celery
from celery.beat import PersistentScheduler, Service
from celery.concurrency.base import BasePool, apply_target
from celery.exceptions import SoftTimeLimitExceeded
from celery.signals import beat_init
from django.db import DatabaseError, connections

logger = structlog.get_logger(__name__)

# Runs can take minutes, so tasks that start runs, free them or answer a person have other threads.
RESEARCH = "research"
BACKGROUND = "background"  # comparisons of new records: one for each write, without hurry
RANKS = {"maintenance": 0, "reflect": 1, BACKGROUND: 2}
OTHER_THREADS = 2
NEVER = float("inf")
MEMORY_LIMIT = 500_000_000  # bytes of an idle worker
LOOK_SECONDS = 30.0  # at most between two looks at the limits
FROZEN_SECONDS = 300.0  # without a look, because a thread keeps the interpreter's lock
STOP_SECONDS = 25.0  # for a worker that stops itself, since it waits for its threads
_pools: list[TaskPool] = []
_stopping = threading.Event()


class Job:
    """One task in the pool.  Celery calls `terminate` when it cancels a task."""

    def __init__(self, arguments: tuple[Any, ...], **callbacks: Any) -> None:
        self.arguments = arguments
        self.callbacks = callbacks
        self.soft_at = self.hard_at = NEVER

    @property
    def queue(self) -> str:
        return str(self.arguments[2].get("delivery_info", {}).get("routing_key", ""))

    @property
    def is_research(self) -> bool:
        return self.queue == RESEARCH

    @property
    def key(self) -> tuple[str, Any]:
        """The task and its arguments: two waiting messages with the same key do the same work."""
        return self.arguments[0], self.arguments[3]

    def begin(self) -> None:
        now = time.monotonic()
        self.soft_at = now + (self.callbacks["soft_timeout"] or NEVER)
        self.hard_at = now + (self.callbacks["timeout"] or NEVER)

    def terminate(self, number: int | None = None) -> None:
        """Do nothing: a thread can't be killed.  Its process ends soon, and the row is leased."""


class TaskPool(BasePool):  # type: ignore[misc]
    """Threads that end with their process, in two groups: for runs, and for everything else."""

    body_can_be_buffer = True
    signal_safe = False

    def on_start(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[bool, deque[Job]] = {True: deque(), False: deque()}
        self._running: dict[int, Job] = {}  # by thread
        self._stopped = False
        self.was_interrupted = self.has_worked = False
        _pools.append(self)
        for is_research, number in ((True, self.limit - OTHER_THREADS), (False, OTHER_THREADS)):
            for n in range(number):
                name = f"{'run' if is_research else 'upkeep'}-{n + 1}"
                self._thread(name, self._work, is_research)
        self._thread("limits", self._limit)

    def _thread(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        threading.Thread(target=target, args=arguments, name=name, daemon=True).start()

    def on_apply(self, target: Any, args: Any = None, kwargs: Any = None, **options: Any) -> Job:
        """Queue a task.

        All messages are taken from the broker at once, so that waiting runs don't keep it from
        delivering other tasks.  One that repeats a waiting message is done without work.
        """
        job = Job(tuple(args), target=target, **options)
        with self._changed:
            waiting = self._waiting[job.is_research]
            is_repeated = any(other.key == job.key for other in waiting)
            if not is_repeated:
                waiting.append(job)
                self._changed.notify_all()
        if is_repeated:
            options["callback"]((False, None, 0.0))
        return job

    def on_stop(self) -> None:
        """Start no more tasks.  Running ones end with the process."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    on_terminate = on_stop

    def terminate_job(self, pid: int, signal: int | None = None) -> None:
        """Do nothing, see `Job.terminate`."""

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    @property
    def is_busy(self) -> bool:
        return self.is_running or any(self._waiting.values())

    def _get_info(self) -> dict[str, Any]:
        with self._changed:
            return {**super()._get_info(), "running": len(self._running)}

    def _work(self, is_research: bool) -> None:
        while not self._stopped:
            job: Job | None = None
            try:
                try:
                    if job := self._next(is_research):
                        self.has_worked |= job.queue != "maintenance"  # ticks, nearly always
                        own = _own(job.callbacks)
                        apply_target(job.callbacks["target"], job.arguments, {}, **own)
                finally:
                    # Without the pool's lock, which a late SoftTimeLimitExceeded could leave locked.
                    self._running.pop(threading.get_ident(), None)
            except SoftTimeLimitExceeded:
                pass  # it arrived as the task ended
            except BaseException:  # the thread is for the next task too
                logger.exception("task not finished", task=str(job.arguments[0]) if job else "")

    def _next(self, is_research: bool) -> Job | None:
        waiting = self._waiting[is_research]
        with self._changed:
            self._changed.wait_for(lambda: waiting or self._stopped)
            if self._stopped:
                return None
            job = min(waiting, key=lambda one: RANKS.get(one.queue, 0))  # the first of its rank
            waiting.remove(job)
            job.begin()
            self._running[threading.get_ident()] = job
            self._changed.notify_all()  # for its limits
            return job

    def _limit(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    break
                if not _stopping.is_set():
                    _kill_in(FROZEN_SECONDS)
                limits = (min(job.soft_at, job.hard_at) for job in list(self._running.values()))
                self._changed.wait(
                    min(LOOK_SECONDS, max(0.0, min(limits, default=NEVER) - time.monotonic()))
                )
                running = list(self._running.items())
                over = [job for _thread, job in running if job.hard_at <= time.monotonic()]
                for thread, job in running:
                    if job.soft_at <= time.monotonic():
                        job.soft_at = NEVER
                        self.was_interrupted = True
                        _raise_in(thread, SoftTimeLimitExceeded)
            for job in over:
                job.hard_at = NEVER
                self._give_up(job)
        if not _stopping.is_set():
            faulthandler.cancel_dump_traceback_later()

    def _give_up(self, job: Job) -> None:
        """End the process, since a thread can't be killed.  The launcher starts another."""
        limit = job.callbacks["timeout"]
        try:
            job.callbacks["timeout_callback"](False, limit)
        finally:
            end_process("a task exceeded its time limit", task=str(job.arguments[0]), limit=limit)


def _own(callbacks: dict[str, Any]) -> dict[str, Any]:
    return {name: callbacks.get(name) for name in ("callback", "accept_callback")}


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Raise an exception in another thread, as soon as it executes Python code."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _kill_in(seconds: float) -> None:
    """End this process after these seconds, unless this is called again.

    A thread in C does it, so it works while a Python thread keeps the interpreter's lock.
    """
    faulthandler.dump_traceback_later(seconds, exit=True, file=2)


def end_process(why: str, **more: Any) -> None:
    """Stop this worker as a signal does, so that its other runs save their progress.

    It is killed after STOP_SECONDS, since Python waits for threads that aren't daemons as it ends.
    """
    logger.critical("worker stops itself", why=why, **more)
    if not _stopping.is_set():
        _stopping.set()
        _kill_in(STOP_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def take_no_more() -> None:
    """Start no more tasks.  Called when a signal stops the worker, since Celery then waits a while first."""
    for pool in _pools:
        pool.on_stop()


def wait_for_tasks(most: float) -> None:
    """Wait until the running tasks have ended, but at most `most` seconds."""
    ends = time.monotonic() + most
    while any(pool.is_running for pool in _pools) and time.monotonic() < ends:
        time.sleep(0.1)


def end_if_unhealthy() -> None:
    """Stop an idle worker of threads that has grown or interrupted a task, so that another starts.

    A pool of processes replaces its children then.  An interrupted task can leave anything behind,
    such as an advisory lock of a pooled connection.
    """
    if not _pools or any(pool.is_busy for pool in _pools):
        return
    size = psutil.Process().memory_info().rss
    if size > MEMORY_LIMIT:
        end_process("it has grown too large", megabytes=size // 10**6)
    elif any(pool.was_interrupted for pool in _pools):
        end_process("a task was interrupted at its time limit")


def rests_after_work() -> bool:
    """Return whether the threads are idle for the first time since a task that wasn't a tick."""
    if any(pool.is_busy for pool in _pools):
        return False
    has_worked = any(pool.has_worked for pool in _pools)
    for pool in _pools:
        pool.has_worked = False
    return has_worked


# --- what Celery's worker is started with ---------------------------------------------------------


# Task of the schedule -> whether it would find nothing. This is asked in the beat's thread, so it must be
# quick. A message and a task that find nothing take 15 ms of processor time.
FINDS_NOTHING: dict[str, Callable[[], bool]] = {}


class _Scheduler(PersistentScheduler):  # type: ignore[misc]
    """A schedule that leaves out tasks that would find nothing."""

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send a due task."""
        try:
            is_idle = entry.task in FINDS_NOTHING and FINDS_NOTHING[entry.task]()
        except DatabaseError:
            is_idle = False  # the task reports it
        except Exception:  # a failed check must not keep the task from being sent
            logger.exception("task not left out", task=entry.task)
            is_idle = False
        if not is_idle:
            super().apply_entry(entry, producer=producer)


class _Beat(Service):  # type: ignore[misc]
    """A beat that can be stopped at any time. Celery's own wakes up every second to check."""

    scheduler_cls = _Scheduler

    def start(self, embedded_process: bool = False) -> None:
        """Send what is due until it's stopped."""
        beat_init.send(sender=self)
        try:
            while not self._is_shutdown.is_set():
                wait = self.scheduler.tick()
                if wait > 0:
                    connections.close_all()  # that FINDS_NOTHING used
                self._is_shutdown.wait(wait)
        finally:
            self.sync()


class OneProcess(bootsteps.StartStopStep):  # type: ignore[misc]
    """Prepares a worker for the pool above, and runs the beat if it has a file for its schedule."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, worker: Any, beat_schedule: str = "", **options: Any) -> None:
        super().__init__(worker, **options)
        if worker.pool_cls is TaskPool:
            worker.prefetch_multiplier = 0  # no limit, see TaskPool.on_apply
            # Celery's method always waits that long if a task is running.
            most = worker.app.conf.worker_soft_shutdown_timeout
            worker.wait_for_soft_shutdown = partial(wait_for_tasks, most)
        self._beat: _Beat | None = None
        if beat_schedule:
            self._beat = _Beat(worker.app, schedule_filename=beat_schedule, remote_control=False)

    def start(self, worker: Any) -> None:
        if self._beat is not None:
            threading.Thread(
                target=self._schedule, args=(worker.app,), name="beat", daemon=True
            ).start()

    def stop(self, worker: Any) -> None:
        """Stop the beat, which saves its schedule."""
        if self._beat is not None:
            self._beat.stop()
            self._beat._is_stopped.wait(2)

    terminate = stop

    def _schedule(self, app: Celery) -> None:
        app.set_current()
        try:
            self._beat.start()  # type: ignore[union-attr]
        except Exception:  # the process ends below, and another starts with a new beat
            logger.exception("beat failed")
        if not self._beat._is_shutdown.is_set():  # type: ignore[union-attr]
            end_process("its beat ended")


def add_to(app: Celery) -> None:
    """Add the step and its option to the `celery worker` command of an app."""
    app.steps["worker"].add(OneProcess)
    app.user_options["worker"].add(
        click.Option(("--beat-schedule",), default="", help="run the beat, with its state in FILE")
    )
