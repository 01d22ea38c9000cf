"""`/topics`: topics, their memory, runs, reports and estimates."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self

from django.db import transaction
from django.db.models import Q
from django.http import HttpResponse, QueryDict
from django.utils.translation import gettext as _
from ninja import Status
from pydantic import BaseModel, Field

from beacon_site.text.cleaning import clean
from memory.api.auth import READ, WRITE, ApiRequest, Caller, only_people
from memory.api.frame import Body, located, router
from memory.api.paging import PAGE, Listing, PageParams, listing, read_cursor, sign_cursor
from memory.api.problems import Problem, not_found
from memory.api.shown import AS_OF, NoStoredText, RowOut, item, shows
from memory.api.versions import IF_MATCH, expected_version, locked_rows, tagged
from memory.models import Topic, Trust, User
from memory.models.actors import Actor
from memory.models.as_of import as_it_was
from memory.models.errors import InvalidValue
from memory.models.topics import TopicQuerySet
from memory.services.library.documents import SERVICE as LIBRARY
from memory.services.llm import connections
from memory.services.notes.saving import lowest_trust
from memory.services.topic_memory import agent_memory
from research.api.runs import MARKDOWN, recheck, report_answer, reports_of, start
from research.api.schemas import (
    AgentMemory,
    ReportOut,
    RunIn,
    RunOut,
    RunWithSteps,
    TopicIn,
    TopicOut,
    TopicPatch,
)
from research.models import Run, Schedule, TopicSettings
from research.services.budgets import forecasting
from research.services.runs.execution import starting
from research.services.runs.execution.starting import create_topic
from research.services.schedules import scheduling
from research.services.sources import figures as source_rules
from research.services.sources import figures as sources_figures
from research.services.sources.figures import ALL, TOPIC, ListedSource, Rules, SourcesFilter
from research.services.topics import topic_form
from research.services.topics.settings import editing as topic_editing
from research.services.topics.settings.editing import State
from research.services.topics.topic_form import SCHEDULE_PARTS, TopicForm, initial_of


class RangeOut(BaseModel):
    """A range, from the lowest to the highest value."""

    low: int
    high: int


class MoneyOut(BaseModel):
    """A range in USD, from the lowest to the highest value."""

    low: str
    high: str


class ForecastOut(NoStoredText):
    """An estimate for a run, and whether a scheduled run would fit within the monthly limit."""

    depth: TopicSettings.Depth
    basis: str = Field(
        description="topic: based on its own runs. others: based on the owner's other runs. usual: no runs yet."
    )
    runs: int = Field(description="The number of runs it is based on.")
    tokens: RangeOut
    money: MoneyOut | None = Field(description="Null if the model's price is unknown.")
    minutes: RangeOut
    searches: RangeOut
    has_model: bool
    tokens_left: int | None = Field(description="For this month. Null if there is no limit.")
    money_left: str | None = Field(description="For this month, in USD. Null if there is no limit.")
    over_limit_reason: str = Field(
        description="Why a scheduled run wouldn't fit within the limit. Empty if it would."
    )
    words: str

    @classmethod
    def of(cls, topic: Topic, depth: str = "") -> Self:
        """Return the forecast of a topic whose settings and owner are loaded."""
        found = forecasting.forecast_of(topic, depth)
        settings = TopicSettings.objects.get(topic=topic)
        left = forecasting.left_of(topic, settings)
        money = found.money and MoneyOut(low=f"{found.money[0]:f}", high=f"{found.money[1]:f}")
        return cls(
            depth=TopicSettings.Depth(found.depth),
            basis=found.basis,
            runs=found.runs,
            tokens=RangeOut(low=found.tokens[0], high=found.tokens[1]),
            money=money or None,
            minutes=RangeOut(low=found.minutes[0], high=found.minutes[1]),
            searches=RangeOut(low=found.searches[0], high=found.searches[1]),
            has_model=found.has_model,
            tokens_left=left.tokens,
            money_left=None if left.money is None else f"{left.money:f}",
            over_limit_reason=forecasting.why_not(found, left),
            words=f"{found.words} ({found.basis_words})",
        )


# --- `/topics` ---

api = router("topics", is_held=True)
_ONE = "/{slug:slug}"


class TopicsQuery(PageParams):
    """Which topics."""

    q: str = Field("", max_length=200, description="Words in the title, labels or summary.")
    label: str = Field("", max_length=40, description="Only topics with this label.")
    show: Literal["active", "archived", "all"] = "active"


@api.get("", auth=READ, response=Listing[TopicOut])
def list_topics(request: ApiRequest, query: TopicsQuery = PAGE) -> Listing[TopicOut]:
    """List topics, newest first, with their settings and schedules."""
    rows = _topics(request.auth).filter(_archived_filter(query.show)).matching(query.q)
    if query.label:
        rows = rows.filter(labels__contains=[query.label])
    return listing(rows, query, name="topics", out=TopicOut.of)


def _archived_filter(show: str) -> Q:
    put_away = Q(archived_at=None)
    return {"active": put_away, "archived": ~put_away}.get(show, Q())


@api.post("", auth=WRITE, response={201: TopicOut, 200: TopicOut})
def make_topic(request: ApiRequest, response: HttpResponse, topic: TopicIn) -> Status[TopicOut]:
    """Create a topic. If a topic with this title exists, returns 200 with that topic, unchanged."""
    caller, asked = request.auth, topic.asked()
    _check_title(caller, topic.title)
    starting.check_fields([k for k, v in asked.items() if v is not None], caller.by)
    made, is_new = create_checked(caller.owner, asked, by=caller.by, trust=caller.write_trust)
    made = _topics(caller).get(pk=made.pk)
    located(response, f"/topics/{made.slug}")
    tagged(response, made)
    return Status(201 if is_new else 200, TopicOut.of(made))


@api.get(_ONE, auth=READ, response=TopicOut)
def read_topic(request: ApiRequest, response: HttpResponse, slug: str) -> TopicOut:
    """Read a topic. The ETag is its version, which also covers its settings."""
    topic = topic_of(request.auth, slug)
    tagged(response, topic)
    return TopicOut.of(topic)


@api.patch(_ONE, auth=WRITE, response=TopicOut, openapi_extra=IF_MATCH)
def edit_topic(
    request: ApiRequest, response: HttpResponse, slug: str, patch: TopicPatch
) -> TopicOut:
    """Change a topic. Omitted fields don't change. Changes apply from the next run."""
    caller, topic = request.auth, topic_of(request.auth, slug)
    _check_agents_edit(caller, topic, patch)
    expected = expected_version(request, topic)
    change_checked(
        topic,
        patch.asked(),
        by=caller.by,
        expected_version=expected,
        trust=caller.write_trust,
        may_add_library=not caller.token.topic_ids,
    )
    changed = _topics(caller).get(pk=topic.pk)
    tagged(response, changed)
    return TopicOut.of(changed)


