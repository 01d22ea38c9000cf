"""Taking back what accepting a proposal wrote: by new revisions, and the proposal waits again."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from memory.actors import Actor
from memory.contexts import identity
from memory.models import Note, Proposal, Revision
from memory.notes import merging
from memory.records import undoing
from memory.reviewing.review import held_in, wait_again


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
                undoing.undo(change, by=by)
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
    record = undoing.record_of(last, for_update=True)
    if not isinstance(record, Note) or last.version != 1:
        return False
    older = record.supersedes.order_by("-created").first()
    if older is None:
        return False
    if record.kind not in Note.IDENTITY:
        merging.unmerge(record, by=by)
        return True
    if record.superseded_by_id is not None:
        raise undoing.ChangedSince(
            _("Another %(kind)s note stands by now: bring an older one back under Settings.")
            % {"kind": record.get_kind_display()}
        )
    identity.bring_back_soul(held.owner, older, by=by)
    return True
