"""Memory files by REST: exact text by path, no lost writes, and review of agents' writes."""

from __future__ import annotations

from typing import Any

import pytest

from memory.agents.tools import files as tool_files
from memory.models import MemoryFile, Proposal, Revision
from memory.services.files.saving import save_file
from memory.services.review.proposals import set_levels
from tests.api.cast import Program, items, problem

FACTS = "/files/facts/memory.md"
MONTH = "/files/episodes/2026-02.md"
TEXT = "# Memory\n\n> Summary: tools\n\n## Tools\n- Redis is the broker\n- Postgres is the truth\n"


@pytest.fixture(autouse=True)
def _nothing_waits(alice: Any) -> None:
    """Agents' writes are stored at once, unless a test says otherwise."""
    set_levels(alice, {"default": "accept"}, by=alice.actor)


def _write(program: Program, content: str = TEXT) -> Any:
    return program.put(FACTS, {"content": content}, If_Match="*")


@pytest.mark.parametrize("who", ["agent", "person"])
def test_what_is_written_is_read_back_to_the_letter(
    request: pytest.FixtureRequest, who: str
) -> None:
    program = request.getfixturevalue(who)

    answer = _write(program)
    told = program.get(FACTS)

    assert answer.status_code == 200
    assert told.json()["content"] == TEXT
    assert told["ETag"] == answer["ETag"] == f'"{told.json()["version"]}"'
    assert told.json()["summary"] == "tools"


def test_both_fact_files_are_there_from_the_start(agent: Program) -> None:
    told = items(agent.get("/files"))

    assert [one["path"] for one in told] == ["facts/user.md", "facts/memory.md"]
    assert "content" not in told[0]
    assert agent.get("/files/facts/user.md")["ETag"] == '"1"'


@pytest.mark.parametrize("who", ["agent", "person"])
def test_a_write_says_which_version_it_saw(request: pytest.FixtureRequest, who: str) -> None:
    program = request.getfixturevalue(who)
    tag = _write(program)["ETag"]
    newer = program.put(FACTS, {"content": TEXT + "- newer\n"}, If_Match=tag)

    problem(program.put(FACTS, {"content": "lost"}), 428)
    stale = problem(program.put(FACTS, {"content": "lost"}, If_Match=tag), 412)

    assert stale["current"] == newer.json()["content"]
    assert stale["version"] == newer.json()["version"]
    assert program.get(FACTS).json() == {
        name: value for name, value in newer.json().items() if name != "warnings"
    }


@pytest.mark.requirement("R153")
def test_patches_are_applied_all_or_none(agent: Program) -> None:
    tag = _write(agent)["ETag"]
    good, bad = ("Redis", "Valkey"), ("Mongo", "SQLite")

    def patch(*pairs: tuple[str, str]) -> Any:
        body = {"patches": [{"old_text": old, "new_text": new} for old, new in pairs]}
        return agent.patch(FACTS, body, If_Match=tag)

    assert "Mongo" in problem(patch(good, bad), 422)["detail"]
    assert agent.get(FACTS).json()["content"] == TEXT
    assert "Valkey is the broker" in patch(good).json()["content"]


@pytest.mark.parametrize("who", ["agent", "person"])
def test_a_months_file_is_created_by_its_first_entry(
    request: pytest.FixtureRequest, who: str
) -> None:
    program = request.getfixturevalue(who)
    entry = {"entry": "## Fixed it\n- Summary: a bug\n- Date: 2026-02-26", "summary": "fixes"}

    problem(program.get(MONTH), 404)
    first, second = program.post(f"{MONTH}/entries", entry), program.post(f"{MONTH}/entries", entry)

    assert (first.status_code, second.status_code) == (201, 200)
    assert first["Location"] == f"/api/v1{MONTH}"
    assert program.get(MONTH).json()["content"].count("## Fixed it") == 2


def test_put_makes_a_months_file_where_none_is_only(person: Program) -> None:
    problem(person.put(MONTH, {"content": "# February\n"}), 428)
    problem(person.put(MONTH, {"content": "# February\n"}, If_Match='"1"'), 412)
    made = person.put(MONTH, {"content": "# February\n"}, If_None_Match="*")
    again = person.put(MONTH, {"content": "# Other\n"}, If_None_Match="*")

    assert made.status_code == 201
    assert problem(again, 412)["current"].startswith("# February")


def test_other_paths_are_refused(agent: Program) -> None:
    for path in ("/files/etc/passwd", "/files/facts/other.md", "/files/facts/%2e%2e/x.md"):
        assert "facts/user.md" in problem(agent.get(path), 404)["detail"]
        problem(agent.put(path, {"content": "x"}, If_None_Match="*"), 422)
    assert MemoryFile.objects.for_user(agent.owner).count() == 2


def test_more_than_the_budget_is_refused_with_its_figures(agent: Program) -> None:
    told = problem(_write(agent, "# M\n" + ("x" * 99 + "\n") * 200), 413)

    assert told["most"] == 15_360
    assert told["have"] > 15_360
    assert agent.get(FACTS).json()["version"] == 1


