"""Exports, imports, and the fetching of an import's web pages; automatic backups."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.core.files.storage import storages
from django.core.serializers.json import DjangoJSONEncoder
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from beacon_site.db.leased_jobs import LeasedJob, LeasedJobQuerySet
from beacon_site.db.message_fields import MessageField, MessagesField
from beacon_site.text.messages import gettext
from memory.models.history import OwnedJobQuerySet

KEPT = timedelta(days=7)  # how long its file is kept in the data folder


class Archive(LeasedJob):
    """An export, an import from upload to completion, or the fetching of its bookmarks' pages.

    An import is previewed first (`checked`). Nothing is stored before its owner confirms. `options`
    are the owner's choices and `result` holds the counts. Of pages, `options["documents"]` are the
    keys of their documents, and `result["next"]` is how many are done.
    """

    CLAIMED: ClassVar[dict[str, Any]] = {"started_at": Now()}
    RELATED = ("owner",)
    TASK, QUEUE = "memory.tasks.run_archive_job", "research"

    class Kind(models.TextChoices):
        EXPORT = "export", _("export")
        IMPORT = "import", _("import")
        PAGES = "pages", _("web pages")

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        CHECKED = "checked", _("previewed")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")
        STOPPED = "stopped", _("stopped")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    kind = models.CharField(max_length=6, choices=Kind)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    name = models.CharField(max_length=200, blank=True)
    size = models.PositiveBigIntegerField(default=0)
    options = models.JSONField(default=dict, encoder=DjangoJSONEncoder, blank=True)
    result = MessagesField(default=dict, encoder=DjangoJSONEncoder, blank=True)
    problem = MessageField(blank=True)
    is_confirmed = models.BooleanField(default=False)
    created = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[OwnedJobQuerySet] = OwnedJobQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created",)
        indexes = [models.Index(fields=["owner", "-created"], name="archive_of_owner")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.created:%Y-%m-%d %H:%M}"

    @property
    def file(self) -> Path:
        """Return the path of the file in the data folder, which web and worker share."""
        return Path(settings.DATA_DIR) / "archives" / f"{self.pk}.file"

    @property
    def is_import(self) -> bool:
        return self.kind == self.Kind.IMPORT

    @property
    def has_file(self) -> bool:
        return self.file.is_file()

    @property
    def kept_until(self) -> Any:
        return self.created + KEPT

    @property
    def brings(self) -> int:
        """Return how many new rows an import has, according to its preview."""
        counted = self.result.get("sums", {}).get("new", 0)
        names = ("notes", "observations", "memories", "documents", "updated")
        return int(counted or sum(self.result.get(name, 0) for name in names))

    @property
    def items(self) -> int:
        """Return how many rows an export has, how many new ones an import, or how many pages."""
        if self.kind == self.Kind.PAGES:
            return len(self.options["documents"])
        return sum(self.result.get("counts", {}).values()) or self.brings

    @property
    def pages_left(self) -> int:
        """Return how many pages haven't been fetched or tried."""
        return len(self.options["documents"]) - int(self.result["next"])

    def fail(self, problem: str) -> None:
        """End it with a problem that its owner sees. Nothing of it was stored, except pages."""
        if self.end(self.State.FAILED, problem=problem, finished_at=Now()) and self.is_import:
            transaction.on_commit(partial(self.file.unlink, missing_ok=True))

    def give_up(self) -> None:
        why = gettext(
            "The worker stopped unexpectedly %(n)d times, perhaps because the machine ran out of memory. Nothing was saved."
        )
        if self.kind == self.Kind.PAGES:
            why = gettext("The worker stopped unexpectedly %(n)d times. Fetched pages are kept.")
        self.fail(why % {"n": self.crashes})

    def discard(self) -> None:
        """Delete the row and its files, also those that killed workers left."""
        for file in self.file.parent.glob(f"{self.pk}.*"):
            file.unlink(missing_ok=True)
        self.delete()


# --- automatic backups ---


STORAGE = "backups"  # in settings.STORAGES


