"""What every remembered record has, and the only ways in which it changes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

from django.core.serializers.json import DjangoJSONEncoder
from django.db import IntegrityError, models, transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import shorten
from memory.core.actors import Actor
from memory.core.errors import InvalidValue, Locked, StaleWrite
from memory.models.accounts import ApiAnswer
from memory.models.conflicts import Conflict
from memory.models.history import Activity, Change, OwnedQuerySet, Revision, as_json
from memory.models.proposals import Proposal

OWNER_SCOPE = "owner"  # of records that all of the owner's agents may read


class Trust(models.TextChoices):
    """How far a record may be believed; a derived one takes the lowest of what it came from."""

    OWNER = "owner", gettext_lazy("owner")
    AGENT = "agent", gettext_lazy("agent")
    EXTERNAL = "external", gettext_lazy("external")
    QUARANTINED = "quarantined", gettext_lazy("quarantined")


class Sensitivity(models.TextChoices):
    """Whether a record may be sent to an outside provider."""

    NORMAL = "normal", gettext_lazy("normal")
    SENSITIVE = "sensitive", gettext_lazy("sensitive")


class Lock(models.TextChoices):
    """What agents may do with a record; people may always edit."""

    OPEN = "open", gettext_lazy("open")
    APPEND_ONLY = "append-only", gettext_lazy("append-only")
    READ_ONLY = "read-only", gettext_lazy("read-only")


# A person who moves, locks, strikes or trashes a record has not vouched for what it says.
NO_VOUCHING = frozenset(
    {
        "trashed_at",
        "lock",
        "pinned",
        "position",
        "state",
        "retired_run",
        "expires_at",
        "touched_by_person",
        "edited_by_person",
        "superseded_by_id",
        "tags",
        "category",
        "sensitivity",
    }
)


class RememberedQuerySet(models.QuerySet[Any]):
    """The questions that every remembered record answers."""

    def of(self, user: Any) -> Self:
        """Keep what `user` owns: the one owner filter."""
        return self.filter(owner=user)

    def live(self) -> Self:
        """Keep what is not in the trash."""
        return self.filter(trashed_at=None)

    def in_trash(self) -> Self:
        """Keep what is in the trash."""
        return self.exclude(trashed_at=None)

    def for_agents(self) -> Self:
        """Keep what agents may see: nothing that is sensitive or quarantined, or whose topic is."""
        rows = self.exclude(sensitivity=Sensitivity.SENSITIVE).exclude(trust=Trust.QUARANTINED)
        columns = {column.name for column in self.model._meta.concrete_fields}
        topic = getattr(self.model, "TOPIC_PATH", "topic" if "topic" in columns else "")
        if not topic:
            return rows
        rows = rows.exclude(**{f"{topic}__sensitivity": Sensitivity.SENSITIVE})
        return rows.exclude(**{f"{topic}__trust": Trust.QUARANTINED})


class Remembered(models.Model):
    """A stored thing that says whose it is, where it came from, and how far to believe it.

    `REVISED` names the fields whose change is a revision.  All changes go through `change()`,
    `trash()`, `restore()` and `purge()`, whoever makes them.  `IS_PART` marks what only belongs to
    another record (a file's section): it has no history, no trash and no name of its own.
    """

    REVISED: ClassVar[tuple[str, ...]] = ()
    IS_PART: ClassVar[bool] = False

    # Called with records that are about to be deleted permanently, and who does it; what each
    # returns is called once they are gone, in the same transaction (memory.records.traces).
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
        """Return the type's name in history, activity and the trash (`topic`, `topicfact`)."""
        return cls._meta.model_name or cls.__name__.lower()

    def snapshot(self, *fields: str) -> dict[str, Any]:
        """Return the named fields (default: all revised ones) as they are in memory."""
        return {name: getattr(self, name) for name in fields or self.REVISED}

    @property
    def is_for_agents(self) -> bool:
        """Whether agents may see it: neither it nor its topic is sensitive or quarantined."""
        topic = getattr(getattr(self, "run", None) or self, "topic", None)
        return not any(
            one.sensitivity == Sensitivity.SENSITIVE or one.trust == Trust.QUARANTINED
            for one in (self, topic)
            if one is not None
        )

    def check_may_change(self, by: Actor) -> None:
        """Raise Locked if `by` may not change the record as it stands."""
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
        """Set `fields`, if nobody wrote since `expected_version` (default: the one loaded here).

        Stores one revision with what was there before.  What a person writes is trusted as the
        owner's own from then on; moving, locking or trashing it is no writing.  `source` names the
        run or session of the change, not of the record.  Raises Locked, or StaleWrite if the
        stored version is another; nothing is stored in either case.
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
            _tell_conflicts([self.pk], fields, by=by)
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

        Call it in a transaction that holds the rows (`select_for_update`): versions are not
        compared.  Raises Locked if `by` may not change one of them; then nothing is stored.
        """
        now = timezone.now()
        groups: dict[str, tuple[dict[str, Any], list[Any]]] = {}
        changes = []
        for record, fields in wanted:
            record.check_may_change(by)
            before = record.snapshot(*fields)
            after = dict(fields)
            if by.is_person and not NO_VOUCHING.issuperset(fields):
                after.setdefault("trust", Trust.OWNER)
            key = json.dumps(as_json(after), sort_keys=True)
            groups.setdefault(key, (after, []))[1].append(record.pk)
            record.version += 1
            changes.append(Change(record, before, fields, record.version))
            for name, value in (after | {"updated": now}).items():
                setattr(record, name, value)
        for after, keys in groups.values():
            rows = cls.objects.filter(pk__in=keys)
            rows.update(version=F("version") + 1, updated=now, **after)
            _tell_conflicts(keys, after, by=by)
            _withhold_answers(keys, after)
        Revision.record_many(changes, by=by, why=why, source=source)

    def trash(self, *, by: Actor, why: str = "", source: str = "") -> None:
        """Move the record to the trash, from which it can be restored for 30 days."""
        if self.trashed_at is None:
            self.change(
                by=by, why=why or _("moved to Trash"), source=source, trashed_at=timezone.now()
            )

    def restore(self, *, by: Actor) -> None:
        """Bring the record back from the trash as it was.

        Raises InvalidValue if another took its place, where there can be only one (a key, the
        same words of one source).
        """
        if self.trashed_at is None:
            return
        try:
            with transaction.atomic():
                self.change(by=by, why=_("restored from Trash"), trashed_at=None)
        except IntegrityError as exc:
            raise InvalidValue(
                _(
                    "“%(label)s” can’t be restored because another one has taken its place. Move that one to Trash first."
                )
                % {"label": shorten(str(self), 80)}
            ) from exc

    def purge(self, *, by: Actor) -> None:
        """Delete the record, its history and its copies elsewhere; the log keeps that, not the text.

        Raises InvalidValue if it was in the trash when it was read, and is not there any more.
        """
        with transaction.atomic():
            self._hold_in_trash()
            records = self.purged_with()
            finish = self.prepare_purge(records, by=by)
            ids = [record.pk for record in records]
            Activity.forget(ids)
            # What was proposed for it, or became it, holds its text too.
            Proposal.forget(models.Q(target_id__in=ids) | models.Q(result_id__in=ids))
            Conflict.forget(ids)
            ApiAnswer.forget(ids)
            Activity.log(self.owner, by, "purged", subject=self, label=self.record_type())
            Revision.forget(records)
            self.delete()
            finish()

    @classmethod
    def prepare_purge(cls, records: Iterable[Remembered], *, by: Actor) -> Callable[[], None]:
        """Return what takes away the copies of the records, to be called once they are deleted."""
        members = list(records)
        each = [prepare(members, by) for prepare in cls.BEFORE_PURGE]

        def finish() -> None:
            for one in each:
                one()

        return finish

    def _hold_in_trash(self) -> None:
        """Hold the row of what is deleted from the trash, so that nobody restores it meanwhile."""
        if self.trashed_at is None:
            return
        row = type(self).objects.filter(pk=self.pk).select_for_update()
        found = list(row.values_list("trashed_at", flat=True))
        if not found:  # another tab was quicker; its name may hang on what is gone too
            raise InvalidValue(_("It has already been permanently deleted."))
        if found == [None]:
            raise InvalidValue(
                _("“%(label)s” is no longer in Trash, so it wasn’t deleted.")
                % {"label": shorten(str(self), 80)}
            )

    def purged_with(self) -> list[Remembered]:
        """Return the records whose history goes with this one's (itself, and what hangs on it)."""
        return [self]


# What a record has that stands no more: in the trash, superseded, struck or retired.
_STANDING: dict[str, Any] = {"trashed_at": None, "superseded_by_id": None, "state": "current"}


def _tell_conflicts(ids: Sequence[Any], fields: Mapping[str, Any], *, by: Actor) -> None:
    """Let conflicts follow what became of these records: one of which a side is gone is none."""
    told = [fields[name] == stands for name, stands in _STANDING.items() if name in fields]
    if told:
        (Conflict.came_back if all(told) else Conflict.went)(ids, by=by)


def _withhold_answers(ids: Sequence[Any], changed: Mapping[str, Any]) -> None:
    """Let no kept answer of the API repeat a record that is hidden or believed otherwise now."""
    if changed.keys() & {"trashed_at", "sensitivity", "trust"}:
        ApiAnswer.withhold(ids)


# --- For how long the trash keeps things, and what went along and has no trash of its own ---

TRASH_DAYS = 30  # decision 9: deletes go to the trash for 30 days


class PutAway(models.Model):
    """Rows that left their tables when a record was moved to the trash, to be put back with it.

    Records that went along are found by their revisions, whose `source` is `source_of()`; `rows`
    holds the others as JSON: a run's seen URLs and sources, and what it noted on facts that stay.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    topic = models.ForeignKey("memory.Topic", models.CASCADE, null=True, related_name="+")
    record_type = models.CharField(max_length=40)
    record_id = models.UUIDField(unique=True)
    rows = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[PutAway]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = "moved to Trash"

    def __str__(self) -> str:
        return f"{self.record_type} {self.record_id}"

    @staticmethod
    def source_of(record_id: object) -> str:
        """Return the source of the revisions by which records went along with this one."""
        return f"put-away:{record_id}"
