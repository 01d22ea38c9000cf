"""Pages of Trash: the list, restoring, emptying, and deleting everything from one source."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db import IntegrityError, transaction
from django.db.models import Count, Q, QuerySet
from django.forms.models import model_to_dict
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.text.canonical_urls import canonical_url
from beacon_site.text.cleaning import clean, one_line, shorten, uuid_of
from beacon_site.text.messages import grouped
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import next_of, redirect_back, redirect_to, signed_in
from memory.models import (
    Activity,
    ContentItem,
    LibraryDocument,
    Note,
    Observation,
    Remembered,
    Revision,
    ScratchpadEntry,
    SeenUrl,
    Source,
    Topic,
    TopicFact,
    Trust,
    User,
    origins,
)
from memory.models.actors import Actor
from memory.models.errors import InvalidValue, LimitReached, MemoryRefused
from memory.models.origins import HEURISTIC
from memory.models.remembered import TRASH_DAYS
from memory.pages.shared import filter_bar
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar, Query
from memory.pages.shared.undo import offer, undoes
from memory.services.records import kinds as record_kinds
from memory.services.records import trash as trash_listing
from memory.services.records.kinds import kind_of
from memory.services.records.trash import PAGE, selected, trashed
from memory.services.review import acts as review_acts

FEW, LATEST, MAX_RECENT = 5, 200, 8  # records per type; records searched for sources; sources


@signed_in("GET", "POST")
@vary_on_headers("HX-Request")
def forget(request: BeaconRequest) -> HttpResponse:
    """Show the records from a source; a POST moves them to Trash, with an Undo."""
    asked = str(request.POST.get("source") or request.GET.get("source") or "")
    context: dict[str, Any] = {"source": asked, "next": next_of(request)}
    if request.method == "POST":
        try:
            key, count = forget_source(request.user, asked, by=request.actor)
        except MemoryRefused as exc:
            context["problem"] = str(exc)
        else:
            message = ngettext(
                "1 record moved to Trash for 30 days.",
                "%(count)d records moved to Trash for 30 days.",
                count,
            ) % {"count": count}
            undo = offer(request, "source-deleted", key=key)
            messages.success(request, message, extra_tags=undo)
            return redirect_to(request, context["next"] or reverse("memory:notes"))
    if asked:
        context |= _deletion_preview(request, asked)
    else:
        context["recent"] = recent_sources(request.user)
    context |= _act(request)
    template = "memory/_source_forget.html" if request.htmx else "memory/source_forget.html"
    return render(request, template, context)


def _deletion_preview(request: BeaconRequest, value: str) -> dict[str, Any]:
    """Return what would be deleted, or the error in the source."""
    try:
        source = checked_source(value)
    except InvalidValue as exc:
        return {"problem": str(exc)}
    going = forget_preview(request.user, source)
    return {
        "source": source,
        "origin": origins.of(request.user, [source])[source],
        "going": going,
        "total": sum(one["count"] for one in going),
    }


def _act(request: BeaconRequest) -> dict[str, Any]:
    """Return the action of a log entry, if it can still be undone."""
    key = uuid_of(request.GET.get("act", ""))
    if key is None:
        return {}
    return {"act": key, "act_count": count_in_trash(request.user, key)}


@undoes("source-deleted", key=UUID)
def _restore_source(request: BeaconRequest, key: UUID) -> str:
    came, problems = undo_change(request.user, key, by=request.actor)
    if came or not problems:
        message = ngettext(
            "%(count)d record restored.",
            "%(count)d records restored.",
            came,
        )
        messages.success(request, message % {"count": came})
    if problems:
        params = {"count": len(problems), "why": " ".join(problems[:3])}
        message = ngettext(
            "%(count)d record is still in Trash. %(why)s",
            "%(count)d records are still in Trash. %(why)s",
            len(problems),
        )
        messages.error(request, message % params)
    return reverse("memory:notes")


# --- Trash ---

OLDER = (0, 7, 14, 21)  # days: emptying offers to delete what is older


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
def trash(request: BeaconRequest) -> HttpResponse:
    """List the matching records in Trash, latest first."""
    counts, nouns = trash_listing.counts(trashed(request.user)), record_kinds.nouns()
    total = sum(counts.values())
    facets = [
        Facet(
            "type", _("Type"), [Choice(n, str(nouns[n]), counts[n]) for n in nouns if n in counts],
            any_label=_("All"), any_count=total,
        ),
        Facet(
            "who", _("Deleted by"),
            [Choice("you", _("you")), Choice("others", _("agents, runs and maintenance"))],
            any_label=_("Anyone"),
        ),
    ]  # fmt: skip
    query = filter_bar.read(request.GET, facets)
    page = trash_listing.page(request.user, cursor=request.GET.get("cursor", ""), query=query)
    is_narrowed = trash_listing.is_narrowed(query)
    has_more = page.next_cursor is not None or "cursor" in request.GET
    matching = _count(request, query) if is_narrowed or has_more else 0
    shown = matching if is_narrowed else total
    context: dict[str, Any] = {
        "matching": matching if has_more else 0,
        "rows": page.rows,
        "next_cursor": page.next_cursor,
        "bar": FilterBar(
            reverse("memory:trash"), "trash", query,
            label=_("Search Trash"), placeholder=_("Search Trash"),
            facets=facets, count=ngettext("%(n)d item", "%(n)d items", shown) % {"n": shown},
        ),
        "total": total,
        "along": 0 if is_narrowed else trash_listing.count_trashed_with(request.user),
        "days": TRASH_DAYS,
    }  # fmt: skip
    over_htmx = request.htmx and request.htmx.target == "trash"
    return render(request, f"memory/{'_trash' if over_htmx else 'trash'}.html", context)


def _count(request: BeaconRequest, query: Query) -> int:
    """Return how many items in Trash match."""
    return sum(trash_listing.counts(trash_listing.matching_records(request.user, query)).values())


@signed_in("POST")
def trash_restore(request: BeaconRequest) -> HttpResponse:
    """Restore the selected records, or all that match, with one Undo."""
    chosen = selected(request.user, request.POST)
    if chosen is None:
        messages.info(request, _("Select at least one record to restore."))
        return redirect_back(request, reverse("memory:trash"))
    done = trash_listing.restore_chosen(request.user, chosen)
    came = len(done.revisions)
    if came:
        words = ngettext("%(n)d record restored.", "%(n)d records restored.", came) % {"n": came}
        words = " ".join([words, *done.renamed[:3]])
        undo = offer(request, "trash-restored", revisions=done.revisions)
        messages.success(request, words, extra_tags=undo)
    if stay := len(done.problems):
        words = ngettext(
            "%(n)d record is still in Trash.", "%(n)d records are still in Trash.", stay
        )
        messages.warning(request, " ".join([words % {"n": stay}, *done.reasons]))
    if done.left:
        words = ngettext(
            "%(n)d left. Restore again to continue.",
            "%(n)d left. Restore again to continue.",
            done.left,
        )
        messages.warning(request, words % {"n": done.left})
    return redirect_back(request, reverse("memory:trash"))


@undoes("trash-restored")
def _trash_again(request: BeaconRequest, revisions: list[int]) -> str:
    """Move to Trash again what one action restored."""
    done = trash_listing.undo_change(request.user, revisions)
    if not done.done:
        raise MemoryRefused(done.why or _("Nothing was changed."))
    words = ngettext(
        "%(n)d record moved back to Trash.", "%(n)d records moved back to Trash.", done.done
    ) % {"n": done.done}
    level = messages.WARNING if done.problems else messages.SUCCESS
    messages.add_message(request, level, " ".join([words, *done.reasons]))
    return reverse("memory:trash")


@signed_in("GET", "POST")
def trash_empty(request: BeaconRequest) -> HttpResponse:
    """Permanently delete all, the selected or the older records in Trash, once the word is typed."""
    chosen, problem = selected(request.user, request.POST), ""
    asked = request.POST.get("older", "")
    older = int(asked) if asked in map(str, OLDER) else 0
    if "ask" in request.POST and chosen is None:
        messages.info(request, _("Select at least one record to delete."))
        return redirect_back(request, reverse("memory:trash"))
    if request.method == "POST" and "ask" not in request.POST:
        typed = request.POST.get("word", "")
        try:
            done = trash_listing.empty(
                chosen or trashed(request.user), typed=typed, by=request.actor, older_than=older
            )
        except InvalidValue as exc:
            problem = str(exc)
        else:
            _report_emptied(request, done)
            return redirect_to(request, reverse("memory:trash"))
    context = _emptying(request) | {"problem": problem, "older": older}
    template = "_trash_empty" if request.htmx else "trash_empty"
    return render(request, f"memory/{template}.html", context)


def _emptying(request: BeaconRequest) -> dict[str, Any]:
    """Return the page's summary of what would be deleted."""
    selection, nouns = selected(request.user, request.POST), record_kinds.nouns()
    chosen = list(selection) if selection is not None else None
    counts = trash_listing.counts(trashed(request.user) if chosen is None else chosen)
    return {
        "kinds": [(nouns[name], number) for name, number in counts.items()],
        "total": sum(counts.values()),
        "is_chosen": chosen is not None,
        "names": trash_listing.labels(request.user, chosen, FEW) if chosen else [],
        "keys": [] if "all" in request.POST else request.POST.getlist("record")[:PAGE],
        "word": trash_listing.word(),
        "typed": request.POST.get("word", ""),
        "ages": OLDER,
    }


