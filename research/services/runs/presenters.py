"""Descriptions of runs, steps and hits for pages and exports."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict

from django.db.models import UUIDField, Value
from django.db.models.functions import Cast
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.text.cleaning import shorten
from memory.models import Observation, Revision, Topic, TopicFact, User, origins
from memory.services.llm import spending
from memory.services.records.kinds import kind_of
from research.models import DeltaItem, Hit, Run, Step, reports
from research.services.runs.execution import pipeline
from research.services.runs.search import known_pages, searching
from research.services.runs.steps import judging, planning, tracks


def register() -> None:
    """Register the names and pages of runs with memory."""
    origins.FINDERS["run"] = _runs


def _runs(owner: User, keys: list[str]) -> dict[str, tuple[str, str]]:
    ids = [int(key) for key in keys if key.isdecimal() and len(key) < 19]
    runs = Run.objects.for_user(owner).filter(pk__in=ids).select_related("topic")
    # A run's manifest and settings are large, and every list of records names runs.
    runs = runs.only("number", "status", "topic__title", "topic__slug", "topic__trashed_at")
    return {str(run.pk): _label_and_url(run) for run in runs}


def _label_and_url(run: Run) -> tuple[str, str]:
    words = _("%(run)s of “%(topic)s”") % {"run": run, "topic": shorten(run.topic.title, 60)}
    if run.topic.trashed_at is not None:
        return words, ""
    return words, reverse("research:run", args=[run.topic.slug, run.pk])


# --- values ---


def duration(milliseconds: int | None) -> str:
    """Return a duration as text: `0.02 s`, `41 s`, `2 min 5 s`. Empty for None."""
    if milliseconds is None:
        return ""
    seconds = milliseconds / 1000
    if seconds < 1:
        return _("%(s).2f s") % {"s": seconds}
    if seconds < 10:
        return _("%(s).1f s") % {"s": seconds}
    if seconds < 60:
        return _("%(s)d s") % {"s": seconds}
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return _("%(min)d min %(s)d s") % {"min": minutes, "s": rest}
    return _("%(h)d h %(min)d min") % {"h": minutes // 60, "min": minutes % 60}


def cost(run: Run) -> str:
    """Return the cost of a run's model calls, as far as prices are known."""
    return spending.format_money(run.money, run.unpriced_calls)


# --- steps ---

AT_ONCE = 50  # milliseconds; a shorter step doesn't say how long it took


class FutureStep(TypedDict):
    """A step of a queued run: `look` is its class, `word` its state."""

    name: str
    label: str
    look: str
    word: str


class StepRow(FutureStep, total=False):
    """One line of the timeline."""

    is_live: bool
    detail: str
    warning: str
    took: str
    tokens: str
    money: str
    done: int
    all: int
    part: int
    calls: Sequence[Any]


def labels(run: Run) -> dict[str, str]:
    """Return the label of each step and follow-up of the run, by name."""
    steps = pipeline.RECHECK if run.rechecks else pipeline.STEPS
    kinds = [*steps, pipeline.TRACKS, pipeline.JUDGE, *pipeline.FOLLOW_UPS]
    return {kind.name: str(kind.label) for kind in kinds}


def step_rows(
    run: Run, steps: Iterable[Step], calls: Mapping[int, Sequence[Any]] | None = None
) -> list[StepRow]:
    """Return the run's timeline. `calls` are the tool calls by track number."""
    names = labels(run)
    rows = [_step_row(run, step, names, (calls or {}).get(step.part, ())) for step in steps]
    if rows:
        return rows
    kinds = pipeline.steps_of_run(run, judges=judging.judges_run(run))
    return [
        {"name": k.name, "label": str(k.label), "look": "wait", "word": _("waiting")} for k in kinds
    ]


