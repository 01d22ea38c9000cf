"""The rows of a delta: changed facts with their quotes, and table rows shown as tables; changes in watched parts.

The text around a quote is stored on one line. The rows of a table are found again by their number
of cells, which the quoted row gives.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from django.db.models import Q
from django.utils.dateparse import parse_date
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from beacon_site.text.canonical_urls import canonical_or_same
from beacon_site.text.cleaning import match_key, shorten
from beacon_site.text.diff import Row, diff, folded
from memory.models import Conflict, ContentItem, Trust
from research.claims.blocks import CELL, cells_of, plain_quote
from research.models import DeltaItem, Hit, Run, reports
from research.models.reports import Link, link_of


@dataclass(frozen=True, slots=True)
class Quote:
    """The quote behind a sentence, whether it is in the stored page, and its context."""

    sentence: str
    quote: str
    found: bool
    in_snippet: bool  # only found in the search result, because the page wasn't read
    key: str = ""  # the sentence's key
    before: str = ""
    after: str = ""
    checked_at: datetime | None = None
    page: str = ""  # its place in the stored page, if it isn't the shown report's

    @property
    def is_verified(self) -> bool:
        """Return True if the quote was found in the stored page, not only in a search result."""
        return self.found and not self.in_snippet

    @property
    def plain_quote(self) -> str:
        return plain_quote(self.quote)

    @property
    def shown(self) -> dict[str, Any]:
        """Return the quote with its context, as lines and table rows."""
        return quote_context(self.quote or self.sentence, self.before, self.after)


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One numbered source as cited."""

    n: int
    title: str
    domain: str
    link: reports.Link
    address: str
    state: str
    published_at: date | None
    quotes: list[Quote]
    trust: str = ""
    derived_from: dict[str, Any] = field(default_factory=dict)  # the page that it repeats
    repeated_by: list[dict[str, Any]] = field(default_factory=list)  # pages that repeat it

    @property
    def place(self) -> str:
        """Return its address in the one spelling that is shown, without https://."""
        return canonical_or_same(self.address).removeprefix("https://")

    @property
    def found(self) -> int:
        """Return how many of its quotes are in the stored page."""
        return sum(quote.found for quote in self.quotes)

    @property
    def card(self) -> str:
        """Return the source in one line, as the tooltip of a citation."""
        parts = [
            self.title,
            self.domain,
            f"{self.published_at:%Y-%m-%d}" if self.published_at else "",
        ]
        return " · ".join(part for part in parts if part)


_RULE = re.compile(r":?-+:?")
_HEADING = re.compile(r"(?:^|(?<=\s))#{1,6}\s+")


def quote_context(quote: str, before: str = "", after: str = "") -> dict[str, Any]:
    """Return the lines before and after a quote, and the rows of its table, for a template.

    Each row is its kind ("head", "quote" or "row") and its cells.
    """
    cells = cells_of(quote)
    if not cells:
        return {
            "before": _lines(_without_rows_at_end(before)),
            "rows": [],
            "after": _lines(_without_rows(after)),
        }
    above, before = _rows_at_end(before, len(cells))
    below, after = _rows_at_start(after, len(cells))
    rule = next((place for place, row in enumerate(above) if all(map(_RULE.fullmatch, row))), 0)
    rows = [("head", row) for row in above[:rule]]
    rows += [("row", row) for row in above[rule + bool(rule) :]]
    rows += [("quote", cells), *(("row", row) for row in below)]
    # Before the table, only its heading helps. Text after it is about something else.
    above_table = ["…"] if "|" in before else _lines(before)[-1:]
    return {"before": above_table, "rows": rows, "after": []}


def _rows_at_end(text: str, count: int) -> tuple[list[list[str]], str]:
    row = re.compile(rf"(?:^|(?<=\s))\|(?:{CELL}){{{count}}}$")
    rows: list[list[str]] = []
    text = text.rstrip()
    while found := row.search(text):
        rows.insert(0, cells_of(found[0]))
        text = text[: found.start()].rstrip()
    return rows, text


