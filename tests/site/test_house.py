"""The parts of the project as designed, and the software that it uses."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from beacon_site.celery import app
from scripts import bootstrap

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.requirement("R231")
@pytest.mark.parametrize(
    "place",
    [
        "manage.py", "pyproject.toml", "beacon_site", "memory", "research", "templates", "static",
        "tests", "docker-compose.yml", "Dockerfile", "Makefile", "README.md", "CHANGELOG.md",
        "CONTRIBUTING.md", "docs", "benchmarks", "requirements", ".ci/run",
    ],
)  # fmt: skip
def test_every_folder_in_the_architecture_exists(place: str):
    assert (ROOT / place).exists()


@pytest.mark.requirement("R229")
def test_it_is_on_postgres_by_psycopg_redis_celery_beat_and_openai(db: None):
    app.loader.import_default_modules()

    assert connection.Database.__name__ == "psycopg"
    assert app.connection_for_write().transport.driver_type == "redis"
    assert settings.CELERY_BEAT_SCHEDULE["tick"]["task"] in app.tasks
    assert "openai" in (ROOT / "requirements" / "base.in").read_text()


@pytest.mark.requirement("R167")
def test_make_coverage_fails_below_95_percent_of_lines(monkeypatch: pytest.MonkeyPatch):
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(bootstrap, "become", lambda *command: commands.append(command))

    bootstrap.coverage([])

    slipcover = commands[0][: commands[0].index("pytest")]
    assert slipcover[slipcover.index("--source") + 1] == "memory,research"
    assert "--fail-under=95" in slipcover


def test_each_task_of_the_schedule_exists_and_has_a_queue_that_the_worker_serves(db: None):
    app.loader.import_default_modules()
    for entry in settings.CELERY_BEAT_SCHEDULE.values():
        assert entry["task"] in app.tasks
        assert entry["options"]["queue"] in {"research", "reflect", "maintenance"}


@pytest.mark.requirement("R249")
def test_the_docs_say_that_postgres_replaces_plain_files_and_why():
    text = (ROOT / "docs" / "compare.md").read_text()

    assert "## Why Postgres instead of plain files" in text
    assert "Each write records the version it was based on" in " ".join(text.split())


def test_no_tracked_file_names_a_place_of_one_machine():
    found = subprocess.run(
        ["git", "grep", "-lE", r"/(work|home|root|Users)/[a-z]+/"], cwd=ROOT, text=True,
        capture_output=True, check=False,
    )  # fmt: skip
    vendored = ("tests/vendor/", "static/vendor/")
    assert [p for p in found.stdout.splitlines() if not p.startswith(vendored)] == []
