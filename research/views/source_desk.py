"""The source desk of a topic: what each source gave, and how it is treated from the next run on."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from memory.errors import MemoryRefused
from memory.models import Topic
from memory.responses import go_back, refused
from memory.texts.text import shorten
from memory.trash import forgetting_urls
from research.models.effective_settings import everywhere
from research.search import reading_next
from research.sources import desk as source_desk
from research.sources import rules as source_rules
from research.sources.desk import ACT_WORDS, BY, STATES, DeskWanted
from research.sources.rules import ALL, NONE, TOPIC, Act
from research.topic_settings import standing_rules
from research.topics import page as topic_page


def _topic(request: BeaconRequest, slug: str) -> Any:
    return get_object_or_404(topic_page.topics_of(request.user), slug=slug)


def _desk(slug: str) -> str:
    return reverse("research:topic-sources", args=[slug])


@require_safe
@login_required
@vary_on_headers("HX-Request")
def topic_sources(request: BeaconRequest, slug: str) -> HttpResponse:
    """Show the topic's sources by domain or by page; over htmx the list alone."""
    return _show(request, _topic(request, slug))


def _show(request: BeaconRequest, topic: Any, **more: Any) -> HttpResponse:
    wanted = DeskWanted.of(request.GET)
    listing, total, rules = source_desk.page(topic, wanted, cursor=request.GET.get("cursor", ""))
    context: dict[str, Any] = {
        "topic": topic,
        "tab": "sources",
        "head": topic_page.head_of(topic),
        "wanted": wanted,
        "rows": listing.rows,
        "next_cursor": listing.next_cursor,
        "total": total,
        "columns": source_desk.columns(wanted),
        "name_query": wanted.sorted_by("name"),
        "by": BY.items(),
        "states": STATES.items(),
        "seen_count": topic_page.seen_count(topic),
        "elsewhere": [
            (place, ACT_WORDS[Act(act)]) for place, act in source_desk.not_met(rules, listing.rows)
        ],
    }
    template = "_topic_sources" if request.htmx else "topic_sources"
    return render(request, f"research/{template}.html", context | more)


@require_safe
@login_required
def sources_export(request: BeaconRequest, slug: str) -> StreamingHttpResponse:
    """Hand out the list as it is filtered and sorted, whole, as CSV."""
    topic, wanted = _topic(request, slug), DeskWanted.of(request.GET)
    pieces = (line.encode() for line in source_desk.as_csv(topic, wanted))
    response = StreamingHttpResponse(pieces, content_type="text/csv; charset=utf-8; header=present")
    response["Content-Disposition"] = f'attachment; filename="{topic.slug}-sources.csv"'
    return response


# --- acts -----------------------------------------------------------------------------------------


