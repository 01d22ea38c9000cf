"""The library: documents added, and a search service over them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.utils import timezone

from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.search.base import SearchOptions
from memory.models import LibraryDocument, Revision
from memory.models.errors import InvalidValue
from memory.services.library import documents as library_services
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
    return library_services.add_document(alice, text=TEXT, by=alice.actor)


def asked(user: Any, query: str, **options: Any) -> list[str]:
    hits = library_services.LibrarySearch(user).search(query, SearchOptions(**options))
    return [hit.title for hit in hits]


def test_a_hit_says_where_it_is_what_it_says_and_of_when(alice: Any, document: Any) -> None:
    (hit,) = library_services.LibrarySearch(alice).search("cells per day", SearchOptions())
    assert (hit.url, hit.service, hit.rank) == (f"library:{document.pk}/1", "library", 1)
    assert hit.title == "Solid-state batteries"
    assert "ten cells a day" in hit.snippet
    assert hit.published_at == timezone.now().date()


def test_the_text_behind_a_hit_is_read_without_its_line_breaks(alice: Any, document: Any) -> None:
    page = library_services.text_of(alice, document.address)
    assert "The pilot line in Lanling started. It makes ten cells a day." in page.text
    assert (page.title, page.url) == ("Solid-state batteries", document.address)


def test_data_and_latex_keep_their_line_breaks(alice: Any) -> None:
    for text in (
        "line,opens\nT1,2027\nT2,2028",
        "\\section{Trams}\n% not now\n\\section{Buses}\n\\item a",
    ):
        document = library_services.add_document(alice, text=text, by=alice.actor)
        assert library_services.text_of(alice, document.address).text == text


def test_front_matter_stays_above_the_text(alice: Any) -> None:
    text = "---\ntitle: Trams\nstatus: Open\n---\n\nThe tram\nopens."
    document = library_services.add_document(alice, text=text, by=alice.actor)

    page = library_services.text_of(alice, document.address)
    assert page.title == "Trams"
    assert page.text == "---\ntitle: Trams\nstatus: Open\n---\n\nThe tram opens."


@pytest.mark.requirement("R409")
@pytest.mark.parametrize(
    "name",
    ["lines.csv", "plan.ICS", "paper.tex", "rules.adoc", "notes.org", "a.json", "b.yaml", "c.yml"],
)
def test_data_and_other_markup_can_be_added(alice: Any, name: str) -> None:
    upload = SimpleUploadedFile(name, b"line,opens\nT1,2027\n")
    document = library_services.add_document(alice, file=upload, by=alice.actor)

    assert (document.problem, document.media_type) == ("", "text/plain")


@pytest.mark.requirement("R409")
@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("talks.md", '<h1 class="big">Call for <b>talks</b></h1>\n\nIt is open.', "Call for talks"),
        ("limits.mdx", '---\ntitle: "Limits"\n---\n\n<Note>Soft limits</Note>', "Limits"),
        ("aid.yml", "# set by hand\nlabel: Aid for trams\ntype: number", "Aid for trams"),
        ("a.json", '{\n  "name": "Trams",\n  "lines": [{"name": "T1"}]\n}', "Trams"),
        ("b.json", '{"lines": [1, 2]}', "b"),
        ("c.yml", "name:\n  first: Jo\ntitle: It's open # since May\nprice: 3", "It's open"),
        ("d.yml", "name: true\nlabel: 'Trams, buses'\nprice: 3", "Trams, buses"),
    ],
)
def test_a_file_is_named_by_its_title(alice: Any, name: str, text: str, title: str) -> None:
    upload = SimpleUploadedFile(name, text.encode())
    assert library_services.add_document(alice, file=upload, by=alice.actor).title == title


def test_an_older_version_is_read_as_it_was(alice: Any, document: Any) -> None:
    first = document.address
    document.change(by=alice.actor, text="changed once")
    document.change(by=alice.actor, text="changed twice")
    assert "pilot line" in library_services.text_of(alice, first).text
    assert library_services.text_of(alice, f"library:{document.pk}/2").text == "changed once"
    assert library_services.text_of(alice, document.address).text == "changed twice"


@pytest.mark.parametrize(
    "address", ["library:x/1", "library:00000000-0000-0000-0000-000000000000/1", "http://a.b/", ""]
)
def test_a_document_that_is_not_there_is_rejected(alice: Any, address: str) -> None:
    with pytest.raises(ProviderRejected):
        library_services.text_of(alice, address)


def test_what_is_in_the_trash_is_neither_found_nor_read_and_is_restored(
    alice: Any, document: Any
) -> None:
    document.trash(by=alice.actor)
    assert asked(alice, "pilot line") == []
    with pytest.raises(ProviderRejected, match="no longer in the library"):
        library_services.text_of(alice, document.address)
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


def test_no_one_finds_or_reads_another_persons_documents(bob: Any, document: Any) -> None:
    assert asked(bob, "pilot line") == []
    with pytest.raises(ProviderRejected):
        library_services.text_of(bob, document.address)


@pytest.mark.parametrize("query", ["", "!!!", "💥", "'", "\\", "a & (b", "x" * 5000])
def test_no_query_is_an_error(alice: Any, document: Any, query: str) -> None:
    assert asked(alice, query) == []


def test_chinese_documents_are_found_by_chinese_words(alice: Any) -> None:
    for path in sorted(Path(__file__).parents[1].glob("data/chinese/batch1/*.md")):
        library_services.add_document(alice, text=path.read_text(), by=alice.actor)
    assert len(asked(alice, "固态电池 试产线")) >= 2


def test_documents_older_than_the_time_frame_are_left_out(alice: Any, document: Any) -> None:
    LibraryDocument.objects.update(updated="2020-01-01T00:00Z")
    assert asked(alice, "pilot", since=date(2021, 1, 1)) == []
    assert len(asked(alice, "pilot", since=date(2019, 1, 1))) == 1


def test_sensitive_documents_are_kept_out_of_research(alice: Any, document: Any) -> None:
    document.change(by=alice.actor, sensitivity="sensitive")
    assert asked(alice, "pilot") == []
    assert len(library_services.find(alice, "pilot")) == 1


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
    made = library_services.add_document(
        alice, file=SimpleUploadedFile(name, content), by=alice.actor
    )
    assert words in made.text
    assert "alert" not in made.text


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.txt", b"\x00\x01\x02" * 99, "isn’t text"),
        ("a.txt", b"  \n ", "empty"),
        ("a.pdf", b"%PDF-1.4 broken", "damaged"),
        ("a.png", b"\x89PNG", "isn’t supported"),
        ("a.md", b"x" * (5 * 1024 * 1024 + 1), "larger than 5 MiB"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(
    alice: Any, name: str, content: bytes, why: str
) -> None:
    with pytest.raises(InvalidValue, match=why):
        library_services.add_document(alice, file=SimpleUploadedFile(name, content), by=alice.actor)
    assert not LibraryDocument.objects.exists()


def test_the_same_document_is_not_added_twice(alice: Any, document: Any) -> None:
    with pytest.raises(InvalidValue, match="already"):
        library_services.add_document(alice, text=TEXT, by=alice.actor)


@pytest.mark.django_db(transaction=True)
def test_of_five_who_add_one_document_at_once_one_succeeds(alice: Any) -> None:
    def add(_n: int) -> bool:
        try:
            library_services.add_document(alice, text="# Twin\n\nThe same.", by=alice.actor)
        except InvalidValue:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(5) as pool:
        assert sum(pool.map(add, range(5))) == 1
    assert LibraryDocument.objects.count() == 1


def _add(alice: Any, *texts: str) -> None:
    for text in texts:
        library_services.add_document(alice, text=text, by=alice.actor)


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


def test_half_of_four_words_is_enough_but_not_half_of_two(alice: Any) -> None:
    _add(alice, "Solar panels project notes: we need 20 of them.", "Solar eclipse dates.")
    about = "solar panels suppliers and prices"

    assert len(asked(alice, about, about=about)) == 1
    assert len(asked(alice, "solar panels", about="solar panels")) == 1


def test_a_topic_that_no_document_names_is_searched_by_the_querys_words(alice: Any) -> None:
    _add(alice, TEXT)
    assert asked(alice, "pilot line", about="My first topic") == ["Solid-state batteries"]
    assert asked(alice, "pilot plans of other cities", about="My first topic") == []


def test_documents_that_share_a_common_word_with_the_topic_arent_found(alice: Any) -> None:
    _add(alice, "# Phones\n\nLimits of a PIN won't trigger the first aid du jour. Au revoir.")
    for topic in ("Limits of Trigger.dev", "Aides au financement du BAFA"):
        assert asked(alice, f"{topic} latest", about=topic) == []
    _add(alice, "# Limits\n\nWith trigger.dev, 100 runs can wait.")
    assert asked(alice, "Limits of Trigger.dev latest", about="Limits of Trigger.dev") == ["Limits"]


def test_topics_find_documents_in_the_owners_language_and_more_exact_versions(alice: Any) -> None:
    alice.language = "de"
    alice.save()
    _add(alice, "# Die Feststoffbatterie\n\nSie kostet 3 Euro.")
    found = asked(alice, "Feststoffbatterien Kosten", about="Feststoffbatterien")
    assert found == ["Die Feststoffbatterie"]

    _add(alice, "# Releases\n\nPython 3.14.2 is out, and MIT has it.")
    assert asked(alice, "Python 3.14 news", about="Python 3.14") == ["Releases"]
    assert asked(alice, "Python 3.1 news", about="Python 3.1") == []


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
