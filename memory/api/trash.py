"""`/trash`: what lies there of every kind; a person's program restores it, or deletes it for good."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self
from uuid import UUID

from django.db.models import RestrictedError
from django.utils.translation import gettext as _
from ninja import Status
from pydantic import BaseModel, Field

from beacon_site.db.errors import retried
from beacon_site.text.cleaning import clean, one_line, plain, shorten
from memory.api.auth import ADMIN, READ, ApiRequest, Caller
from memory.api.frame import Body, router
from memory.api.paging import PAGE, Listing, Paged, closed, opened
from memory.api.problems import Problem, not_found
from memory.api.shown import item, shows
from memory.core.errors import InvalidValue
from memory.pages.trash import listing as trash_page
from memory.records import acts as record_acts
from memory.records import kinds as record_kinds

api = router("trash", is_held=True)
_ONE = "/{str:record_type}/{uuid:record_id}"
LONGEST_LABEL = 200  # of a revision, from which the list takes titles


class TrashWanted(Paged):
    """Which records in the trash."""

    type: str = Field("", max_length=40, description="Only this kind: note, topic, memoryfile …")


class TrashedOut(BaseModel):
    """One record in the trash; `title` is what deleting it for good asks for."""

    type: str
    id: UUID
    title: str
    trashed_at: datetime
    gone_at: datetime = Field(description="When it is deleted for good by itself.")
    actor: str
    why: str

    @classmethod
    def of(cls, row: trash_page.TrashRow) -> Self:
        """Return the row as it is told."""
        same = ("trashed_at", "gone_at", "actor", "why")
        fields = {name: getattr(row, name) for name in same}
        return cls(type=row.record_type, id=row.pk, title=row.label, **fields)


class PurgeIn(Body):
    """The word by which a person's program says that it means it."""

    confirm: str = Field(max_length=600, description="The record's title, as GET /trash tells it.")


@api.get("", auth=READ, response=Listing[TrashedOut])
def list_trash(request: ApiRequest, wanted: TrashWanted = PAGE) -> Listing[TrashedOut]:
    """List what lies in the trash, the latest first; to agents without what only people see."""
    caller, kinds = request.auth, record_kinds.models()
    if wanted.type and wanted.type not in kinds:
        known = {"known": ", ".join(sorted(kinds))}
        words = _("There is no such kind of records. There are: %(known)s.") % known
        raise Problem(422, words, errors={"type": [words]})
    scopes = None if caller.by.is_person else caller.context().scopes
    name = f"trash {wanted.type}"
    page = trash_page.page(
        caller.owner,
        record_type=wanted.type,
        cursor=opened(wanted, name),
        size=wanted.limit,
        scopes=scopes,
    )
    shows()
    items = [item(TrashedOut.of, row) for row in page.rows]
    return Listing[TrashedOut](items=items, next=closed(page.next_cursor, name))


@api.post(_ONE + "/restore", auth=ADMIN, response={204: None})
def restore_trashed(request: ApiRequest, record_type: str, record_id: UUID) -> Status[None]:
    """Bring a record back from the trash as it was.  409 or 422: something stands in its place.

    A topic whose name another has by now comes back with a number after its name.
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
    """Delete a record in the trash, and its history, for good."""
    caller = request.auth
    record = _trashed(caller, record_type, record_id)
    _check_confirmed(record, purge.confirm)
    try:
        record_acts.purge(record, typed=record_acts.typed_name(record), by=caller.by)
    except RestrictedError as exc:
        words = _("It stays: something outside the trash needs it. Nothing was deleted.")
        raise Problem(409, words) from exc
    return Status(204, None)


def _trashed(caller: Caller, record_type: str, record_id: UUID) -> Any:
    """Return the record, whose row is held until the transaction ends."""
    rows = dict(trash_page.trashed(caller.owner, record_type)) if record_type else {}
    found = None
    if record_type in rows:
        found = rows[record_type].filter(pk=record_id).select_for_update(of=("self",)).first()
    if found is None:
        raise not_found(_("There is no such record in the trash, or it is not yours."))
    found.owner = caller.owner
    return found


def _check_confirmed(record: Any, confirm: str) -> None:
    """Raise InvalidValue unless it is the record's title, whole or as the list tells it."""
    title = str(record)
    names = {one_line(title), one_line(plain(title[:LONGEST_LABEL]))}
    if one_line(clean(confirm)[0]) not in names:
        words = _("Nothing was deleted: `confirm` is to hold the record's title, “%(title)s”.")
        words %= {"title": shorten(title, 120)}
        raise InvalidValue(words, errors={"confirm": [words]})
