"""Conflicts: two records that contradict or nearly repeat each other, until a person resolves them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Self

from django.apps import apps
from django.contrib.postgres.fields import ArrayField
from django.db import IntegrityError, models, transaction
from django.db.models import Exists, F, OuterRef, Q, Value
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Greatest, Least
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from beacon_site.text.cleaning import clean, one_line, shorten
from beacon_site.text.messages import gettext
from memory.models.actors import MAINTENANCE, Actor
from memory.models.errors import InvalidValue
from memory.models.file_format import digest_of
from memory.models.history import Activity, OwnedQuerySet, Revision, Statement, Versioned

# The types whose records can be in conflict.
CONFLICT_TYPES = ("note", "observation", "topicfact", "memoryfile")
# Open near-duplicates per owner, and open contradictions in files: more is too much to work through.
MAX_NEAR = 500
MAX_SOURCE_LENGTH, MAX_LABEL_LENGTH = 200, 120
MAX_PAIRS = 30  # repeated statements of one conflict; more of them are found after it's resolved

Lines = Sequence[tuple[str, str]]


# The digest of the newer statement, or "" for a whole record.
_NEWER = Coalesce(KT("lines__0__1"), Value(""), output_field=models.TextField())


class ConflictQuerySet(OwnedQuerySet):
    """Queries for conflicts, and the only way to create them."""

    def open(self) -> Self:
        """Keep open conflicts, including those with a missing side."""
        return self.filter(state=Conflict.State.OPEN)

    def standing(self) -> Self:
        """Keep open conflicts whose sides are both active."""
        return self.open().with_both_sides()

    def with_both_sides(self) -> Self:
        return self.filter(_IsActive("left_id"), _IsActive("right_id"))

    def one_per_record(self) -> Self:
        """Keep the first open contradiction of each new record or statement of a file; one decision
        can resolve all.

        Near-duplicates stay as they are.
        """
        earlier = Conflict.objects.standing().filter(
            owner=OuterRef("owner"), kind=Conflict.Kind.CONTRADICTION, right_id=OuterRef("right_id")
        )
        earlier = earlier.alias(said=_NEWER).filter(said=OuterRef("said"))
        first = Q(created__lt=OuterRef("created"))
        first |= Q(created=OuterRef("created"), pk__lt=OuterRef("pk"))
        is_later = Exists(earlier.filter(first))
        return self.alias(said=_NEWER).exclude(Q(is_later), kind=Conflict.Kind.CONTRADICTION)

    def with_newer(self, conflict: Conflict) -> Self:
        """Keep conflicts whose newer side is the same record, or the same statement of a file."""
        right_id, text = conflict.newer
        return self.alias(said=_NEWER).filter(right_id=right_id, said=text)

    def about(self, ids: Iterable[Any]) -> Self:
        """Keep conflicts about any of these records."""
        keys = list(ids)
        return self.filter(Q(left_id__in=keys) | Q(right_id__in=keys))

    def between(self, one: Any, other: Any) -> Self:
        """Keep conflicts between these two records, in either order."""
        return self.filter(Q(left_id=one, right_id=other) | Q(left_id=other, right_id=one))

    def note(
        self,
        owner: Any,
        kind: str,
        left: Versioned,
        right: Versioned,
        *,
        source: str = "",
        reason: str = "",
        by: Actor = MAINTENANCE,
        lines: Lines = (),
    ) -> Conflict | None:
        """Create a conflict between two of the owner's records, or return the existing one.

        `left` is the existing record and `right` the new one. `source` names what found the
        conflict (`run:12`), and `reason` is a `Conflict.Reason`. If a side is a file, `lines` are the
        digests of the statements of both sides, in pairs. An open conflict of the same pair is
        returned as it is, and so is a resolved one while neither side has changed. Returns None if a side is no longer active, or if too many are open. Raises
        InvalidValue for records that can't be in conflict: a record with itself, another owner's
        record, or a soul, agent or user note.
        """
        _check_pair(owner, kind, left, right)
        with transaction.atomic():
            known, lines = (
                self._known_lines(owner, kind, left, right, lines)
                if lines
                else (self._known(owner, left, right), ())
            )
            if known is not None:
                return known
            if not _both_active(left, right) or self._is_full(owner, kind, lines):
                return None
            try:
                with transaction.atomic():
                    return self._make(owner, kind, left, right, source, reason, by, lines)
            except IntegrityError:  # a concurrent writer created the open conflict
                pair = self.for_user(owner).open().between(left.pk, right.pk)
                return pair.filter(lines=[list(line) for line in lines]).first()

    def _known(self, owner: Any, left: Versioned, right: Versioned) -> Conflict | None:
        """Return the pair's open conflict, or the last resolved one that is still valid."""
        pair = self.for_user(owner).between(left.pk, right.pk)
        found: Conflict | None = pair.open().first()
        if found is not None:
            return found
        last: Conflict | None = pair.exclude(resolution=Conflict.How.GONE).last()
        return last if last is not None and not last.has_changed_since() else None

    def _known_lines(
        self, owner: Any, kind: str, left: Versioned, right: Versioned, lines: Lines
    ) -> tuple[Conflict | None, Lines]:
        """Return the conflict that has these lines already, and those that are new.

        New repeated lines join the open conflict. Once both of two files were kept, their repeated
        lines are meant.
        """
        # Locked, so that no lines join a conflict that a person is just resolving.
        # A decided line that was written again is new, unless both were kept.
        asked = self.open() | self.filter(resolution=Conflict.How.BOTH)
        pair = asked.for_user(owner).between(left.pk, right.pk)
        rows = list(pair.select_for_update(of=("self",)))
        by_lines = {pair: row for row in rows for pair in row.lines_from(left.pk)}
        fresh = [one for one in dict.fromkeys(lines) if one not in by_lines][:MAX_PAIRS]
        if not fresh:
            return by_lines[lines[-1]], ()
        if kind == Conflict.Kind.NEAR_DUPLICATE:
            for row in (one for one in rows if one.kind == kind):
                is_meant = row.resolution == Conflict.How.BOTH and row.left_type == row.right_type
                if is_meant or (row.is_open and len(row.lines) >= MAX_PAIRS):
                    return row, ()
                if row.is_open:
                    row.lines = [*row.lines, *map(list, row.turned(fresh, left.pk))][:MAX_PAIRS]
                    row.save(update_fields=["lines"])
                    return row, ()
        return None, fresh

    def _is_full(self, owner: Any, kind: str, lines: Lines) -> bool:
        rows = self.for_user(owner).open().filter(kind=kind)
        if kind == Conflict.Kind.CONTRADICTION:
            if not lines:
                return False
            rows = rows.exclude(lines=[])
        return rows.order_by()[:MAX_NEAR].count() >= MAX_NEAR

    def _make(
        self,
        owner: Any,
        kind: str,
        left: Versioned,
        right: Versioned,
        source: str,
        reason: str,
        by: Actor,
        lines: Lines,
    ) -> Conflict:
        topics = [getattr(side, "topic_id", None) for side in (left, right)]
        conflict: Conflict = self.create(
            owner=owner,
            kind=kind,
            left_type=left.record_type(),
            left_id=left.pk,
            left_version=left.version,
            right_type=right.record_type(),
            right_id=right.pk,
            right_version=right.version,
            topic_ids=list(dict.fromkeys(key for key in topics if key is not None)),
            source=one_line(clean(source)[0])[:MAX_SOURCE_LENGTH],
            reason=reason,
            lines=[list(line) for line in lines],
        )
        if kind == Conflict.Kind.CONTRADICTION:
            # There are many near-duplicates, and none is urgent. Logging each would flood the log.
            Activity.log(owner, by, "conflict-found", subject=conflict, label=label_of(left, right))
        return conflict


