"""Looking back on finished work: what of it is kept in the memory files (seed 003, 7).

Data flow: a run or a session that is over -> persona, facts and the work as a prompt -> the model
calls memory's tools, by the same review as any agent -> one Reflection row with what it said,
called and changed.  Without a model one dated entry is told by rules, through the same door.
Nothing here delays or fails the work: whoever calls it is a follow-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import structlog
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers.errors import ProviderError, ProviderUnavailable
from beacon_site.providers.llm import Message
from memory import origins
from memory.actors import REFLECTOR
from memory.file_texts.paths import path_of_month
from memory.llm import connections
from memory.models import Activity, Proposal, Reflection, Revision, Topic, User
from memory.reflection import prompt as reflection_prompt
from memory.reflection.entry import Told, entry_of, findings_in
from memory.reflection.gate import should_reflect
from memory.texts.text import clean, shorten
from memory.toolkit import registry as tools
from memory.toolkit.loop import CallRecord, LoopResult, run_loop
from memory.toolkit.types import ToolContext
from memory.usage.meter import BudgetReached, Meter

__all__ = ["Reflection", "changes_of", "reflect", "should_reflect", "skip"]

logger = structlog.get_logger(__name__)

TOOLS = ("memory_read", "memory_write", "memory_patch", "memory_append")  # R177, R178: no list
MODEL, RULES = "model", "rules"
MOST_ASSESSMENT = 4_000
MOST_REASON = 600  # of it, that a proposal tells
_ENDED = (Reflection.State.DONE, Reflection.State.SKIPPED, Reflection.State.FAILED)


def skip(owner: User, *, source: str, why: str, topic: Topic | None = None) -> Reflection:
    """Note that a piece of work is not reflected on, and why."""
    reflection = _row(owner, source, topic)
    if reflection.state not in _ENDED:
        _end(reflection, Reflection.State.SKIPPED, why)
    return reflection


def reflect(
    owner: User,
    *,
    source: str,
    task: str,
    result: str,
    history: Sequence[Message],
    trust: str,
    topic: Topic | None = None,
    meter: Meter | None = None,
    messages: Sequence[str] = (),
    told: Told | None = None,
    last_try: bool = True,
) -> Reflection:
    """Reflect on finished work, once for each source however often it is asked for.

    `trust` is the lowest of what the work derives from: of web text it is `external`, and what is
    made of it waits for a person.  `messages` are the owner's own words in it.  `told` says what
    the entry without a model holds (default: the first sentences of the result).
    What goes wrong stands in the row.  Only a model that is not there now is raised, as
    ProviderUnavailable, where it is not the `last_try` and nothing was written yet.
    """
    reflection = _row(owner, source, topic)
    if reflection.state in _ENDED:
        return reflection
    if changes_of(owner, source):
        # A worker was lost after its first write: what it wrote stands, and is not done twice.
        why = _("It was interrupted after it had written; what it wrote stands.")
        return _end(reflection, Reflection.State.DONE, why)
    context = ToolContext(owner, REFLECTOR, source, topic=topic, trust=trust, messages=messages)
    told = told or Told(title=task, summary="", task=task, findings=findings_in(result))
    try:
        looped = _by_model(reflection, context, task, result, history, meter)
    except BudgetReached as exc:
        return _by_rules(reflection, context, told, warning=str(exc))
    except ProviderUnavailable as exc:
        if not last_try:
            raise
        return _failed(reflection, exc)
    except ProviderError as exc:
        return _failed(reflection, exc)
    if looped is None:
        return _by_rules(reflection, context, told)
    reflection.rounds, reflection.assessment = looped.rounds, _kept(looped.text)
    has_failed = looped.failure is not None and not changes_of(owner, source)
    state = Reflection.State.FAILED if has_failed else Reflection.State.DONE
    return _end(reflection, state, looped.notice)


def changes_of(owner: User, source: str) -> list[dict[str, Any]]:
    """Return what the reflector has changed for this source so far, by the rows themselves."""
    mine = {"source": source, "actor": str(REFLECTOR)}
    written = Revision.objects.of(owner).filter(record_type="memoryfile", **mine)
    held = Proposal.objects.of(owner).filter(record_type="memoryfile", **mine)
    return [
        *(
            {"act": "written", "path": one.label, "version": one.version}
            for one in written.order_by("id")
        ),
        *(
            {"act": "held", "path": one.after.get("path", ""), "proposal": str(one.pk)}
            for one in held.order_by("created", "id")
        ),
    ]


# --- by a model -----------------------------------------------------------------------------------


def _by_model(
    reflection: Reflection,
    context: ToolContext,
    task: str,
    result: str,
    history: Sequence[Message],
    meter: Meter | None,
) -> LoopResult | None:
    """Let the model look back; None without one."""
    model = connections.model_for(context.topic)
    if model is None:
        return None
    reflection.by = MODEL
    prompt = reflection_prompt.build(
        context.owner,
        task=task,
        result=result,
        history=history,
        window=model.profile.context_tokens,
        tools=tools.tools_for(TOOLS),
    )
    # What it writes is based on the versions that it was shown, and derives from them too.
    context.read(prompt.files)
    context.seen.update({file.path: file.version for file in prompt.files})
    reflection.calls = []

    def keep(call: CallRecord) -> None:
        reflection.calls = [*reflection.calls, call.as_json()]
        reflection.rounds = call.round
        reflection.save(update_fields=["calls", "rounds", "by"])

    return run_loop(
        "reflect",
        prompt.messages,
        context=context,
        tools=TOOLS,
        rounds=reflection_prompt.ROUNDS,
        source=context.source,
        topic=context.topic,
        meter=meter,
        max_tokens=prompt.max_tokens,
        on_call=keep,
    )


def _kept(text: str) -> str:
    cleaned = clean(text)[0].strip()
    return cleaned if len(cleaned) <= MOST_ASSESSMENT else f"{cleaned[:MOST_ASSESSMENT]}…"


def _failed(reflection: Reflection, exc: ProviderError) -> Reflection:
    told = {"why": shorten(str(exc), 300)}
    return _end(reflection, Reflection.State.FAILED, _("The model failed: %(why)s") % told)


# --- without a model ------------------------------------------------------------------------------


def _by_rules(
    reflection: Reflection, context: ToolContext, told: Told, *, warning: str = ""
) -> Reflection:
    """Add one entry to this month's file by rules, through the tool that a model would call."""
    reflection.by = RULES
    entry = entry_of(told)
    if not entry:
        why = _("without a model, nothing in it can be told as a finding")
        return _end(reflection, Reflection.State.SKIPPED, _joined(warning, why))
    arguments = {"path": path_of_month(timezone.localdate()), "entry": entry}
    result = tools.call_tool(context, "memory_append", arguments, among=TOOLS)
    call = CallRecord(1, "memory_append", arguments, result.text, result.is_error)
    reflection.calls = [call.as_json()]
    reflection.assessment = _("Written by rules, without a model: one dated entry, no facts.")
    if result.is_error:
        return _end(reflection, Reflection.State.FAILED, _joined(warning, result.text))
    return _end(reflection, Reflection.State.DONE, warning)


