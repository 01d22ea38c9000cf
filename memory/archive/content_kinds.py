"""Content items and their snapshots on their way in from an archive."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from memory.archive.zips import ImportRejected
from memory.content.limits import MOST_BYTES, check_size
from memory.content.relations import check_no_circle
from memory.errors import InvalidValue
from memory.models import ContentItem
from memory.models.content import SNAPSHOT_FORMAT


def item_problem(row: Any) -> str:
    """Return why a row cannot be an item, of the store or of a snapshot; empty where it can."""
    try:
        check_size(row.content)
    except InvalidValue:
        return _("it has more than %(most)d bytes, which are the most of one item") % {
            "most": MOST_BYTES
        }
    return ""


def measure(row: Any, _taking_in: Any) -> None:
    """Say of an item how long it is: what an archive claims is not what it holds."""
    row.size = len(row.content)


def snapshot_problem(row: Any) -> str:
    """Return why a snapshot cannot be read here; empty where it can."""
    if row.format > SNAPSHOT_FORMAT:
        told = {"theirs": row.format, "ours": SNAPSHOT_FORMAT}
        return _("its format is %(theirs)d, and this Beacon reads up to %(ours)d") % told
    return ""


def check_relations(_taking_in: Any, items: list[ContentItem]) -> None:
    """Refuse an archive whose items lead back to themselves.  Raises NotTaken."""
    through = ContentItem.related_to.through.objects
    links: dict[Any, list[Any]] = {item.pk: [] for item in items}
    rows = through.filter(from_contentitem_id__in=links)
    for here, there in rows.values_list("from_contentitem_id", "to_contentitem_id"):
        links[here].append(there)
    try:
        check_no_circle(links, {item.pk: str(item) for item in items})
    except InvalidValue as exc:
        raise ImportRejected(_("%(why)s Nothing was imported.") % {"why": exc}) from exc
