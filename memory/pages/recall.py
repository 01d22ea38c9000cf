"""The Recall page: the search in its URL, and each result with its details."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from beacon_site.http import BeaconRequest
from beacon_site.text.cleaning import cell
from beacon_site.text.dates import day_of
from memory.core.errors import InvalidValue, MemoryRefused
from memory.models import Topic, Use, User, origins
from memory.pages.records import saved_views
from memory.search.bm25_sql import language_of
from memory.search.query import MOST_TEXT
from memory.search.recall import MODES, RecallHit, RecallOptions, RecallPage, recall_page
from memory.search.snippets import marked, passage
from memory.topics import memory
from memory.web.as_of import at_a_date
from memory.web.responses import refused

STEP, MOST = 20, 200  # results at first and per "more", and the limit
PASSAGE = 420  # characters of a folded result
WHOLE = 8_000  # characters of an unfolded result; its page shows all
MODE_WORDS = {
    "auto": gettext_lazy("auto: words and meaning"),
    "lexical": gettext_lazy("lexical: words, authors, tags, topic"),
    "exact": gettext_lazy("exact: BM25 of the words"),
}
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
_TAGS = {"lesson": "info", "rule": "info"}  # the same as in the lists of notes and observations


@dataclass(frozen=True, slots=True)
class SearchParams:
    """The page's search from its URL; invalid values are ignored."""

    words: str = ""
    mode: str = "auto"
    show: str = ""
    topic: str = ""
    first: date | None = None
    last: date | None = None
    limit: int = STEP

    @classmethod
    def of(cls, query: Any) -> SearchParams:
        """Read it from a query string."""
        mode, show = query.get("mode", ""), query.get("show", "")
        return cls(
            # One more than recall accepts, so that recall itself reports the cut.
            words=query.get("q", "").strip()[: MOST_TEXT + 1],
            mode=mode if mode in MODES else "auto",
            show=show if show in SHOWS else "",
            topic=query.get("topic", "").replace("\x00", "").strip()[:100],
            first=day_of(query.get("from", "")),
            last=day_of(query.get("to", "")),
            limit=_limit(query.get("limit", "")),
        )

    @property
    def is_asked(self) -> bool:
        """Whether there is a search: words or a filter. Facts are listed without one, as a tab."""
        return bool(self.words or self.topic or self.first or self.last or self.show == "fact")

    def how(self, limit: int) -> RecallOptions:
        """Return the arguments of recall, including the number of results."""
        how = RecallOptions(**SHOWS[self.show][1]) if self.show else RecallOptions()
        how["limit"] = limit
        if self.topic:
            how["topic"] = self.topic
        zone = timezone.get_current_timezone()
        if self.first:
            how["after"] = datetime.combine(self.first, time(), zone)
        if self.last and self.last < date.max:
            how["before"] = datetime.combine(self.last + timedelta(days=1), time(), zone)
        return how


def _limit(text: str) -> int:
    """Return the requested number of results; Python can't convert thousands of digits."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 9
    return min(max(int(text), 1), MOST) if is_number else STEP


@dataclass(frozen=True, slots=True)
class LaneRow:
    """One lane of a result: its name, its own score, that score out of 100, and the rank."""

    name: str
    raw: float
    percent: int
    rank: int


@dataclass(slots=True)
class HitRow:
    """A result with the details that the page shows."""

    hit: RecallHit
    origin: origins.Origin | None
    passage: SafeString
    whole: SafeString | str = ""
    is_cut: bool = False
    uses: int = 0
    lanes: list[LaneRow] = field(default_factory=list)
    path: str = ""  # of the memory file, for one of its sections
    stale: str = ""  # for a fact not checked recently: how long ago

    @property
    def kind(self) -> str:
        """Return the kind of record for people."""
        named = {
            "finding": _("finding"), "insight": _("insight"), "lesson": _("lesson"),
            "log": _("note: log"), "summary": _("note: summary"), "rule": _("note: rule"),
            "soul": _("note: soul"), "agent": _("note: agent"), "user": _("note: user"),
            "fact": _("topic fact"), "report": _("report"),
            "section": _("section of a file"),
        }  # fmt: skip
        name = self.hit.category or self.hit.type
        return named.get(name, name)

    @property
    def tag(self) -> str:
        """Return the CSS class of its tag."""
        return _TAGS.get(self.hit.category, "")

    @property
    def checked_at(self) -> datetime | None:
        """Return when it was last confirmed or corrected, if that was after it was written."""
        at: datetime = getattr(self.hit.record, "confirmed_at", None) or self.hit.record.updated
        return at if at - self.hit.created_at > timedelta(minutes=1) else None


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The results of a search, and the notices about it."""

    rows: list[HitRow]
    notices: list[str]
    milliseconds: int
    stems: Sequence[str]
    more: int = 0  # the next number of results to ask for; 0 if there are no more


def found(user: User, wanted: SearchParams) -> SearchResults:
    """Return the results as rows; a rejected query becomes a notice, never an error."""
    try:
        page = recall_page(
            user, wanted.words, wanted.mode, **wanted.how(min(wanted.limit + 1, MOST))
        )
    except InvalidValue as exc:
        return SearchResults([], [str(exc)], 0, ())
    hits = page.hits[: wanted.limit]
    more = min(wanted.limit + STEP, MOST) if len(page.hits) > wanted.limit else 0
    return SearchResults(
        _rows(user, hits, page), page.notices, round(page.milliseconds), page.stems, more
    )


