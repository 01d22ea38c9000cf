"""Step 5: read the pages behind new and returning hits, in parallel, through the guard.

Hits in order -> pages fetched (sample, library or web) -> text as content items, or a reason on the
hit if there is none -> near-duplicates skipped -> `readings()` for the writer.

If a server sends a sign-in form, a CAPTCHA or "not found" instead of a page, it isn't read. Compared
with the last version, all facts would seem to be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog
from django.conf import settings as site
from django.db import transaction
from django.db.models import Q

from beacon_site.net.address_guard import check_url
from beacon_site.net.errors import ProviderError, ProviderRejected
from beacon_site.net.extract import part_from
from beacon_site.net.fetch import NeedsJavaScript, PageFetcher, WebPage, get_fetcher, reason_against
from beacon_site.providers.search import sample
from beacon_site.text import injection
from beacon_site.text.canonical_urls import canonical_url
from beacon_site.text.cleaning import clean, one_line, shorten
from beacon_site.text.messages import gettext as _
from beacon_site.text.messages import joined, ngettext
from beacon_site.text.secret_scanner import mask
from memory.models import Activity, ContentItem, Topic, Trust
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached
from memory.models.library import page_of
from memory.services.library import documents as library_services
from research.claims import duplicates
from research.claims.selection import PageText
from research.models import Hit, TopicSettings
from research.models.topics import everywhere, in_effect, is_page
from research.services.budgets.budget import depth_of
from research.services.runs.context import applied_rules, inputs
from research.services.runs.context.outputs import ReadOutput, Versions
from research.services.runs.context.run_context import RunContext, StepResult
from research.services.runs.search import known_pages
from research.services.topics.settings import editing as topic_editing
from research.services.topics.settings import standing_rules
from research.services.topics.settings.standing_rules import page_from

logger = structlog.get_logger(__name__)

MAX_TEXT = 200_000  # characters stored of one page; research.services.budgets.budget decides how much is read
MAX_NAMED = 5  # pages that one warning names
_READ_BEFORE = (Hit.State.RETURNING, Hit.State.KNOWN)
AT_ONCE = 24  # pages: 48 are two batches of at most 20 s each, the guard's limit per page


def read(context: RunContext) -> StepResult:
    """Read the new and returning pages, as many as the budget allows, and known ones again.

    An unreadable page keeps its reason and is represented by its snippet. The run continues.
    """
    hits = _to_read(context)
    marks: dict[int, set[int]] = {}
    most = depth_of(context.settings).text
    left = [hit for hit in hits if hit.reading == Hit.Reading.NOT_READ]
    set_parts(context, left)
    last = _last_versions(context, left)
    calls = fetching(context, left, last)
    done = len(hits) - len(left)
    # Library documents need database connections, and there are few of these.
    at_once = 4 if any(hit.link.startswith("library:") for hit in left) else AT_ONCE
    versions: Versions = dict(context.step.output.get("versions", {}))
    for place, get in context.each_of(calls, at_once=at_once):
        hit = left[place]
        done += 1
        with transaction.atomic():  # the page is stored only while the run is held
            keep(context, hit, partial(noting_version, get, hit, versions), last)
            context.progress(
                _("%(done)d of %(all)d pages · %(page)s")
                % {"done": done, "all": len(hits), "page": shown_name(hit)},
                output=ReadOutput(versions=versions),
                read=done,
                pages=len(hits),
            )
        if hit.content_item is not None:  # other pages are still being fetched
            marks[hit.place] = duplicates.shingles(hit.content_item.content[:most])
    return _read(context, hits, marks, versions)


def shown_name(hit: Hit) -> str:
    """Return the title of a page for people who watch the run, or its domain."""
    is_suspect = hit.reading == Hit.Reading.QUARANTINED
    return hit.domain if is_suspect else shorten(one_line(hit.title), 80) or hit.domain


def noting_version(get: Callable[[], WebPage], hit: Hit, versions: Versions) -> WebPage:
    """Return the page, and record the version that its server names.

    Not of a part: the version would be taken for that of the last text of the whole page.
    """
    page = get()
    if (page.etag or page.last_modified) and not hit.part:
        versions[hit.url] = [page.etag[:300], page.last_modified[:100]]
    return page


def _to_read(context: RunContext) -> list[Hit]:
    """Return the hits to read, within the budget: always included, new, returning.

    In a deep run, only those that its tracks opened and those always included.
    """
    condition = (
        Q(state=Hit.State.NEW) | Q(state=Hit.State.RETURNING) | known_pages.read_again(context)
    )
    hits = list(context.run.hits.filter(condition).select_related("content_item").order_by("place"))
    always = {hit.pk for hit in hits if applied_rules.is_always(context.settings, hit)}
    if inputs.opened_places(context):
        opened = (hit for hit in hits if hit.reading != Hit.Reading.NOT_READ)
        again = (hit for hit in hits if hit.reading == Hit.Reading.NOT_READ)
        asked = (hit for hit in again if hit.pk in always or hit.state != Hit.State.NEW)
        hits = [*opened, *asked]
    first = [hit for hit in hits if hit.pk in always]
    new = [hit for hit in hits if hit.pk not in always and hit.state == Hit.State.NEW]
    new += [hit for hit in hits if hit.pk not in always and hit.state == Hit.State.RETURNING]
    known = [hit for hit in hits if hit.pk not in always and hit.state == Hit.State.KNOWN]
    # Reading known pages again doesn't use the budget for new ones.
    return [*[*first, *new][: context.budget.pages], *known[: known_pages.MAX]]


def set_parts(context: RunContext, hits: Sequence[Hit]) -> None:
    """Note on each hit the only part of its page to read, if the topic names one.

    The sample's pages are always read as a whole.
    """
    for hit in hits:
        part = standing_rules.part_at(context.settings, hit.url)
        hit.part = str(part) if part and not sample.is_sample_url(hit.link) else ""


def _last_versions(context: RunContext, hits: Sequence[Hit]) -> dict[str, ContentItem]:
    """Return the last texts that earlier runs read of the hits that aren't new, by the page's name."""
    known = [hit for hit in hits if hit.state in _READ_BEFORE]
    return known_pages.last_versions(context, known) if known else {}


def fetching(
    context: RunContext,
    hits: Sequence[Hit],
    last: Mapping[str, ContentItem] | None = None,
    *,
    is_recheck: bool = False,
) -> list[Callable[[], WebPage]]:
    """Return functions that fetch each hit's page. For known pages, they ask only for changes.

    In a recheck, all pages count as known. `last` is the result of `known_pages.last_versions`.
    """
    fetcher = get_fetcher()
    set_parts(context, hits)
    known = [hit for hit in hits if is_recheck or hit.state in _READ_BEFORE]
    if last is None:
        last = known_pages.last_versions(context, known) if known else {}
    stored = known_pages.stored_pages(context, known, last) if known else {}
    again = {hit.pk for hit in known}
    calls: list[Callable[[], WebPage]] = []
    for hit in hits:
        call: Callable[[], WebPage] = partial(_fetch, hit, fetcher, context)
        if hit.pk in again and not hit.part:
            call = known_pages.conditional(hit, stored.get(hit.url), fetcher, call)
        calls.append(call)
    return calls


def _fetch(hit: Hit, fetcher: PageFetcher, context: RunContext) -> WebPage:
    """Fetch one page from the sample, the library or the web."""
    if sample.is_sample_url(hit.link):
        memory = inputs.loaded_memory(context)
        return sample.SampleFetcher(memory.batch if memory else 1).fetch(hit.link)
    if hit.link.startswith("library:"):
        return library_services.text_of(context.topic.owner, hit.link)
    if hit.part:
        return fetcher.fetch(hit.link, part=part_from(hit.part))
    return fetcher.fetch(hit.link)


def keep(
    context: RunContext,
    hit: Hit,
    get: Callable[[], WebPage],
    last: Mapping[str, ContentItem] | None = None,
) -> None:
    """Store the result of a fetch: the text as a content item, or the reason for failure.

    `last` is the result of `known_pages.last_versions`. Without it, the hit is looked up.
    """
    try:
        page = get()
        applied_rules.check_redirect_target(context, hit, page.final_url)
        text = mask(clean(page.text)[0][:MAX_TEXT])[0].strip()
        if not text:
            raise ProviderRejected(_("the page has no text"))
        is_web = hit.link.startswith(("http://", "https://"))
        if is_web and (why := reason_against(page.title, text)):
            raise ProviderRejected(why)
    except ProviderError as exc:
        hit.reading, hit.reason = Hit.Reading.FAILED, str(exc)
        hit.save(update_fields=["reading", "reason", "part"])
        if isinstance(exc, NeedsJavaScript):
            context.run.warn(
                _(
                    "Pages that need JavaScript couldn’t be read. An admin can set up Chromium for them."
                )
            )
        logger.info("page not read", run=context.run.pk, domain=hit.domain, why=str(exc))
        return
    hit.title = mask(clean(page.title)[0] or hit.title)[0][:500]
    hit.published_at = page.published_at or hit.published_at
    hit.reading = Hit.Reading.READ
    smell = injection.injection_reason(text)
    if smell:
        # Nothing from a quarantined page enters a prompt or a fact.
        hit.reading = Hit.Reading.QUARANTINED
        hit.reason = _("possible prompt injection: the page %(why)s") % {"why": smell}
    hit.content_item = _content_item(context, hit, text, last)
    hit.save(update_fields=["title", "published_at", "reading", "reason", "content_item", "part"])


def _content_item(
    context: RunContext, hit: Hit, text: str, last: Mapping[str, ContentItem] | None
) -> ContentItem:
    """Store the page's text, so people can see what was read. An unchanged text is stored once."""
    if hit.state in _READ_BEFORE:
        last = _last_versions(context, [hit]) if last is None else last
        same = last.get(page_of(hit.link))
        if same is not None and same.content == text:
            return same
    is_suspect = hit.reading == Hit.Reading.QUARANTINED
    return ContentItem.objects.create(
        owner=context.topic.owner,
        topic=context.topic,
        type=ContentItem.Type.WEB_CONTENT,
        title=hit.title[:500],
        url=hit.link,
        content=text,
        size=len(text),
        scope=context.run.source,
        source=context.run.source,
        trust=Trust.QUARANTINED if is_suspect else Trust.EXTERNAL,
        tags=["page", hit.domain[:80]],
        run_step=f"{context.run.source}/step:{context.step.pk}",
    )