def _report_emptied(request: BeaconRequest, done: Counter[str]) -> None:
    words = ngettext(
        "%(n)d record deleted permanently.", "%(n)d records deleted permanently.", done["gone"]
    ) % {"n": done["gone"]}
    if done["left"]:
        more = ngettext(
            "%(n)d record is left. Empty Trash again.",
            "%(n)d records are left. Empty Trash again.",
            done["left"],
        )
        words += " " + more % {"n": done["left"]}
    if done["kept"]:
        more = ngettext(
            "%(n)d record is still in Trash because a record outside Trash depends on it.",
            "%(n)d records are still in Trash because records outside Trash depend on them.",
            done["kept"],
        )
        words += " " + more % {"n": done["kept"]}
    level = messages.WARNING if done["left"] or done["kept"] else messages.SUCCESS
    messages.add_message(request, level, words)


# --- deleting everything from one source ---


MAX = 5_000  # records in one action; more would take too long for one request
MAX_LENGTH = 200  # characters of a source
BATCH = 500
_DOMAIN = re.compile(r"(?!.*\.\.)[\w-]+(?:\.[\w-]+)+", re.UNICODE)
_TYPES: tuple[type[Remembered], ...] = (
    Note, Observation, TopicFact, ScratchpadEntry, ContentItem, LibraryDocument,
)  # fmt: skip


