"""What a run was made with, as the rows of its page."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy

from research.models import Run
from research.search import searching
from research.steps import planning

_MANIFEST = {
    "beacon": gettext_lazy("Beacon"),
    "depth": gettext_lazy("Depth"),
    "objective": gettext_lazy("Objective"),
    "focus": gettext_lazy("Focus"),
    "time_frame": gettext_lazy("Time frame"),
    "languages": gettext_lazy("Languages"),
    "services": gettext_lazy("Services"),
    "allow_domains": gettext_lazy("Only these domains"),
    "block_domains": gettext_lazy("Never these domains"),
    "block_pages": gettext_lazy("Never these pages"),
    "always_checked": gettext_lazy("Always checked"),
    "left_out": gettext_lazy("Hits left out, as you asked"),
    "intent": gettext_lazy("Told only if"),
    "queries": gettext_lazy("Queries"),
    "planned_by": gettext_lazy("Plan"),
    "proposed": gettext_lazy("Planned before it was changed"),
    "rerun_of": gettext_lazy("Repeats"),
    "written_by": gettext_lazy("Written by"),
    "models": gettext_lazy("Models asked"),
    "settings": gettext_lazy("All settings"),
    "budget": gettext_lazy("Budget"),
}

_IN_WORDS = {"services": searching.label_of, "planned_by": planning.by_words}


def manifest_rows(run: Run) -> list[tuple[str, list[str]]]:
    """Return what the run was made with, as labels and values; what was not set is left out."""
    rows = []
    for name, value in run.manifest.items():
        in_words = _IN_WORDS.get(name, str)
        values = [in_words(one) for one in _values(value)]
        if values:
            rows.append((str(_MANIFEST.get(name, name.replace("_", " ").capitalize())), values))
    return rows


def _values(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {one}" for name, one in value.items() if one not in (None, "", [])]
    if isinstance(value, list):
        return [str(one) for one in value]
    return [str(value)] if value not in (None, "") else []
