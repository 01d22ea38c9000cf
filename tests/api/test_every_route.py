"""Every URL of the API: its scope, that only the owner has access, and that a GET only reads.

A new URL needs a line in SCOPES, and in BODIES if it takes a body and names a record.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from memory.accounts import tokens
from memory.agents.tools import registry as tools
from memory.api.auth import Caller, caller_of
from memory.models import (
    Conflict,
    Note,
    Proposal,
    Rating,
    Session,
    Snapshot,
    Topic,
    TopicFact,
    User,
)
from memory.services.content.items import store
from memory.services.library.documents import add_document
from memory.services.notes import saving as notes
from memory.services.observations.saving import Line, remember_lines
from memory.services.search import ratings
from research.api.joined import api
from research.models import Channel, Run, TopicSettings
from research.services.topics import sharing
from research.services.topics.settings import editing as topic_editing
from tests.api.cast import ROOT, Program, problem
from tests.conftest import Say
from tests.pages.rows_written import rows_written
from tests.research.factories import make_second_run, make_topic

pytestmark = pytest.mark.faults  # they print lines of its table
WORDS = "the diagnosis of a friend"
SCOPES = {
    "read": """
        list_files list_file_revisions read_file list_notes read_note list_observations
        read_observation query_content show_content read_context read_settings recall list_related show_about list_entries
        read_entry read_session list_trash read_run read_run_report list_sources list_topics
        read_topic list_documents read_document read_topic_memory read_since read_forecast list_runs read_report
        list_shared_topics read_shared_topic list_shared_reports read_shared_report read_shared_news list_comments
        read_shared_settings
    """,
    "write": """
        add_document append_entry write_file patch_file_at trash_file write_note edit_note trash_note merge_notes
        supersede_note prune_notes remember_observations edit_one_observation trash_observation
        carry_out_command extract_observations store_content clear_content take_snapshot
        restore_snapshot set_entry trash_entry rate_result clear_rating begin_session say end_session consolidate_session cancel_run stop_run retry_run
        treat_source make_topic edit_topic trash_topic start_recheck start_run
    """,
    "admin": """
        list_conflicts resolve_conflict reopen_conflict edit_settings list_proposals accept_proposal
        reject_proposal restore_trashed purge_trashed list_corrections make_correction
        merge_names separate_name undo_correction mark_read mark_unread list_hooks subscribe_hook unsubscribe_hook
        list_members add_member change_member remove_member mark_shared_read change_shared_topic leave_shared_topic
        add_comment edit_comment delete_comment edit_shared_settings start_shared_run
    """,
}
# What a request must hold to come as far as the record that it names.
BODIES: dict[str, Any] = {
    "resolve_conflict": {"resolution": "left"},
    "edit_note": {"content": "mine"},
    "supersede_note": {"content": "mine"},
    "edit_one_observation": {"content": "mine"},
    "say": {"content": "mine"},
    "consolidate_session": {"messages": [{"role": "user", "content": "mine"}]},
    "treat_source": {"source": "example.org", "rule": "mute"},
    "edit_topic": {"objective": "mine"},
    "purge_trashed": {"confirm": WORDS},
    "add_member": {"username": "carol"},
    "change_member": {"role": "commenter"},
    "mark_shared_read": {"number": 2},
    "change_shared_topic": {"notify": True},
    "add_comment": {"text": "mine"},
    "edit_shared_settings": {"objective": "mine"},
    "edit_comment": {"text": "mine"},
    "restore_snapshot": {},
}
BY_NAME = {"path", "key"}  # each owner has their own of that name
OPERATIONS = {
    told["operationId"]: (method.upper(), path.removeprefix(ROOT), told)
    for path, methods in api.get_openapi_schema()["paths"].items()
    for method, told in methods.items()
}
SCOPE_OF = {name: scope for scope, names in SCOPES.items() for name in names.split()}
LESS = {"read": "metrics", "write": "read", "admin": "write"}


def address(path: str, values: dict[str, Any]) -> str:
    """Return the path with its names filled in; a new name needs a value in `there`."""
    return re.sub(r"{(\w+)}", lambda found: str(values[found[1]]), path)


def _well_formed(one: dict[str, Any]) -> str:
    if one["schema"].get("format") == "uuid":
        return "00000000-0000-4000-8000-000000000000"
    return "facts/user.md" if one["name"] == "path" else "1"


PARAMETERS = [
    one
    for _method, _path, told in OPERATIONS.values()
    for one in told.get("parameters", [])
    if one["in"] == "path"
]
# A name that is an id at one address is given as one at each.
NOWHERE = {one["name"]: _well_formed(one) for one in sorted(PARAMETERS, key=_well_formed)[::-1]}


@pytest.fixture
def there(alice: User) -> dict[str, Any]:
    """A row of Alice's for each kind of URL."""
    topic = make_topic(alice, WORDS)
    run = make_second_run(topic)
    note = notes.write_note(alice, "log", WORDS, by=alice.actor)
    gone = notes.write_note(alice, "log", f"{WORDS}, gone", by=alice.actor)
    gone.trash(by=alice.actor)
    line = Line("finding", f"It is {WORDS}.")
    observation = remember_lines(alice, [line], by=alice.actor).observations[0]
    proposal = Proposal.objects.create(
        owner=alice, actor="agent:a", record_type="note", after={"content": WORDS}
    )
    rating = ratings.rate(alice, "friend", note, "useful", by=alice.actor)
    Conflict.objects.note(alice, "contradiction", note, observation, reason="number")
    carol = User.objects.create_user("carol")
    shared = make_topic(carol, f"{WORDS}, shared")
    report = make_second_run(shared).report
    sharing.add_member(shared, "alice", "editor", by=carol.actor)
    return {
        "topic_id": shared.pk, "comment_id": sharing.add_comment(report, WORDS, author=alice).pk,
        "member_id": sharing.add_member(topic, "carol", "viewer", by=alice.actor).pk,
        "slug": topic.slug, "number": run.number, "run_id": run.pk, "note_id": note.pk, "memory_id": note.pk,
        "observation_id": observation.pk, "item_id": store(alice, WORDS, by=alice.actor).pk,
        "proposal_id": proposal.pk, "conflict_id": Conflict.objects.get().pk,
        "session_id": Session.objects.create(owner=alice, title=WORDS).pk,
        "snapshot_id": Snapshot.objects.create(owner=alice, title=WORDS, scope="owner").pk,
        "record_type": "note", "record_id": gone.pk, "path": "facts/user.md", "key": WORDS,
        "domain": "example.org", "rating_id": rating.pk,
        "hook_id": Channel.objects.create(owner=alice, kind="webhook", name="n8n").pk,
        "document_id": add_document(alice, text=f"It is {WORDS}.", by=alice.actor).pk,
    }  # fmt: skip


