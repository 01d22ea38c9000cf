"""Mounted files of agents in Conflicts: what they contradict and repeat, and what a decision changes."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.api.review import ConflictOut, _with_files
from memory.models import Conflict, MemoryFile, MountedFolder, Note, Section, User
from memory.models.errors import InvalidValue
from memory.models.file_format import digest_of, statements_of
from memory.services.files import agent_folders
from memory.services.files.saving import append_to, save_file
from memory.services.notes.saving import write_note
from memory.services.review import conflicts as conflict_services
from memory.services.review import contradictions, file_lines
from tests.api.cast import Program, items, problem

pytestmark = pytest.mark.django_db(transaction=True)
OLD, NEW = "Billing runs PostgreSQL 13.", "Billing runs PostgreSQL 16."
SAME = "Ask before you delete a table."
LONG = f"Then {'write down each step and ' * 20}stop."  # too long to be a statement
RULES = f"# Rules\n\n- {OLD}\n- {SAME}\n- Write tests first, and run them.\n"


@pytest.fixture
def root(tmp_path: Path, settings: Any, alice: User) -> Path:
    """Alice's folder of Claude Code and one of her repositories, mounted."""
    alice.is_staff = True
    alice.save()
    for name in (".claude/projects/-srv-api/memory", "api/.git", "web/.git"):
        (tmp_path / name).mkdir(parents=True)
    settings.BEACON_AGENT_DIRS = {
        "claude": str(tmp_path / ".claude"),
        "api": str(tmp_path / "api"),
        "web": str(tmp_path / "web"),
    }
    return tmp_path


def sync(root: Path, **files: str) -> None:
    """Write files to disk, import them, and compare them as the task does."""
    paths = {"claude": ".claude/CLAUDE.md", "api": "api/AGENTS.md", "web": "web/AGENTS.md"}
    for name, text in files.items():
        (root / paths[name]).write_text(text)
    agent_folders.catch_up()
    compare()


def compare() -> None:
    for section in Section.objects.select_related("owner", "file").order_by("created"):
        contradictions.report_lines(section)


def open_of(kind: str = "contradiction") -> list[Conflict]:
    return list(Conflict.objects.standing().filter(kind=kind).select_related("owner"))


def disk(root: Path, path: str = ".claude/CLAUDE.md") -> str:
    return (root / path).read_text()


# --- finding ---


@pytest.mark.requirement("R387")
def test_a_mounted_file_that_contradicts_a_note_is_a_conflict(root: Path, alice: User) -> None:
    note = write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude=RULES)

    [found] = open_of()
    assert (found.left_id, found.right_type, found.reason) == (note.pk, "memoryfile", "version")
    file = MemoryFile.objects.get(pk=found.right_id)
    assert conflict_services.words_of(found, "right", file) == OLD
    compare()
    assert open_of() == [found]


@pytest.mark.requirement("R387")
def test_a_new_note_is_compared_with_mounted_files(root: Path, alice: User) -> None:
    sync(root, claude=RULES)
    note = write_note(alice, "rule", f"{NEW} {SAME}", by=alice.actor)
    contradictions.report_each([["note", str(note.pk)]])
    pairs = list(Conflict.objects.about([note.pk]))
    assert {one.kind for one in pairs} == {"contradiction", "near-duplicate"}
    assert {one.left_type for one in pairs} == {"memoryfile"}


@pytest.mark.requirement("R387")
def test_two_mounted_files_that_repeat_each_other_are_one_conflict(root: Path) -> None:
    sync(root, claude=RULES)
    sync(root, api=RULES.replace("13", "16"))

    [pair] = open_of("near-duplicate")
    assert len(pair.lines) == 2 and pair.reason == "similar"
    [different] = open_of()
    assert different.reason == "version"


def test_a_file_of_beacon_is_compared_too_but_not_with_other_files_of_beacon(
    root: Path, alice: User
) -> None:
    append_to(alice, "facts/user.md", f"- {NEW}", by=alice.actor)
    append_to(alice, "facts/memory.md", f"- {OLD}", by=alice.actor)
    compare()
    assert open_of() == []
    sync(root, claude=f"- {OLD}\n")
    paths = {MemoryFile.objects.get(pk=one.left_id).path for one in open_of()}
    assert paths == {"facts/user.md"}
    assert [one.kind for one in Conflict.objects.filter(kind="near-duplicate")] == [
        "near-duplicate"
    ]


