"""Notification channels, notification settings per topic, and deliveries.

Deliveries are created in the transaction that saves or fails the run, before anything is sent.
There is one per channel, kind and subject, so no one gets the same message twice.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar, Self

from django.apps import apps
from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.db.leased_jobs import LeasedJob
from beacon_site.db.message_fields import MessageField, MessagesField
from beacon_site.text import redaction
from beacon_site.text.cleaning import clean, shorten
from memory.models import Activity, Membership, Topic, User
from memory.models.actors import SYSTEM
from memory.models.history import OwnedJobQuerySet, OwnedQuerySet
from memory.models.llm import seal, unseal

MAX_NAME_LENGTH = 150


class Reports(models.TextChoices):
    EACH = "each", gettext_lazy("every report")
    CHANGED = "changed", gettext_lazy("only if something changed")
    NONE = "none", gettext_lazy("none")


class ChannelQuerySet(OwnedQuerySet):
    def kept(self) -> Self:
        """Keep channels that their owner hasn't removed."""
        return self.filter(removed_at=None)

    def working(self) -> Self:
        """Keep channels that Beacon sends messages to."""
        return self.kept().filter(enabled=True, owner__is_active=True)


class Channel(models.Model):
    """One destination for notifications: a mailbox, a webhook, a chat or push service, or a browser.

    `address` can be shown. The full URL of a webhook, an Apprise service or a browser, and its keys,
    are encrypted in `secret`.
    """

    class Kind(models.TextChoices):
        EMAIL = "email", gettext_lazy("email")
        WEBHOOK = "webhook", gettext_lazy("webhook")
        APPRISE = "apprise", gettext_lazy("chat or push")
        BROWSER = "browser", gettext_lazy("browser")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=8, choices=Kind)
    name = models.CharField(max_length=MAX_NAME_LENGTH)
    address = models.CharField(max_length=500, blank=True)
    secret = models.TextField(blank=True, editable=False)
    reports = models.CharField(max_length=8, choices=Reports, default=Reports.EACH)
    failures = models.BooleanField(default=True)
    digest = models.BooleanField(default=True)
    comments = models.BooleanField(default=True)
    enabled = models.BooleanField(default=True)
    disabled_reason = MessageField(blank=True)  # why Beacon switched it off
    consecutive_failures = models.PositiveIntegerField(default=0)
    last_at = models.DateTimeField(null=True, blank=True)
    last_ok = models.BooleanField(null=True, blank=True)
    last_response = MessageField(blank=True)
    created = models.DateTimeField(default=timezone.now)
    removed_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[ChannelQuerySet] = ChannelQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("created", "id")
        indexes = [models.Index(fields=["owner", "created"], name="channel_of_owner")]

    def __str__(self) -> str:
        return self.name

    def keep_secret(self, **parts: str) -> None:
        """Encrypt `url` and keys. The caller saves the row."""
        self.secret = seal(json.dumps(parts))

    def opened(self) -> dict[str, str]:
        """Return the decrypted secret, or {} if SECRET_KEY has changed since it was stored."""
        found: dict[str, str] = json.loads(unseal(self.secret) or "{}")
        redaction.remember(*found.values())
        return found

    @property
    def secret_is_lost(self) -> bool:
        """Return True if the stored secret can't be decrypted with the current SECRET_KEY."""
        return bool(self.secret) and not self.opened()

    @property
    def needs_secret(self) -> bool:
        """Return True if messages can't be sent without the secret."""
        return self.kind != self.Kind.EMAIL

    def note_outcome(self, *, ok: bool, said: str, **fields: Any) -> None:
        """Store how the last delivery to this channel ended."""
        fields |= {"last_at": Now(), "last_ok": ok, "last_response": shorten(clean(said)[0], 500)}
        Channel.objects.filter(pk=self.pk).update(**fields)


class TopicNotices(models.Model):
    """The notification settings of one topic, if they differ from the channels' own settings."""

    topic = models.OneToOneField(Topic, models.CASCADE, related_name="notices", primary_key=True)
    is_custom = models.BooleanField(default=False)  # if False, each channel's own settings apply
    left_out = models.ManyToManyField(Channel, blank=True, related_name="+")
    reports = models.CharField(max_length=8, choices=Reports, default=Reports.EACH)
    failures = models.BooleanField(default=True)
    in_digest = models.BooleanField(default=True)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        verbose_name_plural = gettext_lazy("topic notices")

    def __str__(self) -> str:
        return f"notices of {self.topic_id}"


