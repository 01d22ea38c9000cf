"""Cancel an account's runs before it is deleted."""

from __future__ import annotations

from django.db.models.functions import Now

from memory.models import User
from memory.models.accounts import LAST_ACTS
from research.models import Run
from research.models.runs import end_in


def end_runs(person: User) -> None:
    """Cancel unfinished runs. A worker that is executing one loses its claim."""
    runs = Run.objects.of(person).unfinished()
    runs.update(cancel_requested_at=Now(), **end_in(Run.Status.CANCELLED))


def register() -> None:
    """Register this to run before anything else is deleted. Called when the app is ready."""
    if end_runs not in LAST_ACTS:
        LAST_ACTS.insert(0, end_runs)
