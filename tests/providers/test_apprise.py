"""Apprise, the optional extra: what is sent, what fails, and that URLs are never shown."""

from __future__ import annotations

import json

import pytest
from pytest_httpserver import HTTPServer

from beacon_site.net import apprise_sender
from beacon_site.net.errors import ProviderRejected, ProviderUnavailable


def address(server: HTTPServer) -> str:
    return f"json://desk:top-secret@{server.host}:{server.port}/path-token"


def test_a_text_reaches_the_service(httpserver: HTTPServer):
    httpserver.expect_request("/path-token", method="POST").respond_with_json({})

    said = apprise_sender.send(address(httpserver), title="Databases", body="One change.")

    sent = json.loads(httpserver.log[0][0].get_data())
    assert (sent["title"], sent["message"]) == ("Databases", "One change.")
    assert said == "json://… accepted the message."


def test_a_failure_is_said_without_any_part_of_the_address(httpserver: HTTPServer):
    httpserver.expect_request("/path-token").respond_with_data("path-token top-secret", status=500)

    with pytest.raises(ProviderUnavailable, match="didn’t accept the message") as caught:
        apprise_sender.send(address(httpserver), title="a", body="b")

    assert "500" in str(caught.value)
    assert "secret" not in str(caught.value) and "path-token" not in str(caught.value)


def test_an_address_that_apprise_does_not_know_is_explained():
    with pytest.raises(ProviderRejected, match="ntfy://topic"):
        apprise_sender.send("fax://12345", title="a", body="b")


def test_without_the_extra_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(apprise_sender, "is_installed", lambda: False)

    assert "requirements/extras.txt" in apprise_sender.problem_of("ntfy://topic")
