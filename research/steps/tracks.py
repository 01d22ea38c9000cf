"""The tracks of a deep run: which tracks a run has, and the loop that runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.llm.base import Answer, Message, Usage
from beacon_site.text.cleaning import clean, for_prompt
from memory.core.actors import Actor
from memory.llm import connections
from memory.models import Agent, Sensitivity
from memory.tools.loop import ANSWERED, LONGEST_KEPT, CallRecord, LoopResult, run_loop
from memory.tools.output_store import asker, store_for
from memory.tools.types import MemoryTool, ToolContext
from memory.usage.booking import BudgetReached
from research.budgets.budget import RunMeter, depth_of
from research.models import Hit, Step, ToolCall
from research.run_context import inputs, memory_for_prompt
from research.run_context.context import RunContext, StepResult, TaskOver
from research.steps import track_tools
from research.steps.track_tools import Desk

AT_HOME = frozenset({"library", "sample"})  # they have documents, but hardly any news or opinions


@dataclass(frozen=True, slots=True)
class Track:
    """One track. `part` is the number of its row and never changes. `task` is in its prompt."""

    part: int
    name: str
    label: str | Promise
    task: str


OVERVIEW = Track(
    1,
    "overview",
    gettext_lazy("Overview"),
    "Find out what the subject is, its current state, who and what matters in it, and the numbers that describe it. Prefer primary and reference sources.",
)
NEWS = Track(
    2,
    "news",
    gettext_lazy("News"),
    "Find out what has happened recently: releases, decisions, events and numbers, each with its date. Prefer first-hand sources.",
)
VOICES = Track(
    3,
    "voices",
    gettext_lazy("Voices"),
    "Find out what makers, users, experts and critics say about it, where they disagree, and why. "
    "Name who says what.",
)
TRACKS = (OVERVIEW, NEWS, VOICES)


def label_of(part: int) -> str:
    """Return the label of the track with that number."""
    return next((str(track.label) for track in TRACKS if track.part == part), str(part))


def chosen(work: RunContext) -> list[Track]:
    """Return the tracks of this run.

    An overview if nothing is known yet, or if the topic has an objective or focus. News and voices
    unless only local documents are searched.
    """
    settings = work.settings
    services = set(connections.search_services(settings.services))
    if services and services <= AT_HOME:
        return [OVERVIEW]
    is_fresh = inputs.known(work) is None
    wants_more = bool(settings.objective.strip() or settings.focus.strip())
    return [*([OVERVIEW] if is_fresh or wants_more else []), NEWS, VOICES]


# --- limits of a track ---

ROUNDS = 8  # of tool calls in one track; after that, the model is asked for its notes
ANSWER_TOKENS = 1_500  # per answer of the model
# A track starts no new round after this many seconds. If the task (12 minutes) has less time left,
# the track waits for the next task. Otherwise it could be interrupted and start over forever.
MOST_SECONDS, LEAST_SECONDS = 360.0, 180.0
FOR_LAST_ROUND = 60.0  # in addition to the model's time limit, for the pages that it opens


class ShareUsed(BudgetReached):
    """A track has used up its share of the run's tokens. The others and the report keep theirs."""


