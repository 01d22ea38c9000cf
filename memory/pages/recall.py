"""Memory: one list of everything that is remembered, by day, or by best match with a search."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from functools import cache, cached_property
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.db.models import Count
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.vary import vary_on_headers

from beacon_site.db.keyset import cursor_of, keyset
from beacon_site.text.cleaning import choice_param, csv_lines, flat, number_of, one_line, text_param
from beacon_site.text.markdown import by_direction
from beacon_site.text.markdown import render as render_markdown
from beacon_site.web.http import BeaconRequest
from beacon_site.web.responses import get_owned_or_404, redirect_back, signed_in
from memory.models import (
    Conflict,
    MemoryFile,
    Note,
    Revision,
    Trust,
    Use,
    User,
    as_of,
    origins,
)
from memory.models.errors import InvalidValue, MemoryRefused
from memory.models.file_format import MOUNTED
from memory.models.history import NO_USER, Statement, counted, counting
from memory.models.remembered import address
from memory.pages.agents import topics_of
from memory.pages.ratings import RatingControl, control_of
from memory.pages.records import bulk, saved_views
from memory.pages.records import record as record_page
from memory.pages.records.listing import PAGES, clipped, day_of
from memory.pages.records.record import Mark, list_of, mark_of
from memory.pages.shared import filter_bar
from memory.pages.shared.as_of import at_a_date
from memory.pages.shared.filter_bar import Choice, Facet, FilterBar, Query, first_day
from memory.services import topic_memory
from memory.services.search import related
from memory.services.search.bm25_sql import language_of
from memory.services.search.kinds import KINDS
from memory.services.search.query import MAX_TEXT
from memory.services.search.recall import MODES, RecallHit, RecallOptions, RecallPage, recall_page
from memory.services.search.snippets import marked, opening, passage

STEP, MAX = 30, 200  # results at first and per "more", and the limit
PAGE = 50  # rows of the list without a search
WHOLE = 8_000  # characters in the panel; the page shows all
LINE = 220  # characters of a row, which shows as much as fits in one line
MAX_COUNTED = 10_000  # a tab with more says "10,000+", because counting them takes time
MAX_DISPUTED = 6  # contradicting rows above the list; the Inbox has all
MODE_WORDS = {
    "auto": gettext_lazy("auto: words and meaning"),
    "lexical": gettext_lazy("lexical: words, authors, tags, topic"),
    "exact": gettext_lazy("exact: keyword match (BM25)"),
}
_KIND_WORDS = {
    "finding": gettext_lazy("finding"), "insight": gettext_lazy("insight"), "lesson": gettext_lazy("lesson"),
    "log": gettext_lazy("log"), "summary": gettext_lazy("summary"), "rule": gettext_lazy("rule"),
    "soul": gettext_lazy("soul"), "agent": gettext_lazy("persona"), "user": gettext_lazy("Profile"),
    "fact": gettext_lazy("fact"), "report": gettext_lazy("report"),
    "section": gettext_lazy("file"), "file": gettext_lazy("file"),
}  # fmt: skip
LANE_WORDS = {"words": gettext_lazy("words"), "meaning": gettext_lazy("meaning")}
# The filters of the chips: label, and arguments of recall.
SHOWS: dict[str, tuple[str | Promise, RecallOptions]] = {
    "finding": (gettext_lazy("Findings"), {"types": ["observation"], "categories": ["finding"]}),
    "insight": (gettext_lazy("Insights"), {"types": ["observation"], "categories": ["insight"]}),
    "lesson": (gettext_lazy("Lessons"), {"types": ["observation"], "categories": ["lesson"]}),
    "note": (gettext_lazy("Notes"), {"types": ["note"]}),
    "rule": (gettext_lazy("Rules"), {"types": ["note"], "kinds": ["rule"]}),
    "summary": (gettext_lazy("Summaries"), {"types": ["note"], "kinds": ["summary"]}),
    "fact": (gettext_lazy("Topic facts"), {"types": ["fact"]}),
    "report": (gettext_lazy("Reports"), {"types": ["report"]}),
}


def _search_words(query: Query) -> str:
    # One more than recall accepts, so that recall itself reports the cut.
    return query.get("q", "").strip()[: MAX_TEXT + 1]


def _mode(query: Query) -> str:
    return choice_param(query, "mode", MODES, "auto")


def is_asked(query: Query) -> bool:
    """Return True if the page's URL has words or a filter."""
    days = first_day(query), first_day(query, "to")
    return bool(_search_words(query) or text_param(query, "topic") or any(days)) or (
        query.get("show") in SHOWS
    )


