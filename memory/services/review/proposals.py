"""Review of agents' writes: stored immediately, or held until a person decides.

`hold_reason` says whether a write of a tool or the reflector is held.  `hold` stores it as a Proposal, which
agents never read.  A person's `accept` applies it as their own write (`memory.services.review.apply`), and `reject`
doesn't.  Undecided proposals expire after 30 days.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Max, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _lazy

from beacon_site.text.cleaning import clean, one_line, shorten
from beacon_site.text.messages import Message, grouped, ngettext
from beacon_site.text.messages import gettext as _
from memory.models import (
    Activity,
    Note,
    Proposal,
    RefusedSource,
    ReviewLevel,
    Revision,
    Trust,
    User,
)
from memory.models.actors import MAINTENANCE, Actor
from memory.models.errors import InvalidValue, LimitReached, Locked, MemoryRefused
from memory.models.history import as_json
from memory.models.proposals import PROPOSAL_LIFETIME
from memory.services.notes.saving import MAX_SCOPE_LENGTH
from memory.services.review import risks
from memory.services.review.apply import APPLY, CHECKS, MERGE, ApplyResult, lines_of
from memory.services.review.risks import HoldReasons, Risk, Write, found_risks

MAX_WAITING = 1_000  # of one owner
MAX_WAITING_OF_ONE = 400  # of one agent, so that it can't use up the limit for all others
MAX_BYTES = 1_048_576  # of one proposal: twice the largest file, with some room
MAX_REASON_LENGTH = 2_000
# The record type of each kind of write.
RECORD_TYPES = {
    "file": "memoryfile",
    "rule": "note",
    "soul": "note",
    "note": "note",
    "observation": "observation",
}
# Persona and profile are part of the identity, like the soul.
_LIKE_THE_SOUL = ("agent", "user")


class AlreadyDecided(MemoryRefused):
    """The proposal is no longer pending: it was decided, or it expired."""


def kind_of_note(*kinds: str) -> str:
    """Return the strictest kind of write among these kinds of notes."""
    if set(kinds) & {kind.value for kind in Note.IDENTITY}:
        return "soul"
    return "rule" if Note.Kind.RULE in kinds else "note"


def hold_reason(write: Write) -> str:
    """Return why a write is held, or "" if it is stored immediately.

    A person's write is never held, and a quarantined one always is.  Raises SourceBlocked if the
    owner blocked its writer.
    """
    if write.by.is_person:
        return ""
    check_not_blocked(write.owner, write.by)
    if write.kind in _LIKE_THE_SOUL:
        write = replace(write, kind="soul")
    level = level_of(write.owner, write.kind, write.by)
    if level == ReviewLevel.Level.ACCEPT and write.trust != Trust.QUARANTINED:
        return ""
    why = found_risks(write)
    if level == ReviewLevel.Level.HOLD_ALL:
        why = why or [Risk("every-write")]
    return HoldReasons(why)


def check_unreviewed(owner: User, kind: str, *, by: Actor, act: str) -> None:
    """Raise Locked for an action that can't be held, if the owner reviews everything agents write.

    `act` describes it, as the start of a sentence.
    """
    if not by.is_person and level_of(owner, kind, by) == ReviewLevel.Level.HOLD_ALL:
        words = _(
            "%(act)s isn’t allowed because the user reviews all agent writes and this one can’t be held for review. Nothing was changed. Ask the user to do it."
        )
        raise Locked(words % {"act": act})


def waiting(owner: User) -> Any:
    """Return the pending proposals, the most dangerous first, then the oldest."""
    return Proposal.objects.for_user(owner).waiting()


def hold(
    owner: User,
    kind: str,
    *,
    by: Actor,
    source: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    why: str,
    held: str,
    target_id: UUID | None = None,
    version_seen: int | None = None,
) -> Proposal:
    """Store a write as a proposal and log it; the same write again adds nothing.

    `kind` is the kind of write or the record type, and `after` is what `APPLY` of that type takes.
    Raises InvalidValue for what could never be stored, LimitReached if too many proposals are pending,
    SourceBlocked if the owner blocked the source.
    """
    check_not_blocked(owner, by, source)
    record_type = RECORD_TYPES.get(kind, kind)
    if record_type not in APPLY:
        known = ", ".join(RECORD_TYPES)
        raise InvalidValue(_("“%(kind)s” can’t be proposed. Choose one of: %(known)s.") % locals())
    proposal = Proposal(
        owner=owner,
        actor=str(by),
        source=one_line(clean(source)[0])[:MAX_SCOPE_LENGTH],
        record_type=record_type,
        target_id=target_id,
        version_seen=version_seen,
        before=_stored(before),
        after=_stored(after),
        reason=shorten(clean(why)[0], MAX_REASON_LENGTH),
        hold_reasons=held,
    )
    CHECKS[record_type](proposal)
    risks.rate(proposal, held)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=owner.pk)
        same = waiting(owner).filter(
            actor=proposal.actor, source=proposal.source, record_type=record_type,
            target_id=target_id, after=proposal.after,
        ).first()  # fmt: skip
        if same is not None:
            return same  # type: ignore[no-any-return]
        _check_room(owner, proposal.actor)
        proposal.save(force_insert=True)
        Activity.log(owner, by, "held", subject=proposal, label=proposal.label, why=held)
    return proposal


def _check_room(owner: User, actor: str) -> None:
    every = waiting(owner)
    have, own = every.count(), every.filter(actor=actor).count()
    if have >= MAX_WAITING:
        problem = _(
            "%(have)s proposals are already pending, and the limit is %(most)s. Nothing was saved. Ask the user to open the Inbox."
        )
        raise LimitReached(problem % {"have": grouped(have), "most": grouped(MAX_WAITING)})
    if own >= MAX_WAITING_OF_ONE:
        problem = _(
            "%(have)s proposals from this agent are already pending, and the limit is %(most)s. Nothing was saved. Ask the user to open the Inbox."
        )
        raise LimitReached(problem % {"have": grouped(own), "most": grouped(MAX_WAITING_OF_ONE)})


def _stored(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields in a form that Postgres can store.  Raises LimitReached for too much text."""
    kept: dict[str, Any] = as_json(_cleaned(dict(fields)))
    size = sum(len(str(value).encode(errors="replace")) for value in kept.values())
    if size > MAX_BYTES:
        params = {"have": grouped(size), "most": grouped(MAX_BYTES)}
        problem = _(
            "The proposal is %(have)s bytes, but the limit is %(most)s. Nothing was saved. Split it into smaller proposals."
        )
        raise LimitReached(problem % params)
    return kept