@api.delete(_ONE, auth=WRITE, response={204: None}, openapi_extra=IF_MATCH)
def trash_topic(request: ApiRequest, slug: str) -> Status[None]:
    """Move a topic to Trash for 30 days.

    Only people can do this. A run in progress is cancelled.
    """
    topic = topic_of(request.auth, slug)
    only_people(request.auth, _("Only a person can move a topic to Trash. Ask the user to do it."))
    topic.version = expected_version(request, topic)
    topic_editing.trash_topic(topic, by=request.auth.by)
    return Status(204, None)


@api.get(_ONE + "/memory", auth=READ, response=AgentMemory)
def read_topic_memory(request: ApiRequest, slug: str, as_of: str = AS_OF) -> AgentMemory:
    """Read what's known about a topic, as an `AgentMemory` object."""
    with as_it_was(request.auth, as_of):
        topic = topic_of(request.auth, slug)
        told = AgentMemory(**agent_memory(topic))
    known = told.seenUrls or told.keyFacts or told.reportSummary  # all of it comes from pages
    shows(topic, trust=Trust.EXTERNAL if known else "")
    return told


@api.get(_ONE + "/forecast", auth=READ, response=ForecastOut)
def read_forecast(
    request: ApiRequest, slug: str, depth: Literal["", "quick", "deep"] = ""
) -> ForecastOut:
    """Estimate the time and cost of the topic's next run, at its own depth or a different one."""
    return ForecastOut.of(topic_of(request.auth, slug), depth)


