"""Every page with Alice's own rows in its address: only hers, and looking at it changes nothing.

A new address that names a row, or chooses among words, needs a line in `named` or in CHOICES.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest
from allauth.mfa.models import Authenticator
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory import models as memory
from memory.models import Topic, User
from memory.pages.accounts.views import _kept_key
from memory.services.notes import saving as notes
from research import models as research
from research.services.topics import sharing
from tests.conftest import Say
from tests.pages.rows_written import rows_written
from tests.pages.test_admin import one_of_each
from tests.pages.test_urls import PUBLIC, STAFF, routes
from tests.research.factories import make_second_run, make_topic

TITLE = "The diagnosis of a friend"
pytestmark = [pytest.mark.slow, pytest.mark.faults]  # faults: they print lines of its table
PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")
# What chooses among words and names no row: the same for everyone.
CHOICES = {
    "topics/<slug:slug>/runs/<int:run_id>/export/<str:kind>": "report.md",
    "topics/<slug:slug>/runs/<int:run_id>/sources/<int:n>": 1,
    "topics/<slug:slug>/runs/<int:run_id>/sentences/<slug:key>": "0123456789abcdef",
    "topics/<slug:slug>/schedule/hour/<int:hour>": 3,
    "topics/<slug:slug>/schedule/missed/<slug:choice>": "skip",
    "settings/channels/new/<str:kind>": "email",
    "settings/connections/<str:name>": "tavily",
    "activity/export/<str:kind>": "activity.csv",
    "memory/<str:kind>": "hits.csv",
    "memory/<str:type>": "note",
    "recall/<str:kind>": "hits.csv",
    "records/<str:page>": "notes",
    "records/<str:type>": "note",
    "records/<str:kind>": "note",
    "review/never/<str:kind>": "note",
    "undo/<str:act>": "revision",
    "files/<memoryfile:path>": "facts/user.md",  # every account has its own
}

QUERIES = {
    "memory:oauth-authorize": "?response_type=code&client_id=app0&code_challenge_method=S256"
    f"&redirect_uri=https://app.example/back&code_challenge={'a' * 43}"
}

# Hers, but in a state in which there is nothing to see.
NOT_THERE = {
    "memory:archive-file",  # the export has not ended
    "memory:single-sign-on-link",  # no provider is configured
    "memory:single-sign-on-unlink",
    "memory:message",  # what she said herself
    "memory:file-timeline",  # of a fact file
    "research:topic-purge",  # it is in no trash
    "research:sentence-correct",  # the key is of no sentence
    # her own topic isn't shared with her: tests/pages/test_shared_topics.py
    "research:shared-topic-facts",
    "research:shared-topic-sources",
    "research:shared-topic-reports",
    "research:shared-topic-report",
    "research:shared-topic-settings",
}

# What a page may ask besides the session and the user (issue 9); `benchmarks/page_queries.py`
# counts the same with more rows, in more states.
MAX = 2 + 12
# More only for what asks as much however many rows there are, and has to.
MORE = {
    "memory:proposal": MAX + 6,  # who would find it, what it contradicts, and how it got here
    # Each layer, each agent with its last use and proposals, its last 7 days, and which agent it is.
    "memory:agents": MAX + 7,
    # What waits, the last reads and writes, its rules, record, tokens and apps.
    "memory:agent": MAX + 4,
    "research:inbox": MAX + 16,  # one preview, and a query for each kind of item
    # related memories: the words' figures, the ranking, and vectors and rows of each type
    "memory:note": MAX + 18,  # and the figures of the names in it
    "memory:observation": MAX + 18,
    "memory:related": MAX + 8,
    "memory:about": MAX + 2,  # numbers, records, rows of each type, and names beside it
    "memory:record-purge": MAX + 7,  # what keeps the record's words, in each kind of place
    # the first look after a report came: its news are counted, then kept, and lines of memory; and
    # what was written by day, what agents did, and the first item to decide with its title
    "research:home": MAX + 10,
    "research:week": MAX + 4,  # runs, their changes, and three lists
    "research:fact-history": MAX + 3,  # the chain both ways
    "research:topic": MAX + 6,  # what is read, with its notes and lines of memory
}


def named(topic: Topic) -> dict[str, Any]:
    """Return the row's key by the route up to its place."""
    owner, run = topic.owner, research.Run.objects.filter(topic=topic).latest("pk")
    note = notes.write_note(owner, "log", TITLE, by=owner.actor)
    revision = memory.Revision.objects.filter(record_id=note.pk).latest("pk").pk
    held = {"actor": "agent:a", "record_type": "note", "after": {"kind": "log", "content": TITLE}}
    rows: dict[str, Any] = {
        "notes": note, "observations": memory.Observation, "records/<str:type>": note,
        "records/<str:kind>": note, "memory/<str:type>": note, "review/refused": memory.RefusedSource,
        "review/ratings": memory.Rating, "review/never/<str:kind>": note, "review": memory.Proposal.objects.create(owner=owner, **held), "conflicts": memory.Conflict,
        "scratchpad": memory.ScratchpadEntry, "settings/soul": memory.Note,
        "sign-in/form": kept_form(owner),
        "settings/sign-ins/methods": Authenticator.objects.get(user=owner, type="totp"),
        "settings/sign-ins": memory.SignIn, "settings/tokens": memory.ApiToken,
        "agents": memory.Agent, "settings/agents": memory.Agent,
        "settings/people": owner,
        "settings/backups": memory.BackupFile.objects.create(name="old.backup", state="done"),
        "settings/people/invitations": memory.Invitation, "settings/archive": memory.Archive,
        "library": memory.LibraryDocument, "bulk": memory.BulkAction, "views": memory.SavedView,
        "content": memory.ContentItem, "content/snapshots": memory.Snapshot,
        "ask": memory.Session, "ask/answers": memory.Message,
        "topics/<slug:slug>/facts": topic.facts.latest("pk"), "topics/<slug:slug>/runs": run,
        "topics/<slug:slug>/runs/<int:run_id>/told": run.delta_items.latest("pk"),
        "topics/<slug:slug>/affects": research.AffectedLine.objects.create(
            owner=owner, item=run.delta_items.latest("pk"), record_type="note", record_id=note.pk,
            line_key="a",
        ),
        "topics/shared": topic, "topics/shared/<uuid:pk>/runs": run,
        "topics/shared/<uuid:pk>/runs/<int:run_id>/comments": sharing.add_comment(
            run.report, TITLE, author=owner
        ),
        "topics/<slug:slug>/people": memory.Membership,
        "corrections": research.Correction, "shared-links": research.SharedLink,
        "settings/channels": research.Channel, "settings/deliveries": research.Delivery,
        "settings/feeds": research.Feed, "digest": research.Digest,
        "activity/changes": revision, "undo": memory.Undo, "undo/<str:act>": revision,
        "records/<str:type>/<uuid:pk>/restore": revision,
    }  # fmt: skip
    keys = {place: _key(row) for place, row in rows.items()}
    return keys | {"topics/<uuid": topic.pk, "topics/<slug": topic.slug}