def checked_source(text: str) -> str:
    """Return the normalized source.  Raises InvalidValue if it's empty or too long."""
    source = one_line(clean(text)[0]).removesuffix(HEURISTIC)
    if not source:
        raise InvalidValue(_("Enter a source, such as run:12, session:…, import:… or example.org."))
    if len(source) > MAX_LENGTH:
        params = {"most": MAX_LENGTH, "have": len(source)}
        problem = _("A source can have at most %(most)d characters, but this one has %(have)d.")
        raise InvalidValue(problem % params)
    return source


def from_source(owner: User, source: str) -> list[QuerySet[Any]]:
    """Return the records from `source` outside Trash, one queryset per type."""
    results: list[QuerySet[Any]] = []
    for model in _TYPES:
        rows = model.objects.for_user(owner).live().filter(_came_from(model, source))
        if model is Note:
            rows = rows.exclude(pk__in=Note.objects.for_user(owner).current_identity().values("pk"))
        if model is LibraryDocument:
            rows = rows.filter(path="")  # the files of the watched folder are on disk
        if model is TopicFact:
            rows = rows.exclude(state=TopicFact.State.STRUCK).filter(topic__trashed_at=None)
        results.append(rows)
    return results


def _came_from(model: type[Remembered], source: str) -> Q:
    domain = source.removeprefix("domain:").casefold().removeprefix("www.")
    if _DOMAIN.fullmatch(domain) and ":" not in domain:
        named = Q(source=f"domain:{domain}")
        at = Q(url__iregex=rf"^https?://([^/?#]*\.)?{re.escape(domain)}(:\d+)?([/?#]|$)")
        if model is ContentItem:
            return named | at
        return at if model is TopicFact else named
    came = Q(source__in=[source, source + HEURISTIC])
    if ":" not in source:  # only an app's or run's scope; the owner's scope isn't a source
        return came
    if model is ContentItem:
        inside = Q(scope__startswith=f"{source}/") | Q(run_step__startswith=f"{source}/")
        return came | Q(scope=source) | Q(run_step=source) | inside
    return came | Q(scope=source) if model is ScratchpadEntry else came


def forget_preview(owner: User, source: str) -> list[dict[str, Any]]:
    """Return what `forget_source` would move to Trash, by type: at most two queries for each.

    `by_hand` is how many of the records a person edited, and `first` are the newest ones.
    """
    going: list[dict[str, Any]] = []
    for rows in from_source(owner, source):
        by_hand = Count("pk", filter=_touched(rows.model))
        counted = rows.order_by().aggregate(count=Count("pk"), by_hand=by_hand)
        if counted["count"]:
            name = rows.model.record_type()
            going.append({"noun": str(kind_of(name).noun), **counted, "first": _newest(rows, name)})
    if waiting := review_acts.waiting_from(owner, source).order_by().count():
        going.append({"noun": _("pending proposals"), "count": waiting, "by_hand": 0, "first": []})
    for one in going:
        one["more"] = one["count"] - len(one["first"]) if one["first"] else 0
    return going


