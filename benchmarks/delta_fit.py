"""Fit the weights of `research.claims.linking`: `python -m benchmarks.delta_fit [--write] [--only NAME,...]`.

Prints how well sentences of held-out scenarios are classified (six folds of whole scenarios),
with and without vectors; `--write` fits on all scenarios of `PARTS` and the practice, and writes
research/claims/linking_weights.json.  The final scenarios are never read.  `--only` leaves out all
features but the named ones: the ablation.  Needs numpy (requirements/embeddings.txt).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np

from beacon_site.providers.llm.adapters import MiniLmEmbedder
from benchmarks.delta import answers, show
from benchmarks.delta_scenarios import Scenario, practice, scenarios
from research.claims import linking
from research.claims.linking import Embed, Features

# What was measured once and then tuned on is fitted to.
PARTS = ("open", "kept", "used")
FOLDS = 6
SMALL = 1.0  # how strongly weights are kept small (L2)
Rows = list[tuple[Features, bool]]


def rows(scenario: Scenario, embed: Embed | None) -> tuple[Rows, Rows, Rows]:
    """Return the labelled features of a scenario: of pairs, and of single sentences."""
    comparison = scenario.comparison(embed)
    pairs: Rows = []
    same: Rows = []
    single: Rows = []
    news: list[int] = []
    for number, label in enumerate(scenario.labels):
        single.append((comparison.signs(number), label.status == "noise"))
        if label.status != "noise":
            for other, features in comparison.pairs(number, news):
                pairs.append((features, other == label.of))
                if other == label.of < comparison.known:
                    place = comparison.known + number
                    related = comparison.relation_features(place, other, features)
                    same.append((related, label.status == "confirmed"))
        if label.status == "new":
            news.append(number)
    return pairs, same, single


def logistic(every: Rows) -> Features:
    """Return the weights that make the labels likely (Newton's method), rounded."""
    names = sorted(every[0][0])
    matrix = np.array([[*(features[name] for name in names), 1.0] for features, _yes in every])
    wanted = np.array([float(yes) for _features, yes in every])
    small = np.diag([SMALL] * len(names) + [1e-3])
    found = np.zeros(len(names) + 1)
    for _round in range(30):
        likely = 1 / (1 + np.exp(-matrix @ found))
        slope = matrix.T @ (likely - wanted) + small @ found
        curve = (matrix * (likely * (1 - likely))[:, None]).T @ matrix + small
        found -= np.linalg.solve(curve, slope)
    return dict(zip([*names, "bias"], np.round(found, 2).tolist(), strict=True))


def fitted(
    every: Sequence[tuple[Rows, Rows, Rows]], only: Sequence[str] = ()
) -> dict[str, Features]:
    """Return the weights for a sentence and a fact, and for what tells no news."""
    pairs = [row for one, _same, _single in every for row in one]
    if only:
        pairs = [({name: f[name] for name in only if name in f}, yes) for f, yes in pairs]
    return {
        "link": logistic(pairs),
        "same": logistic([row for _pairs, one, _single in every for row in one]),
        "noise": logistic([row for _pairs, _same, one in every for row in one]),
    }


def measure(every: Sequence[Scenario], embed: Embed | None, only: Sequence[str]) -> None:
    """Judge each scenario by weights that were fitted without it."""
    data = [rows(scenario, embed) for scenario in every]
    found = []
    for fold in range(FOLDS):
        rest = [one for number, one in enumerate(data) if number % FOLDS != fold]
        made = fitted(rest, only)
        with patch.object(linking, "weights", lambda made=made, **_which: made):
            for number, scenario in enumerate(every):
                if number % FOLDS == fold:
                    found.append((scenario.name, answers(scenario, embed)))
    for part, is_practice in (("scenarios", False), ("practice", True)):
        chosen = [said for name, said in found if name.startswith("practice") == is_practice]
        print(
            f"\n{part}, {'with' if embed else 'without'} vectors, by weights fitted without them:"
        )
        show([answer for said in chosen for answer in said], len(chosen))


def main() -> None:
    """Measure by folds, and write the weights if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {linking.WEIGHTS.name}")
    parser.add_argument("--only", default="", help="features of a pair to keep, with commas")
    wants = parser.parse_args()
    every = [scenario for part in PARTS for scenario in scenarios(part)] + practice()
    made = {}
    for name, embed in (("with vectors", MiniLmEmbedder().embed), ("without vectors", None)):
        only = [one for one in wants.only.split(",") if one]
        if wants.write:
            made[name] = fitted([rows(scenario, embed) for scenario in every])
        else:
            measure(every, embed, only)
    if made:
        text = json.dumps(made, indent=1, sort_keys=True)
        linking.WEIGHTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
