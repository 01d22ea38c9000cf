"""Functions on a memory file's text, without a database."""

from __future__ import annotations

import random
import time

import pytest

from memory.models.errors import InvalidValue
from memory.models.file_format import (
    by_rule,
    checked_path,
    entries_of,
    locked_text,
    sections_of,
    summary_of,
    telling,
    with_summary,
)
from memory.services.files.texts import PatchRefused, carried, cleaned, format_size, patched

USER, MONTH = "facts/user.md", "episodes/2026-02.md"
EPISODES = """# 2026-02 Episodes

> Summary: Tokyo flight research

## Tokyo flight research
- Summary: Spring Airlines cheapest for Apr Tokyo trip
- Date: 2026-02-26
- Task: User asked to compare flights to Tokyo in April
- Findings: Spring Airlines ¥1200, ANA ¥2800, JAL ¥3100
- Lesson: Tavily search returns stale prices;
  cross-check with airline sites

## Birthday gift brainstorm
- Summary: wife likes ceramics, settled on Jingdezhen tea set
- Date: 2026-02-27
- Task: User asked for gift ideas for wife's birthday
- Decision: Jingdezhen hand-painted tea set from Taobao
"""


@pytest.mark.requirement("R139", "R141", "R145")
@pytest.mark.parametrize(
    "path",
    [
        "facts/other.md", "facts/User.md", "FACTS/user.md", "/facts/user.md", "facts//user.md",
        "facts/../facts/user.md", "../user.md", "facts\\user.md", "facts/user.md\0", "facts/user.md\n",
        "facts/us\u200ber.md", "facts/user.ｍd", "facts/ｕser.md", "episodes/2026-13.md",
        "episodes/2026-00.md", "episodes/2026-2.md", "episodes/٢٠٢٦-02.md", "episodes/2026-02.MD",
        "episodes/2026-02.md.md", "episodes/2026-02", "", " facts/user.md", None, 7, b"facts/user.md",
    ],
)  # fmt: skip
def test_any_other_name_is_refused_and_told_what_is_allowed(path: object):
    with pytest.raises(InvalidValue, match=r"facts/user\.md, facts/memory\.md or .*2026-02\.md"):
        checked_path(path)


def test_the_closed_set_is_allowed():
    assert [checked_path(p) for p in (USER, "facts/memory.md", MONTH)]


@pytest.mark.requirement("R147")
def test_an_entry_is_read_with_its_fields_and_the_lines_that_continue():
    tokyo, gift = entries_of(EPISODES)

    assert (tokyo.title, tokyo.date, tokyo.problems) == ("Tokyo flight research", "2026-02-26", ())
    assert tokyo.lesson.endswith("stale prices; cross-check with airline sites")
    assert gift.decision == "Jingdezhen hand-painted tea set from Taobao"
    assert (tokyo.first_line, tokyo.last_line, gift.first_line) == (5, 12, 13)


@pytest.mark.requirement("R148")
def test_a_summary_of_ten_words_is_warned_of_and_one_of_nine_is_not():
    nine, ten = "one two three four five six seven eight nine", "a " * 10

    assert not any("words" in p for p in entries_of(f"## A\n- Summary: {nine}")[0].problems)
    assert any("has 10 words" in p for p in entries_of(f"## A\n- Summary: {ten}")[0].problems)


def test_what_an_entry_lacks_is_explained():
    said = " ".join(entries_of("## Trip\n- Date: soon\nSomething else.\n")[0].problems)

    assert "no Summary" in said and "must contain a date such as 2026-02-26" in said
    assert "has no Task" in said and "needs at least one of these: Findings" in said


@pytest.mark.requirement("R149")
def test_the_summary_line_is_made_of_the_entries_newest_first_or_of_the_first_bullets():
    assert by_rule(MONTH, EPISODES) == (
        "wife likes ceramics, settled on Jingdezhen tea set, "
        "Spring Airlines cheapest for Apr Tokyo trip"
    )
    facts = "# User\n\n- **Name**: Zhang San\n- Updated: 2026-02-28\n"
    assert by_rule(USER, facts) == "Name: Zhang San"
    assert by_rule(USER, "# User\n\nWrites `code` by hand.\n") == "Writes code by hand."
    assert by_rule(USER, "- " + "long " * 80).endswith("…")


@pytest.mark.requirement("R156")
@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("", "> Summary: S\n"),
        ("# T", "# T\n\n> Summary: S\n"),
        ("# T\n- a\n", "# T\n\n> Summary: S\n\n- a\n"),
        ("# T\n\n- a", "# T\n\n> Summary: S\n\n- a"),
        ("- a\n", "> Summary: S\n\n- a\n"),
        ("\n\n# T\n", "\n\n# T\n\n> Summary: S\n"),
        ("# T\n>summary: old\n- a\n", "# T\n> Summary: S\n- a\n"),
        (
            "# T\n\n```\n> Summary: code\n```\n",
            "# T\n\n> Summary: S\n\n```\n> Summary: code\n```\n",
        ),
    ],
)
def test_the_summary_line_has_its_place_also_without_a_heading(text: str, stored: str):
    assert with_summary(text, "S") == stored
    assert summary_of(stored) == "S"


