"""Settings: each is documented, and a wrong one refuses to start and is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
READ = re.compile(r'env\.\w+\(\s*"([A-Z_]+)"')


def _start(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "beacon_site.settings", **variables}
    return subprocess.run(
        [sys.executable, "-c", "from django.conf import settings; settings.DEBUG"],
        env=environment, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_every_setting_is_documented():
    read = set(READ.findall((ROOT / "beacon_site" / "settings.py").read_text()))
    documented = set(re.findall(r"`([A-Z_]+)`", (ROOT / "docs" / "settings.md").read_text()))

    assert sorted(read - documented) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BEACON_ENV", "staging"),
        ("BEACON_PORT", "http"),
        ("BEACON_PORT", "70000"),
        ("BEACON_URL", "beacon.example"),
        ("BEACON_TRUST_PROXY", "yes"),
        ("BEACON_SEARCH", "serpapi askjeeves"),
        ("BEACON_SEEN_URLS", "0"),
        ("BEACON_LIBRARY_DIR", "/no/such/folder"),
        ("DATABASE_URL", "mysql://a@b/c"),
        ("DATABASE_URL", "postgres://a@b:port/c"),
        ("BEACON_LLM_BASE_URL", "ftp://models.example"),
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


def test_production_without_a_secret_key_refuses():
    assert "SECRET_KEY" in _start(BEACON_ENV="production", SECRET_KEY="").stderr
