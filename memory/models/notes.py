"""Notes: six kinds, each with its stability, expiry and evidence (seed 004)."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models, transaction
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from beacon_site.text.cleaning import in_brief
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.models.history import Revision
from memory.models.proposals import Proposal
from memory.models.remembered import OWNER_SCOPE, RememberedQuerySet, address
from memory.models.search_index import Recalled, list_indexes

MAX_CONTENT = 65_536  # bytes of UTF-8 in a note or an observation (issue 4: 64 KiB)
MAX_TAGS, MAX_TAG_LENGTH = 50, 80
MAX_EVIDENCE, MAX_EVIDENCE_LENGTH = 50, 2_000


class NoteQuerySet(RememberedQuerySet):
    def unexpired(self, at: datetime | None = None) -> Self:
        """Keep notes that haven't expired at `at` (default: now). A note expires exactly at its
        time (R193).
        """
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=at or timezone.now()))

    def expired(self, at: datetime | None = None) -> Self:
        return self.filter(expires_at__lte=at or timezone.now())

    def active(self, at: datetime | None = None) -> Self:
        """Keep notes not trashed, expired or superseded at `at` (default: now)."""
        return self.live().unexpired(at).filter(superseded_by=None)

    def tagged(self, *tags: str) -> Self:
        """Keep notes with any of the tags (R195)."""
        return self.filter(tags__overlap=list(tags))

    def current_identity(self) -> Self:
        """Keep the current soul, agent and user notes. These are never trashed, only superseded."""
        return self.live().filter(kind__in=Note.IDENTITY, superseded_by=None)


class Note(Recalled):
    """A note.

    `ttl_days` is what the writer asked for, and `expires_at` the resulting time. A replaced note
    names its successor in `superseded_by`. It is kept, but not recalled. `edited_by_person` keeps
    maintenance from merging or pruning the note. `job` names the run or session that
    wrote it.
    """

    class Kind(models.TextChoices):
        LOG = "log", _("log")
        SUMMARY = "summary", _("summary")
        RULE = "rule", _("rule")
        SOUL = "soul", _("soul")
        AGENT = "agent", _("agent")
        USER = "user", _("user")

    class Stability(models.TextChoices):
        VOLATILE = "volatile", _("temporary")
        STABLE = "stable", _("stable")
        PERMANENT = "permanent", _("permanent")

    IDENTITY = (Kind.SOUL, Kind.AGENT, Kind.USER)
    REVISED = (
        "kind", "content", "scope", "tags", "confidence", "stability", "ttl_days", "expires_at",
        "sensitivity", "evidence", "superseded_by_id", "pinned", "lock", "paused",
    )  # fmt: skip

    kind = models.CharField(_("type"), max_length=8, choices=Kind, default=Kind.LOG)
    content = models.TextField(_("note"))
    scope = models.CharField(_("scope"), max_length=200, default=OWNER_SCOPE)
    tags = ArrayField(
        models.CharField(max_length=MAX_TAG_LENGTH),
        default=list,
        blank=True,
        verbose_name=_("tags"),
    )
    confidence = models.FloatField(_("confidence"), default=1.0)
    stability = models.CharField(
        _("stability"), max_length=9, choices=Stability, default=Stability.STABLE
    )
    ttl_days = models.PositiveIntegerField(_("expires after"), null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    evidence = ArrayField(models.TextField(), default=list, blank=True, verbose_name=_("evidence"))
    job = models.CharField(max_length=200, blank=True)
    superseded_by = models.ForeignKey(
        "self", models.RESTRICT, null=True, blank=True, related_name="supersedes"
    )
    edited_by_person = models.BooleanField(default=False)
    # Kept, and found by `is:paused`, but in no prompt and hidden from agents.
    paused = models.BooleanField(_("paused"), default=False)
    topic = models.ForeignKey(
        "memory.Topic", models.SET_NULL, null=True, blank=True, related_name="notes"
    )

    objects: ClassVar[NoteQuerySet] = NoteQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("-created", "-id")
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["log", "summary", "rule", "soul", "agent", "user"]),
                name="note_kind_known",
            ),
            models.CheckConstraint(
                condition=Q(stability__in=["volatile", "stable", "permanent"]),
                name="note_stability_known",
            ),
            models.CheckConstraint(
                condition=~Q(stability="permanent") | Q(expires_at=None, ttl_days=None),
                name="note_permanent_never_expires",
            ),
            models.CheckConstraint(
                condition=Q(confidence__gte=0, confidence__lte=1), name="note_confidence_in_0_1"
            ),
            models.CheckConstraint(
                condition=~Q(superseded_by=F("id")), name="note_not_superseded_by_itself"
            ),
            models.UniqueConstraint(
                fields=["owner", "kind"],
                condition=Q(kind__in=["soul", "agent", "user"])
                & Q(superseded_by=None, trashed_at=None),
                name="note_one_active_identity",
            ),
        ]
        indexes = [
            *list_indexes("note", "kind"),
            models.Index(fields=["owner", "expires_at"], name="note_by_expiry"),
            models.Index(fields=["topic", "-created"], name="note_of_topic"),
            models.Index(
                fields=["owner", "kind", "-created"], name="note_pinned", condition=Q(pinned=True)
            ),
            GinIndex(fields=["tags"], name="note_by_tag"),
        ]

    # The fields from which unstorable characters were removed, for a warning to the writer.
    cleaned: tuple[str, ...] = ()

    def __str__(self) -> str:
        return in_brief(self.content, 120)

    def get_absolute_url(self) -> str:
        return address("memory:note", self.pk)

    def search_text(self) -> str:
        """Return the content, which is all that recall searches (R75, R76)."""
        return self.content

    def has_expired(self, at: datetime | None = None) -> bool:
        """Return True if the note has expired at `at` (default: now), to the second (R193)."""
        return self.expires_at is not None and self.expires_at <= (at or timezone.now())

    @property
    def is_current_identity(self) -> bool:
        """Return True if this is the current soul, agent or user note."""
        is_superseded = self.superseded_by_id is not None
        return self.kind in self.IDENTITY and not is_superseded and self.trashed_at is None

    def trash(self, *, by: Actor, why: str = "", source: str = "") -> None:
        """Move the note to Trash. The notes it superseded stay superseded.

        Raises InvalidValue for the current soul, agent or user note.
        """
        if self.is_current_identity:
            problem = gettext(
                "The current %(kind)s note can’t be moved to Trash because every context begins with it. To replace it, write a new one under Agents or Settings."
            ) % {"kind": self.get_kind_display()}
            raise InvalidValue(problem, errors={"kind": [problem]})
        super().trash(by=by, why=why, source=source)

    def restore(self, *, by: Actor) -> None:
        """Restore the note from Trash.

        Raises InvalidValue for a soul, agent or user note if there is a newer one.
        """
        standing = Note.objects.filter(owner=self.owner_id, kind=self.kind).current_identity()
        is_second = self.superseded_by_id is None and standing.exclude(pk=self.pk).exists()
        if self.kind in self.IDENTITY and is_second:
            problem = gettext(
                "There’s a newer %(kind)s note. To restore the text of this one, go to Agents or Settings."
            ) % {"kind": self.get_kind_display()}
            raise InvalidValue(problem, errors={"kind": [problem]})
        super().restore(by=by)

    def purge(self, *, by: Actor) -> None:
        """Delete the note permanently, without bringing back the notes it superseded.

        They are superseded by the next note of the chain, or else move to Trash. This way no
        replaced note is recalled again, and nothing else is lost (docs/dev/decisions.md).
        """
        with transaction.atomic():
            self.unlink_from_chains([self], by=by)
            # A proposed merge holds the text of each of its notes.
            Proposal.forget(Q(record_type="note", after__versions__has_key=str(self.pk)))
            super().purge(by=by)

    @classmethod
    def unlink_from_chains(cls, notes: list[Note], *, by: Actor) -> None:
        """Remove `notes`, which will be deleted, from their chains."""
        going = {note.pk: note for note in notes}
        before = cls.objects.filter(superseded_by__in=going).exclude(pk__in=going)
        for old in before.select_for_update():
            next_id = old.superseded_by_id
            while next_id is not None and next_id in going:
                next_id = going[next_id].superseded_by_id
            old._follow_in_chain(next_id, by=by)

    def _follow_in_chain(self, successor_id: object, *, by: Actor) -> None:
        """Point to another successor, or move to Trash without one, even if locked."""
        now = timezone.now()
        fields: dict[str, object] = {"superseded_by_id": successor_id}
        if successor_id is None:
            fields["trashed_at"] = self.trashed_at or now
        before = self.snapshot(*fields)
        Note.objects.filter(pk=self.pk).update(version=F("version") + 1, updated=now, **fields)
        why = gettext("the note that replaced it was permanently deleted")
        Revision.record(self, before=before, after=fields, by=by, why=why, version=self.version + 1)
        for name, value in fields.items():
            setattr(self, name, value)
        Note.follow([self])
