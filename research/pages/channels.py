"""Forms and pages for channels, deliveries, a topic's notifications, digest settings and feeds."""

from __future__ import annotations

import uuid
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import messages
from django.db.models import BooleanField, Exists, OuterRef
from django.forms.boundfield import BoundWidget
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache

from beacon_site.net import mail, web_push
from beacon_site.text.cleaning import number_of
from beacon_site.text.markdown import by_direction
from beacon_site.text.markdown import render as render_markdown
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import CleanTextField, RefusalErrorsMixin, redirect_back, signed_in
from memory.accounts.people import works_here_alone
from memory.accounts.sign_ins import browser_of
from memory.models import Topic, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.pages.shared.double_submit import idempotent_post
from memory.pages.shared.undo import (
    State,
    offer,
    offer_settings,
    register_settings,
    settings_now,
    undoes,
)
from research.models import Channel, Delivery, DigestSettings, Feed, TopicNotices
from research.models.notifications import MAX_NAME_LENGTH, Reports
from research.pages import digests as pages_digests
from research.pages import topic_list
from research.services.notifications import channels as notifications_channels
from research.services.notifications import digests, sending
from research.services.schedules.scheduling import weekday_names

_ADDRESSES = {
    Channel.Kind.EMAIL: (
        gettext_lazy("Email address"),
        gettext_lazy(
            "Enter one email address, such as desk@example.org. Every email has an unsubscribe link."
        ),
    ),
    Channel.Kind.WEBHOOK: (
        gettext_lazy("URL"),
        gettext_lazy(
            "This URL must accept POST requests over HTTPS. It’s stored encrypted and never shown in full again."
        ),
    ),
    Channel.Kind.APPRISE: (
        gettext_lazy("URL"),
        gettext_lazy(
            "Paste the webhook URL of a Discord, Slack or Teams channel. For other services, enter an Apprise URL such as ntfy://topic. Beacon encrypts the URL and never shows it again."
        ),
    ),
    Channel.Kind.BROWSER: (
        gettext_lazy("Subscription"),
        gettext_lazy("Your browser fills this in."),
    ),
}
_NO_SUBSCRIPTION = gettext_lazy(
    "The browser didn’t subscribe, so nothing was saved. Allow notifications for this site, then try again."
)
_REPORTS = gettext_lazy("Messages")
_HOURS = [(hour, f"{hour:02}:00") for hour in range(24)]


class ChannelForm(forms.Form, RefusalErrorsMixin):
    """A channel: its address and the messages it gets. When editing, the address can be left empty."""

    # Line breaks aren't stripped from an address: one that contains any is refused.
    address = forms.CharField(
        max_length=2000,
        strip=False,
        error_messages={"required": gettext_lazy("Enter an address for the notifications.")},
    )
    name = CleanTextField(
        label=gettext_lazy("Name"),
        required=False,
        max_length=MAX_NAME_LENGTH,
        help_text=gettext_lazy("Shown in lists instead of the address."),
    )
    reports = forms.ChoiceField(
        label=gettext_lazy("Reports"),
        choices=Reports,
        initial=Reports.EACH,
        help_text=gettext_lazy("Applies to every topic without its own settings."),
    )
    failures = forms.BooleanField(
        label=gettext_lazy("Failures"),
        required=False,
        initial=True,
        help_text=gettext_lazy("Sent when a run fails or a channel is turned off."),
    )
    digest = forms.BooleanField(
        label=gettext_lazy("Digest"),
        required=False,
        initial=True,
        help_text=gettext_lazy("Sent on your digest’s schedule."),
    )
    comments = forms.BooleanField(
        label=gettext_lazy("Comments"),
        required=False,
        initial=True,
        help_text=gettext_lazy(
            "Sent when someone comments on your report or on a report you commented on."
        ),
    )
    enabled = forms.BooleanField(label=gettext_lazy("Enabled"), required=False, initial=True)

    def __init__(self, *args: Any, kind: str, channel: Channel | None = None, **more: Any) -> None:
        if channel is not None:
            fields = ("name", "reports", "failures", "digest", "comments", "enabled")
            more["initial"] = {name: getattr(channel, name) for name in fields}
            if channel.kind == Channel.Kind.EMAIL:
                more["initial"]["address"] = channel.address
        super().__init__(*args, **more)
        field = self.fields["address"]
        field.label, field.help_text = _ADDRESSES[Channel.Kind(kind)]
        field.widget.attrs |= {"autocomplete": "off", "spellcheck": "false"}
        if kind == Channel.Kind.EMAIL:
            field.widget.attrs["inputmode"] = "email"
        if kind == Channel.Kind.WEBHOOK:
            field.widget.attrs["placeholder"] = "https://…"
        reports = cast(forms.ChoiceField, self.fields["reports"])
        reports.choices = [(value, capfirst(label)) for value, label in Reports.choices]
        if kind == Channel.Kind.BROWSER:
            field.widget = forms.HiddenInput(attrs={"data-push-subscription": ""})
            field.error_messages["required"] = _NO_SUBSCRIPTION
            self.fields["name"].help_text = gettext_lazy("The name shown in lists.")
            if channel is not None:
                del self.fields["address"]
        elif channel is not None and channel.needs_secret:
            field.required = False
            field.help_text = gettext_lazy("Leave empty to keep %(address)s.") % {
                "address": channel.address
            }
        if channel is None:
            del self.fields["enabled"]


