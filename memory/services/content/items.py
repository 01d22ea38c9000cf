"""The content store: storing, retrieving, querying, relating, clearing and expiring items."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.text.cleaning import clean, one_line, shorten, uuid_of
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped, ngettext
from memory.models import Activity, ContentItem, Lock, Revision, Sensitivity, Topic, Trust, User
from memory.models.actors import MAINTENANCE, Actor
from memory.models.content import ContentQuerySet
from memory.models.errors import InvalidValue
from memory.services.notes.saving import NoteChecks, listed

_AT_ONCE = 500


def checked_scope(scope: str) -> str:
    """Return the scope as stored. Raises InvalidValue for an invalid one."""
    checks = NoteChecks()
    scope = checks.scope(scope)
    checks.raise_refused()
    return scope


def clear(owner: User, scope: str, *, by: Actor, at: datetime | None = None) -> int:
    """Move everything in this scope to Trash, and return how many items (R117).

    They get the same time `at` (default: now). Raises InvalidValue for an invalid
    scope, and Locked if `by` can't move one of the items, and then nothing is moved.
    """
    scope, at = checked_scope(scope), at or timezone.now()
    held = ContentItem.objects.for_user(owner).live().filter(scope=scope)
    moved = change_all(held, {"trashed_at": at}, by=by, why=_("content store cleared"))
    if moved:
        Activity.log(owner, by, "content-cleared", label=scope, items=moved, at=at.isoformat())
    return moved


def change_all(rows: ContentQuerySet, fields: dict[str, Any], *, by: Actor, why: str) -> int:
    """Change the rows in one transaction, a few hundred at a time, and return how many."""
    changed = 0
    with transaction.atomic():
        keys = list(rows.order_by("pk").values_list("pk", flat=True))
        for start in range(0, len(keys), _AT_ONCE):
            some = ContentItem.objects.filter(pk__in=keys[start : start + _AT_ONCE])
            held = list(some.defer("content").order_by("pk").select_for_update(of=("self",)))
            pairs = [(item, dict(fields)) for item in held if _differs(item, fields)]
            ContentItem.change_many(pairs, by=by, why=why)
            changed += len(pairs)
    return changed


def _differs(item: ContentItem, fields: dict[str, Any]) -> bool:
    """Return True if the row has changed since it was selected."""
    return (item.trashed_at is None) != (fields["trashed_at"] is None)


# --- limits ---

MAX_BYTES = 8 * 1024 * 1024  # of UTF-8 per item
MAX_RELATED = 100  # related items of one item
MAX_QUERIED = 200  # items returned by one query
USUAL_QUERIED = 10  # R116
MAX_TITLE_LENGTH, MAX_URL_LENGTH, MAX_ACTION_LENGTH, MAX_SOURCE_LENGTH = 500, 2_048, 80, 200
# characters of one-line texts, by field
MAX_LENGTH = {
    "title": MAX_TITLE_LENGTH, "url": MAX_URL_LENGTH, "action": MAX_ACTION_LENGTH, "source": MAX_SOURCE_LENGTH,
    "run_step": MAX_SOURCE_LENGTH,
}  # fmt: skip


def check_size(content: str) -> None:
    """Raise InvalidValue if the content is too large for one item."""
    # A character has at most four bytes, so most texts needn't be encoded to measure them.
    if len(content) * 4 <= MAX_BYTES:
        return
    size = len(content.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        problem = _(
            "A content item can be at most %(most)s bytes (8 MiB), but this one is %(have)s. Nothing was stored. Split it, or store only the part you need."
        ) % {"most": grouped(MAX_BYTES), "have": grouped(size)}
        raise InvalidValue(problem, errors={"content": [problem]})


def whole_number(name: str, value: object, most: int) -> int:
    """Return `value` if it is a whole number from 1 to `most`.  Raises InvalidValue."""
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    problem = _("“%(name)s” must be a whole number from 1 to %(most)s, not “%(value)s”.") % {
        "name": name,
        "most": grouped(most),
        "value": str(value)[:40],
    }
    raise InvalidValue(problem, errors={name: [problem]})


# --- retrieving and querying ---


def retrieve(owner: Any, item_id: Any, *, scopes: Collection[str] | None) -> ContentItem | None:
    """Return the item, or None if it isn't in these scopes (R113).

    With `scopes` None, all of the owner's items are found, for pages. Callers that show it to an
    agent check `ToolContext.may_read` first.
    """
    key = uuid_of(str(item_id).strip())
    if key is None:
        return None
    row: ContentItem | None = (
        ContentItem.objects.for_user(owner).live().in_scopes(scopes).filter(pk=key).first()
    )
    return row


def query(
    owner: Any,
    *,
    scopes: Collection[str] | None,
    type: str = "",
    source: str = "",
    tags: Iterable[str] | str = (),
    after: datetime | None = None,
    before: datetime | None = None,
    limit: int = USUAL_QUERIED,
    for_agent: bool = False,
) -> list[ContentItem]:
    """Return the items that meet all criteria, newest first, without their content (R115).

    Items must have all of `tags`. `after` and `before` are inclusive. `for_agent` leaves out what
    agents can't see. Raises InvalidValue for an unknown type or an invalid limit.
    """
    whole_number("limit", limit, MAX_QUERIED)
    found = matching(owner, scopes=scopes, type=type, source=source, tags=tags)
    if after is not None:
        found = found.filter(created__gte=after)
    if before is not None:
        found = found.filter(created__lte=before)
    if after is not None and before is not None and after > before:
        problem = _("“after” is later than “before”. Swap the two dates.")
        raise InvalidValue(problem, errors={"after": [problem]})
    if for_agent:
        found = found.for_agents()
    return list(found.order_by("-created", "-id").defer("content")[:limit])


def matching(
    owner: Any,
    *,
    scopes: Collection[str] | None,
    type: str = "",
    source: str = "",
    tags: Iterable[str] | str = (),
) -> ContentQuerySet:
    """Return the items of this type and source, outside Trash, that have all of the tags."""
    found = ContentItem.objects.for_user(owner).live().in_scopes(scopes)
    if type:
        checks = NoteChecks()
        checks.choice("type", type, ContentItem.Type.values)
        checks.raise_refused()
        found = found.filter(type=type)
    if source:
        found = found.filter(source=one_line(clean(source)[0]))
    given = listed(tags) if isinstance(tags, str) else tags
    names = [line for line in (shorten(clean(tag)[0], 200) for tag in given) if line]
    return found.filter(tags__contains=names) if names else found


# --- relations between items ---

Links = Mapping[Any, Iterable[Any]]


def checked_related(owner: Any, related_to: Iterable[Any]) -> list[ContentItem]:
    """Return the given items without duplicates. Raises InvalidValue if one doesn't exist."""
    nones_by_id: dict[uuid.UUID, None] = {}
    unknown: list[str] = []
    for given in related_to:
        if key := uuid_of(given):
            nones_by_id[key] = None
        else:
            unknown.append(str(given))
    if len(nones_by_id) > MAX_RELATED:
        _refuse(
            _("An item can have at most %(most)d related items, but this one lists %(have)d.")
            % {"most": MAX_RELATED, "have": len(nones_by_id)}
        )
    rows = ContentItem.objects.for_user(owner).live().defer("content")
    found: dict[uuid.UUID, ContentItem] = {
        item.pk: item for item in rows.filter(pk__in=nones_by_id)
    }
    unknown += [str(key) for key in nones_by_id if key not in found]
    if unknown:
        _refuse(
            _("No stored items match these IDs: %(ids)s. Check the IDs and try again.")
            % {"ids": ", ".join(shorten(clean(one)[0], 40) for one in unknown[:5])}
        )
    return [found[key] for key in nones_by_id]


