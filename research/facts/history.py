"""The history of a topic fact: who changed it, when, why, and from what to what."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from memory.models import Lock, Revision, TopicFact
from research.models import Run

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of words: `kind` is same, ins or del."""

    kind: str
    words: str


@dataclass(slots=True)
class Change:
    """One revision as a row: what it did in words, and the words that changed."""

    revision: Revision
    run: Run | None
    said: list[str]
    words: list[Piece]

    @property
    def who(self) -> str:
        """Return who made it, as people say it."""
        return self.revision.actor.removeprefix("human:")


def history_of(fact: TopicFact) -> list[Change]:
    """Return the fact's changes, the latest first: two queries."""
    revisions = list(
        Revision.objects.filter(record_type=fact.record_type(), record_id=fact.pk).order_by("-id")
    )
    ids = {
        r.source[4:] for r in revisions if r.source.startswith("run:") and r.source[4:].isdecimal()
    }
    runs = Run.objects.filter(topic=fact.topic_id).in_bulk(ids) if ids else {}
    return [_change(revision, runs) for revision in revisions]


def _change(revision: Revision, runs: dict[Any, Run]) -> Change:
    before, after = revision.before, revision.after
    number = revision.source.removeprefix("run:")
    run = runs.get(int(number)) if number.isdecimal() else None
    if not before:
        words = [Piece("same", str(after.get("text", "")))]
        return Change(revision, run, [_("first written")], words)
    has_text = "text" in before and before["text"] != after.get("text")
    words = word_diff(str(before["text"]), str(after["text"])) if has_text else []
    return Change(revision, run, _said(before, after), words)


def _said(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return what a revision did besides its words."""
    states = dict(TopicFact.State.choices)
    changed = {name for name in after if before.get(name) != after[name]}
    said = []
    if "text" in changed:
        said.append(_("words changed"))
    if "url" in changed:
        said.append(_("source is now %(url)s") % {"url": after["url"] or _("empty")})
    if "state" in changed:
        said.append(
            _("%(old)s → %(new)s")
            % {"old": states.get(before["state"], ""), "new": states.get(after["state"], "")}
        )
    if "lock" in changed:
        said.append(_("unlocked") if after["lock"] == Lock.OPEN else _("locked"))
    if "position" in changed:
        places = {"old": before["position"], "new": after["position"]}
        said.append(_("place %(old)s → %(new)s") % places)
    if "trashed_at" in changed:
        said.append(_("to the trash") if after["trashed_at"] else _("from the trash"))
    return said


def word_diff(before: str, after: str) -> list[Piece]:
    """Return both texts as one, with the words taken out and put in."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    pieces: list[Piece] = []
    for what, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if what == "equal":
            pieces.append(Piece("same", "".join(old[a:b])))
            continue
        if a < b:
            pieces.append(Piece("del", "".join(old[a:b])))
        if c < d:
            pieces.append(Piece("ins", "".join(new[c:d])))
    return pieces
