"""Which results a model gets in each turn, and what a sub-agent sees of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from beacon_site.providers.llm.base import Answer, Message, ToolCall, Usage
from beacon_site.text.cleaning import as_data
from memory.agents.tools import registry as tools
from memory.agents.tools.loop import LoopResult, run_loop
from memory.agents.tools.output_store import ResultStore, store_for
from memory.agents.tools.types import Arguments, MemoryTool, ToolContext, ToolResult
from memory.models import Agent, ContentItem
from memory.models.actors import RESEARCH, Actor
from memory.services.content.items import query, store
from memory.services.llm import connections
from tests.providers.fakes import FAKE_PROFILE, FakeLanguageModel

AGENT = Actor("agent", "claude")
PAGE = "The river is 219 kilometres long. " * 100
TASK = [Message("system", "You are Beacon."), Message("user", "How long is it?")]
Loop = Callable[..., LoopResult]


class Where(Arguments):
    at: str


def _open(context: ToolContext, asked: Where) -> ToolResult:
    if asked.at == "nowhere":
        return ToolResult("There is no such page.", is_error=True, data={"error": "not_found"})
    text = f"{asked.at}: {PAGE}"
    context.trust = "external"
    return ToolResult(as_data(text), full=text)


def _short(_context: ToolContext, asked: Where) -> ToolResult:
    return ToolResult(f"Done with {asked.at}.")


@pytest.fixture(autouse=True)
def _two_tools_more() -> Iterator[None]:
    """`open` gives a long page from outside, `note` a few words."""
    added = [
        MemoryTool("open", "Opens a page.", Where, _open),
        MemoryTool("note", "Notes a thing.", Where, _short),
    ]
    tools.register(*added)
    yield
    for one in added:
        del tools.REGISTRY[one.name]


def context_of(owner: Any, **more: Any) -> ToolContext:
    told = {"scope": "run:12", "agent": Agent(name="claude", enable_memory=True)}
    return ToolContext(owner, AGENT, "run:12", **(told | more))


@pytest.fixture
def loop(alice: Any, monkeypatch: pytest.MonkeyPatch) -> Loop:
    """Run the loop with a model that gives these answers; it is in `loop.model`."""

    def run(*answers: Any, context: ToolContext | None = None, **more: Any) -> LoopResult:
        model = FakeLanguageModel(*answers, profile=replace(FAKE_PROFILE, context_tokens=100_000))
        monkeypatch.setattr(connections, "language_model", lambda: model)
        run.model = model  # type: ignore[attr-defined]
        context = context or context_of(alice)
        names = ["open", "note", "retrieve_from_memory", "query_memory"]
        told = {"tools": names, "rounds": 9, "source": "run:12", "store": store_for(context)}
        result = run_loop("track", TASK, context=context, **(told | more))
        assert result is not None
        return result

    return run


def calls(*wanted: tuple[str, dict[str, Any]]) -> Answer:
    made = tuple(ToolCall(f"c{n}", name, given) for n, (name, given) in enumerate(wanted))
    return Answer("", Usage(), "fake", "tool_calls", tool_calls=made)


def opens(*pages: str, tool: str = "open") -> Answer:
    return calls(*((tool, {"at": page}) for page in pages))


def sent(loop: Loop, turn: int) -> list[str]:
    """Return what was sent of each result in a turn (from 1)."""
    asked = loop.model.history[turn - 1].messages  # type: ignore[attr-defined]
    return [one.content for one in asked if one.role == "tool"]


def item_of(page: str) -> ContentItem:
    return ContentItem.objects.get(content__startswith=f"{page}: ")


def form(text: str) -> str:
    """Return in which of its forms a result was sent."""
    if PAGE in text:
        return "full"
    return "compact" if "The first 500 of" in text else "line" if "0 of 3," in text else text


@pytest.mark.requirement("R124")
@pytest.mark.requirement("R125")
def test_the_first_result_is_sent_in_full_for_one_turn_then_short_then_in_a_line(loop: Loop):
    loop(opens("a"), opens("b"), opens("c"), "219 kilometres.")

    assert [form(one) for one in sent(loop, 2)] == ["full"]
    assert [form(one) for one in sent(loop, 3)] == ["compact", "compact"]
    assert [form(one) for one in sent(loop, 4)] == ["line", "compact", "compact"]
    for turn in (2, 3, 4):
        for page, text in zip("abc", sent(loop, turn), strict=False):
            assert str(item_of(page).pk) in text


@pytest.mark.requirement("R122")
@pytest.mark.requirement("R123")
@pytest.mark.requirement("R134")
def test_every_result_is_kept_in_full_whatever_is_sent_of_it(loop: Loop, alice: Any):
    context = context_of(alice)
    store = ResultStore(context, run_step="run:12/step:3")

    result = loop(opens("a", "b"), "219 kilometres.", context=context, store=store)

    for page, call in zip("ab", result.calls, strict=True):
        item = item_of(page)
        assert item.content == f"{page}: {PAGE}" and item.source == item.action == "open"
        assert item.tags == ["action", "open"] and item.run_step == "run:12/step:3"
        assert (item.type, item.trust, item.scope) == ("action_result", "external", "run:12")
        assert call.data["content_item"] == str(item.pk)


def test_what_is_kept_of_a_call_is_its_short_form(loop: Loop):
    result = loop(opens("a"), opens("b"), "219 kilometres.")

    rows = [call.as_json() for call in result.calls]
    assert [form(row["compact"]) for row in rows] == ["compact", "compact"]
    assert rows[0]["content_item"] == str(item_of("a").pk)


@pytest.mark.requirement("R126")
def test_first_is_counted_by_run_and_action(loop: Loop, alice: Any):
    loop(opens("a", "b"), "Done.")
    assert [form(one) for one in sent(loop, 2)] == ["full", "compact"]

    loop(opens("c"), "Done.")
    assert [form(one) for one in sent(loop, 2)] == ["compact"]

    loop(opens("d"), "Done.", context=context_of(alice, scope="run:13"))
    assert [form(one) for one in sent(loop, 2)] == ["full"]


@pytest.mark.django_db(transaction=True)
def test_of_tracks_that_ask_at_the_same_time_one_is_the_first(alice: Any):
    def keep(_number: int) -> bool:
        try:
            return ResultStore(context_of(alice)).keep("open", ToolResult(PAGE)).is_first
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(keep, range(4))) == 1


def test_a_failed_call_isnt_a_first_result_and_is_kept_all_the_same(loop: Loop):
    loop(opens("nowhere"), opens("a"), "Done.")

    assert sent(loop, 2) == ["There is no such page."]
    assert form(sent(loop, 3)[1]) == "full"
    failed = ContentItem.objects.get(tags__contains=["error"])
    assert (failed.content, failed.action) == ("There is no such page.", "open")


def test_the_same_call_twice_in_one_breath_is_kept_and_sent_in_full_once(loop: Loop):
    loop(opens("a", "a"), "Done.")

    assert [form(one) for one in sent(loop, 2)] == ["full", "compact"]
    assert ContentItem.objects.count() == 1


@pytest.mark.requirement("R137")
def test_a_short_result_is_sent_as_it_is_in_every_turn(loop: Loop):
    loop(opens("x", tool="note"), opens("y", tool="note"), opens("z", tool="note"), "Done.")

    assert sent(loop, 2)[0].startswith("Done with x.\n\n(Stored in memory as ")
    assert sent(loop, 4) == ["Done with x.", "Done with y.", "Done with z."]


@pytest.mark.requirement("R127")
def test_what_is_retrieved_is_sent_for_one_turn_and_not_kept_twice(loop: Loop, alice: Any):
    item = store(alice, "filler\n" * 900 + "the key is 4711\n", by=AGENT, scope="run:12")
    wanted = {"id": str(item.pk), "transform": "filtered", "q": "key"}

    loop(calls(("retrieve_from_memory", wanted)), opens("a"), "4711")

    assert "the key is 4711" in sent(loop, 2)[0] and "4711" not in sent(loop, 1)
    assert "15 of 6,316 characters shown" in sent(loop, 2)[0]
    assert ContentItem.objects.filter(action="retrieve_from_memory").count() == 0


def test_a_long_retrieved_text_becomes_a_line_in_the_turn_after(loop: Loop, alice: Any):
    item = store(alice, "words " * 900, by=AGENT, scope="run:12")

    loop(calls(("retrieve_from_memory", {"id": str(item.pk)})), opens("a"), "Done.")

    assert len(sent(loop, 2)[0]) > 5_000
    assert sent(loop, 3)[0].startswith("(All 5,400 characters were removed after one turn.")


@pytest.mark.requirement("R132")
@pytest.mark.requirement("R135")
def test_without_memory_nothing_is_kept_and_all_is_sent_in_full(loop: Loop, alice: Any):
    for context in (context_of(alice, agent=Agent(name="x")), context_of(alice, agent=None)):
        result = loop(opens("a"), opens("b"), opens("c"), "Done.", context=context)

        assert [form(one) for one in sent(loop, 4)] == ["full"] * 3
        assert sent(loop, 4) == [as_data(f"{page}: {PAGE}") for page in "abc"]
        assert "compact" not in result.calls[0].as_json()
    assert not ContentItem.objects.exists()
    assert [getattr(Agent(), name) for name in SETTINGS] == [False, True, False, ""]


SETTINGS = ("enable_memory", "share_with_subagents", "use_model_compaction", "compaction_prompt")


def test_more_calls_than_can_be_made_store_nothing_more(loop: Loop):
    result = loop(opens(*map(str, range(200))), "Done.")

    assert ContentItem.objects.count() == 8 and len(result.calls) == 200
    assert (
        result.calls[-1].is_error and "at most 8 calls can run at once" in result.calls[-1].result
    )


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda item, by: item.change(by=by, sensitivity="sensitive"), "Only people can see"),
        (lambda item, by: item.trash(by=by), "no longer exists"),
        (lambda item, by: item.purge(by=by), "no longer exists"),
    ],
)
def test_what_a_person_hides_or_throws_away_in_the_meantime_is_sent_no_more(
    loop: Loop, alice: Any, act: Any, said: str
):
    def hide(call: Any) -> None:
        if call.arguments["at"] == "b":
            act(item_of("a"), alice.actor)

    loop(opens("a"), opens("b"), "Done.", on_call=hide)

    assert form(sent(loop, 2)[0]) == "full"
    assert said in sent(loop, 3)[0] and "river" not in sent(loop, 3)[0]


def test_a_result_is_named_by_what_was_requested_where_the_tool_gives_no_title(alice: Any):
    result, store = ToolResult("words " * 500), ResultStore(context_of(alice))

    kept = store.keep("recall", result, {"limit": 3, "query": "heat pumps"})

    assert store.sent(kept, 3).startswith("recall “heat pumps”: 0 of 3,000 characters shown")


def test_an_item_that_the_tool_stored_itself_is_not_stored_again(alice: Any):
    item = store(alice, PAGE, by=RESEARCH, scope="run:12", trust="external", tags=["page"])
    result = ToolResult(as_data(PAGE), data={"content_item": str(item.pk)})

    kept = ResultStore(context_of(alice), run_step="run:12/step:3").keep("open_page", result)

    item.refresh_from_db()
    assert kept.item == item and kept.is_first and ContentItem.objects.count() == 1
    assert (item.action, item.tags) == ("open_page", ["page", "action", "open_page"])


# --- sub-agents -----------------------------------------------------------------------------------


@pytest.mark.requirement("R133")
def test_a_sub_agent_of_its_own_keeps_a_copy_of_what_another_store_holds(alice: Any):
    item = store(alice, PAGE, by=RESEARCH, scope="run:12", trust="external")
    child = isolated(alice).for_subagent("news")
    result = ToolResult(as_data(PAGE), data={"content_item": str(item.pk)})

    kept = ResultStore(child).keep("open_page", result)

    assert kept.item is not None and kept.item != item
    assert (kept.item.content, kept.item.scope) == (PAGE, "run:12/news")


def isolated(owner: Any) -> ToolContext:
    return context_of(owner, agent=Agent(enable_memory=True, share_with_subagents=False))


@pytest.mark.requirement("R133")
@hypothesis_settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    shares=st.booleans(),
    scope=st.sampled_from(["run:12", "owner", "session:7", "agent:claude"]),
    writers=st.lists(st.sampled_from(["parent", "one", "two", "grandchild"]), max_size=6),
)
def test_shared_items_are_seen_and_isolated_ones_are_not_and_nothing_leaks_up(
    alice: Any, shares: bool, scope: str, writers: list[str]
):
    ContentItem.objects.all().delete()
    agent = Agent(enable_memory=True, share_with_subagents=shares)
    parent = context_of(alice, agent=agent, scope=scope)
    all_of = {
        "parent": parent,
        "one": parent.for_subagent("one"),
        "two": parent.for_subagent("two"),
    }
    all_of["grandchild"] = all_of["one"].for_subagent("deep/er")
    stored: dict[str, list[Any]] = {name: [] for name in all_of}
    for name in writers:
        answer = tools.call_tool(all_of[name], "store_in_memory", {"content": f"by {name}"})
        stored[name].append(answer.data["id"])

    everything = sorted(key for keys in stored.values() for key in keys)
    for name, context in all_of.items():
        listed = query(alice, scopes=context.content_scopes, limit=50)
        seen = sorted(str(item.pk) for item in listed)
        assert seen == (everything if shares else sorted(stored[name]))
        for key in everything:
            got = tools.call_tool(context, "retrieve_from_memory", {"id": key})
            assert got.is_error is (key not in seen)
