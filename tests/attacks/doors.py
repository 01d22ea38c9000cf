"""An agent by REST and MCP: the owner's records, each call's response, and the changed rows.

`door_writes.py` lists every act that writes, `door_reads.py` every act that shows something;
`test_doors.py` tries each of them under every review level and after every kind of reading.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from memory.accounts import tokens
from memory.agents.chat import conversation
from memory.models import (
    Agent,
    ContentItem,
    LibraryDocument,
    MemoryFile,
    Message,
    Note,
    Observation,
    ReviewLevel,
    Session,
    Snapshot,
    Topic,
    Trust,
    User,
)
from memory.models.actors import RESEARCH, Actor
from memory.services import scratchpad
from memory.services.content.items import store
from memory.services.content.snapshots import take_snapshot
from memory.services.files.saving import save_file
from memory.services.library.documents import add_document
from memory.services.notes.saving import lowest_trust, pin, write_note
from memory.services.observations.saving import Line, remember_lines
from memory.services.search import ratings
from research.mcp import server
from research.mcp.server import Caller, NoSuchResource
from research.models import Run
from research.services.runs.execution.starting import create_topic
from research.services.topics import sharing
from tests.api.cast import Program
from tests.pages.rows_written import rows_written
from tests.research.factories import (
    make_fact,
    make_hit,
    make_item,
    make_report,
    make_run,
    make_topic,
)

NAME = "desk"
LEVELS = ACCEPT, RISKY, ALL = tuple(ReviewLevel.Level.values)
LONG_AGO = timezone.now() - timedelta(days=300)
SECRET = "zyzzyva"  # in every current record, and in nothing that an act sends
OUTSIDE = "quagga"  # in every record that came from outside


@dataclass(frozen=True, slots=True)
class Answer:
    """A response by REST or MCP: done, held or rejected, and its text."""

    status: int
    text: str
    held: bool = False
    refused: bool = False

    @property
    def done(self) -> bool:
        return not (self.held or self.refused)

    def __str__(self) -> str:
        how = "held" if self.held else "refused" if self.refused else "done"
        return f"{how} ({self.status})"


class Desk:
    """The owner's agent, with one token for REST and MCP."""

    def __init__(self, owner: User, *scopes: str, name: str = NAME) -> None:
        self.sent = ""  # all that the last call sent
        self.program = Program(owner, *(scopes or ("read", "write")), name=name)
        self.caller = Caller(find=lambda: tokens.find(self.program.text))

    def rest(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request to the API."""
        self.sent = f"{path} {json.dumps(body)}"
        answer = self.program.send(method, path, body, **headers)
        text = answer.content.decode()
        is_json = "json" in answer.get("Content-Type", "")
        told = json.loads(text) if is_json and text else {}
        held = answer.status_code == 202 and "proposal" in told
        return Answer(answer.status_code, text, held, answer.status_code >= 400)

    def tool(self, name: str, /, **arguments: Any) -> Answer:
        """Call a tool by MCP."""
        self.sent = json.dumps(arguments)
        result = server.call(self.caller, name, arguments)
        text = "\n".join(one.text for one in result.content)
        data = result.structured_content or {}
        status = 403 if result.is_error else 200
        return Answer(status, f"{text}\n{json.dumps(data)}", "proposal" in data, result.is_error)

    def resource(self, uri: str) -> Answer:
        """Read an attachment by MCP."""
        try:
            return Answer(200, server.read(self.caller, uri))
        except NoSuchResource as exc:
            return Answer(403, str(exc), refused=True)

    @property
    def agent(self) -> Agent:
        """The agent's row as it is now."""
        return Agent.objects.get(owner=self.program.owner, name=self.program.token.agent.name)


@dataclass
class World:
    """One owner, the owner's agent, and a record of each kind by the agent, the owner, the web."""

    owner: User
    desk: Desk
    note: Note
    other_note: Note
    persons_note: Note
    pinned_note: Note
    outside_note: Note
    observation: Observation
    outside_observation: Observation
    outside_item: ContentItem
    outside_document: LibraryDocument
    item: ContentItem
    snapshot: Snapshot
    session: Session
    topic: Topic
    persons_topic: Topic
    run: Run
    failed_run: Run
    running: Run
    persons_failed_run: Run
    persons_running: Run
    file: MemoryFile
    more: dict[str, Any] = field(default_factory=dict)

    def rest(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        return self.desk.rest(method, path, body, **headers)

    def tool(self, name: str, /, **arguments: Any) -> Answer:
        return self.desk.tool(name, **arguments)


MONTH = "episodes/2026-02.md"
MEMORY = "facts/memory.md"
LINE = "- The bus is blue."


def made_world(owner: User) -> World:
    """Create everything that the actions name; the agent's records are its earlier work."""
    desk = Desk(owner)
    agent: Actor = desk.agent.actor
    web: dict[str, Any] = {"by": RESEARCH, "trust": Trust.EXTERNAL}
    words = f"the {SECRET} {OUTSIDE} harbour page"
    persons_topic = make_topic(owner, "Harbour", settings={"objective": SECRET})
    run = _researched(persons_topic, words)
    persons_failed = make_run(make_topic(owner, "Failed"), saved=False, status=Run.Status.FAILED)
    persons_running = make_run(make_topic(owner, "Running"), saved=False)
    failed = make_run(make_topic(owner, "Own failed"), saved=False, status=Run.Status.FAILED)
    running = make_run(make_topic(owner, "Own running"), saved=False)
    Run.objects.filter(pk__in=[failed.pk, running.pk]).update(actor=str(agent))
    topic = create_topic(
        owner=owner, title="Bridges", by=agent, source=str(agent), trust=Trust.AGENT,
        settings={"objective": SECRET},
    )  # fmt: skip
    save_file(
        owner,
        MEMORY,
        f"# Memory\n\n{LINE}\n- The {SECRET} bus is late.\n",
        by=agent,
        trust=Trust.AGENT,
    )
    save_file(owner, MONTH, f"# 2026-02\n\n> Summary: {words}\n\n- {words}\n", **web)
    scratchpad.set_value(owner, "own", f"own {SECRET}", by=agent)
    scratchpad.set_value(owner, "persons", f"a person's {SECRET}", by=owner.actor)
    scratchpad.set_value(owner, "web", words, **web)
    item = store(owner, f"own {SECRET}", by=agent, scope=str(agent))
    session = conversation.start(owner, "Talk", agent=desk.agent)
    Message.objects.create(
        session=session, position=0, role="assistant", content=words, state="done", by="model",
        cites=[{"type": "note", "trust": Trust.EXTERNAL}],
        tool_calls=[{"tool": "recall", "is_error": False, "trust": Trust.EXTERNAL}],
    )  # fmt: skip
    write_note(owner, "rule", f"{words}: never pay", evidence=["it"], **web)
    gone = write_note(owner, "log", f"{words}, gone", **web)
    gone.trash(by=owner.actor)
    lines = [Line("finding", f"The agent's {SECRET} finding.")]
    found = [Line("finding", f"Found on {words}.")]
    note = write_note(owner, "log", f"The {SECRET} tram leaves at seven.", by=agent)
    rated = {
        "rating": ratings.rate(owner, "ferry", note, "useful", by=agent),
        "persons_rating": ratings.rate(owner, "bus", note, "useful", by=owner.actor),
    }
    return World(
        owner=owner,
        desk=desk,
        note=note,
        other_note=write_note(owner, "log", f"The {SECRET} ferry leaves at noon.", by=agent),
        persons_note=write_note(owner, "log", f"My {SECRET} aunt lives in Ulm.", by=owner.actor),
        pinned_note=pin(
            write_note(owner, "log", f"The {SECRET} ferry is free.", by=agent), by=owner.actor
        ),
        outside_note=write_note(owner, "log", f"Read on {words}.", **web),
        observation=remember_lines(owner, lines, by=agent).observations[0],
        outside_observation=remember_lines(owner, found, **web).observations[0],
        outside_item=store(owner, words, title=words, **web),
        outside_document=add_document(owner, title=words, text=f"Seen on {words}.", **web),
        item=item,
        snapshot=take_snapshot(owner, str(agent), by=agent),
        session=session,
        topic=topic,
        persons_topic=persons_topic,
        run=run,
        failed_run=failed,
        running=running,
        persons_failed_run=persons_failed,
        persons_running=persons_running,
        file=MemoryFile.objects.get(owner=owner, path=MEMORY),
        more=dict(rated) | {"shared": _shared_with(owner, words)},
    )


def _shared_with(owner: User, words: str) -> Topic:
    """Return another person's topic that `owner` can read."""
    other = User.objects.create_user("carol")
    topic = make_topic(other, words, settings={"objective": words})
    sharing.add_comment(_researched(topic, words).report, words, author=other)
    sharing.add_member(topic, owner.username, "editor", by=other.actor)
    return topic


def _researched(topic: Topic, words: str) -> Run:
    """Return a topic's second run, whose report, sources, facts and summary quote a page."""
    first = make_run(topic)
    make_report(first).mark_read()
    run = make_run(topic)
    make_report(run, title=words, body=f"It says {words}. [1]", summary=words)
    make_fact(
        topic, f"It says {words}.", run, trust=Trust.EXTERNAL, created=LONG_AGO,
        confirmed_at=LONG_AGO,
    )  # fmt: skip
    make_item(run, "new", f"It says {words}.", citations=[1])
    make_hit(run, 1, title=words)
    Topic.objects.filter(pk=topic.pk).update(summary=words)
    return run


# --- what a call leaves -----------------------------------------------------------------------------

# What is written about a call, and no word of it: who called and when, and what waits for a person.
BOOKKEEPING = {
    "memory_activity", "memory_agent", "memory_agentscope", "memory_apianswer", "memory_apitoken",
    "memory_proposal", "memory_refusedsource", "memory_use",
}  # fmt: skip
# Each row by table and key: its trust where it has one, and the digest of what it holds.
Rows = dict[tuple[str, str], tuple[str, str]]


def questions() -> dict[str, str]:
    """Return the query for the rows of each of Beacon's tables."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, array_agg(column_name::text) FROM information_schema.columns "
            "WHERE table_schema = 'public' AND table_name ~ '^(memory|research)_' GROUP BY 1"
        )
        found = [(name, set(columns)) for name, columns in cursor.fetchall()]
    return {
        name: f"SELECT '{name}', {'id::text' if 'id' in columns else 'md5(t::text)'}, "  # noqa: S608
        f"{'trust' if 'trust' in columns else repr('')}, md5(t::text) FROM {name} t"
        for name, columns in found
        if name not in BOOKKEEPING
    }


def rows_now(asked: dict[str, str], among: Iterable[str] | None = None) -> Rows:
    """Return every row of these tables (default: all)."""
    chosen = [asked[name] for name in (asked if among is None else among) if name in asked]
    if not chosen:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(chosen))
        return {(name, key): (trust, digest) for name, key, trust, digest in cursor.fetchall()}


@dataclass(frozen=True, slots=True)
class Left:
    """A call's effects: tables with a changed row, and the trust of new and changed rows.

    `raised` are the tables in which a row is believed more than it was.
    """

    tables: frozenset[str]
    new: frozenset[str]
    changed: frozenset[str]
    raised: frozenset[str]

    @classmethod
    def of(
        cls, call: Callable[[], Answer], asked: dict[str, str], before: Rows
    ) -> tuple[Answer, Left]:
        """Make the call; compare the rows of the affected tables with those before."""
        with rows_written() as touched:
            answer = call()
        after = rows_now(asked, touched)
        return answer, cls.between({k: v for k, v in before.items() if k[0] in touched}, after)

    @classmethod
    def between(cls, before: Rows, after: Rows) -> Left:
        """Compare all rows before a call with those after it."""
        new, gone = after.keys() - before.keys(), before.keys() - after.keys()
        changed = {key for key in after.keys() & before.keys() if after[key] != before[key]}
        return cls(
            tables=frozenset(name for name, _key in new | gone | changed),
            new=frozenset(after[key][0] for key in new) - {""},
            changed=frozenset(after[key][0] for key in changed) - {""},
            raised=frozenset(
                key[0]
                for key in changed
                if after[key][0] and lowest_trust([after[key][0], before[key][0]]) != after[key][0]
            ),
        )


@contextmanager
def taken_back() -> Iterator[None]:
    """Undo what is written in the meantime."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


# --- what was read before ---------------------------------------------------------------------------

Read = Callable[[World], Answer]
NOTHING = "nothing"
READS: dict[str, Read | None] = {
    NOTHING: None,
    "an agent's note by REST": lambda w: w.rest("GET", f"/notes/{w.note.pk}"),
    "an agent's note by MCP": lambda w: w.tool("retrieve", id=str(w.note.pk)),
    "a page by REST": lambda w: w.rest("GET", f"/notes/{w.outside_note.pk}"),
    "a page by MCP": lambda w: w.tool("retrieve", id=str(w.outside_note.pk)),
}
FROM_OUTSIDE = frozenset(name for name in READS if name.startswith("a page"))
EVERY = [(level, read) for level in LEVELS for read in READS]