def relate(item: ContentItem, related_to: Iterable[Any], *, by: Actor, why: str = "") -> None:
    """Relate the item to these items, and no others.

    Raises InvalidValue for an item that doesn't exist or that leads back to this item (the message
    has the path), and Locked. Then nothing is changed.
    """
    item.check_may_change(by)
    with transaction.atomic():
        # Two relations created at the same time could form a cycle.
        lock_until_commit(LockId.CONTENT_RELATIONS, item.owner_id)
        items = checked_related(item.owner_id, related_to)
        links = _links_from(items, item.pk) | {item.pk: [one.pk for one in items]}
        check_no_circle(links, {item.pk: str(item)} | {one.pk: str(one) for one in items})
        before = sorted(str(key) for key in item.related_to.values_list("pk", flat=True))
        after = sorted(str(one.pk) for one in items)
        if before == after:
            return
        item.related_to.set(items)
        rows = ContentItem.objects.filter(pk=item.pk)
        rows.update(version=F("version") + 1, updated=timezone.now())
        item.refresh_from_db(fields=["version", "updated"])
        Revision.record(
            item,
            before={"related_to": before},
            after={"related_to": after},
            by=by,
            why=why or _("related"),
            version=item.version,
        )


def _links_from(items: Iterable[ContentItem], until: uuid.UUID) -> dict[uuid.UUID, list[uuid.UUID]]:
    """Return the relations of these items, of their related items and so on, without those of
    `until`.
    """
    through = ContentItem.related_to.through.objects
    links: dict[uuid.UUID, list[uuid.UUID]] = {}
    ahead = {item.pk for item in items}
    while ahead := ahead - {until, *links}:
        links |= {key: [] for key in ahead}
        rows = through.filter(from_contentitem_id__in=ahead)
        for here, there in rows.values_list("from_contentitem_id", "to_contentitem_id"):
            links[here].append(there)
        ahead = {there for key in ahead for there in links[key]}
    return links


