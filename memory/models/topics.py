"""Marks of topics whose published copy is to be brought up to date."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.db import IntegrityError, models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import clean, is_visible, one_line
from beacon_site.text.slugs import slug_of
from memory.core.actors import Actor
from memory.core.errors import InvalidValue
from memory.models.accounts import User
from memory.models.conflicts import Conflict
from memory.models.history import Activity, ModelCall, OwnedQuerySet, Revision, Use
from memory.models.proposals import Proposal
from memory.models.reflection import Reflection
from memory.models.remembered import Remembered, RememberedQuerySet


class PublishDue(models.Model):
    """That what Redis holds under an owner's slug is behind the database.

    It is stored with the change and deleted once Redis has followed, and it outlives the topic:
    the copy of a purged one must go.  One row for each change, so that no change waits for another.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    slug = models.CharField(max_length=80)
    tried_at = models.DateTimeField(null=True, editable=False)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("id",)
        verbose_name = gettext_lazy("copy to publish")
        verbose_name_plural = gettext_lazy("copies to publish")
        indexes = [models.Index(fields=["owner", "slug"], name="publish_due_of_slug")]

    def __str__(self) -> str:
        return self.slug


# --- How a person wants one place of the web treated by the runs of all their topics ---


class SourceRule(models.Model):
    """A place (a domain, or a page's canonical address) that all topics block, boost or mute.

    What a topic itself says of the place goes before it (`research.sources.rules`).
    """

    class Act(models.TextChoices):
        BLOCK = "block", gettext_lazy("block")
        BOOST = "boost", gettext_lazy("boost")
        MUTE = "mute", gettext_lazy("mute")

    MOST = 200  # of one person: each run reads them all

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    place = models.TextField(gettext_lazy("place"))
    act = models.CharField(gettext_lazy("act"), max_length=5, choices=Act)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[SourceRule]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("place",)
        constraints = [
            models.UniqueConstraint(fields=["owner", "place"], name="source_rule_once_a_place")
        ]

    def __str__(self) -> str:
        return f"{self.act} {self.place[:200]}"


# --- Topics: what is researched again and again, and what is known of each ---

TITLE_LENGTH = 500
NAME_ONCE = "topic_slug_once_an_owner"


class NameTaken(InvalidValue):
    """Another topic, that at `slug`, has the title."""

    def __init__(self, message: str, *, errors: dict[str, Any], slug: str) -> None:
        super().__init__(message, errors=errors)
        self.slug = slug


class TopicQuerySet(RememberedQuerySet):
    """The questions asked of topics."""

    def active(self) -> Self:
        """Keep topics neither archived nor in the trash."""
        return self.live().filter(archived_at=None)

    def matching(self, words: str) -> Self:
        """Keep topics whose title, labels or summary hold every word of `words`."""
        found = self
        for word in words.split():
            found = found.filter(
                Q(title__icontains=word) | Q(summary__icontains=word) | Q(labels__icontains=word)
            )
        return found

    def titled(self, user: User, title: str) -> Topic | None:
        """Return the user's topic of exactly this title (normalised, never fuzzy; R3)."""
        found: Topic | None = self.of(user).live().filter(slug=slug_of(title)).first()
        return found

    def create_topic(
        self, *, owner: User, title: str, by: Actor, source: str = "explicit", **fields: Any
    ) -> Topic:
        """Make a topic with its first revision.

        Raises InvalidValue for a title that is empty, longer than 500 characters or already the
        owner's (outside the trash).
        """
        title = one_line(clean(title)[0])
        topic = Topic(owner=owner, title=title, slug=slug_of(title), source=source, **fields)
        topic.check_title()
        with transaction.atomic(), topic.name_once():
            topic.save(force_insert=True)
            Revision.record_first([topic], by=by, source=source)
            Activity.log(owner, by, "topic-made", subject=topic)
        return topic