class TopicNoticesForm(forms.Form):
    """Which messages one topic sends, and where."""

    channels = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Channels for this topic"),
        queryset=Channel.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    is_custom = forms.TypedChoiceField(
        label=_REPORTS,
        choices=[
            ("", gettext_lazy("Use each channel’s setting")),
            ("1", gettext_lazy("Choose for this topic")),
        ],
        coerce=bool,
        required=False,
        widget=forms.RadioSelect,
    )
    reports = forms.ChoiceField(label=gettext_lazy("Reports"), choices=Reports)
    failures = forms.BooleanField(label=gettext_lazy("Failures"), required=False)
    in_digest = forms.BooleanField(label=gettext_lazy("Include in the digest"), required=False)

    def __init__(self, *args: Any, chosen: TopicNotices, owner: User, **more: Any) -> None:
        mine = Channel.objects.for_user(owner).kept()
        out = set(chosen.left_out.values_list("pk", flat=True)) if chosen.pk else set()
        more["initial"] = {
            "channels": [channel.pk for channel in mine if channel.pk not in out],
            "is_custom": "1" if chosen.is_custom else "",
            "reports": chosen.reports,
            "failures": chosen.failures,
            "in_digest": chosen.in_digest,
        }
        super().__init__(*args, **more)
        self.mine = list(mine)
        field = cast("forms.ModelMultipleChoiceField[Channel]", self.fields["channels"])
        field.queryset = mine

    @property
    def rows(self) -> list[tuple[BoundWidget, Channel]]:
        return list(zip(self["channels"], self.mine, strict=True))

    def left_out(self) -> list[Channel]:
        """Return the channels that weren't selected."""
        ticked = {channel.pk for channel in self.cleaned_data["channels"]}
        return [channel for channel in self.mine if channel.pk not in ticked]


class DigestForm(forms.Form):
    """When a digest is sent, and which topics it includes."""

    frequency = forms.ChoiceField(
        label=gettext_lazy("Digest"), choices=DigestSettings.Frequency, widget=forms.RadioSelect
    )
    hour = forms.TypedChoiceField(label=gettext_lazy("At"), choices=_HOURS, coerce=int)
    weekday = forms.TypedChoiceField(
        label=gettext_lazy("On"),
        coerce=int,
        help_text=gettext_lazy("Only for a weekly digest."),
    )
    send_if_empty = forms.BooleanField(
        label=gettext_lazy("Send even if nothing changed"), required=False
    )
    topics = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Topics in the digest"),
        queryset=Topic.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=gettext_lazy("New topics are included unless you remove them."),
    )

    def __init__(
        self, *args: Any, chosen: DigestSettings, topics: list[Topic], **more: Any
    ) -> None:
        out = {topic.pk for topic in topics if not topic.in_digest}  # type: ignore[attr-defined]
        more["initial"] = {
            "frequency": chosen.frequency,
            "hour": chosen.hour,
            "weekday": chosen.weekday,
            "send_if_empty": chosen.send_if_empty,
            "topics": [topic.pk for topic in topics if topic.pk not in out],
        }
        super().__init__(*args, **more)
        self.mine = topics
        self.fields["weekday"].choices = list(enumerate(weekday_names()))  # type: ignore[attr-defined]
        keys = [topic.pk for topic in topics]
        self.fields["topics"].queryset = Topic.objects.for_user(chosen.owner).filter(pk__in=keys)  # type: ignore[attr-defined]
        if not topics:
            del self.fields["topics"]

    def left_out(self) -> list[Topic]:
        """Return the topics that weren't selected."""
        ticked = {topic.pk for topic in self.cleaned_data.get("topics", ())}
        return [topic for topic in self.mine if topic.pk not in ticked]


