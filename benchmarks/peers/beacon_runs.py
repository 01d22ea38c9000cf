"""Runs of Beacon in one process: prints a line of JSON for each, as gpt_researcher_runs.py does."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import stack
from benchmarks.peers.gpt_researcher_runs import ORIGIN, counted


def main() -> None:
    """Run a run for each topic given, on a throw-away Postgres."""
    from beacon_site import embedded

    with tempfile.TemporaryDirectory(prefix="beacon-bench-") as folder:
        stack.configure(Path(folder), ORIGIN, stack.free_port())
        servers = embedded.ensure(Path(folder))
        os.environ |= servers.urls
        try:
            _runs(sys.argv[1:])
        finally:
            servers.close()


def _runs(titles: list[str]) -> None:
    import django

    django.setup()
    import structlog
    from django.core.management import call_command
    from django.db import connections

    structlog.configure(processors=[structlog.testing.LogCapture()])
    from memory.models import Topic, User
    from research.services.runs.execution import starting

    call_command("migrate", verbosity=0)
    owner = User.objects.create_user("bench", password="bench-horse-1")  # noqa: S106
    for title in titles:
        known = Topic.objects.filter(owner=owner, title=title).first()
        topic = known or starting.create_topic(owner=owner, title=title, by=owner.actor)
        before = counted()
        told = _one(topic, owner)
        after = counted()
        told |= {name: after.get(name, 0) - before.get(name, 0) for name in after}
        print("RUN " + json.dumps(told), flush=True)
    connections.close_all()


def _one(topic: Any, owner: Any) -> dict[str, Any]:
    from research.models import Run
    from research.services.runs.execution import pipeline

    run = Run.objects.start(topic, trigger="command", by=owner.actor)
    began = time.perf_counter()
    pipeline.execute(run.pk, worker="benchmark")
    seconds = time.perf_counter() - began
    run.refresh_from_db()
    assert run.status == "succeeded", (run.status, run.error, run.warnings)
    return {"seconds": seconds, "quoted": run.report.body.count("the plant number")}


if __name__ == "__main__":
    main()
