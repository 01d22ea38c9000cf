"""Accepting or rejecting many proposals, and undoing that."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.models import Note, Proposal, Revision, User
from memory.models.actors import Actor
from memory.models.origins import HEURISTIC
from memory.services.context import identity
from memory.services.notes import merging
from memory.services.records import history as record_history
from memory.services.records.acts import BulkResult
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
        changes = Revision.named(held.owner, held.results)
        if not (changes and _superseding_undone(held, changes[-1], by)):
            for change in reversed(changes):
                record_history.undo(change, by=by)
        wait_again(held, by=by)
    proposal.refresh_from_db()


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


def describe(act: str, result: BulkResult) -> str:
    """Return what was done with many proposals, for a toast."""
    if act == "accept":
        words = ngettext("%(n)d proposal accepted.", "%(n)d proposals accepted.", result.done)
    else:
        words = ngettext("%(n)d proposal rejected.", "%(n)d proposals rejected.", result.done)
    parts = [words % {"n": result.done}] if result.done or not result.apart else []
    if result.apart:
        apart = ngettext(
            "%(n)d proposal needs a separate decision because it’s dangerous or out of date.",
            "%(n)d proposals need separate decisions because they’re dangerous or out of date.",
            result.apart,
        )
        parts.append(apart % {"n": result.apart})
    if result.problems:
        stay = ngettext(
            "1 proposal failed and is still pending: %(why)s",
            "%(n)d proposals failed and are still pending: %(why)s",
            len(result.problems),
        )
        parts.append(stay % {"n": len(result.problems), "why": result.why})
    if result.left:
        parts.append(describe_left(result))
    return " ".join(parts)


def describe_left(result: BulkResult) -> str:
    words = ngettext(
        "%(n)d left. Repeat the action to continue.",
        "%(n)d left. Repeat the action to continue.",
        result.left,
    )
    return words % {"n": result.left}


def decide(
    owner: User,
    proposals: Iterable[Proposal],
    act: str,
    *,
    by: Actor,
    why: str = "",
    seconds: float = SECONDS,
    at: datetime | None = None,
) -> BulkResult:
    """Accept or reject each of the proposals, within the time limit of a request.

    Dangerous or outdated ones aren't accepted in bulk. All get the same time (`at`, or now), which
    identifies them for an undo.
    """
    rows = list(proposals)
    at = at or timezone.now()
    done = BulkResult(at)
    if act == "accept":
        behind = outdated(owner, rows)
        together = [
            row for row in rows if row.pk not in behind and not risks.needs_own_decision(row)
        ]
        done.apart, rows = len(rows) - len(together), together

    def perform(one: Proposal) -> None:
        one.owner = owner
        if act == "accept":
            review_services.accept(one, by=by, at=at)
        else:
            review_services.reject(one, by=by, why=why, at=at)

    return done.perform(rows, perform, seconds, title_of)


def restore_state(owner: User, at: datetime, *, by: Actor) -> BulkResult:
    """Reopen what one action decided at that time, and undo what it wrote.

    The newest come first: of two changes to a file, only the newer can be undone by itself.
    """
    decided = (Proposal.State.REJECTED, Proposal.State.ACCEPTED)
    rows: Any = Proposal.objects.for_user(owner).filter(
        state__in=decided, decided_at=at, decided_by=str(by)
    )

    def reopen(one: Proposal) -> None:
        one.owner = owner
        was_accepted = one.state == Proposal.State.ACCEPTED
        (undo_change if was_accepted else review_services.restore_state)(one, by=by)

    return BulkResult(at).perform(
        rows.order_by("-created", "-pk"),
        reopen,
        name=title_of,
        skipped=review_services.AlreadyDecided,
    )


# --- proposals from one source ---


def waiting_from(owner: User, source: str) -> Any:
    """Return what is pending from a source, and what the rules extracted from it without a model."""
    return review_services.waiting(owner).filter(source__in=[source, source + HEURISTIC])


def reject_from(owner: User, source: str, *, by: Actor, why: str) -> int:
    """Reject everything pending from a source that is being deleted (`why` identifies that)."""
    rows = list(waiting_from(owner, source))
    return decide(owner, rows, "reject", by=by, why=why, seconds=60.0).done


def rejected_for(owner: User, why: str) -> Any:
    mine = Proposal.objects.for_user(owner)
    return mine.filter(state=Proposal.State.REJECTED, decision_reason=why)


def restore_state_for(owner: User, why: str, *, by: Actor) -> int:
    """Make what was rejected for that reason pending again; return how many."""
    moments = set(rejected_for(owner, why).values_list("decided_at", flat=True))
    return sum(restore_state(owner, at, by=by).done for at in moments)
