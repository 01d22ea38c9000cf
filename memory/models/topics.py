"""Topics, rules for web sources, and the URLs and pages that runs have read."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.db import IntegrityError, models, transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from beacon_site.db.message_fields import with_words
from beacon_site.text.cleaning import clean, is_visible, one_line, slug_of
from beacon_site.text.messages import gettext as _
from memory.models import as_of
from memory.models.accounts import ON_ACCOUNT_CREATE, User
from memory.models.actors import Actor
from memory.models.chat import Reflection
from memory.models.conflicts import Conflict
from memory.models.errors import InvalidValue
from memory.models.history import Activity, ModelCall, OwnedQuerySet, Revision, Use
from memory.models.proposals import Proposal
from memory.models.ratings import Rating
from memory.models.remembered import Remembered, RememberedQuerySet


class PublishDue(models.Model):
    """A published copy in Redis that is out of date, by owner and slug.

    Created with the change and deleted once Redis is updated. It outlives the topic, because the
    copy of a purged topic must be deleted. There is one row per change, so that no change waits for
    another.
    """

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    slug = models.CharField(max_length=80)
    tried_at = models.DateTimeField(null=True, editable=False)
    created = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("id",)
        verbose_name = gettext_lazy("topic to publish")
        verbose_name_plural = gettext_lazy("topics to publish")
        indexes = [models.Index(fields=["owner", "slug"], name="publish_due_of_slug")]

    def __str__(self) -> str:
        return self.slug


# --- source rules ---


class SourceRule(models.Model):
    """A domain or canonical URL that all of a person's topics block, boost or mute.

    A topic's own rule for the source takes precedence (`research.services.sources.figures`).
    """

    class Act(models.TextChoices):
        BLOCK = "block", gettext_lazy("block")
        BOOST = "boost", gettext_lazy("boost")
        MUTE = "mute", gettext_lazy("mute")

    MAX = 200  # per person, since each run reads all of them

    id = models.BigAutoField(primary_key=True)
    owner = models.ForeignKey("memory.User", models.CASCADE, related_name="+")
    place = models.TextField(gettext_lazy("place"))
    act = models.CharField(gettext_lazy("action"), max_length=5, choices=Act)
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[SourceRule]] = OwnedQuerySet.as_manager()

    class Meta:
        ordering = ("place",)
        constraints = [
            models.UniqueConstraint(fields=["owner", "place"], name="source_rule_once_a_place")
        ]

    def __str__(self) -> str:
        return f"{self.act} {self.place[:200]}"


# --- topics ---

TITLE_LENGTH = 500
NAME_ONCE = "topic_slug_once_an_owner"


class NameTakenError(InvalidValue):
    """Another topic, at `slug`, has the same title."""

    def __init__(self, message: str, *, errors: dict[str, Any], slug: str) -> None:
        super().__init__(message, errors=errors)
        self.slug = slug


class TopicQuerySet(RememberedQuerySet):
    def shared_with(self, user: Any, *roles: str) -> Self:
        """Keep other people's topics that `user` can read as a member, in one of `roles` if given.

        This is the only way to another person's topic. A topic in Trash, a sensitive or quarantined
        one, and one whose owner's account is disabled are shared with no one.
        """
        mine = Membership.objects.filter(user=user)
        if roles:
            mine = mine.filter(role__in=roles)
        rows = self.live().for_agents().filter(owner__is_active=True)
        return rows.filter(pk__in=mine.values("topic"))

    def active(self) -> Self:
        """Keep topics that are neither archived nor in Trash."""
        return self.live().filter(archived_at=None)

    def matching(self, words: str) -> Self:
        """Keep topics with all words of `words` in their title, labels or summary."""
        return with_words(self, words, "title", "summary", "labels")

    def titled(self, user: User, title: str) -> Topic | None:
        """Return the user's topic with exactly this title (normalized, never fuzzy; R3)."""
        return self.for_user(user).live().filter(slug=slug_of(title)).first()

    def renamed_from(self, user: Any, slug: str) -> Topic | None:
        """Return the user's topic that had this slug before it was renamed.

        None if there is none, or if another topic has this slug now, also in Trash.
        """
        mine = self.for_user(user)
        if mine.filter(slug=slug).exists():
            return None
        renames = Revision.objects.filter(
            owner=user, record_type=Topic.record_type(), before__slug=slug
        )
        return mine.live().filter(pk__in=renames.values("record_id")).order_by("-updated").first()

    def by_slug(self, user: Any, slug: str) -> Topic | None:
        """Return the user's topic with this slug, or the one that had it before it was renamed.

        An earlier date that is being read doesn't matter: it looks at the topics of today.
        """
        with as_of.present():
            topic = self.for_user(user).live().filter(slug=slug).first()
            return topic or self.renamed_from(user, slug)

    def create_topic(
        self, *, owner: User, title: str, by: Actor, source: str = "explicit", **fields: Any
    ) -> Topic:
        """Create a topic with its first revision.

        Raises InvalidValue for a title that is empty, longer than 500 characters, or already used
        by one of the owner's topics outside Trash.
        """
        title = one_line(clean(title)[0])
        topic = Topic(owner=owner, title=title, slug=slug_of(title), source=source, **fields)
        topic.check_title()
        with transaction.atomic(), topic.name_once():
            topic.save(force_insert=True)
            Revision.record_first([topic], by=by, source=source)
            Activity.log(owner, by, "topic-created", subject=topic)
        return topic


