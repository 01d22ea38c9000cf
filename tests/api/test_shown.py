"""Reading by REST lowers the trust of an agent's next writes, as reading by MCP does."""

from __future__ import annotations

from typing import Any

import pytest

from memory.agents.chat.turn import caller_of, talk_of, words_trust
from memory.api import shown
from memory.models import (
    Agent,
    ApiAnswer,
    ContentItem,
    Message,
    Note,
    Observation,
    Proposal,
    ScratchpadEntry,
    Session,
    Snapshot,
    Topic,
    Trust,
    User,
)
from memory.models.actors import RESEARCH
from memory.services.files.saving import save_file
from memory.services.notes import saving as notes
from memory.services.review import trust
from memory.services.review.proposals import set_levels
from research.mcp import server
from tests.api.cast import Program, problem
from tests.api.outside_cast import (
    FILE,
    OPERATIONS,
    OUTSIDE,
    alice_file,
    rows_from_outside,
    send,
    session_of,
)
from tests.api.test_observations import LONG
from tests.research.test_mcp import program as by_mcp

NOTE = {"content": "The kettle is descaled on Mondays.", "evidence": ["said so"]}
READS = sorted(
    name
    for name, (method, _path) in OPERATIONS.items()
    if method == "GET" or name == "read_context"
)
FOR_PEOPLE = {"list_proposals", "list_conflicts", "list_corrections", "list_hooks", "list_members"}
SHOW_NO_TEXT = {"read_settings", "read_forecast"}


def read_trust(program: Program) -> str:
    """Return what is recorded about the client's agent."""
    return Agent.objects.get(pk=program.token.agent.pk).read_trust


def has_read(program: Program) -> Program:
    """Return the client after it has read text from outside."""
    trust.note(program.token.agent, Trust.EXTERNAL)
    return program


@pytest.fixture
def accepts(alice: User) -> None:
    set_levels(alice, {"default": "accept"}, by=alice.actor)


# --- reading (H2) ---------------------------------------------------------------------------------


def test_what_each_read_shows_is_noted_before_the_next_write(alice: User) -> None:
    there = rows_from_outside(alice)
    wrong: dict[str, Any] = {}
    for name in sorted(set(READS) - FOR_PEOPLE):
        program = Program(alice, "read", "write", name=name.replace("_", "-"))
        there["session_id"] = session_of(program).pk
        answer = send(program, name, there, {} if name == "read_context" else None)
        noted, after = read_trust(program), program.post("/notes", NOTE)
        expected = (200, "", 201) if name in SHOW_NO_TEXT else (200, Trust.EXTERNAL.value, 202)
        got = (answer.status_code, noted, after.status_code)
        if got != expected:
            wrong[name] = (got, answer.content[:300])
        Note.objects.filter(content=NOTE["content"]).delete()
        Proposal.objects.all().delete()

    assert wrong == {}


def test_what_an_agent_wrote_itself_lowers_nothing(agent: Program) -> None:
    key = agent.post("/notes", NOTE).json()["id"]
    agent.get(f"/notes/{key}")
    agent.get("/notes")

    assert read_trust(agent) in ("", Trust.AGENT)
    assert agent.post("/notes", {**NOTE, "content": "It is on the left."}).status_code == 201


def test_an_answer_whose_schema_reports_nothing_counts_as_from_outside() -> None:
    with shown.collected() as told:
        assert told.lowest() == Trust.EXTERNAL
        shown.shows()
        assert told.lowest() == Trust.OWNER
        shown.item(str, object())  # a row of a list whose schema forgets to report it
        assert told.lowest() == Trust.EXTERNAL


def test_the_text_in_a_refused_write_is_noted_too(alice: User, agent: Program) -> None:
    rows_from_outside(alice)

    told = problem(agent.put(f"/files/{FILE}", {"content": "# Mine\n"}, If_Match='"99"'), 412)

    assert OUTSIDE in told["current"]
    assert agent.post("/notes", NOTE).status_code == 202


