"""Settings → Notifications: channels, what was sent to them, the digest's hour, and feeds."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import BooleanField, Exists, OuterRef
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from beacon_site import mail_folder
from beacon_site.http import BeaconRequest
from beacon_site.providers import apprise_sender
from memory.accounts import settings_undo
from memory.accounts.people import works_here_alone
from memory.double_submit import idempotent_post
from memory.errors import InvalidValue
from memory.models import Topic
from memory.responses import go_back, undo_settings_tag
from research.forms.channels import ChannelForm, DigestForm, FeedForm, TopicNoticesForm
from research.models import Channel, Delivery, Feed, TopicNotices
from research.notifications import channels, digests, rss, sending
from research.topics import page as topic_page

MOST_DELIVERIES = 30  # of one channel, in a list


@never_cache
@require_safe
@login_required
def channel_list(request: BeaconRequest) -> HttpResponse:
    """Show all of it: channels, the digest's settings, feeds."""
    return _overview(request)


def _overview(request: BeaconRequest, **forms: Any) -> HttpResponse:
    mine = Channel.objects.of(request.user).kept()
    chosen = digests.settings_of(request.user)
    context: dict[str, Any] = {
        "tab": "notifications",
        "channels": list(mine),
        "chosen": chosen,
        "feeds": list(Feed.objects.of(request.user).working().select_related("topic")),
        "digest_form": DigestForm(chosen=chosen, topics=_topics(request)),
        "feed_form": FeedForm(owner=request.user),
        "mail": settings.BEACON_MAIL,
        "here_alone": works_here_alone(),
        "has_apprise": request.user.is_staff and apprise_sender.is_installed(),
    }
    return render(request, "research/channels.html", context | forms)


def _topics(request: BeaconRequest) -> list[Topic]:
    """Return the person's topics, each with whether it stands in the digest."""
    out = TopicNotices.objects.filter(topic=OuterRef("pk"), in_digest=False)
    mine = Topic.objects.of(request.user).live().order_by("title")
    return list(mine.annotate(in_digest=~Exists(out, output_field=BooleanField())))


@never_cache
@require_http_methods(["GET", "POST"])
@login_required
@idempotent_post
def channel_new(request: BeaconRequest, kind: str) -> HttpResponse:
    """Make a channel of a kind."""
    staffs = kind == Channel.Kind.APPRISE and not request.user.is_staff
    if kind not in Channel.Kind.values or staffs:
        raise Http404
    form = ChannelForm(request.POST or None, kind=kind)
    if request.method == "POST" and form.is_valid():
        try:
            made = channels.add(request.user, kind=kind, by=request.actor, **form.cleaned_data)
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(request, _("The channel is made. Send a test to see that it works."))
            return redirect("research:channel", made.pk)
    context = {"tab": "notifications", "form": form, "kind": Channel.Kind(kind)}
    return render(request, "research/channel_new.html", context)


def _channel(request: BeaconRequest, pk: uuid.UUID, *, removed: bool = False) -> Channel:
    mine = Channel.objects.of(request.user).select_related("owner")
    channel: Channel = get_object_or_404(mine if removed else mine.kept(), pk=pk)
    return channel


def _usable(request: BeaconRequest, pk: uuid.UUID) -> Channel:
    """Return a channel to change or test: one of staff's alone can else be seen and removed only."""
    channel = _channel(request, pk)
    if channel.is_barred:
        raise Http404
    return channel


