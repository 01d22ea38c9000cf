"""A section that a memory file lost is in Trash, and can be restored to its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from memory.models import FileEntry, MemoryFile, Revision, User
from memory.models.actors import MAINTENANCE, Actor
from memory.models.errors import InvalidValue
from memory.models.file_format import PurgedSection
from memory.services.files import section_restore
from memory.services.files.reading import read_file
from memory.services.files.saving import append_to, save_file
from memory.services.files.texts import (
    MAX_FACTS,
    OverBudget,
    content_at,
    put_in,
    removed_from,
    without_lines,
)
from memory.services.records import trash as trash_page
from memory.services.records.history import undo

PATH = "facts/memory.md"
TRASH = reverse("memory:trash")
SLEEP = "## Sleep\n\n- Seven hours a night\n- No coffee after three"
TEXT = f"# Memory\n\n## Work\n\n- Ships on Fridays\n\n{SLEEP}\n\n## Food\n\n- Allergic to nuts\n"
WITHOUT = TEXT.replace(f"{SLEEP}\n\n", "")


def write(owner: User, text: str, **more: Any) -> MemoryFile:
    return save_file(owner, PATH, text, by=more.pop("by", owner.actor), **more).file


def said(owner: User) -> str:
    """Return the file without its summary line, which each save makes."""
    text = str(MemoryFile.objects.for_user(owner).live().get(path=PATH).content)
    lines = [line for line in text.split("\n") if not line.startswith("> Summary")]
    return "\n".join(lines).replace("\n\n\n", "\n\n")


def in_trash(owner: User) -> list[str]:
    return [entry.content for entry in FileEntry.objects.for_user(owner).in_trash()]


@pytest.fixture
def lost(alice: User) -> FileEntry:
    write(alice, TEXT)
    write(alice, WITHOUT, why="tidied")
    entry: FileEntry = FileEntry.objects.for_user(alice).get()
    return entry


def restore(owner: User, client: Client, entry: FileEntry) -> Any:
    address = reverse("memory:record-restore", args=["fileentry", entry.pk])
    return client.post(address, {"next": TRASH}, follow=True)


def test_a_section_that_is_deleted_is_in_the_trash_with_path_heading_and_who(
    lost: FileEntry, alice: User, client_of: Callable[[User], Client]
):
    row = client_of(alice).get(TRASH, {"q": "coffee"}).context["rows"][0]

    assert (lost.heading, lost.content) == (["Memory", "Sleep"], SLEEP)
    assert row.label == f"Memory › Sleep · {PATH} · Seven hours a night"
    assert (row.noun, row.actor, row.why) == ("file entry", "you", "tidied")


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("- No coffee after three", "- No coffee after four"),
        TEXT.replace("## Sleep", "## Nights"),
        TEXT.replace("# Memory\n", "# What I know\n"),
        WITHOUT + f"\n{SLEEP}\n",
        TEXT.replace("## Sleep\n\n", "## Food\n\n").replace("\n## Food\n\n- All", "\n- All"),
    ],
    ids=["edited", "renamed", "another title", "moved", "joined"],
)
def test_what_is_edited_renamed_or_moved_is_not_removed(alice: User, text: str):
    write(alice, TEXT)
    write(alice, text)

    assert in_trash(alice) == []


def test_a_section_goes_with_those_inside_it_as_one(alice: User):
    inside = f"{SLEEP}\n\n### Naps\n\n- Sundays only"
    write(alice, TEXT.replace(SLEEP, inside))
    write(alice, WITHOUT)

    assert in_trash(alice) == [inside]


def test_an_agents_removal_is_there_as_the_agents(alice: User):
    write(alice, TEXT)
    write(alice, WITHOUT, by=Actor("agent", "claude"))

    assert [row.actor for row in trash_page.page(alice).rows] == ["the agent “claude”"]


def test_it_is_restored_at_its_place_and_that_can_be_undone(
    lost: FileEntry, alice: User, client_of: Callable[[User], Client]
):
    page = restore(alice, client_of(alice), lost)
    assert "Restored from Trash" in page.content.decode()
    assert said(alice) == TEXT
    assert in_trash(alice) == []

    undo(Revision.objects.filter(record_id=lost.pk).latest("pk"), by=alice.actor)

    assert said(alice) == WITHOUT
    assert in_trash(alice) == [SLEEP]


def test_what_was_written_since_stays_next_to_it(lost: FileEntry, alice: User):
    write(alice, said(alice).replace("Fridays", "Mondays"))

    section_restore.restore(lost, alice.actor)

    assert said(alice) == TEXT.replace("Fridays", "Mondays")


def test_two_neighbors_deleted_one_after_the_other_both_come_back(lost: FileEntry, alice: User):
    write(alice, said(alice).replace("## Food\n\n- Allergic to nuts\n", ""))
    food = FileEntry.objects.for_user(alice).get(heading=["Memory", "Food"])

    section_restore.restore(lost, alice.actor)
    section_restore.restore(food, alice.actor)

    assert SLEEP in said(alice) and food.content in said(alice)
    assert said(alice).count("## ") == 3


def test_where_other_words_stand_both_are_shown_and_nothing_is_lost(
    lost: FileEntry, alice: User, client_of: Callable[[User], Client]
):
    other = "## Sleep\n\n- Eight hours a night"
    write(alice, said(alice).replace("## Food", f"{other}\n\n## Food"))
    client = client_of(alice)

    refused = restore(alice, client, lost)
    assert refused.status_code == 409
    assert in_trash(alice) == [SLEEP]
    assert other in said(alice)

    page = client.get(refused.context["way"])
    assert "Section from Trash" in page.content.decode()
    merge = page.context
    assert all(words in merge["form"]["content"].value() for words in (SLEEP, other))
    kept = {"content": merge["form"]["content"].value(), "seen": merge["form"]["seen"].value()}
    client.post(
        reverse("memory:file-edit", args=[PATH]), kept | {"window": merge["form"]["window"].value()}
    )
    assert in_trash(alice) == []
    assert other in said(alice)


def test_undone_after_it_was_edited_it_is_refused_with_a_reason(lost: FileEntry, alice: User):
    section_restore.restore(lost, alice.actor)
    write(alice, said(alice).replace("Seven", "Six"))

    with pytest.raises(InvalidValue, match=r"in facts/memory\.md was changed after"):
        section_restore.trash(lost, alice.actor)
    assert "Six hours" in said(alice)


def test_taking_the_removal_back_empties_the_trash_of_it(lost: FileEntry, alice: User):
    removal = Revision.objects.filter(record_type="memoryfile", record_id=lost.file_id).latest("pk")

    undo(removal, by=alice.actor)

    assert in_trash(alice) == []


def test_restored_twice_it_is_there_once(lost: FileEntry, alice: User):
    again = FileEntry.objects.get(pk=lost.pk)
    section_restore.restore(lost, alice.actor)
    section_restore.restore(again, alice.actor)

    assert said(alice).count("## Sleep") == 1


def test_a_full_budget_refuses_it_and_keeps_it(lost: FileEntry, alice: User):
    much = "# Memory\n\n## Much\n\n" + f"- {'x' * 90}\n" * 100
    write(alice, much)
    room = MAX_FACTS - sum(
        MemoryFile.objects.for_user(alice).facts().values_list("size", flat=True)
    )
    write(alice, f"{much}- {'y' * (room - 3)}\n")

    with pytest.raises(OverBudget):
        section_restore.restore(lost, alice.actor)
    assert SLEEP in in_trash(alice)


def test_a_month_in_the_trash_is_restored_before_its_entries(alice: User):
    path = "episodes/2026-02.md"
    append_to(alice, path, "## Pump\n- Summary: serviced", by=alice.actor)
    file = append_to(alice, path, "## Roof\n- Summary: mended", by=alice.actor).file
    text = str(file.content).partition("## Roof")[0]
    file = save_file(alice, path, text, by=alice.actor).file
    file.trash(by=alice.actor)

    with pytest.raises(InvalidValue, match="Restore the file first"):
        section_restore.restore(FileEntry.objects.for_user(alice).get(), alice.actor)
    file.purge(by=alice.actor)
    assert not FileEntry.objects.exists()


def test_a_purge_takes_its_words_from_the_history_too_and_says_so(
    lost: FileEntry, alice: User, client_of: Callable[[User], Client]
):
    client, address = client_of(alice), reverse("memory:record-purge", args=["fileentry", lost.pk])
    page = client.get(address)
    assert "show [purged] in place of this entry" in page.content.decode()

    client.post(address, {"name": page.context["name"]})

    assert not FileEntry.objects.exists()
    assert not Revision.objects.filter(record_id=lost.pk).exists()
    assert "Seven hours" not in history(alice) and "coffee" not in history(alice)


def history(owner: User) -> str:
    """All that the file's revisions hold."""
    rows = Revision.objects.for_user(owner).filter(record_type="memoryfile", label=PATH)
    return "\n".join(f"{one.before} {one.after}" for one in rows)


