"""Exports, imports, and the fetching of an import's web pages: their files, progress and results."""

from __future__ import annotations

import uuid
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from beacon_site.db.leased_jobs import LeasedJob
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

    class Way(models.TextChoices):
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
    way = models.CharField(max_length=6, choices=Way)
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    name = models.CharField(max_length=200, blank=True)
    size = models.PositiveBigIntegerField(default=0)
    options = models.JSONField(default=dict, encoder=DjangoJSONEncoder, blank=True)
    result = models.JSONField(default=dict, encoder=DjangoJSONEncoder, blank=True)
    problem = models.TextField(blank=True)
    is_confirmed = models.BooleanField(default=False)
    created = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[OwnedJobQuerySet] = OwnedJobQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created",)
        indexes = [models.Index(fields=["owner", "-created"], name="archive_of_owner")]

    def __str__(self) -> str:
        return f"{self.get_way_display()} {self.created:%Y-%m-%d %H:%M}"

    @property
    def file(self) -> Path:
        """Return the path of the file in the data folder, which web and worker share."""
        return Path(settings.DATA_DIR) / "archives" / f"{self.pk}.file"

    @property
    def is_import(self) -> bool:
        return self.way == self.Way.IMPORT

    @property
    def has_file(self) -> bool:
        return self.file.is_file()

    @property
    def kept_until(self) -> Any:
        """Return when the file is deleted."""
        return self.created + KEPT

    @property
    def brings(self) -> int:
        """Return how many new rows an import has, according to its preview."""
        counted = self.result.get("sums", {}).get("new", 0)
        names = ("notes", "observations", "memories", "documents", "updated")
        return int(counted or sum(self.result.get(name, 0) for name in names))

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
        if self.way == self.Way.PAGES:
            why = gettext("The worker stopped unexpectedly %(n)d times. Fetched pages are kept.")
        self.fail(why % {"n": self.crashes})

    def discard(self) -> None:
        """Delete the row and its files, also those that killed workers left."""
        for file in self.file.parent.glob(f"{self.pk}.*"):
            file.unlink(missing_ok=True)
        self.delete()
