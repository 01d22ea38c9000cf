"""The scope `except:<agent>`: one agent can't see the record anywhere, all others can."""

from __future__ import annotations

from typing import Any

import pytest

from memory.agents.chat.turn import ConversationContext, caller_of
from memory.agents.tools import registry
from memory.agents.tools.types import ToolContext
from memory.models import Agent, Message, Note, Session
from memory.models.actors import Actor
from memory.models.remembered import (
    in_scopes,
    is_in_scopes,
    scope_excluding,
    scope_including,
)
from memory.services.context.layers import build_context
from memory.services.notes.merging import merge
from memory.services.notes.saving import write_note

CLAUDE, CURSOR = Actor("agent", "claude"), Actor("agent", "cursor")
NAMES = ["claude", "claude 2", "cl_ude", "c%", "de", "claude/sub", "ä"]


def rule(owner: Any, content: str, **more: Any) -> Note:
    return write_note(owner, "rule", content, by=owner.actor, evidence=["said so"], **more)


def called(owner: Any, by: Actor, tool: str, **arguments: Any) -> str:
    caller = ToolContext(owner, by, str(by), scope=str(by))
    return registry.call_tool(caller, tool, arguments).text


@pytest.mark.parametrize("name", NAMES)
def test_python_and_sql_agree_on_every_name(alice: Any, name: str):
    scopes = ["owner", *(f"agent:{one}" for one in NAMES)]
    scopes += [f"except:{one}" for one in NAMES]
    scopes += ["except:claude:de", "except:de:claude", "session:1"]
    for scope in scopes:
        rule(alice, f"In {scope}.", scope=scope)
    reader = ("owner", f"agent:{name}")

    found = set(
        Note.objects.for_user(alice).filter(in_scopes(reader)).values_list("scope", flat=True)
    )

    assert found == {one for one in scopes if is_in_scopes(one, reader)}
    assert f"except:{name}" not in found


@pytest.mark.requirement("R264")
def test_a_tool_shows_it_to_all_but_that_agent(alice: Any):
    note = rule(alice, "The zebra is expensive.", scope="except:claude")

    for tool, asked in (("list_memory", {}), ("recall", {"query": "zebra"}), ("get_context", {})):
        assert "zebra" not in called(alice, CLAUDE, tool, **asked).replace("“zebra”", "")
        assert "zebra is expensive" in called(alice, CURSOR, tool, **asked)
    assert note.content not in build_context(alice, scopes=("owner", "agent:claude")).system


def test_including_is_the_opposite_of_excluding():
    scope = scope_excluding(scope_excluding("owner", "claude"), "cursor")
    assert scope == scope_excluding(scope, "cursor") == "except:claude:cursor"
    assert scope_including(scope, "claude") == "except:cursor"
    assert scope_including("except:cursor", "cursor") == "owner"


def test_a_merged_note_stays_hidden_from_each_of_them(alice: Any):
    notes = [
        rule(alice, "The zebra is expensive.", scope="except:claude"),
        rule(alice, "The zebra is expensive today.", scope="except:cursor"),
    ]
    made = merge(alice, [one.pk for one in notes], by=alice.actor)[0]
    assert made.scope == "except:claude:cursor"


def test_ask_reads_nothing_for_an_agent_that_is_kept_from_it(alice: Any):
    note = rule(alice, "The zebra is expensive.", scope="except:claude")
    for name, is_open in (("claude", False), ("cursor", True)):
        agent = Agent.objects.create(owner=alice, name=name)
        session = Session(owner=alice, agent=agent, title="A talk")
        talk = ConversationContext(session, Message(tool_calls=[]), Message(content="zebra"), [])
        caller = caller_of(talk)
        assert caller.may_read(note) is is_open
        assert (note.content in build_context(alice, scopes=caller.scopes).system) is is_open
