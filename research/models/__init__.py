"""All models of research."""

from __future__ import annotations

from research.models.reports import DeltaItem, Report
from research.models.runs import Hit, Run, RunInTheWay, RunLost, Step, Worker
from research.models.topic_settings import Schedule, TopicSettings

__all__ = [
    "DeltaItem",
    "Hit",
    "Report",
    "Run",
    "RunInTheWay",
    "RunLost",
    "Schedule",
    "Step",
    "TopicSettings",
    "Worker",
]
