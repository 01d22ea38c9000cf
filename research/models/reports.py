"""Reports, their deltas, and what people said about their sentences."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple, Self
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core import signing
from django.core.validators import MaxValueValidator
from django.db import models, transaction
from django.db.models import Case, F, Func, Q, Value, When
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.dateformat import format as date_text
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.providers.search import sample
from beacon_site.text.cleaning import shorten
from beacon_site.text.markdown import as_words, by_direction, link, render
from beacon_site.text.placeholders import alone
from memory.models import Conflict, Note, Observation, Recalled, Section, Topic, TopicFact, Trust
from memory.models.actors import Actor
from memory.models.history import OwnedQuerySet
from memory.models.library import ADDRESS
from memory.models.remembered import RememberedQuerySet
from memory.models.search_index import FilterFields
from research.models.runs import Run
from research.models.topics import OF_ITEMS, OF_REPORTS

# --- Digests, feeds, and private links signed with the site's secret key ---


class PrivateLink(models.Model):
    """A row with a private URL, which can be shown at any time and can't be guessed.

    A copy of the database opens nothing, because the signature isn't stored.
    """

    # Each kind of row has its own salt, so a URL of one kind never opens another.
    SALT: ClassVar[str]
    VIEW: ClassVar[str]  # the name of the view that opens it

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)

    class Meta:
        abstract = True

    @property
    def token(self) -> str:
        """Return the last part of the URL."""
        return self._signer().sign(self.pk.hex)

    @property
    def address(self) -> str:
        return settings.BEACON_URL + reverse(self.VIEW, args=[self.token])

    @classmethod
    def key_of(cls, token: str) -> uuid.UUID | None:
        """Return the id in a URL of this site, or None if it isn't one."""
        try:
            return uuid.UUID(cls._signer().unsign(token))
        except (signing.BadSignature, ValueError):
            return None

    @classmethod
    def _signer(cls) -> signing.Signer:
        return signing.Signer(salt=cls.SALT, sep=".")


# --- digests and feeds ---


class DigestSettingsQuerySet(OwnedQuerySet):
    def due(self, at: datetime) -> Self:
        """Keep settings whose next digest is due."""
        return self.filter(next_at__lte=at, owner__is_active=True)

    def of_another_zone(self, at: datetime) -> Self:
        """Keep settings that aren't due yet and were calculated in an old time zone of the owner."""
        ahead = self.filter(next_at__gt=at, owner__is_active=True)
        return ahead.exclude(time_zone=models.F("owner__time_zone"))


class DigestSettings(models.Model):
    """When a person gets a digest. Each topic decides whether it is included."""

    class Frequency(models.TextChoices):
        NEVER = "never", gettext_lazy("never")
        DAILY = "daily", gettext_lazy("every day")
        WEEKLY = "weekly", gettext_lazy("every week")

    owner = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", primary_key=True
    )
    frequency = models.CharField(max_length=8, choices=Frequency, default=Frequency.NEVER)
    hour = models.PositiveSmallIntegerField(default=7, validators=[MaxValueValidator(23)])
    weekday = models.PositiveSmallIntegerField(default=1, validators=[MaxValueValidator(6)])
    # Sunday is 0, as in cron.
    send_if_empty = models.BooleanField(default=False)
    next_at = models.DateTimeField(null=True, blank=True)
    # The owner's time zone for which `next_at` was calculated.
    time_zone = models.CharField(max_length=64, default="", blank=True)

    objects: ClassVar[DigestSettingsQuerySet] = DigestSettingsQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        verbose_name_plural = gettext_lazy("digest settings")

    def __str__(self) -> str:
        return f"{self.get_frequency_display()}"


