"""Sharing a topic: its members, and what they can read.

Data flow: the owner adds an account -> a `Membership` and a line in the owner's log -> the member's
pages and requests find the topic through `Topic.objects.shared_with`, by its ID -> what they read
moves their own mark. Members who want it are notified about new reports, without their content.

Members read the topic's reports, current facts and sources. The owner's memory stays private:
notes, files, the library, remarks on sentences, withheld changes, costs and settings. Records that
no agent of the owner gets (sensitive and quarantined ones) aren't shown either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.db.advisory_locks import LockId, lock_until_commit
from beacon_site.db.keyset import Page, page_of
from beacon_site.text.cleaning import clean, one_line
from memory.models import Activity, Membership, Source, Topic, TopicFact, Undo, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached, Locked
from research.models import Comment, Delivery, DeltaItem, Report, Run
from research.models.reports import ReportQuerySet, link_of
from research.services.facts.history import SavedRun
from research.services.reports import page as report_page
from research.services.reports import since_read
from research.services.reports.delta_rows import delta_row
from research.services.runs.execution import starting
from research.services.runs.execution.starting import LibraryNotReadable, RunNotAllowed
from research.services.runs.reporting.merged_deltas import merge
from research.services.topics.facts import FactRow, host_of
from research.services.topics.settings import editing as topic_editing
from research.services.topics.settings import standing_rules
from research.services.topics.settings.editing import EDITABLE_BY_EDITORS, State


def add_member(topic: Topic, username: str, role: str, *, by: Actor) -> Membership:
    """Give the account `username` access to `topic`, and return the new member.

    An unknown name is a member too, and gets access if there's an account within
    Membership.WAITS: the answer doesn't reveal which accounts exist. Raises InvalidValue for the owner and existing members, for an
    unknown role, and if the topic has Membership.MAX members; and RunNotAllowed if the person added
    Membership.MAX_PER_HOUR within the hour.
    """
    _check_role(role)
    name = User.normalize_username(one_line(clean(username)[0]))
    if not name:
        raise _wrong_name(_("Enter a username."))
    if name == topic.owner.get_username():
        raise _wrong_name(_("You own this topic."))
    with transaction.atomic():
        # Two simultaneous requests must not exceed the limits together. The hourly one is for all
        # topics of the owner.
        Topic.objects.select_for_update(of=("self",)).get(pk=topic.pk)
        _hold(topic.owner_id)
        wait = _wait(topic.owner_id, by, "topic-shared", most=Membership.MAX_PER_HOUR)
        if wait:
            words = _(
                "You’ve reached the limit of %(most)d new members per hour. No one was added. Try again in %(minutes)d min."
            )
            params = {"most": Membership.MAX_PER_HOUR, "minutes": -(-wait // 60)}
            raise RunNotAllowed(words % params, retry_after=wait)
        if topic.members.filter(username=name).exists():
            raise _wrong_name(_("This person is already a member."))
        if topic.members.count() >= Membership.MAX:
            words = ngettext(
                "A topic can have at most %(most)d member.",
                "A topic can have at most %(most)d members.",
                Membership.MAX,
            )
            raise InvalidValue(words % {"most": Membership.MAX})
        lock_until_commit(LockId.USERNAME, name)  # until then, no account of the name is created
        user = User.objects.filter(username=name).first()
        member = Membership.objects.create(topic=topic, user=user, username=name, role=role)
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
        is_own = member.user is not None and by == member.user.actor
        _log(member, by, "topic-left" if is_own else "topic-unshared")
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
    Activity.log(topic.owner, by, kind, subject=topic, member=member.username, role=role)


def _hold(user_id: int) -> None:
    """Let others who do this as the person wait until the transaction ends."""
    User.objects.select_for_update(no_key=True).get(pk=user_id)


def _wait(owner_id: int, by: Actor, *kinds: str, most: int) -> int:
    """Return the seconds until the actor can do this again, at most `most` times an hour, or 0."""
    now = timezone.now()
    done = Activity.objects.filter(
        owner=owner_id, actor=str(by), kind__in=kinds, created__gt=now - HOUR
    )
    moments = list(done.order_by("-created").values_list("created", flat=True)[:most])
    if len(moments) < most:
        return 0
    return max(1, int((moments[-1] + HOUR - now).total_seconds()))


def topic_for(user: User, pk: UUID, *roles: str) -> Topic | None:
    """Return the person's own topic, or one that is shared with them; None if there is none.

    Raises Locked if it is shared with them in a role other than `roles`.
    """
    own: Topic | None = Topic.objects.for_user(user).live().filter(pk=pk).first()
    if own is not None:
        return own
    shared = Topic.objects.shared_with(user).select_related("owner").filter(pk=pk)
    found: Topic | None = shared.first()
    if found is None or not roles or Topic.objects.shared_with(user, *roles).filter(pk=pk).exists():
        return found
    raise Locked(
        _(
            "Your role in this topic doesn’t allow this. Nothing was changed. Ask the topic’s owner for another role."
        )
    )


# --- what members can read ---

MAX_LISTED = 200  # shared topics on the list of topics


def memberships_of(user: User) -> QuerySet[Any]:
    topics = Topic.objects.shared_with(user).values("pk")
    rows: QuerySet[Any] = Membership.objects.filter(user=user, topic__in=topics)
    return rows.select_related("topic__owner", "user")


def listed(user: User) -> list[Any]:
    """Return the memberships for the list of topics, each with its number of `unread` reports.

    Most people have none, and Django takes longer to build the second query than Postgres to answer.
    """
    if not Membership.objects.filter(user=user).exists():
        return []
    reports = Report.objects.for_members().filter(
        run__topic=OuterRef("topic"), run__number__gt=OuterRef("read_run")
    )
    counted = reports.order_by().values("run__topic").annotate(n=Count("pk")).values("n")
    unread = Coalesce(Subquery(counted, output_field=IntegerField()), 0)
    rows = memberships_of(user).annotate(unread=unread)
    return list(rows.order_by("-unread", "topic__title", "id")[:MAX_LISTED])


# --- reports ---


def reports_of(topic: Topic) -> ReportQuerySet:
    """Return the topic's reports that members can read."""
    return Report.objects.for_members().filter(run__topic=topic).select_related("run")


