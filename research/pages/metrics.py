"""Prometheus metrics in addition to those of requests, read from Postgres and Redis each time.

Every process gives the same answer, and no count is lost when one restarts. The number of queries
is fixed. Labels never contain text from users: only states, queues, services, and the names of
models, which admins configure.

Events cover the last hour, and cost covers the month. Both are gauges: rows are deleted with a
topic or an account, and Prometheus would read a falling counter as a reset.
"""

from __future__ import annotations

import ipaddress
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import redis
import structlog
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.models import Count, Min, Q, Sum
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from beacon_site import health
from beacon_site.web import request_log
from memory.accounts import tokens
from memory.api import frame
from memory.api.auth import authenticated
from memory.api.problems import Problem
from memory.models import EmbeddingDue, ModelCall, User
from research.models import Delivery, Run, Step

logger = structlog.get_logger(__name__)

HOUR = timedelta(hours=1)
Values = dict[tuple[str, ...], float]  # by label values
QUEUES = ("research", "maintenance", "reflect", "background")
_SEARCHES = """
    SELECT asked->>'service', count(*), count(*) FILTER (WHERE asked->>'problem' <> '')
    FROM research_step step JOIN research_run run ON run.id = step.run_id
    CROSS JOIN LATERAL jsonb_array_elements(
        CASE jsonb_typeof(step.output->'asked') WHEN 'array' THEN step.output->'asked'
        ELSE '[]'::jsonb END
    ) asked
    WHERE run.status = 'running' OR run.finished_at > %s
    GROUP BY 1 ORDER BY 1
"""


# Each metric's description, which Prometheus and docs/reference/metrics.md show, and its labels.
FIGURES: dict[str, tuple[str, ...]] = {
    "info": ("The running version.", "version"),
    "database_up": ("Whether the database responds: 1 or 0.",),
    "redis_up": ("Whether Redis responds: 1 or 0.",),
    "data_folder_up": ("Whether the data folder is readable: 1 or 0.",),
    "database_bytes": ("Size of the database.",),
    "data_folder_free_bytes": ("Free space on the disk of the data folder.",),
    "process_age_seconds": (
        "Seconds since a process of this kind (worker, upkeep, beat) last reported. Missing if none ever has.",
        "kind",
    ),
    "queue_messages": ("Messages that no worker has picked up.", "queue"),
    "queue_messages_taken": ("Messages that workers are processing.",),
    "runs": ("Stored runs, by state.", "state"),
    "runs_ended_last_hour": ("Runs that ended within the last hour, by state.", "state"),
    "runs_ready": ("Queued runs that are due.",),
    "runs_ready_oldest_seconds": (
        "Seconds that the oldest queued run has waited, or 0 if there are none.",
    ),
    "runs_waiting_for_a_person": ("Runs waiting for a person to review their plan.",),
    "runs_stalled": ("Runs in progress with an expired lease, which means their worker is lost.",),
    "follow_ups": ("Follow-up steps of runs, by state.", "state"),
    "deliveries": ("Stored messages to channels, by state.", "state"),
    "deliveries_oldest_open_seconds": ("Age in seconds of the oldest unsent message.",),
    "model_calls_last_hour": (
        "Model calls within the last hour, by outcome: answered, or the type of failure.",
        "model",
        "outcome",
    ),
    "model_tokens_last_hour": (
        "Tokens used by model calls within the last hour: prompt or completion.",
        "model",
        "kind",
    ),
    "model_seconds_last_hour": ("Total seconds of model calls within the last hour.", "model"),
    "model_money_month": (
        "Cost of model calls since the start of the month (UTC), in the currency of the prices.",
        "model",
    ),
    "model_calls_unpriced_month": (
        "Model calls since the start of the month whose cost is unknown.",
        "model",
    ),
    "search_queries_last_hour": (
        "Search queries of current runs and of runs that ended within the last hour, by outcome.",
        "service",
        "outcome",
    ),
    "embeddings_due": ("Records waiting for embeddings.",),
}


def _gauge(name: str, values: Values) -> GaugeMetricFamily:
    about, *labels = FIGURES[name]
    gauge_metric_family = GaugeMetricFamily(f"beacon_{name}", about, labels=labels)
    for key, value in values.items():
        gauge_metric_family.add_metric(list(key), float(value))
    return gauge_metric_family


