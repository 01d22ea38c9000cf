"""Private Atom feeds of changes (RFC 4287), and the pages of digests and unsubscribe links.

A feed contains only changes and their sources: no memory, no costs, and private topics only if
their owner included them. Each report is one entry. If several reports of a topic are unread, the
newest entry also combines their changes.
"""

from __future__ import annotations

import hashlib
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings as site
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.utils.feedgenerator import Atom1Feed
from django.utils.http import http_date
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.cleaning import clean, text_param, uncited
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import signed_in
from memory.models import Activity, Topic, User
from memory.models.actors import Actor
from memory.models.errors import InvalidValue
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar
from research.models import Digest, DigestEntry, Feed, Report, Run
from research.services.notifications import channels, digests, notice_text
from research.services.reports import since_read

MAX_FEEDS = 50  # active feeds per person
MAX_ENTRIES = 30


class FeedRevokedError(Exception):
    """The URL was valid once, but the feed has been revoked."""


def add(owner: User, *, topic: Topic | None, include_private: bool, by: Actor) -> Feed:
    """Return a new feed for one topic, or for all (None). Raises InvalidValue."""
    with transaction.atomic():
        _check_room(owner)
        if topic is not None and topic.private and not include_private:
            problem = _("“%(topic)s” is private. Select “Include private topics” first.")
            problem %= {"topic": topic}
            raise InvalidValue(problem, errors={"include_private": [problem]})
        feed: Feed = Feed.objects.create(owner=owner, topic=topic, include_private=include_private)
        Activity.log(owner, by, "feed-created", subject=feed)
    return feed


def _check_room(owner: User) -> None:
    """Raise InvalidValue if the person is at the limit of active feeds. Runs in a transaction."""
    User.objects.select_for_update().get(pk=owner.pk)
    if Feed.objects.for_user(owner).working().count() >= MAX_FEEDS:
        words = _("You’ve reached the limit of %(most)d feeds. Revoke one first.")
        raise InvalidValue(words % {"most": MAX_FEEDS})


def end(feed: Feed, *, by: Actor) -> bool:
    """Revoke the feed. Returns False if it already was."""
    with transaction.atomic():
        if not Feed.objects.filter(pk=feed.pk, ended_at=None).update(ended_at=timezone.now()):
            return False
        Activity.log(feed.owner, by, "feed-ended", subject=feed)
    return True


def resume(feed: Feed, *, by: Actor) -> bool:
    """Restore a revoked feed. Returns False if it is active. Raises InvalidValue at MAX_FEEDS."""
    with transaction.atomic():
        ended = Feed.objects.filter(pk=feed.pk).exclude(ended_at=None)
        if not ended.exists():
            return False
        _check_room(feed.owner)
        if not ended.update(ended_at=None):
            return False
        Activity.log(feed.owner, by, "feed-created", subject=feed)
    return True


def found_by(token: str) -> tuple[Feed, list[Run], str, datetime] | None:
    """Return the feed of a URL, its reports, their ETag, and when they changed last.

    None if the URL was never issued. Raises FeedRevokedError.
    """
    key = Feed.key_of(token)
    feed = Feed.objects.select_related("owner", "topic").filter(pk=key).first() if key else None
    if feed is None:
        return None
    gone = feed.topic is not None and feed.topic.trashed_at is not None
    if feed.ended_at is not None or gone or not feed.owner.is_active:
        raise FeedRevokedError
    now = timezone.now()
    if feed.opened_at is None or feed.opened_at < now - timedelta(hours=1):
        Feed.objects.filter(pk=feed.pk).update(opened_at=now)
    runs = _runs(feed)
    state = [(str(run.report.pk), run.report.updated.isoformat(), run.topic.title) for run in runs]
    unread = _unread_in(runs)
    text = repr(
        (str(feed.pk), feed.include_private, site.BEACON_URL, site.BEACON_VERSION, state, unread)
    )
    modified = max((run.report.updated for run in runs), default=feed.created)
    return feed, runs, f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"', modified


def _runs(feed: Feed) -> list[Run]:
    """Return the runs whose reports are in the feed, newest first. Quiet ones are left out."""
    reports = Report.objects.for_user(feed.owner).live().with_number().filter(is_quiet=False)
    reports = reports.filter(run__topic__trashed_at=None)
    if feed.topic_id is not None:
        reports = reports.filter(run__topic=feed.topic_id)
    if not feed.include_private:
        reports = reports.filter(run__topic__private=False)
    found = reports.select_related("run__topic").defer("body")[:MAX_ENTRIES]
    runs = []
    for report in found:
        report.run.report = report
        runs.append(report.run)
    return runs


def _unread_in(runs: list[Run]) -> list[tuple[str, str, str]]:
    """Return the unread reports of the feed's topics that an entry combines."""
    unread = since_read.unread_of({run.topic_id for run in runs})
    found = ((str(pk), one.since, one.run_range) for pk, one in unread.items())
    return sorted(found)


def _since_read(runs: list[Run]) -> dict[int, dict[str, Any]]:
    """Return the changes over each topic's unread reports, by its newest run, in two queries."""
    newest: dict[Any, Run] = {}
    for run in runs:
        newest.setdefault(run.topic_id, run)
    found = {}
    for topic_id, news in since_read.news_of(newest, in_full=True).items():
        sources = {run.pk: run.sources for run in news.merged}
        if news.is_several and newest[topic_id].pk in sources:
            told = [change.as_item() for change in news.changes if change.is_listed]
            items = [digests.item_of(item, sources[item.run_id]) for item in told]
            found[newest[topic_id].pk] = {"news": news, "items": items}
    return found


