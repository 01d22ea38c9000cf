"""Removing one saved run: it goes to the trash with what only it brought, and comes back as it was.

Data flow: `what_goes` for the page -> `trash_run`: report, facts, findings and note to the trash,
each revision with `source="put-away:<report>"`; facts that it retired stand again; rows that are no
records (`run_trash_rows`) are kept as JSON -> `restore_run` puts back what nobody changed since.
Run numbers never move: the next run gets the next number, and a removed one leaves a gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import CharField, Count, Q, QuerySet, Value
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.models import (
    Activity,
    ContentItem,
    ModelCall,
    Note,
    Observation,
    PutAway,
    Remembered,
    Revision,
    Topic,
    TopicFact,
    Trust,
)
from memory.models.history import as_json
from memory.models.trash import TRASH_DAYS
from memory.origins import HEURISTIC
from memory.records.cascade import Along
from memory.records.kinds import counted as counted_words
from memory.reviewing import acts as review_acts
from memory.topics import publishing
from research.models import Hit, RemovedRun, Report, Run, Step
from research.runs import trash_rows as run_trash_rows

_ALONG: tuple[type[Remembered], ...] = (TopicFact, Observation, Note, Topic)


@dataclass(frozen=True, slots=True)
class Goes:
    """What leaves with a run, and what stands again without it."""

    facts: Sequence[TopicFact]
    back: Sequence[TopicFact]
    findings: int
    notes: int
    seen: int
    sources: int
    is_last: bool
    is_only: bool


def what_goes(report: Report) -> Goes:
    """Return what moving the run to the trash would take along: five queries."""
    run = report.run
    rows, facts, beside = run_trash_rows.only_of(run), _brought(run), _beside(run)
    counts = _counted(findings=_findings(run), notes=_notes(run), **asdict(rows))
    back = _to_stand_again(run, facts) if beside.is_last else []
    return Goes(facts, back=back, is_last=beside.is_last, is_only=beside.is_only, **counts)


def _counted(**rows: QuerySet[Any]) -> dict[str, int]:
    """Return how many rows each of these has, in one query."""
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
    """Return what the page of a run in the trash shows: who moved it, why, and until when."""
    record = run.report if hasattr(run, "report") else RemovedRun.objects.get(run=run)
    moved = Revision.objects.filter(record_id=record.pk, after__has_key="trashed_at")
    revision = moved.order_by("-id").first()
    reason = revision.reason if revision else ""
    return {
        "run": run,
        "topic": run.topic,
        "record": record,
        "type": record.record_type(),
        "why": "" if reason == _("moved to the trash") else reason,
        "gone_at": (record.trashed_at or timezone.now()) + timedelta(days=TRASH_DAYS),
    }


def is_removed(run: Run) -> bool:
    """Whether the run lies in the trash, by its report or by itself."""
    records = (getattr(run, name, None) for name in ("report", "removed"))
    return any(record is not None and record.trashed_at is not None for record in records)


def why_not_now(run: Run) -> str:
    """Return why the run cannot be moved or deleted just now; empty if it can."""
    going = Q(status__in=Run.UNFINISHED)
    taking = Q(pk=run.pk, steps__is_follow_up=True, steps__state=Step.State.RUNNING)
    found = set(Run.objects.filter(going | taking, topic=run.topic_id).values_list("pk", flat=True))
    if found == {run.pk}:
        return _("Beacon is still taking findings from this run. Try again in a minute.")
    if found:
        return _(
            "A run of this topic is going on, and works with what is known now. Wait until it "
            "is over, or cancel it, then try again."
        )
    return ""


# --- what is its own ------------------------------------------------------------------------------


def _others(run: Run) -> Any:
    return Run.objects.filter(topic=run.topic_id).saved().kept().exclude(pk=run.pk)


@dataclass(frozen=True, slots=True)
class _Beside:
    is_last: bool
    is_only: bool


def _beside(run: Run) -> _Beside:
    """Return whether the run is the last of those that are kept, and the only one."""
    numbers = [number or 0 for number in _others(run).values_list("number", flat=True)]
    return _Beside(max(numbers, default=0) < (run.number or 0), not numbers)


def _brought(run: Run) -> list[TopicFact]:
    """Return the facts that this run alone brought and nobody has touched."""
    facts = TopicFact.objects.filter(topic=run.topic_id, source=run.source, first_run=run.number)
    confirmed = Q(confirmed_run=None) | Q(confirmed_run=run.number)
    found = facts.live().filter(confirmed).exclude(state=TopicFact.State.STRUCK)
    return [fact for fact in found.order_by("position", "created") if not fact.is_kept]


def _findings(run: Run) -> Any:
    sources = [run.source, run.source + HEURISTIC]
    found = Observation.objects.filter(owner=run.topic.owner_id, source__in=sources).live()
    return found.filter(pinned=False, lock="open").exclude(trust=Trust.OWNER)


def _notes(run: Run) -> Any:
    found = Note.objects.filter(owner=run.topic.owner_id, source=run.source).live()
    return found.filter(pinned=False, lock="open", edited_by_person=False, superseded_by=None)


def _to_stand_again(run: Run, brought: Sequence[TopicFact]) -> list[TopicFact]:
    """Return the facts that the topic's last run retired, as many as there is room for."""
    current, retired = Q(state=TopicFact.State.CURRENT), Q(state=TopicFact.State.RETIRED)
    wanted = current | retired & Q(retired_run=run.number)
    facts = TopicFact.objects.filter(wanted, topic=run.topic_id).live()
    others = [f for f in facts.order_by("position", "created") if f not in brought]
    staying = {fact.key for fact in others if fact.state == TopicFact.State.CURRENT}
    back = [f for f in others if f.state == TopicFact.State.RETIRED and f.key not in staying]
    return back[: max(0, TopicFact.MOST_CURRENT - len(staying))]


