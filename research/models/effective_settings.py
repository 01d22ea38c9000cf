"""A topic's settings as a run takes them: with what its owner says of places for all topics.

What the topic itself says of a place goes before that, but for a domain that the owner refuses: from
there no topic reads, whatever else was said (`memory.reviewing.refused`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from memory.models import RefusedSource, SourceRule, Topic
from research.models.topic_settings import TopicSettings

_PAGES = ("http://", "https://", "library:")
Act = SourceRule.Act


def lists_of(settings: TopicSettings, act: str) -> list[str]:
    """Return the places that the settings treat so: domains first, then pages."""
    if act == Act.BLOCK:
        return [*settings.block_domains, *settings.block_pages]
    return list(settings.boost_places if act == Act.BOOST else settings.mute_places)


def everywhere(owner_id: Any) -> dict[str, str]:
    """Return, by place, what the owner says for all topics: two queries.

    A domain from which the owner wants nothing any more is blocked, wherever that was said.
    """
    refused = RefusedSource.objects.filter(owner=owner_id, kind=RefusedSource.Kind.DOMAIN)
    rules = SourceRule.objects.filter(owner=owner_id)
    found = dict.fromkeys(refused.values_list("name", flat=True), str(Act.BLOCK))
    return dict(rules.values_list("place", "act")) | found


def in_effect(settings: TopicSettings, rules: dict[str, str]) -> TopicSettings:
    """Return the settings, never to be saved, with the rules of all topics added."""
    whole = TopicSettings.from_json(settings.topic, settings.as_json())
    own = {place for act in Act.values for place in lists_of(settings, act)}
    own |= set(settings.allow_domains)
    for place, act in rules.items():
        is_refused = act == Act.BLOCK and not is_page(place)
        if place not in own or (is_refused and place not in whole.block_domains):
            _add(whole, act, place)
    return whole


def settings_now(topic: Topic) -> dict[str, Any]:
    """Return the topic's settings as a run keeps them."""
    settings = TopicSettings.objects.get(topic=topic)
    return in_effect(settings, everywhere(topic.owner_id)).as_json()


def is_page(place: str) -> bool:
    """Whether a place is a single page, not a domain."""
    return place.lower().startswith(_PAGES)


def _add(settings: TopicSettings, act: str, place: str) -> None:
    name = field_of(act, place)
    setattr(settings, name, [*getattr(settings, name), place])


def field_of(act: str, place: str) -> str:
    """Return the field of a topic's settings that holds such a rule."""
    if act == Act.BLOCK:
        return "block_pages" if is_page(place) else "block_domains"
    return "boost_places" if act == Act.BOOST else "mute_places"


def places_by_act(settings: TopicSettings) -> Iterable[tuple[str, str]]:
    """Yield each place with its act, as these settings have it."""
    for act in Act.values:
        for place in lists_of(settings, act):
            yield place, act
