"""A run's news is sent once to each channel, despite retries, lost workers and duplicates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_httpserver import HTTPServer

from beacon_site import celery
from beacon_site.net import apprise_sender, extract
from beacon_site.net import mail as net_mail
from beacon_site.net.errors import ProviderUnavailable
from memory.models import Activity, Membership, Topic, User
from memory.models.errors import InvalidValue
from research.models import Channel, Delivery, Report, Run, TopicNotices
from research.services.notifications import channels, sending
from research.services.runs.execution import starting
from research.services.topics import sharing
from tests.research import cast
from tests.research.conftest import Providers
from tests.research.mail_server import MailServer, use
from tests.research.notice_cast import allow, body_in_style, email, saved_run, webhook


@pytest.fixture
def server(settings: Any) -> Iterator[MailServer]:
    with MailServer() as made:
        use(made, settings)
        yield made


@pytest.fixture
def hook(topic: Topic, httpserver: HTTPServer, settings: Any) -> Channel:
    allow(httpserver, settings)
    return webhook(topic.owner, httpserver)


def told_again(delivery: Delivery) -> Delivery:
    """Let the time for the next try come, try, and return the row."""
    Delivery.objects.filter(pk=delivery.pk).update(not_before=timezone.now())
    sending.deliver(delivery.pk)
    delivery.refresh_from_db()
    return delivery


def lose_lease(delivery: Delivery) -> None:
    past = timezone.now() - timedelta(seconds=1)
    Delivery.objects.filter(pk=delivery.pk).update(lease_until=past)


def test_a_run_that_is_saved_lays_out_one_message_for_each_channel(
    topic: Topic, providers: Providers, run_of: Callable[[Topic], Run]
):
    email(topic.owner)
    email(topic.owner, "other@example.org", reports="none")
    cast.set_up(providers, 1, 2)

    run = run_of(topic)

    [row] = Delivery.objects.all()
    assert (row.kind, row.run, row.channel.address) == ("report", run, "desk@example.org")
    assert row.subject == "Solid-state batteries, Run #1"


def test_a_run_that_fails_lays_out_a_message_about_it(topic: Topic):
    email(topic.owner)
    email(topic.owner, "other@example.org", failures=False)
    run = Run.objects.claim(cast.started(topic).pk, worker="test")
    assert run is not None
    run.finish(Run.Status.FAILED, "no service answered")

    [row] = Delivery.objects.all()
    assert (row.kind, row.channel.address) == ("failure", "desk@example.org")


def test_a_run_that_crashed_too_often_is_reported_too(topic: Topic):
    email(topic.owner)
    run = cast.started(topic)
    past = timezone.now() - timedelta(seconds=1)
    Run.objects.filter(pk=run.pk).update(status="running", crashes=2, lease_until=past)

    Run.objects.sweep()

    assert [row.kind for row in Delivery.objects.all()] == ["failure"]


def test_an_email_carries_the_report_as_it_reads(topic: Topic, server: MailServer):
    email(topic.owner)
    run = saved_run(topic, "Version 18.1 is out.")
    [row] = body_in_style(run)

    assert sending.deliver(row.pk)

    [mail] = server.mails
    text, html = (str(part.get_content()) for part in mail.iter_parts())
    assert run.report.as_markdown().strip() in text.replace("\r\n", "\n")
    assert "<h1" in html and "Version 18.1 is out" in html and "<img" not in html
    assert mail["Subject"] == "Solid-state batteries: 1 change (Run #2)"
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


def test_a_webhook_carries_the_changes_with_their_sources(hook: Channel, httpserver: HTTPServer):
    httpserver.expect_request("/hook").respond_with_data("ok")
    topic = starting.create_topic(owner=hook.owner, title="Databases", by=hook.owner.actor)
    [row] = body_in_style(saved_run(topic, "Version 18.1 is out."))

    sending.deliver(row.pk)

    sent = json.loads(httpserver.log[0][0].get_data())
    [item] = sent["data"]["report"]["delta_items"]
    assert (sent["type"], item["sentence"]) == ("report.finished", "Version 18.1 is out.")
    assert item["sources"][0]["url"] == "https://example.org/1"
    assert not {"money", "tokens", "prompt_tokens"} & set(sent["data"]["run"])
    row.refresh_from_db()
    assert (row.state, row.response_code, json.loads(row.request)) == ("sent", 200, sent)


def test_delivered_twice_and_laid_out_twice_it_arrives_once(topic: Topic, server: MailServer):
    email(topic.owner)
    run = saved_run(topic, "A fact.")
    [row] = body_in_style(run)

    sending.deliver(row.pk)
    sending.deliver(row.pk)
    body_in_style(run)
    sending.deliver(row.pk)

    assert len(server.mails) == 1
    assert Delivery.objects.count() == 1


def test_a_worker_lost_before_the_email_was_handed_over_leaves_it_to_the_next(
    topic: Topic, server: MailServer, monkeypatch: pytest.MonkeyPatch
):
    email(topic.owner)
    [row] = body_in_style(saved_run(topic, "A fact."))
    with monkeypatch.context() as patch, pytest.raises(cast.Killed):
        patch.setattr(net_mail, "send", _killed)
        sending.deliver(row.pk)
    assert not sending.deliver(row.pk)  # the lease still runs

    lose_lease(row)
    assert sending.deliver(row.pk)

    assert len(server.mails) == 1


def _killed(*args: Any, **more: Any) -> str:
    raise cast.Killed


def test_a_worker_lost_after_the_email_was_handed_over_sends_none_twice(
    topic: Topic, server: MailServer, monkeypatch: pytest.MonkeyPatch
):
    """It can't be known whether it arrived. The page says so, and a person can send it again."""
    email(topic.owner)
    [row] = body_in_style(saved_run(topic, "A fact."))
    with monkeypatch.context() as patch, pytest.raises(cast.Killed):
        patch.setattr(sending, "_sent", _killed)
        sending.deliver(row.pk)
    lose_lease(row)
    sending.deliver(row.pk)

    row.refresh_from_db()
    assert (row.state, len(server.mails)) == ("unsure", 1)
    assert Activity.objects.filter(kind="delivery-unsure", is_warning=True).exists()