def _step_row(run: Run, step: Step, names: dict[str, str], calls: Sequence[Any]) -> StepRow:
    look, word = _step_class_and_state(run, step)
    label = names.get(step.name, step.name.replace("_", " ").capitalize())
    if step.part:
        label = tracks.label_of(step.part)
    tokens = step.prompt_tokens + step.completion_tokens
    counts = step.counts
    is_live = look == "live"
    is_short = look in ("wait", "skipped") or (step.milliseconds or 0) < AT_ONCE
    return {
        "name": step.name,
        "label": label,
        "look": look,
        "is_live": is_live,
        "word": word,
        "detail": step.detail,
        "warning": begun(step.warning),
        "took": "" if is_short else duration(step.milliseconds),
        "tokens": spending.format_tokens(tokens) if tokens else "",
        "money": _step_price(step),
        "done": counts.get("read", 0) if is_live else 0,
        "all": counts.get("pages", 0) if is_live else 0,
        "part": step.part,
        "calls": calls if step.part else (),
    }


def _step_price(step: Step) -> str:
    if step.unpriced_calls and not step.money:
        return _("price unknown")
    return spending.format_money(step.money, step.unpriced_calls) if step.money else ""


def _step_class_and_state(run: Run, step: Step) -> tuple[str, str]:
    """Return a step's class and state. If its run has ended, a running step counts as stopped."""
    if step.state == Step.State.RUNNING and not step.is_follow_up:
        if run.status == Run.Status.QUEUED:
            return "wait", _("interrupted, will continue when a worker picks up the run")
        if not run.is_unfinished:
            return "skipped", _("stopped here")
    if step.state == Step.State.WAITING and not step.is_follow_up and not run.is_unfinished:
        return "skipped", _("not reached")
    return {
        Step.State.WAITING: ("wait", _("waiting")),
        Step.State.RUNNING: ("live", _("running")),
        Step.State.SKIPPED: ("skipped", _("skipped")),
        Step.State.FAILED: ("failed", _("failed")),
        Step.State.DONE: ("warned", _("done, with a warning"))
        if step.warning
        else ("done", _("done")),
    }[Step.State(step.state)]


# --- hits ---


def hit_row(hit: Hit, *, is_told: bool = True, is_over: bool = True) -> dict[str, Any]:
    """Return the row of a hit. `is_told` means that new and known hits have been told apart."""
    return {
        "hit": hit,
        "link": reports.link_of(hit.link),
        "became": _became(hit, is_over=is_over) if is_told else "",
    }


def _became(hit: Hit, *, is_over: bool) -> str:
    if hit.state == Hit.State.BLOCKED:
        return _("skipped: %(why)s") % {"why": hit.reason or _("blocked")}
    if hit.state == Hit.State.KNOWN:
        if hit.reading == Hit.Reading.FAILED:
            why = {"why": hit.reason or _("no reason was given")}
            return _("known, but couldn’t be read again: %(why)s") % why
        is_read = hit.reading == Hit.Reading.READ
        return _("known, read again") if is_read else _("known, but not read again")
    if hit.reading == Hit.Reading.READ:
        return _("read, %(why)s") % {"why": hit.reason} if _warns(hit) else _("read")
    if hit.reading == Hit.Reading.NEAR_DUPLICATE:
        return hit.reason or _("near-duplicate")
    if hit.reading == Hit.Reading.QUARANTINED:
        return _("quarantined: %(why)s") % {"why": hit.reason} if hit.reason else _("quarantined")
    if hit.reading == Hit.Reading.FAILED:
        return _("couldn’t be read: %(why)s") % {"why": hit.reason or _("no reason was given")}
    if not is_over:
        return _("waiting to be read")
    if hit.cited_as:
        return _("not read, but its snippet was used")
    return _("not read")


def _warns(hit: Hit) -> bool:
    return bool(hit.reason) and hit.state == Hit.State.NEW


# --- hits by state ---

MAX_HITS = 100  # of each state, before "show all"

GROUPS = {
    Hit.State.NEW: gettext_lazy("New"),
    Hit.State.RETURNING: gettext_lazy("Seen again"),
    Hit.State.KNOWN: gettext_lazy("Known"),
    Hit.State.BLOCKED: gettext_lazy("Blocked"),
}


