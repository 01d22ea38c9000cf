"""Words that are markup, wherever people and machines write them: shown as words on every page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import User
from research.models import Channel, Delivery, Run
from research.pages import digests as pages_digests
from research.pages import shares
from research.services.facts import correcting
from research.services.notifications import channels, digests, notice_text
from research.services.runs.reporting import sentences as report_sentences
from tests.research.factories import make_item, make_report, make_run, make_source, make_topic
from tests.research.notice_cast import body_in_style

EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)"> ]]> {{ 271800|add:28 }} \u202e'
LINK = "javascript:alert(3)//"


@pytest.fixture
def run(alice: User) -> Run:
    """A run of which everything that anyone could write is markup."""
    topic = make_topic(alice, f"Cells {EVIL}"[:150])
    make_report(make_run(topic))
    run = make_run(topic)
    quote = {"sentence": EVIL, "quote": EVIL, "found": True, "before": EVIL, "after": EVIL}
    source = make_source(1, EVIL, link=LINK, url=LINK, domain=EVIL[:60], quotes=[quote])
    make_report(run, body=f"Cells {EVIL} cost 89 dollars [1].", summary=EVIL, delta=EVIL,
                delta_heading=EVIL[:90], delta_since=EVIL[:90], sources=[source])  # fmt: skip
    make_item(run, "new", EVIL, quote=EVIL, citations=[1], previous_text=EVIL)
    make_item(run, "changed", f"{EVIL}.", hidden_reason=EVIL, judged=EVIL, judged_by="model")
    return run


@pytest.fixture
def channel(alice: User, run: Run) -> Channel:
    channel = channels.add(
        alice, kind="email", name=EVIL[:150], address="desk@example.org", by=alice.actor
    )
    Channel.objects.update(last_response=EVIL, disabled_reason=EVIL)
    [row] = body_in_style(run)
    told = {"at": timezone.now().isoformat(), "ok": False, "code": 500, "said": EVIL, "ms": 1}
    Delivery.objects.filter(pk=row.pk).update(
        state="failed", response=EVIL, error=EVIL, request=EVIL, results=[told], response_code=500
    )
    return channel


def check(shown: str) -> None:
    assert "<script>alert" not in shown and "<img src=x" not in shown
    assert f'href="{LINK}' not in shown
    assert "271828" not in shown


def test_they_are_words_on_every_page_that_trust_added(
    alice: User, run: Run, channel: Channel, client_of: Callable[[Any], Client]
):
    by, browser = alice.actor, client_of(alice)
    sentence = report_sentences.sentences_of(run.report)[0]
    correcting.correct(run.report, sentence, wrong=EVIL, right=EVIL, by=by)
    link = shares.make_link(run.report, days=7, note=EVIL[:150], by=by)
    made = digests.make(
        digests.save_settings(alice, by=by, frequency="daily", hour=7, weekday=1), timezone.now()
    )
    assert made is not None
    row, topic = Delivery.objects.filter(kind="report").get(), f"/topics/{run.topic.slug}/"
    page = f"{topic}runs/{run.pk}/"
    for address in (
        page, f"{page}sentences/", f"{page}sentences/{sentence.key}/correct/", f"{page}share/",
        f"{page}sources/1/", f"{page}trash/", f"{topic}corrections/", f"{topic}sources/",
        f"{topic}notices/", topic, "/", "/topics/", "/schedule/", "/settings/channels/",
        f"/settings/channels/{channel.pk}/", f"/settings/deliveries/{row.pk}/", "/digest/",
        f"/digest/{made.pk}/", "/reports/shared-links/", "/activity/", "/activity/week/", f"/shared/{link.token}/",
    ):  # fmt: skip
        answer = browser.get(address)
        assert answer.status_code in (200, 404), address
        check(answer.content.decode())


def test_nor_are_they_markup_in_emails_and_in_the_feed(alice: User, run: Run, channel: Channel):
    row = Delivery.objects.select_related("channel", "run__report", "run__topic", "owner").get()
    message = notice_text.compose(row)
    check(message.html)
    assert "\n" not in message.subject

    feed = pages_digests.add(alice, topic=None, include_private=False, by=alice.actor)
    found = pages_digests.found_by(feed.token)
    assert found is not None
    feed, runs, _etag, modified = found
    tree = ET.fromstring(pages_digests.as_atom(feed, runs, modified))  # noqa: S314  (our own feed)
    entries = tree.iter("{http://www.w3.org/2005/Atom}summary")
    for entry in entries:
        check(entry.text or "")
