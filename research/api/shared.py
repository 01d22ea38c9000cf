"""`/topics/{slug}/members`, and `/shared-topics`: the topics that other people share.

A shared topic is named by its ID, because two people can have topics with the same slug. Its
answers hold only what its pages show (`research.services.topics.sharing`).
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any, Self
from uuid import UUID

from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Status
from pydantic import BaseModel, Field

from beacon_site.text.cleaning import without_citations
from memory.api.auth import ADMIN, READ, ApiRequest, Caller
from memory.api.frame import Body, located, router
from memory.api.paging import PAGE, Listing, PageParams, listing
from memory.api.problems import Problem, not_found
from memory.api.shown import NoStoredText, RowOut, shows
from memory.models import Membership, Topic, Trust, User
from memory.models.errors import InvalidValue
from research.api.schemas import MAX_LENGTH, DeltaSourceOut, Line, cited_first
from research.api.topics import topic_of
from research.models import Comment, DeltaItem, Report, RunAlreadyActive
from research.services.runs.reporting.sentences import body_without_sources
from research.services.topics import sharing
from research.services.topics.topic_form import EditorForm

members_api = router("topics")
api = router("shared topics")
_MEMBERS = "/{slug:slug}/members"
_MEMBER = _MEMBERS + "/{int:member_id}"
_ONE = "/{uuid:topic_id}"
_LIBRARY = "library:"


class MemberIn(Body):
    """A person to share a topic with."""

    username: str = Field(
        max_length=150,
        description="The username of an account on this server. If there's no such account, the answer is the same, and access begins if the account is created within 30 days.",
    )
    role: Membership.Role = Field(Membership.Role.VIEWER, strict=False)


class RoleIn(Body):
    """What a member can do."""

    role: Membership.Role = Field(strict=False)


class MemberOut(NoStoredText):
    """A person with access to a topic. It doesn't say whether there's an account with this name."""

    id: int
    username: str
    role: Membership.Role
    created: datetime

    @classmethod
    def about(cls, member: Membership) -> Self:
        return cls(
            id=member.pk,
            username=member.username,
            role=Membership.Role(member.role),
            created=member.created,
        )


@members_api.get(_MEMBERS, auth=ADMIN, response=Listing[MemberOut])
def list_members(request: ApiRequest, slug: str, query: PageParams = PAGE) -> Listing[MemberOut]:
    """List the people that the topic is shared with."""
    rows = topic_of(request.auth, slug).members.select_related("user")
    return listing(rows, query, name="members", out=MemberOut.about)


@members_api.post(_MEMBERS, auth=ADMIN, response={201: MemberOut})
def add_member(
    request: ApiRequest, response: HttpResponse, slug: str, body: MemberIn
) -> Status[MemberOut]:
    """Share the topic with a person, who can read its reports, current facts and sources.

    A commenter can also comment on reports. An editor can also start runs and edit the research
    goal.
    """
    caller = request.auth
    topic = topic_of(caller, slug)
    member = sharing.add_member(topic, body.username, body.role, by=caller.by)
    located(response, f"/topics/{slug}/members/{member.pk}")
    return Status(201, MemberOut.about(member))


@members_api.patch(_MEMBER, auth=ADMIN, response=MemberOut)
def change_member(request: ApiRequest, slug: str, member_id: int, body: RoleIn) -> MemberOut:
    """Change a member's role. The change takes effect immediately."""
    member = _own_member(request.auth, slug, member_id)
    sharing.set_role(member, body.role, by=request.auth.by)
    member.refresh_from_db(fields=["role"])
    return MemberOut.about(member)


@members_api.delete(_MEMBER, auth=ADMIN, response={204: None})
def remove_member(request: ApiRequest, slug: str, member_id: int) -> Status[None]:
    """Remove a member. They lose access immediately."""
    member = _own_member(request.auth, slug, member_id)
    if not sharing.remove_member(member, by=request.auth.by):
        raise not_found()
    return Status(204, None)


def _own_member(caller: Caller, slug: str, member_id: int) -> Membership:
    """Return a member of the caller's topic. Raises Problem (404) if there is none."""
    mine = topic_of(caller, slug).members.select_related("user", "topic__owner")
    member = mine.filter(pk=member_id).first()
    if member is None:
        raise not_found()
    return member


# --- `/shared-topics` ---


class SharedTopicOut(RowOut):
    """A topic that another person shares with you."""

    id: UUID
    title: str
    owner: str
    role: Membership.Role
    read_run: int = Field(description="The number of the last run you read, or 0.")
    notify: bool = Field(
        description="Whether your channels and digest notify you about new reports."
    )
    last_run_at: datetime | None

    @classmethod
    def of(cls, member: Membership) -> Self:
        """Return the topic. Another person wrote its text."""
        shows(trust=Trust.EXTERNAL)
        topic = member.topic
        told = {"id": topic.pk, "title": topic.title, "owner": str(topic.owner)}
        return cls.from_row(member, last_run_at=topic.last_run_at, **told)


