"""The delta items of a run as they are stored, each with the fact that it is held against."""

from __future__ import annotations

from collections.abc import Sequence

from memory.models import Conflict, TopicFact
from research.deltas.delta import Change
from research.models import DeltaItem, Run


def store(run: Run, changes: Sequence[Change]) -> None:
    """Store what changed, in its order; a fact that is gone meanwhile leaves its words alone."""
    known = {
        str(pk)
        for pk in TopicFact.objects.filter(
            pk__in=[change.previous_id for change in changes if change.previous_id]
        ).values_list("pk", flat=True)
    }
    # Where the memory could not be saved, what was noted with it is not there either.
    keys = [change.conflict_id for change in changes if change.conflict_id]
    noted = set(map(str, Conflict.objects.filter(pk__in=keys).values_list("pk", flat=True)))
    DeltaItem.objects.bulk_create(
        DeltaItem(
            run=run,
            position=position,
            status=change.status,
            sentence=change.sentence,
            previous_fact_id=change.previous_id if change.previous_id in known else None,
            previous_text=change.previous_text,
            previous_source=change.previous_source,
            unsure=change.unsure,
            compared_by=change.compared_by,
            conflict_id=change.conflict_id if change.conflict_id in noted else None,
            citations=change.citations,
            quote=change.quote,
            withheld=change.withheld,
            judged_by=change.judged_by,
            judged=change.judged,
        )
        for position, change in enumerate(changes, start=1)
    )
