"""What `run:12` means on memory's pages: the run's number, its topic, and its page."""

from __future__ import annotations

from django.urls import reverse
from django.utils.translation import gettext as _

from memory import origins
from memory.models import User
from memory.texts.text import shorten
from research.models import Run


def register() -> None:
    """Tell memory how runs are named and where they are seen."""
    origins.FINDERS["run"] = _runs


def _runs(owner: User, keys: list[str]) -> dict[str, tuple[str, str]]:
    ids = [int(key) for key in keys if key.isdecimal() and len(key) < 19]
    runs = Run.objects.of(owner).filter(pk__in=ids).select_related("topic")
    return {str(run.pk): _told(run) for run in runs}


def _told(run: Run) -> tuple[str, str]:
    words = _("%(run)s of “%(topic)s”") % {"run": run, "topic": shorten(run.topic.title, 60)}
    if run.topic.trashed_at is not None:
        return words, ""
    return words, reverse("research:run", args=[run.topic.slug, run.pk])
