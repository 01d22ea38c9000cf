"""Finding what says almost the same: notes, observations, and facts of one topic.

It is found by words, as near observations are (`memory.observations.near`), so it needs no embedder.
What was looked at once, and settled, is not brought up again until one of the two says something
else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import combinations
from typing import Any

from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.models import Conflict, Note, Observation, TopicFact, User
from memory.observations.near import CANDIDATES, LONGEST, is_near
from memory.recall import bm25

SECONDS = 10.0  # of one look; the latest are looked at first
MOST_NOTES = 500  # the latest changed; older ones were looked at when they were new
_FOUND: Any = Conflict.Kind.NEAR_DUPLICATE


def find(owner: User, *, seconds: float = SECONDS) -> int:
    """Note the owner's near-duplicates that are not known yet, and return how many are new."""
    ends = time.monotonic() + seconds
    before = Conflict.objects.of(owner).count()
    for left, right in _pairs(owner):
        if time.monotonic() > ends:
            break
        Conflict.objects.note(
            owner, _FOUND, left, right, reason=_("almost the same words, and the same numbers")
        )
    return Conflict.objects.of(owner).count() - before


def owners_with_news(since: Any) -> list[Any]:
    """Return the ids of the owners who wrote a note, an observation or a fact since then."""
    found: set[Any] = set()
    for model in (Note, Observation, TopicFact):
        rows = model.objects.filter(updated__gte=since, trashed_at=None).order_by()
        found |= set(rows.values_list("owner_id", flat=True).distinct())
    return sorted(found)


def _pairs(owner: User) -> Iterator[tuple[Any, Any]]:
    """Yield what says almost the same, the older first: facts, then notes, then observations."""
    yield from _facts(owner)
    yield from _notes(owner)
    yield from _observations(owner)


def _facts(owner: User) -> Iterator[tuple[Any, Any]]:
    current = TopicFact.objects.of(owner).current().filter(topic__trashed_at=None)
    by_topic: dict[Any, list[TopicFact]] = {}
    for fact in current.order_by("created", "pk"):
        by_topic.setdefault(fact.topic_id, []).append(fact)
    for facts in by_topic.values():
        yield from ((a, b) for a, b in combinations(facts, 2) if is_near(a.text, b.text))


def _notes(owner: User) -> Iterator[tuple[Any, Any]]:
    """Yield near notes of one kind; summaries of runs and sessions are alike by their nature."""
    active = Note.objects.of(owner).active().exclude(kind__in=Note.IDENTITY)
    active = active.exclude(~Q(job=""), kind=Note.Kind.SUMMARY)
    for note in active.order_by("-updated")[:MOST_NOTES]:
        found = bm25.search(owner, Note.record_type(), note.content[:LONGEST], CANDIDATES + 1)
        ids = [pk for pk, _score in found if pk != note.pk]
        for other in active.filter(pk__in=ids, kind=note.kind):
            if is_near(note.content, other.content):
                yield (other, note) if other.created <= note.created else (note, other)


def _observations(owner: User) -> Iterator[tuple[Any, Any]]:
    """Yield observations that name an older one; runs that find the same again only confirm it."""
    named = Observation.objects.of(owner).live().exclude(near_duplicate_of=None)
    named = named.filter(near_duplicate_of__trashed_at=None)
    again = Q(source__startswith="run:", near_duplicate_of__source__startswith="run:")
    again &= Q(topic=F("near_duplicate_of__topic")) | Q(topic=None)
    known = Conflict.objects.of(owner).values("right_id")
    fresh = named.exclude(again, trust="external").exclude(pk__in=known)
    for one in fresh.select_related("near_duplicate_of").order_by("-created")[:MOST_NOTES]:
        yield one.near_duplicate_of, one


def day_ago() -> Any:
    """Return the moment up to which the upkeep looks back: it comes every few hours."""
    return timezone.now() - timedelta(days=1)