def _rows_at_start(text: str, count: int) -> tuple[list[list[str]], str]:
    row = re.compile(rf"\|(?:{CELL}){{{count}}}(?=\s|$)")
    rows: list[list[str]] = []
    text = text.lstrip()
    while found := row.match(text):
        rows.append(cells_of(found[0]))
        text = text[found.end() :].lstrip()
    return rows, text


def _without_rows(text: str) -> str:
    """Return the text before the first table row."""
    text, bar, rest = text.partition(" | ") if not text.startswith("|") else ("", "|", text[1:])
    if "|" not in rest and "…" not in rest:
        return f"{text}{bar}{rest}"
    return f"{text} …" if text and not text.endswith("…") else text


def _without_rows_at_end(text: str) -> str:
    """Return the text after the last table row."""
    if text.count("|") < 2:
        return text
    rest = text.rpartition("|")[2].strip()
    return f"… {rest}" if rest else ""


def _lines(text: str) -> list[str]:
    """Return the text as lines. A heading is a line by itself."""
    return [line.strip() for line in _HEADING.split(text) if line.strip()]


# --- delta rows ---

ALIKE = 0.6  # with this share of common words, two sentences are compared word by word
_UNIT = r"(?:%|°[CF]|[kKMGTP]i?B|B|[kMG]?Hz|[kMG]?W|kWh|V|ms|min|s|h|km|cm|mm|m|kg|mg|g)"
# A number with its parts and unit (16.4, 2026-12-01, 18-rc.1, 5 GB), a word, or one East Asian
# character.
_WORD = re.compile(
    rf"v?\d[A-Za-z0-9]*(?:[.,:+-][A-Za-z0-9]+)*(?:[ \u00a0]?{_UNIT}(?!\w))?"
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff]+|\W"
)
# Dates and versions, because browsers break lines at their hyphens.
_HYPHENATED = re.compile(r"(?<![\w-])v?\d[\w.:]{0,20}(?:-[\w.:]{1,20}){1,5}(?![\w-])")


@dataclass(frozen=True, slots=True)
class ItemSource:
    """The source of a delta item's sentence. `quote` is empty if it is the sentence itself."""

    quote: str
    domain: str
    link: reports.Link
    published_at: date | None

    def for_strangers(self) -> ItemSource:
        """Return it without what only its owner can open: the link to a document, and its text."""
        return replace(self, link=reports.Link(), quote="") if self.link.is_ours else self


@dataclass(frozen=True, slots=True)
class DeltaRow:
    """One changed fact to show: the old sentence next to the new, with marked words."""

    item: DeltaItem
    before: SafeString | str
    now: SafeString | str
    marks: SafeString
    source: ItemSource | None
    previous: ItemSource | None = None
    is_joined: bool = False  # `now` has the old words deleted and the new ones inserted

    @property
    def is_beside(self) -> bool:
        """Return True if the old sentence is shown next to the new one."""
        listed = (DeltaItem.Status.CHANGED, DeltaItem.Status.CONTRADICTED)
        return self.item.status in listed and bool(self.item.previous_text) and not self.is_joined

    @property
    def resolved(self) -> str:
        """Return how the conflict between the two was resolved, or "" if it is open."""
        conflict = self.item.conflict
        if conflict is None or conflict.is_open:
            return ""
        old, new = Conflict.How.LEFT, Conflict.How.RIGHT
        # an earlier run found them in the opposite order
        if conflict.right_id == self.item.previous_fact_id:
            old, new = new, old
        words = {
            old: _("Resolved: the old sentence was kept."),
            new: _("Resolved: the new sentence was kept."),
            Conflict.How.BOTH: _("Resolved: both sentences were kept."),
            Conflict.How.MERGED: _("Resolved: the two sentences were merged."),
            Conflict.How.GONE: _("Resolved: only one of the two facts is still current."),
        }
        return words.get(Conflict.How(conflict.resolution or Conflict.How.GONE), "")


