"""What a run wrote: the report, and its delta as a field and rows of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple, Self

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models, transaction
from django.db.models import Case, F, Func, Q, Value, When
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import shorten
from beacon_site.text.markdown import as_words, link
from memory.core.actors import Actor
from memory.models import Conflict, Observation, Recalled, Topic, TopicFact, Trust
from memory.models.history import OwnedQuerySet
from memory.models.library import ADDRESS
from memory.models.remembered import RememberedQuerySet
from memory.models.search_index import Marks
from research.models.digests import PrivateLink
from research.models.runs import Run
from research.models.topics import OF_ITEMS, OF_REPORTS


def _unread_first() -> Case:
    """Return what lists are ordered by: unread reports count as a thousand years newer.

    It goes through UTC, for an index may not depend on a time zone, as days added to a moment do.
    """
    utc = Func(Value("UTC"), F("created"), function="timezone", output_field=models.DateTimeField())
    later = models.ExpressionWrapper(
        utc + Value(timedelta(days=365_250)), output_field=models.DateTimeField()
    )
    ahead = Func(Value("UTC"), later, function="timezone", output_field=models.DateTimeField())
    return Case(When(read_at=None, then=ahead), default=F("created"))


UNREAD_FIRST = _unread_first()


class Remark(NamedTuple):
    """What a person said of a sentence: `checked` or `corrected`, and what is right."""

    kind: str
    pk: uuid.UUID
    key: str
    sentence: str
    right: str
    by: str
    created: datetime


class ReportQuerySet(RememberedQuerySet):
    """The questions asked of reports."""

    def unread(self) -> Self:
        """Keep reports that their owner has not read."""
        return self.live().filter(read_at=None, run__topic__trashed_at=None)

    def put_back(self, at: datetime) -> int:
        """Mark those that were read as unread again, at `at`; return how many."""
        read = self.exclude(read_at=None)
        return read.update(read_before=F("read_at"), unread_at=at, read_at=None)

    def with_number(self) -> Self:
        """Keep reports whose run was saved, newest first."""
        return self.exclude(run__number=None).order_by("-created", "-id")


class Report(Recalled):
    """What a run wrote.

    `body` never holds the delta; `delta` is its Markdown, empty for a baseline.  `sources` is the
    numbered list as cited: a list of `{n, url, link, title, domain, published_at, state, trust,
    publisher, derived_from, carried_by, quotes: [{sentence, quote, found, in_snippet, start, end,
    before, after, checked_at}]}` in the order of n; `start` and `end` are places in the page's stored
    text.  `checks` says of each cited sentence what `verify` found: `{sentence, key, supported, why,
    sources, independent}`.
    """

    REVISED = ("title", "body", "delta")
    SAID = ("title", "body", "delta")
    TOPIC_PATH = "run__topic"

    # Called with a report that is about to be deleted with its run, and who does it.
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
    # When a person marked it as unread again, and when they had read it: undo needs both.
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

    def search_text(self) -> str:
        """Return what recall finds the report by: title, what changed, and the rest."""
        return f"{self.title}\n{self.delta}\n{self.body}"

    def search_marks(self) -> Marks:
        """Return what recall filters the report by; it belongs to its run's topic."""
        return replace(super().search_marks(), topic_id=self.run.topic_id)

    @property
    def masthead(self) -> str:
        """Return the line under the title: `Run #N · date · new n · known m`."""
        return _("Run #%(number)s · %(date)s · new %(new)d · known %(known)d") % {
            "number": self.run.number,
            "date": f"{timezone.localtime(self.created):%Y-%m-%d}",
            "new": self.run.new_count,
            "known": self.run.known_count,
        }

    def as_markdown(self) -> str:
        """Return the whole report as Markdown: the one form for page, export, command and REST."""
        parts = [f"# {self.title}", self.masthead]
        if self.delta:
            parts += [f"## {self.delta_heading}", f"*{self.delta_since}*", self.delta]
        parts.append(self.body)
        if self.sources:
            lines = [
                f"{s['n']}. {link(s['title'], _opening(s['link']))} · {s['domain']}"
                for s in self.sources
            ]
            parts += ["## " + _("Sources"), "\n".join(lines)]
        remarks = [f"- {_in_words(remark)}" for remark in self.remarks()]
        if remarks:
            parts += ["## " + _("Verified and corrected"), "\n".join(remarks)]
        return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"

    def purge(self, *, by: Actor) -> None:
        """Delete the report with its run and all that hangs on it, for good."""
        with transaction.atomic():
            # The topic first, as whoever restores it does: else each would wait for the other.
            list(Topic.objects.filter(runs=self.run_id).select_for_update(of=("self",)))
            self._hold_in_trash()
            for forget in self.ON_PURGE:
                forget(self, by)
            super().purge(by=by)
            Run.objects.filter(pk=self.run_id).delete()

    def remarks(self) -> list[Remark]:
        """Return what people said of its sentences and did not take back, oldest first."""
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
        """Note that its owner has read it; the first time counts."""
        type(self).objects.filter(pk=self.pk, read_at=None).update(read_at=timezone.now())

    def mark_unread(self) -> None:
        """Mark it as unread again."""
        type(self).objects.filter(pk=self.pk).put_back(timezone.now())


