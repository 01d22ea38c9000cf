"""A report read by somebody without an account: a link is made, opened, ended, taken up again.

Data flow: report and days -> `SharedLink` row -> its signed address; an address -> the row, if it
still works -> the report's words and sources, and nothing else of the topic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.dateformat import format as date_text
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from memory.actors import Actor
from memory.errors import InvalidValue
from memory.models import Activity, User
from memory.texts.text import clean, one_line
from research.models import Report, SharedLink
from research.models.shares import MOST_NOTE
from research.reporting import sentences as report_sentences
from research.reports import page as report_page
from research.reports.delta_rows import DeltaRow

DAYS = (1, 7, 30, 90, 365)
MOST_LINKS = 20  # that work at once for one report
MOST_OVER = 50  # links that open nothing any more, in a list


class LinkOver(Exception):
    """The link was a good one once; the message says why it opens nothing now."""


class NoSuchLink(Exception):
    """The address was never given out by this site, or what it led to is deleted for good."""


@dataclass(frozen=True, slots=True)
class LinkRow:
    """A link as its owner sees it."""

    link: SharedLink
    title: str
    state: str  # working, ended or expired
    can_resume: bool


def make_link(report: Report, *, days: int, note: str, by: Actor) -> SharedLink:
    """Return a new link to `report` that works for `days` (one of DAYS).

    Raises InvalidValue for another number of days, a note of over MOST_NOTE characters, and where
    MOST_LINKS work already.
    """
    note = one_line(clean(note)[0])
    if days not in DAYS:
        problem = _("Choose one of the times that are offered.")
        raise InvalidValue(problem, errors={"days": [problem]})
    if len(note) > MOST_NOTE:
        words = _("At most %(most)d characters; these are %(count)d.")
        problem = words % {"most": MOST_NOTE, "count": len(note)}
        raise InvalidValue(problem, errors={"note": [problem]})
    with transaction.atomic():
        _check_room(report.pk)
        link = SharedLink.objects.create(
            owner=report.owner,
            report=report,
            note=note,
            ends_at=timezone.now() + timedelta(days=days),
        )
        _log(link, by, "report-shared", ends_at=link.ends_at)
    return link


def _check_room(report: Any) -> None:
    """Raise InvalidValue where as many links to the report (its key) work as may; in a transaction."""
    # Two tabs at once must not pass the number together.
    Report.objects.select_for_update().get(pk=report)
    if SharedLink.objects.filter(report=report).working().count() >= MOST_LINKS:
        words = ngettext(
            "%(most)d link to this report works already: end it first.",
            "%(most)d links to this report work already: end one of them first.",
            MOST_LINKS,
        )
        raise InvalidValue(words % {"most": MOST_LINKS})


def end(link: SharedLink, *, by: Actor) -> bool:
    """Let the link open nothing from now on; False if it had been ended before."""
    with transaction.atomic():
        mine = SharedLink.objects.filter(pk=link.pk, ended_at=None)
        if not mine.update(ended_at=timezone.now()):
            return False
        _log(link, by, "report-unshared")
    return True


def resume(link: SharedLink, *, by: Actor) -> bool:
    """Take back the end of a link; False if it works, or its time has passed meanwhile.

    Raises InvalidValue where MOST_LINKS work already.
    """
    with transaction.atomic():
        mine = SharedLink.objects.filter(pk=link.pk, ends_at__gt=timezone.now())
        ended = mine.exclude(ended_at=None)
        if not ended.exists():
            return False
        _check_room(link.report_id)
        if not ended.update(ended_at=None):
            return False
        _log(link, by, "report-shared", ends_at=link.ends_at)
    return True


def _log(link: SharedLink, by: Actor, kind: str, **detail: Any) -> None:
    Activity.log(link.owner, by, kind, subject=link, label=_title(link), **detail)


def _title(link: SharedLink) -> str:
    return f"{link.report.title}, {link.report.run}"


def opened(token: str, *, is_visit: bool = True) -> SharedLink:
    """Return the working link of an address, with its report loaded, and count a visit.

    Raises NoSuchLink and LinkOver, whose words may be shown to anybody.
    """
    key = SharedLink.key_of(token)
    related = ("report__run__topic", "owner")
    found = SharedLink.objects.select_related(*related).filter(pk=key)
    link: SharedLink | None = found.first() if key else None
    if link is None:
        raise NoSuchLink
    if link.ended_at is not None:
        raise LinkOver(_("The person who gave it to you has ended it."))
    now = timezone.now()
    if link.ends_at <= now:
        words = _("It worked until %(day)s.")
        raise LinkOver(words % {"day": date_text(timezone.localtime(link.ends_at), "j F Y")})
    report = link.report
    if report.trashed_at or report.run.topic.trashed_at or not link.owner.is_active:
        raise LinkOver(_("The report is not available now."))
    if is_visit:
        SharedLink.objects.filter(pk=link.pk).update(opened=F("opened") + 1, opened_at=now)
    return link


def words_of(link: SharedLink) -> dict[str, Any]:
    """Return what the shared page shows: the report, what changed, its sources.

    Left out is all that tells of the owner's memory and means: what was confirmed, went quiet or was
    withheld, warnings, costs, who wrote it, and links to pages that need a sign-in.
    """
    run = link.report.run
    found = report_page.article(run, reader=report_sentences.STRANGER)
    sources = [_outside(source) for source in found["sources"]]
    if found["changed"].unasked and found["quiet_text"]:
        # How many were withheld is the owner's affair.
        found["quiet_text"] = _("No change is announced.")
    return {name: found[name] for name in ("report", "quiet_text", "body", "contents")} | {
        "run": run,
        "listed": [_row_outside(row) for row in found["changed"].listed],
        "sources": sources,
        "link": link,
    }


def _row_outside(row: DeltaRow) -> DeltaRow:
    stands = {name: getattr(row, name) for name in ("source", "previous")}
    return replace(row, **{n: stand and stand.for_strangers() for n, stand in stands.items()})


def _outside(source: report_page.SourceRow) -> report_page.SourceRow:
    """Return the source without a link to a page of this site, which a stranger cannot open."""
    if not source.link.is_ours:
        return source
    return replace(source, link=replace(source.link, url="", note=""), address="")


def rows_of(owner: User, report: Report | None = None) -> list[LinkRow]:
    """Return the owner's links, of one report or of all, newest first: two queries.

    All that work come first, so that each can be ended; then the last MOST_OVER of the others.
    """
    found = SharedLink.objects.of(owner).select_related("report__run__topic").readable()
    if report is not None:
        found = found.filter(report=report)
    now = timezone.now()
    over = found.filter(Q(ends_at__lte=now) | Q(ended_at__isnull=False))[:MOST_OVER]
    return [_row(link, now) for link in (*found.working(now), *over)]


def _row(link: SharedLink, now: Any) -> LinkRow:
    if link.ends_at <= now:
        return LinkRow(link, _title(link), "expired", can_resume=False)
    ended = link.ended_at is not None
    return LinkRow(link, _title(link), "ended" if ended else "working", can_resume=ended)
