"""The trust of what an agent has read, which limits what it writes next.

It is stored in the agent's row, since each call of a program can reach another process, by MCP or REST.
So text from a page can't be stored as the agent's own words a minute later.  `memory.api.auth.Caller`
reads and updates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, Count, Exists, Min, OuterRef, Q, TextField, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _

from memory.models import Agent, Note, Proposal, ReviewLevel, Revision, Trust, User, origins
from memory.models.history import actor_kind
from memory.services.notes.saving import TRUSTS, lowest_trust
from memory.services.review.proposals import DEFAULT_LEVEL, REVIEWED_KINDS

KEPT = timedelta(hours=1)  # after an agent's last call, during which what it read still counts
NOTED_EACH = timedelta(minutes=1)  # between two updates of the time of the last call


def before(agent: Agent, trust: str, *, at: datetime | None = None) -> str:
    """Return `trust`, or the trust of what the agent has read if that is lower."""
    now = at or timezone.now()
    if not agent.read_trust or agent.read_at is None or agent.read_at <= now - KEPT:
        return trust
    return lowest_trust([trust, agent.read_trust])


def held_until(agent: Agent) -> datetime | None:
    """Return until when the agent's writes are held because of what it has read."""
    now = timezone.now()
    if before(agent, TRUSTS[-1], at=now) not in (Trust.EXTERNAL, Trust.QUARANTINED):
        return None
    return agent.read_at + KEPT if agent.read_at else None


def note(agent: Agent, trust: str, *, at: datetime | None = None) -> None:
    """Store the trust at the end of a call; `agent` is the row at its start.

    A call that started before another one read external text doesn't raise the trust again.
    """
    now = at or timezone.now()
    if trust == TRUSTS[-1] or _is_noted(agent, trust, now):
        return
    row = Agent.objects.filter(pk=agent.pk)
    no_lower = [one.value for one in TRUSTS[TRUSTS.index(trust) :]]
    is_over = Q(read_at=None) | Q(read_at__lte=now - KEPT)
    if not row.filter(is_over | Q(read_trust__in=no_lower)).update(read_trust=trust, read_at=now):
        row.update(read_at=now)


def _is_noted(agent: Agent, trust: str, now: datetime) -> bool:
    is_fresh = agent.read_at is not None and now - NOTED_EACH < agent.read_at <= now
    return agent.read_trust == trust and is_fresh


# --- how a writer's proposals were decided ---


MIN_DECIDED = 20
MIN_TIME = timedelta(days=14)  # since the first decision
MIN_RIGHT = 0.95
# Rules and the soul change how an agent acts, and what became wrong in a file can't be counted.
SUGGESTED = ("note", "observation")


@dataclass(frozen=True, slots=True)
class TrackRecord:
    """The decided proposals of one writer for one kind of write.

    `wrong` counts those that were accepted, but that a person replaced, corrected or deleted later.
    """

    writer: str
    name: str
    kind: str
    accepted: int
    edited: int
    rejected: int
    wrong: int
    waiting: int
    since: datetime | None
    level: str

    @property
    def kind_words(self) -> str:
        """Return the kind of write, as in review rules."""
        return str(REVIEWED_KINDS[self.kind])

    @property
    def decided(self) -> int:
        """Return how many proposals a person decided."""
        return self.accepted + self.edited + self.rejected

    @property
    def right(self) -> int:
        """Return how many were accepted unchanged and are still right."""
        return max(0, self.accepted - self.wrong)

    @property
    def is_suggested(self) -> bool:
        """Return True if its writes could be saved without approval."""
        if self.kind not in SUGGESTED or self.level == ReviewLevel.Level.ACCEPT:
            return False
        is_old = self.since is not None and self.since <= timezone.now() - MIN_TIME
        return is_old and self.decided >= MIN_DECIDED and self.right >= MIN_RIGHT * self.decided

    @property
    def suggestion(self) -> str:
        """Return the question that offers another review rule."""
        params = {"name": self.name, "right": self.right, "decided": self.decided}
        if self.kind == "observation":
            words = _(
                "%(right)d of %(decided)d observations from %(name)s were correct. Save this agent’s future observations without approval?"
            )
        else:
            words = _(
                "%(right)d of %(decided)d notes from %(name)s were correct. Save this agent’s future notes without approval?"
            )
        return words % params


def track_records(
    owner: User, levels: Mapping[str, str], own: Sequence[ReviewLevel], *, writer: str = ""
) -> list[TrackRecord]:
    """Return the record of each writer and kind of write, or of one writer: three queries.

    `levels` are the owner's rules for all writers (`levels_of`), and `own` those for single ones.
    """
    of_writer = {(one.writer, one.kind): one.level for one in own}
    is_accepted = Q(state=Proposal.State.ACCEPTED)
    rows = Proposal.objects.for_user(owner).annotate(by=actor_kind()).exclude(by="human")
    rows = rows.filter(actor=writer) if writer else rows
    rows = rows.annotate(
        note_kind=Coalesce(KT("after__kind"), KT("before__kind"), output_field=TextField())
    )
    rows = rows.annotate(write=_kind_of_write())
    found = list(
        rows.order_by()
        .values("actor", "write")
        .annotate(
            accepted=Count("pk", filter=is_accepted & Q(edited={})),
            edited_first=Count("pk", filter=is_accepted & ~Q(edited={})),
            rejected=Count("pk", filter=Q(state=Proposal.State.REJECTED)),
            wrong=Count("pk", filter=is_accepted & Q(edited={}) & Q(Exists(_changed_later()))),
            waiting=Count("pk", filter=Q(state=Proposal.State.WAITING)),
            since=Min("decided_at"),
        )
        .order_by("actor", "write")
    )
    named = origins.of(owner, {row["actor"] for row in found})
    return [
        TrackRecord(
            writer=actor,
            name=actor.partition(":")[2] or named[actor].words,
            kind=kind,
            level=of_writer.get((actor, kind), levels.get(kind, levels[DEFAULT_LEVEL])),
            edited=row.pop("edited_first"),
            **row,
        )
        for row in found
        for actor, kind in [(row.pop("actor"), row.pop("write"))]
    ]


def _kind_of_write() -> Case:
    """Return the SQL expression for the kind of write that a review rule names."""
    identity = [str(kind) for kind in Note.IDENTITY]
    return Case(
        When(record_type="memoryfile", then=Value("file")),
        When(record_type="observation", then=Value("observation")),
        When(note_kind="rule", then=Value("rule")),
        When(note_kind__in=identity, then=Value("soul")),
        default=Value("note"),
        output_field=TextField(),
    )


def _changed_later() -> Any:
    """Return the changes by which a person corrected the record that a proposal became."""
    later = Revision.objects.filter(
        record_type=OuterRef("record_type"),
        record_id=OuterRef("result_id"),
        created__gt=OuterRef("decided_at"),
        actor__startswith="human:",
    )
    is_corrected = Q(after__has_any_keys=["superseded_by_id", "content"])
    is_trashed = Q(after__has_key="trashed_at") & ~Q(after__trashed_at=None)
    later = later.exclude(record_type="memoryfile").exclude(before={})  # how it was created
    return later.filter(is_corrected | is_trashed)
