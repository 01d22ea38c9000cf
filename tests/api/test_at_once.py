"""Twenty clients at once: each gets the response to its own write, and nothing is lost.

All wait at a barrier just before they send, so their requests overlap even on a slow machine.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connections, transaction

from memory.models import (
    Conflict,
    MemoryFile,
    Note,
    Observation,
    Proposal,
    Revision,
    ScratchpadEntry,
    Topic,
)
from memory.services.notes import saving as notes
from memory.services.observations.saving import Line, remember_lines
from tests.api.cast import Program

pytestmark = pytest.mark.django_db(transaction=True)
AT_ONCE = 20
ANY = "*"
FACTS = "/files/facts/memory.md"
MONTH = "/files/episodes/2026-02.md"


@pytest.fixture
def people(alice: Any) -> list[Program]:
    """Twenty clients of Alice's, each with its own test client."""
    return [Program(alice, "admin", name=f"desk {number}") for number in range(AT_ONCE)]


@pytest.fixture
def agents(alice: Any) -> list[Program]:
    """Twenty agents of Alice's."""
    return [Program(alice, "read", "write", name=f"agent {number}") for number in range(AT_ONCE)]


def at_once(programs: list[Program], send: Callable[[Program, int], Any]) -> list[Any]:
    """Let all clients send their requests at the same time; return the responses in order."""
    together = threading.Barrier(len(programs))

    def one(number: int) -> Any:
        try:
            programs[number].client.raise_request_exception = False
            together.wait(120)
            return send(programs[number], number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(programs)) as pool:
        return list(pool.map(one, range(len(programs))))


def statuses(answers: list[Any]) -> Counter[int]:
    """Count the responses by status; none may be a server error."""
    found = Counter(int(answer.status_code) for answer in answers)
    assert not [status for status in found if status >= 500], found
    return found


def own_words(number: int) -> str:
    """Return words that only this writer sends."""
    return f"Writer {number:02} was here."


# --- a record that is there -------------------------------------------------------------------------


def _a_note(alice: Any) -> tuple[str, Any]:
    note = notes.write_note(alice, "log", "It rains.", by=alice.actor)
    return f"/notes/{note.pk}", note


def _an_observation(alice: Any) -> tuple[str, Any]:
    stored = remember_lines(alice, [Line("finding", "It rains.")], by=alice.actor, source="run:1")
    [one] = stored.observations
    return f"/observations/{one.pk}", one


def _a_topic(alice: Any) -> tuple[str, Any]:
    asked = Program(alice, "admin", name="maker").post("/topics", {"title": "Rain"})
    slug = asked.json()["slug"]
    return f"/topics/{slug}", Topic.objects.get(slug=slug)


