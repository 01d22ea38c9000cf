"""The tracks of a deep run: which tracks a run has, the loop that runs them, and their tools.

`web_search`: words -> the topic's services, through the same code as the step `search` -> hits, new
or known -> a numbered list. `open_page`: one of those numbers -> the guarded fetch -> a content
item -> its text. A model can't open a URL that it wrote itself, because it could send what it read
in memory anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import transaction
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy
from pydantic import Field

from beacon_site.net.errors import ProviderError
from beacon_site.net.fetch import WebPage
from beacon_site.providers.llm.base import Answer, Message, Usage
from beacon_site.providers.search.base import BY_NAME
from beacon_site.text import injection
from beacon_site.text.canonical_urls import canonical_url
from beacon_site.text.cleaning import as_data, clean, for_prompt, one_line, shorten
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import grouped, joined, ngettext
from memory.agents.tools.loop import ANSWERED, MAX_KEPT_LENGTH, CallRecord, LoopResult, run_loop
from memory.agents.tools.output_store import asker, store_for
from memory.agents.tools.types import Arguments, MemoryTool, ToolContext, ToolResult, refused
from memory.models import Agent, Sensitivity, Trust
from memory.models.actors import Actor
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached
from memory.services.notes.saving import lowest_trust
from research.claims.duplicates import near_duplicates
from research.claims.selection import PageText
from research.models import Hit, Step, ToolCall
from research.services.budgets.budget import RunMeter, depth_of
from research.services.runs.context import applied_rules, inputs
from research.services.runs.context.outputs import AskedQuery, TrackOutput, TracksOutput
from research.services.runs.context.run_context import RunContext, StepResult, TaskTimeUsedUp
from research.services.runs.search import gathering, reading, searching
from research.services.runs.search.gathering import Service
from research.services.runs.search.searching import Gate, Network, QueryResult

# --- the text of a page ---


def answer(context: ToolContext, hit: Hit) -> ToolResult:
    """Return the text of a page, or why there is none."""
    params = {"n": hit.place, "why": hit.reason}
    if hit.reading == Hit.Reading.FAILED:
        words = _("Page p%(n)d couldn’t be read: %(why)s Open another page.")
        return refused("unreadable", words % params)
    if hit.reading == Hit.Reading.QUARANTINED:
        return refused(
            "quarantined", _("Page p%(n)d is quarantined: %(why)s. Open another page.") % params
        )
    if hit.reading == Hit.Reading.NEAR_DUPLICATE:
        return refused("repeated", _("Page p%(n)d %(why)s. Open another page.") % params)
    item = hit.content_item
    if item is None:
        return refused("unreadable", _("The text of page p%(n)d is no longer stored.") % params)
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


def mark_duplicate_page(context: RunContext, hit: Hit) -> None:
    """Mark a page with the same text as an earlier one, so the two count as one source."""
    if hit.reading != Hit.Reading.READ:
        return
    rows = context.run.hits.filter(reading=Hit.Reading.READ).select_related("content_item")
    # By reading order and not by date, so a page that was cited remains the source.
    read = [*rows.exclude(pk=hit.pk).order_by("place"), hit]
    repeated = near_duplicates([_page(one, n) for n, one in enumerate(read)])
    original = repeated.get(len(read) - 1)
    if original is not None:
        hit.reading = Hit.Reading.NEAR_DUPLICATE
        hit.reason = _("has the same text as %(domain)s") % {"domain": read[original].domain}
        hit.save(update_fields=["reading", "reason"])


def _page(hit: Hit, number: int) -> PageText:
    text = hit.content_item.content if hit.content_item else ""
    return PageText(number, hit.link, hit.title, hit.domain, text)


# --- the tools ---

MAX_SEARCHES = 30  # per run, for all tracks together
SLOW_TWICE = 2  # a deep run can send a service this many times its normal limit
MAX_SNIPPET_LENGTH = 300
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


class TrackTools:
    """The tools shared by the tracks of one run, which run one after another."""

    def __init__(self, work: RunContext, asked: Sequence[AskedQuery] = ()) -> None:
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

    def _search(self, context: ToolContext, args: SearchArguments) -> ToolResult:
        query = one_line(clean(args.query)[0])[: inputs.MAX_QUERY_LENGTH]
        if not any(map(str.isalnum, query)):
            return refused(
                "invalid", _("The query contains no words. Enter something to search for.")
            )
        known = next((e["query"] for e in self.asked if _same(e["query"], query)), "")
        if not known and len({e["query"] for e in self.asked}) >= MAX_SEARCHES:
            words = _(
                "The run has reached its limit of %(most)d searches. Work with the results you have."
            )
            return refused("limit", words % {"most": MAX_SEARCHES})
        self._ask(known or query)
        return self._listed(context, known or query, args.limit)

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
            answers = [get() for _place, get in batch]
            self.asked += [one.as_json() for one in answers]
            self._keep(answers)
        for complaint in searching.complaints([e for e in self.asked if e["query"] == query]):
            self._work.run.warn(complaint)

    def _may_ask(self, service: str) -> bool:
        """Return True if a service with a query limit per run can take another query."""
        bound = BY_NAME[service].queries_a_run if service in BY_NAME else None
        count = sum(entry["service"] == service for entry in self.asked)
        return bound is None or count < bound * SLOW_TWICE

    def _call(self, service: Service, query: str) -> Callable[[], QueryResult]:
        gate = self._gates.setdefault(service.name, Gate(service.name, self._network))
        options = gathering.options_of(self._work)
        return partial(searching.ask, service.provider, query, options, gate=gate)

    def _keep(self, answers: Sequence[QueryResult]) -> None:
        """Store the hits, separate new from known ones, and count them on the run."""
        work, rows = self._work, self._work.run.hits
        before = set(rows.values_list("url", flat=True))
        queries = [*work.output("plan")["queries"], *dict.fromkeys(e["query"] for e in self.asked)]
        services = dict.fromkeys([*work.output("search")["order"], *(a.service for a in answers)])
        with transaction.atomic():
            gathering.keep(work, answers, gathering.order_of(services, queries), rows.count())
            fresh = list(rows.exclude(url__in=before).order_by("place"))
            gathering.classify(work, fresh)
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
                "%(n)d page was left out because it’s already known or blocked for this topic.",
                "%(n)d pages were left out because they’re already known or blocked for this topic.",
                left,
            )
            parts.append(words % {"n": left})
        data = {"query": query, "hits": [_hit_data(hit) for hit in fresh[:limit]]}
        plain = [lines_of(fresh[:limit]), *parts[1:]] if fresh else parts
        full = "\n\n".join([*plain, *problems])
        return ToolResult("\n\n".join([*parts, *problems]), data=data, full=full)

    # --- opening ---

    def _open(self, context: ToolContext, args: OpenArguments) -> ToolResult:
        hit = self._hit(args.page)
        if hit is None:
            params = {"page": shorten(args.page, 80)}
            words = _("Unknown page “%(page)s”. Open one that web_search listed.")
            return refused("not_found", words % params)
        if hit.state in (Hit.State.KNOWN, Hit.State.BLOCKED):
            words = _(
                "Page p%(n)d can’t be opened because it’s already known or blocked for this topic."
            )
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
        mark_duplicate_page(work, hit)


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
        if snippet := _harmless(shorten(hit.snippet, MAX_SNIPPET_LENGTH)):
            lines.append(f"    {snippet}")
    return "\n".join(lines)


def _harmless(text: str) -> str:
    return "" if injection.injection_reason(text) else for_prompt(text)


def _hit_data(hit: Hit) -> dict[str, Any]:
    return {
        "number": f"p{hit.place}",
        "title": hit.title,
        "url": hit.link,
        "domain": hit.domain,
        "state": hit.state,
        "published_at": str(hit.published_at or ""),
    }


# --- the tracks ---

AT_HOME = frozenset({"library", "sample"})  # they have documents, but hardly any news or opinions


@dataclass(frozen=True, slots=True)
class Track:
    """One track. `part` is the number of its row and never changes. `task` is in its prompt."""

    part: int
    name: str
    label: str | Promise
    task: str


OVERVIEW = Track(
    1,
    "overview",
    gettext_lazy("Overview"),
    "Find out what the subject is, its current state, who and what matters in it, and the numbers that describe it. Prefer primary and reference sources.",
)
NEWS = Track(
    2,
    "news",
    gettext_lazy("News"),
    "Find out what has happened recently: releases, decisions, events and numbers, each with its date. Prefer first-hand sources.",
)
VOICES = Track(
    3,
    "voices",
    gettext_lazy("Opinions"),
    "Find out what makers, users, experts and critics say about it, where they disagree, and why. "
    "Name who says what.",
)
TRACKS = (OVERVIEW, NEWS, VOICES)


def label_of(part: int) -> str:
    return next((str(track.label) for track in TRACKS if track.part == part), str(part))


def chosen(context: RunContext) -> list[Track]:
    """Return the tracks of this run.

    An overview if nothing is known yet, or if the topic has an objective or focus. News and voices
    unless only local documents are searched.
    """
    settings = context.settings
    services = set(connections.search_services(settings.services))
    if services and services <= AT_HOME:
        return [OVERVIEW]
    is_fresh = inputs.loaded_memory(context) is None
    wants_more = bool(settings.objective.strip() or settings.focus.strip())
    return [*([OVERVIEW] if is_fresh or wants_more else []), NEWS, VOICES]


# --- limits of a track ---

ROUNDS = 8  # of tool calls in one track; after that, the model is asked for its notes
ANSWER_TOKENS = 1_500  # per answer of the model
# A track starts no new round after this many seconds. If the task (12 minutes) has less time left,
# the track waits for the next task. Otherwise it could be interrupted and start over forever.
MAX_SECONDS, MIN_SECONDS = 360.0, 180.0
FOR_LAST_ROUND = 60.0  # in addition to the model's time limit, for the pages that it opens


class ShareUsed(BudgetReached):
    """A track has used up its share of the run's tokens. The others and the report keep theirs."""


