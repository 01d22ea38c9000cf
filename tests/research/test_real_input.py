"""Beacon on real input: the documentation of the installed packages, through the library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beacon_site.text.cleaning import one_line
from memory.models import ContentItem, LibraryDocument, Topic, TopicFact
from memory.services import topic_memory
from memory.services.library import folder as library_folder
from research.models import DeltaItem, Report, Run
from research.services.runs.execution.starting import create_topic
from research.services.runs.search import known_pages
from tests.research.real_documents import real_documents, write

# Searches and reading run in threads, which see what is committed.
pytestmark = pytest.mark.django_db(transaction=True)

RunOf = Callable[[Topic], Run]
TITLE = "HTTP client"
STOPS = "Harbour trams stop at the museum every day of the week."
FARES = "Harbour trams cost 2.40 euros for adults in the year 2027."
DOCUMENT = "library:2b6b6a2e-0000-4000-8000-000000000001/1"


class Folder:
    """Real documents in a watched folder: every third that speaks of the topic comes later."""

    def __init__(self, path: Path) -> None:
        self.path = path
        documents = real_documents()
        on_topic = [name for name, text in documents.items() if "client" in text and "HTTP" in text]
        self.later = {name: documents.pop(name) for name in on_topic[::3]}
        self.count = len(documents)
        self.add(documents)

    def add(self, documents: dict[str, str]) -> None:
        write(self.path, documents)

    def add_the_later(self) -> None:
        self.add(self.later)
        library_folder.scan_if_due(every=0)


@pytest.fixture
def folder(admin: Any, settings: Any, tmp_path: Path) -> Folder:
    settings.BEACON_LIBRARY_DIR = str(tmp_path)
    settings.BEACON_SEARCH = ["library"]
    watched = Folder(tmp_path)
    library_folder.scan_if_due(every=0, seconds=100)
    return watched


@pytest.fixture
def topic(folder: Folder, admin: Any) -> Topic:
    return create_topic(owner=admin, title=TITLE, by=admin.actor)


def _told(run: Run) -> list[DeltaItem]:
    return [item for item in run.delta_items.all() if item.status in DeltaItem.LISTED]


def _paths(report: Report) -> set[str]:
    """Return the documents that the run read first; known facts cite older ones."""
    new = (source for source in report.sources if source["state"] == "new")
    ids = {source["link"].split(":")[1].split("/")[0] for source in new}
    return set(LibraryDocument.objects.filter(pk__in=ids).values_list("path", flat=True))


@pytest.mark.requirement("R36", "R37", "R40", "R41", "R48")
def test_real_documents_give_findings_then_news_of_added_files_and_then_none(
    folder: Folder, topic: Topic, run_of: RunOf, settings: Any
):
    first = run_of(topic)

    _assert_quotes_stand_in_the_documents(first, settings.BEACON_URL)
    assert folder.count >= 200

    before = {item.sentence for item in _told(first)}
    folder.add_the_later()
    second, third = run_of(topic), run_of(topic)

    told = {item.sentence for item in _told(second)}
    assert told and not told & before
    assert _paths(second.report) <= set(folder.later)
    assert not _told(third) and third.new_count == 0


def _assert_quotes_stand_in_the_documents(run: Run, site: str) -> None:
    items = ContentItem.objects.filter(topic=run.topic)
    pages = {item.url: one_line(item.content) for item in items}
    links = {source["n"]: source["link"] for source in run.report.sources}
    found = run.steps.get(name="write").output["findings"]
    cited = [links[finding["citations"][0]] for finding in found]
    assert run.status == Run.Status.SUCCEEDED
    # Their number depends on which packages are installed.
    assert len(found) >= 3 and len(set(cited)) >= 2
    assert f"]({site}/library/" in run.report.as_markdown()
    assert all(one_line(f["quote"]) in pages[link] for f, link in zip(found, cited, strict=True))


def test_a_report_cites_each_edited_document_once(
    admin: Any, settings: Any, tmp_path: Path, run_of: RunOf
):
    settings.BEACON_LIBRARY_DIR, settings.BEACON_SEARCH = str(tmp_path), ["library"]
    kept = "# Harbour trams\n\nHarbour trams stop at the museum every day of the week.\n\n"
    write(tmp_path, {"trams.md": f"{kept}Harbour trams cost 2.40 euros for adults in 2027.\n"})
    library_folder.scan_if_due(every=0)
    topic = create_topic(owner=admin, title="Harbour trams", by=admin.actor)
    run_of(topic)
    write(tmp_path, {"trams.md": f"{kept}Harbour trams cost 2.80 euros for adults in 2027.\n"})
    library_folder.scan_if_due(every=0)

    report = run_of(topic).report

    assert "Changed:** Harbour trams cost 2.80 euros" in report.as_markdown()
    assert "stop at the museum every day of the week. [1] *(confirmed once" in report.body
    assert [source["title"] for source in report.sources] == ["Harbour trams"]


@pytest.fixture
def watched(admin: Any, settings: Any, tmp_path: Path, run_of: RunOf) -> Topic:
    """A topic that found the facts of the two documents of a watched folder."""
    settings.BEACON_LIBRARY_DIR, settings.BEACON_SEARCH = str(tmp_path), ["library"]
    write(tmp_path, {"stops.md": f"# Stops\n\n{STOPS}\n", "fares.md": f"# Fares\n\n{FARES}\n"})
    library_folder.scan_if_due(every=0)
    topic = create_topic(owner=admin, title="Harbour trams", by=admin.actor)
    run_of(topic)
    assert _facts(topic) == {STOPS, FARES}
    return topic


def _facts(topic: Topic) -> set[str]:
    return set(TopicFact.objects.filter(topic=topic).current().values_list("text", flat=True))


def test_the_facts_of_a_deleted_document_are_gone(watched: Topic, tmp_path: Path, run_of: RunOf):
    (tmp_path / "fares.md").unlink()
    library_folder.scan_if_due(every=0)

    second, third = run_of(watched), run_of(watched)

    assert [(item.status, item.sentence) for item in _told(second)] == [("gone", FARES)]
    assert "1 fact is gone because its document was deleted (Fares)." in second.report.body
    assert _facts(watched) == {STOPS} and not _told(third)


def test_a_kept_fact_of_a_deleted_document_stays_and_is_reported_by_no_run(
    watched: Topic, tmp_path: Path, run_of: RunOf
):
    fact = TopicFact.objects.get(topic=watched, text=FARES)
    fact.change(by=watched.owner.actor, pinned=True)
    (tmp_path / "fares.md").unlink()
    library_folder.scan_if_due(every=0)

    assert [_told(run_of(watched)) for _run in range(2)] == [[], []]
    assert _facts(watched) == {STOPS, FARES}


def test_when_all_documents_are_deleted_all_facts_are_gone(
    watched: Topic, tmp_path: Path, run_of: RunOf
):
    for name in ("fares.md", "stops.md"):
        (tmp_path / name).unlink()
    library_folder.scan_if_due(every=0)

    assert len(_told(run_of(watched))) == 2 and not _facts(watched)


def test_the_facts_of_a_renamed_document_stay(watched: Topic, tmp_path: Path, run_of: RunOf):
    (tmp_path / "fares.md").rename(tmp_path / "prices.md")
    library_folder.scan_if_due(every=0)

    assert [_told(run_of(watched)) for _run in range(2)] == [[], []]
    assert _facts(watched) == {STOPS, FARES}


def test_a_renamed_document_that_a_run_does_not_read_is_not_deleted(
    watched: Topic, tmp_path: Path, run_of: RunOf
):
    facts = topic_memory.load(watched).memory.facts
    (tmp_path / "fares.md").rename(tmp_path / "prices.md")
    (tmp_path / "stops.md").unlink()
    library_folder.scan_if_due(every=0)
    work: Any = SimpleNamespace(
        topic=watched, settings=SimpleNamespace(services=["library"]), is_stopping=False
    )

    gone = known_pages.deleted_documents(work, facts)

    assert [fact.text for fact in facts if fact.url in gone] == [STOPS]


@pytest.mark.parametrize(
    ("services", "read"),
    [(["wikipedia"], ["https://a.example/"]), (["library"], ["https://a.example/", DOCUMENT])],
)
def test_a_run_without_the_library_reads_no_newer_version_of_its_documents(
    monkeypatch: pytest.MonkeyPatch, services: list[str], read: list[str]
):
    monkeypatch.setattr(known_pages.inputs, "loaded_memory", lambda work: None)
    monkeypatch.setattr(
        known_pages, "links_of", lambda topic, memory: ["https://a.example/", DOCUMENT]
    )
    work: Any = SimpleNamespace(topic=None, settings=SimpleNamespace(services=services))

    assert known_pages.links(work) == read
