"""A snapshot as JSON, and back.

The JSON says which format it has, whose it is, and carries a seal of this Beacon: what was changed
or written elsewhere is taken in as text from outside, whatever trust it claims for itself.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, NoReturn

from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from memory.actors import Actor
from memory.content.clearing import checked_scope
from memory.content.limits import (
    LONGEST_ACTION,
    LONGEST_SOURCE,
    LONGEST_TITLE,
    LONGEST_URL,
    MOST_RELATED,
    check_size,
)
from memory.content.relations import check_no_circle
from memory.content.snapshots import FIELDS, keep_snapshot
from memory.errors import InvalidValue
from memory.models import ContentItem, Sensitivity, Snapshot, SnapshotItem, Topic, Trust, User
from memory.models.content import SNAPSHOT_FORMAT
from memory.models.notes import LONGEST_TAG, MOST_TAGS
from memory.texts.days import in_utc
from memory.texts.text import clean, shorten

KIND = "beacon-content-snapshot"
MOST_ITEMS = 10_000
MOST_JSON = 256 * 1024 * 1024  # characters
_SALT = "beacon.content.snapshot"


class ItemJson(BaseModel):
    """One item of the JSON."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    id: uuid.UUID
    type: ContentItem.Type
    content: str
    tags: list[str] = Field(default_factory=list, max_length=MOST_TAGS)
    title: str = Field("", max_length=LONGEST_TITLE)
    url: str = Field("", max_length=LONGEST_URL)
    action: str = Field("", max_length=LONGEST_ACTION)
    kept_with: str = Field("", max_length=LONGEST_SOURCE)
    source: str = Field(max_length=LONGEST_SOURCE)
    trust: Trust = Trust.EXTERNAL
    sensitivity: Sensitivity = Sensitivity.NORMAL
    pinned: bool = False
    created: Annotated[datetime, AfterValidator(in_utc)]
    topic_id: uuid.UUID | None = None
    related_to: list[uuid.UUID] = Field(default_factory=list, max_length=MOST_RELATED)


def snapshot_as_json(snapshot: Snapshot) -> str:
    """Return the snapshot as JSON, for its owner alone: it holds sensitive items too."""
    items = [
        {"id": one.item_id, "related_to": one.related_to}
        | {name: getattr(one, name) for name in FIELDS if name != "size"}
        for one in snapshot.items.order_by("position")
    ]
    data = {
        "kind": KIND,
        "format": SNAPSHOT_FORMAT,
        "owner": snapshot.owner.get_username(),
        "scope": snapshot.scope,
        "title": snapshot.title,
        "created": snapshot.created,
        "items": items,
    }
    plain = json.loads(json.dumps(data, default=_plain))
    return json.dumps({**plain, "seal": _seal(plain)}, ensure_ascii=False, indent=1)


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _seal(data: Mapping[str, Any]) -> str:
    written = json.dumps(data, sort_keys=True, ensure_ascii=True)
    return salted_hmac(_SALT, written, algorithm="sha256").hexdigest()


def snapshot_from_json(owner: User, text: str, *, by: Actor) -> Snapshot:
    """Store the snapshot that the JSON holds, under an id of its own, and return it.

    Raises InvalidValue, in words, for what is no snapshot, a newer format, another owner's, items
    that are too large or lead back to themselves; nothing is stored then.
    """
    data = _read(text)
    _check_format(data)
    given = data.get("owner")
    if given != owner.get_username():
        told = {"owner": shorten(clean(str(given))[0], 60), "you": owner.get_username()}
        _refuse(
            _(
                "The snapshot is of the account “%(owner)s”, and you are “%(you)s”: nobody takes "
                "another's store. Let them export an archive for you instead."
            )
            % told
        )
    items = _items(data.get("items"))
    seal = str(data.pop("seal", ""))
    is_ours = constant_time_compare(seal, _seal(data))
    scope = checked_scope(str(data.get("scope", "")) or "owner")
    topics = set(Topic.objects.of(owner).values_list("pk", flat=True))
    copies = [
        _copy(one, place, scope, is_ours=is_ours, topics=topics) for place, one in enumerate(items)
    ]
    return keep_snapshot(owner, scope, copies, by=by, title=str(data.get("title") or ""))


def _read(text: str) -> dict[str, Any]:
    if len(text) > MOST_JSON:
        _refuse(_("The snapshot is larger than 256 MiB and was not read. Take a smaller one."))
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        why = _("nested too deeply") if isinstance(exc, RecursionError) else str(exc)
        _refuse(_("This is no JSON (%(why)s), so no snapshot.") % {"why": shorten(why, 200)})
    if not isinstance(data, dict) or data.get("kind") != KIND:
        _refuse(
            _("This JSON is no snapshot of a content store: its “kind” is not “%(kind)s”.")
            % {"kind": KIND}
        )
    return data


def _check_format(data: Mapping[str, Any]) -> None:
    number = data.get("format")
    if type(number) is not int or number < 1:
        _refuse(_("The snapshot does not say which format it has, so it cannot be read."))
    if number > SNAPSHOT_FORMAT:
        told = {"theirs": number, "ours": SNAPSHOT_FORMAT}
        words = _(
            "The snapshot has format %(theirs)d; this Beacon reads up to format %(ours)d. Update "
            "Beacon, then take it in again."
        )
        _refuse(words % told)


def _items(given: Any) -> list[ItemJson]:
    if not isinstance(given, list) or len(given) > MOST_ITEMS:
        _refuse(
            _("“items” must be a list of at most %(most)s items.") % {"most": f"{MOST_ITEMS:,}"}
        )
    items = []
    for place, one in enumerate(given, 1):
        try:
            items.append(ItemJson.model_validate(one))
        except ValidationError as exc:
            first = exc.errors(include_input=False, include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            told = {"n": place, "where": where, "why": first["msg"]}
            _refuse(_("Item %(n)d cannot be read: %(where)s: %(why)s.") % told)
        check_size(items[-1].content)
    if len({one.id for one in items}) != len(items):
        _refuse(_("Two items of the snapshot have the same id."))
    known = {one.id for one in items}
    links = {one.id: [key for key in one.related_to if key in known] for one in items}
    check_no_circle(links, {one.id: one.title or str(one.id) for one in items})
    return items


def _copy(
    one: ItemJson, place: int, scope: str, *, is_ours: bool, topics: set[uuid.UUID]
) -> SnapshotItem:
    content = clean(one.content)[0]
    created = one.created if timezone.is_aware(one.created) else timezone.make_aware(one.created)
    suspect = one.trust == Trust.QUARANTINED
    return SnapshotItem(
        position=place,
        item_id=one.id,
        scope=scope,
        type=one.type,
        content=content,
        size=len(content),
        tags=[clean(tag)[0][:LONGEST_TAG] for tag in one.tags],
        title=clean(one.title)[0],
        url=clean(one.url)[0],
        action=clean(one.action)[0],
        kept_with=clean(one.kept_with)[0],
        source=clean(one.source)[0],
        trust=one.trust if is_ours or suspect else Trust.EXTERNAL,
        sensitivity=one.sensitivity,
        pinned=one.pinned,
        created=created,
        topic_id=one.topic_id if one.topic_id in topics else None,
        related_to=list(dict.fromkeys(one.related_to)),
    )


def _refuse(problem: str) -> NoReturn:
    raise InvalidValue(problem, errors={"snapshot": [problem]})