def test_an_answer_that_is_given_again_is_noted_again(alice: User, agent: Program) -> None:
    rows_from_outside(alice)
    asked = {"title": "Invoices"}
    assert OUTSIDE in agent.post("/topics", asked, Idempotency_Key="k").json()["summary"]
    Agent.objects.update(read_trust="", read_at=None)

    again = agent.post("/topics", asked, Idempotency_Key="k")

    assert again["Idempotent-Replayed"] == "true"
    assert agent.post("/notes", NOTE).status_code == 202


# --- writing (H3) ---------------------------------------------------------------------------------

WRITES: dict[str, tuple[Any, Any]] = {
    "write_note": (NOTE, lambda: Note.objects.get(content=NOTE["content"])),
    "remember_observations": (
        {"category": "finding", "content": "Cells crack."},
        lambda: Observation.objects.get(content="Cells crack."),
    ),
    "extract_observations": (
        {"output": LONG,
         "step_name": "look", "store": True},
        lambda: Observation.objects.latest("created"),
    ),
    "set_entry": ({"value": "X pays."}, lambda: ScratchpadEntry.objects.get(value="X pays.")),
    "store_content": ({"content": "X pays."}, lambda: ContentItem.objects.get(content="X pays.")),
    "take_snapshot": ({"scope": "owner", "title": "X"}, lambda: Snapshot.objects.get(title="X")),
    "begin_session": ({"title": "X"}, lambda: Session.objects.get(title="X")),
    "say": (
        {"content": "Please remember that X pays."},
        lambda: Note.objects.get(content="X pays."),
    ),
    "consolidate_session": (
        {"messages": [{"role": "user", "content": "We decided that X pays all invoices on Mondays, as it is cheaper."}]},
        lambda: Observation.objects.latest("created"),
    ),
    "make_topic": ({"title": "X pays"}, lambda: Topic.objects.get(title="X pays")),
    "append_entry": ({"entry": "- X pays."}, None),
    "write_file": ({"content": "# Memory\n\n- X pays.\n"}, None),
    "patch_file_at": ({"patches": [{"old_text": "Kettle", "new_text": "X pays"}]}, None),
    "supersede_note": ({"content": "X pays."}, lambda: Note.objects.get(content="X pays.")),
    "edit_note": ({"content": "X pays."}, lambda: Note.objects.get(content="X pays.")),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_stored_with_the_trust_of_what_was_read(
    alice: User, agent: Program, accepts: None, name: str
) -> None:
    body, stored = WRITES[name]
    save_file(alice, FILE, "# Memory\n\n- Kettle\n", by=alice.actor)
    note = agent.post("/notes", {"content": "The old words."}).json()["id"]
    there = {
        "path": FILE, "key": "k", "note_id": note, "session_id": agent.post("/sessions").json()["id"]
    }  # fmt: skip
    has_read(agent)

    answer = send(agent, name, there, body, If_Match="*")

    assert answer.status_code in (200, 201), answer.content
    record = stored() if stored is not None else alice_file(alice)
    assert record.trust == Trust.EXTERNAL


def test_a_merge_and_an_edited_topic_are_believed_no_further_than_their_writer(
    alice: User, agent: Program, accepts: None
) -> None:
    ids = [agent.post("/notes", {"content": f"Note {n}."}).json()["id"] for n in (1, 2)]
    slug = agent.post("/topics", {"title": "X pays"}).json()["slug"]
    has_read(agent)

    merged = agent.post("/notes/merge", {"ids": ids})
    agent.patch(f"/topics/{slug}", {"objective": "When X pays."}, If_Match="*")

    assert merged.json()["trust"] == Trust.EXTERNAL
    assert Topic.objects.get(slug=slug).trust == Trust.EXTERNAL


def test_a_message_that_asks_to_remember_is_held_after_reading(agent: Program) -> None:
    session = agent.post("/sessions").json()["id"]
    has_read(agent)

    agent.post(f"/sessions/{session}/messages", {"content": "Please remember that X pays."})

    assert not Note.objects.filter(content__contains="X pays").exists()
    assert Proposal.objects.get().after["content"] == "X pays."
    assert Session.objects.get(pk=session).trust == Trust.EXTERNAL


def test_what_ask_does_for_an_agent_is_believed_no_further_than_its_words(agent: Program) -> None:
    session = agent.post("/sessions").json()["id"]
    has_read(agent)
    said = agent.post(f"/sessions/{session}/messages", {"content": "When does X pay?"}).json()

    talk = talk_of(Message.objects.get(pk=said["answer"]["id"]))

    assert caller_of(talk).write_trust == Trust.EXTERNAL
    assert words_trust(talk.session) == Trust.EXTERNAL


def test_what_one_agent_read_is_not_laundered_by_the_scratchpad_of_another(alice: User) -> None:
    page = notes.write_note(alice, "log", OUTSIDE, by=alice.actor, trust=Trust.EXTERNAL)
    server.call(by_mcp(alice, name="a"), "retrieve", {"id": str(page.pk)})
    Program(alice, "read", "write", name="a").put("/scratchpad/due", {"value": "Pay at once."})

    other = by_mcp(alice, name="b")
    server.call(other, "scratchpad_get", {"key": "due"})
    result = server.call(other, "remember", {"content": "Pay at once."})

    assert "proposal" in result.structured_content
    assert not Note.objects.filter(content="Pay at once.").exists()


def test_what_was_read_by_rest_holds_a_write_by_mcp(alice: User) -> None:
    page = notes.write_note(alice, "log", OUTSIDE, by=alice.actor, trust=Trust.EXTERNAL)
    Program(alice, "read", "write", name="a").get(f"/notes/{page.pk}")

    result = server.call(by_mcp(alice, name="a"), "remember", {"content": "Pay at once."})

    assert "proposal" in result.structured_content


# --- kept answers (M9) ----------------------------------------------------------------------------


def _hide(note: Note, how: str) -> None:
    by = note.owner.actor
    if how == "trash":
        note.trash(by=by)
    else:
        note.change(by=by, **{how: "sensitive" if how == "sensitivity" else Trust.QUARANTINED})


@pytest.mark.parametrize("how", ["sensitivity", "trust", "trash"])
def test_a_kept_answer_does_not_repeat_what_was_hidden_since(agent: Program, how: str) -> None:
    first = agent.post("/notes", NOTE, Idempotency_Key="k").json()
    _hide(Note.objects.get(pk=first["id"]), how)

    again = agent.post("/notes", NOTE, Idempotency_Key="k")

    assert again.status_code == 201
    assert again.json() == {name: first[name] for name in ("id", "scope", "version")}
    assert Note.objects.filter(content=NOTE["content"]).count() == 1


def test_a_kept_answer_of_a_conversation_is_hidden_with_it(alice: User, agent: Program) -> None:
    path = f"/sessions/{agent.post('/sessions', {}).json()['id']}"
    said = {"content": OUTSIDE}
    assert OUTSIDE in agent.post(f"{path}/messages", said, Idempotency_Key="k").content.decode()
    Session.objects.get().change(by=alice.actor, sensitivity="sensitive")

    again = agent.post(f"{path}/messages", said, Idempotency_Key="k")

    assert again.status_code == 201
    assert OUTSIDE not in again.content.decode()
    assert Message.objects.filter(content=OUTSIDE).count() == 1


@pytest.mark.requirement("R406")
def test_a_context_without_external_text_leaves_the_agents_writes_free(
    alice: User, agent: Program
) -> None:
    notes.write_note(alice, "rule", "Answer in one sentence.", by=alice.actor, confidence=1.0)
    notes.write_note(alice, "summary", OUTSIDE, by=RESEARCH, trust=Trust.EXTERNAL)

    own = agent.post("/context", {"external": False}).json()["text"]
    assert "Answer in one sentence." in own and OUTSIDE not in own
    assert agent.post("/notes", NOTE).status_code == 201

    assert OUTSIDE in agent.post("/context", {}).json()["text"]
    assert agent.post("/notes", NOTE | {"content": "Tea is dear."}).status_code == 202


def test_a_post_that_only_reads_is_answered_as_things_are_now(alice: User, agent: Program) -> None:
    note = notes.write_note(alice, "summary", OUTSIDE, by=alice.actor)
    assert OUTSIDE in agent.post("/context", {}, Idempotency_Key="k").json()["text"]
    note.change(by=alice.actor, sensitivity="sensitive")

    assert OUTSIDE not in agent.post("/context", {}, Idempotency_Key="k").json()["text"]
    assert not ApiAnswer.objects.exists()