class Topic(Remembered):
    """A subject researched again and again, with what is known of it.

    Its working memory (facts, seen URLs, summary) is alive until `expires_at`; a save renews it,
    a read does not (R10, R12).  Once lapsed it is kept but not loaded, until a person revives it.
    `memory_runs` counts the saved runs since that memory began.
    """

    REVISED = ("title", "slug", "summary", "labels", "private", "archived_at", "expires_at")

    # Called in the transaction of each change of a topic or its facts, with its owner's id, its own
    # id and a slug (empty: the one it has): memory.topics.publishing keeps a copy that must follow.
    ON_CHANGE: ClassVar[list[Callable[[Any, Any, str], object]]] = []
    # Called likewise with a topic that has another title: records of it are found by that too.
    ON_RENAME: ClassVar[list[Callable[[Any], object]]] = []
    # Called with a topic that is about to be deleted: reports go with it, and nothing tells them.
    ON_PURGE: ClassVar[list[Callable[[Any], object]]] = []
    # Called likewise; each returns records of another app that are deleted with the topic.
    HANGING: ClassVar[list[Callable[[Any], Iterable[Remembered]]]] = []

    title = models.CharField(gettext_lazy("topic"), max_length=TITLE_LENGTH)
    slug = models.CharField(max_length=80)
    summary = models.TextField(gettext_lazy("summary"), blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    run_count = models.PositiveIntegerField(default=0)
    memory_runs = models.PositiveIntegerField(default=0)
    last_run_at = models.DateTimeField(null=True, blank=True)
    labels = ArrayField(
        models.CharField(max_length=40),
        default=list,
        blank=True,
        verbose_name=gettext_lazy("labels"),
    )
    archived_at = models.DateTimeField(null=True, blank=True)
    private = models.BooleanField(gettext_lazy("private"), default=False)
    read_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[TopicQuerySet] = TopicQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "slug"],
                condition=Q(trashed_at=None),
                name=NAME_ONCE,
            )
        ]
        indexes = [models.Index(fields=["owner", "-created", "-id"], name="topic_of_owner")]

    def __str__(self) -> str:
        return self.title

    @classmethod
    def notify_changed(cls, owner_id: Any, topic_id: Any, slug: str = "") -> None:
        """Let what is kept of a topic elsewhere follow a change, in the change's transaction."""
        for follow in cls.ON_CHANGE:
            follow(owner_id, topic_id, slug)

    def check_title(self) -> None:
        """Raise InvalidValue unless the title can be used."""
        problem = ""
        if not is_visible(self.title):
            problem = _("Name the topic. What should Beacon research?")
        elif len(self.title) > TITLE_LENGTH:
            problem = _(
                "A topic can have at most %(most)d characters, but this one has %(have)d."
            ) % {
                "most": TITLE_LENGTH,
                "have": len(self.title),
            }
        elif self._twin() is not None:
            raise self._name_taken()
        if problem:
            raise InvalidValue(problem, errors={"title": [problem]})

    def _name_taken(self) -> NameTaken:
        problem = _("You already have a topic named “%(title)s”.") % {"title": self.title}
        return NameTaken(problem, errors={"title": [problem]}, slug=self.slug)

    @contextmanager
    def name_once(self) -> Iterator[None]:
        """Raise InvalidValue where the database finds that another took the name meanwhile.

        `check_title` cannot see a topic whose transaction is still open: the constraint decides.
        """
        try:
            with transaction.atomic():
                yield
        except IntegrityError as exc:
            if NAME_ONCE not in str(exc):
                raise
            raise self._name_taken() from exc

    def _twin(self) -> Topic | None:
        twins = Topic.objects.filter(owner=self.owner, slug=self.slug).live()
        found: Topic | None = twins.exclude(pk=self.pk).first()
        return found

    def change(self, **kwargs: Any) -> Self:
        """Change the topic as Remembered.change does, and let its copies elsewhere follow."""
        slug, title = self.slug, self.title
        with transaction.atomic():
            changed = super().change(**kwargs)
            for told in {slug, self.slug}:
                self.notify_changed(self.owner_id, self.pk, told)
            if self.title != title:
                for follow in self.ON_RENAME:
                    follow(self)
        return changed

    # --- its memory ---------------------------------------------------------------------------

    def memory_is_live(self, at: datetime | None = None) -> bool:
        """Whether there is memory that a run would load at `at` (default: now)."""
        return self.expires_at is not None and self.expires_at > (at or timezone.now())

    @property
    def memory_has_lapsed(self) -> bool:
        """Whether there was memory that has expired; a person may revive it."""
        return self.expires_at is not None and not self.memory_is_live()

    def let_lapse(self, *, by: Actor) -> None:
        """End the working memory now; runs, reports and the timeline stay."""
        if self.memory_is_live():
            self.change(by=by, why=_("memory expired by hand"), expires_at=timezone.now())

    def revive(self, *, by: Actor, until: datetime) -> None:
        """Bring lapsed memory back, to expire at `until` unless a run renews it."""
        if self.memory_has_lapsed:
            self.change(by=by, why=_("memory restored"), expires_at=until)

    # --- a person's acts ----------------------------------------------------------------------

    def rename(self, title: str, *, by: Actor, expected_version: int | None = None) -> None:
        """Give the topic another title, and with it another slug; its memory stays its own."""
        renamed = Topic(pk=self.pk, owner=self.owner, title=one_line(clean(title)[0]))
        renamed.slug = slug_of(renamed.title)
        renamed.check_title()
        with renamed.name_once():
            self.change(
                by=by,
                expected_version=expected_version,
                why=_("renamed"),
                title=renamed.title,
                slug=renamed.slug,
            )

    def archive(self, *, by: Actor) -> None:
        """Put the topic away: it keeps everything, but is not run by its schedule."""
        self.change(by=by, why=_("archived"), archived_at=timezone.now())

    def unarchive(self, *, by: Actor) -> None:
        """Take the topic back from the archive."""
        self.change(by=by, why=_("unarchived"), archived_at=None)

    def restore(self, *, by: Actor) -> None:
        """Bring the topic back from the trash, under a free name if another has its own meanwhile.

        Raises InvalidValue if another takes that very name at this moment.
        """
        if self.trashed_at is None:
            return
        with transaction.atomic():
            if self._twin() is not None:
                self.rename(self._free_title(), by=by)
            with self.name_once():
                self.change(by=by, why=_("restored from Trash"), trashed_at=None)

    def _free_title(self) -> str:
        """Return the title with the first number that no topic of the owner's has."""
        mine = Topic.objects.filter(owner=self.owner).live()
        taken = set(mine.values_list("slug", flat=True))
        endings = (f" ({number})" for number in itertools.count(2))
        titles = (self.title[: TITLE_LENGTH - len(ending)] + ending for ending in endings)
        return next(title for title in titles if slug_of(title) not in taken)

    def purge(self, *, by: Actor) -> None:
        """Delete the topic with its facts, runs, reports and the pages read for it, for good.

        The observations and notes that were made for it go too, wherever they are shown.
        Model calls stay for the accounts, without what was said; so does the log, without names
        and words, also of the time when the topic had another name.
        """
        with transaction.atomic():
            self._hold_in_trash()  # before what hangs on it, as whoever restores it does
            finish = self.prepare_purge(self._hanging(), by=by)
            ModelCall.objects.filter(topic=self).update(prompt=[], answer="", error="")
            facts = self.facts.values_list("pk", flat=True)
            Use.objects.filter(record_id__in=facts).delete()
            Activity.forget([], topic=self)
            self._forget_reflections()
            for forget in self.ON_PURGE:
                forget(self)
            self._purge_own_records(by)
            super().purge(by=by)
            self.notify_changed(self.owner_id, None, self.slug)
            finish()

    def _hanging(self) -> Iterator[Remembered]:
        """Return what is deleted along with the topic, its facts aside."""
        yield from self.notes.all()
        yield from self.observations.all()
        yield from self.content_items.all()
        for hanging in self.HANGING:
            yield from hanging(self)

    def _forget_reflections(self) -> None:
        """Blank what was said in looking back on its runs, and drop what that proposed.

        What a person accepted is theirs and stays.
        """
        reflections = Reflection.objects.filter(topic=self)
        sources = list(reflections.values_list("source", flat=True))
        Proposal.forget(models.Q(owner=self.owner_id, source__in=sources))
        reflections.update(assessment="", why="", calls=[], changes=[])

    def _purge_own_records(self, by: Actor) -> None:
        """Delete the topic's observations and notes; what a note superseded elsewhere stays."""
        notes, observations = list(self.notes.all()), list(self.observations.all())
        for note in notes[:1]:
            note.let_go(notes, by=by)
        for own in (notes, observations):
            for record in own[:1]:
                record.unfollow(own)
            ids = [record.pk for record in own]
            Use.objects.filter(record_id__in=ids).delete()
            Activity.forget(ids)
            Proposal.forget(models.Q(target_id__in=ids) | models.Q(result_id__in=ids))
            Conflict.forget(ids)
            Revision.forget(own)
        self.observations.all().delete()
        self.notes.all().delete()

    def purged_with(self) -> list[Remembered]:
        """Return the topic and its facts, whose history goes with it."""
        return [self, *self.facts.all()]


