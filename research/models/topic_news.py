"""What is new in a topic since its owner last read it, for lists: counted once, then stored.

Triggers increase `changes` when a report is created, read, marked as unread, removed or restored, and
for a delta item or a run's number.  A count made at an earlier number of changes is stale.  So no code
that writes has to update it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import pgtrigger
from django.db import models
from django.db.models import F, Q

from memory.models import Topic

# Rows are locked in order, so that two writers of several topics can't deadlock.
_RAISED = """
    PERFORM 1 FROM research_topicnews
     WHERE topic_id IN ({topics})
     ORDER BY topic_id FOR NO KEY UPDATE;
    UPDATE research_topicnews SET changes = changes + 1
     WHERE topic_id IN ({topics});
    RETURN NULL;
"""
_OF_RUNS = "SELECT topic_id FROM research_run WHERE id IN ({runs})"


def _raised(runs: str) -> str:
    return _RAISED.format(topics=_OF_RUNS.format(runs=runs))


_CAME = """
    INSERT INTO research_topicnews (topic_id, changes, told)
    SELECT DISTINCT run.topic_id, 1, '{}'::jsonb
      FROM added JOIN research_run run ON run.id = added.run_id
     ORDER BY run.topic_id
        ON CONFLICT (topic_id) DO UPDATE SET changes = research_topicnews.changes + 1;
    RETURN NULL;
"""
_REPORTS = """SELECT gone.run_id FROM gone JOIN added USING (id)
                WHERE (gone.read_at, gone.trashed_at) IS DISTINCT FROM
                      (added.read_at, added.trashed_at)"""
_ITEMS = """SELECT gone.run_id FROM gone JOIN added USING (id)
              WHERE (gone.run_id, gone.position, gone.status, gone.withheld, gone.previous_fact_id,
                     gone.sentence, gone.previous_text) IS DISTINCT FROM
                    (added.run_id, added.position, added.status, added.withheld,
                     added.previous_fact_id, added.sentence, added.previous_text)"""
_GONE = "SELECT run_id FROM gone"
_ADDED = "SELECT run_id FROM added"


def _trigger(name: str, operation: Any, func: str, **rows: str) -> pgtrigger.Trigger:
    return pgtrigger.Trigger(
        name=name,
        level=pgtrigger.Statement,
        when=pgtrigger.After,
        operation=operation,
        referencing=pgtrigger.Referencing(**rows),
        func=func,
    )


OF_REPORTS = [
    _trigger("news_came", pgtrigger.Insert, _CAME, new="added"),
    _trigger("news_read", pgtrigger.Update, _raised(_REPORTS), old="gone", new="added"),
    _trigger("news_gone", pgtrigger.Delete, _raised(_GONE), old="gone"),
]
OF_ITEMS = [
    _trigger("news_told", pgtrigger.Insert, _raised(_ADDED), new="added"),
    _trigger("news_retold", pgtrigger.Update, _raised(_ITEMS), old="gone", new="added"),
    _trigger("news_untold", pgtrigger.Delete, _raised(_GONE), old="gone"),
]
# A run in progress is updated many times a minute, so only columns that lists show count.
OF_RUNS = [
    pgtrigger.Trigger(
        name="news_numbered",
        when=pgtrigger.After,
        operation=pgtrigger.Update,
        condition=pgtrigger.AnyChange("number", "is_baseline"),
        func="UPDATE research_topicnews SET changes = changes + 1 WHERE topic_id = NEW.topic_id;"
        " RETURN NULL;",
    )
]


class TopicNewsQuerySet(models.QuerySet[Any]):
    def of(self, user: Any) -> Self:
        """Keep the rows of `user`: the only owner filter."""
        return self.filter(topic__owner=user)

    def stale(self) -> Self:
        """Keep the rows that must be counted again."""
        return self.exclude(Q(counted=F("changes")) & Q(counted__isnull=False))


class TopicNews(models.Model):
    """The counts of a topic's unread reports for lists; a topic without reports has no row.

    `told` was counted when `changes` was `counted` (`research.unread.topic_news`).
    """

    topic = models.OneToOneField(Topic, models.CASCADE, primary_key=True, related_name="news")
    changes = models.BigIntegerField(default=0)
    counted = models.BigIntegerField(null=True)
    told = models.JSONField(default=dict)

    objects: ClassVar[TopicNewsQuerySet] = TopicNewsQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = "topic news"

    def __str__(self) -> str:
        return f"news of topic {self.topic_id}"

    @property
    def is_stale(self) -> bool:
        """Whether anything changed since it was counted."""
        return self.counted != self.changes
