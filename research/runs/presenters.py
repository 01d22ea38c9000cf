"""Descriptions of runs, steps and hits for pages and exports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.text.cleaning import plain, shorten, without_citations
from memory.models import Topic, User, origins
from memory.usage import spending
from research.execution import pipeline
from research.models import Hit, Run, Step, links
from research.steps import judging, tracks


def register() -> None:
    """Register the names and pages of runs with memory."""
    origins.FINDERS["run"] = _runs


def _runs(owner: User, keys: list[str]) -> dict[str, tuple[str, str]]:
    ids = [int(key) for key in keys if key.isdecimal() and len(key) < 19]
    runs = Run.objects.of(owner).filter(pk__in=ids).select_related("topic")
    # A run's manifest and settings are large, and every list of records names runs.
    runs = runs.only("number", "status", "topic__title", "topic__slug", "topic__trashed_at")
    return {str(run.pk): _told(run) for run in runs}


def _told(run: Run) -> tuple[str, str]:
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


def price(money: Decimal | None, unpriced: int = 0) -> str:
    """Return an amount in dollars. `unpriced` calls have an unknown price."""
    return spending.in_words(money, unpriced)


def cost(run: Run) -> str:
    """Return the cost of a run's model calls, as far as prices are known."""
    return price(run.money, run.unpriced_calls)


# --- steps ---


@dataclass(frozen=True, slots=True)
class StepRow:
    """One line of the timeline. `look` is its class, `word` its state."""

    name: str
    label: str
    look: str
    word: str
    detail: str = ""
    warning: str = ""
    took: str = ""
    tokens: str = ""
    money: str = ""
    done: int = 0
    all: int = 0
    part: int = 0
    calls: Sequence[Any] = ()

    @property
    def is_live(self) -> bool:
        """Whether the step is in progress."""
        return self.look == "live"


def labels(run: Run) -> dict[str, str]:
    """Return the label of each step and follow-up of the run, by name."""
    steps = pipeline.RECHECK if run.rechecks else pipeline.STEPS
    kinds = [*steps, pipeline.TRACKS, pipeline.JUDGE, *pipeline.FOLLOW_UPS]
    return {kind.name: str(kind.label) for kind in kinds}


def step_rows(
    run: Run, steps: Iterable[Step], calls: Mapping[int, Sequence[Any]] | None = None
) -> list[StepRow]:
    """Return the run's timeline. A queued run shows its future steps.

    `calls` are the tool calls by track number.
    """
    names = labels(run)
    rows = [_step_row(run, step, names, (calls or {}).get(step.part, ())) for step in steps]
    if rows:
        return rows
    kinds = pipeline.steps_of_run(run, judges=judging.judges_run(run))
    return [StepRow(k.name, str(k.label), "wait", _("waiting")) for k in kinds]


def _step_row(run: Run, step: Step, names: dict[str, str], calls: Sequence[Any]) -> StepRow:
    look, word = _look(run, step)
    label = names.get(step.name, step.name.replace("_", " ").capitalize())
    if step.part:
        label = tracks.label_of(step.part)
    tokens = step.prompt_tokens + step.completion_tokens
    counts = step.counts
    return StepRow(
        name=step.name,
        label=label,
        look=look,
        word=word,
        detail=step.detail,
        warning=begun(step.warning),
        took="" if look in ("wait", "skipped") else duration(step.milliseconds),
        tokens=_tokens(tokens) if tokens else "",
        money=_step_price(step),
        done=counts.get("read", 0) if look == "live" else 0,
        all=counts.get("pages", 0) if look == "live" else 0,
        part=step.part,
        calls=calls if step.part else (),
    )


def _step_price(step: Step) -> str:
    if step.unpriced_calls and not step.money:
        return _("price unknown")
    return price(step.money, step.unpriced_calls) if step.money else ""


def _tokens(count: int) -> str:
    return ngettext("%(n)s token", "%(n)s tokens", count) % {"n": f"{count:,}"}


def _look(run: Run, step: Step) -> tuple[str, str]:
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


@dataclass(frozen=True, slots=True)
class HitRow:
    """One search result with its link and what happened to it."""

    hit: Hit
    link: links.Link
    became: str
    is_told: bool = True

    @property
    def looks(self) -> str:
        """Return the class of its tag."""
        return {
            Hit.Reading.READ: "confirmed",
            Hit.Reading.FAILED: "warn",
            Hit.Reading.NEAR_DUPLICATE: "info",
        }.get(Hit.Reading(self.hit.reading), "known")


def hit_row(hit: Hit, *, is_told: bool = True, is_over: bool = True) -> HitRow:
    """Return the row of a hit. `is_told` means that new and known hits have been told apart."""
    return HitRow(
        hit, links.link_of(hit.link), _became(hit, is_over=is_over) if is_told else "", is_told
    )


def _became(hit: Hit, *, is_over: bool) -> str:
    if hit.state == Hit.State.BLOCKED:
        return _("skipped: %(why)s") % {"why": hit.reason or _("blocked")}
    if hit.state == Hit.State.KNOWN:
        if hit.reading == Hit.Reading.FAILED:
            why = {"why": hit.reason or _("no reason was given")}
            return _("known, couldn’t be read again: %(why)s") % why
        is_read = hit.reading == Hit.Reading.READ
        return _("known, read again") if is_read else _("known, not read again")
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
        return _("not read: its snippet was used")
    return _("not read")


def _warns(hit: Hit) -> bool:
    return bool(hit.reason) and hit.state == Hit.State.NEW


# --- the run ---


def started_by(run: Run) -> str:
    """Return who or what started the run."""
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


def bare(summary: str) -> str:
    """Return the beginning of a report as plain text, without citations."""
    return without_citations(plain(summary))
