"""Which search services failed the last time that a run asked them: what the health page asks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from research.models import Step

LATEST = 10  # search steps, over all topics, that are looked at


def failing() -> list[str]:
    """Return the services none of whose queries was answered in the last run that asked them."""
    steps = Step.objects.filter(name="search", output__has_key="asked").order_by("-id")
    answered: dict[str, bool] = {}
    for asked in steps.values_list("output__asked", flat=True)[:LATEST]:
        for service, entries in _by_service(asked).items():
            answered.setdefault(service, any(not entry["problem"] for entry in entries))
    return [service for service, is_fine in answered.items() if not is_fine]


def _by_service(asked: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in asked:
        found[entry["service"]].append(entry)
    return found
