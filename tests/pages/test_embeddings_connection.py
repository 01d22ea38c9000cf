"""Connections: what makes vectors for recall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from memory.models import Embedding, EmbeddingDue, User
from memory.services.llm import connections
from tests.providers.embedding_server import EmbeddingServer
from tests.providers.loopback import status

HTMX = {"HX-Request": "true"}
PAGE = "/settings/connections/"
KEY = "sk-very-secret-1234"


@pytest.fixture(scope="module")
def _running() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture
def server(_running: EmbeddingServer, settings: Any) -> EmbeddingServer:
    settings.BEACON_EMBEDDINGS = "endpoint"
    _running.forget()
    return _running


@pytest.fixture
def browser(admin: User, client_of: Callable[[User], Client]) -> Client:
    """The admin's browser."""
    return client_of(admin)


def save(browser: Client, name: str = "embeddings", *, htmx: bool = False, **fields: str) -> str:
    data = {f"{name}-{field}": value for field, value in fields.items()}
    headers = HTMX if htmx else {}
    response = browser.post(f"{PAGE}{name}/", data, headers=headers, follow=not htmx)
    assert response.status_code == 200
    return str(response.content.decode())


def test_an_endpoint_is_saved_tested_and_used(browser: Client, server: EmbeddingServer):
    body = save(browser, base_url=server.base_url, model="tiny", secret=KEY)
    assert "An external endpoint is in use." in body
    assert KEY not in body

    tested = browser.post(f"{PAGE}embeddings/test/", follow=True).content.decode()

    assert "“tiny” returned a vector with 4 dimensions." in tested
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert connections.embedder().model == "tiny"


def test_over_htmx_the_section_and_the_test_come_alone(browser: Client, server: EmbeddingServer):
    body = save(browser, htmx=True, base_url=f"{server.base_url}/embeddings", model="tiny")
    assert body.strip().startswith('<section id="connection_embeddings"')
    assert connections.stored("embeddings").base_url == server.base_url

    tested = browser.post(f"{PAGE}embeddings/test/", headers=HTMX).content.decode()
    assert "Test succeeded" in tested
    assert "<html" not in tested


def test_the_test_shows_the_real_error(browser: Client, server: EmbeddingServer):
    save(browser, base_url=server.base_url, model="tiny", secret=KEY)
    server.enqueue(status(401, "that key is of yesterday"))

    body = browser.post(f"{PAGE}embeddings/test/", headers=HTMX).content.decode()

    assert "Test failed" in body
    assert "that key is of yesterday" in body
    assert "Last test failed:" in browser.get(PAGE).content.decode()


@pytest.mark.parametrize("url", ["ftp://h/v1", "http://user:secret@h/v1", "http://h/v1?key=1"])
def test_an_address_that_is_none_is_explained_and_not_stored(browser: Client, url: str):
    body = save(browser, htmx=True, base_url=url)

    assert 'aria-invalid="true"' in body
    assert connections.stored("embeddings").pk is None


def test_a_stranger_may_neither_see_nor_change_it(alice: User, client_of: Any):
    response = client_of(alice).post(f"{PAGE}embeddings/", {"embeddings-model": "mine"})

    assert response.status_code in (302, 403, 404)
    assert connections.stored("embeddings").pk is None


def test_how_far_the_vectors_are_is_shown(browser: Client, admin: User, server: EmbeddingServer):
    save(browser, base_url=server.base_url, model="tiny")
    EmbeddingDue.objects.all().delete()
    Embedding.objects.all().delete()
    more: dict[str, Any] = {"owner": admin, "record_type": "note"}
    for n in range(3):
        pk = f"00000000-0000-0000-0000-00000000000{n}"
        EmbeddingDue.objects.create(object_id=pk, needs_local_embedder=n == 0, **more)
    Embedding.objects.create(
        object_id=admin.pk and f"00000000-0000-0000-0000-0000000000{10}",
        model="tiny",
        dimensions=1,
        values=[1.0],
        created=timezone.now(),
        **more,
    )

    body = browser.get(PAGE).content.decode()

    assert "1 record has an embedding" in body
    assert "2 are waiting" in body
    assert "1 is sensitive, so only this machine can embed it" in body
    assert "The database can’t compare embeddings" in body


def test_with_an_endpoint_the_page_asks_a_fixed_number_of_queries(
    browser: Client, server: EmbeddingServer, django_assert_max_num_queries: Any
):
    save(browser, base_url=server.base_url, model="tiny")

    with django_assert_max_num_queries(12):
        browser.get(PAGE)


@pytest.mark.requirement("R213")
def test_health_reports_an_embedder_that_fails_and_of_a_database_without_the_extension(
    browser: Client, server: EmbeddingServer
):
    save(browser, base_url=server.base_url, model="tiny")
    body = browser.get("/settings/health/").content.decode()
    assert "The database doesn’t have the “vector” extension" in body

    failing = {"model": "tiny", "failing": "it was away", "failing_at": "2026-11-01T10:00:00+00:00"}
    connections.keep_found("embeddings", failing, under="used")
    assert (
        "The last attempt failed: it was away" in browser.get("/settings/health/").content.decode()
    )


# --- which one is used ----------------------------------------------------------------------------


@pytest.mark.requirement("R211")
@pytest.mark.django_db
def test_a_key_at_openai_makes_its_small_model_the_embedder(settings: Any):
    settings.BEACON_EMBEDDINGS = "auto"
    settings.BEACON_LLM_MODEL, settings.OPENAI_API_KEY = "some-model", KEY

    chosen = connections.embedder_profile()

    assert (chosen.model, chosen.base_url, chosen.api_key) == ("text-embedding-3-small", "", KEY)


@pytest.mark.django_db
def test_the_environments_address_wins_and_gets_no_key_of_another(settings: Any):
    settings.BEACON_EMBEDDINGS = "auto"
    settings.BEACON_EMBEDDINGS_BASE_URL = "http://127.0.0.1:1/v1"
    settings.BEACON_LLM_MODEL, settings.OPENAI_API_KEY = "some-model", KEY

    chosen = connections.embedder_profile()

    assert (chosen.base_url, chosen.api_key) == ("http://127.0.0.1:1/v1", "")


@pytest.mark.django_db
def test_each_setting_allows_what_it_says(settings: Any, monkeypatch: pytest.MonkeyPatch):
    settings.BEACON_EMBEDDINGS_BASE_URL = "http://127.0.0.1:1/v1"
    monkeypatch.setattr("beacon_site.providers.llm.adapters.local_is_installed", lambda: True)
    used = {}
    for mode in ("auto", "endpoint", "local", "none"):
        settings.BEACON_EMBEDDINGS = mode
        used[mode] = found.where if (found := connections.embedder_profile()) else None

    assert used == {"auto": "endpoint", "endpoint": "endpoint", "local": "local", "none": None}


@pytest.mark.requirement("R97")
@pytest.mark.django_db
def test_without_packages_and_endpoint_there_is_none_and_it_says_what_to_do(settings, monkeypatch):
    settings.BEACON_EMBEDDINGS = "auto"
    monkeypatch.setattr("beacon_site.providers.llm.adapters.local_is_installed", lambda: False)

    assert connections.embedder() is None
    assert "Install a local one with “make up”" in connections.why_no_embedder()


@pytest.mark.requirement("R236")
@pytest.mark.django_db
def test_its_key_leaves_in_no_prompt(admin: User):
    row = connections.stored("embeddings")
    connections.save(row, by=admin, new_secret=KEY)

    assert KEY in connections.secrets_in_use()
