"""Sharing a topic: its members, and what they can read.

Data flow: the owner adds an account -> a `Membership` and a line in the owner's log -> the member's
pages and requests find the topic through `Topic.objects.shared_with`, by its ID -> what they read
moves their own mark. Members who want it are notified about new reports, without their content.

Members read the topic's reports, current facts and sources. The owner's memory stays private:
notes, files, the library, remarks on sentences, withheld changes, costs and settings. Records that
no agent of the owner gets (sensitive and quarantined ones) aren't shown either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.db.keyset import Page, page_of
from beacon_site.text.cleaning import clean, one_line
from memory.models import Activity, Membership, Source, Topic, TopicFact, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from research.models import DeltaItem, Report
from research.models.reports import ReportQuerySet, link_of
from research.services.reports import page as report_page
from research.services.reports import since_read
from research.services.reports.delta_rows import DeltaRow, delta_row
from research.services.reports.since_read import ReadRun
from research.services.runs.reporting.merged_deltas import merge
from research.services.topics.page import FactRow, host_of


def add_member(topic: Topic, username: str, role: str, *, by: Actor) -> Membership:
    """Give the account `username` access to `topic`, and return the new member.

    Raises InvalidValue for an unknown or disabled account, for the owner and existing members, for
    an unknown role, and if the topic has Membership.MOST members.
    """
    _check_role(role)
    name = one_line(clean(username)[0])
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise _wrong_name(_("There’s no account with this username."))
    if user.pk == topic.owner_id:
        raise _wrong_name(_("You own this topic."))
    with transaction.atomic():
        # Two simultaneous requests must not exceed the limit together.
        Topic.objects.select_for_update(of=("self",)).get(pk=topic.pk)
        if topic.members.filter(user=user).exists():
            raise _wrong_name(_("This person is already a member."))
        if topic.members.count() >= Membership.MOST:
            words = ngettext(
                "A topic can have at most %(most)d member.",
                "A topic can have at most %(most)d members.",
                Membership.MOST,
            )
            raise InvalidValue(words % {"most": Membership.MOST})
        member = Membership.objects.create(topic=topic, user=user, role=role)
        _log(member, by, "topic-shared", role=role)
    return member


def set_role(member: Membership, role: str, *, by: Actor) -> bool:
    """Give the member another role. It applies at once. Return False if they have it already.

    Raises InvalidValue for an unknown role.
    """
    _check_role(role)
    with transaction.atomic():
        others = Membership.objects.filter(pk=member.pk).exclude(role=role)
        if not others.update(role=role):
            return False
        _log(member, by, "topic-role-changed", role=role)
    return True


def remove_member(member: Membership, *, by: Actor) -> bool:
    """End the member's access at once. Return False if it has ended already."""
    with transaction.atomic():
        gone, _rows = Membership.objects.filter(pk=member.pk).delete()
        if not gone:
            return False
        _log(member, by, "topic-left" if by == member.user.actor else "topic-unshared")
    return True


def mark_read(member: Membership, number: int) -> None:
    """Move the member's read mark forward to Run #`number`."""
    behind = Membership.objects.filter(pk=member.pk, read_run__lt=number)
    behind.update(read_run=number)


def set_notify(member: Membership, *, wanted: bool) -> None:
    """Turn the member's notifications about new reports on or off."""
    Membership.objects.filter(pk=member.pk).update(notify=wanted)


def _check_role(role: str) -> None:
    if role not in Membership.Role.values:
        problem = _("Select one of the listed roles.")
        raise InvalidValue(problem, errors={"role": [problem]})


def _wrong_name(problem: str) -> InvalidValue:
    return InvalidValue(problem, errors={"username": [problem]})


def _log(member: Membership, by: Actor, kind: str, role: str = "") -> None:
    topic = member.topic
    name = member.user.get_username()
    Activity.log(topic.owner, by, kind, subject=topic, member=name, role=role)


# --- what members can read ---

MOST_LISTED = 200  # shared topics on the list of topics


def memberships_of(user: User) -> QuerySet[Any]:
    """Return the topics that are shared with `user`, as memberships."""
    topics = Topic.objects.shared_with(user).values("pk")
    rows: QuerySet[Any] = Membership.objects.filter(user=user, topic__in=topics)
    return rows.select_related("topic__owner", "user")


