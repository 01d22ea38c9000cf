"""Decides whether finished work is worth a reflection, and writes it with a model or by rules."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from django.db.models import TextField, Value
from django.db.models.functions import Cast
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from beacon_site.net.errors import ProviderError, ProviderUnavailable
from beacon_site.providers.llm.base import Message, Tool
from beacon_site.providers.llm.tokens import (
    BYTES_PER_TOKEN,
    SHARE,
    tokens_of,
    tokens_of_tools,
    trimmed,
)
from beacon_site.text.cleaning import (
    clean,
    cut,
    ended,
    for_prompt,
    match_key,
    one_line,
    shorten,
    uncited,
    width,
)
from beacon_site.text.injection import injection_reason
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext
from beacon_site.text.sentences import sentences
from memory.agents.tools import registry
from memory.agents.tools.loop import CallRecord, LoopResult, run_loop
from memory.agents.tools.types import ToolContext
from memory.models import (
    Activity,
    MemoryFile,
    Note,
    Proposal,
    Reflection,
    Revision,
    Sensitivity,
    Topic,
    Trust,
    User,
    origins,
)
from memory.models.actors import REFLECTOR
from memory.models.file_format import MAX_WORDS, is_fact, path_of_month, word_count
from memory.services.context import identity
from memory.services.files import reading
from memory.services.files.saving import facts_size
from memory.services.files.texts import MAX_FACTS, format_size
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, Meter

MAX_FINDINGS = 3
MAX_TITLE_LENGTH, MAX_TASK_LENGTH, MAX_FINDING_LENGTH = 120, 300, 300


@dataclass(frozen=True, slots=True)
class EntryContent:
    """The content of an entry; `findings` are verbatim sentences."""

    title: str
    summary: str
    task: str
    findings: Sequence[str]


def findings_in(result: str) -> list[str]:
    """Return the first sentences of a result that are usable as findings."""
    said = (uncited(one.text) for one in sentences(result))
    return [one for one in said if one][:MAX_FINDINGS]


def entry_of(entry: EntryContent) -> str:
    """Return the entry as Markdown in seed 003's format, without a lesson; "" without findings.

    Sentences with prompt injection are left out. Without a summary, the first finding is the summary,
    in a few words. A finding that the summary says in full isn't repeated, unless it's the only one.
    """
    found = [_shortened_line(one, MAX_FINDING_LENGTH) for one in entry.findings]
    kept = [one for one in dict.fromkeys(found) if one and not injection_reason(one)]
    if not kept:
        return ""
    summary = in_few_words(entry.summary or kept[0])
    found = [one for one in kept[:MAX_FINDINGS] if match_key(one) != match_key(summary)]
    return "\n".join(
        [
            f"## {_shortened_line(entry.title, MAX_TITLE_LENGTH).lstrip('# ') or '-'}",
            f"- Summary: {summary}",
            f"- Date: {timezone.localdate().isoformat()}",
            f"- Task: {_shortened_line(entry.task, MAX_TASK_LENGTH) or '-'}",
            f"- Findings: {' '.join(map(ended, found or kept[:1]))}",
        ]
    )


def in_few_words(text: str) -> str:
    """Return the first words of a text, fewer than ten (R148)."""
    text = _shortened_line(text, 120)
    if word_count(text) <= MAX_WORDS:
        return text
    words = text.split()
    while words and word_count(" ".join(words)) > MAX_WORDS:
        words.pop()
    # Scripts without spaces are cut by width: two East Asian characters count as a word.
    short = " ".join(words) or cut(text, MAX_WORDS * 4 - 4)
    return f"{short.rstrip(' ,;:.')}…"


def _shortened_line(text: str, most: int) -> str:
    return shorten(one_line(clean(text)[0]), most)


# --- whether work is worth a reflection, which costs model calls (seed 003, 7) ---

SHORT = 500  # characters of a result; shorter results of little work aren't reflected on
MAX_TRIVIAL, MAX_READ_ONLY = 1, 2  # iterations
MIN_MESSAGES, MIN_OF_USER = 6, 2  # of a conversation that is worth a reflection


def why_not(iterations: int, actions: int, read_only: bool, result: object) -> str:
    """Return why a finished task isn't worth a reflection (R170 to R173); "" if it is.

    `iterations` are model calls; `actions` are searches, pages read and tool calls. A result that
    isn't text is measured as JSON. East Asian wide characters count as two.
    """
    length = length_of(result)
    params = {"n": length, "least": SHORT}
    if iterations <= MAX_TRIVIAL and actions <= 1 and length < SHORT:
        return (
            ngettext(
                "the task was too small: one step and a result of %(n)d character (the minimum is %(least)d)",
                "it was a small task: one step and a result of %(n)d characters (under %(least)d)",
                length,
            )
            % params
        )
    if actions <= 0 and iterations <= MAX_TRIVIAL:
        return _("nothing was done: no searches, pages or tool calls")
    if read_only and iterations <= MAX_READ_ONLY and length < SHORT:
        return (
            ngettext(
                "it was only a short lookup: a few steps and a result of %(n)d character (under %(least)d)",
                "it was only a short lookup: a few steps and a result of %(n)d characters (under %(least)d)",
                length,
            )
            % params
        )
    return ""


def length_of(result: object) -> int:
    if result is None:
        return 0
    if not isinstance(result, str):
        result = json.dumps(result, ensure_ascii=False, default=str)
    return width(result)


def why_not_talk(messages: int, by_user: int) -> str:
    """Return why a conversation isn't reflected on, or "".

    It needs at least six messages, two of them the person's.
    """
    if messages >= MIN_MESSAGES and by_user >= MIN_OF_USER:
        return ""
    return ngettext(
        "it was short: %(n)d message, including %(own)d from you (the minimum is %(least)d, with %(least_own)d from you)",
        "it was too short: %(n)d messages, including %(own)d from you (the minimum is %(least)d, including %(least_own)d from you)",
        messages,
    ) % {"n": messages, "own": by_user, "least": MIN_MESSAGES, "least_own": MIN_OF_USER}


# --- the prompt --------------------------------------------------------------------------------

ROUNDS = 5  # R178
NEAR = 0.8  # of the budget; above it the prompt asks to condense the facts first
RESULT_SHARE = 0.15  # of the window for the result, beside the history
MAX_ANSWER = 4_096  # tokens of one answer, enough for a whole fact file
FOR_CALLS = 10  # a tenth of the window is kept free for calls and their results
_RESERVE = 400  # tokens for the prompt around the texts


def build(
    owner: User,
    *,
    task: str,
    result: str,
    history: Sequence[Message],
    window: int,
    tools: Sequence[Tool],
) -> tuple[list[Message], list[MemoryFile], int]:
    """Return the reflector's prompt for a model with a window of so many tokens.

    Those are the first messages, the files that are in them in full, and the maximum length of an
    answer. It leaves room for an answer and for the results of tool calls.
    """
    files = [file for file in reading.files_of(owner) if not _is_sensitive(file)]
    facts = [MemoryFile.objects.get(pk=file.pk) for file in files if is_fact(file.path)]
    system = Message("system", _system(owner, facts, files))
    most_answer = min(MAX_ANSWER, window // 4)
    for_calls = window // FOR_CALLS + tokens_of_tools(tools) + _RESERVE
    left = window - most_answer - tokens_of(system) - for_calls
    result = _begun(result, int(min(RESULT_SHARE * window, left * 0.25)))
    message = Message("user", task)
    room = left - tokens_of(Message("user", result))
    most = int(min(SHARE * window, room))
    kept = trimmed([message, *history], max(most, 200))
    context = {
        "task": for_prompt(kept[0].content),
        "history": for_prompt(transcript(kept[1:])) or _("(nothing was kept)"),
        "result": for_prompt(result) or "-",
    }
    user = Message("user", render_to_string("prompts/reflect_user.txt", context))
    return [system, user], facts, most_answer


def _is_sensitive(file: MemoryFile) -> bool:
    return bool(file.sensitivity == Sensitivity.SENSITIVE or file.trust == Trust.QUARANTINED)


def _system(owner: User, facts: Sequence[MemoryFile], files: Sequence[MemoryFile]) -> str:
    used = facts_size(owner)
    today = timezone.localdate()
    context: dict[str, Any] = {
        **persona_of(owner),
        "person": one_line(str(owner)),
        "rounds": ROUNDS,
        "month": path_of_month(today),
        "today": today.isoformat(),
        "used": used,
        "most": MAX_FACTS,
        "is_near": used >= NEAR * MAX_FACTS,
        "facts": facts,
        # Random, so that no text in a file can close its marks.
        "mark": secrets.token_hex(4),
        "episodes": [_index_line(file) for file in files if not is_fact(file.path)],
    }
    return render_to_string("prompts/reflect_system.txt", context).strip()


def _index_line(file: MemoryFile) -> str:
    return f"- {file.path} ({format_size(file.size)}): {for_prompt(file.summary)}"


def persona_of(owner: User) -> dict[str, str]:
    """Return name, personality, style and values from the agent note and the soul (R175).

    A sensitive note is never sent to a provider; the default persona replaces it.
    """
    agent, soul = (_identity_text(owner, kind) for kind in (Note.Kind.AGENT, Note.Kind.SOUL))
    persona = identity.Persona.of_text(agent) if agent else identity.first_persona()
    return {
        "name": one_line(persona.name) or identity.first_persona().name,
        "personality": persona.personality,
        "style": persona.style,
        "values": soul,
    }


def _identity_text(owner: User, kind: str) -> str:
    note = identity.active(owner, kind)
    if note is None or note.sensitivity == Sensitivity.SENSITIVE or note.trust == Trust.QUARANTINED:
        return ""
    return note.content.strip()


def transcript(messages: Sequence[Message]) -> str:
    """Return a history as text, with each call's result below it."""
    labels = {"user": _("Person"), "assistant": _("Agent"), "tool": _("Result"), "call": _("Call")}
    parts = []
    for message in messages:
        if message.content:
            parts.append(f"{labels.get(message.role, message.role)}: {message.content}")
        for call in message.tool_calls:
            arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
            parts.append(f"{labels['call']}: {call.name} {arguments}")
    return clean("\n".join(parts))[0]