def _newest(rows: QuerySet[Any], name: str) -> list[tuple[str, str]]:
    """Return the text and the page of the newest records."""
    if rows.model is ContentItem:
        rows = rows.defer("content")  # it can have megabytes
    return [
        (
            shorten(one_line(one.title if rows.model is ContentItem else str(one)), 120),
            reverse("memory:record-open", args=[name, one.pk]),
        )
        for one in rows.order_by("-created")[:FEW]
    ]


def recent_sources(owner: User) -> list[tuple[str, str]]:
    """Return the latest sources of observations and notes, with their names: three queries."""
    found: dict[str, None] = {}
    for model in (Observation, Note):
        rows = (
            model.objects.for_user(owner)
            .live()
            .order_by("-created")
            .values_list("source", flat=True)
        )
        found |= dict.fromkeys(text.removesuffix(HEURISTIC) for text in rows[:LATEST])
    names = [text for text in found if text and not text.startswith("human:")][:MAX_RECENT]
    told = origins.of(owner, names)
    return [(text, told[text].words if text in told else text) for text in names]


def _touched(model: type[Remembered]) -> Q:
    touched = Q(pinned=True)
    if model in (Note, TopicFact):
        touched |= Q(edited_by_person=True)
    if model in (ContentItem, LibraryDocument):
        touched |= Q(trust=Trust.OWNER)
    return touched


def forget_source(owner: User, source: str, *, by: Actor) -> tuple[uuid.UUID, int]:
    """Move everything from `source` to Trash; return the action's key and the number of records.

    One transaction. Raises InvalidValue if there is nothing, LimitReached beyond MAX.
    """
    source, key, count = checked_source(source), uuid.uuid4(), 0
    why = _("everything from %(source)s was deleted") % {"source": source}
    with transaction.atomic():
        for rows in from_source(owner, source):
            for batch in _batches(rows):
                count += len(batch)
                _check_count(count, source)
                fields = {"trashed_at": timezone.now()}
                pairs = [(record, fields) for record in batch]
                rows.model.change_many(pairs, by=by, why=why, source=f"forget:{key}")
                _update_topic_copies(batch)
        count += review_acts.reject_from(owner, source, by=by, why=f"forget:{key}")
        if not count:
            problem = _("There are no records from “%(source)s”, or they’re already in Trash.")
            raise InvalidValue(problem % {"source": source})
        Activity.log(owner, by, "forgot-source", label=source, records=count, key=str(key))
    return key, count


def _check_count(count: int, source: str) -> None:
    if count > MAX:
        raise LimitReached(
            _(
                "“%(source)s” has more than %(most)s records, which is too many to delete at once. Nothing was changed. Instead, search Notes and Observations for source:%(source)s, select all matches and move them to Trash."
            )
            % {"most": grouped(MAX), "source": source}
        )


