"""Every action of an agent, by REST and MCP, under each review level, after each kind of reading.

The tables are door_writes.py and door_reads.py; a new operation, field or tool needs a row there.
A cell is tried within a savepoint and judged by its answer and by every row of the database.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from memory.agents.tools.registry import REGISTRY
from memory.agents.tools.types import ToolContext
from memory.api import auth, shown
from memory.models import Agent, Note, Observation, Trust, User
from memory.services.review import blocking
from memory.services.review import proposals as review_services
from memory.services.review import trust as review_trust
from research.api.joined import api
from research.services.runs.execution import starting
from tests.api.test_every_route import OPERATIONS, SCOPE_OF
from tests.attacks.door_reads import SHOWS, Show
from tests.attacks.door_writes import WRITES, Expect, Write, allowed, persons
from tests.attacks.doors import (
    ACCEPT,
    ALL,
    EVERY,
    FROM_OUTSIDE,
    MEMORY,
    MONTH,
    NAME,
    OUTSIDE,
    READS,
    RISKY,
    SECRET,
    Answer,
    Desk,
    Left,
    World,
    made_world,
    questions,
    rows_now,
    taken_back,
)
from tests.attacks.figures import Count
from tests.memory.ended_sessions import finish_session
from tests.memory.review_cast import level

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(alice: User, settings: Any) -> World:
    """Alice's records, and her agent, which no rate limit stops."""
    settings.BEACON_API_REQUESTS_PER_MINUTE = 1_000_000
    settings.BEACON_RUNS_PER_HOUR = 1_000
    return made_world(alice)


# --- the table is whole -----------------------------------------------------------------------------


def test_every_operation_and_tool_that_writes_has_a_row():
    registered = [
        *(name for name, (method, *_more) in OPERATIONS.items() if method != "GET"),
        *(name for name, tool in REGISTRY.items() if tool.writes),
    ]
    posts_that_read = {"read_context"}

    assert sorted({row.name for row in WRITES}) == sorted({*registered} - posts_that_read)


def test_every_operation_and_tool_that_reads_has_a_row():
    registered = [
        *(name for name, scope in SCOPE_OF.items() if scope == "read"),
        *(f"{name} (tool)" if name in OPERATIONS else name for name, tool in REGISTRY.items() if not tool.writes),
    ]  # fmt: skip
    rows = [row.name for row in SHOWS if not row.name.startswith("resource")]

    assert sorted(rows) == sorted(registered)


@pytest.mark.parametrize("name", ["edit_note", "edit_one_observation", "edit_topic"])
def test_every_field_of_a_patch_has_a_row(name: str):
    cases = {row.case for row in WRITES if row.name == name}

    assert sorted(_fields(name) - {"reason"} - cases) == []


def _fields(name: str) -> set[str]:
    body = OPERATIONS[name][2]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    schema = api.get_openapi_schema()["components"]["schemas"][body.rpartition("/")[2]]
    return set(schema["properties"])


# --- door x act x level x what was read before ------------------------------------------------------


def exceptions(
    world: World, at_level: str, read: str, rows: Iterable[Write] = WRITES
) -> dict[str, str]:
    """Try each action once and return the results that differ from the table."""
    asked, found = questions(), {}
    with taken_back():
        level(world.owner, at_level)
        if reading := READS[read]:
            assert reading(world).done
        before = rows_now(asked)
        for row in rows:
            with taken_back():
                answer, left = Left.of(lambda row=row: row.do(world), asked, before)
            wrong = _wrong(row, row.rule(at_level, read in FROM_OUTSIDE), read, answer, left)
            if wrong:
                found[str(row)] = wrong
    return found


def _wrong(row: Write, expect: Expect, read: str, answer: Answer, left: Left) -> str:
    """Return how the cell differs from the expected result, or ""."""
    if answer.status >= 500:
        return f"broke: {answer}"
    if not answer.done and not _explained(answer):
        return f"{answer} without a word"
    written = left.tables & row.tables if row.tables else left.tables
    if expect is Expect.DONE:
        return "" if answer.done else f"not allowed: {answer} {answer.text[:200]}"
    if expect is Expect.STORED:
        return _wrongly_stored(row, read in FROM_OUTSIDE, answer, left, written)
    if expect is Expect.REFUSED and not answer.refused:
        return f"not refused: {answer}, wrote {sorted(written)}"
    if written:
        return f"{answer}, and wrote {sorted(written)}"
    if answer.done and not row.tables:
        return f"neither held nor refused: {answer}"
    return ""


