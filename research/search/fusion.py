"""In which order hits stand that several queries of several services returned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

RRF = 60  # rank constant of reciprocal rank fusion (Cormack et al. 2009)


def fused(entries: Sequence[Mapping[str, Any]], places: Mapping[str, int]) -> float:
    """Return a hit's reciprocal rank fusion over each (query, service) that returned it.

    `entries` have service and rank; `places` are the services' places in the topic's order, from
    0.  Each place counts as one rank: the first hit of the second service stands with the second
    hit of the first.  So the order decides ties and near-ties, a page that is much better placed
    still passes, and one that two found always stands before one that one found: ten ranks and
    ten services do not come near to halving a vote (1/61 against 1/80).
    """
    # Exact, as the votes stand in the order in which they came, which must not part equal hits.
    return math.fsum(
        1 / (RRF + (entry["rank"] or 1) + places.get(entry["service"], len(places)))
        for entry in entries
    )


def first_vote(
    entries: Sequence[Mapping[str, Any]], places: Mapping[str, int], queries: Mapping[str, int]
) -> tuple[int, int, int]:
    """Return a hit's earliest vote (service, query, rank): what parts hits of equal score.

    Answers come in whatever order the network gives; the order of hits must not depend on it.
    """
    return min(
        (
            (
                places.get(entry["service"], len(places)),
                queries.get(entry["query"], len(queries)),
                entry["rank"] or 1,
            )
            for entry in entries
        ),
        default=(len(places), len(queries), 0),
    )
