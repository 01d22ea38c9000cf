"""History: revisions of records, the activity log, model calls, uses in prompts, and reservations."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Protocol, Self

import pgtrigger
from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection, models
from django.db.models import F, Func, Value
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from beacon_site.db.leased_jobs import LeasedJobQuerySet
from beacon_site.db.message_fields import MessageField, MessagesField
from memory.models.actors import Actor

APPEND_ONLY = "memory.Revision:append_only"


def actor_kind(field: str = "actor") -> Func:
    """Return the SQL expression for an actor's kind (`human` of `human:alice`), as used in indexes."""
    return Func(
        F(field), Value(":"), Value(1), function="split_part", output_field=models.TextField()
    )


class OwnedQuerySet(models.QuerySet[Any]):
    """Queries for rows of an owner, to whom `OWNER` is the path."""

    OWNER: ClassVar[str] = "owner"

    def for_user(self, user: Any) -> Self:
        """Keep the rows of `user`. This is the only owner filter."""
        return self.filter(**{self.OWNER: user})


NO_USER = -1  # an ID that no user has
Statement = tuple[str, tuple[Any, ...]]  # with its parameters


def counting(parts: Iterable[tuple[str, models.QuerySet[Any], int | None]]) -> Statement:
    """Return a statement for `counted`, which counts the rows of each part, up to a limit."""
    lines: list[str] = []
    params: list[Any] = []
    for name, rows, most in parts:
        found, of = rows.order_by().values("pk")[:most].query.sql_with_params()
        lines.append(f"SELECT '{name}', count(*)::double precision FROM ({found}) part")  # noqa: S608  names of our own  # nosec B608
        params += of
    return " UNION ALL ".join(lines), tuple(params)


def counted(statement: Statement, user_id: int) -> dict[str, float]:
    """Return the sums of a statement of `counting` by name, for a person and now."""
    found: dict[str, float] = defaultdict(float)
    for name, number in answered(statement, user_id):
        found[name] += number
    return found


def answered(statement: Statement, user_id: int) -> list[Any]:
    """Return the rows of a statement that was built for NO_USER, for a person and now.

    Django takes longer to build a large statement than Postgres to answer it, so those that pages
    often need are built once per process.
    """
    now = timezone.now()
    asked = [user_id if one == NO_USER else one for one in statement[1]]
    with connection.cursor() as cursor:
        cursor.execute(statement[0], [now if isinstance(one, datetime) else one for one in asked])
        rows: list[Any] = cursor.fetchall()
    return rows


class OwnedJobQuerySet(LeasedJobQuerySet):
    """Queries for jobs of an owner, to whom `OWNER` is the path."""

    OWNER: ClassVar[str] = "owner"

    def for_user(self, user: Any) -> Self:
        """Keep the jobs of `user`. This is the only owner filter."""
        return self.filter(**{self.OWNER: user})


class Versioned(Protocol):
    """A record with a history. `memory.models.Remembered` implements it."""

    @property
    def pk(self) -> Any: ...
    @property
    def owner_id(self) -> Any: ...
    @property
    def version(self) -> int: ...
    def record_type(self) -> str: ...
    def snapshot(self, *names: str) -> dict[str, Any]: ...


# One of many changes: the record, its changed fields before and after, and its new version.
Change = tuple[Versioned, dict[str, Any], dict[str, Any], int]


