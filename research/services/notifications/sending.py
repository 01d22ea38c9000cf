"""Sends messages: claimed with a lease, retried for hours, and then marked as failed.

Data flow: a waiting `Delivery` row -> claim -> `notice_text.compose` -> the channel's sender -> the
outcome, on the row, on its channel and in the activity log.

If a worker or a connection breaks off while handing over an email or an Apprise message, it isn't
sent again automatically, because it may have arrived. A webhook is sent again with the same ID, so its
receiver can recognize it. If a person sends a message again, it gets a new ID, because receivers
may drop an ID they know.
"""

from __future__ import annotations

import json
import re
import time
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings as site
from django.core.serializers.json import DjangoJSONEncoder
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone, translation

from beacon_site.db.leased_jobs import JobLost
from beacon_site.env import host_of
from beacon_site.net import apprise_sender, web_push, webhooks
from beacon_site.net import mail as net_mail
from beacon_site.net.errors import ProviderError, ProviderRejected, ProviderUnavailable
from beacon_site.text.cleaning import clean
from beacon_site.text.dates import zone_of
from beacon_site.text.messages import gettext as _
from memory.models import Activity, Membership, Topic, User
from memory.models.actors import SYSTEM, Actor
from research.models import Channel, Delivery, RemovedRun, Report, TopicNotices
from research.services.notifications import digests, notice_text
from research.services.runs import trash as run_trash

logger = structlog.get_logger(__name__)

OFF_AFTER = 3  # failed deliveries in a row after which the channel is switched off
MAX_KEPT = 100_000  # characters of the sent request
KEPT_DAYS = 90  # deliveries are kept this long, removed channels a third of it
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
State, Kind = Delivery.State, Delivery.Kind


def forget_old() -> int:
    """Delete deliveries that ended long ago, and channels removed a month ago."""
    now = timezone.now()
    old = Delivery.objects.filter(ended_at__lt=now - timedelta(days=KEPT_DAYS))
    gone = Channel.objects.filter(removed_at__lt=now - timedelta(days=KEPT_DAYS / 3))
    return int(old.delete()[0] + gone.delete()[0])


def deliver(pk: Any) -> bool:
    """Send one delivery. Return False if it is taken or has ended. Safe to call twice.

    Whatever happens, the row's state shows whether it ended or is waiting.
    """
    delivery = Delivery.objects.claim(pk)
    if delivery is None:
        return False
    _perform(delivery)
    return True


def test(channel: Channel) -> Delivery:
    """Send a test now and return its result. It isn't retried."""
    now = timezone.now()
    delivery = Delivery.objects.create(
        owner=channel.owner,
        channel=channel,
        kind=Kind.TEST,
        about=f"test:{now.isoformat()}",
        subject=_("Test"),
        state=State.SENDING,
        attempt=1,
        lease_until=now + Delivery.LEASE,
    )
    _perform(delivery)
    delivery.refresh_from_db()
    return delivery


def again(delivery: Delivery, *, seen: int = 0) -> bool:
    """Send a delivery again for a person. Return False if it hasn't been sent yet.

    `seen` is the round that the person saw, so a double click sends it once.
    """
    over = Delivery.objects.filter(pk=delivery.pk).exclude(state__in=[State.WAITING, State.SENDING])
    if seen:
        over = over.filter(round=seen)
    fields = Delivery.requeue_fields() | {"round": F("round") + 1, "tries": 0, "crashes": 0}
    done = over.update(attempted_at=None, ended_at=None, error="", **fields)
    if done:
        delivery.wake_after_commit()
    return bool(done)


def allowed_hosts(owner: User) -> frozenset[str]:
    """Return the local network hosts that the person's webhooks can reach. Only staff have any.

    The list is meant for the site's own services. Otherwise anyone could post to them by webhook.
    """
    return site.BEACON_FETCH_ALLOW_HOSTS if owner.is_staff else frozenset()


# --- one attempt ---


def _perform(delivery: Delivery) -> None:
    with timezone.override(zone_of(delivery.owner.time_zone)):
        why = _not_wanted(delivery)
        if why:
            delivery.end(State.DROPPED, error=clean(why)[0], ended_at=Now())
            return
        is_second_test = delivery.kind == Kind.TEST and delivery.attempt > 1
        if delivery.attempted_at is not None or is_second_test:
            delivery.give_up()
            return
        _try(delivery)