class FeedForm(forms.Form, RefusalErrorsMixin):
    """A new feed, for one topic or all, with or without private topics."""

    topic = forms.ModelChoiceField(
        label=gettext_lazy("Topic"),
        queryset=Topic.objects.none(),
        required=False,
        empty_label=gettext_lazy("all topics"),
    )
    include_private = forms.BooleanField(
        label=gettext_lazy("Include private topics"),
        required=False,
        help_text=gettext_lazy("Anyone with the URL can see what changed in these topics."),
    )

    def __init__(self, *args: Any, owner: User, **more: Any) -> None:
        super().__init__(*args, **more)
        mine = Topic.objects.for_user(owner).live().order_by("title")
        self.fields["topic"].queryset = mine  # type: ignore[attr-defined]


# --- channels ---

MAX_DELIVERIES = 30  # deliveries of one channel in its list


@never_cache
@signed_in("GET", "HEAD")
def channel_list(request: BeaconRequest) -> HttpResponse:
    """Show channels, digest settings and feeds."""
    return _overview(request)


def _overview(request: BeaconRequest, **forms: Any) -> HttpResponse:
    mine = list(Channel.objects.for_user(request.user).kept())
    chosen = digests.settings_of(request.user)
    context: dict[str, Any] = {
        "tab": "notifications",
        "channels": mine,
        "some_off": any(not channel.enabled for channel in mine),
        "chosen": chosen,
        "feeds": list(Feed.objects.for_user(request.user).working().select_related("topic")),
        "digest_form": DigestForm(chosen=chosen, topics=_topics(request)),
        "feed_form": FeedForm(owner=request.user),
        "mail": settings.BEACON_MAIL,
        "here_alone": works_here_alone(),
    }
    return render(request, "research/channels.html", context | forms)


def _topics(request: BeaconRequest) -> list[Topic]:
    """Return the person's topics, each with whether the digest includes it."""
    out = TopicNotices.objects.filter(topic=OuterRef("pk"), in_digest=False)
    mine = Topic.objects.for_user(request.user).live().order_by("title")
    return list(mine.annotate(in_digest=~Exists(out, output_field=BooleanField())))


@never_cache
@signed_in("GET", "POST")
@idempotent_post
def channel_new(request: BeaconRequest, kind: str) -> HttpResponse:
    if kind not in Channel.Kind.values:
        raise Http404
    named = {"name": browser_of(request.headers.get("User-Agent", ""))}
    is_browser = kind == Channel.Kind.BROWSER
    form = ChannelForm(request.POST or None, kind=kind, initial=named if is_browser else {})
    if request.method == "POST" and form.is_valid():
        try:
            made = notifications_channels.add(
                request.user, kind=kind, by=request.actor, **form.cleaned_data
            )
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(request, _("Channel created. Send a test to check that it works."))
            return redirect("research:channel", made.pk)
    context = {
        "tab": "notifications",
        "form": form,
        "kind": Channel.Kind(kind),
        "push_key": web_push.public_key() if is_browser else "",
    }
    return render(request, "research/channel_new.html", context)


def _channel(request: BeaconRequest, pk: uuid.UUID, *, removed: bool = False) -> Channel:
    mine = Channel.objects.for_user(request.user).select_related("owner")
    channel: Channel = get_object_or_404(mine if removed else mine.kept(), pk=pk)
    return channel


