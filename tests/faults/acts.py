"""What tests of faults do to a site's rows, in one process of that site: `python -m tests.faults.acts`.

topics TITLE…       make the topics that are missing
queue TITLE…        make the topics that are missing, and queue a run of each
deep TITLE…         the same, of a deep run
due SECONDS TITLE…  make topics that recur daily and fell due so many seconds ago
told URL TITLE…     make a channel by mail and one to URL, and a saved run of each topic that is told
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import django


def _topic(title: str) -> Any:
    from memory.models import Topic, User
    from research import starting

    owner = User.objects.get(username="alice")
    found = Topic.objects.titled(owner, title)
    return found or starting.create_topic(owner=owner, title=title, by=owner.actor)


def topics(*titles: str) -> None:
    """Make the topics that are missing."""
    for title in titles:
        _topic(title)


def deep(*titles: str) -> None:
    """Queue a deep run of each topic."""
    queue(*titles, depth="deep")


def queue(*titles: str, depth: str = "") -> None:
    """Queue a run of each topic, as a command does."""
    from research import starting
    from research.models import Run

    for title in titles:
        topic = _topic(title)
        starting.start_run(topic, trigger=Run.Trigger.COMMAND, by=topic.owner.actor, depth=depth)


def due(seconds: str, *titles: str) -> None:
    """Let each topic have fallen due at one and the same moment; print it."""
    from django.utils import timezone

    from research.models import Schedule

    now = timezone.now()
    slot = now - timedelta(seconds=float(seconds))
    # Its regular slot is half a day off, so that the one set here is the only one about.
    cron = f"0 {(now.hour + 12) % 24} * * *"
    found = [_topic(title).pk for title in titles]
    Schedule.objects.filter(pk__in=found).update(preset="daily", cron=cron, next_run_at=slot)
    print(slot.isoformat())


def told(url: str, *titles: str) -> None:
    """Lay out what two channels are told of a saved run of each topic."""
    from research import channels
    from research.models import Delivery
    from tests.research.factories import make_report, make_run

    owner = _topic(titles[0]).owner
    for kind, address in (("email", "desk@example.org"), ("webhook", url)):
        channels.add(owner, kind=kind, name=kind, address=address, by=owner.actor)
    for title in titles:
        run = make_run(_topic(title))
        make_report(run)
        Delivery.objects.lay_out_report(run, is_quiet=False)


ACTS = {"topics": topics, "queue": queue, "deep": deep, "due": due, "told": told}

if __name__ == "__main__":
    django.setup()
    ACTS[sys.argv[1]](*sys.argv[2:])
