"""One track of a deep run: a loop of a model with tools, each call of which is a row.

Data flow: topic, what is known and what the first searches found -> the model, which searches,
opens pages and stores what it may need again -> its notes, with the pages they came from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers.llm import Answer, Message
from memory.texts.text import clean, for_prompt
from memory.toolkit.loop import ANSWERED, LONGEST_KEPT, CallRecord, LoopResult, run_loop
from memory.toolkit.output_store import asker, store_for
from memory.toolkit.types import MemoryTool, ToolContext
from memory.usage.meter import BudgetReached
from research.deep import desk, limits
from research.deep.desk import Desk
from research.deep.limits import ShareUsed, TrackMeter
from research.deep.tracks import Track
from research.models import Hit, ToolCall
from research.working import inputs, memory_for_prompt
from research.working.context import RunContext, StepResult

TOOLS = (
    "recall",
    "memory_read",
    "store_in_memory",
    "retrieve_from_memory",
    "query_memory",
)
MOST_TOLD = 15  # hits of the first searches that a track begins with
MOST_NOTES = 12  # findings that it is asked for


class Stopping(Exception):
    """The run is to end with what is there: the track goes no further."""


class NoTools(Exception):
    """The model's endpoint takes no tools, so there is nothing that a track could do."""


class TrackLoop:
    """One track while it is gone along."""

    def __init__(self, work: RunContext, track: Track, context: ToolContext, at: Desk) -> None:
        self._work, self._track, self._context, self._desk = work, track, context, at
        self._calls = ToolCall.objects.filter(run=work.run, part=track.part).count()
        self._made: list[CallRecord] = []
        self._opened: list[int] = []

    def go(self, *, tracks_left: int, timeout: float) -> StepResult:
        """Go along the track.

        Raises ProviderError if the model fails at once, NoTools, and Interrupted where this task
        has too little time left for it.
        """
        seconds = limits.seconds_for(self._work, timeout)
        try:
            looped = self._loop(limits.share_of(self._work, tracks_left), seconds)
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
            rounds=limits.ROUNDS,
            source=work.run.source,
            topic=work.topic,
            meter=meter,
            max_tokens=limits.ANSWER_TOKENS,
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
        """Return what the track works towards, for a model that makes results short."""
        settings = self._work.settings
        parts = (self._work.topic.title, settings.objective, settings.focus, self._track.task)
        return ". ".join(filter(None, parts))

    # --- while it goes on -------------------------------------------------------------------------

    def _wait_for(self, call: Callable[[], Answer]) -> Answer:
        return self._work.wait_for(call, meanwhile=self._stop_if_asked)

    def _stop_if_asked(self) -> None:
        self._work.check_time()
        if self._work.is_stopping:
            raise Stopping

    def _keep(self, call: CallRecord) -> None:
        """Store a call that has ended, show it, and see whether the run goes on."""
        self._calls += 1
        self._made.append(call)
        if call.tool == "open_page" and not call.is_error:
            self._opened.append(int(str(call.data["page"]).removeprefix("p")))
        with transaction.atomic():  # the call is kept only while the run is held
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

    # --- what it is told --------------------------------------------------------------------------

    def _messages(self) -> list[Message]:
        work, settings = self._work, self._work.settings
        memory = inputs.known(work)
        fresh = work.run.hits.filter(state__in=[Hit.State.NEW, Hit.State.RETURNING])
        told: dict[str, Any] = {
            "track": self._track,
            "rounds": limits.ROUNDS,
            "most": MOST_NOTES,
            "languages": ", ".join(settings.languages),
            "memory": memory.as_prompt() if memory else "",
            "observations": memory_for_prompt.enter(work, memory_for_prompt.chosen(work)),
            "topic": work.topic.title,
            "objective": for_prompt(settings.objective),
            "focus": for_prompt(settings.focus),
            "time_frame": settings.get_time_frame_display() if inputs.since(settings) else "",
            "today": timezone.localdate().isoformat(),
            "found": desk.lines_of(list(fresh.order_by("place")[:MOST_TOLD])),
        }
        return [
            Message("system", render_to_string("prompts/track_system.txt", told)),
            Message("user", render_to_string("prompts/track_user.txt", told)),
        ]

    # --- its end ----------------------------------------------------------------------------------

    def _over_budget(self, notes: str, exc: BudgetReached) -> StepResult:
        """End the track; the whole run where it is the run's, or the month's, budget that is reached."""
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
