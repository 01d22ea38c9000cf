"""“Read this next time”: addresses that a person gives a topic's next run to read, once.

Data flow: an address, looked at by the guard -> the topic's `read_next` -> the settings that the
next run takes -> a hit read first (`applied_rules`) -> the save of that run takes it from the list.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.conf import settings as site
from django.db import transaction
from django.utils.translation import gettext as _

from beacon_site.providers.address_guard import check_url
from beacon_site.providers.errors import ProviderError
from memory.actors import Actor
from memory.errors import InvalidValue, LimitReached
from memory.models import Activity, Topic
from memory.texts.canonical import canonical_url
from research.models import TopicSettings
from research.models.effective_settings import everywhere, in_effect
from research.topic_settings import editing as topic_editing
from research.topic_settings import standing_rules
from research.topic_settings.standing_rules import check_from, is_address

MOST = 20


def add(topic: Topic, address: str, *, by: Actor) -> tuple[str, bool]:
    """Have the next run read a page; return the address as kept, and whether it is new there.

    Raises InvalidValue for what no run opens, LimitReached beyond MOST.
    """
    page = _checked(address)
    with transaction.atomic():
        held = Topic.objects.select_for_update().get(pk=topic.pk)
        settings = topic_editing.settings_of(held)
        if canonical_url(page) in map(canonical_url, settings.read_next):
            return page, False
        whole = in_effect(settings, everywhere(held.owner_id))
        if place := standing_rules.reason_against(whole, canonical_url(page)):
            problem = _("Runs do not look at “%(place)s”: take that away first.")
            raise InvalidValue(problem % {"place": standing_rules.shown(place)})
        if len(settings.read_next) >= MOST:
            problem = _("%(most)d pages wait for the next run already, which is the most.")
            raise LimitReached(problem % {"most": MOST})
        _keep(held, [*settings.read_next, page])
        Activity.log(held.owner, by, "read-next", subject=held, label=page)
    return page, True


def remove(topic: Topic, address: str, *, by: Actor) -> bool:
    """Take a page from the list; False if it is not there (any more)."""
    with transaction.atomic():
        held = Topic.objects.select_for_update().get(pk=topic.pk)
        kept = topic_editing.settings_of(held).read_next
        left = [page for page in kept if page != address]
        if left == kept:
            return False
        _keep(held, left)
        Activity.log(held.owner, by, "read-next-not", subject=held, label=address)
    return True


def take_off(topic: Topic, pages: Sequence[str]) -> None:
    """Take what a run was given to read from the list; called in its saving transaction."""
    if not pages:
        return
    kept = TopicSettings.objects.values_list("read_next", flat=True).get(topic=topic)
    _keep(topic, [page for page in kept if page not in pages])


def _keep(topic: Topic, pages: list[str]) -> None:
    TopicSettings.objects.filter(topic=topic).update(read_next=pages)


def _checked(address: str) -> str:
    """Return the address as it is kept.  Raises InvalidValue in the guard's words.

    A name is looked up only when the page is fetched, by the same guard.
    """
    if not is_address(address.strip()):
        raise InvalidValue(
            _("“%(text)s” is no address of a page: it begins with http:// or https://.")
            % {"text": address[:200]}
        )
    page = check_from(address)
    if page.startswith("library:"):
        return page
    try:
        check_url(page, site.BEACON_FETCH_ALLOW_HOSTS)
    except ProviderError as exc:
        raise InvalidValue(str(exc)) from exc
    return page
