"""Research's invariants: raw SQL breaks each, `verify` reports exactly that one, and --fix repairs it."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from memory.models import ContentItem, Revision, Topic, User
from memory.services.records.invariants import INVARIANTS
from memory.services.search.bm25 import rebuild_owner
from research.models import Delivery, Run, Schedule, Step
from research.services.reports import since_read
from research.services.runs.execution import pipeline
from research.services.schedules import scheduling
from tests.research.factories import make_hit, make_run, make_topic
from tests.research.notice_cast import body_in_style, email, saved_run
from tests.verify_cast import _forget_the_result, broken, sql  # noqa: F401

pytestmark = pytest.mark.usefixtures("no_broker")


@pytest.fixture
def topic(admin: User, bob: User) -> Topic:
    """A topic with a schedule, a report that is being sent, a follow-up step, and a stored page."""
    made = make_topic(admin)
    scheduling.set_schedule(made, by=admin.actor, preset="daily", time_zone="UTC")
    email(admin)
    run = saved_run(made, "A fact.")
    body_in_style(run)
    Step.objects.create(run=run, name="summarise", is_follow_up=True)
    ContentItem.objects.create(
        owner=admin, content="page", source=run.source, run_step=f"{run.source}/step:1",
        trust="external",
    )  # fmt: skip
    make_run(make_topic(admin, title="Tea"), saved=False)
    rebuild_owner(admin)
    return Topic.objects.get(pk=made.pk)


def test_of_a_topic_as_runs_leave_it_every_invariant_holds(topic: Topic) -> None:
    assert broken() == {}


REPAIRED = {
    "a run whose worker is gone": (
        "leases",
        "UPDATE research_run SET lease_until = :old WHERE status = 'running'",
    ),
    "a run without a lease": (
        "leases",
        "UPDATE research_run SET lease_until = NULL WHERE status = 'running'",
    ),
    "a follow-up step whose worker is gone": (
        "leases",
        (
            "UPDATE research_step SET state = 'running', attempt = 1, lease_until = :old"
            " WHERE is_follow_up"
        ),
    ),
    "a message whose worker is gone": (
        "leases",
        "UPDATE research_delivery SET state = 'sending', attempt = 1, lease_until = :old",
    ),
    "a topic that counted fewer runs than it has": (
        "run-numbers",
        "UPDATE memory_topic SET run_count = 1 WHERE run_count = 2",
    ),
    "a schedule without a next run": (
        "schedules",
        "UPDATE research_schedule SET next_run_at = NULL WHERE cron <> ''",
    ),
    "a page of a run that is gone": (
        "run-content",
        "UPDATE memory_contentitem SET source = 'run:987654', run_step = 'run:987654/step:1'",
    ),
}


@pytest.mark.parametrize(("name", "statement"), REPAIRED.values(), ids=REPAIRED)
def test_what_breaks_an_invariant_is_reported_and_repaired(
    topic: Topic, name: str, statement: str
) -> None:
    sql(statement)

    assert broken() == {name: 1}
    assert broken(fix=True) == {}
    assert broken() == {}


@pytest.mark.parametrize(
    ("name", "statement"),
    [
        (
            "waiting-research",
            "UPDATE research_run SET status = 'queued', not_before = :old WHERE status = 'running'",
        ),
        (
            "waiting-research",
            "UPDATE research_step SET not_before = :old WHERE is_follow_up",
        ),
        ("waiting-research", "UPDATE research_delivery SET not_before = :old"),
        (
            "waiting-research",
            "UPDATE research_schedule SET next_run_at = :old WHERE cron <> ''",
        ),
        ("saved-runs", "UPDATE research_run SET number = NULL WHERE number = 2"),
        (
            "saved-runs",
            "UPDATE research_run SET status = 'failed', number = NULL WHERE number = 2",
        ),
        ("citations", "UPDATE research_deltaitem SET citations = '{1,9}'"),
    ],
)
def test_what_only_a_person_can_repair_is_reported_and_stays(
    topic: Topic, name: str, statement: str
) -> None:
    sql(statement)

    assert broken(fix=True) == {name: 1}


def test_unread_reports_are_counted_again(topic: Topic) -> None:
    since_read.catch_up()
    assert broken() == {}
    sql("""UPDATE research_topicnews SET counts = jsonb_set(counts, '{unread}', '7')""")

    assert broken() == {"unread-counts": 1}
    assert broken(fix=True) == {}
    since_read.catch_up()
    assert broken() == {}


def test_a_freed_run_starts_again_and_a_freed_message_is_sent_once(topic: Topic) -> None:
    sql(REPAIRED["a run whose worker is gone"][1])
    sql(REPAIRED["a message whose worker is gone"][1])
    Delivery.objects.update(attempted_at=timezone.now())

    broken(fix=True)

    run = Run.objects.get(number=None)
    assert (run.status, run.crashes) == (Run.Status.QUEUED, 1)
    delivery = Delivery.objects.claim(Delivery.objects.get().pk)
    assert delivery is not None
    assert delivery.attempted_at is not None  # by which `sending` knows that it may have arrived
    assert Delivery.objects.claim(delivery.pk) is None


def test_what_another_worker_took_before_the_repair_is_left_to_it(topic: Topic) -> None:
    sql(REPAIRED["a follow-up step whose worker is gone"][1])
    sql(REPAIRED["a message whose worker is gone"][1])
    leases = next(one for one in INVARIANTS if one.name == "leases")
    rows = leases.broken_by()
    assert leases.fix is not None
    assert Step.objects.claim(Step.objects.get().pk) is not None
    assert Delivery.objects.claim(Delivery.objects.get().pk) is not None

    leases.fix(rows)

    assert Step.objects.get().state == Step.State.RUNNING
    assert Delivery.objects.get().state == Delivery.State.SENDING


def test_pages_that_a_person_pinned_or_a_report_cites_stay(topic: Topic) -> None:
    owner, run = topic.owner, Run.objects.get(number=2)

    def page(**fields: Any) -> ContentItem:
        given = {"source": "run:987654", "run_step": "run:987654/step:1", "trust": "external"}
        item: ContentItem = ContentItem.objects.create(
            owner=owner, content="page", **(given | fields)
        )
        return item

    lost = page()
    page(pinned=True), page(trust="owner"), page(source="agent:claude", run_step="")
    make_hit(run, 1, content_item=page())

    assert broken() == {"run-content": 1}
    assert broken(fix=True) == {}
    assert list(ContentItem.objects.exclude(trashed_at=None)) == [lost]
    revision = Revision.objects.get(record_id=lost.pk)
    assert (revision.actor, revision.reason) == (
        "maintenance",
        "it was read for a run that no longer exists",
    )


@pytest.mark.parametrize("act", ["pause", "none", "archive"])
def test_a_schedule_that_starts_no_runs_needs_no_next_run(topic: Topic, act: str) -> None:
    if act == "pause":
        scheduling.set_paused(topic, paused=True, by=topic.owner.actor)
    elif act == "none":
        scheduling.set_schedule(topic, by=topic.owner.actor, preset="none", time_zone="UTC")
    else:
        topic.change(by=topic.owner.actor, archived_at=timezone.now())
        Schedule.objects.update(next_run_at=None)

    assert broken() == {}


def test_a_schedule_that_cannot_be_read_stays_reported(topic: Topic) -> None:
    sql("UPDATE research_schedule SET cron = '99 99 * * *', next_run_at = NULL WHERE cron <> ''")

    assert broken(fix=True) == {"schedules": 1}


def test_a_follow_up_that_kills_its_workers_is_given_up_after_three(topic: Topic) -> None:
    sql(
        "UPDATE research_step SET state = 'running', crashes = 2, lease_until = :old"
        " WHERE is_follow_up"
    )
    step = Step.objects.get()

    assert Step.objects.sweep() == 1
    step.refresh_from_db()
    assert step.state == Step.State.FAILED
    assert "summarise failed: the worker stopped unexpectedly 3 times" in step.run.warnings[0]
    assert not pipeline.run_follow_up(step.pk)
