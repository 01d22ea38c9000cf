"""A loopback model, eight search services and a web site in one process, with set delays.

`python -m benchmarks.loopback` prints its port and serves until its standard input closes.
Delays are those of the run-overhead benchmark: plan 800 ms, a query 300 ms, pages 200 to 900 ms,
the report 2 s; LOOPBACK_PACE=0.01 makes each a hundredth of that, LOOPBACK_LARGEST=5000000 the
last page of each round as long.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from benchmarks import search_shapes
from benchmarks.peers import prompts as peers

PLAN, QUERY, WRITE = 0.8, 0.3, 2.0
QUERIES, PAGES = 6, 24
WIKI_PAGES = 4
FASTEST, SLOWEST = 0.2, 0.9
PACE = float(os.environ.get("LOOPBACK_PACE", "1"))
SAME_PAGES = bool(os.environ.get("LOOPBACK_SAME_PAGES"))  # each search of a process finds those
MAX_BYTES = int(os.environ.get("LOOPBACK_LARGEST", "0"))  # bytes of the last page of a round

_WORDS = (
    "harbour", "ledger", "copper", "meadow", "signal", "lantern", "glacier", "orchard",
    "turbine", "granite", "falcon", "willow", "anchor", "beacon", "cobalt", "delta",
)  # fmt: skip


def page_delay(number: int) -> float:
    """Return the seconds that page `number` (0 to 23) of a round takes."""
    return FASTEST + (SLOWEST - FASTEST) * (number % PAGES) / (PAGES - 1)


def page_text(round_: str, number: int) -> str:
    """Return a page whose sentences no other page holds."""
    own = [_WORDS[(number * 5 + k * 7) % len(_WORDS)] for k in range(6)]
    lines = [
        f"In round {round_} the plant number {number} measured {1000 + number * 37 + k * 11} units of "
        f"{own[k % 6]} for the overhead topic, {k + number} percent more than the {own[(k + 1) % 6]} target."
        for k in range(30)
    ]
    paragraphs = "".join(f"<p>{line}</p>" for line in lines)
    if MAX_BYTES and number == PAGES - 1:
        paragraphs *= max(1, MAX_BYTES // len(paragraphs))
    title = f"Plant {number} of round {round_}"
    return f"<html><head><title>{title}</title></head><body><article><h1>{title}</h1>{paragraphs}</article></body></html>"


def _chat(body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    prompt = "\n".join(str(message["content"]) for message in body["messages"])
    if (plain := peers.said(prompt, QUERIES)) is not None:
        return (PLAN if plain.startswith("[") else WRITE), _completion(body, prompt, plain)
    if '{"queries"' in prompt:
        answer: dict[str, Any] = {"queries": [f"overhead topic part {n}" for n in range(QUERIES)]}
        delay = PLAN
    else:
        numbers = [n for n in range(1, PAGES + 1) if f"\n[{n}] " in prompt]
        found = (_finding(prompt, n) for n in numbers)
        findings = [one for one in found if one][:10]
        answer = {
            "summary": f"{len(numbers)} plants reported [1].",
            "body": "\n\n".join(f"{f['sentence']} [{f['citations'][0]}]" for f in findings),
            "findings": findings,
        }
        delay = WRITE
    return delay, _completion(body, prompt, json.dumps(answer))


def _completion(body: dict[str, Any], prompt: str, said: str) -> dict[str, Any]:
    return {
        "id": "x", "object": "chat.completion", "created": 1, "model": body["model"],
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": said}}],
        "usage": {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(said) // 4, "total_tokens": 0},
    }  # fmt: skip


def _finding(prompt: str, number: int) -> dict[str, Any] | None:
    """Return a finding of the page's first sentence; None of a source that was not read."""
    page = prompt.split(f"\n[{number}] ", 1)[1].split("<<<", 1)[1].split("\n[", 1)[0]
    begins = page.find("In round")
    if begins < 0:
        return None
    line = page[begins:].split(".", 1)[0] + "."
    return {"sentence": line, "citations": [number], "quote": line}


def _search(service: str, query: str, origin: str, round_: str) -> tuple[str, bytes]:
    """Answer one query: twenty of the pages are found by most services, four by Wikipedia."""
    words = re.findall(r"\d+", query)
    part = int(words[-1]) if words else 0
    web = PAGES - WIKI_PAGES
    if service == "wikipedia":
        found = [(f"Plant {n} of round {round_}", "") for n in range(web, PAGES)]
    elif len(os.environ.get("LOOPBACK_SERVICES", "serpapi").split()) > 1:
        # SearXNG gives ten a page; after fewer a next page would be asked for.
        most = 10 if service == "searxng" else 4
        numbers = [(part * 4 + k) % web for k in range(most)]
        found = [(f"Plant {n}", f"{origin}/page/{round_}/{n}") for n in numbers]
    else:
        numbers = [(part * 4 + k) % PAGES for k in range(4)]
        found = [(f"Plant {n}", f"{origin}/page/{round_}/{n}") for n in numbers]
    return search_shapes.answer(service, found)


class Server:
    """Answers one request a connection, after the delay that is set for it."""

    def __init__(self) -> None:
        self.origin = ""
        self.round = 0
        self.counted: Counter[str] = Counter()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request, wait as long as is set, answer, close."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target = head.split(" ", 2)[:2]
        length = 0
        for line in head.split("\r\n"):
            if line.lower().startswith("content-length:"):
                length = int(line.split(":", 1)[1])
        body = await reader.readexactly(length) if length else b""
        delay, kind, content = self.respond(method, target, body)
        await asyncio.sleep(delay * PACE)
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n"
            "Connection: close\r\n\r\n".encode()
            + content
        )
        await writer.drain()
        writer.close()

    def respond(self, method: str, target: str, body: bytes) -> tuple[float, str, bytes]:
        """Return the delay in seconds, the content type and the body for a request."""
        parts = urlsplit(target)
        if parts.path == "/counted":
            return 0, "application/json", json.dumps(self.counted).encode()
        if parts.path.endswith("/chat/completions"):
            asked_for = json.loads(body)
            delay, answer = _chat(asked_for)
            if delay == PLAN and not (SAME_PAGES and self.round):
                self.round += 1
            self.counted["model calls"] += 1
            self.counted["tokens"] += sum(answer["usage"].values())
            if asked_for.get("stream"):
                return delay, "text/event-stream", peers.as_stream(answer)
            return delay, "application/json", json.dumps(answer).encode()
        if service := search_shapes.service_of(method, parts.path):
            asked = parse_qs(parts.query)
            words = next(
                (asked[name][0] for name in ("q", "query", "srsearch") if name in asked), ""
            )
            self.counted["searches"] += 1
            words = words or (json.loads(body)["query"] if body else "")
            return (QUERY, *_search(service, words, self.origin, str(self.round)))
        if parts.path.startswith("/wiki/"):
            _plant, number, _of, _round, round_ = unquote(parts.path[6:]).split("_")
        else:
            _empty, _page, round_, number = parts.path.split("/")
        self.counted["pages"] += 1
        return (
            page_delay(int(number)),
            "text/html; charset=utf-8",
            page_text(round_, int(number)).encode(),
        )


async def _serve() -> None:
    server = Server()
    host = os.environ.get("LOOPBACK_HOST", "127.0.0.1")
    listener = await asyncio.start_server(server.answer, host, 0)
    server.origin = f"http://{host}:{listener.sockets[0].getsockname()[1]}"
    print(server.origin, flush=True)
    async with listener:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