@pytest.mark.parametrize(("failure", "state", "times"), [
    (net_mail.DeliveryUncertain, "unsure", 1), (ProviderUnavailable, "waiting", 2),
])  # fmt: skip
def test_an_apprise_message_that_may_have_arrived_isnt_sent_again(
    topic: Topic,
    monkeypatch: pytest.MonkeyPatch,
    failure: type[Exception],
    state: str,
    times: int,
):
    sent = []

    def send(url: str, **_more: Any) -> str:
        sent.append(url)
        raise failure("it broke off")

    monkeypatch.setattr(apprise_sender, "send", send)
    owner = topic.owner
    made = Channel(owner=owner, kind=Channel.Kind.APPRISE, name="Chat", address="json://…")
    made.keep_secret(url="json://desk.example")
    made.save()
    [row] = body_in_style(saved_run(topic, "A fact."))
    sending.deliver(row.pk)

    row = told_again(row)
    assert (row.state, len(sent)) == (state, times)


def test_an_attempt_ends_before_its_lease():
    longest = extract.START_SECONDS + apprise_sender.SECONDS

    assert longest < Delivery.LEASE.total_seconds() - 30


def test_a_webhook_is_tried_again_under_the_same_id_with_the_same_words(
    hook: Channel, httpserver: HTTPServer, topic: Topic
):
    httpserver.expect_ordered_request("/hook").respond_with_data("busy", status=503)
    httpserver.expect_ordered_request("/hook").respond_with_data("ok")
    [row] = body_in_style(saved_run(topic, "A fact."))
    sending.deliver(row.pk)
    row.refresh_from_db()
    assert (row.state, row.response_code, row.tries) == ("waiting", 503, 1)
    assert row.not_before > timezone.now() + timedelta(seconds=50)

    assert told_again(row).state == "sent"

    first, second = (request for request, _response in httpserver.log)
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.get_data() == second.get_data()


