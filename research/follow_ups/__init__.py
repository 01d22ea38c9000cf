"""What follows the save of a run: each on its own, repeatable, its failure a warning (decision 7)."""

from __future__ import annotations

from django.utils.translation import gettext as _

from research.models import Run


def in_trash(run: Run) -> str:
    """Return why nothing is kept of the run: its topic, or itself, lies in the trash by now."""
    row = Run.objects.filter(pk=run.pk).values("topic__trashed_at", "report__trashed_at").get()
    if row["topic__trashed_at"] is not None:
        return _("the topic is in the trash: nothing was kept")
    if row["report__trashed_at"] is not None:
        return _("the run is in the trash: nothing was kept")
    return ""
