"""The Python client and its command, against the whole site without a network between."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from beacon_memory import Beacon, BeaconError, NotReached, Refused, command
from django.test import Client

from memory.accounts import tokens
from memory.models import MemoryFile, Note, Observation, ReviewLevel, User
from research.services.runs.execution import pipeline
from research.services.runs.execution.starting import create_sample_topic

FILE = "facts/memory.md"
BODY = "# Memory\n\n> Summary: tea\n\n- Tea is hot.\n"


def _answered(request: httpx.Request) -> httpx.Response:
    """Let the site answer a request without closing the test's connection."""
    answer = Client(raise_request_exception=False).generic(
        request.method,
        request.url.raw_path.decode(),
        request.read(),
        content_type=request.headers.get("content-type", ""),
        headers=dict(request.headers),
    )
    return httpx.Response(answer.status_code, headers=dict(answer.items()), content=answer.content)


IN_PROCESS = httpx.MockTransport(_answered)


def token_of(owner: User, *scopes: str) -> str:
    wanted = scopes or ("read", "write")
    return tokens.issue(owner, name="script", scopes=wanted, by=owner.actor)[1]


@pytest.fixture
def beacon(alice: User) -> Beacon:
    """Alice's program."""
    return Beacon("http://127.0.0.1:8000", token=token_of(alice), transport=IN_PROCESS)


def accept_all(owner: User) -> None:
    ReviewLevel.objects.create(owner=owner, kind="default", level="accept")


def test_what_is_remembered_is_recalled(beacon: Beacon, alice: User) -> None:
    written = beacon.remember("The build needs Python 3.11.", tags=["build"])

    (hit,) = beacon.recall("which python")

    note = Note.objects.get(pk=written.id)
    assert (hit.id, hit.type, hit.source) == (written.id, "note", "agent:script")
    assert (note.owner, note.tags) == (alice, ["build"])
    assert 0 < hit.score <= 1


def test_a_write_that_waits_for_a_person_says_so(beacon: Beacon, alice: User) -> None:
    ReviewLevel.objects.create(owner=alice, kind="default", level="hold all")

    written = beacon.remember("The build needs Python 3.11.")

    assert written.is_held and "every write of this type" in written.reason
    assert not Note.objects.filter(content__contains="Python").exists()


def test_findings_insights_and_lessons_are_stored(beacon: Beacon, alice: User) -> None:
    beacon.observe(findings=["The plant makes nine million cells."], lessons=["Ask twice first."])

    assert Observation.objects.for_user(alice).count() == 2


def test_files_are_listed_read_and_written_over_what_was_read(beacon: Beacon, alice: User) -> None:
    accept_all(alice)
    before = beacon.file(FILE)

    beacon.write_file(FILE, BODY, version=before.version)

    assert FILE in [one.path for one in beacon.files()]
    assert "- Tea is hot." in MemoryFile.objects.for_user(alice).get(path=FILE).content
    with pytest.raises(Refused) as refused:
        beacon.write_file(FILE, "# Memory\n\n- Nothing.\n", version=before.version)
    assert refused.value.status == 412


def test_a_months_file_is_created_by_its_first_entry(beacon: Beacon, alice: User) -> None:
    accept_all(alice)
    entry = "## Built\n\n- Summary: it works\n- Date: 2026-02-26\n- Task: build\n- Findings: x\n"

    beacon.append_entry("episodes/2026-02.md", entry)

    assert "## Built" in beacon.file("episodes/2026-02.md").content


def test_a_run_is_started_once_and_its_report_read(beacon: Beacon, alice: User) -> None:
    topic = create_sample_topic(alice, by=alice.actor)

    run = beacon.run(topic.title, depth="quick")
    assert beacon.run(topic.title).id == run.id
    with pytest.raises(Refused) as early:
        beacon.report(run.id)
    pipeline.execute(run.id, worker="test")

    done = beacon.run_of(run.id)
    assert early.value.status == 404
    assert (done.number, done.is_unfinished) == (1, False)
    assert "Run #1" in beacon.report(run.id).markdown


def test_the_context_is_what_an_agent_is_given(beacon: Beacon) -> None:
    assert "Available memory:" in beacon.context("What colour is the door?")


def test_a_models_memory_commands_are_carried_out(beacon: Beacon, alice: User) -> None:
    accept_all(alice)
    path = "/memories/notes.md"
    create = {"command": "create", "path": path, "file_text": "- Tea.\n"}

    made, again = beacon.memory(create), beacon.memory(create)
    seen = beacon.memory({"command": "view", "path": path})

    assert made == (f"File created successfully at: {path}", False)
    assert again == (f"Error: File {path} already exists", True)
    assert seen[0].endswith("     1\t- Tea.")
    assert (
        MemoryFile.objects.for_user(alice).get(path="agents/script/notes.md").content == "- Tea.\n"
    )


def test_a_memory_command_that_waits_says_so(beacon: Beacon, alice: User) -> None:
    ReviewLevel.objects.create(owner=alice, kind="default", level="hold all")

    text, is_error = beacon.memory(
        {"command": "create", "path": "/memories/a.md", "file_text": "x"}
    )

    assert text.startswith("Pending approval") and not is_error


def test_a_refusal_has_beacons_own_words_by_field(beacon: Beacon) -> None:
    with pytest.raises(Refused) as refused:
        beacon.remember("Always test.", kind="rule", confidence=0.1)

    assert refused.value.status == 422
    assert refused.value.errors