@api.post(_ONE + "/recheck", auth=WRITE, response={202: RunWithSteps})
def start_recheck(request: ApiRequest, response: HttpResponse, slug: str) -> Status[RunWithSteps]:
    """Recheck the topic's stale facts.

    Returns 409 if no facts are stale, or if a run is unfinished.
    """
    started = recheck(request.auth, topic_of(request.auth, slug))
    located(response, f"/runs/{started.pk}")
    return Status(202, RunWithSteps.whole(started))


# --- runs and reports ---


@api.get(_ONE + "/runs", auth=READ, response=Listing[RunOut])
def list_runs(request: ApiRequest, slug: str, page: PageParams = PAGE) -> Listing[RunOut]:
    """List a topic's runs, latest first, without their steps."""
    rows = Run.objects.kept().filter(topic=topic_of(request.auth, slug)).select_related("topic")
    return listing(rows.order_by(), page, name=f"runs of {slug}", out=RunOut.of)


@api.post(_ONE + "/runs", auth=WRITE, response={202: RunWithSteps})
def start_run(
    request: ApiRequest, response: HttpResponse, slug: str, run: RunIn | None = None
) -> Status[RunWithSteps]:
    """Start a run.

    Returns 409 if another run is unfinished (see Location), or if the topic is archived.
    """
    depth = run.depth if run is not None and run.depth else ""
    started = start(request.auth, topic_of(request.auth, slug), depth=str(depth))
    located(response, f"/runs/{started.pk}")
    return Status(202, RunWithSteps.whole(started))


@api.get(_ONE + "/reports/{int:number}", auth=READ, response=ReportOut, openapi_extra=MARKDOWN)
def read_report(request: ApiRequest, slug: str, number: int) -> Any:
    """Read the report of Run #N as JSON or Markdown, depending on the Accept header."""
    caller = request.auth
    topic = topic_of(caller, slug)
    found = reports_of(caller).filter(run__topic=topic, run__number=number).first()
    if found is None:
        params = {"number": number}
        raise not_found(_("This topic has no report for Run #%(number)d.") % params)
    return report_answer(request, found)


def _check_agents_edit(caller: Caller, topic: Topic, patch: TopicPatch) -> None:
    """Respond with 403 if an agent changes a person's topic, or makes a change that needs review."""
    if caller.by.is_person:
        return
    values = patch.asked()
    topic.check_may_change(caller.by)
    starting.check_own(topic, caller.by)
    starting.check_fields(values, caller.by)
    if "private" in values and topic.private and not patch.private:
        only_people(caller, _("Only a person can make a topic public."))
    _check_title(caller, patch.title)
    trust, texts = caller.write_trust, starting.texts_of(values)
    starting.check_review(caller.owner, texts, by=caller.by, trust=trust)


def _check_title(caller: Caller, title: str | None) -> None:
    """Respond with 409 if a topic hidden from agents has the title, without naming the topic."""
    found = Topic.objects.titled(caller.owner, clean(title)[0]) if title else None
    if found is not None and not _topics(caller).filter(pk=found.pk).exists():
        raise Problem(409, _("An agent can’t use this title. Choose another, or ask the user."))


def _topics(caller: Caller) -> TopicQuerySet:
    """Return the owner's topics outside the trash, without those hidden from agents if one asks."""
    rows = (
        Topic.objects.for_user(caller.owner).live().select_related("settings", "schedule", "owner")
    )
    if caller.token.topic_ids:
        rows = rows.filter(pk__in=caller.token.topic_ids)
    return rows if caller.by.is_person else rows.for_agents()


