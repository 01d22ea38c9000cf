"""A Celery process with one of the product's guards taken out, to see that a test notices.

`python -m tests.faults.unguarded fence worker …` is `celery -A beacon_site worker …` without the
fence.  Guards: `fence` (a worker's writes ask for its attempt) and `lease-tick` (the tick frees
runs whose lease ran out).
"""

from __future__ import annotations

import sys
from typing import Any


def without_fence() -> None:
    """Let every worker write to a run that it once had, whoever has it now."""
    from research.models import Run, Step
    from research.stepping import Work

    def held(self: Any) -> Any:
        return Run.objects.filter(pk=self.pk)

    def put_step(self: Any, **fields: Any) -> None:
        Step.objects.filter(pk=self.step.pk).update(**fields)
        for name, value in fields.items():
            setattr(self.step, name, value)

    Run.held = held  # type: ignore[method-assign]
    Work.look = lambda self, **_options: None  # type: ignore[method-assign, assignment]
    Work._put_step = put_step  # type: ignore[method-assign]


def without_lease_tick() -> None:
    """Free no run, whatever became of its worker."""
    from research.models.runs import RunQuerySet

    RunQuerySet.free_stalled = lambda self: 0  # type: ignore[method-assign, assignment]


GUARDS = {"fence": without_fence, "lease-tick": without_lease_tick}


def main(guard: str, arguments: list[str]) -> None:
    """Take the guard out and become the Celery process."""
    import django

    django.setup()
    from beacon_site.celery import app

    GUARDS[guard]()
    app.start(arguments)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
