"""Move runs and what only they found to Trash and back, and redact copies of deleted records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

import structlog
from django.core.exceptions import ValidationError
from django.db import DatabaseError, models, transaction
from django.db.models import CharField, Count, Q, QuerySet, Value
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.text.canonical_urls import canonical_url
from beacon_site.text.cleaning import shorten
from memory.models import (
    Activity,
    ContentItem,
    ModelCall,
    Note,
    Observation,
    Remembered,
    Revision,
    SeenUrl,
    Source,
    Topic,
    TopicFact,
    TrashedRows,
    Trust,
)
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.models.history import as_json
from memory.models.origins import HEURISTIC
from memory.models.remembered import TRASH_DAYS
from memory.services import topic_memory
from memory.services.records import traces
from memory.services.records.kinds import Along
from memory.services.records.kinds import count_label as counted_words
from memory.services.records.traces import MAX_LISTED, Traces, redact
from memory.services.review import acts as review_acts
from research.models import (
    Delivery,
    DeltaItem,
    Hit,
    RemovedRun,
    Report,
    Run,
    Step,
    ToolCall,
    TopicNews,
)


def register() -> None:
    """Register how runs and messages are redacted, and which reports stay."""
    traces.PLACES.append(forget)
    traces.STAYING.append(reports)
    Topic.HANGING.append(_reports_of)


def forget(gone: Traces) -> None:
    """Redact steps, tool calls and messages that quote what was deleted. Reports stay."""
    runs = Run.objects.filter(topic__owner_id=gone.owner_id)
    redact(runs, gone, "manifest", "warnings", "error", "stop_reason")
    recent = {"run__topic__owner_id": gone.owner_id}
    read = Q(run__in=[number for number in gone.read_in("run") if number.isdecimal()])
    redact(Step.objects.filter(**recent), gone, "output", "detail", "warning", read=read)
    redact(ToolCall.objects.filter(**recent), gone, "arguments", "result", read=read)
    sent = Delivery.objects.filter(owner_id=gone.owner_id, created__gte=gone.since)
    redact(sent, gone, "subject", "message", "request", "response", "error", "results")
    news = TopicNews.objects.filter(topic__owner_id=gone.owner_id)
    told = news.annotate(said=traces.as_text("counts")).filter(gone.find("said"))
    keys = list(told.values_list("pk", flat=True))
    TopicNews.objects.filter(pk__in=keys).update(counts={}, counted_changes=None)


def reports(gone: Traces) -> Iterable[tuple[str, str]]:
    """Return the reports that say the same. They are separate records."""
    rows = Report.objects.filter(owner_id=gone.owner_id).exclude(pk__in=gone.ids)
    rows = rows.annotate(cited=traces.as_text("sources"))
    said = rows.filter(gone.find("body", "delta", "summary", "cited", ids=False, rare=False))
    for report in said.select_related("run__topic").order_by("-created")[:MAX_LISTED]:
        address = reverse("research:run", args=[report.run.topic.slug, report.run_id])
        yield _("Report “%(title)s”") % {"title": shorten(str(report), 80)}, address


def _reports_of(topic: Topic) -> Iterable[Remembered]:
    return Report.objects.filter(run__topic=topic)


# --- rows that aren't records ---

logger = structlog.get_logger(__name__)


def only_of(run: Run) -> tuple[QuerySet[Any], QuerySet[Any]]:
    """Return the seen URLs and the sources that no other saved run of the topic has found."""
    rows = Run.objects.filter(topic=run.topic_id).saved().kept().order_by().values("pk")
    hits = Hit.objects.filter(Q(run__in=rows) | Q(run=run)).order_by()
    found = [(of, canonical_url(url)) for of, url in hits.values_list("run", "url")]
    own = {url for of, url in found if of == run.pk} - {url for of, url in found if of != run.pk}
    number = run.number or 0
    seen = SeenUrl.objects.filter(topic=run.topic_id, returned_in=number, url__in=own)
    sources = Source.objects.filter(
        topic=run.topic_id, first_run=number, last_run=number, url__in=own
    )
    return seen, sources


def move_rows_to_trash(report: Report, expires_at: datetime | None) -> None:
    """Move the run's own rows from their tables into its report's `TrashedRows`.

    `expires_at` is the exact expiry of the topic's memory.
    """
    run = report.run
    seen, sources = only_of(run)
    kept = {
        "seen": [_as_row(row) for row in seen],
        "sources": [_as_row(row) for row in sources],
        "confirmed": _unconfirm(run),
        "contradicted": _uncontradict(run, report),
        "topic": [{"expires_at": _exact(expires_at)}],
    }
    seen.delete()
    sources.delete()
    TrashedRows.objects.update_or_create(
        record_id=report.pk,
        defaults={
            "owner_id": report.owner_id,
            "topic_id": run.topic_id,
            "record_type": report.record_type(),
            "rows": kept,
        },
    )


def restore_state(report: Report) -> None:
    """Put the rows back, except those that later runs have written as well."""
    kept = TrashedRows.objects.filter(record_id=report.pk, owner=report.owner_id).first()
    if kept is None:
        return
    topic_id = report.run.topic_id
    for name, model in (("seen", SeenUrl), ("sources", Source)):
        # One by one, because a manually edited archive can contain an invalid row.
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
        logger.warning("a run’s notes on facts not restored", report=str(report.pk))
    kept.delete()


def _put_notes_back(kept: TrashedRows, topic_id: Any) -> None:
    for row in rows_of(kept, "confirmed"):
        facts = _fact(topic_id, row).filter(confirmed_run=row.get("then_run"))
        facts.update(confirmed_run=row.get("run"), confirmed_at=row.get("at"))
    for row in rows_of(kept, "contradicted"):
        _fact(topic_id, row).filter(contradicted_at=None).update(contradicted_at=row.get("at"))
    for row in rows_of(kept, "topic"):
        exact = parse_datetime(row.get("expires_at") or "")
        topic = Topic.objects.filter(pk=topic_id).exclude(expires_at=None).first()
        # The revision that restored it has only milliseconds.
        if exact and topic and _thousandths(exact) == _thousandths(topic.expires_at):
            Topic.objects.filter(pk=topic_id).update(expires_at=exact)


def _thousandths(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def rows_of(kept: TrashedRows, name: str) -> list[dict[str, Any]]:
    found = kept.rows.get(name) if isinstance(kept.rows, dict) else None
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _as_row(row: models.Model) -> dict[str, Any]:
    fields = [f for f in row._meta.concrete_fields if f.name not in ("id", "topic")]
    return {field.attname: _exact(getattr(row, field.attname)) for field in fields}


def _exact(value: Any) -> Any:
    """Format a time with microseconds: Django's JSON encoder keeps only milliseconds."""
    return value.isoformat() if isinstance(value, date) else value