def _read(
    context: RunContext, hits: list[Hit], marks: dict[int, set[int]], versions: Versions
) -> StepResult:
    read_hits = [hit for hit in hits if hit.reading == Hit.Reading.READ]
    most = depth_of(context.settings).text
    new_hits = [hit for hit in read_hits if hit.state == Hit.State.NEW]
    repeated = duplicates.near_duplicates([_reading(hit, most) for hit in new_hits], marks)
    by_place = {hit.place: hit for hit in read_hits}
    for place, of in repeated.items():
        hit = by_place[place]
        hit.reading = Hit.Reading.NEAR_DUPLICATE
        hit.reason = _("has the same text as %(domain)s") % {"domain": by_place[of].domain}
        hit.save(update_fields=["reading", "reason"])
    quarantine_reason = sum(hit.reading == Hit.Reading.QUARANTINED for hit in hits)
    if quarantine_reason:
        context.run.warn(
            ngettext(
                "Skipped %(count)d page that tries to instruct AI agents (prompt injection)",
                "Skipped %(count)d pages that try to instruct AI agents (prompt injection)",
                quarantine_reason,
            )
            % {"count": quarantine_reason}
        )
    _warn_not_compared(context, hits)
    _warn_without_part(context, hits)
    new = [hit for hit in hits if hit.state != Hit.State.KNOWN]
    unread = [hit for hit in new if hit.reading == Hit.Reading.FAILED]
    failed = len(unread) - len(known_pages.new_versions(context, unread))
    _warn_unread_pages(context, sum(hit.state != Hit.State.KNOWN for hit in hits))
    warning = ""
    if failed:
        warning = _(
            "%(failed)d of %(all)d pages couldn’t be read. The list of sources shows why."
        ) % {"failed": failed, "all": len(new)}
        context.run.warn(warning)
    again = sum(hit.state == Hit.State.KNOWN for hit in read_hits)
    counts = {
        "read": len(read_hits), "read_again": again, "failed": failed,
        "near_duplicates": len(repeated),
    }  # fmt: skip
    output: ReadOutput = {
        "read": len(read_hits),
        "read_again": again,
        "failed": failed,
        "near_duplicates": len(repeated),
        "versions": versions,
    }
    return StepResult(
        output,
        detail=_describe(len(read_hits), again, len(repeated)),
        counts=counts,
        warning=warning,
        of_run={"read_count": len(read_hits)},
    )


