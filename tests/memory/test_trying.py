"""Trying an outside service once, within the time that a person waits."""

from __future__ import annotations

import time
from typing import Any

import pytest

from beacon_site.providers.errors import ProviderRejected
from beacon_site.providers.llm import LlmProfile
from memory import trying
from memory.models import Connection

PROFILE = LlmProfile(base_url="http://h/v1", model="m")


def hangs(*_given: Any, **_more: Any) -> Any:
    time.sleep(0.3)


def test_a_test_that_hangs_ends_with_a_clear_word(
    db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Connection.objects.create(kind="model", name="model", base_url="http://h/v1", model="m")
    monkeypatch.setattr(trying, "PROBING_SECONDS", 0.05)
    monkeypatch.setattr(trying, "probe", hangs)

    result = trying.try_model()

    assert not result.ok
    assert "Is the address right?" in result.message


def test_a_list_of_models_that_hangs_ends_with_a_clear_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trying, "LISTING_SECONDS", 0.05)
    monkeypatch.setattr(trying.endpoints, "list_models", hangs)

    names, why = trying.list_models(PROFILE)

    assert (names, "Is the address right?" in why) == ([], True)


def test_why_models_cannot_be_listed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_profile: LlmProfile) -> list[str]:
        raise ProviderRejected("h does not tell which models it has.")

    monkeypatch.setattr(trying.endpoints, "list_models", refuses)

    assert trying.list_models(PROFILE) == ([], "h does not tell which models it has.")