def _make(model: type[Any], topic_id: Any, row: dict[str, Any]) -> None:
    fields = {f.attname: f for f in model._meta.concrete_fields if f.name not in ("id", "topic")}
    values = {name: fields[name].to_python(value) for name, value in row.items() if name in fields}
    there = model.objects.filter(topic=topic_id, url=values["url"]).first()
    if there is None:
        model.objects.create(topic_id=topic_id, **values)
    elif model is Source:
        # A later run found the page again, so it was known before.
        model.objects.filter(pk=there.pk).update(
            first_run=values["first_run"],
            first_at=values["first_at"],
            times_read=there.times_read + values.get("times_read", 0),
            times_cited=there.times_cited + values.get("times_cited", 0),
        )


def _fact(topic_id: Any, row: dict[str, Any]) -> QuerySet[Any]:
    return TopicFact.objects.filter(topic=topic_id, pk=str(row.get("fact", "")))


# --- notes on facts that stay ---


def _unconfirm(run: Run) -> list[dict[str, Any]]:
    """Restore the facts' previous confirmation from before this run. Return the old values."""
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
    rows = DeltaItem.objects.filter(previous_fact=fact, status=DeltaItem.Status.CONFIRMED)
    earlier = Run.objects.filter(topic=run.topic_id, number__lt=run.number).kept()
    by_run = Q(pk__in=rows.values("run")) | Q(number=fact.first_run or 0)
    return earlier.filter(by_run).order_by("-number").first()


