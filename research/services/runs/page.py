"""The page of a run without a report: progress, the plan under review, and why it ended."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from beacon_site.text.cleaning import in_brief, one_line, shorten
from beacon_site.text.markdown import by_direction, render
from beacon_site.text.messages import grouped
from beacon_site.web.responses import CleanTextField
from memory.services.context.topic_block import still_offered
from memory.services.llm import connections
from research.models import Hit, Run, Step, ToolCall, TopicSettings
from research.services.budgets import forecasting
from research.services.budgets.budget import budget_for
from research.services.runs import presenters
from research.services.runs.context import applied_rules
from research.services.runs.context.inputs import MAX_QUERY_LENGTH
from research.services.runs.context.outputs import AskedQuery
from research.services.runs.execution import starting
from research.services.runs.search import searching
from research.services.runs.steps import planning

MAX_QUERIES = 12  # for a plan that a person edited; a planner's own has six at most

_NOTHING = gettext_lazy("Enter at least one query.")


class PlanForm(forms.Form):
    """The queries, one per line, and the version of the plan that the person saw (`seen`)."""

    seen = forms.CharField(widget=forms.HiddenInput, required=False)
    queries = CleanTextField(
        label=gettext_lazy("Queries, one per line"),
        help_text=gettext_lazy(
            "Edit, add, remove or reorder lines. Up to 12 queries, 400 characters each. Empty "
            "lines are ignored."
        ),
        max_length=50_000,
        error_messages={"required": _NOTHING},
        widget=forms.Textarea(attrs={"rows": 8, "dir": "auto"}),
    )

    def clean_queries(self) -> list[str]:
        """Return the queries in order. An error names each invalid line."""
        lines = [one_line(line) for line in self.cleaned_data["queries"].splitlines()]
        queries = [line for line in lines if line]
        problems = [problem for problem in map(_problem, queries) if problem]
        problems += _doubles(queries)
        if len(queries) > MAX_QUERIES:
            problems.append(
                ngettext(
                    "You entered %(count)d query, but the limit is %(most)d. Remove some.",
                    "You entered %(count)d queries, but the limit is %(most)d. Remove some.",
                    len(queries),
                )
                % {"count": len(queries), "most": MAX_QUERIES}
            )
        if problems:
            raise ValidationError(problems)
        return queries

    def seen_at(self) -> datetime | None:
        """Return when the plan in the form began to wait, or None if the form doesn't say."""
        try:
            found = parse_datetime(self.data.get("seen", ""))
            # UTC keeps dates at the calendar's limits within Postgres's range.
            return found.astimezone(UTC) if found is not None and found.tzinfo else None
        except (ValueError, OverflowError):
            return None


def _problem(query: str) -> str:
    values: dict[str, Any] = {"query": query[:80], "count": len(query), "most": MAX_QUERY_LENGTH}
    if len(query) > MAX_QUERY_LENGTH:
        words = _(
            "“%(query)s…” has %(count)d characters, but a query can have at most %(most)d. "
            "Shorten it or split it into 2 lines."
        )
        return words % values
    if not any(map(str.isalnum, query)):
        return _("“%(query)s” has no letters or digits, so no service can search for it.") % values
    return ""


def _doubles(queries: list[str]) -> list[str]:
    seen: set[str] = set()
    twice: dict[str, str] = {}
    for query in queries:
        key = query.casefold()
        if key in seen:
            twice.setdefault(key, query)
        seen.add(key)
    words = _("“%(query)s” is listed more than once. Remove the duplicates.")
    return [words % {"query": query[:80]} for query in twice.values()]


# --- tool calls of a deep run ---

MAX_CALL_LENGTH, MAX_RESULT_LENGTH = 160, 220
# The marks around external text, and their explanation for the model, aren't shown to people.
_MARKS = re.compile(r"(?:^|\n)[^\n]*\n<<<\n|\n>>>")
_WHAT = ("query", "page", "path", "id", "title")  # the most informative argument, by priority


def by_track(run: Run) -> dict[int, list[dict[str, Any]]]:
    """Return the calls by track number. A quick run needs no query."""
    rows: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    if run.depth != TopicSettings.Depth.DEEP:
        return rows
    calls = list(run.tool_calls.all())
    last = {call.part: call.attempt for call in calls}
    for call in calls:
        rows[call.part].append(_row(call, is_earlier=call.attempt < last[call.part]))
    return rows


def _row(call: ToolCall, *, is_earlier: bool) -> dict[str, Any]:
    return {
        "number": call.position,
        "tool": call.tool,
        "asked": shorten(_main_argument(call), MAX_CALL_LENGTH),
        "told": in_brief(_MARKS.sub("\n", call.result), MAX_RESULT_LENGTH),
        "took": presenters.duration(call.milliseconds),
        "is_error": call.is_error,
        "item": call.content_item_id,
        "is_earlier": is_earlier,
    }


def _main_argument(call: ToolCall) -> str:
    told = next((call.arguments[name] for name in _WHAT if call.arguments.get(name)), None)
    if told is None:
        return json.dumps(call.arguments, ensure_ascii=False) if call.arguments else ""
    return str(told)


