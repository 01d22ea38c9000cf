"""`/scratchpad`: values under keys, for work in progress; `?session=` selects one session's own."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Query, Status
from pydantic import Field

from memory.api import auth
from memory.api.auth import READ, WRITE, ApiRequest, Caller
from memory.api.frame import Body, router
from memory.api.paging import Listing, PageParams, listing
from memory.api.problems import Problem
from memory.api.review import check_unreviewed
from memory.api.shown import RecordOut, open_to_agents, used
from memory.api.versions import tagged
from memory.models import ScratchpadEntry
from memory.models.content import MAX_VALUE
from memory.models.errors import NoSuchKey
from memory.models.remembered import OWNER_SCOPE
from memory.services import scratchpad

api = router("scratchpad", is_held=True)
_ONE = "/{path:key}"
Named = Annotated[
    str,
    Query(max_length=100, description="The ID of a session. Only that session's entries are used."),
]


class EntriesQuery(PageParams):
    """Filters: keys that begin with `prefix`, or entries with `q` in key or value."""

    prefix: str = Field("", max_length=200)
    q: str = Field(
        "",
        max_length=10_000,
        description="Text that the key or value contains. Case doesn't matter.",
    )
    session: str = Field("", max_length=100, description="The ID of a session.")


class ValueIn(Body):
    """The value to set."""

    value: str = Field(max_length=MAX_VALUE, description="At most 64 KiB.")


class EntryOut(RecordOut):
    """One value under its key."""

    key: str
    value: str
    scope: str
    trust: str
    version: int
    created: datetime
    updated: datetime


@api.get("", auth=READ, response=Listing[EntryOut])
def list_entries(
    request: ApiRequest,
    query: Query[EntriesQuery],
) -> Listing[EntryOut]:
    """List entries, sorted by key."""
    caller, scope = request.auth, _scope(request.auth, query.session)
    if query.q and query.prefix:
        words = _("Send either prefix or q, not both.")
        raise Problem(422, words, errors={"q": [words]})
    if query.q:
        rows = scratchpad.search(caller.owner, query.q, scope=scope)
    else:
        rows = scratchpad.entries(caller.owner, query.prefix, scope=scope)
    rows = open_to_agents(caller, rows)
    return listing(rows, query, name="scratchpad", out=EntryOut.about, by="key", falling=False)


@api.get(_ONE, auth=READ, response=EntryOut)
def read_entry(
    request: ApiRequest, response: HttpResponse, key: str, session: Named = ""
) -> EntryOut:
    """Read the value of a key. URL-encode the key, including slashes."""
    caller = request.auth
    entry = _entry(caller, key, session)
    used(caller, entry)
    tagged(response, entry)
    return EntryOut.about(entry)


@api.put(_ONE, auth=WRITE, response={200: EntryOut, 201: EntryOut})
def set_entry(
    request: ApiRequest, response: HttpResponse, key: str, entry: ValueIn, session: Named = ""
) -> Any:
    """Set the value of a key. The old value stays in the history."""
    caller = request.auth
    scope = _scope(caller, session)
    if scope == OWNER_SCOPE:
        check_unreviewed(caller, "scratchpad", _("Saving a value for all agents"))
    _check_shown(caller, key, session)
    stored = scratchpad.set_value(
        caller.owner,
        key,
        entry.value,
        by=caller.by,
        scope=auth.claimed(caller, scope),
        source=caller.source,
        trust=caller.write_trust,
    )
    tagged(response, stored)
    return Status(201 if stored.is_new else 200, EntryOut.about(stored))


@api.delete(_ONE, auth=WRITE, response={204: None})
def trash_entry(request: ApiRequest, key: str, session: Named = "") -> Status[None]:
    """Move an entry to Trash."""
    caller, entry = request.auth, _entry(request.auth, key, session, hold=True)
    if entry.scope == OWNER_SCOPE:
        check_unreviewed(caller, "scratchpad", _("Deleting a value for all agents"))
    scratchpad.check_may_write(entry, caller.by)
    entry.trash(by=caller.by)
    return Status(204, None)


def _scope(caller: Caller, session: str) -> str:
    return auth.stored_scope(caller, f"session:{session}") if session.strip() else OWNER_SCOPE


def _entry(caller: Caller, key: str, session: str, *, hold: bool = False) -> ScratchpadEntry:
    entry = scratchpad.get_entry(caller.owner, key, scope=_scope(caller, session), hold=hold)
    if not caller.by.is_person and (entry.sensitivity == "sensitive" or _is_quarantined(entry)):
        raise Problem(403, _("Only people can see this entry."))
    return entry


def _check_shown(caller: Caller, key: str, session: str) -> None:
    """Raise Problem (403) if there is an entry that agents can't see."""
    with suppress(NoSuchKey):
        _entry(caller, key, session)


def _is_quarantined(entry: ScratchpadEntry) -> bool:
    return entry.trust == "quarantined"
