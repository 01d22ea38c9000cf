"""The tools of a deep run's tracks: search the web, and open pages that the searches found.

`web_search`: words -> the topic's services, through the same code as the step `search` -> hits, new
or known -> a numbered list. `open_page`: one of those numbers -> the guarded fetch -> a content
item -> its text. A model can't open a URL that it wrote itself, because it could send what it read
in memory anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from pydantic import Field

from beacon_site.net.errors import ProviderError
from beacon_site.net.fetch import WebPage
from beacon_site.search_services.catalogue import BY_NAME
from beacon_site.text import injection
from beacon_site.text.canonical_urls import canonical_url
from beacon_site.text.cleaning import as_data, clean, for_prompt, one_line, shorten
from memory.models import Trust
from memory.notes.services import lowest_trust
from memory.tools.types import Arguments, Full, MemoryTool, ToolContext, ToolResult, refused
from research.claims.duplicates import near_duplicates
from research.claims.selection import Reading
from research.models import Hit
from research.run_context import applied_rules, inputs
from research.run_context.context import RunContext
from research.search import gathering, reading, searching
from research.search.gathering import Service
from research.search.searching import Asked, Gate, Network

# --- the text of a page ---


def answer(context: ToolContext, hit: Hit) -> ToolResult:
    """Return the text of a page, or why there is none."""
    told = {"n": hit.place, "why": hit.reason}
    if hit.reading == Hit.Reading.FAILED:
        words = _("p%(n)d couldn’t be read: %(why)s Open another page.")
        return refused("unreadable", words % told)
    if hit.reading == Hit.Reading.QUARANTINED:
        return refused(
            "quarantined", _("p%(n)d is quarantined: %(why)s. Open another page.") % told
        )
    if hit.reading == Hit.Reading.NEAR_DUPLICATE:
        return refused("repeated", _("p%(n)d %(why)s. Open another page.") % told)
    item = hit.content_item
    if item is None:
        return refused("unreadable", _("The text of p%(n)d is no longer stored.") % told)
    context.read([item])
    about = ", ".join(filter(None, [hit.domain, str(hit.published_at or "")]))
    text = f"{item.title}\n\n{item.content}"
    return ToolResult(
        f"p{hit.place} ({about})\n{as_data(text)}",
        data={
            "page": f"p{hit.place}",
            "url": hit.link,
            "title": item.title,
            "characters": len(item.content),
            "content_item": str(item.pk),
        },
    )


def set_aside_if_repeated(work: RunContext, hit: Hit) -> None:
    """Mark a page with the same text as an earlier one, so the two count as one source."""
    if hit.reading != Hit.Reading.READ:
        return
    rows = work.run.hits.filter(reading=Hit.Reading.READ).select_related("content_item")
    # By reading order and not by date, so a page that was cited remains the source.
    read = [*rows.exclude(pk=hit.pk).order_by("place"), hit]
    repeated = near_duplicates([_page(one, n) for n, one in enumerate(read)])
    original = repeated.get(len(read) - 1)
    if original is not None:
        hit.reading = Hit.Reading.NEAR_DUPLICATE
        hit.reason = _("has the same text as %(domain)s") % {"domain": read[original].domain}
        hit.save(update_fields=["reading", "reason"])


def _page(hit: Hit, number: int) -> Reading:
    text = hit.content_item.content if hit.content_item else ""
    return Reading(number, hit.link, hit.title, hit.domain, text)


# --- the tools ---

MOST_SEARCHES = 30  # per run, for all tracks together
SLOW_TWICE = 2  # a deep run can send a service this many times its normal limit
LONGEST_SNIPPET = 300
_NUMBER = re.compile(r"\[?p?(\d{1,6})\]?")


class SearchArguments(Arguments):
    query: str = Field(
        min_length=1, max_length=400, description="The search query, in a few words."
    )
    limit: int = Field(10, ge=1, le=20, description="The maximum number of pages to list.")


class OpenArguments(Arguments):
    page: str = Field(
        min_length=1,
        max_length=2048,
        description="The ID of a page that web_search listed, such as p12.",
    )


class Desk:
    """The tools shared by the tracks of one run, which run one after another."""

    def __init__(self, work: RunContext, asked: Sequence[dict[str, Any]] = ()) -> None:
        """`asked` holds earlier queries of this run's tracks, which aren't repeated."""
        self._work = work
        self._network = Network()
        self._gates: dict[str, Gate] = {}
        self.asked = list(asked)

    @property
    def tools(self) -> list[MemoryTool]:
        """Return the two tools, bound to this run."""
        return [
            MemoryTool(
                "web_search",
                "Search the web. Lists pages that are new to this topic, each with an ID such as p12. Pass the ID to open_page to read the page.",
                SearchArguments,
                self._search,
            ),
            MemoryTool(
                "open_page",
                "Read a page that web_search listed, by its ID. Other URLs can't be opened.",
                OpenArguments,
                self._open,
            ),
        ]

    # --- searching ---

    def _search(self, context: ToolContext, asked: SearchArguments) -> ToolResult:
        query = one_line(clean(asked.query)[0])[: inputs.MOST_QUERY_LENGTH]
        if not any(map(str.isalnum, query)):
            return refused(
                "invalid", _("The query contains no words. Enter something to search for.")
            )
        known = next((e["query"] for e in self.asked if _same(e["query"], query)), "")
        if not known and len({e["query"] for e in self.asked}) >= MOST_SEARCHES:
            words = _(
                "The run has reached its limit of %(most)d searches. Work with the results you have."
            )
            return refused("limit", words % {"most": MOST_SEARCHES})
        self._ask(known or query)
        return self._listed(context, known or query, asked.limit)

    def _ask(self, query: str) -> None:
        """Send the query to each of the topic's services that hasn't answered it yet."""
        answered = {e["service"] for e in self.asked if e["query"] == query and not e["problem"]}
        services = [
            service
            for service in gathering.services_of(self._work, [query])
            if service.name not in answered and self._may_ask(service.name)
        ]
        calls = [self._call(service, query) for service in services]
        for batch in self._work.batches_of(calls):
            answers = [outcome.get() for outcome in batch]
            self.asked += [one.as_json() for one in answers]
            self._keep(answers)
        for complaint in searching.complaints([e for e in self.asked if e["query"] == query]):
            self._work.run.warn(complaint)

    def _may_ask(self, service: str) -> bool:
        """Whether a service with a query limit per run can take another query."""
        bound = BY_NAME[service].queries_a_run if service in BY_NAME else None
        count = sum(entry["service"] == service for entry in self.asked)
        return bound is None or count < bound * SLOW_TWICE

    def _call(self, service: Service, query: str) -> Callable[[], Asked]:
        gate = self._gates.setdefault(service.name, Gate(service.name, self._network))
        options = gathering.options_of(self._work)
        return partial(searching.ask, service.provider, query, options, gate=gate)

    def _keep(self, answers: Sequence[Asked]) -> None:
        """Store the hits, separate new from known ones, and count them on the run."""
        work, rows = self._work, self._work.run.hits
        before = set(rows.values_list("url", flat=True))
        queries = [*work.output("plan")["queries"], *dict.fromkeys(e["query"] for e in self.asked)]
        services = dict.fromkeys([*work.output("search")["order"], *(a.service for a in answers)])
        with transaction.atomic():
            gathering.keep(work, answers, gathering.Order.of(list(services), queries), rows.count())
            fresh = list(rows.exclude(url__in=before).order_by("place"))
            gathering.tell(work, fresh)
            gathering.store_again(fresh, ["state", "reason"])
            work.run.put(
                new_count=rows.filter(state=Hit.State.NEW).count(),
                known_count=rows.filter(state=Hit.State.KNOWN).count(),
                returning_count=rows.filter(state=Hit.State.RETURNING).count(),
            )

    def _listed(self, context: ToolContext, query: str, limit: int) -> ToolResult:
        found = [h for h in self._work.run.hits.order_by("place") if _rank(h, query) is not None]
        settings = self._work.settings
        found.sort(
            key=lambda hit: (not applied_rules.is_boosted(settings, hit), _rank(hit, query) or 0)
        )
        fresh = [h for h in found if h.state in (Hit.State.NEW, Hit.State.RETURNING)]
        problems = searching.complaints([e for e in self.asked if e["query"] == query])
        if not found and problems:
            return refused("unavailable", " ".join([_("The search failed."), *problems]))
        context.trust = lowest_trust([context.trust, Trust.EXTERNAL])
        parts = [as_data(lines_of(fresh[:limit]))] if fresh else [_("Nothing new was found.")]
        if left := len(found) - len(fresh):
            words = ngettext(
                "%(n)d page was left out because the topic has already seen it or blocks it.",
                "%(n)d pages were left out because the topic has already seen them or blocks them.",
                left,
            )
            parts.append(words % {"n": left})
        data = {"query": query, "hits": [_hit_data(hit) for hit in fresh[:limit]]}
        plain = [lines_of(fresh[:limit]), *parts[1:]] if fresh else parts
        full = Full("\n\n".join([*plain, *problems]), title=query)
        return ToolResult("\n\n".join([*parts, *problems]), data=data, full=full)

    # --- opening ---

    def _open(self, context: ToolContext, asked: OpenArguments) -> ToolResult:
        hit = self._hit(asked.page)
        if hit is None:
            told = {"page": shorten(asked.page, 80)}
            words = _("Unknown page “%(page)s”. Open one that web_search listed.")
            return refused("not_found", words % told)
        if hit.state in (Hit.State.KNOWN, Hit.State.BLOCKED):
            words = _("p%(n)d can’t be opened because the topic has already seen it or blocks it.")
            return refused("known", words % {"n": hit.place})
        if hit.reading == Hit.Reading.NOT_READ:
            if refusal := self._beyond():
                return refusal
            self._fetch(hit)
        return answer(context, hit)

    def _hit(self, page: str) -> Hit | None:
        rows = self._work.run.hits.select_related("content_item")
        number = _NUMBER.fullmatch(page.strip())
        if number is not None:
            return rows.filter(place=int(number[1])).first()
        return rows.filter(url=canonical_url(clean(page)[0].strip())).first()

    def _beyond(self) -> ToolResult | None:
        most = self._work.budget.pages
        if self._work.run.hits.exclude(reading=Hit.Reading.NOT_READ).count() < most:
            return None
        words = _("The run has reached its limit of %(most)d pages. Work with what you’ve read.")
        return refused("limit", words % {"most": most})

    def _fetch(self, hit: Hit) -> None:
        work = self._work
        got = _outcome(lambda: work.wait_for(reading.fetching(work, [hit])[0]))
        with transaction.atomic():  # stored only while this worker holds the run
            reading.keep(work, hit, got)
            work.run.put(read_count=work.run.hits.filter(reading=Hit.Reading.READ).count())
        set_aside_if_repeated(work, hit)


def _outcome(call: Callable[[], WebPage]) -> Callable[[], WebPage]:
    """Run the call now. Return a function that returns its result or raises its error."""
    try:
        page = call()
    except ProviderError as exc:
        failure = exc

        def fail() -> WebPage:
            raise failure

        return fail
    return lambda: page


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def _rank(hit: Hit, query: str) -> int | None:
    """Return the best rank of a hit in the answers to this query, or None."""
    ranks = [vote["rank"] for vote in hit.queries if _same(vote["query"], query)]
    return min(ranks, default=None)


def lines_of(found: Sequence[Hit]) -> str:
    """Return hits for a model, without snippets that contain prompt injection."""
    lines = []
    for hit in found:
        about = ", ".join(filter(None, [hit.domain, str(hit.published_at or "")]))
        lines.append(f"p{hit.place}: {_harmless(hit.title)} ({about})")
        if snippet := _harmless(shorten(hit.snippet, LONGEST_SNIPPET)):
            lines.append(f"    {snippet}")
    return "\n".join(lines)


def _harmless(text: str) -> str:
    return "" if injection.smells_of_instructions(text) else for_prompt(text)


def _hit_data(hit: Hit) -> dict[str, Any]:
    return {
        "number": f"p{hit.place}",
        "title": hit.title,
        "url": hit.link,
        "domain": hit.domain,
        "state": hit.state,
        "published_at": str(hit.published_at or ""),
    }