def page_of_reports(topic: Topic, cursor: str = "") -> Page:
    """Return a page of its reports, newest first."""
    rows = reports_of(topic).defer("body", "delta", "sources")
    return page_of(rows, by="created", falling=True, cursor=cursor)


def report_for(user: User, topic: Topic, **which: Any) -> Report | None:
    """Return a report of the topic from `topic_for` by its `run` or `run__number`, or None."""
    rows = reports_of(topic)
    if topic.owner_id == user.pk:
        rows = Report.objects.live().exclude(run__number=None).filter(run__topic=topic)
    return rows.select_related("run").filter(**which).first()


def unread_of(member: Membership) -> list[Report]:
    """Return the reports after the member's read mark in order, at most the last 60."""
    rows = reports_of(member.topic).filter(run__number__gt=member.read_run)
    return list(rows.order_by("-run__number")[: since_read.MAX_RUNS])[::-1]


def news_of(member: Membership) -> dict[str, Any]:
    """Return the merged changes of the reports after the member's read mark, in three queries.

    `last` is the number of the last unread run. The other values are there if what is unread is
    more than the newest report's own changes.
    """
    topic = member.topic
    unread = unread_of(member)
    if not unread:
        return {}
    last = unread[-1].run.number or 0
    if member.read_run == 0 or not last > (unread[0].run.number or 0):
        return {"last": last}
    read = reports_of(topic).filter(run__number__lte=member.read_run).order_by("-run__number")
    last_read = read.values_list("run_id", "run__number", "created").first()
    if last_read is None:
        return {"last": last}
    rows = []
    for item, report in changes_of(unread):
        sources = {source.n: source for source in report_page.sources_of(report)}
        url = reverse("research:shared-topic-report", args=[topic.pk, item.run_id])
        rows.append(report_page.row_for_others(delta_row(item, sources, url)))
    counts = Counter(str(row.item.status) for row in rows)
    words = since_read.describe_counts(counts, was_read=False) or _("Nothing new.")
    return {"last": last, "last_read": SavedRun(*last_read), "rows": rows, "words": words}


def changes_of(reports: Sequence[Report]) -> list[tuple[DeltaItem, Report]]:
    """Return the merged changes that the reports list, each with the report that it cites."""
    by_run = {report.run_id: report for report in reports}
    items = DeltaItem.objects.filter(run__in=by_run, hidden_reason="").select_related("conflict")
    merged = merge(items.order_by("run__number", "position"))
    listed_ones = [one.as_item() for one in merged if one.is_listed]
    return [(item, by_run[item.run_id]) for item in listed_ones]