def test_a_purge_leaves_every_other_line_where_it_was(lost: FileEntry, alice: User):
    file = MemoryFile.objects.for_user(alice).get(path=PATH)
    old, now = content_at(file, lost.removed_in - 1), str(file.content)

    lost.purge(by=alice.actor)

    left = content_at(file, lost.removed_in - 1)
    assert old is not None and left is not None
    assert "## [purged]" in left and "- Ships on Fridays" in left and "- Allergic to nuts" in left
    assert left.count("\n") == old.count("\n")
    assert left.split("\n").index("## Food") == old.split("\n").index("## Food")
    assert read_file(alice, PATH).content == now


def test_a_purge_takes_older_wordings_and_what_stood_elsewhere(alice: User):
    write(alice, TEXT.replace("Seven hours", "Six hours"))
    write(alice, TEXT.replace("## Sleep", "## Rest"))
    write(alice, TEXT)
    write(alice, WITHOUT)

    FileEntry.objects.for_user(alice).in_trash().get(heading__contains="Sleep").purge(
        by=alice.actor
    )

    assert "Six hours" not in history(alice) and "Seven hours" not in history(alice)
    assert "Ships on Fridays" in history(alice)


def test_what_stands_again_or_next_to_it_is_not_taken_from_the_history(alice: User):
    twice = f"{TEXT}\n## Sleep\n\n- Naps at two in the afternoon\n"
    write(alice, twice)
    write(alice, twice.replace(f"{SLEEP}\n\n", ""))

    FileEntry.objects.for_user(alice).in_trash().get().purge(by=alice.actor)

    assert "Naps at two" in history(alice) and "Seven hours" not in history(alice)


