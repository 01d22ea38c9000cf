"""Rules for places on the web: block, boost or mute them for one topic or for all.

Data flow: a domain or URL, a rule and a scope -> the lists in the topic's settings (changed like
any edit), or a `SourceRule` of the owner -> `models.in_effect`, from which each run takes them ->
hits left out or put first (`gathering`), changes withheld (`judging`). A place has one rule per
scope. Blocking a whole domain for all topics also refuses it as a source in the Inbox.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.utils.translation import gettext as _

from memory.core.actors import Actor
from memory.core.errors import InvalidValue, LimitReached
from memory.models import Activity, RefusedSource, SourceRule, Topic, User
from memory.review import blocking
from research.models import TopicSettings
from research.models.topics import field_of, is_page, lists_of
from research.topic_settings import editing as topic_editing
from research.topic_settings import standing_rules
from research.topic_settings.standing_rules import MOST_PLACES, place_from

Act = SourceRule.Act
NONE = "none"
TOPIC, ALL = "topic", "all"


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule as stored, and the one it replaced (or `none`)."""

    place: str
    act: str
    before: str


def set_rule(topic: Topic, place: str, act: str, *, scope: str = TOPIC, by: Actor) -> RuleChange:
    """Set a place's rule, starting with the next run. `none` removes the rule of that scope.

    Raises InvalidValue for an invalid place or rule, or one that contradicts another, and
    LimitReached.
    """
    if act not in (*Act.values, NONE):
        told = {"act": act[:40], "known": ", ".join([*Act.values, NONE])}
        raise InvalidValue(_("Unknown action “%(act)s”. Choose one of: %(known)s.") % told)
    place = place_from(place)
    if scope == ALL:
        return _set_everywhere(topic.owner, place, act, by)
    with transaction.atomic():
        held = Topic.objects.select_for_update().get(pk=topic.pk)
        settings = topic_editing.settings_of(held)
        before = act_here(settings, place)
        if before != act:
            topic_editing.edit_topic(held, by=by, wanted=_wanted(settings, place, before, act))
    return RuleChange(place, act, before)


def act_here(settings: TopicSettings, place: str) -> str:
    """Return the rule that these settings have for exactly this place."""
    return next((act for act in Act.values if place in lists_of(settings, act)), NONE)


def _wanted(settings: TopicSettings, place: str, before: str, act: str) -> dict[str, list[str]]:
    """Return the changed lists. Raises InvalidValue and LimitReached."""
    wanted: dict[str, list[str]] = {}
    if before != NONE:
        name = field_of(before, place)
        wanted[name] = [kept for kept in getattr(settings, name) if kept != place]
    if act == NONE:
        return wanted
    name = field_of(act, place)
    places = getattr(settings, name)
    if len(places) >= MOST_PLACES:
        problem = _("You’ve reached the limit of %(most)d rules. Remove one first.")
        raise LimitReached(problem % {"most": MOST_PLACES})
    if act == Act.BLOCK:
        blocked = [*standing_rules.places_of(settings), place]
        allowed = settings.allow_domains
        problem = standing_rules.contradiction(settings.always_check, blocked, allowed=allowed)
        if problem:
            raise InvalidValue(problem)
    return wanted | {name: [*places, place]}


# --- for all topics ---


def _set_everywhere(owner: User, place: str, act: str, by: Actor) -> RuleChange:
    refused = RefusedSource.objects.filter(owner=owner, kind=RefusedSource.Kind.DOMAIN, name=place)
    rules = SourceRule.objects.filter(owner=owner, place=place)
    with transaction.atomic():
        # two requests must not exceed the limit together
        User.objects.select_for_update(no_key=True).get(pk=owner.pk)
        kept = rules.values_list("act", flat=True).first()
        before = str(Act.BLOCK) if refused.exists() else str(kept or NONE)
        if before == act:
            return RuleChange(place, act, before)
        for one in refused:
            blocking.allow(one, by=by)
        rules.delete()
        if act == Act.BLOCK and not is_page(place):
            blocking.refuse(owner, RefusedSource.Kind.DOMAIN, place, by=by)
        elif act != NONE:
            if SourceRule.objects.of(owner).count() >= SourceRule.MOST:
                problem = _("You’ve reached the limit of %(most)d rules. Remove one first.")
                raise LimitReached(problem % {"most": SourceRule.MOST})
            SourceRule.objects.create(owner=owner, place=place, act=act)
        Activity.log(owner, by, "source-rule", label=place, act=act, before=before)
    return RuleChange(place, act, before)
