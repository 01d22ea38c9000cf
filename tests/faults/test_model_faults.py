"""Bad model answers: every run ends within its attempts, with a readable cause."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import Say
from tests.faults.outside import MODEL_KEY, Outside
from tests.faults.processes import Site
from tests.providers.chat_streams import endless
from tests.providers.servers import (
    Scene,
    calls_tool,
    cut,
    half,
    html,
    huge,
    in_prose,
    rate,
    refuses,
    says,
    slow,
    status,
)

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

MARK = "Half parsed"
WRONG = {"queries": {"0": MARK}, "summary": [MARK], "body": {"text": MARK}, "findings": MARK}


def _always(scene: Scene) -> Callable[[dict[str, Any]], Scene]:
    return lambda _good: scene


# What the model does -> the scene, out of what a good one would have said; how the run ends; a word
# of the cause that the run shows.
SCENES: dict[str, tuple[Callable[[dict[str, Any]], Scene], str, str]] = {
    "429 with Retry-After: 7": (_always(rate("7")), "partial", "429"),
    "429 with Retry-After: 1": (_always(rate("1")), "partial", "429"),
    "500": (_always(status(500)), "partial", "500"),
    "reset in mid-answer": (_always(cut()), "partial", "was lost"),
    "a web page with 200": (_always(html()), "partial", "doesn’t seem to be a model"),
    "truncated JSON": (half, "partial", "JSON is incomplete"),
    "JSON in prose": (in_prose, "succeeded", ""),
    "wrong types": (_always(says(json.dumps(WRONG))), "partial", "valid string"),
    "an empty answer": (_always(says("")), "partial", "contains no JSON"),
    "5 MB": (_always(huge()), "partial", "MiB"),
    "endless tool calls": (
        _always(calls_tool("search", {"query": MARK})),
        "partial",
        "wasn’t given any tools",
    ),
    "an unknown tool": (_always(calls_tool("browse", MARK)), "partial", "“browse”"),
    "a refusal": (_always(refuses()), "partial", "cannot help"),
}
TITLES = {f"Harbour cranes case {chr(97 + n)}": name for n, name in enumerate(SCENES)}


@pytest.fixture(scope="module")
def runs(beacon: Site, outside: Outside) -> dict[str, Any]:
    """Let every scene be met by a run of its own; return the ended runs by title."""
    for title, name in TITLES.items():
        outside.spoiled[title] = SCENES[name][0]
    beacon.act("queue", *TITLES)
    return {run.title: run for run in beacon.ended(*TITLES, seconds=150)}


def _report(beacon: Site, title: str) -> str:
    query = (
        "SELECT p.body || p.summary || p.delta FROM research_report p JOIN research_run r ON"
        " r.id = p.run_id JOIN memory_topic t ON t.id = r.topic_id WHERE t.title = %s"
    )
    return str(beacon.value(query, title) or "")


@pytest.mark.parametrize("title", TITLES, ids=list(TITLES.values()))
def test_what_a_model_answers_ends_in_a_report_that_says_how_it_was_made(
    beacon: Site, outside: Outside, runs: dict[str, Any], say: Say, title: str
):
    run, name = runs[title], TITLES[title]
    _scene, ends, word = SCENES[name]
    calls = [outside.calls(title, kind) for kind in ("plan", "write")]
    report, causes = _report(beacon, title), " ".join(run.warnings)
    cause = next((w for w in reversed(run.warnings) if "model" in w), "can’t use")
    cause = cause.replace(outside.chat.base_url.split("/")[2], "the host")
    say(
        f"a model that answers with {name}",
        "at most 3 tries; fallback or a readable cause; nothing half-parsed stored",
        f"{run.status}, tried {calls[0]} and {calls[1]} times; “{cause[:140]}”",
    )

    assert run.status == ends, run.error
    assert max(calls) <= 3
    assert "14 electric cranes" in report
    assert not any(bad in report for bad in (MARK, '{"', "queries", "word word"))
    assert word in causes
    # Which of the runs at the same time also merges the owner's notes depends on their order.
    of_run = [one for one in run.warnings if "summary note" not in one]
    assert bool(of_run) == (ends == "partial")
    assert MODEL_KEY not in causes


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "scene", "word"),
    [
        ("silent", slow(150), "didn’t respond within"),
        ("dripping", endless(pace=0.5, seconds=150), "didn’t finish within"),
    ],
)
def test_a_model_that_does_not_end_its_answer_is_waited_for_once(
    beacon: Site, outside: Outside, say: Say, kind: str, scene: Scene, word: str
):
    title = f"Harbour cranes {kind}"
    outside.scenes[title, "write"] = scene
    beacon.act("queue", title)
    [run] = beacon.ended(title, seconds=260)
    seconds = (run.finished_at - run.started_at).total_seconds()
    say(
        f"a model that is {kind} for 150 s",
        "at most 3 tries, within the run's 15 minutes; fallback with a readable cause",
        f"{run.status} after {seconds:.0f} s, tried {outside.calls(title, 'write')} times; “{run.warnings[-1]}”",
    )

    assert run.status == "partial"
    assert outside.calls(title, "write") <= 3
    assert word in run.warnings[-1]
    assert "14 electric cranes" in _report(beacon, title)
