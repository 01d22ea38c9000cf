"""The Celery application, and the signals with which its processes report that they run or stop."""

from __future__ import annotations

import gc
import os
import select
import signal
import threading
from functools import partial
from typing import Any

import redis
import structlog
from celery import Celery, signals
from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone
from django_structlog.celery.steps import DjangoStructLogInitStep
from kombu.exceptions import OperationalError

from beacon_site import embedded, worker_threads
from beacon_site.embedded.processes import give_back_memory

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")

app = Celery("beacon")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].add(DjangoStructLogInitStep)  # adds the task's id to its log lines
worker_threads.add_to(app)

logger = structlog.get_logger(__name__)

ALIVE_SECONDS = 15.0
_ended, _woken = threading.Event(), threading.Event()
_kinds: dict[str, str] = {}  # the rows that this process writes: name -> kind


def _write_heartbeats() -> None:
    """Write this process's rows every 15 s, without keeping a connection.

    The first forked child would close a connection that its parent keeps open.
    """
    _leave_pool()
    worker = apps.get_model("research", "Worker")
    while not _ended.is_set():
        _woken.clear()
        kinds = dict(_kinds)
        try:
            now = timezone.now()
            worker.objects.bulk_create(
                [worker(name=name, kind=kind, seen_at=now) for name, kind in kinds.items()],
                update_conflicts=True,
                unique_fields=["name"],
                update_fields=["kind", "seen_at"],
            )
        except DatabaseError as exc:
            logger.warning("heartbeat not saved", kinds=kinds, error=str(exc))
        finally:
            connection.close()
        if not _woken.wait(ALIVE_SECONDS):
            worker_threads.end_if_unhealthy()
            if worker_threads.rests_after_work():
                gc.collect()
                give_back_memory()


def _leave_pool() -> None:
    """Let this thread close its connections, which the pool would keep open until it rests."""
    server = connection.settings_dict
    own = {name: value for name, value in server["OPTIONS"].items() if name != "pool"}
    connection.settings_dict = {**server, "OPTIONS": own}


def _begin(kinds: dict[str, str]) -> None:
    """Write these rows, too. A worker with a beat writes the rows of both with one statement."""
    is_first = not _kinds
    _kinds.update(kinds)
    _woken.set()
    if is_first:
        threading.Thread(target=_write_heartbeats, daemon=True, name="alive").start()


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _log_as_django_does(**kwargs: Any) -> None:
    """Keep Celery from configuring its own log format, for itself and for printed output."""


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def _worker_ready(sender: Any = None, **kwargs: Any) -> None:
    # Runs and maintenance can share a worker or have their own (beacon_site.launcher.runner).
    name, queues = str(sender.hostname), set(app.amqp.queues.consume_from)
    kinds = {name: "worker"} if "research" in queues else {}
    kinds |= {f"{name}, upkeep": "upkeep"} if "maintenance" in queues else {}
    _begin(kinds)
    embedded.mind_launcher()
    _mark_runs_before_stopping(str(sender.hostname))


@signals.beat_init.connect  # type: ignore[untyped-decorator]
def _beat_ready(sender: Any = None, **kwargs: Any) -> None:
    _leave_pool()  # of the beat's thread, in which this runs
    _begin({f"beat@{os.uname().nodename}:{os.getpid()}": "beat"})


def _leave(name: str) -> None:
    """Mark this worker's runs, so that they save their progress and queue themselves again."""
    _ended.set()
    _woken.set()
    run = apps.get_model("research", "Run")
    worker = apps.get_model("research", "Worker")
    try:
        marked = run.objects.filter(worker=name, status="running").update(is_worker_stopping=True)
        worker.objects.filter(name__in=[name, f"{name}, upkeep"]).delete()
        logger.info("worker stopping", worker=name, runs=marked)
    except DatabaseError as exc:
        # Its runs then continue when their leases expire, and count as crashed once.
        logger.warning("runs of a stopping worker not marked", error=str(exc))
    finally:
        connection.close()


def _drop_broken_output() -> None:
    """Discard output from now on if the launcher that read it is gone.

    Otherwise Celery fails when it writes that it stops, and doesn't wait for running tasks.
    """
    for number in (1, 2):
        output = select.poll()
        output.register(number, 0)
        if any(event & select.POLLERR for _number, event in output.poll(0)):
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, number)
            os.close(nothing)


def _mark_runs_before_stopping(name: str) -> None:
    """Mark a worker's runs as soon as a signal stops it.

    Celery's `worker_shutting_down` comes too late.  In a soft shutdown, Celery 5.7 sends it only
    after waiting for the running tasks.
    """
    for number in (signal.SIGTERM, signal.SIGQUIT, signal.SIGINT):
        celerys = signal.getsignal(number)
        if callable(celerys):
            signal.signal(number, partial(_marked_first, name, celerys))


def _marked_first(name: str, then: Any, number: int, frame: Any) -> None:
    worker_threads.take_no_more()
    if not _ended.is_set():
        _drop_broken_output()
        _leave(name)
    then(number, frame)


# --- Sending a task's message immediately, or not at all ---
#
# Work that must run is a row that a tick finds.  The message only speeds it up, so no request waits
# for it.


MAX_WAITING = 1_000

# If Redis is down or silent, a request must not wait.  By default, `.delay()` hung for 1.6 to more
# than 40 s, as measured with a stopped and a paused Redis.
_SHORT = {"socket_connect_timeout": 0.3, "socket_timeout": 0.3, "max_retries": 0}


def send(task: str, *args: Any, queue: str) -> bool:
    """Send one message without waiting; False if the broker doesn't accept it."""
    try:
        with app.connection_for_write(connect_timeout=0.3, transport_options=_SHORT) as connection:
            app.send_task(task, args=args, queue=queue, connection=connection, retry=False)
    except (OperationalError, OSError) as exc:
        logger.warning(
            "broker unreachable, so the next tick will send the task",
            task=task,
            error=type(exc).__name__,
        )
        return False
    return True


def is_full(queue: str) -> bool:
    """Return True if so many messages wait in a queue that more would be useless.

    Ticks send work again that no worker has started.  If all workers are down, a night of that adds
    up to a million messages.
    """
    limits = {"socket_connect_timeout": 0.3, "socket_timeout": 0.3}
    try:
        with redis.Redis.from_url(settings.REDIS_URL, **limits) as server:
            return int(server.llen(queue)) >= MAX_WAITING
    except redis.RedisError:
        return False  # sending will report the failure
