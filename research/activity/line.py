"""One line of Activity, as the page and its files tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from django.urls import reverse

from research.models import Run


def address_of(run: Run) -> str:
    """Return the address of a run's page."""
    return reverse("research:run", args=[run.topic.slug, run.pk])


@dataclass
class Line:
    """One line of the page: who did what, when, to which record, and where to read on."""

    name: str
    key: int
    at: datetime
    who: str
    actor: str
    said: str
    noun: str
    label: str
    url: str = ""
    run: Run | None = None
    why: str = ""
    details: list[str] = field(default_factory=list)
    is_warning: bool = False
    change_url: str = ""
    may_undo: bool = False
    by_them: str = ""  # the query of the list of all that this actor did

    @property
    def subject(self) -> str:
        """Return what it happened to, unless what happened says that itself: “token made”."""
        return "" if self.said.startswith(self.noun) else self.noun

    @cached_property
    def run_url(self) -> str:
        """Return the page of the run in which it happened, if it is another than its own."""
        url = address_of(self.run) if self.run else ""
        return url if url != self.url else ""
