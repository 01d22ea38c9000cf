"""Settings: each is documented, and a wrong one refuses to start and is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from beacon_site import env
from beacon_site.launcher import runner

ROOT = Path(__file__).resolve().parent.parent.parent
READ_ONE = "from django.conf import settings; settings.DEBUG"


def _start(code: str = READ_ONE, /, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "beacon_site.settings", **variables}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BEACON_ENV", "staging"),
        ("BEACON_LOG_FORMAT", "xml"),
        ("BEACON_PORT", "http"),
        ("BEACON_PORT", "70000"),
        ("BEACON_MCP_PORT", "70000"),
        ("BEACON_MCP_PORT", "8000"),
        ("BEACON_URL", "beacon.example"),
        ("BEACON_URL", "https://beacon.example/app"),
        ("BEACON_URL", "https://beacon.example?x=1"),
        ("BEACON_URL", "https://me:secret@beacon.example"),
        ("BEACON_URL", "https://beacon.example:port"),
        ("BEACON_TRUST_PROXY", "yes"),
        ("BEACON_SEARCH", "serpapi askjeeves"),
        ("BEACON_SEEN_URLS", "0"),
        ("BEACON_LIBRARY_DIR", "/no/such/folder"),
        ("BEACON_MIRROR_DIR", "/etc/hostname"),
        ("DATABASE_URL", "mysql://a@b/c"),
        ("DATABASE_URL", "postgres://a@b:port/c"),
        ("DATABASE_URL", "postgres://a@b/c?sslmod=require"),
        ("DATABASE_URL", "postgres://a@b/c?connect_timeout=soon"),
        ("BEACON_LLM_BASE_URL", "ftp://models.example"),
        ("SEARXNG_BASE_URL", "searx.example"),
        ("BEACON_OIDC_URL", "https://sso.example"),
        ("BEACON_OIDC_CLIENT_ID", "beacon"),
        ("BEACON_TRUSTED_HEADER", "Remote-User"),
        ("BEACON_TRUSTED_HEADER_FROM", "10.0.0.2"),
        ("BEACON_TRUSTED_HEADER_FROM", "proxy.example"),
    ],
)
def test_a_wrong_value_refuses_to_start_and_is_named(name: str, value: str):
    ended = _start(**{name: value})

    assert ended.returncode != 0
    assert name in ended.stderr


def test_a_key_without_a_model_refuses_and_does_not_print_the_key():
    ended = _start(OPENAI_API_KEY="sk-very-secret-1234567890")

    assert "BEACON_LLM_MODEL" in ended.stderr
    assert "very-secret" not in ended.stderr


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DATABASE_URL", "postgresql://beacon:beacon@postgres:5432/beacon", "POSTGRES_PASSWORD"),
        ("REDIS_URL", "redis://:beacon@redis:6379/0", "REDIS_PASSWORD"),
        ("REDIS_URL", "redis://redis:6379/0", "requirepass"),
    ],
)
def test_production_refuses_known_and_missing_passwords(name: str, value: str, said: str):
    ended = _start(BEACON_ENV="production", SECRET_KEY="x" * 50, **{name: value})

    assert ended.returncode != 0
    assert name in ended.stderr and said in ended.stderr


def test_production_takes_a_password_of_its_own():
    urls = {
        "DATABASE_URL": "postgresql://beacon:4Zq-7@postgres:5432/beacon",
        "REDIS_URL": "redis://:4Zq-7@redis:6379/0",
    }

    assert _start(BEACON_ENV="production", SECRET_KEY="x" * 50, **urls).returncode == 0
    assert _start(BEACON_ENV="local", DATABASE_URL=urls["DATABASE_URL"]).returncode == 0


def test_production_without_a_secret_key_refuses():
    assert "SECRET_KEY" in _start(BEACON_ENV="production", SECRET_KEY="").stderr


def test_what_libpq_takes_is_passed_on_and_a_lost_server_is_noticed():
    made = env.database("DATABASE_URL", "postgres://a@b/c?sslmode=require&connect_timeout=9")

    assert made["OPTIONS"].items() >= {"sslmode": "require", "connect_timeout": 9}.items()
    assert made["OPTIONS"]["tcp_user_timeout"] == 30_000
    assert made["OPTIONS"]["keepalives_idle"] == 15


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", "-c lock_timeout=10000 -c idle_in_transaction_session_timeout=60000"),
        ("?lock_timeout=500", "-c lock_timeout=500 -c idle_in_transaction_session_timeout=60000"),
        ("?lock_timeout=0&idle_in_transaction_session_timeout=0", None),
        (
            "?lock_timeout=0&options=-c%20work_mem%3D8MB",
            "-c idle_in_transaction_session_timeout=60000 -c work_mem=8MB",
        ),
    ],
)
def test_locks_and_pauses_have_limits_that_the_address_can_change(query: str, options: str | None):
    made = env.database("DATABASE_URL", f"postgres://a@b/c{query}", limited=True)

    assert made["OPTIONS"].get("options") == options
    assert "lock_timeout" not in made["OPTIONS"]


def test_statements_have_a_limit_in_milliseconds_unless_it_is_0():
    url = "postgres://a@b/c?lock_timeout=0&idle_in_transaction_session_timeout=0"

    made = env.database("DATABASE_URL", url, limited=True, statement_seconds=30)

    assert made["OPTIONS"]["options"] == "-c statement_timeout=30000"
    assert "options" not in env.database("DATABASE_URL", url, limited=True)["OPTIONS"]


def test_a_command_has_no_such_limits():
    made = env.database("DATABASE_URL", "postgres://a@b/c?lock_timeout=500", statement_seconds=30)

    assert "options" not in made["OPTIONS"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("process", "statement"),
    [
        ("web", "30s"),
        ("worker", "10min"),
        pytest.param("mcp", "30s", marks=pytest.mark.long),  # each takes 20 s
        pytest.param("beat", "10min", marks=pytest.mark.long),
    ],
)
def test_each_process_that_serves_has_the_limits(process: str, statement: str):
    asked = (
        "import django; django.setup()\n"
        "from django.db import connection\n"
        "with connection.cursor() as cursor:\n"
        "    for name in ('lock_timeout', 'idle_in_transaction_session_timeout',\n"
        "                 'statement_timeout'):\n"
        "        cursor.execute('SHOW ' + name)\n"
        "        print(cursor.fetchone()[0])\n"
    )
    environment = {
        **os.environ, "BEACON_PROCESS": process, "DJANGO_SETTINGS_MODULE": "beacon_site.settings"
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-c", asked],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout.split() == ["10s", "1min", statement]


def test_a_connection_that_a_task_returns_keeps_no_advisory_lock():
    asked = """