def _begun(text: str, tokens: int) -> str:
    """Return as much of the text as fits into so many tokens."""
    content = clean(text)[0].strip().encode()
    most = max(tokens, 50) * BYTES_PER_TOKEN
    if len(content) <= most:
        return content.decode()
    return f"{content[:most].decode('utf-8', 'ignore')}…"


# --- reflecting --------------------------------------------------------------------------------

logger = structlog.get_logger(__name__)

TOOLS = ("memory_read", "memory_write", "memory_patch", "memory_append")  # R177, R178: no list
MODEL, RULES = "model", "rules"
MAX_ASSESSMENT = 4_000
MAX_REASON = 600  # characters of it in a proposal
_ENDED = (Reflection.State.DONE, Reflection.State.SKIPPED, Reflection.State.FAILED)


def skip(
    owner: User,
    *,
    source: str,
    why: str,
    topic: Topic | None = None,
    claimed: Reflection | None = None,
) -> Reflection:
    """Record that work is not reflected on, and why.  `claimed` is its row, if that is a job."""
    reflection = claimed or _row(owner, source, topic)
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
    told: EntryContent | None = None,
    last_try: bool = True,
    claimed: Reflection | None = None,
) -> Reflection:
    """Reflect on finished work, once per source however often it is called.

    `trust` is the lowest trust of the work's origins: `external` for web text, and then every write
    waits for a person.  `messages` are the owner's own words in it.  `told` is the text of the entry
    without a model (default: the first sentences of the result).  `claimed` is its row, if that is
    a job.  Errors are stored in the row.  Raises only ProviderUnavailable, if nothing was written
    yet and it isn't the `last_try`, and JobLost.
    """
    reflection = claimed or _row(owner, source, topic)
    if reflection.state in _ENDED:
        return reflection
    if changes_of(owner, source):
        # A worker was lost after its first write, which is kept and not repeated.
        why = _("The reflection was interrupted after saving some changes, which were kept.")
        return _end(reflection, Reflection.State.DONE, why)
    context = ToolContext(owner, REFLECTOR, source, topic=topic, trust=trust, messages=messages)
    told = told or EntryContent(title=task, summary="", task=task, findings=findings_in(result))
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
    reflection.rounds, reflection.assessment = looped.rounds, _assessment(looped.text)
    has_failed = looped.failure is not None and not changes_of(owner, source)
    state = Reflection.State.FAILED if has_failed else Reflection.State.DONE
    return _end(reflection, state, looped.notice)