def check_no_circle(links: Links, names: Mapping[Any, str] | None) -> None:
    """Raise InvalidValue with the path if these relations form a circle."""
    path = circle_in(links)
    if path:
        text = " → ".join(str((names or {}).get(key, key)) for key in path)
        _refuse(
            _("Related items can’t form a loop: %(path)s. Leave one out.")
            % {"path": shorten(text, 600)}
        )


def circle_in(links: Links) -> list[Any]:
    """Return a path that ends where it begins, or an empty list if there is none."""
    done: set[Any] = set()
    for start in links:
        path: dict[Any, Iterator[Any]] = {}  # in order, each with its remaining relations
        if start not in done:
            path[start] = iter(links[start])
        while path:
            here = next(reversed(path))
            there = next(path[here], None)
            if there is None:
                done.add(here)
                del path[here]
            elif there in path:
                walked = list(path)
                return [*walked[walked.index(there) :], there]
            elif there not in done:
                path[there] = iter(links.get(there, ()))
    return []


def _refuse(problem: str) -> None:
    raise InvalidValue(problem, errors={"related_to": [problem]})


# --- expiry (BEACON_CONTENT_DAYS) ---

_EXPIRED_AT_ONCE = 200

# Each returns the IDs of items that are kept, whatever their age.
KEEPERS: list[Callable[[], QuerySet[Any, Any]]] = []
# Functions that take an item and return where it was used, as (words, URL, time); research adds its own.
Usage = tuple[str, str, datetime]
USED_IN: list[Callable[[Any], Iterable[Usage]]] = []


def due(at: datetime | None = None) -> ContentQuerySet:
    """Return the items that have expired at `at`, or none if items are kept permanently."""
    days = settings.BEACON_CONTENT_DAYS
    if not days:
        return ContentItem.objects.none()
    before = (at or timezone.now()) - timedelta(days=days)
    found = ContentItem.objects.all().live().filter(created__lt=before)
    found = found.filter(pinned=False, lock=Lock.OPEN).exclude(trust=Trust.OWNER)
    for keeper in KEEPERS:
        found = found.exclude(pk__in=keeper())
    return found