class BackupPlan(models.Model):
    """When backups are made and how many are kept. There is one row."""

    class Every(models.TextChoices):
        NEVER = "never", _("Never")
        DAY = "day", _("Every day")
        WEEK = "week", _("Every Sunday")

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    every = models.CharField(_("Back up"), max_length=5, choices=Every, default=Every.NEVER)
    hour = models.PositiveSmallIntegerField(
        _("Hour (UTC)"), default=3, validators=[MaxValueValidator(23)]
    )
    keep = models.PositiveSmallIntegerField(
        _("Backups to keep"),
        default=7,
        validators=[MinValueValidator(1), MaxValueValidator(365)],
        help_text=_("Older automatic backups are deleted. Manual ones stay until you delete them."),
    )
    tests_restore = models.BooleanField(
        _("Test each backup"),
        default=True,
        help_text=_(
            "Restores each backup into a scratch database and compares every table. This needs as much free disk space as the database uses."
        ),
    )
    changed_at = models.DateTimeField(default=timezone.now)
    # The last one by `manage.py backup`, whose file isn't listed, because it can be anywhere.
    written_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="one_backup_plan")]

    def __str__(self) -> str:
        return str(self.get_every_display())

    @classmethod
    def current(cls) -> BackupPlan:
        return cls.objects.first() or cls()

    def last_due(self, now: datetime) -> datetime | None:
        """Return the latest moment, not after `now` (in UTC), at which a backup was to begin."""
        if self.every == self.Every.NEVER:
            return None
        due = now.replace(hour=self.hour, minute=0, second=0, microsecond=0)
        if due > now:
            due -= timedelta(days=1)
        if self.every == self.Every.WEEK:
            due -= timedelta(days=(due.weekday() + 1) % 7)  # back to Sunday
        return due

    def next_due(self, now: datetime) -> datetime | None:
        last = self.last_due(now)
        days = 7 if self.every == self.Every.WEEK else 1
        return last + timedelta(days=days) if last else None


class BackupFile(LeasedJob):
    """A backup in the folder or bucket for backups, from waiting to done.

    A restore leaves this table out (`WITHOUT_ROWS`): it lists files that a restore doesn't change.
    """

    RELATED: ClassVar[tuple[str, ...]] = ("requested_by",)
    CLAIMED: ClassVar[dict[str, Any]] = {"started_at": Now()}
    RETRY_SECONDS: ClassVar[tuple[int, ...]] = (300, 1_800)
    TASK, QUEUE = "memory.tasks.make_backup", "research"

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    class Problem(models.TextChoices):
        """Why there is no backup, or why it can't be trusted."""

        NOT_WRITTEN = "not-written", _("The backup couldn’t be written.")
        NOT_COPIED = (
            "not-copied",
            _("The backup was created, but couldn’t be copied to its bucket."),
        )
        NOT_RESTORED = "not-restored", _("The test restore failed.")
        DIFFERS = "differs", _("Tables that differed after the test restore:")
        CRASHED = "crashed", _("The worker stopped unexpectedly several times.")

    state = models.CharField(max_length=7, choices=State, default=State.WAITING)
    name = models.CharField(max_length=120, unique=True)
    size = models.PositiveBigIntegerField(default=0)
    rows = models.PositiveBigIntegerField(default=0)
    is_tested = models.BooleanField(
        default=False
    )  # restored into a scratch database without a difference
    problem = models.CharField(max_length=12, choices=Problem, blank=True)
    detail = models.TextField(blank=True)  # what the program or the storage answered
    requested_by = models.ForeignKey(
        "memory.User", models.SET_NULL, null=True, blank=True, related_name="+"
    )  # null: the schedule
    created = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[LeasedJobQuerySet] = LeasedJobQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")

    def __str__(self) -> str:
        return self.name

    @property
    def seconds(self) -> float | None:
        if self.started_at is None or self.finished_at is None:
            return None
        return float((self.finished_at - self.started_at).total_seconds())

    def fail(self, problem: str, detail: str = "") -> bool:
        return self.end(
            self.State.FAILED, problem=problem, detail=detail[:2_000], finished_at=Now()
        )

    def give_up(self) -> None:
        self.fail(self.Problem.CRASHED)

    def discard(self) -> None:
        """Delete the file and the row.  Raises OSError."""
        storages[STORAGE].delete(self.name)
        self.delete()
