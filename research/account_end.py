"""What of research ends before an account is deleted."""

from __future__ import annotations

from django.db.models.functions import Now

from memory.models import User
from memory.models.users import LAST_ACTS
from research.models import Run
from research.models.run_queries import end_in


def end_runs(person: User) -> None:
    """End the account's runs at once: a worker that is at one finds that it no longer holds it."""
    runs = Run.objects.of(person).unfinished()
    runs.update(cancel_requested_at=Now(), **end_in(Run.Status.CANCELLED))


def register() -> None:
    """Let runs end before anything else of the account goes; called once the app is ready."""
    if end_runs not in LAST_ACTS:
        LAST_ACTS.insert(0, end_runs)