def test_what_grew_old_in_the_trash_leaves_the_history_whole(lost: FileEntry, alice: User):
    lost.purge(by=MAINTENANCE)

    assert not FileEntry.objects.exists()
    assert "Seven hours" in history(alice)


def test_a_stranger_neither_sees_nor_restores_it(
    lost: FileEntry, bob: User, client_of: Callable[[User], Client]
):
    client = client_of(bob)

    assert restore(bob, client, lost).status_code == 404
    assert client.get(TRASH).context["total"] == 0
    edit = reverse("memory:file-edit", args=[PATH])
    for key in (str(lost.pk), "none", ""):
        assert "Seven hours" not in client.get(edit, {"entry": key}).content.decode()


_WORDS = st.text("abcde", min_size=3, max_size=8)
_SECTIONS = st.lists(
    st.tuples(st.integers(2, 4), _WORDS, st.lists(_WORDS, min_size=1, max_size=3)),
    min_size=2, max_size=6, unique_by=lambda one: one[1],
)  # fmt: skip


@given(_SECTIONS, st.data())
def test_whatever_is_taken_out_is_kept_whole_and_fits_in_again(sections: Any, data: st.DataObject):
    blocks = [
        f"{'#' * level} {title}\n\n" + "\n".join(f"- {title} {line}" for line in lines)
        for level, title, lines in sections
    ]
    which = data.draw(st.integers(0, len(blocks) - 1))
    before = "\n\n".join(["# Top", *blocks]) + "\n"
    after = "\n\n".join(["# Top", *blocks[:which], *blocks[which + 1 :]]) + "\n"

    gone = removed_from(before, after)

    assert "".join(text for _heading, text in gone) == blocks[which]
    assert put_in(after, gone[0], before) == before
    assert without_lines(before, blocks[which]) == after


@given(_SECTIONS, st.data())
def test_of_an_older_text_what_was_purged_is_emptied_and_nothing_else(
    sections: Any, data: st.DataObject
):
    blocks = [
        f"{'#' * level} {title}\n\n" + "\n".join(f"- {title} {line}" for line in lines)
        for level, title, lines in sections
    ]
    which = data.draw(st.integers(0, len(blocks) - 1))
    before = "\n\n".join(["# Top", *blocks]) + "\n"
    after = "\n\n".join(["# Top", *blocks[:which], *blocks[which + 1 :]]) + "\n"
    ((heading, text),) = removed_from(before, after)

    left = PurgedSection(heading, text, after).without_section(before)

    pairs = list(zip(before.split("\n"), left.split("\n"), strict=True))
    emptied = [old for old, new in pairs if old != new]
    assert emptied == [line for line in blocks[which].split("\n") if line]
    assert "\n".join(new for old, new in pairs if old == new and new) == "\n".join(
        line for line in after.split("\n") if line
    )
