"""Digests: when they are sent, what they contain, and that no run is in two."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import timezone
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.models import Activity, Topic, User
from research.models import Delivery, Digest, DigestEntry, DigestSettings, Run
from research.services.notifications import digests, sending
from research.services.reports import since_read
from research.services.topics import sharing
from tests.research.factories import make_item, make_report, make_run, make_topic
from tests.research.mail_server import MailServer, use
from tests.research.notice_cast import email, saved_run

MONDAY = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


@pytest.fixture
def chosen(alice: User) -> DigestSettings:
    """A digest every day at seven; the next one is due."""
    digests.save_settings(alice, by=alice.actor, frequency="daily", hour=7, weekday=1)
    DigestSettings.objects.update(next_at=timezone.now())
    return digests.settings_of(alice)


def due_again() -> None:
    DigestSettings.objects.update(next_at=timezone.now())


def test_who_changes_their_time_zone_gets_the_next_digest_at_its_hour_there(alice: User):
    with time_machine.travel(datetime(2026, 11, 23, 12, tzinfo=UTC), tick=False):
        digests.save_settings(alice, by=alice.actor, frequency="daily", hour=7)
        User.objects.filter(pk=alice.pk).update(time_zone="Asia/Kolkata")

        assert digests.make_due() == 0

        assert DigestSettings.objects.get().next_at == datetime(2026, 11, 24, 1, 30, tzinfo=UTC)


def test_a_digest_that_was_due_before_the_time_zone_changed_is_made_all_the_same(alice: User):
    with time_machine.travel(datetime(2026, 11, 23, 12, tzinfo=UTC), tick=False):
        digests.save_settings(alice, by=alice.actor, frequency="daily", hour=7)
        DigestSettings.objects.update(next_at=timezone.now())
        User.objects.filter(pk=alice.pk).update(time_zone="Asia/Kolkata")

        assert digests.make_due() == 1

        assert DigestSettings.objects.get().next_at == datetime(2026, 11, 24, 1, 30, tzinfo=UTC)


def test_it_is_due_at_its_hour_in_the_owners_own_zone(alice: User):
    User.objects.filter(pk=alice.pk).update(time_zone="Asia/Kolkata")
    alice.refresh_from_db()
    with time_machine.travel(MONDAY, tick=False):
        daily = digests.save_settings(alice, by=alice.actor, frequency="daily", hour=7, weekday=1)
        assert daily.next_at == datetime(2026, 11, 24, 1, 30, tzinfo=UTC)
        weekly = digests.save_settings(alice, by=alice.actor, frequency="weekly", hour=7, weekday=0)
        assert weekly.next_at == datetime(2026, 11, 29, 1, 30, tzinfo=UTC)
        never = digests.save_settings(alice, by=alice.actor, frequency="never", hour=7, weekday=0)
        assert never.next_at is None


def test_it_reports_changes_quiet_topics_and_failures(alice: User, chosen: DigestSettings):
    saved_run(make_topic(alice, "Databases"), "Version 18.1 is out.", "Version 13 has ended.")
    quiet = make_topic(alice, "Orchids")
    saved_run(quiet)
    DigestEntry.objects.create(  # its baseline was in an earlier one
        digest=Digest.objects.create(owner=alice, slot=timezone.now() - timedelta(days=1),
                                     created=timezone.now() - timedelta(minutes=1)),
        run=Run.objects.get(topic=quiet, number=1),
    )  # fmt: skip
    make_run(
        make_topic(alice, "Ferries"), saved=False, status="failed", error="no service answered",
        finished_at=timezone.now(),
    )  # fmt: skip

    assert digests.make_due() == 1

    said = digests.content(Digest.objects.for_user(alice).first())
    assert [(p.topic.title, len(p.items)) for p in said.parts] == [("Databases", 2)]
    assert [part.topic.title for part in said.quiet] == ["Orchids"]
    assert [(p.topic.title, p.failed.error) for p in said.failed if p.failed] == [
        ("Ferries", "no service answered")
    ]
    assert said.line == "2 changes in 1 topic · 1 topic with nothing new · 1 failed"


def test_the_summary_of_a_first_report_has_no_markup(alice: User, chosen: DigestSettings):
    make_report(make_run(make_topic(alice)), summary="It **burned**. [1] *(unsupported)*", delta="")
    digests.make_due()

    (part,) = digests.content(Digest.objects.for_user(alice).get()).parts
    assert part.summary == "It burned. (unsupported)"


def test_what_was_withheld_is_counted_and_not_told(alice: User, chosen: DigestSettings):
    run = saved_run(make_topic(alice), "Version 18.1 is out.")
    make_item(run, "new", "Nobody asked for this.", hidden_reason="not what the intent asks for")
    digests.make_due()

    said = digests.content(Digest.objects.get())
    assert (said.changes, said.filtered_out) == (1, 1)


def test_each_run_is_in_one_digest_only(alice: User, chosen: DigestSettings):
    topic = make_topic(alice)
    saved_run(topic, "A fact.")
    digests.make_due()
    saved_run(topic, "Another fact.")
    due_again()
    digests.make_due()

    newest, oldest = Digest.objects.for_user(alice)
    told = [[i.sentence for i in digests.content(d).parts[0].items] for d in (oldest, newest)]
    assert told == [["A fact."], ["Another fact."]]


def test_one_account_that_fails_keeps_no_other_from_its_digest(
    alice: User, bob: User, chosen: DigestSettings, monkeypatch: Any
):
    digests.save_settings(bob, by=bob.actor, frequency="daily", hour=7, weekday=1)
    DigestSettings.objects.filter(pk=bob.pk).update(next_at=timezone.now())
    saved_run(make_topic(bob), "A fact.")
    whole = digests.make

    def broken(settings: DigestSettings, slot: datetime) -> Digest | None:
        if settings.owner_id == alice.pk:
            raise ValueError("alice's rows are broken")
        return whole(settings, slot)

    monkeypatch.setattr(digests, "make", broken)
    with pytest.raises(ValueError, match="alice"):
        digests.make_due()

    assert Digest.objects.get().owner == bob
    assert DigestSettings.objects.get(owner=alice).next_at <= timezone.now()


def test_two_beats_make_one_digest(alice: User, chosen: DigestSettings, monkeypatch: Any):
    saved_run(make_topic(alice), "A fact.")
    email(alice)
    slot = DigestSettings.objects.get().next_at
    digests.make_due()
    DigestSettings.objects.update(next_at=slot)  # as the other beat still saw it

    assert digests.make(chosen, timezone.now()) is None
    assert (Digest.objects.count(), Delivery.objects.count()) == (1, 1)


def test_with_nothing_to_tell_none_is_created_unless_it_is_wanted(
    alice: User, chosen: DigestSettings
):
    topic = make_topic(alice)
    saved_run(topic)
    Run.objects.filter(number=1).update(finished_at=timezone.now() - timedelta(days=3))
    digests.make_due()
    assert not Digest.objects.exists()

    DigestSettings.objects.update(send_if_empty=True)
    due_again()
    digests.make_due()
    assert [part.topic for part in digests.content(Digest.objects.get()).quiet] == [topic]


def test_topics_that_were_taken_out_or_trashed_are_not_in_it(alice: User, chosen: DigestSettings):
    out, trashed, kept = (make_topic(alice, name) for name in ("Out", "Trashed", "Kept"))
    for topic in (out, trashed, kept):
        saved_run(topic, f"A fact about {topic}.")
    digests.save_settings(
        alice, by=alice.actor, left_out=[out], frequency="daily", hour=7, weekday=1
    )
    due_again()
    digests.make_due()
    trashed.trash(by=alice.actor)

    said = digests.content(Digest.objects.get())
    assert [part.topic.title for part in said.parts] == ["Kept"]


def test_another_owners_runs_never_are_in_it(alice: User, bob: User, chosen: DigestSettings):
    saved_run(make_topic(bob), "A secret of Bob.")
    digests.make_due()

    assert not Digest.objects.exists()


def test_it_is_mailed_in_both_forms(alice: User, chosen: DigestSettings, settings: Any):
    email(alice)
    email(alice, "other@example.org", digest=False)
    saved_run(make_topic(alice, "A <b>bold</b> & name"), "Costs < 5 & > 3.")
    digests.make_due()
    with MailServer() as server:
        use(server, settings)
        [row] = Delivery.objects.all()
        sending.deliver(row.pk)

    [mail] = server.mails
    text, html = (str(part.get_content()) for part in mail.iter_parts())
    assert "- New: Costs < 5 & > 3." in text and "A <b>bold</b> & name" in text
    assert "Costs &lt; 5 &amp; &gt; 3." in html and "<b>bold</b>" not in html
    assert "/unsubscribe/" in text and mail["Subject"].startswith("Digest for ")
    assert Activity.objects.filter(kind="digest-created").exists()


@pytest.mark.requirement("R392")
@pytest.mark.parametrize(
    ("end", "how"),
    [
        ("", "topic"), ("", "account"), ("removed", ""), ("turned off", ""), ("read", ""),
        ("sensitive", ""),
    ],
)  # fmt: skip
def test_a_members_own_digest_has_the_unread_reports_of_shared_topics_without_their_content(
    alice: User, bob: User, admin: User, chosen: DigestSettings, settings: Any, end: str, how: str
):
    topic = make_topic(bob, "Ferries")
    member = sharing.add_member(topic, "alice", "viewer", by=bob.actor)
    sharing.set_notify(member, wanted=True)
    email(alice)
    saved_run(topic, "The ferry is late.")
    sharing.mark_read(member, 1)
    saved_run(topic, "The ferry is late again.", "It rains.")
    digests.make_due()
    digest = Digest.objects.for_user(alice).get()
    saved_run(topic, "After the digest.")
    if end == "removed":
        sharing.remove_member(member, by=bob.actor)
    elif end == "turned off":
        sharing.set_notify(member, wanted=False)
    elif end == "read":
        sharing.mark_read(member, 3)
    elif end == "sensitive":
        Topic.objects.filter(pk=topic.pk).update(sensitivity="sensitive")
    with MailServer() as server:
        use(server, settings)
        sending.deliver(Delivery.objects.get(digest=digest).pk)

    if end:
        assert not server.mails and digests.content(digest).is_empty
        return
    [mail] = server.mails
    text, html = (str(part.get_content()) for part in mail.iter_parts())
    [part] = digests.content(digest).shared
    assert (len(part.runs), len(part.items)) == (2, 3)
    assert "2 unread reports, 3 changes" in text and "2 unread reports, 3 changes" in html
    assert "late" not in text + html and f"/topics/shared/{topic.pk}/" in text
    assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    row = Delivery.objects.get(digest=digest)
    if how == "topic":
        sending.forget_topic(topic)
    else:
        make_topic(admin, "Trains")
        admin.delete()  # another account's end changes nothing
        assert Delivery.objects.get(pk=row.pk).request == row.request != ""
        bob.delete()
    assert Delivery.objects.get(pk=row.pk).request == ""


def test_a_digest_loads_only_the_last_shared_reports_and_not_their_text(
    alice: User,
    bob: User,
    chosen: DigestSettings,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: Any,
):
    monkeypatch.setattr(since_read, "MAX_RUNS", 2)
    for title in ("Ferries", "Trains"):
        topic = make_topic(bob, title)
        member = sharing.add_member(topic, "alice", "viewer", by=bob.actor)
        sharing.set_notify(member, wanted=True)
        for n in range(4):
            saved_run(topic, f"{title} are late in week {n}.")
    digests.make_due()
    digest = Digest.objects.for_user(alice).select_related("owner").get()

    with django_assert_num_queries(2) as asked:
        parts = digests._shared(digest)

    numbers = [[run.number for run in part.runs] for part in parts]
    assert numbers == [[4, 5], [4, 5]] and all(part.items for part in parts)
    assert not any(f'"{text}"' in asked[0]["sql"] for text in ("body", "delta", "checks"))


def test_a_member_without_notifications_or_news_gets_no_digest(
    alice: User, bob: User, chosen: DigestSettings
):
    topic = make_topic(bob, "Ferries")
    member = sharing.add_member(topic, "alice", "viewer", by=bob.actor)
    saved_run(topic, "The ferry is late.")
    digests.make_due()
    sharing.set_notify(member, wanted=True)
    sharing.mark_read(member, 2)
    saved_run(topic)  # nothing new
    due_again()
    digests.make_due()

    assert not Digest.objects.exists()


@settings(max_examples=60, deadline=None)
@given(
    at=st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Pacific/Apia"]),
    frequency=st.sampled_from(["daily", "weekly"]),
    hour=st.integers(0, 23),
    weekday=st.integers(0, 6),
)
def test_the_next_one_is_always_ahead_and_never_further_than_its_period(
    at: datetime, zone: str, frequency: str, hour: int, weekday: int
):
    owner = User(username="a", time_zone=zone)
    made = DigestSettings(owner=owner, frequency=frequency, hour=hour, weekday=weekday)

    found = digests.next_at(made, at)

    period = timedelta(days=1 if frequency == "daily" else 7)
    assert found is not None and at < found <= at + period + timedelta(hours=2)


def test_the_number_of_queries_does_not_depend_on_the_runs(
    alice: User, chosen: DigestSettings, django_assert_num_queries: Any
):
    for number in range(6):
        saved_run(make_topic(alice, f"Topic {number}"), "A fact.", "Another.")
    digests.make_due()
    digest = Digest.objects.get()

    with django_assert_num_queries(5):
        digests.content(digest)


def test_a_slot_that_an_archive_took_is_passed_over_and_its_runs_wait(
    alice: User, chosen: DigestSettings
):
    saved_run(make_topic(alice), "A fact.")
    early = timezone.now() - timedelta(days=2)
    slot = DigestSettings.objects.get().next_at
    Digest.objects.create(owner=alice, slot=slot, created=early)
    digests.make_due()
    assert not DigestEntry.objects.exists()
    due_again()
    digests.make_due()

    assert DigestEntry.objects.count() == 2


def test_a_failure_that_was_told_and_then_fixed_is_reported_as_what_it_became(
    alice: User, chosen: DigestSettings
):
    run = make_run(make_topic(alice), saved=False, status="failed", error="no service answered",
                   finished_at=timezone.now())  # fmt: skip
    digests.make_due()
    assert DigestEntry.objects.filter(run=run).exists()

    assert run.retry(by=alice.actor)
    Run.objects.filter(pk=run.pk).update(status="succeeded", number=1, finished_at=timezone.now())
    make_report(run)
    due_again()
    digests.make_due()

    newest = Digest.objects.for_user(alice).first()
    assert newest is not None
    assert [entry.run for entry in newest.entries.all()] == [run]


def test_a_topic_that_is_purged_leaves_nothing_in_a_digest(alice: User, chosen: DigestSettings):
    topic: Topic = make_topic(alice)
    saved_run(topic, "A fact.")
    digests.make_due()
    topic.trash(by=alice.actor)
    topic.purge(by=alice.actor)

    assert digests.content(Digest.objects.get()).parts == []
