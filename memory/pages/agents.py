"""Agents → Context: what an agent would get for a message, why, and what changes without a memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q, QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.vary import vary_on_headers

from beacon_site import health
from beacon_site.providers.llm.tokens import count_method_label, counted
from beacon_site.text.cleaning import clean, in_brief, number_of, shorten, uuid_of, uuids_of
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import redirect_to, signed_in
from memory.accounts.agents import agents_of
from memory.accounts.tokens import BUILT_IN
from memory.agents.chat import without as comparing
from memory.agents.chat.without import ASK, AskedAnswers, CannotAsk, ContextQuery
from memory.models import (
    Agent,
    MemoryFile,
    Note,
    Observation,
    Proposal,
    Revision,
    Sensitivity,
    Topic,
    Use,
    User,
)
from memory.models.actors import RESEARCH
from memory.models.errors import MemoryRefused
from memory.models.history import actor_kind
from memory.models.remembered import names_excluded, scope_excluding, scope_including
from memory.pages.records.listing import clipped
from memory.pages.shared.as_of import at_a_date
from memory.pages.shared.undo import toast_with_undo
from memory.services.content.items import checked_scope
from memory.services.context.layers import (
    CHARACTERS,
    MAX_CHARACTERS,
    MAX_RULES,
    MAX_SUMMARIES,
    TOKENS,
    Context,
    ContextLine,
    Layer,
)
from memory.services.context.topic_block import topic_block
from memory.services.files.texts import format_size
from memory.services.llm import connections
from memory.services.llm.asking import BudgetReached, check_month
from memory.services.records import acts as record_acts
from memory.services.topic_memory import KnownFact, TopicMemory

MAX_MESSAGE = 10_000  # characters of a message in a URL
MAX_BUDGET = 1_000_000  # tokens
USUAL_BUDGET = MAX_CHARACTERS // 4  # agents get at most 60,000 characters, about so many tokens
MIN_SCALE = 16_000  # tokens that the bar shows at least
MAX_WITHOUT = 50
MAX_ADDRESS_LENGTH = 2_000  # characters in a header
MAX_HELD = 20  # proposals that are listed as left out
LONG = 280  # characters of a line that is shown unfolded
WEEK = timedelta(days=7)
_MARK = re.compile(r"^- \[note:[0-9a-f-]{36}\] ")  # the mark by which a model cites a note


@dataclass(frozen=True, slots=True)
class Options:
    """The page's options from its URL; `problems` are messages about invalid ones."""

    query: ContextQuery
    budget: str = ""  # as typed
    asked: AskedAnswers | None = None
    problems: tuple[str, ...] = ()
    as_of: str = ""  # the date that the page shows, kept in its links

    @classmethod
    def of(cls, query: QueryDict, agents: Sequence[tuple[str, str]]) -> Options:
        """Read them from a query string; the first of `agents` is the default."""
        problems = []
        agent = clean(query.get("agent", ""))[0].strip()[:100]
        if agent not in dict(agents):
            if agent:
                why = _(
                    "There’s no agent “%(agent)s”. This page shows the context for %(used)s instead."
                )
                problems.append(why % {"agent": shorten(agent, 60), "used": agents[0][1]})
            agent = agents[0][0]
        message = clean(query.get("message", ""))[0].strip()
        if len(message) > MAX_MESSAGE:
            params = {"most": grouped(MAX_MESSAGE), "have": grouped(len(message))}
            why = _("Only the first %(most)s of %(have)s characters of the message are used.")
            problems.append(why % params)
        typed = clean(query.get("budget", ""))[0].strip()[:20]
        most, unit = _budget(typed), TOKENS
        if typed and most is None:
            why = _(
                "Enter a whole number from 1 to %(most)s as the budget, not “%(typed)s”. Beacon used %(used)s instead."
            )
            params = {"typed": typed, "most": grouped(MAX_BUDGET), "used": grouped(USUAL_BUDGET)}
            problems.append(why % params)
        if most is None:
            most, unit = MAX_CHARACTERS, CHARACTERS
        topic = clean(query.get("topic", ""))[0].strip()[:100]
        wanted = ContextQuery(agent, message[:MAX_MESSAGE], topic, most, unit, _without(query))
        asked = AskedAnswers.of(query.get("asked", "")[:60])
        return cls(wanted, typed, asked, tuple(problems), query.get("as_of", "")[:40])

    @property
    def most(self) -> int:
        """Return the budget in tokens."""
        return self.query.most if self.query.unit == TOKENS else USUAL_BUDGET

    def address(self, **changed: str) -> str:
        values = {
            "agent": self.query.agent,
            "message": self.query.message,
            "topic": self.query.topic,
            "budget": self.budget,
            "without": ",".join(self.query.without),
            "asked": str(self.asked or ""),
            "as_of": self.as_of,
            **changed,
        }
        return urlencode({name: value for name, value in values.items() if value})


