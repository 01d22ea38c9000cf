"""Compare known pages with their last version, and update the facts that rely on them.

Data flow: pages with their last version -> differences by statement (`research.claims.page_diff`)
-> their news, compared with the facts from that page -> changes. Facts whose quote is still there
are confirmed. Facts whose quote is missing are gone.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from beacon_site.text.canonical_urls import domain_of
from beacon_site.text.cleaning import match_key, normal_form, one_line, width
from beacon_site.text.messages import gettext as _
from beacon_site.text.sentences import language_of, word_count
from memory.models.library import ADDRESS, page_of
from memory.services.topic_memory import KnownFact
from research.claims import blocks, matching, page_diff, page_news
from research.claims.blocks import ITEM, PARAGRAPH, ROW, SENTENCE, Entry
from research.claims.page_diff import ADDED, CHANGED, MOVED, REMOVED, Difference, PageDiff
from research.claims.page_news import PageChange, words_of
from research.claims.quoting import MIN_QUOTE, NormalizedText, fold
from research.claims.selection import PageText
from research.claims.terms import terms
from research.services.runs.reporting.delta import VERSIONS, Change, Status, source_of

MIN_STATEMENTS = 3  # in a page that can count as replaced
RUN = 3  # successive terms that show that a text has a statement
MIN_RUNS = 4
MIN_ROW = 22  # letters of a row or pair that shows that a text has it
FEW_WORDS = 4  # a shorter statement on another page proves nothing
KEPT_IN_TRANSLATION = 0.3  # below this share of statements, another language means another text
MAX_NEWS = 40  # the most changes one run lists from known pages, by weight
MAX_LOUD, LOUD = 100, 0.55  # the most with those that have at least this weight
LESS_FOR_MORE = 0.02  # factor for each weightier change under the same heading

_NO_WORD = re.compile(r"[\W_]+")


@dataclass
class Reread:
    """One page read again: its differences, and its news in page order."""

    page: PageText
    diff: PageDiff
    news: list[PageChange] = field(default_factory=list)
    old: list[Entry] = field(default_factory=list)
    new: list[Entry] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)

    @property
    def is_unchanged(self) -> bool:
        return not self.diff.differences and not self.diff.is_replaced and not self.columns


@dataclass
class Outcome:
    """The outcome of reading known pages again.

    `spoken_of` are the ids of the facts it decides. `unchanged` and `changed` count pages.
    `replaced` pages are so different that their facts aren't checked. `columns` describe the table
    columns that each page gained and lost. `deleted` are the facts that are gone with their document,
    and `emptied` the titles of the documents that no longer have any text. `not_found` are the ids of
    facts that a page no longer has in their words, though nothing shows that they were removed.
    `confirmed` are the ids of the facts that any page of the run confirms.
    """

    changes: list[Change] = field(default_factory=list)
    spoken_of: set[str] = field(default_factory=set)
    unchanged: int = 0
    changed: int = 0
    replaced: list[PageText] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    left_out: int = 0
    deleted: list[KnownFact] = field(default_factory=list)
    emptied: list[str] = field(default_factory=list)
    not_found: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)


def compare_with_last(page: PageText) -> Reread:
    """Return how a known page differs from its last version.

    If a page shows its own text again after something else, it is compared with the version before
    that.
    """
    found = _compared(page, page.previous)
    if found.diff.is_replaced and page.earlier:
        again = _compared(page, page.earlier)
        return found if again.diff.is_replaced else again
    return found


def _compared(page: PageText, previous: str) -> Reread:
    # Earlier versions of Beacon joined the lines of data files and LaTeX.
    if page.text == previous or one_line(page.text) == one_line(previous):
        return Reread(page, PageDiff())
    language = language_of(one_line(page.text[:4_000]))
    before = language_of(one_line(previous[:4_000]))
    versions = [previous, page.text]
    old, new = blocks.parse_versions(versions, language, page.domain, keep_paragraphs=True)
    diff = page_diff.compare(old, new, language)
    is_edited = any(one.kind == CHANGED and one.cells[0][0] == "" for one in diff.differences)
    # The language of a page without sentences, such as a data file, is a guess.
    has_prose = any(entry.kind in (SENTENCE, PARAGRAPH) for entry in new)
    is_translated = before != language and diff.kept < KEPT_IN_TRANSLATION
    is_translated = is_translated and has_prose and not is_edited
    if diff.is_replaced or is_translated or _is_another_page(diff, old, new):
        return Reread(page, PageDiff(is_replaced=True))
    if page.is_cut(previous) or page.is_cut(page.text):
        diff.differences = _before_the_cut(diff.differences, old, new)
    if "```" in page.text or "~~~" in page.text:
        diff.differences += page_diff.edited_code(
            blocks.code_of(previous), blocks.code_of(page.text)
        )
    columns = _columns_changed(old, new, diff)
    news = _real(page_news.news(diff, page.title, old), page.text, previous)
    return Reread(page, diff, news, old, new, columns)


def _real(news: Sequence[PageChange], text: str, previous: str) -> list[PageChange]:
    """Leave out statements that only moved.

    These are "new" ones that were there before, and "gone" ones that still are. A sentence may have
    left its paragraph or its brackets, or been split into a list.
    """
    others = {page_news.NEW: previous, page_news.GONE: text}
    saids = {
        status: _Said(blocks.without_struck(others[status]))
        for status in {one.status for one in news} & {*others}
    }
    moved = {
        id(one)
        for one in news
        if one.status in saids
        and all(saids[one.status].has(each.quote, each.kind) for each in one.members or [one])
    }
    return [one for one in news if id(one) not in moved]


class _Said:
    """What a text says, by its runs of successive terms, and word by word without markup."""

    def __init__(self, text: str) -> None:
        self._text = NormalizedText(text)
        self._runs = _runs(text)
        self._words = _bare_words(text)

    def has(self, quote: str, kind: str) -> bool:
        """Return whether the text has a quote, or all runs of a long sentence or item."""
        if (
            len(runs := _runs(quote)) >= MIN_RUNS
            and runs <= self._runs
            and kind in (SENTENCE, ITEM)
        ):
            return True
        if _is_there(quote.rstrip(".;,"), self._text):
            return True
        words = _bare_words(quote)
        return width(words) >= MIN_ROW and words in self._words


def _bare_words(text: str) -> str:
    """Return the letters and digits of a text, without its markup and between spaces."""
    return f" {_NO_WORD.sub(' ', normal_form(text).casefold()).strip()} "


def _runs(text: str) -> set[tuple[str, ...]]:
    found = terms(blocks.plain_text(text))
    return set(zip(*(found[n:] for n in range(RUN)), strict=False))


def _before_the_cut(
    differences: Sequence[Difference], old: Sequence[Entry], new: Sequence[Entry]
) -> list[Difference]:
    """Keep the differences before the last statement that both versions have.

    Text after it may be cut off in one version.
    """
    ours, theirs = {entry.match for entry in new}, {entry.match for entry in old}
    last_old = max((entry.order for entry in old if entry.match in ours), default=-1)
    last_new = max((entry.order for entry in new if entry.match in theirs), default=-1)
    return [
        one
        for one in differences
        if (one.old is None or one.old.order <= last_old)
        and (one.new is None or one.new.order <= last_new)
    ]


def _is_another_page(diff: PageDiff, old: Sequence[Entry], new: Sequence[Entry]) -> bool:
    """Whether a short page has nothing left of its last version, not even what its statements are about."""
    kinds = {difference.kind for difference in diff.differences}
    if max(len(old), len(new)) < MIN_STATEMENTS or diff.unchanged or not kinds <= {ADDED, REMOVED}:
        return False
    first = [next((entry.path[0] for entry in each if entry.path), "") for each in (old, new)]
    return not first[0] or first[0] != first[1]


def _columns_changed(old: Sequence[Entry], new: Sequence[Entry], diff: PageDiff) -> list[str]:
    """Describe which columns the tables under each heading gained, lost and renamed."""
    before, after = _columns(old), _columns(new)
    texts = []
    for path, names in after.items():
        if path not in before:
            continue
        was = {name: diff.columns.get(name, name) for name in names}
        parts = [
            _("%(name)s (was %(was)s)") % {"name": name, "was": was[name]}
            for name in names
            if was[name] != name
        ]
        changes = [
            (_("%(names)s added"), [n for n in names if was[n] == n and n not in before[path]]),
            (_("%(names)s removed"), [n for n in before[path] if n not in was.values()]),
        ]
        parts += [words % {"names": ", ".join(found[:5])} for words, found in changes if found]
        if parts:
            texts.append(", ".join(parts))
    return texts


def _columns(entries: Sequence[Entry]) -> dict[tuple[str, ...], list[str]]:
    """Return the column names of the tables under each heading."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for entry in entries:
        if entry.kind == ROW:
            found.setdefault(entry.path, {}).update(
                dict.fromkeys(name for name, _value in entry.fields if name)
            )
    return {path: list(names) for path, names in found.items() if names}


