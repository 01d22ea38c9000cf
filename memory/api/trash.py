"""`/trash`: deleted records of every kind.

A person's app can restore them, or delete them permanently.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self
from uuid import UUID

from django.db.models import RestrictedError
from django.utils.translation import gettext as _
from ninja import Status
from pydantic import Field

from beacon_site.db.errors import retried
from beacon_site.text.cleaning import clean, one_line, plain, shorten
from memory.api.auth import ADMIN, READ, ApiRequest, Caller
from memory.api.frame import Body, router
from memory.api.paging import PAGE, Listing, PageParams, read_cursor, sign_cursor
from memory.api.problems import Problem, not_found
from memory.api.shown import RowOut, item, shows
from memory.models.errors import InvalidValue
from memory.models.remembered import record_models
from memory.services.records import acts as record_acts
from memory.services.records import kinds as record_kinds
from memory.services.records import trash as trash_page

api = router("trash", is_held=True)
_ONE = "/{str:record_type}/{uuid:record_id}"
MAX_LABEL_LENGTH = 200  # characters of a revision that are read for titles in the list


class TrashQuery(PageParams):
    """Which records in Trash."""

    type: str = Field(
        "", max_length=40, description="Only this record type, such as note, topic or memoryfile."
    )


class TrashedOut(RowOut):
    """One record in Trash. Send its `title` to delete it permanently."""

    type: str
    id: UUID
    title: str
    trashed_at: datetime
    purge_at: datetime = Field(description="When it will be deleted permanently.")
    actor: str
    reason: str

    @classmethod
    def of(cls, row: trash_page.TrashRow) -> Self:
        return cls.from_row(row, type=row.record_type, id=row.pk, title=row.label, reason=row.why)


class PurgeIn(Body):
    """Confirmation to delete a record permanently."""

    confirm: str = Field(max_length=600, description="The record's title, from GET /trash.")


@api.get("", auth=READ, response=Listing[TrashedOut])
def list_trash(request: ApiRequest, query: TrashQuery = PAGE) -> Listing[TrashedOut]:
    """List records in Trash, latest first. Agents can't see records that only people can see."""
    caller, kinds = request.auth, record_models()
    if query.type and query.type not in kinds:
        known = {"known": ", ".join(sorted(kinds))}
        words = _("This type of record doesn’t exist. Choose one of: %(known)s.") % known
        raise Problem(422, words, errors={"type": [words]})
    scopes = None if caller.by.is_person else caller.context().scopes
    name = f"trash {query.type}"
    page = trash_page.page(
        caller.owner,
        record_type=query.type,
        cursor=read_cursor(query, name),
        size=query.limit,
        scopes=scopes,
    )
    shows()
    items = [item(TrashedOut.of, row) for row in page.rows]
    return Listing[TrashedOut](items=items, next=sign_cursor(page.next_cursor, name))


@api.post(_ONE + "/restore", auth=ADMIN, response={204: None})
def restore_trashed(request: ApiRequest, record_type: str, record_id: UUID) -> Status[None]:
    """Restore a record from Trash unchanged.

    Returns 409 or 422 if another record has taken its place. If another topic now has the same
    name, a number is added to the name of the restored topic.
    """
    caller = request.auth

    def restore() -> None:
        record = _trashed(caller, record_type, record_id)
        record_kinds.kind_of(record_type).restore(record, caller.by)

    retried(restore)
    return Status(204, None)


@api.delete(_ONE, auth=ADMIN, response={204: None, 409: None})
def purge_trashed(
    request: ApiRequest, record_type: str, record_id: UUID, purge: PurgeIn
) -> Status[None]:
    """Permanently delete a record in Trash, with its history."""
    caller = request.auth
    record = _trashed(caller, record_type, record_id)
    _check_confirmed(record, purge.confirm)
    try:
        record_acts.purge(record, typed=record_acts.typed_name(record), by=caller.by)
    except RestrictedError as exc:
        words = _("Nothing was deleted because another record outside Trash depends on this one.")
        raise Problem(409, words) from exc
    return Status(204, None)


def _trashed(caller: Caller, record_type: str, record_id: UUID) -> Any:
    """Return the record, with its row locked until the transaction ends."""
    rows = dict(trash_page.trashed(caller.owner, record_type)) if record_type else {}
    found = None
    if record_type in rows:
        found = rows[record_type].filter(pk=record_id).select_for_update(of=("self",)).first()
    if found is None:
        raise not_found(_("This record isn’t in Trash, or it isn’t yours."))
    found.owner = caller.owner
    return found


def _check_confirmed(record: Any, confirm: str) -> None:
    """Raise InvalidValue unless it is the record's title, in full or as listed."""
    title = str(record)
    names = {one_line(title), one_line(plain(title[:MAX_LABEL_LENGTH]))}
    if one_line(clean(confirm)[0]) not in names:
        words = _(
            "Nothing was deleted. To confirm, set `confirm` to the record’s title, “%(title)s”."
        )
        words %= {"title": shorten(title, 120)}
        raise InvalidValue(words, errors={"confirm": [words]})
