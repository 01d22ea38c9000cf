"""`/library` for clients: a text, a web page or a file."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from pytest_httpserver import HTTPServer

from memory.models import Agent, LibraryDocument, ReviewLevel
from memory.services.library import documents
from tests.api.cast import Program, items, problem

PAGE = "<html><head><title>The fleet</title></head><body><article><p>{}</p></article></body></html>"
WORDS = "The line is to make two million cells a year once both halls have been equipped. " * 4


@pytest.fixture
def page(httpserver: HTTPServer, settings: Any) -> str:
    settings.BEACON_FETCH_ALLOW_HOSTS = frozenset({f"{httpserver.host}:{httpserver.port}"})
    httpserver.expect_request("/fleet").respond_with_data(
        PAGE.format(WORDS), content_type="text/html"
    )
    url: str = httpserver.url_for("/fleet")
    return url


def test_a_text_is_added_listed_and_read(agent: Program) -> None:
    made = agent.post("/library", {"text": "# The fleet\n\nIt sails in May."})
    assert made.status_code == 201
    assert (made.json()["title"], made.json()["trust"]) == ("The fleet", "agent")
    assert made["Location"].endswith(f"/library/{made.json()['id']}")

    read = agent.get(f"/library/{made.json()['id']}")
    assert read.json()["text"] == "# The fleet\n\nIt sails in May."
    assert [one["title"] for one in items(agent.get("/library"))] == ["The fleet"]


@pytest.mark.requirement("R268")
def test_a_web_page_is_fetched(agent: Program, page: str) -> None:
    made = agent.post("/library", {"url": page})
    assert made.status_code == 201, made.content
    document = LibraryDocument.objects.get()
    assert (document.title, document.url) == ("The fleet", page)
    assert document.text.strip() == WORDS.strip()


def test_an_agent_that_reads_a_page_it_added_has_read_external_text(
    alice: Any, agent: Program, page: str
) -> None:
    made = agent.post("/library", {"url": page}).json()
    assert made["trust"] == "external"
    agent.get(f"/library/{made['id']}")
    assert Agent.objects.filter(owner=alice, read_trust="external").exists()
    mine = documents.add_document(alice, text="Two cells.", url="https://a.example", by=alice.actor)
    assert mine.trust == "external"


def test_slow_pages_hold_only_a_few_web_threads(agent: Program, page: str) -> None:
    for _number in range(documents.MAX_FETCHED):
        documents._fetching.acquire()
    try:
        told = problem(agent.post("/library", {"url": page}), 422)
    finally:
        for _number in range(documents.MAX_FETCHED):
            documents._fetching.release()
    assert "Try again in a minute" in str(told["errors"])
    assert agent.post("/library", {"url": page}).status_code == 201


def test_the_link_of_an_imported_document_is_a_web_address(
    alice: Any, client_of: Callable[[Any], Client]
) -> None:
    document = documents.add_document(alice, text="It sails.", by=alice.actor)
    LibraryDocument.objects.update(url="javascript:alert(1)")
    page = client_of(alice).get(document.get_absolute_url()).content.decode()
    assert "javascript:alert(1)" in page
    assert 'href="javascript:' not in page


@pytest.mark.requirement("R268")
def test_a_selection_keeps_its_origin_and_fetches_nothing(agent: Program) -> None:
    made = agent.post("/library", {"text": "Two million cells.", "url": "https://example.org/a"})
    assert (made.status_code, made.json()["url"]) == (201, "https://example.org/a")


def test_a_file_is_added(agent: Program) -> None:
    encoded = base64.b64encode(b"# Notes\n\nIt sails.").decode()
    made = agent.post("/library", {"file": encoded, "file_name": "notes.md"})
    assert (made.status_code, made.json()["title"]) == (201, "Notes")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "text"),
        ({"text": "   "}, "text"),
        ({"url": "javascript:alert(1)"}, "url"),
        ({"url": "http://127.0.0.1:1/"}, "url"),
        ({"url": "http://169.254.169.254/latest/"}, "url"),
        ({"file": "!!", "file_name": "a.md"}, "file"),
        ({"file": "aGk=", "file_name": ""}, "file"),
        ({"file": "aGk=", "file_name": "a.md", "text": "x"}, "file"),
        ({"file": "aGk=", "file_name": "a.exe"}, "file"),
    ],
)
def test_bad_input_is_explained_and_nothing_is_stored(
    agent: Program, body: dict[str, str], field: str
) -> None:
    told = problem(agent.post("/library", body), 422)
    assert any(name.endswith(field) for name in told["errors"])
    assert not LibraryDocument.objects.exists()


def test_the_same_text_is_stored_once(agent: Program) -> None:
    agent.post("/library", {"text": "It sails."})
    assert "already in the library" in str(
        problem(agent.post("/library", {"text": "It sails."}), 422)
    )


def test_a_page_clipped_again_and_again_is_stored_once_and_then_refused(
    agent: Program, settings: Any
) -> None:
    settings.BEACON_API_REQUESTS_PER_MINUTE = 20
    statuses = [agent.post("/library", {"text": "It sails."}).status_code for _ in range(60)]
    assert LibraryDocument.objects.count() == 1
    assert set(statuses[1:]) == {422, 429}


def test_who_reviews_everything_lets_no_agent_add(alice: Any, agent: Program) -> None:
    ReviewLevel.objects.create(owner=alice, kind="default", level="hold all")
    problem(agent.post("/library", {"text": "It sails."}), 403)
    assert not LibraryDocument.objects.exists()


def test_no_one_reads_another_s_document(alice: Any, bob: Any) -> None:
    document = documents.add_document(alice, text="It sails.", by=alice.actor)
    stranger = Program(bob, "read")
    problem(stranger.get(f"/library/{document.pk}"), 404)
    assert items(stranger.get("/library")) == []
