"""What was sent of a topic or run that is deleted for good goes with it.

A delivery about a run goes by itself.  A digest tells of many topics, so its row stays; of the
words that were sent nothing does, for those about one topic cannot be cut out.
"""

from __future__ import annotations

from typing import Any

from memory.actors import Actor
from memory.models import Topic
from research.models import Delivery, RemovedRun, Report


def forget_topic(topic: Topic) -> None:
    """Empty what is kept of the digests in which the topic stands, before it is deleted."""
    _forget(digest__entries__run__topic=topic)


def forget_run(record: Report | RemovedRun, _by: Actor) -> None:
    """Empty what is kept of the digest in which the record's run stands, before it is deleted."""
    _forget(digest__entries__run=record.run_id)


def _forget(**of: Any) -> None:
    told = list(Delivery.objects.filter(**of).values_list("pk", flat=True))
    Delivery.objects.filter(pk__in=told).update(request="", response="")