def listed(user: User) -> list[Any]:
    """Return the memberships for the list of topics, each with its number of `unread` reports."""
    reports = Report.objects.for_members().filter(
        run__topic=OuterRef("topic"), run__number__gt=OuterRef("read_run")
    )
    counted = reports.order_by().values("run__topic").annotate(n=Count("pk")).values("n")
    unread = Coalesce(Subquery(counted, output_field=IntegerField()), 0)
    rows = memberships_of(user).annotate(unread=unread)
    return list(rows.order_by("-unread", "topic__title", "id")[:MOST_LISTED])


# --- reports ---


def reports_of(topic: Topic) -> ReportQuerySet:
    """Return the topic's reports that members can read."""
    return Report.objects.for_members().filter(run__topic=topic).select_related("run")


def page_of_reports(topic: Topic, cursor: str = "") -> Page:
    """Return a page of its reports, newest first."""
    rows = reports_of(topic).defer("body", "delta", "sources")
    return page_of(rows, by="created", falling=True, cursor=cursor)


@dataclass(slots=True)
class News:
    """What changed in a topic since the member last read it."""

    last_read: ReadRun | None = None
    first: int = 0  # the numbers of the first and last unread run
    last: int = 0
    rows: list[DeltaRow] = field(default_factory=list)

    @property
    def is_several(self) -> bool:
        """Whether it is more than the newest report's own changes."""
        return self.last_read is not None and self.last > self.first

    @property
    def words(self) -> str:
        """Return the counts as a sentence: `3 new facts, 2 changed`."""
        counts: dict[str, int] = {}
        for row in self.rows:
            counts[row.item.status] = counts.get(row.item.status, 0) + 1
        return since_read.counts_in_words(counts, was_read=False) or _("Nothing new.")


def unread_of(member: Membership) -> list[Report]:
    """Return the reports after the member's read mark in order, at most the last 60."""
    rows = reports_of(member.topic).filter(run__number__gt=member.read_run)
    return list(rows.order_by("-run__number")[: since_read.MOST_RUNS])[::-1]


def news_of(member: Membership) -> News:
    """Return the merged changes of the reports after the member's read mark, in three queries."""
    topic = member.topic
    unread = unread_of(member)
    if not unread:
        return News()
    news = News(first=unread[0].run.number or 0, last=unread[-1].run.number or 0)
    if member.read_run == 0 or not news.last > news.first:
        return news
    read = reports_of(topic).filter(run__number__lte=member.read_run).order_by("-run__number")
    last = read.values_list("run_id", "run__number", "created").first()
    news.last_read = ReadRun(*last) if last else None
    for item, report in changes_of(unread):
        sources = {source.n: source for source in report_page.sources_of(report)}
        url = reverse("research:shared-topic-report", args=[topic.pk, item.run_id])
        news.rows.append(report_page.row_for_others(delta_row(item, sources, url)))
    return news


def changes_of(reports: Sequence[Report]) -> list[tuple[DeltaItem, Report]]:
    """Return the merged changes that the reports list, each with the report that it cites."""
    by_run = {report.run_id: report for report in reports}
    items = DeltaItem.objects.filter(run__in=by_run, withheld="").select_related("conflict")
    merged = merge(items.order_by("run__number", "position"))
    listed_ones = [one.as_item() for one in merged if one.is_listed]
    return [(item, by_run[item.run_id]) for item in listed_ones]


# --- facts and sources ---


def facts_of(topic: Topic) -> list[FactRow]:
    """Return the current facts in their order."""
    facts = TopicFact.objects.filter(topic=topic, state=TopicFact.State.CURRENT)
    return [FactRow(fact, {}) for fact in facts.live().for_agents().order_by("position", "created")]


def page_of_sources(topic: Topic, cursor: str = "") -> Page:
    """Return a page of the web pages read or cited, latest first, without the owner's library.

    Each source has its link and its host.
    """
    rows: QuerySet[Any] = Source.objects.filter(topic=topic).exclude(url__startswith="library:")
    rows = rows.exclude(link__startswith="library:")
    page = page_of(rows, by="last_at", falling=True, cursor=cursor)
    shown = [(one, link_of(one.link or one.url), host_of(one.url)) for one in page.rows]
    return Page(shown, page.next_cursor)