def _cleaned(value: Any) -> Any:
    """Return the value without characters that can't be stored."""
    if isinstance(value, str):
        return clean(value)[0]
    if isinstance(value, Mapping):
        return {clean(str(key))[0]: _cleaned(each) for key, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, list | tuple) else value


# --- decisions ------------------------------------------------------------------------------------


def accept(
    proposal: Proposal,
    *,
    by: Actor,
    after: Mapping[str, Any] | None = None,
    seen: str = "",
    at: datetime | None = None,
) -> ApplyResult:
    """Apply the write as the person's own, and return the resulting record.

    `after` is the person's edited version, `seen` the token of the text they saw (from `MergeConflict`), and
    `at` the time shared by proposals accepted together (default: now).  Raises AlreadyDecided if it isn't
    pending, MergeConflict (with base, mine and theirs) if its target has changed in the same lines, and what
    the record's own rules raise.  The proposal stays pending in all these cases.
    """
    _only_people(by)
    with transaction.atomic():
        held = _locked_if_pending(proposal)
        wanted = {**held.after, **_stored(after)} if after is not None else held.after
        last = Revision.objects.aggregate(last=Max("id"))["last"] or 0
        applied = perform(held, wanted, by, seen)
        edited = wanted if wanted != held.after else {}
        fields = {
            "edited": edited,
            "result_id": applied.record.pk,
            "results": _written(held, applied, by, last),
            "decided_at": at or timezone.now(),
        }
        held = _decide(held, Proposal.State.ACCEPTED, by, **fields)
        Activity.log(
            held.owner, by, "proposal-accepted", subject=held, label=held.label,
            edited=_("yes") if edited else "",
        )  # fmt: skip
    _copy_state(proposal, held)
    return applied


