"""The step of a deep run between its first searches and its reading: the tracks, one after another.

Data flow: the hits of the planned queries -> up to three tracks, each a row of its own that a
resumed run does not repeat -> the pages that they opened, which are the report's source list, and
their notes.  Where no model can call tools the run says so and goes on as `quick`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.actors import Actor
from memory.llm import connections
from memory.models import Agent, Sensitivity
from memory.toolkit.types import ToolContext
from research.deep.desk import Desk
from research.deep.track import NoTools, TrackLoop
from research.deep.tracks import Track, chosen
from research.models import Hit, Step
from research.working import explored
from research.working.context import RunContext, StepResult

AGENT = "research"  # the built-in agent, whose settings say what its tracks share


def explore(work: RunContext) -> StepResult:
    """Go along the run's tracks; with none that can be gone along the run goes on as quick."""
    model = connections.model_for(work.topic)
    if model is None:
        is_secret = work.topic.sensitivity == Sensitivity.SENSITIVE
        why = _("the topic is marked sensitive") if is_secret else _("no model is set up")
        return _as_quick(work, why)
    if model.profile.tools is False:
        return _as_quick(work, _("the model's endpoint takes no tools"))
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
            work.run.steps.filter(name=explored.STEP, part=track.part).delete()
            if not ended:
                return _as_quick(work, _("the model's endpoint takes no tools"))
            work.run.warn(_("The model's endpoint takes tools no longer: some tracks are missing."))
            break
        _say_if_failed(work, track, ended[-1])
    return _explored(work, ended)


def agent_of(work: RunContext) -> Agent:
    """Return the owner's built-in research agent."""
    owner, memory_is_on = work.topic.owner, {"enable_memory": True}
    agent: Agent = Agent.objects.get_or_create(owner=owner, name=AGENT, defaults=memory_is_on)[0]
    return agent


def _context(work: RunContext, agent: Agent, track: Track) -> ToolContext:
    """Return on whose behalf a track calls tools: a sub-agent of the run's own agent."""
    return ToolContext(
        work.topic.owner,
        Actor("agent", agent.name),
        work.run.source,
        scope=work.run.source,
        topic=work.topic,
        agent=agent,
    ).for_subagent(track.name)


def _asked_before(work: RunContext) -> list[dict[str, Any]]:
    """Return what tracks asked that ended, or were interrupted."""
    parts = work.run.steps.filter(name=explored.STEP, part__gt=0).order_by("part")
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
        return _as_quick(work, _("the tracks opened no page"))
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
    """Say why there are no tracks; the steps after this one go on as those of a quick run."""
    warning = _("The run goes on as quick: %(why)s.") % {"why": why}
    work.run.warn(warning)
    return StepResult(
        {"opened": [], "why": why}, detail=_("as quick: %(why)s") % {"why": why}, warning=warning
    )
