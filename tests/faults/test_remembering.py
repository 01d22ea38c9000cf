"""Seed 003's criteria 1 to 4, each talk in its own operating-system process.

The model is a server on loopback that knows nothing: it picks the file whose line in the list that
it was sent shares most words with the question, reads it, and repeats the line that does so, too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.processes import ROOT, Site
from tests.providers.servers import ScriptedChatServer, calls_tool

# Each talk starts a process of its own.
pytestmark = [pytest.mark.timeout(600)]

BUG = "We fixed the scheduler bug: after the clock change it ran each topic twice."
ENTRY = (
    "## Scheduler\n- Summary: Scheduler bug fixed\n- Date: {day}\n- Task: keep topics from double "
    "runs\n- Findings: the bug was that the scheduler ran topics twice after the clock change"
)
NOT_KNOWN = "I do not know."


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]{3,}", text.lower()))


def _nearest(lines: list[str], question: str) -> str:
    """Return the line that shares most words with the question; empty if none shares any."""
    asked = _words(question)
    found = max(lines, key=lambda line: len(asked & _words(line)), default="")
    return found if asked & _words(found) else ""


def knows_nothing(body: dict[str, Any]) -> Any:
    """Answer only from the request."""
    messages = body["messages"]
    said = [one["content"] for one in messages if one["role"] == "user"]
    question, last = said[-1], messages[-1]
    offered = {one["function"]["name"] for one in body.get("tools", [])}
    if "response_format" in body or not offered:
        return {"result": "The scheduler was looked at.", "next_steps": []}
    if last["role"] == "tool":
        lines = [line.strip("- ") for line in last["content"].splitlines()]
        return _nearest(lines, question) or NOT_KNOWN
    if "recall" not in offered:  # it looks back
        return _reflected(messages)
    if question.startswith("I'm "):
        name = question.removeprefix("I'm ").strip(".")
        entry = f"- Name: {name} (“I'm {name}”)"
        return calls_tool("memory_append", {"path": "facts/user.md", "entry": entry})
    if not question.endswith("?"):
        return "I see. " + "That is good to know, and I keep it in mind for what comes next. " * 2
    index = next((one for one in said if one.startswith("Available memory:")), "")
    path = re.match(r"- (\S+) \(", _nearest(index.splitlines()[1:-1], question))
    return calls_tool("memory_read", {"path": path.group(1)}) if path else NOT_KNOWN


def _reflected(messages: list[dict[str, Any]]) -> Any:
    """Look back: an entry, if the conversation that was sent tells of the bug."""
    whole = "\n".join(str(one["content"]) for one in messages)
    today = re.search(r"\d{4}-\d{2}-\d{2}", whole)
    if BUG not in whole or today is None:
        return "Nothing."
    entry = ENTRY.format(day=today.group())
    path = f"episodes/{today.group()[:7]}.md"
    return calls_tool("memory_append", {"path": path, "entry": entry})


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with (
        tempfile.TemporaryDirectory(prefix="beacon-talk-") as folder,
        ScriptedChatServer(knows_nothing) as chat,
        Site(
            Path(folder), BEACON_LLM_BASE_URL=chat.base_url, BEACON_LLM_MODEL="knows-nothing"
        ) as made,
    ):
        yield made


def talk(site: Site, *arguments: str, **variables: str) -> dict[str, Any]:
    """Talk in a process of its own; return what came of it."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults.talk", *arguments], cwd=ROOT, text=True,
        capture_output=True, env={**site.environment, **variables}, check=False, timeout=120,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout.strip().splitlines()[-1]))


@pytest.mark.requirement("R163")
@pytest.mark.parametrize(
    ("first", "second", "knows"),
    [
        ("-", "-", True),
        pytest.param("-", "index", False, marks=[pytest.mark.long, pytest.mark.faults]),
        pytest.param("-", "read", False, marks=[pytest.mark.long, pytest.mark.faults]),
        pytest.param("store", "-", False, marks=[pytest.mark.long, pytest.mark.faults]),
    ],
    ids=["as it is", "without the index", "without the read", "without the store"],
)
def test_the_name_is_known_in_another_process_and_each_part_is_needed(
    site: Site, first: str, second: str, knows: bool
):
    name = f"zhang-{first}-{second}"
    told = talk(site, "talk", name, first, "I'm Zhang San.")
    answer = talk(site, "talk", name, second, "What's my name?")

    assert told["pid"] != answer["pid"]
    assert ("Name: Zhang San" in answer["text"]) is knows, answer
    if knows:
        assert answer["calls"][0][:2] == ["memory_read", {"path": "facts/user.md"}]


@pytest.mark.long
@pytest.mark.requirement("R164")
def test_past_work_is_told_from_the_episode_that_looking_back_wrote(site: Site):
    words = [BUG, "It was in the time zone's code.", "That is all for today."]
    talk(site, "talk", "worker", "-", *words, END="1")
    answer = talk(site, "talk", "worker", "-", "Which bug did we fix last time?")

    assert answer["calls"][0][1]["path"].startswith("episodes/")
    assert "bug" in answer["text"] and answer["text"] != NOT_KNOWN
    assert "ran topics twice after the clock change" in answer["calls"][0][2]


@pytest.mark.requirement("R163")
def test_a_file_that_a_person_edits_is_what_the_next_process_reads(site: Site):
    talk(site, "talk", "editor", "-", "I'm Zhang San.")
    text = talk(site, "edit", "editor", "Zhang San", "Li Si")["text"]
    answer = talk(site, "talk", "editor", "-", "What's my name?")

    assert text.startswith("# ") and "- Name: Li Si" in text
    assert "Name: Li Si" in answer["text"]