def test_an_agents_write_that_waits_answers_202(agent: Program, alice: Any) -> None:
    set_levels(alice, {"default": "hold all"}, by=alice.actor)

    answer = _write(agent)

    proposal = Proposal.objects.get()
    assert (answer.status_code, answer.json()["proposal"]) == (202, str(proposal.pk))
    assert agent.get(FACTS).json()["version"] == 1
    assert _write(Program(alice, "admin", name="console")).status_code == 200


def test_a_locked_file_is_for_people(agent: Program, person: Program, alice: Any) -> None:
    file = MemoryFile.objects.for_user(alice).at("facts/memory.md").get()
    file.change(by=alice.actor, lock="read-only")

    problem(_write(agent), 403)
    assert _write(person).status_code == 200


@pytest.mark.requirement("R222")
def test_a_sensitive_file_is_shown_to_people_alone(
    agent: Program, person: Program, alice: Any
) -> None:
    save_file(alice, "facts/memory.md", TEXT + "- the PIN is 4711\n", by=alice.actor)
    file = MemoryFile.objects.for_user(alice).at("facts/memory.md").get()
    file.change(by=alice.actor, sensitivity="sensitive")

    for path in (FACTS, f"{FACTS}/revisions"):
        assert b"4711" not in agent.get(path).content
        problem(agent.get(path), 403)
    problem(_write(agent, "# Empty\n"), 403)
    assert [one["path"] for one in items(agent.get("/files"))] == ["facts/user.md"]
    assert "4711" in person.get(FACTS).json()["content"]


def test_its_versions_say_who_wrote_and_why(person: Program, agent: Program) -> None:
    tag = _write(agent)["ETag"]
    person.put(FACTS, {"content": "# Memory\n", "reason": "tidied"}, If_Match=tag)

    told = items(person.get(f"{FACTS}/revisions"))

    assert [one["version"] for one in told] == [3, 2, 1]
    assert (told[0]["actor"], told[0]["reason"]) == ("human:alice", "tidied")
    assert told[1]["actor"] == "agent:desk"


def test_an_agents_reason_is_kept_also_in_a_proposal(agent: Program, alice: Any) -> None:
    body = {"content": TEXT, "reason": "checked twice"}
    agent.put(FACTS, body, If_Match="*")
    set_levels(alice, {"default": "hold all"}, by=alice.actor)
    agent.post(
        f"{FACTS}/entries", {"entry": "- Valkey", "summary": "s", "reason": "seen in the log"}
    )

    assert items(agent.get(f"{FACTS}/revisions"))[0]["reason"] == "checked twice"
    held = Proposal.objects.get()
    assert held.reason == "seen in the log"
    assert (held.after["entry"], held.after["summary"]) == ("- Valkey", "s")


def test_a_stranger_sees_their_own_files_alone(agent: Program, stranger: Program) -> None:
    _write(agent)

    assert stranger.get(FACTS).json()["content"] != TEXT


def test_what_is_written_while_the_version_is_compared_is_not_lost(
    agent: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = _write(agent)["ETag"]
    held = tool_files.rows_held
    looked: list[Any] = []
    monkeypatch.setattr(tool_files, "rows_held", lambda *a: looked.append(a) or held(*a))

    agent.put(FACTS, {"content": TEXT + "- more\n"}, If_Match=tag)

    assert looked  # compared on rows that are held
    assert Revision.objects.filter(record_type="memoryfile", version=3).count() == 1


def test_an_empty_text_empties_the_file(agent: Program) -> None:
    _write(agent)

    assert _write(agent, "").status_code == 200
    assert "Redis" not in agent.get(FACTS).json()["content"]


# --- to the trash -------------------------------------------------------------------------------------


def test_a_person_moves_a_month_to_the_trash_from_which_it_is_restored(person: Program) -> None:
    made = person.put(MONTH, {"content": "## Tea\n"}, If_None_Match="*")
    key = MemoryFile.objects.get(path="episodes/2026-02.md").pk

    problem(person.delete(MONTH), 428)
    assert person.delete(MONTH, If_Match=made["ETag"]).status_code == 204
    problem(person.get(MONTH), 404)
    assert person.post(f"/trash/memoryfile/{key}/restore").status_code == 204
    assert person.get(MONTH).json()["content"] == made.json()["content"]


def test_fact_files_stay(person: Program) -> None:
    assert "Empty it instead" in problem(person.delete(FACTS, If_Match="*"), 422)["detail"]
    assert person.get(FACTS).status_code == 200


def test_agents_and_strangers_move_no_file(agent: Program, stranger: Program) -> None:
    agent.put(MONTH, {"content": "## Tea\n"}, If_None_Match="*")

    problem(agent.delete(MONTH, If_Match="*"), 403)
    problem(stranger.delete(MONTH, If_Match="*"), 403)
    assert agent.get(MONTH).status_code == 200