class TrackMeter:
    """Counts a track's tokens on the run, and stops the track at its share."""

    def __init__(self, meter: RunMeter, share: int) -> None:
        self._meter = meter
        self._share = share
        self._most = meter.run.tokens + share

    def check(self) -> None:
        """Raise BudgetReached if the run's budget is used up, or ShareUsed if the track's share is."""
        self._meter.check()
        if self._meter.run.tokens >= self._most:
            words = _("it reached its share of the run’s token limit (%(share)s)")
            raise ShareUsed(words % {"share": f"{self._share:,}"})

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Add a call's tokens and cost to the run and to the track's row."""
        self._meter.count(usage, money)


def share_of(work: RunContext, tracks_left: int) -> int:
    """Return the token share of the next track if this many are left.

    The report's share is reserved.
    """
    most = work.budget.tokens
    for_report = min(depth_of(work.settings).tokens, most // 2)
    return max(0, most - for_report - work.run.tokens) // max(1, tracks_left)


def seconds_for(work: RunContext, timeout: float) -> float:
    """Return how many seconds a track can start rounds. `timeout` is that of one model call.

    Raises TaskOver if this task has too little time left.
    """
    seconds = work.seconds_left - timeout - FOR_LAST_ROUND
    if seconds < LEAST_SECONDS:
        raise TaskOver
    return min(seconds, MOST_SECONDS)


# --- one track ---

TOOLS = (
    "recall",
    "memory_read",
    "store_in_memory",
    "retrieve_from_memory",
    "query_memory",
)
MOST_TOLD = 15  # hits of the first searches in a track's prompt
MOST_NOTES = 12  # findings that the model is asked for


class Stopping(Exception):
    """The run was asked to stop, so the track ends."""


class NoTools(Exception):
    """The model's endpoint doesn't support tools, so tracks are impossible."""


class TrackLoop:
    """One running track."""

    def __init__(self, work: RunContext, track: Track, context: ToolContext, at: Desk) -> None:
        self._work, self._track, self._context, self._desk = work, track, context, at
        self._calls = ToolCall.objects.filter(run=work.run, part=track.part).count()
        self._made: list[CallRecord] = []
        self._opened: list[int] = []

    def go(self, *, tracks_left: int, timeout: float) -> StepResult:
        """Run the track.

        Raises ProviderError if the first model call fails, NoTools, and Interrupted if this task
        has too little time left.
        """
        seconds = seconds_for(self._work, timeout)
        try:
            looped = self._loop(share_of(self._work, tracks_left), seconds)
        except Stopping:
            return self._left("", _("stopped early"))
        except BudgetReached as exc:
            return self._over_budget("", exc)
        if looped is None or (looped.without_tools and not looped.calls):
            raise NoTools
        if isinstance(looped.failure, BudgetReached):
            return self._over_budget(looped.text, looped.failure)
        warning = looped.notice if looped.why_ended != ANSWERED else ""
        if warning:
            self._warn(warning)
        return self._left(looped.text, warning)

    def _loop(self, share: int, seconds: float) -> LoopResult | None:
        work, meter = self._work, TrackMeter(self._work.meter, share)
        tools: list[str | MemoryTool] = [*self._desk.tools, *TOOLS]
        return run_loop(
            "track",
            self._messages(),
            context=self._context,
            tools=tools,
            rounds=ROUNDS,
            source=work.run.source,
            topic=work.topic,
            meter=meter,
            max_tokens=ANSWER_TOKENS,
            on_call=self._keep,
            must_answer=True,
            seconds=seconds,
            wait_for=self._wait_for,
            store=store_for(
                self._context,
                goal=self._goal,
                kept_with=f"{work.run.source}/step:{work.step.pk}",
                ask=asker(self._context, meter=meter, wait_for=work.wait_for),
            ),
        )

    @property
    def _goal(self) -> str:
        """Return the track's goal, for a model that compacts results."""
        settings = self._work.settings
        parts = (self._work.topic.title, settings.objective, settings.focus, self._track.task)
        return ". ".join(filter(None, parts))

    # --- while it runs ---

    def _wait_for(self, call: Callable[[], Answer]) -> Answer:
        return self._work.wait_for(call, meanwhile=self._stop_if_asked)

    def _stop_if_asked(self) -> None:
        self._work.check_time()
        if self._work.is_stopping:
            raise Stopping

    def _keep(self, call: CallRecord) -> None:
        """Store and show a finished call, and check whether the run continues."""
        self._calls += 1
        self._made.append(call)
        if call.tool == "open_page" and not call.is_error:
            self._opened.append(int(str(call.data["page"]).removeprefix("p")))
        with transaction.atomic():  # stored only while this worker holds the run
            self._work.progress(self._so_far(), output=self._output(""), calls=len(self._made))
            self._store(call)
        self._work.look()
        self._stop_if_asked()

    def _store(self, call: CallRecord) -> None:
        ToolCall.objects.create(
            run=self._work.run,
            part=self._track.part,
            position=self._calls,
            attempt=self._work.run.attempt,
            round=call.round,
            tool=call.tool,
            arguments=call.arguments,
            result=call.result[:LONGEST_KEPT],
            is_error=call.is_error,
            content_item_id=call.data.get("content_item"),
            milliseconds=call.milliseconds,
        )

    def _so_far(self) -> str:
        made, opened = len(self._made), len(set(self._opened))
        calls = ngettext("%(n)d tool call", "%(n)d tool calls", made) % {"n": made}
        pages = ngettext("%(n)d page opened", "%(n)d pages opened", opened) % {"n": opened}
        return f"{calls}, {pages}"

    # --- the prompt ---

    def _messages(self) -> list[Message]:
        work, settings = self._work, self._work.settings
        memory = inputs.known(work)
        fresh = work.run.hits.filter(state__in=[Hit.State.NEW, Hit.State.RETURNING])
        told: dict[str, Any] = {
            "track": self._track,
            "rounds": ROUNDS,
            "most": MOST_NOTES,
            "languages": ", ".join(settings.languages),
            "memory": memory.as_prompt() if memory else "",
            "observations": memory_for_prompt.enter(work, memory_for_prompt.chosen(work)),
            "topic": work.topic.title,
            "objective": for_prompt(settings.objective),
            "focus": for_prompt(settings.focus),
            "time_frame": settings.get_time_frame_display() if inputs.since(settings) else "",
            "today": timezone.localdate().isoformat(),
            "found": track_tools.lines_of(list(fresh.order_by("place")[:MOST_TOLD])),
        }
        return [
            Message("system", render_to_string("prompts/track_system.txt", told)),
            Message("user", render_to_string("prompts/track_user.txt", told)),
        ]

    # --- its end ---

    def _over_budget(self, notes: str, exc: BudgetReached) -> StepResult:
        """End the track, or the whole run if the run's or the month's budget is used up."""
        if isinstance(exc, ShareUsed):
            self._warn(str(exc))
        else:
            self._work.stop(_("stopped early: %(why)s") % {"why": exc})
        return self._left(notes, str(exc))

    def _warn(self, why: str) -> None:
        told = {"track": self._track.label, "why": why}
        self._work.run.warn(_("Track “%(track)s” ended early: %(why)s") % told)

    def _left(self, notes: str, warning: str) -> StepResult:
        return StepResult(
            self._output(clean(notes)[0].strip()),
            detail=self._so_far(),
            counts={"calls": len(self._made), "opened": len(set(self._opened))},
            warning=warning,
        )

    def _output(self, notes: str) -> dict[str, Any]:
        return {
            "track": self._track.name,
            "notes": notes,
            "asked": self._desk.asked,
            "opened": sorted(set(self._opened)),
        }


