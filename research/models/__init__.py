"""All models of research."""

from __future__ import annotations

from research.models.channels import Channel, Delivery, TopicNotices
from research.models.digests import Digest, DigestEntry, DigestSettings, Feed
from research.models.hits import Hit, Worker
from research.models.removed_runs import RemovedRun
from research.models.reports import DeltaItem, Report
from research.models.run_queries import RunInTheWay, RunLost
from research.models.runs import Run
from research.models.sentences import CheckedSentence, CorrectedFact, Correction
from research.models.shares import SharedLink
from research.models.steps import Step
from research.models.tool_calls import ToolCall
from research.models.topic_news import TopicNews
from research.models.topic_settings import Schedule, TopicSettings

__all__ = [
    "Channel",
    "CheckedSentence",
    "CorrectedFact",
    "Correction",
    "Delivery",
    "DeltaItem",
    "Digest",
    "DigestEntry",
    "DigestSettings",
    "Feed",
    "Hit",
    "RemovedRun",
    "Report",
    "Run",
    "RunInTheWay",
    "RunLost",
    "Schedule",
    "SharedLink",
    "Step",
    "ToolCall",
    "TopicNews",
    "TopicNotices",
    "TopicSettings",
    "Worker",
]