def _explained(answer: Answer) -> bool:
    return len(answer.text) > 20


def _wrongly_stored(
    row: Write, outside: bool, answer: Answer, left: Left, written: frozenset[str]
) -> str:
    if not answer.done:
        return f"not stored: {answer} {answer.text[:200]}"
    if not written:
        return "done, and nothing was written"
    if left.raised:
        return f"believed more than before: {sorted(left.raised)}"
    if Trust.OWNER.value in left.new:
        return "stored as the owner's word"
    if outside and left.new - {Trust.EXTERNAL.value}:
        return f"stored as {sorted(left.new)} after a page was read"
    if outside and row.words and not left.new and Trust.EXTERNAL.value not in left.changed:
        return f"changed, and still believed as {sorted(left.changed)} after a page was read"
    return ""


# The same in each cell: what an agent can never do, and what it can always do.
DECIDED = tuple(row for row in WRITES if row.rule in (persons, allowed))
JUDGED = tuple(row for row in WRITES if row not in DECIDED)
LOOSEST = (ACCEPT, "nothing")
ENDS = {"nothing", *FROM_OUTSIDE}
SHORT = {(RISKY, "an agent's note by REST")}
SHORT |= {cell for cell in EVERY if cell[1] == "nothing" or (cell[0] == RISKY and cell[1] in ENDS)}
QUICK = [pytest.param(*cell, marks=() if cell in SHORT else pytest.mark.long) for cell in EVERY]
ONCE = [pytest.param(*cell, marks=() if cell == LOOSEST else pytest.mark.long) for cell in EVERY]


def judge(world: World, count: Count, cell: tuple[str, str], rows: Sequence[Write]) -> None:
    at_level, read = cell
    found = exceptions(world, at_level, read, rows)
    outside = read in FROM_OUTSIDE
    kept = {
        str(row) for row in rows if row.rule(at_level, outside) in (Expect.KEPT_OUT, Expect.REFUSED)
    }
    for sink in sorted({sink_of(row, outside) for row in rows}):
        here = {str(row) for row in rows if sink_of(row, outside) == sink}
        wrong = here & found.keys()
        count(sink, len(here), refused=len(here & kept - wrong), run=len(wrong))
    assert not found, "\n".join(f"{name}: {what}" for name, what in sorted(found.items()))


def sink_of(row: Write, outside: bool) -> str:
    """Return the class of attack that a cell counts for."""
    if "topic" in row.name or row.name == "treat_source":
        return "agent: topics as an asset"
    if row.name in ("end_session", "say"):
        return "agent: acts that work later"
    if row.name.startswith("edit_"):
        return "agent: each field of an edit"
    return "agent: laundering across doors" if outside else "agent: each act at each door"


@pytest.mark.parametrize(("at_level", "read"), QUICK)
def test_each_act_ends_as_the_table_says(
    world: World, count: Count, at_level: str, read: str
) -> None:
    judge(world, count, (at_level, read), JUDGED)


@pytest.mark.parametrize(("at_level", "read"), ONCE)
def test_what_is_decided_for_all_ends_the_same_everywhere(
    world: World, count: Count, at_level: str, read: str
) -> None:
    judge(world, count, (at_level, read), DECIDED)


# --- what is shown lowers the trust of what is written ----------------------------------------------


def not_lowered(world: World, rows: Iterable[Show] = SHOWS) -> dict[str, str]:
    """Read in each way and return those that don't lower the agent's trust."""
    found = {}
    for row in rows:
        with taken_back():
            answer = row.do(world)
            trust = world.desk.agent.read_trust
        shows = OUTSIDE in answer.text
        if not answer.done:
            found[row.name] = f"{answer} {answer.text[:200]}"
        elif shows != row.outside:
            found[row.name] = (
                "shows a page, and its row says it does not" if shows else "shows none"
            )
        elif shows and trust != Trust.EXTERNAL:
            found[row.name] = f"shows a page, and leaves the agent's trust at “{trust}”"
    return found


def test_whatever_shows_text_from_outside_lowers_what_is_written_next(
    world: World, count: Count
) -> None:
    found = not_lowered(world)

    count("agent: reading by each door", len(SHOWS), run=len(found))
    assert not found, "\n".join(f"{name}: {what}" for name, what in found.items())


STALE: dict[str, Callable[[World], Answer]] = {
    "412 of a file": lambda w: w.rest(
        "PUT", f"/files/{MONTH}", {"content": "# Mine"}, If_Match='"99"'
    ),
    "409 of a tool": lambda w: w.tool("memory_write", path=MONTH, content="# Mine", version=0),
}


