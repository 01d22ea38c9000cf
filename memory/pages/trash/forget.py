"""Deleting everything from one source, in one action that can be undone.

Data flow: a source (`run:12`, `session:…`, `import:…`, a web domain) -> its records by type -> one
transaction that moves them to Trash, with `source="forget:<key>"` on each revision, and rejects
pending proposals from there -> the same key restores exactly those.

Reports are kept, and so are facts that a person marked as wrong, so that no run reports the error
again. In the content store, it deletes what came from the source, was read at the domain, or was
kept for it. Snapshots have their own copies.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.forms.models import model_to_dict
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _

from beacon_site.text.canonical_urls import canonical_url
from beacon_site.text.cleaning import clean, one_line
from beacon_site.text.numbers import grouped
from memory.models import (
    Activity,
    ContentItem,
    LibraryDocument,
    Note,
    Observation,
    Remembered,
    Revision,
    ScratchpadEntry,
    SeenUrl,
    Source,
    Topic,
    TopicFact,
    Trust,
    User,
)
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached, MemoryRefused
from memory.models.origins import HEURISTIC
from memory.pages.review import acts as review_acts
from memory.services.records.kinds import kind_of

MOST = 5_000  # records in one action; more would take too long for one request
LONGEST = 200  # characters of a source
BATCH = 500
_DOMAIN = re.compile(r"(?!.*\.\.)[\w-]+(?:\.[\w-]+)+", re.UNICODE)
_TYPES: tuple[type[Remembered], ...] = (
    Note, Observation, TopicFact, ScratchpadEntry, ContentItem, LibraryDocument,
)  # fmt: skip


def checked_source(text: str) -> str:
    """Return the normalized source.  Raises InvalidValue if it's empty or too long."""
    source = one_line(clean(text)[0]).removesuffix(HEURISTIC)
    if not source:
        raise InvalidValue(_("Enter a source, such as run:12, session:…, import:… or example.org."))
    if len(source) > LONGEST:
        told = {"most": LONGEST, "have": len(source)}
        problem = _("A source can have at most %(most)d characters, but this one has %(have)d.")
        raise InvalidValue(problem % told)
    return source


def from_source(owner: User, source: str) -> list[QuerySet[Any]]:
    """Return the records from `source` outside Trash, one queryset per type."""
    found: list[QuerySet[Any]] = []
    for model in _TYPES:
        rows = model.objects.of(owner).live().filter(_came_from(model, source))
        if model is Note:
            rows = rows.exclude(pk__in=Note.objects.of(owner).current_identity().values("pk"))
        if model is LibraryDocument:
            rows = rows.filter(path="")  # the files of the watched folder are on disk
        if model is TopicFact:
            rows = rows.exclude(state=TopicFact.State.STRUCK).filter(topic__trashed_at=None)
        found.append(rows)
    return found


def _came_from(model: type[Remembered], source: str) -> Q:
    domain = source.removeprefix("domain:").casefold().removeprefix("www.")
    if _DOMAIN.fullmatch(domain) and ":" not in domain:
        named = Q(source=f"domain:{domain}")
        at = Q(url__iregex=rf"^https?://([^/?#]*\.)?{re.escape(domain)}(:\d+)?([/?#]|$)")
        if model is ContentItem:
            return named | at
        return at if model is TopicFact else named
    came = Q(source__in=[source, source + HEURISTIC])
    if ":" not in source:  # only an app's or run's scope; the owner's scope isn't a source
        return came
    if model is ContentItem:
        inside = Q(scope__startswith=f"{source}/") | Q(kept_with__startswith=f"{source}/")
        return came | Q(scope=source) | Q(kept_with=source) | inside
    return came | Q(scope=source) if model is ScratchpadEntry else came


def forget_preview(owner: User, source: str) -> list[tuple[str, int, int]]:
    """Return what `forget_source` would move to Trash: two queries per type.

    Each type has its noun, its number of records, and how many of those a person edited.
    """
    going = []
    for rows in from_source(owner, source):
        count = rows.order_by().count()
        if count:
            noun = str(kind_of(rows.model.record_type()).noun)
            by_hand = rows.filter(_touched(rows.model)).order_by().count()
            going.append((noun, count, by_hand))
    if waiting := review_acts.waiting_from(owner, source).order_by().count():
        going.append((_("pending proposals"), waiting, 0))
    return going


