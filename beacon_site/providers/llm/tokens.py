"""Trimming a conversation to a model's context window (R183), and counting tokens.

The system prompt and the task (the user's first message) always stay, and as many of the newest
messages as fit.  A tool call and its result stay or go together.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import structlog

from beacon_site.providers.llm.base import Message, Tool
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import ngettext

SHARE = 0.6  # of the window that a history can take (R183)
BYTES_PER_TOKEN = 4  # so that an East Asian character, of three bytes, counts as almost one token
_PER_MESSAGE = 4  # tokens that a chat template adds to each
_FOR_THE_NOTE = 40


def tokens_of(*messages: Message) -> int:
    """Estimate the tokens of the messages by their bytes."""
    size = 0
    for message in messages:
        calls = sum(len(call.name) + len(str(call.arguments)) for call in message.tool_calls)
        size += len(message.content.encode("utf-8", "replace")) + calls
    return size // BYTES_PER_TOKEN + _PER_MESSAGE * len(messages)


def tokens_of_tools(tools: Iterable[Tool]) -> int:
    """Estimate the tokens needed to offer these tools."""
    sizes = (len(one.name) + len(one.description) + len(str(one.parameters)) for one in tools)
    return sum(sizes) // BYTES_PER_TOKEN


def trimmed(messages: Sequence[Message], most: int) -> list[Message]:
    """Return the messages that fit `most` tokens, in their order.

    A task that is too long is cut, and so is the newest group if it doesn't fit, since the model
    needs both.  The task says how many messages are missing.
    """
    head, groups = _parted(messages)
    newest = min(tokens_of(*groups[-1]), most // 2) if groups else 0
    for_head = most - newest - _FOR_THE_NOTE
    if head and tokens_of(*head) > for_head:
        head = [*head[:-1], _cut(head[-1], max(1, for_head - tokens_of(*head[:-1])))]
    room = most - tokens_of(*head) - _FOR_THE_NOTE
    kept: list[list[Message]] = []
    for group in reversed(groups):
        size = tokens_of(*group)
        if size > room:
            if not kept:
                kept.append(_squeezed(group, room))
            break
        kept.append(group)
        room -= size
    left_out = sum(map(len, groups)) - sum(map(len, kept))
    if left_out and head:
        head = [*head[:-1], _with_note(head[-1], left_out)]
    return [*head, *(one for group in reversed(kept) for one in group)]


def _parted(messages: Sequence[Message]) -> tuple[list[Message], list[list[Message]]]:
    """Return the system prompt with the task, and the rest in groups that stay or go whole.

    A result without its call is dropped, and a call without a result gets a placeholder, since
    endpoints refuse both.
    """
    head: list[Message] = []
    groups: list[list[Message]] = []
    waiting: dict[str, bool] = {}
    is_head = True
    for message in messages:
        if is_head and message.role in ("system", "user"):
            head.append(message)
            is_head = message.role == "system"
        elif message.role == "tool":
            if waiting.pop(message.tool_call_id, False):
                groups[-1].append(message)
        else:
            is_head = False
            _answer(groups, waiting)
            groups.append([message])
            waiting = dict.fromkeys((call.id for call in message.tool_calls), True)
    _answer(groups, waiting)
    return head, groups


def _answer(groups: list[list[Message]], waiting: dict[str, bool]) -> None:
    for key in waiting:
        groups[-1].append(Message("tool", _("(no result saved)"), (), key))


def _squeezed(group: Sequence[Message], room: int) -> list[Message]:
    """Return the group with its texts cut to their share of the room."""
    each = max(1, room // len(group) - _PER_MESSAGE)
    return [_cut(one, each) for one in group]


def _cut(message: Message, most: int) -> Message:
    content = message.content.encode("utf-8", "replace")
    if len(content) <= most * BYTES_PER_TOKEN:
        return message
    begun = content[: most * BYTES_PER_TOKEN].decode("utf-8", "ignore")
    return replace(message, content=f"{begun}…")


def _with_note(message: Message, left_out: int) -> Message:
    note = ngettext(
        "(%(n)d message after this was left out because it didn’t fit.)",
        "(%(n)d messages after this were left out because they didn’t fit.)",
        left_out,
    ) % {"n": left_out}
    return replace(message, content=f"{message.content}\n\n{note}")


def without_calls(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation as plain text, for an endpoint without tools.

    Tool results become messages of the user.  Consecutive messages of the user are merged, because
    some chat templates refuse them.
    """
    names = {call.id: call.name for one in messages for call in one.tool_calls}
    told: list[Message] = []
    for message in messages:
        content = message.content
        if message.role == "tool":
            text = _("%(tool)s returned:") % {"tool": names.get(message.tool_call_id, "tool")}
            message = Message("user", f"{text}\n{content}")
        elif message.tool_calls:
            if not content:
                continue
            message = Message("assistant", content)
        if told and message.role == told[-1].role == "user":
            message = replace(message, content=f"{told.pop().content}\n\n{message.content}")
        told.append(message)
    return told


# --- sizes of texts ---

logger = structlog.get_logger(__name__)

ESTIMATED = "estimated"
VOCABULARY = "o200k_base"
_URL = f"https://openaipublic.blob.core.windows.net/encodings/{VOCABULARY}.tiktoken"
_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
_PIECE = 20_000  # characters counted at once, since a single word of megabytes would take minutes


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a text; `how` is ESTIMATED, or the vocabulary used to count its tokens."""

    bytes: int
    tokens: int
    how: str = ESTIMATED

    def __add__(self, other: Size) -> Size:
        return Size(self.bytes + other.bytes, self.tokens + other.tokens, self.how)

    @property
    def is_estimated(self) -> bool:
        return self.how == ESTIMATED


def counted(text: str) -> Size:
    size = len(text.encode("utf-8", "replace"))
    vocabulary = _vocabulary()
    if vocabulary is None:
        return Size(size, -(-size // BYTES_PER_TOKEN))
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return Size(size, sum(len(vocabulary.encode_ordinary(one)) for one in pieces), VOCABULARY)


def count_method_label() -> str:
    """Return a description of how tokens are counted."""
    if _vocabulary() is None:
        return _("estimated at %(n)d bytes per token") % {"n": BYTES_PER_TOKEN}
    return _(
        "counted with the %(name)s tokenizer, so counts for other models may differ slightly"
    ) % {"name": VOCABULARY}


@cache
def _vocabulary() -> Any | None:
    """Return tiktoken's vocabulary, if it's available without a network."""
    if importlib.util.find_spec("tiktoken") is None or not _file_is_there():
        return None
    try:
        return importlib.import_module("tiktoken").get_encoding(VOCABULARY)
    except (ImportError, ValueError, OSError) as exc:
        logger.warning("tiktoken isn't available, so tokens are estimated", why=str(exc))
        return None


def _file_is_there() -> bool:
    """Whether tiktoken's cache has the complete vocabulary.  Otherwise tiktoken would download it."""
    named = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if named == "":  # the cache is turned off
        return False
    folder = Path(named) if named else Path(tempfile.gettempdir()) / "data-gym-cache"
    # A cached file's name is the digest of its URL.
    file = folder / hashlib.sha1(_URL.encode(), usedforsecurity=False).hexdigest()
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == _SHA256
    except OSError:
        return False
