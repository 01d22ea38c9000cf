"""Which of research's models an account's archive contains, and its reports as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from memory.accounts.archive import exporter
from memory.accounts.archive.kinds import Kind, register
from memory.models import User
from research import models
from research.services.schedules import scheduling

_OPEN_FOLLOW_UP = Q(is_follow_up=True, state__in=["waiting", "running"])


def _unfinished(run: Any) -> str:
    return (
        _("it hadn’t finished when the archive was created")
        if run.status in models.Run.UNFINISHED
        else ""
    )


def _to_be_done(step: Any) -> str:
    if not all(type(count) in (int, float) for count in step.counts.values()):
        return _("its counts aren’t numbers")
    waits = step.is_follow_up and step.state in ("waiting", "running")
    return _("it’s still pending in the other Beacon instance") if waits else ""


_MAX_SOURCES = 10_000  # the highest source number accepted


def _unsound(report: Any) -> str:
    """Return why a report's sources or checks are invalid. Its page, digests and feeds need them."""
    numbers = set()
    for source in report.sources:
        number = source.get("n") if isinstance(source, dict) else None
        if type(number) is not int or not 0 < number <= _MAX_SOURCES:
            return _("one of its sources has no number")
        numbers.add(number)
        if not all(isinstance(source.get(name), str) for name in ("title", "link", "domain")):
            return _("one of its sources has no title, link or domain")
        quotes = source.get("quotes", [])
        if not isinstance(quotes, list) or not all(map(_is_quote, quotes)):
            return _("one of its sources has invalid quotes")
    if len(numbers) < len(report.sources):
        return _("two of its sources have the same number")
    return "" if all(map(_is_check, report.checks)) else _("its checks are invalid")


def _is_check(check: Any) -> bool:
    if not isinstance(check, dict) or not isinstance(check.get("key"), str):
        return False
    counts = (check.get(name, 0) for name in ("sources", "independent"))
    return "supported" in check and all(type(count) is int for count in counts)


def _is_quote(quote: Any) -> bool:
    is_found = quote.get("found") if isinstance(quote, dict) else ""
    return is_found is None or isinstance(is_found, bool)


def _clear_lease(run: Any, _import_context: Any) -> None:
    """Clear the lease of an imported run, so no worker thinks it holds the run."""
    run.lease_until = run.nudged_at = run.waiting_since = None


def _pause_foreign_schedule(schedule: Any, import_context: Any) -> None:
    """Pause imported schedules that come from someone else's archive."""
    if not import_context.is_own:
        schedule.paused = True


def _check_nothing(settings: Any, import_context: Any) -> None:
    """Turn off monthly rechecks that come from someone else's archive."""
    if not import_context.is_own:
        settings.recheck = False


def _end(link: Any, _import_context: Any) -> None:
    """Revoke imported links. The person creates new ones."""
    link.ended_at = link.ended_at or timezone.now()


def _switch_off(channel: Any, _import_context: Any) -> None:
    channel.enabled = False


def _no_digest(chosen: Any, _import_context: Any) -> None:
    """Turn off imported digests. The person chooses a time on this Beacon."""
    chosen.frequency = models.DigestSettings.Frequency.NEVER


def _look_ahead(_import_context: Any, schedules: list[Any]) -> None:
    for schedule in schedules:
        scheduling.look_ahead(schedule.topic)