# --- a plan that waits for review ---


def plan_context(run: Run, form: PlanForm | None = None) -> dict[str, Any]:
    """Return the plan that waits for review (`form` if a person edited it), and its reasons.

    Empty if the plan was replaced since `run` was loaded. Then the run is reloaded.
    """
    rows = Step.objects.filter(run=run, name__in=("load_memory", "plan"))
    steps = {step.name: step for step in rows}
    plan, loaded = steps["plan"].output, steps["load_memory"]
    if not plan:
        run.refresh_from_db(fields=["status", "waiting_since", "progress"])
        return {}
    token = plan_token_of(run)
    initial = {"queries": "\n".join(plan["queries"]), "seen": token}
    settings = run.asked_for
    return {
        "plan_form": form or PlanForm(initial=initial),
        "plan_token": token,
        "planned_by": planning.by_words(plan["by"]),
        "resumes_at": planning.resumes_at(run),
        "asked_for": settings,
        "services": [
            searching.label_of(name) for name in connections.search_services(settings.services)
        ],
        "forecast": forecasting.forecast_of(run.topic, run.depth),
        "memory": loaded.output.get("memory") or {},
        "memory_words": loaded.detail,
        "taught": still_offered(run.topic.owner, plan.get("taught", [])),
    }


def plan_token_of(run: Run) -> str:
    """Return a key that identifies the waiting plan, or ""."""
    return run.waiting_since.isoformat() if run.waiting_since else ""


def words_of(run: Run, typed: str) -> str:
    """Return `typed` unless it is the queries as planned."""
    step = Step.objects.filter(run=run, name="plan", part=0).first()
    plan = step.output if step else {}
    lines = [line.strip() for line in typed.splitlines() if line.strip()]
    return "" if lines in (plan.get("proposed"), plan.get("queries")) else typed


def describe_plan(run: Run) -> str:
    """Return what a run is waiting for if its plan is up for review."""
    goes_on = planning.resumes_at(run)
    if goes_on is None:
        return _("The run is waiting for you to review its plan.")
    at = date_format(timezone.localtime(goes_on), "j F, H:i")
    return _(
        "The run is waiting for you to review its plan. Without a review, it continues on %(at)s."
    ) % {"at": at}


# --- the page ---

_STORED = ("plan", "search", "write")  # the steps whose output is shown


def context(run: Run, *, plan_form: PlanForm | None = None) -> dict[str, Any]:
    """Return the context of `_run_live.html` for a run without a report.

    It includes a plan that waits for review, with the person's edits in `plan_form`.
    """
    # First, since it checks whether the plan still waits.
    plan = plan_context(run, plan_form) if run.waiting_since else {}
    budget = budget_for(run.asked_for, run.depth)
    steps = list(run.steps.filter(is_follow_up=False).defer("output"))
    stored = dict(run.steps.filter(name__in=_STORED).values_list("name", "output"))
    hits = list(run.hits.defer("snippet"))
    is_told = any(s.name == "filter_seen" and s.state == Step.State.DONE for s in steps)
    is_over = not run.is_unfinished
    return {
        "run": run,
        "warnings": list(map(presenters.begun, run.warnings)),
        "topic": run.topic,
        "steps": presenters.step_rows(run, steps, by_track(run)),
        "queries": _queries(stored, hits, is_told=is_told),
        "obeyed": applied_rules.obeyed(run, hits, stored.get("plan", {}).get("queries")),
        "groups": presenters.hit_groups(hits, is_over=is_over) if is_told else [],
        "hits": [] if is_told else [presenters.hit_row(hit, is_told=False) for hit in hits],
        "hit_count": len(hits),
        "read_count": sum(hit.reading == Hit.Reading.READ for hit in hits),
        "draft": _draft(run, steps, stored),
        "budget": budget,
        "took": presenters.took(run),
        "cost": presenters.cost(run),
        "tokens": grouped(run.tokens),
        "most_tokens": grouped(budget.tokens),
        "started_by": presenters.started_by(run),
        "waiting": waiting_words(run),
        "is_put_off": _is_postponed(run),
        "is_silent": _is_silent(run),
        "failure": _failure(run, steps, stored.get("search", {}).get("asked", [])),
    } | (plan or _again(run, steps))


def _again(run: Run, steps: Iterable[Step]) -> dict[str, Any]:
    """Return the steps from which an ended run can be retried, and how many runs can still start."""
    if run.is_unfinished:
        return {}
    labels = presenters.labels(run)
    done = [step.name for step in steps if step.state == Step.State.DONE and not step.part]
    return {
        "retry_from": [(name, labels.get(name, name)) for name in done],
        "limits": starting.describe_limits(run.topic.owner),
    }


def _draft(run: Run, steps: Iterable[Step], stored: dict[str, dict[str, Any]]) -> str:
    """Return the part of the report written so far as safe HTML, or "" if the run isn't writing."""
    step = next((step for step in steps if step.name == "write"), None)
    if step is None or step.state != Step.State.RUNNING or run.status != Run.Status.RUNNING:
        return ""
    # The text of an earlier attempt is no longer a draft, because it isn't continued.
    draft = stored["write"].get("draft", "") if step.attempt == run.attempt else ""
    return by_direction(render(draft)) if draft else ""