def test_files_of_different_projects_are_about_different_things(root: Path) -> None:
    sync(root, api=RULES, web=RULES.replace("13", "16"))
    assert not Conflict.objects.exists()
    project = "".join(sign if sign.isalnum() else "-" for sign in str(root / "api"))
    memory = root / f".claude/projects/{project}/memory"
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").write_text(f"{NEW}\n")
    sync(root)
    [found] = open_of()
    assert {MemoryFile.objects.get(pk=key).mounted_folder for key in (found.left_id, found.right_id)} == {
        "api", "claude",
    }  # fmt: skip


def test_code_tables_front_matter_and_indexes_say_nothing() -> None:
    text = (
        f"---\nname: billing\ndescription: {OLD}\n---\n\n```\n{OLD}\n```\n\n| {OLD} |\n\n"
        f"- [Billing](billing.md) — {OLD}\n@AGENTS.md\n> {OLD}\n\n1. [x] **{NEW}** {SAME}\n"
    )
    assert [one.text for one in statements_of(text)] == [NEW, SAME]


def test_a_log_of_a_day_is_not_compared(root: Path, alice: User) -> None:
    write_note(alice, "rule", NEW, by=alice.actor)
    memory = root / ".claude/projects/-srv-api/memory"
    (memory / "2026-11-28.md").write_text(f"- {OLD}\n")
    (memory / "2026-11-28-upgrade.md").write_text(f"- {OLD}\n")
    sync(root)
    assert not Conflict.objects.exists()
    (memory / "2026-plan.md").write_text(f"- {OLD}\n")
    sync(root)
    assert len(open_of()) == 1


def test_contradictions_of_files_have_a_limit(
    root: Path, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.models.conflicts.MAX_NEAR", 2)
    write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude="".join(f"- Billing runs PostgreSQL {n}.\n" for n in range(10, 14)))
    assert len(open_of()) == 2
    note = write_note(alice, "rule", "Billing runs PostgreSQL 17.", by=alice.actor)
    contradictions.report(note)
    assert len(open_of()) == 3  # records have none


def test_maintenance_compares_mounted_files_within_its_time(root: Path, alice: User) -> None:
    write_note(alice, "rule", NEW, by=alice.actor)
    (root / ".claude/CLAUDE.md").write_text(RULES)
    agent_folders.catch_up()
    Conflict.objects.all().delete()
    since = conflict_services.day_ago()
    Note.objects.update(updated=since - timedelta(days=1))
    assert conflict_services.owners_with_news(since) == [alice.pk]
    assert contradictions.report_since(alice, since, seconds=-1) == 0
    assert contradictions.report_since(alice, since) == 1


def test_a_page_parses_each_file_once(root: Path, alice: User, client: Client) -> None:
    sync(root, claude=RULES)
    sync(root, api=f"- {SAME}\n- {OLD}\n")
    [pair] = open_of("near-duplicate")
    client.force_login(alice)
    statements_of.cache_clear()
    client.get(pair.get_absolute_url())
    assert statements_of.cache_info().misses == 2


def test_others_files_are_never_compared(root: Path, alice: User, bob: User) -> None:
    write_note(bob, "rule", NEW, by=bob.actor)
    sync(root, claude=RULES)
    assert not Conflict.objects.exists()


def test_the_number_of_queries_does_not_grow(root: Path, alice: User) -> None:
    def queries() -> int:
        section = Section.objects.select_related("owner", "file").get(
            file__path="folders/web/AGENTS.md"
        )
        with CaptureQueriesContext(connection) as seen:
            contradictions._file_pairs(section)
        return len(seen)

    sync(root, web=f"# A\n\n- {OLD}\n")
    write_note(alice, "rule", NEW, by=alice.actor)
    few = queries()
    for number in range(17, 25):
        write_note(alice, "rule", f"Billing runs PostgreSQL {number}.", by=alice.actor)
    sync(root, claude="".join(f"- Billing runs PostgreSQL {n}.\n" for n in range(50, 60)))
    sync(root, web="# A\n\n" + "".join(f"- Shop {n} runs PostgreSQL {n}.\n" for n in range(13, 23)))
    assert queries() <= few + 1  # one for the folders of other files


# --- deciding ---


