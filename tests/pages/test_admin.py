"""The admin: every model of both apps, to read, with secrets and sensitive text masked."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.apps import apps
from django.contrib import admin as django_admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from memory import models as memory
from memory.accounts import tokens
from memory.models import Activity, Topic, User, search_index
from research import models as research

# Several tests go through everything: on a crowded machine one takes minutes.
pytestmark = pytest.mark.timeout(600)

# Its key has two columns, which the admin of Django 5.2 does not take.
NOT_SHOWN = (memory.SearchTerm,)
OURS = [
    model
    for app in ("memory", "research")
    for model in apps.get_app_config(app).get_models()
    if model not in NOT_SHOWN
]
REGISTERED = sorted(django_admin.site._registry, key=lambda model: model._meta.label)
SECRET_TEXT = "the diagnosis of a friend"


def one_of_each(owner: User, n: int = 0) -> Topic:
    """Make at least one row of every model, with sensitive text wherever there is text."""
    topic: Topic = Topic.objects.create_topic(
        owner=owner, title=f"{SECRET_TEXT} {n}", by=owner.actor, sensitivity="sensitive"
    )
    hidden: dict[str, Any] = {"owner": owner, "sensitivity": "sensitive"}
    memory.TopicFact.objects.create(topic=topic, text=SECRET_TEXT, **hidden)
    memory.SeenUrl.objects.create(
        topic=topic, url=f"https://{SECRET_TEXT}", returned_in=1, returned_at=timezone.now()
    )
    memory.Source.objects.create(
        topic=topic, url=SECRET_TEXT, domain=SECRET_TEXT, first_run=1, last_run=1
    )
    _records(owner, n, hidden)
    _talk(owner, n, hidden)
    Activity.log(owner, owner.actor, "topic-created", subject=topic)
    _about(owner, n, topic)
    item = memory.ContentItem.objects.create(title=SECRET_TEXT, content=SECRET_TEXT, **hidden)
    _run(topic, n, item, hidden)
    return topic


def _records(owner: User, n: int, hidden: dict[str, Any]) -> None:
    """Create what is remembered, and what belongs to it."""
    item = memory.ContentItem.objects.create(title=SECRET_TEXT, content=SECRET_TEXT, **hidden)
    item_as = {"title": SECRET_TEXT, "content": SECRET_TEXT, "sensitivity": "sensitive"}
    memory.SnapshotItem.objects.create(
        snapshot=memory.Snapshot.objects.create(title=SECRET_TEXT, scope="owner", **hidden),
        position=0, item_id=item.pk, source="fetch", created=timezone.now(), **item_as,
    )  # fmt: skip
    document = memory.LibraryDocument.objects.create(title=SECRET_TEXT, text=SECRET_TEXT, **hidden)
    search_index.index([document])
    memory.LibraryFolder.objects.create(owner=owner, folder="/documents")
    memory.Note.objects.create(
        content=SECRET_TEXT, tags=[SECRET_TEXT], evidence=[SECRET_TEXT], **hidden
    )
    observation = memory.Observation.objects.create(
        category="finding", content=SECRET_TEXT, digest=str(n), **hidden
    )
    memory.ScratchpadEntry.objects.create(key=f"{SECRET_TEXT} {n}", value=SECRET_TEXT, **hidden)
    about = {"owner": owner, "record_type": "observation", "object_id": observation.pk}
    memory.Embedding.objects.create(model="m", dimensions=2, values=[0.5, 0.5], **about)
    memory.EmbeddingDue.objects.create(**about)
    memory.SavedView.objects.create(owner=owner, page="notes", name=f"view {n}")
    memory.NameAlias.objects.create(
        owner=owner, key=f"n{n}", name=f"N{n}", target_key="other", target="Other"
    )
    memory.Rating.objects.create(
        owner=owner, question=SECRET_TEXT, reason=SECRET_TEXT, key=str(n), value="useful",
        record_type="observation", record_id=observation.pk,
    )  # fmt: skip
    memory.SourceRule.objects.create(owner=owner, place=f"{n}.example", act="mute")
    memory.TrashedRows.objects.create(owner=owner, record_type="note", record_id=uuid.uuid4())
    memory.RefusedSource.objects.create(owner=owner, kind="domain", name=f"{n}.example")
    note = memory.Note.objects.for_user(owner).latest("created")
    memory.Conflict.objects.note(owner, "contradiction", note, observation, reason="number")
    memory.BulkAction.objects.create(owner=owner, page="notes", act="pin")
    hidden_undo = {"arguments": {"before": SECRET_TEXT}, "expires_at": timezone.now()}
    memory.Undo.objects.create(owner=owner, act="settings", **hidden_undo)
    file = memory.MemoryFile.objects.create(
        path=f"episodes/2026-0{n + 1}.md", content=f"# {SECRET_TEXT}\n\n- {SECRET_TEXT}", **hidden
    )
    memory.Section.follow_file(file)
    memory.FileEntry.objects.create(
        file=file, path=file.path, heading=[SECRET_TEXT], content=SECRET_TEXT, **hidden
    )
    memory.FileDraft.objects.create(owner=owner, path=file.path, content=SECRET_TEXT)
    memory.MirroredFile.objects.create(owner=owner, path=file.path)
    memory.MountedFolder.objects.create(owner=owner, name=f"claude-{n}", place="/srv")
    memory.MirrorFolder.objects.create(pk=n + 1, root=owner)
    memory.Reflection.objects.create(owner=owner, source=f"run:{n}", assessment=SECRET_TEXT)


def _talk(owner: User, n: int, hidden: dict[str, Any]) -> None:
    """Create a session with its message, and an archive."""
    memory.Archive.objects.create(owner=owner, kind="export", name=f"archive {n}")
    memory.BackupFile.objects.create(name=f"{n}.backup")
    memory.BackupPlan.objects.get_or_create()
    session = memory.Session.objects.create(title=SECRET_TEXT, **hidden)
    memory.Message.objects.create(session=session, position=1, role="user", content=SECRET_TEXT)


def _about(owner: User, n: int, topic: Topic) -> None:
    """Create what tells of records and of those who come in."""
    memory.PublishDue.objects.create(owner=owner, slug=SECRET_TEXT)
    memory.Membership.objects.create(topic=topic, user=owner)
    memory.ModelCall.objects.create(
        owner=owner, purpose="plan", source="run:1", model="m", prompt=[SECRET_TEXT],
        answer=SECRET_TEXT, error=SECRET_TEXT,
    )  # fmt: skip
    memory.CallReservation.objects.create(owner=owner, source=f"run:{n}", tokens=9)
    memory.Use.objects.create(
        owner=owner, record_type="topic", record_id=topic.pk, place=f"run:{n}"
    )
    memory.Proposal.objects.create(
        owner=owner, actor="agent:a", record_type="topic", target_id=topic.pk,
        after={"title": SECRET_TEXT},
    )  # fmt: skip
    memory.AgentScope.objects.claim(owner, f"session:{n}", "desk")
    memory.ReviewLevel.objects.create(owner=owner, kind=f"kind{n}")
    token, _text = tokens.issue(owner, name=f"agent{n}", scopes=["read"], by=owner.actor)
    app = memory.OAuthClient.objects.create(
        client_id=f"app{n}", name="App", redirect_uris=["https://app.example/back"]
    )
    memory.OAuthGrant.objects.create(
        token=token, client=app, family=f"family{n}", secret=f"secret{n}", resource="http://x/mcp"
    )
    answer = memory.ApiAnswer(token=token, key=f"key {n}", fingerprint="0")
    answer.save_answer(201, {}, SECRET_TEXT, bare="", ids=())
    memory.Connection.objects.create(kind="search", name=f"service{n}", secret="gAAAA-cipher")
    memory.OwnKey.objects.get_or_create(owner=owner, defaults={"secret": SECRET_TEXT})
    memory.Invitation.create_with_token(by=owner, note="Carol")
    memory.SignIn.objects.create(owner=owner, session_key=f"session-key-{owner.pk}-{n}")
    Authenticator.objects.get_or_create(
        user=owner, type="totp", defaults={"data": {"secret": SECRET_TEXT}}
    )
    SocialAccount.objects.create(
        user=owner,
        provider="https://sso.example",
        uid=f"{owner.pk}-{n}",
        extra_data={"name": SECRET_TEXT},
    )


def _run(topic: Topic, n: int, item: memory.ContentItem, hidden: dict[str, Any]) -> None:
    """Make the topic's settings and a run with all that belongs to it."""
    research.TopicSettings.objects.create(topic=topic, objective=SECRET_TEXT)
    research.Schedule.objects.create(topic=topic)
    run = research.Run.objects.create(
        topic=topic, number=1, status="succeeded", error=SECRET_TEXT, manifest={"a": SECRET_TEXT}
    )
    research.Step.objects.create(run=run, name="plan", position=1, output={"a": SECRET_TEXT})
    research.Hit.objects.create(
        run=run, url=SECRET_TEXT, link=SECRET_TEXT, title=SECRET_TEXT, service="feeds",
        content_item=item,
    )  # fmt: skip
    research.ToolCall.objects.create(
        run=run, part=1, position=1, round=1, tool="open_page", arguments={"page": SECRET_TEXT},
        result=SECRET_TEXT, content_item=item,
    )  # fmt: skip
    report = research.Report.objects.create(run=run, title=SECRET_TEXT, body=SECRET_TEXT, **hidden)
    research.RemovedRun.objects.create(run=run, title=SECRET_TEXT, **hidden)
    research.SharedLink.objects.create(
        owner=topic.owner, report=report, note=SECRET_TEXT, ends_at=timezone.now()
    )
    research.Comment.objects.create(report=report, author=topic.owner, name="a", text=SECRET_TEXT)
    said: dict[str, Any] = {"owner": topic.owner, "report": report, "sentence": SECRET_TEXT}
    research.CheckedSentence.objects.create(key="a", by="human:alice", **said)
    research.CorrectedFact.objects.create(
        correction=research.Correction.objects.create(
            key="a", by="human:alice", topic=topic, wrong=SECRET_TEXT, right=SECRET_TEXT, **said
        ),
        fact=topic.facts.first(), action="struck", before=SECRET_TEXT, after=SECRET_TEXT, version=1,
    )  # fmt: skip
    changed = research.DeltaItem.objects.create(
        run=run, position=1, status="new", sentence=SECRET_TEXT
    )
    research.AffectedLine.objects.create(
        owner=topic.owner, item=changed, record_type="note", record_id=item.pk, line_key="a"
    )
    _notices(run, n)
    research.Worker.objects.get_or_create(
        name=f"worker{n}", defaults={"kind": "worker", "seen_at": timezone.now()}
    )


