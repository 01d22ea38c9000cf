"""The pages of a topic that another person shares with you, its comments, and its owner's list of members."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.functional import lazy
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from beacon_site.text.cleaning import number_of
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import (
    CleanTextField,
    RefusalErrorsMixin,
    SecretConfirmationMixin,
    redirect_back,
    signed_in,
)
from memory.models import Membership, Topic, User
from memory.models.errors import InvalidValue, MemoryRefused
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.undo import act, offer, undoes
from research.models import Channel, Comment, Report, Run, RunAlreadyActive
from research.pages import topic_list
from research.pages.report_list import counts_of, row_of
from research.services.reports import page as report_page
from research.services.runs.execution.starting import RunNotAllowed, loaded_at
from research.services.topics import sharing
from research.services.topics.settings.editing import EditConflict
from research.services.topics.topic_form import EditorForm, base_of, rebased_data


def _member(request: BeaconRequest, pk: uuid.UUID) -> Membership:
    """Return the person's membership, or raise 404 if the topic isn't shared with them."""
    found: Membership = get_object_or_404(sharing.memberships_of(request.user), topic=pk)
    return found


def _show(
    request: BeaconRequest, name: str, member: Membership, tab: str, **more: Any
) -> HttpResponse:
    context: dict[str, Any] = {"member": member, "shared": member.topic, "tab": tab, **more}
    if member.role == sharing.EDITOR:
        context["is_running"] = Run.objects.filter(topic=member.topic).unfinished().exists()
    return render(request, f"research/{name}.html", context)


@never_cache
@signed_in("GET", "HEAD")
def shared_topic(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Show what changed since the person last read, and the newest report."""
    own = Topic.objects.for_user(request.user).live().filter(pk=pk).first()
    if own is not None:
        return redirect("research:topic", own.slug)
    member = _member(request, pk)
    newest = sharing.reports_of(member.topic).order_by("-run__number").first()
    if newest is None:
        return _show(request, "shared_topic", member, "read")
    news = sharing.news_of(member)
    shown = _read_by(member, request.user, newest)
    return _show(request, "shared_topic", member, "read", news=news, **shown)


def _read_by(member: Membership, reader: User, report: Report) -> dict[str, Any]:
    """Return the context of a report and its comments for a member."""
    values = sharing.discussion_of(report, member.topic, reader, member.role)
    return report_page.article_for_others(report.run) | values


@never_cache
@signed_in("GET", "HEAD")
def shared_run(request: BeaconRequest, pk: uuid.UUID, run_id: int) -> HttpResponse:
    member = _member(request, pk)
    report = get_object_or_404(sharing.reports_of(member.topic), run=run_id)
    shown = _read_by(member, request.user, report)
    return _show(request, "shared_topic_report", member, "reports", **shown)