def _warn_not_compared(context: RunContext, hits: Sequence[Hit]) -> None:
    """Warn about known pages that couldn't be read again, or only in part."""
    failed = [hit for hit in hits if hit.reading == Hit.Reading.FAILED]
    documents = known_pages.new_versions(context, failed)
    failed = [hit for hit in failed if hit.state == Hit.State.KNOWN or hit in documents]
    if failed:
        pages = "; ".join(
            f"{hit.title if hit in documents else hit.domain}: {hit.reason}"
            for hit in failed[:MAX_NAMED]
        )
        if len(failed) > MAX_NAMED:
            pages += " …"
        message = ngettext(
            "%(n)d known page couldn’t be read again, so its facts weren’t checked (%(pages)s)",
            "%(n)d known pages couldn’t be read again, so their facts weren’t checked (%(pages)s)",
            len(failed),
        )
        context.run.warn(message % {"n": len(failed), "pages": pages})
    cut = [
        hit
        for hit in hits
        if hit.state in _READ_BEFORE
        and hit.content_item is not None
        # some tolerance, because trailing whitespace isn't stored
        and hit.content_item.size > MAX_TEXT - 100
    ]
    if cut:
        message = ngettext(
            "Only the first %(most)s characters of %(n)d long page were compared (%(pages)s)",
            "Only the first %(most)s characters of %(n)d long pages were compared (%(pages)s)",
            len(cut),
        )
        pages = ", ".join(hit.domain for hit in cut[:MAX_NAMED])
        context.run.warn(message % {"n": len(cut), "most": f"{MAX_TEXT:,}", "pages": pages})