def _queries(
    stored: dict[str, dict[str, Any]], hits: Iterable[Hit], *, is_told: bool
) -> list[dict[str, Any]]:
    """Return each query with its results, and how many of them were new and known.

    A page that several services returned counts once, so the numbers agree with the lists of pages.
    """
    planned = stored.get("plan", {}).get("queries", [])
    rows: dict[str, dict[str, Any]] = {query: {"query": query} for query in planned}
    places = {query: place for place, query in enumerate(planned)}
    asked = stored.get("search", {}).get("asked", [])
    pairs: set[tuple[str, str]] = set()
    for entry in sorted(asked, key=lambda entry: places.get(entry["query"], len(places))):
        row = rows.setdefault(entry["query"], {"query": entry["query"]})
        row.setdefault("services", []).append(searching.label_of(entry["service"]))
        if entry["problem"]:
            row.setdefault("problems", []).append(_page_problem(entry, pairs))
    found, new = _by_query(hits), _by_query(hit for hit in hits if hit.state == Hit.State.NEW)
    for query, row in rows.items():
        row |= {"hits": found[query], "new": new[query] if is_told else None}
    return list(rows.values())


def _page_problem(entry: dict[str, Any], pairs: set[tuple[str, str]]) -> str:
    """Return why a service didn't answer a query. A reason in `pairs` isn't repeated."""
    why = entry["problem"]
    if (entry["service"], why) in pairs:
        why = _("failed for the same reason") if entry["tries"] else _("not searched again")
    pairs.add((entry["service"], entry["problem"]))
    return f"{searching.label_of(entry['service'])}: {why}"


def _by_query(hits: Iterable[Hit]) -> Counter[str]:
    """Count the hits per query, each hit once even if several services returned it."""
    return Counter(query for hit in hits for query in {entry["query"] for entry in hit.queries})


def waiting_words(run: Run) -> str:
    """Return what a queued run is waiting for, or ""."""
    if run.status != Run.Status.QUEUED:
        return ""
    if run.waiting_since is not None:
        return describe_plan(run)
    if _is_postponed(run):
        at = date_format(timezone.localtime(run.not_before), "H:i")
        most = len(run.RETRY_SECONDS) + 1
        params = {"at": at, "n": run.tries + 1, "most": most, "why": run.error}
        return _("Retrying at %(at)s (attempt %(n)d of %(most)d): %(why)s") % params
    if run.started_at is not None and run.error:  # it was delayed, and is due now
        return _("Waiting for a worker. The run will resume after its last finished step.")
    if run.started_at is not None:
        return _(
            "Interrupted. The run will continue after its last finished step when a worker is available."
        )
    return _("The run starts as soon as a worker is available.")


def _is_postponed(run: Run) -> bool:
    is_later = run.not_before > timezone.now() + timedelta(seconds=1)
    is_queued = run.status == Run.Status.QUEUED and run.waiting_since is None
    return is_queued and is_later and bool(run.error)


def _is_silent(run: Run) -> bool:
    if run.status != Run.Status.RUNNING or run.heartbeat_at is None:
        return False
    return timezone.now() - run.heartbeat_at > run.LEASE


def _failure(run: Run, steps: Iterable[Step], queries: list[AskedQuery]) -> dict[str, str] | None:
    """Return what happened to a run that ended without a report, why, and what to do.

    `queries` is the output of the step `search` for each query.
    """
    if run.status not in (Run.Status.FAILED, Run.Status.CANCELLED):
        return None
    last = _ended_in(steps)
    label = presenters.labels(run).get(last.name, last.name) if last else ""
    if run.status == Run.Status.CANCELLED:
        what = _("The run was cancelled before it wrote a report.")
    elif label:
        what = _("The run failed at the “%(step)s” step.") % {"step": label}
    else:
        what = _("The run failed before its first step.")
    return {
        "what": what,
        "why": presenters.begun(run.error or (last.warning if last else "")),
        "todo": _todo(run, last, queries),
        "step": label,
        "where": last.name if last else "",
    }


def _ended_in(steps: Iterable[Step]) -> Step | None:
    """Return the step in which an ended run stopped: the first one that isn't done."""
    return next((s for s in steps if s.state not in (Step.State.DONE, Step.State.SKIPPED)), None)


def _todo(run: Run, step: Step | None, queries: list[AskedQuery]) -> str:
    if run.status == Run.Status.CANCELLED:
        return _("Retry the run to continue where it left off, or start a new one.")
    if run.crashes:
        return _("The worker’s log shows the cause. Fix it, then retry the run.")
    if step is not None and step.name == "search" and searching.unreachable(queries):
        return _(
            "Check this machine’s network or proxy, then retry. The library and the sample topic "
            "work without network access."
        )
    if step is not None and step.name == "search":
        return _("Correct the search settings, then retry the run.")
    if step is not None and step.name in ("plan", "write"):
        return _("Test the model, then retry the run.")
    return _("Retry the run. If it fails again, see the worker’s log.")
