"""Trying an outside service once, within the time that a person waits."""

from __future__ import annotations

import re
import time
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from pytest_httpserver import HTTPServer

from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.llm import probing
from beacon_site.providers.llm.base import LlmProfile, Usage
from beacon_site.providers.llm.probing import WHOLE_SECONDS, ProbeResult
from memory.models import Connection, ModelCall, User
from memory.pages.connections import views as connections_views

PROFILE = LlmProfile(base_url="http://h/v1", model="m")


def hangs(*_given: Any, **_more: Any) -> Any:
    time.sleep(0.3)


def a_model(**more: Any) -> None:
    Connection.objects.create(kind="model", name="model", base_url="http://h/v1", model="m", **more)


def test_a_test_that_hangs_ends_with_a_clear_word_and_a_price_that_no_one_knows(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_model()
    monkeypatch.setattr(connections_views, "PROBING_SECONDS", 0.05)
    monkeypatch.setattr(connections_views, "probe", hangs)

    result = connections_views.try_model(admin)

    assert not result.ok
    assert "Check the URL." in result.message
    assert (call := ModelCall.objects.get()).money is None
    assert call.failure == "unavailable"


@pytest.mark.parametrize(
    ("prices", "money"), [({"in": "1", "out": "2"}, Decimal("0.0004")), ({}, None)]
)
def test_what_a_test_spent_is_recorded_for_who_pressed(
    admin: User, monkeypatch: pytest.MonkeyPatch, prices: dict[str, str], money: Decimal | None
) -> None:
    a_model(prices=prices)
    monkeypatch.setattr(
        connections_views, "probe", lambda _profile: ProbeResult(True, "", 9, usage=Usage(200, 100))
    )

    connections_views.try_model(admin)

    call = ModelCall.objects.get()
    assert (call.owner, call.purpose, call.model, call.error) == (admin, "test", "m", "")
    assert (call.prompt_tokens, call.completion_tokens, call.money) == (200, 100, money)


def test_a_test_that_is_refused_is_recorded_as_such(admin: User, httpserver: HTTPServer) -> None:
    error = {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}
    httpserver.expect_request("/v1/chat/completions").respond_with_json(error, status=401)
    Connection.objects.create(
        kind="model", name="model", base_url=httpserver.url_for("/v1"), model="m"
    )

    connections_views.try_model(admin)

    assert ModelCall.objects.get().failure == "rejected"


def test_the_page_waits_longer_than_the_server_and_the_server_than_the_probe() -> None:
    for name, most in (
        ("_connection_model.html", connections_views.PROBING_SECONDS),
        ("_connection_service.html", probing.SEARCH_PROBE_PATIENCE),
    ):
        page = (settings.BASE_DIR / "templates/memory" / name).read_text()
        form = page[page.index('<form id="test-') :]
        found = re.search(r'"timeout": (\d+)', form)
        assert found is not None
        assert int(found[1]) / 1000 >= most + 10
    assert WHOLE_SECONDS + 4 < connections_views.PROBING_SECONDS < 60


def test_a_list_of_models_that_hangs_ends_with_a_clear_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections_views, "LISTING_SECONDS", 0.05)
    monkeypatch.setattr(connections_views.endpoints, "list_models", hangs)

    names, why = connections_views.list_models(PROFILE)

    assert (names, "Check the URL." in why) == ([], True)


def test_why_models_cannot_be_listed_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_profile: LlmProfile) -> list[str]:
        raise ProviderRejected("h does not tell which models it has.")

    monkeypatch.setattr(connections_views.endpoints, "list_models", refuses)

    assert connections_views.list_models(PROFILE) == ([], "h does not tell which models it has.")