def _notices(run: research.Run, n: int) -> None:
    """Create a channel with what was sent of the run, a digest that holds it, and a feed."""
    topic, owner = run.topic, run.topic.owner
    channel = research.Channel.objects.create(
        owner=owner, kind="email", name=SECRET_TEXT, address=SECRET_TEXT
    )
    research.Delivery.objects.create(
        owner=owner, channel=channel, kind="report", about=f"run:{run.pk}", run=run, topic=topic,
        subject=SECRET_TEXT, request=SECRET_TEXT, error=SECRET_TEXT,
    )  # fmt: skip
    research.TopicNotices.objects.create(topic=topic)
    research.DigestSettings.objects.get_or_create(owner=owner)
    slot = timezone.now() - timedelta(days=n)
    digest = research.Digest.objects.create(owner=owner, slot=slot)
    research.DigestEntry.objects.create(digest=digest, run=run)
    research.Feed.objects.create(owner=owner, topic=topic)


@pytest.fixture
def browser(admin: User, client_of: Callable[[User], Client]) -> Client:
    """The admin's browser."""
    return client_of(admin)


def listed(model: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def changed(row: Any) -> str:
    name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
    return reverse(name, args=[row.pk])


@pytest.mark.requirement("R228")
def test_every_model_of_both_apps_is_in_the_admin() -> None:
    assert [model for model in OURS if model not in django_admin.site._registry] == []


# Each of these goes through all seventy models: making one row of each takes longer than looking.


@pytest.mark.slow
@pytest.mark.requirement("R228")
def test_lists_and_pages_open_with_a_bounded_number_of_queries(
    browser: Client, alice: User
) -> None:
    for number in range(3):
        one_of_each(alice, number)
    opened: dict[str, tuple[int, int]] = {}
    for model in REGISTERED:
        opened[listed(model)] = _opened(browser, listed(model))
        row = model._default_manager.first()
        assert row is not None or model not in OURS, model
        if row is not None:
            opened[changed(row)] = _opened(browser, changed(row))

    assert {page: status for page, (status, _) in opened.items() if status != 200} == {}
    most = {listed(model): 14 for model in REGISTERED}
    assert {p: queries for p, (_, queries) in opened.items() if queries > most.get(p, 12)} == {}


def _opened(browser: Client, page: str) -> tuple[int, int]:
    """Return the status of a page, and the number of its queries."""
    with CaptureQueriesContext(connection) as queries:
        return browser.get(page).status_code, len(queries)


@pytest.mark.slow
def test_sensitive_text_is_masked_for_admins(browser: Client, alice: User) -> None:
    topic = one_of_each(alice)
    pages = [
        page
        for model in REGISTERED
        for page in (listed(model), *(changed(row) for row in model._default_manager.all()[:9]))
    ]

    shown = {page: browser.get(page).content.decode() for page in pages}

    assert [page for page, text in shown.items() if SECRET_TEXT in text] == []
    assert [page for page, text in shown.items() if topic.slug in text] == []


def test_its_owner_sees_the_text(browser: Client, admin: User) -> None:
    topic = one_of_each(admin)

    assert SECRET_TEXT in browser.get(changed(topic)).content.decode()


def test_a_record_with_a_page_of_its_own_links_to_it(browser: Client, admin: User) -> None:
    one_of_each(admin)
    shown = {
        model: browser.get(changed(model._default_manager.first())).content.decode()
        for model in REGISTERED
        if getattr(django_admin.site._registry[model], "PAGE", None)
    }

    assert len(shown) > 10
    assert [model for model, page in shown.items() if "Open the page" not in page] == []


@pytest.mark.requirement("R236")
@pytest.mark.parametrize(
    ("model", "field"),
    [
        (memory.ApiToken, "hash"),
        (memory.OAuthGrant, "family"),
        (memory.OAuthGrant, "secret"),
        (memory.Invitation, "token_hash"),
        (memory.SignIn, "session_key"),
        (memory.Connection, "secret"),
        (memory.OwnKey, "secret"),
        (memory.User, "password"),
    ],
)
def test_secrets_and_their_hashes_are_shown_to_no_one(
    browser: Client, admin: User, model: Any, field: str
) -> None:
    one_of_each(admin)
    row = model.objects.first()

    shown = browser.get(changed(row)).content.decode() + browser.get(listed(model)).content.decode()

    assert getattr(row, field) not in shown


@pytest.mark.slow
def test_admins_write_nothing_around_the_models_methods(browser: Client, alice: User) -> None:
    one_of_each(alice)
    tried = [model for model in OURS if model is not User]  # accounts have their own tests
    before = {model: str(model._default_manager.values()) for model in tried}

    answers = {model: _tries_to_write(browser, model) for model in tried}

    assert {model: got for model, got in answers.items() if got != [403, 403, 403]} == {}
    assert {model: str(model._default_manager.values()) for model in tried} == before


def _tries_to_write(browser: Client, model: Any) -> list[int]:
    """Return what is answered to adding a row, changing one and deleting one."""
    page = changed(model._default_manager.first())
    return [
        browser.post(listed(model) + "add/", {}).status_code,
        browser.post(page, {"title": "mine", "_save": "1"}).status_code,
        browser.post(page.replace("/change/", "/delete/"), {"post": "yes"}).status_code,
    ]


def test_no_account_is_deleted_in_the_admin(browser: Client, alice: User) -> None:
    chosen = {"action": "delete_selected", "_selected_action": [alice.pk], "post": "yes"}

    page = browser.post(changed(alice).replace("/change/", "/delete/"), {"post": "yes"})
    browser.post(listed(User), chosen)

    assert page.status_code == 403
    assert User.objects.filter(pk=alice.pk).exists()
    assert b"delete_selected" not in browser.get(listed(User)).content


def test_admins_set_a_new_password_and_the_persons_log_says_so(
    browser: Client, alice: User
) -> None:
    address = reverse("admin:auth_user_password_change", args=[alice.pk])
    fields = {"password1": "battery-horse-7", "password2": "battery-horse-7"}

    browser.post(address, fields | {"usable_password": "true"})

    alice.refresh_from_db()
    assert alice.check_password("battery-horse-7")
    assert Activity.objects.for_user(alice).get().kind == "password-set-by-staff"


def test_staff_revoke_a_token(browser: Client, alice: User) -> None:
    token, _text = tokens.issue(alice, name="a", scopes=["read"], by=alice.actor)

    browser.post(listed(memory.ApiToken), {"action": "revoke", "_selected_action": [token.pk]})

    token.refresh_from_db()
    assert token.revoked_at is not None
    assert timezone.now() - token.revoked_at < timedelta(minutes=1)


def test_for_who_isnt_an_admin_there_is_no_admin(
    alice: User, client_of: Callable[[User], Client]
) -> None:
    for address in ("/admin/", "/admin/memory/topic/", "/admin/no-such-page/"):
        assert client_of(alice).get(address).status_code == 404


def test_a_stranger_signs_in_by_beacons_own_page(alice: User) -> None:
    chain = Client().get("/admin/memory/topic/", follow=True).redirect_chain

    assert chain[-1][0] == "/sign-in/?next=/admin/memory/topic/"


@pytest.mark.parametrize("field", ["kind", "kind__exact", "q"])
def test_a_filter_that_postgres_cannot_hold_leads_to_the_whole_list(
    browser: Client, field: str
) -> None:
    answer = browser.get(f"/admin/memory/note/?{field}=%00", follow=True)

    assert answer.redirect_chain == [("/admin/memory/note/?e=1", 302)]
    assert answer.status_code == 200


def test_signing_out_of_the_admin_ends_the_sign_in(browser: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    hers = Client()
    hers.post("/sign-in/", {"username": "alice", "password": "alice-horse-battery"})

    hers.post("/admin/logout/")

    assert not memory.SignIn.objects.for_user(alice).exists()


def test_the_admin_runs_under_the_strict_csp(browser: Client) -> None:
    response = browser.get("/admin/")

    assert "'unsafe-inline'" not in response["Content-Security-Policy"]
    assert b"style=" not in response.content
    assert b"onclick" not in response.content


def test_a_row_that_postgres_cannot_hold_is_not_found(browser: Client) -> None:
    assert browser.get("/admin/research/worker/%00/change/").status_code == 404