def _batches(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Yield the records in batches, with their rows locked; one more than the limit is enough to
    know.
    """
    ids = list(rows.order_by("pk").values_list("pk", flat=True)[: MAX + 1])
    for at in range(0, len(ids), BATCH):
        yield _locked_rows(rows.model, ids[at : at + BATCH], trashed_at=None)


def _locked_rows(model: type[Remembered], ids: Sequence[Any], **more: Any) -> list[Any]:
    """Return the rows, locked until the transaction ends; a content item without its 8 MiB."""
    rows = model._default_manager.filter(pk__in=ids, **more).order_by("pk")
    if model is ContentItem:
        rows = rows.defer("content")
    return list(rows.select_for_update(of=("self",), no_key=True))


def _update_topic_copies(batch: Sequence[Any]) -> None:
    for owner_id, topic_id in {
        (fact.owner_id, fact.topic_id) for fact in batch if isinstance(fact, TopicFact)
    }:
        Topic.notify_changed(owner_id, topic_id)


def count_in_trash(owner: User, key: uuid.UUID) -> int:
    """Return how many records of the action `key` are still in Trash, or rejected."""
    rows = Revision.objects.for_user(owner).filter(source=f"forget:{key}")
    rejected: int = review_acts.rejected_for(owner, f"forget:{key}").count()
    return rejected + sum(
        model.objects.for_user(owner).in_trash().filter(pk__in=ids).count()
        for model in _TYPES
        if (ids := _ids(rows, model))
    )


def _ids(told: Any, model: type[Remembered]) -> list[Any]:
    of_type = told.filter(record_type=model.record_type())
    return list(of_type.order_by().values_list("record_id", flat=True)[: MAX + 1])


def undo_change(owner: User, key: uuid.UUID, *, by: Actor) -> tuple[int, list[str]]:
    """Restore what the action `key` deleted, except what has changed since.

    Returns how many were restored, and why others couldn't be.
    """
    source = f"forget:{key}"
    came, refused = 0, []
    with transaction.atomic():
        told = Revision.objects.for_user(owner).filter(source=source)
        for model in _TYPES:
            of_type = told.filter(record_type=model.record_type())
            versions = dict(of_type.values_list("record_id", "version"))
            rows = model.objects.for_user(owner).in_trash().filter(pk__in=list(versions))
            held = _locked_rows(
                model, list(rows.values_list("pk", flat=True)), trashed_at__isnull=False
            )
            untouched = [one for one in held if one.version == versions[one.pk]]
            back, problems = _restored(model, untouched, by=by)
            came += back
            refused += problems
        came += review_acts.restore_state_for(owner, source, by=by)
    return came, refused


def _restored(
    model: type[Remembered], records: Sequence[Any], *, by: Actor
) -> tuple[int, list[str]]:
    """Restore records together if possible, else one by one by their own rules."""
    if model is not TopicFact:
        try:
            with transaction.atomic():
                for at in range(0, len(records), BATCH):
                    pairs = [(one, {"trashed_at": None}) for one in records[at : at + BATCH]]
                    model.change_many(pairs, by=by, why=_("the deletion was undone"))
        except IntegrityError:
            # A record with the same name or text was written since: the others are
            # restored.
            records = list(model.objects.filter(pk__in=[one.pk for one in records]).in_trash())
        else:
            return len(records), []
    came, problems = 0, []
    for record in records:
        try:
            with transaction.atomic():
                kind_of(record.record_type()).restore(record, by)
            came += 1
        except (MemoryRefused, IntegrityError) as exc:
            text = (
                str(exc)
                if isinstance(exc, MemoryRefused)
                else _("an identical record already exists")
            )
            problems.append(_("“%(record)s”: %(why)s") % {"record": record, "why": text})
    return came, problems


# --- seen URLs ---

KIND = "url-forgotten"
_DATES = ("published_at",)
_MOMENTS = ("returned_at", "first_at", "last_at")


def forget_url(topic: Topic, url: str, *, by: Actor) -> Activity:
    """Remove a URL from those the topic has seen; return the log entry that can restore it.

    Raises InvalidValue if the topic hasn't seen it.
    """
    url = canonical_url(clean(url)[0])
    with transaction.atomic():
        Topic.objects.select_for_update().get(pk=topic.pk)
        kept = {model.__name__: _delete_row(model, topic, url) for model in (SeenUrl, Source)}
        if not any(kept.values()):
            raise InvalidValue(_("This topic hasn’t seen this URL, or no longer lists it."))
        line = Activity.log(topic.owner, by, KIND, subject=topic, label=url, url=url, rows=kept)
        Topic.notify_changed(topic.owner_id, topic.pk)
    return line


def remember_url(topic: Topic, line_id: int, *, by: Actor) -> str:
    """Undo `forget_url`; return the URL.

    A URL that a run has found again stays as it is.  Raises InvalidValue if there is no such
    entry.
    """
    with transaction.atomic():
        Topic.objects.select_for_update().get(pk=topic.pk)
        line = (
            Activity.objects.for_user(topic.owner)
            .filter(pk=line_id, kind=KIND, topic=topic)
            .first()
        )
        if line is None or not line.detail.get("rows"):
            raise InvalidValue(_("This can no longer be undone."))
        url = str(line.detail["url"])
        for model in (SeenUrl, Source):
            row = line.detail["rows"].get(model.__name__)
            if row and not model.objects.filter(topic=topic, url=url).exists():
                model.objects.create(topic=topic, **_read(row))
        Activity.log(topic.owner, by, "url-remembered", subject=topic, label=url)
        Topic.notify_changed(topic.owner_id, topic.pk)
    return url


def _delete_row(
    model: type[SeenUrl] | type[Source], topic: Topic, url: str
) -> dict[str, Any] | None:
    row = model.objects.filter(topic=topic, url=url).first()
    if row is None:
        return None
    fields = model_to_dict(row)
    row.delete()
    return {name: value for name, value in fields.items() if name not in ("id", "topic")}


def _read(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's values from the log's JSON."""
    read = dict(row)
    for name in _DATES:
        if read.get(name):
            read[name] = parse_date(str(read[name]))
    for name in _MOMENTS:
        if read.get(name):
            read[name] = parse_datetime(str(read[name]))
    return read
