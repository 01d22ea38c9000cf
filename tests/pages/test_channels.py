"""Settings → Notifications: channels made, tested, changed, removed; what was sent; a topic's choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from memory.models import Activity, Topic, User
from research.models import Channel, Delivery, TopicNotices
from research.services.notifications import channels, sending
from tests.research.factories import make_topic
from tests.research.mail_server import MailServer, use
from tests.research.notice_cast import allow, body_in_style, email, saved_run, webhook
from tests.undo import undone

HTMX = {"HX-Request": "true"}
HERE = "/settings/channels/"


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


@pytest.fixture
def topic(alice: User) -> Topic:
    return make_topic(alice)


def make(browser: Client, kind: str, address: str, **more: Any) -> Any:
    data = {"address": address, "reports": "each", "failures": "on", "digest": "on"} | more
    return browser.post(f"{HERE}new/{kind}/", data)


def text(answer: Any) -> str:
    return str(answer.content.decode())


def test_without_channels_the_page_says_what_they_are_for(browser: Client):
    shown = text(browser.get(HERE))

    assert "No notification channels yet" in shown
    assert "Add email address" in shown and "Add chat or push service" in shown


def test_an_email_address_becomes_a_channel(browser: Client):
    answer = make(browser, "email", "desk@example.org", name="Desk")

    made = Channel.objects.get()
    assert answer.url == f"{HERE}{made.pk}/"
    assert "desk@example.org" in text(browser.get(HERE))
    assert Activity.objects.filter(kind="channel-created").exists()


@pytest.mark.parametrize(
    ("kind", "address", "said"),
    [
        ("email", "desk@example.org\nBcc: x@example.org", "line break"),
        ("email", "desk", "Enter one valid email address"),
        ("email", "a@example.org, b@example.org", "a space"),
        ("webhook", "http://10.0.0.7/hook", "is a number, not a name"),
        ("webhook", "http://localhost/hook", "on the local network"),
        ("webhook", "ftp://example.org/", "only http and https"),
        ("webhook", "https://example.org/\r\nx", "control character"),
        ("webhook", "https://example.org:22/", "uses port 22"),
    ],
)
def test_an_address_that_cannot_be_is_explained_and_kept_in_the_form(
    browser: Client, kind: str, address: str, said: str
):
    answer = make(browser, kind, address)

    assert answer.status_code == 200 and said in text(answer)
    assert not Channel.objects.exists()


def test_a_webhooks_address_and_key_are_stored_sealed_and_shown_no_more(
    browser: Client, alice: User
):
    make(browser, "webhook", "https://hooks.example.org/T0/very-secret")

    made = Channel.objects.get()
    assert "very-secret" not in made.secret + made.address
    assert made.opened()["url"] == "https://hooks.example.org/T0/very-secret"
    shown = text(browser.get(f"{HERE}{made.pk}/"))
    assert "very-secret" not in shown and made.opened()["key"] not in shown
    assert "https://hooks.example.org/…" in shown


def test_the_key_is_shown_on_request_and_renewed(browser: Client, alice: User):
    make(browser, "webhook", "https://hooks.example.org/x")
    made = Channel.objects.get()
    key = made.opened()["key"]

    assert key in text(browser.post(f"{HERE}{made.pk}/key/", {"show": "1"}))
    renewed = text(browser.post(f"{HERE}{made.pk}/key/", {"renew": "1"}))

    assert key not in renewed
    made.refresh_from_db()
    assert made.opened()["key"] in renewed
    assert made.opened()["url"] == "https://hooks.example.org/x"


def test_a_test_shows_what_was_really_answered(
    browser: Client, alice: User, httpserver: HTTPServer, settings: Any
):
    allow(httpserver, settings)
    made = webhook(alice, httpserver)
    httpserver.expect_request("/hook").respond_with_data("wrong door", status=404)

    body = text(browser.post(f"{HERE}{made.pk}/test/", headers=HTMX))

    assert body.lstrip().startswith('<div id="channel-tested"')
    assert "Test failed" in body and "404" in body and "wrong door" in body
    assert Delivery.objects.get().state == "failed"  # a test is not tried again


def test_over_htmx_a_test_is_in_the_list_of_what_was_sent(
    browser: Client, alice: User, settings: Any
):
    made = email(alice)
    with MailServer() as server:
        use(server, settings)
        shown = text(browser.post(f"{HERE}{made.pk}/test/", headers=HTMX))

    assert 'id="deliveries" hx-swap-oob="true"' in shown and "No messages yet" not in shown
    assert shown.count(f"/settings/deliveries/{made.deliveries.get().pk}/") == 2


def test_a_test_by_email_works_without_javascript(browser: Client, alice: User, settings: Any):
    made = email(alice)
    with MailServer() as server:
        use(server, settings)
        shown = text(browser.post(f"{HERE}{made.pk}/test/"))

    assert server.mails[0]["Subject"] == "Test message from Beacon"
    assert "Test sent" in shown and "<h1" in shown


def test_a_wrong_password_is_said_by_the_test(browser: Client, alice: User, settings: Any):
    made = email(alice)
    with MailServer() as server:
        use(server, settings)
        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "beacon", "not-the-one"
        server.offers_sign_in, server.refuse = True, {"AUTH": "535 5.7.8 wrong"}
        body = text(browser.post(f"{HERE}{made.pk}/test/", headers=HTMX))

    assert "rejected the username and password" in body and "not-the-one" not in body


def test_too_many_tests_are_refused(browser: Client, alice: User, monkeypatch: Any):
    made = email(alice)
    monkeypatch.setattr(channels, "MAX_TESTS", 0)

    assert "You can send" in text(browser.post(f"{HERE}{made.pk}/test/", headers=HTMX))


def test_a_channel_is_changed_and_keeps_its_address_where_none_is_given(
    browser: Client, alice: User
):
    make(browser, "webhook", "https://hooks.example.org/x")
    made = Channel.objects.get()
    key = made.opened()["key"]

    browser.post(f"{HERE}{made.pk}/", {"name": "Robot", "address": "", "reports": "changed"})

    made.refresh_from_db()
    assert (made.name, made.reports, made.failures, made.enabled) == (
        "Robot", "changed", False, False,
    )  # fmt: skip
    assert made.opened() == {"url": "https://hooks.example.org/x", "key": key}


def test_a_channel_is_removed_and_restored(browser: Client, alice: User):
    made = email(alice)
    answer = browser.post(f"{HERE}{made.pk}/remove/", follow=True)

    assert browser.get(f"{HERE}{made.pk}/").status_code == 404
    undone(browser, answer)
    assert browser.get(f"{HERE}{made.pk}/").status_code == 200


def test_what_was_sent_is_read_and_sent_again(
    browser: Client, alice: User, topic: Topic, settings: Any
):
    made = email(alice)
    [row] = body_in_style(saved_run(topic, "A fact."))
    with MailServer() as server:
        use(server, settings)
        sending.deliver(row.pk)
        shown = text(browser.get(f"/settings/deliveries/{row.pk}/"))
        assert "accepted the email" in shown and "Version 18.1 is out." in shown
        assert str(row.pk) in text(browser.get(f"{HERE}{made.pk}/"))
        browser.post(f"/settings/deliveries/{row.pk}/again/")
        sending.deliver(row.pk)

    assert len(server.mails) == 2


def test_another_persons_channels_do_not_exist(
    alice: User, bob: User, topic: Topic, client_of: Callable[[Any], Client]
):
    made = email(alice)
    [row] = body_in_style(saved_run(topic, "A fact."))
    browser = client_of(bob)

    for address in (f"{HERE}{made.pk}/", f"/settings/deliveries/{row.pk}/"):
        assert browser.get(address).status_code == 404
    for act in ("test", "remove", "key"):
        assert browser.post(f"{HERE}{made.pk}/{act}/").status_code == 404
    assert browser.post(f"/settings/deliveries/{row.pk}/again/").status_code == 404
    assert browser.get(f"/topics/{topic.slug}/notices/").status_code == 404
    assert "desk@example.org" not in text(browser.get(HERE))


@pytest.mark.requirement("R340")
def test_everyone_adds_a_chat_service_and_its_url_is_not_shown_again(browser: Client, alice: User):
    assert make(browser, "apprise", "ntfy://private-topic").status_code == 302
    shown = text(browser.get(HERE))
    assert "ntfy://…" in shown and "private-topic" not in shown
    assert Channel.objects.get(owner=alice).opened()["url"] == "ntfy://private-topic"
    assert "Only admins can use “syslog”" in text(make(browser, "apprise", "syslog://"))
    assert browser.get(f"{HERE}new/fax/").status_code == 404


def test_the_page_takes_as_many_queries_with_many_channels(
    browser: Client, alice: User, django_assert_max_num_queries: Any
):
    for number in range(8):
        email(alice, f"a{number}@example.org")
        make_topic(alice, f"Topic {number}")

    with django_assert_max_num_queries(12):
        browser.get(HERE)
    with django_assert_max_num_queries(12):
        browser.get(f"{HERE}{Channel.objects.first().pk}/")


def test_a_person_has_so_many_channels_and_no_more(browser: Client, alice: User, monkeypatch: Any):
    monkeypatch.setattr(channels, "MAX_CHANNELS", 1)
    email(alice)

    assert "Remove one first" in text(make(browser, "email", "b@example.org"))


def test_a_removed_channel_does_not_come_back_past_the_number(
    browser: Client, alice: User, monkeypatch: Any
):
    monkeypatch.setattr(channels, "MAX_CHANNELS", 1)
    gone = email(alice)
    removed = browser.post(f"{HERE}{gone.pk}/remove/", follow=True)
    email(alice, "b@example.org")

    answer = undone(browser, removed)

    assert "Remove one first" in text(answer)
    assert Channel.objects.for_user(alice).kept().count() == 1


# --- a topic's choice, and the digest's settings --------------------------------------------------


def test_a_topic_chooses_its_channels(browser: Client, alice: User, topic: Topic):
    first, second = email(alice), email(alice, "b@example.org")
    page = f"/topics/{topic.slug}/notices/"

    browser.post(
        page,
        {"channels": [str(second.pk)], "is_custom": "1", "reports": "changed", "in_digest": "on"},
    )

    chosen = TopicNotices.objects.get()
    assert (chosen.is_custom, chosen.reports, chosen.failures, chosen.in_digest) == (
        True, "changed", False, True,
    )  # fmt: skip
    assert list(chosen.left_out.all()) == [first]
    shown = text(browser.get(page))
    assert f'value="{second.pk}" id="id_channels_1" checked' in shown.replace("  ", " ")


def test_a_topics_settings_lead_to_its_notifications(browser: Client, topic: Topic):
    shown = text(browser.get(f"/topics/{topic.slug}/settings/"))

    assert f"/topics/{topic.slug}/notices/" in shown
    assert "You have no channels" in text(browser.get(f"/topics/{topic.slug}/notices/"))


def test_the_digest_is_chosen_with_its_topics(browser: Client, alice: User, topic: Topic):
    out = make_topic(alice, "Out")
    browser.post(
        "/settings/digest/",
        {"frequency": "weekly", "hour": "6", "weekday": "5", "topics": [str(topic.pk)]},
    )

    assert TopicNotices.objects.get().topic == out
    shown = text(browser.get(HERE))
    assert "next digest" in shown and "Friday" in shown


def test_a_digest_at_no_hour_is_explained(browser: Client):
    answer = browser.post("/settings/digest/", {"frequency": "daily", "hour": "25", "weekday": "5"})

    assert answer.status_code == 200 and "is not one of the available choices" in text(answer)


def test_emails_kept_here_are_read_by_admins(
    admin: User, client_of: Callable[[Any], Client], settings: Any, tmp_path: Any
):
    settings.EMAIL_BACKEND = "beacon_site.net.mail.FolderBackend"
    settings.EMAIL_FILE_PATH = str(tmp_path)
    settings.BEACON_MAIL = "folder"
    browser = client_of(admin)
    assert "No emails yet" in text(browser.get("/settings/mails/"))

    sending.test(email(admin))

    shown = text(browser.get("/settings/mails/"))
    assert "Test message from Beacon" in shown and "It works." in shown