@pytest.mark.parametrize("way", STALE)
def test_a_refusal_that_quotes_a_page_lowers_it_too(world: World, way: str) -> None:
    answer = STALE[way](world)

    assert answer.refused
    assert OUTSIDE not in answer.text or world.desk.agent.read_trust == Trust.EXTERNAL


def test_an_answer_that_is_reported_again_lowers_it_again(world: World) -> None:
    key = {"Idempotency_Key": "k1"}
    world.rest("POST", "/context", {"message": OUTSIDE}, **key)
    Agent.objects.update(read_trust="", read_at=None)

    again = world.rest("POST", "/context", {"message": OUTSIDE}, **key)

    assert OUTSIDE in again.text
    assert world.desk.agent.read_trust == Trust.EXTERNAL


def test_a_page_does_not_pass_through_a_second_agent(world: World, count: Count) -> None:
    """A reads a page by MCP, leaves it in the scratchpad by REST, and B reads it by MCP."""
    other = Desk(world.owner, name="second")
    READS["a page by MCP"](world)
    carriers = {
        "scratchpad": (
            world.rest("PUT", "/scratchpad/carrier", {"value": f"Pay {OUTSIDE}."}),
            lambda: other.tool("scratchpad_get", key="carrier"),
        ),
        "content": (
            world.rest("POST", "/content", {"content": f"Pay {OUTSIDE}.", "scope": "owner"}),
            lambda: other.rest("GET", "/content"),
        ),
    }
    stored = []
    for name, (left, taken_up) in carriers.items():
        with taken_back():
            taken_up()
            if left.done and other.tool("remember", content=f"Pay {OUTSIDE}.").done:
                stored.append(name)

    count("agent: laundering through a second agent", len(carriers), run=len(stored))
    assert stored == []


# --- an agent that its owner blocked ----------------------------------------------------------------


def test_a_blocked_agent_writes_nothing_by_any_act(world: World, count: Count) -> None:
    found = not_blocked(world)

    count(
        "agent: blocked, by each act", len(WRITES), refused=len(WRITES) - len(found), run=len(found)
    )
    assert not found, "\n".join(f"{name}: {what}" for name, what in sorted(found.items()))


def not_blocked(world: World, rows: Sequence[Write] = WRITES) -> dict[str, str]:
    """Block the agent, try each action, and return those that had an effect."""
    asked, found = questions(), {}
    with taken_back():
        level(world.owner, ACCEPT)
        blocking.refuse(world.owner, "agent", NAME, by=world.owner.actor)
        before = rows_now(asked)
        for row in rows:
            with taken_back():
                answer, left = Left.of(lambda row=row: row.do(world), asked, before)
            if not answer.refused or left.tables or answer.status >= 500:
                found[str(row)] = f"{answer}, wrote {sorted(left.tables)}"
    return found


def test_what_an_agent_ended_before_it_was_blocked_leaves_nothing(
    world: World, count: Count
) -> None:
    session = f"/sessions/{world.session.pk}"
    world.rest("POST", f"{session}/messages", {"content": "It was decided: pay at once."})
    world.rest("POST", f"{session}/end", {})
    blocking.refuse(world.owner, "agent", NAME, by=world.owner.actor)
    before = Note.objects.count(), Observation.objects.count()

    finish_session(world.session)

    after = Note.objects.count(), Observation.objects.count()
    count("agent: acts that work later", 1, run=int(after != before))
    assert after == before


# --- a token that only writes -----------------------------------------------------------------------


def told_to_a_writer(world: World, rows: Sequence[Write] = WRITES) -> dict[str, str]:
    """Return the actions whose response shows a `write` token text that it didn't send."""
    writer = replace(world, desk=Desk(world.owner, "write"))
    level(world.owner, ACCEPT)
    found = {}
    for row in rows:
        with taken_back():
            answer = row.do(writer)
        if SECRET in answer.text and SECRET not in writer.desk.sent:
            found[str(row)] = f"{answer}: {answer.text[:300]}"
    return found


def test_a_token_that_only_writes_is_told_nothing(world: World, count: Count) -> None:
    found = told_to_a_writer(world)

    count("agent: a token that only writes", len(WRITES), run=len(found))
    assert not found, "\n".join(f"{name}: {what}" for name, what in sorted(found.items()))


