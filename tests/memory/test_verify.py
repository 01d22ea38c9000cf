"""Memory's invariants: raw SQL breaks each, `verify` reports exactly that one, and --fix repairs it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pgtrigger
import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client

from memory.accounts.archive import jobs
from memory.models import Embedding, LibraryDocument, MemoryFile, MirroredFile, Note, Revision, User
from memory.services.files import mirror
from memory.services.files.saving import save_file
from memory.services.notes.saving import write_note
from memory.services.search.bm25 import rebuild_owner
from memory.services.search.recall import recall
from memory.tasks import embed_due, verify
from research.models import Report
from tests.memory.embedding_cast import note as embedded_note
from tests.memory.test_archive_talk import carried
from tests.providers.fakes import FakeEmbedder
from tests.research.factories import make_fact, make_report, make_run, make_topic
from tests.verify_cast import _forget_the_result, broken, sql  # noqa: F401


@pytest.fixture
def owner(admin: User, bob: User) -> User:
    """An account with a note, a memory file, a document, a topic with a fact, and a report."""
    made = write_note(
        admin, "log", "Green tea from Uji.", by=admin.actor, ttl_days=30, stability="volatile"
    )
    made.change(by=admin.actor, content="Green tea from Kyoto.")
    write_note(admin, "log", "Rice.", by=admin.actor, ttl_days=30, stability="volatile").trash(
        by=admin.actor
    )
    save_file(admin, "facts/user.md", "# User\n\n- Tea: grün\n", by=admin.actor)
    LibraryDocument.objects.add(
        [LibraryDocument(owner=admin, title="Tea", text="On Uji.")], by=admin.actor
    )
    topic = make_topic(admin)
    run = make_run(topic)
    make_fact(topic, "Version 18 is out.", run)
    make_report(run)
    rebuild_owner(admin)
    return admin


def test_of_data_written_as_usual_every_invariant_holds(owner: User) -> None:
    assert broken() == {}


@pytest.mark.parametrize("own", [True, False])
def test_every_invariant_holds_after_an_import(
    owner: User, bob: User, tmp_path: Path, own: bool
) -> None:
    carried(owner, bob, tmp_path / "archive.zip", own=own)

    assert Note.objects.for_user(bob).get(content="Green tea from Kyoto.").version == 2
    assert broken() == {}


REPAIRED = {
    "a record without an entry": (
        "search-entries",
        "DELETE FROM memory_searchentry WHERE record_id = :note",
    ),
    "a document without an entry": (
        "search-entries",
        "DELETE FROM memory_searchentry WHERE record_id = (SELECT id FROM memory_librarydocument)",
    ),
    "an entry without a record": (
        "search-entries",
        "DELETE FROM memory_note WHERE id = :note",
    ),
    "a wrong frequency": (
        "search-counts",
        "UPDATE memory_searchterm SET documents = 7 WHERE lexeme = 'kyoto'",
    ),
    "bounds of a term that are too narrow": (
        "search-counts",
        "UPDATE memory_searchterm SET min_length = 99 WHERE lexeme = 'kyoto'",
    ),
    "a missing term": ("search-counts", "DELETE FROM memory_searchterm WHERE lexeme = 'kyoto'"),
    "a wrong number of documents": (
        "search-counts",
        (
            "UPDATE memory_searchspace SET documents = 99 WHERE record_type = 'note'"
            " AND id IN (SELECT space_id FROM memory_searchterm WHERE lexeme = 'kyoto')"
        ),
    ),
    "an entry with another trust": (
        "search-entries",
        "UPDATE memory_searchentry SET trust = 'external' WHERE record_id = :note",
    ),
    "an entry that isn't paused like its record": (
        "search-entries",
        "UPDATE memory_searchentry SET paused = true WHERE record_id = :note",
    ),
    "a wrong size": (
        "file-sizes",
        (
            "UPDATE memory_memoryfile SET size = 3 WHERE path = 'facts/user.md'"
            " AND content LIKE '%Tea%'"
        ),
    ),
    "a missing trigger": (
        "triggers",
        "DROP TRIGGER :append_only ON memory_revision",
    ),
    "a disabled trigger": (
        "triggers",
        "ALTER TABLE memory_revision DISABLE TRIGGER :append_only",
    ),
    "a trigger of another version": (
        "triggers",
        "COMMENT ON TRIGGER :append_only ON memory_revision IS 'other'",
    ),
}


def test_what_breaks_an_invariant_is_reported_and_repaired(owner: User) -> None:
    for what, (name, statement) in REPAIRED.items():
        with transaction.atomic():
            sql(statement)

            assert broken() == {name: 1}, what
            assert broken(fix=True) == {}, what
            assert broken() == {}, what
            transaction.set_rollback(True)


REPORTED = (
    ("admin", "UPDATE memory_user SET is_active = false WHERE is_staff"),
    (
        "owners",
        "UPDATE memory_topicfact SET owner_id = (SELECT id FROM memory_user WHERE NOT is_staff)",
    ),
    ("history", "UPDATE memory_note SET version = 1 WHERE content LIKE 'Green%'"),
    ("history", "UPDATE memory_note SET version = 4 WHERE content LIKE 'Green%'"),
    ("history", "UPDATE memory_topic SET title = 'Another title'"),
    (
        "history",  # version 3 is missing
        (
            "INSERT INTO memory_revision (owner_id, record_type, record_id, label, version, actor,"
            " reason, source, before, after, created) SELECT owner_id, record_type, record_id,"
            " label, 4, actor, reason, source, before, '{}', created FROM memory_revision"
            " WHERE record_id = :note AND version = 2;"
            " UPDATE memory_note SET version = 4 WHERE content LIKE 'Green%'"
        ),
    ),
    (
        "waiting-work",
        (
            "INSERT INTO memory_publishdue (slug, owner_id, created)"
            " SELECT 'tea', id, :old FROM memory_user WHERE is_staff"
        ),
    ),
)


def test_what_only_a_person_can_repair_is_reported_and_stays(owner: User) -> None:
    for name, statement in REPORTED:
        with transaction.atomic():
            sql(statement)
            if name == "owners":
                rebuild_owner(owner)
                rebuild_owner(User.objects.get(is_staff=False))

            assert broken(fix=True) == {name: 1}, statement
            transaction.set_rollback(True)


def test_after_the_repair_the_record_is_found_and_histories_are_protected(owner: User) -> None:
    sql("DROP TRIGGER :append_only ON memory_revision")
    sql("DELETE FROM memory_searchentry WHERE record_id = :note")
    assert not recall(owner, "Kyoto")

    broken(fix=True)

    assert recall(owner, "Kyoto")
    with pytest.raises(DatabaseError, match="append_only"), transaction.atomic():
        Revision.objects.update(reason="nothing happened")


@pytest.mark.usefixtures("fake", "extension")
def test_vectors_without_a_record_go_and_missing_ones_are_created(
    admin: User, fake: FakeEmbedder
) -> None:
    _gone, stays = embedded_note(admin, "the car"), embedded_note(admin, "the garden")
    rebuild_owner(admin)
    embed_due()
    assert broken() == {}

    sql("DELETE FROM memory_note WHERE content = 'the car'")
    assert broken() == {"search-entries": 1, "orphan-vectors": 1}
    assert broken(fix=True) == {}
    assert Embedding.objects.get().object_id == stays.pk

    sql("DELETE FROM memory_embedding")
    assert broken() == {"missing-vectors": 1}
    assert broken(fix=True) == {}
    embed_due()
    assert Embedding.objects.get().object_id == stays.pk


def test_without_an_embedder_no_vector_is_missing(owner: User) -> None:
    assert not Embedding.objects.exists()
    assert "missing-vectors" not in broken()


# --- files on disk --------------------------------------------------------------------------------


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    """A data folder of the test's own."""
    settings.DATA_DIR = tmp_path
    return tmp_path