class SharedTopicPatch(Body):
    """Your own choice for a shared topic."""

    notify: bool


class SharedChangeOut(RowOut):
    """One change that a report lists."""

    status: str = Field(description="new, changed, contradicted or gone.")
    sentence: str
    previous: str
    quote: str
    source: DeltaSourceOut | None = Field(description="The source of the sentence.")

    @classmethod
    def of(cls, item: DeltaItem, report: Report) -> Self:
        cited = cited_first(item, report.sources)
        quote = "" if cited and _is_private(cited) else item.quote
        source = DeltaSourceOut.of(_outside(cited) if cited else None, quote=quote)
        return cls.from_row(item, previous=item.previous_text, quote=quote, source=source)


class SharedSourceOut(BaseModel):
    """One entry of a report's numbered list of sources."""

    n: int
    title: str
    link: str = Field(description="Empty for a document in the owner's library.")
    domain: str
    published_at: str | None


class SharedReportLine(RowOut):
    """A report in a list."""

    run: int
    number: int
    title: str
    created: datetime
    is_baseline: bool

    @classmethod
    def of(cls, report: Report, **more: Any) -> Self:
        shows(trust=Trust.EXTERNAL)
        run = report.run
        told = {"run": run.pk, "number": run.number or 0, "is_baseline": run.is_baseline}
        return cls.from_row(report, **told, **more)


class SharedReportOut(SharedReportLine):
    """A report of a shared topic. `body` has the changes only if a report template adds them."""

    summary: str
    body: str
    changes: list[SharedChangeOut]
    sources: list[SharedSourceOut]

    @classmethod
    def whole(cls, report: Report) -> Self:
        """Return the report without what only its owner can see."""
        told = report.run.delta_items.filter(hidden_reason="", status__in=DeltaItem.LISTED)
        return cls.of(
            report,
            summary=without_citations(report.summary),
            body=body_without_sources(report),
            changes=[SharedChangeOut.of(item, report) for item in told.order_by("position")],
            sources=[
                SharedSourceOut(
                    n=one["n"],
                    published_at=one.get("published_at") or None,
                    **{name: one.get(name) or "" for name in ("title", "link", "domain")},
                )
                for one in map(_outside, report.sources)
            ],
        )


class SharedNewsOut(BaseModel):
    """What changed since you last read the topic, as one list."""

    read_run: int = Field(description="The number of the last run you read, or 0.")
    unread: list[int] = Field(description="The numbers of the unread reports' runs, in order.")
    changes: list[SharedChangeOut]


class ReadUpToIn(Body):
    """The last run that you have read."""

    number: int = Field(ge=1, le=2_147_483_647)


def _outside(source: dict[str, Any]) -> dict[str, Any]:
    """Return a report's source without the address of a document in the owner's library."""
    return source | {"link": "", "quote": ""} if _is_private(source) else source


def _is_private(source: dict[str, Any]) -> bool:
    return str(source.get("link") or "").startswith(_LIBRARY)


def _member(caller: Caller, topic_id: UUID) -> Membership:
    """Return the caller's membership. Raises Problem (404) if the topic isn't shared with them."""
    member: Membership | None = sharing.memberships_of(caller.owner).filter(topic=topic_id).first()
    if member is None:
        raise not_found(_("This topic doesn’t exist, or isn’t shared with you."))
    return member


@api.get("", auth=READ, response=Listing[SharedTopicOut])
def list_shared_topics(request: ApiRequest, query: PageParams = PAGE) -> Listing[SharedTopicOut]:
    """List the topics that other people share with you, newest first."""
    rows = sharing.memberships_of(request.auth.owner)
    if request.auth.token.topic_ids:
        rows = rows.filter(topic__in=request.auth.token.topic_ids)
    return listing(rows, query, name="shared topics", out=SharedTopicOut.of)


@api.get(_ONE, auth=READ, response=SharedTopicOut)
def read_shared_topic(request: ApiRequest, topic_id: UUID) -> SharedTopicOut:
    """Read one shared topic."""
    return SharedTopicOut.of(_member(request.auth, topic_id))


@api.get(_ONE + "/reports", auth=READ, response=Listing[SharedReportLine])
def list_shared_reports(
    request: ApiRequest, topic_id: UUID, query: PageParams = PAGE
) -> Listing[SharedReportLine]:
    """List the topic's reports, newest first."""
    rows = sharing.reports_of(_member(request.auth, topic_id).topic)
    rows = rows.defer("body", "delta", "sources", "checks")
    return listing(rows, query, name="shared reports", out=SharedReportLine.of)


