"""The page and panel of a note or an observation: its text, where it comes from, and its uses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.http import Http404
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from beacon_site.text.markdown import MAX_LENGTH, by_direction
from beacon_site.text.markdown import render as render_markdown
from beacon_site.web.http import BeaconRequest, current_page
from beacon_site.web.responses import safe_local_path
from memory.models import (
    Conflict,
    Note,
    Observation,
    Remembered,
    TopicFact,
    Trust,
    Use,
    User,
    as_of,
    origins,
)
from memory.services.notes.saving import chain
from memory.services.records import history as record_history
from memory.services.records.kinds import kind_of
from memory.services.review.conflicts import MODELS, words_of
from memory.services.review.quarantine import reason_of

TYPES: dict[str, type[Remembered]] = {"note": Note, "observation": Observation}
FEW_CHANGES, FEW_USES, FEW_NEAR, FEW_PAIRS = 5, 8, 5, 3

TRUST_MEANS = {
    Trust.OWNER: _lazy("You wrote, edited or verified this."),
    Trust.AGENT: _lazy("An agent or Beacon wrote this. It hasn’t been checked yet."),
    Trust.EXTERNAL: _lazy("This text is external. Prompts mark it as data, not instructions."),
    Trust.QUARANTINED: _lazy(
        "This may contain prompt injection. No prompt includes it until you mark it as verified."
    ),
}
LOCK_MEANS = {
    "open": _lazy("Agents can change this record if your review rules allow it."),
    "append-only": _lazy("Agents can only add to this record. You can edit it."),
    "read-only": _lazy("Agents can’t change this record. You can edit it."),
}


def pairs_of(record: Any) -> list[dict[str, Any]]:
    """Return the record's open contradictions, the latest first: at most four queries.

    `this` and `that` are the answers that keep this record's text and the other one's.
    """
    rows = Conflict.objects.for_user(record.owner).standing().about([record.pk])
    found = list(rows.filter(kind=Conflict.Kind.CONTRADICTION).order_by("-created"))
    others = {one: _other_side(one, record) for one in found}
    loaded: dict[Any, Any] = {}
    for name, model in MODELS.items():
        keys = [key for kind, key in others.values() if kind == name]
        if keys:
            mine = model.objects.for_user(record.owner).filter(pk__in=keys)
            if name != "memoryfile":
                mine = mine.select_related("topic")
            loaded |= {one.pk: one for one in mine}
    pairs = []
    for one, (_kind, key) in others.items():
        if (other := loaded.get(key)) is None:
            continue
        left, right = (record, other) if one.left_id == record.pk else (other, record)
        pairs.append(
            {
                "conflict": one,
                "text": words_of(one, "left" if other is left else "right", other),
                "noun": kind_of(other.record_type()).noun,
                "url": other.get_absolute_url(),
                "this": Conflict.How.LEFT if record is left else Conflict.How.RIGHT,
                "that": Conflict.How.LEFT if other is left else Conflict.How.RIGHT,
                "left_version": left.version,
                "right_version": right.version,
            }
        )
    return pairs


def _other_side(conflict: Conflict, record: Any) -> tuple[str, Any]:
    if conflict.left_id == record.pk:
        return conflict.right_type, conflict.right_id
    return conflict.left_type, conflict.left_id


@dataclass(frozen=True, slots=True)
class Mark:
    """Who a record is from: your letter, or the symbol of an agent or of the web."""

    letter: str
    look: str
    words: str

    def __str__(self) -> str:
        return _mark_html(self)


@lru_cache(200)
def _mark_html(mark: Mark) -> SafeString:
    """Return the mark on one line, since lists have one in each row."""
    icon = f"#i-{mark.look}"
    shown = mark.letter or format_html('<svg class="icon"><use href="{}"></use></svg>', icon)
    span = '<span class="memory-mark {}" title="{}" aria-hidden="true">{}</span>'
    return format_html(span, mark.look, mark.words, shown)


def mark_of(record: Any, writer: str = "") -> Mark:
    """Return the mark of a record; `writer` is the actor of its first version, if it's known."""
    kind = (writer or record.source).partition(":")[0]
    # What a person accepted is still an agent's, although they saved it.
    if "agent" in (kind, record.source.partition(":")[0]) and record.trust != Trust.EXTERNAL:
        by_you = record.trust == Trust.OWNER
        words = _("written by an agent, accepted by you") if by_you else _("written by an agent")
        return Mark("", "agent", words)
    if record.trust in (Trust.EXTERNAL, Trust.QUARANTINED):
        if getattr(record, "url", "").startswith("library:"):
            return Mark("", "library", _("from your library"))
        return Mark("", "web", _("from the web"))
    if kind in ("run", "research"):
        return Mark("", "web", _("found by a run"))
    if record.trust == Trust.AGENT:
        return Mark("", "agent", _("written by Beacon or an agent"))
    return Mark(record.owner.get_username()[:1].casefold(), "you", _("written by you"))