def _touched(model: type[Remembered]) -> Q:
    touched = Q(pinned=True)
    if model is Note:
        touched |= Q(edited_by_person=True)
    if model is TopicFact:
        touched |= Q(touched_by_person=True)
    if model in (ContentItem, LibraryDocument):
        touched |= Q(trust=Trust.OWNER)
    return touched


def forget_source(owner: User, source: str, *, by: Actor) -> tuple[uuid.UUID, int]:
    """Move everything from `source` to Trash; return the action's key and the number of records.

    One transaction. Raises InvalidValue if there is nothing, LimitReached beyond MOST.
    """
    source, key, count = checked_source(source), uuid.uuid4(), 0
    why = _("everything from %(source)s was deleted") % {"source": source}
    with transaction.atomic():
        for rows in from_source(owner, source):
            for batch in _batches(rows):
                count += len(batch)
                _check_count(count, source)
                fields = {"trashed_at": timezone.now()}
                wanted = [(record, fields) for record in batch]
                rows.model.change_many(wanted, by=by, why=why, source=f"forget:{key}")
                _update_topic_copies(batch)
        count += review_acts.reject_from(owner, source, by=by, why=f"forget:{key}")
        if not count:
            problem = _("There are no records from “%(source)s”, or they’re already in Trash.")
            raise InvalidValue(problem % {"source": source})
        Activity.log(owner, by, "forgot-source", label=source, records=count, key=str(key))
    return key, count


def _check_count(count: int, source: str) -> None:
    if count > MOST:
        raise LimitReached(
            _(
                "“%(source)s” has more than %(most)s records, which is too many to delete at once. Nothing was changed. Instead, search Notes and Observations for source:%(source)s, select all matches and move them to Trash."
            )
            % {"most": grouped(MOST), "source": source}
        )


