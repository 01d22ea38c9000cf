"""Accepting or rejecting many proposals, and undoing that."""

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

from memory.models import Note, Proposal, Revision, User
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused
from memory.models.origins import HEURISTIC
from memory.services.context import identity
from memory.services.notes import merging
from memory.services.records import history as record_history
from memory.services.review import proposals as review_services
from memory.services.review import risks
from memory.services.review.outdated import outdated
from memory.services.review.proposals import held_in, title_of, wait_again


def undo_change(proposal: Proposal, *, by: Actor) -> None:
    """Undo what accepting the proposal wrote, and make it pending again.

    Raises AlreadyDecided if it wasn't accepted (or is already undone), and what undoing raises if its
    records have changed since; nothing is changed then.
    """
    with transaction.atomic():
        held = held_in(proposal, Proposal.State.ACCEPTED)
        changes = _changes(held)
        if not (changes and _superseding_undone(held, changes[-1], by)):
            for change in reversed(changes):
                record_history.undo(change, by=by)
        wait_again(held, by=by)
    proposal.refresh_from_db()


def _changes(held: Proposal) -> list[Revision]:
    """Return the revisions that accepting it created, in order."""
    found: list[Revision] = []
    for record_type, key, version in held.results:
        mine = Revision.objects.of(held.owner).filter(record_type=record_type, record_id=key)
        found += mine.filter(version=version).order_by("id")[:1]
    return found


def _superseding_undone(held: Proposal, last: Revision, by: Actor) -> bool:
    """Make the older note current again, if the last change replaced a note."""
    record = record_history.record_of(last, for_update=True)
    if not isinstance(record, Note) or last.version != 1:
        return False
    older = record.supersedes.order_by("-created").first()
    if older is None:
        return False
    if record.kind not in Note.IDENTITY:
        merging.unmerge(record, by=by)
        return True
    if record.superseded_by_id is not None:
        raise record_history.ChangedSince(
            _("There’s a newer %(kind)s note now. To restore an older one, open Agents → Identity.")
            % {"kind": record.get_kind_display()}
        )
    identity.restore_soul(held.owner, older, by=by)
    return True


# --- many proposals ---

ACTS = ("accept", "reject")
SECONDS = 10.0  # of one request; the rest stay pending, and the toast says so
MOST_TOLD = 3


@dataclass(slots=True)
class BulkDecision:
    """The result for many proposals: how many were decided, which failed, how many are left.

    `apart` are those that need their own decision and weren't accepted. `at` is stored with all
    that were decided, and identifies them for an undo.
    """

    act: str
    done: int = 0
    left: int = 0
    apart: int = 0
    problems: list[str] = field(default_factory=list)
    at: datetime | None = None

    def in_words(self) -> str:
        """Return the outcome, for a toast."""
        if self.act == "accept":
            words = ngettext("%(n)d proposal accepted.", "%(n)d proposals accepted.", self.done)
        else:
            words = ngettext("%(n)d proposal rejected.", "%(n)d proposals rejected.", self.done)
        said = [words % {"n": self.done}] if self.done or not self.apart else []
        if self.apart:
            apart = ngettext(
                "%(n)d needs a separate decision, because it’s dangerous or out of date.",
                "%(n)d need separate decisions, because they’re dangerous or out of date.",
                self.apart,
            )
            said.append(apart % {"n": self.apart})
        if self.problems:
            stay = ngettext(
                "1 failed and is still pending: %(why)s",
                "%(n)d failed and are still pending: %(why)s",
                len(self.problems),
            )
            why = " ".join(self.problems[:MOST_TOLD])
            said.append(stay % {"n": len(self.problems), "why": why})
        if self.left:
            left = ngettext(
                "%(n)d left. Repeat to continue.",
                "%(n)d left. Repeat to continue.",
                self.left,
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
) -> BulkDecision:
    """Accept or reject each of the proposals, within the time limit of a request.

    Dangerous or outdated ones aren't accepted in bulk.
    """
    rows = list(proposals)
    done = BulkDecision(act, at=timezone.now())
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


def restore_state(owner: User, at: datetime, *, by: Actor) -> tuple[int, list[str]]:
    """Reopen what one action decided at that time, and undo what it wrote.

    Return how many are pending again, and why others aren't.

    The newest come first: of two changes to a file, only the newer can be undone by itself.
    """
    decided = (Proposal.State.REJECTED, Proposal.State.ACCEPTED)
    rows: Any = Proposal.objects.of(owner).filter(
        state__in=decided, decided_at=at, decided_by=str(by)
    )
    number, problems = 0, []
    for one in rows.order_by("-created", "-pk"):
        one.owner = owner
        was_accepted = one.state == Proposal.State.ACCEPTED
        try:
            (undo_change if was_accepted else review_services.restore_state)(one, by=by)
        except review_services.AlreadyDecided:
            continue  # another window was faster
        except MemoryRefused as exc:
            problems.append(f"{title_of(one)}: {exc}")
        else:
            number += 1
    return number, problems


# --- proposals from one source ---


def waiting_from(owner: User, source: str) -> Any:
    """Return what is pending from a source, and what the rules extracted from it without a model."""
    return review_services.waiting(owner).filter(source__in=[source, source + HEURISTIC])


def reject_from(owner: User, source: str, *, by: Actor, why: str) -> int:
    """Reject everything pending from a source that is being deleted (`why` identifies that)."""
    rows = list(waiting_from(owner, source))
    return decide(owner, rows, "reject", by=by, why=why, seconds=60.0).done


def rejected_for(owner: User, why: str) -> Any:
    """Return what was rejected for that reason."""
    mine = Proposal.objects.of(owner)
    return mine.filter(state=Proposal.State.REJECTED, decision_reason=why)


def restore_state_for(owner: User, why: str, *, by: Actor) -> int:
    """Make what was rejected for that reason pending again; return how many."""
    moments = set(rejected_for(owner, why).values_list("decided_at", flat=True))
    return sum(restore_state(owner, at, by=by)[0] for at in moments)


def nothing_chosen() -> str:
    """Return the message for an empty selection."""
    return _("Select at least one proposal, or “all pending”.")


def decided_already() -> str:
    """Return the message for a selection without pending proposals."""
    return _("Nothing changed. The selected proposals have already been decided.")
