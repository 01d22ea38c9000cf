"""A topic's memory as the JSON of seed 000, whose six names are in camelCase."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from memory.models import SeenUrl, Topic, TopicFact


def agent_memory(topic: Topic) -> dict[str, Any]:
    """Return the topic's memory as seed 000's AgentMemory: six camelCase fields (R237)."""
    seen = SeenUrl.objects.filter(topic=topic).order_by("-returned_in", "place")
    facts = TopicFact.objects.filter(topic=topic).current()[: TopicFact.MOST_CURRENT]
    last = topic.last_run_at
    return {
        "topic": topic.title,
        "seenUrls": list(seen.values_list("url", flat=True)),
        "keyFacts": [fact.text for fact in facts],
        "lastRunAt": last.astimezone(UTC).isoformat() if last else None,
        "runCount": topic.run_count,
        "reportSummary": topic.summary,
    }