def _uncontradict(run: Run, report: Report) -> list[dict[str, Any]]:
    """Remove this run's contradictions from facts. Return the old values."""
    facts = TopicFact.objects.filter(topic=run.topic_id, contradicted_at=report.created).live()
    noted = [{"fact": str(fact.pk), "at": _exact(fact.contradicted_at)} for fact in facts]
    facts.update(contradicted_at=None)
    return noted


# --- runs with a report ---

_ALONG: tuple[type[Remembered], ...] = (TopicFact, Observation, Note, Topic)


def deletion_summary(report: Report) -> dict[str, Any]:
    """Return what would go to the trash with the run, in five queries.

    `back` are the facts that become current again without it.
    """
    run = report.run
    seen, sources = only_of(run)
    facts = _brought(run)
    is_last, is_only = _is_last_and_only(run)
    counts = _counted(findings=_findings(run), notes=_notes(run), seen=seen, sources=sources)
    back = _facts_to_restore(run, facts) if is_last else []
    return {"facts": facts, "back": back, "is_last": is_last, "is_only": is_only, **counts}


def _counted(**rows: QuerySet[Any]) -> dict[str, int]:
    """Return the number of rows of each query, in one query."""
    parts = [
        found.order_by()
        .annotate(of=Value(name, output_field=CharField()))
        .values("of")
        .annotate(number=Count("pk"))
        for name, found in rows.items()
    ]
    counted = {row["of"]: row["number"] for row in parts[0].union(*parts[1:], all=True)}
    return {name: counted.get(name, 0) for name in rows}


def page_of_removed(run: Run) -> dict[str, Any]:
    """Return the context of a trashed run's page: who deleted it, why, and until when it is kept."""
    record = run.report if hasattr(run, "report") else RemovedRun.objects.get(run=run)
    moved = Revision.objects.filter(record_id=record.pk, after__has_key="trashed_at")
    revision = moved.order_by("-id").first()
    reason = revision.reason if revision else ""
    return {
        "run": run,
        "topic": run.topic,
        "record": record,
        "type": record.record_type(),
        "why": "" if reason == _("moved to Trash") else reason,
        "purge_at": (record.trashed_at or timezone.now()) + timedelta(days=TRASH_DAYS),
    }


def is_removed(run: Run) -> bool:
    """Return True if the run is in the trash, with its report or without one."""
    records = (getattr(run, name, None) for name in ("report", "removed"))
    return any(record is not None and record.trashed_at is not None for record in records)


def why_not_now(run: Run) -> str:
    """Return why the run can't be moved or deleted now, or ""."""
    going = Q(status__in=Run.UNFINISHED)
    taking = Q(pk=run.pk, steps__is_follow_up=True, steps__state=Step.State.RUNNING)
    found = set(Run.objects.filter(going | taking, topic=run.topic_id).values_list("pk", flat=True))
    if found == {run.pk}:
        return _("Beacon is still extracting findings from this run. Try again in a minute.")
    if found:
        return _(
            "A run of this topic is in progress and is using this memory. Wait until it ends or "
            "cancel it, then try again."
        )
    return ""


# --- what only this run found ---


def _others(run: Run) -> Any:
    return Run.objects.filter(topic=run.topic_id).saved().kept().exclude(pk=run.pk)


def _is_last_and_only(run: Run) -> tuple[bool, bool]:
    """Return whether the run is the topic's last, and whether it is the only one."""
    numbers = [number or 0 for number in _others(run).values_list("number", flat=True)]
    return max(numbers, default=0) < (run.number or 0), not numbers


def _brought(run: Run) -> list[TopicFact]:
    """Return the facts that only this run found and that no one has edited."""
    facts = TopicFact.objects.filter(topic=run.topic_id, source=run.source, first_run=run.number)
    confirmed = Q(confirmed_run=None) | Q(confirmed_run=run.number)
    found = facts.live().filter(confirmed).exclude(state=TopicFact.State.STRUCK)
    return [fact for fact in found.order_by("position", "created") if not fact.is_kept]


def _findings(run: Run) -> Any:
    sources = [run.source, run.source + HEURISTIC]
    rows = Observation.objects.filter(owner=run.topic.owner_id, source__in=sources).live()
    return rows.filter(pinned=False, lock="open").exclude(trust=Trust.OWNER)


