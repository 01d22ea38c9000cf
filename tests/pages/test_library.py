"""The library's pages: each works, over htmx too, turns strangers away, explains, asks little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from beacon_site.web.template_tags import wrap_path
from memory.models import LibraryDocument
from memory.pages.library import _bookmark_labels
from memory.services.library import documents as library_services
from tests.undo import undone

HTMX = {"HX-Request": "true"}
LIST = reverse("memory:library")
ADD = reverse("memory:library-add")


@pytest.fixture
def document(alice: Any) -> LibraryDocument:
    text = "# Pilot line\n\nThe **pilot** line started in Lanling. <script>alert(1)</script>\n"
    return library_services.add_document(alice, text=text, by=alice.actor)


@pytest.fixture
def browser(alice: Any, client_of: Any) -> Client:
    made: Client = client_of(alice)
    return made


@pytest.fixture
def bobs(bob: Any, client_of: Any) -> Client:
    made: Client = client_of(bob)
    return made


@pytest.fixture
def folder(tmp_path: Path, settings: Any, admin: Any) -> Path:
    settings.BEACON_LIBRARY_DIR = str(tmp_path)
    (tmp_path / "pilot.md").write_text("# From the folder\n\nA pilot line.")
    return tmp_path


def page(document: LibraryDocument, name: str = "document") -> str:
    return reverse(f"memory:library-{name}", args=[document.pk])


def test_nul_in_a_document_is_removed_and_said_so(browser: Client) -> None:
    page = browser.post(ADD, {"title": "Pi\x00lot", "text": "A \x00line.\x1b[31m"}, follow=True)

    document = LibraryDocument.objects.get()
    assert (document.title, document.text) == ("Pilot", "A line.[31m")
    assert "from: Title, Text" in page.content.decode()


# --- the list


def test_the_list_shows_documents_and_where_to_add_one(browser: Client, document: Any) -> None:
    html = browser.get(LIST).content.decode()
    assert "Pilot line" in html
    assert ADD in html


def test_tags_that_differ_only_in_case_are_shown_once() -> None:
    lines = ["Folder: House, Garden", "Tags: house, moon", "Tides"]

    assert _bookmark_labels(lines) == ["House", "Garden", "moon"]
    assert lines == ["Tides"]


def test_a_long_path_can_wrap_after_its_slashes() -> None:
    assert wrap_path("/srv/<b>/x.md") == "/<wbr>srv/<wbr>&lt;b&gt;/<wbr>x.md"


def test_an_empty_list_leads_to_the_first_document(browser: Client) -> None:
    assert b"No documents yet" in browser.get(LIST).content


def test_the_search_marks_the_words_that_were_found(browser: Client, document: Any) -> None:
    html = browser.get(LIST, {"q": "pilots lanling"}).content.decode()
    assert "<mark>pilot</mark>" in html
    assert "<mark>Lanling</mark>" in html
    assert "<script>alert(1)" not in html


def test_over_htmx_the_search_answers_with_the_list_alone(browser: Client, document: Any) -> None:
    headers = {**HTMX, "HX-Target": "documents"}
    html = browser.get(LIST, {"q": "pilot"}, headers=headers).content.decode()
    assert html.lstrip().startswith('<section id="documents"')


def test_the_list_holds_nothing_of_others(bobs: Client, document: Any) -> None:
    assert b"Pilot line" not in bobs.get(LIST).content
    assert b"Pilot line" not in bobs.get(LIST, {"q": "pilot"}).content


@pytest.mark.parametrize("asked", ["q=%00", "q=%22%27%5C%28", "cursor=x", "cursor=W10%3D", "q=💥"])
def test_a_query_or_place_that_makes_no_sense_isnt_an_error(browser: Client, asked: str) -> None:
    assert browser.get(f"{LIST}?{asked}").status_code == 200


def test_pages_follow_each_other_without_gaps(browser: Client, alice: Any) -> None:
    rows = [LibraryDocument(owner=alice, title=f"Document {n:03}", text="x") for n in range(120)]
    LibraryDocument.objects.add(rows, by=alice.actor)
    seen, cursor = [], ""
    while cursor is not None:
        response = browser.get(LIST, {"cursor": cursor})
        seen += [one.pk for one in response.context["documents"]]
        cursor = response.context["next_cursor"]
    assert sorted(seen) == sorted(one.pk for one in rows)


def test_the_list_takes_a_fixed_number_of_queries(
    browser: Client, document: Any, alice: Any, django_assert_max_num_queries: Any
) -> None:
    rows = [LibraryDocument(owner=alice, title=f"Pilot {n}", text="pilot") for n in range(60)]
    LibraryDocument.objects.add(rows, by=alice.actor)
    with django_assert_max_num_queries(8):
        browser.get(LIST)
    with django_assert_max_num_queries(11):
        browser.get(LIST, {"q": "pilot"})


# --- one document


def test_a_document_is_rendered_and_its_scripts_are_words(browser: Client, document: Any) -> None:
    html = browser.get(page(document)).content.decode()
    assert "<strong>pilot</strong>" in html
    assert "<script>alert(1)" not in html


def test_a_document_is_shown_as_it_was_written(browser: Client, document: Any) -> None:
    html = browser.get(page(document), {"view": "source"}).content.decode()
    assert "The **pilot** line" in html


def test_over_htmx_a_document_answers_with_its_text_alone(browser: Client, document: Any) -> None:
    html = browser.get(page(document), headers=HTMX).content.decode()
    assert html.lstrip().startswith('<div id="library-text"')


@pytest.mark.parametrize("name", ["document", "edit"])
def test_a_stranger_does_not_see_a_document(bobs: Client, document: Any, name: str) -> None:
    assert bobs.get(page(document, name)).status_code == 404


@pytest.mark.parametrize("name", ["trash", "restore", "edit"])
def test_a_stranger_does_not_change_a_document(bobs: Client, document: Any, name: str) -> None:
    assert bobs.post(page(document, name)).status_code == 404
    document.refresh_from_db()
    assert document.version == 1


def test_without_signing_in_there_is_no_library(client: Client, document: Any) -> None:
    for address in (LIST, ADD, page(document), page(document, "edit")):
        assert client.get(address).status_code == 302


def test_a_document_takes_a_fixed_number_of_queries(
    browser: Client, document: Any, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(6):
        browser.get(page(document))


# --- adding


def test_a_pasted_text_becomes_a_document(browser: Client) -> None:
    response = browser.post(ADD, {"text": "# Mine\n\nwords"})
    assert response.headers["Location"] == LibraryDocument.objects.get().get_absolute_url()
    assert LibraryDocument.objects.get().title == "Mine"


def test_a_file_becomes_a_document(browser: Client) -> None:
    browser.post(ADD, {"file": SimpleUploadedFile("notes.txt", b"plain words")})
    assert LibraryDocument.objects.get().title == "notes"


def test_over_htmx_adding_leads_to_the_document(browser: Client) -> None:
    response = browser.post(ADD, {"text": "words"}, headers=HTMX)
    assert response.headers["HX-Redirect"] == LibraryDocument.objects.get().get_absolute_url()


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({}, "Paste text, enter the URL"),
        ({"text": "  "}, "Paste text, enter the URL"),
        ({"text": "x", "file": SimpleUploadedFile("a.md", b"x")}, "Add one of these: text"),
        ({"file": SimpleUploadedFile("a.exe", b"MZ")}, "isn’t supported"),
        ({"file": SimpleUploadedFile("a.txt", b"")}, "The document is empty"),
        ({"file": SimpleUploadedFile("a.txt", b"\0\1" * 99)}, "isn’t text"),
        ({"file": SimpleUploadedFile("a.md", b"x" * 5_300_000)}, "at most 5 MiB"),
        (
            {"text": "x", "title": "t" * 501},
            "Ensure this value has at most 500 characters (it has 501).",
        ),
    ],
)
def test_what_cannot_be_added_is_explained(browser: Client, sent: Any, why: str) -> None:
    response = browser.post(ADD, sent, headers=HTMX)
    assert why in response.content.decode()
    assert not LibraryDocument.objects.exists()


def test_the_form_takes_a_fixed_number_of_queries(
    browser: Client, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(5):
        browser.get(ADD)


# --- editing


def test_an_edit_is_a_new_version(browser: Client, document: Any) -> None:
    browser.post(page(document, "edit"), {"title": "New", "text": "words", "version": 1})
    document.refresh_from_db()
    assert (document.title, document.version) == ("New", 2)


def test_over_htmx_an_invalid_edit_answers_with_the_form(browser: Client, document: Any) -> None:
    sent = {"title": "", "text": "what I typed", "version": 1}
    html = browser.post(page(document, "edit"), sent, headers=HTMX).content.decode()
    assert html.lstrip().startswith('<div id="library-edit"')
    assert "what I typed" in html


def test_a_conflict_is_explained_and_nothing_typed_is_lost(
    browser: Client, document: Any, alice: Any
) -> None:
    document.rewrite(title="T", text="written first", by=alice.actor, expected_version=1)
    sent = {"title": "T", "text": "what I typed", "version": 1}
    html = browser.post(page(document, "edit"), sent).content.decode()
    assert "This item changed while you were editing" in html
    assert "what I typed" in html
    assert "written first" in html
    assert 'name="version" value="2"' in html


def test_the_edit_form_takes_a_fixed_number_of_queries(
    browser: Client, document: Any, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(6):
        browser.get(page(document, "edit"))


# --- the trash


def test_a_trashed_document_can_be_restored_from_the_toast(browser: Client, document: Any) -> None:
    undone(browser, browser.post(page(document, "trash"), follow=True))
    document.refresh_from_db()
    assert document.trashed_at is None


def test_restoring_leads_back_but_never_away(browser: Client, document: Any) -> None:
    sent = {"next": "https://evil.example/"}
    assert browser.post(page(document, "restore"), sent).headers["Location"] == LIST


def test_a_get_trashes_nothing(browser: Client, document: Any) -> None:
    assert browser.get(page(document, "trash")).status_code == 405


# --- the watched folder


def test_staff_look_at_the_folder_and_everyone_reads_it(
    folder: Path, admin: Any, client_of: Any, bobs: Client
) -> None:
    html = client_of(admin).post(reverse("memory:library-check"), follow=True).content.decode()
    assert "1 searchable file" in html
    assert b"From the folder" in bobs.get(LIST).content
    assert bobs.get(page(LibraryDocument.objects.get())).status_code == 200


def test_a_document_of_the_folder_is_changed_where_it_is(
    folder: Path, admin: Any, client_of: Any
) -> None:
    staff = client_of(admin)
    staff.post(reverse("memory:library-check"))
    document = LibraryDocument.objects.get()
    assert b"change its file" in staff.get(page(document)).content
    for name in ("edit", "trash", "restore"):
        assert staff.post(page(document, name)).status_code == 404


def test_only_admins_have_the_folder_checked(folder: Path, bobs: Client) -> None:
    assert bobs.post(reverse("memory:library-check")).status_code == 404
    assert not LibraryDocument.objects.exists()


# --- in plain words


def test_the_list_shows_words_not_markdown_and_the_title_once(
    browser: Client, document: Any
) -> None:
    html = browser.get(LIST).content.decode()

    assert "The pilot line started in Lanling." in html
    assert "# Pilot" not in html
    assert html.count("Pilot line") == 1


def test_a_long_text_is_cut_between_words(browser: Client, alice: Any) -> None:
    text = "# Lines\n\n" + "separator " * 60
    library_services.add_document(alice, text=text, by=alice.actor)

    html = browser.get(LIST).content.decode()

    assert "separator…</span>" in html


def test_a_document_says_what_it_is_and_who_added_it(browser: Client, document: Any) -> None:
    html = browser.get(page(document)).content.decode()

    assert "<dd>Markdown</dd>" in html
    assert "<b>Added by you</b>" in html


def test_a_variable_is_named_to_staff_alone(browser: Client, admin: Any, client_of: Any) -> None:
    assert b"BEACON_LIBRARY_DIR" not in browser.get(LIST).content
    assert b"BEACON_LIBRARY_DIR" in client_of(admin).get(LIST).content


# --- from a browser and a phone


@pytest.mark.requirement("R268")
def test_a_bookmark_opens_the_form_filled_in_and_stores_nothing(browser: Client) -> None:
    shared = {"title": "Fleet", "text": "It <b>sails</b>.", "url": "https://example.org/a"}
    html = browser.get(ADD, shared).content.decode()
    assert "It &lt;b&gt;sails&lt;/b&gt;." in html
    assert 'value="https://example.org/a"' in html
    assert not LibraryDocument.objects.exists()


def test_an_address_shared_as_text_is_taken_as_the_address(browser: Client) -> None:
    html = browser.get(ADD, {"text": "https://example.org/a"}).content.decode()
    assert 'value="https://example.org/a"' in html


@pytest.mark.requirement("R268")
def test_several_files_are_added_at_once_and_each_failure_is_named(browser: Client) -> None:
    files = [
        SimpleUploadedFile("a.md", b"# One"),
        SimpleUploadedFile("b.docx", b"not a zip"),
        SimpleUploadedFile("c.txt", b"Three"),
    ]
    html = browser.post(ADD, {"file": files}, follow=True).content.decode()
    assert "2 documents added." in html
    assert "b.docx: " in html
    assert LibraryDocument.objects.count() == 2


def test_a_page_inside_the_network_is_refused(browser: Client) -> None:
    html = browser.post(ADD, {"url": "http://127.0.0.1:1/"}).content.decode()
    assert 'value="http://127.0.0.1:1/"' in html
    assert "errorlist" in html
    assert not LibraryDocument.objects.exists()


@pytest.mark.requirement("R268")
def test_the_manifest_offers_the_form_to_a_phone_s_share_menu(client: Client) -> None:
    answer = client.get(reverse("memory:manifest"))
    assert answer["Content-Type"] == "application/manifest+json"
    told = answer.json()
    assert told["share_target"]["action"] == ADD
    assert told["icons"][0]["src"].endswith(".svg")