RECORDS = {
    "note": (_a_note, "content"),
    "observation": (_an_observation, "content"),
    "topic": (_a_topic, "objective"),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_any_version_takes_every_change_and_each_answer_is_its_own(
    alice: Any, people: list[Program], kind: str
):
    make, field = RECORDS[kind]
    path, record = make(alice)
    first = type(record).objects.get(pk=record.pk).version

    answers = at_once(people, lambda one, n: one.patch(path, {field: own_words(n)}, If_Match=ANY))

    assert statuses(answers) == {200: AT_ONCE}
    versions = {int(answer["ETag"].strip('"')) for answer in answers}
    assert versions == set(range(first + 1, first + 1 + AT_ONCE))
    for number, answer in enumerate(answers):
        assert answer.json()[field] == own_words(number)
        assert f'"{answer.json()["version"]}"' == answer["ETag"]
    record.refresh_from_db()
    assert record.version == first + AT_ONCE
    written = Revision.objects.filter(record_id=record.pk, version__gt=first)
    assert written.count() == AT_ONCE


@pytest.mark.parametrize("kind", RECORDS)
def test_of_one_version_one_change_is_taken(alice: Any, people: list[Program], kind: str):
    make, field = RECORDS[kind]
    path, record = make(alice)
    tag = f'"{type(record).objects.get(pk=record.pk).version}"'

    answers = at_once(people, lambda one, n: one.patch(path, {field: own_words(n)}, If_Match=tag))

    assert statuses(answers) == {200: 1, 412: AT_ONCE - 1}
    [taken] = [number for number, answer in enumerate(answers) if answer.status_code == 200]
    record.refresh_from_db()
    stored = record.settings if kind == "topic" else record
    assert getattr(stored, field) == own_words(taken)


# --- memory files -----------------------------------------------------------------------------------


def _is_own(answers: list[Any], first: int) -> None:
    """Each response has a different version, with the writer's words in its text."""
    versions = [int(answer["ETag"].strip('"')) for answer in answers]
    assert sorted(versions) == list(range(first, first + len(answers)))
    for number, answer in enumerate(answers):
        told = answer.json()
        assert told["version"] == versions[number]
        assert own_words(number) in told["content"]


@pytest.mark.parametrize("path", [FACTS, MONTH])
def test_each_entry_answers_with_the_file_as_that_entry_left_it(people: list[Program], path: str):
    people[0].post(f"{path}/entries", {"entry": "- The first."})
    first = MemoryFile.objects.get(path=path.removeprefix("/files/")).version

    answers = at_once(people, lambda one, n: one.post(f"{path}/entries", {"entry": own_words(n)}))

    assert statuses(answers) == {200: AT_ONCE}
    _is_own(answers, first + 1)
    for answer in answers:  # as many of the others' words as versions came before
        count = answer.json()["content"].count("was here.")
        assert count == answer.json()["version"] - first
    stored = MemoryFile.objects.get(path=path.removeprefix("/files/")).content
    assert all(stored.count(own_words(number)) == 1 for number in range(AT_ONCE))


@pytest.mark.parametrize("how", ["patch", "put"])
def test_each_change_of_a_file_answers_with_its_own_text(people: list[Program], how: str):
    lines = "".join(f"- Line {number:02}.\n" for number in range(AT_ONCE))
    person = people[0]
    person.put(FACTS, {"content": f"# Memory\n\n{lines}"}, If_Match=ANY)
    first = MemoryFile.objects.get(path="facts/memory.md").version

    def send(one: Program, number: int) -> Any:
        if how == "put":
            text = f"# Memory\n\n- {own_words(number)}\n"
            return one.put(FACTS, {"content": text}, If_Match=ANY)
        pair = {"old_text": f"Line {number:02}.", "new_text": own_words(number)}
        return one.patch(FACTS, {"patches": [pair]}, If_Match=ANY)

    answers = at_once(people, send)

    assert statuses(answers) == {200: AT_ONCE}
    _is_own(answers, first + 1)


WRITES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "put": ("PUT", FACTS, {"content": f"# Memory\n\n- {own_words(1)}\n"}),
    "patch": ("PATCH", FACTS, {"patches": [{"old_text": "It rains.", "new_text": own_words(1)}]}),
    "entry": ("POST", f"{FACTS}/entries", {"entry": own_words(1)}),
    "scratchpad": ("PUT", "/scratchpad/plan", {"value": own_words(1)}),
    "topic": ("PATCH", "/topics/rain", {"objective": own_words(1)}),
}
NEXT: dict[str, tuple[str, str, dict[str, Any]]] = {
    "scratchpad": ("PUT", "/scratchpad/plan", {"value": "Later."}),
    "topic": ("PATCH", "/topics/rain", {"objective": "Later."}),
}


