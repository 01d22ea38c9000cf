"""A topic and scripted providers, for tests of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from memory.models import Topic
from memory.services.llm import connections
from research.models import Run
from research.services.runs.execution import pipeline, starting
from research.services.runs.search import reading, searching
from tests.providers.fakes import FakeFetcher, FakeLanguageModel, FakeSearch
from tests.research import cast


class Providers:
    """The scripted services of one test; `model` is None until a test sets one."""

    def __init__(self) -> None:
        self.search = FakeSearch()
        self.pages = FakeFetcher()
        self.model: FakeLanguageModel | None = None


def _script(patch: pytest.MonkeyPatch) -> Providers:
    """Use scripted search, pages and model instead of the site's; no pauses between attempts."""
    scripted = Providers()
    patch.setattr(connections, "search_services", lambda names=(): ["fake"])
    patch.setattr(searching, "search_provider", lambda name, *, owner: scripted.search)
    patch.setattr(connections, "language_model", lambda: scripted.model)
    patch.setattr(reading, "get_fetcher", lambda: scripted.pages)
    patch.setattr(searching, "PAUSES", (0.0, 0.0))
    return scripted


@contextmanager
def scripted_providers() -> Iterator[Providers]:
    """Scripted services for a fixture of another scope than a test's."""
    with pytest.MonkeyPatch.context() as patch:
        yield _script(patch)


@pytest.fixture
def providers(monkeypatch: pytest.MonkeyPatch) -> Providers:
    """Scripted services for one test.

    The test's own patches are undone by the same `monkeypatch`, or they would bring these back.
    """
    return _script(monkeypatch)


@pytest.fixture
def topic(alice: Any) -> Topic:
    """Alice's topic, not researched yet."""
    return starting.create_topic(owner=alice, title="Solid-state batteries", by=alice.actor)


def carry_out(topic: Topic) -> Run:
    """Start a run of a topic, carry it out and return it."""
    run = Run.objects.start(topic, trigger="person", by=topic.owner.actor)
    pipeline.execute(run.pk, worker="test")
    run.refresh_from_db()
    topic.refresh_from_db()
    return run


@pytest.fixture
def run_of() -> Callable[[Topic], Run]:
    """Return a function that starts a run of a topic, carries it out and returns it."""
    return carry_out


@pytest.fixture
def once(topic: Topic, providers: Providers, run_of: Callable[[Topic], Run]) -> Run:
    """A baseline over page 1; page 2 is new to the next run."""
    cast.set_up(providers, 1)
    run = run_of(topic)
    cast.set_up(providers, 1, 2)
    return run


@pytest.fixture
def run(topic: Topic, providers: Providers, run_of: Callable[[Topic], Run]) -> Run:
    """A baseline over two pages, without a model."""
    cast.set_up(providers, 1, 2)
    return run_of(topic)
