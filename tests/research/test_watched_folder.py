"""Runs over a watched folder whose files are edited in between, without a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import LibraryDocument, Revision, Topic, TopicFact
from memory.models.errors import InvalidValue
from memory.services.library import folder as library_folder
from memory.services.records import history
from research.models import DeltaItem, Run
from research.services.runs.execution.starting import create_topic
from tests.pages.record_cast import text_of
from tests.research.real_documents import write

# Searches and reading run in threads, which see what is committed.
pytestmark = pytest.mark.django_db(transaction=True)

RunOf = Callable[[Topic], Run]
Edit = Callable[..., Run]

TRIAL = "The Harbor Cloud trial lasts 14 days and needs no credit card."
KEPT_SAFE = "Harbor Cloud encrypts all data at rest with AES-256."
LISBON = "Harbor Cloud plans to open a region in Lisbon in March 2027."
FOUNDED = "Harbor Cloud was founded in Hamburg in 2014 by three engineers."
DOCUMENTS = {
    "pricing.md": f"# Harbor Cloud pricing\n\n{TRIAL}\n",
    "security.md": f"# Harbor Cloud security\n\n{KEPT_SAFE}\n",
    "roadmap.txt": f"Harbor Cloud roadmap\n\n{LISBON}\n",
    "about.md": f"# About Harbor Cloud\n\n{FOUNDED}\n",
}


@pytest.fixture
def first(admin: Any, settings: Any, tmp_path: Path, run_of: RunOf) -> Callable[..., Topic]:
    """Return a function that researches a topic for the first time, with more or other files."""

    def research(**more: str) -> Topic:
        settings.BEACON_LIBRARY_DIR, settings.BEACON_SEARCH = str(tmp_path), ["library"]
        files = {name.replace("_", "."): text for name, text in more.items()}
        write(tmp_path, DOCUMENTS | files)
        library_folder.scan_if_due(every=0)
        topic = create_topic(owner=admin, title="Harbor Cloud", by=admin.actor)
        run_of(topic)
        return topic

    return research


@pytest.fixture
def edited(tmp_path: Path, run_of: RunOf) -> Edit:
    """Return a function that overwrites files and runs the topic again."""

    def edit(topic: Topic, **files: str) -> Run:
        write(tmp_path, {name.replace("_", "."): text for name, text in files.items()})
        library_folder.scan_if_due(every=0)
        return run_of(topic)

    return edit


def told(run: Run) -> list[tuple[str, str]]:
    listed = run.delta_items.filter(status__in=DeltaItem.LISTED)
    return [(item.status, item.sentence) for item in listed.order_by("position")]


def facts(topic: Topic) -> set[str]:
    return set(TopicFact.objects.filter(topic=topic).current().values_list("text", flat=True))


def test_the_facts_of_an_emptied_document_are_gone_and_the_report_says_why_once(
    first: Callable[..., Topic], edited: Edit
):
    topic = first()

    run = edited(topic, security_md="", roadmap_txt="\n")
    assert sorted(told(run)) == [("gone", KEPT_SAFE), ("gone", LISBON)]
    assert "2 known documents are now empty (" in run.report.body and not run.warnings
    assert facts(topic) == {TRIAL, FOUNDED}

    again = edited(topic)
    assert again.report.is_quiet and not again.warnings
    assert "empty" not in again.report.body and "couldn’t be read" not in again.report.delta


def test_a_known_document_that_cant_be_read_is_not_a_new_source(
    first: Callable[..., Topic], edited: Edit
):
    topic = first()

    run = edited(topic, security_md="\x00" * 300)

    assert "new source" not in run.report.delta and "pages couldn’t be read" not in run.report.delta
    (warning,) = run.warnings
    assert warning.startswith("1 known page couldn’t be read again, so its facts weren’t checked (")
    assert "isn’t text" in warning and KEPT_SAFE in facts(topic)


def test_a_sentence_that_moved_to_another_document_is_confirmed_there(
    first: Callable[..., Topic], edited: Edit
):
    topic = first()

    moved = f"# Harbor Cloud security\n\n{FOUNDED}\n\n{KEPT_SAFE}\n"
    run = edited(topic, about_md="# About Harbor Cloud\n\nNothing yet.\n", security_md=moved)

    assert not told(run) and FOUNDED in facts(topic)
    assert TopicFact.objects.get(topic=topic, text=FOUNDED).source_title == "Harbor Cloud security"
    again = edited(topic, about_md="# About Harbor Cloud\n\nStill nothing.\n")
    assert not told(again) and "not confirmed since" not in again.report.body


def test_a_sentence_of_a_deleted_document_that_is_in_another_one_follows_it(
    first: Callable[..., Topic], edited: Edit, tmp_path: Path
):
    topic = first()

    (tmp_path / "about.md").unlink()
    run = edited(topic, security_md=f"# Harbor Cloud security\n\n{FOUNDED}\n\n{KEPT_SAFE}\n")

    assert not told(run)
    assert TopicFact.objects.get(topic=topic, text=FOUNDED).source_title == "Harbor Cloud security"


def test_a_correction_is_not_confirmed_by_the_sentence_it_corrects(
    first: Callable[..., Topic], edited: Edit
):
    topic = first()
    fact = TopicFact.objects.get(topic=topic, text=TRIAL)
    fact.edit(TRIAL.replace("14 days", "30 days"), by=topic.owner.actor)

    run = edited(topic, about_md=f"# About Harbor Cloud\n\n{FOUNDED} It has no investors.\n")

    items = DeltaItem.objects.filter(run=run, previous_fact=fact)
    assert [item.status for item in items] == ["gone quiet"]
    assert "1 fact is no longer on its page in the same words" in run.report.body
    run = edited(topic, pricing_md=f"# Harbor Cloud pricing\n\n{TRIAL.replace('14', '21')}\n")
    assert [status for status, *_rest in told(run)] == ["contradicted"]


def test_the_facts_of_a_renamed_document_were_checked_and_follow_it(
    first: Callable[..., Topic], edited: Edit, tmp_path: Path
):
    topic = first()
    (tmp_path / "pricing.md").unlink()

    run = edited(topic, prices_md=f"# Prices of Harbor Cloud\n\n{TRIAL} It includes support.\n")

    assert "checked because" not in run.report.body + run.report.summary
    assert TopicFact.objects.get(topic=topic, text=TRIAL).source_title == "Prices of Harbor Cloud"


def test_a_fact_follows_its_line_to_another_spelling_and_its_row_to_another_order_of_columns(
    first: Callable[..., Topic], edited: Edit
):
    plans = "# Harbor Cloud plans\n\n| Plan | Price | Users |\n| --- | --- | --- |\n| Team | 59 € | 10 |\n"
    office = "The second brnach office of Harbor Cloud opened in Porto in 2021."
    about = f"# About Harbor Cloud\n\nMore than 4,000 organisations use Harbor Cloud every day.\n\n{office}\n"
    topic = first(plans_md=plans, about_md=about)
    assert "Harbor Cloud plans, Team: Price 59 €; Users 10" in facts(topic) and office in facts(
        topic
    )

    columns = plans.replace("Price | Users", "Users | Price").replace("59 € | 10", "10 | 59 €")
    spelled = about.replace("brnach", "branch").replace("organisations", "organizations")
    run = edited(topic, plans_md=columns, about_md=spelled)

    assert not told(run)
    assert {
        "The second branch office of Harbor Cloud opened in Porto in 2021.",
        "More than 4,000 organizations use Harbor Cloud every day.",
        "Harbor Cloud plans, Team: Users 10; Price 59 €",
    } <= facts(topic)
    again = edited(topic)
    for body in (run.report.body, again.report.body):
        assert "not confirmed since" not in body and "weren’t read" not in body


def test_a_change_of_a_fact_that_newer_ones_outranked_continues_its_chain(
    first: Callable[..., Topic], edited: Edit
):
    topic = first()
    other = "# Harbor Cloud news\n\n" + "\n\n".join(
        f"Harbor Cloud opened its office number {n} in the year {2010 + n}." for n in range(1, 11)
    )
    edited(topic, news_md=other)
    old = TopicFact.objects.get(topic=topic, text=TRIAL)
    assert old.retired_as == TopicFact.RetiredAs.OUTRANKED

    edited(topic, pricing_md=f"# Harbor Cloud pricing\n\n{TRIAL.replace('14', '30')}\n")

    old.refresh_from_db()
    new = TopicFact.objects.get(topic=topic, text=TRIAL.replace("14", "30"))
    assert (old.retired_as, new.chain) == (TopicFact.RetiredAs.REPLACED, old.chain)


def test_a_change_in_a_csv_file_with_one_row_is_told_by_its_columns(
    first: Callable[..., Topic], edited: Edit
):
    head = "Harbor Cloud resource,Unit,Limit\n"
    topic = first(limits_csv=f"{head}Backup retention,days,14\nHarbor Cloud projects,count,200\n")

    run = edited(topic, limits_csv=f"{head}Backup retention,days,30\n")

    assert not any("Unit,Limit" in sentence for _status, sentence in told(run))


def test_the_undo_of_a_change_of_a_file_is_refused(
    first: Callable[..., Topic], edited: Edit, tmp_path: Path
):
    topic = first()
    edited(topic, about_md="# About Harbor Cloud\n\nNothing yet.\n")
    document = LibraryDocument.objects.get(path="about.md")
    change = Revision.objects.filter(record_id=document.pk).latest("id")

    with pytest.raises(InvalidValue, match="can’t be undone"):
        history.undo(change, by=topic.owner.actor)
    document.refresh_from_db()
    assert "Nothing yet." in document.text


def test_activity_offers_no_undo_of_a_file_and_says_where_its_document_went(
    first: Callable[..., Topic], edited: Edit, tmp_path: Path, client_of: Callable[[Any], Client]
):
    topic = first()
    (tmp_path / "about.md").unlink()
    edited(topic)
    address = f"{reverse('research:activity')}?kind=changes&type=librarydocument"

    page = text_of(client_of(topic.owner).get(address))

    assert (
        "removed the library document" in page
        and "document “About Harbor Cloud” to Trash" not in page
    )
    assert " Undo" not in page, page


def test_what_changed_in_a_document_that_was_also_renamed_is_reported_in_the_first_run_after_it(
    first: Callable[..., Topic], edited: Edit, tmp_path: Path
):
    plans = "| Plan | Price | Storage |\n|---|---|---|\n| Cove | 4 € | 10 GB |\n| Bay | 9 € | 50 GB |\n| Gulf | 19 € | 200 GB |\n"
    topic = first(plans_md=f"# Harbor Cloud plans\n\n{plans}")
    document = LibraryDocument.objects.get(path="plans.md")
    (tmp_path / "plans.md").unlink()

    run = edited(topic, tariffs_md=f"# Harbor Cloud plans\n\n{plans.replace('9 €', '11 €', 1)}")

    document.refresh_from_db()
    assert document.path == "tariffs.md" and document.trashed_at is None
    ((status, sentence),) = told(run)
    assert status == "changed" and "Bay" in sentence and "11 €" in sentence


def test_a_run_says_how_many_files_it_could_not_search_yet(
    first: Callable[..., Topic], tmp_path: Path, monkeypatch: Any, run_of: RunOf
):
    topic = first()
    assert not topic.runs.get().warnings
    write(tmp_path, {f"more{n}.md": f"# Harbor Cloud {n}\n\n{TRIAL}\n" for n in range(3)})
    scan = partial(library_folder.scan_if_due, seconds=-1)
    monkeypatch.setattr(library_folder, "scan_if_due", scan)

    [warning] = run_of(topic).warnings
    assert warning.startswith("3 files in the watched folder hadn’t been read")