@require_POST
@login_required
def source_act(request: BeaconRequest, slug: str) -> HttpResponse:
    """Block, boost or mute a place, or none of it: `do` is `act scope place`."""
    topic = _topic(request, slug)
    asked = request.POST.get("do") or request.GET.get("do", "")
    act, scope, place = (*asked.split(" ", 2), "", "")[:3]
    if scope not in (TOPIC, ALL):
        return refused(request, _("It is not said for what that holds: this topic, or all."))
    try:
        changed = source_rules.set_rule(topic, place, act, scope=scope, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    _say(request, changed, scope, reverse("research:source-act", args=[slug]))
    return go_back(request, _desk(slug))


def _say(request: BeaconRequest, changed: source_rules.Changed, scope: str, undo: str) -> None:
    """Say what is done from the next run on, with the way back."""
    place = shorten(standing_rules.shown(changed.place), 120)
    if changed.act == changed.before:
        messages.info(request, _("“%(place)s” is treated so already.") % {"place": place})
        return
    said = {
        Act.BLOCK: _("“%(place)s” is neither read nor cited any more, from the next run on."),
        Act.BOOST: _("“%(place)s” stands first, from the next run on."),
        Act.MUTE: _("“%(place)s” is read, and never announced alone, from the next run on."),
        NONE: _("“%(place)s” is treated as any other, from the next run on."),
    }[changed.act]
    if scope == ALL:
        said += " " + _("That holds for all topics.")
    back = urlencode({"do": f"{changed.before} {scope} {changed.place}"})
    messages.success(request, said % {"place": place}, extra_tags=f"undo:{undo}?{back}")


@require_POST
@login_required
def source_forget_url(request: BeaconRequest, slug: str) -> HttpResponse:
    """Forget that an address was seen: a search may bring it as new again."""
    topic = _topic(request, slug)
    try:
        line = forgetting_urls.forget_url(topic, request.POST.get("url", ""), by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    undo = "undo:" + reverse("research:source-remember-url", args=[slug, line.pk])
    words = _("Forgotten: “%(url)s” may come as new again. What it brought stays.")
    messages.success(request, words % {"url": shorten(line.label, 120)}, extra_tags=undo)
    return go_back(request, _desk(slug))


@require_POST
@login_required
def source_remember_url(request: BeaconRequest, slug: str, line: int) -> HttpResponse:
    """Take that back."""
    topic = _topic(request, slug)
    try:
        url = forgetting_urls.remember_url(topic, line, by=request.actor)
    except MemoryRefused as exc:
        return refused(request, str(exc))
    messages.success(request, _("“%(url)s” counts as seen again.") % {"url": shorten(url, 120)})
    return go_back(request, _desk(slug))


@require_POST
@login_required
def read_next(request: BeaconRequest, slug: str) -> HttpResponse:
    """Have the next run read a page; what cannot be read is explained beside what was typed."""
    topic = _topic(request, slug)
    address = (request.POST.get("address") or request.GET.get("address", ""))[:3000]
    try:
        page, is_new = reading_next.add(topic, address, by=request.actor)
    except MemoryRefused as exc:
        return _show(request, topic, address=address, address_error=str(exc))
    if is_new:
        undo = reverse("research:read-next-not", args=[slug])
        undo = f"undo:{undo}?{urlencode({'address': page})}"
        words = _("The next run reads “%(page)s”.")
        messages.success(request, words % {"page": shorten(page, 120)}, extra_tags=undo)
    else:
        messages.info(request, _("The next run reads it already."))
    return go_back(request, _desk(slug))


@require_POST
@login_required
def read_next_not(request: BeaconRequest, slug: str) -> HttpResponse:
    """Take a page from what the next run reads."""
    topic = _topic(request, slug)
    address = request.POST.get("address") or request.GET.get("address", "")
    if reading_next.remove(topic, address, by=request.actor):
        undo = reverse("research:read-next", args=[slug])
        undo = f"undo:{undo}?{urlencode({'address': address})}"
        messages.success(request, _("The next run does not read it by rule."), extra_tags=undo)
    else:
        messages.info(request, _("It is not among what the next run reads (any more)."))
    return go_back(request, _desk(slug))


# --- all topics -----------------------------------------------------------------------------------


@require_http_methods(["GET", "POST"])
@login_required
def source_rules_page(request: BeaconRequest) -> HttpResponse:
    """Show how places are treated in all topics; a POST adds a rule, or takes one away."""
    place = request.POST.get("place") or request.GET.get("place", "")
    act, error = request.POST.get("act") or request.GET.get("act", ""), ""
    if request.method == "POST":
        try:
            # The scope is all topics: the topic only says whose.
            whose = Topic(owner=request.user)
            changed = source_rules.set_rule(whose, place, act, scope=ALL, by=request.actor)
        except MemoryRefused as exc:
            error = str(exc)
        else:
            _say_of_all(request, changed)
            return redirect("research:source-rules")
    rules = [
        {"place": one, "shown": standing_rules.shown(one), "words": ACT_WORDS[Act(how)]}
        for one, how in sorted(everywhere(request.user.pk).items())
    ]
    context = {"rules": rules, "acts": Act.choices, "place": place, "act": act, "error": error}
    return render(request, "research/source_rules.html", context)


def _say_of_all(request: BeaconRequest, changed: source_rules.Changed) -> None:
    place = shorten(standing_rules.shown(changed.place), 120)
    words = (
        _("“%(place)s” is treated as any other in all topics.")
        if changed.act == NONE
        else _("“%(place)s” is treated so in all topics, from their next runs on.")
    )
    back = urlencode({"place": changed.place, "act": changed.before})
    undo = f"undo:{reverse('research:source-rules')}?{back}"
    messages.success(request, words % {"place": place}, extra_tags=undo)
