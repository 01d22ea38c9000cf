"""Refuse writes and pages from blocked sources (see `memory.review.blocking`), and count them."""

from __future__ import annotations

from django.db.models import Q
from django.utils.translation import gettext as _

from memory.core.actors import Actor
from memory.core.errors import Locked
from memory.models import RefusedSource, User

Kind = RefusedSource.Kind


class SourceBlocked(Locked):
    """The owner blocked this source."""


def check(owner: User, by: Actor, source: str = "") -> None:
    """Raise Refused, and count it, if the owner blocked this agent or source."""
    if by.kind != "agent":
        return
    told = Q(kind=Kind.AGENT, name=by.name) | Q(kind=Kind.SOURCE, name=source)
    row = RefusedSource.objects.of(owner).filter(told).first()
    if row is None:
        return
    RefusedSource.objects.filter(pk=row.pk).count_refusals()
    raise SourceBlocked(
        _(
            "The owner blocked “%(name)s” from writing. Nothing was stored. Don’t try again. The owner can unblock it under Inbox → Blocked sources."
        )
        % {"name": row.name}
    )


def refused_domains(owner: User) -> list[str]:
    """Return the domains that no run reads."""
    rows = RefusedSource.objects.of(owner).filter(kind=Kind.DOMAIN)
    return list(rows.values_list("name", flat=True))


def count_pages(owner: User, domain: str, number: int) -> None:
    """Count the pages of a blocked domain that a run skipped."""
    RefusedSource.objects.of(owner).filter(kind=Kind.DOMAIN, name=domain).count_refusals(number)
