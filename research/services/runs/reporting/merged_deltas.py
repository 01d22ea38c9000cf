"""Merge the deltas of several runs, with each fact once, in its latest state.

Data flow: delta items in the order of runs -> threads (a fact, what it was changed into, and so on)
-> one `Merged` per thread. A fact that was new and then changed is new, with its latest text. A
fact that was changed and changed back, or went quiet and came back, is unchanged. A later
confirmation overrides a contradiction, and vice versa.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from beacon_site.providers.search import sample
from beacon_site.text import cleaning
from beacon_site.text.cleaning import match_key as uncached_match_key
from beacon_site.text.cleaning import shorten
from beacon_site.text.markdown import link
from research.claims.blocks import plain_quote
from research.models import DeltaItem
from research.services.runs.reporting.delta import Change

Status = DeltaItem.Status
ORDER = (
    Status.CONTRADICTED, Status.CHANGED, Status.NEW, Status.GONE, Status.CONFIRMED,
    Status.GONE_QUIET,
)  # fmt: skip
_TELLING = DeltaItem.LISTED
# A list of topics with many unread reports needs the same sentences repeatedly.
match_key = lru_cache(maxsize=20_000)(cleaning.match_key)


@dataclass(slots=True)
class Merged:
    """One fact over several runs: its text before the first run and after the last."""

    before: str = ""
    now: str = ""
    is_new: bool = False
    was_confirmed: bool = False
    is_gone: bool = False
    against: DeltaItem | None = None  # the latest contradiction
    items: list[DeltaItem] = field(default_factory=list)

    @property
    def status(self) -> Status:
        """Return its status over all the runs."""
        if self.against is not None:
            return Status.CONTRADICTED
        if self.is_gone:  # what came and went since then was never known
            return Status.GONE_QUIET if self.is_new else Status.GONE
        if self.is_new:
            return Status.NEW
        if match_key(self.now) != match_key(self.before):
            return Status.CHANGED
        return Status.CONFIRMED if self.was_confirmed else Status.GONE_QUIET

    @property
    def is_listed(self) -> bool:
        """Return True if the section lists it outside its folded parts."""
        return self.status in DeltaItem.LISTED

    @property
    def shown(self) -> DeltaItem:
        """Return the item whose text and quote are shown."""
        if self.against is not None:
            return self.against
        told = [item for item in self.items if item.status in _TELLING]
        if self.is_listed and told:
            return told[-1]
        spoken = [item for item in self.items if item.status != Status.GONE_QUIET]
        return (spoken or self.items)[-1]

    def as_item(self) -> DeltaItem:
        """Return it as an unsaved delta item, to be shown like those of one run."""
        shown = self.shown
        item = DeltaItem(
            run_id=shown.run_id,
            position=shown.position,
            status=self.status,
            sentence=shown.sentence,
            previous_fact_id=shown.previous_fact_id,
            # A contradiction is shown against the fact's current text.
            previous_text=self.now if self.against is not None else self.before,
            citations=shown.citations,
            quote=shown.quote,
            needs_review=shown.needs_review,
            compared_by=shown.compared_by,
            conflict=shown.conflict,
        )
        item.previous_text = "" if item.status == Status.NEW else item.previous_text
        told = (one for one in self.items if one.previous_text == item.previous_text)
        item.previous_source = next((one.previous_source for one in told), {})
        return item

    def of_run(self, run_id: int) -> Iterator[DeltaItem]:
        """Yield the items of the current run. They are the last ones, because items come run by run."""
        return takewhile(lambda other: other.run_id == run_id, reversed(self.items))

    def has_reported(self, item: DeltaItem) -> bool:
        """Return True if another item of the same run already reported the fact."""
        return any(other.status in _TELLING for other in self.of_run(item.run_id))

    def take(self, item: DeltaItem) -> None:
        """Add what a run said about the fact."""
        speaks_of_it = self.against is None or not self._is_about_the_other_side(item)
        self.items.append(item)
        if item.status != Status.GONE_QUIET:
            self.is_gone = item.status == Status.GONE
        if item.status == Status.CONTRADICTED:
            self.against = item
        elif item.status == Status.CHANGED:
            if speaks_of_it:
                self.now, self.against, self.was_confirmed = item.sentence, None, True
            else:
                self.against = item
        elif item.status in (Status.CONFIRMED, Status.NEW) and speaks_of_it:
            self.against, self.was_confirmed = None, True

    def _is_about_the_other_side(self, item: DeltaItem) -> bool:
        """Return True if it is about the contradicting fact, not about the fact itself."""
        text = item.previous_text or item.sentence
        return self.against is not None and match_key(text) == match_key(self.against.sentence)


def merge(items: Iterable[DeltaItem]) -> list[Merged]:
    """Merge the items of several runs into one delta. They come in the order of runs.

    Contradicted, changed and new come first, the latest first, then confirmed and gone quiet. The
    items must not include withheld ones.
    """
    by_fact: dict[Any, Merged] = {}
    by_words: dict[str, Merged] = {}
    threads: list[Merged] = []
    for item in items:
        thread = _thread_of(item, by_fact, by_words)
        if thread is None or _is_another(thread, item):
            old = item.previous_text
            is_new = item.status == Status.NEW
            thread = Merged(old, old or item.sentence, is_new)
            threads.append(thread)
        thread.take(item)
        if item.previous_fact_id is not None:
            by_fact.setdefault(item.previous_fact_id, thread)
        by_words[match_key(item.sentence)] = thread
        if item.previous_text:
            by_words.setdefault(match_key(item.previous_text), thread)
    joined = _each_once(threads)
    # Sorting is stable, so the order within a status and a run is kept.
    return sorted(joined, key=lambda one: (ORDER.index(one.status), -one.shown.run_id))


def _each_once(threads: Iterable[Merged]) -> list[Merged]:
    """Merge new threads that came to say the same: two facts that became one."""
    results: list[Merged] = []
    new: dict[str, Merged] = {}
    for thread in threads:
        key = match_key(thread.shown.sentence)
        if thread.status == Status.NEW and key in new:
            new[key].items += thread.items
            continue
        if thread.status == Status.NEW:
            new[key] = thread
        results.append(thread)
    return results


def _thread_of(
    item: DeltaItem, by_fact: dict[Any, Merged], by_words: dict[str, Merged]
) -> Merged | None:
    found = by_fact.get(item.previous_fact_id) if item.previous_fact_id is not None else None
    return found or by_words.get(match_key(item.previous_text or item.sentence))


def _is_another(thread: Merged, item: DeltaItem) -> bool:
    """Return True if a run said two different things about one fact. Both must be shown."""
    if item.status not in _TELLING or not thread.has_reported(item):
        return False
    words = {match_key(other.sentence) for other in thread.of_run(item.run_id)}
    return match_key(item.sentence) not in words


# --- text ---

MAX_QUOTE_LENGTH = 240  # characters of a quote


def as_markdown(
    changes: Sequence[Change], *, quiet: str, sources: Sequence[Mapping[str, Any]] = ()
) -> str:
    """Return the section: a bullet for each listed change, or the sentence `quiet`.

    `sources` are the report's. The changes cite their numbers.
    """
    by_number = {source["n"]: source for source in sources}
    listed = [change for change in changes if change.is_listed]
    if not listed:
        return quiet
    return "\n".join(bullet(change, by_number) for change in listed)


def bullet(
    change: Change, by_number: Mapping[int, Mapping[str, Any]], *, with_label: bool = True
) -> str:
    """Return a change as a list item, with its sources and its old version."""
    marks = "".join(f"[{number}]" for number in change.citations)
    source = next((by_number[n] for n in change.citations if n in by_number), {})
    now = " ".join(
        filter(None, [change.sentence, marks, _source_in_brackets(source, change.quote, change)])
    )
    label = _label(change) if with_label or change.needs_review else ""
    line = f"- **{label}:** {now}" if label else f"- {now}"
    if change.status in (Status.CHANGED, Status.CONTRADICTED):
        old = change.previous_source
        before = _("before: %(text)s") % {"text": change.previous_text}
        line += "\n  " + " ".join(
            filter(None, [before, _source_in_brackets(old, old.get("quote", ""), change)])
        )
    return line


def _label(change: Change) -> str:
    label = str(Status(change.status).label)
    return _("%(status)s, needs review") % {"status": label} if change.needs_review else label


def _source_in_brackets(source: Mapping[str, Any], quote: str, change: Change) -> str:
    """Return a sentence's source in brackets: domain, date, and the quote if it differs."""
    address, domain = source.get("link", ""), source.get("domain", "")
    is_web = address.startswith(("http://", "https://")) and not sample.is_sample_url(address)
    place = link(domain or address, address) if is_web else domain
    parts = ", ".join(filter(None, [place, source.get("published_at") or ""]))
    keys = {uncached_match_key(change.sentence), uncached_match_key(change.previous_text)}
    quote = plain_quote(quote)
    words = (
        f"“{shorten(quote, MAX_QUOTE_LENGTH)}”"
        if quote and uncached_match_key(quote) not in keys
        else ""
    )
    inner = ": ".join(filter(None, [parts, words]))
    return f"({inner})" if inner else ""


def nothing_asked_for(changes: Sequence[Change]) -> str:
    """Return the text shown in place of the changes if all are filtered out."""
    count = sum(bool(change.hidden_reason and change.judged_by) for change in changes)
    return ngettext(
        "Nothing matches your filter. %(n)d other change was saved to memory.",
        "Nothing matches your filter. %(n)d other changes were saved to memory.",
        count,
    ) % {"n": count}
