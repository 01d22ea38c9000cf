"""The scratchpad: keys, values, prefixes, searching, and two writers at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from memory.models import Revision, ScratchpadEntry
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, Locked, NoSuchKey, StaleWrite
from memory.services import scratchpad

AGENT = Actor("agent", "claude")


def put(owner: Any, **values: str) -> None:
    for key, value in values.items():
        scratchpad.set_value(owner, key.replace("__", "."), value, by=AGENT)


def keys(found: Any) -> list[str]:
    return [entry.key for entry in found]


@pytest.mark.requirement("R99")
def test_what_is_set_is_got_and_set_again_it_is_the_newer(alice: Any):
    put(alice, task="first")
    put(alice, task="second")

    entry = scratchpad.get_entry(alice, "task")
    assert (entry.value, entry.version) == ("second", 2)
    assert Revision.objects.filter(record_id=entry.pk).count() == 2


@pytest.mark.requirement("R100")
def test_a_missing_key_is_not_there_and_says_so(alice: Any, bob: Any):
    put(alice, task="hers")

    with pytest.raises(NoSuchKey, match="has no key “task”"):
        scratchpad.get_entry(bob, "task")
    with pytest.raises(NoSuchKey):
        scratchpad.get_entry(alice, "x" * 1000)


@pytest.mark.requirement("R101")
def test_keys_are_listed_by_prefix_and_sorted(alice: Any, bob: Any):
    put(alice, api__token="1", api__endpoint="2", apiary="3", Zebra="4", a_b="5", aXb="6")
    put(bob, api__bob="7")

    assert keys(scratchpad.entries(alice, "api.")) == ["api.endpoint", "api.token"]
    assert keys(scratchpad.entries(alice, "a_")) == ["a_b"]
    everything = keys(scratchpad.entries(alice))
    assert len(everything) == 6
    assert everything == sorted(everything)


@pytest.mark.requirement("R102")
def test_searching_looks_in_keys_and_values_in_any_case(alice: Any):
    put(alice, Endpoint="https://Example.com", note="100% sure", other="100 sure", Überblick="x")

    assert keys(scratchpad.search(alice, "example.COM")) == ["Endpoint"]
    assert keys(scratchpad.search(alice, "ENDPOINT")) == ["Endpoint"]
    assert keys(scratchpad.search(alice, "0%")) == ["note"]
    assert keys(scratchpad.search(alice, "üBERblick")) == ["Überblick"]


@pytest.mark.requirement("R103")
def test_a_session_s_entries_are_its_own_and_told_as_such(alice: Any):
    scratchpad.set_value(alice, "task", "of the session", by=AGENT, scope="session:7")

    assert keys(scratchpad.entries(alice)) == []
    assert scratchpad.get_entry(alice, "task", scope="session:7").value == "of the session"
    assert "only for session 7" in scratchpad.retention_label("session:7")
    assert "all your sessions" in scratchpad.retention_label("owner")


def test_spaces_and_slashes_are_part_of_a_key(alice: Any):
    scratchpad.set_value(alice, " notes/plan b ", "x", by=AGENT)

    assert scratchpad.get_entry(alice, "notes/plan b").value == "x"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("x" * 1000, "at most 200 characters, but this one has 1000"),
        ("", "at least one visible character"),
        ("\x00 \u200b", "at least one visible character"),
        ("two\nlines", "single line"),
    ],
)
def test_a_key_that_cannot_be_is_refused_with_a_reason(alice: Any, key: str, told: str):
    with pytest.raises(InvalidValue, match=told):
        scratchpad.set_value(alice, key, "x", by=AGENT)
    assert not ScratchpadEntry.objects.exists()


def test_a_value_is_cleaned_and_at_most_64_kib(alice: Any):
    put(alice, task="a\x00b\ud800c")
    assert scratchpad.get_entry(alice, "task").value == "abc"

    with pytest.raises(InvalidValue, match="65,536 bytes"):
        put(alice, task="ä" * 32_769)
    assert scratchpad.get_entry(alice, "task").value == "abc"


def test_a_scope_of_no_known_form_is_refused(alice: Any):
    with pytest.raises(InvalidValue, match="session:<id>"):
        scratchpad.set_value(alice, "task", "x", by=AGENT, scope="session:")


def test_a_stale_edit_is_reported(alice: Any):
    put(alice, task="first")
    put(alice, task="second")

    with pytest.raises(StaleWrite):
        scratchpad.set_value(alice, "task", "mine", by=alice.actor, expected_version=1)


def test_an_agent_does_not_overwrite_what_is_locked(alice: Any):
    put(alice, task="mine")
    scratchpad.get_entry(alice, "task").change(by=alice.actor, lock="read-only")

    with pytest.raises(Locked):
        put(alice, task="theirs")


def test_a_deleted_key_can_be_set_again_and_then_does_not_come_back(alice: Any):
    put(alice, task="first")
    gone = scratchpad.get_entry(alice, "task")
    gone.trash(by=alice.actor)
    with pytest.raises(NoSuchKey):
        scratchpad.get_entry(alice, "task")

    put(alice, task="second")
    with pytest.raises(InvalidValue, match="another record has taken its place"):
        gone.restore(by=alice.actor)
    assert scratchpad.get_entry(alice, "task").value == "second"


def test_a_key_that_is_taken_isnt_a_new_name(alice: Any):
    put(alice, task="first", other="second")

    with pytest.raises(InvalidValue, match="“other” already has a value"):
        scratchpad.rename(scratchpad.get_entry(alice, "task"), "other", by=alice.actor)


@pytest.mark.django_db(transaction=True)
def test_writers_at_once_are_all_stored_one_after_the_other(alice: Any):
    def write(n: int) -> None:
        try:
            scratchpad.set_value(alice, "task", f"value {n}", by=AGENT)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))

    assert scratchpad.get_entry(alice, "task").version == 8
