"""What the reflector is told: who it is, what memory is for, what stands there, and the work.

Data flow: agent note and soul, both fact files in full, the list of the months' files -> system
prompt; task, history trimmed to its share of the window, result -> the one message of the user.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.providers.llm import Message, Tool
from memory.contexts import identity
from memory.file_texts.paths import is_fact, path_of_month
from memory.files import reading
from memory.models import MemoryFile, Note, Sensitivity, Trust, User
from memory.texts.text import clean, for_prompt, one_line
from memory.texts.trimming import BYTES_PER_TOKEN, SHARE, tokens_of, tokens_of_tools, trimmed

ROUNDS = 5  # R178
NEAR = 0.8  # of the budget, from which it is said that the facts are to be condensed first
RESULT_SHARE = 0.15  # of the window that the result may take, beside the history
MOST_ANSWER = 4_096  # tokens of one answer: a whole fact file fits
FOR_CALLS = 10  # a tenth of the window is kept free for calls and their results
_RESERVE = 400  # tokens for what stands round the texts


@dataclass(frozen=True, slots=True)
class Prompt:
    """The messages to begin with, the files that stand in them in full, and how long answers are."""

    messages: list[Message]
    files: list[MemoryFile]
    max_tokens: int


def build(
    owner: User,
    *,
    task: str,
    result: str,
    history: Sequence[Message],
    window: int,
    tools: Sequence[Tool],
) -> Prompt:
    """Return the reflector's prompt for a model whose window has so many tokens.

    There is room left for an answer, and for what calls of the tools bring.
    """
    files = [file for file in reading.files_of(owner) if not _is_sensitive(file)]
    facts = [MemoryFile.objects.get(pk=file.pk) for file in files if is_fact(file.path)]
    system = Message("system", _system(owner, facts, files))
    most_answer = min(MOST_ANSWER, window // 4)
    for_calls = window // FOR_CALLS + tokens_of_tools(tools) + _RESERVE
    left = window - most_answer - tokens_of(system) - for_calls
    result = _begun(result, int(min(RESULT_SHARE * window, left * 0.25)))
    told = Message("user", task)
    room = left - tokens_of(Message("user", result))
    most = int(min(SHARE * window, room))
    kept = trimmed([told, *history], max(most, 200)).messages
    context = {
        "task": for_prompt(kept[0].content),
        "history": for_prompt(transcript(kept[1:])) or _("(nothing was kept of it)"),
        "result": for_prompt(result) or "-",
    }
    user = Message("user", render_to_string("prompts/reflect_user.txt", context))
    return Prompt([system, user], facts, most_answer)


def _is_sensitive(file: MemoryFile) -> bool:
    return bool(file.sensitivity == Sensitivity.SENSITIVE or file.trust == Trust.QUARANTINED)


def _system(owner: User, facts: Sequence[MemoryFile], files: Sequence[MemoryFile]) -> str:
    budget = reading.facts_budget(owner)
    today = timezone.localdate()
    context: dict[str, Any] = {
        **persona_of(owner),
        "person": one_line(str(owner)),
        "rounds": ROUNDS,
        "month": path_of_month(today),
        "today": today.isoformat(),
        "budget": budget,
        "is_near": budget.used >= NEAR * budget.most,
        "facts": facts,
        # Nobody who wrote a file could know it, so no text in one ends its marks.
        "mark": secrets.token_hex(4),
        "episodes": [_index_line(file) for file in files if not is_fact(file.path)],
    }
    return render_to_string("prompts/reflect_system.txt", context).strip()


def _index_line(file: MemoryFile) -> str:
    return f"- {file.path} ({reading.size_in_words(file.size)}): {for_prompt(file.summary)}"


def persona_of(owner: User) -> dict[str, str]:
    """Return name, personality, style and values: the agent note's and the soul's (R175).

    A note that is marked sensitive goes to no provider: the first persona stands in for it.
    """
    agent, soul = (_shown(owner, kind) for kind in (Note.Kind.AGENT, Note.Kind.SOUL))
    persona = identity.Persona.of_text(agent) if agent else identity.first_persona()
    return {
        "name": one_line(persona.name) or identity.first_persona().name,
        "personality": persona.personality,
        "style": persona.style,
        "values": soul,
    }


def _shown(owner: User, kind: str) -> str:
    note = identity.active(owner, kind)
    if note is None or note.sensitivity == Sensitivity.SENSITIVE or note.trust == Trust.QUARANTINED:
        return ""
    return note.content.strip()


def transcript(messages: Sequence[Message]) -> str:
    """Return a history as text: who said what, each call with its result below it."""
    names = {"user": _("Person"), "assistant": _("Agent"), "tool": _("Result")}
    told = []
    for message in messages:
        if message.content:
            told.append(f"{names.get(message.role, message.role)}: {message.content}")
        for call in message.tool_calls:
            arguments = json.dumps(call.arguments, ensure_ascii=False, default=str)
            told.append(f"{_('Call')}: {call.name} {arguments}")
    return clean("\n".join(told))[0]


def _begun(text: str, tokens: int) -> str:
    """Return the text as far as it fits so many tokens."""
    content = clean(text)[0].strip().encode()
    most = max(tokens, 50) * BYTES_PER_TOKEN
    if len(content) <= most:
        return content.decode()
    return f"{content[:most].decode('utf-8', 'ignore')}…"
