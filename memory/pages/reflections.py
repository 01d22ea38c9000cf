"""The block that shows a reflection: its thoughts, calls, changes, and pending proposals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import TextField, Value
from django.db.models.functions import Cast
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.agents.reflection import RULES
from memory.models import MemoryFile, Proposal, Reflection, User

HELD = "held"


@dataclass(frozen=True, slots=True)
class CallRow:
    """A tool call with its answer."""

    tool: str
    arguments: str
    result: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class ReflectionBlock:
    """The contents of a reflection's block."""

    state: str
    tag: str
    assessment: str
    why: str
    changes: Sequence[dict[str, Any]] = field(default_factory=tuple)
    calls: Sequence[CallRow] = field(default_factory=tuple)

    @property
    def waiting(self) -> list[dict[str, Any]]:
        """Return the changes that wait for approval."""
        return [one for one in self.changes if one["waits"]]

    @property
    def waiting_words(self) -> str:
        """Return the number of pending changes in words; empty if there are none."""
        n = len(self.waiting)
        if not n:
            return ""
        words = ngettext(
            "%(n)d write is waiting for your approval. The file hasn’t changed yet.",
            "%(n)d writes are waiting for your approval. The files haven’t changed yet.",
            n,
        )
        return words % {"n": n}


def shown_of(owner: User, source: str) -> ReflectionBlock | None:
    """Return the reflection on this source as it is shown, None if there is none: two queries."""
    reflection = Reflection.objects.of(owner).filter(source=source).first()
    if reflection is None or reflection.is_unfinished:
        return None
    return ReflectionBlock(
        state=reflection.state,
        tag=_tag(reflection),
        assessment=reflection.assessment,
        why=reflection.why,
        changes=_changes(owner, reflection.changes),
        calls=[_call(one) for one in reflection.calls],
    )


def _tag(reflection: Reflection) -> str:
    if reflection.state == Reflection.State.DONE:
        return _("without a model") if reflection.by == RULES else _("by the model")
    return str(reflection.get_state_display())


def _changes(owner: User, changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each change's file, its outcome, and where to see it (`url` can be empty)."""
    states = _proposal_states(owner, changes)
    return [
        _held(one, states.get(one["proposal"], ""))
        if one["act"] == HELD
        else _written(one, is_there=one["path"] in states)
        for one in changes
    ]


def _proposal_states(owner: User, changes: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the state of each proposal by its key, and each existing file by its path."""
    ids = [one["proposal"] for one in changes if one["act"] == HELD]
    paths = {one["path"] for one in changes if one["act"] != HELD}
    if not changes:
        return {}
    key = Cast("pk", TextField())
    held = Proposal.objects.of(owner).filter(pk__in=ids).order_by().values_list(key, "state")
    files = MemoryFile.objects.of(owner).live().filter(path__in=paths).order_by()
    there = files.values_list("path", Value("there"))
    return dict(held.union(there, all=True))


def _row(path: str, words: str, url: str = "", *, waits: bool = False) -> dict[str, Any]:
    return {"path": path, "words": words, "url": url, "waits": waits}


def _held(change: dict[str, Any], state: str) -> dict[str, Any]:
    if not state:
        return _row(change["path"], _("proposed, then deleted"))
    url = reverse("memory:proposal", args=[change["proposal"]])
    if state == Proposal.State.WAITING:
        return _row(change["path"], _("waiting for you"), url, waits=True)
    words = {
        Proposal.State.ACCEPTED.value: _("proposed and accepted"),
        Proposal.State.REJECTED.value: _("proposed and rejected"),
    }
    said = words.get(state, _("proposed, but expired"))
    return _row(change["path"], said, url)


def _written(change: dict[str, Any], *, is_there: bool) -> dict[str, Any]:
    words = _("version %(n)d") % {"n": change["version"]}
    if not is_there:
        return _row(change["path"], _("%(version)s, since deleted") % {"version": words})
    return _row(change["path"], words, reverse("memory:file", args=[change["path"]]))


def _call(call: dict[str, Any]) -> CallRow:
    arguments = "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in call["arguments"].items()
    )
    return CallRow(call["tool"], arguments, call["result"], bool(call["is_error"]))