def changes_of(owner: User, source: str) -> list[dict[str, Any]]:
    """Return what the reflector has changed for this source so far, from the revisions."""
    mine = {"source": source, "actor": str(REFLECTOR)}
    written = Revision.objects.for_user(owner).filter(record_type="memoryfile", **mine)
    held = Proposal.objects.for_user(owner).filter(record_type="memoryfile", **mine)
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
    """Let the model reflect; None without a model."""
    model = connections.model_for(context.topic, "reflect")
    if model is None:
        return None
    reflection.by = MODEL
    first, files, most = build(
        context.owner,
        task=task,
        result=result,
        history=history,
        window=model.profile.context_tokens,
        tools=registry.tools_for(TOOLS),
    )
    # Its writes are based on the versions that it saw, and derive from them too.
    context.read(files)
    context.seen.update({file.path: file.version for file in files})
    reflection.calls = []

    def keep(call: CallRecord) -> None:
        calls = [*reflection.calls, call.as_json()]
        _save(reflection, calls=calls, rounds=call.round, by=reflection.by)

    return run_loop(
        "reflect",
        first,
        context=context,
        tools=TOOLS,
        rounds=ROUNDS,
        source=context.source,
        topic=context.topic,
        meter=meter,
        max_tokens=most,
        on_call=keep,
    )


