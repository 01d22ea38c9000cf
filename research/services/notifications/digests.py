"""Digests: one message about many topics, created when due from the runs since the last one.

Data flow: due settings -> runs that ended since the last digest -> `Digest` with one entry per run
(each run is in only one digest) -> deliveries. A digest -> `content` -> page, email, webhook.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings as site
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Window
from django.db.models.functions import RowNumber
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.db.errors import LoggedFailure
from beacon_site.text.cleaning import uncited
from beacon_site.text.dates import zone_of
from memory.models import Activity, Membership, Topic, User
from memory.models.actors import SYSTEM, Actor
from research.claims.blocks import plain_quote
from research.models import (
    AffectedLine,
    Delivery,
    DeltaItem,
    Digest,
    DigestEntry,
    DigestSettings,
    Report,
    Run,
    TopicNotices,
)
from research.services.facts import affected
from research.services.reports import since_read
from research.services.reports.delta_rows import in_one
from research.services.runs.reporting.merged_deltas import merge
from research.services.schedules import cron

logger = structlog.get_logger(__name__)

Frequency = DigestSettings.Frequency
_FIRST = {
    Frequency.DAILY: timedelta(days=1),
    Frequency.WEEKLY: timedelta(days=7),
}  # what the first digest covers
# A run whose save wasn't committed when the last digest was created goes into the next one.
_SLACK = timedelta(hours=1)
_AT_ONCE = 100  # digests created per tick; the next tick creates the rest
_URGENT: dict[str, int] = {DeltaItem.Status.CONTRADICTED: 0, DeltaItem.Status.CHANGED: 1}
_COUNTED = (*_URGENT, DeltaItem.Status.NEW, DeltaItem.Status.GONE)
ENDED = (Run.Status.SUCCEEDED, Run.Status.PARTIAL, Run.Status.FAILED)


# --- when ---


def settings_of(user: User) -> DigestSettings:
    """Return when the person gets a digest. An unsaved row means never."""
    return DigestSettings.objects.for_user(user).first() or DigestSettings(owner=user)


def next_at(chosen: DigestSettings, after: datetime) -> datetime | None:
    """Return the first time after `after` at which a digest is due, in the owner's time zone."""
    if chosen.frequency == Frequency.NEVER:
        return None
    weekday = chosen.weekday if chosen.frequency == Frequency.WEEKLY else "*"
    line = f"0 {chosen.hour} * * {weekday}"
    return next(iter(cron.slots(line, zone_of(chosen.owner.time_zone), after)), None)


def save_settings(
    user: User, *, by: Actor, left_out: Iterable[Topic] = (), **fields: Any
) -> DigestSettings:
    """Store when the person gets a digest, and which of their topics it leaves out."""
    with transaction.atomic():
        chosen: DigestSettings
        chosen, _made = DigestSettings.objects.select_for_update().get_or_create(owner=user)
        for name, value in fields.items():
            setattr(chosen, name, value)
        chosen.next_at = next_at(chosen, timezone.now())
        chosen.time_zone = chosen.owner.time_zone
        chosen.save()
        out = {topic.pk for topic in left_out}
        mine = TopicNotices.objects.filter(topic__owner=user)
        mine.filter(in_digest=False).exclude(topic__in=out).update(in_digest=True)
        mine.filter(topic__in=out).update(in_digest=False)
        known = set(mine.filter(topic__in=out).values_list("topic_id", flat=True))
        TopicNotices.objects.bulk_create(
            TopicNotices(topic_id=pk, in_digest=False) for pk in out - known
        )
        Activity.log(user, by, "digest-settings-changed", frequency=chosen.frequency)
    return chosen


# --- the tick ---


def make_due(at: datetime | None = None) -> int:
    """Create the digests that are due. Return how many were considered.

    It's safe for two beats to call this at once: one UPDATE of `next_at` claims the slot, and the
    constraint `digest_once_a_slot` backs it up. Several missed slots result in one digest.
    """
    at = at or timezone.now()
    _follow_zones(at)
    taken = 0
    due = DigestSettings.objects.due(at).select_related("owner").order_by("next_at")
    failure: Exception | None = None
    for chosen in due[:_AT_ONCE]:
        with LoggedFailure("digest failed", owner=chosen.owner_id) as part:
            taken += _take(chosen, at)
        failure = part.error or failure
    if failure is not None:
        raise failure
    return taken


def _follow_zones(at: datetime) -> None:
    """Move the next digest of people who changed their time zone to the same hour there."""
    moved = DigestSettings.objects.of_another_zone(at).select_related("owner")
    for chosen in moved[:_AT_ONCE]:
        mine = DigestSettings.objects.filter(pk=chosen.pk, next_at=chosen.next_at)
        mine.update(next_at=next_at(chosen, at), time_zone=chosen.owner.time_zone)


