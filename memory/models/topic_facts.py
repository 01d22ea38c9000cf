"""Topic facts: at most 10 current facts of a topic, and all earlier ones."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any, ClassVar, Self

from django.db import models, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy

from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import clean, match_key, plain, shorten, width
from beacon_site.text.messages import gettext as _
from beacon_site.text.values import identity
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached
from memory.models.history import Revision
from memory.models.remembered import Lock, RememberedQuerySet, Trust
from memory.models.search_index import Recalled
from memory.models.topics import Topic


class TopicFactQuerySet(RememberedQuerySet):
    """Queries for topic facts, and how people add to them."""

    def current(self) -> Self:
        return self.live().filter(state=TopicFact.State.CURRENT).order_by("position", "created")

    def struck(self) -> Self:
        """Keep facts that a person marked as wrong, which runs must not repeat."""
        return self.live().filter(state=TopicFact.State.STRUCK)

    def current_and_struck(self) -> tuple[list[TopicFact], list[TopicFact]]:
        """Return current and struck facts, in order, in one query."""
        pair = (TopicFact.State.CURRENT, TopicFact.State.STRUCK)
        facts = list(self.live().filter(state__in=pair).order_by("position", "created"))
        return tuple([fact for fact in facts if fact.state == state] for state in pair)  # type: ignore[return-value]

    def retired(self) -> Self:
        """Keep retired facts, the most recent first."""
        found = self.live().filter(state=TopicFact.State.RETIRED)
        return found.order_by("-retired_run", "position", "created")

    def behind(self, findings: Iterable[Any]) -> dict[Any, TopicFact]:
        """Return the fact that each finding repeats, by the finding's ID, in one query.

        A run stores a finding with exactly the text of its fact.
        """
        values = {(one.topic_id, one.content): one.pk for one in findings if one.topic_id}
        facts = self.live().filter(
            topic__in={topic for topic, _text in values}, text__in={text for _topic, text in values}
        )
        rows = {(fact.topic_id, fact.text): fact for fact in facts.order_by("created")}
        return {values[place]: fact for place, fact in rows.items() if place in values}

    def add(self, topic: Topic, text: str, *, by: Actor, url: str = "") -> TopicFact:
        """Add a fact that `by` wrote.

        If there are already 10 current facts, the last one that no person has touched is retired.
        Raises InvalidValue for a text that is too short, struck or current, and LimitReached if
        people keep 8 already.
        """
        text = TopicFact.checked_text(text)
        with transaction.atomic():
            Topic.objects.select_for_update().get(pk=topic.pk)
            current = list(self.filter(topic=topic).current())
            TopicFact.check_room(current)
            TopicFact.check_words(topic.pk, text)
            replaceable = [fact for fact in current if not fact.is_kept]
            if len(current) >= TopicFact.MAX_CURRENT:
                replaceable[-1].retire(
                    by=by,
                    why=_("removed to make room for a fact you wrote"),
                    how=TopicFact.RetiredAs.OUTRANKED,
                )
            fact = TopicFact(
                owner=topic.owner,
                topic=topic,
                text=text,
                url=url,
                key=match_key(text),
                position=max((fact.position for fact in current), default=0) + 1,
                edited_by_person=by.is_person,
                source=str(by),
                confirmed_at=timezone.now(),
            )
            fact.save(force_insert=True)
            Revision.record_first([fact], by=by)
            self.model.follow([fact])
            Topic.notify_changed(topic.owner_id, topic.pk)
        return fact

    def reorder(self, topic: Topic, ids: Sequence[Any], *, by: Actor) -> None:
        """Put the topic's current facts in the order of `ids`. Others follow in their old order."""
        with transaction.atomic():
            # Lock the topic before any fact, so that two calls can't deadlock.
            Topic.objects.select_for_update(no_key=True).get(pk=topic.pk)
            facts = list(self.filter(topic=topic).current().select_for_update())
            counts = {str(key): place for place, key in enumerate(ids)}
            facts.sort(key=lambda fact: counts.get(str(fact.pk), len(counts) + fact.position))
            for place, fact in enumerate(facts, start=1):
                if fact.position != place:
                    fact.change(by=by, why=_("reordered"), position=place)