@pytest.mark.requirement("R387")
@pytest.mark.parametrize("how", ["left", "right", "both", "merged"])
def test_a_decision_reaches_the_disk_and_is_undone(root: Path, alice: User, how: str) -> None:
    note = write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude=RULES)
    [pair] = open_of()
    seen = (note.version, MemoryFile.objects.get(pk=pair.right_id).version)
    conflict_services.resolve(pair, how, by=alice.actor, seen=seen, text="Billing runs 17.")

    assert disk(root) == RULES.replace(f"- {OLD}\n", "") if how in ("left", "merged") else RULES
    note.refresh_from_db()
    assert (note.trashed_at is not None) == (how == "right")
    assert note.content == ("Billing runs 17." if how == "merged" else NEW)
    sync(root)
    assert open_of() == []

    conflict_services.undo_change(Conflict.objects.get(pk=pair.pk), by=alice.actor)
    assert disk(root) == RULES
    assert Note.objects.get(pk=note.pk).trashed_at is None
    sync(root)
    assert [one.pk for one in open_of()] == [pair.pk]


def test_repeated_lines_are_removed_together(root: Path, alice: User) -> None:
    sync(root, claude=RULES)
    sync(root, api=f"# API\n\n- {SAME}\n- {OLD}\n- Use uv.\n")
    [pair] = open_of("near-duplicate")
    is_left = MemoryFile.objects.get(pk=pair.left_id).mounted_folder == "claude"
    conflict_services.resolve(pair, "left" if is_left else "right", by=alice.actor)
    assert disk(root, "api/AGENTS.md") == "# API\n\n- Use uv.\n"
    assert disk(root) == RULES


def test_several_lines_are_not_merged_and_the_typed_text_stays(
    root: Path, alice: User, client: Client
) -> None:
    sync(root, claude=RULES)
    sync(root, api=RULES)
    [pair] = open_of("near-duplicate")
    with pytest.raises(InvalidValue, match="can’t merge several lines at once"):
        conflict_services.resolve(pair, "merged", by=alice.actor, text="One for all.")
    client.force_login(alice)
    sent: dict[str, Any] = {"left_version": 1, "right_version": 1, "lines": pair.lines_digest}
    sent |= {"how": "merged", "text": "One for all."}
    url = reverse("memory:conflict-resolve", args=[pair.pk])
    assert "One for all." in client.post(url, sent).content.decode()
    assert disk(root) == disk(root, "api/AGENTS.md") == RULES


def test_lines_that_joined_after_the_page_was_shown_are_not_removed(
    root: Path, alice: User, client: Client
) -> None:
    sync(root, claude=RULES)
    sync(root, api=f"- {SAME}\n- {OLD}\n")
    [pair] = open_of("near-duplicate")
    one, two = pair.lines
    Conflict.objects.filter(pk=pair.pk).update(lines=[one])
    pair.refresh_from_db()
    client.force_login(alice)
    url = pair.get_absolute_url()
    shown = client.get(url).content.decode()
    assert f'name="lines" value="{pair.lines_digest}"' in shown

    compare()  # finds the second line
    assert Conflict.objects.get(pk=pair.pk).lines == [one, two]
    versions = {"left_version": 1, "right_version": 1}
    for how in ("left", "right"):
        sent: dict[str, Any] = {"how": how, "lines": pair.lines_digest, **versions}
        client.post(reverse("memory:conflict-resolve", args=[pair.pk]), sent)
    assert Conflict.objects.get(pk=pair.pk).is_open
    assert (disk(root), disk(root, "api/AGENTS.md")) == (RULES, f"- {SAME}\n- {OLD}\n")


def test_no_lines_join_a_conflict_that_is_being_resolved(root: Path, alice: User) -> None:
    sync(root, claude=RULES)
    sync(root, api=f"- {SAME}\n- {OLD}\n")
    [pair] = open_of("near-duplicate")
    Conflict.objects.filter(pk=pair.pk).update(lines=pair.lines[:1])
    has_begun = threading.Event()

    def find_more() -> None:
        has_begun.set()
        try:
            compare()
        finally:
            connection.close()

    other = threading.Thread(target=find_more)
    with transaction.atomic():
        row = conflict_services.locked_conflict(pair)
        other.start()
        has_begun.wait(5)
        other.join(1)
        Conflict.objects.filter(pk=row.pk).update(state="resolved", resolution="left")
    other.join(20)
    assert Conflict.objects.get(pk=pair.pk).lines == pair.lines[:1]
    assert [one.lines for one in open_of("near-duplicate")] != []