def _take(chosen: DigestSettings, at: datetime) -> bool:
    """Claim one person's due slot and create its digest. Return False if another beat has it."""
    slot = chosen.next_at
    with transaction.atomic():
        mine = DigestSettings.objects.filter(pk=chosen.pk, next_at=slot)
        if not mine.update(next_at=next_at(chosen, at), time_zone=chosen.owner.time_zone):
            return False
        with timezone.override(zone_of(chosen.owner.time_zone)):
            make(chosen, slot or at)
    return True


def make(chosen: DigestSettings, slot: datetime) -> Digest | None:
    """Create the digest of a slot with its deliveries, or return None if it would be empty.

    It's empty if there were no runs and no new reports that others share. Unless the person wants
    quiet digests too, it's also empty if no run changed anything or failed. Those runs go into the
    next digest.
    """
    owner = chosen.owner
    if Digest.objects.for_user(owner).filter(slot=slot).exists():
        return None  # imported settings: the next digest covers what has ended since
    last = Digest.objects.for_user(owner).first()
    now = timezone.now()
    since = (
        last.created if last else now - _FIRST.get(Frequency(chosen.frequency), timedelta(days=7))
    )
    runs = list(_runs(owner, since - _SLACK if last else since).select_related("report"))
    told = any(
        run.status == Run.Status.FAILED or not _report_of(run) or not run.report.is_quiet
        for run in runs
    )
    news = _unread_of(owner, now).filter(created__gt=since, is_quiet=False)
    told = told or news.exists()
    if not told and not (runs and chosen.send_if_empty):
        return None
    digest: Digest = Digest.objects.create(owner=owner, slot=slot, since=since, created=now)
    DigestEntry.objects.bulk_create(
        [DigestEntry(digest=digest, run=run) for run in runs], ignore_conflicts=True
    )
    Delivery.objects.create_for_digest(digest.owner, digest)
    Activity.log(owner, SYSTEM, "digest-created", subject=digest, runs=len(runs))
    logger.info("digest created", digest=str(digest.pk), runs=len(runs))
    return digest


def _runs(owner: User, since: datetime) -> Any:
    """Return the runs that ended since then and aren't in a digest yet, of included topics."""
    ended = Run.objects.for_user(owner).kept().filter(status__in=ENDED, finished_at__gt=since)
    found = ended.filter(digest_entry=None, topic__trashed_at=None)
    return found.exclude(topic__notices__in_digest=False).order_by("finished_at", "pk")


def _unread_of(owner: User, until: datetime) -> Any:
    """Return the reports after the person's own mark, of shared topics that may notify them."""
    topics = Topic.objects.shared_with(owner)
    mine = Membership.objects.filter(user=owner, notify=True, topic__in=topics)
    mine = mine.filter(topic=OuterRef("run__topic"), read_run__lt=OuterRef("run__number"))
    return Report.objects.for_members().filter(Exists(mine), created__lte=until)


def _report_of(run: Run) -> Report | None:
    return getattr(run, "report", None)


# --- content ---


@dataclass(frozen=True, slots=True)
class Item:
    """One change as a digest, feed or webhook shows it."""

    status: str
    label: str
    sentence: str
    before: str
    quote: str
    sources: list[dict[str, str]]
    needs_review: bool = False

    @property
    def joined(self) -> SafeString | None:
        """Return old and new words in one sentence, None if they have too little in common."""
        return None if self.keeps_both or not self.before else in_one(self.before, self.sentence)

    @property
    def quoted(self) -> str:
        """Return the quote in words, "" if it's the sentence itself."""
        return "" if self.quote == self.sentence else plain_quote(self.quote)

    @property
    def keeps_both(self) -> bool:
        """Return True if it is shown next to the old fact until a person decides."""
        return self.needs_review or self.status == DeltaItem.Status.CONTRADICTED


