"""Settings of programs: API tokens, and the agents that they open."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from beacon_site.http import BeaconRequest
from memory.accounts import agent_settings, program_setup, settings_undo, tokens
from memory.double_submit import submission
from memory.errors import InvalidValue
from memory.forms.tokens import AgentForm, TokenForm
from memory.models import Agent, ApiToken
from memory.responses import undo_settings_tag
from memory.reviewing import agent_reading

MOST_ENDED = 20  # revoked and expired tokens that are still listed, the newest first


@never_cache
@require_http_methods(["GET", "POST"])
@login_required
def token_list(request: BeaconRequest) -> HttpResponse:
    """List the person's tokens; POST makes one, whose text is shown this once."""
    form = _form(request, request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            with submission(request) as submitted:
                token, text = tokens.issue_instead(
                    request.user,
                    instead_of=submitted.previous,
                    name=form.cleaned_data["name"],
                    scopes=form.wanted_scopes,
                    expires_at=form.expires_at,
                    by=request.actor,
                )
                submitted.remember(str(token.pk))
        except InvalidValue as exc:
            form.take(exc)
        else:
            return _tokens_page(request, _form(request), made=token, text=text)
    return _tokens_page(request, form)


def _form(request: BeaconRequest, data: QueryDict | None = None) -> TokenForm:
    return TokenForm(data, is_staff=request.user.is_staff)


def _tokens_page(
    request: BeaconRequest, form: TokenForm, *, made: ApiToken | None = None, text: str = ""
) -> HttpResponse:
    mine = ApiToken.objects.of(request.user).select_related("agent").order_by("-created", "-pk")
    now = timezone.now()
    rows = list(mine.usable(now))
    ended = mine.exclude(pk__in=[row.pk for row in rows])[:MOST_ENDED]
    context: dict[str, Any] = {
        "form": form,
        "rows": rows,
        "ended": ended,
        "made": made,
        "text": text,
        "setups": program_setup.setups(text, with_paths=request.user.is_staff),
        "rest": program_setup.rest_example(text),
        "tab": "tokens",
    }
    template = "memory/_tokens.html" if request.htmx else "memory/settings_tokens.html"
    return render(request, template, context)


@require_POST
@login_required
def token_revoke(request: BeaconRequest, pk: int) -> HttpResponse:
    """End a token at once."""
    token = get_object_or_404(
        ApiToken.objects.of(request.user).select_related("agent__owner"), pk=pk
    )
    if tokens.revoke(token, by=request.actor):
        text = _(
            "The token of %(name)s opens nothing any more. It cannot be brought back: make a new "
            "one if the program shall come in again."
        )
        messages.success(request, text % {"name": token.agent})
    else:
        messages.info(request, _("That token was revoked before."))
    if request.htmx:
        return _tokens_page(request, _form(request))
    return redirect("memory:tokens")


@require_safe
@login_required
def agent_list(request: BeaconRequest) -> HttpResponse:
    """List the agents that act for the person, with their settings."""
    agents = agent_settings.agents_of(request.user)
    context = {"rows": [(one, agent_reading.held_until(one)) for one in agents], "tab": "agents"}
    return render(request, "memory/settings_agents.html", context)


@require_http_methods(["GET", "POST"])
@login_required
def agent_edit(request: BeaconRequest, pk: int) -> HttpResponse:
    """Show and change the settings of one agent."""
    agent = get_object_or_404(Agent.objects.filter(owner=request.user), pk=pk)
    # A copy: what a refused form held must not stand in the heading as saved.
    form = AgentForm(request.POST or None, instance=Agent.objects.get(pk=agent.pk))
    if request.method == "POST" and form.is_valid():
        before = settings_undo.now(request.user, "agent", str(pk))
        try:
            changed = agent_settings.change(agent, form.cleaned_data, by=request.actor)
        except InvalidValue as exc:
            form.take(exc)
        else:
            said = _("The settings of %(name)s are saved.") if changed else _("Nothing changed.")
            undo = undo_settings_tag(request, "agent", before, target=str(pk))
            words = said % {"name": agent} if changed else said
            messages.success(request, words, extra_tags=undo)
            if not request.htmx:
                return redirect("memory:agents")
            form = AgentForm(instance=agent)
    template = "memory/_agent.html" if request.htmx else "memory/settings_agent.html"
    return render(request, template, {"agent": agent, "form": form, "tab": "agents"})