def outcome(
    pages: Sequence[PageText],
    facts: Sequence[KnownFact],
    struck: Sequence[str] = (),
    outranked: Sequence[KnownFact] = (),
) -> Outcome:
    """Compare each page with its last version, and the facts with both.

    `outranked` are facts outside the top 10. A change can be one of them.
    """
    result = Outcome()
    again = [compare_with_last(page) for page in pages if page.previous]
    pairs: list[tuple[PageChange, PageText]] = []
    for one in again:
        if one.diff.is_replaced:
            result.replaced.append(one.page)
        elif one.is_unchanged:
            result.unchanged += 1
        else:
            result.changed += 1
        result.columns += [f"{one.page.domain}: {said}" for said in one.columns]
        pairs += [(change, one.page) for change in one.news]
    pairs = _moved_between_pages(pairs, [page for page in pages if not page.previous])
    pairs = _without_moved(pairs, [page for page in pages if page.previous])
    pairs = [each for each in pairs if not _is_struck(each[0], struck)]
    best = [
        each
        for place, each in enumerate(_spread(pairs)[:MAX_LOUD])
        if place < MAX_NEWS or each[0].weight >= LOUD
    ]
    result.left_out = len(pairs) - len(best)
    kept = {id(change) for change, _page in best}
    by_page = _by_page(facts)
    unread = _by_words(facts, pages)
    others = _by_page(outranked)
    for change, page in pairs:
        known = unread.get(match_key(change.sentence)) if change.status == page_news.NEW else None
        if known is not None and known.id not in result.spoken_of:
            result.spoken_of.add(known.id)
            result.changes.append(_confirmed(known, page, change.quote))
        elif id(change) in kept:
            of_page = [*by_page.get(page_of(page.url), []), *_facts_elsewhere(change, unread)]
            of_page += others.get(page_of(page.url), [])
            result.changes += [
                _change(one, page, of_page, result.spoken_of)
                for one in _split_merged(change, of_page)
            ]
    for one in again:
        _confirm_or_mark_gone(one, by_page.get(page_of(one.page.url), []), pages, result)
    return result