class Revision(models.Model):
    """A stored change of a record: who, why, and the old and new values. A trigger makes it
    append-only.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    record_id = models.UUIDField()
    label = models.CharField(max_length=200, blank=True)
    version = models.PositiveIntegerField()
    actor = models.CharField(max_length=200)
    reason = MessageField(blank=True)
    source = models.CharField(max_length=200, blank=True)
    before = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    after = models.JSONField(default=dict, encoder=DjangoJSONEncoder)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[Revision]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        indexes = [
            models.Index(fields=["record_type", "record_id", "-id"], name="revision_of_record"),
            models.Index(fields=["owner", "-created", "-id"], name="revision_of_owner"),
            models.Index(
                fields=["owner", "record_type", "-created", "-id"], name="revision_of_type"
            ),
            models.Index(
                "owner", actor_kind(), F("created").desc(), F("id").desc(), name="revision_by_actor"
            ),
            models.Index(fields=["source"], name="revision_by_source"),
            # for reading at a date (memory.models.as_of)
            models.Index(
                fields=["owner", "created"],
                include=["record_type", "record_id"],
                condition=models.Q(version__gt=1),
                name="revision_of_change",
            ),
            # for what was written by day, on Home
            models.Index(
                fields=["owner", "created"],
                include=["actor", "record_type"],
                condition=models.Q(version=1),
                name="revision_of_start",
            ),
        ]
        triggers = [
            pgtrigger.Protect(name="append_only", operation=pgtrigger.Update | pgtrigger.Delete)
        ]

    def __str__(self) -> str:
        return f"{self.record_type} {self.label} v{self.version}"

    @classmethod
    def record(
        cls,
        record: Versioned,
        *,
        before: dict[str, Any],
        after: dict[str, Any],
        by: Actor,
        version: int,
        why: str = "",
        source: str = "",
    ) -> Revision:
        """Store one change of `record`. `before` and `after` hold the changed fields."""
        [made] = cls.record_many([(record, before, after, version)], by=by, why=why, source=source)
        return made

    @classmethod
    def named(cls, owner: Any, results: Iterable[tuple[str, Any, int]]) -> list[Revision]:
        """Return the revisions with these record types, record IDs and versions, in order."""
        found: list[Revision] = []
        for record_type, key, version in results:
            mine = cls.objects.for_user(owner).filter(record_type=record_type, record_id=key)
            found += mine.filter(version=version).order_by("id")[:1]
        return found

    @classmethod
    def record_first(cls, records: Iterable[Versioned], *, by: Actor, source: str = "") -> None:
        """Store the first revision of new records, in one statement."""
        first = [(record, dict[str, Any](), record.snapshot(), 1) for record in records]
        cls.record_many(first, by=by, source=source)

    @classmethod
    def record_many(
        cls, changes: Iterable[Change], *, by: Actor, why: str = "", source: str = ""
    ) -> list[Revision]:
        """Store one change for each of many records, in one statement."""
        return cls.objects.bulk_create(
            cls(
                owner_id=record.owner_id,
                record_type=record.record_type(),
                record_id=record.pk,
                label=str(record)[:200],
                version=version,
                actor=str(by),
                reason=why,
                source=source,
                before=as_json(before),
                after=as_json(after),
            )
            for record, before, after, version in changes
        )

    @classmethod
    def forget(cls, records: Iterable[Versioned]) -> None:
        """Delete the revisions of purged records. Only this and `rewrite` can bypass the trigger."""
        ids = [record.pk for record in records]
        with pgtrigger.ignore(APPEND_ONLY):
            cls.objects.filter(record_id__in=ids).delete()

    @classmethod
    def rewrite(cls, record: Versioned, renew: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Remove something from a record's history for a purge. `renew` returns the fields without
        it.

        Revisions are rewritten one by one, since each can hold a whole text.
        """
        rows = cls.objects.filter(record_type=record.record_type(), record_id=record.pk)
        with pgtrigger.ignore(APPEND_ONLY):
            for pk in list(rows.values_list("pk", flat=True)):
                row = rows.only("before", "after").get(pk=pk)
                fresh = {"before": renew(row.before), "after": renew(row.after)}
                if fresh != {"before": row.before, "after": row.after}:
                    rows.filter(pk=pk).update(**fresh)


