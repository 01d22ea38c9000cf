"""Notifications of browsers: encrypted for one browser, signed, and only sent to push services."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.test import Client
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from beacon_site.net import web_push
from beacon_site.net.webhooks import ReceiverFailed, ReceiverGone
from memory.models import Topic, User
from memory.models.errors import InvalidValue
from research.models import Channel, Delivery
from research.services.notifications import channels, sending
from tests.research.notice_cast import allow, body_in_style, make_admin, saved_run


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def raw(told: str) -> bytes:
    return base64.urlsafe_b64decode(told + "=" * (-len(told) % 4))


@dataclass
class Browser:
    """A browser with a subscription, and its push service on this machine."""

    server: HTTPServer
    key: ec.EllipticCurvePrivateKey
    auth: bytes

    @property
    def subscription(self) -> str:
        point = web_push._point(self.key.public_key())
        keys = {"p256dh": text(point), "auth": text(self.auth)}
        return json.dumps({"endpoint": self.server.url_for("/push/1"), "keys": keys})

    def opened(self, body: bytes) -> dict[str, Any]:
        """Decrypt a message as browsers do (RFC 8291, section 4)."""
        salt, size, key, sealed = body[:16], body[20], body[21:86], body[86:]
        assert size == 65
        server = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)
        ours = web_push._point(self.key.public_key())
        shared = self.key.exchange(ec.ECDH(), server)
        secret = HKDF(hashes.SHA256(), 32, self.auth, b"WebPush: info\0" + ours + key).derive(
            shared
        )
        content = HKDF(hashes.SHA256(), 16, salt, b"Content-Encoding: aes128gcm\0").derive(secret)
        nonce = HKDF(hashes.SHA256(), 12, salt, b"Content-Encoding: nonce\0").derive(secret)
        told = AESGCM(content).decrypt(nonce, sealed, None)
        assert told.endswith(b"\x02")
        return dict(json.loads(told[:-1]))

    def answer(self, status: int, **headers: str) -> None:
        self.server.expect_request("/push/1", method="POST").respond_with_response(
            Response(status=status, headers=headers)
        )

    @property
    def requests(self) -> list[Request]:
        return [request for request, _response in self.server.log]


@pytest.fixture
def browser(httpserver: HTTPServer, settings: Any, alice: User) -> Browser:
    """Alice's browser. She is an admin, so her push service may be on this machine."""
    allow(httpserver, settings)
    make_admin(alice)
    return Browser(httpserver, ec.generate_private_key(ec.SECP256R1()), b"sixteen letters!")


def added(owner: User, browser: Browser) -> Channel:
    return channels.add(
        owner, kind="browser", name="Laptop", address=browser.subscription, by=owner.actor
    )


def test_it_encrypts_as_the_example_of_the_specification() -> None:
    """RFC 8291, appendix A."""
    private = int.from_bytes(raw("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
    sent = web_push.encrypted(
        b"When I grow up, I want to be a watermelon",
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "BTBZMqHH6r4Tts7J_aSIgg",
        salt=raw("DGv6ra1nlYgDCS1FRnbzlw"),
        key=ec.derive_private_key(private, ec.SECP256R1()),
    )

    assert text(sent) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLoc"
        "InmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLV"
        "WGNWQexSgSxsj_Qulcy4a-fN"
    )


@pytest.mark.requirement("R346")
def test_a_report_is_shown_by_the_browser(browser: Browser, alice: User, topic: Topic) -> None:
    channel = added(alice, browser)
    browser.answer(201)
    run = saved_run(topic, "The line opened.")
    for delivery in body_in_style(run):
        sending.deliver(delivery.pk)

    (request,) = browser.requests
    told = browser.opened(request.get_data())
    assert topic.title in told["title"]
    assert "The line opened." in told["body"] or told["body"]
    assert told["url"].endswith(f"/topics/{topic.slug}/runs/{run.number}/") or run.topic.slug in told["url"]  # fmt: skip
    assert request.headers["Content-Encoding"] == "aes128gcm"
    assert int(request.headers["TTL"]) > 3600
    channel.refresh_from_db()
    assert channel.last_ok


def test_the_push_service_can_check_who_sent_it(browser: Browser, alice: User) -> None:
    channel = added(alice, browser)
    browser.answer(201)
    sending.test(channel)

    (request,) = browser.requests
    scheme, _space, told = request.headers["Authorization"].partition(" ")
    parts = dict(one.split("=", 1) for one in told.split(", "))
    key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw(parts["k"]))
    host = f"http://{browser.server.host}:{browser.server.port}"
    claims = jwt.decode(parts["t"], key, algorithms=["ES256"], audience=host)
    assert scheme == "vapid"
    assert parts["k"] == web_push.public_key()
    assert time.time() < claims["exp"] < time.time() + 24 * 3600
    # The service must not be able to read it.
    assert b"test" not in request.get_data()


def test_another_secret_key_gives_another_key(settings: Any) -> None:
    before = web_push.public_key()
    settings.SECRET_KEY = "another key, which is also long enough for each of the checks"

    assert web_push.public_key() != before


@pytest.mark.parametrize("status", [404, 410])
def test_a_browser_that_unsubscribed_is_turned_off_at_once(
    browser: Browser, alice: User, topic: Topic, status: int
) -> None:
    channel = added(alice, browser)
    browser.answer(status)
    for delivery in body_in_style(saved_run(topic, "The line opened.")):
        sending.deliver(delivery.pk)

    channel.refresh_from_db()
    assert not channel.enabled
    assert str(status) in channel.disabled_reason