# --- comments on reports ---

WRITERS = (Membership.Role.COMMENTER, Membership.Role.EDITOR)
HOUR = timedelta(hours=1)


def comments_of(report: Report) -> QuerySet[Any]:
    """Return the comments on the report, oldest first, each with its author."""
    rows: QuerySet[Any] = Comment.objects.filter(report=report).select_related("author")
    return rows.order_by("created", "id")


def discussion_of(report: Report, topic: Topic, reader: User, role: str = "") -> dict[str, Any]:
    """Return the context of `research/_comments.html` in at most two queries.

    The owner has no `role`, and can comment if there are members or comments.
    """
    comments = list(comments_of(report))
    is_owner = topic.owner_id == reader.pk
    can_comment = bool(comments) or topic.members.exists() if is_owner else role in WRITERS
    values = {"comments": comments, "can_comment": can_comment, "is_owner": is_owner}
    return values | {"longest_comment": Comment.MAX_LENGTH}


def add_comment(report: Report, text: str, *, author: User) -> Comment:
    """Add a comment by someone who can write one (`topic_for`).

    The owner and those who commented before are notified.

    Raises InvalidValue for an empty or long text, LimitReached if the report has Comment.MAX
    comments, and RunNotAllowed if the author wrote Comment.MAX_PER_HOUR within the hour.
    """
    text = _comment_text(text)
    with transaction.atomic():
        _check_hour(report, author)
        if report.comments.count() >= Comment.MAX:
            raise LimitReached(
                _(
                    "This report has reached the limit of %(most)d comments. Nothing was posted. Comment on another report, or delete a comment first."
                )
                % {"most": Comment.MAX}
            )
        comment = Comment.objects.create(report=report, author=author, name=str(author), text=text)
        Activity.log(report.owner, author.actor, "report-commented", subject=report)
        Delivery.objects.create_for_comment(comment)
    return comment


def edit_comment(comment: Comment, text: str, *, by: Actor) -> bool:
    """Change the text of the author's own comment. Return False if it is the same.

    Raises InvalidValue and RunNotAllowed as `add_comment` does.
    """
    text = _comment_text(text)
    if text == comment.text:
        return False
    report = comment.report
    with transaction.atomic():
        _check_hour(report, comment.author)
        Comment.objects.filter(pk=comment.pk).update(text=text, edited_at=timezone.now())
        Activity.log(report.owner, by, "comment-edited", subject=report)
    return True


def delete_comment(comment: Comment, *, by: Actor) -> dict[str, Any]:
    """Delete the comment, and return what `restore_comment` needs."""
    report = comment.report
    kept = ("id", "author_id", "name", "text", "created", "edited_at")
    fields = {name: getattr(comment, name) for name in kept}
    with transaction.atomic():
        comment.delete()
        Activity.log(report.owner, by, "comment-deleted", subject=report)
    return fields


def restore_comment(report: Report, fields: Mapping[str, Any], *, by: Actor) -> Comment:
    """Bring a deleted comment back, with its author and times."""
    with transaction.atomic():
        comment = Comment.objects.create(report=report, **fields)
        Activity.log(report.owner, by, "comment-restored", subject=report)
    return comment


def forget_former_texts(record: Topic | Report, _by: Actor | None = None) -> None:
    """Delete the former texts of comments and settings with their topic or report."""
    where = {record._meta.model_name or "": str(record.pk)}
    acts = ("comment-deleted", "comment-edited", "shared-edited")
    Undo.objects.filter(act__in=acts, arguments__contains=where).delete()


def _comment_text(text: str) -> str:
    text = clean(text)[0].strip()
    problem = ""
    if not text:
        problem = _("Write a comment first.")
    elif len(text) > Comment.MAX_LENGTH:
        params = {"most": Comment.MAX_LENGTH, "count": len(text)}
        problem = _("Use at most %(most)d characters (currently %(count)d).") % params
    if problem:
        raise InvalidValue(problem, errors={"text": [problem]})
    return text