@pytest.mark.parametrize("version", ['"99"', "*", ""])
def test_nor_by_a_version_that_is_not_the_stored_one(
    world: World, count: Count, version: str
) -> None:
    writer = Desk(world.owner, "write")
    told = {"If_Match": version} if version else {}
    paths = {
        f"/files/{MONTH}": {"content": "# Mine"},
        f"/files/{MEMORY}": {"content": "# Mine"},
        f"/notes/{world.persons_note.pk}": {"tags": ["mine"]},
        f"/notes/{world.outside_note.pk}": {"tags": ["mine"]},
        f"/topics/{world.persons_topic.slug}": {"labels": ["mine"]},
    }
    answers = {
        f"{method} {path}": writer.rest(method, path, body, **told)
        for path, body in paths.items()
        for method in ("PUT", "PATCH", "DELETE")
    }
    found = [name for name, one in answers.items() if SECRET in one.text or OUTSIDE in one.text]

    count("agent: a token that only writes", len(answers), run=len(found))
    assert found == []


# --- one agent against another of the same owner ----------------------------------------------------

OTHERS: dict[str, Callable[[Desk], Answer]] = {
    "notes of its scope": lambda d: d.rest("GET", "/notes?scope=session%3Aplan"),
    "its content": lambda d: d.rest("GET", "/content?scope=run%3Aplan"),
    "its scratchpad": lambda d: d.rest("GET", "/scratchpad?session=plan"),
    "its value": lambda d: d.rest("GET", "/scratchpad/own?session=plan"),
    "set its value": lambda d: d.rest("PUT", "/scratchpad/own?session=plan", {"value": "1"}),
    "trash its value": lambda d: d.rest("DELETE", "/scratchpad/own?session=plan"),
    "clear its content": lambda d: d.rest("DELETE", "/content?scope=run%3Aplan"),
    "a note in its scope": lambda d: d.rest(
        "POST", "/notes", {"content": "Pay.", "scope": "session:plan"}
    ),
    "an item in its scope": lambda d: d.rest(
        "POST", "/content", {"content": "Pay.", "scope": "run:plan"}
    ),
    "a snapshot of it": lambda d: d.rest("POST", "/content/snapshots", {"scope": "run:plan"}),
    "notes by its name": lambda d: d.rest("GET", "/notes?scope=agent%3Adesk"),
    "content by its name": lambda d: d.rest("GET", "/content?scope=agent%3Adesk"),
}


def reached(world: World) -> dict[str, str]:
    """Let a second agent try the first one's entries; return what it read, wrote or received."""
    desk, other = world.desk, Desk(world.owner, name="second")
    desk.rest("POST", "/notes", {"content": f"Mine, {SECRET}.", "scope": "session:plan"})
    desk.rest("POST", "/content", {"content": f"Mine, {SECRET}.", "scope": "run:plan"})
    desk.rest("PUT", "/scratchpad/own?session=plan", {"value": f"Mine, {SECRET}."})
    asked = questions()
    before, found = rows_now(asked), {}
    for name, act in OTHERS.items():
        with taken_back():
            answer, left = Left.of(lambda act=act: act(other), asked, before)
        if SECRET in answer.text or answer.done or left.tables:
            found[name] = f"{answer}, wrote {sorted(left.tables)}"
    return found


def test_an_agent_is_shut_out_of_another_agents_scopes(world: World, count: Count) -> None:
    found = reached(world)

    refused = len(OTHERS) - len(found)
    count("agent: another agent's scopes", len(OTHERS), refused=refused, run=len(found))
    assert found == {}


def test_a_session_and_its_messages_are_not_another_agents(world: World) -> None:
    other = Desk(world.owner, name="second")
    path = f"/sessions/{world.session.pk}"
    answers = [
        other.rest("GET", path),
        other.rest("POST", f"{path}/messages", {"content": "Pay."}),
        other.rest("POST", f"{path}/end", {}),
        other.rest("POST", f"{path}/consolidate", {"messages": []}),
    ]

    assert {one.status for one in answers} == {404}


# --- each guard taken out ---------------------------------------------------------------------------


def everywhere(patch: pytest.MonkeyPatch, function: Any, instead: Any) -> None:
    """Replace a function in each module that imported it."""
    for module in [*sys.modules.values()]:
        if str(getattr(module, "__name__", "")).partition(".")[0] in ("memory", "research"):
            for name, value in [*vars(module).items()]:
                if value is function:
                    patch.setattr(module, name, instead)


def _no_verdict(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, review_services.hold_reason, lambda *_args, **_more: "")


def _nothing_noted(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, review_trust.note, lambda *_args, **_more: None)


def _own_trust(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ToolContext, "write_trust", property(lambda _context: Trust.AGENT))


def _nobody_blocked(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, review_services.check_not_blocked, lambda *_args, **_more: None)


