"""Export and import on the page: asked for, previewed, confirmed, downloaded, refused."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from memory.accounts.archive import jobs
from memory.models import Archive, Note, Observation
from memory.services.notes.saving import write_note
from tests.pages.topic_cast import text_of

HTMX = {"HX-Request": "true"}
PAGE = "/settings/archive/"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, settings: Any) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def browser(alice: Any, client_of: Callable[[Any], Client]) -> Client:
    return client_of(alice)


def lines(*rows: Any) -> bytes:
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows).encode()


def zipped(**files: Any) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return held.getvalue()


def sent(browser: Client, name: str, content: bytes, **headers: Any) -> Any:
    file = SimpleUploadedFile(name, content)
    return browser.post(PAGE + "import/", {"file": file}, **headers)


def uploaded(browser: Client, name: str, content: bytes) -> str:
    """Return the page of the import to which an upload leads."""
    response = sent(browser, name, content)
    assert response.status_code == 302, text_of(response)
    return str(response["Location"])


def test_an_export_is_created_and_downloaded(browser: Client, alice: Any):
    write_note(alice, "log", "The heat pump was serviced.", by=alice.actor)

    page = browser.post(PAGE + "export/", follow=True)
    row = Archive.objects.get()
    answer = browser.get(f"{PAGE}{row.pk}/file/")

    assert "Download" in text_of(page)
    with zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content))) as archive:
        assert "The heat pump was serviced." in archive.read("data/notes.jsonl").decode()
    assert answer["Content-Disposition"].startswith('attachment; filename="beacon-alice-')


def test_nothing_is_stored_before_it_is_confirmed(browser: Client, alice: Any):
    url = uploaded(
        browser, "old.jsonl", lines({"content": "Cells got cheaper.", "tags": ["cells"]})
    )
    page = text_of(browser.get(url))

    assert "Cells got cheaper." in page
    assert "Import 1 item" in page
    assert not Observation.objects.for_user(alice).exists()

    browser.post(url + "confirm/")

    found = Observation.objects.for_user(alice).get()
    assert (found.source, found.trust, found.tags) == ("import:old.jsonl", "external", ["cells"])
    assert not Archive.objects.get().has_file


def test_over_htmx_a_choice_and_the_confirming_swap_the_region(browser: Client, alice: Any):
    content = zipped(**{"a/Garden.md": "- plant beans\n- water\n  them daily\n"})
    url = uploaded(browser, "vault.zip", content)

    chosen = browser.post(
        url + "choose/", {"bullets": "yes", "kind": "log", "category": "lesson"}, headers=HTMX
    )
    done = browser.post(url + "confirm/", headers=HTMX)

    assert chosen.content.decode().lstrip().startswith('<div id="archive-row"')
    assert "vault.zip” imported." in text_of(done)
    said = set(Observation.objects.for_user(alice).values_list("category", "content"))
    assert said == {("lesson", "plant beans"), ("lesson", "water them daily")}


def test_a_folder_of_markdown_becomes_notes_with_what_is_at_their_head(browser: Client, alice: Any):
    text = "---\nkind: summary\ntags: [home, 'heat']\ncreated: 2024-03-02\n---\nIt is warm.\n"
    url = uploaded(browser, "vault.zip", zipped(**{"House/Heat pump.md": text, "x.png": b"\x89"}))

    page = text_of(browser.get(url))
    browser.post(url + "confirm/")

    assert "1 file isn’t Markdown" in page
    note = Note.objects.for_user(alice).get(source="import:vault.zip")
    assert (note.kind, note.tags, f"{note.created:%Y-%m-%d}") == (
        "summary", ["home", "heat"], "2024-03-02",
    )  # fmt: skip
    assert note.content == "# Heat pump\n\nIt is warm."


@pytest.mark.requirement("R232")
def test_a_stranger_sees_no_archive_and_takes_none(
    browser: Client, bob: Any, client_of: Callable[[Any], Client]
):
    browser.post(PAGE + "export/")
    row, stranger = Archive.objects.get(), client_of(bob)

    for path in ("", "file/"):
        assert stranger.get(f"{PAGE}{row.pk}/{path}").status_code == 404
    for path in ("choose/", "confirm/", "discard/"):
        assert stranger.post(f"{PAGE}{row.pk}/{path}").status_code == 404
    assert row.has_file
    assert Client().get(f"{PAGE}{row.pk}/file/").status_code == 302


BAD: list[tuple[str, bytes, str]] = [
    ("a.jsonl", b"", "The file is empty."),
    ("a.zip", b"PK\x03\x04 cut off", "This isn’t a zip file, or it’s incomplete"),
    ("a.zip", b"not a zip at all", "This isn’t a zip file"),
    ("a.zip", zipped(**{"../../etc/passwd.md": "x"}), "which points outside its folder"),
    ("a.zip", zipped(**{"C:\\x.md": "x"}), "which points outside its folder"),
    ("a.zip", zipped(**{"manifest.json": "{"}), "manifest.json is damaged"),
    ("a.zip", zipped(**{"manifest.json": "{}"}), "isn’t in Beacon’s format"),
    (
        "a.zip",
        zipped(**{"manifest.json": '{"format": "beacon-archive", "version": 99}'}),
        "Update Beacon, then import",
    ),
]


@pytest.mark.parametrize(("name", "content", "told"), BAD)
@pytest.mark.parametrize("headers", [{}, {"headers": HTMX}])
def test_a_file_that_cannot_be_taken_is_explained(
    browser: Client, name: str, content: bytes, told: str, headers: dict[str, Any]
):
    response = sent(browser, name, content, **headers)

    assert response.status_code == 200
    assert told in text_of(response)
    assert not Archive.objects.exists()


def test_a_choice_made_on_the_way_to_importing_is_previewed_first(browser: Client, alice: Any):
    url = uploaded(browser, "x.jsonl", lines({"content": "Cells got cheaper."}))
    sent = {"reading": "1", "category": "insight"}

    first = browser.post(url + "confirm/", sent, follow=True)

    assert "Preview updated" in text_of(first)
    assert not Observation.objects.for_user(alice).exists()
    browser.post(url + "confirm/", sent)
    assert Observation.objects.for_user(alice).get().category == "insight"


def test_a_choice_that_there_is_not_is_explained(browser: Client):
    url = uploaded(browser, "x.md", b"- a bullet")

    response = browser.post(url + "choose/", {"bullets": "maybe", "kind": "soul"})

    assert response.status_code == 200
    assert "is not one of the available choices" in text_of(response)


def test_no_file_is_explained(browser: Client):
    assert "Select a file." in text_of(browser.post(PAGE + "import/"))


def test_problems_are_named_by_file_and_line_and_the_others_are_taken(browser: Client, alice: Any):
    url = uploaded(
        browser,
        "old.jsonl",
        lines(
            {"content": "Good."},
            "{broken",
            '["no object"]',
            {"text": 5},
            {"content": "x", "kind": "soul"},
            {"content": "x", "kind": "poem"},
            {"content": "x" * 70_000},
            {"content": "Bad\x00 but \ud800 clean."},
        ),
    )
    page = text_of(browser.get(url))
    browser.post(url + "confirm/")

    for told in ("old.jsonl, line 2", "line 3", "line 4", "line 5", "line 6", "70,000"):
        assert told in page, told
    said = sorted(Observation.objects.for_user(alice).values_list("content", flat=True))
    assert said == ["Bad but  clean.", "Good."]


def test_one_at_a_time(browser: Client, alice: Any):
    Archive.objects.create(owner=alice, kind="export")

    response = browser.post(PAGE + "export/", follow=True)

    assert "Another export or import is running." in text_of(response)


def test_a_large_one_waits_for_a_worker_and_the_page_says_how_far_it_is(
    browser: Client, alice: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jobs, "FEW_ROWS", 0)
    page = browser.post(PAGE + "export/", follow=True)
    row = Archive.objects.get()

    assert "Waiting to start" in text_of(page)
    assert 'hx-trigger="every 2s"' in page.content.decode()
    jobs.perform(row.pk)
    assert "every 2s" not in browser.get(f"{PAGE}{row.pk}/").content.decode()


def test_twice_confirmed_it_is_stored_once(browser: Client, alice: Any):
    url = uploaded(browser, "old.jsonl", lines({"content": "Cells got cheaper."}))
    browser.post(url + "confirm/")

    again = browser.post(url + "confirm/", follow=True)

    assert "already done" in text_of(again)
    assert Observation.objects.for_user(alice).count() == 1


def test_a_discarded_upload_leaves_nothing(browser: Client, tmp_path: Path):
    url = uploaded(browser, "old.jsonl", lines({"content": "Cells got cheaper."}))

    browser.post(url + "discard/")

    assert not Archive.objects.exists()
    assert list((tmp_path / "archives").iterdir()) == []


@pytest.mark.parametrize("path", ["", "row"])
def test_the_number_of_queries_is_fixed(
    browser: Client, alice: Any, path: str, django_assert_max_num_queries: DjangoAssertNumQueries
):
    for _number in range(15):
        row = Archive.objects.create(owner=alice, kind="export", state="done")

    with django_assert_max_num_queries(8):
        browser.get(PAGE if not path else f"{PAGE}{row.pk}/")
