"""Fit the weights of the comparison on the open half: `python -m benchmarks.delta_fit [--write]`.

Prints how well sentences of scenarios that were left out are told apart (six folds of whole
scenarios), with and without vectors; `--write` fits on all of the open half and writes
research/weights.py.  The kept half is never read.  Needs numpy (requirements/embeddings.txt).

Every sentence is one choice among: no fact, new, and three relations to each of the facts that the
product looks at closely.  The weights make the labelled choice likely (softmax) and stay small
(L2).  A first fit tells which figures matter; the strongest are fitted again, alone.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from beacon_site.providers.minilm_embedder import MiniLmEmbedder
from benchmarks.delta_scenarios import Scenario, practice, scenarios
from research.relating import RELATIONS, Option, chosen
from research.values import Features
from research.weights import Weights

TARGET = Path(__file__).resolve().parents[1] / "research" / "weights.py"
FOLDS = 6
SMALL_ALIGN, SMALL_RELATE, SMALL_LONE = 0.5, 1.0, 0.5
STRONGEST_ALIGN, STRONGEST_RELATE = 34, 30


@dataclass(frozen=True)
class Choice:
    """One labelled sentence with all that it could be; `right` is the place of its label."""

    scenario: int
    status: str
    of: int
    known: int
    lone: tuple[Features, Features]
    options: list[Option]
    right: int


def choices(every: list[Scenario], embed) -> list[Choice]:
    """Return all sentences with their figures; earlier new ones stand among the facts."""
    made = []
    for number, scenario in enumerate(every):
        comparison = scenario.comparison(embed)
        news: list[int] = []
        for place, label in enumerate(scenario.labels):
            options = comparison.options(place, news)
            right = _right(label.status, label.of, options)
            known = len(scenario.known)
            lone = comparison.lone(place)
            made.append(Choice(number, label.status, label.of, known, lone, options, right))
            if label.status == "new":
                news.append(place)
    return made


def _right(status: str, of: int, options: list[Option]) -> int:
    if status in ("new", "noise"):
        return 0 if status == "new" else 1
    relation = RELATIONS.index("confirmed" if status == "repeat" else status)
    places = [option.place for option in options]
    return 2 + 3 * places.index(of) + relation if of in places else -1


class Space:
    """The figures as numbers: which names there are, and the rows of each choice."""

    def __init__(self, every: list[Choice]) -> None:
        some = next(one for one in every if one.options)
        self.align = sorted(some.options[0].align)
        self.relate = sorted(some.options[0].relate)
        self.new, self.noise = sorted(some.lone[0]), sorted(some.lone[1])
        self.parts = np.cumsum(
            [len(self.align), 3 * (len(self.relate) + 1), len(self.new) + 1, len(self.noise) + 1]
        )
        small = [SMALL_ALIGN] * self.parts[0] + [SMALL_RELATE] * (self.parts[1] - self.parts[0])
        self.small = np.array(small + [SMALL_LONE] * (self.parts[3] - self.parts[1]))

    def rows(self, one: Choice):
        """Return the matrices of a choice, and which of its scores may be chosen."""
        align = np.array([[o.align[n] for n in self.align] for o in one.options])
        related = np.array([[*(o.relate[n] for n in self.relate), 1.0] for o in one.options])
        new = np.array([*(one.lone[0][n] for n in self.new), 1.0])
        noise = np.array([*(one.lone[1][n] for n in self.noise), 1.0])
        live = np.array([[True, o.place < one.known, o.place < one.known] for o in one.options])
        return align, related, new, noise, live, one.right

    def weights(self, w) -> Weights:
        """Return the weights by name, rounded; what is nought is left out."""
        a, b, c, _end = self.parts

        def table(names: list[str], values) -> dict[str, float]:
            rounded = zip(names, np.round(values, 2).tolist(), strict=True)
            return {name: value for name, value in rounded if value}

        related = w[a:b].reshape(3, -1)
        names = [*self.relate, "bias"]
        return Weights(
            align=table(self.align, w[:a]),
            relate={r: table(names, related[n]) for n, r in enumerate(RELATIONS)},
            new=table([*self.new, "bias"], w[b:c]),
            noise=table([*self.noise, "bias"], w[c:]),
        )


def fitted(space: Space, every: list[Choice]):
    """Return the weights that make the labels likely: all figures first, then the strongest."""
    rows = [space.rows(one) for one in every if one.right >= 0 and one.options]
    first = _fit(space, rows, np.ones(space.parts[3]))
    spread_align = np.vstack([row[0] for row in rows]).std(0) + 0.05
    spread_relate = np.vstack([row[1] for row in rows]).std(0) + 0.05
    a, b = space.parts[0], space.parts[1]
    align = np.abs(first[:a]) * spread_align
    related = (np.abs(first[a:b].reshape(3, -1)) * spread_relate).max(0)
    related[-1] = np.inf
    kept = np.ones(space.parts[3])
    kept[:a] = align >= np.sort(align)[-STRONGEST_ALIGN]
    strong = related >= np.sort(related)[-STRONGEST_RELATE - 1]
    kept[a:b] = np.tile(strong, 3)
    return _fit(space, rows, kept)


def _fit(space: Space, rows: list, kept):
    """Minimise by L-BFGS; a weight that is not kept stays nought."""
    w = np.zeros(space.parts[3])
    value, slope = _loss(space, rows, w, kept)
    memory: list = []
    for _step in range(200):
        way = _direction(slope, memory)
        length = 1.0
        while length > 1e-7:
            next_w = w - length * way
            next_value, next_slope = _loss(space, rows, next_w, kept)
            if next_value <= value - 1e-4 * length * (slope @ way):
                break
            length /= 2
        moved, turned = next_w - w, next_slope - slope
        if moved @ turned > 1e-10:
            memory = [*memory, (moved, turned)][-12:]
        is_done = abs(value - next_value) < 1e-5 * max(1.0, abs(value))
        w, value, slope = next_w, next_value, next_slope
        if is_done:
            break
    return w


def _direction(slope, memory: list):
    way, shares = slope.copy(), []
    for moved, turned in reversed(memory):
        share = (moved @ way) / (turned @ moved)
        shares.append(share)
        way -= share * turned
    if not memory:
        return way / max(1.0, np.linalg.norm(way))
    moved, turned = memory[-1]
    way *= (moved @ turned) / (turned @ turned)
    for (moved, turned), share in zip(memory, reversed(shares), strict=True):
        way += moved * (share - (turned @ way) / (turned @ moved))
    return way


def _loss(space: Space, rows: list, w, kept):
    """Return how unlikely the labels are, with the price of large weights, and its slope."""
    a, b, c, _end = space.parts
    related_w = w[a:b].reshape(3, -1)
    total, slope = 0.0, np.zeros_like(w)
    for align, related, new, noise, live, right in rows:
        scores = (align @ w[:a])[:, None] + related @ related_w.T
        scores = np.where(live, scores, -1e9)
        every = np.concatenate([[new @ w[b:c], noise @ w[c:]], scores.ravel()])
        powers = np.exp(every - every.max())
        shares = powers / powers.sum()
        total -= float(np.log(shares[right] + 1e-12))
        shares[right] -= 1
        off = shares[2:].reshape(-1, 3)
        slope[:a] += align.T @ off.sum(1)
        slope[a:b] += (off.T @ related).ravel()
        slope[b:c] += shares[0] * new
        slope[c:] += shares[1] * noise
    return total + 0.5 * float(space.small @ (w * w)), (slope + space.small * w) * kept


def said(weights: Weights, one: Choice) -> tuple[str, int]:
    """Return the status and the place that the weights choose, as the product does."""
    verdict = chosen(weights, one.lone, one.options, one.known)
    return ("repeat" if verdict.place >= one.known else verdict.status), verdict.place


def folded(every: list[Choice], always: list[Choice]) -> list[tuple[str, str, int, int]]:
    """Judge each sentence by weights that were fitted without its scenario, but with `always`."""
    space = Space(every)
    answers = []
    for fold in range(FOLDS):
        others = [one for one in every if one.scenario % FOLDS != fold]
        weights = space.weights(fitted(space, [*others, *always]))
        for one in every:
            if one.scenario % FOLDS == fold:
                status, place = said(weights, one)
                answers.append((one.status, status, one.of, place))
    return answers


HEAD = '''"""The weights of the comparison: made by `python -m benchmarks.delta_fit --write`, not by hand.