@pytest.fixture
def followed(alice: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Return a function that makes a second write right after the next one is stored."""
    follower: list[Callable[[], Any]] = []

    def write() -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: (act(), connections.close_all())).result(60)

    def later(*args: Any, **kwargs: Any) -> Any:
        nonlocal act
        stored = record_many(*args, **kwargs)
        if follower:
            act = follower.pop()
            transaction.on_commit(write)
        return stored

    act: Callable[[], Any] = list
    record_many = Revision.record_many
    monkeypatch.setattr(Revision, "record_many", later)
    return follower.append


@pytest.mark.parametrize("kind", WRITES)
def test_an_answer_reports_its_own_write_though_another_follows_at_once(
    people: list[Program], followed: Any, kind: str
):
    first, second = people[:2]
    first.put(FACTS, {"content": "# Memory\n\n- It rains.\n"}, If_Match=ANY)
    first.put("/scratchpad/plan", {"value": "It rains."})
    first.post("/topics", {"title": "Rain"})
    then = NEXT.get(kind, ("POST", f"{FACTS}/entries", {"entry": "Later."}))
    followed(lambda: second.send(*then, If_Match=ANY))

    answer = first.send(*WRITES[kind], If_Match=ANY)

    now = first.get(WRITES[kind][1].removesuffix("/entries"))
    assert "Later." in now.content.decode()
    assert own_words(1) in answer.content.decode()
    assert "Later." not in answer.content.decode()
    assert int(answer["ETag"].strip('"')) == int(now["ETag"].strip('"')) - 1


def test_one_first_entry_makes_a_months_file(people: list[Program]):
    answers = at_once(people, lambda one, n: one.post(f"{MONTH}/entries", {"entry": own_words(n)}))

    assert statuses(answers) == {201: 1, 200: AT_ONCE - 1}
    _is_own(answers, 1)
    [made] = [answer for answer in answers if answer.status_code == 201]
    assert made["Location"].endswith(MONTH)


@pytest.mark.parametrize("words", ["the same", "its own"])
def test_one_put_makes_a_months_file_and_the_others_are_told_of_it(
    people: list[Program], words: str
):
    def send(one: Program, number: int) -> Any:
        text = f"# 2026-02 Episodes\n\n{own_words(number if words == 'its own' else 0)}\n"
        return one.put(MONTH, {"content": text}, If_None_Match="*")

    answers = at_once(people, send)

    assert statuses(answers) == {201: 1, 412: AT_ONCE - 1}
    assert MemoryFile.objects.get(path=MONTH.removeprefix("/files/")).version == 1


# --- what is made -----------------------------------------------------------------------------------


def test_one_put_makes_a_scratchpad_key(agents: list[Program]):
    answers = at_once(agents, lambda one, n: one.put("/scratchpad/plan", {"value": own_words(n)}))

    assert statuses(answers) == {201: 1, 200: AT_ONCE - 1}
    assert {answer["ETag"] for answer in answers} == {f'"{n}"' for n in range(1, AT_ONCE + 1)}
    for number, answer in enumerate(answers):
        assert answer.json()["value"] == own_words(number)
    assert ScratchpadEntry.objects.get(key="plan").version == AT_ONCE


def test_one_post_makes_a_topic(people: list[Program]):
    answers = at_once(people, lambda one, _n: one.post("/topics", {"title": "Rain"}))

    assert statuses(answers) == {201: 1, 200: AT_ONCE - 1}
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_the_same_observation_is_new_once(agents: list[Program]):
    batch = {"findings": ["The bridge is closed."], "source": "GOAL:roads"}

    answers = at_once(agents, lambda one, _n: one.post("/observations", batch))

    assert statuses(answers) == {201: AT_ONCE}
    assert sum(len(answer.json()["new"]) for answer in answers) == 1
    assert Observation.objects.count() == 1


def test_each_change_of_settings_answers_with_its_own(people: list[Program]):
    zones = ["Europe/Berlin", "Asia/Tokyo", "America/Lima", "UTC"]

    answers = at_once(
        people, lambda one, n: one.patch("/settings", {"time_zone": zones[n % len(zones)]})
    )

    assert statuses(answers) == {200: AT_ONCE}
    told = [answer.json()["time_zone"] for answer in answers]
    assert told == [zones[number % len(zones)] for number in range(AT_ONCE)]


# --- what is decided --------------------------------------------------------------------------------


def test_a_proposal_is_decided_once(alice: Any, agents: list[Program], people: list[Program]):
    held = agents[0].post("/notes", {"content": "Always pay.", "kind": "rule", "evidence": ["x"]})
    proposal = held.json()["proposal"]
    decide = {0: "accept", 1: "reject"}

    answers = at_once(people, lambda one, n: one.post(f"/proposals/{proposal}/{decide[n % 2]}"))

    assert statuses(answers) == {200: 1, 409: AT_ONCE - 1}
    [done] = [answer.json() for answer in answers if answer.status_code == 200]
    stored = Proposal.objects.get(pk=proposal)
    assert stored.state == done["state"]
    assert Note.objects.filter(content="Always pay.").count() == (done["state"] == "accepted")


def test_a_conflict_is_resolved_once(alice: Any, people: list[Program]):
    left, right = (
        notes.write_note(alice, "log", text, by=alice.actor) for text in ("It rains.", "It is dry.")
    )
    one = Conflict.objects.note(alice, "contradiction", left, right)
    how = {0: "left", 1: "right"}

    answers = at_once(
        people,
        lambda each, n: each.post(f"/conflicts/{one.pk}/resolve", {"resolution": how[n % 2]}),
    )

    assert statuses(answers) == {200: 1, 409: AT_ONCE - 1}
    [done] = [answer.json() for answer in answers if answer.status_code == 200]
    assert Conflict.objects.get(pk=one.pk).resolution == done["resolution"]


# --- the trash --------------------------------------------------------------------------------------


def test_a_record_is_restored_once(alice: Any, people: list[Program]):
    path, note = _a_note(alice)
    note.trash(by=alice.actor)

    answers = at_once(people, lambda one, _n: one.post(f"/trash/note/{note.pk}/restore"))

    assert statuses(answers) == {204: 1, 404: AT_ONCE - 1}
    assert people[0].get(path)["ETag"] == '"3"'


@pytest.mark.parametrize("kind", ["note", "topic"])
def test_trash_restore_and_purge_of_one_record_at_once_are_no_mistake_of_beacons(
    alice: Any, people: list[Program], kind: str
):
    make, _field = RECORDS[kind]
    path, record = make(alice)
    trashed = f"/trash/{kind}/{record.pk}"

    def send(one: Program, number: int) -> list[Any]:
        answers = []
        for turn in range(3):
            act = (number + turn) % 3
            if act == 0:
                answers.append(one.delete(path, If_Match=ANY))
            elif act == 1:
                answers.append(one.post(f"{trashed}/restore"))
            else:
                answers.append(one.send("DELETE", trashed, {"confirm": str(record)}))
        return answers

    found = [answer for answers in at_once(people, send) for answer in answers]

    assert statuses(found).keys() <= {204, 404, 409, 422}
    if not type(record).objects.filter(pk=record.pk).exists():
        assert not Revision.objects.filter(record_id=record.pk).exists()
