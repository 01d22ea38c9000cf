"""Step 8: save the run, its report and its facts in one transaction, and record conflicts.

If two facts conflict, both stay until a person decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings as site
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.dateparse import parse_date

from beacon_site.db.errors import LoggedFailure
from beacon_site.db.leased_jobs import JobLost
from beacon_site.text.cleaning import match_key, shorten
from beacon_site.text.messages import gettext as _
from memory.models import Activity, Conflict, ModelCall, Source, Topic, TopicFact, Trust
from memory.models.actors import RESEARCH
from memory.services import topic_memory
from memory.services.topic_memory import FactChanges, FoundFact, ReturnedUrl
from research.models import Delivery, Hit, Report, Run, Step
from research.services.facts import affected
from research.services.runs.context import inputs
from research.services.runs.context.outputs import (
    CitedSource,
    SaveOutput,
)
from research.services.runs.context.run_context import Cancelled, RunContext, StepKind, StepResult
from research.services.runs.reporting import delta as delta_items
from research.services.runs.reporting import merged_deltas as delta_text
from research.services.runs.reporting import report_text, template
from research.services.runs.reporting.delta import Change, Status
from research.services.runs.search import gathering, known_pages, reading
from research.services.runs.steps import judging
from research.services.schedules import scheduling


def note(run: Run, topic: Topic, changes: Sequence[Change], fresh: Sequence[TopicFact]) -> int:
    """Record each contradiction and each unsure change between two current facts. Return how many.

    The change stores the conflict's id, so its delta item links to it.
    """
    disputed = [c for c in changes if c.is_remembered and c.previous_id and not c.replaces]
    if not disputed:
        return 0
    facts = {fact.key: fact for fact in fresh}
    olds = TopicFact.objects.filter(topic=topic).current()
    known = {str(fact.pk): fact for fact in olds.filter(pk__in=[c.previous_id for c in disputed])}
    noted = 0
    for change in disputed:
        old, new = known.get(change.previous_id), facts.get(match_key(change.sentence))
        # If a person edited the old one in the meantime, the run never saw that text.
        if old is None or new is None or old.key != match_key(change.previous_text):
            continue
        conflict = Conflict.objects.note(
            topic.owner,
            Conflict.Kind.CONTRADICTION,
            old,
            new,
            source=run.source,
            reason=Conflict.Reason.REPLACES
            if change.status == Status.CHANGED
            else Conflict.Reason.SOURCES,
            by=RESEARCH,
        )
        if conflict is not None:
            change.conflict_id = str(conflict.pk)
            noted += 1
    return noted


# --- save ---


def save(context: RunContext, follow_ups: list[StepKind]) -> StepResult:
    """Save the run as Run #N, which ends it as succeeded or partial.

    Raises JobLost if another worker has the run, and Cancelled if its topic was moved to the trash.
    """
    changes = judging.changes_of(context)
    at = timezone.now()
    with transaction.atomic():
        # The topic is locked first. A person's edit of a fact takes the same lock.
        topic = Topic.objects.select_for_update().get(pk=context.topic.pk)
        run = context.run.held().select_for_update().first()
        if run is None:
            raise JobLost(str(context.run.pk))
        if topic.trashed_at is not None:
            raise Cancelled(_("the topic was moved to Trash"))
        number = topic.run_count + 1
        report = _report(context, changes, number, at)
        facts, problem = _remember(context, topic, changes, number, at)
        if inputs.loaded_memory(context) is not None:
            delta_items.store(context.run, changes)
            _note_affected(context.run, topic)
        Topic.objects.filter(pk=topic.pk).update(run_count=number, last_run_at=at)
        reading.remove_read_pages(topic, context.settings.read_next)
        result = _result(context, changes, number, facts, problem)
        _finish(context, number, result, problem, at)
        _create_follow_ups(context, follow_ups)
        Delivery.objects.create_for_report(context.topic, context.run, is_quiet=report.is_quiet)
        transaction.on_commit(lambda: topic_memory.publish(topic.pk))
    return result


def _note_affected(run: Run, topic: Topic) -> None:
    """Store which lines of the owner's memory the changes affect.  No error here can lose the report."""
    with LoggedFailure("affected lines not stored", run=run.pk), transaction.atomic():
        affected.note(run, topic)