def _budget(typed: str) -> int | None:
    """Return the typed number, or None if there is none or it is invalid."""
    digits = re.sub(r"[,.\s_](?=\d{3}(?!\d))", "", typed)
    number = number_of(digits) or 0
    return number if 1 <= number <= MAX_BUDGET else None


def _without(query: QueryDict) -> tuple[str, ...]:
    """Return the IDs to leave out: in the URL's list, or whose checkboxes were cleared."""
    if "listed" in query:
        kept = set(query.getlist("keep"))
        typed = [one for one in query.get("listed", "").split(",") if one not in kept]
    else:
        typed = query.get("without", "").split(",")
    return tuple(map(str, uuids_of(typed)))[:MAX_WITHOUT]


# --- what the page shows ---


@dataclass(frozen=True, slots=True)
class Line:
    """A record that is included or left out: its words, the reason, and what can be done with it.

    `act` is the action that the row offers besides pinning: "never", "allow", or "".
    """

    text: str
    why: str
    url: str = ""
    edit_url: str = ""
    is_outside: bool = False
    pk: str = ""  # of a record that can be left out
    tokens: int = 0
    is_kept: bool = True
    is_pinned: bool = False
    act: str = ""

    @property
    def is_long(self) -> bool:
        """Return True if it is shown folded."""
        return len(self.text) > LONG or self.text.count("\n") > 1

    @property
    def beginning(self) -> str:
        """Return the first words of a folded line."""
        return in_brief(self.text, LONG // 2)

    @property
    def label(self) -> str:
        """Return a short name of the record for the labels of its controls."""
        return clipped(self.beginning, 60)


def preview(user: User, options: Options) -> dict[str, Any]:
    """Return what the agent would get; a person's preview doesn't count as a use.

    `used` are the tokens that count toward the budget (those of the list of files don't), `over`
    those over it (identity and machine are always included), and `saved` those that cleared
    checkboxes save. `limit` is the place of the budget on its slider, in percent. `listed` are the
    IDs that have checkboxes, so that the form can say which were cleared.
    """
    query, problems = options.query, list(options.problems)
    topic = query.topic_of(user)
    if query.topic and topic is None:
        why = _("There’s no topic “%(topic)s”. The context is shown without a topic.")
        problems.append(why % {"topic": shorten(query.topic, 60)})
    whole = query.built(user, topic)
    built = whole.without(query.without)
    groups = [
        _group(layer, query) for layer in whole.layers if layer.name in ("rules", "summaries")
    ]
    always = _always(whole, query)
    groups.append(always)
    text = [built.text]
    if topic is not None:
        topic.owner = user
        block, loaded, observations = topic_block(topic)
        problems += [loaded.problem] if loaded.problem else []
        groups.append(_topic_group(topic, block, loaded.memory, observations))
        text += [block] if block else []
    left_out = [line for layer in whole.layers for line in _left_out(layer.left_out, query)]
    left_out += [] if options.as_of else _pending_lines(user)
    left_out += [
        Line(file.path, _("sensitive, so even its name is left out"), file.get_absolute_url())
        for file in built.files
        if file.sensitivity == Sensitivity.SENSITIVE
    ]
    whole_size, used = counted(built.text).tokens, counted(built.system).tokens
    scale = max(MIN_SCALE, options.most)
    sizes = _sizes(built, whole_size)
    if sizes["headings"]:
        words = _("Headings and markers around external text")
        always["lines"].append(Line(words, _("Headings"), tokens=sizes["headings"]))
    chosen = [line for group in groups for line in group["lines"] if line.pk]
    return {
        "groups": groups,
        "left_out": left_out,
        "left_out_groups": _by_reason(left_out),
        "given": sum(line.is_kept for line in chosen),
        "listed": ",".join(line.pk for line in chosen),
        "segments": _segments(sizes, max(1, whole_size)),
        "has_files": bool(sizes["files"]),
        "used": used,
        "over": max(0, used - options.most),
        "most": options.most,
        "scale": scale,
        "limit": f"{100 * options.most / scale:.2f}",
        "saved": counted(whole.text).tokens - whole_size,
        "text": "\n\n".join(text),
        "problems": problems,
    }


_TITLES = {
    "agent": lambda: _("persona"),
    "soul": lambda: _("soul"),
    "environment": lambda: _("environment"),
    "user": lambda: _("you"),
    "rules": lambda: _("rules"),
    "summaries": lambda: _("summaries"),
    "outside": lambda: _("external, marked as data"),
    "files": lambda: _("list of files"),
    "headings": lambda: _("headings"),
}


def _by_reason(left_out: list[Line]) -> list[tuple[str, list[Line]]]:
    """Return the lines by the reason that several of them share; those with their own come last."""
    reasons: dict[str, list[Line]] = {}
    for line in left_out:
        reasons.setdefault(line.why, []).append(line)
    shared = [(why, lines) for why, lines in reasons.items() if len(lines) > 1]
    single = [lines[0] for lines in reasons.values() if len(lines) == 1]
    return [*shared, ("", single)] if single else shared


def _sizes(built: Context, used: int) -> dict[str, int]:
    """Return the tokens of each layer's rows, of all external rows, and of the rest: `used` in sum."""
    sizes, outside = {}, 0
    for layer in built.layers:
        outside += sum(counted(line.text).tokens for line in layer.lines if line.is_outside)
        own = [line.text for line in layer.lines if not line.is_outside]
        own = ["\n".join(own)] if layer.name == "environment" else own  # one row
        sizes[layer.name] = sum(counted(text).tokens for text in own)
    sizes["outside"] = outside
    sizes["files"] = counted(built.index).tokens if _listed(built.files) else 0
    sizes["headings"] = max(0, used - sum(sizes.values()))
    return sizes


def _segments(sizes: dict[str, int], scale: int) -> list[dict[str, Any]]:
    """Return the bar's parts: one for each layer, one for all external text, and the rest.

    `scale` are the tokens of the whole bar. Start and width are percentages, as text because SVG has
    no decimal comma.
    """
    segments, before = [], 0.0
    for name, tokens in sizes.items():
        if tokens:
            width = 100 * tokens / scale
            place = {"start": f"{before:.2f}", "width": f"{width:.2f}"}
            segments.append({"name": name, "title": _TITLES[name](), "tokens": tokens} | place)
            before += width
    return segments


def _group(layer: Layer, query: ContextQuery) -> dict[str, Any]:
    """Return the rows of the rules or the summaries; `most` also counts those left out."""
    is_rules = layer.name == "rules"
    lines = [_line(line.text, line.why, line.record, query) for line in layer.lines]
    cut = {line.record.pk for line in layer.lines if line.record is not None}
    gone = [one for one in layer.left_out if getattr(one.record, "pk", None) not in cut]
    return {
        "name": layer.name,
        "title": _("Rules") if is_rules else _("Summaries of recent work"),
        "lines": lines,
        "most": len(lines) + len(gone),
        "given": sum(line.is_kept for line in lines),
        "write_url": f"{reverse('memory:note-new')}?kind={'rule' if is_rules else 'summary'}",
    }


def _always(whole: Context, query: ContextQuery) -> dict[str, Any]:
    """Return the rows of what every context begins with, and of the list of files."""
    lines: list[Line] = []
    titles = {"agent": _("Persona"), "soul": _("Soul"), "user": _("About you")}
    for layer in whole.layers:
        if layer.name in titles:
            for line in layer.lines:
                lines.append(_line(line.text, titles[layer.name], line.record, query))
        elif layer.name == "environment":
            text = "\n".join(line.text for line in layer.lines)
            shown = re.sub(r"^- ", "", text, flags=re.MULTILINE)
            lines.append(Line(shown, _("Environment"), tokens=counted(text).tokens))
    files = _listed(whole.files)
    index = "\n".join(f"{file.path} ({format_size(file.size)}): {file.summary}" for file in files)
    if index:
        url = reverse("memory:files")
        tokens = counted(whole.index).tokens
        lines.append(Line(index, _("List of files"), url, tokens=tokens))
    return {"name": "always", "title": _("Always included"), "lines": lines}


def _listed(files: Iterable[MemoryFile]) -> list[MemoryFile]:
    return [file for file in files if file.sensitivity != Sensitivity.SENSITIVE]


def _line(text: str, why: str, record: Any, query: ContextQuery) -> Line:
    key = str(record.pk)
    shown = _MARK.sub("", text).replace("\n  ", "\n")  # without its mark and the indent of a list
    is_note = record.kind not in Note.IDENTITY
    return Line(
        shown,
        why,
        *_addresses(record),
        record.is_outside,
        pk=key,
        tokens=counted(text).tokens,
        is_kept=key not in query.without,
        is_pinned=record.pinned and is_note,
        act="never" if is_note else "",
    )


def _left_out(gone: Iterable[ContextLine], query: ContextQuery) -> list[Line]:
    lines = []
    for one in gone:
        scope = getattr(one.record, "scope", "")
        act = "allow" if query.agent in names_excluded(scope) else ""
        pk = str(one.record.pk) if act else ""
        lines.append(Line(one.text, one.why, *_addresses(one.record), pk=pk, act=act))
    return lines


def _pending_lines(user: User) -> list[Line]:
    """Return the rules and summaries that wait in the Inbox."""
    rows = Proposal.objects.for_user(user).waiting().filter(record_type="note")
    rows = rows.filter(after__kind__in=[Note.Kind.RULE.value, Note.Kind.SUMMARY.value])
    why = _("waiting in your Inbox")
    return [Line(one.label, why, one.get_absolute_url()) for one in rows[:MAX_HELD]]


def _addresses(record: Any) -> tuple[str, str]:
    """Return the URLs of a record's page and of the page that edits it."""
    if not isinstance(record, Note):
        return "", ""
    own = {Note.Kind.SOUL.value: "memory:soul", Note.Kind.AGENT.value: "memory:persona"}
    page = record.get_absolute_url()
    if record.kind in own:
        return page, reverse(own[record.kind])
    return page, reverse("memory:note-edit", args=[record.pk])


def _known_fact(fact: KnownFact) -> str:
    """Return why a fact is included, and if it's stale, when it was last checked."""
    if not fact.stale_days:
        return _("known fact")
    return _("known fact, stale: %(age)s") % {"age": fact.age_words}


def _topic_group(
    topic: Topic, text: str, known: TopicMemory | None, observations: Sequence[Observation]
) -> dict[str, Any]:
    """Return the rows of what the topic's runs get in addition."""
    lines: list[Line] = []
    page = reverse("research:topic", args=[topic.slug])
    if known:
        if known.summary:
            lines.append(Line(known.summary, _("the last report’s summary"), page))
        lines += [Line(fact.text, _known_fact(fact), page) for fact in known.facts]
        lines += [
            Line(text, _("you marked it as wrong, so it isn’t repeated"), page)
            for text in known.struck
        ]
    for seen in observations:
        edit = reverse("memory:observation-edit", args=[seen.pk])
        why = _("observation related to the topic")
        words = shorten(seen.content, 400)
        lines.append(Line(words, why, seen.get_absolute_url(), edit, seen.is_outside))
    title = _("Only for runs of %(topic)s") % {"topic": topic.title}
    return {"name": "topic", "title": title, "lines": lines, "text": text}


def _answers(user: User, answers: AskedAnswers) -> dict[str, Any]:
    """Return the answers with and without, as far as they have arrived."""
    calls = comparing.answers(user, answers)
    problem = ""
    if len(calls) < 2:
        try:
            check_month(user)
        except BudgetReached as exc:
            problem = str(exc)
        if not problem and answers.is_over:
            problem = _("The model didn’t respond within 10 minutes. Try again.")
    is_waiting = len(calls) < 2 and not problem
    return {
        "calls": calls,
        "is_waiting": is_waiting,
        "is_silent": is_waiting and "upkeep" in health.silent(health.ages()),
        "problem": problem,
    }


def agents_to_choose(user: User) -> list[tuple[str, str]]:
    """Return the agents whose context can be shown, the most recently used first, then Ask."""
    rows: list[Any] = [one for one in agents_of(user) if one.name not in (*BUILT_IN, ASK)]
    rows.sort(key=lambda one: one.used_at.timestamp() if one.used_at else 0, reverse=True)
    return [*((row.name, row.name) for row in rows), (ASK, _("Ask, Beacon’s own agent"))]


MAX_AGENTS = 6  # listed above the context


def _listed_agents(user: User) -> list[tuple[Agent, int]]:
    """Return the last used agents with their numbers of pending proposals: two queries."""
    waiting = (
        Proposal.objects.for_user(user).filter(state=Proposal.State.WAITING).values_list("actor")
    )
    pending = dict(waiting.annotate(n=Count("pk")).order_by())
    rows: list[Any] = list(agents_of(user))
    rows.sort(key=lambda one: one.used_at.timestamp() if one.used_at else 0, reverse=True)
    return [(one, pending.get(str(one.writer), 0)) for one in rows[:MAX_AGENTS]]


def topics_of(user: User) -> list[tuple[str, str]]:
    """Return the topics to choose from or to filter by: slug and title, newest first."""
    rows = Topic.objects.for_user(user).live().order_by("-created")[:200]
    return list(rows.values_list("slug", "title"))


def uses_of(user: User, writer: str) -> QuerySet[Use]:
    """Return where a writer read memory: an agent's calls, the runs of `research`, or conversations."""
    runs = Q(place__startswith="run:") if writer == str(RESEARCH) else Q(place=writer)
    talks = Q(place__startswith="session:") if writer == f"agent:{ASK}" else Q()
    return Use.objects.for_user(user).filter(runs | talks)


def week_of(user: User, writer: str) -> dict[str, int]:
    """Return what a writer did with memory in the last 7 days: three queries."""
    since, kind = timezone.now() - WEEK, writer.partition(":")[0]
    used = uses_of(user, writer).filter(used_at__gt=since)
    written = (
        Revision.objects.for_user(user).annotate(by=actor_kind()).filter(by=kind, actor=writer)
    )
    proposed = Proposal.objects.for_user(user).filter(actor=writer, created__gt=since)
    is_rejected = Q(state=Proposal.State.REJECTED)
    return {
        "used": used.values("record_id").distinct().count(),
        "written": written.filter(created__gt=since).count(),
        **proposed.aggregate(
            waiting=Count("pk", filter=Q(state=Proposal.State.WAITING)),
            rejected=Count("pk", filter=is_rejected),
        ),
    }


# --- pages ---


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
@at_a_date
def context(request: BeaconRequest) -> HttpResponse:
    """Show the context of an agent for a message; over htmx only the part below the form."""
    agents = agents_to_choose(request.user)
    options = Options.of(request.GET, agents)
    if not request.htmx and "listed" in request.GET:
        return redirect(f"{reverse('memory:agents')}?{options.address()}")
    answers = _answers(request.user, options.asked) if options.asked else None
    is_polled = bool(request.htmx) and request.htmx.target == "context-answers"
    if is_polled and answers:
        shown = {"answers": answers, "poll": _page_at(options)}
        return render(request, "memory/_agent_answers.html", shown)
    response = _context_page(request, options, agents, answers)
    return _with_address(response, options) if request.htmx else response


def _with_address(response: HttpResponse, options: Options) -> HttpResponse:
    """Let the browser show the page's address, unless it's too long for a proxy's headers."""
    address = _page_at(options)
    if len(address) <= MAX_ADDRESS_LENGTH:
        response["HX-Replace-Url"] = address
    return response


def _page_at(options: Options) -> str:
    query = options.address()
    return reverse("memory:agents") + (f"?{query}" if query else "")


def _context_page(
    request: BeaconRequest,
    options: Options,
    agents: list[tuple[str, str]],
    answers: dict[str, Any] | None = None,
) -> HttpResponse:
    shown: dict[str, Any] = {
        "wanted": options,
        "query": options.query,
        "preview": preview(request.user, options),
        "counted": count_method_label(),
        "address": options.address(asked=""),
        "poll": _page_at(options),
        "has_model": connections.llm_profile() is not None,
        "agent_name": dict(agents)[options.query.agent],
        "actor": f"agent:{options.query.agent}",
        "agent_pk": Agent.objects.filter(owner=request.user, name=options.query.agent)
        .values_list("pk", flat=True)
        .first(),
        "is_alone": len(agents) == 1,
        "week": week_of(request.user, f"agent:{options.query.agent}"),
        "answers": answers,
    }
    if request.htmx and request.htmx.target == "context":
        return render(request, "memory/_agent_context.html", shown)
    shown |= {
        "most_message": MAX_MESSAGE,
        "topics": [(slug, clipped(title, 40)) for slug, title in topics_of(request.user)],
        "agents": agents,
        "listed_agents": [] if request.date.is_past else _listed_agents(request.user),
    }
    return render(request, "memory/agents.html", shown)


@signed_in("GET", "HEAD")
@at_a_date
def context_text(request: BeaconRequest) -> HttpResponse:
    """Send the context as a text file."""
    options = Options.of(request.GET, agents_to_choose(request.user))
    text = preview(request.user, options)["text"] + "\n"
    answer = HttpResponse(text, content_type="text/plain; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="beacon-context.txt"'
    return answer


@signed_in("POST")
def context_answers(request: BeaconRequest) -> HttpResponse:
    """Ask the model to answer the message with and without the chosen memories."""
    agents = agents_to_choose(request.user)
    wanted = Options.of(QueryDict(request.POST.get("query", "")), agents)
    try:
        asked = comparing.ask(request.user, wanted.query)
    except CannotAsk as exc:
        messages.warning(request, str(exc))
        return redirect_to(request, _page_at(wanted))
    wanted = replace(wanted, asked=asked)
    if not request.htmx:
        return redirect(_page_at(wanted))
    shown = {"answers": _answers(request.user, asked), "poll": _page_at(wanted)}
    return _with_address(render(request, "memory/_agent_answers.html", shown), wanted)


@signed_in("POST")
def context_decide(request: BeaconRequest) -> HttpResponse:
    """Pin a rule or summary into every context, or keep it from one agent, with Undo."""
    agents = agents_to_choose(request.user)
    options = Options.of(QueryDict(request.POST.get("query", "")), agents)
    act, _colon, key = request.POST.get("do", "").partition(":")
    chosen = Note.objects.for_user(request.user).live().filter(kind__in=["rule", "summary"])
    note = get_object_or_404(chosen, pk=uuid_of(key))
    try:
        said = _decide(request, note, act, options.query.agent)
    except MemoryRefused as exc:
        messages.warning(request, str(exc))
    else:
        toast_with_undo(request, note, said)
    if not (request.htmx and request.htmx.target == "context"):
        return redirect_to(request, _page_at(options))
    return _context_page(request, options, agents)


def _decide(request: BeaconRequest, note: Note, act: str, agent: str) -> str:
    """Do it and return what to say. Raises MemoryRefused."""
    params = {"name": dict(agents_to_choose(request.user)).get(agent, agent)}
    if act in ("pin", "unpin"):
        record_acts.perform(act, note, by=request.actor)
        if act == "pin":
            most = MAX_RULES if note.kind == Note.Kind.RULE else MAX_SUMMARIES
            same = Note.objects.for_user(request.user).active().filter(kind=note.kind, pinned=True)
            if same.count() > most:
                words = _("Pinned. A context includes only your %(most)d newest pinned records.")
                return words % {"most": most}
            return _("Pinned. It’s now included in every context.")
        return _("Unpinned. It’s now included only if it matches the message.")
    change = {"never": scope_excluding, "allow": scope_including}.get(act)
    if change is None:
        raise MemoryRefused(_("This action doesn’t exist. Nothing was changed."))
    if act == "never" and note.scope.startswith(("agent:", "session:", "run:")):
        words = _("This memory is visible only to %(scope)s. Open it to change who can see it.")
        raise MemoryRefused(words % {"scope": note.scope})
    scope = checked_scope(change(note.scope, agent))
    note.change(by=request.actor, why=_("changed which agents can see it"), scope=scope)
    if act == "never":
        return _("%(name)s can no longer see this memory, here or anywhere else.") % params
    return _("%(name)s can see this memory again.") % params