def test_what_fails_for_a_day_is_given_up_where_it_is_seen(
    hook: Channel, httpserver: HTTPServer, topic: Topic
):
    httpserver.expect_request("/hook").respond_with_data("no", status=500)
    [row] = body_in_style(saved_run(topic, "A fact."))
    for _try in range(len(Delivery.RETRY_SECONDS) + 1):
        assert row.state == "waiting"
        told_again(row)

    hook.refresh_from_db()
    assert (row.state, hook.last_ok, hook.consecutive_failures) == ("failed", False, 1)
    assert "500" in row.error
    assert Activity.objects.filter(kind="delivery-given-up", is_warning=True).exists()
    assert len(row.results) == len(Delivery.RETRY_SECONDS) + 1


def test_a_channel_that_takes_nothing_is_switched_off_and_the_others_are_told(
    hook: Channel, httpserver: HTTPServer, topic: Topic, server: MailServer
):
    httpserver.expect_request("/hook").respond_with_data("", status=410)
    email(topic.owner, reports="none")
    [row] = body_in_style(saved_run(topic, "A fact."))

    sending.deliver(row.pk)

    hook.refresh_from_db()
    assert not hook.enabled and "410" in hook.disabled_reason
    sending.deliver(Delivery.objects.get(kind="notice").pk)
    assert server.mails[0]["Subject"] == "Channel “Hook” is turned off"


def test_a_private_address_is_refused_once_and_for_all(topic: Topic, httpserver: HTTPServer):
    made = Channel(owner=topic.owner, kind="webhook", name="Inside")
    made.keep_secret(url=httpserver.url_for("/hook"), key="whsec_AAAA")
    made.save()
    [row] = body_in_style(saved_run(topic, "A fact."))

    sending.deliver(row.pk)

    row.refresh_from_db()
    assert row.state == "failed" and "on the local network" in row.error
    assert httpserver.log == []


def test_a_lost_secret_key_is_explained(topic: Topic, hook: Channel, settings: Any):
    settings.SECRET_KEY = "another one altogether"
    [row] = body_in_style(saved_run(topic, "A fact."))

    sending.deliver(row.pk)

    row.refresh_from_db()
    assert "SECRET_KEY has changed" in row.error


@pytest.mark.parametrize("end", ["channel", "switch", "topic", "report", "account"])
def test_what_no_one_wants_any_longer_is_not_sent(topic: Topic, server: MailServer, end: str):
    made = email(topic.owner)
    run = saved_run(topic, "A fact.")
    [row] = body_in_style(run)
    if end == "channel":
        channels.remove(made, by=topic.owner.actor)
    elif end == "switch":
        Channel.objects.update(enabled=False)
    elif end == "topic":
        topic.trash(by=topic.owner.actor)
    elif end == "report":
        run.report.trash(by=topic.owner.actor)
    else:
        User.objects.filter(pk=topic.owner.pk).update(is_active=False)

    sending.deliver(row.pk)

    row.refresh_from_db()
    assert (row.state, server.mails) == ("dropped", [])
    assert row.error


def test_a_webhook_that_a_person_sends_again_has_an_id_of_its_own(
    hook: Channel, httpserver: HTTPServer, topic: Topic
):
    """A receiver drops an id that it has seen."""
    httpserver.expect_request("/hook").respond_with_data("ok")
    [row] = body_in_style(saved_run(topic, "The factory opens in March."))
    sending.deliver(row.pk)

    sending.again(row)
    sending.deliver(row.pk)

    first, second = (sent.headers["webhook-id"] for sent, _answer in httpserver.log)
    assert first == f"msg_{row.pk.hex}" and second == f"{first}_2"


def test_a_person_sends_it_again_under_another_message_id(topic: Topic, server: MailServer):
    email(topic.owner)
    [row] = body_in_style(saved_run(topic, "A fact."))
    assert not sending.again(row)  # it still waits
    sending.deliver(row.pk)
    assert sending.again(row)
    sending.deliver(row.pk)

    ids = {mail["Message-ID"] for mail in server.mails}
    assert len(server.mails) == len(ids) == 2


def test_only_if_something_changed_is_kept(topic: Topic):
    email(topic.owner, reports="changed")

    assert body_in_style(saved_run(topic)) == []
    assert len(body_in_style(saved_run(topic, "A fact."))) == 1


def test_a_topic_chooses_otherwise_than_its_channels(topic: Topic):
    by = topic.owner.actor
    first, second = email(topic.owner), email(topic.owner, "other@example.org", reports="none")
    channels.choose(
        topic,
        by=by,
        left_out=[first],
        is_custom=True,
        reports="each",
        failures=True,
        in_digest=True,
    )

    assert [row.channel for row in body_in_style(saved_run(topic))] == [second]