def _batches(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Yield the records in batches, with their rows locked; one more than the limit is enough to
    know.
    """
    ids = list(rows.order_by("pk").values_list("pk", flat=True)[: MOST + 1])
    for at in range(0, len(ids), BATCH):
        yield _held(rows.model, ids[at : at + BATCH], trashed_at=None)


def _held(model: type[Remembered], ids: Sequence[Any], **more: Any) -> list[Any]:
    """Return the rows, locked until the transaction ends; a content item without its 8 MiB."""
    rows = model._default_manager.filter(pk__in=ids, **more).order_by("pk")
    if model is ContentItem:
        rows = rows.defer("content")
    return list(rows.select_for_update(of=("self",), no_key=True))


def _update_topic_copies(batch: Sequence[Any]) -> None:
    """Update the copies of topics whose facts have changed."""
    for owner_id, topic_id in {
        (fact.owner_id, fact.topic_id) for fact in batch if isinstance(fact, TopicFact)
    }:
        Topic.notify_changed(owner_id, topic_id)


def count_in_trash(owner: User, key: uuid.UUID) -> int:
    """Return how many records of the action `key` are still in Trash, or rejected."""
    told = Revision.objects.of(owner).filter(source=f"forget:{key}")
    rejected: int = review_acts.rejected_for(owner, f"forget:{key}").count()
    return rejected + sum(
        model.objects.of(owner).in_trash().filter(pk__in=ids).count()
        for model in _TYPES
        if (ids := _ids(told, model))
    )


def _ids(told: Any, model: type[Remembered]) -> list[Any]:
    of_type = told.filter(record_type=model.record_type())
    return list(of_type.order_by().values_list("record_id", flat=True)[: MOST + 1])


def undo_change(owner: User, key: uuid.UUID, *, by: Actor) -> tuple[int, list[str]]:
    """Restore what the action `key` deleted, except what has changed since.

    Returns how many were restored, and why others couldn't be.
    """
    source = f"forget:{key}"
    came, refused = 0, []
    with transaction.atomic():
        told = Revision.objects.of(owner).filter(source=source)
        for model in _TYPES:
            of_type = told.filter(record_type=model.record_type())
            versions = dict(of_type.values_list("record_id", "version"))
            rows = model.objects.of(owner).in_trash().filter(pk__in=list(versions))
            held = _held(model, list(rows.values_list("pk", flat=True)), trashed_at__isnull=False)
            untouched = [one for one in held if one.version == versions[one.pk]]
            back, problems = _restored(model, untouched, by=by)
            came += back
            refused += problems
        came += review_acts.restore_state_for(owner, source, by=by)
    return came, refused


def _restored(
    model: type[Remembered], records: Sequence[Any], *, by: Actor
) -> tuple[int, list[str]]:
    """Restore records together if possible, else one by one by their own rules."""
    if model is not TopicFact:
        try:
            with transaction.atomic():
                for at in range(0, len(records), BATCH):
                    wanted = [(one, {"trashed_at": None}) for one in records[at : at + BATCH]]
                    model.change_many(wanted, by=by, why=_("the deletion was undone"))
        except IntegrityError:
            # A record with the same name or text was written since: the others are
            # restored.
            records = list(model.objects.filter(pk__in=[one.pk for one in records]).in_trash())
        else:
            return len(records), []
    came, problems = 0, []
    for record in records:
        try:
            with transaction.atomic():
                kind_of(record.record_type()).restore(record, by)
            came += 1
        except (MemoryRefused, IntegrityError) as exc:
            said = str(exc) if isinstance(exc, MemoryRefused) else _("the same record exists again")
            problems.append(_("“%(record)s”: %(why)s") % {"record": record, "why": said})
    return came, problems


# --- seen URLs ---

KIND = "url-forgotten"
_DATES = ("published_at",)
_MOMENTS = ("returned_at", "first_at", "last_at")


def forget_url(topic: Topic, url: str, *, by: Actor) -> Activity:
    """Remove a URL from those the topic has seen; return the log entry that can restore it.

    Raises InvalidValue if the topic hasn't seen it.
    """
    url = canonical_url(clean(url)[0])
    with transaction.atomic():
        Topic.objects.select_for_update().get(pk=topic.pk)
        kept = {model.__name__: _taken(model, topic, url) for model in (SeenUrl, Source)}
        if not any(kept.values()):
            raise InvalidValue(_("This topic hasn’t seen this URL, or no longer lists it."))
        line = Activity.log(topic.owner, by, KIND, subject=topic, label=url, url=url, rows=kept)
        Topic.notify_changed(topic.owner_id, topic.pk)
    return line


def remember_url(topic: Topic, line_id: int, *, by: Actor) -> str:
    """Undo `forget_url`; return the URL.

    A URL that a run has found again stays as it is.  Raises InvalidValue if there is no such
    entry.
    """
    with transaction.atomic():
        Topic.objects.select_for_update().get(pk=topic.pk)
        line = Activity.objects.of(topic.owner).filter(pk=line_id, kind=KIND, topic=topic).first()
        if line is None or not line.detail.get("rows"):
            raise InvalidValue(_("This can no longer be undone."))
        url = str(line.detail["url"])
        for model in (SeenUrl, Source):
            row = line.detail["rows"].get(model.__name__)
            if row and not model.objects.filter(topic=topic, url=url).exists():
                model.objects.create(topic=topic, **_read(row))
        Activity.log(topic.owner, by, "url-remembered", subject=topic, label=url)
        Topic.notify_changed(topic.owner_id, topic.pk)
    return url


def _taken(model: type[SeenUrl] | type[Source], topic: Topic, url: str) -> dict[str, Any] | None:
    row = model.objects.filter(topic=topic, url=url).first()
    if row is None:
        return None
    fields = model_to_dict(row)
    row.delete()
    return {name: value for name, value in fields.items() if name not in ("id", "topic")}


def _read(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's values from the log's JSON."""
    read = dict(row)
    for name in _DATES:
        if read.get(name):
            read[name] = parse_date(str(read[name]))
    for name in _MOMENTS:
        if read.get(name):
            read[name] = parse_datetime(str(read[name]))
    return read
