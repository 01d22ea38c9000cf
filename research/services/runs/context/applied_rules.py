"""Apply the topic's standing rules in a run, and report how they were applied.

Data flow: `always_check` and blocked places (`standing_rules`), as stored in the run's settings ->
queries and prompt of the plan -> a hit for each URL, and hits left out by `filter_seen` ->
`obeyed`, for the pages and the manifest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from beacon_site.net.errors import ProviderRejected
from beacon_site.providers.search import sample
from beacon_site.text.canonical_urls import canonical_url, domain_of, is_in_domain
from beacon_site.text.cleaning import for_prompt, shorten
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import joined, ngettext
from memory.services.review import proposals as review_services
from research.models import Hit, Run, TopicSettings
from research.models.topics import is_page
from research.services.runs.context.run_context import RunContext
from research.services.topics.settings.standing_rules import (
    address_of,
    place_of,
    places_of,
    readable_rule,
    reason_against,
)

SERVICE = "always"  # the service of a hit that a rule added
MAX_NAMED = 5  # places named in one sentence; the others are counted


# --- the plan ---


def for_plan(settings: TopicSettings) -> dict[str, list[str]]:
    """Return the rules for the planning prompt, as data."""
    return {
        "always_check": [for_prompt(address_of(rule)) for rule in settings.always_check],
        "not_at": [for_prompt(readable_rule(place)) for place in places_of(settings)],
    }


def with_always_included(planned: Sequence[str], settings: TopicSettings) -> list[str]:
    """Return the always-included queries, then the planned ones, each once.

    They come first because a slow service gets only the first few.
    """
    query_rules = [rule for rule in settings.always_check if not is_page(rule)]
    known = {query.casefold() for query in query_rules}
    return [*query_rules, *(query for query in planned if query.casefold() not in known)]


def checked_in(queries: Sequence[str], settings: TopicSettings) -> list[str]:
    """Return the “always include” rules that these queries and the run's hits cover."""
    folded_queries = {query.casefold() for query in queries}
    return [r for r in settings.always_check if is_page(r) or r.casefold() in folded_queries]


def describe_plan(output: Mapping[str, Any]) -> str:
    """Return the rules that a plan applies as text, or ""."""
    parts = []
    if output.get("always"):
        parts.append(_("always included: %(rules)s") % {"rules": _listed(output["always"])})
    if output.get("not_at"):
        parts.append(_("never read: %(places)s") % {"places": _listed(output["not_at"])})
    return joined("; ", parts)


def _listed(rules: Sequence[str]) -> str:
    named = [shorten(readable_rule(rule), 80) for rule in rules[:MAX_NAMED]]
    more = len(rules) - len(named)
    if more:
        named.append(ngettext("%(n)d more", "%(n)d more", more) % {"n": more})
    return ", ".join(named)


# --- the hits ---


def add_pages(context: RunContext) -> None:
    """Create a hit for each URL in the rules that no search returned.

    Repeatable: a run has one hit per canonical URL.
    """
    count = context.run.hits.count()
    pages = _pages_to_read(context.settings)
    Hit.objects.bulk_create(
        [
            Hit(
                run=context.run,
                url=canonical_url(page),
                link=page,
                domain=domain_of(page)[:255],
                title=page[:500],
                service=SERVICE,
                rank=1,
                place=count + number,
            )
            for number, page in enumerate(pages, start=1)
        ],
        ignore_conflicts=True,
    )


def _pages_to_read(settings: TopicSettings) -> list[str]:
    """Return the URLs that the run reads by rule: always included, or given to this run."""
    pages = map(address_of, filter(is_page, settings.always_check))
    return [*pages, *settings.read_next]


def is_always(settings: TopicSettings, hit: Hit) -> bool:
    """Return True if a hit is a page that a rule makes the run read first, even if it is known."""
    return any(canonical_url(page) == hit.url for page in _pages_to_read(settings))


def is_boosted(settings: TopicSettings, hit: Hit) -> bool:
    return bool(place_of(hit.url, settings.boost_places))


def in_few_words(settings: TopicSettings, hits: Sequence[Hit]) -> str:
    """Return a summary such as `2 blocked by you, 1 boosted`, or ""."""
    blocked = sum(left_out(settings, hits).values())
    usable = (hit for hit in hits if hit.state in (Hit.State.NEW, Hit.State.RETURNING))
    boosted = sum(is_boosted(settings, hit) for hit in usable)
    parts = [
        _("%(n)d blocked by you") % {"n": blocked} if blocked else "",
        _("%(n)d boosted") % {"n": boosted} if boosted else "",
    ]
    return joined(", ", filter(None, parts))


