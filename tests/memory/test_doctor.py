"""The doctor: each drift is found, explained, mended, and then gone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from beacon_site.providers.catalogue import CATALOGUE
from beacon_site.providers.fakes import FakeEmbedder
from memory.doctor import examining
from memory.doctor.checkup import GOOD, WARN
from memory.files.services import save_file
from memory.llm import connections
from memory.models import (
    Activity,
    Archive,
    Embedding,
    EmbeddingDue,
    LibraryDocument,
    Note,
    PublishDue,
    Reflection,
    SearchEntry,
    SearchSpace,
    SearchTerm,
    User,
)
from memory.notes.writing import write_note
from memory.recall.recalling import recall
from memory.tasks import embed_due, look_for_drift
from research.models import Report, Step, Worker
from tests.doctor_cast import _no_word_is_left, asked, is_found_and_mended  # noqa: F401
from tests.memory.embedding_cast import note as embedded_note
from tests.research.factories import make_report, make_run, make_topic


def note(owner: User, content: str = "Green tea from Uji.") -> Note:
    return write_note(owner, "log", content, by=owner.actor, ttl_days=30, stability="volatile")


def told_by(capsys: Any, *options: str) -> tuple[str, int]:
    """What the command says, and its exit code."""
    try:
        call_command("doctor", *options)
    except SystemExit as ended:
        return capsys.readouterr().out, int(str(ended.code))
    return capsys.readouterr().out, 0


# --- the search index -----------------------------------------------------------------------------


def test_of_what_was_written_as_usual_nothing_has_drifted(alice: User, bob: User) -> None:
    topic = make_topic(alice)
    Report.follow([make_report(make_run(topic))])
    note(alice).trash(by=alice.actor)
    note(bob)
    save_file(alice, "facts/user.md", "# User\n\n- Tea: green\n", by=alice.actor)

    for key in (
        "search-entries",
        "search-figures",
        "search-words",
        "archive-files",
        "reservations",
    ):
        assert asked(key).state == GOOD, asked(key)


def test_a_record_that_is_not_indexed_is_found_and_can_be_recalled_again(alice: User) -> None:
    lost = note(alice)
    SearchEntry.objects.filter(record_id=lost.pk).delete()
    assert not recall(alice, "Uji")

    is_found_and_mended("search-entries", "not in the index: 1. Entries of no record: 0")
    assert [hit.id for hit in recall(alice, "Uji")] == [lost.pk]


def test_an_entry_of_no_record_is_taken_out(alice: User, bob: User) -> None:
    gone, kept = note(alice), note(bob)
    Note.objects.filter(pk=gone.pk).delete()
    SearchSpace.objects.create(owner=alice, record_type="of-another-age")

    is_found_and_mended("search-entries", "Entries of no record: 1")
    assert SearchEntry.objects.filter(record_id=kept.pk).exists()
    assert asked("search-figures").state == GOOD


def test_documents_of_the_library_have_their_entries_too(alice: User) -> None:
    document = LibraryDocument(owner=alice, title="Tea", text="On Uji.")
    LibraryDocument.objects.add([document], by=alice.actor)
    SearchEntry.objects.filter(record_id=document.pk).delete()

    is_found_and_mended("search-entries", "not in the index: 1")


@pytest.mark.parametrize(
    ("drift", "fields"),
    [
        (SearchTerm, {"documents": 7}),
        (SearchTerm, {"most": 0}),
        (SearchTerm, {"shortest": 99}),
        (SearchSpace, {"length": 1}),
        (SearchSpace, {"documents": 99}),
    ],
)
def test_a_figure_that_is_not_that_of_the_entries_is_counted_anew(
    alice: User, drift: Any, fields: dict[str, int]
) -> None:
    note(alice)
    before = list(SearchTerm.objects.order_by("space_id", "lexeme").values_list())
    about = {"lexeme": "uji"} if drift is SearchTerm else {"record_type": "note"}
    assert drift.objects.filter(**about).update(**fields)

    mended = is_found_and_mended("search-figures", "1 account's index")
    assert "made anew" in mended.mended
    assert list(SearchTerm.objects.order_by("space_id", "lexeme").values_list()) == before


def test_a_term_that_is_missing_from_the_figures_is_found(alice: User) -> None:
    note(alice)
    SearchTerm.objects.filter(lexeme="uji").delete()

    is_found_and_mended("search-figures", "1 account's index")


@pytest.mark.parametrize("fields", [{"content": "Black coffee."}, {"trust": "external"}])
def test_an_entry_that_says_something_else_than_its_record_is_found(
    alice: User, fields: dict[str, str]
) -> None:
    changed = note(alice)
    Note.objects.filter(pk=changed.pk).update(**fields)  # past the record's own ways

    is_found_and_mended("search-words", "note: 1")
    assert asked("search-figures").state == GOOD


@pytest.mark.django_db(transaction=True)
def test_a_mend_waits_for_a_writer_and_indexes_what_it_wrote(alice: User) -> None:
    changed = note(alice)
    SearchEntry.objects.filter(record_id=changed.pk).delete()
    mended: list[str] = []

    def mend() -> None:
        mended.append(asked("search-entries", fix=True).mended)
        connection.close()

    with transaction.atomic():
        changed.change(by=alice.actor, content="Black coffee.")
        SearchEntry.objects.filter(record_id=changed.pk).delete()
        one = threading.Thread(target=mend)
        one.start()
        one.join(0.5)
        assert not mended  # it waits for the row
    one.join(20)

    assert mended == ["Indexed: 1. Taken out of the index: 0."]
    assert [hit.id for hit in recall(alice, "coffee")] == [changed.pk]
    assert asked("search-words").state == GOOD


# --- vectors --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fake")
def test_a_record_without_a_vector_waits_for_one_again(alice: User) -> None:
    made = embedded_note(alice, "the car")
    EmbeddingDue.objects.all().delete()

    is_found_and_mended("vectors", "wait for none: 1")
    embed_due()
    assert Embedding.objects.get().object_id == made.pk
    assert asked("vectors").state == GOOD


@pytest.mark.usefixtures("fake", "extension")
def test_a_vector_of_what_is_gone_goes_and_one_that_is_not_compared_comes_back(
    alice: User, fake: FakeEmbedder
) -> None:
    gone, stays = embedded_note(alice, "the car"), embedded_note(alice, "the garden")
    embed_due()
    Note.objects.filter(pk=gone.pk).delete()
    is_found_and_mended("vectors", "records that are gone: 1")
    assert Embedding.objects.get().object_id == stays.pk

    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM embedding_24")
    is_found_and_mended("vector-tables", "by their dimensions: 24")


def test_where_no_vectors_are_made_none_are_missed(alice: User) -> None:
    note(alice)

    found = asked("vectors")
    assert (found.state, "turned off" in found.said) == (GOOD, True)


# --- work that waits ------------------------------------------------------------------------------


def test_work_that_nobody_takes_up_is_told_and_what_is_fresh_or_done_is_not(alice: User) -> None:
    old = {"owner": alice, "created": timezone.now() - timedelta(hours=1)}
    Archive.objects.create(way="export", state="waiting", **old)
    Archive.objects.create(way="export", state="done", **old)
    PublishDue.objects.create(slug="tea", **old)
    PublishDue.objects.create(slug="rice", owner=alice)
    Reflection.objects.create(source="session:1", **old)
    assert asked("work", fix=True).mended == ""

    found = asked("work")
    assert found.state == WARN
    told = (
        "exports and imports: 1, finished work to look back on: 1, copies to publish in Redis: 1."
    )
    assert found.said.endswith(told)


# --- the command ----------------------------------------------------------------------------------


def alive() -> None:
    for kind in ("worker", "upkeep", "beat"):
        Worker.objects.create(name=f"{kind}@test", kind=kind, seen_at=timezone.now())


def test_the_command_explains_and_its_exit_code_says_whether_something_is_wrong(
    admin: User, capsys: Any
) -> None:
    alive()
    note(admin)
    SearchTerm.objects.filter(lexeme="uji").update(documents=9)

    said, code = told_by(capsys)
    assert code == 1
    assert "error    Search index: figures: The figures of 1 account's index" in said
    assert "why it matters: Recall, Ask" in said and "what to do: “manage.py doctor --fix”" in said
    said, code = told_by(capsys, "--fix")
    assert (code, "mended: The index of 1 account was made anew" in said) == (0, True)
    assert told_by(capsys, "--quick")[1] == 0


def test_a_program_is_told_the_same_as_json(admin: User, capsys: Any) -> None:
    alive()
    note(admin).trash(by=admin.actor)
    SearchSpace.objects.update(documents=5)

    said, code = told_by(capsys, "--json", "--quick")
    told = json.loads(said)
    states = {one["key"]: one["state"] for one in told["findings"]}
    assert (code, told["errors"], states["search-figures"]) == (1, 1, "error")
    assert states["worker"] == states["search-entries"] == "ok"
    assert "search-words" not in states


def test_a_beacon_that_is_stopped_is_no_error(admin: User, capsys: Any) -> None:
    said, code = told_by(capsys, "--quick")

    assert (code, "None of Beacon's processes runs" in said) == (0, True)
    assert "Never heard of" not in said


def test_a_beacon_off_the_network_without_a_key_is_no_error(
    admin: User, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive()
    names = tuple(one.name for one in CATALOGUE if one.usual)
    monkeypatch.setattr(connections, "USUAL", names)
    gone = [{"service": name, "problem": "It is away."} for name in names]
    run = make_run(make_topic(admin), saved=False)
    Step.objects.create(run=run, name="search", output={"asked": gone})

    said, code = told_by(capsys, "--quick")

    assert (code, "warning  Search services" in said) == (0, True)
    assert "Off the network there is nothing to do" in said


def test_what_cannot_be_looked_at_is_told_and_keeps_none_of_the_others(
    admin: User, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def broken() -> Any:
        raise RuntimeError("secret words")

    one = examining.Examination("broken", "Broken", "It breaks.", broken)
    monkeypatch.setattr(examining, "EXAMINATIONS", [one, *examining.EXAMINATIONS])
    said, code = told_by(capsys, "--quick")

    assert (code, "Broken: It could not be looked at (RuntimeError)" in said) == (1, True)
    assert "secret words" not in said and "Search index: entries" in said


def test_health_shows_what_the_doctor_found_last(
    admin: User, client_of: Callable[[User], Client]
) -> None:
    browser = client_of(admin)
    assert "It has not looked yet" in browser.get("/settings/health/").content.decode()
    alive()
    look_for_drift()
    assert "Found nothing that does not belong" in browser.get("/settings/health/").content.decode()
    note(admin)
    SearchSpace.objects.update(documents=5)
    look_for_drift()

    assert (
        "Found something about: Search index: figures"
        in browser.get("/settings/health/").content.decode()
    )
    assert not Activity.objects.filter(kind="doctor").exists()
