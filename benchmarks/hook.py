"""How long the hook for a prompt takes, and which part of it how long.

    .venv/bin/python -m benchmarks.hook [--size 100000] [--calls 200] [--vectors]

It fills a temporary Beacon with one owner's notes (as benchmarks/recall.py does), starts the web server
as `make up` does, and calls the installed hook as an agent does: a process for each prompt. Prompts have 1 to
60 words, some with code, file names or other languages. Each is sent to Recall again, without a
process. `--vectors` adds a vector to each note and turns the local embedder on.

Wall time says little on a busy machine, so the CPU time of each part is printed as well (Linux).

Goal: p95 under 300 ms at 100,000 notes, with the start of the process. Otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients/python/src"))

from beacon_memory.hook_settings import START

from benchmarks import stack
from benchmarks.api import WARM, Spent, _client, _made

MAX = 300.0  # ms
EMBEDDED = 2_000  # texts
HOOK = stack.ROOT / "clients/claude-code/hooks/beacon_hook.py"
CODE = """```python
def {0}(self, {1}: str) -> None:
    for {2} in self.{3}({1}, key=lambda one: one["{4}"]):
        raise ValueError(f"{{one}} isn't a {5}")
```"""
SAYINGS = (
    "Warum ist der Test für {0} seit gestern rot, und was haben wir zu {1} beschlossen?",
    "¿Por qué falla la prueba de {0} desde ayer y qué decidimos sobre {1}?",
    "Pourquoi le test de {0} échoue-t-il depuis hier, et qu’avons-nous décidé pour {1} ?",
    "{0} のテストが昨日から失敗しています。{1} については何を決めましたか。",
    "为什么 {0} 的测试从昨天开始失败？我们对 {1} 做了什么决定？",
)


def main() -> int:
    """Start what is needed, measure, print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=100_000, help="notes")
    parser.add_argument("--calls", type=int, default=200, help="prompts")
    parser.add_argument("--vectors", action="store_true", help="search by meaning as well")
    parser.add_argument("--texts", type=Path, help="a folder of texts instead of Python's own")
    asked = parser.parse_args()
    from beacon_site import embedded

    with tempfile.TemporaryDirectory(prefix="beacon-bench-") as folder:
        port = stack.free_port()
        more = {"BEACON_EMBEDDINGS": "local"} if asked.vectors else {}
        stack.configure_alone(Path(folder), port, **more)
        servers = embedded.ensure(Path(folder))
        os.environ |= servers.urls
        try:
            texts, token = _filled(asked)
            with stack.beacon(Path(folder), port) as launcher:
                spent = Spent(launcher)
                return _measured(f"http://127.0.0.1:{port}", token, texts, asked.calls, spent)
        finally:
            servers.close()


def _filled(asked: argparse.Namespace) -> tuple[list[str], str]:
    """Fill the database; return the texts and a token."""
    import django

    django.setup()
    import structlog
    from django.core.management import call_command

    structlog.configure(processors=[structlog.testing.LogCapture()])
    call_command("migrate", verbosity=0)
    texts, owner, token = _made(asked.size, asked.texts)
    if asked.vectors:
        give_vectors(owner, texts)
    return texts, token