def _rows(user: User, hits: Sequence[RecallHit], page: RecallPage) -> list[HitRow]:
    uses = _uses(hits)
    places = origins.of(user, (hit.source for hit in hits))
    query = " ".join([page.question.words, *page.question.phrases])
    language = language_of(user)
    stale = memory.stale_days([hit.record for hit in hits if hit.type == "fact"])
    rows = []
    for hit in hits:
        short = passage(hit.content, query, PASSAGE, language)
        shown = marked(short, query, language)
        row = HitRow(hit, places.get(hit.source), shown, uses=uses.get(hit.id, 0))
        if hit.type == "section":
            # A file's source is that of its first text: its sections can come from
            # others.
            row.origin, row.path = None, hit.record.file.path
        if len(hit.content) > len(short) + 1:
            row.whole = marked(hit.content[:WHOLE], query, language)
            row.is_cut = len(hit.content) > WHOLE
        row.stale = memory.in_words(stale[hit.id]) if hit.id in stale else ""
        row.lanes = [
            LaneRow(str(LANE_WORDS.get(name, name)), lane.raw, round(100 * lane.score), lane.rank)
            for name, lane in hit.lanes.items()
        ]
        rows.append(row)
    return rows


def _uses(hits: Iterable[RecallHit]) -> dict[Any, int]:
    rows = Use.objects.filter(record_id__in=[hit.id for hit in hits]).order_by()
    counted = rows.values("record_id").annotate(number=Count("id"))
    return {row["record_id"]: row["number"] for row in counted}


def topics_of(user: User) -> list[tuple[str, str]]:
    """Return the topics to filter by: slug and title, newest first."""
    rows = Topic.objects.of(user).live().order_by("-created")[:200]
    return list(rows.values_list("slug", "title"))


def examples() -> list[tuple[str, str, str]]:
    """Return example searches that teach the operators: each query with an explanation."""
    taught = (
        ("battery prices", _("words in any form and order")),
        ('"pilot line"', _("an exact phrase")),
        ("category:lesson", _("lessons, newest first, no words needed")),
        ("kind:rule after:2026-01-01", _("rules created since a date")),
        ("tag:energy -source:import:*", _("with a tag, and not imported")),
        ("is:pinned", _("pinned items (also locked, edited, used, unused…)")),
    )
    return [(question, urlencode({"q": question}), words) for question, words in taught]


# --- results as files ---

FIELDS = ("type", "category", "score", "title", "content", "source", "created_at", "id", "url")


def as_csv(hits: Iterable[RecallHit]) -> str:
    """Return results as CSV that is safe to open in a spreadsheet."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(FIELDS)
    for hit in hits:
        row = _plain(hit)
        writer.writerow([cell(row[name]) for name in FIELDS])
    return out.getvalue()


def as_json(hits: Iterable[RecallHit]) -> str:
    """Return results as JSON, with the scores of each lane."""
    return json.dumps([_plain(hit) for hit in hits], ensure_ascii=False, indent=2) + "\n"


def _plain(hit: RecallHit) -> dict[str, Any]:
    lanes = {
        name: {"raw": lane.raw, "score": lane.score, "rank": lane.rank}
        for name, lane in hit.lanes.items()
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
        "lanes": lanes,
        "why": {
            "lanes": list(hit.why.lanes),
            "stems": list(hit.why.stems),
            "ranks": hit.why.ranks,
            "boosts": list(hit.why.boosts),
        },
        "replaces": [str(key) for key in hit.replaces],
        "found_later": hit.found_later,
    }


FILES = {
    "hits.csv": ("text/csv; charset=utf-8; header=present", as_csv),
    "hits.json": ("application/json", as_json),
}


def hits_of(user: User, wanted: SearchParams) -> list[RecallHit]:
    """Return all results that a file contains.  Raises InvalidValue if recall rejects the query."""
    return recall_page(user, wanted.words, wanted.mode, **wanted.how(MOST)).hits


# --- pages ---


@require_safe
@login_required
@vary_on_headers("HX-Request")
@at_a_date
def recall(request: BeaconRequest) -> HttpResponse:
    """Search memory; a person's search doesn't count as a use."""
    wanted = SearchParams.of(request.GET)
    query = request.GET.copy()
    query.pop("limit", None)
    context: dict[str, Any] = {
        "wanted": wanted,
        "found": found(request.user, wanted) if wanted.is_asked else None,
        "shows": {name: words for name, (words, _how) in SHOWS.items()},
        "filters": query.urlencode(),
        "examples": examples(),
    }
    if request.htmx and request.htmx.target == "recall":
        return render(request, "memory/_recall.html", context)
    context |= {
        "modes": MODE_WORDS,
        "topics": topics_of(request.user),
        "views": saved_views.views_of(request.user, "recall", query.urlencode()),
    }
    return render(request, "memory/recall.html", context)


@require_safe
@login_required
@at_a_date
def recall_file(request: BeaconRequest, kind: str) -> HttpResponse:
    """Send the results of a search as a file, at most 200."""
    if kind not in FILES:
        why = _("This file format isn’t supported. Use one of: %(kinds)s.")
        said = why % {"kinds": ", ".join(FILES)}
        return render(request, "404.html", {"why": said}, status=404)
    media_type, write = FILES[kind]
    try:
        hits = hits_of(request.user, SearchParams.of(request.GET))
    except MemoryRefused as exc:
        return refused(request, str(exc))
    answer = HttpResponse(write(hits), content_type=media_type)
    answer["Content-Disposition"] = f'attachment; filename="beacon-recall-{kind}"'
    return answer