@never_cache
@signed_in("GET", "POST")
def channel(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Show a channel with its deliveries, and change it."""
    mine = _channel(request, pk)
    form = ChannelForm(request.POST or None, kind=mine.kind, channel=mine)
    if request.method == "POST" and form.is_valid():
        try:
            notifications_channels.change(mine, by=request.actor, **form.cleaned_data)
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(request, _("Channel saved."))
            return redirect("research:channel", pk)
    return _channel_page(request, _channel(request, pk), form)


def _deliveries(mine: Channel) -> list[Delivery]:
    """Return a channel's deliveries, newest first."""
    rows = mine.deliveries.select_related("run__topic", "digest")
    return list(rows.defer("request", "response", "message", "results")[:MAX_DELIVERIES])


def _channel_page(
    request: BeaconRequest, mine: Channel, form: ChannelForm, **more: Any
) -> HttpResponse:
    context: dict[str, Any] = {
        "tab": "notifications",
        "channel": mine,
        "form": form,
        "deliveries": _deliveries(mine),
        "mail": settings.BEACON_MAIL,
    }
    return render(request, "research/channel.html", context | more)


@signed_in("POST")
def channel_test(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Send a test now and show the actual response."""
    mine = _channel(request, pk)
    try:
        sent = notifications_channels.test(mine, by=request.actor)
    except InvalidValue as exc:
        tested: dict[str, Any] = {"refused": str(exc)}
    else:
        tested = {"sent": sent}
    if request.htmx:
        context = {"channel": mine, "deliveries": _deliveries(mine), "is_swap": True, **tested}
        return render(request, "research/_channel_tested.html", context)
    form = ChannelForm(kind=mine.kind, channel=mine)
    return _channel_page(request, _channel(request, pk), form, **tested)


@never_cache
@signed_in("POST")
def channel_key(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Show or replace a webhook's key. Only by POST, to keep it out of the browser's history."""
    mine = _channel(request, pk)
    if mine.kind != Channel.Kind.WEBHOOK:
        raise Http404
    if "renew" in request.POST:
        notifications_channels.renew_key(mine, by=request.actor)
        mine = _channel(request, pk)
        messages.success(request, _("New key created. From now on, messages are signed with it."))
    form = ChannelForm(kind=mine.kind, channel=mine)
    return _channel_page(request, mine, form, key=mine.opened().get("key", ""))


@signed_in("POST")
def channel_remove(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Remove a channel. Its pending messages aren't sent."""
    mine = _channel(request, pk)
    if notifications_channels.remove(mine, by=request.actor):
        undo = offer(request, "channel-removed", channel=pk)
        text = _("Channel “%(name)s” removed.") % {"name": mine}
        messages.success(request, text, extra_tags=undo)
    return redirect("research:channels")


@undoes("channel-removed")
def _restore_channel(request: BeaconRequest, channel: str) -> str:
    mine = _channel(request, uuid.UUID(channel), removed=True)
    if notifications_channels.restore_state(mine, by=request.actor):
        messages.success(request, _("Channel “%(name)s” restored.") % {"name": mine})
    return reverse("research:channels")


# --- deliveries ---


def _delivery(request: BeaconRequest, pk: uuid.UUID) -> Delivery:
    mine = Delivery.objects.for_user(request.user).select_related("channel", "run__topic", "digest")
    found: Delivery = get_object_or_404(mine, pk=pk)
    return found


@never_cache
@signed_in("GET", "HEAD")
def delivery(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Show one delivery: what was sent, the response, and each attempt."""
    row = _delivery(request, pk)
    is_mail = row.channel.kind == Channel.Kind.EMAIL
    known_by = sending.message_id(row) if is_mail else sending.webhook_id(row)
    context = {"tab": "notifications", "delivery": row, "message_id": known_by}
    context["tries"] = [{**result, "at": parse_datetime(result["at"])} for result in row.results]
    return render(request, "research/delivery.html", context)


@signed_in("POST")
def delivery_again(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    row = _delivery(request, pk)
    if row.kind == Delivery.Kind.TEST:
        messages.info(request, _("A test can’t be resent. Send a new one."))
    elif sending.again(row, seen=number_of(request.POST.get("round", "")) or 0):
        messages.success(request, _("Sending again."))
    else:
        messages.info(request, _("This message is already being sent, or has been sent."))
    return redirect_back(request, reverse("research:delivery", args=[pk]))


# --- digest settings, feeds, a topic's notifications ---


@signed_in("POST")
def digest_settings(request: BeaconRequest) -> HttpResponse:
    """Save when the digest is sent, and which topics it includes."""
    chosen = digests.settings_of(request.user)
    form = DigestForm(request.POST, chosen=chosen, topics=_topics(request))
    if not form.is_valid():
        return _overview(request, digest_form=form)
    fields = {n: form.cleaned_data[n] for n in ("frequency", "hour", "weekday", "send_if_empty")}
    before = settings_now(request.user, "digest")
    digests.save_settings(request.user, by=request.actor, left_out=form.left_out(), **fields)
    undo = offer_settings(request, "digest", before)
    messages.success(request, _("Digest settings saved."), extra_tags=undo)
    return redirect(reverse("research:channels") + "#digest")


@signed_in("POST")
@idempotent_post
def feed_add(request: BeaconRequest) -> HttpResponse:
    form = FeedForm(request.POST, owner=request.user)
    if form.is_valid():
        try:
            pages_digests.add(request.user, by=request.actor, **form.cleaned_data)
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(request, _("Feed created. Copy its URL into your feed reader."))
            return redirect(reverse("research:channels") + "#feeds")
    return _overview(request, feed_form=form)


@signed_in("POST")
def feed_end(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    mine = get_object_or_404(Feed.objects.for_user(request.user).select_related("owner"), pk=pk)
    if pages_digests.end(mine, by=request.actor):
        undo = offer(request, "feed-revoked", feed=pk)
        messages.success(request, _("Feed revoked."), extra_tags=undo)
    return redirect(reverse("research:channels") + "#feeds")


@undoes("feed-revoked")
def _resume_feed(request: BeaconRequest, feed: str) -> str:
    """Restore a revoked feed's URL."""
    mine = get_object_or_404(Feed.objects.for_user(request.user).select_related("owner"), pk=feed)
    if pages_digests.resume(mine, by=request.actor):
        messages.success(request, _("Feed restored."))
    return reverse("research:channels")


@never_cache
@signed_in("GET", "POST")
def topic_notices(request: BeaconRequest, slug: str) -> HttpResponse:
    """Choose which messages one topic sends, and where."""
    topic = topic_list.topic_or_404(request, slug)
    chosen = notifications_channels.choice_of(topic)
    form = TopicNoticesForm(request.POST or None, chosen=chosen, owner=request.user)
    if request.method == "POST" and form.is_valid():
        names = ("is_custom", "reports", "failures", "in_digest")
        told = {name: form.cleaned_data[name] for name in names}
        told["is_custom"] = bool(told["is_custom"])
        before = settings_now(request.user, "notices", str(topic.pk))
        notifications_channels.choose(topic, by=request.actor, left_out=form.left_out(), **told)
        undo = offer_settings(request, "notices", before, str(topic.pk))
        messages.success(request, _("Saved. Changes apply from the next run."), extra_tags=undo)
        return redirect("research:topic-notices", topic.slug)
    context = {"topic": topic, "form": form, "tab": "settings", "head": topic_list.head_of(topic)}
    context["digest"] = digests.settings_of(request.user)
    return render(request, "research/topic_notices.html", context)


@never_cache
@signed_in("GET", "HEAD")
def kept_mails(request: BeaconRequest) -> HttpResponse:
    """Show admins the latest emails if they are stored on this machine instead of sent."""
    if not request.user.is_staff:
        raise Http404
    kept = settings.BEACON_MAIL == "folder"
    mails = mail.last_mails() if kept else []
    context = {
        "tab": "notifications",
        "kept": kept,
        "mails": [
            # What follows the line of a signature is addresses, as "Plain text" shows.
            (one, by_direction(render_markdown(one["text"].partition("\n-- \n")[0])))
            for one in mails
        ],
    }
    return render(request, "research/mails.html", context)


# --- undoing a change to settings ---

_DIGEST = ("frequency", "hour", "weekday", "send_if_empty")
_NOTICES = ("is_custom", "reports", "failures", "in_digest")


def _digest(owner: User, _target: str) -> State:
    chosen = digests.settings_of(owner)
    out = TopicNotices.objects.filter(topic__owner=owner, in_digest=False)
    left_out = sorted(str(pk) for pk in out.values_list("topic_id", flat=True))
    return {name: getattr(chosen, name) for name in _DIGEST} | {"left_out": left_out}


def _put_digest(owner: User, target: str, values: State, by: Actor) -> None:
    fields: dict[str, Any] = {**settings_now(owner, "digest", target), **values}
    left_out = Topic.objects.for_user(owner).filter(pk__in=fields.pop("left_out"))
    digests.save_settings(owner, by=by, left_out=left_out, **fields)


def _notices(owner: User, target: str) -> State | None:
    topics = Topic.objects.for_user(owner).live().select_related("owner")
    topic = topics.filter(pk=target).first()
    if topic is None:
        return None
    chosen = notifications_channels.choice_of(topic)
    out = chosen.left_out.values_list("pk", flat=True) if chosen.pk else ()
    left_out = sorted(str(pk) for pk in out)
    return {name: getattr(chosen, name) for name in _NOTICES} | {"left_out": left_out}


def _put_notices(owner: User, target: str, values: State, by: Actor) -> None:
    fields: dict[str, Any] = {**settings_now(owner, "notices", target), **values}
    topic = Topic.objects.for_user(owner).live().select_related("owner").get(pk=target)
    left_out = Channel.objects.for_user(owner).filter(pk__in=fields.pop("left_out"))
    notifications_channels.choose(topic, by=by, left_out=left_out, **fields)


register_settings("digest", _digest, _put_digest)
register_settings("notices", _notices, _put_notices)