class Topic(Remembered):
    """A subject of recurring research, and what is known about it.

    Its working memory (facts, seen URLs, summary) is live until `expires_at`. A save renews it, a
    read doesn't (R10, R12). Expired memory is kept, but not loaded until a person restores it.
    `memory_runs` counts the runs saved since the memory began.
    """

    REVISED = ("title", "slug", "summary", "labels", "private", "archived_at", "expires_at")

    # Called in the transaction of each change of a topic or its facts, with the owner's ID, the topic's
    # ID and a slug (empty: the current one): memory.services.topic_memory updates the published copy.
    ON_CHANGE: ClassVar[list[Callable[[Any, Any, str], object]]] = []
    # Called the same way when the title changes, since it is also a search label of the topic's records.
    ON_RENAME: ClassVar[list[Callable[[Any], object]]] = []
    # Called with a topic that is about to be deleted, before its reports are deleted with it.
    ON_PURGE: ClassVar[list[Callable[[Any], object]]] = []
    # Called the same way. Each returns another app's records that are deleted with the topic.
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

    def get_absolute_url(self) -> str:
        return reverse("research:topic", args=[self.slug])

    @classmethod
    def notify_changed(cls, owner_id: Any, topic_id: Any, slug: str = "") -> None:
        """Notify copies elsewhere of a change, in its transaction."""
        for follow in cls.ON_CHANGE:
            follow(owner_id, topic_id, slug)

    def check_title(self) -> None:
        """Raise InvalidValue if the title can't be used."""
        problem = ""
        if not is_visible(self.title):
            problem = _("Enter a topic to research.")
        elif len(self.title) > TITLE_LENGTH:
            problem = _(
                "A topic’s name can have at most %(most)d characters, but this one has %(have)d."
            ) % {
                "most": TITLE_LENGTH,
                "have": len(self.title),
            }
        elif self._twin() is not None:
            raise self._name_taken()
        if problem:
            raise InvalidValue(problem, errors={"title": [problem]})

    def _name_taken(self) -> NameTakenError:
        problem = _("You already have a topic named “%(title)s”.") % {"title": self.title}
        return NameTakenError(problem, errors={"title": [problem]}, slug=self.slug)

    @contextmanager
    def name_once(self) -> Iterator[None]:
        """Raise InvalidValue if the database finds that another topic took the name at the same
        time.

        `check_title` can't see uncommitted topics, so the constraint decides.
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
        return twins.exclude(pk=self.pk).first()

    def change(self, **kwargs: Any) -> Self:
        """Change the topic as Remembered.change does, and update its copies elsewhere."""
        slug, title = self.slug, self.title
        with transaction.atomic():
            changed = super().change(**kwargs)
            for text in {slug, self.slug}:
                self.notify_changed(self.owner_id, self.pk, text)
            if self.title != title:
                for follow in self.ON_RENAME:
                    follow(self)
        return changed

    # --- memory ---

    def memory_is_live(self, at: datetime | None = None) -> bool:
        """Return True if there is memory that a run would load at `at` (default: now)."""
        return self.expires_at is not None and self.expires_at > (at or timezone.now())

    @property
    def memory_has_lapsed(self) -> bool:
        """Return True if the memory has expired. A person can restore it."""
        return self.expires_at is not None and not self.memory_is_live()

    def expire_now(self, *, by: Actor) -> None:
        """Expire the working memory now. Runs, reports and the timeline are kept."""
        if self.memory_is_live():
            self.change(
                by=by, why=_("memory manually marked as expired"), expires_at=timezone.now()
            )

    def revive(self, *, by: Actor, until: datetime) -> None:
        """Restore expired memory until `until`, unless a run renews it."""
        if self.memory_has_lapsed:
            self.change(by=by, why=_("memory restored"), expires_at=until)

    # --- changes by people ---

    def rename(self, title: str, *, by: Actor, expected_version: int | None = None) -> None:
        """Change the title and with it the slug. The memory is kept."""
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
        """Archive the topic. It keeps everything, but its schedule no longer runs."""
        self.change(by=by, why=_("archived"), archived_at=timezone.now())

    def unarchive(self, *, by: Actor) -> None:
        self.change(by=by, why=_("unarchived"), archived_at=None)

    def restore(self, *, by: Actor) -> None:
        """Restore the topic from Trash, under a free title if another one has its title now.

        Raises InvalidValue if another topic takes that title at the same time.
        """
        if self.trashed_at is None:
            return
        with transaction.atomic():
            if self._twin() is not None:
                self.rename(self._free_title(), by=by)
            with self.name_once():
                self.change(by=by, why=_("restored from Trash"), trashed_at=None)

    def _free_title(self) -> str:
        """Return the title with the first number that none of the owner's topics uses."""
        mine = Topic.objects.filter(owner=self.owner).live()
        taken = set(mine.values_list("slug", flat=True))
        endings = (f" ({number})" for number in itertools.count(2))
        titles = (self.title[: TITLE_LENGTH - len(ending)] + ending for ending in endings)
        return next(title for title in titles if slug_of(title) not in taken)

    def purge(self, *, by: Actor) -> None:
        """Delete the topic permanently, with its facts, runs, reports and the pages read for it.

        Its observations and notes are deleted wherever they are shown. Model calls are kept for
        accounting without their text, and the log without names and text, including those under
        earlier titles.
        """
        with transaction.atomic():
            self._hold_in_trash()  # locked before dependent rows, in the same order as a restore
            finish = self.prepare_purge(self._hanging(), by=by)
            ModelCall.objects.filter(topic=self).update(prompt=[], answer="", error="")
            facts = self.facts.values_list("pk", flat=True)
            Use.objects.filter(record_id__in=facts).delete()
            Rating.forget(facts)
            Activity.forget([], topic=self)
            self._forget_reflections()
            for forget in self.ON_PURGE:
                forget(self)
            self._purge_own_records(by)
            super().purge(by=by)
            self.notify_changed(self.owner_id, None, self.slug)
            finish()

    def _hanging(self) -> Iterator[Remembered]:
        """Return the records that are deleted with the topic, except its facts."""
        yield from self.notes.all()
        yield from self.observations.all()
        yield from self.content_items.all()
        for hanging in self.HANGING:
            yield from hanging(self)

    def _forget_reflections(self) -> None:
        """Blank the text of reflections on its runs, and delete their pending proposals.

        What a person accepted is kept.
        """
        reflections = Reflection.objects.filter(topic=self)
        sources = list(reflections.values_list("source", flat=True))
        Proposal.forget(models.Q(owner=self.owner_id, source__in=sources))
        reflections.update(assessment="", why="", calls=[], changes=[])

    def _purge_own_records(self, by: Actor) -> None:
        """Delete the topic's observations and notes. Notes that they superseded elsewhere stay
        superseded.
        """
        notes, observations = list(self.notes.all()), list(self.observations.all())
        for note in notes[:1]:
            note.unlink_from_chains(notes, by=by)
        for own in (notes, observations):
            for record in own[:1]:
                record.unfollow(own)
            ids = [record.pk for record in own]
            Use.objects.filter(record_id__in=ids).delete()
            Rating.forget(ids)
            Activity.forget(ids)
            Proposal.forget(models.Q(target_id__in=ids) | models.Q(result_id__in=ids))
            Conflict.forget(ids)
            Revision.forget(own)
        self.observations.all().delete()
        self.notes.all().delete()

    def purged_with(self) -> list[Remembered]:
        """Return the topic and its facts, whose history is deleted with it."""
        return [self, *self.facts.all()]


