"""One agent: what it did lately, what is pending, its review rules and record, its tokens and settings."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib import messages
from django.db.models.fields.json import KT
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from beacon_site.text.cleaning import plain
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import signed_in
from memory.accounts import agents as accounts_agents
from memory.accounts import tokens
from memory.accounts.forms import AgentForm
from memory.models import Agent, ApiToken, Proposal, Revision, User, origins
from memory.models.errors import InvalidValue
from memory.models.history import actor_kind
from memory.pages.agents import uses_of, week_of
from memory.pages.review.views import COUNTED, LABELS
from memory.pages.shared.undo import offer_settings, settings_now
from memory.services.records.kinds import kind_of
from memory.services.review import proposals as review_services
from memory.services.review import trust
from memory.services.review.proposals import REVIEWED_KINDS
from memory.services.review.risks import reasons_of
from memory.services.review.trust import track_records

MAX_LATELY = 6  # rows of each list
MAX_ENDED = 5  # revoked and expired tokens that are still listed, newest first
USES_READ = 100  # a run uses a record once for each of its parts, so some name the same one


def _written(user: User, agent: Agent) -> list[dict[str, Any]]:
    """Return the agent's latest changes: one query."""
    writer = agent.writer
    rows = Revision.objects.for_user(user).annotate(
        by=actor_kind(), trashed=KT("after__trashed_at")
    )
    rows = rows.filter(by=writer.kind, actor=str(writer)).order_by("-created", "-id")
    told = rows.values_list("pk", "record_type", "version", "trashed", "label", "created")
    return [
        {
            "said": f"{_did(version, trashed)} {kind_of(record_type).noun}",
            "label": origins.describe_label(plain(label)),
            "url": reverse("research:activity-change", args=[pk]),
            "at": at,
        }
        for pk, record_type, version, trashed, label, at in told[:MAX_LATELY]
    ]


def _did(version: int, trashed: str | None) -> str:
    if version == 1:
        return _("created")
    return _("moved to Trash") if trashed else _("changed")


def _read(user: User, agent: Agent) -> list[dict[str, Any]]:
    """Return what the agent was last given: two queries. Deleted records are left out."""
    uses = uses_of(user, str(agent.writer)).order_by("-id")
    newest: dict[Any, tuple[str, datetime]] = {}
    for key, record_type, at in uses.values_list("record_id", "record_type", "created")[:USES_READ]:
        newest.setdefault(key, (record_type, at))
    types = {record_type for record_type, _at in newest.values()}
    rows = Revision.objects.for_user(user).filter(record_type__in=types, record_id__in=newest)
    rows = rows.order_by("record_id", "-id").distinct("record_id")
    labels = dict(rows.values_list("record_id", "label"))
    return [
        {
            "said": str(kind_of(record_type).noun),
            "label": plain(labels[key]),
            "url": reverse("memory:record-open", args=[record_type, key]),
            "at": at,
        }
        for key, (record_type, at) in newest.items()
        if labels.get(key)
    ][:MAX_LATELY]


def _rules(user: User, agent: Agent) -> list[dict[str, Any]]:
    """Return a row for each kind of write: six queries."""
    writer = str(agent.writer)
    levels, own = review_services.levels_of(user), review_services.levels_of_writers(user)
    mine = {one.kind: one.level for one in own if one.writer == writer}
    records = {one.kind: one for one in track_records(user, levels, own, writer=writer)}
    return [
        {
            "kind": kind,
            "words": str(words),
            "level": mine.get(kind, ""),  # the agent's own
            "usual": str(LABELS[levels[kind]]),  # what applies without it
            "record": records.get(kind),
        }
        for kind, words in REVIEWED_KINDS.items()
    ]


def _usual_of(rules: list[dict[str, Any]]) -> str:
    """Return the default if it applies to every kind of write, or ""."""
    usual = {rule["usual"] for rule in rules}
    return usual.pop() if len(usual) == 1 and not any(rule["level"] for rule in rules) else ""


def _agent_context(user: User, agent: Agent) -> dict[str, Any]:
    writer = str(agent.writer)
    waiting = Proposal.objects.for_user(user).waiting().filter(actor=writer)[: MAX_LATELY + 1]
    pending = [(one, review_services.title_of(one), reasons_of(one)[:1]) for one in waiting]
    of_agent = ApiToken.objects.for_user(user).filter(agent=agent)
    active, ended = tokens.listed(of_agent, tokens.topics_for(user), most_ended=MAX_ENDED)
    rules = _rules(user, agent)
    place = "research:activity" if agent.is_built_in else "research:agents-activity"
    return {
        "writer": writer,
        "held_until": trust.held_until(agent),
        "week": week_of(user, writer),
        "activity_url": f"{reverse(place)}?{urlencode({'actor': writer})}",
        "inbox_url": f"{reverse('research:inbox')}?{urlencode({'show': 'proposal', 'by': writer})}",
        "pending": pending[:MAX_LATELY],
        "has_more_pending": len(pending) > MAX_LATELY,
        "written": _written(user, agent),
        "read": _read(user, agent),
        "rules": rules,
        "levels": LABELS.items(),
        "usual": _usual_of(rules),
        "counted": {
            name: words
            for name, words in COUNTED.items()
            if any(getattr(rule["record"], name, 0) for rule in rules)
        },
        "has_record": any(rule["record"] for rule in rules),
        "tokens": active,
        "ended": ended,
        # With the scope admin, everything is read and written as the person.
        "acts_as_you": bool(active) and all("admin" in one.scopes for one in active),
        "last_used": max((one.last_used_at for one in active if one.last_used_at), default=None),
    }


@signed_in("GET", "POST")
def agent_page(request: BeaconRequest, pk: int) -> HttpResponse:
    """Show an agent; POST changes its settings. Over htmx only the form of the settings."""
    agent = get_object_or_404(Agent.objects.filter(owner=request.user), pk=pk)
    # A copy, so that a rejected form's values don't appear in the heading as saved.
    form = AgentForm(request.POST or None, instance=Agent.objects.get(pk=agent.pk))
    if request.method == "POST" and form.is_valid():
        before = settings_now(request.user, "agent", str(pk))
        try:
            changed = accounts_agents.change(agent, form.cleaned_data, by=request.actor)
        except InvalidValue as exc:
            form.take(exc)
        else:
            message = _("Settings for %(name)s saved.") if changed else _("Nothing changed.")
            undo = offer_settings(request, "agent", before, str(pk))
            words = message % {"name": agent} if changed else message
            messages.success(request, words, extra_tags=undo)
            if not request.htmx:
                return redirect("memory:agent", pk)
            form = AgentForm(instance=agent)
    context = {"agent": agent, "form": form, "tab": "agents"}
    if request.htmx:
        return render(request, "memory/_agent.html", context)
    return render(
        request, "memory/settings_agent.html", context | _agent_context(request.user, agent)
    )