@dataclass(slots=True)
class DeltaParts:
    """The delta in four parts: the listed changes, and three folded parts with counts (R41)."""

    listed: list[DeltaRow] = field(default_factory=list)
    confirmed: list[DeltaRow] = field(default_factory=list)
    quiet: list[DeltaRow] = field(default_factory=list)
    not_listed: list[DeltaRow] = field(default_factory=list)
    unasked: list[DeltaRow] = field(default_factory=list)
    items: list[DeltaItem] = field(default_factory=list)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Return how many changes of each kind are listed, in their order."""
        return list(Counter(str(row.item.status) for row in self.listed).items())


def changed_of(items: list[DeltaItem], sources: Sequence[SourceRow]) -> DeltaParts:
    """Return the items as shown. `sources` are the report's."""
    by_number = {source.n: source for source in sources}
    changed = DeltaParts(items=items)
    for item in items:
        row = delta_row(item, by_number)
        if item.is_unasked:
            changed.unasked.append(row)
        elif item.hidden_reason:
            changed.not_listed.append(row)
        elif item.status in DeltaItem.LISTED:
            changed.listed.append(row)
        elif item.status == DeltaItem.Status.CONFIRMED:
            changed.confirmed.append(row)
        else:
            changed.quiet.append(row)
    return changed


def delta_row(item: DeltaItem, by_number: dict[int, SourceRow], page: str = "") -> DeltaRow:
    """Return an item as shown. Its citations link to the sources on `page`, or on this page."""
    cited = [by_number[n] for n in item.citations if n in by_number]
    shown_as = ((page, s.n, s.card, s.n) for s in cited)
    marks = format_html_join("", '<a href="{}#source-{}" title="{}">[{}]</a>', shown_as)
    now_at, before_at = _source_of_new(item, cited), _source_of_old(item)
    if now_at and before_at and now_at.link == before_at.link:
        # The same page, read again. Its last version has no known date, so neither date is shown.
        dates = (now_at.published_at, before_at.published_at)
        if not all(dates):
            now_at, before_at = (replace(at, published_at=None) for at in (now_at, before_at))
    before: SafeString | str = unbroken(item.previous_text)
    now: SafeString | str = unbroken(item.sentence)
    if item.status == DeltaItem.Status.GONE:
        # The page no longer supports it, so it isn't cited.
        marks = SafeString("")
        before_at = before_at or (now_at and replace(now_at, published_at=None))
        now_at = None
    joined = None
    if item.status == DeltaItem.Status.CHANGED:
        joined = in_one(item.previous_text, item.sentence)
        if joined is None:
            before, now = marked_words(item.previous_text, item.sentence)
    is_joined = joined is not None
    return DeltaRow(item, before, joined or now, marks, now_at, before_at, is_joined)


def unbroken(text: str) -> SafeString:
    """Return the text as HTML that keeps dates and versions on one line."""
    if not _HYPHENATED.search(text):
        return escape(text)
    parts: list[str] = []
    end = 0
    for match in _HYPHENATED.finditer(text):
        parts += [text[end : match.start()]]
        parts += [format_html('<span class="nowrap">{}</span>', match[0])]
        end = match.end()
    return format_html_join("", "{}", ((part,) for part in [*parts, text[end:]]))


def _source_of_new(item: DeltaItem, cited: Sequence[SourceRow]) -> ItemSource | None:
    """Return the item's first source, with the quote from it if it says more than the item."""
    quote = plain_quote(item.quote)
    if match_key(quote) == match_key(item.sentence):
        quote = ""
    if cited:
        source = cited[0]
        return ItemSource(quote, source.domain, source.link, source.published_at)
    return ItemSource(quote, "", reports.Link(), None) if quote else None