def retire(owner: User) -> int:
    """Move the owner's expired items to Trash, log it in Activity, and return how many.

    Two concurrent calls share them, and neither waits.
    """
    days, moved = settings.BEACON_CONTENT_DAYS, 0
    why = ngettext("older than %(n)d day", "older than %(n)d days", days) % {"n": days}
    while True:
        with transaction.atomic():
            rows = due().for_user(owner).order_by("created", "pk").defer("content")
            some = list(rows.select_for_update(of=("self",), skip_locked=True)[:_EXPIRED_AT_ONCE])
            trashed = timezone.now()
            pairs = [(item, {"trashed_at": trashed}) for item in some]
            ContentItem.change_many(pairs, by=MAINTENANCE, why=why)
        moved += len(some)
        if len(some) < _EXPIRED_AT_ONCE:
            break
    if moved:
        params = {"n": grouped(moved), "days": grouped(days)}
        label = ngettext(
            "%(n)s content item older than %(days)s days moved to Trash",
            "%(n)s content items older than %(days)s days moved to Trash",
            moved,
        )
        Activity.log(owner, MAINTENANCE, "content-retired", label=label % params, items=moved)
    return moved


def owners_in_need() -> list[int]:
    """Return the IDs of the owners with expired items."""
    return sorted(set(due().order_by().values_list("owner_id", flat=True)))


# --- storing ---


def as_text(value: Any) -> str:
    """Return a value as stored: text unchanged, anything else as JSON (R121).

    Raises InvalidValue for JSON that is nested too deeply.
    """
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError) as exc:
        problem = _("“content” is nested too deeply. Send it as text, or flatten it.")
        raise InvalidValue(problem, errors={"content": [problem]}) from exc


def store(
    owner: User,
    content: str,
    *,
    by: Actor,
    type: str = ContentItem.Type.CUSTOM,
    source: str = "",
    scope: str = "owner",
    tags: Iterable[str] | str = (),
    related_to: Iterable[Any] = (),
    action: str = "",
    title: str = "",
    url: str = "",
    topic: Topic | None = None,
    trust: str | None = None,
    sensitivity: str = Sensitivity.NORMAL,
    run_step: str = "",
) -> ContentItem:
    """Store the full content and return its item, whose ID retrieves it (R112).

    `source` says where it came from (default: who stored it), `trust` how far to trust it (default:
    the owner's own for a person, otherwise the agent's), and `run_step` the step of a run it
    belongs to (`run:12/step:345`). Unstorable characters are removed. Raises InvalidValue with the
    reasons by field, and then nothing is stored.
    """
    check_size(content)
    content = clean(content)[0]
    checks = NoteChecks()
    lines = {"title": title, "url": url, "action": action, "run_step": run_step}
    fields = {
        "type": checks.choice("type", type, ContentItem.Type.values),
        "scope": checks.scope(scope),
        "tags": checks.tags(tags),
        "sensitivity": checks.choice("sensitivity", sensitivity, Sensitivity.values),
        "source": _check_line(checks, "source", source) or str(by)[: MAX_LENGTH["source"]],
        "trust": trust or (Trust.OWNER if by.is_person else Trust.AGENT),
    } | {name: _check_line(checks, name, value) for name, value in lines.items()}
    if topic is not None and topic.owner_id != owner.pk:
        checks.refuse("topic", _("This topic doesn’t exist."))
    checks.raise_refused()
    related = checked_related(owner, related_to)
    item = ContentItem(owner=owner, content=content, size=len(content), topic=topic, **fields)
    with transaction.atomic():
        item.save(force_insert=True)
        item.related_to.add(*related)
        Revision.record_first([item], by=by, source=item.source)
    return item


def _check_line(checks: NoteChecks, field: str, value: str) -> str:
    """Check that a one-line text isn't too long."""
    line, most = one_line(checks.text(field, value)), MAX_LENGTH[field]
    if len(line) > most:
        params = {"name": field, "most": grouped(most), "have": grouped(len(line))}
        checks.refuse(
            field,
            _("“%(name)s” can have at most %(most)s characters, but this one has %(have)s.")
            % params,
        )
    return line
