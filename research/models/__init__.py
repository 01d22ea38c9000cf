from __future__ import annotations

from research.models.notifications import Channel, Delivery, TopicNotices
from research.models.reports import (
    AffectedLine,
    CheckedSentence,
    Comment,
    CorrectedFact,
    Correction,
    DeltaItem,
    Digest,
    DigestEntry,
    DigestSettings,
    Feed,
    Report,
    SharedLink,
)
from research.models.runs import RemovedRun, Run, RunAlreadyActive
from research.models.steps import Hit, Step, ToolCall, Worker
from research.models.topics import Schedule, TopicNews, TopicSettings