class Digest(models.Model):
    """One digest. Its content comes from the runs that ended since the previous one."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    slot = models.DateTimeField()
    since = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[OwnedQuerySet] = OwnedQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        constraints = [models.UniqueConstraint(fields=["owner", "slot"], name="digest_once_a_slot")]

    def __str__(self) -> str:
        return _("Digest for %(day)s") % {
            "day": date_text(timezone.localtime(self.created), "j F Y")
        }


class DigestEntry(models.Model):
    """One run in a digest. A run is in at most one digest, so nothing is repeated or missed."""

    digest = models.ForeignKey(Digest, models.CASCADE, related_name="entries")
    run = models.OneToOneField(Run, models.CASCADE, related_name="digest_entry", primary_key=True)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        verbose_name_plural = gettext_lazy("digest entries")

    def __str__(self) -> str:
        return f"{self.run}"


class FeedQuerySet(OwnedQuerySet):
    def working(self) -> Self:
        """Keep feeds that can be read."""
        return self.filter(ended_at=None)


class Feed(PrivateLink):
    """A private URL where a feed reader finds the changes of one topic or of all."""

    SALT, VIEW = "beacon.feed", "research:feed"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    topic = models.ForeignKey(Topic, models.CASCADE, null=True, blank=True, related_name="+")
    include_private = models.BooleanField(default=False)
    created = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True, blank=True)
    opened_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[FeedQuerySet] = FeedQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("created", "id")
        indexes = [models.Index(fields=["owner", "created"], name="feed_of_owner")]

    def __str__(self) -> str:
        return _("feed for %(topic)s") % {"topic": self.topic} if self.topic else _("feed")


# --- Links to the pages of sources ---


@dataclass(frozen=True, slots=True)
class Link:
    """The target of a link. If `url` is empty, the address is shown as text and `note` says why."""

    url: str = ""
    note: str = ""
    is_ours: bool = False


def link_of(address: str) -> Link:
    """Return the link for a source address. Only http(s) addresses become links (R61).

    A library address links to the document's page in Beacon. A bundled article has no page.
    """
    if sample.is_sample_url(address):
        return Link(note=_("bundled with Beacon"))
    match = ADDRESS.fullmatch(address)
    if match:
        try:
            return Link(url=reverse("memory:library-document", args=[match[1]]), is_ours=True)
        except NoReverseMatch:
            return Link(note=_("a document in your library"))
    return Link(url=address) if is_web(address) else Link()


def is_web(address: str) -> bool:
    """Whether the address is http(s) with a host, and contains no credentials or hidden characters."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    is_plain = address.isprintable() and not any(char.isspace() for char in address)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and is_plain


# --- Reports ---


def _unread_first() -> Case:
    """Return the order of report lists: unread reports count as a thousand years newer.

    The conversion to UTC is needed because an index can't depend on a time zone, and adding days to
    a timestamp does.
    """
    utc = Func(Value("UTC"), F("created"), function="timezone", output_field=models.DateTimeField())
    later = models.ExpressionWrapper(
        utc + Value(timedelta(days=365_250)), output_field=models.DateTimeField()
    )
    ahead = Func(Value("UTC"), later, function="timezone", output_field=models.DateTimeField())
    return Case(When(read_at=None, then=ahead), default=F("created"))


UNREAD_FIRST = _unread_first()


class Remark(NamedTuple):
    """A person's remark on a sentence: `checked` or `corrected`, and the correct text."""

    kind: str
    pk: uuid.UUID
    key: str
    sentence: str
    right: str
    by: str
    created: datetime


class ReportQuerySet(RememberedQuerySet):
    def unread(self) -> Self:
        """Keep reports that their owner hasn't read."""
        return self.live().filter(read_at=None, run__topic__trashed_at=None)

    def restore_state(self, at: datetime) -> int:
        """Mark read reports as unread at `at`. Return how many."""
        read = self.exclude(read_at=None)
        return read.update(read_before=F("read_at"), unread_at=at, read_at=None)

    def for_members(self) -> Self:
        """Keep reports that members of their shared topics can read."""
        return self.live().for_agents().exclude(run__number=None)

    def with_number(self) -> Self:
        """Keep reports of saved runs, newest first."""
        return self.exclude(run__number=None).order_by("-created", "-id")