def _assessment(text: str) -> str:
    cleaned = clean(text)[0].strip()
    return cleaned if len(cleaned) <= MAX_ASSESSMENT else f"{cleaned[:MAX_ASSESSMENT]}…"


def _failed(reflection: Reflection, exc: ProviderError) -> Reflection:
    params = {"why": shorten(str(exc), 300)}
    return _end(reflection, Reflection.State.FAILED, _("The model failed: %(why)s") % params)


# --- without a model ------------------------------------------------------------------------------


def _by_rules(
    reflection: Reflection, context: ToolContext, told: EntryContent, *, warning: str = ""
) -> Reflection:
    """Add a rule-based entry to this month's file, with the same tool that a model would call."""
    reflection.by = RULES
    entry = entry_of(told)
    if not entry:
        why = _("no findings could be identified without a model")
        return _end(reflection, Reflection.State.SKIPPED, _joined(warning, why))
    arguments = {"path": path_of_month(timezone.localdate()), "entry": entry}
    result = registry.call_tool(context, "memory_append", arguments, among=TOOLS)
    call = CallRecord(1, "memory_append", arguments, result.text, result.is_error)
    reflection.calls = [call.as_json()]
    reflection.assessment = _("Written without a model: one dated entry, no facts.")
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
    """Store the outcome; Activity gets a line if anything was written.  Raises JobLost."""
    _save(
        reflection,
        **{name: getattr(reflection, name) for name in ("by", "rounds", "assessment", "calls")},
        state=state,
        why=clean(why)[0],
        changes=changes_of(reflection.owner, reflection.source),
        finished_at=timezone.now(),
        lease_until=None,
    )
    _add_reasoning(reflection)
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


def _save(reflection: Reflection, **fields: Any) -> None:
    """Save fields.  Raises JobLost if it is a job that another worker has, or that has ended."""
    if reflection.state == Reflection.State.RUNNING:
        reflection.put(**fields)
        return
    for name, value in fields.items():
        setattr(reflection, name, value)
    reflection.save(update_fields=list(fields))


def _add_reasoning(reflection: Reflection) -> None:
    """Add the model's reasoning to the proposals in Review, for the person who decides."""
    if reflection.assessment:
        mine = Proposal.objects.for_user(reflection.owner).filter(
            source=reflection.source, actor=str(REFLECTOR), state=Proposal.State.WAITING, reason=""
        )
        mine.update(reason=shorten(reflection.assessment, MAX_REASON))