def _warn_without_part(context: RunContext, hits: Sequence[Hit]) -> None:
    """Warn about each page of which only a part is read, if that part wasn't read."""
    for hit in hits:
        if hit.part and hit.reading == Hit.Reading.FAILED and hit.state != Hit.State.KNOWN:
            context.run.warn(
                _("Nothing was read from %(page)s. %(why)s")
                % {"page": shorten(hit.link, 120), "why": hit.reason}
            )


def _describe(pages: int, again: int, same: int) -> str:
    read = ngettext("%(n)d page read", "%(n)d pages read", pages) % {"n": pages}
    if again:
        read += ngettext(" (%(n)d read before)", " (%(n)d read before)", again) % {"n": again}
    aside = ngettext("%(n)d near-duplicate skipped", "%(n)d near-duplicates skipped", same)
    return joined(", ", [read, aside % {"n": same}])


def _warn_unread_pages(context: RunContext, count: int) -> None:
    """Warn if the topic's own budget, not the site's default, left pages unread."""
    if not context.settings.max_pages or inputs.opened_places(context):
        return  # or the tracks chose the pages
    new = context.run.hits.filter(state__in=[Hit.State.NEW, Hit.State.RETURNING]).count()
    if new > count:
        context.run.warn(
            _(
                "The run read only %(read)d of %(all)d new pages because its page limit is %(most)d. For the rest, it used the search snippets."
            )
            % {"read": count, "all": new, "most": context.budget.pages}
        )


def _reading(hit: Hit, most: int, versions: Sequence[str] = ()) -> PageText:
    """Return the first `most` characters of a page for the writer.

    A page that was read before is returned in full, with its last versions.
    """
    previous, earlier = [*versions, "", ""][:2]
    most = MAX_TEXT if previous else most
    text = hit.content_item.content[:most] if hit.content_item else hit.snippet
    return PageText(
        number=hit.place,
        url=hit.link,
        title=hit.title,
        domain=hit.domain,
        text=text,
        snippet=hit.snippet,
        published_at=hit.published_at,
        is_judged=hit.reading == Hit.Reading.READ,
        previous=previous,
        earlier=earlier,
        most=MAX_TEXT,
    )