class Report(Recalled):
    """The report of a run.

    `body` never contains the delta. `delta` is its Markdown, empty for a baseline. `sources` is the
    numbered list as cited, in the order of n: a list of `{n, url, link, title, domain,
    published_at, state, trust, publisher, derived_from, repeated_by, quotes: [{sentence, quote,
    found, in_snippet, start, end, before, after, checked_at}]}`. `start` and `end` are offsets in
    the page's stored text. `checks` has the result of `verify` for each cited sentence: `{sentence,
    key, supported, why, sources, independent}`.
    """

    REVISED = ("title", "body", "delta")
    SAID = ("title", "body", "delta")
    TOPIC_PATH = "run__topic"

    # Called with a report that is about to be deleted with its run, and the actor who deletes it.
    ON_PURGE: ClassVar[list[Callable[[Any, Actor], object]]] = []

    run = models.OneToOneField(Run, models.CASCADE, related_name="report")
    title = models.CharField(max_length=500)
    body = models.TextField(blank=True)
    delta = models.TextField(blank=True)
    delta_heading = models.CharField(max_length=200, blank=True)
    delta_since = models.CharField(max_length=200, blank=True)
    summary = models.TextField(blank=True)
    sources = models.JSONField(default=list, blank=True)
    checks = models.JSONField(default=list, blank=True)
    written_by = models.CharField(max_length=200)
    is_extractive = models.BooleanField(default=False)
    is_quiet = models.BooleanField(default=False)
    read_at = models.DateTimeField(null=True, blank=True)
    # When a person marked it as unread, and when they had first read it. Undo needs both.
    unread_at = models.DateTimeField(null=True, blank=True)
    read_before = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[ReportQuerySet] = ReportQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        indexes = [
            models.Index(
                fields=["owner", "-created"],
                condition=Q(read_at=None, trashed_at=None),
                name="report_unread",
            ),
            models.Index(fields=["owner", "-created", "-id"], name="report_of_owner"),
            models.Index(
                "owner",
                UNREAD_FIRST.desc(),
                F("id").desc(),
                condition=Q(trashed_at=None),
                name="report_unread_first",
            ),
        ]
        triggers = OF_REPORTS

    def __str__(self) -> str:
        return f"{self.title}, {self.run}"

    def get_absolute_url(self) -> str:
        return reverse("research:run", args=[self.run.topic.slug, self.run_id])

    def search_text(self) -> str:
        """Return the text for full-text search: title, changes, and the rest."""
        return f"{self.title}\n{self.delta}\n{self.body}"

    def search_marks(self) -> FilterFields:
        """Return the fields that memory search filters by. A report belongs to its run's topic."""
        return replace(super().search_marks(), topic_id=self.run.topic_id)

    @property
    def _placed(self) -> set[str]:
        """Return the names of the blocks in the template that its run used."""
        return set(map(alone, (self.run.settings.get("report_template") or "").splitlines()))

    @property
    def places_changes(self) -> bool:
        """Whether the body has the changes, by a template, so that files don't list them again."""
        return not {"new", "changed", "contradicted", "gone"}.isdisjoint(self._placed)

    @property
    def places_sources(self) -> bool:
        """Return True if the body has the list of sources, by a template."""
        return "sources" in self._placed

    @property
    def masthead(self) -> str:
        """Return the line below the title: `Run #N · date · new pages: n · known pages: m`."""
        return _("Run #%(number)s · %(date)s · new pages: %(new)d · known pages: %(known)d") % {
            "number": self.run.number,
            "date": f"{timezone.localtime(self.created):%Y-%m-%d}",
            "new": self.run.new_count,
            # The run's counts leave out known pages that it read again without a search.
            "known": self.run.hits.filter(state__in=["known", "returning"]).count(),
        }

    @property
    def since_line(self) -> str:
        """Return what the changes are compared with, unless their text says it."""
        return "" if self.delta_since in self.delta else self.delta_since

    def as_markdown(self) -> str:
        """Return the whole report as Markdown, as used by the page, export, command and REST."""
        parts = [f"# {self.title}", self.masthead]
        if self.delta and not self.places_changes:
            since = f"*{self.since_line}*" if self.since_line else ""
            parts += [f"## {self.delta_heading}", since, self.delta]
        parts.append(self.body)
        if self.sources and not self.places_sources:
            parts += ["## " + _("Sources"), source_lines(self.sources)]
        remarks = [f"- {_describe(remark)}" for remark in self.remarks()]
        if remarks:
            parts += ["## " + _("Verified and corrected"), "\n".join(remarks)]
        return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"

    def purge(self, *, by: Actor) -> None:
        """Permanently delete the report with its run and all related rows."""
        with transaction.atomic():
            # Lock the topic first, like restoring does, to avoid a deadlock.
            list(Topic.objects.filter(runs=self.run_id).select_for_update(of=("self",)))
            self._hold_in_trash()
            for forget in self.ON_PURGE:
                forget(self, by)
            super().purge(by=by)
            Run.objects.filter(pk=self.run_id).delete()

    def remarks(self) -> list[Remark]:
        """Return what people said about its sentences and didn't undo, oldest first."""
        same = ("pk", "key", "sentence")
        checked = self.checked_sentences.standing().values_list(
            Value("checked"), *same, Value("", output_field=models.TextField()), "by", "created"
        )
        corrected = self.corrections.standing().values_list(
            Value("corrected"), *same, "right", "by", "created"
        )
        found = checked.order_by().union(corrected.order_by(), all=True).order_by("created", "pk")
        return [Remark(*row) for row in found]

    def mark_read(self) -> None:
        """Note that its owner has read it. Only the first time counts."""
        type(self).objects.filter(pk=self.pk, read_at=None).update(read_at=timezone.now())

    def mark_unread(self) -> None:
        type(self).objects.filter(pk=self.pk).restore_state(timezone.now())