@dataclass(slots=True)
class TopicPart:
    """One topic in a digest.

    Of one that another person shares, no message has the content. A person who is no longer a
    member can't read it on the topic's page.
    """

    topic: Topic
    is_shared: bool = False
    runs: list[Run] = field(default_factory=list)  # saved runs, the newest last
    items: list[Item] = field(default_factory=list)
    summary: str = ""  # of a first report
    failed: Run | None = None  # the last failed run
    filtered_out: int = 0
    affects: list[AffectedLine] = field(default_factory=list)  # lines of memory that changes meet

    @property
    def url(self) -> str:
        """Return the full URL of the newest run, or of the topic."""
        if self.is_shared:
            return site.BEACON_URL + reverse("research:shared-topic", args=[self.topic.pk])
        last = self.runs[-1] if self.runs else self.failed
        return run_url(last) if last else site.BEACON_URL

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Return how many changes it has of each kind, in the order of their importance."""
        found = Counter(item.status for item in self.items)
        return [(status, found[status]) for status in _COUNTED if found[status]]

    @property
    def has_content(self) -> bool:
        """Return True if anything happened in the topic."""
        return bool(self.items or self.summary)


@dataclass(slots=True)
class Content:
    """The content of a digest: topics with changes, quiet ones, failures, and what others share."""

    parts: list[TopicPart] = field(default_factory=list)
    quiet: list[TopicPart] = field(default_factory=list)
    failed: list[TopicPart] = field(default_factory=list)
    shared: list[TopicPart] = field(default_factory=list)
    filtered_out: int = 0

    @property
    def is_empty(self) -> bool:
        """Return True if nothing is left of it: all is in Trash, read, or no longer shared."""
        return not (self.parts or self.quiet or self.failed or self.shared)

    @property
    def first(self) -> list[TopicPart]:
        """Return the topics with only a first report."""
        return [part for part in self.parts if not (part.items or part.affects)]

    @property
    def changes(self) -> int:
        """Return the number of changes it lists."""
        return sum(len(part.items) for part in self.parts)

    @property
    def line(self) -> str:
        """Return a one-line summary: “3 changes in 2 topics · 4 topics with nothing new · 1 failed”."""
        said = []
        topics = sum(bool(part.items) for part in self.parts)
        if topics:
            words = ngettext("%(n)d change", "%(n)d changes", self.changes)
            of = ngettext("%(n)d topic", "%(n)d topics", topics)
            counts = {"changes": words % {"n": self.changes}, "topics": of % {"n": topics}}
            said.append(_("%(changes)s in %(topics)s") % counts)
        if first := len(self.parts) - topics:
            said.append(ngettext("%(n)d first report", "%(n)d first reports", first) % {"n": first})
        if self.quiet:
            words = ngettext(
                "%(n)d topic with nothing new", "%(n)d topics with nothing new", len(self.quiet)
            )
            said.append(words % {"n": len(self.quiet)})
        if self.failed:
            said.append(_("%(n)d failed") % {"n": len(self.failed)})
        if unread := sum(len(part.runs) for part in self.shared):
            words = ngettext("%(n)d unread shared report", "%(n)d unread shared reports", unread)
            said.append(words % {"n": unread})
        return " · ".join(said) or _("nothing new")


def run_url(run: Run) -> str:
    return f"{site.BEACON_URL}{reverse('research:run', args=[run.topic.slug, run.pk])}"


def digest_url(digest: Digest) -> str:
    return f"{site.BEACON_URL}{reverse('research:digest', args=[digest.pk])}"


def content(digest: Digest) -> Content:
    """Return the digest's current content in seven queries, without what is in Trash.

    If a topic ran several times since the last digest, each fact appears once, in its current form.
    """
    rows = (
        Run.objects.for_user(digest.owner)
        .kept()
        .filter(digest_entry__digest=digest, topic__trashed_at=None)
    )
    told = content_of(rows)
    told.shared = _shared(digest)
    return told


def content_of(runs: QuerySet[Run]) -> Content:
    """Return what these runs told, by topic, in three queries.

    If a topic ran several times, each fact appears once, in its current form.
    """
    found = runs.select_related("topic", "report").order_by("finished_at", "pk")
    found = found.defer("manifest", "settings", "report__body", "report__checks")
    rows = _rows_of(run.pk for run in found if _report_of(run))
    parts: dict[Any, TopicPart] = {}
    for run in found:
        part = parts.setdefault(run.topic_id, TopicPart(run.topic))
        report = _report_of(run)
        if run.status == Run.Status.FAILED:
            part.failed = run
        elif report is not None and report.trashed_at is None:
            items = rows.get(run.pk, [])
            part.runs.append(run)
            part.filtered_out += sum(bool(row.hidden_reason) and row.is_listed for row in items)
            if not report.delta:
                part.summary = uncited(report.summary)
    # A digest also leaves Beacon, so it doesn't quote sensitive records.
    met = affected.of_items((row.pk for of in rows.values() for row in of), is_private=False)
    for part in parts.values():
        part.items = _merged_changes(part.runs, rows)
        if part.items and part.summary:
            part.summary = _newest_summary(part.runs)
        part.affects = _affects(part.runs, rows, met)
    ordered = sorted(parts.values(), key=lambda part: part.topic.title.casefold())
    return Content(
        parts=[part for part in ordered if part.has_content],
        quiet=[part for part in ordered if part.runs and not part.has_content],
        failed=[part for part in ordered if part.failed],
        filtered_out=sum(part.filtered_out for part in ordered),
    )


def _shared(digest: Digest) -> list[TopicPart]:
    """Return the shared topics whose reports until the digest are unread, the last ones of each."""
    reports = _unread_of(digest.owner, digest.created).values("run")
    runs = Run.objects.filter(pk__in=reports).select_related("topic", "report")
    newest_first = Window(RowNumber(), partition_by="topic", order_by="-number")
    runs = runs.alias(place=newest_first).filter(place__lte=since_read.MAX_RUNS)
    # A member can be away for years of daily reports.
    runs = runs.defer("report__body", "report__delta", "report__checks")
    parts: dict[Any, TopicPart] = {}
    for run in runs.order_by("number"):
        parts.setdefault(run.topic_id, TopicPart(run.topic, is_shared=True)).runs.append(run)
    rows = _rows_of(run.pk for part in parts.values() for run in part.runs)
    for part in parts.values():
        part.items = _merged_changes(part.runs, rows)
    return sorted(parts.values(), key=lambda part: part.topic.title.casefold())


def _rows_of(runs: Iterable[int]) -> dict[int, list[DeltaItem]]:
    """Return each run's delta items, including withheld ones, in one query."""
    found: dict[int, list[DeltaItem]] = {}
    rows = DeltaItem.objects.filter(run__in=list(runs)).select_related("conflict")
    for row in rows.order_by("run", "position"):
        found.setdefault(row.run_id, []).append(row)
    return found


