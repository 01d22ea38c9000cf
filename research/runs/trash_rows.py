"""The rows of a removed run that are no records: seen URLs, sources, and what it noted on facts.

They leave their tables and are kept as JSON with the report (`PutAway`); coming back they give way
to what later runs have written since.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import structlog
from django.core.exceptions import ValidationError
from django.db import DatabaseError, models, transaction
from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime

from memory.models import PutAway, SeenUrl, Source, Topic, TopicFact
from memory.texts.canonical import canonical_url
from research.models import DeltaItem, Hit, Report, Run

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Rows:
    """The seen URLs and sources that one run alone brought."""

    seen: QuerySet[Any]
    sources: QuerySet[Any]


def only_of(run: Run) -> Rows:
    """Return what no other saved run of the topic has returned."""
    kept = Run.objects.filter(topic=run.topic_id).saved().kept().order_by().values("pk")
    hits = Hit.objects.filter(Q(run__in=kept) | Q(run=run)).order_by()
    found = [(of, canonical_url(url)) for of, url in hits.values_list("run", "url")]
    own = {url for of, url in found if of == run.pk} - {url for of, url in found if of != run.pk}
    number = run.number or 0
    seen = SeenUrl.objects.filter(topic=run.topic_id, returned_in=number, url__in=own)
    sources = Source.objects.filter(
        topic=run.topic_id, first_run=number, last_run=number, url__in=own
    )
    return Rows(seen, sources)


def put_away(report: Report, expires_at: datetime | None) -> None:
    """Take the run's own rows out of their tables and keep them with its report.

    `expires_at` is when the topic's memory was to expire, to the microsecond.
    """
    run, rows = report.run, only_of(report.run)
    kept = {
        "seen": [_as_row(row) for row in rows.seen],
        "sources": [_as_row(row) for row in rows.sources],
        "confirmed": _unconfirm(run),
        "contradicted": _uncontradict(run, report),
        "topic": [{"expires_at": _exact(expires_at)}],
    }
    rows.seen.delete()
    rows.sources.delete()
    PutAway.objects.update_or_create(
        record_id=report.pk,
        defaults={
            "owner_id": report.owner_id,
            "topic_id": run.topic_id,
            "record_type": report.record_type(),
            "rows": kept,
        },
    )


def put_back(report: Report) -> None:
    """Put the rows back where they were; what later runs wrote stands."""
    kept = PutAway.objects.filter(record_id=report.pk, owner=report.owner_id).first()
    if kept is None:
        return
    topic_id = report.run.topic_id
    for name, model in (("seen", SeenUrl), ("sources", Source)):
        # One by one: an archive made by hand may hold a row that is none.
        for row in rows_of(kept, name):
            try:
                with transaction.atomic():
                    _make(model, topic_id, row)
            except (DatabaseError, ValidationError, TypeError, ValueError, KeyError):
                continue
    try:
        with transaction.atomic():
            _put_notes_back(kept, topic_id)
    except (DatabaseError, ValidationError, TypeError, ValueError):
        logger.warning("what a run noted on facts not put back", report=str(report.pk))
    kept.delete()


def _put_notes_back(kept: PutAway, topic_id: Any) -> None:
    for row in rows_of(kept, "confirmed"):
        facts = _fact(topic_id, row).filter(confirmed_run=row.get("then_run"))
        facts.update(confirmed_run=row.get("run"), confirmed_at=row.get("at"))
    for row in rows_of(kept, "contradicted"):
        _fact(topic_id, row).filter(contradicted_at=None).update(contradicted_at=row.get("at"))
    for row in rows_of(kept, "topic"):
        exact = parse_datetime(row.get("expires_at") or "")
        topic = Topic.objects.filter(pk=topic_id).exclude(expires_at=None).first()
        # The revision by which it came back knows thousandths of a second.
        if exact and topic and _thousandths(exact) == _thousandths(topic.expires_at):
            Topic.objects.filter(pk=topic_id).update(expires_at=exact)


def _thousandths(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def rows_of(kept: PutAway, name: str) -> list[dict[str, Any]]:
    """Return the rows of one name that are rows at all."""
    found = kept.rows.get(name) if isinstance(kept.rows, dict) else None
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _as_row(row: models.Model) -> dict[str, Any]:
    fields = [f for f in row._meta.concrete_fields if f.name not in ("id", "topic")]
    return {field.attname: _exact(getattr(row, field.attname)) for field in fields}


def _exact(value: Any) -> Any:
    """Return a moment to the microsecond: JSON as Django writes it keeps but thousandths."""
    return value.isoformat() if isinstance(value, date) else value


def _make(model: type[Any], topic_id: Any, row: dict[str, Any]) -> None:
    fields = {f.attname: f for f in model._meta.concrete_fields if f.name not in ("id", "topic")}
    values = {name: fields[name].to_python(value) for name, value in row.items() if name in fields}
    there = model.objects.filter(topic=topic_id, url=values["url"]).first()
    if there is None:
        model.objects.create(topic_id=topic_id, **values)
    elif model is Source:
        # A later run found the page anew: it was known before after all.
        model.objects.filter(pk=there.pk).update(
            first_run=values["first_run"],
            first_at=values["first_at"],
            times_read=there.times_read + values.get("times_read", 0),
            times_cited=there.times_cited + values.get("times_cited", 0),
        )


def _fact(topic_id: Any, row: dict[str, Any]) -> QuerySet[Any]:
    return TopicFact.objects.filter(topic=topic_id, pk=str(row.get("fact", "")))


# --- what it noted on facts that stay -------------------------------------------------------------


def _unconfirm(run: Run) -> list[dict[str, Any]]:
    """Let facts be confirmed by the run before that did it; return what stood there."""
    facts = TopicFact.objects.filter(topic=run.topic_id, confirmed_run=run.number).live()
    noted = []
    for fact in facts.exclude(first_run=run.number):
        before = _confirmed_before(fact, run)
        number, at = (before.number, before.finished_at) if before else (None, fact.created)
        noted.append(
            {
                "fact": str(fact.pk),
                "run": fact.confirmed_run,
                "at": _exact(fact.confirmed_at),
                "then_run": number,
            }
        )
        TopicFact.objects.filter(pk=fact.pk).update(confirmed_run=number, confirmed_at=at)
    return noted


def _confirmed_before(fact: TopicFact, run: Run) -> Run | None:
    told = DeltaItem.objects.filter(previous_fact=fact, status=DeltaItem.Status.CONFIRMED)
    earlier = Run.objects.filter(topic=run.topic_id, number__lt=run.number).kept()
    by_run = Q(pk__in=told.values("run")) | Q(number=fact.first_run or 0)
    found: Run | None = earlier.filter(by_run).order_by("-number").first()
    return found


def _uncontradict(run: Run, report: Report) -> list[dict[str, Any]]:
    """Take away that this run contradicted facts; return what stood there."""
    facts = TopicFact.objects.filter(topic=run.topic_id, contradicted_at=report.created).live()
    noted = [{"fact": str(fact.pk), "at": _exact(fact.contradicted_at)} for fact in facts]
    facts.update(contradicted_at=None)
    return noted