def _spread(pairs: Sequence[tuple[PageChange, PageText]]) -> list[tuple[PageChange, PageText]]:
    """Return changes by weight. Each further one under the same heading weighs a little less.

    This way, a long table that was removed doesn't crowd out everything else.
    """
    before: Counter[tuple[int, str, tuple[str, ...]]] = Counter()
    weighed = []
    for change, page in sorted(pairs, key=lambda each: -each[0].weight):
        place = (page.number, change.status, change.path)
        weighed.append((change.weight - LESS_FOR_MORE * before[place], (change, page)))
        before[place] += 1
    return [each for _weight, each in sorted(weighed, key=lambda pair: -pair[0])]


def _by_page(facts: Sequence[KnownFact]) -> dict[str, list[KnownFact]]:
    """Return the facts by their source page, in any version."""
    found: dict[str, list[KnownFact]] = {}
    for fact in facts:
        found.setdefault(page_of(fact.url), []).append(fact)
    return found


def _by_words(facts: Sequence[KnownFact], pages: Sequence[PageText]) -> dict[str, KnownFact]:
    """Return the facts whose page wasn't read, by their words: a renamed file is another page."""
    read = {page_of(page.url) for page in pages}
    return {match_key(fact.text): fact for fact in facts if page_of(fact.url) not in read}