def test_the_tick_finds_what_waits_and_nudges_once(topic: Topic, monkeypatch: Any):
    email(topic.owner)
    body_in_style(saved_run(topic, "A fact."))
    sent: list[str] = []
    monkeypatch.setattr(celery, "send", lambda task, pk, *, queue: sent.append(pk) or True)

    assert (Delivery.objects.dispatch(), Delivery.objects.dispatch()) == (1, 0)
    assert sent == [str(Delivery.objects.get().pk)]


def test_what_is_long_over_is_forgotten(topic: Topic, server: MailServer):
    made = email(topic.owner)
    [row] = body_in_style(saved_run(topic, "A fact."))
    sending.deliver(row.pk)
    channels.remove(made, by=topic.owner.actor)
    assert sending.forget_old() == 0

    long_ago = timezone.now() - timedelta(days=91)
    Delivery.objects.update(ended_at=long_ago)
    Channel.objects.update(removed_at=long_ago)

    sending.forget_old()
    assert not Delivery.objects.exists() and not Channel.objects.exists()


def test_anyone_who_reads_the_emails_ends_them_for_one_topic(topic: Topic):
    made = email(topic.owner)
    channels.end_for(made, topic)

    assert body_in_style(saved_run(topic, "A fact.")) == []
    assert TopicNotices.objects.get().in_digest
    assert Activity.objects.filter(kind="unsubscribed", topic=topic).exists()


def test_a_webhook_of_someone_who_isnt_an_admin_reaches_no_exempted_host(
    topic: Topic, httpserver: HTTPServer, settings: Any
):
    allow(httpserver, settings)
    httpserver.expect_request("/hook").respond_with_data("inside the network")
    with pytest.raises(InvalidValue, match="Admins can add webhooks"):
        channels.add(
            topic.owner, kind="webhook", name="x", address=httpserver.url_for("/hook"),
            by=topic.owner.actor,
        )  # fmt: skip


def test_a_webhook_of_a_former_admin_reaches_no_exempted_host_either(
    topic: Topic, httpserver: HTTPServer, settings: Any
):
    allow(httpserver, settings)
    httpserver.expect_request("/hook").respond_with_data("inside the network")
    channel = webhook(topic.owner, httpserver)
    User.objects.filter(pk=topic.owner.pk).update(is_staff=False)

    sent = channels.test(Channel.objects.get(pk=channel.pk), by=topic.owner.actor)

    assert (sent.state, sent.response) == ("failed", "")
    assert httpserver.log == []


