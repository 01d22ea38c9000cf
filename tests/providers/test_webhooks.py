"""Webhooks: signatures, blocked URLs, and the meaning of each response."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from beacon_site.net import webhooks
from beacon_site.net.address_guard import ForbiddenAddress
from beacon_site.net.bounded import Limits
from beacon_site.net.errors import ProviderUnavailable
from beacon_site.net.webhooks import ReceiverFailed, ReceiverGone

KEY = webhooks.new_key()


@pytest.fixture
def receiver(httpserver: HTTPServer) -> HTTPServer:
    """A receiver on an address that the operator allowed."""
    return httpserver


def post(server: HTTPServer, path: str = "/hook") -> webhooks.Answer:
    allowed = frozenset({f"{server.host}:{server.port}"})
    return webhooks.post(
        server.url_for(path), b'{"a": 1}', message_id="msg_1", key=KEY, allow_hosts=allowed
    )


def test_the_signature_is_that_of_standard_webhooks():
    """The vector of the specification's own libraries."""
    key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'

    made = webhooks.signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)

    assert made == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_receiver_can_verify_what_it_gets(receiver: HTTPServer):
    receiver.expect_request("/hook", method="POST").respond_with_data("thanks")

    answer = post(receiver)

    sent: Request = receiver.log[0][0]
    signed = f"msg_1.{sent.headers['webhook-timestamp']}.".encode() + sent.get_data()
    secret = base64.b64decode(KEY.removeprefix("whsec_"))
    expected = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert sent.headers["webhook-signature"] == f"v1,{expected}"
    assert sent.headers["Content-Type"] == "application/json"
    assert (answer.status, answer.excerpt) == (200, "thanks")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/x", "http://[::1]/x", "http://localhost/x", "http://169.254.169.254/",
     "https://user:pw@example.org/", "ftp://example.org/", "http://example.org:22/"],
)  # fmt: skip
def test_an_address_of_the_own_network_is_refused_with_the_reason(url: str):
    with pytest.raises(ForbiddenAddress, match=r"\w+ \w+"):
        webhooks.check_address(url)


def test_a_name_that_leads_to_a_private_address_gets_no_byte(
    httpserver: HTTPServer, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    private = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.7", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: private)

    with pytest.raises(
        ForbiddenAddress, match=r"points to 10\.0\.0\.7, which isn’t a public address"
    ):
        webhooks.post("http://hooks.example.org/x", b"{}", message_id="msg_1", key=KEY)


def test_a_redirect_is_not_followed_and_is_explained(receiver: HTTPServer):
    moved = Response("", 302, {"Location": "http://127.0.0.1:1/inside"})
    receiver.expect_request("/hook").respond_with_response(moved)

    with pytest.raises(ReceiverFailed, match="redirected to “http://127") as caught:
        post(receiver)

    assert caught.value.answer.status == 302
    assert len(receiver.log) == 1


def test_one_that_hangs_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(webhooks, "LIMITS", Limits(whole_seconds=0.5))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url, allowed = f"http://127.0.0.1:{port}/", frozenset({f"127.0.0.1:{port}"})
        with pytest.raises(ProviderUnavailable, match="didn’t finish within"):
            webhooks.post(url, b"{}", message_id="msg_1", key=KEY, allow_hosts=allowed)


def test_a_failure_carries_status_answer_and_when_to_try_again(receiver: HTTPServer):
    busy = Response("come back later", 503, {"Retry-After": "120"})
    receiver.expect_request("/hook").respond_with_response(busy)

    with pytest.raises(ReceiverFailed, match="responded with 503 Service Unavailable") as caught:
        post(receiver)

    assert caught.value.answer.excerpt == "come back later"
    assert caught.value.retry_after == 120


def test_a_receiver_that_is_gone_wants_no_more(receiver: HTTPServer):
    receiver.expect_request("/hook").respond_with_data("", status=410)

    with pytest.raises(ReceiverGone, match="no longer accepts messages"):
        post(receiver)


def test_of_an_endless_answer_the_beginning_is_kept_and_the_rest_not_read(receiver: HTTPServer):
    def endless() -> Iterator[bytes]:
        for _number in range(100):
            yield b"x" * 10_000

    receiver.expect_request("/hook").respond_with_handler(lambda request: Response(endless()))

    answer = post(receiver)

    assert answer.status == 200
    assert answer.excerpt == "x" * webhooks.EXCERPT


def test_of_an_answer_that_unpacks_to_far_too_much_the_beginning_is_kept(receiver: HTTPServer):
    packed = Response(gzip.compress(b"x" * 5_000_000), headers={"Content-Encoding": "gzip"})
    receiver.expect_request("/hook").respond_with_response(packed)

    assert post(receiver).excerpt == "x" * webhooks.EXCERPT
