"""Reading records for an answer, and what the answer shows: the trust of its records, and the part
of it that a token without `read` gets.

Data flow: each schema reports its record (`shows`) -> the frame takes the lowest trust -> it is
recorded on the agent before the answer is sent, so that the agent's next write has no higher
trust than what it was shown.  An answer that reports nothing counts as text from outside: if a
new operation forgets to report, writes are held too often, never too rarely.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Annotated, Any, Self, TypeVar

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from ninja.params.functions import Query as in_query
from pydantic import AfterValidator, BaseModel, BeforeValidator

from beacon_site.text.cleaning import one_line, shorten
from beacon_site.text.dates import in_utc, zone_of
from memory.api import auth
from memory.api.auth import Caller
from memory.api.problems import Problem, not_found
from memory.api.versions import locked_rows
from memory.models import Note, Observation, Topic, Trust, Use
from memory.models.as_of import AS_OF_WORDS
from memory.models.errors import InvalidValue
from memory.models.remembered import in_scopes
from memory.services.notes.saving import lowest_trust
from memory.services.search.filters import topic_named

T = TypeVar("T")

# What a token without `read` gets: the names and numbers it needs, and what it sent itself.
BARE = frozenset(
    {
        "id", "ids", "new", "version", "status", "state", "number", "position", "slug", "path",
        "key", "run", "proposal", "cleared", "pruned", "scope", "findings", "insights", "lessons",
    }
)  # fmt: skip
# In a problem, also Beacon's message, without stored text quoted in it.
OF_PROBLEM = frozenset({"type", "title", "detail", "errors", "have", "most"})
_QUOTED = re.compile("“([^”]*)”")
_ALL_QUOTED = re.compile("“.*”", re.DOTALL)


class ShownRecords:
    """What one answer shows, as reported by its schemas."""

    def __init__(self) -> None:
        self.trusts: list[str] = []
        self.ids: set[uuid.UUID] = set()
        self.is_reported = False

    def lowest(self) -> str:
        """Return the lowest trust of what is shown; external if nothing was reported."""
        if not self.is_reported:
            return Trust.EXTERNAL
        return lowest_trust([Trust.OWNER, *self.trusts])


_answer: ContextVar[ShownRecords | None] = ContextVar("shown_in_answer", default=None)


@contextmanager
def collected() -> Iterator[ShownRecords]:
    """Collect what the answer to one request shows."""
    shown = ShownRecords()
    token = _answer.set(shown)
    try:
        yield shown
    finally:
        _answer.reset(token)


def current() -> ShownRecords:
    """Return what the current answer has shown so far."""
    return _answer.get() or ShownRecords()


def shows(*records: Any, trust: str = "") -> None:
    """Report that the answer shows these records. One without its own trust counts as external.

    Without records, report that the answer shows no stored text or, with `trust`, text that isn't
    a record.
    """
    shown = _answer.get()
    if shown is None:
        return
    shown.is_reported = True
    if trust:
        shown.trusts.append(trust)
    for record in records:
        shown.trusts.append(str(getattr(record, "trust", Trust.EXTERNAL)))
        if isinstance(getattr(record, "pk", None), uuid.UUID):
            shown.ids.add(record.pk)


def item(out: Callable[[Any], T], row: Any) -> T:
    """Return a list's item, and report `row` if its schema reports nothing."""
    shown = _answer.get()
    before = len(shown.trusts) if shown is not None else 0
    made = out(row)
    if shown is not None and len(shown.trusts) == before:
        shows(row)
    return made


class RowOut(BaseModel):
    """A row, most of whose fields the schema has under the same names."""

    @classmethod
    def from_row(cls, row: Any, **made: Any) -> Self:
        """Return the schema with the values in `made`, and the others as the row has them."""
        same = cls.model_fields.keys() - made.keys()
        return cls(**made, **{name: getattr(row, name) for name in same})


class RecordOut(RowOut):
    """A record, with the fields that it has under the same names."""

    @classmethod
    def about(cls, record: Any) -> Self:
        shows(record)
        return cls.from_row(record)


class NoStoredText(BaseModel):
    """An answer without stored text: IDs, counts, settings, or what the caller sent."""

    def model_post_init(self, _context: Any) -> None:
        """Report that nothing is shown."""
        shows()


def noted(caller: Caller, response: HttpResponse, shown: ShownRecords) -> None:
    """Record on the agent what the answer shows it. Call this before sending the answer.

    Raises DatabaseError if that fails. In that case, don't send the answer.
    """
    if response.status_code >= 500:
        return
    is_silent = not response.content or (response.status_code >= 400 and not shown.is_reported)
    caller.note_shown(Trust.OWNER if is_silent or not caller.may("read") else shown.lowest())


# --- tokens without `read` ---


def without_stored_text(response: HttpResponse, *, sent: str) -> HttpResponse:
    """Return the answer for a token that can't read; `sent` is all text in its request."""
    if response.content:
        is_problem = response.status_code >= 400
        body = bare_text(response.content.decode(), sent=sent if is_problem else None)
        response.content = body.encode()
    return response