def _label(reflection: Reflection) -> str:
    source = reflection.source
    return origins.of(reflection.owner, [source])[source].words[:300]


def describe_changes(reflection: Reflection) -> str:
    """Return the outcome in one line, such as “1 file changed, 2 writes are waiting for you”."""
    held = sum(change["act"] == "held" for change in reflection.changes)
    files = len({change["path"] for change in reflection.changes if change["act"] == "written"})
    parts = []
    if files:
        parts.append(ngettext("%(n)d file changed", "%(n)d files changed", files) % {"n": files})
    if held:
        words = ngettext(
            "%(n)d write is waiting for your approval",
            "%(n)d writes are waiting for your approval",
            held,
        )
        parts.append(words % {"n": held})
    return ", ".join(parts) or _("nothing changed")


# --- how a reflection is shown ---


def shown_of(owner: User, source: str) -> dict[str, Any] | None:
    """Return the context of `memory/_reflection.html`, None without a reflection: two queries."""
    reflection = Reflection.objects.for_user(owner).filter(source=source).first()
    if reflection is None or reflection.is_unfinished:
        return None
    changes = _changes(owner, reflection.changes)
    waiting = sum(change["waits"] for change in changes)
    return {
        "state": reflection.state,
        "tag": _tag(reflection),
        "assessment": reflection.assessment,
        "why": reflection.why,
        "changes": changes,
        "waiting": waiting,
        "waiting_words": _waiting_words(waiting),
        "calls": [call | {"arguments": _arguments(call["arguments"])} for call in reflection.calls],
    }


def _waiting_words(n: int) -> str:
    if not n:
        return ""
    words = ngettext(
        "%(n)d write is waiting for your approval. The file hasn’t changed yet.",
        "%(n)d writes are waiting for your approval. The files haven’t changed yet.",
        n,
    )
    return words % {"n": n}


def _tag(reflection: Reflection) -> str:
    if reflection.state == Reflection.State.DONE:
        return _("without a model") if reflection.by == RULES else _("by the model")
    return str(reflection.get_state_display())


def _changes(owner: User, changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each change's file, its outcome, and where to see it (`url` can be empty)."""
    states = _proposal_states(owner, changes)
    return [
        _proposed_change(change, states.get(change["proposal"], ""))
        if change["act"] == "held"
        else _written(change, is_there=change["path"] in states)
        for change in changes
    ]


def _proposal_states(owner: User, changes: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the state of each proposal by its key, and each existing file by its path."""
    ids = [change["proposal"] for change in changes if change["act"] == "held"]
    paths = {change["path"] for change in changes if change["act"] != "held"}
    if not changes:
        return {}
    key = Cast("pk", TextField())
    held = Proposal.objects.for_user(owner).filter(pk__in=ids).order_by().values_list(key, "state")
    files = MemoryFile.objects.for_user(owner).live().filter(path__in=paths).order_by()
    there = files.values_list("path", Value("there"))
    return dict(held.union(there, all=True))


def _change(path: str, words: str, url: str = "", *, waits: bool = False) -> dict[str, Any]:
    return {"path": path, "words": words, "url": url, "waits": waits}


def _proposed_change(change: dict[str, Any], state: str) -> dict[str, Any]:
    if not state:
        return _change(change["path"], _("proposed, then deleted"))
    url = reverse("memory:proposal", args=[change["proposal"]])
    if state == Proposal.State.WAITING:
        return _change(change["path"], _("waiting for you"), url, waits=True)
    words = {
        Proposal.State.ACCEPTED.value: _("proposed and accepted"),
        Proposal.State.REJECTED.value: _("proposed and rejected"),
    }
    text = words.get(state, _("proposed, but expired"))
    return _change(change["path"], text, url)


def _written(change: dict[str, Any], *, is_there: bool) -> dict[str, Any]:
    words = _("version %(n)d") % {"n": change["version"]}
    if not is_there:
        return _change(change["path"], _("%(version)s, since deleted") % {"version": words})
    return _change(change["path"], words, reverse("memory:file", args=[change["path"]]))


def _arguments(arguments: dict[str, Any]) -> str:
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in arguments.items()
    )