def _affects(
    runs: list[Run],
    rows: dict[int, list[DeltaItem]],
    met: Mapping[int, list[AffectedLine]],
) -> list[AffectedLine]:
    """Return the lines that one topic's changes affect, each once, with the latest change."""
    found: dict[tuple[Any, str], AffectedLine] = {}
    for run in runs:
        for row in rows.get(run.pk, []):
            for one in met.get(row.pk, ()):
                one.item = row
                found[one.record_id, one.line_key] = one
    return list(found.values())


def _newest_summary(runs: list[Run]) -> str:
    """Return the summary of the last report with news, "" if it only repeats its first changes."""
    last = [run.report for run in runs if not run.report.is_quiet][-1:]
    return "".join(uncited(one.summary) for one in last if not one.is_extractive)


def _merged_changes(runs: list[Run], rows: dict[int, list[DeltaItem]]) -> list[Item]:
    """Return the changes over all runs of one topic, with their deltas merged."""
    items = [row for run in runs for row in rows.get(run.pk, []) if not row.hidden_reason]
    reports = {run.pk: run.report for run in runs}
    if len(runs) > 1:
        items = [one.as_item() for one in merge(items)]
    listed = [item_of(row, reports[row.run_id].sources) for row in items if row.is_listed]
    return sorted(listed, key=lambda item: _URGENT.get(item.status, 2))


def items_of(runs: Iterable[Run]) -> dict[int, tuple[list[Item], int]]:
    """Return the listed changes of each run and how many were withheld, in one query.

    The runs must have their reports loaded, which contain the sources.
    """
    by_run = {run.pk: run for run in runs}
    found: dict[int, tuple[list[Item], int]] = {}
    for row in DeltaItem.objects.filter(run__in=by_run, status__in=DeltaItem.LISTED):
        items, withheld = found.get(row.run_id, ([], 0))
        if row.hidden_reason:
            withheld += 1
        else:
            items.append(item_of(row, by_run[row.run_id].report.sources))
        found[row.run_id] = (items, withheld)
    return found


def item_of(row: DeltaItem, numbered: Iterable[dict[str, Any]]) -> Item:
    """Return one change to show. `numbered` is the source list of its report."""
    sources = {source["n"]: source for source in numbered}
    is_beside = row.status in (DeltaItem.Status.CHANGED, DeltaItem.Status.CONTRADICTED)
    return Item(
        status=row.status,
        label=row.get_status_display(),
        sentence=row.sentence,
        before=row.previous_text if is_beside else "",
        quote=row.quote,
        sources=[
            {
                "title": str(sources[n].get("title", "")),
                "url": _on_the_web(str(sources[n].get("link", ""))),
                "domain": str(sources[n].get("domain", "")),
            }
            for n in row.citations
            if n in sources
        ],
        needs_review=row.needs_review,
    )


def _on_the_web(link: str) -> str:
    """Return the address if anyone can open it. A library address can't be opened elsewhere."""
    return link if link.startswith(("http://", "https://")) else ""
