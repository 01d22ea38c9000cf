"""Saving memory files: what is stored, fixed and rejected."""

from __future__ import annotations

from typing import Any

import pytest

from memory.models import MemoryFile, Revision, Section, User
from memory.models.actors import REFLECTOR, Actor
from memory.models.errors import InvalidValue, LimitReached, Locked
from memory.services.files import texts
from memory.services.files.reading import files_of, index_text, read_file
from memory.services.files.saving import (
    Act,
    SaveResult,
    append_to,
    lock_section,
    patching,
    restore_version,
    save_file,
    write,
)
from memory.services.files.texts import FileConflict, NoSuchFile, OverBudget
from memory.services.records.history import undo
from memory.services.records.trash import trashed
from memory.services.search import bm25

USER, MEMORY, MONTH = "facts/user.md", "facts/memory.md", "episodes/2026-02.md"
AGENT = Actor("agent", "claude")
SEED = """# User

> Summary: 建军, Chinese, wife birthday Mar 15, standup with 老王 Wed

- Name: 建军 (Jianjun)
- Wife's birthday: March 15 (annual reminder)
- Updated: 2026-02-28
"""
TOKYO = """## Tokyo flight research
- Summary: Spring Airlines cheapest for Apr Tokyo trip
- Date: 2026-02-26
- Task: User asked to compare flights to Tokyo in April
- Findings: Spring Airlines ¥1200, ANA ¥2800
"""


def text_of(owner: User, path: str) -> str:
    return str(MemoryFile.objects.for_user(owner).live().get(path=path).content)


def patch(owner: User, path: str, pairs: list[tuple[str, str]], *, by: Actor) -> SaveResult:
    return write(owner, path, patching(pairs), Act(by))


def save(owner: User, path: str, content: str, **more: Any) -> MemoryFile:
    return save_file(owner, path, content, by=more.pop("by", owner.actor), **more).file


@pytest.mark.requirement("R146")
def test_an_account_begins_with_both_fact_files_in_the_seeds_format(alice: User):
    file = read_file(alice, USER)

    assert [one.path for one in files_of(alice)] == [USER, MEMORY]
    assert file.version == 1
    assert file.content.startswith("# User\n\n> Summary: nothing yet\n\n- Updated: 20")


@pytest.mark.requirement("R152")
def test_a_write_replaces_the_whole_file_and_keeps_every_byte(alice: User):
    file = save(alice, USER, SEED)

    assert text_of(alice, USER) == SEED
    assert (file.version, file.size, file.blame) == (
        2,
        len(SEED.encode()),
        [[2, 1], [1, 2], [1, 1], [3, 2]],
    )


def test_a_file_with_windows_line_ends_and_a_mark_is_fixed_and_one_without_heading_is_kept(
    alice: User,
):
    save(alice, USER, "\ufeff> Summary: mine\r\n- a\r\n")

    assert text_of(alice, USER) == "> Summary: mine\n- a\n"