def _facts_elsewhere(change: PageChange, unread: Mapping[str, KnownFact]) -> list[KnownFact]:
    """Return the facts of unread pages that say word for word what a read page said before."""
    changed = [one for one in change.members or [change] if one.status == page_diff.CHANGED]
    found = (unread.get(match_key(one.before)) for one in changed)
    return [fact for fact in found if fact is not None]


def _is_struck(change: PageChange, struck: Sequence[str]) -> bool:
    found = matching.match(change.sentence, struck) if struck else None
    return found is not None and found.kind == "confirmed"


def _moved_between_pages(
    pairs: Sequence[tuple[PageChange, PageText]], new_pages: Sequence[PageText]
) -> list[tuple[PageChange, PageText]]:
    """Merge a statement gone from one page and new on another into one change.

    One that is a statement of a page of the same site, read for the first time, isn't gone.
    """
    losing = {domain_of(page.url) for change, page in pairs if change.status == page_news.GONE}
    stated: defaultdict[str, set[str]] = defaultdict(set)  # by site
    for other in new_pages:
        if domain_of(other.url) in losing:
            stated[domain_of(other.url)] |= _statements(other)
    come = {
        change.subject: (change, page)
        for change, page in pairs
        if change.status == page_news.NEW and len(change.subject) > 3
    }
    moved: dict[int, PageChange] = {}
    dropped: set[int] = set()
    for change, page in pairs:
        lost = [one.before_quote for one in change.members or [change]]
        is_gone = change.status == page_news.GONE
        if is_gone and {*map(match_key, lost)} <= stated[domain_of(page.url)]:
            dropped.add(id(change))
            continue
        if change.status != page_news.GONE or change.subject not in come:
            continue
        new, other = come[change.subject]
        if other.number != page.number:
            dropped.add(id(change))
            moved[id(new)] = new.after(change)
    return [(moved.get(id(c), c), page) for c, page in pairs if id(c) not in dropped]


def _without_moved(
    pairs: Sequence[tuple[PageChange, PageText]], known: Sequence[PageText]
) -> list[tuple[PageChange, PageText]]:
    """Leave out new statements that another known page had, and gone ones that another one has."""
    if len(known) < 2:
        return list(pairs)
    groups = {
        page_news.NEW: [(page.number, _bare_words(page.previous)) for page in known],
        page_news.GONE: [(page.number, _bare_words(page.text)) for page in known],
    }

    def is_elsewhere(change: PageChange, page: PageText) -> bool:
        words = _bare_words(change.quote)
        return width(words) >= MIN_ROW and any(
            number != page.number and words in text
            for number, text in groups.get(change.status, ())
        )

    return [
        (change, page)
        for change, page in pairs
        if not all(is_elsewhere(one, page) for one in change.members or [change])
    ]


def _statements(page: PageText) -> set[str]:
    """Return the statements of a page in normalized form."""
    language = language_of(one_line(page.text[:4_000]))
    (entries,) = blocks.parse_versions([page.text], language, page.domain)
    return {match_key(entry.quote) for entry in entries if word_count(entry.quote) >= FEW_WORDS}


def _split_merged(change: PageChange, facts: Sequence[KnownFact]) -> Sequence[PageChange]:
    """Split a merged change if a fact rests on one of its parts."""
    is_known = any(_rests_on(fact, one) for fact in facts for one in change.members)
    return change.members if is_known else [change]