def _not_wanted(delivery: Delivery) -> str:
    """Return why it shouldn't be sent anymore, or ""."""
    channel, run, topic = delivery.channel, delivery.run, delivery.topic
    report = getattr(run, "report", None) if run is not None else None
    if channel.removed_at is not None:
        return _("The channel was removed.")
    if not channel.enabled and delivery.kind != Kind.TEST:
        return _("The channel is turned off.")
    if not delivery.owner.is_active:
        return _("The account is disabled.")
    if topic is not None and topic.trashed_at is not None:
        return _("The topic is in Trash.")
    if report is not None and report.trashed_at is not None:
        return _("The report is in Trash.")
    if run is not None and run_trash.is_removed(run):
        return _("The run is in Trash.")
    if delivery.kind == Kind.REPORT and report is None:
        return _("The report no longer exists.")
    if delivery.kind == Kind.FAILURE and run is not None and run.status != run.Status.FAILED:
        return _("The run has since been retried, so it no longer counts as failed.")
    return _not_wanted_there(delivery)


def _not_wanted_there(delivery: Delivery) -> str:
    """Return why this channel no longer gets it, by its owner's or a recipient's choice."""
    if delivery.kind == Kind.DIGEST and delivery.digest is not None:
        if not delivery.channel.digest:
            return _("The channel no longer receives digests.")
        if digests.content(delivery.digest).is_empty:
            return _(
                "Everything in this digest is in Trash, has been read or is no longer shared with you."
            )
    if delivery.kind == Kind.COMMENT:
        if not delivery.channel.comments:
            return _("The channel no longer receives messages about comments.")
        if delivery.comment is None:
            return _("The comment was deleted.")
    if delivery.topic is not None and delivery.topic.owner_id != delivery.owner_id:
        return _not_wanted_by_member(delivery)
    chosen = TopicNotices.objects.filter(topic=delivery.topic_id, left_out=delivery.channel_id)
    if delivery.topic_id is not None and chosen.exists():
        return _("The channel no longer receives messages about this topic.")
    return ""


def _not_wanted_by_member(delivery: Delivery) -> str:
    """Return why a member of the topic shouldn't be notified anymore, or ""."""
    topics = Topic.objects.shared_with(delivery.owner)
    mine = Membership.objects.filter(user=delivery.owner, topic__in=topics)
    member = mine.filter(topic=delivery.topic_id).first()
    is_comment = delivery.kind == Kind.COMMENT
    if member is None or not (member.notify or is_comment):
        return _("The topic isn’t shared with you anymore, or you turned its notifications off.")
    report = Report.objects.for_members().filter(run=delivery.run_id).select_related("run").first()
    if report is None:
        return _("The report isn’t shared.")
    if not is_comment and member.read_run >= (report.run.number or 0):
        return _("You’ve read the report.")
    return ""


def _try(delivery: Delivery) -> None:
    started = time.monotonic()
    try:
        text, answer = _send(delivery)
    except JobLost:
        logger.warning("delivery taken over by another worker", delivery=str(delivery.pk))
        return
    except net_mail.DeliveryUncertain as exc:
        _note(delivery, started, ok=False, said=str(exc))
        delivery.mark_unsure(str(exc))
    except ProviderError as exc:
        _note(delivery, started, ok=False, said=str(exc), answer=getattr(exc, "answer", None))
        _failed(delivery, exc)
    except Exception as exc:
        # Whatever fails, also the time limit, the delivery must wait for its next try or end.
        _note(delivery, started, ok=False, said=type(exc).__name__)
        _failed(delivery, ProviderUnavailable(_("internal error (see the worker’s log)")))
        raise
    else:
        _note(delivery, started, ok=True, said=text, answer=answer)
        _sent(delivery, text)