def _describe(remark: Remark) -> str:
    values = {
        "sentence": as_words(remark.sentence),
        "name": as_words(remark.by.partition(":")[2]),
        "day": f"{timezone.localtime(remark.created):%Y-%m-%d}",
        "right": as_words(remark.right),
    }
    if remark.kind == "checked":
        return _("Verified by %(name)s on %(day)s: “%(sentence)s”") % values
    if remark.right:
        return _("Corrected by %(name)s on %(day)s: “%(sentence)s” Correct: %(right)s") % values
    return _("Marked as wrong by %(name)s on %(day)s: “%(sentence)s”") % values


def source_lines(sources: Iterable[Mapping[str, Any]]) -> str:
    """Return a report's sources as a numbered list in Markdown."""
    return "\n".join(
        f"{s['n']}. {link(s['title'], _opening(s['link']))} · {s['domain']}" for s in sources
    )


def _opening(address: str) -> str:
    """Return the URL that opens a source. A library document opens on its page in Beacon."""
    match = ADDRESS.fullmatch(address)
    try:
        page = reverse("memory:library-document", args=[match[1]]) if match else ""
    except NoReverseMatch:
        page = ""
    return f"{settings.BEACON_URL}{page}" if page else address


class DeltaItemQuerySet(models.QuerySet[Any]):
    def told(self) -> Self:
        """Keep changes that are shown: listed and not withheld for any reason."""
        return self.filter(status__in=DeltaItem.LISTED, hidden_reason="")

    def supported(self) -> Self:
        """Keep changes that are remembered, including true ones that the topic's intent withholds."""
        return self.exclude(UNSUPPORTED)


# Withheld because the citation check found that the source doesn't support it.
UNSUPPORTED = Q(judged_by="") & ~Q(hidden_reason="")


class DeltaItem(models.Model):
    """One changed fact: the new sentence next to the old one, each with its source.

    `previous_source` is the source of the old sentence as it was known then: `{link, title, domain,
    published_at, quote}`, empty if a person wrote the sentence. `needs_review` marks a change that kept
    the old fact, so a person has to compare the two. `compared_by` names what compared the
    sentences: "words", "words and vectors", or "model" and its name. `conflict` is the conflict in
    which the two wait, or in which they were resolved.

    `hidden_reason` says why it isn't shown. Without `judged_by`, its source doesn't support it, so it
    isn't remembered either. With `judged_by`, it is true and remembered, but the owner didn't ask
    for it: a model or the rule applied the topic's intent, or its source is muted. `judged` is the
    reason for showing or withholding it. When a person asks to see it after all, that person
    becomes the judge.
    """

    class Judge(models.TextChoices):
        MODEL = "model", gettext_lazy("the model")
        RULE = "rule", gettext_lazy("keywords")
        MUTED = "muted", gettext_lazy("muted source")
        PERSON = "person", gettext_lazy("you")

    class Status(models.TextChoices):
        NEW = "new", gettext_lazy("New")
        CONFIRMED = "confirmed", gettext_lazy("Confirmed")
        CHANGED = "changed", gettext_lazy("Changed")
        CONTRADICTED = "contradicted", gettext_lazy("Contradicted")
        GONE = "gone", gettext_lazy("Gone")
        GONE_QUIET = "gone quiet", gettext_lazy("Not mentioned")

    LISTED = (Status.NEW, Status.CHANGED, Status.CONTRADICTED, Status.GONE)

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, models.CASCADE, related_name="delta_items")
    position = models.PositiveIntegerField()
    status = models.CharField(max_length=12, choices=Status)
    sentence = models.TextField()
    previous_fact = models.ForeignKey(
        TopicFact, models.SET_NULL, null=True, blank=True, related_name="+"
    )
    previous_text = models.TextField(blank=True)
    previous_source = models.JSONField(default=dict, blank=True)
    needs_review = models.BooleanField(default=False)
    compared_by = models.CharField(max_length=200, blank=True)
    conflict = models.ForeignKey(Conflict, models.SET_NULL, null=True, blank=True, related_name="+")
    citations = ArrayField(models.PositiveIntegerField(), default=list, blank=True)
    quote = models.TextField(blank=True)
    hidden_reason = models.TextField(blank=True)
    judged_by = models.CharField(max_length=6, choices=Judge, blank=True)
    judged = models.TextField(blank=True)

    objects: ClassVar[DeltaItemQuerySet] = DeltaItemQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("run", "position")
        constraints = [
            models.UniqueConstraint(F("run"), F("position"), name="delta_item_place_once")
        ]
        triggers = OF_ITEMS

    def __str__(self) -> str:
        return f"{self.get_status_display()}: {self.sentence[:80]}"

    @property
    def is_listed(self) -> bool:
        """Return True if the section lists it, instead of folding it."""
        return self.status in self.LISTED

    @property
    def model_name(self) -> str:
        """Return the model that compared it with what was known, or "" if words did."""
        kind, _space, name = self.compared_by.partition(" ")
        return name if kind == "model" else ""

    @property
    def is_unasked(self) -> bool:
        """Whether it is true and remembered, but withheld because the owner didn't ask for it."""
        return bool(self.hidden_reason and self.judged_by)