class TrackMeter:
    """Counts a track's tokens on the run, and stops the track at its share."""

    def __init__(self, meter: RunMeter, share: int) -> None:
        self._meter = meter
        self._share = share
        self._most = meter.run.tokens + share

    def check(self) -> None:
        """Raise BudgetReached if the run's budget is used up, or ShareUsed if the track's share is."""
        self._meter.check()
        if self._meter.run.tokens >= self._most:
            words = _("it reached its share of the run’s token limit (%(share)s)")
            raise ShareUsed(words % {"share": grouped(self._share)})

    def count(self, usage: Usage, money: Decimal | None) -> None:
        """Add a call's tokens and cost to the run and to the track's row."""
        self._meter.count(usage, money)


def share_of(context: RunContext, tracks_left: int) -> int:
    """Return the token share of the next track if this many are left.

    The report's share is reserved.
    """
    most = context.budget.tokens
    for_report = min(depth_of(context.settings).tokens, most // 2)
    return max(0, most - for_report - context.run.tokens) // max(1, tracks_left)


def seconds_for(context: RunContext, timeout: float) -> float:
    """Return how many seconds a track can start rounds. `timeout` is that of one model call.

    Raises TaskTimeUsedUp if this task has too little time left.
    """
    seconds = context.seconds_left - timeout - FOR_LAST_ROUND
    if seconds < MIN_SECONDS:
        raise TaskTimeUsedUp
    return min(seconds, MAX_SECONDS)


# --- one track ---

TOOLS = (
    "recall",
    "memory_read",
    "store_in_memory",
    "retrieve_from_memory",
    "query_memory",
)
MAX_PROMPT_HITS = 15  # hits of the first searches in a track's prompt
MAX_NOTES = 12  # findings that the model is asked for


class StopRequested(Exception):
    """The run was asked to stop, so the track ends."""


class NoTools(Exception):
    """The model's endpoint doesn't support tools, so tracks are impossible."""


class TrackLoop:
    def __init__(
        self, work: RunContext, track: Track, context: ToolContext, at: TrackTools
    ) -> None:
        self._work, self._track, self._context, self._desk = work, track, context, at
        self._calls = ToolCall.objects.filter(run=work.run, part=track.part).count()
        self._made: list[CallRecord] = []
        self._opened: list[int] = []

    def go(self, *, tracks_left: int, timeout: float) -> StepResult:
        """Run the track.

        Raises ProviderError if the first model call fails, NoTools, and Interrupted if this task
        has too little time left.
        """
        seconds = seconds_for(self._work, timeout)
        try:
            looped = self._loop(share_of(self._work, tracks_left), seconds)
        except StopRequested:
            return self._left("", _("stopped early"))
        except BudgetReached as exc:
            return self._over_budget("", exc)
        if looped is None or (looped.without_tools and not looped.calls):
            raise NoTools
        if isinstance(looped.failure, BudgetReached):
            return self._over_budget(looped.text, looped.failure)
        warning = looped.notice if looped.why_ended != ANSWERED else ""
        if warning:
            self._warn(warning)
        return self._left(looped.text, warning)

    def _loop(self, share: int, seconds: float) -> LoopResult | None:
        work, meter = self._work, TrackMeter(self._work.meter, share)
        tools: list[str | MemoryTool] = [*self._desk.tools, *TOOLS]
        return run_loop(
            "track",
            self._messages(),
            context=self._context,
            tools=tools,
            rounds=ROUNDS,
            source=work.run.source,
            topic=work.topic,
            meter=meter,
            max_tokens=ANSWER_TOKENS,
            on_call=self._keep,
            must_answer=True,
            seconds=seconds,
            wait_for=self._wait_for,
            store=store_for(
                self._context,
                goal=self._goal,
                run_step=f"{work.run.source}/step:{work.step.pk}",
                ask=asker(self._context, meter=meter, wait_for=work.wait_for),
            ),
        )

    @property
    def _goal(self) -> str:
        """Return the track's goal, for a model that compacts results."""
        settings = self._work.settings
        parts = (self._work.topic.title, settings.objective, settings.focus, self._track.task)
        return ". ".join(filter(None, parts))

    # --- while it runs ---

    def _wait_for(self, call: Callable[[], Answer]) -> Answer:
        return self._work.wait_for(call, meanwhile=self._stop_if_asked)

    def _stop_if_asked(self) -> None:
        self._work.check_time()
        if self._work.is_stopping:
            raise StopRequested

    def _keep(self, call: CallRecord) -> None:
        """Store and show a finished call, and check whether the run continues."""
        self._calls += 1
        self._made.append(call)
        if call.tool == "open_page" and not call.is_error:
            self._opened.append(int(str(call.data["page"]).removeprefix("p")))
        with transaction.atomic():  # stored only while this worker holds the run
            self._work.progress(
                self._progress_text(), output=self._output(""), calls=len(self._made)
            )
            self._store(call)
        self._work.look()
        self._stop_if_asked()

    def _store(self, call: CallRecord) -> None:
        ToolCall.objects.create(
            run=self._work.run,
            part=self._track.part,
            position=self._calls,
            attempt=self._work.run.attempt,
            round=call.round,
            tool=call.tool,
            arguments=call.arguments,
            result=call.result[:MAX_KEPT_LENGTH],
            is_error=call.is_error,
            content_item_id=call.data.get("content_item"),
            milliseconds=call.milliseconds,
        )

    def _progress_text(self) -> str:
        count, opened = len(self._made), len(set(self._opened))
        calls = ngettext("%(n)d tool call", "%(n)d tool calls", count) % {"n": count}
        pages = ngettext("%(n)d page opened", "%(n)d pages opened", opened) % {"n": opened}
        return joined(", ", [calls, pages])

    # --- the prompt ---

    def _messages(self) -> list[Message]:
        work, settings = self._work, self._work.settings
        memory = inputs.loaded_memory(work)
        fresh = work.run.hits.filter(state__in=[Hit.State.NEW, Hit.State.RETURNING])
        values: dict[str, Any] = {
            "track": self._track,
            "rounds": ROUNDS,
            "most": MAX_NOTES,
            "languages": ", ".join(settings.languages),
            "memory": memory.as_prompt() if memory else "",
            "observations": inputs.enter(work, inputs.chosen(work)),
            "topic": work.topic.title,
            "objective": for_prompt(settings.objective),
            "focus": for_prompt(settings.focus),
            "time_frame": settings.get_time_frame_display() if inputs.since(settings) else "",
            "today": timezone.localdate().isoformat(),
            "found": lines_of(list(fresh.order_by("place")[:MAX_PROMPT_HITS])),
        }
        return [
            Message("system", render_to_string("prompts/track_system.txt", values)),
            Message("user", render_to_string("prompts/track_user.txt", values)),
        ]

    # --- its end ---

    def _over_budget(self, notes: str, exc: BudgetReached) -> StepResult:
        """End the track, or the whole run if the run's or the month's budget is used up."""
        if isinstance(exc, ShareUsed):
            self._warn(str(exc))
        else:
            self._work.stop(_("stopped early: %(why)s") % {"why": exc})
        return self._left(notes, str(exc))

    def _warn(self, why: str) -> None:
        params = {"track": self._track.label, "why": why}
        self._work.run.warn(_("Track “%(track)s” ended early: %(why)s") % params)

    def _left(self, notes: str, warning: str) -> StepResult:
        return StepResult(
            self._output(clean(notes)[0].strip()),
            detail=self._progress_text(),
            counts={"calls": len(self._made), "opened": len(set(self._opened))},
            warning=warning,
        )

    def _output(self, notes: str) -> TrackOutput:
        return {
            "track": self._track.name,
            "notes": notes,
            "asked": self._desk.asked,
            "opened": sorted(set(self._opened)),
        }


# --- the step ---

AGENT = "research"  # the built-in agent, whose settings decide what its tracks share


def explore(context: RunContext) -> StepResult:
    """Run the tracks. If none can run, the run continues as quick."""
    model = connections.model_for(context.topic, "track")
    if model is None:
        is_secret = context.topic.sensitivity == Sensitivity.SENSITIVE
        why = _("the topic is marked as sensitive") if is_secret else _("no model is set up")
        return _as_quick(context, why)
    if model.profile.tools is False:
        return _as_quick(context, _("the model’s endpoint doesn’t support tools"))
    tracks = chosen(context)
    desk = TrackTools(context, _asked_before(context))
    agent = agent_of(context)
    ended: list[Step] = []
    for place, track in enumerate(tracks):
        if context.is_stopping:
            break
        loop = TrackLoop(context, track, _context(context, agent, track), desk)
        go = partial(loop.go, tracks_left=len(tracks) - place, timeout=model.profile.timeout)
        try:
            ended.append(context.execute_track(track.part, go))
        except NoTools:
            context.run.steps.filter(name=inputs.STEP, part=track.part).delete()
            if not ended:
                return _as_quick(context, _("the model’s endpoint doesn’t support tools"))
            context.run.warn(
                _("The model’s endpoint no longer supports tools, so some tracks are missing.")
            )
            break
        _warn_if_failed(context, track, ended[-1])
    return _explored(context, ended)


def agent_of(context: RunContext) -> Agent:
    """Return the owner's built-in research agent."""
    owner, memory_is_on = context.topic.owner, {"enable_memory": True}
    return Agent.objects.get_or_create(owner=owner, name=AGENT, defaults=memory_is_on)[0]


def _context(context: RunContext, agent: Agent, track: Track) -> ToolContext:
    """Return the actor of a track's tool calls: a sub-agent of the run's agent."""
    return ToolContext(
        context.topic.owner,
        Actor("agent", agent.name),
        context.run.source,
        scope=context.run.source,
        topic=context.topic,
        agent=agent,
    ).for_subagent(track.name)


def _asked_before(context: RunContext) -> list[AskedQuery]:
    """Return the queries of tracks that ended or were interrupted."""
    parts = context.run.steps.filter(name=inputs.STEP, part__gt=0).order_by("part")
    entries: list[AskedQuery] = []
    for output in parts.values_list("output", flat=True):
        entries += [one for one in output.get("asked", []) if one not in entries]
    return entries


def _warn_if_failed(context: RunContext, track: Track, step: Step) -> None:
    if step.state == Step.State.FAILED:
        params = {"track": track.label, "why": step.warning}
        context.run.warn(_("Track “%(track)s” failed: %(why)s") % params)


def _explored(context: RunContext, ended: list[Step]) -> StepResult:
    went = [step for step in ended if step.state == Step.State.DONE]
    if ended and not went:
        return _as_quick(context, _("every track failed"))
    read = context.run.hits.filter(reading=Hit.Reading.READ).exclude(content_item=None)
    places = list(read.order_by("place").values_list("place", flat=True))
    if not places and not context.is_stopping:
        return _as_quick(context, _("none of the tracks opened a page"))
    pages = ngettext("%(n)d page opened", "%(n)d pages opened", len(places)) % {"n": len(places)}
    tracks = ngettext("%(n)d track", "%(n)d tracks", len(went)) % {"n": len(went)}
    output: TracksOutput = {
        "opened": places,
        "tracks": [{"track": s.output["track"], "notes": s.output["notes"]} for s in went],
    }
    calls = sum(step.counts.get("calls", 0) for step in went)
    counts = {"tracks": len(went), "calls": calls, "opened": len(places)}
    return StepResult(output, detail=joined(", ", [tracks, pages]), counts=counts)


def _as_quick(context: RunContext, why: str) -> StepResult:
    """Record why there are no tracks. The next steps are those of a quick run."""
    warning = _("The run continues as a quick run because %(why)s.") % {"why": why}
    context.run.warn(warning)
    return StepResult(
        TracksOutput(opened=[], why=why),
        detail=_("continued as a quick run because %(why)s") % {"why": why},
        warning=warning,
    )
