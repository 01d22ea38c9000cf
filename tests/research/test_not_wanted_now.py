"""Cancelled or repeated requests between creating and sending a message."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_httpserver import HTTPServer

from memory.models import Activity, Topic
from memory.services.records import acts as record_acts
from research.models import Channel, Delivery, Digest, Run
from research.services.notifications import channels, digests, notice_text, sending
from research.services.runs import trash
from tests.research import cast
from tests.research.mail_server import MailServer, use
from tests.research.notice_cast import body_in_style, email, saved_run


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with MailServer() as made:
        use(made, settings)
        yield made


@pytest.fixture
def desk(topic: Topic) -> Channel:
    return email(topic.owner)


def digest_of(topic: Topic) -> Digest:
    chosen = digests.save_settings(
        topic.owner, by=topic.owner.actor, frequency="daily", hour=7, weekday=1
    )
    made = digests.make(chosen, timezone.now())
    assert made is not None
    return made


def test_an_email_that_waits_is_not_sent_to_who_has_ended_them_in_the_meantime(
    topic: Topic, desk: Channel, server: MailServer
):
    [row] = body_in_style(saved_run(topic, "A fact."))
    channels.end_for(desk, topic)

    sending.deliver(row.pk)

    row.refresh_from_db()
    assert (row.state, server.mails) == ("dropped", [])
    assert "no longer receives messages about this topic" in row.error


def test_nor_a_digest(topic: Topic, desk: Channel, server: MailServer):
    saved_run(topic, "A fact.")
    digest_of(topic)
    channels.end_for(desk, None)

    sending.deliver(Delivery.objects.get(kind="digest").pk)

    assert (Delivery.objects.get(kind="digest").state, server.mails) == ("dropped", [])


def test_a_digest_of_which_all_went_to_the_trash_is_not_sent(
    topic: Topic, desk: Channel, server: MailServer
):
    saved_run(topic, "A fact.")
    digest_of(topic)
    topic.trash(by=topic.owner.actor)

    sending.deliver(Delivery.objects.get(kind="digest").pk)

    assert server.mails == []
    assert "is in Trash" in Delivery.objects.get(kind="digest").error


@pytest.mark.parametrize("what", ["topic", "run"])
def test_what_is_deleted_permanently_is_in_no_digest_that_was_sent(
    topic: Topic, desk: Channel, server: MailServer, what: str
):
    run, by = saved_run(topic, "The vault lies under the barn."), topic.owner.actor
    digest_of(topic)
    sending.deliver(Delivery.objects.get(kind="digest").pk)
    assert "barn" in Delivery.objects.get(kind="digest").request
    record = topic if what == "topic" else run.report
    record_acts.perform("trash", record, by=by)
    record.refresh_from_db()
    record.purge(by=by)

    kept = Delivery.objects.get(kind="digest")
    assert (kept.state, kept.request, kept.response) == ("sent", "", "")


def test_a_test_whose_process_died_is_not_sent_by_itself_later(
    topic: Topic, desk: Channel, server: MailServer, monkeypatch: pytest.MonkeyPatch
):
    def died(delivery: Delivery) -> None:
        raise cast.Killed

    with monkeypatch.context() as patch, pytest.raises(cast.Killed):
        patch.setattr(sending, "_perform", died)
        sending.test(desk)
    Delivery.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    sending.deliver(Delivery.objects.get().pk)

    assert (Delivery.objects.get().state, server.mails) == ("unsure", [])


def test_an_account_that_is_deleted_while_its_email_is_written_sends_none(
    topic: Topic, desk: Channel, server: MailServer, monkeypatch: pytest.MonkeyPatch
):
    [row] = body_in_style(saved_run(topic, "A fact."))
    composed = notice_text.compose

    def while_deleted(delivery: Delivery) -> notice_text.Message:
        message = composed(delivery)
        topic.owner.delete()
        return message

    monkeypatch.setattr(notice_text, "compose", while_deleted)
    sending.deliver(row.pk)

    assert server.mails == []
    assert not Delivery.objects.exists() and not Activity.objects.exists()


def test_a_service_for_admins_is_not_opened_for_who_isnt_an_admin_anymore(
    topic: Topic, httpserver: HTTPServer
):
    channel = Channel(owner=topic.owner, kind="apprise", name="Chat", address="json://…")
    channel.keep_secret(url=f"json://{httpserver.host}:{httpserver.port}/hook")
    channel.save(force_insert=True)
    [row] = body_in_style(saved_run(topic, "A fact."))

    sending.deliver(row.pk)

    row.refresh_from_db()
    assert (row.state, httpserver.log) == ("failed", [])
    assert "Only admins can use “json”" in row.error


def test_who_ends_emails_ten_times_is_one_line_in_the_log(topic: Topic, desk: Channel):
    for _time in range(10):
        channels.end_for(desk, topic)
        channels.end_for(desk, None)

    assert Activity.objects.filter(kind="unsubscribed").count() == 2


def failed(topic: Topic, why: str) -> Run:
    run = Run.objects.claim(cast.started(topic).pk, worker="test")
    assert run is not None
    run.finish(Run.Status.FAILED, why)
    return run


def test_a_failure_that_waits_is_not_told_of_a_run_that_was_retried_and_a_later_one_is(
    topic: Topic, desk: Channel, server: MailServer
):
    run = failed(topic, "the network was down")
    first = Delivery.objects.get(kind="failure")
    assert run.retry(by=topic.owner.actor)

    assert not sending.deliver(first.pk)
    again = Run.objects.claim(run.pk, worker="test")
    assert again is not None
    again.finish(Run.Status.FAILED, "the key is wrong")
    sending.deliver(Delivery.objects.get(kind="failure").pk)

    [mail] = server.mails
    told = mail.get_body(("plain",)).get_content()
    assert "the key is wrong" in told and "the network was down" not in told


def test_a_failed_run_that_was_removed_is_told_neither_by_itself_nor_by_the_digest(
    topic: Topic, desk: Channel, server: MailServer
):
    run = failed(topic, "the network was down")
    digest = digest_of(topic)
    trash.remove(run, by=topic.owner.actor)

    for row in Delivery.objects.all():
        sending.deliver(row.pk)

    assert (server.mails, digests.content(digest).is_empty) == ([], True)
    assert {row.state for row in Delivery.objects.all()} == {"dropped"}


def test_a_failure_that_was_told_is_not_reported_twice(
    topic: Topic, desk: Channel, server: MailServer
):
    run = failed(topic, "the network was down")
    sending.deliver(Delivery.objects.get(kind="failure").pk)
    run.retry(by=topic.owner.actor)
    row = Delivery.objects.get(kind="failure")
    assert row.state == "sent"

    sending.again(row)  # a person selects “Send again”, and it's no longer true
    sending.deliver(row.pk)
    row.refresh_from_db()
    assert (row.state, len(server.mails)) == ("dropped", 1)


def test_send_it_again_pressed_twice_sends_it_once(
    topic: Topic, desk: Channel, server: MailServer, client_of: Any
):
    [row] = body_in_style(saved_run(topic, "A fact."))
    sending.deliver(row.pk)
    browser: Client = client_of(topic.owner)
    page = browser.get(f"/settings/deliveries/{row.pk}/").content.decode()
    assert 'name="round" value="1"' in page

    for _press in range(2):  # the worker is quicker than the second press
        browser.post(f"/settings/deliveries/{row.pk}/again/", {"round": "1"})
        sending.deliver(row.pk)

    assert len(server.mails) == 2


def test_a_new_key_made_in_one_tab_is_kept_by_what_another_tab_saves(topic: Topic, settings: Any):
    settings.BEACON_FETCH_ALLOW_HOSTS = frozenset()
    by = topic.owner.actor
    hook = channels.add(
        topic.owner, kind="webhook", name="Hook", address="https://hook.example/a", by=by
    )
    opened_before = Channel.objects.get(pk=hook.pk)
    channels.renew_key(hook, by=by)
    key = Channel.objects.get(pk=hook.pk).opened()["key"]

    channels.change(opened_before, name="Hook", address="https://hook.example/b", by=by)

    parts = Channel.objects.get(pk=hook.pk).opened()
    assert parts == {"url": "https://hook.example/b", "key": key}


@pytest.mark.parametrize(
    "address", ["a@example.org\nBcc: b@example.org", "a@b.example, c@d.example"]
)
def test_an_address_that_an_archive_brought_is_checked_before_it_is_switched_on(
    topic: Topic, desk: Channel, address: str
):
    Channel.objects.update(address=address, enabled=False)
    desk.refresh_from_db()

    with pytest.raises(channels.InvalidValue):
        channels.change(desk, name="Desk", enabled=True, by=topic.owner.actor)
    assert not Channel.objects.get().enabled
