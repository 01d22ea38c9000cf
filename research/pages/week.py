"""The week's page: what was learned, corrected and forgotten, on one page that can be printed.

Data flow: a week in the person's time zone -> runs that ended in it (`digests.content_of`), and
revisions and log lines of it -> `Line`s as in Activity.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.timezone import make_aware
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.text.cleaning import flat
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import signed_in
from memory.models import Activity, Note, Revision, TopicFact, User
from memory.models.actors import SYSTEM
from memory.models.history import actor_kind
from memory.services.records.kinds import count_label
from research.models import Run
from research.pages import activity, activity_streams
from research.pages.activity_streams import Line, StreamPosition, StreamRow
from research.services.notifications import digests
from research.services.reports.delta_rows import in_one

MAX_LINES = 12  # of corrected or forgotten records; Activity has all of them
MAX_TEXT_LENGTH = 600  # characters of a text that is shown before and after its correction
# The fields that contain what a record says.
TEXTS = ("content", "text", "body", "value")
REMEMBERED = ("note", "observation", "memoryfile", "contentitem", "librarydocument")
# Neither learned nor forgotten, or part of a run, whose removal has a line in the log.
NOT_MEMORY = ("contentitem", "removedrun", "report", "scratchpadentry", "session", "snapshot")
CORRECTED = ("conflict-resolved", "names-merged", "proposal-rejected", "report-corrected")
FORGOTTEN = (
    "content-cleared", "content-retired", "forgot-source", "memory-ended", "purged",
    "quarantine-trashed", "run-trashed", "trash-pruned",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Week:
    """Seven days from Monday, in the current time zone."""

    first: date

    @classmethod
    def named(cls, key: str) -> Week:
        """Return the week of a URL (`2026-W48`), or the current one if there is none by that name.

        No week is later than the current one.
        """
        today = timezone.localdate()
        current = today - timedelta(days=today.weekday())
        try:
            year, _sign, number = key.partition("-W")
            found = date.fromisocalendar(int(year), int(number), 1)
        except ValueError:
            return cls(current)
        return cls(min(found, current))

    @property
    def last(self) -> date:
        return self.first + timedelta(days=6)

    @property
    def key(self) -> str:
        year, number, _day = self.first.isocalendar()
        return f"{year:04}-W{number:02}"

    @property
    def before(self) -> str:
        return Week(self.first - timedelta(days=7)).key if self.first.year > 1 else ""

    @property
    def after(self) -> str:
        """Return the key of the next week, "" if it hasn't started."""
        following = self.first + timedelta(days=7)
        return Week(following).key if following <= timezone.localdate() else ""

    @property
    def is_current(self) -> bool:
        return self.first <= timezone.localdate() <= self.last

    def of(self, rows: QuerySet[Any], field: str = "created") -> QuerySet[Any]:
        zone = timezone.get_current_timezone()
        start = make_aware(datetime.combine(self.first, time()), zone)
        end = make_aware(datetime.combine(self.first + timedelta(days=7), time()), zone)
        return rows.filter(**{f"{field}__gte": start, f"{field}__lt": end})


@signed_in("GET", "HEAD")
def week(request: BeaconRequest) -> HttpResponse:
    """Show one week. The number of queries doesn't depend on what happened in it."""
    found = Week.named(request.GET.get("week", ""))
    user = request.user
    ended = (
        Run.objects.for_user(user).kept().filter(status__in=digests.ENDED, topic__trashed_at=None)
    )
    corrected, forgotten = corrected_in(user, found), forgotten_in(user, found)
    told = digests.content_of(found.of(ended, "finished_at"))
    expired = found.of(Note.objects.for_user(user).live().expired(), "expires_at").count()
    context = {
        "week": found,
        "said": told,
        "remembered": remembered_in(user, found),
        "corrected": corrected,
        "forgotten": forgotten,
        "expired": expired,
        "line": _summary(told, corrected["total"], forgotten["total"] + expired),
    }
    return render(request, "research/week.html", context)


def _summary(content: digests.Content, corrected: int, forgotten: int) -> list[tuple[str, str]]:
    """Return “3 changes in 2 topics”, “4 corrections” and “2 forgotten”, each with the ID of its section."""
    parts = [] if content.is_empty else [(content.line, "learned")]
    if corrected:
        words = ngettext("%(n)d correction", "%(n)d corrections", corrected)
        parts.append((words % {"n": corrected}, "corrected"))
    if forgotten:
        parts.append((_("%(n)d forgotten") % {"n": forgotten}, "forgotten"))
    return parts