def topic_of(caller: Caller, slug: str) -> Topic:
    """Return the topic with this slug or earlier slug. Raises Problem (404) if the caller has none."""
    slug = clean(slug)[0]
    topic: Topic | None = locked_rows(_topics(caller).filter(slug=slug)).first()
    if topic is None and (renamed := Topic.objects.renamed_from(caller.owner, slug)):
        topic = locked_rows(_topics(caller).filter(pk=renamed.pk)).first()
    if topic is None:
        raise not_found(_("This topic doesn’t exist, is in Trash, or isn’t yours."))
    return topic


# --- `/topics/{slug}/sources`: what each source contributed to a topic, and its rule ---


sources_api = router("topics")
_SOURCES = "/{slug:slug}/sources"
Acts = Literal["block", "boost", "mute", "none"]


class SourcesQuery(PageParams):
    """Which sources, in which order."""

    by: Literal["domain", "page"] = "domain"
    q: str = Field("", max_length=200, description="Words in the title or URL.")
    domain: str = Field("", max_length=255, description="Only pages on this domain.")
    state: Literal[
        "", "block", "boost", "mute", "cited", "facts", "contradicted", "unsupported", "failed",
        "quarantined",
    ] = ""  # fmt: skip
    sort: str = Field(
        "cited",
        max_length=20,
        description="The field to sort by: a count such as cited, or last_at or name. Put ^ before it for ascending order.",
    )


class TopicSourceOut(RowOut):
    """One domain or page, and its contributions to the topic."""

    source: str = Field(description="The domain, or the page's canonical URL.")
    domain: str
    title: str
    pages: int
    returned: int
    read: int
    cited: int
    facts: int = Field(description="Facts first found here.")
    confirmed: int
    contradicted: int
    unsupported: int = Field(description="Sentences that cite it but aren't supported by it.")
    failed: int
    not_read_reason: str
    last_seen: datetime | None
    topic_rule: Acts = Field(description="The topic's rule for exactly this domain or page.")
    global_rule: Acts = Field(description="The rule for exactly this domain or page in all topics.")
    effective_rule: Acts = Field(description="The rule that applies in the next run.")

    @classmethod
    def of(cls, row: ListedSource) -> Self:
        return cls.from_row(
            row,
            source=row.place,
            not_read_reason=row.why,
            last_seen=row.last_at,
            topic_rule=row.here,
            global_rule=row.in_all,
            effective_rule=row.effect,
        )


class SourceRuleIn(Body):
    """A rule for a source, which applies from the next run."""

    source: str = Field(min_length=1, max_length=2048, description="A domain or a URL.")
    rule: Acts
    all_topics: bool = Field(
        False, description="Whether the rule applies to all of the owner's topics."
    )


class SourceRuleOut(NoStoredText):
    """A rule as stored, and the one it replaced."""

    source: str
    rule: Acts
    before: Acts


@sources_api.get(_SOURCES, auth=READ, response=Listing[TopicSourceOut])
def list_sources(
    request: ApiRequest, slug: str, query: SourcesQuery = PAGE
) -> Listing[TopicSourceOut]:
    """List a topic's domains or pages, and what each has contributed."""
    topic, name = topic_of(request.auth, slug), f"sources of {slug}"
    filters = SourcesFilter.of(query.model_dump())
    rules, start = Rules.of(topic), sources_figures.offset_of(read_cursor(query, name))
    found = sources_figures.page_of(topic, filters, rules, offset=start, size=query.limit + 1)
    more = str(start + query.limit) if len(found) > query.limit else None
    shows()
    items = [item(TopicSourceOut.of, row) for row in found[: query.limit]]
    return Listing(items=items, next=sign_cursor(more, name))


