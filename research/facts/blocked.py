"""Facts that nothing but blocked sources stand behind.

Data flow: current facts with a source -> those whose source is blocked now -> less those that a run
found confirmed by a page that is not -> their ids, for a tag beside each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory.models import TopicFact
from memory.texts.canonical import canonical_url
from research.models import DeltaItem, Hit, TopicSettings
from research.models.effective_settings import everywhere, in_effect
from research.topic_settings import standing_rules


def only_blocked(topic: Any, facts: Sequence[TopicFact]) -> set[Any]:
    """Return the ids of the facts whose every source is blocked: two to four queries.

    `topic` has its settings loaded.  What a person wrote or edited stands by their word.
    """
    with_source = [fact for fact in facts if fact.url and not fact.touched_by_person]
    if not with_source:
        return set()
    settings = in_effect(topic.settings, everywhere(topic.owner_id))
    blocked = {fact.pk for fact in with_source if _is_blocked(settings, fact.url)}
    return blocked - _confirmed_elsewhere(settings, blocked) if blocked else set()


def _is_blocked(settings: TopicSettings, url: str) -> bool:
    return bool(standing_rules.reason_against(settings, canonical_url(url)))


def _confirmed_elsewhere(settings: TopicSettings, ids: set[Any]) -> set[Any]:
    """Return those of the facts that a page which is not blocked confirmed."""
    confirmed = DeltaItem.objects.supported().filter(
        previous_fact__in=ids, status=DeltaItem.Status.CONFIRMED
    )
    rows = list(confirmed.values_list("previous_fact", "run", "citations"))
    if not rows:
        return set()
    hits = Hit.objects.filter(run__in={run for _fact, run, _numbers in rows})
    cited = hits.exclude(cited_as=None).values_list("run", "cited_as", "url")
    usable = {(run, number) for run, number, url in cited if not _is_blocked(settings, url)}
    return {fact for fact, run, numbers in rows if any((run, n) in usable for n in numbers)}