Fitted on the open half of benchmarks/data/delta ({sentences} labelled sentences of {scenarios} scenarios) and on
benchmarks/data/delta_practice.txt, which was written for it.
A figure (`pairing.py`, `values.py`, `subjects.py`) that speaks for a choice has a weight above
nought.  docs/benchmarks.md tells what they reach.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """`align`: that a sentence speaks of a fact; `relate`: how; `new` and `noise`: of none."""

    align: dict[str, float]
    relate: dict[str, dict[str, float]]
    new: dict[str, float]
    noise: dict[str, float]


'''


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write research/weights.py")
    parser.add_argument("--open-only", action="store_true", help="leave the practice out")
    wants = parser.parse_args()
    from benchmarks.delta import show

    every = scenarios("open")
    parts = []
    for name, embed in (("WITH_VECTORS", MiniLmEmbedder().embed), ("WITHOUT_VECTORS", None)):
        rows = choices(every, embed)
        lost = sum(one.right < 0 for one in rows)
        print(f"\n{name}: {len(rows)} sentences, {lost} with their fact not among the closest")
        extra = choices(practice(), embed) if not wants.open_only else []
        show(folded(rows, extra), len(every))
        space = Space(rows)
        parts.append(f"{name} = {space.weights(fitted(space, [*rows, *extra]))!r}\n")
    if wants.write:
        count = sum(len(scenario.labels) for scenario in every)
        head = HEAD.format(sentences=count, scenarios=len(every))
        TARGET.write_text(head + "".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
