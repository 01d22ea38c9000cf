"""Removes each of Beacon's guards for the duration of a test: see guards.py.

What is taken out is what asks, never what is asked: with the guard gone the product continues as if
all were well, which its test must notice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

Patch = pytest.MonkeyPatch
OURS = ("beacon_site", "memory", "research", "tests")


def _everywhere(patch: Patch, original: Any, instead: Any) -> None:
    """Put `instead` wherever a module of ours took `original` over by its name."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").partition(".")[0] not in OURS:
            continue
        for name, value in list(vars(module).items()):
            if value is original:
                patch.setattr(module, name, instead)


# --- runs -----------------------------------------------------------------------------------------


def fence(patch: Patch) -> None:
    """Let every worker write to its former runs, even if another worker has them now."""
    from django.db.models import F

    from research.models import Run, Step
    from research.services.runs.context.run_context import RunContext

    def put_step(self: Any, *, of_run: Any = None, **fields: Any) -> None:
        Step.objects.filter(pk=self.step.pk).update(**fields)
        Run.objects.filter(pk=self.run.pk).update(**(of_run or {"progress": F("progress")}))
        for name, value in fields.items():
            setattr(self.step, name, value)

    patch.setattr(Run, "held", lambda self: Run.objects.filter(pk=self.pk))
    patch.setattr(RunContext, "look", lambda self, **_options: None)
    patch.setattr(RunContext, "_put_step", put_step)


def lease(patch: Patch) -> None:
    """Give a run to every worker that asks."""
    from django.db.models import F

    from research.models.runs import RunQuerySet

    def claim(self: Any, run_id: int, worker: str) -> Any:
        fields = {"status": "running", "worker": worker, "attempt": F("attempt") + 1}
        self.filter(pk=run_id).update(**fields)
        related = ("topic__settings", "topic__owner", "topic__schedule")
        return self.select_related(*related).get(pk=run_id)

    patch.setattr(RunQuerySet, "claim", claim)


def lease_tick(patch: Patch) -> None:
    """Release no run, even if its worker is gone."""
    from research.models.runs import RunQuerySet

    patch.setattr(RunQuerySet, "sweep", lambda self: 0)


def outbox(patch: Patch) -> None:
    """Send no run that waits."""
    from beacon_site.db.leased_jobs import LeasedJobQuerySet

    patch.setattr(LeasedJobQuerySet, "dispatch", lambda self: 0)


def slot(patch: Patch) -> None:
    """Let every tick that saw a run as due start it, and let the database accept both."""
    from django.db import connection
    from django.db.models import QuerySet

    from research.models import Schedule

    _without_condition(patch, QuerySet, "next_run_at", Schedule)
    with connection.cursor() as cursor:  # within the test's transaction
        cursor.execute("ALTER TABLE research_run DROP CONSTRAINT run_once_a_slot")
        cursor.execute("DROP INDEX run_one_unfinished_per_topic")


def _without_condition(patch: Patch, queries: type, name: str, *models: type) -> None:
    """Let `filter` not hear of the condition `name`, for these models or all of the queries'."""
    narrowed = queries.filter  # type: ignore[attr-defined]

    def filtered(self: Any, *args: Any, **conditions: Any) -> Any:
        if not models or self.model in models:
            conditions.pop(name, None)
        return narrowed(self, *args, **conditions)

    patch.setattr(queries, "filter", filtered)


def follow_up(patch: Patch) -> None:
    """Let a follow-up wait again as soon as it has ended."""
    from research import tasks
    from research.models import Step

    perform = tasks.pipeline.run_follow_up

    def as_if_waiting(step_id: int) -> bool:
        Step.objects.filter(pk=step_id).update(state=Step.State.WAITING)
        return perform(step_id)

    patch.setattr(tasks.pipeline, "run_follow_up", as_if_waiting)


def notice(patch: Patch) -> None:
    """Give a delivery to every worker that asks."""
    from research.models import Delivery

    queries = type(Delivery.objects.all())
    patch.setattr(queries, "due", lambda self: self.all())
    handing_over(patch)


def handing_over(patch: Patch) -> None:
    """Do not note that a mail may have arrived."""
    from research.services.notifications import sending

    patch.setattr(sending, "_hand_over", lambda delivery: None)


# --- records --------------------------------------------------------------------------------------


def versions(patch: Patch) -> None:
    """Compare no version before a write."""
    from memory.models.remembered import RememberedQuerySet

    _without_condition(patch, RememberedQuerySet, "version")


def locks(patch: Patch) -> None:
    """Let everyone change what is locked."""
    from memory.models import Remembered

    patch.setattr(Remembered, "check_may_change", lambda self, by: None)


