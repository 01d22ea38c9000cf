"""Health: it looks at the database, Redis, worker and beat, and says what is wrong (R234)."""

from __future__ import annotations

import shutil
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from beacon_site import health
from research.models import Worker


def _alive(kind: str, seconds: float = 1) -> None:
    Worker.objects.create(
        name=f"{kind}@test", kind=kind, seen_at=timezone.now() - timedelta(seconds=seconds)
    )


@pytest.mark.requirement("R234")
def test_readyz_shows_the_ages_of_worker_and_beat(db: None, client: Client):
    _alive("worker", 3)
    _alive("upkeep", 3)
    _alive("beat", 5)

    state = client.get("/readyz").json()

    assert (state["status"], state["database"], state["redis"]) == ("ok", "ok", "ok")
    assert 2 < state["worker_age"] < 10
    assert 4 < state["beat_age"] < 12


@pytest.mark.requirement("R234")
def test_a_silent_worker_is_degraded_but_pages_continue(db: None, client: Client):
    _alive("worker", 300)

    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json()["status"] == "degraded"


@pytest.mark.requirement("R234")
def test_redis_that_is_down_is_reported(db: None, client: Client, settings: Any):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

    state = client.get("/readyz").json()

    assert state["redis"] == "ConnectionError"
    assert state["status"] == "degraded"


@pytest.mark.requirement("R234")
@pytest.mark.parametrize(
    ("alive", "words"),
    [
        ([], "No background worker is running"),
        (["worker", "upkeep"], "Scheduled runs are paused"),
        (["worker", "beat"], "Scheduled runs are paused"),
        (["worker", "upkeep", "beat"], ""),
    ],
)
def test_every_page_has_a_banner_when_no_one_works(
    alice: Any, client_of: Any, alive: list[str], words: str
):
    for kind in alive:
        _alive(kind)

    page = client_of(alice).get("/topics/").content.decode()

    assert ('class="banner"' in page) is bool(words)
    assert words in page


def test_a_container_asks_the_same_question(db: None, capsys: pytest.CaptureFixture[str]):
    _alive("worker")

    assert health.main("worker") == 0
    assert health.main("beat") == 1
    assert "never checked in" in capsys.readouterr().out


def test_where_no_server_answers_it_is_explained(settings: Any, capsys: pytest.CaptureFixture[str]):
    settings.BEACON_PORT = 1

    assert health.main("web") == 1
    assert capsys.readouterr().out == "web: no response on port 1\n"


def test_a_disk_found_full_is_reported_with_the_free_space_of_now(
    db: None, client: Client, monkeypatch: pytest.MonkeyPatch
):
    disk, is_full = [500 * 1024**2], [False]
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _folder: usage._replace(free=disk[0]))
    monkeypatch.setattr(health, "_free", (-health.ASKED_EVERY, None))
    monkeypatch.setattr(health, "postgres_can_write", lambda: not is_full[0])
    assert client.get("/readyz").json()["disk_free_mib"] == 500
    disk[0], is_full[0] = 2 * 1024**2, True

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert (answer.json()["disk"], answer.json()["disk_free_mib"]) == ("full", 2)
