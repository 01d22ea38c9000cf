"""The step before the save: filter changes by the topic's intent and its muted sources.

Data flow: changes that `verify` left -> those only from muted sources are filtered out -> the
others are judged by the intent -> changes with their judgment, which `save` stores. Filtered
changes are still remembered. A run without intent and muted sources doesn't have this step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from beacon_site.text.canonical_urls import canonical_url
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import joined
from research.models import DeltaItem, Run, TopicSettings
from research.services.intent import weighing as intents
from research.services.runs.context import inputs
from research.services.runs.context.outputs import CitedSource, JudgeOutput
from research.services.runs.context.run_context import RunContext, StepResult
from research.services.runs.reporting.delta import Change
from research.services.topics.settings import standing_rules

STEP: Final = "judge"


def judges(settings: TopicSettings) -> bool:
    """Return True if these settings can filter anything, so the run needs this step."""
    return bool(settings.intent.strip() or settings.mute_places)


def judges_run(run: Run) -> bool:
    """Return True if a run has this step, by the settings it was started with."""
    kept = run.settings
    return bool(kept.get("intent", "").strip() or kept.get("mute_places"))


def judge(context: RunContext) -> StepResult:
    """Set on each listed change whether it is reported, why, and who judged."""
    changes = _verified(context)
    if inputs.loaded_memory(context) is None:
        return StepResult({}, detail=_("first run, nothing to filter"))
    muted = _mute(context, changes)
    listed = [place for place, change in enumerate(changes) if change.is_listed]
    verdicts, warning, by = intents.weigh(
        context.settings.intent,
        context.settings.notify_examples,
        [changes[place] for place in listed],
        about=context.topic.title,
        owner=context.topic.owner,
        source=context.run.source,
        topic=context.topic,
        meter=context.meter,
        wait_for=context.wait_for,
    )
    for place, verdict in zip(listed, verdicts, strict=True):
        reason = "" if verdict.tell else verdict.why
        changes[place] = replace(
            changes[place], hidden_reason=reason, judged_by=verdict.by, judged=verdict.why
        )
    if warning:
        context.run.warn(warning)
    by_intent = sum(bool(changes[place].hidden_reason) for place in listed)
    count = sum(change.is_listed for change in changes)
    counts = {"told": count, "filtered_out": by_intent, "muted": muted}
    output: JudgeOutput = {
        "changes": [change.as_json() for change in changes],
        "by": by,
    }
    return StepResult(
        output,
        detail=_describe(count, by_intent, muted, by),
        counts=counts,
        warning=warning,
    )


def changes_of(context: RunContext) -> list[Change]:
    """Return the run's changes to save, judged if the run has this step."""
    judged = context.output(STEP).get("changes") if context.has(STEP) else None
    return _verified(context) if judged is None else [Change(**change) for change in judged]


def _verified(context: RunContext) -> list[Change]:
    return [Change(**change) for change in context.output("verify")["changes"]]


def _mute(context: RunContext, changes: list[Change]) -> int:
    """Filter out the listed changes that only muted sources report. Return how many."""
    if not context.settings.mute_places:
        return 0
    sources = {source["n"]: source for source in context.output("verify")["sources"]}
    count = 0
    for place, change in enumerate(changes):
        cited = [sources[n] for n in change.citations if n in sources]
        places = [_muted_place(context, source) for source in cited]
        if not change.is_listed or not cited or not all(places):
            continue
        named = ", ".join(dict.fromkeys(map(standing_rules.readable_rule, places)))
        why = _("only muted sources report it: %(places)s") % {"places": named[:200]}
        changes[place] = replace(
            change, hidden_reason=why, judged_by=DeltaItem.Judge.MUTED, judged=why
        )
        count += 1
    return count


def _muted_place(context: RunContext, source: CitedSource) -> str:
    return standing_rules.place_of(canonical_url(source["link"]), context.settings.mute_places)


def _describe(told: int, withheld: int, muted: int, by: str) -> str:
    parts = [_("%(n)d in notifications") % {"n": told}]
    if withheld:
        words = _("%(n)d filtered out (by %(by)s)")
        parts.append(words % {"n": withheld, "by": by})
    if muted:
        parts.append(_("%(n)d reported only by muted sources") % {"n": muted})
    return joined(", ", parts)


def withholds(changes: Sequence[Change]) -> bool:
    """Return True if anything true is filtered out."""
    return any(change.hidden_reason and change.judged_by for change in changes)