@sources_api.patch(_SOURCES, auth=WRITE, response=SourceRuleOut)
def treat_source(
    request: ApiRequest, response: HttpResponse, slug: str, sent: SourceRuleIn
) -> SourceRuleOut:
    """Block, boost or mute a source, or remove its rule (`none`).

    Applies from the next run. Agents can't mute, set rules for all topics, or change the owner's
    rules (403).
    """
    topic = topic_of(request.auth, slug)
    if sent.all_topics and request.auth.token.topic_ids:
        raise Problem(
            403, _("This token is limited to certain topics, so it can’t set rules for all topics.")
        )
    if sent.all_topics or sent.rule == "mute":
        only_people(request.auth, _("Only a person can mute a source or set rules for all topics."))
    caller = request.auth
    if not caller.by.is_person:
        starting.check_own(topic, caller.by)
        trust = caller.write_trust
        starting.check_review(caller.owner, [sent.source], by=caller.by, trust=trust)
    scope = ALL if sent.all_topics else TOPIC
    place, before = source_rules.set_rule(
        topic, sent.source, sent.rule, scope=scope, by=request.auth.by
    )
    return SourceRuleOut(source=place, rule=sent.rule, before=before)  # type: ignore[arg-type]


# --- topics from JSON, validated by the form that people use ---
#
# The form gets the given fields, and the missing ones from the topic or the defaults.


def create_checked(
    owner: User, values: Mapping[str, Any], *, by: Actor, trust: str
) -> tuple[Topic, bool]:
    """Return the owner's topic with this title, and whether it is new.

    An existing one isn't changed (R3). `trust` limits the trust in an agent's text (default: the
    agent's own). Raises InvalidValue with errors by field. For an agent, also raises Locked if the
    topic would need approval, and RunNotAllowed beyond the hourly limit.
    """
    title = clean(str(values.get("title", "")))[0]
    found = Topic.objects.titled(owner, title)
    if found is not None:
        return found, False
    trust = Trust.OWNER if by.is_person else trust or Trust.AGENT
    starting.check_review(owner, starting.texts_of(values), by=by, trust=trust)
    try:
        form, state = _checked(owner, {"schedule": {}, **values}, None)
        fields = {name: state[name] for name in topic_editing.SETTINGS_FIELDS if name in state}
        with transaction.atomic():
            starting.check_hour(owner, by)
            topic = create_topic(
                owner=owner,
                title=state["title"],
                by=by,
                settings=fields,
                schedule=form.schedule,
                source=str(by),
                trust=trust,
                labels=state["labels"],
                private=state["private"],
            )
    except InvalidValue:
        twin = Topic.objects.titled(owner, title)  # another request was faster
        if twin is None:
            raise
        return twin, False
    return topic, True


def change_checked(
    topic: Topic,
    values: Mapping[str, Any],
    *,
    by: Actor,
    expected_version: int,
    trust: str,
    may_add_library: bool,
) -> Topic:
    """Change the given fields and return the topic, unless someone changed it since that version.

    `trust` is that of an agent's text. The topic's own trust is lowered to it.

    Raises StaleWrite, Locked, and InvalidValue with errors by field, and Problem (403) if it adds
    the library without `may_add_library`. Nothing is stored then.
    """
    topic.check_may_change(by)
    _form, state = _checked(topic.owner, values, topic)
    data = {name: state[name] for name in values if name in state}
    now = _from_library(topic_editing.state_of(topic))
    if not may_add_library and not _from_library(data) <= now:
        text = _(
            "This token is limited to certain topics, so it can’t let these topics search your library or read its documents. Nothing was changed. Change this in the topic’s settings."
        )
        raise Problem(403, text)
    with transaction.atomic():
        topic = topic_editing.edit_topic(
            topic, by=by, wanted=data, expected_version=expected_version
        )
        lowest = lowest_trust([topic.trust, trust or topic.trust])
        if lowest != topic.trust and not by.is_person and topic.version != expected_version:
            # This is part of the change, which has its own revision and version.
            Topic.objects.filter(pk=topic.pk).update(trust=lowest)
        if "paused" in (values.get("schedule") or {}):
            _pause(topic, bool(values["schedule"]["paused"]), by)
        if "archived" in values:
            _archive(topic, bool(values["archived"]), by)
    return topic


