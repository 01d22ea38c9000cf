"""How the amounts and the points in time of two sentences lie beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

from research.comparing.amounts import UNITS, Amount
from research.comparing.slots import Slots
from research.comparing.states import ONE_HOLDER

Features = dict[str, float]
NUMBERS = (
    "same_value",
    "same_rare",
    "rounded",
    "other_value",
    "value_more",
    "value_missing",
    "value_added",
    "near_value",
    "noun_same",
    "noun_differs",
)
TIMES = ("same_time", "other_time", "later", "earlier", "other_year", "dated")


def by_values(new: Slots, old: Slots) -> str:
    """Return how two sentences with the same words stand to each other by their values.

    Another value for the same time contradicts; without a time, or from another day of the same
    year on, it is a change.  Of other years nothing is said here, as they may be two facts, unless
    only one thing at a time can be it: the latest release of another year is a change.
    """
    same_values = sorted(map(str, new.amounts)) == sorted(map(str, old.amounts))
    if set(new.moments) == set(old.moments):
        if same_values:
            return "confirmed"
        return "contradicted" if new.moments else "changed"
    years = {moment.year for moment in new.moments}, {moment.year for moment in old.moments}
    if not new.moments or not old.moments:
        return ""
    if years[0] != years[1]:
        of_one = ONE_HOLDER.search(new.bare) and ONE_HOLDER.search(old.bare)
        return "changed" if of_one and by_time(new, old)["later"] else ""
    return "changed"


def tells_same(new: Slots, old: Slots) -> bool:
    """Whether two sentences about one thing tell no two values for it, where both tell some."""
    pairs = [(a, b) for a in new.amounts for b in old.amounts if _comparable(a, b)]
    if not pairs:
        ours = [amount for amount in (*new.amounts, *old.amounts) if _known(amount)]
        return not (new.amounts and old.amounts and ours)
    return any(_same(a, b) or _rounded(a, b) for a, b in pairs)


def by_numbers(new: Slots, old: Slots) -> Features:
    """Compare the amounts; a unit that is only a word counts less than one that is known."""
    theirs = list(old.amounts)
    ours = list(new.amounts)
    held = [a for a in theirs if any(_same(a, b) for b in ours)]
    rounded = [a for a in theirs if any(_same(a, b) or _rounded(a, b) for b in ours)]
    more = [b for b in ours if not any(_same(a, b) or _rounded(a, b) for a in theirs)]
    other = [a for a in theirs if a not in rounded and any(_comparable(a, b) for b in more)]
    kind = any(_comparable(a, b) for a in theirs for b in more)
    counted, counting = _nouns(theirs), _nouns(ours)
    return {
        "same_value": len(held) / len(theirs) if theirs else 0.0,
        "same_rare": float(any(a.value > 12 for a in held)),
        "rounded": float(bool(rounded and not held)),
        "other_value": float(bool(other)),
        "value_more": float(kind),
        "noun_same": float(bool(counted & counting)),
        "noun_differs": float(bool(counted and counting) and not counted & counting),
        "value_missing": float(bool(theirs) and not held and not other),
        "value_added": float(bool(ours) and not theirs),
        "near_value": max(
            (_nearness(a, b) for a in theirs for b in more if _comparable(a, b)), default=0.0
        ),
    }


def _same(left: Amount, right: Amount, tolerance: float = 0.003) -> bool:
    if not left.is_near(right, tolerance):
        return False
    return left.unit == right.unit or not _known(left) or not _known(right)


def _rounded(left: Amount, right: Amount) -> bool:
    """Whether one is the other with fewer digits: 1,425 megawatts and 1.4 gigawatts."""
    if _known(left) and _known(right) and left.unit != right.unit:
        return False
    ours, theirs = _digits(left.value), _digits(right.value)
    fine, coarse, count = (left, right, theirs) if ours > theirs else (right, left, ours)
    if ours == theirs or not left.is_near(right, 0.04):
        return False
    return math.isclose(float(f"{fine.value:.{max(0, count - 1)}e}"), coarse.value)


def _digits(value: float) -> int:
    """Return how many digits of a value are told: 1.4 has two, 600 one."""
    return len(f"{value:.9e}".split("e")[0].replace(".", "").rstrip("0"))


def _comparable(left: Amount, right: Amount) -> bool:
    if left.unit == right.unit:
        return True
    return not _known(left) and not _known(right)


def _known(amount: Amount) -> bool:
    return amount.unit in UNITS


def _nouns(amounts: Sequence[Amount]) -> set[str]:
    """Return what is counted where there is no unit: the people of "140 people"."""
    return {amount.unit[:5] for amount in amounts if amount.unit and not _known(amount)}


def _nearness(left: Amount, right: Amount) -> float:
    low, high = sorted((abs(left.value), abs(right.value)))
    return low / high if high else 1.0


def by_time(new: Slots, old: Slots) -> Features:
    shared = any(a.agrees(b) for a in new.moments for b in old.moments)
    both = bool(new.moments and old.moments)
    latest = max((m.since(new.on) for m in new.moments), default=(0, 0, 0))
    last = max((m.since(old.on) for m in old.moments), default=(0, 0, 0))
    years = {m.year for m in new.moments if m.year}
    old_years = {m.year for m in old.moments if m.year}
    return {
        "same_time": float(shared),
        "other_time": float(both and not shared),
        "later": float(bool(both and latest > last)),
        "earlier": float(bool(both and latest < last)),
        "other_year": float(bool(years and old_years and not years & old_years)),
        "dated": float(bool(old.moments)),
    }