def full_by(owner: User, spare: int) -> str:
    """Return a text that leaves `spare` bytes of the budget, written with four-byte characters."""
    room = texts.MAX_FACTS - read_file(owner, MEMORY).size - spare
    head = "> Summary: mine\n"
    wide = head + ("𝕏" * 1_500 + "\n") * 2
    rest = room - texts.size_of(wide)
    return wide + "\n".join(["y" * (rest // 2), "y" * (rest - rest // 2 - 1)])


@pytest.mark.requirement("R142", "R143", "R144")
def test_the_budget_is_filled_to_the_byte_and_one_more_is_refused(alice: User):
    stood = save(alice, USER, full_by(alice, 0))

    for attempt in (
        lambda: save(alice, USER, full_by(alice, -1)),
        lambda: append_to(alice, MEMORY, "- épuisé par tout", by=AGENT),
        lambda: patch(alice, USER, [("mine", "mine!")], by=alice.actor),
    ):
        with pytest.raises(OverBudget, match=r"over the limit of 15,360.*Condense"):
            attempt()
    assert sum(file.size for file in files_of(alice)) == texts.MAX_FACTS
    assert text_of(alice, USER) == stood.content


def test_a_refusal_says_how_many_bytes_there_are_too_many(alice: User):
    with pytest.raises(OverBudget) as refused:
        save(alice, USER, full_by(alice, -7))

    assert (refused.value.have, refused.value.most) == (15_367, 15_360)
    assert "7 over the limit" in str(refused.value)


def test_a_line_and_a_month_have_limits_of_their_own(alice: User):
    with pytest.raises(LimitReached, match="Line 3 is 8,193 bytes"):
        save(alice, MONTH, f"> Summary: s\n\n{'z' * 8_193}")
    with pytest.raises(OverBudget, match="262,144"):
        save(alice, MONTH, "> Summary: s\n" + "z\n" * 131_072)
    with pytest.raises(OverBudget):
        save(alice, USER, "z\n" * 5_000_000)


def test_a_line_that_is_too_long_is_counted_as_its_writer_counts(alice: User):
    save(alice, MONTH, "# 2026-02\n\n## One\n- Summary: a\n")
    long = "z" * 8_193

    with pytest.raises(LimitReached, match="Line 2 is"):  # the text has no summary line
        save(alice, MONTH, f"# 2026-02\n{long}\n")
    with pytest.raises(LimitReached, match="Line 3 is"):  # of the entry, not of the file
        append_to(alice, MONTH, f"## Two\n- Summary: b\n{long}", by=AGENT)
    with pytest.raises(LimitReached, match="Line 6 is"):  # of the file as it is read
        patch(alice, MONTH, [("- Summary: a", long)], by=AGENT)


@pytest.mark.requirement("R140")
def test_the_closed_set_holds_for_write_patch_and_append(alice: User):
    for attempt in (
        lambda: save(alice, "facts/plans.md", "x"),
        lambda: patch(alice, "episodes/2026-13.md", [("a", "b")], by=AGENT),
        lambda: append_to(alice, "../user.md", "- x", by=AGENT),
    ):
        with pytest.raises(InvalidValue, match="one episode file per month"):
            attempt()
    assert MemoryFile.objects.for_user(alice).count() == 2


@pytest.mark.requirement("R149")
def test_a_summary_that_was_written_is_kept_and_one_that_was_not_is_renewed(alice: User):
    mine = save(alice, USER, "# User\n\n> Summary: in my words\n\n- Name: Ann\n")
    assert mine.summary == "in my words"

    save(alice, USER, "# User\n\n> Summary:\n\n- Name: Ann\n")
    renewed = patch(alice, USER, [("Ann", "Anna")], by=AGENT)
    assert renewed.file.summary == "Name: Anna"
    assert "> Summary: Name: Anna\n" in text_of(alice, USER)

    given = append_to(alice, USER, "- Likes tea", summary="Anna, tea", by=AGENT)
    assert (given.file.summary, given.file.summary_by) == ("Anna, tea", "agent")


PERSONS = "# User\n\n> Summary: in my words\n\n- Name: Ann\n"
REWRITTEN = PERSONS.replace("in my words", "an agent's").replace("Ann", "Anna")
WITHOUT = "# User\n\n- Name: Anna\n"


@pytest.mark.parametrize(
    "write",
    [
        lambda one: save(one, USER, REWRITTEN, by=AGENT),
        lambda one: save(one, USER, WITHOUT, by=AGENT),
        lambda one: append_to(one, USER, "- Tea", summary="an agent's", by=AGENT).file,
        lambda one: patch(one, USER, [("in my words", "an agent's")], by=AGENT).file,
        lambda one: save(one, USER, REWRITTEN, by=REFLECTOR),
        lambda one: save(one, USER, PERSONS.replace("Ann", "Anna"), by=one.actor),
        lambda one: append_to(one, USER, "- Tea", by=one.actor).file,
    ],
    ids=["write", "left out", "append", "patch", "reflection", "same line", "own entry"],
)
def test_a_persons_summary_line_is_theirs(alice: User, write: Any):
    save(alice, USER, PERSONS)

    file = write(alice)

    assert (file.summary, file.summary_by) == ("in my words", "person")
    assert text_of(alice, USER).count("> Summary: in my words\n") == 1


@pytest.mark.parametrize(
    "text", [WITHOUT.replace("Anna", "Ann"), PERSONS.replace("in my words", "")]
)
def test_a_person_empties_their_summary_line_and_beacon_generates_one(alice: User, text: str):
    seen = save(alice, USER, PERSONS).version
    append_to(alice, USER, "- Tea", by=AGENT)

    file = save_file(alice, USER, text, by=alice.actor, seen=seen).file

    assert file.summary.startswith("Name: Ann") and file.summary_by == "beacon"


def test_restore_and_undo_bring_a_summary_lines_author_back(alice: User):
    mine = save(alice, USER, PERSONS).version
    emptied = save(alice, USER, WITHOUT)

    undo(Revision.objects.get(record_id=emptied.pk, version=mine + 1), by=alice.actor)
    assert read_file(alice, USER).summary_by == "person"
    assert restore_version(alice, USER, mine + 1, by=alice.actor).file.summary_by == "beacon"
    assert restore_version(alice, USER, mine, by=alice.actor).file.summary_by == "person"


def test_a_generated_line_in_a_typed_text_is_beacons(alice: User):
    assert (
        save(alice, USER, "# User\n\n> Summary: Name: Ann\n\n- Name: Ann\n").summary_by == "beacon"
    )


@pytest.mark.requirement("R155", "R156")
def test_append_makes_the_month_and_keeps_one_blank_line_between_entries(alice: User):
    append_to(alice, MONTH, TOKYO, by=AGENT, source="run:7")
    saved = append_to(alice, MONTH, "\n\n" + TOKYO.replace("Tokyo flight", "Kyoto train"), by=AGENT)

    text = text_of(alice, MONTH)
    assert text.startswith("# 2026-02 Episodes\n\n> Summary: Spring Airlines cheapest")
    assert "¥2800\n\n## Kyoto train research\n" in text and "\n\n\n" not in text
    assert Revision.objects.get(record_id=saved.file.pk, version=1).source == "run:7"


@pytest.mark.requirement("R148")
def test_what_is_amiss_with_an_entry_is_explained_once_and_nothing_is_cut(alice: User):
    long = TOKYO.replace("Spring Airlines", "one two three four five six")

    first = append_to(alice, MONTH, long, by=AGENT)
    second = append_to(alice, MONTH, TOKYO.replace("## Tokyo", "## Kyoto"), by=AGENT)

    assert "has 11 words" in first.warnings[0] and second.warnings == ()
    assert "one two three four five six" in text_of(alice, MONTH)


@pytest.mark.requirement("R243")
def test_append_works_on_fact_files_and_the_date_stays_the_last_line(alice: User):
    append_to(alice, MEMORY, "- Tavily returns stale prices", by=AGENT)

    text = text_of(alice, MEMORY)
    assert text.startswith("# Memory\n\n> Summary: Tavily returns stale prices\n\n- Tavily")
    assert text.splitlines()[-1].startswith("- Updated: 20")


@pytest.mark.requirement("R151")
def test_what_is_not_there_is_reported_with_what_is(alice: User):
    with pytest.raises(
        NoSuchFile, match=r"episodes/2026-02\.md doesn’t exist yet.*facts/user\.md, facts/m"
    ):
        read_file(alice, MONTH)
    with pytest.raises(NoSuchFile):
        patch(alice, MONTH, [("a", "b")], by=AGENT)


@pytest.mark.requirement("R150", "R158", "R244")
def test_the_index_names_each_file_with_size_and_summary(alice: User):
    save(alice, USER, SEED)
    append_to(alice, MONTH, TOKYO, by=AGENT)

    assert index_text(alice).splitlines()[:3] == [
        "Available memory:",
        "- facts/user.md (176B): 建军, Chinese, wife birthday Mar 15, standup with 老王 Wed",
        f"- facts/memory.md ({read_file(alice, MEMORY).size}B): nothing yet",
    ]
    assert index_text(alice).endswith(
        "Apr Tokyo trip\n\nUse memory_read to load relevant files before responding."
    )


def test_changes_that_lie_apart_are_joined_and_the_same_lines_are_a_conflict(alice: User):
    base = save(alice, USER, SEED)
    save(alice, USER, SEED.replace("March 15", "March 16"), by=AGENT)

    mine = SEED.replace("(Jianjun)", "(JJ)")
    joined = save_file(alice, USER, mine, by=alice.actor, seen=base.version)
    assert joined.merged and "(JJ)" in joined.file.content and "March 16" in joined.file.content

    with pytest.raises(FileConflict) as refused:
        save(alice, USER, SEED.replace("March 15", "March 17"), seen=base.version)
    told = refused.value.as_json()
    assert (told["error"], told["path"], told["version"]) == ("conflict", USER, 4)
    assert told["current"] == text_of(alice, USER) and refused.value.merge.conflicts
    with pytest.raises(FileConflict):
        save(alice, USER, mine, seen=base.version, join=False)


def test_a_file_that_was_to_be_new_and_is_there_is_a_conflict_and_so_is_a_version_unheard_of(
    alice: User,
):
    save(alice, MONTH, TOKYO, seen=0)

    for seen in (0, 9):
        with pytest.raises(FileConflict):
            save(alice, MONTH, "## Other\n", seen=seen)
    with pytest.raises(NoSuchFile):
        save(alice, "episodes/2026-03.md", "## Other\n", seen=2)


def test_a_lock_stops_all_but_people_and_append_only_lets_agents_add(alice: User):
    file = append_to(alice, MONTH, TOKYO, by=AGENT).file
    with pytest.raises(Locked, match="Only a person"):
        file.change(by=AGENT, lock="read-only")
    file.change(by=alice.actor, lock="append-only")

    with pytest.raises(Locked):
        patch(alice, MONTH, [("¥1200", "¥1300")], by=AGENT)
    assert append_to(alice, MONTH, "## More\n", by=AGENT).file.version == 3
    file.refresh_from_db()
    file.change(by=alice.actor, lock="read-only")
    with pytest.raises(Locked):
        append_to(alice, MONTH, "## More\n", by=AGENT)
    assert save(alice, MONTH, TOKYO).version == 5


def test_a_locked_section_is_kept_from_agents_while_the_rest_stays_open(alice: User):
    save(alice, USER, "# User\n\n## Work\n- Engineer\n\n## Home\n- A cat\n")
    file = lock_section(read_file(alice, USER), ["User", "Work"], by=alice.actor, locked=True)

    patch(alice, USER, [("A cat", "A dog")], by=AGENT)
    for pair in (("Engineer", "Boss"), ("## Work\n- Engineer\n", "")):
        with pytest.raises(Locked, match="User › Work"):
            patch(alice, USER, [pair], by=AGENT)
    with pytest.raises(Locked):
        lock_section(file, ["User", "Work"], by=AGENT, locked=False)
    saved = save_file(alice, USER, "# User\n- nothing\n", by=alice.actor)
    assert saved.file.section_locks == [] and "together with its lock" in saved.warnings[0]


def test_a_section_that_is_not_there_cannot_be_locked(alice: User):
    with pytest.raises(InvalidValue, match="Its sections: User"):
        lock_section(read_file(alice, USER), ["User", "Play"], by=alice.actor, locked=True)


def test_a_version_is_restored_letter_by_letter_as_a_new_one(alice: User):
    save(alice, USER, SEED)
    save(alice, USER, "# User\n")

    saved = restore_version(alice, USER, 2, by=alice.actor, seen=3)

    assert (text_of(alice, USER), saved.file.version) == (SEED, 4)
    with pytest.raises(InvalidValue, match="The newest is 4"):
        restore_version(alice, USER, 9, by=alice.actor)
    with pytest.raises(FileConflict):
        restore_version(alice, USER, 1, by=alice.actor, seen=3)


def test_a_version_that_only_locked_has_the_text_that_stood_then(alice: User):
    file = save(alice, USER, SEED)
    file.change(by=alice.actor, lock="read-only")
    save(alice, USER, "# User\n")

    assert restore_version(alice, USER, 3, by=alice.actor).file.content == SEED
    joined = save_file(alice, USER, SEED + "- tea\n", by=alice.actor, seen=3)
    assert joined.file.content.endswith("- tea\n")


@pytest.mark.requirement("R184")
def test_lines_that_are_put_back_are_whose_they_were(alice: User):
    save(alice, MONTH, "# M\n\n- one\n- two\n- three\n")
    save(alice, MONTH, "# M\n\n- one\n- 2\n- three\n", by=AGENT)
    save(alice, MONTH, "# M\n\n- other\n")

    restored = restore_version(alice, MONTH, 2, by=alice.actor).file

    first, by_the_agent, now = 1, 2, 3  # whose change the summary line follows, too
    was = [[2, first], [1, by_the_agent], [2, first], [1, by_the_agent], [1, first]]
    assert (restored.version, restored.blame) == (4, was)
    undo(Revision.objects.get(record_id=restored.pk, version=4), by=alice.actor)
    assert read_file(alice, MONTH).blame == [[2, first], [1, now], [1, first], [1, now]]


def test_undo_puts_the_text_back_with_size_and_blame(alice: User):
    file = save(alice, USER, SEED)

    undo(Revision.objects.filter(record_id=file.pk).latest("id"), by=alice.actor)

    file.refresh_from_db()
    assert file.summary == "nothing yet" and file.size == texts.size_of(file.content)
    assert sum(lines for lines, _version in file.blame) == file.content.count("\n")


def test_the_same_text_again_isnt_a_new_version(alice: User):
    save(alice, USER, SEED)

    assert save(alice, USER, SEED).version == 2


def test_what_an_agent_wrote_is_an_agents_word_until_a_person_saves(alice: User):
    assert save(alice, USER, SEED, by=AGENT).trust == "agent"
    assert save_file(alice, USER, "# A\n", by=REFLECTOR, trust="external").file.trust == "external"
    assert save(alice, USER, SEED).trust == "owner"


# --- sections, trash ------------------------------------------------------------------------------


def hits(owner: User, query: str) -> list[str]:
    ids = [pk for pk, _score in bm25.search(owner, "section", query)]
    return [str(Section.objects.get(pk=pk)) for pk in ids]


@pytest.mark.requirement("R168")
def test_each_section_is_found_at_once_and_gone_with_its_text(alice: User):
    append_to(alice, MONTH, TOKYO, by=AGENT)
    assert hits(alice, "ANA flights") == ["2026-02 Episodes › Tokyo flight research"]

    tokyo = Section.objects.get()
    save(alice, MONTH, "# 2026-02 Episodes\n\n## First\n- tea\n\n" + TOKYO)
    assert Section.objects.get(heading__contains="Tokyo flight research").pk == tokyo.pk

    save(alice, MONTH, "# 2026-02 Episodes\n")
    assert hits(alice, "flights tea") == [] and not Section.objects.exists()


def test_a_month_goes_to_the_trash_with_its_sections_and_comes_back_with_them(alice: User):
    file = append_to(alice, MONTH, TOKYO, by=AGENT).file
    file.trash(by=alice.actor)
    assert hits(alice, "flights") == []
    assert [kind for kind, rows in trashed(alice) if rows.exists()] == ["memoryfile"]

    file.restore(by=alice.actor)
    assert len(hits(alice, "flights")) == 1

    file.trash(by=alice.actor)
    append_to(alice, MONTH, TOKYO, by=AGENT)
    with pytest.raises(InvalidValue, match="another record has taken its place"):
        file.restore(by=alice.actor)
    file.purge(by=alice.actor)
    assert MemoryFile.objects.get(path=MONTH).version == 1


@pytest.mark.requirement("R165")
def test_a_fact_file_is_always_there(alice: User):
    file = read_file(alice, USER)
    for act in (file.trash, file.purge):
        with pytest.raises(InvalidValue, match="Empty it instead"):
            act(by=alice.actor)


def test_anothers_files_are_not_there(alice: User, bob: User):
    append_to(alice, MONTH, TOKYO, by=AGENT)

    with pytest.raises(NoSuchFile):
        read_file(bob, MONTH)
    assert hits(bob, "flights") == []