# --- lines of memory that changes meet ---


class AffectedLineQuerySet(OwnedQuerySet):
    def standing(self) -> Self:
        """Keep lines that weren't removed from their change."""
        return self.filter(dismissed_at=None)


class AffectedLine(models.Model):
    """A line of a person's own memory that a change meets.

    The line is named by its record (a note, or a section of a file) and its normalized words. Its
    text isn't stored, so nothing remains of it when it is deleted.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    item = models.ForeignKey(DeltaItem, models.CASCADE, related_name="affects")
    record_type = models.CharField(max_length=20)
    record_id = models.UUIDField()
    line_key = models.CharField(max_length=16)
    score = models.PositiveSmallIntegerField(default=1)  # how surely it is met
    created = models.DateTimeField(default=timezone.now)
    dismissed_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[AffectedLineQuerySet] = AffectedLineQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("item", "id")
        constraints = [
            models.UniqueConstraint(
                F("item"), F("record_id"), F("line_key"), name="line_affected_once_by_each"
            )
        ]
        indexes = [
            models.Index(
                fields=["owner", "-created"],
                condition=Q(dismissed_at=None),
                name="affected_line_of_owner",
            )
        ]

    # Where it is now; `research.services.facts.affected.current_lines` looks it up.
    record: Note | Section
    text: str

    def __str__(self) -> str:
        return f"{self.record_type} {self.record_id}"

    @property
    def url(self) -> str:
        return self.record.get_absolute_url()

    @property
    def place(self) -> str:
        """Return where it is: a file's path, or "" for a note."""
        return self.record.file.path if isinstance(self.record, Section) else ""


# --- remarks on sentences ---


class OfReportQuerySet(OwnedQuerySet):
    def readable(self) -> Self:
        """Keep rows of reports that aren't in the trash, and whose topics aren't either."""
        return self.filter(report__trashed_at=None, report__run__topic__trashed_at=None)


class SentenceQuerySet(OfReportQuerySet):
    def standing(self) -> Self:
        """Keep remarks that weren't undone."""
        return self.filter(undone_at=None)


class SentenceRemark(models.Model):
    """A remark on one sentence of a report. `key` is the normalized sentence."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    sentence = models.TextField()
    key = models.CharField(max_length=16)
    by = models.CharField(max_length=200)  # an actor, such as `human:alice`
    created = models.DateTimeField(default=timezone.now)
    undone_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[SentenceQuerySet] = SentenceQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return shorten(self.sentence, 120)

    @property
    def name(self) -> str:
        """Return the author's display name."""
        return self.by.partition(":")[2] or self.by


