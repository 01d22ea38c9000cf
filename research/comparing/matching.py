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

from research.comparing.measures import same_measure
from research.comparing.statements import Stated, numbers, take_apart

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
    if ratio >= SAME and new.numbers == old.numbers and same_states and _same_subject(new, old):
        return "confirmed", ratio
    if _other_subject(new, old):
        return None
    alike, inner = _frames(new, old, rarity)
    if same_states and _numbers_agree(new, old) and not _other_names(new, old):
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


# A sentence that is silent about these says the contrary: planned or not, over or not, not.
_TELLING = (("stage", "planned"), ("stage", "dropped"), ("life", "ended"), ("negation", "no"))


def _states_agree(new: Stated, old: Stated) -> bool:
    ours, theirs = dict(new.states), dict(old.states)
    if any((ours.get(name) == state) != (theirs.get(name) == state) for name, state in _TELLING):
        return False
    return all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())


def _other_names(new: Stated, old: Stated) -> bool:
    """Whether each speaks of a name that the other does not know."""
    ours = {name for name in new.names if name not in old.text.casefold()}
    theirs = {name for name in old.names if name not in new.text.casefold()}
    return bool(ours and theirs)


def _same_subject(new: Stated, old: Stated) -> bool:
    return not _other_names(new, old) and (new.is_wide or _same_head(new, old))


def _same_head(new: Stated, old: Stated) -> bool:
    """Whether what one sentence begins with stands in the other, or both name one version."""
    ours, theirs = _head(new), _head(old)
    if ours in old.frame and theirs in new.frame:
        return True
    return bool(new.subject & old.subject)


def _head(stated: Stated) -> str:
    return next((term for term in stated.frame if not term.startswith("§")), "")


def _other_subject(new: Stated, old: Stated) -> bool:
    """Whether they speak of two things: version 12 and version 13, one company and another."""
    if new.is_one and old.is_one:
        return _other_names(new, old) and not new.names & old.names
    if _other_names(new, old):
        return True
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

    # A state told of on one side only is no word that the other side lacks.
    marks = {term for term in set(new.frame) ^ set(old.frame) if term.startswith("§")}
    ours, theirs = set(new.frame) - marks, set(old.frame) - marks
    shared, left, right = weight(ours & theirs), weight(ours), weight(theirs)
    if not left or not right:
        return 0.0, 0.0
    return 2 * shared / (left + right), shared / min(left, right)


def _numbers_agree(new: Stated, old: Stated) -> bool:
    """Whether neither has a number where the other has another one."""
    if new.numbers == old.numbers:
        return True
    if new.is_wide and same_measure(new.text, old.text):
        return False
    if new.numbers < old.numbers:
        return True
    # A figure more is no change if what was known had one already.
    return old.numbers < new.numbers and len(old.numbers - old.subject) > 0


def _is_restated(new: Stated, old: Stated, alike: float, inner: float) -> bool:
    shared = len(set(new.frame) & set(old.frame))
    if new.is_wide:
        return shared >= 4 and (alike >= OTHER_HEAD or inner >= INNER_FRAME)
    if not _same_subject(new, old):
        return False
    shared_numbers = (new.numbers - new.subject) & (old.numbers - old.subject)
    if new.subject & old.subject and len(shared_numbers) >= 2 and _same_event(new, old):
        return True
    enough = bool(shared_numbers) or alike >= INNER_FRAME
    return enough and shared >= 3 and (alike >= OTHER_HEAD or (inner >= 0.9 and alike >= FRAME))


def _same_event(new: Stated, old: Stated) -> bool:
    """Whether both tell of the same stage or the same support of what they speak of."""
    ours, theirs = dict(new.states), dict(old.states)
    return any(name in ours and ours[name] == theirs.get(name) for name in ("life", "stage"))


def _is_changed(new: Stated, old: Stated, alike: float, inner: float) -> bool:
    if new.is_wide:
        return alike >= OTHER_HEAD or same_measure(new.text, old.text)
    if _life_changed(new, old) or _stage_changed(new, old, inner):
        return True
    words = {term for term in set(new.frame) & set(old.frame) if not term.startswith("§")}
    if len(words) < 2:
        return False
    same_head = _same_head(new, old)
    if new.is_one and old.is_one and same_head and len(words) >= 3 and alike >= 0.5:
        return True
    return alike >= (FRAME if same_head else OTHER_HEAD) or (
        same_head and inner >= INNER_FRAME and len(words) >= 4 and alike >= 0.5
    )


def _life_changed(new: Stated, old: Stated) -> bool:
    """Whether one version's support is told of in two states or with two dates."""
    if not new.subject & old.subject:
        return False
    return "life" in dict(new.states) and "life" in dict(old.states)


def _stage_changed(new: Stated, old: Stated, inner: float) -> bool:
    """Whether what was planned for one version has come about, or the other way round."""
    ours, theirs = dict(new.states).get("stage"), dict(old.states).get("stage")
    if not ours or not theirs or ours == theirs or not new.subject & old.subject:
        return False
    dates = (new.numbers - new.subject) & (old.numbers - old.subject)
    return inner >= FRAME or (inner >= 0.4 and len(dates) >= 2)
