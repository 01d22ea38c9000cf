"""Snapshots of a scope's content: create, restore, delete, and transfer as JSON."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, NoReturn

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from beacon_site.text.cleaning import clean, shorten
from beacon_site.text.dates import in_utc
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped
from memory.models import (
    ContentItem,
    Revision,
    Sensitivity,
    Snapshot,
    SnapshotItem,
    Topic,
    Trust,
    User,
)
from memory.models.actors import Actor
from memory.models.content import SNAPSHOT_FORMAT, ContentQuerySet
from memory.models.errors import InvalidValue
from memory.models.notes import MAX_TAG_LENGTH, MAX_TAGS
from memory.services.content.items import (
    MAX_ACTION_LENGTH,
    MAX_RELATED,
    MAX_SOURCE_LENGTH,
    MAX_TITLE_LENGTH,
    MAX_URL_LENGTH,
    check_no_circle,
    check_size,
    checked_scope,
)
from memory.services.notes.saving import lowest_trust

# The fields of an item, in a snapshot and in the store, except its id and relations.
FIELDS = (
    "type", "content", "tags", "title", "url", "size", "action", "run_step", "source", "trust",
    "sensitivity", "pinned", "created", "topic_id",
)  # fmt: skip
_AT_ONCE = 200
_MAX_TITLE_LENGTH = 200


def take_snapshot(
    owner: User, scope: str, *, by: Actor, title: str = "", trust: str = ""
) -> Snapshot:
    """Store the scope's current items, also sensitive ones: only the owner sees a snapshot.

    Raises InvalidValue for an invalid scope.  An empty scope gives an empty snapshot.
    """
    scope = checked_scope(scope)
    with transaction.atomic():
        items = _items(ContentItem.objects.for_user(owner).live().filter(scope=scope))
        links = _links_among(items)
        copies = [
            SnapshotItem(
                position=place, item_id=item.pk, scope=scope, related_to=links.get(item.pk, []),
                **{name: getattr(item, name) for name in FIELDS},
            )
            for place, item in enumerate(items)
        ]  # fmt: skip
        return keep_snapshot(owner, scope, copies, by=by, title=title, trust=trust)


def _items(rows: ContentQuerySet) -> list[ContentItem]:
    return list(rows.order_by("created", "pk"))


def _links_among(items: Iterable[ContentItem]) -> dict[uuid.UUID, list[uuid.UUID]]:
    """Return the relations among the items; relations to others aren't part of the snapshot."""
    keys = {item.pk for item in items}
    through = ContentItem.related_to.through.objects
    rows = through.filter(from_contentitem_id__in=keys, to_contentitem_id__in=keys)
    links: dict[uuid.UUID, list[uuid.UUID]] = {}
    for here, there in rows.order_by("to_contentitem_id").values_list(
        "from_contentitem_id", "to_contentitem_id"
    ):
        links.setdefault(here, []).append(there)
    return links


def keep_snapshot(
    owner: User, scope: str, copies: list[SnapshotItem], *, by: Actor, title: str, trust: str = ""
) -> Snapshot:
    """Store a snapshot of these copies, with its first revision."""
    snapshot = Snapshot(
        owner=owner,
        scope=scope,
        title=shorten(clean(title)[0], _MAX_TITLE_LENGTH),
        count=len(copies),
        size=sum(one.size for one in copies),
        source=str(by)[:200],
        trust=trust or (Trust.OWNER if by.is_person else Trust.AGENT),
        sensitivity=_strictest(copies),
    )
    with transaction.atomic():
        snapshot.save(force_insert=True)
        for one in copies:
            one.snapshot = snapshot
        SnapshotItem.objects.bulk_create(copies, batch_size=_AT_ONCE)
        Revision.record_first([snapshot], by=by, source=snapshot.source)
    return snapshot


def _strictest(copies: Iterable[SnapshotItem]) -> str:
    is_sensitive = any(one.sensitivity == Sensitivity.SENSITIVE for one in copies)
    return Sensitivity.SENSITIVE if is_sensitive else Sensitivity.NORMAL


# --- restoring ---


def restore_snapshot(
    snapshot: Snapshot, *, by: Actor, scope: str | None = None
) -> list[ContentItem]:
    """Restore the snapshot, and return its items, the oldest first.

    Without `scope`, or with the snapshot's own, the scope then contains exactly the snapshot's
    items with their IDs and old values, and newer items move to Trash. In another `scope`, new
    items are added to the existing ones, with the same relations among each other. Items that a
    person has since moved to Trash stay there, unless a person restores the snapshot.
    Raises Locked if `by` can't change one of them, and then nothing is changed.
    """
    into = checked_scope(scope) if scope else snapshot.scope
    with transaction.atomic():
        Snapshot.objects.select_for_update().get(pk=snapshot.pk)
        copies = list(snapshot.items.order_by("position"))
        _as_strict_as_now(snapshot, copies)
        if not by.is_person:
            gone = _trashed_by_person(snapshot, copies)
            copies = [one for one in copies if one.item_id not in gone]
        if into != snapshot.scope:
            keys = {one.item_id: uuid.uuid4() for one in copies}
            items = _create_copies(snapshot, copies, keys, into, by)
        else:
            keys = _own_keys(snapshot, copies)
            items = _as_it_was(snapshot, copies, keys, by)
        _relate(copies, keys)
    return items