# --- Where a topic's knowledge came from: the URLs it has seen, and the pages it has read ---


class TopicRowQuerySet(models.QuerySet[Any]):
    """Rows that hang on a topic and are owned through it."""

    def of(self, user: Any) -> Self:
        """Keep what `user` owns: the one owner filter."""
        return self.filter(topic__owner=user)


class SeenUrl(models.Model):
    """A canonical URL that a search returned for the topic; the 500 last returned are kept.

    `returned_in` and `place` say when it was returned last: a later run, or a later place in the
    same run, is newer.  The oldest drop out first (R16).
    """

    id = models.BigAutoField(primary_key=True)
    topic = models.ForeignKey(Topic, models.CASCADE, related_name="seen_urls")
    url = models.TextField()
    returned_in = models.PositiveIntegerField()
    place = models.PositiveIntegerField(default=0)
    returned_at = models.DateTimeField()

    objects: ClassVar[models.Manager[Any]] = TopicRowQuerySet.as_manager()

    class Meta:
        ordering = ("-returned_in", "place")
        constraints = [
            models.UniqueConstraint(fields=["topic", "url"], name="seen_url_once_a_topic")
        ]
        indexes = [
            models.Index(fields=["topic", "-returned_in", "place"], name="seen_url_of_topic")
        ]

    def __str__(self) -> str:
        return self.url