def test_the_last_copy_of_a_repeated_line_stays(root: Path, alice: User, client: Client) -> None:
    sync(root, claude=RULES)
    sync(root, api=RULES)
    [pair] = open_of("near-duplicate")
    left = MemoryFile.objects.get(pk=pair.left_id)
    save_file(alice, left.path, RULES.replace(f"- {SAME}\n", ""), by=alice.actor, seen=left.version)
    client.force_login(alice)
    assert SAME not in client.get(pair.get_absolute_url()).content.decode()
    conflict_services.resolve(pair, "left", by=alice.actor)
    right = MemoryFile.objects.get(pk=pair.right_id)
    assert SAME in right.content and OLD not in right.content


def test_repeated_lines_that_share_no_copy_any_longer_close_their_conflict(
    root: Path, alice: User
) -> None:
    text = f"- {OLD}\n- {SAME}\n"
    sync(root, claude=text)
    sync(root, api=text)
    [pair] = open_of("near-duplicate")
    for key, line in ((pair.left_id, OLD), (pair.right_id, SAME)):
        file = MemoryFile.objects.get(pk=key)
        save_file(alice, file.path, f"- {line}\n", by=alice.actor, seen=file.version)
    pair.refresh_from_db()
    assert pair.resolution == "gone"


@pytest.mark.parametrize("kind", ["contradiction", "near-duplicate"])
def test_a_removed_line_that_is_written_again_is_reported_again(
    root: Path, alice: User, kind: str
) -> None:
    text = f"- {OLD}\n- Use uv.\n"
    sync(root, claude=f"- {OLD if kind == 'near-duplicate' else NEW}\n")
    sync(root, api=text)
    [pair] = open_of(kind)
    is_left = MemoryFile.objects.get(pk=pair.left_id).mounted_folder == "claude"
    conflict_services.resolve(pair, "left" if is_left else "right", by=alice.actor)
    sync(root)
    assert open_of(kind) == [] and OLD not in disk(root, "api/AGENTS.md")
    sync(root, api=text)
    assert [one.pk != pair.pk for one in open_of(kind)] == [True]


def test_repetition_that_a_person_kept_is_not_reported_again(root: Path, alice: User) -> None:
    sync(root, claude=RULES)
    sync(root, api=RULES)
    [pair] = open_of("near-duplicate")
    conflict_services.resolve(pair, "both", by=alice.actor)
    more = f"{RULES}- Deploy on Tuesdays at noon.\n"
    sync(root, claude=more, api=more)
    assert open_of("near-duplicate") == []


def test_all_others_are_those_of_the_same_line(root: Path, alice: User, client: Client) -> None:
    for text in (NEW, "The build takes 20 minutes.", "Now billing runs PostgreSQL 17."):
        write_note(alice, "rule", text, by=alice.actor)
    sync(root, claude=f"# Rules\n\n- {OLD}\n- The build takes 10 minutes.\n")

    about = {len(contradictions.others_of(one)): one for one in open_of()}
    assert len(open_of()) == 3 and set(about) == {0, 1}
    assert Conflict.objects.for_user(alice).standing().one_per_record().count() == 2
    numbers = contradictions.number_of_each(alice, open_of())
    assert numbers == {about[0].newer: 1, about[1].newer: 2}
    client.force_login(alice)
    shown = client.get(f"{reverse('research:inbox')}?show=conflict").content.decode()
    assert shown.count("and 1 more") == 1


def test_a_file_that_changed_since_is_not_changed_by_an_old_page(root: Path, alice: User) -> None:
    note = write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude=RULES)
    [pair] = open_of()
    sync(root, claude=f"{RULES}- One more.\n")
    with pytest.raises(conflict_services.StaleConflict):
        conflict_services.resolve(pair, "left", by=alice.actor, seen=(note.version, 1))
    assert disk(root) == f"{RULES}- One more.\n"


def test_a_line_corrected_in_the_file_closes_its_conflict(root: Path, alice: User) -> None:
    write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude=RULES)
    [pair] = open_of()
    file = MemoryFile.objects.get(pk=pair.right_id)
    save_file(alice, file.path, RULES.replace(OLD, NEW), by=alice.actor, seen=file.version)
    pair.refresh_from_db()
    assert (pair.state, pair.resolution) == ("resolved", "gone")