def kept_form(owner: User) -> UUID:
    key = uuid4()
    kept = {"address": "/remember/", "fields": [("text", TITLE)], "typed": [TITLE], "back": "/"}
    cache.set(_kept_key(owner.pk, key), kept, 60)
    return key


def _key(row: Any) -> Any:
    if isinstance(row, type):
        row = row._default_manager.latest("pk")
    return getattr(row, "pk", row)


class Address:
    """One route with its keys."""

    def __init__(self, name: str, route: str, rows: dict[str, Any]) -> None:
        self.name, self.names_a_row = name, False
        given = {}
        for found in PARAMETER.finditer(route):
            whole, before = route[: found.end()], route[: found.start()].rstrip("/")
            place = f"{before}/{found[0].partition(':')[0]}" if before == "topics" else before
            if whole in CHOICES:
                given[found[1]] = CHOICES[whole]
            else:
                given[found[1]] = rows[place]
                self.names_a_row = True
        self.path = reverse(name, kwargs=given) + QUERIES.get(name, "")


@pytest.fixture
def addresses(alice: User) -> list[Address]:
    """Every address that people come to, with rows of Alice's."""
    one_of_each(alice)
    topic = make_topic(alice, TITLE)
    make_second_run(topic)
    rows = named(topic)
    found = [(name, str(entry.pattern)) for name, _address, entry in routes() if name not in PUBLIC]
    return [Address(name, route, rows) for name, route in found]