def hit_groups(
    hits: Sequence[Hit], *, in_full: bool = False, is_over: bool = True
) -> list[dict[str, Any]]:
    """Return the hits by state, with a one-line summary, at most `MAX_HITS` of each.

    `is_long` means that there are more than the page shows at first.
    """
    groups = []
    for state, label in GROUPS.items():
        found = [hit for hit in hits if hit.state == state]
        if found:
            shown = found if in_full else found[:MAX_HITS]
            groups.append(
                {
                    "state": state,
                    "label": label,
                    "rows": [hit_row(hit, is_over=is_over) for hit in shown],
                    "line": _group_summary(state, found, is_over=is_over),
                    "count": len(found),
                    "is_long": len(found) > MAX_HITS,
                    "left_out": len(found) - len(shown),
                }
            )
    return groups


def found_counts(hits: Iterable[Hit]) -> dict[str, int]:
    """Return how many pages searches returned: all, new and known."""
    states = Counter(hit.state for hit in hits if _was_found(hit))
    return {
        "all": states.total(),
        "new": states[Hit.State.NEW],
        "known": states[Hit.State.KNOWN] + states[Hit.State.RETURNING],
        "blocked": states[Hit.State.BLOCKED],
    }


def _was_found(hit: Hit) -> bool:
    """Return True if a search returned it. Known pages are also read again without a search."""
    return hit.service != known_pages.SERVICE


def _group_summary(state: str, hits: Sequence[Hit], *, is_over: bool) -> str:
    """Return the summary of a group's hits: `9 read · 1 could not be read`."""
    counts = Counter(hit.reading for hit in hits)
    same = counts[Hit.Reading.NEAR_DUPLICATE]
    failed = (counts[Hit.Reading.FAILED], _("couldn’t be read"))
    if state == Hit.State.KNOWN:
        found = sum(map(_was_found, hits))
        words: tuple[tuple[int, str], ...] = (
            (found, _("found by search")),
            (len(hits) - found, _("not found this time")),
            (counts[Hit.Reading.READ], _("read again")),
            failed,
        )
    elif state == Hit.State.BLOCKED:
        return ""
    else:
        words = (
            (counts[Hit.Reading.READ], _("read")),
            (same, ngettext("near-duplicate", "near-duplicates", same)),
            failed,
            (counts[Hit.Reading.QUARANTINED], _("quarantined")),
            (counts[Hit.Reading.NOT_READ], _("not read") if is_over else _("waiting to be read")),
        )
    return " · ".join(f"{count} {word}" for count, word in words if count)


# --- the run ---


def started_by(run: Run) -> str:
    words = _trigger(run)
    if run.missed_slots:
        caught_up = ngettext(
            "%(trigger)s, catching up on %(count)d missed run",
            "%(trigger)s, catching up on %(count)d missed runs",
            run.missed_slots,
        )
        words = caught_up % {"trigger": words, "count": run.missed_slots}
    if run.rerun_of is not None:
        words = _("%(trigger)s, repeating %(run)s") % {"trigger": words, "run": run.rerun_of}
    return words


def _trigger(run: Run) -> str:
    who = run.actor.removeprefix("human:")
    if run.trigger == Run.Trigger.PERSON and who:
        return _("manually by %(who)s") % {"who": who}
    return str(Run.Trigger(run.trigger).label)


def took(run: Run) -> str:
    """Return how long the run has taken, without the time it waited for a person."""
    if run.started_at is None:
        return ""
    end = run.finished_at or run.waiting_since or timezone.now()
    seconds = (end - run.started_at).total_seconds() - run.waited_seconds
    return duration(round(max(seconds, 0) * 1000))


def written_by(report: Any) -> str:
    """Return the name of the model that wrote the report, or that none did."""
    if report.is_extractive:
        return _("extractive, written without a model")
    return _("written by %(model)s") % {"model": report.written_by}


# --- memory ---


def memory_words(topic: Topic) -> str:
    """Return until when the topic's working memory is kept, as text."""
    if topic.expires_at is None:
        return _("no memory yet")
    if topic.memory_has_lapsed:
        return _("expired on %(date)s") % {"date": _day(topic.expires_at)}
    left = (topic.expires_at - timezone.now()).total_seconds()
    if left < 24 * 3600:
        return _("expires within a day")
    days = math.ceil(left / 86400)
    return ngettext("expires in %(days)d day", "expires in %(days)d days", days) % {"days": days}


