"""A run's rows, for tests of pages: topics, runs, reports, hits, delta items."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from django.utils import timezone

from beacon_site.text.cleaning import match_key
from memory.models import ContentItem, ModelCall, Note, Revision, Topic, TopicFact, Trust, User
from memory.models.actors import RESEARCH
from research.models import DeltaItem, Hit, Report, Run, Step
from research.services.runs.execution import pipeline
from research.services.runs.execution.starting import create_topic
from research.services.runs.reporting import delta

BODY = """Version 18.1 closes two faults [1], and support for version 13 ends [2].

## Findings

- Version 18.1 repairs index corruption after a crash. [1]
- Version 13 has reached its end of life. [2]

## Already known

- Asynchronous I/O came with version 18.
"""


def make_topic(owner: User, title: str = "PostgreSQL releases", **more: Any) -> Topic:
    """Return a topic with settings and a schedule."""
    return create_topic(owner=owner, title=title, by=owner.actor, **more)


def make_run(topic: Topic, *, saved: bool = True, status: str = "", **fields: Any) -> Run:
    """Return a run of `topic`: saved with the next number and its report, else as `status` says."""
    now = timezone.now()
    if not saved:
        fields = {"status": status or Run.Status.RUNNING, "started_at": now, **fields}
        if fields["status"] == Run.Status.RUNNING:
            fields = {"heartbeat_at": now, "lease_until": now + timedelta(seconds=45), **fields}
        fields = {"actor": str(topic.owner.actor), **fields}
        run: Run = Run.objects.create(topic=topic, **fields)
        return run
    number = topic.run_count + 1
    run = Run.objects.create(
        topic=topic,
        actor=fields.pop("actor", str(topic.owner.actor)),
        number=number,
        status=status or Run.Status.SUCCEEDED,
        is_baseline=fields.pop("is_baseline", number == 1),
        started_at=now - timedelta(seconds=41),
        finished_at=now,
        **{"new_count": 2, "known_count": 1, "read_count": 2, **fields},
    )
    topic.run_count = number
    topic.last_run_at = now
    topic.expires_at = now + timedelta(days=30)
    topic.save(update_fields=["run_count", "last_run_at", "expires_at"])
    return run


def make_report(run: Run, **fields: Any) -> Report:
    """Return the report of a saved run, with two sources; a delta unless it is a baseline."""
    given: dict[str, Any] = {
        "title": run.topic.title,
        "body": BODY,
        "summary": "Version 18.1 closes two faults [1], and support for version 13 ends [2].",
        "sources": [make_source(1, "18.1"), make_source(2, "End of life")],
        "written_by": "extractive",
        "is_extractive": True,
    }
    if not run.is_baseline:
        given |= {
            "delta": "- **New:** Version 18.1 is out. [1]",
            "delta_heading": "What Changed Since Last Week",
            "delta_since": delta.since_line(run.started_at, run.number - 1),
        }
    report: Report = Report.objects.create(
        owner=run.topic.owner,
        run=run,
        source=run.source,
        trust=Trust.EXTERNAL,
        **(given | fields),
    )
    return report


def written(*sentences: str) -> dict[str, str]:
    """Return the summary and the text of a report that says these sentences."""
    summary, *others = [f"{said} [{n}]" for n, said in enumerate(sentences, start=1)]
    findings = "\n".join(f"- {said}" for said in (others or [summary]))
    return {"summary": summary, "body": f"{summary}\n\n## Findings\n\n{findings}\n"}


def make_source(n: int, title: str, **fields: Any) -> dict[str, Any]:
    """Return one entry of a report's numbered sources, with a quote that was found."""
    return {
        "n": n,
        "url": f"https://example.org/{n}",
        "link": f"https://example.org/{n}",
        "title": title,
        "domain": "example.org",
        "published_at": "2026-11-12",
        "state": "new",
        "quotes": [{"sentence": "A sentence.", "quote": "The quoted words.", "found": True}],
    } | fields


