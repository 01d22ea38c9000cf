"""What the content store saves: tokens in the messages sent, with it and without.

    .venv/bin/python -m benchmarks.tokens [--lots 20]

A scripted agent goes through a fixed transcript (`content_script`) by the very loop that deep runs
use, in a throw-away database.  Ends with exit code 1 unless at the last iteration 99 % fewer tokens
and less than 50 KB are sent, retrievals included, every answer is right, and without the ids in the
short forms the agent fails.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.throwaway import database  # noqa: E402  the script's own folder first

MIN_SAVED, MAX_BYTES = 0.99, 50_000
SHOWN = (1, 2, 3, 5, 10, 15, 20)


def main() -> int:
    """Go through the transcript in all ways, print the tables; return the exit code."""
    options = argparse.ArgumentParser()
    options.add_argument("--lots", type=int, default=20)
    asked = options.parse_args()
    with database():
        return _measure(asked.lots)


@dataclass(frozen=True, slots=True)
class Sent:
    """What was sent of one iteration: in its largest turn, and in all of its turns together."""

    bytes: int
    tokens: int
    all_tokens: int


def go(
    owner: Any, *, lots: int, with_store: bool, without_ids: bool = False, transcript: Any = None
) -> Any:
    """Let a scripted agent go through the transcript, and return it with what it was sent."""
    from benchmarks import content_script as script

    agent = script.ScriptedAgent(transcript or script.Transcript(), lots, without_ids=without_ids)
    task = [
        _message("system", "You say the code of each lot, from its search, its page or its table."),
        _message("user", f"There are {lots} lots."),
    ]
    tools = [*agent.transcript.tools(), "retrieve_from_memory"]
    most = {"rounds": 3 * lots + 3, "most_calls": 9 * lots, "seconds": 86_400}
    name = f"run:{1 + with_store + 2 * without_ids}"
    _loop(owner, agent, name, task, tools, with_store=with_store, **most)
    return agent


def _loop(
    owner: Any, model: Any, name: str, task: Any, tools: Any, *, with_store: bool, **most: Any
) -> None:
    """Run the loop of deep runs with this model, on behalf of an agent with memory on or off."""
    from memory.agents.tools.loop import run_loop
    from memory.agents.tools.output_store import store_for
    from memory.agents.tools.types import ToolContext
    from memory.models import Agent
    from memory.models.actors import Actor
    from memory.services.llm import connections

    settings = Agent(name="script", enable_memory=with_store)
    context = ToolContext(owner, Actor("agent", "script"), name, scope=name, agent=settings)
    usual, connections.language_model = connections.language_model, lambda: model
    try:
        run_loop(
            "bench",
            task,
            context=context,
            source=name,
            tools=tools,
            store=store_for(context),
            **most,
        )
    finally:
        connections.language_model = usual


def _message(role: Any, text: str) -> Any:
    from beacon_site.providers.llm.base import Message

    return Message(role, text)


def by_iteration(agent: Any) -> dict[int, Sent]:
    """Return what was sent behind the actions of each iteration, until the next one's."""
    found: dict[int, list[Any]] = {}
    for turn in agent.turns:
        found.setdefault(turn.iteration, []).append(turn.size)
    return {
        number: Sent(
            max(size.bytes for size in sizes),
            max(size.tokens for size in sizes),
            sum(size.tokens for size in sizes),
        )
        for number, sizes in found.items()
        if number
    }


def _measure(lots: int) -> int:
    from django.contrib.auth import get_user_model

    from beacon_site.providers.llm.tokens import count_method_label

    owner = get_user_model().objects.create_user("bench", password="x")  # noqa: S106
    plain = go(owner, lots=lots, with_store=False)
    kept = go(owner, lots=lots, with_store=True)
    blind = go(owner, lots=lots, with_store=True, without_ids=True)
    print(f"\nTokens {count_method_label()}, and 4 for each message.\n")
    last = _print_table(by_iteration(plain), by_iteration(kept))
    print(f"\nAnswered rightly: {kept.right} of {lots} with the store, {plain.right} without it,")
    print(f"{blind.right} with the ids taken out of the short forms (the first result is in full).")
    _print_seed_s_example(owner)
    reached = {
        f"at least {MIN_SAVED:.0%} fewer tokens": 1 - last[1].tokens / last[0].tokens >= MIN_SAVED,
        f"under {MAX_BYTES:,} bytes": last[1].bytes < MAX_BYTES,
        "every answer right": kept.right == lots,
        "without the ids it fails": blind.right <= 1,
    }
    print(
        "\n" + "; ".join(f"{what}: {'reached' if so else 'MISSED'}" for what, so in reached.items())
    )
    return 0 if all(reached.values()) else 1


def _print_table(plain: dict[int, Sent], kept: dict[int, Sent]) -> tuple[Sent, Sent]:
    print("| iteration | without: bytes | tokens | with: bytes | tokens | fewer | all its turns |")
    print("|---|---|---|---|---|---|---|")
    last = max(plain)
    for number in [n for n in SHOWN if n < last] + [last]:
        one, other = plain[number], kept[number]
        print(
            f"| {number} | {one.bytes:,} | {one.tokens:,} | {other.bytes:,} | {other.tokens:,} "
            f"| {1 - other.tokens / one.tokens:.2%} | {1 - other.all_tokens / one.all_tokens:.2%} |"
        )
    totals = [sum(sent.all_tokens for sent in some.values()) for some in (plain, kept)]
    print(
        f"\nOver all iterations together: {totals[0]:,} tokens sent without the store, "
        f"{totals[1]:,} with it ({1 - totals[1] / totals[0]:.2%} fewer)."
    )
    return plain[last], kept[last]


# --- the seed's own example -----------------------------------------------------------------------


def _print_seed_s_example(owner: Any) -> None:
    """Print seed 002's: a search and three pages (158 KB), then a query and two pages (308 KB)."""
    print(
        "\nSeed 002's example (bytes sent in the turn after each iteration, and in a later one):\n"
    )
    print("| | iteration 1 | iteration 2 | two turns later |\n|---|---|---|---|")
    for name, with_store in (("without", False), ("with", True)):
        sent = seed_s_example(owner, with_store=with_store)
        print(f"| {name} | " + " | ".join(f"{size:,}" for size in sent) + " |")


def seed_s_example(owner: Any, *, with_store: bool) -> list[int]:
    """Return the bytes sent in the turns behind the two iterations, and two turns later."""
    from beacon_site.providers.llm.base import Answer, ToolCall, Usage
    from benchmarks import content_script as script
    from tests.providers.fakes import FakeLanguageModel

    def calls(*wanted: tuple[str, int]) -> Answer:
        made = tuple(ToolCall("", script.TOOLS[kind], {"lot": lot}) for kind, lot in wanted)
        return Answer("", Usage(), "script", "tool_calls", tool_calls=made)

    first = calls(("search", 1), ("page", 1), ("page", 2), ("page", 3))
    second = calls(("table", 1), ("page", 4), ("page", 5))
    idle = calls(("search", 1))
    model = FakeLanguageModel(first, second, idle, idle, "Done.", profile=script.PROFILE)
    task = [_message("user", "Go on.")]
    tools = script.Transcript().tools()
    _loop(owner, model, f"run:{90 + with_store}", task, tools, with_store=with_store, rounds=9)
    sizes = [script.size_of(asked.messages).bytes for asked in model.history]
    return [sizes[1], sizes[2], sizes[4]]


if __name__ == "__main__":
    sys.exit(main())