class DeliveryQuerySet(OwnedJobQuerySet):
    """Queries on deliveries, and methods that create the rows for each event."""

    def create_for_report(self, topic: Topic, run: models.Model, *, is_quiet: bool) -> int:
        """Create a row for each channel of the owner or of a member that gets the report.

        Call it in the transaction that saves the report.
        """
        channels = []
        for channel, reports, _failures in _choices_of(topic):
            if reports == Reports.EACH or (reports == Reports.CHANGED and not is_quiet):
                channels.append(channel)
        channels += _channels_of_members(topic, run, is_quiet=is_quiet)
        return self._make(channels, Delivery.Kind.REPORT, **_of_run(topic, run))

    def create_for_failure(self, topic: Topic, run: models.Model) -> int:
        """Create a row for each channel that is notified about the run's failure."""
        channels = channels_for_failure(topic)
        return self._make(channels, Delivery.Kind.FAILURE, **_of_run(topic, run))

    def create_for_digest(self, owner: User, digest: models.Model) -> int:
        rows = Channel.objects.for_user(owner).working().filter(digest=True)
        return self._make(
            rows, Delivery.Kind.DIGEST, f"digest:{digest.pk}", digest=digest, subject=str(digest)
        )

    def create_for_comment(self, comment: Any) -> int:
        """Create a row for each channel of the topic's owner and of members who commented before.

        Its author gets none. Call it in the transaction that saves the comment.
        """
        report = comment.report
        topic, run = report.run.topic, report.run
        writers = report.comments.values("author")
        members = _readers_of(topic, run).filter(user__in=writers)
        people = {*members.values_list("user", flat=True)}
        people = (people | {topic.owner_id}) - {comment.author_id}
        left_out = TopicNotices.objects.filter(topic=topic, left_out__isnull=False)
        rows = Channel.objects.working().filter(owner__in=people, comments=True)
        rows = rows.exclude(pk__in=left_out.values("left_out"))
        fields = _of_run(topic, run) | {"about": f"comment:{comment.pk}"}
        return self._make(rows, Delivery.Kind.COMMENT, **fields)

    def create_for_message(
        self, channels: Iterable[Channel], about: str, *, subject: str, message: str, **fields: Any
    ) -> int:
        """Create rows with `message` as their text. `about` identifies the subject permanently."""
        return self._make(
            channels, Delivery.Kind.NOTICE, about, subject=subject, message=message, **fields
        )

    def _make(self, channels: Iterable[Channel], kind: str, about: str, **fields: Any) -> int:
        fields["subject"] = fields.get("subject", "")[:300]
        rows = [
            Delivery(owner_id=channel.owner_id, channel=channel, kind=kind, about=about, **fields)
            for channel in channels
        ]
        # If the run is saved again, the rows already exist and are left alone.
        return len(self.bulk_create(rows, ignore_conflicts=True)) if rows else 0

    def waiting_failures(self) -> Self:
        """Keep failure messages that haven't been sent yet."""
        waits = Delivery.State.WAITING
        return self.filter(kind=Delivery.Kind.FAILURE, state=waits, attempted_at=None)


