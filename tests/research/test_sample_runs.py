"""The sample's runs: what a table, a changelog and new articles changed, without a model or vectors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from memory.models import Note, Observation, Proposal, Source, Topic
from memory.services.topic_memory import KnownFact
from research.models import DeltaItem, Run
from research.services.runs import presenters
from research.services.runs.execution import starting
from research.services.runs.search import known_pages
from tests.research import cast, factories

# Searches and reading run in threads, which see what is committed.
pytestmark = pytest.mark.django_db(transaction=True)

RunOf = Callable[[Topic], Run]
ROW = "Versions at Tidewater Hosting, PostgreSQL "
# Each sentence that a run reports as changed, with the beginning of the one before it.
CHANGED = {
    2: {
        f"{ROW}17: Status Available; Forced upgrade 2029-12-04": f"{ROW}17: Status Preview",
        f"{ROW}13: Status Available; Forced upgrade 2025-12-02": f"{ROW}13: Status Available; Forced upgrade 2026-01-20",
        "PostgreSQL 12 reached its end of life": "PostgreSQL 12 is scheduled to reach",
        "The latest minor releases of PostgreSQL are 17.6": "The latest minor releases of PostgreSQL are 16.4",
        "PostgreSQL 17 was released as a final version": "PostgreSQL 17 is available as Release Candidate 1",
        "The newest version for production is now PostgreSQL 17": "The newest version for production remains PostgreSQL 16",
    },
    3: {
        f"{ROW}18: Status Available; Forced upgrade 2030-12-03": f"{ROW}18: Status Preview",
        f"{ROW}14: Status Available; Forced upgrade 2026-12-01": f"{ROW}14: Status Available; Forced upgrade 2027-01-19",
        "The latest minor releases of PostgreSQL are 18.1": "The latest minor releases of PostgreSQL are 17.6",
        "The newest version for production is now PostgreSQL 18": "The newest version for production is now PostgreSQL 17",
    },
}  # fmt: skip


def of_status(run: Run, status: str) -> list[DeltaItem]:
    return [item for item in run.delta_items.all() if item.status == status]


def test_its_reports_show_cells_entries_and_rows_that_changed_and_nothing_false(
    alice: Any, run_of: RunOf
):
    topic = starting.create_sample_topic(alice, by=alice.actor)
    run_of(topic)

    for number, entry, gone in ((2, "1.5.0 (2025-06-03)", 12), (3, "1.6.0 (2025-11-20)", 13)):
        run = run_of(topic)

        told = of_status(run, "changed")
        assert len(told) == len(CHANGED[number]), [item.sentence for item in told]
        for now, before in CHANGED[number].items():
            (item,) = (one for one in told if one.sentence.startswith(now))
            assert item.previous_text.startswith(before)
        assert not of_status(run, "contradicted")
        assert [i.sentence.split(":")[0] for i in of_status(run, "gone")] == [f"{ROW}{gone}"]
        entries = [i for i in of_status(run, "new") if "pg-rehearse" in i.sentence]
        assert len(entries) == 2
        assert all(i.sentence.startswith(f"Changelog of pg-rehearse, {entry}: ") for i in entries)
        assert of_status(run, "confirmed")


def test_a_row_that_is_gone_isnt_a_finding_of_the_run(alice: Any, run_of: RunOf):
    topic = starting.create_sample_topic(alice, by=alice.actor)
    run = [run_of(topic) for _run in range(2)][-1]
    (gone,) = of_status(run, "gone")

    for name in ("extract", "reflect"):
        cast.followed(run, name)

    saved = Observation.objects.filter(source=run.source).values_list("content", flat=True)
    news = [*of_status(run, "new"), *of_status(run, "changed")]
    assert {item.sentence for item in news} <= set(saved)
    assert gone.sentence not in saved
    entry = Proposal.objects.get(source=run.source).after["content"]
    assert f"{len(news)} findings" in entry


def test_the_run_its_note_and_its_page_count_the_same_facts_and_results(alice: Any, run_of: RunOf):
    topic = starting.create_sample_topic(alice, by=alice.actor)
    run = [run_of(topic) for _run in range(2)][-1]

    cast.followed(run, "summarise")

    groups = presenters.of_run(run, list(run.delta_items.all()))["groups"]
    told = {kind: len(found) for kind, _heading, found in groups}
    assert told["new"] == len(of_status(run, "new")) + len(of_status(run, "changed"))
    assert told["confirmed"] == len(of_status(run, "confirmed"))
    said = f"facts: {told['new']} learned, {told['confirmed']} confirmed, {told['retired']} no longer current"
    found = presenters.found_counts(run.hits.all())
    note = Note.objects.get(source=run.source).content
    assert said in note and f"results: {found['all']} ({found['new']} new)" in note
    assert said in run.steps.get(name="save").detail and found["all"] < run.hits.count()


def test_its_fourth_run_has_nothing_new(alice: Any, run_of: RunOf):
    topic = starting.create_sample_topic(alice, by=alice.actor)
    run = [run_of(topic) for _run in range(4)][-1]

    assert run.report.is_quiet
    assert {item.status for item in run.delta_items.all()} <= {"confirmed", "gone quiet"}


def test_the_pages_of_facts_are_read_again_before_all_others(
    alice: Any, monkeypatch: pytest.MonkeyPatch
):
    """They were cited earliest, so the list of sources names them last."""
    topic = factories.make_topic(alice)
    urls = [f"https://news.example/{number}" for number in range(known_pages.MAX + 10)]
    for number, url in enumerate(urls):
        Source.objects.create(
            topic=topic, url=url, link=url, title=url, times_cited=1, first_run=1, last_run=number
        )
    facts = [KnownFact(str(number), f"Fact {number}.", url) for number, url in enumerate(urls[:3])]
    memory = SimpleNamespace(facts=facts, run_count=0)
    monkeypatch.setattr(known_pages.inputs, "loaded_memory", lambda work: memory)

    work: Any = SimpleNamespace(topic=topic, settings=SimpleNamespace(services=["library"]))
    found = known_pages.links(work)

    assert found[:3] == urls[:3]
    assert len(found) == len(set(found)) == known_pages.MAX