def _from_library(state: Mapping[str, Any]) -> set[str]:
    """Return what a topic with these settings reads from the library."""
    services = state.get("services")
    searched = () if services is None else connections.search_services(services)
    found = {LIBRARY} & set(searched)
    rules = state.get("always_check") or ()
    return found | {rule for rule in rules if rule.startswith(f"{LIBRARY}:")}


def _pause(topic: Topic, paused: bool, by: Actor) -> None:
    """Pause or resume the schedule. Raises InvalidValue if the topic doesn't recur."""
    if paused and topic_editing.schedule_of(topic).preset == Schedule.Preset.NONE:
        problem = _("This topic only runs manually, so there’s no schedule to pause.")
        raise InvalidValue(problem, errors={"schedule.paused": [problem]})
    scheduling.set_paused(topic, paused=paused, by=by)


def _archive(topic: Topic, archived: bool, by: Actor) -> None:
    if archived and topic.archived_at is None:
        topic_editing.archive_topic(topic, by=by)
    elif not archived and topic.archived_at is not None:
        topic_editing.unarchive_topic(topic, by=by)


def _checked(
    owner: User, values: Mapping[str, Any], topic: Topic | None
) -> tuple[TopicForm, State]:
    """Return the valid form and its state. Raises InvalidValue."""
    filled = _filled(owner, values, topic)
    form = TopicForm(filled, owner=owner, topic=topic)
    if not form.is_valid():
        raise _refused(form)
    return form, form.state()


def _filled(owner: User, values: Mapping[str, Any], topic: Topic | None) -> QueryDict:
    """Return what a browser would send: the current values, overridden by the given ones."""
    blank = TopicForm(owner=owner, topic=topic)
    if topic is not None:
        stands = initial_of(topic)
        offered = topic_form.offered()
        # A service that was removed from this site doesn't block changes to other fields.
        stands["services"] = [name for name in stands["services"] if name in offered]
    else:
        stands = {"preset": Schedule.Preset.NONE, "time_zone": owner.time_zone}
    schedule = values.get("schedule", {})
    if schedule is None:
        schedule = {"preset": Schedule.Preset.NONE}
    if schedule:
        stands |= _schedule(schedule, stands)
    stands |= {name: value for name, value in values.items() if name != "schedule"}
    data = QueryDict(mutable=True)
    for name, field in blank.fields.items():
        data.setlist(name, _as_sent(field.prepare_value(stands.get(name))))
    return data


def _schedule(values: Mapping[str, Any], stands: Mapping[str, Any]) -> dict[str, Any]:
    """Return the form's schedule fields. A cron expression by itself selects that preset."""
    chosen = {name: values[name] for name in SCHEDULE_PARTS if values.get(name) is not None}
    if chosen.get("cron") and "preset" not in chosen:
        chosen["preset"] = Schedule.Preset.CRON
    if chosen.get("preset", stands.get("preset")) != Schedule.Preset.CRON:
        chosen["cron"] = ""
    return chosen


def _as_sent(value: Any) -> list[str]:
    if isinstance(value, list | tuple):
        return [str(each) for each in value]
    if value in (None, False, ""):
        return []
    return ["on" if value is True else str(value)]


def _refused(form: TopicForm) -> InvalidValue:
    """Convert the form's errors to InvalidValue, with the caller's field names."""
    errors: dict[str, list[str]] = {}
    for name, problems in form.errors.items():
        text = f"schedule.{name}" if name in SCHEDULE_PARTS else name
        errors[text.replace("__all__", "topic")] = [str(problem) for problem in problems]
    first = next(iter(errors.values()))[0]
    return InvalidValue(_("The topic wasn’t saved. %(why)s") % {"why": first}, errors=errors)