def _change(
    change: PageChange, page: PageText, facts: Sequence[KnownFact], spoken_of: set[str]
) -> Change:
    statuses = {
        page_news.NEW: Status.NEW, page_news.GONE: Status.GONE, page_diff.CHANGED: Status.CHANGED,
    }  # fmt: skip
    made = Change(statuses[change.status], change.sentence, [page.number], change.quote)
    made.compared_by, made.told = VERSIONS, change.told
    if change.status == page_news.NEW:
        return made
    made.previous_text = change.before
    made.previous_source = {
        "link": page.url, "title": page.title, "domain": domain_of(page.url) or page.domain,
        "published_at": None, "quote": change.before_quote,
    }  # fmt: skip
    if change.status == page_news.GONE:
        made.quote = ""
    fact = next((one for one in facts if _rests_on(one, change)), None)
    if fact is not None:
        made.previous_id = fact.id
        if not change.told:  # a record names the same fields before and now
            made.previous_text = fact.text
        spoken_of.add(fact.id)
        if fact.is_kept and made.status == Status.CHANGED:
            # A person's fact isn't replaced, so a change contradicts it.
            made.status = Status.CONTRADICTED
    return made


def _rests_on(fact: KnownFact, change: PageChange) -> bool:
    """Return True if a fact of a page says what the page said before a change."""
    if match_key(fact.text) == match_key(change.before):
        return True
    quote = fold(fact.quote)
    if quote and quote in fold(change.before_quote):
        return True
    found = matching.match(change.before, [fact.text])
    return found is not None and found.kind == "confirmed"


def _confirm_or_mark_gone(
    one: Reread, facts: Sequence[KnownFact], pages: Sequence[PageText], result: Outcome
) -> None:
    """Confirm the facts that the page or another one still states. Mark the others as gone."""
    text = NormalizedText(one.page.text)
    others = [page for page in pages if page.number != one.page.number]
    for fact in facts:
        if fact.id in result.spoken_of:
            continue
        result.spoken_of.add(fact.id)
        quote = next((words for words in _evidence(fact) if _is_there(words, text)), "")
        if quote:
            change = Change(Status.CONFIRMED, fact.text, [one.page.number], quote)
            change.follows = _is_renamed(fact, one.page)
        elif fact.is_corrected:
            change = Change(Status.GONE_QUIET, fact.text)
            result.not_found.add(fact.id)
        elif followed := _reworded(fact, one) or moved(fact, others):
            change = followed
        elif one.diff.is_replaced or not fact.quote or _may_be_cut_off(fact, one):
            change = Change(Status.GONE_QUIET, fact.text)
        elif not _is_removed(fact, one):
            change = Change(Status.GONE_QUIET, fact.text)
            result.not_found.add(fact.id)
        else:
            change = Change(Status.GONE, fact.text, [one.page.number])
        change.previous_id, change.previous_text = fact.id, fact.text
        change.previous_source = source_of(fact)
        change.compared_by = VERSIONS
        result.changes.append(change)


def _is_renamed(fact: KnownFact, page: PageText) -> bool:
    """Whether a library document has another title now. That of a web page can change every time."""
    is_document = ADDRESS.fullmatch(page.url) is not None
    return is_document and not fact.is_corrected and bool(page.title) and page.title != fact.title


def _reworded(fact: KnownFact, one: Reread) -> Change | None:
    """Return the change of a fact whose statement has another form, spelling or place in its table.

    The fact gets the new words if it had those of the page.
    """
    news = (part for change in one.news for part in change.members or [change])
    if _is_removed(fact, one) or any(_rests_on(fact, part) for part in news):
        return None
    key = match_key(fact.text)
    for before, after in [*_same_statements(fact, one), *_edited_statements(fact, one)]:
        change = replace(_confirmed(fact, one.page, after.quote), follows=True)
        if key == match_key(words_of(before, one.page.title)):
            change.sentence = words_of(after, one.page.title)
        return change
    return None


def moved(fact: KnownFact, others: Iterable[PageText]) -> Change | None:
    """Return the change of a fact whose statement is now on another page, word for word."""
    if fact.is_corrected or width(fact.quote) < MIN_ROW or word_count(fact.quote) < FEW_WORDS:
        return None
    for page in others:
        if _is_there(fact.quote, NormalizedText(page.text)):
            return replace(_confirmed(fact, page, fact.quote), follows=True)
    return None


