"""Review rules: which writes of agents wait for the owner, by kind of write (decision 10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from memory.core.actors import Actor
from memory.core.errors import InvalidValue
from memory.models import Activity, ReviewLevel, User

DEFAULT = "default"
# The kinds of writes.  Persona and profile use the soul's level.
KINDS = {
    "file": _lazy("Memory files"),
    "rule": _lazy("Rules"),
    "soul": _lazy("Soul"),
    "note": _lazy("Notes"),
    "observation": _lazy("Observations"),
}
NAMES = {DEFAULT: _lazy("Everything else"), **KINDS}
MEANINGS = {
    ReviewLevel.Level.ACCEPT.value: _lazy(
        "Everything is saved immediately, even text from the web. Only quarantined writes wait for your approval."
    ),
    ReviewLevel.Level.HOLD_RISKY.value: _lazy(
        "Risky writes wait for your approval. Everything else is saved immediately. This is the default."
    ),
    ReviewLevel.Level.HOLD_ALL.value: _lazy("Every write by an agent waits for your approval."),
}


def levels_of(owner: User) -> dict[str, str]:
    """Return the level of each of KINDS, and the default level; one query."""
    own = own_levels(owner)
    default = own.get(DEFAULT, ReviewLevel.Level.HOLD_RISKY.value)
    return {DEFAULT: default, **{kind: own.get(kind, default) for kind in KINDS}}


def own_levels(owner: User, writer: str = "") -> dict[str, str]:
    """Return the levels that the owner chose, for all writers or for one; others use the default."""
    rows = ReviewLevel.objects.of(owner).filter(kind__in=NAMES, writer=writer)
    return dict(rows.values_list("kind", "level"))


def levels_of_writers(owner: User) -> list[ReviewLevel]:
    """Return the owner's rules for single writers."""
    rows = ReviewLevel.objects.of(owner).filter(kind__in=NAMES).exclude(writer="")
    return list(rows.order_by("writer", "kind"))


def level_of(owner: User, kind: str, by: Actor) -> str:
    """Return the level for writes of this kind by `by`: the writer's own, the kind's, the default."""
    rows = ReviewLevel.objects.of(owner).filter(kind__in=[kind, DEFAULT], writer__in=["", str(by)])
    own: dict[tuple[str, str], str] = {(one.writer, one.kind): one.level for one in rows}
    for key in ((str(by), kind), ("", kind), ("", DEFAULT)):
        if key in own:
            return own[key]
    return ReviewLevel.Level.HOLD_RISKY.value


def set_levels(owner: User, wanted: Mapping[str, str], *, by: Actor, writer: str = "") -> bool:
    """Set levels ("" means the default) and return whether any changed.

    `writer` is the actor that they apply to, such as `agent:claude`, or "" for all.

    Only a person can, since an agent could let itself through.  Raises InvalidValue for an unknown
    kind or level; nothing is changed then.
    """
    if not by.is_person:
        raise InvalidValue(_("Only a person can set how agents’ writes are reviewed."))
    for kind, level in wanted.items():
        if kind not in NAMES or level not in {"", *ReviewLevel.Level.values}:
            words = {"level": level[:40], "kind": kind[:40]}
            words["known"] = ", ".join(ReviewLevel.Level.values)
            problem = _(
                "“%(level)s” isn’t a valid review rule for “%(kind)s”. Choose one of: %(known)s."
            )
            raise InvalidValue(problem % words)
    before = own_levels(owner, writer)
    changed = {kind: level for kind, level in wanted.items() if before.get(kind, "") != level}
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
        told: dict[str, Any] = {kind: level or _("default") for kind, level in changed.items()}
        if writer:
            told["writer"] = writer
        Activity.log(owner, by, "review-levels-changed", subject=owner, **told)
    return True