# --- to the trash ---------------------------------------------------------------------------------


def trash_run(report: Report, *, by: Actor, why: str = "") -> None:
    """Move a run's report to the trash, with what only this run brought.

    Raises InvalidValue while a run of its topic goes on.
    """
    with transaction.atomic():
        topic, run, report = _held(report)
        if report.trashed_at is not None:
            return
        _check_now(run)
        _take_along(topic, run, report, by)
        report.trash(by=by, why=why)
        Activity.log(topic.owner, by, "run-trashed", subject=run, label=str(report), why=why)
        transaction.on_commit(lambda: publishing.publish(topic.pk))


def _held(report: Report) -> tuple[Topic, Run, Report]:
    """Return the topic, held, with the run and the report as they are now.

    Raises InvalidValue if another tab deleted the run for good.
    """
    topic = Topic.objects.filter(runs=report.run_id).select_for_update(of=("self",)).first()
    # Looked up once the topic is held: until then it may still have gone.
    run = Run.objects.select_related("topic__owner").filter(pk=report.run_id).first()
    found = Report.objects.select_related("owner").filter(pk=report.pk).first()
    if topic is None or run is None or found is None:
        raise InvalidValue(_("It is deleted for good already."))
    return topic, run, found


def _check_now(run: Run) -> None:
    problem = why_not_now(run)
    if problem:
        raise InvalidValue(problem)


def _take_along(topic: Topic, run: Run, report: Report, by: Actor) -> None:
    source, moved = PutAway.source_of(report.pk), {"trashed_at": timezone.now()}
    told: dict[str, Any] = {
        "by": by,
        "why": _("went to the trash with %(run)s") % {"run": run},
        "source": source,
    }
    brought, beside = _brought(run), _beside(run)
    back = _to_stand_again(run, brought) if beside.is_last else []
    expires_at = topic.expires_at
    changed = _topic_without(topic, run, report, beside)
    along: tuple[tuple[type[Any], list[Any]], ...] = (
        (TopicFact, brought),
        (Observation, list(_findings(run))),
        (Note, list(_notes(run))),
    )
    for model, records in along:
        model.change_many([(record, moved) for record in records], **told)
    stand = {"state": TopicFact.State.CURRENT.value, "retired_run": None}
    again = told | {"why": _("stands again without %(run)s") % {"run": run}}
    TopicFact.change_many([(fact, stand) for fact in back], **again)
    if changed:
        topic.change(**again, **changed)
    review_acts.reject_from(topic.owner, run.source, by=by, why=source)
    run_trash_rows.put_away(report, expires_at)


def _topic_without(topic: Topic, run: Run, report: Report, beside: _Beside) -> dict[str, Any]:
    """Return what of the topic itself changes: its summary, and its memory where no run is left."""
    changed: dict[str, Any] = {}
    if beside.is_last and report.summary and topic.summary == report.summary:
        before = Report.objects.live().filter(run__in=_others(run)).order_by("-run__number")
        changed["summary"] = before.values_list("summary", flat=True).first() or ""
    if topic.expires_at is not None and beside.is_only:
        changed["expires_at"] = None  # nothing is known: the next run is a baseline
    return changed


# --- and back -------------------------------------------------------------------------------------


def restore_run(report: Report, *, by: Actor) -> None:
    """Bring a run back from the trash, with what went along and nobody has changed since.

    Facts for which there is no place any more come back to the timeline.  Raises InvalidValue
    while a run of the topic goes on.
    """
    with transaction.atomic():
        topic, run, report = _held(report)
        if report.trashed_at is None:
            return
        _check_now(run)
        told = _told(report)
        report.restore(by=by)
        why = _("came back with %(run)s") % {"run": run}
        for model in _ALONG:
            _put_back(model, topic, told, by, why)
        review_acts.put_back_for(topic.owner, PutAway.source_of(report.pk), by=by)
        run_trash_rows.put_back(report)
        Activity.log(topic.owner, by, "run-restored", subject=run, label=str(report))
        transaction.on_commit(lambda: publishing.publish(topic.pk))


