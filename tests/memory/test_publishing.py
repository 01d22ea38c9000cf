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
from django.utils import timezone

from memory import publishing
from memory.models import Activity, Topic

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
def test_the_copy_stands_at_the_seeds_key_for_the_seeds_time(topic: Topic, server: redis.Redis):
    assert publishing.publish(topic.pk)

    stored = json.loads(server.get("beacon:memory:ai-agents"))  # type: ignore[arg-type]
    assert list(stored) == [
        "topic", "seenUrls", "keyFacts", "lastRunAt", "runCount", "reportSummary",
    ]  # fmt: skip
    assert TTL - 5 <= server.ttl("beacon:memory:ai-agents") <= TTL  # type: ignore[operator]


def test_a_topic_that_lives_longer_is_published_for_longer(topic: Topic, server: redis.Redis):
    live(topic, days=180)

    publishing.publish(topic.pk)

    assert server.ttl("beacon:memory:ai-agents") > 179 * 86_400  # type: ignore[operator]


@pytest.mark.parametrize("hides", ["trash", "private", "lapse"])
def test_a_topic_that_may_not_stand_there_is_deleted_at_once(
    topic: Topic, server: redis.Redis, hides: str
):
    publishing.publish(topic.pk)
    if hides == "trash":
        topic.trash(by=topic.owner.actor)
    elif hides == "private":
        topic.change(by=topic.owner.actor, private=True)
    else:
        topic.let_lapse(by=topic.owner.actor)

    publishing.publish(topic.pk)

    assert server.get("beacon:memory:ai-agents") is None


@pytest.mark.parametrize("owner", ["", "bob"])
def test_only_the_named_owners_topics_are_published(
    topic: Topic, server: redis.Redis, settings: Any, owner: str
):
    settings.BEACON_PUBLISH_OWNER = owner

    assert not publishing.publish(topic.pk)
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

        assert not publishing.publish(topic.pk)

    assert time.monotonic() - began < 3
    assert Activity.objects.get(kind="publish-failed").is_warning