def owner(patch: Patch) -> None:
    """Let `for_user(user)` keep what anyone owns."""
    from django.db.models import QuerySet

    def below(kind: type) -> list[type]:
        return [kind, *(deeper for one in kind.__subclasses__() for deeper in below(one))]

    for queries in below(QuerySet):
        if "for_user" in vars(queries) and queries.__module__.startswith(OURS):
            patch.setattr(queries, "for_user", lambda self, _user: self.all())


def file_paths(patch: Patch) -> None:
    """Take every path for one of the closed set."""
    from memory.models import file_format

    _everywhere(patch, file_format.checked_path, lambda path: path)


def archive_limits(patch: Patch) -> None:
    """Look at no zip before it is read."""
    from memory.accounts.archive import zips

    patch.setattr(zips, "_check", lambda found, size: None)


def backup_signature(patch: Patch) -> None:
    """Accept every signature."""
    from beacon_site.launcher import backups

    patch.setattr(backups, "constant_time_compare", lambda _one, _other: True)


# --- pages and programs ---------------------------------------------------------------------------


def idempotency(patch: Patch) -> None:
    """Process a request every time it's sent."""
    from memory.api import frame

    _everywhere(patch, frame.once, lambda request, caller, run: run())


def reading(patch: Patch) -> None:
    """Don't record what an agent reads."""
    from memory.api.auth import Caller

    patch.setattr(Caller, "note_shown", lambda self, trust="": None)


def write_trust(patch: Patch) -> None:
    """Store an agent's writes with its own trust, no matter what it read."""
    from memory.agents.tools.types import ToolContext
    from memory.models import Trust

    patch.setattr(ToolContext, "write_trust", property(lambda self: Trust.AGENT))


def write_only(patch: Patch) -> None:
    """Answer a token that only writes as one that reads."""
    from memory.api import shown

    _everywhere(patch, shown.without_stored_text, lambda response, *, sent: response)


def withholding(patch: Patch) -> None:
    """Give a kept answer again, whatever became of its records."""
    from memory.models import ApiAnswer

    patch.setattr(ApiAnswer, "withhold", lambda ids: None)


def csrf(patch: Patch) -> None:
    """Ask no form for its token."""
    from django.middleware.csrf import CsrfViewMiddleware

    patch.setattr(CsrfViewMiddleware, "process_view", lambda *_args: None)


def safe_get(patch: Patch) -> None:
    """Let POST-only views take GET too: one list serves all views with that decorator."""
    from django.views.decorators.http import require_POST

    [taken] = require_POST.__closure__ or ()
    patch.setattr(taken, "cell_contents", ["POST", "GET"])


def csp(patch: Patch) -> None:
    """Send no Content-Security-Policy."""
    from csp.middleware import CSPMiddleware

    patch.setattr(CSPMiddleware, "process_response", lambda self, request, response: response)


def scopes(patch: Patch) -> None:
    """Give every token every scope."""
    from memory.api.auth import Caller

    patch.setattr(Caller, "may", lambda self, scope: True)


def revoking(patch: Patch) -> None:
    """Find tokens that were revoked."""
    from memory.models.accounts import TokenQuerySet

    patch.setattr(TokenQuerySet, "usable", lambda self, at=None: self.all())


def token_hash(patch: Patch) -> None:
    """Store a token's text itself."""
    from memory.models import Invitation

    patch.setattr(Invitation, "hash_of", staticmethod(lambda text: text))


def rate_limit(patch: Patch) -> None:
    """Count no requests."""
    from memory.accounts import tokens

    patch.setattr(tokens, "count_request", lambda token: 0)


def sign_ins(patch: Patch) -> None:
    """Count no failed sign-ins."""
    from django.conf import settings

    patch.setattr(settings, "AXES_ENABLED", False)


# --- what is fetched ------------------------------------------------------------------------------


def urls(patch: Patch) -> None:
    """Check neither the text of a URL nor the address of its host."""
    import httpx

    from beacon_site.net import address_guard

    connections(patch)
    _everywhere(patch, address_guard.check_url, lambda url, _allowed=frozenset(): httpx.URL(url))


def connections(patch: Patch) -> None:
    """Connect wherever a name leads."""
    from beacon_site.net import address_guard

    _everywhere(patch, address_guard.is_forbidden, lambda address: False)


def deadline(patch: Patch) -> None:
    """Give each answer as long as the whole may take."""
    from beacon_site.net.bounded import Meter

    patch.setattr(Meter, "remaining", lambda self: self.limits.whole_seconds)


def unpacking(patch: Patch) -> None:
    """Unpack whatever there is."""
    from beacon_site.net import bounded as net_bounded

    bounded: Callable[..., Any] = net_bounded.unpacker_for
    _everywhere(patch, bounded, lambda encoding, *, limit: bounded(encoding, limit=2**40))


def reader(patch: Patch) -> None:
    """Let the child that reads pages take what time and memory it likes."""
    from beacon_site.net.extract import Extractor

    patch.setattr(Extractor, "_check_limits", lambda self, child, until: None)