class CheckedSentence(SentenceRemark):
    """A person has verified the sentence and vouches for it."""

    report = models.ForeignKey(Report, models.CASCADE, related_name="checked_sentences")

    class Meta:
        ordering = ("created", "id")
        constraints = [
            models.UniqueConstraint(
                F("report"), F("key"), condition=Q(undone_at=None), name="sentence_checked_once"
            )
        ]
        indexes = [models.Index(fields=["owner", "-created"], name="checked_sentence_of_owner")]


class Correction(SentenceRemark):
    """A person said what is wrong with a sentence, and perhaps what is right.

    `lesson` is the observation that later runs receive. `corrected` lists what happened to facts.
    """

    topic = models.ForeignKey(Topic, models.CASCADE, related_name="corrections")
    report = models.ForeignKey(Report, models.CASCADE, related_name="corrections")
    wrong = models.TextField(gettext_lazy("mistake"), blank=True)
    right = models.TextField(gettext_lazy("correction"), blank=True)
    lesson = models.ForeignKey(
        Observation, models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        ordering = ("-created", "-id")
        constraints = [
            models.UniqueConstraint(
                F("report"),
                F("key"),
                condition=Q(undone_at=None),
                name="sentence_corrected_once",
            )
        ]
        indexes = [
            models.Index(fields=["topic", "-created"], name="correction_of_topic"),
            models.Index(fields=["owner", "-created"], name="correction_of_owner"),
        ]


class Comment(models.Model):
    """A comment on a report of a shared topic, written by the topic's owner or a member.

    It's Markdown for people: search, memory and prompts never include it. `author` is null for an
    imported comment, because `name` was an account of another Beacon.
    """

    MAX_LENGTH = 5000  # characters
    MAX = 200  # per report
    MAX_PER_HOUR = 30  # written or edited by one person in one owner's topics

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    report = models.ForeignKey(Report, models.CASCADE, related_name="comments")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="+"
    )
    name = models.CharField(max_length=150)
    text = models.TextField()
    created = models.DateTimeField(default=timezone.now)
    edited_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[models.Manager[Comment]] = models.Manager()

    class Meta:
        ordering = ("created", "id")
        indexes = [models.Index(fields=["report", "created", "id"], name="comment_of_report")]

    def __str__(self) -> str:
        return self.text

    @property
    def html(self) -> SafeString:
        return by_direction(render(self.text))


class CorrectedFact(models.Model):
    """What a correction did to one topic fact. `version` is the fact's version after it."""

    class Action(models.TextChoices):
        CORRECTED = "corrected", gettext_lazy("corrected")
        STRUCK = "struck", gettext_lazy("marked as wrong")

    id = models.BigAutoField(primary_key=True)
    correction = models.ForeignKey(Correction, models.CASCADE, related_name="facts")
    fact = models.ForeignKey(TopicFact, models.CASCADE, related_name="+")
    action = models.CharField(max_length=9, choices=Action)
    before = models.TextField()
    after = models.TextField(blank=True)
    version = models.PositiveIntegerField()
    was_edited_by_person = models.BooleanField(default=False)
    previous_trust = models.CharField(max_length=12, choices=Trust, default=Trust.EXTERNAL)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        ordering = ("id",)
        constraints = [
            models.UniqueConstraint(F("correction"), F("fact"), name="fact_corrected_once_by_each")
        ]

    def __str__(self) -> str:
        return f"{self.get_action_display()}: {self.before[:80]}"


# --- shared links: anyone with one can read the report ---

MAX_NOTE = 150  # characters


class SharedLinkQuerySet(OfReportQuerySet):
    def working(self, now: datetime | None = None) -> Self:
        """Keep links that still open their report: neither revoked nor expired."""
        return self.filter(ended_at=None, ends_at__gt=now or timezone.now())


class SharedLink(PrivateLink):
    """A private link to one report that expires."""

    SALT, VIEW = "beacon.shared-report", "research:shared-report"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    report = models.ForeignKey(Report, models.CASCADE, related_name="shared_links")
    note = models.CharField(max_length=150, blank=True)  # shown only to the owner: who has the link
    ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    view_count = models.PositiveIntegerField(default=0)
    opened_at = models.DateTimeField(null=True, blank=True)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[SharedLinkQuerySet] = SharedLinkQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        indexes = [models.Index(fields=["owner", "-created"], name="shared_link_of_owner")]

    def __str__(self) -> str:
        return f"{self.note or self.pk}: {self.report}"

    @property
    def topic_id(self) -> Any:
        """Return the topic's id, which the activity log needs."""
        return self.report.run.topic_id
