"""All external services on loopback: a model, an embedder, a search; and their clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from beacon_site.db import leased_jobs
from beacon_site.providers.llm.adapters import get_embedder
from beacon_site.providers.llm.base import ENDPOINT, EmbedderProfile, LlmProfile, Message
from beacon_site.providers.llm.openai_model import OpenAIModel, learned_about
from beacon_site.providers.search.base import SearchProfile, get_search
from memory.agents import reflection as reflection_services
from memory.agents.chat import conversation
from memory.agents.chat import end as conversation_end
from memory.agents.chat import turn as conversation_turn
from memory.agents.tools.output_store import asker
from memory.agents.tools.types import ToolContext
from memory.models import Agent, ContentItem, MemoryFile, Note, Observation, Topic, User
from memory.services.content import compaction
from memory.services.files import condensing as file_condensing
from memory.services.llm import connections
from memory.services.notes.maintenance import maintain
from memory.services.search import embedding
from memory.services.search.recall import recall
from research.mcp import server
from research.mcp.server import Caller
from research.models import Run
from research.services.runs.execution import pipeline, starting
from research.services.runs.search import reading, searching
from tests.api.cast import Program
from tests.memory.ended_sessions import finish_session
from tests.providers.embedding_server import EmbeddingServer
from tests.providers.servers import ScriptedChatServer, SerpApiServer, result, says
from tests.research import cast

QUESTION = "What do the tea fares come to?"
ROUND = 8  # calls that are carried out at once


class Outside:
    """The three servers, and what programs were answered."""

    def __init__(self) -> None:
        found = [result(n, link=cast.url(n), title="Tea fares") for n in (1, 2)]
        self.chat, self.vectors = ScriptedChatServer(), EmbeddingServer()
        self.search = SerpApiServer(found)
        self.answers: list[str] = []
        self.wanted: list[tuple[str, dict[str, Any]]] = []

    def forget(self) -> None:
        """Start over."""
        self.chat.forget()
        self.vectors.forget()
        self.search.asked.clear()
        self.answers.clear()
        self.chat.standing = self._standing

    def heard(self) -> dict[str, str]:
        """Return all that each was sent, or answered, as one text."""
        return {
            "model": "\n".join(json.dumps(a.body, ensure_ascii=False) for a in self.chat.asked),
            "embedder": json.dumps(self.vectors.asked, ensure_ascii=False),
            "search": repr(self.search.asked),
            "programs": "\n".join(self.answers),
        }

    def _standing(self, body: dict[str, Any]) -> Any:
        """Plan, write, and call every tool that reads, with whatever ids there are."""
        system = str(body["messages"][0]["content"])
        if system.startswith("You plan"):
            return {"queries": ["tea fares", "tea prices"]}
        if system.startswith("You write a research report"):
            return cast.report(1, 2)
        offered = {tool["function"]["name"] for tool in body.get("tools", ())}
        before = sum(bool(one.get("tool_calls")) for one in body["messages"])
        wanted = [one for one in self.wanted if one[0] in offered]
        some = wanted[before * ROUND : (before + 1) * ROUND]
        return _calls(some) if some else "- Nothing was found."


def _calls(wanted: list[tuple[str, dict[str, Any]]]) -> Any:
    made = [
        {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(a)}}
        for n, (name, a) in enumerate(wanted)
    ]
    return says(None, finish_reason="tool_calls", tool_calls=made)


def reads_of(owner: User) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls of all tools that read, of each record that there is."""
    kinds: Any = (Note, Observation, ContentItem)
    keys = [
        str(pk)
        for kind in kinds
        for pk in kind.objects.for_user(owner).values_list("pk", flat=True)
    ]
    return [
        ("web_search", {"query": "tea fares"}), ("open_page", {"page": "p1"}),
        ("recall", {"query": QUESTION, "limit": 20}), ("list_memory", {}), ("memory_list", {}), ("about", {"name": "tea"}),
        ("memory_read", {"path": "facts/memory.md"}), ("get_context", {"message": QUESTION}),
        ("query_memory", {}), ("scratchpad_list", {}), ("scratchpad_get", {"key": "tea/fares"}),
        ("scratchpad_search", {"text": "fares"}),
        *(("retrieve_from_memory", {"id": key}) for key in keys[-4:]),
        *(("retrieve", {"id": key}) for key in keys[-8:]),
    ]  # fmt: skip


