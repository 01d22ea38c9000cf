"""What was done to many records, in words: for the toast, and for the history of each."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

UNDO = "undo"


def reason_of(act: str) -> str:
    """Return the reason that stands in the history of each record."""
    reasons = {
        "pin": _("pinned, with others"),
        "unpin": _("unpinned, with others"),
        "lock": _("locked, with others"),
        "unlock": _("unlocked, with others"),
        "tag": _("tagged, with others"),
        "untag": _("a tag was taken off, with others"),
        "trash": _("moved to the trash, with others"),
        "restore": _("restored from the trash, with others"),
        "categorise": _("put in another category, with others"),
        UNDO: _("an act on many records was taken back"),
    }
    return reasons[act]


def doing(act: str) -> str:
    """Return what is being done, for the line that shows how far it is."""
    words = {
        "pin": _("Pinning"),
        "unpin": _("Unpinning"),
        "lock": _("Locking"),
        "unlock": _("Unlocking"),
        "tag": _("Adding a tag"),
        "untag": _("Taking a tag off"),
        "trash": _("Moving to the trash"),
        "restore": _("Restoring from the trash"),
        "categorise": _("Changing the category"),
        UNDO: _("Taking back"),
    }
    return words[act]


def outcome(act: Any) -> str:
    """Return what came of a finished act (a BulkAct) as a sentence or two."""
    words = _done(act.act, act.done) % {"done": f"{act.done:,}", "tag": act.arguments.get("tag")}
    if act.left:
        words += " " + ngettext(
            "%(left)s was left as it was.", "%(left)s were left as they were.", act.left
        ) % {"left": f"{act.left:,}"}
    if act.problem:
        words += " " + act.problem.replace("\n", "; ") + "."
    return words


def _done(act: str, done: int) -> str:
    if done == 0:
        return _("Nothing was changed.")
    sentences = {
        "pin": ngettext("Pinned %(done)s record.", "Pinned %(done)s records.", done),
        "unpin": ngettext("Unpinned %(done)s record.", "Unpinned %(done)s records.", done),
        "lock": ngettext("Locked %(done)s record.", "Locked %(done)s records.", done),
        "unlock": ngettext("Unlocked %(done)s record.", "Unlocked %(done)s records.", done),
        "tag": ngettext(
            "Tagged %(done)s record “%(tag)s”.", "Tagged %(done)s records “%(tag)s”.", done
        ),
        "untag": ngettext(
            "Took the tag “%(tag)s” off %(done)s record.",
            "Took the tag “%(tag)s” off %(done)s records.",
            done,
        ),
        "trash": ngettext(
            "Moved %(done)s record to the trash.", "Moved %(done)s records to the trash.", done
        ),
        "restore": ngettext("Restored %(done)s record.", "Restored %(done)s records.", done),
        "categorise": ngettext(
            "Changed the category of %(done)s record.",
            "Changed the category of %(done)s records.",
            done,
        ),
        UNDO: ngettext(
            "Took it back: %(done)s record is as it was.",
            "Took it back: %(done)s records are as they were.",
            done,
        ),
    }
    return sentences[act]
