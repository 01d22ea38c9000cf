"""The doctor looks at runs, messages, what was read for runs, and what they hold of budgets."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from memory.doctor.checkup import WARN
from memory.models import CallReservation, ContentItem, Revision, Topic, User
from research.models import Delivery, Run
from tests.doctor_cast import _no_word_is_left, asked, is_found_and_mended  # noqa: F401
from tests.research.factories import make_hit, make_run, make_topic
from tests.research.notice_cast import email, laid_out, saved_run

LONG_AGO = timedelta(hours=1)


def test_a_run_whose_worker_is_gone_is_queued_again(topic: Topic) -> None:
    run = make_run(topic, saved=False, lease_until=timezone.now() - LONG_AGO)

    is_found_and_mended("runs", "1 run goes on by its row alone")
    run.refresh_from_db()
    assert (run.status, run.crashes) == (Run.Status.QUEUED, 1)


def test_a_run_that_is_at_work_is_left_alone(topic: Topic) -> None:
    run = make_run(topic, saved=False)

    assert asked("runs", fix=True).said == "No run is stalled."
    run.refresh_from_db()
    assert run.status == Run.Status.RUNNING


def test_runs_that_nobody_takes_are_told(topic: Topic) -> None:
    make_run(topic, saved=False, status="queued", not_before=timezone.now() - LONG_AGO)

    found = asked("runs")
    assert (found.state, "for more than 15 minutes: 1" in found.said) == (WARN, True)


def test_a_message_whose_worker_is_gone_waits_for_another_and_is_sent_once(topic: Topic) -> None:
    email(topic.owner)
    (delivery,) = laid_out(saved_run(topic, "A fact."))
    Delivery.objects.update(
        state=Delivery.State.SENDING, attempt=1, lease_until=timezone.now() - LONG_AGO,
        handed_at=timezone.now() - LONG_AGO,
    )  # fmt: skip

    is_found_and_mended("deliveries", "1 message is being sent by a worker that is gone")
    claimed = Delivery.objects.claim(delivery.pk)
    assert claimed is not None
    assert claimed.handed_at is not None  # by which `sending` knows that it may have arrived
    assert Delivery.objects.claim(delivery.pk) is None


def test_messages_that_wait_too_long_are_told(topic: Topic) -> None:
    email(topic.owner)
    laid_out(saved_run(topic, "A fact."))
    Delivery.objects.update(not_before=timezone.now() - LONG_AGO)

    found = asked("deliveries")
    assert (found.state, "more than 15 minutes ago: 1" in found.said) == (WARN, True)


def kept(run_id: int, owner: User, **more: object) -> ContentItem:
    told = {"source": f"run:{run_id}", "kept_with": f"run:{run_id}/step:1", "trust": "external"}
    item: ContentItem = ContentItem.objects.create(owner=owner, content="page", **(told | more))
    return item


def test_what_was_read_for_a_run_that_is_gone_goes_to_the_trash(topic: Topic) -> None:
    owner, run = topic.owner, make_run(topic)
    lost = kept(987_654, owner)
    stay = [
        kept(run.pk, owner),
        kept(987_654, owner, pinned=True),
        kept(987_654, owner, trust="owner"),
        kept(987_654, owner, source="agent:claude", kept_with="", scope="run:987654"),
    ]
    cited = kept(987_654, owner)
    make_hit(run, 1, content_item=cited)

    is_found_and_mended("content", "1 content item was kept for a run that is gone")
    assert list(ContentItem.objects.exclude(trashed_at=None)) == [lost]
    assert ContentItem.objects.live().count() == len(stay) + 1
    told = Revision.objects.get(record_id=lost.pk)
    assert (told.actor, told.reason) == ("maintenance", "the run that it was read for is gone")
    lost.refresh_from_db()
    lost.restore(by=owner.actor)
    assert lost.trashed_at is None


def test_a_run_that_failed_holds_nothing_of_a_budget(alice: User, bob: User) -> None:
    now = timezone.now()
    failed = make_run(make_topic(alice), saved=False, status="failed", finished_at=now - LONG_AGO)
    at_work = make_run(make_topic(bob), saved=False)
    before = {"tokens": 9, "created": now - 2 * LONG_AGO}
    CallReservation.objects.create(owner=alice, source=failed.source, **before)
    CallReservation.objects.create(owner=bob, source=at_work.source, **before)
    CallReservation.objects.create(owner=bob, source=failed.source, **before)  # none of bob's runs

    is_found_and_mended("budgets", "1 call of a run that has ended")
    assert set(CallReservation.objects.values_list("owner", flat=True)) == {bob.pk}
