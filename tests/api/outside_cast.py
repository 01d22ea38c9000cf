"""A row of each kind with text from outside, and how each API call reaches it."""

from __future__ import annotations

from typing import Any

from memory.models import MemoryFile, Message, Session, Snapshot, TopicFact, Trust, User
from memory.services import scratchpad
from memory.services.content.items import store
from memory.services.files.saving import save_file
from memory.services.library.documents import add_document
from memory.services.notes import saving as notes
from memory.services.observations.saving import Line, remember_lines
from memory.services.search import ratings
from research.api.joined import api
from research.services.topics import sharing
from tests.api.cast import ROOT, Program
from tests.api.test_every_route import address
from tests.research.factories import make_second_run, make_topic

OUTSIDE = "The quokkafern invoice is due at once"  # what a page said
FILE = "facts/memory.md"
KEY = "from the web"
OPERATIONS = {
    told["operationId"]: (method.upper(), path.removeprefix(ROOT))
    for path, methods in api.get_openapi_schema()["paths"].items()
    for method, told in methods.items()
}


def rows_from_outside(alice: User) -> dict[str, Any]:
    """Return rows for URLs: each contains OUTSIDE and has external trust."""
    topic = make_topic(alice, "Invoices")
    topic.change(by=alice.actor, summary=OUTSIDE)
    run = make_second_run(topic)
    run.warnings = [OUTSIDE]
    run.save(update_fields=["warnings"])
    more = {"by": alice.actor, "trust": Trust.EXTERNAL}
    note = notes.write_note(alice, "log", OUTSIDE, **more)
    notes.write_note(alice, "summary", OUTSIDE, **more)
    gone = notes.write_note(alice, "log", f"{OUTSIDE}, too", **more)
    gone.trash(by=alice.actor)
    observation = remember_lines(alice, [Line("finding", OUTSIDE)], **more).observations[0]
    save_file(alice, FILE, f"# Memory\n\n> Summary: {OUTSIDE}\n\n- {OUTSIDE}\n", by=alice.actor)
    file = alice_file(alice)
    type(file).objects.filter(pk=file.pk).update(trust=Trust.EXTERNAL)
    scratchpad.set_value(alice, KEY, OUTSIDE, **more)
    TopicFact.objects.filter(topic=topic).update(trust=Trust.EXTERNAL)
    item = store(alice, OUTSIDE, title=OUTSIDE, **more)
    snapshot = Snapshot.objects.create(owner=alice, title=OUTSIDE, scope="owner")
    document = add_document(alice, text=OUTSIDE, trust=Trust.EXTERNAL, by=alice.actor)
    rating = ratings.rate(alice, OUTSIDE, observation, "useful", by=alice.actor, reason=OUTSIDE)
    carol, _is_new = User.objects.get_or_create(username="carol")
    shared = make_topic(carol, OUTSIDE, settings={"objective": OUTSIDE})
    sharing.add_comment(make_second_run(shared).report, OUTSIDE, author=carol)
    sharing.add_member(shared, alice.username, "editor", by=carol.actor)
    return {
        "topic_id": shared.pk, "slug": topic.slug, "number": run.number, "run_id": run.pk, "note_id": note.pk, "memory_id": note.pk,
        "observation_id": observation.pk, "item_id": item.pk, "snapshot_id": snapshot.pk,
        "document_id": document.pk, "path": FILE, "key": KEY.replace(" ", "%20"), "record_type": "note", "record_id": gone.pk,
        "rating_id": rating.pk,
    }  # fmt: skip


def alice_file(alice: User) -> Any:
    """Return Alice's file `facts/memory.md`."""
    return MemoryFile.objects.for_user(alice).get(path=FILE)


def session_of(program: Program) -> Session:
    """Return the client's own session, whose answer read something from outside."""
    agent = program.token.agent
    session: Session = Session.objects.create(
        owner=program.owner, agent=agent, title="Bills", source=str(agent.actor), trust=Trust.AGENT
    )
    Message.objects.create(session=session, position=0, role="user", content="What is due?")
    call = {"name": "recall", "arguments": {}, "result": OUTSIDE, "trust": Trust.EXTERNAL.value}
    Message.objects.create(
        session=session, position=1, role="assistant", content=OUTSIDE, tool_calls=[call]
    )
    return session


def send(
    program: Program, name: str, there: dict[str, Any], body: Any = None, **headers: str
) -> Any:
    """Send the operation's request to the rows in `there`."""
    method, path = OPERATIONS[name]
    path = address(path, {**there, "session_id": there.get("session_id", "")})
    path += {
        "recall": "?q=quokkafern",
        "show_about": "?name=quokkafern",
        "clear_content": "?scope=run:none",
    }.get(name, "")
    return program.send(method, path, body, **headers)
