"""A topic's standing rules: “always check” and “stop looking here”, added and taken away."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.models import Topic
from memory.responses import go_back, refused
from research.forms.rule import RuleForm
from research.topic_settings import standing_rules
from research.topic_settings.standing_rules import CHECK, STOP, Kind
from research.topics import page as topic_page
from research.topics import rules_page

_SHOWN = "rules"  # the id of the region that shows a topic's rules


def _topic(request: BeaconRequest, slug: str) -> Any:
    return get_object_or_404(topic_page.topics_of(request.user), slug=slug)


def _kind(request: BeaconRequest) -> Kind:
    """Return which rule is meant: sent by a form, or in the address of an undo."""
    sent = request.POST.get("kind") or request.GET.get("kind")
    return CHECK if sent == CHECK else STOP


@require_http_methods(["GET", "POST"])
@login_required
@vary_on_headers("HX-Request")
def topic_rules(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the topic's standing rules; a POST adds the one that was typed."""
    if request.method != "POST":
        return _page(request, slug)
    topic = _topic(request, slug)
    form = RuleForm(_kind(request), request.POST)
    if form.is_valid():
        try:
            _add(request, topic, form.kind, form.cleaned_data["rule"])
        except MemoryRefused as exc:
            form.add_error("rule", str(exc))
        else:
            if request.htmx:
                return _page(request, slug)
            return redirect(f"{reverse('research:topic-facts', args=[slug])}#{_SHOWN}")
    return _page(request, slug, form)


def _page(request: BeaconRequest, slug: str, form: RuleForm | None = None) -> HttpResponse:
    topic = _topic(request, slug)  # as it is after what was done
    context = {"topic": topic, "tab": "facts", "rules": rules_page.rules_of(topic, form)}
    if request.htmx:
        return render(request, "research/_rules.html", context)
    head = topic_page.head_of(topic)
    return render(request, "research/topic_rules.html", context | {"head": head})


@require_POST
@login_required
def rule_add(request: BeaconRequest, slug: str) -> HttpResponse:
    """Add a rule by one press, such as beside a hit or a source; also what takes a removal back."""
    topic = _topic(request, slug)
    rule = request.POST.get("rule") or request.GET.get("rule", "")
    try:
        _add(request, topic, _kind(request), rule)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    return _after(request, topic)


@require_POST
@login_required
def rule_remove(request: BeaconRequest, slug: str) -> HttpResponse:
    """Take a rule away; runs that go on keep to it still."""
    topic, kind = _topic(request, slug), _kind(request)
    rule = request.POST.get("rule") or request.GET.get("rule", "")
    values = {"rule": standing_rules.shown(rule)}
    if standing_rules.remove(topic, kind, rule, by=request.actor):
        said = {
            CHECK: _("“%(rule)s” is not always checked any more."),
            STOP: _("Runs may look at “%(rule)s” again, from the next one on."),
        }
        undo = _undo("rule-add", topic, kind, rule)
        messages.success(request, said[kind] % values, extra_tags=undo)
    else:
        messages.info(request, _("“%(rule)s” is none of the topic's rules (any more).") % values)
    return _after(request, topic)


def _add(request: BeaconRequest, topic: Topic, kind: Kind, text: str) -> None:
    """Add the rule and say so with the way back.  Raises MemoryRefused."""
    rule, is_new = standing_rules.add(topic, kind, text, by=request.actor)
    values = {"rule": standing_rules.shown(rule)}
    if not is_new:
        messages.info(request, _("“%(rule)s” is among the topic's rules already.") % values)
        return
    said = {
        CHECK: _("“%(rule)s” is always checked, from the next run on."),
        STOP: _("Runs stop looking at “%(rule)s”, from the next one on."),
    }
    undo = _undo("rule-remove", topic, kind, rule)
    messages.success(request, said[kind] % values, extra_tags=undo)


def _undo(name: str, topic: Topic, kind: Kind, rule: str) -> str:
    address = reverse(f"research:{name}", args=[topic.slug])
    return f"undo:{address}?{urlencode({'kind': kind, 'rule': rule})}"


def _after(request: BeaconRequest, topic: Any) -> HttpResponse:
    """Show the rules where they stand on the page, elsewhere the toast alone."""
    if not request.htmx:
        return go_back(request, f"{reverse('research:topic-facts', args=[topic.slug])}#{_SHOWN}")
    if request.htmx.target == _SHOWN:
        return _page(request, topic.slug)
    response = render(request, "_toasts.html")
    response["HX-Reswap"] = "none"
    return response
