"""Fit the weights of the comparison: `python -m benchmarks.delta_fit [--write]`.

Prints how well sentences of scenarios that were left out are told apart (six folds of whole
scenarios), with and without vectors; `--write` fits on all scenarios of `PARTS` and writes
research/comparing/vector_weights.py and word_weights.py.  The final ones are never read.  Needs numpy
(requirements/embeddings.txt).

Every sentence is one choice among: no fact, new, and three relations to each of the facts that the
product looks at closely.  The weights make the labelled choice likely (softmax) and stay small
(L2).
"""

from __future__ import annotations

import argparse
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from beacon_site.providers.minilm_embedder import MiniLmEmbedder
from benchmarks.delta_scenarios import Scenario, practice, scenarios
from research.comparing.relating import CLOSEST, RELATIONS, Option, chosen
from research.comparing.values import Features
from research.comparing.weights import Weights

FOLDER = Path(__file__).resolve().parents[1] / "research/comparing"
# What the table was measured on once and a matcher was then made with is used up: it is fitted to.
PARTS = ("open", "kept", "used")
FOLDS = 6
SMALL_ALIGN, SMALL_RELATE, SMALL_LONE = 0.25, 0.5, 0.25
# The places of a sentence's vector are many, so each is held smaller.
SMALL_MEANING, SMALL_MEANING_LONE = 1.5, 1.0


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
    """The figures as numbers: which names there are, and the rows of all choices."""

    def __init__(self, every: list[Choice]) -> None:
        some = next(one for one in every if one.options)
        self.align = sorted(some.options[0].align)
        self.relate = sorted(some.options[0].relate)
        self.new, self.noise = sorted(some.lone[0]), sorted(some.lone[1])
        self.parts = np.cumsum(
            [len(self.align), 3 * (len(self.relate) + 1), len(self.new) + 1, len(self.noise) + 1]
        )
        related = [SMALL_MEANING if is_place(n) else SMALL_RELATE for n in [*self.relate, "bias"]]
        noise = [SMALL_MEANING_LONE if is_place(n) else SMALL_LONE for n in [*self.noise, "bias"]]
        new = [SMALL_LONE] * (len(self.new) + 1)
        self.small = np.array([SMALL_ALIGN] * self.parts[0] + 3 * related + new + noise)

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


def is_place(name: str) -> bool:
    """Whether a figure is a place of the sentence's vector: "m17"."""
    return name[0] == "m" and name[1:].isdigit()


class Rows:
    """The figures of all choices in arrays; a choice with fewer options is filled up with noughts."""

    def __init__(self, space: Space, every: list[Choice]) -> None:
        count = len(every)
        self.align = np.zeros((count, CLOSEST, len(space.align)))
        self.related = np.zeros((count, CLOSEST, len(space.relate) + 1))
        self.live = np.zeros((count, CLOSEST, 3), dtype=bool)
        for row, one in enumerate(every):
            for n, option in enumerate(one.options):
                self.align[row, n] = [option.align[name] for name in space.align]
                self.related[row, n] = [*(option.relate[name] for name in space.relate), 1.0]
                is_known = option.place < one.known
                self.live[row, n] = (True, is_known, is_known)
        self.new = np.array([[*(one.lone[0][n] for n in space.new), 1.0] for one in every])
        self.noise = np.array([[*(one.lone[1][n] for n in space.noise), 1.0] for one in every])
        self.right = np.array([one.right for one in every])


def fitted(space: Space, every: list[Choice]):
    """Return the weights that make the labels likely."""
    rows = Rows(space, [one for one in every if one.right >= 0 and one.options])
    return _fit(space, rows)


def _fit(space: Space, rows: Rows):
    """Minimise by L-BFGS."""
    w = np.zeros(space.parts[3])
    value, slope = _loss(space, rows, w)
    memory: list = []
    for _step in range(300):
        way = _direction(slope, memory)
        length = 1.0
        while length > 1e-7:
            next_w = w - length * way
            next_value, next_slope = _loss(space, rows, next_w)
            if next_value <= value - 1e-4 * length * (slope @ way):
                break
            length /= 2
        moved, turned = next_w - w, next_slope - slope
        if moved @ turned > 1e-10:
            memory = [*memory, (moved, turned)][-12:]
        is_done = abs(value - next_value) < 1e-6 * max(1.0, abs(value))
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