def _told(report: Report) -> QuerySet[Any]:
    """Return what was changed as the report went to the trash, the last time that it did.

    What an earlier time changed came back then, and is whatever became of it since.
    """
    came_back = Revision.objects.filter(record_id=report.pk, after__trashed_at=None)
    since = came_back.order_by("-id").values_list("id", flat=True).first() or 0
    source = PutAway.source_of(report.pk)
    return Revision.objects.filter(owner=report.owner_id, source=source, pk__gt=since)


def _put_back(model: type[Any], topic: Topic, told: QuerySet[Any], by: Actor, why: str) -> None:
    told = told.filter(record_type=model.record_type()).order_by("record_id", "-id")
    last = {revision.record_id: revision for revision in told.distinct("record_id")}
    records = model.objects.filter(owner=topic.owner_id, pk__in=last).select_for_update()
    wanted = []
    for record in sorted(records, key=lambda one: (getattr(one, "position", 0), one.created)):
        revision = last[record.pk]
        as_left = as_json({name: getattr(record, name, None) for name in revision.after})
        if as_left == revision.after:
            wanted.append((record, _values(model, revision.before)))
    if model is TopicFact:
        wanted = _with_room(topic, wanted)
    if model is Topic:
        for record, fields in wanted:
            record.change(by=by, why=why, **fields)
    else:
        model.change_many(wanted, by=by, why=why)


def _values(model: type[Any], stored: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in stored.items():
        found[name] = None if value is None else model._meta.get_field(name).to_python(value)
    return found


def _with_room(topic: Topic, wanted: list[tuple[Any, dict[str, Any]]]) -> list[Any]:
    """Let facts come back to the current ones as far as there is room, the rest retired."""
    leaving = {fact.pk for fact, fields in wanted if fields.get("state") == "retired"}
    staying = TopicFact.objects.filter(topic=topic).exclude(pk__in=leaving)
    keys = {fact.key for fact in staying.current()} | {fact.key for fact in staying.struck()}
    room = TopicFact.MOST_CURRENT - staying.current().count()
    last = Run.objects.filter(topic=topic).saved().order_by("-number").first()
    found = []
    for fact, fields in wanted:
        comes = fields.get("state", fact.state) == "current" and "trashed_at" in fields
        if comes and (room <= 0 or fact.key in keys):
            retired = {"state": "retired", "retired_run": last.number if last else None}
            fields = fields | retired
        elif comes:
            room -= 1
            keys.add(fact.key)
        found.append((fact, fields))
    return found


# --- for good -------------------------------------------------------------------------------------


def check_nothing_goes_on(topic: Topic) -> None:
    """Raise InvalidValue if a worker is at a run of a topic that is to be deleted for good."""
    if Run.objects.filter(topic=topic).unfinished().exists():
        raise InvalidValue(
            _(
                "A run of “%(topic)s” is going on still: it was asked to end when the topic went to "
                "the trash, and ends within a minute. Nothing was deleted; try again then."
            )
            % {"topic": topic}
        )


def forget_run(report: Report, by: Actor) -> None:
    """Delete what lies in the trash with the run, and what was said and read in it."""
    run = report.run
    _check_now(run)
    for record in _lying_with(report):
        record.purge(by=by)
    ModelCall.objects.filter(source=run.source).update(prompt=[], answer="", error="")
    for item in read_for(run):
        item.purge(by=by)
    lines = Activity.objects.filter(subject_type="run", subject_id=str(run.pk))
    lines.update(label="", detail={})
    PutAway.objects.filter(record_id=report.pk).delete()


def _lying_with(report: Report) -> Iterable[Remembered]:
    for model in (TopicFact, Observation, Note):
        ids = _told(report).filter(record_type=model.record_type(), after__has_key="trashed_at")
        rows = model.objects.filter(owner=report.owner_id).in_trash()
        yield from rows.filter(pk__in=list(ids.values_list("record_id", flat=True)))


def read_for(run: Run) -> Any:
    """Return the content items that were kept for this run alone."""
    its_own = Q(source=run.source) | Q(kept_with=run.source) | Q(scope=run.source)
    elsewhere = Hit.objects.exclude(run=run).exclude(content_item=None).values("content_item")
    found = ContentItem.objects.filter(its_own, owner=run.topic.owner_id)
    return found.exclude(pk__in=elsewhere).exclude(pinned=True).defer("content")


def along_with(ids: Sequence[Any]) -> Along:
    """Return, by report, what lies in the trash with it, in words: two queries."""
    sources = {PutAway.source_of(key): key for key in ids}
    told = Revision.objects.filter(source__in=sources, after__has_key="trashed_at").order_by()
    rows = told.values("source", "record_type").annotate(n=Count("record_id", distinct=True))
    found: dict[Any, list[str]] = {}
    for row in rows.order_by("-record_type"):
        words = found.setdefault(sources[row["source"]], [])
        words.append(counted_words(row["record_type"], row["n"]))
    for kept in PutAway.objects.filter(record_id__in=ids):
        seen = len(run_trash_rows.rows_of(kept, "seen"))
        if seen:
            said = ngettext("%(n)d seen URL", "%(n)d seen URLs", seen) % {"n": seen}
            found.setdefault(kept.record_id, []).append(said)
    return found