def _send(delivery: Delivery) -> tuple[str, webhooks.Answer | None]:
    """Hand the message to the channel's service. Return the result text and the response."""
    channel = delivery.channel
    if channel.needs_secret and not channel.opened().get("url"):
        raise ProviderRejected(
            _("SECRET_KEY has changed, so the address can’t be decrypted. Enter it again.")
        )
    with translation.override(delivery.owner.page_language or "en"):
        message = notice_text.compose(delivery)
    if channel.kind == Channel.Kind.WEBHOOK:
        return _post(delivery, message)
    if channel.kind == Channel.Kind.BROWSER:
        return _push(delivery, message)
    delivery.put(request=message.text[:MAX_KEPT])
    if channel.kind == Channel.Kind.APPRISE:
        _hand_over(delivery)
        url = channel.opened()["url"]
        try:
            text = apprise_sender.send(
                url,
                title=message.subject,
                body=message.short,
                anywhere=delivery.owner.is_staff,
            )
            return text, None
        except net_mail.DeliveryUncertain:
            raise
        except ProviderError:
            delivery.put(attempted_at=None)  # the service said that it didn't accept the message
            raise
    return _mail(delivery, message), None


def _mail(delivery: Delivery, message: notice_text.Message) -> str:
    headers = {"Auto-Submitted": "auto-generated", "X-Auto-Response-Suppress": "All"}
    if message.unsubscribe:
        headers["List-Unsubscribe"] = f"<{message.unsubscribe}>"
        headers["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    try:
        return net_mail.send(
            to=delivery.channel.address,
            subject=message.subject,
            text=message.text,
            html=message.html,
            message_id=message_id(delivery),
            headers=headers,
            handing_over=lambda: _hand_over(delivery),
        )
    except net_mail.DeliveryUncertain:
        raise
    except ProviderError:
        delivery.put(attempted_at=None)  # the server refused it, so nothing arrived
        raise


def message_id(delivery: Delivery) -> str:
    """Return the email's Message-ID. Retries share it, but sending again creates a new one."""
    host = host_of(site.BEACON_URL).strip("[]") or "localhost"
    return f"{delivery.pk.hex}.{delivery.round}@{host}"


def webhook_id(delivery: Delivery) -> str:
    """Return the `webhook-id`. Retries share it, but sending again creates a new one."""
    again = f"_{delivery.round}" if delivery.round > 1 else ""
    return f"msg_{delivery.pk.hex}{again}"


def _post(delivery: Delivery, message: notice_text.Message) -> tuple[str, webhooks.Answer | None]:
    """Post the message as first written, so every attempt sends the same bytes."""
    if not delivery.request or not delivery.tries:
        written = json.dumps(message.payload, cls=DjangoJSONEncoder, ensure_ascii=False)
        delivery.put(request=written)
    parts = delivery.channel.opened()
    answer = webhooks.post(
        parts["url"],
        delivery.request.encode(),
        message_id=webhook_id(delivery),
        key=parts["key"],
        allow_hosts=allowed_hosts(delivery.owner),
    )
    return _("The receiver accepted the message (%(status)d).") % {"status": answer.status}, answer


def _push(delivery: Delivery, message: notice_text.Message) -> tuple[str, webhooks.Answer | None]:
    """Notify a browser. Attempts have the same tag, so it shows the message once."""
    body = message.short.removesuffix(message.url).strip()
    sent = web_push.message(
        title=message.subject, body=body, url=message.url, tag=webhook_id(delivery)
    )
    delivery.put(request=sent.decode())
    parts = delivery.channel.opened()
    answer = web_push.send(parts, sent, allow_hosts=allowed_hosts(delivery.owner))
    return _("The push service accepted the message (%(status)d).") % {
        "status": answer.status
    }, answer


def _hand_over(delivery: Delivery) -> None:
    """Record that the message may arrive from now on. Raises JobLost if another worker has it."""
    delivery.put(attempted_at=timezone.now())


# --- results ---


def _note(
    delivery: Delivery,
    started: float,
    *,
    ok: bool,
    said: str,
    answer: webhooks.Answer | None = None,
) -> None:
    """Add an attempt to the row's log, and keep the last response."""
    line = {
        "at": timezone.now().isoformat(timespec="seconds"),
        "ok": ok,
        "code": answer.status if answer else None,
        "said": clean(said)[0][:500],
        "ms": round((time.monotonic() - started) * 1000),
    }
    delivery.results = [*delivery.results, line][-20:]
    delivery.held().update(
        results=delivery.results,
        response_code=answer.status if answer else None,
        # Only staff can see the response, because they can reach the server anyway.
        response=clean(answer.excerpt)[0] if answer and delivery.owner.is_staff else "",
    )


def _sent(delivery: Delivery, text: str) -> None:
    with transaction.atomic():
        if not delivery.end(State.SENT, error="", ended_at=Now()):
            return
        delivery.channel.note_outcome(
            ok=True, said=text, consecutive_failures=0, disabled_reason=""
        )
        delivery.log("delivered")
    logger.info("delivered", delivery=str(delivery.pk), kind=delivery.kind)


def _failed(delivery: Delivery, exc: ProviderError) -> None:
    """Schedule a retry, or give up."""
    why, channel = clean(str(exc))[0], delivery.channel
    may_help = isinstance(exc, ProviderUnavailable) and delivery.kind != Kind.TEST
    if may_help and delivery.may_retry:
        asked = getattr(exc, "retry_after", None) or 0.0
        delivery.retry_later(after=max(asked, delivery.RETRY_SECONDS[delivery.tries]), error=why)
        channel.note_outcome(ok=False, said=why)
        return
    with transaction.atomic():
        if not delivery.end(State.FAILED, error=why, ended_at=Now()):
            return
        if delivery.kind == Kind.TEST:
            channel.note_outcome(ok=False, said=why)
            return
        channel.note_outcome(ok=False, said=why, consecutive_failures=F("consecutive_failures") + 1)
        delivery.log("delivery-given-up", warning=True, why=why)
        _switch_off_failing(delivery, str(exc), at_once=isinstance(exc, webhooks.ReceiverGone))


def _switch_off_failing(delivery: Delivery, why: str, *, at_once: bool) -> None:
    """Switch off a channel that keeps failing, and notify the person's other channels."""
    failing = Channel.objects.filter(pk=delivery.channel_id, enabled=True)
    if not at_once:
        failing = failing.filter(consecutive_failures__gte=OFF_AFTER)
    if not failing.update(enabled=False, disabled_reason=why):
        return
    channel = delivery.channel
    Activity.log(channel.owner, SYSTEM, "channel-off", subject=channel, warning=True, why=why)
    names = {"name": channel.name, "why": why}
    others = Channel.objects.for_user(channel.owner).working().filter(failures=True)
    Delivery.objects.create_for_message(
        others,
        f"channel-off:{delivery.pk}:{delivery.round}",
        subject=_("Channel “%(name)s” is turned off") % names,
        message=_(
            "Beacon turned off the channel “%(name)s” because it couldn’t be reached: %(why)s "
            "Nothing is lost, because all reports are in Beacon. Fix the channel in "
            "Settings → Notifications, test it, then turn it on again."
        )
        % names,
    )


# --- permanent deletion ---


def forget_topic(topic: Topic) -> None:
    """Clear stored digest texts that contain the topic, before it is deleted."""
    _forget(digest__entries__run__topic=topic)
    # Digests of members name it by its ID, which is in the URL of its page.
    _forget(kind=Kind.DIGEST, request__contains=str(topic.pk))


def forget_owner(person: User) -> None:
    """Clear stored digest texts of members that name a topic of this account, before it is deleted."""
    topics = {str(pk) for pk in Topic.objects.for_user(person).values_list("pk", flat=True)}
    sent = Delivery.objects.filter(kind=Kind.DIGEST).exclude(owner=person).exclude(request="")
    rows = sent.values_list("pk", "request").iterator() if topics else ()
    _forget(pk__in=[pk for pk, text in rows if topics.intersection(_UUID.findall(text))])


def forget_run(record: Report | RemovedRun, _by: Actor) -> None:
    """Clear the stored digest text that contains the record's run, before it is deleted."""
    _forget(digest__entries__run=record.run_id)


def _forget(**of: Any) -> None:
    told = list(Delivery.objects.filter(**of).values_list("pk", flat=True))
    Delivery.objects.filter(pk__in=told).update(request="", response="")
