"""Two changes of one text: separate changes merge, overlapping ones are a conflict, nothing is lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from beacon_site.text.diff import merge

BASE = "one\ntwo\nthree\nfour\nfive\n"
texts = st.lists(st.sampled_from(["a", "b", "c d", "e f g", ""]), max_size=8).map("\n".join)


def test_changes_of_different_lines_merge_by_themselves() -> None:
    made = merge(BASE, BASE.replace("one", "ONE"), BASE.replace("five", "FIVE"))
    assert made.text() == "ONE\ntwo\nthree\nfour\nFIVE\n"
    assert not made.conflicts


def test_changes_of_neighboring_lines_merge_too() -> None:
    made = merge(BASE, BASE.replace("two", "TWO"), BASE.replace("three", "THREE"))
    assert (made.text(), made.conflicts) == ("one\nTWO\nTHREE\nfour\nfive\n", [])


def test_changes_of_far_words_of_one_line_merge() -> None:
    base = "The pilot line starts in June and makes cells in Lanling."
    made = merge(base, base.replace("June", "July"), base.replace("Lanling", "Wuhan"))
    assert made.text() == "The pilot line starts in July and makes cells in Wuhan."


def test_words_side_by_side_are_one_statement_and_so_a_conflict() -> None:
    made = merge("It costs 5 euro.", "It costs 6 euro.", "It costs 5 dollars.")
    assert [part.theirs for part in made.conflicts] == ["It costs 5 dollars."]


def test_the_same_change_on_either_side_isnt_a_conflict() -> None:
    made = merge(BASE, BASE + "six\n", BASE + "six\n")
    assert (made.text(), made.conflicts) == (BASE + "six\n", [])


def test_both_adding_at_one_place_is_a_conflict_that_can_keep_both() -> None:
    made = merge(BASE, BASE + "mine\n", BASE + "theirs\n")
    assert len(made.conflicts) == 1
    assert made.text() == BASE + "mine\n"
    assert made.text({0: "theirs"}) == BASE + "theirs\n"
    assert made.text({0: "both"}) == BASE + "theirs\nmine\n"


def test_lines_taken_out_here_and_changed_there_are_a_conflict() -> None:
    made = merge(BASE, BASE.replace("three\n", ""), BASE.replace("three", "THREE"))
    assert [(part.mine, part.theirs) for part in made.conflicts] == [("", "THREE\n")]


def test_a_last_line_without_a_break_does_not_stand_in_the_way() -> None:
    made = merge("a\nb", "a\nb\nc", "A\nb")
    assert (made.text(), made.conflicts) == ("A\nb\nc", [])


def test_each_conflict_has_its_own_choice() -> None:
    mine, theirs = "1\nx\ny\nz\n2\n", "3\nx\ny\nz\n4\n"
    made = merge("a\nx\ny\nz\nb\n", mine, theirs)
    assert made.text({0: "theirs"}) == "3\nx\ny\nz\n2\n"


@given(base=texts, mine=texts)
def test_with_one_side_unchanged_the_other_remains(base: str, mine: str) -> None:
    assert merge(base, mine, base).text() == mine
    assert merge(base, base, mine).text() == mine


@given(base=texts, mine=texts, theirs=texts)
@settings(max_examples=300)
def test_no_side_is_ever_lost(base: str, mine: str, theirs: str) -> None:
    parts = merge(base, mine, theirs).parts
    assert "".join(part.base for part in parts) == base
    assert "".join(part.mine for part in parts) == mine
    assert "".join(part.theirs for part in parts) == theirs


@given(base=texts, mine=texts, theirs=texts)
def test_who_is_mine_and_who_is_theirs_does_not_change_what_merges(
    base: str, mine: str, theirs: str
) -> None:
    one, other = merge(base, mine, theirs), merge(base, theirs, mine)
    assert len(one.conflicts) == len(other.conflicts)
    if not one.conflicts:
        assert one.text() == other.text()


def test_a_large_text_merges_quickly() -> None:
    lines = [f"line {n} of the text\n" for n in range(4000)]
    mine, theirs = lines.copy(), lines.copy()
    mine[10], theirs[3000] = "mine\n", "theirs\n"
    made = merge("".join(lines), "".join(mine), "".join(theirs))
    assert (made.conflicts, "mine\n" in made.text()) == ([], True)