def test_an_old_export_file_without_a_row_is_deleted(owner: User, folder: Path) -> None:
    row = jobs.perform(jobs.ask_export(owner).pk)
    assert row is not None
    names = ["00000000-0000-4000-8000-000000000000", "10000000-0000-4000-8000-000000000000"]
    old, fresh = (folder / "archives" / f"{name}.file" for name in names)
    other = folder / "archives/letter.file"
    for path in (old, fresh, other):
        path.write_text("x")
    for path in (old, other, row.file):
        os.utime(path, (time.time() - 7200,) * 2)

    assert broken() == {"leftover-files": 1}
    assert broken(fix=True) == {}
    assert [path.exists() for path in (old, fresh, other, row.file)] == [False, True, True, True]


@pytest.fixture
def mirrored(admin: User, folder: Path, settings: Any) -> Path:
    """The copy on disk of a memory file."""
    settings.BEACON_MIRROR_DIR = str(folder / "memory")
    save_file(admin, "facts/user.md", "# User\n\n- Tea: green\n", by=admin.actor)
    mirror.catch_up()
    return folder / "memory/facts/user.md"


@pytest.mark.django_db(transaction=True)
def test_a_copy_that_differs_although_its_stamp_does_not_is_written_again(mirrored: Path) -> None:
    assert broken() == {}
    MemoryFile.objects.filter(path="facts/user.md").update(content="# User\n\n- Tea: black\n")

    assert broken()["mirror"] == 1
    assert "mirror" not in broken(fix=True)
    assert mirrored.read_text() == "# User\n\n- Tea: black\n"


