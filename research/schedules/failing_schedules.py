"""Schedules that start nothing but failures pause themselves, and say so where their owner is told."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.actors import RESEARCH
from memory.models import Activity
from memory.texts.text import shorten
from research.models import Delivery, Run
from research.models.channels import told_of_failures
from research.schedules import scheduling

KIND = "schedule-failing"
IN_A_ROW = 5  # runs of a topic that failed one after the other, the last by its schedule
_LATELY = timedelta(hours=1)  # so far back the tick looks for runs that failed


def pause_failing() -> int:
    """Pause the schedules whose last IN_A_ROW runs all failed; return how many.

    Each run that failed pauses once: a schedule that a person resumed goes on until the next one.
    """
    since = timezone.now() - _LATELY
    failed = Run.objects.filter(
        status=Run.Status.FAILED,
        trigger=Run.Trigger.SCHEDULE,
        finished_at__gt=since,
        topic__schedule__paused=False,
        topic__trashed_at=None,
    )
    return sum(_pause(run) for run in failed.select_related("topic__owner").order_by("-pk")[:200])


def _pause(run: Run) -> bool:
    ended = Run.objects.filter(topic=run.topic_id).exclude(finished_at=None).order_by("-pk")
    last = list(ended.values_list("pk", "status")[:IN_A_ROW])
    all_failed = len(last) == IN_A_ROW and {status for _pk, status in last} == {Run.Status.FAILED}
    topic = run.topic
    if not all_failed or last[0][0] != run.pk:
        return False
    told = Activity.objects.of(topic.owner).filter(kind=KIND, topic=topic)
    if told.filter(detail__run=run.pk).exists():
        return False
    with transaction.atomic():
        if not scheduling.set_paused(topic, paused=True, by=RESEARCH):
            return False
        why = shorten(run.error, 300)
        Activity.log(topic.owner, RESEARCH, KIND, subject=topic, warning=True, run=run.pk, why=why)
        names = {"topic": topic.title, "count": IN_A_ROW, "why": why}
        Delivery.objects.lay_out_notice(
            told_of_failures(run),
            f"schedule-failing:{run.pk}",
            topic=topic,
            subject=_("%(topic)s: its schedule is paused") % names,
            message=_(
                "The last %(count)d runs of “%(topic)s” failed, so its schedule is paused until you "
                "resume it in the topic’s settings. The last one said: %(why)s"
            )
            % names,
        )
    return True
