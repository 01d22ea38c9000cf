"""Runs of gpt-researcher, in an environment of its own: prints a line of JSON for each.

Started by side_by_side.py with the address of the loopback services in LOOPBACK_ORIGIN.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import urllib.request
from typing import Any

ORIGIN = os.environ["LOOPBACK_ORIGIN"]


def counted() -> dict[str, int]:
    """Return what the loopback services were asked so far."""
    with urllib.request.urlopen(f"{ORIGIN}/counted") as answer:  # noqa: S310 -- loopback
        return dict(json.load(answer))


async def one(topic: str) -> dict[str, Any]:
    """Carry one run out; return its seconds and how many pages its report quotes."""
    from gpt_researcher import GPTResearcher

    began = time.perf_counter()
    # The choice of an agent, a model call of its own, is left out: both programs plan and write.
    researcher = GPTResearcher(topic, agent="Analyst", role="You are an analyst.", verbose=False)
    await researcher.conduct_research()
    report = await researcher.write_report()
    return {
        "seconds": time.perf_counter() - began,
        "quoted": report.count("the plant number"),
    }


def main() -> None:
    """Run a run for each topic given, in one process."""
    for topic in sys.argv[1:]:
        before = counted()
        told = asyncio.run(one(topic))
        after = counted()
        told |= {name: after.get(name, 0) - before.get(name, 0) for name in after}
        print("RUN " + json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