@api.get(_ONE + "/reports/{int:number}", auth=READ, response=SharedReportOut)
def read_shared_report(request: ApiRequest, topic_id: UUID, number: int) -> SharedReportOut:
    """Read the report of Run #`number`."""
    rows = sharing.reports_of(_member(request.auth, topic_id).topic)
    report = rows.filter(run__number=number).first()
    if report is None:
        raise not_found(_("This topic has no such report."))
    return SharedReportOut.whole(report)


@api.get(_ONE + "/since-read", auth=READ, response=SharedNewsOut)
def read_shared_news(request: ApiRequest, topic_id: UUID) -> SharedNewsOut:
    """Read what changed since you last read the topic. Doesn't mark anything as read."""
    member = _member(request.auth, topic_id)
    shows(trust=Trust.EXTERNAL)
    unread = sharing.unread_of(member)
    return SharedNewsOut(
        read_run=member.read_run,
        unread=[report.run.number or 0 for report in unread],
        changes=[SharedChangeOut.of(*one) for one in sharing.changes_of(unread)],
    )


@api.post(_ONE + "/read", auth=ADMIN, response={204: None})
def mark_shared_read(request: ApiRequest, topic_id: UUID, upto: ReadUpToIn) -> Status[None]:
    """Mark the topic's reports as read up to Run #`number`, only for you."""
    member = _member(request.auth, topic_id)
    if not sharing.reports_of(member.topic).filter(run__number=upto.number).exists():
        raise not_found(_("This topic has no such report."))
    sharing.mark_read(member, upto.number)
    return Status(204, None)


@api.patch(_ONE, auth=ADMIN, response=SharedTopicOut)
def change_shared_topic(
    request: ApiRequest, topic_id: UUID, body: SharedTopicPatch
) -> SharedTopicOut:
    """Turn your own notifications about new reports on or off."""
    member = _member(request.auth, topic_id)
    sharing.set_notify(member, wanted=body.notify)
    member.notify = body.notify
    return SharedTopicOut.of(member)


@api.delete(_ONE, auth=ADMIN, response={204: None})
def leave_shared_topic(request: ApiRequest, topic_id: UUID) -> Status[None]:
    """Leave the topic. You lose access immediately."""
    caller = request.auth
    sharing.remove_member(_member(caller, topic_id), by=caller.by)
    return Status(204, None)


# --- for editors ---


class SharedSettingsOut(BaseModel):
    """What the topic's runs look for. Documents in the owner's library aren't listed."""

    objective: str
    focus: str
    always_check: list[str] = Field(
        description="Words to search for, or URLs to read, in each run."
    )

    @classmethod
    def of(cls, topic: Topic) -> Self:
        shows(trust=Trust.EXTERNAL)
        return cls(**sharing.settings_of(topic))


class SharedSettingsPatch(Body):
    """Changes to what the topic's runs look for. Omitted fields stay the same."""

    objective: str | None = Field(None, max_length=MAX_LENGTH)
    focus: str | None = Field(None, max_length=MAX_LENGTH)
    always_check: list[Line] | None = Field(None, max_length=5)


class StartedOut(NoStoredText):
    """A run that was started. Its report appears under the topic's reports."""

    run: int


@api.get(_ONE + "/settings", auth=READ, response=SharedSettingsOut)
def read_shared_settings(request: ApiRequest, topic_id: UUID) -> SharedSettingsOut:
    """Read the topic's research goal: its objective, focus and what runs always check.

    Only for editors.
    """
    return SharedSettingsOut.of(_edited(request.auth, topic_id))


@api.patch(_ONE + "/settings", auth=ADMIN, response=SharedSettingsOut)
def edit_shared_settings(
    request: ApiRequest, topic_id: UUID, patch: SharedSettingsPatch
) -> SharedSettingsOut:
    """Edit the topic's research goal. Changes apply from the next run. Only for editors."""
    topic = _edited(request.auth, topic_id)
    asked = patch.model_dump(exclude_none=True)
    now = sharing.settings_of(topic)
    shown = now | asked
    form = EditorForm(shown | {"always_check": "\n".join(shown["always_check"])}, initial=now)
    if not form.is_valid():
        errors = {name: list(map(str, told)) for name, told in form.errors.items()}
        why = next(iter(errors.values()))[0]
        raise InvalidValue(_("Nothing was saved. %(why)s") % {"why": why}, errors=errors)
    wanted = {name: value for name, value in form.state().items() if name in asked}
    sharing.edit_settings(topic, wanted, base=None, by=request.auth.by)
    return SharedSettingsOut.of(topic)