def _report(context: RunContext, changes: list[Change], number: int, at: datetime) -> Report:
    write, verify = context.output("write"), context.output("verify")
    memory = inputs.loaded_memory(context)
    body, sources = verify["body"], verify["sources"]
    delta = delta_text.as_markdown(changes, quiet=write["quiet"], sources=sources) if memory else ""
    report = Report(
        owner=context.topic.owner,
        run=context.run,
        title=context.topic.title,
        body=_by_template(context, changes, number, at) or body,
        summary=report_text.first_paragraph(body),
        delta=delta,
        delta_heading=write["heading"],
        delta_since=write["since"],
        sources=sources,
        checks=verify.get("checks", []),
        written_by=write["written_by"],
        is_extractive=write["is_extractive"],
        is_quiet=memory is not None and not any(change.is_listed for change in changes),
        source=context.run.source,
        trust=Trust.EXTERNAL,
        created=at,
        updated=at,
    )
    if memory and report.is_quiet and judging.withholds(changes):
        report.delta = delta_text.nothing_asked_for(changes)
    elif memory and report.is_quiet and not report.delta:
        report.delta = _("Nothing new. The findings aren’t supported by their sources.")
    report.save(force_insert=True)
    Report.follow([report])
    return report


def _by_template(context: RunContext, changes: list[Change], number: int, at: datetime) -> str:
    """Return the body by the topic's template, or an empty text without one."""
    if not context.settings.report_template.strip():
        return ""
    write, verify = context.output("write"), context.output("verify")
    body = verify["body"]
    contents = template.Contents(
        run=context.run,
        number=number,
        at=at,
        text=body,
        summary=report_text.first_paragraph(body),
        changes=changes,
        sources=verify["sources"],
        checked=write["checked"],
        since=write["since"],
    )
    return template.laid_out(context.settings, contents)


def _remember(
    context: RunContext, topic: Topic, changes: list[Change], number: int, at: datetime
) -> tuple[FactChanges, str]:
    """Save the topic's memory in a savepoint. Return what changed, and why it failed if it did.

    If the memory couldn't be loaded, the run leaves it unchanged (R8).
    """
    not_loaded = context.output("load_memory").get("problem", "")
    if not_loaded:
        return FactChanges(), not_loaded
    # No error here can lose the report (R44). Only the savepoint is rolled back, and the run ends
    # as partial with a warning.
    with LoggedFailure("topic memory not saved", run=context.run.pk) as part, transaction.atomic():
        facts = topic_memory.save(
            topic,
            number=number,
            source=context.run.source,
            facts=_with_support(context, _facts(context, changes), changes),
            summary=report_text.first_paragraph(context.output("verify")["body"]),
            returned=_returned(context),
            at=at,
            expires_at=_expiry(context, topic, at),
        )
        _keep_versions(context, topic)
        _mark_facts(changes, number, at)
        note(context.run, topic, changes, facts.new)
        return facts, ""
    return FactChanges(), _("Memory not saved: %(why)s") % {"why": shorten(str(part.error), 200)}


def _expiry(context: RunContext, topic: Topic, at: datetime) -> datetime | None:
    """Return when the memory expires after this save, or None to leave it unchanged.

    If a person expired it during the run, it stays expired. A baseline that found nothing doesn't
    restore expired memory.
    """
    loaded = context.output("load_memory")
    if loaded["memory"] and not topic.memory_is_live(at):
        ended_by_hand = loaded.get("expires_at") != _text(topic.expires_at)
        if ended_by_hand:
            context.run.warn(_("the topic’s memory expired during the run"))
            return None
    if (
        not loaded["memory"]
        and topic.expires_at is not None
        and not context.output("write")["main"]
    ):
        return None
    return at + scheduling.memory_lifetime(topic)


