"""Rules that every run of a topic follows: “always include” and “never read”.

Data flow: a line that a person typed, or the source of a fact or hit -> `check_from`, `place_from`
-> a list in the topic's settings, changed like any edit (`topic_editing`) -> the snapshot that a
run takes -> `research.services.runs.context.applied_rules`.

“Never read” uses the settings' lists of blocked domains and blocked pages. An always-included URL
can name a part of its page: `https://example.org/plans | css: main .prices`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from django.db import transaction
from django.utils.translation import gettext as _

from beacon_site.net.extract import InvalidPart, PagePart, part_from
from beacon_site.text.canonical_urls import canonical_url, is_in_domain
from beacon_site.text.cleaning import clean, one_line
from memory.models import Topic
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached
from research.models import TopicSettings
from research.models.topics import is_page
from research.services.topics.settings import editing as topic_editing
from research.services.topics.settings.editing import NotADomain, domain_from
from research.services.topics.settings.editing import readable_domain as shown_domain

Kind = Literal["check", "stop"]
CHECK: Kind = "check"
STOP: Kind = "stop"
MAX_CHECKS = 5
MAX_PLACES = 200  # per list, as in the settings form
MAX_CHECK_LENGTH = 400  # characters of a query; Tavily's limit is the lowest (providers.md 4)
MAX_ADDRESS_LENGTH = 2000
_PART = re.compile(r"\s+\|\s*|\s*\|\s+")  # not a “|” inside a URL


def check_from(text: str) -> str:
    """Return the normalized rule for “always include”: a query or a URL.

    Raises InvalidValue.
    """
    text = one_line(clean(text)[0])
    if is_page(text):
        page, part = _page_and_part(text)
        page = page_from(page)
        return page if part is None else _with_part(page, part)
    if not any(map(str.isalnum, text)):
        raise InvalidValue(_("Enter a search query, or a URL that begins with https://."))
    if len(text) > MAX_CHECK_LENGTH:
        raise InvalidValue(
            _("Use at most %(most)d characters (currently %(count)d).")
            % {"count": len(text), "most": MAX_CHECK_LENGTH}
        )
    return text


def _page_and_part(rule: str) -> tuple[str, str | None]:
    """Return a rule's URL, and the text of its part, or None without one."""
    match = _PART.search(rule)
    return (rule[: match.start()], rule[match.end() :]) if match else (rule, None)


def _with_part(page: str, part: str) -> str:
    if page.startswith("library:"):
        raise InvalidValue(
            _("You can’t select a part of a library document. Remove “| %(part)s”.")
            % {"part": part[:80]}
        )
    try:
        return f"{page} | {part_from(part)}"
    except InvalidPart as exc:
        raise InvalidValue(str(exc)) from exc


def address_of(rule: str) -> str:
    """Return a stored rule's URL without the page's part; words and domains are unchanged."""
    return _page_and_part(rule)[0] if is_page(rule) else rule


def part_of(rule: str) -> PagePart | None:
    """Return the part of the page that a stored rule names, if any."""
    _page, part = _page_and_part(rule) if is_page(rule) else (rule, None)
    return part_from(part) if part else None


def part_at(settings: TopicSettings, url: str) -> PagePart | None:
    """Return the part that is read of the page with this canonical URL, or None for all of it."""
    rules = filter(is_page, settings.always_check)
    found = (part_of(rule) for rule in rules if canonical_url(address_of(rule)) == url)
    return next(filter(None, found), None)


def place_from(text: str) -> str:
    """Return the normalized rule for “never read”: a domain, or a page's canonical URL.

    Raises InvalidValue.
    """
    text = one_line(clean(text)[0])
    if is_page(text):
        return canonical_url(page_from(text))
    try:
        return domain_from(text)
    except NotADomain as exc:
        raise InvalidValue(
            _(
                "“%(text)s” isn’t a domain or a URL. Enter one such as example.org or https://example.org/news."
            )
            % {"text": text[:200]}
        ) from exc


def page_from(text: str) -> str:
    """Return the normalized URL of a page. Raises InvalidValue."""
    if " " in text or len(text) > MAX_ADDRESS_LENGTH or (":" not in canonical_url(text)[:9]):
        raise InvalidValue(
            _(
                "“%(text)s…” isn’t a valid URL. A URL can’t contain spaces and can have at most %(most)d characters."
            )
            % {"text": text[:80], "most": MAX_ADDRESS_LENGTH}
        )
    scheme, _sep, rest = text.partition(":")
    if not rest.strip("/"):
        raise InvalidValue(_("“%(text)s” isn’t a page URL.") % {"text": text})
    return f"{scheme.lower()}:{rest}"