def _as_strict_as_now(snapshot: Snapshot, copies: list[SnapshotItem]) -> None:
    """Give each copy the stricter sensitivity and the lower trust of itself and its current item."""
    rows = ContentItem.objects.for_user(snapshot.owner_id).filter(
        pk__in=[one.item_id for one in copies]
    )
    marks = rows.values_list("pk", "sensitivity", "trust")
    now = {key: (sensitivity, trust) for key, sensitivity, trust in marks}
    for one in copies:
        sensitivity, trust = now.get(one.item_id, ("", ""))
        if sensitivity == Sensitivity.SENSITIVE:
            one.sensitivity = Sensitivity.SENSITIVE
        if trust:
            one.trust = lowest_trust([one.trust, trust])


def _trashed_by_person(snapshot: Snapshot, copies: list[SnapshotItem]) -> set[uuid.UUID]:
    """Return the items that a person moved to Trash, which an agent can't restore."""
    keys = [one.item_id for one in copies]
    lying = ContentItem.objects.for_user(snapshot.owner_id).in_trash().filter(pk__in=keys)
    rows = Revision.objects.filter(record_id__in=lying.values("pk"), record_type="contentitem")
    last = rows.order_by("record_id", "-id").distinct("record_id").values_list("record_id", "actor")
    return {key for key, actor in last if actor.startswith("human:")}


def _own_keys(snapshot: Snapshot, copies: list[SnapshotItem]) -> dict[uuid.UUID, uuid.UUID]:
    """Return the id for each restored item: its own, unless another owner has an item with that id.

    Then it is the id that an archive import gives it (`memory.accounts.archive.importer`).
    """
    keys = {one.item_id: one.item_id for one in copies}
    others = ContentItem.objects.filter(pk__in=keys).exclude(owner=snapshot.owner_id)
    for key in others.values_list("pk", flat=True):
        keys[key] = uuid.uuid5(key, f"beacon:{snapshot.owner_id}")
    return keys


def _as_it_was(
    snapshot: Snapshot, copies: list[SnapshotItem], keys: dict[uuid.UUID, uuid.UUID], by: Actor
) -> list[ContentItem]:
    """Make the snapshot's own scope contain exactly its items."""
    own = ContentItem.objects.for_user(snapshot.owner_id)
    held = own.filter(pk__in=keys.values()).select_for_update(of=("self",))
    here: dict[uuid.UUID, ContentItem] = {item.pk: item for item in held}
    gone = [one for one in copies if keys[one.item_id] not in here]
    items_by_id = {
        item.pk: item for item in _create_copies(snapshot, gone, keys, snapshot.scope, by)
    }
    for one in copies:
        if keys[one.item_id] in here:
            _restore_item(here[keys[one.item_id]], _fields(one) | {"scope": snapshot.scope}, by)
    since = own.live().filter(scope=snapshot.scope).exclude(pk__in=keys.values())
    for item in _items(since.defer("content").select_for_update(of=("self",))):
        item.trash(by=by, why=_("stored after the restored snapshot was taken"))
    return [(here | items_by_id)[keys[one.item_id]] for one in copies]


def _restore_item(item: ContentItem, fields: dict[str, Any], by: Actor) -> None:
    fields = fields | {"trashed_at": None}
    changed = {name: value for name, value in fields.items() if getattr(item, name) != value}
    if changed:
        # The trust is always set, so that a person's restore doesn't raise it.
        changed["trust"] = fields["trust"]
        item.change(by=by, why=_("restored from a snapshot"), **changed)


def _create_copies(
    snapshot: Snapshot,
    copies: list[SnapshotItem],
    keys: dict[uuid.UUID, uuid.UUID],
    scope: str,
    by: Actor,
) -> list[ContentItem]:
    items = [
        ContentItem(pk=keys[one.item_id], owner_id=snapshot.owner_id, scope=scope, **_fields(one))
        for one in copies
    ]
    ContentItem.objects.bulk_create(items, batch_size=_AT_ONCE)
    Revision.record_first(items, by=by, source=f"snapshot:{snapshot.pk}")
    return items


def _fields(one: SnapshotItem) -> dict[str, Any]:
    return {name: getattr(one, name) for name in FIELDS}


def _relate(copies: list[SnapshotItem], keys: dict[uuid.UUID, uuid.UUID]) -> None:
    """Give the items the relations of their copies, and no others within the snapshot."""
    through = ContentItem.related_to.through
    inside = list(keys.values())
    through.objects.filter(from_contentitem_id__in=inside).delete()
    through.objects.bulk_create(
        [
            through(from_contentitem_id=keys[one.item_id], to_contentitem_id=keys[other])
            for one in copies
            for other in one.related_to
            if other in keys
        ],
        batch_size=1_000,
    )