def label_of(*sides: Any) -> str:
    """Return the conflict's name in the log: the text of its first side, unless a side is
    sensitive.
    """
    if any(side.sensitivity != "normal" for side in sides):
        return gettext("a sensitive record")
    return shorten(str(sides[0]), MAX_LABEL_LENGTH)


def sides_by_type(conflicts: Iterable[Conflict]) -> dict[str, set[Any]]:
    """Return the IDs of both sides of the conflicts, by record type."""
    found: dict[str, set[Any]] = {}
    for one in conflicts:
        found.setdefault(one.left_type, set()).add(one.left_id)
        found.setdefault(one.right_type, set()).add(one.right_id)
    return found


def sides_of(conflicts: Iterable[Conflict]) -> dict[Any, Any]:
    """Return the records of the conflicts by ID, without deleted ones: a query per type."""
    found: dict[Any, Any] = {}
    for record_type, keys in sides_by_type(conflicts).items():
        found |= apps.get_model("memory", record_type)._default_manager.in_bulk(keys)
    return found


def _why_gone(conflict: Conflict, sides: Mapping[Any, Any]) -> str:
    """Return the code of why a side is no longer current, or "" if it is something else."""
    for key in (conflict.left_id, conflict.right_id):
        side = sides.get(key)
        if side is None:
            return "deleted"
        if side.trashed_at is not None:
            return "trashed"
        if getattr(side, "state", "") == "struck":
            return "struck"
        if getattr(side, "superseded_by_id", None) or getattr(side, "retired_as", "") == "replaced":
            return "replaced"
    return "edited" if conflict.lines else ""