def _day(at: datetime) -> str:
    return date_format(timezone.localtime(at), "j F Y")


def begun(words: str) -> str:
    """Return a warning with a capital first letter. A name such as “arXiv” is left alone."""
    first = words.split(" ", 1)[0]
    return words[:1].upper() + words[1:] if first == first.lower() else words


# --- The settings that a run used and its changes to memory, as rows for its page ---


_MANIFEST = {
    "beacon": gettext_lazy("Beacon"),
    "depth": gettext_lazy("Depth"),
    "objective": gettext_lazy("Objective"),
    "focus": gettext_lazy("Focus"),
    "time_frame": gettext_lazy("Time frame"),
    "languages": gettext_lazy("Languages"),
    "services": gettext_lazy("Services"),
    "allow_domains": gettext_lazy("Allowed domains"),
    "block_domains": gettext_lazy("Blocked domains"),
    "block_pages": gettext_lazy("Blocked pages"),
    "always_checked": gettext_lazy("Always included"),
    "left_out": gettext_lazy("Results excluded by your rules"),
    "intent": gettext_lazy("Notify me only about"),
    "queries": gettext_lazy("Queries"),
    "planned_by": gettext_lazy("Plan"),
    "proposed": gettext_lazy("Plan before your edits"),
    "rerun_of": gettext_lazy("Repeats"),
    "written_by": gettext_lazy("Written by"),
    "models": gettext_lazy("Models used"),
    "settings": gettext_lazy("All settings"),
    "budget": gettext_lazy("Budget"),
}

_DESCRIPTIONS = {"services": searching.label_of, "planned_by": planning.by_words}


def manifest_rows(run: Run) -> list[tuple[str, list[str]]]:
    """Return the run's settings as labels and values, without those that aren't set."""
    rows = []
    for name, value in run.manifest.items():
        describe = _DESCRIPTIONS.get(name, str)
        values = [describe(one) for one in _values(value)]
        if values:
            rows.append((str(_MANIFEST.get(name, name.replace("_", " ").capitalize())), values))
    return rows


def _values(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {one}" for name, one in value.items() if one not in (None, "", [])]
    if isinstance(value, list):
        return [str(one) for one in value]
    return [str(value)] if value not in (None, "") else []


# --- changes to memory, from revisions and delta items (R248) ---

FACT, OBSERVATION = "topicfact", "observation"


_KINDS_OF_CHANGE = {
    "new": gettext_lazy("Facts learned"),
    "confirmed": gettext_lazy("Facts confirmed"),
    "contradicted": gettext_lazy("Facts contradicted by sources"),
    "retired": gettext_lazy("Facts no longer current"),
}


def of_run(run: Run, items: Sequence[DeltaItem]) -> dict[str, Any]:
    """Return what `run` changed in memory, in two queries.

    `groups` has (kind, heading, changes) for each kind of change to facts.
    """
    written = Revision.objects.for_user(run.topic.owner).filter(source=run.source)
    revisions = list(written.order_by("id"))
    ours = [revision for revision in revisions if revision.record_type == FACT]
    seen = [r for r in revisions if r.record_type == OBSERVATION and r.version == 1]
    facts, observations = _as_of_now(
        [*(r.record_id for r in ours), *(item.previous_fact_id for item in items)],
        [r.record_id for r in seen],
    )
    told = (FACT, OBSERVATION, "report")
    changes: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _KINDS_OF_CHANGE}
    learned: set[Any] = set()
    for revision in ours:
        if revision.version == 1:
            text = revision.after.get("text", revision.label)
            changes["new"].append(_change("new", text, revision.record_id, facts))
            learned.add(revision.record_id)
        # A fact that 10 others outranked at once was never current.
        elif (
            revision.after.get("state") == TopicFact.State.RETIRED
            and revision.record_id not in learned
        ):
            fact = facts.get(str(revision.record_id))
            text = fact.text if fact else revision.label
            changes["retired"].append(_change("retired", text, revision.record_id, facts))
    for item in items:
        if item.previous_fact_id is None or (item.hidden_reason and not item.is_unasked):
            continue
        if item.status in (DeltaItem.Status.CONFIRMED, DeltaItem.Status.CONTRADICTED):
            changes[item.status].append(
                _change(item.status, item.previous_text, item.previous_fact_id, facts)
            )
    return {
        "groups": [
            (kind, _KINDS_OF_CHANGE[kind], found) for kind, found in changes.items() if found
        ],
        "observations": [_one_observed(r, observations.get(str(r.record_id))) for r in seen],
        "others": [_other(revision) for revision in revisions if revision.record_type not in told],
    }