@pytest.mark.parametrize(
    "text",
    [
        f"- {OLD}\n  It needs an upgrade.\n",  # the item continues
        f"- {OLD}\n  - until May\n",  # it has an item of its own
        f"- {OLD}\n\n  It needs an upgrade.\n",  # or a block after an empty line
        f"Use uv. **{OLD}** Write tests.\n",  # its marks would stay
        f"We know\n{OLD}\n",  # the sentence begins on the line before
        f"{OLD[:-1]}\nwith two replicas.\n",  # and ends below
    ],
)
def test_a_line_that_belongs_to_others_leads_to_the_editor(
    root: Path, alice: User, client: Client, text: str
) -> None:
    write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude=f"# Rules\n\n{text}")
    [pair] = open_of()
    with pytest.raises(InvalidValue, match="Edit the file instead"):
        conflict_services.resolve(pair, "left", by=alice.actor)
    assert disk(root) == f"# Rules\n\n{text}"
    client.force_login(alice)
    shown = client.get(pair.get_absolute_url()).content.decode()
    assert reverse("memory:file-edit", args=["folders/claude/CLAUDE.md"]) in shown


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"* [ ] {OLD}\n* Use uv.\n", "* Use uv.\n"),
        (f"Use uv. {OLD} Write tests.\n", "Use uv. Write tests.\n"),
        (f"{OLD}\n\nUse uv.\n", "\nUse uv.\n"),
        (f"- {OLD} {LONG}\n", f"- {LONG}\n"),
        (f"- {OLD} Ok.\n", "- Ok.\n"),
        (f"Use uv.\n{OLD}\nWrite tests.\n", "Use uv.\nWrite tests.\n"),
    ],
)
def test_only_the_statement_is_removed(alice: User, before: str, after: str) -> None:
    file = MemoryFile(owner=alice, path="folders/a/CLAUDE.md", content=before)
    digests = [digest_of(OLD)]
    assert file_lines.rewritten(file, digests) == after
    assert file_lines.rewritten(file, digests, NEW) == before.replace(OLD, NEW)


def test_the_page_shows_only_the_statement_and_where_it_is(
    root: Path, alice: User, client: Client
) -> None:
    write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude=RULES)
    [pair] = open_of()
    client.force_login(alice)
    shown = client.get(pair.get_absolute_url()).content.decode()
    assert "folders/claude/CLAUDE.md, line 3" in shown
    assert SAME not in shown and "including the copy on disk" in shown
    done = client.post(
        reverse("memory:conflict-resolve", args=[pair.pk]),
        {"how": "left", "left_version": 1, "right_version": 1, "lines": pair.lines_digest},
        follow=True,
    ).content.decode()
    assert "removed from its file" in done
    assert OLD not in disk(root)


def test_a_record_page_names_the_line_that_contradicts_it(
    root: Path, alice: User, client: Client
) -> None:
    note = write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude=RULES)
    client.force_login(alice)
    shown = client.get(note.get_absolute_url()).content.decode()
    assert OLD in shown and SAME not in shown
    assert client.get(reverse("research:inbox")).status_code == 200
    assert client.get(reverse("memory:recall")).status_code == 200


def test_rest_names_the_file_and_its_line(root: Path, alice: User, client: Client) -> None:
    write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude=RULES)
    [pair] = _with_files(Conflict.objects.for_user(alice))
    side = ConflictOut.of(pair).right
    assert (side.path, side.lines) == ("folders/claude/CLAUDE.md", [3])


def test_rest_decides_after_an_unrelated_edit(root: Path, alice: User) -> None:
    sync(root, claude=RULES)
    sync(root, api=f"- {SAME}\n- {OLD}\n- Use uv.\n")
    sync(root, api=f"- {SAME}\n- {OLD}\n- Use uv every day.\n")
    [pair] = open_of("near-duplicate")
    person = Program(alice, "admin", name="console")
    [told] = [one for one in items(person.get("/conflicts")) if one["id"] == str(pair.pk)]
    file = MemoryFile.objects.get(path="folders/api/AGENTS.md")
    side = "left" if pair.left_id == file.pk else "right"
    assert (told[side]["version"], told["lines_digest"]) == (2, pair.lines_digest)

    url, how = (
        f"/conflicts/{pair.pk}/resolve",
        {"resolution": "right" if side == "left" else "left"},
    )
    problem(person.post(url, {**how, f"{side}_version": 1}), 409)
    problem(person.post(url, {**how, "lines_digest": "other"}), 409)
    assert person.post(url, how).json()["state"] == "resolved"
    assert disk(root, "api/AGENTS.md") == "- Use uv every day.\n"


def test_a_folder_that_is_deleted_closes_its_conflicts(root: Path, alice: User) -> None:
    write_note(alice, "rule", NEW, by=alice.actor)
    sync(root, claude=RULES)
    (root / ".claude/CLAUDE.md").unlink()
    sync(root)
    assert open_of() == []
    assert MountedFolder.objects.get(name="claude").problem == ""
