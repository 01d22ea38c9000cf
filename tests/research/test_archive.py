"""Exporting everything of an owner to one file, and importing it unchanged."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.apps import apps
from django.db import models

from memory.accounts.archive import exporter
from memory.accounts.archive.importer import ImportContext, KindCounts, import_archive, summed
from memory.accounts.archive.kinds import EXPORTED, NOT_EXPORTED, in_order
from memory.models import (
    Activity,
    Agent,
    AgentScope,
    Conflict,
    ContentItem,
    FileDraft,
    ModelCall,
    NameAlias,
    Note,
    Observation,
    Reflection,
    RefusedSource,
    Revision,
    SavedView,
    ScratchpadEntry,
    SearchEntry,
    Session,
    SourceRule,
    Topic,
    TopicFact,
    TrashedRows,
    Use,
    User,
)
from memory.models.actors import REFLECTOR
from memory.services.content.snapshots import take_snapshot
from memory.services.context import identity
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, lock_section, save_file
from memory.services.notes.saving import supersede, write_note
from memory.services.review import proposals as review_services
from memory.services.search import bm25, ratings
from research.models import RemovedRun, Report, Run, Schedule
from research.pages import digests as pages_digests
from research.pages import shares
from research.services.facts import correcting
from research.services.notifications import channels, digests
from research.services.runs.execution.starting import create_topic
from research.services.runs.reporting import sentences as report_sentences
from research.services.topics import sharing
from research.services.topics.settings import standing_rules
from tests import kept_users
from tests.research import cast
from tests.research.conftest import Providers, scripted_providers
from tests.research.factories import active_notes

ANSWER = cast.report(1, 2)
# The log of the Beacon that takes an archive in says so, and of the account that it was made.
HEAT_PUMP = ("2026-02 Episodes", "Heat pump")
OF_HERE = {"imported", "account-created", "purged"}


class Full(NamedTuple):
    owner: int
    topic: UUID
    archive: Path


@pytest.fixture(scope="module")
def stored(stored_once: Any, tmp_path_factory: pytest.TempPathFactory) -> Full:
    """Alice, with something of everything: two runs, facts, notes and a chain, a session."""
    with stored_once(), scripted_providers() as providers:
        alice = kept_users.copied("alice")
        topic = create_topic(owner=alice, title="Solid-state batteries", by=alice.actor)
        fill(topic, providers)
        path = exported(alice, tmp_path_factory.mktemp("archive") / "a.zip")
    return Full(alice.pk, topic.pk, path)


@pytest.fixture
def full(stored: Full, db: None) -> User:
    return User.objects.get(pk=stored.owner)


@pytest.fixture
def path(stored: Full) -> Path:
    """Everything of Alice's in one file."""
    return stored.archive


def fill(topic: Topic, providers: Providers) -> None:
    owner: User = topic.owner
    by = owner.actor
    for numbers in ((1, 2), (1, 2, 3)):
        cast.set_up(providers, *numbers)
        providers.model = cast.model(cast.PLAN, cast.report(*numbers[-2:]))
        cast.carried_out(cast.started(topic))
        topic.refresh_from_db()
    standing_rules.add(topic, "stop", "spam.example", by=by)
    TopicFact.objects.filter(topic=topic).current()[0].strike(by=by, why="wrong")
    note = write_note(owner, "log", "The heat pump was serviced.", by=by, tags=["house"])
    supersede(note, "The heat pump was serviced in May.", by=by)
    identity.write_soul(owner, "Ask before you act, and say what you do not know.", by=by)
    run = topic.runs.latest("id")
    finding = Observation.objects.create(
        owner=owner, category="finding", content="Cells got cheaper.", source=run.source,
        digest=Observation.digest_of("Cells got cheaper."), topic=topic,
    )  # fmt: skip
    Observation.follow([finding])
    ratings.rate(owner, "cheaper cells", finding, "useful", by=by, reason="A price.")
    Conflict.objects.note(owner, "contradiction", note.superseded_by, finding, source=run.source)
    RefusedSource.objects.create(owner=owner, kind="domain", name="spam.example", reason="spam")
    AgentScope.objects.claim(owner, "session:trip", "desk")
    ScratchpadEntry.objects.create(owner=owner, key="plan/next", value="call\nNora 李")
    SavedView.objects.create(owner=owner, page="notes", name="House", query="tag=house")
    NameAlias.objects.create(
        owner=owner, key="kiln", name="Kiln", target_key="kiln 2", target="Kiln 2"
    )
    TrashedRows.objects.create(
        owner=owner, topic=topic, record_type="report", record_id=run.report.pk, rows={"seen": []}
    )
    SourceRule.objects.create(owner=owner, place="farm.example", act="mute")
    append_to(owner, "episodes/2026-02.md", "## Heat pump\n- Summary: serviced", by=by)
    lock_section(read_file(owner, "episodes/2026-02.md"), HEAT_PUMP, by=by, locked=True)
    save_file(owner, "facts/user.md", "# User\n\n## Sleep\n\n- Seven hours\n", by=by)
    save_file(owner, "facts/user.md", "# User\n\n- Name: Nora 李\n", by=by)
    RemovedRun.objects.create(owner=owner, run=run, title="Batteries · run failed")
    FileDraft.objects.create(owner=owner, path="facts/user.md", content="half a thou")
    Reflection.objects.create(owner=owner, source=run.source, state="done", assessment="fine")
    session = Session.objects.create(owner=owner, agent=Agent.objects.get(owner=owner))
    session.messages.create(position=1, role="user", content="Remember the heat pump.")
    for words, target in (("Ring the plumber.", None), ("Serviced in July.", note.pk)):
        review_services.hold(
            owner, "note", by=REFLECTOR, source=run.source, before={"content": note.content},
            after={"content": words, "kind": "summary"}, why="", held="web", target_id=target,
        )  # fmt: skip
    review_services.accept(review_services.waiting(owner).get(target_id=None), by=by)
    shown_and_corrected(topic, run)
    told(topic, run)
    Use.objects.get_or_create(
        owner=owner, record_type="note", record_id=note.pk, place=f"{run.source}:plan"
    )