import django, time
django.setup()
from django.db import connection

def ask(sql, *given):
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + sql, given)
        return cursor.fetchone()[0]

first = ask("pg_backend_pid()")
ask("pg_advisory_lock(1, 2)::text")
connection.close()
locks = "count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = %s"
until = time.monotonic() + 10  # a thread of the pool does it
while ask(locks, first) and time.monotonic() < until:
    time.sleep(0.05)
print(ask(locks, first), ask("count(*) FROM pg_stat_activity WHERE pid = %s", first))
connection.close_pool()
"""
    worker = {"BEACON_PROCESS": "worker", "DJANGO_SETTINGS_MODULE": "beacon_site.settings"}
    ended = subprocess.run(
        [sys.executable, "-c", asked],
        env={**os.environ, **worker, **runner.THREADED},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert ended.stdout.split() == ["0", "1"]


def test_the_options_of_the_address_reach_the_connection(db: None):
    with connection.cursor() as cursor:
        assert cursor.connection.info.get_parameters()["tcp_user_timeout"] == "30000"


@pytest.mark.parametrize(
    ("given", "url", "host"),
    [
        ("https://Beacon.Example/", "https://beacon.example", "beacon.example"),
        ("https://beacon.example:443", "https://beacon.example", "beacon.example"),
        ("http://[::1]:8000", "http://[::1]:8000", "[::1]"),
        ("http://10.0.0.7:8000", "http://10.0.0.7:8000", "10.0.0.7"),
    ],
)
def test_the_address_of_the_site_names_its_origin_and_host(
    monkeypatch: pytest.MonkeyPatch, given: str, url: str, host: str
):
    monkeypatch.setenv("BEACON_URL", given)

    assert env.origin("BEACON_URL", "") == url
    assert env.host_of(url) == host


def test_hsts_binds_no_host_but_this_one():
    names = ("SECONDS", "INCLUDE_SUBDOMAINS", "PRELOAD")
    shown = ", ".join(f"s.SECURE_HSTS_{name}" for name in names)
    asked = f"from django.conf import settings as s; print({shown})"

    ended = _start(asked, BEACON_URL="https://beacon.example")

    assert ended.stdout.split() == ["31536000", "False", "False"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://beacon.example", "__Host-sessionid True True True Lax"),
        ("http://127.0.0.1:8000", "sessionid False False True Lax"),
    ],
)
def test_over_https_cookies_are_of_this_host_and_of_tls_alone(url: str, told: str):
    names = "SESSION_COOKIE_NAME SESSION_COOKIE_SECURE CSRF_COOKIE_SECURE SESSION_COOKIE_HTTPONLY"
    shown = ", ".join(f"s.{name}" for name in [*names.split(), "SESSION_COOKIE_SAMESITE"])

    ended = _start(f"from django.conf import settings as s; print({shown})", BEACON_URL=url)

    assert ended.stdout.strip() == told
