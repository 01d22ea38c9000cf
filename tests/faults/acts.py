"""Changes rows for fault tests, in a process of the site: `python -m tests.faults.acts`.

topics TITLE…       make the topics that are missing
queue TITLE…        make the topics that are missing, and queue a run of each
deep TITLE…         the same, of a deep run
due SECONDS TITLE…  make topics that recur daily and fell due so many seconds ago
told URL TITLE…     make a channel by email and one to URL, and a saved run of each topic for them
trash TITLE         move the topic to Trash
purge TITLE         delete the topic in Trash permanently
leave NAME BY       delete the account of that name, by another
save NAME PATH N    save N lines to a memory file of the account
catch_up            bring the copies on disk and what is stored together
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any

import django


def _topic(title: str) -> Any:
    from memory.models import Topic, User
    from research.services.runs.execution import starting

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
    from research.models import Run
    from research.services.runs.execution import starting

    for title in titles:
        topic = _topic(title)
        starting.start_run(topic, trigger=Run.Trigger.COMMAND, by=topic.owner.actor, depth=depth)


def due(seconds: str, *titles: str) -> None:
    """Make all topics due at the same time; print it."""
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
    """Prepare the messages to two channels about a saved run of each topic."""
    from research.models import Delivery
    from research.services.notifications import channels
    from tests.research.factories import make_report, make_run

    owner = _topic(titles[0]).owner
    for kind, address in (("email", "desk@example.org"), ("webhook", url)):
        channels.add(owner, kind=kind, name=kind, address=address, by=owner.actor)
    for title in titles:
        run = make_run(_topic(title))
        make_report(run)
        Delivery.objects.create_for_report(run.topic, run, is_quiet=False)


def trash(title: str) -> None:
    """Move the topic to Trash."""
    topic = _topic(title)
    topic.trash(by=topic.owner.actor)


def purge(title: str) -> None:
    """Delete the topic in Trash permanently."""
    from memory.models import Topic

    topic = Topic.objects.in_trash().get(title=title)
    topic.purge(by=topic.owner.actor)


def leave(name: str, by: str) -> None:
    """Delete an account."""
    from memory.accounts import people
    from memory.models import User

    person, staff = (User.objects.get(username=one) for one in (name, by))
    people.delete_account(person, typed=name, by=staff)


def save(name: str, path: str, count: str) -> None:
    """Save a memory file."""
    from memory.models import User
    from memory.services.files.saving import save_file

    owner = User.objects.get(username=name)
    text = "# February\n\n" + "".join(f"- line {n:04}\n" for n in range(int(count)))
    save_file(owner, path, text, by=owner.actor)


def catch_up() -> None:
    """Synchronize the copies on disk with the stored files."""
    from memory.services.files import mirror

    mirror.catch_up()


ACTS = {
    "topics": topics, "queue": queue, "deep": deep, "due": due, "told": told, "trash": trash,
    "purge": purge, "leave": leave, "save": save, "catch_up": catch_up,
}  # fmt: skip

if __name__ == "__main__":
    django.setup()
    ACTS[sys.argv[1]](*sys.argv[2:])
