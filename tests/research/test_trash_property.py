"""A topic moved to Trash and restored: its archive is the same as before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from memory.models import Note, Observation, SeenUrl, Source, Topic, TopicFact, User
from research.models import Report
from research.pages import shares
from research.services.runs import trash as run_trash
from research.services.schedules import scheduling
from research.services.topics.settings import editing as topic_editing
from tests.research.archived import state_of
from tests.research.factories import (
    make_fact,
    make_hit,
    make_item,
    make_report,
    make_run,
    make_topic,
)

WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=21, max_size=40
)
FACTS = st.lists(
    st.tuples(
        WORDS,
        st.sampled_from(["current", "struck", "retired"]),
        st.sampled_from(["open", "append-only", "read-only"]),
        st.booleans(),
    ),
    max_size=6,
    unique_by=lambda fact: fact[0].casefold(),
)
RUNS = st.lists(st.lists(st.integers(1, 6), max_size=4, unique=True), min_size=1, max_size=3)
SMALL = settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # a failure is reported as it was found: shrinking it takes minutes
)


def made(owner: User, facts: list[Any], runs: list[list[int]], paused: bool) -> Topic:
    """Return a topic with runs that returned pages, facts of all states, notes and a schedule."""
    topic = make_topic(owner, "Everything at once")
    scheduling.set_schedule(topic, by=owner.actor, preset="weekly", time_zone="Europe/Berlin")
    scheduling.set_paused(topic, paused=paused, by=owner.actor)
    for number, pages in enumerate(runs, start=1):
        _ran(topic, number, pages)
    run = topic.runs.order_by("number").first()
    for place, (text, state, lock, pinned) in enumerate(facts):
        make_fact(topic, text, run, state=state, lock=lock, pinned=pinned, position=place)
    Note.objects.create(owner=owner, topic=topic, content="Kept for it", source=run.source)
    Observation.objects.create(
        owner=owner, topic=topic, content="Found for it", source=run.source, trust="external",
        category="finding", pinned=paused,
    )  # fmt: skip
    shares.make_link(run.report, days=7, note="the board", by=owner.actor)
    return topic


def _ran(topic: Topic, number: int, pages: list[int]) -> None:
    run, now = make_run(topic), timezone.now()
    make_report(run, summary=f"What run {number} found.")
    Topic.objects.filter(pk=topic.pk).update(summary=f"What run {number} found.")
    fact = make_fact(topic, f"Run {number} found that it is so.", run, position=number)
    make_item(run, "confirmed", fact.text, previous_fact=fact)
    for place, page in enumerate(pages, start=1):
        hit = make_hit(run, page)
        seen = {"returned_in": number, "place": place, "returned_at": now}
        SeenUrl.objects.update_or_create(topic=topic, url=hit.url, defaults=seen)
        ledger = {"last_run": number, "last_at": now + timedelta(microseconds=place)}
        first = {"first_run": number, "domain": "example.org", **ledger}
        Source.objects.update_or_create(
            topic=topic, url=hit.url, defaults=ledger, create_defaults=first
        )


@pytest.mark.slow
class Back(TestCase):
    """The promise of the trash."""

    @SMALL
    @given(FACTS, RUNS, st.booleans())
    def test_a_topic_is_restored_as_it_was(self, facts: Any, runs: Any, paused: bool) -> None:
        alice = User.objects.create_user("alice")
        topic = made(alice, facts, runs, paused)
        before = state_of(alice)
        topic_editing.trash_topic(Topic.objects.get(pk=topic.pk), by=alice.actor)
        topic_editing.restore_topic(Topic.objects.get(pk=topic.pk), by=alice.actor)
        assert state_of(alice) == before

    @SMALL
    @given(FACTS, RUNS, st.booleans(), st.data())
    def test_so_does_any_of_its_runs(
        self, facts: Any, runs: Any, paused: bool, data: st.DataObject
    ) -> None:
        alice = User.objects.create_user("alice")
        topic = made(alice, facts, runs, paused)
        before = state_of(alice)
        number = data.draw(st.integers(1, len(runs)))
        report = Report.objects.get(run__topic=topic, run__number=number)
        run_trash.trash_run(report, by=alice.actor, why="astray")
        assert TopicFact.objects.filter(topic=topic).current().count() <= 10
        run_trash.restore_run(report, by=alice.actor)
        assert state_of(alice) == before