def describe_boosted(settings: TopicSettings, hits: Iterable[Hit]) -> list[str]:
    """Return a line for each boosted place with new hits."""
    usable = (hit for hit in hits if hit.state in (Hit.State.NEW, Hit.State.RETURNING))
    places = (place_of(hit.url, settings.boost_places) for hit in usable)
    return [
        ngettext(
            "%(n)d result from %(place)s was boosted by your rule",
            "%(n)d results from %(place)s were boosted by your rule",
            count,
        )
        % {"n": count, "place": shorten(readable_rule(place), 120)}
        for place, count in Counter(place for place in places if place).most_common(MAX_NAMED)
    ]


def left_out(settings: TopicSettings, hits: Iterable[Hit]) -> dict[str, int]:
    """Return how many hits were left out per blocked place."""
    blocked = (hit for hit in hits if hit.state == Hit.State.BLOCKED)
    places = (reason_against(settings, hit.url) for hit in blocked)
    return dict(Counter(place for place in places if place).most_common())


def describe_left_out(counts: Mapping[str, int]) -> list[str]:
    """Return a line for each place: `3 results from example.org blocked by your rule`."""
    return [
        ngettext(
            "%(n)d result from %(place)s was blocked by your rule",
            "%(n)d results from %(place)s were blocked by your rule",
            count,
        )
        % {"n": count, "place": shorten(readable_rule(place), 120)}
        for place, count in counts.items()
    ]


# --- redirects ---


def check_redirect_target(context: RunContext, hit: Hit, address: str) -> None:
    """Raise ProviderRejected if a page redirected to a blocked place.

    Before the fetch, only the URL from the search was checked. The sample's articles are local,
    whatever URL they were published at.
    """
    led_to = canonical_url(address)
    if led_to == hit.url or not led_to.startswith("http") or sample.is_sample_url(hit.link):
        return
    settings, requested = context.settings, is_always(context.settings, hit)
    place = "" if requested else reason_against(settings, led_to)
    place = place or place_of(led_to, review_services.refused_domains(context.topic.owner))
    if place:
        words = _("redirects to %(place)s, which you blocked")
        raise ProviderRejected(words % {"place": readable_rule(place)})
    allowed = [] if requested else settings.allow_domains
    if allowed and not any(is_in_domain(led_to, domain) for domain in allowed):
        words = _("redirects to %(place)s, which isn’t one of your allowed domains")
        raise ProviderRejected(words % {"place": readable_rule(domain_of(led_to))})


# --- results ---


def obeyed(run: Run, hits: Iterable[Hit], queries: Sequence[str] | None) -> dict[str, Any]:
    """Return how the run applied its standing rules; {} if it has none. `queries` is None before the plan.

    `checked` has each rule with its result, `left_out` what was left out, as text.

    Uses the settings it was started with, and the given hits.
    """
    settings, hits = TopicSettings.from_json(run.topic, run.settings), list(hits)
    pages = {hit.url: hit for hit in hits}
    checked = [
        (rule, _rule_outcome(run, rule, pages.get(canonical_url(address_of(rule))), queries))
        for rule in ([*settings.always_check, *settings.read_next] if queries is not None else [])
    ]
    texts = describe_left_out(left_out(settings, hits)) + describe_boosted(settings, hits)
    return {"checked": checked, "left_out": texts} if checked or texts else {}


def _rule_outcome(run: Run, rule: str, hit: Hit | None, queries: Sequence[str] | None) -> str:
    if not is_page(rule):
        requested = rule.casefold() in {query.casefold() for query in queries or ()}
        return _("searched") if requested else _("manually removed from this run’s plan")
    if hit is None or hit.reading == Hit.Reading.NOT_READ:
        return _("not read yet") if run.is_unfinished else _("not read in this run")
    return {
        Hit.Reading.READ: _("read (only the selected part)") if hit.part else _("read"),
        Hit.Reading.FAILED: _("couldn’t be read: %(why)s") % {"why": hit.reason},
        Hit.Reading.NEAR_DUPLICATE: _("read: %(why)s") % {"why": hit.reason},
        Hit.Reading.QUARANTINED: _("quarantined: %(why)s") % {"why": hit.reason},
    }[Hit.Reading(hit.reading)]
