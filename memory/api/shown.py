"""What an answer shows: the trust of its records, and what a token without `read` gets of it.

Data flow: each schema reports the record that it is made of (`shows`) -> the frame takes the lowest
trust of them -> it is noted on the agent before the answer is sent, so that what the agent writes
next is believed no further than what it was shown.  An answer that reports nothing counts as text
from outside: a new operation that forgets to report is held too often, never too rarely.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Annotated, Any, TypeVar

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from pydantic import AfterValidator, BaseModel, BeforeValidator

from beacon_site.http import zone_of
from beacon_site.text.cleaning import clean, one_line, shorten
from beacon_site.text.dates import in_utc
from memory.api import auth
from memory.api.auth import Caller
from memory.api.problems import Problem, not_found
from memory.api.versions import held
from memory.models import Note, Observation, Topic, Trust, Use
from memory.notes.services import lowest_trust
from memory.search.filters import named_topic

T = TypeVar("T")

# What a token without `read` gets: names and numbers by which to go on, and what it sent itself.
BARE = frozenset(
    {
        "id", "ids", "new", "version", "status", "state", "number", "position", "slug", "path",
        "key", "run", "proposal", "cleared", "pruned", "scope", "findings", "insights", "lessons",
    }
)  # fmt: skip
# Of a problem also what Beacon says; stored text quoted in it is taken out.
OF_PROBLEM = frozenset({"type", "title", "detail", "errors", "have", "most"})
_QUOTED = re.compile("“([^”]*)”")
_ALL_QUOTED = re.compile("“.*”", re.DOTALL)


class Shown:
    """What one answer shows, as its schemas report it."""

    def __init__(self) -> None:
        self.trusts: list[str] = []
        self.ids: set[uuid.UUID] = set()
        self.is_reported = False

    def lowest(self) -> str:
        """Return the lowest trust of what is shown; that of text from outside where none reported."""
        if not self.is_reported:
            return Trust.EXTERNAL
        return lowest_trust([Trust.OWNER, *self.trusts])


_answer: ContextVar[Shown | None] = ContextVar("shown_in_answer", default=None)


@contextmanager
def collected() -> Iterator[Shown]:
    """Collect what the answer to one request shows."""
    shown = Shown()
    token = _answer.set(shown)
    try:
        yield shown
    finally:
        _answer.reset(token)


def current() -> Shown:
    """Return what the answer that is being worked out shows so far."""
    return _answer.get() or Shown()


def shows(*records: Any, trust: str = "") -> None:
    """Report that the answer shows these records; one without a trust of its own is from outside.

    Without records: that it shows nothing stored, or (with `trust`) text that is no record.
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
    """Return a list's item; `row` is reported here where its schema reports nothing."""
    shown = _answer.get()
    before = len(shown.trusts) if shown is not None else 0
    made = out(row)
    if shown is not None and len(shown.trusts) == before:
        shows(row)
    return made


class Textless(BaseModel):
    """An answer that holds no stored text: ids, counts, settings, or what the caller sent."""

    def model_post_init(self, _context: Any) -> None:
        """Report that nothing is shown."""
        shows()


def noted(caller: Caller, response: HttpResponse, shown: Shown) -> None:
    """Note on the agent what the answer shows it; call it before the answer is sent.

    Raises DatabaseError where it cannot be noted: the answer is then not to be sent.
    """
    if response.status_code >= 500:
        return
    is_silent = not response.content or (response.status_code >= 400 and not shown.is_reported)
    caller.note_shown(Trust.OWNER if is_silent or not caller.may("read") else shown.lowest())


# --- tokens without `read` ------------------------------------------------------------------------


def without_stored_text(response: HttpResponse, *, sent: str) -> HttpResponse:
    """Return the answer for a token that does not read; `sent` is all that its request said."""
    if response.content:
        is_problem = response.status_code >= 400
        body = bare_text(response.content.decode(), sent=sent if is_problem else None)
        response.content = body.encode()
    return response


def bare_text(body: str, *, sent: str | None = None) -> str:
    """Return a JSON answer without stored text; an empty object for what is no JSON object.

    `sent` says that it is a problem: of the quotations in it those stay that the caller sent.
    """
    try:
        value = json.loads(body)
    except ValueError:
        value = {}
    return json.dumps(without_text(value, sent=sent) if isinstance(value, dict) else {})


def without_text(value: dict[str, Any], *, sent: str | None = None) -> dict[str, Any]:
    """Return what an object holds besides stored text; `sent` is as for `bare_text`."""
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
    """Return what an object or a list of objects holds besides stored text."""
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
    """Return what is said with each quotation taken out that the caller did not send."""
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
        rows = rows.filter(scope=auth.named(caller, scope))
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
    if not auth.is_open(caller, getattr(row, "scope", "owner")):
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
