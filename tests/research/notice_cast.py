"""Channels and receivers for tests of notifications."""

from __future__ import annotations

from typing import Any

from pytest_httpserver import HTTPServer

from memory.models import Topic, User
from research.models import Channel, Delivery, DeltaItem, Run
from research.services.notifications import channels
from tests.research.factories import make_item, make_report, make_run


def allow(server: HTTPServer, settings: Any) -> None:
    """Exempt the test's server from the guard, as an operator would."""
    settings.BEACON_FETCH_ALLOW_HOSTS = frozenset({f"{server.host}:{server.port}"})


def make_admin(owner: User) -> None:
    owner.is_staff = True
    owner.save(update_fields=["is_staff"])


def email(owner: User, address: str = "desk@example.org", **told: Any) -> Channel:
    return channels.add(owner, kind="email", name="Desk", address=address, by=owner.actor, **told)


def webhook(owner: User, server: HTTPServer, **told: Any) -> Channel:
    make_admin(owner)  # only an admin's webhook reaches an exempted host
    url = server.url_for("/hook")
    return channels.add(owner, kind="webhook", name="Hook", address=url, by=owner.actor, **told)


def saved_run(topic: Topic, *sentences: str, **report: Any) -> Run:
    """Return a saved run with its report: a delta of new sentences, quiet without any."""
    if topic.run_count == 0:
        make_report(make_run(topic))
    run = make_run(topic)
    make_report(run, is_quiet=not sentences, **report)
    for sentence in sentences:
        make_item(run, DeltaItem.Status.NEW, sentence, citations=[1])
    return run


def body_in_style(run: Run) -> list[Delivery]:
    """Lay the run's report out, and return the rows."""
    Delivery.objects.create_for_report(run.topic, run, is_quiet=run.report.is_quiet)
    return list(Delivery.objects.filter(run=run))