def shown_and_corrected(topic: Topic, run: Run) -> None:
    """Create what a person does with a report: look into its content, check, correct, share it."""
    owner, by = topic.owner, topic.owner.actor
    one, two = ContentItem.objects.filter(owner=owner)[:2]
    run.tool_calls.create(part=1, position=1, round=1, tool="open_page", content_item=one)
    one.related_to.add(two)
    take_snapshot(owner, run.source, by=by)
    sharing.add_comment(run.report, "Ask the *supplier*.", author=owner)
    first, second = report_sentences.sentences_of(run.report)[:2]
    correcting.check(run.report, first, by=by)
    fact = TopicFact.objects.filter(topic=topic).current()[0]
    seen = [(fact, fact.version)]
    correcting.correct(run.report, second, wrong="It is not so.", facts=seen, by=by)
    shares.end(shares.make_link(run.report, days=7, note="the board", by=by), by=by)


def told(topic: Topic, run: Run) -> None:
    """Create a channel, a topic's choice, a digest and a feed, as an import leaves them: off."""
    owner, by = topic.owner, topic.owner.actor
    address = {"kind": "email", "name": "Desk", "address": "desk@example.org"}
    channel = channels.add(owner, by=by, enabled=False, **address)
    more = {"is_custom": True, "reports": "changed", "failures": False, "in_digest": True}
    channels.choose(topic, by=by, left_out=[channel], **more)
    chosen = digests.save_settings(owner, by=by, frequency="never", hour=6, weekday=5)
    digests.make(chosen, run.created)
    pages_digests.end(pages_digests.add(owner, topic=topic, include_private=False, by=by), by=by)


def exported(owner: User, path: Path) -> Path:
    exporter.write(owner, path)
    return path


