"""The watched folder of the library: taken in, changed, gone, closed, and found beside own documents."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from beacon_site.net.errors import ProviderUnavailable
from beacon_site.providers.search.base import SearchOptions
from memory.models import LibraryDocument, LibraryFolder, Revision
from memory.models.actors import Actor
from memory.services.library import documents as library_services
from memory.services.library import folder as library_folder
from memory.services.library.folder import scan_folder
from memory.services.library.reading import DocumentText, read_document
from memory.tasks import scan_library_folder

TEXT = "# Solid-state batteries\n\nThe pilot line in Lanling started.\nIt makes ten cells a day.\n"


@pytest.fixture
def folder(tmp_path: Path, settings: Any, admin: Any) -> Path:
    """The watched folder, with a document in it."""
    settings.BEACON_LIBRARY_DIR = str(tmp_path)
    (tmp_path / "pilot.md").write_text(TEXT)
    return tmp_path


def asked(user: Any, query: str, **options: Any) -> list[str]:
    hits = library_services.LibrarySearch(user).search(query, SearchOptions(**options))
    return [hit.title for hit in hits]


def test_a_watched_folder_is_imported_before_a_search(folder: Path, bob: Any) -> None:
    assert asked(bob, "pilot line") == ["Solid-state batteries"]
    hit = library_services.LibrarySearch(bob).search("pilot", SearchOptions())[0]
    assert "Lanling" in library_services.text_of(bob, hit.url).text


def test_a_folder_is_checked_once_a_minute(folder: Path, bob: Any) -> None:
    asked(bob, "pilot")
    (folder / "late.md").write_text("unicorns")
    assert asked(bob, "unicorns") == []
    LibraryFolder.objects.update(checked_at="2020-01-01T00:00Z")
    assert asked(bob, "unicorns") == ["late"]


def test_the_task_looks_at_the_folder_whenever_it_is_sent(folder: Path, bob: Any) -> None:
    scan_library_folder()
    (folder / "late.md").write_text("unicorns")
    scan_library_folder()
    assert asked(bob, "unicorns") == ["late"]
    assert LibraryFolder.objects.get().files == 2


def test_a_second_look_reads_only_what_changed(folder: Path, admin: Any) -> None:
    for number in range(120):
        (folder / f"{number}.txt").write_text(f"number {number}")
    assert scan_folder(admin, folder)["added"] == 121
    (folder / "7.txt").write_text("a word that was not there")
    os.utime(folder / "8.txt", (1, 1))
    done = scan_folder(admin, folder)
    assert (done["changed"], done["unchanged"], done["added"]) == (1, 120, 0)


def test_a_changed_file_is_a_new_version_a_touched_one_is_not(folder: Path, admin: Any) -> None:
    scan_folder(admin, folder)
    before = LibraryDocument.objects.get().address
    os.utime(folder / "pilot.md", (1, 1))
    scan_folder(admin, folder)
    assert LibraryDocument.objects.get().address == before
    (folder / "pilot.md").write_text("other words")
    scan_folder(admin, folder)
    document = LibraryDocument.objects.get()
    assert document.version == 2
    change = Revision.objects.filter(record_id=document.pk).latest("id")
    assert "text" in change.after and "trashed_at" not in change.after
    unchanged = [name for name in change.after if change.before[name] == change.after[name]]
    assert unchanged == []


def test_a_file_that_is_gone_goes_to_the_trash_and_is_restored(folder: Path, admin: Any) -> None:
    scan_folder(admin, folder)
    (folder / "pilot.md").rename(folder / "moved.bin")
    assert scan_folder(admin, folder)["gone"] == 1
    assert not LibraryDocument.objects.live().exists()
    (folder / "moved.bin").rename(folder / "pilot.md")
    scan_folder(admin, folder)
    assert LibraryDocument.objects.live().count() == LibraryDocument.objects.count() == 1
    back = Revision.objects.filter(record_id=LibraryDocument.objects.get().pk).latest("id")
    assert "trashed_at" in back.after and back.after["trashed_at"] is None


def test_a_renamed_file_stays_the_same_document_even_if_it_was_edited(
    folder: Path, admin: Any
) -> None:
    rules = "The pilot line in Lanling runs at night. Each run is logged by two people. "
    (folder / "pilot.md").write_text(f"# Pilot line\n\n{rules}It may be stopped at any time.\n")
    scan_folder(admin, folder)
    document = LibraryDocument.objects.get()
    (folder / "archive").mkdir()
    (folder / "pilot.md").rename(folder / "archive/line.md")
    assert scan_folder(admin, folder)["gone"] == 0
    (folder / "archive/line.md").unlink()
    (folder / "line.md").write_text(f"# Pilot line\n\n{rules}It was stopped in May.\n")
    assert scan_folder(admin, folder)["added"] == 0

    assert LibraryDocument.objects.get() == document
    document.refresh_from_db()
    assert (document.path, document.trashed_at) == ("line.md", None)
    assert "stopped in May" in document.text

    (folder / "line.md").unlink()
    (folder / "menu.md").write_text(
        "# Menu\n\nSoup on Monday, pasta on Tuesday and fish on Friday.\n"
    )
    done = scan_folder(admin, folder)
    assert (done["added"], done["gone"]) == (1, 1)


def test_a_folder_that_is_not_there_trashes_nothing_and_says_so(
    folder: Path, bob: Any, settings: Any
) -> None:
    scan_library_folder()
    settings.BEACON_LIBRARY_DIR = str(folder / "unmounted")
    scan_library_folder()
    assert asked(bob, "pilot") == ["Solid-state batteries"]
    assert "couldn’t be read" in LibraryFolder.objects.get().problem


def test_hidden_files_and_links_out_of_the_folder_are_not_taken_in(
    folder: Path, admin: Any, tmp_path_factory: Any
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.md"
    outside.write_text("secret")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "a.md").write_text("hidden")
    (folder / "link.md").symlink_to(outside)
    (folder / "folder").symlink_to(outside.parent, target_is_directory=True)
    (folder / "ring.md").symlink_to(folder / "ring.md")
    (folder / "inside.md").symlink_to(folder / "pilot.md")
    scan_folder(admin, folder)
    assert set(LibraryDocument.objects.values_list("path", flat=True)) == {"pilot.md", "inside.md"}


def test_a_readme_without_an_ending_is_imported_by_its_folders_name(
    folder: Path, admin: Any
) -> None:
    (folder / "wheel").mkdir()
    (folder / "wheel" / "README").write_text("how it turns")
    scan_folder(admin, folder)
    assert LibraryDocument.objects.get(path="wheel/README").title == "wheel: README"


def test_what_isnt_text_or_too_large_is_listed_with_its_problem(folder: Path, admin: Any) -> None:
    (folder / "binary.txt").write_bytes(b"\x7fELF\x00\x00" * 40)
    (folder / "large.md").write_bytes(b"word " * (1024 * 1024 + 100))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "zoneinfo").write_bytes(b"TZif")
    assert scan_folder(admin, folder)["skipped"] == 2
    problems = dict(LibraryDocument.objects.exclude(problem="").values_list("path", "problem"))
    assert set(problems) == {"binary.txt", "large.md", "broken.pdf"}
    assert "5 MiB" in problems["large.md"]


@pytest.mark.parametrize("unreadable", ["inner", ""])
def test_a_folder_that_is_closed_for_a_while_trashes_nothing(
    folder: Path, admin: Any, monkeypatch: pytest.MonkeyPatch, unreadable: str
) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "a.md").write_text("unicorn")
    scan_folder(admin, folder)
    scandir = os.scandir

    def closed(path: Path) -> Any:
        if path == folder / unreadable:  # chmod would not do: root reads everything
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("memory.services.library.folder.os.scandir", closed)
    assert scan_folder(admin, folder)["gone"] == 0


def test_a_file_that_cannot_be_read_for_a_while_stays(
    folder: Path, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "b.md").write_text("unicorn")
    scan_folder(admin, folder)
    stat_of = library_folder._stat_of

    def failing(root: Path, entry: Any, path: str) -> Any:
        if path == "b.md":
            raise OSError(5, "Input/output error")
        return stat_of(root, entry, path)

    monkeypatch.setattr(library_folder, "_stat_of", failing)
    assert scan_folder(admin, folder)["gone"] == 0


def test_of_too_many_files_those_that_were_not_looked_for_stay(
    folder: Path, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("b.md", "c.md"):
        (folder / name).write_text(name)
    assert scan_folder(admin, folder)["added"] == 3

    monkeypatch.setattr(library_folder, "MAX_FILES", 2)
    (folder / "a.md").write_text("a")
    done = scan_folder(admin, folder)

    assert (done["added"], done["unchanged"], done["gone"]) == (1, 1, 0)
    live = LibraryDocument.objects.live().values_list("path", flat=True)
    assert sorted(live) == ["a.md", "b.md", "c.md", "pilot.md"]


def test_without_time_the_rest_is_left_to_the_next_look(folder: Path, admin: Any) -> None:
    assert scan_folder(admin, folder, seconds=-1)["remaining"] == 1
    assert scan_folder(admin, folder)["added"] == 1


def test_a_renamed_file_that_a_scan_had_no_time_for_is_recognized_by_the_next(
    folder: Path, bob: Any
) -> None:
    library_folder.scan_if_due(every=0)
    document = LibraryDocument.objects.get()
    (folder / "pilot.md").rename(folder / "line.md")
    (folder / "menu.md").write_text("Soup on Monday and pasta on Tuesday.")

    library_folder.scan_if_due(every=0, seconds=-1)
    document.refresh_from_db()
    assert (document.path, document.trashed_at) == ("pilot.md", None)

    library_folder.scan_if_due(every=0)
    document.refresh_from_db()
    assert (document.path, document.trashed_at) == ("line.md", None)
    assert LibraryDocument.objects.count() == 2


def test_a_deleted_file_goes_to_the_trash_if_the_scans_never_finish(
    folder: Path, bob: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    library_folder.scan_if_due(every=0)
    document = LibraryDocument.objects.get()
    (folder / "pilot.md").unlink()
    (folder / "a.md").write_text("The menu of Monday.")
    (folder / "b.pdf").write_text("unread")
    (folder / "c.pdf").write_text("unread")
    trashed = []
    for seconds in (-1, 60, 60):
        library_folder.scan_if_due(every=0, seconds=seconds)
        document.refresh_from_db()
        trashed.append((LibraryFolder.objects.get().remaining, document.trashed_at is not None))
        monkeypatch.setattr(library_folder, "_read", read_without_pdf)

    # The second scan left fewer files than the first, and the third no fewer than the second.
    assert trashed == [(3, False), (2, False), (2, True)]


def read_without_pdf(root: Path, path: str) -> DocumentText:
    if path.endswith(".pdf"):
        raise ProviderUnavailable("The reader can't be started.")
    return read_document(path, (root / path).read_bytes())


def test_a_file_that_only_changed_keeps_no_deleted_one_out_of_the_trash(
    folder: Path, admin: Any
) -> None:
    (folder / "plan.md").write_text("plan")
    scan_folder(admin, folder)
    (folder / "pilot.md").unlink()
    (folder / "plan.md").write_text("another plan")

    done = scan_folder(admin, folder, seconds=-1)
    assert (done["remaining"], done["gone"]) == (1, 1)


def test_a_process_without_the_folder_s_variable_takes_it_from_no_one(
    folder: Path, bob: Any, settings: Any
) -> None:
    assert asked(bob, "pilot")
    settings.BEACON_LIBRARY_DIR = ""

    scan_library_folder()

    assert asked(bob, "pilot") == ["Solid-state batteries"]


def test_a_folder_that_is_watched_no_longer_is_found_no_longer_and_is_restored_as_it_was(
    folder: Path, bob: Any, settings: Any
) -> None:
    assert asked(bob, "pilot")
    address = LibraryDocument.objects.get().address
    LibraryFolder.objects.update(checked_at=timezone.now() - timedelta(days=2))
    settings.BEACON_LIBRARY_DIR = ""
    scan_library_folder()
    assert asked(bob, "pilot") == []

    settings.BEACON_LIBRARY_DIR = str(folder)
    assert asked(bob, "pilot") == ["Solid-state batteries"]
    assert LibraryDocument.objects.get().address == address  # the same words: nothing new to read


def test_if_a_folder_is_named_like_the_topic_others_need_more_of_its_words(
    folder: Path, bob: Any
) -> None:
    for path in ("tram-release-notes/2027.md", "ferries/plan.md"):
        (folder / path).parent.mkdir()
        (folder / path).write_text("# Plan\n\nThe release is near, and the notes say why.\n")

    assert asked(bob, "release notes", about="Tram release notes") == ["Plan"]


def test_a_document_that_begins_with_a_summary_is_called_as_its_file(
    folder: Path, bob: Any
) -> None:
    (folder / "0007-night-trams.md").write_text("# Summary\n\nNight trams run on all lines.\n")

    assert asked(bob, "night trams") == ["0007-night-trams"]


def test_a_document_is_found_by_the_name_of_its_folder(folder: Path, bob: Any) -> None:
    for place in ("tram-works/source", "ferries"):
        (folder / place).mkdir(parents=True)
        (folder / place / "news.md").write_text("# News\n\nThe workshop is open again.\n")

    assert asked(bob, "tram workshop", about="tram works")[0] == "tram-works: News"
    assert asked(bob, "workshop", about="ferries") == ["ferries: News"]


def test_own_documents_and_the_folders_are_merged_by_score(folder: Path, alice: Any) -> None:
    scan_library_folder()
    library_services.add_document(alice, text="pilot pilot pilot line", by=Actor("human", "alice"))
    found = library_services.find(alice, "pilot line Lanling")
    assert len(found) == 2
    assert found == sorted(found, key=lambda one: -one[2])


@pytest.mark.django_db(transaction=True)
def test_searches_at_once_look_at_the_folder_once(folder: Path, bob: Any) -> None:
    for number in range(60):
        (folder / f"{number}.txt").write_text(f"pilot number {number}")
    found: list[int] = []

    def search() -> None:
        found.append(len(asked(bob, "pilot", limit=100)))
        connection.close()

    threads = [threading.Thread(target=search) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [61] * 4
    assert Revision.objects.filter(record_type="librarydocument").count() == 61
