"""Taking back what accepting a proposal wrote: by new revisions, and the proposal waits again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.context import identity
from memory.core.actors import Actor
from memory.core.errors import MemoryRefused
from memory.models import Note, Proposal, Revision, User
from memory.models.origins import HEURISTIC
from memory.notes import merging
from memory.pages.review.proposals import title_of
from memory.records import undo
from memory.review import risks
from memory.review import services as review_services
from memory.review.outdated import outdated
from memory.review.services import held_in, wait_again


def take_back(proposal: Proposal, *, by: Actor) -> None:
    """Take back what accepting the proposal wrote, and let it wait again.

    Raises Decided where it was not accepted (or was put back already), and what undoing raises
    where what it wrote was changed since; nothing is changed then.
    """
    with transaction.atomic():
        held = held_in(proposal, Proposal.State.ACCEPTED)
        changes = _changes(held)
        if not (changes and _superseding_undone(held, changes[-1], by)):
            for change in reversed(changes):
                undo.undo(change, by=by)
        wait_again(held, by=by)
    proposal.refresh_from_db()


def _changes(held: Proposal) -> list[Revision]:
    """Return the revisions that accepting it made, in order."""
    found: list[Revision] = []
    for record_type, key, version in held.results:
        mine = Revision.objects.of(held.owner).filter(record_type=record_type, record_id=key)
        found += mine.filter(version=version).order_by("id")[:1]
    return found


def _superseding_undone(held: Proposal, last: Revision, by: Actor) -> bool:
    """Let the older note stand again, where the last change was a note in another's place."""
    record = undo.record_of(last, for_update=True)
    if not isinstance(record, Note) or last.version != 1:
        return False
    older = record.supersedes.order_by("-created").first()
    if older is None:
        return False
    if record.kind not in Note.IDENTITY:
        merging.unmerge(record, by=by)
        return True
    if record.superseded_by_id is not None:
        raise undo.ChangedSince(
            _("Another %(kind)s note stands by now: bring an older one back under Settings.")
            % {"kind": record.get_kind_display()}
        )
    identity.bring_back_soul(held.owner, older, by=by)
    return True


# --- acts ---

ACTS = ("accept", "reject")
SECONDS = 10.0  # of one request; what is left waits on, and it is said
MOST_TOLD = 3


@dataclass(slots=True)
class Decided:
    """What became of many proposals: how many were decided, which could not be, how many are left.

    `apart` were not accepted: they need their own decision.  `at` is the moment that is stored with
    all that were decided: by it they are put back.
    """

    act: str
    done: int = 0
    left: int = 0
    apart: int = 0
    problems: list[str] = field(default_factory=list)
    at: datetime | None = None

    def in_words(self) -> str:
        """Return what was done, for a toast."""
        if self.act == "accept":
            words = ngettext("%(n)d proposal accepted.", "%(n)d proposals accepted.", self.done)
        else:
            words = ngettext("%(n)d proposal rejected.", "%(n)d proposals rejected.", self.done)
        said = [words % {"n": self.done}] if self.done or not self.apart else []
        if self.apart:
            apart = ngettext(
                "%(n)d needs its own decision, because it’s dangerous or out of date.",
                "%(n)d need their own decisions, because they’re dangerous or out of date.",
                self.apart,
            )
            said.append(apart % {"n": self.apart})
        if self.problems:
            stay = ngettext(
                "One could not be, and waits on: %(why)s",
                "%(n)d could not be, and wait on: %(why)s",
                len(self.problems),
            )
            why = " ".join(self.problems[:MOST_TOLD])
            said.append(stay % {"n": len(self.problems), "why": why})
        if self.left:
            left = ngettext(
                "%(n)d is left: press again.", "%(n)d are left: press again.", self.left
            )
            said.append(left % {"n": self.left})
        return " ".join(said)


def decide(
    owner: User,
    proposals: Iterable[Proposal],
    act: str,
    *,
    by: Actor,
    why: str = "",
    seconds: float = SECONDS,
) -> Decided:
    """Accept or reject each of the proposals, for as long as a request may last.

    Those that are dangerous or out of date are not accepted together with others.
    """
    rows = list(proposals)
    done = Decided(act, at=timezone.now())
    if act == "accept":
        behind = outdated(owner, rows)
        together = [
            one for one in rows if one.pk not in behind and not risks.needs_own_decision(one)
        ]
        done.apart, rows = len(rows) - len(together), together
    ends = time.monotonic() + seconds
    for place, one in enumerate(rows):
        if time.monotonic() > ends:
            done.left = len(rows) - place
            break
        one.owner = owner
        try:
            if act == "accept":
                review_services.accept(one, by=by, at=done.at)
            else:
                review_services.reject(one, by=by, why=why, at=done.at)
        except MemoryRefused as exc:
            done.problems.append(f"{title_of(one)}: {exc}")
        else:
            done.done += 1
    return done


@dataclass(slots=True)
class Waiting:
    """How many proposals wait again, and why others do not."""

    number: int = 0
    problems: list[str] = field(default_factory=list)


def put_back(owner: User, at: datetime, *, by: Actor) -> Waiting:
    """Make what was decided in one act, at that moment, wait again; what it wrote is taken back.

    The newest first: of two changes of one file only the newer can be taken back by itself.
    """
    decided = (Proposal.State.REJECTED, Proposal.State.ACCEPTED)
    rows: Any = Proposal.objects.of(owner).filter(
        state__in=decided, decided_at=at, decided_by=str(by)
    )
    again = Waiting()
    for one in rows.order_by("-created", "-pk"):
        one.owner = owner
        was_accepted = one.state == Proposal.State.ACCEPTED
        try:
            (take_back if was_accepted else review_services.put_back)(one, by=by)
        except review_services.Decided:
            continue  # another window was quicker
        except MemoryRefused as exc:
            again.problems.append(f"{title_of(one)}: {exc}")
        else:
            again.number += 1
    return again


# --- what waits from one source -------------------------------------------------------------------


def waiting_from(owner: User, source: str) -> Any:
    """Return what waits from a source, and what the rules took from it without a model."""
    return review_services.waiting(owner).filter(source__in=[source, source + HEURISTIC])


def reject_from(owner: User, source: str, *, by: Actor, why: str) -> int:
    """Reject all that waits from a source, which is forgotten; `why` names that act."""
    rows = list(waiting_from(owner, source))
    return decide(owner, rows, "reject", by=by, why=why, seconds=60.0).done


def rejected_for(owner: User, why: str) -> Any:
    """Return what was rejected for that reason."""
    mine = Proposal.objects.of(owner)
    return mine.filter(state=Proposal.State.REJECTED, decision_reason=why)


def put_back_for(owner: User, why: str, *, by: Actor) -> int:
    """Make what was rejected for that reason wait again; return how many."""
    moments = set(rejected_for(owner, why).values_list("decided_at", flat=True))
    return sum(put_back(owner, at, by=by).number for at in moments)


def nothing_chosen() -> str:
    """Return what is said where no proposal was ticked."""
    return _("Tick the proposals first, or “all that wait”.")


def decided_already() -> str:
    """Return what is said where all that were ticked wait no more."""
    return _("What you ticked was decided already; nothing was changed.")