def rows_in(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of an archive by kind, without what only the importing Beacon tells."""
    with zipfile.ZipFile(path) as archive:
        found = {
            kind.name: [json.loads(line) for line in archive.read(kind.path).splitlines()]
            for kind in in_order()
        }
    found["activity"] = [row for row in found["activity"] if row["kind"] not in OF_HERE]
    return {
        name: sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        for name, rows in found.items()
    }


def imported(
    path: Path, owner: User, *, own: bool = True, look: bool = False
) -> dict[str, KindCounts]:
    taking = ImportContext(owner, owner.actor, path.name, own)
    return import_archive(path, taking, only_look=look)


# --- the list -------------------------------------------------------------------------------------


def owned_models() -> set[str]:
    """Return every model of Beacon's own with an owner: directly, or through what it hangs on."""
    ours = [m for m in apps.get_models() if m._meta.app_label in ("memory", "research")]
    owned: set[str] = {"memory.User"}
    while True:
        more = {
            model._meta.label
            for model in ours
            for field in model._meta.concrete_fields
            if field.related_model is not None and field.related_model._meta.label in owned  # type: ignore[union-attr]
        } - owned
        if not more:
            return owned - {"memory.User"}
        owned |= more


def test_every_model_with_an_owner_is_exported_or_left_out_with_a_reason():
    listed = {kind.model._meta.label for kind in EXPORTED}

    assert owned_models() - listed - set(NOT_EXPORTED) == set()
    assert listed & set(NOT_EXPORTED) == set()
    assert all(len(why) > 10 for why in NOT_EXPORTED.values())


def test_no_secret_has_a_column_in_it():
    columns = {(kind.name, field.name) for kind in EXPORTED for field in kind.columns()}

    assert not [c for c in columns if c[1] in ("hash", "secret", "password", "session_key")]


# --- out and back ---------------------------------------------------------------------------------


def test_it_holds_everything_and_reads_well(path: Path):
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        names = archive.namelist()
        notes = archive.read("readable/notes/log.md").decode()
    assert (manifest["format"], manifest["version"]) == ("beacon-archive", 1)
    assert manifest["counts"]["runs"] == 2
    none = {name for name, count in manifest["counts"].items() if not count}
    assert none <= {"review-levels", "documents"}
    assert "The heat pump was serviced in May." in notes
    assert any(name.startswith("readable/reports/") and name.endswith("run-2.md") for name in names)


def test_out_and_into_another_beacon_and_out_again_is_the_same(
    full: User, path: Path, tmp_path: Path
):
    full.delete()
    there = User.objects.create_user("alice-there")

    counts = imported(path, there)

    after = exported(there, tmp_path / "after.zip")
    assert summed(counts)["refused"] == 0, counts
    assert rows_in(after) == rows_in(path)


def test_the_same_archive_again_changes_nothing(full: User, path: Path, tmp_path: Path):
    again = summed(imported(path, full))

    assert (again["new"], again["differing"], again["refused"]) == (0, 0, 0)
    assert rows_in(exported(full, tmp_path / "b.zip")) == rows_in(path)


def test_looking_through_counts_what_will_be_and_stores_nothing(
    path: Path, tmp_path: Path, bob: Any
):
    before = rows_in(exported(bob, tmp_path / "bob.zip"))

    looked = imported(path, bob, look=True)

    assert rows_in(exported(bob, tmp_path / "bob2.zip")) == before
    assert imported(path, bob) == looked


def test_anothers_ids_are_taken_for_new_ones_and_their_rows_stay_untouched(
    full: User, path: Path, tmp_path: Path, bob: Any
):
    counts = imported(path, bob)
    again = summed(imported(path, bob))

    assert summed(counts)["refused"] == 0, counts
    assert (again["new"], again["differing"]) == (0, 0)
    assert rows_in(exported(full, tmp_path / "b.zip")) == rows_in(path)
    run = Run.objects.filter(topic__owner=bob).latest("number")
    assert Observation.objects.for_user(bob).get(category="finding").source == run.source
    assert Use.objects.filter(owner=bob, place=f"{run.source}:plan").exists()
    assert run.report.owner == bob


def test_what_came_in_is_found_at_once_by_its_words(path: Path, bob: Any):
    imported(path, bob)

    found = [pk for pk, _score in bm25.search(bob, "note", "heat pump May")]

    assert Note.objects.for_user(bob).active().get(kind="log").pk in found
    entries = SearchEntry.objects.filter(space__owner=bob, space__record_type="note")
    assert entries.count() == Note.objects.for_user(bob).live().count()


def test_the_soul_of_an_untouched_account_gives_way_and_a_persons_own_stays(path: Path, bob: Any):
    carol = User.objects.create_user("carol")
    identity.write_soul(carol, "Carol's own soul, which nobody replaces.", by=carol.actor)

    for owner in (bob, carol):
        imported(path, owner)

    assert [n.content[:10] for n in active_notes(bob, "soul")] == ["Ask before"]
    assert [n.content[:10] for n in active_notes(carol, "soul")] == ["Carol's ow"]


def test_a_strangers_archive_is_not_believed_and_starts_nothing(path: Path, bob: Any):
    imported(path, bob, own=False)

    notes = Note.objects.for_user(bob).filter(kind="log")
    assert {(n.trust, n.source) for n in notes} == {("external", "import:a.zip")}
    assert Schedule.objects.for_user(bob).get().paused
    assert not ModelCall.objects.filter(owner=bob).exists()
    assert not Activity.objects.filter(owner=bob, kind="topic-created").exists()


def test_a_schedule_that_came_in_looks_ahead(full: User, tmp_path: Path):
    Schedule.objects.update(preset="daily", cron="0 7 * * *")
    path = exported(full, tmp_path / "a.zip")
    full.delete()
    there = User.objects.create_user("there")

    imported(path, there)

    schedule = Schedule.objects.get()
    assert schedule.next_run_at is not None
    assert not Schedule.objects.due(schedule.topic.created).exists()


def test_a_run_in_progress_is_not_carried_elsewhere(full: User, stored: Full, tmp_path: Path):
    cast.started(Topic.objects.get(pk=stored.topic))

    rows = rows_in(exported(full, tmp_path / "a.zip"))

    assert [row["status"] for row in rows["runs"]] == ["succeeded", "succeeded"]


def test_reports_and_their_history_come_along(full: User, path: Path, bob: Any):
    imported(path, bob)

    mine, theirs = (Report.objects.for_user(o).order_by("run__number") for o in (full, bob))
    assert [r.body for r in theirs] == [r.body for r in mine]
    for fact in TopicFact.objects.for_user(bob).struck():
        assert Revision.objects.filter(record_id=fact.pk, owner=bob).count() >= 2


def test_types_of_every_column_survive():
    unknown = {
        type(field).__name__
        for kind in EXPORTED
        for field in kind.columns()
        if isinstance(field, models.BinaryField | models.DurationField | models.FileField)
    }

    assert unknown == set()