def test_a_token_that_can_only_read_is_refused_the_write(alice: User) -> None:
    reader = Beacon(token=token_of(alice, "read"), transport=IN_PROCESS)

    assert reader.recall("zeppelin") == []
    with pytest.raises(Refused) as refused:
        reader.remember("x")
    assert refused.value.status == 403


def test_a_strangers_records_are_not_there(beacon: Beacon, bob: User) -> None:
    beacon.remember("Alice's secret")
    other = Beacon(token=token_of(bob), transport=IN_PROCESS)

    assert other.recall("secret") == []


@pytest.mark.parametrize("answer", [b"<html>hello</html>", b"[]", b""])
def test_what_isnt_beacon_is_explained(answer: bytes) -> None:
    page = httpx.MockTransport(lambda request: httpx.Response(502, content=answer))

    with pytest.raises(NotReached, match="isn't a Beacon server"):
        Beacon(token="x", transport=page).recall("x")


def test_a_page_that_answers_well_isnt_beacon_either() -> None:
    page = httpx.MockTransport(lambda request: httpx.Response(200, content=b"<html>hello</html>"))

    with pytest.raises(NotReached, match="isn't a Beacon server: it doesn't send JSON"):
        Beacon(token="x", transport=page).recall("x")


def test_an_answer_that_comes_in_drips_is_given_up_in_time() -> None:
    def drips() -> Iterator[bytes]:
        while True:
            time.sleep(0.02)
            yield b" "

    page = httpx.MockTransport(lambda request: httpx.Response(200, content=drips()))
    with pytest.raises(NotReached, match=r"after 0\.1 seconds"):
        Beacon(token="x", transport=page, timeout=0.1).recall("x")


@pytest.mark.parametrize(
    ("url", "token", "says"),
    [
        ("http://[::1", "x", "isn't a valid URL"),
        ("", "bcn_é", "characters"),
        ("", "a\nb", "characters"),
    ],
)
def test_an_address_or_token_that_cannot_be_is_explained(url: str, token: str, says: str) -> None:
    with pytest.raises(BeaconError, match=says):
        Beacon(url, token=token)


def test_where_no_one_answers_it_is_explained() -> None:
    with pytest.raises(NotReached, match="No response from http://127"):
        Beacon("http://127.0.0.1:1", token="x").recall("x")


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def typed(alice: User, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Run the command; return its exit code, output and errors."""
    monkeypatch.setattr(command, "Beacon", partial(Beacon, transport=IN_PROCESS))
    monkeypatch.setenv("BEACON_API_TOKEN", token_of(alice))
    monkeypatch.delenv("BEACON_URL", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = command.main(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_the_command_remembers_and_recalls(typed: Any) -> None:
    code, said, _errors = typed("remember", "The build needs Python 3.11.", "--tag", "build")
    assert code == 0

    _code, found, _errors = typed("recall", "which python")
    as_json = json.loads(typed("--json", "recall", "which python")[1])

    assert "The build needs Python 3.11." in found
    assert as_json[0]["id"] == said.strip()


def test_the_command_prints_and_writes_files(typed: Any, alice: User, tmp_path: Path) -> None:
    accept_all(alice)
    (tmp_path / "new.md").write_text(BODY)

    assert typed("files", FILE, "--write", str(tmp_path / "new.md"))[0] == 0

    assert "Tea is hot." in typed("files", FILE)[1]
    assert FILE in typed("files")[1]


def test_the_command_starts_a_run_and_says_how_far_it_is(typed: Any, alice: User) -> None:
    topic = create_sample_topic(alice, by=alice.actor)

    code, _said, errors = typed("run", topic.title, "--wait", "0.1")

    assert code == command.UNFINISHED
    assert "is queued" in errors


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("files", "facts/other.md"), "one episode file per month"),
        (("files", FILE, "--write", "/no/such/file"), "can't be read"),
        (("recall", ""), ""),
        (("recall", "x", "--limit", "-1"), ""),
        (("remember", ""), ""),
    ],
)
def test_what_goes_wrong_is_reported_and_the_exit_code_is_one(
    typed: Any, arguments: tuple[str, ...], said: str
) -> None:
    code, _said, errors = typed(*arguments)

    assert code == 1
    assert errors.startswith("beacon-memory: ")
    assert said in errors


def test_a_wrong_token_is_explained(typed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEACON_API_TOKEN", "bcn_wrong")

    code, _said, errors = typed("recall", "x")

    assert code == 1
    assert "unknown, revoked or expired" in errors


def test_without_a_token_it_is_said_where_to_get_one(
    typed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BEACON_API_TOKEN")

    code, _said, errors = typed("recall", "x")

    assert code == 1
    assert "Agents → API tokens" in errors and "BEACON_API_TOKEN" in errors


def test_a_long_hit_is_printed_by_its_beginning_unless_all_is_requested(typed: Any) -> None:
    typed("remember", "A python is long. " * 40)

    assert len(typed("recall", "python")[1]) < 240
    assert len(typed("recall", "python", "--whole")[1]) > 700


def test_a_text_can_come_by_standard_input(typed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("From a pipe."))

    assert typed("remember", "-")[0] == 0
    assert Note.objects.filter(content="From a pipe.").exists()


def test_wrong_usage_ends_with_two(typed: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        typed("forget")

    assert ended.value.code == 2