@api.post(_ONE + "/runs", auth=ADMIN, response={202: StartedOut})
def start_shared_run(request: ApiRequest, topic_id: UUID) -> Status[StartedOut]:
    """Start a run, within the topic owner's limits.

    Only for editors. Returns 409 if a run is unfinished.
    """
    topic = _edited(request.auth, topic_id)
    try:
        run = sharing.start_run(topic, by=request.auth.by)
    except RunAlreadyActive as exc:
        raise Problem(409, _("A run is already in progress. Wait for its report.")) from exc
    return Status(202, StartedOut(run=run.pk))


def _edited(caller: Caller, topic_id: UUID) -> Topic:
    """Return a topic shared with the caller as an editor. Raises Problem (404), and Locked."""
    member = _member(caller, topic_id)
    sharing.topic_for(caller.owner, topic_id, sharing.EDITOR)
    return member.topic


# --- comments on its reports, for its owner too ---


_COMMENTS = _ONE + "/reports/{int:number}/comments"
_COMMENT = _COMMENTS + "/{uuid:comment_id}"


class CommentIn(Body):
    """A comment on a report."""

    text: str = Field(min_length=1, max_length=Comment.MAX_LENGTH, description="Markdown.")


class CommentOut(RowOut):
    """A comment on a report of a shared topic."""

    id: UUID
    author: str
    is_mine: bool
    text: str
    created: datetime
    edited_at: datetime | None

    @classmethod
    def for_reader(cls, reader: User, comment: Comment) -> Self:
        """Return the comment. It counts as text from outside unless the reader wrote it."""
        is_mine = comment.author_id == reader.pk
        shows(trust=Trust.OWNER if is_mine else Trust.EXTERNAL)
        author = str(comment.author or comment.name)
        return cls.from_row(comment, author=author, is_mine=is_mine)


@api.get(_COMMENTS, auth=READ, response=Listing[CommentOut])
def list_comments(
    request: ApiRequest, topic_id: UUID, number: int, query: PageParams = PAGE
) -> Listing[CommentOut]:
    """List the comments on the report of Run #`number`, oldest first."""
    owner = request.auth.owner
    rows = sharing.comments_of(_report(request.auth, topic_id, number))
    out = partial(CommentOut.for_reader, owner)
    return listing(rows.order_by(), query, name="comments", out=out, falling=False)


@api.post(_COMMENTS, auth=ADMIN, response={201: CommentOut})
def add_comment(
    request: ApiRequest, response: HttpResponse, topic_id: UUID, number: int, body: CommentIn
) -> Status[CommentOut]:
    """Comment on the report. Only for commenters, editors and the topic's owner."""
    author = request.auth.owner
    report = _report(request.auth, topic_id, number, *sharing.WRITERS)
    made = sharing.add_comment(report, body.text, author=author)
    located(response, f"/shared-topics/{topic_id}/reports/{number}/comments/{made.pk}")
    return Status(201, CommentOut.for_reader(author, made))


@api.patch(_COMMENT, auth=ADMIN, response=CommentOut)
def edit_comment(
    request: ApiRequest, topic_id: UUID, number: int, comment_id: UUID, body: CommentIn
) -> CommentOut:
    """Edit your own comment."""
    author = request.auth.owner
    report = _report(request.auth, topic_id, number, *sharing.WRITERS)
    comment = sharing.comments_of(report).filter(pk=comment_id, author=author).first()
    if comment is None:
        raise not_found()
    comment.report = report
    sharing.edit_comment(comment, body.text, by=request.auth.by)
    comment.refresh_from_db(fields=["text", "edited_at"])
    return CommentOut.for_reader(author, comment)


@api.delete(_COMMENT, auth=ADMIN, response={204: None})
def delete_comment(
    request: ApiRequest, topic_id: UUID, number: int, comment_id: UUID
) -> Status[None]:
    """Delete your own comment, or any comment on your own topic."""
    caller = request.auth
    report = _report(caller, topic_id, number)
    rows = sharing.comments_of(report).filter(pk=comment_id)
    if report.owner_id != caller.owner.pk:
        rows = rows.filter(author=caller.owner)
    comment = rows.first()
    if comment is None:
        raise not_found()
    comment.report = report
    sharing.delete_comment(comment, by=caller.by)
    return Status(204, None)


def _report(caller: Caller, topic_id: UUID, number: int, *roles: str) -> Report:
    """Return a report of the caller's own or a shared topic.

    Raises Problem (404), and Locked if the topic is shared with them in a role other than `roles`.
    """
    topic = sharing.topic_for(caller.owner, topic_id, *roles)
    if topic is not None:
        report = sharing.report_for(caller.owner, topic, run__number=number)
        if report is not None and _may_read(caller, topic, report):
            return report
    raise not_found(_("This topic has no such report, or it isn’t shared with you."))


def _may_read(caller: Caller, topic: Topic, report: Report) -> bool:
    """Return True if the caller can see the report. Agents don't get every report of their user."""
    is_own = topic.owner_id == caller.owner.pk
    return not is_own or (caller.may_read(topic) and caller.may_read(report))