def test_a_quoted_summary_further_down_is_not_the_files():
    text = "# T\n\n- a\n\n## Entry\n\n> Summary: of a book\n"

    assert summary_of(text) is None
    assert with_summary(text, "S").startswith("# T\n\n> Summary: S\n\n- a\n")


def test_sections_know_their_heading_path_and_their_lines():
    text = "before\n# A\none\n## B\ntwo\n```\n# no heading\n```\n## C\n# D\nend"

    found = [(one.heading, one.first_line, one.last_line, one.until) for one in sections_of(text)]
    assert found == [
        ((), 1, 1, 1), (("A",), 2, 3, 9), (("A", "B"), 4, 8, 8), (("A", "C"), 9, 9, 9),
        (("D",), 10, 11, 11),
    ]  # fmt: skip


def test_recall_gets_the_sections_that_say_something():
    text = with_summary(EPISODES, by_rule(MONTH, EPISODES))

    titles = [one.title for one in telling(text, without=text.split("\n")[2])]
    assert titles == ["Tokyo flight research", "Birthday gift brainstorm"]
    assert telling("# User\n\n> Summary: my own words\n")[0].title == "User"


def test_a_lock_keeps_a_section_with_all_inside_it_but_not_the_summary_line():
    text = "# A\n\n> Summary: x\n\n- a\n## B\n- b\n\n\n# C\n"

    assert locked_text(text, ["A"]) == locked_text(text.replace("x", "y"), ["A"])
    assert locked_text(text, ["A"]) != locked_text(text.replace("- b", "- c"), ["A"])
    assert locked_text(text, ["A", "B"]) == "## B\n- b"
    assert locked_text(text, ["B"]) is None


@pytest.mark.requirement("R153", "R154")
def test_a_patch_takes_its_new_text_literally():
    text = patched(USER, "a.b\ncost\n", [("a.b", r"\1 $& \g<0>"), ("cost", "5 €")])

    assert text == "\\1 $& \\g<0>\n5 €\n"


def test_what_the_summary_line_repeats_counts_only_where_nothing_else_does():
    text = "# U\n\n> Summary: Name: Ann\n\n- Name: Ann\n"

    assert patched(USER, text, [("Ann", "Bo")]).endswith("> Summary: Name: Ann\n\n- Name: Bo\n")
    assert "> Summary: mine\n" in patched(USER, text, [("> Summary: Name: Ann", "> Summary: mine")])


@pytest.mark.requirement("R154")
@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        ([], "nothing to patch"),
        ([("", "x")], "no old text"),
        ([("absent", "x")], "isn’t in"),
        ([("tea", "x")], "more than once"),
        ([("aa", "x")], "more than once"),
        ([("green tea", "x"), ("tea and", "y")], "pairs 1 and 2 overlap"),
        ([("green tea", "x"), ("x", "y")], "isn’t in"),
    ],
)
def test_a_patch_that_does_not_fit_is_refused_and_says_why(pairs: list[tuple[str, str]], why: str):
    with pytest.raises(PatchRefused, match=why):
        patched(USER, "green tea and black tea aaa", pairs)


def test_windows_line_ends_and_a_mark_are_fixed_and_what_cannot_be_stored_is_explained():
    assert cleaned("a\r\nb\rc") == cleaned("a\nb\nc")
    text, warnings = cleaned("\ufeff# A\0\ud800\n")
    assert text == "# A\n"
    assert "byte order mark" in warnings[0] and "NUL" in warnings[1]


def test_blame_keeps_the_version_of_lines_that_stay():
    first = carried([], "", "a\nb\nc\n", 1)
    second = carried(first, "a\nb\nc\n", "a\nx\nc\nd", 2)

    assert (first, second) == ([[3, 1]], [[1, 1], [1, 2], [1, 1], [1, 2]])
    assert carried(second, "a\nx\nc\nd", "a\nx\nc\nd\n", 3) == second


def test_blame_of_a_rewritten_file_of_the_largest_size_is_quick():
    rng = random.Random(5)
    old, new = ("\n".join(f"- {rng.random()} {n}" for n in range(9_000)) for _turn in range(2))

    began = time.perf_counter()
    blame = carried([[9_000, 1]], old, new, 2)

    assert time.perf_counter() - began < 1.5
    assert sum(lines for lines, _version in blame) == 9_000


@pytest.mark.requirement("R244")
@pytest.mark.parametrize(("size", "said"), [(0, "0B"), (420, "420B"), (1229, "1.2KB")])
def test_sizes_are_said_as_in_the_seed(size: int, said: str):
    assert format_size(size) == said