def _check_pair(owner: Any, kind: str, left: Versioned, right: Versioned) -> None:
    if kind not in Conflict.Kind.values:
        raise InvalidValue(gettext("There is no conflict type “%(kind)s”.") % {"kind": kind[:40]})
    for side in (left, right):
        if side.owner_id != owner.pk:
            raise InvalidValue(gettext("Both records of a conflict must belong to the same owner."))
        if side.record_type() not in CONFLICT_TYPES or getattr(side, "is_current_identity", False):
            problem = gettext("Beacon doesn’t check records like “%(label)s” for conflicts.")
            raise InvalidValue(problem % {"label": side})
    if left.pk == right.pk:
        raise InvalidValue(gettext("A record can’t conflict with itself."))


def _both_active(left: Versioned, right: Versioned) -> bool:
    return all(
        active_rows(side.record_type()).filter(pk=side.pk).exists() for side in (left, right)
    )


def active_rows(record_type: str) -> models.QuerySet[Any]:
    """Return the active records of a type: not trashed, superseded, expired, struck or retired."""
    rows: models.QuerySet[Any] = apps.get_model("memory", record_type)._default_manager.filter(
        trashed_at=None
    )
    if record_type == "note":
        unexpired = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return rows.filter(unexpired, superseded_by=None)
    if record_type == "topicfact":
        return rows.filter(state="current", topic__trashed_at=None)
    return rows


@cache
def _active_ids() -> Statement:
    """Return one statement for the active records of all types whose id is `{side}`."""
    by_id = RawSQL("{side}", ())  # nosec B611
    first, *others = (
        active_rows(one).filter(pk=by_id).order_by().values("pk") for one in CONFLICT_TYPES
    )
    return first.union(*others, all=True).query.sql_with_params()


class _IsActive(models.Func):
    """True if the record of a side is active.

    One statement for all types, since Postgres took longer to plan one for each type than to answer.
    It's built once per process, because Django takes longer to build it than Postgres to answer.
    """

    output_field = models.BooleanField()

    def as_sql(self, compiler: Any, *_context: Any, **_more: Any) -> Statement:
        side, _params = compiler.compile(self.get_source_expressions()[0])
        ids, params = _active_ids()
        now = timezone.now()
        given = tuple(now if isinstance(one, datetime) else one for one in params)
        return f"EXISTS ({ids.format(side=side)})", given