def test_each_address_has_a_scope_here_and_no_line_is_of_one_that_is_gone() -> None:
    assert sorted(SCOPE_OF) == sorted(OPERATIONS)


def test_no_one_comes_in_without_a_token_nor_by_a_browsers_session(
    alice: User, client_of: Any, say: Say
) -> None:
    revoked = Program(alice, "read", "write", "admin")
    tokens.revoke(revoked.token, by=alice.actor)
    with_revoked = Client(headers={"Authorization": f"Bearer {revoked.text}"})
    browsers = (Client(), client_of(alice), with_revoked)
    let_in = [
        name
        for name, (method, path, _told) in OPERATIONS.items()
        for browser in browsers
        if browser.generic(method, ROOT + address(path, NOWHERE)).status_code != 401
    ]
    say(
        "every call of the API without a token, with a revoked one and with a browser's session",
        "401",
        f"{len(OPERATIONS)} calls, {len(let_in)} accepted",
    )

    assert let_in == []


def test_a_token_of_a_lesser_scope_opens_no_address(admin: User, say: Say) -> None:
    programs = {scope: Program(admin, less, name=less) for scope, less in LESS.items()}
    answers = {
        name: programs[SCOPE_OF[name]].send(method, address(path, NOWHERE), {}).status_code
        for name, (method, path, _told) in OPERATIONS.items()
    }
    opened = {name: code for name, code in answers.items() if code != 403}
    say(
        "every call of the API with a token of the scope below",
        "403",
        f"{len(answers)} calls, {len(opened)} accepted",
    )

    assert opened == {}