def _check_hour(report: Report, author: User | None) -> None:
    """Raise RunNotAllowed if the author has reached the limit per hour. Call it in a transaction."""
    # Two simultaneous requests must not exceed the limits together.
    Topic.objects.select_for_update(of=("self",)).get(runs=report.run_id)
    if author is None:
        return
    _hold(author.pk)  # the hourly limit is for all topics
    kinds = ("report-commented", "comment-edited")
    wait = _wait(report.owner_id, author.actor, *kinds, most=Comment.MAX_PER_HOUR)
    if not wait:
        return
    words = _(
        "You’ve reached the limit of %(most)d comments per hour. This one wasn’t saved. Try again in %(minutes)d min."
    )
    params = {"most": Comment.MAX_PER_HOUR, "minutes": -(-wait // 60)}
    raise RunNotAllowed(words % params, retry_after=wait)


# --- what editors can do ---

EDITOR = Membership.Role.EDITOR


def settings_of(topic: Topic) -> State:
    """Return what an editor sees and changes, without documents in the owner's library."""
    stored = topic_editing.settings_of(topic)
    state = {name: getattr(stored, name) for name in EDITABLE_BY_EDITORS}
    return state | {"always_check": [rule for rule in stored.always_check if not _is_private(rule)]}


def edit_settings(topic: Topic, values: State, *, base: State | None, by: Actor) -> None:
    """Change the topic as an editor. `values` and `base` have keys of `settings_of`.

    The owner's documents stay as they are. Applies from the next run. Raises EditConflict if others
    changed the same field since `base`, and InvalidValue for rules that contradict the owner's.
    """
    with transaction.atomic():
        held = Topic.objects.select_for_update().get(pk=topic.pk)
        now, stored = settings_of(held), topic_editing.settings_of(held)
        if base is not None:
            try:
                values = topic_editing.merged(base=base, theirs=now, mine=values)
            except topic_editing.EditConflict as exc:
                raise topic_editing.EditConflict(exc.theirs, now) from exc
        values = {name: value for name, value in values.items() if value != now[name]}
        if "always_check" in values:
            private = [rule for rule in stored.always_check if _is_private(rule)]
            values["always_check"] = checks = [*values["always_check"], *private]
            places = standing_rules.places_of(stored)
            problem = standing_rules.contradiction(checks, places, allowed=stored.allow_domains)
            if len(checks) > standing_rules.MAX_CHECKS:
                problem = _("“Always include” can have at most %(most)d entries.")
                problem %= {"most": standing_rules.MAX_CHECKS}
            if problem:
                raise InvalidValue(problem, errors={"always_check": [problem]})
        topic_editing.edit_topic(held, by=by, wanted=values)


def start_run(topic: Topic, *, by: Actor, loaded: datetime | None = None) -> Run:
    """Queue a run as an editor, within the owner's limits and without searching the owner's library.

    Raises RunAlreadyActive, and RunNotAllowed with a reason that tells nothing about the owner's other
    topics.
    """
    try:
        return starting.start_run(
            topic, trigger=Run.Trigger.PERSON, by=by, loaded=loaded, may_search_library=False
        )
    except RunNotAllowed as exc:
        if topic.archived_at is not None:
            why = _("The owner has archived this topic, so no run was started.")
        elif isinstance(exc, LibraryNotReadable):
            why = _("Only this topic’s owner can start its runs. No run was started.")
        elif exc.retry_after:
            why = _(
                "The owner has reached the limit of runs per hour, so no run was started. Try again in %(minutes)d min."
            ) % {"minutes": -(-exc.retry_after // 60)}
        else:
            why = _("Runs can’t be started manually on this server. No run was started.")
        raise RunNotAllowed(why, retry_after=exc.retry_after) from exc


def _is_private(rule: str) -> bool:
    return rule.startswith("library:")


# --- facts and sources ---


def facts_of(topic: Topic) -> list[FactRow]:
    facts = TopicFact.objects.filter(topic=topic, state=TopicFact.State.CURRENT)
    return [FactRow(fact, {}) for fact in facts.live().for_agents().order_by("position", "created")]


def page_of_sources(topic: Topic, cursor: str) -> Page:
    """Return a page of the web pages read or cited, latest first, without the owner's library.

    Each source has its link and its host.
    """
    rows: QuerySet[Any] = Source.objects.filter(topic=topic).exclude(url__startswith="library:")
    rows = rows.exclude(link__startswith="library:")
    page = page_of(rows, by="last_at", falling=True, cursor=cursor)
    shown = [(row, link_of(row.link or row.url), host_of(row.url)) for row in page.rows]
    return Page(shown, page.next_cursor)
