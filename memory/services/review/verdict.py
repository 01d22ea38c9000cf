"""The result of accepting a proposal, and the interface for applying each type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.text.diff import Merge
from memory.models import Proposal, Remembered
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused

# Values of `act` in a proposal's `after`, if it neither creates nor replaces a note.
MERGE, TRASH = "merge", "trash"


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """The result of an accepted proposal: the record, and whether changes were merged.

    `others` are records that changed with it: the superseded note, or further observations.
    """

    record: Remembered
    merged: bool = False
    warnings: tuple[str, ...] = ()
    others: tuple[Remembered, ...] = ()


class MergeConflict(MemoryRefused):
    """The target has changed since the proposal, and the two changes can't be merged.

    `base`, `mine` (the proposal's) and `theirs` (the current one) are complete texts; `token` identifies
    the current one, for accepting on top of it.
    """

    def __init__(self, label: str, merge: Merge, *, token: str) -> None:
        super().__init__(
            _(
                "The same lines of “%(label)s” changed after this was proposed. Nothing was saved. Compare both texts, then save the one you want."
            )
            % {"label": label}
        )
        self.merge = merge
        self.token = token
        self.base = "".join(part.base for part in merge.parts)
        self.mine = "".join(part.mine for part in merge.parts)
        self.theirs = "".join(part.theirs for part in merge.parts)


# A proposal, its edited content, who accepts it, and the token of the text they saw ("" is the one that
# the proposal is based on).
CarryOut = Callable[[Proposal, Mapping[str, Any], Actor, str], ApplyResult]


@dataclass(frozen=True, slots=True)
class ProposalHandler:
    """How proposals for one record type are checked and applied.

    `check` raises InvalidValue or LimitReached for what could never be stored, so that the agent learns
    it immediately; `perform` stores it as the person's own.
    """

    check: Callable[[Proposal], None]
    perform: CarryOut


def why_of(proposal: Proposal) -> str:
    """Return the reason of an accepted write for the history."""
    told = {"who": proposal.actor, "why": proposal.reason}
    if proposal.reason:
        return _("accepted from %(who)s: %(why)s") % told
    return _("accepted from %(who)s") % told