@pytest.mark.parametrize("is_staff", [False, True])
def test_what_is_of_one_owner_is_not_there_for_another(
    alice: User, bob: User, there: dict[str, Any], say: Say, is_staff: bool
) -> None:
    User.objects.filter(pk=bob.pk).update(is_staff=is_staff, is_superuser=is_staff)
    stranger = Program(bob, "read", "write", "admin")
    before = _of(alice)
    seen: dict[str, Any] = {}
    for name, (method, path, _told) in OPERATIONS.items():
        named = set(re.findall(r"{(\w+)}", path))
        body = None if method == "GET" else BODIES.get(name, {})
        answer = stranger.send(method, address(path, there), body, If_Match="*")
        if named - BY_NAME and answer.status_code != 404:
            seen[name] = (answer.status_code, answer.content)
        if WORDS.encode() in answer.content and not named & BY_NAME:
            seen[name] = answer.content
    is_as_before = _of(alice) == before
    say(
        "every call of the API with another owner's rows",
        "nothing leaks: 404, no row changes",
        f"{len(OPERATIONS)} calls, {len(seen)} with another answer, rows changed: "
        f"{'no' if is_as_before else 'yes'}",
    )

    assert seen == {}
    assert is_as_before


def _of(owner: User) -> list[str]:
    """Return all rows of the owner that the API can change."""
    kinds = (Note, Proposal, Session, Snapshot, Conflict, TopicFact, Rating)
    rows = [str(list(kind.objects.filter(owner=owner).order_by("pk").values())) for kind in kinds]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t::text, r::text FROM memory_topic t LEFT JOIN research_run r ON r.topic_id = t.id "
            "WHERE t.owner_id = %s ORDER BY t.id, r.id",
            [owner.pk],
        )
        return [*rows, str(cursor.fetchall())]


def test_a_get_changes_no_row(alice: User, there: dict[str, Any], say: Say) -> None:
    program = Program(alice, "read", "write", "admin")
    program.put(f"/scratchpad/{there['key']}", {"value": "1"})
    gets = {
        name: address(path, there)
        for name, (method, path, _told) in OPERATIONS.items()
        if method == "GET"
    }
    found, wrote = {}, {}
    for name, path in gets.items():
        path += {"recall": "?q=friend", "show_about": "?name=friend"}.get(name, "")
        found[name] = program.get(path).status_code
        with rows_written() as tables:
            program.get(path)
        if tables:
            wrote[name] = tables
    say("every GET of the API twice", "no row changes", f"{len(gets)} calls, {len(wrote)} wrote")

    assert {name: code for name, code in found.items() if code != 200} == {}
    assert wrote == {}


OF_TOPICS = {"slug", "run_id", "topic_id"}
LISTS = {"list_topics", "list_shared_topics"}


@pytest.mark.requirement("R398")
@pytest.mark.parametrize("scopes", [("read", "write"), ("read", "write", "admin")])
def test_a_token_for_one_topic_opens_nothing_else(
    alice: User, there: dict[str, Any], scopes: tuple[str, ...]
) -> None:
    other = make_second_run(make_topic(alice, "Another subject")).topic
    program = Program(alice, *scopes, name="bound", topics=[other])
    before, there = _of(alice), there | {"key": NOWHERE["item_id"]}
    seen: dict[str, Any] = {}
    for name, (method, path, _told) in OPERATIONS.items():
        of_topic = set(re.findall(r"{(\w+)}", path)) & OF_TOPICS
        expected = 404 if of_topic else 200 if name in LISTS else 403
        body = None if method == "GET" else BODIES.get(name, {})
        answer = program.send(method, address(path, there), body, If_Match="*")
        if answer.status_code != expected or WORDS.encode() in answer.content:
            seen[name] = (answer.status_code, answer.content)

    assert seen == {}
    assert _of(alice) == before
    assert [one["slug"] for one in program.get("/topics").json()["items"]] == [other.slug]
    assert "another-subject" in problem(program.get("/notes"), 403)["detail"]
    Topic.objects.filter(pk=other.pk).delete()  # the limit stays
    assert program.get("/topics").json()["items"] == []
    assert problem(program.get("/notes"), 403)


@pytest.mark.requirement("R398")
def test_a_token_for_topics_reads_and_changes_these(alice: User, there: dict[str, Any]) -> None:
    topics = [
        Topic.objects.get(slug=there["slug"], owner=alice), Topic.objects.get(pk=there["topic_id"]),
    ]  # fmt: skip
    program = Program(alice, "read", "write", "admin", name="bound", topics=topics)
    path = f"/topics/{there['slug']}"
    read = {
        name: program.get(address(path, there)).status_code
        for name, (method, path, _told) in OPERATIONS.items()
        if method == "GET" and set(re.findall(r"{(\w+)}", path)) & OF_TOPICS
    }

    assert {name: code for name, code in read.items() if code != 200} == {}
    assert program.patch(path, {"objective": "Which?"}, If_Match="*").status_code == 200
    assert program.post(f"{path}/runs").status_code == 202
    assert len(program.get("/shared-topics").json()["items"]) == 1
    rule = {"source": "example.org", "rule": "block", "all_topics": True}
    assert problem(program.patch(f"{path}/sources", rule), 403)
    assert program.patch(f"{path}/sources", rule | {"all_topics": False}).status_code == 200
    chat = Client().get("/v1/models", headers={"Authorization": f"Bearer {program.text}"})
    assert chat.status_code == 403 and not caller_of(program.token).may("metrics")