def _how(query: Query, limit: int) -> RecallOptions:
    """Return the arguments of recall, including the number of results."""
    show = choice_param(query, "show", SHOWS)
    how = RecallOptions(**SHOWS[show][1]) if show else RecallOptions()
    how["limit"] = limit
    if topic := text_param(query, "topic", 100):
        how["topic"] = topic
    zone = timezone.get_current_timezone()
    if first := first_day(query):
        how["after"] = datetime.combine(first, time(), zone)
    if (last := first_day(query, "to")) and last < date.max:
        how["before"] = datetime.combine(last + timedelta(days=1), time(), zone)
    return how


def _limit(text: str) -> int:
    """Return the requested number of results."""
    number = number_of(text)
    return STEP if number is None else min(max(number, 1), MAX)


@dataclass
class MemoryRow:
    """One memory as a row: a mark for who it's from, a line of text, its kind, who, and when."""

    type: str
    record: Any
    category: str
    said: SafeString
    at: datetime
    url: str
    mark: Mark
    label: str = ""  # a short name for the label of its checkbox
    origin: origins.Origin | None = None
    place: str = ""  # the file of a section
    path: str = ""  # of a file whose line is its summary
    why: str = ""  # what it contradicts
    is_update: bool = False  # of the other in its pair
    pair_url: str = ""  # the first of two that contradict each other: where to decide
    note: str = ""  # a second line
    hit: RecallHit | None = None
    uses: int = 0
    retrievers: list[dict[str, Any]] = field(default_factory=list)
    stale: str = ""  # for a fact not checked recently: how long ago
    rating: RatingControl | None = None

    @property
    def id(self) -> str:
        return f"memory-{self.record.pk}"

    @property
    def is_selectable(self) -> bool:
        """Return True if bulk actions can change it: a note or an observation."""
        return self.type in ("note", "observation")

    @property
    def panel_url(self) -> str:
        return address("memory:memory-panel", self.record.pk, self.type)

    @cached_property
    def kind(self) -> str:
        """Return the kind of record for people."""
        name = self.category or self.type
        return str(_KIND_WORDS.get(name, name))

    @property
    def state(self) -> tuple[str, str] | None:
        """Return the text and the class of its tag, if something about it is out of the ordinary."""
        if self.why:
            return self.why, "warn" if self.is_update else "contra"
        if self.record.trust == Trust.QUARANTINED:
            return _("quarantined"), "bad"
        if getattr(self.record, "paused", False):
            return _("paused"), "warn"
        if self.hit is not None and self.hit.later_finding:
            return _("changed since then"), "warn"
        if self.stale:
            return _("stale"), "warn"
        if self.hit is not None and self.hit.replaces:
            return _("replaces an older record"), "info"
        return None

    @cached_property
    def who(self) -> str:
        """Return who wrote it: you, the name of an agent, a run with its topic, or a file."""
        if self.place or self.origin is None:
            return self.place
        if self.path:
            return self.path
        return capfirst(self.origin.in_row)

    @property
    def checked_at(self) -> datetime | None:
        """Return when it was last confirmed or corrected, if that was after it was written."""
        at: datetime = getattr(self.record, "confirmed_at", None) or self.record.updated
        return at if at - self.record.created > timedelta(minutes=1) else None


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The results of a search, and the notices about it."""

    rows: list[MemoryRow]
    notices: list[str]
    milliseconds: int
    stems: Sequence[str]
    more: int = 0  # the next number of results to ask for; 0 if there are no more
    next_cursor: str | None = None  # of the list without a search
    is_ranked: bool = False
    is_semantic: bool = False  # whether similarity in meaning counts


def search_results(user: User, query: Query) -> SearchResults:
    """Return the results as rows; a rejected query becomes a notice, never an error."""
    mode, limit = _mode(query), _limit(query.get("limit", ""))
    try:
        page = recall_page(user, _search_words(query), mode, **_how(query, min(limit + 1, MAX)))
    except InvalidValue as exc:
        return SearchResults([], [str(exc)], 0, ())
    hits = page.hits[:limit]
    more = min(limit + STEP, MAX) if len(page.hits) > limit else 0
    return SearchResults(
        _found_rows(user, hits, page, mode),
        page.notices,
        round(page.milliseconds),
        page.stems,
        more,
        is_ranked=bool(page.question.has_words),
        is_semantic=any("meaning" in hit.retrievers for hit in hits),
    )


def _found_rows(
    user: User, hits: Sequence[RecallHit], page: RecallPage, mode: str
) -> list[MemoryRow]:
    uses = _uses(hits)
    query = " ".join([page.question.words, *page.question.phrases])
    language = language_of(user)
    stale = topic_memory.stale_days([hit.record for hit in hits if hit.type == "fact"])
    rows = rows_of(user, [(hit.type, hit.record) for hit in hits], query, language)
    for row, hit in zip(rows, hits, strict=True):
        row.hit, row.uses = hit, uses.get(hit.id, 0)
        row.rating = control_of(page.question.words, mode, hit)
        row.stale = topic_memory.age_label(stale[hit.id]) if hit.id in stale else ""
        row.retrievers = [
            {
                "name": LANE_WORDS.get(name, name),
                "raw": retriever.raw,
                "percent": round(100 * retriever.score),
                "rank": retriever.rank,
            }
            for name, retriever in hit.retrievers.items()
        ]
    return rows


def rows_of(
    user: User, records: Sequence[tuple[str, Any]], query: str = "", language: str = ""
) -> list[MemoryRow]:
    """Return the records as rows: a fixed number of queries."""
    language = language or language_of(user)
    keys = [record.pk for _type, record in records if not isinstance(record, MemoryFile)]
    first = Revision.objects.for_user(user).filter(record_id__in=keys, version=1).order_by("id")
    writers = dict(first.values_list("record_id", "actor"))
    if files := [record.pk for name, record in records if name == "file"]:
        last = (
            Revision.objects.for_user(user).filter(record_id__in=files).order_by("record_id", "-id")
        )
        writers |= dict(last.distinct("record_id").values_list("record_id", "actor"))
    sources = {record.source for _type, record in records}
    places = origins.of(user, sources | set(writers.values()))
    rows = []
    for name, record in records:
        record.owner = user
        writer = writers.get(record.pk, "")
        row = _row(name, record, query, language, writer)
        is_by_writer = name == "file" or writer.startswith("agent:") or record.source == "explicit"
        row.origin = places.get(writer if is_by_writer else record.source)
        rows.append(row)
    return rows


def _row(name: str, record: Any, query: str, language: str, writer: str) -> MemoryRow:
    if name == "file":
        line = marked((record.summary or record.path)[:LINE], query, language)
        mark, url = mark_of(record, writer), record.get_absolute_url()
        return MemoryRow(
            name,
            record,
            "",
            line,
            record.updated,
            url,
            mark,
            path=record.path if record.summary else "",
        )
    kind = KINDS[name]
    text = kind.content(record) if query else opening(kind.content(record))
    shown = passage(text, query, LINE, language)
    line, label = marked(shown, query, language), clipped(shown, 60)
    at = record.file.updated if name == "section" else record.created
    mark = mark_of(record, writer)
    row = MemoryRow(name, record, kind.category(record), line, at, kind.url(record), mark, label)
    if name == "section":
        row.place = record.file.path
    return row


# --- without a search ---

# The kinds of the whole list, and the field by which each is sorted.
_LISTED = {"note": "created", "observation": "created", "fact": "created", "file": "updated"}


def _listed_rows(user: Any, name: str) -> Any:
    if name == "file":
        return MemoryFile.objects.for_user(user).live().filter(version__gt=0)
    rows = KINDS[name].rows(user, as_of.now())
    return rows.filter(state="current") if name == "fact" else rows


def everything(user: User, cursor: str = "") -> SearchResults:
    """Return a page of everything that is remembered, newest first: one query for each kind."""
    results: list[tuple[datetime, Any, str, Any]] = []
    for name, by in _LISTED.items():
        behind = keyset(_listed_rows(user, name), by=by, falling=True, cursor=cursor)
        some = behind.order_by(f"-{by}", "-pk")[: PAGE + 1]
        results += [(getattr(one, by), one.pk, name, one) for one in some]
    results.sort(key=lambda one: one[:2], reverse=True)
    shown = results[:PAGE]
    after = cursor_of(*shown[-1][:2]) if len(results) > PAGE else None
    rows = rows_of(user, [(name, record) for _at, _pk, name, record in shown])
    return SearchResults(rows, [], 0, (), next_cursor=after)


def counts_of(user: User) -> dict[str, float]:
    """Return the number of memories of each kind in the list, up to MAX_COUNTED + 1: one query."""
    return counted(_counting(), user.pk)


@cache
def _counting() -> Statement:
    # The list of files leaves out those of mounted folders, which are under Agents.
    own = MemoryFile.objects.for_user(NO_USER).live().exclude(path__startswith=MOUNTED)
    parts = {name: _listed_rows(NO_USER, name) for name in _LISTED} | {"listed-file": own}
    return counting((name, rows, MAX_COUNTED + 1) for name, rows in parts.items())


# --- groups ---


def groups_of(
    user: User, found: SearchResults, *, is_first: bool, is_searched: bool
) -> list[dict[str, Any]]:
    """Return the rows by day, or by best match; what contradicts each other comes first.

    Without a search, the latest contradictions are shown. With one, those among the results.
    """
    pairs = Conflict.objects.for_user(user).standing().filter(kind=Conflict.Kind.CONTRADICTION)
    pairs = pairs.filter(lines=[])  # a file isn't a row of the list
    rows = {row.record.pk: row for row in found.rows}
    if is_searched:
        pairs = pairs.about(rows)
    latest = list(pairs.order_by("-created", "pk")[: 2 * MAX_DISPUTED]) if is_first else []
    disputed = _disputed(user, latest, rows)
    top = {row.record.pk for row in disputed["rows"]}
    days: dict[str, list[MemoryRow]] = {}
    for row in found.rows:
        if row.record.pk not in top:
            title = _("Best match") if found.is_ranked else day_of(row.at)
            days.setdefault(title, []).append(row)
    groups = [disputed] if top else []
    return groups + [{"title": title, "rows": some} for title, some in days.items()]


def _disputed(
    user: User, pairs: Sequence[Conflict], known: Mapping[Any, MemoryRow]
) -> dict[str, Any]:
    """Return the rows of the pairs, side by side; a row that is in the list already is reused.

    `more` is the number of other rows that are in such a pair.
    """
    names = {"note": "note", "observation": "observation", "topicfact": "fact"}
    groups: dict[Any, tuple[str, str]] = {}
    updates, pair_urls = set(), {}
    for one in pairs:
        if one.reason == Conflict.Reason.REPLACES:
            updates |= {one.left_id, one.right_id}
        if not {one.left_id, one.right_id} & {*groups}:
            pair_urls[one.left_id] = one.get_absolute_url()
        sides = [(one.left_id, one.left_type), (one.right_id, one.right_type)]
        if len({*groups, one.left_id, one.right_id}) <= MAX_DISPUTED:
            groups |= {
                key: (names[kind], one.get_reason_display())
                for key, kind in sides
                if key not in groups
            }
    missing: list[tuple[str, Any]] = []
    for name in names.values():
        keys = [key for key, (kind, _why) in groups.items() if kind == name and key not in known]
        if keys:
            kept = _listed_rows(user, name).filter(pk__in=keys)
            missing += [(name, one) for one in kept]
    rows = dict(known) | {row.record.pk: row for row in (rows_of(user, missing) if missing else [])}
    shown = []
    for key, (_kind, why) in groups.items():
        if key in rows:
            rows[key].why = why or _("contradiction")
            rows[key].is_update = key in updates
            rows[key].pair_url = pair_urls.get(key, "")
            shown.append(rows[key])
    keys_of_all = {key for one in pairs for key in (one.left_id, one.right_id)}
    return {
        "title": _("These contradict each other"),
        "rows": shown,
        "is_disputed": True,
        "more": len(keys_of_all - {row.record.pk for row in shown}),
    }


def _uses(hits: Iterable[RecallHit]) -> dict[Any, int]:
    rows = Use.objects.filter(record_id__in=[hit.id for hit in hits]).order_by()
    uses = rows.values("record_id").annotate(number=Count("id"))
    return {row["record_id"]: row["number"] for row in uses}


def examples() -> list[tuple[str, str, str]]:
    """Return example searches that teach the operators: each query with an explanation."""
    taught = (
        ("battery prices", _("words in any form, in any order")),
        ('"pilot line"', _("an exact phrase")),
        ("category:lesson", _("lessons, newest first (no search words needed)")),
        ("kind:rule after:2026-01-01", _("rules created since a given date")),
        ("tag:energy -source:import:*", _("items with a tag, except imported ones")),
        ("is:pinned", _("pinned items (also paused, locked, edited, used, unused…)")),
    )
    return [(question, urlencode({"q": question}), words) for question, words in taught]


# --- results as files ---

FIELDS = ("type", "category", "score", "title", "content", "source", "created_at", "id", "url")


def as_csv(hits: Iterable[RecallHit]) -> str:
    return "".join(csv_lines(FIELDS, map(_plain, hits)))


def as_json(hits: Iterable[RecallHit]) -> str:
    """Return results as JSON, with the scores of each retriever."""
    return json.dumps([_plain(hit) for hit in hits], ensure_ascii=False, indent=2) + "\n"


def _plain(hit: RecallHit) -> dict[str, Any]:
    retrievers = {
        name: {"raw": retriever.raw, "score": retriever.score, "rank": retriever.rank}
        for name, retriever in hit.retrievers.items()
    }
    return {
        "id": str(hit.id),
        "type": hit.type,
        "category": hit.category,
        "score": round(hit.score, 6),
        "title": hit.title,
        "content": hit.content,
        "created_at": hit.created_at.isoformat(),
        "source": hit.source,
        "url": hit.url,
        "retrievers": retrievers,
        "explanation": {
            "retrievers": list(hit.explanation.retrievers),
            "matched_terms": list(hit.explanation.matched_terms),
            "ranks": hit.explanation.ranks,
            "boosts": list(hit.explanation.boosts),
        },
        "replaces": [str(key) for key in hit.replaces],
        "later_finding": hit.later_finding,
    }


FILES = {
    "hits.csv": ("text/csv; charset=utf-8; header=present", as_csv),
    "hits.json": ("application/json", as_json),
}


def hits_of(user: User, query: Query) -> list[RecallHit]:
    """Return all results that a file contains.  Raises InvalidValue if recall rejects the query."""
    return recall_page(user, _search_words(query), _mode(query), **_how(query, MAX)).hits


# --- pages ---


def _facets(user: User) -> list[Facet]:
    """Return what memory can be filtered by. Trust and state are operators of the search."""
    trust = [Choice(*choice) for choice in Trust.choices]
    states = {
        "pinned": _("pinned"), "edited": _("edited by a person"), "unused": _("never used"),
        "expiring": _("expiring"), "expired": _("expired"), "superseded": _("replaced"),
        "paused": _("paused"),
    }  # fmt: skip
    modes = [Choice(name, words) for name, words in MODE_WORDS.items() if name != "auto"]
    topics = [Choice(slug, one_line(title)[:60]) for slug, title in topics_of(user)]
    return [
        Facet("show", _("Type"), [Choice(name, words) for name, (words, _how) in SHOWS.items()], any_label=_("All")),
        Facet("is", _("State"), [Choice(*one) for one in states.items()], operator="is"),
        Facet("trust", _("Trust"), trust, operator="trust"),
        filter_bar.day_facet(),
        *([Facet("topic", _("Topic"), topics)] if topics else []),
        Facet("mode", _("Search by"), modes, any_label=MODE_WORDS["auto"]),
    ]  # fmt: skip


def _counted(results: SearchResults) -> str:
    """Return how many results are listed."""
    number = len(results.rows)
    if results.more:
        return _("top %(n)d results") % {"n": number}
    return ngettext("%(n)d result", "%(n)d results", number) % {"n": number}


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request")
@at_a_date
def recall(request: BeaconRequest) -> HttpResponse:
    """List everything that is remembered, or search it; a person's search doesn't count as a use."""
    facets = _facets(request.user)
    query = filter_bar.read(request.GET, facets)
    query.pop("why", None)  # not a filter, so saved views don't keep it
    is_search = is_asked(query)
    cursor = request.GET.get("cursor", "")
    results = search_results(request.user, query) if is_search else everything(request.user, cursor)
    bar = FilterBar(
        reverse("memory:recall"), "recall", query,
        label=_("Search memory"), placeholder=_("Search memory"),
        facets=facets, sorts={}, views_page="recall", has_operators=True, most=MAX_TEXT,
        views=saved_views.views_of(request.user, "recall", query.urlencode()),
        count=_counted(results) if is_search else "",
    )  # fmt: skip
    context: dict[str, Any] = {
        "is_asked": is_search,
        "found": results,
        "groups": groups_of(request.user, results, is_first=not cursor, is_searched=is_search),
        "next_cursor": results.next_cursor,
        "explains": is_search and bool(request.GET.get("why")),
        "bar": bar,
        "filters": bar.state,
        "here": request.get_full_path(),
        # The files of facts, and the soul, agent and user notes, exist from the beginning.
        "is_fresh": not is_search
        and not cursor
        and all(row.type == "file" or row.category in Note.IDENTITY for row in results.rows),
    }
    if request.htmx and request.htmx.target == "recall":
        return render(request, "memory/_recall.html", context)
    context["examples"] = examples()
    return render(request, "memory/recall.html", context)


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
@at_a_date
def memory_panel(request: BeaconRequest, type: str, pk: UUID) -> HttpResponse:
    """Show a memory beside the list; without htmx, redirect to its page."""
    if type not in KINDS and type != "file":
        raise Http404
    rows = _listed_rows(request.user, type) if type == "file" else None
    rows = KINDS[type].rows(request.user, as_of.now()) if rows is None else rows
    row = get_object_or_404(rows, pk=pk)
    [shown] = rows_of(request.user, [(type, row)])
    if not request.htmx:
        return redirect(shown.url)
    if type in record_page.TYPES:
        page = record_page.page_of(row)
        context = {"page": page, "record": row, "in_panel": True, "here": list_of(request)}
        return render(request, "memory/_record_panel.html", context)
    uses = (
        Use.objects.for_user(request.user)
        .filter(record_id=pk)
        .order_by("-used_at", "-id")[: record_page.FEW_USES]
    )
    places = origins.of(request.user, [use.place for use in uses])
    text = row.content if type == "file" else KINDS[type].content(row)
    context = {
        "row": shown,
        "record": row,
        "html": by_direction(render_markdown(text[:WHOLE])),
        "is_cut": len(text) > WHOLE,
        "uses": [(places[use.place], use.used_at) for use in uses],
        "pairs": record_page.pairs_of(row) if type == "fact" else [],
        "here": list_of(request),
    }
    return render(request, "memory/_memory_panel.html", context)


@signed_in("POST")
def memory_bulk(request: BeaconRequest) -> HttpResponse:
    """Apply an action to the selected notes and observations."""
    ids = bulk.selected(request)
    act = request.POST.get("act", "")
    done = False
    for listed in PAGES.values():
        mine = listed.model.objects.for_user(request.user).filter(pk__in=ids)
        keys = [str(key) for key in mine.values_list("pk", flat=True)]
        if not keys:
            continue
        done = True
        try:
            asked = bulk.ask(request.user, listed.page, act, ids=keys, query=None, arguments={})
        except MemoryRefused as exc:
            messages.warning(request, str(exc))
        else:
            bulk.begin(request, asked)
    if not done:
        messages.warning(request, _("Select at least one note or observation."))
    return redirect_back(request, reverse("memory:recall"))


@signed_in("GET", "HEAD")
@at_a_date
def recall_file(request: BeaconRequest, kind: str) -> HttpResponse:
    """Send the results of a search as a file, at most 200."""
    if kind not in FILES:
        why = _("This file format isn’t supported. Use one of: %(kinds)s.")
        message = why % {"kinds": ", ".join(FILES)}
        return render(request, "404.html", {"why": message}, status=404)
    media_type, write = FILES[kind]
    hits = hits_of(request.user, request.GET)
    answer = HttpResponse(write(hits), content_type=media_type)
    answer["Content-Disposition"] = f'attachment; filename="beacon-recall-{kind}"'
    return answer


# --- related memories ---

MAX_RELATED = 30
_AUTOLINK = re.compile(r"<(https?://[^\s>]+)>")
MAX_SHOWN_LENGTH = 2000  # characters of the record that the others are related to


def related_rows(record: Any, limit: int = related.USUAL) -> list[MemoryRow]:
    """Return the records related to this one as rows with the reasons, each text only once."""
    known, found = {one_line(related.text_of(record)).casefold()}, []
    for one in related.related_to(record, limit=2 * limit):
        text = one_line(one.content).casefold()
        if text not in known:
            known.add(text)
            found.append(one)
    rows = rows_of(record.owner, [(one.type, one.record) for one in found[:limit]])
    language = language_of(record.owner)
    for row, one in zip(rows, found, strict=False):
        row.note = one.why
        if one.named_words:  # the passage that shares them
            row.said = _row(one.type, one.record, " ".join(one.named_words), language, "").said
    return rows


def record_of(owner: Any, type: str, pk: UUID) -> Any:
    """Return the owner's record that recall can return, or a file.  Raises Http404."""
    if type == "file":
        rows: Any = MemoryFile.objects.for_user(owner).live()
    elif type in KINDS:
        rows = KINDS[type].rows(owner, as_of.now())
    else:
        raise Http404
    record = get_object_or_404(rows, pk=pk)
    record.owner = owner
    return record


@signed_in("GET", "HEAD")
@vary_on_headers("HX-Request", "HX-Target")
@at_a_date
def related_page(request: BeaconRequest, type: str, pk: UUID) -> HttpResponse:
    """Show the records nearest to one record of any type, with the reasons.

    A record's page gets the first few after itself, since ranking takes most of its time.
    """
    if request.htmx.target == "record-related" and type in record_page.TYPES:
        record = get_owned_or_404(
            request, record_page.TYPES[type].objects.for_user(request.user), pk
        )
        context = {
            "related": related_rows(record),
            "related_url": f"{request.path}{request.date.query}",
        }
        return render(request, "memory/_record_related.html", context)
    record = record_of(request.user, type, pk)
    words = "" if type == "file" else flat(KINDS[type].content(record)[:MAX_SHOWN_LENGTH])
    context = {
        "record": record,
        "type": type,
        "title": record.path if type == "file" else KINDS[type].title(record),
        "text": _AUTOLINK.sub(r"\1", words),
        "url": record.get_absolute_url() if type == "file" else KINDS[type].url(record),
        "related": related_rows(record, MAX_RELATED),
    }
    return render(request, "memory/related.html", context)