def _one(name: str, value: float) -> GaugeMetricFamily:
    return _gauge(name, {(): value})


class Figures(Collector):
    """All metrics. Those that can't be read are left out."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read all metrics once."""
        version: Values = {(str(settings.BEACON_VERSION),): 1.0}
        yield _gauge("info", version)
        yield from _disk()
        yield from _queues()
        try:
            found = [
                *_processes(),
                *_runs(),
                *_deliveries(),
                *_models(),
                *_searches(),
                *_database_metrics(),
            ]
        except DatabaseError as exc:
            logger.warning("metrics not read: database error", why=str(exc))
            found = []
        yield _one("database_up", bool(found))
        yield from found


def _disk() -> Iterator[GaugeMetricFamily]:
    """Read the free disk space. If the folder is missing, only this metric is affected."""
    try:
        free = shutil.disk_usage(settings.DATA_DIR).free
    except OSError as exc:
        logger.warning("free disk space unknown", why=exc.strerror)
        yield _one("data_folder_up", 0)
        return
    yield _one("data_folder_up", 1)
    yield _one("data_folder_free_bytes", free)


def _queues() -> Iterator[GaugeMetricFamily]:
    """Count messages in Redis: waiting, and in progress."""
    waiting: Values = {}
    taken = 0.0
    try:
        with redis.Redis.from_url(
            settings.REDIS_URL, socket_connect_timeout=0.5, socket_timeout=0.5
        ) as server:
            for queue in QUEUES:
                waiting[queue,] = float(server.llen(queue))
            taken = float(server.hlen("unacked"))
    except redis.RedisError:
        yield _one("redis_up", 0)
        return
    yield _one("redis_up", 1)
    yield _gauge("queue_messages", waiting)
    yield _one("queue_messages_taken", taken)


def _processes() -> Iterator[GaugeMetricFamily]:
    ages: Values = {(kind,): age for kind, age in health.ages().items() if age is not None}
    yield _gauge("process_age_seconds", ages)


# --- runs ---


def _runs() -> Iterator[GaugeMetricFamily]:
    now = timezone.now()
    runs = Run.objects.order_by()
    states = dict(runs.values_list("status").annotate(n=Count("pk")))
    yield _by_state("runs", states, Run.Status.values)
    ready = Q(status=Run.Status.QUEUED, waiting_since=None, not_before__lte=now)
    found = runs.unfinished().aggregate(
        ready=Count("pk", filter=ready),
        oldest=Min("not_before", filter=ready),
        waiting=Count("pk", filter=~Q(waiting_since=None)),
        stalled=Count("pk", filter=Q(status=Run.Status.RUNNING, lease_until__lt=now)),
    )
    oldest = (now - found["oldest"]).total_seconds() if found["oldest"] else 0.0
    yield _one("runs_ready", found["ready"])
    yield _one("runs_ready_oldest_seconds", oldest)
    yield _one("runs_waiting_for_a_person", found["waiting"])
    yield _one("runs_stalled", found["stalled"])
    ended = runs.filter(finished_at__gt=now - HOUR).values_list("status").annotate(n=Count("pk"))
    ends = [state for state in Run.Status.values if state not in Run.UNFINISHED]
    yield _by_state("runs_ended_last_hour", dict(ended), ends)
    late = Step.objects.order_by().filter(is_follow_up=True).values_list("state")
    counted = dict(late.annotate(n=Count("pk")))
    yield _by_state("follow_ups", counted, Step.State.values)


def _by_state(name: str, counted: Mapping[Any, int], states: Iterable[str]) -> GaugeMetricFamily:
    values: Values = {(str(state),): float(counted.get(state, 0)) for state in states}
    return _gauge(name, values)


def _deliveries() -> Iterator[GaugeMetricFamily]:
    rows = Delivery.objects.order_by().values_list("state")
    found = {state: (n, oldest) for state, n, oldest in rows.annotate(Count("pk"), Min("created"))}
    counted = {state: n for state, (n, _oldest) in found.items()}
    yield _by_state("deliveries", counted, Delivery.State.values)
    still = [found[state][1] for state in ("waiting", "sending") if state in found]
    age = (timezone.now() - min(still)).total_seconds() if still else 0.0
    yield _one("deliveries_oldest_open_seconds", age)


