"""How dangerous a proposal is: worked out when it is held or imported, and the order of Review.

Data flow: `hold` or an import -> `rate` -> codes and danger in the row -> an index on (owner,
danger, created, id) -> `page`, `counts` and `worst`, all in SQL.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.utils.dateparse import parse_datetime

from memory.actors import REFLECTOR, RESEARCH, Actor
from memory.models import Note, Proposal, Remembered, Session, Trust, User
from memory.models.proposals import Danger
from memory.paging import Page
from memory.records import kinds as record_kinds
from memory.reviewing import risks
from memory.reviewing.risk_codes import SAID, Held, Risk, worst

# Nobody accepts these together with others: each needs its own decision.
NEEDS_OWN_DECISION = (Danger.INJECTION, Danger.YOUR_WORDS, Danger.IDENTITY)
_LIKE_THE_SOUL = (Note.Kind.SOUL.value, Note.Kind.AGENT.value, Note.Kind.USER.value)
_FROM_OUTSIDE = ("run", "topic", "import")


def rate(proposal: Proposal, held: str, *, more: Iterable[Risk] = ()) -> None:
    """Set the proposal's danger and the codes of why it is held; the caller saves it.

    `held` of `review.verdict` brings its codes.  Of a plain sentence the danger is worked out from
    the proposal itself, as it is for an import, whose own codes are a stranger's word.
    """
    found = list(held.risks) if isinstance(held, Held) else _worked_out(proposal, held)
    found = [*more, *found]
    proposal.risks = [risk.as_json() for risk in found]
    proposal.danger = worst(found)


def _worked_out(proposal: Proposal, held: str) -> list[Risk]:
    found = risks_in(proposal)
    known = {risk.words for risk in found}
    said = [reason for reason in held.split("; ") if reason and reason not in known]
    return [*found, *(Risk(SAID, {"words": reason}) for reason in said)]


def risks_in(proposal: Proposal) -> list[Risk]:
    """Return what is risky about a proposal, as far as its row, its source and its target tell."""
    after, target = proposal.after, _target(proposal)
    lines = after.get("lines") if isinstance(after.get("lines"), list) else []
    texts = [_text(after.get("content")), _text(after.get("entry"))]
    texts += [_text(line.get("content")) for line in lines or () if isinstance(line, dict)]
    is_file = proposal.record_type == "memoryfile"
    write = risks.Write(
        proposal.owner,
        _kind(proposal),
        _actor(proposal.actor),
        _trust(proposal),
        leaves_topic=True,
        texts=[text for text in texts if text],
        target=target,
        path=_text(after.get("path")),
        after=_text(after.get("content")) if is_file else "",
    )
    found = risks.found(write)
    is_persons = target is not None and target.trust == Trust.OWNER
    if is_persons and proposal.record_type not in ("memoryfile", "note"):
        found.append(Risk("persons-record"))
    return found


def _actor(text: str) -> Actor:
    kind, _colon, name = text.partition(":")
    return Actor(kind, name)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _kind(proposal: Proposal) -> str:
    """Return the kind of write, as the review levels name it."""
    kind = _text(proposal.after.get("kind"))
    if proposal.record_type == "note" and kind in _LIKE_THE_SOUL:
        return "soul"
    if proposal.record_type == "note" and kind == Note.Kind.RULE:
        return "rule"
    return {"memoryfile": "file"}.get(proposal.record_type, proposal.record_type)


def _target(proposal: Proposal) -> Remembered | None:
    model = record_kinds.models().get(proposal.record_type)
    if model is None or proposal.target_id is None:
        return None
    found: Remembered | None = (
        model.objects.of(proposal.owner).filter(pk=proposal.target_id).first()
    )
    return found


def _trust(proposal: Proposal) -> str:
    """Return how far the proposal's source is to be believed."""
    kind, _colon, key = proposal.source.partition(":")
    if kind in _FROM_OUTSIDE or proposal.actor == str(RESEARCH):
        return Trust.EXTERNAL
    if kind == "session" and _is_uuid(key):
        sessions = Session.objects.of(proposal.owner).filter(pk=key)
        return sessions.values_list("trust", flat=True).first() or Trust.AGENT
    return Trust.EXTERNAL if proposal.actor == str(REFLECTOR) else Trust.AGENT


def _is_uuid(key: str) -> bool:
    try:
        return str(UUID(key)) == key
    except ValueError:
        return False


# --- the order of Review --------------------------------------------------------------------------


def needs_own_decision(proposal: Proposal) -> bool:
    """Whether it is too dangerous to be accepted together with others."""
    return proposal.danger in NEEDS_OWN_DECISION


def counts(rows: QuerySet[Any]) -> dict[int, int]:
    """Return how many of the proposals are in each group of danger: one query."""
    found = rows.order_by().values_list("danger").annotate(n=Count("pk"))
    return dict(found)


def worst_waiting(owner: User) -> Proposal | None:
    """Return the proposal to decide first: the most dangerous, of those the oldest."""
    found: Proposal | None = Proposal.objects.of(owner).waiting().first()
    return found


def page(rows: QuerySet[Any], *, cursor: str, size: int) -> Page:
    """Return a page of proposals, the most dangerous first, then the oldest.

    A cursor that cannot be read gives the first page.
    """
    found = list(_behind(rows, cursor).order_by("danger", "created", "id")[: size + 1])
    if len(found) <= size:
        return Page(found, None)
    return Page(found[:size], _cursor_of(found[size - 1]))


def _cursor_of(last: Proposal) -> str:
    text = json.dumps([int(last.danger), last.created.isoformat(), str(last.pk)])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _behind(rows: QuerySet[Any], cursor: str) -> QuerySet[Any]:
    try:
        danger, created, key = json.loads(
            base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        )
        at, pk = parse_datetime(created), UUID(key)
    except (ValueError, TypeError, AttributeError, binascii.Error):
        return rows
    if at is None or type(danger) is not int or danger not in Danger.values:
        return rows
    later = Q(created__gt=at) | Q(created=at, pk__gt=pk)
    # The first condition is where the index begins.
    return rows.filter(Q(danger__gte=danger) & (Q(danger__gt=danger) | later))