def make_hit(run: Run, place: int, **fields: Any) -> Hit:
    """Return one hit of a run, new and read unless `fields` says otherwise."""
    given = {
        "url": f"https://example.org/{place}",
        "link": f"https://example.org/{place}",
        "domain": "example.org",
        "title": f"Page {place}",
        "service": "serpapi",
        "queries": [{"query": "PostgreSQL 18", "service": "serpapi", "rank": place}],
        "rank": place,
        "place": place,
        "published_at": date(2026, 11, 12),
        "reading": Hit.Reading.READ,
    }
    hit: Hit = Hit.objects.create(run=run, **(given | fields))
    return hit


def make_watched(run: Run, text: str, **fields: Any) -> Hit:
    """Return a hit of a run that read only a part of a page, with the part's text."""
    url = "https://shop.example/plans"
    item = ContentItem.objects.create(
        owner=run.topic.owner, topic=run.topic, type=ContentItem.Type.WEB_CONTENT, title="Plans",
        url=url, content=text, size=len(text), source=run.source, trust=Trust.EXTERNAL,
    )  # fmt: skip
    given = {"url": url, "link": url, "domain": "shop.example", "title": "Plans"}
    return make_hit(run, 90, **(given | {"part": "css: .prices", "content_item": item} | fields))


def make_hits(run: Run, count: int, **fields: Any) -> list[Hit]:
    """Return `count` hits: of five, two are read, one failed, one known, one a near-duplicate."""
    kinds: list[dict[str, Any]] = [
        {},
        {},
        {"reading": Hit.Reading.FAILED, "reason": "the server answered 404"},
        {"state": Hit.State.KNOWN, "reading": Hit.Reading.NOT_READ},
        {"reading": Hit.Reading.NEAR_DUPLICATE, "reason": "has the same text as example.org"},
    ]
    return [
        make_hit(run, place, **kinds[(place - 1) % 5], **fields) for place in range(1, count + 1)
    ]


def make_search(run: Run, query: str, count: int, *, processed: int) -> None:
    """Create `count` hits of one query for a run with steps, and make its steps say the same.

    The first `processed` new ones were read or couldn't be.
    """
    queries = [{"query": query, "service": "serpapi", "rank": 1}]
    make_hits(run, count, queries=queries)
    new = run.hits.filter(state=Hit.State.NEW)
    later = list(new.order_by("place").values_list("pk", flat=True)[processed:])
    run.hits.filter(pk__in=later).update(reading=Hit.Reading.NOT_READ, reason="")
    read = new.filter(reading=Hit.Reading.READ).count()
    steps = {
        "plan": ("1 query, written without a model", {"queries": [query]}),
        "search": (
            f"{count} results from SerpAPI",
            {"asked": [{"query": query, "service": "serpapi", "hits": count, "problem": ""}]},
        ),
        "filter_seen": (f"{new.count()} new, {count - new.count()} known", {}),
        "read": (f"{read} pages read", {}),
    }
    done = {step.name: step for step in run.steps.filter(state=Step.State.DONE)}
    for name, (detail, output) in steps.items():
        if name in done:
            Step.objects.filter(pk=done[name].pk).update(detail=detail, output=output)
    run.new_count, run.known_count = new.count(), count - new.count()
    run.save(update_fields=["new_count", "known_count"])


def make_fact(topic: Topic, text: str, run: Run | None = None, **fields: Any) -> TopicFact:
    """Return a current fact, found by `run` (with its revision) where one is given."""
    number = run.number if run else None
    source = run.source if run else "explicit"
    given = {"text": text, "key": match_key(text), "first_run": number, "source": source}
    fact: TopicFact = TopicFact.objects.create(
        owner=topic.owner, topic=topic, confirmed_run=number, **(given | fields)
    )
    Revision.record_first([fact], by=RESEARCH, source=source)
    return fact


def make_item(run: Run, status: str, sentence: str, **fields: Any) -> DeltaItem:
    """Return a delta item behind those that the run has."""
    position = run.delta_items.count() + 1
    item: DeltaItem = DeltaItem.objects.create(
        run=run, position=position, status=status, sentence=sentence, **fields
    )
    return item


