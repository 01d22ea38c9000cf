"""What agents can do with topics and runs: only with their own, and subject to review.

A topic's objective enters the prompts of its runs as the owner's words, and its budgets and
schedule spend the owner's money. Topics have no proposals, so a change that needs review is
refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _

from memory.core.actors import Actor
from memory.core.errors import Locked
from memory.models import Activity, Revision, Topic, Trust, User
from memory.review import services as review_services
from research.execution.starting import NotNow
from research.models import Run, Schedule
from research.models.runs import RETRIED

HOUR = timedelta(hours=1)
MOST_AN_HOUR = 10  # topics per hour that one agent can create
PERSONS_FIELDS = frozenset(
    {
        "max_pages", "max_minutes", "max_tokens", "max_money", "month_tokens", "month_money",
        "over_limit", "schedule", "recheck", "plan_review", "intent", "tell_also", "archived",
    }
)  # fmt: skip


def is_own(topic: Topic, by: Actor) -> bool:
    """Whether the agent created the topic, and no person has changed or scheduled it since."""
    if topic.source != str(by) or topic.trust == Trust.OWNER:
        return False
    told = Revision.objects.filter(record_type=topic.record_type(), record_id=topic.pk)
    if told.filter(actor__startswith="human:").exists():
        return False
    return not Schedule.objects.filter(topic=topic).exclude(preset=Schedule.Preset.NONE).exists()


def check_own(topic: Topic, by: Actor) -> None:
    """Raise Locked if the topic isn't the agent's own."""
    if not by.is_person and not is_own(topic, by):
        raise Locked(
            _("This agent doesn’t own “%(topic)s”. Only a person can change or delete it.")
            % {"topic": topic.title}
        )


def check_own_run(run: Run, by: Actor) -> None:
    """Raise Locked if the agent didn't start the run, or a person retried it."""
    if by.is_person:
        return
    told = Activity.objects.filter(owner=run.topic.owner_id, kind=RETRIED, created__gt=run.created)
    told = told.filter(subject_type="run", subject_id=str(run.pk), actor__startswith="human:")
    if run.actor != str(by):
        words = _(
            "This agent didn’t start run %(run)d. Only a person can cancel, stop or retry it. Nothing was changed."
        )
    elif told.exists():
        words = _(
            "A person retried run %(run)d. Only a person can cancel, stop or retry it now. Nothing was changed."
        )
    else:
        return
    raise Locked(words % {"run": run.pk})


def check_fields(named: Iterable[str], by: Actor) -> None:
    """Raise Locked if an agent sets fields that only people can: budgets, schedules, notifications."""
    fields = sorted(PERSONS_FIELDS.intersection(named))
    if fields and not by.is_person:
        words = _(
            "Only a person can set a topic’s %(fields)s. Leave it out, or ask the user to set it."
        )
        raise Locked(words % {"fields": ", ".join(fields)})


def check_review(owner: User, texts: Iterable[str], *, by: Actor, trust: str) -> None:
    """Raise Locked if the agent's topic, or its change, would need review."""
    why = review_services.why_held(
        owner, "topic", by=by, trust=trust, texts=list(texts), leaves_topic=True
    )
    if why:
        words = _(
            "This topic would need review (%(why)s), and agents can’t submit topics for review. Nothing was saved. Ask the user to do it."
        )
        raise Locked(words % {"why": why})


def check_hour(owner: User, by: Actor) -> None:
    """Raise NotNow if the agent reached its limit of topics per hour.

    Call it in the transaction that creates the topic. It locks the owner's row until the end.
    """
    if by.is_person:
        return
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)
    an_hour_ago = timezone.now() - HOUR
    rows = Topic.objects.of(owner).filter(source=str(by), created__gt=an_hour_ago)
    moments = list(rows.order_by("-created").values_list("created", flat=True)[:MOST_AN_HOUR])
    if len(moments) == MOST_AN_HOUR:
        wait = max(1, round((moments[-1] - an_hour_ago).total_seconds()))
        words = _(
            "This agent created %(most)d topics in the last hour, which is the limit. Try again in %(minutes)d min, or ask the user to create the topic."
        )
        told = {"most": MOST_AN_HOUR, "minutes": -(-wait // 60)}
        raise NotNow(words % told, retry_after=wait)


def texts_of(asked: Mapping[str, Any]) -> list[str]:
    """Return all texts of a request, for the review."""
    found: list[str] = []
    for value in asked.values():
        parts = value if isinstance(value, list) else [value]
        found += [part for part in parts if isinstance(part, str)]
    return found
