"""What a caller of the API may see of an owner's records: a person all, an agent what tools show."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, TypeVar

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import AfterValidator, BeforeValidator

from beacon_site.http import zone_of
from memory.api import scopes
from memory.api.auth import Caller
from memory.api.problems import Problem, not_found
from memory.api.shown import shows
from memory.api.versions import held
from memory.models import Note, Observation, Topic, Trust, Use
from memory.recall.filters import named_topic
from memory.texts.days import in_utc
from memory.texts.text import clean, shorten

Rows = TypeVar("Rows", bound=QuerySet[Any])


def _in_words(value: Any) -> Any:
    """Refuse a bare number, which would be read as seconds since 1970."""
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?[\d.]+(?:e[-+]?\d+)?\s*", value, re.I):
        raise ValueError(_("write it as a date or a moment, such as 2026-11-22T08:00:00Z"))
    return value


# A moment in an address's query.
Moment = Annotated[datetime, BeforeValidator(_in_words), AfterValidator(in_utc)]


def visible(caller: Caller, rows: Rows, scope: str | None = None) -> Rows:
    """Keep the rows that the caller may see: to an agent nothing sensitive, quarantined, of others.

    `scope` takes that scope alone; Problem (403) where it is not the caller's.
    """
    if scope:
        rows = rows.filter(scope=scopes.named(caller, scope))
    elif not caller.by.is_person:
        rows = rows.filter(scope__in=caller.context().scopes)
    return open_to_agents(caller, rows)


def open_to_agents(caller: Caller, rows: Rows) -> Rows:
    """Keep the rows that the caller may see, of whatever scope it named."""
    if caller.by.is_person:
        return rows
    shown: Any = rows
    kept: Rows = shown.for_agents()
    return kept


def one_of(caller: Caller, rows: QuerySet[Any], key: Any) -> Any:
    """Return the owner's row of this id outside the trash, noted as used by the agent that reads it.

    Raises Problem: 404, and 403 for what only people are shown.
    """
    row = held(rows.filter(owner=caller.owner, pk=key)).first()
    if row is None:
        raise not_found()
    if row.trashed_at is not None:
        raise not_found(_("It lies in the trash, from which a person can restore it."))
    if not scopes.is_open(caller, getattr(row, "scope", "owner")):
        raise not_found()
    if caller.by.is_person or row.is_for_agents:
        shows(row)  # also where the answer is a refusal, which may name it
        return row
    words = _(
        "It is shown to people only. A program of yours that is to see it takes a token of scope "
        "admin."
    )
    raise Problem(403, words)


def used(caller: Caller, row: Any) -> None:
    """Note that an agent read the record whole."""
    if not caller.by.is_person:
        Use.note_records(caller.owner, [row], caller.place)


def topic_of(caller: Caller, name: str | None) -> Topic | None:
    """Return the owner's topic of this slug or title, None for none named.  Raises Problem (422)."""
    if not name:
        return None
    rows = open_to_agents(caller, Topic.objects.of(caller.owner).live())
    topic: Topic | None = rows.filter(named_topic(clean(name)[0].strip())).first()
    if topic is None:
        words = _("There is no topic “%(name)s”. Name one by its slug, or leave it out.")
        words %= {"name": shorten(name, 80)}
        raise Problem(422, words, errors={"topic": [words]})
    return topic


def moment(caller: Caller, at: datetime | None) -> datetime | None:
    """Return a moment with its time zone: without one the owner's is meant."""
    if at is None or timezone.is_aware(at):
        return at
    return at.replace(tzinfo=zone_of(caller.owner.time_zone))


def is_persons(record: Note | Observation) -> bool:
    """Whether a person wrote, edited or pinned it: agents leave such a record as it is."""
    edited = getattr(record, "edited_by_person", False)
    return record.trust == Trust.OWNER or record.pinned or edited