# --- JSON ---

KIND = "beacon-content-snapshot"
MAX_ITEMS = 10_000
MAX_JSON = 256 * 1024 * 1024  # characters
_SALT = "beacon.content.snapshot"


class ItemJson(BaseModel):
    """One item of the JSON."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")

    id: uuid.UUID
    type: ContentItem.Type
    content: str
    tags: list[str] = Field(default_factory=list, max_length=MAX_TAGS)
    title: str = Field("", max_length=MAX_TITLE_LENGTH)
    url: str = Field("", max_length=MAX_URL_LENGTH)
    action: str = Field("", max_length=MAX_ACTION_LENGTH)
    run_step: str = Field("", max_length=MAX_SOURCE_LENGTH)
    source: str = Field(max_length=MAX_SOURCE_LENGTH)
    trust: Trust = Trust.EXTERNAL
    sensitivity: Sensitivity = Sensitivity.NORMAL
    pinned: bool = False
    created: Annotated[datetime, AfterValidator(in_utc)]
    topic_id: uuid.UUID | None = None
    related_to: list[uuid.UUID] = Field(default_factory=list, max_length=MAX_RELATED)


def snapshot_as_json(snapshot: Snapshot) -> str:
    """Return the snapshot as JSON.  It is only for the owner, since it contains sensitive items."""
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
    """Store the snapshot in the JSON with a new ID, and return it.

    Raises InvalidValue if it isn't a snapshot, has a newer format or another owner, or if items are
    too large or have circular relations. Then nothing is stored.
    """
    data = _read(text)
    _check_format(data)
    given = data.get("owner")
    if given != owner.get_username():
        params = {"owner": shorten(clean(str(given))[0], 60), "you": owner.get_username()}
        _refuse(
            _(
                "This snapshot belongs to the account “%(owner)s”, but you’re signed in as “%(you)s”. Ask its owner for an archive export instead."
            )
            % params
        )
    items = _items_of_json(data.get("items"))
    seal = str(data.pop("seal", ""))
    is_ours = constant_time_compare(seal, _seal(data))
    scope = checked_scope(str(data.get("scope", "")) or "owner")
    topics = set(Topic.objects.for_user(owner).values_list("pk", flat=True))
    copies = [
        _copy(one, place, scope, is_ours=is_ours, topics=topics) for place, one in enumerate(items)
    ]
    return keep_snapshot(owner, scope, copies, by=by, title=str(data.get("title") or ""))


def _read(text: str) -> dict[str, Any]:
    if len(text) > MAX_JSON:
        _refuse(_("The snapshot is larger than 256 MiB, so it wasn’t read. Create a smaller one."))
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as exc:
        why = _("nested too deeply") if isinstance(exc, RecursionError) else str(exc)
        _refuse(
            _("This isn’t a valid snapshot. The JSON can’t be read (%(why)s).")
            % {"why": shorten(why, 200)}
        )
    if not isinstance(data, dict) or data.get("kind") != KIND:
        _refuse(
            _("This JSON isn’t a content store snapshot: its “kind” isn’t “%(kind)s”.")
            % {"kind": KIND}
        )
    return data


def _check_format(data: Mapping[str, Any]) -> None:
    number = data.get("format")
    if type(number) is not int or number < 1:
        _refuse(_("The snapshot can’t be read because its format is missing."))
    if number > SNAPSHOT_FORMAT:
        params = {"theirs": number, "ours": SNAPSHOT_FORMAT}
        words = _(
            "The snapshot has format %(theirs)d, but this version of Beacon supports formats up to %(ours)d. Update Beacon, then import it again."
        )
        _refuse(words % params)


def _items_of_json(given: Any) -> list[ItemJson]:
    if not isinstance(given, list) or len(given) > MAX_ITEMS:
        _refuse(
            _("“items” must be a list of at most %(most)s items.") % {"most": grouped(MAX_ITEMS)}
        )
    items = []
    for place, one in enumerate(given, 1):
        try:
            items.append(ItemJson.model_validate(one))
        except ValidationError as exc:
            first = exc.errors(include_input=False, include_url=False, include_context=False)[0]
            where = ".".join(map(str, first["loc"]))
            params = {"n": place, "where": where, "why": first["msg"]}
            _refuse(_("Item %(n)d can’t be read (%(where)s): %(why)s.") % params)
        check_size(items[-1].content)
    if len({item.id for item in items}) != len(items):
        _refuse(_("Two items in the snapshot have the same ID."))
    known = {item.id for item in items}
    links = {item.id: [key for key in item.related_to if key in known] for item in items}
    check_no_circle(links, {item.id: item.title or str(item.id) for item in items})
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
        tags=[clean(tag)[0].replace(",", " ")[:MAX_TAG_LENGTH] for tag in one.tags],
        title=clean(one.title)[0],
        url=clean(one.url)[0],
        action=clean(one.action)[0],
        run_step=clean(one.run_step)[0],
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