def _joined(warning: str, why: str) -> str:
    return f"{warning}; {why}" if warning else why


# --- the row --------------------------------------------------------------------------------------


def _row(owner: User, source: str, topic: Topic | None) -> Reflection:
    row, _made = Reflection.objects.get_or_create(
        owner=owner, source=source, defaults={"topic": topic}
    )
    return row


def _end(reflection: Reflection, state: Reflection.State, why: str) -> Reflection:
    """Keep how it ended, with all that came of it; Activity has a line where something did."""
    reflection.state, reflection.why = state, clean(why)[0]
    reflection.changes = changes_of(reflection.owner, reflection.source)
    reflection.finished_at = timezone.now()
    reflection.save()
    _tell_reviewer(reflection)
    if state == Reflection.State.SKIPPED:
        return reflection
    Activity.log(
        reflection.owner,
        REFLECTOR,
        "reflected" if state == Reflection.State.DONE else "reflection-failed",
        subject=reflection,
        label=_label(reflection),
        warning=state == Reflection.State.FAILED,
        why=shorten(reflection.why, 300),
        changes=len(reflection.changes),
    )
    logger.info("reflected", source=reflection.source, state=state, by=reflection.by)
    return reflection


def _tell_reviewer(reflection: Reflection) -> None:
    """Let what waits in Review say what was thought of it: whoever decides wants to know."""
    if reflection.assessment:
        mine = Proposal.objects.of(reflection.owner).filter(
            source=reflection.source, actor=str(REFLECTOR), state=Proposal.State.WAITING, reason=""
        )
        mine.update(reason=shorten(reflection.assessment, MOST_REASON))


def _label(reflection: Reflection) -> str:
    """Return what was looked back on, in words."""
    source = reflection.source
    return origins.of(reflection.owner, [source])[source].words[:300]


def changes_in_words(reflection: Reflection) -> str:
    """Return in a line what came of a reflection: “1 file changed, 2 writes wait for you”."""
    held = sum(one["act"] == "held" for one in reflection.changes)
    files = len({one["path"] for one in reflection.changes if one["act"] == "written"})
    parts = []
    if files:
        parts.append(ngettext("%(n)d file changed", "%(n)d files changed", files) % {"n": files})
    if held:
        words = ngettext("%(n)d write waits for you", "%(n)d writes wait for you", held)
        parts.append(words % {"n": held})
    return ", ".join(parts) or _("nothing changed")
