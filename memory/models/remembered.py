"""The base of all remembered records, and the only ways to change them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Self
from uuid import UUID

from django.apps import apps
from django.core.serializers.json import DjangoJSONEncoder
from django.db import IntegrityError, models, transaction
from django.db.models import F, Q
from django.urls import get_script_prefix, reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import shorten
from beacon_site.text.messages import gettext as _
from memory.models.accounts import ApiAnswer
from memory.models.actors import Actor
from memory.models.conflicts import Conflict
from memory.models.errors import InvalidValue, Locked, StaleWrite
from memory.models.history import Activity, Change, OwnedQuerySet, Revision, Use, as_json
from memory.models.proposals import Proposal

OWNER_SCOPE = "owner"  # for records that all of the owner's agents can read
# For records that all agents but these can read: `except:claude:cursor`. Agents' names have no colon.
EXCEPT_SCOPE = "except"


def names_excluded(scope: str) -> list[str]:
    kind, _colon, names = scope.partition(":")
    return names.split(":") if kind == EXCEPT_SCOPE else []


def scope_excluding(scope: str, agent: str) -> str:
    """Return a scope for all that can read `scope`, except the agent of this name."""
    names = [name for name in names_excluded(scope) if name != agent]
    return ":".join([EXCEPT_SCOPE, *names, agent])


def scope_including(scope: str, agent: str) -> str:
    """Return the scope without its exclusion of the agent."""
    names = [name for name in names_excluded(scope) if name != agent]
    return ":".join([EXCEPT_SCOPE, *names]) if names else OWNER_SCOPE


def is_in_scopes(scope: str, scopes: Iterable[str]) -> bool:
    """Whether a reader with these scopes can see records of this one. `in_scopes` is the same in SQL."""
    excluded = names_excluded(scope)
    if excluded:
        return not {f"agent:{name}" for name in excluded} & set(scopes)
    return scope in scopes


def in_scopes(scopes: Iterable[str]) -> Q:
    """Return the condition for the records that a reader with these scopes can see."""
    scope_list = list(scopes)
    but = Q(scope__startswith=f"{EXCEPT_SCOPE}:")
    for one in scope_list:
        kind, _colon, name = one.partition(":")
        if kind == "agent":
            but &= ~Q(scope__endswith=f":{name}") & ~Q(scope__contains=f":{name}:")
    return Q(scope__in=scope_list) | but


class Trust(models.TextChoices):
    """How far a record can be trusted. A derived record takes the lowest trust of its origins."""

    OWNER = "owner", gettext_lazy("owner")
    AGENT = "agent", gettext_lazy("agent")
    EXTERNAL = "external", gettext_lazy("external")
    QUARANTINED = "quarantined", gettext_lazy("quarantined")


class Sensitivity(models.TextChoices):
    """Whether a record can be sent to an outside provider."""

    NORMAL = "normal", gettext_lazy("normal")
    SENSITIVE = "sensitive", gettext_lazy("sensitive")


class Lock(models.TextChoices):
    """What agents can do with a record. People can always edit it."""

    OPEN = "open", gettext_lazy("open")
    APPEND_ONLY = "append-only", gettext_lazy("append-only")
    READ_ONLY = "read-only", gettext_lazy("read-only")


# Moving, locking, striking or trashing a record doesn't mean that a person vouches for its text.
NO_VOUCHING = frozenset(
    {
        "trashed_at",
        "lock",
        "paused",
        "pinned",
        "position",
        "question",
        "state",
        "retired_run",
        "retired_as",
        "chain",
        "expires_at",
        "edited_by_person",
        "superseded_by_id",
        "tags",
        "category",
        "sensitivity",
        "scope",
    }
)


class RememberedQuerySet(OwnedQuerySet):
    """Queries for all remembered records."""

    def live(self) -> Self:
        return self.filter(trashed_at=None)

    def in_trash(self) -> Self:
        return self.exclude(trashed_at=None)

    def for_agents(self) -> Self:
        """Keep what agents can see: not paused, sensitive or quarantined, nor is the topic sensitive
        or quarantined.
        """
        rows = self.exclude(sensitivity=Sensitivity.SENSITIVE).exclude(trust=Trust.QUARANTINED)
        columns = {column.name for column in self.model._meta.concrete_fields}
        if "paused" in columns:
            rows = rows.filter(paused=False)
        topic = getattr(self.model, "TOPIC_PATH", "topic" if "topic" in columns else "")
        if not topic:
            return rows
        rows = rows.exclude(**{f"{topic}__sensitivity": Sensitivity.SENSITIVE})
        return rows.exclude(**{f"{topic}__trust": Trust.QUARANTINED})


class Remembered(models.Model):
    """A stored record with its owner, origin and trust.

    Changes to the fields in `REVISED` are stored as revisions. All changes go through `change()`,
    `trash()`, `restore()` and `purge()`. `IS_PART` marks a record that only belongs to another one
    (a file's section) and has no history, trash or name.
    """

    REVISED: ClassVar[tuple[str, ...]] = ()
    IS_PART: ClassVar[bool] = False

    # Called with records that are about to be deleted permanently, and who does it. What each
    # returns is called after the deletion, in the same transaction (memory.services.records.traces).
    BEFORE_PURGE: ClassVar[list[Callable[[Sequence[Remembered], Actor], Callable[[], None]]]] = []

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    source = models.CharField(max_length=200, default="explicit")
    trust = models.CharField(max_length=12, choices=Trust, default=Trust.OWNER)
    sensitivity = models.CharField(max_length=10, choices=Sensitivity, default=Sensitivity.NORMAL)
    version = models.PositiveIntegerField(default=1)
    pinned = models.BooleanField(default=False)
    lock = models.CharField(max_length=12, choices=Lock, default=Lock.OPEN)
    created = models.DateTimeField(default=timezone.now)
    updated = models.DateTimeField(default=timezone.now)
    trashed_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[Any]] = RememberedQuerySet.as_manager()

    class Meta:
        abstract = True

    @classmethod
    def record_type(cls) -> str:
        """Return the type's name in history, activity and Trash (`topic`, `topicfact`)."""
        return cls._meta.model_name or cls.__name__.lower()

    def snapshot(self, *fields: str) -> dict[str, Any]:
        """Return the named fields (default: all revised ones) of this instance."""
        return {name: getattr(self, name) for name in fields or self.REVISED}

    def as_json(self, *fields: str) -> dict[str, Any]:
        """Return the snapshot as revisions store it."""
        return as_json(self.snapshot(*fields))

    @property
    def is_outside(self) -> bool:
        """Return True if its text came from outside. An agent then gets it as data, not as instructions."""
        return self.trust not in (Trust.OWNER, Trust.AGENT)

    @property
    def is_for_agents(self) -> bool:
        """Return True if agents can see it: it isn't paused, and neither it nor its topic is
        sensitive or quarantined.
        """
        if getattr(self, "paused", False):
            return False
        topic = getattr(getattr(self, "run", None) or self, "topic", None)
        return not any(
            one.sensitivity == Sensitivity.SENSITIVE or one.trust == Trust.QUARANTINED
            for one in (self, topic)
            if one is not None
        )

    def check_may_change(self, by: Actor) -> None:
        """Raise Locked if `by` can't change the record."""
        if not by.is_person and self.lock != Lock.OPEN:
            raise Locked(
                _("“%(label)s” is locked (%(lock)s). Only a person can change it.")
                % {"label": str(self), "lock": self.get_lock_display()}
            )

    def change(
        self,
        *,
        by: Actor,
        expected_version: int | None = None,
        why: str = "",
        source: str = "",
        **fields: Any,
    ) -> Self:
        """Set `fields` if nothing was written since `expected_version` (default: this instance's
        version).

        Stores one revision with the previous values. A person's text becomes trusted as the owner's
        own, but moving, locking or trashing doesn't count as writing. `source` names the run or
        session of the change, not of the record. Raises Locked, or StaleWrite if the stored version
        is another. Nothing is stored in either case.
        """
        self.check_may_change(by)
        expected = self.version if expected_version is None else expected_version
        before = {name: getattr(self, name) for name in fields}
        if before == fields and expected == self.version:
            return self
        if by.is_person and not NO_VOUCHING.issuperset(fields):
            fields.setdefault("trust", Trust.OWNER)
        fields["updated"] = timezone.now()
        with transaction.atomic():
            written = (
                type(self)
                .objects.filter(pk=self.pk, version=expected)
                .update(version=F("version") + 1, **fields)
            )
            if written == 0:
                current = type(self).objects.filter(pk=self.pk).values_list("version", flat=True)
                raise StaleWrite(str(self), current=current.first())
            after = {name: fields[name] for name in before}
            Revision.record(
                self,
                before=before,
                after=after,
                by=by,
                why=why,
                source=source,
                version=expected + 1,
            )
            _update_conflicts([self.pk], fields, by=by)
            _withhold_answers([self.pk], before)
        for name, value in fields.items():
            setattr(self, name, value)
        self.version = expected + 1
        return self

    @classmethod
    def change_many(
        cls,
        wanted: Sequence[tuple[Self, dict[str, Any]]],
        *,
        by: Actor,
        why: str = "",
        source: str = "",
    ) -> None:
        """Change each record to its own `fields` as `change()` does, in few statements.

        Call it in a transaction that holds the rows (`select_for_update`), since it doesn't compare
        versions. Raises Locked if `by` can't change one of them, and then nothing is stored.
        """
        now = timezone.now()
        groups: dict[str, tuple[dict[str, Any], list[Any]]] = {}
        changes: list[Change] = []
        for record, fields in wanted:
            record.check_may_change(by)
            before = record.snapshot(*fields)
            after = dict(fields)
            if by.is_person and not NO_VOUCHING.issuperset(fields):
                after.setdefault("trust", Trust.OWNER)
            key = json.dumps(as_json(after), sort_keys=True)
            groups.setdefault(key, (after, []))[1].append(record.pk)
            record.version += 1
            changes.append((record, before, fields, record.version))
            for name, value in (after | {"updated": now}).items():
                setattr(record, name, value)
        for after, keys in groups.values():
            rows = cls.objects.filter(pk__in=keys)
            rows.update(version=F("version") + 1, updated=now, **after)
            _update_conflicts(keys, after, by=by)
            _withhold_answers(keys, after)
        Revision.record_many(changes, by=by, why=why, source=source)

    def trash(self, *, by: Actor, why: str = "", source: str = "") -> None:
        """Move the record to Trash, from which it can be restored for 30 days."""
        if self.trashed_at is None:
            self.change(
                by=by, why=why or _("moved to Trash"), source=source, trashed_at=timezone.now()
            )

    def restore(self, *, by: Actor) -> None:
        """Restore the record from Trash.

        Raises InvalidValue if another record has taken its place where there can be only one (a
        key, or the same text of one source).
        """
        if self.trashed_at is None:
            return
        try:
            with transaction.atomic():
                self.change(by=by, why=_("restored from Trash"), trashed_at=None)
        except IntegrityError as exc:
            raise InvalidValue(
                _(
                    "“%(label)s” can’t be restored because another record has taken its place. Move that record to Trash first."
                )
                % {"label": shorten(str(self), 80)}
            ) from exc

    def purge(self, *, by: Actor) -> None:
        """Delete the record, its history and its copies. The log keeps the event, but not the text.

        Raises InvalidValue if it was in Trash when it was loaded and no longer is.
        """
        with transaction.atomic():
            self._hold_in_trash()
            records = self.purged_with()
            finish = self.prepare_purge(records, by=by)
            ids = [record.pk for record in records]
            Activity.forget(ids)
            # Its proposals hold its text, too.
            Proposal.forget(models.Q(target_id__in=ids) | models.Q(result_id__in=ids))
            Conflict.forget(ids)
            ApiAnswer.forget(ids)
            Use.objects.filter(record_id__in=ids).delete()
            Activity.log(self.owner, by, "purged", subject=self, label=self.record_type())
            Revision.forget(records)
            self.delete()
            finish()

    @classmethod
    def prepare_purge(cls, records: Iterable[Remembered], *, by: Actor) -> Callable[[], None]:
        """Return the callbacks that remove copies of the records after they are deleted."""
        members = list(records)
        each = [prepare(members, by) for prepare in cls.BEFORE_PURGE]

        def finish() -> None:
            for one in each:
                one()

        return finish

    def _hold_in_trash(self) -> None:
        """Lock the row in Trash, so that it can't be restored in the meantime."""
        if self.trashed_at is None:
            return
        row = type(self).objects.filter(pk=self.pk).select_for_update()
        found = list(row.values_list("trashed_at", flat=True))
        if not found:  # another tab was faster; the rows that hold its name can be gone, too
            raise InvalidValue(_("This item has already been permanently deleted."))
        if found == [None]:
            raise InvalidValue(
                _("“%(label)s” is no longer in Trash, so it wasn’t deleted.")
                % {"label": shorten(str(self), 80)}
            )

    def purged_with(self) -> list[Remembered]:
        """Return the records whose history is deleted with this one: itself, and what belongs to
        it.
        """
        return [self]


# The field values of a record that is no longer active.
_STANDING: dict[str, Any] = {"trashed_at": None, "superseded_by_id": None, "state": "current"}


def _update_conflicts(ids: Sequence[Any], fields: Mapping[str, Any], *, by: Actor) -> None:
    """Update the conflicts of these records: a conflict with a missing side is resolved."""
    told = [fields[name] == stands for name, stands in _STANDING.items() if name in fields]
    if told:
        (Conflict.reopen_restored if all(told) else Conflict.went)(ids, by=by)


def _withhold_answers(ids: Sequence[Any], changed: Mapping[str, Any]) -> None:
    """Remove the text of these records from kept API answers, since visibility or trust has
    changed.
    """
    if changed.keys() & {"trashed_at", "sensitivity", "trust"}:
        ApiAnswer.withhold(ids)


# --- Trash ---

TRASH_DAYS = 30  # then they are deleted permanently


class TrashedRows(models.Model):
    """Rows that left their tables when a record moved to Trash, to be restored with it.

    Records that were trashed along with it are found by their revisions, whose `source` is
    `source_of()`. `rows` holds other rows as JSON: a run's seen URLs and sources, and its changes
    to facts that remain.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    topic = models.ForeignKey("memory.Topic", models.CASCADE, null=True, related_name="+")
    record_type = models.CharField(max_length=40)
    record_id = models.UUIDField(unique=True)
    rows = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[TrashedRows]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "moved to Trash"

    def __str__(self) -> str:
        return f"{self.record_type} {self.record_id}"

    @staticmethod
    def source_of(record_id: object) -> str:
        """Return the `source` for revisions of records that were trashed along with this one."""
        return f"put-away:{record_id}"


# --- URLs for many records at once ---


_NOBODY = UUID(int=0)


def address(name: str, key: Any, *before: str) -> str:
    """Return the URL of `name` for a record, as `reverse` does, but from a cached pattern.

    Calling `reverse` for each of 200 records took a fifth of the time of a page.
    """
    return _address_of_nobody(get_script_prefix(), name, before).replace(str(_NOBODY), str(key))


@cache
def _address_of_nobody(_prefix: str, name: str, before: tuple[str, ...]) -> str:
    return reverse(name, args=[*before, _NOBODY])


@cache  # a page of Activity calls this 300 times
def record_models() -> Mapping[str, type[Remembered]]:
    """Return the models of records by record type, without parts of records."""
    found = (model for model in apps.get_models() if issubclass(model, Remembered))
    return MappingProxyType({one.record_type(): one for one in found if not one.IS_PART})
