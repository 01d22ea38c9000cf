"""Hostile rows in everything that Beacon sends: emails, webhooks, feeds, shared links, the API, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from django.core import mail
from django.core.serializers.json import DjangoJSONEncoder
from django.test import Client
from django.urls import reverse

from beacon_site.net import mail as net_mail
from memory.models import User
from research.models import Channel, Delivery, Digest, Run
from research.pages import digests, shares
from research.services.notifications import notice_text
from tests.api.cast import Program
from tests.api.test_every_route import OPERATIONS, SCOPE_OF, address
from tests.attacks.cast import everything
from tests.attacks.figures import Count
from tests.attacks.looking import harm
from tests.attacks.payloads import markup, names_in, naughty
from tests.attacks.poisoning import Poison
from tests.attacks.sweep import Seen


@pytest.fixture
def hostile(admin: User) -> Run:
    """A run with only hostile text, among other hostile rows."""
    everything(admin)
    Poison(markup()[::9]).rows()
    return Run.objects.filter(report__isnull=False).latest("number")


def notice(run: Run, kind: str) -> notice_text.Message:
    """Return a message of each kind as a channel gets it."""
    of_run = {"run": run, "topic": run.topic} if kind in ("report", "failure") else {}
    if kind == "digest":
        of_run = {"digest": Digest.objects.get()}
    owner, words = run.topic.owner, Poison(markup()[::9])
    row = Delivery.objects.create(
        owner=owner, channel=Channel.objects.filter(owner=owner)[0], kind=kind, about=f"a {kind}",
        subject=words.text(one_line=True)[:300], message=words.text(), **of_run,
    )  # fmt: skip
    return notice_text.compose(row)


def test_a_message_of_each_kind_is_words_by_every_channel(hostile: Run, count: Count) -> None:
    for kind in Delivery.Kind.values:
        told = notice(hostile, kind)
        alive = harm(told.html, "text/html")
        payload = json.dumps(told.payload, cls=DjangoJSONEncoder)
        count("mail: HTML", len(names_in(told.html)), run=len(alive))
        count("mail: text, subject", len(names_in(told.subject + told.text)))
        count("webhook: JSON", len(names_in(payload)))
        count("Apprise: text", len(names_in(told.short)))
        sent = as_sent(told)

        assert alive == []
        assert len(told.subject.splitlines()) == 1
        assert {"Bcc", "Cc", "Set-Cookie"}.isdisjoint(sent.keys())
        assert sent["To"] == "desk@example.org"


def as_sent(told: notice_text.Message) -> Any:
    """Return the mail as a server gets it."""
    net_mail.send(
        to="desk@example.org",
        subject=told.subject,
        text=told.text,
        html=told.html,
        message_id="a@b",
        headers={},
        handing_over=lambda: None,
    )
    return mail.outbox[-1].message()


def test_a_feed_and_a_shared_report_are_harmless_to_anyone_who_has_the_link(
    hostile: Run, admin: User, count: Count
) -> None:
    feed = digests.add(admin, topic=None, include_private=True, by=admin.actor)
    link = shares.make_link(hostile.report, days=7, note="", by=admin.actor)
    stranger, seen = Client(), Seen()
    for sink, name, token in (
        ("feed: Atom", "research:feed", feed.token),
        ("shared report", "research:shared-report", link.token),
    ):
        answer = stranger.get(reverse(name, args=[token]))
        assert answer.status_code == 200
        seen.look(sink, name, answer)
    seen.count(count)

    assert seen.problems() == {}
    assert all(seen.shown[sink] for sink in ("feed: Atom", "shared report"))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_api_answers_hostile_rows_as_json_that_no_browser_reads_as_a_page(
    hostile: Run, admin: User, count: Count
) -> None:
    program, seen = Program(admin, "admin", name="reader"), Seen()
    topic = hostile.topic
    values = {"slug": topic.slug, "number": hostile.number, "run_id": hostile.pk, "path": "facts/user.md"}  # fmt: skip
    for name, (method, path, _told) in OPERATIONS.items():
        if method != "GET" or SCOPE_OF[name] == "write":
            continue
        try:
            answer = program.get(address(path, values))
        except KeyError:  # it names a row of another kind, which a list of that kind shows
            continue
        seen.look("API: JSON", path, answer)
        assert not answer["Content-Type"].startswith("text/html"), path
    seen.count(count)

    assert seen.problems() == {}
    assert len(seen.shown["API: JSON"]) > 20


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_page_of_an_error_says_words_whatever_was_requested(
    admin: User, client_of: Callable[[Any], Client], count: Count
) -> None:
    browser, seen = client_of(admin), Seen()
    browser.raise_request_exception = False
    for number, one in enumerate(markup()):
        asked = quote(one.text, safe="")
        paths = (f"/{asked}/", f"/topics/?q={asked}&sort={asked}&page={asked}", f"/memory/?q={asked}&types={asked}", f"/undo/settings/{asked}/")  # fmt: skip
        seen.look("error pages and echoed queries", paths[number % 4], browser.get(paths[number % 4]))  # fmt: skip
    count("error pages and echoed queries", len(markup()), run=len(seen.problems()))

    assert seen.problems() == {}


def test_signing_in_leads_nowhere_but_to_a_page_of_ours(
    admin: User, client_of: Callable[[Any], Client], count: Count
) -> None:
    tried = [one.text for one in markup() if one.is_address] + list(naughty())
    browser, away = client_of(admin), []
    for text in tried:
        answer = browser.get(reverse("memory:sign-in"), {"next": text})
        goal = answer.headers["Location"]
        parts = urlsplit(goal.replace("\\", "/").strip())
        if parts.scheme or parts.netloc or "\n" in goal or "\r" in goal:
            away.append((text, goal))
    count("next= of the sign-in", len(tried), run=len(away))

    assert away == []