def perform(held: Proposal, values: Mapping[str, Any], by: Actor, seen: str) -> ApplyResult:
    """Apply the proposal in the caller's transaction, without changing its row.

    `memory.pages.review.proposals` also calls it and rolls back.  Raises what `accept` does.
    """
    if held.record_type not in APPLY:
        # `hold` and imports refuse unknown types, but another version of Beacon could have stored one.
        message = _("This version of Beacon can’t store “%(kind)s”. Reject the proposal instead.")
        raise MemoryRefused(message % {"kind": shorten(held.record_type, 40)})
    return APPLY[held.record_type](held, values, by, seen)


def _written(held: Proposal, applied: ApplyResult, by: Actor, last: int) -> list[list[Any]]:
    """Return the revisions that accepting created: those of its records after `last`."""
    ids = [applied.record.pk, *(one.pk for one in applied.others)]
    made = Revision.objects.for_user(held.owner).filter(
        record_id__in=ids, id__gt=last, actor=str(by)
    )
    rows = made.order_by("id").values_list("record_type", "record_id", "version")
    return [[record_type, str(key), version] for record_type, key, version in rows]


def reject(proposal: Proposal, *, by: Actor, why: str = "", at: datetime | None = None) -> None:
    """Reject the proposal, which can be undone.  Raises AlreadyDecided if it isn't pending.

    `at` is the time shared by proposals rejected together (default: now).
    """
    _only_people(by)
    reason = why if isinstance(why, Message) else shorten(clean(why)[0], MAX_REASON_LENGTH)
    with transaction.atomic():
        fields = {"decision_reason": reason, "decided_at": at or timezone.now()}
        held = _decide(_locked_if_pending(proposal), Proposal.State.REJECTED, by, **fields)
        Activity.log(
            held.owner, by, "proposal-rejected", subject=held, label=held.label, why=reason
        )
    _copy_state(proposal, held)


def restore_state(proposal: Proposal, *, by: Actor) -> None:
    """Reopen a rejected proposal.  Raises AlreadyDecided if it wasn't rejected."""
    _only_people(by)
    with transaction.atomic():
        held = held_in(proposal, Proposal.State.REJECTED)
        wait_again(held, by=by)
    _copy_state(proposal, held)


def held_in(proposal: Proposal, state: Proposal.State) -> Proposal:
    """Return the proposal's row, locked.  Raises AlreadyDecided if it has another state."""
    held = _locked(proposal)
    if held.state != state:
        params = {"wanted": state.label, "state": held.get_state_display()}
        raise AlreadyDecided(
            _("Only a proposal that was %(wanted)s can be reopened. This one is %(state)s.")
            % params
        )
    return held


def wait_again(held: Proposal, *, by: Actor) -> None:
    """Reopen a decided proposal, whose row the caller has locked."""
    _only_people(by)
    for name, value in _UNDECIDED.items():
        setattr(held, name, value)
    # It gets at least a day, since one decided long ago would expire immediately.
    held.expires_at = max(held.expires_at, timezone.now() + timedelta(days=1))
    held.save(update_fields=[*_DECISION, "expires_at"])
    Activity.log(held.owner, by, "proposal-reopened", subject=held, label=held.label)


_UNDECIDED: dict[str, Any] = {
    "state": Proposal.State.WAITING, "decided_by": "", "decided_at": None, "decision_reason": "",
    "edited": {}, "result_id": None, "results": [],
}  # fmt: skip
_DECISION = tuple(_UNDECIDED)


def _only_people(by: Actor) -> None:
    if not by.is_person:
        raise InvalidValue(_("Only a person can decide on a proposal."))


def _locked(proposal: Proposal) -> Proposal:
    row: Proposal = Proposal.objects.select_for_update(of=("self",)).get(pk=proposal.pk)
    row.owner = proposal.owner
    return row