@pytest.mark.parametrize("is_staff", [False, True])
def test_what_is_alices_is_not_there_for_bob_by_any_method(
    addresses: list[Address],
    bob: User,
    client_of: Callable[[User], Client],
    say: Say,
    is_staff: bool,
) -> None:
    User.objects.filter(pk=bob.pk).update(is_staff=is_staff, is_superuser=is_staff)
    browser, seen = client_of(bob), {}
    hers = [one for one in addresses if one.names_a_row and one.name not in STAFF]
    hers = [
        one for one in hers if not one.name.endswith("-moved")
    ]  # redirects that look up nothing
    for one in hers:
        with rows_written() as tables:
            codes = (browser.get(one.path).status_code, browser.post(one.path).status_code)
        if not set(codes) <= {404, 405} or 404 not in codes or tables:
            seen[one.name] = (one.path, codes, tables)
    say(
        "every page of one person's rows as another, by GET and by POST",
        "nothing leaks: 404, no row changes",
        f"{len(hers)} URLs, {len(seen)} with another answer",
    )

    assert seen == {}


@pytest.mark.parametrize("is_staff", [False, True])
def test_no_page_of_bobs_holds_a_word_of_alices(
    addresses: list[Address], bob: User, client_of: Callable[[User], Client], is_staff: bool
) -> None:
    User.objects.filter(pk=bob.pk).update(is_staff=is_staff, is_superuser=is_staff)
    browser = client_of(bob)
    pages = [one for one in addresses if not one.names_a_row and one.name not in STAFF]
    said = {one.name: browser.get(one.path).getvalue().decode() for one in pages}

    assert [name for name, body in said.items() if "diagnosis" in body.lower()] == []


def _questions(queries: Any) -> int:
    """Return how many questions a page asked: a test's savepoints don't count."""
    return sum(not one["sql"].startswith(("SAVEPOINT", "RELEASE")) for one in queries)


def test_looking_at_a_page_changes_no_row_and_asks_few_questions(
    addresses: list[Address], alice: User, client_of: Callable[[User], Client], say: Say
) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    browser, wrote, broken, asked = client_of(alice), {}, {}, {}
    browser.raise_request_exception = False
    for one in addresses:
        with rows_written() as tables, CaptureQueriesContext(connection) as queries:
            answer = browser.get(one.path)
            answer.getvalue()  # reads what is streamed
        code, asked[one.name] = answer.status_code, _questions(queries)
        if tables:
            wrote[one.name] = tables
        # POST-only views say so; everything else of hers is found, or this test shows nothing.
        if code not in (200, 286, 301, 302, 405) and one.name not in NOT_THERE:
            broken[one.name] = (one.path, code)
    say(
        "every page by GET, with rows in its URL",
        "no row changes",
        f"{len(addresses)} URLs, {len(wrote)} wrote a row",
    )

    # Their previews carry the act out in a savepoint that is rolled back (memory/pages/review/proposals.py).
    for previewed in ("research:inbox", "memory:proposal"):
        wrote.pop(previewed, None)
    assert (wrote, broken) == ({}, {})
    assert {name: n for name, n in asked.items() if n > MORE.get(name, MAX)} == {}
