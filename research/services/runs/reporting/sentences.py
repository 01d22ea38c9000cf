"""The sentences of a report, each with a link target and its checks, sources and corrections.

Data flow: a report's safe HTML -> its text, block by block -> split into sentences -> the same HTML
with each sentence in spans that have its key, followed by tags: independent sources, checked by a
person, corrected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from html.parser import HTMLParser
from itertools import islice
from typing import Any

from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import localtime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.text.cleaning import is_visible, one_line, without_citations
from beacon_site.text.markdown import render
from beacon_site.text.sentences import language_of, split
from research.models import DeltaItem, Report
from research.models.reports import Remark, source_lines
from research.services.runs.reporting import report_text

_BLOCKS = frozenset(
    {"p", "li", "td", "dd", "dt", "blockquote", "ul", "ol", "dl", "table", "tr", "thead"}
    | {"tbody", "section", "hr", "caption"}
)
_CITES = 'href="#source-'
_ADDRESS = re.compile(r'(href="[^"]*")')
_NOTE = re.compile(r"\([^()]+\)")  # in italics: how often a known fact was confirmed
_SILENT = frozenset({"h1", "h2", "h3", "h4", "h5", "h6", "pre", "th"})  # elements without sentences
_INLINE_ENDS = frozenset({"a", "sup", "strong", "em", "code", "b", "i", "s", "del", "ins", "sub"})

# The reader: the owner here, the owner in a saved file, or someone with a link.
OWNER, FILE, STRANGER = "owner", "file", "stranger"


@dataclass(slots=True)
class SentenceNotes:
    """Sources, checks and corrections of a report's sentences, by key."""

    report: Report
    checks: Mapping[str, dict[str, Any]]
    remarks: Mapping[str, list[Remark]]
    reader: str = OWNER

    def tags(self, key: str) -> SafeString:
        """Return the tags after a sentence: its sources, and a person's remark."""
        tags = [*self._sources(key), *map(self._remark, self.remarks.get(key, []))]
        return format_html_join("", " {}", ((tag,) for tag in tags))

    def add_delta_sentences(self, rows: list[Any]) -> None:
        """Add keys and tags to the sentences of the delta section as well."""
        for place, row in enumerate(rows):
            key = report_text.sentence_key(row.item.sentence)
            rows[place] = replace(
                row,
                now=format_html(
                    '<span class="body-text" data-s="{}" id="d-{}">{}</span>{}',
                    key,
                    key,
                    row.now,
                    self.tags(key),
                ),
                marks=mark_safe(  # noqa: S308  (the key is hex)  # nosec B308, B703
                    _ADDRESS.sub(rf'\1 data-of="{key}"', row.marks)
                ),
            )

    @property
    def open_count(self) -> int:
        """Return how many unsupported sentences haven't been checked or corrected."""
        bad = (check["key"] for check in self.checks.values() if not check["supported"])
        return sum(key not in self.remarks for key in bad)

    def _sources(self, key: str) -> Iterator[SafeString]:
        words = describe_sources(self.checks.get(key, {}))
        if words:
            yield format_html('<span class="support" dir="auto">({})</span>', words)

    def _remark(self, remark: Remark) -> SafeString:
        words, look = self.words_of(remark), "confirmed" if remark.kind == "checked" else "contra"
        tag = format_html('<span class="tag {} remark" dir="auto">{}</span>', look, words)
        if self.reader != OWNER or remark.kind != "corrected":
            return tag
        address = reverse("research:topic-corrections", args=[self.report.run.topic.slug])
        return format_html(
            '<a class="remark" href="{}#correction-{}">{}</a>', address, remark.pk, tag
        )

    def words_of(self, remark: Remark) -> str:
        """Return a remark as text. A stranger sees neither names nor corrections."""
        day = date_format(localtime(remark.created), "j M Y")
        checked = remark.kind == "checked"
        if self.reader == STRANGER:
            words = _("✓ verified by a person, %(day)s") if checked else _("≠ since corrected")
            return words % {"day": day}
        name = remark.by.partition(":")[2]
        is_mine = self.reader == OWNER and name == self.report.owner.username
        if is_mine:
            words = _("✓ verified by you, %(day)s") if checked else _("≠ corrected by you, %(day)s")
        else:
            words = (
                _("✓ verified by %(name)s, %(day)s")
                if checked
                else _("≠ corrected by %(name)s, %(day)s")
            )
        return words % {"day": day, "name": name}