def _locked_if_pending(proposal: Proposal) -> Proposal:
    """Return the proposal's row, locked.  Raises AlreadyDecided if it isn't pending."""
    row = _locked(proposal)
    if row.state != Proposal.State.WAITING:
        params = {"state": row.get_state_display()}
        raise AlreadyDecided(
            _("This proposal has already been %(state)s. Nothing was changed.") % params
        )
    if not row.is_waiting:
        raise AlreadyDecided(_("This proposal expired after 30 days. Nothing was changed."))
    return row


def _decide(held: Proposal, state: str, by: Actor, **fields: Any) -> Proposal:
    decided = {"state": state, "decided_by": str(by), "decided_at": timezone.now(), **fields}
    for name, value in decided.items():
        setattr(held, name, value)
    held.save(update_fields=_DECISION)
    return held


def _copy_state(proposal: Proposal, held: Proposal) -> None:
    """Copy the row's state to the caller's object."""
    for name in (*_DECISION, "expires_at"):
        setattr(proposal, name, getattr(held, name))


def expire_due() -> int:
    """Expire proposals after 30 days, with one log line per owner; return how many."""
    due = Proposal.objects.filter(state=Proposal.State.WAITING, expires_at__lte=timezone.now())
    with transaction.atomic():
        ids = list(
            due.order_by("pk").select_for_update(skip_locked=True).values_list("pk", flat=True)
        )
        rows = Proposal.objects.filter(pk__in=ids)
        for owner, number in rows.order_by().values_list("owner").annotate(n=Count("pk")):
            params = {"number": number, "days": PROPOSAL_LIFETIME.days}
            Activity.log(
                User.objects.get(pk=owner), MAINTENANCE, "proposals-expired",
                label=_("proposals that expired after %(days)s days: %(number)s") % params,
            )  # fmt: skip
        rows.update(
            state=Proposal.State.EXPIRED, decided_by=str(MAINTENANCE), decided_at=timezone.now()
        )
    return len(ids)


# --- blocked sources (`memory.services.review.blocking` blocks them) ---

Kind = RefusedSource.Kind


class SourceBlocked(Locked):
    """The owner blocked this source."""


def check_not_blocked(owner: User, by: Actor, source: str = "") -> None:
    """Raise Refused, and count it, if the owner blocked this agent or source."""
    if by.kind != "agent":
        return
    condition = Q(kind=Kind.AGENT, name=by.name) | Q(kind=Kind.SOURCE, name=source)
    row = RefusedSource.objects.for_user(owner).filter(condition).first()
    if row is None:
        return
    RefusedSource.objects.filter(pk=row.pk).count_refusals()
    raise SourceBlocked(
        _(
            "The user blocked “%(name)s” from writing. Nothing was stored. Don’t try again. The user can unblock it under Inbox → Blocked sources."
        )
        % {"name": row.name}
    )


def refused_domains(owner: User) -> list[str]:
    """Return the domains that no run reads."""
    rows = RefusedSource.objects.for_user(owner).filter(kind=Kind.DOMAIN)
    return list(rows.values_list("name", flat=True))


def count_pages(owner: User, domain: str, number: int) -> None:
    """Count the pages of a blocked domain that a run skipped."""
    RefusedSource.objects.for_user(owner).filter(kind=Kind.DOMAIN, name=domain).count_refusals(
        number
    )


# --- review rules: which writes of agents wait for the owner, by kind of write ---

DEFAULT_LEVEL = "default"
# The kinds of writes.  Persona and profile use the soul's level.
REVIEWED_KINDS = {
    "file": _lazy("Memory files"),
    "rule": _lazy("Rules"),
    "soul": _lazy("Soul"),
    "note": _lazy("Notes"),
    "observation": _lazy("Observations"),
}
LEVEL_NAMES = {DEFAULT_LEVEL: _lazy("Everything else"), **REVIEWED_KINDS}
LEVEL_MEANINGS = {
    ReviewLevel.Level.ACCEPT.value: _lazy(
        "Everything is saved immediately, even text from the web. Only quarantined writes wait for your approval."
    ),
    ReviewLevel.Level.HOLD_RISKY.value: _lazy(
        "Risky writes wait for your approval. Everything else is saved immediately. This is the default."
    ),
    ReviewLevel.Level.HOLD_ALL.value: _lazy("Every write by an agent waits for your approval."),
}


