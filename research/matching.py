"""Whether a sentence says again what an earlier one said, says it otherwise, or is new.

Both are taken apart (`statements.py`); then numbers and states are held against each other
inside the same frame of words.  Careful by design: in doubt a sentence is new, since a wrong
"changed" sets a person against something that never was.  `benchmarks/matching.py` measures it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from rapidfuzz import fuzz

from research.measures import same_measure
from research.statements import Stated, numbers, take_apart

__all__ = ["Match", "match", "numbers"]

SAME = 85  # token_set_ratio (or ratio, between wide characters) of one statement in two writings
# Shares of the frame's weight that two statements about one thing have in common.
FRAME = 0.6
INNER_FRAME = 0.8
OTHER_HEAD = 0.75


@dataclass(frozen=True, slots=True)
class Match:
    """The earlier sentence (its place in the list) and how it relates; `score` is 0 to 100."""

    index: int
    kind: Literal["confirmed", "changed"]
    score: float


def match(sentence: str, previous: Sequence[str]) -> Match | None:
    """Return the earlier statement that `sentence` confirms or changes, or None if it is new.

    "confirmed": the same in nearly the same words with the same numbers and state; "changed":
    the same subject and frame with another number, date, version, negation or state.  A
    confirmation wins over a change, then the higher score, then the earlier sentence.
    """
    new = _taken_apart(sentence)
    olds = [_taken_apart(text) for text in previous]
    rarity = _rarity(new, olds)
    best: Match | None = None
    for index, old in enumerate(olds):
        found = _compare(new, old, rarity)
        if found is None:
            continue
        kind, score = found
        if best is None or (kind == "confirmed", score) > (best.kind == "confirmed", best.score):
            best = Match(index, kind, score)
    return best


@lru_cache(maxsize=4_096)
def _taken_apart(sentence: str) -> Stated:
    return take_apart(sentence)


def _rarity(new: Stated, olds: Sequence[Stated]) -> dict[str, float]:
    """Weigh each term by how few of the earlier sentences hold it: the topic's name says little."""
    holding = Counter(term for old in olds for term in old.frame)
    total = len(olds) + 1
    known = set(holding) | set(new.frame)
    return {term: 0.3 + math.log(1 + total / (1 + holding[term])) for term in known}


def _compare(
    new: Stated, old: Stated, rarity: dict[str, float]
) -> tuple[Literal["confirmed", "changed"], float] | None:
    if new.key == old.key:
        return "confirmed", 100.0
    if not new.key or not old.key or new.is_wide != old.is_wide:
        return None
    ratio = _ratio(new, old)
    same_states = _states_agree(new, old)
    if ratio >= SAME and new.numbers == old.numbers and same_states and not _other_names(new, old):
        return "confirmed", ratio
    if _other_subject(new, old):
        return None
    alike, inner = _frames(new, old, rarity)
    if same_states and _numbers_agree(new, old):
        return ("confirmed", 100 * inner) if _is_restated(new, old, alike, inner) else None
    if _is_changed(new, old, alike, inner):
        return "changed", round(100 * max(alike, 0.5), 1)
    return None


def _ratio(new: Stated, old: Stated) -> float:
    scorer = fuzz.ratio if new.is_wide else fuzz.token_set_ratio
    ratio = scorer(new.key, old.key)
    short, long = sorted((len(new.key), len(old.key)))
    # A few words that stand in a long sentence are not what it says.
    return ratio if short >= 0.5 * long else min(ratio, SAME - 1)


def _states_agree(new: Stated, old: Stated) -> bool:
    ours, theirs = dict(new.states), dict(old.states)
    if ("negation" in ours) != ("negation" in theirs):
        return False
    return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())


def _other_names(new: Stated, old: Stated) -> bool:
    """Whether each speaks of a name that the other does not know."""
    ours = {name for name in new.names if name not in old.text.casefold()}
    theirs = {name for name in old.names if name not in new.text.casefold()}
    return bool(ours and theirs)


def _other_subject(new: Stated, old: Stated) -> bool:
    """Whether they speak of two things: version 12 and version 13, one company and another."""
    if _other_names(new, old):
        return True
    if new.is_one and old.is_one:
        return False
    if not new.subject or not old.subject:
        return False
    return not any(_is_within(left, right) for left in new.subject for right in old.subject)


def _is_within(left: str, right: str) -> bool:
    """Whether two versions are one, or one a release of the other: 18 and 18.1."""
    return left == right or left.startswith(f"{right}.") or right.startswith(f"{left}.")


def _frames(new: Stated, old: Stated, rarity: dict[str, float]) -> tuple[float, float]:
    """Return the weight the frames share, of both (Dice) and of the smaller one, each 0 to 1."""

    def weight(terms: set[str]) -> float:
        return sum(rarity.get(term, 1.0) for term in terms)

    ours, theirs = set(new.frame), set(old.frame)
    shared, left, right = weight(ours & theirs), weight(ours), weight(theirs)
    if not left or not right:
        return 0.0, 0.0
    return 2 * shared / (left + right), shared / min(left, right)


def _numbers_agree(new: Stated, old: Stated) -> bool:
    """Whether neither has a number where the other has another one."""
    if new.numbers == old.numbers or new.numbers < old.numbers:
        return True
    # A figure more is no change if what was known had one already.
    return old.numbers < new.numbers and len(old.numbers - old.subject) > 0


def _is_restated(new: Stated, old: Stated, alike: float, inner: float) -> bool:
    shared = len(set(new.frame) & set(old.frame))
    if _is_lifecycle(new, old):
        return True
    if new.is_wide:
        return alike >= OTHER_HEAD and shared >= 4
    enough = bool(new.numbers & old.numbers) or alike >= INNER_FRAME
    return enough and shared >= 3 and (alike >= OTHER_HEAD or (inner >= 0.9 and alike >= FRAME))


def _is_lifecycle(new: Stated, old: Stated) -> bool:
    """Whether both tell of one version's support, planned or done, by the same numbers."""
    both = dict(new.states).get("life") and dict(old.states).get("life")
    return bool(both and new.subject & old.subject and new.names & old.names) and bool(
        (new.numbers - new.subject) & (old.numbers - old.subject)
    )


def _is_changed(new: Stated, old: Stated, alike: float, inner: float) -> bool:
    if new.is_wide:
        return _is_changed_wide(new, old, alike)
    shared = set(new.frame) & set(old.frame)
    if _life_changed(new, old):
        return True
    words = {term for term in shared if not term.startswith("§")}
    if len(words) < 2:
        return False
    same_head = _head(new) == _head(old) or _head(new) in shared or _head(old) in shared
    return alike >= (FRAME if same_head else OTHER_HEAD) or (
        same_head and inner >= INNER_FRAME and len(words) >= 4 and alike >= 0.5
    )


def _life_changed(new: Stated, old: Stated) -> bool:
    """Whether one version's support is told of in two states or with two dates."""
    ours, theirs = dict(new.states), dict(old.states)
    if not new.subject & old.subject or "life" not in ours or "life" not in theirs:
        return False
    return ours != theirs or new.numbers != old.numbers


def _head(stated: Stated) -> str:
    return next((term for term in stated.frame if not term.startswith("§")), "")


def _is_changed_wide(new: Stated, old: Stated, alike: float) -> bool:
    return alike >= OTHER_HEAD or same_measure(new.text, old.text)