def _notes(run: Run) -> Any:
    rows = Note.objects.filter(owner=run.topic.owner_id, source=run.source).live()
    return rows.filter(pinned=False, lock="open", edited_by_person=False, superseded_by=None)


def _facts_to_restore(run: Run, brought: Sequence[TopicFact]) -> list[TopicFact]:
    """Return the facts retired by the topic's last run, as many as there is room for."""
    current, retired = Q(state=TopicFact.State.CURRENT), Q(state=TopicFact.State.RETIRED)
    condition = current | retired & Q(retired_run=run.number)
    facts = TopicFact.objects.filter(condition, topic=run.topic_id).live()
    others = [f for f in facts.order_by("position", "created") if f not in brought]
    staying = {fact.key for fact in others if fact.state == TopicFact.State.CURRENT}
    back = [f for f in others if f.state == TopicFact.State.RETIRED and f.key not in staying]
    return back[: max(0, TopicFact.MAX_CURRENT - len(staying))]


# --- moving to the trash ---


def trash_run(report: Report, *, by: Actor, why: str = "") -> None:
    """Move a run's report to the trash, with everything that only this run found.

    Raises InvalidValue while a run of its topic is in progress.
    """
    with transaction.atomic():
        topic, run, report = _locked_report(report)
        if report.trashed_at is not None:
            return
        _check_now(run)
        _take_along(topic, run, report, by)
        report.trash(by=by, why=why)
        Activity.log(topic.owner, by, "run-trashed", subject=run, label=str(report), why=why)
        transaction.on_commit(lambda: topic_memory.publish(topic.pk))


def _locked_report(report: Report) -> tuple[Topic, Run, Report]:
    """Lock the topic. Return it with the current run and report.

    Raises InvalidValue if the run was permanently deleted in the meantime.
    """
    topic = Topic.objects.filter(runs=report.run_id).select_for_update(of=("self",)).first()
    # Loaded after the topic is locked, because it could be deleted before.
    run = Run.objects.select_related("topic__owner").filter(pk=report.run_id).first()
    row = Report.objects.select_related("owner").filter(pk=report.pk).first()
    if topic is None or run is None or row is None:
        raise InvalidValue(_("This item has already been permanently deleted."))
    return topic, run, row


def _check_now(run: Run) -> None:
    problem = why_not_now(run)
    if problem:
        raise InvalidValue(problem)


def _take_along(topic: Topic, run: Run, report: Report, by: Actor) -> None:
    source, moved = TrashedRows.source_of(report.pk), {"trashed_at": timezone.now()}
    fields: dict[str, Any] = {
        "by": by,
        "why": _("moved to Trash with %(run)s") % {"run": run},
        "source": source,
    }
    brought, (is_last, is_only) = _brought(run), _is_last_and_only(run)
    back = _facts_to_restore(run, brought) if is_last else []
    expires_at = topic.expires_at
    changed = _topic_without(topic, run, report, is_last=is_last, is_only=is_only)
    along: tuple[tuple[type[Any], list[Any]], ...] = (
        (TopicFact, brought),
        (Observation, list(_findings(run))),
        (Note, list(_notes(run))),
    )
    for model, records in along:
        model.change_many([(record, moved) for record in records], **fields)
    again = fields | {"why": _("current again because %(run)s is in Trash") % {"run": run}}
    TopicFact.change_many([(fact, TopicFact.AS_CURRENT) for fact in back], **again)
    if changed:
        topic.change(**again, **changed)
    review_acts.reject_from(topic.owner, run.source, by=by, why=source)
    move_rows_to_trash(report, expires_at)


def _topic_without(
    topic: Topic, run: Run, report: Report, *, is_last: bool, is_only: bool
) -> dict[str, Any]:
    """Return the topic's changed fields: its summary, and its memory if no run is left."""
    changed: dict[str, Any] = {}
    if is_last and report.summary and topic.summary == report.summary:
        before = Report.objects.live().filter(run__in=_others(run)).order_by("-run__number")
        changed["summary"] = before.values_list("summary", flat=True).first() or ""
    if topic.expires_at is not None and is_only:
        changed["expires_at"] = None  # nothing is known, so the next run is a baseline
    return changed


# --- restoring ---