def _text(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _facts(context: RunContext, changes: list[Change]) -> list[FoundFact] | None:
    """Return the topic's facts after the run.

    Changed facts and those they dispute come first, then new ones, then the rest. None for a run
    that found nothing new: facts and summary stay as they are.
    """
    memory = inputs.loaded_memory(context)
    write, verify = context.output("write"), context.output("verify")
    # A change that the topic's intent filters out is known after the run as well.
    listed = [change for change in changes if change.is_remembered]
    gone = any(change.status == Status.GONE for change in changes)
    if memory is not None and not listed and not gone and not _confirmed(changes):
        return None
    sources = {source["n"]: source for source in verify["sources"]}
    if memory is None:
        found = [f for f in verify["findings"][: write["main"]] if f["supported"]]
        if not found:
            return None
        return [_found_fact(f["sentence"], f["citations"], f["quote"], sources) for f in found]
    fresh = [
        replace(
            _found_fact(c.sentence, c.citations, c.quote, sources),
            replaces=c.replaces,
            answers=c.previous_id,
        )
        for c in listed
    ]
    confirmed = {change.previous_id for change in _confirmed(changes)}
    # An unsupported change replaces nothing.
    withheld = {change.previous_id for change in changes if change.is_unsupported}
    standing = set(write["standing"]) | withheld
    # If a person has to decide between two facts, both stay, and merely new ones make room for
    # them.
    disputed = {c.previous_id for c in listed if c.previous_id and not c.replaces}
    both = [f for f in memory.facts if f.id in standing and f.id in disputed]
    rest = [f for f in memory.facts if f.id in standing and f.id not in disputed]
    rest.sort(key=lambda f: f.id not in confirmed)
    changed = [fact for fact, change in zip(fresh, listed, strict=True) if change.previous_id]
    new = [fact for fact, change in zip(fresh, listed, strict=True) if not change.previous_id]
    follows = {
        c.previous_id: _found_fact(c.sentence, c.citations, c.quote, sources)
        for c in _confirmed(changes)
        if c.follows
    }
    kept, staying = (
        [
            FoundFact(f.text, confirmed=f.id in confirmed, known_id=f.id, now=follows.get(f.id))
            for f in facts
        ]
        for facts in (both, rest)
    )
    return [*changed, *kept, *new, *staying]


def _with_support(
    context: RunContext, facts: list[FoundFact] | None, changes: list[Change]
) -> list[FoundFact] | None:
    """Return the facts with the results of `verify` for their sentences."""
    if facts is None:
        return None
    verify = context.output("verify")
    findings = {match_key(f["sentence"]): f for f in verify["findings"]}
    checks = {match_key(c["sentence"]): c for c in verify.get("checks", [])}
    values = {c.previous_id: match_key(c.sentence) for c in _confirmed(changes)}
    found_facts = []
    for fact in facts:
        key = values.get(fact.known_id, match_key(fact.text))
        finding, check = findings.get(key), checks.get(key)
        found_facts.append(
            replace(
                fact,
                support=finding["support"] if finding else "",
                source_count=check["sources"] if check else 0,
                independent_count=check["independent"] if check else 0,
            )
        )
    return found_facts


def _confirmed(changes: list[Change]) -> list[Change]:
    return [c for c in changes if c.status == Status.CONFIRMED and not c.hidden_reason]


def _found_fact(
    sentence: str, citations: list[int], quote: str, sources: dict[int, CitedSource]
) -> FoundFact:
    source = next((sources[n] for n in citations if n in sources), None)
    if source is None:
        return FoundFact(sentence, quote=quote)
    published = parse_date(source["published_at"] or "")
    return FoundFact(sentence, source["link"], source["title"], quote, published)


def _returned(context: RunContext) -> list[ReturnedUrl]:
    """Return every URL that the searches returned, best first (R13).

    A run that was stopped early leaves out new ones that it didn't read, so the next run reads
    them.
    """
    sources = context.output("verify")["sources"]
    links = {source["link"] for source in sources if not source.get("is_earlier")}
    hits = context.run.hits.exclude(state=Hit.State.BLOCKED).order_by("place")
    if context.is_stopping:
        hits = hits.exclude(state=Hit.State.NEW, reading=Hit.Reading.NOT_READ)
    return [
        ReturnedUrl(
            url=hit.url,
            link=hit.link,
            title=hit.title,
            published_at=hit.published_at,
            was_read=hit.content_item_id is not None,
            was_cited=hit.link in links,
            by_search=hit.service != known_pages.SERVICE,
        )
        for hit in hits
    ]


def _keep_versions(context: RunContext, topic: Topic) -> None:
    """Store the page versions reported by servers, so the next run can ask for changes only."""
    if context.run.rechecks:
        return  # a recheck has separate steps that store them
    for url, (etag, modified) in context.output("read").get("versions", {}).items():
        Source.objects.filter(topic=topic, url=url).update(etag=etag, last_modified=modified)


def _mark_facts(changes: list[Change], number: int, at: datetime) -> None:
    """Mark facts as confirmed or contradicted. Neither removes anything."""
    for change in changes:
        if not change.previous_id or change.is_unsupported:
            continue
        # Except facts that a person edited in the meantime: the run never saw that text.
        fact = TopicFact.objects.filter(pk=change.previous_id, key=match_key(change.previous_text))
        if change.status == Status.CONFIRMED:
            fact.update(confirmed_at=at, confirmed_run=number)
        elif change.status == Status.CONTRADICTED:
            fact.update(contradicted_at=at)


def _result(
    context: RunContext, changes: list[Change], number: int, facts: FactChanges, problem: str
) -> StepResult:
    """Count the changes to memory as the run's page does (`presenters.of_run`)."""
    # Facts that 10 others outrank are learned as well.
    learned = TopicFact.objects.filter(topic=context.topic, source=context.run.source)
    counts = {
        "number": number,
        "facts_learned": learned.filter(first_run=number).count(),
        "facts_confirmed": sum(bool(one.previous_id) for one in _confirmed(changes)),
        "facts_retired": len(facts.retired),
    }
    detail = _(
        "saved as Run #%(number)d (facts: %(facts_learned)d learned,"
        " %(facts_confirmed)d confirmed, %(facts_retired)d no longer current)"
    )
    output: SaveOutput = {**counts, "problem": problem}  # type: ignore[typeddict-item]
    return StepResult(output, detail=detail % counts, counts=counts, warning=problem)


def _finish(
    context: RunContext,
    number: int,
    result: StepResult,
    problem: str,
    at: datetime,
) -> None:
    """End the run inside the saving transaction, if its attempt is still current."""
    run = context.run
    if problem and problem not in run.warnings:
        run.warnings = [*run.warnings, problem]
    is_partial = bool(problem or context.stop_reason or context.output("write")["fell_back"])
    status = Run.Status.PARTIAL if is_partial else Run.Status.SUCCEEDED
    Step.objects.filter(pk=context.step.pk).update(
        state=Step.State.DONE,
        output=result.output,
        detail=result.detail,
        counts=result.counts,
        warning=result.warning,
        finished_at=timezone.now(),
    )
    ended = run.held().update(
        status=status,
        number=number,
        finished_at=at,
        lease_until=None,
        error="",
        warnings=run.warnings,
        manifest=_manifest(context),
        progress=F("progress") + 1,
    )
    if not ended:
        raise JobLost(str(run.pk))
    run.status, run.number, run.finished_at = status, number, at
    Activity.log(
        context.topic.owner,
        RESEARCH,
        "run-saved",
        subject=run,
        label=f"{context.topic.title}, Run #{number}",
        warning=is_partial,
        **result.counts,
    )
    sources = [one for one in context.output("verify")["sources"] if not one.get("is_earlier")]
    numbers = {cited["link"]: cited["n"] for cited in sources}
    cited = list(run.hits.filter(link__in=numbers))
    for hit in cited:
        hit.cited_as = numbers[hit.link]
    gathering.store_again(cited, ["cited_as"])


def _manifest(context: RunContext) -> dict[str, Any]:
    """Return the run's settings and models, for display and for repeating it."""
    settings, plan = context.settings, context.output("plan")
    calls = ModelCall.objects.filter(source=context.run.source).order_by("model")
    return {
        "beacon": site.BEACON_VERSION,
        "depth": context.run.depth,
        "objective": settings.objective,
        "focus": settings.focus,
        "time_frame": settings.time_frame,
        "languages": settings.languages,
        # All services asked, in order, because the order counts when hits are ranked.
        "services": context.output("search")["order"],
        "allow_domains": settings.allow_domains,
        "block_domains": settings.block_domains,
        "block_pages": settings.block_pages,
        "always_checked": plan.get("always", []),
        "left_out": context.output("filter_seen").get("left_out", {}),
        "intent": settings.intent,
        "queries": plan["queries"],
        "planned_by": plan["by"],
        "proposed": plan.get("proposed", []),
        "rerun_of": str(context.run.rerun_of) if context.run.rerun_of else "",
        "written_by": context.output("write")["written_by"],
        "models": list(calls.values_list("model", flat=True).distinct()),
        "settings": context.run.settings,
        "budget": {
            "tokens": context.budget.tokens,
            "pages": context.budget.pages,
            "minutes": context.budget.minutes,
            "money": str(context.budget.money) if context.budget.money is not None else None,
        },
    }


def _create_follow_ups(context: RunContext, kinds: list[StepKind]) -> None:
    """Create a row for each follow-up. The tick finds waiting ones."""
    Step.objects.bulk_create(
        [
            Step(run=context.run, name=kind.name, position=100 + place, is_follow_up=True)
            for place, kind in enumerate(kinds)
        ],
        ignore_conflicts=True,
    )