# --- seen URLs and sources ---


class TopicRowQuerySet(OwnedQuerySet):
    """Queries for rows that are owned through a topic."""

    OWNER = "topic__owner"


class SeenUrl(models.Model):
    """A canonical URL that a search returned for the topic. The 500 most recent are kept.

    `returned_in` and `place` say when it was last returned: a later run, or a later place in the
    same run, is newer. The oldest are deleted first (R16).
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
    """A page that was read or cited for the topic, with its domain."""

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
    # Version headers of the page from the last recheck, for a conditional request.
    etag = models.CharField(max_length=300, blank=True)
    last_modified = models.CharField(max_length=100, blank=True)

    objects: ClassVar[models.Manager[Any]] = TopicRowQuerySet.as_manager()

    class Meta:
        ordering = ("-last_run", "id")
        constraints = [models.UniqueConstraint(fields=["topic", "url"], name="source_once_a_topic")]
        indexes = [models.Index(fields=["topic", "-last_run", "id"], name="source_of_topic")]

    def __str__(self) -> str:
        return self.title or self.url


# --- members ---


class Membership(models.Model):
    """Another person's access to a topic.

    Only its owner adds and removes members, and sets their roles. A viewer reads, a commenter also
    writes comments on reports, and an editor also starts runs and edits what they look for. `read_run` is the number of the last run whose report
    the member has read: each reader has their own mark, and the owner's is on the reports.

    `username` is as the owner typed it. Without an account of that name, `user` is null until there
    is one, and the owner sees no difference: sharing doesn't reveal which accounts exist. After
    WAITS, a new account gets no access, since the name may be another person's by then.
    """

    class Role(models.TextChoices):
        VIEWER = "viewer", gettext_lazy("viewer")
        COMMENTER = "commenter", gettext_lazy("commenter")
        EDITOR = "editor", gettext_lazy("editor")

    MAX = 50  # per topic
    MAX_PER_HOUR = 20  # added by one person
    WAITS = timedelta(days=30)  # for an account of the name

    id = models.BigAutoField(primary_key=True)
    topic = models.ForeignKey(Topic, models.CASCADE, related_name="members")
    user = models.ForeignKey("memory.User", models.CASCADE, null=True, related_name="memberships")
    username = models.CharField(max_length=150)
    role = models.CharField(gettext_lazy("role"), max_length=10, choices=Role, default=Role.VIEWER)
    read_run = models.PositiveIntegerField(default=0)
    notify = models.BooleanField(default=False)  # about new reports, in the member's own channels
    created = models.DateTimeField(default=timezone.now)

    objects: ClassVar[models.Manager[Membership]] = models.Manager()

    class Meta:
        ordering = ("created", "id")
        constraints = [
            models.UniqueConstraint(fields=["topic", "username"], name="member_once_a_topic")
        ]

    def __str__(self) -> str:
        return self.username


def _give_access(user: User) -> None:
    """Give a new account access to the topics that were shared with its name lately."""
    since = timezone.now() - Membership.WAITS
    waiting = Membership.objects.filter(user=None, username=user.get_username())
    waiting.filter(created__gt=since).update(user=user)


ON_ACCOUNT_CREATE.append(_give_access)