def readings(context: RunContext) -> list[PageText]:
    """Return the pages and snippets for the report, in the order of the hits.

    Pages that were read are included up to the topic's depth of reading. Unless the run is
    stopping, the best snippets of pages that couldn't be read or exceeded the budget are included,
    too, at most as many as pages can be read, because eight services find hundreds.
    Near-duplicates, quarantined, known and blocked pages are left out, and so are snippets of pages
    of which only a part is read. A deep run only has pages:
    those that its tracks opened, and those always included.
    """
    is_usable = Q(state__in=[Hit.State.NEW, Hit.State.RETURNING])
    hits = context.run.hits.filter(is_usable | Q(state=Hit.State.KNOWN, reading=Hit.Reading.READ))
    unwanted = [Hit.Reading.NEAR_DUPLICATE, Hit.Reading.QUARANTINED]
    hits = hits.exclude(reading__in=unwanted).select_related("content_item")
    usable, snippets = [], 0
    pages_alone = context.is_stopping or bool(inputs.opened_places(context))
    for hit in hits.order_by("place"):
        if hit.reading == Hit.Reading.READ:
            usable.append(hit)
        elif hit.snippet and not hit.part and not pages_alone and snippets < context.budget.pages:
            usable.append(hit)
            snippets += 1
    most = depth_of(context.settings).text
    versions: Versions = {}
    if inputs.loaded_memory(context):
        read = [hit for hit in usable if hit.reading == Hit.Reading.READ]
        last = known_pages.versions(context, known_pages.known_of(context, read))
        versions = {name: [item.content for item in items] for name, items in last.items()}
    # A known page without an earlier text can't be compared with anything.
    kept = [h for h in usable if h.state != Hit.State.KNOWN or page_of(h.link) in versions]
    return [_reading(hit, most, versions.get(page_of(hit.link), [])) for hit in kept]


# --- read in the next run ---

MAX = 20


def add(topic: Topic, address: str, *, by: Actor) -> tuple[str, bool]:
    """Have the next run read a page. Return the stored URL, and whether it is new in the list.

    Raises InvalidValue for a URL that runs can't open, and LimitReached beyond MAX.
    """
    page = _checked(address)
    with transaction.atomic():
        held = Topic.objects.select_for_update().get(pk=topic.pk)
        settings = topic_editing.settings_of(held)
        if canonical_url(page) in map(canonical_url, settings.read_next):
            return page, False
        whole = in_effect(settings, everywhere(held.owner_id))
        if place := standing_rules.reason_against(whole, canonical_url(page)):
            problem = _("“%(place)s” is blocked for this topic. Unblock it first.")
            raise InvalidValue(problem % {"place": standing_rules.readable_rule(place)})
        if len(settings.read_next) >= MAX:
            problem = _(
                "The reading list for the next run is full. It can have at most %(most)d pages."
            )
            raise LimitReached(problem % {"most": MAX})
        _keep(held, [*settings.read_next, page])
        Activity.log(held.owner, by, "read-next", subject=held, label=page)
    return page, True


def remove(topic: Topic, address: str, *, by: Actor) -> bool:
    """Remove a page from the list. Return False if it isn't there."""
    with transaction.atomic():
        held = Topic.objects.select_for_update().get(pk=topic.pk)
        kept = topic_editing.settings_of(held).read_next
        left = [page for page in kept if page != address]
        if left == kept:
            return False
        _keep(held, left)
        Activity.log(held.owner, by, "read-next-not", subject=held, label=address)
    return True


def remove_read_pages(topic: Topic, pages: Sequence[str]) -> None:
    """Remove the pages that a run read. Called in the transaction that saves the run."""
    if not pages:
        return
    row = TopicSettings.objects.values_list("read_next", flat=True).get(topic=topic)
    _keep(topic, [page for page in row if page not in pages])


def _keep(topic: Topic, pages: list[str]) -> None:
    TopicSettings.objects.filter(topic=topic).update(read_next=pages)


def _checked(address: str) -> str:
    """Return the normalized URL. Raises InvalidValue with the guard's message.

    The host is resolved only when the page is fetched, by the same guard.
    """
    if not is_page(address.strip()):
        raise InvalidValue(
            _("“%(text)s” isn’t a URL. Enter one that starts with http:// or https://.")
            % {"text": address[:200]}
        )
    page = page_from(one_line(clean(address)[0]))
    if page.startswith("library:"):
        return page
    try:
        check_url(page, site.BEACON_FETCH_ALLOW_HOSTS)
    except ProviderError as exc:
        raise InvalidValue(str(exc)) from exc
    return page