@contextmanager
def standing_in(outside: Outside, *, tools: bool | None = None) -> Iterator[None]:
    """Let these be all that the site reaches outside."""
    learned_about.cache_clear()
    model = OpenAIModel(LlmProfile(outside.chat.base_url, "tiny", timeout=5.0, tools=tools))
    vectors = get_embedder(EmbedderProfile(ENDPOINT, "v", base_url=outside.vectors.base_url))
    search = get_search(SearchProfile("serpapi", outside.search.base_url, "serp-key"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "language_model", lambda: model)
        patch.setattr(connections, "search_services", lambda names=(): ["serpapi"])
        patch.setattr(searching, "search_provider", lambda name, *, owner: search)
        patch.setattr(connections, "embedder", lambda **_more: vectors)
        patch.setattr(reading, "get_fetcher", lambda: cast.pages(1, 2))
        patch.setattr(leased_jobs, "BEAT_SECONDS", 300.0)
        yield


# --- who asks -------------------------------------------------------------------------------------


def _embeds(owner: User, outside: Outside) -> None:
    embedding.process_due(5)
    recall(owner, QUESTION)


def _asks(owner: User, outside: Outside, *, tools: bool | None = None) -> None:
    with standing_in(outside, tools=tools):
        session = conversation.start(owner, "Tea")
        conversation_turn.answer(conversation.ask(session, QUESTION, by=owner.actor).pk)
        conversation_end.end(session, by=owner.actor)
        finish_session(session)


def _asks_without_tools(owner: User, outside: Outside) -> None:
    _asks(owner, outside, tools=False)


def _keeps_up(owner: User, outside: Outside) -> None:
    maintain(owner)
    file = MemoryFile.objects.for_user(owner).get(path="facts/memory.md")
    file_condensing.perform(str(file.pk), file.version)
    talk = [Message("user", QUESTION)]
    reflection_services.reflect(
        owner, source="session:1", task=QUESTION, result="Nothing.", history=talk, trust="owner"
    )


def _makes_short(owner: User, outside: Outside) -> None:
    agent = Agent(owner=owner, name="short", use_model_compaction=True)
    context = ToolContext(owner, agent.actor, "session:1", agent=agent)
    for item in ContentItem.objects.for_user(owner):
        compaction.compact_form(item, agent=agent, goal=QUESTION, ask=asker(context))


def _runs(owner: User, outside: Outside, *, depth: str = "quick") -> None:
    topic = Topic.objects.for_user(owner).first()
    topic = topic or starting.create_topic(owner=owner, title="Tea fares", by=owner.actor)
    run = Run.objects.start(topic, trigger="person", by=owner.actor, depth=depth)
    cast.carried_out(run)
    for step in run.steps.filter(is_follow_up=True).order_by("position"):
        pipeline.run_follow_up(step.pk)


def _runs_deep(owner: User, outside: Outside) -> None:
    _runs(owner, outside, depth="deep")


def _programs_read(owner: User, outside: Outside) -> None:
    program = Program(owner, "read", name="reader")
    asked = ["/notes?state=all", "/observations", "/content", "/scratchpad", "/files", "/trash",
             "/files/facts/memory.md", "/scratchpad/tea%2Ffares", "/recall?q=tea%20fares"]  # fmt: skip
    asked += [f"/{kind}/{key['id']}" for kind, key in _keys(owner)]
    outside.answers += [program.get(path).content.decode() for path in asked]
    answer = program.post("/context", {"message": QUESTION})
    outside.answers.append(answer.content.decode())


def _keys(owner: User) -> list[tuple[str, dict[str, Any]]]:
    kinds: Any = (("notes", Note), ("observations", Observation), ("content", ContentItem))
    return [
        (name, row) for name, kind in kinds for row in kind.objects.for_user(owner).values("id")
    ]


def _programs_call(owner: User, outside: Outside) -> None:
    token = Program(owner, "read", name="caller").token
    for name, arguments in outside.wanted[2:]:
        answered = server.call(Caller(find=lambda: token), name, arguments)
        outside.answers.append(answered.model_dump_json())


ASKERS: dict[str, Callable[[User, Outside], None]] = {
    "the embedder": _embeds,
    "Ask": _asks,
    "Ask without tools": _asks_without_tools,
    "upkeep": _keeps_up,
    "compaction": _makes_short,
    "a run": _runs,
    "a deep run": _runs_deep,
    "REST": _programs_read,
    "MCP": _programs_call,
}
