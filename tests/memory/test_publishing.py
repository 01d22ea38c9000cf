"""The published copy of one owner's topics in a real Redis."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import transaction
from django.utils import timezone

from beacon_site.worker_threads import FINDS_NOTHING
from memory.models import Activity, PublishDue, Topic, TopicFact
from memory.services import topic_memory
from memory.tasks import publish_due

TTL = 2_592_000


@pytest.fixture
def server(settings: Any) -> Iterator[redis.Redis]:
    """The tests' own Redis, with alice as the published owner."""
    settings.BEACON_PUBLISH_OWNER = "alice"
    with redis.Redis.from_url(settings.REDIS_URL) as opened:
        yield opened
        opened.delete(*opened.keys("beacon:memory:*") or ["none"])


@pytest.fixture
def topic(alice: Any) -> Topic:
    return live(Topic.objects.create_topic(owner=alice, title="AI agents", by=alice.actor))


def live(topic: Topic, days: int = 30) -> Topic:
    Topic.objects.filter(pk=topic.pk).update(expires_at=timezone.now() + timedelta(days=days))
    topic.refresh_from_db()
    return topic


@pytest.mark.requirement("R237")
def test_the_copy_is_at_the_seeds_key_for_the_seeds_time(topic: Topic, server: redis.Redis):
    assert topic_memory.publish(topic.pk)

    stored = json.loads(server.get("beacon:memory:ai-agents"))  # type: ignore[arg-type]
    assert list(stored) == [
        "topic", "seenUrls", "keyFacts", "lastRunAt", "runCount", "reportSummary",
    ]  # fmt: skip
    assert TTL - 5 <= server.ttl("beacon:memory:ai-agents") <= TTL  # type: ignore[operator]


def test_a_topic_that_lives_longer_is_published_for_longer(topic: Topic, server: redis.Redis):
    live(topic, days=180)

    topic_memory.publish(topic.pk)

    assert server.ttl("beacon:memory:ai-agents") > 179 * 86_400  # type: ignore[operator]


@pytest.mark.parametrize("hides", ["trash", "private", "lapse"])
def test_a_topic_that_cannot_stand_there_is_deleted_at_once(
    topic: Topic, server: redis.Redis, hides: str
):
    topic_memory.publish(topic.pk)
    if hides == "trash":
        topic.trash(by=topic.owner.actor)
    elif hides == "private":
        topic.change(by=topic.owner.actor, private=True)
    else:
        topic.expire_now(by=topic.owner.actor)

    topic_memory.publish(topic.pk)

    assert server.get("beacon:memory:ai-agents") is None


@pytest.mark.parametrize("owner", ["", "bob"])
def test_only_the_named_owners_topics_are_published(
    topic: Topic, server: redis.Redis, settings: Any, owner: str
):
    settings.BEACON_PUBLISH_OWNER = owner

    assert not topic_memory.publish(topic.pk)
    assert server.get("beacon:memory:ai-agents") is None


@pytest.mark.requirement("R56")
@pytest.mark.parametrize("kind", ["closed", "silent"])
def test_a_redis_that_does_not_answer_is_noted_and_costs_about_a_second(
    topic: Topic, settings: Any, kind: str
):
    settings.BEACON_PUBLISH_OWNER = "alice"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1] if kind == "silent" else 1
        settings.REDIS_URL = f"redis://127.0.0.1:{port}/0"
        began = time.monotonic()

        assert not topic_memory.publish(topic.pk)

    assert time.monotonic() - began < 3
    assert Activity.objects.get(kind="publish-failed").is_warning


KEY = "beacon:memory:ai-agents"
FACT = "Agents book travel on their own since May 2026."


def facts_in(server: redis.Redis) -> list[str]:
    facts: list[str] = json.loads(server.get(KEY) or "{}").get("keyFacts", [])  # type: ignore[arg-type]
    return facts


@pytest.mark.django_db(transaction=True)
def test_the_copy_follows_what_people_do_with_facts(topic: Topic, server: redis.Redis):
    fact = TopicFact.objects.add(topic, FACT, by=topic.owner.actor)
    assert facts_in(server) == [FACT]

    fact.edit(FACT.replace("May", "June"), by=topic.owner.actor)
    assert facts_in(server) == [FACT.replace("May", "June")]

    fact.strike(by=topic.owner.actor)
    assert facts_in(server) == []
    assert not PublishDue.objects.exists()
    assert FINDS_NOTHING[publish_due.name]()


@pytest.mark.django_db(transaction=True)
def test_a_copy_that_redis_did_not_delete_goes_once_it_answers(
    topic: Topic, server: redis.Redis, settings: Any
):
    topic_memory.publish(topic.pk)
    url, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
    topic.trash(by=topic.owner.actor)
    topic.purge(by=topic.owner.actor)
    assert server.get(KEY) is not None

    settings.REDIS_URL = url
    publish_due()

    assert server.get(KEY) is None
    assert not PublishDue.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_a_renamed_topic_leaves_no_copy_under_its_old_name(topic: Topic, server: redis.Redis):
    topic_memory.publish(topic.pk)

    topic.rename("Software agents", by=topic.owner.actor)

    assert [server.exists(KEY), server.exists("beacon:memory:software-agents")] == [0, 1]


@pytest.mark.django_db(transaction=True)
def test_a_redis_that_is_down_is_asked_once_for_a_change_of_many_facts(
    topic: Topic, settings: Any, monkeypatch: pytest.MonkeyPatch
):
    settings.BEACON_PUBLISH_OWNER, settings.REDIS_URL = "alice", "redis://127.0.0.1:1/0"
    with transaction.atomic():
        for number in range(3):
            TopicFact.objects.add(topic, f"{FACT} {number}", by=topic.owner.actor)

    assert not FINDS_NOTHING[publish_due.name]()
    publish_due()

    assert Activity.objects.filter(kind="publish-failed").count() == 1
    assert PublishDue.objects.exclude(tried_at=None).count() == 3


def test_without_a_published_owner_nothing_is_marked(topic: Topic):
    TopicFact.objects.add(topic, FACT, by=topic.owner.actor)

    assert not PublishDue.objects.exists()