@pytest.mark.requirement("R398")
def test_a_token_for_a_deleted_topic_opens_no_new_topic_of_its_name(alice: User) -> None:
    old = make_topic(alice, "Ferries")
    program = Program(alice, "read", "write", "admin", name="bound", topics=[old])
    topic_editing.trash_topic(old, by=alice.actor)
    new = make_topic(alice, "Ferries")
    assert new.slug == old.slug

    rule = {"source": "example.org", "rule": "block"}
    assert problem(program.get("/topics/ferries"), 404)
    assert problem(program.get("/topics/ferries/sources"), 404)
    assert problem(program.patch("/topics/ferries/sources", rule), 404)


@pytest.mark.requirement("R398")
def test_the_sources_of_a_topic_check_the_tokens_topics_themselves(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(alice, "read", name="bound", topics=[make_topic(alice, "Ferries")])
    make_topic(alice, "Trains")
    monkeypatch.setattr(Caller, "check_topics", lambda *_all: None)

    assert program.get("/topics/ferries/sources").status_code == 200
    assert problem(program.get("/topics/trains/sources"), 404)


@pytest.mark.requirement("R398")
@pytest.mark.parametrize("scope", ["write", "admin"])
def test_a_token_for_topics_cant_make_them_read_the_library(alice: User, scope: str) -> None:
    program = Program(alice, scope, name="bound")
    assert (
        program.post("/topics", {"title": "Ferries", "services": ["wikipedia"]}).status_code == 201
    )
    topic = Topic.objects.get(title="Ferries")
    program.token.topic_ids = [topic.pk]
    program.token.save()
    path = "/topics/ferries"

    for patch in (
        {"services": ["wikipedia", "library"]},
        {"services": None},  # the default services, which include the library
        {"always_check": ["Library:" + NOWHERE["item_id"]]},
        {"always_check": ["a\nlibrary:" + NOWHERE["item_id"]]},
    ):
        refused = problem(program.patch(path, patch, If_Match="*"), 403)
        assert "your library" in refused["detail"]
    topic.settings.refresh_from_db()
    assert (topic.settings.services, topic.settings.always_check) == (["wikipedia"], [])

    TopicSettings.objects.update(services=["library"])
    kept = {"services": ["library", "wikipedia"], "always_check": ["ferries"]}
    assert program.patch(path, kept, If_Match="*").status_code == 200


@pytest.mark.requirement("R398")
def test_runs_that_a_token_for_topics_starts_dont_search_the_library(alice: User) -> None:
    topic = make_topic(alice, "Ferries")
    add_document(alice, title="Diary", text=WORDS, by=alice.actor)
    whole = Program(alice, "write", name="whole")
    bound = Program(alice, "read", "write", name="bound", topics=[topic])
    runs = Run.objects.order_by("-pk")

    def asked(services: list[str], start: Callable[[], Any]) -> list[str]:
        """Return the services of a new run of the topic, with the others ended before."""
        runs.update(status="cancelled")
        TopicSettings.objects.update(services=services)
        assert start().status_code == 202
        return list(TopicSettings.from_json(topic, runs[0].settings).services)

    start = "/topics/ferries/runs"
    assert asked(["wikipedia", "library"], lambda: whole.post(start)) == ["wikipedia", "library"]
    assert asked(["wikipedia", "library"], lambda: bound.post(start)) == ["wikipedia"]
    usual = asked([], lambda: bound.post(start))
    assert usual and "library" not in usual
    retry = f"/runs/{runs[0].pk}/retry"
    assert asked(["library", "arxiv"], lambda: bound.post(retry)) == ["arxiv"]
    runs.update(status="cancelled")
    tools.call_tool(caller_of(bound.token).context(), "research_topic", {"topic": "Ferries"})
    assert runs[0].status == "queued" and runs[0].settings["services"] == ["arxiv"]

    runs.update(status="cancelled")
    TopicSettings.objects.update(services=["library"])
    refused = problem(bound.post(start), 409)
    assert "only the library" in refused["detail"]
    assert problem(bound.post(retry), 409) and runs[0].status == "cancelled"