def _in_words(remark: Remark) -> str:
    """Return a remark as a line of Markdown."""
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


def _opening(address: str) -> str:
    """Return where a reader opens a source: a document of the library on its page here."""
    found = ADDRESS.fullmatch(address)
    try:
        page = reverse("memory:library-document", args=[found[1]]) if found else ""
    except NoReverseMatch:
        page = ""
    return f"{settings.BEACON_URL}{page}" if page else address


class DeltaItemQuerySet(models.QuerySet[Any]):
    """The questions asked of delta items."""

    def told(self) -> Self:
        """Keep what is told: what is listed and not withheld, for whatever reason."""
        return self.filter(status__in=DeltaItem.LISTED, withheld="")

    def supported(self) -> Self:
        """Keep what is remembered: also what the topic's intent withholds, which is true."""
        return self.exclude(UNSUPPORTED)


# Withheld by nobody's judgement: the check of the citations found that its source does not say it.
UNSUPPORTED = Q(judged_by="") & ~Q(withheld="")


class DeltaItem(models.Model):
    """One changed fact: the new sentence beside the old, each with where it stands.

    `previous_source` is what was known of the old sentence's source at the time: `{link, title,
    domain, published_at, quote}`, empty where a person gave none.  `unsure` marks a change for
    which the old fact was not given up: a person is to look at the two.  `compared_by` names what
    told how the two stand to each other: "words", "words and vectors", or "model" and its name.
    `conflict` is where the two wait on the conflict desk, or were settled.

    `withheld` says why it is not told.  Without `judged_by` its source does not say it, and it is
    not remembered either; with it, it is true and known, and somebody judged that the owner did not
    ask to be told: the topic's intent by a model or by the rule, or a muted source.  `judged` is
    what was said for telling or withholding it; a person who asked to be told after all is the judge
    from then on.
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
    unsure = models.BooleanField(default=False)
    compared_by = models.CharField(max_length=200, blank=True)
    conflict = models.ForeignKey(Conflict, models.SET_NULL, null=True, blank=True, related_name="+")
    citations = ArrayField(models.PositiveIntegerField(), default=list, blank=True)
    quote = models.TextField(blank=True)
    withheld = models.TextField(blank=True)
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
        """Whether it is of those that the section lists, and not of the folded ones."""
        return self.status in self.LISTED

    @property
    def model_name(self) -> str:
        """Return the model that told how it stands to what was known; empty where words did."""
        kind, _space, name = self.compared_by.partition(" ")
        return name if kind == "model" else ""

    @property
    def is_unasked(self) -> bool:
        """Whether it is true and remembered, and withheld because nobody asked to be told it."""
        return bool(self.withheld and self.judged_by)


# --- What a person says of a report's sentences: that they checked one, or that one is wrong ---


class SentenceQuerySet(OwnedQuerySet):
    """The questions asked of what people said of sentences."""

    def standing(self) -> Self:
        """Keep what was not taken back."""
        return self.filter(taken_back_at=None)

    def readable(self) -> Self:
        """Keep what is about reports that are not in the trash, nor their topics."""
        return self.filter(report__trashed_at=None, report__run__topic__trashed_at=None)


class OfSentence(models.Model):
    """Something said of one sentence of a report; `key` is the sentence's, as it is compared."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    sentence = models.TextField()
    key = models.CharField(max_length=16)
    by = models.CharField(max_length=200)  # an actor: `human:alice`
    created = models.DateTimeField(default=timezone.now)
    taken_back_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[SentenceQuerySet] = SentenceQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return shorten(self.sentence, 120)

    @property
    def name(self) -> str:
        """Return who said it, as people read it."""
        return self.by.partition(":")[2] or self.by


