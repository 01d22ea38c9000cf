"""Requests to configured services: what is sent, what is bounded, and what is never revealed."""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest
from werkzeug import Request, Response

from beacon_site.net import bounded
from beacon_site.net.errors import (
    ProviderRejected,
    ProviderUnavailable,
    ServiceRefused,
    ServiceUnreachable,
)
from beacon_site.net.http import ServiceHttp
from tests.providers import servers
from tests.providers.certificates import certificate
from tests.providers.raw_server import RawServer
from tests.providers.raw_server import http as whole
from tests.providers.servers import LoopbackServer

KEY = "bearer-secret/+0123456789"


class EchoServer(LoopbackServer):
    """Says what it was asked."""

    def record(self, request: Request) -> None:
        pass

    def stand(self, request: Request) -> Response:
        heard: dict[str, Any] = {
            "method": request.method,
            "args": request.args.to_dict(),
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": request.get_data(as_text=True),
        }
        return Response(json.dumps(heard), content_type="application/json")


@pytest.fixture(scope="module")
def echo() -> Iterator[EchoServer]:
    with EchoServer() as server:
        yield server


def heard(reply: Any) -> dict[str, Any]:
    return dict(json.loads(reply.content))


def test_a_body_is_posted_as_json_with_the_secret_headers(echo):
    http = ServiceHttp("Vendor", secret_headers={"Authorization": f"Bearer {KEY}"})

    said = heard(http.post(f"{echo.origin}/search", {"query": "ä", "max_results": 3}))

    assert (said["method"], json.loads(said["body"])) == ("POST", {"query": "ä", "max_results": 3})
    assert said["headers"]["authorization"] == f"Bearer {KEY}"
    assert said["headers"]["content-type"] == said["headers"]["accept"] == "application/json"


def test_a_get_names_beacon_and_asks_for_what_the_service_gives(echo):
    http = ServiceHttp("Vendor", contact="ops@example.org")

    said = heard(http.get(f"{echo.origin}/x", {"q": "a b"}, accept="application/atom+xml"))

    assert (said["args"], said["headers"]["accept"]) == ({"q": "a b"}, "application/atom+xml")
    assert said["headers"]["user-agent"].startswith("Beacon/")
    assert "ops@example.org" in said["headers"]["user-agent"]


@pytest.mark.requirement("R236")
def test_no_secret_header_reaches_a_log_or_a_message(echo, caplog):
    caplog.set_level(logging.DEBUG)
    http = ServiceHttp("Vendor", secret_headers={"Authorization": f"Bearer {KEY}"}, timeout=1)
    echo.enqueue(servers.cut())

    with pytest.raises(ProviderUnavailable) as failure:
        http.post(f"{echo.origin}/", {})

    assert KEY not in f"{caplog.text} {failure.value!r} {failure.value.__context__!r}"
    assert http.scrubbed(f"no such key: {KEY}") == "no such key: [key]"


@pytest.mark.parametrize("key", ["two\nlines-of-key", "schlüssel-1234"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_repeated(echo, key):
    http = ServiceHttp("Vendor", secret_headers={"X-Token": key})

    with pytest.raises(ProviderRejected, match="Enter it again") as failure:
        http.get(echo.origin, {})
    assert key[:3] not in str(failure.value)


def test_a_host_that_the_resolver_does_not_take_isnt_a_usable_address():
    with pytest.raises(ServiceRefused, match="isn’t valid"):
        ServiceHttp("Vendor").get("http://a..b", {})


@pytest.mark.parametrize("scene", [servers.slow(1.5), servers.trickle(3)])
def test_a_post_is_bounded_in_time(echo, scene):
    echo.enqueue(scene)

    with pytest.raises(ProviderUnavailable, match=r"within 0.5 seconds"):
        ServiceHttp("Vendor", timeout=0.5).post(echo.origin, {})


def test_headers_that_come_a_byte_at_a_time_are_bounded_too():
    def answer(connection: Any) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while server.pause(0.1):
            connection.sendall(b"x")

    with RawServer(answer) as server:
        began = time.monotonic()
        with pytest.raises(ProviderUnavailable, match=r"within 0.5 seconds"):
            ServiceHttp("Vendor", timeout=0.5).get(server.url, {})
    assert time.monotonic() - began < 3


def test_a_certificate_is_checked(tmp_path, monkeypatch):
    served, trusted = certificate(tmp_path, name="127.0.0.1", days=10)
    with RawServer(whole(b"{}"), tls=served) as server:
        with pytest.raises(ServiceUnreachable, match="certificate verify failed"):
            ServiceHttp("Vendor", timeout=5).get(server.url, {})
        tls = ssl.create_default_context(cafile=trusted)
        monkeypatch.setattr(bounded, "trusted", lambda: tls)
        assert ServiceHttp("Vendor", timeout=5).get(server.url, {}).content == b"{}"


def test_a_post_is_bounded_in_bytes(echo):
    echo.enqueue(servers.huge())

    with pytest.raises(ProviderRejected, match="larger than"):
        ServiceHttp("Vendor").post(echo.origin, {})