def _source_of_old(item: DeltaItem) -> ItemSource | None:
    """Return the source of the old sentence, as known when the run compared the two."""
    old = item.previous_source
    if not old:
        return None
    quote = plain_quote(str(old.get("quote") or ""))
    return ItemSource(
        "" if match_key(quote) == match_key(item.previous_text) else quote,
        str(old.get("domain") or ""),
        reports.link_of(str(old.get("link") or "")),
        parse_date(str(old.get("published_at") or "")),
    )


def marked_words(before: str, now: str) -> tuple[SafeString | str, SafeString | str]:
    """Return both sentences with the differing words marked.

    If they have little in common, all of the old one is marked as deleted and none of the new one.
    """
    old, new = _WORD.findall(before), _WORD.findall(now)
    if _similarity(_only_words(old), _only_words(new)) < ALIKE:
        return format_html('<s class="old">{}</s>', unbroken(before)), unbroken(now)
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    was, became = [], []
    for kind, a, b, c, d in matcher.get_opcodes():
        plain = kind == "equal"
        gone, come = unbroken("".join(old[a:b])), unbroken("".join(new[c:d]))
        was.append(format_html("{}" if plain else "<del>{}</del>", gone))
        became.append(format_html("{}" if plain else "<ins>{}</ins>", come))
    return _joined(was, "<del></del>"), _joined(became, "<ins></ins>")


def in_one(before: str, now: str) -> SafeString | None:
    """Return one sentence with the old words deleted and the new ones inserted.

    None if the two have too little in common to be read as one.
    """
    old, new = _WORD.findall(before), _WORD.findall(now)
    if (
        max(_similarity(_only_words(old), _only_words(new)), _similarity(_plain(old), _plain(new)))
        < ALIKE
    ):
        return None
    parts: list[SafeString] = []
    for kind, gone, come in _passages(old, new):
        if kind == "equal":
            parts.append(unbroken(gone))
            continue
        if gone.strip():
            parts.append(format_html("<del>{}</del>", unbroken(gone)))
        if come.strip():
            gap = " " if gone.strip() else ""
            parts.append(format_html("{}<ins>{}</ins>", gap, unbroken(come)))
    return format_html_join("", "{}", ((part,) for part in parts))


def _passages(old: list[str], new: list[str]) -> list[tuple[str, str, str]]:
    """Return the equal and the different passages. Two that only a gap separates are one.

    "16.4, 15.8" and "18.1, 17.7" are read as two lists, not as four numbers.
    """
    results: list[tuple[str, str, str]] = []
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        gone, come = "".join(old[a:b]), "".join(new[c:d])
        is_gap = kind == "equal" and not any(char.isalnum() for char in gone)
        if is_gap and results and results[-1][0] != "equal":
            results.append(("gap", gone, come))
        elif kind == "equal":
            results.append(("equal", gone, come))
        elif len(results) > 1 and results[-1][0] == "gap" and results[-2][0] == "different":
            _gap, between, _same = results.pop()
            _kind, gone_before, come_before = results.pop()
            results.append(
                ("different", gone_before + between + gone, come_before + between + come)
            )
        else:
            results.append(("different", gone, come))
    return [("equal" if kind == "gap" else kind, gone, come) for kind, gone, come in results]


def _only_words(pieces: Iterable[str]) -> list[str]:
    return [piece for piece in pieces if piece[0].isalnum()]


def _plain(pieces: Iterable[str]) -> list[str]:
    """Return the words without values. In two lists of versions, only the words around them are alike."""
    return [piece for piece in pieces if piece.isalpha()]


def _similarity(old: list[str], new: list[str]) -> float:
    return difflib.SequenceMatcher(None, old, new, autojunk=False).ratio()


def _joined(parts: list[SafeString], nothing: str) -> SafeString:
    return mark_safe("".join(part for part in parts if part != nothing))  # noqa: S308  (escaped)  # nosec B308, B703


# --- watched parts of pages ---
# The hits of a saved run that have a `part` -> the last text of the same part that an earlier run
# read -> a diff of both.


MAX_ROWS = 200  # lines shown of one part's diff
MAX_CHARACTERS = 30_000  # of these lines
MAX_PIECE_LENGTH = 2_000  # characters that changed, or stayed, without a break