def model_of(record_type: str) -> type[Remembered]:
    """Return the model of a type on these pages.  Raises Http404 for another."""
    if record_type not in TYPES:
        raise Http404
    return TYPES[record_type]


def expiry_words(record: Remembered) -> str:
    """Return in words how long a record is kept: “expires in 12 days”, “kept until deleted”."""
    expires: datetime | None = getattr(record, "expires_at", None)
    if expires is None:
        return _("kept until deleted")
    left = (expires - as_of.now()).total_seconds()
    if left <= 0:
        return _("expired, no longer recalled")
    if left < 3600:
        return _("expires within the hour")
    if left < 2 * 86400:
        hours = int(left // 3600)
        return ngettext("expires in %(n)d hour", "expires in %(n)d hours", hours) % {"n": hours}
    days = round(left / 86400)
    return ngettext("expires in %(n)d day", "expires in %(n)d days", days) % {"n": days}


def page_of(record: Any) -> dict[str, Any]:
    """Return the page of `record`, whose owner is loaded: at most thirteen queries.

    `type` is its name in URLs, and `successor` is the newest note in its chain if that replaced it.
    `few_pairs` are the contradictions that are shown; the others are in the Inbox. A finding has
    the `fact` that it repeats.
    """
    owner: User = record.owner
    is_note = isinstance(record, Note)
    history = record_history.history_of(record, size=FEW_CHANGES)
    first = record_history.revisions_of(record).last() if history.next_cursor else None
    first = first or (history.rows[-1].revision if history.rows else None)
    uses = _uses_of(record)
    scope = record.scope if record.scope != "owner" else ""
    actor = first.actor if first else ""
    places = origins.of(owner, [record.source, scope, actor, *(use.place for use in uses)])
    type, chain, pairs = record.record_type(), _chain(record), pairs_of(record)
    kind_words = str(record.get_kind_display() if is_note else record.get_category_display())
    return {
        "record": record,
        "type": type,
        "list_url": reverse(f"memory:{type}s"),
        "list_name": _("Notes") if is_note else _("Observations"),
        "history_url": reverse(f"memory:{type}-history", args=[record.pk]),
        "kind": str(getattr(record, "kind", "") or record.category),
        "kind_words": kind_words,
        "heading": kind_words[:1].upper() + kind_words[1:],
        "html": by_direction(render_markdown(record.content)),
        "is_cut": len(record.content) > MAX_LENGTH,
        "origin": places.get(record.source) or origins.Origin(record.source, record.source),
        "scope": places.get(scope),
        "first": first,
        "writer": places[actor].words if actor else "",
        "mark": mark_of(record),
        "trust_means": str(TRUST_MEANS[Trust(record.trust)]),
        "lock_means": str(LOCK_MEANS[record.lock]),
        "quarantine_reason": reason_of(record),
        "can_be_verified": record.trust != Trust.OWNER,
        "expiry": expiry_words(record),
        "has_expired": is_note and record.has_expired(as_of.now()),
        "is_identity": is_note and record.kind in Note.IDENTITY,
        "changes": history.rows,
        "uses": [(places[use.place], use.used_at) for use in uses[:FEW_USES]],
        "more_uses": max(0, len(uses) - FEW_USES),
        "near": _near_duplicates(record),
        "chain": chain,
        "successor": chain[0] if chain and chain[0].pk != record.pk else None,
        "pairs": pairs,
        "few_pairs": pairs[:FEW_PAIRS],
        "fact": _fact_of(record),
    }


def _fact_of(record: Any) -> TopicFact | None:
    """Return the fact that a finding of a run repeats."""
    if not isinstance(record, Observation) or record.topic_id is None:
        return None
    return TopicFact.objects.for_user(record.owner).behind([record]).get(record.pk)


def _chain(record: Any) -> list[Note]:
    """Return the replacement history of a note, if it has one."""
    found = chain(record) if isinstance(record, Note) else []
    return found if len(found) > 1 else []


def _uses_of(record: Remembered) -> list[Use]:
    """Return where the record entered a prompt or an answer, latest first."""
    uses = Use.objects.for_user(record.owner).filter(record_id=record.pk)
    return list(uses.order_by("-used_at", "-id")[: FEW_USES + 100])


def _near_duplicates(record: Any) -> list[Any]:
    """Return observations that say almost the same."""
    if not isinstance(record, Observation):
        return []
    live = Observation.objects.for_user(record.owner).live()
    older = live.filter(pk=record.near_duplicate_of_id or record.pk).exclude(pk=record.pk)
    newer = live.filter(near_duplicate_of__in=[record.near_duplicate_of_id or record.pk, record.pk])
    found = older.order_by() | newer.order_by().exclude(pk=record.pk)
    return list(found.distinct().order_by("created")[:FEW_NEAR])


def list_of(request: BeaconRequest) -> str:
    """Return the list that a panel is beside, with its filters."""
    return safe_local_path(current_page(request), reverse("memory:recall"))