def notes_of(report: Report, reader: str = OWNER) -> SentenceNotes:
    """Return the sources, checks and corrections of the report's sentences, in one query."""
    remarks: dict[str, list[Remark]] = {}
    for remark in report.remarks():
        remarks.setdefault(remark.key, []).append(remark)
    return SentenceNotes(report, {check["key"]: check for check in report.checks}, remarks, reader)


def describe_sources(check: Mapping[str, Any]) -> str:
    """Return “3 sources, 2 independent”, or "" if there is at most one source."""
    count = check.get("sources", 0)
    if not check.get("supported") or count < 2:
        return ""
    words = ngettext("%(n)d source", "%(n)d sources", count) % {"n": count}
    return _("%(sources)s, %(n)d independent") % {
        "sources": words,
        "n": check.get("independent", 0),
    }


# --- in the text ---


@dataclass(slots=True)
class _Piece:
    """A tag or text. `place` is the offset of the text in its block."""

    raw: str
    name: str = ""  # of a tag; `/p` for an end tag
    text: str | None = None
    place: int = 0
    is_citation: bool = False


@dataclass(slots=True)
class _Block:
    pieces: list[_Piece] = field(default_factory=list)
    text: str = ""


class _Reader(HTMLParser):
    """Splits HTML into blocks. Headings and code are passed through."""

    def __init__(self, mark: str) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[_Block] = [_Block()]
        self._mark, self._silent = mark, 0

    def _tag(self, name: str, raw: str) -> None:
        bare = name.removeprefix("/")
        if bare in _BLOCKS or bare in _SILENT:
            self.blocks.append(_Block())
        if bare in _SILENT:
            self._silent += -1 if name.startswith("/") else 1
        self.blocks[-1].pieces.append(_Piece(raw, name))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self._tag(tag, self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self._tag(tag, self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self._tag(f"/{tag}", f"</{tag}>")

    def handle_data(self, data: str) -> None:
        block, raw = self.blocks[-1], escape(data, quote=False)
        # The mark of an unsupported sentence, and a note on it, aren't part of what it says.
        is_note = _last_tag(block) == "em" and (data == self._mark or _NOTE.fullmatch(data))
        if self._silent or is_note:
            block.pieces.append(_Piece(raw))
            return
        cites = bool(block.pieces) and _CITES in block.pieces[-1].raw
        piece = _Piece(raw, text=data, place=len(block.text), is_citation=cites)
        block.pieces.append(piece)
        block.text += "".join(" " if char.isspace() else char for char in data)


def _last_tag(block: _Block) -> str:
    return block.pieces[-1].name if block.pieces else ""


def bare_sentence(text: str) -> str:
    """Return a sentence of rendered text on one line, without citations."""
    return without_citations(report_text.spread_citations(one_line(text)))


def wrapped(html: str, tags: Callable[[str], SafeString]) -> SafeString:
    """Return safe HTML with each sentence in a span with its key, followed by `tags(key)`."""
    reader = _Reader(_("(unsupported)"))
    reader.feed(html)
    reader.close()
    seen: set[str] = set()
    parts = [_block_html(block, tags, seen) for block in reader.blocks]
    # Only our own spans and tags were added to what was safe; text is escaped again.
    return mark_safe("".join(parts))  # noqa: S308  (see above)  # nosec B308, B703


def _spans(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start, end and key of each sentence in a block."""
    at, line = 0, " ".join(text.split())
    for part in split(line, language_of(line)) or [line]:
        place = _find(text, part, at)
        bare = bare_sentence(part)
        if place is None or not is_visible(bare):
            continue
        at = place[1]
        yield *place, report_text.sentence_key(bare)


def _find(text: str, part: str, at: int) -> tuple[int, int] | None:
    """Return where the words of `part` are after `at`, ignoring whitespace differences."""
    start = -1
    for word in part.split():
        found = text.find(word, at)
        if found < 0:
            return None
        start = found if start < 0 else start
        at = found + len(word)
    return (start, at) if start >= 0 else None


def _block_html(block: _Block, tags: Callable[[str], SafeString], seen: set[str]) -> str:
    if not block.text.strip():
        return "".join(piece.raw for piece in block.pieces)
    spans = list(_spans(block.text))
    out: list[str] = []
    owed: list[str] = []  # keys of finished sentences whose tags must still be written
    for place, piece in enumerate(block.pieces):
        if (
            owed and (piece.text is not None or piece.name.removeprefix("/") not in _INLINE_ENDS)
        ) or (owed and not piece.name.startswith("/")):
            _pay(out, owed, tags)
        if piece.text is None:
            out.append(_cited(block, place, spans) if piece.name == "a" else piece.raw)
            continue
        _text_html(piece, spans, out, owed, tags, seen)
    _pay(out, owed, tags)
    return "".join(out)


def _pay(out: list[str], owed: list[str], tags: Callable[[str], SafeString]) -> None:
    out += [tags(key) for key in owed]
    owed.clear()


def _cited(block: _Block, place: int, spans: list[tuple[int, int, str]]) -> str:
    """Return the link at `place` of a block. A citation gets the key of its sentence."""
    piece = block.pieces[place]
    if _CITES not in piece.raw:
        return piece.raw
    after = islice(block.pieces, place + 1, None)
    at = next((one.place for one in after if one.text is not None), -1)
    key = next((key for start, end, key in spans if start <= at < end), "")
    return piece.raw.replace(">", f' data-of="{key}">', 1) if key else piece.raw


def _text_html(
    piece: _Piece,
    spans: list[tuple[int, int, str]],
    out: list[str],
    owed: list[str],
    tags: Callable[[str], SafeString],
    seen: set[str],
) -> None:
    text, at = piece.text or "", 0
    for start, end, key in spans:
        first, last = max(start - piece.place, at), min(end - piece.place, len(text))
        if first >= last:
            continue
        if owed:
            _pay(out, owed, tags)
        out.append(escape(text[at:first], quote=False))
        own_id = "" if key in seen else f' id="s-{key}"'
        inside = escape(text[first:last], quote=False)
        if not piece.is_citation:
            seen.add(key)
            inside = f'<span class="body-text" data-s="{key}"{own_id}>{inside}</span>'
        out.append(inside)
        at = last
        if end - piece.place <= len(text):
            owed.append(key)
    if at < len(text):
        if text[at:].strip():
            _pay(out, owed, tags)
        out.append(escape(text[at:], quote=False))


# --- as a list ---


@dataclass(frozen=True, slots=True)
class ReportSentence:
    """One sentence of a report, from the delta section or the body."""

    key: str
    text: str
    citations: list[int]


def sentences_of(report: Report) -> list[ReportSentence]:
    """Return the report's sentences in reading order, each once."""
    found: dict[str, ReportSentence] = {}
    items = DeltaItem.objects.filter(
        run=report.run_id, status__in=DeltaItem.LISTED, hidden_reason=""
    )
    for item in items:
        key = report_text.sentence_key(item.sentence)
        one = ReportSentence(key, item.sentence, item.citations)
        found.setdefault(one.key, one)
    for text in _body_sentences(body_without_sources(report)):
        bare = bare_sentence(text)
        if is_visible(bare):
            key = report_text.sentence_key(bare)
            found.setdefault(key, ReportSentence(key, bare, report_text.cited([text])))
    return list(found.values())


def body_without_sources(report: Report) -> str:
    """Return the body without the list of sources, which a template can place in it."""
    body: str = report.body
    return body.replace(source_lines(report.sources), "", 1) if report.places_sources else body


def _body_sentences(body: str) -> Iterator[str]:
    reader = _Reader(_("(unsupported)"))
    reader.feed(render(body))
    reader.close()
    for block in reader.blocks:
        for start, end, _key in _spans(block.text):
            yield block.text[start:end]


def sentence_of(report: Report, key: str) -> ReportSentence | None:
    """Return the report's sentence with this key, or None."""
    return next((one for one in sentences_of(report) if one.key == key), None)
