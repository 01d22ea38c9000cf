"""Topic facts: at most ten current findings of a topic, and all that were."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from beacon_site.text.cleaning import clean, match_key, plain, shorten, width
from memory.core.actors import Actor
from memory.core.errors import InvalidValue, LimitReached
from memory.models.history import Revision
from memory.models.remembered import Lock, RememberedQuerySet, Trust
from memory.models.search_index import Recalled
from memory.models.topics import Topic


class TopicFactQuerySet(RememberedQuerySet):
    """The questions asked of topic facts, and how people add to them."""

    def current(self) -> Self:
        """Keep what is known now, in order."""
        return self.live().filter(state=TopicFact.State.CURRENT).order_by("position", "created")

    def struck(self) -> Self:
        """Keep what a person struck: it is not to be repeated."""
        return self.live().filter(state=TopicFact.State.STRUCK)

    def current_and_struck(self) -> tuple[list[TopicFact], list[TopicFact]]:
        """Return what is known now, in order, and what a person struck: one query for both."""
        told = (TopicFact.State.CURRENT, TopicFact.State.STRUCK)
        facts = list(self.live().filter(state__in=told).order_by("position", "created"))
        return tuple([fact for fact in facts if fact.state == state] for state in told)  # type: ignore[return-value]

    def retired(self) -> Self:
        """Keep what was known once, the latest retired first."""
        found = self.live().filter(state=TopicFact.State.RETIRED)
        return found.order_by("-retired_run", "position", "created")

    def add(self, topic: Topic, text: str, *, by: Actor, url: str = "") -> TopicFact:
        """Add a fact that `by` wrote.

        Where ten are current already, the last one that no person touched is retired for it.
        Raises InvalidValue for a text that is too short, a struck or current one, and LimitReached
        if people wrote eight already (decision 2).
        """
        text = TopicFact.checked_text(text)
        with transaction.atomic():
            Topic.objects.select_for_update().get(pk=topic.pk)
            current = list(self.filter(topic=topic).current())
            TopicFact.check_room(current)
            TopicFact.check_words(topic.pk, match_key(text))
            replaceable = [fact for fact in current if not fact.is_kept]
            if len(current) >= TopicFact.MOST_CURRENT:
                replaceable[-1].retire(by=by, why=_("made room for a fact written by hand"))
            fact = TopicFact(
                owner=topic.owner,
                topic=topic,
                text=text,
                url=url,
                key=match_key(text),
                position=max((fact.position for fact in current), default=0) + 1,
                touched_by_person=by.is_person,
                source=str(by),
                confirmed_at=timezone.now(),
            )
            fact.save(force_insert=True)
            Revision.record_first([fact], by=by)
            self.model.follow([fact])
            Topic.notify_changed(topic.owner_id, topic.pk)
        return fact

    def reorder(self, topic: Topic, ids: Sequence[Any], *, by: Actor) -> None:
        """Put the topic's current facts in the order of `ids`; others follow as they were."""
        with transaction.atomic():
            # One after the other, and before any fact: two orders would wait for each other.
            Topic.objects.select_for_update(no_key=True).get(pk=topic.pk)
            facts = list(self.filter(topic=topic).current().select_for_update())
            wanted = {str(key): place for place, key in enumerate(ids)}
            facts.sort(key=lambda fact: wanted.get(str(fact.pk), len(wanted) + fact.position))
            for place, fact in enumerate(facts, start=1):
                if fact.position != place:
                    fact.change(by=by, why=_("reordered"), position=place)


