"""What accepting a proposal gives back, and how a kind of write is carried out once it is accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from beacon_site.text.merge import Merge
from memory.core.actors import Actor
from memory.core.errors import MemoryRefused
from memory.models import Proposal, Remembered

# What `act` of a proposal's `after` says where it neither makes nor replaces a note.
MERGE, TRASH = "merge", "trash"


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of an accepted proposal: the record, whether both changes were put together.

    `others` are records that were changed with it: the note that it supersedes, further observations.
    """

    record: Remembered
    merged: bool = False
    warnings: tuple[str, ...] = ()
    others: tuple[Remembered, ...] = ()


class Overtaken(MemoryRefused):
    """What the proposal would change says something else by now, and the two do not go together.

    `base`, `mine` (the proposal's) and `theirs` (what stands) are whole texts; `token` names what
    stands, for the accepting that is based on it.
    """

    def __init__(self, label: str, merge: Merge, *, token: str) -> None:
        super().__init__(
            _(
                "“%(label)s” changed in the same lines after this was proposed. Nothing was saved. "
                "Compare both texts, then save the one you want."
            )
            % {"label": label}
        )
        self.merge = merge
        self.token = token
        self.base = "".join(part.base for part in merge.parts)
        self.mine = "".join(part.mine for part in merge.parts)
        self.theirs = "".join(part.theirs for part in merge.parts)


# A proposal, what is wanted of it by now, who accepts it, and the token of what they saw ("" is what
# the proposal itself was based on).
CarryOut = Callable[[Proposal, Mapping[str, Any], Actor, str], Applied]


@dataclass(frozen=True, slots=True)
class Applier:
    """One type of record that can be proposed.

    `check` raises InvalidValue or LimitReached for what could never be stored, so that its writer
    hears of it at once; `carry_out` stores it as the person's own.
    """

    check: Callable[[Proposal], None]
    carry_out: CarryOut


def why_of(proposal: Proposal) -> str:
    """Return what the history says of an accepted write."""
    told = {"who": proposal.actor, "why": proposal.reason}
    if proposal.reason:
        return _("accepted from %(who)s: %(why)s") % told
    return _("accepted from %(who)s") % told
