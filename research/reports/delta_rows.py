"""The delta items of a report as they are shown: the old sentence beside the new, words marked."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

from django.utils.dateparse import parse_date
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from memory.models import Conflict
from memory.texts.text import match_key
from research import links
from research.models import DeltaItem
from research.reports.quotes import in_words

if TYPE_CHECKING:
    from research.reports.page import SourceRow

ALIKE = 0.6  # share of common words from which two sentences are shown word by word
_UNIT = r"(?:%|°[CF]|[kKMGTP]i?B|B|[kMG]?Hz|[kMG]?W|kWh|V|ms|min|s|h|km|cm|mm|m|kg|mg|g)"
# A number with its parts and unit (16.4, 2026-12-01, 18-rc.1, 5 GB), a word, or one East Asian
# character.
_WORD = re.compile(
    rf"v?\d[A-Za-z0-9]*(?:[.,:+-][A-Za-z0-9]+)*(?:[ \u00a0]?{_UNIT}(?!\w))?"
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff]+|\W"
)
# A date or a version: browsers break lines at its hyphens.
_HYPHENATED = re.compile(r"(?<![\w-])v?\d[\w.:]{0,20}(?:-[\w.:]{1,20}){1,5}(?![\w-])")


@dataclass(frozen=True, slots=True)
class Stand:
    """Where one sentence of a delta item stands; `quote` is empty where it is the sentence itself."""

    quote: str
    domain: str
    link: links.Link
    published_at: date | None

    def for_strangers(self) -> Stand:
        """Return it without a link to a page of this site, which a stranger cannot open."""
        return replace(self, link=links.Link()) if self.link.is_ours else self


@dataclass(frozen=True, slots=True)
class DeltaRow:
    """One changed fact as it is shown: the old sentence beside the new, words marked."""

    item: DeltaItem
    before: SafeString | str
    now: SafeString | str
    marks: SafeString
    source: Stand | None
    previous: Stand | None = None

    @property
    def is_beside(self) -> bool:
        """Whether the old sentence stands beside the new one."""
        listed = (DeltaItem.Status.CHANGED, DeltaItem.Status.CONTRADICTED)
        return self.item.status in listed and bool(self.item.previous_text)

    @property
    def settled(self) -> str:
        """Return what was decided between the two in Conflicts; empty while it waits."""
        conflict = self.item.conflict
        if conflict is None or conflict.is_open:
            return ""
        old, new = Conflict.How.LEFT, Conflict.How.RIGHT
        if conflict.right_id == self.item.previous_fact_id:  # an earlier run met them the other way
            old, new = new, old
        words = {
            old: _("Settled: the old sentence was kept."),
            new: _("Settled: the new sentence was kept."),
            Conflict.How.BOTH: _("Settled: both were kept."),
            Conflict.How.MERGED: _("Settled: the two were merged."),
            Conflict.How.GONE: _("Settled: one of the two no longer exists."),
        }
        return words.get(Conflict.How(conflict.settled_how or Conflict.How.GONE), "")


@dataclass(slots=True)
class Changed:
    """The delta in four parts: listed, and folded with their counts (R41)."""

    listed: list[DeltaRow] = field(default_factory=list)
    confirmed: list[DeltaRow] = field(default_factory=list)
    quiet: list[DeltaRow] = field(default_factory=list)
    withheld: list[DeltaRow] = field(default_factory=list)
    unasked: list[DeltaRow] = field(default_factory=list)
    items: list[DeltaItem] = field(default_factory=list)


def changed_of(items: list[DeltaItem], sources: Sequence[SourceRow]) -> Changed:
    """Return the items as they are shown; `sources` are the report's."""
    by_number = {source.n: source for source in sources}
    changed = Changed(items=items)
    for item in items:
        row = delta_row(item, by_number)
        if item.is_unasked:
            changed.unasked.append(row)
        elif item.withheld:
            changed.withheld.append(row)
        elif item.status in DeltaItem.LISTED:
            changed.listed.append(row)
        elif item.status == DeltaItem.Status.CONFIRMED:
            changed.confirmed.append(row)
        else:
            changed.quiet.append(row)
    return changed