class CheckedSentence(OfSentence):
    """A person looked it up themselves, and vouches for a sentence."""

    report = models.ForeignKey(Report, models.CASCADE, related_name="checked_sentences")

    class Meta:
        ordering = ("created", "id")
        constraints = [
            models.UniqueConstraint(
                F("report"), F("key"), condition=Q(taken_back_at=None), name="sentence_checked_once"
            )
        ]
        indexes = [models.Index(fields=["owner", "-created"], name="checked_sentence_of_owner")]


class Correction(OfSentence):
    """A person said what is wrong with a sentence, and perhaps what is right.

    `lesson` is the observation that later runs are told; `corrected` names what became of facts.
    """

    topic = models.ForeignKey(Topic, models.CASCADE, related_name="corrections")
    report = models.ForeignKey(Report, models.CASCADE, related_name="corrections")
    wrong = models.TextField(gettext_lazy("what is wrong"))
    right = models.TextField(gettext_lazy("what is right"), blank=True)
    lesson = models.ForeignKey(
        Observation, models.SET_NULL, null=True, blank=True, related_name="+"
    )

    class Meta:
        ordering = ("-created", "-id")
        constraints = [
            models.UniqueConstraint(
                F("report"),
                F("key"),
                condition=Q(taken_back_at=None),
                name="sentence_corrected_once",
            )
        ]
        indexes = [
            models.Index(fields=["topic", "-created"], name="correction_of_topic"),
            models.Index(fields=["owner", "-created"], name="correction_of_owner"),
        ]


class CorrectedFact(models.Model):
    """What a correction did to one topic fact; `version` is the fact's after it."""

    class Act(models.TextChoices):
        CORRECTED = "corrected", gettext_lazy("corrected")
        STRUCK = "struck", gettext_lazy("marked as wrong")

    id = models.BigAutoField(primary_key=True)
    correction = models.ForeignKey(Correction, models.CASCADE, related_name="facts")
    fact = models.ForeignKey(TopicFact, models.CASCADE, related_name="+")
    act = models.CharField(max_length=9, choices=Act)
    before = models.TextField()
    after = models.TextField(blank=True)
    version = models.PositiveIntegerField()
    was_touched = models.BooleanField(default=False)  # by a person, before
    was_trust = models.CharField(max_length=12, choices=Trust, default=Trust.EXTERNAL)

    objects: ClassVar[models.Manager[Any]] = models.Manager()

    class Meta:
        ordering = ("id",)
        constraints = [
            models.UniqueConstraint(F("correction"), F("fact"), name="fact_corrected_once_by_each")
        ]

    def __str__(self) -> str:
        return f"{self.get_act_display()}: {self.before[:80]}"


# --- Links by which somebody without an account reads one report ---

MOST_NOTE = 150  # characters


class SharedLinkQuerySet(OwnedQuerySet):
    """The questions asked of shared links."""

    def working(self, now: datetime | None = None) -> Self:
        """Keep links that open their report: neither ended nor past their end."""
        return self.filter(ended_at=None, ends_at__gt=now or timezone.now())

    def readable(self) -> Self:
        """Keep links whose report is not in the trash, nor its topic."""
        return self.filter(report__trashed_at=None, report__run__topic__trashed_at=None)


class SharedLink(PrivateLink):
    """A private link to one report, with an end."""

    SALT, VIEW = "beacon.shared-report", "research:shared-report"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    report = models.ForeignKey(Report, models.CASCADE, related_name="shared_links")
    note = models.CharField(max_length=150, blank=True)  # for the owner alone: who has it
    ends_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    opened = models.PositiveIntegerField(default=0)
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
        """Return the topic's id, so that a line of the activity log names it."""
        return self.report.run.topic_id