@signed_in("GET", "HEAD")
def shared_reports(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """List the reports, newest first."""
    member = _member(request, pk)
    page = sharing.page_of_reports(member.topic, request.GET.get("cursor", ""))
    counts = counts_of([report.run_id for report in page.rows])
    rows = [row_of(report, counts[report.run_id]) for report in page.rows]
    return _show(
        request, "shared_topic_reports", member, "reports", rows=rows, next_cursor=page.next_cursor
    )


@signed_in("GET", "HEAD")
def shared_facts(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    member = _member(request, pk)
    rows = sharing.facts_of(member.topic)
    return _show(request, "shared_topic_facts", member, "facts", rows=rows)


@signed_in("GET", "HEAD")
def shared_sources(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """List the web pages that were read or cited."""
    member = _member(request, pk)
    page = sharing.page_of_sources(member.topic, request.GET.get("cursor", ""))
    more = {"rows": page.rows, "next_cursor": page.next_cursor}
    return _show(request, "shared_topic_sources", member, "sources", **more)


@signed_in("POST")
def shared_read(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Mark the topic as read up to Run #`upto`, for this person only."""
    member = _member(request, pk)
    upto = number_of(request.GET.get("upto", ""))
    if upto is None or not sharing.reports_of(member.topic).filter(run__number=upto).exists():
        raise Http404
    sharing.mark_read(member, upto)
    if request.headers.get("X-Requested-With") == "fetch":
        return HttpResponse(status=204)
    messages.success(request, _("Marked as read."))
    return redirect_back(request, reverse("research:shared-topic", args=[pk]))


@signed_in("POST")
def shared_notify(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Turn the person's own notifications about new reports on or off."""
    member = _member(request, pk)
    wanted = request.POST.get("notify") == "on"
    sharing.set_notify(member, wanted=wanted)
    if not wanted:
        messages.success(request, _("You won’t be notified about new reports on this topic."))
    elif Channel.objects.for_user(request.user).working().exists():
        messages.success(request, _("You’ll be notified about new reports on this topic."))
    else:
        messages.warning(
            request,
            _(
                "Notifications are on, but you don’t have any channels yet. Add one in Settings → Notifications."
            ),
        )
    return redirect_back(request, reverse("research:shared-topic", args=[pk]))


@signed_in("POST")
def shared_leave(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """End the person's own access."""
    member = _member(request, pk)
    sharing.remove_member(member, by=request.actor)
    words = _("You left “%(topic)s”. Only its owner can add you again.")
    messages.success(request, words % {"topic": member.topic})
    return redirect("research:topics")


# --- for editors ---


@never_cache
@signed_in("GET", "POST")
def shared_settings(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Edit what the topic's runs look for, as an editor."""
    member = _member(request, pk)
    sharing.topic_for(request.user, pk, sharing.EDITOR)
    topic = member.topic
    before = sharing.settings_of(topic)
    form = EditorForm(request.POST or None, initial={**before, "base": json.dumps(before)})
    theirs: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        wanted = form.state()
        try:
            sharing.edit_settings(topic, wanted, base=base_of(form), by=request.actor)
        except EditConflict as exc:
            theirs = exc.theirs
            typed = rebased_data(form, EditorForm(initial=exc.now), exc)
            form = EditorForm(typed, initial=exc.now)
            form.add_error(None, str(exc))
        except InvalidValue as exc:
            form.take(exc)
        else:
            after = sharing.settings_of(topic)
            undo = ""
            if after != before:
                undo = offer(request, "shared-edited", topic=str(pk), before=before, after=after)
            messages.success(request, _("Saved. Changes apply from the next run."), extra_tags=undo)
            return redirect("research:shared-topic-settings", pk)
    conflicts = [
        (form[name].label, "\n".join(value) if isinstance(value, list) else value)
        for name, value in theirs.items()
    ]
    more = {"form": form, "conflicts": conflicts}
    return _show(request, "shared_topic_settings", member, "settings", **more)


@undoes("shared-edited")
def _undo_shared_edit(
    request: BeaconRequest, topic: str, before: dict[str, Any], after: dict[str, Any]
) -> str:
    found = sharing.topic_for(request.user, uuid.UUID(topic), sharing.EDITOR)
    if found is None:
        raise Http404
    sharing.edit_settings(found, before, base=after, by=request.actor)
    messages.success(request, _("Change undone."))
    return reverse("research:shared-topic-settings", args=[topic])


@signed_in("POST")
def shared_run_start(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Start a run of the topic, as an editor."""
    member = _member(request, pk)
    try:
        sharing.topic_for(request.user, pk, sharing.EDITOR)
        sharing.start_run(member.topic, by=request.actor, loaded=loaded_at(request.POST))
    except RunAlreadyActive:
        messages.info(request, _("A run is already in progress. Its report will appear here."))
    else:
        messages.success(request, _("Run started. Its report will appear here."))
    return redirect("research:shared-topic", pk)


# --- comments on reports, by the owner and by members ---


class CommentForm(SecretConfirmationMixin):
    text = CleanTextField(
        label=gettext_lazy("Comment"),
        max_length=Comment.MAX_LENGTH,
        widget=forms.Textarea(attrs={"rows": 6, "dir": "auto"}),
        help_text=gettext_lazy(
            "Everyone with access to the topic can read your comment. You can use Markdown."
        ),
        error_messages={"required": gettext_lazy("Write a comment first.")},
    )


def _report(request: BeaconRequest, pk: uuid.UUID, run_id: int, *roles: str) -> Report:
    """Return a report of the person's own or a shared topic, or raise 404.

    Raises Locked if the topic is shared with them in a role other than `roles`.
    """
    topic = sharing.topic_for(request.user, pk, *roles)
    if topic is None:
        raise Http404
    report = sharing.report_for(request.user, topic, run=run_id)
    if report is None:
        raise Http404
    report.run.topic = topic
    return report


def _discussion(request: BeaconRequest, report: Report, at: object = "") -> str:
    """Return the URL of the report's comments on the person's own page of it."""
    topic = report.run.topic
    if topic.owner_id == request.user.pk:
        page = reverse("research:run", args=[topic.slug, report.run_id])
    else:
        page = reverse("research:shared-topic-report", args=[topic.pk, report.run_id])
    return f"{page}#comment-{at}" if at else f"{page}#comments"


def _ask_again(
    request: BeaconRequest, report: Report, form: CommentForm, comment: Comment | None = None
) -> HttpResponse:
    """Show the form on a page of its own, with what was typed."""
    context = {
        "form": form,
        "comment": comment,
        "run": report.run,
        "topic": report.run.topic,
        "back": _discussion(request, report, comment.pk if comment else ""),
    }
    return render(request, "research/comment.html", context)


@signed_in("POST")
@idempotent_post
def comment_add(request: BeaconRequest, pk: uuid.UUID, run_id: int) -> HttpResponse:
    report = _report(request, pk, run_id, *sharing.WRITERS)
    form = CommentForm(request.POST)
    if form.is_valid():
        try:
            made = sharing.add_comment(report, form.cleaned_data["text"], author=request.user)
        except (MemoryRefused, RunNotAllowed) as exc:
            form.add_error(None, str(exc))
        else:
            messages.success(request, _("Comment posted."))
            return redirect(_discussion(request, report, made.pk))
    return _ask_again(request, report, form)


def _comment(request: BeaconRequest, pk: uuid.UUID, run_id: int, key: uuid.UUID) -> Comment:
    """Return a comment of a report that the person can read, or raise 404."""
    report = _report(request, pk, run_id)
    found: Comment = get_object_or_404(sharing.comments_of(report), pk=key)
    found.report = report
    return found


@never_cache
@signed_in("GET", "POST")
def comment_edit(
    request: BeaconRequest, pk: uuid.UUID, run_id: int, key: uuid.UUID
) -> HttpResponse:
    comment = _comment(request, pk, run_id, key)
    if comment.author_id != request.user.pk:
        raise Http404
    form = CommentForm(request.POST or None, initial={"text": comment.text})
    if request.method == "POST" and form.is_valid():
        try:
            _report(request, pk, run_id, *sharing.WRITERS)
            before = comment.text
            changed = sharing.edit_comment(comment, form.cleaned_data["text"], by=request.actor)
        except (MemoryRefused, RunNotAllowed) as exc:
            form.add_error(None, str(exc))
        else:
            undo = ""
            if changed:
                kept = {
                    "key": str(comment.pk),
                    "text": before,
                    "expected": form.cleaned_data["text"],
                }
                undo = offer(request, "comment-edited", **_comment_place(comment.report), **kept)
            messages.success(request, _("Comment saved."), extra_tags=undo)
            return redirect(_discussion(request, comment.report, comment.pk))
    return _ask_again(request, comment.report, form, comment)


def _comment_place(report: Report) -> dict[str, Any]:
    """Return where a comment is, for its undo. `sharing.forget_former_texts` finds it by these."""
    return {"topic": str(report.run.topic_id), "run": report.run_id, "report": str(report.pk)}


@undoes("comment-edited")
def _undo_edit(
    request: BeaconRequest, topic: str, run: int, report: str, key: str, text: str, expected: str
) -> str:
    _report(request, uuid.UUID(topic), run, *sharing.WRITERS)
    comment = _comment(request, uuid.UUID(topic), run, uuid.UUID(key))
    if comment.text != expected:
        raise MemoryRefused(
            _("This comment has changed since then, so your change couldn’t be undone.")
        )
    sharing.edit_comment(comment, text, by=request.actor)
    messages.success(request, _("Change undone."))
    return _discussion(request, comment.report, comment.pk)


@signed_in("POST")
def comment_delete(
    request: BeaconRequest, pk: uuid.UUID, run_id: int, key: uuid.UUID
) -> HttpResponse:
    """Delete one's own comment, or any comment on one's own topic."""
    comment = _comment(request, pk, run_id, key)
    report = comment.report
    if request.user.pk not in (comment.author_id, report.owner_id):
        raise Http404
    fields = sharing.delete_comment(comment, by=request.actor)
    undo = offer(request, "comment-deleted", **_comment_place(report), fields=fields)
    messages.success(request, _("Comment deleted."), extra_tags=undo)
    return redirect(_discussion(request, report))


@undoes("comment-deleted")
def _restore_comment(
    request: BeaconRequest, topic: str, run: int, report: str, fields: dict[str, Any]
) -> str:
    found = _report(request, uuid.UUID(topic), run, *sharing.WRITERS)
    if fields["author_id"] is not None:
        get_object_or_404(User, pk=fields["author_id"])
    comment = sharing.restore_comment(found, fields, by=request.actor)
    messages.success(request, _("Comment restored."))
    return _discussion(request, found, comment.pk)


# --- the owner's list of members ---


_explained: Callable[..., Any] = lazy(
    lambda role, about: format_html("<b>{}</b><small>{}</small>", capfirst(role.label), about),
    SafeString,
)


class MemberForm(forms.Form, RefusalErrorsMixin):
    """A person to share a topic with."""

    username = CleanTextField(
        label=gettext_lazy("Username"),
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off", "autocapitalize": "none"}),
        help_text=gettext_lazy(
            "The username this person signs in with. Beacon doesn’t reveal whether the account exists."
        ),
    )
    role = forms.ChoiceField(
        label=gettext_lazy("Role"),
        choices=[
            (role, _explained(role, about))
            for role, about in (
                (Membership.Role.VIEWER, gettext_lazy("can read reports, facts and sources")),
                (Membership.Role.COMMENTER, gettext_lazy("can also comment on reports")),
                (
                    Membership.Role.EDITOR,
                    gettext_lazy("can also start runs and edit the research goal"),
                ),
            )
        ],
        initial=Membership.Role.VIEWER,
        widget=forms.RadioSelect,
        error_messages={"required": gettext_lazy("Select a role.")},
    )


@never_cache
@signed_in("GET", "POST")
@idempotent_post
def topic_people(request: BeaconRequest, slug: str) -> HttpResponse:
    """List the people the topic is shared with, and add one."""
    topic = topic_list.topic_or_404(request, slug)
    form = MemberForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        name, role = form.cleaned_data["username"], form.cleaned_data["role"]
        try:
            member = sharing.add_member(topic, name, role, by=request.actor)
        except InvalidValue as exc:
            form.take(exc)
        except RunNotAllowed as exc:
            form.add_error(None, str(exc))
        else:
            undo = offer(request, "member-remove", slug=slug, pk=member.pk)
            words = _(
                "If “%(person)s” has an account, they can read the topic now. Otherwise, they can read it once they have an account."
            )
            words %= {"person": member}
            messages.success(request, words, extra_tags=undo)
            return redirect("research:topic-people", slug)
    context = {
        "topic": topic,
        "form": form,
        "members": list(topic.members.all()),
        "roles": Membership.Role.choices,
        "tab": "settings",
        "head": topic_list.head_of(topic),
    }
    return render(request, "research/topic_people.html", context)


def _own_member(request: BeaconRequest, slug: str, pk: int) -> Membership:
    """Return a member of the person's own topic, or raise 404."""
    topic = get_object_or_404(Topic.objects.for_user(request.user).live(), slug=slug)
    members = topic.members.select_related("user", "topic__owner")
    found: Membership = get_object_or_404(members, pk=pk)
    return found


@act("member-role")
def member_role(
    request: BeaconRequest, slug: str, pk: int, role: str = "", expected: str = ""
) -> str:
    """Change a member's role. An undo names the role that it expects."""
    member = _own_member(request, slug, pk)
    if expected and member.role != expected:
        raise MemoryRefused(
            _("This role has changed since then, so your change couldn’t be undone.")
        )
    before, wanted = member.role, role or request.POST.get("role", "")
    said: dict[str, Any] = {"person": member}
    if sharing.set_role(member, wanted, by=request.actor):
        undo = offer(request, "member-role", slug=slug, pk=pk, role=before, expected=wanted)
        said["role"] = Membership.Role(wanted).label
        words = _("%(person)s’s role was changed to %(role)s.")
        messages.success(request, words % said, extra_tags=undo)
    else:
        messages.info(request, _("%(person)s already has this role.") % said)
    return reverse("research:topic-people", args=[slug])


@act("member-remove")
def member_remove(request: BeaconRequest, slug: str, pk: int) -> str:
    member = _own_member(request, slug, pk)
    topic = member.topic
    undo = offer(
        request, "member-removed", topic=str(topic.pk), username=member.username,
        role=member.role, read_run=member.read_run, notify=member.notify,
    )  # fmt: skip
    sharing.remove_member(member, by=request.actor)
    words = _("%(person)s no longer has access.") % {"person": member}
    messages.success(request, words, extra_tags=undo)
    return reverse("research:topic-people", args=[slug])


@undoes("member-removed")
def _restore_member(
    request: BeaconRequest, topic: str, username: str, role: str, read_run: int, notify: bool
) -> str:
    """Give a removed member access again, with the read mark and the choice of notifications."""
    found = get_object_or_404(Topic.objects.for_user(request.user).live(), pk=topic)
    try:
        member = sharing.add_member(found, username, role, by=request.actor)
    except RunNotAllowed as exc:
        raise MemoryRefused(str(exc)) from exc
    sharing.mark_read(member, read_run)
    sharing.set_notify(member, wanted=notify)
    words = _("%(person)s has access again.") % {"person": member}
    messages.success(request, words)
    return reverse("research:topic-people", args=[found.slug])
