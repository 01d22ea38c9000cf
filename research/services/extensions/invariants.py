"""Invariants of research's data: runs, reports, schedules, messages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from cronsim import CronSimError
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as translate
from django.utils.translation import gettext_lazy as _

from beacon_site.db import leased_jobs
from memory.models import ContentItem, Topic
from memory.models.actors import MAINTENANCE
from memory.services.content import items as content_services
from memory.services.records.invariants import INVARIANTS, REPAIR, RESTORE, START, Invariant, Rows
from research.models import Schedule, TopicNews
from research.services.schedules import scheduling

_WAITING = """
SELECT 'run', id::text, not_before FROM research_run
 WHERE status = 'queued' AND waiting_since IS NULL AND not_before < now() - interval '30 min'
UNION ALL SELECT 'follow-up step', id::text, not_before FROM research_step
 WHERE is_follow_up AND state = 'waiting' AND not_before < now() - interval '30 min'
UNION ALL SELECT 'message', id::text, not_before FROM research_delivery
 WHERE state = 'waiting' AND not_before < now() - interval '30 min'
UNION ALL SELECT 'scheduled run', topic.slug, schedule.next_run_at FROM research_schedule schedule
   JOIN memory_topic topic ON topic.id = schedule.topic_id
   JOIN memory_user owner ON owner.id = topic.owner_id
 WHERE NOT schedule.paused AND schedule.next_run_at < now() - interval '30 min'
   AND topic.trashed_at IS NULL AND topic.archived_at IS NULL AND owner.is_active
"""
# Numbers may be missing: a report that is permanently deleted takes its run with it.
_RUN_NUMBERS = """
SELECT topic.id, topic.run_count, max(run.number) FROM memory_topic topic
  JOIN research_run run ON run.topic_id = topic.id
 GROUP BY topic.id HAVING max(run.number) > topic.run_count
"""
_SAVED_RUNS = """
SELECT run.id, run.status, run.number FROM research_run run
  LEFT JOIN research_report report ON report.run_id = run.id
 WHERE (run.number IS NOT NULL) <> (run.status IN ('succeeded', 'partial'))
    OR (run.number IS NOT NULL) <> (report.id IS NOT NULL)
"""
_CITATIONS = """
SELECT report.id, item.id, item.citations FROM research_deltaitem item
  JOIN research_report report ON report.run_id = item.run_id
 WHERE NOT item.citations <@ ARRAY(
       SELECT (cited ->> 'n')::int FROM jsonb_array_elements(report.sources) AS cited)
"""
_NO_NEXT_RUN = """
SELECT schedule.topic_id, schedule.cron FROM research_schedule schedule
  JOIN memory_topic topic ON topic.id = schedule.topic_id
  JOIN memory_user owner ON owner.id = topic.owner_id
 WHERE schedule.next_run_at IS NULL AND NOT schedule.paused AND schedule.cron <> ''
   AND topic.trashed_at IS NULL AND topic.archived_at IS NULL AND owner.is_active
"""
_UNREAD = """
SELECT news.topic_id, news.counts -> 'unread', counted.unread FROM research_topicnews news
 CROSS JOIN LATERAL (
       SELECT count(*) AS unread FROM research_report report
         JOIN research_run run ON run.id = report.run_id
        WHERE run.topic_id = news.topic_id AND run.number IS NOT NULL
          AND report.read_at IS NULL AND report.trashed_at IS NULL) counted
 WHERE news.counted_changes = news.changes
   AND coalesce((news.counts ->> 'unread')::int, 0) <> counted.unread
"""
# Items that a person edited or pinned stay, and so do those that a report cites.
_ORPHAN_CONTENT = """
SELECT item.id, item.source FROM memory_contentitem item
 WHERE item.trashed_at IS NULL AND item.run_step LIKE 'run:%' AND item.source LIKE 'run:%'
   AND NOT item.pinned AND item.lock = 'open' AND item.trust <> 'owner'
   AND NOT EXISTS (SELECT 1 FROM research_run run WHERE item.source = 'run:' || run.id)
   AND NOT EXISTS (SELECT 1 FROM research_hit hit WHERE hit.content_item_id = item.id)
"""


def _lost() -> Iterator[tuple[Any, ...]]:
    """Yield the jobs whose worker is lost. The tick frees them within 15 seconds."""
    late = Q(lease_until=None) | Q(lease_until__lt=Now() - timedelta(minutes=1))
    for kind in leased_jobs.kinds():
        for job in kind.objects.lost().filter(late):
            yield str(kind._meta.verbose_name), str(job.pk), job.lease_until


def _free(_rows: Rows) -> None:
    """Free rows that lost their worker for other workers. No message in `sending` is sent twice."""
    for kind in leased_jobs.kinds():
        kind.objects.sweep()
        kind.objects.dispatch()


def _count_runs(rows: Rows) -> None:
    for topic_id, _count, last in rows:
        Topic.objects.filter(pk=topic_id, run_count__lt=last).update(run_count=last)


def _look_ahead(rows: Rows) -> None:
    for schedule in Schedule.objects.filter(pk__in=[row[0] for row in rows]).select_related(
        "topic"
    ):
        with suppress(CronSimError):
            scheduling.look_ahead(schedule.topic)


def _trash_content(rows: Rows) -> None:
    why = translate("it was read for a run that no longer exists")
    items: Any = ContentItem.objects.filter(pk__in=[row[0] for row in rows])
    content_services.change_all(items, {"trashed_at": timezone.now()}, by=MAINTENANCE, why=why)


_LINE = _(
    "Run “%(manage)s verify --fix”. If a schedule is still listed afterward, its cron expression "
    "isn’t valid, and its owner must set a new one."
)

INVARIANTS += [
    Invariant(
        "leases", _lost, REPAIR, _free,
        sentence=_("Each task in progress has a worker."),
    ),
    Invariant(
        "waiting-research", _WAITING, START,
        sentence=_("No run, follow-up step or notification is more than 30 minutes overdue."),
    ),
    Invariant(
        "run-numbers", _RUN_NUMBERS, REPAIR, _count_runs,
        sentence=_("Each topic’s next run gets a unique number."),
    ),
    Invariant(
        "saved-runs", _SAVED_RUNS, RESTORE,
        sentence=_("Every successful run has a number and a report, and no other run does."),
    ),
    Invariant(
        "citations", _CITATIONS, RESTORE,
        sentence=_("Every change in a report cites only sources that the report lists."),
    ),
    Invariant(
        "schedules", _NO_NEXT_RUN, _LINE, _look_ahead,
        sentence=_("Each active schedule has a next run."),
    ),
    Invariant(
        "unread-counts", _UNREAD, REPAIR, lambda rows: TopicNews.objects.update(counted_changes=None),
        sentence=_("Each topic’s count of unread reports is correct."),
    ),
    Invariant(
        "run-content", _ORPHAN_CONTENT, REPAIR, _trash_content,
        sentence=_("No stored page belongs to a deleted run."),
    ),
]  # fmt: skip
