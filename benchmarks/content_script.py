"""The fixed transcript of `benchmarks.tokens`, and the scripted agent that uses it.

Each iteration searches the web (8 KiB), opens a page (50 KiB) and queries a table (50 KiB).  Each
result contains a code beyond its first 500 characters.  The agent must find one of the three.  It
knows only the messages it gets: it takes the item's ID and a transform from a compact form, retrieves
the item, and reads the code.  Everything is drawn from one seed, so every run is the same.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from beacon_site.providers.llm.base import Answer, Message, ToolCall, Usage
from beacon_site.providers.llm.tokens import Size, counted
from beacon_site.text.cleaning import as_data
from memory.agents.tools.types import Arguments, MemoryTool, ToolContext, ToolResult
from tests.providers.fakes import FAKE_PROFILE

KIB = 1024
SEARCH, PAGE, TABLE = 8 * KIB, 50 * KIB, 50 * KIB
KINDS = ("search", "page", "table")
TOOLS = {"search": "web_search", "page": "open_page", "table": "query_table"}
PER_MESSAGE = 4  # tokens that a chat template adds to each
_HINT = re.compile(r'retrieve_from_memory\(id="([0-9a-f-]{36})"\)')
_TRANSFORM = re.compile(r"\b(filtered) \(q\)")
_IDS = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# A window that everything fits into, so that the conversation without a store is measured whole.
PROFILE = replace(FAKE_PROFILE, context_tokens=50_000_000)


class LotArguments(Arguments):
    """Which lot."""

    lot: int


@dataclass(frozen=True, slots=True)
class Transcript:
    """What the three actions answer, by lot, and the codes that they hide."""

    seed: int = 2
    sizes: tuple[int, int, int] = (SEARCH, PAGE, TABLE)

    def code(self, kind: str, lot: int) -> str:
        """Return the code that the result hides."""
        return f"{self._rng(kind, lot, 'code').getrandbits(48):012x}"

    def text(self, kind: str, lot: int) -> str:
        """Return the result, of exactly its size, with its code in the middle of it."""
        size = self.sizes[KINDS.index(kind)]
        make = {"search": self._search, "page": self._page, "table": self._table}[kind]
        return make(lot, size)

    def key(self, lot: int) -> str:
        """Return the words by which the code is found."""
        return f"lot {lot} code"

    def tools(self) -> list[MemoryTool]:
        """Return the three actions as tools."""
        return [
            MemoryTool(TOOLS[kind], f"Gives the {kind} of a lot.", LotArguments, self._run(kind))
            for kind in KINDS
        ]

    def _run(self, kind: str) -> Any:
        def run(context: ToolContext, asked: LotArguments) -> ToolResult:
            text = self.text(kind, asked.lot)
            return ToolResult(as_data(text) if kind != "table" else text, full=text)

        return run

    def _rng(self, *of: Any) -> random.Random:
        return random.Random(f"{self.seed} {of}")

    def _search(self, lot: int, size: int) -> str:
        rng, lines = self._rng("search", lot), []
        for number in range(1, 41):
            lines.append(f"{number}. {_words(rng, 6)} (example{number}.org)")
            snippet = _words(rng, 22)
            if number == 25:
                snippet = f"{self.key(lot)}: {self.code('search', lot)}. {snippet}"
            lines.append(f"    {snippet}")
        return _sized("\n".join(lines), size, rng)

    def _page(self, lot: int, size: int) -> str:
        rng = self._rng("page", lot)
        lines = [f"{_words(rng, 30).capitalize()}." for _line in range(size // 200)]
        lines.insert(
            rng.randint(10, len(lines) - 10), f"{self.key(lot)}: {self.code('page', lot)}."
        )
        return _sized("\n".join(lines), size, rng)

    def _table(self, lot: int, size: int) -> str:
        rng, out = self._rng("table", lot), io.StringIO()
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["name", "value", "place", "amount"])
        count = size // 45
        hidden = rng.randint(count // 4, count // 2)
        for number in range(count):
            place, amount = _words(rng, 2), rng.randint(1, 10**6)
            name, value = f"row {number}", f"{rng.getrandbits(48):012x}"
            if number == hidden:
                name, value = self.key(lot), self.code("table", lot)
            rows.writerow([name, value, place, amount])
        text = out.getvalue()
        while len(text) < size:
            text += f"row,{rng.getrandbits(48):012x},{_words(rng, 2)},1\n"
        return text[: text.rindex("\n", 0, size - 60) + 1]


def _words(rng: random.Random, count: int) -> str:
    return " ".join(
        "".join(rng.choices("etaoinshrdlucmf", k=rng.randint(2, 8))) for _word in range(count)
    )


def _sized(text: str, size: int, rng: random.Random) -> str:
    while len(text) < size:
        text += f"\n{_words(rng, 20)}."
    return text[:size]


# --- the agent ------------------------------------------------------------------------------------


@dataclass(slots=True)
class Turn:
    """What was sent in one turn: of which iteration, and how large it was."""

    iteration: int
    size: Size


@dataclass(slots=True)
class ScriptedAgent:
    """A language model that goes through the lots and answers only from what it is sent.

    `without_ids` takes the ids out of what it reads: an agent that was shown none.
    """

    transcript: Transcript
    lots: int
    without_ids: bool = False
    profile: Any = PROFILE
    turns: list[Turn] = field(default_factory=list)
    answers: dict[int, str] = field(default_factory=dict)
    lot: int = 0

    def ask(self, messages: Sequence[Message], **_more: Any) -> Answer:
        """Read what came, and either retrieve, or answer and continue with the next lot."""
        self.turns.append(Turn(self.lot, size_of(messages)))
        if self.lot:
            wanted = self._look(messages)
            if wanted is not None:
                return _calling("", wanted)
        self.lot += 1
        said = self.answers.get(self.lot - 1, "")
        told = f"The code of lot {self.lot - 1} is {said}." if self.lot > 1 else ""
        if self.lot > self.lots:
            return Answer(told, Usage(), "script", "stop")
        calls = [ToolCall("", TOOLS[kind], {"lot": self.lot}) for kind in KINDS]
        return _calling(told, *calls)

    def _look(self, messages: Sequence[Message]) -> ToolCall | None:
        """Note the code if it was sent; else return how to get it, if that was."""
        last = max(n for n, one in enumerate(messages) if one.role == "assistant")
        shown = [one.content for one in messages[last + 1 :]]
        if self.without_ids:
            shown = [_IDS.sub("", text) for text in shown]
        was_retrieved = len(shown) == 1
        text = shown[0] if was_retrieved else shown[KINDS.index(due(self.lot))]
        key = self.transcript.key(self.lot)
        code = re.search(rf"{key}[:,] ?([0-9a-f]{{12}})", text)
        if code:
            self.answers[self.lot] = code[1]
            return None
        item, transform = _HINT.search(text), _TRANSFORM.search(text)
        if was_retrieved or not item or not transform:
            return None  # nothing more can be done: no answer
        asked = {"id": item[1], "transform": transform[1], "q": key}
        return ToolCall("", "retrieve_from_memory", asked)

    @property
    def right(self) -> int:
        """Return how many lots were answered rightly."""
        return sum(
            self.answers.get(lot) == self.transcript.code(due(lot), lot)
            for lot in range(1, self.lots + 1)
        )


def due(lot: int) -> str:
    """Return in which of the three results the code of a lot is to be read."""
    return KINDS[lot % len(KINDS)]


def _calling(text: str, *calls: ToolCall) -> Answer:
    return Answer(text, Usage(), "script", "tool_calls", tool_calls=calls)


def size_of(messages: Sequence[Message]) -> Size:
    """Return how large messages are as they are sent: texts, calls with arguments and ids."""
    texts = []
    for one in messages:
        calls = [
            f"{call.id}{call.name}{json.dumps(call.arguments, ensure_ascii=False)}"
            for call in one.tool_calls
        ]
        texts.append("".join([one.role, one.content, *calls, one.tool_call_id]))
    size = counted("\n".join(texts))
    return replace(size, tokens=size.tokens + PER_MESSAGE * len(messages))