def test_a_busy_service_gets_the_same_message_again_later(
    browser: Browser, alice: User, topic: Topic
) -> None:
    added(alice, browser)
    browser.answer(429, **{"Retry-After": "7"})
    (delivery,) = body_in_style(saved_run(topic, "The line opened."))
    sending.deliver(delivery.pk)
    delivery.refresh_from_db()
    assert delivery.state == Delivery.State.WAITING

    Delivery.objects.filter(pk=delivery.pk).update(not_before=delivery.created)
    sending.deliver(delivery.pk)
    first, second = (browser.opened(request.get_data()) for request in browser.requests)
    assert first == second  # with the same tag, so the browser replaces the first


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"endpoint": "https://internal.example/push"}, "doesn’t support"),
        ({"endpoint": "http://fcm.googleapis.com/x"}, "doesn’t support"),
        ({"endpoint": "https://fcm.googleapis.com.evil.example/x"}, "doesn’t support"),
        ({"endpoint": "https://fcm.googleapis.com:8443/x"}, "doesn’t support"),
        ({"endpoint": "https://user@evil.example#fcm.googleapis.com"}, "doesn’t support"),
        ({"endpoint": "file:///etc/passwd"}, "doesn’t support"),
        ({"endpoint": 7}, "didn’t return a valid push subscription"),
        (
            {"keys": {"p256dh": "AAAA", "auth": "AAAAAAAAAAAAAAAAAAAAAA"}},
            "didn’t return a valid push subscription",
        ),
        ({"keys": None}, "didn’t return a valid push subscription"),
        (
            {"endpoint": "https://fcm.googleapis.com/" + "x" * 2000},
            "didn’t return a valid push subscription",
        ),
    ],
)
def test_other_addresses_and_broken_subscriptions_are_refused(
    browser: Browser, bob: User, change: dict[str, Any], why: str
) -> None:
    told = json.loads(browser.subscription) | change

    with pytest.raises(InvalidValue, match=why):
        channels.add(bob, kind="browser", name="", address=json.dumps(told), by=bob.actor)
    assert not Channel.objects.for_user(bob).exists()


@pytest.mark.parametrize("told", ["", "null", "[]", "{", '"x"', '{"endpoint": "https://x"}'])
def test_what_isnt_a_subscription_is_explained(browser: Browser, bob: User, told: str) -> None:
    with pytest.raises(InvalidValue, match="didn’t return a valid push subscription"):
        channels.add(bob, kind="browser", name="", address=told, by=bob.actor)


def test_only_staff_reach_a_push_service_on_this_machine(browser: Browser, bob: User) -> None:
    with pytest.raises(InvalidValue, match="doesn’t support"):
        added(bob, browser)


def test_a_browser_is_added_once(browser: Browser, alice: User) -> None:
    added(alice, browser)

    with pytest.raises(InvalidValue, match="already gets notifications"):
        added(alice, browser)


def test_a_long_message_is_shortened_to_what_services_accept(browser: Browser) -> None:
    sent = web_push.message(title="電" * 400, body="池" * 9000, url="https://b.example/", tag="1")

    assert len(sent) <= web_push.MAX_LENGTH
    assert json.loads(sent)["url"] == "https://b.example/"
    with pytest.raises(ReceiverFailed):
        browser.answer(413)
        keys = web_push.subscription_of(
            browser.subscription,
            allow_hosts=frozenset({f"{browser.server.host}:{browser.server.port}"}),
        )
        web_push.send(
            keys, sent, allow_hosts=frozenset({f"{browser.server.host}:{browser.server.port}"})
        )
    assert issubclass(ReceiverGone, Exception)


# --- pages ----------------------------------------------------------------------------------------


def test_the_page_names_the_browser_and_works_only_with_its_script(
    alice: User, client_of: Any
) -> None:
    client: Client = client_of(alice)
    page = client.get(
        "/settings/channels/new/browser/",
        headers={"user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0"},
    ).content.decode()
    assert web_push.public_key() in page
    assert 'value="Firefox on Linux"' in page
    assert "Browser notifications need JavaScript" in page

    refused = client.post("/settings/channels/new/browser/", {"name": "Desk", "reports": "each"})
    assert "The browser didn’t subscribe" in refused.content.decode()
    assert 'value="Desk"' in refused.content.decode()


def test_a_browsers_channel_is_added_edited_and_never_shows_its_keys(
    browser: Browser, alice: User, client_of: Any
) -> None:
    client: Client = client_of(alice)
    form = {"name": "Desk", "reports": "changed", "address": browser.subscription}
    made = client.post("/settings/channels/new/browser/", form)
    channel = Channel.objects.get(kind="browser")
    assert made["Location"] == f"/settings/channels/{channel.pk}/"

    client.post(made["Location"], {"name": "Phone", "reports": "each", "enabled": "on"})
    channel.refresh_from_db()
    assert (channel.name, channel.reports) == ("Phone", "each")
    assert channel.opened()["url"] == json.loads(browser.subscription)["endpoint"]
    page = client.get(made["Location"]).content.decode()
    assert "/push/1" not in page
    assert text(browser.auth) not in page