class Conflict(models.Model):
    """Two of an owner's records that a person should compare.

    `left` is the existing record and `right` the new one. The versions are those at creation, or
    those after it was resolved. If a side is a memory file, `lines` says which statements are meant:
    pairs of digests, `[left, right]` (memory.services.review.file_lines). `results` lists each revision of the resolution in order, as
    `[record type, record, version]`, for undo.
    """

    class Kind(models.TextChoices):
        CONTRADICTION = "contradiction", _("contradiction")
        NEAR_DUPLICATE = "near-duplicate", _("near-duplicate")

    class Reason(models.TextChoices):
        VERSION = "version", _("different version")
        DATE = "date", _("different date")
        TIME = "time", _("different time")
        AMOUNT = "amount", _("different amount")
        NUMBER = "number", _("different number")
        POLARITY = "polarity", _("opposite meaning")
        SIMILAR = "similar", _("almost the same wording")
        REPLACES = "replaces", _("possible update")
        SOURCES = "sources", _("disputed by a source")

    class State(models.TextChoices):
        OPEN = "open", _("open")
        RESOLVED = "resolved", _("resolved")

    class How(models.TextChoices):
        LEFT = "left", _("kept older")
        RIGHT = "right", _("kept newer")
        BOTH = "both", _("kept both")
        MERGED = "merged", _("merged")
        GONE = "gone", _("resolved automatically because one side is no longer current")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    kind = models.CharField(_("type"), max_length=14, choices=Kind)
    left_type = models.CharField(max_length=40)
    left_id = models.UUIDField()
    left_version = models.PositiveIntegerField()
    right_type = models.CharField(max_length=40)
    right_id = models.UUIDField()
    right_version = models.PositiveIntegerField()
    topic_ids = ArrayField(models.UUIDField(), default=list, blank=True)
    source = models.CharField(max_length=MAX_SOURCE_LENGTH, blank=True)
    reason = models.CharField(max_length=8, choices=Reason, blank=True)
    state = models.CharField(max_length=8, choices=State, default=State.OPEN)
    resolution = models.CharField(max_length=6, choices=How, blank=True)
    resolved_by = models.CharField(max_length=200, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    results = models.JSONField(default=list, blank=True)
    lines = models.JSONField(default=list, blank=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[ConflictQuerySet] = ConflictQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("created", "id")
        constraints = [
            models.UniqueConstraint(
                Least("left_id", "right_id"),
                Greatest("left_id", "right_id"),
                F("lines"),
                condition=Q(state="open"),
                name="conflict_open_once_a_pair",
            ),
            models.CheckConstraint(
                condition=~Q(left_id=F("right_id")), name="conflict_not_with_itself"
            ),
        ]
        indexes = [
            models.Index(fields=["owner", "state", "created"], name="conflict_of_owner"),
            models.Index(fields=["left_id"], name="conflict_left"),
            models.Index(fields=["right_id"], name="conflict_right"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.left_type} {self.right_type}"

    def get_absolute_url(self) -> str:
        return reverse("memory:conflict", args=[self.pk])

    @property
    def is_open(self) -> bool:
        return self.state == self.State.OPEN

    def lines_from(self, left_id: Any) -> list[tuple[str, str]]:
        """Return the pairs of digests, with those of the record `left_id` first."""
        return self.turned([(left, right) for left, right in self.lines], left_id)

    def turned(self, lines: Lines, left_id: Any) -> list[tuple[str, str]]:
        """Return the pairs the other way round if `left_id` isn't this conflict's left side."""
        return list(lines) if self.left_id == left_id else [(two, one) for one, two in lines]

    def digests_of(self, side: str) -> list[str]:
        """Return the digests of a side's statements (`left` or `right`)."""
        return [pair[side == "right"] for pair in self.lines]

    @property
    def newer(self) -> tuple[Any, str]:
        """Return the newer record and the digest of its statement, or "" if all of it is meant."""
        return self.right_id, self.lines[0][1] if self.lines else ""

    @property
    def lines_digest(self) -> str:
        """Return what identifies the lines that a person saw, or "" if it has none."""
        text = " ".join("-".join(pair) for pair in self.lines)
        return digest_of(text) if text else ""

    def same_pairs(self) -> ConflictQuerySet:
        """Return the conflicts of the same two records about the same lines."""
        rows = type(self).objects.for_user(self.owner_id).between(self.left_id, self.right_id)
        return rows.filter(lines=self.lines)

    def has_changed_since(self) -> bool:
        """Return True if a side's text has changed since the conflict was created or resolved."""
        sides = (
            (self.left_type, self.left_id, self.left_version),
            (self.right_type, self.right_id, self.right_version),
        )
        later = Q()
        for record_type, key, version in sides:
            later |= Q(record_type=record_type, record_id=key, version__gt=version)
        condition = Q(after__has_any_keys=["content", "text"])
        return Revision.objects.filter(later & condition).exists()

    @classmethod
    def went(cls, ids: Iterable[Any], *, by: Actor) -> int:
        """Resolve the conflicts of records that moved to Trash, and return how many."""
        gone = list(cls.objects.open().about(ids).select_related("owner"))
        return cls.resolve_automatically(gone, by=by)

    @classmethod
    def resolve_automatically(cls, gone: Iterable[Conflict], *, by: Actor) -> int:
        """Resolve conflicts with a missing side, each with a line in the activity log."""
        resolved, gone = 0, list(gone)
        sides = sides_of(gone)
        for one in gone:
            changed = (
                cls.objects.filter(pk=one.pk)
                .open()
                .update(
                    state=cls.State.RESOLVED,
                    resolution=cls.How.GONE,
                    resolved_by=str(by),
                    resolved_at=timezone.now(),
                )
            )
            if changed:
                resolved += 1
                label, why = one.log_label(sides), _why_gone(one, sides)
                Activity.log(one.owner, by, "conflict-gone", subject=one, label=label, because=why)
        return resolved

    @classmethod
    def reopen_restored(cls, ids: Iterable[Any], *, by: Actor) -> None:
        """Reopen conflicts that were resolved automatically if both sides are active again."""
        gone = cls.objects.about(ids).filter(resolution=cls.How.GONE).with_both_sides()
        rows = list(gone.select_related("owner").order_by("-resolved_at"))
        sides = sides_of(rows)
        for one in rows:
            if not one.same_pairs().open().exists():
                one.open_again()
                label = one.log_label(sides)
                Activity.log(one.owner, by, "conflict-reopened", subject=one, label=label)

    def log_label(self, sides: Mapping[Any, Any] | None = None) -> str:
        """Return its name in the log. `sides` are its records by ID, if they are loaded."""
        sides = sides_of([self]) if sides is None else sides
        found = [sides[key] for key in (self.left_id, self.right_id) if key in sides]
        return label_of(*found) if found else str(self.get_kind_display())

    def open_again(self) -> None:
        """Reopen the conflict as if it had never been resolved."""
        self.state, self.resolution, self.resolved_by = self.State.OPEN, "", ""
        self.resolved_at, self.results = None, []
        self.save(update_fields=["state", "resolution", "resolved_by", "resolved_at", "results"])

    @classmethod
    def forget(cls, ids: Iterable[Any]) -> None:
        """Delete the conflicts of purged records, and what the log says of them."""
        keys = list(cls.objects.about(ids).values_list("pk", flat=True))
        Activity.forget(keys)
        cls.objects.filter(pk__in=keys).delete()
