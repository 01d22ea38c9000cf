"""The published copy of one owner's topics in Redis, in seed 000's shape (decision 5, R237)."""

from __future__ import annotations

import json
from typing import Any

import redis
import structlog
from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from memory import topic_memory
from memory.actors import SYSTEM
from memory.models import Activity, Topic

logger = structlog.get_logger(__name__)

KEY = "beacon:memory:{slug}"


def publish(topic_id: Any, slug_before: str = "") -> bool:
    """Write the topic's JSON to Redis, or delete it where it may not stand there (any more).

    `slug_before` is the slug under which it stood until now, if it was renamed.

    Does nothing unless BEACON_PUBLISH_OWNER names the topic's owner.  The key lives for
    2,592,000 s (BEACON_TOPIC_TTL_SECONDS) or until the topic's own expiry if that is later.
    Redis being down is no failure of the caller's: it is noted in the activity log; returns
    whether Redis took it.
    """
    if not settings.BEACON_PUBLISH_OWNER:
        return False
    topic = Topic.objects.select_related("owner").filter(pk=topic_id).first()
    if topic is None or topic.owner.get_username() != settings.BEACON_PUBLISH_OWNER:
        return False
    key = KEY.format(slug=topic.slug)
    old_key = KEY.format(slug=slug_before or topic.slug)
    may_stand = topic.trashed_at is None and not topic.private and topic.memory_is_live()
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_connect_timeout=0.5, socket_timeout=0.5
        ) as server:
            if old_key != key:
                server.delete(old_key)
            if may_stand:
                server.set(key, json.dumps(topic_memory.agent_memory(topic)), ex=_seconds(topic))
            else:
                server.delete(key)
    except redis.RedisError as exc:
        logger.warning("topic not published", topic=topic.slug, error=type(exc).__name__)
        Activity.log(
            topic.owner, SYSTEM, "publish-failed", subject=topic, warning=True,
            why=_("Redis does not answer; the copy there is renewed by the next save"),
        )  # fmt: skip
        return False
    return True


def _seconds(topic: Topic) -> int:
    left = (topic.expires_at - timezone.now()).total_seconds() if topic.expires_at else 0
    # The seed's number exactly, unless the topic lives longer (a rarely scheduled one).
    longer = left > settings.BEACON_TOPIC_TTL_SECONDS + 60
    return round(left) if longer else settings.BEACON_TOPIC_TTL_SECONDS