def restore_run(report: Report, *, by: Actor) -> None:
    """Restore a run from the trash, with everything deleted with it and unchanged since.

    Facts for which there is no longer room return to the timeline. Raises InvalidValue while a run
    of the topic is in progress.
    """
    with transaction.atomic():
        topic, run, report = _locked_report(report)
        if report.trashed_at is None:
            return
        _check_now(run)
        rows = _trash_revisions(report)
        report.restore(by=by)
        why = _("restored with %(run)s") % {"run": run}
        for model in _ALONG:
            _restore_records(model, topic, rows, by, why)
        review_acts.restore_state_for(topic.owner, TrashedRows.source_of(report.pk), by=by)
        restore_state(report)
        Activity.log(topic.owner, by, "run-restored", subject=run, label=str(report))
        transaction.on_commit(lambda: topic_memory.publish(topic.pk))


def _trash_revisions(report: Report) -> QuerySet[Any]:
    """Return the changes made when the report last went to the trash.

    Earlier changes were undone when it was restored.
    """
    reopen_restored = Revision.objects.filter(record_id=report.pk, after__trashed_at=None)
    since = reopen_restored.order_by("-id").values_list("id", flat=True).first() or 0
    source = TrashedRows.source_of(report.pk)
    return Revision.objects.filter(owner=report.owner_id, source=source, pk__gt=since)


def _restore_records(
    model: type[Any], topic: Topic, rows: QuerySet[Any], by: Actor, why: str
) -> None:
    rows = rows.filter(record_type=model.record_type()).order_by("record_id", "-id")
    last = {revision.record_id: revision for revision in rows.distinct("record_id")}
    records = model.objects.filter(owner=topic.owner_id, pk__in=last).select_for_update()
    pairs = []
    for record in sorted(records, key=lambda one: (getattr(one, "position", 0), one.created)):
        revision = last[record.pk]
        as_left = as_json({name: getattr(record, name, None) for name in revision.after})
        if as_left == revision.after:
            pairs.append((record, _values(model, revision.before)))
    if model is TopicFact:
        pairs = _with_room(topic, pairs)
    if model is Topic:
        for record, fields in pairs:
            record.change(by=by, why=why, **fields)
    else:
        model.change_many(pairs, by=by, why=why)