def bare_text(body: str, *, sent: str | None = None) -> str:
    """Return a JSON answer without stored text; an empty object for anything but a JSON object.

    `sent` marks a problem: of its quotations, those that the caller sent are kept.
    """
    try:
        value = json.loads(body)
    except ValueError:
        value = {}
    return json.dumps(without_text(value, sent=sent) if isinstance(value, dict) else {})


def without_text(value: dict[str, Any], *, sent: str | None = None) -> dict[str, Any]:
    """Return an object without its stored text. `sent` is as for `bare_text`."""
    kept: dict[str, Any] = {}
    for name, one in value.items():
        if sent is not None and name in OF_PROBLEM:
            kept[name] = unquoted(one, sent)
        elif inner := _inner(one, sent):
            kept[name] = inner
        elif name in BARE or (name == "current" and isinstance(one, int)):
            kept[name] = one
    return kept


def _inner(value: Any, sent: str | None) -> Any:
    """Return what an object or a list of objects has besides stored text."""
    if isinstance(value, dict):
        return without_text(value, sent=sent)
    if isinstance(value, list):
        return [
            inner
            for one in value
            if isinstance(one, dict) and (inner := without_text(one, sent=sent))
        ]
    return None


def unquoted(value: Any, sent: str) -> Any:
    """Return a message without quotes of text that the caller didn't send."""
    if isinstance(value, dict):
        return {name: unquoted(one, sent) for name, one in value.items()}
    if isinstance(value, list):
        return [unquoted(one, sent) for one in value]
    if not isinstance(value, str):
        return value
    quotes = [one_line(one).rstrip("…").strip() for one in _QUOTED.findall(value)]
    return value if all(one in sent for one in quotes) else _ALL_QUOTED.sub("“…”", value)


# --- reading ---

Rows = TypeVar("Rows", bound=QuerySet[Any])


def _translated(value: Any) -> Any:
    """Reject a bare number, which would be read as seconds since 1970."""
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?[\d.]+(?:e[-+]?\d+)?\s*", value, re.I):
        raise ValueError(_("enter a date or time, such as 2026-11-22T08:00:00Z"))
    return value


# A date or time in a query string.
Moment = Annotated[datetime, BeforeValidator(_translated), AfterValidator(in_utc)]


def visible(caller: Caller, rows: Rows, scope: str | None = None) -> Rows:
    """Keep the rows that the caller can see.

    Agents can't see sensitive or quarantined rows, or those of other agents. `scope` keeps only
    that scope. Raises Problem (403) if the caller can't use it.
    """
    if scope:
        rows = rows.filter(scope=auth.stored_scope(caller, scope))
    elif not caller.by.is_person:
        rows = rows.filter(in_scopes(caller.context().scopes))
    return open_to_agents(caller, rows)


def open_to_agents(caller: Caller, rows: Rows) -> Rows:
    """Keep the rows that the caller can see, in any scope."""
    if caller.by.is_person:
        return rows
    shown: Any = rows
    kept: Rows = shown.for_agents()
    return kept


def one_of(caller: Caller, rows: QuerySet[Any], key: Any) -> Any:
    """Return the owner's row with this ID outside Trash, recorded as used by the agent that reads
    it.

    Raises Problem: 404, and 403 if only people can see it.
    """
    row = locked_rows(rows.filter(owner=caller.owner, pk=key)).first()
    if row is None:
        raise not_found()
    if row.trashed_at is not None:
        raise not_found(_("This record is in Trash. A person can restore it."))
    if not auth.is_open(caller, getattr(row, "scope", "owner")):
        raise not_found()
    if caller.by.is_person or row.is_for_agents:
        shows(row)  # also if the answer is an error, which can name it
        return row
    words = _("Only people can see this record. To see it, use a token with the “admin” scope.")
    raise Problem(403, words)


def used(caller: Caller, row: Any) -> None:
    """Record that an agent read the whole record."""
    if not caller.by.is_person:
        Use.note_records(caller.owner, [row], caller.place)


def topic_of(caller: Caller, name: str | None) -> Topic | None:
    """Return the owner's topic with this slug, earlier slug or title. Raises InvalidValue.

    Returns None if no name is given.
    """
    if not name:
        return None
    rows = open_to_agents(caller, Topic.objects.for_user(caller.owner).live())
    topic = topic_named(caller.owner, rows, name)
    if topic is None:
        words = _("There’s no topic “%(name)s”. Use a topic’s slug, or omit the topic.")
        words %= {"name": shorten(name, 80)}
        raise InvalidValue(words, errors={"topic": [words]})
    return topic


def moment(caller: Caller, at: datetime | None) -> datetime | None:
    """Return a time with its time zone, by default the owner's."""
    if at is None or timezone.is_aware(at):
        return at
    return at.replace(tzinfo=zone_of(caller.owner.time_zone))


# A query parameter. Writing isn't possible at a date.
AS_OF: Any = in_query("", max_length=40, description=AS_OF_WORDS)


def is_persons(record: Note | Observation) -> bool:
    """Return True if a person wrote, edited or pinned it. If so, agents can't change it."""
    edited = getattr(record, "edited_by_person", False)
    return record.trust == Trust.OWNER or record.pinned or edited
