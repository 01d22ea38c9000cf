"""The doctor: each drift is found, explained, mended, and then gone."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from beacon_site.providers.fakes import FakeEmbedder
from memory.archive import jobs
from memory.checkup import BAD, GOOD, WARN
from memory.doctor import examining
from memory.files import mirror
from memory.files.saving import save_file
from memory.models import (
    Activity,
    Archive,
    CallReservation,
    Embedding,
    EmbeddingDue,
    LibraryDocument,
    MemoryFile,
    MirroredFile,
    Note,
    PublishDue,
    Reflection,
    SearchEntry,
    SearchSpace,
    SearchTerm,
    User,
)
from memory.notes import write_note
from memory.recall.recalling import recall
from memory.tasks import embed_due, look_for_drift
from research.models import Report, Worker
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


# --- the data folder ------------------------------------------------------------------------------


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """A data folder of the test's own."""
    settings.DATA_DIR = tmp_path
    return tmp_path


def test_a_file_of_an_export_that_no_row_knows_is_deleted_a_fresh_one_stays(
    alice: User, folder: Path
) -> None:
    row = jobs.carry_out(jobs.ask_export(alice).pk)
    assert row is not None
    names = ["0" * 8 + "-0000-4000-8000-" + "0" * 12, "1" * 8 + "-0000-4000-8000-" + "0" * 12]
    old, fresh = (folder / "archives" / f"{name}.file" for name in names)
    strange = folder / "archives/letter.file"
    for path in (old, fresh, strange):
        path.write_text("x")
    for path in (old, strange, row.file):
        os.utime(path, (time.time() - 7200,) * 2)

    is_found_and_mended("archive-files", "1 file of an export")
    assert (old.exists(), fresh.exists(), strange.exists(), row.has_file) == (
        False,
        True,
        True,
        True,
    )


def test_secrets_that_others_may_read_are_closed(db: None, folder: Path) -> None:
    (folder / "secret_key").write_text("s")
    (folder / "secret_key").chmod(0o644)
    (folder / "beacon.env").touch(mode=0o600)

    is_found_and_mended("private-files", "may read: secret_key.")
    assert (folder / "secret_key").stat().st_mode & 0o777 == 0o600


@pytest.mark.django_db(transaction=True)
def test_a_copy_that_differs_though_its_stamp_does_not_is_written_anew(
    alice: User, folder: Path, settings: Any
) -> None:
    settings.BEACON_MIRROR_DIR = str(folder / "memory")
    save_file(alice, "facts/user.md", "# User\n\n- Tea: green\n", by=alice.actor)
    mirror.catch_up()
    copy = folder / "memory/facts/user.md"
    MemoryFile.objects.filter(path="facts/user.md").update(content="# User\n\n- Tea: black\n")

    is_found_and_mended("mirror", "1 copy is not what is stored")
    assert copy.read_text() == "# User\n\n- Tea: black\n"


@pytest.mark.django_db(transaction=True)
def test_an_edit_on_disk_that_nobody_took_in_is_taken_in(
    alice: User, folder: Path, settings: Any
) -> None:
    settings.BEACON_MIRROR_DIR = str(folder / "memory")
    save_file(alice, "facts/user.md", "# User\n\n- Tea: green\n", by=alice.actor)
    mirror.catch_up()
    copy = folder / "memory/facts/user.md"
    copy.write_text("# User\n\n- Tea: white\n")
    os.utime(copy, (time.time() - 60,) * 2)
    told = copy.stat()
    stamp = f"{told.st_ino}:{told.st_size}:{told.st_mtime_ns}:{told.st_ctime_ns}"
    MirroredFile.objects.filter(path="facts/user.md").update(stamp=stamp)

    is_found_and_mended("mirror", "1 copy is not what is stored")
    assert "white" in MemoryFile.objects.get(path="facts/user.md").content


# --- how it is set up -----------------------------------------------------------------------------


def test_migrations_that_are_due_or_of_a_newer_version_are_told(db: None) -> None:
    assert asked("migrations").state == GOOD
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) VALUES ('memory', '9999_later', now())"
        )
        assert "newer version: it has memory.9999_later" in asked("migrations").said
        cursor.execute("DELETE FROM django_migrations WHERE app = 'research'")
    found = asked("migrations", fix=True)
    assert (found.state, found.mended) == (BAD, "")
    assert "Not applied yet: research.0001_initial" in found.said
    looked = [one.key for one in examining.look_for_drift()]
    assert looked == ["migrations"]  # nothing else can be looked at on tables that are not there


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"BEACON_BIND": "0.0.0.0"}, "beyond this machine without TLS"),
        ({"BEACON_HTTPS": True}, "BEACON_ENV is local"),
        ({"BEACON_BIND": "0.0.0.0", "BEACON_TRUST_PROXY": True}, "whoever reaches Beacon without"),
        ({"ALLOWED_HOSTS": ["*"]}, "lets any host name in"),
        ({"SECRET_KEY": "short"}, "SECRET_KEY is short"),
        ({"PRODUCTION": True, "SESSION_COOKIE_SECURE": False}, "SESSION_COOKIE_SECURE"),
    ],
)
def test_settings_that_open_a_door_are_named(
    admin: User, settings: Any, fields: dict[str, Any], said: str
) -> None:
    assert asked("settings").state == GOOD
    for name, value in fields.items():
        setattr(settings, name, value)

    found = asked("settings")
    assert (found.state, said in found.said) == (WARN, True), found.said


def test_accounts_of_which_none_may_manage_the_site_are_told(alice: User) -> None:
    assert "No account that is open may manage" in asked("settings").said


def test_versions_are_told_also_without_redis(db: None, settings: Any) -> None:
    assert "Django 5.2" in asked("versions").said
    assert "no Redis" not in asked("versions").said
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert "no Redis" in asked("versions").said


def test_what_a_dead_process_reserved_is_given_back_and_what_is_under_way_stays(
    alice: User,
) -> None:
    old = timezone.now() - timedelta(minutes=20)
    CallReservation.objects.create(owner=alice, source="run:1", tokens=9, created=old)
    CallReservation.objects.create(owner=alice, source="run:2", tokens=9)

    is_found_and_mended("reservations", "1 call of a model is still reserved")
    assert CallReservation.objects.get().source == "run:2"


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