KINDS = [
    Kind(
        "topic-settings",
        gettext_lazy("topic settings"),
        models.TopicSettings,
        owner="topic__owner",
        key=("topic_id",),
        prepare=_check_nothing,
    ),
    Kind(
        "schedules",
        gettext_lazy("schedules"),
        models.Schedule,
        owner="topic__owner",
        key=("topic_id",),
        without=("next_run_at", "recheck_at"),  # calculated again, so missed runs are skipped
        prepare=_pause_foreign_schedule,
        finish=_look_ahead,
    ),
    Kind(
        "runs",
        gettext_lazy("runs"),
        models.Run,
        owner="topic__owner",
        only=~Q(status__in=models.Run.UNFINISHED),
        without=("lease_until", "nudged_at", "waiting_since"),
        problem=_unfinished,
        prepare=_clear_lease,
    ),
    Kind(
        "steps",
        gettext_lazy("run steps"),
        models.Step,
        owner="run__topic__owner",
        key=("run_id", "name", "part"),
        without=("lease_until", "nudged_at"),
        only=~Q(run__status__in=models.Run.UNFINISHED) & ~_OPEN_FOLLOW_UP,
        problem=_to_be_done,
    ),
    Kind(
        "hits",
        gettext_lazy("run results"),
        models.Hit,
        owner="run__topic__owner",
        key=("run_id", "url"),
        only=~Q(run__status__in=models.Run.UNFINISHED),
    ),
    Kind(
        "tool-calls",
        gettext_lazy("tool calls in runs"),
        models.ToolCall,
        owner="run__topic__owner",
        key=("run_id", "part", "position"),
        only=~Q(run__status__in=models.Run.UNFINISHED),
    ),
    Kind("reports", gettext_lazy("reports"), models.Report, problem=_unsound),
    Kind("removed-runs", gettext_lazy("deleted runs without a report"), models.RemovedRun),
    Kind(
        "delta-items",
        gettext_lazy("changes in reports"),
        models.DeltaItem,
        owner="run__topic__owner",
        key=("run_id", "position"),
        only=~Q(run__status__in=models.Run.UNFINISHED),
    ),
    Kind("checked-sentences", gettext_lazy("verified sentences"), models.CheckedSentence),
    Kind("corrections", gettext_lazy("corrections"), models.Correction),
    Kind(
        "corrected-facts",
        gettext_lazy("facts changed by corrections"),
        models.CorrectedFact,
        owner="correction__owner",
        key=("correction_id", "fact_id"),
    ),
    # The author is another account of this Beacon, so only the name is exported.
    Kind(
        "comments",
        gettext_lazy("comments on reports"),
        models.Comment,
        owner="report__owner",
        without=("author",),
    ),
    Kind("shared-links", gettext_lazy("shared links"), models.SharedLink, prepare=_end),
    # Channels are imported without their secrets and switched off, so an import sends nothing.
    Kind(
        "channels",
        gettext_lazy("channels"),
        models.Channel,
        without=(
            "secret",
            "last_at",
            "last_ok",
            "last_response",
            "disabled_reason",
            "consecutive_failures",
        ),
        prepare=_switch_off,
    ),
    Kind(
        "topic-notices",
        gettext_lazy("topic notifications"),
        models.TopicNotices,
        owner="topic__owner",
        key=("topic_id",),
        many=("left_out",),
    ),
    Kind(
        "digest-settings",
        gettext_lazy("digest settings"),
        models.DigestSettings,
        key=("owner_id",),
        without=("next_at", "time_zone"),
        prepare=_no_digest,
    ),
    Kind("digests", gettext_lazy("digests"), models.Digest),
    Kind(
        "digest-entries",
        gettext_lazy("digest entries"),
        models.DigestEntry,
        owner="digest__owner",
        key=("run_id",),
    ),
    Kind("feeds", gettext_lazy("feeds"), models.Feed, prepare=_end),
]
LEFT_OUT = {
    "research.AffectedLine": "places of lines in memory, which a run finds again when it changes something",
    "research.Delivery": "messages this Beacon sent and their responses, which must not be sent again elsewhere",
    "research.TopicNews": "recounted from the imported reports and changes",
}


def _reports(owner: User) -> Iterator[tuple[str, Iterable[str]]]:
    rows = models.Report.objects.for_user(owner).live().exclude(run__number=None)
    reports = rows.filter(run__topic__trashed_at=None).select_related("run__topic")
    for report in reports.order_by("created", "pk").iterator(chunk_size=50):
        name = f"readable/reports/{report.run.topic.slug}/run-{report.run.number}.md"
        yield name, [report.as_markdown()]


def register_kinds() -> None:
    """Register research's models. Called when the app is ready."""
    register(KINDS, LEFT_OUT)
    if _reports not in exporter.MORE:
        exporter.MORE.append(_reports)