def remembered_in(user: User, week: Week) -> list[tuple[str, str]]:
    """Return what each writer added to memory, in words, the person first.

    Facts aren't counted, because the reports say them.
    """
    made = week.of(Revision.objects.for_user(user)).filter(version=1, record_type__in=REMEMBERED)
    made = made.exclude(actor=str(SYSTEM))  # an account's first records
    counts = made.values("actor", "record_type").annotate(n=Count("pk")).order_by("-n")
    by_writer: dict[str, Counter[str]] = defaultdict(Counter)
    for row in counts:
        writer = activity_streams.who(row["actor"], user.username)
        by_writer[writer][row["record_type"]] += row["n"]
    you = _("you")
    ordered = sorted(by_writer.items(), key=lambda one: one[0] != you)
    return [
        (writer, ", ".join(count_label(*one) for one in made.most_common()))
        for writer, made in ordered
    ]


def corrected_in(user: User, week: Week) -> dict[str, Any]:
    """Return what people corrected, and what newer records replaced, with the words before and after."""
    changes = _changes(user, week).exclude(before={}).filter(trashed__isnull=True)
    changes = changes.annotate(by=actor_kind(), state=KeyTextTransform("state", "after"))
    by_person = Q(by="human") & (Q(after__has_any_keys=TEXTS) | Q(state=TopicFact.State.STRUCK))
    found = _newest_lines(
        user, changes.filter(by_person | Q(superseded__isnull=False)), _log(user, week, CORRECTED)
    )
    shown = {line.key: line for line in found["shown"] if line.name == "change"}
    for revision in Revision.objects.for_user(user).filter(pk__in=shown):
        _say_words(shown[revision.pk], revision)
    return found


def _say_words(line: Line, revision: Revision) -> None:
    """Give a line the text before and after, without Markdown, unless one of them is too long to be shown."""
    if revision.record_type == "memoryfile":
        return  # its History shows the changed lines
    name = next((name for name in TEXTS if name in revision.after), "")
    before, after = (
        flat(str(revision.before.get(name) or "")),
        flat(str(revision.after.get(name) or "")),
    )
    if before and after and before != after and max(len(before), len(after)) <= MAX_TEXT_LENGTH:
        line.before, line.after, line.joined = before, after, in_one(before, after)


def forgotten_in(user: User, week: Week) -> dict[str, Any]:
    """Return what was moved to Trash or deleted permanently."""
    later = Revision.objects.filter(
        record_type=OuterRef("record_type"),
        record_id=OuterRef("record_id"),
        id__gt=OuterRef("id"),
        after__has_key="trashed_at",
    )
    moved = _changes(user, week).filter(trashed__isnull=False)
    # Everything from a source is one line of the log. What was restored isn't forgotten.
    moved = moved.exclude(source__startswith="forget:").exclude(Exists(later))
    return _newest_lines(user, moved, _log(user, week, FORGOTTEN))


def _changes(user: User, week: Week) -> QuerySet[Any]:
    rows: Any = activity_streams.changes(user, {})
    return week.of(rows.exclude(record_type__in=NOT_MEMORY))


def _log(user: User, week: Week, kinds: tuple[str, ...]) -> QuerySet[Any]:
    return week.of(Activity.objects.for_user(user)).filter(kind__in=kinds)


def _newest_lines(user: User, changes: QuerySet[Any], log: QuerySet[Any]) -> dict[str, Any]:
    """Return the newest lines, and how many there are in all and aren't shown."""
    rows = [
        StreamRow(StreamPosition(row.created, rank, row.pk), row)
        for rank, some in enumerate((changes, log))
        for row in some.order_by("-created", "-id")[:MAX_LINES]
    ]
    rows.sort(key=lambda one: (one.place.at, -one.place.rank, one.place.key), reverse=True)
    taken = rows[:MAX_LINES]
    shown = activity.activity_lines(user, _once_per_file(taken))
    total = changes.count() + log.count()
    return {"shown": shown, "total": total, "more": total - len(taken)}


def _once_per_file(rows: list[StreamRow]) -> list[StreamRow]:
    """Return the rows without a file's earlier changes, whose lines would say the same."""
    seen: set[Any] = set()
    kept = []
    for one in rows:
        if one.name == "change" and one.row.record_type == "memoryfile":
            key = one.row.record_id, one.row.trashed
            if key in seen and not one.row.reason:
                continue
            seen.add(key)
        kept.append(one)
    return kept