def _other(revision: Revision) -> dict[str, Any]:
    """Return a note, memory file or other record that the run wrote, in the version it created."""
    url = reverse("memory:record-open", args=[revision.record_type, revision.record_id])
    noun = str(kind_of(revision.record_type).noun)
    return {"label": revision.label, "noun": noun, "url": url, "version": revision.version}


def _one_observed(revision: Revision, observation: Observation | None) -> dict[str, Any]:
    """Return an observation as the run created it, and what happened to it since.

    `url` is empty if it no longer has a page.
    """
    text = revision.after.get("content", revision.label)
    if observation is None:
        return {"text": text, "note": _("since deleted")}
    note = ""
    if observation.trashed_at is not None:
        note = _("now in Trash")
    elif observation.content != text:
        note = _("since reworded")
    elif observation.near_duplicate_of_id is not None:
        note = _("almost identical to an older record")
    return {
        "text": text,
        "category": observation.get_category_display(),
        "url": observation.get_absolute_url(),
        "note": note,
    }


def _as_of_now(
    fact_ids: Iterable[Any], observation_ids: Iterable[Any]
) -> tuple[dict[str, TopicFact], dict[str, Observation]]:
    """Return the current facts and observations by id, in one query."""
    wanted, seen = {key for key in fact_ids if key}, set(observation_ids)
    if not wanted and not seen:
        return {}, {}
    nothing = Cast(Value(None), UUIDField())
    facts = TopicFact.objects.filter(pk__in=wanted).order_by()
    rows = facts.values_list(
        Value(FACT), "pk", "text", "state", "retired_as", "trashed_at", nothing
    )
    others = (
        Observation.objects.filter(pk__in=seen)
        .order_by()
        .values_list(
            Value(OBSERVATION),
            "pk",
            "content",
            "category",
            Value(""),
            "trashed_at",
            "near_duplicate_of",
        )
    )
    found: dict[str, TopicFact] = {}
    observed: dict[str, Observation] = {}
    for kind, key, text, word, how, trashed_at, twin in rows.union(others, all=True):
        if kind == FACT:
            found[str(key)] = TopicFact(
                pk=key, text=text, state=word, retired_as=how, trashed_at=trashed_at
            )
        else:
            observed[str(key)] = Observation(
                pk=key,
                content=text,
                category=word,
                trashed_at=trashed_at,
                near_duplicate_of_id=twin,
            )
    return found, observed


def _change(kind: str, text: str, key: Any, facts: dict[str, TopicFact]) -> dict[str, Any]:
    """Return a fact with what happened to it since. It has a `fact_id` while it has a page."""
    fact = facts.get(str(key))
    note = ""
    if fact is None:
        return {"text": text, "note": _("since deleted")}
    if fact.trashed_at is not None:
        return {"text": text, "note": _("now in Trash")}
    if fact.state == TopicFact.State.STRUCK:
        note = _("since marked as wrong")
    elif fact.state == TopicFact.State.RETIRED and kind == "retired":
        note = fact.state_words
    elif fact.state == TopicFact.State.RETIRED:
        notes: dict[str, str] = {
            TopicFact.RetiredAs.OUTRANKED: _("not in the top 10"),
            TopicFact.RetiredAs.GONE: _("no longer found"),
        }
        note = notes.get(fact.retired_as, _("since replaced"))
    elif fact.state == TopicFact.State.CURRENT and kind == "retired":
        note = _("since restored")
    elif fact.text != text:
        note = _("since reworded")
    is_current = fact.state == TopicFact.State.CURRENT
    return {"text": text, "fact_id": fact.pk, "note": note, "is_current": is_current}