def give_vectors(owner: Any, texts: list[str]) -> None:
    """Give each note a mix of two of EMBEDDED real vectors, since making all takes half an hour."""
    import numpy as np
    from django.core.management import call_command
    from django.db import connection

    from memory.models import Embedding, EmbeddingDue, Note
    from memory.services.llm import connections
    from memory.services.search import vectors

    embedder = connections.embedder()
    assert embedder is not None
    real = np.array(embedder.embed(texts[:EMBEDDED]))
    chance = np.random.default_rng(7)
    vectors.ensure_table(real.shape[1])
    keys = list(Note.objects.for_user(owner).values_list("pk", flat=True))
    for start in range(0, len(keys), 1000):
        some = keys[start : start + 1000]
        pairs = chance.integers(len(real), size=(2, len(some)))
        mixed = real[pairs[0]] + real[pairs[1]] * 0.6
        mixed /= np.linalg.norm(mixed, axis=1, keepdims=True)
        Embedding.objects.bulk_create(
            Embedding(
                owner=owner, record_type="note", object_id=key, model=embedder.model,
                dimensions=len(values), values=values,
            )
            for key, values in zip(some, mixed.tolist(), strict=True)
        )  # fmt: skip
    EmbeddingDue.objects.all().delete()
    call_command("vectors", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def prompts(texts: list[str], count: int) -> Iterator[str]:
    """Return prompts as people type them, always the same ones."""
    chance = random.Random(5)
    for number in range(count):
        said = chance.choice(texts).split() + chance.choice(texts).split()
        length = min(60, chance.choice((1, 2, 3, 5, 8, 12, 16, 20, 30, 45, 60)))
        words = " ".join(said[:length])
        names = [word.strip(".'-+") or "x" for word in chance.choices(said, k=6)]
        if number % 5 == 1:
            yield f"{words}\n\n{CODE.format(*names)}"
        elif number % 5 == 2:
            yield f"In src/{names[0]}/{names[1]}_test.py and docs/{names[2]}.md: {words}?"
        elif number % 5 == 3:
            yield SAYINGS[number // 5 % len(SAYINGS)].format(*names)
        else:
            yield words if len(words) >= 8 else f"{words} {names[0]} again"


def _measured(base: str, token: str, texts: list[str], calls: int, spent: Spent) -> int:
    asked = list(prompts(texts, calls + WARM))
    with tempfile.TemporaryDirectory(prefix="beacon-hook-") as home:
        stored = Path(home, ".config/beacon-memory/hooks.json")
        stored.parent.mkdir(parents=True)
        stored.write_text(json.dumps({"claude-code": {"url": base, "token": token}}))
        stored.chmod(0o600)
        environment = {"HOME": home, "BEACON_HOOK_SECONDS": "20"}
        for prompt in asked[:WARM]:
            _called(prompt, environment)
        calls_of = [_called(prompt, environment, spent) for prompt in asked[WARM:]]
    empty = [_process([sys.executable, "-I", "-S", "-c", "pass"], "", {})[0] for _ in asked[WARM:]]
    alone = _requests(base, token, asked[WARM:])
    silent = sum(one["silent"] for one in calls_of)
    print(f"{len(texts):,} notes, {calls} prompts, load {os.getloadavg()[0]:.1f}", end="; ")
    print(f"{silent:.0f} prompts got no records\n")
    print("| | p50 ms | p95 ms | largest |\n|---|---|---|---|")
    walls = [one["wall"] for one in calls_of]
    p95 = _row("prompt hook, with the start of its process", walls)
    _row("of it: a Python process that does nothing", empty)
    _row("of it: only the request, over a kept connection", alone)
    _row("CPU time: process of the hook", [one["hook"] for one in calls_of])
    _row("CPU time: web server", [one["web"] for one in calls_of])
    _row("CPU time: Postgres", [one["postgres"] for one in calls_of])
    _row("CPU time: total", [one["hook"] + one["web"] + one["postgres"] for one in calls_of])
    return int(p95 >= MAX)


def _called(
    prompt: str, environment: dict[str, str], spent: Spent | None = None
) -> dict[str, float]:
    """Call the hook for a prompt; return the milliseconds by part."""
    given = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": prompt}
    before = spent.parts() if spent else (0.0, 0.0)
    wall, cpu, output = _process(
        [sys.executable, "-I", "-S", "-c", START, str(HOOK), "claude-code"],
        json.dumps(given),
        environment,
    )
    web, postgres = (
        (after - earlier for after, earlier in zip(spent.parts(), before, strict=True))
        if spent
        else before
    )
    return {"wall": wall, "hook": cpu, "web": web, "postgres": postgres, "silent": not output}


def _process(
    command: list[str], given: str, environment: dict[str, str]
) -> tuple[float, float, str]:
    """Run a process; return its milliseconds of wall and CPU time, and its output."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        command, input=given, env=environment, text=True, capture_output=True, check=True
    )
    wall = time.perf_counter() - began
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    if done.stderr:
        raise SystemExit(done.stderr)
    return wall * 1000, cpu * 1000, done.stdout


def _requests(base: str, token: str, asked: Sequence[str]) -> list[float]:
    """Return the milliseconds of the hook's requests, sent by one process."""
    from beacon_memory import hook

    class Kept:
        """Sends the hook's requests over a kept connection."""

        def ask(self, method: str, path: str) -> Any:
            return client.request(method, path).json()

    taken = []
    with _client(base, token) as client:
        for prompt in asked:
            began = time.perf_counter()
            hook.hits_for(Kept(), prompt)
            taken.append((time.perf_counter() - began) * 1000)
    return taken


def _row(label: str, taken: Sequence[float]) -> float:
    """Print one row and return its p95."""
    p95 = statistics.quantiles(taken, n=100)[94]
    print(
        f"| {label} | {statistics.median(taken):.1f} | {p95:.1f} | {max(taken):.1f} |", flush=True
    )
    return p95


if __name__ == "__main__":
    sys.exit(main())
