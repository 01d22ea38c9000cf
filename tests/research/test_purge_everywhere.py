"""Permanently deleted text is gone from every column of every table, and from the data folder.

A marker is put into a record of each kind, the record is used by every door, deleted, and the marker
is searched for everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from beacon_site.providers.llm.base import Answer, ToolCall, Usage
from memory.accounts.archive import jobs
from memory.agents.chat import conversation
from memory.agents.chat import turn as conversation_turn
from memory.agents.tools.registry import call_tool
from memory.agents.tools.types import ToolContext
from memory.models import (
    BulkAction,
    FileDraft,
    FileEntry,
    Message,
    ModelCall,
    Note,
    Proposal,
    Reflection,
    Remembered,
    Session,
    Topic,
    Undo,
    Use,
    User,
)
from memory.models.actors import Actor
from memory.services.content import snapshots
from memory.services.content.items import store
from memory.services.files.saving import save_file
from memory.services.library.documents import add_document
from memory.services.llm import connections
from memory.services.notes.saving import write_note
from memory.services.observations.saving import write_observation
from memory.services.records import acts as record_acts
from memory.services.records import kinds as record_kinds
from memory.services.records import traces
from memory.services.records import trash as trash_page
from memory.services.records.history import undo
from memory.services.review import proposals as review_services
from memory.services.review.risks import HoldReasons, Risk
from memory.services.scratchpad import set_value
from research.models import Channel, Delivery, Step
from research.models import ToolCall as RunToolCall
from research.services.topics import acts
from tests.api.cast import Program
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel
from tests.research.factories import make_fact, make_report, make_run, make_topic

MARKER = "Zq7xplover"
WORDS = f"The password of the harbour office is {MARKER} since last Tuesday."
AGENT = Actor("agent", "claude")
Make = Callable[[User], Remembered]

# What a person typed or wrote elsewhere stays, and the page that asks for the deletion links to it.
STAYS = {("memory_message", "content"), ("memory_session", "title")}


def _note(owner: User) -> Remembered:
    note = write_note(owner, "log", "Something else.", by=AGENT)
    note.change(by=owner.actor, content=WORDS, tags=[MARKER])
    note.change(by=owner.actor, content=f"{WORDS} It was changed.")
    return note


def _observation(owner: User) -> Remembered:
    return write_observation(owner, "finding", WORDS, by=AGENT, source="session:7")


def _content(owner: User) -> Remembered:
    item = store(
        owner, WORDS, by=AGENT, title=f"Page about {MARKER}", url=f"https://a.example/{MARKER}"
    )
    other = store(owner, "Another result.", by=AGENT, related_to=[item.pk])
    snapshots.take_snapshot(owner, "owner", by=owner.actor)
    assert other.related_to.exists()
    return item


def _scratchpad(owner: User) -> Remembered:
    return set_value(owner, f"{MARKER} key", WORDS, by=AGENT)


def _document(owner: User) -> Remembered:
    return add_document(owner, title=f"Notes on {MARKER}", text=WORDS, by=owner.actor)


def _month(owner: User) -> Remembered:
    text = f"# March\n\n## {MARKER}\n\n- {WORDS}\n"
    file = save_file(owner, "episodes/2026-03.md", text, by=owner.actor).file
    FileDraft.objects.create(owner=owner, path=file.path, content=text)
    return file


def _section(owner: User) -> Remembered:
    begun = "# Memory\n\n## Food\n\n- Allergic to nuts\n"
    whole = f"{begun}\n## Harbour\n\n- {WORDS}\n"
    save_file(owner, "facts/memory.md", whole, by=owner.actor)
    FileDraft.objects.create(owner=owner, path="facts/memory.md", content=whole)
    save_file(owner, "facts/memory.md", begun, by=owner.actor)
    return FileEntry.objects.for_user(owner).get()


def _topic(owner: User) -> Remembered:
    topic = make_topic(owner, f"Harbour {MARKER}")
    run = make_run(topic)
    make_report(run, body=WORDS)
    make_fact(topic, WORDS, run)
    write_note(owner, "log", WORDS, by=AGENT, topic=topic)
    write_observation(owner, "finding", WORDS, by=AGENT, topic=topic, source=run.source)
    store(owner, WORDS, by=AGENT, topic=topic)
    return topic


def _fact(owner: User) -> Remembered:
    topic = make_topic(owner, "Harbour")
    run = make_run(topic)
    fact = make_fact(topic, WORDS, run)
    later = make_fact(topic, "The harbour office has no password any longer.", run)
    later.retire(by=AGENT, why=f"replaced in Run #2 by “{WORDS}”")
    Step.objects.create(run=run, name="plan", output={"facts": [{"text": WORDS}]}, detail=WORDS)
    return fact


def _report(owner: User) -> Remembered:
    topic = make_topic(owner, "Harbour")
    run = make_run(topic, manifest={"asked": WORDS})
    return make_report(run, body=WORDS, title=f"Harbour {MARKER}")


def _session(owner: User) -> Remembered:
    session = conversation.start(owner, f"About {MARKER}")
    waiting = conversation.ask(session, f"Where is {MARKER} kept?", by=owner.actor)
    conversation_turn.answer(waiting.pk)
    return session


KINDS: dict[str, Make] = {
    "note": _note, "observation": _observation, "content": _content, "scratchpad": _scratchpad,
    "document": _document, "file": _month, "section": _section, "fact": _fact, "topic": _topic,
    "report": _report, "session": _session,
}  # fmt: skip


def _use(owner: User, record: Remembered, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the record by every door, as agents and their owner would."""
    _by_rest(owner)
    _by_tools(owner, record)
    _by_ask(owner, monkeypatch)
    _by_review(owner)
    _by_runs(owner)
    BulkAction.objects.create(owner=owner, page="notes", act="pin", query=f"q={MARKER}")
    kept = {"arguments": {"query": f"q={MARKER}"}, "expires_at": timezone.now()}
    Undo.objects.create(owner=owner, act="view-deleted", **kept)
    Reflection.objects.create(
        owner=owner, source="session:x", assessment=WORDS, calls=[{"arguments": {"text": WORDS}}]
    )
    export = jobs.ask_export(owner)
    jobs.perform(export.pk)