def _confirmed(fact: KnownFact, page: PageText, quote: str) -> Change:
    change = Change(Status.CONFIRMED, fact.text, [page.number], quote, fact.id, fact.text)
    change.previous_source = source_of(fact)
    return change


def as_gone(fact: KnownFact) -> Change:
    """Return the change of a fact whose document was deleted."""
    change = Change(Status.GONE, fact.text, previous_id=fact.id, previous_text=fact.text)
    change.previous_source = source_of(fact)
    return change


def states(page: PageText, fact: KnownFact) -> bool:
    """Return True if a page has the words of a fact, or its quote."""
    text = NormalizedText(page.text)
    return any(_is_there(words, text) for words in _evidence(fact))


def _evidence(fact: KnownFact) -> tuple[str, ...]:
    """Return the texts that show that a page states a fact. A corrected fact's quote is the wrong text."""
    return (fact.text,) if fact.is_corrected else (fact.quote, fact.text)


def _is_there(words: str, text: NormalizedText) -> bool:
    value = fold(words)
    return len(one_line(words)) >= MIN_QUOTE and text.find_folded(value) is not None


def _may_be_cut_off(fact: KnownFact, one: Reread) -> bool:
    """Return True if a fact may be on the part of a long page that wasn't kept."""
    if not one.page.is_cut(one.page.text):
        return False
    quote = fold(fact.quote)
    removed = (each.old for each in one.diff.differences if each.old is not None)
    return not any(quote in fold(entry.quote) for entry in removed)


def _is_removed(fact: KnownFact, one: Reread) -> bool:
    """Return True if a statement that a fact quotes was removed, not reworded, moved or merged.

    A record also counts as removed if a column of its table was removed.
    """
    quote = fold(fact.quote)
    removed = (
        fold(d.old.quote) for d in one.diff.differences if d.old is not None and d.new is None
    )
    if any(quote in words or words in quote for words in removed if words):
        return True
    return any(not _has_all(before, after, one) for before, after in _same_records(fact, one))


def _same_records(fact: KnownFact, one: Reread) -> Iterator[tuple[Entry, Entry]]:
    """Yield the records that a fact states, in the last version and in this one."""
    quote, text = fold(fact.quote), match_key(fact.text)
    was = [
        entry
        for entry in one.old
        if entry.fields
        and entry.key
        and (fold(entry.quote) == quote or match_key(words_of(entry, one.page.title)) == text)
    ]
    for before in was:
        for after in one.new:
            if (after.kind, after.path, after.key) == (before.kind, before.path, before.key):
                yield before, after


def _has_all(before: Entry, after: Entry, one: Reread) -> bool:
    names = {one.diff.columns.get(name, name) for name, _value in after.fields}
    return all(name in names for name, value in before.fields if value)


def _edited_statements(fact: KnownFact, one: Reread) -> Iterator[tuple[Entry, Entry]]:
    """Yield the statement that a fact quotes, in both versions, if the edit of it isn't news."""
    quote, key = fold(fact.quote), match_key(fact.text)
    edits = ((d.old, d.new) for d in one.diff.differences if d.kind in (CHANGED, MOVED))
    for before, after in [*one.diff.pairs, *edits]:
        if before is None or after is None or before.quote == after.quote:
            continue
        if quote == fold(before.quote) or key == match_key(words_of(before, one.page.title)):
            yield before, after


def _same_statements(fact: KnownFact, one: Reread) -> Iterator[tuple[Entry, Entry]]:
    """Yield the record that a fact states, in both versions, if only its form changed.

    Its columns may have moved, and a date may have another form. A missing field is a difference.
    """
    for before, after in _same_records(fact, one):
        columns = one.diff.columns
        names = {columns.get(name, name) for name, _value in after.fields}
        more = names - {name for name, _value in before.fields}
        if _has_all(before, after, one) and not page_diff.differing_cells(
            before, after, columns, more, one.diff.words
        ):
            yield before, after