# --- the step ---

AGENT = "research"  # the built-in agent, whose settings decide what its tracks share


def explore(work: RunContext) -> StepResult:
    """Run the tracks. If none can run, the run continues as quick."""
    model = connections.model_for(work.topic)
    if model is None:
        is_secret = work.topic.sensitivity == Sensitivity.SENSITIVE
        why = _("the topic is marked sensitive") if is_secret else _("no model is set up")
        return _as_quick(work, why)
    if model.profile.tools is False:
        return _as_quick(work, _("the model’s endpoint doesn’t support tools"))
    tracks = chosen(work)
    desk = Desk(work, _asked_before(work))
    agent = agent_of(work)
    ended: list[Step] = []
    for place, track in enumerate(tracks):
        if work.is_stopping:
            break
        loop = TrackLoop(work, track, _context(work, agent, track), desk)
        go = partial(loop.go, tracks_left=len(tracks) - place, timeout=model.profile.timeout)
        try:
            ended.append(work.carry_out_part(track.part, go))
        except NoTools:
            work.run.steps.filter(name=inputs.STEP, part=track.part).delete()
            if not ended:
                return _as_quick(work, _("the model’s endpoint doesn’t support tools"))
            work.run.warn(
                _("The model’s endpoint no longer supports tools, so some tracks are missing.")
            )
            break
        _say_if_failed(work, track, ended[-1])
    return _explored(work, ended)


def agent_of(work: RunContext) -> Agent:
    """Return the owner's built-in research agent."""
    owner, memory_is_on = work.topic.owner, {"enable_memory": True}
    agent: Agent = Agent.objects.get_or_create(owner=owner, name=AGENT, defaults=memory_is_on)[0]
    return agent


def _context(work: RunContext, agent: Agent, track: Track) -> ToolContext:
    """Return the actor of a track's tool calls: a sub-agent of the run's agent."""
    return ToolContext(
        work.topic.owner,
        Actor("agent", agent.name),
        work.run.source,
        scope=work.run.source,
        topic=work.topic,
        agent=agent,
    ).for_subagent(track.name)


def _asked_before(work: RunContext) -> list[dict[str, Any]]:
    """Return the queries of tracks that ended or were interrupted."""
    parts = work.run.steps.filter(name=inputs.STEP, part__gt=0).order_by("part")
    entries: list[dict[str, Any]] = []
    for output in parts.values_list("output", flat=True):
        entries += [one for one in output.get("asked", []) if one not in entries]
    return entries


def _say_if_failed(work: RunContext, track: Track, step: Step) -> None:
    if step.state == Step.State.FAILED:
        told = {"track": track.label, "why": step.warning}
        work.run.warn(_("Track “%(track)s” failed: %(why)s") % told)


def _explored(work: RunContext, ended: list[Step]) -> StepResult:
    went = [step for step in ended if step.state == Step.State.DONE]
    if ended and not went:
        return _as_quick(work, _("every track failed"))
    read = work.run.hits.filter(reading=Hit.Reading.READ).exclude(content_item=None)
    places = list(read.order_by("place").values_list("place", flat=True))
    if not places and not work.is_stopping:
        return _as_quick(work, _("the tracks opened no pages"))
    pages = ngettext("%(n)d page opened", "%(n)d pages opened", len(places)) % {"n": len(places)}
    tracks = ngettext("%(n)d track", "%(n)d tracks", len(went)) % {"n": len(went)}
    output = {
        "opened": places,
        "tracks": [{name: s.output[name] for name in ("track", "notes")} for s in went],
    }
    calls = sum(step.counts.get("calls", 0) for step in went)
    counts = {"tracks": len(went), "calls": calls, "opened": len(places)}
    return StepResult(output, detail=f"{tracks}, {pages}", counts=counts)


def _as_quick(work: RunContext, why: str) -> StepResult:
    """Record why there are no tracks. The next steps are those of a quick run."""
    warning = _("The run continues as a quick run: %(why)s.") % {"why": why}
    work.run.warn(warning)
    return StepResult(
        {"opened": [], "why": why},
        detail=_("continued as a quick run: %(why)s") % {"why": why},
        warning=warning,
    )
