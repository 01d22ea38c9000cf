"""The library: documents added, a watched folder, and a search service over both."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.utils import timezone

from beacon_site.providers.errors import ProviderRejected
from beacon_site.providers.search import SearchOptions
from memory import library
from memory.actors import Actor
from memory.errors import InvalidValue
from memory.library_folder import take_in_folder
from memory.models import LibraryDocument, LibraryFolder, Revision
from memory.tasks import take_in_library
from tests.providers.pdf import pdf

TEXT = "# Solid-state batteries\n\nThe pilot line in Lanling started.\nIt makes ten cells a day.\n"
PDF = pdf("The kilowatt price fell by nine percent in May.")
HTML = (
    "<html><head><title>Voices</title></head><body><article><h1>Voices</h1>"
    + "<p>Critics say that the new cells cost three times as much as promised in spring.</p>" * 5
    + "<script>alert('no')</script></article></body></html>"
)


@pytest.fixture
def folder(tmp_path: Path, settings: Any, admin: Any) -> Path:
    """The watched folder, with a document in it."""
    settings.BEACON_LIBRARY_DIR = str(tmp_path)
    (tmp_path / "pilot.md").write_text(TEXT)
    return tmp_path


@pytest.fixture
def document(alice: Any) -> LibraryDocument:
    return library.add_document(alice, text=TEXT, by=alice.actor)


def asked(user: Any, query: str, **options: Any) -> list[str]:
    hits = library.library_search(user).search(query, SearchOptions(**options))
    return [hit.title for hit in hits]


def test_a_hit_says_where_it_is_what_it_says_and_of_when(alice: Any, document: Any) -> None:
    (hit,) = library.library_search(alice).search("cells per day", SearchOptions())
    assert (hit.url, hit.service, hit.rank) == (f"library:{document.pk}/1", "library", 1)
    assert hit.title == "Solid-state batteries"
    assert "ten cells a day" in hit.snippet
    assert hit.published_at == timezone.now().date()


def test_the_text_behind_a_hit_is_read_without_its_line_breaks(alice: Any, document: Any) -> None:
    page = library.text_of(alice, document.address)
    assert "The pilot line in Lanling started. It makes ten cells a day." in page.text
    assert (page.title, page.url) == ("Solid-state batteries", document.address)


def test_an_older_version_is_read_as_it_was(alice: Any, document: Any) -> None:
    first = document.address
    document.change(by=alice.actor, text="changed once")
    document.change(by=alice.actor, text="changed twice")
    assert "pilot line" in library.text_of(alice, first).text
    assert library.text_of(alice, f"library:{document.pk}/2").text == "changed once"
    assert library.text_of(alice, document.address).text == "changed twice"


@pytest.mark.parametrize(
    "address", ["library:x/1", "library:00000000-0000-0000-0000-000000000000/1", "http://a.b/", ""]
)
def test_a_document_that_is_not_there_is_rejected(alice: Any, address: str) -> None:
    with pytest.raises(ProviderRejected):
        library.text_of(alice, address)


def test_what_is_in_the_trash_is_neither_found_nor_read_and_comes_back(
    alice: Any, document: Any
) -> None:
    document.trash(by=alice.actor)
    assert asked(alice, "pilot line") == []
    with pytest.raises(ProviderRejected, match="not in the library any more"):
        library.text_of(alice, document.address)
    document.restore(by=alice.actor)
    assert asked(alice, "pilot line") == ["Solid-state batteries"]


def test_an_edit_reaches_the_search_at_once(alice: Any, document: Any) -> None:
    document.rewrite(title="New", text="unicorns", by=alice.actor, expected_version=1)
    assert asked(alice, "unicorn") == ["New"]
    assert asked(alice, "pilot") == []


def test_a_purged_document_leaves_nothing(alice: Any, document: Any) -> None:
    document.purge(by=alice.actor)
    assert asked(alice, "pilot") == []
    assert not Revision.objects.filter(record_id=document.pk).exists()


def test_nobody_finds_or_reads_another_persons_documents(bob: Any, document: Any) -> None:
    assert asked(bob, "pilot line") == []
    with pytest.raises(ProviderRejected):
        library.text_of(bob, document.address)


@pytest.mark.parametrize("query", ["", "!!!", "💥", "'", "\\", "a & (b", "x" * 5000])
def test_no_query_is_an_error(alice: Any, document: Any, query: str) -> None:
    assert asked(alice, query) == []


def test_chinese_documents_are_found_by_chinese_words(alice: Any) -> None:
    for path in sorted(Path(__file__).parents[1].glob("data/chinese/batch1/*.md")):
        library.add_document(alice, text=path.read_text(), by=alice.actor)
    assert len(asked(alice, "固态电池 试产线")) >= 2


def test_documents_older_than_the_time_frame_are_left_out(alice: Any, document: Any) -> None:
    LibraryDocument.objects.update(updated="2020-01-01T00:00Z")
    assert asked(alice, "pilot", since=date(2021, 1, 1)) == []
    assert len(asked(alice, "pilot", since=date(2019, 1, 1))) == 1


def test_sensitive_documents_are_kept_out_of_research(alice: Any, document: Any) -> None:
    document.change(by=alice.actor, sensitivity="sensitive")
    assert asked(alice, "pilot") == []
    assert len(library.find(alice, "pilot")) == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.pdf", PDF, "kilowatt price"),
        ("a.html", HTML.encode(), "three times as much"),
        ("a.txt", "Grüße aus Köln".encode("latin-1"), "Köln"),
        ("a.md", b"\xef\xbb\xbf# Heading\r\nwith a mark", "Heading"),
    ],
)
def test_a_file_is_read_by_its_kind(alice: Any, name: str, content: bytes, words: str) -> None:
    made = library.add_document(alice, file=SimpleUploadedFile(name, content), by=alice.actor)
    assert words in made.text
    assert "alert" not in made.text


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.txt", b"\x00\x01\x02" * 99, "not text"),
        ("a.txt", b"  \n ", "empty"),
        ("a.pdf", b"%PDF-1.4 broken", "damaged"),
        ("a.png", b"\x89PNG", "not read"),
        ("a.md", b"x" * (5 * 1024 * 1024 + 1), "larger than 5 MiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(
    alice: Any, name: str, content: bytes, why: str
) -> None:
    with pytest.raises(InvalidValue, match=why):
        library.add_document(alice, file=SimpleUploadedFile(name, content), by=alice.actor)
    assert not LibraryDocument.objects.exists()


def test_the_same_document_is_not_added_twice(alice: Any, document: Any) -> None:
    with pytest.raises(InvalidValue, match="already"):
        library.add_document(alice, text=TEXT, by=alice.actor)


@pytest.mark.django_db(transaction=True)
def test_of_five_who_add_one_document_at_once_one_succeeds(alice: Any) -> None:
    def add(_n: int) -> bool:
        try:
            library.add_document(alice, text="# Twin\n\nThe same.", by=alice.actor)
        except InvalidValue:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(add, range(5))) == 1
    assert LibraryDocument.objects.count() == 1


def test_a_watched_folder_is_taken_in_before_a_search(folder: Path, bob: Any) -> None:
    assert asked(bob, "pilot line") == ["Solid-state batteries"]
    hit = library.library_search(bob).search("pilot", SearchOptions())[0]
    assert "Lanling" in library.text_of(bob, hit.url).text


def test_a_folder_is_looked_at_once_a_minute(folder: Path, bob: Any) -> None:
    asked(bob, "pilot")
    (folder / "late.md").write_text("unicorns")
    assert asked(bob, "unicorns") == []
    LibraryFolder.objects.update(checked_at="2020-01-01T00:00Z")
    assert asked(bob, "unicorns") == ["late"]


def test_the_task_looks_at_the_folder_whenever_it_is_sent(folder: Path, bob: Any) -> None:
    take_in_library()
    (folder / "late.md").write_text("unicorns")
    take_in_library()
    assert asked(bob, "unicorns") == ["late"]
    assert LibraryFolder.objects.get().files == 2


def test_a_second_look_reads_only_what_changed(folder: Path, admin: Any) -> None:
    for number in range(120):
        (folder / f"{number}.txt").write_text(f"number {number}")
    assert take_in_folder(admin, folder).added == 121
    (folder / "7.txt").write_text("a word that was not there")
    os.utime(folder / "8.txt", (1, 1))
    done = take_in_folder(admin, folder)
    assert (done.changed, done.unchanged, done.added) == (1, 120, 0)


def test_a_changed_file_is_a_new_version_a_touched_one_is_not(folder: Path, admin: Any) -> None:
    take_in_folder(admin, folder)
    before = LibraryDocument.objects.get().address
    os.utime(folder / "pilot.md", (1, 1))
    take_in_folder(admin, folder)
    assert LibraryDocument.objects.get().address == before
    (folder / "pilot.md").write_text("other words")
    take_in_folder(admin, folder)
    assert LibraryDocument.objects.get().version == 2


def test_a_file_that_is_gone_goes_to_the_trash_and_comes_back(folder: Path, admin: Any) -> None:
    take_in_folder(admin, folder)
    (folder / "pilot.md").rename(folder / "moved.bin")
    assert take_in_folder(admin, folder).gone == 1
    assert not LibraryDocument.objects.live().exists()
    (folder / "moved.bin").rename(folder / "pilot.md")
    take_in_folder(admin, folder)
    assert LibraryDocument.objects.live().count() == LibraryDocument.objects.count() == 1


def test_a_folder_that_is_not_there_trashes_nothing_and_says_so(
    folder: Path, bob: Any, settings: Any
) -> None:
    take_in_library()
    settings.BEACON_LIBRARY_DIR = str(folder / "unmounted")
    take_in_library()
    assert asked(bob, "pilot") == ["Solid-state batteries"]
    assert "could not be read" in LibraryFolder.objects.get().problem


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
    take_in_folder(admin, folder)
    assert set(LibraryDocument.objects.values_list("path", flat=True)) == {"pilot.md", "inside.md"}


def test_a_readme_without_an_ending_is_taken_in_by_its_folders_name(
    folder: Path, admin: Any
) -> None:
    (folder / "wheel").mkdir()
    (folder / "wheel" / "README").write_text("how it turns")
    take_in_folder(admin, folder)
    assert LibraryDocument.objects.get(path="wheel/README").title == "wheel: README"


def test_what_is_no_text_or_too_large_is_listed_with_its_problem(folder: Path, admin: Any) -> None:
    (folder / "binary.txt").write_bytes(b"\x7fELF\x00\x00" * 40)
    (folder / "large.md").write_bytes(b"word " * (1024 * 1024 + 100))
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    (folder / "zoneinfo").write_bytes(b"TZif")
    assert take_in_folder(admin, folder).skipped == 2
    problems = dict(LibraryDocument.objects.exclude(problem="").values_list("path", "problem"))
    assert set(problems) == {"binary.txt", "large.md", "broken.pdf"}
    assert "5 MiB" in problems["large.md"]


def test_a_folder_that_is_closed_for_a_while_trashes_nothing(
    folder: Path, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "inner").mkdir()
    (folder / "inner" / "a.md").write_text("unicorn")
    take_in_folder(admin, folder)
    scandir = os.scandir

    def closed(path: Path) -> Any:
        if path.name == "inner":  # chmod would not do: root reads everything
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("memory.library_folder.os.scandir", closed)
    assert take_in_folder(admin, folder).gone == 0


def test_without_time_the_rest_is_left_to_the_next_look(folder: Path, admin: Any) -> None:
    assert take_in_folder(admin, folder, seconds=-1).left == 1
    assert take_in_folder(admin, folder).added == 1


def test_a_process_without_the_folder_s_variable_takes_it_from_nobody(
    folder: Path, bob: Any, settings: Any
) -> None:
    assert asked(bob, "pilot")
    settings.BEACON_LIBRARY_DIR = ""

    take_in_library()

    assert asked(bob, "pilot") == ["Solid-state batteries"]


def test_a_folder_that_is_watched_no_longer_is_found_no_longer_and_comes_back_as_it_was(
    folder: Path, bob: Any, settings: Any
) -> None:
    assert asked(bob, "pilot")
    address = LibraryDocument.objects.get().address
    LibraryFolder.objects.update(checked_at=timezone.now() - timedelta(days=2))
    settings.BEACON_LIBRARY_DIR = ""
    take_in_library()
    assert asked(bob, "pilot") == []

    settings.BEACON_LIBRARY_DIR = str(folder)
    assert asked(bob, "pilot") == ["Solid-state batteries"]
    assert LibraryDocument.objects.get().address == address  # the same words: nothing new to read


def test_own_documents_and_the_folders_are_merged_by_score(folder: Path, alice: Any) -> None:
    take_in_library()
    library.add_document(alice, text="pilot pilot pilot line", by=Actor("human", "alice"))
    found = library.find(alice, "pilot line Lanling")
    assert len(found) == 2
    assert found == sorted(found, key=lambda one: -one.score)


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


def test_a_hits_address_leads_to_its_page(document: Any) -> None:
    assert library.link_of(document.address) == f"/library/{document.pk}/"
    assert library.link_of("https://a.example/") == ""


def _add(alice: Any, *texts: str) -> None:
    for text in texts:
        library.add_document(alice, text=text, by=alice.actor)


def test_a_run_gets_documents_about_its_topic_not_about_how_it_asks(alice: Any) -> None:
    _add(alice, "# Criticism\n\nCriticism of problems, and problems of criticism.", TEXT)
    query = "solid-state batteries criticism problems"
    assert "Criticism" in asked(alice, query)
    assert asked(alice, query, about="Solid-state batteries") == ["Solid-state batteries"]


def test_a_document_that_holds_the_topics_words_far_apart_is_about_something_else(
    alice: Any,
) -> None:
    _add(alice, f"# Manual\n\nSolid walls. {'Of other things. ' * 100} State of batteries.", TEXT)
    assert asked(alice, "batteries", about="solid batteries cells") == ["Solid-state batteries"]


def test_a_topic_that_no_document_names_is_searched_by_the_querys_words(alice: Any) -> None:
    _add(alice, TEXT)
    assert asked(alice, "pilot line", about="My first topic") == ["Solid-state batteries"]


def test_what_came_since_the_last_run_is_not_hidden_behind_what_is_known(alice: Any) -> None:
    _add(alice, *(f"# Known {n}\n\nbatteries batteries batteries {n}" for n in range(3)))
    last = timezone.now()
    _add(alice, "# New\n\nA word on batteries among many other words that say little of them.")
    assert "New" not in asked(alice, "batteries", limit=1, about="batteries")
    assert "New" in asked(alice, "batteries", limit=1, about="batteries", last_asked=last)


def test_a_readme_is_named_by_its_folder_unless_its_title_does(folder: Path, bob: Any) -> None:
    for name, title in (("celery", "Donations"), ("psycopg", "Psycopg 3")):
        (folder / name).mkdir()
        (folder / name / "README.md").write_text(f"# {title}\n\nA queue of pools.\n")
    assert set(asked(bob, "queue of pools")) == {"celery: Donations", "Psycopg 3"}