# What each step says when it is done, as in a real run without a model.
DONE = {
    "load_memory": "3 facts, 1 seen URL, last run on 14 Nov 2026",
    "plan": "2 queries, written without a model",
    "search": "5 results from SerpAPI",
    "filter_seen": "4 new, 1 known",
    "tracks": "3 tracks, 3 pages opened",
    "read": "2 pages read",
    "write": "2 findings, 3 changes (Beacon)",
    "verify": "2 of 2 quotes found in their sources",
    "save": "facts: 3, URLs: 5",
}


def make_steps(run: Run, *, done: int = 8, **live: Any) -> list[Step]:
    """Return the run's steps: the first `done` of them done, the next one as `live` says."""
    now = timezone.now()
    rows = []
    for position, kind in enumerate(pipeline.STEPS):
        fields: dict[str, Any] = {"state": Step.State.WAITING}
        if position < done:
            fields = {
                "state": Step.State.DONE,
                "detail": DONE[kind.name],
                "started_at": now - timedelta(seconds=2),
                "finished_at": now,
                "counts": {"facts": 3, "seen": 1} if kind.name == "load_memory" else {},
            }
        elif position == done and live:
            fields = {"started_at": now, **live}
        rows.append(Step(run=run, name=kind.name, position=position, **fields))
    return list(Step.objects.bulk_create(rows))


def make_call(run: Run, **fields: Any) -> ModelCall:
    """Return one model call of a run."""
    given = {
        "purpose": "plan",
        "model": "a-model",
        "prompt_tokens": 1200,
        "completion_tokens": 80,
        "milliseconds": 812,
        "prompt": [{"role": "user", "content": "What should be asked?"}],
        "answer": '{"queries": ["PostgreSQL 18"]}',
    }
    return ModelCall.objects.create(owner=run.topic.owner, source=run.source, **(given | fields))


def make_second_run(topic: Topic) -> Run:
    """Return Run #2 of a topic with its baseline: a delta of all kinds, hits, steps, facts."""
    first = make_run(topic)
    make_report(first)
    old = make_fact(topic, "Version 13 receives fixes until November 2025.", first)
    kept = make_fact(topic, "Asynchronous I/O is off by default everywhere.", first)
    said = make_fact(topic, "Asynchronous I/O came with version 18.", first)
    run = make_run(topic, new_count=4)
    make_report(run)
    make_fact(topic, "Version 18.1 repairs index corruption after a crash.", run)
    old.retire(by=RESEARCH, why="not among the facts in Run #2", run=run.number, source=run.source)
    make_item(
        run,
        DeltaItem.Status.CONTRADICTED,
        "Asynchronous I/O is on by default.",
        previous_fact=kept,
        previous_text=kept.text,
        citations=[2],
    )
    make_item(
        run,
        DeltaItem.Status.CHANGED,
        "Version 13 receives fixes until November 2026.",
        previous_fact=old,
        previous_text=old.text,
        citations=[2],
    )
    make_item(
        run,
        DeltaItem.Status.NEW,
        "Version 18.1 repairs index corruption after a crash.",
        citations=[1],
        quote="may require a reindex of indexes built concurrently",
    )
    make_item(
        run,
        DeltaItem.Status.CONFIRMED,
        said.text,
        previous_fact=said,
        previous_text=said.text,
        citations=[1],
    )
    make_item(run, DeltaItem.Status.GONE_QUIET, "The next release is due in May.")
    make_item(
        run, DeltaItem.Status.NEW, "It is the fastest.", hidden_reason="unsupported: no quote"
    )
    make_hits(run, 5)
    make_steps(run)
    return run


def active_notes(owner: User, kind: str = "") -> list[Note]:
    """The owner's active notes, newest first."""
    notes = Note.objects.for_user(owner).active().order_by("-created", "-id")
    return list(notes.filter(kind=kind) if kind else notes)
