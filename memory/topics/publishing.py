"""The published copy of one owner's topics in Redis, in seed 000's format (decision 5, R237).

Data flow: a change of a topic or its facts calls `follow` -> a PublishDue row in the same
transaction -> after the commit, `process_due` writes or deletes the key and deletes the row -> every
minute, a scheduled task retries what failed or was interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import redis
import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from memory.core.actors import SYSTEM
from memory.core.errors import InvalidValue
from memory.models import Activity, PublishDue, Topic, User
from memory.topics.memory import agent_memory

logger = structlog.get_logger(__name__)

KEY = "beacon:memory:{slug}"


def follow(owner_id: Any, topic_id: Any, slug: str = "") -> None:
    """Mark the copy under `slug` (empty: the topic's own) as outdated, and update it after the
    commit.

    Call it in the transaction of a change. Does nothing unless BEACON_PUBLISH_OWNER names the
    owner.
    """
    if not _is_published(owner_id):
        return
    if not slug:
        slug = Topic.objects.values_list("slug", flat=True).get(pk=topic_id)
    PublishDue.objects.create(owner_id=owner_id, slug=slug)
    transaction.on_commit(partial(process_due, owner_id, slug))


def publish(topic_id: Any) -> bool:
    """Write the topic's JSON to Redis, or delete it if the topic must not be published.

    Does nothing unless BEACON_PUBLISH_OWNER names the topic's owner. The key expires after
    2,592,000 s (BEACON_TOPIC_TTL_SECONDS), or with the topic if that is later. If Redis is down,
    that is logged in Activity and `process_all_due` retries. Returns whether it was written.
    """
    if not settings.BEACON_PUBLISH_OWNER:
        return False
    topic = Topic.objects.filter(pk=topic_id).first()
    if topic is None or not _is_published(topic.owner_id):
        return False
    PublishDue.objects.create(owner_id=topic.owner_id, slug=topic.slug)
    return process_due(topic.owner_id, topic.slug)


def process_all_due() -> None:
    """Retry outdated copies. Stops at the first failure, which means that Redis is down."""
    for owner_id, slug in PublishDue.objects.order_by().values_list("owner_id", "slug").distinct():
        if not process_due(owner_id, slug, again=True):
            return


def renew_all() -> None:
    """Mark every copy as outdated, including those of deleted topics, after a restore."""
    owner = User.objects.filter(username=settings.BEACON_PUBLISH_OWNER).first()
    if owner is None:
        return
    slugs = set(Topic.objects.of(owner).live().values_list("slug", flat=True))
    try:
        with _server() as server:
            slugs |= {key.decode().removeprefix(KEY.format(slug="")) for key in _copies(server)}
    except redis.RedisError as exc:
        logger.warning("copies in Redis not checked", error=type(exc).__name__)
    PublishDue.objects.bulk_create(PublishDue(owner=owner, slug=slug[:80]) for slug in slugs)


def _copies(server: redis.Redis) -> Iterator[bytes]:
    yield from server.scan_iter(match=KEY.format(slug="*"), count=1000)


def process_due(owner_id: Any, slug: str, *, again: bool = False) -> bool:
    """Update the copy under `slug` if it is outdated. Return whether it is current.

    Without `again`, a mark that was already tried is skipped. Ten changed facts leave ten marks,
    but Redis is asked only once while it is down.
    """
    with transaction.atomic():
        # Two concurrent updates could leave the older state in Redis, so there is one at a time per slug.
        lock_until_commit(LockId.PUBLISHED_SLUG, slug)
        marks = PublishDue.objects.filter(owner_id=owner_id, slug=slug)
        untried = marks.filter(tried_at=None)
        if not (marks if again else untried).exists():
            return not marks.exists()
        is_news = untried.exists()
        # Changes committed from here on have their own mark.
        seen = list(marks.values_list("pk", flat=True))
        topic = Topic.objects.live().filter(owner=owner_id, slug=slug).first()
        problem = _write(slug, topic) if _is_published(owner_id) else ""
        if not problem:
            marks.filter(pk__in=seen).delete()
            return True
        marks.filter(pk__in=seen).update(tried_at=timezone.now())
    logger.warning("topic not published", topic=slug, error=problem)
    if is_news:
        Activity.log(
            User.objects.get(pk=owner_id), SYSTEM, "publish-failed", subject=topic, warning=True,
            why=_("Redis isn’t responding. The copy there will be updated as soon as Redis responds."),
        )  # fmt: skip
    return False


def delete_copies(owner: User) -> None:
    """Delete all copies of an account that is being deleted.

    Raises InvalidValue if Redis isn't responding, because a retry isn't possible without the
    account.
    """
    if not _is_published(owner.pk):
        return
    slugs = set(Topic.objects.of(owner).values_list("slug", flat=True))
    slugs |= set(PublishDue.objects.filter(owner=owner).values_list("slug", flat=True))
    try:
        with _server() as server:
            server.delete(*[KEY.format(slug=slug) for slug in slugs or {""}])
    except redis.RedisError as exc:
        raise InvalidValue(
            _(
                "Nothing was deleted. This account’s topics are published in Redis, which isn’t responding, so they can’t be removed there. Try again once Redis is running."
            )
        ) from exc


def _server() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=0.5, socket_timeout=0.5)


def _is_published(owner_id: Any) -> bool:
    """Whether BEACON_PUBLISH_OWNER names this owner."""
    name = settings.BEACON_PUBLISH_OWNER
    return bool(name) and User.objects.filter(pk=owner_id, username=name).exists()


def _write(slug: str, topic: Topic | None) -> str:
    """Store or delete the key. Return the type of error, or "" on success."""
    may_stand = topic is not None and not topic.private and topic.memory_is_live()
    key = KEY.format(slug=slug)
    try:
        with _server() as server:
            if topic is not None and may_stand:
                server.set(key, json.dumps(agent_memory(topic)), ex=_seconds(topic))
            else:
                server.delete(key)
    except redis.RedisError as exc:
        return type(exc).__name__
    return ""


def _seconds(topic: Topic) -> int:
    left = (topic.expires_at - timezone.now()).total_seconds() if topic.expires_at else 0
    # Exactly the seed's value, unless the topic lives longer (a rarely scheduled one).
    longer = left > settings.BEACON_TOPIC_TTL_SECONDS + 60
    return round(left) if longer else settings.BEACON_TOPIC_TTL_SECONDS