class Source(models.Model):
    """A page that was ever read or cited for the topic, with its domain."""

    id = models.BigAutoField(primary_key=True)
    topic = models.ForeignKey(Topic, models.CASCADE, related_name="sources")
    url = models.TextField()
    link = models.TextField(blank=True)
    domain = models.CharField(max_length=255)
    title = models.CharField(max_length=500, blank=True)
    published_at = models.DateField(null=True, blank=True)
    first_run = models.PositiveIntegerField()
    last_run = models.PositiveIntegerField()
    times_read = models.PositiveIntegerField(default=0)
    times_cited = models.PositiveIntegerField(default=0)
    first_at = models.DateTimeField(default=timezone.now)
    last_at = models.DateTimeField(default=timezone.now)
    # What the server said of the page's version when a recheck read it: asked for again by that.
    etag = models.CharField(max_length=300, blank=True)
    last_modified = models.CharField(max_length=100, blank=True)

    objects: ClassVar[models.Manager[Any]] = TopicRowQuerySet.as_manager()

    class Meta:
        ordering = ("-last_run", "id")
        constraints = [models.UniqueConstraint(fields=["topic", "url"], name="source_once_a_topic")]
        indexes = [models.Index(fields=["topic", "-last_run", "id"], name="source_of_topic")]

    def __str__(self) -> str:
        return self.title or self.url