@pytest.mark.parametrize(("is_admin", "kept"), [(True, "inside the network"), (False, "")])
def test_only_an_admin_sees_what_a_receiver_answered(
    topic: Topic, httpserver: HTTPServer, settings: Any, is_admin: bool, kept: str,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    allow(httpserver, settings)
    httpserver.expect_request("/hook").respond_with_data("inside the network", status=500)
    channel = webhook(topic.owner, httpserver)
    User.objects.filter(pk=topic.owner.pk).update(is_staff=is_admin)
    # As a public receiver would be reached by anyone.
    allowed = settings.BEACON_FETCH_ALLOW_HOSTS
    monkeypatch.setattr(sending, "allowed_hosts", lambda _owner: allowed)

    sent = channels.test(Channel.objects.get(pk=channel.pk), by=topic.owner.actor)

    assert (sent.response_code, sent.response) == (500, kept)


# --- members of a shared topic --------------------------------------------------------------------


@pytest.fixture
def member(topic: Topic, bob: User) -> Membership:
    made = sharing.add_member(topic, "bob", "viewer", by=topic.owner.actor)
    sharing.set_notify(made, wanted=True)
    email(bob, "bob@example.org")
    return made


@pytest.mark.requirement("R391")
def test_a_member_is_notified_of_a_report_without_its_content(
    topic: Topic, member: Membership, providers: Providers, run_of: Callable[[Topic], Run], server: MailServer
):  # fmt: skip
    email(topic.owner)
    cast.set_up(providers, 1, 2)
    run = run_of(topic)
    rows = {row.owner.username: row for row in Delivery.objects.all()}
    for row in rows.values():
        sending.deliver(row.pk)

    sent = {str(mail["To"]): mail.get_body(("plain",)).get_content() for mail in server.mails}
    said = run.report.summary.split(".")[0]
    assert set(rows) == {topic.owner.username, "bob"} and len(sent) == 2
    [theirs] = [body for to, body in sent.items() if "bob" in to]
    [own] = [body for to, body in sent.items() if "bob" not in to]
    assert said in own and said not in theirs
    assert f"/topics/shared/{topic.pk}/runs/{run.pk}/" in theirs
    assert f"/topics/{topic.slug}/" not in theirs and "first report" in theirs


@pytest.mark.parametrize("hidden", ["", "topic", "report", "report in quarantine"])
def test_members_are_not_notified_about_what_they_cannot_read_now(
    topic: Topic, member: Membership, hidden: str
):
    """Otherwise they would be if it is shown again later."""
    run = saved_run(topic, "A fact.")
    report = Report.objects.filter(run=run)
    if hidden == "topic":
        Topic.objects.filter(pk=topic.pk).update(sensitivity="sensitive")
    elif hidden == "report":
        report.update(sensitivity="sensitive")
    elif hidden:
        report.update(trust="quarantined")

    rows = body_in_style(run)

    assert [row.owner for row in rows] == ([] if hidden else [member.user])


@pytest.mark.parametrize(
    "end", ["removed", "turned off", "topic in Trash", "report in Trash", "sensitive"]
)
def test_what_a_member_can_no_longer_read_is_not_sent(
    topic: Topic, member: Membership, providers: Providers, run_of: Callable[[Topic], Run], end: str
):  # fmt: skip
    cast.set_up(providers, 1)
    run = run_of(topic)
    [row] = Delivery.objects.all()
    owner = topic.owner.actor
    if end == "removed":
        sharing.remove_member(member, by=owner)
    elif end == "turned off":
        sharing.set_notify(member, wanted=False)
    elif end == "topic in Trash":
        Topic.objects.get(pk=topic.pk).trash(by=owner)
    elif end == "report in Trash":
        run.report.trash(by=owner)
    else:
        type(run.report).objects.filter(pk=run.report.pk).update(sensitivity="sensitive")

    sending.deliver(row.pk)
    row.refresh_from_db()
    assert (row.state, bool(row.error)) == ("dropped", True)


def test_a_member_is_not_notified_unless_they_want_it_and_something_changed(
    topic: Topic, member: Membership, providers: Providers, run_of: Callable[[Topic], Run]
):
    Channel.objects.for_user(member.user).update(reports="changed")
    cast.set_up(providers, 1)
    run_of(topic)
    assert Delivery.objects.count() == 1
    run_of(topic)  # nothing new
    assert Delivery.objects.count() == 1
    sharing.set_notify(member, wanted=False)
    cast.set_up(providers, 1, 2, 3)
    run_of(topic)
    assert Delivery.objects.count() == 1


@pytest.mark.requirement("R392")
def test_one_click_unsubscribes_a_member_from_a_shared_topic(
    topic: Topic, member: Membership, providers: Providers, run_of: Callable[[Topic], Run], server: MailServer, client: Client
):  # fmt: skip
    cast.set_up(providers, 1)
    run_of(topic)
    [row] = Delivery.objects.all()
    sending.deliver(row.pk)
    [mail] = server.mails
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    url = mail["List-Unsubscribe"].strip(" <>")
    assert url in mail.get_body(("plain",)).get_content()

    answer = client.post(url[url.index("/unsubscribe/") :], {"List-Unsubscribe": "One-Click"})

    member.refresh_from_db()
    assert answer.status_code == 200 and not member.notify
    assert f"You won’t be notified about “{topic}” anymore." in answer.content.decode()
    assert "topic’s menu" in answer.content.decode() and not TopicNotices.objects.exists()
    assert Activity.objects.for_user(member.user).filter(kind="unsubscribed").exists()
    sharing.remove_member(member, by=topic.owner.actor)
    assert client.post(url[url.index("/unsubscribe/") :]).status_code == 404


def test_a_report_that_the_member_has_read_is_not_sent(
    topic: Topic, member: Membership, providers: Providers, run_of: Callable[[Topic], Run]
):
    cast.set_up(providers, 1)
    sharing.mark_read(member, run_of(topic).number or 0)
    [row] = Delivery.objects.all()

    sending.deliver(row.pk)

    row.refresh_from_db()
    assert (row.state, row.error) == ("dropped", "You’ve read the report.")


# --- comments -------------------------------------------------------------------------------------


@pytest.fixture
def discussed(topic: Topic, bob: User, admin: User) -> Report:
    """A report that Bob commented on, and that the admin and Carol can comment on."""
    carol = User.objects.create_user("carol")
    for person in (bob, admin, carol):
        sharing.add_member(topic, person.username, "commenter", by=topic.owner.actor)
    report = saved_run(topic, "A fact.").report
    sharing.add_comment(report, "Is it?", author=bob)
    for person in (topic.owner, bob, admin, carol):
        email(person, f"{person.username}@example.org")
    return report


def sent_for_comment(report: Report, author: User) -> list[Delivery]:
    made = sharing.add_comment(report, "A secret thought.", author=author)
    return list(Delivery.objects.filter(about=f"comment:{made.pk}").order_by("owner__username"))


@pytest.mark.requirement("R397")
def test_a_comment_notifies_the_owner_and_earlier_commenters_but_not_its_author(
    topic: Topic, discussed: Report, admin: User, bob: User, server: MailServer, client: Client
):
    rows = sent_for_comment(discussed, admin)

    assert [row.owner.username for row in rows] == ["alice", "bob"]
    for row in rows:
        sending.deliver(row.pk)
    to_owner, to_bob = (mail.get_body(("plain",)).get_content() for mail in server.mails)
    assert f"admin commented on a report for “{topic}”" in to_owner
    assert "secret thought" not in to_owner + to_bob
    assert f"/topics/{topic.slug}/runs/{discussed.run_id}/#comment-" in to_owner
    assert f"/topics/shared/{topic.pk}/runs/{discussed.run_id}/#comment-" in to_bob
    assert [row.owner.username for row in sent_for_comment(discussed, topic.owner)] == [
        "admin", "bob",
    ]  # fmt: skip
    url = server.mails[1]["List-Unsubscribe"].strip(" <>")
    answer = client.post(url[url.index("/unsubscribe/") :], {"List-Unsubscribe": "One-Click"})
    assert "emails about comments" in answer.content.decode()
    desk = Channel.objects.for_user(bob).get()
    assert (desk.comments, desk.digest, desk.reports) == (False, True, "each")
    assert [row.owner.username for row in sent_for_comment(discussed, admin)] == ["alice"]


def test_no_member_gets_a_message_about_a_comment_on_a_hidden_report(
    topic: Topic, discussed: Report, admin: User
):
    Report.objects.filter(pk=discussed.pk).update(sensitivity="sensitive")

    assert [row.owner for row in sent_for_comment(discussed, topic.owner)] == []


@pytest.mark.parametrize("end", ["removed", "off", "deleted", "sensitive", "left out"])
def test_a_comment_that_no_one_should_hear_of_anymore_is_not_sent(
    topic: Topic, discussed: Report, admin: User, bob: User, end: str
):
    alices, bobs = sent_for_comment(discussed, admin)
    if end == "removed":
        sharing.remove_member(topic.members.get(user=bob), by=topic.owner.actor)
    elif end == "off":
        Channel.objects.for_user(bob).update(comments=False)
    elif end == "deleted":
        sharing.delete_comment(discussed.comments.latest("created"), by=admin.actor)
    elif end == "sensitive":
        Report.objects.filter(pk=discussed.pk).update(sensitivity="sensitive")
    else:
        channels.end_for(alices.channel, topic)
        bobs = alices
        assert sent_for_comment(discussed, bob)[0].owner != topic.owner

    sending.deliver(bobs.pk)

    bobs.refresh_from_db()
    assert (bobs.state, bool(bobs.error)) == ("dropped", True)


def test_an_unsent_message_about_a_comment_survives_notifications_that_are_off(
    topic: Topic, discussed: Report, admin: User, server: MailServer
):
    for row in sent_for_comment(discussed, admin):  # no member has notify on
        sending.deliver(row.pk)

    assert len(server.mails) == 2