@never_cache
@require_http_methods(["GET", "POST"])
@login_required
def channel(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Show a channel with what was sent to it, and change it."""
    mine = _channel(request, pk) if request.method == "GET" else _usable(request, pk)
    form = ChannelForm(request.POST or None, kind=mine.kind, channel=mine)
    if request.method == "POST" and form.is_valid():
        try:
            channels.change(mine, by=request.actor, **form.cleaned_data)
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(request, _("The channel is saved."))
            return redirect("research:channel", pk)
    return _channel_page(request, _channel(request, pk), form)


def _deliveries(mine: Channel) -> list[Delivery]:
    """Return what was sent to a channel, the newest first."""
    rows = mine.deliveries.select_related("run__topic", "digest")
    return list(rows.defer("request", "response", "message", "tries")[:MOST_DELIVERIES])


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


@require_POST
@login_required
def channel_test(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Send a test at once, and show what was really answered."""
    mine = _usable(request, pk)
    try:
        sent = channels.test(mine, by=request.actor)
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
@require_POST
@login_required
def channel_key(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Show a webhook's key, or make a new one; by POST, so that it stands in no history."""
    mine = _channel(request, pk)
    if mine.kind != Channel.Kind.WEBHOOK:
        raise Http404
    if "renew" in request.POST:
        channels.renew_key(mine, by=request.actor)
        mine = _channel(request, pk)
        messages.success(request, _("It is signed with a new key from now on."))
    form = ChannelForm(kind=mine.kind, channel=mine)
    return _channel_page(request, mine, form, key=mine.opened().get("key", ""))


@require_POST
@login_required
def channel_remove(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Remove a channel; what waits for it is not sent."""
    mine = _channel(request, pk)
    if channels.remove(mine, by=request.actor):
        undo = "undo:" + reverse("research:channel-put-back", args=[pk])
        text = _("The channel “%(name)s” is removed.") % {"name": mine}
        messages.success(request, text, extra_tags=undo)
    return redirect("research:channels")


@require_POST
@login_required
def channel_put_back(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Take back the removal of a channel."""
    mine = _channel(request, pk, removed=True)
    try:
        if channels.put_back(mine, by=request.actor):
            messages.success(request, _("The channel “%(name)s” is back.") % {"name": mine})
    except InvalidValue as exc:
        messages.error(request, str(exc))
    return go_back(request, reverse("research:channels"))


# --- deliveries -----------------------------------------------------------------------------------


def _delivery(request: BeaconRequest, pk: uuid.UUID) -> Delivery:
    mine = Delivery.objects.of(request.user).select_related("channel", "run__topic", "digest")
    found: Delivery = get_object_or_404(mine, pk=pk)
    return found


@never_cache
@require_safe
@login_required
def delivery(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Show one delivery: what was sent, what was answered, each try."""
    row = _delivery(request, pk)
    is_mail = row.channel.kind == Channel.Kind.EMAIL
    known_by = sending.message_id(row) if is_mail else sending.webhook_id(row)
    context = {"tab": "notifications", "delivery": row, "message_id": known_by}
    context["tries"] = [{**one, "at": parse_datetime(one["at"])} for one in row.tries]
    return render(request, "research/delivery.html", context)


def _round(request: BeaconRequest) -> int:
    said = request.POST.get("round", "")
    return int(said) if said.isascii() and said.isdecimal() and len(said) < 10 else 0


@require_POST
@login_required
def delivery_again(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Send a delivery again."""
    row = _delivery(request, pk)
    if row.kind == Delivery.Kind.TEST:
        messages.info(request, _("A test is not sent again: send a new one."))
    elif sending.again(row, seen=_round(request)):
        messages.success(request, _("It is sent again."))
    else:
        messages.info(request, _("It is being sent already, or was meanwhile: look below."))
    return go_back(request, reverse("research:delivery", args=[pk]))


# --- the digest's settings, feeds, a topic's choice -----------------------------------------------


@require_POST
@login_required
def digest_settings(request: BeaconRequest) -> HttpResponse:
    """Store when the digest comes, and of which topics."""
    chosen = digests.settings_of(request.user)
    form = DigestForm(request.POST, chosen=chosen, topics=_topics(request))
    if not form.is_valid():
        return _overview(request, digest_form=form)
    fields = {n: form.cleaned_data[n] for n in ("often", "hour", "weekday", "even_if_quiet")}
    before = settings_undo.now(request.user, "digest")
    digests.save_settings(request.user, by=request.actor, left_out=form.left_out(), **fields)
    undo = undo_settings_tag(request, "digest", before)
    messages.success(request, _("The digest’s settings are saved."), extra_tags=undo)
    return redirect("research:channels")


@require_POST
@login_required
@idempotent_post
def feed_add(request: BeaconRequest) -> HttpResponse:
    """Make a feed."""
    form = FeedForm(request.POST, owner=request.user)
    if form.is_valid():
        try:
            rss.add(request.user, by=request.actor, **form.cleaned_data)
        except InvalidValue as exc:
            form.take(exc)
        else:
            messages.success(request, _("The feed is there: copy its address into your reader."))
            return redirect(reverse("research:channels") + "#feeds")
    return _overview(request, feed_form=form)


@require_POST
@login_required
def feed_end(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Let a feed's address open nothing from now on."""
    mine = get_object_or_404(Feed.objects.of(request.user).select_related("owner"), pk=pk)
    if rss.end(mine, by=request.actor):
        undo = "undo:" + reverse("research:feed-resume", args=[pk])
        messages.success(request, _("The feed’s address opens nothing any more."), extra_tags=undo)
    return redirect(reverse("research:channels") + "#feeds")


@require_POST
@login_required
def feed_resume(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Let an ended address work again."""
    mine = get_object_or_404(Feed.objects.of(request.user).select_related("owner"), pk=pk)
    try:
        if rss.resume(mine, by=request.actor):
            messages.success(request, _("The feed’s address works again."))
    except InvalidValue as exc:
        messages.error(request, str(exc))
    return go_back(request, reverse("research:channels"))


@never_cache
@require_http_methods(["GET", "POST"])
@login_required
def topic_notices(request: BeaconRequest, slug: str) -> HttpResponse:
    """Choose what is told of one topic, and where."""
    topic = get_object_or_404(topic_page.topics_of(request.user), slug=slug)
    chosen = channels.choice_of(topic)
    form = TopicNoticesForm(request.POST or None, chosen=chosen, owner=request.user)
    if request.method == "POST" and form.is_valid():
        names = ("own", "reports", "failures", "in_digest")
        told = {name: form.cleaned_data[name] for name in names}
        told["own"] = bool(told["own"])
        before = settings_undo.now(request.user, "notices", str(topic.pk))
        channels.choose(topic, by=request.actor, left_out=form.left_out(), **told)
        undo = undo_settings_tag(request, "notices", before, target=str(topic.pk))
        messages.success(request, _("Saved. It applies from the next run."), extra_tags=undo)
        return redirect("research:topic-notices", topic.slug)
    context = {"topic": topic, "form": form, "tab": "settings", "head": topic_page.head_of(topic)}
    return render(request, "research/topic_notices.html", context)


@never_cache
@require_safe
@login_required
def kept_mails(request: BeaconRequest) -> HttpResponse:
    """Show staff the last mails, where they are kept on this machine instead of being sent."""
    if not request.user.is_staff:
        raise Http404
    kept = settings.BEACON_MAIL == "folder"
    context = {
        "tab": "notifications",
        "kept": kept,
        "mails": mail_folder.last_mails() if kept else [],
    }
    return render(request, "research/mails.html", context)