def as_atom(feed: Feed, runs: list[Run], modified: datetime) -> str:
    title = (
        _("What changed: %(topic)s") % {"topic": feed.topic} if feed.topic else _("What changed")
    )
    atom1_feed = Atom1Feed(
        title=_clean(title),
        link=site.BEACON_URL + "/",
        description="",
        language="en",
        author_name="Beacon",
        feed_url=feed.address,
        feed_guid=feed.pk.urn,
    )
    items, since = digests.items_of(runs), _since_read(runs)
    for run in runs:
        report: Report = run.report
        listed = items.get(run.pk, ([], 0))[0]
        context: dict[str, Any] = {"items": listed, "report": report, "since": since.get(run.pk)}
        if not report.delta:
            context["summary"] = uncited(report.summary)
        atom1_feed.add_item(
            title=_clean(notice_text.headline(report, run, len(listed))),
            link=digests.run_url(run),
            description=_clean(render_to_string("research/_feed_entry.html", context)),
            unique_id=report.pk.urn,
            pubdate=report.created,
            updateddate=max(report.updated, report.created),
        )
    atom1_feed.feed["updated"] = modified
    atom1_feed.latest_post_date = lambda: modified.astimezone(UTC)  # type: ignore[method-assign]
    return str(atom1_feed.writeString("utf-8"))


def _clean(text: str) -> str:
    """Return the text without characters that XML forbids."""
    return clean(text)[0].replace("\ufffe", "").replace("\uffff", "")


# --- pages of digests, and URLs that work without a sign-in ---

PAGE = 30


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
def digest_list(request: BeaconRequest) -> HttpResponse:
    """List the digests. A search keeps those with a topic whose title contains the word."""
    failed = Q(entries__run__status=Run.Status.FAILED)
    facets = [
        Facet("show", _("Runs"), [Choice("failed", _("with failed runs"))]), filter_bar.day_facet(),
    ]  # fmt: skip
    query = filter_bar.read(request.GET, facets)
    found = filter_bar.in_days(
        Digest.objects.for_user(request.user),
        filter_bar.first_day(query),
        filter_bar.first_day(query, "to"),
    )
    if query.get("show") == "failed":
        found = found.filter(Exists(_entries().filter(run__status=Run.Status.FAILED)))
    for word in text_param(query).split():
        found = found.filter(Exists(_entries().filter(run__topic__title__icontains=word)))
    mine = found.order_by("-created", "-id").annotate(
        run_count=Count("entries"), failed_count=Count("entries", filter=failed)
    )
    page = Paginator(mine, PAGE).get_page(request.GET.get("page"))
    bar = FilterBar(
        reverse("research:digests"), "digests", query,
        label=_("Search digests"), placeholder=_("Search topics"), facets=facets,
        count=ngettext("%(n)d digest", "%(n)d digests", page.paginator.count)
        % {"n": page.paginator.count},
    )  # fmt: skip
    context = {"page": page, "bar": bar}
    if request.htmx and request.htmx.target == "digests":
        return render(request, "research/_digests.html", context)
    context["chosen"] = digests.settings_of(request.user)
    return render(request, "research/digests.html", context)


def _entries() -> Any:
    return DigestEntry.objects.filter(digest=OuterRef("pk"))


@signed_in("GET", "HEAD")
def digest(request: BeaconRequest, pk: uuid.UUID) -> HttpResponse:
    found = get_object_or_404(Digest.objects.for_user(request.user).select_related("owner"), pk=pk)
    context = {"digest": found, "said": digests.content(found)}
    return render(request, "research/digest.html", context)


@require_safe
def feed(request: HttpRequest, token: str) -> HttpResponse:
    """Serve the feed to a reader that has the URL."""
    try:
        found = found_by(token)
    except FeedRevokedError:
        return HttpResponse(status=410)
    if found is None:
        raise Http404
    feed, runs, etag, modified = found
    seconds = int(modified.timestamp())
    answer = get_conditional_response(request, etag=etag, last_modified=seconds)
    if answer is None:
        atom = as_atom(feed, runs, modified)
        answer = HttpResponse(atom, content_type="application/atom+xml; charset=utf-8")
    answer["ETag"] = etag
    answer["Last-Modified"] = http_date(seconds)
    answer["Cache-Control"] = "private, no-cache"
    answer["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    answer["Referrer-Policy"] = "no-referrer"
    return answer


# Email clients post here without a person (RFC 8058). The URL itself is the permission.
@csrf_exempt
@never_cache
@require_http_methods(["GET", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Unsubscribe: on a confirmation page, or at once if an email client posts."""
    named = notice_text.ended_by(token)
    channel = channels.of_token(named[0]) if named else None
    if named is None or channel is None:
        return render(request, "research/unsubscribe.html", {"unknown": True}, status=404)
    topic = None
    if named[1] not in (notice_text.DIGEST, notice_text.COMMENTS):
        topic = Topic.objects.for_user(channel.owner).filter(pk=named[1]).first()
        topic = topic or Topic.objects.shared_with(channel.owner).filter(pk=named[1]).first()
        if topic is None:
            return render(request, "research/unsubscribe.html", {"unknown": True}, status=404)
    done = request.method == "POST"
    if done:
        channels.end_for(channel, topic, named[1])
    answer = render(
        request,
        "research/unsubscribe.html",
        {
            "address": channel.address,
            "topic": topic,
            "owner_id": channel.owner_id,
            "is_comments": named[1] == notice_text.COMMENTS,
            "done": done,
        },
    )
    answer["Referrer-Policy"] = "no-referrer"
    answer["X-Robots-Tag"] = "noindex, nofollow, noarchive"
    return answer