class TopicFact(Recalled):
    """One current finding of a topic, or one that was retired or struck.

    A run replaces only facts that no person touched; retired ones stay, with the run that
    retired them, as the topic's timeline (R20).
    """

    class State(models.TextChoices):
        CURRENT = "current", gettext_lazy("current")
        STRUCK = "struck", gettext_lazy("marked as wrong")
        RETIRED = "retired", gettext_lazy("replaced")

    class Support(models.TextChoices):
        PAGE = "page", gettext_lazy("quote found in the stored page")
        SNIPPET = "snippet", gettext_lazy("quote found only in the search result")

    MOST_CURRENT = 10  # seed 000: keyFacts "up to 10 bullet findings"
    MOST_BY_PEOPLE = 8  # decision 2: two places at least stay for what runs find
    LEAST_WIDTH = 21  # R22
    MOST_LENGTH = 1000
    REVISED = ("text", "url", "state", "position", "lock", "retired_run")
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
    touched_by_person = models.BooleanField(default=False)
    first_run = models.PositiveIntegerField(null=True, blank=True)
    retired_run = models.PositiveIntegerField(null=True, blank=True)
    confirmed_at = models.DateTimeField(null=True, blank=True)
    confirmed_run = models.PositiveIntegerField(null=True, blank=True)
    contradicted_at = models.DateTimeField(null=True, blank=True)
    # What its citations were worth when a run last found it: its quote looked up, its sources counted.
    support = models.CharField(max_length=8, choices=Support, blank=True)
    source_count = models.PositiveIntegerField(default=0)
    independent_count = models.PositiveIntegerField(default=0)
    quote_checked_at = models.DateTimeField(null=True, blank=True)

    objects: ClassVar[TopicFactQuerySet] = TopicFactQuerySet.as_manager()  # type: ignore[assignment]

    class Meta:
        ordering = ("position", "created")
        indexes = [models.Index(fields=["topic", "state", "position"], name="fact_of_topic")]

    def __str__(self) -> str:
        return shorten(self.text, 120)

    def search_text(self) -> str:
        """Return what recall finds the fact by."""
        return self.text

    @property
    def is_kept(self) -> bool:
        """Whether runs leave the fact as it is: a person wrote, edited, pinned or locked it."""
        return self.touched_by_person or self.pinned or self.lock != Lock.OPEN

    @classmethod
    def checked_text(cls, text: str) -> str:
        """Return the text as it is stored.  Raises InvalidValue if it is too short or too long."""
        text = plain(clean(text)[0])
        problem = ""
        if width(text) < cls.LEAST_WIDTH:
            problem = _("Write a complete statement of at least %(least)d characters.") % {
                "least": cls.LEAST_WIDTH
            }
        elif len(text) > cls.MOST_LENGTH:
            problem = _(
                "A fact can have at most %(most)d characters, but this one has %(have)d."
            ) % {
                "most": cls.MOST_LENGTH,
                "have": len(text),
            }
        if problem:
            raise InvalidValue(problem, errors={"text": [problem]})
        return text

    @classmethod
    def check_room(cls, current: Sequence[TopicFact]) -> None:
        """Raise LimitReached if people hold as many of the current facts as they may."""
        if sum(fact.is_kept for fact in current) >= cls.MOST_BY_PEOPLE:
            raise LimitReached(
                _(
                    "You already keep %(most)d facts in this topic. The remaining places are for what runs find. Mark one as wrong, unlock it or delete it first."
                )
                % {"most": cls.MOST_BY_PEOPLE}
            )

    @classmethod
    def check_words(cls, topic_id: Any, key: str, *, but: Any = None) -> None:
        """Raise InvalidValue if another fact than `but` says this and is current or was struck."""
        alike = cls.objects.filter(topic=topic_id, key=key).exclude(pk=but)
        if alike.current().exists():
            raise InvalidValue(
                _("The topic already has this fact."),
                errors={"text": [_("The topic already has this fact.")]},
            )
        struck = alike.struck().first()
        if struck is not None:
            problem = _(
                "This fact was marked as wrong on %(date)s. Undo that instead of writing it again."
            )
            problem %= {"date": f"{timezone.localtime(struck.struck_at()):%Y-%m-%d}"}
            raise InvalidValue(problem, errors={"text": [problem]})

    def _last_strike(self) -> Revision | None:
        strikes = Revision.objects.filter(record_id=self.pk, after__state=self.State.STRUCK)
        return strikes.order_by("-id").first()

    def struck_at(self) -> datetime:
        """Return when the fact was struck last."""
        last = self._last_strike()
        return last.created if last else self.updated

    def change(self, **kwargs: Any) -> Self:
        """Change the fact as Remembered.change does, and let copies of its topic follow."""
        with transaction.atomic():
            changed = super().change(**kwargs)
            Topic.notify_changed(self.owner_id, self.topic_id)
        return changed

    def purge(self, *, by: Actor) -> None:
        """Delete the fact for good, also from copies of its topic."""
        with transaction.atomic():
            super().purge(by=by)
            Topic.notify_changed(self.owner_id, self.topic_id)

    def _check_room_to_keep(self) -> None:
        if not self.is_kept and self.state == self.State.CURRENT:
            self.check_room(list(TopicFact.objects.filter(topic=self.topic_id).current()))

    def edit(
        self, text: str, *, by: Actor, expected_version: int | None = None, url: str | None = None
    ) -> None:
        """Correct the fact; runs leave it alone from then on.

        Raises InvalidValue (also for the words of another fact that is current or was struck),
        LimitReached, or StaleWrite if somebody else wrote meanwhile.
        """
        text = self.checked_text(text)
        with transaction.atomic():
            Topic.objects.select_for_update().get(pk=self.topic_id)
            if match_key(text) != self.key:
                self.check_words(self.topic_id, match_key(text), but=self.pk)
            if by.is_person:
                self._check_room_to_keep()
            self.change(
                by=by,
                expected_version=expected_version,
                why=_("corrected"),
                text=text,
                url=self.url if url is None else url.strip(),
                key=match_key(text),
                touched_by_person=self.touched_by_person or by.is_person,
                # Named, so that the revision keeps the old one and the edit can be undone exactly.
                trust=Trust.OWNER if by.is_person else self.trust,
            )

    def strike(self, *, by: Actor, why: str = "") -> None:
        """Mark the fact as wrong: prompts name it as not to be repeated, and runs drop its like."""
        self.change(
            by=by, why=why or _("marked as wrong"), state=self.State.STRUCK, touched_by_person=True
        )

    def unstrike(self, *, by: Actor) -> None:
        """Return a struck or retired fact to the current ones.

        Runs leave a retired one alone from then on; a struck one is as it was before the strike.
        Raises what `put_back` raises.
        """
        if self.state == self.State.CURRENT:
            return
        fields: dict[str, Any] = {"state": self.State.CURRENT, "retired_run": None}
        strike = self._last_strike() if self.state == self.State.STRUCK else None
        if strike and "touched_by_person" in strike.before:
            fields["touched_by_person"] = strike.before["touched_by_person"]
        self.put_back(fields, by=by, why=_("restored"))

    def put_back(self, fields: dict[str, Any], *, by: Actor, why: str) -> None:
        """Set `fields` to what they were, in one revision.

        A person who reverses what a run did keeps the fact from runs, unless `fields` says
        otherwise.  Raises LimitReached if people hold eight already, InvalidValue if another fact
        has the same words.
        """
        fields = dict(fields)
        becomes_current = fields.get("state", self.state) == self.State.CURRENT != self.state
        text = self.checked_text(fields.get("text", self.text))
        key = match_key(text)
        if "text" in fields:
            fields |= {"text": text, "key": key}
        decided = "text" in fields or "url" in fields or becomes_current
        if by.is_person and (decided or fields.get("state") == self.State.STRUCK):
            fields.setdefault("touched_by_person", True)
        with transaction.atomic():
            Topic.objects.select_for_update().get(pk=self.topic_id)
            if key != self.key:
                self.check_words(self.topic_id, key, but=self.pk)
            if fields.get("state", self.state) == self.State.CURRENT:
                self._make_room(key, fields, becomes_current=becomes_current, by=by)
            self.change(by=by, why=why, **fields)

    def _make_room(
        self, key: str, fields: dict[str, Any], *, becomes_current: bool, by: Actor
    ) -> None:
        current = list(TopicFact.objects.filter(topic=self.topic_id).current().exclude(pk=self.pk))
        will_be = self.snapshot("touched_by_person", "pinned", "lock") | fields
        is_kept = will_be["touched_by_person"] or will_be["pinned"] or will_be["lock"] != Lock.OPEN
        if is_kept and (becomes_current or not self.is_kept):
            self.check_room(current)
        if not becomes_current:
            return
        if any(fact.key == key for fact in current):
            raise InvalidValue(_("The topic already has this fact."))
        if len(current) >= self.MOST_CURRENT:
            [fact for fact in current if not fact.is_kept][-1].retire(
                by=by, why=_("made room for a fact restored by hand")
            )

    def set_lock(self, lock: str, *, by: Actor) -> None:
        """Lock or unlock the fact.  Raises Locked for an agent, LimitReached as for an edit."""
        with transaction.atomic():
            Topic.objects.select_for_update().get(pk=self.topic_id)
            if lock != Lock.OPEN:
                self._check_room_to_keep()
            self.change(by=by, why=_("locked") if lock != Lock.OPEN else _("unlocked"), lock=lock)

    def retire(self, *, by: Actor, why: str, run: int | None = None, source: str = "") -> None:
        """Move the fact from the current ones to the timeline."""
        self.change(by=by, why=why, source=source, state=self.State.RETIRED, retired_run=run)