@pytest.mark.django_db(transaction=True)
def test_an_edit_on_disk_that_went_unnoticed_is_imported(mirrored: Path) -> None:
    mirrored.write_text("# User\n\n- Tea: white\n")
    os.utime(mirrored, (time.time() - 60,) * 2)
    stat = mirrored.stat()
    stamp = f"{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"
    MirroredFile.objects.filter(path="facts/user.md").update(stamp=stamp)

    assert broken() == {"mirror": 1}
    assert broken(fix=True) == {}
    assert "white" in MemoryFile.objects.get(path="facts/user.md").content


# --- the command, the daily check -----------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[str, int]:
    """Return the output of `verify`, and its exit code."""
    try:
        call_command("verify", *options)
    except SystemExit as ended:
        return capsys.readouterr().out, int(str(ended.code))
    return capsys.readouterr().out, 0


def test_the_command_says_what_is_wrong_what_to_do_and_what_it_fixed(
    owner: User, capsys: pytest.CaptureFixture[str]
) -> None:
    text, code = run(capsys)
    assert (code, text) == (0, "All 20 checks passed.\n")
    sql("UPDATE memory_memoryfile SET size = 3 WHERE content LIKE '%Tea%'")

    text, code = run(capsys)
    assert code == 1
    assert "file-sizes: 1 problem\n  Should be: The stored size of each memory file" in text
    assert "facts/user.md 3" in text
    assert "What to do: Run “manage.py verify --fix”" in text
    assert text.endswith("1 of 20 checks failed.\n")

    assert run(capsys, "--fix") == ("file-sizes: fixed 1\nAll 20 checks passed.\n", 0)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM django_migrations WHERE app = 'research'", "Migrations are missing"),
        (
            (
                "INSERT INTO django_migrations (app, name, applied)"
                " VALUES ('memory', '9999_later', now())"
            ),
            "A newer version of Beacon has changed this database. Unknown migrations: memory.9999_later.",
        ),
        (
            "ALTER TABLE memory_savedview RENAME COLUMN name TO gone",
            "All migrations have been applied, but columns are missing: memory_savedview.name.",
        ),
    ],
)
def test_data_in_tables_of_another_version_is_not_verified(
    db: None, statement: str, message: str
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)

    with pytest.raises(CommandError, match=message):
        call_command("verify")


def test_the_health_page_shows_what_the_daily_check_found(
    owner: User, client_of: Callable[[User], Client]
) -> None:
    def page() -> str:
        return str(client_of(owner).get("/settings/health/").content.decode())

    assert "Not verified yet." in page()
    verify()
    assert "Verified. No problems found." in page()
    sql("UPDATE memory_memoryfile SET size = 3 WHERE content LIKE '%Tea%'")
    verify()

    assert "Failed checks: file-sizes." in page()


def test_the_daily_check_keeps_what_a_full_check_found_of_histories(
    owner: User, client_of: Callable[[User], Client]
) -> None:
    def page() -> str:
        return str(client_of(owner).get("/settings/health/").content.decode())

    sql("UPDATE memory_topic SET title = 'Another title'")
    broken()
    verify()  # it doesn't read histories
    assert "Failed checks: history." in page()

    sql(
        "UPDATE memory_topic SET title = (SELECT after ->> 'title' FROM memory_revision"
        " WHERE record_id = memory_topic.id ORDER BY version DESC LIMIT 1)"
    )
    broken()
    verify()
    assert "Verified. No problems found." in page()


def test_every_trigger_is_checked(owner: User) -> None:
    for model, trigger in pgtrigger.registered():
        sql(f'DROP TRIGGER {trigger.get_pgid(model)} ON "{model._meta.db_table}"')

    assert broken() == {"triggers": len(list(pgtrigger.registered()))}
    assert Report.objects.count() == 1
