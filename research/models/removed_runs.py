"""A run without a report, as it lies in the trash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.db import models, transaction
from django.urls import reverse

from memory.actors import Actor
from memory.models import Remembered
from research.models.runs import Run


class RemovedRun(Remembered):
    """A failed or cancelled run that its owner put away; a saved one is put away by its report.

    Outside the trash the row only remembers that it was put back.  `title` is what the run was
    called then: the trash has no number to name it by.
    """

    REVISED = ("title",)

    # Called with a run that is about to be deleted for good, and who does it.
    ON_PURGE: ClassVar[list[Callable[[Any, Actor], object]]] = []

    run = models.OneToOneField(Run, models.CASCADE, related_name="removed")
    title = models.CharField(max_length=700)

    class Meta:
        ordering = ("-created",)

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        """Return the run's page."""
        return reverse("research:run", args=[self.run.topic.slug, self.run_id])

    def purge(self, *, by: Actor) -> None:
        """Delete the run with its steps, and what was said and read in it, for good."""
        with transaction.atomic():
            self._hold_in_trash()
            for forget in self.ON_PURGE:
                forget(self, by)
            super().purge(by=by)
            Run.objects.filter(pk=self.run_id).delete()
