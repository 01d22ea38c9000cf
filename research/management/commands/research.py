"""`manage.py research TOPIC`: run a topic from the command line."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from beacon_site import health
from beacon_site.text.dates import zone_of
from memory.management.base import MigratedCommand, active_account
from memory.models import Topic, User
from memory.models.actors import Actor
from memory.models.errors import MemoryRefused
from research.models import Report, Run, RunAlreadyActive
from research.services.budgets.budget import DEFAULTS
from research.services.runs import page as run_page
from research.services.runs.execution import pipeline, starting
from research.services.runs.execution.starting import RunNotAllowed

POLL_SECONDS = 0.5
WAITS_FOR_A_PERSON = 3  # the exit code if --wait ends because a plan must be reviewed first
NOBODY_TOOK_IT = 30.0  # seconds after which a queued run is carried out in this process


class Command(MigratedCommand):
    """Start a run of a topic, creating the topic if needed. Print its report with --wait."""

    help = "Start a run of a topic, and create the topic if it doesn't exist. With --wait, print the report."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the topic and the options in `design.md` 6."""
        parser.add_argument("topic", help="the topic's title, as you would type it")
        parser.add_argument(
            "--sample", action="store_true", help="research the sample topic’s bundled articles"
        )
        parser.add_argument(
            "--wait", action="store_true", help="wait until the run is done, and print the report"
        )
        parser.add_argument(
            "--user", help="owner of the topic (optional if there’s only one account)"
        )
        parser.add_argument(
            "--depth",
            default="",
            choices=["", *DEFAULTS],
            metavar="{quick,deep}",
            help="depth of this run (default: the topic's depth). In a deep run, a model that uses tools follows several tracks",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Start the run. The report goes to stdout as Markdown, everything else to stderr."""
        user = active_account(options["user"])
        topic = self._topic(user, options["topic"], use_sample=options["sample"])
        try:
            run = starting.start_run(
                topic, trigger=Run.Trigger.COMMAND, by=user.actor, depth=options["depth"]
            )
        except RunAlreadyActive as exc:
            if exc.run is None:
                raise CommandError(str(exc)) from exc
            self.stderr.write(_("%(what)s Waiting for that run.") % {"what": exc})
            run = exc.run
        except RunNotAllowed as exc:
            raise CommandError(str(exc)) from exc
        for words in starting.describe_limits(user):
            self.stderr.write(words)
        worker_is_alive = "worker" not in health.silent(health.ages())
        if not worker_is_alive:
            self.stderr.write(_("No worker is running, so this command executes the run itself."))
            self._perform(run)
        elif not options["wait"]:
            self.stderr.write(_("Run %(run)d queued.") % {"run": run.pk})
            return
        self._wait(run)
        if options["wait"] or not worker_is_alive:
            self._print(run)
        if not worker_is_alive:
            self._follow_up(run)

    def _topic(self, user: User, title: str, *, use_sample: bool) -> Topic:
        try:
            if use_sample:
                return starting.create_sample_topic(user, by=user.actor, title=title)
            found = Topic.objects.titled(user, title)
            by: Actor = user.actor
            return found or starting.create_topic(owner=user, title=title, by=by)
        except MemoryRefused as exc:
            raise CommandError(str(exc)) from exc

    def _perform(self, run: Run) -> None:
        # A postponed run (a service was down) is claimed again when its time has come.
        pipeline.execute(run.pk, worker=f"command:{os.getpid()}")

    def _follow_up(self, run: Run) -> None:
        """Carry out the follow-ups of a saved run if there is no worker to do it."""
        for step_id in run.steps.filter(is_follow_up=True).values_list("pk", flat=True):
            pipeline.run_follow_up(step_id)

    def _wait(self, run: Run) -> None:
        since = time.monotonic()
        while True:
            run.refresh_from_db()
            if not run.is_unfinished:
                return
            if run.waiting_since is not None:
                raise CommandError(_waiting_label(run), returncode=WAITS_FOR_A_PERSON)
            nobody_works = "worker" in health.silent(health.ages())
            if nobody_works:
                # Without a worker there is no tick either, so runs of a killed one are freed here.
                Run.objects.sweep()
            waits_too_long = time.monotonic() - since > NOBODY_TOOK_IT
            if run.status == Run.Status.QUEUED and (waits_too_long or nobody_works):
                self._perform(run)
            time.sleep(POLL_SECONDS)

    def _print(self, run: Run) -> None:
        for warning in run.warnings:
            self.stderr.write(_("warning: %(text)s") % {"text": warning})
        report = Report.objects.filter(run=run).select_related("run").first()
        if report is None:
            raise CommandError(
                _("The run is %(status)s: %(why)s")
                % {"status": run.get_status_display(), "why": run.error or "?"}
            )
        with timezone.override(zone_of(run.topic.owner.time_zone)):
            self.stdout.write(report.as_markdown(), ending="")


def _waiting_label(run: Run) -> str:
    page = reverse("research:run", args=[run.topic.slug, run.pk])
    message = _("%(what)s Review the plan at %(address)s. Beacon then writes the report.")
    with timezone.override(zone_of(run.topic.owner.time_zone)):
        what = run_page.describe_plan(run)
    return message % {"what": what, "address": f"{settings.BEACON_URL}{page}"}