def _by_rest(owner: User) -> None:
    program = Program(owner, "admin", name="console")
    for number, (path, body) in enumerate(
        [("/context", {"message": f"harbour {MARKER}"}), ("/notes", {"content": "Kept."})]
    ):
        program.post(path, body, Idempotency_Key=f"k{number}")
    for path in ("/recall?q=", "/notes?q=", "/observations?q=", "/content?q="):
        program.get(path + MARKER)


def _by_tools(owner: User, record: Remembered) -> None:
    context = ToolContext(owner, by=AGENT, source="session:7", scope="session:7")
    for name, told in {
        "recall": {"query": f"what of {MARKER}"},
        "query_memory": {"query": MARKER},
        "get_context": {"query": MARKER},
        "retrieve_from_memory": {"id": str(record.pk)},
        "scratchpad_get": {"key": f"{MARKER} key"},
        "scratchpad_search": {"text": MARKER},
        "memory_read": {"path": "episodes/2026-03.md"},
    }.items():
        call_tool(context, name, told)


def _by_ask(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = (ToolCall("c1", "recall", {"query": MARKER}),)
    said = Answer(f"It says: {WORDS}\n\nNothing else.", Usage(10, 5), "fake", "stop")
    called = Answer("", Usage(10, 5), "fake", "tool_calls", tool_calls=wanted)
    model = FakeLanguageModel(called, said, profile=FAKE_PROFILE)
    session = conversation.start(owner, "Harbour")
    for use in (model, None):  # with a model, and only by recall
        monkeypatch.setattr(connections, "language_model", lambda use=use: use)
        waiting = conversation.ask(session, f"What of {MARKER}?", by=owner.actor)
        conversation_turn.answer(waiting.pk)


def _by_review(owner: User) -> None:
    held = review_services.hold(
        owner, "note", by=AGENT, source="session:7", before={}, after={"content": WORDS},
        why="", held="risky",
    )  # fmt: skip
    review_services.reject(held, by=owner.actor)
    other = write_note(owner, "log", "Once", by=owner.actor)
    other.change(by=owner.actor, content="Twice")
    undo(_last(other), by=owner.actor)


def _last(record: Any) -> Any:
    from memory.models import Revision

    return Revision.objects.filter(record_id=record.pk).latest("id")


def _by_runs(owner: User) -> None:
    """Let a run of another topic read it, and a channel be notified of it."""
    run = make_run(make_topic(owner, "Ships"))
    RunToolCall.objects.create(
        run=run,
        part=1,
        position=1,
        round=1,
        tool="recall",
        arguments={"query": MARKER},
        result=WORDS,
    )
    ModelCall.objects.create(
        owner=owner, purpose="plan", source=run.source, model="m", prompt=[{"content": WORDS}],
        answer=f"{MARKER}, then",
    )  # fmt: skip
    channel = Channel.objects.create(owner=owner, kind="email", name="desk", address="a@b.example")
    Delivery.objects.create(
        owner=owner, channel=channel, kind="report", about=run.source, run=run, topic=run.topic,
        subject="Ships", request=f"Ships and so on\n{WORDS}\nBye",
    )  # fmt: skip


def found(words: str = MARKER) -> set[tuple[str, str]]:
    """Return the tables and columns that contain the words, ignoring case."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND (data_type IN "
            "('text', 'character varying', 'json', 'jsonb', 'ARRAY', 'tsvector', 'bytea'))"
        )
        columns = cursor.fetchall()
        held = set()
        for table, column in columns:
            cursor.execute(
                f'SELECT 1 FROM "{table}" WHERE "{column}"::text ILIKE %s LIMIT 1',  # noqa: S608
                [f"%{words}%"],
            )
            if cursor.fetchone():
                held.add((table, column))
    return held


def on_disk(words: str = MARKER) -> list[Path]:
    """Return the files of the data folder that hold the words (an export is packed, so it counts)."""
    folders = [Path(site.DATA_DIR) / "archives", Path(site.BEACON_MIRROR_DIR or "/nowhere")]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [
        file
        for file in files
        if file.suffix == ".file" or words.lower().encode() in file.read_bytes().lower()
    ]


@pytest.fixture(params=KINDS)
def used(
    request: pytest.FixtureRequest, alice: User, settings: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Remembered:  # fmt: skip
    """A record of each kind that was used by every door, in Trash."""
    settings.DATA_DIR = tmp_path
    settings.BEACON_MIRROR_DIR = ""
    monkeypatch.setattr(connections, "language_model", lambda: None)
    record = KINDS[request.param](alice)
    record.refresh_from_db()
    record.owner = alice
    _use(alice, record, monkeypatch)
    record.refresh_from_db()
    if record.trashed_at is None:
        record_kinds.kind_of(record.record_type()).trash(record, alice.actor)
    record.refresh_from_db()
    record.owner = alice
    return record


def _purge(record: Remembered, owner: User, committed: Any) -> None:
    with committed(execute=True):
        if isinstance(record, Topic):
            acts.purge_topic(record, typed=record.title, by=owner.actor)
        else:
            record_acts.purge(record, typed=record_acts.typed_name(record), by=owner.actor)


def test_a_record_deleted_permanently_is_gone_from_everywhere_but_what_a_person_typed(
    used: Remembered, alice: User, client_of: Callable[[User], Client],
    django_capture_on_commit_callbacks: Any,
) -> None:  # fmt: skip
    assert len(found()) > 8  # it was used indeed
    _assert_the_page_that_asks_names_the_session_that_stays(used, client_of(alice))

    _purge(used, alice, django_capture_on_commit_callbacks)

    assert found() - STAYS == set()
    assert on_disk() == []
    for message in Message.objects.filter(content__icontains=MARKER):
        assert (message.role, message.session.agent_id) == ("user", None)
    other = {
        one.content for one in Note.objects.for_user(alice).filter(content__in=["Once", "Kept."])
    }
    assert other == {"Once", "Kept."}


def _assert_the_page_that_asks_names_the_session_that_stays(
    record: Remembered, browser: Client
) -> None:
    session = Session.objects.get(title="Harbour")
    own = "research:topic-purge" if isinstance(record, Topic) else ""
    address = (
        reverse(own, args=[record.pk])
        if own
        else reverse("memory:record-purge", args=[record.record_type(), record.pk])
    )

    page = browser.get(address).content.decode()

    assert f'href="{session.get_absolute_url()}"' in page
    assert "These items say the same thing" in page


def test_emptying_the_trash_takes_the_copies_of_all_that_lay_there(
    alice: User, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.DATA_DIR, settings.BEACON_MIRROR_DIR = tmp_path, ""
    monkeypatch.setattr(connections, "language_model", lambda: None)
    records = [KINDS[name](alice) for name in ("note", "observation", "content", "scratchpad")]
    _by_tools(alice, records[0])
    _by_ask(alice, monkeypatch)
    for record in records:
        record.refresh_from_db()
        record.trash(by=alice.actor)

    emptied = trash_page.empty(trash_page.trashed(alice), typed=trash_page.word(), by=alice.actor)

    assert emptied == {"gone": 4}
    assert found() - STAYS == set()


def test_why_another_proposal_is_held_no_longer_quotes_what_was_deleted(
    alice: User, settings: Any, tmp_path: Path, django_capture_on_commit_callbacks: Any
) -> None:
    settings.DATA_DIR, settings.BEACON_MIRROR_DIR = tmp_path, ""
    note = _note(alice)
    held = HoldReasons([Risk("contradiction", {"line": WORDS}), Risk("every-write")])
    proposal = review_services.hold(
        alice, "note", by=AGENT, source="session:1", before={}, why="", held=held,
        after={"kind": "log", "content": "Fares rise on Fridays."},
    )  # fmt: skip
    note.trash(by=alice.actor)

    _purge(note, alice, django_capture_on_commit_callbacks)

    proposal.refresh_from_db()
    assert [risk["code"] for risk in proposal.risks] == ["contradiction", "every-write"]
    assert found() - STAYS == set()


def _other_order(said: str) -> str:
    """Return a text that has all the words, so that none of them is rare."""
    pairs = [said[first : first + 2] for first in range(len(said))]
    return " ".join(reversed(said.split() if " " in said else pairs))


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ("the boat of my brother was sold to pay for it", "of my brother was sold to"),
        ("我哥哥的船卖掉了所以我们有钱付房租", "的船卖掉了所以我们有钱"),
    ],
)
def test_a_short_quote_of_a_long_text_is_gone_where_the_text_was_read(
    alice: User, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any, said: str, part: str,
) -> None:  # fmt: skip
    """No id beside the quote, none of its words rare, and no piece that the text is sampled by."""
    settings.DATA_DIR, settings.BEACON_MIRROR_DIR = tmp_path, ""
    monkeypatch.setattr(connections, "language_model", lambda: None)
    lines = [f"- On day {number} we talked about the weather again." for number in range(900)]
    text = "\n".join([*lines[:437], f"- As you know, {said}.", *lines[437:]])
    document = add_document(alice, title="Diary", text=text, by=alice.actor)
    write_note(alice, "log", _other_order(said), by=alice.actor)
    session = conversation.start(alice, "Boats")
    waiting = conversation.ask(session, "What of the boat?", by=alice.actor)
    Message.objects.filter(pk=waiting.pk).update(
        state="done", content=f"I see.\n\nThere, {part.upper()} X!\n\nNothing else."
    )
    run = make_run(make_topic(alice, "Ships"))
    Step.objects.create(run=run, name="plan", output={"note": f"It says {said}"}, detail=said)
    proposal = review_services.hold(
        alice, "note", by=AGENT, source="agent:claude", before={}, why="", held="risky",
        after={"content": f"It seems {said}."},
    )  # fmt: skip
    for place in (f"session:{session.pk}", run.source, str(AGENT)):
        Use.note_records(alice, [document], place)
    assert not any(probe in said for probe in traces.traces_of([document]).probes)
    document.trash(by=alice.actor)

    _purge(document, alice, django_capture_on_commit_callbacks)

    assert found(part) == set()
    waiting.refresh_from_db()
    assert waiting.content == "I see.\n\n[…]\n\nNothing else."
    assert not Proposal.objects.filter(pk=proposal.pk).exists()
    assert Step.objects.get().output == {"note": "[…]"}