def levels_of(owner: User) -> dict[str, str]:
    """Return the level of each of REVIEWED_KINDS, and the default level; one query."""
    own = own_levels(owner)
    default = own.get(DEFAULT_LEVEL, ReviewLevel.Level.HOLD_RISKY.value)
    return {DEFAULT_LEVEL: default, **{kind: own.get(kind, default) for kind in REVIEWED_KINDS}}


def own_levels(owner: User, writer: str = "") -> dict[str, str]:
    """Return the levels that the owner chose, for all writers or for one; others use the default."""
    rows = ReviewLevel.objects.for_user(owner).filter(kind__in=LEVEL_NAMES, writer=writer)
    return dict(rows.values_list("kind", "level"))


def levels_of_writers(owner: User) -> list[ReviewLevel]:
    """Return the owner's rules for single writers."""
    rows = ReviewLevel.objects.for_user(owner).filter(kind__in=LEVEL_NAMES).exclude(writer="")
    return list(rows.order_by("writer", "kind"))


def level_of(owner: User, kind: str, by: Actor) -> str:
    """Return the level for writes of this kind by `by`: the writer's own, the kind's, the default."""
    rows = ReviewLevel.objects.for_user(owner).filter(
        kind__in=[kind, DEFAULT_LEVEL], writer__in=["", str(by)]
    )
    own: dict[tuple[str, str], str] = {(row.writer, row.kind): row.level for row in rows}
    for key in ((str(by), kind), ("", kind), ("", DEFAULT_LEVEL)):
        if key in own:
            return own[key]
    return ReviewLevel.Level.HOLD_RISKY.value


def set_levels(owner: User, values: Mapping[str, str], *, by: Actor, writer: str = "") -> bool:
    """Set levels ("" means the default) and return whether any changed.

    `writer` is the actor that they apply to, such as `agent:claude`, or "" for all.

    Only a person can, since an agent could let itself through.  Raises InvalidValue for an unknown
    kind or level; nothing is changed then.
    """
    if not by.is_person:
        raise InvalidValue(_("Only a person can set how agents’ writes are reviewed."))
    for kind, level in values.items():
        if kind not in LEVEL_NAMES or level not in {"", *ReviewLevel.Level.values}:
            words = {"level": level[:40], "kind": kind[:40]}
            words["known"] = ", ".join(ReviewLevel.Level.values)
            problem = _(
                "“%(level)s” isn’t a valid review rule for “%(kind)s”. Choose one of: %(known)s."
            )
            raise InvalidValue(problem % words)
    before = own_levels(owner, writer)
    changed = {kind: level for kind, level in values.items() if before.get(kind, "") != level}
    if not changed:
        return False
    with transaction.atomic():
        for kind, level in changed.items():
            rows = ReviewLevel.objects
            if level:
                rows.update_or_create(
                    owner=owner, kind=kind, writer=writer, defaults={"level": level}
                )
            else:
                rows.filter(owner=owner, kind=kind, writer=writer).delete()
        fields: dict[str, Any] = {kind: level or _("default") for kind, level in changed.items()}
        if writer:
            fields["writer"] = writer
        Activity.log(owner, by, "review-levels-changed", subject=owner, **fields)
    return True


def title_of(proposal: Proposal) -> str:
    """Return what the proposal is for: a file's path, or the kind of record it would create."""
    after = proposal.after
    if proposal.record_type == "memoryfile":
        return str(after.get("path", ""))
    if proposal.record_type == "observation":
        number = len(lines_of(after))
        return ngettext("1 observation", "%(n)d observations", number) % {"n": number}
    if after.get("act") == MERGE:
        number = len(after.get("versions", ()))
        return ngettext("Merge of 1 note into another", "Merge of %(n)d notes", number) % {
            "n": number
        }
    kinds = {
        Note.Kind.RULE.value: _("A rule"),
        Note.Kind.SOUL.value: _("The soul"),
        Note.Kind.AGENT.value: _("The persona"),
        Note.Kind.USER.value: _("The profile"),
        Note.Kind.SUMMARY.value: _("A summary note"),
    }
    return kinds.get(str(after.get("kind", "")), _("A note"))
