"""The embedders: the endpoint's with a real loopback server, and the real local one."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from werkzeug import Response

from beacon_site.net.errors import ProviderNonsense, ProviderRejected, ProviderUnavailable
from beacon_site.net.extract import MIB, ChildProcess
from beacon_site.providers.llm import adapters, minilm_child
from beacon_site.providers.llm.adapters import (
    BATCH,
    MAX_TEXT_LENGTH,
    OpenAIEmbedder,
    get_embedder,
    local_is_installed,
)
from beacon_site.providers.llm.base import ENDPOINT, LOCAL, EmbedderProfile
from tests.providers.embedding_server import EmbeddingServer, vectors
from tests.providers.fakes import FakeEmbedder
from tests.providers.loopback import html, slow, status

KEY = "sk-loopback-0123456789"
installed = pytest.mark.skipif(not local_is_installed(), reason="the local embedder is optional")


@pytest.fixture(scope="module")
def _running() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as running:
        yield running


@pytest.fixture
def server(_running: EmbeddingServer) -> EmbeddingServer:
    _running.forget()
    return _running


@pytest.fixture
def embedder(server: EmbeddingServer) -> OpenAIEmbedder:
    return OpenAIEmbedder(
        EmbedderProfile(ENDPOINT, model="tiny", base_url=server.base_url, api_key=KEY, timeout=2)
    )


@pytest.mark.requirement("R211")
def test_it_asks_for_plain_figures_with_model_and_key(embedder, server):
    embedder.embed(["one", "two"])

    assert server.paths == ["/v1/embeddings"]
    assert server.asked == [{"model": "tiny", "input": ["one", "two"], "encoding_format": "float"}]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.requirement("R211")
def test_the_usual_model_is_the_small_one_of_1536_dimensions():
    embedder = get_embedder(EmbedderProfile(ENDPOINT))

    assert (embedder.model, embedder.dimensions) == ("text-embedding-3-small", 1536)


def test_vectors_have_length_one_and_the_order_of_the_texts(embedder, server):
    server.enqueue(vectors([3, 4, 0, 0], [0, 0, 0, 9], backwards=True))

    assert embedder.embed(["a", "b"]) == [[0.6, 0.8, 0, 0], [0, 0, 0, 1]]


def test_many_texts_go_in_batches_and_long_ones_are_cut(embedder, server):
    made = embedder.embed(["x" * 100_000] * (BATCH + 1))

    assert len(made) == BATCH + 1
    assert [len(body["input"]) for body in server.asked] == [BATCH, 1]
    assert {len(text) for text in server.texts} == {MAX_TEXT_LENGTH}


def test_an_error_that_passes_is_tried_again(embedder, server):
    server.enqueue(status(500))

    assert len(embedder.embed(["one"])) == 1
    assert len(server.asked) == 2


def test_one_that_does_not_pass_is_unavailable_after_two_tries(embedder, server):
    server.enqueue(status(500), status(500))

    with pytest.raises(ProviderUnavailable, match="isn’t available"):
        embedder.embed(["one"])


def test_a_limit_of_an_hour_is_not_waited_for(embedder, server):
    server.enqueue(status(429, "slow down", headers={"Retry-After": "3600"}))

    with pytest.raises(ProviderUnavailable) as told:
        embedder.embed(["one"])
    assert (told.value.retry_after, len(server.asked)) == (3600, 1)


def test_a_refused_key_says_so_without_the_key(embedder, server):
    server.enqueue(status(401, f"Incorrect API key provided: {KEY}"))

    with pytest.raises(ProviderRejected, match="rejected the key") as told:
        embedder.embed(["one"])
    assert KEY not in str(told.value)


def test_an_unknown_model_is_named(embedder, server):
    server.enqueue(status(404, {"code": "model_not_found", "message": "no such model"}))

    with pytest.raises(ProviderRejected, match="has no model “tiny”"):
        embedder.embed(["one"])


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([[1, 0, 0, 0]], "1 instead of 2"),
        ([[1, 0, 0, 0], [1, 0]], "2 dimensions instead of 4"),
        ([[1, 0, 0, 0], [1, None, 0, 0]], "that isn’t a list of numbers"),
        ([[1, 0, 0, 0], []], "that isn’t a list of numbers"),
        ([[0, 0, 0, 0], [1, 0, 0, 0]], "an empty vector"),
    ],
)
def test_vectors_that_are_none_are_nonsense(embedder, server, rows, told):
    server.enqueue(vectors(*rows))

    with pytest.raises(ProviderNonsense, match=told):
        embedder.embed(["one", "two"])


@pytest.mark.parametrize("figure", ["NaN", "Infinity", "1e999"])
def test_figures_that_are_not_finite_are_nonsense(embedder, server, figure):
    body = '{"data": [{"index": 0, "embedding": [1, %s, 0, 0]}]}' % figure  # noqa: UP031
    server.enqueue(lambda _request: Response(body, content_type="application/json"))

    with pytest.raises(ProviderNonsense, match="that isn’t a list of numbers"):
        embedder.embed(["one"])


def test_a_model_that_changes_its_dimensions_is_nonsense(embedder, server):
    embedder.embed(["one"])
    server.enqueue(vectors([1, 0]))

    with pytest.raises(ProviderNonsense, match="2 dimensions instead of 4"):
        embedder.embed(["two"])


def test_a_web_page_isnt_a_list_of_vectors(embedder, server):
    server.enqueue(html())

    with pytest.raises(ProviderNonsense, match="didn’t return a list of vectors"):
        embedder.embed(["one"])


def test_a_slow_server_is_given_up(server):
    server.enqueue(slow(1.5), slow(1.5))
    profile = EmbedderProfile(ENDPOINT, base_url=server.base_url, timeout=0.3)

    with pytest.raises(ProviderUnavailable, match=r"didn’t respond within 0\.3 seconds"):
        OpenAIEmbedder(profile).embed(["one"])


def test_the_key_is_in_no_repr():
    assert KEY not in repr(EmbedderProfile(ENDPOINT, api_key=KEY))


# --- on this machine ------------------------------------------------------------------------------


@installed
def test_the_local_model_puts_like_next_to_like():
    embedder = get_embedder(EmbedderProfile(LOCAL))
    car, auto, other = embedder.embed(["a red car", "an automobile painted red", "tax law"])

    assert embedder.is_local and embedder.dimensions == len(car) == 384
    assert math.isclose(math.hypot(*car), 1, rel_tol=1e-6)
    assert math.dist(car, auto) < math.dist(car, other)


@installed
def test_the_local_model_bears_any_text():
    made = get_embedder(EmbedderProfile(LOCAL)).embed(["", "\x00", "猫" * 9000, "a " * 50_000])

    assert [len(vector) for vector in made] == [384] * 4


@installed
def test_a_tokenizer_of_other_content_is_not_used(tmp_path, monkeypatch):
    other = tmp_path / "tokenizer.json"
    other.write_bytes(minilm_child.TOKENIZER.read_bytes() + b" ")
    monkeypatch.setattr(minilm_child, "TOKENIZER", other)

    with pytest.raises(minilm_child.NotReviewed, match=r"tokenizer\.json"):
        minilm_child.loaded()


def answering(monkeypatch: pytest.MonkeyPatch, program: str, **limits: float) -> ChildProcess:
    """Let a small program stand in for the child that holds the model."""
    command = [sys.executable, "-u", "-c", "import sys, time\nprint('{}')\n" + program]
    child = ChildProcess(command, seconds=5, memory_limit=512 * MIB, **limits)
    monkeypatch.setattr(adapters, "child", lambda: child)
    monkeypatch.setattr(adapters, "PACKAGES", ())
    return child


def test_a_file_that_is_not_the_reviewed_one_is_explained(monkeypatch):
    child = answering(monkeypatch, 'for line in sys.stdin: print(\'{"trouble": "model.onnx"}\')')

    with pytest.raises(ProviderRejected, match="doesn’t have the expected checksum"):
        adapters.MiniLmEmbedder().embed(["one"])
    child.close()


def test_a_model_that_crashes_is_reported_and_can_be_asked_again(monkeypatch):
    child = answering(monkeypatch, "sys.stdin.readline(); time.sleep(1.1); sys.exit(1)")

    with pytest.raises(ProviderUnavailable, match="stopped unexpectedly"):
        adapters.MiniLmEmbedder().embed(["one"])
    assert child.pid is None


@pytest.mark.requirement("R97")
def test_without_its_packages_the_local_model_says_so(monkeypatch):
    monkeypatch.setattr(adapters, "PACKAGES", ("no_such_package",))

    assert not local_is_installed()
    with pytest.raises(ProviderRejected, match="isn’t installed"):
        adapters.MiniLmEmbedder().embed(["one"])


@installed
def test_the_model_is_only_in_a_child_which_ends_after_its_rest(monkeypatch):
    child = ChildProcess(adapters.COMMAND, seconds=30, memory_limit=1024 * MIB, rest=3)
    monkeypatch.setattr(adapters, "child", lambda: child)
    embedder = adapters.MiniLmEmbedder()
    assert not embedder.is_ready
    loaded_before = set(sys.modules)
    embedder.embed(["one"])
    assert embedder.is_ready and "onnxruntime" not in set(sys.modules) - loaded_before

    ended_by = time.monotonic() + 30
    while child.pid is not None:
        assert time.monotonic() < ended_by
        time.sleep(0.05)
    assert not embedder.is_ready


def test_nothing_heavy_is_loaded_before_a_text_is_embedded():
    told = (
        "import sys, beacon_site.providers.llm.adapters;"
        "print({'onnxruntime', 'tokenizers', 'numpy', 'openai'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


# --- the fake -------------------------------------------------------------------------------------


def test_the_fake_puts_texts_that_share_words_near_each_other():
    fake = FakeEmbedder(alike={"car": "automobile"})
    car, auto, other = fake.embed(["red car", "red automobile", "tax law"])

    assert math.dist(car, auto) < 1e-6 < math.dist(car, other)
    assert fake.asked == ["red car", "red automobile", "tax law"]


def test_the_fake_fails_as_it_was_told():
    fake = FakeEmbedder()
    fake.enqueue(ProviderUnavailable("down"))

    with pytest.raises(ProviderUnavailable, match="down"):
        fake.embed(["one"])
