"""basic-memory's own search over notes in files: run by its own Python, told and telling JSON.

    python -m benchmarks.recall_peer

On standard input: {"texts": [...], "questions": [...], "more": [...]}.  The texts are written as
Markdown files and taken in by `basic-memory reindex --full --search`; the questions go through its
MCP tool `search_notes` in one process, the further texts through `write_note`.  Vectors are off: its
model would have to be fetched.  Imports of basic-memory wait until its folders are set.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def main() -> int:
    """Write, take in, ask; print the figures as one line of JSON."""
    told = json.load(sys.stdin)
    with tempfile.TemporaryDirectory(prefix="basic-memory-") as folder:
        home = Path(folder)
        notes = home / "notes"
        notes.mkdir()
        os.environ |= {
            "HOME": folder,
            "BASIC_MEMORY_HOME": str(notes),
            "BASIC_MEMORY_CONFIG_DIR": str(home / ".basic-memory"),
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
            "BASIC_MEMORY_NO_PROMOS": "1",
        }
        for number, text in enumerate(told["texts"]):
            (notes / f"note-{number}.md").write_text(f"---\ntitle: Note {number}\n---\n{text}\n")
        program = Path(sys.executable).with_name("basic-memory")
        began = time.perf_counter()
        subprocess.run(
            [program, "reindex", "--full", "--search"], check=True, stdout=subprocess.DEVNULL
        )
        figures: dict[str, Any] = {"build": time.perf_counter() - began}
        figures["disk"] = _megabytes(home / ".basic-memory")
        figures |= asyncio.run(_asked(told["questions"], told["more"]))
    print(json.dumps(figures))
    return 0


async def _asked(questions: list[str], more: list[str]) -> dict[str, Any]:
    import basic_memory.mcp.tools  # type: ignore[import-not-found]  # noqa: F401  registers them
    from basic_memory.mcp.server import mcp  # type: ignore[import-not-found]
    from fastmcp import Client  # type: ignore[import-not-found]
    from loguru import logger  # type: ignore[import-not-found]

    logger.remove()  # its command writes no line for each call either
    took, found, wrote = [], 0, []
    async with Client(mcp) as client:
        for question in questions[:3]:
            await client.call_tool("search_notes", _question(question))
        for question in questions:
            began = time.perf_counter()
            answer = await client.call_tool("search_notes", _question(question))
            took.append((time.perf_counter() - began) * 1000)
            found += bool(_hits(answer))
        for number, text in enumerate(more):
            note = {"title": f"More {number}", "content": text, "directory": "more"}
            began = time.perf_counter()
            await client.call_tool("write_note", note)
            wrote.append((time.perf_counter() - began) * 1000)
    return {"took": took, "found": found, "wrote": wrote, "memory": _memory()}


def _question(text: str) -> dict[str, Any]:
    return {"query": text, "page_size": 10, "output_format": "json"}


def _hits(answer: Any) -> list[Any]:
    told = answer.structured_content or {}
    told = told.get("result", told)
    return list(told.get("results", [])) if isinstance(told, dict) else []


def _memory() -> float:
    """Return the megabytes that this process holds (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1000


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    sys.exit(main())