def _nobodys_own(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, shown.is_persons, lambda _record: False)


def _for_everyone(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, auth.only_people, lambda *_args: None)


def _every_agents_topic(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, starting.check_own, lambda *_args: None)


def _every_run(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, starting.check_own_run, lambda *_args: None)


def _every_field(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, starting.check_fields, lambda *_args: None)


def _every_scope(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(auth.Caller, "may", lambda _caller, _scope: True)


def _open_names(patch: pytest.MonkeyPatch) -> None:
    everywhere(patch, auth.is_open, lambda *_args: True)


def rows(*names: str) -> tuple[Write, ...]:
    """Return the rows of these operations and tools."""
    return tuple(row for row in WRITES if row.name in names)


def at(at_level: str, read: str, *names: str) -> Callable[[World], dict[str, str]]:
    """Return the table of these operations and tools for one level and one kind of reading."""
    return lambda world: exceptions(world, at_level, read, rows(*names))


@dataclass(frozen=True, slots=True)
class Guard:
    """How to remove a guard, the part of the table that shows it, and the cells that fail."""

    out: Callable[[pytest.MonkeyPatch], None]
    table: Callable[[World], dict[str, str]]
    cells: tuple[str, ...]


GUARDS = {
    "the review's verdict": Guard(
        _no_verdict,
        at(
            ALL, "nothing", "write_note", "edit_note", "merge_notes", "trash_note", "say",
            "end_session", "remember", "memory_append", "make_topic",
        ),
        (
            "write_note: log", "edit_note: kind", "edit_note: into a rule", "merge_notes: own",
            "trash_note: own", "say: to keep", "end_session: and the worker", "remember: log",
            "memory_append", "make_topic",
        ),
    ),
    "noting what was read": Guard(
        _nothing_noted,
        at(RISKY, "a page by REST", "write_note", "remember", "set_entry"),
        ("write_note: log", "remember: log", "set_entry: new"),
    ),
    "noting what is shown": Guard(
        _nothing_noted, not_lowered, ("read_note", "recall", "retrieve", "resource: a file")
    ),
    "the trust of a write": Guard(
        _own_trust,
        at(ACCEPT, "a page by MCP", "write_note", "set_entry", "store_content", "remember_fil"),
        ("write_note: log", "set_entry: new", "store_content: for all", "remember_fil"),
    ),
    "the block of an agent": Guard(
        _nobody_blocked,
        lambda world: not_blocked(
            world, rows("write_note", "set_entry", "say", "make_topic", "scratchpad_set")
        ),
        ("write_note: log", "set_entry: new", "say: a question", "make_topic", "scratchpad_set: own"),
    ),
    "what a person wrote": Guard(
        _nobodys_own,
        at(ACCEPT, "nothing", "edit_note", "trash_note", "merge_notes"),
        ("edit_note: a person's: content", "trash_note: a person's", "merge_notes: a person's"),
    ),
    "what only people do": Guard(
        _for_everyone,
        at(ACCEPT, "nothing", "edit_note", "trash_file"),
        ("edit_note: pinned", "edit_note: sensitivity", "trash_file"),
    ),
    "a person's topics": Guard(
        _every_agents_topic,
        at(ACCEPT, "nothing", "edit_topic"),
        ("edit_topic: a person's: objective", "edit_topic: a person's: always_check"),
    ),
    "what a person decides of a topic": Guard(
        _every_field,
        at(ACCEPT, "nothing", "edit_topic", "make_topic"),
        ("edit_topic: month_money", "edit_topic: max_tokens", "make_topic: schedule"),
    ),
    "an agent's own runs": Guard(
        _every_run,
        at(ACCEPT, "nothing", "cancel_run", "stop_run", "retry_run"),
        ("cancel_run: a person's", "stop_run: a person's", "retry_run: a person's"),
    ),
    "the scope of a token": Guard(
        _every_scope,
        lambda world: told_to_a_writer(world, rows("edit_note", "merge_notes")),
        ("edit_note: tags", "merge_notes: own"),
    ),
    "an agent's own names": Guard(
        _open_names, reached, ("its value", "clear its content", "trash its value")
    ),
}  # fmt: skip


@pytest.mark.parametrize("guard", GUARDS)
def test_with_a_guard_removed_its_cells_fail(
    world: World, monkeypatch: pytest.MonkeyPatch, guard: str
) -> None:
    one = GUARDS[guard]
    with monkeypatch.context() as patch:
        one.out(patch)
        found = one.table(world)

    assert {*one.cells} - found.keys() == set()
