"""Which content items a report rests on: the text behind each citation stays as long as it does."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from memory.content import retention
from research.models import Hit


def register() -> None:
    """Tell the content store what it is to keep."""
    retention.KEEPERS.append(cited)


def cited() -> QuerySet[Any, Any]:
    """Return the ids of the items that a report cites."""
    hits = Hit.objects.filter(cited_as__isnull=False, content_item__isnull=False)
    return hits.values("content_item")