def readable_rule(rule: str) -> str:
    return rule if is_page(rule) else shown_domain(rule)


def places_of(settings: TopicSettings) -> list[str]:
    """Return all blocked places: domains first, then pages."""
    return [*settings.block_domains, *settings.block_pages]


def reason_against(settings: TopicSettings, url: str) -> str:
    """Return the blocked place that contains a canonical URL, or ""."""
    return place_of(url, [*settings.block_pages, *settings.block_domains])


def place_of(url: str, places: Sequence[str]) -> str:
    """Return the first of `places`, domains and pages, that contains a canonical URL."""
    return next((place for place in places if _is_at_place(url, place)), "")


def _is_at_place(url: str, place: str) -> bool:
    return url == place if is_page(place) else is_in_domain(url, place)


# --- changes by people ---


def add(topic: Topic, kind: Kind, text: str, *, by: Actor) -> tuple[str, bool]:
    """Add a rule to the topic. Return it as stored, and whether it is new.

    Raises InvalidValue if it is invalid or contradicts another rule, LimitReached at the limit.
    """
    rule = check_from(text) if kind == CHECK else place_from(text)
    return rule, _edit(topic, kind, rule, _with, by=by)


def remove(topic: Topic, kind: Kind, rule: str, *, by: Actor) -> bool:
    """Remove a rule. Return False if it isn't there."""
    return _edit(topic, kind, rule, _without, by=by)


Change = Callable[[TopicSettings, Kind, str], list[str]]


def _edit(topic: Topic, kind: Kind, rule: str, change: Change, *, by: Actor) -> bool:
    name = field_of(kind, rule)
    with transaction.atomic():
        # Locked before the list is read. Otherwise one of two rules added at once would be lost.
        held = Topic.objects.select_for_update().get(pk=topic.pk)
        settings = topic_editing.settings_of(held)
        names = change(settings, kind, rule)
        if names == getattr(settings, name):
            return False
        topic_editing.edit_topic(held, by=by, wanted={name: names})
    return True


def field_of(kind: Kind, rule: str) -> str:
    """Return the settings field that stores the rule."""
    if kind == CHECK:
        return "always_check"
    return "block_pages" if is_page(rule) else "block_domains"


def _without(settings: TopicSettings, kind: Kind, rule: str) -> list[str]:
    return [kept for kept in getattr(settings, field_of(kind, rule)) if kept != rule]


def _with(settings: TopicSettings, kind: Kind, rule: str) -> list[str]:
    kept: list[str] = getattr(settings, field_of(kind, rule))
    if rule.casefold() in map(str.casefold, kept):
        return kept
    most = MAX_CHECKS if kind == CHECK else MAX_PLACES
    if len(kept) >= most:
        raise LimitReached(
            _("You’ve reached the limit of %(most)d rules. Remove one first.") % {"most": most}
        )
    checks, places = settings.always_check, places_of(settings)
    if kind == CHECK:
        checks = [*checks, rule]
    else:
        places = [*places, rule]
    if problem := contradiction(checks, places, allowed=settings.allow_domains):
        raise InvalidValue(problem)
    return [*kept, rule]


def contradiction(
    checks: Sequence[str], places: Sequence[str], *, allowed: Sequence[str] = ()
) -> str:
    """Return a sentence about contradicting rules, or "" if there are none.

    A page with a part can't be listed twice. A page can't be both always included and never read,
    and a domain can't be both allowed and blocked.
    """
    pages = Counter(canonical_url(address_of(check)) for check in filter(is_page, checks))
    for check in filter(is_page, checks):
        page = canonical_url(address_of(check))
        if pages[page] > 1 and part_of(check):
            return _(
                "“%(page)s” is listed twice under “Always include”. Use one line for each page. To read several parts, separate CSS selectors with commas."
            ) % {"page": address_of(check)[:200]}
        if place := place_of(page, places):
            return _(
                "“%(check)s” is always included, but “%(place)s” is never read. Remove one of the two."
            ) % {"check": check[:200], "place": readable_rule(place)[:200]}
    both = next((place for place in places if place in allowed), "")
    if both:
        return _(
            "“%(place)s” is one of the topic’s allowed domains. Remove it in the topic’s settings first."
        ) % {"place": readable_rule(both)}
    return ""