def _values(model: type[Any], stored: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in stored.items():
        found[name] = None if value is None else model._meta.get_field(name).to_python(value)
    return found


def _with_room(topic: Topic, pairs: list[tuple[Any, dict[str, Any]]]) -> list[Any]:
    """Make facts current as far as there is room, and retire the rest."""
    leaving = {fact.pk for fact, fields in pairs if fields.get("state") == "retired"}
    staying = TopicFact.objects.filter(topic=topic).exclude(pk__in=leaving)
    keys = {fact.key for fact in staying.current()} | {fact.key for fact in staying.struck()}
    room = TopicFact.MAX_CURRENT - staying.current().count()
    last = Run.objects.filter(topic=topic).saved().order_by("-number").first()
    results = []
    for fact, fields in pairs:
        comes = fields.get("state", fact.state) == "current" and "trashed_at" in fields
        if comes and (room <= 0 or fact.key in keys):
            number = last.number if last else None
            how = TopicFact.RetiredAs.OUTRANKED if fact.key not in keys else ""
            fields = fields | {"state": "retired", "retired_run": number, "retired_as": how}
        elif comes:
            room -= 1
            keys.add(fact.key)
        results.append((fact, fields))
    return results


# --- permanent deletion ---


def check_not_running(topic: Topic) -> None:
    """Raise InvalidValue if a worker runs a topic that is about to be permanently deleted."""
    if Run.objects.filter(topic=topic).unfinished().exists():
        raise InvalidValue(
            _(
                "A run of “%(topic)s” is still stopping, so nothing was deleted. Try again in a minute."
            )
            % {"topic": topic}
        )


def forget_run(report: Report, by: Actor) -> None:
    """Delete what is in the trash with the run, and its conversations and pages."""
    run = report.run
    _check_now(run)
    for record in _trashed_with(report):
        record.purge(by=by)
    _forget_texts(run, by)
    TrashedRows.objects.filter(record_id=report.pk).delete()


def _trashed_with(report: Report) -> Iterable[Remembered]:
    for model in (TopicFact, Observation, Note):
        ids = _trash_revisions(report).filter(
            record_type=model.record_type(), after__has_key="trashed_at"
        )
        rows = model.objects.filter(owner=report.owner_id).in_trash()
        yield from rows.filter(pk__in=list(ids.values_list("record_id", flat=True)))


def read_for(run: Run) -> Any:
    """Return the content items that were kept only for this run."""
    its_own = Q(source=run.source) | Q(run_step=run.source) | Q(scope=run.source)
    elsewhere = Hit.objects.exclude(run=run).exclude(content_item=None).values("content_item")
    rows = ContentItem.objects.filter(its_own, owner=run.topic.owner_id)
    return rows.exclude(pk__in=elsewhere).exclude(pinned=True).defer("content")


def trashed_labels(ids: Sequence[Any]) -> Along:
    """Return, by report, labels of what is in the trash with it, in two queries."""
    sources = {TrashedRows.source_of(key): key for key in ids}
    told = Revision.objects.filter(source__in=sources, after__has_key="trashed_at").order_by()
    rows = told.values("source", "record_type").annotate(n=Count("record_id", distinct=True))
    found: dict[Any, list[str]] = {}
    for row in rows.order_by("-record_type"):
        words = found.setdefault(sources[row["source"]], [])
        words.append(counted_words(row["record_type"], row["n"]))
    for kept in TrashedRows.objects.filter(record_id__in=ids):
        seen = len(rows_of(kept, "seen"))
        if seen:
            message = ngettext("%(n)d seen URL", "%(n)d seen URLs", seen) % {"n": seen}
            found.setdefault(kept.record_id, []).append(message)
    return found


# --- failed and cancelled runs ---

ENDED = (Run.Status.FAILED, Run.Status.CANCELLED)


def remove(run: Run, *, by: Actor) -> RemovedRun:
    """Move a run without a report to the trash. Raises InvalidValue if it was retried."""
    with transaction.atomic():
        topic = Topic.objects.select_related("owner").get(pk=run.topic_id)
        run = Run.objects.select_for_update(of=("self",), no_key=True).get(pk=run.pk)
        run.topic = topic
        if run.status not in ENDED:
            words = _(
                "Only failed and cancelled runs can be removed individually. The status of this run is “%(how)s”."
            )
            raise InvalidValue(words % {"how": run.get_status_display()})
        marks = {name: getattr(topic, name) for name in ("owner", "sensitivity", "trust")}
        removed, created = RemovedRun.objects.get_or_create(
            run=run, defaults={"title": _title(run), "source": run.source, **marks}
        )
        if created:
            Revision.record_first([removed], by=by, source=run.source)
        if removed.trashed_at is None:
            removed.trash(by=by, source=run.source)
            Activity.log(topic.owner, by, "run-trashed", subject=run, label=removed.title)
    return removed


def _title(run: Run) -> str:
    params = {
        "topic": run.topic,
        "how": run.get_status_display(),
        "at": date_format(timezone.localtime(run.created), "j M Y, H:i"),
    }
    return _("%(topic)s · run %(how)s, %(at)s") % params


def restore(removed: RemovedRun, *, by: Actor) -> None:
    """Restore the run to its topic's list."""
    with transaction.atomic():
        was = removed.trashed_at
        removed.restore(by=by)
        if was is not None:
            Activity.log(
                removed.owner, by, "run-restored", subject=removed.run, label=removed.title
            )


def forget_removed_run(removed: RemovedRun, by: Actor) -> None:
    """Delete the conversations and pages of a run that is about to be permanently deleted."""
    _forget_texts(removed.run, by)


def _forget_texts(run: Run, by: Actor) -> None:
    ModelCall.objects.filter(source=run.source).update(prompt=[], answer="", error="")
    for item in list(read_for(run)):
        item.purge(by=by)
    lines = Activity.objects.filter(subject_type="run", subject_id=str(run.pk))
    lines.update(label="", detail={})


def forget_history(topic: Topic) -> None:
    """Delete the history of a topic's reports and removed runs, as part of its permanent deletion."""
    Revision.forget(Report.objects.filter(run__topic=topic).only("pk"))
    Revision.forget(RemovedRun.objects.filter(run__topic=topic).only("pk"))