FIRST, SAME, CHANGED, UNREAD = "first", "same", "changed", "unread"


@dataclass(frozen=True, slots=True)
class WatchedPart:
    """A part of a page in one run, compared with the last run that read it."""

    address: str
    part: str
    state: str  # first, same, changed, or unread
    reason: str = ""  # why it's unread
    since: int | None = None  # the number of the run it is compared with
    rows: list[Row] = field(default_factory=list)
    rows_left: int = 0  # further lines of the diff

    @property
    def link(self) -> Link:
        return link_of(self.address)


def watched_parts(run: Run, hits: Iterable[Hit] | None = None) -> list[WatchedPart]:
    """Return the run's watched parts in order. `hits` are all of its hits, if they are loaded.

    Makes no query more if there are none, otherwise two: for the texts, and for earlier ones.
    """
    hits = run.hits.exclude(part="") if hits is None else hits
    parts = sorted((hit for hit in hits if hit.part), key=lambda hit: hit.place)
    if not parts:
        return []
    usable = ContentItem.objects.filter(trashed_at=None).exclude(trust=Trust.QUARANTINED)
    texts = usable.in_bulk([hit.content_item_id for hit in parts if hit.content_item_id])
    earlier = _earlier(run, parts)
    return [_compared(hit, texts.get(hit.content_item_id), earlier.get(hit.url)) for hit in parts]


def _earlier(run: Run, parts: list[Hit]) -> dict[str, Hit]:
    """Return the last earlier hit with a text of each part, by URL."""
    same = Q()
    for hit in parts:
        same |= Q(url=hit.url, part=hit.part)
    found = Hit.objects.filter(same, run__topic=run.topic_id, run__number__lt=run.number)
    found = found.filter(content_item__trashed_at=None, content_item__isnull=False)
    found = found.exclude(content_item__trust=Trust.QUARANTINED)
    found = found.select_related("content_item", "run")
    last = found.order_by("url", "-run__number").distinct("url")
    return {hit.url: hit for hit in last}


def _compared(hit: Hit, text: ContentItem | None, earlier: Hit | None) -> WatchedPart:
    fields: dict[str, Any] = {"address": hit.link, "part": hit.part}
    if text is None or hit.reading in (Hit.Reading.FAILED, Hit.Reading.QUARANTINED):
        return WatchedPart(**fields, state=UNREAD, reason=hit.reason)
    if earlier is None or earlier.content_item is None:
        return WatchedPart(**fields, state=FIRST)
    fields["since"] = earlier.run.number
    before, now = earlier.content_item.content, text.content
    if before == now:
        return WatchedPart(**fields, state=SAME)
    # Blank lines only separate paragraphs, so their changes aren't shown.
    rows = [row for row in diff(_in_lines(before), _in_lines(now)) if not row.is_blank]
    rows = folded(rows)
    shown = _limited(rows)
    left = len(rows) - len(shown)
    return WatchedPart(**fields, state=CHANGED, rows=shown, rows_left=left)


def _in_lines(text: str) -> str:
    """Return a text with the rows of its tables as lines, without bars."""
    rows = [(line, cells_of(line)) for line in text.split("\n")]
    kept = [
        " · ".join(filter(None, cells)) or line
        for line, cells in rows
        if not (cells and all(map(_RULE.fullmatch, cells)))
    ]
    return "\n".join([*kept, ""])


def _limited(rows: list[Row]) -> list[Row]:
    """Return the first rows with their pieces cut, so that a page or an answer stays small."""
    kept: list[Row] = []
    room = MAX_CHARACTERS
    for row in rows[:MAX_ROWS]:
        if room <= 0:
            break
        pieces = [replace(one, text=shorten(one.text, MAX_PIECE_LENGTH)) for one in row.pieces]
        room -= sum(len(one.text) for one in pieces)
        kept.append(replace(row, pieces=tuple(pieces)))
    return kept
