"""Carrying out a claimed run and leaving it ended or waiting, whatever happens.

Both the Celery task and the command that finds no worker call `execute`.
"""

from __future__ import annotations

import structlog
from celery.exceptions import SoftTimeLimitExceeded
from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site.http import zone_of
from beacon_site.providers.errors import ProviderError, ProviderUnavailable
from memory.usage.meter import BudgetReached
from research import outbox
from research.models import Run, RunLost
from research.running import pipeline
from research.working.context import AwaitsPerson, Cancelled, Interrupted, RunContext, TaskOver

logger = structlog.get_logger(__name__)


def execute(run_id: int, *, worker: str) -> bool:
    """Carry out one queued run; False if it is taken or ended already.

    Safe to be called twice: see RunQuerySet.claim().  Whatever happens the row ends, or waits, in
    a state that says so.  An unforeseen error ends it as failed and is raised again.
    """
    run = Run.objects.claim(run_id, worker=worker)
    if run is None:
        logger.info("run is taken or finished, nothing to do", run=run_id)
        return False
    # Dates in prompts and reports are those of the person who reads them.
    zone = timezone.override(zone_of(run.topic.owner.time_zone))
    with zone, structlog.contextvars.bound_contextvars(run=run_id):
        _execute(run)
    return True


def _execute(run: Run) -> None:
    try:
        with RunContext(run) as work:
            pipeline.carry_out(work)
    except RunLost:
        logger.warning("run was given to another worker", run=run.pk, attempt=run.attempt)
    except AwaitsPerson as exc:
        run.wait_for_a_person(at_most=exc.at_most)
    except Cancelled as exc:
        run.finish(Run.Status.CANCELLED, str(exc))
    except (TaskOver, SoftTimeLimitExceeded):
        if run.requeue(_("works longer than one task may")):
            outbox.nudge(run.pk)  # the next tick is up to 15 s away
    except Interrupted as exc:
        run.requeue(str(exc))
    except ProviderUnavailable as exc:
        run.postpone_or_fail(str(exc), retry_after=exc.retry_after)
    except (ProviderError, BudgetReached) as exc:
        run.finish(Run.Status.FAILED, str(exc))
    except (OperationalError, InterfaceError) as exc:
        # A database that restarts or is full for a moment: the run waits, and goes on
        # after its last step.
        logger.warning("database failed under a run", run=run.pk, error=str(exc))
        connection.close()
        run.postpone_or_fail(_("the database did not answer: %(why)s") % {"why": exc})
    except (KeyboardInterrupt, SystemExit):
        run.requeue(_("interrupted"))
        raise
    except Exception:
        run.finish(Run.Status.FAILED, _("internal error: the worker's log tells what happened"))
        raise