def as_json(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields as plain JSON values, with model instances as their keys."""
    keyed = {
        name: value.pk if isinstance(value, models.Model) else value
        for name, value in fields.items()
    }
    stored: dict[str, Any] = json.loads(json.dumps(keyed, cls=DjangoJSONEncoder))
    return stored


class Undo(models.Model):
    """How to undo one act of a person (`memory.pages.shared.undo`).

    `act` names the function that undoes it. Its `arguments` identify what the act left, with
    versions, so that it can refuse if that has changed since. They are deleted after use.
    """

    LIFETIME = timedelta(days=30)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    act = models.CharField(max_length=40)
    arguments = models.JSONField(default=dict, encoder=DjangoJSONEncoder, blank=True)
    created = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField(db_index=True)
    used_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[Undo]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-created",)

    def __str__(self) -> str:
        return self.act


class Activity(models.Model):
    """One line of the activity log, with its actor (R235)."""

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+", null=True)
    actor = models.CharField(max_length=200)
    kind = models.CharField(max_length=40)
    subject_type = models.CharField(max_length=40, blank=True)
    subject_id = models.CharField(max_length=64, blank=True)
    # The line's topic. When the topic is purged, the line loses its text.
    topic = models.ForeignKey(
        "memory.Topic", models.SET_NULL, null=True, editable=False, related_name="+"
    )
    label = models.CharField(max_length=300, blank=True)
    detail = MessagesField(default=dict, encoder=DjangoJSONEncoder, blank=True)
    is_warning = models.BooleanField(default=False)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[Activity]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        verbose_name_plural = _("activity")
        indexes = [
            models.Index(fields=["owner", "-created", "-id"], name="activity_of_owner"),
            models.Index(
                fields=["owner", "-created", "-id"],
                condition=models.Q(is_warning=True),
                name="activity_warning",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.kind} {self.label}"

    @classmethod
    def log(
        cls,
        owner: Any,
        by: Actor,
        kind: str,
        *,
        subject: models.Model | None = None,
        label: str = "",
        warning: bool = False,
        **detail: Any,
    ) -> Activity:
        """Add a line for the owner, or for the server without one. `kind` is a past participle (`purged`, `signed-in`, `run-failed`).

        If the subject is a topic or belongs to one, the line is linked to that topic.
        """
        return cls.objects.create(
            owner=owner,
            topic_id=_topic_of(subject),
            actor=str(by),
            kind=kind,
            subject_type=(subject._meta.model_name or "") if subject is not None else "",
            subject_id=str(subject.pk) if subject is not None else "",
            label=(label or (str(subject) if subject is not None else ""))[:300],
            detail=detail,
            is_warning=warning,
        )

    @classmethod
    def forget(cls, ids: Iterable[Any], *, topic: models.Model | None = None) -> None:
        """Blank the labels and details of purged records in the log. The lines themselves stay.

        `topic` blanks all lines of that topic: its runs, its facts and the topic itself.
        """
        lines = models.Q(subject_id__in=[str(key) for key in ids])
        if topic is not None:
            lines |= models.Q(topic=topic)
        cls.objects.filter(lines).update(label="", detail={})


def _topic_of(subject: models.Model | None) -> Any:
    """Return the ID of the topic that `subject` is or belongs to, or None."""
    if subject is not None and subject._meta.label == "memory.Topic":
        return subject.pk
    return getattr(subject, "topic_id", None)


class ModelCall(models.Model):
    """A call of a model: its purpose, owner, messages and cost.

    `error` tells the owner what went wrong. `failure` is the kind of error, for admins. Both are
    empty after a usable answer.
    """

    class Purpose(models.TextChoices):
        ASK = "ask", _("answering in Ask")
        CHAT = "chat", _("answering an app’s chat request")
        COMPACT = "compact", _("shortening a result")
        COMPARE = "compare", _("comparing sentences")
        CONDENSE = "condense", _("condensing a file")
        EXTRACT = "extract", _("extracting observations")
        JUDGE = "judge", _("choosing what to notify you about")
        MERGE = "merge", _("merging notes")
        PLAN = "plan", _("planning")
        PREVIEW = "preview", _("answering without some memories")
        REFLECT = "reflect", _("reflecting")
        SUMMARISE = "summarise", _("summarizing")
        TRACK = "track", _("researching a track")
        WRITE = "write", _("writing the report")

    class Failure(models.TextChoices):
        UNAVAILABLE = "unavailable", _("it couldn’t be reached or was unavailable")
        REJECTED = "rejected", _("it rejected the request")
        NONSENSE = "nonsense", _("its answer couldn’t be used")
        LEFT = "left", _("Beacon stopped waiting for the answer")

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    # When the topic is purged, the call is kept for accounting, without its text.
    topic = models.ForeignKey("memory.Topic", models.SET_NULL, null=True, related_name="+")
    purpose = models.CharField(max_length=40)
    source = models.CharField(max_length=200)
    model = models.CharField(max_length=200)
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    # None: the model's price isn't known, which doesn't mean free.
    money = models.DecimalField(max_digits=12, decimal_places=6, null=True, default=Decimal(0))
    milliseconds = models.PositiveIntegerField(default=0)
    prompt = models.JSONField(default=list)
    answer = models.TextField(blank=True)
    error = MessageField(blank=True)
    failure = models.CharField(max_length=12, choices=Failure, blank=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[ModelCall]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        indexes = [
            models.Index(fields=["source"], name="modelcall_by_source"),
            models.Index(fields=["owner", "-created", "-id"], name="modelcall_of_owner"),
        ]

    def __str__(self) -> str:
        return f"{self.purpose} ({self.model})"

    @property
    def aim(self) -> str:
        return self.aim_of(self.purpose)

    @classmethod
    def aim_of(cls, purpose: str) -> str:
        """Return a purpose as text. An imported one can be unknown."""
        return str(dict(cls.Purpose.choices).get(purpose, purpose))


SAME_USE = timedelta(hours=1)


class Use(models.Model):
    """The use of a record in a prompt or an answer: where and when."""

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    record_type = models.CharField(max_length=40)
    record_id = models.UUIDField()
    place = models.CharField(max_length=200)
    created = models.DateTimeField(default=timezone.now)  # the first use
    used_at = models.DateTimeField(
        default=timezone.now
    )  # the last use, at most an hour later than this

    objects: ClassVar[models.Manager[Use]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        constraints = [
            models.UniqueConstraint(fields=["record_id", "place"], name="use_once_a_place")
        ]
        indexes = [
            models.Index(fields=["owner", "-id"], name="use_of_owner"),
            models.Index(fields=["owner", "-used_at"], name="use_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.record_type} in {self.place}"

    @classmethod
    def note(cls, owner: Any, used: Iterable[tuple[str, Any]], place: str) -> None:
        """Record the first and the last use of the records there: two queries."""
        place, now = place[:200], timezone.now()
        uses = [
            cls(owner=owner, record_type=kind, record_id=key, place=place, created=now, used_at=now)
            for kind, key in used
        ]
        if not uses:
            return
        cls.objects.bulk_create(uses, ignore_conflicts=True)
        with connection.cursor() as cursor:
            # An agent that reads the same records all the time doesn't rewrite their rows each time.
            # Another request that does so at the same moment is as good.
            cursor.execute(
                "UPDATE memory_use SET used_at = %s WHERE id IN (SELECT id FROM memory_use "
                "WHERE record_id = ANY(%s) AND place = %s AND used_at < %s FOR UPDATE SKIP LOCKED)",
                [now, [use.record_id for use in uses], place, now - SAME_USE],
            )

    @classmethod
    def note_records(cls, owner: Any, records: Iterable[Any], place: str) -> None:
        """Record the use of the records. Using a section counts as using its file."""
        if place:
            wholes = {
                whole.pk: whole for whole in (getattr(record, "file", record) for record in records)
            }
            cls.note(owner, [(one.record_type(), key) for key, one in wholes.items()], place)


# --- reservations ---

# No model call takes longer. Older reservations are from a killed process.
LIFETIME = timedelta(minutes=15)


class CallReservationQuerySet(OwnedQuerySet):
    def run_out(self) -> Self:
        """Keep expired reservations, whose process died before it recorded the call."""
        return self.filter(created__lte=timezone.now() - LIFETIME)

    def held(self) -> Self:
        """Keep the reservations of calls that can still be running."""
        return self.filter(created__gt=timezone.now() - LIFETIME)


class CallReservation(models.Model):
    """A running model call: the most it can cost. Deleted when the call is recorded.

    `money` is 0 if the price isn't known.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    topic = models.ForeignKey("memory.Topic", models.CASCADE, null=True, related_name="+")
    source = models.CharField(max_length=200, blank=True)
    tokens = models.PositiveIntegerField()
    money = models.DecimalField(max_digits=12, decimal_places=6, default=Decimal(0))
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[CallReservationQuerySet] = CallReservationQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        indexes = [models.Index(fields=["owner", "created"], name="reservation_of_owner")]

    def __str__(self) -> str:
        return f"{self.source}: {self.tokens}"