# --- external calls ---


def _models() -> Iterator[GaugeMetricFamily]:
    """Add the model calls. They are read by owner first, to match the order of their index."""
    now = timezone.now()
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    hour = Q(created__gt=now - HOUR)
    calls = ModelCall.objects.order_by().filter(
        owner__in=User.objects.order_by().values("pk"), created__gt=min(month, now - HOUR)
    )
    rows = calls.values("model", "failure").annotate(
        calls=Count("pk", filter=hour),
        prompt=Sum("prompt_tokens", filter=hour, default=0),
        answer=Sum("completion_tokens", filter=hour, default=0),
        ms=Sum("milliseconds", filter=hour, default=0),
        cost=Sum("money", filter=Q(created__gte=month), default=0),
        unpriced=Count("pk", filter=Q(created__gte=month, money=None)),
    )
    values: dict[str, Values] = {
        name: {} for name in ("calls", "tokens", "seconds", "money", "unpriced")
    }
    for row in rows:
        model = row["model"]
        values["calls"][model, row["failure"] or "answered"] = row["calls"]
        _add(values["tokens"], (model, "prompt"), row["prompt"])
        _add(values["tokens"], (model, "answer"), row["answer"])
        _add(values["seconds"], (model,), row["ms"] / 1000)
        _add(values["money"], (model,), float(row["cost"]))
        _add(values["unpriced"], (model,), row["unpriced"])
    yield from _of_models(values)


def _add(values: Values, key: tuple[str, ...], more: float) -> None:
    values[key] = values.get(key, 0.0) + more


def _of_models(values: Mapping[str, Values]) -> Iterator[GaugeMetricFamily]:
    yield _gauge("model_calls_last_hour", values["calls"])
    yield _gauge("model_tokens_last_hour", values["tokens"])
    yield _gauge("model_seconds_last_hour", values["seconds"])
    yield _gauge("model_money_month", values["money"])
    yield _gauge("model_calls_unpriced_month", values["unpriced"])


def _searches() -> Iterator[GaugeMetricFamily]:
    values: Values = {}
    with connection.cursor() as cursor:
        cursor.execute(_SEARCHES, [timezone.now() - HOUR])
        for service, asked, failed in cursor.fetchall():
            values[service, "failed"] = failed
            values[service, "answered"] = asked - failed
    yield _gauge("search_queries_last_hour", values)


def _database_metrics() -> Iterator[GaugeMetricFamily]:
    yield _one("embeddings_due", EmbeddingDue.objects.count())
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        (size,) = cursor.fetchone() or (0,)
    yield _one("database_bytes", size)


# --- view ---

# A proxy names the original client in these headers, so the request may come from anywhere.
PROXIES = (
    "Forwarded",
    "Via",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    try:
        _check(request)
    except Problem as exc:
        return exc.answer()
    site = CollectorRegistry()
    site.register(Figures())
    body = generate_latest(request_log.registry()) + generate_latest(site)
    return HttpResponse(body, content_type=CONTENT_TYPE_LATEST)


def _check(request: HttpRequest) -> None:
    """Raise Problem unless the request comes from this machine or has a token with the scope."""
    if _is_of_this_machine(request):
        return
    caller = authenticated(request)
    frame.check(caller)
    if caller.may(tokens.METRICS) and caller.owner.is_staff:
        return
    words = _("Metrics require a token with the “metrics” scope, created by an admin.")
    raise Problem(403, words)


def _is_of_this_machine(request: HttpRequest) -> bool:
    """Return True if a local program is asking a Beacon that serves only this machine.

    If Beacon is public, a proxy may forward requests from here too, so a local address isn't
    enough.
    """
    host = urlsplit(settings.BEACON_URL).hostname or ""
    if settings.BEACON_TRUST_PROXY or not (host == "localhost" or _is_loopback(host)):
        return False
    if any(name in request.headers for name in PROXIES):
        return False
    return _is_loopback(request.META.get("REMOTE_ADDR", ""))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