class Delivery(LeasedJob):
    """One message to one channel: its subject, attempts and responses.

    `tries` counts the retries of this round. A new round starts when a person sends it again.
    """

    RUNNING = "sending"
    # Longer than any attempt to send. Apprise takes longest: 75 s with the start of its process.
    LEASE = timedelta(seconds=150)
    RETRY_SECONDS = (60, 300, 1800, 7200, 18_000, 57_600)  # gives up after about a day
    MAX_RETRY = 86_400.0
    RELATED = ("channel", "owner", "run__topic", "run__report", "digest")
    TASK, QUEUE = "research.tasks.deliver", "reflect"

    class Kind(models.TextChoices):
        REPORT = "report", gettext_lazy("report")
        FAILURE = "failure", gettext_lazy("failed run")
        DIGEST = "digest", gettext_lazy("digest")
        COMMENT = "comment", gettext_lazy("comment")
        NOTICE = "notice", gettext_lazy("notice")
        TEST = "test", gettext_lazy("test")

    class State(models.TextChoices):
        WAITING = "waiting", gettext_lazy("waiting")
        SENDING = "sending", gettext_lazy("sending")
        SENT = "sent", gettext_lazy("sent")
        FAILED = "failed", gettext_lazy("failed")
        UNSURE = "unsure", gettext_lazy("delivery unknown")
        DROPPED = "dropped", gettext_lazy("not sent")

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    channel = models.ForeignKey(Channel, models.CASCADE, related_name="deliveries")
    kind = models.CharField(max_length=8, choices=Kind)
    about = models.CharField(max_length=120)
    run = models.ForeignKey("research.Run", models.CASCADE, null=True, related_name="+")
    digest = models.ForeignKey("research.Digest", models.CASCADE, null=True, related_name="+")
    topic = models.ForeignKey(Topic, models.CASCADE, null=True, related_name="+")
    subject = MessageField(blank=True)
    message = MessageField(blank=True)  # of a notice that doesn't belong to a run
    state = models.CharField(max_length=8, choices=State, default=State.WAITING)
    round = models.PositiveIntegerField(default=1)
    # Set just before the message is sent, which can't be undone.
    attempted_at = models.DateTimeField(null=True, blank=True)
    request = models.TextField(blank=True)
    response_code = models.PositiveIntegerField(null=True, blank=True)
    response = models.TextField(blank=True)
    error = MessageField(blank=True)
    results = MessagesField(default=list, blank=True)  # [{at, ok, code, said, ms}], newest last
    created = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[DeliveryQuerySet] = DeliveryQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        verbose_name_plural = gettext_lazy("deliveries")
        constraints = [
            models.UniqueConstraint(
                fields=["channel", "kind", "about"], name="delivery_once_a_channel"
            )
        ]
        indexes = [
            models.Index(fields=["owner", "-created", "-id"], name="delivery_of_owner"),
            models.Index(fields=["channel", "-created", "-id"], name="delivery_of_channel"),
            models.Index(
                fields=["not_before"],
                condition=Q(state__in=["waiting", "sending"]),
                name="delivery_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.subject}"

    @property
    def comment(self) -> Any:
        """Return the comment it announces, or None if it no longer exists."""
        report = getattr(self.run, "report", None)
        key = self.about.removeprefix("comment:")
        return report.comments.filter(pk=key).first() if report is not None else None

    def mark_unsure(self, why: str) -> None:
        """End the delivery: the message may or may not have arrived."""
        with transaction.atomic():
            if self.end(self.State.UNSURE, error=clean(why)[0], ended_at=Now()):
                self.channel.note_outcome(ok=False, said=why)
                self.log("delivery-unsure", warning=True, why=why)

    def give_up(self) -> None:
        self.mark_unsure(
            _("The worker stopped while sending, so the message may or may not have arrived.")
        )

    def log(self, kind: str, *, warning: bool = False, **detail: Any) -> None:
        label = f"{self.subject or self.get_kind_display()} → {self.channel.name}"
        Activity.log(self.owner, SYSTEM, kind, subject=self, label=label, warning=warning, **detail)


def _of_run(topic: Topic, run: models.Model) -> dict[str, Any]:
    subject = f"{topic.title}, {run}"
    return {"about": f"run:{run.pk}", "run": run, "topic": topic, "subject": subject}


def _readers_of(topic: Topic, run: Any) -> models.QuerySet[Membership]:
    """Return the members who can read the run's report now: none if it or the topic is sensitive."""
    members = Membership.objects.filter(topic=topic)
    reports: Any = apps.get_model("research", "Report").objects
    shown = reports.for_members().filter(run=run, run__topic__trashed_at=None)
    return members if shown.exists() else members.none()


def _channels_of_members(topic: Topic, run: Any, *, is_quiet: bool) -> list[Channel]:
    """Return the channels of members who want to be notified, by each channel's own settings."""
    members = _readers_of(topic, run).filter(notify=True).values("user")
    reports = [Reports.EACH] if is_quiet else [Reports.EACH, Reports.CHANGED]
    return list(Channel.objects.working().filter(owner__in=members, reports__in=reports))


def channels_for_failure(topic: Topic) -> list[Channel]:
    """Return the channels to notify if a run of the topic or its schedule fails."""
    return [channel for channel, _reports, failures in _choices_of(topic) if failures]


def _choices_of(topic: Topic) -> list[tuple[Channel, str, bool]]:
    """Return each working channel with its settings for the topic: reports, failures."""
    channels = list(Channel.objects.filter(owner_id=topic.owner_id).working())
    if not channels:
        return []
    chosen = TopicNotices.objects.filter(topic=topic).first()
    left_out = set(chosen.left_out.values_list("pk", flat=True)) if chosen else set()
    own = chosen if chosen is not None and chosen.is_custom else None
    return [
        (channel, (own or channel).reports, (own or channel).failures)
        for channel in channels
        if channel.pk not in left_out
    ]
