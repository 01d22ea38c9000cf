"""Ratings, blocked sources, digests and shared links have the filter bar of every list."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import RefusedSource, User
from memory.services.notes.saving import write_note
from memory.services.search import ratings
from research.models import Digest
from research.pages import shares
from tests.research.factories import make_report, make_run, make_topic

LISTS = {
    "/review/ratings/": "ratings",
    "/review/refused/": "blocked",
    "/digest/": "digests",
    "/reports/shared-links/": "shared-links",
}


@pytest.fixture
def browser(alice: User, client_of: Callable[[Any], Client]) -> Client:
    """Alice's browser, with two items in each list."""
    for words in ("The ferry leaves at nine.", "The harbour is closed."):
        note = write_note(alice, "log", words, by=alice.actor)
        question, reason = f"When? {words}", "too old" if "ferry" in words else ""
        ratings.rate(alice, question, note, "not-useful", reason=reason, by=alice.actor)
    for kind, name in (("agent", "ferrybot"), ("domain", "harbour.example")):
        RefusedSource.objects.create(owner=alice, kind=kind, name=name, reason="because")
    for days, title, status in ((0, "Ferry", "succeeded"), (40, "Harbour", "failed")):
        topic = make_topic(alice, title)
        report = make_report(run := make_run(topic))
        if status == "failed":
            run = make_run(topic, saved=False, status="failed", error="It failed.")
        made = timezone.now() - timedelta(days=days)
        digest = Digest.objects.create(owner=alice, slot=made, created=made)
        digest.entries.create(run=run)
        link = shares.make_link(report, note=f"For the {title}", by=alice.actor, days=7)
        if title == "Harbour":
            shares.end(link, by=alice.actor)
    return client_of(alice)


def rows(browser: Client, url: str, query: str = "") -> int:
    """Return how many rows the list has; it must be a part of the page over htmx."""
    target = LISTS[url]
    page = browser.get(url + query)
    part = browser.get(url + query, headers={"HX-Request": "true", "HX-Target": target})
    assert page.status_code == part.status_code == 200
    assert f'id="{target}"' in part.content.decode() and "<html" not in part.content.decode()
    assert f'id="{target}-q"' in page.content.decode()
    context = part.context
    return len(context["page"].object_list if "page" in context else context["rows"])


@pytest.mark.parametrize(
    ("url", "one", "none"),
    [
        ("/review/ratings/", "?q=ferry", "?show=useful"),
        ("/review/ratings/", "?q=too+old", "?type=fact"),
        ("/review/refused/", "?q=ferry", "?q=nothing"),
        ("/review/refused/", "?kind=domain", "?kind=source"),
        ("/digest/", "?q=ferry", "?q=ferry&show=failed"),
        ("/digest/", "?from=week", "?q=nothing"),
        ("/digest/", "?show=failed", "?from=2999-01-01"),
        ("/reports/shared-links/", "?q=ferry", "?q=nothing"),
        ("/reports/shared-links/", "?state=ended", "?state=expired"),
    ],
)
def test_a_list_is_filtered(browser: Client, url: str, one: str, none: str) -> None:
    assert rows(browser, url) == 2
    assert rows(browser, url, one) == 1
    assert rows(browser, url, none) == 0
    for odd in ("?q=%00&from=x&show=x&kind=x&type=x&state=x", f"?q={'a ' * 90}&to=0000-00-00"):
        assert browser.get(url + odd).status_code == 200


@pytest.mark.parametrize("url", LISTS)
def test_an_empty_list_explains_itself(
    client_of: Callable[[Any], Client], bob: User, url: str
) -> None:
    page = client_of(bob).get(url).content.decode()
    assert "No matching" not in page
    assert "No matching" in client_of(bob).get(f"{url}?q=nothing").content.decode()