def _loss(space: Space, rows: Rows, w):
    """Return how unlikely the labels are, with the price of large weights, and its slope."""
    a, b, c, _end = space.parts
    scores = (rows.align @ w[:a])[:, :, None] + rows.related @ w[a:b].reshape(3, -1).T
    scores = np.where(rows.live, scores, -1e9).reshape(len(rows.right), -1)
    every = np.column_stack([rows.new @ w[b:c], rows.noise @ w[c:], scores])
    powers = np.exp(every - every.max(1, keepdims=True))
    shares = powers / powers.sum(1, keepdims=True)
    at = (np.arange(len(rows.right)), rows.right)
    total = -float(np.log(shares[at] + 1e-12).sum())
    shares[at] -= 1
    off = shares[:, 2:].reshape(len(rows.right), -1, 3)
    slope = np.concatenate(
        [
            np.tensordot(off.sum(2), rows.align, ((0, 1), (0, 1))),
            np.tensordot(off, rows.related, ((0, 1), (0, 1))).ravel(),
            shares[:, 0] @ rows.new,
            shares[:, 1] @ rows.noise,
        ]
    )
    return total + 0.5 * float(space.small @ (w * w)), slope + space.small * w


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


HEAD = '''"""Weights of the comparison {how}: made by `python -m benchmarks.delta_fit --write`, not by hand.

Fitted on the parts {parts} of benchmarks/data/delta ({sentences} labelled sentences of {scenarios}
scenarios) and on benchmarks/data/delta_practice.txt.  A figure (`pairing.py`, `values.py`,
`subjects.py`, `vectors.py`) that speaks for a choice has a weight above nought; "m17" is the figure
at place 17 of the sentence's vector.  docs/benchmarks.md tells what they reach.
"""

from __future__ import annotations

from research.comparing.weights import Weights

# fmt: off
'''


def written(name: str, weights: Weights) -> str:
    """Return the weights as the lines of a module, many in a line."""

    def table(of: dict[str, float], margin: str) -> str:
        pairs = ", ".join(f'"{figure}":@{value}' for figure, value in of.items())
        lines = textwrap.wrap(pairs, 96, initial_indent=margin, subsequent_indent=margin)
        return "\n".join(lines).replace("@", " ") + ",\n"

    related = "".join(
        f'        "{relation}": {{\n{table(of, " " * 12)}        }},\n'
        for relation, of in weights.relate.items()
    )
    return (
        f"{name} = Weights(\n    align={{\n{table(weights.align, ' ' * 8)}    }},\n"
        f"    relate={{\n{related}    }},\n    new={{\n{table(weights.new, ' ' * 8)}    }},\n"
        f"    noise={{\n{table(weights.noise, ' ' * 8)}    }},\n)\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write research/comparing/*_weights.py"
    )
    wants = parser.parse_args()
    from benchmarks.delta import show

    every = [scenario for part in PARTS for scenario in scenarios(part)]
    count = sum(len(scenario.labels) for scenario in every)
    for name, file, how, embed in (
        ("WITH_VECTORS", "vector_weights.py", "with vectors", MiniLmEmbedder().read),
        ("WITHOUT_VECTORS", "word_weights.py", "by words alone", None),
    ):
        rows, extra = choices(every, embed), choices(practice(), embed)
        lost = sum(one.right < 0 for one in rows)
        print(f"\n{name}: {len(rows)} sentences, {lost} with their fact not among the closest")
        show(folded(rows, extra), len(every))
        if wants.write:
            space = Space(rows)
            weights = space.weights(fitted(space, [*rows, *extra]))
            head = HEAD.format(
                how=how, parts=", ".join(PARTS), sentences=count, scenarios=len(every)
            )
            (FOLDER / file).write_text(f"{head}{written(name, weights)}", encoding="utf-8")


if __name__ == "__main__":
    main()
