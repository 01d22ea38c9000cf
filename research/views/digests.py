"""Digests as pages, and the addresses that work without a sign-in: feeds, and ending mails."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils.cache import get_conditional_response
from django.utils.http import http_date
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

from beacon_site.http import BeaconRequest
from memory.models import Topic
from research.models import Digest
from research.notifications import channels, digests, notice_text, rss

PAGE = 30


@require_safe
@login_required
def digest_list(request: BeaconRequest) -> HttpResponse:
    """Show the newest digest whole, and the others in a list."""
    mine = Digest.objects.of(request.user)
    page = Paginator(mine, PAGE).get_page(request.GET.get("page"))
    newest = page.object_list[0] if page.number == 1 and page.object_list else None
    context: dict[str, Any] = {
        "page": page,
        "newest": newest,
        "said": digests.content(newest) if newest else None,
        "chosen": digests.settings_of(request.user),
    }
    return render(request, "research/digests.html", context)


@require_safe
@login_required
def digest(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    """Show one digest."""
    found = get_object_or_404(Digest.objects.of(request.user).select_related("owner"), pk=pk)
    context = {"digest": found, "said": digests.content(found)}
    return render(request, "research/digest.html", context)


@require_safe
def feed(request: HttpRequest, token: str) -> HttpResponse:
    """Answer a feed reader that has the address."""
    try:
        found = rss.found_by(token)
    except rss.FeedOver:
        return HttpResponse(status=410)
    if found is None:
        raise Http404
    modified = int(found.modified.timestamp())
    answer = get_conditional_response(request, etag=found.etag, last_modified=modified)
    if answer is None:
        atom = rss.as_atom(found)
        answer = HttpResponse(atom, content_type="application/atom+xml; charset=utf-8")
    answer["ETag"] = found.etag
    answer["Last-Modified"] = http_date(modified)
    answer["Cache-Control"] = "private, no-cache"
    answer["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    answer["Referrer-Policy"] = "no-referrer"
    return answer


@csrf_exempt  # mail programs post here by themselves (RFC 8058); the address itself is the right
@never_cache
@require_http_methods(["GET", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """End what a mail is about: asked on a page first, at once where a mail program posts."""
    named = notice_text.ended_by(token)
    channel = channels.of_token(named[0]) if named else None
    if named is None or channel is None:
        return render(request, "research/unsubscribe.html", {"unknown": True}, status=404)
    topic = None
    if named[1] != notice_text.DIGEST:
        topic = Topic.objects.of(channel.owner).filter(pk=named[1]).first()
        if topic is None:
            return render(request, "research/unsubscribe.html", {"unknown": True}, status=404)
    done = request.method == "POST"
    if done:
        channels.end_for(channel, topic)
    answer = render(
        request,
        "research/unsubscribe.html",
        {"address": channel.address, "topic": topic, "done": done},
    )
    answer["Referrer-Policy"] = "no-referrer"
    answer["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    return answer