class TopicFact(Recalled):
    """A current, retired or struck fact of a topic.

    A run replaces only facts that no person has touched. Retired facts are kept, with the run that
    retired them, as the topic's timeline (R20).
    """

    class State(models.TextChoices):
        CURRENT = "current", gettext_lazy("current")
        STRUCK = "struck", gettext_lazy("marked as wrong")
        RETIRED = "retired", gettext_lazy("replaced")

    class RetiredAs(models.TextChoices):
        REPLACED = "replaced", gettext_lazy("replaced")
        OUTRANKED = "outranked", gettext_lazy("not in the top 10")  # nothing says it is wrong
        GONE = "gone", gettext_lazy("no longer found")

    class Support(models.TextChoices):
        PAGE = "page", gettext_lazy("quote found in the stored page")
        SNIPPET = "snippet", gettext_lazy("quote found only in the search result")

    MAX_CURRENT = 10  # seed 000: keyFacts "up to 10 bullet findings"
    MAX_BY_PEOPLE = 8  # so at least two places remain for what runs find
    MIN_WIDTH = 21  # R22
    MAX_LENGTH = 1000
    REVISED = (
        "text", "url", "state", "position", "lock", "retired_run", "retired_as", "question",
        "true_from", "true_until",
    )  # fmt: skip
    AS_CURRENT: ClassVar[dict[str, Any]] = {
        "state": State.CURRENT.value, "retired_run": None, "retired_as": "",
    }  # fmt: skip
    SAID = ("text",)
    SEARCH_TYPE = "fact"

    topic = models.ForeignKey(Topic, models.CASCADE, related_name="facts")
    text = models.TextField(gettext_lazy("fact"))
    url = models.TextField(gettext_lazy("source URL"), blank=True)
    source_title = models.CharField(max_length=500, blank=True)
    quote = models.TextField(blank=True)
    published_at = models.DateField(null=True, blank=True)
    state = models.CharField(max_length=8, choices=State, default=State.CURRENT)
    position = models.PositiveIntegerField(default=0)
    key = models.TextField(blank=True)
    edited_by_person = models.BooleanField(default=False)
    first_run = models.PositiveIntegerField(null=True, blank=True)
    retired_run = models.PositiveIntegerField(null=True, blank=True)
    retired_as = models.CharField(max_length=9, choices=RetiredAs, blank=True)
    confirmed_at = models.DateTimeField(null=True, blank=True)
    confirmed_run = models.PositiveIntegerField(null=True, blank=True)
    contradicted_at = models.DateTimeField(null=True, blank=True)
    # The result of checking its citations when a run last found it.
    support = models.CharField(max_length=8, choices=Support, blank=True)
    source_count = models.PositiveIntegerField(default=0)
    independent_count = models.PositiveIntegerField(default=0)
    quote_checked_at = models.DateTimeField(null=True, blank=True)
    # Facts that replaced one another answer the same question. `question` is its name, if a person
    # gave it one.
    chain = models.UUIDField(default=uuid.uuid4, editable=False)
    question = models.CharField(gettext_lazy("question"), max_length=120, blank=True)
    # When it is true in the world, if someone said so. When Beacon learned it is another matter.
    true_from = models.DateField(gettext_lazy("true from"), null=True, blank=True)
    true_until = models.DateField(gettext_lazy("true until"), null=True, blank=True)

    objects: ClassVar[TopicFactQuerySet] = TopicFactQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("position", "created")
        indexes = [
            models.Index(fields=["topic", "state", "position"], name="fact_of_topic"),
            models.Index(fields=["topic", "chain"], name="fact_of_chain"),
        ]

    def __str__(self) -> str:
        return shorten(self.text, 120)

    def get_absolute_url(self) -> str:
        return reverse("research:fact-history", args=[self.topic.slug, self.pk])

    def search_text(self) -> str:
        return self.text

    @property
    def is_kept(self) -> bool:
        """Return True if runs leave the fact unchanged because a person wrote, edited, pinned or
        locked it.
        """
        return self.edited_by_person or self.pinned or self.lock != Lock.OPEN

    @classmethod
    def checked_text(cls, text: str) -> str:
        """Return the text as stored. Raises InvalidValue if it is too short or too long."""
        text = plain(clean(text)[0])
        problem = ""
        if width(text) < cls.MIN_WIDTH:
            problem = _("Write a complete statement of at least %(least)d characters.") % {
                "least": cls.MIN_WIDTH
            }
        elif len(text) > cls.MAX_LENGTH:
            problem = _(
                "A fact can have at most %(most)d characters, but this one has %(have)d."
            ) % {
                "most": cls.MAX_LENGTH,
                "have": len(text),
            }
        if problem:
            raise InvalidValue(problem, errors={"text": [problem]})
        return text

    @classmethod
    def check_room(cls, current: Sequence[TopicFact]) -> None:
        """Raise LimitReached if people already keep the maximum number of current facts."""
        if sum(fact.is_kept for fact in current) >= cls.MAX_BY_PEOPLE:
            raise LimitReached(
                _(
                    "This topic has reached the limit of %(most)d facts that people wrote, edited, pinned or locked. The rest of the space is for facts from runs. To make room, mark a fact as wrong, unlock it or delete it."
                )
                % {"most": cls.MAX_BY_PEOPLE}
            )

    @classmethod
    def check_words(cls, topic_id: Any, text: str, *, but: Any = None) -> None:
        """Raise InvalidValue if a current or struck fact other than `but` has the same text."""
        rows = cls.objects.live().filter(topic=topic_id, key=match_key(text)).exclude(pk=but)
        alike = [fact for fact in rows if identity(fact.text) == identity(text)]
        if any(fact.state == cls.State.CURRENT for fact in alike):
            raise InvalidValue(
                _("The topic already has this fact."),
                errors={"text": [_("The topic already has this fact.")]},
            )
        struck = next((fact for fact in alike if fact.state == cls.State.STRUCK), None)
        if struck is not None:
            problem = _(
                "This fact was marked as wrong on %(date)s. Undo that instead of adding the fact again."
            )
            problem %= {"date": f"{timezone.localtime(struck.struck_at()):%Y-%m-%d}"}
            raise InvalidValue(problem, errors={"text": [problem]})

    def _last_strike(self) -> Revision | None:
        strikes = Revision.objects.filter(record_id=self.pk, after__state=self.State.STRUCK)
        return strikes.order_by("-id").first()

    def struck_at(self) -> datetime:
        last = self._last_strike()
        return last.created if last else self.updated

    def change(self, **kwargs: Any) -> Self:
        """Change the fact as Remembered.change does, and update the published copy of its topic."""
        with transaction.atomic():
            changed = super().change(**kwargs)
            Topic.notify_changed(self.owner_id, self.topic_id)
        return changed

    def purge(self, *, by: Actor) -> None:
        """Delete the fact permanently, also from the published copy of its topic."""
        with transaction.atomic():
            super().purge(by=by)
            Topic.notify_changed(self.owner_id, self.topic_id)

    def _check_room_to_keep(self) -> None:
        if not self.is_kept and self.state == self.State.CURRENT:
            self.check_room(list(TopicFact.objects.filter(topic=self.topic_id).current()))

    def edit(
        self,
        text: str,
        *,
        by: Actor,
        expected_version: int | None = None,
        url: str | None = None,
        **dates: date | None,
    ) -> None:
        """Correct the fact, and when it is true (`true_from`, `true_until`). Runs no longer change it.

        Raises InvalidValue (also if another current or struck fact has the same text),
        LimitReached, or StaleWrite if someone else has changed it.
        """
        text = self.checked_text(text)
        with transaction.atomic():
            Topic.objects.select_for_update().get(pk=self.topic_id)
            if identity(text) != identity(self.text):
                self.check_words(self.topic_id, text, but=self.pk)
            if by.is_person:
                self._check_room_to_keep()
            self.change(
                by=by,
                expected_version=expected_version,
                why=_("corrected"),
                text=text,
                url=self.url if url is None else url.strip(),
                **{name: day for name, day in dates.items() if getattr(self, name) != day},
                key=match_key(text),
                edited_by_person=self.edited_by_person or by.is_person,
                # Set explicitly, so that the revision has the old value and the edit can be undone exactly.
                trust=Trust.OWNER if by.is_person else self.trust,
            )

    def strike(self, *, by: Actor, why: str = "") -> None:
        """Mark the fact as wrong. Prompts say not to repeat it, and runs drop similar facts."""
        self.change(
            by=by, why=why or _("marked as wrong"), state=self.State.STRUCK, edited_by_person=True
        )

    def unstrike(self, *, by: Actor) -> None:
        """Make a struck or retired fact current again.

        Runs no longer change a retired one. A struck one returns to its state before. Raises what
        `restore_state` raises.
        """
        if self.state == self.State.CURRENT:
            return
        fields: dict[str, Any] = self.AS_CURRENT.copy()
        strike = self._last_strike() if self.state == self.State.STRUCK else None
        if strike and "edited_by_person" in strike.before:
            fields["edited_by_person"] = strike.before["edited_by_person"]
        self.restore_state(fields, by=by, why=_("restored"))

    def restore_state(self, fields: dict[str, Any], *, by: Actor, why: str) -> None:
        """Restore `fields` to earlier values, in one revision.

        A person who undoes a run's change keeps the fact from later runs, unless `fields` says
        otherwise. Raises LimitReached if people keep 8 already, InvalidValue if another fact has
        the same text.
        """
        fields = dict(fields)
        becomes_current = fields.get("state", self.state) == self.State.CURRENT != self.state
        text = self.checked_text(fields.get("text", self.text))
        if "text" in fields:
            fields |= {"text": text, "key": match_key(text)}
        decided = "text" in fields or "url" in fields or becomes_current
        if by.is_person and (decided or fields.get("state") == self.State.STRUCK):
            fields.setdefault("edited_by_person", True)
        with transaction.atomic():
            Topic.objects.select_for_update().get(pk=self.topic_id)
            if identity(text) != identity(self.text):
                self.check_words(self.topic_id, text, but=self.pk)
            if fields.get("state", self.state) == self.State.CURRENT:
                self._make_room(text, fields, becomes_current=becomes_current, by=by)
            self.change(by=by, why=why, **fields)

    def _make_room(
        self, text: str, fields: dict[str, Any], *, becomes_current: bool, by: Actor
    ) -> None:
        current = list(TopicFact.objects.filter(topic=self.topic_id).current().exclude(pk=self.pk))
        will_be = self.snapshot("edited_by_person", "pinned", "lock") | fields
        is_kept = will_be["edited_by_person"] or will_be["pinned"] or will_be["lock"] != Lock.OPEN
        if is_kept and (becomes_current or not self.is_kept):
            self.check_room(current)
        if not becomes_current:
            return
        if any(identity(fact.text) == identity(text) for fact in current):
            raise InvalidValue(_("The topic already has this fact."))
        if len(current) >= self.MAX_CURRENT:
            [fact for fact in current if not fact.is_kept][-1].retire(
                by=by,
                why=_("removed to make room for a fact you restored"),
                how=self.RetiredAs.OUTRANKED,
            )

    def rename_question(self, name: str, *, by: Actor) -> None:
        """Name the question that the fact and its predecessors answer. "" removes the name."""
        name = shorten(plain(clean(name)[0]), 120)
        self.change(by=by, why=_("question renamed"), question=name)

    def set_lock(self, lock: str, *, by: Actor) -> None:
        """Lock or unlock the fact. Raises Locked for an agent, LimitReached as for an edit."""
        with transaction.atomic():
            Topic.objects.select_for_update().get(pk=self.topic_id)
            if lock != Lock.OPEN:
                self._check_room_to_keep()
            self.change(by=by, why=_("locked") if lock != Lock.OPEN else _("unlocked"), lock=lock)

    def retire(
        self,
        *,
        by: Actor,
        why: str,
        run: int | None = None,
        source: str = "",
        how: str = RetiredAs.REPLACED,
    ) -> None:
        """Move the fact from the current ones to the timeline. `how` is a RetiredAs."""
        fields = {"state": self.State.RETIRED, "retired_run": run, "retired_as": how}
        self.change(by=by, why=why, source=source, **fields)

    @property
    def is_contradicted(self) -> bool:
        """Return True if a run contradicted it after it was last confirmed."""
        at, confirmed = self.contradicted_at, self.confirmed_at
        return at is not None and (confirmed is None or at >= confirmed)

    @property
    def site(self) -> str:
        """Return the domain of its source, or ""."""
        return domain_of(self.url) if self.url else ""

    @property
    def state_words(self) -> str:
        """Return its state for a reader. Only a fact that another one replaced is called replaced."""
        is_retired = self.state == self.State.RETIRED and self.retired_as
        return str(self.get_retired_as_display() if is_retired else self.get_state_display())
