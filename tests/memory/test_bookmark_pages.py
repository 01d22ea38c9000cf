"""Fetching the web pages of imported bookmarks into the Library, from a local server."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from pytest_httpserver import HTTPServer
from werkzeug import Response

from beacon_site import celery
from memory.accounts.archive import app_exports, jobs
from memory.models import Archive, LibraryDocument, User
from memory.pages import trash
from memory.services.library import documents
from memory.services.library.documents import add_document, find

PAGE = "<html><head><title>{0}</title></head><body><article><p>{1}</p></article></body></html>"
FLOOD = "The quay floods every fortnight, when the moon is full and the wind is in the west. " * 4
WIND = "A westerly of seven knots is enough to sail from the pier to the light and back. " * 4
State = Archive.State


@pytest.fixture
def site(
    httpserver: HTTPServer, settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> HTTPServer:
    """A site with two pages that can be read, and no waits."""
    settings.BEACON_FETCH_ALLOW_HOSTS = frozenset({f"{httpserver.host}:{httpserver.port}"})
    settings.DATA_DIR = tmp_path
    monkeypatch.setattr(jobs, "HOST_SECONDS", 0)
    monkeypatch.setattr(celery, "send", lambda *told, queue: True)
    for name, text in (("tides", FLOOD), ("wind", WIND)):
        page = PAGE.format(name.title(), text)
        httpserver.expect_request(f"/{name}").respond_with_data(page, content_type="text/html")
    return httpserver


def imported(owner: User, *urls: str, pages: bool = True) -> Archive:
    """Import bookmarks of these URLs, and return the job that fetches their pages."""
    row = previewed(owner, *urls)
    assert jobs.confirm(row, pages=pages)
    jobs.perform(row.pk)
    row.refresh_from_db()
    assert row.state == State.DONE, row.problem
    job: Archive = Archive.objects.get(pk=row.result["fetching"])
    return job


def previewed(owner: User, *urls: str) -> Archive:
    links = "\n".join(
        f'<DT><A HREF="{url}" TAGS="sea">Bookmark {n}</A>' for n, url in enumerate(urls)
    )
    text = f"<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>\n{links}\n</DL>"
    row = jobs.upload(owner, SimpleUploadedFile("bookmarks.html", text.encode()))
    jobs.perform(row.pk)
    row.refresh_from_db()
    return row


def performed(job: Archive) -> Archive:
    jobs.perform(job.pk)
    job.refresh_from_db()
    return job


def asked(site: HTTPServer) -> list[str]:
    """The paths that were requested."""
    return [request.path for request, _answer in site.log]


KILLED = [KeyboardInterrupt, OperationalError]  # the worker, the connection to the database


@pytest.mark.requirement("R385")
def test_the_pages_of_bookmarks_are_fetched_if_chosen_and_only_once(
    alice: User, site: HTTPServer, client_of: Callable[[User], Client]
) -> None:
    urls = [
        site.url_for("/tides"),
        site.url_for("/tides") + "/?utm_source=x",
        site.url_for("/wind"),
    ]
    row = previewed(alice, *urls)
    browser = client_of(alice)
    page = browser.get(f"/settings/archive/{row.pk}/").content.decode()
    assert "Also fetch 2 web pages" in page and "checked" not in page
    browser.post(f"/settings/archive/{row.pk}/confirm/", {"reading": "1", "pages": "on"})
    row.refresh_from_db()
    job = performed(Archive.objects.get(pk=row.result["fetching"]))

    assert (job.state, job.result["fetched"], job.result["failed"]) == (State.DONE, 2, [])
    assert sorted(asked(site)) == ["/tides", "/wind"]
    [found] = [document for document, *_more in find(alice, "fortnight moon")]
    assert found.title == "Bookmark 0" and "Tags: sea" in found.text
    assert found.media_type == "text/html" and found.trust == "external"

    # The same file again: the pages are kept, and nothing is left to fetch.
    again = previewed(alice, *urls)
    assert (again.brings, again.result["updated"], again.result["pages"]) == (0, 0, 0)
    page = browser.get(f"/settings/archive/{again.pk}/").content.decode()
    assert "web page" not in page and "nothing new" in page


def test_nothing_is_fetched_if_it_is_not_chosen(alice: User, site: HTTPServer) -> None:
    row = previewed(alice, site.url_for("/tides"))
    jobs.confirm(row)
    row = performed(row)
    assert "fetching" not in row.result and LibraryDocument.objects.count() == 1
    assert not Archive.objects.filter(kind="pages").exists() and not asked(site)

    # It can be chosen in a second import that brings nothing else.
    assert previewed(alice, site.url_for("/tides")).result["pages"] == 1


def test_a_page_that_fails_is_listed_with_its_reason_and_retried(
    alice: User, site: HTTPServer, client_of: Callable[[User], Client]
) -> None:
    urls = [site.url_for("/gone"), "http://10.0.0.7/secret", site.url_for("/tides")]
    job = performed(imported(alice, *urls))
    assert (job.state, job.result["fetched"], len(job.result["failed"])) == (State.DONE, 1, 2)
    browser, url = client_of(alice), f"/settings/archive/{job.pk}/"
    page = browser.get(url).content.decode()
    for words in ("10.0.0.7", "Bookmark 0", "Retry failed pages", "Retry “Bookmark 1”"):
        assert words in page

    site.clear_all_handlers()
    site.expect_request("/gone").respond_with_data(
        PAGE.format("Back", WIND), content_type="text/html"
    )
    only = LibraryDocument.objects.get(url=urls[0]).pk
    assert browser.post(f"{url}retry/", {"document": str(only)}, follow=True).status_code == 200
    job = performed(job)
    assert (job.state, job.result["fetched"], len(job.result["failed"])) == (State.DONE, 2, 1)
    assert "westerly" in LibraryDocument.objects.get(url=urls[0]).text
    assert "10.0.0.7" in LibraryDocument.objects.get(pk=job.result["failed"][0]["document"]).url

    browser.post(f"{url}retry/")
    assert len(performed(job).result["failed"]) == 1
    assert asked(site).count("/tides") == 1


def test_it_can_be_stopped_and_continued(
    alice: User, bob: User, site: HTTPServer, client_of: Callable[[User], Client],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    job = imported(alice, site.url_for("/tides"), site.url_for("/wind"))
    url, read = f"/settings/archive/{job.pk}/", documents.read_page
    assert client_of(bob).post(f"{url}stop/").status_code == 404
    assert client_of(bob).post(f"{url}retry/").status_code == 404
    assert "0 of 2 pages" in client_of(alice).get(url).content.decode()

    def stopped_meanwhile(address: str) -> Any:
        if "wind" in address:
            client_of(alice).post(f"{url}stop/")
        return read(address)

    monkeypatch.setattr(documents, "read_page", stopped_meanwhile)
    job = performed(job)
    assert (job.state, job.result["fetched"], job.pages_left) == (State.STOPPED, 1, 1)
    assert not find(alice, "westerly")

    monkeypatch.setattr(documents, "read_page", read)
    assert "Continue" in client_of(alice).get(url).content.decode()
    client_of(alice).post(f"{url}retry/")
    job = performed(job)
    assert (job.state, job.result["fetched"], job.pages_left) == (State.DONE, 2, 0)
    assert asked(site).count("/tides") == 1


@pytest.mark.parametrize("error", KILLED)
def test_a_killed_worker_loses_only_the_page_it_was_fetching(
    alice: User, site: HTTPServer, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    job, read = imported(alice, site.url_for("/tides"), site.url_for("/wind")), documents.read_page

    def killed(address: str) -> Any:
        if "wind" in address:
            raise error
        return read(address)

    monkeypatch.setattr(documents, "read_page", killed)
    with pytest.raises(error):
        jobs.perform(job.pk)
    Archive.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    monkeypatch.setattr(documents, "read_page", read)
    assert Archive.objects.sweep() == 1

    job = performed(job)
    assert (job.state, job.result["fetched"], asked(site)) == (State.DONE, 2, ["/tides", "/wind"])


def test_workers_that_die_on_a_page_end_it_and_the_page_comes_last(
    alice: User, site: HTTPServer
) -> None:
    job = imported(alice, site.url_for("/tides"), site.url_for("/wind"))
    for _time in range(3):
        Archive.objects.claim(job.pk)
        Archive.objects.filter(pk=job.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    Archive.objects.sweep()
    job.refresh_from_db()
    assert job.state == State.FAILED and "Fetched pages are kept" in job.problem
    assert jobs.retry_pages(job, "")
    performed(job)
    assert asked(site) == ["/wind", "/tides"]


def test_its_number_and_size_are_limited(
    alice: User, site: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_exports, "MAX_PAGES", 2)
    monkeypatch.setattr(jobs, "MAX_BYTES", 100)
    urls = [site.url_for(f"/{name}") for name in ("tides", "wind", "tea")]
    job = imported(alice, *urls)
    assert len(job.options["documents"]) == 2
    job = performed(job)
    assert (job.state, job.result["fetched"], job.pages_left) == (State.STOPPED, 1, 1)
    assert "limit" in job.problem


def test_it_leaves_the_queue_to_others_after_a_while(
    alice: User, site: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "SLICE_SECONDS", -1.0)
    job = performed(imported(alice, site.url_for("/tides")))
    assert (job.state, job.pages_left) == (State.WAITING, 1)
    # A second import's pages wait for the first's, and other imports don't.
    second = performed(imported(alice, site.url_for("/wind")))
    assert second.state == State.WAITING and second.not_before > timezone.now()
    assert jobs.ask_export(alice)


def test_one_site_is_asked_slowly(
    alice: User, site: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "HOST_SECONDS", 0.5)
    at: list[float] = []

    def answer(_request: Any) -> Response:
        at.append(time.monotonic())
        return Response(PAGE.format("Slow", FLOOD), content_type="text/html")

    site.expect_request("/slow").respond_with_handler(answer)
    performed(imported(alice, *(site.url_for(f"/slow?{number}") for number in range(3))))
    assert all(later - earlier > 0.4 for earlier, later in pairwise(at)) and len(at) == 3


def test_a_silent_site_is_not_asked_again(alice: User, site: HTTPServer) -> None:
    site.expect_request("/busy").respond_with_data("Later.", status=503)
    urls = [site.url_for(f"/busy?{number}") for number in range(5)]
    job = performed(imported(alice, *urls))
    assert (len(job.result["failed"]), asked(site)) == (5, ["/busy"] * 3)
    assert "3 times in a row" in job.result["failed"][-1]["why"]


def test_a_sign_in_page_is_not_stored_as_the_page(alice: User, site: HTTPServer) -> None:
    page = PAGE.format("Sign in", "Please sign in to continue reading this article.")
    site.expect_request("/club").respond_with_data(page, content_type="text/html")
    job = performed(imported(alice, site.url_for("/club")))
    assert "sign-in page" in job.result["failed"][0]["why"]
    assert "continue reading" not in LibraryDocument.objects.get().text


def test_sites_take_turns(alice: User, site: HTTPServer) -> None:
    urls = ["https://a.example/1", "https://a.example/2", "https://b.example/1"]
    job = imported(alice, *urls)
    rows = LibraryDocument.objects.in_bulk(job.options["documents"])
    order = [rows[key].url for key in map(_uuid, job.options["documents"])]
    assert order == [urls[0], urls[2], urls[1]]


def test_edited_deleted_and_foreign_documents_stay_as_they_are(
    alice: User, site: HTTPServer
) -> None:
    saved = add_document(alice, text="What I selected.", url=site.url_for("/wind"), by=alice.actor)
    job = imported(alice, site.url_for("/wind"), site.url_for("/tides"), site.url_for("/tea"))
    assert len(job.options["documents"]) == 2
    edited = LibraryDocument.objects.get(url=site.url_for("/tides"))
    edited.rewrite(title="Mine", text="My words.", by=alice.actor, expected_version=1)
    LibraryDocument.objects.get(url=site.url_for("/tea")).trash(by=alice.actor)

    job = performed(job)
    assert (job.result["fetched"], job.result["gone"]) == (1, 1)
    saved.refresh_from_db()
    edited.refresh_from_db()
    assert saved.text == "What I selected."
    assert edited.title == "Mine" and edited.text.startswith("My words.")
    assert edited.trust == "external"  # it has the page's words now


def test_new_tags_reach_a_document_with_its_page(alice: User, site: HTTPServer) -> None:
    performed(imported(alice, site.url_for("/tides")))
    text = (
        "<!DOCTYPE NETSCAPE-Bookmark-file-1>\n<DL><p>"
        f'<DT><A HREF="{site.url_for("/tides")}" TAGS="moon">Bookmark 0</A></DL>'
    )
    row = jobs.upload(alice, SimpleUploadedFile("bookmarks.html", text.encode()))
    jobs.confirm(performed(row))
    assert performed(row).result["updated"] == 1
    document = LibraryDocument.objects.get()
    assert "Tags: moon" in document.text and "Tags: sea" not in document.text
    assert "fortnight" in document.text and document.media_type == "text/html"


def test_deleting_everything_from_the_import_deletes_the_pages_too(
    alice: User, bob: User, site: HTTPServer, client_of: Callable[[User], Client]
) -> None:
    performed(imported(alice, site.url_for("/tides")))
    performed(imported(bob, site.url_for("/wind")))
    document = LibraryDocument.objects.for_user(alice).get()
    assert (
        "source=import%3Abookmarks"
        in client_of(alice).get(document.get_absolute_url()).content.decode()
    )

    source = app_exports.App.BOOKMARKS.source
    key, count = trash.forget_source(alice, source, by=alice.actor)
    assert (count, find(alice, "fortnight"), len(find(bob, "westerly"))) == (1, [], 1)
    # What was deleted isn't imported or fetched again.
    again = previewed(alice, site.url_for("/tides"))
    assert (again.brings, again.result["pages"]) == (0, 0)

    assert trash.undo_change(alice, key, by=alice.actor) == (1, [])
    assert len(find(alice, "fortnight")) == 1


def _uuid(key: str) -> Any:
    return LibraryDocument._meta.pk.to_python(key)
