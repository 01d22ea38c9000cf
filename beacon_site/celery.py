"""The Celery application, and the signals with which its processes report that they run or stop."""

from __future__ import annotations

import os
import signal
import threading
from functools import partial
from importlib import import_module
from typing import Any

import structlog
from celery import Celery, signals
from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone
from django_structlog.celery.steps import DjangoStructLogInitStep

from beacon_site.net import extract

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "beacon_site.settings")

app = Celery("beacon")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].add(DjangoStructLogInitStep)  # adds the task's id to its log lines

logger = structlog.get_logger(__name__)

ALIVE_SECONDS = 10.0
_ended = threading.Event()


def _say_alive(kinds: dict[str, str]) -> None:
    """Write this process's rows (name -> kind) every ten seconds, each time on a new connection.

    The first forked child would close a connection that its parent keeps open.
    """
    worker = apps.get_model("research", "Worker")
    while True:
        try:
            for name, kind in kinds.items():
                worker.objects.update_or_create(
                    name=name, defaults={"kind": kind, "seen_at": timezone.now()}
                )
        except DatabaseError as exc:
            logger.warning("heartbeat not saved", kinds=kinds, error=str(exc))
        finally:
            connection.close()
        if _ended.wait(ALIVE_SECONDS):
            return


def _begin(kinds: dict[str, str]) -> None:
    _ended.clear()
    threading.Thread(target=_say_alive, args=(kinds,), daemon=True, name="alive").start()


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _log_as_django_does(**kwargs: Any) -> None:
    """Keep Celery from configuring its own log format, for itself and for printed output."""


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _warm_up(**kwargs: Any) -> None:
    """Load the model client and start the page reader, so that the first run needn't wait."""
    if settings.BEACON_LLM_MODEL:
        import_module("beacon_site.llm.openai_client")
    extract.get_extractor().warm_up()


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def _worker_ready(sender: Any = None, **kwargs: Any) -> None:
    # Runs and maintenance can share a worker or have their own (beacon_site.launcher.runner).
    name, queues = str(sender.hostname), set(app.amqp.queues.consume_from)
    kinds = {name: "worker"} if "research" in queues else {}
    kinds |= {f"{name}, upkeep": "upkeep"} if "maintenance" in queues else {}
    _begin(kinds)
    _mark_runs_before_stopping(str(sender.hostname))


@signals.beat_init.connect  # type: ignore[untyped-decorator]
def _beat_ready(sender: Any = None, **kwargs: Any) -> None:
    _begin({f"beat@{os.uname().nodename}:{os.getpid()}": "beat"})


def _leave(name: str) -> None:
    """Mark this worker's runs, so that they save their progress and queue themselves again."""
    _ended.set()
    run = apps.get_model("research", "Run")
    worker = apps.get_model("research", "Worker")
    try:
        marked = run.objects.filter(worker=name, status="running").update(leaving=True)
        worker.objects.filter(name__in=[name, f"{name}, upkeep"]).delete()
        logger.info("worker stopping", worker=name, runs=marked)
    except DatabaseError as exc:
        # Its runs then continue when their leases expire, and count as crashed once.
        logger.warning("runs of a stopping worker not marked", error=str(exc))
    finally:
        connection.close()


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
    if not _ended.is_set():
        _leave(name)
    then(number, frame)