def delta_row(item: DeltaItem, by_number: dict[int, SourceRow], page: str = "") -> DeltaRow:
    """Return an item as it is shown; its marks lead to the sources of `page`, else of this one."""
    cited = [by_number[n] for n in item.citations if n in by_number]
    shown_as = ((page, s.n, s.card, s.n) for s in cited)
    marks = format_html_join("", '<a href="{}#source-{}" title="{}">[{}]</a>', shown_as)
    now_at, before_at = _stand(item, cited), _stood(item)
    if now_at and before_at and now_at.link == before_at.link:
        # One page, read again: of its last version no date is known, so that neither shows one.
        dates = (now_at.published_at, before_at.published_at)
        if not all(dates):
            now_at, before_at = (replace(at, published_at=None) for at in (now_at, before_at))
    before: SafeString | str = unbroken(item.previous_text)
    now: SafeString | str = unbroken(item.sentence)
    if item.status == DeltaItem.Status.GONE:
        # What its page says today is no proof of it, so it isn't cited.
        marks = SafeString("")
        before_at = before_at or (now_at and replace(now_at, published_at=None))
        now_at = None
    elif item.status == DeltaItem.Status.CHANGED:
        before, now = marked_words(item.previous_text, item.sentence)
    return DeltaRow(item, before, now, marks, now_at, before_at)


def unbroken(text: str) -> SafeString:
    """Return the text as HTML in which dates and versions stay on one line."""
    parts: list[str] = []
    end = 0
    for found in _HYPHENATED.finditer(text):
        parts += [text[end : found.start()]]
        parts += [format_html('<span class="nowrap">{}</span>', found[0])]
        end = found.end()
    return format_html_join("", "{}", ((part,) for part in [*parts, text[end:]]))


def _stand(item: DeltaItem, cited: Sequence[SourceRow]) -> Stand | None:
    """Return where the item's sentence stands: its first source, with the words of it."""
    quote = "" if match_key(item.quote) == match_key(item.sentence) else item.quote
    if cited:
        source = cited[0]
        return Stand(in_words(quote), source.domain, source.link, source.published_at)
    return Stand(in_words(quote), "", links.Link(), None) if quote else None


def _stood(item: DeltaItem) -> Stand | None:
    """Return where the old sentence stood, as it was known when the run compared them."""
    old = item.previous_source
    if not old:
        return None
    quote = str(old.get("quote") or "")
    return Stand(
        "" if match_key(quote) == match_key(item.previous_text) else in_words(quote),
        str(old.get("domain") or ""),
        links.link_of(str(old.get("link") or "")),
        parse_date(str(old.get("published_at") or "")),
    )


def marked_words(before: str, now: str) -> tuple[SafeString | str, SafeString | str]:
    """Return both sentences with the words marked in which they differ.

    Where they have little in common the old one is struck whole and the new one left plain.
    """
    old, new = _WORD.findall(before), _WORD.findall(now)
    if difflib.SequenceMatcher(None, _words(old), _words(new), autojunk=False).ratio() < ALIKE:
        return format_html('<s class="old">{}</s>', unbroken(before)), unbroken(now)
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    was, became = [], []
    for kind, a, b, c, d in matcher.get_opcodes():
        plain = kind == "equal"
        gone, come = unbroken("".join(old[a:b])), unbroken("".join(new[c:d]))
        was.append(format_html("{}" if plain else "<del>{}</del>", gone))
        became.append(format_html("{}" if plain else "<ins>{}</ins>", come))
    return _joined(was, "<del></del>"), _joined(became, "<ins></ins>")


def _words(pieces: Iterable[str]) -> list[str]:
    return [piece for piece in pieces if piece[0].isalnum()]


def _joined(parts: list[SafeString], nothing: str) -> SafeString:
    return mark_safe("".join(part for part in parts if part != nothing))  # noqa: S308  (escaped)  # nosec B308, B703
