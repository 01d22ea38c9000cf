"""How a process of the web server measures how busy it is, and what it does then."""

from __future__ import annotations

import logging
import os
from types import SimpleNamespace
from typing import Any

import pytest
from gunicorn.config import Config

from beacon_site.launcher import web_process
from beacon_site.launcher.web_process import BUSY, LOOK_SECONDS, REST_SECONDS, PageWorker


class Clock:
    """The time, and the processor time of this process."""

    def __init__(self) -> None:
        self.now = self.spent = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.spent

    def look(self, worker: PageWorker, load: float) -> None:
        """Let time pass with this load, until the worker looks at it."""
        self.now += LOOK_SECONDS
        self.spent += LOOK_SECONDS * load
        worker.notify()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(web_process, "time", clock)
    watch = SimpleNamespace(dump_traceback_later=lambda *arguments, **more: None)
    monkeypatch.setattr(web_process, "faulthandler", watch)
    return clock


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Signals that were sent. The real parent is the test run, which they would end."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    return sent


def made(**more: Any) -> PageWorker:
    log = logging.getLogger("gunicorn.error")
    return PageWorker(1, os.getppid(), [], None, 60, Config(), log, **more)


def test_a_busy_process_asks_the_launcher_for_another(
    clock: Clock, asked: list[tuple[int, int]]
) -> None:
    worker = made()

    clock.look(worker, BUSY - 0.1)
    assert asked == []
    clock.look(worker, BUSY + 0.1)
    assert asked == [(os.getppid(), web_process.ASK)]
    clock.look(worker, BUSY + 0.1)
    assert len(asked) == 1
    clock.now += web_process.ASK_SECONDS
    clock.spent += web_process.ASK_SECONDS
    clock.look(worker, BUSY + 0.1)
    assert len(asked) == 2


def test_an_extra_process_asks_for_no_other(clock: Clock, asked: list[tuple[int, int]]) -> None:
    clock.look(made(is_extra=True), 1.0)

    assert asked == []


@pytest.mark.parametrize("is_extra", [True, False])
def test_a_process_keeps_no_connection_while_it_is_busy(clock: Clock, is_extra: bool) -> None:
    worker = made(is_extra=is_extra)
    most = worker.max_keepalived

    clock.look(worker, BUSY + 0.1)
    assert worker.max_keepalived == 0
    clock.look(worker, BUSY + 0.1)
    assert worker.max_keepalived == 0
    clock.look(worker, BUSY - 0.1)
    assert worker.max_keepalived == most > 0


def test_next_to_other_programs_requests_that_wait_count_too(
    clock: Clock, asked: list[tuple[int, int]]
) -> None:
    worker = made()

    clock.look(worker, BUSY - 0.1)
    worker.nr_conns = web_process.CROWD
    clock.look(worker, BUSY - 0.1)
    assert len(asked) == 1


def test_a_process_whose_launcher_is_gone_asks_nobody(
    clock: Clock, asked: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = made()
    monkeypatch.setattr(os, "getppid", lambda: 1)

    clock.look(worker, 1.0)
    assert asked == []


@pytest.mark.parametrize("is_extra", [True, False])
def test_only_an_extra_process_ends_when_it_has_rested(clock: Clock, is_extra: bool) -> None:
    worker = made(is_extra=is_extra)

    clock.look(worker, 1.0)
    clock.now += REST_SECONDS - LOOK_SECONDS
    clock.look(worker, 0.0)
    assert worker.alive
    clock.look(worker, 0.0)
    assert worker.alive != is_extra
