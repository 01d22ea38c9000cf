"""Whether two sentences speak of one thing or of two: by names, numbers that name, and order of words."""

from __future__ import annotations

from collections.abc import Collection
from difflib import SequenceMatcher

from research.claims.terms import STOP_WORDS
from research.comparing.slots import Slots
from research.comparing.states import ONE_HOLDER
from research.comparing.values import Features

_MARKS = '.,;:!?()"“”'


def codes_swapped(new: Slots, old: Slots) -> float:
    """Whether both name a numbered thing by one word, and another number: phase 2 and phase 3."""
    ours, theirs = _numbered(new), _numbered(old)
    return float(
        any(
            not any(_is_within(left, right) for left in ours[word] for right in theirs[word])
            for word in ours.keys() & theirs.keys()
        )
    )


def _is_within(left: str, right: str) -> bool:
    """Whether two versions are one, or one a release of the other: 5 and 5.1, 8.x and 8."""
    left, right = left.removesuffix(".x"), right.removesuffix(".x")
    return left == right or left.startswith(f"{right}.") or right.startswith(f"{left}.")


def _numbered(slots: Slots) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in slots.designated:
        word, _space, number = name.rpartition(" ")
        found.setdefault(word, set()).add(number)
    return found


def swapped(new: Slots, old: Slots) -> tuple[set[str], set[str]]:
    """Return the words that stand in one place of both and differ: "the nickel", "the cobalt"."""
    ours, theirs = new.bare.split(), old.bare.split()
    gone: set[str] = set()
    come: set[str] = set()
    blocks = SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes()
    for kind, i1, i2, j1, j2 in blocks:
        if kind == "replace" and i2 - i1 <= 4 and j2 - j1 <= 4:
            gone.update(theirs[i1:i2])
            come.update(ours[j1:j2])
    return _telling(gone), _telling(come)


def only_names_differ(
    new: Slots, old: Slots, new_names: Collection[str], old_names: Collection[str]
) -> bool:
    """Whether both say the same of two things: "the plant in Kyoto …", "the plant in Lyon …".

    Not where only one thing can be it: who is chief now stands for who was.
    """
    if ONE_HOLDER.search(new.folded) and ONE_HOLDER.search(old.folded):
        return False
    ours = [word.strip(_MARKS) for word in new.bare.split()]
    theirs = [word.strip(_MARKS) for word in old.bare.split()]
    # What stands in one of them alone is part of some swap: mostly this says it without aligning.
    if not all(_is_of(word, old_names) for word in {*theirs} - {*ours}) or not all(
        _is_of(word, new_names) for word in {*ours} - {*theirs}
    ):
        return False
    blocks = SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes()
    swaps = [block for block in blocks if block[0] != "equal"]
    return bool(swaps) and all(
        kind == "replace"
        and all(_is_of(word, old_names) for word in theirs[i1:i2])
        and all(_is_of(word, new_names) for word in ours[j1:j2])
        for kind, i1, i2, j1, j2 in swaps
    )


def _is_of(word: str, names: Collection[str]) -> bool:
    return word in names or word.removesuffix("'s") in names


def _telling(words: Collection[str]) -> set[str]:
    return {word for word in words if word not in STOP_WORDS and len(word) > 2}


def by_subject(new: Slots, old: Slots, new_names: set[str], old_names: set[str]) -> Features:
    """Compare the names that each begins with, the topic's included."""
    ours, theirs = _head(new, new_names), _head(old, old_names)
    met = any(known_by(name, old.folded) for name in ours)
    met = met or any(known_by(name, new.folded) for name in theirs)
    return {
        "subject_swapped": float(bool(ours and theirs) and not met),
        "subject_same": float(bool(ours & theirs)),
    }


def _head(slots: Slots, names: set[str]) -> set[str]:
    start = " ".join(slots.folded.split()[:6])
    return {name for name in names if name in start}


def in_order(new: Slots, old: Slots) -> float:
    """Return how much of the old sentence stands in the new one, in its order."""
    ours, theirs = new.folded.split(), old.folded.rstrip(".").split()
    blocks = SequenceMatcher(None, theirs, ours, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / max(1, len(theirs))


def long_ago(new: Slots, old: Slots) -> float:
    """Whether the sentence tells of a year before the one in which the fact was checked."""
    if old.on is None:
        return 0.0
    told = {m.year for m in old.moments}
    return float(any(0 < m.year < old.on.year and m.year not in told for m in new.moments))


def known_by(name: str, text: str) -> bool:
    """Whether a text holds a name or a word made of it: Brazil, Brazilian."""
    return name[: max(4, len(name) - 3)] in text
