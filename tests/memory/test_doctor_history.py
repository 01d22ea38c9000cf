"""The doctor looks at histories, and at the sizes of memory files."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.doctor.checkup import GOOD, WARN
from memory.files.limits import MOST_EPISODES, MOST_FACTS
from memory.files.services import append_to, save_file
from memory.models import MemoryFile, Note, Revision, User
from memory.notes.writing import write_note
from tests.doctor_cast import _no_word_is_left, asked, is_found_and_mended  # noqa: F401
from tests.memory.test_archive_talk import carried
from tests.research.factories import make_report, make_run, make_topic


def note(owner: User) -> Note:
    made = write_note(owner, "log", "Green tea.", by=owner.actor, ttl_days=30, stability="volatile")
    made.change(by=owner.actor, content="Green tea from Uji.")
    return made


def test_what_was_written_as_usual_has_its_history_and_its_size(alice: User) -> None:
    make_report(make_run(make_topic(alice)))
    note(alice).trash(by=alice.actor)
    save_file(alice, "facts/user.md", "# User\n\n- Tea: grün\n", by=alice.actor)
    append_to(alice, "episodes/2026-02.md", "## Tea\n- Summary: 茶\n", by=alice.actor)

    assert asked("versions-of-records").state == asked("file-sizes").state == GOOD


@pytest.mark.parametrize("own", [True, False])
def test_what_an_archive_brings_along_has_its_history_too(
    alice: User, bob: User, tmp_path: Path, own: bool
) -> None:
    note(alice)
    topic = make_topic(alice)
    topic.change(by=alice.actor, summary="Tea.")
    make_report(make_run(topic))
    save_file(alice, "facts/user.md", "# User\n\n- Tea: green\n", by=alice.actor)
    carried(alice, bob, tmp_path / "archive.zip", own=own)

    assert Note.objects.of(bob).get(kind="log").version == 2
    for key in ("versions-of-records", "file-sizes", "run-numbers", "schedules"):
        assert asked(key).state == GOOD, asked(key)


def test_a_record_that_is_behind_its_history_goes_on_from_there(alice: User) -> None:
    one = note(alice)
    Note.objects.filter(pk=one.pk).update(version=1)

    is_found_and_mended("versions-of-records", "The version of 1 record")
    one.refresh_from_db()
    assert one.version == 2
    one.change(by=alice.actor, content="Black tea.")
    assert asked("versions-of-records").state == GOOD


def test_a_record_that_is_ahead_of_its_history_gets_a_line_that_says_so(alice: User) -> None:
    one = note(alice)
    Note.objects.filter(pk=one.pk).update(version=4, content="Written past its ways.")

    is_found_and_mended("versions-of-records", "The version of 1 record")
    lines = list(Revision.objects.filter(record_id=one.pk).order_by("-version"))
    assert [line.version for line in lines] == [4, 3, 2, 1]
    assert lines[0].actor.startswith("maintenance") and "was not kept" in lines[1].reason


def test_a_history_in_which_a_version_is_missing_is_told_and_nothing_is_made_up(
    alice: User,
) -> None:
    one = note(alice)
    Revision.record(one, before={}, after={}, by=alice.actor, version=4)
    Note.objects.filter(pk=one.pk).update(version=4)

    found = asked("versions-of-records", fix=True)
    assert (found.state, found.mended) == (WARN, "")
    assert "In the history of 1 record a version is missing" in found.said
    assert "the last backup" in found.todo


def test_a_size_that_is_not_that_of_the_text_is_measured_anew(alice: User) -> None:
    save_file(alice, "facts/user.md", "# User\n\n- Tea: grün\n", by=alice.actor)
    about = {"owner": alice, "path": "facts/user.md"}
    MemoryFile.objects.filter(**about).update(size=3)

    is_found_and_mended("file-sizes", "The size of 1 memory file")
    measured = MemoryFile.objects.get(**about)
    assert measured.size == len(measured.content.encode()) > len(measured.content)


def test_files_over_their_budget_are_told_the_two_fact_files_as_one(alice: User, bob: User) -> None:
    MemoryFile.objects.update(content="", size=0)
    _large(alice, "facts/user.md", MOST_FACTS)
    _large(alice, "facts/memory.md", 1)
    _large(alice, "episodes/2026-02.md", MOST_EPISODES + 1)
    _large(bob, "facts/user.md", MOST_FACTS)

    found = asked("file-sizes", fix=True)
    assert (found.state, found.mended) == (WARN, "")
    assert "over their budget: 2 " in found.said
    assert "condense" in found.todo


def _large(owner: User, path: str, size: int) -> None:
    fields = {"content": "x" * size, "size": size}
    MemoryFile.objects.update_or_create(owner=owner, path=path, defaults=fields)
